//! Golden tests: each file of `cases/` is a test and ends in comments with its expected result.
//! That is its diagnostics if there are any, else its tree without spans. Behind it stands the
//! formatter's output, if that differs. `BLESS=1 cargo test -p wireloom-syntax --test cases --
//! NAME` writes one anew.

use std::path::Path;
use wireloom_golden::Golden;
use wireloom_syntax::diagnostic::render_all;
use wireloom_syntax::format::without_spans;
use wireloom_syntax::{format, parse, SourceMap};

const MARK: &str = "\n//= ";

/// The program itself.
fn source(text: &str) -> &str {
    &text[..text.find(MARK).map_or(text.len(), |at| at + 1)]
}

fn main() {
    let files = wireloom_golden::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"), "loom");
    assert!(files.len() >= 10, "{} cases", files.len());
    wireloom_golden::run(
        files.into_iter().map(|p| wireloom_golden::test(wireloom_golden::name(&p), move || run(&p))).collect(),
    )
}

fn run(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let program = source(&text);
    let marked: String = outcome(&name, program).lines().map(|l| format!("//= {l}\n")).collect();
    wireloom_golden::compare(&[Golden { path: path.to_path_buf(), text: Some(format!("{program}{marked}")) }])
}

fn outcome(name: &str, text: &str) -> String {
    let mut map = SourceMap::new();
    let id = map.add(name, text);
    let parsed = parse(id, text);
    let mut out = String::new();
    if !parsed.diagnostics.is_empty() {
        out.push_str(&render_all(&parsed.diagnostics, &map, false));
        return out;
    }
    for item in &parsed.file.items {
        out.push_str(
            &without_spans(&format!("{:?}\n", item.kind)).replace("span: @", "").replace("Ident { name: ", "{"),
        );
    }
    let formatted = format(text).unwrap();
    if formatted != text {
        out.push_str("---- formatted\n");
        out.push_str(&formatted);
    }
    out
}
