//! Elements that look for the headers of their packets anew.
//!
//! In: the graph as it was lowered. Out: outputs whose packets have other headers than their sender
//! has found are `fresh`. So an element sees the packet that it gets, as behind a queue. It finds a
//! header that its sender has put in, or one that lay within another that was taken out.
//!
//! An output is fresh if some way to it puts a header in or takes one out. So it is behind the
//! change of a field that tells which headers follow. Elements that only pass their packets on
//! leave that to those behind.

use crate::*;
use std::collections::BTreeSet;

const FRAME: LocalId = LocalId(0);

pub fn run(m: &mut Module) {
    let order = m.inputs_in_order();
    let mut uses = vec![false; m.inputs.len()];
    for id in order.iter().rev() {
        let Some(body) = &m.inputs[id.index()].body else { continue };
        uses[id.index()] = asks_for_headers(body) || m.outputs(&body.block).iter().any(|to| uses[to.index()]);
    }
    let mut pass = Freshness { m, uses, stale: vec![false; m.inputs.len()], fresh: Vec::new(), tells: Vec::new() };
    let mut found = Vec::new();
    for h in m.handlers.iter() {
        if let Some(unit) = h.on.frame_unit() {
            found.push(pass.body(unit, &h.body, false));
        } else {
            found.push(Vec::new());
        }
    }
    let mut of_inputs = vec![Vec::new(); m.inputs.len()];
    for id in order {
        let input = &m.inputs[id.index()];
        if let Some(b) = &input.body {
            of_inputs[id.index()] = pass.body(input.unit, b, pass.stale[id.index()]);
        }
    }
    for (h, fresh) in m.handlers.iter_mut().zip(found) {
        mark(&mut h.body.block, &mut fresh.into_iter());
    }
    for (i, fresh) in m.inputs.iter_mut().zip(of_inputs) {
        if let Some(b) = &mut i.body {
            mark(&mut b.block, &mut fresh.into_iter());
        }
    }
}

/// Sets what was found of each output, in their order.
fn mark(block: &mut Block, found: &mut dyn Iterator<Item = bool>) {
    for s in block {
        if let StmtKind::Output { fresh, .. } = &mut s.kind {
            *fresh = found.next().unwrap_or_default();
        }
        walk::stmt_blocks_mut(&mut s.kind, &mut |b| mark(b, found));
    }
}

/// Whether an input itself asks for a header.
fn asks_for_headers(body: &Body) -> bool {
    let mut uses = false;
    walk::block_exprs(&body.block, &mut |e| {
        uses |= matches!(&*e.kind, ExprKind::Payload(..) | ExprKind::ChecksumOk(..))
            || walk::path_of(e).is_some_and(|p| p.root == Root::Local(FRAME))
    });
    walk::stmts(&body.block, &mut |s| uses |= elements::changes_frame(&s.kind));
    uses
}

/// The fields of a frame's headers that tell which headers there are, and where they end.
fn telling(m: &Module, unit: UnitId) -> BTreeSet<(u32, FieldId)> {
    let layers = m.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
    let mut found = BTreeSet::new();
    for l in layers {
        for cond in l.after.iter().filter_map(|a| a.cond.as_ref()) {
            walk::expr(cond, &mut |e| {
                let Some([Step::Field(h), Step::Field(f), ..]) = walk::path_of(e).map(|p| &p.steps[..]) else { return };
                found.extend(layers.iter().position(|l| l.header == *h).map(|n| (n as u32, *f)));
            });
        }
    }
    for (n, l) in layers.iter().enumerate() {
        let header = &m.unit(l.unit).header;
        found.extend(header.covers.iter().map(|c| c.field).chain(header.partial).map(|f| (n as u32, f)));
        m.unit_exprs(l.unit, &mut |e, _| {
            walk::expr(e, &mut |e| {
                if let Some([Step::Field(f), ..]) = walk::path_of(e).map(|p| &p.steps[..]) {
                    found.insert((n as u32, *f));
                }
            })
        });
    }
    found
}

struct Freshness<'m> {
    m: &'m Module,
    /// Inputs that ask for a header, or send to one that does.
    uses: Vec<bool>,
    /// Inputs whose packets may have other headers than were found, with which they begin.
    stale: Vec<bool>,
    /// Of the body at hand: of each output, whether it is fresh.
    fresh: Vec<bool>,
    tells: Vec<(UnitId, BTreeSet<(u32, FieldId)>)>,
}

impl Freshness<'_> {
    fn body(&mut self, unit: UnitId, b: &Body, stale: bool) -> Vec<bool> {
        if !self.tells.iter().any(|(u, _)| *u == unit) {
            self.tells.push((unit, telling(self.m, unit)));
        }
        self.fresh.clear();
        let mut stale = stale;
        self.block(unit, &b.block, &mut stale);
        std::mem::take(&mut self.fresh)
    }

    /// The ways of a block are looked at one behind the other, as if all were taken.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn block(&mut self, unit: UnitId, block: &Block, stale: &mut bool) {
        for s in block {
            if let StmtKind::For { body, .. } | StmtKind::Loop { body, .. } = &s.kind {
                // An output may stand before a change of the round before.
                *stale |= self.changes(unit, body);
            }
            match &s.kind {
                StmtKind::Output { wire, .. } => self.output(*wire, *stale),
                StmtKind::Frame { act, .. } => *stale |= self.makes_stale(unit, act),
                _ => {}
            }
            walk::stmt_blocks(&s.kind, &mut |b| self.block(unit, b, stale));
        }
    }

    fn output(&mut self, wire: WireId, stale: bool) {
        let to = self.m.wires.get(wire.index()).and_then(|w| w.to.input());
        let fresh = stale && to.is_some_and(|i| self.uses[i.index()]);
        if let Some(i) = to {
            self.stale[i.index()] |= stale && !fresh;
        }
        self.fresh.push(fresh);
    }

    fn changes(&self, unit: UnitId, block: &Block) -> bool {
        let mut found = false;
        walk::stmts(block, &mut |s| {
            found |= matches!(&s.kind, StmtKind::Frame { act, .. } if self.makes_stale(unit, act))
        });
        found
    }

    fn makes_stale(&self, unit: UnitId, act: &FrameAct) -> bool {
        let tells = |layer: u32, f: FieldId| self.tells.iter().any(|(u, t)| *u == unit && t.contains(&(layer, f)));
        match act {
            FrameAct::Insert { .. } | FrameAct::Remove { .. } | FrameAct::Payload { .. } => true,
            FrameAct::Set { layer, field, .. } => tells(*layer, *field),
            FrameAct::Swap { layer, a, b } => tells(*layer, *a) || tells(*layer, *b),
            // Behind these the headers are known.
            FrameAct::InC { .. } | FrameAct::Parse => false,
            FrameAct::Checksum { .. } | FrameAct::Save { .. } | FrameAct::Restore { .. } | FrameAct::Send { .. } => {
                false
            }
        }
    }
}
