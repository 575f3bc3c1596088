//! Handlers that wait for an entry of a table (`table.wait(key, 2s)`).
//!
//! In: a handler's wait, by the table and the key's hash. Out: its part is answered when another
//! handler has set or removed the entry, on any core, or when its time is over. Changes are counted
//! by hash, so a wait may end early: the handler looks again. When the app ends, its end handlers'
//! waits are given up (`WL_F_SHUTDOWN`).

use super::fault::NO_PORT;
use super::slab::Id;
use super::Core;
use crate::abi::*;
use crate::stats::NO_PLACE;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of changes: hashes that share one end each other's waits.
const BUCKETS: usize = 256;
/// Changes on other cores are seen after so long at most.
const LOOK_NS: u64 = 1_000_000;
/// A change that came between the handler's look and its wait is seen after so long at most.
const AGAIN_NS: u64 = 20_000_000;
/// Waits on a core; one more is the fault `overload`.
const MOST: usize = 65_536;

/// Of all cores.
pub(crate) struct EntryChanges([AtomicU64; BUCKETS]);

impl Default for EntryChanges {
    fn default() -> Self {
        EntryChanges([const { AtomicU64::new(0) }; BUCKETS])
    }
}

fn bucket(table: u32, hash: u64) -> usize {
    (hash ^ hash >> 32 ^ u64::from(table)) as usize % BUCKETS
}

impl EntryChanges {
    pub(super) fn note(&self, table: u32, hash: u64) {
        self.0[bucket(table, hash)].fetch_add(1, Ordering::Release);
    }

    fn count(&self, bucket: usize) -> u64 {
        self.0[bucket].load(Ordering::Acquire)
    }
}

struct EntryWait {
    task: Id,
    part: u32,
    app: usize,
    bucket: usize,
    /// The count when it began.
    seen: u64,
    /// When it is over, and when the handler looks again.
    until: u64,
}

#[derive(Default)]
pub(super) struct EntryWaits {
    all: Vec<EntryWait>,
    ended: Vec<(Id, u32)>,
    armed: bool,
}

impl Core {
    pub(super) fn host_wait(&mut self, id: Id, (table, hash): (u32, u64), timeout_ns: u64, flags: u32) {
        let part = self.new_part(id, flags);
        if self.entry_waits.all.len() >= MOST {
            let a = self.tasks[id].app;
            self.count_fault(a, (WL_F_OVERLOAD, NO_PLACE), NO_PORT, self.tasks[id].conn);
            return self.complete_part(id, part, WL_F_OVERLOAD, None);
        }
        let app = self.tasks[id].app as usize;
        let bucket = bucket(table, hash);
        let seen = self.apps[app].app.entry_changes.count(bucket);
        let until = self.now.saturating_add(timeout_ns.min(AGAIN_NS));
        self.entry_waits.all.push(EntryWait { task: id, part, app, bucket, seen, until });
        self.arm_look();
    }

    fn arm_look(&mut self) {
        if !self.entry_waits.armed && !self.entry_waits.all.is_empty() {
            self.entry_waits.armed = true;
            self.arm_entries(self.now.saturating_add(LOOK_NS));
        }
    }

    /// The timer of waits.
    pub(super) fn look_at_entries(&mut self) {
        self.entry_waits.armed = false;
        self.end_waits();
        self.arm_look();
    }

    /// Answers the waits that are over, in the order in which they began.
    pub(super) fn end_waits(&mut self) {
        if self.entry_waits.all.is_empty() {
            return;
        }
        let mut ended = std::mem::take(&mut self.entry_waits.ended);
        let (apps, tasks, now) = (&self.apps, &self.tasks, self.now);
        self.entry_waits.all.retain(|w| {
            let alive = tasks.alive(w.task);
            let over = w.until <= now || apps[w.app].app.entry_changes.count(w.bucket) != w.seen;
            if alive && over {
                ended.push((w.task, w.part));
            }
            alive && !over
        });
        for (task, part) in ended.drain(..) {
            self.complete_part(task, part, WL_S_OK, None);
        }
        self.entry_waits.ended = ended;
    }

    /// The waits of these tasks end without a change: the app ends.
    pub(super) fn give_up_waits(&mut self, of: &[Id]) {
        let (given_up, others) =
            std::mem::take(&mut self.entry_waits.all).into_iter().partition(|w| of.contains(&w.task));
        self.entry_waits.all = others;
        let given_up: Vec<EntryWait> = given_up;
        for w in given_up.iter().filter(|w| self.tasks.alive(w.task)).map(|w| (w.task, w.part)).collect::<Vec<_>>() {
            self.complete_part(w.0, w.1, WL_F_SHUTDOWN, None);
        }
    }
}
