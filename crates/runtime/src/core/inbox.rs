//! Messages between cores: for each pair of cores a ring of bytes, with one writer and one reader.
//!
//! In: records of a core that sends. Out: the same records, in their order, on the core that owns
//! the receivers. Neither side takes a lock or waits for the other. A record lies in one piece, so
//! that its reader copies it once, into the output of each receiver. A long message lies outside of
//! the ring, and its record names it. (`packet/spsc.rs` has rings of items of one size.)
//!
//! A ring that is more than half full tells its writer to read no further messages until there is
//! room again. So only a single handler can fill a ring; then a record is refused.
//!
//! A reader that sleeps is woken once for all that a batch has written. Positions and the words of
//! sleeping are written before the other side's are read, on both sides. So a wake is never missed.

use crate::engine::Waker;
use crate::packet::spsc::PaddedIndex;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of the rings of a process, and of one of them.
const ALL: usize = 256 << 20;
const MOST: usize = 1 << 20;
const LEAST: usize = 64 << 10;
/// A message that is longer lies outside of the ring; so many bytes of such messages may wait.
const LONG: usize = 8 << 10;
const LONG_MAX: usize = 16 << 20;

/// In front of each record: its length with this word in the low half, then what it is.
const SKIP: u64 = 1 << 32;
const OUTSIDE: u64 = 1 << 33;
const CLOSES: u64 = 1 << 34;
const WORDS: usize = 3;

/// A record's contents.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub app: u16,
    /// Of the message.
    pub proto: u16,
    pub place: u32,
    /// The connections are to be closed; there is no message.
    pub closes: bool,
    pub handles: &'a [u64],
    /// The message, in two pieces.
    pub head: &'a [u8],
    pub rest: &'a [u8],
}

/// The bytes of a long message, whose owner is the record.
struct LongMessage {
    at: *mut [u8],
}

/// One writer, one reader. Positions count words and never go back.
struct RecordRing {
    words: *mut u64,
    mask: usize,
    written: PaddedIndex,
    read: PaddedIndex,
    /// Bytes of long messages that wait.
    outside: AtomicUsize,
    /// The writer waits until there is room.
    crowded: AtomicBool,
}

// SAFETY: the words between `read` and `written` belong to the reader, the others to the writer;
// each side is one core's thread.
unsafe impl Send for RecordRing {}
// SAFETY: as above.
unsafe impl Sync for RecordRing {}

impl RecordRing {
    fn new(bytes: usize) -> RecordRing {
        let words = vec![0u64; bytes / 8].into_boxed_slice();
        RecordRing {
            mask: words.len() - 1,
            words: Box::into_raw(words).cast(),
            written: PaddedIndex(AtomicUsize::new(0)),
            read: PaddedIndex(AtomicUsize::new(0)),
            outside: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
        }
    }

    fn size(&self) -> usize {
        self.mask + 1
    }

    /// Words that wait.
    fn used(&self) -> usize {
        self.written.0.load(Ordering::Relaxed).wrapping_sub(self.read.0.load(Ordering::Acquire))
    }

    /// Writes a record; false: there is no room. The writer's side only.
    fn write(&self, r: &Record) -> bool {
        let bytes = r.head.len() + r.rest.len();
        let long = bytes > LONG;
        let lies = if long { 2 } else { bytes.div_ceil(8) };
        let need = WORDS + r.handles.len() + lies;
        let (mut at, size) = (self.written.0.load(Ordering::Relaxed), self.size());
        // A record does not pass the end of the memory.
        let here = size - (at & self.mask);
        let skipped = if here < need { here } else { 0 };
        if self.used() + skipped + need > size || long && self.outside.load(Ordering::Relaxed) + bytes > LONG_MAX {
            return false;
        }
        if skipped > 0 {
            self.put(at, SKIP | here as u64);
            at = at.wrapping_add(here);
        }
        let kind = if long { OUTSIDE } else { 0 } | if r.closes { CLOSES } else { 0 };
        self.put(at, kind | need as u64);
        self.put(at + 1, u64::from(r.proto) << 48 | u64::from(r.app) << 32 | u64::from(r.place));
        self.put(at + 2, (r.handles.len() as u64) << 32 | bytes as u64);
        for (i, h) in r.handles.iter().enumerate() {
            self.put(at + WORDS + i, *h);
        }
        let message = at + WORDS + r.handles.len();
        if long {
            let whole = [r.head, r.rest].concat().into_boxed_slice();
            self.outside.fetch_add(bytes, Ordering::Relaxed);
            self.put(message, Box::into_raw(whole).cast::<u8>() as u64);
        } else {
            // SAFETY: the words from `message` on are the writer's, `lies` of them in one piece.
            unsafe {
                let to = self.words.add(message & self.mask).cast::<u8>();
                to.copy_from_nonoverlapping(r.head.as_ptr(), r.head.len());
                to.add(r.head.len()).copy_from_nonoverlapping(r.rest.as_ptr(), r.rest.len());
            }
        }
        self.written.0.store(at + need, Ordering::Release);
        true
    }

    fn put(&self, at: usize, word: u64) {
        // SAFETY: within the memory; the writer's own word, by the check in `write`.
        unsafe { self.words.add(at & self.mask).write(word) }
    }

    fn get(&self, at: usize) -> u64 {
        // SAFETY: within the memory; called for words between `read` and `written`, by the reader.
        unsafe { self.words.add(at & self.mask).read() }
    }

    /// Takes the oldest record; whether there was one. The reader's side only.
    fn take(&self, f: &mut dyn FnMut(Record)) -> bool {
        let (mut at, end) = (self.read.0.load(Ordering::Relaxed), self.written.0.load(Ordering::Acquire));
        if at == end {
            return false;
        }
        if self.get(at) & SKIP != 0 {
            at = at.wrapping_add(self.get(at) as u32 as usize);
        }
        let (kind, of, sizes) = (self.get(at), self.get(at + 1), self.get(at + 2));
        let (count, bytes) = ((sizes >> 32) as usize, sizes as u32 as usize);
        let message = at + WORDS + count;
        let outside = (kind & OUTSIDE != 0).then(|| {
            let first = self.get(message) as *mut u8;
            LongMessage { at: std::ptr::slice_from_raw_parts_mut(first, bytes) }
        });
        // SAFETY: the record lies in one piece, and the writer does not touch it before `read` has
        // passed it.
        let (handles, inside) = unsafe {
            let first = self.words.add((at + WORDS) & self.mask);
            let inside = if outside.is_some() { 0 } else { bytes };
            let message = self.words.add(message & self.mask).cast::<u8>();
            (std::slice::from_raw_parts(first, count), std::slice::from_raw_parts(message, inside))
        };
        // SAFETY: the memory of a long message lives until its record is dropped.
        let head = outside.as_ref().map_or(inside, |o| unsafe { &*o.at });
        let closes = kind & CLOSES != 0;
        let (app, proto) = ((of >> 32) as u16, (of >> 48) as u16);
        f(Record { app, proto, place: of as u32, closes, handles, head, rest: &[] });
        if outside.is_some() {
            self.outside.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.read.0.store(at + (kind as u32 as usize), Ordering::Release);
        true
    }
}

impl Drop for LongMessage {
    fn drop(&mut self) {
        // SAFETY: it was made by `Box::into_raw` and is dropped once, by the reader.
        drop(unsafe { Box::from_raw(self.at) });
    }
}

impl Drop for RecordRing {
    fn drop(&mut self) {
        while self.take(&mut |_| {}) {}
        let words = std::ptr::slice_from_raw_parts_mut(self.words, self.size());
        // SAFETY: made by `Box::into_raw` in `new`.
        drop(unsafe { Box::from_raw(words) });
    }
}

/// A core's side, as the others see it.
#[derive(Default)]
struct Arrivals {
    /// A bit for each writer that has written, by its number modulo 64.
    bell: AtomicU64,
    /// The core waits for events.
    asleep: AtomicBool,
    /// A ring that this core writes to has room again.
    room: AtomicBool,
    /// The core has ended: it takes nothing any more.
    closed: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Arrivals {
    /// Says that a writer has written.
    fn ring(&self, writer: usize) {
        let bit = 1 << (writer % 64);
        if self.bell.load(Ordering::Relaxed) & bit == 0 {
            self.bell.fetch_or(bit, Ordering::SeqCst);
        }
    }

    fn wake(&self) {
        if let Some(w) = self.waker.get() {
            w.wake();
        }
    }
}

/// The inboxes of a service's cores.
pub struct Inboxes {
    all: Vec<Arrivals>,
    /// From core `s` to core `r`, at `r * cores + s`; made at the first use.
    rings: Vec<OnceLock<RecordRing>>,
    bytes: usize,
}

impl Inboxes {
    pub fn new(cores: usize) -> Inboxes {
        let each = (ALL / (cores * cores.saturating_sub(1)).max(1)).clamp(LEAST, MOST);
        Inboxes::with_rings_of(cores, 1 << each.ilog2())
    }

    /// `bytes`: a power of two.
    fn with_rings_of(cores: usize, bytes: usize) -> Inboxes {
        Inboxes {
            all: (0..cores).map(|_| Arrivals::default()).collect(),
            rings: (0..cores * cores).map(|_| OnceLock::new()).collect(),
            bytes,
        }
    }

    fn ring(&self, reader: usize, writer: usize) -> &OnceLock<RecordRing> {
        &self.rings[reader * self.all.len() + writer]
    }
}

/// A core's own access to the inboxes.
pub struct Mail {
    inboxes: Arc<Inboxes>,
    me: usize,
    /// Cores that are to be woken at the end of the batch.
    touched: Vec<usize>,
    /// Cores whose rings are crowded by this one.
    crowded: Vec<usize>,
}

/// The fate of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Yes,
    /// The ring is full.
    Full,
    /// There is no such core, or it has ended.
    Gone,
}

impl Mail {
    pub fn new(inboxes: Arc<Inboxes>, me: usize, waker: Waker) -> Mail {
        let _ = inboxes.all[me].waker.set(waker);
        Mail { inboxes, me, touched: Vec::new(), crowded: Vec::new() }
    }

    /// Hands a record to another core.
    pub fn send(&mut self, to: usize, r: &Record) -> Delivery {
        let Some(inbox) = self.inboxes.all.get(to).filter(|_| to != self.me) else { return Delivery::Gone };
        if inbox.closed.load(Ordering::Acquire) {
            return Delivery::Gone;
        }
        let ring = self.inboxes.ring(to, self.me).get_or_init(|| RecordRing::new(self.inboxes.bytes));
        let sent = ring.write(r);
        // A reader that is at work may see it at once; `announce` makes sure.
        inbox.ring(self.me);
        if !self.touched.contains(&to) {
            self.touched.push(to);
        }
        if ring.used() > ring.size() / 2 && !self.crowded.contains(&to) {
            self.crowded.push(to);
        }
        if sent {
            Delivery::Yes
        } else {
            Delivery::Full
        }
    }

    /// Whether records wait to be announced: then this core does not sleep.
    pub fn announces(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Wakes the cores that sleep and have got something in this batch.
    pub fn announce(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        // A reader that clears the bell behind this sees all records before it.
        fence(Ordering::SeqCst);
        for to in self.touched.drain(..) {
            let inbox = &self.inboxes.all[to];
            inbox.ring(self.me);
            if inbox.asleep.swap(false, Ordering::SeqCst) {
                inbox.wake();
            }
        }
    }

    /// Whether a reader is behind, so that no more messages may be taken in now.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// Looks at the crowded rings again; whether all have room now.
    pub fn has_room(&mut self) -> bool {
        let (inboxes, me) = (&self.inboxes, self.me);
        self.crowded.retain(|to| {
            let (inbox, ring) = (&inboxes.all[*to], inboxes.ring(*to, me).get());
            let Some(ring) = ring.filter(|_| !inbox.closed.load(Ordering::Acquire)) else { return false };
            ring.crowded.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let still = ring.used() > ring.size() / 4;
            if !still {
                ring.crowded.store(false, Ordering::SeqCst);
            }
            still
        });
        self.crowded.is_empty()
    }

    /// Whether another core has said that there is room again.
    #[inline]
    pub fn told_of_room(&self) -> bool {
        let room = &self.inboxes.all[self.me].room;
        room.load(Ordering::Relaxed) && room.swap(false, Ordering::SeqCst)
    }

    /// Before a wait for events: whether the core may wait.
    pub fn may_sleep(&self) -> bool {
        let inbox = &self.inboxes.all[self.me];
        inbox.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let calm = inbox.bell.load(Ordering::SeqCst) == 0 && !inbox.room.load(Ordering::SeqCst);
        if !calm {
            inbox.asleep.store(false, Ordering::Relaxed);
        }
        calm
    }

    pub fn woken(&self) {
        let asleep = &self.inboxes.all[self.me].asleep;
        if asleep.load(Ordering::Relaxed) {
            asleep.store(false, Ordering::Relaxed);
        }
    }

    /// The writers that have rung since the last call, as bits.
    #[inline]
    pub fn rung(&self) -> u64 {
        let bell = &self.inboxes.all[self.me].bell;
        if bell.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let rung = bell.swap(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        rung
    }

    /// The records of writers that have rung, as many as there were at the call.
    pub fn receive(&self, rung: u64, f: &mut dyn FnMut(Record)) {
        for writer in (0..self.inboxes.all.len()).filter(|w| rung & 1 << (w % 64) != 0) {
            let Some(ring) = self.inboxes.ring(self.me, writer).get() else { continue };
            let end = ring.written.0.load(Ordering::Acquire);
            while (end.wrapping_sub(ring.read.0.load(Ordering::Relaxed)) as isize) > 0 && ring.take(f) {}
            fence(Ordering::SeqCst);
            if ring.crowded.load(Ordering::SeqCst) && ring.used() <= ring.size() / 4 {
                ring.crowded.store(false, Ordering::SeqCst);
                let inbox = &self.inboxes.all[writer];
                inbox.room.store(true, Ordering::SeqCst);
                if inbox.asleep.swap(false, Ordering::SeqCst) {
                    inbox.wake();
                }
            }
        }
    }

    /// The core ends: records to it are refused from now on, and nobody waits for it.
    pub fn close(&mut self) {
        let inbox = &self.inboxes.all[self.me];
        inbox.closed.store(true, Ordering::SeqCst);
        for other in self.inboxes.all.iter().enumerate().filter(|(i, _)| *i != self.me).map(|(_, o)| o) {
            other.room.store(true, Ordering::SeqCst);
            other.wake();
        }
    }
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
