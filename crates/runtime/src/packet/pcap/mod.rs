//! Capture files. In: pcap (microseconds or nanoseconds, either byte order) and pcapng, plain or
//! compressed by gzip or zstd. Out: frames with their own times; and the same formats written.
//!
//! `read` finds the frames in a window of the file. `ng` knows the blocks of pcapng. `write` is the
//! other direction. A damaged capture ends with an error that names the place. The frames before
//! the damage have been handled.

mod link;
mod ng;
mod read;
mod record;
mod write;

pub use link::{LinkType, Style};
pub use read::Reader;
pub use write::Writer;

use super::batch::Batch;
use super::port::{FramePort, Sent};
use super::Pool;
use crate::clock;
use std::io;
use std::os::fd::RawFd;

/// A capture that is read.
pub struct CaptureInput(pub Reader);

impl FramePort for CaptureInput {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, until: u64) -> io::Result<()> {
        let mut first = None;
        while into.room() > 0 {
            let Some(next) = self.0.peek() else { break };
            let begin = *first.get_or_insert(next.time);
            if next.time > until || next.time.abs_diff(begin) > super::port::APART_NS {
                break;
            }
            let Some((buf, mut frame)) = pool.store(self.0.bytes(&next)) else { break };
            (frame.time, frame.wire) = (next.time, next.wire.max(frame.n));
            into.push(buf, frame);
            self.0.advance();
        }
        match self.0.failure() {
            Some(e) => Err(io::Error::new(io::ErrorKind::InvalidData, e)),
            None => Ok(()),
        }
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        batch.release(pool);
        Sent::default()
    }

    fn ended(&self) -> bool {
        self.0.ended()
    }

    fn is_capture(&self) -> bool {
        true
    }

    fn next_time(&mut self) -> Option<u64> {
        self.0.peek().map(|n| n.time)
    }

    fn fd(&self) -> Option<RawFd> {
        self.0.waits_for()
    }
}

/// A capture that is written. Frames have the times of captures, or of [`clock`]: then the file has
/// the time of day, also if that was set meanwhile.
pub struct Output {
    pub writer: Writer,
    pub live: bool,
}

impl FramePort for Output {
    fn receive(&mut self, _: &mut Pool, _: &mut Batch, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let ahead = if self.live { clock::lead_of_day() } else { 0 };
        let sent = batch.frames.iter().fold(Sent::default(), |sent, f| {
            sent.and(f, self.writer.frame(super::batch::bytes(f), f.time.wrapping_add(ahead), f.wire))
        });
        batch.release(pool);
        sent
    }

    fn ended(&self) -> bool {
        true
    }

    fn tend(&mut self, _: &mut Pool) {
        self.writer.write_out();
    }

    fn finish(&mut self, _: &mut Pool) -> io::Result<()> {
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests;
