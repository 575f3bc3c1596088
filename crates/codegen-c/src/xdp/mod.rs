//! The dialect for the kernel's XDP hook: handlers of frames as BPF programs.
//!
//! In: a module, and the handlers that [`wireloom_ir::placement`] has placed there. Out:
//! [`XdpSource`], one C file for `clang -target bpf`, with a program for each handler: they share
//! tables and counters. Expressions, statements and the walk over the
//! headers are printed by the same code as for the CPU; `support/bpf.h` gives their functions
//! another body. What differs stands here:
//!
//! - a header's first byte is a packet pointer with a masked offset, tested at its use;
//! - at each join of the walk the numbers are made unknown to the verifier, which would otherwise
//!   follow each way to the end by itself;
//! - a frame's fate is the program's result.

mod body_state;
pub(crate) mod bytes;
mod edit;
mod far;
mod far_room;
mod framed_parts;
mod frames;
mod fronts;
mod functions;
mod line_parts;
mod lines;
mod params;
mod parts;
mod scratch;
mod second_copy;
mod table;
pub mod table_kinds;
pub mod tables;
mod wide;

pub use body_state::Target;
pub(crate) use body_state::XdpBody;
pub(crate) use far_room::Far;
pub use line_parts::{LinePart, LINES_BYTES};
pub use params::PARAM_WORDS;
pub(crate) use scratch::Scratch;
pub use table::XdpTable;

use crate::body::{BodyGen, Owner};
use crate::gen::{self, Gen};
use crate::names;
use crate::parser::line;
use body_state::Ways;
use far_room::{bytes_of, FarOwner};
use serde::{Deserialize, Serialize};
use wireloom_ir::*;

/// The headers that generated programs include: name and text.
pub const HEADERS: [(&str, &str); 7] = [
    ("bpf.h", include_str!("../../../../support/bpf.h")),
    ("bpf_activation.h", include_str!("../../../../support/bpf_activation.h")),
    ("bpf_bytes.h", include_str!("../../../../support/bpf_bytes.h")),
    ("bpf_front.h", include_str!("../../../../support/bpf_front.h")),
    ("bpf_lengths.h", include_str!("../../../../support/bpf_lengths.h")),
    ("bpf_redirects.h", include_str!("../../../../support/bpf_redirects.h")),
    ("bpf_tables.h", include_str!("../../../../support/bpf_tables.h")),
];

/// Generated programs for the XDP hook.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct XdpSource {
    /// One for each handler.
    pub programs: Vec<XdpProgram>,
    /// Compiled programs go without it.
    #[serde(skip)]
    pub text: String,
    /// The same with locals in memory: these programs need least of the stack and the verifier.
    #[serde(skip)]
    pub far_text: String,
    /// These also have rounds of loops as functions of their own.
    #[serde(skip)]
    pub apart_text: String,
    /// Counters of the app, and kinds of faults, in the state of each processor.
    pub counters: usize,
    pub faults: usize,
    /// Places of faults.
    pub places: usize,
    pub tables: Vec<XdpTable>,
    /// Bytes of the app's states and of places of headers, at most, in the state of a processor.
    pub state_bytes: usize,
    /// The programs read the time.
    pub timed: bool,
    /// Bytes of a processor's scratch; 0: the programs have none.
    pub scratch_bytes: usize,
    /// Lines of the log, by number.
    pub lines: Vec<Vec<LinePart>>,
    /// Handlers have a second copy, for the most common headers.
    pub has_copies: bool,
    /// The programs have loops, or long entries of queues, for which the kernel must be newer.
    pub looped: bool,
    /// Interfaces that frames are redirected to, by their place in the map `wl_ports`: port and
    /// instance.
    pub ports: Vec<(PortId, u32)>,
    /// Ports to all of whose interfaces frames are sent, each with a map of its own.
    pub broadcasts: Vec<PortId>,
    /// Parameters that the loader sets, those whose values are not in the text, and their words.
    pub params: Vec<(ParamId, usize)>,
    /// Where the process sends the frames that it gets. `None`: a note in front of each frame says
    /// it. Without programs that give it frames it means nothing.
    pub target: Option<Target>,
    /// Notes have the length of a frame, and an entry of so many bytes, too. With a `target` only
    /// frames of at least [`LONG`] bytes have notes then.
    pub entry: Option<u32>,
}

/// Queues of an interface whose frames the process can get: `WL_QUEUES` of `support/bpf.h`.
pub const QUEUES: u32 = 256;
/// Bytes of a note in front of a frame, without length and entry.
pub const NOTE: usize = 8;
/// Bytes that a frame's handling may make: `WL_ROOM` of `support/bpf_bytes.h`.
const ROOM: usize = 32768;
/// Frames of fewer bytes are not cut: `WL_LONG` of `support/bpf.h`.
pub const LONG: u32 = 256;

/// A handler's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpProgram {
    pub handler: HandlerId,
    pub port: PortId,
    /// In the kernel: that of the port, cut to what the kernel allows.
    pub name: String,
    /// Instances of the port.
    pub instances: u32,
    /// It gives frames to the process, by a map of sockets.
    pub gives: bool,
    /// It may give parts of them by a ring, too.
    pub ringed: bool,
    /// It sends frames out of interfaces, or changes them: checksums must be whole.
    pub finished: bool,
}

impl XdpProgram {
    /// The map of sockets: [`QUEUES`] for each instance.
    pub fn sockets(&self) -> String {
        format!("wl_sockets_{}", self.handler.0)
    }

    /// The map of its ring, of [`RING`] bytes.
    pub fn ring(&self) -> String {
        format!("wl_ring_{}", self.handler.0)
    }

    /// The constant with the numbers of the port's interfaces, where there are several.
    pub fn interfaces(&self) -> Option<String> {
        (self.instances > 1).then(|| format!("wl_at_{}", self.port.0))
    }
}

impl XdpSource {
    /// The names of all programs: those for frames first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let changes = self.tables.iter().filter_map(|t| t.program.as_deref());
        self.programs.iter().map(|p| p.name.as_str()).chain(changes)
    }

    /// Programs send frames to other interfaces than the one that these came from.
    pub fn redirects(&self) -> bool {
        !self.ports.is_empty() || !self.broadcasts.is_empty()
    }

    /// The map of all interfaces of a port.
    pub fn broadcast_map(port: PortId) -> String {
        format!("wl_all_{}", port.0)
    }

    /// The constant with the value of a parameter.
    pub fn param(p: ParamId) -> String {
        format!("wl_param_{}", p.0)
    }
}

/// Makes the programs of handlers. `instances`: of a port. `None`: one is no handler of frames.
pub fn emit(m: &Module, handlers: &[HandlerId], instances: &dyn Fn(PortId) -> u32) -> Option<XdpSource> {
    let (source, io) = emit_text(m, handlers, instances, None)?;
    let far = |apart| emit_text(m, handlers, instances, Some((io, apart))).map(|made| made.0.text);
    Some(XdpSource { far_text: far(false)?, apart_text: far(true)?, ..source })
}

/// `far`: locals lie in memory. Parts share so many bytes with their callers as they do without it.
/// The flag: rounds of loops are parts, too. All but the text is equal. The result has these bytes,
/// too.
fn emit_text(
    m: &Module,
    handlers: &[HandlerId],
    instances: &dyn Fn(PortId) -> u32,
    far: Option<(usize, bool)>,
) -> Option<(XdpSource, usize)> {
    let mut g = Gen::new(m);
    (g.xdp, g.lines) = (true, true);
    (g.xdp_far.on, (g.xdp_io, g.xdp_far.apart)) = (far.is_some(), far.unwrap_or_default());
    g.instances = m.ports.iter().enumerate().map(|(n, _)| instances(PortId(n as u32)).max(1)).collect();
    g.plan_frames();
    let mut programs = programs(&g, handlers)?;
    let bodies: Vec<&Body> = handlers.iter().map(|h| &m.handlers[h.index()].body).collect();
    let called = functions::reached(m, &bodies);
    let blocks: Vec<&Block> = bodies.iter().copied().chain(called.iter().map(|f| f.1)).map(|b| &b.block).collect();
    let tables = g.xdp_tables(&blocks);
    let functions = g.xdp_functions(&called);
    let mut ways = Ways::default();
    let mut code = String::new();
    for p in &mut programs {
        code.push_str(&g.xdp_handler(p, &mut ways, &functions, &tables));
    }
    let used = if moves(&bodies) { None } else { Some([&*code, &*functions, &*g.helpers].concat()) };
    let mut walks = String::new();
    for p in &programs {
        let On::Frame { unit, .. } = m.handlers[p.handler.index()].on else { return None };
        if g.first(&format!("walk {}", unit.0)) {
            walks.push_str(&g.xdp_walk(unit, used.as_deref())?)
        }
    }
    let state = g.xdp_state(&tables);
    let scratch =
        has_bytes(&[&g.types, &g.helpers, &functions, &code]).then_some((g.scratch.first, g.scratch.wide.max(1)));
    let of_scratch = |(first, wide)| format!("#define WL_BYTES\n#define WL_LITERALS {first}\n#define WL_WIDE {wide}\n");
    let faults = WORDS_OF_FAULTS.max(FaultKind::USER as usize + m.faults.len());
    let places = m.places.len().max(1);
    let target = if ways.process.len() == 1 { ways.process.first().copied().flatten() } else { None };
    let has_copies = code.contains("WL_FRAME_NEAR(");
    let head = format!(
        "/* {} : generated by Wireloom for the XDP hook; do not edit. */\n#define WL_LAYERS {}\n#define WL_SLOTS {}\n\
         #define WL_FAULTS {faults}\n#define WL_KINDS {faults}\n#define WL_PLACES {places}\n#define WL_PORTS {}\n#define WL_NOTED {}\n#define WL_ENTRY_WORDS {}\n#define WL_FILTERS {}\n#define WL_MARKS {}\n{}{}#include \"bpf.h\"\n\n\
         #pragma clang diagnostic ignored \"-Wunused-label\"\n#pragma clang diagnostic ignored \"-Wunused-function\"\n\
         #pragma clang diagnostic ignored \"-Wunused-variable\"\n#pragma clang diagnostic ignored \"-Wunused-but-set-variable\"\n\n",
        names::comment(&m.app),
        g.frames.layers.max(1),
        (2 * g.frames.slot_layers.len()).max(1),
        ways.ports.len().max(1),
        noted(target, ways.entry),
        ways.entry.unwrap_or(0) / 8,
        u8::from(bodies.iter().any(|b| gives_away(m, &b.block))),
        u8::from(has_copies),
        if far.is_some() { "#define WL_FAR\n" } else { "" },
        scratch.map(of_scratch).unwrap_or_default(),
    );
    let changes: String = tables.iter().map(|t| tables::xdp_changes(m, t)).collect();
    let unsent = match ways.ports.is_empty() && ways.broadcasts.is_empty() {
        true => String::new(),
        false => format!("#include \"bpf_redirects.h\"\nWL_COUNT_UNSENT({})\n", 1 + ways.broadcasts.len()),
    };
    let fronts = fronts::fronts(&programs);
    let all = [&functions, &code];
    let timed = all.iter().any(|t| t.contains("x->core->")) || tables.iter().any(|t| t.stamped);
    let looped = scratch.is_some()
        || all.iter().any(|t| t.contains("WL_ROUND("))
        || tables.iter().any(|t| t.kind == TableKind::Wildcard)
        // More than 32 bytes in front of a frame.
        || ways.entry.is_some_and(|n| n > 16);
    let maps = g.xdp_maps(&programs, &ways);
    let text: String = [
        head,
        g.types.clone(),
        state,
        maps,
        g.data.clone(),
        "#include \"bpf_front.h\"".to_string(),
        g.helpers.clone(),
        functions,
        walks,
        code,
        changes,
        fronts,
        unsent,
    ]
    .join("\n");
    let source = XdpSource {
        programs,
        lines: std::mem::take(&mut g.xdp_lines),
        has_copies,
        text: gen::indent(&text),
        far_text: String::new(),
        apart_text: String::new(),
        counters: m.counters.len(),
        faults,
        places,
        tables,
        state_bytes: g.xdp_state_bytes() + g.xdp_places_bytes() + g.xdp_frame_bytes(ways.entry),
        timed,
        looped,
        scratch_bytes: scratch.map_or(0, |(_, wide)| 4 * ROOM + 8 * wide),
        ports: ways.ports,
        broadcasts: ways.broadcasts,
        params: g.xdp_params_of(),
        target,
        entry: ways.entry,
    };
    Some((source, g.xdp_io))
}

/// Which frames have notes: `WL_NOTED` of `support/bpf.h`.
fn noted(target: Option<Target>, entry: Option<u32>) -> u8 {
    match (target, entry) {
        (Some(_), None) => 0,
        (None, None) => 1,
        (Some(_), Some(_)) => 2,
        (None, Some(_)) => 3,
    }
}

/// The place of a header that a line notes.
fn place_of(line: &str) -> Option<&str> {
    let (place, _) = line.strip_prefix("v")?.split_once(" = ")?;
    (place.starts_with("->") && place.ends_with(']')).then_some(place)
}

/// The walk with its notes of places in memory, too.
fn kept(walk: &str) -> String {
    let noted = |line: &str| match place_of(line) {
        Some(place) => line.replacen(" = ", &format!(" = in{place} = "), 1),
        None => line.to_string(),
    };
    walk.split_inclusive('\n').map(noted).collect()
}

/// A walk without the notes of places that nothing reads: `used` has all other code.
fn without_notes(walk: &str, used: Option<&str>) -> String {
    let Some(used) = used else { return walk.to_string() };
    let reads = |place: &str| used.contains(place) || walk.matches(place).count() > 1;
    let is_kept = |line: &&str| place_of(line).is_none_or(reads);
    walk.split_inclusive('\n').filter(is_kept).collect()
}

/// Whether texts have text or bytes.
fn has_bytes(texts: &[&String]) -> bool {
    let signs = ["wl_bytes", "wl_b(", "wl_literal(", "wl_of_frame(", "wl_begin("];
    texts.iter().any(|t| signs.iter().any(|s| t.contains(s)))
}

/// Whether a handler is a filter: it gives frames to the handler that it is the filter of.
fn gives_away(m: &Module, block: &Block) -> bool {
    let mut gives = false;
    walk::stmts(block, &mut |s| {
        let StmtKind::Frame { act: FrameAct::Send { port, .. }, .. } = &s.kind else { return };
        gives |= placement::is_process(m, *port)
    });
    gives
}

/// The code behind the walk, for a fault, and behind all ways. A filter gives frames with faults to
/// the process.
fn ends(p: &XdpProgram, filter: bool, view: &str) -> (String, &'static str, String) {
    let wrong = match filter {
        true => format!("if (WL_UNLIKELY(WL_HAS({view}, WL_WRONG))) goto fault;\n"),
        false => String::new(),
    };
    let faulty = match filter {
        true => "WL_X(x)->note = WL_OWN;\nWL_X(x)->keep = 0;\nfate = WL_PROCESS;\n",
        false => "wl_count_fault(x, WL_X(x)->fault, WL_X(x)->place);\nfate = XDP_DROP;\n",
    };
    let gives = match (p.gives, p.ringed) {
        (true, true) => {
            format!("if (fate == WL_PROCESS) fate = wl_ring_or_socket(x, {}, {});\n", p.sockets(), p.ring())
        }
        (true, false) => format!("if (fate == WL_PROCESS) fate = wl_to_process(x, {});\n", p.sockets()),
        (false, _) => String::new(),
    };
    (wrong, faulty, gives)
}

/// Whether bodies put headers or payloads in, or take them out: the places of all headers change.
fn moves(bodies: &[&Body]) -> bool {
    let mut found = false;
    for b in bodies {
        walk::stmts(&b.block, &mut |s| {
            let StmtKind::Frame { act, .. } = &s.kind else { return };
            found |= matches!(act, FrameAct::Insert { .. } | FrameAct::Remove { .. } | FrameAct::Payload { .. })
        })
    }
    found
}

/// The programs of handlers, with names that differ.
fn programs(g: &Gen, handlers: &[HandlerId]) -> Option<Vec<XdpProgram>> {
    let mut all: Vec<XdpProgram> = Vec::new();
    for h in handlers {
        let On::Frame { port, .. } = g.m.handlers[h.index()].on else { return None };
        let full = names::ident(&g.m.ports[port.index()].name);
        let mut name: String = full.chars().take(15).collect();
        if all.iter().any(|p| p.name == name) {
            name = format!("{}_{}", full.chars().take(10).collect::<String>(), h.0 % 1000);
        }
        all.push(XdpProgram {
            handler: *h,
            port,
            name,
            instances: g.instances[port.index()],
            gives: false,
            ringed: false,
            finished: false,
        });
    }
    Some(all)
}

/// Faults of the language, and more than most programs add.
const WORDS_OF_FAULTS: usize = 64;

/// Words at the beginning of a processor's state: frames by fate.
pub const FATES: usize = 8;
/// The word behind them: whether no other processor can be at a table.
pub const ALONE: usize = FATES;
/// The next one: whether parts of frames go through rings.
pub const RINGED: usize = ALONE + 1;
/// Then lines of the log that found no room.
pub const LOST: usize = RINGED + 1;
/// Then whether no other processor, and not the process, can be at this one's part of tables.
pub const MINE: usize = LOST + 1;
/// Then the number of that part.
pub const PART: usize = MINE + 1;
/// Then frames that another interface has not taken, by four reasons: `support/bpf_redirects.h`.
/// Behind them a word of `support/bpf_front.h`.
pub const UNSENT: usize = PART + 1;
/// The first word of counters.
pub const COUNTERS: usize = UNSENT + 5;
/// Bytes of a ring for parts of frames.
pub const RING: u32 = 2 << 20;
/// Words of a table's statistics in a processor's state: hits, misses, inserts, evictions, expired,
/// rejected.
pub const STATISTICS: usize = 8;
/// Of them, of a ring: the number of values that the process keeps itself (`WL_HELD`).
pub const HELD: usize = 6;

impl<'m> Gen<'m> {
    /// The code at a join of ways through the headers.
    pub(crate) fn join_of_ways(&self) -> &'static str {
        if self.xdp {
            "WL_JOIN;\n"
        } else {
            ""
        }
    }

    /// The first byte of the header that is looked at.
    pub(crate) fn header_begin(&self) -> &'static str {
        if self.xdp {
            "v->p + (at & WL_AT); WL_KEEP(h)"
        } else {
            "v->p + at"
        }
    }

    /// Whether a header of `least` bytes is cut off.
    pub(crate) fn is_short(&self, least: u32) -> String {
        if self.xdp {
            format!("left < {least} || h + {least} > x->end")
        } else {
            format!("left < {least}")
        }
    }

    /// The byte of a frame at an offset that is kept in its view.
    pub(crate) fn place_in(&self, view: &str, member: &str) -> String {
        self.place_at(view, &format!("{view}->{member}"))
    }

    pub(crate) fn place_at(&self, view: &str, offset: &str) -> String {
        if self.xdp {
            format!("{view}->p + ({offset} & WL_AT)")
        } else {
            format!("{view}->p + {offset}")
        }
    }

    /// The beginning of the names of loads: what the walk has just tested needs no second test.
    pub(crate) fn loader(&self, at: &str) -> &'static str {
        let fixed = at.strip_prefix("h + ").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        if self.xdp && (at == "h" || fixed) {
            "wl_known"
        } else {
            "wl"
        }
    }

    /// The functions that find a frame's headers. Those of the common stacks are found within the
    /// handler, all others by a function that the verifier looks at by itself. `used`: the code
    /// that reads places of headers; `None`: it reads all. Result `None`: their graph has no such
    /// form.
    fn xdp_walk(&mut self, u: UnitId, used: Option<&str>) -> Option<String> {
        let chain = self.graph(u).chain()?;
        let body = kept(&without_notes(&self.open_chain(u, &chain), used));
        let fast = self.open_common(u, &chain).map(|(body, _)| without_notes(&body, used));
        let near = self.xdp_near_walk(u, &chain).unwrap_or_default();
        let name = names::unit(self.m, u);
        let (fast, test) = match fast {
            Some(body) => (
                format!(
                    "/* Finds the headers of frames of the usual shapes; false: it is of another. */\n\
                     WL_INLINE bool {name}_fast(wl_fx *x, wl_view *v) {{\nuint8_t net = 0xff;\n(void)net;\n{body}lost:;\nreturn false;\n}}\n\n"
                ),
                format!("if (WL_UNLIKELY(!{name}_fast(x, v))) "),
            ),
            None => Default::default(),
        };
        Some(format!(
            "/* Finds the headers of a frame: {}. A header that is cut off or breaks a rule is absent, with all behind it. */\n\
             __attribute__((noinline)) uint64_t {name}_walk(struct xdp_md *ctx, uint32_t filter) {{\nWL_KEEP(filter); /* the kernel wants an argument, also if nothing uses it */\n\
             wl_fx fx = {{.ctx = ctx, .filter = filter}}, *x = &fx;\nwl_walk view, *v = &view;\nWL_FRAME(x, v);\nconst uint32_t cpu = bpf_get_smp_processor_id();\n\
             x->state = wl_state_of(cpu);\nif (!x->state) return 0;\nstruct wl_places *in = &x->state->in;\nWL_WALK_PLACES(x, v);\n\
             const wl_frame whole = {{v->n, v->n}}, *f = &whole;\n(void)f;\nuint8_t net = 0xff;\n(void)net;\nuint32_t cut = 0;\n(void)cut;\n{body}lost:;\n\
             in->end = v->end; in->top = v->top;\nreturn v->has;\n}}\n\n\
             {near}{fast}WL_INLINE void {name}_parse(wl_fx *x, wl_view *v) {{\nWL_FRAME(x, v);\nWL_NO_PLACES(x, v);\n\
             {test}{{\nv->has = {name}_walk(x->ctx, x->filter);\nv->end = x->state->in.end; v->top = x->state->in.top;\n}}\n\
             WL_JOIN_ALL(v);\n}}\n\n",
            names::comment(&self.m.unit(u).name)
        ))
    }

    /// The state of a processor.
    fn xdp_state(&mut self, tables: &[XdpTable]) -> String {
        let m = self.m;
        let states: String = m
            .states
            .iter()
            .enumerate()
            .filter(|(_, s)| placement::is_value(m, s.ty))
            .map(|(n, s)| format!("{} s_{};\n", self.cty(s.ty), names::state(m, StateId(n as u32))))
            .collect();
        let room = (self.xdp_state_bytes() / 8).max(1);
        let io: String = (0..parts::DEPTH).map(|n| format!("uint64_t io{n}[{}];\n", self.xdp_io / 8)).collect();
        format!(
            "/* Of one processor. */\nstruct app_state {{\nuint64_t fate[{FATES}]; /* frames, by what became of them */\nuint64_t alone; /* no other processor is at a table */\nuint64_t ringed; /* parts of frames go through a ring */\nuint64_t lost; /* lines of the log */\nuint64_t mine; /* nobody else is at its part of tables */\nuint64_t part;\nuint64_t unsent[4]; /* frames that an interface has not taken */\nuint64_t finished; /* the checksum of the frame, which its sender had left undone */\nuint64_t counter[{}];\n\
             uint64_t fault[WL_FAULTS];\nuint64_t table[{}][{STATISTICS}];\nuint64_t placed[WL_PLACES][WL_KINDS]; /* faults */\nstruct wl_places in;\nstruct wl_between between;\n{io}uint64_t far[{}]; /* values of one frame */\nuint64_t begun;\nunion {{\nstruct {{\n{states}}};\nuint64_t room[{}];\n}};\n}} __attribute__((aligned(64)));\n\
             _Static_assert(sizeof(struct app_state) == WL_STATE, \"the loader makes room for it\");\n",
            m.counters.len().max(1),
            tables.len().max(1),
            self.xdp_far.words(),
            room
        )
    }

    /// Bytes of the places of headers: `struct wl_places`.
    fn xdp_places_bytes(&self) -> usize {
        let (layers, slots) = (self.frames.layers.max(1), (2 * self.frames.slot_layers.len()).max(1));
        ((2 * (3 * layers + slots) + layers).next_multiple_of(4) + 8).next_multiple_of(8)
    }

    /// Bytes for the frame at hand: of parts, between them, and locals in memory.
    fn xdp_frame_bytes(&self, entry: Option<u32>) -> usize {
        parts::DEPTH * self.xdp_io + framed_parts::between_bytes(entry) + 8 * self.xdp_far.words()
    }

    /// Room for the values of all states: enough for whatever padding C puts between them.
    fn xdp_state_bytes(&self) -> usize {
        let values = self.m.states.iter().filter(|s| placement::is_value(self.m, s.ty));
        values.map(|s| bytes_of(self.m, s.ty)).sum::<usize>().max(8)
    }

    /// The maps of interfaces, and the constants that the loader sets.
    fn xdp_maps(&self, programs: &[XdpProgram], ways: &Ways) -> String {
        let mut text = String::from(
            "volatile uint64_t wl_unknown SEC(\".data\") = 0;\n\
             volatile const uint64_t wl_tick SEC(\".rodata\") = 1, wl_manual SEC(\".rodata\") = 0, wl_fronted SEC(\".rodata\") = 0;\n",
        );
        let map = |kind: &str, name: &str, n: usize| {
            format!(
                "struct {{ WL_MAP_NUMBER(type, {kind}); WL_MAP_TYPE(key, uint32_t); WL_MAP_TYPE(value, uint32_t); \
                 WL_MAP_NUMBER(max_entries, {n}); }} {name} SEC(\".maps\");\n"
            )
        };
        text.push_str(&map("BPF_MAP_TYPE_DEVMAP", "wl_ports", ways.ports.len().max(1)));
        for port in &ways.broadcasts {
            let n = self.instances[port.index()] as usize;
            text.push_str(&map("BPF_MAP_TYPE_DEVMAP", &XdpSource::broadcast_map(*port), n));
        }
        for p in programs.iter().filter(|p| p.gives) {
            text.push_str(&map("BPF_MAP_TYPE_XSKMAP", &p.sockets(), (p.instances * QUEUES) as usize));
        }
        if !self.xdp_lines.is_empty() {
            text.push_str(&format!(
                "struct {{ WL_MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF); WL_MAP_NUMBER(max_entries, {LINES_BYTES}); }} wl_lines SEC(\".maps\");\n"
            ));
        }
        for p in programs.iter().filter(|p| p.ringed) {
            text.push_str(&format!(
                "struct {{ WL_MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF); WL_MAP_NUMBER(max_entries, {RING}); }} {} SEC(\".maps\");\n",
                p.ring()
            ));
        }
        text.push_str(&self.xdp_param_places());
        let mut told = Vec::new();
        for p in programs {
            let Some(name) = p.interfaces().filter(|n| !told.contains(n)) else { continue };
            text.push_str(&format!("volatile const uint32_t {name}[{}] SEC(\".rodata\") = {{0}};\n", p.instances));
            told.push(name);
        }
        text
    }

    /// A handler's program.
    fn xdp_handler(&mut self, p: &mut XdpProgram, ways: &mut Ways, functions: &str, tables: &[XdpTable]) -> String {
        let m = self.m;
        let h = &m.handlers[p.handler.index()];
        let On::Frame { unit, .. } = h.on else { return String::new() };
        let (first, parse) = (names::local(&h.body.locals[0], 0), edit::walk_of(m, unit));
        let mut b = BodyGen::new(self, Owner::Frame, &h.body);
        (b.xdp.port, b.xdp.name, b.xdp.whole) = (Some(p.port), p.name.clone(), Some(&h.body.block));
        b.xdp.ways = std::mem::take(ways);
        let far = b.xdp_declare(1, FarOwner::Handler);
        b.g.scratch.in_line.begin();
        b.block(&h.body.block);
        b.g.scratch.in_line.end();
        let (decls, out, parts) = (b.decls, framed_parts::with_parts(&b.out, &first), far + &b.xdp.functions);
        *ways = b.xdp.ways;
        let init = self.xdp_begin();
        let uses = |what: &str| [&*out, &*decls, &*parts, functions].iter().any(|text| text.contains(what));
        let timed = uses("x->core->") || tables.iter().any(|t| t.stamped && uses(&format!("{}_", t.map)));
        let time = if timed { "x->core->now = wl_now();\n" } else { "" };
        // A second receiving queue that has come since the start.
        let alone = match tables.iter().any(XdpTable::is_locked) {
            true => "if (WL_UNLIKELY(x->state->alone && ctx->rx_queue_index)) {\nwl_count_fault(x, WL_F_OVERLOAD, 0);\nx->state->fate[XDP_DROP]++;\nreturn XDP_DROP;\n}\n",
            false => "",
        };
        p.gives = uses("fate = WL_PROCESS;");
        p.finished = ["XDP_TX", "bpf_redirect_map(", "WL_CHANGED(x)"].iter().any(|sign| uses(sign));
        let give_back = if p.finished { "WL_GIVE_BACK(x, fate);\n" } else { "" };
        // One core takes the parts of all frames: so it is in an app with segments.
        p.ringed = p.gives && !m.segments.is_empty() && m.ports.iter().any(|q| q.carries.part != FramePart::Whole);
        let filter = gives_away(m, &h.body.block);
        let (wrong, faulty, gives) = ends(p, filter, &first);
        let instance = match p.interfaces() {
            Some(name) if p.gives || uses("WL_X(x)->instance") => format!(
                "_Pragma(\"unroll\") for (uint32_t j_ = 0; j_ < {}; j_++) if ({name}[j_] == ctx->ingress_ifindex) WL_X(x)->instance = j_;\nWL_X(x)->instance ^= (uint32_t)wl_unknown;\n",
                p.instances
            ),
            _ => String::new(),
        };
        let name = &p.name;
        let on = format!(
            "WL_INLINE int {name}_on(wl_fx *x, wl_view *{first}) {{\nint fate = XDP_DROP;\nconst uint32_t mark_in = 0;\n(void)mark_in;\n(void){first};\n\
             {wrong}{decls}{out}goto done;\nlost:;\nfault:;\nfate = WL_FAULTY;\ndone:;\nreturn fate;\n}}\n\n"
        );
        let short = second_copy::is_short(&h.body.block)
            && parts.is_empty()
            && !moves(&[&h.body])
            && second_copy::is_plain(&on);
        let (copy, near) = if short { self.xdp_near(unit, (name, &first), &on) } else { None }.unwrap_or_default();
        format!(
            "{parts}{on}{copy}/* {} */\nSEC(\"xdp\") int {name}(struct xdp_md *ctx) {{\nwl_core core = {{0}};\nwl_fx fx = {{.core = &core, .ctx = ctx, .filter = {filter}}}, *x = &fx;\n\
             const uint32_t cpu = bpf_get_smp_processor_id();\nx->state = wl_state_of(cpu);\n\
             if (!x->state) return XDP_ABORTED;\nWL_BEGIN_NOTES(x);\n{alone}WL_BYTES_BEGIN(x);\n{time}{instance}{init}int fate;\n{near}{{\nwl_view view;\n{parse}(x, &view);\nx->sure = 0;\nfate = {name}_on(x, &view);\n}}\n\
             if (WL_UNLIKELY(fate == WL_FAULTY)) {{\n{faulty}}}\n{gives}x->state->fate[fate & {}]++;\n{give_back}return WL_VERDICT(fate);\n}}\n\
             {}",
            names::comment(&h.name),
            FATES - 1,
            if self.first("license") { "char _license[] SEC(\"license\") = \"GPL\";\n" } else { "" },
        )
    }

    /// The first values of states, set by the first frame of a processor.
    fn xdp_begin(&mut self) -> String {
        let m = self.m;
        let all: String = m
            .states
            .iter()
            .enumerate()
            .filter(|(_, s)| placement::is_value(m, s.ty))
            .filter_map(|(n, s)| {
                let text = self.expr(&crate::scope::Scope::default(), s.init.as_ref()?);
                Some(format!("wl_state(x)->s_{} = {text};\n", names::state(m, StateId(n as u32))))
            })
            .collect();
        match all.as_str() {
            "" => String::new(),
            all => format!("if (WL_UNLIKELY(!x->state->begun)) {{\nx->state->begun = 1;\n{all}}}\n"),
        }
    }
}

impl<'m> BodyGen<'_, 'm> {
    /// The code behind branches: the verifier knows no more which one was taken, by the values
    /// that they set.
    pub(crate) fn join_of_branches(&mut self, blocks: &[&Block]) {
        if !self.g.xdp {
            return;
        }
        let set: std::collections::BTreeSet<LocalId> = blocks.iter().flat_map(|b| parts::changed(b)).collect();
        let text: String = set.into_iter().filter_map(|l| self.forget(l)).collect();
        let view = match self.owner {
            Owner::Frame if !self.xdp.frameless => format!("WL_JOIN_BRANCHES({});", self.name(LocalId(0))),
            Owner::Handler { .. } | Owner::Frame | Owner::Func { .. } | Owner::Protocol { .. } => String::new(),
        };
        if !text.is_empty() || !view.is_empty() {
            line!(self, "{text}{view}")
        }
    }

    /// Makes a local's value unknown to the verifier.
    pub(super) fn forget(&self, l: LocalId) -> Option<String> {
        let mut text = String::new();
        // The verifier does not know what lies in memory.
        if self.xdp.depth > 0 || self.is_far(l) {
            return None;
        }
        self.forget_at(self.locals[l.index()].ty, &self.name(l), &mut text);
        (!text.is_empty()).then_some(text)
    }

    fn forget_at(&self, ty: TyId, place: &str, text: &mut String) {
        match self.g.m.ty(ty) {
            Ty::Bool => text.push_str(&format!("WL_FORGET_FLAG({place}); ")),
            Ty::UInt(..=64) | Ty::Int(_) => text.push_str(&format!("WL_FORGET_NUMBER({place}); ")),
            Ty::Ip | Ty::Endpoint => text.push_str(&format!("WL_FORGET({place}.w, 2); ")),
            Ty::Bytes(_) => text.push_str(&format!("WL_FORGET_NUMBER({place}.p); WL_FORGET_NUMBER({place}.n); ")),
            Ty::Option(inner) => {
                text.push_str(&format!("WL_FORGET_FLAG({place}.has); "));
                self.forget_at(*inner, &format!("{place}.v"), text)
            }
            Ty::Record(_) | Ty::Tuple(_) => {
                for (member, ty) in self.g.members(ty) {
                    self.forget_at(ty, &format!("{place}.{member}"), text)
                }
            }
            Ty::UInt(_) => text.push_str(&format!("WL_FORGET_WIDE({place}); ")),
            Ty::Unit | Ty::List(..) | Ty::Msg(_) => {}
        }
    }

    /// Behind the setting of a local: where its value comes from branches within an expression, the
    /// verifier would follow each by itself.
    pub(crate) fn join_of_values(&mut self, l: LocalId, e: &Expr) {
        if !self.g.xdp {
            return;
        }
        let mut branches = matches!(self.g.m.ty(e.ty), Ty::Bool | Ty::Option(_) | Ty::Bytes(_))
            && !matches!(&*e.kind, ExprKind::Local(_) | ExprKind::Bool(_));
        walk::expr(e, &mut |e| branches |= matches!(&*e.kind, ExprKind::If(..) | ExprKind::Call(..)));
        if branches {
            if let Some(text) = self.forget(l) {
                line!(self, "{text}")
            }
        }
    }

    /// A round of a loop begins: the verifier need not see that there is an end, and rounds beyond
    /// the kernel's limit are a fault.
    pub(crate) fn round(&mut self) -> String {
        match self.g.xdp {
            true => format!("WL_ROUND({{ wl_fail(x, WL_F_OVERLOAD, 0); {} }});\n", self.leave_fault()),
            false => String::new(),
        }
    }

    /// The beginning of a loop's counter: the verifier must not follow round by round.
    pub(crate) fn first_round(&self) -> &'static str {
        if self.g.xdp {
            " ^ wl_unknown"
        } else {
            ""
        }
    }

    /// The next value of a loop's counter. A comparison within the round may have told the verifier
    /// the number, and it would count on from there.
    pub(crate) fn next_round(&self, i: &str, max: u64) -> String {
        match self.g.xdp && max > 1 {
            true => format!("{i} = ({i} + 1) ^ wl_unknown"),
            false => format!("{i}++"),
        }
    }

    /// A statement that has another form here. False: it has the same.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(crate) fn xdp_stmt(&mut self, s: &'m StmtKind) -> bool {
        match s {
            StmtKind::Frame { act: FrameAct::Send { port, index, mark, state, .. }, .. } => {
                self.xdp_send((*port, index), mark.as_ref(), state)
            }
            StmtKind::Frame { frame, act } => self.xdp_act(*frame, act),
            StmtKind::Log(parts) => self.xdp_line(parts),
            s if s.table().is_some() => self.xdp_table(s),
            s => match placement::broadcast(self.g.m, s) {
                Some((port, others)) => self.xdp_broadcast(port, others),
                None => return false,
            },
        }
        true
    }
}
