//! Calls in conversations: a handler sends a message on an upstream and waits for its answer.
//!
//! In: the message, and how its answer is told. Out: the one message of the server that answers it
//! becomes a part of the task, and reaches no other handler. By values, the first message with
//! which the protocol's `matches` holds is the answer. By order, it is the message that settles the
//! answer owed to this question: so many settle others before.
//!
//! An answer that comes too late, or whose handler has ended, is dropped. Its place is kept until
//! then, so that it is not taken for the answer to a later question. Where the order is not known
//! for sure any more, nobody asks by it.

use super::input::FoundMessage;
use super::owed_answers::UNREAD;
use super::questions::{Question, Tie};
use super::slab::Id;
use super::types::{flag, Conn, Mode, Sink, NO_PROTO};
use super::{Core, Raw};
use crate::abi::*;
use crate::program::Verdict;

/// Questions of one connection that wait for answers, or whose answers are to be dropped. One more
/// is the fault `overload`.
const MOST: usize = 64;

impl Conn {
    /// A message of the server ends an answer that is owed.
    pub(super) fn settle_asks(&mut self) {
        for a in self.asks.iter_mut().flat_map(|asks| &mut asks.all) {
            if let Tie::Order(left) = &mut a.tie {
                *left = left.saturating_sub(1);
            }
        }
    }

    /// Forgets the questions for which this does not hold.
    fn keep_asks(&mut self, holds: impl Fn(&Question) -> bool) {
        if let Some(asks) = &mut self.asks {
            asks.all.retain(holds);
            if asks.all.is_empty() {
                self.asks = None;
            }
        }
    }

    /// Whether the message at hand is awaited as a whole.
    pub(super) fn awaits_whole(&self) -> bool {
        self.asks.as_ref().is_some_and(|asks| asks.whole)
    }
}

impl Core {
    pub(super) fn host_ask(&mut self, id: Id, (number, proto): (u32, u16), (head, tail): (Raw, u32), how: &wl_call) {
        let part = self.new_part(id, how.flags);
        if let Err(kind) = self.ask(id, part, (number, proto), (head, tail), how) {
            self.complete_part(id, part, kind, None);
        }
    }

    fn ask(
        &mut self,
        id: Id,
        part: u32,
        (number, proto): (u32, u16),
        (head, tail): (Raw, u32),
        how: &wl_call,
    ) -> Result<(), u32> {
        let by_order = how.flags & WL_C_MATCHES == 0;
        let client = self.tasks[id].conn;
        if let Some(c) = self.upstream(client, number).and_then(|u| self.conns.get(u)) {
            if by_order && c.uncounted {
                return Err(WL_F_BAD_REPLY);
            }
            if c.asks.as_ref().is_some_and(|asks| asks.all.len() >= MOST) {
                return Err(WL_F_OVERLOAD);
            }
        }
        // A message that is not answered would wait for the answer to another one.
        if by_order {
            let facts = self.facts_of_sent(id, proto, head);
            if facts == UNREAD || facts & WL_M_OWES == 0 {
                return Err(WL_F_CONSTRAINT);
            }
        }
        self.host_tell(id, (number + 1, proto), head, tail)?;
        let upstream = self.upstream(client, number).ok_or(WL_F_LOST)?;
        let listens = self.conns.get(client).map_or(0, |c| c.port as usize);
        let c = &self.conns[upstream];
        let ports = &self.apps[c.app as usize].ports;
        // Of a protocol that counts answers a silent server is noticed by itself.
        let counts = self.apps[c.app as usize].protos[usize::from(proto)].tells_owed;
        let patience = match (how.timeout_ns, ports[c.port as usize].options.answer_timeout) {
            (0, 0) => ports[listens].options.idle_timeout,
            (0, _) if counts => ports[listens].options.idle_timeout,
            (0, by_port) => by_port,
            (within, _) => within,
        };
        let deadline = self.now.saturating_add(patience);
        let c = &mut self.conns[upstream];
        let tie = if by_order { Tie::Order(c.owed) } else { Tie::Values(how.ctx) };
        let ask = Question { task: id, part, proto, flags: how.flags, deadline, tie };
        c.asks.get_or_insert_default().all.push(ask);
        self.arm(upstream, deadline);
        Ok(())
    }

    /// Whether a handler waits for an answer on a connection.
    pub(super) fn is_asked(&self, c: &Conn) -> bool {
        c.asks.as_ref().is_some_and(|asks| asks.all.iter().any(|a| self.tasks.alive(a.task)))
    }

    /// When the time of a question is over.
    pub(super) fn ask_due(&self, id: Id) -> Option<u64> {
        let asks = self.conns[id].asks.as_ref()?;
        asks.all.iter().filter(|a| !a.task.is_nil()).map(|a| a.deadline).min()
    }

    /// Which question the message at hand answers. It has not been counted yet.
    pub(super) fn answered(&mut self, id: Id, rest: Raw, m: &FoundMessage) -> Option<usize> {
        let c = &self.conns[id];
        let (proto, eof) = (c.proto, c.has(flag::EOF));
        // SAFETY: the view is live until `end_message`.
        let (flags, ctx) = unsafe { ((*m.view).flags, (*m.view).ctx) };
        let settles = flags & WL_M_SETTLES != 0 && c.owed > 0;
        let n = c.asks.as_ref()?.all.len();
        (0..n).find(|i| {
            let Some(a) = self.conns[id].asks.as_ref().map(|asks| asks.all[*i]) else { return false };
            // Of a connection that has changed its protocol, no answer comes in the one before.
            a.proto == proto
                && match a.tie {
                    Tie::Order(left) => settles && left == 1,
                    Tie::Values(values) => self.belongs(id, ctx | values, (rest, eof), m),
                }
        })
    }

    /// Whether a message, read with the values of a question, is its answer.
    fn belongs(&mut self, id: Id, ctx: u64, (rest, eof): (Raw, bool), m: &FoundMessage) -> bool {
        let c = &self.conns[id];
        let a = c.app as usize;
        let Some(unit) = self.apps[a].protos[usize::from(c.proto)].response else { return false };
        let mut view = self.apps[a].views.take(unit);
        view.reset();
        let v: *mut wl_parser = view.as_mut_ptr();
        // SAFETY: the view is one of this unit; the bytes of the message are in place.
        let (verdict, flags) = unsafe {
            (*v).ctx = ctx;
            (unit.parse(v, rest.p, m.have as u32, eof), (*v).flags)
        };
        self.apps[a].views.give(Some(view));
        matches!(verdict, Verdict::Head | Verdict::Whole) && flags & (WL_M_STRAY | WL_M_IN_STEP) == 0
    }

    /// Whether more of a message must come before its handler goes on: it reads all of it.
    pub(super) fn waits_for_rest(&mut self, id: Id, rest: Raw, m: &FoundMessage, whole_max: usize) -> bool {
        if m.whole || whole_max == 0 || self.conns[id].asks.is_none() || self.conns[id].awaits_whole() {
            return false;
        }
        // SAFETY: the view is live until `end_message`.
        let (left, flags) = unsafe { ((*m.view).left, (*m.view).flags) };
        let fits = left.saturating_add(m.have as u64) <= whole_max as u64;
        if !fits || flags & WL_M_IN_STEP != 0 || self.piece_handler(id).is_some() {
            return false;
        }
        let holds = self.answered(id, rest, m).is_some_and(|i| self.is_held(id, i));
        if let (true, Some(asks)) = (holds, &mut self.conns[id].asks) {
            asks.whole = true;
            let c = &mut self.conns[id];
            // As if the parser had asked for more.
            c.set(flag::HEAD_DONE);
            c.tail_used = (m.have - m.head) as u32;
        }
        holds
    }

    fn is_held(&self, id: Id, ask: usize) -> bool {
        let asked = self.conns[id].asks.as_ref().and_then(|asks| asks.all.get(ask));
        asked.is_some_and(|a| self.tasks.get(a.task).is_some_and(|t| a.flags & WL_C_HOLD != 0 || t.parts.len() > 1))
    }

    /// An answer becomes a part of the task that waits for it. If nobody does, it is dropped.
    pub(super) fn give_answer(&mut self, id: Id, ask: usize, rest: Raw, m: &FoundMessage) {
        let hold = self.is_held(id, ask);
        let Some(asks) = &mut self.conns[id].asks else { return };
        let Question { task, part, .. } = asks.all.remove(ask);
        asks.whole = false;
        if asks.all.is_empty() {
            self.conns[id].asks = None;
        }
        self.conns[id].owner = Id::NIL;
        if !m.whole {
            self.end_pieces(id);
        }
        let Some(t) = self.tasks.get_mut(task) else {
            let at = self.target_of(id);
            self.my_stats().apps[at.a].ports[at.p].surplus.add(1);
            self.conns[id].sink = Sink::Discard;
            return;
        };
        t.rep_src = id;
        t.rep_more = !m.whole;
        if hold && !m.whole {
            // It is too long to be held; half of it must not pass for the whole.
            self.complete_part(task, part, WL_F_OVERLOAD, None);
        } else {
            self.complete_part(task, part, WL_S_OK, Some((m.seen(rest.p), m.length(), hold)));
        }
        if let Some(c) = self.conns.get_mut(id).filter(|c| !m.whole && c.mode == Mode::Tail) {
            if c.sink == Sink::Undecided {
                c.sink = Sink::Discard;
            }
        }
    }

    /// The time of questions is over. Their answers may still come.
    pub(super) fn asks_late(&mut self, id: Id) {
        let now = self.now;
        self.give_up_asks(id, WL_F_TIMEOUT, &|a| a.deadline <= now);
    }

    fn give_up_asks(&mut self, id: Id, kind: u32, which: &dyn Fn(&Question) -> bool) {
        let Some(asks) = &mut self.conns[id].asks else { return };
        let mut given_up = Vec::new();
        for a in asks.all.iter_mut().filter(|a| !a.task.is_nil() && which(a)) {
            given_up.push((std::mem::take(&mut a.task), a.part));
        }
        for (task, part) in given_up {
            self.complete_part(task, part, kind, None);
        }
    }

    /// No further answer comes on a connection. The handlers that wait go on by a fault.
    pub(super) fn fail_asks(&mut self, id: Id, kind: u32) {
        let Some(asks) = self.conns.get_mut(id).and_then(|c| c.asks.take()) else { return };
        for a in asks.all {
            self.complete_part(a.task, a.part, kind, None);
        }
    }

    /// A message of the server cannot be read: whose answer it is, nobody knows.
    pub(super) fn asks_in_doubt(&mut self, id: Id) {
        let Some(c) = self.conns.get_mut(id) else { return };
        c.uncounted |= c.owed > 0;
        self.give_up_asks(id, WL_F_BAD_REPLY, &|_| true);
        let Some(c) = self.conns.get_mut(id) else { return };
        if let Some(asks) = &mut c.asks {
            asks.whole = false;
        }
        c.keep_asks(|a| matches!(a.tie, Tie::Values(_)));
    }

    /// The messages of an upstream go out on another one, in front of its own.
    pub(super) fn inherit_asks(&mut self, old: Id, new: Id, owed: u32) {
        let before = self.conns[old].asks.take();
        let uncounted = self.conns[old].uncounted;
        let n = &mut self.conns[new];
        n.uncounted |= uncounted;
        let Some(mut before) = before else { return };
        before.whole = false;
        if let Some(after) = n.asks.take() {
            before.all.extend(after.all.into_iter().map(|mut a| {
                if let Tie::Order(left) = &mut a.tie {
                    *left = left.saturating_add(owed);
                }
                a
            }));
        }
        n.asks = Some(before);
        if let Some(at) = self.ask_due(new) {
            self.arm(new, at);
        }
    }

    /// A connection has changed its protocol: no answer comes in the one before.
    pub(super) fn asks_unspoken(&mut self, id: Id) {
        // A handler may be under way here.
        if self.conns[id].asks.is_some() && !self.unspoken.contains(&id) {
            self.unspoken.push(id);
        }
    }

    /// Ends the questions of connections that have changed their protocol. Whether there were any.
    pub(super) fn end_unspoken(&mut self) -> bool {
        if self.unspoken.is_empty() {
            return false;
        }
        for id in std::mem::take(&mut self.unspoken) {
            let Some(c) = self.conns.get(id).filter(|c| c.becomes == NO_PROTO) else { continue };
            let proto = c.proto;
            self.give_up_asks(id, WL_F_UNSPOKEN, &|a| a.proto != proto);
            if let Some(c) = self.conns.get_mut(id) {
                c.keep_asks(|a| a.proto == proto);
            }
        }
        true
    }
}
