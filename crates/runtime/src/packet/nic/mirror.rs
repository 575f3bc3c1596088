//! Counters of the NIC's cores. In: their own. Out: words in shared memory, and from these the same
//! counters in the process of the CPU, which shows them.

use super::layout::{FAULT_SLOTS, FRAME_WORDS, TABLE_WORDS};
use super::shared::Joint;
use crate::abi::WL_F_USER;
use crate::core::app::App;
use crate::program::Outside;
use crate::stats::{AppStats, Cell, CoreStats, FrameStats, NO_PLACE};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use wireloom_ir::desc::Desc;

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

/// Adds what has been counted since the last look. What cannot be is left out: somebody has spoiled
/// the memory.
pub struct Mirror {
    last: Vec<u64>,
    /// Kinds and places of faults that the program has.
    kinds: u32,
    places: u32,
}

/// A core counts no more between two looks.
const MORE: u64 = 1 << 40;

/// The growth of a word.
fn since(last: u64, now: u64) -> u64 {
    Some(now.saturating_sub(last)).filter(|n| *n < MORE).unwrap_or(0)
}

impl Mirror {
    pub fn new(words: usize, desc: &Desc) -> Mirror {
        let (kinds, places) = (WL_F_USER + desc.faults.len() as u32, desc.places.len() as u32);
        Mirror { last: vec![0; words], kinds, places }
    }

    fn knows(&self, key: u64) -> bool {
        let (kind, place) = ((key >> 32) as u32, key as u32);
        (1..=self.kinds).contains(&kind) && (place < self.places || place == NO_PLACE)
    }

    pub fn look(&mut self, words: &[AtomicU64], stats: &CoreStats) {
        let Some(app) = stats.apps.first() else { return };
        let at = (2 * FAULT_SLOTS).min(words.len());
        let (faults, rest) = words.split_at(at);
        for (n, pair) in faults.chunks_exact(2).enumerate() {
            let (key, count) = (pair[0].load(Relaxed), pair[1].load(Relaxed));
            if self.knows(key) {
                app.faults.add_key(key, since(self.last[2 * n + 1], count));
                self.last[2 * n + 1] = count;
            }
        }
        for ((word, last), cell) in rest.iter().zip(&mut self.last[at..]).zip(all_cells(stats, app)) {
            let now = word.load(Relaxed);
            cell.add(since(*last, now));
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
    pub fn lie(&self, joint: &Arc<Joint>, which: Vec<bool>) {
        let _ = self.0.set((joint.clone(), which));
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
