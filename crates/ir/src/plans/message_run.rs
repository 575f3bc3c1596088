//! Runs of messages that are passed on unchanged.

use crate::*;

/// Consecutive messages of a conversation's connection go on as one piece of bytes, as long as
/// `when` holds for each. The handler would do no more for such a message than pass it on to `to`
/// and count.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRun {
    pub to: Peer,
    /// As in [`StmtKind::Tell`].
    pub protocol: Option<ProtocolId>,
    /// Over the message, which is local 0; none: all messages.
    pub when: Option<Expr>,
    pub counts: Vec<RunCount>,
}

/// For each message of a run: a counter to which `by` is added, if `when` holds.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCount {
    pub counter: CounterId,
    pub by: Expr,
    pub when: Option<Expr>,
}
