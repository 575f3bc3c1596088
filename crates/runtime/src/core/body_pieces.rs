//! The streamed bytes of a message, found among its framing.
//!
//! In: a message behind its head, as its bytes arrive. Out: where its streamed bytes lie. The
//! parser tells how long a run of them is when it has read all before the run, and no byte of it.
//! So framing is given to the parser one byte more at a time.

use super::Raw;
use crate::abi::*;
use crate::program::{Unit, Verdict};

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
    /// Bytes behind the accepted ones that the parser has read.
    seen: usize,
    /// Bytes that are counted as held at the port.
    pub(super) counted: usize,
}

impl HeldBody {
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.omitted.clear();
        (self.data, self.framing, self.seen, self.counted) = (0, 0, 0, 0);
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
        let (view, eof) = (found.view, found.eof);
        let mut off = 0;
        loop {
            // SAFETY: the caller's view is live.
            let v = unsafe { &mut *view };
            let omits = v.flags & WL_M_OMIT;
            if v.left > 0 {
                if self.data.saturating_add(v.left) > limit {
                    return (Outcome::Passes, off);
                }
                let k = v.left.min((rest.n - off) as u64) as usize;
                self.add(at + off, k, true, omits != 0);
                v.left -= k as u64;
                (off, self.seen) = (off + k, 0);
                if v.left > 0 && !eof {
                    return (Outcome::More, off);
                }
            }
            let (all, endless) = (rest.n - off, v.flags & WL_M_UNTIL_EOF != 0);
            let n = if endless { all } else { self.seen.min(all) };
            let next = rest.from(off);
            // SAFETY: view and bytes are live.
            let (verdict, used) = unsafe { unit.tail(view, next.p, n.min(u32::MAX as usize) as u32, eof && n == all) };
            let used = used as usize;
            self.add(at + off, used, endless, omits != 0);
            off += used;
            match verdict {
                Verdict::Whole if self.data <= limit => return (Outcome::Whole, off),
                Verdict::Bad => return (Outcome::Bad, off),
                Verdict::More | Verdict::Head | Verdict::Whole => {}
            }
            // SAFETY: as above.
            let v = unsafe { &mut *view };
            if verdict == Verdict::Whole || self.data > limit || self.framing > limit + FRAMING {
                return (Outcome::Passes, off);
            }
            if v.left > 0 {
                continue;
            }
            self.seen = n - used;
            if v.flags & WL_M_OMIT != omits {
                continue;
            }
            if n == all {
                if eof {
                    v.fault = WL_F_TRUNCATED as u16;
                    return (Outcome::Bad, off);
                }
                return (Outcome::More, off);
            }
            self.seen += 1;
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

fn lengthen(list: &mut Vec<(u32, u32)>, at: usize, n: usize) {
    match list.last_mut() {
        _ if n == 0 => {}
        Some((start, len)) if (*start + *len) as usize == at => *len += n as u32,
        _ => list.push((at as u32, n as u32)),
    }
}
