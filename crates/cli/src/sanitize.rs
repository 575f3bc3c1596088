//! Runs a command again in a child process.
//!
//! The parent survives a crash of the child. The child has the sanitizers' runtime loaded if the
//! command loads code that was compiled with them. A shared object cannot bring that runtime along.

use crate::args::Compile;
use crate::{Failure, Outcome};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// Set in the inner process.
const INNER: &str = "WIRELOOM_INNER";

pub fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

/// The same command line again, with `extra` behind it.
pub fn run_again(sanitize: bool, extra: &[String]) -> Result<ExitStatus, Failure> {
    Ok(again(sanitize, extra)?.status()?)
}

/// Restarts this process with the sanitizers' runtime loaded, if `compile` wants them.
pub fn load(compile: &Compile) -> Outcome {
    if !compile.sanitize || is_inner() {
        return Ok(());
    }
    Err(again(true, &[])?.exec().into())
}

fn again(sanitize: bool, extra: &[String]) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).args(extra).env(INNER, "1");
    if sanitize {
        command.env("LD_PRELOAD", runtime()?);
        // Programs are kept to the end of the process: no leaks. Handlers that pause have stacks of
        // their own.
        command.env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=0");
        command.env("UBSAN_OPTIONS", "print_stacktrace=1:abort_on_error=1");
    }
    Ok(command)
}

/// The shared runtime of AddressSanitizer that goes with the compiler.
fn runtime() -> Result<PathBuf, Failure> {
    let (cc, _) = wireloom_codegen_c::find_compiler(None)?;
    let name = if cc.contains("clang") {
        format!("libclang_rt.asan-{}.so", std::env::consts::ARCH)
    } else {
        "libasan.so".to_string()
    };
    let said = Command::new(&cc).arg(format!("-print-file-name={name}")).output()?;
    let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    if path.is_file() {
        Ok(path)
    } else {
        Err(Failure::Said(format!("{cc} has no {name}: the sanitizers' runtime is not installed")))
    }
}
