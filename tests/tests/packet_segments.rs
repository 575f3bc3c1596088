//! Segments, and the queues between them. On one core, on two, and interpreted the same frames come
//! out, in the same order and at the same times. A lossless queue loses nothing; a lossy one counts
//! what it discards.

use std::sync::Arc;
use wireloom_interp::frames::{hex, samples, FramePair, Mutator};
use wireloom_tests::admin::eventually;
use wireloom_tests::captures::{read, sport, traffic, udp, write, Frames, Runs, EPOCH, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::process::quickly_compiled;
use wireloom_tests::programs::{checked_both, compiled, interpreted, no_internal_errors};
use wireloom_tests::{free_port, Process, Wireloom};

/// Three segments on two cores. `DEPTH` stands for a depth, `HOW` for `lossless` or `lossy`.
pub const CHAIN: &str = r#"
/// Lets one packet pass each millisecond.
element Pace {
    in  x: packet
    out y: packet
    queue waiting { depth 4K }
    x -> waiting
    every 1ms { waiting.pop() }
    waiting -> y
}

app chain {
    port wire = nic("a"), out = nic("b"), side = nic("c"), rest = nic("d")
    queue parsed { depth DEPTH, HOW }
    queue costly { depth DEPTH, instances 2, HOW }
    pace = Pace()
    counter seen, served
    state last: u32
    state turn: u32
    table flows: u8 -> u32 { capacity 512, idle 5ms }
    segment rx on cpu(0) {
        on wire(p) {
            seen += 1
            if not p.udp { p -> rest; return }
            p.mark = u32(p.udp.src) * 3
            last = p.mark
            p -> parsed
        }
        every 3ms {
            if last > 0 {
                [Ethernet { type: 0x0800 }, Ipv4 { ttl: 9, proto: 17 }, Udp { src: u16(last & 1023), dst: 7 }] -> parsed
            }
        }
    }
    segment work on cpu(1) {
        on parsed(p) {
            seen += 1
            turn += 1
            if let u = p.udp {
                flows[u8(u.src & 15)] += 1
                p.mark += (flows[u8(u.src & 15)] else 0) << 16
            }
            p -> costly[turn & 1]
        }
        every 7ms { turn += 1 }
    }
    segment tx on cpu(0) {
        on costly[i](p) {
            served += 1
            p.mark += i
            if i == 1 { p -> pace } else { p -> side }
        }
        pace -> where .eth -> told
    }
    told = Tell()
    told -> out
    on end { turn = 0 }
}

/// Writes the mark into the addresses.
element Tell {
    in  x: packet
    out y: packet
    on x(p) where p.eth and p.ip4 {
        p.eth.type = u16(p.mark & 0xffff)
        p.ip4.id = u16(p.mark >> 16)
        p -> y
    }
}
"#;

pub fn program(depth: &str, how: &str) -> String {
    CHAIN.replace("DEPTH", depth).replace("HOW", how)
}

fn number(said: &str, what: &str) -> u64 {
    said.split_once(what).and_then(|(s, _)| s.rsplit(' ').next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

pub const OUTS: [&str; 3] = ["out", "side", "rest"];

/// Runs the program; answers the frames of every port, the counters, and how many were discarded.
pub fn run(folder: &Folder, way: &str, more: &[&str]) -> (Vec<Frames>, String, u64) {
    let mut args = vec!["--bind".to_string(), "wire=pcap:@/in.pcap".into()];
    for o in OUTS {
        args.extend(["--bind".into(), format!("{o}=pcap:@/{o}-{way}.pcap")]);
    }
    args.extend(["--dump".into(), format!("counters=@/{way}.json")]);
    args.extend(more.iter().map(|s| s.to_string()));
    let said = folder.run("program.loom", &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(said.contains(" 0 faults") && said.contains(" 0 without an output"), "{way}: {said}");
    let counters = std::fs::read_to_string(folder.file(&format!("{way}.json"))).expect("the counters");
    let frames = OUTS.iter().map(|o| read(&folder.file(&format!("{o}-{way}.pcap")))).collect();
    (frames, counters, number(&said, " discarded by queues"))
}

/// One core, two cores, and no pinning at all, compiled and interpreted.
const WAYS: [(&str, &[&str]); 5] = [
    ("one", &["--cores", "0"]),
    ("two", &["--cores", "0-1"]),
    ("free", &[]),
    ("one-i", &["--cores", "0", "--interpret"]),
    ("two-i", &["--cores", "0-1", "--interpret"]),
];

pub(super) fn alike(name: &str, program: &str, frames: &Frames) -> Vec<Frames> {
    let folder = Folder::new(name);
    std::fs::write(folder.file("program.loom"), program).expect("the folder is writable");
    write(&folder.file("in.pcap"), frames);
    let first = run(&folder, WAYS[0].0, WAYS[0].1);
    for (way, args) in &WAYS[1..] {
        let other = run(&folder, way, args);
        assert_eq!((&first.1, first.2), (&other.1, other.2), "counters and losses, {way}");
        for (o, (a, b)) in OUTS.iter().zip(first.0.iter().zip(&other.0)) {
            let differ = a.iter().zip(b).position(|(a, b)| a != b);
            assert!(a == b, "{way}, {o}: {} and {} frames, differ at {differ:?}", a.len(), b.len());
        }
    }
    assert_eq!(first.2, 0, "a lossless queue has lost frames");
    first.0
}

#[test]
fn cores_make_no_difference() {
    // Bursts, gaps in which entries expire, and one in which only timers run.
    let mut frames = traffic(3, 3000, &[0, 200, 40_000, 3 * MS, 9 * MS]);
    let last = frames.last().expect("some").0;
    frames.extend((0..50u16).map(|i| (last + 400 * MS + u64::from(i), udp(1, 9000 + i, 53, 18))));
    for f in frames.iter_mut().step_by(11) {
        f.1[23] = 200;
    }
    let plain = frames.iter().filter(|f| f.1[23] != 17).count();
    let out = alike("segments", &program("64", "lossless"), &frames);
    assert_eq!(out[2].len(), plain);
    // Nothing is lost: what has come, and what the timer has made.
    let made = |f: &Frames| f.iter().filter(|f| f.1[36..38] == [0, 7]).count();
    assert_eq!(out[0].len() + out[1].len(), frames.len() - plain + made(&out[0]) + made(&out[1]));
    assert!(made(&out[0]) > 100, "{}", made(&out[0]));
    // Each instance of the queue keeps its order, and marks come along.
    for frames in &out[..2] {
        let ports: Vec<u16> = frames.iter().filter(|f| f.1[37] == 53).map(|f| sport(&f.1)).collect();
        assert!(ports.is_sorted() && ports.len() > 1000, "{}", ports.len());
    }
    for (_, f) in out[0].iter().filter(|f| f.1[37] == 53) {
        let (mark, uses) = (u16::from_be_bytes([f[12], f[13]]), u16::from_be_bytes([f[18], f[19]]));
        assert_eq!(mark, sport(f).wrapping_mul(3).wrapping_add(1));
        assert!(uses > 0, "entries count, and expire");
    }
}

#[test]
fn a_lossless_queue_of_two_loses_nothing() {
    let frames = traffic(5, 2000, &[0, 0, 0, 1000, 2 * MS]);
    let out = alike("segments-deep", &program("2", "lossless"), &frames);
    let came = |f: &Frames| f.iter().filter(|f| f.1[37] == 53).count();
    assert_eq!(came(&out[0]) + came(&out[1]), frames.len());
}

/// Two ways to the same segment, of which one is shorter; and one that reads a capture of its own.
pub const MEET: &str = r#"
app meet {
    port wire = nic("a"), other = nic("e"), out = nic("b"), side = nic("c"), rest = nic("d")
    queue long { depth 3, lossless }
    queue short { depth 2, lossless }
    queue last { depth 5, instances 3, lossless }
    counter seen, idle
    segment first on cpu(0) {
        on wire(p) where p.udp {
            p.mark = 1
            if p.udp.src % 3 == 0 { p -> long } else { p -> short }
        }
    }
    segment middle on cpu(1) {
        on long(p) {
            p.mark += 1
            p -> last[p.len % 3]
        }
        on other(p) { p -> last[2] }
    }
    segment nothing on cpu(1) {
        every 1ms {
            idle += 1
            [Ethernet { type: 0x0800 }, Ipv4 { ttl: 9, proto: 17 }, Udp { dst: 7 }] -> last[0]
        }
    }
    segment end on cpu(0) {
        on short(p) { p -> side }
        on last[i](p) {
            seen += 1
            if i == 1 { p -> out } else { p -> rest }
        }
        every 1ms { seen += 1000 }
    }
}
"#;

#[test]
fn ways_of_different_lengths_meet() {
    let folder = Folder::new("segments-meet");
    std::fs::write(folder.file("program.loom"), MEET).expect("the folder is writable");
    let (first, second) = (traffic(12, 3000, &[0, 0, 500, 30_000]), traffic(13, 900, &[0, 90_000]));
    write(&folder.file("in.pcap"), &first);
    write(&folder.file("other.pcap"), &second);
    for (way, args) in WAYS {
        let (out, counters, discarded) = run(&folder, way, &[args, &["--bind", "other=pcap:@/other.pcap"]].concat());
        let short = first.iter().filter(|f| !sport(&f.1).is_multiple_of(3)).map(|f| sport(&f.1));
        assert!(out[1].iter().map(|f| sport(&f.1)).eq(short), "{way}: the short way keeps the order");
        assert_eq!(out.iter().map(Vec::len).sum::<usize>(), first.len() + second.len(), "{way}");
        let counters: serde_json::Value = serde_json::from_str(&counters).expect("an object");
        let longest = (first.last().expect("some").0.max(second.last().expect("some").0) - EPOCH) / MS;
        let seen = (out[0].len() + out[2].len()) as u64;
        let ticks = (counters["seen"].as_u64().expect("a number") - seen) / 1000;
        assert!(ticks.abs_diff(longest) <= 1 && discarded == 0, "{way}: {ticks} ticks in {longest} ms");
        assert_eq!(counters["idle"], 0, "{way}: without packets the time of captures rests");
    }
}

/// A segment of two cores, to which the packets of a source always come by the same instance.
pub const WIDE: &str = r#"
app wide {
    port wire = nic("a"), out = nic("b"), side = nic("c"), rest = nic("d")
    queue parsed { depth DEPTH, instances 3, lossless }
    queue done { depth DEPTH, lossless }
    counter seen, worked, ended
    state turn: u32
    table flows: u16 -> u32 { capacity 8K }
    table words: bytes<8> -> u32 { capacity 8 }
    segment rx on cpu(0) {
        on wire(p) where p.udp {
            seen += 1
            p -> steer parsed by p.udp.src & 15
        }
    }
    segment work on cpu(0..2) {
        on parsed[i](p) where p.udp {
            worked += 1
            turn += 1
            flows[p.udp.src & 15] += 1
            words["all"] += 1
            p.mark = (flows[p.udp.src & 15] else 0) << 8 | i
            p -> done
        }
        on end { if turn > 0 { ended += 1 } }
    }
    segment tx on cpu(1) {
        on done(p) where p.eth and p.ip4 {
            p.eth.type = u16(p.mark >> 8)
            p.ip4.id = u16(p.mark & 0xff)
            p -> out
        }
    }
}
"#;

/// The cores of one segment share its tables, and each has a state. Its packets meet again in the
/// order of their times.
#[test]
fn a_segment_of_two_cores() {
    let frames = traffic(21, 4000, &[1, 100, 700, 20_000]);
    for depth in ["64", "2"] {
        let out = alike("segments-wide", &WIDE.replace("DEPTH", depth), &frames);
        assert!(out[0].iter().map(|f| f.0).is_sorted() && out[0].len() == frames.len());
        let mut counts = std::collections::BTreeMap::new();
        let mut instances = std::collections::BTreeMap::new();
        for ((_, before), (_, f)) in frames.iter().zip(&out[0]) {
            assert_eq!(sport(before), sport(f), "the order of times");
            let key = sport(f) & 15;
            let count: &mut u16 = counts.entry(key).or_default();
            *count += 1;
            assert_eq!(u16::from_be_bytes([f[12], f[13]]), *count, "no update is lost");
            let instance = u16::from_be_bytes([f[18], f[19]]);
            assert_eq!(*instances.entry(key).or_insert(instance), instance, "a key has one instance");
        }
        let used: std::collections::BTreeSet<u16> = instances.into_values().collect();
        assert_eq!(used.len(), 3, "all instances are used");
    }
    let folder = Folder::new("segments-wide-end");
    std::fs::write(folder.file("program.loom"), WIDE.replace("DEPTH", "64")).expect("the folder is writable");
    write(&folder.file("in.pcap"), &frames);
    for (way, args) in WAYS {
        let words = format!("words=@/words-{way}.json");
        let (_, counters, _) = run(&folder, way, &[args, &["--dump", &words]].concat());
        let counters: serde_json::Value = serde_json::from_str(&counters).expect("an object");
        assert_eq!((&counters["worked"], &counters["ended"]), (&frames.len().into(), &2.into()), "{way}: {counters}");
        let words = std::fs::read_to_string(folder.file(&format!("words-{way}.json"))).expect("the table");
        assert!(words.contains(&frames.len().to_string()), "{way}: both cores change one entry: {words}");
    }
}

/// Frames of more than a page, which few buffers hold, cross as well as others do.
#[test]
fn large_frames_cross() {
    let frames: Frames = (0..400u16).map(|i| (EPOCH + u64::from(i) * 1000, udp(1, 1000 + i, 53, 8900))).collect();
    let plain = program("1K", "lossless").replace("p -> pace", "p -> told");
    let out = alike("segments-large", &plain, &frames);
    let came = |f: &Frames| f.iter().filter(|f| f.1[37] == 53 && f.1.len() == 8942).count();
    assert_eq!(came(&out[0]) + came(&out[1]), frames.len());
}

#[test]
fn a_lossy_queue_counts_what_it_discards() {
    let folder = Folder::new("segments-lossy");
    std::fs::write(folder.file("program.loom"), program("2", "lossy")).expect("the folder is writable");
    let frames = traffic(6, 2000, &[0]);
    write(&folder.file("in.pcap"), &frames);
    for (way, args) in WAYS {
        let (out, _, discarded) = run(&folder, way, args);
        assert!(discarded > 0, "{way}: bursts of 64 frames find room for two");
        let arrived: usize = out.iter().map(|f| f.iter().filter(|f| f.1[37] == 53).count()).sum();
        assert_eq!(arrived + discarded as usize, frames.len(), "{way}");
    }
}

/// A condition that never holds takes the only sender away: the receiver ends as the others do.
#[test]
fn a_queue_without_senders() {
    let folder = Folder::new("segments-unsent");
    let text = r#"
app unsent {
    port wire = nic("a"), out = nic("b"), side = nic("c")
    queue q { depth 8 }
    counter came
    segment s on cpu(0) { on wire(p) { came += 1 if 5 < 4 { p -> q } else { p -> side } } }
    segment t on cpu(1) { q -> out }
}
"#;
    std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
    write(&folder.file("in.pcap"), &traffic(8, 100, &[0]));
    let ports = ["--bind", "wire=pcap:@/in.pcap", "--bind", "out=null", "--bind", "side=null"];
    for way in [&[][..], &["--interpret"][..]] {
        let said = folder.run("program.loom", &[&ports[..], way].concat());
        assert!(said.contains("100 frames received"), "{said}");
    }
}

/// A table of one segment has the entries of its cores: others have an array of nothing. What is
/// dumped is loaded again.
#[test]
fn arrays_of_a_segment_are_dumped_once() {
    let folder = Folder::new("segments-array");
    let text = r#"
app counted {
    port wire = nic("a"), out = nic("b")
    table t: array u32 -> u64 { capacity 2 }
    queue q { depth 256, lossless }
    segment s on cpu(0) { on wire(p) { p -> q } }
    segment r on cpu(1) { on q(p) { t[1] += 1  p -> out } }
}
"#;
    std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
    write(&folder.file("in.pcap"), &traffic(8, 100, &[0]));
    let args = ["--bind", "wire=pcap:@/in.pcap", "--bind", "out=null", "--dump", "t=@/t.csv"];
    for way in [&[][..], &["--interpret"][..]] {
        folder.run("program.loom", &[&args[..], way].concat());
        folder.run("program.loom", &[&args[..], &["--load", "t=@/t.csv"], way].concat());
        let rows = std::fs::read_to_string(folder.file("t.csv")).expect("the table");
        assert_eq!(rows, "key,value\n0,0\n1,200\n", "{way:?}");
    }
}

/// Tables of all kinds that a later segment has: what its handlers walk over, what is dumped, and
/// what is loaded again.
#[test]
fn tables_of_a_later_segment_are_walked_and_dumped() {
    let folder = Folder::new("segments-tables");
    let text = r#"
app kept {
    port wire = nic("a"), out = nic("b")
    state at: u64
    table exact: u32 -> u64 { capacity 2000, reject }
    table prefix_table: lpm ip4 -> u8 { capacity 10 }
    queue q { depth 256, lossless }
    segment s on PLACE { on wire(p) { p -> q } }
    segment r on CORES {
        on q(p) {
            exact[7] += 1
            prefix_table.insert(prefix(10.0.0.0, 8), 3)
            p -> out
        }
        on end {
            at = 0
            loop max 100 {
                let (next, found) = exact.next(at)
                if let e = found { let (k, v) = e  log "walk ", k, " ", v }
                at = next
                if at == 0xffffffffffffffff { break }
            }
        }
    }
}
"#;
    write(&folder.file("in.pcap"), &traffic(8, 100, &[0]));
    let args = ["--bind", "wire=pcap:@/in.pcap", "--bind", "out=null"];
    let dumps = ["--dump", "exact=@/exact.csv", "--dump", "prefix_table=@/prefix.csv"];
    let loads = ["--load", "exact=@/exact.csv", "--load", "prefix_table=@/prefix.csv"];
    for (place, cores) in [("cpu(1)", "cpu(0)"), ("nic", "cpu(0)"), ("cpu(0)", "nic")] {
        let program = text.replace("PLACE", place).replace("CORES", cores);
        std::fs::write(folder.file("program.loom"), program).expect("the folder is writable");
        for way in [&[][..], &["--interpret"][..]] {
            let said = folder.run("program.loom", &[&args[..], &dumps[..], way].concat());
            assert!(said.contains("walk 7 100"), "{place} {cores} {way:?}: {said}");
            let said = folder.run("program.loom", &[&args[..], &dumps[..], &loads[..], way].concat());
            assert!(said.contains("walk 7 200"), "{place} {cores} {way:?}: {said}");
            let rows = |name: &str| std::fs::read_to_string(folder.file(name)).expect("the table");
            assert_eq!(rows("exact.csv"), "key,value\n7,200\n", "{place} {cores} {way:?}");
            assert_eq!(rows("prefix.csv"), "key,value\n10.0.0.0/8,3\n", "{place} {cores} {way:?}");
        }
    }
}

/// Frames that lie in memory, and are shown again and again, are copied before they cross.
#[test]
fn frames_in_memory_cross() {
    let folder = Folder::new("segments-memory");
    std::fs::write(folder.file("program.loom"), program("256", "lossless")).expect("the folder is writable");
    write(&folder.file("in.pcap"), &traffic(8, 1000, &[0]));
    let args = ["--bind", "wire=memory:@/in.pcap*40", "--dump", "counters=@/c.json"];
    let nowhere = ["--bind", "out=null", "--bind", "side=null", "--bind", "rest=null"];
    let said = folder.run("program.loom", &[&args[..], &nowhere[..], &["--cores", "0-1"]].concat());
    assert!(said.contains("40000 frames received"), "{said}");
    let counters = std::fs::read_to_string(folder.file("c.json")).expect("the counters");
    let value: serde_json::Value = serde_json::from_str(&counters).expect("an object");
    let (seen, served) = (value["seen"].as_u64().expect("a number"), value["served"].as_u64().expect("a number"));
    assert!(served >= 40_000 && seen - served == 40_000, "{counters}");
}

/// Timers of a segment without packets run, and send to another one, as long as others read.
#[test]
fn a_segment_of_timers_runs() {
    let text = r#"
app timed {
    port wire = nic("a"), out = nic("b")
    queue made { depth 16, lossless }
    counter beats, seen
    segment make on cpu(0) {
        every 1ms {
            beats += 1
            [Ethernet { type: 0x0800 }, Ipv4 { ttl: 9, proto: 17 }, Udp { dst: 7 }] -> made
        }
    }
    segment use on cpu(1) {
        on wire(p) { seen += 1 }
        on made(p) { p -> out }
    }
}
"#;
    let folder = Folder::new("segments-timers");
    std::fs::write(folder.file("program.loom"), text).expect("the folder is writable");
    let (admin, port) = (free_port(), free_port());
    let mut command = Wireloom::program();
    let args = ["run", "program.loom", "--cores", "0-1", "--bind", "out=pcap:out.pcap"];
    let wire = format!("wire=udp:127.0.0.1:{port}");
    let more = ["--bind", &wire, "--admin", &admin.to_string()];
    quickly_compiled(command.current_dir(folder.path()).args(args).args(more));
    let mut running = Process::start_ours("segments-timers", &mut command, admin);
    let sent = || wireloom_tests::admin::sample(&wireloom_tests::admin::metrics(admin), "wireloom_frames_sent_total");
    eventually("timers run", || sent() > 100);
    running.signal(libc::SIGTERM);
    assert_eq!(running.exit(), Some(0), "{}", running.output());
    let written = std::fs::metadata(folder.file("out.pcap")).expect("a capture").len();
    assert!(written > 50 * (16 + 42), "{written} bytes: {}", running.output());
}

/// SIGTERM in the middle of a run: what has come in goes on to the last segment.
#[test]
fn a_run_that_is_ended_loses_nothing() {
    let folder = Folder::new("segments-ended");
    std::fs::write(folder.file("program.loom"), program("64", "lossless")).expect("the folder is writable");
    // A minute of frames, at their own pace.
    write(&folder.file("in.pcap"), &(0..60_000u64).map(|i| (EPOCH + i * MS, udp(1, i as u16, 53, 18))).collect());
    let admin = free_port();
    let mut args = vec!["run".to_string(), "program.loom".into(), "--bind".into(), "wire=pcap:in.pcap".into()];
    OUTS.iter().for_each(|o| args.extend(["--bind".into(), format!("{o}=pcap:{o}.pcap")]));
    args.extend(["--pace", "--cores", "0-1", "--admin"].map(String::from));
    args.push(admin.to_string());
    let mut command = Wireloom::program();
    quickly_compiled(command.current_dir(folder.path()).args(args));
    let mut running = Process::start_ours("segments", &mut command, admin);
    let received =
        || wireloom_tests::admin::sample(&wireloom_tests::admin::metrics(admin), "wireloom_frames_received_total");
    eventually("frames have come", || received() > 100);
    running.signal(libc::SIGTERM);
    assert_eq!(running.exit(), Some(0), "{}", running.output());
    let said = running.output();
    let came = number(&said, " frames received");
    let out: Vec<Frames> = OUTS.iter().map(|o| read(&folder.file(&format!("{o}.pcap")))).collect();
    let left: usize = out.iter().map(|f| f.iter().filter(|f| f.1[37] == 53).count()).sum();
    assert!(came > 10 && came < 60_000 && left as u64 == came, "{came} came, {left} left: {said}");
    assert!(!said.contains(" discarded by queues"), "{said}");
}

/// The graph as it was lowered, interpreted, and compiled code do the same.
#[test]
fn compiled_and_interpreted_agree() {
    let folder = Folder::new("segments-pair");
    let path = folder.file("program.loom");
    std::fs::write(&path, program("8", "lossy")).expect("the folder is writable");
    let (graph, module) = checked_both(&path, None).expect("it is sound");
    let (graph, module) = (Arc::new(graph), Arc::new(module));
    let Some(other) = compiled(&module).expect("C") else { return };
    let mut pair = FramePair::new(&module, interpreted(&graph), other, &[]).expect("both start");
    let mut maker = Mutator::new(11, samples(&[]), vec![], pair.inputs());
    for i in 0..400 {
        let f = maker.random();
        pair.frame(&f).unwrap_or_else(|e| panic!("frame {i}, {}: {e}", hex(&f.bytes)));
    }
    pair.finish().expect("tables and queues hold the same");
    assert!(pair.sum.sent > 200, "{:?}", pair.sum);
    no_internal_errors();
}

/// An app with segments has the cores for itself.
#[test]
fn other_apps_run_elsewhere() {
    let folder = Folder::new("segments-two");
    std::fs::write(folder.file("program.loom"), program("8", "lossy")).expect("the folder is writable");
    let text = "app other {\n    port wire = nic(\"a\")\n    counter n\n    on wire(p) { n += 1 }\n}\n";
    std::fs::write(folder.file("other.loom"), text).expect("the folder is writable");
    let all = ["run", "@/program.loom", "@/other.loom", "--bind", "chain.wire=null", "--bind", "other.wire=null"];
    let args = folder.arguments(&all);
    let output = Wireloom::command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.code == Some(1) && output.text.contains("has segments, so it runs by itself"), "{}", output.text);
}

/// The picture and the explanation name the segments.
#[test]
fn tools_name_the_segments() {
    let folder = Folder::new("segments-tools");
    std::fs::write(folder.file("program.loom"), program("8", "lossless")).expect("the folder is writable");
    let name = folder.file("program.loom").display().to_string();
    let said = |args: &[&str]| {
        let output = Wireloom::command(args);
        assert_eq!(output.code, Some(0), "{}", output.text);
        output.text
    };
    let picture = said(&["graph", &name, "-o", "-"]);
    let explained = said(&["explain", &name]);
    for (segment, n) in [("rx", 0), ("work", 1), ("tx", 0)] {
        assert!(picture.contains(&format!("segment {segment} on cpu({n})")), "{picture}");
    }
    assert!(explained.contains("work on cpu(1): parsed, every"), "{explained}");
    assert!(explained.contains("between segments; if it is full, its senders wait"), "{explained}");
    assert!(explained.contains("of one segment"), "{explained}");
}
