//! `wireloom`: the command line. Files and options come in. Diagnostics, reports, executables and
//! running services go out.
//!
//! Stages: [`args`] reads the command line. [`load`] compiles sources to IR through [`world`], the
//! compiler's only view of the disk. [`engine`] turns IR into a program: compiled C, or the
//! interpreter. Each command has a module of its own. An executable made by `wireloom build`
//! carries its program behind its own bytes ([`serve::payload`]) and runs it at once. Such an
//! executable is a copy of `wireloom-runtime`, which contains [`serve`] alone.

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
mod world;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

pub use serve::{Failure, Outcome};

fn main() -> ExitCode {
    serve::write_messages();
    serve::ended(match serve::payload::of_this_executable() {
        Ok(Some(payload)) => serve::built(payload),
        Ok(None) => command(Cli::parse()),
        Err(e) => Err(e.into()),
    })
}

fn command(cli: Cli) -> Outcome {
    match cli.command {
        Command::Run(a) => run::run(*a),
        Command::Check(a) => load::check(a),
        Command::Build(a) => build::build(a),
        Command::Test(a) => test::test(a),
        Command::Fmt(a) => fmt::fmt(a),
        Command::Emit(a) => emit::emit(a),
        Command::Graph(a) => emit::graph(a),
        Command::Explain(a) => explain::explain(a),
        Command::Fuzz(a) => fuzz::fuzz(a),
        Command::Bench(a) => bench::bench(a),
        Command::Table(a) => table::table(a),
        Command::Counter(a) => watch::counter(a),
        Command::Signal(a) => watch::signal(a),
    }
}
