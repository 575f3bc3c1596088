//! Headers as bits: the bits of a field in a frame, and the values of fields that decide about a
//! header. Also the values of expressions over known fields.

use crate::frame::{field_size, fixed_offset};
use crate::layout::int_of;
pub use crate::plans::{Bits, Known};
use crate::*;
use std::collections::BTreeSet;

/// The parts of a condition that ask the last header for one value, as bits of the frame; the
/// others.
pub fn demands<'m>(
    m: &'m Module,
    layers: &[Layer],
    cond: &'m Expr,
    from: Option<(u32, u32)>,
    bits: &mut Bits,
    rest: &mut Vec<&'m Expr>,
) {
    if let ExprKind::Binary(BinOp::And, a, b) = &*cond.kind {
        demands(m, layers, a, from, bits, rest);
        return demands(m, layers, b, from, bits, rest);
    }
    let asked = || {
        let (n, at) = from?;
        let (path, value) = one_value(cond)?;
        let [Step::Field(h), Step::Field(f)] = path.steps[..] else { return None };
        let l = layers.get(n as usize).filter(|l| l.header == h && path.root == Root::This)?;
        field_bits(m, l.unit, f, at, value, u64::MAX)
    };
    match asked() {
        Some(found) => merge(bits, found),
        None => rest.push(cond),
    }
}

/// Where the bits of a header's field that are in `mask` lie in the frame, if it has `value`;
/// the header begins at `at`.
pub fn field_bits(m: &Module, unit: UnitId, f: FieldId, at: u32, value: u64, mask: u64) -> Option<Bits> {
    let FieldKind::UInt { bytes, shift, bits, big, signed: false, .. } = m.unit(unit).fields[f.index()].kind else {
        return None;
    };
    if bytes > 8 || bits == 0 {
        return None;
    }
    let at = at + fixed_offset(m, unit, f)?;
    let mask = (mask & u64::MAX >> (64 - u32::from(bits.min(64)))) << shift;
    let byte = |i: u8| {
        let by = 8 * u32::from(if big { bytes - 1 - i } else { i });
        (at + u32::from(i), ((mask >> by) as u8, ((value << shift & mask) >> by) as u8))
    };
    Some((0..bytes).map(byte).filter(|b| b.1 .0 != 0).collect())
}

/// Bits that are 0 if a field is, which is some bits of another one.
pub fn zero_bits(m: &Module, unit: UnitId, f: FieldId, at: u32) -> Option<Bits> {
    let FieldKind::Let { value } = &m.unit(unit).fields[f.index()].kind else { return None };
    let ExprKind::Binary(BinOp::BitAnd, a, b) = &*bare(value).kind else { return None };
    let (ExprKind::Read(p), ExprKind::Int(mask)) = (&*bare(a).kind, &*bare(b).kind) else { return None };
    let ([Step::Field(f)], Root::This) = (&p.steps[..], p.root) else { return None };
    field_bits(m, unit, *f, at, 0, u64::try_from(*mask).ok()?)
}

/// Lengths of a header's parts of variable size.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn options(m: &Module, unit: UnitId) -> Vec<&Expr> {
    let of = |f: &FieldId| {
        let field = &m.unit(unit).fields[f.index()];
        match &field.kind {
            FieldKind::Bytes { extent: Extent::Length(e), .. } if field_size(m, field).is_none() => Some(e),
            _ => None,
        }
    };
    m.unit(unit).body.iter().filter_map(of).collect()
}

/// Fields that must have one value, and fields that have one if there are no options (which the
/// last header may have).
pub fn common_values(m: &Module, unit: UnitId, last: bool) -> Known {
    let mut known = Known::new();
    for f in &m.unit(unit).body {
        if let Some([(low, high)]) = m.unit(unit).fields[f.index()].within.as_deref() {
            if low == high {
                known.insert(*f, *low);
            }
        }
    }
    for e in options(m, unit).into_iter().filter(|_| !last) {
        let fields: BTreeSet<FieldId> = m.unit(unit).body.iter().copied().filter(|f| reads(e, *f)).collect();
        let Some(f) = fields.first().filter(|_| fields.len() == 1) else { continue };
        let FieldKind::UInt { bits: bits @ 1..=8, .. } = m.unit(unit).fields[f.index()].kind else { continue };
        let none = |v: &u64| value(m, unit, e, &Known::from([(*f, *v)])) == Some(0);
        let list: Vec<u64> = (0..1 << bits).filter(none).collect();
        if let [v] = list[..] {
            known.insert(*f, v);
        }
    }
    known.retain(|f, v| field_bits(m, unit, *f, 0, *v, u64::MAX).is_some());
    known
}

/// Whether an expression in field `at` always gives an accepted value, if the fields before it have
/// passed their own checks. That is found by trial: it must read one small field.
pub fn always(m: &Module, unit: UnitId, at: FieldId, e: &Expr, known: &Known, ok: impl Fn(u64) -> bool) -> bool {
    if let Some(v) = value(m, unit, e, known) {
        return ok(v);
    }
    let u = m.unit(unit);
    let before = u.body.iter().take_while(|f| **f != at);
    let read: Vec<FieldId> = before.copied().filter(|f| reads(e, *f)).collect();
    let ([f], true) = (&read[..], read.len() == u.body.iter().filter(|f| reads(e, **f)).count()) else {
        return false;
    };
    let FieldKind::UInt { bits: bits @ 1..=8, signed: false, .. } = u.fields[f.index()].kind else { return false };
    let within = |v: &u64| {
        u.fields[f.index()].within.as_ref().is_none_or(|r| r.iter().any(|(low, high)| (low..=high).contains(&v)))
    };
    let with = |v: u64| known.iter().map(|(f, v)| (*f, *v)).chain([(*f, v)]).collect();
    (0..1u64 << bits).filter(within).all(|v| value(m, unit, e, &with(v)).is_some_and(&ok))
}

/// The value of an expression over a header's fields, as far as they are known.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn value(m: &Module, unit: UnitId, e: &Expr, known: &Known) -> Option<u64> {
    let fit = |v: u64| match int_of(m, e.ty) {
        Some((bits @ 1..=64, false)) => Some(v & u64::MAX >> (64 - u32::from(bits))),
        _ => None,
    };
    match &*e.kind {
        ExprKind::Int(n) => u64::try_from(*n).ok(),
        ExprKind::Bool(b) => Some(u64::from(*b)),
        ExprKind::Cast(a) => fit(value(m, unit, a, known)?),
        ExprKind::Read(Path { root: Root::This, steps }) => match steps[..] {
            [Step::Field(f)] => match &m.unit(unit).fields[f.index()].kind {
                FieldKind::Let { value: inner } => value(m, unit, inner, known),
                FieldKind::UInt { .. }
                | FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Bytes { .. }
                | FieldKind::Literal { .. }
                | FieldKind::Flag { .. }
                | FieldKind::Unit { .. }
                | FieldKind::List { .. }
                | FieldKind::StreamBytes { .. }
                | FieldKind::StreamUnit { .. }
                | FieldKind::Switch { .. }
                | FieldKind::Require { .. }
                | FieldKind::Recover { .. }
                | FieldKind::Pass { .. }
                | FieldKind::Align { .. }
                | FieldKind::Nothing => known.get(&f).copied(),
            },
            _ => None,
        },
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (value(m, unit, a, known)?, value(m, unit, b, known)?);
            match op {
                BinOp::Add => fit(a.wrapping_add(b)),
                BinOp::Sub => fit(a.wrapping_sub(b)),
                BinOp::Mul => fit(a.wrapping_mul(b)),
                BinOp::BitAnd | BinOp::And => Some(a & b),
                BinOp::BitOr | BinOp::Or => Some(a | b),
                BinOp::Eq => Some(u64::from(a == b)),
                BinOp::Ne => Some(u64::from(a != b)),
                BinOp::Lt => Some(u64::from(a < b)),
                BinOp::Le => Some(u64::from(a <= b)),
                BinOp::Gt => Some(u64::from(a > b)),
                BinOp::Ge => Some(u64::from(a >= b)),
                BinOp::Div
                | BinOp::Rem
                | BinOp::AddSat
                | BinOp::SubSat
                | BinOp::BitXor
                | BinOp::Shl
                | BinOp::Shr
                | BinOp::EqCase => None,
            }
        }
        _ => None,
    }
}

/// More bits; fields that share a byte share no bits of it.
pub fn merge(bits: &mut Bits, more: Bits) {
    for (at, (mask, value)) in more {
        let b = bits.entry(at).or_default();
        *b = (b.0 | mask, b.1 | value);
    }
}

/// An expression without conversions around it.
fn bare(e: &Expr) -> &Expr {
    if let ExprKind::Cast(a) = &*e.kind {
        bare(a)
    } else {
        e
    }
}

/// A field that must have one value, and that.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn one_value(e: &Expr) -> Option<(&Path, u64)> {
    match &*e.kind {
        ExprKind::Binary(BinOp::Eq, a, b) => match (&*a.kind, &*b.kind) {
            (ExprKind::Read(p), ExprKind::Int(n)) | (ExprKind::Int(n), ExprKind::Read(p)) => {
                Some((p, u64::try_from(*n).ok()?))
            }
            _ => None,
        },
        ExprKind::InRanges(a, ranges) => match (&*a.kind, &ranges[..]) {
            (ExprKind::Read(p), [(low, high)]) if low == high => Some((p, *low)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression reads a field of the unit at hand.
pub fn reads(e: &Expr, f: FieldId) -> bool {
    let mut found = false;
    walk::expr(e, &mut |e| {
        if let ExprKind::Read(p) = &*e.kind {
            found |= p.root == Root::This && p.steps.first() == Some(&Step::Field(f))
        }
    });
    found
}
