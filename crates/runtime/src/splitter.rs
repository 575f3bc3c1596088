//! The streamed bytes of a message, told from its framing.
//!
//! In: a message behind its head, as its bytes arrive. Out: runs of streamed bytes and of framing,
//! in their order. The parser tells how long a run of streamed bytes is when it has read all before
//! the run, and no byte of it. So framing is given to the parser one byte more at a time.

use crate::abi::*;
use crate::program::Verdict;

/// The parser of a message's tail.
pub trait TailParser {
    fn state(&mut self) -> &mut wl_parser;
    /// As `wl_unit.tail`: the result, and how many bytes are accepted.
    fn read(&mut self, bytes: &[u8], eof: bool) -> (Verdict, usize);
}

/// The first bytes behind those that were accepted.
pub struct FoundRun {
    pub used: usize,
    /// They are streamed bytes, else framing.
    pub streamed: bool,
    /// They are not passed on.
    pub omitted: bool,
    pub end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Of the message.
    Whole,
    Bad,
    /// Of the bytes that are there.
    More,
}

#[derive(Default)]
pub struct Splitter {
    /// Bytes behind the accepted ones that the parser has read.
    seen: usize,
}

impl Splitter {
    /// The next run of `rest`. `eof`: no bytes follow.
    pub fn next(&mut self, tail: &mut impl TailParser, rest: &[u8], eof: bool) -> FoundRun {
        let v = tail.state();
        let omit = v.flags & WL_M_OMIT;
        let run = |used, streamed, end| FoundRun { used, streamed, omitted: omit != 0, end };
        if v.left > 0 {
            let used = v.left.min(rest.len() as u64) as usize;
            if used > 0 {
                v.left -= used as u64;
                self.seen = 0;
                return run(used, true, None);
            }
            if !eof {
                return run(0, true, Some(End::More));
            }
        }
        let endless = v.flags & WL_M_UNTIL_EOF != 0;
        let n = if endless { rest.len() } else { self.seen.min(rest.len()) };
        let all = n == rest.len();
        let (verdict, used) = tail.read(&rest[..n], eof && all);
        self.seen = n - used;
        let v = tail.state();
        let end = match verdict {
            Verdict::Whole => Some(End::Whole),
            Verdict::Bad => Some(End::Bad),
            Verdict::More | Verdict::Head if v.left > 0 || v.flags & WL_M_OMIT != omit => None,
            Verdict::More | Verdict::Head if all && eof => {
                v.fault = WL_F_TRUNCATED as u16;
                Some(End::Bad)
            }
            Verdict::More | Verdict::Head if all => Some(End::More),
            Verdict::More | Verdict::Head => {
                self.seen += 1;
                None
            }
        };
        run(used, endless, end)
    }
}
