//! The most bytes of a unit that lies in an extent: `hello: ClientHello [size]`.
//!
//! In: the sequence of fields around it, and the extent as `lang` lowers it. A unit with an end of
//! its own is followed by a requirement of its length. One that reads `to end` has the length as
//! its last argument. Out: a bound from the ranges of the fields in the length's expression. An
//! expression that may wrap has none.

use crate::*;

/// The parameter of a unit that is lowered for a length.
const END: &str = "_end";

/// A bound of the nth field, if its extent gives one.
pub fn most(m: &Module, unit: UnitId, fields: &[FieldId], n: usize) -> Option<u64> {
    let at = Place { m, unit: m.unit(unit), before: &fields[..n] };
    let FieldKind::Unit { unit: inner, args } = &at.field(*fields.get(n)?).kind else { return None };
    if m.unit(*inner).params.last().is_some_and(|p| p.name == END) {
        return at.range(args.last()?).map(|r| r.1);
    }
    let FieldKind::Require { cond } = &at.field(*fields.get(n + 1)?).kind else { return None };
    let ExprKind::Binary(BinOp::Eq, taken, length) = &*cond.kind else { return None };
    let of_field = matches!(&*taken.kind, ExprKind::Builtin(Builtin::LenBytes, bytes)
        if bytes.first().is_some_and(|b| is_raw(b, fields[n])));
    of_field.then(|| at.range(length))?.map(|r| r.1)
}

fn is_raw(e: &Expr, f: FieldId) -> bool {
    matches!(&*e.kind, ExprKind::Raw(p) if p.root == Root::This && p.steps == [Step::Field(f)])
}

/// Where an extent stands: its unit, and the fields before it.
struct Place<'m> {
    m: &'m Module,
    unit: &'m Unit,
    before: &'m [FieldId],
}

impl Place<'_> {
    fn field(&self, f: FieldId) -> &Field {
        &self.unit.fields[f.index()]
    }

    /// The least and the largest value of an unsigned expression.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn range(&self, e: &Expr) -> Option<(u64, u64)> {
        let (low, high) = match &*e.kind {
            ExprKind::Int(n) => {
                let n = u64::try_from(*n).ok()?;
                (n, n)
            }
            ExprKind::Read(p) if p.root == Root::This => {
                let [Step::Field(f)] = p.steps.as_slice() else { return None };
                self.field_range(*f)?
            }
            ExprKind::UnitParam(Root::This, n) => (0, all_ones(self.unit.params.get(*n as usize)?.bits)),
            ExprKind::Cast(a) => self.range(a)?,
            ExprKind::Binary(op, a, b) => {
                let (left, right) = (self.range(a)?, self.range(b)?);
                match op {
                    BinOp::Add => (left.0.checked_add(right.0)?, left.1.checked_add(right.1)?),
                    BinOp::Mul => (left.0.checked_mul(right.0)?, left.1.checked_mul(right.1)?),
                    BinOp::Div if right.0 > 0 => (left.0 / right.1, left.1 / right.0),
                    BinOp::Sub => (self.least(a, left.0).checked_sub(right.1)?, left.1.checked_sub(right.0)?),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let Ty::UInt(bits) = *self.m.ty(e.ty) else { return None };
        (high <= all_ones(bits)).then_some((low, high))
    }

    fn field_range(&self, f: FieldId) -> Option<(u64, u64)> {
        let field = self.field(f);
        let FieldKind::UInt { bits, signed: false, .. } = field.kind else { return None };
        match &field.within {
            Some(ranges) => Some((ranges.iter().map(|r| r.0).min()?, ranges.iter().map(|r| r.1).max()?)),
            None => Some((0, all_ones(bits))),
        }
    }

    /// The least value of an expression, by requirements in front of the extent.
    fn least(&self, e: &Expr, low: u64) -> u64 {
        let required = |f: &FieldId| {
            let FieldKind::Require { cond } = &self.field(*f).kind else { return None };
            let ExprKind::Binary(BinOp::Ge, a, b) = &*cond.kind else { return None };
            let ExprKind::Int(n) = *b.kind else { return None };
            (self.plain(a).kind == self.plain(e).kind).then(|| u64::try_from(n).ok()).flatten()
        };
        self.before.iter().filter_map(required).fold(low, u64::max)
    }

    /// An expression without the casts around it that only extend.
    fn plain<'e>(&self, e: &'e Expr) -> &'e Expr {
        let ExprKind::Cast(a) = &*e.kind else { return e };
        match (self.m.ty(a.ty), self.m.ty(e.ty)) {
            (Ty::UInt(from), Ty::UInt(to)) if from <= to => self.plain(a),
            _ => e,
        }
    }
}

fn all_ones(bits: u8) -> u64 {
    1u64.checked_shl(bits.into()).map_or(u64::MAX, |n| n - 1)
}
