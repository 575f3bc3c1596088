//! Memory that changes while a handler runs, and the locals whose bytes may lie in it.

use super::local_set::LocalSet;
use crate::*;

/// The current frame of a handler of frames.
pub(super) const FRAME: LocalId = LocalId(0);

/// Memory that changes while a handler runs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum What {
    Frame,
    State(StateId),
    Session(SessionId),
    /// A local's place in the task's frame (see `moves`).
    Local(LocalId),
}

/// The local that gets bytes by a statement, and from where. Bytes of tables and of queues lie
/// elsewhere.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub(super) fn definition(s: &StmtKind) -> Option<(LocalId, &Expr)> {
    match s {
        StmtKind::Set(l, e)
        | StmtKind::SetField(l, _, e)
        | StmtKind::Push(l, e)
        | StmtKind::Parse { dst: l, bytes: e, .. } => Some((*l, e)),
        _ => None,
    }
}

/// The locals whose bytes may lie there; of the frame, itself.
pub(super) fn views(m: &Module, what: What, body: &Body) -> LocalSet {
    let mut views = LocalSet::new(body.locals.len());
    match what {
        What::Frame => views.add(FRAME.index()),
        What::Local(l) => views.add(l.index()),
        What::State(_) | What::Session(_) => {}
    }
    loop {
        let before = views.clone();
        walk::stmts(&body.block, &mut |s| {
            if let Some((l, e)) = definition(&s.kind) {
                if lies_in(m, what, &views, e) {
                    views.add(l.index())
                }
            }
        });
        if before == views {
            return views;
        }
    }
}

/// Whether a value has bytes that may lie there.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub(super) fn lies_in(m: &Module, what: What, views: &LocalSet, e: &Expr) -> bool {
    if !layout::has_bytes(m, e.ty) {
        return false;
    }
    match &*e.kind {
        ExprKind::State(id) => what == What::State(*id),
        ExprKind::Session(id) => what == What::Session(*id),
        ExprKind::Builtin(Builtin::Slice, args) => args.first().is_some_and(|a| lies_in(m, what, views, a)),
        // Made in scratch.
        ExprKind::Builtin(..) => false,
        ExprKind::Local(l) | ExprKind::Payload(l, _) => views.has(l.index()),
        _ => {
            let mut lies = matches!(walk::path_of(e), Some(Path { root: Root::Local(l), .. }) if views.has(l.index()));
            walk::children(e, &mut |c| lies |= lies_in(m, what, views, c));
            lies
        }
    }
}

/// Gives a value bytes of its own.
pub(super) fn keep(e: &mut Expr) {
    *e = Expr::new(e.ty, ExprKind::Builtin(Builtin::Keep, vec![e.clone()]))
}
