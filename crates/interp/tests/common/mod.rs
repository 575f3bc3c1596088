//! The modules of the C backend's tests, and a compiled twin of a module to compare the interpreter
//! with.
#![allow(dead_code)]

#[path = "../../../codegen-c/tests/common/mod.rs"]
pub mod fixtures;

#[allow(unused_imports)]
pub use fixtures::*;
use std::sync::Arc;
use wireloom_interp::differential::Pair;
use wireloom_interp::{program, InterpProgram};
use wireloom_ir::*;
use wireloom_runtime::abi::wl_program;

/// Annotates a module as the compiler does before its backends.
pub fn annotated(mut m: Module) -> Module {
    for finding in grammar::analyze(&mut m) {
        eprintln!("{}: {}", finding.code, finding.message);
    }
    passes::run_all(&mut m);
    m
}

/// The module compiled to C and loaded; None where there is no C compiler.
pub fn compiled(m: &Module) -> Option<*const wl_program> {
    use wireloom_codegen_c::{compile, emit, CompileError, CompileOptions, Options};
    let options = CompileOptions {
        cache_dir: std::env::temp_dir().join("wireloom-interp-test"),
        opt: std::env::var("WIRELOOM_OPT").ok().and_then(|o| o.parse().ok()).unwrap_or(0),
        ..CompileOptions::default()
    };
    let so = match compile(&emit(m, &Options::default()), &options) {
        Ok(so) => so,
        Err(CompileError::NoCompiler { .. }) => {
            eprintln!("SKIPPED: no C compiler, so nothing to compare with");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    // Our own shared object; it stays loaded to the end of the process.
    Some(wireloom_runtime::Program::load(&so.bytes).unwrap().table())
}

pub fn interpreted(m: &Module) -> InterpProgram {
    program(Arc::new(m.clone()))
}

/// Random streams of a unit through the interpreter in pieces, and through compiled C in pieces.
pub fn compare_unit(m: &Module, unit: UnitId, ctx: u64, rounds: usize) {
    let interp = interpreted(m);
    let c = compiled(m).unwrap_or(interp.table());
    let pair = Pair { module: interp.module(), a: interp.table(), b: c, unit, ctx };
    let mut errors = Vec::new();
    // WIRELOOM_SEEDS=100 for a long run.
    let seeds = std::env::var("WIRELOOM_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(4);
    for seed in 1..=seeds {
        // SAFETY: both tables live.
        match unsafe { pair.compare_random(seed, rounds) } {
            Ok(s) => {
                eprintln!("{}: {s:?}", m.unit(unit).name);
                assert!(s.messages * 4 > rounds, "{}: the generator makes too few messages: {s:?}", m.unit(unit).name);
            }
            Err(e) => errors.push(e),
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    no_internal_errors();
}

pub fn no_internal_errors() {
    let (n, last) = wireloom_interp::internal_errors();
    assert_eq!(n, 0, "internal error: {last:?}");
}
