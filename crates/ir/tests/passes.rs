//! Golden tests of passes, text to text, each file a test: `tests/passes/NAME.ir` begins with `//
//! passes: fold, edits` (`analyze` stands for the grammar analysis) and is compared, after these,
//! with `NAME.out`. `BLESS=1 cargo test -p wireloom-ir --test passes -- NAME` writes the `.out`
//! file anew; read the difference before you commit it.

use std::{fs, path::Path};
use wireloom_golden::Golden;
use wireloom_ir::{grammar, passes, text};

fn main() {
    let files = wireloom_golden::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes"), "ir");
    assert!(files.len() >= 5, "{} cases", files.len());
    wireloom_golden::run(
        files.into_iter().map(|p| wireloom_golden::test(wireloom_golden::name(&p), move || run(&p))).collect(),
    )
}

fn run(file: &Path) -> Result<(), String> {
    let source = fs::read_to_string(file).map_err(|e| e.to_string())?;
    let names = source
        .lines()
        .next()
        .and_then(|l| l.strip_prefix("// passes: "))
        .ok_or("the first line is not `// passes: …`")?;
    let mut m = text::parse(&source).map_err(|e| e.to_string())?;
    for name in names.split(',').map(str::trim) {
        if name == "analyze" {
            let findings = grammar::analyze(&mut m);
            if !findings.is_empty() {
                return Err(format!("{findings:?}"));
            }
        } else {
            let pass = passes::find(name).ok_or(format!("no pass is called {name}"))?;
            (pass.run)(&mut m);
        }
    }
    let printed = text::print(&m);
    if let Some(long) = printed.lines().find(|l| l.chars().count() > 120) {
        return Err(format!("a line of more than 120 columns: {long}"));
    }
    if text::parse(&printed).map_err(|e| e.to_string())? != m {
        return Err("what is printed is not read back".into());
    }
    wireloom_golden::compare(&[Golden { path: file.with_extension("out"), text: Some(printed) }])
}
