//! The trait of a frame port: the functions that each engine implements.

use super::batch::Batch;
use super::pool::Pool;
use super::queue::Queue;
use crate::abi::wl_frame;
use std::io;
use std::os::fd::RawFd;

/// Frames of a capture further apart than this are not handled in one batch, which has one time.
pub const APART_NS: u64 = 1_000_000;

/// The origin of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    pub port: u16,
    pub instance: u16,
    /// Time of arrival, if the port gives none.
    pub time: u64,
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
    fn queue(&mut self) -> Option<&mut Queue> {
        None
    }

    /// Takes back the buffers of sent frames. Called when the core is idle.
    fn tend(&mut self, _pool: &mut Pool) {}

    /// Finishes output that is still on its way. At the end of a run.
    fn finish(&mut self, _pool: &mut Pool) -> io::Result<()> {
        Ok(())
    }
}
