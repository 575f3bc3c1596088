//! `wireloom`: the command line. Files and options come in. Diagnostics, reports, executables and
//! running services go out.
//!
//! Stages: [`args`] reads the command line. [`load`] compiles sources to IR through [`world`], the
//! compiler's only view of the disk. [`engine`] turns IR into a program: compiled C, or the
//! interpreter. Each command has a module of its own. An executable made by `wireloom build`
//! carries its program behind its own bytes ([`serve::payload`]) and runs it at once. Such an
//! executable is a copy of `wireloom-runtime`, which contains [`serve`] alone.

#[macro_use]
mod output;

mod args;
mod bench;
mod build;
mod c_files;
mod compiler_defect;
mod control;
mod emit;
mod engine;
mod explain;
mod export;
mod fmt;
mod fuzz;
mod fuzz_frames;
mod fuzz_limit;
mod load;
mod place;
mod run;
mod sanitize;
mod serve;
mod table;
mod test;
mod watch;
mod whole_file;
mod world;

use args::{Cli, Command};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::Parser;
use std::process::ExitCode;

pub use serve::{Failure, Outcome};

fn main() -> ExitCode {
    serve::write_messages();
    serve::ended(match serve::payload::of_this_executable() {
        Ok(Some(payload)) => serve::built(payload),
        Ok(None) => command(Cli::try_parse().unwrap_or_else(|e| refuse(e))),
        Err(e) => Err(e.into()),
    })
}

/// Prints help, or an error of the command line, and ends. An unknown option may be meant for the
/// app.
fn refuse(e: clap::Error) -> ! {
    if e.kind() == ErrorKind::DisplayHelp {
        let _ = e.print();
        run::help();
        std::process::exit(0)
    }
    let argument = match e.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(s)) if e.kind() == ErrorKind::UnknownArgument => s.clone(),
        _ => e.exit(),
    };
    let Some(name) = argument.strip_prefix("--") else { e.exit() };
    let text = e.render().to_string();
    eprintln!("{}", text.trim_end());
    if matches!(name, "in" | "io" | "interface" | "iface" | "dev" | "device" | "nic") {
        eprintln!("\nThe target of a frame port is given by `--bind PORT=ENGINE:NAME`: `--bind wire=nic:eth0`.");
    } else if std::env::args().nth(1).is_some_and(|c| c == "run") {
        eprintln!("\nA parameter of the app is given by `--set NAME=VALUE`, the target of a frame port by `--bind`.");
    }
    std::process::exit(2)
}

fn command(cli: Cli) -> Outcome {
    world::check_library()?;
    match cli.command {
        Command::Run(a) => run::run(*a),
        Command::Check(a) => load::check(a),
        Command::Build(a) => build::build(a),
        Command::Test(a) => test::test(a),
        Command::Fmt(a) => fmt::fmt(a),
        Command::Emit(a) => emit::emit(a),
        Command::Graph(a) => emit::graph(a),
        Command::Explain(a) => explain::command(a),
        Command::Fuzz(a) => fuzz::fuzz(a),
        Command::Bench(a) => bench::bench(a),
        Command::Table(a) => table::table(a),
        Command::Counter(a) => watch::counter(a),
        Command::Signal(a) => watch::signal(a),
    }
}
