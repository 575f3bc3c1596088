//! Programs under `tests/cases`: a line's expected diagnostics stand behind it as `//~ CODE part of the message`; a program without any
//! has its IR beside it (`.ir`). `BLESS=1 cargo test` writes both anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use wireloom_syntax::{OsWorld, Severity};

fn folder(name: &str) -> PathBuf { Path::new(env!("CARGO_MANIFEST_DIR")).join(name) }

fn cases() -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(folder("tests/cases")).expect("tests/cases").flatten().map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "loom")).collect();
    all.sort();
    all
}

/// The text with what the checker says behind each line.
fn annotated(path: &Path) -> (String, String, Option<String>) {
    let text = std::fs::read_to_string(path).expect("a case");
    let checked = wireloom_lang::compile(&OsWorld::new(folder("../../std")), path, None);
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        let bare = line.split("//~").next().unwrap_or("").trim_end();
        out += bare;
        let here = checked.diagnostics.iter().filter(|d| d.severity != Severity::Note && d.span().is_some_and(|s| checked.map.position(s).line == i + 1));
        for d in here { let _ = write!(out, " //~ {} {}", d.code, d.message.lines().next().unwrap_or("")); }
        out.push('\n');
    }
    // What uses the standard library changes with it.
    let module = checked.module.filter(|_| !text.contains("use std"));
    let ir = module.map(|mut m| { m.files.clear(); wireloom_ir::text::print(&m) });
    (text, out, ir)
}

#[test]
fn diagnostics_stand_where_they_are_expected() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for path in cases() {
        let (text, out, ir) = annotated(&path);
        let golden = path.with_extension("ir");
        if bless {
            std::fs::write(&path, &out).expect("written");
            match &ir { Some(ir) => std::fs::write(&golden, ir).expect("written"), None => drop(std::fs::remove_file(&golden)) }
            continue;
        }
        if text != out { wrong.push(format!("{}:\n{out}", path.display())); }
        if let Some(ir) = ir {
            if std::fs::read_to_string(&golden).unwrap_or_default() != ir { wrong.push(format!("{}: the IR differs", golden.display())); }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_ir_of_every_program_is_valid() {
    let world = OsWorld::new(folder("../../std"));
    for path in cases() {
        let Some(mut m) = wireloom_lang::compile(&world, &path, None).module else { continue };
        let errors = wireloom_ir::verify::verify_lowered(&m);
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        wireloom_ir::passes::run_all(&mut m);
        let errors = wireloom_ir::verify::verify(&m);
        assert!(errors.is_empty(), "{} after the passes: {errors:?}", path.display());
    }
}
