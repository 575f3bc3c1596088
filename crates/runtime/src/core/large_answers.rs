//! Large answers of pipelined protocols: they must not hold up the others on a shared connection.
//!
//! The size of an answer is not known before it comes. So:
//! - A client whose last answers were large ([`LARGE_ANSWER`]) gets connections that are not
//!   shared, for one request at a time. There are a few for each backend ([`OWN_MAX`]), pooled
//!   while they are idle. A slow reader there stops only its backend.
//! - A shared connection on which a large answer begins is left ([`flag::LEFT`]). New requests go
//!   out on another one. Requests that were already sent behind the answer wait. Once none waits,
//!   the connection becomes one of the unshared, and goes to the pool at the end of the answer.
//! - While requests wait behind it, memory keeps the bytes that the client does not take, at most
//!   [`super::STORED_MAX`]. Then reading stops. After [`HELD_UP_NS`] in all, the clients that hold
//!   up others there are cut off. For a time after that ([`WARY_NS`]), the first requests of new
//!   clients go out alone. A client that was cut off then gets its large answer on a connection of
//!   its own.
//!
//! Requests of a client go out on two connections only if nothing is under way on the first. Else
//! the second could overtake them. The end of a message without an answer is not known. So a
//! connection with such messages under way ([`flag::UNANSWERED`]) is not left.

use super::slab::Id;
use super::types::{flag, Mode, Sink, Target};
use super::{Core, Raw};
use crate::abi::*;

/// Answers above this are large.
const LARGE_ANSWER: u32 = 256 << 10;
/// Connections to a backend, of each core, that are not shared.
const OWN_MAX: u32 = 64;
/// How long clients may hold up others on one connection.
const HELD_UP_NS: u64 = 2_000_000_000;
/// How long new clients ask alone once that has happened.
const WARY_NS: u64 = 60_000_000_000;

impl Core {
    /// Whether a call goes out on a connection of its own. Its answer may be large, or requests do
    /// not share connections here (`share`).
    pub(super) fn asks_alone(&self, at: Target, call: Id) -> bool {
        let Some(c) = self.tasks.get(self.calls[call].task).and_then(|t| self.conns.get(t.conn)) else { return false };
        let port = &self.apps[at.a].ports[at.p];
        let b = &port.backends[at.i];
        if port.options.share && c.reply_max <= LARGE_ANSWER && (c.answered > 1 || b.wary_until <= self.now) {
            return false;
        }
        let unanswered = |id: &Id| self.conns.get(*id).is_some_and(|s| s.has(flag::UNANSWERED));
        let room = !port.options.share || b.open < OWN_MAX + b.shared.len() as u32 || !b.idle.is_empty();
        c.count == 1 && room && !b.shared.iter().any(unanswered)
    }

    /// Sends the call on a connection of its own. The client's next request waits for the answer.
    pub(super) fn call_alone(&mut self, at: Target, call: Id, head: Raw, here: Raw) -> Result<(), u32> {
        let client = self.tasks[self.calls[call].task].conn;
        self.conns[client].set(flag::ALONE);
        let conn = self.own_connection(at)?;
        self.bind(conn, call, head, here)
    }

    /// A connection that is not shared.
    pub(super) fn own_connection(&mut self, at: Target) -> Result<Id, u32> {
        if let Some(conn) = self.take_idle(at) {
            return Ok(conn);
        }
        let port = &self.apps[at.a].ports[at.p];
        if port.backends[at.i].open >= port.options.max_connections {
            return Err(WL_F_OVERLOAD);
        }
        let conn = self.connect(at)?;
        self.conns[conn].set(flag::OWN);
        Ok(conn)
    }

    /// An answer has begun that has so many bytes to come.
    pub(super) fn large_answer(&mut self, id: Id, left: u64) {
        if left > u64::from(LARGE_ANSWER) {
            self.move_over(id);
        }
    }

    /// Takes no more requests on a shared connection, and waits for the calls that are under way on
    /// it.
    pub(super) fn move_over(&mut self, id: Id) {
        if self.can_close_alone(id) || self.conns[id].has(flag::PIPED | flag::LEFT | flag::UNANSWERED) {
            return;
        }
        self.take_no_more(id);
        let behind = self.calls.get(self.conns[id].first).map_or(Id::NIL, |k| k.next);
        self.ask_alone(behind);
        self.settle(id);
    }

    /// A shared connection takes no more requests.
    pub(super) fn take_no_more(&mut self, id: Id) {
        let at = self.target_of(id);
        for s in &mut self.apps[at.a].ports[at.p].backends[at.i].shared {
            if *s == id {
                *s = Id::NIL;
            }
        }
        self.conns[id].set(flag::LEFT);
    }

    /// The clients of a call and of those behind it ask again when all of theirs are answered.
    pub(super) fn ask_alone(&mut self, first: Id) {
        let mut call = first;
        while let Some(k) = self.calls.get(call) {
            call = k.next;
            if let Some(c) = self.tasks.get(k.task).and_then(|t| self.conns.get_mut(t.conn)) {
                c.set(flag::ALONE);
            }
        }
    }

    /// A left connection with at most one call under way is not shared any more. One that retires
    /// ends with its last call.
    pub(super) fn settle(&mut self, id: Id) {
        let c = &self.conns[id];
        if c.has(flag::LEFT) && c.count <= 1 && !self.is_retired(id) {
            let c = &mut self.conns[id];
            c.clear(flag::LEFT);
            c.set(flag::OWN);
        }
    }

    /// The client of an answer, behind which others wait, has not taken it: how long it may hold
    /// them up.
    pub(super) fn hold_up(&mut self, id: Id) {
        let now = self.now;
        let c = &mut self.conns[id];
        if c.held_up == 0 {
            c.held_up = now;
        }
        let due = c.held_up.saturating_add(HELD_UP_NS);
        self.arm(id, due);
    }

    /// When its time is up.
    pub(super) fn held_up_until(&self, id: Id) -> u64 {
        let c = &self.conns[id];
        match c.mode {
            Mode::Tail if c.has(flag::LEFT) && c.has(flag::FLOW) => c.held_up.saturating_add(HELD_UP_NS),
            _ => u64::MAX,
        }
    }

    /// It is: the client is cut off, and the rest of its answer dropped.
    pub(super) fn held_up(&mut self, id: Id) {
        let (at, now) = (self.target_of(id), self.now);
        self.apps[at.a].ports[at.p].backends[at.i].wary_until = now.saturating_add(WARY_NS);
        let Sink::Slot(slot) = self.conns[id].sink else { return };
        let Some(client) = self.slots.get(slot).map(|s| s.conn) else { return };
        self.conns[id].sink = Sink::Discard;
        self.resume_reading(id);
        self.doom(client, WL_F_OVERLOAD);
    }

    /// A message without an answer has gone out on a shared connection.
    pub(super) fn unanswered(&mut self, id: Id) {
        let c = &mut self.conns[id];
        c.set(flag::UNANSWERED);
        c.prover = Id::NIL;
    }
}
