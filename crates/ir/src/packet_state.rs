//! The state of packets: values that a program declares. They go along with a packet and are not
//! in its bytes. Also the parts of a packet that cross a queue.
//!
//! In a body a field of the state is a local. [`StmtKind::Output`] and [`FrameAct::Send`] give the
//! values on. An [`Input`] has a local for each field, which its sender sets. A handler begins with
//! what its packet brings ([`ExprKind::PacketState`]).

use crate::*;

/// A field of the state of packets.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketField {
    /// With the name of the element that declares it: `Top.user`.
    pub name: String,
    pub ty: TyId,
    /// The value that a packet begins with.
    pub init: Expr,
    /// The program gives no such value: the field is to be written before it is read.
    pub required: bool,
}

/// The parts of a packet that cross a queue. Set by the pass `carries`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carries {
    pub part: FramePart,
    /// The program says that the whole frame does.
    pub fixed: bool,
    /// The fields of the packet's state that are read behind the queue, in ascending order.
    pub state: Vec<PacketFieldId>,
}

/// Most fields of a program's packets.
pub const FIELDS_MAX: usize = 64;
/// Most bytes of the fields together.
pub const BYTES_MAX: u64 = 64;

/// Whether the state of packets can have a field of this type.
pub fn is_field(m: &Module, ty: TyId) -> bool {
    match m.ty(ty) {
        Ty::Bool | Ty::UInt(..=64) | Ty::Int(..=64) | Ty::Ip => true,
        Ty::UInt(_)
        | Ty::Int(_)
        | Ty::Unit
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Record(_)
        | Ty::Tuple(_)
        | Ty::Msg(_) => false,
    }
}

impl Module {
    /// The parts that a queue carries. None: the port is no queue.
    pub fn carries(&self, port: PortId) -> Option<&Carries> {
        self.ports.get(port.index()).filter(|p| p.kind.is_queue()).map(|p| &p.carries)
    }
}

/// A field that may be read before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    pub field: PacketFieldId,
    /// Where it is read.
    pub read: Span,
    /// Where a packet comes from that lacks it; None: the packet has just come in.
    pub sent: Option<Span>,
}

/// Fields without a default that may be read before they are written. `m` has been lowered; its
/// passes have not run.
pub fn unwritten(m: &Module) -> Vec<Unwritten> {
    if m.packet.iter().all(|f| !f.required) {
        return Vec::new();
    }
    let mut w = Writes::new(m);
    // The known fields can only become fewer, so it ends.
    while w.round() {}
    w.found.clear();
    w.telling = true;
    w.round();
    let mut found = w.found;
    found.sort_by_key(|u| (u.read.file, u.read.start, u.field));
    found.dedup_by_key(|u| (u.read, u.field));
    found
}

/// A set of fields.
type Fields = u64;
const ALL: Fields = u64::MAX;

fn bit(f: PacketFieldId) -> Fields {
    1 << (f.index() % FIELDS_MAX)
}

/// The fields that a packet surely has where it comes in, and where one comes from that lacks some.
#[derive(Clone, Default)]
struct EntryFields {
    has: Fields,
    lacking: Vec<(Fields, Option<Span>)>,
}

struct Writes<'m> {
    m: &'m Module,
    /// Fields that all packets have from the beginning.
    always: Fields,
    inputs: Vec<EntryFields>,
    queues: Vec<EntryFields>,
    changed: bool,
    telling: bool,
    found: Vec<Unwritten>,
    /// Of the body at hand: its locals that are fields, and how its packet came in.
    locals: Vec<Option<PacketFieldId>>,
    entry: EntryFields,
    /// The known fields at a `break` and a `continue` of the loops around.
    loops: Vec<Fields>,
}

impl<'m> Writes<'m> {
    fn new(m: &'m Module) -> Self {
        let fields = (0..m.packet.len() as u32).map(PacketFieldId);
        let always = fields.filter(|f| !m.packet[f.index()].required).fold(0, |a, f| a | bit(f));
        let all = EntryFields { has: ALL, lacking: Vec::new() };
        Writes {
            m,
            always,
            inputs: vec![all.clone(); m.inputs.len()],
            queues: vec![all; m.ports.len()],
            changed: false,
            telling: false,
            found: Vec::new(),
            locals: Vec::new(),
            entry: EntryFields::default(),
            loops: Vec::new(),
        }
    }

    /// Goes through all bodies once; whether something became less.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn round(&mut self) -> bool {
        let m = self.m;
        self.changed = false;
        for h in m.handlers.iter().filter(|h| !h.on.is_test()) {
            let entry = match h.on {
                On::Frame { port, .. } if m.is_queue(port) => self.queues[port.index()].clone(),
                _ => EntryFields { has: self.always, lacking: vec![(!self.always, None)] },
            };
            let mut locals = vec![None; h.body.locals.len()];
            walk::stmts(&h.body.block, &mut |s| {
                if let Some((l, f)) = brought(&s.kind) {
                    locals[l.index()] = Some(f)
                }
            });
            self.body(&h.body, locals, entry);
        }
        for (n, i) in m.inputs.iter().enumerate() {
            let Some(body) = &i.body else { continue };
            let mut locals = vec![None; body.locals.len()];
            for (k, f) in i.state.iter().enumerate() {
                locals[i.first_field() + k] = Some(*f)
            }
            self.body(body, locals, self.inputs[n].clone());
        }
        self.changed
    }

    fn body(&mut self, body: &Body, locals: Vec<Option<PacketFieldId>>, entry: EntryFields) {
        (self.locals, self.entry) = (locals, entry);
        self.loops.clear();
        self.block(&body.block, self.entry.has);
    }

    /// The known fields behind a block.
    fn block(&mut self, block: &Block, mut known: Fields) -> Fields {
        for s in block {
            known = self.stmt(s, known)
        }
        known
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &Stmt, known: Fields) -> Fields {
        if brought(&s.kind).is_some() {
            return known;
        }
        match &s.kind {
            StmtKind::Output { wire, state, .. } => {
                self.read(&s.kind, s.span, known, Some(state));
                if let Some(w) = self.m.wires.get(wire.index()) {
                    self.sent(w.to, self.given(state, known), s.span)
                }
                known
            }
            StmtKind::Frame { act: FrameAct::Send { port, state, .. }, .. } => {
                self.read(&s.kind, s.span, known, Some(state));
                self.sent(Target::Port { port: *port, index: 0 }, self.given(state, known), s.span);
                known
            }
            StmtKind::SendFrame { port, .. } => {
                self.sent(Target::Port { port: *port, index: 0 }, self.always, s.span);
                known
            }
            kind => {
                self.read(kind, s.span, known, None);
                self.ways(s, known)
            }
        }
    }

    /// The known fields behind a statement with blocks.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn ways(&mut self, s: &Stmt, known: Fields) -> Fields {
        match &s.kind {
            StmtKind::Set(l, _) => known | self.locals.get(l.index()).copied().flatten().map_or(0, bit),
            StmtKind::If { then, other, .. } => self.block(then, known) & self.block(other, known),
            StmtKind::Switch { cases, default, .. } => {
                let all = cases.iter().map(|c| &c.1).chain([default]);
                all.fold(ALL, |a, b| a & self.block(b, known))
            }
            // There may be no round.
            StmtKind::For { body, .. } => {
                self.loops.push(ALL);
                self.block(body, known);
                self.loops.pop();
                known
            }
            StmtKind::Loop { body, .. } => {
                self.loops.push(ALL);
                let end = self.block(body, known);
                end & self.loops.pop().unwrap_or(ALL)
            }
            StmtKind::Break | StmtKind::Continue => {
                if let Some(l) = self.loops.last_mut() {
                    *l &= known
                }
                ALL
            }
            StmtKind::Return(_) | StmtKind::Fault { .. } => ALL,
            kind => {
                let mut known = known;
                walk::stmt_blocks(kind, &mut |b| known = self.block(b, known));
                known
            }
        }
    }

    /// The fields that a packet has which is sent with this state.
    fn given(&self, state: &[Carried], known: Fields) -> Fields {
        let has = |c: &Carried| match self.field_of(&c.value) {
            Some(f) => known & bit(f) != 0,
            None => true,
        };
        state.iter().filter(|c| has(c)).fold(self.always, |a, c| a | bit(c.field))
    }

    /// The field that an expression is.
    fn field_of(&self, e: &Expr) -> Option<PacketFieldId> {
        let ExprKind::Local(l) = *e.kind else { return None };
        self.locals.get(l.index()).copied().flatten()
    }

    fn sent(&mut self, to: Target, has: Fields, span: Span) {
        let entry = match to {
            Target::Input { input, .. } => self.inputs.get_mut(input.index()),
            Target::Port { port, .. } if self.m.is_queue(port) => self.queues.get_mut(port.index()),
            Target::Port { .. } => None,
        };
        let Some(entry) = entry else { return };
        let less = entry.has & !has;
        if less != 0 {
            entry.lacking.push((less, Some(span)));
            entry.has &= has;
            self.changed = true;
        }
    }

    /// Notes the fields that a statement reads by itself; `passed` are given on.
    fn read(&mut self, kind: &StmtKind, span: Span, known: Fields, passed: Option<&Vec<Carried>>) {
        if !self.telling {
            return;
        }
        let mut read = Vec::new();
        walk::stmt_exprs(kind, &mut |e| {
            if passed.is_some_and(|all| all.iter().any(|c| std::ptr::eq(&c.value, e))) {
                return;
            }
            walk::expr(e, &mut |e| read.extend(self.field_of(e)))
        });
        for field in read.into_iter().filter(|f| known & bit(*f) == 0) {
            let way = self.entry.lacking.iter().find(|(less, _)| less & bit(field) != 0);
            self.found.push(Unwritten { field, read: span, sent: way.and_then(|w| w.1) })
        }
    }
}

/// The local that a handler sets to what its packet brings.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn brought(s: &StmtKind) -> Option<(LocalId, PacketFieldId)> {
    let StmtKind::Set(l, e) = s else { return None };
    match &*e.kind {
        ExprKind::PacketState(_, f) => Some((*l, *f)),
        _ => None,
    }
}
