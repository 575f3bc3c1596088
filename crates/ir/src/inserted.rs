//! Changes of a packet that a header which was inserted before does not follow.
//!
//! In: bodies as they were lowered. Out: changes behind an `insert` of the same handler. They
//! would make the lengths or checksums of the inserted headers wrong, or their order. These are
//! set when a header is inserted, and the handler has no name for it. An element behind finds the
//! header as any other one.

use crate::frame::{checksum_flag, leads_to};
use crate::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateWhy {
    /// The inserted header has the length of what is behind it.
    Length,
    /// Its checksum covers what is behind it.
    Checksum,
    /// A checksum covers the addresses of a network header, which is another one now.
    Addresses,
    /// A header that was inserted at the same place is in front of it.
    Order,
}

/// A change, and the `insert` before it.
#[derive(Clone, Debug, PartialEq)]
pub struct LateChange {
    pub span: Span,
    pub insert: Span,
    pub header: UnitId,
    pub why: LateWhy,
}

/// All of them, in the order of the bodies.
pub fn late_changes(m: &Module) -> Vec<LateChange> {
    let mut found = Vec::new();
    let handlers = m.handlers.iter().filter_map(|h| h.on.frame_unit().map(|u| (u, &h.body)));
    let inputs = m.inputs.iter().filter_map(|i| i.body.as_ref().map(|b| (i.unit, b)));
    // Most have no `insert`. The ways through the others are followed, loops in loops twice each.
    for (unit, body) in handlers.chain(inputs).filter(|(_, b)| inserts(b)) {
        let layers = m.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
        let mut walk = Walk { m, layers, loops: Vec::new(), found: Vec::new() };
        walk.block(&body.block, Some(Inserted::default()));
        for f in walk.found {
            if !found.contains(&f) {
                found.push(f)
            }
        }
    }
    found
}

fn inserts(body: &Body) -> bool {
    let mut found = false;
    walk::stmts(&body.block, &mut |s| found |= matches!(s.kind, StmtKind::Frame { act: FrameAct::Insert { .. }, .. }));
    found
}

/// An `insert` that may have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Insert {
    span: Span,
    before: Option<u32>,
    /// Headers of it, the last of each kind.
    length: Option<UnitId>,
    checksum: Option<UnitId>,
    addresses: Option<UnitId>,
    first: Option<UnitId>,
}

/// The state at a point of a body: what may have been done on a way to it.
#[derive(Clone, Debug, Default)]
struct Inserted {
    inserts: Vec<Insert>,
    /// A network header has been taken out.
    network: bool,
}

/// None: no way leads there.
type Reached = Option<Inserted>;

fn join(a: Reached, b: Reached) -> Reached {
    let (Some(mut a), b) = (a.clone(), b.clone()) else { return b };
    if let Some(b) = b {
        a.network |= b.network;
        for i in b.inserts {
            if !a.inserts.contains(&i) {
                a.inserts.push(i)
            }
        }
    }
    Some(a)
}

struct Walk<'m> {
    m: &'m Module,
    layers: &'m [Layer],
    /// Reached `break` of the loops around.
    loops: Vec<Reached>,
    found: Vec<LateChange>,
}

impl Walk<'_> {
    fn block(&mut self, block: &Block, mut at: Reached) -> Reached {
        for s in block {
            at = self.stmt(s, at);
        }
        at
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &Stmt, at: Reached) -> Reached {
        match &s.kind {
            StmtKind::If { then, other, .. } => {
                let (a, b) = (self.block(then, at.clone()), self.block(other, at));
                join(a, b)
            }
            StmtKind::Switch { cases, default, .. } => {
                let end = self.block(default, at.clone());
                cases.iter().fold(end, |end, (_, b)| join(end, self.block(b, at.clone())))
            }
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } => {
                self.loops.push(at.clone());
                let first = self.block(body, at.clone());
                let again = self.block(body, join(at, first));
                join(again, self.loops.pop().flatten())
            }
            StmtKind::Break | StmtKind::Continue => {
                if let Some(l) = self.loops.last_mut() {
                    *l = join(l.take(), at);
                }
                None
            }
            StmtKind::Return(_) | StmtKind::Fault { .. } => None,
            StmtKind::Frame { act, .. } => at.map(|state| self.act(s.span, act, state)),
            kind => {
                let mut at = at;
                walk::stmt_blocks(kind, &mut |b| at = self.block(b, at.take()));
                at
            }
        }
    }

    fn act(&mut self, span: Span, act: &FrameAct, mut state: Inserted) -> Inserted {
        match act {
            FrameAct::Insert { before, behind, parts, .. } => {
                for i in &state.inserts {
                    match behind {
                        // It goes in front of all that was inserted there.
                        Some(_) if *before == i.before => self.tell(span, i, i.first, LateWhy::Order),
                        _ if self.is_behind(i, *before) => self.moved(span, i),
                        _ => {}
                    }
                }
                state.inserts.push(self.insert(span, *before, parts));
            }
            FrameAct::Remove { layer } => {
                self.all_behind(&state, span, Some(*layer), Self::moved);
                state.network |= self.header(*layer).is_some_and(|h| h.addresses.is_some());
            }
            FrameAct::Payload { layer, .. } => {
                for i in &state.inserts {
                    if layer.is_none() || self.is_behind(i, *layer) {
                        self.moved(span, i)
                    }
                }
            }
            FrameAct::Set { layer, field, .. } if self.evens_out(*layer, *field) => {}
            FrameAct::Set { layer, .. } | FrameAct::Swap { layer, .. } => {
                self.all_behind(&state, span, Some(*layer), Self::changed)
            }
            FrameAct::Checksum { layer } => {
                let over = self.header(*layer).and_then(|h| h.checksum).map(|c| c.over);
                let covers = matches!(over, Some(Over::Transport { .. }));
                if covers && state.network {
                    self.all_behind(&state, span, Some(*layer), Self::addressed)
                }
                self.all_behind(&state, span, Some(*layer), Self::changed)
            }
            FrameAct::InC { .. } | FrameAct::Parse => return Inserted::default(),
            FrameAct::Save { .. } | FrameAct::Restore { .. } | FrameAct::Send { .. } => {}
        }
        state
    }

    fn header(&self, layer: u32) -> Option<&Header> {
        self.layers.get(layer as usize).map(|l| &self.m.unit(l.unit).header)
    }

    /// Whether a field and its header's own checksum change by opposite amounts. Then sums around
    /// the header stay. Addresses are in other checksums, too.
    fn evens_out(&self, layer: u32, field: FieldId) -> bool {
        let Some(header) = self.header(layer) else { return false };
        let address = header.addresses.is_some_and(|(a, b)| field == a || field == b);
        let optional = |c: &Checksum| c.when.is_some() || matches!(c.over, Over::Transport { optional: true, .. });
        let own = header.checksum.filter(|c| !optional(c));
        !address && own.is_some_and(|c| c.field != field)
    }

    fn insert(&self, span: Span, before: Option<u32>, parts: &[Part]) -> Insert {
        let last = |is: &dyn Fn(&Header) -> bool| {
            parts.iter().rev().filter_map(|p| p.unit).find(|u| is(&self.m.unit(*u).header))
        };
        let far = |h: &Header| h.checksum.is_some_and(|c| matches!(c.over, Over::Message | Over::Transport { .. }));
        let summed = |p: &&Part| p.unit.is_some_and(|u| far(&self.m.unit(u).header)) && !lacks_checksum(self.m, p);
        Insert {
            span,
            before,
            length: last(&|h| h.covers.is_some()),
            checksum: parts.iter().rev().find(summed).and_then(|p| p.unit),
            addresses: last(&|h| h.addresses.is_some()),
            first: parts.iter().find_map(|p| p.unit),
        }
    }

    /// Whether a place (None: behind the last header) is behind what was inserted.
    fn is_behind(&self, i: &Insert, place: Option<u32>) -> bool {
        match (i.before, place) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(before), Some(layer)) => before == layer || leads_to(self.layers, before, layer),
        }
    }

    fn all_behind(&mut self, state: &Inserted, span: Span, place: Option<u32>, tell: fn(&mut Self, Span, &Insert)) {
        for i in &state.inserts {
            if self.is_behind(i, place) {
                tell(self, span, i)
            }
        }
    }

    fn moved(&mut self, span: Span, i: &Insert) {
        self.tell(span, i, i.length, LateWhy::Length);
        if i.length.is_none() {
            self.changed(span, i)
        }
    }

    fn addressed(&mut self, span: Span, i: &Insert) {
        self.tell(span, i, i.addresses, LateWhy::Addresses)
    }

    fn changed(&mut self, span: Span, i: &Insert) {
        self.tell(span, i, i.checksum, LateWhy::Checksum)
    }

    fn tell(&mut self, span: Span, i: &Insert, header: Option<UnitId>, why: LateWhy) {
        if let Some(header) = header {
            self.found.push(LateChange { span, insert: i.span, header, why })
        }
    }
}

/// Whether a new header surely has no checksum: the flag by which it has one is 0.
#[allow(clippy::wildcard_enum_match_arm, reason = "one kind of many is looked for")]
fn lacks_checksum(m: &Module, part: &Part) -> bool {
    let Some((byte, mask)) = part.unit.and_then(|u| checksum_flag(m, u)) else { return false };
    let mut at = 0;
    for s in &part.body {
        let StmtKind::Emit(Emit::UInt { value, bytes, big }) = &s.kind else { return false };
        let n = u32::from(*bytes);
        if byte < at + n {
            let k = if *big { at + n - 1 - byte } else { byte - at };
            return !may_have(value, 8 * k + mask.trailing_zeros());
        }
        at += n;
    }
    false
}

/// Whether a bit of a number may be set, as the way tells in which fields are put together.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn may_have(e: &Expr, bit: u32) -> bool {
    match &*e.kind {
        ExprKind::Int(n) => n.checked_shr(bit).unwrap_or(0) & 1 == 1,
        ExprKind::Cast(a) => may_have(a, bit),
        ExprKind::Binary(BinOp::BitOr, a, b) => may_have(a, bit) || may_have(b, bit),
        ExprKind::Binary(BinOp::BitAnd, a, b) => may_have(a, bit) && may_have(b, bit),
        ExprKind::Binary(BinOp::Shl, a, n) => match *n.kind {
            ExprKind::Int(n) => u32::try_from(n).is_ok_and(|n| n <= bit && may_have(a, bit - n)),
            _ => true,
        },
        _ => true,
    }
}
