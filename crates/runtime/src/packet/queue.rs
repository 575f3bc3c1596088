//! A queue inside the program. In: frames that a handler sends to it. Out: the same buffers when a
//! handler takes them.
//!
//! First in, first out, of one core. A frame that finds the queue full is discarded.

use super::batch::{bytes, Buf, NONE};
use super::pool::Pool;
use crate::abi::wl_frame;
use std::collections::VecDeque;

pub struct Queue {
    depth: usize,
    waiting: VecDeque<(Buf, wl_frame)>,
}

// SAFETY: the frames point into buffers that belong to the holder of the queue.
unsafe impl Send for Queue {}

impl Queue {
    pub fn new(depth: usize) -> Queue {
        Queue { depth, waiting: VecDeque::with_capacity(depth) }
    }

    /// False: there is no room, and the buffer was given back.
    pub fn push(&mut self, pool: &mut Pool, buf: Buf, frame: wl_frame) -> bool {
        if !self.has_room() {
            pool.put(buf);
            return false;
        }
        // Frames without a buffer of the pool are reused by their port, so waiting frames are
        // copied.
        let kept = if buf == NONE {
            pool.store(bytes(&frame)).map(|(b, f)| (b, wl_frame { p: f.p, head: f.head, tail: f.tail, ..frame }))
        } else {
            Some((buf, frame))
        };
        let Some((buf, frame)) = kept else { return false };
        if !pool.wait(buf) {
            pool.put(buf);
            return false;
        }
        self.waiting.push_back((buf, frame));
        true
    }

    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.depth
    }

    pub fn pop(&mut self, pool: &mut Pool) -> Option<(Buf, wl_frame)> {
        let first = self.waiting.pop_front()?;
        pool.go_on(first.0);
        Some(first)
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of the oldest frame.
    pub fn first(&self) -> Option<u32> {
        self.waiting.front().map(|(_, f)| f.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_order_and_a_full_queue_refuses() {
        let mut pool = Pool::all(1, 8).unwrap().remove(0);
        let mut q = Queue::new(2);
        for n in 1..=3 {
            let (buf, f) = pool.store(&[n; 60]).unwrap();
            assert_eq!(q.push(&mut pool, buf, f), n <= 2, "{n}");
        }
        assert_eq!((q.len(), q.first(), pool.free()), (2, Some(60), 6));
        for n in 1..=2 {
            let (buf, f) = q.pop(&mut pool).unwrap();
            assert_eq!(bytes(&f)[0], n);
            pool.put(buf);
        }
        assert!(q.pop(&mut pool).is_none() && q.first().is_none() && pool.free() == 8);
    }

    #[test]
    fn frames_in_memory_are_copied() {
        let mut pool = Pool::all(1, 8).unwrap().remove(0);
        let mut q = Queue::new(1);
        let mut data = vec![7u8; 64];
        let f =
            wl_frame { p: data.as_mut_ptr(), n: 64, head: 0, tail: 0, port: 3, instance: 0, time: 9, wire: 64, out: 0 };
        assert!(q.push(&mut pool, NONE, f));
        data.fill(0);
        let (buf, f) = q.pop(&mut pool).unwrap();
        assert!(buf != NONE && bytes(&f).iter().all(|b| *b == 7) && f.time == 9);
    }

    #[test]
    fn large_frames_that_wait_leave_buffers_for_others() {
        let mut pool = Pool::all(1, 8).unwrap().remove(0);
        let mut queues = [Queue::new(1000), Queue::new(1000)];
        let mut data = vec![7u8; 9000];
        // Those of a port that shows its frames again are copied first.
        let shown = wl_frame {
            p: data.as_mut_ptr(),
            n: 9000,
            head: 0,
            tail: 0,
            port: 0,
            instance: 0,
            time: 0,
            wire: 9000,
            out: 0,
        };
        let mut taken = 0;
        for k in 0..500 {
            let (buf, f) = if k % 4 < 2 { (NONE, shown) } else { pool.store(&data).expect("some are left") };
            taken += usize::from(queues[k % 2].push(&mut pool, buf, f));
        }
        assert_eq!(taken, queues[0].len() + queues[1].len());
        assert!((32..100).contains(&taken), "{taken}");
        for q in &mut queues {
            while let Some((buf, _)) = q.pop(&mut pool) {
                pool.put(buf);
            }
        }
        let (buf, f) = pool.store(&data).unwrap();
        assert!(queues[0].push(&mut pool, buf, f), "there is room again");
    }
}
