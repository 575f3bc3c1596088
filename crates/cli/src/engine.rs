//! From IR to a program that runs. Compiled C is used if a C compiler is there. Else the
//! interpreter is used, and a message says so.

use crate::args::Compile;
use crate::serve::{self, notice, say, without_signals};
use crate::Failure;
use log::Level;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use wireloom_codegen_c::{CSource, CompileError, CompileOptions, Compiled, Stop};
use wireloom_ir::{FuncBody, Module};
use wireloom_runtime::packet::nic::Role;
use wireloom_runtime::{Program, Tiers};

pub enum How {
    Compiled,
    Interpreted,
}

pub struct Loaded {
    pub program: Program,
    pub how: How,
    /// Optimised code that is still being made.
    pub later: Option<Later>,
}

/// A compiler that works beside the service; when this is dropped it is stopped.
pub struct Later {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Later {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Makes the program, compiled or interpreted.
pub fn make(module: &Arc<Module>, compile: &Compile) -> Result<Loaded, Failure> {
    make_telling(module, compile, None, None)
}

/// As [`make`], until it is stopped.
pub fn make_until(module: &Arc<Module>, compile: &Compile, stop: Stop) -> Result<Loaded, Failure> {
    make_telling(module, compile, None, Some(stop))
}

/// As [`make`], for a program that is to serve: says at once that it is compiled.
pub fn make_to_serve(module: &Arc<Module>, compile: &Compile) -> Result<Loaded, Failure> {
    make_telling(module, compile, Some(if module.desc().has_frames() { compiling } else { compiling_to_serve }), None)
}

/// As [`make_to_serve`], but a program that is not in the cache begins with unoptimised code. That
/// takes a fifth of the time to compile. Optimised code takes its place as soon as it is there.
pub fn make_in_tiers(module: &Arc<Module>, compile: &Compile) -> Result<Loaded, Failure> {
    // The state of a function in C would be lost with the first code.
    if compile.interpret || compile.sanitize || extern_function(module).is_some() {
        return make_to_serve(module, compile);
    }
    // The variable has no effect on code in tiers, but a mistyped one is an error all the same.
    level(false)?;
    let source = wireloom_codegen_c::emit(module, &wireloom_codegen_c::Options::default());
    let options = in_folder(module, &CompileOptions::default());
    match wireloom_codegen_c::cached(&source, &options) {
        Ok(Some(library)) => {
            return Ok(Loaded { program: Program::load(&library.bytes)?, how: How::Compiled, later: None })
        }
        Ok(None) => {}
        // Where there is no compiler, or it fails, the usual way says so.
        Err(_) => return make_to_serve(module, compile),
    }
    let starting = if module.desc().has_frames() { compiling } else { compiling_to_serve };
    let quick =
        compiled(module, &source, &CompileOptions { opt: 0, starting: Some(starting), ..CompileOptions::default() })?;
    let tiers = Tiers::new(Program::load(&quick.bytes)?);
    Ok(Loaded { program: tiers.program(), how: How::Compiled, later: Some(later(tiers, source, options)?) })
}

/// Compiles with all optimisations beside the service, and exchanges the code.
fn later(tiers: Tiers, source: CSource, options: CompileOptions) -> Result<Later, Failure> {
    let stop = Stop::default();
    let options = CompileOptions { beside: true, stop: Some(stop.clone()), ..options };
    let work = move || {
        let name = &source.name;
        let exchanged = match wireloom_codegen_c::compile(&source, &options) {
            Err(CompileError::Stopped) => return,
            Err(e) => Err(e.to_string()),
            Ok(library) => {
                Program::load(&library.bytes).and_then(|better| tiers.exchange(better)).map_err(|e| e.to_string())
            }
        };
        match exchanged {
            Ok(()) if Role::is_second() => {}
            Ok(()) => notice!(Level::Info, "{name} runs optimised code from now on"),
            Err(e) => notice!(Level::Warn, "{name} goes on with code that is not optimised: {e}"),
        }
    };
    let thread = without_signals(|| std::thread::Builder::new().name("compile".into()).spawn(work))
        .map_err(|e| Failure::Said(format!("cannot start a thread: {e}")))?;
    Ok(Later { stop, thread: Some(thread) })
}

/// The value of a variable of the environment, if it is set. A value of no use is an error: a
/// mistyped one must not run unnoticed.
fn variable<T>(name: &str, read: impl Fn(&str) -> Option<T>, expected: &str) -> Result<Option<T>, Failure> {
    let Some(text) = std::env::var_os(name).filter(|v| !v.is_empty()) else { return Ok(None) };
    let text = text.to_string_lossy();
    match read(&text) {
        Some(value) => Ok(Some(value)),
        None => Err(Failure::Said(format!("the environment's `{name}={text}` is of no use; expected {expected}"))),
    }
}

/// How far code is optimised: as `WIRELOOM_OPT` says, else fully. With the sanitizers that takes
/// several times as long.
fn level(sanitize: bool) -> Result<u8, Failure> {
    let usual = if sanitize { 1 } else { CompileOptions::default().opt };
    let wanted = variable("WIRELOOM_OPT", |o| o.parse().ok().filter(|o| *o <= 3), "0, 1, 2 or 3")?;
    Ok(wanted.unwrap_or(usual))
}

/// Whether the environment wants programs to be compiled before they serve, as `--optimized` does.
pub fn optimized_at_once() -> Result<bool, Failure> {
    let wanted = variable("WIRELOOM_START", |v| (v == "optimized").then_some(()), "`optimized`")?;
    Ok(wanted.is_some())
}

fn make_telling(
    module: &Arc<Module>,
    compile: &Compile,
    starting: Option<fn(&str)>,
    stop: Option<Stop>,
) -> Result<Loaded, Failure> {
    if compile.interpret {
        return interpret(module);
    }
    let opt = level(compile.sanitize)?;
    let options = CompileOptions { sanitize: compile.sanitize, opt, starting, stop, ..CompileOptions::default() };
    match library(module, &options) {
        // The sanitizers read names and lines from the file.
        Ok(Compiled { path: Some(path), .. }) if compile.sanitize => {
            Ok(Loaded { program: Program::open(&path)?, how: How::Compiled, later: None })
        }
        Ok(library) => Ok(Loaded { program: Program::load(&library.bytes)?, how: How::Compiled, later: None }),
        Err(CompileError::NoCompiler { .. }) => {
            if let Some(f) = extern_function(module) {
                return Err(Failure::Said(format!(
                    "no C compiler found (clang or gcc), and `{f}` is a function in C [E0717]"
                )));
            }
            say!("no C compiler found (clang or gcc): running by the interpreter, which is many times slower");
            interpret(module)
        }
        Err(e) => Err(e.into()),
    }
}

/// A function in C that the program has: only compiled code can call it.
pub fn extern_function(module: &Module) -> Option<&str> {
    module.funcs.iter().find(|f| matches!(f.body, FuncBody::Extern { .. })).map(|f| f.name.as_str())
}

pub fn interpret(module: &Arc<Module>) -> Result<Loaded, Failure> {
    interpret_beside(module, Vec::new())
}

/// The interpreter, where another device keeps some of the tables.
pub fn interpret_beside(
    module: &Arc<Module>,
    outside: Vec<Option<Arc<dyn wireloom_interp::OutsideTable>>>,
) -> Result<Loaded, Failure> {
    if let Some(f) = extern_function(module) {
        return Err(Failure::Said(format!(
            "`{f}` is a function in C: the interpreter cannot run it, only compiled code can [E0717]"
        )));
    }
    Ok(Loaded { program: serve::interpreted(module, outside)?, how: How::Interpreted, later: None })
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
    let starting = options.starting.or(std::io::stderr().is_terminal().then_some(compiling as fn(&str)));
    let options = CompileOptions { starting, ..in_folder(module, options) };
    let made = wireloom_codegen_c::compile(source, &options).map_err(|e| match e {
        CompileError::Failed { command, messages } => CompileError::Failed {
            messages: crate::compiler_defect::with_folder(module, source, &command, &messages),
            command,
        },
        e => e,
    })?;
    if let Some(notice) = &made.notice {
        told_once(notice)
    }
    Ok(made)
}

/// The C files of `extern` functions lie beside the program's.
pub fn in_folder(module: &Module, options: &CompileOptions) -> CompileOptions {
    let folder = module.files.first().and_then(|f| Path::new(f).parent()).map(PathBuf::from);
    CompileOptions { extern_dir: folder.unwrap_or_else(|| options.extern_dir.clone()), ..options.clone() }
}

fn compiling(app: &str) {
    if Role::is_second() {
        return;
    }
    say!("compiling {app}");
}

/// As [`compiling`], of a service that listens already.
fn compiling_to_serve(app: &str) {
    say!("compiling {app}; clients wait");
}

fn told_once(notice: &str) {
    static TOLD: std::sync::Once = std::sync::Once::new();
    TOLD.call_once(|| say!("{notice}"));
}
