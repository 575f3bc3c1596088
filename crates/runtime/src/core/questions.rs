//! Questions of conversations: calls whose answers are awaited, or are to be dropped.

use super::slab::Id;

/// How the answer to a question is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// With these values of `matches`, packed.
    Values(u64),
    /// So many answers end up to the end of its own.
    Order(u32),
}

/// A question. `task`: nil if nobody waits any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub task: Id,
    pub part: u32,
    pub proto: u16,
    /// `WL_C_*`
    pub flags: u32,
    pub deadline: u64,
    pub tie: Tie,
}

/// The questions of an upstream, in their order.
#[derive(Debug, Default)]
pub struct Questions {
    pub(super) all: Vec<Question>,
    /// The message at hand is an answer that its handler reads as a whole.
    pub(super) whole: bool,
}
