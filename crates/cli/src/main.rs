//! `wireloom`: the command line. Files and options come in; diagnostics, reports, executables and running services go out.
//!
//! Stages: [`args`] reads the command line → [`load`] compiles sources to IR (through [`world`], the compiler's only view of the
//! disk) → [`engine`] turns IR into a program (compiled C, or the interpreter) → one module per command. An executable made by
//! `wireloom build` carries its program behind its own bytes ([`payload`]) and runs it at once.

mod args;
mod bench;
mod build;
mod control;
mod emit;
mod engine;
mod explain;
mod fmt;
mod fuzz;
mod fuzz_frames;
mod load;
mod payload;
mod run;
mod sanitize;
mod table;
mod test;
mod watch;
mod world;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

/// What ends a command early: the text has been made for the user. `Silent`: all was said already.
pub enum Failure {
    Silent,
    Said(String),
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(e: E) -> Self {
        Failure::Said(e.to_string())
    }
}

pub type Outcome = Result<(), Failure>;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let outcome = match payload::of_this_executable() {
        Ok(Some(payload)) => run::built(payload),
        Ok(None) => command(Cli::parse()),
        Err(e) => Err(e.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Silent) => ExitCode::from(1),
        Err(Failure::Said(text)) => {
            eprintln!("wireloom: {text}");
            ExitCode::from(1)
        }
    }
}

fn command(cli: Cli) -> Outcome {
    match cli.command {
        Command::Run(a) => run::run(a),
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
