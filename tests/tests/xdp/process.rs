//! Frames that programs in the hook leave to the process, on captures and over AF_XDP.

use super::live::{has_xdp, ready, TOOLS};
use super::*;
use wireloom_ir::placement::split;
use wireloom_tests::captures::{self, udp};
use wireloom_tests::net::Net;
use wireloom_tests::{Process, Wireloom};

/// Numbers of the frames of a capture.
#[derive(Debug, Default)]
pub(super) struct Filtered {
    /// Frames that the filter has left to the process, and those about which it has decided.
    pub(super) given: u64,
    pub(super) decided: u64,
    logs: u64,
}

/// Runs an app's filters in the hook, and the whole app on the frames that they leave. Together
/// they do what the interpreter does with all frames.
pub(super) fn filter(path: &Path, sets: &[(&str, &str)], mut frames: impl FnMut(Taker)) -> Option<Filtered> {
    stay_here();
    let m = Arc::new(module(path));
    let sets: Vec<(String, String)> = sets.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    let (mut special, all) = placed(&m, &sets);
    let kept: Vec<HandlerId> = all.iter().map(|h| h.0).collect();
    let filters: Vec<(HandlerId, PortId)> = split(&mut special, &kept)
        .iter()
        .map(|s| (s.filter, all.iter().find(|h| h.0 == s.handler).expect("a handler of frames").1))
        .collect();
    assert_eq!(filters.len(), all.len(), "{}: each handler has a filter", m.app);
    let object = load(&special, &filters, &sets)?;
    let verified = object.verified().expect("the kernel tells what it has verified");
    assert!((1..=VERIFIED_MAX).contains(&verified), "{}: {verified} instructions verified", m.app);
    eprintln!("{}: {verified} instructions verified", m.app);
    let two = || Beside::new(&m, interpreted(&m), interpreted(&m), &sets).expect("the programs start");
    // Of frames with random bytes lengths are compared.
    let random = std::fs::read_to_string(root().join(path)).is_ok_and(|t| t.contains("random_bytes("));
    let (mut whole, mut rest, mut seen) = (two(), two(), Filtered::default());
    let mut time = 1_700_000_000_000_000_000;
    let mut one = |program: usize, bytes: &[u8]| {
        time += 1000;
        object.set_time(time).expect("the time is set");
        let (wire, bytes) = (bytes.len() as u32, bytes.to_vec());
        let f = FrameIn {
            port: filters[program].1.index(),
            instance: 0,
            time,
            wire,
            bytes,
            rooms: (256, 256),
            mark: 0,
            entry: Vec::new(),
        };
        let (shown, logs) = (wireloom_interp::frames::hex(&f.bytes), whole.logs);
        let sent = whole.frame(&f).expect("the interpreter runs");
        let before = object.unheard();
        let ran = object.test(program, &f.bytes).expect("the kernel runs it");
        if object.unheard() > before {
            // There is no socket in a test run.
            assert_eq!(ran.verdict, Verdict::Drop, "frame {shown}");
            let came = queues::given(&object, f.bytes.len(), ran.frame);
            assert_eq!(wireloom_interp::frames::hex(&came.bytes), shown, "the frame stays as it is");
            if came.port != usize::from(wireloom_runtime::packet::hook_ring::OWN) {
                // The process sends it on, without its handler.
                let on = (came.port as u32, u32::from(came.instance), f.bytes.clone());
                assert_eq!(sent, [on], "frame {shown}");
                seen.decided += 1;
                return;
            }
            let both = [rest.frame(&f).expect("the interpreter runs"), sent].map(|mut sent| {
                if random {
                    sent.iter_mut().for_each(|s| s.2.fill(0));
                }
                sent
            });
            assert_eq!(both[0], both[1], "frame {shown}");
            seen.given += 1;
            return;
        }
        seen.decided += 1;
        assert_eq!(whole.logs, logs, "a line of frame {shown}");
        let expected = match sent.as_slice() {
            [] => Verdict::Drop,
            [(to, ..)] => match fate(&special, Some(filters[program].1), PortId(*to)) {
                Some(Fate::Kernel) => Verdict::Pass,
                Some(Fate::Back) => Verdict::Tx,
                // The map of ports is empty in a test.
                Some(Fate::Redirected) => Verdict::Aborted,
                way => panic!("frame {shown}: {way:?}"),
            },
            more => panic!("frame {shown}: {more:?}"),
        };
        assert_eq!(ran.verdict, expected, "frame {shown}");
    };
    frames(&mut |bytes: &[u8]| {
        if SIZES.contains(&bytes.len()) {
            (0..filters.len()).for_each(|program| one(program, bytes))
        }
    });
    for (n, c) in m.counters.iter().enumerate() {
        assert_eq!(object.counter(n) + rest.counter(n), whole.counter(n), "counter {}", c.name);
    }
    let mut faults: BTreeMap<(u32, u32), u64> =
        rest.faults.iter().map(|((k, p), n)| ((u32::from(*k), *p), *n)).collect();
    object.faults_by_place().into_iter().for_each(|(k, p, n)| *faults.entry((k, p)).or_default() += n);
    let expected: BTreeMap<(u32, u32), u64> =
        whole.faults.iter().map(|((k, p), n)| ((u32::from(*k), *p), *n)).collect();
    assert_eq!(faults, expected, "faults");
    assert_eq!(rest.logs, whole.logs, "lines");
    seen.logs = rest.logs;
    Some(seen)
}

/// The hook keeps what is no DNS from the process.
#[test]
fn dns_tap() {
    let Some(seen) = filter(&app("dns_tap"), &[], hostile(10_000)) else { return };
    assert!(seen.given > 1000 && seen.decided > 10_000 && seen.logs > 500, "{seen:?}");
}

/// Packets are counted once, whoever counts them. What may fault is left to the process before it
/// leaves a trace.
#[test]
fn filters_leave_no_trace() {
    let folder = Folder::new("xdp-filters");
    let path = written(
        &folder,
        "app filters {
    port wire = nic(\"eth0\")
    /// The least port that is known.
    param least: u16 = 1024
    counter others, passed, logged, small
    on wire(p) {
        if not p.ip4 { others += 1; return }
        if p.udp {
            let n = p.udp.dst
            if n < least { small += 1; log \"a small port\"; return }
            passed += u64(p.len)
            p -> kernel
        } else if p.tcp {
            let size = p.tcp.src / p.tcp.dst
            if size > 3 { logged += 1; log \"from \", p.ip4.src, p.payload } else { p -> wire }
        }
    }
}
",
    );
    let Some(seen) = filter(&path, &[("least", "4000")], hostile(10_000)) else { return };
    assert!(seen.given > 500 && seen.decided > 1000 && seen.logs > 100, "{seen:?}");
}

/// A note in front of a frame says where the process is to send it.
#[test]
fn frames_for_the_process_have_notes() {
    let folder = Folder::new("xdp-notes");
    let path = written(
        &folder,
        "app notes {
    port wire = nic(\"eth0\"), far = nic(\"eth1\")
    port tap = memory([\"a\", \"b\", \"c\"]), log = memory(\"d\")
    counter known
    on wire(p) where p.ip {
        known += 1
        if p.ip4 and p.len < 80 { p.ip4.ttl = 9 }
        if p.udp { p -> tap[p.udp.dst % 3]; return }
        if p.tcp { p -> log; return }
        if p.ip4 { p -> far } else { p -> kernel }
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(10_000)) else { return };
    assert!(sum.sent > 1000 && sum.counted > 1000, "{sum:?}");
}

/// A program that leaves to the process what goes to one place needs no notes.
#[test]
fn one_place_needs_no_notes() {
    let folder = Folder::new("xdp-no-notes");
    let path = written(
        &folder,
        "app plain {
    port wire = nic(\"eth0\")
    port tap = memory(\"a\")
    on wire(p) { if p.udp { p -> tap } else { p -> kernel } }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(2_000)) else { return };
    assert!(sum.sent > 1000, "{sum:?}");
}

/// A sender of frames, and the app at the other end of a link.
pub(super) struct Link {
    pub(super) net: Net,
}

impl Link {
    pub(super) fn new() -> Option<Link> {
        Link::wide(1)
    }

    pub(super) fn wide(queues: u32) -> Option<Link> {
        if !has_xdp() {
            return None;
        }
        let net = Net::new(&["a", "b"], &TOOLS)?;
        net.wide_link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"), queues);
        ready(&net, &[("a", "a0"), ("b", "b0")]);
        Some(Link { net })
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.net.folder.join(name).display().to_string()
    }

    /// Sends frames, a few at a time.
    pub(super) fn send(&self, frames: &[Vec<u8>]) {
        self.send_from("b0", frames);
    }

    pub(super) fn send_from(&self, device: &str, frames: &[Vec<u8>]) {
        let text: String = frames.iter().map(|f| wireloom_interp::frames::hex(f) + "\n").collect();
        std::fs::write(self.file("frames"), text).expect("the folder is writable");
        let send = "import socket, sys, time; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind((sys.argv[2], 0)); \
             [(s.send(bytes.fromhex(l)), time.sleep(0.002 if n % 50 == 49 else 0)) for n, l in enumerate(open(sys.argv[1]))]";
        self.net.sh("b", &format!("python3 -c \"{send}\" {} {device}", self.file("frames")));
    }

    /// Ends an app in order; all that it has said.
    pub(super) fn end(&self, app: &mut Process) -> String {
        app.signal(libc::SIGTERM);
        assert_eq!(app.exit(), Some(0), "{}", app.output());
        app.output()
    }
}

/// DNS and other traffic.
pub(super) fn mixed(n: u16) -> Vec<Vec<u8>> {
    let port = |i: u16| if i.is_multiple_of(3) { 53 } else { 1000 + i };
    (0..n).map(|i| udp((i % 200) as u8, 5000 + i, port(i), 18 + usize::from(i % 700))).collect()
}

/// The frames of a capture, without their times.
pub(super) fn bytes_of(path: &str) -> Vec<Vec<u8>> {
    captures::read(Path::new(path)).into_iter().map(|f| f.1).collect()
}

/// The lines of a log about packets.
fn logged(text: &str) -> Vec<String> {
    text.lines().filter_map(|l| Some(l[l.find("eth ")?..].to_string())).collect()
}

/// On a link the hook filters, and the process logs and copies what the CPU alone does.
#[test]
fn dns_tap_live() {
    let Some(link) = Link::new() else { return };
    let frames = mixed(900);
    let (input, alone) = (link.file("in.pcap"), link.file("alone.pcap"));
    let timed: captures::Frames = frames.iter().map(|f| (captures::EPOCH, f.clone())).collect();
    captures::write(Path::new(&input), &timed);
    let said = Wireloom::command(&[
        "run",
        "apps/dns_tap.loom",
        "--bind",
        &format!("lan=pcap:{input}"),
        "--bind",
        &format!("mon=pcap:{alone}"),
        "--control",
        "off",
    ]);
    assert_eq!(said.code, Some(0), "{}", said.text);
    let expected = (bytes_of(&alone), logged(&said.text));
    assert_eq!((expected.0.len(), expected.1.len()), (300, 300), "{}", said.text);
    for mode in ["native", "generic"] {
        let out = link.file(&format!("{mode}.pcap"));
        let args = ["--place", "xdp", "--xdp-mode", mode, "--bind", "lan=nic:a0", "--control", "off", "--bind"];
        let mut tap = link.net.app("a", "dns_tap", &[&args[..], &[&format!("mon=pcap:{out}")]].concat());
        let said = tap.output();
        assert!(said.contains("on lan has a filter in XDP") && said.contains("dns_tap.loom:17"), "{said}");
        link.send(&frames);
        link.net.until("all lines are there", || logged(&tap.output()).len() >= 300);
        let said = link.end(&mut tap);
        assert_eq!(logged(&said), expected.1, "{mode}: lines");
        let copied = bytes_of(&out);
        assert!(copied.len() == 300 && copied.iter().map(Vec::len).eq(expected.0.iter().map(Vec::len)), "{said}");
        assert!(copied == expected.0, "{mode}: frames");
        assert!(said.contains("300 to the process, 0 without a socket, 600 dropped"), "{mode}: {said}");
    }
}

/// Segments in the hook and on the CPU: marks cross, and a port that the hook does not have gets
/// what the hook sends there.
#[test]
fn segments_live() {
    let Some(link) = Link::new() else { return };
    let folder = Folder::new("xdp-segments");
    let path = written(
        &folder,
        "app parts {
    port wire = nic(\"a0\"), tap = pcap(\"tap.pcap\"), odd = pcap(\"odd.pcap\")
    queue seen { depth 1024, instances 2 }
    counter seen_there, handled
    segment front on xdp {
        on wire(p) where p.udp {
            seen_there += 1
            p.mark = u32(p.udp.src) * 7
            if p.udp.dst == 53 { p -> seen[p.udp.src % 2] } else if p.udp.dst % 2 == 1 { p -> odd }
        }
    }
    segment back on cpu(0) {
        on seen[i](p) where p.udp {
            handled += 1
            if p.mark == u32(p.udp.src) * 7 and u32(p.udp.src % 2) == i { p -> tap }
        }
    }
}
",
    );
    let path = path.display().to_string();
    let frames = mixed(900);
    for mode in ["native", "generic"] {
        let (tap, odd) = (link.file(&format!("tap-{mode}.pcap")), link.file(&format!("odd-{mode}.pcap")));
        let args = ["--xdp-mode", mode, "--control", "off", "--bind"];
        let mut run = link.net.app(
            "a",
            &path,
            &[&args[..], &[&format!("tap=pcap:{tap}"), "--bind", &format!("odd=pcap:{odd}")]].concat(),
        );
        link.send(&frames);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let said = link.end(&mut run);
        let mut dns: Vec<Vec<u8>> = frames.iter().filter(|f| f[36..38] == [0, 53]).cloned().collect();
        // The order of two instances of a queue is not known.
        let mut tapped = bytes_of(&tap);
        dns.sort();
        tapped.sort();
        let others = frames.iter().filter(|f| f[36..38] != [0, 53] && f[37] % 2 == 1);
        assert!(tapped == dns, "{mode}: {} of {} frames: {said}", tapped.len(), dns.len());
        assert!(bytes_of(&odd).iter().eq(others), "{mode}: {said}");
        assert!(said.contains("0 without a socket"), "{said}");
    }
}

/// Each queue of an interface has a socket, and each core of a segment takes the frames of some.
#[test]
fn queues_live() {
    let Some(link) = Link::wide(3) else { return };
    let folder = Folder::new("xdp-queues");
    let path = written(
        &folder,
        "app wide {
    port wire = nic(\"a0\"), tap = pcap(\"tap.pcap\")
    queue seen { depth 1024, instances 2 }
    queue done { depth 1024, lossless }
    on wire(p) where p.udp on xdp { p -> steer seen by p.udp.src }
    on seen(p) where p.udp on cpu(0..2) { p -> done }
    segment last on cpu(0) { done -> tap }
}
",
    );
    let (path, tap) = (path.display().to_string(), link.file("tap.pcap"));
    let mut frames = mixed(900);
    let mut run =
        link.net.app("a", &path, &["--cores", "0,1", "--control", "off", "--bind", &format!("tap=pcap:{tap}")]);
    link.send(&frames);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let said = link.end(&mut run);
    let mut tapped = bytes_of(&tap);
    tapped.sort();
    frames.sort();
    assert!(tapped == frames, "{} of {} frames: {said}", tapped.len(), frames.len());
    assert!(said.contains("900 to the process, 0 without a socket, 0 dropped"), "{said}");
}

/// A port of two interfaces: frames of both come, each with the number of its interface.
#[test]
fn instances_live() {
    let Some(link) = Link::new() else { return };
    link.net.link(("a", "a1", "02:00:00:00:0a:02"), ("b", "b1", "02:00:00:00:0b:02"));
    ready(&link.net, &[("a", "a1"), ("b", "b1")]);
    let folder = Folder::new("xdp-instances");
    let path = written(
        &folder,
        "app both {
    port wires = [nic(\"a0\"), nic(\"a1\")], first = pcap(\"first.pcap\"), second = pcap(\"second.pcap\")
    queue seen { depth 1024 }
    on wires[i](p) where p.udp on xdp { p.mark = i + 5  p -> seen }
    on seen(p) on cpu(0) { if p.mark == 5 { p -> first } else if p.mark == 6 { p -> second } }
}
",
    );
    let (path, files) = (path.display().to_string(), [link.file("first.pcap"), link.file("second.pcap")]);
    let bind = [format!("first=pcap:{}", files[0]), format!("second=pcap:{}", files[1])];
    let mut run = link.net.app("a", &path, &["--control", "off", "--bind", &bind[0], "--bind", &bind[1]]);
    let frames = mixed(300);
    link.send_from("b0", &frames[..100]);
    link.send_from("b1", &frames[100..]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let said = link.end(&mut run);
    assert!(bytes_of(&files[0]) == frames[..100], "{said}");
    assert!(bytes_of(&files[1]) == frames[100..], "{said}");
}

/// Dropped packets are sampled into a capture.
#[test]
fn samples_live() {
    let Some(link) = Link::new() else { return };
    let samples = link.file("samples.pcap");
    let sets = ["--set", "rate=10", "--set", "burst=5", "--set", "sample=2", "--control", "off"];
    let bind = ["--bind", "wire=nic:a0", "--bind", &format!("samples=pcap:{samples}")];
    let mut run = link.net.app("a", "ddos_filter", &[&sets[..], &bind].concat());
    let frame = udp(7, 4000, 53, 100);
    link.send(&vec![frame.clone(); 400]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let said = link.end(&mut run);
    let sampled = bytes_of(&samples);
    assert!((100..=198).contains(&sampled.len()), "{} samples: {said}", sampled.len());
    assert!(sampled.iter().all(|f| *f == frame));
}

/// Values that the hook puts into a ring are what the interpreter has there, as far as there is
/// room. The process adds some, too.
#[test]
fn rings() {
    let folder = Folder::new("xdp-ring");
    let path = written(
        &folder,
        "record Seen { src: ip, port: u16, size: u32, late: bool }
app exported {
    port wire = nic(\"eth0\")
    table seen: ring Seen { capacity 300 }
    counter full
    on wire(p) where p.ip {
        let port = if p.udp { p.udp.dst } else { u16(0) }
        let found = seen.push({ src: p.ip.src, port: port, size: p.len, late: p.len > 70 })
        if not found { full += 1 }
        p -> kernel
    }
    signal take() -> u64 {
        let s = seen.pop() else { return 0 }
        u64(s.size) * 65536 + u64(s.port) + (if s.late { u64(7) } else { 0 }) + hash(s.src) % 1000
    }
    signal add() -> u64 {
        let found = seen.push({ src: 10.0.0.1, port: 9, size: 1, late: false })
        if found { 1 } else { 0 }
    }
    signal third() -> u64 { let s = seen[2] else { return 0 }  u64(s.size) }
    signal waiting() -> u64 { u64(len(seen)) }
}
",
    );
    let mut signals = 0;
    let run = |both: &mut Both| {
        let mut n = 0;
        hostile(5_000)(&mut |bytes| {
            both.frame(bytes);
            n += 1;
            // At first more values come than go.
            if n % (if n < 2_000 { 7 } else { 2 }) == 0 {
                // Values that the process keeps itself count for the capacity, too.
                for name in ["waiting", "third", "add", "take", "waiting"] {
                    both.signal(name, &[]);
                    signals += 1;
                }
            }
        })
    };
    let Some(sum) = beside_it(&path, &[], 1000, run) else { return };
    assert!(sum.counted > 300 && sum.sent > 1000 && signals > 1000, "{sum:?}");
}

/// An element that several others send to stands in each of them.
#[test]
fn elements_that_are_joined_to() {
    let folder = Folder::new("xdp-joined");
    let tests: String = (0..70).map(|n| format!("        if p.len == {} {{ some += {n} }}\n", 40 + n)).collect();
    let text = format!(
        "element Big {{
    in  x: packet
    out y: packet
    counter some
    on x(p) {{
{tests}        p -> y
    }}
}}
app joined {{
    port wire = nic(\"eth0\")
    big = Big() on xdp
    on wire(p) where p.ip {{
        if p.udp {{ p -> big }} else if p.tcp {{ p -> big }}
    }}
    big -> kernel
}}
"
    );
    let path = written(&folder, &text);
    let Some(sum) = compare(&path, &[], hostile(5_000)) else { return };
    assert!(sum.sent > 1000 && sum.counted > 1000, "{sum:?}");
    let said = Wireloom::command(&["explain", &path.display().to_string(), "--place", "xdp"]);
    assert!(said.text.contains("on wire: xdp"), "{}", said.text);
}

/// A process that does not keep up loses frames, and knows how many.
#[test]
fn full_rings_are_counted() {
    let Some(link) = Link::new() else { return };
    let folder = Folder::new("xdp-rings");
    let path = written(
        &folder,
        "app slow {
    port wire = nic(\"a0\"), tap = pcap(\"tap.pcap\")
    counter handled
    on wire(p) on xdp { if p.udp { p -> tap } else { p -> kernel } }
}
",
    );
    let (tap, path) = (link.file("slow.pcap"), path.display().to_string());
    let page = "127.0.0.1:8080";
    let args = ["--control", "off", "--admin", page, "--bind", &format!("tap=pcap:{tap}")];
    let mut run = link.net.app("a", &path, &args);
    let sent = 6000;
    run.stop();
    link.send(&mixed(sent));
    run.resume();
    let number = |metrics: &str, name: &str| -> u64 {
        let line = metrics.lines().find(|l| l.starts_with(name) && l.contains("port=\"wire\""));
        line.and_then(|l| l.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    };
    let counted = || {
        let page = link.net.curl("a", "http://127.0.0.1:8080/metrics");
        (number(&page, "wireloom_frames_received_total"), number(&page, "wireloom_frames_lost_total"))
    };
    link.net.until("all frames are received or lost", || {
        let (received, lost) = counted();
        received + lost == u64::from(sent)
    });
    let page = link.net.curl("a", "http://127.0.0.1:8080/metrics");
    let given = format!("wireloom_xdp_frames_total{{app=\"slow\",fate=\"process\"}} {sent}");
    assert!(page.lines().any(|l| l == given), "{page}");
    let (received, lost) = counted();
    assert!(received > 1000 && lost > 100, "{received} and {lost}");
    link.end(&mut run);
    assert_eq!(bytes_of(&tap).len() as u64, received);
}

/// Each refused construct has a code.
#[test]
fn lossless_queues_are_refused() {
    let folder = Folder::new("xdp-lossless");
    let path = written(
        &folder,
        "app no {
    port wire = nic(\"eth0\"), out = nic(\"eth1\")
    queue q { depth 64, lossless }
    segment front on xdp { on wire(p) { p -> q } }
    segment back on cpu(0) { q -> out }
}
",
    );
    let said = Wireloom::command(&["check", &path.display().to_string()]);
    assert_eq!(said.code, Some(1), "{}", said.text);
    assert!(said.text.contains("E0673") && said.text.contains("`lossless`"), "{}", said.text);
}
