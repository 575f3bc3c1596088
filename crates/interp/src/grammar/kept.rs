//! Messages that the program has kept as bytes, read again (`support/base.h`: `wl_parse_kept`).

use super::{Answer, Grammar, View};
use wireloom_ir::UnitId;
use wireloom_runtime::abi::*;

pub struct KeptMessage {
    /// Bytes of the message.
    pub whole: usize,
    /// Its streamed bytes, one piece behind the other.
    pub body: Vec<u8>,
    /// Only the end of the connection ends it.
    pub ends: bool,
}

impl Grammar {
    /// The message that some bytes begin with, if all of it is passed on. Framing is given to the
    /// parser one byte more at a time, so that it tells where streamed bytes begin.
    pub fn kept(&self, unit: UnitId, bytes: &[u8], ctx: u64) -> Option<KeptMessage> {
        let mut v =
            View { parser: wl_parser { ctx, ..wl_parser::default() }, extra: Default::default(), slots: Vec::new() };
        let mut answer = self.parse(unit, &mut v, bytes, true);
        let in_step = v.parser.flags & WL_M_IN_STEP != 0;
        if answer != Answer::Whole && (answer != Answer::Head || in_step) {
            return None;
        }
        let (mut at, mut seen, mut body) = (v.parser.head as usize, 0, Vec::new());
        while answer != Answer::Whole {
            if v.parser.left > 0 {
                let k = v.parser.left.min((bytes.len() - at) as u64) as usize;
                body.extend_from_slice(&bytes[at..at + k]);
                v.parser.left -= k as u64;
                (at, seen) = (at + k, 0);
                if v.parser.left > 0 {
                    return None;
                }
            }
            let (all, endless) = (bytes.len() - at, v.parser.flags & WL_M_UNTIL_EOF != 0);
            let n = if endless { all } else { all.min(seen) };
            let (next, used) = self.tail(unit, &mut v, &bytes[at..at + n], n == all);
            if endless {
                body.extend_from_slice(&bytes[at..at + used]);
            }
            (answer, at) = (next, at + used);
            let stuck = answer != Answer::Whole && v.parser.left == 0 && n == all;
            if answer == Answer::Bad || v.parser.flags & WL_M_OMIT != 0 || stuck {
                return None;
            }
            seen = if v.parser.left > 0 { 0 } else { n - used + 1 };
        }
        Some(KeptMessage { whole: at, body, ends: v.parser.flags & (WL_M_UNTIL_EOF | WL_M_ENDS) != 0 })
    }
}
