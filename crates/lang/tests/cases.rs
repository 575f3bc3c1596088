//! Programs under `tests/cases`, each a test. A line's expected diagnostics stand behind it as `//~
//! CODE part of the message`. A program without any has its IR beside it (`.ir`). `BLESS=1 cargo
//! test -p wireloom-lang --test cases -- NAME` writes both anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use wireloom_golden::{compare, Golden};
use wireloom_syntax::{OsWorld, Severity, World};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn main() {
    let cases = wireloom_golden::files(&folder("tests/cases"), "loom");
    assert!(cases.len() >= 50, "{} cases", cases.len());
    let said = cases
        .iter()
        .cloned()
        .map(|p| wireloom_golden::test(wireloom_golden::name(&p), move || compare(&annotated(&p))));
    let valid = cases
        .iter()
        .cloned()
        .map(|p| wireloom_golden::test(format!("{}::ir_is_valid", wireloom_golden::name(&p)), move || ir_is_valid(&p)));
    wireloom_golden::run(said.chain(valid).collect())
}

/// The text with the checker's diagnostics behind each line, and its IR.
fn annotated(path: &Path) -> [Golden; 2] {
    let text = std::fs::read_to_string(path).expect("a case");
    let checked = wireloom_lang::compile(&OsWorld::new(folder("../../std")), path, None);
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        let bare = line.split("//~").next().unwrap_or("").trim_end();
        out += bare;
        let here = checked.diagnostics.iter().filter(|d| {
            d.severity != Severity::Note && d.span().is_some_and(|s| checked.map.position(s).line == i + 1)
        });
        for d in here {
            let _ = write!(out, " //~ {} {}", d.code, d.message.lines().next().unwrap_or(""));
        }
        out.push('\n');
    }
    // The IR of a program with the standard library changes with the library. Its positions are
    // those in the text as it will be.
    let module = checked.module.filter(|_| !text.contains("use std")).and_then(|m| {
        if out == text {
            return Some(m);
        }
        let world = Annotated { files: OsWorld::new(folder("../../std")), path, text: &out };
        wireloom_lang::compile(&world, path, None).module
    });
    let ir = module.map(|mut m| {
        m.files.clear();
        wireloom_ir::text::print(&m)
    });
    [Golden { path: path.to_path_buf(), text: Some(out) }, Golden { path: path.with_extension("ir"), text: ir }]
}

/// The files, but for one that has another text.
struct Annotated<'a> {
    files: OsWorld,
    path: &'a Path,
    text: &'a str,
}

impl World for Annotated<'_> {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        if path == self.path {
            return Ok(self.text.into());
        }
        self.files.read(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.exists(path)
    }

    fn std_root(&self) -> &Path {
        self.files.std_root()
    }
}

fn ir_is_valid(path: &Path) -> Result<(), String> {
    let Some(mut m) = wireloom_lang::compile(&OsWorld::new(folder("../../std")), path, None).module else {
        return Ok(());
    };
    let errors = wireloom_ir::verify::verify_lowered(&m);
    if !errors.is_empty() {
        return Err(format!("{errors:?}"));
    }
    wireloom_ir::passes::run_all(&mut m);
    let errors = wireloom_ir::verify::verify(&m);
    if errors.is_empty() {
        Ok(())
    } else {
        Err(format!("after the passes: {errors:?}"))
    }
}
