//! Whole programs at random: handlers of packets, of services and of timers with nested control
//! flow. They have states with bytes that are assigned from themselves, tables of all kinds,
//! updates, queues, header edits, and elements wired together.
//!
//! In: a seed. Out: the parts of an app. [`app`] joins the parts of several programs, so that one
//! run of a C compiler serves many. Programs of [`Kind::Hook`] run on each device, where
//! [`placed_app`] puts their segments. Each has names of its own (`p7_…`). Programs are well typed
//! by construction as far as that is simple; the checker refuses some of the rest.

mod accepted;
mod exprs;
mod hook;
mod packets;
mod services;
mod stmts;

pub use accepted::{accepted, Features};
use std::fmt::Write;
use wireloom_interp::generate::Rng;

/// Types that programs use. Types with several parts of bytes make aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I32,
    Ip4,
    Bytes,
    Text,
    MaybeU32,
    MaybeBytes,
    Two,
    MaybeTwo,
    Tuple,
    List,
    Numbers,
    Nest,
}

/// Types of states, variables and values of tables.
const STORED: [Ty; 16] = [
    Ty::Bool,
    Ty::U8,
    Ty::U16,
    Ty::U32,
    Ty::U64,
    Ty::I32,
    Ty::Bytes,
    Ty::MaybeU32,
    Ty::MaybeBytes,
    Ty::Two,
    Ty::MaybeTwo,
    Ty::Tuple,
    Ty::List,
    Ty::Numbers,
    Ty::Nest,
    Ty::Two,
];

impl Ty {
    fn text(self) -> &'static str {
        match self {
            Ty::Bool => "bool",
            Ty::U8 => "u8",
            Ty::U16 => "u16",
            Ty::U32 => "u32",
            Ty::U64 => "u64",
            Ty::I32 => "i32",
            Ty::Ip4 => "ip4",
            Ty::Bytes => "bytes<16>",
            Ty::Text => "bytes<64>",
            Ty::MaybeU32 => "u32?",
            Ty::MaybeBytes => "bytes<16>?",
            Ty::Two => "Two",
            Ty::MaybeTwo => "Two?",
            Ty::Tuple => "(bytes<16>, bytes<16>)",
            Ty::List => "list<bytes<16>, 4>",
            Ty::Numbers => "list<u32, 4>",
            Ty::Nest => "Nest",
        }
    }
}

/// Items that all programs of a file share.
const ITEMS: &str = "\
record Two { a: bytes<16>  b: bytes<16>  n: u32 }
record Nest { t: Two  o: bytes<16>?  l: list<bytes<16>, 4>  k: u64 }
fn cut(b: bytes<64>) -> bytes<16> = slice(b, 0, 16)
fn swapped(t: Two) -> Two = Two { a: t.b, b: t.a, n: t.n + 1 }
fn longer(a: bytes<16>, b: bytes<16>) -> bytes<16> { if len(a) > len(b) { return a }  b }
fn most(l: list<u32, 4>) -> u32 { var n: u32 = 0  for x in l { if x > n { n = x } }  n }
fault mine
";

/// The state of packets, which all programs of a file share.
const PACKET_ITEMS: &str = "\
element Fields {
    in  x: packet
    out y: packet
    state of packet { f0: u32 = 5, f1: u64 = 1, f2: bool = false, f3: ip4 = 10.0.0.9, f4: u16 = 9, f5: i32 = -3 }
    on x(p) { p -> y }
}
";

/// Names these fields.
const FIELDS: &str = "state of packet { Fields.f0, Fields.f1, Fields.f2, Fields.f3, Fields.f4, Fields.f5 }\n";

const SERVICE_ITEMS: &str = "\
unit Ask { op: bytes<16> until \" \"  n: decimal<u32> until \" \"  data: bytes<16> until \"\\n\" }
unit Say { text: bytes<64> until \"\\n\" }
protocol chat {
    request Ask
    response Say
    sharing pipelined
    stateless
    no_reply when request.op == \"hush\" and request.n > 3
    repeat when request.n < 9 or request.data == \"\"
    on fault(f) { reply Say { text: \"fault\" } then close }
}
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Packets,
    Service,
    /// Packets that the XDP hook can handle, and segments behind it.
    Hook,
}

#[derive(Clone, Debug)]
enum TableKind {
    Exact,
    Array,
    /// Exact or an array, `per_core`: packets add to entries.
    Sums,
    Ring,
    Bloom,
    CountMin,
    HyperLogLog,
    Wildcard,
    Lpm,
}

#[derive(Clone, Debug)]
struct Table {
    name: String,
    kind: TableKind,
    key: Ty,
    value: Ty,
}

#[derive(Clone, Debug)]
struct Var {
    name: String,
    ty: Ty,
    mutable: bool,
}

/// One program, as the parts of an app.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// In front of the app.
    pub items: String,
    /// In the app.
    pub members: String,
    /// Of [`Kind::Hook`]: in the segment that reads the ports, and in the one behind it.
    pub front: String,
    pub back: String,
}

impl Parts {
    pub fn has(&self, text: &str) -> bool {
        [&self.items, &self.members, &self.front, &self.back].iter().any(|part| part.contains(text))
    }
}

/// Makes one program.
pub(crate) struct Make {
    rng: Rng,
    /// Begins its names.
    prefix: String,
    vars: Vec<Var>,
    states: Vec<Var>,
    counters: Vec<String>,
    tables: Vec<Table>,
    queues: Vec<String>,
    limiters: Vec<String>,
    /// Where packets may go: ports and instances.
    ways: Vec<String>,
    /// Instances that are started, stopped and reset.
    controlled: Vec<String>,
    /// The current packet, and headers known to be there.
    packet: bool,
    headers: Vec<&'static str>,
    /// The current request, and the form of its answer.
    service: bool,
    next: usize,
    /// No packet is changed.
    still: bool,
    /// Inside of `update`: no tables, no output.
    held: bool,
    loops: u32,
    /// Statements and types are those of the XDP hook.
    hook: bool,
    /// A timer beside the hook is made.
    beside: bool,
    /// Headers that have been put in.
    inserted: u32,
}

impl Make {
    fn new(seed: u64, n: usize) -> Make {
        Make {
            rng: Rng::new(seed),
            prefix: format!("p{n}"),
            vars: vec![],
            states: vec![],
            counters: vec![],
            tables: vec![],
            queues: vec![],
            limiters: vec![],
            ways: vec![],
            controlled: vec![],
            packet: false,
            headers: vec![],
            service: false,
            next: 0,
            still: false,
            held: false,
            loops: 0,
            hook: false,
            beside: false,
            inserted: 0,
        }
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.rng.below(list.len() as u64) as usize]
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    fn name(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{}_{what}{}", self.prefix, self.next)
    }

    /// States, counters and tables.
    fn state_members(&mut self, kind: Kind) -> String {
        let mut out = String::new();
        for _ in 0..2 + self.below(3) {
            let (name, ty) = (self.name("s"), self.state_type());
            let init = if self.rng.chance(50) { format!(" = {}", self.literal(ty)) } else { String::new() };
            let session = kind == Kind::Service && self.rng.chance(40);
            let _ = if session {
                writeln!(out, "    session {name}: {}", ty.text())
            } else {
                writeln!(out, "    state {name}: {}{init}", ty.text())
            };
            self.states.push(Var { name, ty, mutable: true });
        }
        for _ in 0..1 + self.below(2) {
            let name = self.name("c");
            let _ = writeln!(out, "    counter {name}");
            self.counters.push(name);
        }
        for _ in 0..self.below(4) {
            self.table(&mut out)
        }
        out
    }

    fn table(&mut self, out: &mut String) {
        if self.hook {
            return self.hook_table(out);
        }
        let name = self.name("t");
        let key = self.pick(&[Ty::U32, Ty::U16, Ty::Ip4, Ty::Bytes, Ty::U64]);
        let value =
            if self.rng.chance(40) { self.pick(&[Ty::Two, Ty::Nest, Ty::U32, Ty::U64]) } else { self.pick(&STORED) };
        let capacity = self.pick(&[1, 2, 4, 8, 64, 2000]);
        let idle = if self.rng.chance(30) { " idle 10s" } else { "" };
        let full = self.pick(&["", " evict lru", " evict lru", " reject"]);
        // Larger tables evict from a part of the table.
        let memory =
            if capacity < 1024 { self.pick(&["", "", " memory 128", " memory 400", " memory 2K"]) } else { "" };
        let (kind, text) = match self.below(14) {
            0 | 1 => (TableKind::Array, format!("array u32 -> {} {{ capacity {capacity} }}", value.text())),
            2 | 3 => (TableKind::Ring, format!("ring {} {{ capacity {} }}", value.text(), capacity.min(8))),
            4 => (TableKind::Bloom, format!("bloom {} {{ capacity 1000 }}", fixed(key).text())),
            5 => (TableKind::CountMin, format!("count_min {} -> u64 {{ capacity 1000 }}", fixed(key).text())),
            6 => (TableKind::HyperLogLog, format!("hyper_log_log {}", key.text())),
            7 => (TableKind::Wildcard, format!("wildcard u32 -> {} {{ capacity 8 }}", value.text())),
            8 => (TableKind::Lpm, format!("lpm ip4 -> {} {{ capacity 8 }}", value.text())),
            _ => {
                let options = format!("capacity {capacity}{idle}{memory}{full}");
                (TableKind::Exact, format!("{} -> {} {{ {options} }}", key.text(), value.text()))
            }
        };
        let (key, value) = match kind {
            TableKind::Bloom => (fixed(key), Ty::Bool),
            TableKind::CountMin => (fixed(key), Ty::U64),
            TableKind::Array | TableKind::Ring | TableKind::Wildcard => (Ty::U32, value),
            TableKind::Lpm => (Ty::Ip4, value),
            _ => (key, value),
        };
        let _ = writeln!(out, "    table {name}: {text}");
        self.tables.push(Table { name, kind, key, value });
    }
}

/// Sketches take keys of a fixed size.
fn fixed(key: Ty) -> Ty {
    if key == Ty::Bytes {
        Ty::U32
    } else {
        key
    }
}

/// A program by its seed; its names have its number.
pub fn program(kind: Kind, seed: u64, n: usize) -> Parts {
    let mut m = Make::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed, n);
    match kind {
        Kind::Packets => m.packet_program(),
        Kind::Service => m.service_program(),
        Kind::Hook => m.hook_program(),
    }
}

/// Parts of the language that programs are to use, each with a text that only it has in them.
const FEATURES: [(Kind, &str, &str); 87] = {
    use Kind::{Hook as H, Packets as P, Service as S};
    [
        (P, "array", ": array u32"),
        (P, "ring", ": ring "),
        (P, "bloom", ": bloom "),
        (P, "count_min", ": count_min "),
        (P, "hyper_log_log", ": hyper_log_log "),
        (P, "wildcard", ": wildcard "),
        (P, "lpm", ": lpm "),
        (P, "idle", " idle 10s"),
        (P, "evict lru", " evict lru"),
        (P, "reject", " reject }"),
        (P, "memory", " memory "),
        (P, "limiter", "limiter "),
        (P, "update", "update "),
        (P, "queue", "queue "),
        (P, "pop", ".pop()"),
        (P, "discard", ".discard()"),
        (P, "handler of a queue", "// waited"),
        (P, "element", "element "),
        (P, "match of packets", "match { .udp"),
        (P, "filter", "where .len"),
        (P, "filter of several", "all(.ip4"),
        (P, "array of ways in", " in x: packet [3]"),
        (P, "given function", "// given"),
        (P, "type parameter", "<T: type>"),
        (P, "controls", "signal start"),
        (P, "reset", ".reset()"),
        (P, "timer", "every "),
        (P, "insert", "insert Vlan"),
        (P, "insert before", "before p.ip4"),
        (P, "remove", "remove p."),
        (P, "payload", "p.payload = "),
        (P, "header set", "p.ip4.ttl = "),
        (P, "built frame", "[Ethernet {"),
        (P, "state of packets", "// state set"),
        (P, "state added to", "// state added"),
        (P, "state that is read", "\"state \""),
        (P, "behind a queue state only", "// state only"),
        (P, "behind a queue headers only", "// headers only"),
        (P, "drop", "drop p"),
        (P, "own fault", "fault mine"),
        (P, "loop max", "loop max"),
        (P, "for", "for "),
        (P, "match", "match "),
        (S, "session", "session "),
        (S, "call", "call back["),
        (S, "call in a branch", "// branch"),
        (S, "call in a loop", "// loop"),
        (S, "call in a match", "// match"),
        (S, "call all", "call all back(req)"),
        (S, "call all for", "call all for "),
        (S, "within", "within 50ms"),
        (S, "edited request", "req with"),
        (S, "edited answer", " with { text: upper("),
        (S, "own fault", "fault mine"),
        (S, "passed on", "reply call"),
        (S, "wiring", "=> steer back"),
        (S, "tee", "tee(back"),
        (S, "elements", "// service elements"),
        (H, "array", ": array u32"),
        (H, "ring", ": ring "),
        (H, "bloom", ": bloom "),
        (H, "count_min", ": count_min "),
        (H, "hyper_log_log", ": hyper_log_log "),
        (H, "wildcard", ": wildcard "),
        (H, "lpm", ": lpm "),
        (H, "entries per core", " per_core }"),
        (H, "idle", " idle 10s"),
        (H, "evict lru", " evict lru"),
        (H, "reject", " reject }"),
        (H, "limiter", "limiter "),
        (H, "update", "update "),
        (H, "queue", "queue "),
        (H, "queue of several", "instances 3"),
        (H, "queue that is wired", "// wired"),
        (H, "handler of a queue", "// waited"),
        (H, "state only", "// state only"),
        (H, "headers only", "// headers only"),
        (H, "element", "element "),
        (H, "timer beside the hook", "// beside"),
        (H, "insert", "insert Vlan"),
        (H, "insert before", "before p.ip4"),
        (H, "payload", "p.payload = "),
        (H, "header set", "p.ip4.ttl = "),
        (H, "state of packets", "// state set"),
        (H, "own fault", "fault mine"),
        (H, "loop max", "loop max"),
        (H, "match", "match "),
    ]
};

/// Some programs as one app.
pub fn app(kind: Kind, programs: &[Parts]) -> String {
    let items: String = programs.iter().map(|p| p.items.as_str()).collect();
    let members: String = programs.iter().map(|p| p.members.as_str()).collect();
    match kind {
        Kind::Packets => format!("{ITEMS}{PACKET_ITEMS}{items}app generated {{\n    {FIELDS}    port o0 = memory(\"o0\"), o1 = memory(\"o1\")\n{members}}}\n"),
        Kind::Hook => placed_app(programs, "xdp", "cpu(0)"),
        Kind::Service => format!("{ITEMS}{SERVICE_ITEMS}{items}app generated {{\n    param servers: list<endpoint, 4>\n    port back = connect tcp(servers) as chat\n{members}}}\n"),
    }
}

/// Programs of [`Kind::Hook`] as one app, with its two segments on devices.
pub fn placed_app(programs: &[Parts], front: &str, back: &str) -> String {
    let all = |part: fn(&Parts) -> &str| programs.iter().map(part).collect::<String>();
    let (items, members) = (all(|p| &p.items), all(|p| &p.members));
    let (first, second) = (all(|p| &p.front), all(|p| &p.back));
    let ports = FRONT_PORTS.iter().chain(&BACK_PORTS).map(|p| format!("{p} = memory(\"{p}\")"));
    let ports = ports.collect::<Vec<_>>().join(", ");
    format!(
        "{ITEMS}{PACKET_ITEMS}{items}app generated {{\n    {FIELDS}    port {ports}\n{members}segment front on {front} {{\n{first}}}\nsegment back on {back} {{\n{second}}}\n}}\n"
    )
}

/// Ports of [`Kind::Hook`]: those that the first segment sends to, and the second one.
pub const FRONT_PORTS: [&str; 2] = ["o0", "o1"];
pub const BACK_PORTS: [&str; 2] = ["b0", "b1"];
