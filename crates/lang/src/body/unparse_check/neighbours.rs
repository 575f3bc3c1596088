//! Checks changed bytes behind a run, a flag, a case or whatever else has no end of its own. In:
//! the fields in wire order. Out: the message is read again where the bytes may begin like more
//! of what stands before them. That must be as it was then.

use super::super::Lower;
use super::edits::Changed;
use super::open_ends::OpenEnd;
use crate::ir_builder as build;
use crate::ty::Ty;
use ir::{
    BinOp, Builtin, ByteSet, Expr as X, ExprKind as K, Extent, FaultKind, FieldId, FieldKind, Guard, ListExtent, Step,
};
use wireloom_ir as ir;

/// The bytes that may follow the end of something, and how many of them are looked at.
#[derive(Clone, Copy)]
struct Open {
    set: ByteSet,
    reach: u64,
}

const CLOSED: Open = Open { set: ByteSet::EMPTY, reach: 0 };

impl Open {
    fn and(self, other: Open) -> Open {
        Open { set: self.set.union(&other.set), reach: self.reach.max(other.reach) }
    }
    fn literals(values: &[Vec<u8>], but: usize) -> Open {
        let mut all = CLOSED;
        for v in values.iter().filter(|v| v.len() > but) {
            all = all.and(Open { set: ByteSet::of(v), reach: (v.len() - but) as u64 });
        }
        all
    }
}

impl Lower<'_, '_> {
    /// A field follows fields with open ends: where it is changed, they must end where they did.
    pub fn ends_hold(&mut self, c: &mut Changed, f: FieldId, before: &[OpenEnd], taken: &X) {
        for end in before {
            let Some(when) = self.begins_within(c, f, &end.set, end.reach) else { continue };
            let when = crate::fold::fold(&self.cx.m, &build::and(taken.clone(), when));
            if build::as_bool(&when) == Some(false) {
                continue;
            }
            let a = self.again_when(c, &when);
            let same = self.as_it_was(c, a, end.field);
            let owed = build::or(build::not(build::and(end.taken.clone(), when)), same);
            self.owes_again(c, owed, FaultKind::CONSTRAINT);
        }
    }

    /// The open ends behind a field.
    pub fn open_behind(&self, c: &Changed, f: FieldId, before: Vec<OpenEnd>, taken: &X) -> Vec<OpenEnd> {
        let (least, open) = (self.least(c.unit, f, 0), self.open_end(c.unit, f, 0));
        let mut all = reaching(before, least);
        if open.reach > 0 {
            all.push(OpenEnd::new(f, taken, open.set, open.reach));
        }
        all
    }

    /// The open ends in front of the first field of a case: the reader looks for the cases before.
    pub fn in_case(&self, switch: FieldId, cases: &[ir::Case], n: usize, before: &[OpenEnd], here: &X) -> Vec<OpenEnd> {
        let (own, open) = match &cases[n].guard {
            Guard::Literal { values, peek: true } => {
                (0, Open { set: ByteSet::ALL, reach: values.iter().map(|v| v.len() as u64).max().unwrap_or(0) })
            }
            Guard::Literal { values, peek: false } => (values.iter().map(Vec::len).min().unwrap_or(0), CLOSED),
            Guard::When(_) | Guard::Else | Guard::Fault(_) => (0, CLOSED),
        };
        let earlier = |open: Open, case: &ir::Case| match &case.guard {
            Guard::Literal { values, .. } => open.and(Open::literals(values, own)),
            Guard::When(_) | Guard::Else | Guard::Fault(_) => open,
        };
        let open = cases[..n].iter().fold(open, earlier);
        let mut all = reaching(before.to_vec(), own as u64);
        if open.reach > 0 {
            all.push(OpenEnd::new(switch, here, open.set, open.reach));
        }
        all
    }

    /// The condition under which the bytes of a changed field may begin with one of a set. None: it
    /// is not changed, or never does.
    fn begins_within(&mut self, c: &Changed, f: FieldId, set: &ByteSet, reach: u64) -> Option<X> {
        let field = self.field_ir(c.unit, f);
        if c.edited(f) {
            return Some(build::boolean(true));
        }
        let v = c.value(f)?.clone();
        match &field.kind {
            FieldKind::UInt { bytes, big, .. } if reach == 1 => Some(self.first_in(v, (*bytes, *big), set)),
            FieldKind::Number { radix, .. } => {
                crate::body::emit::digits(*radix).intersects(set).then(|| build::boolean(true))
            }
            FieldKind::Bytes { min, class, extent, trim, .. } => {
                let follows = match extent {
                    Extent::Until(u) if !u.peek => u.delimiters.iter().any(|d| set.intersects(&ByteSet::of(&d[..1]))),
                    Extent::Length(_) | Extent::Until(_) | Extent::Run | Extent::ToEnd | Extent::Close => true,
                };
                let blank = trim.as_ref().is_some_and(|t| t.intersects(set));
                let own = class.as_ref().is_none_or(|class| class.intersects(set));
                if let K::Bytes(b) = &*v.kind {
                    let begins = b.first().map_or(follows, |b| set.has(*b)) || blank || reach > 1 && (own || follows);
                    return begins.then(|| build::boolean(true));
                }
                if blank || reach > 1 && own {
                    return Some(build::boolean(true));
                }
                let t = self.cx.lower_ty(&Ty::Bytes(1));
                let first = build::builtin(t, Builtin::Slice, vec![v.clone(), build::u64(0), build::u64(1)]);
                let empty = build::cmp(BinOp::Eq, build::len_bytes(v), build::u64(0));
                // An empty slice is in any set.
                match (own, follows && *min == 0) {
                    (true, true) => Some(self.all_in(&first, set)),
                    (true, false) => Some(build::and(build::not(empty), self.all_in(&first, set))),
                    (false, true) => Some(empty),
                    (false, false) => None,
                }
            }
            FieldKind::UInt { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::Unit { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Require { .. }
            | FieldKind::Align { .. } => Some(build::boolean(true)),
            FieldKind::Let { .. } | FieldKind::Recover { .. } | FieldKind::Pass { .. } | FieldKind::Nothing => None,
        }
    }

    /// Whether a field is what it is meant to be where the message was read again. It is the same
    /// case, number or flag, or has as many bytes.
    fn as_it_was(&mut self, c: &Changed, again: ir::LocalId, f: FieldId) -> X {
        let field = self.field_ir(c.unit, f);
        let at = |l: ir::LocalId| build::step(&build::msg(l), Step::Field(f));
        let (now, was) = (build::read(field.ty, at(again)), build::read(field.ty, at(c.msg)));
        let bytes = self.cx.lower_ty(&Ty::Bytes(1 << 24));
        let meant = c.value(f).cloned().unwrap_or(was);
        match &field.kind {
            FieldKind::Bytes { trim: None, .. } => {
                build::cmp(BinOp::Eq, build::len_bytes(now), build::len_bytes(meant))
            }
            FieldKind::Number { .. } | FieldKind::Flag { .. } => {
                build::cmp(BinOp::Eq, now, build::cast(field.ty, meant))
            }
            FieldKind::Switch { cases } => {
                let case = |n: usize| {
                    let (now, was) = (build::case(at(again), n as u32), build::case(at(c.msg), n as u32));
                    let to = self.passed_as(c.unit, &cases[n]).map_or(now, |n| build::case(at(again), n as u32));
                    build::or(build::not(was), to)
                };
                (0..cases.len()).map(case).fold(build::boolean(true), build::and)
            }
            FieldKind::Unit { .. } | FieldKind::List { .. } if !c.edited(f) => {
                let raw = |l| build::len_bytes(X::new(bytes, K::Raw(at(l))));
                build::cmp(BinOp::Eq, raw(again), raw(c.msg))
            }
            FieldKind::UInt { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Unit { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => build::boolean(true),
        }
    }

    /// The bytes that a field's reader looks at behind its end.
    fn open_end(&self, unit: ir::UnitId, f: FieldId, depth: u32) -> Open {
        if depth > ir::layout::MAX_DEPTH {
            return Open { set: ByteSet::ALL, reach: 1 };
        }
        match &self.field_ir(unit, f).kind {
            FieldKind::Bytes { extent: Extent::Run, class, .. } => {
                Open { set: class.unwrap_or(ByteSet::ALL), reach: 1 }
            }
            FieldKind::Bytes { extent: Extent::Until(u), .. } if u.peek => {
                Open { set: ByteSet::ALL, reach: u.delimiters.iter().map(|d| d.len() as u64).max().unwrap_or(1) }
            }
            FieldKind::Bytes { extent: Extent::Until(u), .. } => longer(&u.delimiters),
            FieldKind::Number { radix, exact: false, until: None, .. } => {
                Open { set: crate::body::emit::digits(*radix), reach: 1 }
            }
            FieldKind::Literal { values } => longer(values),
            FieldKind::Flag { value } => Open::literals(std::slice::from_ref(value), 0),
            FieldKind::Unit { unit, .. } => self.sequence_end(*unit, &self.cx.m.units[unit.index()].body, depth + 1),
            FieldKind::List { element, extent, .. } => match extent {
                ListExtent::Until(u) if u.peek => Open { set: ByteSet::ALL, reach: 1 },
                ListExtent::Until(u) => longer(&u.delimiters),
                ListExtent::Count(_) | ListExtent::Fold { .. } => self.open_end(unit, *element, depth + 1),
                ListExtent::ToEnd => CLOSED,
            },
            FieldKind::Switch { cases } => {
                let mut all = CLOSED;
                for case in cases {
                    all = all.and(self.sequence_end(unit, &case.fields, depth + 1));
                    if let Guard::Literal { values, .. } = &case.guard {
                        let shortest = cases.iter().map(|c| self.least_case(unit, c, depth + 1)).min().unwrap_or(0);
                        all = all.and(Open::literals(values, shortest.min(1 << 16) as usize));
                    }
                }
                all
            }
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => CLOSED,
        }
    }

    fn sequence_end(&self, unit: ir::UnitId, seq: &[FieldId], depth: u32) -> Open {
        let mut open = CLOSED;
        for f in seq {
            let least = self.least(unit, *f, depth);
            let before = if least < open.reach { Open { reach: open.reach - least, ..open } } else { CLOSED };
            open = before.and(self.open_end(unit, *f, depth));
        }
        open
    }

    /// The fewest bytes that a field takes.
    fn least(&self, unit: ir::UnitId, f: FieldId, depth: u32) -> u64 {
        let shortest = |d: &[Vec<u8>]| d.iter().map(|d| d.len() as u64).min().unwrap_or(0);
        let end = |u: &ir::Until| if u.peek { 0 } else { shortest(&u.delimiters) };
        if depth > ir::layout::MAX_DEPTH {
            return 0;
        }
        match &self.field_ir(unit, f).kind {
            FieldKind::UInt { bytes, advance, .. } => u64::from(*bytes) * u64::from(*advance),
            FieldKind::Number { exact, digits, until, .. } => {
                until.as_ref().map_or(0, end) + if *exact { u64::from(*digits) } else { 1 }
            }
            FieldKind::Varint { .. } => 1,
            FieldKind::Bytes { min, extent, .. } => match extent {
                Extent::Until(u) => *min + end(u),
                Extent::Length(n) => build::as_int(n).map_or(*min, |n| n as u64),
                Extent::Run | Extent::ToEnd | Extent::Close => *min,
            },
            FieldKind::Literal { values } => shortest(values),
            FieldKind::Unit { unit, .. } => {
                self.cx.m.units[unit.index()].body.iter().map(|f| self.least(*unit, *f, depth + 1)).sum()
            }
            FieldKind::List { extent: ListExtent::Until(u), .. } => end(u),
            FieldKind::Switch { cases } => cases.iter().map(|c| self.least_case(unit, c, depth + 1)).min().unwrap_or(0),
            FieldKind::Flag { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => 0,
        }
    }

    fn least_case(&self, unit: ir::UnitId, case: &ir::Case, depth: u32) -> u64 {
        let own = match &case.guard {
            Guard::Literal { values, peek: false } => values.iter().map(|v| v.len() as u64).min().unwrap_or(0),
            Guard::Literal { values, peek: true } => return values.iter().map(|v| v.len() as u64).min().unwrap_or(0),
            Guard::Fault(_) => return u64::MAX,
            Guard::When(_) | Guard::Else => 0,
        };
        case.fields.iter().fold(own, |n, f| n.saturating_add(self.least(unit, *f, depth)))
    }
}

/// The ends that reach behind so many bytes.
fn reaching(ends: Vec<OpenEnd>, least: u64) -> Vec<OpenEnd> {
    let further = |e: OpenEnd| (e.reach > least).then(|| OpenEnd { reach: e.reach - least, ..e });
    ends.into_iter().filter_map(further).collect()
}

/// The bytes by which one literal goes on where another one ends.
fn longer(values: &[Vec<u8>]) -> Open {
    let mut all = CLOSED;
    for (i, v) in values.iter().enumerate() {
        for short in values[i + 1..].iter().filter(|s| v.len() > s.len() && v.starts_with(s)) {
            all = all.and(Open { set: ByteSet::of(&v[short.len()..]), reach: (v.len() - short.len()) as u64 });
        }
    }
    all
}
