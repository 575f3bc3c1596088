//! `wireloom bench`: the cost of an app with frame ports per frame, in total and by element.
//!
//! In: an app, or several that share ports, and a capture per port. Out: CPU nanoseconds per frame.
//! The captures are loaded into memory and replayed without a system call. In the first round,
//! memory is touched and tables fill. The clock of a core runs from the end of the first round to
//! the end of the last. Runs are repeated. The report gives the median and the extremes. Taking
//! frames from memory is part of the figure. With several cores, each core gets the frames of its
//! own flows, as from an interface with a queue per core. The busiest core counts. Ports without a
//! capture discard their frames. In an app that also has service ports, only the packets are
//! measured, and no connection is accepted.
//!
//! By element: the same program runs once more, compiled with marks at the borders of elements,
//! headers and tables. A mark is one store. A thread samples the mark some thousand times a second.
//! The share of the samples is the share of the time.

use crate::args::Bench;
use crate::{engine, load, run, sanitize, Failure, Outcome};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use wireloom_codegen_c::CompileOptions;
use wireloom_ir::desc::{Desc, PortKind, Value};
use wireloom_ir::passes::affinity_groups;
use wireloom_ir::{walk, FrameAct, Module, StmtKind};
use wireloom_runtime::packet::{self, Frames, Inserts, Spent, Timing};
use wireloom_runtime::{serve, AppSpec, Program, ServeOptions, Summary};

/// Between two looks at the mark.
const LOOK: Duration = Duration::from_micros(50);

struct Job {
    /// Of each app.
    descs: Vec<Desc>,
    sets: Vec<Vec<(String, String)>>,
    load: Vec<(String, std::path::PathBuf)>,
    insert: Option<(String, std::path::PathBuf)>,
    every: u64,
    /// Frames by port.
    frames: Vec<(String, Frames)>,
    cpus: Vec<usize>,
    rps: packet::Rps,
    /// Warm-up rounds, and measured rounds.
    warm: u64,
    rounds: u64,
}

/// The cost of a run.
struct Measured {
    frames: u64,
    /// Of the busiest core; of all; of the whole process, which is more only where cores wait.
    busiest_ns: u64,
    all_ns: u64,
    process_ns: u64,
    wall_ns: u64,
    summary: Summary,
    /// Nanoseconds of insertions, sorted.
    inserts: Vec<u64>,
}

/// Median and extremes.
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(mut all: Vec<f64>) -> Spread {
        all.sort_by(f64::total_cmp);
        let at = |i: usize| all.get(i).copied().unwrap_or(0.0);
        Spread { median: at(all.len() / 2), low: at(0), high: at(all.len().saturating_sub(1)) }
    }
}

pub fn bench(args: Bench) -> Outcome {
    sanitize::load(&args.compile)?;
    let mut modules = Vec::new();
    for file in &args.files {
        modules.extend(load::apps(file)?);
    }
    if let Some(m) = modules.iter().find(|m| !m.ports.iter().any(|p| matches!(p.kind, PortKind::Frames { .. }))) {
        return Err(Failure::Said(format!("app `{}` has no frame ports: `bench` measures the cost of frames", m.app)));
    }
    let bound = affinity_groups::by_name(&modules);
    let clusters = affinity_groups::apply(&mut modules, &bound);
    let cpus = run::cpus("cores", Some(&args.cores))?;
    run::for_cores(&mut modules, &cpus);
    let modules: Vec<Arc<Module>> = modules.into_iter().map(Arc::new).collect();
    let programs =
        modules.iter().map(|m| Ok(engine::make(m, &args.compile)?.program)).collect::<Result<Vec<_>, Failure>>()?;
    let descs: Vec<Desc> = modules.iter().zip(clusters).map(|(m, cluster)| Desc { cluster, ..m.desc() }).collect();
    let in_place = modules.len() == 1 && !changes_frames(&modules[0]) && args.many <= 1;
    let mut frames = Vec::new();
    for (port, file) in pairs("bind", &args.bind)? {
        let file = file.strip_prefix("pcap:").unwrap_or(&file);
        let loaded = Frames { in_place, many: args.many, one_queue: args.one_queue, ..Frames::load(Path::new(file))? };
        frames.push((port, loaded));
    }
    let each: u64 = frames.iter().map(|(_, f)| f.index.len() as u64).sum();
    if each == 0 {
        return Err(Failure::Said("nothing to measure: give frames with `--bind PORT=FILE.pcap`".into()));
    }
    let files = |list: Vec<(String, String)>| list.into_iter().map(|(t, f)| (t, f.into())).collect::<Vec<_>>();
    let warm = u64::from(args.many.max(1));
    let job = Job {
        sets: run::sets(&descs.iter().collect::<Vec<_>>(), args.set[..].into())?,
        descs,
        load: files(pairs("load", &args.load)?),
        insert: files(pairs("insert", args.insert.as_slice())?).pop(),
        every: args.every,
        frames,
        cpus,
        rps: args.rps.policy(),
        warm,
        rounds: (args.frames / each).max(1).next_multiple_of(warm),
    };
    let runs = (0..args.repeat.max(1)).map(|_| job.run(&programs)).collect::<Result<Vec<_>, _>>()?;
    let elements = match args.no_elements || args.compile.interpret || job.cpus.len() > 1 || modules.len() > 1 {
        true => Vec::new(),
        false => elements(&modules[0], &job)?,
    };
    let name = &modules.iter().map(|m| m.app.as_str()).collect::<Vec<_>>().join(" + ");
    if args.json {
        print_json(name, &runs, &elements, job.cpus.len())
    } else {
        print_text(name, &runs, &elements, job.cpus.len())
    }
    Ok(())
}

/// Whether frames must be fresh in each round.
fn changes_frames(m: &Module) -> bool {
    let mut changes = false;
    m.bodies(&mut |b| {
        walk::stmts(&b.block, &mut |s| {
            if let StmtKind::Frame { act, .. } = &s.kind {
                changes |= !matches!(act, FrameAct::Send { .. })
            }
        })
    });
    changes
}

fn pairs(flag: &'static str, list: &[String]) -> Result<Vec<(String, String)>, Failure> {
    run::pairs(flag, "NAME=FILE", list)
}

impl Job {
    fn run(&self, programs: &[Program]) -> Result<Measured, Failure> {
        let timing = Arc::new(Timing { warm: self.warm, ..Timing::default() });
        let rounds = self.warm + self.rounds;
        let replay = |f: &Frames| Frames { rounds, timing: Some(timing.clone()), ..f.clone() };
        let inserts = self.insert.as_ref().map(|(table, file)| {
            Arc::new(Inserts { table: table.clone(), file: file.clone(), every: self.every, took: Default::default() })
        });
        let options = ServeOptions {
            cpus: self.cpus.clone(),
            frames: packet::Options {
                bind: self.bindings(),
                load: self.load.clone(),
                memory: self.frames.iter().map(|(port, f)| (port.clone(), (replay(f), None))).collect(),
                inserts: inserts.clone(),
                alone: true,
                rps: self.rps,
                ..packet::Options::default()
            },
            ..ServeOptions::default()
        };
        let spec = |((program, desc), sets): ((&Program, &Desc), &Vec<_>)| AppSpec {
            program: program.clone(),
            desc: desc.clone(),
            sets: sets.clone(),
        };
        let summary = serve(programs.iter().zip(&self.descs).zip(&self.sets).map(spec).collect(), options)?;
        let spent = timing.spent.lock().unwrap_or_else(|e| e.into_inner());
        let mut took = inserts.map(|i| i.took.lock().unwrap_or_else(|e| e.into_inner()).clone()).unwrap_or_default();
        took.sort_unstable();
        Ok(measured(&spent, summary, took))
    }

    /// Ports with frames are replayed; the others lead nowhere.
    fn bindings(&self) -> Vec<(String, String)> {
        let mut seen = std::collections::HashSet::new();
        let frames = self.descs.iter().flat_map(|d| &d.ports).filter_map(|p| match &p.kind {
            kind if kind.is_inside() => None,
            PortKind::Frames { names, .. } => Some((&p.name, names)),
            _ => None,
        });
        let frames = frames.filter(|(name, _)| seen.insert(*name));
        let target = |(name, names): (&String, &Value)| {
            let replayed = self.frames.iter().any(|(port, _)| port == name);
            let count = match names {
                Value::Const(wireloom_ir::desc::ParamValue::Endpoints(list)) => list.len(),
                _ => 1,
            };
            (name.clone(), if replayed { format!("memory:{name}") } else { vec!["null"; count].join(",") })
        };
        frames.map(target).collect()
    }
}

fn measured(spent: &[Spent], summary: Summary, inserts: Vec<u64>) -> Measured {
    let cores = spent.iter().map(|s| s.core).max().map_or(0, |c| c + 1);
    // A core with several ports measures each over about the same time.
    let of =
        |core: usize, part: fn(&Spent) -> u64| spent.iter().filter(|s| s.core == core).map(part).max().unwrap_or(0);
    let cpu: Vec<u64> = (0..cores).map(|c| of(c, |s| s.cpu_ns)).collect();
    Measured {
        frames: spent.iter().map(|s| s.frames).sum::<u64>().max(1),
        busiest_ns: cpu.iter().copied().max().unwrap_or(0),
        all_ns: cpu.iter().sum(),
        process_ns: spent.iter().map(|s| s.process_ns).max().unwrap_or(0),
        wall_ns: spent.iter().map(|s| s.wall_ns).max().unwrap_or(0),
        summary,
        inserts,
    }
}

/// Nanoseconds per frame by element, the dearest first.
fn elements(module: &Arc<Module>, job: &Job) -> Result<Vec<(String, f64)>, Failure> {
    let (library, names) = engine::marked(module, &CompileOptions::default())?;
    let program = Program::load(&library.bytes)?;
    let Some(mark) = program.mark() else { return Err(Failure::Said("the program has no marks".into())) };
    let (stop, mut looks) = (AtomicBool::new(false), vec![0u64; names.len()]);
    let measured = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                std::thread::sleep(LOOK);
                if let Some(n) = looks.get_mut(mark.load(Relaxed) as usize) {
                    *n += 1;
                }
            }
        });
        let measured = job.run(std::slice::from_ref(&program));
        stop.store(true, Relaxed);
        measured
    })?;
    let (all, ns) = (looks.iter().sum::<u64>().max(1) as f64, measured.busiest_ns as f64 / measured.frames as f64);
    let mut by: HashMap<&String, u64> = HashMap::new();
    names.iter().zip(&looks).for_each(|(name, n)| *by.entry(name).or_default() += n);
    let mut list: Vec<(String, f64)> = by.into_iter().map(|(name, n)| (name.clone(), n as f64 / all * ns)).collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    list.retain(|e| e.1 > 0.0);
    Ok(list)
}

fn per_frame(runs: &[Measured], part: fn(&Measured) -> u64) -> Spread {
    Spread::of(runs.iter().map(|r| part(r) as f64 / r.frames as f64).collect())
}

fn print_text(app: &str, runs: &[Measured], elements: &[(String, f64)], cores: usize) {
    let (t, frames) = (per_frame(runs, |r| r.busiest_ns), runs.first().map_or(0, |r| r.frames));
    let on = if cores == 1 { "one core".to_string() } else { format!("{cores} cores") };
    println!(
        "{app}: {:.1} ns per frame [{:.1}..{:.1}], {:.1} Mpps on {on}, {frames} frames in each of {} runs",
        t.median,
        t.low,
        t.high,
        1000.0 / t.median,
        runs.len()
    );
    if cores > 1 {
        let (all, process) = (per_frame(runs, |r| r.all_ns), per_frame(runs, |r| r.process_ns));
        println!(
            "  the busiest core counts; all cores together {:.1} ns, with waiting {:.1} ns",
            all.median, process.median
        );
    }
    let inserts = insert_spread(runs);
    if let Some((n, median, most)) = inserts {
        println!(
            "  {n} insertions while frames flowed: median {:.2} µs, 99 of 100 within {:.2} µs",
            median / 1000.0,
            most / 1000.0
        );
    }
    let sum: f64 = elements.iter().map(|e| e.1).sum();
    if sum > 0.0 {
        println!("  by element, from a run with marks ({sum:.1} ns):");
    }
    for (name, ns) in elements {
        println!("  {:>8.1} ns {:>4.0} %  {name}", ns, ns / sum * 100.0);
    }
}

/// Count, median and 99th percentile, in nanoseconds.
fn insert_spread(runs: &[Measured]) -> Option<(usize, f64, f64)> {
    let mut all: Vec<u64> = runs.iter().flat_map(|r| r.inserts.iter().copied()).collect();
    all.sort_unstable();
    let at = |of_100: usize| all.get(all.len() * of_100 / 100).map(|n| *n as f64);
    Some((all.len(), at(50)?, at(99)?))
}

fn print_json(app: &str, runs: &[Measured], elements: &[(String, f64)], cores: usize) {
    let each: Vec<_> = runs
        .iter()
        .map(|r| {
            let per = |ns: u64| ns as f64 / r.frames as f64;
            serde_json::json!({
                "ns": per(r.busiest_ns), "cpu_ns": per(r.all_ns), "process_ns": per(r.process_ns), "wall_ns": per(r.wall_ns), "frames": r.frames,
                "received": r.summary.frames, "sent": r.summary.frames_sent, "faults": r.summary.faults,
            })
        })
        .collect();
    let elements: Vec<_> = elements.iter().map(|(name, ns)| serde_json::json!({ "element": name, "ns": ns })).collect();
    let inserts = insert_spread(runs)
        .map(|(n, median, most)| serde_json::json!({ "count": n, "median_ns": median, "p99_ns": most }));
    let t = per_frame(runs, |r| r.busiest_ns);
    println!(
        "{}",
        serde_json::json!({ "app": app, "cores": cores, "ns": t.median, "runs": each, "elements": elements, "inserts": inserts })
    );
}
