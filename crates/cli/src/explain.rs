//! `wireloom explain`: the bounds of apps, the links between apps, or a diagnostic's code.

use crate::args::Explain;
use crate::{load, place, run, Failure, Outcome};
use std::path::Path;
use wireloom_ir::passes::affinity_groups;
use wireloom_runtime::packet;
use wireloom_syntax::codes;

pub fn explain(args: Explain) -> Outcome {
    let first = args.what[0].as_str();
    if first == "codes" {
        for code in codes::all() {
            println!("{}  {}", code.code, code.title);
        }
        return Ok(());
    }
    if let Some(code) = codes::find(&code_of(first)) {
        println!("{}: {}\n\n{}", code.code, code.title, filled(code.explanation));
        if !code.example.is_empty() {
            println!("\nFor example:\n");
            code.example.lines().for_each(|l| println!("    {l}"));
        }
        return Ok(());
    }
    if looks_like_code(&code_of(first)) {
        return Err(Failure::Said(format!("there is no code {first}; `wireloom explain codes` lists them")));
    }
    let mut apps = Vec::new();
    for file in &args.what {
        apps.extend(load::load_all(Path::new(file))?);
    }
    if args.place.is_some() {
        for app in &apps {
            print!("{}", place::report(app, &args.set)?);
        }
        return Ok(());
    }
    let bound = match args.bind.is_empty() && args.set.is_empty() {
        true => affinity_groups::by_name(&apps),
        false => {
            let descs: Vec<_> = apps.iter().map(wireloom_ir::Module::desc).collect();
            let bind = run::pairs("bind", "PORT=ENGINE:NAME, as in wire=pcap:in.pcap", &args.bind)?;
            run::bound(&descs, args.set[..].into(), packet::Options { bind, ..packet::Options::default() })?
        }
    };
    let link = |m: &wireloom_ir::Module| packet::nic::Link::of(&m.link, &args.link);
    let report = |m: &wireloom_ir::Module| -> Result<String, String> {
        Ok(wireloom_ir::explain::report(m) + &packet::nic::explained(&m.desc(), &link(m)?))
    };
    let reports: Vec<String> = apps.iter().map(report).collect::<Result<_, _>>()?;
    print!("{}{}", reports.join("\n"), wireloom_ir::explain::clusters(&apps, &bound));
    Ok(())
}

/// Paragraphs in lines of at most 100 columns.
fn filled(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut column = 0;
        for word in line.split(' ') {
            let width = word.chars().count();
            let apart = if column == 0 {
                ""
            } else if column + 1 + width > 100 {
                "\n"
            } else {
                " "
            };
            column = if apart == " " { column + 1 + width } else { width };
            out.push_str(apart);
            out.push_str(word);
        }
        out.push('\n');
    }
    out.trim_end().to_string()
}

fn looks_like_code(text: &str) -> bool {
    text.len() == 5 && text.starts_with(['E', 'W']) && text[1..].bytes().all(|b| b.is_ascii_digit())
}

/// `e0601`, `601` and `E0601` are the same code.
fn code_of(text: &str) -> String {
    let short = (3..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if short {
        format!("E{text:0>4}")
    } else {
        text.to_ascii_uppercase()
    }
}
