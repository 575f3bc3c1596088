//! The state of a message whose pieces go to a handler (`pieces`).

use super::slab::Id;
use crate::buffer::OwnedBuf;
use crate::splitter::Splitter;
use wireloom_ir::desc::{Desc, HandlerOn};

/// A handler of pieces.
#[derive(Clone, Copy)]
pub struct PieceHandler {
    pub(super) handler: u32,
    /// It may give other bytes in the place of a piece.
    pub(super) changes: bool,
    /// It is for the items of this stream of units; 0: for bytes.
    pub(super) stream: u32,
}

impl PieceHandler {
    /// Those of a port, or of an upstream of it, by the alternatives of its protocols.
    pub(super) fn all(desc: &Desc, port: u32, member: Option<u32>) -> Vec<Option<PieceHandler>> {
        let mut all = vec![None; desc.ports[port as usize].protocols.len()];
        for (n, h) in desc.handlers.iter().enumerate() {
            let HandlerOn::Piece { port: of, alternative, changes, upstream, stream } = h.on else { continue };
            if let Some(place) = all.get_mut(alternative as usize).filter(|_| of == port && upstream == member) {
                *place = Some(PieceHandler { handler: n as u32, changes, stream });
            }
        }
        all
    }
}

/// A message whose pieces have a handler, on its connection.
pub struct Reading {
    pub(super) how: PieceHandler,
    pub(super) split: Splitter,
    pub(super) head: OwnedBuf,
    /// The beginning of an item whose end has not come.
    pub(super) item: OwnedBuf,
    /// Pieces go on in chunks of their own: other bytes may stand for them.
    pub(super) chunks: bool,
    /// The handler lets the rest fall.
    pub(super) falls: bool,
    /// The connection has used its time: the next item is for its next turn.
    pub(super) turn_over: bool,
}

/// The piece whose handler runs.
#[derive(Default)]
pub(super) struct AtHand {
    pub(super) task: Id,
    pub(super) said: Said,
    /// The bytes in its place, or the answer.
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Said {
    #[default]
    Nothing,
    Changed,
    Falls,
    Answered,
}

impl AtHand {
    pub(super) fn is_of(&self, task: Id) -> bool {
        !task.is_nil() && self.task == task
    }
}
