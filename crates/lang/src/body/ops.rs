//! Operators.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and StmtKind")]

use super::{Kind, Lower};
use crate::compiler::{Reported, R, T_U32, T_U64};
use crate::ir_builder as build;
use crate::items::Item;
use crate::ty::{Ty, U32, U64};
use crate::val::{Val, Vk};
use ir::{BinOp as B, Expr as X, ExprKind, FaultKind, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, BinOp, Expr, Span, UnOp};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    pub fn unary(&mut self, op: UnOp, a: &Expr, span: Span, want: Option<&Ty>) -> R<Val> {
        match op {
            UnOp::Not => {
                let c = self.cond(a)?;
                Ok(Val::pure(Ty::Bool, build::not(c)))
            }
            UnOp::Neg | UnOp::BitNot => {
                let v = self.expr(a, want)?;
                let v = self.defined(v, span)?;
                let ty = match (&v.ty, want) {
                    (Ty::Lit, Some(w @ Ty::Int { .. })) => w.clone(),
                    (Ty::Lit, _) if op == UnOp::Neg => Ty::Int { bits: 64, signed: true },
                    (Ty::Lit, _) => U64,
                    (t @ Ty::Int { .. }, _) => t.clone(),
                    (t, _) => {
                        let s = self.show(t);
                        return Err(self.err("E0301", span, format!("expected an integer, found {s}")));
                    }
                };
                if op == UnOp::Neg && !matches!(ty, Ty::Int { signed: true, .. }) {
                    let s = self.show(&ty);
                    return Err(self.err("E0301", span, format!("{s} has no negative values")));
                }
                if let (UnOp::Neg, ast::ExprKind::Int(n), Some(bits)) = (op, &*a.kind, ty.int_bits()) {
                    // The least value has no positive counterpart.
                    if *n == 1u128 << (bits - 1) {
                        let t = self.cx.lower_ty(&ty);
                        return Ok(Val::pure(ty, build::int(t, *n)));
                    }
                }
                let e = self.coerce(v, &ty, a.span)?;
                let op = if op == UnOp::Neg { ir::UnOp::Neg } else { ir::UnOp::BitNot };
                let t = e.ty;
                let e = crate::fold::fold(&self.cx.m, &X::new(t, ExprKind::Unary(op, e)));
                Ok(Val::pure(ty, e))
            }
        }
    }

    /// A condition: bool, or whether an option is there.
    pub fn cond(&mut self, e: &Expr) -> R<X> {
        let v = self.expr(e, Some(&Ty::Bool))?;
        self.as_cond(v, e)
    }

    fn as_cond(&mut self, v: Val, e: &Expr) -> R<X> {
        // The entries of an array are all there: what they hold is asked for, not whether the index
        // is one.
        if let (Ty::Option(inner), true) = (&v.ty, self.is_array_entry(e)) {
            if **inner == Ty::Bool {
                let there = self.cond_of(v.clone(), e.span)?;
                let inner = self.inner(v);
                let held = self.cond_of(inner, e.span)?;
                return Ok(build::and(there, held));
            }
        }
        self.cond_of(v, e.span)
    }

    pub fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, span: Span, want: Option<&Ty>) -> R<Val> {
        match op {
            BinOp::And | BinOp::Or => self.logic(op == BinOp::And, a, b, span),
            BinOp::In => self.in_(a, b, span),
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::EqCase => {
                self.compare(op, a, b, span)
            }
            BinOp::Shl | BinOp::Shr => self.shift(op, a, b, span, want),
            BinOp::Add
            | BinOp::Sub
            | BinOp::Mul
            | BinOp::Div
            | BinOp::Rem
            | BinOp::AddSat
            | BinOp::SubSat
            | BinOp::BitAnd
            | BinOp::BitOr
            | BinOp::BitXor => self.arithmetic(op, a, b, span, want),
        }
    }

    /// `and`, `or`: the right side is evaluated (and may fault) only if the left one leaves it
    /// open.
    fn logic(&mut self, and: bool, a: &Expr, b: &Expr, span: Span) -> R<Val> {
        let left = self.cond(a);
        let Ok(left) = left else {
            // The right side is still checked, with nothing known.
            let (_, _) = self.sub(|s| s.cond(b));
            return Err(Reported);
        };
        if self.asking && build::as_bool(&crate::fold::fold(&self.cx.m, &left)) == Some(!and) {
            return Ok(Val::pure(Ty::Bool, build::boolean(!and)));
        }
        let (right, block) = self.sub(|s| {
            s.assume(&left, and);
            let v = s.expr_may_leave(b, Some(&Ty::Bool))?;
            s.as_cond(v, b)
        });
        let right = right?;
        if let Some(requires) = only_requires(&block) {
            for (cond, kind, place, sp) in requires {
                let cond = if and { build::or(build::not(left.clone()), cond) } else { build::or(left.clone(), cond) };
                self.out.push(build::stmt(sp, StmtKind::Require { cond, kind, place }));
            }
            return Ok(Val::pure(Ty::Bool, if and { build::and(left, right) } else { build::or(left, right) }));
        }
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let t = self.temp("", &Ty::Bool, left.clone(), span);
        let mut block = block;
        let sp = self.cx.span(span);
        block.push(build::stmt(sp, StmtKind::Set(t, right)));
        let local = self.local_expr(t);
        let (then, other) = if and { (block, vec![]) } else { (vec![], block) };
        self.push(span, StmtKind::If { cond: local.clone(), then, other });
        Ok(Val::pure(Ty::Bool, local))
    }

    pub fn involved(&mut self, span: Span) -> Reported {
        // A function that needs statements itself is no way out.
        let called = self.cx.map.file(span.file).and_then(|f| f.text.get(span.start as usize..span.end as usize));
        let hint = if called.is_some_and(|text| text.ends_with(')')) {
            "units and clauses have values of their message only: ask for it in a handler"
        } else {
            "put it into a function; what tables hold is asked for in a handler"
        };
        let d = Diagnostic::error("E0430", span, "this is too involved here");
        self.cx.report(d.label("needs statements").hint(hint))
    }

    /// `x in {…}`, `x in a..b`, `k in table`, `b in charset`.
    fn in_(&mut self, a: &Expr, b: &Expr, span: Span) -> R<Val> {
        if let Some(t) = self.table_name(b) {
            let v = self.table_get(t, a, span)?;
            let c = self.cond_of(v, span)?;
            return Ok(Val::pure(Ty::Bool, c));
        }
        let v = self.expr(a, None)?;
        let v = self.defined(v, a.span)?;
        let v = self.once(v, a.span);
        match &v.ty {
            Ty::Ip | Ty::Ip4 | Ty::Ip6 => {
                let e = self.coerce(v, &Ty::Ip, a.span)?;
                Ok(Val::pure(Ty::Bool, self.ip_in(e, b)?))
            }
            Ty::Endpoint if !matches!(&*b.kind, ast::ExprKind::Set(_)) => Err(self.cx.report(
                Diagnostic::error("E0301", a.span, "an endpoint is an address and a port")
                    .hint("ask for its address: `.ip in …`"),
            )),
            Ty::Int { .. } | Ty::Enum(_) | Ty::Lit | Ty::Fault | Ty::Mac => {
                let ty = self.settled(&v.ty);
                let e = self.coerce(v, &ty, a.span)?;
                self.in_numbers(e, &ty, b)
            }
            _ => {
                let ast::ExprKind::Set(items) = &*b.kind else {
                    // A name that nobody knows is told as such.
                    self.expr(b, None)?;
                    return Err(self.no_set(b.span));
                };
                self.cx.set_has_items(items, b.span)?;
                let mut all = Vec::with_capacity(items.len());
                for item in items {
                    let i = self.expr(item, Some(&v.ty.clone()))?;
                    all.push(self.equal(BinOp::Eq, v.clone(), i, item.span)?);
                }
                Ok(Val::pure(Ty::Bool, build::any(all)))
            }
        }
    }

    fn no_set(&mut self, span: Span) -> Reported {
        let d = Diagnostic::error("E0301", span, "expected a set `{…}`, a range or a table");
        self.cx.report(d.label("is none of these").hint("items of a list are asked by `list.any(|x| x == value)`"))
    }

    fn in_numbers(&mut self, e: X, ty: &Ty, set: &Expr) -> R<Val> {
        if matches!(&*set.kind, ast::ExprKind::Name(n) if self.lookup(&n.name).is_some() || self.cx.app.has(&n.name)) {
            self.expr(set, None)?;
            return Err(self.no_set(set.span));
        }
        let constant = match &*set.kind {
            ast::ExprKind::Set(items) => items.iter().all(|i| self.is_constant(i)),
            _ => true,
        };
        if constant {
            let ranges = self.const_ranges(set, ty)?;
            return Ok(Val::pure(Ty::Bool, crate::fold::fold(&self.cx.m, &self.truth(ExprKind::InRanges(e, ranges)))));
        }
        let ast::ExprKind::Set(items) = &*set.kind else { return Err(Reported) };
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            let i = self.expr_as(item, ty)?;
            all.push(build::cmp(B::Eq, e.clone(), i));
        }
        Ok(Val::pure(Ty::Bool, build::any(all)))
    }

    fn const_ranges(&mut self, set: &Expr, ty: &Ty) -> R<Vec<(u64, u64)>> {
        self.cx.ranges(self.module, set, ty)
    }

    /// A literal, or a name that is not one of a variable.
    pub fn is_constant(&self, e: &Expr) -> bool {
        match &*e.kind {
            ast::ExprKind::Int(_) | ast::ExprKind::Scaled(..) | ast::ExprKind::Range(..) => true,
            ast::ExprKind::Name(n) => self.lookup(&n.name).is_none() && !self.cx.app.has(&n.name),
            ast::ExprKind::Field(Some(b), _) => self.is_constant(b),
            ast::ExprKind::Unary(ast::UnOp::Neg, n) => self.is_constant(n),
            ast::ExprKind::Binary(_, a, b) => self.is_constant(a) && self.is_constant(b),
            _ => false,
        }
    }

    fn compare(&mut self, op: BinOp, a: &Expr, b: &Expr, span: Span) -> R<Val> {
        // A bare variant or fault name on one side takes its meaning from the other.
        let (va, vb) = if is_name(a) && !is_name(b) {
            let vb = self.expr(b, None);
            let hint = vb.as_ref().ok().map(|v| v.ty.clone());
            (self.expr(a, hint.as_ref()), vb)
        } else {
            let va = self.expr(a, None);
            let hint = va.as_ref().ok().map(|v| v.ty.clone());
            (va, self.expr(b, hint.as_ref()))
        };
        let c = self.equal(op, va?, vb?, span)?;
        self.warn_fixed(&c, (a, b), span);
        Ok(Val::pure(Ty::Bool, c))
    }

    /// Of two options of which one is surely there: the other one, and the value of that.
    fn beside_some(&mut self, a: &Val, b: &Val) -> Option<(Val, Val)> {
        if !a.ty.is_option() || !b.ty.is_option() {
            return None;
        }
        let there = |s: &Self, v: &Val| s.is_there(v).is_some_and(|c| build::as_bool(&c) == Some(true));
        if there(self, b) {
            return Some((a.clone(), self.inner(b.clone())));
        }
        there(self, a).then(|| (b.clone(), self.inner(a.clone())))
    }

    /// `option == some(value)`: it is there, and has this value.
    fn equals_some(&mut self, op: BinOp, option: Val, known: Val, span: Span) -> R<X> {
        let option = self.once(option, span);
        let Some(there) = self.is_there(&option) else { return Err(Reported) };
        let same = self.branch(
            there,
            span,
            Some(&Ty::Bool),
            |s| {
                let inner = s.inner(option);
                Ok(Val::pure(Ty::Bool, s.equal(BinOp::Eq, inner, known, span)?))
            },
            |_| Ok(Val::pure(Ty::Bool, build::boolean(false))),
        )?;
        let same = same.kind.into_pure().ok_or(Reported)?;
        Ok(if op == BinOp::Eq { same } else { build::not(same) })
    }

    pub fn equal(&mut self, op: BinOp, a: Val, b: Val, span: Span) -> R<X> {
        // Options compare with `none` only; else their values do.
        if (a.ty == Ty::None || b.ty == Ty::None) && matches!(op, BinOp::Eq | BinOp::Ne) {
            let v = if a.ty == Ty::None { &b } else { &a };
            let Some(c) = self.is_there(v) else { return Err(self.err("E0301", span, "only an option can be `none`")) };
            return Ok(if op == BinOp::Eq { build::not(c) } else { c });
        }
        if let (BinOp::Eq | BinOp::Ne, Some((option, known))) = (op, self.beside_some(&a, &b)) {
            return self.equals_some(op, option, known, span);
        }
        let (a, b) = (self.defined(a, span)?, self.defined(b, span)?);
        let (a, b) = self.same_family(a, b);
        let caseless = a.caseless || b.caseless;
        let Some(ty) = self.join(&a.ty, &b.ty) else {
            let (ta, tb) = (a.ty.clone(), b.ty.clone());
            return Err(self.mismatch(&ta, &tb, span));
        };
        let ty = self.decided(&ty, span)?;
        if ty.is_error() {
            return Err(Reported);
        }
        if ty == Ty::Unit {
            return Err(self.err("E0309", span, "a function without a result gives nothing to compare"));
        }
        if !ty.is_plain() {
            let s = self.show(&ty);
            return Err(self.err("E0309", span, format!("{s} cannot be compared")));
        }
        let ordered = matches!(op, BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge);
        let numeric = ty.is_int() || matches!(ty, Ty::Duration | Ty::Instant | Ty::Bytes(_) | Ty::Enum(_));
        if ordered && !numeric {
            let s = self.show(&ty);
            let d = Diagnostic::error("E0301", span, format!("{s} has no order"));
            let d = match ty {
                Ty::Ip4 => d.hint("compare numbers: `u32(a) < u32(b)`; `a in 10.0.0.0/8` asks for a prefix"),
                Ty::Ip | Ty::Ip6 => {
                    d.hint("compare numbers: `u128(a) < u128(b)`; `a in 2001:db8::/32` asks for a prefix")
                }
                _ => d,
            };
            return Err(self.cx.report(d));
        }
        if op == BinOp::EqCase && !matches!(ty, Ty::Bytes(_)) {
            return Err(self.err("E0301", span, "`~=` compares bytes"));
        }
        let (a, b) = (self.coerce(a, &ty, span)?, self.coerce(b, &ty, span)?);
        let op = match op {
            BinOp::Eq if caseless => B::EqCase,
            BinOp::Ne if caseless => return Ok(build::not(build::cmp(B::EqCase, a, b))),
            BinOp::EqCase => B::EqCase,
            BinOp::Eq => B::Eq,
            BinOp::Ne => B::Ne,
            BinOp::Lt => B::Lt,
            BinOp::Le => B::Le,
            BinOp::Gt => B::Gt,
            BinOp::Ge => B::Ge,
            BinOp::Add
            | BinOp::Sub
            | BinOp::Mul
            | BinOp::Div
            | BinOp::Rem
            | BinOp::AddSat
            | BinOp::SubSat
            | BinOp::BitAnd
            | BinOp::BitOr
            | BinOp::BitXor
            | BinOp::Shl
            | BinOp::Shr
            | BinOp::And
            | BinOp::Or
            | BinOp::In => return Err(Reported),
        };
        Ok(crate::fold::fold(&self.cx.m, &build::cmp(op, a, b)))
    }

    fn shift(&mut self, op: BinOp, a: &Expr, b: &Expr, span: Span, want: Option<&Ty>) -> R<Val> {
        let v = self.expr(a, want)?;
        let by = self.expr(b, Some(&U32))?;
        self.shifted(op, (v, a.span), (by, b.span), span, want)
    }

    fn shifted(
        &mut self,
        op: BinOp,
        (v, at): (Val, Span),
        (by, by_at): (Val, Span),
        span: Span,
        want: Option<&Ty>,
    ) -> R<Val> {
        let v = self.defined(v, at)?;
        let ty = match (&v.ty, want) {
            (Ty::Lit, Some(w @ Ty::Int { .. })) => w.clone(),
            (t, _) => self.settled(t),
        };
        if !ty.is_int() {
            let s = self.show(&ty);
            return Err(self.err("E0301", span, format!("expected an integer, found {s}")));
        }
        let a = self.coerce(v, &ty, at)?;
        let by = self.defined(by, by_at)?;
        let by = match (&by.ty, by.kind) {
            (Ty::Int { signed: false, .. } | Ty::Lit, Vk::Pure(e)) => e,
            _ => return Err(self.err("E0301", by_at, "a shift is by an unsigned integer")),
        };
        // Each type has fewer bits, so the shift gives the same.
        let by = self.at_most(by, 128);
        let by = self.recast(T_U32, by);
        let op = if op == BinOp::Shl { B::Shl } else { B::Shr };
        let t = a.ty;
        Ok(Val::pure(ty, crate::fold::fold(&self.cx.m, &build::bin(t, op, a, by))))
    }

    fn arithmetic(&mut self, op: BinOp, a: &Expr, b: &Expr, span: Span, want: Option<&Ty>) -> R<Val> {
        let hint = want.filter(|w| matches!(w, Ty::Int { .. }));
        let (va, vb) = (self.expr(a, hint), self.expr(b, hint));
        let (va, vb) = (va?, vb?);
        if let Some(made) = hint.and_then(|t| self.of_signed_literals(op, (a, &va), (b, &vb), t)) {
            return Ok(made);
        }
        self.arith(op, va, vb, span)
    }

    /// A calculation with constants alone whose place expects a signed type, if its result fits
    /// there. One that does not fit may be a part of a larger one that does.
    fn of_signed_literals(&mut self, op: BinOp, a: (&Expr, &Val), b: (&Expr, &Val), want: &Ty) -> Option<Val> {
        let Ty::Int { bits: bits @ ..=64, signed: true } = *want else { return None };
        let (x, y) = (self.signed_literal(a)?, self.signed_literal(b)?);
        let (low, high) = (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
        let n = match op {
            BinOp::Add => x + y,
            BinOp::Sub => x - y,
            BinOp::Mul => x * y,
            BinOp::Div => x.checked_div(y)?,
            BinOp::Rem => x.checked_rem(y)?,
            BinOp::AddSat => (x + y).clamp(low, high),
            BinOp::SubSat => (x - y).clamp(low, high),
            _ => return None,
        };
        let t = self.cx.lower_ty(want);
        let fits = (low..=high).contains(&n);
        fits.then(|| Val::pure(want.clone(), build::int(t, crate::fold::wrap(&self.cx.m, t, n as u128))))
    }

    /// The value of a constant that has no type yet.
    fn signed_literal(&self, (e, v): (&Expr, &Val)) -> Option<i128> {
        let made = v.kind.as_pure().filter(|_| v.ty == Ty::Lit)?;
        match build::as_int(made) {
            // A constant of the program may have wrapped.
            Some(n) if !matches!(&*e.kind, ast::ExprKind::Int(_) | ast::ExprKind::Scaled(..)) => {
                Some(i128::from(n as u64 as i64))
            }
            _ => crate::fold::exact(made),
        }
    }

    pub fn arith(&mut self, op: BinOp, va: Val, vb: Val, span: Span) -> R<Val> {
        if matches!(op, BinOp::Shl | BinOp::Shr) {
            return self.shifted(op, (va, span), (vb, span), span, None);
        }
        let (va, vb) = (self.defined(va, span)?, self.defined(vb, span)?);
        if let Some(v) = self.time(op, &va, &vb) {
            return Ok(v);
        }
        // In a grammar nothing wraps: lengths are added as 64 bits.
        let wide = matches!(self.kind, Kind::Grammar(_)) && matches!(op, BinOp::Add | BinOp::Mul);
        let ty = match self.join(&va.ty, &vb.ty) {
            Some(Ty::Int { signed: false, .. }) if wide => U64,
            Some(t @ (Ty::Int { .. } | Ty::Lit)) => t,
            Some(Ty::Error) => return Err(Reported),
            _ => {
                let (ta, tb) = (va.ty.clone(), vb.ty.clone());
                let (a, b) = (self.show(&ta), self.show(&tb));
                if ta.is_error() || tb.is_error() {
                    return Err(Reported);
                }
                let mut d = Diagnostic::error("E0301", span, format!("`{}` does not work on {a} and {b}", sign(op)));
                if matches!(ta, Ty::Instant | Ty::Duration) || matches!(tb, Ty::Instant | Ty::Duration) {
                    d = d.hint("times add up with durations (`now + 10s`, `n * 1s`); `u64(x)` gives nanoseconds");
                }
                if ta == Ty::Ip4 {
                    d = d.hint("compute with the number, and make an address of it: `ip4(u32(a) + 1)`");
                }
                if matches!((&ta, op), (Ty::Bytes(_), BinOp::Add)) {
                    d = d.hint("byte strings are joined with `concat(a, b)`");
                }
                return Err(self.cx.report(d));
            }
        };
        let calc = if ty == Ty::Lit { U64 } else { ty.clone() };
        let open = va.kind.as_pure().cloned().zip(vb.kind.as_pure().cloned()).filter(|_| ty == Ty::Lit);
        // The remainder is below the divisor and so fits its type.
        let narrow = match (&vb.ty, op, &ty) {
            (Ty::Int { bits: n, signed: false }, BinOp::Rem, Ty::Int { bits: w, .. }) if n < w => Some(vb.ty.clone()),
            _ => None,
        };
        let (ea, eb) = (self.coerce(va, &calc, span)?, self.coerce(vb, &calc, span)?);
        let eb = if matches!(op, BinOp::Div | BinOp::Rem) { self.divisor(eb, &calc, span)? } else { eb };
        if op == BinOp::Sub && matches!(self.kind, Kind::Grammar(_)) && !both_literal(&ea, &eb) {
            self.guard(build::cmp(B::Ge, ea.clone(), eb.clone()), FaultKind::MALFORMED, span);
        }
        let beyond = wide && ty == U64 && may_overflow(&self.cx.m, op, &ea, &eb);
        if beyond {
            self.guard(no_overflow(op, &ea, &eb), FaultKind::MALFORMED, span);
        }
        let op = match op {
            BinOp::Add => B::Add,
            BinOp::Sub => B::Sub,
            BinOp::Mul => B::Mul,
            BinOp::Div => B::Div,
            BinOp::Rem => B::Rem,
            BinOp::AddSat => B::AddSat,
            BinOp::SubSat => B::SubSat,
            BinOp::BitAnd => B::BitAnd,
            BinOp::BitOr => B::BitOr,
            BinOp::BitXor => B::BitXor,
            BinOp::Shl
            | BinOp::Shr
            | BinOp::Eq
            | BinOp::Ne
            | BinOp::Lt
            | BinOp::Le
            | BinOp::Gt
            | BinOp::Ge
            | BinOp::EqCase
            | BinOp::And
            | BinOp::Or
            | BinOp::In => return Err(Reported),
        };
        let t = ea.ty;
        let e = crate::fold::fold(&self.cx.m, &build::bin(t, op, ea, eb));
        if let Some((a, b)) = open {
            return Ok(Val::pure(ty, open_calculation(build::bin(t, op, a, b), e)));
        }
        match narrow {
            Some(n) => {
                let nt = self.cx.lower_ty(&n);
                Ok(Val::pure(n, build::cast(nt, e)))
            }
            None => Ok(Val::pure(ty, e)),
        }
    }

    fn divisor(&mut self, e: X, ty: &Ty, span: Span) -> R<X> {
        if let Some(0) = build::as_int(&e) {
            return Err(self.err("E0502", span, "division by zero"));
        }
        let t = self.cx.lower_ty(ty);
        let v = self.once(Val::pure(ty.clone(), e), span);
        let Vk::Pure(e) = v.kind else { return Err(Reported) };
        let cond = build::cmp(B::Ne, e.clone(), build::int(t, 0));
        if self.kind == Kind::Clause && !self.proven(&cond) {
            return Err(self.cx.report(
                Diagnostic::error("E0502", span, "the divisor may be 0")
                    .hint("ask first: `if n > 0 { x / n } else { … }`"),
            ));
        }
        self.guard(cond, FaultKind::DIVISION, span);
        Ok(e)
    }

    /// Durations and points in time.
    fn time(&mut self, op: BinOp, a: &Val, b: &Val) -> Option<Val> {
        let (Vk::Pure(x1), Vk::Pure(y1)) = (&a.kind, &b.kind) else { return None };
        let (ty, op) = match (&a.ty, op, &b.ty) {
            (Ty::Duration, BinOp::Add, Ty::Duration) => (Ty::Duration, B::Add),
            (Ty::Duration, BinOp::Sub, Ty::Duration) => (Ty::Duration, B::SubSat),
            (Ty::Instant, BinOp::Sub, Ty::Instant) => (Ty::Duration, B::SubSat),
            (Ty::Instant, BinOp::Add, Ty::Duration) => (Ty::Instant, B::Add),
            (Ty::Instant, BinOp::Sub, Ty::Duration) => (Ty::Instant, B::SubSat),
            (Ty::Duration, BinOp::Mul, Ty::Lit | Ty::Int { signed: false, .. }) => (Ty::Duration, B::Mul),
            (Ty::Lit | Ty::Int { signed: false, .. }, BinOp::Mul, Ty::Duration) => (Ty::Duration, B::Mul),
            _ => return None,
        };
        let (p, q) = (self.recast(T_U64, x1.clone()), self.recast(T_U64, y1.clone()));
        Some(Val::pure(ty, crate::fold::fold(&self.cx.m, &build::bin(T_U64, op, p, q))))
    }

    fn is_array_entry(&mut self, e: &Expr) -> bool {
        let ast::ExprKind::Index(t, _) = &*e.kind else { return false };
        matches!(&*t.kind, ast::ExprKind::Name(_) | ast::ExprKind::Field(..))
            && self.table_name(t).is_some_and(|t| self.cx.m.tables[t.index()].kind == ir::TableKind::Array)
    }

    pub fn table_name(&mut self, e: &Expr) -> Option<ir::TableId> {
        match &*e.kind {
            ast::ExprKind::Name(n) if self.lookup(&n.name).is_none() => {
                if self.in_app {
                    if let Some(t) = self.cx.app.table(&n.name) {
                        return Some(t);
                    }
                }
            }
            ast::ExprKind::Name(_) => return None,
            ast::ExprKind::Field(..) => {}
            _ => return None,
        }
        let id = self.cx.expr_item(self.module, e)?;
        match self.cx.item(id, e.span) {
            Ok(Item::Table(t)) => Some(t),
            _ => None,
        }
    }
}

fn sign(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::Mul => "*",
        BinOp::Div => "/",
        BinOp::Rem => "%",
        BinOp::AddSat => "+|",
        BinOp::SubSat => "-|",
        BinOp::BitAnd => "&",
        BinOp::BitOr => "|",
        BinOp::BitXor => "^",
        BinOp::Shl => "<<",
        BinOp::Shr => ">>",
        BinOp::Eq => "==",
        BinOp::Ne => "!=",
        BinOp::Lt => "<",
        BinOp::Le => "<=",
        BinOp::Gt => ">",
        BinOp::Ge => ">=",
        BinOp::EqCase => "~=",
        BinOp::And => "and",
        BinOp::Or => "or",
        BinOp::In => "in",
    }
}

/// A calculation with literals alone, `e` as an unsigned number. It has no type yet. One that is
/// another number where a signed one is wanted stays as it was written.
fn open_calculation(written: X, e: X) -> X {
    let same = build::as_int(&e).is_some_and(|n| crate::fold::exact(&written) == i128::try_from(n).ok());
    if same || crate::fold::exact(&written).is_none() {
        e
    } else {
        written
    }
}

fn is_name(e: &Expr) -> bool {
    matches!(&*e.kind, ast::ExprKind::Name(_))
}

fn both_literal(a: &X, b: &X) -> bool {
    matches!((build::as_int(a), build::as_int(b)), (Some(a), Some(b)) if a >= b)
}

/// Whether an expression is over the items of a list: no guard can stand before the list for it.
pub fn over_items(e: &X) -> bool {
    let mut hit = false;
    ir::walk::expr(e, &mut |e| match &*e.kind {
        ExprKind::Acc => hit = true,
        _ => hit |= ir::walk::path_of(e).is_some_and(|p| p.root == ir::Root::Item),
    });
    hit
}

/// The guards of a block that has nothing else.
pub fn only_requires(block: &ir::Block) -> Option<Vec<(X, FaultKind, ir::PlaceId, ir::Span)>> {
    block
        .iter()
        .map(|s| match &s.kind {
            StmtKind::Require { cond, kind, place } => Some((cond.clone(), *kind, *place, s.span)),
            _ => None,
        })
        .collect()
}

/// The largest value of an unsigned expression, as its form tells.
fn largest(m: &ir::Module, e: &X) -> u128 {
    let of_type = match m.ty(e.ty) {
        ir::Ty::UInt(b) if *b < 128 => (1u128 << b) - 1,
        ir::Ty::Bool => 1,
        ir::Ty::Unit
        | ir::Ty::UInt(_)
        | ir::Ty::Int(_)
        | ir::Ty::Bytes(_)
        | ir::Ty::Endpoint
        | ir::Ty::Ip
        | ir::Ty::Option(_)
        | ir::Ty::List(..)
        | ir::Ty::Record(_)
        | ir::Ty::Tuple(_)
        | ir::Ty::Msg(_) => u128::MAX,
    };
    let form = match &*e.kind {
        ExprKind::Int(n) => *n,
        ExprKind::Cast(inner) if matches!(m.ty(inner.ty), ir::Ty::UInt(_) | ir::Ty::Bool) => largest(m, inner),
        ExprKind::Binary(B::Add, a, b) => largest(m, a).saturating_add(largest(m, b)),
        ExprKind::Binary(B::Mul, a, b) => largest(m, a).saturating_mul(largest(m, b)),
        ExprKind::Binary(B::Sub | B::Div | B::Shr, a, _) => largest(m, a),
        ExprKind::Binary(B::BitAnd, a, b) => largest(m, a).min(largest(m, b)),
        ExprKind::Binary(B::Rem, a, b) => largest(m, a).min(largest(m, b)),
        _ => u128::MAX,
    };
    // A sum that wraps has told so already, and is any value of its type.
    if form > of_type {
        of_type
    } else {
        form
    }
}

fn may_overflow(m: &ir::Module, op: BinOp, a: &X, b: &X) -> bool {
    let (a, b) = (largest(m, a), largest(m, b));
    let most = if op == BinOp::Mul { a.saturating_mul(b) } else { a.saturating_add(b) };
    most > u128::from(u64::MAX)
}

/// That a sum or product stays within 64 bits.
fn no_overflow(op: BinOp, a: &X, b: &X) -> X {
    let all = |t| X::new(t, ExprKind::Int(u64::MAX.into()));
    if op == BinOp::Add {
        return build::cmp(B::Le, a.clone(), build::bin(a.ty, B::Sub, all(a.ty), b.clone()));
    }
    let (n, by) = if build::as_int(a).is_some() { (b, a) } else { (a, b) };
    let zero = build::cmp(B::Eq, by.clone(), X::new(by.ty, ExprKind::Int(0)));
    let fits = build::cmp(B::Le, n.clone(), build::bin(n.ty, B::Div, all(n.ty), by.clone()));
    match build::as_int(by) {
        Some(0) => build::boolean(true),
        Some(_) => fits,
        None => build::or(zero, fits),
    }
}
