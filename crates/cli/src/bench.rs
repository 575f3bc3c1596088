//! `wireloom bench`: what an app with frame ports costs per frame.
//!
//! In: an app, and a capture per port. Out: CPU nanoseconds per frame on one core. The captures are loaded into memory and replayed many
//! times without a system call. Two runs of different length are subtracted, so that start-up and the first touch of memory do not
//! count; this is repeated, and the median and the extremes are shown. The loop that takes frames from memory is part of the figure.

use crate::args::Bench;
use crate::{engine, load, Failure, Outcome};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use wireloom_ir::desc::Desc;
use wireloom_ir::{walk, FrameAct, Module, StmtKind};
use wireloom_runtime::packet::{self, Frames};
use wireloom_runtime::{params, serve, AppSpec, Program, ServeOptions};

struct Job {
    program: Program,
    desc: Desc,
    sets: Vec<(String, String)>,
    load: Vec<(String, std::path::PathBuf)>,
    /// Frames by port.
    frames: Vec<(String, Frames)>,
    cpu: usize,
}

pub fn bench(args: Bench) -> Outcome {
    let module = Arc::new(load::load(&args.file)?);
    let made = engine::make(&module, &args.compile)?;
    let in_place = !changes_frames(&module);
    let mut frames = Vec::new();
    for (port, file) in pairs("bind", &args.bind)? {
        let file = file.strip_prefix("pcap:").unwrap_or(&file);
        let mut loaded = Frames::load(Path::new(file))?;
        loaded.in_place = in_place;
        frames.push((port, loaded));
    }
    let each: u64 = frames.iter().map(|(_, f)| f.index.len() as u64).sum();
    if each == 0 {
        return Err(Failure::Said("nothing to measure: give frames with `--bind PORT=FILE.pcap`".into()));
    }
    let sets = args.set.iter().map(|s| params::pair(s)).collect::<Result<_, _>>()?;
    let load = pairs("load", &args.load)?.into_iter().map(|(t, f)| (t, f.into())).collect();
    let job = Job { program: made.program, desc: module.desc(), sets, load, frames, cpu: args.core };
    let rounds = (args.frames / each).max(1);
    let mut all = Vec::new();
    for _ in 0..args.repeat.max(1) {
        let (short, long) = (job.run(1)?, job.run(1 + rounds)?);
        all.push((long - short) as f64 / (rounds * each) as f64);
    }
    all.sort_by(f64::total_cmp);
    let (low, high, median) = (all[0], all[all.len() - 1], all[all.len() / 2]);
    println!("{}: {median:.1} ns per frame [{low:.1}..{high:.1}], {:.1} Mpps on one core, {} frames in {} runs", module.app, 1000.0 / median, rounds * each, all.len());
    Ok(())
}

/// Whether frames must be fresh in each round.
fn changes_frames(m: &Module) -> bool {
    let mut changes = false;
    m.bodies(&mut |b| walk::stmts(&b.block, &mut |s| if let StmtKind::Frame { act, .. } = &s.kind { changes |= !matches!(act, FrameAct::Send { .. }) }));
    changes
}

fn pairs(flag: &str, list: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err(Failure::Said(format!("`--{flag} {text}`: expected NAME=FILE"))),
    };
    list.iter().map(pair).collect()
}

impl Job {
    /// CPU nanoseconds of this process for so many rounds.
    fn run(&self, rounds: u64) -> Result<u64, Failure> {
        let memory: HashMap<_, _> = self.frames.iter().map(|(port, f)| (port.clone(), (Frames { rounds, ..f.clone() }, None))).collect();
        let options = ServeOptions {
            cpus: vec![self.cpu],
            frames: packet::Options {
                bind: self.frames.iter().map(|(port, _)| (port.clone(), format!("memory:{port}"))).collect(),
                load: self.load.clone(),
                memory,
                ..packet::Options::default()
            },
            ..ServeOptions::default()
        };
        let spec = AppSpec { program: self.program.clone(), desc: self.desc.clone(), sets: self.sets.clone() };
        let (begin, started) = (cpu_ns(), Instant::now());
        let served = serve(vec![spec], options)?;
        let used = cpu_ns() - begin;
        log::debug!("{} frames, {} faults, {:?}", served.frames, served.faults, started.elapsed());
        Ok(used)
    }
}

/// User and system time of this process.
fn cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists and the pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
