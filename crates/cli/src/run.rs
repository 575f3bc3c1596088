//! `wireloom run`.

use crate::args::{Cli, Command, Run};
use crate::engine::{self, How};
use crate::place;
use crate::serve::args::Sets;
use crate::serve::config::Config;
use crate::serve::{self, ignore_hangup};
pub use crate::serve::{cpus, pairs, sets};
use crate::{load, sanitize, Failure, Outcome};
use clap::{CommandFactory, Parser};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use wireloom_ir::desc::Desc;
use wireloom_ir::passes::{affinity_groups, flow_affinity};
use wireloom_ir::Module;
use wireloom_runtime::packet;

pub fn run(mut args: Run) -> Outcome {
    if let Some(path) = args.serve.config.take() {
        args = with_config(&path)?;
    }
    let given = args.serve.clone();
    run_given(args).map_err(|e| given.named(e))
}

fn run_given(mut args: Run) -> Outcome {
    sanitize::load(&args.compile)?;
    let begin = Instant::now();
    ignore_hangup();
    let (mut modules, mut pictures) = (Vec::new(), Vec::new());
    for path in &args.files {
        modules.extend(load::apps(path)?);
        if args.serve.admin.is_some() {
            pictures.extend(load::pictures(path))
        }
    }
    pictures.resize(modules.len(), String::new());
    let descs: Vec<Desc> = modules.iter().map(Module::desc).collect();
    let bound = bound(&descs, args.serve.sets(), serve::frames(&args.serve)?)?;
    let clusters = affinity_groups::apply(&mut modules, &bound);
    for_cores(&mut modules, &cpus("cores", args.serve.cores.as_deref())?);
    let descs: Vec<Desc> = modules.iter().map(Module::desc).collect();
    let sets = sets(&descs.iter().collect::<Vec<_>>(), args.serve.sets())?;
    let mut placed = place::place(&modules, &sets, &mut args)?;
    wireloom_runtime::listen_early(&descs.into_iter().zip(sets).collect::<Vec<_>>())?;
    let (mut programs, mut later) = (Vec::new(), Vec::new());
    let at_once = engine::optimized_at_once()? || args.optimized;
    for ((module, cluster), picture) in modules.into_iter().map(Arc::new).zip(clusters).zip(pictures) {
        // Compiled code has its own form of tables.
        let made = if let Some(tables) = placed.tables(&module) {
            engine::interpret_beside(&module, tables)?
        } else if at_once {
            engine::make_to_serve(&module, &args.compile)?
        } else {
            engine::make_in_tiers(&module, &args.compile)?
        };
        let interpreted = matches!(made.how, How::Interpreted);
        later.extend(made.later);
        let (program, desc) = placed.rest(made.program, Desc { cluster, picture, ..module.desc() });
        programs.push((program, desc, interpreted));
    }
    let interpreted = programs.iter().any(|p| p.2);
    let programs = programs.into_iter().map(|(program, desc, _)| (program, desc)).collect();
    let hook = (placed.hook_part(), placed.attach(args.xdp_mode));
    serve::serve_all(programs, &args.serve, begin, interpreted, hook)?;
    placed.tell();
    // Compilers that still run are of no use to anybody.
    drop(later);
    Ok(())
}

/// Behind the help of `run` with apps: what may be set of them.
pub fn help() {
    let mut line = std::env::args_os().skip(1);
    if line.next().is_none_or(|a| a != RUN) {
        return;
    }
    for path in line.filter(|a| a.to_string_lossy().contains(".loom")) {
        for m in load::apps(Path::new(&path)).unwrap_or_default() {
            print!("\n{}:{}", m.app, serve::settings_of(&m.desc()));
        }
    }
}

/// The command line of this process, with the options of a file.
fn with_config(path: &Path) -> Result<Run, Failure> {
    let mut line: Vec<_> = std::env::args_os().collect();
    let given = Cli::command().get_matches_from(&line);
    let mut config = Config::read(path, run_command)?;
    let (at, run) = (line.iter().position(|a| a == RUN), given.subcommand_matches(RUN));
    let (Some(at), Some(run)) = (at, run) else { return Err(Failure::Said("--config is an option of `run`".into())) };
    line.splice(at + 1..at + 1, config.arguments(run));
    match Cli::parse_from(line).command {
        Command::Run(mut run) => {
            run.serve.read = Some(config);
            Ok(*run)
        }
        _ => Err(Failure::Said("--config is an option of `run`".into())),
    }
}

const RUN: &str = "run";

fn run_command() -> clap::Command {
    Cli::command().find_subcommand(RUN).cloned().unwrap_or_default()
}

/// Apps on one core have their tables to themselves; no CPU named is one core.
pub fn for_cores(modules: &mut [Module], cpus: &[usize]) {
    if cpus.len() <= 1 {
        modules.iter_mut().for_each(flow_affinity::alone);
    }
}

/// The bindings of each app's ports that are read.
pub fn bound(descs: &[Desc], set: Sets, frames: packet::Options) -> Result<affinity_groups::Bound, Failure> {
    let descs: Vec<&Desc> = descs.iter().collect();
    let sets = sets(&descs, set)?;
    let (mut all, packets) =
        (vec![Vec::new(); descs.len()], (0..descs.len()).filter(|n| descs[*n].has_frames()).collect::<Vec<_>>());
    // One alone shares nothing.
    if packets.len() > 1 {
        let apps: Vec<_> = packets.iter().map(|n| (descs[*n], sets[*n].as_slice())).collect();
        for (n, of) in packets.into_iter().zip(packet::bound(&apps, &frames)?) {
            all[n] = of;
        }
    }
    Ok(all)
}
