//! Analysis of grammars: sizes, first bytes, head and tail of every unit, and forms that the
//! checker refuses.
//!
//! In: a module as it was lowered. Its units' `tail`, `streams`, `min`, `max`, `head_max` and
//! `first` are ignored. Out: these are set, and there is a list of [`Finding`]s, in order of the
//! units. Stages: nesting order (a cycle ends the analysis) → [`computed`] (so does an expression
//! that is too large) → [`measure`] → [`tail`] and [`late_reads`] → [`check`].

mod check;
pub mod computed;
mod datagrams;
mod extents;
mod ids;
pub mod late_reads;
pub mod measure;
mod message_ends;
pub mod params;
pub mod tail;

pub use tail::{begins_tail, body_needs_tail, edit_path, rule, Rule};

use crate::*;
use measure::Facts;

/// A diagnostic in the making: codes E0401 to E0418, and of ports over UDP E0680 to E0682.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub code: &'static str,
    pub span: Span,
    pub message: String,
    pub labels: Vec<(Span, String)>,
    pub hint: Option<String>,
}

impl Finding {
    fn new(code: &'static str, span: Span, message: String) -> Self {
        Finding { code, span, message, labels: Vec::new(), hint: None }
    }
    fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push((span, text.into()));
        self
    }
    fn hint(mut self, text: impl Into<String>) -> Self {
        self.hint = Some(text.into());
        self
    }
}

/// Every code of this module and its title.
pub const CODES: &[(&str, &str)] = &[
    ("E0401", "a list's element begins like the list's end"),
    ("E0402", "a switch case that can never be taken"),
    ("E0403", "a repeated item that may be empty"),
    ("E0404", "a field without a largest size"),
    ("E0405", "a head that may be longer than 1 MiB"),
    ("E0406", "a unit that contains itself"),
    ("E0407", "a field behind a stream is read"),
    ("E0408", "unit parameters of more than 64 bits"),
    ("E0409", "`order by` a field that cannot carry any id"),
    ("E0410", "two protocols of a port begin with the same bytes"),
    ("E0411", "a run of bytes that swallows the next field, or the next message"),
    ("E0412", "a message too large to be held"),
    ("E0413", "a delimiter or literal without bytes"),
    ("E0414", "bytes are read that have flowed by"),
    ("E0415", "a computed field of too much"),
    ("E0416", "a unit of too many fields"),
    ("E0418", "a request that may begin with bytes that its protocol ignores"),
];

/// Largest head of a message.
pub const HEAD_LIMIT: u64 = 1 << 20;
/// Largest message that the program may need whole.
pub const WHOLE_LIMIT: u64 = 16 << 20;

/// Computes the sizes and first bytes of each unit, and reports unacceptable grammars.
pub fn analyze(m: &mut Module) -> Vec<Finding> {
    let order = match nesting_order(m) {
        Ok(order) => order,
        Err(findings) => return findings,
    };
    let mut findings = computed::too_large(m, &order);
    check::too_many_fields(m, &order, &mut findings);
    if !findings.is_empty() {
        return findings;
    }
    let mut facts = Facts::new(m);
    for &u in &order {
        facts.add(m, u)
    }
    for u in 0..m.units.len() {
        let id = UnitId(u as u32);
        let rule = natural_rule_of(m, id, &mut findings);
        let fact = facts.unit(id);
        let tail = tail::tail_position(m, rule, id);
        let (head_max, culprit) = tail::head_max(m, &facts, rule, id);
        let streams = tail::natural_rule(m, id) == Rule::Streams;
        let unit = &mut m.units[u];
        let limit = unit.limit.unwrap_or(u64::MAX);
        (unit.tail, unit.streams, unit.head_max) = (tail, streams, head_max.min(limit));
        (unit.min, unit.max, unit.first) = (fact.min, fact.max.min(limit), fact.first_or_all());
        check::head(m, id, rule, culprit, &mut findings);
    }
    check::units(m, &facts, &mut findings);
    check::protocols(m, &facts, &mut findings);
    datagrams::check(m, &mut findings);
    message_ends::check(m, &facts, &mut findings);
    message_ends::ignored(m, &facts, &mut findings);
    findings
}

/// The natural rule, or `Whole` where the program needs the message's tail before it is handled, or
/// has the whole message anyhow.
fn natural_rule_of(m: &Module, unit: UnitId, findings: &mut Vec<Finding>) -> Rule {
    let rule = tail::natural_rule(m, unit);
    if arrives(m, unit) {
        check::early_passes(m, unit, findings)
    }
    match rule {
        Rule::Streams => {
            check::stream_reads(m, unit, findings);
            check::late_reads(m, unit, findings);
            rule
        }
        _ if needed_whole(m, unit) || only_parsed(m, unit) || !late_reads::late(m, rule, unit).is_empty() => {
            Rule::Whole
        }
        Rule::Long | Rule::Whole => rule,
    }
}

/// Whether `parse` reads a unit from bytes that are all there, and it never arrives on a
/// connection.
fn only_parsed(m: &Module, unit: UnitId) -> bool {
    let mut parsed = false;
    m.bodies(&mut |b| walk::stmts(&b.block, &mut |s| parsed |= walk::parsed_unit(&s.kind) == Some(unit)));
    parsed && !arrives(m, unit)
}

/// Whether a unit is a message of a protocol or of a merge.
fn arrives(m: &Module, unit: UnitId) -> bool {
    m.protocols.iter().any(|p| p.request == unit || p.response == Some(unit)) || m.merges.iter().any(|g| g.unit == unit)
}

/// Whether code that runs when a message of this unit arrives needs the tail: its handler, its
/// protocol's clauses, its fault answers, a merge. A response's reader is not meant: it holds the
/// answer instead.
fn needed_whole(m: &Module, unit: UnitId) -> bool {
    let rule = Rule::Long;
    let clauses = m.protocols.iter().any(|p| {
        let request = p.request_clauses().into_iter().flatten().chain(&p.response_args).collect::<Vec<_>>();
        let response = p.response_clauses().into_iter().flatten().collect::<Vec<_>>();
        let needs = |list: Vec<&Expr>| {
            list.into_iter().any(|e| {
                let mut found = false;
                walk::expr(e, &mut |e| found |= tail::needs_tail(m, rule, unit, e));
                found
            })
        };
        (p.request == unit
            && (needs(request)
                || p.on_log.as_ref().is_some_and(|b| body_needs_tail(m, rule, unit, b, LocalId(0)))
                || p.on_fault.as_ref().is_some_and(|b| body_needs_tail(m, rule, unit, b, LocalId(2)))))
            || (p.response == Some(unit)
                && (needs(response)
                    || [&p.on_interim, &p.on_answer]
                        .into_iter()
                        .flatten()
                        .any(|b| body_needs_tail(m, rule, unit, b, LocalId(0)))))
    });
    let handlers = m.handlers.iter().any(|h| {
        m.message_of(h.on).is_some_and(|(_, u)| u == unit) && body_needs_tail(m, rule, unit, &h.body, LocalId(0))
    });
    // A message that is parsed again has waited whole.
    let mut parsed = false;
    for h in m.handlers.iter().filter(|h| !h.on.is_test()) {
        walk::stmts(&h.body.block, &mut |s| parsed |= matches!(s.kind, StmtKind::Parse { unit: u, .. } if u == unit))
    }
    clauses || handlers || parsed || m.merges.iter().any(|g| g.unit == unit)
}

/// Units, nested ones first.
fn nesting_order(m: &Module) -> Result<Vec<UnitId>, Vec<Finding>> {
    let mut order = UnitOrder { m, state: vec![0; m.units.len()], order: Vec::new(), findings: Vec::new() };
    for u in 0..m.units.len() {
        order.visit(UnitId(u as u32))
    }
    if order.findings.is_empty() {
        Ok(order.order)
    } else {
        Err(order.findings)
    }
}

struct UnitOrder<'a> {
    m: &'a Module,
    state: Vec<u8>,
    order: Vec<UnitId>,
    findings: Vec<Finding>,
}

impl UnitOrder<'_> {
    fn visit(&mut self, u: UnitId) {
        self.state[u.index()] = 1;
        for field in &self.m.unit(u).fields {
            let (FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. }) = &field.kind else { continue };
            match self.state.get(unit.index()) {
                Some(0) => self.visit(*unit),
                Some(1) => self.findings.push(
                    Finding::new("E0406", field.span, format!("unit `{}` contains itself", self.m.unit(*unit).name))
                        .label(field.span, format!("here `{}` is nested again", self.m.unit(*unit).name))
                        .hint("a message has a largest size: write the levels out, or use a list"),
                ),
                _ => {}
            }
        }
        self.state[u.index()] = 2;
        self.order.push(u);
    }
}

/// Offset and width of a field of a unit that always stands at the same place of the head: a whole
/// unsigned integer.
pub fn fixed_offset(m: &Module, unit: UnitId, field: FieldId) -> Option<(u32, u8)> {
    let facts = measured(m);
    fixed_offset_by(m, &facts, unit, field)
}

/// Whether a list in a tail is passed on at once, with its framing. Otherwise its items are passed
/// on one by one, as they are accepted.
pub fn passed_at_once(m: &Module, unit: UnitId, list: FieldId) -> bool {
    tail::at_once(m, &measured(m), unit, list)
}

fn measured(m: &Module) -> Facts {
    let mut facts = Facts::new(m);
    if let Ok(order) = nesting_order(m) {
        for u in order {
            facts.add(m, u)
        }
    }
    facts
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn fixed_offset_by(m: &Module, facts: &Facts, unit: UnitId, field: FieldId) -> Option<(u32, u8)> {
    let u = m.units.get(unit.index())?;
    let mut at = 0u64;
    for &f in &u.body {
        if f == field {
            return match u.fields.get(f.index())?.kind {
                FieldKind::UInt { bytes, shift: 0, bits, advance: true, signed: false, .. }
                    if bits as u32 == bytes as u32 * 8 =>
                {
                    Some((u32::try_from(at).ok()?, bytes))
                }
                _ => None,
            };
        }
        let fact = facts.field(m, unit, f);
        if fact.min != fact.max || begins_tail(m, unit, unit, f) {
            return None;
        }
        at = at.saturating_add(fact.min);
    }
    None
}

/// The field of the response that carries the id of `order by`: the same field, or the one of its
/// name.
pub fn order_field(m: &Module, p: &Protocol) -> Option<FieldId> {
    let (field, response) = (p.order_by?, p.response?);
    if response == p.request {
        return Some(field);
    }
    let name = m.units.get(p.request.index())?.fields.get(field.index())?.name.as_ref()?;
    m.units.get(response.index())?.fields.iter().position(|f| f.name.as_ref() == Some(name)).map(|f| FieldId(f as u32))
}
