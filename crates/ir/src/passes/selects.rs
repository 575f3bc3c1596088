//! Branches that are carried out without a jump.
//!
//! In: bodies, behind the plans of batch lookups and of hoisted state. Out: [`Body::selects`]. No
//! processor can predict the fate of a frame. A jump that is predicted wrongly costs as much as the
//! rest of a filter's work. Two kinds of branches are selected:
//!
//! - A branch that only sends a frame as it is.
//! - A branch that only sets integers and counts, in a handler whose rules decide about frames.
//!   (The result of an exact lookup can be predicted: a choice would only make the rest wait for
//!   it.)

use crate::plans::{HandlerPlan, StmtPath};
use crate::*;

/// So many statements are carried out, and their results chosen from.
const CHOSEN: usize = 4;
/// Operands of an expression that is evaluated whether it is needed or not.
const CHEAP: usize = 6;

pub fn run(m: &mut Module) {
    let moved = moves_frames(m);
    let mut plans = vec![];
    each(m, &mut |b, plan| plans.push(find(&Finder { m, moved, plan, locals: &b.locals }, &b.block)));
    let mut plans = plans.into_iter();
    m.bodies_mut(&mut |b| b.selects = plans.next().unwrap_or_default())
}

/// All bodies, in the order of [`Module::bodies_mut`], those of handlers with their plans.
fn each(m: &Module, f: &mut dyn FnMut(&Body, Option<&HandlerPlan>)) {
    m.bodies(&mut |b| f(b, m.handlers.iter().find(|h| std::ptr::eq(&h.body, b)).map(|h| &h.plan)))
}

/// Whether some body moves the bytes of a frame, or changes its length.
pub fn moves_frames(m: &Module) -> bool {
    let mut moved = false;
    m.bodies(&mut |b| {
        walk::stmts(&b.block, &mut |s| {
            if let StmtKind::Frame { act, .. } = &s.kind {
                moved |= act.moves()
            }
        })
    });
    moved
}

struct Finder<'m> {
    m: &'m Module,
    moved: bool,
    plan: Option<&'m HandlerPlan>,
    locals: &'m [Local],
}

fn find(f: &Finder, block: &Block) -> Vec<StmtPath> {
    let mut found = vec![];
    f.block(block, &mut vec![], 0, &mut found);
    found
}

/// Why a backend must not follow the plans of some bodies.
pub fn illegal(m: &Module) -> Vec<&'static str> {
    let moved = moves_frames(m);
    let mut errors = vec![];
    each(m, &mut |b, plan| {
        if b.selects.is_empty() {
            return;
        }
        let legal = find(&Finder { m, moved, plan, locals: &b.locals }, &b.block);
        if !b.selects.iter().all(|p| legal.contains(p)) {
            errors.push("a statement is no branch that a choice can take the place of")
        }
    });
    errors
}

impl Finder<'_> {
    /// The branches of a block, whose statements have numbers behind `before`.
    fn block(&self, block: &Block, path: &mut Vec<u32>, before: usize, found: &mut Vec<StmtPath>) {
        for (n, s) in block.iter().enumerate() {
            path.push((before + n + 1) as u32);
            if self.selected(s) {
                found.push(StmtPath(path.clone()))
            } else {
                let mut before = 0;
                walk::stmt_blocks(&s.kind, &mut |b| {
                    self.block(b, path, before, found);
                    before += b.len()
                });
            }
            path.pop();
        }
    }

    fn selected(&self, s: &Stmt) -> bool {
        let StmtKind::If { then, other, .. } = &s.kind else { return false };
        self.only_sends(then, other) || self.is_choice(then, other)
    }

    fn only_sends(&self, then: &Block, other: &Block) -> bool {
        let ([s], []) = (&then[..], &other[..]) else { return false };
        let StmtKind::Frame { act: FrameAct::Send { port, index, last: true, .. }, .. } = &s.kind else { return false };
        matches!(*index.kind, ExprKind::Int(_)) && !self.moved && !self.m.is_queue(*port)
    }

    fn is_choice(&self, then: &Block, other: &Block) -> bool {
        let Some(plan) = self.plan else { return false };
        // Without a batch lookup in a table of masks, rules do not decide.
        let Some(batch) = plan.batch.as_ref().filter(|b| b.masked.is_some()) else { return false };
        let lookups = batch.exact.iter().chain(&batch.masked);
        if lookups.into_iter().any(|l| !plan.hoisted.lookups.contains(&l.table)) {
            return false;
        }
        let mut size = 0;
        self.chooses(plan, then, &mut size) && self.chooses(plan, other, &mut size) && size <= CHOSEN
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn chooses(&self, plan: &HandlerPlan, block: &Block, size: &mut usize) -> bool {
        let is_number = |ty: TyId| matches!(self.m.ty(ty), Ty::Bool | Ty::UInt(1..=64));
        let is_unused = |l: &LocalId| plan.batch.as_ref().is_some_and(|b| b.unused.contains(l));
        block.iter().all(|s| {
            *size += 1;
            match &s.kind {
                StmtKind::Set(l, e) => {
                    is_number(e.ty) && is_cheap(e) && !is_unused(l) && is_number(self.locals[l.index()].ty)
                }
                StmtKind::Count(c, e) => is_cheap(e) && plan.hoisted.counters.contains(c),
                StmtKind::If { cond, then, other } => {
                    (plan.hoisted.condition(cond).is_some() || is_cheap(cond))
                        && other.is_empty()
                        && self.chooses(plan, then, size)
                }
                _ => false,
            }
        })
    }
}

/// An expression that may be evaluated whether it is needed or not: no more than a few registers.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn is_cheap(e: &Expr) -> bool {
    use BinOp::*;
    let (mut cheap, mut size) = (!e.may_fault(), 0);
    walk::expr(e, &mut |e| {
        size += 1;
        cheap &= match &*e.kind {
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Local(_)
            | ExprKind::Cast(_)
            | ExprKind::Get(..)
            | ExprKind::Unwrap(_)
            | ExprKind::IsSome(_)
            | ExprKind::Unary(UnOp::Not, _) => true,
            ExprKind::Binary(op, ..) => matches!(op, Eq | Ne | Lt | Le | Gt | Ge | Add | Sub | BitAnd | BitOr),
            _ => false,
        }
    });
    cheap && size <= CHEAP
}
