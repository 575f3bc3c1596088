//! Whose turn it is: a core's time is shared out by slices, between apps and between the connections of each.
//!
//! A connection that has used its slice, and an app of several that has, goes to the end of the queue. A message is not
//! interrupted: what it takes beyond its connection's slice is a debt, which is paid by letting others go first. So
//! who sends much work gets no more of a core than who sends little. Time is read once per turn, and within a turn
//! with the first messages and then with every fourth.

use super::slab::Id;
use super::types::{flag, Mode, Side};
use super::Core;

/// A debt is forgiven beyond so many slices: an unusually long message is not held against its client for long.
const DEBT_MAX: u64 = 1024;
/// A turn of more nanoseconds is measured in time of the processor, which costs a system call.
const LONG: u64 = 200_000;

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

    /// Whether a client's new bytes wait in the queue: it has a debt, or its app has had its share of this batch.
    #[inline]
    pub(super) fn must_wait(&self, id: Id) -> bool {
        let c = &self.conns[id];
        c.side == Side::Client && c.mode == Mode::Head && (c.debt > 0 || self.apps.len() > 1 && self.share_used(c.app as usize, id))
    }

    fn share_used(&self, a: usize, id: Id) -> bool {
        self.apps.len() > 1 && self.apps[a].spent >= self.slice(id)
    }

    /// Whether a turn ends after `done` messages.
    #[inline]
    pub(super) fn slice_over(&self, id: Id, done: u32) -> bool {
        (done < 4 || done % 4 == 0) && self.engine.now().saturating_sub(self.stamp) + self.conns[id].debt >= self.slice(id)
    }

    /// A turn is over: its time is the app's, and what is over the slice the connection's debt.
    #[inline]
    pub(super) fn account(&mut self, id: Id) {
        let now = self.engine.now();
        let mut used = now.saturating_sub(self.stamp);
        self.stamp = now;
        if used > LONG {
            used = used.min(self.worked_since());
        }
        let Some(c) = self.conns.get_mut(id) else { return };
        let app = &mut self.apps[c.app as usize];
        app.spent += used;
        let slice = app.ports[c.port as usize].options.slice;
        if c.side == Side::Client {
            c.debt = (c.debt + used).saturating_sub(slice).min(DEBT_MAX * slice);
        }
    }

    /// The processor's time since it was asked for last: a core that the system has given to another thread has not worked.
    #[cold]
    fn worked_since(&mut self) -> u64 {
        let worked = self.engine.worked();
        worked.saturating_sub(std::mem::replace(&mut self.worked, worked))
    }

    /// Gives each app's queue a turn.
    pub(super) fn run_queues(&mut self) {
        let n = self.apps.len();
        for k in 0..n {
            self.run_queue((self.turn + k) % n);
        }
        self.turn = (self.turn + 1) % n.max(1);
    }

    /// One round over the connections that wait, or as many as fit into the app's share. Where all have debts, rounds go by.
    fn run_queue(&mut self, a: usize) {
        let (mut left, mut ran) = (self.apps[a].queue.len(), false);
        while left > 0 {
            let Some(id) = self.apps[a].queue.pop_front() else { return };
            left -= 1;
            if self.conns.alive(id) {
                let slice = self.slice(id);
                let c = &mut self.conns[id];
                if c.debt >= slice {
                    c.debt -= slice;
                    self.apps[a].queue.push_back(id);
                } else {
                    c.clear(flag::AGAIN);
                    self.process_buffered(id);
                    ran = true;
                    if self.apps.len() > 1 && self.apps[a].spent >= slice {
                        return;
                    }
                }
            }
            if left == 0 && !ran {
                left = self.apps[a].queue.len();
            }
        }
    }
}
