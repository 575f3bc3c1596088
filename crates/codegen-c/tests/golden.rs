//! The C text of a small module, compared with a file. `BLESS=1` writes the file anew.
mod common;
use common::*;
use wireloom_codegen_c::{compile, emit, CompileError, CompileOptions, Options};

#[test]
fn small_module() {
    let text = emit(&module("echo"), &Options::default()).text;
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/small.c");
    wireloom_golden::compare(&[wireloom_golden::Golden { path, text: Some(text) }]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn cached_and_with_all_flags() {
    let dir = cache().join(format!("flags-{}", std::process::id()));
    let plain = CompileOptions { cache_dir: dir.clone(), ..CompileOptions::default() };
    let source = emit(&module("echo"), &Options { lines: true, ..Default::default() });
    assert!(source.text.contains("#line 4 \"echo.loom\""));
    let path = |o: &CompileOptions| compile(&source, o).unwrap().path.unwrap();
    let first = path(&plain);
    let time = std::fs::metadata(&first).unwrap().modified().unwrap();
    assert_eq!(path(&plain), first);
    assert_eq!(std::fs::metadata(&first).unwrap().modified().unwrap(), time, "compiled twice");
    let other = |o: CompileOptions| assert_ne!(path(&o), first);
    other(CompileOptions { sanitize: true, ..plain.clone() });
    other(CompileOptions { portable: true, opt: 1, ..plain.clone() });
    other(CompileOptions { cc: Some("gcc".into()), ..plain.clone() });
    let missing = compile(&source, &CompileOptions { cc: Some("no-such-compiler".into()), ..plain });
    assert!(matches!(missing, Err(CompileError::NoCompiler { .. })));
    std::fs::remove_dir_all(dir).unwrap();
}
