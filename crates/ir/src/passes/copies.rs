//! Drops copies of packets that no element needs.
//!
//! In: frames that the pass `inline_elements` saves before an element changes them, and restores
//! behind it ([`FrameAct::Save`], [`FrameAct::Restore`]). Out: both are dropped where no later
//! statement uses the saved frame. So a chain of elements copies nothing.

use crate::*;
use std::collections::HashSet;

const FRAME: LocalId = LocalId(0);

pub fn run(m: &mut Module) {
    let order = m.inputs_in_order();
    // Pairs around an input, at those of its senders that are deepest.
    let mut around = vec![0; m.inputs.len()];
    let wires = std::mem::take(&mut m.wires);
    let mut note = |wire: WireId, depth: u32| {
        if let Some(Target::Input { input: to, .. }) = wires.get(wire.index()).map(|w| w.to) {
            around[to.index()] = depth.max(around[to.index()])
        }
    };
    for h in m.handlers.iter_mut().filter(|h| matches!(h.on, On::Frame { .. })) {
        body(&mut h.body.block, 0, &mut note)
    }
    for id in order {
        let depth = around[id.index()];
        let mut note = |wire: WireId, depth: u32| {
            if let Some(Target::Input { input: to, .. }) = wires.get(wire.index()).map(|w| w.to) {
                around[to.index()] = depth.max(around[to.index()])
            }
        };
        if let Some(b) = &mut m.inputs[id.index()].body {
            body(&mut b.block, depth, &mut note)
        }
    }
    m.wires = wires;
}

fn body(block: &mut Block, depth: u32, note: &mut dyn FnMut(WireId, u32)) {
    let mut used = Used::default();
    used.block(block, false);
    settle(block, &used.behind, depth, note);
}

/// The pair that a statement belongs to.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn pair(s: &Stmt) -> Option<(u32, bool)> {
    match &s.kind {
        StmtKind::Frame { act: FrameAct::Save { copy }, .. } => Some((*copy, true)),
        StmtKind::Frame { act: FrameAct::Restore { copy }, .. } => Some((*copy, false)),
        _ => None,
    }
}

/// Drops pairs that are not needed, and numbers the others by how many are around them. `note` is
/// told how many are around each output.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn settle(block: &mut Block, needed: &HashSet<u32>, depth: u32, note: &mut dyn FnMut(WireId, u32)) {
    let kept: HashSet<u32> =
        block.iter().filter_map(pair).filter(|(n, save)| !save && needed.contains(n)).map(|p| p.0).collect();
    block.retain(|s| pair(s).is_none_or(|(n, _)| kept.contains(&n)));
    let mut depth = depth;
    for s in block {
        match &mut s.kind {
            StmtKind::Frame { act: FrameAct::Save { copy }, .. } => {
                *copy = depth;
                depth += 1;
            }
            StmtKind::Frame { act: FrameAct::Restore { copy }, .. } => {
                depth = depth.saturating_sub(1);
                *copy = depth;
            }
            StmtKind::Output { wire, .. } => note(*wire, depth),
            kind => walk::stmt_blocks_mut(kind, &mut |b| settle(b, needed, depth, note)),
        }
    }
}

/// Which pairs have a use of the frame behind them: backward over the structured code, as in
/// `liveness`.
#[derive(Default)]
struct Used {
    behind: HashSet<u32>,
    /// At `break` and `continue` of the loops around.
    loops: Vec<(bool, bool)>,
}

impl Used {
    /// Whether the frame is used from the block's beginning on.
    fn block(&mut self, block: &Block, mut used: bool) -> bool {
        for s in block.iter().rev() {
            used = self.stmt(&s.kind, used)
        }
        used
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &StmtKind, used: bool) -> bool {
        match s {
            StmtKind::Break => self.loops.last().is_some_and(|l| l.0),
            StmtKind::Continue => self.loops.last().is_some_and(|l| l.1),
            StmtKind::Return(e) => e.as_ref().is_some_and(reads),
            StmtKind::Fault { .. } => false,
            StmtKind::If { cond, then, other } => {
                let (a, b) = (self.block(then, used), self.block(other, used));
                a || b || reads(cond)
            }
            StmtKind::Switch { on, cases, default } => {
                let ways = cases.iter().map(|c| &c.1).chain([default]);
                ways.fold(reads(on), |any, b| self.block(b, used) || any)
            }
            StmtKind::For { from, to, body, .. } => self.rounds(body, used) || reads(from) || reads(to),
            StmtKind::Loop { max, body } if *max <= 1 => self.looped(body, used, used),
            StmtKind::Loop { body, .. } => self.rounds(body, used),
            StmtKind::TableUpdate { key, body, .. } => self.block(body, used) || reads(key),
            StmtKind::Frame { act: FrameAct::Save { .. }, .. } => used,
            StmtKind::Frame { act: FrameAct::Restore { copy }, .. } => {
                if used {
                    self.behind.insert(*copy);
                }
                used
            }
            _ => used || uses(s),
        }
    }

    fn looped(&mut self, body: &Block, after: bool, again: bool) -> bool {
        self.loops.push((after, again));
        let used = self.block(body, again);
        self.loops.pop();
        used
    }

    fn rounds(&mut self, body: &Block, after: bool) -> bool {
        let first = self.looped(body, after, after) || after;
        self.looped(body, after, first) || after
    }
}

fn reads(e: &Expr) -> bool {
    let mut hit = false;
    walk::locals_read(e, &mut |l| hit |= l == FRAME);
    hit
}

fn uses(s: &StmtKind) -> bool {
    let mut hit = false;
    walk::stmt_locals_read(s, &mut |l| hit |= l == FRAME);
    walk::stmt_blocks(s, &mut |b| walk::stmts(b, &mut |s| walk::stmt_locals_read(&s.kind, &mut |l| hit |= l == FRAME)));
    hit
}
