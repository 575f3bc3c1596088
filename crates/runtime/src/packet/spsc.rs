//! A bounded ring between two threads: one producer, one consumer, in order, without locks or
//! allocation.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::Arc;

/// The consumer shows its place after so many items at the latest.
const SHOWN: usize = 32;

/// On a cache line of its own: the two sides must not share one.
#[repr(align(128))]
pub struct PaddedIndex(pub AtomicUsize);

struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Counts of all items put in and taken out; positions are these modulo the size.
    put: PaddedIndex,
    taken: PaddedIndex,
}

// SAFETY: a slot is used by the producer until `put` has passed it, by the consumer until `taken`
// has.
unsafe impl<T: Send> Sync for Ring<T> {}

pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    put: usize,
    taken: usize,
}

pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    put: usize,
    taken: usize,
}

/// A ring for at least `size` items.
pub fn ring<T: Copy + Send>(size: usize) -> (Producer<T>, Consumer<T>) {
    let size = size.max(2).next_power_of_two();
    let slots = (0..size).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let ring = Arc::new(Ring { slots, put: PaddedIndex(AtomicUsize::new(0)), taken: PaddedIndex(AtomicUsize::new(0)) });
    (Producer { ring: ring.clone(), put: 0, taken: 0 }, Consumer { ring, put: 0, taken: 0 })
}

impl<T: Copy> Producer<T> {
    /// Room for items. Looks at the other side only if there seems to be less than `want`.
    #[inline]
    pub fn room(&mut self, want: usize) -> usize {
        let size = self.ring.slots.len();
        if size - (self.put - self.taken) < want {
            self.taken = self.ring.taken.0.load(Acquire);
        }
        size - (self.put - self.taken)
    }

    pub fn is_half_full(&mut self) -> bool {
        let half = self.ring.slots.len() / 2;
        self.room(half) < half
    }

    /// Puts an item in and shows it to the other side; false: the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> bool {
        let done = self.put(item);
        self.show();
        done
    }

    /// Puts an item in, to be shown later: each time costs the two cores a cache line.
    #[inline]
    pub fn put(&mut self, item: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        let slot = &self.ring.slots[self.put & (self.ring.slots.len() - 1)];
        // SAFETY: the consumer has left this slot (`room`) and does not look at it before `put` is
        // stored.
        unsafe { (*slot.get()).write(item) };
        self.put += 1;
        true
    }

    /// Publishes the items that were put in.
    #[inline]
    pub fn show(&self) {
        self.ring.put.0.store(self.put, Release);
    }
}

impl<T: Copy> Consumer<T> {
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            self.ring.taken.0.store(self.taken, Release);
            return None;
        }
        let slot = &self.ring.slots[self.taken & (self.ring.slots.len() - 1)];
        // SAFETY: the producer has written this slot (`put`) and does not use it again before
        // `taken` is stored.
        let item = unsafe { (*slot.get()).assume_init() };
        self.taken += 1;
        // Not each time, for the cache line's sake; and when the ring is empty.
        if self.taken.is_multiple_of(SHOWN) {
            self.ring.taken.0.store(self.taken, Release);
        }
        Some(item)
    }

    #[inline]
    pub fn is_empty(&mut self) -> bool {
        if self.taken == self.put {
            self.put = self.ring.put.0.load(Acquire);
        }
        self.taken == self.put
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_order_between_threads() {
        let (mut put, mut take) = ring::<u64>(64);
        let n = 200_000;
        let feeder = std::thread::spawn(move || {
            for i in 0..n {
                while !put.push(i) {
                    std::thread::yield_now();
                }
            }
        });
        for i in 0..n {
            let got = loop {
                match take.pop() {
                    Some(x) => break x,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(got, i);
        }
        feeder.join().unwrap();
        assert!(take.pop().is_none());
    }

    #[test]
    fn a_full_ring_says_so() {
        let (mut put, mut take) = ring::<u8>(4);
        assert_eq!((0..6).map(|i| put.push(i)).filter(|ok| *ok).count(), 4);
        assert_eq!((put.room(1), take.pop(), put.room(1)), (0, Some(0), 0));
        while take.pop().is_some() {}
        assert_eq!(put.room(4), 4);
        assert!(put.put(9) && take.pop().is_none());
        put.show();
        assert_eq!(take.pop(), Some(9));
    }
}
