//! The ends of a queue that leads over the link. In: frames. Out: entries of a ring, and frames again
//! in buffers of the other process.

use super::layout::Side;
use super::meter::Engine;
use super::ring::{Consumer, Head, Producer};
use super::shared::Joint;
use crate::abi::wl_frame;
use crate::packet::batch::{bytes, Buf};
use crate::packet::nic::ring::ENTRY_MAX;
use crate::packet::pool::{Pool, Region, FRAME_MAX};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use wireloom_ir::desc::PortDesc;
use wireloom_ir::FramePart;

/// What of a queue's frames crosses, and where its entries are.
pub struct Carried {
    region: Arc<Region>,
    part: FramePart,
    /// Bytes of an entry.
    entry: usize,
    /// The content of a slot, put together.
    content: Vec<u8>,
}

impl Carried {
    pub fn new(region: Arc<Region>, port: &PortDesc) -> Carried {
        let content = Vec::with_capacity(FRAME_MAX + ENTRY_MAX);
        Carried { region, part: port.part, entry: (port.entry as usize).min(ENTRY_MAX), content }
    }

    fn is_all(&self) -> bool {
        self.entry == 0 && self.part == FramePart::Whole
    }

    /// Puts the content of a frame's slot together.
    fn gather(&mut self, f: &wl_frame, buf: Buf) {
        self.content.clear();
        let content = &mut self.content;
        self.region.entry(buf, self.entry / 8, |own| own.iter().for_each(|w| content.extend(w.to_ne_bytes())));
        content.resize(self.entry, 0);
        let there = self.part.there(content, f.n) as usize;
        content.extend_from_slice(&bytes(f)[..there]);
    }

    /// Bytes of that content.
    fn len(&self, f: &wl_frame, buf: Buf) -> usize {
        if self.is_all() {
            return f.n as usize;
        }
        let first = self.region.entry(buf, 1, |own| own.first().copied()).flatten().unwrap_or(0);
        self.entry + self.part.there(&first.to_ne_bytes(), f.n) as usize
    }

    /// Takes the content apart, into a frame's buffer and its entry.
    fn scatter(&mut self, frame: &mut wl_frame, buf: Buf) {
        let (entry, there) = self.content.split_at(self.entry.min(self.content.len()));
        self.region.entry(buf, self.entry / 8, |own| {
            for (to, from) in own.iter_mut().zip(entry.chunks_exact(8)) {
                *to = from.try_into().map_or(0, u64::from_ne_bytes);
            }
        });
        let n = there.len().min(frame.n as usize);
        // SAFETY: the buffer has room for the whole frame, and belongs to the caller.
        unsafe { std::ptr::copy_nonoverlapping(there.as_ptr(), frame.p, n) };
    }
}

/// Where frames leave for the other process.
pub struct LinkOut {
    ring: Producer,
    carried: Carried,
    /// At the card's end.
    engine: Option<Engine>,
    gone: Arc<AtomicBool>,
}

/// Where they come from it.
pub struct LinkIn {
    ring: Consumer,
    carried: Carried,
    engine: Option<Engine>,
}

fn engine(joint: &Joint, way: usize) -> Option<Engine> {
    (joint.side == Side::Nic).then(|| Engine::new(joint.link, joint.layout.ways[way].to_card))
}

impl LinkOut {
    pub fn new(joint: &Joint, way: usize, carried: Carried) -> LinkOut {
        let ring = Producer::new(joint.ring(way), joint.layout.ways[way].depth, joint.is_anew());
        LinkOut { ring, carried, engine: engine(joint, way), gone: joint.gone.clone() }
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    pub fn has_room(&mut self, f: &wl_frame, buf: Buf) -> bool {
        self.ring.has_room(self.carried.len(f, buf))
    }

    /// Puts a frame in; there is room (`has_room`).
    pub fn put(&mut self, f: &wl_frame, buf: Buf, now: u64) {
        let content = if self.carried.is_all() {
            bytes(f)
        } else {
            self.carried.gather(f, buf);
            &self.carried.content
        };
        let len = content.len();
        self.ring.put(Head { n: f.n, ..Head::new(len as u32, f.wire, f.mark(), f.time, now) }, content);
        let m = self.ring.memory();
        if let Some(e) = &mut self.engine {
            e.entry(&m.header().meter, now, m.form.crossing(len));
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
        LinkIn { ring: Consumer::new(joint.ring(way), joint.is_anew()), carried, engine: engine(joint, way) }
    }

    /// The time of the oldest frame.
    pub fn peek(&mut self) -> Option<u64> {
        self.ring.peek().map(|h| h.now)
    }

    /// Without a free buffer it stays there.
    pub fn take(&mut self, pool: &mut Pool) -> Option<(Buf, wl_frame, u64)> {
        let h = self.ring.peek()?;
        let (buf, mut frame) = pool.take(if self.carried.is_all() { h.len } else { h.n } as usize)?;
        if self.carried.is_all() {
            // SAFETY: the buffer has room for as many bytes.
            unsafe { self.ring.take(frame.p) };
        } else {
            self.carried.content.resize(h.len as usize, 0);
            // SAFETY: so many bytes are there.
            unsafe { self.ring.take(self.carried.content.as_mut_ptr()) };
            self.carried.scatter(&mut frame, buf);
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
