//! Capture files. In: pcap (microseconds or nanoseconds, either byte order) and pcapng, plain or
//! compressed by gzip or zstd. Out: frames with their own times; and the same formats written.
//!
//! `read` finds the frames in a window of the file. `ng` knows the blocks of pcapng. `write` is the
//! other direction. A damaged capture ends with an error that names the place. The frames before
//! the damage have been handled.

mod ng;
mod read;
mod record;
mod write;

pub use read::Reader;
pub use write::Writer;

use super::port::{Batch, FramePort, Sent};
use super::Pool;
use std::io;
use std::os::fd::RawFd;

/// Others that captures often have.
const LINKS: [(u32, &str); 7] = [
    (0, "BSD loopback"),
    (105, "802.11"),
    (108, "OpenBSD loopback"),
    (113, "Linux cooked, as of tcpdump -i any"),
    (127, "802.11 with radiotap"),
    (195, "802.15.4"),
    (276, "Linux cooked v2, as of tcpdump -i any"),
];

/// The first header of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    /// IPv4 or IPv6, told by the first four bits.
    Ip,
}

/// The message about an unsupported link type begins with this.
pub(super) const OTHER_LINK: &str = "link type ";

impl Link {
    /// By its number in a file.
    fn of(number: u32) -> Result<Link, String> {
        match number & 0xffff {
            1 => Ok(Link::Ethernet),
            12 | 14 | 101 | 228 | 229 => Ok(Link::Ip),
            n => {
                let name = LINKS.iter().find(|l| l.0 == n).map_or(String::new(), |l| format!(" ({})", l.1));
                Err(format!("{OTHER_LINK}{n}{name} is not supported: only Ethernet (1) and raw IP (101, 228, 229)"))
            }
        }
    }
    fn number(self) -> u16 {
        match self {
            Link::Ethernet => 1,
            Link::Ip => 101,
        }
    }
}

/// How a capture is written: as the first one that is read, so that unchanged frames are written
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub link: Link,
    pub nanos: bool,
    pub snap: u32,
}

impl Default for Style {
    fn default() -> Self {
        Style { link: Link::Ethernet, nanos: true, snap: super::pool::FRAME_MAX as u32 }
    }
}

/// A capture that is read.
pub struct Input(pub Reader);

impl FramePort for Input {
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

/// A capture that is written.
pub struct Output(pub Writer);

impl FramePort for Output {
    fn receive(&mut self, _: &mut Pool, _: &mut Batch, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let sent = batch
            .frames
            .iter()
            .fold(Sent::default(), |sent, f| sent.and(f, self.0.frame(super::port::bytes(f), f.time, f.wire)));
        batch.release(pool);
        sent
    }

    fn ended(&self) -> bool {
        true
    }

    fn tend(&mut self, _: &mut Pool) {
        self.0.write_out();
    }

    fn finish(&mut self, _: &mut Pool) -> io::Result<()> {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests;
