//! Messages from a grammar: random valid ones and mutations of them, for differential tests,
//! property tests and `wireloom fuzz`. It also renders a message from its fields' values.
//!
//! A random message is made field by field. Each field is parsed as soon as it is made, so that
//! lengths and guards that depend on it can be evaluated. A length that stands before its field is
//! chosen first ([`Computed`]). A message is kept only if it parses as a whole, so the generator
//! need not know every constraint.

use crate::env::{Env, Item, Seen};
use crate::exec::functions::Functions;
use crate::grammar::parse::Parser;
use crate::grammar::tree::Node;
use crate::value::Value;
use std::collections::HashMap;
use wireloom_ir::*;

/// Random choices that a seed repeats.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(fastrand::Rng::with_seed(seed))
    }

    pub fn any(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Below `n`; 0 if n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        self.0.u64(..n)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len() as u64) as usize)
    }
}

/// Makes messages of one module.
pub struct Generator<'a> {
    m: &'a Module,
    functions: Functions,
    pub rng: Rng,
    /// Byte strings and numbers that the grammars compare with: values worth trying.
    words: Vec<Vec<u8>>,
    numbers: Vec<u64>,
    /// Messages that the module's own `test` blocks parse, valid or not.
    samples: Vec<(UnitId, Vec<u8>)>,
}

/// The messages in the `test` blocks of a module.
fn samples(m: &Module) -> Vec<(UnitId, Vec<u8>)> {
    let mut all = Vec::new();
    for h in m.handlers.iter().filter(|h| matches!(h.on, On::Test(_))) {
        walk::stmts(&h.body.block, &mut |s| {
            if let StmtKind::Parse { unit, bytes, .. } = &s.kind {
                if let ExprKind::Bytes(b) = &*bytes.kind {
                    all.push((*unit, b.clone()));
                }
            }
        });
    }
    all
}

/// The message cannot be completed this way.
struct GiveUp;
type Made<T> = Result<T, GiveUp>;

/// Lengths are mostly chosen below this.
const SMALL: u64 = 24;
const LARGEST: u64 = 1 << 20;

impl<'a> Generator<'a> {
    pub fn new(m: &'a Module, seed: u64) -> Self {
        let (mut words, mut numbers) = (Vec::new(), vec![0, 1, 2, 255, 65_535, u32::MAX as u64, u64::MAX]);
        let mut note = |e: &Expr| match &*e.kind {
            ExprKind::Bytes(b) => words.push(b.clone()),
            ExprKind::Int(v) => numbers.push(*v as u64),
            ExprKind::InRanges(_, r) => numbers.extend(r.iter().flat_map(|(a, b)| [*a, *b])),
            _ => {}
        };
        for u in &m.units {
            for f in &u.fields {
                walk::field_exprs(f, &mut |e, _| walk::expr(e, &mut note));
            }
        }
        Generator { m, functions: Functions::new(m), rng: Rng::new(seed), words, numbers, samples: samples(m) }
    }

    /// A message of one of the module's tests.
    fn sample(&mut self, unit: UnitId) -> Option<Vec<u8>> {
        let fitting: Vec<usize> = (0..self.samples.len()).filter(|i| self.samples[*i].0 == unit).collect();
        let i = *self.rng.pick(&fitting)?;
        Some(self.samples[i].1.clone())
    }

    /// A valid message: made, if that succeeds in some attempts; else one of the module's tests.
    pub fn message(&mut self, unit: UnitId, args: &[Value]) -> Option<Vec<u8>> {
        let known: Vec<Vec<u8>> = self
            .samples
            .iter()
            .filter(|(u, b)| *u == unit && self.is_whole(unit, args, b))
            .map(|s| s.1.clone())
            .collect();
        let attempts = if known.is_empty() { 200 } else { 20 };
        let made = (0..attempts).find_map(|_| {
            let mut buf = Vec::new();
            self.unit(unit, args.to_vec(), &mut buf).ok()?;
            self.is_whole(unit, args, &buf).then_some(buf)
        });
        made.or_else(|| self.rng.pick(&known).cloned())
    }

    fn is_whole(&self, unit: UnitId, args: &[Value], bytes: &[u8]) -> bool {
        let def = self.m.unit(unit);
        let node = self.parser(bytes).message(unit, def, args.to_vec());
        node.is_ok_and(|n| n.end == bytes.len())
    }

    /// Several messages one after the other, made or taken from the module's tests, some of them
    /// damaged.
    pub fn stream(&mut self, unit: UnitId, args: &[Value], count: usize, damage_percent: u64) -> Vec<u8> {
        let mut all = Vec::new();
        for _ in 0..count {
            let known = if self.rng.chance(30) { self.sample(unit) } else { None };
            let mut one = known.or_else(|| self.message(unit, args)).unwrap_or_default();
            if self.rng.chance(damage_percent) {
                self.mutate(&mut one);
            }
            all.extend(one);
        }
        all
    }

    /// Damages a message a little.
    pub fn mutate(&mut self, b: &mut Vec<u8>) {
        for _ in 0..1 + self.rng.below(3) {
            let at = self.rng.below(b.len() as u64 + 1) as usize;
            let end = (at + 1 + self.rng.below(8) as usize).min(b.len());
            match self.rng.below(7) {
                0 if at < b.len() => b[at] ^= 1 << self.rng.below(8),
                1 if at < b.len() => b[at] = self.rng.any() as u8,
                2 => b.insert(at, *self.rng.pick(b" \r\n\t:,09-\0\xff").unwrap_or(&0)),
                3 => drop(b.drain(at.min(end)..end)),
                4 => {
                    let again = b[at.min(end)..end].to_vec();
                    b.splice(at..at, again);
                }
                5 => b.truncate(at),
                _ => {
                    let word = self.rng.pick(&self.words).cloned().unwrap_or_default();
                    b.splice(at..at, word);
                }
            }
        }
    }

    fn unit(&mut self, id: UnitId, args: Vec<Value>, buf: &mut Vec<u8>) -> Made<Node> {
        let def = self.m.unit(id);
        let mut g =
            Making { node: Node::new(id, def, buf.len(), args), def, lengths: HashMap::new(), bits: Vec::new() };
        self.fields(&mut g, &def.body, buf)?;
        g.node.end = buf.len();
        Ok(g.node)
    }

    fn fields(&mut self, g: &mut Making<'a>, list: &[FieldId], buf: &mut Vec<u8>) -> Made<()> {
        list.iter().try_for_each(|f| self.field(g, *f, buf))
    }

    fn field(&mut self, g: &mut Making<'a>, f: FieldId, buf: &mut Vec<u8>) -> Made<()> {
        let start = buf.len();
        let field = &g.def.fields[f.index()];
        if let FieldKind::UInt { bytes, shift, bits, big, advance, .. } = field.kind {
            let value = self.number(g, field, bits);
            g.bits.push((f, value << shift));
            if !advance {
                return Ok(());
            }
            let container = g.bits.iter().fold(0u128, |a, (_, v)| a | v).to_le_bytes();
            let low = &container[..bytes as usize];
            if big {
                buf.extend(low.iter().rev())
            } else {
                buf.extend_from_slice(low)
            }
            let group = std::mem::take(&mut g.bits);
            return group.into_iter().try_for_each(|(f, _)| self.note(g, f, start, buf));
        }
        self.content(g, f, field, buf)?;
        self.note(g, f, start, buf)
    }

    /// Parses the generated bytes, for later expressions. A value that needs bytes still to be made
    /// is left out.
    fn note(&mut self, g: &mut Making, f: FieldId, start: usize, buf: &[u8]) -> Made<()> {
        let mut p = self.parser(buf);
        match p.field(g.def, &mut g.node, f, start) {
            Ok(_) | Err(crate::grammar::parse::Halt::More(_)) => Ok(()),
            Err(_) => Err(GiveUp),
        }
    }

    fn content(&mut self, g: &mut Making<'a>, f: FieldId, field: &'a Field, buf: &mut Vec<u8>) -> Made<()> {
        match &field.kind {
            FieldKind::Number { radix, digits, exact, until } => {
                let bits = crate::value::int_type(self.m.ty(field.ty)).map_or(32, |(b, _)| b);
                let v = self.number(g, field, bits) as u64;
                let text = match radix {
                    16 => format!("{v:x}"),
                    _ => v.to_string(),
                };
                let width = if *exact { *digits as usize } else { 1 };
                if text.len() > *digits as usize {
                    return Err(GiveUp);
                }
                buf.extend(std::iter::repeat_n(b'0', width.saturating_sub(text.len())));
                buf.extend_from_slice(text.as_bytes());
                self.end(until.as_ref(), buf);
            }
            FieldKind::Varint { .. } => {
                let mut v = self.number(g, field, 32);
                while v > 127 {
                    buf.push(v as u8 & 127 | 128);
                    v >>= 7;
                }
                buf.push(v as u8);
            }
            FieldKind::Bytes { min, max, class, extent, .. } => {
                let wanted = Wanted { min: *min, max: *max, class: class.as_ref(), extent };
                self.bytes(g, f, &wanted, buf)?
            }
            FieldKind::StreamBytes { extent } => {
                self.bytes(g, f, &Wanted { min: 0, max: LARGEST, class: None, extent }, buf)?
            }
            FieldKind::Literal { values } => buf.extend(self.rng.pick(values).ok_or(GiveUp)?),
            FieldKind::Flag { value } => {
                if self.rng.chance(30) {
                    buf.extend(value);
                }
            }
            FieldKind::Unit { unit, args } => drop(self.nested(g, *unit, args, buf)?),
            FieldKind::StreamUnit { unit, args, until } => self.stream_units(g, *unit, args, until.as_ref(), buf)?,
            FieldKind::List { element, max, extent } => self.list(g, *element, *max, extent, buf)?,
            FieldKind::Switch { cases } => self.switch(g, cases, buf)?,
            FieldKind::Align { to } => {
                while !(buf.len() - g.node.start).is_multiple_of((*to).max(1) as usize) {
                    buf.push(0);
                }
            }
            FieldKind::UInt { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Nothing => {}
        }
        Ok(())
    }

    fn end(&mut self, until: Option<&Until>, buf: &mut Vec<u8>) {
        if let Some(u) = until.filter(|u| !u.peek) {
            // Mostly the first: programs send that one.
            let any = self.rng.pick(&u.delimiters).cloned();
            let d = if self.rng.chance(80) { u.delimiters.first().cloned() } else { any };
            buf.extend(d.unwrap_or_default());
        }
    }

    fn number(&mut self, g: &mut Making, field: &Field, bits: u8) -> u128 {
        let top = crate::value::mask(bits.min(64)) as u64;
        if let Some(c) = &field.computed {
            let sum: u64 = c.lengths.iter().map(|f| self.length(g, *f)).fold(0, u64::wrapping_add);
            return (sum.wrapping_add_signed(c.plus) & top) as u128;
        }
        if let Some((lo, hi)) = field.within.as_ref().and_then(|r| self.rng.pick(r)) {
            return (lo + self.rng.below((hi - lo).saturating_add(1))) as u128;
        }
        let v = match self.rng.below(10) {
            0 => self.rng.any(),
            1..=3 => self.rng.pick(&self.numbers).copied().unwrap_or(0),
            _ => self.rng.below(SMALL),
        };
        (v & top) as u128
    }

    /// The length that a field will have, chosen before it is made.
    fn length(&mut self, g: &mut Making, f: FieldId) -> u64 {
        if let Some(n) = g.lengths.get(&f) {
            return *n;
        }
        let n = match g.def.fields[f.index()].kind {
            FieldKind::Bytes { min, max, .. } => self.some_length(min, max),
            _ => 0,
        };
        g.lengths.insert(f, n);
        n
    }

    fn some_length(&mut self, min: u64, max: u64) -> u64 {
        let reach = if self.rng.chance(3) { 20_000 } else { SMALL };
        min + self.rng.below((max - min.min(max)).min(reach) + 1)
    }

    fn env<'b>(&'b self, node: &'b Node, buf: &'b [u8]) -> Env<'b> {
        Env { functions: Some(&self.functions), ..Env::grammar(self.m, Seen { node, buf }) }
    }

    fn parser<'b>(&'b self, buf: &'b [u8]) -> Parser<'b> {
        Parser { functions: Some(&self.functions), ..Parser::new(self.m, buf, true) }
    }

    fn bytes(&mut self, g: &mut Making, f: FieldId, wanted: &Wanted, buf: &mut Vec<u8>) -> Made<()> {
        let Wanted { min, max, class, extent } = *wanted;
        let mut set = class.copied().unwrap_or(ByteSet::ALL);
        let n = match extent {
            Extent::Length(e) => {
                let n = self.env(&g.node, buf).int(e).map_err(|_| GiveUp)?;
                u64::try_from(n).ok().filter(|n| *n <= max.min(LARGEST)).ok_or(GiveUp)?
            }
            _ => match g.lengths.get(&f) {
                Some(n) => *n,
                None => self.some_length(min, max),
            },
        };
        if let Extent::Until(u) = extent {
            for b in u.delimiters.iter().filter_map(|d| d.first()) {
                set.0[(b >> 6) as usize] &= !(1 << (b & 63));
            }
        }
        let fits = |w: &Vec<u8>| w.len() as u64 <= max && w.len() as u64 >= min && w.iter().all(|b| set.has(*b));
        let word = self.rng.pick(&self.words).cloned().filter(|w| fits(w) && !matches!(extent, Extent::Length(_)));
        match word.filter(|_| self.rng.chance(40)) {
            Some(w) => buf.extend(w),
            None if n == 0 => {}
            None => {
                let all: Vec<u8> = set.iter().collect();
                let plain: Vec<u8> = all.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
                for _ in 0..n {
                    let from = if self.rng.chance(80) && !plain.is_empty() { &plain } else { &all };
                    buf.push(*self.rng.pick(from).ok_or(GiveUp)?);
                }
            }
        }
        if let Extent::Until(u) = extent {
            self.end(Some(u), buf);
        }
        Ok(())
    }

    fn nested(&mut self, g: &Making, unit: UnitId, args: &[Expr], buf: &mut Vec<u8>) -> Made<Node> {
        let args = self.env(&g.node, buf).all(args).map_err(|_| GiveUp)?;
        self.unit(unit, args, buf)
    }

    fn stream_units(
        &mut self,
        g: &Making,
        unit: UnitId,
        args: &[Expr],
        until: Option<&Expr>,
        buf: &mut Vec<u8>,
    ) -> Made<()> {
        for _ in 0..40 {
            let start = buf.len();
            let item = self.nested(g, unit, args, buf)?;
            let end = item.end;
            let content = crate::grammar::tree::Content::Unit(Box::new(item));
            let item = crate::grammar::tree::FieldNode { start, end, next: end, content };
            let env = Env { item: Some(Item { node: &item, buf }), ..self.env(&g.node, buf) };
            if until.map_or(Ok(true), |u| env.truth(u)).map_err(|_| GiveUp)? {
                return Ok(());
            }
        }
        Err(GiveUp)
    }

    fn list(
        &mut self,
        g: &mut Making<'a>,
        element: FieldId,
        max: u32,
        extent: &ListExtent,
        buf: &mut Vec<u8>,
    ) -> Made<()> {
        let int = |this: &Self, g: &Making, e: &Expr, buf: &[u8], acc| {
            let env = Env { acc, ..this.env(&g.node, buf) };
            env.int(e).ok().and_then(|v| u64::try_from(v).ok()).ok_or(GiveUp)
        };
        match extent {
            ListExtent::Fold { init, holds, step, done } => {
                let mut acc = int(self, g, init, buf, None)?;
                for _ in 0..64 {
                    if int(self, g, done, buf, Some(acc))? != 0 {
                        return Ok(());
                    }
                    let start = buf.len();
                    self.field(g, element, buf)?;
                    let item = self.parser(buf).shape(g.def, &mut g.node, element, start).map_err(|_| GiveUp)?;
                    let env = Env { item: Some(Item { node: &item, buf }), acc: Some(acc), ..self.env(&g.node, buf) };
                    if !holds.as_ref().map_or(Ok(true), |h| env.truth(h)).map_err(|_| GiveUp)? {
                        return Err(GiveUp);
                    }
                    acc = env.int(step).map_err(|_| GiveUp)? as u64;
                }
                Err(GiveUp)
            }
            _ => {
                let n = match extent {
                    ListExtent::Count(e) => int(self, g, e, buf, None)?,
                    _ => self.rng.below((max as u64).min(5) + 1),
                };
                if n > (max as u64).min(200) {
                    return Err(GiveUp);
                }
                for _ in 0..n {
                    self.field(g, element, buf)?;
                }
                if let ListExtent::Until(u) = extent {
                    self.end(Some(u), buf);
                }
                Ok(())
            }
        }
    }

    fn switch(&mut self, g: &mut Making<'a>, cases: &'a [Case], buf: &mut Vec<u8>) -> Made<()> {
        let literals: Vec<&Case> = cases.iter().filter(|c| matches!(c.guard, Guard::Literal { .. })).collect();
        let chosen = match self.rng.pick(&literals).copied().filter(|_| self.rng.chance(90)) {
            Some(c) => c,
            None => {
                let holds = |c: &&Case| match &c.guard {
                    Guard::When(e) => self.env(&g.node, buf).truth(e).unwrap_or(false),
                    Guard::Else => true,
                    Guard::Literal { .. } | Guard::Fault(_) => false,
                };
                cases.iter().find(holds).ok_or(GiveUp)?
            }
        };
        if let Guard::Literal { values, peek: false } = &chosen.guard {
            buf.extend(self.rng.pick(values).ok_or(GiveUp)?);
        }
        self.fields(g, &chosen.fields, buf)
    }
}

/// The bytes that a field asks for.
struct Wanted<'a> {
    min: u64,
    max: u64,
    class: Option<&'a ByteSet>,
    extent: &'a Extent,
}

/// A unit that is being made.
struct Making<'a> {
    node: Node,
    def: &'a Unit,
    /// Lengths chosen for fields that are measured before they are made.
    lengths: HashMap<FieldId, u64>,
    /// Bit fields of the current container.
    bits: Vec<(FieldId, u128)>,
}

// ---- rendering ----

/// Appends a message whose named fields have the given values; computed and literal fields are
/// filled in, others are zero or empty.
pub fn render(m: &Module, unit: UnitId, given: &dyn Fn(FieldId) -> Option<Value>, out: &mut Vec<u8>) {
    let def = m.unit(unit);
    let value = |f: FieldId| match (&def.fields[f.index()].computed, given(f)) {
        (Some(c), _) => {
            let sum: u64 = c.lengths.iter().map(|f| content_length(&given(*f))).fold(0, u64::wrapping_add);
            Value::Int(sum.wrapping_add_signed(c.plus) as u128)
        }
        (None, Some(v)) => v,
        (None, None) => Value::Int(0),
    };
    let mut container = 0u128;
    for f in &def.body {
        let field = &def.fields[f.index()];
        let int = || value(*f).as_int().unwrap_or(0);
        match &field.kind {
            FieldKind::UInt { bytes, shift, bits, big, advance, .. } => {
                container |= (int() & crate::value::mask(*bits)) << shift;
                if *advance {
                    let all = container.to_le_bytes();
                    let low = &all[..*bytes as usize];
                    if *big {
                        out.extend(low.iter().rev())
                    } else {
                        out.extend_from_slice(low)
                    }
                    container = 0;
                }
            }
            FieldKind::Number { radix, digits, exact, until } => {
                let text = if *radix == 16 { format!("{:x}", int()) } else { int().to_string() };
                let width = if *exact { *digits as usize } else { 1 };
                out.extend(std::iter::repeat_n(b'0', width.saturating_sub(text.len())));
                out.extend_from_slice(text.as_bytes());
                delimit(until.as_ref(), out);
            }
            FieldKind::Varint { .. } => {
                let mut v = int();
                while v > 127 {
                    out.push(v as u8 & 127 | 128);
                    v >>= 7;
                }
                out.push(v as u8);
            }
            FieldKind::Bytes { extent, .. } => {
                if let Value::Bytes(b) = value(*f) {
                    out.extend_from_slice(&b);
                }
                if let Extent::Until(u) = extent {
                    delimit(Some(u), out);
                }
            }
            FieldKind::Literal { values } => out.extend(values.first().into_iter().flatten()),
            FieldKind::Flag { value: bytes } if value(*f) == Value::Bool(true) => out.extend(bytes),
            _ => {}
        }
    }
}

fn content_length(v: &Option<Value>) -> u64 {
    match v {
        Some(Value::Bytes(b)) => b.len() as u64,
        _ => 0,
    }
}

fn delimit(until: Option<&Until>, out: &mut Vec<u8>) {
    if let Some(u) = until.filter(|u| !u.peek) {
        out.extend(u.delimiters.first().into_iter().flatten());
    }
}
