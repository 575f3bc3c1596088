//! Sixteen frames at a time: prints vector plans ([`VectorPlan`]) as C over support/simd.h.

use crate::frame_counts::destination;
use crate::gen::Gen;
use crate::names;
use crate::scope::Scope;
use std::collections::BTreeMap;
use wireloom_ir::plans::{BinaryOp, Compare, MaskRef, NumberRef, VectorOp, VectorPlan, VectorStep};
use wireloom_ir::*;

/// The C of a vectorized handler: what comes before, and what comes behind the lookups of a batch.
pub(crate) struct VectorHandler<'m> {
    pub plan: &'m VectorPlan,
    /// Statements that find the frames of the stack (`ok`), and pack their keys.
    pub ready: String,
    /// The handler for them.
    pub run: String,
}

/// The C of the vectorized keys of an exact table.
pub(crate) struct VectorKeys<'m> {
    pub plan: &'m VectorPlan,
    /// Statements that find the frames of the stack (`ok`), pack their keys into `words`, and say
    /// which of them ask (`asks`).
    pub ready: String,
    /// Headers that all have, a bit for each.
    pub has: u64,
    /// Where the headers begin.
    pub at: BTreeMap<u32, u32>,
    /// They are looked up for the whole batch.
    pub seen: bool,
}

impl<'m> Gen<'m> {
    /// The vectorized form of a handler, if it has one.
    pub fn vector_handler(&mut self, h: &'m Handler, unit: UnitId, batched: bool) -> Option<VectorHandler<'m>> {
        let plan = h.plan.vector.as_ref().filter(|_| batched == h.plan.batch.is_some())?;
        let run = plan.run.as_ref()?;
        let mut p = StepPrinter::new(self, unit, batched);
        p.steps(&plan.stack);
        let mut ready = String::new();
        if batched {
            p.out.push_str("if (ok) {\n");
            p.steps(&plan.key);
            p.out.push_str("}\n");
            ready = p.next_loop()
        } else {
            p.out.push_str("if (ok) {\n")
        }
        p.steps(run);
        let mut run = p.next_loop();
        let counted = if plan.output().is_some() { "wl_lanes_count_left(&left, to, lengths);\n" } else { "" };
        // A frame that has not been sent is dropped.
        if !plan.outputs().is_empty() {
            run = format!("wl_lanes to = wl_lanes_set(WL_GONE);\n{run}{counted}wl_lanes_leave(g, to);\n")
        }
        if !batched {
            run.push_str("}\n")
        }
        Some(VectorHandler { plan, ready, run })
    }

    /// The vectorized keys of a handler that runs frame by frame, if it has them.
    pub fn vector_keys(&mut self, h: &'m Handler, unit: UnitId, seen: bool) -> Option<VectorKeys<'m>> {
        let plan = h.plan.vector.as_ref().filter(|p| p.run.is_none())?;
        let stack = self.stack(unit)?;
        let mut p = StepPrinter::new(self, unit, false);
        p.steps(&plan.stack);
        p.steps(&plan.key);
        let ready = p.next_loop();
        let single = stack.stages.iter().filter(|list| list.len() == 1).flatten();
        Some(VectorKeys {
            plan,
            ready,
            has: single.fold(0, |has, s| has | 1 << s.layer),
            at: stack.stages.iter().flatten().map(|s| (s.layer, s.at)).collect(),
            seen,
        })
    }
}

struct StepPrinter<'a, 'm> {
    g: &'a mut Gen<'m>,
    unit: UnitId,
    out: String,
    /// The C names of the values of this loop.
    names: Vec<String>,
    /// The key is that of a table of masks.
    masked: bool,
}

fn mask_text(m: MaskRef, names: &[String]) -> String {
    match m {
        MaskRef::All => "WL_LANES_ALL".into(),
        MaskRef::None => "0u".into(),
        MaskRef::Stack => "ok".into(),
        MaskRef::Value(n) => names[n as usize].clone(),
    }
}

impl<'a, 'm> StepPrinter<'a, 'm> {
    fn new(g: &'a mut Gen<'m>, unit: UnitId, masked: bool) -> Self {
        StepPrinter { g, unit, out: String::new(), names: Vec::new(), masked }
    }

    /// The text so far; a new loop begins.
    fn next_loop(&mut self) -> String {
        self.names.clear();
        std::mem::take(&mut self.out)
    }

    fn number(&self, n: NumberRef) -> String {
        match n {
            NumberRef::Const(n) => format!("wl_lanes_set({n}u)"),
            NumberRef::Value(n) => self.names[n as usize].clone(),
            NumberRef::Word { rows, word } => format!("{}.w[{word}]", self.names[rows as usize]),
            NumberRef::Lengths => "lengths".into(),
        }
    }

    fn mask(&self, m: MaskRef) -> String {
        mask_text(m, &self.names)
    }

    fn steps(&mut self, steps: &'m [VectorStep]) {
        steps.iter().for_each(|s| self.step(s))
    }

    fn step(&mut self, s: &'m VectorStep) {
        let text = match s {
            VectorStep::Header(n) => {
                let title = format!("/* {} */", self.g.layer_title(self.unit, &self.g.layers(self.unit)[*n as usize]));
                if self.out.contains(&title) {
                    return;
                }
                title
            }
            VectorStep::Let(v) => {
                let (prefix, ty) = kind(&v.op);
                let prefix = v.field.as_ref().map_or(prefix.into(), |f| format!("{}_", names::ident(f)));
                let (name, text) = (format!("{prefix}{}", self.names.len()), self.op(&v.op));
                self.names.push(name.clone());
                format!("const {ty} {name} = {text};")
            }
            VectorStep::Stack(m) => format!("ok = {};", self.mask(*m)),
            VectorStep::Last(layer, m) => format!("is_{layer} |= (uint64_t){} << k;", self.mask(*m)),
            VectorStep::Pair(w, low, high) => {
                format!("wl_lanes_pairs(&words[{w}][k], {}, {});", self.number(*low), self.number(*high))
            }
            VectorStep::Column(w, v) => format!("wl_lanes_store(column[{w}] + k, {});", self.number(*v)),
            // Such words are filled once, before the loop.
            VectorStep::Even(..) => return,
            VectorStep::Asks(m) if !self.masked => format!("asks |= (uint64_t){} << k;", self.mask(*m)),
            VectorStep::Asks(MaskRef::Stack) => "who |= (uint64_t)ok << k;".into(),
            VectorStep::Asks(m) => format!("who |= (uint64_t)({}) << k;", self.mask(*m)),
            VectorStep::Count(c, 1, m) => format!("keep.c{} += wl_lanes_count({});", c.0, self.mask(*m)),
            VectorStep::Count(c, n, m) => {
                format!("keep.c{} += UINT64_C({n}) * wl_lanes_count({});", c.0, self.mask(*m))
            }
            VectorStep::Sum(c, v, m) => {
                format!("sums_{0} = wl_lanes_more(sums_{0}, {1}, {2});", c.0, self.mask(*m), self.number(*v))
            }
            VectorStep::Miss(t, m) => {
                format!("keep.asked_{} += (uint64_t)wl_lanes_count({}) << 32;", t.0, self.mask(*m))
            }
            VectorStep::Hit(t, hits) => {
                format!("keep.asked_{0} += {1} - ({1} << 32);", t.0, self.names[*hits as usize])
            }
            VectorStep::Send(to, m) => {
                format!("to = wl_lanes_choose({}, wl_lanes_set({}), to);", self.mask(*m), destination(*to))
            }
        };
        self.out.push_str(&text);
        self.out.push('\n')
    }

    fn op(&mut self, op: &'m VectorOp) -> String {
        let call = |name: &str, args: &[String]| format!("wl_lanes_{name}({})", args.join(", "));
        match op {
            VectorOp::Words { from, to, places } => {
                let last = places.last().copied().unwrap_or(0);
                let places: String = (0..8).map(|k| format!(", {}", places.get(k).copied().unwrap_or(last))).collect();
                format!("wl_lanes_words(g, {from}, {to}{places})")
            }
            VectorOp::Swap(v) => call("swap", &[self.number(*v)]),
            VectorOp::Bits { of, shift, mask } => {
                let text = self.number(*of);
                under(if *shift == 0 { text } else { call("shr", &[text, shift.to_string()]) }, *mask)
            }
            VectorOp::Shl(v, by) => call("shl", &[self.number(*v), by.to_string()]),
            VectorOp::Binary(op, a, b, mask) => {
                let name = match op {
                    BinaryOp::Add => "add",
                    BinaryOp::Sub => "sub",
                    BinaryOp::Mul => "mul",
                    BinaryOp::And => "and",
                    BinaryOp::Or => "or",
                    BinaryOp::Xor => "xor",
                };
                under(call(name, &[self.number(*a), self.number(*b)]), *mask)
            }
            VectorOp::Choose(m, a, b) => call("choose", &[self.mask(*m), self.number(*a), self.number(*b)]),
            VectorOp::Param(e) => call("set", &[self.g.expr(&Scope::default(), e)]),
            VectorOp::Entries => "wl_lanes_load(entry + k)".into(),
            VectorOp::Load { table, member, entries, mask } => self.load(*table, *member, *entries, *mask),
            VectorOp::Has { of, mask, value } => {
                call("has", &[self.number(*of), format!("{mask:#x}u"), format!("{value:#x}u")])
            }
            VectorOp::Compare(op, a, b) => {
                let name = match op {
                    Compare::Eq => "eq",
                    Compare::Lt => "lt",
                    Compare::Le => "le",
                };
                call(name, &[self.number(*a), self.number(*b)])
            }
            VectorOp::Not(m) => format!("{} ^ WL_LANES_ALL", self.mask(*m)),
            VectorOp::Both(a, b) => format!("{} & {}", self.mask(*a), self.mask(*b)),
            VectorOp::Either(a, b) => format!("{} | {}", self.mask(*a), self.mask(*b)),
            VectorOp::When(n) => format!("wl_lanes_all(keep.when_{n})"),
            VectorOp::Holds(e) => call("all", &[self.g.expr(&Scope::default(), e)]),
            VectorOp::Found(entries) => {
                format!("wl_lanes_eq({}, wl_lanes_set(UINT32_MAX)) ^ WL_LANES_ALL", self.names[*entries as usize])
            }
            VectorOp::Hits(m) => call("count", &[self.mask(*m)]),
        }
    }

    fn load(&mut self, table: TableId, member: Option<u32>, entries: u32, mask: MaskRef) -> String {
        let value = self.g.m.tables[table.index()].value;
        let (c, name, members) = (self.g.cty(value), names::table(self.g.m, table), self.g.members(value));
        let place =
            member.and_then(|n| members.get(n as usize)).map_or("0".into(), |m| format!("offsetof({c}, {})", m.0));
        let (entries, mask) = (&self.names[entries as usize], self.mask(mask));
        format!("wl_lanes_at(wl_state(x)->{name}_value, {entries}, sizeof({c}), {place}, wl_state(x)->{name}.fresh, {mask})")
    }
}

fn under(text: String, mask: Option<u32>) -> String {
    mask.map_or(text.clone(), |m| format!("wl_lanes_and({text}, wl_lanes_set({m:#x}u))"))
}

/// How the C names of such values begin, and their type.
fn kind(op: &VectorOp) -> (&'static str, &'static str) {
    match op {
        VectorOp::Words { .. } => ("words", "wl_lanes_8"),
        VectorOp::Entries => ("entries", "wl_lanes"),
        VectorOp::Hits(_) => ("hits", "uint64_t"),
        VectorOp::Swap(_)
        | VectorOp::Bits { .. }
        | VectorOp::Shl(..)
        | VectorOp::Binary(..)
        | VectorOp::Choose(..)
        | VectorOp::Param(_)
        | VectorOp::Load { .. } => ("w", "wl_lanes"),
        VectorOp::Has { .. }
        | VectorOp::Compare(..)
        | VectorOp::Not(_)
        | VectorOp::Both(..)
        | VectorOp::Either(..)
        | VectorOp::When(_)
        | VectorOp::Holds(_)
        | VectorOp::Found(_) => ("b", "uint32_t"),
    }
}
