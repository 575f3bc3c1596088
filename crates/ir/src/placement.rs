//! Placement: which device runs a handler.
//!
//! In: a module whose passes have run. Out: for a handler of frames, what keeps it off a device
//! ([`obstacles`]). It comes from the column of devices of [`crate::ops`] and the table of
//! statements there. The compiler reports the obstacles of a handler that names its device;
//! `wireloom explain` shows those of the others.

mod frames;
mod sharing;
mod split;
mod tables;

pub use frames::{broadcast, fixed_parts, hook_parts, new_network};
pub use sharing::together;
pub use split::{is_process, split, Split};
pub use tables::{canonical_size, ring_bytes, CAPACITY_MAX, KEY_MAX, VALUE_MAX, WIDE_KEY_MAX, WIDE_VALUE_MAX};

use crate::desc::{FrameEngine, PortKind};
use crate::ops::{self, Device};
use crate::*;
use std::collections::BTreeSet;

/// An obstacle between a handler and a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// E0670: an operation; E0671: a type; E0672: a thing shared with the CPU; E0673: a frame's
    /// way; E0674: the handler's port.
    pub code: &'static str,
    pub span: Span,
    /// The construct and the problem, in one sentence.
    pub what: String,
    pub hint: String,
}

/// The fate of a frame that the XDP hook sends to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The host's stack takes it (`XDP_PASS`).
    Kernel,
    /// It leaves through the port that it came from (`XDP_TX`).
    Back,
    /// It leaves through another interface (`XDP_REDIRECT`).
    Redirected,
    /// The process takes it through AF_XDP (`XDP_REDIRECT`), and puts it where it was sent. That is
    /// into a queue, or out of a port that the hook does not have.
    Process,
}

/// None: the hook cannot send frames to this port.
pub fn fate(m: &Module, from: Option<PortId>, to: PortId) -> Option<Fate> {
    let PortKind::Frames { engine, .. } = m.ports.get(to.index())?.kind else { return None };
    match engine {
        FrameEngine::Kernel => Some(Fate::Kernel),
        FrameEngine::Nic if from == Some(to) => Some(Fate::Back),
        FrameEngine::Nic => Some(Fate::Redirected),
        // The hook cannot wait for room.
        FrameEngine::Lossless => None,
        FrameEngine::Pcap
        | FrameEngine::Tun
        | FrameEngine::Tap
        | FrameEngine::Memory
        | FrameEngine::Udp
        | FrameEngine::Loop
        | FrameEngine::Queue
        | FrameEngine::Lossy => Some(Fate::Process),
    }
}

/// Whether values of a type can be kept in XDP: numbers, addresses, and options, records and tuples
/// of these.
pub fn is_value(m: &Module, ty: TyId) -> bool {
    match m.ty(ty) {
        Ty::Unit | Ty::Bool | Ty::Ip | Ty::Endpoint | Ty::UInt(_) => true,
        Ty::Int(bits) => *bits <= 64,
        Ty::Option(t) => is_value(m, *t),
        Ty::Record(r) => m.records[r.index()].fields.iter().all(|f| is_value(m, f.1)),
        Ty::Tuple(ts) => ts.iter().all(|t| is_value(m, *t)),
        Ty::Bytes(_) | Ty::List(..) | Ty::Msg(_) => false,
    }
}

/// Whether the hook has values of a type while it handles a frame: those that it can keep, and text
/// and bytes.
pub fn is_passing(m: &Module, ty: TyId) -> bool {
    match m.ty(ty) {
        Ty::Bytes(_) => true,
        Ty::Option(t) => is_passing(m, *t),
        Ty::Record(r) => m.records[r.index()].fields.iter().all(|f| is_passing(m, f.1)),
        Ty::Tuple(ts) => ts.iter().all(|t| is_passing(m, *t)),
        Ty::Unit | Ty::Bool | Ty::Ip | Ty::Endpoint | Ty::UInt(_) | Ty::Int(_) | Ty::List(..) | Ty::Msg(_) => {
            is_value(m, ty)
        }
    }
}

/// Whether the loader of the hook's programs can set a parameter of this type: its value need not
/// be in their code.
pub fn is_loaded(ty: &Ty) -> bool {
    matches!(ty, Ty::Bool | Ty::UInt(..=64) | Ty::Endpoint)
}

/// Bytes of a constant: it has a place of its own in the scratch.
const CONSTANT_MAX: usize = 4096;
/// Bytes of a line of the log that are no constants.
const LINE_MAX: u64 = 256;
/// Ranges of one test.
const RANGES_MAX: usize = 16;
/// Bytes of all headers of a frame: as far as the walk over them looks (`WL_AT` of
/// `support/bpf.h`).
const HEADERS_MAX: u64 = 16383;
/// The pass `place`. In: a module whose passes have run. Out: each handler that has no obstacle
/// belongs to the XDP hook.
pub fn run(m: &mut Module) {
    for h in together(m, &candidates(m)) {
        m.handlers[h.index()].device = Device::Xdp
    }
}

/// The handlers of packets.
pub fn candidates(m: &Module) -> Vec<HandlerId> {
    let frames = |n: &usize| matches!(m.handlers[*n].on, On::Frame { .. });
    (0..m.handlers.len()).filter(frames).map(|n| HandlerId(n as u32)).collect()
}

struct Search<'m> {
    m: &'m Module,
    h: &'m Handler,
    port: PortId,
    /// Functions that have been looked at.
    called: BTreeSet<FuncId>,
    found: Vec<Obstacle>,
}

/// The obstacles between a handler and the XDP hook, in the order of its statements. Empty: it runs
/// there.
pub fn obstacles(m: &Module, handler: HandlerId) -> Vec<Obstacle> {
    obstacles_among(m, handler, &candidates(m))
}

/// The same where only some handlers may run in the hook: the others stay on the CPU.
pub fn obstacles_among(m: &Module, handler: HandlerId, candidates: &[HandlerId]) -> Vec<Obstacle> {
    let mut found = own_obstacles(m, handler);
    let mut beside = together(m, candidates);
    beside.push(handler);
    found.extend(sharing::conflicts(m, handler, &beside));
    found
}

/// The obstacles in a handler by itself.
pub fn own_obstacles(m: &Module, handler: HandlerId) -> Vec<Obstacle> {
    let h = &m.handlers[handler.index()];
    let On::Frame { port, unit } = h.on else {
        return vec![Obstacle {
            code: "E0674",
            span: h.span,
            what: format!("`{}` does not handle the packets of a port", h.name),
            hint: "write `on xdp` behind a handler of a port `nic(…)`".into(),
        }];
    };
    let mut s = Search { m, h, port, called: BTreeSet::new(), found: Vec::new() };
    s.port(unit);
    s.locals(&h.body, 1);
    s.block(&h.body.block);
    s.frames();
    s.found
}

impl Search<'_> {
    /// A statement with a value that the hook cannot keep is no second obstacle by its operations.
    fn add(&mut self, code: &'static str, span: Span, what: String, hint: &str) {
        let follows = |o: &Obstacle| code == "E0670" && o.code == "E0671" && span != self.h.span;
        if !self.found.iter().any(|o| o.span == span && (o.what == what || follows(o))) {
            self.found.push(Obstacle { code, span, what, hint: hint.into() })
        }
    }

    fn port(&mut self, unit: UnitId) {
        let (p, span) = (&self.m.ports[self.port.index()], self.h.span);
        if !matches!(p.kind, PortKind::Frames { engine: FrameEngine::Nic, .. }) {
            let kind = if p.kind.is_queue() { "is a queue" } else { "is no network interface" };
            let what = format!("`{}` {kind}: XDP runs at a port `nic(…)`", p.name);
            self.add("E0674", span, what, "the CPU handles its packets");
        }
        if desc::is_mixed(self.m.ports.iter().map(|p| &p.kind)) {
            let what = format!("app `{}` has ports of connections, too", self.m.app);
            self.add("E0674", span, what, "make the packets an app of their own");
        }
        let graph = crate::parse_graph::ParseGraph::new(self.m, unit);
        let size = |n: &u32| self.m.unit(graph.layers[*n as usize].unit).max;
        let all = graph.needed.iter().map(size).fold(0u64, u64::saturating_add);
        if all > HEADERS_MAX {
            let name = &self.m.unit(unit).name;
            let what = format!("the headers of `{name}` may have {all} bytes together: XDP looks at 16383");
            self.add("E0674", span, what, "give the fields of varying size smaller maxima");
        }
        if graph.chain().is_none() {
            let name = &self.m.unit(unit).name;
            let what = format!("two headers of `{name}` may follow one header: XDP has no walk over these");
            self.add("E0674", span, what, "make their conditions exclude each other");
        }
    }

    /// A value of a type that the hook does not have. One place has one such obstacle.
    fn unkept(&mut self, span: Span, what: String, hint: &str) {
        let at = self.h.span;
        if span == at || !self.found.iter().any(|o| o.code == "E0671" && o.span == span) {
            self.add("E0671", span, what, hint)
        }
    }

    /// The locals of a body from a number on: those that the program names come first.
    fn locals(&mut self, body: &Body, from: usize) {
        let mut all: Vec<(usize, &Local)> = body.locals.iter().enumerate().skip(from).collect();
        all.retain(|(_, l)| !is_passing(self.m, l.ty));
        all.sort_by_key(|(_, l)| is_made(&l.name));
        for (n, l) in all {
            let name = if is_made(&l.name) { "a value here".into() } else { format!("`{}`", l.name) };
            let what = format!("{name} is {}, which XDP cannot keep", kind_of(self.m, l.ty));
            let span = first_set(&body.block, LocalId(n as u32)).unwrap_or(self.h.span);
            self.unkept(span, what, "use numbers, addresses, bytes, and records of these");
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn block(&mut self, block: &[Stmt]) {
        for s in block {
            if broadcast(self.m, &s.kind).is_some() {
                self.way(s);
                continue;
            }
            self.stmt(s);
            match &s.kind {
                StmtKind::Frame { act: FrameAct::Insert { parts, .. }, .. } => self.parts(s.span, parts),
                kind => walk::stmt_blocks(kind, &mut |b| self.block(b)),
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &Stmt) {
        if let StmtKind::Emit(Emit::Bytes(e) | Emit::UInt { value: e, .. }) = &s.kind {
            // Of a new payload.
            walk::expr(e, &mut |e| self.expr(s.span, e));
            return;
        }
        let row = ops::statement(&s.kind);
        if !row.devices.contains(&Device::Xdp) {
            let what = format!("{} cannot run in XDP", row.what);
            self.add("E0670", s.span, what, row.hint);
        }
        self.way(s);
        if let Some(t) = s.kind.table() {
            self.table(s, t)
        }
        match &s.kind {
            StmtKind::Log(parts) => self.line(s.span, parts),
            StmtKind::SetState(id, _) => self.value(s.span, self.m.states[id.index()].ty, "a `state`"),
            StmtKind::Return(Some(e)) => self.passing(s.span, e.ty, "a result"),
            StmtKind::Frame { act: FrameAct::Set { value, .. }, .. } => self.value(s.span, value.ty, "the field"),
            _ => {}
        }
        walk::stmt_exprs(&s.kind, &mut |e| walk::expr(e, &mut |e| self.expr(s.span, e)));
    }

    /// A line of the log: the hook sends its values to the process.
    #[allow(clippy::wildcard_enum_match_arm, reason = "one type of many is looked for")]
    fn line(&mut self, span: Span, parts: &[Expr]) {
        let bytes = |e: &Expr| match (self.m.ty(e.ty), &*e.kind) {
            (_, ExprKind::Bytes(_)) => 0,
            (Ty::Bytes(most), _) => *most,
            _ => 0,
        };
        if parts.iter().fold(0u64, |n, e| n.saturating_add(bytes(e))) > LINE_MAX {
            let what = format!("`log` of more than {LINE_MAX} bytes cannot run in XDP");
            self.add("E0670", span, what, "log a `slice`, or send the packet to a queue whose handler logs");
        }
    }

    /// A function that is called: its statements run in the hook, too.
    fn function(&mut self, span: Span, f: FuncId) {
        if !self.called.insert(f) {
            return;
        }
        let f = &self.m.funcs[f.index()];
        match &f.body {
            FuncBody::Body(body) => {
                self.locals(body, 0);
                self.passing(span, f.ret, "a result");
                self.block(&body.block);
            }
            FuncBody::Extern { .. } => {
                let what = format!("`{}` is a function in C, which XDP cannot call", f.name);
                self.add("E0670", span, what, "leave this handler to the CPU");
            }
        }
    }

    fn passing(&mut self, span: Span, ty: TyId, of: &str) {
        if !is_passing(self.m, ty) {
            self.value(span, ty, of)
        }
    }

    fn value(&mut self, span: Span, ty: TyId, of: &str) {
        if !is_value(self.m, ty) {
            let what = format!("{of} is {}, which XDP cannot keep", kind_of(self.m, ty));
            self.unkept(span, what, "keep numbers, addresses, and records of these");
        }
    }

    fn expr(&mut self, span: Span, e: &Expr) {
        if !matches!(&*e.kind, ExprKind::Local(_) | ExprKind::Cast(_)) && !is_passing(self.m, e.ty) {
            let what = format!("{} cannot be read in XDP", kind_of(self.m, e.ty));
            self.unkept(span, what, "read fields that are numbers, addresses or bytes");
        }
        if let Some((row, _)) = e.kind.operation() {
            if !row.devices.contains(&Device::Xdp) || self.is_library(e) {
                let wide = self.is_library(e) && matches!(self.m.ty(e.ty), Ty::UInt(65..));
                let (what, hint) = match (wide, row.usage) {
                    (true, _) => ("arithmetic with numbers of more than 64 bits".to_string(), WIDE),
                    _ if matches!(*e.kind, ExprKind::Builtin(Builtin::TextIp, _)) => (
                        "an address as text".to_string(),
                        "`log` writes an address as text: give it the address itself",
                    ),
                    // It is no word of the language.
                    (_, "") => (row.doc.trim_end_matches('.').to_lowercase(), "leave this handler to the CPU"),
                    (_, usage) => (format!("`{usage}`"), "leave this handler to the CPU"),
                };
                self.add("E0670", span, format!("{what} cannot run in XDP"), hint);
            }
            return;
        }
        if let ExprKind::Call(f, _) = &*e.kind {
            self.function(span, *f)
        }
        if walk::path_of(e).is_some_and(|p| p.steps.iter().any(|s| matches!(s, Step::Index(_)))) {
            self.add("E0670", span, "a list cannot be read in XDP".into(), "leave this handler to the CPU");
        }
        if matches!(&*e.kind, ExprKind::Bytes(b) if b.len() > CONSTANT_MAX) {
            let what = "a constant of more than 4096 bytes cannot be in XDP's scratch".to_string();
            self.add("E0671", span, what, "leave this handler to the CPU");
        }
        if matches!(&*e.kind, ExprKind::InRanges(_, ranges) if ranges.len() > RANGES_MAX) {
            let what = "a test of more than 16 ranges cannot run in XDP".to_string();
            self.add("E0670", span, what, "look the number up in a table");
        }
        if matches!(*e.kind, ExprKind::Param(_)) && is_loaded(self.m.ty(e.ty)) {
            return;
        }
        if let Some(what) = ops::cpu_only(&e.kind) {
            self.add("E0670", span, format!("{what} cannot be read in XDP"), "leave this handler to the CPU");
        }
    }

    /// Arithmetic for which clang calls a function of its library, which BPF does not have.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn is_library(&self, e: &Expr) -> bool {
        let ExprKind::Binary(op, _, right) = &*e.kind else { return false };
        let (signed, wide) = (matches!(self.m.ty(e.ty), Ty::Int(_)), matches!(self.m.ty(e.ty), Ty::UInt(65..)));
        match op {
            BinOp::Div | BinOp::Rem => signed || wide,
            BinOp::Mul => wide,
            BinOp::Shl | BinOp::Shr => wide && !matches!(*right.kind, ExprKind::Int(_)),
            _ => false,
        }
    }
}

/// Where a block first gives a local its value.
fn first_set(block: &[Stmt], local: LocalId) -> Option<Span> {
    let mut found = None;
    walk::stmts(block, &mut |s| {
        if found.is_none() && walk::defined(&s.kind).contains(&Some(local)) {
            found = Some(s.span)
        }
    });
    found
}

/// The hint for numbers that a limiter may have made.
const WIDE: &str =
    "limiters and meters multiply such numbers, too: leave the handler to the CPU, or count with `update`";

/// Whether the compiler has named a local.
fn is_made(name: &str) -> bool {
    name.strip_prefix('t').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn kind_of(m: &Module, ty: TyId) -> &'static str {
    match m.ty(ty) {
        Ty::Bytes(_) => "text or bytes",
        Ty::List(..) => "a list",
        Ty::Msg(_) => "a message",
        Ty::UInt(_) | Ty::Int(_) => "a number of more than 64 bits",
        Ty::Unit | Ty::Bool | Ty::Endpoint | Ty::Ip | Ty::Option(_) | Ty::Record(_) | Ty::Tuple(_) => {
            "a value with bytes or a list"
        }
    }
}

/// The obstacles between handlers and the device that the program names, by handler. `m` is
/// lowered, its passes have not run. Parameters have their defaults.
pub fn refused(m: &Module) -> Vec<Obstacle> {
    let wanted = |n: &usize| m.handlers[*n].device == Device::Xdp;
    let all: Vec<HandlerId> = (0..m.handlers.len()).filter(wanted).map(|n| HandlerId(n as u32)).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut special = m.clone();
    passes::run_all(&mut special);
    let values: Vec<desc::ParamValue> =
        m.params.iter().map(|p| p.default.clone().unwrap_or_else(|| p.ty.empty())).collect();
    all.iter().for_each(|h| specialise(&mut special, *h, &values));
    // All of them stand there. One that cannot is no reason against those that share things with
    // it.
    let of = |h: &HandlerId| [own_obstacles(&special, *h), sharing::conflicts(&special, *h, &all)].concat();
    let mut found: Vec<Obstacle> = Vec::new();
    for o in all.iter().flat_map(of) {
        // A function that several handlers call is told once.
        if !found.contains(&o) {
            found.push(o)
        }
    }
    found
}

/// Puts the elements that are joined to into a handler, and the values of parameters in the place
/// of their names, in functions, too. What follows from them is folded: branches that are not taken
/// are not there.
pub fn specialise(m: &mut Module, handler: HandlerId, values: &[desc::ParamValue]) {
    specialise_but(m, handler, values, &BTreeSet::new())
}

/// The same, but for some parameters.
pub fn specialise_but(m: &mut Module, handler: HandlerId, values: &[desc::ParamValue], free: &BTreeSet<ParamId>) {
    use desc::ParamValue::{Bool, Bytes, Duration, UInt};
    passes::inline_elements::whole(m, handler);
    let types = m.types.clone();
    let mut value = |e: &mut Expr| {
        let ExprKind::Param(p) = *e.kind else { return };
        if free.contains(&p) {
            return;
        }
        let kind = match values.get(p.index()) {
            Some(Bool(b)) if types[e.ty.index()] == Ty::Bool => ExprKind::Bool(*b),
            Some(UInt(n) | Duration(n)) if matches!(types[e.ty.index()], Ty::UInt(_)) => ExprKind::Int(u128::from(*n)),
            Some(Bytes(b)) if matches!(types[e.ty.index()], Ty::Bytes(_)) => ExprKind::Bytes(b.clone()),
            _ => return,
        };
        *e.kind = kind;
    };
    walk::block_exprs_mut(&mut m.handlers[handler.index()].body.block, &mut value);
    for f in &mut m.funcs {
        if let FuncBody::Body(body) = &mut f.body {
            walk::block_exprs_mut(&mut body.block, &mut value)
        }
    }
    passes::fold::run(m);
}
