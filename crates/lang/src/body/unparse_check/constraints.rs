//! Checks a built message against its unit: its `require`s, the cases that its fields select, and
//! lengths. In: the grammar's conditions and the given fields. Out: nothing if they certainly hold,
//! E0433 if they certainly do not, else a guard.
//!
//! A condition is *closed* by the substitution of values for fields. Some conditions need values
//! that are not known before the message is written: items taken from answers, say. If its length
//! depends on them, or a `require` does, the written message is read again ([`Lower::validity`]).

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and FieldKind")]

use super::super::Lower;
use crate::body::built_message::{FieldSource, Fields, Piece};
use crate::compiler::{Reported, R, T_BOOL, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ir_builder::raw_path;
use crate::ty::{Elem, Ty};
use crate::val::{OutKind, Val, Vk};
use ir::{
    BinOp, Builtin, Expr as X, ExprKind as K, Extent, FaultKind, FieldId, FieldKind, LocalId, Root, Step, StmtKind,
};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Span, StmtKind as S};
use wireloom_syntax::Diagnostic;

/// A question about a list of named items of a unit.
pub struct Query {
    kind: ListQuestion,
    ty: ir::TyId,
    caseless: bool,
    pub name: X,
    pub unit: ir::UnitId,
}

enum ListQuestion {
    Find,
    Count,
    Token(X),
}

impl Lower<'_, '_> {
    /// A condition of the grammar (or its opposite) that the message must fulfil, each part of it
    /// as far as it is known. If parts of it are not, the written message is read again.
    pub fn required(&mut self, fields: &Fields, cond: &X, holds: bool, kind: FaultKind, at: ir::Span) -> R<()> {
        let mut parts = vec![];
        super::super::path_conditions::split(cond, holds, &mut parts);
        if build::as_bool(cond) == Some(!holds) {
            parts.push(build::boolean(false).into());
        }
        for p in parts {
            match self.closed(fields, &p)? {
                Some(ok) => self.owed(ok, kind, at, fields.span)?,
                None if self.of_number_texts(fields, &p)? => {}
                None => self.unsure(),
            }
        }
        Ok(())
    }

    /// Whether only the texts of numbers are not known of a condition. A program writes numbers in
    /// one form, without leading zeros.
    fn of_number_texts(&mut self, fields: &Fields, cond: &X) -> R<bool> {
        let mut cond = cond.clone();
        ir::walk::expr_mut(&mut cond, &mut |e| {
            let K::Raw(p) = &*e.kind else { return };
            if let (Root::This, [Step::Field(f)]) = (p.root, p.steps.as_slice()) {
                if matches!(self.field_ir(fields.unit, *f).kind, FieldKind::Number { .. }) {
                    *e = X::new(e.ty, K::Bytes(vec![]));
                }
            }
        });
        Ok(self.closed(fields, &cond)?.is_some())
    }

    fn owed(&mut self, ok: X, kind: FaultKind, at: ir::Span, span: Span) -> R<()> {
        if build::as_bool(&ok) == Some(false) {
            return Err(self.never_valid(at, span));
        }
        self.valid(ok, kind, span)
    }

    /// A message that a rule of its unit excludes.
    pub fn never_valid(&mut self, rule: ir::Span, span: Span) -> Reported {
        let path = self.cx.m.files.get(rule.file as usize).map_or("", String::as_str);
        let file = path.rsplit('/').next().unwrap_or("");
        let d = Diagnostic::error("E0434", span, "this message is not valid")
            .label("the receiver would refuse it")
            .note(format!("the unit demands otherwise in line {} of {file}", rule.line));
        self.cx.report(d)
    }

    /// The written case must be the one that the receiver takes: no case before it applies, and its
    /// own condition holds. If no bytes are written, any case without bytes will do. Returns the
    /// condition under which nothing is written after all: the request asked for an answer without
    /// it.
    pub fn case_agrees(&mut self, fields: &Fields, switch: FieldId, cases: &[ir::Case], chosen: usize) -> R<Option<X>> {
        let at = self.field_ir(fields.unit, switch).span;
        let named = fields.cases.iter().any(|(s, _)| *s == switch);
        let silent = |f: &FieldId| {
            matches!(
                self.field_ir(fields.unit, *f).kind,
                FieldKind::Let { .. }
                    | FieldKind::Require { .. }
                    | FieldKind::Recover { .. }
                    | FieldKind::Pass { .. }
                    | FieldKind::Nothing
            )
        };
        if !named && cases[chosen].fields.iter().all(silent) {
            return self.no_bytes(fields, cases, at).map(|()| None);
        }
        let mut without = build::boolean(false);
        for c in &cases[..chosen] {
            let ir::Guard::When(cond) = &c.guard else { continue };
            let empty = !fields.params.is_empty()
                && c.fields.iter().all(|f| matches!(self.field_ir(fields.unit, *f).kind, FieldKind::Nothing));
            match if empty { self.closed(fields, cond)? } else { None } {
                Some(taken) => without = build::or(without, self.asked_for(fields, &taken, at)?),
                None => self.required(fields, cond, false, FaultKind::CONSTRAINT, at)?,
            }
        }
        if let ir::Guard::When(cond) = &cases[chosen].guard {
            self.required(fields, cond, true, FaultKind::CONSTRAINT, at)?;
        }
        let without = crate::fold::fold(&self.cx.m, &without);
        Ok((build::as_bool(&without) != Some(false)).then_some(without))
    }

    /// The reasons for a case that lie in the request; the other reasons must not hold.
    fn asked_for(&mut self, fields: &Fields, taken: &X, at: ir::Span) -> R<X> {
        let mut taken = taken;
        while let K::Local(l) = &*taken.kind {
            match self.origins.get(l) {
                Some(origin) => taken = origin,
                None => break,
            }
        }
        let mut parts = vec![];
        super::super::path_conditions::split(taken, false, &mut parts);
        if build::as_bool(taken) == Some(true) {
            parts.push(build::boolean(false).into());
        }
        let mut asked = build::boolean(false);
        for p in parts {
            let mut of_request = false;
            ir::walk::expr(&p, &mut |e| of_request |= fields.params.contains(e));
            if of_request {
                asked = build::or(asked, build::not((*p).clone()));
            } else {
                self.owed((*p).clone(), FaultKind::CONSTRAINT, at, fields.span)?;
            }
        }
        Ok(asked)
    }

    fn no_bytes(&mut self, fields: &Fields, cases: &[ir::Case], at: ir::Span) -> R<()> {
        // Where no case applies the receiver refuses the message.
        let (mut ok, mut ends) = (build::boolean(false), build::boolean(false));
        for c in cases.iter().rev() {
            let cond = match &c.guard {
                ir::Guard::When(c) => c.clone(),
                ir::Guard::Else | ir::Guard::Fault(_) => build::boolean(true),
                ir::Guard::Literal { .. } => return Ok(()),
            };
            let mut empty = build::boolean(!matches!(c.guard, ir::Guard::Fault(_)));
            for f in &c.fields {
                empty = build::and(
                    empty,
                    match self.field_ir(fields.unit, *f).kind {
                        FieldKind::StreamBytes { extent: Extent::Length(n) }
                        | FieldKind::Bytes { min: 0, extent: Extent::Length(n), .. } => {
                            build::cmp(BinOp::Eq, n, build::u64(0))
                        }
                        FieldKind::StreamBytes { extent: Extent::Close }
                        | FieldKind::Let { .. }
                        | FieldKind::Nothing
                        | FieldKind::Require { .. } => build::boolean(true),
                        FieldKind::Bytes { min: 0, extent: Extent::Run | Extent::ToEnd | Extent::Close, .. } => {
                            build::boolean(true)
                        }
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
                        | FieldKind::Recover { .. }
                        | FieldKind::Pass { .. }
                        | FieldKind::Align { .. } => build::boolean(false),
                    },
                );
            }
            let close = c.fields.iter().any(|f| ends_with_connection(&self.field_ir(fields.unit, *f).kind));
            ends = build::if_(T_BOOL, cond.clone(), build::boolean(close), ends);
            ok = build::if_(T_BOOL, cond, empty, ok);
        }
        let ends = self.closed(fields, &ends)?.unwrap_or(build::boolean(false));
        self.ends_if(ends);
        match self.closed(fields, &ok)? {
            Some(ok) => self.owed(ok, FaultKind::CONSTRAINT, at, fields.span),
            None => {
                self.unsure();
                Ok(())
            }
        }
    }

    /// The built message ends with its connection under a condition.
    pub fn ends_if(&mut self, cond: X) {
        if build::as_bool(&cond) == Some(false) {
            return;
        }
        self.ends = Some(match self.ends.take() {
            Some(other) => build::or(other, cond),
            None => cond,
        });
    }

    /// Arguments of a nested unit, if all of them are known.
    pub fn known_args(&mut self, fields: &Fields, args: &[X]) -> R<Vec<X>> {
        let mut out = vec![];
        for a in args {
            match self.closed(fields, a)? {
                Some(a) => out.push(a),
                None => return Ok(vec![]),
            }
        }
        Ok(out)
    }

    /// The expression over the given values instead of the unit's fields. None if a part of it is
    /// not known.
    pub fn closed(&mut self, fields: &Fields, e: &X) -> R<Option<X>> {
        let (mut e, mut failed) = (e.clone(), None);
        ir::walk::expr_mut(&mut e, &mut |x| {
            if failed.is_some() {
                return;
            }
            match self.known(fields, x) {
                Ok(Some(v)) => *x = v,
                Ok(None) => {}
                Err(r) => failed = Some(r),
            }
        });
        if let Some(r) = failed {
            return Err(r);
        }
        let e = self.simple(&e);
        Ok((!is_open(&e)).then_some(e))
    }

    /// Folds, and sees through temporaries: the number that was written as text is read again as
    /// that number.
    fn simple(&mut self, e: &X) -> X {
        let mut e = crate::fold::fold(&self.cx.m, e);
        let origins = &self.origins;
        ir::walk::expr_mut(&mut e, &mut |e| {
            let K::Builtin(Builtin::ParseU64, args) = &*e.kind else { return };
            let mut a = &args[0];
            loop {
                a = match &*a.kind {
                    K::Cast(b) => b,
                    K::Local(l) if origins.contains_key(l) => &origins[l],
                    _ => break,
                };
            }
            if let K::Bytes(b) = &*a.kind {
                let n = b
                    .iter()
                    .all(u8::is_ascii_digit)
                    .then(|| std::str::from_utf8(b).ok()?.parse::<u64>().ok())
                    .flatten();
                *e = X::new(e.ty, n.map_or(K::None, |n| K::Some(build::u64(n))));
            } else if let K::Builtin(Builtin::TextU64, n) = &*a.kind {
                *e = X::new(e.ty, K::Some(build::cast(T_U64, n[0].clone())));
            }
        });
        let e = crate::fold::fold(&self.cx.m, &e);
        match &*e.kind {
            K::Binary(BinOp::Eq, a, b) if a.ty == T_U64 && same_sum(&self.cx.m, a, b) => build::boolean(true),
            K::Binary(BinOp::Ge | BinOp::Le, a, b) if a == b => build::boolean(true),
            _ => e,
        }
    }

    fn known(&mut self, fields: &Fields, e: &X) -> R<Option<X>> {
        match &*e.kind {
            K::Read(p) | K::Case(p, _) | K::Count(p) | K::Raw(p) if p.root == Root::This => self.leaf_at(fields, e, p),
            K::UnitParam(Root::This, i) => Ok(fields.params.get(*i as usize).cloned()),
            // The parts whose length a field holds are measured.
            K::Builtin(Builtin::LenBytes, of) => match &*of[0].kind {
                K::Raw(p) if p.root == Root::This => match p.steps[..] {
                    [Step::Field(f)] => self.written(fields, f),
                    _ => Ok(None),
                },
                _ => Ok(None),
            },
            _ => match self.query(fields.unit, e) {
                Some((l, q)) => self.ask(fields, l, &q),
                None => Ok(None),
            },
        }
    }

    /// The question that an expression of a unit's grammar asks, and its list.
    pub fn query(&self, of: ir::UnitId, e: &X) -> Option<(FieldId, Query)> {
        let (list, name, kind) = match &*e.kind {
            K::Find { list, name } => (list, name, ListQuestion::Find),
            K::CountOf { list, name } => (list, name, ListQuestion::Count),
            K::AnyToken { list, name, token } => (list, name, ListQuestion::Token(token.clone())),
            _ => return None,
        };
        let [Step::Field(l)] = list.steps[..] else { return None };
        let FieldKind::List { element, .. } = self.field_ir(of, l).kind else { return None };
        let FieldKind::Unit { unit, .. } = self.field_ir(of, element).kind else { return None };
        if list.root != Root::This {
            return None;
        }
        let caseless = self
            .pair_fields(unit)
            .is_some_and(|(n, _)| matches!(self.field_ir(unit, n).kind, FieldKind::Bytes { caseless: true, .. }));
        Some((l, Query { kind, ty: e.ty, caseless, name: name.clone(), unit }))
    }

    fn leaf_at(&mut self, fields: &Fields, e: &X, p: &ir::Path) -> R<Option<X>> {
        let Some(Step::Field(f)) = p.steps.first().cloned() else { return Ok(None) };
        if p.steps.len() > 1 {
            return self.inside(fields, f, e, p);
        }
        match &*e.kind {
            K::Read(_) => self.field_value(fields, f),
            K::Case(_, n) => {
                let FieldKind::Switch { cases } = self.field_ir(fields.unit, f).kind else { return Ok(None) };
                let chosen = fields
                    .cases
                    .iter()
                    .find(|(s, _)| *s == f)
                    .map(|c| c.1 as usize)
                    .or_else(|| self.default_case(fields, &cases));
                Ok(chosen.map(|c| build::boolean(c == *n as usize)))
            }
            K::Count(_) => match fields.get(f) {
                None => Ok(Some(build::u32(0))),
                Some((_, FieldSource::Pieces(ps), _)) => Ok(Some(build::u32(ps.len() as u32))),
                Some((_, FieldSource::Source(s), _)) => {
                    let s = s.clone();
                    let n = self.item_count(&s)?;
                    Ok(Some(build::cast(T_U32, n)))
                }
                Some(_) => Ok(None),
            },
            _ => match self.field_ir(fields.unit, f).kind {
                FieldKind::Bytes { extent: Extent::Length(_) | Extent::Run | Extent::ToEnd, trim: None, .. } => {
                    self.field_value(fields, f)
                }
                _ => Ok(None),
            },
        }
    }

    /// Something of a nested unit.
    fn inside(&mut self, fields: &Fields, f: FieldId, e: &X, p: &ir::Path) -> R<Option<X>> {
        let FieldKind::Unit { unit, args } = self.field_ir(fields.unit, f).kind else { return Ok(None) };
        let rest = |root: Root, before: &[Step]| {
            let p = ir::Path { root, steps: before.iter().chain(&p.steps[1..]).cloned().collect() };
            X::new(
                e.ty,
                match &*e.kind {
                    K::Case(_, n) => K::Case(p, *n),
                    K::Count(_) => K::Count(p),
                    K::Raw(_) => K::Raw(p),
                    _ => K::Read(p),
                },
            )
        };
        match fields.get(f) {
            Some((_, FieldSource::Pieces(ps), _)) => match ps.first() {
                Some(Piece::Built(inner)) => {
                    let params = self.known_args(fields, &args)?;
                    let inner = Fields { params, ..inner.clone() };
                    self.known(&inner, &rest(Root::This, &[]))
                }
                Some(Piece::Ready(Val { kind: Vk::Path(at), .. }, _)) => Ok(Some(rest(at.root, &at.steps))),
                _ => Ok(None),
            },
            None => {
                let inner = Fields::new(unit, fields.span);
                self.known(&inner, &rest(Root::This, &[]))
            }
            Some(_) => Ok(None),
        }
    }

    /// The value of a field for its reader.
    fn field_value(&mut self, fields: &Fields, f: FieldId) -> R<Option<X>> {
        let field = self.field_ir(fields.unit, f);
        match &field.kind {
            FieldKind::Let { value } => {
                if let Some(v) = fields.value(f) {
                    return Ok(Some(v.clone()));
                }
                if let Some((_, v)) = fields.lets.borrow().iter().find(|(l, _)| *l == f) {
                    return Ok(Some(v.clone()));
                }
                let Some(v) = self.closed(fields, value)? else { return Ok(None) };
                let v = if super::super::is_cheap(&v) {
                    v
                } else {
                    let l = self.kept(v.clone(), fields.span);
                    self.origins.insert(l, v);
                    self.local_expr(l)
                };
                fields.lets.borrow_mut().push((f, v.clone()));
                Ok(Some(v))
            }
            FieldKind::UInt { .. } | FieldKind::Number { .. } | FieldKind::Varint { .. } => {
                if self.measuring.contains(&(fields.unit, f)) {
                    return Ok(None);
                }
                self.number_of(fields, f, &field).map(Some)
            }
            FieldKind::Bytes { extent, trim, .. } => {
                let given = self.enum_text(fields, f)?.or_else(|| fields.value(f).cloned());
                let default = || {
                    self.cx.units[fields.unit.index()].defaults.iter().find(|(d, _)| *d == f).map(|(_, v)| v.clone())
                };
                Ok(Some(match (given, extent) {
                    (Some(v), _) => match (&*v.kind, trim) {
                        (K::Bytes(b), Some(t)) => X::new(v.ty, K::Bytes(trimmed(b, t))),
                        _ => v,
                    },
                    (None, Extent::Length(n)) => match build::as_int(n) {
                        Some(n) if default().is_none() && n <= 1 << 16 => {
                            X::new(field.ty, K::Bytes(vec![0; n as usize]))
                        }
                        _ => X::new(field.ty, K::Bytes(default().unwrap_or_default())),
                    },
                    (None, _) => X::new(field.ty, K::Bytes(default().unwrap_or_default())),
                }))
            }
            FieldKind::Flag { .. } => Ok(Some(fields.value(f).cloned().unwrap_or(build::boolean(false)))),
            FieldKind::Literal { .. }
            | FieldKind::Unit { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => Ok(None),
        }
    }

    /// A value computed once.
    fn kept(&mut self, v: X, span: Span) -> LocalId {
        let n = self.locals.len();
        self.locals.push(ir::Local { name: format!("t{n}"), ty: v.ty, in_frame: false });
        let l = LocalId(n as u32);
        self.push(span, StmtKind::Set(l, v));
        l
    }

    /// Name and value field of an item.
    pub fn pair_fields(&self, unit: ir::UnitId) -> Option<(FieldId, FieldId)> {
        let u = &self.cx.m.units[unit.index()];
        let mut bytes = u.body.iter().copied().filter(|f| {
            let f = &u.fields[f.index()];
            f.name.is_some() && matches!(f.kind, FieldKind::Bytes { .. })
        });
        bytes.next().zip(bytes.next())
    }

    /// Name and value of one item.
    fn pair(&mut self, unit: ir::UnitId, piece: &Piece) -> R<Option<(X, X)>> {
        let Some((name, value)) = self.pair_fields(unit) else { return Ok(None) };
        let at =
            |s: &Self, p: &ir::Path, f: FieldId| build::read(s.field_ir(unit, f).ty, build::step(p, Step::Field(f)));
        match piece {
            Piece::Built(fields) => Ok(self.field_value(fields, name)?.zip(self.field_value(fields, value)?)),
            Piece::Ready(v, _) => Ok(match &v.kind {
                Vk::Path(p) => Some((at(self, p, name), at(self, p, value))),
                Vk::Pure(e) => match &*e.kind {
                    K::Raw(p) => Some((at(self, p, name), at(self, p, value))),
                    _ => None,
                },
                Vk::Out(o) if matches!(o.kind, OutKind::Built(_)) => {
                    let of = |f: FieldId| {
                        let field = self.field_ir(unit, f);
                        match o.fields.iter().find(|(n, _)| field.name.as_ref() == Some(n)) {
                            Some((_, Val { kind: Vk::Pure(e), .. })) => Some(e.clone()),
                            Some(_) => None,
                            None => Some(X::new(field.ty, K::Bytes(vec![]))),
                        }
                    };
                    of(name).zip(of(value))
                }
                Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => None,
            }),
        }
    }

    /// The answer to a question about a list that is built.
    fn ask(&mut self, fields: &Fields, l: FieldId, q: &Query) -> R<Option<X>> {
        let unit = q.unit;
        match fields.get(l) {
            None => Ok(Some(q.nothing())),
            Some((_, FieldSource::Pieces(ps), _)) => {
                let ps = ps.clone();
                let mut all = q.nothing();
                for p in ps.iter().rev() {
                    let Some((name, value)) = self.pair(unit, p)? else { return Ok(None) };
                    all = q.one(self, name, value, all);
                }
                Ok(Some(crate::fold::fold(&self.cx.m, &all)))
            }
            Some((_, FieldSource::Source(e), _)) => {
                let e = e.clone();
                let nothing = q.nothing();
                let sum = self.kept(nothing, fields.span);
                let (known, block) = self.sub(|s| s.scan(&e, unit, q, sum));
                if !known? {
                    return Ok(None);
                }
                self.out.extend(block);
                Ok(Some(self.local_expr(sum)))
            }
            Some((_, FieldSource::Slices(_) | FieldSource::InOrder(_) | FieldSource::Value(_), _)) => Ok(None),
        }
    }

    /// Goes over the items of an expression, and gathers the answer; false if some of them cannot
    /// be read.
    fn scan(&mut self, e: &Expr, unit: ir::UnitId, q: &Query, sum: LocalId) -> R<bool> {
        match &*e.kind {
            ExprKind::List(es) => {
                for e in es {
                    if !self.scan_item(e, unit, q, sum)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ExprKind::Comprehension { value, pattern, list, cond } => {
                let mut known = true;
                self.each(pattern, list, e.span, |s| {
                    s.filtered(cond.as_ref(), e.span, |s| {
                        known = s.scan_item(value, unit, q, sum)?;
                        Ok(Val::unit())
                    })
                    .map(|_| ())
                })?;
                Ok(known)
            }
            ExprKind::If(c, then, Some(other)) => match then.stmts.as_slice() {
                [wireloom_syntax::ast::Stmt { kind: S::Expr(a), .. }] => {
                    let c = self.decide(c)?;
                    let (mut p, mut o) = (true, true);
                    self.branch(
                        c,
                        e.span,
                        Some(&Ty::Unit),
                        |s| {
                            p = s.scan(a, unit, q, sum)?;
                            Ok(Val::unit())
                        },
                        |s| {
                            o = s.scan(other, unit, q, sum)?;
                            Ok(Val::unit())
                        },
                    )?;
                    Ok(p && o)
                }
                _ => Ok(false),
            },
            ExprKind::Block(b) => match b.stmts.as_slice() {
                [wireloom_syntax::ast::Stmt { kind: S::Expr(e), .. }] => self.scan(e, unit, q, sum),
                _ => Ok(false),
            },
            _ => {
                let v = self.expr(e, None)?;
                let v = self.defined(v, e.span)?;
                let list = match (&v.ty, &v.kind) {
                    (Ty::Items(elem, _), Vk::Path(p)) if **elem == Elem::Unit(unit) => p.clone(),
                    (Ty::Bytes(_), Vk::Pure(x)) => match (&*x.kind, raw_path(x).and_then(|p| self.field_at(p))) {
                        (K::Raw(p), Some(ir::Field { kind: FieldKind::List { .. }, .. })) => p.clone(),
                        _ => return Ok(false),
                    },
                    _ => return Ok(false),
                };
                let so_far = self.local_expr(sum);
                let all = q.whole(list, so_far);
                self.push(e.span, StmtKind::Set(sum, all));
                Ok(true)
            }
        }
    }

    fn scan_item(&mut self, e: &Expr, unit: ir::UnitId, q: &Query, sum: LocalId) -> R<bool> {
        let piece = self.piece(unit, e)?;
        let Some((name, value)) = self.pair(unit, &piece)? else { return Ok(false) };
        let so_far = self.local_expr(sum);
        let next = match q.kind {
            // The first one counts.
            ListQuestion::Find => {
                build::if_(q.ty, build::is_some(so_far.clone()), so_far.clone(), q.one(self, name, value, so_far))
            }
            ListQuestion::Count | ListQuestion::Token(_) => q.one(self, name, value, so_far),
        };
        self.push(e.span, StmtKind::Set(sum, next));
        Ok(true)
    }
}

impl Query {
    /// The answer if no item has the name.
    pub fn nothing(&self) -> X {
        match self.kind {
            ListQuestion::Find => X::new(self.ty, K::None),
            ListQuestion::Count => build::u32(0),
            ListQuestion::Token(_) => build::boolean(false),
        }
    }

    /// Whether an item of this name is read.
    pub fn asks_for(&self, s: &Lower, name: X) -> X {
        let same = build::cmp(if self.caseless { BinOp::EqCase } else { BinOp::Eq }, name, self.name.clone());
        crate::fold::fold(&s.cx.m, &same)
    }

    /// With one more item, which has only a known name; none if its value matters.
    pub fn one_more(&self, s: &Lower, name: X, there: X, others: X) -> Option<X> {
        let same = self.asks_for(s, name);
        if build::as_bool(&same) == Some(false) {
            return Some(others);
        }
        if !matches!(self.kind, ListQuestion::Count) {
            return None;
        }
        let counts = build::if_(T_U32, there, build::if_(T_U32, same, build::u32(1), build::u32(0)), build::u32(0));
        Some(build::bin(T_U32, BinOp::Add, others, counts))
    }

    /// With one item before the others.
    fn one(&self, s: &Lower, name: X, value: X, others: X) -> X {
        let same = self.asks_for(s, name);
        match &self.kind {
            ListQuestion::Find => {
                let inner = match s.cx.m.types.get(self.ty.index()) {
                    Some(ir::Ty::Option(t)) => *t,
                    _ => value.ty,
                };
                build::if_(self.ty, same, X::new(self.ty, K::Some(build::cast(inner, value))), others)
            }
            ListQuestion::Count => {
                build::bin(T_U32, BinOp::Add, others, build::if_(T_U32, same, build::u32(1), build::u32(0)))
            }
            ListQuestion::Token(t) => {
                build::or(build::and(same, build::builtin(T_BOOL, Builtin::HasToken, vec![value, t.clone()])), others)
            }
        }
    }

    /// The items of a parsed list behind the others.
    fn whole(&self, list: ir::Path, so_far: X) -> X {
        let name = self.name.clone();
        match &self.kind {
            ListQuestion::Find => {
                build::if_(self.ty, build::is_some(so_far.clone()), so_far, X::new(self.ty, K::Find { list, name }))
            }
            ListQuestion::Count => build::bin(T_U32, BinOp::Add, so_far, X::new(T_U32, K::CountOf { list, name })),
            ListQuestion::Token(t) => build::or(so_far, X::new(T_BOOL, K::AnyToken { list, name, token: t.clone() })),
        }
    }
}

/// Whether something of the grammar is left in an expression.
fn is_open(e: &X) -> bool {
    let mut open = false;
    ir::walk::expr(e, &mut |e| {
        open |= match &*e.kind {
            K::Read(p)
            | K::Count(p)
            | K::Raw(p)
            | K::Case(p, _)
            | K::Find { list: p, .. }
            | K::CountOf { list: p, .. }
            | K::AnyToken { list: p, .. } => !matches!(p.root, Root::Local(_)),
            K::UnitParam(r, _) => !matches!(r, Root::Local(_)),
            K::Acc => true,
            _ => false,
        }
    });
    open
}

/// Whether it helps to know that a temporary is this.
pub fn is_telling(e: &X) -> bool {
    match &*e.kind {
        K::Cast(a) => is_telling(a),
        K::Builtin(Builtin::TextU64, args) => {
            matches!(&*args[0].kind, K::Local(_) | K::Int(_))
                || matches!(&*args[0].kind, K::Builtin(Builtin::LenBytes, a) if matches!(&*a[0].kind, K::Local(_) | K::Param(_) | K::Bytes(_)))
        }
        _ => false,
    }
}

/// Whether two sums are equal term by term.
pub fn same_sum(m: &ir::Module, a: &X, b: &X) -> bool {
    let mut terms = vec![];
    let mut rest = 0u64;
    gather(m, a, 1, &mut terms, &mut rest);
    gather(m, b, u64::MAX, &mut terms, &mut rest);
    rest == 0 && terms.iter().all(|(_, n)| *n == 0)
}

/// Terms and their factors, modulo 2⁶⁴.
fn gather(m: &ir::Module, e: &X, factor: u64, terms: &mut Vec<(X, u64)>, rest: &mut u64) {
    match &*e.kind {
        K::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) if e.ty == T_U64 => {
            gather(m, a, factor, terms, rest);
            gather(m, b, if *op == BinOp::Add { factor } else { factor.wrapping_neg() }, terms, rest);
        }
        K::Int(n) => *rest = rest.wrapping_add((*n as u64).wrapping_mul(factor)),
        // A length that was put into a narrower field fits it: that is guarded.
        K::Cast(a) if matches!(m.types.get(a.ty.index()), Some(ir::Ty::UInt(_))) => gather(m, a, factor, terms, rest),
        _ => match terms.iter_mut().find(|(t, _)| t == e) {
            Some((_, n)) => *n = n.wrapping_add(factor),
            None => terms.push((e.clone(), factor)),
        },
    }
}

fn trimmed(b: &[u8], set: &ir::ByteSet) -> Vec<u8> {
    let from = b.iter().position(|c| !set.has(*c)).unwrap_or(b.len());
    let to = b.iter().rposition(|c| !set.has(*c)).map_or(from, |i| i + 1);
    b[from..to].to_vec()
}

/// Whether a field reaches to the end of the connection.
pub fn ends_with_connection(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::StreamBytes { extent: Extent::Close } | FieldKind::Bytes { extent: Extent::Close, .. })
}
