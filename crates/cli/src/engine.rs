//! From IR to a program that runs: compiled C where a C compiler is there, else the interpreter, and says so.

use crate::args::Compile;
use crate::Failure;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wireloom_codegen_c::{CSource, CompileError, CompileOptions, Compiled};
use wireloom_ir::{FuncBody, Module};
use wireloom_runtime::Program;

pub enum How {
    Compiled,
    Interpreted,
}

pub struct Made {
    pub program: Program,
    pub how: How,
}

/// Makes the program by the means asked for.
pub fn make(module: &Arc<Module>, compile: &Compile) -> Result<Made, Failure> {
    make_telling(module, compile, None)
}

/// As [`make`], for a program that is to serve: says at once that it is compiled.
pub fn make_to_serve(module: &Arc<Module>, compile: &Compile) -> Result<Made, Failure> {
    make_telling(module, compile, Some(if module.desc().has_frames() { compiling } else { compiling_to_serve }))
}

fn make_telling(module: &Arc<Module>, compile: &Compile, starting: Option<fn(&str)>) -> Result<Made, Failure> {
    if compile.interpret {
        return interpret(module);
    }
    // With the sanitizers optimised code takes several times as long to make.
    let opt = if compile.sanitize { 1 } else { CompileOptions::default().opt };
    match library(module, &CompileOptions { sanitize: compile.sanitize, opt, starting, ..CompileOptions::default() }) {
        // The sanitizers read names and lines from the file.
        Ok(Compiled { path: Some(path), .. }) if compile.sanitize => Ok(Made { program: Program::open(&path)?, how: How::Compiled }),
        Ok(library) => Ok(Made { program: Program::load(&library.bytes)?, how: How::Compiled }),
        Err(CompileError::NoCompiler { .. }) => {
            if let Some(f) = extern_function(module) {
                return Err(Failure::Said(format!("no C compiler found (clang or gcc), and `{f}` is a function in C (`extern fn`)")));
            }
            eprintln!("wireloom: no C compiler found (clang or gcc): running by the interpreter, which is many times slower");
            interpret(module)
        }
        Err(e) => Err(e.into()),
    }
}

/// A function in C that the program has: only compiled code can call it.
pub fn extern_function(module: &Module) -> Option<&str> {
    module.funcs.iter().find(|f| matches!(f.body, FuncBody::Extern { .. })).map(|f| f.name.as_str())
}

pub fn interpret(module: &Arc<Module>) -> Result<Made, Failure> {
    if let Some(f) = extern_function(module) {
        return Err(Failure::Said(format!("`{f}` is a function in C (`extern fn`): the interpreter cannot run it, only compiled code can")));
    }
    let program = Box::leak(Box::new(wireloom_interp::program(module.clone())));
    let merges = Box::leak(Box::new(wireloom_interp::InterpMerges::new(module.clone())));
    // SAFETY: the tables and what they point to are leaked just above, so they live as long as the process.
    let program = unsafe {
        let packets = (program.table_self(), program.packets());
        Program::from_table(program.table())?.with_merges(merges.this(), merges.entries()).with_packets(packets.0, packets.1)
    };
    Ok(Made { program, how: How::Interpreted })
}

/// A module's shared object with marks where elements begin and end, and the elements' names.
pub fn marked(module: &Module, options: &CompileOptions) -> Result<(Compiled, Vec<String>), CompileError> {
    let source = wireloom_codegen_c::emit(module, &wireloom_codegen_c::Options { marks: true, ..Default::default() });
    let library = compiled(module, &source, options)?;
    Ok((library, source.marks))
}

/// The shared object of a module, from the cache if it is there.
pub fn library(module: &Module, options: &CompileOptions) -> Result<Compiled, CompileError> {
    compiled(module, &wireloom_codegen_c::emit(module, &wireloom_codegen_c::Options::default()), options)
}

fn compiled(module: &Module, source: &CSource, options: &CompileOptions) -> Result<Compiled, CompileError> {
    // The C files of `extern` functions lie beside the program's.
    let folder = module.files.first().and_then(|f| Path::new(f).parent()).map(PathBuf::from);
    let starting = options.starting.or(std::io::stderr().is_terminal().then_some(compiling as fn(&str)));
    let options = CompileOptions { extern_dir: folder.unwrap_or_else(|| options.extern_dir.clone()), starting, ..options.clone() };
    let made = wireloom_codegen_c::compile(source, &options).map_err(|e| match e {
        CompileError::Failed { command, messages } => CompileError::Failed { messages: crate::report::with_folder(module, source, &command, &messages), command },
        e => e,
    })?;
    if let Some(notice) = &made.notice { told_once(notice) }
    Ok(made)
}

fn compiling(app: &str) {
    eprintln!("wireloom: compiling {app}");
}

/// As [`compiling`], of a service that listens already.
fn compiling_to_serve(app: &str) {
    eprintln!("wireloom: compiling {app}; who connects waits");
}

fn told_once(notice: &str) {
    static TOLD: std::sync::Once = std::sync::Once::new();
    TOLD.call_once(|| eprintln!("wireloom: {notice}"));
}
