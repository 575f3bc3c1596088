//! Inferred transfer: the parts of a packet that cross a queue.
//!
//! In: handlers and inputs, with what they read of a packet. Out: for each queue the fields of the
//! packet's state that are read behind it. Also the part of the frame that may be read there. Marks
//! and fields that nobody reads are not sent.
//!
//! Fields: backward, over the whole graph. A field is read behind a queue if the queue's handler
//! reads it, or sends it on to where it is read.
//!
//! The part of the frame: all of it if it leaves through a port, if its payload is read, or if it
//! is changed. Else its headers, and a few bytes behind them. These are as many as the search for
//! headers may look at before it finds that a header is not there. The end of the headers is known
//! to the sender, since it has looked for the same ones. A sender that changes frames sends all of
//! them: behind a change the search may end elsewhere.

use crate::frame::{field_size, needed_layers, step};
use crate::*;
use std::collections::BTreeSet;

/// If the search may look at more bytes behind the headers, a cut is not worth it.
const LOOKED_MAX: u32 = 256;

pub fn run(m: &mut Module) {
    if !m.has_queues() {
        return;
    }
    let live = Live::of(m);
    prune(m, &live);
    let parts = parts(m);
    for (n, p) in m.ports.iter_mut().enumerate().filter(|(_, p)| p.kind.is_queue()) {
        let fields = live.queues[n].iter().filter_map(|v| match v {
            CarriedValue::Mark => None,
            CarriedValue::Field(f) => Some(*f),
        });
        p.carries.state = fields.collect();
        p.carries.part = if p.carries.fixed { FramePart::Whole } else { parts[n] };
    }
}

/// A value that goes along with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CarriedValue {
    Mark,
    Field(PacketFieldId),
}

/// The values that are read behind queues and inputs.
struct Live {
    queues: Vec<BTreeSet<CarriedValue>>,
    inputs: Vec<BTreeSet<CarriedValue>>,
}

impl Live {
    fn of(m: &Module) -> Live {
        let mut live =
            Live { queues: vec![BTreeSet::new(); m.ports.len()], inputs: vec![BTreeSet::new(); m.inputs.len()] };
        loop {
            let mut next = Live { queues: live.queues.clone(), inputs: live.inputs.clone() };
            for h in &m.handlers {
                let Some(port) = h.on.frame_port() else { continue };
                if m.is_queue(port) {
                    let needed = live.needed(m, &h.body);
                    next.queues[port.index()].extend(brought(&h.body, &needed))
                }
            }
            for (n, i) in m.inputs.iter().enumerate() {
                let Some(body) = &i.body else { continue };
                let needed = live.needed(m, body);
                let given = i.state.iter().enumerate().map(|(k, f)| (i.first_field() + k, CarriedValue::Field(*f)));
                let all = [(1, CarriedValue::Mark)].into_iter().chain(given);
                next.inputs[n].extend(all.filter(|(l, _)| needed.contains(&LocalId(*l as u32))).map(|(_, v)| v));
            }
            if (&next.queues, &next.inputs) == (&live.queues, &live.inputs) {
                return live;
            }
            live = next;
        }
    }

    /// Whether a value that is sent there is read.
    fn takes(&self, to: Target, v: CarriedValue) -> bool {
        match to {
            Target::Input { input, .. } => self.inputs[input.index()].contains(&v),
            Target::Port { port, .. } => self.queues[port.index()].contains(&v),
        }
    }

    /// The locals of a body that some effect depends on.
    fn needed(&self, m: &Module, body: &Body) -> BTreeSet<LocalId> {
        let mut needed = BTreeSet::new();
        loop {
            let before = needed.len();
            walk::stmts(&body.block, &mut |s| self.asked(m, &s.kind, &mut needed));
            if needed.len() == before {
                return needed;
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn asked(&self, m: &Module, s: &StmtKind, needed: &mut BTreeSet<LocalId>) {
        let mut skipped: Vec<*const Expr> = Vec::new();
        match s {
            StmtKind::Set(l, _) if !needed.contains(l) => return,
            // The entry stays in its table.
            StmtKind::TableUpdate { entry, .. } => {
                needed.insert(*entry);
            }
            StmtKind::Output { wire, mark, state, .. } => {
                let to = m.wires[wire.index()].to;
                skipped.extend(
                    state.iter().filter(|c| !self.takes(to, CarriedValue::Field(c.field))).map(|c| &raw const c.value),
                );
                if !self.takes(to, CarriedValue::Mark) {
                    skipped.push(mark)
                }
            }
            StmtKind::Frame { act: FrameAct::Send { port, mark, state, .. }, .. } => {
                let to = Target::Port { port: *port, index: 0 };
                skipped.extend(
                    state.iter().filter(|c| !self.takes(to, CarriedValue::Field(c.field))).map(|c| &raw const c.value),
                );
                if let Some(mark) = mark.as_ref().filter(|_| !self.takes(to, CarriedValue::Mark)) {
                    skipped.push(mark)
                }
            }
            _ => {}
        }
        walk::stmt_exprs(s, &mut |e| {
            if !skipped.iter().any(|k| std::ptr::eq(*k, e)) {
                walk::locals_read(e, &mut |l| needed.extend([l]))
            }
        });
        walk::stmt_locals_read(s, &mut |l| {
            if !matches!(s, StmtKind::Output { .. } | StmtKind::Frame { .. }) {
                needed.insert(l);
            }
        });
    }
}

/// The values that a handler reads of those that its packet brings.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn brought(body: &Body, needed: &BTreeSet<LocalId>) -> BTreeSet<CarriedValue> {
    let mut found = BTreeSet::new();
    walk::stmts(&body.block, &mut |s| {
        if matches!(&s.kind, StmtKind::Set(l, _) if !needed.contains(l)) {
            return;
        }
        walk::stmt_exprs(&s.kind, &mut |e| {
            walk::expr(e, &mut |e| match *e.kind {
                ExprKind::FrameMark(_) => drop(found.insert(CarriedValue::Mark)),
                ExprKind::PacketState(_, f) => drop(found.insert(CarriedValue::Field(f))),
                _ => {}
            })
        })
    });
    found
}

/// Takes away the values that nobody reads.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn prune(m: &mut Module, live: &Live) {
    let wires = m.wires.clone();
    m.bodies_mut(&mut |b| {
        walk::stmts_mut(&mut b.block, &mut |s| match &mut s.kind {
            StmtKind::Output { wire, state, .. } => {
                let to = wires[wire.index()].to;
                state.retain(|c| live.takes(to, CarriedValue::Field(c.field)))
            }
            StmtKind::Frame { act: FrameAct::Send { port, mark, state, .. }, .. } => {
                let to = Target::Port { port: *port, index: 0 };
                state.retain(|c| live.takes(to, CarriedValue::Field(c.field)));
                if !live.takes(to, CarriedValue::Mark) {
                    *mark = None
                }
            }
            _ => {}
        });
        let mut read = BTreeSet::new();
        walk::stmts(&b.block, &mut |s| walk::stmt_locals_read(&s.kind, &mut |l| read.extend([l])));
        b.block.retain(|s| !matches!(&s.kind, StmtKind::Set(l, e) if is_brought(e) && !read.contains(l)));
    });
}

fn is_brought(e: &Expr) -> bool {
    matches!(*e.kind, ExprKind::PacketState(..))
}

/// The senders of a queue.
#[derive(Clone, Default)]
struct Senders {
    /// The types of packets.
    units: BTreeSet<UnitId>,
    /// Some change frames.
    change: bool,
    /// Some send frames that they build.
    build: bool,
}

/// By port: the part of the frame that is needed behind it.
fn parts(m: &Module) -> Vec<FramePart> {
    let senders = senders(m);
    let mut parts: Vec<FramePart> = m.ports.iter().map(|_| FramePart::Nothing).collect();
    // A queue may lead to another one, so needs grow until nothing changes.
    loop {
        let mut next = parts.clone();
        for h in &m.handlers {
            let On::Frame { port, unit } = h.on else { continue };
            if m.is_queue(port) {
                let part = need(m, unit, &h.body.block, &parts);
                next[port.index()] = wider(next[port.index()], allowed(m, unit, part, &senders[port.index()]))
            }
        }
        if next == parts {
            return parts;
        }
        parts = next;
    }
}

fn wider(a: FramePart, b: FramePart) -> FramePart {
    use FramePart::{Headers, Nothing, Whole};
    match (a, b) {
        (Whole, _) | (_, Whole) => Whole,
        (Headers(a), Headers(b)) => Headers(a.max(b)),
        (Headers(n), Nothing) | (Nothing, Headers(n)) => Headers(n),
        (Nothing, Nothing) => Nothing,
    }
}

/// The part that crosses, where so much is needed.
fn allowed(m: &Module, unit: UnitId, need: FramePart, by: &Senders) -> FramePart {
    if by.change || by.units.iter().any(|u| *u != unit) {
        return FramePart::Whole;
    }
    let behind = match need {
        FramePart::Whole => return FramePart::Whole,
        // A frame that is built may be no packet: that is a fault where its headers are looked for.
        FramePart::Nothing if !by.build => return FramePart::Nothing,
        FramePart::Nothing => 0,
        FramePart::Headers(n) => n,
    };
    match looked_at(m, unit) {
        Some(n) if n <= LOOKED_MAX => FramePart::Headers(n.max(behind)),
        _ => FramePart::Whole,
    }
}

/// Bytes of a header that the search may look at before it finds that the header is not there: the
/// most of all headers. None: it has no bound.
fn looked_at(m: &Module, unit: UnitId) -> Option<u32> {
    let layers = m.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
    let of = |n: &u32| first_bytes(m, layers[*n as usize].unit);
    needed_layers(m, unit).1.iter().map(of).try_fold(0, |most, n| Some(most.max(n?)))
}

/// The bytes before a header's first part of varying size, if the header has nothing behind it that
/// decides whether it is there.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn first_bytes(m: &Module, header: UnitId) -> Option<u32> {
    let unit = m.unit(header);
    let (mut at, mut varies) = (0u32, false);
    for f in unit.body.iter().map(|f| &unit.fields[f.index()]) {
        match (&f.kind, field_size(m, f)) {
            (FieldKind::Let { .. } | FieldKind::Require { .. } | FieldKind::Nothing, _) => {}
            (FieldKind::Bytes { extent: Extent::Length(_), class: None, .. }, None) => varies = true,
            (FieldKind::UInt { .. } | FieldKind::Bytes { .. } | FieldKind::Unit { .. }, Some(_)) if !varies => {
                at += step(m, f)
            }
            // Read once the header is there.
            (FieldKind::UInt { .. } | FieldKind::Bytes { class: None, .. }, Some(_)) if f.within.is_none() => {}
            _ => return u32::try_from(unit.max).ok(),
        }
    }
    Some(at)
}

/// By port: who sends to it.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn senders(m: &Module) -> Vec<Senders> {
    let mut changes: Vec<bool> = vec![false; m.inputs.len()];
    let bodies: Vec<(&Body, Option<usize>)> = m
        .handlers
        .iter()
        .filter(|h| !h.on.is_test())
        .map(|h| (&h.body, None))
        .chain(m.inputs.iter().enumerate().filter_map(|(n, i)| Some((i.body.as_ref()?, Some(n)))))
        .collect();
    let is_changed = |b: &Body, own: Option<usize>, changes: &[bool]| {
        let mut changed = own.is_some_and(|n| changes[n]);
        walk::stmts(&b.block, &mut |s| changed |= elements::changes_frame(&s.kind));
        changed
    };
    // A changed frame goes on to the inputs behind.
    loop {
        let before = changes.clone();
        for (b, _) in bodies.iter().filter(|(b, own)| is_changed(b, *own, &before)) {
            m.outputs(&b.block).into_iter().for_each(|i| changes[i.index()] = true)
        }
        if changes == before {
            break;
        }
    }
    let mut all = vec![Senders::default(); m.ports.len()];
    for (b, own) in bodies {
        let change = is_changed(b, own, &changes);
        walk::stmts(&b.block, &mut |s| match &s.kind {
            StmtKind::SendFrame { port, .. } => all[port.index()].build = true,
            StmtKind::Frame { frame, act: FrameAct::Send { port, .. } } => {
                note(m, b, *frame, change, &mut all[port.index()])
            }
            StmtKind::Output { wire, frame, .. } => {
                if let Target::Port { port, .. } = m.wires[wire.index()].to {
                    note(m, b, *frame, change, &mut all[port.index()])
                }
            }
            _ => {}
        });
    }
    all
}

fn note(m: &Module, b: &Body, frame: LocalId, change: bool, of: &mut Senders) {
    of.change |= change;
    if let Some(Ty::Msg(u)) = b.locals.get(frame.index()).map(|l| m.ty(l.ty)) {
        of.units.insert(*u);
    }
}

/// The part of frames that the code needs which a block's packets reach. `parts`: the known needs
/// of queues.
fn need(m: &Module, unit: UnitId, block: &Block, parts: &[FramePart]) -> FramePart {
    let mut need = Need { m, unit, parts, part: FramePart::Nothing };
    m.reached(block, &mut |b| walk::stmts(b, &mut |s| need.stmt(&s.kind)));
    need.part
}

struct Need<'m> {
    m: &'m Module,
    unit: UnitId,
    parts: &'m [FramePart],
    part: FramePart,
}

impl Need<'_> {
    fn add(&mut self, part: FramePart) {
        self.part = wider(self.part, part)
    }

    fn port(&mut self, port: PortId) {
        self.add(if self.m.is_queue(port) { self.parts[port.index()] } else { FramePart::Whole })
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &StmtKind) {
        match s {
            StmtKind::Frame { act: FrameAct::Send { port, .. }, .. } => self.port(*port),
            StmtKind::Frame { act: FrameAct::InC { whole: false, .. }, .. } => {}
            StmtKind::Frame { .. } => self.add(FramePart::Whole),
            StmtKind::Output { wire, .. } => {
                if let Target::Port { port, .. } = self.m.wires[wire.index()].to {
                    self.port(port)
                }
            }
            s if walk::outgoing(s).is_some() => self.add(FramePart::Whole),
            _ => {}
        }
        walk::stmt_exprs(s, &mut |e| self.expr(e));
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn expr(&mut self, e: &Expr) {
        match &*e.kind {
            // Its length is no byte of it.
            ExprKind::Builtin(Builtin::LenBytes, args) if args.iter().all(is_payload) => {
                self.add(FramePart::Headers(0));
                return;
            }
            ExprKind::Builtin(Builtin::Slice, args) => {
                if let [of, from, to] = &args[..] {
                    if let (true, ExprKind::Int(n)) = (is_payload(of), &*to.kind) {
                        self.add(u32::try_from(*n).map_or(FramePart::Whole, FramePart::Headers));
                        return self.expr(from);
                    }
                }
            }
            ExprKind::Payload(..) => self.add(FramePart::Whole),
            ExprKind::ChecksumOk(_, _) => self.add(FramePart::Whole),
            ExprKind::Local(_) if matches!(self.m.ty(e.ty), Ty::Msg(_)) => self.add(FramePart::Whole),
            ExprKind::HasMsg(_) => self.add(FramePart::Whole),
            _ => {}
        }
        if let Some(path) = walk::path_of(e) {
            self.path(path)
        }
        walk::children(e, &mut |e| self.expr(e));
    }

    /// A field that is read. A checksum may be one that the kernel has left to be completed, which
    /// takes the whole frame.
    fn path(&mut self, path: &Path) {
        self.add(FramePart::Headers(0));
        let [Step::Field(header), Step::Field(f), ..] = &path.steps[..] else { return };
        let layers = self.m.unit(self.unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
        let sum =
            |l: &Layer| self.m.unit(l.unit).header.checksum.is_some_and(|c| c.field == *f && c.over != Over::Header);
        if layers.iter().any(|l| l.header == *header && sum(l)) {
            self.add(FramePart::Whole)
        }
    }
}

fn is_payload(e: &Expr) -> bool {
    matches!(*e.kind, ExprKind::Payload(..))
}
