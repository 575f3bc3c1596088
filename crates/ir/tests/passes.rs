//! Golden tests of passes, text to text, each file a test. `tests/passes/NAME.ir` begins with `//
//! passes: fold, edits` (`analyze` stands for the grammar analysis). After these passes it is
//! compared with `NAME.out`. `BLESS=1 cargo test -p wireloom-ir --test passes -- NAME` writes the
//! `.out` file anew; read the difference before you commit it.
//!
//! A file may have several apps, with the line `// another app` between them. `affinity_groups`
//! runs over all of them, and its clusters stand before the first.

use std::collections::BTreeSet;
use std::{fs, path::Path, path::PathBuf};
use wireloom_golden::Golden;
use wireloom_ir::passes::{self, affinity_groups};
use wireloom_ir::{grammar, text, verify, Module};

const BETWEEN: &str = "// another app\n";

fn main() {
    let files = wireloom_golden::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes"), "ir");
    let mut all: Vec<_> =
        files.iter().cloned().map(|p| wireloom_golden::test(wireloom_golden::name(&p), move || run(&p))).collect();
    all.push(wireloom_golden::test("every pass has a case", move || every_pass(&files)));
    wireloom_golden::run(all)
}

/// The passes that a file names.
fn named(source: &str) -> Result<Vec<String>, String> {
    let first = source.lines().next().and_then(|l| l.strip_prefix("// passes: "));
    Ok(first.ok_or("the first line is not `// passes: …`")?.split(',').map(|w| w.trim().to_string()).collect())
}

fn every_pass(files: &[PathBuf]) -> Result<(), String> {
    let mut shown = BTreeSet::new();
    for f in files {
        shown.extend(named(&fs::read_to_string(f).map_err(|e| e.to_string())?)?)
    }
    let all = passes::TABLE.iter().map(|p| p.name).chain(["affinity_groups"]);
    match all.filter(|p| !shown.contains(*p)).collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        missing => Err(format!("no file in tests/passes begins with {missing:?}")),
    }
}

fn run(file: &Path) -> Result<(), String> {
    let source = fs::read_to_string(file).map_err(|e| e.to_string())?;
    let parsed = source.split(BETWEEN).map(|part| text::parse(part).map_err(|e| e.to_string()));
    let mut apps = parsed.collect::<Result<Vec<Module>, String>>()?;
    let sound: Vec<bool> = apps.iter().map(|m| verify::verify_lowered(m).is_empty()).collect();
    let mut printed = String::new();
    for name in named(&source)? {
        match name.as_str() {
            "affinity_groups" => printed += &clusters(&mut apps),
            name => apps.iter_mut().try_for_each(|m| pass(m, name))?,
        }
    }
    for (m, sound) in apps.iter().zip(sound) {
        let errors = verify::verify_lowered(m);
        if sound && !errors.is_empty() {
            return Err(format!("the passes break the module: {errors:?}"));
        }
        let part = text::print(m);
        if let Some(long) = part.lines().find(|l| l.chars().count() > 120) {
            return Err(format!("a line of more than 120 columns: {long}"));
        }
        if text::parse(&part).map_err(|e| e.to_string())? != *m {
            return Err("what is printed is not read back".into());
        }
        printed += if printed.contains("app ") { BETWEEN } else { "" };
        printed += &part
    }
    wireloom_golden::compare(&[Golden { path: file.with_extension("out"), text: Some(printed) }])
}

fn pass(m: &mut Module, name: &str) -> Result<(), String> {
    if name == "analyze" {
        let findings = grammar::analyze(m);
        return if findings.is_empty() { Ok(()) } else { Err(format!("{findings:?}")) };
    }
    (passes::find(name).ok_or(format!("no pass is called {name}"))?.run)(m);
    Ok(())
}

/// Steers the apps of each cluster by its key, and names the clusters.
fn clusters(apps: &mut [Module]) -> String {
    let bound = affinity_groups::by_name(apps);
    let clusters = affinity_groups::clusters(apps, &bound);
    affinity_groups::apply(apps, &bound);
    let line = |c: &affinity_groups::Cluster| {
        let names: Vec<&str> = c.apps.iter().map(|n| apps[*n].app.as_str()).collect();
        format!("// cluster of {}: {}\n", names.join(", "), c.key)
    };
    clusters.iter().map(line).collect()
}
