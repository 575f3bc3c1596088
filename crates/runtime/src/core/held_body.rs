//! Messages that are held until their streamed bytes are complete (`hold_body`).
//!
//! In: a message whose head has been found, on a port that holds. Out: the whole message and where
//! its streamed bytes lie; or the same message as it would be without this, if it is too long. A
//! port holds so many bytes at a time (`hold_memory`). A request beyond is refused, an answer
//! beyond passes; both are counted as `overload`.

use super::body_pieces::{HeadFound, HeldBody, Outcome};
use super::input::{bad, FoundMessage, Parsed};
use super::slab::Id;
use super::types::{flag, Side};
use super::{Core, Raw};
use crate::abi::*;
use crate::program::Unit;
use crate::stats::NO_PLACE;

/// A core's memory for messages that are held.
#[derive(Default)]
pub(super) struct Bodies {
    /// Of the message at hand: its streamed bytes, if they lay in pieces; and the message itself,
    /// if not all of it is passed on.
    joined: Vec<u8>,
    passed: Vec<u8>,
    #[allow(clippy::vec_box, reason = "a connection takes the box, so that it stays small")]
    free: Vec<Box<HeldBody>>,
}

/// So many are kept for the next messages.
const FREE: usize = 64;
/// Joined bytes beyond which their memory is not kept.
const JOINED_KEPT: usize = 256 << 10;

impl Core {
    /// Streamed bytes that are held of a message of this unit.
    pub(super) fn body_limit(&self, id: Id, unit: Unit) -> Option<u64> {
        let c = &self.conns[id];
        let most = self.apps[c.app as usize].ports[c.port as usize].options.hold_body;
        (most > 0 && unit.whole_max == 0 && c.member == 0).then_some(u64::from(most))
    }

    /// Looks for the end of a message behind its head.
    pub(super) fn parse_held(&mut self, id: Id, unit: Unit, found: HeadFound, rest: Raw, limit: u64) -> Parsed {
        let mut body = match self.conns[id].held.take() {
            Some(b) => b,
            None => self.bodies.free.pop().unwrap_or_default(),
        };
        let before = found.head + found.tail_used;
        let (outcome, used) = body.run(unit, found, rest.from(before), before, limit);
        let (view, head, have) = (found.view, found.head, before + used);
        match outcome {
            Outcome::Whole => {
                let all = Raw { n: have, ..rest };
                self.bodies.joined.shrink_to(JOINED_KEPT);
                self.bodies.passed.shrink_to(JOINED_KEPT);
                let joined = body.joined(all, head, &mut self.bodies.joined);
                let passed = body.passed(all, &mut self.bodies.passed);
                self.give_held(id, body);
                Parsed::Message(FoundMessage {
                    body: Some(joined),
                    passed,
                    ..FoundMessage::new(view, head, have, true)
                })
            }
            Outcome::More if self.hold(id, &mut body, have) => {
                if !std::mem::replace(&mut body.told, true) && self.conns[id].side == Side::Client {
                    self.tell_to_send(id, view);
                }
                self.save_view(id, unit, found.saved);
                let c = &mut self.conns[id];
                c.set(flag::HEAD_DONE);
                c.tail_used = (found.tail_used + used) as u32;
                c.held = Some(body);
                Parsed::More
            }
            Outcome::More if self.conns[id].side == Side::Client => {
                self.give_held(id, body);
                Parsed::Bad { kind: WL_F_OVERLOAD, place: NO_PLACE }
            }
            Outcome::More | Outcome::Passes => {
                self.give_held(id, body);
                if outcome == Outcome::More {
                    self.count_fault_at(id, WL_F_OVERLOAD, NO_PLACE);
                }
                let view = self.save_view(id, unit, found.saved);
                let c = &mut self.conns[id];
                c.clear(flag::HEAD_DONE);
                c.tail_used = 0;
                Parsed::Message(FoundMessage::new(view, head, have, false))
            }
            Outcome::Bad => {
                self.give_held(id, body);
                // SAFETY: the view is live.
                if have > 0 && unsafe { (*view).flags } & WL_M_IN_STEP != 0 {
                    return Parsed::Message(FoundMessage::new(view, head, have, true));
                }
                bad(view)
            }
        }
    }

    /// Counts the bytes of a message that is not complete. False: the port holds too many.
    fn hold(&mut self, id: Id, body: &mut HeldBody, have: usize) -> bool {
        let c = &self.conns[id];
        let port = &mut self.apps[c.app as usize].ports[c.port as usize];
        let all = port.held - body.counted + have;
        if all > port.options.hold_memory as usize {
            return false;
        }
        (port.held, body.counted) = (all, have);
        true
    }

    /// A message that was held has ended.
    pub(super) fn let_go(&mut self, id: Id) {
        if let Some(body) = self.conns[id].held.take() {
            self.give_held(id, body);
        }
    }

    fn give_held(&mut self, id: Id, mut body: Box<HeldBody>) {
        let c = &self.conns[id];
        self.apps[c.app as usize].ports[c.port as usize].held -= body.counted;
        if self.bodies.free.len() < FREE {
            body.clear();
            self.bodies.free.push(body);
        }
    }
}
