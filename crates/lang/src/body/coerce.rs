//! Implicit conversions: constants to their width, integers to wider ones, values to options,
//! options with a proof to their values.

use super::{Kind, Lower};
use crate::compiler::{Reported, R, T_BOOL};
use crate::ir_builder as build;
use crate::ty::{size, Ty, U64};
use crate::val::{Val, Vk};
use ir::{BinOp, Expr, ExprKind, FaultKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    pub fn mismatch(&mut self, want: &Ty, found: &Ty, span: Span) -> Reported {
        if want.is_error() || found.is_error() {
            return Reported;
        }
        let (mut w, mut f) = self.cx.show_apart(want, found);
        if matches!(want, Ty::Bytes(0)) {
            // Bytes of any size.
            w = "bytes".into();
        }
        if w == f || matches!((want, found), (Ty::List(..), Ty::Items(..)) | (Ty::Items(..), Ty::List(..))) {
            // The difference does not show, or is not all.
            (w, f) = (format!("{w}{}", where_from(want)), format!("{f}{}", where_from(found)));
        }
        if w == f {
            // Units that are read with another end or other arguments are types of their own.
            f = format!("{f} with another end or other arguments");
        }
        let mut d = Diagnostic::error("E0301", span, format!("expected {w}, found {f}")).label(format!("this is {f}"));
        match (want, found) {
            (Ty::Int { .. }, Ty::Int { .. }) => d = d.hint(format!("convert it: `{w}(…)`")),
            (Ty::Int { .. }, Ty::Enum(_) | Ty::Instant | Ty::Duration | Ty::Fault) => {
                d = d.hint(format!("convert it: `{w}(…)`"))
            }
            (Ty::Fault, Ty::Record(_)) if f == "Fault" => {
                d = d.hint(format!("its kind is `{}.kind`", self.code(span).unwrap_or("f")))
            }
            (Ty::Record(_), Ty::Fault) if w == "Fault" => {
                d = d.hint("`Fault` is what `on fault(f)` gets; the type of its kind is `fault`")
            }
            (Ty::Duration, Ty::Lit) => d = d.hint("a duration has a unit: `10s`, `50ms`"),
            (t, Ty::List(..) | Ty::Items(..)) if t.is_int() => {
                d = d.hint("one of its items is `xs[i]`; whether x is among them: `xs.any(|y| y == x)`")
            }
            (Ty::Bytes(_), t) if t.int_bits().is_some_and(|b| b <= 64) || matches!(t, Ty::Ip | Ty::Endpoint) => {
                d = d.hint("convert it: `text(…)`")
            }
            (Ty::Prefix, Ty::Ip | Ty::Ip4 | Ty::Ip6) => {
                let bits = if *found == Ty::Ip4 { 32 } else { 128 };
                d = d.hint(format!("one address is the prefix of all its bits: `prefix(a, {bits})`"))
            }
            (Ty::List(..), Ty::Items(..)) => d = d.hint("write its items anew: `[x for x in xs]`"),
            (Ty::Bytes(_), Ty::Stream) | (Ty::Stream, Ty::Bytes(_)) => d = d.hint(self.streamed()),
            _ => {}
        }
        if let Some(hint) = self.quoted(want, found, span) {
            d = d.hint(hint);
        }
        self.cx.report(d)
    }

    /// The value as data of the type.
    pub fn coerce(&mut self, v: Val, want: &Ty, span: Span) -> R<Expr> {
        let t = self.cx.lower_ty(want);
        if v.ty == *want {
            return match v.kind {
                Vk::Pure(e) => Ok(e),
                Vk::Maybe(c, inner) => self.maybe_expr(c, *inner, want, span),
                Vk::Path(_) | Vk::Out(_) | Vk::Nothing => Err(self.no_data(want, span)),
            };
        }
        match (&v.ty, want) {
            (Ty::Error, _) | (_, Ty::Error) => Err(Reported),
            (Ty::Never, _) => Ok(self.zero(want)),
            (Ty::None, Ty::Option(_)) => Ok(Expr::new(t, ExprKind::None)),
            (Ty::Option(a), Ty::Option(b)) => match v.kind {
                Vk::Maybe(c, inner) => self.maybe_expr(c, *inner, want, span),
                Vk::Pure(e) => self.option_widen(e, a, b, want, span),
                Vk::Path(_) | Vk::Out(_) | Vk::Nothing => Err(self.no_data(want, span)),
            },
            (_, Ty::Option(inner)) => {
                let e = self.coerce(v, inner, span)?;
                Ok(Expr::new(t, ExprKind::Some(e)))
            }
            (Ty::Option(_), _) => {
                let v = self.defined(v, span)?;
                self.coerce(v, want, span)
            }
            (Ty::Lit, _) => self.literal(v, want, t, span),
            (Ty::Ip4 | Ty::Ip6, Ty::Ip) | (Ty::Ip, Ty::Ip4 | Ty::Ip6) => {
                let e = v.kind.into_pure().ok_or(Reported)?;
                self.address_as(e, &v.ty, want, span)
            }
            (Ty::Int { bits: a, signed: s }, Ty::Int { bits: b, signed: r })
                if (s == r && a <= b) || (!s && *r && a < b) =>
            {
                v.kind.into_pure().map(|e| self.recast(t, e)).ok_or(Reported)
            }
            (Ty::Msg(u), Ty::Record(r)) if self.cx.record_units.get(u).is_some_and(|(s, _)| s == r) => {
                self.record_of(&v, *u, t, span)
            }
            (Ty::Msg(_), Ty::Kept(u, n)) => self.keep_message(&v, *u, *n, span),
            (Ty::Kept(a, n), Ty::Kept(b, m)) if a == b && n <= m => {
                v.kind.into_pure().map(|e| build::cast(t, e)).ok_or(Reported)
            }
            (Ty::Bytes(a), Ty::Bytes(b)) => self.bytes(v.kind, *a, *b, t, span),
            (Ty::Tuple(a), Ty::Tuple(b)) if a.len() == b.len() => self.tuple(v.kind, a.clone(), b.clone(), t, span),
            (Ty::List(a, n), Ty::List(b, m))
                if a == b && n <= m || matches!((&v.ty, want), (Ty::List(_, 0), Ty::List(..))) =>
            {
                let e = v.kind.into_pure().ok_or(Reported)?;
                self.longer_list(e, a, *n, want, span)
            }
            (Ty::Int { .. }, Ty::Int { .. }) => Err(self.narrower(&v, want, span)),
            _ => {
                let found = v.ty.clone();
                Err(self.mismatch(want, &found, span))
            }
        }
    }

    /// An integer that a narrower type is wanted of: a constant does not fit, whatever its type.
    fn narrower(&mut self, v: &Val, want: &Ty, span: Span) -> Reported {
        let n = v.kind.as_pure().and_then(|e| build::as_int(&crate::fold::fold(&self.cx.m, e)));
        let unsigned = matches!(v.ty, Ty::Int { signed: false, .. });
        let top = want.int_bits().map_or(128, |bits| bits - u8::from(matches!(want, Ty::Int { signed: true, .. })));
        match n.filter(|n| unsigned && top < 128 && n >> top != 0) {
            Some(n) => self.too_large(n, want, span),
            None => self.mismatch(want, &v.ty, span),
        }
    }

    fn too_large(&mut self, n: impl std::fmt::Display, want: &Ty, span: Span) -> Reported {
        let s = self.show(want);
        self.cx.report(Diagnostic::error("E0304", span, format!("{n} does not fit into {s}")).label("too large"))
    }

    /// A record that was read from the wire, as data.
    fn record_of(&mut self, v: &Val, u: ir::UnitId, t: ir::TyId, span: Span) -> R<Expr> {
        let Vk::Path(p) = &v.kind else { return Err(self.no_data(&v.ty, span)) };
        let Some((r, _)) = self.cx.record_units.get(&u).copied() else { return Err(Reported) };
        let mut parts = Vec::new();
        for (name, ty) in self.cx.records[r.index()].clone() {
            let Some(m) = self.cx.units[u.index()].member(&name).cloned() else { return Err(Reported) };
            let part = self.cx.member_val(p, u, &m);
            parts.push(self.coerce(part, &ty, span)?);
        }
        Ok(Expr::new(t, ExprKind::Make(parts)))
    }

    /// A cast that evaluates constants at once.
    pub fn recast(&mut self, t: ir::TyId, e: Expr) -> Expr {
        match build::as_int(&e) {
            Some(_) => crate::fold::fold(&self.cx.m, &build::cast(t, e)),
            None => build::cast(t, e),
        }
    }

    /// A number, or the limit if the number is larger. A number of up to 32 bits stays as it is.
    pub fn at_most(&mut self, n: Expr, limit: u32) -> Expr {
        if !matches!(ir::layout::int_of(&self.cx.m, n.ty), Some((33.., false))) {
            return n;
        }
        let limit = build::int(n.ty, limit.into());
        crate::fold::fold(&self.cx.m, &build::builtin(n.ty, ir::Builtin::Min, vec![n, limit]))
    }

    fn no_data(&mut self, ty: &Ty, span: Span) -> Reported {
        if ty.is_error() {
            return Reported;
        }
        let s = self.show(ty);
        self.cx.report(
            Diagnostic::error("E0309", span, format!("{s} is no value that can be kept or computed with"))
                .hint("read its fields, pass it on, or use `raw(…)` for its bytes"),
        )
    }

    fn maybe_expr(&mut self, c: Expr, inner: Val, want: &Ty, span: Span) -> R<Expr> {
        let Ty::Option(it) = want else { return Err(Reported) };
        // The conversion runs only if there is a value.
        let (made, block) = self.sub(|s| {
            s.assume(&c, true);
            s.coerce(inner, it, span)
        });
        let e = made?;
        if !block.is_empty() {
            self.push(span, ir::StmtKind::If { cond: c.clone(), then: block, other: vec![] });
        }
        let t = self.cx.lower_ty(want);
        Ok(build::if_(t, c, Expr::new(t, ExprKind::Some(e)), Expr::new(t, ExprKind::None)))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn option_widen(&mut self, e: Expr, a: &Ty, b: &Ty, want: &Ty, span: Span) -> R<Expr> {
        let t = self.cx.lower_ty(want);
        // `some(x)` holds x itself; the item of a `none` has any type.
        match *e.kind {
            ExprKind::None => return Ok(Expr::new(t, ExprKind::None)),
            ExprKind::Some(value) => {
                let value = self.coerce(Val::pure(a.clone(), value), b, span)?;
                return Ok(Expr::new(t, ExprKind::Some(value)));
            }
            _ => {}
        }
        let e = self.once(Val::pure(a.clone().option(), e), span).kind.into_pure().ok_or(Reported)?;
        let at = self.cx.lower_ty(a);
        let some = build::is_some(e.clone());
        let value = Val::pure(a.clone(), build::unwrap(at, e));
        self.maybe_expr(some, value, want, span)
    }

    fn literal(&mut self, v: Val, want: &Ty, t: ir::TyId, span: Span) -> R<Expr> {
        let (Vk::Pure(e), Some(bits)) = (&v.kind, want.int_bits()) else {
            return Err(self.mismatch(want, &Ty::Lit, span));
        };
        if matches!(want, Ty::Duration | Ty::Instant) {
            return Err(self
                .cx
                .report(Diagnostic::error("E0301", span, "a duration needs its unit").hint("write `10s` or `50ms`")));
        }
        let signed = matches!(want, Ty::Int { signed: true, .. });
        if let Some(n) = crate::fold::exact(e).filter(|_| signed && is_calculation(e)) {
            let low = i128::MIN >> (128 - bits);
            if !(low..=-(low + 1)).contains(&n) {
                return Err(self.too_large(n, want, span));
            }
            return Ok(build::int(t, crate::fold::wrap(&self.cx.m, t, n as u128)));
        }
        let e = crate::fold::fold(&self.cx.m, e);
        let Some(n) = build::as_int(&e) else { return Ok(build::cast(t, e)) };
        let top = if signed { bits - 1 } else { bits };
        let negative = signed && n >> 63 == 1;
        if !negative && top < 128 && n >> top != 0 {
            return Err(self.too_large(n, want, span));
        }
        Ok(build::int(t, crate::fold::wrap(&self.cx.m, t, n)))
    }

    /// A calculation with literals alone, as the signed number that a signed type makes of it.
    pub fn signed_calculation(&mut self, v: Val, want: &Ty) -> Val {
        let signed = matches!(want, Ty::Int { signed: true, .. });
        let made = v.kind.as_pure().filter(|e| signed && v.ty == Ty::Lit && is_calculation(e));
        let Some(n) = made.and_then(crate::fold::exact).and_then(|n| i64::try_from(n).ok()) else { return v };
        let wide = Ty::Int { bits: 64, signed: true };
        let t = self.cx.lower_ty(&wide);
        Val::pure(wide, build::int(t, u128::from(n as u64)))
    }

    fn bytes(&mut self, kind: Vk, from: u64, to: u64, t: ir::TyId, span: Span) -> R<Expr> {
        let Vk::Pure(e) = kind else { return Err(Reported) };
        if let ExprKind::Bytes(b) = &*e.kind {
            if b.len() as u64 <= to {
                return Ok(Expr::new(t, ExprKind::Bytes(b.clone())));
            }
        }
        if from > to {
            if matches!(self.kind, Kind::Clause | Kind::Const) || matches!(&*e.kind, ExprKind::Bytes(_)) {
                return Err(self.cx.report(
                    Diagnostic::error(
                        "E0302",
                        span,
                        format!("up to {} bytes do not fit into bytes<{}>", size(from), size(to)),
                    )
                    .hint("cut it with `slice(x, 0, n)`, or give the other a larger maximum"),
                ));
            }
            let fits = build::cmp(BinOp::Le, build::len_bytes(e.clone()), build::u64(to));
            self.guard(fits, FaultKind::TOO_LONG, span);
        }
        Ok(build::cast(t, e))
    }

    /// A list where one with a larger maximum is wanted: literals take its type, others are copied.
    fn longer_list(&mut self, e: Expr, item: &Ty, max: u32, want: &Ty, span: Span) -> R<Expr> {
        let t = self.cx.lower_ty(want);
        if let ExprKind::MakeList(items) = *e.kind {
            return Ok(Expr::new(t, ExprKind::MakeList(items)));
        }
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let copy = self.temp("", want, Expr::new(t, ExprKind::MakeList(vec![])), span);
        let var = self.new_local("i", &crate::ty::U32);
        let it = self.cx.lower_ty(item);
        let get = Expr::new(it, ExprKind::ListGet(e.clone(), self.local_expr(var)));
        let sp = self.cx.span(span);
        let body = vec![build::stmt(sp, ir::StmtKind::Push(copy, get))];
        let to = Expr::new(crate::compiler::T_U32, ExprKind::ListLen(e));
        self.push(span, ir::StmtKind::For { var, from: build::u32(0), to, max: max.into(), body });
        Ok(self.local_expr(copy))
    }

    fn tuple(&mut self, kind: Vk, a: Vec<Ty>, b: Vec<Ty>, t: ir::TyId, span: Span) -> R<Expr> {
        let Vk::Pure(e) = kind else { return Err(Reported) };
        let mut parts = Vec::new();
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            let part = self.get(&e, i as u32, a);
            parts.push(self.coerce(Val::pure(a.clone(), part), b, span)?);
        }
        Ok(Expr::new(t, ExprKind::Make(parts)))
    }

    /// A part of a record or tuple.
    pub fn get(&mut self, e: &Expr, i: u32, ty: &Ty) -> Expr {
        let t = self.cx.lower_ty(ty);
        if let Some(e) = super::packets::part(e, i, t) {
            return e;
        }
        Expr::new(t, ExprKind::Get(e.clone(), i))
    }

    /// The zero value: the value of missing entries and omitted fields.
    pub fn zero(&mut self, ty: &Ty) -> Expr {
        let t = self.cx.lower_ty(ty);
        let kind = match ty {
            Ty::Bool => ExprKind::Bool(false),
            Ty::Bytes(_) | Ty::Kept(..) => ExprKind::Bytes(vec![]),
            Ty::Option(_) | Ty::None => ExprKind::None,
            Ty::List(..) => ExprKind::MakeList(vec![]),
            Ty::Tuple(ts) => ExprKind::Make(ts.iter().map(|t| self.zero(t)).collect()),
            Ty::Record(r) => {
                let fields = self.cx.records[r.index()].clone();
                ExprKind::Make(fields.iter().map(|(_, t)| self.zero(t)).collect())
            }
            Ty::Ip => return self.ip_const(0),
            Ty::Endpoint => return self.endpoint_const(0, 0),
            Ty::Prefix => ExprKind::Make(vec![self.u128_const(0), self.u128_const(0)]),
            Ty::Error
            | Ty::Never
            | Ty::Unit
            | Ty::Lit
            | Ty::Int { .. }
            | Ty::Duration
            | Ty::Instant
            | Ty::Fault
            | Ty::Ip4
            | Ty::Ip6
            | Ty::Mac
            | Ty::Handle
            | Ty::Enum(_)
            | Ty::Msg(_)
            | Ty::Items(..)
            | Ty::Switch(..)
            | Ty::Stream
            | Ty::Replies(_)
            | Ty::Port(_)
            | Ty::Table(_)
            | Ty::Conn => ExprKind::Int(0),
        };
        Expr::new(t, kind)
    }

    fn u128_const(&mut self, n: u128) -> Expr {
        let t = self.cx.lower_ty(&Ty::Int { bits: 128, signed: false });
        build::int(t, n)
    }

    pub fn ip_const(&mut self, n: u128) -> Expr {
        let n = self.u128_const(n);
        Expr::new(self.cx.lower_ty(&Ty::Ip), ExprKind::Cast(n))
    }

    pub fn endpoint_const(&mut self, ip: u128, port: u16) -> Expr {
        let ip = self.ip_const(ip);
        Expr::new(
            self.cx.lower_ty(&Ty::Endpoint),
            ExprKind::Make(vec![ip, build::int(crate::compiler::T_U16, port.into())]),
        )
    }

    /// A prefix is its network and its mask.
    pub fn prefix_const(&mut self, net: u128, mask: u128) -> Expr {
        let parts = vec![self.u128_const(net), self.u128_const(mask)];
        Expr::new(self.cx.lower_ty(&Ty::Prefix), ExprKind::Make(parts))
    }

    /// The zero value of a type of the IR.
    pub fn zero_of(&mut self, t: ir::TyId) -> Expr {
        let kind = match self.cx.m.types.get(t.index()).cloned() {
            Some(ir::Ty::Ip) => return self.ip_const(0),
            Some(ir::Ty::Endpoint) => return self.endpoint_const(0, 0),
            Some(ir::Ty::Bool) => ExprKind::Bool(false),
            Some(ir::Ty::Bytes(_)) => ExprKind::Bytes(vec![]),
            Some(ir::Ty::Option(_)) => ExprKind::None,
            Some(ir::Ty::List(..)) => ExprKind::MakeList(vec![]),
            Some(ir::Ty::Tuple(ts)) => ExprKind::Make(ts.iter().map(|t| self.zero_of(*t)).collect()),
            Some(ir::Ty::Record(r)) => ExprKind::Make(
                self.cx.m.records[r.index()].fields.clone().iter().map(|(_, t)| self.zero_of(*t)).collect(),
            ),
            _ => ExprKind::Int(0),
        };
        Expr::new(t, kind)
    }

    /// The condition under which an option is there.
    pub fn is_there(&self, v: &Val) -> Option<Expr> {
        match (&v.ty, &v.kind) {
            (Ty::None, _) => Some(build::boolean(false)),
            (Ty::Option(_), Vk::Maybe(c, _)) => Some(c.clone()),
            (Ty::Option(_), Vk::Pure(e)) => Some(build::is_some(e.clone())),
            _ => None,
        }
    }

    /// The value inside an option, without asking whether it is there.
    pub fn inner(&mut self, v: Val) -> Val {
        match (v.ty, v.kind) {
            (Ty::Option(_), Vk::Maybe(_, inner)) => Val { caseless: v.caseless | inner.caseless, ..*inner },
            (Ty::Option(t), Vk::Pure(e)) => {
                let it = self.cx.lower_ty(&t);
                Val { caseless: v.caseless, ..Val::pure(*t, build::unwrap(it, e)) }
            }
            (ty, kind) => Val { ty, kind, caseless: v.caseless },
        }
    }

    /// The value of an option that is known to be there, or guarded by a fault. Other values are as
    /// they are.
    pub fn defined(&mut self, v: Val, span: Span) -> R<Val> {
        let Some(cond) = self.is_there(&v) else { return Ok(v) };
        if self.proven(&cond) {
            return Ok(self.inner(v));
        }
        if build::as_bool(&cond) == Some(false) {
            return Err(self.cx.error("E0305", span, "`none` has no value"));
        }
        // A field that is there in some cases only must be asked for; data may also be required.
        let computed = self.is_computed(&v);
        // A test of packets states its expectation: an absent header does not meet it.
        let expected = self.kind == super::Kind::Test && self.frames;
        if matches!(v.kind, Vk::Maybe(..)) && !computed && !expected || matches!(self.kind, Kind::Clause | Kind::Const)
        {
            let streamed = matches!(&v.ty, Ty::Option(t) if **t == Ty::Stream);
            let hint = self.header_hint(&cond).unwrap_or(if streamed {
                self.streamed().into()
            } else {
                "ask first: `if x { … }`, `if let y = x { … }`, `match`, or give an alternative: `x else …`".into()
            });
            return Err(self
                .cx
                .report(Diagnostic::error("E0305", span, "this may be absent here").label("an option").hint(hint)));
        }
        let v = self.once(v, span);
        if let Some(cond) = self.is_there(&v) {
            self.guard(cond, FaultKind::NONE_VALUE, span);
        }
        Ok(self.inner(v))
    }

    /// A value as a condition: bools, and options (whether they are there).
    pub fn cond_of(&mut self, v: Val, span: Span) -> R<Expr> {
        if let Some(c) = self.is_there(&v) {
            return Ok(c);
        }
        match (&v.ty, v.kind) {
            (Ty::Bool, Vk::Pure(e)) => Ok(e),
            (Ty::Never, _) => Ok(build::boolean(false)),
            // A header that is known to be there.
            (Ty::Msg(_), Vk::Path(p)) if p.steps.len() == 1 && self.is_header(&p) => Ok(build::boolean(true)),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let d = Diagnostic::error("E0301", span, format!("expected a condition, found {}", self.show(t)))
                    .label("neither bool nor option");
                let hint = self.as_condition(t, span);
                Err(self.cx.report(match hint {
                    Some(hint) => d.hint(hint),
                    None => d,
                }))
            }
        }
    }

    /// The type that both can become.
    pub fn join(&mut self, a: &Ty, b: &Ty) -> Option<Ty> {
        Some(match (a, b) {
            (a, b) if a == b => a.clone(),
            (Ty::Error, _) | (_, Ty::Error) => Ty::Error,
            (Ty::Ip4 | Ty::Ip6 | Ty::Ip, Ty::Ip4 | Ty::Ip6 | Ty::Ip) => Ty::Ip,
            (Ty::Never, t) | (t, Ty::Never) => t.clone(),
            (Ty::Lit, t) | (t, Ty::Lit) if matches!(t, Ty::Int { .. }) => t.clone(),
            (Ty::Int { bits: x, signed: s }, Ty::Int { bits: y, signed: r }) if s == r => {
                Ty::Int { bits: *x.max(y), signed: *s }
            }
            (Ty::Bytes(x), Ty::Bytes(y)) => Ty::Bytes(*x.max(y)),
            (Ty::None, Ty::Option(t)) | (Ty::Option(t), Ty::None) => Ty::Option(t.clone()),
            (Ty::None, t) | (t, Ty::None) => {
                let t = if *t == Ty::Lit { U64 } else { t.clone() };
                t.option()
            }
            (Ty::Option(x), Ty::Option(y)) => self.join(x, y)?.option(),
            (Ty::Option(x), y) | (y, Ty::Option(x)) => self.join(x, y)?.option(),
            (Ty::Tuple(x), Ty::Tuple(y)) if x.len() == y.len() => {
                Ty::Tuple(x.iter().zip(y).map(|(x, y)| self.join(x, y)).collect::<Option<_>>()?)
            }
            (Ty::List(x, n), Ty::List(y, m)) if x == y => Ty::List(x.clone(), *n.max(m)),
            _ => return None,
        })
    }

    /// Types that an expression cannot leave open.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn settled(&self, t: &Ty) -> Ty {
        match t {
            Ty::Lit => U64,
            Ty::Tuple(ts) => Ty::Tuple(ts.iter().map(|t| self.settled(t)).collect()),
            Ty::Option(t) => self.settled(t).option(),
            t => t.clone(),
        }
    }

    /// The type of a value that is kept: nothing of it may be left open.
    pub fn decided(&mut self, t: &Ty, span: Span) -> R<Ty> {
        let t = self.settled(t);
        if t.is_open() {
            return Err(self.undecided("`none`", span));
        }
        Ok(t)
    }

    /// Bytes that change have the room of their first value. Nothing can be added to that of `""`.
    pub fn may_grow(&mut self, name: &str, t: &Ty, span: Span) -> R<()> {
        if !matches!(t, Ty::Bytes(0)) {
            return Ok(());
        }
        Err(self.cx.report(
            Diagnostic::error("E0302", span, format!("`{name}` has no room: it is as long as its first value"))
                .label("at most 0 bytes")
                .hint(format!("say how long it may become: `var {name}: bytes<64> = \"\"`; a `fold` takes it from `let all: bytes<64> = fold …`")),
        ))
    }

    pub fn undecided(&mut self, what: &str, span: Span) -> Reported {
        let d = Diagnostic::error("E0315", span, format!("the type of {what} is not known here"));
        self.cx.report(d.hint("write `var x: T = …` with the type, or pass the value to a function"))
    }

    pub fn truth(&self, e: ExprKind) -> Expr {
        Expr::new(T_BOOL, e)
    }
}

fn is_calculation(e: &Expr) -> bool {
    matches!(&*e.kind, ExprKind::Binary(..))
}

/// The part of a type that its name does not show.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn where_from(t: &Ty) -> &'static str {
    match t {
        Ty::Items(..) => " of a message",
        Ty::List(..) => " of values",
        _ => "",
    }
}
