//! Vector plans, printed and parsed.

use super::names::{value_of, Word};
use super::parser::{Parser, Res};
use super::print::{string, Printer};
use crate::plans::{BinaryOp, Compare, MaskRef, NumberRef, VectorOp, VectorPlan, VectorStep, VectorValue};
use crate::*;

fn number(n: NumberRef) -> String {
    match n {
        NumberRef::Const(n) => n.to_string(),
        NumberRef::Value(n) => format!("#{n}"),
        NumberRef::Word { rows, word } => format!("#{rows}[{word}]"),
        NumberRef::Lengths => "lengths".into(),
    }
}

fn mask(m: MaskRef) -> String {
    match m {
        MaskRef::All => "all".into(),
        MaskRef::None => "none".into(),
        MaskRef::Stack => "stack".into(),
        MaskRef::Value(n) => format!("#{n}"),
    }
}

fn under(mask: Option<u32>) -> String {
    mask.map_or(String::new(), |m| format!(" mask {m}"))
}

impl Printer<'_> {
    pub fn vector(&mut self, v: &VectorPlan, locals: &[Local]) {
        self.line(&format!("least {};", v.least));
        let mut n = 0;
        self.steps("stack", &v.stack, &mut n, locals);
        if !v.key.is_empty() {
            self.steps("key", &v.key, &mut n, locals);
            n = 0
        }
        if let Some(run) = &v.run {
            self.steps("run", run, &mut n, locals)
        }
    }

    /// `n`: values so far.
    fn steps(&mut self, name: &str, steps: &[VectorStep], n: &mut u32, locals: &[Local]) {
        self.braces(name, "", &mut |p| {
            for s in steps {
                let text = p.step(s, *n, locals);
                *n += u32::from(matches!(s, VectorStep::Let(_)));
                p.line(&format!("{text};"))
            }
        })
    }

    fn step(&self, s: &VectorStep, n: u32, locals: &[Local]) -> String {
        match s {
            VectorStep::Header(layer) => format!("header {layer}"),
            VectorStep::Let(v) => {
                let field = v.field.as_ref().map_or(String::new(), |f| format!("{} ", string(f)));
                format!("let {field}#{n} = {}", self.vector_op(&v.op, locals))
            }
            VectorStep::Stack(m) => format!("stack {}", mask(*m)),
            VectorStep::Last(layer, m) => format!("last {layer} {}", mask(*m)),
            VectorStep::Pair(w, low, high) => format!("pair {w} {} {}", number(*low), number(*high)),
            VectorStep::Column(w, v) => format!("column {w} {}", number(*v)),
            VectorStep::Even(w, v) => format!("even {w} {v}"),
            VectorStep::Asks(m) => format!("asks {}", mask(*m)),
            VectorStep::Count(c, n, m) => format!("count {} {n} {}", self.counter_ref(*c), mask(*m)),
            VectorStep::Sum(c, v, m) => format!("sum {} {} {}", self.counter_ref(*c), number(*v), mask(*m)),
            VectorStep::Miss(t, m) => format!("miss {} {}", self.table(*t), mask(*m)),
            VectorStep::Hit(t, hits) => format!("hit {} #{hits}", self.table(*t)),
            VectorStep::Send(to, m) => format!("send {} {}", self.destination(*to), mask(*m)),
        }
    }

    fn vector_op(&self, op: &VectorOp, locals: &[Local]) -> String {
        match op {
            VectorOp::Words { from, to, places } => {
                let places: Vec<String> = places.iter().map(u32::to_string).collect();
                format!("words {from} to {to} ({})", places.join(", "))
            }
            VectorOp::Swap(v) => format!("swap {}", number(*v)),
            VectorOp::Bits { of, shift, mask } => format!("bits {} shift {shift}{}", number(*of), under(*mask)),
            VectorOp::Shl(v, by) => format!("shl {} {by}", number(*v)),
            VectorOp::Binary(op, a, b, mask) => {
                format!("{} {} {}{}", op.word(), number(*a), number(*b), under(*mask))
            }
            VectorOp::Choose(m, a, b) => format!("choose {} {} {}", mask(*m), number(*a), number(*b)),
            VectorOp::Param(e) => format!("param {}", self.expr_of(e, locals)),
            VectorOp::Entries => "entries".into(),
            VectorOp::Load { table, member, entries, mask: m } => {
                let member = member.map_or(String::new(), |n| format!(" member {n}"));
                format!("load {}{member} #{entries} {}", self.table(*table), mask(*m))
            }
            VectorOp::Has { of, mask, value } => format!("has {} value {value}{}", number(*of), under(Some(*mask))),
            VectorOp::Compare(op, a, b) => format!("{} {} {}", op.word(), number(*a), number(*b)),
            VectorOp::Not(m) => format!("not {}", mask(*m)),
            VectorOp::Both(a, b) => format!("both {} {}", mask(*a), mask(*b)),
            VectorOp::Either(a, b) => format!("either {} {}", mask(*a), mask(*b)),
            VectorOp::When(n) => format!("when {n}"),
            VectorOp::Holds(e) => format!("holds {}", self.expr_of(e, locals)),
            VectorOp::Found(entries) => format!("found #{entries}"),
            VectorOp::Hits(m) => format!("hits {}", mask(*m)),
        }
    }
}

impl Parser {
    pub fn vector(&mut self) -> Res<VectorPlan> {
        let (mut v, mut n) = (VectorPlan::default(), 0);
        self.braces(|p| {
            match p.any_word()?.as_str() {
                "least" => {
                    v.least = p.num()?;
                    return p.sign(';');
                }
                "stack" => v.stack = p.steps(&mut n)?,
                "key" => {
                    v.key = p.steps(&mut n)?;
                    n = 0
                }
                "run" => v.run = Some(p.steps(&mut n)?),
                w => return p.error(format!("unknown word `{w}` in a vector plan")),
            }
            Ok(())
        })?;
        Ok(v)
    }

    fn steps(&mut self, n: &mut u32) -> Res<Vec<VectorStep>> {
        let mut steps = Vec::new();
        self.braces(|p| {
            let word = p.any_word()?;
            steps.push(p.step(&word, n)?);
            p.sign(';')
        })?;
        Ok(steps)
    }

    fn step(&mut self, word: &str, n: &mut u32) -> Res<VectorStep> {
        Ok(match word {
            "header" => VectorStep::Header(self.num()?),
            "let" => {
                let field = if self.is('#') { None } else { Some(self.str()?) };
                if self.index()? != *n {
                    return self.error(format!("the next value is #{n}"));
                }
                *n += 1;
                self.sign('=')?;
                VectorStep::Let(VectorValue { field, op: self.vector_op()? })
            }
            "stack" => VectorStep::Stack(self.mask()?),
            "last" => VectorStep::Last(self.num()?, self.mask()?),
            "pair" => VectorStep::Pair(self.num()?, self.number()?, self.number()?),
            "column" => VectorStep::Column(self.num()?, self.number()?),
            "even" => VectorStep::Even(self.num()?, self.num()?),
            "asks" => VectorStep::Asks(self.mask()?),
            "count" => VectorStep::Count(CounterId(self.index()?), self.num()?, self.mask()?),
            "sum" => VectorStep::Sum(CounterId(self.index()?), self.number()?, self.mask()?),
            "miss" => VectorStep::Miss(self.table()?, self.mask()?),
            "hit" => VectorStep::Hit(self.table()?, self.index()?),
            "send" => VectorStep::Send(self.destination()?, self.mask()?),
            w => return self.error(format!("unknown step `{w}` of a vector plan")),
        })
    }

    fn vector_op(&mut self) -> Res<VectorOp> {
        let word = self.any_word()?;
        if let Some(op) = value_of::<BinaryOp>(&word) {
            return Ok(VectorOp::Binary(op, self.number()?, self.number()?, self.under()?));
        }
        if let Some(op) = value_of::<Compare>(&word) {
            return Ok(VectorOp::Compare(op, self.number()?, self.number()?));
        }
        Ok(match word.as_str() {
            "words" => {
                let from = self.num()?;
                self.word("to")?;
                VectorOp::Words { from, to: self.num()?, places: self.list(Self::num)? }
            }
            "swap" => VectorOp::Swap(self.number()?),
            "bits" => {
                let of = self.number()?;
                self.word("shift")?;
                VectorOp::Bits { of, shift: self.num()?, mask: self.under()? }
            }
            "shl" => VectorOp::Shl(self.number()?, self.num()?),
            "choose" => VectorOp::Choose(self.mask()?, self.number()?, self.number()?),
            "param" => VectorOp::Param(self.expr()?),
            "entries" => VectorOp::Entries,
            "load" => {
                let table = self.table()?;
                let member = if self.eat_word("member") { Some(self.num()?) } else { None };
                VectorOp::Load { table, member, entries: self.index()?, mask: self.mask()? }
            }
            "has" => {
                let of = self.number()?;
                self.word("value")?;
                let value = self.num()?;
                self.word("mask")?;
                VectorOp::Has { of, value, mask: self.num()? }
            }
            "not" => VectorOp::Not(self.mask()?),
            "both" => VectorOp::Both(self.mask()?, self.mask()?),
            "either" => VectorOp::Either(self.mask()?, self.mask()?),
            "when" => VectorOp::When(self.num()?),
            "holds" => VectorOp::Holds(self.expr()?),
            "found" => VectorOp::Found(self.index()?),
            "hits" => VectorOp::Hits(self.mask()?),
            w => return self.error(format!("unknown operation `{w}` of a vector plan")),
        })
    }

    fn under(&mut self) -> Res<Option<u32>> {
        Ok(if self.eat_word("mask") { Some(self.num()?) } else { None })
    }

    fn number(&mut self) -> Res<NumberRef> {
        if self.eat_word("lengths") {
            return Ok(NumberRef::Lengths);
        }
        if !self.is('#') {
            return self.num().map(NumberRef::Const);
        }
        let n = self.index()?;
        if !self.eat('[') {
            return Ok(NumberRef::Value(n));
        }
        let word = self.num()?;
        self.sign(']')?;
        Ok(NumberRef::Word { rows: n, word })
    }

    fn mask(&mut self) -> Res<MaskRef> {
        for (word, mask) in [("all", MaskRef::All), ("none", MaskRef::None), ("stack", MaskRef::Stack)] {
            if self.eat_word(word) {
                return Ok(mask);
            }
        }
        self.index().map(MaskRef::Value)
    }
}
