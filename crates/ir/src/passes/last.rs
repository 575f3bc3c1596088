//! The last use of a frame: sets `FrameAct::Send.last` where no way from there uses the frame again, so that it is moved, not copied.

use crate::*;

pub fn run(m: &mut Module) {
    for h in &mut m.handlers {
        if matches!(h.on, On::Frame { .. }) { block(&mut h.body.block, LocalId(0), false) }
    }
}

/// Goes backwards; `used`: the frame is used after the block.
fn block(b: &mut Block, frame: LocalId, used: bool) {
    let mut after = used;
    for n in (0..b.len()).rev() {
        let s = &mut b[n];
        let own = touches(&s.kind, frame);
        match &mut s.kind {
            StmtKind::Return(_) | StmtKind::Fault { .. } => after = own,
            StmtKind::Frame { frame: f, act: FrameAct::Send { last, .. } } => { *last = *f == frame && !after; after = true; continue }
            StmtKind::If { then, other, .. } => { block(then, frame, after); block(other, frame, after) }
            StmtKind::Switch { cases, default, .. } => {
                for (_, c) in cases { block(c, frame, after) }
                block(default, frame, after);
            }
            // A next round uses it, or what stands behind the loop does.
            StmtKind::For { body, .. } => block(body, frame, own || after),
            StmtKind::Loop { max: 1, body } if !leaves(body) => block(body, frame, after),
            StmtKind::Loop { max, body } => { let again = *max > 1 && own; block(body, frame, again || after) }
            StmtKind::TableUpdate { body, .. } => block(body, frame, own || after),
            // Inside a loop: on to what stands behind it, or to the next round.
            StmtKind::Break | StmtKind::Continue => { after = used; continue }
            _ => {}
        }
        after |= own;
    }
}

/// Whether a loop's body can end early: then what is behind a `break` is not what stands next.
fn leaves(b: &Block) -> bool {
    let mut hit = false;
    walk::stmts(b, &mut |s| hit |= matches!(s.kind, StmtKind::Continue));
    hit
}

/// Whether a statement, or one inside of it, reads, changes or sends the frame.
fn touches(s: &StmtKind, frame: LocalId) -> bool {
    let mut hit = false;
    let mut own = |s: &StmtKind| walk::stmt_locals_read(s, &mut |l| hit |= l == frame);
    own(s);
    walk::stmt_blocks(s, &mut |b| walk::stmts(b, &mut |s| own(&s.kind)));
    hit
}
