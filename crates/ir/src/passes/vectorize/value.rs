//! Values of expressions over sixteen frames, and what is computed of them.

use super::Vectorizer;
use crate::plans::{BinaryOp, Compare, MaskRef, NumberRef, VectorOp};
use crate::*;

/// The form of an expression for sixteen frames.
#[derive(Clone, PartialEq)]
pub(super) enum VectorForm {
    /// A number that is the same for all.
    Const(u128),
    /// A number of 32 bits, and its bounds.
    Number {
        of: NumberRef,
        least: u64,
        most: u64,
    },
    /// An address, or a number of 128 bits: four numbers of 32 bits, the lowest first.
    Wide(Vec<VectorForm>),
    Mask(MaskRef),
    /// An option: the frames that have a value, and the value.
    Maybe(MaskRef, Box<VectorForm>),
    Record(Vec<VectorForm>),
    /// A handler that needs it cannot be vectorized.
    Unknown,
}

pub(super) fn constant(b: bool) -> MaskRef {
    if b {
        MaskRef::All
    } else {
        MaskRef::None
    }
}

/// The value of a local that is not set.
pub(super) fn zero(m: &Module, ty: TyId) -> VectorForm {
    match m.ty(ty) {
        Ty::Bool => VectorForm::Mask(MaskRef::None),
        Ty::UInt(_) | Ty::Ip => VectorForm::Const(0),
        Ty::Option(t) => VectorForm::Maybe(MaskRef::None, Box::new(zero(m, *t))),
        Ty::Record(_) | Ty::Tuple(_) => VectorForm::Record(members(m, ty).into_iter().map(|t| zero(m, t)).collect()),
        Ty::Unit | Ty::Int(_) | Ty::Bytes(_) | Ty::Endpoint | Ty::List(..) | Ty::Msg(_) => VectorForm::Unknown,
    }
}

/// The types of a record's or tuple's members.
pub(super) fn members(m: &Module, ty: TyId) -> Vec<TyId> {
    match m.ty(ty) {
        Ty::Record(r) => m.records[r.index()].fields.iter().map(|f| f.1).collect(),
        Ty::Tuple(list) => list.clone(),
        Ty::Unit
        | Ty::Bool
        | Ty::UInt(_)
        | Ty::Int(_)
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Ip
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Msg(_) => Vec::new(),
    }
}

/// The number of 32 bits `i` of a wide one.
pub(super) fn part(v: &VectorForm, i: usize) -> Option<VectorForm> {
    match v {
        VectorForm::Const(v) => Some(VectorForm::Const(v >> (32 * i) & 0xffff_ffff)),
        VectorForm::Number { .. } => Some(if i == 0 { v.clone() } else { VectorForm::Const(0) }),
        VectorForm::Wide(parts) => parts.get(i).cloned(),
        VectorForm::Mask(_) | VectorForm::Maybe(..) | VectorForm::Record(_) | VectorForm::Unknown => None,
    }
}

/// The bounds of a number.
pub(super) fn span(v: &VectorForm) -> Option<(u64, u64)> {
    match v {
        VectorForm::Const(v) => u32::try_from(*v).ok().map(|v| (v.into(), v.into())),
        VectorForm::Number { least, most, .. } => Some((*least, *most)),
        VectorForm::Wide(_)
        | VectorForm::Mask(_)
        | VectorForm::Maybe(..)
        | VectorForm::Record(_)
        | VectorForm::Unknown => None,
    }
}

/// A number of 32 bits.
pub(super) fn number(v: &VectorForm) -> Option<NumberRef> {
    match v {
        VectorForm::Const(v) => Some(NumberRef::Const(u32::try_from(*v).ok()?)),
        VectorForm::Number { of, .. } => Some(*of),
        VectorForm::Wide(_)
        | VectorForm::Mask(_)
        | VectorForm::Maybe(..)
        | VectorForm::Record(_)
        | VectorForm::Unknown => None,
    }
}

/// The most that so many bits hold; at most 32 of them.
fn top(bits: u8) -> u64 {
    u64::MAX >> (64 - u32::from(bits.min(32)))
}

impl Vectorizer<'_> {
    pub(super) fn not(&mut self, t: MaskRef) -> MaskRef {
        match t {
            MaskRef::All => MaskRef::None,
            MaskRef::None => MaskRef::All,
            MaskRef::Stack | MaskRef::Value(_) => self.mask(VectorOp::Not(t)),
        }
    }

    pub(super) fn and(&mut self, a: MaskRef, b: MaskRef) -> MaskRef {
        match (a, b) {
            (MaskRef::All, t) | (t, MaskRef::All) => t,
            (MaskRef::None, _) | (_, MaskRef::None) => MaskRef::None,
            (a, b) if a == b => a,
            (a, b) => self.mask(VectorOp::Both(a, b)),
        }
    }

    pub(super) fn or(&mut self, a: MaskRef, b: MaskRef) -> MaskRef {
        match (a, b) {
            (MaskRef::None, t) | (t, MaskRef::None) => t,
            (MaskRef::All, _) | (_, MaskRef::All) => MaskRef::All,
            (a, b) if a == b => a,
            (a, b) => self.mask(VectorOp::Either(a, b)),
        }
    }

    /// The first value where the mask is set, else the second.
    pub(super) fn choose(&mut self, t: MaskRef, a: VectorForm, b: VectorForm) -> Option<VectorForm> {
        match t {
            MaskRef::All => return Some(a),
            MaskRef::None => return Some(b),
            _ if a == b => return Some(a),
            MaskRef::Stack | MaskRef::Value(_) => {}
        }
        Some(match (a, b) {
            (VectorForm::Unknown, _) | (_, VectorForm::Unknown) => VectorForm::Unknown,
            (VectorForm::Mask(a), VectorForm::Mask(b)) => VectorForm::Mask(self.choose_mask(t, a, b)),
            (VectorForm::Maybe(a, x), VectorForm::Maybe(b, y)) => {
                let has = if a == b { a } else { self.choose_mask(t, a, b) };
                VectorForm::Maybe(has, Box::new(self.choose(t, *x, *y)?))
            }
            (VectorForm::Record(a), VectorForm::Record(b)) => {
                VectorForm::Record(a.into_iter().zip(b).map(|(a, b)| self.choose(t, a, b)).collect::<Option<_>>()?)
            }
            (a, b) => match (span(&a), span(&b)) {
                (Some(x), Some(y)) => {
                    let op = VectorOp::Choose(t, number(&a)?, number(&b)?);
                    self.number(op, x.0.min(y.0), x.1.max(y.1))
                }
                _ => self.wide(|v, i| {
                    let (x, y) = (part(&a, i)?, part(&b, i)?);
                    v.choose(t, x, y)
                })?,
            },
        })
    }

    fn choose_mask(&mut self, t: MaskRef, a: MaskRef, b: MaskRef) -> MaskRef {
        let (not, yes) = (self.not(t), self.and(t, a));
        let no = self.and(not, b);
        self.or(yes, no)
    }

    fn wide(&mut self, mut each: impl FnMut(&mut Self, usize) -> Option<VectorForm>) -> Option<VectorForm> {
        (0..4).map(|i| each(self, i)).collect::<Option<_>>().map(VectorForm::Wide)
    }

    pub(super) fn compare(&mut self, op: Compare, a: &VectorForm, b: &VectorForm) -> Option<MaskRef> {
        if let (VectorForm::Const(a), VectorForm::Const(b)) = (a, b) {
            return Some(constant(match op {
                Compare::Eq => a == b,
                Compare::Le => a <= b,
                Compare::Lt => a < b,
            }));
        }
        let ((_, am), (bl, _)) = (span(a)?, span(b)?);
        match op {
            Compare::Le if am <= bl => return Some(MaskRef::All),
            Compare::Lt if am < bl => return Some(MaskRef::All),
            Compare::Le | Compare::Lt | Compare::Eq => {}
        }
        Some(self.mask(VectorOp::Compare(op, number(a)?, number(b)?)))
    }

    pub(super) fn equal(&mut self, a: &VectorForm, b: &VectorForm) -> Option<MaskRef> {
        match (a, b) {
            (VectorForm::Mask(a), VectorForm::Mask(b)) => {
                let (x, y) = (self.and(*a, *b), self.or(*a, *b));
                let neither = self.not(y);
                Some(self.or(x, neither))
            }
            (VectorForm::Wide(_), _) | (_, VectorForm::Wide(_)) => {
                let mut all = MaskRef::All;
                for i in 0..4 {
                    let (x, y) = (part(a, i)?, part(b, i)?);
                    let same = self.compare(Compare::Eq, &x, &y)?;
                    all = self.and(all, same);
                }
                Some(all)
            }
            _ => self.compare(Compare::Eq, a, b),
        }
    }

    /// A number less a constant that it is known not to be below.
    pub(super) fn less(&mut self, a: &VectorForm, by: u32) -> Option<VectorForm> {
        if by == 0 {
            return Some(a.clone());
        }
        let (of, (_, most)) = (number(a)?, span(a)?);
        let op = VectorOp::Binary(BinaryOp::Sub, of, NumberRef::Const(by), None);
        Some(self.number(op, 0, most.saturating_sub(by.into())))
    }

    pub(super) fn shifted_up(&mut self, v: &VectorForm, by: u32) -> Option<VectorForm> {
        match v {
            _ if by == 0 => return Some(v.clone()),
            VectorForm::Const(v) => return Some(VectorForm::Const(v << by & 0xffff_ffff)),
            VectorForm::Number { .. }
            | VectorForm::Wide(_)
            | VectorForm::Mask(_)
            | VectorForm::Maybe(..)
            | VectorForm::Record(_)
            | VectorForm::Unknown => {}
        }
        let (of, (least, most)) = (number(v)?, span(v)?);
        let fits = most << by <= u64::from(u32::MAX);
        let (least, most) = if fits { (least << by, most << by) } else { (0, u64::from(u32::MAX)) };
        Some(self.number(VectorOp::Shl(of, by), least, most))
    }

    pub(super) fn shifted_down(&mut self, v: &VectorForm, by: u32) -> Option<VectorForm> {
        match v {
            _ if by == 0 => return Some(v.clone()),
            VectorForm::Const(v) => return Some(VectorForm::Const(v >> by)),
            VectorForm::Number { .. }
            | VectorForm::Wide(_)
            | VectorForm::Mask(_)
            | VectorForm::Maybe(..)
            | VectorForm::Record(_)
            | VectorForm::Unknown => {}
        }
        let (of, (least, most)) = (number(v)?, span(v)?);
        Some(self.number(VectorOp::Bits { of, shift: by, mask: None }, least >> by, most >> by))
    }

    /// Numbers of so many bits; None: the result may have more than 32 bits.
    pub(super) fn arithmetic(&mut self, op: BinaryOp, a: &VectorForm, b: &VectorForm, bits: u8) -> Option<VectorForm> {
        use BinaryOp::*;
        if bits > 64 || matches!((a, b), (VectorForm::Wide(_), _) | (_, VectorForm::Wide(_))) {
            return self.wide_bits(op, a, b);
        }
        match (op, a, b) {
            (Or | Xor | Add, VectorForm::Const(0), x) | (Or | Xor | Add | Sub, x, VectorForm::Const(0)) => {
                return Some(x.clone())
            }
            (Or, VectorForm::Const(a), VectorForm::Const(b)) => return Some(VectorForm::Const(a | b)),
            _ => {}
        }
        let ((al, am), (bl, bm)) = (span(a)?, span(b)?);
        let ones = |n: u64| u64::MAX.checked_shr(n.leading_zeros()).unwrap_or(0);
        let (least, most) = match op {
            Add => (al + bl, am + bm),
            Mul => (al.checked_mul(bl)?, am.checked_mul(bm)?),
            Sub if al >= bm => (al - bm, am - bl),
            Sub => (0, u64::MAX),
            And => (0, am.min(bm)),
            Or | Xor => (0, ones(am | bm)),
        };
        let (a, b, top) = (number(a)?, number(b)?, top(bits));
        if most <= top {
            return Some(self.number(VectorOp::Binary(op, a, b, None), least, most));
        }
        // It wraps, as 32 bits do; a wider number would not.
        if bits > 32 {
            return None;
        }
        let mask = (bits < 32).then_some(top as u32);
        Some(self.number(VectorOp::Binary(op, a, b, mask), 0, top))
    }

    fn wide_bits(&mut self, op: BinaryOp, a: &VectorForm, b: &VectorForm) -> Option<VectorForm> {
        if !matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) {
            return None;
        }
        self.wide(|v, i| {
            let (x, y) = (part(a, i)?, part(b, i)?);
            v.arithmetic(op, &x, &y, 32)
        })
    }

    pub(super) fn cast(&mut self, v: VectorForm, from: TyId, to: TyId) -> Option<VectorForm> {
        match (self.m.ty(from), self.m.ty(to)) {
            (Ty::Ip, Ty::UInt(128)) | (Ty::UInt(128), Ty::Ip) => Some(v),
            (Ty::Bool, Ty::UInt(_)) => {
                let VectorForm::Mask(t) = v else { return None };
                self.choose(t, VectorForm::Const(1), VectorForm::Const(0))
            }
            (Ty::UInt(_), Ty::UInt(bits)) => {
                if let VectorForm::Wide(_) = v {
                    return if *bits == 128 { Some(v) } else { None };
                }
                let (bits, most) = (u32::from(*bits).min(64), span(&v)?.1);
                if bits >= 64 || most <= u64::MAX >> (64 - bits) {
                    return Some(v);
                }
                let mask = VectorForm::Const(u128::from(u64::MAX >> (64 - bits)));
                self.arithmetic(BinaryOp::And, &v, &mask, 32)
            }
            (a, b) if a == b => Some(v),
            _ => None,
        }
    }

    pub(super) fn in_ranges(&mut self, v: &VectorForm, ranges: &[(u64, u64)]) -> Option<MaskRef> {
        if ranges.len() > MAX_RANGES {
            return None;
        }
        let mut any = MaskRef::None;
        for (low, high) in ranges {
            let high = (*high).min(u64::from(u32::MAX));
            if *low > high {
                continue;
            }
            let from = match v {
                VectorForm::Const(v) => {
                    VectorForm::Const(u128::from((u32::try_from(*v).ok()?).wrapping_sub(*low as u32)))
                }
                // A number below wraps to one above.
                _ if *low > 0 => {
                    let op = VectorOp::Binary(BinaryOp::Sub, number(v)?, NumberRef::Const(*low as u32), None);
                    self.number(op, 0, u64::from(u32::MAX))
                }
                VectorForm::Number { .. }
                | VectorForm::Wide(_)
                | VectorForm::Mask(_)
                | VectorForm::Maybe(..)
                | VectorForm::Record(_)
                | VectorForm::Unknown => v.clone(),
            };
            let within = self.compare(Compare::Le, &from, &VectorForm::Const(u128::from(high - low)))?;
            any = self.or(any, within);
        }
        Some(any)
    }
}

/// Most ranges that a number is compared with.
const MAX_RANGES: usize = 16;
