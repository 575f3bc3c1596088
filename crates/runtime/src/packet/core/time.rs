//! Time: that of the clock, or of the captures that are read. Periodic handlers, and periodic work
//! of the core.

use super::PacketCore;
use crate::clock;

/// A gap in a capture runs a periodic handler at most this often.
const CATCH_UP: u64 = 100_000;
/// The wall clock is compared, and numbers are published, this often.
const HOUSEKEEPING_NS: u64 = 100_000_000;

impl PacketCore {
    #[inline]
    pub(super) fn read_clock(&mut self) {
        if self.capture.is_none() {
            self.now = clock::now();
        }
        let wall = if self.capture.is_some() { self.now } else { self.now.wrapping_add(self.ahead) };
        (self.app.wl.now, self.app.wl.wall) = (self.now, wall);
        if let Some(times) = &self.times {
            times.reach(self.now);
            self.app.wl.behind = times.behind(self.now);
        }
    }

    /// In an app without segments other cores wait for this one while it reads captures, or has
    /// frames of others. A core of a segment says how far its time has come.
    pub(super) fn tell_reads(&self) {
        if let Some(times) = self.times.as_ref().filter(|_| self.app.app.desc.segments.is_empty()) {
            times.all.set_reads(self.index, !self.ports_ended());
        }
    }

    /// Runs the periodic handlers that are due.
    pub(super) fn run_timers(&mut self) {
        if self.now < self.due {
            return;
        }
        for i in 0..self.every.len() {
            let (handler, period, due) = self.every[i];
            if due <= self.now {
                self.run_handler(handler, None, &[]);
                self.every[i].2 = due.saturating_add(period).max(if self.capture.is_none() { self.now } else { 0 });
            }
        }
        self.due = self.every.iter().map(|e| e.2).min().unwrap_or(u64::MAX);
        self.run_fault_handlers();
        self.flush();
    }

    /// A capture's time moves on to `time`: what is due until then runs, each at its own time.
    /// False: it has to wait for another segment first.
    pub(super) fn catch_up(&mut self, time: u64) -> bool {
        if time < self.due {
            return true;
        }
        self.skip_missed(time);
        self.run_due(time)
    }

    fn skip_missed(&mut self, time: u64) {
        for e in &mut self.every {
            let missed = time.saturating_sub(e.2) / e.1;
            if missed > CATCH_UP {
                e.2 += (missed - CATCH_UP) * e.1;
            }
        }
        self.due = self.every.iter().map(|e| e.2).min().unwrap_or(u64::MAX);
    }

    /// Like [`PacketCore::catch_up`], but no run is left out.
    pub(super) fn run_due(&mut self, time: u64) -> bool {
        while self.due <= time {
            if !self.settle() {
                return false;
            }
            self.now = self.now.max(self.due);
            self.read_clock();
            self.run_timers();
            self.run_loops();
        }
        true
    }

    pub(super) fn housekeep(&mut self) {
        let now = clock::now();
        self.housekeeping =
            if self.capture.is_some() { self.now.saturating_add(HOUSEKEEPING_NS) } else { now + HOUSEKEEPING_NS };
        self.ahead = clock::look();
        self.publish();
    }

    /// The program's own counters, for the admin page.
    pub(super) fn publish(&self) {
        self.app.show_counters(&self.counts_of().counters);
    }

    /// Shows the program what connections have counted, too, or no more: for tests.
    pub fn take_counters(&mut self, connections: &[u64]) {
        self.app.take_counters(|n, _| connections.get(n).copied().unwrap_or(0));
    }

    /// This core's parts of the program's counters, in their order.
    pub fn counts(&self) -> Vec<u64> {
        let all = self.app.app.desc.counters.iter().enumerate();
        all.map(|(n, c)| self.app.counter(c.offset as usize / 8).wrapping_add(self.app.counted_outside(n))).collect()
    }
}
