//! Time: one lazily re-armed timer per connection, plus periodic handlers, probes and waiting
//! requests.
//!
//! When its timer fires, the state of a connection gives its deadline. Messages do not touch the
//! wheel. A timer that fires moves forward in time. It moves back only when a nearer deadline comes
//! up.

use super::ejection::Why;
use super::slab::Id;
use super::types::{begin, flag, Call, Conn, Mode, Pooling, Side, Sink, Target};
use super::{Core, DRAIN_LINGER_NS, LINGER_NS};
use crate::abi::*;
use crate::stats::NO_PLACE;

const CONN: u64 = 0;
const EVERY: u64 = 1 << 56;
const PROBE: u64 = 2 << 56;
const WAITERS: u64 = 3 << 56;
const ENTRIES: u64 = 4 << 56;
const GONE: u64 = 5 << 56;
const KIND: u64 = 0xff << 56;

/// Why a connection's time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    Connect,
    /// A client has waited for a session of its pool.
    Session,
    Linger,
    Read,
    Write,
    Call,
    /// A handler of a conversation has waited for an answer.
    Ask,
    /// One answer holds up the others of a shared connection.
    Crowd,
    /// The same, of a pipelined protocol.
    HeldUp,
    Idle,
}

impl Core {
    /// Sets a connection's timer, unless it fires earlier anyway.
    pub(super) fn arm(&mut self, id: Id, at: u64) {
        let c = &mut self.conns[id];
        if at >= c.timer_at {
            return;
        }
        self.wheel.cancel(c.timer);
        c.timer_at = at;
        c.timer = self.wheel.insert(at, CONN | (u64::from(id.gen) & 0xff_ffff) << 32 | u64::from(id.index));
    }

    /// A message has begun and is not complete.
    pub(super) fn arm_message(&mut self, id: Id) {
        let c = &self.conns[id];
        let o = &self.apps[c.app as usize].ports[c.port as usize].options;
        let span = if c.side == Side::Client { o.read_timeout } else { o.stream_timeout };
        self.arm(id, self.now.saturating_add(span));
    }

    pub(super) fn arm_write(&mut self, id: Id) {
        let c = &self.conns[id];
        let span = self.apps[c.app as usize].ports[c.port as usize].options.write_timeout;
        self.arm(id, self.now.saturating_add(span));
    }

    pub(super) fn arm_every(&mut self, a: usize, i: usize) {
        let at = self.now.saturating_add(self.apps[a].every[i].1);
        self.wheel.insert(at, EVERY | (a as u64) << 32 | i as u64);
    }

    pub(super) fn arm_probe(&mut self, at: Target, when: u64) {
        self.wheel.insert(when, PROBE | pack(at));
    }

    /// Sets the timer at which entries of tables are looked at.
    pub(super) fn arm_entries(&mut self, when: u64) {
        self.wheel.insert(when, ENTRIES);
    }

    /// Sets the timer at which servers that are gone are looked at.
    pub(super) fn arm_gone(&mut self, when: u64) {
        if when < self.gone_due || self.gone_due <= self.now {
            self.gone_due = when;
            self.wheel.insert(when, GONE);
        }
    }

    /// Sets the timer of a backend's waiting requests.
    pub(super) fn arm_waiters(&mut self, at: Target, when: u64) {
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        if when < b.waiters_timer {
            b.waiters_timer = when;
            self.wheel.insert(when, WAITERS | pack(at));
        }
    }

    pub(super) fn run_timers(&mut self) {
        let mut fired = std::mem::take(&mut self.fired);
        fired.clear();
        self.wheel.expire(self.now, &mut fired);
        for payload in &fired {
            match payload & KIND {
                EVERY => self.every_due((payload >> 32) as usize & 0xff_ffff, *payload as u32 as usize),
                PROBE => self.probe(unpack(*payload)),
                WAITERS => self.waiters_due(unpack(*payload)),
                ENTRIES => self.look_at_entries(),
                GONE => self.look_at_gone_servers(),
                _ => self.conn_due(*payload),
            }
        }
        self.fired = fired;
    }

    fn every_due(&mut self, a: usize, i: usize) {
        let handler = self.apps[a].every[i].0;
        self.with_own_counters(a, handler, |core| core.run_event(a, handler, Id::NIL, None));
        self.arm_every(a, i);
    }

    fn waiters_due(&mut self, at: Target) {
        let now = self.now;
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        b.waiters_timer = u64::MAX;
        let (mut late, mut next) = (Vec::new(), u64::MAX);
        let calls = &self.calls;
        b.waiters.retain(|call| match calls.get(*call) {
            Some(c) if c.deadline <= now => {
                late.push(*call);
                false
            }
            Some(c) => {
                next = next.min(c.deadline);
                true
            }
            None => false,
        });
        if next != u64::MAX {
            self.arm_waiters(at, next);
        }
        for call in late {
            self.fail_call(call, WL_F_TIMEOUT);
        }
    }

    fn conn_due(&mut self, payload: u64) {
        let Some(id) = self.conn_of(payload) else { return };
        self.conns[id].timer_at = u64::MAX;
        let (at, due) = self.deadline(id);
        if at > self.now || due == Due::Nothing {
            if at != u64::MAX {
                self.arm(id, at);
            }
            return;
        }
        let client = self.conns[id].side == Side::Client;
        match due {
            Due::Nothing => {}
            Due::Session => self.waited_in_vain(id),
            Due::Ask => self.asks_late(id),
            Due::Connect if self.conns[id].greets > 0 => self.not_greeted(id, Why::Silent),
            Due::Connect => self.connect_failed(id, false),
            Due::Idle if client => self.client_idle(id),
            Due::Linger if client => self.close_conn(id, false),
            Due::Linger | Due::Idle => self.close_conn(id, false),
            Due::Write if client => {
                self.count_cut(id, WL_F_IDLE);
                self.close_conn(id, true);
            }
            Due::Write | Due::Call if self.conns[id].member != 0 => self.upstream_silent(id),
            Due::Write => self.backend_silent(id),
            Due::Read if self.conns[id].member != 0 => self.kept_fault(id, WL_F_IDLE),
            Due::Read if self.conns[id].mode == Mode::Tail => self.slow_tail(id),
            Due::Read => self.kept_fault(id, WL_F_IDLE),
            Due::Call => self.calls_due(id),
            Due::Crowd => self.crowded(id),
            Due::HeldUp => self.held_up(id),
        }
        if self.conns.alive(id) {
            let (at, _) = self.deadline(id);
            if at != u64::MAX {
                self.arm(id, at.max(self.now + 1_000_000));
            }
        }
    }

    fn conn_of(&self, payload: u64) -> Option<Id> {
        let (index, gen) = (payload as u32, (payload >> 32) as u32 & 0xff_ffff);
        let id = self.conns.current(index)?;
        (id.gen & 0xff_ffff == gen).then_some(id)
    }

    /// A connection's nearest deadline, and its kind.
    fn deadline(&self, id: Id) -> (u64, Due) {
        let own = self.own_deadline(id);
        match self.ask_due(id) {
            Some(at) if at < own.0 => (at, Due::Ask),
            _ => own,
        }
    }

    /// The same without the calls of handlers.
    fn own_deadline(&self, id: Id) -> (u64, Due) {
        let c = &self.conns[id];
        let o = &self.apps[c.app as usize].ports[c.port as usize].options;
        let mut best = (u64::MAX, Due::Nothing);
        let mut consider = |at: u64, due: Due| {
            if at < best.0 {
                best = (at, due);
            }
        };
        if c.pooling.waits() {
            return (c.since.saturating_add(o.pool_timeout), Due::Session);
        }
        if c.has(flag::CONNECTING) && !c.begins(begin::GREETED) || c.greets > 0 {
            // An attempt that is only to see is over when the next one is due.
            let patience = if c.has(flag::PROBE) { self.probe_patience(self.target_of(id)) } else { o.connect_timeout };
            return (c.since.saturating_add(patience), Due::Connect);
        }
        if c.has(flag::CLOSING) && c.has(flag::SHUT) {
            let span = if self.draining { DRAIN_LINGER_NS } else { LINGER_NS };
            return (c.since.saturating_add(span), Due::Linger);
        }
        if c.has(flag::TURNED_AWAY) {
            return (c.since.saturating_add(LINGER_NS), Due::Linger);
        }
        if !c.out.is_empty() {
            consider(c.last_tx.saturating_add(o.write_timeout), Due::Write);
        }
        let moving = c.last_rx.max(c.last_tx);
        if c.mode == Mode::Raw {
            consider(moving.saturating_add(o.idle_timeout), Due::Idle);
            return best;
        }
        if c.pooling == Pooling::Idle {
            return (self.session_kept_until(id), Due::Idle);
        }
        if c.pooling.is_nobodys() {
            consider(c.since.saturating_add(o.reset_timeout()), Due::Call);
            return best;
        }
        if c.member != 0 {
            let (at, due) = self.member_deadline(id);
            consider(at, due);
            return best;
        }
        consider(self.crowded_at(id), Due::Crowd);
        consider(self.held_up_until(id), Due::HeldUp);
        match c.side {
            Side::Client => {
                let partial = c.mode == Mode::Head && c.view.is_some() && !c.has(flag::LAST);
                if partial {
                    consider(c.since.saturating_add(o.read_timeout), Due::Read);
                } else if c.mode == Mode::Tail && !c.has(flag::PAUSED) {
                    consider(c.last_rx.saturating_add(o.read_timeout), Due::Read);
                } else if c.count == 0 {
                    consider(moving.saturating_add(o.idle_timeout), Due::Idle);
                }
            }
            Side::Backend if c.count == 0 => consider(moving.saturating_add(o.idle_timeout), Due::Idle),
            Side::Backend if c.mode == Mode::Tail => {
                if !c.has(flag::PAUSED) {
                    consider(self.stream_deadline(id, o.stream_timeout), Due::Call);
                }
                if self.is_shared_by_id(id) {
                    let behind = self.calls.get(c.first).map_or(Id::NIL, |k| k.next);
                    consider(self.first_deadline(id, behind), Due::Call);
                }
            }
            Side::Backend => consider(self.first_deadline(id, c.first), Due::Call),
        }
        best
    }

    /// The nearest deadline of a call and of those behind it.
    fn first_deadline(&self, id: Id, first: Id) -> u64 {
        let c = &self.conns[id];
        let patience = self.apps[c.app as usize].ports[c.port as usize].options.answer_timeout;
        let retired = self.is_retired(id);
        let (mut nearest, mut at) = (u64::MAX, first);
        while let Some(k) = self.calls.get(at) {
            let due = match k.task.is_nil() {
                false => self.call_deadline(k),
                true if retired => u64::MAX,
                true => k.deadline.saturating_add(patience),
            };
            nearest = nearest.min(due);
            at = k.next;
        }
        nearest
    }

    /// The same of a connection in a conversation. The client's counts for all of them.
    fn member_deadline(&self, id: Id) -> (u64, Due) {
        let c = &self.conns[id];
        let o = &self.apps[c.app as usize].ports[c.port as usize].options;
        let client = c.side == Side::Client;
        let (span, due) = if client { (o.read_timeout, Due::Read) } else { (o.stream_timeout, Due::Call) };
        if c.count > 0 {
            // Its handler waits for an answer.
            (self.now.saturating_add(o.idle_timeout), Due::Nothing)
        } else if c.mode == Mode::Head && c.view.is_some() && !c.has(flag::LAST) {
            (c.since.saturating_add(span), due)
        } else if c.mode == Mode::Tail && !c.has(flag::PAUSED | flag::STALLED) && !is_endless(c) {
            (c.last_rx.saturating_add(span), due)
        } else if client {
            (self.last_moved(id).saturating_add(o.idle_timeout), Due::Idle)
        } else {
            (self.answer_due(id).unwrap_or(u64::MAX), Due::Call)
        }
    }

    /// A request that is still arriving is its client's to complete, so its call has no end yet. A
    /// backend that takes none of it has the time of an answer from its last byte on.
    fn call_deadline(&self, k: &Call) -> u64 {
        match self.is_arriving(k) {
            true => self.fed_deadline(k.conn, k.deadline - k.issued),
            false => k.deadline,
        }
    }

    /// The same of an answer that has begun: the rest of it may depend on the rest of its request.
    pub(super) fn stream_deadline(&self, id: Id, span: u64) -> u64 {
        let c = &self.conns[id];
        match self.calls.get(c.first).filter(|k| self.is_arriving(k)) {
            Some(_) => self.fed_deadline(id, span),
            // On a connection for one request, the last bytes sent are of the same one.
            None if self.can_close_alone(id) => c.last_rx.max(c.last_tx).saturating_add(span),
            None => c.last_rx.saturating_add(span),
        }
    }

    /// Whether bytes of a call's request are still to come from its client to its connection.
    fn is_arriving(&self, k: &Call) -> bool {
        self.conns.get(k.stream).is_some_and(|s| s.mode == Mode::Tail && s.sink == Sink::Conn(k.conn))
    }

    /// When a connection to which a request still arrives is looked at again. If it has taken all
    /// bytes so far, nothing is due at that time.
    pub(super) fn fed_deadline(&self, id: Id, span: u64) -> u64 {
        let c = &self.conns[id];
        let from = if c.out.is_empty() { self.now } else { c.last_rx.max(c.last_tx) };
        from.saturating_add(span)
    }

    /// The last byte of a request has come: from now on its backend has the time of an answer.
    pub(super) fn request_complete(&mut self, backend: Id, client: Id) {
        let Some(mut at) = self.conns.get(backend).map(|c| c.first) else { return };
        while let Some(k) = self.calls.get_mut(at) {
            if k.stream == client {
                // The client's next message is none of its.
                k.stream = Id::NIL;
                k.deadline = self.now.saturating_add(k.deadline - k.issued);
                let deadline = k.deadline;
                return self.arm(backend, deadline);
            }
            at = k.next;
        }
    }

    /// A client that sends its body too slowly. Its backend is not to blame.
    fn slow_tail(&mut self, id: Id) {
        // An answer that has begun is cut off with the connection to the backend.
        self.note_fault(self.conns[id].last, WL_F_IDLE);
        let owner = self.stop_request(id);
        if self.tasks.alive(owner) {
            self.detach_calls(owner);
            self.task_fault(owner, WL_F_IDLE, NO_PLACE);
        } else {
            self.count_fault_at(id, WL_F_IDLE, NO_PLACE);
        }
        if let Some(c) = self.conns.get_mut(id) {
            c.set(flag::CLOSING);
            self.mark_dirty(id);
        }
    }

    /// Calls that were not answered in time: they fail. The connection stays in use if the backend
    /// has sent anything since the oldest of them; a silent one is closed.
    fn calls_due(&mut self, id: Id) {
        if self.conns[id].has(flag::DATAGRAM) {
            return self.datagrams_due(id);
        }
        if self.is_shared_by_id(id) {
            return self.calls_due_by_id(id);
        }
        // Calls behind the late one are sent again; the late call fails.
        self.shed(id);
        let c = &self.conns[id];
        let patience = self.apps[c.app as usize].ports[c.port as usize].options.answer_timeout;
        let late = self.late(id);
        // Nothing has come for long, or one of them has been waited for twice as long. A call that
        // had less time says nothing about the others.
        let silent =
            c.last_rx.saturating_add(patience) <= self.now || late.iter().any(|k| self.calls[*k].task.is_nil());
        if silent || c.mode == Mode::Tail || self.can_close_alone(id) {
            self.backend_silent(id);
            return;
        }
        let at = self.target_of(id);
        late.iter().for_each(|_| self.backend_failed(at, Why::Silent));
        for call in late {
            let Some(k) = self.calls.get_mut(call) else { continue };
            let (task, part) = (std::mem::take(&mut k.task), k.part);
            self.complete_part(task, part, WL_F_TIMEOUT, None);
        }
    }

    /// The calls of a connection whose deadline is over. Abandoned calls have some more time.
    pub(super) fn late(&self, id: Id) -> Vec<Id> {
        let patience =
            self.apps[self.conns[id].app as usize].ports[self.conns[id].port as usize].options.answer_timeout;
        let (mut late, mut at) = (Vec::new(), self.conns[id].first);
        while let Some(k) = self.calls.get(at) {
            let due = if k.task.is_nil() { k.deadline.saturating_add(patience) } else { self.call_deadline(k) };
            if due <= self.now {
                late.push(at);
            }
            at = k.next;
        }
        late
    }

    /// A backend that says or takes nothing: the connection is given up. Each call that it has not
    /// answered in time is a failure.
    fn backend_silent(&mut self, id: Id) {
        let at = self.target_of(id);
        self.shed(id);
        let failures = self.late(id).len().max(1);
        (0..failures).for_each(|_| self.backend_failed(at, Why::Silent));
        if !self.conns.alive(id) {
            return;
        }
        self.conns[id].set(flag::ANSWERING); // no retry after a timeout
        self.fail_backend(id, WL_F_TIMEOUT, WL_F_TIMEOUT);
    }
}

fn pack(at: Target) -> u64 {
    (at.a as u64 & 0xff) << 48 | (at.p as u64 & 0xffff) << 32 | at.i as u64 & 0xffff_ffff
}

fn unpack(p: u64) -> Target {
    Target { a: (p >> 48) as usize & 0xff, p: (p >> 32) as usize & 0xffff, i: p as u32 as usize }
}

/// Whether a message streams until its connection ends: it may pause for as long as its sides like.
fn is_endless(c: &Conn) -> bool {
    // SAFETY: a view begins with the parser's state, and is a connection's own.
    c.view.as_ref().is_some_and(|v| unsafe { (*v.as_ptr().cast::<wl_parser>()).flags } & WL_M_UNTIL_EOF != 0)
}
