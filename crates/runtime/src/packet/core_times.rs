//! How far the cores have come in the time of captures. In: the times of each core, and the frames
//! that cores hand over. Out: for a core, how far the slowest of the others is behind it.
//!
//! Cores of an app share tables, and each has the time of the frames that it handles. An entry that
//! is not used expires when that time has come for all of them. Nobody waits for a core without
//! frames. Frames that it gets later are not earlier than the time of cores that read captures.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::Arc;

/// A core of the process.
#[repr(align(64))]
struct CoreTime {
    /// By app: its handlers see no earlier time from now on.
    reached: Vec<AtomicU64>,
    /// It reads captures.
    reads: AtomicBool,
    /// Frames that other cores have handed to it, and those of them that it has handled.
    given: AtomicU64,
    handled: AtomicU64,
}

/// The cores of a process.
pub struct CoreTimes {
    cores: Vec<CoreTime>,
}

impl CoreTimes {
    /// At first nothing is known of a core, so the others wait for it.
    pub fn new(cores: usize, apps: usize) -> CoreTimes {
        let core = |_| CoreTime {
            reached: (0..apps).map(|_| AtomicU64::new(0)).collect(),
            reads: AtomicBool::new(true),
            given: AtomicU64::new(0),
            handled: AtomicU64::new(0),
        };
        CoreTimes { cores: (0..cores).map(core).collect() }
    }

    /// An app on a core has come so far. Times go up.
    pub fn reach(&self, core: usize, app: usize, time: u64) {
        let reached = &self.cores[core].reached[app];
        if time > reached.load(Acquire) {
            reached.store(time, Release);
        }
    }

    /// Whether a core reads captures, or has frames only from others.
    pub fn set_reads(&self, core: usize, reads: bool) {
        self.cores[core].reads.store(reads, Release);
    }

    pub fn gave(&self, to: usize, frames: u64) {
        self.cores[to].given.fetch_add(frames, Release);
    }

    /// A core has handled so many of the frames that others have given to it.
    pub fn handled(&self, core: usize, frames: u64) {
        self.cores[core].handled.fetch_add(frames, Release);
    }

    /// How far the slowest of `peers` is behind the time of an app on a core.
    fn behind(&self, (core, app): (usize, usize), now: u64, peers: &Range<usize>) -> u64 {
        let others = || peers.clone().filter(|k| *k != core).map(|k| &self.cores[k]);
        // Those that read come first: what they have given until then is seen at the others.
        let reading = others().map(|c| c.while_reading(app)).min().unwrap_or(now);
        let given = others().map(|c| c.with_frames(app)).min().unwrap_or(now);
        now.saturating_sub(reading.min(given))
    }
}

impl CoreTime {
    /// The time that a core which reads captures has come to.
    fn while_reading(&self, app: usize) -> u64 {
        let reached = self.reached[app].load(Acquire);
        if self.reads.load(Acquire) {
            reached
        } else {
            u64::MAX
        }
    }

    /// The time that a core with frames of others has come to.
    fn with_frames(&self, app: usize) -> u64 {
        let reached = self.reached[app].load(Acquire);
        // In this order: all that had been given then has been handled.
        let handled = self.handled.load(Acquire);
        if handled == self.given.load(Acquire) {
            u64::MAX
        } else {
            reached
        }
    }
}

/// The times as an app on a core has them.
pub struct TimesHere {
    pub all: Arc<CoreTimes>,
    pub core: usize,
    /// Its number.
    pub app: usize,
    /// The cores that share its tables.
    pub peers: Range<usize>,
}

impl TimesHere {
    /// It has come so far.
    pub fn reach(&self, time: u64) {
        self.all.reach(self.core, self.app, time)
    }

    /// How far the slowest core is behind its time, in ns.
    pub fn behind(&self, now: u64) -> u64 {
        self.all.behind((self.core, self.app), now, &self.peers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_core_counts_while_it_reads_or_has_frames() {
        let t = CoreTimes::new(3, 1);
        assert_eq!(t.behind((0, 0), 50, &(0..3)), 50, "nothing is known of the others");
        t.set_reads(1, false);
        t.set_reads(2, false);
        t.reach(0, 0, 100);
        assert_eq!(t.behind((0, 0), 100, &(0..3)), 0, "they have no frames");
        assert_eq!(t.behind((1, 0), 130, &(0..3)), 30, "the one that reads counts");
        t.reach(1, 0, 40);
        t.gave(1, 2);
        assert_eq!(t.behind((0, 0), 100, &(0..3)), 60);
        t.handled(1, 1);
        t.reach(1, 0, 70);
        assert_eq!(t.behind((0, 0), 100, &(0..3)), 30);
        t.reach(1, 0, 60);
        assert_eq!(t.behind((0, 0), 100, &(0..3)), 30, "no time goes down");
        t.handled(1, 1);
        assert_eq!(t.behind((0, 0), 100, &(0..3)), 0);
        t.gave(2, 1);
        assert_eq!(t.behind((0, 0), 100, &(0..2)), 0, "a core of another segment");
    }
}
