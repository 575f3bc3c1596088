//! Plans: decisions of passes about handlers and frame units, for backends.
//!
//! A plan changes no result. A backend may ignore a plan, but must not do more than it says. The
//! verifier checks that each plan is legal, so a backend need not check again.

mod batch;
mod fast_path;
mod hoisted;
mod message_run;
mod pause;
mod vector;

pub use crate::StmtPath;
use crate::*;
pub use batch::{keyed, BatchLookup, HeaderReuse, KeySite, TableLookup};
pub use fast_path::{Bits, FastPath, HeaderSlot, HeaderStack, Known, Stage};
pub use hoisted::{Condition, Destination, HoistedState};
pub use message_run::{MessageRun, RunCount};
pub use pause::Pause;
pub use vector::{BinaryOp, Compare, MaskRef, NumberRef, VectorOp, VectorPlan, VectorStep, VectorValue};

/// The plans of one handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HandlerPlan {
    /// Set by the pass `pauses`.
    pub pause: Pause,
    /// Set by the pass `message_runs`.
    pub run: Option<MessageRun>,
    /// Set by the pass `batch_lookup`.
    pub batch: Option<BatchLookup>,
    /// Set by the pass `hoisted_state`.
    pub hoisted: HoistedState,
    /// Records of the frame's fields that are made where they are used. Set by the pass
    /// `late_keys`.
    pub late: Vec<LocalId>,
    /// The handler is compiled a second time for frames of the most common header stack. Set by the
    /// pass `specialize`.
    pub specialized: bool,
    /// Set by the pass `vectorize`.
    pub vector: Option<VectorPlan>,
}

impl StmtPath {
    /// The statement, if there is one.
    pub fn find<'b>(&self, block: &'b Block) -> Option<&'b Stmt> {
        let (first, rest) = self.0.split_first()?;
        let mut at = block.get(first.checked_sub(1)? as usize)?;
        for n in rest {
            let (mut left, mut found) = (n.checked_sub(1)? as usize, None);
            walk::stmt_blocks(&at.kind, &mut |b| {
                if found.is_none() {
                    found = b.get(left);
                    left = left.saturating_sub(b.len());
                }
            });
            at = found?;
        }
        Some(at)
    }
}
