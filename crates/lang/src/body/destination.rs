//! Where a message goes, and the items that `join` has put together for it.

use crate::apps::declarations::MessageQueue;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

/// Where a message goes.
#[derive(Clone, Debug)]
pub enum Sink {
    Reply {
        close: bool,
        span: Span,
    },
    Call {
        port: ir::PortId,
        index: ir::Expr,
        within: Option<ir::Expr>,
        span: Span,
    },
    Send {
        port: ir::PortId,
        index: ir::Expr,
        span: Span,
    },
    /// To a member of the conversation at hand.
    Tell {
        to: ir::Peer,
        span: Span,
    },
    /// To an upstream of the conversation at hand, which is to answer.
    Ask {
        upstream: ir::UpstreamId,
        within: Option<ir::Expr>,
        span: Span,
    },
    /// To the clients that handles name.
    Deliver {
        to: ir::Expr,
        span: Span,
    },
    /// A message waits.
    Queue {
        queue: Rc<MessageQueue>,
        span: Span,
    },
    /// Nowhere: a function that gives such messages is checked by itself.
    Check {
        unit: ir::UnitId,
    },
}

/// The parts that `join` has put together. They are items of a unit as they were received, `each`
/// so many times, or bytes that may be items (no unit).
pub struct Joined {
    pub unit: Option<ir::UnitId>,
    pub count: ir::Expr,
    pub each: u64,
}
