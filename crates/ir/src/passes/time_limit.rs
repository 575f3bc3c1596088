//! Long loops look at the time that their activation has used.
//!
//! A bound of steps may be so high that a loop ends in years. Its core would do nothing else. So
//! each round of such a loop begins with a look: `if out_of_time(steps) { fault overload }`. Calls
//! in a row are no loop. So a function with many steps begins with a look, too, if it calls
//! functions with loops.
//!
//! In: bodies, behind the passes that move statements. Out: the same with looks. Handlers of the
//! start and the end have none: nothing else waits for their core, and they may go over large
//! tables.

use super::{pauses, steps};
use crate::*;

/// Loops with a higher bound, and such functions, look at the time: some milliseconds.
const LONG: u64 = 1 << 22;
/// The most steps that one look counts: the bound of a round is often far above its use.
const LOOK_MAX: u64 = 1 << 20;

pub fn run(m: &mut Module) {
    let called = called(m);
    for n in 0..m.handlers.len() {
        if is_limited(m.handlers[n].on) {
            let body = std::mem::take(&mut m.handlers[n].body);
            m.handlers[n].body = within_time(m, body);
        }
    }
    for n in 0..m.inputs.len() {
        if let Some(body) = m.inputs[n].body.take() {
            m.inputs[n].body = Some(within_time(m, body));
        }
    }
    for (n, _) in called.into_iter().enumerate().filter(|(_, called)| *called) {
        let FuncBody::Body(body) = m.funcs[n].body.clone() else { continue };
        let (cost, span) = (steps::of_func(m, FuncId(n as u32)), m.funcs[n].span);
        let mut body = within_time(m, body);
        if cost > LONG && calls_loops(m, &body) && !begins_with_look(&body.block) {
            body.block.insert(0, look(m, cost, span));
        }
        m.funcs[n].body = FuncBody::Body(body);
    }
}

/// Whether a handler has a limit.
pub fn is_limited(on: On) -> bool {
    !matches!(on, On::Start | On::End) && !on.is_test()
}

/// The functions that such handlers, and inputs, call. Others belong to grammars, whose values are
/// the same at each time.
fn called(m: &Module) -> Vec<bool> {
    let handlers = m.handlers.iter().filter(|h| is_limited(h.on)).map(|h| &h.body);
    let mut called = vec![false; m.funcs.len()];
    for b in handlers.chain(m.inputs.iter().filter_map(|i| i.body.as_ref())) {
        pauses::reach(m, &b.block, &mut called)
    }
    called
}

/// Whether a body calls a function that has a loop, directly or not.
fn calls_loops(m: &Module, body: &Body) -> bool {
    let mut called = vec![false; m.funcs.len()];
    pauses::reach(m, &body.block, &mut called);
    m.funcs.iter().zip(called).filter(|(_, called)| *called).any(|(f, _)| {
        let FuncBody::Body(b) = &f.body else { return false };
        let mut found = false;
        walk::stmts(&b.block, &mut |s| found |= rounds(&s.kind).is_some());
        found
    })
}

/// Whether a function, or an input that is joined to, looks at the time.
pub fn in_parts(m: &Module) -> bool {
    m.funcs.iter().any(|f| matches!(&f.body, FuncBody::Body(b) if has_look(b)))
        || m.inputs.iter().filter_map(|i| i.body.as_ref()).any(has_look)
}

/// Whether a body itself looks at the time.
pub fn has_look(b: &Body) -> bool {
    let mut found = false;
    walk::block_exprs(&b.block, &mut |e| found |= matches!(&*e.kind, ExprKind::Builtin(Builtin::OutOfTime, _)));
    found
}

fn begins_with_look(block: &[Stmt]) -> bool {
    let Some(StmtKind::If { cond, .. }) = block.first().map(|s| &s.kind) else { return false };
    matches!(&*cond.kind, ExprKind::Builtin(Builtin::OutOfTime, _))
}

fn look(m: &mut Module, steps: u64, span: Span) -> Stmt {
    let (ty, number) = (m.intern(Ty::Bool), m.intern(Ty::UInt(32)));
    let place = m.place(FaultPlace { name: "time".into(), span: Span { element: 0, ..span }, library: None });
    let steps = Expr { ty: number, kind: Box::new(ExprKind::Int(steps.min(LOOK_MAX).into())) };
    let cond = Expr { ty, kind: Box::new(ExprKind::Builtin(Builtin::OutOfTime, vec![steps])) };
    let then = vec![Stmt { span, kind: StmtKind::Fault { kind: FaultKind::OVERLOAD, place } }];
    Stmt { span, kind: StmtKind::If { cond, then, other: Vec::new() } }
}

/// A body whose long loops look at the time.
fn within_time(m: &mut Module, mut body: Body) -> Body {
    let mut found = Vec::new();
    walk::stmts(&body.block, &mut |s| {
        if let (Some(steps), Some((inner, max))) = (steps::of_loop(m, &s.kind, &body.locals), rounds(&s.kind)) {
            let wanted = steps > LONG && max > 1 && !begins_with_look(inner);
            found.push(wanted.then_some((steps / max, s.span)));
        }
    });
    let looks: Vec<Option<Stmt>> = found.into_iter().map(|l| l.map(|(steps, span)| look(m, steps, span))).collect();
    insert(&mut body.block, &mut looks.into_iter());
    body
}

fn rounds(s: &StmtKind) -> Option<(&Block, u64)> {
    let (StmtKind::For { body, max, .. } | StmtKind::Loop { body, max }) = s else { return None };
    Some((body, *max))
}

/// Puts looks into the loops of a block, those outside first.
fn insert(block: &mut Block, looks: &mut dyn Iterator<Item = Option<Stmt>>) {
    for s in block {
        let own = if rounds(&s.kind).is_some() { looks.next().flatten() } else { None };
        walk::stmt_blocks_mut(&mut s.kind, &mut |b| insert(b, looks));
        if let (Some(look), StmtKind::For { body, .. } | StmtKind::Loop { body, .. }) = (own, &mut s.kind) {
            body.insert(0, look)
        }
    }
}
