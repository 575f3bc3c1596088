//! The rate of log lines about faults: one line in a second for each kind.

use crate::abi::WL_F_USER;
use std::sync::atomic::{AtomicU64, Ordering};

const SUPPRESSED: u64 = (1 << 24) - 1;

/// The log lines of an app, for each kind of fault. A word holds the second of the last line (1 is
/// the first). Its low 24 bits count the faults since then without a line.
pub struct FailureLog(Box<[AtomicU64]>);

impl FailureLog {
    /// Of a program with this many faults of its own.
    pub(super) fn new(own: usize) -> Self {
        FailureLog((0..WL_F_USER as usize + own).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether a word may be said; then, how many were not said before it.
    pub(super) fn may(&self, kind: u32, second: u64) -> Option<u64> {
        let cell = &self.0[(kind as usize).min(self.0.len() - 1)];
        let now = (second + 1) << 24;
        let step = |old: u64| {
            Some(if old & !SUPPRESSED == now { now | ((old & SUPPRESSED) + 1).min(SUPPRESSED) } else { now })
        };
        let old = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(0);
        (old & !SUPPRESSED != now).then_some(old & SUPPRESSED)
    }

    /// Faults without a line, of seconds that are over.
    pub(super) fn left(&self, second: u64) -> impl Iterator<Item = (u32, u64)> + '_ {
        let over = move |cell: &AtomicU64| {
            let old = cell.load(Ordering::Relaxed);
            let due = old & SUPPRESSED > 0 && old >> 24 <= second;
            let taken =
                due && cell.compare_exchange(old, old & !SUPPRESSED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if taken {
                old & SUPPRESSED
            } else {
                0
            }
        };
        self.0.iter().enumerate().map(move |(kind, cell)| (kind as u32, over(cell))).filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_a_second_and_kind_and_the_rest_is_counted() {
        let told = FailureLog::new(1);
        assert_eq!(told.may(8, 0), Some(0));
        assert_eq!(told.may(8, 0), None);
        assert_eq!(told.may(9, 0), Some(0));
        assert_eq!(told.may(8, 0), None);
        assert_eq!(told.left(0).count(), 0, "the second is not over");
        assert_eq!(told.may(8, 5), Some(2));
        assert_eq!(told.may(8, 5), None);
        assert_eq!(told.left(6).collect::<Vec<_>>(), [(8, 1)]);
        assert_eq!(told.left(7).count(), 0);
        assert_eq!(told.may(31, 7), Some(0));
        assert_eq!(told.may(WL_F_USER, 7), Some(0), "a fault of the program's own");
    }
}
