//! Programs in the kernel's XDP hook do what the interpreter does: frames, counters, faults and
//! tables. Each app that can be placed runs on every prefix and every changed byte of frames, and
//! on random ones. Without root, BTF or clang the tests say so, and pass.

mod apps;
mod built;
mod by_hand;
mod bytes;
mod card;
mod edits;
mod fallback;
mod generated;
mod interfaces;
mod kinds;
mod limits;
mod live;
mod live_apps;
mod per_core;
mod process;
mod queues;
mod races;
mod undone_sums;
mod whole;
mod wide_numbers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wireloom_codegen_c::xdp::emit;
use wireloom_interp::frames::{samples, Beside, FrameIn, Mutator};
use wireloom_ir::placement::{candidates, fate, obstacles, specialise, Fate};
use wireloom_ir::{HandlerId, Module, On, PortId};
use wireloom_runtime::abi::wl_param;
use wireloom_runtime::packet::hook_ring::HookRing;
use wireloom_runtime::{params, Program};
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::{bare_module, interpreted, module};
use wireloom_tests::{root, Wireloom};
use wireloom_xdp::{tables, Error, Object, Settings, Thrift, Verdict};

/// The least and the most bytes of a frame that a test run takes.
const SIZES: std::ops::RangeInclusive<usize> = 14..=3520;

/// Instructions of an app that the verifier may follow. Ways through the headers that do not join
/// are seen here long before the kernel refuses a program, at a million.
const VERIFIED_MAX: u32 = 20_000;

/// The handlers of packets of an app, with its parameters set. Those of queues belong to the
/// process.
fn placed(m: &Module, sets: &[(String, String)]) -> (Module, Vec<(HandlerId, PortId)>) {
    let values = params::resolve(&m.desc(), sets).expect("the parameters have values").values.clone();
    let port = |h: HandlerId| match m.handlers[h.index()].on {
        On::Frame { port, .. } if !m.ports[port.index()].kind.is_queue() => Some((h, port)),
        _ => None,
    };
    let all: Vec<(HandlerId, PortId)> = candidates(m).into_iter().filter_map(port).collect();
    let mut special = m.clone();
    all.iter().for_each(|h| specialise(&mut special, h.0, &values));
    (special, all)
}

thread_local! {
    /// Which programs are tried first.
    static BEGIN: std::cell::Cell<Thrift> = usual_thrift().into();
}

/// The programs that tests begin with: the fastest ones, or `WIRELOOM_HOOK=far` or `=apart`.
fn usual_thrift() -> Thrift {
    match std::env::var("WIRELOOM_HOOK").as_deref() {
        Ok("far") => Thrift::Far,
        Ok("apart") => Thrift::Apart,
        _ => Thrift::Fast,
    }
}

/// Loads the handlers of an app; `None`, loudly: this machine has no XDP. The first interface of
/// each port is number 1, that of test runs.
fn load(m: &Module, all: &[(HandlerId, PortId)], sets: &[(String, String)]) -> Option<Object> {
    for (h, _) in all {
        let found = obstacles(m, *h);
        assert!(found.is_empty(), "{}: {found:?}", m.app);
    }
    let settings = params::resolve(&m.desc(), sets).expect("the parameters have values");
    let instances = |p: PortId| settings.ports.get(p.index()).map_or(1, |p| p.names.len()).max(1) as u32;
    let handlers: Vec<HandlerId> = all.iter().map(|h| h.0).collect();
    let source = emit(m, &handlers, &instances).expect("handlers of frames");
    let interfaces = all.iter().map(|(_, p)| (*p, (1..=instances(*p)).collect())).collect();
    let begin = BEGIN.get();
    match Object::load(&source, &Settings { interfaces, manual_time: true, begin, ..Settings::default() }) {
        Ok(object) => Some(object),
        Err(e @ (Error::Rights(_) | Error::Old { .. } | Error::NoClang)) => {
            eprintln!("SKIPPED: no XDP here: {e}");
            None
        }
        Err(e) => panic!("{}: {e}", m.app),
    }
}

/// The interpreter, with the tables of programs in the hook.
fn beside(m: &Arc<Module>, object: &Arc<Mutex<Object>>) -> Program {
    let outside = tables(m, std::slice::from_ref(object));
    let program = Box::leak(Box::new(wireloom_interp::program_beside(m.clone(), outside)));
    // SAFETY: the table and all its targets are leaked just above.
    unsafe {
        let packets = (program.table_self(), program.packets());
        Program::from_table(program.table()).expect("a program").with_packets(packets.0, packets.1)
    }
}

/// The devices that ran handlers, so that a test can see that frames reached the program.
#[derive(Default, Debug)]
struct Sum {
    frames: u64,
    sent: u64,
    entries: u64,
    counted: u64,
    lines: u64,
    /// Frames that were given to another segment, and of them those that came by a ring, or cut.
    crossed: u64,
    ringed: u64,
    cut: u64,
    took: Duration,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        let Sum { frames, sent, entries, counted, lines, crossed, ringed, cut, took } = other;
        let mine = [&mut self.frames, &mut self.sent, &mut self.entries, &mut self.lines];
        mine.into_iter().zip([frames, sent, entries, lines]).for_each(|(a, b)| *a += b);
        let mine = [&mut self.crossed, &mut self.ringed, &mut self.cut];
        mine.into_iter().zip([crossed, ringed, cut]).for_each(|(a, b)| *a += b);
        self.counted = self.counted.wrapping_add(*counted);
        self.took += *took;
    }
}

/// Each processor has a `state` of its own: the thread stays on the one that it is on.
fn stay_here() {
    // SAFETY: plain system calls on this thread, with a set that lives here.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut one);
        libc::sched_setaffinity(0, std::mem::size_of_val(&one), &one);
    }
}

/// Both, side by side.
struct Both<'a> {
    special: &'a Module,
    all: &'a [(HandlerId, PortId)],
    object: Arc<Mutex<Object>>,
    pair: Beside<'a>,
    /// The rings of programs, if parts of frames go through them.
    rings: Vec<Option<HookRing>>,
    sum: Sum,
    /// Of the next frame, and what lies between two.
    time: u64,
    step: u64,
}

impl Both<'_> {
    /// The next frame comes at this time, or as soon as possible. Timers that are due run.
    fn at(&mut self, time: u64) {
        self.time = self.time.max(time);
        self.object.lock().unwrap().set_time(self.time).expect("the time is set");
        self.pair.timers(self.time).unwrap_or_else(|e| panic!("{}: {e}", self.special.app));
    }

    /// Runs a frame through each handler; the first difference is a panic.
    fn frame(&mut self, bytes: &[u8]) {
        if SIZES.contains(&bytes.len()) {
            (0..self.all.len()).for_each(|program| self.one(program, bytes))
        }
    }

    fn one(&mut self, program: usize, bytes: &[u8]) {
        let (app, port) = (&self.special.app, self.all[program].1);
        let f = FrameIn {
            port: port.index(),
            instance: 0,
            time: self.time,
            wire: bytes.len() as u32,
            bytes: bytes.to_vec(),
            rooms: (256, 2048),
            mark: 0,
            entry: Vec::new(),
        };
        let object = self.object.lock().unwrap();
        object.set_time(self.time).expect("the time is set");
        drop(object);
        self.time += self.step;
        let (sent, crossed) = self.pair.first_segment(&f).expect("the interpreter runs");
        let mut object = self.object.lock().unwrap();
        let gone = |o: &Object| o.unheard() + o.given();
        let before = gone(&object);
        let ran = object.test(program, bytes).expect("the kernel runs it");
        let given = gone(&object) > before;
        let lines: Vec<Vec<u8>> = std::iter::from_fn(|| object.line()).collect();
        drop(object);
        let shown = || wireloom_interp::frames::hex(bytes);
        assert_eq!(lines, self.pair.lines, "{app}, program {program}: frame {}", shown());
        self.sum.lines += lines.len() as u64;
        let all = sent.len() + crossed.len();
        let expected = match (sent.as_slice(), crossed.first()) {
            ([], None) => (Verdict::Drop, None),
            ([], Some(frame)) => {
                assert!(given && all == 1, "{app}, program {program}, {given}, {all}: frame {}", shown());
                self.cross(program, frame, ran.frame);
                self.sum.frames += 1;
                return;
            }
            ([(to, instance, out)], None) => match fate(self.special, Some(port), PortId(*to)) {
                Some(Fate::Kernel) => (Verdict::Pass, Some(out)),
                Some(Fate::Back) if *instance == 0 => (Verdict::Tx, Some(out)),
                // The map of ports is empty in a test.
                Some(Fate::Back | Fate::Redirected) => (Verdict::Aborted, Some(out)),
                Some(Fate::Process) => {
                    assert!(given, "{app}: frame {}", shown());
                    let came = queues::given(&self.object.lock().unwrap(), out.len(), ran.frame.clone());
                    assert_eq!(
                        (came.port, u32::from(came.instance), came.mark, came.n),
                        (*to as usize, *instance, 0, out.len()),
                        "{app}: frame {}",
                        shown()
                    );
                    self.same_bytes(&came.bytes, out, bytes);
                    (Verdict::Drop, None)
                }
                None => panic!("sent to a port that XDP does not have"),
            },
            ([(_, _, out), rest @ ..], _) => {
                assert!(crossed.is_empty() && rest.iter().all(|r| r.2 == *out), "{app}: frames differ: {}", shown());
                (Verdict::Redirect, Some(out))
            }
        };
        assert_eq!(ran.verdict, expected.0, "{app}, program {program}: frame {}", shown());
        if let Some(out) = expected.1 {
            self.same_bytes(&ran.frame, out, bytes)
        }
        self.sum.frames += 1;
        self.sum.sent += sent.len().min(1) as u64;
    }

    fn same_bytes(&self, came: &[u8], out: &[u8], of: &[u8]) {
        let hex = wireloom_interp::frames::hex;
        assert_eq!(hex(came), hex(out), "{}: frame {}", self.special.app, hex(of));
    }

    /// A frame that the hook has given to a segment of the process does there what it does in the
    /// interpreter.
    fn cross(&mut self, program: usize, meant: &FrameIn, frame: Vec<u8>) {
        let object = self.object.lock().unwrap();
        let record = self.rings.get_mut(program).and_then(|r| r.as_mut()).and_then(queues::from_ring);
        self.sum.ringed += u64::from(record.is_some());
        let mut came = record.unwrap_or_else(|| queues::given(&object, meant.bytes.len(), frame));
        drop(object);
        let shown = || format!("{}: a frame for port {}", self.special.app, meant.port);
        assert_eq!((came.port, came.instance, came.n), (meant.port, meant.instance, meant.bytes.len()), "{}", shown());
        self.sum.cut += u64::from(came.bytes.len() < came.n);
        let part = self.special.ports[meant.port].carries.part;
        if part == wireloom_ir::FramePart::Whole {
            assert_eq!(
                wireloom_interp::frames::hex(&came.bytes),
                wireloom_interp::frames::hex(&meant.bytes),
                "{}",
                shown()
            );
        }
        // Bytes that are not there may be anything.
        came.bytes.resize(came.n, 0xee);
        came.entry.resize(wireloom_ir::layout::entry_max(self.special) as usize, 0xee);
        let device = FrameIn { mark: came.mark, entry: came.entry, bytes: came.bytes, ..meant.clone() };
        self.pair.behind(meant, &device).unwrap_or_else(|e| panic!("{}: {e}", shown()));
        self.sum.crossed += 1;
    }

    /// Runs a signal in both.
    fn signal(&mut self, name: &str, args: &[wl_param]) {
        let [a, b] = self.pair.signal(name, args).expect("the signal runs");
        assert_eq!(a, b, "{}: {name}", self.special.app);
    }

    /// Compares counters, faults and tables.
    fn end(mut self) -> Sum {
        let m = self.special;
        let here = self.object.lock().unwrap();
        for (n, c) in m.counters.iter().enumerate() {
            let both = here.counter(n).wrapping_add(self.pair.rest(n));
            assert_eq!(both, self.pair.counter(n), "{}: counter {}", m.app, c.name);
            self.sum.counted = self.sum.counted.wrapping_add(self.pair.counter(n));
        }
        let theirs: BTreeMap<_, _> = self.pair.faults.iter().map(|((k, p), n)| ((u32::from(*k), *p), *n)).collect();
        let ours: BTreeMap<_, _> = here.faults_by_place().into_iter().map(|(k, p, n)| ((k, p), n)).collect();
        assert_eq!(ours, theirs, "{}: faults", m.app);
        assert_eq!(here.lines_lost(), 0, "{}: lines", m.app);
        drop(here);
        self.sum.entries = self.pair.tables().unwrap_or_else(|e| panic!("{}: {e}", m.app));
        self.sum
    }
}

/// Runs an app in the hook and in the interpreter. `step`: nanoseconds between two frames.
fn beside_it(path: &Path, sets: &[(&str, &str)], step: u64, run: impl FnOnce(&mut Both)) -> Option<Sum> {
    stay_here();
    let m = Arc::new(bare_module(path));
    let sets: Vec<(String, String)> = sets.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    let (special, all) = placed(&m, &sets);
    let object = load(&special, &all, &sets)?;
    // The balancer's copy has smaller tables.
    if path.starts_with(root().join("apps")) || m.app == "l4_balancer" {
        let verified = object.verified().expect("the kernel tells what it has verified");
        eprintln!("{}: {verified} instructions verified", m.app);
        // Programs that need less of the kernel's stack are longer.
        let most = if usual_thrift() == Thrift::Fast { VERIFIED_MAX } else { 2 * VERIFIED_MAX };
        assert!((1..=most).contains(&verified), "{}: {verified} instructions verified", m.app);
    }
    let sum = Sum { took: object.took(), ..Sum::default() };
    let (object, time) = (Arc::new(Mutex::new(object)), 1_700_000_000_000_000_000);
    object.lock().unwrap().set_time(time).expect("the time is set");
    let pair = Beside::new(&m, interpreted(&m), beside(&m, &object), &sets).expect("both programs start");
    let mut both = Both { special: &special, all: &all, object, pair, rings: Vec::new(), sum, time, step };
    run(&mut both);
    Some(both.end())
}

/// The same with frames only.
fn compare(path: &Path, sets: &[(&str, &str)], mut frames: impl FnMut(&mut dyn FnMut(&[u8]))) -> Option<Sum> {
    beside_it(path, sets, 1000, |both| frames(&mut |bytes| both.frame(bytes)))
}

/// Takes each frame.
type Taker<'a> = &'a mut dyn FnMut(&[u8]);

/// Every prefix and every changed byte of frames of most kinds, then random ones.
fn hostile(random: usize) -> impl FnMut(Taker) {
    move |each| {
        let mut mutator = Mutator::new(7, samples(&[[10, 0, 0, 1]]), vec![[10, 0, 0, 1]], vec![(0, 1, true)]);
        for (bytes, _) in mutator.systematic() {
            each(&bytes)
        }
        for _ in 0..random {
            each(&mutator.random().bytes)
        }
    }
}

fn app(name: &str) -> PathBuf {
    root().join(format!("apps/{name}.loom"))
}

fn written(folder: &Folder, text: &str) -> PathBuf {
    let path = folder.path().join("app.loom");
    std::fs::write(&path, text).expect("the folder can be written to");
    path
}

#[test]
fn counters_states_and_ways() {
    let folder = Folder::new("xdp-ways");
    let path = written(
        &folder,
        "app ways {
    port wire = nic(\"eth0\"), far = nic(\"eth1\")
    /// The least port that is known.
    param least: u16 = 1024
    counter known
    counter bytes
    state odd: u32 = 7
    on wire(p) where p.ip {
        odd = (odd * 5 + u32(p.len)) % 1000
        bytes += u64(p.len)
        if p.tcp or p.udp {
            let port = if p.tcp { p.tcp.dst } else { p.udp.dst }
            if port < least { known += 1; p -> kernel; return }
            if odd > 500 { p -> wire } else { p -> far }
        } else if p.ip4 {
            if p.ip4.ttl in 0..=1 { return }
            p -> kernel
        }
    }
}
",
    );
    let Some(sum) = compare(&path, &[("least", "4000")], hostile(20_000)) else { return };
    assert!(sum.sent > 1000 && sum.counted > 1000, "{sum:?}");
}

#[test]
fn tables_of_all_kinds_of_values() {
    let folder = Folder::new("xdp-tables");
    let path = written(
        &folder,
        "record Seen { first: ip, times: u32, big: bool, less: i16, size: u16 }
app kept {
    port wire = nic(\"eth0\")
    table hosts: ip -> Seen { capacity 4096 }
    table pairs: (ip4, u16, u8) -> u8 { capacity 64 }
    table few: u16 -> u64 { capacity 3 }
    counter removed
    on wire(p) where p.ip {
        update hosts[p.ip.src] {
            if .times == 0 { .first = p.ip.dst }
            .times += 1
            .big = p.len > 100
            .size = u16(p.len)
            .less = i16(.size) - 100
            if .less < 0 { .times += 1000 }
        }
        if p.ip4 {
            let key = (p.ip4.src, u16(p.len), p.ip4.proto)
            if let n = pairs[key] {
                if n > 3 { remove pairs[key]; removed += 1 } else { pairs[key] = n + 1 }
            } else if p.len < 60 { pairs[key] = 1 }
        }
        if p.udp { few[p.udp.dst] = u64(p.len) }
        p -> kernel
    }
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(20_000)) else { return };
    assert!(sum.entries > 100, "{sum:?}");
}

/// `return` behind a send in elements and functions, `break` behind one.
#[test]
fn returns_behind_sends() {
    let folder = Folder::new("xdp-returns");
    let path = written(
        &folder,
        "element Keep {
    in  x: packet
    out y: packet
    out z: packet
    on x(p) {
        if not p.vlan { p -> z  return }
        p.vlan.vid = p.vlan.vid ^ 5
        if p.len > 70 { p -> z  return }
        p -> y
    }
}
app returns {
    port wire = nic(\"eth0\")
    counter odd
    c = Keep()
    d = Keep()
    fn go(p: packet) {
        if not p.udp { p -> kernel  return }
        p.udp.src = p.udp.src ^ 7
        for i in 0..4 {
            if p.len % 8 == i {
                odd += 1
                p -> wire
                break
            }
        }
    }
    on wire(p) { if p.ip4 { go(p) } else { p -> c } }
    c.y -> d
    c.z -> kernel
    d.y -> wire
    d.z -> kernel
}
",
    );
    let Some(sum) = compare(&path, &[], hostile(2_000)) else { return };
    assert!(sum.sent > 100 && sum.counted > 10, "{sum:?}");
}

/// A handler that cannot be placed is named, with its line.
#[test]
fn obstacles_have_codes_and_lines() {
    let folder = Folder::new("xdp-obstacles");
    let of = |body: &str, rest: &str| {
        let text = format!("app no {{\n    port wire = nic(\"eth0\")\n    {rest}\n    on wire(p) {{ {body} }}\n}}\n");
        let (m, all) = placed(&module(written(&folder, &text)), &[]);
        obstacles(&m, all[0].0).iter().map(|o| (o.code, o.span.line)).collect::<Vec<_>>()
    };
    assert_eq!(of("p -> kernel", ""), []);
    assert_eq!(of("log \"x\"", ""), []);
    assert_eq!(of("log p.payload", "")[0], ("E0670", 4));
    assert_eq!(of("p.payload = \"x\"  p -> kernel", ""), []);
    assert_eq!(of("p.payload = sha1(p.payload)  p -> kernel", "")[0], ("E0670", 4));
    assert_eq!(of("n += 1", "state n: u64\n every 1s { n = 0 }")[0], ("E0672", 5));
    assert_eq!(of("p -> kernel  p -> wire", "")[0], ("E0673", 4));
    let go = "fn go(p: packet) { if not p.vlan { p -> wire  return }  p -> kernel }";
    assert_eq!(of("go(p)", go), []);
    assert_eq!(of("go(p)  p -> wire", go), [("E0673", 4)]);
    assert_eq!(of("t[1] = \"a\"", "table t: u8 -> bytes<9> { capacity 9 }"), []);
    assert_eq!(of("t[1] = \"a\"", "table t: u8 -> bytes<4096> { capacity 9 }")[0], ("E0671", 4));
    assert_eq!(of("t[1] = \"a\"", "table t: array u32 -> bytes<9> { capacity 9 }")[0], ("E0671", 4));
    assert_eq!(of("t[1] = some(\"a\")", "table t: u8 -> bytes<9>? { capacity 9 }")[0], ("E0671", 4));
}

/// A queue is called one, and its handler is not told to leave `on xdp` out.
#[test]
fn explain_knows_queues() {
    let folder = Folder::new("xdp-queues-explained");
    let text = "app two {\n    port wire = nic(\"eth0\")\n    queue hard { depth 4 }\n    \
                on wire(p) { p -> hard }\n    on hard(p) { drop p }\n}\n";
    let path = written(&folder, text).display().to_string();
    let told = Wireloom::command(&["explain", &path, "--place", "xdp"]);
    let queue = "`hard` is a queue: XDP runs at a port `nic(…)` [E0674]; the CPU handles its packets";
    assert!(told.code == Some(0) && told.text.contains(queue), "{}", told.text);
    let none = Wireloom::command(&["explain", "apps/static_web.loom", "--place", "xdp"]);
    assert!(none.text.contains("no handler of packets"), "{}", none.text);
}

#[test]
fn explain_says_how_tables_are_shared() {
    let shown = |app: &Path| {
        let told = Wireloom::command(&["explain", &app.display().to_string(), "--place", "xdp"]);
        assert_eq!(told.code, Some(0), "{}", told.text);
        told.text
    };
    let one = shown(&root().join("bench/xdp/flows_1k.loom"));
    assert!(one.contains("table flows: no locks behind one receiving queue"), "{one}");
    let two = shown(&app("xdp_kv_cache"));
    assert!(two.contains("table hot: a lock at each change"), "{two}");
    let read = shown(&app("xdp_firewall"));
    assert!(read.contains("table networks: no locks: packets only read it"), "{read}");
}

/// A program of which only the rights to load it matter.
fn probe() -> wireloom_xdp::XdpSource {
    let folder = Folder::new("xdp-probe");
    let path = written(&folder, "app probe {\n    port wire = nic(\"eth0\")\n    on wire(p) { p -> kernel }\n}\n");
    let (m, all) = placed(&module(path), &[]);
    emit(&m, &[all[0].0], &|_| 1).expect("a handler of frames")
}
