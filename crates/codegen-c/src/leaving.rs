//! A handler's counts of the frames that leave a batch, so that the runtime need not look at them
//! (`wl_left`).
//!
//! If all frames of a handler leave through one instance of one port, it counts them, and their
//! bytes, in one register: handlers have few to spare. The runtime stages a copy that the handler
//! sends besides, and then looks at all frames itself.

use crate::gen::Gen;
use crate::vectorize::Destination;
use std::collections::BTreeSet;
use wireloom_ir::*;

/// The values kept for the length of a batch.
pub(crate) const FIELDS: &str = "uint64_t left; /* bytes that leave, and frames from bit 40 on */\n";
pub(crate) const BACK: &str = "keep->left = kept.left;\n";
pub(crate) const ADD: &str =
    "x->core->left.frames += (uint32_t)(keep.left >> 40);\nx->core->left.bytes += keep.left & UINT64_MAX >> 24;\n";

/// Statements before and behind a batch.
pub(crate) fn around(way: Destination) -> (String, &'static str) {
    (format!("core->left = (wl_left){{.out = {}}};\n", way.text()), "core->left.known = 1;\n")
}

/// Behind a frame of the view `v` that leaves, or does if `cond` holds.
pub(crate) fn count(v: &str, cond: Option<&str>) -> String {
    match cond {
        None => format!(" kept.left += (UINT64_C(1) << 40) + {v}->n;"),
        Some(cond) => format!(" kept.left += {cond} ? (UINT64_C(1) << 40) + {v}->n : 0;"),
    }
}

impl Gen<'_> {
    /// The single output of a handler. `None`: there are several or none, or a frame may leave in a
    /// joined element. Also if frames of queues follow, which are a batch of their own.
    pub fn only_way(&self, block: &Block) -> Option<Destination> {
        let (mut ways, mut alone) = (BTreeSet::new(), self.serve().is_empty());
        walk::stmts(block, &mut |s| match &s.kind {
            StmtKind::Frame { frame: LocalId(0), act: FrameAct::Send { port, index, last: true, .. } } => {
                match (*index.kind).clone() {
                    ExprKind::Int(n) => drop(ways.insert(Destination { port: port.0, instance: n as u32 })),
                    _ => alone = false,
                }
            }
            StmtKind::Frame {
                act: FrameAct::Send { .. } | FrameAct::Save { .. } | FrameAct::Restore { .. }, ..
            }
            | StmtKind::SendFrame { .. }
            | StmtKind::Output { .. } => alone = false,
            _ => {}
        });
        ways.pop_first().filter(|_| alone && ways.is_empty())
    }
}
