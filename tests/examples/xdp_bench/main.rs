//! `bench/xdp/run.sh`: generated programs for the XDP hook beside ones written by hand.
//!
//! Each round runs all programs, one after the other, so that what the machine does besides meets
//! all of them. A figure is the median of the rounds, in nanoseconds above an empty program.
//!
//! Then programs that are made at random are loaded, and the times that the kernel takes are told.
//!
//!     xdp_bench [ROUNDS [PROGRAMS]]

mod balancers;

use balancers::Measured;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wireloom_codegen_c::xdp::emit;
use wireloom_interp::Pattern;
use wireloom_interp::Ranked;
use wireloom_ir::placement::{candidates, specialise};
use wireloom_ir::{HandlerId, On};
use wireloom_runtime::params;
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::{bare_module, module};
use wireloom_tests::root;
use wireloom_tests::whole::{accepted, placed_app, Kind};
use wireloom_xdp::{Hand, Object, Settings, Verdict};

/// A row of the table: ours, what it is measured beside, and what is to be reached.
struct Job {
    title: &'static str,
    ours: &'static str,
    peer: Peer,
    must: f64,
    aim: f64,
}

enum Peer {
    /// Nothing: nanoseconds above an empty program.
    Above,
    /// A program by hand: the ratio of what lies above the floors of both, by hand and ours.
    Hand { name: &'static str, floors: [&'static str; 2] },
    /// Debian's xdp-filter with all features, above an empty program.
    XdpFilter,
    /// katran, if it is there: above a program that restores the frame, as ours. `ours` has so many
    /// flows.
    Katran(u32),
    /// BMC, if it is there, or else a figure measured elsewhere: above a program that restores the
    /// frame.
    Bmc(f64),
}

const JOBS: &[Job] = &[
    Job {
        title: "parse and count, ns above an empty program",
        ours: "parse_count",
        peer: Peer::Above,
        must: 4.0,
        aim: 2.0,
    },
    Job { title: "whole walk, ns above an empty program", ours: "whole_walk", peer: Peer::Above, must: 12.0, aim: 9.0 },
    Job {
        title: "1K flows, one receiving queue, beside the kernel's HASH",
        ours: "flows_1k",
        peer: Peer::Hand { name: "hash_1k", floors: EMPTY },
        must: 0.70,
        aim: 0.62,
    },
    Job {
        title: "1M flows, one receiving queue, beside the kernel's HASH",
        ours: "flows_1m",
        peer: Peer::Hand { name: "hash_1m", floors: EMPTY },
        must: 0.75,
        aim: 0.68,
    },
    Job {
        title: "1K flows, several queues, beside the kernel's HASH",
        ours: LOCKED_1K,
        peer: Peer::Hand { name: "hash_1k", floors: EMPTY },
        must: 0.70,
        aim: 0.62,
    },
    Job {
        title: "1M flows, several queues, beside the kernel's HASH",
        ours: LOCKED_1M,
        peer: Peer::Hand { name: "hash_1m", floors: EMPTY },
        must: 0.75,
        aim: 0.68,
    },
    Job {
        title: "parse and count, beside the one by hand",
        ours: "parse_count",
        peer: Peer::Hand { name: "parse_count", floors: EMPTY },
        must: 1.2,
        aim: 1.05,
    },
    Job {
        title: "1K flows, beside own lines by hand",
        ours: "flows_1k",
        peer: Peer::Hand { name: "lines_1k", floors: CHANGE },
        must: 1.2,
        aim: 1.05,
    },
    Job {
        title: "1M flows, beside own lines by hand",
        ours: "flows_1m",
        peer: Peer::Hand { name: "lines_1m", floors: CHANGE },
        must: 1.2,
        aim: 1.05,
    },
    Job {
        title: "parse and count, beside one by hand that checks and counts the same",
        ours: "parse_count",
        peer: Peer::Hand { name: "parse_count_checked", floors: EMPTY },
        must: 1.2,
        aim: 1.05,
    },
    Job {
        title: "1K flows, beside lines by hand that check, expire and count the same",
        ours: "flows_1k",
        peer: Peer::Hand { name: "kept_1k", floors: EMPTY },
        must: 1.2,
        aim: 1.05,
    },
    Job {
        title: "1M flows, beside lines by hand that check, expire and count the same",
        ours: "flows_1m",
        peer: Peer::Hand { name: "kept_1m", floors: EMPTY },
        must: 1.2,
        aim: 1.05,
    },
    Job {
        title: "1,000 rules, beside xdp-filter with all features and no rule",
        ours: "rules",
        peer: Peer::XdpFilter,
        must: 0.7,
        aim: 0.5,
    },
    Job {
        title: "1,000 rules of which none fits, beside xdp-filter with all features and no rule",
        ours: NO_RULE,
        peer: Peer::XdpFilter,
        must: 0.7,
        aim: 0.5,
    },
    Job {
        title: "l4_balancer, 1K flows, beside katran",
        ours: "l4_balancer",
        peer: Peer::Katran(1 << 10),
        must: 0.45,
        aim: 0.34,
    },
    Job {
        title: "l4_balancer, 1M flows, beside katran",
        ours: "l4_balancer",
        peer: Peer::Katran(1 << 20),
        must: 0.40,
        aim: 0.32,
    },
    Job {
        title: "GET hit, 16 bytes of key, 32 of value, beside BMC (or its 208 ns on an EPYC)",
        ours: KV,
        peer: Peer::Bmc(208.0),
        must: 0.45,
        aim: 0.32,
    },
];

/// The floors of a measurement: by hand and ours.
const EMPTY: [&str; 2] = ["empty", "empty"];
const CHANGE: [&str; 2] = ["change", "change"];
/// A program that makes the frame a request, with the cache behind it.
const KV: &str = "restored";

const HAND: &[&str] = &[
    "empty",
    "parse_count",
    "hash_1k",
    "hash_1m",
    "lines_1k",
    "lines_1m",
    "parse_count_checked",
    "kept_1k",
    "kept_1m",
    "change",
    "note_meta",
    "note_head",
    "restored_alone",
    KV,
];
const OURS: &[&str] =
    &["parse_count", "whole_walk", "flows_1k", "flows_1m", "rules", NO_RULE, "change", LOCKED_1K, LOCKED_1M];
/// The same rules but the last one: a packet is looked up under all masks.
const NO_RULE: &str = "rules, none fits";
/// The same flow tables with locks, as where an interface has several receiving queues.
const LOCKED_1K: &str = "flows_1k, locked";
const LOCKED_1M: &str = "flows_1m, locked";

/// Runs of a measurement: for a million flows so many that each is met.
fn repeat(name: &str) -> u32 {
    match name.contains("_1m") {
        true => 4 << 20,
        false => 1 << 20,
    }
}

/// A datagram. Its identification says how far the next run's flow is from its own. It is odd, so a
/// pass meets each flow once. The first round goes over the flows in a row. The others have another
/// order than that of filling, as traffic has.
fn frame(round: usize) -> Vec<u8> {
    let step: u16 = if round == 0 { 1 } else { 31153 };
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46];
    f.extend(step.to_be_bytes());
    f.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend([0, 0, 0, 53, 0, 26, 0, 0]);
    f.resize(60, 0);
    f
}

fn load(name: &str) -> Object {
    let file = name.split(',').next().unwrap_or(name);
    let path: PathBuf = root().join(format!("bench/xdp/{file}.loom"));
    let m = module(&path);
    let source = emit(&m, &candidates(&m), &|_| 1).expect("a handler of frames");
    let mut object = Object::load(&source, &Settings::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    object.set_one_queue(file == name);
    object
}

/// A get of memcached over UDP, and its answer.
fn exchange() -> (Vec<u8>, Vec<u8>) {
    let key = "0123456789abcdef";
    let datagram = |turned: bool, text: String| {
        let (size, ports) = ((text.len() + 16) as u16, [4000u16, 11211]);
        let (mut addresses, mut ports) = ([[10, 0, 0, 9], [10, 0, 0, 1]], ports.map(u16::to_be_bytes));
        if turned {
            addresses.reverse();
            ports.reverse()
        }
        let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        f.extend((size + 20).to_be_bytes());
        f.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        f.extend(addresses.concat());
        f.extend(ports.concat());
        f.extend(size.to_be_bytes());
        f.extend([0, 0, 0, 7, 0, 0, 0, 1, 0, 0]);
        f.extend(text.as_bytes());
        f
    };
    let value = "v".repeat(32);
    (datagram(false, format!("get {key}\r\n")), datagram(true, format!("VALUE {key} 0 32\r\n{value}\r\nEND\r\n")))
}

/// The app with an answer in its cache.
fn cache(get: &[u8], answer: &[u8]) -> Object {
    let m = bare_module(root().join("apps/xdp_kv_cache.loom"));
    let sets = [("most".to_string(), "1h".to_string())];
    let values = params::resolve(&m.desc(), &sets).expect("parameters").values.clone();
    let (mut special, all) = (m.clone(), candidates(&m));
    all.iter().for_each(|h| specialise(&mut special, *h, &values));
    let source = emit(&special, &all, &|_| 1).expect("handlers of frames");
    let object = Object::load(&source, &Settings::default()).unwrap_or_else(|e| panic!("xdp_kv_cache: {e}"));
    for (program, frame) in [(0, get), (1, answer)] {
        object.test(program, frame).expect("the kernel runs it");
    }
    let ran = object.test(0, get).expect("the kernel runs it");
    assert!(ran.verdict == Verdict::Tx && ran.frame.len() == answer.len(), "no hit: {:?}", ran.verdict);
    object
}

/// 1,000 rules under 12 masks, none of which fits the frame, or only the last one.
fn fill(object: &mut Object, fits: bool) {
    let masks: Vec<[u8; 11]> = (0..12u8)
        .map(|n| {
            let (src, dst) = (u32::MAX << (2 * (n % 4)), u32::MAX << (4 * (n / 4)));
            let mut mask = [0xff; 11];
            mask[..4].copy_from_slice(&src.to_le_bytes());
            mask[4..8].copy_from_slice(&dst.to_le_bytes());
            mask
        })
        .collect();
    for n in 0..1000u32 {
        let mask = masks[n as usize % 12];
        let mut key = [0u8; 11];
        key[..4].copy_from_slice(&(0x0b00_0000 + (n << 8)).to_le_bytes());
        key[4..8].copy_from_slice(&0x0a00_0002u32.to_le_bytes());
        key[8..10].copy_from_slice(&53u16.to_le_bytes());
        key[10] = 17;
        if n == 999 && fits {
            key[..4].copy_from_slice(&0x0a00_0001u32.to_le_bytes());
        }
        let key: Vec<u8> = key.iter().zip(mask).map(|(a, b)| a & b).collect();
        let entry = Ranked { priority: u128::from(n), value: &[1] };
        assert!(object.stand_for(0, Pattern { key: &key, mask: &mask }, Some(entry)), "a rule has no room");
    }
}

/// xdp-filter of the package xdp-tools. None: it is not there.
fn xdp_filter() -> Option<Hand> {
    let object = PathBuf::from(format!("/usr/lib/{}-linux-gnu/bpf/xdpfilt_alw_all.o", std::env::consts::ARCH));
    if !object.exists() {
        return None;
    }
    let pins = PathBuf::from(format!("/sys/fs/bpf/wireloom-bench-{}", std::process::id()));
    std::fs::create_dir(&pins).expect("/sys/fs/bpf is a BPF file system");
    let filter = Hand::load_object(&object, &pins);
    std::fs::remove_dir_all(&pins).expect("the pins can be removed");
    Some(filter.unwrap_or_else(|e| panic!("xdp-filter: {e}")))
}

/// Texts of programs by hand, one behind the other.
fn by_hand(files: &[&str]) -> String {
    let read = |name: &&str| std::fs::read_to_string(root().join("bench/xdp").join(name));
    files.iter().map(|name| read(name).expect("the programs by hand")).collect()
}

/// Programs that make a frame as it was, for what is put behind them. `longest`: the frame behind
/// it.
fn restored(frame: &[u8], longest: usize, more: &str) -> Hand {
    let text = by_hand(&["head.bpf.c", "restored.bpf.c"]);
    Hand::load(&format!("{more}{}{text}", request(frame, longest))).unwrap_or_else(|e| panic!("{e}"))
}

fn request(frame: &[u8], longest: usize) -> String {
    let bytes: Vec<String> = frame.iter().map(u8::to_string).collect();
    format!("#define WL_REQUEST {{{}}}\n#define WL_ANSWER {longest}\n", bytes.join(","))
}

/// BMC with an answer, behind a program that makes the frame a request again: `bench/xdp/bmc.sh`
/// compiles it, and `BMC` in the environment names the object. None: it does not.
fn bmc(get: &[u8], answer: &[u8]) -> Option<(Hand, Hand)> {
    let object = PathBuf::from(std::env::var_os("BMC")?);
    let told = |e: wireloom_xdp::Error| -> Hand { panic!("BMC: {e}") };
    let mut bmc = Hand::load_object(&object, &PathBuf::from("/sys/fs/bpf")).unwrap_or_else(told);
    let programs = ["bmc_hash_keys_main", "bmc_prepare_packet_main", "bmc_write_reply_main"];
    bmc.chain("map_progs_xdp", &programs).unwrap_or_else(|e| panic!("BMC: {e}"));
    // `struct bmc_cache_entry`: a lock, the length, whether it counts, FNV-1a of the key, the
    // answer without its end.
    let text_of_answer = &answer[50..answer.len() - 5];
    let key = &text_of_answer[6..22];
    let hash = key.iter().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
    let mut entry = [0, text_of_answer.len() as u32, 1, hash].map(u32::to_ne_bytes).concat();
    entry.extend(text_of_answer);
    entry.resize(BMC_ENTRY, 0);
    bmc.set("map_kcache", hash % BMC_ENTRIES, &entry).expect("BMC has room");
    let mut restored = restored(get, answer.len(), "#define WL_MOVED 128\n");
    restored.put_after_hand(&bmc, "bmc_rx_filter_main").unwrap_or_else(|e| panic!("BMC: {e}"));
    let (verdict, frame) = restored.test(KV, get).expect("the kernel runs it");
    assert!(verdict == Verdict::Tx && frame[50..] == answer[50..], "BMC has no hit: {verdict:?}");
    Some((restored, bmc))
}

/// As `bench/xdp/bmc.sh` makes them: bytes of an entry, and entries.
const BMC_ENTRY: usize = 1132;
const BMC_ENTRIES: u32 = 16384;

/// Its program with all features.
const XDP_FILTER: &str = "xdpfilt_alw_all";

fn median(all: &mut [f64]) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The times that the kernel takes to load random programs, in order: each an app of two segments.
fn loads(programs: usize) -> Vec<Duration> {
    let folder = Folder::new("xdp-bench");
    let mut all = Vec::new();
    for seed in 0.. {
        if all.len() == programs {
            break;
        }
        let (made, _) = accepted(Kind::Hook, seed, 1, &folder.file("one.loom"));
        let path = folder.file("app.loom");
        std::fs::write(&path, placed_app(&made, "xdp", "cpu(0)")).expect("the folder is writable");
        let m = module(&path);
        let values = params::resolve(&m.desc(), &[]).expect("parameters have values").values.clone();
        let queue = |h: &HandlerId| match m.handlers[h.index()].on {
            On::Frame { port, .. } => m.ports[port.index()].kind.is_queue(),
            _ => true,
        };
        let handlers: Vec<HandlerId> = candidates(&m).into_iter().filter(|h| !queue(h)).collect();
        let mut special = m.clone();
        handlers.iter().for_each(|h| specialise(&mut special, *h, &values));
        let source = emit(&special, &handlers, &|_| 1).expect("handlers of frames");
        let object = Object::load(&source, &Settings::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        all.push(object.took());
    }
    all.sort();
    all
}

fn main() {
    let argument = |n: usize| std::env::args().nth(n).and_then(|n| n.parse::<usize>().ok());
    let (rounds, programs) = (argument(1).unwrap_or(7), argument(2).unwrap_or(30));
    let (get, answer) = exchange();
    let text = by_hand(&["head.bpf.c", "hand.bpf.c", "restored.bpf.c"]);
    let mut hand = Hand::load(&format!("{}{text}", request(&get, answer.len()))).unwrap_or_else(|e| panic!("{e}"));
    let cache = cache(&get, &answer);
    hand.put_after(&cache, 0).unwrap_or_else(|e| panic!("{e}"));
    let ours: Vec<Arc<Mutex<Object>>> = OURS.iter().map(|n| Arc::new(Mutex::new(load(n)))).collect();
    for (name, object) in OURS.iter().zip(&ours).filter(|(name, _)| name.starts_with("rules")) {
        let mut object = object.lock().unwrap();
        fill(&mut object, *name != NO_RULE);
        object.sort();
    }
    let (mut of_hand, mut of_ours) = (vec![Vec::new(); HAND.len()], vec![Vec::new(); OURS.len()]);
    let (filter, mut of_filter) = (xdp_filter(), Vec::new());
    let (bmc, mut of_bmc) = (bmc(&get, &answer), [Vec::new(), Vec::new()]);
    let mut balancers = balancers::all(&restored);
    for round in 0..=rounds {
        let frame = frame(round);
        for (n, name) in HAND.iter().enumerate() {
            let frame = if name.starts_with(KV) { &get } else { &frame };
            let ns = hand.run(name, frame, repeat(name)).expect("the program runs");
            // The first round fills tables.
            if round > 0 {
                of_hand[n].push(ns)
            }
        }
        for (n, name) in [KV, "restored_alone"].iter().enumerate() {
            let Some((restored, _)) = &bmc else { break };
            let ns = restored.run(name, &get, repeat(name)).expect("the program runs");
            of_bmc[n].extend((round > 0).then_some(ns));
        }
        balancers.iter_mut().for_each(|b| b.run(round));
        if let Some(filter) = &filter {
            let ns = filter.run(XDP_FILTER, &frame, repeat(XDP_FILTER)).expect("the program runs");
            of_filter.extend((round > 0).then_some(ns));
        }
        for (n, name) in OURS.iter().enumerate() {
            let ran = ours[n].lock().unwrap().test_many(0, &frame, repeat(name)).expect("the program runs");
            if round > 0 {
                of_ours[n].push(ran.nanoseconds)
            }
        }
    }
    let of =
        |name: &str| HAND.iter().position(|n| *n == name).map(|n| median(&mut of_hand[n].clone())).expect("measured");
    let by_us =
        |name: &str| OURS.iter().position(|n| *n == name).map(|n| median(&mut of_ours[n].clone())).expect("measured");
    let empty = of("empty");
    println!("empty program: {empty:.2} ns; {rounds} rounds\n");
    println!("| job | result | must | aim | |\n|---|---|---|---|---|");
    for j in JOBS {
        let result = match j.peer {
            Peer::Above => by_us(j.ours) - empty,
            Peer::Hand { name, floors: [hand, ours] } => {
                let floor = if ours == "empty" { empty } else { by_us(ours) };
                (by_us(j.ours) - floor) / (of(name) - of(hand))
            }
            Peer::XdpFilter if of_filter.is_empty() => {
                println!("| {}: the package xdp-tools is not there |", j.title);
                continue;
            }
            Peer::XdpFilter => (by_us(j.ours) - empty) / (median(&mut of_filter.clone()) - empty),
            Peer::Katran(flows) => {
                let above = |name| balancers.iter().find(|b| (b.name, b.flows) == (name, flows)).map(Measured::above);
                match (above(j.ours), above("katran")) {
                    (Some(ours), Some(katran)) => ours / katran,
                    _ => {
                        println!("| {}: `bench/xdp/katran.sh` has not made it |", j.title);
                        continue;
                    }
                }
            }
            Peer::Bmc(quoted) => {
                let ns =
                    bmc.as_ref().map_or(quoted, |_| median(&mut of_bmc[0].clone()) - median(&mut of_bmc[1].clone()));
                (of(j.ours) - of("restored_alone")) / ns
            }
        };
        let word = if result <= j.aim {
            "aim"
        } else if result <= j.must {
            "must"
        } else {
            "missed"
        };
        println!("| {} | {result:.2} | {} | {} | {word} |", j.title, j.must, j.aim);
    }
    println!("\n| program | ns | verified |\n|---|---|---|");
    for (n, name) in OURS.iter().enumerate() {
        let verified = ours[n].lock().unwrap().verified().map_or("-".into(), |v| v.to_string());
        println!("| {name} | {:.2} | {verified} |", by_us(name));
    }
    if !of_filter.is_empty() {
        println!("| xdp-filter | {:.2} | |", median(&mut of_filter));
    }
    for (n, name) in ["BMC, restored", "restored_alone for BMC"].iter().enumerate().filter(|_| bmc.is_some()) {
        println!("| {name} | {:.2} | |", median(&mut of_bmc[n].clone()));
    }
    for b in &balancers {
        println!("| {}, {} flows, above restoring the frame | {:.2} | |", b.name, b.flows, b.above());
    }
    for name in HAND {
        println!("| {name}, by hand | {:.2} | |", of(name));
    }
    let times = loads(programs);
    if let (Some(half), Some(most)) = (times.get(times.len() / 2), times.get(times.len() * 99 / 100)) {
        println!(
            "\n{programs} random programs loaded: half of them in {:.1} ms, 99 of 100 in {:.1} ms (must 100)",
            half.as_secs_f64() * 1e3,
            most.as_secs_f64() * 1e3
        );
    }
}
