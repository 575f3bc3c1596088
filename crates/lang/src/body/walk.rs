//! The sequence that a loop walks over, and how many rounds it has at most.

use crate::compiler::T_U32;
use crate::ir_builder as build;
use crate::ty::{Elem, Ty};
use ir::{Expr as X, ExprKind as K};
use wireloom_ir as ir;

/// Longest `for` over a range.
pub const MAX_ROUNDS: u64 = 1 << 24;

/// How a text is cut.
pub struct Cut {
    pub text: X,
    pub separator: Vec<u8>,
    /// Pieces without a byte count, too.
    pub empty: bool,
    /// Most pieces: the last one has the rest.
    pub most: u64,
}

/// The sequence of a walk.
pub enum Walk {
    Items(ir::Path, Elem, u64),
    List(X, Ty, u64),
    Replies(ir::UnitId, u64),
    Range(X, X, u64),
    /// Pieces of bytes.
    Words(Cut, u64),
    /// Rounds from a number on, the last one that 64 bits hold included.
    Last(u64, u64),
}

impl Walk {
    pub(super) fn max(&self) -> u64 {
        match self {
            Walk::Items(_, _, n)
            | Walk::List(_, _, n)
            | Walk::Range(_, _, n)
            | Walk::Last(_, n)
            | Walk::Replies(_, n)
            | Walk::Words(_, n) => *n,
        }
    }

    pub(super) fn end(&self) -> X {
        match self {
            Walk::Items(p, ..) => build::count(p.clone()),
            Walk::List(l, ..) => X::new(T_U32, K::ListLen(l.clone())),
            Walk::Replies(..) => X::new(T_U32, K::Parts),
            Walk::Range(_, to, _) => to.clone(),
            // Its rounds are counted by where the next word begins.
            Walk::Words(_, n) | Walk::Last(_, n) => build::u64(*n),
        }
    }
}
