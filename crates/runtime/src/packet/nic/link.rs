//! The ends of a queue that leads over the link. In: frames. Out: entries of a ring, and frames again
//! in buffers of the other process.

use super::layout::Side;
use super::meter::Engine;
use super::ring::{Consumer, Head, Producer};
use super::shared::Joint;
use crate::abi::wl_frame;
use crate::packet::batch::{bytes, Buf};
use crate::packet::pool::Pool;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// Where frames leave for the other process.
pub struct LinkOut {
    ring: Producer,
    /// At the card's end.
    engine: Option<Engine>,
    gone: Arc<AtomicBool>,
}

/// Where they come from it.
pub struct LinkIn {
    ring: Consumer,
    engine: Option<Engine>,
}

fn engine(joint: &Joint, way: usize) -> Option<Engine> {
    (joint.side == Side::Nic).then(|| Engine::new(joint.link, joint.layout.ways[way].to_card))
}

impl LinkOut {
    pub fn new(joint: &Joint, way: usize) -> LinkOut {
        let ring = Producer::new(joint.ring(way), joint.layout.ways[way].depth, joint.is_anew());
        LinkOut { ring, engine: engine(joint, way), gone: joint.gone.clone() }
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    pub fn has_room(&mut self, len: usize) -> bool {
        self.ring.has_room(len)
    }

    /// Puts a frame in; there is room (`has_room`).
    pub fn put(&mut self, f: &wl_frame, now: u64) {
        self.ring.put(Head::new(f.n, f.wire, f.mark(), f.time, now), bytes(f));
        let m = self.ring.memory();
        if let Some(e) = &mut self.engine {
            e.entry(&m.header().meter, now, m.form.crossing(f.n as usize));
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
    pub fn new(joint: &Joint, way: usize) -> LinkIn {
        LinkIn { ring: Consumer::new(joint.ring(way), joint.is_anew()), engine: engine(joint, way) }
    }

    /// The time of the oldest frame.
    pub fn peek(&mut self) -> Option<u64> {
        self.ring.peek().map(|h| h.now)
    }

    /// Without a free buffer it stays there.
    pub fn take(&mut self, pool: &mut Pool) -> Option<(Buf, wl_frame, u64)> {
        let h = self.ring.peek()?;
        let (buf, mut frame) = pool.take(h.len as usize)?;
        // SAFETY: the buffer has room for as many bytes.
        unsafe { self.ring.take(frame.p) };
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
