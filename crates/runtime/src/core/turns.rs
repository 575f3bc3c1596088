//! Fair turns: the time of a core is divided by slices, between apps and between the connections of
//! each.
//!
//! The waiting connections of an app are served in rounds. In each round a connection may use one
//! slice, whether it waits or is served as its bytes arrive. A connection that has used its slice
//! waits for the next round. Time beyond the slice is a debt that later rounds pay. So a connection
//! with much work gets no more of a core than one with little. A connection that has used little
//! does not wait behind those that have used much. Every few slices the core polls for new input.
//! The clock is read once per turn. Within a turn it is read with the first messages and then with
//! every fourth.

use super::slab::Id;
use super::types::{flag, Mode, Side};
use super::Core;

/// A debt is forgiven beyond so many slices: an unusually long message is not held against its
/// client for long.
const DEBT_MAX: u64 = 1024;
/// A turn of more nanoseconds is measured in time of the processor, which costs a system call.
const LONG: u64 = 200_000;
/// So many slices of an app's queue are served before the core polls for input.
const AT_ONCE: u64 = 2;

impl Core {
    pub(super) fn mark_again(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if !c.has(flag::AGAIN) {
            c.set(flag::AGAIN);
            let a = c.app as usize;
            self.apps[a].queue.push_back(id);
        }
    }

    pub(super) fn has_queued(&self) -> bool {
        self.apps.iter().any(|a| !a.queue.is_empty())
    }

    /// The slice of a connection.
    #[inline]
    fn slice(&self, id: Id) -> u64 {
        let c = &self.conns[id];
        self.apps[c.app as usize].ports[c.port as usize].options.slice
    }

    /// The time that a connection has used of this round's slice, and of later ones.
    #[inline]
    fn used(&mut self, id: Id) -> u64 {
        let c = &mut self.conns[id];
        let app = &self.apps[c.app as usize];
        if c.round != app.round {
            let rounds = u64::from(app.round.wrapping_sub(c.round));
            c.debt = c.debt.saturating_sub(rounds.saturating_mul(app.ports[c.port as usize].options.slice));
            c.round = app.round;
        }
        c.debt
    }

    /// How long a turn of a client's connection may last that begins now.
    pub(super) fn left_of_slice(&mut self, id: Id) -> u64 {
        if !self.conns.alive(id) {
            return 0;
        }
        let used = self.used(id);
        self.slice(id).saturating_sub(used)
    }

    /// Whether a client's new bytes wait in the queue: it has used its slice, or its app has had
    /// its share of this batch.
    #[inline]
    pub(super) fn must_wait(&mut self, id: Id) -> bool {
        let c = &self.conns[id];
        if c.side != Side::Client && c.member == 0 || c.mode != Mode::Head {
            return false;
        }
        let a = c.app as usize;
        self.conns[id].debt > 0 && self.used(id) >= self.slice(id) || self.share_used(a, id)
    }

    fn share_used(&self, a: usize, id: Id) -> bool {
        self.apps.len() > 1 && self.apps[a].spent >= self.slice(id)
    }

    /// Whether a turn ends after `done` messages.
    #[inline]
    pub(super) fn slice_over(&self, id: Id, done: u32) -> bool {
        (done < 4 || done.is_multiple_of(4))
            && self.engine.now().saturating_sub(self.stamp) + self.conns[id].debt >= self.slice(id)
    }

    /// A turn is over: its time is the connection's and the app's.
    #[inline]
    pub(super) fn account(&mut self, id: Id) {
        let now = self.engine.now();
        let mut used = now.saturating_sub(self.stamp);
        self.stamp = now;
        if used > LONG {
            used = used.min(self.worked_since());
        }
        let Some(c) = self.conns.get(id) else { return };
        let (a, p, client, member) = (c.app as usize, c.port as usize, c.side == Side::Client, c.member != 0);
        self.apps[a].spent += used;
        if client || member {
            if client {
                self.served(id, now);
            }
            let debt = self.used(id) + used;
            self.conns[id].debt = debt.min(DEBT_MAX * self.apps[a].ports[p].options.slice);
        }
    }

    /// The processor time since the last call, read when queues were served or a turn was long.
    /// Time that the system gave to other threads does not count.
    #[cold]
    fn worked_since(&mut self) -> u64 {
        let worked = self.engine.worked();
        worked.saturating_sub(std::mem::replace(&mut self.worked, worked))
    }

    /// Gives each app's queue a turn.
    pub(super) fn run_queues(&mut self) {
        let n = self.apps.len();
        if self.has_queued() {
            self.worked = self.engine.worked();
        }
        for k in 0..n {
            self.run_queue((self.turn + k) % n);
        }
        self.turn = (self.turn + 1) % n.max(1);
    }

    /// Goes on with the rounds of an app's queue for as long as the new input took, or at least for
    /// a few slices. Several apps share this time. There are never more turns than connections, so
    /// new input does not overtake waiting connections.
    fn run_queue(&mut self, a: usize) {
        let before = self.apps[a].spent;
        let mut turns = self.apps[a].queue.len().max(1);
        while turns > 0 && self.next_round(a) {
            let Some(id) = self.apps[a].queue.pop_front() else { return };
            self.apps[a].round_left -= 1;
            if !self.conns.alive(id) {
                continue;
            }
            let slice = self.slice(id);
            if self.used(id) >= slice {
                self.apps[a].queue.push_back(id);
                continue;
            }
            self.apps[a].round_ran = true;
            turns -= 1;
            let leaves = self.leaves(id);
            let c = &mut self.conns[id];
            c.clear(flag::AGAIN);
            if leaves {
                continue;
            }
            match c.paused.is_nil() {
                true => self.process_buffered(id),
                false => self.resume_paused(id),
            }
            let spent = self.apps[a].spent;
            let share = if self.apps.len() > 1 { AT_ONCE * slice } else { before + before.max(AT_ONCE * slice) };
            let over = spent >= share;
            if over {
                return;
            }
        }
    }

    /// Begins a round if the last one has ended. False: the queue is empty.
    fn next_round(&mut self, a: usize) -> bool {
        let app = &mut self.apps[a];
        if app.round_left > 0 && !app.queue.is_empty() {
            return true;
        }
        app.round_left = app.queue.len();
        let rounds = if app.round_ran || app.queue.is_empty() { 1 } else { self.idle_rounds(a) };
        let app = &mut self.apps[a];
        app.round = app.round.wrapping_add(rounds);
        app.round_ran = false;
        !app.queue.is_empty()
    }

    /// All have debts: how many rounds go by until one may run.
    fn idle_rounds(&mut self, a: usize) -> u32 {
        let mut least = u64::MAX;
        for n in 0..self.apps[a].queue.len() {
            let id = self.apps[a].queue[n];
            if self.conns.alive(id) {
                least = least.min(self.used(id) / self.slice(id).max(1));
            }
        }
        least.clamp(1, DEBT_MAX) as u32
    }
}
