//! The trait of a frame port: the functions that each engine implements.

use super::pool::{Buf, Pool};
use crate::abi::wl_frame;
use std::io;
use std::os::fd::RawFd;

/// Frames of a capture further apart than this are not handled in one batch, which has one time.
pub const APART_NS: u64 = 1_000_000;
/// Frames handled together, at most.
pub const BATCH: usize = 64;
/// The size of a batch whose end has no waiter: its handler sends nothing, or its output is
/// dropped.
pub const LONG_BATCH: usize = 128;

/// Frames and their buffers, one for one. Never holds more than [`BATCH`], so it never grows; but
/// [`LONG_BATCH`] if it is its port's own.
pub struct Batch {
    pub frames: Vec<wl_frame>,
    pub bufs: Vec<Buf>,
    /// Its frames lie where their port has them: nothing is given back, and they stay in the batch,
    /// which its port fills anew.
    lent: bool,
}

// SAFETY: the frames point into buffers that belong to the holder of the batch.
unsafe impl Send for Batch {}

impl Default for Batch {
    fn default() -> Self {
        Batch { frames: Vec::with_capacity(BATCH), bufs: Vec::with_capacity(BATCH), lent: false }
    }
}

impl Batch {
    /// Stands in for a batch that is in use elsewhere; has no memory.
    pub const fn absent() -> Batch {
        Batch { frames: Vec::new(), bufs: Vec::new(), lent: false }
    }
    /// For a port whose frames lie where they are ([`FramePort::receive_ready`]).
    pub const fn lent() -> Batch {
        Batch { frames: Vec::new(), bufs: Vec::new(), lent: true }
    }
    #[inline]
    pub fn push(&mut self, buf: Buf, frame: wl_frame) {
        self.frames.push(frame);
        self.bufs.push(buf);
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
    /// How many more fit.
    #[inline]
    pub fn room(&self) -> usize {
        BATCH.saturating_sub(self.frames.len())
    }
    #[inline]
    pub fn clear(&mut self) {
        self.frames.clear();
        self.bufs.clear();
    }
    /// Keeps the frames at these places, which ascend; the others go without their buffers.
    #[inline]
    pub fn keep(&mut self, places: &[u8]) {
        for (to, from) in places.iter().map(|k| usize::from(*k)).enumerate() {
            (self.frames[to], self.bufs[to]) = (self.frames[from], self.bufs[from]);
        }
        self.frames.truncate(places.len());
        self.bufs.truncate(places.len());
    }

    /// Drops the frames that `keep` refuses, without their buffers; the others move up.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(usize, &mut wl_frame, &mut Buf) -> bool) {
        let mut kept = 0;
        for k in 0..self.len() {
            let (mut frame, mut buf) = (self.frames[k], self.bufs[k]);
            if keep(k, &mut frame, &mut buf) {
                (self.frames[kept], self.bufs[kept]) = (frame, buf);
                kept += 1;
            }
        }
        self.frames.truncate(kept);
        self.bufs.truncate(kept);
    }

    /// Says when frames came that do not say it themselves, and does `each` to all of them. Answers
    /// their bytes.
    #[inline]
    pub fn stamp(&mut self, wall: u64, each: impl Fn(&mut wl_frame)) -> u64 {
        let mut bytes = 0;
        for f in &mut self.frames {
            each(f);
            f.time = if f.time == 0 { wall } else { f.time };
            bytes += u64::from(f.n);
        }
        bytes
    }

    /// Gives all buffers back.
    #[inline]
    pub fn release(&mut self, pool: &mut Pool) {
        if !self.lent {
            pool.put_all(&self.bufs);
            self.clear();
        }
    }
}

/// The bytes of a frame.
#[inline]
pub fn bytes(f: &wl_frame) -> &[u8] {
    // SAFETY: a frame in a batch names `n` valid bytes of a buffer that the batch's holder owns.
    // The program may have moved them within the buffer's room only (wireloom.h).
    unsafe { std::slice::from_raw_parts(f.p, f.n as usize) }
}

/// Has memory brought to the nearest cache.
#[inline]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: fetching ahead changes nothing, and may name any address.
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Fetches memory that is used some batches later into the second cache. The first one is too small
/// for it, and has few places for lines on their way.
#[inline]
pub fn prefetch_far(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T1};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The origin of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    pub port: u16,
    pub instance: u16,
    /// Time of arrival, if the port gives none.
    pub wall: u64,
}

/// Frames that have left, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub frames: u64,
    pub bytes: u64,
}

impl Sent {
    pub fn all(batch: &Batch) -> Sent {
        batch.frames.iter().fold(Sent::default(), |s, f| s.and(f, true))
    }
    /// One more, if it has left.
    #[inline]
    pub fn and(self, f: &wl_frame, left: bool) -> Sent {
        Sent { frames: self.frames + u64::from(left), bytes: self.bytes + if left { u64::from(f.n) } else { 0 } }
    }
}

/// One instance of a port, on one core. All calls come from that core's thread.
pub trait FramePort: Send {
    /// Adds frames that are there, as many as `into` has room for. Frames of a capture later than
    /// `until` are left for another time, and so are those too far from the batch's first. An error
    /// ends the input.
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, until: u64) -> io::Result<()>;

    /// Whether its frames lie where they are and belong to no pool: then they are received by
    /// `receive_ready`, not by `receive`.
    fn ready(&self) -> bool {
        false
    }

    /// Whether `receive` can lend copies that stay valid until the next call: for a core whose
    /// output is dropped.
    fn lends(&self) -> bool {
        false
    }

    /// Receives at most `most` frames, with their labels, into a batch that no other port uses;
    /// answers their bytes in all. The batch still has frames of the last time, some of them or
    /// all: their rooms need not be written again.
    fn receive_ready(&mut self, _into: &mut Batch, _most: usize, _until: u64, _label: Label) -> u64 {
        0
    }

    /// Sends all frames of the batch and empties it. Buffers are given back now or when they are
    /// sent. Returns the number of sent frames; the others are lost.
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent;

    /// Whether it does nothing with the frames that it is given to send. Then it need not see them:
    /// `transmit` may be left out.
    fn swallows(&self) -> bool {
        false
    }

    /// Whether the kernel behind it completes checksums and cuts segments. Then frames may come to
    /// it unfinished, with the kernel's header for each in its buffer's note.
    fn offloads(&self) -> bool {
        false
    }

    /// Readable when there is something to receive; `None`: there always is, or never will be.
    fn fd(&self) -> Option<RawFd> {
        None
    }

    /// Whether nothing will come any more.
    fn ended(&self) -> bool {
        false
    }

    /// Whether the frames' own time is the app's.
    fn is_capture(&self) -> bool {
        false
    }

    /// A capture: the time of its next frame; `None` at its end. An error is told by the next
    /// `receive`.
    fn next_time(&mut self) -> Option<u64> {
        None
    }

    /// Frames that the kernel dropped since the last call, as far as it says.
    fn lost(&mut self) -> u64 {
        0
    }

    /// The queue that it is, if it is one.
    fn queue(&mut self) -> Option<&mut super::queue::Queue> {
        None
    }

    /// Takes back the buffers of sent frames. Called when the core is idle.
    fn tend(&mut self, _pool: &mut Pool) {}

    /// Finishes output that is still on its way. At the end of a run.
    fn finish(&mut self, _pool: &mut Pool) -> io::Result<()> {
        Ok(())
    }
}
