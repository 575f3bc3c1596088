//! Values that a handler keeps in registers over a batch.
//!
//! In: handlers of frames with the plans of their batch lookups. Out: [`HoistedState`]: counters
//! and hits that are written back behind the batch, and conditions that are evaluated before it. In
//! C no store to a frame or a table can touch them meanwhile, so compilers keep them in registers.

use super::batch_lookup::is_steady;
use super::specialize::{size, SMALL};
use crate::plans::{Condition, Destination, HoistedState, TableLookup};
use crate::*;
use std::collections::BTreeSet;

pub fn run(m: &mut Module) {
    let plans: Vec<_> = m.handlers.iter().map(|h| plan(m, h)).collect();
    for (h, plan) in m.handlers.iter_mut().zip(plans) {
        h.plan.hoisted = plan
    }
}

/// The plan of a handler.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn plan(m: &Module, h: &Handler) -> HoistedState {
    let mut plan = HoistedState::default();
    if !matches!(h.on, On::Frame { .. }) {
        return plan;
    }
    let mut counters = BTreeSet::new();
    walk::stmts(&h.body.block, &mut |s| match &s.kind {
        StmtKind::Count(c, _) => drop(counters.insert(*c)),
        StmtKind::If { cond, then, other } if is_fixed(m, cond) => {
            let n = plan.condition(cond).unwrap_or_else(|| {
                plan.conditions.push(Condition { cond: cond.clone(), optional: false });
                plan.conditions.len() - 1
            });
            plan.conditions[n].optional |= other.is_empty() && size(then) > SMALL
        }
        _ => {}
    });
    plan.counters = counters.difference(&read_counters(m)).copied().collect();
    plan.lookups = lookups(h).map(|l| l.table).collect::<BTreeSet<_>>().into_iter().collect();
    let exact = h.plan.batch.as_ref().and_then(|b| b.exact.as_ref());
    plan.filled = exact.map(|l| l.table).filter(|t| is_steady(m, *t));
    plan.output = single_output(m, &h.body.block);
    plan
}

/// Why a backend must not follow a plan; None: it may.
pub fn illegal(m: &Module, h: &Handler, plan: &HoistedState) -> Option<&'static str> {
    if plan.is_empty() {
        return None;
    }
    if !matches!(h.on, On::Frame { .. }) {
        return Some("only handlers of frames have one");
    }
    let read = read_counters(m);
    if plan.counters.iter().any(|c| c.index() >= m.counters.len() || read.contains(c)) {
        return Some("the program reads a counter");
    }
    if plan.conditions.iter().any(|c| !is_fixed(m, &c.cond)) {
        return Some("a frame may change a condition");
    }
    if plan.lookups.iter().any(|t| lookups(h).all(|l| l.table != *t)) {
        return Some("a table is not one of the batch lookup");
    }
    let exact = h.plan.batch.as_ref().and_then(|b| b.exact.as_ref()).map(|l| l.table);
    if plan.filled.is_some_and(|t| exact != Some(t) || !is_steady(m, t)) {
        return Some("the table that is asked for entries is not the exact one, or frames change it");
    }
    if plan.output.is_some() && plan.output != single_output(m, &h.body.block) {
        return Some("frames leave elsewhere, too");
    }
    None
}

fn lookups(h: &Handler) -> impl Iterator<Item = &TableLookup> {
    h.plan.batch.iter().flat_map(|b| [&b.exact, &b.masked]).flatten()
}

fn read_counters(m: &Module) -> BTreeSet<CounterId> {
    let mut read = BTreeSet::new();
    m.exprs(&mut |e, _| {
        if let ExprKind::Counter(c) = &*e.kind {
            read.insert(*c);
        }
    });
    read
}

/// Whether a condition compares parameters, and state that no frame changes, with constants.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn is_fixed(m: &Module, cond: &Expr) -> bool {
    let (mut only, mut any) = (!cond.may_fault(), false);
    walk::expr(cond, &mut |e| match &*e.kind {
        ExprKind::Param(_) => any = true,
        ExprKind::State(s) if !set_by_frames(m, *s) && matches!(m.ty(e.ty), Ty::UInt(..=64) | Ty::Bool) => any = true,
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::Bytes(_)
        | ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Cast(_) => {}
        ExprKind::Builtin(Builtin::LenBytes, _) => {}
        _ => only = false,
    });
    only && any
}

/// Whether a handler of frames, or an element that it joins to, sets a part of the state.
fn set_by_frames(m: &Module, state: StateId) -> bool {
    let mut sets = false;
    let handlers = m.handlers.iter().filter(|h| matches!(h.on, On::Frame { .. })).map(|h| &h.body);
    handlers.chain(m.inputs.iter().filter_map(|i| i.body.as_ref())).for_each(|b| {
        walk::stmts(&b.block, &mut |s| sets |= matches!(&s.kind, StmtKind::SetState(id, _) if *id == state))
    });
    sets
}

/// The single output of a handler. None: there are several or none, or a frame may leave in a
/// joined element. Also where frames of queues follow, which are a batch of their own.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn single_output(m: &Module, block: &Block) -> Option<Destination> {
    let (mut outputs, mut alone) = (BTreeSet::new(), !m.has_queues());
    walk::stmts(block, &mut |s| match &s.kind {
        StmtKind::Frame { frame: LocalId(0), act: FrameAct::Send { port, index, last: true, .. } } => {
            match *index.kind {
                ExprKind::Int(n) => drop(outputs.insert(Destination { port: *port, instance: n as u32 })),
                _ => alone = false,
            }
        }
        StmtKind::Frame { act: FrameAct::Send { .. } | FrameAct::Save { .. } | FrameAct::Restore { .. }, .. }
        | StmtKind::SendFrame { .. }
        | StmtKind::Output { .. } => alone = false,
        _ => {}
    });
    outputs.pop_first().filter(|_| alone && outputs.is_empty())
}
