//! Messages on connections end by themselves: another message follows at once, or nothing does.
//!
//! In: ports and protocols. Out: finding E0411 for a message whose last field ends by the byte
//! behind it. Such are runs, numbers without a delimiter, and flags. Its reader would take bytes of
//! the next message, which may be another client's, or wait for one. E0418 is for requests that may
//! begin with bytes that their protocol ignores.

use super::check::name;
use super::measure::Facts;
use super::Finding;
use crate::desc::PortKind;
use crate::*;

pub(super) fn check(m: &Module, facts: &Facts, out: &mut Vec<Finding>) {
    let streams = |p: &&Port| !p.udp && matches!(p.kind, PortKind::Listen(_) | PortKind::Connect(_));
    for port in m.ports.iter().filter(streams) {
        for p in port.protocols.iter().filter_map(|p| m.protocols.get(p.index())) {
            for unit in [Some(p.request), p.response].into_iter().flatten() {
                let Some((owner, f)) = open(m, facts, unit, &m.unit(unit).body, 0) else { continue };
                let field = &m.unit(owner).fields[f.index()];
                let told = format!("{} ends a message, and has no end but the next one", name(m, owner, field));
                let found = Finding::new("E0411", field.span, told)
                    .hint("let a delimiter, a length or a count end the message");
                if !out.contains(&found) {
                    out.push(found)
                }
            }
        }
    }
}

/// A reader drops what its protocol ignores, so no request begins with it.
pub(super) fn ignored(m: &Module, facts: &Facts, out: &mut Vec<Finding>) {
    for p in &m.protocols {
        let Some((bytes, _)) = &p.ignore else { continue };
        let unit = m.unit(p.request);
        let begins = |f: &&FieldId| facts.field(m, p.request, **f).first.has(bytes[0]);
        let mut first = vec![];
        for f in &unit.body {
            first.push(*f);
            if !facts.field(m, p.request, *f).empty {
                break;
            }
        }
        let Some(f) = first.iter().find(begins) else { continue };
        let field = &unit.fields[f.index()];
        let text = format!("requests of protocol `{}` may begin with bytes that it ignores", p.name);
        out.push(
            Finding::new("E0418", field.span, text)
                .label(field.span, format!("may begin with {}", super::check::show(&bytes[..1])))
                .hint("receivers would drop them: begin with a token, or with a set of bytes without them"),
        );
    }
}

/// A field without an end of its own that may be the last one.
fn open(m: &Module, facts: &Facts, unit: UnitId, seq: &[FieldId], depth: u32) -> Option<(UnitId, FieldId)> {
    if depth > layout::MAX_DEPTH {
        return None;
    }
    for f in seq.iter().rev() {
        if let Some(found) = open_field(m, facts, unit, *f, depth) {
            return Some(found);
        }
        if facts.field(m, unit, *f).min > 0 {
            return None;
        }
    }
    None
}

fn open_field(m: &Module, facts: &Facts, unit: UnitId, f: FieldId, depth: u32) -> Option<(UnitId, FieldId)> {
    let field = &m.unit(unit).fields[f.index()];
    // It ends where its length does.
    if field.lies_in.is_some() {
        return None;
    }
    match &field.kind {
        FieldKind::Bytes { extent: Extent::Run, .. }
        | FieldKind::Number { exact: false, until: None, .. }
        | FieldKind::Flag { .. } => Some((unit, f)),
        FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => {
            open(m, facts, *unit, &m.unit(*unit).body, depth + 1)
        }
        FieldKind::List { element, extent: ListExtent::Count(_) | ListExtent::Fold { .. }, .. } => {
            open_field(m, facts, unit, *element, depth + 1)
        }
        FieldKind::Switch { cases } => cases.iter().find_map(|c| open(m, facts, unit, &c.fields, depth + 1)),
        FieldKind::UInt { .. }
        | FieldKind::Number { .. }
        | FieldKind::Varint { .. }
        | FieldKind::Bytes { .. }
        | FieldKind::Literal { .. }
        | FieldKind::List { .. }
        | FieldKind::StreamBytes { .. }
        | FieldKind::Let { .. }
        | FieldKind::Require { .. }
        | FieldKind::Recover { .. }
        | FieldKind::Pass { .. }
        | FieldKind::Align { .. }
        | FieldKind::Nothing => None,
    }
}
