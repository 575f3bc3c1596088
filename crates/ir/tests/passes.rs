//! Golden tests of passes, text to text: `tests/passes/NAME.ir` begins with `// passes: fold, edits` (`analyze` stands for
//! the grammar analysis) and is compared, after these, with `NAME.out`. `BLESS=1 cargo test -p wireloom-ir` writes the
//! `.out` files anew; read the difference before you commit it.

use std::{fs, path::Path};
use wireloom_ir::{grammar, passes, text};

fn run(file: &Path) -> Result<(), String> {
    let source = fs::read_to_string(file).map_err(|e| e.to_string())?;
    let names = source.lines().next().and_then(|l| l.strip_prefix("// passes: ")).ok_or("the first line is not `// passes: …`")?;
    let mut m = text::parse(&source).map_err(|e| e.to_string())?;
    for name in names.split(',').map(str::trim) {
        if name == "analyze" {
            let findings = grammar::analyze(&mut m);
            if !findings.is_empty() { return Err(format!("{findings:?}")) }
        } else {
            let pass = passes::find(name).ok_or(format!("no pass is called {name}"))?;
            (pass.run)(&mut m);
        }
    }
    let printed = text::print(&m);
    let golden = file.with_extension("out");
    if std::env::var_os("BLESS").is_some() { return fs::write(golden, printed).map_err(|e| e.to_string()) }
    let expected = fs::read_to_string(&golden).map_err(|_| "there is no .out file yet: run with BLESS=1")?;
    if expected == printed { return Ok(()) }
    let line = expected.lines().zip(printed.lines()).position(|(a, b)| a != b).unwrap_or_else(|| expected.lines().count().min(printed.lines().count()));
    let at = |s: &str| s.lines().nth(line).unwrap_or("(end)").trim().to_string();
    Err(format!("line {} of the .out file\n  expected {}\n  but it is {}", line + 1, at(&expected), at(&printed)))
}

#[test]
fn golden() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "ir")).collect();
    files.sort();
    assert!(files.len() >= 5);
    let failed: Vec<String> = files.iter().filter_map(|f| run(f).err().map(|e| format!("{}: {e}", f.display()))).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
