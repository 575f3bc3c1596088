//! Counters of the NIC's cores. In: their own. Out: words in shared memory, and from these the same
//! counters in the process of the CPU, which shows them.

use super::layout::{FAULT_SLOTS, FRAME_WORDS, TABLE_WORDS};
use super::shared::Joint;
use crate::core::app::App;
use crate::program::Outside;
use crate::stats::{AppStats, Cell, CoreStats, FrameStats};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

fn cells(f: &FrameStats) -> [&Cell; FRAME_WORDS] {
    [&f.received, &f.received_bytes, &f.sent, &f.sent_bytes, &f.dropped, &f.discarded, &f.lost, &f.copied]
}

/// The cells of a core but its faults: batches, frames by port, the program's counters.
fn all_cells<'a>(core: &'a CoreStats, app: &'a AppStats) -> impl Iterator<Item = &'a Cell> {
    let frames = app.ports.iter().flat_map(|p| cells(&p.frames));
    std::iter::once(&core.batches).chain(frames).chain(&app.counters)
}

/// Writes a core's counters to its words.
pub fn show(stats: &CoreStats, words: &[AtomicU64]) {
    let Some(app) = stats.apps.first() else { return };
    let (faults, rest) = words.split_at((2 * FAULT_SLOTS).min(words.len()));
    for (pair, (key, count)) in faults.chunks_exact(2).zip(app.faults.slots()) {
        pair[1].store(count, Relaxed);
        pair[0].store(key, Relaxed);
    }
    rest.iter().zip(all_cells(stats, app)).for_each(|(word, cell)| word.store(cell.get(), Relaxed));
}

/// Writes the statistics of tables.
pub fn show_tables(app: &App, words: &[AtomicU64]) {
    for (table, words) in words.chunks_exact(TABLE_WORDS).enumerate() {
        let Some(stats) = app.table_stats(table) else { continue };
        words.iter().zip(stats).for_each(|(word, n)| word.store(n, Relaxed));
    }
}

/// Adds what has been counted since the last look.
pub struct Mirror {
    last: Vec<u64>,
}

impl Mirror {
    pub fn new(words: usize) -> Mirror {
        Mirror { last: vec![0; words] }
    }

    pub fn look(&mut self, words: &[AtomicU64], stats: &CoreStats) {
        let Some(app) = stats.apps.first() else { return };
        let at = (2 * FAULT_SLOTS).min(words.len());
        let (faults, rest) = words.split_at(at);
        let (last_faults, last_rest) = self.last.split_at_mut(at);
        for (pair, last) in faults.chunks_exact(2).zip(last_faults.chunks_exact_mut(2)) {
            let (key, count) = (pair[0].load(Relaxed), pair[1].load(Relaxed));
            if key != 0 {
                app.faults.add_key(key, count.saturating_sub(last[1]));
                last[1] = count;
            }
        }
        for ((word, last), cell) in rest.iter().zip(last_rest).zip(all_cells(stats, app)) {
            let now = word.load(Relaxed);
            cell.add(now.saturating_sub(*last));
            *last = now;
        }
    }

    /// The core begins anew.
    pub fn forget(&mut self, words: &[AtomicU64]) {
        self.last.fill(0);
        words.iter().for_each(|w| w.store(0, Relaxed));
    }
}

/// Tables that lie in the process of the NIC, for that of the CPU.
#[derive(Default)]
pub struct Tables(OnceLock<(Arc<Joint>, Vec<bool>)>);

impl Tables {
    pub fn lie(&self, joint: &Arc<Joint>, which: &[bool]) {
        let _ = self.0.set((joint.clone(), which.to_vec()));
    }
}

impl Outside for Tables {
    fn counter(&self, _: usize) -> u64 {
        0
    }

    fn fates(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn faults(&self) -> Vec<(u32, u32, u64)> {
        Vec::new()
    }

    fn table_stats(&self, table: usize) -> Option<[u64; 8]> {
        let (joint, which) = self.0.get()?;
        let words =
            joint.table_words().chunks_exact(TABLE_WORDS).nth(table).filter(|_| which.get(table) == Some(&true))?;
        Some(std::array::from_fn(|n| words[n].load(Relaxed)))
    }

    fn joint(&self) -> Option<Arc<Joint>> {
        self.0.get().map(|t| t.0.clone())
    }
}
