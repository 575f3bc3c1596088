//! Expressions over sixteen frames.

use super::value::{constant, span, zero, VectorForm};
use super::Vectorizer;
use crate::layout::int_of;
use crate::plans::{BinaryOp, Compare, MaskRef, VectorOp};
use crate::*;

/// The operation of a vector for one of the language.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn vector_op(op: BinOp) -> Option<BinaryOp> {
    match op {
        BinOp::Add => Some(BinaryOp::Add),
        BinOp::Sub => Some(BinaryOp::Sub),
        BinOp::Mul => Some(BinaryOp::Mul),
        BinOp::BitAnd => Some(BinaryOp::And),
        BinOp::BitOr => Some(BinaryOp::Or),
        BinOp::BitXor => Some(BinaryOp::Xor),
        _ => None,
    }
}

impl<'a> Vectorizer<'a> {
    pub(super) fn condition(&mut self, e: &Expr) -> Option<MaskRef> {
        if let Some(n) = self.hoisted.condition(e) {
            return Some(self.mask(VectorOp::When(n as u32)));
        }
        match self.expr(e)? {
            VectorForm::Mask(t) => Some(t),
            VectorForm::Const(_)
            | VectorForm::Number { .. }
            | VectorForm::Wide(_)
            | VectorForm::Maybe(..)
            | VectorForm::Record(_)
            | VectorForm::Unknown => None,
        }
    }

    /// The last header whose presence is all that a condition is about.
    fn header_asked_for(&self, cond: &Expr) -> Option<u32> {
        let ExprKind::Case(Path { root: Root::Local(LocalId(0)), steps }, 0) = &*cond.kind else { return None };
        let [Step::Field(f)] = steps[..] else { return None };
        self.layers().iter().position(|l| l.switch == f).map(|n| n as u32)
    }

    /// Evaluates what is used only where a condition does not hold.
    pub(super) fn unless<T>(&mut self, cond: &Expr, then: impl FnOnce(&mut Self) -> T) -> T {
        let fresh = self.header_asked_for(cond).filter(|n| self.absent.insert(*n));
        let value = then(self);
        if let Some(n) = fresh {
            self.absent.remove(&n);
        }
        value
    }

    /// None: it has no form for vectors.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(super) fn expr(&mut self, e: &Expr) -> Option<VectorForm> {
        use ExprKind as E;
        let width = int_of(self.m, e.ty);
        if width.is_some_and(|w| w.1) {
            return None;
        }
        let value = match &*e.kind {
            E::Int(v) => VectorForm::Const(*v),
            E::Bool(b) => VectorForm::Mask(constant(*b)),
            E::Local(l) => self.locals.get(l.index())?.clone(),
            E::Param(_) => self.param(e, width?.0)?,
            E::FrameLen(LocalId(0)) => self.lengths(),
            E::Read(path) => self.read(path)?,
            E::Case(Path { root: Root::Local(LocalId(0)), steps }, n) => {
                let [Step::Field(f)] = steps[..] else { return None };
                let layer = self.layers().iter().position(|l| l.switch == f)? as u32;
                let has = self.has(layer)?;
                VectorForm::Mask(if *n == 0 { has } else { self.not(has) })
            }
            E::Unary(UnOp::Not, a) => {
                let t = self.condition(a)?;
                VectorForm::Mask(self.not(t))
            }
            E::Binary(op, a, b) => self.binary(*op, a, b, width)?,
            E::Cast(a) => {
                let v = self.expr(a)?;
                self.cast(v, a.ty, e.ty)?
            }
            E::If(c, a, b) => {
                let t = self.condition(c)?;
                let yes = if t == MaskRef::None { VectorForm::Unknown } else { self.expr(a)? };
                let no = if t == MaskRef::All { VectorForm::Unknown } else { self.unless(c, |v| v.expr(b))? };
                self.choose(t, yes, no)?
            }
            E::InRanges(a, r) => {
                let v = self.expr(a)?;
                VectorForm::Mask(self.in_ranges(&v, r)?)
            }
            E::Some(a) => VectorForm::Maybe(MaskRef::All, Box::new(self.expr(a)?)),
            E::None => zero(self.m, e.ty),
            E::IsSome(a) => match self.expr(a)? {
                VectorForm::Maybe(has, _) => VectorForm::Mask(has),
                VectorForm::Const(_)
                | VectorForm::Number { .. }
                | VectorForm::Wide(_)
                | VectorForm::Mask(_)
                | VectorForm::Record(_)
                | VectorForm::Unknown => return None,
            },
            E::Unwrap(a) => match self.expr(a)? {
                VectorForm::Maybe(_, v) => *v,
                VectorForm::Const(_)
                | VectorForm::Number { .. }
                | VectorForm::Wide(_)
                | VectorForm::Mask(_)
                | VectorForm::Record(_)
                | VectorForm::Unknown => return None,
            },
            E::Make(list) if *self.m.ty(e.ty) != Ty::Endpoint => {
                VectorForm::Record(list.iter().map(|e| self.expr(e)).collect::<Option<_>>()?)
            }
            E::Get(a, n) => match self.expr(a)? {
                VectorForm::Record(list) => list.get(*n as usize)?.clone(),
                VectorForm::Const(_)
                | VectorForm::Number { .. }
                | VectorForm::Wide(_)
                | VectorForm::Mask(_)
                | VectorForm::Maybe(..)
                | VectorForm::Unknown => return None,
            },
            _ => return None,
        };
        (value != VectorForm::Unknown).then_some(value)
    }

    fn param(&mut self, e: &Expr, bits: u8) -> Option<VectorForm> {
        if *self.m.ty(e.ty) == Ty::Bool {
            return Some(VectorForm::Mask(self.mask(VectorOp::Holds(e.clone()))));
        }
        (1..=32).contains(&bits).then(|| self.number(VectorOp::Param(e.clone()), 0, u64::MAX >> (64 - u32::from(bits))))
    }

    fn read(&mut self, path: &Path) -> Option<VectorForm> {
        match (path.root, &path.steps[..]) {
            (Root::Local(LocalId(0)), [Step::Field(h), Step::Field(f)]) => {
                let (unit, at) = self.header_of(*h)?;
                self.field(unit, at, *f, true)
            }
            (Root::This, [Step::Field(f)]) => {
                let (unit, at) = self.this?;
                self.field(unit, at, *f, true)
            }
            _ => None,
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, width: Option<(u8, bool)>) -> Option<VectorForm> {
        match op {
            BinOp::And => {
                let x = self.condition(a)?;
                if x == MaskRef::None {
                    return Some(VectorForm::Mask(x));
                }
                let y = self.condition(b)?;
                Some(VectorForm::Mask(self.and(x, y)))
            }
            BinOp::Or => {
                let x = self.condition(a)?;
                if x == MaskRef::All {
                    return Some(VectorForm::Mask(x));
                }
                let y = self.unless(a, |v| v.condition(b))?;
                Some(VectorForm::Mask(self.or(x, y)))
            }
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => self.compared(op, a, b),
            BinOp::Shl | BinOp::Shr => {
                let (x, VectorForm::Const(by), (bits, _)) = (self.expr(a)?, self.expr(b)?, width?) else { return None };
                let bits = u32::from(bits.min(32));
                let (by, most) = (u32::try_from(by).ok().filter(|by| *by < bits)?, span(&x)?.1);
                if op != BinOp::Shl {
                    return self.shifted_down(&x, by);
                }
                if most << by > u64::MAX >> (64 - bits) {
                    return None;
                }
                self.shifted_up(&x, by)
            }
            op => {
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                self.arithmetic(vector_op(op)?, &x, &y, width?.0)
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn compared(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Option<VectorForm> {
        if int_of(self.m, a.ty).is_none_or(|t| t.1) && *self.m.ty(a.ty) != Ty::Ip {
            return None;
        }
        let (x, y) = (self.expr(a)?, self.expr(b)?);
        Some(VectorForm::Mask(match op {
            BinOp::Eq => self.equal(&x, &y)?,
            BinOp::Ne => {
                let same = self.equal(&x, &y)?;
                self.not(same)
            }
            BinOp::Lt => self.compare(Compare::Lt, &x, &y)?,
            BinOp::Le => self.compare(Compare::Le, &x, &y)?,
            BinOp::Gt => self.compare(Compare::Lt, &y, &x)?,
            BinOp::Ge => self.compare(Compare::Le, &y, &x)?,
            _ => return None,
        }))
    }
}
