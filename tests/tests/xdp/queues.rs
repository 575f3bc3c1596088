//! What crosses a queue from the hook to the process. A frame that is cut, with its entry, gives the
//! process what the whole frame gives.

use super::process::{mixed, Link};
use super::*;
use wireloom_ir::ops::Device;
use wireloom_ir::{layout, FramePart};
use wireloom_tests::captures::udp;

/// Bytes from which on frames are cut.
const LONG: usize = wireloom_codegen_c::xdp::LONG as usize;

/// What the process gets of a frame.
struct Given {
    port: usize,
    instance: u16,
    mark: u32,
    n: usize,
    entry: Vec<u8>,
    bytes: Vec<u8>,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

/// Reads what a program has put in front of a frame of `n` bytes.
fn given(object: &Object, n: usize, mut frame: Vec<u8>) -> Given {
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
    cut: u64,
    sent: u64,
    /// Bytes of frames as they were, and of those that the process has got.
    whole: u64,
    came: u64,
}

/// Runs the handlers `on xdp` in the hook and the others on the frames that they give to the
/// process: together they do what the interpreter does with whole frames.
fn crossed(text: &str, part: fn(FramePart) -> bool, mut frames: impl FnMut(Taker)) -> Option<Crossed> {
    stay_here();
    let folder = Folder::new("xdp-crossed");
    let m = Arc::new(module(&written(&folder, text)));
    assert!(m.ports.iter().any(|p| p.kind.is_queue() && part(p.carries.part)), "{:?}", m.ports);
    let (special, mut all) = placed(&m, &[]);
    all.retain(|h| m.handlers[h.0.index()].device == Device::Xdp);
    let object = load(&special, &all, &[])?;
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
        let before = object.unheard();
        let ran = object.test(0, bytes).expect("the kernel runs it");
        assert_eq!(ran.verdict, Verdict::Drop, "there is no socket in a test run: {}", shown());
        if object.unheard() == before {
            assert!(sent.is_empty(), "frame {}", shown());
            return;
        }
        let mut g = given(&object, bytes.len(), ran.frame);
        assert_eq!(g.n, bytes.len(), "frame {}", shown());
        assert_eq!(g.bytes[..], bytes[..g.bytes.len()], "frame {}", shown());
        sum.given += 1;
        sum.cut += u64::from(g.bytes.len() < g.n);
        sum.whole += g.n as u64;
        sum.came += g.bytes.len() as u64;
        // What is not there may be anything.
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
        if n % 3 == 0 {
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
    queue none { depth 64 }
    counter users, tried
    guess = Guess() on xdp
    segment front on xdp {
        wire -> guess
    }
    guess -> match { .udp => mark -> heads[1], .tcp => all, else => none }
    mark = Mark()
    segment back on cpu(0) {
        on all(p) { users += u64(p.user)  p -> copy }
        on heads[i](p) where p.udp {
            users += u64(p.user + i + p.mark)
            [Ethernet { type: 0x0800 }, Ipv4 { ttl: p.tries, proto: 17 }, Udp { src: p.udp.dst, dst: u16(p.mark) }] -> out
        }
        on none(p) { users += u64(p.user)  tried += u64(p.tries) }
    }
}
element Mark { in x: packet  out y: packet  on x(p) { p.mark = p.len * 3  p -> y } }
";

#[test]
fn several_queues() {
    let Some(sum) = crossed(SEVERAL, |p| p == FramePart::Nothing, long_and_short) else { return };
    assert!(sum.given > 5000 && sum.cut > 1000 && sum.sent > 1000, "{sum:?}");
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
