//! Keys that are made where they are used.
//!
//! In: handlers of frames. Out: `plan.late`. A handler often makes the key of a frame's flow first.
//! It needs the key only for a new flow, because the others were looked up before it ran. Then the
//! fields are not even loaded.

use super::batch_lookup::{changes_frame, over_frame};
use crate::*;
use std::collections::{BTreeMap, BTreeSet};

pub fn run(m: &mut Module) {
    let plans: Vec<_> = m.handlers.iter().map(|h| plan(m, h)).collect();
    for (h, plan) in m.handlers.iter_mut().zip(plans) {
        h.plan.late = plan.into_iter().collect()
    }
}

/// Records of fields of the frame that are set once, and used only behind that and before anything
/// may change the frame.
pub fn plan(m: &Module, h: &Handler) -> BTreeSet<LocalId> {
    if !matches!(h.on, On::Frame { .. }) {
        return BTreeSet::new();
    }
    let mut seen = Seen::default();
    seen.block(m, &h.body.block);
    seen.late.retain(|l| !seen.other.contains(l));
    seen.late
}

/// Why a backend must not follow a plan; None: it may.
pub fn illegal(m: &Module, h: &Handler, late: &[LocalId]) -> Option<&'static str> {
    let legal = plan(m, h);
    let ok = late.iter().all(|l| legal.contains(l));
    (!ok).then_some("a local may have another value where it is used")
}

/// The state of a walk through a handler.
#[derive(Default)]
struct Seen {
    late: BTreeSet<LocalId>,
    /// Locals that cannot be put off.
    other: BTreeSet<LocalId>,
    /// Those of `late` that are sure to have been set.
    here: BTreeSet<LocalId>,
    /// The frame may have been changed.
    changed: bool,
}

impl Seen {
    fn block(&mut self, m: &Module, block: &Block) {
        let before = self.here.clone();
        block.iter().for_each(|s| self.stmt(m, s));
        self.here = before;
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, m: &Module, s: &Stmt) {
        // A second round comes behind the changes of the first.
        if matches!(s.kind, StmtKind::For { .. } | StmtKind::Loop { .. }) {
            walk::stmt_blocks(&s.kind, &mut |b| walk::stmts(b, &mut |s| self.changed |= may_change(s)))
        }
        walk::stmt_locals_read(&s.kind, &mut |l| {
            if self.changed || !self.here.contains(&l) {
                self.other.insert(l);
            }
        });
        match &s.kind {
            StmtKind::Set(l, e)
                if is_record(m, e.ty)
                    && !e.may_fault()
                    && over_frame(e, &BTreeMap::new()).is_some()
                    && self.late.insert(*l) =>
            {
                self.here.insert(*l);
            }
            StmtKind::SetField(l, ..) | StmtKind::Push(l, _) => {
                self.other.insert(*l);
            }
            kind => self.other.extend(walk::defined(kind).into_iter().flatten()),
        }
        walk::stmt_blocks(&s.kind, &mut |b| self.block(m, b));
        self.changed |= may_change(s);
    }
}

fn is_record(m: &Module, ty: TyId) -> bool {
    matches!(m.ty(ty), Ty::Record(_) | Ty::Tuple(_))
}

/// Whether a statement may change the current frame, or values read from it.
fn may_change(s: &Stmt) -> bool {
    changes_frame(&s.kind)
        || matches!(s.kind, StmtKind::Parse { .. } | StmtKind::Render { .. } | StmtKind::Reread { .. })
}
