//! The health of backends: failures, ejection, return.
//!
//! A backend is down after `eject_after` failures in a row, unless no other is left. Failures are
//! calls without an answer in time, refused or lost connections, and invalid answers. Every
//! `eject_time` the runtime connects to a backend that is down, and sends the port's probe. An
//! answer brings the backend back.
//!
//! A port may have no probe. Then a connection brings the backend back if its connections had
//! failed. If its answers had failed, as with a stopped process, the backend is *on trial*. The
//! next request decides. Until it is answered, the backend is down for all others. Answers to
//! requests from before the ejection decide nothing.

use super::ejection::{Down, Why};
use super::slab::Id;
use super::types::{flag, Target};
use super::Core;
use crate::abi::*;
use std::sync::atomic::Ordering::Relaxed;

/// A probe may take so many nanoseconds at least, however often there is one.
const LEAST_PATIENCE: u64 = 1_000_000_000;

impl Core {
    /// A backend has answered a request of this time. A request from before the backend went down
    /// says nothing about its return.
    #[inline]
    pub(super) fn succeeded(&mut self, at: Target, asked: u64) {
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        if b.down.is_some_and(|down| asked <= down.since) {
            return;
        }
        b.failures = 0;
        if b.down.is_some() {
            self.restore(at);
        }
    }

    pub(super) fn count_failure(&mut self, at: Target) {
        self.my_stats().apps[at.a].ports[at.p].backends[at.i].failures.add(1);
    }

    /// Counts a failure; enough of them in a row eject the backend.
    pub(super) fn backend_failed(&mut self, at: Target, why: Why) {
        self.count_failure(at);
        let port = &mut self.apps[at.a].ports[at.p];
        let after = port.options.eject_after;
        let b = &mut port.backends[at.i];
        b.failures = b.failures.saturating_add(1);
        if b.down.is_some() {
            let tried = b.up || !b.trial.is_nil();
            b.trial = Id::NIL;
            port.set_up(at.i, false);
            if tried {
                self.arm_next_probe(at);
            }
        } else if after > 0 && b.failures >= after && self.is_listed(at) && self.another_is_up(at) {
            self.eject(at, why);
        }
    }

    fn another_is_up(&self, at: Target) -> bool {
        let all = self.apps[at.a].ports[at.p].backends.iter().enumerate();
        all.into_iter().any(|(i, b)| i != at.i && b.down.is_none() && b.instance.is_some())
    }

    fn eject(&mut self, at: Target, why: Why) {
        let now = self.now;
        let port = &mut self.apps[at.a].ports[at.p];
        port.set_up(at.i, false);
        let b = &mut port.backends[at.i];
        (b.down, b.trial) = (Some(Down { why, since: now }), Id::NIL);
        let (failures, idle) = (b.failures, std::mem::take(&mut b.idle));
        self.my_stats().apps[at.a].ports[at.p].backends[at.i].ejections.add(1);
        if !self.down_elsewhere(at) {
            log::warn!("{} is down: {} ({failures} failures in a row)", self.name_of(at), why.text());
        }
        self.show_down(at, true);
        self.arm_next_probe(at);
        self.leave_waiters(at);
        // They are of before; the first request after its return is not to find that out.
        for id in idle {
            if self.conns.alive(id) {
                self.close_conn(id, false);
            }
        }
    }

    fn restore(&mut self, at: Target) {
        let now = self.now;
        let port = &mut self.apps[at.a].ports[at.p];
        port.set_up(at.i, true);
        let b = &mut port.backends[at.i];
        b.trial = Id::NIL;
        let Some(down) = b.down.take() else { return };
        self.show_down(at, false);
        if !self.down_elsewhere(at) {
            log::warn!("{} is up again after {} ms", self.name_of(at), (now - down.since) / 1_000_000);
        }
    }

    /// A port has another list, and none of its servers is up: all of them are tried, as at a
    /// start.
    pub(super) fn try_all(&mut self, a: usize, p: usize) {
        let listed = |b: &super::types::Backend| b.instance.is_some();
        let all = &self.apps[a].ports[p].backends;
        if all.iter().any(|b| listed(b) && b.down.is_none()) {
            return;
        }
        for i in 0..self.apps[a].ports[p].backends.len() {
            let at = Target { a, p, i };
            let b = &mut self.apps[a].ports[p].backends[i];
            if !listed(b) || b.down.is_none() {
                continue;
            }
            // The list that handlers under way see stays as it is.
            (b.down, b.trial, b.failures, b.up) = (None, Id::NIL, 0, true);
            self.show_down(at, false);
            if !self.down_elsewhere(at) {
                log::warn!("{} is tried again: no server of the new list is up", self.name_of(at));
            }
        }
    }

    fn name_of(&self, at: Target) -> String {
        let a = &self.apps[at.a];
        format!("{}.{}: backend {}", a.app.desc.app, a.app.desc.ports[at.p].name, a.ports[at.p].backends[at.i].addr)
    }

    /// Each core finds out for itself; only the first that sees a backend go, and the last that
    /// sees it come back, say so.
    fn down_elsewhere(&self, at: Target) -> bool {
        let down = |s: &crate::stats::CoreStats| s.apps[at.a].ports[at.p].backends[at.i].down.load(Relaxed) != 0;
        self.stats.iter().enumerate().any(|(i, s)| i != self.index && down(s))
    }

    fn show_down(&self, at: Target, down: bool) {
        self.my_stats().apps[at.a].ports[at.p].backends[at.i].down.store(u8::from(down), Relaxed);
    }

    /// A request goes to a backend that is on trial: until it is answered, no other does.
    pub(super) fn try_out(&mut self, at: Target, call: Id) {
        let port = &mut self.apps[at.a].ports[at.p];
        let b = &mut port.backends[at.i];
        if b.down.is_some() {
            b.trial = call;
            port.set_up(at.i, false);
        }
    }

    /// A call is over. If it was to decide about its backend and has said nothing, the next one
    /// will.
    #[inline]
    pub(super) fn tried_out(&mut self, at: Target, call: Id) {
        let port = &mut self.apps[at.a].ports[at.p];
        let b = &mut port.backends[at.i];
        if b.trial == call {
            b.trial = Id::NIL;
            port.set_up(at.i, true);
        }
    }

    pub(super) fn arm_next_probe(&mut self, at: Target) {
        let port = &mut self.apps[at.a].ports[at.p];
        let when = self.now.saturating_add(port.options.eject_time);
        port.backends[at.i].probe_at = when;
        self.arm_probe(at, when);
    }

    /// See whether a backend that is down answers, or takes a connection.
    pub(super) fn probe(&mut self, at: Target) {
        let b = &self.apps[at.a].ports[at.p].backends[at.i];
        // Another attempt may have been put off or made since the timer was set.
        if b.down.is_none()
            || self.now < b.probe_at
            || b.instance.is_none()
            || b.up
            || !b.trial.is_nil()
            || self.draining
        {
            return;
        }
        match self.connect(at) {
            Ok(id) => {
                self.conns[id].set(flag::PROBE);
                self.arm(id, self.now.saturating_add(self.probe_patience(at)));
                if self.conns[id].has(flag::DATAGRAM) {
                    self.connected(id);
                }
            }
            Err(_) => self.probe_failed(at, self.now),
        }
    }

    /// How long a probe may take.
    pub(super) fn probe_patience(&self, at: Target) -> u64 {
        let o = &self.apps[at.a].ports[at.p].options;
        o.connect_timeout.min(o.eject_time.max(LEAST_PATIENCE))
    }

    /// A probe that was begun at this time has failed. The time of the next counts from then.
    pub(super) fn probe_failed(&mut self, at: Target, begun: u64) {
        let port = &mut self.apps[at.a].ports[at.p];
        let when = begun.saturating_add(port.options.eject_time).max(self.now);
        port.backends[at.i].probe_at = when;
        self.arm_probe(at, when);
    }

    /// A probe's connection is made: it becomes one of the pool.
    pub(super) fn probe_connected(&mut self, at: Target, id: Id) {
        let port = &mut self.apps[at.a].ports[at.p];
        if let Some(down) = port.backends[at.i].down {
            // One more failure ejects it again; an answer clears the record.
            port.backends[at.i].failures = port.options.eject_after.saturating_sub(1);
            port.set_up(at.i, true);
            if down.why.is_about_connections() {
                self.restore(at);
            }
        }
        self.adopt(at, id);
    }

    /// A backend that was down has answered its probe. One more failure ejects it again.
    pub(super) fn well_again(&mut self, at: Target) {
        let port = &mut self.apps[at.a].ports[at.p];
        if port.backends[at.i].down.is_some() {
            port.backends[at.i].failures = port.options.eject_after.saturating_sub(1);
            self.restore(at);
        }
    }

    /// Calls that wait for a connection to a backend that is down go to another backend, or fail.
    fn leave_waiters(&mut self, at: Target) {
        while let Some(call) = self.apps[at.a].ports[at.p].backends[at.i].waiters.pop_front() {
            if self.calls.alive(call) && !self.fail_over(at, call) {
                self.fail_call(call, WL_F_REFUSED);
            }
        }
    }
}
