//! The pages of the codes, `docs/errors/CODE.md`: made from the compiler's own table (`wireloom
//! explain`) and its output for each code's example. `BLESS=1 cargo test -p wireloom-tests --test
//! docs -- code::` writes them anew.

use std::fmt::Write;
use std::path::Path;
use wireloom_golden::{compare, test, Golden, Trial};
use wireloom_tests::folder::Folder;
use wireloom_tests::{root, Wireloom};

const MADE: &str = "<!-- Made from the compiler's table of codes by tests/tests/docs/codes.rs; do not edit. -->\n";

const GROUPS: &[(&str, &str)] = &[
    ("E00", "Files and characters"),
    ("E01", "Syntax"),
    ("E02", "Names"),
    ("E03", "Types"),
    ("E04", "Units and grammars"),
    ("E05", "Bounds and termination"),
    ("E06", "Protocols, ports and handlers"),
    ("E07", "State and tables"),
    ("E08", "Defects of the compiler"),
    ("W09", "Warnings"),
];

struct Explained {
    title: String,
    text: String,
    example: String,
}

fn explain(code: &str) -> Explained {
    let out = Wireloom::command(&["explain", code]);
    assert_eq!(out.code, Some(0), "{}", out.text);
    let (head, example) = out.out.split_once("\n\nFor example:\n\n").unwrap_or((&out.out, ""));
    let (title, text) = head.split_once("\n\n").unwrap_or((head, ""));
    let title = title.split_once(": ").map_or(title, |t| t.1).to_string();
    let example = example.lines().map(|l| format!("{}\n", l.strip_prefix("    ").unwrap_or(l))).collect();
    Explained { title, text: text.trim_end().to_string(), example }
}

/// The compiler's output for the example.
fn said(folder: &Path, code: &str, example: &str) -> String {
    std::fs::write(folder.join("example.loom"), example).expect("the folder is writable");
    let out = Wireloom::command_with(&["check", "example.loom"], |c| {
        c.current_dir(folder);
    });
    let shown = format!("[{code}]");
    assert!(out.text.contains(&shown), "the example of {code} has not that error:\n{example}\n{}", out.text);
    assert_eq!(out.code, Some(if code.starts_with('E') { 1 } else { 0 }), "{code}: {}", out.text);
    // Only the diagnostic that the page is about: an example may have others in its wake.
    let one = out.text.split("\n\n").find(|d| d.contains(&shown)).unwrap_or(&out.text);
    format!("{}\n", one.trim_end())
}

fn page(folder: &Path, code: &str) -> String {
    let e = explain(code);
    let mut out = format!("{MADE}\n# {code}: {}\n\n{}\n", e.title, e.text);
    if !e.example.is_empty() {
        let _ = write!(
            out,
            "\nFor example, this has it:\n\n```text\n{}```\n\nThe compiler says:\n\n```text\n{}```\n",
            e.example,
            said(folder, code, &e.example)
        );
    }
    out.push_str("\n[All codes](README.md)\n");
    out
}

fn index(codes: &[(String, String)]) -> String {
    let mut out = format!(
        "{MADE}\n# Diagnostics\n\nEvery diagnostic has a code that never changes its meaning. `wireloom explain CODE` prints the\nsame as \
         these pages; `wireloom explain codes` lists all codes. Codes with E are errors: nothing\nruns. Codes with W are \
         warnings. `wireloom check --json` gives diagnostics as JSON, one per line.\n"
    );
    for (prefix, title) in GROUPS {
        let _ = write!(out, "\n## {title}\n\n| code | meaning |\n|---|---|\n");
        for (code, title) in codes.iter().filter(|(c, _)| c.starts_with(prefix)) {
            let _ = writeln!(out, "| [{code}]({code}.md) | {title} |");
        }
    }
    out
}

/// A test per code, and one for their list.
pub fn tests() -> Vec<Trial> {
    let list = Wireloom::command(&["explain", "codes"]);
    let codes: Vec<String> = list.out.lines().filter_map(|l| l.split(' ').next()).map(str::to_string).collect();
    assert!(codes.len() > 50, "{}", list.text);
    let mut tests: Vec<Trial> =
        codes.iter().cloned().map(|c| test(format!("code::{c}"), move || code_has_its_page(&c))).collect();
    tests.push(test("code::index", move || index_is_complete(&codes)));
    tests
}

fn golden(name: &str, text: String) -> Golden {
    Golden { path: root().join("docs/errors").join(name), text: Some(text) }
}

fn code_has_its_page(code: &str) -> Result<(), String> {
    let folder = Folder::new(code);
    compare(&[golden(&format!("{code}.md"), page(folder.path(), code))])
}

fn index_is_complete(codes: &[String]) -> Result<(), String> {
    let mut titles: Vec<_> = codes.iter().map(|c| (c.clone(), explain(c).title)).collect();
    titles.sort();
    for path in wireloom_golden::files(&root().join("docs/errors"), "md") {
        let name = wireloom_golden::name(&path);
        if name != "README" && !codes.contains(&name) {
            return Err(format!("{name}.md: there is no such code"));
        }
    }
    compare(&[golden("README.md", index(&titles))])
}
