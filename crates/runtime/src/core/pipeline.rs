//! Sharing connections of an exclusive protocol.
//!
//! In: complete requests that the protocol allows to share (`WL_C_PIPELINE`: for HTTP, safe
//! requests without a body). Out: the requests one behind the other on few connections, in one
//! write per batch. Their order matches the answers to them. All other requests have connections of
//! their own.
//!
//! Connections are shared only if a port's option `pipeline` asks for it, because an answer of a
//! wrong length then reaches a wrong client. The option is the maximum number of requests on one
//! connection. With [`AUTO`], only requests of one batch go out together, in one write. They use an
//! idle connection to a backend that is fast enough ([`super::pipelining_policy`]). Then the
//! connection is idle again.
//!
//! A shared connection is left at the first sign that its order could be lost, or that one answer
//! holds up the others. [`Core::shed`] then makes it an exclusive one again, with at most the call
//! whose answer is under way. It is closed after that call. The other calls are sent again, each
//! once and each on a connection of its own. The signs are:
//! - an answer that ends the connection, or that only its end delimits;
//! - an answer without a request, or whose client does not take it;
//! - an answer that is not complete some time after its turn has come ([`PATIENCE_NS`],
//!   [`super::pipelining_policy::PipeliningPolicy::patience`]). If no byte of it has arrived, and
//!   its request lay behind another, that request is sent again as well. The backend may have
//!   dropped it. If it is the only one left, it goes on alone, and its client gets the part that
//!   has arrived. So rare events are not kept back.
//!
//! A connection that ends or breaks the grammar is closed. Calls that have seen no part of an
//! answer are sent again. Answers shorter than `input::SHORT` are awaited whole, so that their
//! clients have seen nothing in that case.

use super::pipelining_policy::PipeliningPolicy;
use super::slab::Id;
use super::types::{flag, Mode, Sink, Target};
use super::{Core, Raw, HIGH};
use crate::abi::*;

/// Values of the option `pipeline`.
const AUTO: u32 = 0;
const NEVER: u32 = 1;
/// How long one answer may hold up those behind it, where `pipeline` is given.
const PATIENCE_NS: u64 = 1_000_000_000;
/// The same with `auto`, while the backend says nothing at all: then to ask again is of little use.
const SILENCE_NS: u64 = 250_000_000;
/// How soon a silent backend is checked again.
const AGAIN_NS: u64 = 5_000_000;
/// How long a backend gets requests on exclusive connections: after a shed, and after bytes that
/// cannot be an answer.
const CALM_NS: u64 = 1_000_000_000;
const BAD_NS: u64 = 60 * CALM_NS;
/// A backend that ends a connection after fewer answers than this is not good at sharing them.
const FEW_ANSWERS: u32 = 16;

impl Core {
    /// A connection that this call may share; None: it takes one of its own, or waits for one.
    pub(super) fn pipelined_conn(&mut self, at: Target, call: Id) -> Option<Id> {
        let port = &self.apps[at.a].ports[at.p];
        let b = &port.backends[at.i];
        if self.calls[call].flags & WL_C_PIPELINE == 0
            || port.options.pipeline == NEVER
            || self.now < b.calm_until
            || !b.waiters.is_empty()
            || self.wants_own(at, call)
        {
            return None;
        }
        match port.options.pipeline {
            AUTO => self.together(at),
            most => self.crowd(at, most),
        }
    }

    /// The connection on which requests of this batch go out together.
    fn together(&mut self, at: Target) -> Option<Id> {
        let port = &self.apps[at.a].ports[at.p];
        let b = &port.backends[at.i];
        let most = b.trust.most(self.now, b.load);
        if most < 2 {
            return None;
        }
        let unsent =
            |id: &Id| self.conns.get(*id).is_some_and(|c| !c.out.is_empty() && !c.has(flag::BLOCKED | flag::IN_FLIGHT));
        if self.takes_more(b.filling, most) && unsent(&b.filling) {
            return Some(b.filling);
        }
        let id = self.take_idle(at)?;
        self.share(id);
        self.apps[at.a].ports[at.p].backends[at.i].filling = id;
        Some(id)
    }

    /// Any connection with fewer than `most` requests under way.
    fn crowd(&mut self, at: Target, most: u32) -> Option<Id> {
        let port = &self.apps[at.a].ports[at.p];
        let b = &port.backends[at.i];
        let open = b.open < port.options.max_connections;
        if let Some(id) = b.piped.iter().find(|id| self.takes_more(**id, most)) {
            return Some(*id);
        }
        let id = match self.take_idle(at) {
            Some(id) => id,
            None if open => self.connect(at).ok()?,
            None => return None,
        };
        self.share(id);
        self.apps[at.a].ports[at.p].backends[at.i].piped.push(id);
        Some(id)
    }

    fn takes_more(&self, id: Id, most: u32) -> bool {
        self.conns.get(id).is_some_and(|c| {
            let usable = c.has(flag::PIPED)
                && !c.has(flag::DOOMED | flag::CLOSING | flag::EOF | flag::NO_REUSE)
                && c.mode == Mode::Head;
            usable && c.count < most && c.out.len() <= HIGH
        })
    }

    /// A connection takes the requests of one that was shared.
    pub(super) fn share_again(&mut self, at: Target, id: Id) {
        self.share(id);
        if !self.asks_itself(at) {
            self.apps[at.a].ports[at.p].backends[at.i].piped.push(id);
        }
        let patience = self.patience(id);
        self.arm(id, self.now.saturating_add(patience));
    }

    fn share(&mut self, id: Id) {
        self.conns[id].set(flag::PIPED);
        self.conns[id].clear(flag::ANSWERING | flag::RELEASE);
    }

    fn asks_itself(&self, at: Target) -> bool {
        self.apps[at.a].ports[at.p].options.pipeline == AUTO
    }

    /// Puts a request behind the others of a shared connection.
    pub(super) fn call_piped(&mut self, conn: Id, call: Id, head: Raw, here: Raw) -> Result<(), u32> {
        self.mark_unsent(conn);
        if !self.keep_request(call, head, here) {
            if self.conns[conn].count == 0 {
                // It is in no list of idle ones any more.
                self.conns[conn].set(flag::DOOMED);
                self.mark_dirty(conn);
            }
            return Err(WL_F_OVERLOAD);
        }
        if let Err(e) = self.append_request(conn, call, head, here) {
            // The appended part must not reach the backend. The calls before it are sent again.
            self.conns[conn].set(flag::DOOMED);
            return Err(e);
        }
        self.pace.shared();
        if self.conns[conn].count > 0 {
            let at = self.target_of(conn);
            self.my_stats().apps[at.a].ports[at.p].pipelined.add(1);
        }
        self.link_call(conn, call);
        let patience = self.patience(conn);
        self.arm(conn, self.now.saturating_add(patience));
        Ok(())
    }

    /// A backend has said something that cannot be an answer: its connections are not shared for a
    /// while.
    pub(super) fn on_violation(&mut self, at: Target, now: u64) {
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        b.trust.on_violation(now);
        b.calm_until = b.calm_until.max(now.saturating_add(BAD_NS));
    }

    pub(super) fn trust(&mut self, at: Target) -> &mut PipeliningPolicy {
        &mut self.apps[at.a].ports[at.p].backends[at.i].trust
    }

    fn patience(&self, id: Id) -> u64 {
        let at = self.target_of(id);
        if self.asks_itself(at) {
            self.apps[at.a].ports[at.p].backends[at.i].trust.patience()
        } else {
            PATIENCE_NS
        }
    }

    /// Nothing has come of the answer at the front, whose request was sent behind another.
    fn stuck(&self, id: Id) -> bool {
        let c = &self.conns[id];
        !c.has(flag::ANSWERING) && self.calls.get(c.first).is_some_and(|k| k.behind)
    }

    /// When the answer at the front has held up the others, or itself, for long enough.
    pub(super) fn crowded_at(&self, id: Id) -> u64 {
        let c = &self.conns[id];
        let (true, Some(first)) = (c.has(flag::PIPED), self.calls.get(c.first)) else { return u64::MAX };
        let turn = first.turn;
        let due = turn.saturating_add(self.patience(id));
        if c.count == 1 && !self.stuck(id) {
            return due;
        }
        let at = self.target_of(id);
        let port = &self.apps[at.a].ports[at.p];
        let alone = || port.backends[at.i].load <= c.count;
        if self.now < due || !self.asks_itself(at) || alone() || port.backends[at.i].trust.heard_since(turn) {
            return due;
        }
        // The backend has answered none of the waiting calls.
        (self.now + AGAIN_NS).min(turn.saturating_add(SILENCE_NS)).max(due)
    }

    /// That time has come.
    pub(super) fn crowded(&mut self, id: Id) {
        let (at, now, stuck) = (self.target_of(id), self.now, self.stuck(id));
        if self.conns[id].count == 1 && !stuck {
            self.unshare(at, id);
            return self.alone(id);
        }
        self.trust(at).on_slow_response(now);
        if !stuck {
            self.shed(id);
            return self.alone(id);
        }
        let calls = self.take_calls(id);
        self.move_calls(id, calls, true);
        self.close_conn(id, false);
    }

    /// A shared connection has one call left. The part of its answer that has arrived was kept back
    /// because of the other calls.
    fn alone(&mut self, id: Id) {
        let Some(c) = self.conns.get(id) else { return };
        let wanted = self.calls.get(c.first).is_some_and(|k| self.tasks.alive(k.task));
        if !wanted && c.mode == Mode::Head {
            self.close_conn(id, false);
        } else if !c.input.is_empty() {
            self.mark_again(id);
        }
    }

    /// The answer at the front is complete: the turn of the one behind it has come.
    #[inline]
    pub(super) fn next_turn(&mut self, id: Id) {
        let (c, now) = (&self.conns[id], self.now);
        if c.has(flag::PIPED) {
            if let Some(next) = self.calls.get_mut(c.first) {
                next.turn = now;
            }
        }
    }

    /// A final answer has begun: updates the policy for its backend.
    #[inline]
    pub(super) fn learn(&mut self, id: Id, call: Id) {
        let k = &self.calls[call];
        let at = self.target_of(id);
        if k.flags & WL_C_PIPELINE == 0 || !self.asks_itself(at) {
            return;
        }
        let now = self.now;
        let trust = &mut self.apps[at.a].ports[at.p].backends[at.i].trust;
        if k.behind {
            trust.on_pipelined_response(now)
        } else {
            trust.on_response(now, now.saturating_sub(k.turn))
        }
    }

    /// An answer has gone from a shared connection. If it is idle now, and requests wait for an
    /// exclusive one or this was shared by one batch, it is exclusive again.
    pub(super) fn give_up_idle(&mut self, id: Id) {
        let at = self.target_of(id);
        let Some(c) = self.conns.get(id) else { return };
        let wanted = || self.asks_itself(at) || !self.apps[at.a].ports[at.p].backends[at.i].waiters.is_empty();
        if c.has(flag::PIPED) && c.count == 0 && wanted() {
            self.unshare(at, id);
            self.conns[id].set(flag::RELEASE);
        }
    }

    fn unshare(&mut self, at: Target, id: Id) {
        self.conns[id].clear(flag::PIPED);
        self.apps[at.a].ports[at.p].backends[at.i].piped.retain(|x| *x != id);
    }

    /// The last whole answer has ended a shared connection: nothing that was sent behind it will be
    /// answered.
    pub(super) fn shed_all(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if !c.has(flag::PIPED) {
            return;
        }
        let few = c.answered < FEW_ANSWERS && c.count > 0;
        c.set(flag::RELEASE);
        let calls = self.take_calls(id);
        if few {
            let (at, now) = (self.target_of(id), self.now);
            self.trust(at).on_slow_response(now);
        }
        self.move_calls(id, calls, few);
    }

    /// Leaves the answer at the front the connection for itself; the calls behind it are sent
    /// elsewhere.
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

    /// Takes all calls from a connection: the first of their list.
    pub(super) fn take_calls(&mut self, id: Id) -> Id {
        let c = &mut self.conns[id];
        (c.last, c.count) = (Id::NIL, 0);
        std::mem::take(&mut c.first)
    }

    /// Ends the sharing of a connection and sends calls that have left it again. `calm`: no sharing
    /// for a while.
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
        self.my_stats().apps[at.a].ports[at.p].retries.add(1);
        self.send_kept(at, call);
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
