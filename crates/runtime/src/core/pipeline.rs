//! Sharing connections of an exclusive protocol, where a port's option `pipeline` asks for it.
//!
//! In come requests of which the protocol says that they may share (`WL_C_PIPELINE`: for HTTP safe ones that are complete
//! with their head) and that are at hand as a whole; out they go one behind the other on few connections, in one write
//! per batch, and their answers are matched by their order. All other requests have connections of their own.
//!
//! A shared connection is left at the first sign that its order could be lost or that one answer holds up the others.
//! [`Core::shed`] then makes it an exclusive one again, with at most the call whose answer is under way; it is closed after
//! that, and the other calls are sent again, each once and each on a connection of its own:
//! - an answer that ends the connection, or that only its end delimits;
//! - an answer that nobody wants, or whose client does not take it;
//! - an answer that is not complete [`PATIENCE_NS`] after its turn has come.
//!
//! A connection that ends or breaks the grammar is closed, and the calls that have seen nothing of an answer are sent again.
//! Answers shorter than `input::SHORT` are awaited whole, so that their clients have seen nothing when that happens.

use super::dispatch::Target;
use super::slab::Id;
use super::types::{flag, Mode, Sink};
use super::{Core, Raw, HIGH, WAITERS_MAX};
use crate::abi::*;

/// How long one answer may hold up those behind it.
pub(super) const PATIENCE_NS: u64 = 1_000_000_000;
/// A backend of which that has happened gets requests on exclusive connections for this long.
const CALM_NS: u64 = 1_000_000_000;
/// A backend that ends a connection after fewer answers than this is not good at sharing them.
const FEW_ANSWERS: u32 = 16;

impl Core {
    /// A connection that this call may share; None: it takes one of its own, or waits for one.
    pub(super) fn pipelined_conn(&mut self, at: Target, call: Id) -> Option<Id> {
        let port = &self.apps[at.a].ports[at.p];
        let (most, b) = (port.options.pipeline, &port.backends[at.i]);
        if most < 2 || self.calls[call].flags & WL_C_PIPELINE == 0 || self.now < b.calm_until || !b.waiters.is_empty() {
            return None;
        }
        let open = b.open < port.options.max_connections;
        let free = |id: &&Id| {
            self.conns.get(**id).is_some_and(|c| {
                let usable = !c.has(flag::DOOMED | flag::CLOSING | flag::EOF | flag::NO_REUSE) && c.mode == Mode::Head;
                usable && c.count < most && c.out.len() <= HIGH
            })
        };
        if let Some(id) = b.piped.iter().find(free) {
            return Some(*id);
        }
        let id = match self.take_idle(at) {
            Some(id) => id,
            None if open => self.connect(at).ok()?,
            None => return None,
        };
        self.conns[id].set(flag::PIPED);
        self.conns[id].clear(flag::ANSWERING | flag::RELEASE);
        self.apps[at.a].ports[at.p].backends[at.i].piped.push(id);
        Some(id)
    }

    /// Puts a request behind the others of a shared connection.
    pub(super) fn call_piped(&mut self, conn: Id, call: Id, head: Raw, here: Raw) -> Result<(), u32> {
        if !self.keep_request(call, head, here) {
            return Err(WL_F_OVERLOAD);
        }
        if let Err(e) = self.append_out(conn, head, here) {
            // What was appended of it must not reach the backend; the calls before it are sent again.
            self.conns[conn].set(flag::DOOMED);
            return Err(e);
        }
        self.pace.shared();
        self.link_call(conn, call);
        self.arm(conn, self.now.saturating_add(PATIENCE_NS));
        Ok(())
    }

    /// When the answer at the front has held up the others for long enough.
    pub(super) fn crowded_at(&self, id: Id) -> u64 {
        let c = &self.conns[id];
        if !c.has(flag::PIPED) || c.count < 2 {
            return u64::MAX;
        }
        let issued = self.calls.get(c.first).map_or(0, |k| k.issued);
        let turn = if c.view.is_some() { c.since } else { issued.max(c.last_rx) };
        turn.saturating_add(PATIENCE_NS)
    }

    /// An answer has gone from a shared connection that is now idle while requests wait for an exclusive one.
    pub(super) fn give_up_idle(&mut self, id: Id) {
        let at = self.target_of(id);
        let c = &self.conns[id];
        let b = &self.apps[at.a].ports[at.p].backends[at.i];
        if c.has(flag::PIPED) && c.count == 0 && !b.waiters.is_empty() {
            self.unshare(at, id);
            self.conns[id].set(flag::RELEASE);
        }
    }

    fn unshare(&mut self, at: Target, id: Id) {
        self.conns[id].clear(flag::PIPED);
        self.apps[at.a].ports[at.p].backends[at.i].piped.retain(|x| *x != id);
    }

    /// The last whole answer has ended a shared connection: nothing that was sent behind it will be answered.
    pub(super) fn shed_all(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if !c.has(flag::PIPED) {
            return;
        }
        let (calls, few) = (std::mem::take(&mut c.first), c.answered < FEW_ANSWERS && c.count > 0);
        (c.last, c.count) = (Id::NIL, 0);
        c.set(flag::RELEASE);
        self.move_calls(id, calls, few);
    }

    /// Leaves the answer at the front the connection for itself; the calls behind it are sent elsewhere.
    pub(super) fn shed(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if !c.has(flag::PIPED) {
            return;
        }
        let first = c.first;
        if let Some(k) = self.calls.get_mut(first) {
            let behind = std::mem::take(&mut k.next);
            (c.last, c.count) = (first, 1);
            self.move_calls(id, behind, !behind.is_nil());
        }
    }

    /// Ends the sharing of a connection and sends calls that have left it again. `calm`: no sharing for a while.
    fn move_calls(&mut self, id: Id, calls: Id, calm: bool) {
        let at = self.target_of(id);
        self.conns[id].set(flag::NO_REUSE);
        self.unshare(at, id);
        if calm {
            self.apps[at.a].ports[at.p].backends[at.i].calm_until = self.now.saturating_add(CALM_NS);
        }
        let mut list = Vec::new();
        let mut call = calls;
        while let Some(k) = self.calls.get_mut(call) {
            k.conn = Id::NIL;
            list.push(call);
            call = std::mem::take(&mut k.next);
        }
        for call in list {
            if self.calls.alive(call) {
                self.resend(at, call);
            }
        }
    }

    /// Sends a call again, once, on a fresh connection, or has it wait for one.
    pub(super) fn resend(&mut self, at: Target, call: Id) {
        let now = self.now;
        let k = &mut self.calls[call];
        if !self.tasks.alive(k.task) {
            return self.free_call(call);
        }
        if k.deadline <= now {
            return self.fail_call(call, WL_F_TIMEOUT);
        }
        if k.retried || k.kept.is_empty() {
            return self.fail_call(call, WL_F_LOST);
        }
        k.retried = true;
        let deadline = k.deadline;
        self.my_stats().apps[at.a].ports[at.p].retries.add(1);
        let port = &mut self.apps[at.a].ports[at.p];
        let b = &mut port.backends[at.i];
        if b.open >= port.options.max_connections {
            if b.waiters.len() >= WAITERS_MAX {
                return self.fail_call(call, WL_F_OVERLOAD);
            }
            b.waiters.push_back(call);
            return self.arm_waiters(at, deadline);
        }
        let sent = self.connect(at).and_then(|conn| {
            let kept = Raw::of(self.calls[call].kept.as_slice());
            self.bind(conn, call, kept, Raw::of(&[]))
        });
        if let Err(kind) = sent {
            self.fail_call(call, kind);
        }
    }

    /// The client of a shared connection's answer is slow or gone: the others must not wait for it.
    pub(super) fn leave_alone(&mut self, id: Id) {
        let c = &self.conns[id];
        if c.has(flag::PIPED) && c.mode == Mode::Tail {
            self.shed(id);
            if self.conns[id].sink == Sink::Discard {
                self.close_conn(id, false);
            }
        }
    }
}
