//! A ring of entries in memory that two processes share: one producer, one consumer, no locks.
//!
//! ```text
//! slot: status u64 | len u32 | frame u32 | wire u32 | mark u32
//!       | time u64 | now u64 | check u64 | bytes …
//! ```
//!
//! Each slot has a status word, which says whose it is. `4 n` is free for the entry number n,
//! `4 n + 1` holds the beginning of an entry, and `4 n + 2` its continuation. A large entry takes
//! several slots; its first status is written last. So content and status cross a link together,
//! and neither side reads a position of the other one to go on.
//!
//! The other process may have written anything. A head is copied out, then checked: its number, its
//! length, the numbers of its continuations, and a sum over it. What does not fit is counted, and
//! its slot is given back. Positions are published, too. They serve where a status is damaged, and
//! where a process takes the place of one that has ended. A side that waits publishes its own one
//! again, since that may be damaged as well.

use super::meter::Meter;
use crate::packet::pool::FRAME_MAX;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::Arc;

/// The longest content.
pub const CONTENT_MAX: usize = FRAME_MAX + 128;

/// Bytes before the content, in the first slot of an entry and in the others.
const HEAD: usize = 48;
const MORE_HEAD: usize = 16;
/// A consumer that finds nothing looks at the producer's position after so many looks.
const LOOKS: u32 = 64;

/// More entries than a ring ever has. Their numbers fit into a status.
const POSITION_MAX: u64 = 1 << 60;

const FIRST: u64 = 1;
const MORE: u64 = 2;

fn free(n: u64) -> u64 {
    n << 2
}

fn full(n: u64, kind: u64) -> u64 {
    n << 2 | kind
}

#[repr(C, align(64))]
#[derive(Default)]
struct Line(AtomicU64);

impl Line {
    /// The other side's position. One that no ring reaches is damaged.
    fn read(&self) -> u64 {
        let n = self.0.load(Acquire);
        if n < POSITION_MAX {
            n
        } else {
            0
        }
    }

    /// Says again where this side is.
    fn repeat(&self, n: u64) {
        if self.0.load(Relaxed) != n {
            self.0.store(n, Release)
        }
    }
}

/// Counts of one end, which only this end writes.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Ends {
    /// Slots whose status or content did not fit, and entries that came out of their turn.
    pub damaged: AtomicU64,
    pub disordered: AtomicU64,
    /// Entries put in or taken out.
    pub entries: AtomicU64,
}

/// The beginning of a ring.
#[repr(C)]
#[derive(Default)]
pub struct Header {
    put: Line,
    taken: Line,
    pub producer: Ends,
    pub consumer: Ends,
    pub meter: Meter,
}

pub fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Relaxed).wrapping_add(n), Relaxed);
}

/// How a ring lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Bytes of a slot, a multiple of 64.
    pub slot: usize,
    /// A power of two.
    pub slots: usize,
}

impl Form {
    /// For `depth` entries of one slot, or one of the largest frame.
    pub fn of(depth: usize, slot: usize, largest: usize) -> Form {
        let form = Form { slot, slots: 0 };
        Form { slots: depth.max(form.slots_for(largest)).max(2).next_power_of_two(), ..form }
    }

    pub fn bytes(&self) -> usize {
        (std::mem::size_of::<Header>() + self.slot * self.slots).next_multiple_of(4096)
    }

    /// Slots of an entry.
    pub fn slots_for(&self, len: usize) -> usize {
        1 + len.saturating_sub(self.slot - HEAD).div_ceil(self.slot - MORE_HEAD)
    }

    /// Bytes of an entry that cross the link: its content and its heads, in whole cache lines.
    pub fn crossing(&self, len: usize) -> u64 {
        let more = self.slots_for(len) - 1;
        (HEAD + len + more * MORE_HEAD).next_multiple_of(64) as u64
    }
}

/// A ring's memory, kept by whoever uses it.
#[derive(Clone)]
pub struct RingMemory {
    header: *const Header,
    slots: *mut u8,
    pub form: Form,
    _keep: Arc<dyn Send + Sync>,
}

// SAFETY: shared words are atomic. The content of a slot is used by the side that its status names.
// A process that breaks this spoils content only, which is checked or taken as it is.
unsafe impl Send for RingMemory {}

impl RingMemory {
    /// # Safety `at` names `form.bytes()` bytes, aligned to 128, which live as long as `keep`. They
    /// are zero, or were a ring of this form.
    pub unsafe fn at(at: *mut u8, form: Form, keep: Arc<dyn Send + Sync>) -> RingMemory {
        // SAFETY: by contract.
        let slots = unsafe { at.add(std::mem::size_of::<Header>()) };
        RingMemory { header: at.cast(), slots, form, _keep: keep }
    }

    /// Makes all slots free, before anybody uses them.
    pub fn clear(&self) {
        (0..self.form.slots as u64).for_each(|n| self.set(n, free(n)));
    }

    pub fn header(&self) -> &Header {
        // SAFETY: it lives as long as `_keep`, and has atomic words only.
        unsafe { &*self.header }
    }

    fn slot(&self, n: u64) -> *mut u8 {
        let at = (n & (self.form.slots as u64 - 1)) as usize * self.form.slot;
        // SAFETY: within the slots.
        unsafe { self.slots.add(at) }
    }

    fn word(&self, n: u64) -> &AtomicU64 {
        // SAFETY: a slot begins with its status, aligned to 64.
        unsafe { &*self.slot(n).cast::<AtomicU64>() }
    }

    fn status(&self, n: u64) -> u64 {
        self.word(n).load(Acquire)
    }

    fn set(&self, n: u64, status: u64) {
        self.word(n).store(status, Release);
    }

    fn give_back(&self, n: u64) {
        self.set(n, free(n.wrapping_add(self.form.slots as u64)));
    }

    /// The parts of an entry's content: each with its slot's number, its address and its length.
    fn parts(&self, n: u64, len: usize) -> impl Iterator<Item = (u64, *mut u8, usize)> + '_ {
        let (mut at, mut left) = (n, len);
        std::iter::from_fn(move || {
            if at != n && left == 0 {
                return None;
            }
            let head = if at == n { HEAD } else { MORE_HEAD };
            let size = left.min(self.form.slot - head);
            // SAFETY: within the slot.
            let part = (at, unsafe { self.slot(at).add(head) }, size);
            (at, left) = (at.wrapping_add(1), left - size);
            Some(part)
        })
    }

    /// For tests that play a hostile process.
    #[cfg(test)]
    #[allow(clippy::mut_from_ref, reason = "a test writes where another process would")]
    pub fn bytes(&self) -> &mut [u8] {
        // SAFETY: the slots' own length.
        unsafe { std::slice::from_raw_parts_mut(self.slots, self.form.slot * self.form.slots) }
    }
}

/// The numbers that cross beside a frame's bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Of the content that crosses, and of the frame.
    pub len: u32,
    pub frame: u32,
    pub wire: u32,
    pub mark: u32,
    pub time: u64,
    pub now: u64,
}

impl Head {
    fn check(&self, n: u64) -> u64 {
        let two = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let words = [two(self.len, self.frame), two(self.wire, self.mark), self.time, self.now];
        words
            .iter()
            .fold(n ^ 0x9E37_79B9_7F4A_7C15, |sum, w| (sum ^ w).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29))
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Checked {
    head: Head,
    check: u64,
}

pub struct RingProducer {
    m: RingMemory,
    put: u64,
    freed: u64,
    depth: u64,
}

impl RingProducer {
    /// `anew`: takes the place of one that has ended.
    pub fn new(m: RingMemory, depth: usize, anew: bool) -> RingProducer {
        let size = m.form.slots as u64;
        let (mut put, mut freed) = (0, 0);
        if anew {
            // All before the consumer's place is taken, and what is behind it is there or is not.
            freed = m.header().taken.read();
            put = freed;
            while put < freed + size && m.status(put) >> 2 == put && m.status(put) != free(put) {
                put += 1;
            }
            // Of an entry that its producer has not finished, continuations are left.
            (put..freed + size).filter(|n| m.status(*n) != free(*n)).for_each(|n| m.set(n, free(n)));
            m.header().put.0.store(put, Release);
        }
        RingProducer { m, put, freed, depth: depth as u64 }
    }

    pub fn memory(&self) -> &RingMemory {
        &self.m
    }

    /// Whether an entry of `len` bytes finds room.
    pub fn has_room(&mut self, len: usize) -> bool {
        let slots = self.m.form.slots_for(len) as u64;
        let depth = self.depth.max(slots).min(self.m.form.slots as u64);
        if self.put - self.freed + slots > depth {
            self.look();
        }
        let room = self.put - self.freed + slots <= depth;
        if !room {
            self.m.header().put.repeat(self.put)
        }
        room
    }

    /// Slots that the consumer has given back.
    fn look(&mut self) {
        let size = self.m.form.slots as u64;
        while self.freed < self.put {
            if self.m.status(self.freed) != free(self.freed + size) {
                if self.m.header().taken.read() <= self.freed {
                    return;
                }
                // It has passed, and its status is not what it has written.
                if self.m.status(self.freed) != free(self.freed + size) {
                    add(&self.m.header().producer.damaged, 1);
                    self.m.give_back(self.freed);
                }
            }
            self.freed += 1;
        }
    }

    /// Puts an entry in, whose content is these two pieces; there is room (`has_room`).
    pub fn put(&mut self, head: Head, content: [&[u8]; 2]) {
        let n = self.put;
        let mut last = n;
        let mut left = content;
        for (at, mut to, mut size) in self.m.parts(n, head.len as usize) {
            for piece in &mut left {
                let (now, later) = piece.split_at(size.min(piece.len()));
                // SAFETY: the slot is ours, and has room for the part's bytes.
                unsafe {
                    std::ptr::copy_nonoverlapping(now.as_ptr(), to, now.len());
                    to = to.add(now.len());
                }
                (*piece, size) = (later, size - now.len());
            }
            last = at;
        }
        let checked = Checked { head, check: head.check(n) };
        // SAFETY: behind the status, within the first slot, aligned to 8.
        unsafe { self.m.slot(n).add(8).cast::<Checked>().write_volatile(checked) };
        (n + 1..=last).for_each(|k| self.m.set(k, full(k, MORE)));
        self.m.set(n, full(n, FIRST));
        self.put = last + 1;
        self.m.header().put.0.store(self.put, Release);
        add(&self.m.header().producer.entries, 1);
    }
}

pub struct RingConsumer {
    m: RingMemory,
    taken: u64,
    head: Option<Head>,
    looks: u32,
}

impl RingConsumer {
    /// `anew`: takes the place of one that has ended.
    pub fn new(m: RingMemory, anew: bool) -> RingConsumer {
        let mut taken = 0;
        if anew {
            let put = m.header().put.read();
            taken = put.saturating_sub(m.form.slots as u64);
            // Slots that are given back have been taken.
            while taken < put && m.status(taken) != full(taken, FIRST) {
                m.give_back(taken);
                taken += 1;
            }
            m.header().taken.0.store(taken, Release);
        }
        RingConsumer { m, taken, head: None, looks: 0 }
    }

    pub fn memory(&self) -> &RingMemory {
        &self.m
    }

    fn pass(&mut self, slots: u64) {
        for _ in 0..slots {
            self.m.give_back(self.taken);
            self.taken += 1;
        }
        self.m.header().taken.0.store(self.taken, Release);
    }

    /// The oldest entry's head; what does not fit is passed over.
    pub fn peek(&mut self) -> Option<Head> {
        // Each round passes a slot.
        for _ in 0..self.m.form.slots {
            if self.head.is_some() {
                return self.head;
            }
            let (n, status) = (self.taken, self.m.status(self.taken));
            if status == free(n) {
                if !self.is_lost(n) {
                    return None;
                }
                add(&self.m.header().consumer.damaged, 1);
                self.pass(1);
            } else if status == full(n, FIRST) {
                self.head = self.checked(n);
                if self.head.is_none() {
                    add(&self.m.header().consumer.damaged, 1);
                    self.pass(1);
                }
            } else {
                self.pass_stranger(n, status);
            }
        }
        None
    }

    /// A slot has another number than its turn. If a whole entry of that number is there, it goes
    /// on with that.
    fn pass_stranger(&mut self, n: u64, status: u64) {
        let (of, number) = (&self.m.header().consumer, status >> 2);
        let here = (number ^ n) & (self.m.form.slots as u64 - 1) == 0;
        if status & 3 == FIRST && here && self.checked(number).is_some() {
            add(&of.disordered, 1);
            self.taken = number;
            return;
        }
        // A continuation was counted with its beginning.
        if status != full(n, MORE) {
            add(&of.damaged, 1);
        }
        self.pass(1);
    }

    /// Whether an entry was put in there, although its slot says that it is free. Looked at now and
    /// then.
    fn is_lost(&mut self, n: u64) -> bool {
        self.looks = (self.looks + 1) % LOOKS;
        if self.looks != 0 {
            return false;
        }
        self.m.header().taken.repeat(n);
        self.m.header().put.read() > n && self.m.status(n) == free(n)
    }

    fn checked(&self, n: u64) -> Option<Head> {
        // SAFETY: behind the status, within the slot. Whatever the bytes are, they are numbers.
        let Checked { head, check } = unsafe { self.m.slot(n).add(8).cast::<Checked>().read_volatile() };
        if check != head.check(n) || head.len as usize > CONTENT_MAX {
            return None;
        }
        let slots = self.m.form.slots_for(head.len as usize) as u64;
        let whole = slots <= self.m.form.slots as u64 && (1..slots).all(|k| self.m.status(n + k) == full(n + k, MORE));
        whole.then_some(head)
    }

    /// The first bytes of the entry that `peek` has shown, as far as its first slot has them.
    pub fn begins(&self, to: &mut [u8]) {
        let n = to.len().min(self.m.form.slot - HEAD);
        // SAFETY: within the slot.
        unsafe { std::ptr::copy_nonoverlapping(self.m.slot(self.taken).add(HEAD), to.as_mut_ptr(), n) }
    }

    /// Copies the entry that `peek` has shown to two pieces of memory, of its length together, and
    /// gives its slots back.
    ///
    /// # Safety
    /// Each has room for as many bytes as it says.
    pub unsafe fn take(&mut self, to: [(*mut u8, usize); 2]) {
        let Some(head) = self.head.take() else { return };
        let mut left = to;
        for (_, mut from, mut size) in self.m.parts(self.taken, head.len as usize) {
            for (to, room) in &mut left {
                let n = size.min(*room);
                // SAFETY: within the slot, and by contract. The other process may write meanwhile:
                // then the frame has other bytes.
                unsafe {
                    std::ptr::copy_nonoverlapping(from, *to, n);
                    (from, *to) = (from.add(n), to.add(n));
                }
                (size, *room) = (size - n, *room - n);
            }
        }
        self.took(head);
    }

    /// Passes over the entry that `peek` has shown: it is none that can be.
    pub fn refuse(&mut self) {
        if let Some(head) = self.head.take() {
            add(&self.m.header().consumer.damaged, 1);
            self.pass(self.m.form.slots_for(head.len as usize) as u64);
        }
    }

    /// Passes over the entry that `peek` has shown.
    pub fn skip(&mut self) {
        if let Some(head) = self.head.take() {
            self.took(head);
        }
    }

    fn took(&mut self, head: Head) {
        self.pass(self.m.form.slots_for(head.len as usize) as u64);
        add(&self.m.header().consumer.entries, 1);
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
