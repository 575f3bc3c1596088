//! Messages that the program has kept as bytes, read again (`support/base.h`: `wl_parse_kept`).

use super::{Answer, Grammar, View};
use wireloom_ir::UnitId;
use wireloom_runtime::abi::*;
use wireloom_runtime::program::Verdict;
use wireloom_runtime::splitter::{End, Splitter, TailParser};

pub struct KeptMessage {
    /// Bytes of the message.
    pub whole: usize,
    /// Its streamed bytes, one piece behind the other.
    pub body: Vec<u8>,
    /// Only the end of the connection ends it.
    pub ends: bool,
}

impl Grammar {
    /// The message that some bytes begin with, if all of it is passed on.
    pub fn kept(&self, unit: UnitId, bytes: &[u8], ctx: u64) -> Option<KeptMessage> {
        let mut v =
            View { parser: wl_parser { ctx, ..wl_parser::default() }, extra: Default::default(), slots: Vec::new() };
        let mut answer = self.parse(unit, &mut v, bytes, true);
        let in_step = v.parser.flags & WL_M_IN_STEP != 0;
        if answer != Answer::Whole && (answer != Answer::Head || in_step) {
            return None;
        }
        let (mut at, mut body) = (v.parser.head as usize, Vec::new());
        let (mut tail, mut split) = (ReadTail { grammar: self, unit, view: &mut v }, Splitter::default());
        while answer != Answer::Whole {
            let run = split.next(&mut tail, &bytes[at..], true);
            if run.omitted {
                return None;
            }
            if run.streamed {
                body.extend_from_slice(&bytes[at..at + run.used]);
            }
            at += run.used;
            match run.end {
                Some(End::Whole) => answer = Answer::Whole,
                Some(End::Bad | End::More) => return None,
                None => {}
            }
        }
        Some(KeptMessage { whole: at, body, ends: v.parser.flags & (WL_M_UNTIL_EOF | WL_M_ENDS) != 0 })
    }
}

struct ReadTail<'a> {
    grammar: &'a Grammar,
    unit: UnitId,
    view: &'a mut View,
}

impl TailParser for ReadTail<'_> {
    fn state(&mut self) -> &mut wl_parser {
        &mut self.view.parser
    }

    fn read(&mut self, bytes: &[u8], eof: bool) -> (Verdict, usize) {
        let (answer, used) = self.grammar.tail(self.unit, self.view, bytes, eof);
        let verdict = match answer {
            Answer::More => Verdict::More,
            Answer::Head => Verdict::Head,
            Answer::Whole => Verdict::Whole,
            Answer::Bad => Verdict::Bad,
        };
        (verdict, used)
    }
}
