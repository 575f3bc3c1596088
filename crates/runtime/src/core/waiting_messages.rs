//! Messages that wait in an output until the message that streams there has passed.
//!
//! In: whole messages, and beginnings of messages that stream themselves. Out: runs of bytes, in
//! their order; a run may end with such a beginning, and its source goes on with it. Messages of a
//! run share its memory. So many short ones hold no more than their bytes, and their sum is known.

use super::slab::Id;
use crate::buffer::{ChunkPool, ChunkQueue};
use std::collections::VecDeque;

#[derive(Default)]
pub struct WaitingMessages {
    runs: VecDeque<WaitingRun>,
    bytes: usize,
}

/// Bytes, and the source of the message that begins at their end and streams.
pub struct WaitingRun {
    pub bytes: ChunkQueue,
    pub source: Option<Id>,
}

impl WaitingMessages {
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a message, or the beginning of one that streams from `source`. False, and nothing
    /// added: the pool is full.
    #[must_use]
    pub fn append(&mut self, pool: &mut ChunkPool, parts: &[&[u8]], source: Option<Id>) -> bool {
        let goes_on = self.runs.back().is_some_and(|r| r.source.is_none());
        if !goes_on {
            self.runs.push_back(WaitingRun { bytes: ChunkQueue::new(), source: None });
        }
        let Some(run) = self.runs.back_mut() else { return false };
        if !run.bytes.append_all(pool, parts) {
            if !goes_on {
                self.runs.pop_back();
            }
            return false;
        }
        run.source = source;
        self.bytes += parts.iter().map(|p| p.len()).sum::<usize>();
        true
    }

    pub fn pop(&mut self) -> Option<WaitingRun> {
        let run = self.runs.pop_front()?;
        self.bytes -= run.bytes.len();
        Some(run)
    }

    pub fn clear(&mut self, pool: &mut ChunkPool) {
        self.runs.drain(..).for_each(|mut r| r.bytes.clear(pool));
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::PoolLimits;

    #[test]
    fn many_short_messages_hold_little_more_than_their_bytes() {
        let mut pool = ChunkPool::new(PoolLimits::default());
        let mut all = WaitingMessages::default();
        for n in 0..50_000u32 {
            assert!(all.append(&mut pool, &[b"ab", b"cdefgh"], (n == 20_000).then_some(Id::NIL)));
        }
        assert_eq!(all.len(), 400_000);
        assert!(pool.queue_used() < 600_000, "{} bytes", pool.queue_used());
        let first = all.pop().map(|mut r| {
            let n = r.bytes.len();
            r.bytes.clear(&mut pool);
            (n, r.source.is_some())
        });
        assert_eq!(first, Some((20_001 * 8, true)));
        assert_eq!(all.len(), 400_000 - 20_001 * 8);
        all.clear(&mut pool);
        assert!(all.is_empty());
        assert_eq!(all.bytes, 0);
    }
}
