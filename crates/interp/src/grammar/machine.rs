//! Runs a tail program over the available bytes. Its whole memory is [`State`], which a view holds.

use super::parse::{stopped, Halt, Parser, Recovery};
use super::scan::{self, DelimiterSearch, Match};
use super::tail::{Captures, Program, Run, Slot, TailOp};
use super::tree::Node;
use super::view::Extra;
use crate::env::{Env, Seen};
use crate::exec::functions::Functions;
use crate::value::Value;
use wireloom_ir::*;

/// The state of a tail program in a view.
pub struct State {
    pub pc: usize,
    /// `wl_parser::left`.
    pub left: u64,
    pub extra: Extra,
    pub slots: Vec<Value>,
    /// Bytes have been reached that end where the connection ends.
    pub until_eof: bool,
    /// The bytes that are passed on end with the connection.
    pub ends: bool,
    /// The bytes that come next are not passed on.
    pub omit: bool,
    /// The borders of items are told: the number of the stream at hand, and a sign that changes at
    /// each.
    pub items: Option<(u32, bool)>,
}

/// How far a run of the machine came.
#[derive(Clone, Debug)]
pub enum Step {
    /// Bytes are needed. In the head everything starts anew with more; in the tail the used ones
    /// are gone.
    More,
    /// At the end of the head.
    Begin,
    /// From here on bytes are passed on and were not before, or the other way round; or an item of
    /// a stream begins or ends.
    Cut,
    End,
    Fault {
        kind: FaultKind,
        place: PlaceId,
    },
    Internal(String),
}

pub struct Machine<'a> {
    pub module: &'a Module,
    pub functions: &'a Functions,
    pub program: &'a Program,
    pub buf: &'a [u8],
    pub eof: bool,
    /// The message's own parameters.
    pub args: &'a [Value],
    /// Still in the head: [`Op::Begin`] stops.
    pub in_head: bool,
    /// All delimiters that a recovery may look for.
    pub recovers: &'a [Until],
}

type Run1 = Result<(), Step>;

impl From<Halt> for Step {
    fn from(h: Halt) -> Step {
        match h {
            Halt::More(_) => Step::More,
            Halt::Fault { kind, place, .. } => Step::Fault { kind, place },
            Halt::Internal(what) => Step::Internal(what),
        }
    }
}

/// Evaluates the captures of a segment. One that cannot be (it stands in a case that is not taken)
/// is left unset.
pub fn capture(env: &Env, captures: &Captures, slots: &mut [Value]) {
    for (slot, e) in captures {
        slots[*slot] = env.eval(e).unwrap_or(Value::Unit);
    }
}

impl Machine<'_> {
    /// Goes on until bytes are missing or the message ends. `pos`: the next byte of `buf`.
    pub fn run(&self, s: &mut State, pos: &mut usize) -> Step {
        loop {
            let Some(op) = self.program.ops.get(s.pc) else {
                return Step::Internal("tail program out of bounds".into());
            };
            match op {
                TailOp::End => return Step::End,
                TailOp::Begin { endless } if self.in_head => {
                    s.until_eof |= endless;
                    s.pc += 1;
                    return Step::Begin;
                }
                _ => {}
            }
            let before = *pos;
            let done = self.step(op, s, pos);
            s.extra.total += (*pos - before) as u64;
            // Bytes of a run are passed on as they come.
            if matches!((op, &done), (TailOp::Run(_), Ok(()) | Err(Step::More))) {
                s.extra.from = s.extra.total;
            }
            if let Err(step) = done {
                return match (step, self.eof, op) {
                    (Step::More, true, op) => {
                        Step::Fault { kind: FaultKind::TRUNCATED, place: place_of(op, self.program) }
                    }
                    (step, ..) => step,
                };
            }
        }
    }

    fn rest(&self, pos: usize) -> &[u8] {
        &self.buf[pos.min(self.buf.len())..]
    }

    fn eval(&self, s: &State, e: &Expr) -> Result<Value, Step> {
        let env = Env { functions: Some(self.functions), ..Env::plain(self.module, &s.slots) };
        env.eval(e).map_err(|x| Step::from(stopped(x, 0)))
    }

    fn step(&self, op: &TailOp, s: &mut State, pos: &mut usize) -> Run1 {
        let mut next = s.pc + 1;
        match op {
            TailOp::Segment { inst, field, segment } => self.segment(s, *inst, *field, *segment, pos)?,
            TailOp::Set(slot, e) => s.slots[*slot] = self.eval(s, e)?,
            TailOp::Jump(to) => next = *to,
            TailOp::Unless(cond, to) => match self.eval(s, cond)? {
                Value::Bool(true) => {}
                Value::Bool(false) => next = *to,
                _ => return Err(Step::Internal("a tail condition that is no bool".into())),
            },
            TailOp::Literal { values, peek, other, .. } => match scan::literal(self.rest(*pos), values, false) {
                Match::Yes(n) => *pos += if *peek { 0 } else { n },
                Match::No => next = *other,
                Match::More => return Err(Step::More),
            },
            TailOp::AtEnd { other, .. } => {
                s.until_eof = true;
                match (self.rest(*pos).is_empty(), self.eof) {
                    (true, true) => {}
                    (true, false) => return Err(Step::More),
                    _ => next = *other,
                }
            }
            TailOp::Run(r) => self.run_bytes(r, s, pos)?,
            TailOp::Border(number) => {
                if let Some((_, sign)) = s.items {
                    s.items = Some((*number, !sign));
                    s.pc = next;
                    return Err(Step::Cut);
                }
            }
            TailOp::Mark(slot) => s.slots[*slot] = Value::Int(s.extra.total as u128),
            TailOp::Align { to, start, .. } => {
                let over = s.extra.total.wrapping_sub(start_of(*start, &s.slots)) % (*to).max(1) as u64;
                let pad = if over == 0 { 0 } else { *to as usize - over as usize };
                if self.rest(*pos).len() < pad {
                    return Err(Step::More);
                }
                *pos += pad;
            }
            TailOp::Pass(e) => {
                let omit = !matches!(self.eval(s, e)?, Value::Bool(true));
                if !self.in_head && omit != (s.omit != (s.extra.cuts % 2 == 1)) {
                    if s.extra.total == s.extra.from {
                        s.omit = omit;
                        s.pc = next;
                        return Err(Step::Cut);
                    }
                    self.note_cut(s)?;
                }
            }
            TailOp::Commit => {
                if s.extra.cut < s.extra.cuts {
                    s.extra.from = self.cut(s, s.extra.cut)?;
                    s.extra.cut += 1;
                    s.omit = !s.omit;
                    return Err(Step::Cut);
                }
                (s.extra.cut, s.extra.cuts, s.extra.from) = (0, 0, s.extra.total);
            }
            TailOp::Fault { kind, place } => return Err(Step::Fault { kind: *kind, place: *place }),
            TailOp::Begin { .. } | TailOp::End => {}
        }
        s.pc = next;
        Ok(())
    }

    /// The place of a cut among held bytes.
    fn cut(&self, s: &State, n: u32) -> Result<u64, Step> {
        let slot = self.program.cuts.get(n as usize).and_then(|x| s.slots[*x].as_int());
        slot.map(|at| at as u64).ok_or_else(|| Step::Internal("a cut that was not noted".into()))
    }

    /// Bytes that are passed on and others meet here, if those before are accepted. Two cuts in one
    /// place are none.
    fn note_cut(&self, s: &mut State) -> Run1 {
        let at = s.extra.total;
        if s.extra.cuts > 0 && self.cut(s, s.extra.cuts - 1)? == at {
            s.extra.cuts -= 1;
            return Ok(());
        }
        let slot = self
            .program
            .cuts
            .get(s.extra.cuts as usize)
            .ok_or_else(|| Step::Internal("more cuts than places for them".into()))?;
        s.slots[*slot] = Value::Int(at as u128);
        s.extra.cuts += 1;
        Ok(())
    }

    fn segment(&self, s: &mut State, inst: usize, field: FieldId, segment: usize, pos: &mut usize) -> Run1 {
        let inst = &self.program.insts[inst];
        let args = match inst.params.is_empty() {
            true => self.args.to_vec(),
            false => inst.params.iter().map(|p| s.slots[*p].clone()).collect(),
        };
        let slots = std::mem::take(&mut s.slots);
        let mut parser =
            Parser { slots: &slots, functions: Some(self.functions), ..Parser::new(self.module, self.buf, self.eof) };
        // The unit's start may be gone; padding counts from it.
        let gone = s.extra.total.wrapping_sub(start_of(inst.start, &slots)) as usize;
        let mut node = Node::new(inst.id, &inst.def, pos.wrapping_sub(gone), args);
        let end = parser.field(&inst.def, &mut node, field, *pos);
        let recovery = parser.recovery;
        s.until_eof |= parser.until_eof;
        s.ends |= parser.ends;
        s.slots = slots;
        if let Some(r) = recovery {
            let origin = s.extra.total.wrapping_sub(*pos as u64);
            set_recovery(&mut s.extra, &r, self.recovers, origin);
        }
        // A fault inside of it stands where its innermost field begins.
        if let Err(Halt::Fault { at, .. }) = &end {
            *pos = *at;
        }
        *pos = end?;
        let seen = Env::grammar(self.module, Seen { node: &node, buf: self.buf });
        let env = Env { functions: Some(self.functions), ..seen };
        capture(&env, &self.program.captures[segment], &mut s.slots);
        Ok(())
    }

    // ---- runs ----

    fn run_bytes(&self, r: &Run, s: &mut State, pos: &mut usize) -> Run1 {
        let result = match &r.extent {
            Extent::Length(e) => self.run_length(r, e, s, pos),
            Extent::Until(u) => self.run_until(r, u, s, pos),
            Extent::Run => self.run_class(r, s, pos),
            Extent::ToEnd | Extent::Close => self.run_to_end(r, s, pos),
        };
        match &result {
            Ok(()) => {
                s.extra.in_run = 0;
                if let (Some(slot), false) = (r.length, matches!(r.extent, Extent::Length(_))) {
                    s.slots[slot] = Value::Int(s.extra.run as u128);
                }
            }
            Err(_) => s.extra.in_run = 1,
        }
        s.extra.left = s.left;
        result
    }

    fn run_length(&self, r: &Run, length: &Expr, s: &mut State, pos: &mut usize) -> Run1 {
        if s.extra.in_run == 0 {
            let n = self.eval(s, length)?.as_int().ok_or(Step::Internal("a length that is no integer".into()))?;
            if n > r.max as u128 {
                return Err(Step::Fault { kind: r.too_long, place: r.place });
            }
            if n < r.min as u128 {
                return Err(Step::Fault { kind: r.bad, place: r.place });
            }
            if let Some(slot) = r.length {
                s.slots[slot] = Value::Int(n);
            }
            // Bytes that need no look may be passed on by the runtime itself: it sees `left`.
            (s.left, s.extra.run) = if r.class.is_none() { (n as u64, 0) } else { (0, n as u64) };
        }
        let rest = self.rest(*pos);
        let todo = s.left + s.extra.run;
        let n = (rest.len() as u64).min(todo) as usize;
        self.check(r, &rest[..n], pos)?;
        if r.class.is_none() {
            s.left -= n as u64
        } else {
            s.extra.run -= n as u64
        }
        *pos += n;
        if (n as u64) < todo {
            Err(Step::More)
        } else {
            Ok(())
        }
    }

    /// A fault in a run's bytes is at the byte: earlier ones may be gone.
    fn check(&self, r: &Run, b: &[u8], pos: &mut usize) -> Run1 {
        match b.iter().position(|x| r.class.is_some_and(|c| !c.has(*x))) {
            Some(at) => {
                *pos += at;
                Err(Step::Fault { kind: r.bad, place: r.place })
            }
            None => Ok(()),
        }
    }

    fn begin_count(&self, s: &mut State) {
        if s.extra.in_run == 0 {
            s.extra.run = 0;
        }
    }

    /// How many bytes may still come.
    fn room(&self, r: &Run, s: &State) -> usize {
        usize::try_from(r.max.saturating_sub(s.extra.run)).unwrap_or(usize::MAX)
    }

    fn run_until(&self, r: &Run, u: &Until, s: &mut State, pos: &mut usize) -> Run1 {
        self.begin_count(s);
        let rest = self.rest(*pos);
        let room = self.room(r, s);
        match scan::delimiter(rest, &u.delimiters, room, r.class.as_ref(), false) {
            DelimiterSearch::At(n, _) if s.extra.run + (n as u64) < r.min => {
                Err(Step::Fault { kind: r.bad, place: r.place })
            }
            DelimiterSearch::At(n, delimiter) => {
                s.extra.run += n as u64;
                *pos += n + if u.peek { 0 } else { delimiter };
                Ok(())
            }
            DelimiterSearch::TooLong => {
                *pos += room;
                Err(Step::Fault { kind: r.too_long, place: r.place })
            }
            DelimiterSearch::Illegal(at) => {
                *pos += at;
                Err(Step::Fault { kind: r.bad, place: r.place })
            }
            DelimiterSearch::More(n) => {
                s.extra.run += n as u64;
                *pos += n;
                Err(Step::More)
            }
        }
    }

    fn run_class(&self, r: &Run, s: &mut State, pos: &mut usize) -> Run1 {
        self.begin_count(s);
        let rest = self.rest(*pos);
        let room = self.room(r, s);
        let n = rest.iter().take_while(|b| r.class.is_none_or(|c| c.has(**b))).count();
        s.extra.run += n.min(room) as u64;
        *pos += n.min(room);
        if n > room {
            return Err(Step::Fault { kind: r.too_long, place: r.place });
        }
        if n == rest.len() && !self.eof {
            return Err(Step::More);
        }
        if s.extra.run < r.min {
            Err(Step::Fault { kind: r.bad, place: r.place })
        } else {
            Ok(())
        }
    }

    fn run_to_end(&self, r: &Run, s: &mut State, pos: &mut usize) -> Run1 {
        self.begin_count(s);
        s.until_eof = true;
        let rest = self.rest(*pos);
        // One that is not allowed behind the last that may come is one too many.
        let n = rest.len().min(self.room(r, s));
        self.check(r, &rest[..n], pos)?;
        s.extra.run += n as u64;
        *pos += n;
        if n < rest.len() {
            return Err(Step::Fault { kind: r.too_long, place: r.place });
        }
        if !self.eof {
            Err(Step::More)
        } else {
            Ok(())
        }
    }
}

/// Notes how to get back in step; positions of `r` count from `origin`.
pub fn set_recovery(extra: &mut Extra, r: &Recovery, recovers: &[Until], origin: u64) {
    match r {
        Recovery::Until(u) => extra.recover = 2 + recovers.iter().position(|x| x == u).unwrap_or(0) as u32,
        // Messages are counted in 32 bits: nothing is skipped beyond.
        Recovery::Length { from, bytes } => {
            extra.recover_at = origin.wrapping_add(*from as u64).saturating_add(*bytes);
            extra.recover = (extra.recover_at < u32::MAX as u64) as u32;
        }
    }
}

/// Where a unit began in the message.
fn start_of(start: Option<Slot>, slots: &[Value]) -> u64 {
    start.and_then(|x| slots[x].as_int()).unwrap_or(0) as u64
}

fn place_of(op: &TailOp, p: &Program) -> PlaceId {
    match op {
        TailOp::Segment { inst, field, .. } => p.insts[*inst].def.fields[field.index()].place,
        TailOp::Literal { place, .. }
        | TailOp::AtEnd { place, .. }
        | TailOp::Align { place, .. }
        | TailOp::Fault { place, .. } => *place,
        TailOp::Run(r) => r.place,
        _ => PlaceId(0),
    }
}
