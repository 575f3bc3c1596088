//! One input of a task: the source of its bytes, and the window in which the program sees them.

use super::pipe::{Block, Next, Pipe};
use super::socket::{self, Moved};
use crate::abi::wl_window;
use std::os::fd::RawFd;
use std::sync::Arc;

pub enum Source {
    /// A mapper: its number in the run, its socket, the bytes that back the window, and how its
    /// stream ends.
    Socket { number: usize, fd: RawFd, buffer: Box<[u8]>, end: EndMark },
    /// Another task. The window is a block of the pipe; `joined` backs it when a message began in
    /// an earlier block.
    Pipe { pipe: Arc<Pipe>, block: Option<Block>, joined: Vec<u8> },
}

/// The byte behind the last message (0: none is asked for). The last byte received may be it, so it
/// is kept out of the window until another follows.
#[derive(Clone, Copy, Default)]
pub struct EndMark {
    pub byte: u8,
    pub kept: bool,
}

pub struct Input {
    pub source: Source,
    /// Polled for being broken while another input is waited for. Off when there is no room to read
    /// on.
    pub watched: bool,
}

/// What came of asking for more.
pub enum Filled {
    More(usize),
    End,
    Later,
    /// The stream has ended without its end mark.
    Cut,
    Broken(std::io::Error),
}

impl Input {
    pub fn new(source: Source) -> Input {
        let watched = matches!(source, Source::Socket { .. });
        Input { source, watched }
    }

    /// Gets more bytes into the window, whose used part is dropped. Later: they are not there yet.
    pub fn fill(&mut self, w: &mut wl_window) -> Filled {
        let filled = match &mut self.source {
            Source::Socket { fd, buffer, end, .. } => receive(*fd, buffer, end, w),
            Source::Pipe { pipe, block, joined } => take(pipe, block, joined, w),
        };
        if matches!(filled, Filled::End) {
            w.eof = 1;
            self.watched = false;
        }
        filled
    }

    /// Whether `fill` can add bytes: a window is never larger than its buffer.
    pub fn has_room(&self, w: &wl_window) -> bool {
        match &self.source {
            Source::Socket { buffer, end, .. } => ((w.n - w.pos) as usize) + usize::from(end.kept) < buffer.len(),
            Source::Pipe { .. } => true,
        }
    }

    /// The memory to use again, once the window is no longer looked at.
    pub fn into_buffer(self) -> Option<Box<[u8]>> {
        match self.source {
            Source::Socket { buffer, .. } => Some(buffer),
            Source::Pipe { pipe, block, .. } => {
                if let Some(b) = block {
                    pipe.give_empty(b.bytes);
                }
                None
            }
        }
    }
}

fn receive(fd: RawFd, buffer: &mut [u8], end: &mut EndMark, w: &mut wl_window) -> Filled {
    let kept = usize::from(end.kept);
    let (from, to) = (w.pos as usize, w.n as usize + kept);
    buffer.copy_within(from..to, 0);
    let have = to - from;
    (w.pos, w.n) = (0, (have - kept) as u32);
    w.buf = buffer.as_ptr();
    if have == buffer.len() {
        // The program wants more than a message can measure.
        return Filled::Broken(std::io::Error::other("a message is larger than the window"));
    }
    match socket::receive(fd, &mut buffer[have..], 0) {
        Moved::Bytes(n) => {
            w.buf = buffer.as_ptr();
            end.kept = end.byte != 0;
            w.n = (have + n - usize::from(end.kept)) as u32;
            Filled::More(n)
        }
        Moved::End if end.byte != 0 && !(end.kept && buffer[have - 1] == end.byte) => Filled::Cut,
        Moved::End => Filled::End,
        Moved::Blocked => Filled::Later,
        Moved::Broken(e) => Filled::Broken(e),
    }
}

fn take(pipe: &Pipe, held: &mut Option<Block>, joined: &mut Vec<u8>, w: &mut wl_window) -> Filled {
    let next = match pipe.next() {
        Next::Block(b) => b,
        Next::Later => return Filled::Later,
        Next::End => return Filled::End,
    };
    let n = next.len;
    // Blocks hold whole messages, so a rest is rare: a grammar that looks beyond its message.
    if w.pos < w.n {
        let (from, to) = (w.pos as usize, w.n as usize);
        let mut both = match held.take() {
            Some(b) => {
                let rest = b.bytes[from..to].to_vec();
                pipe.give_empty(b.bytes);
                rest
            }
            None => joined[from..to].to_vec(),
        };
        both.extend_from_slice(&next.bytes[..n]);
        *joined = both;
        pipe.give_empty(next.bytes);
        (w.buf, w.n) = (joined.as_ptr(), joined.len() as u32);
    } else {
        if let Some(b) = held.take() {
            pipe.give_empty(b.bytes);
        }
        (w.buf, w.n) = (next.bytes.as_ptr(), n as u32);
        *held = Some(next);
    }
    w.pos = 0;
    Filled::More(n)
}
