//! One input of a task: the source of its bytes, and the window in which the program sees them.

use super::nodes::{Nodes, WindowState};
use super::pipe::{Block, Pipe, PipeRead};
use super::socket::{self, Transferred};
use super::Fault;
use crate::abi::wl_window;
use std::os::fd::RawFd;
use std::sync::Arc;

pub enum Source {
    /// A mapper: its number in the run, its socket, the bytes that back the window, how its stream
    /// ends, and the nodes before the merge.
    Socket { number: usize, fd: RawFd, buffer: Box<[u8]>, end: EndMark, before: Option<Before> },
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

/// A mapper's messages run through nodes. `raw` is the window of its bytes, and the merge sees the
/// messages that the nodes have sent.
pub struct Before {
    pub handler: u32,
    raw: wl_window,
    view: WindowState,
    out: Vec<u8>,
    /// Messages handled, and how many of them have been counted.
    pub handled: u64,
    counted: u64,
}

// SAFETY: the window names the buffer of the same input, which goes along.
unsafe impl Send for Before {}

/// Bytes that nodes have sent beyond which they wait for the merge.
const SENT_MAX: usize = 64 << 10;

impl Before {
    pub fn new(handler: u32, nodes: &Nodes) -> Before {
        let raw = wl_window::default();
        Before { handler, raw, view: nodes.view(), out: Vec::new(), handled: 0, counted: 0 }
    }

    /// As `receive` does for other mappers. More of nothing: ask again.
    fn fill(
        &mut self,
        nodes: &mut Nodes,
        w: &mut wl_window,
        receive: impl FnOnce(&mut wl_window) -> Filled,
    ) -> Result<Filled, Fault> {
        self.out.drain(..w.pos as usize);
        let before = self.out.len();
        let mut handled = self.handle(nodes);
        let mut filled = Filled::More(0);
        if handled.is_ok() && self.out.len() == before {
            filled = if self.raw.eof != 0 { Filled::End } else { receive(&mut self.raw) };
            if matches!(filled, Filled::End) && self.raw.eof == 0 {
                self.raw.eof = 1;
                filled = Filled::More(0);
            }
            if matches!(filled, Filled::More(_)) {
                handled = self.handle(nodes);
            }
        }
        (w.buf, w.pos, w.n) = (self.out.as_ptr(), 0, self.out.len() as u32);
        handled.map(|()| filled)
    }

    fn handle(&mut self, nodes: &mut Nodes) -> Result<(), Fault> {
        let done = nodes.run(self.handler, &mut self.raw, &mut self.view, (&mut self.out, SENT_MAX));
        self.handled += u64::from(std::mem::take(&mut self.raw.messages));
        done.map(drop)
    }
}

pub struct Input {
    pub source: Source,
    /// Polled for being broken while another input is waited for. Off when there is no room to read
    /// on.
    pub watched: bool,
}

/// The result of a read.
pub enum Filled {
    More(usize),
    End,
    Later,
    /// The stream has ended without its end mark.
    Cut,
    Broken(std::io::Error),
    /// The nodes cannot handle a message.
    Bad(Fault),
}

impl Input {
    pub fn new(source: Source) -> Input {
        let watched = matches!(source, Source::Socket { .. });
        Input { source, watched }
    }

    /// Gets more bytes into the window, whose used part is dropped. Later: they are not there yet.
    pub fn fill(&mut self, w: &mut wl_window, nodes: Option<&mut Nodes>) -> Filled {
        let filled = match &mut self.source {
            Source::Socket { fd, buffer, end, before, .. } => match (before, nodes) {
                (Some(b), Some(nodes)) => {
                    b.fill(nodes, w, |raw| receive(*fd, buffer, end, raw)).unwrap_or_else(Filled::Bad)
                }
                _ => receive(*fd, buffer, end, w),
            },
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
            Source::Socket { buffer, end, before, .. } => {
                let waits = |w: &wl_window| (w.n - w.pos) as usize;
                let of_nodes = before.as_ref().is_none_or(|_| waits(w) < SENT_MAX);
                of_nodes && waits(before.as_ref().map_or(w, |b| &b.raw)) + usize::from(end.kept) < buffer.len()
            }
            Source::Pipe { .. } => true,
        }
    }

    /// The nodes in front of the merge, of a mapper that has them.
    pub fn before(&self) -> Option<&Before> {
        match &self.source {
            Source::Socket { before, .. } => before.as_ref(),
            Source::Pipe { .. } => None,
        }
    }

    /// Messages of a mapper since the last call, of which the merge has taken `merged`.
    pub fn take_messages(&mut self, merged: u32) -> u64 {
        match &mut self.source {
            Source::Socket { before: Some(b), .. } => b.handled - std::mem::replace(&mut b.counted, b.handled),
            Source::Socket { .. } => u64::from(merged),
            Source::Pipe { .. } => 0,
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
        Transferred::Bytes(n) => {
            w.buf = buffer.as_ptr();
            end.kept = end.byte != 0;
            w.n = (have + n - usize::from(end.kept)) as u32;
            Filled::More(n)
        }
        Transferred::End if end.byte != 0 && !(end.kept && buffer[have - 1] == end.byte) => Filled::Cut,
        Transferred::End => Filled::End,
        Transferred::Blocked => Filled::Later,
        Transferred::Broken(e) => Filled::Broken(e),
    }
}

fn take(pipe: &Pipe, held: &mut Option<Block>, joined: &mut Vec<u8>, w: &mut wl_window) -> Filled {
    let next = match pipe.next() {
        PipeRead::Block(b) => b,
        PipeRead::Later => return Filled::Later,
        PipeRead::End => return Filled::End,
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
