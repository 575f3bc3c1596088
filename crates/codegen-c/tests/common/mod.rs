//! Modules in the text form of the IR, compiled with sanitizers and driven from a C harness.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use wireloom_codegen_c::*;
use wireloom_ir::*;

/// The text of a module in `tests/modules`. The tests of both backends run these.
pub fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../codegen-c/tests/modules/{name}.ir"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of all of them.
pub fn names() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../codegen-c/tests/modules");
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())).flatten();
    let names: Vec<String> =
        files.filter_map(|f| Some(f.file_name().to_str()?.strip_suffix(".ir")?.to_string())).collect();
    assert!(names.len() > 10, "{}: {names:?}", dir.display());
    names
}

pub fn module(name: &str) -> Module {
    text::parse(&source(name)).unwrap_or_else(|e| panic!("{name}.ir: {e}"))
}

pub fn cache() -> PathBuf {
    std::env::temp_dir().join("wireloom-codegen-test")
}

/// Runs a module with a C harness around it, compiled with the sanitizers; gives its output.
pub fn drive(m: &Module, harness: &str, args: &[&str]) -> String {
    // One-shot: the harness frees nothing.
    run(Command::new(built(m, harness)).args(args).env("ASAN_OPTIONS", "detect_leaks=0"))
}

/// The executable of a module with a harness. A process builds it once, whatever it is run on.
fn built(m: &Module, harness: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<PathBuf, Arc<OnceLock<()>>>> = Mutex::new(BTreeMap::new());
    let source = emit(m, &Options::default());
    // The plain build checks the cache and the exported symbol; the sanitized one is linked to the
    // harness.
    let options = CompileOptions { cache_dir: cache(), opt: 0, ..CompileOptions::default() };
    let so = compile(&source, &options).unwrap_or_else(|e| panic!("{e}")).path.expect("a folder of our own");
    assert!(so.is_file());
    let exe = so.with_extension(format!("{harness}.exe"));
    let once = BUILT.lock().unwrap().entry(exe.clone()).or_default().clone();
    once.get_or_init(|| build(&so.with_extension("c"), harness, &exe));
    exe
}

fn build(c: &Path, harness: &str, exe: &Path) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Other processes may run what lies there.
    let new = exe.with_extension(format!("{}.exe", std::process::id()));
    let (cc, _) = find_compiler(None).unwrap();
    run(Command::new(cc)
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-g",
            "-O1",
            "-march=native",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-pthread",
        ])
        .arg("-I")
        .arg(dir.join("../../support"))
        .args(["-DREQUEST_UNIT=1", "-DRESPONSE_UNIT=2"])
        .arg(format!("-DGENERATED=\"{}\"", c.display()))
        .arg("-o")
        .arg(&new)
        .arg(dir.join("tests/harness").join(format!("{harness}.c"))));
    std::fs::rename(&new, exe).unwrap();
}

fn run(cmd: &mut Command) -> String {
    let out = cmd.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{cmd:?}\n{text}");
    text
}
