//! `wireloom explain`: the bounds of apps, the links between apps, or a diagnostic's code.

use crate::args::Explain;
use crate::{load, place, run, Failure, Outcome};
use std::path::Path;
use wireloom_ir::desc::Desc;
use wireloom_ir::passes::affinity_groups;
use wireloom_ir::{explain, Module};
use wireloom_runtime::{packet, params};
use wireloom_syntax::codes;

pub fn command(args: Explain) -> Outcome {
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
        let of_file = load::load_all(Path::new(file))?;
        if of_file.iter().any(|m| m.app.is_empty()) {
            let tests = format!("`wireloom test {file}` runs its tests");
            return Err(Failure::Said(format!("{file} has no app to explain; {tests}")));
        }
        apps.extend(of_file);
    }
    print!("{}", report(apps, &args).map_err(|e| e.named(&args.set, None))?);
    Ok(())
}

/// The report of apps as `run` would run them with these settings.
fn report(mut apps: Vec<Module>, args: &Explain) -> Result<String, Failure> {
    let descs: Vec<Desc> = apps.iter().map(Module::desc).collect();
    let sets = run::sets(&descs.iter().collect::<Vec<_>>(), args.set[..].into())?;
    if args.place.is_some() {
        return apps.iter().zip(&sets).map(|(app, sets)| place::report(app, sets)).collect();
    }
    let bind = run::pairs("bind", "PORT=ENGINE:NAME, as in wire=pcap:in.pcap", &args.bind)?;
    let options = packet::Options { bind, ..packet::Options::default() };
    let bound = match args.bind.is_empty() && args.set.is_empty() {
        true => affinity_groups::by_name(&apps),
        false => run::bound(&descs, args.set[..].into(), options.clone())?,
    };
    // Of several apps the ports were looked at for what they share.
    if let [desc] = &descs[..] {
        packet::check_bindings(&mut desc.clone(), &options)?;
    }
    for (m, sets) in apps.iter_mut().zip(&sets) {
        set(m, sets)?;
    }
    let of_app = |(m, sets): (&Module, &Vec<(String, String)>)| -> Result<String, Failure> {
        let (link, set) = (packet::nic::Link::of(&m.link, &args.link)?, sets.iter().map(|s| s.0.as_str()).collect());
        Ok(explain::report(m, &set) + &packet::nic::explained(&m.desc(), &link))
    };
    let reports = apps.iter().zip(&sets).map(of_app).collect::<Result<Vec<_>, _>>()?;
    Ok(reports.join("\n") + &explain::clusters(&apps, &bound))
}

/// Gives a program its settings. An error is that of `run`, but values may be missing.
fn set(m: &mut Module, sets: &[(String, String)]) -> Outcome {
    let desc = params::with_defaults(m.desc(), sets)?;
    if desc.params.iter().all(|p| p.default.is_some()) {
        params::resolve(&desc, &[])?;
    }
    m.params.iter_mut().zip(desc.params).for_each(|(p, of)| p.default = of.default);
    m.ports.iter_mut().zip(desc.ports).for_each(|(p, of)| p.options = of.options);
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
