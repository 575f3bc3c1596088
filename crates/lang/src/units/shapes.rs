//! The shape of a field in the bytes: integers, text numbers, bytes, lists, streams, switches,
//! nested units.

use super::fields::{Builder, Head};
use crate::compiler::{Reported, R, T_U64};
use crate::ir_builder as build;
use crate::ty::{Elem, Ty, U64};
use crate::val::{Val, Vk};
use ir::{FaultKind, FieldId, FieldKind, Root};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, BytesWord, CaseBody, Expr, Extent, Guard, Ident, ListExtent, Shape, ShapeKind, Span};
use wireloom_syntax::Diagnostic;

/// Longest text of a number.
const MAX_DIGITS: u64 = 39;

impl Builder<'_, '_> {
    /// Lowers a field into the sequence.
    pub fn shape(&mut self, head: &Head, shape: &Shape) -> R<FieldId> {
        let bits = matches!(shape.kind, ShapeKind::Named { .. });
        if !bits {
            self.end_bits();
        }
        let made = self.kind(head, shape);
        let (id, ty) = match made {
            Ok(made) => made,
            Err(r) => {
                // The name is still known, so that its uses are not reported as well.
                if let Some(n) = head.name {
                    self.member(n, FieldId(0), Ty::Error, false);
                }
                return Err(r);
            }
        };
        let caseless = matches!(self.ir(id).kind, FieldKind::Bytes { caseless: true, .. });
        if let Some(kind) = head.or {
            let field = self.ir(id);
            field.too_long = kind;
            if matches!(field.kind, FieldKind::Number { .. }) {
                field.bad = kind;
            }
        }
        if !self.seq.contains(&id) {
            self.seq.push(id);
        }
        if let Some(n) = head.name {
            self.member(n, id, ty.clone(), caseless);
        }
        if let Some(w) = head.within {
            self.within(id, &ty, w)?;
        }
        if let Some(c) = head.computed {
            let constant = matches!(ty, Ty::Bytes(_)) && matches!(&*c.kind, ast::ExprKind::Bytes(_));
            if ty.is_int() || constant {
                self.computed.push((id, c.clone()));
            } else {
                return Err(self.cx.error("E0425", c.span, "integers are computed, and bytes have a constant"));
            }
        }
        Ok(id)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn within(&mut self, id: FieldId, ty: &Ty, e: &Expr) -> R<()> {
        match ty {
            Ty::Int { .. } | Ty::Enum(_) => {
                let ranges = self.cx.ranges(self.module, e, ty)?;
                let f = self.ir(id);
                f.within = Some(ranges);
                f.bad = FaultKind::CONSTRAINT;
                Ok(())
            }
            Ty::Bytes(_) => {
                let ast::ExprKind::Set(values) = &*e.kind else {
                    return Err(self.cx.error("E0301", e.span, "expected a set of bytes: `{\"a\", \"b\"}`"));
                };
                self.cx.set_has_items(values, e.span)?;
                let t = self.ir(id).ty;
                let caseless = matches!(self.ir(id).kind, FieldKind::Bytes { caseless: true, .. });
                let op = if caseless { ir::BinOp::EqCase } else { ir::BinOp::Eq };
                let own = build::read(t, build::step(&build::this(), ir::Step::Field(id)));
                let mut any = build::boolean(false);
                for v in values {
                    let c = self.cx.constant(self.module, v, Some(ty))?;
                    if let Vk::Pure(c) = c.kind {
                        any = build::or(any, build::cmp(op, own.clone(), c));
                    }
                }
                self.require(any, FaultKind::CONSTRAINT, e.span);
                Ok(())
            }
            _ => Err(self.cx.error("E0301", e.span, "`in` is for numbers and bytes")),
        }
    }

    fn kind(&mut self, head: &Head, shape: &Shape) -> R<(FieldId, Ty)> {
        let span = shape.span;
        match &shape.kind {
            ShapeKind::Named { ty, args, order } => self.named(head, ty, args, *order),
            ShapeKind::Number { radix, ty, digits, until } => {
                self.number(head, *radix, ty, digits.as_ref(), until.as_ref())
            }
            ShapeKind::Varint { ty } => {
                let t = self.int_ty(ty)?;
                let max_bytes = t.int_bits().unwrap_or(64).div_ceil(7);
                Ok((self.add(head.name, head.span, &t, FieldKind::Varint { max_bytes }), t))
            }
            ShapeKind::Bytes { word, max, of, extent, trim, caseless } => {
                let class = of.as_ref().map(|e| self.cx.charset(self.module, e)).transpose()?;
                let trim = trim.as_ref().map(|e| self.cx.charset(self.module, e)).transpose()?;
                let max = self.cx.const_size(self.module, max)?;
                let extent = self.extent(extent, class.is_some() || *word == BytesWord::Token, span)?;
                if let ir::Extent::Length(n) = &extent {
                    self.not_above(n, max, "bytes", span);
                }
                let class = class.or_else(|| {
                    (*word == BytesWord::Token && extent == ir::Extent::Run).then_some(ir::ByteSet::range(0x21, 0x7e))
                });
                let min = u64::from(*word == BytesWord::Token);
                let ty = Ty::Bytes(max);
                let kind = FieldKind::Bytes { min, max, class, extent, trim, caseless: *caseless };
                Ok((self.add(head.name, head.span, &ty, kind), ty))
            }
            ShapeKind::List { element, max, extent } => self.list(head, element, max, extent),
            ShapeKind::Stream { element, extent } => self.stream(head, element.as_deref(), extent, span),
            ShapeKind::Switch { on, cases } => self.switch(head, on.as_deref(), cases),
            ShapeKind::Nothing => Ok((self.add(head.name, head.span, &Ty::Unit, FieldKind::Nothing), Ty::Unit)),
            ShapeKind::Flag(value) => {
                self.no_empty(std::slice::from_ref(value), span)?;
                Ok((self.add(head.name, head.span, &Ty::Bool, FieldKind::Flag { value: value.clone() }), Ty::Bool))
            }
            ShapeKind::Align(n) => {
                let to = self.cx.const_size(self.module, n)?;
                if to > 4096 {
                    return Err(self.cx.error("E0503", n.span, "an alignment is at most 4KiB"));
                }
                Ok((self.add(head.name, head.span, &Ty::Unit, FieldKind::Align { to: to as u32 }), Ty::Unit))
            }
            ShapeKind::Skip(n) => {
                let n = self.cx.const_size(self.module, n)?;
                let kind = FieldKind::Bytes {
                    min: n,
                    max: n,
                    class: None,
                    extent: ir::Extent::Length(build::u64(n)),
                    trim: None,
                    caseless: false,
                };
                Ok((self.add(head.name, head.span, &Ty::Bytes(n), kind), Ty::Bytes(n)))
            }
            ShapeKind::Enclosed { inner, extent } => self.enclosed(head, inner, extent, span),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn int_ty(&mut self, ty: &ast::Type) -> R<Ty> {
        match self.cx.ty(self.module, ty)? {
            t @ (Ty::Int { .. } | Ty::Duration) => Ok(t),
            Ty::Error => Err(Reported),
            t => {
                let t = self.cx.show(&t);
                Err(self.cx.error("E0301", ty.span, format!("expected an integer type, found {t}")))
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn named(&mut self, head: &Head, ty: &ast::Type, args: &[Expr], order: Option<bool>) -> R<(FieldId, Ty)> {
        let t = self.cx.ty(self.module, ty)?;
        if !matches!(t, Ty::Msg(_)) && !args.is_empty() {
            self.cx.error("E0424", ty.span, "only a unit takes arguments");
        }
        match &t {
            Ty::Int { bits, signed } => Ok((self.uint(head, &t, u32::from(*bits), *signed, order)?, t)),
            Ty::Mac => Ok((self.uint(head, &t, 48, false, order)?, t)),
            Ty::Ip4 => Ok((self.uint(head, &t, 32, false, order)?, t)),
            Ty::Ip6 => Ok((self.uint(head, &t, 128, false, order)?, t)),
            Ty::Enum(e) if self.cx.texts.contains_key(e) => Err(self.cx.report(
                Diagnostic::error("E0421", ty.span, "nothing says where this text ends")
                    .hint("write `Name until \" \"`, or `Name [length]`"),
            )),
            Ty::Enum(e) => {
                let info = self.cx.m.enums[e.index()].clone();
                let id = self.uint(head, &t, u32::from(info.bits), false, order)?;
                if !info.open {
                    let f = self.ir(id);
                    f.within = Some(info.variants.iter().map(|(_, v)| (*v, *v)).collect());
                    f.bad = FaultKind::CONSTRAINT;
                }
                Ok((id, t))
            }
            Ty::Msg(u) => {
                self.end_bits();
                let args = self.unit_args(*u, args, ty.span)?;
                Ok((self.add(head.name, head.span, &Ty::Unit, FieldKind::Unit { unit: *u, args }), t))
            }
            Ty::Record(r) => {
                let r = *r;
                self.record_field(head, ty, r, order)
            }
            Ty::Bool => Err(self.cx.report(
                Diagnostic::error("E0421", ty.span, "a bool has no form on the wire")
                    .hint("use `u1` in a group of bit fields, or `flag \"…\"`"),
            )),
            Ty::Bytes(_) => Err(self.cx.report(
                Diagnostic::error("E0421", ty.span, "these bytes have no extent")
                    .hint("write `bytes<N> [length]`, `until …` or `of set`"),
            )),
            Ty::Error => Err(Reported),
            t => {
                let d = Diagnostic::error("E0421", ty.span, format!("{} has no form on the wire", self.cx.show(t)));
                let d = if matches!(t, Ty::List(..)) {
                    d.hint("a list in a unit says where it ends: `list<u8, 4> [4]`, `[count]`, `until …` or `to end`")
                } else {
                    d
                };
                Err(self.cx.report(d))
            }
        }
    }

    pub fn unit_args(&mut self, u: ir::UnitId, args: &[Expr], span: Span) -> R<Vec<ir::Expr>> {
        let params = self.cx.units[u.index()].params.clone();
        if self.cx.units[u.index()].lacks_params {
            return Err(Reported);
        }
        if params.len() != args.len() {
            let name = self.cx.m.units[u.index()].name.clone();
            return Err(self.cx.error(
                "E0308",
                span,
                format!("{name} takes {} arguments, found {}", params.len(), args.len()),
            ));
        }
        let mut out = Vec::new();
        for ((_, t), a) in params.iter().zip(args) {
            out.push(self.eval(a, Some(t), None)?.kind.into_pure().ok_or(Reported)?);
        }
        Ok(out)
    }

    fn number(
        &mut self,
        head: &Head,
        radix: u8,
        ty: &ast::Type,
        digits: Option<&Expr>,
        until: Option<&ast::Until>,
    ) -> R<(FieldId, Ty)> {
        let t = self.int_ty(ty)?;
        let bits = u32::from(t.int_bits().unwrap_or(64));
        let natural = (1..=MAX_DIGITS)
            .find(|d| u128::from(radix).checked_pow(*d as u32).is_none_or(|p| bits < 128 && p >= 1 << bits))
            .unwrap_or(MAX_DIGITS);
        let given = digits.map(|e| self.cx.const_size(self.module, e)).transpose()?;
        if let (Some(n), Some(e)) = (given, digits) {
            if n > MAX_DIGITS {
                return Err(self.cx.error("E0503", e.span, format!("a number has at most {MAX_DIGITS} digits")));
            }
        }
        let exact = given.is_some() && until.is_none();
        let until = until.map(|u| self.until(u)).transpose()?;
        let kind = FieldKind::Number { radix, digits: given.unwrap_or(natural) as u8, exact, until };
        Ok((self.add(head.name, head.span, &t, kind), t))
    }

    pub fn extent(&mut self, e: &Extent, run: bool, span: Span) -> R<ir::Extent> {
        Ok(match e {
            Extent::Length(n) => ir::Extent::Length(self.length(n)?),
            Extent::Until(u) => ir::Extent::Until(self.until(u)?),
            Extent::ToEnd => self.end_extent(span)?.unwrap_or(ir::Extent::ToEnd),
            Extent::Close => ir::Extent::Close,
            Extent::None if run => ir::Extent::Run,
            // The parser has said so.
            Extent::None
                if self.cx.diags.iter().any(|d| {
                    d.code == "E0109" && d.span().is_some_and(|s| s.file == span.file && s.start == span.start)
                }) =>
            {
                return Err(Reported)
            }
            Extent::None | Extent::When(_) | Extent::Done(_) => {
                return Err(self.cx.report(
                    Diagnostic::error("E0421", span, "nothing says where this field ends").hint(
                        "write `[length]`, `until \"…\"`, `to end`, or `of set` for the longest run of bytes in a set",
                    ),
                ))
            }
        })
    }

    fn element(&mut self, shape: &Shape) -> R<(FieldId, Elem)> {
        let head = Head { name: None, span: shape.span, within: None, computed: None, or: None };
        let seq = std::mem::take(&mut self.seq);
        let made = self.kind(&head, shape);
        self.end_bits();
        let extra = std::mem::replace(&mut self.seq, seq);
        let (id, ty) = made?;
        // Guards of the element's own lengths stand before the list.
        for f in extra {
            if f != id {
                self.seq.push(f);
            }
        }
        if let Ty::Msg(u) = ty {
            return Ok((id, Elem::Unit(u)));
        }
        if ty.is_plain() && ty != Ty::Unit {
            return Ok((id, Elem::Value(ty)));
        }
        let t = self.cx.show(&ty);
        Err(self.cx.error("E0421", shape.span, format!("a list cannot hold {t}")))
    }

    fn list(&mut self, head: &Head, element: &Shape, max: &Expr, extent: &ListExtent) -> R<(FieldId, Ty)> {
        let max = self.cx.const_size(self.module, max)?;
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let (element, elem) = self.element(element)?;
        let extent = match extent {
            ListExtent::Count(n) => ir::ListExtent::Count(self.length(n)?),
            ListExtent::Until(u) => ir::ListExtent::Until(self.until(u)?),
            ListExtent::ToEnd => self.end_list(head.span)?.unwrap_or(ir::ListExtent::ToEnd),
            ListExtent::Fold { name, init, step, done } => self.fold(&elem, name, init, step, done)?,
            ListExtent::Done(e) => self.until_item(&elem, e)?,
        };
        if let ir::ListExtent::Count(n) = &extent {
            self.not_above(n, max.into(), "items", head.span);
        }
        let ty = Ty::Items(Box::new(elem), max);
        Ok((self.add(head.name, head.span, &ty, FieldKind::List { element, max, extent }), ty))
    }

    fn item_of(&mut self, elem: &Elem) -> Val {
        let path = ir::Path { root: Root::Item, steps: vec![] };
        match elem {
            Elem::Unit(u) => Val::path(Ty::Msg(*u), path),
            Elem::Value(t) => {
                let ty = self.cx.lower_ty(t);
                Val::pure(t.clone(), build::read(ty, path))
            }
        }
    }

    /// `until .last`: a fold that counts one item to come until the condition holds.
    fn until_item(&mut self, elem: &Elem, e: &Expr) -> R<ir::ListExtent> {
        let item = self.item_of(elem);
        let (v, holds) = self.with_item_guards(|b| b.eval(e, None, Some(item)));
        let cond = self.as_cond(v?, e.span)?;
        let acc = ir::Expr::new(T_U64, ir::ExprKind::Acc);
        let step = build::if_(T_U64, cond, build::u64(0), build::u64(1));
        Ok(ir::ListExtent::Fold {
            init: build::u64(1),
            holds: all(holds),
            step,
            done: build::cmp(ir::BinOp::Eq, acc, build::u64(0)),
        })
    }

    /// The result of `make`, and the conditions for each item.
    fn with_item_guards<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> (T, Vec<ir::Expr>) {
        let before = self.item_guards.replace(Vec::new());
        let made = make(self);
        (made, std::mem::replace(&mut self.item_guards, before).unwrap_or_default())
    }

    fn fold(&mut self, elem: &Elem, name: &Ident, init: &Expr, step: &Expr, done: &Expr) -> R<ir::ListExtent> {
        let init = self.length(init)?;
        let item = self.item_of(elem);
        self.binds.push((name.clone(), Val::pure(U64, ir::Expr::new(T_U64, ir::ExprKind::Acc))));
        let known = self.facts.len();
        let made = (|| {
            let (v, ends) = self.with_item_guards(|b| b.eval(done, None, Some(item.clone())));
            let done = self.as_cond(v?, name.span)?;
            // There is another item: the list has not ended.
            crate::body::path_conditions::split(&done, false, &mut self.facts);
            let (v, mut holds) = self.with_item_guards(|b| b.eval(step, Some(&U64), Some(item)));
            let Vk::Pure(step) = v?.kind else { return Err(Reported) };
            self.facts.truncate(known);
            // The condition is tested before the first item and behind each.
            for g in ends {
                holds.push(with_acc(&g, &step));
                self.require(with_acc(&g, &init), FaultKind::MALFORMED, name.span);
            }
            Ok(ir::ListExtent::Fold { init, holds: all(holds), step, done })
        })();
        self.binds.pop();
        if made.is_err() {
            self.facts.truncate(known);
        }
        made
    }

    fn stream(&mut self, head: &Head, element: Option<&Shape>, extent: &Extent, span: Span) -> R<(FieldId, Ty)> {
        let kind = match element {
            None => match self.extent(extent, false, span)? {
                e @ (ir::Extent::Length(_) | ir::Extent::Close) => FieldKind::StreamBytes { extent: e },
                ir::Extent::Until(_) | ir::Extent::Run | ir::Extent::ToEnd => {
                    return Err(self.cx.report(Diagnostic::error(
                        "E0421",
                        span,
                        "a stream of bytes ends by `[length]` or `until close`",
                    )))
                }
            },
            Some(Shape { kind: ShapeKind::Named { ty, args, .. }, .. }) => {
                let Ty::Msg(unit) = self.cx.ty(self.module, ty)? else {
                    return Err(self.cx.error("E0421", span, "a stream holds bytes or units"));
                };
                let args = self.unit_args(unit, args, span)?;
                let until = match extent {
                    Extent::None => None,
                    Extent::When(e) | Extent::Done(e) => {
                        let item = Val::path(Ty::Msg(unit), ir::Path { root: Root::Item, steps: vec![] });
                        let v = self.eval(e, None, Some(item))?;
                        Some(self.as_cond(v, e.span)?)
                    }
                    Extent::Length(_) | Extent::Until(_) | Extent::ToEnd | Extent::Close => {
                        return Err(self.cx.error(
                            "E0421",
                            span,
                            "a stream of units ends by `until condition`, or with its one unit",
                        ))
                    }
                };
                FieldKind::StreamUnit { unit, args, until }
            }
            Some(s) => return Err(self.cx.error("E0421", s.span, "a stream holds bytes or units")),
        };
        Ok((self.add(head.name, head.span, &Ty::Unit, kind), Ty::Stream))
    }

    fn switch(&mut self, head: &Head, on: Option<&Expr>, cases: &[ast::Case]) -> R<(FieldId, Ty)> {
        if cases.is_empty() {
            return Err(self.cx.report(
                Diagnostic::error("E0435", head.span, "this switch has no case")
                    .label("no message fits")
                    .hint("add a case, as `else => nothing`"),
            ));
        }
        let on = on.map(|e| Ok((self.eval(e, None, None)?, e.span))).transpose()?;
        // The field stands before its cases' fields in the unit's list, so that its id is known to
        // them.
        let id = self.add(head.name, head.span, &Ty::Unit, FieldKind::Switch { cases: vec![] });
        let mut done = Vec::new();
        let outside = self.facts.len();
        for (n, case) in cases.iter().enumerate() {
            // Known here: no case before was taken.
            let (known, depth) = (self.facts.len(), self.binds.len());
            let mut taken = None;
            if let Ok((guard, fault)) = self.guard(case, on.as_ref()) {
                if let ir::Guard::When(c) = &guard {
                    taken = Some(c.clone());
                }
                if let Ok(c) = self.case(id, n as u32, case, guard, fault) {
                    done.push(c);
                }
            }
            self.facts.truncate(known);
            if let Some(c) = taken {
                crate::body::path_conditions::split(&c, false, &mut self.facts);
            }
            self.binds.truncate(depth);
        }
        self.facts.truncate(outside);
        if let Some(early) = cases.iter().rev().skip(1).find(|c| matches!(c.guard, Guard::Else)) {
            self.cx.error("E0423", early.span, "`else` must be the last case");
        }
        self.passed_cases(id, &done);
        self.ir(id).kind = FieldKind::Switch { cases: done };
        Ok((id, Ty::Switch(self.id, id)))
    }

    /// `pass as name` in cases of this switch: which case that is, by its name or that of a field
    /// in it.
    fn passed_cases(&mut self, switch: FieldId, cases: &[ir::Case]) {
        let (mine, others) = std::mem::take(&mut self.passed_as).into_iter().partition(|(s, ..)| *s == switch);
        self.passed_as = others;
        let mine: Vec<(FieldId, FieldId, Ident)> = mine;
        for (_, marker, name) in mine {
            let unit = &self.cx.m.units[self.id.index()];
            let named = |c: &ir::Case| {
                c.name.as_ref() == Some(&name.name)
                    || c.fields.iter().any(|f| unit.fields[f.index()].name.as_ref() == Some(&name.name))
            };
            let found = cases.iter().position(|c| named(c) && !c.fields.contains(&marker));
            let Some(n) = found else {
                self.cx.error("E0423", name.span, format!("there is no other case `{}` in this switch", name.name));
                continue;
            };
            let endless = cases[n]
                .fields
                .iter()
                .any(|f| matches!(unit.fields[f.index()].kind, FieldKind::StreamBytes { extent: ir::Extent::Close }));
            self.ir(marker).kind = FieldKind::Pass { how: ir::PassRule::As { case: n as u32, endless } };
        }
    }

    fn guard(&mut self, case: &ast::Case, on: Option<&(Val, Span)>) -> R<(ir::Guard, Option<FaultKind>)> {
        let fault = match &case.body {
            CaseBody::Fault(n) => Some(self.cx.fault_kind(self.module, n)?),
            CaseBody::Nothing | CaseBody::Field(..) | CaseBody::Fields(_) => None,
        };
        let guard = match &case.guard {
            Guard::Literal { values, peek } => {
                self.no_empty(values, case.span)?;
                ir::Guard::Literal { values: values.clone(), peek: *peek }
            }
            Guard::When(e) => ir::Guard::When(self.cond(e)?),
            Guard::WhenSome(name, e) => {
                let v = self.eval(e, None, None)?;
                if !v.ty.is_option() {
                    let t = self.cx.show(&v.ty);
                    return Err(self.cx.error(
                        "E0301",
                        e.span,
                        format!("`when {} = …` needs an option, found {t}", name.name),
                    ));
                }
                let (ty, value) = self.plain(v, e.span)?;
                let field = self.add(None, name.span, &ty, FieldKind::Let { value });
                self.seq.push(field);
                let t = self.cx.lower_ty(&ty);
                let read = build::read(t, build::step(&build::this(), ir::Step::Field(field)));
                let Ty::Option(inner) = ty else { return Err(Reported) };
                let it = self.cx.lower_ty(&inner);
                self.binds.push((name.clone(), Val::pure(*inner, build::unwrap(it, read.clone()))));
                ir::Guard::When(build::is_some(read))
            }
            Guard::Values(values) => {
                let Some((on, span)) = on else {
                    return Err(self.cx.error("E0423", case.span, "only `switch e { … }` has cases by value"));
                };
                let Vk::Pure(subject) = &on.kind else {
                    return Err(self.cx.error("E0301", *span, "`switch` needs a number, an enum or bytes here"));
                };
                let mut any = build::boolean(false);
                for v in values {
                    let c = self.value_case(v, &on.ty)?;
                    any = build::or(
                        any,
                        build::cmp(if on.caseless { ir::BinOp::EqCase } else { ir::BinOp::Eq }, subject.clone(), c),
                    );
                }
                ir::Guard::When(any)
            }
            Guard::Else => match fault {
                Some(k) => ir::Guard::Fault(k),
                None => ir::Guard::Else,
            },
        };
        Ok((guard, fault))
    }

    fn value_case(&mut self, v: &Expr, ty: &Ty) -> R<ir::Expr> {
        if let (Ty::Enum(e), ast::ExprKind::Name(n)) = (ty, &*v.kind) {
            if let Some((_, x)) = self.cx.m.enums[e.index()].variants.iter().find(|(name, _)| *name == n.name) {
                let x = u128::from(*x);
                let t = self.cx.lower_ty(ty);
                return Ok(build::int(t, x));
            }
        }
        self.cx.constant(self.module, v, Some(ty))?.kind.into_pure().ok_or(Reported)
    }

    fn case(
        &mut self,
        id: FieldId,
        n: u32,
        case: &ast::Case,
        guard: ir::Guard,
        fault: Option<FaultKind>,
    ) -> R<ir::Case> {
        let facts = self.facts.len();
        self.facts.push(build::case(build::step(&build::this(), ir::Step::Field(id)), n).into());
        if let ir::Guard::When(c) = &guard {
            crate::body::path_conditions::split(c, true, &mut self.facts);
        }
        self.cases.push((id, n));
        let seq = std::mem::take(&mut self.seq);
        let mut name = None;
        match &case.body {
            CaseBody::Nothing => {}
            CaseBody::Fault(f) => {
                if let (Some(kind), ir::Guard::When(_) | ir::Guard::Literal { .. }) = (fault, &guard) {
                    self.require(build::boolean(false), kind, f.span);
                }
            }
            CaseBody::Fields(fields) => self.fields(fields),
            CaseBody::Field(given, field) => {
                name = self.case_field(given.as_ref(), field);
            }
        }
        self.end_bits();
        let fields = std::mem::replace(&mut self.seq, seq);
        self.cases.pop();
        self.facts.truncate(facts);
        Ok(ir::Case { name, guard, fields })
    }

    /// A case of one field; without a name of its own it takes its unit's, in snake case.
    fn case_field(&mut self, given: Option<&Ident>, field: &ast::Field) -> Option<String> {
        let mut field = field.clone();
        if let ast::FieldKind::Value { name, shape, .. } = &mut field.kind {
            let derived = match (&shape.kind, given) {
                (_, Some(g)) => Some(g.clone()),
                (ShapeKind::Named { ty: ast::Type { kind: ast::TypeKind::Named { path, .. }, .. }, .. }, None) => {
                    path.parts.last().map(|p| Ident { name: snake(&p.name), span: p.span })
                }
                _ => None,
            };
            if name.is_none() {
                *name = derived;
            }
            let result = name.as_ref().map(|n| n.name.clone());
            self.fields(std::slice::from_ref(&field));
            return result;
        }
        self.fields(std::slice::from_ref(&field));
        None
    }
}

/// `MetaValue` → `meta_value`
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// That all of these hold; none: nothing must.
fn all(conditions: Vec<ir::Expr>) -> Option<ir::Expr> {
    conditions.into_iter().reduce(build::and)
}

/// An expression; the accumulator has this value.
fn with_acc(e: &ir::Expr, value: &ir::Expr) -> ir::Expr {
    let mut e = e.clone();
    ir::walk::expr_mut(&mut e, &mut |e| {
        if matches!(*e.kind, ir::ExprKind::Acc) {
            *e = value.clone()
        }
    });
    e
}
