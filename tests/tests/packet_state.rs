//! State of packet apps, from capture to capture: queues, rings, limiters and meters. Compiled code
//! and interpreter do the same, and both agree with a model written here.

use fastrand::Rng;
use wireloom_tests::captures::{read, rows, sport, traffic, udp, write, Frames, Runs, EPOCH, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::Wireloom;

mod shapes;
mod values;

/// Runs a program as compiled code and by the interpreter. The same frames must come out of every
/// port, with as many faults and as many discarded by queues. Returns all three.
fn both_ways(folder: &Folder, program: &str, outs: &[&str], args: &[&str]) -> (Vec<Frames>, u64, u64) {
    let run = |way: &str, more: &[&str]| {
        let mut all: Vec<String> = vec!["--bind".into(), "wire=pcap:@/in.pcap".into()];
        for o in outs {
            all.extend(["--bind".into(), format!("{o}=pcap:@/{o}-{way}.pcap")]);
        }
        all.extend(args.iter().map(|a| a.replace("@WAY", way)));
        all.extend(more.iter().map(|s| s.to_string()));
        let said = folder.run(program, &all.iter().map(String::as_str).collect::<Vec<_>>());
        let number = |what: &str| {
            said.split_once(what).and_then(|(s, _)| s.rsplit(' ').next()).and_then(|n| n.parse::<u64>().ok())
        };
        let faults = number(" faults").unwrap_or_else(|| panic!("no number of faults: {said}"));
        assert!(said.contains(" 0 without an output"), "{way}: {said}");
        let frames: Vec<Frames> = outs.iter().map(|o| read(&folder.file(&format!("{o}-{way}.pcap")))).collect();
        (frames, faults, number(" discarded by queues").unwrap_or(0))
    };
    let (compiled, interpreted) = (run("c", &[]), run("i", &["--interpret"]));
    assert_eq!((compiled.1, compiled.2), (interpreted.1, interpreted.2), "faults, and frames discarded");
    for (o, (a, b)) in outs.iter().zip(compiled.0.iter().zip(&interpreted.0)) {
        let differ = a.iter().zip(b).find(|(a, b)| a != b);
        assert!(a == b, "compiled and interpreted, {o}: {} and {} frames, {differ:?}", a.len(), b.len());
    }
    compiled
}

const QUEUES: &str = r#"
/// Lets one packet pass every 10 ms.
element Pace {
    param n: u64
    in  x: packet
    out y: packet
    queue waiting { depth n }
    x -> waiting
    every 10ms { waiting.pop() }
    waiting -> y
}

app queues {
    port wire = nic("a"), out = nic("b"), urgent = nic("c")
    pace = Pace(4)
    queue ways { depth 2, instances 3 }
    table seen: ring record { sport: u16, what: bytes<6> } { capacity 3 }
    counter popped
    on wire(p) where p.udp {
        // The one before the last three.
        if len(seen) == 3 {
            let old = seen.pop() else { return }
            let next = seen.peek() else { return }
            if old.what != "first" or seen[0] is none or next.sport != old.sport + 1 { return }
        }
        seen.push(record_of(p.udp.src))
        let way = u32(p.udp.src) % 3
        p -> ways[way]
        if len(ways[way]) == 2 {
            if ways[way].first() > 200 { ways[way].discard() }
            if ways[way].pop() { popped += 1 }
        }
    }
    on ways(p) {
        if p.port == 0 { p -> urgent }
        p -> pace
    }
    pace -> out
}
"#;

/// The model of the program above: the frames that leave, and how many its queues discard.
fn queues_model(input: &Frames) -> (Frames, Frames, u64) {
    let (mut ways, mut discarded): ([Vec<&Vec<u8>>; 3], u64) = Default::default();
    let (mut waiting, mut out, mut urgent): (Vec<Vec<u8>>, Frames, Frames) = (vec![], vec![], vec![]);
    // Timers begin with the capture.
    let mut due = input[0].0 + 10 * MS;
    let tick = |now: u64, due: &mut u64, waiting: &mut Vec<Vec<u8>>, out: &mut Frames| {
        while *due <= now {
            if !waiting.is_empty() {
                out.push((*due, waiting.remove(0)))
            }
            *due += 10 * MS;
        }
    };
    for (time, f) in input {
        tick(*time, &mut due, &mut waiting, &mut out);
        let way = usize::from(sport(f) % 3);
        if ways[way].len() < 2 {
            ways[way].push(f)
        }
        if ways[way].len() != 2 {
            continue;
        }
        if ways[way][0].len() > 200 {
            ways[way].remove(0);
            discarded += 1;
        }
        let taken = ways[way].remove(0);
        if way == 0 {
            urgent.push((*time, taken.clone()))
        }
        if waiting.len() < 4 {
            waiting.push(taken.clone())
        } else {
            discarded += 1
        }
    }
    while !waiting.is_empty() {
        let now = due;
        tick(now, &mut due, &mut waiting, &mut out);
    }
    // No timer takes the frames that wait in `ways`.
    discarded += ways.iter().map(|w| w.len() as u64).sum::<u64>();
    (out, urgent, discarded)
}

#[test]
fn queues_and_rings() {
    let folder = Folder::new("queues");
    let program = QUEUES
        .replace("record { sport: u16, what: bytes<6> }", "Seen")
        .replace("record_of(p.udp.src)", "Seen { sport: p.udp.src, what: \"first\" }");
    std::fs::write(folder.file("queues.loom"), format!("record Seen {{ sport: u16, what: bytes<6> }}\n{program}"))
        .unwrap();
    let input = traffic(7, 500, &[1000, MS, 3 * MS, 20 * MS]);
    write(&folder.file("in.pcap"), &input);
    let (got, _, discarded) =
        both_ways(&folder, "queues.loom", &["out", "urgent"], &["--dump", "seen=@/seen-@WAY.json"]);
    let (out, urgent, too_many) = queues_model(&input);
    assert_eq!((got, discarded), (vec![out, urgent], too_many));
    let seen = std::fs::read_to_string(folder.file("seen-c.json")).unwrap();
    assert_eq!(seen, std::fs::read_to_string(folder.file("seen-i.json")).unwrap());
    let sports: Vec<u64> = serde_json::from_str::<serde_json::Value>(&seen)
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["sport"].as_u64().unwrap())
        .collect();
    assert_eq!(sports, [1497, 1498, 1499]);
}

const GAUGES: &str = r#"
app gauges {
    param rate: u64 = 100
    port wire = nic("a"), first = nic("b"), second = nic("c"), third = nic("d"), aware = nic("e"), passed = nic("f"), each = nic("g")
    meter m { cir 40Kbps, cbs 600, pir 80Kbps, pbs 900 }
    meter again: ip4 { cir 30, cbs 3, pir 60, pbs 6, capacity 16 }
    limiter all { rate rate, burst 3 }
    limiter of: ip4 { rate 16Kbps, burst 700, capacity 16, idle 60s }
    on wire(p) where p.udp and p.ip4 {
        let color = m.mark(p.len)
        match color {
            green  => p -> first
            yellow => p -> second
            red    => p -> third
        }
        if again[p.ip4.src].mark(1, color) == green { p -> aware }
        if all.take(1) { p -> passed }
        if of[p.ip4.src].take(p.len) { p -> each }
    }
}
"#;

/// RFC 2698 and token buckets, exactly: tokens in billionths.
#[derive(Clone)]
struct Bucket {
    rate: u128,
    size: u128,
    tokens: u128,
    last: u64,
}

const NANO: u128 = 1_000_000_000;

impl Bucket {
    fn new(rate: u128, size: u128) -> Bucket {
        Bucket { rate, size: size * NANO, tokens: size * NANO, last: EPOCH }
    }

    fn fill(&mut self, now: u64) {
        self.tokens = self.size.min(self.tokens + u128::from(now - self.last) * self.rate);
        self.last = now;
    }

    fn has(&self, n: u128) -> bool {
        self.tokens >= n * NANO
    }

    fn take(&mut self, n: u128) -> bool {
        let ok = self.has(n);
        self.tokens -= if ok { n * NANO } else { 0 };
        ok
    }
}

/// 0 green, 1 yellow, 2 red.
fn mark(c: &mut Bucket, p: &mut Bucket, now: u64, n: u128, before: u8) -> u8 {
    c.fill(now);
    p.fill(now);
    if before == 2 || !p.has(n) {
        return 2;
    }
    p.take(n);
    if before == 1 || !c.has(n) {
        return 1;
    }
    c.take(n);
    0
}

/// A queue's handler that sends copies, of packets whose marks name ports: several packets are
/// popped at once, or come from another segment.
const COPIES: &str = r#"
element Hop {
    in  x: packet
    out y: packet
    on x(p) where p.ip4 { p.ip4.ttl -= 1  p -> y }
}

app popped {
    port wire = nic("a"), out = nic("b"), other = nic("c")
    queue q { depth 64 }
    hop = Hop()
    on wire(p) where p.udp {
        p.mark = u32(p.udp.src % 3) << 16
        p -> q
        p.mark = 0x10000
        p.udp.dst = 7
        p -> q
        p.mark = 0xffffffff
        p.udp.dst = 8
        p -> q
        loop max 3 { q.pop() }
    }
    on q(p) where p.udp {
        if p.mark & 0xffff0000 == 0 { p.udp.dst = 9 }
        p -> hop
        p -> out
    }
    hop -> out
}

app segments {
    port wire = nic("a"), out = nic("b"), other = nic("c")
    queue q { depth 1024, lossless }
    hop = Hop()
    segment one on cpu(0) {
        on wire(p) where p.udp {
            p.mark = u32(p.udp.src % 3) << 16
            p -> q
            p.mark = 0x10000
            p.udp.dst = 7
            p -> q
            p.mark = 0xffffffff
            p.udp.dst = 8
            p -> q
        }
    }
    segment two on cpu(1) {
        on q(p) where p.udp {
            if p.mark & 0xffff0000 == 0 { p.udp.dst = 9 }
            p -> hop
            p -> out
        }
    }
    hop -> out
}
"#;

#[test]
fn a_queues_handler_sends_copies_of_several_packets() {
    let input = traffic(9, 300, &[0, 1000]);
    let wanted: Vec<(u16, u8)> = (0..300u16)
        .flat_map(|i| [if (1000 + i) % 3 == 0 { 9 } else { 53 }, 7, 8])
        .flat_map(|dst| [(dst, 63), (dst, 64)])
        .collect();
    for app in ["popped", "segments"] {
        let folder = Folder::new(&format!("copies-{app}"));
        std::fs::write(folder.file("copies.loom"), COPIES).unwrap();
        write(&folder.file("in.pcap"), &input);
        let (got, faults, discarded) = both_ways(&folder, &format!("copies.loom:{app}"), &["out", "other"], &[]);
        let left: Vec<(u16, u8)> = got[0].iter().map(|(_, f)| (u16::from_be_bytes([f[36], f[37]]), f[22])).collect();
        assert!(left == wanted, "{app}: {} frames, {:?} …", left.len(), &left[..left.len().min(12)]);
        assert_eq!((got[1].len(), faults, discarded), (0, 0, 0), "{app}");
    }
}

#[test]
fn limiters_and_meters() {
    let folder = Folder::new("gauges");
    std::fs::write(folder.file("gauges.loom"), GAUGES).unwrap();
    let input = traffic(3, 800, &[1000, MS, 10 * MS, 100 * MS]);
    write(&folder.file("in.pcap"), &input);
    let names = ["first", "second", "third", "aware", "passed", "each"];
    let (got, ..) = both_ways(&folder, "gauges.loom", &names, &["--set", "rate=20"]);
    let (mut c, mut p) = (Bucket::new(5000, 600), Bucket::new(10_000, 900));
    let mut again = vec![(Bucket::new(30, 3), Bucket::new(60, 6)); 4];
    let (mut all, mut of) = (Bucket::new(20, 3), vec![Bucket::new(2000, 700); 4]);
    let mut want: Vec<Frames> = vec![vec![]; 6];
    for (time, f) in &input {
        let (src, n) = (usize::from(f[29]), f.len() as u128);
        let color = mark(&mut c, &mut p, *time, n, 0);
        let mut to = vec![usize::from(color)];
        let (a, b) = &mut again[src];
        if mark(a, b, *time, 1, color) == 0 {
            to.push(3)
        }
        all.fill(*time);
        of[src].fill(*time);
        if all.take(1) {
            to.push(4)
        }
        if of[src].take(n) {
            to.push(5)
        }
        to.into_iter().for_each(|i| want[i].push((*time, f.clone())));
    }
    for ((name, got), want) in names.iter().zip(&got).zip(&want) {
        assert!(!want.is_empty(), "{name} is not put to the test");
        assert_eq!(got, want, "{name}");
    }
}

const KINDS: &str = r#"
record Rule { src: ip4, sport: u16 }

record Sum { frames: u32, bytes: u64 }

app kinds {
    port wire = nic("a"), out = nic("b"), rare = nic("c")
    /// Changed by packets whose key it does not hold: shared.
    table lengths: array u32 -> u64 { capacity 16 }
    table sums: array u32 -> Sum { capacity 16 }
    table names: array u32 -> bytes<12> { capacity 16 }
    /// Only read by packets: a copy per core.
    table weights: array u32 -> u32 { capacity 8 }
    table flags: array u32 -> bool { capacity 4 }
    table seen: bloom ip4 { capacity 100 }
    table heavy: count_min ip4 -> u64 { capacity 100 }
    table sources: hyper_log_log u16
    table flows: (ip4, u16) -> u64 { capacity 8K }
    table counted: ip4 -> u64 { capacity 16 }
    table estimate: u8 -> u64 { capacity 1 }
    on start {
        for i in 0..8 { weights[i] = i + 1 }
        flags[1] = true
    }
    every 100ms { estimate[0] = sources.estimate() }
    on wire(p) where p.udp and p.ip4 {
        lengths[p.len / 32] += u64(weights[u32(p.ip4.src) & 3] else 0)
        update sums[p.len / 32] {
            .frames += 1
            .bytes += p.len
        }
        let sum = sums[p.len / 32] else Sum { frames: 0, bytes: 0 }
        if sum.bytes / u64(max(sum.frames, 1)) / 32 != p.len / 32 { names[15] = "torn" }
        let name = names[p.len / 32] else ""
        names[p.len / 32] = if name == "a" { "some bytes" } else { "a" }
        if not (name in {"", "a", "some bytes"}) { names[15] = "torn" }
        flows[(p.ip4.src, p.udp.src)] += 1
        sources.add(p.udp.src)
        if not seen[p.ip4.src] { seen[p.ip4.src] = true; p -> rare }
        heavy[p.ip4.src] += p.len
        counted[p.ip4.src] = heavy[p.ip4.src]
        if flags[u32(p.ip4.src) & 3] { p -> out }
    }
}
"#;

#[test]
fn kinds_of_tables_on_one_core_and_two() {
    let folder = Folder::new("kinds");
    std::fs::write(folder.file("kinds.loom"), KINDS).unwrap();
    let input = traffic(11, 3000, &[1000, MS, 2 * MS]);
    write(&folder.file("in.pcap"), &input);
    let dumps = |way: &str| {
        ["lengths", "sums", "names", "counted", "estimate"]
            .iter()
            .flat_map(|t| ["--dump".to_string(), format!("{t}=@/{t}-{way}.json")])
            .collect::<Vec<_>>()
    };
    let mut args = dumps("@WAY");
    let (got, ..) =
        both_ways(&folder, "kinds.loom", &["out", "rare"], &args.iter().map(String::as_str).collect::<Vec<_>>());
    let ones: Frames = input.iter().filter(|(_, f)| f[29] & 3 == 1).cloned().collect();
    assert_eq!(got[0], ones);
    let first = |src: u8| input.iter().find(|(_, f)| f[29] == src).cloned().unwrap();
    let mut rare: Frames = (0..4).map(first).collect();
    rare.sort();
    assert_eq!(got[1], rare);
    args = dumps("2");
    args.extend(
        [
            "--bind",
            "wire=pcap:@/in.pcap",
            "--bind",
            "out=pcap:@/out-2.pcap",
            "--bind",
            "rare=pcap:@/rare-2.pcap",
            "--cores",
            "all",
        ]
        .map(String::from),
    );
    folder.run("kinds.loom", &args.iter().map(String::as_str).collect::<Vec<_>>());
    let mut lengths = vec![0; 16];
    let mut counted = vec![0; 4];
    for (_, f) in &input {
        let src = usize::from(f[29]);
        lengths[f.len() / 32] += src as u64 + 1;
        counted[src] += f.len() as u64;
    }
    let mut lengths: Vec<_> = lengths.into_iter().enumerate().map(|(i, n)| (i.to_string(), n)).collect();
    lengths.sort();
    let counted: Vec<_> = counted.into_iter().enumerate().map(|(i, n)| (format!("10.0.0.{i}"), n)).collect();
    for way in ["c", "i", "2"] {
        assert_eq!(rows(&folder.file(&format!("lengths-{way}.json"))), lengths, "{way}");
        if way != "2" {
            assert_eq!(rows(&folder.file(&format!("counted-{way}.json"))), counted, "{way}");
        }
        let estimate = rows(&folder.file(&format!("estimate-{way}.json")))[0].1;
        assert!((2700..3200).contains(&estimate), "{way}: {estimate} of 3000");
    }
    let text = |name: &str| std::fs::read_to_string(folder.file(name)).unwrap();
    assert!(text("sums-c.json").matches("frames").count() == 16 && text("names-c.json").contains("some bytes"));
    assert!(text("sums-c.json") == text("sums-i.json") && text("names-c.json") == text("names-i.json"));
    assert!(
        text("sums-c.json") == text("sums-2.json") && !text("names-2.json").contains("torn"),
        "{}",
        text("names-2.json")
    );
    assert_eq!(rows(&folder.file("estimate-c.json")), rows(&folder.file("estimate-i.json")));
    assert_eq!(read(&folder.file("out-2.pcap")).len(), ones.len());
}

#[test]
fn explain_says_where_tables_are() {
    let folder = Folder::new("explain");
    let text = KINDS.replace("on wire(p)", "table rules: wildcard Rule -> u8 { capacity 8 }\n    on wire(p)");
    std::fs::write(folder.file("kinds.loom"), &text).unwrap();
    let explain = || {
        let file = folder.file("kinds.loom").display().to_string();
        let output = Wireloom::command(&["explain", &file]);
        assert_eq!(output.code, Some(0), "{}", output.text);
        output.out
    };
    let said = explain();
    for (table, what) in [
        ("lengths", "shared (on several cores a lock at each use): its keys"),
        ("weights", "a copy per core"),
        ("sources", "shared (on several cores an atomic change"),
        ("rules", "a copy per core"),
        ("flows", "per core: frames are steered by"),
    ] {
        let line = said.lines().find(|l| l.contains(&format!("table {table} "))).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(what), "{line}");
    }
    assert!(!said.contains("all on one core"));
    let changed = text.replace("sources.add", "rules.insert(Rule { src: p.ip4.src, sport: 0 }, Rule { src: 255.255.255.255, sport: 0 }, 1, 2)\n        sources.add");
    std::fs::write(folder.file("kinds.loom"), changed).unwrap();
    assert!(explain().contains("all on one core: they change `rules`"));
}

/// A bare `log` says which headers a packet has, and their main fields.
#[test]
fn a_bare_log_tells_the_headers() {
    let folder = Folder::new("line");
    std::fs::write(
        folder.file("line.loom"),
        "app line { port wire = nic(\"a\"), out = nic(\"b\")\n wire -> log -> out }\n",
    )
    .unwrap();
    let eth = |kind: u16| [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &kind.to_be_bytes()].concat();
    let ip = |proto: u8, rest: &[u8]| {
        [&[0x45, 0, 0, 20 + rest.len() as u8, 0, 0, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], rest].concat()
    };
    let tcp = [&[4, 210, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0][..]].concat();
    let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let from_to = "eth 02:00:00:00:00:01>02:00:00:00:00:02";
    let cases = [
        ([eth(0x0800), ip(6, &tcp)].concat(), format!("{from_to} ip4 10.0.0.1>10.0.0.2 ttl=64 tcp 1234>80 syn len=54")),
        (
            [eth(0x8100), vec![0, 7, 8, 0], ip(1, &[8, 0, 0, 0, 0, 0, 0, 0])].concat(),
            format!("{from_to} vlan vid=7 ip4 10.0.0.1>10.0.0.2 ttl=64 icmp type=8 code=0 len=46"),
        ),
        ([eth(0x0806), arp.to_vec()].concat(), format!("{from_to} arp 10.0.0.1>10.0.0.2 op=1 len=42")),
        (
            [eth(0x0800), ip(4, &ip(17, &[0, 9, 0, 53, 0, 8, 0, 0]))].concat(),
            format!("{from_to} ip4 10.0.0.1>10.0.0.2 ttl=64 inner_ip4 10.0.0.1>10.0.0.2 ttl=64 inner_udp 9>53 len=62"),
        ),
        (eth(0x1234), format!("{from_to} len=14")),
        (vec![1, 2, 3], "len=3".into()),
    ];
    let frames: Frames = cases.iter().enumerate().map(|(n, (f, _))| (n as u64 * MS, f.clone())).collect();
    write(&folder.file("in.pcap"), &frames);
    for extra in [&[][..], &["--interpret"]] {
        let said = folder
            .run("line.loom", &[&["--bind", "wire=pcap:@/in.pcap", "--bind", "out=pcap:@/out.pcap"], extra].concat());
        let lines: Vec<&str> =
            said.lines().filter_map(|l| l.split_once("line: ").map(|l| l.1)).filter(|l| l.contains("len=")).collect();
        assert_eq!(lines, cases.iter().map(|c| c.1.as_str()).collect::<Vec<_>>(), "{extra:?}");
    }
}

const CACHED: &str = r#"
record Kept { n: u64, sport: u16 }

/// Every packet does the same to a table with a cache and to one without.
app cached {
    port wire = nic("a"), out = nic("b"), wrong = nic("c")
    table t: flow5 -> Kept { capacity 2K, idle 1s, cache 4 }
    table u: flow5 -> Kept { capacity 2K, idle 1s }
    on wire(p) where p.udp {
        let k = p.flow5
        let what = p.len % 8
        var a = u64(0)
        var b = u64(0)
        if let x = t[k] { a = x.n * 65536 + u64(x.sport) }
        if let x = u[k] { b = x.n * 65536 + u64(x.sport) }
        if what == 0 {
            t[k] = Kept { n: 7, sport: p.udp.src }
            u[k] = Kept { n: 7, sport: p.udp.src }
        }
        if what == 1 {
            update t[k] { .n += 1 }
            update u[k] { .n += 1 }
        }
        if what == 2 {
            remove t[k]
            remove u[k]
        }
        // Once more, behind the change.
        if let x = t[k] { a += x.n }
        if let x = u[k] { b += x.n }
        if a != b { p -> wrong }
        if a > 0 { p -> out }
    }
}
"#;

/// A cache in front of a table changes nothing that a program sees, however often keys come,
/// change, go and expire.
#[test]
fn a_cache_changes_nothing() {
    let folder = Folder::new("cached");
    std::fs::write(folder.file("cached.loom"), CACHED).unwrap();
    let (mut r, mut time) = (Rng::with_seed(11), EPOCH);
    let input: Frames = (0..20_000)
        .map(|_| {
            // Far from the second after which entries expire: compiled tables count milliseconds.
            time += if r.u64(..200) == 0 { 2000 * MS } else { [0, 0, 0, 1000, 2000, 100_000, MS][r.u64(..7) as usize] };
            // A few keys come often.
            let key = r.u64(..40).min(r.u64(..40)) as u16;
            (time, udp(1, 1000 + key, 53, 18 + r.u64(..8) as usize))
        })
        .collect();
    write(&folder.file("in.pcap"), &input);
    let (got, ..) = both_ways(&folder, "cached.loom", &["out", "wrong"], &[]);
    assert!(got[0].len() > 1000 && got[0].len() < 19_000, "{}", got[0].len());
    assert_eq!(got[1].len(), 0, "with and without a cache");
    let file = folder.file("cached.loom").display().to_string();
    let said = Wireloom::command(&["explain", &file]).out;
    assert!(said.contains("a cache of 4 entries in front, while it answers most lookups"), "{said}");
}
