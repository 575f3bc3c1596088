//! Findings of the grammar analysis: forms that a grammar must not have.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and FieldKind")]

use super::late_reads;
use super::measure::{digit_set, Facts};
use super::tail::{self, Rule};
use super::{fixed_offset_by, ids, order_field, Finding, HEAD_LIMIT, WHOLE_LIMIT};
use crate::*;

pub(super) fn units(m: &Module, facts: &Facts, out: &mut Vec<Finding>) {
    for u in 0..m.units.len() {
        let id = UnitId(u as u32);
        // A frame is found by its layers' conditions, not by the first bytes of its switches.
        if m.units[u].frame.is_some() {
            continue;
        }
        parameters(&m.units[u], out);
        least(&m.units[u], facts.unit(id).min, out);
        for f in 0..m.units[u].fields.len() {
            field(m, facts, id, FieldId(f as u32), out)
        }
        runs(m, facts, id, &m.units[u].body, out);
        for f in &m.units[u].fields {
            if let FieldKind::Switch { cases } = &f.kind {
                for c in cases {
                    runs(m, facts, id, &c.fields, out)
                }
            }
        }
    }
}

pub(super) fn name(m: &Module, unit: UnitId, field: &Field) -> String {
    let unit = &m.unit(unit).name;
    match &field.name {
        Some(n) => format!("`{unit}.{n}`"),
        None => format!("a field of `{unit}`"),
    }
}

/// The most fields of a unit, counting nested units each time. Its parser has room for each, and a
/// place to go on at.
const MOST_FIELDS: u64 = 4096;

/// Units with too many fields, each unit after its nested ones. Of units that hold one another, the
/// first is reported.
pub(super) fn too_many_fields(m: &Module, order: &[UnitId], out: &mut Vec<Finding>) {
    let mut sizes = vec![0u64; m.units.len()];
    for &u in order {
        let unit = m.unit(u);
        let inner = |f: &Field| match f.kind {
            FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => sizes[unit.index()],
            _ => 0,
        };
        let size = unit.fields.iter().fold(0u64, |sum, f| sum.saturating_add(1 + inner(f)));
        if size <= MOST_FIELDS {
            sizes[u.index()] = size;
            continue;
        }
        out.push(
            Finding::new(
                "E0416",
                unit.span,
                format!("`{}` has {size} fields, with those of the units in it; the limit is {MOST_FIELDS}", unit.name),
            )
            .hint("a list is one field with any number of items; unread bytes are one field, too"),
        );
    }
}

fn least(unit: &Unit, min: u64, out: &mut Vec<Finding>) {
    let Some(limit) = unit.limit.filter(|l| *l < min) else { return };
    let text = format!("`{}` has at least {min} bytes, and its limit is {limit}", unit.name);
    out.push(Finding::new("E0427", unit.span, text).hint("raise the limit"));
}

fn parameters(unit: &Unit, out: &mut Vec<Finding>) {
    let bits: u32 = unit.params.iter().map(|p| p.bits as u32).sum();
    if bits > 64 || unit.params.iter().any(|p| p.shift as u32 + p.bits as u32 > 64) {
        out.push(
            Finding::new(
                "E0408",
                unit.span,
                format!("the parameters of `{}` need {bits} bits; there are 64", unit.name),
            )
            .hint("parameters travel in one word with the message: use narrower types, or pass a bool"),
        );
    }
}

fn field(m: &Module, facts: &Facts, unit: UnitId, id: FieldId, out: &mut Vec<Finding>) {
    let field = &m.unit(unit).fields[id.index()];
    match &field.kind {
        FieldKind::Bytes { max, extent, .. } => {
            if *max == u64::MAX {
                no_maximum(m, unit, field, out)
            }
            if let Extent::Until(u) = extent {
                delimiters(field, u, out)
            }
        }
        FieldKind::Number { until: Some(u), .. } => delimiters(field, u, out),
        FieldKind::Literal { values } => literals(field, values, out),
        FieldKind::List { max, .. } => {
            if *max == u32::MAX {
                no_maximum(m, unit, field, out)
            }
            list(m, facts, unit, field, out);
        }
        FieldKind::StreamUnit { unit: item, until: Some(_), .. } if facts.unit(*item).min == 0 => {
            empty_item(m, unit, field, field.span, out)
        }
        FieldKind::Switch { cases } => switch(m, unit, field, cases, out),
        FieldKind::UInt { .. }
        | FieldKind::Number { .. }
        | FieldKind::Varint { .. }
        | FieldKind::Flag { .. }
        | FieldKind::Unit { .. }
        | FieldKind::StreamBytes { .. }
        | FieldKind::StreamUnit { .. }
        | FieldKind::Let { .. }
        | FieldKind::Require { .. }
        | FieldKind::Recover { .. }
        | FieldKind::Pass { .. }
        | FieldKind::Align { .. }
        | FieldKind::Nothing => {}
    }
}

fn no_maximum(m: &Module, unit: UnitId, field: &Field, out: &mut Vec<Finding>) {
    out.push(
        Finding::new("E0404", field.span, format!("{} has no largest size", name(m, unit, field)))
            .hint("give a maximum: `bytes<4KiB>`, `list<Item, 100>`, or let it flow through with `stream`"),
    );
}

fn empty_item(m: &Module, unit: UnitId, field: &Field, item: Span, out: &mut Vec<Finding>) {
    out.push(
        Finding::new(
            "E0403",
            field.span,
            format!("an item of {} may consume nothing, so the list may never end", name(m, unit, field)),
        )
        .label(item, "this may be empty")
        .hint("let every item have at least one byte, such as a delimiter"),
    );
}

fn delimiters(field: &Field, until: &Until, out: &mut Vec<Finding>) {
    literals(field, &until.delimiters, out)
}

fn literals(field: &Field, values: &[Vec<u8>], out: &mut Vec<Finding>) {
    if values.is_empty() || values.iter().any(|v| v.is_empty()) {
        out.push(Finding::new(
            "E0413",
            field.span,
            "a literal or delimiter here has no bytes: it would match anywhere".into(),
        ));
    }
}

fn list(m: &Module, facts: &Facts, unit: UnitId, field: &Field, out: &mut Vec<Finding>) {
    let FieldKind::List { element, extent, .. } = &field.kind else { return };
    let element = *element;
    let one = facts.field(m, unit, element);
    let span = m.unit(unit).fields[element.index()].span;
    if one.min == 0 {
        return empty_item(m, unit, field, span, out);
    }
    let ListExtent::Until(until) = extent else { return };
    delimiters(field, until, out);
    let decided = leading(m, unit, element, 0);
    for d in &until.delimiters {
        let clash = match &decided {
            // Both sides are literals: the longer look decides unless one is a beginning of the
            // other.
            Some(values) => values.iter().any(|v| v.starts_with(d) || d.starts_with(v)),
            None => d.first().is_some_and(|b| one.first_or_all().has(*b)),
        };
        if clash {
            out.push(
                Finding::new(
                    "E0401",
                    field.span,
                    format!("an element of {} may begin like the list's end {}", name(m, unit, field), show(d)),
                )
                .label(span, "the element")
                .hint("restrict the element's first bytes (`of` a charset), or end the list by a count"),
            );
            return;
        }
    }
}

/// The literals that a field always begins with, if that is so.
fn leading(m: &Module, unit: UnitId, f: FieldId, depth: u32) -> Option<Vec<Vec<u8>>> {
    if depth > layout::MAX_DEPTH {
        return None;
    }
    match &m.unit(unit).fields[f.index()].kind {
        FieldKind::Literal { values } => Some(values.clone()),
        FieldKind::Switch { cases } => {
            let mut all = Vec::new();
            for c in cases {
                match &c.guard {
                    Guard::Literal { values, .. } => all.extend(values.iter().cloned()),
                    Guard::Fault(_) => {}
                    Guard::When(_) | Guard::Else => return None,
                }
            }
            Some(all)
        }
        FieldKind::Unit { unit, .. } => {
            let u = m.unit(*unit);
            let first = u.body.iter().find(|f| {
                !matches!(
                    u.fields[f.index()].kind,
                    FieldKind::Let { .. }
                        | FieldKind::Require { .. }
                        | FieldKind::Recover { .. }
                        | FieldKind::Pass { .. }
                        | FieldKind::Nothing
                )
            })?;
            leading(m, *unit, *first, depth + 1)
        }
        _ => None,
    }
}

fn switch(m: &Module, unit: UnitId, field: &Field, cases: &[Case], out: &mut Vec<Finding>) {
    let mut seen: Vec<&Vec<u8>> = Vec::new();
    let mut asked: Vec<&Expr> = Vec::new();
    let mut all_taken = false;
    for (n, case) in cases.iter().enumerate() {
        let span = case.fields.first().map_or(field.span, |f| m.unit(unit).fields[f.index()].span);
        let label = case.name.clone().unwrap_or_else(|| format!("number {}", n + 1));
        let mut never = |why: String| {
            out.push(
                Finding::new(
                    "E0402",
                    field.span,
                    format!("case {label} of {} is never taken: {why}", name(m, unit, field)),
                )
                .label(span, "this case")
                .hint("the first case that matches is taken: put the longer literal, or the narrower condition, first"),
            );
        };
        if all_taken {
            never("a case before it always matches".into());
            continue;
        }
        match &case.guard {
            Guard::Literal { values, .. } => {
                for v in values {
                    if let Some(earlier) = seen.iter().find(|s| v.starts_with(s)) {
                        never(format!("{} already takes {}", show(earlier), show(v)))
                    }
                    seen.push(v);
                }
                if values.iter().any(|v| v.is_empty()) {
                    all_taken = true
                }
            }
            Guard::When(e) => match *e.kind {
                ExprKind::Bool(true) => all_taken = true,
                ExprKind::Bool(false) => never("its condition never holds".into()),
                _ => {
                    let mut ways = Vec::new();
                    terms(e, &mut ways);
                    if ways.iter().all(|w| asked.contains(w)) {
                        never("cases before it take the same values".into())
                    }
                    asked.extend(ways);
                }
            },
            Guard::Else | Guard::Fault(_) => all_taken = true,
        }
    }
}

/// The terms of `a or b or c`.
fn terms<'e>(e: &'e Expr, out: &mut Vec<&'e Expr>) {
    match &*e.kind {
        ExprKind::Binary(BinOp::Or, a, b) => {
            terms(a, out);
            terms(b, out)
        }
        _ => out.push(e),
    }
}

/// A run takes every byte it can: the next field must be able to begin with another one.
fn runs(m: &Module, facts: &Facts, unit: UnitId, fields: &[FieldId], out: &mut Vec<Finding>) {
    for (n, f) in fields.iter().enumerate() {
        let field = &m.unit(unit).fields[f.index()];
        let to_end = matches!(
            field.kind,
            FieldKind::Bytes { extent: Extent::ToEnd | Extent::Close, .. }
                | FieldKind::StreamBytes { extent: Extent::Close }
                | FieldKind::List { extent: ListExtent::ToEnd, .. }
        );
        let class = match &field.kind {
            _ if to_end => ByteSet::ALL,
            FieldKind::Bytes { class, extent: Extent::Run, .. } => class.unwrap_or(ByteSet::ALL),
            FieldKind::Number { radix, exact: false, until: None, .. } => digit_set(*radix),
            _ => continue,
        };
        let rest = facts.sequence(m, unit, &fields[n + 1..]);
        if rest.empty || rest.first.is_empty() || !rest.first.is_subset(&class) {
            continue;
        }
        let next = fields.get(n + 1).map_or(field.span, |f| m.unit(unit).fields[f.index()].span);
        out.push(
            Finding::new(
                "E0411",
                field.span,
                format!("{} takes the bytes that must follow it: the message can never match", name(m, unit, field)),
            )
            .label(
                next,
                if to_end { "nothing is left for this" } else { "this begins only with bytes of the run before it" },
            )
            .hint(if to_end {
                "only the last field reads to the end"
            } else {
                "take the byte out of the run's charset, or end the run by `until`"
            }),
        );
    }
}

pub(super) fn head(m: &Module, id: UnitId, rule: Rule, culprit: Option<FieldId>, out: &mut Vec<Finding>) {
    let unit = m.unit(id);
    let message =
        m.protocols.iter().any(|p| p.request == id || p.response == Some(id)) || m.merges.iter().any(|g| g.unit == id);
    let (limit, code, what) = match rule {
        Rule::Whole => (WHOLE_LIMIT, "E0412", "is read whole by the program and"),
        // It gives its own limit.
        Rule::Streams if unit.limit.is_some() => (WHOLE_LIMIT, "E0412", "has a head that"),
        Rule::Streams | Rule::Long => (HEAD_LIMIT, "E0405", "has a head that"),
    };
    if !message || unit.head_max <= limit {
        return;
    }
    let culprit = culprit.map(|f| &unit.fields[f.index()]);
    let at = culprit.map_or(unit.span, |f| f.span);
    let part = culprit.and_then(|f| f.name.clone()).unwrap_or_else(|| "a field".into());
    out.push(
        Finding::new(
            code,
            at,
            format!("`{}` {what} may be {} bytes long; the limit is {limit}", unit.name, unit.head_max),
        )
        .label(at, format!("`{part}` has the largest part in it"))
        .hint("lower the maxima, or let the large part flow through with `stream`"),
    );
}

/// Program code that reads behind the beginning of a stream.
pub(super) fn stream_reads(m: &Module, unit: UnitId, out: &mut Vec<Finding>) {
    let mut hits: Vec<FieldId> = Vec::new();
    let mut hit = |steps: &[Step]| {
        if let Some(Step::Field(f)) = steps.first() {
            if !hits.contains(f) {
                hits.push(*f)
            }
        }
    };
    m.program_exprs(&mut |e, scope| {
        let Some(path) = walk::path_of(e) else { return };
        let root = m.follow(&Path { root: path.root, steps: Vec::new() }, scope, &mut |_, _| ());
        if root == Some(walk::At::Unit(unit)) && tail::needs_tail(m, Rule::Streams, unit, e) {
            hit(&path.steps)
        }
    });
    m.bodies(&mut |body| {
        walk::stmts(&body.block, &mut |s| {
            let Some(Outgoing::Pass { msg, edits }) = walk::outgoing(&s.kind) else { return };
            if body.locals.get(msg.index()).and_then(|l| m.types.get(l.ty.index())) != Some(&Ty::Msg(unit)) {
                return;
            }
            for edit in edits {
                let path = tail::edit_path(*msg, edit);
                if tail::path_in_tail_by(m, Rule::Streams, unit, &path, true) {
                    hit(&path.steps)
                }
            }
        })
    });
    for f in hits {
        let Some(field) = m.unit(unit).fields.get(f.index()) else { continue };
        out.push(Finding::new("E0407", field.span, format!("the program reads {}, which flows through or follows a `stream` field", name(m, unit, field)))
            .label(field.span, "this is never held")
            .hint("a stream is passed on as it comes: read only fields before it, or give the field a maximum instead of `stream`"));
    }
}

/// Fields that the grammar itself reads behind the beginning of a stream. A unit may be nested in
/// several messages: it is reported once.
pub(super) fn late_reads(m: &Module, unit: UnitId, out: &mut Vec<Finding>) {
    for l in late_reads::late(m, Rule::Streams, unit) {
        let (reader, read) = (&m.unit(l.unit).fields[l.reader.index()], &m.unit(l.read.0).fields[l.read.1.index()]);
        let found = Finding::new("E0414", reader.span, format!("the bytes of {} have flowed by when this is asked", name(m, l.read.0, read)))
            .label(read.span, "these")
            .hint("behind the beginning of a stream only numbers are kept: ask directly behind the field, and keep the answer: `let same = name == \"…\"`");
        if !out.contains(&found) {
            out.push(found)
        }
    }
}

/// A message that declares which part of its tail is passed on, but has no tail yet, or none that
/// flows.
pub(super) fn early_passes(m: &Module, unit: UnitId, out: &mut Vec<Finding>) {
    for (u, f) in late_reads::early(m, unit) {
        let found = Finding::new(
            "E0417",
            m.unit(u).fields[f.index()].span,
            format!("here nothing of a `{}` flows yet", m.unit(unit).name),
        )
        .hint("`pass when` stands behind the beginning of a stream, or in the unit of one");
        if !out.contains(&found) {
            out.push(found)
        }
    }
}

pub(super) fn protocols(m: &Module, facts: &Facts, out: &mut Vec<Finding>) {
    for (n, p) in m.protocols.iter().enumerate() {
        let Some(field) = p.order_by else { continue };
        let request = fixed_offset_by(m, facts, p.request, field);
        let response = order_field(m, p).zip(p.response).and_then(|(f, u)| fixed_offset_by(m, facts, u, f));
        let span = m
            .units
            .get(p.request.index())
            .and_then(|u| u.fields.get(field.index()))
            .map_or_else(Span::default, |f| f.span);
        let (said, hint) = match (request, response) {
            (Some((_, bytes)), Some((_, others))) if bytes == others && bytes <= 8 => {
                ids::check(m, ProtocolId(n as u32), out);
                continue;
            }
            (Some((_, bytes)), Some((_, others))) if bytes == others => {
                (format!("a field of {bytes} bytes"), "an id has 1 to 8 bytes")
            }
            (Some((_, bytes)), Some((_, others))) => (
                format!("a field of {} in the request and of {} in the response", in_bytes(bytes), in_bytes(others)),
                "the id has the same size in both messages",
            ),
            _ => (
                format!(
                    "a field that has no fixed place in the {}",
                    if request.is_none() { "request" } else { "response" }
                ),
                "the id must be a whole unsigned integer in the head, behind fields of fixed size only",
            ),
        };
        let found = Finding::new("E0409", span, format!("protocol `{}` is ordered by {said}", p.name));
        out.push(found.label(span, "this field").hint(hint));
    }
    for port in &m.ports {
        alternatives(m, port, out)
    }
}

fn in_bytes(n: u8) -> String {
    format!("{n} byte{}", if n == 1 { "" } else { "s" })
}

fn alternatives(m: &Module, port: &Port, out: &mut Vec<Finding>) {
    if !matches!(port.kind, desc::PortKind::Listen(_)) {
        return;
    }
    // A conversation's connection begins with the first, and becomes the others.
    let begins = port.protocols.first().and_then(|p| m.protocols.get(p.index()));
    if begins.is_some_and(|p| p.sharing == desc::Sharing::Session) {
        return;
    }
    let mut taken = ByteSet::EMPTY;
    for id in &port.protocols {
        let Some(p) = m.protocols.get(id.index()) else { continue };
        let Some(unit) = m.units.get(p.request.index()) else { continue };
        // A connection is the first alternative's whose set has its first byte, so a later one
        // needs a byte of its own.
        // A unit that nothing fits is another mistake than one whose bytes are taken.
        if !taken.is_empty() && unit.first.is_subset(&taken) {
            out.push(
                Finding::new(
                    "E0410",
                    port.span,
                    format!(
                        "no connection of port `{}` can ever be `{}`: protocols before it begin with the same bytes",
                        port.name, p.name
                    ),
                )
                .label(unit.span, "its request begins here")
                .hint("the first byte decides a connection's protocol: put the narrower protocol first"),
            );
        }
        taken = taken.union(&unit.first);
    }
}

pub(super) fn show(bytes: &[u8]) -> String {
    let text: String = bytes.iter().flat_map(|b| std::ascii::escape_default(*b)).map(char::from).collect();
    format!("\"{text}\"")
}
