//! The split of a message into head and tail: where the head ends, and which fields lie behind that
//! point.
//!
//! The head ends where the parser first reaches a field that *begins the tail*. In a message with
//! stream fields, these begin the tail. In others, bytes that may be longer than 4 KiB begin it,
//! and lists whose elements may have such bytes. If the program must see the tail before the
//! message is handled, the message has no tail. It is then parsed whole.

use crate::walk::At;
use crate::*;

/// Bytes with a larger maximum begin the tail of a message without streams.
pub const HELD_BYTES: u64 = 4096;
/// Bytes of a field in the tail that are kept together for an expression directly behind it.
pub const KEPT_BYTES: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Streams,
    Long,
    /// No tail.
    Whole,
}

/// The rule by the message's grammar alone.
pub fn natural_rule(m: &Module, message: UnitId) -> Rule {
    let streams =
        m.units.get(message.index()).is_some_and(|u| u.body.iter().any(|f| contains(m, Rule::Streams, message, *f)));
    if streams {
        Rule::Streams
    } else {
        Rule::Long
    }
}

/// The rule that holds once [`super::analyze`] has set `tail` and `streams`.
pub fn rule(m: &Module, message: UnitId) -> Rule {
    match m.units.get(message.index()) {
        Some(u) if (u.tail as usize) < u.body.len() => {
            if u.streams {
                Rule::Streams
            } else {
                Rule::Long
            }
        }
        _ => Rule::Whole,
    }
}

/// Whether the head of `message` ends before this field (of it or of a unit nested in it) when the
/// parser reaches it.
pub fn begins_tail(m: &Module, message: UnitId, unit: UnitId, field: FieldId) -> bool {
    begins(m, rule(m, message), unit, field)
}

pub fn begins(m: &Module, rule: Rule, unit: UnitId, field: FieldId) -> bool {
    let Some(f) = m.units.get(unit.index()).and_then(|u| u.fields.get(field.index())) else { return false };
    match (&f.kind, rule) {
        (FieldKind::StreamBytes { .. } | FieldKind::StreamUnit { .. }, Rule::Streams) => true,
        (FieldKind::Bytes { max, .. }, Rule::Long) => *max > HELD_BYTES,
        (FieldKind::List { element, .. }, Rule::Streams | Rule::Long) => contains(m, rule, unit, *element),
        _ => false,
    }
}

/// Whether the tail may begin at or inside this field.
pub fn contains(m: &Module, rule: Rule, unit: UnitId, field: FieldId) -> bool {
    rule != Rule::Whole && reaches(m, rule, unit, field, &mut vec![false; m.units.len()])
}

/// Each nested unit is looked into once, however often it is nested.
fn reaches(m: &Module, rule: Rule, unit: UnitId, field: FieldId, seen: &mut [bool]) -> bool {
    let Some(f) = m.units.get(unit.index()).and_then(|u| u.fields.get(field.index())) else { return false };
    match &f.kind {
        FieldKind::Switch { cases } => cases.iter().flat_map(|c| &c.fields).any(|f| reaches(m, rule, unit, *f, seen)),
        FieldKind::List { element, .. } => reaches(m, rule, unit, *element, seen),
        FieldKind::Unit { unit, .. } => match (m.units.get(unit.index()), seen.get_mut(unit.index())) {
            (Some(u), Some(seen_it @ false)) => {
                *seen_it = true;
                u.body.iter().any(|f| reaches(m, rule, *unit, *f, seen))
            }
            _ => false,
        },
        FieldKind::UInt { .. }
        | FieldKind::Number { .. }
        | FieldKind::Varint { .. }
        | FieldKind::Bytes { .. }
        | FieldKind::Literal { .. }
        | FieldKind::Flag { .. }
        | FieldKind::StreamBytes { .. }
        | FieldKind::StreamUnit { .. }
        | FieldKind::Let { .. }
        | FieldKind::Require { .. }
        | FieldKind::Recover { .. }
        | FieldKind::Pass { .. }
        | FieldKind::Align { .. }
        | FieldKind::Nothing => begins(m, rule, unit, field),
    }
}

/// Whether a field of a unit, or of one nested in it, is of a kind.
pub fn has(m: &Module, unit: UnitId, kind: &dyn Fn(&FieldKind) -> bool) -> bool {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn seek(m: &Module, unit: UnitId, kind: &dyn Fn(&FieldKind) -> bool, seen: &mut [bool]) -> bool {
        if std::mem::replace(&mut seen[unit.index()], true) {
            return false;
        }
        m.unit(unit).fields.iter().any(|f| {
            kind(&f.kind)
                || match &f.kind {
                    FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => seek(m, *unit, kind, seen),
                    _ => false,
                }
        })
    }
    seek(m, unit, kind, &mut vec![false; m.units.len()])
}

/// Whether a list in a tail is passed on at once, with its framing: it is short, and no part of it
/// flows. Items of other lists are passed on one by one, as they are accepted.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub(super) fn at_once(m: &Module, facts: &super::measure::Facts, unit: UnitId, list: FieldId) -> bool {
    let flows = |kind: &FieldKind| {
        matches!(kind, FieldKind::Pass { .. } | FieldKind::StreamBytes { .. } | FieldKind::StreamUnit { .. })
    };
    let inside = match &m.unit(unit).fields[list.index()].kind {
        FieldKind::List { element, .. } => match &m.unit(unit).fields[element.index()].kind {
            FieldKind::Unit { unit, .. } => has(m, *unit, &flows),
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => has(m, unit, &flows),
        },
        _ => true,
    };
    !inside && facts.field(m, unit, list).max <= KEPT_BYTES
}

/// Whether a path of the message may lie in its tail. Paths that use more than the beginning of
/// their last field (its bytes, its end) are `whole`.
pub fn path_in_tail_by(m: &Module, rule: Rule, message: UnitId, path: &Path, whole: bool) -> bool {
    if rule == Rule::Whole {
        return false;
    }
    let (mut at, mut last) = (At::Unit(message), None);
    for step in &path.steps {
        let before = m.inside(at);
        let Some(next) = m.step(at, step) else { return false };
        if let (Step::Field(f), Some(unit)) = (step, before) {
            if field_in_tail(m, rule, unit, *f) {
                return true;
            }
            last = Some((unit, *f));
        }
        at = next;
    }
    match last {
        Some((unit, f)) => whole && contains(m, rule, unit, f),
        None => whole,
    }
}

/// Whether an expression that reads `message` needs its tail.
pub fn needs_tail(m: &Module, rule: Rule, message: UnitId, e: &Expr) -> bool {
    walk::path_of(e).is_some_and(|p| path_in_tail_by(m, rule, message, p, matches!(*e.kind, ExprKind::Raw(_))))
}

/// Whether a message local's tail is read or edited in a body.
pub fn body_needs_tail(m: &Module, rule: Rule, message: UnitId, body: &Body, local: LocalId) -> bool {
    let mut found = false;
    let root = Root::Local(local);
    walk::block_exprs(&body.block, &mut |e| {
        found |= walk::path_of(e).is_some_and(|p| p.root == root) && needs_tail(m, rule, message, e);
    });
    walk::stmts(&body.block, &mut |s| {
        if let Some(Outgoing::Pass { msg, edits }) = walk::outgoing(&s.kind) {
            // It is sent to several: its tail cannot flow past.
            found |= *msg == local && matches!(s.kind, StmtKind::Deliver { .. });
            found |=
                *msg == local && edits.iter().any(|e| path_in_tail_by(m, rule, message, &edit_path(local, e), true));
        }
    });
    found
}

/// The place an edit changes, as a path.
pub fn edit_path(msg: LocalId, edit: &Edit) -> Path {
    let (Edit::Set { field: fields, .. } | Edit::Remove { list: fields, .. } | Edit::Append { list: fields, .. }) =
        edit;
    Path { root: Root::Local(msg), steps: fields.iter().map(|f| Step::Field(*f)).collect() }
}

/// Whether a field of a unit begins the tail or comes after a field in which it may begin.
fn field_in_tail(m: &Module, rule: Rule, unit: UnitId, target: FieldId) -> bool {
    fn seek(m: &Module, rule: Rule, unit: UnitId, fields: &[FieldId], target: FieldId, depth: u32) -> Option<bool> {
        if depth > layout::MAX_DEPTH {
            return None;
        }
        let u = m.units.get(unit.index())?;
        let mut behind = false;
        for &f in fields {
            if f == target {
                return Some(behind || begins(m, rule, unit, f));
            }
            let inner = match u.fields.get(f.index()).map(|f| &f.kind) {
                Some(FieldKind::Switch { cases }) => {
                    cases.iter().find_map(|c| seek(m, rule, unit, &c.fields, target, depth + 1))
                }
                Some(FieldKind::List { element, .. }) => seek(m, rule, unit, &[*element], target, depth + 1),
                _ => None,
            };
            if let Some(found) = inner {
                return Some(behind || found || begins(m, rule, unit, f));
            }
            behind |= contains(m, rule, unit, f);
        }
        None
    }
    m.units.get(unit.index()).and_then(|u| seek(m, rule, unit, &u.body, target, 0)).unwrap_or(false)
}

/// Position in the body of the first field with the tail's beginning.
pub fn tail_position(m: &Module, rule: Rule, unit: UnitId) -> u32 {
    let body = &m.unit(unit).body;
    body.iter().position(|f| contains(m, rule, unit, *f)).unwrap_or(body.len()) as u32
}

/// The largest head, and the top-level field that has the largest part in it.
pub fn head_max(m: &Module, facts: &super::measure::Facts, rule: Rule, unit: UnitId) -> (u64, Option<FieldId>) {
    let mut heads = Heads { m, facts, rule, units: vec![None; m.units.len()] };
    let mut largest = (0, None);
    let (mut through, mut ended) = (Some(0u64), 0u64);
    for (n, &f) in m.unit(unit).body.iter().enumerate() {
        let Some(so_far) = through else { break };
        let part = heads.nth(unit, &m.unit(unit).body, n);
        let most = part.through.unwrap_or(0).max(part.ended);
        if most > largest.0 {
            largest = (most, Some(f))
        }
        ended = ended.max(so_far.saturating_add(part.ended));
        through = part.through.map(|n| so_far.saturating_add(n));
    }
    (through.unwrap_or(0).max(ended), largest.1)
}

/// Largest number of head bytes in a field: when the head goes on behind it (None: it never does)
/// and when it ends inside.
#[derive(Clone, Copy)]
struct HeadPart {
    through: Option<u64>,
    ended: u64,
}

/// Head bytes of nested units, each computed once.
struct Heads<'a> {
    m: &'a Module,
    facts: &'a super::measure::Facts,
    rule: Rule,
    units: Vec<Option<HeadPart>>,
}

impl Heads<'_> {
    /// The nth field of a sequence, within its extent.
    fn nth(&mut self, unit: UnitId, fields: &[FieldId], n: usize) -> HeadPart {
        let part = self.field(unit, fields[n]);
        let most = super::extents::most(self.m, unit, fields, n).unwrap_or(u64::MAX);
        HeadPart { through: part.through.map(|n| n.min(most)), ended: part.ended.min(most) }
    }

    fn field(&mut self, unit: UnitId, field: FieldId) -> HeadPart {
        let m = self.m;
        if begins(m, self.rule, unit, field) {
            return HeadPart { through: None, ended: 0 };
        }
        match &m.unit(unit).fields[field.index()].kind {
            FieldKind::Unit { unit, .. } => {
                if let Some(part) = self.units[unit.index()] {
                    return part;
                }
                let part = self.sequence(*unit, &m.unit(*unit).body);
                self.units[unit.index()] = Some(part);
                part
            }
            FieldKind::Switch { cases } => cases.iter().fold(HeadPart { through: None, ended: 0 }, |a, c| {
                let guard = super::measure::guard_max(&c.guard);
                let part = self.sequence(unit, &c.fields);
                HeadPart {
                    through: a.through.max(part.through.map(|n| n.saturating_add(guard))),
                    ended: a.ended.max(part.ended.saturating_add(guard)),
                }
            }),
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => HeadPart { through: Some(self.facts.field(m, unit, field).max), ended: 0 },
        }
    }

    fn sequence(&mut self, unit: UnitId, fields: &[FieldId]) -> HeadPart {
        let mut sum = HeadPart { through: Some(0), ended: 0 };
        for n in 0..fields.len() {
            let Some(so_far) = sum.through else { break };
            let part = self.nth(unit, fields, n);
            sum.ended = sum.ended.max(so_far.saturating_add(part.ended));
            sum.through = part.through.map(|n| so_far.saturating_add(n));
        }
        sum
    }
}
