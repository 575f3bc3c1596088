//! Messages that a handler reads, and messages that are ready to be sent.

use crate::grammar::tree::Node;
use std::rc::Rc;
use wireloom_ir::UnitId;

/// A message as expressions read it.
pub struct Message {
    pub unit: UnitId,
    pub node: Node,
    /// Its head, or all of it.
    pub bytes: Vec<u8>,
    /// `WL_TAIL_*`: where the rest is.
    pub tail: u32,
    /// Where the runtime keeps these bytes.
    pub base: *const u8,
    /// Its other bytes that lie behind these, and its streamed bytes as one, if all of it is there.
    pub rest: Vec<u8>,
    pub body: Option<Vec<u8>>,
    /// Only the end of the connection ends it.
    pub ends: bool,
}

/// The head of an outgoing message and where its tail comes from.
pub struct Ready {
    pub bytes: Bytes,
    pub tail: u32,
}

pub enum Bytes {
    /// As they were received.
    Original(Rc<Message>),
    Built(Vec<u8>),
}

impl Bytes {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Original(m) => &m.bytes,
            Bytes::Built(b) => b,
        }
    }
}
