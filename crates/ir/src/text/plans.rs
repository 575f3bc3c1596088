//! Plans about handlers and frame units, printed and parsed.

use super::lex::ARROW;
use super::parser::{Parser, Res};
use super::print::{reference, string, Printer};
use crate::plans::{
    BatchLookup, Condition, Destination, FastPath, HandlerPlan, HeaderReuse, HeaderSlot, HeaderStack, HoistedState,
    MessageRun, Pause, RunCount, Stage, StmtPath, TableLookup,
};
use crate::*;

impl Printer<'_> {
    pub fn plan(&mut self, plan: &HandlerPlan, locals: &[Local]) {
        match &plan.pause {
            Pause::Short => {}
            Pause::Yes { least, in_place, alone, within } => {
                let in_place = if *in_place { " in_place" } else { "" };
                let alone = if *alone { " alone" } else { "" };
                let within = if *within { " within" } else { "" };
                self.line(&format!("pauses least {least}{in_place}{alone}{within};"))
            }
            Pause::No(why) => self.line(&format!("runs_on {};", string(why))),
        }
        if let Some(r) = &plan.run {
            let head = format!("run {}{}", self.peer(r.to), self.in_protocol(r.protocol));
            self.braces(&head, "", &mut |p| p.message_run(r, locals))
        }
        if let Some(b) = &plan.batch {
            self.braces("batch", "", &mut |p| p.batch(b, locals))
        }
        if !plan.hoisted.is_empty() {
            self.braces("hoisted", "", &mut |p| p.hoisted(&plan.hoisted, locals))
        }
        if !plan.late.is_empty() {
            let list: Vec<String> = plan.late.iter().map(|l| self.local(*l, locals)).collect();
            self.line(&format!("late ({});", list.join(", ")))
        }
        if plan.specialized {
            self.line("specialized;")
        }
        if let Some(v) = &plan.vector {
            self.braces("vector", "", &mut |p| p.vector(v, locals))
        }
    }

    fn message_run(&mut self, r: &MessageRun, locals: &[Local]) {
        if let Some(when) = &r.when {
            let line = format!("when {};", self.expr_of(when, locals));
            self.line(&line)
        }
        for c in &r.counts {
            let when = c.when.as_ref().map_or(String::new(), |e| format!(" if {}", self.expr_of(e, locals)));
            let line = format!("count {} {}{when};", self.counter_ref(c.counter), self.expr_of(&c.by, locals));
            self.line(&line)
        }
    }

    fn hoisted(&mut self, h: &HoistedState, locals: &[Local]) {
        if !h.counters.is_empty() {
            let list: Vec<String> = h.counters.iter().map(|c| self.counter_ref(*c)).collect();
            self.line(&format!("counters ({});", list.join(", ")))
        }
        if !h.lookups.is_empty() {
            let list: Vec<String> = h.lookups.iter().map(|t| self.table(*t)).collect();
            self.line(&format!("lookups ({});", list.join(", ")))
        }
        for c in &h.conditions {
            let optional = if c.optional { "optional " } else { "" };
            let line = format!("condition {optional}{};", self.expr_of(&c.cond, locals));
            self.line(&line)
        }
        if let Some(t) = h.filled {
            let line = format!("filled {};", self.table(t));
            self.line(&line)
        }
        if let Some(d) = h.output {
            let line = format!("output {};", self.destination(d));
            self.line(&line)
        }
    }

    pub fn destination(&self, d: Destination) -> String {
        format!("{} [{}]", self.port_ref(d.port), d.instance)
    }

    pub fn counter_ref(&self, c: CounterId) -> String {
        reference(self.m.counters.get(c.index()).map(|c| c.name.as_str()), c.0)
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
        let split = l.split.as_ref().map_or(String::new(), |c| format!(" split {}", self.expr_of(c, locals)));
        let (table, key) = (self.table(l.table), self.expr_of(&l.key, locals));
        self.line(&format!("{word} {table} at {} [{key}]{guard}{split};", l.site))
    }

    pub fn slot(&mut self, unit: UnitId, s: &HeaderSlot) {
        let header = self.m.unit(unit).frame.as_ref().and_then(|f| f.layers.get(s.layer as usize)).map(|l| l.unit);
        let field = self.field_ref(header, s.field);
        self.line(&format!("slot {} {field};", self.layer_ref(unit, s.layer)))
    }

    /// A layer, by the name of its header.
    fn layer_ref(&self, unit: UnitId, n: u32) -> String {
        let field = self.m.unit(unit).frame.as_ref().and_then(|f| f.layers.get(n as usize)).map(|l| l.header);
        let name = field.and_then(|f| self.m.unit(unit).fields.get(f.index())).and_then(|f| f.name.as_deref());
        reference(name, n)
    }

    pub fn fast_path(&mut self, unit: UnitId, f: &FastPath) {
        let layer = |p: &Self, n: u32| p.layer_ref(unit, n);
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
        if self.eat_word("pauses") {
            self.word("least")?;
            plan.pause = Pause::Yes {
                least: self.num()?,
                in_place: self.eat_word("in_place"),
                alone: self.eat_word("alone"),
                within: self.eat_word("within"),
            };
            self.sign(';')?
        } else if self.eat_word("runs_on") {
            plan.pause = Pause::No(self.str()?);
            self.sign(';')?
        } else if self.eat_word("run") {
            plan.run = Some(self.message_run()?)
        } else if self.eat_word("batch") {
            plan.batch = Some(self.batch()?)
        } else if self.eat_word("hoisted") {
            plan.hoisted = self.hoisted()?
        } else if self.eat_word("late") {
            plan.late = self.list(Self::local)?;
            self.sign(';')?
        } else if self.eat_word("specialized") {
            plan.specialized = true;
            self.sign(';')?
        } else if self.eat_word("vector") {
            plan.vector = Some(self.vector()?)
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn message_run(&mut self) -> Res<MessageRun> {
        let (to, protocol) = (self.peer()?, self.in_protocol()?);
        let mut r = MessageRun { to, protocol, when: None, counts: Vec::new() };
        self.braces(|p| {
            match p.any_word()?.as_str() {
                "when" => r.when = Some(p.expr()?),
                "count" => {
                    let (counter, by) = (CounterId(p.index()?), p.expr()?);
                    let when = if p.eat_word("if") { Some(p.expr()?) } else { None };
                    r.counts.push(RunCount { counter, by, when })
                }
                w => return p.error(format!("unknown word `{w}` in a run of messages")),
            }
            p.sign(';')
        })?;
        Ok(r)
    }

    fn hoisted(&mut self) -> Res<HoistedState> {
        let mut h = HoistedState::default();
        self.braces(|p| {
            match p.any_word()?.as_str() {
                "counters" => h.counters = p.list(|p| p.index().map(CounterId))?,
                "lookups" => h.lookups = p.list(Self::table)?,
                "condition" => {
                    let optional = p.eat_word("optional");
                    h.conditions.push(Condition { cond: p.expr()?, optional })
                }
                "filled" => h.filled = Some(p.table()?),
                "output" => h.output = Some(p.destination()?),
                w => return p.error(format!("unknown word `{w}` in hoisted state")),
            }
            p.sign(';')
        })?;
        Ok(h)
    }

    pub fn destination(&mut self) -> Res<Destination> {
        let port = PortId(self.index()?);
        self.sign('[')?;
        let instance = self.num()?;
        self.sign(']')?;
        Ok(Destination { port, instance })
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
        let site = self.stmt_path()?;
        let key = self.key()?;
        let mut guard = Vec::new();
        while self.eat_word("if") {
            guard.push(self.expr()?)
        }
        let split = if self.eat_word("split") { Some(self.expr()?) } else { None };
        Ok(TableLookup { table, site, key, guard, split })
    }

    pub fn stmt_path(&mut self) -> Res<StmtPath> {
        let mut path = vec![self.num()?];
        while self.eat('.') {
            path.push(self.num()?)
        }
        Ok(StmtPath(path))
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
