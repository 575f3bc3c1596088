//! A message that is held: where its streamed bytes lie among its framing.
//!
//! In: a message behind its head, as its bytes arrive. Out: whether it is complete, and where its
//! streamed bytes lie.

use super::Raw;
use crate::abi::*;
use crate::program::{Unit, Verdict};
use crate::splitter::{End, Splitter, TailParser};

/// Framing that is held beside as many streamed bytes as a port allows.
const FRAMING: u64 = 4 << 10;

/// A message whose head has been found, on its connection.
#[derive(Clone, Copy)]
pub(super) struct HeadFound {
    pub view: *mut wl_parser,
    /// Whether the view lies in the connection.
    pub saved: bool,
    pub head: usize,
    pub tail_used: usize,
    pub eof: bool,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Whole,
    More,
    Bad,
    /// It is too long: it streams.
    Passes,
}

#[derive(Default)]
pub struct HeldBody {
    /// Offsets from the message's first byte, and lengths; and of bytes that are not passed on.
    pieces: Vec<(u32, u32)>,
    omitted: Vec<(u32, u32)>,
    data: u64,
    framing: u64,
    split: Splitter,
    /// The client has been told to send the rest.
    pub(super) told: bool,
    /// Bytes that are counted as held at the port.
    pub(super) counted: usize,
}

impl HeldBody {
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.omitted.clear();
        (self.data, self.framing, self.counted) = (0, 0, 0);
        (self.split, self.told) = (Splitter::default(), false);
    }

    /// Bytes of the message: `data` are streamed ones.
    fn add(&mut self, at: usize, n: usize, data: bool, omitted: bool) {
        if data {
            self.data += n as u64;
            lengthen(&mut self.pieces, at, n);
        } else {
            self.framing += n as u64;
        }
        if omitted {
            lengthen(&mut self.omitted, at, n);
        }
    }

    /// Goes on with the bytes behind those that were accepted; `at`: their offset in the message.
    /// Answers how many more are accepted.
    pub(super) fn run(&mut self, unit: Unit, found: HeadFound, rest: Raw, at: usize, limit: u64) -> (Outcome, usize) {
        let mut tail = UnitTail { unit, view: found.view };
        // SAFETY: the caller's bytes are in place.
        let bytes = unsafe { rest.slice() };
        let mut off = 0;
        loop {
            if self.data.saturating_add(tail.state().left) > limit {
                return (Outcome::Passes, off);
            }
            let run = self.split.next(&mut tail, &bytes[off..], found.eof);
            self.add(at + off, run.used, run.streamed, run.omitted);
            off += run.used;
            let fits = self.data <= limit;
            match run.end {
                Some(End::Whole) if fits => return (Outcome::Whole, off),
                Some(End::Bad) => return (Outcome::Bad, off),
                Some(End::Whole) => return (Outcome::Passes, off),
                Some(End::More) | None if !fits || self.framing > limit + FRAMING => return (Outcome::Passes, off),
                Some(End::More) => return (Outcome::More, off),
                None => {}
            }
        }
    }

    /// The message without the bytes that are not passed on, in `to`. None: there are none.
    pub(super) fn passed(&self, message: Raw, to: &mut Vec<u8>) -> Option<Raw> {
        if self.omitted.is_empty() {
            return None;
        }
        to.clear();
        // SAFETY: the caller's message is in place.
        let bytes = unsafe { message.slice() };
        let mut from = 0;
        for (at, n) in &self.omitted {
            to.extend_from_slice(&bytes[from..*at as usize]);
            from = (*at + *n) as usize;
        }
        to.extend_from_slice(&bytes[from..]);
        Some(Raw::of(to))
    }

    /// The streamed bytes of the message that begins with `message`: where they lie, or put
    /// together in `to`.
    pub(super) fn joined(&self, message: Raw, head: usize, to: &mut Vec<u8>) -> Raw {
        match self.pieces[..] {
            [] => message.from(head).none(),
            [(at, n)] => Raw { n: n as usize, ..message.from(at as usize) },
            _ => {
                to.clear();
                // SAFETY: the caller's message is in place.
                let bytes = unsafe { message.slice() };
                self.pieces.iter().for_each(|(at, n)| to.extend_from_slice(&bytes[*at as usize..][..*n as usize]));
                Raw::of(to)
            }
        }
    }
}

/// The tail of a message of the program's.
pub(super) struct UnitTail {
    pub unit: Unit,
    /// Live while this is used.
    pub view: *mut wl_parser,
}

impl TailParser for UnitTail {
    fn state(&mut self) -> &mut wl_parser {
        // SAFETY: the view is live, and used by nobody else meanwhile.
        unsafe { &mut *self.view }
    }

    fn read(&mut self, bytes: &[u8], eof: bool) -> (Verdict, usize) {
        let n = bytes.len().min(u32::MAX as usize) as u32;
        // SAFETY: view and bytes are live.
        let (verdict, used) = unsafe { self.unit.tail(self.view, bytes.as_ptr(), n, eof) };
        (verdict, used as usize)
    }
}

fn lengthen(list: &mut Vec<(u32, u32)>, at: usize, n: usize) {
    match list.last_mut() {
        _ if n == 0 => {}
        Some((start, len)) if (*start + *len) as usize == at => *len += n as u32,
        _ => list.push((at as u32, n as u32)),
    }
}
