//! Small handlers are compiled again for the most common header stack.
//!
//! In: handlers of frames with their plans. Out: `plan.specialized`. What is known of such a frame
//! simplifies its copy of the handler: headers that are there, constant offsets. Code that the
//! app's parameters leave out is not counted, where the copy is without it.

use crate::plans::HoistedState;
use crate::*;

/// A handler of so many statements is small.
pub const SMALL: usize = 24;

pub fn run(m: &mut Module) {
    for h in &mut m.handlers {
        h.plan.specialized = matches!(h.on, On::Frame { .. }) && is_small(h)
    }
}

/// Why a backend must not follow a plan; None: it may.
pub fn illegal(h: &Handler) -> Option<&'static str> {
    let legal = !h.plan.specialized || matches!(h.on, On::Frame { .. });
    (!legal).then_some("only handlers of frames have one")
}

fn is_small(h: &Handler) -> bool {
    // Handlers without a batch lookup have their copy with all conditions.
    let left_out = if h.plan.batch.is_some() { left_out(&h.plan.hoisted, &h.body.block) } else { 0 };
    size(&h.body.block) <= SMALL + left_out
}

/// Statements behind conditions that are optional.
fn left_out(hoisted: &HoistedState, block: &Block) -> usize {
    let mut n = 0;
    walk::stmts(block, &mut |s| {
        if let StmtKind::If { cond, then, .. } = &s.kind {
            if hoisted.condition(cond).is_some_and(|c| hoisted.conditions[c].optional) {
                n += size(then)
            }
        }
    });
    n
}

/// Statements of a block and of the blocks in it.
pub(super) fn size(block: &Block) -> usize {
    let mut n = 0;
    walk::stmts(block, &mut |_| n += 1);
    n
}
