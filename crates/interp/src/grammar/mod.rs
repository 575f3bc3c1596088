//! Parsing by the units' grammars, resumable as `wireloom.h` requires.
//!
//! In: bytes of a message's beginning (`parse`) or of its tail (`tail`) and a [`View`]. Out: the
//! ABI's answers. Every call parses the head again from its first byte. That is simple, and bounded
//! by calls × head size. The tail is a flat program ([`tail`], [`machine`]) whose state lies in the
//! view. A handler that reads a message parses it once more from its base.

mod kept;
pub mod machine;
pub mod parse;
pub mod scan;
pub mod tail;
pub mod tree;
mod units;
pub mod view;

pub use units::{args, pack, Grammar};
pub use view::View;

use crate::env::{Env, Seen};
use crate::value::Value;
use crate::INTERNAL;
use machine::{Machine, State, Step};
use parse::{Halt, Parser};
use tree::Node;
use view::{Extra, Lookahead, PC_DONE, PC_HEAD, PC_RECOVER_LENGTH, PC_RECOVER_UNTIL, PC_TAIL};
use wireloom_ir::*;
use wireloom_runtime::abi::*;

/// The flags of [`Protocol::request_clauses`] and [`Protocol::response_clauses`].
const REQUEST_FLAGS: [u32; 9] = [
    WL_M_CLOSE,
    WL_M_NO_REPLY,
    WL_M_ALONE,
    WL_M_REPEAT,
    WL_M_PRIVATE,
    WL_M_CHUNKS,
    WL_M_EXPECTS,
    WL_M_OWES,
    WL_M_UNFINISHED,
];
const RESPONSE_FLAGS: [u32; 10] = [
    WL_M_CLOSE,
    WL_M_INTERIM,
    WL_M_TUNNEL,
    WL_M_REFUSAL,
    WL_M_STRAY,
    WL_M_PRIVATE,
    WL_M_CHUNKS,
    WL_M_IDLE,
    WL_M_RESET,
    WL_M_SETTLES,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    More,
    Head,
    Whole,
    Bad,
}

impl Grammar {
    // ---- the head ----

    pub fn parse(&self, unit: UnitId, v: &mut View, buf: &[u8], eof: bool) -> Answer {
        let def = self.module.unit(unit);
        if let (Err(why), true) = (&self.programs[unit.index()], def.streams) {
            return self.internal(v, why);
        }
        let args = self.args(unit, v.parser.ctx);
        let mut p = Parser { stop: self.stop(unit), ..self.parser(buf, eof) };
        v.parser.flags = 0;
        let node = match p.message(unit, def, args) {
            Ok(node) => node,
            Err(halt) => {
                v.extra = Extra::default();
                if let Some(r) = &p.recovery {
                    machine::set_recovery(&mut v.extra, r, &self.recovers, 0);
                }
                return self.halted(v, halt, p.recovery_at, buf.len(), eof);
            }
        };
        let head = p.ended.unwrap_or(node.end);
        v.parser.head = head as u32;
        v.parser.pos = head as u32;
        let ahead = Lookahead::of(&buf[head.min(buf.len())..], eof);
        v.extra = Extra { total: head as u64, ahead, after: ahead, ..Extra::default() };
        if let Some(r) = &p.recovery {
            machine::set_recovery(&mut v.extra, r, &self.recovers, 0);
        }
        match self.facts(unit, &node, buf, v.parser.ctx) {
            Ok(flags) => v.parser.flags = flags | ends(p.until_eof, p.ends),
            Err(why) => return self.internal(v, &why),
        }
        if p.ended.is_none() {
            v.parser.pc = PC_DONE;
            return Answer::Whole;
        }
        self.begin_tail(unit, v, &node, buf, head)
    }

    /// The values that an expression of the grammar can refer to.
    pub fn env<'a>(&'a self, seen: Seen<'a>) -> Env<'a> {
        Env { functions: Some(&self.functions), ..Env::grammar(&self.module, seen) }
    }

    /// A parser of these bytes. `eof`: no more follow.
    pub fn parser<'a>(&'a self, buf: &'a [u8], eof: bool) -> Parser<'a> {
        Parser { functions: Some(&self.functions), ..Parser::new(&self.module, buf, eof) }
    }

    fn halted(&self, v: &mut View, halt: Halt, recovery_at: usize, n: usize, eof: bool) -> Answer {
        match halt {
            Halt::More(place) if eof => self.bad(v, FaultKind::TRUNCATED, place),
            Halt::More(_) => {
                v.parser.pc = PC_HEAD;
                v.parser.scan = n as u32;
                Answer::More
            }
            Halt::Fault { kind, place, at } => {
                // A delimiter is looked for from where `recover` stands.
                let from = if v.extra.recover == 1 { at } else { recovery_at };
                if !self.can_recover(v, kind, at as u64) {
                    return self.bad(v, kind, place);
                }
                self.begin_recovery(v, kind, place, from as u64);
                v.parser.head = from as u32;
                Answer::Head
            }
            Halt::Internal(why) => self.internal(v, &why),
        }
    }

    fn bad(&self, v: &mut View, kind: FaultKind, place: PlaceId) -> Answer {
        v.parser.fault = kind.0;
        v.parser.place = place.0;
        Answer::Bad
    }

    fn internal(&self, v: &mut View, why: &str) -> Answer {
        crate::note_internal(why);
        self.bad(v, INTERNAL, PlaceId(0))
    }

    /// Whether the stream can get back in step after a fault at this position.
    fn can_recover(&self, v: &View, kind: FaultKind, at: u64) -> bool {
        let passed = v.extra.recover == 1 && v.extra.recover_at < at;
        v.extra.recover != 0 && !passed && kind != FaultKind::TRUNCATED && kind != INTERNAL
    }

    /// From here on `tail` skips, from position `from` on.
    fn begin_recovery(&self, v: &mut View, kind: FaultKind, place: PlaceId, from: u64) {
        self.bad(v, kind, place);
        v.parser.flags |= WL_M_IN_STEP;
        v.parser.pc = if v.extra.recover == 1 { PC_RECOVER_LENGTH } else { PC_RECOVER_UNTIL };
        v.parser.left = if v.extra.recover == 1 { v.extra.recover_at.saturating_sub(from) } else { 0 };
    }

    /// Starts the tail program: replays the head through it and goes on as far as no bytes are
    /// needed.
    fn begin_tail(&self, unit: UnitId, v: &mut View, node: &Node, buf: &[u8], head: usize) -> Answer {
        let def = self.module.unit(unit);
        let Some(program) = self.program(unit) else { return self.internal(v, "a tail without a program") };
        let mut s = State {
            pc: 0,
            left: 0,
            extra: v.extra,
            slots: vec![Value::Unit; program.slots.len()],
            until_eof: false,
            ends: false,
            omit: false,
            items: None,
        };
        machine::capture(&self.env(Seen { node, buf }), &program.captures[tail::HEAD], &mut s.slots);
        let mut pos = def.body[..def.tail as usize].last().and_then(|f| node.field(*f)).map_or(0, |f| f.next);
        s.extra.total = pos as u64;
        let m = self.machine(program, buf, false, &node.args, true);
        let step = m.run(&mut s, &mut pos);
        s.extra.from = s.extra.total;
        if !matches!(step, Step::Begin) || pos != head {
            return self.internal(v, &format!("{}: the tail program lost the head: {step:?}", def.name));
        }
        v.parser.flags |= ends(s.until_eof, s.ends);
        v.parser.pc = PC_TAIL;
        self.save(v, s);
        Answer::Head
    }

    fn machine<'a>(
        &'a self,
        program: &'a tail::Program,
        buf: &'a [u8],
        eof: bool,
        args: &'a [Value],
        in_head: bool,
    ) -> Machine<'a> {
        Machine {
            module: &self.module,
            functions: &self.functions,
            program,
            buf,
            eof,
            args,
            in_head,
            recovers: &self.recovers,
        }
    }

    fn save(&self, v: &mut View, s: State) {
        v.parser.left = s.left;
        v.parser.pos = s.extra.total as u32;
        v.extra = Extra { pc: s.pc as u32, ..s.extra };
        v.slots = s.slots;
    }

    /// `WL_M_*` by the clauses of the protocols that the message belongs to.
    fn facts(&self, unit: UnitId, node: &Node, buf: &[u8], ctx: u64) -> Result<u32, String> {
        let response = ctx & WL_CTX_RESPONSE != 0;
        let own = |p: &&Protocol| if response { p.response == Some(unit) } else { p.request == unit };
        let env = self.env(Seen { node, buf });
        let mut flags = 0;
        for p in self.module.protocols.iter().filter(own) {
            let (of_request, of_response) = (p.request_clauses(), p.response_clauses());
            let (clauses, names): (&[Option<&Expr>], &[u32]) = match response {
                true => (&of_response, &RESPONSE_FLAGS),
                false => (&of_request, &REQUEST_FLAGS),
            };
            for (&when, &flag) in clauses.iter().zip(names) {
                if let Some(when) = when {
                    flags |= if env.truth(when).map_err(|s| format!("{s:?}"))? { flag } else { 0 };
                }
            }
        }
        Ok(flags)
    }

    // ---- the tail ----

    /// Answers how many bytes belong to the message.
    pub fn tail(&self, unit: UnitId, v: &mut View, buf: &[u8], eof: bool) -> (Answer, usize) {
        match v.parser.pc {
            PC_RECOVER_UNTIL => self.skip_until(v, buf, eof),
            PC_RECOVER_LENGTH => self.skip_length(v, buf, eof),
            PC_TAIL => self.tail_on(unit, v, buf, eof),
            _ => (Answer::Whole, 0),
        }
    }

    fn skip_length(&self, v: &mut View, buf: &[u8], eof: bool) -> (Answer, usize) {
        let n = (buf.len() as u64).min(v.parser.left);
        v.parser.left -= n;
        match (v.parser.left, eof) {
            (0, _) => (Answer::Bad, n as usize),
            (_, false) => (Answer::More, n as usize),
            (_, true) => self.lost_step(v, n as usize),
        }
    }

    fn skip_until(&self, v: &mut View, buf: &[u8], eof: bool) -> (Answer, usize) {
        let Some(u) = (v.extra.recover as usize).checked_sub(2).and_then(|i| self.recovers.get(i)) else {
            return self.lost_step(v, 0);
        };
        // Bytes in front of the field at fault, which were held.
        let held = v.parser.left.min(buf.len() as u64) as usize;
        v.parser.left -= held as u64;
        match scan::delimiter(&buf[held..], &u.delimiters, usize::MAX, None, false) {
            scan::DelimiterSearch::At(n, delimiter) => (Answer::Bad, held + n + delimiter),
            scan::DelimiterSearch::More(n) if !eof => (Answer::More, held + n),
            _ => self.lost_step(v, buf.len()),
        }
    }

    /// The connection ended before the stream was back in step.
    fn lost_step(&self, v: &mut View, used: usize) -> (Answer, usize) {
        v.parser.flags &= !WL_M_IN_STEP;
        v.parser.left = 0;
        (Answer::Bad, used)
    }

    fn tail_on(&self, unit: UnitId, v: &mut View, buf: &[u8], eof: bool) -> (Answer, usize) {
        let Some(program) = self.program(unit) else { return (self.internal(v, "a tail without a program"), 0) };
        let args = self.args(unit, v.parser.ctx);
        let slots = std::mem::take(&mut v.slots);
        let mut s = State {
            pc: v.extra.pc as usize,
            left: v.parser.left,
            extra: v.extra,
            slots,
            until_eof: false,
            ends: false,
            omit: v.parser.flags & WL_M_OMIT != 0,
            items: items(v.parser.flags),
        };
        let m = self.machine(program, buf, eof, &args, false);
        // The bytes of a run that the runtime has passed on by itself.
        let alone = s.extra.left.saturating_sub(s.left);
        s.extra.left = s.left;
        s.extra.total += alone;
        s.extra.from += alone;
        let first = s.extra.from;
        let mut pos = (s.extra.total - first) as usize;
        if pos > buf.len() {
            return (self.internal(v, "held bytes were not given again"), 0);
        }
        let step = m.run(&mut s, &mut pos);
        let pos = pos.min(buf.len());
        let used = ((s.extra.from - first) as usize).min(buf.len());
        if matches!(step, Step::End) {
            s.extra.after = Lookahead::of(&buf[pos..], eof);
        }
        v.parser.flags |= ends(s.until_eof, s.ends);
        v.parser.flags = v.parser.flags & !WL_M_OMIT | if s.omit { WL_M_OMIT } else { 0 };
        if let Some((number, sign)) = s.items {
            v.parser.flags &= !(WL_M_ITEM_MASK | WL_M_BORDER);
            v.parser.flags |= number * WL_M_ITEM;
            v.parser.flags |= if sign { WL_M_BORDER } else { 0 };
        }
        self.save(v, s);
        match step {
            Step::End => {
                v.parser.pc = PC_DONE;
                (Answer::Whole, used)
            }
            Step::More | Step::Begin | Step::Cut => (Answer::More, used),
            Step::Fault { kind, place } if self.can_recover(v, kind, v.extra.total) => {
                self.begin_recovery(v, kind, place, v.extra.total);
                // Held bytes are dropped with the rest.
                v.parser.left += v.extra.total - v.extra.from;
                if v.parser.flags & WL_M_OMIT == 0 {
                    v.parser.flags |= WL_M_OMIT;
                    return (Answer::More, used);
                }
                let (answer, more) = self.tail(unit, v, &buf[used..], eof);
                (answer, used + more)
            }
            Step::Fault { kind, place } => (self.bad(v, kind, place), used),
            Step::Internal(why) => (self.internal(v, &why), used),
        }
    }

    // ---- reading a message that was parsed before ----

    /// The tree of a message of which `bytes` are its head, or all of it, and what follows; `eof`:
    /// nothing more does.
    pub fn read(&self, unit: UnitId, bytes: &[u8], ctx: u64, eof: bool, whole: bool) -> Result<Node, String> {
        let def = self.module.unit(unit);
        let stop = if whole { None } else { self.stop(unit) };
        let mut p = Parser { stop, ..self.parser(bytes, eof) };
        let args = self.args(unit, ctx);
        p.message(unit, def, args).map_err(|h| format!("{}: read back: {h:?}", def.name))
    }
}

/// Of a message whose items have a handler: the number of the stream at hand, and the sign that
/// changes at each border.
fn items(flags: u32) -> Option<(u32, bool)> {
    (flags & WL_M_ITEMS != 0).then_some(((flags & WL_M_ITEM_MASK) / WL_M_ITEM, flags & WL_M_BORDER != 0))
}

/// The facts about a message's end that its fields say.
fn ends(until_eof: bool, ends: bool) -> u32 {
    (if until_eof { WL_M_UNTIL_EOF } else { 0 }) | (if ends { WL_M_ENDS } else { 0 })
}
