//! Plans about handlers and frame units, printed and parsed.

use super::lex::ARROW;
use super::parse::{Parser, Res};
use super::print::{reference, Printer};
use crate::plans::{BatchLookup, FastPath, HandlerPlan, HeaderReuse, HeaderStack, Stage, StmtPath, TableLookup};
use crate::*;

impl Printer<'_> {
    pub fn plan(&mut self, plan: &HandlerPlan, locals: &[Local]) {
        if let Some(b) = &plan.batch {
            self.braces("batch", "", &mut |p| p.batch(b, locals))
        }
    }

    fn batch(&mut self, b: &BatchLookup, locals: &[Local]) {
        for (word, lookup) in [("exact", &b.exact), ("masked", &b.masked)] {
            if let Some(l) = lookup {
                self.lookup(word, l, locals)
            }
        }
        if b.sure {
            self.line("sure;")
        }
        if let HeaderReuse::Places(list) = &b.reuse {
            let list: Vec<String> = list.iter().map(u32::to_string).collect();
            self.line(&format!("places ({});", list.join(", ")))
        }
        if !b.unused.is_empty() {
            let list: Vec<String> = b.unused.iter().map(|l| self.local(*l, locals)).collect();
            self.line(&format!("unused ({});", list.join(", ")))
        }
    }

    fn lookup(&mut self, word: &str, l: &TableLookup, locals: &[Local]) {
        let guard: String = l.guard.iter().map(|c| format!(" if {}", self.expr_of(c, locals))).collect();
        let line = format!("{word} {} at {} [{}]{guard};", self.table(l.table), l.site, self.expr_of(&l.key, locals));
        self.line(&line)
    }

    pub fn fast_path(&mut self, unit: UnitId, f: &FastPath) {
        let layer = |p: &Self, n: u32| {
            let field = p.m.unit(unit).frame.as_ref().and_then(|f| f.layers.get(n as usize)).map(|l| l.header);
            let name = field.and_then(|f| p.m.unit(unit).fields.get(f.index())).and_then(|f| f.name.as_deref());
            reference(name, n)
        };
        self.braces("fast_path", "", &mut |p| {
            for (from, to) in &f.steps {
                let from = from.map_or("start".into(), |n| layer(p, n));
                let line = format!("step {from} -> {};", layer(p, *to));
                p.line(&line)
            }
            let Some(stack) = &f.stack else { return };
            p.line(&format!("least {};", stack.least));
            for list in &stack.stages {
                let list: Vec<String> = list.iter().map(|s| stage(&layer(p, s.layer), s)).collect();
                p.line(&format!("stage ({});", list.join(", ")))
            }
        });
    }
}

fn stage(layer: &str, s: &Stage) -> String {
    let bits: Vec<String> = s.bits.iter().map(|(at, (mask, value))| format!("{at}: {value}/{mask}")).collect();
    let known: Vec<String> = s.known.iter().map(|(f, v)| format!("#{} = {v}", f.0)).collect();
    format!("{layer} at {} least {} bits ({}) known ({})", s.at, s.least, bits.join(", "), known.join(", "))
}

impl Parser {
    /// A plan, if the next word is the name of one.
    pub fn plan(&mut self, plan: &mut HandlerPlan) -> Res<bool> {
        if !self.eat_word("batch") {
            return Ok(false);
        }
        plan.batch = Some(self.batch()?);
        Ok(true)
    }

    fn batch(&mut self) -> Res<BatchLookup> {
        let mut b =
            BatchLookup { exact: None, masked: None, sure: false, unused: Vec::new(), reuse: HeaderReuse::Parse };
        self.braces(|p| {
            match p.any_word()?.as_str() {
                "exact" => b.exact = Some(p.lookup()?),
                "masked" => b.masked = Some(p.lookup()?),
                "sure" => b.sure = true,
                "places" => b.reuse = HeaderReuse::Places(p.list(Self::num)?),
                "unused" => b.unused = p.list(Self::local)?,
                w => return p.error(format!("unknown word `{w}` in a plan of lookups")),
            }
            p.sign(';')
        })?;
        Ok(b)
    }

    fn lookup(&mut self) -> Res<TableLookup> {
        let table = self.table()?;
        self.word("at")?;
        let mut site = vec![self.num()?];
        while self.eat('.') {
            site.push(self.num()?)
        }
        let key = self.key()?;
        let mut guard = Vec::new();
        while self.eat_word("if") {
            guard.push(self.expr()?)
        }
        Ok(TableLookup { table, site: StmtPath(site), key, guard })
    }

    pub fn fast_path(&mut self) -> Res<FastPath> {
        let (mut steps, mut stack) = (Vec::new(), None);
        self.braces(|p| {
            match p.any_word()?.as_str() {
                "step" => {
                    let from = if p.eat_word("start") { None } else { Some(p.index()?) };
                    p.sign(ARROW)?;
                    steps.push((from, p.index()?))
                }
                "least" => stack = Some(HeaderStack { least: p.num()?, stages: Vec::new() }),
                "stage" => match &mut stack {
                    Some(stack) => stack.stages.push(p.list(Self::stage)?),
                    None => return p.error("`least` comes before the stages"),
                },
                w => return p.error(format!("unknown word `{w}` in a fast path")),
            }
            p.sign(';')
        })?;
        Ok(FastPath { steps, stack })
    }

    fn stage(&mut self) -> Res<Stage> {
        let layer = self.index()?;
        self.word("at")?;
        let at = self.num()?;
        self.word("least")?;
        let least = self.num()?;
        self.word("bits")?;
        let bits = self.list(|p| {
            let at = p.num()?;
            p.sign(':')?;
            let value = p.num()?;
            p.sign('/')?;
            Ok((at, (p.num()?, value)))
        })?;
        self.word("known")?;
        let known = self.list(|p| {
            let f = FieldId(p.index()?);
            p.sign('=')?;
            Ok((f, p.num()?))
        })?;
        Ok(Stage { layer, at, least, bits: bits.into_iter().collect(), known: known.into_iter().collect() })
    }
}
