//! Answers that the server of a conversation owes, counted by the protocol's clauses.
//!
//! In: messages that go out on an upstream, and its server's messages. Out: how many answers are
//! still to come. A message for which `owes when` holds owes one server's message for which
//! `settles when` holds. One of `unfinished when` is done with once a message of `owes when`
//! follows it.
//!
//! A message that is passed on as it came has been read. One that the program has made or changed
//! is read again, up to the end of its head. If that cannot be read, it owes an answer. So a
//! session stays with its client rather too long than too short.

use super::slab::Id;
use super::types::{Conn, CLIENT};
use super::{Core, Raw};
use crate::abi::*;
use crate::program::Verdict;

/// A message that cannot be read counts as one that is answered.
pub(super) const UNREAD: u32 = WL_M_OWES | WL_M_IN_STEP;

impl Conn {
    /// Whether its server, or its client, has not done all that a message has begun.
    pub(super) fn owes(&self) -> bool {
        self.owed > 0 || self.unfinished
    }

    /// Takes over what another upstream, whose messages go out before its own, has owed.
    pub(super) fn owes_for(&mut self, before: (u32, bool), now: u64) {
        self.unfinished |= before.1 && self.owed == 0;
        self.owed = self.owed.saturating_add(before.0);
        (self.asked, self.heard) = (now, self.owed == 0);
    }

    /// Whether its server owes an answer, and has said nothing since it was asked.
    pub(super) fn is_silent(&self) -> bool {
        self.owed > 0 && !self.heard
    }
}

impl Core {
    /// A message goes out on an upstream.
    pub(super) fn count_owed(&mut self, task: Id, upstream: Id, proto: u16, head: Raw) {
        let a = self.conns[upstream].app as usize;
        if !self.apps[a].protos[usize::from(proto)].tells_owed {
            return;
        }
        let flags = self.facts_of_sent(task, proto, head);
        let now = self.now;
        let c = &mut self.conns[upstream];
        c.uncounted |= flags == UNREAD;
        if flags & WL_M_OWES != 0 {
            // Further questions give a server that has not begun its answer no more time.
            if !c.is_silent() {
                (c.asked, c.heard) = (now, false);
            }
            c.owed = c.owed.saturating_add(1);
            c.unfinished = false;
            self.arm_answer(upstream);
        } else if flags & WL_M_UNFINISHED != 0 {
            c.unfinished = true;
        }
    }

    /// Sets the timer of an upstream whose server owes an answer.
    pub(super) fn arm_answer(&mut self, upstream: Id) {
        if let Some(at) = self.answer_due(upstream) {
            self.arm(upstream, at);
        }
    }

    /// When a server that owes an answer counts as silent. Once it has begun the answer, it has the
    /// time between two pieces of one. While a long message goes to it, it has that time to take
    /// the bytes that have come.
    pub(super) fn answer_due(&self, upstream: Id) -> Option<u64> {
        let c = &self.conns[upstream];
        let o = &self.apps[c.app as usize].ports[c.port as usize].options;
        if o.answer_timeout == 0 || c.owed == 0 {
            return None;
        }
        Some(if self.is_fed(upstream) {
            self.fed_deadline(upstream, o.stream_timeout)
        } else if c.is_silent() {
            c.asked.saturating_add(o.answer_timeout)
        } else {
            c.last_rx.max(c.last_tx).saturating_add(o.stream_timeout)
        })
    }

    /// A long message has passed: a server that has not begun its answer has its time from now on.
    pub(super) fn ask_completely(&mut self, upstream: Id) {
        let now = self.now;
        let c = &mut self.conns[upstream];
        if c.is_silent() {
            c.asked = now;
            self.arm_answer(upstream);
        }
    }

    /// A server has said a message. Behind the end of an answer the next one has not begun.
    pub(super) fn settle_owed(&mut self, upstream: Id, flags: u32) {
        let now = self.now;
        let c = &mut self.conns[upstream];
        c.heard = true;
        if flags & WL_M_SETTLES != 0 {
            if c.owed > 0 {
                c.settle_asks();
            }
            c.owed = c.owed.saturating_sub(1);
            if c.owed > 0 {
                (c.asked, c.heard) = (now, false);
                self.arm_answer(upstream);
            }
        }
    }

    /// Whether a server waits for the client behind this message.
    pub(super) fn rests_behind(&self, upstream: Id, flags: u32) -> bool {
        flags & WL_M_IDLE != 0 && !self.conns[upstream].owes()
    }

    /// The protocol's facts about a message that is sent. `UNREAD`: it cannot be read.
    pub(super) fn facts_of_sent(&mut self, task: Id, proto: u16, head: Raw) -> u32 {
        let t = &self.tasks[task];
        let (client, src, flags, base) = (t.conn, t.src, t.req_flags, t.c.req.base);
        let from_client = src == client && self.conns.get(src).is_some_and(|c| c.member == CLIENT && c.proto == proto);
        if from_client && !base.is_null() && base == head.p {
            return flags;
        }
        let Some(c) = self.conns.get(client) else { return WL_M_OWES };
        let a = c.app as usize;
        // The head may lie in the program's scratch, which is left as it is.
        let out = self.apps[a].wl.out.p;
        let ctx = self.context_within(client, proto, false);
        let unit = self.apps[a].protos[usize::from(proto)].request;
        let mut view = self.apps[a].views.take(unit);
        view.reset();
        let v: *mut wl_parser = view.as_mut_ptr();
        // SAFETY: the view is one of this unit; the program's bytes are in place.
        let (verdict, flags) = unsafe {
            (*v).ctx = ctx;
            (unit.parse(v, head.p, head.n as u32, false), (*v).flags)
        };
        self.apps[a].views.give(Some(view));
        self.apps[a].wl.out.p = out;
        match verdict {
            Verdict::Head | Verdict::Whole if flags & WL_M_IN_STEP == 0 => flags,
            _ => UNREAD,
        }
    }
}
