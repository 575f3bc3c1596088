//! Queues from the hook to the process. A frame that is cut gives the process, with its entry, what
//! the whole frame gives: by a socket, and by a ring.

use super::process::{mixed, Link};
use super::*;
use wireloom_ir::ops::Device;
use wireloom_ir::{layout, FramePart};
use wireloom_runtime::packet::hook_ring::{self, HookRing};
use wireloom_tests::captures::udp;

/// Bytes from which on frames are cut.
const LONG: usize = wireloom_codegen_c::xdp::LONG as usize;

/// The parts of a frame that the process gets.
pub(super) struct Given {
    pub(super) port: usize,
    pub(super) instance: u16,
    pub(super) mark: u32,
    pub(super) n: usize,
    pub(super) entry: Vec<u8>,
    pub(super) bytes: Vec<u8>,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

/// The ring of a program.
pub(super) fn ring(object: &Object, program: usize) -> Option<HookRing> {
    let (map, bytes) = object.ring(program).expect("the kernel shares it")?;
    let words = object.source().entry.unwrap_or(0) as usize / 8;
    let source = hook_ring::RingSource {
        map: Arc::new(map),
        bytes,
        words,
        lost: Arc::new(|| 0),
        awake: Arc::new(|_| ()),
        bell: 0,
    };
    Some(HookRing::open(&source).expect("it is mapped"))
}

/// The one record of a ring.
pub(super) fn from_ring(ring: &mut HookRing) -> Option<Given> {
    let mut all = Vec::new();
    ring.read(|r| {
        all.push(Given {
            port: (r.note >> 48) as usize,
            instance: (r.note >> 32) as u16,
            mark: r.note as u32,
            n: r.n as usize,
            entry: r.entry.to_vec(),
            bytes: r.bytes.to_vec(),
        });
        true
    });
    assert!(all.len() < 2, "a frame gives a record");
    all.pop()
}

/// Reads what a program has put in front of a frame of `n` bytes.
pub(super) fn given(object: &Object, n: usize, mut frame: Vec<u8>) -> Given {
    let source = object.source();
    let (target, entry) = (source.target, source.entry.map(|n| n as usize));
    let carried = entry.filter(|_| target.is_none() || n >= LONG);
    if let (Some(t), None) = (target, carried) {
        let first = (n as u32).to_ne_bytes();
        let entry = entry.map_or(vec![], |e| (0..e).map(|k| first.get(k).copied().unwrap_or(0)).collect());
        return Given { port: t.port.into(), instance: t.instance, mark: 0, n, entry, bytes: frame };
    }
    let entry: Vec<u8> = frame.drain(..carried.unwrap_or(0)).collect();
    let n = if carried.is_some() { number(&frame.drain(..8).collect::<Vec<_>>()) as usize } else { n };
    let note = number(&frame.drain(..8).collect::<Vec<_>>());
    Given { port: (note >> 48) as usize, instance: (note >> 32) as u16, mark: note as u32, n, entry, bytes: frame }
}

#[derive(Default, Debug)]
struct Crossed {
    given: u64,
    /// Of them, those that came by the ring.
    ringed: u64,
    cut: u64,
    sent: u64,
    /// Bytes of frames as they were, and of those that the process has got.
    whole: u64,
    came: u64,
}

/// Runs the handlers `on xdp` in the hook and the others on the frames that they give to the
/// process. Together they do what the interpreter does with whole frames.
fn crossed(text: &str, part: fn(FramePart) -> bool, mut frames: impl FnMut(Taker)) -> Option<Crossed> {
    let by_sockets = crossed_by(false, text, part, &mut frames)?;
    let by_ring = crossed_by(true, text, part, &mut frames)?;
    assert_eq!((by_sockets.given, by_sockets.sent), (by_ring.given, by_ring.sent));
    assert!(by_sockets.ringed == 0 && by_ring.came <= by_sockets.came, "{by_sockets:?}, {by_ring:?}");
    let uncut = by_sockets.came == by_sockets.whole;
    assert!(by_ring.ringed > 0 || uncut, "{by_sockets:?}, {by_ring:?}");
    Some(by_sockets)
}

fn crossed_by(
    by_ring: bool,
    text: &str,
    part: fn(FramePart) -> bool,
    frames: &mut impl FnMut(Taker),
) -> Option<Crossed> {
    stay_here();
    let folder = Folder::new("xdp-crossed");
    let m = Arc::new(module(written(&folder, text)));
    assert!(m.ports.iter().any(|p| p.kind.is_queue() && part(p.carries.part)), "{:?}", m.ports);
    let (special, mut all) = placed(&m, &[]);
    all.retain(|h| m.handlers[h.0.index()].device == Device::Xdp);
    let object = load(&special, &all, &[])?;
    // Without a queue that is cut there is none.
    let mut ring = ring(&object, 0);
    object.set_ringed(by_ring);
    let two = || Beside::new(&m, interpreted(&m), interpreted(&m), &[]).expect("the programs start");
    let (mut whole, mut rest, mut sum) = (two(), two(), Crossed::default());
    let mut time = 1_700_000_000_000_000_000;
    frames(&mut |bytes: &[u8]| {
        if !SIZES.contains(&bytes.len()) {
            return;
        }
        time += 1000;
        object.set_time(time).expect("the time is set");
        let f = |port, instance, n, mark, entry, bytes: Vec<u8>| FrameIn {
            port,
            instance,
            time,
            wire: n,
            bytes,
            rooms: (256, 256),
            mark,
            entry,
        };
        let shown = || wireloom_interp::frames::hex(bytes);
        let all_of_it = f(all[0].1.index(), 0, bytes.len() as u32, 0, Vec::new(), bytes.to_vec());
        let sent = whole.frame(&all_of_it).expect("the interpreter runs");
        let before = object.unheard() + object.given();
        let ran = object.test(0, bytes).expect("the kernel runs it");
        assert_eq!(ran.verdict, Verdict::Drop, "there is no socket in a test run: {}", shown());
        if object.unheard() + object.given() == before {
            assert!(sent.is_empty(), "frame {}", shown());
            return;
        }
        let record = ring.as_mut().and_then(from_ring);
        sum.ringed += u64::from(record.is_some());
        let mut g = record.unwrap_or_else(|| given(&object, bytes.len(), ran.frame));
        assert_eq!(g.n, bytes.len(), "frame {}", shown());
        assert_eq!(g.bytes[..], bytes[..g.bytes.len()], "frame {}", shown());
        sum.given += 1;
        sum.cut += u64::from(g.bytes.len() < g.n);
        sum.whole += g.n as u64;
        sum.came += g.bytes.len() as u64;
        // Bytes that are not there may be anything.
        g.bytes.resize(g.n, 0xee);
        g.entry.resize(layout::entry_max(&m) as usize, 0xee);
        let came = f(g.port, g.instance, g.n as u32, g.mark, g.entry, g.bytes);
        assert_eq!(rest.frame(&came).expect("the interpreter runs"), sent, "frame {}", shown());
        sum.sent += sent.len() as u64;
    });
    for (n, c) in m.counters.iter().enumerate() {
        assert_eq!(object.counter(n) + rest.counter(n), whole.counter(n), "counter {}", c.name);
    }
    Some(sum)
}

/// Hostile frames, as they are and with more bytes behind them, and long ones.
fn long_and_short(each: Taker) {
    let mut n = 0usize;
    hostile(6_000)(&mut |bytes| {
        n += 1;
        each(bytes);
        if n.is_multiple_of(3) {
            let mut longer = bytes.to_vec();
            longer.extend((0..LONG + n % 1300).map(|k| k as u8));
            each(&longer)
        }
    });
    for size in [0, 200, 213, 214, 215, 300, 1000, 1472, 1480, 1481, 3000] {
        each(&udp(7, 4000, 53, size))
    }
}

const HEADERS: &str = "app heads {
    port wire = nic(\"eth0\"), out = memory(\"out\")
    queue q { depth 64 }
    counter bytes, payload, first, handled
    segment front on xdp { on wire(p) { if p.ip { p -> q } } }
    segment back on cpu(0) {
        on q(p) {
            handled += 1
            bytes += u64(p.len)
            payload += u64(len(p.payload))
            if let u = p.udp {
                first += hash(slice(p.payload, 0, 9)) % 1000
                [Ethernet { type: 0x0800 }, Ipv4 { ttl: 3, proto: 17 }, Udp { src: u.dst, dst: u.src }] -> out
            }
        }
    }
}
";

#[test]
fn headers() {
    let Some(sum) = crossed(HEADERS, |p| matches!(p, FramePart::Headers(_)), long_and_short) else { return };
    assert!(sum.given > 5000 && sum.cut > 1000 && sum.sent > 500, "{sum:?}");
    assert!(sum.came * 3 < sum.whole * 2, "{sum:?}");
}

const STATE: &str = "app states {
    port wire = nic(\"eth0\"), out = memory(\"out\")
    state of packet { from: ip, size: u16 = 9, odd: bool, name: u64 = 5 }
    queue q { depth 64 }
    counter named
    segment front on xdp {
        on wire(p) where p.ip {
            p.from = p.ip.src
            p.odd = p.len % 2 == 1
            if p.udp { p.name = u64(p.udp.src) * 77; p.size += p.udp.dst }
            p -> q
        }
    }
    segment back on cpu(0) {
        on q(p) {
            named += p.name
            if p.odd and p.from != 10.0.0.1 {
                [Ethernet { type: p.size }, Ipv4 { ttl: 3, proto: 17, id: u16(p.len) }, text(p.from)] -> out
            }
        }
    }
}
";

#[test]
fn state_only() {
    let Some(sum) = crossed(STATE, |p| p == FramePart::Nothing, long_and_short) else { return };
    assert!(sum.given > 5000 && sum.cut > 1000 && sum.sent > 500, "{sum:?}");
}

const SEVERAL: &str = "element Guess {
    in  x: packet
    out y: packet
    state of packet { user: u32, tries: u8 = 1 }
    on x(p) {
        p.user = p.len ^ 5
        if p.tcp { p.tries += 2 }
        p -> y
    }
}
app several {
    port wire = nic(\"eth0\"), out = memory(\"out\"), copy = memory(\"copy\")
    state of packet { Guess.user, Guess.tries }
    queue all { depth 64, carries whole }
    queue heads { depth 64, instances 3 }
    queue light { depth 64 }
    counter users, tried
    guess = Guess() on xdp
    segment front on xdp {
        wire -> guess
    }
    guess -> match { .udp => mark -> heads[1], .tcp => all, else => light }
    mark = Mark()
    segment back on cpu(0) {
        on all(p) { users += u64(p.user)  p -> copy }
        on heads[i](p) where p.udp {
            users += u64(p.user + i + p.mark)
            [Ethernet { type: 0x0800 }, Ipv4 { ttl: p.tries, proto: 17 }, Udp { src: p.udp.dst, dst: u16(p.mark) }] -> out
        }
        on light(p) { users += u64(p.user)  tried += u64(p.tries) }
    }
}
element Mark { in x: packet  out y: packet  on x(p) { p.mark = p.len * 3  p -> y } }
";

#[test]
fn several_queues() {
    let Some(sum) = crossed(SEVERAL, |p| p == FramePart::Nothing, long_and_short) else { return };
    assert!(sum.given > 5000 && sum.cut > 1000 && sum.sent > 1000, "{sum:?}");
}

/// A ring that nobody reads takes what it has room for, in the order in which it came. The rest is
/// counted.
#[test]
fn a_full_ring_counts_what_it_loses() {
    stay_here();
    let folder = Folder::new("xdp-ring");
    let m = Arc::new(module(written(&folder, HEADERS)));
    let (special, mut all) = placed(&m, &[]);
    all.retain(|h| m.handlers[h.0.index()].device == Device::Xdp);
    let Some(object) = load(&special, &all, &[]) else { return };
    assert!(object.verified().is_none_or(|n| n < VERIFIED_MAX), "{:?}", object.verified());
    let mut ring = ring(&object, 0).expect("it has a ring");
    object.set_ringed(true);
    let (frames, mut come) = (20_000u64, 0u64);
    let frame = |n: u64| udp((n % 200) as u8, n as u16, 53, 700);
    for n in 0..frames {
        object.test(0, &frame(n)).expect("the kernel runs it");
    }
    let mut read = |upto: u64, ring: &mut HookRing| {
        ring.read(|r| {
            if come == upto {
                return false;
            }
            assert!(frame(come).starts_with(r.bytes) && r.n == 742 && r.bytes.len() > 42, "record {come}");
            come += 1;
            true
        });
        come
    };
    // A reader that stops begins again where it has stopped.
    assert_eq!(read(100, &mut ring), 100);
    let come = read(u64::MAX, &mut ring);
    assert_eq!((object.given(), object.unheard()), (frames, 0));
    assert!(come > 5000 && come + object.lost() == frames, "{come} and {} of {frames}", object.lost());
}

/// Over AF_XDP: what is counted is what was sent, and long frames are cut.
#[test]
fn live() {
    let Some(link) = Link::new() else { return };
    let folder = Folder::new("xdp-cut");
    let text = HEADERS.replace("eth0", "a0").replace("memory(\"out\")", "pcap(\"out.pcap\")");
    let path = written(&folder, &text).display().to_string();
    for mode in ["native", "generic"] {
        let out = link.file(&format!("cut-{mode}.pcap"));
        let dump = link.file(&format!("cut-{mode}.json"));
        let args = ["--xdp-mode", mode, "--control", "off", "--bind"];
        let more = [&format!("out=pcap:{out}"), "--dump", &format!("counters={dump}")];
        let mut run = link.net.app("a", &path, &[&args[..], &more].concat());
        let frames: Vec<Vec<u8>> =
            mixed(300).into_iter().chain((0..300).map(|n| udp(7, 1000 + n, 53, 900 + n as usize))).collect();
        link.send(&frames);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let said = link.end(&mut run);
        let counters = std::fs::read_to_string(&dump).expect("the counters");
        let bytes: usize = frames.iter().map(Vec::len).sum();
        assert!(
            counters.contains(&format!("\"bytes\": {bytes}")) || counters.contains(&format!(":{bytes}")),
            "{mode}: {bytes}, {counters}, {said}"
        );
        let sent = super::process::bytes_of(&out);
        let ports: Vec<[u8; 2]> = sent.iter().map(|f| [f[36], f[37]]).collect();
        let expected: Vec<[u8; 2]> = frames.iter().map(|f| [f[34], f[35]]).collect();
        assert!(ports == expected, "{mode}: {} of {}: {said}", ports.len(), expected.len());
    }
}

/// Programs at random: fields of all types, marks, and queues behind which this and that is read.
fn generated(seed: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(seed);
    let all = [
        ("a", "u8", "u8(p.len & 255)"),
        ("b", "u16", "u16(p.len * 5 & 65535)"),
        ("c", "u32", "p.len * 77"),
        ("d", "u64", "hash(p.len)"),
        ("e", "bool", "p.len % 2 == 0"),
        ("f", "ip", "if p.ip { p.ip.src } else { 10.7.7.7 }"),
        ("g", "i32", "-5 - i32(p.len)"),
        ("h", "mac", "if p.eth { p.eth.src } else { 02:00:00:00:00:07 }"),
    ];
    let firsts = [" = 9", " = 900", " = 70000", " = 5", " = true", " = 10.0.0.3", " = -77", " = 02:00:00:00:00:09"];
    let (mut fields, mut sets) = (Vec::new(), String::new());
    for ((name, ty, value), first) in all.into_iter().zip(firsts).filter(|_| rng.bool()).collect::<Vec<_>>() {
        let always = rng.bool();
        fields.push((name, format!("{name}: {ty}{}", if always && rng.bool() { "" } else { first })));
        match (always, rng.u8(..3)) {
            (true, _) => sets += &format!("p.{name} = {value}\n"),
            (false, 0) => sets += &format!("if p.udp {{ p.{name} = {value} }}\n"),
            (false, _) => sets += &format!("for _i in 0..p.len % 4 {{ if p.len > 90 {{ p.{name} = {value} }} }}\n"),
        }
    }
    let (mut queues, mut handlers, mut ways) = (String::new(), String::new(), String::new());
    for n in 0..rng.usize(1..4) {
        let whole = if rng.u8(..6) == 0 { ", carries whole" } else { "" };
        queues += &format!("queue q{n} {{ depth 64, instances 3{whole} }}\n");
        let mut reads = String::new();
        for _ in 0..rng.usize(0..4) {
            let field = fields.get(rng.usize(..fields.len().max(1))).map(|f| f.0);
            reads += &match (rng.u8(..8), field) {
                (0..=3, Some(f)) => format!("sum{n} += hash(p.{f}) % 1000\n"),
                (4, _) => format!("sum{n} += u64(p.mark)\n"),
                (5, _) => format!("if p.udp {{ sum{n} += u64(p.udp.dst) + u64(p.udp.length) }}\n"),
                (6, _) => format!("if p.ip {{ sum{n} += hash((p.ip.src, p.ip.ttl)) % 999 }}\n"),
                _ => format!("sum{n} += hash(slice(p.payload, 0, {})) % 1000\n", rng.u8(..90)),
            };
        }
        let end = match rng.u8(..10) {
            0 => "p -> out\n".to_string(),
            1 => format!("sum{n} += hash(p.payload) % 1000\n"),
            2 => format!("if p.tcp and checksum_ok(p.tcp) {{ sum{n} += 1 }}\n"),
            _ => format!(
                "if p.len % 3 == 0 {{ [Ethernet {{ type: u16(p.len & 65535) }}, text(sum{n}), text(i)] -> out }}\n"
            ),
        };
        handlers += &format!("on q{n}[i](p) {{\nif i == 7 {{ return }}\n{reads}{end}}}\n");
        let mark = if rng.bool() { "p.mark = p.len * 3\n" } else { "" };
        let place = if rng.bool() { "p.len % 3".to_string() } else { rng.u8(..3).to_string() };
        let test = ["p.udp", "p.len % 2 == 1", "p.ip", "p.tcp or p.len > 200"][rng.usize(..4)];
        ways += &format!("if {test} {{ {mark}p -> q{n}[{place}]\nreturn }}\n");
    }
    let state = match fields.is_empty() {
        true => String::new(),
        false => {
            format!("state of packet {{ {} }}\n", fields.iter().map(|f| f.1.as_str()).collect::<Vec<_>>().join(", "))
        }
    };
    let sums: String = (0..4).map(|n| format!("state sum{n}: u64\n")).collect();
    let told = "every 1h { log sum0, sum1, sum2, sum3 }\n";
    format!(
        "app made {{
    port wire = nic(\"eth0\"), out = memory(\"out\")
    {state}{queues}{sums}
    segment front on xdp {{ on wire(p) {{ {sets}{ways} }} }}
    segment back on cpu(0) {{ {handlers}{told} }}
}}
"
    )
}

/// As many as `WIRELOOM_SEEDS` says.
#[test]
fn generated_queues() {
    let mut sum = Crossed::default();
    for seed in wireloom_tests::programs::seeds(3) {
        let some = |each: Taker| {
            let mut n = 0;
            long_and_short(&mut |bytes| {
                n += 1;
                // Each program sees some of them.
                if (n + seed).is_multiple_of(9) {
                    each(bytes)
                }
            })
        };
        let Some(s) = crossed(&generated(seed), |_| true, some) else { return };
        assert!(s.given > 50, "seed {seed}: {s:?}");
        (sum.given, sum.cut, sum.sent) = (sum.given + s.given, sum.cut + s.cut, sum.sent + s.sent);
    }
    assert!(sum.given > 1200 && sum.cut > 50 && sum.sent > 100, "{sum:?}");
}

/// Floem's table of inferred transfers: bytes that cross for a packet of 1,024, by the share of it
/// that is read behind the queue. What lies in front of a frame counts, too.
#[test]
fn bytes_by_live_share() {
    const SIZE: usize = 1024;
    eprintln!("live share   whole frames   carried   times fewer");
    // All five rows of the table in a long run.
    let step = if std::env::var_os(wireloom_tests::programs::LONG).is_some() { 1 } else { 2 };
    for share in [20, 40, 60, 80, 100].into_iter().step_by(step) {
        let live = SIZE * share / 100;
        let read = if share == 100 { "p.payload".into() } else { format!("slice(p.payload, 0, {})", live - 42) };
        let text = format!(
            "app live {{
    port wire = nic(\"eth0\")
    state of packet {{ flow: u64 }}
    queue q {{ depth 64 }}
    counter sum
    segment front on xdp {{ on wire(p) where p.ip and p.udp {{ p.flow = hash((p.udp.src, p.udp.dst))  p -> q }} }}
    segment back on cpu(0) {{ on q(p) {{ sum += p.flow % 7 + hash({read}) % 7 }} }}
}}
"
        );
        let frames = |each: Taker| (0..200).for_each(|n| each(&udp(7, 1000 + n, 53, SIZE - 42)));
        let part = |p| matches!(p, FramePart::Headers(_) | FramePart::Whole);
        let Some(sum) = crossed(&text, part, frames) else { return };
        let note = 16 + if share == 100 { 8 } else { 16 };
        let (whole, came) = (SIZE + 24, sum.came as usize / 200 + note);
        eprintln!("{share:9} % {whole:14} {came:9} {:13.2}", whole as f64 / came as f64);
        assert_eq!((sum.given, sum.whole), (200, 200 * SIZE as u64));
        assert!((live..=live + 8 + note).contains(&came), "{share} %: {came}");
    }
}
