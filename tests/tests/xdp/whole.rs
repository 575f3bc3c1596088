//! Whole programs at random on each device (`wireloom_tests::whole`): interpreted, compiled, in the
//! hook with the CPU behind it, and in two processes with a NIC. Frames, tables, counters, lines
//! and faults are equal, and the kernel takes each program. `make test-long` compares ten thousand.

use super::*;
use wireloom_interp::frames::FramePair;
use wireloom_tests::captures::{read, write, Frames, EPOCH};
use wireloom_tests::programs::{checked_both, compiled, no_internal_errors, seeds};
use wireloom_tests::whole::{accepted, placed_app, Features, Kind, Parts, BACK_PORTS, FRONT_PORTS};

/// Programs of an app, and frames for each.
const TOGETHER: usize = 12;
const EACH: usize = 80;

/// Places of the two segments.
const CPU: (&str, &str) = ("cpu(0)", "cpu(0)");
const HOOK: (&str, &str) = ("xdp", "cpu(0)");
const CARD: (&str, &str) = ("nic", "cpu(0)");
const BEHIND: (&str, &str) = ("cpu(0)", "nic");

/// The words of refusals by the kernel that users can do something about.
const LIMITS: [&str; 2] = ["needs more than the kernel's stack", "is too long for the kernel's verifier"];

struct App<'a> {
    folder: &'a Folder,
    programs: &'a [Parts],
    seed: u64,
}

/// The port of a program's frames.
fn wire(program: &Parts) -> String {
    let (_, rest) = program.members.split_once("port ").expect("a program has a port");
    rest.split_once(" =").expect("a port").0.to_string()
}

impl App<'_> {
    /// Writes it with its segments at some places.
    fn placed(&self, (front, back): (&str, &str)) -> PathBuf {
        written(self.folder, &placed_app(self.programs, front, back))
    }

    /// Random frames for its programs.
    fn frames(&self, ports: Vec<(usize, u16, bool)>) -> impl Iterator<Item = FrameIn> {
        let mut mutator = Mutator::new(self.seed, samples(&[]), vec![], ports);
        let mut n = 0;
        let next = move || {
            let mut f = mutator.random();
            n += 1;
            // Some are long: queues carry parts of these.
            if n % 3 == 0 && f.bytes.len() > 60 {
                let long = [130, 300, 700, 1514][n / 3 % 4];
                f.bytes.resize(f.bytes.len().max(long), n as u8);
                f.wire = f.wire.max(long as u32);
            }
            f
        };
        std::iter::repeat_with(next).take(EACH * self.programs.len())
    }

    /// Interpreted and compiled.
    fn on_cpu(&self) -> Result<u64, String> {
        let (graph, inlined) = checked_both(&self.placed(CPU), None)?;
        let Some(other) = compiled(&inlined)? else { return Ok(0) };
        let mut pair = FramePair::new(&inlined, interpreted(&Arc::new(graph)), other, &[])?;
        for f in self.frames(pair.inputs()) {
            pair.frame(&f)
                .map_err(|e| format!("frame on port {}: {}\n{e}", f.port, wireloom_interp::frames::hex(&f.bytes)))?;
        }
        pair.finish()?;
        Ok(pair.sum.sent)
    }

    /// In the hook, and behind it. Every other app gives parts of frames to the process by a ring.
    /// Two of three begin with programs that need less of the kernel.
    fn in_hook(&self) -> Option<Sum> {
        let path = self.placed(HOOK);
        BEGIN.set([Thrift::Apart, Thrift::Fast, Thrift::Far][self.seed as usize % 3]);
        let sum = beside_it(&path, &[], 0, |both| {
            let ports = both.all.iter().map(|h| (h.1.index(), 1, true)).collect();
            if self.seed.is_multiple_of(2) {
                let object = both.object.lock().unwrap();
                both.rings = (0..both.all.len()).map(|n| queues::ring(&object, n)).collect();
                object.set_ringed(true);
            }
            for f in self.frames(ports) {
                let program = both.all.iter().position(|h| h.1.index() == f.port).expect("a program");
                if SIZES.contains(&f.bytes.len()) {
                    both.at(f.time);
                    both.one(program, &f.bytes);
                }
            }
        });
        BEGIN.set(usual_thrift());
        sum
    }

    /// In processes, from captures to captures; the frames, and all that is written at the end.
    fn in_processes(&self, way: &str, places: (&str, &str)) -> Outcome {
        let path = self.placed(places);
        let mut args = vec!["run".to_string(), path.display().to_string(), "--interpret".into()];
        args.extend(["--control", "off", "--dump"].map(String::from));
        args.push(format!("counters={}", self.folder.name_of(&format!("{way}.json"))));
        let tables = self.tables();
        for t in &tables {
            args.extend(["--dump".into(), format!("{t}={}", self.folder.name_of(&format!("{way}-{t}.csv")))]);
        }
        for p in self.programs.iter().map(wire) {
            args.extend(["--bind".into(), format!("{p}=pcap:{}", self.folder.name_of(&format!("{p}.pcap")))]);
        }
        let outs = FRONT_PORTS.iter().chain(&BACK_PORTS);
        for o in outs.clone() {
            args.extend(["--bind".into(), format!("{o}=pcap:{}", self.folder.name_of(&format!("{way}-{o}.pcap")))]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = Wireloom::command_with(&args, |c| _ = c.env("RUST_LOG", "warn,wireloom::serve=info"));
        assert_eq!(said.code, Some(0), "{way}: {}", said.text);
        let text = |name: String| std::fs::read_to_string(self.folder.file(&name)).unwrap_or_default();
        let rows = |t: &String| {
            let mut rows: Vec<String> = text(format!("{way}-{t}.csv")).lines().map(String::from).collect();
            rows.sort();
            (t.clone(), rows)
        };
        Outcome {
            frames: outs.map(|o| read(&self.folder.file(&format!("{way}-{o}.pcap")))).collect(),
            counters: text(format!("{way}.json")),
            tables: tables.iter().map(rows).collect(),
            lines: lines(&said.text, " log "),
            faults: lines(&said.text, "] faults: "),
        }
    }

    /// Exact tables of both segments that files have a form for.
    fn tables(&self) -> Vec<String> {
        let members = self.programs.iter().flat_map(|p| p.members.lines());
        let exact = |l: &str| {
            let (name, kind) = l.trim().strip_prefix("table ")?.split_once(": ")?;
            let other = ["ring ", "bloom ", "count_min ", "hyper_log_log ", "wildcard ", "lpm "];
            let formless = ["?", "list<", "i32", "Nest"];
            let is_out = other.iter().any(|k| kind.starts_with(k)) || formless.iter().any(|f| kind.contains(f));
            (!is_out).then(|| name.to_string())
        };
        members.filter_map(exact).collect()
    }

    /// With a segment on a NIC, and without: frames that were sent, and kinds and places of faults.
    fn on_nic(&self) -> (usize, usize) {
        let ports = (0..self.programs.len()).map(|n| (n, 1, true)).collect();
        let mut inputs: Vec<Frames> = vec![Vec::new(); self.programs.len()];
        for (n, f) in self.frames(ports).enumerate() {
            // No two frames come at the same time.
            inputs[f.port].push((EPOCH + n as u64 * 700_000, f.bytes));
        }
        for (p, frames) in self.programs.iter().zip(&inputs) {
            write(&self.folder.file(&format!("{}.pcap", wire(p))), frames);
        }
        let cpu = self.in_processes("cpu", CPU);
        for (way, places) in [("card", CARD), ("behind", BEHIND)] {
            let other = self.in_processes(way, places);
            let here = |what: &str| format!("{way}, {}: {what}", self.folder.path().display());
            assert_eq!(other.counters, cpu.counters, "{}", here("counters"));
            assert_eq!(other.tables, cpu.tables, "{}", here("tables"));
            for (n, (a, b)) in cpu.frames.iter().zip(&other.frames).enumerate() {
                let differ = a.iter().zip(b).position(|(a, b)| a != b);
                assert!(a == b, "{}", here(&format!("out {n}: {} and {} frames, at {differ:?}", a.len(), b.len())));
            }
            assert_eq!(other.lines, cpu.lines, "{}", here("lines"));
            assert_eq!(other.faults, cpu.faults, "{}", here("faults"));
        }
        (cpu.frames.iter().map(Vec::len).sum(), cpu.faults.len())
    }
}

/// The results of a run on captures.
struct Outcome {
    /// By port.
    frames: Vec<Frames>,
    counters: String,
    tables: Vec<(String, Vec<String>)>,
    lines: Vec<String>,
    /// By kind and place, with their numbers.
    faults: Vec<String>,
}

/// Lines of the program's log, or of its faults, in any order: two segments log.
fn lines(said: &str, sign: &str) -> Vec<String> {
    let of = |l: &str| {
        l.split_once(sign).map(|(head, rest)| if sign == " log " { format!("{head} {rest}") } else { rest.to_string() })
    };
    let mut all: Vec<String> = said.lines().filter_map(of).collect();
    all.sort();
    all
}

/// The programs of one seed on all devices.
#[derive(Default)]
struct Seen {
    programs: Vec<Parts>,
    refused: usize,
    /// Frames that were sent: on the CPU, in the hook, with a NIC.
    sent: [u64; 3],
    faults: usize,
    hook: Option<Sum>,
}

fn one_app(seed: u64) -> Seen {
    let folder = Folder::new("xdp-whole");
    let (programs, refused) = accepted(Kind::Hook, seed, TOGETHER, &folder.file("one.loom"));
    let app = App { folder: &folder, programs: &programs, seed };
    let on_cpu = app.on_cpu().unwrap_or_else(|e| panic!("{}: {e}", folder.path().display()));
    let hook = app.in_hook();
    let in_hook = hook.as_ref().map_or(0, |s| s.sent + s.crossed);
    let (with_nic, faults) = app.on_nic();
    Seen { refused, sent: [on_cpu, in_hook, with_nic as u64], faults, hook, programs }
}

/// As many apps as `WIRELOOM_SEEDS` says. One that fails does not end a long run.
#[test]
fn whole_programs() {
    let (mut all, mut refused, mut sent, mut took, mut faults) = (0, 0, [0, 0, 0], Vec::new(), 0);
    let (mut features, mut sum, mut failed, mut unfit) = (Features::default(), Sum::default(), Vec::new(), Vec::new());
    for seed in seeds(1) {
        let seen = match std::panic::catch_unwind(|| one_app(seed)) {
            Ok(seen) => seen,
            Err(why) => {
                let beyond = why.downcast_ref::<String>().is_some_and(|w| LIMITS.iter().any(|l| w.contains(l)));
                eprintln!("that was seed {seed}");
                if beyond { &mut unfit } else { &mut failed }.push(seed);
                continue;
            }
        };
        features.count(&seen.programs);
        if let Some(s) = seen.hook {
            took.push(s.took);
            sum.add(&s)
        }
        (0..3).for_each(|n| sent[n] += seen.sent[n]);
        (all, refused, faults) = (all + seen.programs.len(), refused + seen.refused, faults + seen.faults);
        if seed % 10 == 0 {
            eprintln!("{all} programs")
        }
    }
    took.sort();
    let most = took.get(took.len() * 99 / 100);
    eprintln!(
        "{all} programs, {refused} refused by the checker; sent {sent:?}, {faults} faults by place, {sum:?}; loaded in {most:?} (99 of 100)"
    );
    eprintln!("seeds {unfit:?} are beyond the kernel's limits");
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    assert!(unfit.len() <= 2 + all / TOGETHER / 30, "too many are beyond the kernel's limits: {unfit:?}");
    features.judge(Kind::Hook, all);
    assert!(all * 2 > refused && sent[0] > 100 && sent[2] > 100 && faults > 0, "that says nothing");
    // Every other app has rings.
    assert!(
        took.len() < 4 || sum.crossed > 100 && sum.cut * 20 > sum.crossed && sum.ringed * 20 > sum.crossed,
        "{sum:?}"
    );
    no_internal_errors();
}
