//! Expressions over sixteen frames: fields, numbers, conditions.

use super::{part, span, truth, Mask, VectorValue, Vectorizer};
use crate::expr::Scope;
use crate::names;
use crate::types::int_of;
use wireloom_ir::frame::fixed_offset;
use wireloom_ir::parse_graph;
use wireloom_ir::*;

impl<'m> Vectorizer<'_, 'm> {
    /// A field of a header that begins at a place. `checked`: its values are what the unit says
    /// they are.
    pub(super) fn field(&mut self, unit: UnitId, at: u32, f: FieldId, checked: bool) -> Option<VectorValue> {
        let m = self.g.m;
        let field = &m.unit(unit).fields[f.index()];
        match &field.kind {
            FieldKind::Let { value } => {
                let outer = self.this.replace((unit, at));
                let value = self.expr(value);
                self.this = outer;
                value
            }
            FieldKind::UInt { bytes: bytes @ 1..=4, shift, bits, big, signed: false, .. } => {
                let n = u32::from(*bytes);
                let (word, by) = self.bytes(at + fixed_offset(m, unit, f)?, n);
                let (text, by) = match big {
                    true if n > 1 => (self.named("w", "wl_lanes", format!("wl_lanes_swap({word})")), 8 * (4 - by - n)),
                    _ => (word, 8 * by),
                };
                let (by, top) = (by + u32::from(*shift), u64::MAX >> (64 - u32::from(*bits)));
                let plain = by == 0 && *bits == 32;
                let text = if by == 0 { text } else { format!("wl_lanes_shr({text}, {by})") };
                let text = if by + u32::from(*bits) == 32 {
                    text
                } else {
                    format!("wl_lanes_and({text}, wl_lanes_set({top:#x}u))")
                };
                let ranges = field.within.as_ref().filter(|r| checked && !r.is_empty());
                let (least, most) = ranges.map_or((0, top), |r| {
                    (r.iter().map(|r| r.0).min().unwrap_or(0), r.iter().map(|r| r.1).max().unwrap_or(top).min(top))
                });
                // A length that counts its own header is no less than that.
                let own = m.unit(unit).header.covers.is_some_and(|c| c.own && c.field == f) && checked;
                let least = if own { least.max(u64::from(parse_graph::least(m, unit))) } else { least };
                if plain {
                    return Some(VectorValue::Word { name: text, least, most });
                }
                let called = field.name.as_deref().map_or("w".into(), |name| format!("{}_", names::ident(name)));
                Some(VectorValue::Word { name: self.named(&called, "wl_lanes", text), least, most })
            }
            _ => None,
        }
    }

    pub(super) fn in_ranges(&mut self, v: &VectorValue, ranges: &[(u64, u64)]) -> Option<Mask> {
        if ranges.len() > crate::expr::RANGES_INLINE {
            return None;
        }
        let mut any = Mask::Is(false);
        for (low, high) in ranges {
            let high = (*high).min(u64::from(u32::MAX));
            if *low > high {
                continue;
            }
            let from = match v {
                VectorValue::Const(v) => {
                    VectorValue::Const(u128::from((u32::try_from(*v).ok()?).wrapping_sub(*low as u32)))
                }
                // What is below wraps to what is above.
                _ if *low > 0 => {
                    let text = self.text(v)?;
                    self.word(format!("wl_lanes_sub({text}, wl_lanes_set({low}u))"), 0, u64::from(u32::MAX))
                }
                _ => v.clone(),
            };
            let within = self.compare("le", &from, &VectorValue::Const(u128::from(high - low)))?;
            any = self.or(&any, &within);
        }
        Some(any)
    }

    /// Numbers; None: it may be more than 32 bits hold.
    pub(super) fn arithmetic(&mut self, op: BinOp, a: &VectorValue, b: &VectorValue, bits: u8) -> Option<VectorValue> {
        use BinOp::*;
        if bits > 64 || matches!((a, b), (VectorValue::Wide(_), _) | (_, VectorValue::Wide(_))) {
            return self.wide_bits(op, a, b);
        }
        match (op, a, b) {
            (BitOr | BitXor | Add, VectorValue::Const(0), x)
            | (BitOr | BitXor | Add | Sub, x, VectorValue::Const(0)) => return Some(x.clone()),
            (BitOr, VectorValue::Const(a), VectorValue::Const(b)) => return Some(VectorValue::Const(a | b)),
            _ => {}
        }
        let ((al, am), (bl, bm)) = (span(a)?, span(b)?);
        let top = u64::MAX >> (64 - u32::from(bits.min(32)));
        let ones = |n: u64| u64::MAX.checked_shr(n.leading_zeros()).unwrap_or(0);
        let (name, least, most) = match op {
            Add => ("add", al + bl, am + bm),
            Mul => ("mul", al.checked_mul(bl)?, am.checked_mul(bm)?),
            Sub if al >= bm => ("sub", al - bm, am - bl),
            Sub => ("sub", 0, u64::MAX),
            BitAnd => ("and", 0, am.min(bm)),
            BitOr => ("or", 0, ones(am | bm)),
            BitXor => ("xor", 0, ones(am | bm)),
            _ => return None,
        };
        let text = format!("wl_lanes_{name}({}, {})", self.text(a)?, self.text(b)?);
        if most <= top {
            return Some(self.word(text, least, most));
        }
        // It wraps, as 32 bits do; a wider number would not.
        if bits > 32 {
            return None;
        }
        let text = if bits == 32 { text } else { format!("wl_lanes_and({text}, wl_lanes_set({top:#x}u))") };
        Some(self.word(text, 0, top))
    }

    pub(super) fn wide_bits(&mut self, op: BinOp, a: &VectorValue, b: &VectorValue) -> Option<VectorValue> {
        if !matches!(op, BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor) {
            return None;
        }
        self.wide(|l, i| {
            let (x, y) = (part(a, i)?, part(b, i)?);
            l.arithmetic(op, &x, &y, 32)
        })
    }

    pub(super) fn equal(&mut self, a: &VectorValue, b: &VectorValue) -> Option<Mask> {
        match (a, b) {
            (VectorValue::Mask(a), VectorValue::Mask(b)) => {
                let (x, y) = (self.and(a, b), self.or(a, b));
                let neither = self.not(&y);
                Some(self.or(&x, &neither))
            }
            (VectorValue::Wide(_), _) | (_, VectorValue::Wide(_)) => {
                let mut all = Mask::Is(true);
                for i in 0..4 {
                    let (x, y) = (part(a, i)?, part(b, i)?);
                    let same = self.compare("eq", &x, &y)?;
                    all = self.and(&all, &same);
                }
                Some(all)
            }
            _ => self.compare("eq", a, b),
        }
    }

    pub(super) fn condition(&mut self, e: &Expr) -> Option<Mask> {
        if let Some(n) = self.kept.setting(e) {
            return Some(self.bits(format!("wl_lanes_all(keep.when_{n})")));
        }
        match self.expr(e)? {
            VectorValue::Mask(t) => Some(t),
            _ => None,
        }
    }

    /// The header of the frame that a path leads to, and where it begins.
    pub(super) fn header_of(&self, f: FieldId) -> Option<(UnitId, u32)> {
        let layer = self.g.layers(self.unit).iter().position(|l| l.header == f)? as u32;
        let s = self.shape.stages.iter().flatten().find(|s| s.layer == layer)?;
        Some((self.g.layers(self.unit)[layer as usize].unit, s.at))
    }

    /// The last header that a condition asks for alone.
    pub(super) fn asked(&self, cond: &Expr) -> Option<u32> {
        let ExprKind::Case(Path { root: Root::Local(LocalId(0)), steps }, 0) = &*cond.kind else { return None };
        let [Step::Field(f)] = steps[..] else { return None };
        self.g.layers(self.unit).iter().position(|l| l.switch == f).map(|n| n as u32)
    }

    /// Evaluates what is only looked at where a condition does not hold.
    pub(super) fn unless<T>(&mut self, cond: &Expr, then: impl FnOnce(&mut Self) -> T) -> T {
        let fresh = self.asked(cond).filter(|n| self.absent.insert(*n));
        let value = then(self);
        if let Some(n) = fresh {
            self.absent.remove(&n);
        }
        value
    }

    pub(super) fn expr(&mut self, e: &Expr) -> Option<VectorValue> {
        use ExprKind::*;
        let m = self.g.m;
        let width = int_of(m, e.ty);
        if matches!(width, Option::Some((_, true))) {
            return no_lane();
        }
        let value = match &*e.kind {
            Int(v) => VectorValue::Const(*v),
            Bool(b) => truth(*b),
            Local(l) => self.locals.get(l.index())?.clone(),
            Param(_) => match width? {
                (1, _) if *m.ty(e.ty) == Ty::Bool => {
                    let text = self.g.expr(&Scope::default(), e);
                    VectorValue::Mask(self.bits(format!("wl_lanes_all({text})")))
                }
                (bits @ 1..=32, _) => {
                    let text = self.g.expr(&Scope::default(), e);
                    self.word(format!("wl_lanes_set({text})"), 0, u64::MAX >> (64 - u32::from(bits)))
                }
                _ => return no_lane(),
            },
            FrameLen(LocalId(0)) => self.lengths(),
            Read(Path { root: Root::Local(LocalId(0)), steps }) => match steps[..] {
                [Step::Field(h), Step::Field(f)] => {
                    let (unit, at) = self.header_of(h)?;
                    self.field(unit, at, f, true)?
                }
                _ => return no_lane(),
            },
            Read(Path { root: Root::This, steps }) => match (self.this, &steps[..]) {
                (Option::Some((unit, at)), [Step::Field(f)]) => self.field(unit, at, *f, true)?,
                _ => return no_lane(),
            },
            Case(Path { root: Root::Local(LocalId(0)), steps }, n) => {
                let [Step::Field(f)] = steps[..] else { return no_lane() };
                let layer = self.g.layers(self.unit).iter().position(|l| l.switch == f)? as u32;
                let has = self.has(layer)?;
                VectorValue::Mask(if *n == 0 { has } else { self.not(&has) })
            }
            Unary(UnOp::Not, a) => {
                let t = self.condition(a)?;
                VectorValue::Mask(self.not(&t))
            }
            Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
                let x = self.condition(a)?;
                if x == Mask::Is(*op == BinOp::Or) {
                    return Option::Some(VectorValue::Mask(x));
                }
                let y = if *op == BinOp::Or { self.unless(a, |l| l.condition(b))? } else { self.condition(b)? };
                VectorValue::Mask(if *op == BinOp::Or { self.or(&x, &y) } else { self.and(&x, &y) })
            }
            Binary(op @ (BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge), a, b) => {
                if int_of(m, a.ty).is_none_or(|t| t.1) && *m.ty(a.ty) != Ty::Ip {
                    return no_lane();
                }
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                VectorValue::Mask(match op {
                    BinOp::Eq => self.equal(&x, &y)?,
                    BinOp::Ne => {
                        let same = self.equal(&x, &y)?;
                        self.not(&same)
                    }
                    BinOp::Lt => self.compare("lt", &x, &y)?,
                    BinOp::Le => self.compare("le", &x, &y)?,
                    BinOp::Gt => self.compare("lt", &y, &x)?,
                    _ => self.compare("le", &y, &x)?,
                })
            }
            Binary(op @ (BinOp::Shl | BinOp::Shr), a, b) => {
                let (x, VectorValue::Const(by), (bits, _)) = (self.expr(a)?, self.expr(b)?, width?) else {
                    return no_lane();
                };
                let (by, most) = (u64::try_from(by).ok().filter(|by| *by < u64::from(bits.min(32)))?, span(&x)?.1);
                if *op == BinOp::Shl && most << by > u64::MAX >> (64 - u32::from(bits.min(32))) {
                    return no_lane();
                }
                self.shifted(if *op == BinOp::Shl { "shl" } else { "shr" }, &x, by)?
            }
            Binary(op, a, b) => {
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                self.arithmetic(*op, &x, &y, width?.0)?
            }
            Cast(a) => {
                let v = self.expr(a)?;
                self.cast(v, a.ty, e.ty)?
            }
            If(c, a, b) => {
                let t = self.condition(c)?;
                let yes = if t == Mask::Is(false) { VectorValue::Unknown } else { self.expr(a)? };
                let no = if t == Mask::Is(true) { VectorValue::Unknown } else { self.unless(c, |l| l.expr(b))? };
                self.choose(&t, yes, no)?
            }
            InRanges(a, r) => {
                let v = self.expr(a)?;
                VectorValue::Mask(self.in_ranges(&v, r)?)
            }
            Some(a) => VectorValue::Maybe(Mask::Is(true), Box::new(self.expr(a)?)),
            None => self.zero(e.ty),
            IsSome(a) => match self.expr(a)? {
                VectorValue::Maybe(has, _) => VectorValue::Mask(has),
                _ => return no_lane(),
            },
            Unwrap(a) => match self.expr(a)? {
                VectorValue::Maybe(_, v) => *v,
                _ => return no_lane(),
            },
            Make(list) if *m.ty(e.ty) != Ty::Endpoint => {
                VectorValue::Record(list.iter().map(|e| self.expr(e)).collect::<Option<_>>()?)
            }
            Get(a, n) => match self.expr(a)? {
                VectorValue::Record(list) => list.get(*n as usize)?.clone(),
                _ => return no_lane(),
            },
            _ => return no_lane(),
        };
        if value == VectorValue::Unknown {
            return no_lane();
        }
        Option::Some(value)
    }

    pub(super) fn cast(&mut self, v: VectorValue, from: TyId, to: TyId) -> Option<VectorValue> {
        let m = self.g.m;
        match (m.ty(from), m.ty(to)) {
            (Ty::Ip, Ty::UInt(128)) | (Ty::UInt(128), Ty::Ip) => Some(v),
            (Ty::Bool, Ty::UInt(_)) => {
                let VectorValue::Mask(t) = v else { return None };
                self.choose(&t, VectorValue::Const(1), VectorValue::Const(0))
            }
            (Ty::UInt(_), Ty::UInt(bits)) => {
                if let VectorValue::Wide(_) = v {
                    return if *bits == 128 { Some(v) } else { None };
                }
                let (bits, most) = (u32::from(*bits).min(64), span(&v)?.1);
                if bits >= 64 || most <= u64::MAX >> (64 - bits) {
                    return Some(v);
                }
                let mask = VectorValue::Const(u128::from(u64::MAX >> (64 - bits)));
                self.arithmetic(BinOp::BitAnd, &v, &mask, 32)
            }
            (a, b) if a == b => Some(v),
            _ => None,
        }
    }
}

/// Where the `None` in scope is that of expressions.
fn no_lane() -> Option<VectorValue> {
    None
}
