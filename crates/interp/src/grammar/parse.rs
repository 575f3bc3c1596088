//! The plain parser: a unit's fields over contiguous bytes, from the first field on, giving a tree.
//!
//! It answers [`Halt::More`] where the available bytes do not decide. Its result never depends on
//! how they were cut.

use super::scan::{self, DelimiterSearch, Match};
use super::tree::{Content, FieldNode, Node};
use crate::env::{Env, Item, Seen};
use crate::exec::functions::Functions;
use crate::stop::Stop;
use crate::value::{int_type, mask, signed, Value};
use wireloom_ir::grammar::tail as split;
use wireloom_ir::*;

/// Why parsing stops before the end.
#[derive(Clone, Debug)]
pub enum Halt {
    /// In the field of this place.
    More(PlaceId),
    /// `at`: where the field at fault begins.
    Fault {
        kind: FaultKind,
        place: PlaceId,
        at: usize,
    },
    Internal(String),
}

pub type ParseResult<T> = Result<T, Halt>;

/// How the stream gets back in step after a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Recovery {
    /// Behind the next of these.
    Until(Until),
    /// So many bytes from this position.
    Length { from: usize, bytes: u64 },
}

/// The bytes that a field may hold.
struct Allowed<'a> {
    class: Option<&'a ByteSet>,
    /// Most bytes.
    max: u64,
}

/// The form of a number in text.
struct NumberForm<'a> {
    radix: u8,
    digits: u8,
    /// So many digits, not fewer.
    exact: bool,
    until: Option<&'a Until>,
}

/// A list: its field, and the form of its items.
struct ListForm<'a> {
    id: FieldId,
    element: FieldId,
    /// Most items.
    max: u32,
    extent: &'a ListExtent,
}

/// How far a list has come.
struct ListProgress {
    pos: usize,
    /// The accumulator of a fold.
    acc: u64,
    /// No further item is allowed.
    full: bool,
}

/// The bytes that a unit lies in.
#[derive(Clone, Copy)]
struct LengthEnd {
    /// Where they end; `u32::MAX`: the unit lies in none.
    end: u32,
    /// Where they begin, and the unit's place.
    start: usize,
    place: PlaceId,
}

impl LengthEnd {
    const NONE: LengthEnd = LengthEnd { end: u32::MAX, start: 0, place: PlaceId(0) };

    fn overrun(self) -> Halt {
        Halt::Fault { kind: FaultKind::MALFORMED, place: self.place, at: self.start }
    }
}

/// In front of the tail no unit waits for bytes beyond those that it lies in.
#[derive(Clone, Copy)]
pub struct LengthEnds {
    /// This is in front of the tail.
    hold: bool,
    inner: LengthEnd,
    /// The parser's bytes end where the innermost length does.
    at_end: bool,
}

pub struct Parser<'a> {
    pub module: &'a Module,
    pub buf: &'a [u8],
    /// No bytes follow `buf`.
    pub eof: bool,
    /// Values for `Local`s in rewritten tail expressions; see `tail`.
    pub slots: &'a [Value],
    /// As in [`Env`].
    pub functions: Option<&'a Functions>,
    /// The last `recover` that was passed, and where.
    pub recovery: Option<Recovery>,
    pub recovery_at: usize,
    /// Whether only the end of the connection tells where the message ends.
    pub until_eof: bool,
    /// The bytes that are passed on end with the connection.
    pub ends: bool,
    /// Stop at the first field that begins the tail by this rule.
    pub stop: Option<split::Rule>,
    /// Where it stopped.
    pub ended: Option<usize>,
    pub limits: LengthEnds,
}

fn fault<T>(kind: FaultKind, field: &Field, at: usize) -> ParseResult<T> {
    Err(Halt::Fault { kind, place: field.place, at })
}

pub fn bad<T>(field: &Field, at: usize) -> ParseResult<T> {
    fault(field.bad, field, at)
}

pub fn too_long<T>(field: &Field, at: usize) -> ParseResult<T> {
    fault(field.too_long, field, at)
}

/// An evaluation error as a parse error of the current field.
pub fn stopped(stop: Stop, at: usize) -> Halt {
    match stop {
        Stop::Fault { kind, place } => Halt::Fault { kind, place, at },
        Stop::Internal(what) => Halt::Internal(what),
    }
}

impl<'a> Parser<'a> {
    pub fn new(module: &'a Module, buf: &'a [u8], eof: bool) -> Parser<'a> {
        Parser {
            module,
            buf,
            eof,
            slots: &[],
            functions: None,
            recovery: None,
            recovery_at: 0,
            until_eof: false,
            ends: false,
            stop: None,
            ended: None,
            limits: LengthEnds { hold: false, inner: LengthEnd::NONE, at_end: false },
        }
    }

    /// Parses a message.
    pub fn message(&mut self, id: UnitId, def: &Unit, args: Vec<Value>) -> ParseResult<Node> {
        let mut node = Node::new(id, def, 0, args);
        let (head, tail) = def.body.split_at(def.body.len().min(def.tail as usize));
        self.limits.hold = true;
        let mut end = self.fields(def, &mut node, head, 0)?;
        self.limits.hold = false;
        if self.ended.is_none() {
            end = self.fields(def, &mut node, tail, end)?;
        }
        node.end = end;
        Ok(node)
    }

    /// Parses the unit's own fields up to number `upto` of its body.
    pub fn unit(&mut self, id: UnitId, def: &Unit, start: usize, args: Vec<Value>, upto: usize) -> ParseResult<Node> {
        let mut node = Node::new(id, def, start, args);
        node.end = self.fields(def, &mut node, &def.body[..upto.min(def.body.len())], start)?;
        Ok(node)
    }

    pub fn fields(&mut self, def: &Unit, node: &mut Node, list: &[FieldId], mut pos: usize) -> ParseResult<usize> {
        for f in list {
            pos = self.field(def, node, *f, pos)?;
            if self.ended.is_some() {
                break;
            }
        }
        Ok(pos)
    }

    /// Parses one field, notes it in `node` and gives the position behind it.
    pub fn field(&mut self, def: &Unit, node: &mut Node, f: FieldId, pos: usize) -> ParseResult<usize> {
        if self.stop.is_some_and(|rule| split::begins(self.module, rule, node.unit, f))
            && !self.is_empty(def, node, f, pos)?
        {
            self.ended = Some(pos);
            return Ok(pos);
        }
        let found = match &def.fields[f.index()].lies_in {
            Some(length) if self.limits.hold => self.within(def, node, f, pos, length)?,
            _ => self.shape(def, node, f, pos)?,
        };
        let next = found.next;
        node.fields[f.index()] = Some(found);
        Ok(next)
    }

    /// A unit that lies in a length: behind it no bytes are seen.
    fn within(&mut self, def: &Unit, node: &mut Node, f: FieldId, pos: usize, length: &Expr) -> ParseResult<FieldNode> {
        let n = self.eval_int(node, length, pos)?;
        let end = u32::try_from((pos as u64).saturating_add(n)).unwrap_or(u32::MAX);
        if end > self.limits.inner.end {
            return Err(self.limits.inner.overrun());
        }
        let own = LengthEnd { end, start: pos, place: def.fields[f.index()].place };
        let outer = (self.buf, self.eof, self.limits);
        self.limits.inner = own;
        if end != u32::MAX && end as usize <= self.buf.len() {
            (self.buf, self.eof, self.limits.at_end) = (&self.buf[..end as usize], true, true);
        }
        let found = self.shape(def, node, f, pos);
        let all_there = self.limits.at_end;
        (self.buf, self.eof, self.limits) = outer;
        match found {
            Err(Halt::More(_)) if all_there => Err(own.overrun()),
            found => found,
        }
    }

    /// Whether only the end of the connection ends what is read here.
    fn reads_to_eof(&mut self) {
        self.until_eof |= self.limits.inner.end == u32::MAX;
    }

    /// Whether a field that could begin the tail has no bytes: an empty one ends no head.
    fn is_empty(&self, def: &Unit, node: &Node, f: FieldId, pos: usize) -> ParseResult<bool> {
        let field = &def.fields[f.index()];
        let (e, min, max) = match &field.kind {
            FieldKind::Bytes { extent: Extent::Length(e), min, max, .. } => (e, *min, *max),
            FieldKind::StreamBytes { extent: Extent::Length(e) } => (e, 0, u64::MAX),
            _ => return Ok(false),
        };
        let n = self.eval_int(node, e, pos)?;
        if n > max {
            return too_long(field, pos);
        }
        if n < min {
            bad(field, pos)
        } else {
            Ok(n == 0)
        }
    }

    fn rest(&self, pos: usize) -> &'a [u8] {
        &self.buf[pos.min(self.buf.len())..]
    }

    fn env<'b>(&'b self, node: &'b Node) -> Env<'b> {
        let this = Seen { node, buf: self.buf };
        Env { locals: self.slots, functions: self.functions, ..Env::grammar(self.module, this) }
    }

    fn eval(&self, node: &Node, e: &Expr, at: usize) -> ParseResult<Value> {
        self.env(node).eval(e).map_err(|s| stopped(s, at))
    }

    fn eval_int(&self, node: &Node, e: &Expr, at: usize) -> ParseResult<u64> {
        let v = self.env(node).int(e).map_err(|s| stopped(s, at))?;
        Ok(u64::try_from(v).unwrap_or(u64::MAX))
    }

    fn truth(&self, node: &Node, e: &Expr, at: usize) -> ParseResult<bool> {
        self.env(node).truth(e).map_err(|s| stopped(s, at))
    }

    /// The next `n` bytes.
    fn take(&self, field: &Field, pos: usize, n: usize) -> ParseResult<&'a [u8]> {
        self.rest(pos).get(..n).ok_or(Halt::More(field.place))
    }

    fn literal(&self, field: &Field, pos: usize, values: &[Vec<u8>]) -> ParseResult<Option<usize>> {
        match scan::literal(self.rest(pos), values, self.limits.at_end) {
            Match::Yes(n) => Ok(Some(n)),
            Match::No => Ok(None),
            Match::More => Err(Halt::More(field.place)),
        }
    }

    /// Offset and length of the delimiter that ends at most `max` bytes.
    fn delimiter(
        &self,
        field: &Field,
        pos: usize,
        until: &Until,
        max: u64,
        class: Option<&ByteSet>,
    ) -> ParseResult<(usize, usize)> {
        let most = usize::try_from(max).unwrap_or(usize::MAX);
        match scan::delimiter(self.rest(pos), &until.delimiters, most, class, self.limits.at_end) {
            DelimiterSearch::At(at, n) => Ok((at, if until.peek { 0 } else { n })),
            DelimiterSearch::TooLong => too_long(field, pos),
            DelimiterSearch::Illegal(_) => bad(field, pos),
            DelimiterSearch::More(_) => Err(Halt::More(field.place)),
        }
    }

    pub(crate) fn shape(&mut self, def: &Unit, node: &mut Node, f: FieldId, pos: usize) -> ParseResult<FieldNode> {
        let field = &def.fields[f.index()];
        let nothing = |next: usize| FieldNode { start: pos, end: next, next, content: Content::None };
        let plain = |next: usize, v: Value| FieldNode { start: pos, end: next, next, content: Content::Scalar(v) };
        Ok(match &field.kind {
            FieldKind::UInt { bytes, shift, bits, big, signed: neg, advance } => {
                let end = pos + *bytes as usize;
                let raw = uint(self.take(field, pos, *bytes as usize)?, *big) >> shift & mask(*bits);
                let v = if *neg { signed(raw, *bits) as u128 } else { raw };
                let v = in_type(self.module, field, v, pos)?;
                FieldNode { next: if *advance { end } else { pos }, ..plain(end, v) }
            }
            FieldKind::Number { radix, digits, exact, until } => {
                let form = NumberForm { radix: *radix, digits: *digits, exact: *exact, until: until.as_ref() };
                self.number(field, pos, &form)?
            }
            FieldKind::Varint { max_bytes } => self.varint(field, pos, *max_bytes)?,
            FieldKind::Bytes { min, max, class, extent, trim, .. } => {
                // Bytes that are trimmed away may stand where others may not.
                let allowed =
                    class.map(|c| trim.map_or(c, |t| if matches!(extent, Extent::Run) { c } else { c.union(&t) }));
                let (end, next) =
                    self.extent(field, node, pos, extent, &Allowed { class: allowed.as_ref(), max: *max })?;
                let (mut a, mut b) = (pos, end);
                if let Some(set) = trim {
                    (a, b) = trimmed(self.buf, a, b, set);
                }
                let legal = class.is_none_or(|c| self.buf[a..b].iter().all(|x| c.has(*x)));
                if !legal || ((b - a) as u64) < *min {
                    return bad(field, pos);
                }
                FieldNode { start: pos, end, next, content: Content::Span(a, b) }
            }
            FieldKind::Literal { values } => match self.literal(field, pos, values)? {
                Some(n) => FieldNode { content: Content::Span(pos, pos + n), ..nothing(pos + n) },
                None => return bad(field, pos),
            },
            FieldKind::Flag { value } => {
                let n = self.literal(field, pos, std::slice::from_ref(value))?;
                plain(pos + n.unwrap_or(0), Value::Bool(n.is_some()))
            }
            FieldKind::Unit { unit, args } => self.nested(node, *unit, args, pos)?,
            FieldKind::List { element, max, extent } => {
                self.list(def, node, &ListForm { id: f, element: *element, max: *max, extent }, pos)?
            }
            FieldKind::StreamBytes { extent } => {
                let (end, next) = self.extent(field, node, pos, extent, &Allowed { class: None, max: u64::MAX })?;
                FieldNode { start: pos, end, next, content: Content::Span(pos, end) }
            }
            FieldKind::StreamUnit { unit, args, until } => self.stream_units(node, *unit, args, until.as_ref(), pos)?,
            FieldKind::Switch { cases } => self.switch(def, node, f, cases, pos)?,
            FieldKind::Let { value } => plain(pos, self.eval(node, value, pos)?),
            FieldKind::Require { cond } => match self.truth(node, cond, pos)? {
                true => nothing(pos),
                false => return bad(field, pos),
            },
            FieldKind::Recover { how } => {
                self.recovery_at = pos;
                self.recovery = Some(match how {
                    Recover::Until(u) => Recovery::Until(u.clone()),
                    Recover::Length(e) => Recovery::Length { from: pos, bytes: self.eval_int(node, e, pos)? },
                });
                nothing(pos)
            }
            FieldKind::Pass { how } => {
                self.ends |= matches!(how, PassRule::As { endless: true, .. });
                nothing(pos)
            }
            FieldKind::Align { to } => {
                let over = pos.wrapping_sub(node.start) % (*to).max(1) as usize;
                let pad = if over == 0 { 0 } else { *to as usize - over };
                self.take(field, pos, pad)?;
                nothing(pos + pad)
            }
            FieldKind::Nothing => nothing(pos),
        })
    }

    fn nested(&mut self, node: &Node, id: UnitId, args: &[Expr], pos: usize) -> ParseResult<FieldNode> {
        let module = self.module;
        let def = module.unit(id);
        let args = args.iter().map(|a| self.eval(node, a, pos)).collect::<ParseResult<Vec<_>>>()?;
        let inner = self.unit(id, def, pos, args, def.body.len())?;
        Ok(FieldNode { start: pos, end: inner.end, next: inner.end, content: Content::Unit(Box::new(inner)) })
    }

    /// End of the field's bytes, and of the delimiter behind them.
    fn extent(
        &mut self,
        field: &Field,
        node: &Node,
        pos: usize,
        extent: &Extent,
        allowed: &Allowed,
    ) -> ParseResult<(usize, usize)> {
        let Allowed { class, max } = *allowed;
        let have = self.rest(pos).len();
        let end = match extent {
            Extent::Length(e) => {
                let n = self.eval_int(node, e, pos)?;
                if n > max {
                    return too_long(field, pos);
                }
                self.take(field, pos, usize::try_from(n).unwrap_or(usize::MAX))?;
                pos + n as usize
            }
            Extent::Until(u) => {
                let (n, delimiter) = self.delimiter(field, pos, u, max, class)?;
                return Ok((pos + n, pos + n + delimiter));
            }
            Extent::Run => {
                let n = self.rest(pos).iter().take_while(|b| class.is_none_or(|c| c.has(**b))).count();
                if n as u64 > max {
                    return too_long(field, pos);
                }
                if n == have && !self.eof {
                    return Err(Halt::More(field.place));
                }
                pos + n
            }
            Extent::ToEnd | Extent::Close => {
                self.reads_to_eof();
                // The first in the order of the bytes decides, however many of them have come: one
                // that is not allowed, or one too many.
                let counted = have.min(usize::try_from(max).unwrap_or(usize::MAX));
                if class.is_some_and(|c| self.rest(pos)[..counted].iter().any(|b| !c.has(*b))) {
                    return bad(field, pos);
                }
                if have as u64 > max {
                    return too_long(field, pos);
                }
                if !self.eof {
                    return Err(Halt::More(field.place));
                }
                pos + have
            }
        };
        Ok((end, end))
    }

    fn number(&self, field: &Field, pos: usize, form: &NumberForm) -> ParseResult<FieldNode> {
        let NumberForm { radix, digits, exact, until } = *form;
        let rest = self.rest(pos);
        let neg = matches!(self.module.ty(field.ty), Ty::Int(_));
        let sign = (neg && rest.first() == Some(&b'-')) as usize;
        let fixed = exact && until.is_none();
        let most = digits as usize + !fixed as usize;
        let n = rest[sign..].iter().take(most).take_while(|d| digit(**d, radix).is_some()).count();
        let end = pos + sign + n;
        let at_end = end == self.buf.len();
        if n > digits as usize {
            return too_long(field, pos);
        }
        let undecided = match (fixed, until) {
            (true, _) => at_end && n < digits as usize,
            (false, Some(_)) => at_end,
            (false, None) => at_end && (!self.eof || n == 0),
        };
        if undecided {
            return Err(Halt::More(field.place));
        }
        if n == 0 || (exact && n != digits as usize) {
            return bad(field, pos);
        }
        let delimiter = match until {
            Some(u) => match self.literal(field, end, &u.delimiters)? {
                Some(_) if u.peek => 0,
                Some(n) => n,
                None => return bad(field, pos),
            },
            None => 0,
        };
        let Some(v) = number_value(&self.buf[pos + sign..end], radix) else { return bad(field, pos) };
        let v = in_type(self.module, field, if sign == 1 { v.wrapping_neg() } else { v }, pos)?;
        Ok(FieldNode { start: pos, end, next: end + delimiter, content: Content::Scalar(v) })
    }

    fn varint(&self, field: &Field, pos: usize, max_bytes: u8) -> ParseResult<FieldNode> {
        let mut v = 0u128;
        for (i, b) in self.rest(pos).iter().enumerate() {
            if i >= max_bytes as usize || i >= 18 {
                return too_long(field, pos);
            }
            v |= ((b & 0x7f) as u128) << (7 * i);
            if b & 0x80 == 0 {
                let v = in_type(self.module, field, v, pos)?;
                return Ok(FieldNode { start: pos, end: pos + i + 1, next: pos + i + 1, content: Content::Scalar(v) });
            }
            if i + 1 == max_bytes as usize {
                return too_long(field, pos);
            }
        }
        Err(Halt::More(field.place))
    }

    fn list(&mut self, def: &Unit, node: &mut Node, list: &ListForm, start: usize) -> ParseResult<FieldNode> {
        let ListForm { id, element, max, extent } = *list;
        let field = &def.fields[id.index()];
        let (mut items, mut pos) = (Vec::new(), start);
        if matches!(extent, ListExtent::ToEnd) {
            self.reads_to_eof();
        }
        let count = match extent {
            ListExtent::Count(e) => match self.eval_int(node, e, pos)? {
                n if n > max as u64 => return too_long(field, start),
                n => n,
            },
            _ => max as u64,
        };
        let mut acc = match extent {
            ListExtent::Fold { init, .. } => self.eval_int(node, init, pos)?,
            _ => 0,
        };
        let next = loop {
            if let Some(n) =
                self.list_end(field, node, extent, ListProgress { pos, acc, full: items.len() as u64 == count })?
            {
                break pos + n;
            }
            let item = self.shape(def, node, element, pos)?;
            if let ListExtent::Fold { holds, step, .. } = extent {
                let env = Env { item: Some(Item { node: &item, buf: self.buf }), acc: Some(acc), ..self.env(node) };
                if !holds.as_ref().map_or(Ok(true), |h| env.truth(h)).map_err(|s| stopped(s, pos))? {
                    return fault(FaultKind::MALFORMED, field, pos);
                }
                acc = env.int(step).map_err(|s| stopped(s, pos))? as u64;
            }
            pos = item.next;
            items.push(item);
        };
        Ok(FieldNode { start, end: pos, next, content: Content::Items(items) })
    }

    /// Whether the list ends here, and the length of the delimiter that says so.
    fn list_end(
        &self,
        field: &Field,
        node: &Node,
        extent: &ListExtent,
        at: ListProgress,
    ) -> ParseResult<Option<usize>> {
        let ListProgress { pos, acc, full } = at;
        let ends = match extent {
            ListExtent::Count(_) => return Ok(full.then_some(0)),
            ListExtent::Until(u) => self.literal(field, pos, &u.delimiters)?.map(|n| if u.peek { 0 } else { n }),
            ListExtent::ToEnd if self.rest(pos).is_empty() && !self.eof => return Err(Halt::More(field.place)),
            ListExtent::ToEnd => self.rest(pos).is_empty().then_some(0),
            ListExtent::Fold { done, .. } => {
                let env = Env { acc: Some(acc), ..self.env(node) };
                env.truth(done).map_err(|s| stopped(s, pos))?.then_some(0)
            }
        };
        if ends.is_none() && full {
            return too_long(field, pos);
        }
        Ok(ends)
    }

    fn stream_units(
        &mut self,
        node: &Node,
        id: UnitId,
        args: &[Expr],
        until: Option<&Expr>,
        start: usize,
    ) -> ParseResult<FieldNode> {
        let (mut items, mut pos) = (Vec::new(), start);
        loop {
            let item = self.nested(node, id, args, pos)?;
            pos = item.next;
            let env = Env { item: Some(Item { node: &item, buf: self.buf }), ..self.env(node) };
            let last = until.map_or(Ok(true), |u| env.truth(u)).map_err(|s| stopped(s, pos))?;
            items.push(item);
            if last {
                return Ok(FieldNode { start, end: pos, next: pos, content: Content::Items(items) });
            }
        }
    }

    fn switch(
        &mut self,
        def: &Unit,
        node: &mut Node,
        f: FieldId,
        cases: &[Case],
        start: usize,
    ) -> ParseResult<FieldNode> {
        let field = &def.fields[f.index()];
        for (i, case) in cases.iter().enumerate() {
            let body = match &case.guard {
                Guard::Literal { values, peek } => match self.literal(field, start, values)? {
                    Some(n) => start + if *peek { 0 } else { n },
                    None => continue,
                },
                Guard::When(e) if !self.truth(node, e, start)? => continue,
                Guard::When(_) | Guard::Else => start,
                Guard::Fault(kind) => return fault(*kind, field, start),
            };
            let taken = FieldNode { start, end: body, next: body, content: Content::Case(i as u32) };
            // Fields of the case may read it.
            node.fields[f.index()] = Some(taken.clone());
            let next = self.fields(def, node, &case.fields, body)?;
            return Ok(FieldNode { end: next, next, ..taken });
        }
        bad(field, start)
    }
}

pub fn uint(b: &[u8], big: bool) -> u128 {
    let join = |v: u128, x: &u8| v << 8 | *x as u128;
    if big {
        b.iter().fold(0, join)
    } else {
        b.iter().rev().fold(0, join)
    }
}

pub fn digit(d: u8, radix: u8) -> Option<u32> {
    (d as char).to_digit((radix as u32).clamp(2, 36))
}

fn number_value(text: &[u8], radix: u8) -> Option<u128> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u128, |v, d| v.checked_mul(radix as u128)?.checked_add(digit(*d, radix)? as u128))
}

/// The number as a value of the field's type, if it fits there and in the field's ranges. Negative
/// numbers come sign extended.
fn in_type(m: &Module, field: &Field, v: u128, at: usize) -> ParseResult<Value> {
    let (bits, neg) = int_type(m.ty(field.ty)).unwrap_or((64, false));
    let cut = v & mask(bits);
    let fits = if neg { signed(cut, bits) as u128 == v } else { cut == v };
    let inside = |ranges: &Vec<(u64, u64)>| ranges.iter().any(|(lo, hi)| *lo as u128 <= cut && cut <= *hi as u128);
    if !fits || !field.within.as_ref().is_none_or(inside) {
        return bad(field, at);
    }
    Ok(if matches!(m.ty(field.ty), Ty::Bool) { Value::Bool(cut != 0) } else { Value::Int(cut) })
}

fn trimmed(buf: &[u8], mut a: usize, mut b: usize, set: &ByteSet) -> (usize, usize) {
    while a < b && set.has(buf[a]) {
        a += 1;
    }
    while b > a && set.has(buf[b - 1]) {
        b -= 1;
    }
    (a, b)
}
