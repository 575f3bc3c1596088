//! Frames that are handled together.

use crate::abi::wl_frame;

/// Names a buffer of the region.
pub type Buf = u32;

/// A frame in memory that is not given back (frames preloaded in memory).
pub const NONE: Buf = u32::MAX;

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
    pub(super) lent: bool,
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
    pub fn stamp(&mut self, now: u64, each: impl Fn(&mut wl_frame)) -> u64 {
        let mut bytes = 0;
        for f in &mut self.frames {
            each(f);
            f.time = if f.time == 0 { now } else { f.time };
            bytes += u64::from(f.n);
        }
        bytes
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
