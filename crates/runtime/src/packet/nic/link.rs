//! The ends of a queue that leads over the link. In: frames. Out: entries of a ring, and frames
//! again in buffers of the other process.
//!
//! As much crosses as the queue carries. That is the entry that belongs to the frame's buffer, then
//! the frame, or the part of it that its receiver reads.

use super::layout::ProcessSide;
use super::meter::DmaEngine;
use super::ring::{Head, RingConsumer, RingProducer};
use super::shared::Joint;
use crate::abi::wl_frame;
use crate::packet::batch::{bytes, Buf};
use crate::packet::pool::{Pool, Region, FRAME_MAX};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use wireloom_ir::desc::Desc;
use wireloom_ir::FramePart;

/// The load of a queue: bytes of its entries, and a part of each frame.
#[derive(Clone, Copy)]
pub struct Carried {
    pub entry: usize,
    pub part: FramePart,
}

/// An entry at most, in words.
const ENTRY_WORDS: usize = 16;

impl Carried {
    pub fn of(desc: &Desc, port: usize) -> Carried {
        let entry = desc.ports[port].entry as usize;
        Carried { entry: entry.min(8 * ENTRY_WORDS), part: desc.ports[port].part }
    }

    /// Bytes of a frame that cross, with this entry.
    fn there(&self, entry: &[u64; ENTRY_WORDS], n: u32) -> u32 {
        let first = entry[0].to_ne_bytes();
        self.part.there(if self.entry > 0 { &first } else { &[] }, n).min(n)
    }

    fn bytes<'a>(&self, entry: &'a [u64; ENTRY_WORDS]) -> &'a [u8] {
        // SAFETY: the words' own bytes.
        unsafe { std::slice::from_raw_parts(entry.as_ptr().cast(), self.entry) }
    }
}

/// The entry of a buffer.
fn entry_of(region: &Region, buf: Buf, bytes: usize) -> [u64; ENTRY_WORDS] {
    let (mut all, n) = ([0; ENTRY_WORDS], bytes / 8);
    if n > 0 {
        region.entry(buf, n, |entry| all[..entry.len()].copy_from_slice(entry));
    }
    all
}

/// Where frames leave for the other process.
pub struct LinkOut {
    ring: RingProducer,
    carried: Carried,
    region: Arc<Region>,
    /// At the card's end.
    engine: Option<DmaEngine>,
    gone: Arc<AtomicBool>,
}

/// Where they come from it.
pub struct LinkIn {
    ring: RingConsumer,
    carried: Carried,
    engine: Option<DmaEngine>,
}

fn engine(joint: &Joint, way: usize) -> Option<DmaEngine> {
    (joint.side == ProcessSide::Nic).then(|| DmaEngine::new(joint.link, joint.layout.ways[way].to_card))
}

impl LinkOut {
    pub fn new(joint: &Joint, way: usize, carried: Carried, region: Arc<Region>) -> LinkOut {
        let ring = RingProducer::new(joint.ring(way), joint.layout.ways[way].depth, joint.is_anew());
        LinkOut { ring, carried, region, engine: engine(joint, way), gone: joint.gone.clone() }
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// For a frame of this length as a whole.
    pub fn has_room(&mut self, len: usize) -> bool {
        self.ring.has_room(self.carried.entry + len)
    }

    /// Puts a frame in; there is room (`has_room`).
    pub fn put(&mut self, buf: Buf, f: &wl_frame, now: u64) {
        let entry = entry_of(&self.region, buf, self.carried.entry);
        let there = self.carried.there(&entry, f.n);
        let len = self.carried.entry as u32 + there;
        let head = Head { len, frame: f.n, wire: f.wire, mark: f.mark(), time: f.time, now };
        self.ring.put(head, [self.carried.bytes(&entry), &bytes(f)[..there as usize]]);
        let m = self.ring.memory();
        if let Some(e) = &mut self.engine {
            e.entry(&m.header().meter, now, m.form.crossing(len as usize));
        }
    }

    /// Behind the last frame.
    pub fn finish(&mut self) {
        if let Some(e) = &mut self.engine {
            e.flush(&self.ring.memory().header().meter);
        }
    }
}

impl LinkIn {
    pub fn new(joint: &Joint, way: usize, carried: Carried) -> LinkIn {
        LinkIn { ring: RingConsumer::new(joint.ring(way), joint.is_anew()), carried, engine: engine(joint, way) }
    }

    /// The time of the oldest frame.
    pub fn peek(&mut self) -> Option<u64> {
        loop {
            let h = self.ring.peek()?;
            if self.fits(&h) {
                return Some(h.now);
            }
            self.ring.refuse();
        }
    }

    /// Whether an entry can be one of this queue.
    fn fits(&self, h: &Head) -> bool {
        let mut first = [0; 8];
        self.ring.begins(&mut first);
        let entry = std::array::from_fn(|n| if n == 0 { u64::from_ne_bytes(first) } else { 0 });
        h.frame as usize <= FRAME_MAX && h.len == self.carried.entry as u32 + self.carried.there(&entry, h.frame)
    }

    /// Without a free buffer it stays there.
    pub fn take(&mut self, pool: &mut Pool) -> Option<(Buf, wl_frame, u64)> {
        self.peek()?;
        let h = self.ring.peek()?;
        let (buf, mut frame) = pool.take(h.frame as usize)?;
        let mut entry = [0; ENTRY_WORDS];
        let there = h.len as usize - self.carried.entry;
        // SAFETY: `fits` has seen that the content is an entry and not more than the frame.
        unsafe { self.ring.take([(entry.as_mut_ptr().cast(), self.carried.entry), (frame.p, there)]) };
        let words = self.carried.entry / 8;
        if words > 0 {
            pool.region().entry(buf, words, |own| own.copy_from_slice(&entry[..own.len()]));
        }
        frame.set_mark(h.mark);
        (frame.time, frame.wire) = (h.time, h.wire);
        self.count(h);
        Some((buf, frame, h.now))
    }

    fn count(&mut self, h: Head) {
        let m = self.ring.memory();
        if let Some(e) = &mut self.engine {
            e.entry(&m.header().meter, h.now, m.form.crossing(h.len as usize));
        }
    }

    /// Passes over a frame. False: there is none.
    pub fn skip(&mut self) -> bool {
        let Some(h) = self.ring.peek() else { return false };
        self.ring.skip();
        self.count(h);
        true
    }

    /// Behind the last frame.
    pub fn finish(&mut self) {
        if let Some(e) = &mut self.engine {
            e.flush(&self.ring.memory().header().meter);
        }
    }
}
