//! Messages that a program makes: `Unit { … }` built from its fields, `message with { … }` with
//! fields replaced.

use super::built_message::{EditedMessage, FieldSource, Fields, Piece};
use super::Lower;
use crate::compiler::{Reported, R};
use crate::ir_builder as build;
use crate::items::Item;
use crate::ty::Ty;
use crate::units::info::Member;
use crate::val::{OutKind, Outgoing, Val, Validity, Vk};
use ir::{ExprKind as K, FieldId};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Ident, Path, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    /// `Name { field: value, … }`: a record or a message.
    pub fn build(&mut self, path: &Path, fields: &[(Ident, Expr)], span: Span) -> R<Val> {
        let id = self.cx.path_item(self.module, path, "unit or record")?;
        match self.cx.item(id, path.span)? {
            Item::Record(r) => self.record(r, fields, span),
            Item::Unit(u) => {
                if self.pure_only() {
                    return Err(self.involved(span));
                }
                let mut fields = self.fields_of(u, fields, span)?;
                let params = self.answer_params(u);
                fields.params = params.iter().map(|l| self.local_expr(*l)).collect();
                let outer = (self.run.take(), self.ends.take(), std::mem::take(&mut self.open_runs));
                let building = std::mem::replace(&mut self.building, true);
                let before = std::mem::take(&mut self.validity);
                let (made, block) = self.sub(|s| s.emit_unit(&fields));
                self.building = building;
                let validity = std::mem::replace(&mut self.validity, before);
                let run = std::mem::replace(&mut self.run, outer.0);
                let ends = std::mem::replace(&mut self.ends, outer.1);
                self.open_runs = outer.2;
                made?;
                let known = self.known_of(&fields);
                let kind = OutKind::Built(block);
                Ok(Val::out(Outgoing { unit: u, kind, fields: known, run, params, ends, validity }))
            }
            Item::Alias(Ty::Record(r)) => self.record(r, fields, span),
            Item::Const(_)
            | Item::Charset(_)
            | Item::Alias(_)
            | Item::Fault
            | Item::Enum(_)
            | Item::Protocol(_)
            | Item::Fn(_)
            | Item::Table(_)
            | Item::App
            | Item::Element => Err(self.err("E0301", path.span, "only records and units are built like this")),
        }
    }

    /// The known values of a message's fields.
    fn known_of(&self, fields: &Fields) -> Vec<(String, Val)> {
        let given = fields.given.iter().map(|(m, g, _)| (m.name.clone(), self.known_field(m, g)));
        let computed = self.cx.units[fields.unit.index()].members.iter().filter_map(|m| {
            let f = self.field_ir(fields.unit, m.field);
            let c = f.computed.as_ref()?;
            let total = c.lengths.iter().fold(build::u64(c.plus as u64), |n, l| {
                build::bin(crate::compiler::T_U64, ir::BinOp::Add, n, self.length_given(fields, *l))
            });
            let value = build::cast(f.ty, crate::fold::fold(&self.cx.m, &total));
            Some((m.name.clone(), Val::pure(m.ty.clone(), value)))
        });
        given.chain(computed).collect()
    }

    fn known_field(&self, m: &Member, given: &FieldSource) -> Val {
        match given {
            FieldSource::Value(e) => {
                let ty = if m.ty == Ty::Stream { Ty::Bytes(1 << 24) } else { m.ty.clone() };
                Val { caseless: m.caseless, ..Val::pure(ty, e.clone()) }
            }
            FieldSource::Pieces(all) => match (&m.ty, &all[..]) {
                (Ty::Msg(unit), [Piece::Built(inner)]) => Val::out(Outgoing {
                    unit: *unit,
                    kind: OutKind::Inner,
                    fields: self.known_of(inner),
                    run: None,
                    params: vec![],
                    ends: None,
                    validity: Validity::Sure,
                }),
                _ => Val::error(),
            },
            FieldSource::Source(_) | FieldSource::Slices(_) | FieldSource::InOrder(_) => Val::error(),
        }
    }

    /// Locals for the parameters of an answer's unit. Their values come from the request, and are
    /// known when the answer is sent. In `on fault` they are there.
    fn answer_params(&mut self, u: ir::UnitId) -> Vec<ir::LocalId> {
        if self.building || !self.cx.m.protocols.iter().any(|p| p.response == Some(u)) {
            return vec![];
        }
        if self.kind != super::Kind::OnFault {
            return self.param_places(u);
        }
        let own = self.handler.is_some_and(|h| self.cx.m.protocols[h.protocol.index()].response == Some(u));
        if own {
            self.asked.clone()
        } else {
            vec![]
        }
    }

    pub fn param_places(&mut self, u: ir::UnitId) -> Vec<ir::LocalId> {
        let params = self.cx.units[u.index()].params.clone();
        params.iter().map(|(name, ty)| self.new_local(name, ty)).collect()
    }

    pub fn record(&mut self, r: ir::RecordId, given: &[(Ident, Expr)], span: Span) -> R<Val> {
        let fields = self.cx.records[r.index()].clone();
        let ty = Ty::Record(r);
        let mut parts: Vec<Option<ir::Expr>> = vec![None; fields.len()];
        for (n, e) in given {
            let Some(i) = fields.iter().position(|(f, _)| *f == n.name) else {
                let s = self.show(&ty);
                let hint = crate::names::suggest(&n.name, fields.iter().map(|(n, _)| n.as_str()));
                return Err(self.cx.report(crate::names::with_hint(
                    Diagnostic::error("E0201", n.span, format!("{s} has no field `{}`", n.name)),
                    hint,
                )));
            };
            if parts[i].is_some() {
                return Err(self.err("E0203", n.span, format!("`{}` is given twice", n.name)));
            }
            parts[i] = Some(self.expr_as(e, &fields[i].1)?);
        }
        let _ = span;
        let default = |s: &mut Self, (name, t): &(String, Ty)| {
            s.cx.record_says.get(&(r, name.clone())).and_then(|f| f.default.clone()).unwrap_or_else(|| s.zero(t))
        };
        let parts = parts.into_iter().zip(&fields).map(|(p, f)| p.unwrap_or_else(|| default(self, f))).collect();
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, ir::Expr::new(t, K::Make(parts))))
    }

    /// Evaluates the data among the fields given, in the order given.
    pub fn fields_of(&mut self, unit: ir::UnitId, given: &[(Ident, Expr)], span: Span) -> R<Fields> {
        if !self.cx.units[unit.index()].ok {
            return Err(Reported);
        }
        let mut fields = Fields::new(unit, span);
        let mut failed = false;
        for (n, e) in given {
            match self.given(&mut fields, n, e) {
                Ok(()) => {}
                Err(Reported) => failed = true,
            }
        }
        if failed {
            return Err(Reported);
        }
        self.fill_selectors(&mut fields);
        Ok(fields)
    }

    /// A field by whose value a case is chosen need not be given: `switch kind { 1 => … }`.
    fn fill_selectors(&mut self, fields: &mut Fields) {
        for (s, n) in fields.cases.clone() {
            let ir::FieldKind::Switch { cases } = &self.cx.m.units[fields.unit.index()].fields[s.index()].kind else {
                continue;
            };
            let Some(ir::Case { guard: ir::Guard::When(cond), .. }) = cases.get(n as usize) else { continue };
            let Some((f, value)) = equality(cond) else { continue };
            let Some(m) = self.cx.units[fields.unit.index()].by_field(f).cloned() else { continue };
            let computed = self.cx.m.units[fields.unit.index()].fields[f.index()].computed.is_some()
                || self.cx.units[fields.unit.index()].measured(f).is_some();
            if m.ty.is_plain() && !computed && fields.get(f).is_none() {
                fields.given.push((m, FieldSource::Value(value), fields.span));
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn given(&mut self, fields: &mut Fields, n: &Ident, e: &Expr) -> R<()> {
        let Some(m) = self.cx.units[fields.unit.index()].member(&n.name).cloned() else {
            return Err(self.cx.unknown_field(fields.unit, n));
        };
        if fields.given.iter().any(|(g, ..)| g.name == m.name) {
            return Err(self.err("E0203", n.span, format!("`{}` is given twice", n.name)));
        }
        // A member of a unit in error has no field; that has been reported.
        let Some(ir_field) = self.cx.m.units[fields.unit.index()].fields.get(m.field.index()).cloned() else {
            return Err(Reported);
        };
        let text = self.cx.units[fields.unit.index()].is_text_value(m.field);
        let measured = self.cx.units[fields.unit.index()].measured(m.field).is_some();
        if measured || ir_field.computed.is_some() || matches!(ir_field.kind, ir::FieldKind::Let { .. }) && !text {
            return Err(self.cx.report(
                Diagnostic::error("E0436", n.span, format!("`{}` is computed when the message is built", n.name))
                    .hint("leave it out"),
            ));
        }
        for c in &m.cases {
            if let Some(other) = fields.cases.iter().find(|(s, i)| *s == c.0 && *i != c.1) {
                let _ = other;
                return Err(self.cx.report(
                    Diagnostic::error(
                        "E0436",
                        n.span,
                        format!("`{}` belongs to another case than the fields before it", n.name),
                    )
                    .hint("a switch takes one of its cases"),
                ));
            }
            if !fields.cases.contains(c) {
                fields.cases.push(*c);
            }
        }
        if m.ty == Ty::Unit && matches!(&*e.kind, ExprKind::Name(n) if n.name == "nothing") {
            // The case says all.
            return Ok(());
        }
        let value = match &m.ty {
            Ty::Stream => match &ir_field.kind {
                ir::FieldKind::StreamBytes { .. } => {
                    let v = self.expr(e, None)?;
                    let v = self.once(v, e.span);
                    FieldSource::Value(self.bytes_of(v, e.span)?)
                }
                _ => {
                    return Err(self.err(
                        "E0429",
                        e.span,
                        "a stream of units cannot be built; it can only be passed on",
                    ))
                }
            },
            Ty::Items(elem, _) if self.over_replies(e) => {
                let elem = (**elem).clone();
                FieldSource::Slices(self.gather(e, &elem)?)
            }
            Ty::Items(elem, _) if self.is_in_order(e) => {
                let elem = (**elem).clone();
                FieldSource::InOrder(self.in_order(e, &elem)?)
            }
            Ty::Items(elem, _) => match (&**elem, &*e.kind) {
                (crate::ty::Elem::Unit(u), ExprKind::List(es)) if !self.cx.record_units.contains_key(u) => {
                    let u = *u;
                    FieldSource::Pieces(es.iter().map(|e| self.piece(u, e)).collect::<R<Vec<_>>>()?)
                }
                _ => FieldSource::Source(e.clone()),
            },
            Ty::Msg(u) if !self.cx.record_units.contains_key(u) => {
                let u = *u;
                FieldSource::Pieces(vec![self.piece(u, e)?])
            }
            Ty::Msg(_) => FieldSource::Source(e.clone()),
            Ty::Switch(..) => {
                return Err(self.cx.report(
                    Diagnostic::error("E0436", n.span, "a switch is not given itself")
                        .hint("name the field of the case that is wanted"),
                ))
            }
            ty => {
                let ty = ty.clone();
                let x = self.expr_as(e, &ty)?;
                let v = self.once(Val::pure(ty, x), e.span);
                FieldSource::Value(v.kind.into_pure().ok_or(Reported)?)
            }
        };
        fields.given.push((m, value, e.span));
        Ok(())
    }

    /// A unit inside of another: its data is evaluated, its bytes are written in their place.
    pub fn piece(&mut self, unit: ir::UnitId, e: &Expr) -> R<Piece> {
        if let ExprKind::Build(path, fields) = &*e.kind {
            let id = self.cx.path_item(self.module, path, "unit")?;
            let Item::Unit(u) = self.cx.item(id, path.span)? else {
                return Err(self.err("E0301", path.span, "this is no unit"));
            };
            if u != unit && self.cx.units[unit.index()].of != Some(u) {
                let (w, f) = (Ty::Msg(unit), Ty::Msg(u));
                return Err(self.mismatch(&w, &f, e.span));
            }
            return self.fields_of(unit, fields, e.span).map(Piece::Built);
        }
        let v = self.expr(e, None)?;
        let v = self.defined(v, e.span)?;
        Ok(Piece::Ready(v, e.span))
    }

    /// Whether items are made from the answers to `call all`: those are looked at before the
    /// message is built.
    fn over_replies(&mut self, e: &Expr) -> bool {
        let ExprKind::Comprehension { list, .. } = &*e.kind else { return false };
        let ExprKind::Name(n) = &*list.kind else { return false };
        self.lookup(&n.name).is_some_and(|(i, j)| matches!(self.scopes[i][j].val.ty, Ty::Replies(_)))
    }

    /// `parts.in_order(|p| raw(p.items))`
    fn is_in_order(&self, e: &Expr) -> bool {
        let ExprKind::Call(f, _) = &*e.kind else { return false };
        let ExprKind::Field(Some(base), name) = &*f.kind else { return false };
        let ExprKind::Name(n) = &*base.kind else { return false };
        name.name == "in_order"
            && self.lookup(&n.name).is_some_and(|(i, j)| matches!(self.scopes[i][j].val.ty, Ty::Replies(_)))
    }

    /// Says which items each answer has.
    fn in_order(&mut self, e: &Expr, elem: &crate::ty::Elem) -> R<ir::UnitId> {
        let ExprKind::Call(f, args) = &*e.kind else { return Err(Reported) };
        let ExprKind::Field(Some(base), _) = &*f.kind else { return Err(Reported) };
        let crate::ty::Elem::Unit(unit) = elem else {
            return Err(self.err("E0608", e.span, "only items of a unit are taken in their order"));
        };
        let [wireloom_syntax::ast::Arg { value, .. }] = args.as_slice() else {
            return Err(self.err("E0308", e.span, "write `parts.in_order(|p| raw(p.items))`"));
        };
        let ExprKind::Lambda(params, body) = &*value.kind else {
            return Err(self.err("E0308", value.span, "write `parts.in_order(|p| raw(p.items))`"));
        };
        let [p] = params.as_slice() else {
            return Err(self.err("E0308", value.span, "this function takes one answer"));
        };
        if !self.grouped {
            return Err(self.cx.report(Diagnostic::error("E0608", e.span, "the order of items is known only where `join` has put them together")
                .hint("`call all for x in xs join e as b => port[i](m)`; else take the answers as they came: `[raw(p.items) for p in parts]`")));
        }
        let unit = *unit;
        self.each_answer(base, p, |s, part| {
            let kept = s.raw_of.replace(crate::ty::Elem::Unit(unit));
            let v = s.expr(body, None).and_then(|v| s.bytes_of(v, body.span));
            let checked = v.and_then(|bytes| s.check_slice(&bytes, body.span).map(|()| bytes));
            s.raw_of = kept;
            s.push(body.span, ir::StmtKind::GroupRun { part, bytes: checked? });
            Ok(())
        })?;
        Ok(unit)
    }

    /// `[raw(p.items) for p in parts]` as a list of slices.
    fn gather(&mut self, e: &Expr, elem: &crate::ty::Elem) -> R<ir::Expr> {
        self.raw_of = Some(elem.clone());
        let made = self.comprehension(e, None);
        self.raw_of = None;
        match made? {
            Val { ty: Ty::List(t, _), kind: Vk::Pure(x), .. } if matches!(*t, Ty::Bytes(_)) => Ok(x),
            Val { ty, .. } => {
                let s = self.show(&ty);
                Err(self.cx.report(
                    Diagnostic::error("E0608", e.span, format!("these items cannot be built from answers: {s}"))
                        .hint("take them as they came: `[raw(p.items) for p in parts]`"),
                ))
            }
        }
    }

    /// A field of a message that is being made, for the clauses of its protocol.
    pub fn built_field(&mut self, u: ir::UnitId, o: &Outgoing, name: &Ident, span: Span) -> R<Val> {
        if let Some((_, v)) = o.fields.iter().find(|(n, _)| *n == name.name) {
            if v.ty.is_error() {
                return Err(self.cx.report(
                    Diagnostic::error("E0432", span, format!("`{}` of a built message cannot be read", name.name))
                        .hint("keep the value in a `let` before building"),
                ));
            }
            let cased = self.cx.units[u.index()].member(&name.name).is_some_and(|m| !m.cases.is_empty());
            return Ok(match o.kind {
                OutKind::Inner if cased && !v.ty.is_option() => Val::maybe(build::boolean(true), v.clone()),
                OutKind::Built(_) | OutKind::Inner | OutKind::Pass { .. } => v.clone(),
            });
        }
        let Some(m) = self.cx.units[u.index()].member(&name.name).cloned() else {
            return Err(self.cx.unknown_field(u, name));
        };
        let made = matches!(self.field_ir(u, m.field).kind, ir::FieldKind::Let { .. });
        match &o.kind {
            OutKind::Pass { msg, .. } => {
                let v = self.cx.member_val(&build::msg(*msg), u, &m);
                Ok(v)
            }
            OutKind::Built(_) | OutKind::Inner if !m.cases.is_empty() => {
                // The case was not selected: its fields are absent.
                let t = self.cx.lower_ty(&Ty::Bool.option());
                Ok(Val::pure(Ty::None, ir::Expr::new(t, K::None)))
            }
            OutKind::Built(_) | OutKind::Inner if m.ty.is_plain() && !made => {
                let z = self.zero(&m.ty);
                Ok(Val { caseless: m.caseless, ..Val::pure(m.ty, z) })
            }
            OutKind::Built(_) | OutKind::Inner => Err(self.cx.report(Diagnostic::error(
                "E0432",
                span,
                format!("`{}` of a built message cannot be read", name.name),
            ))),
        }
    }

    /// `message with { field: value }`.
    pub fn with(&mut self, base: &Expr, fields: &[(Ident, Expr)], span: Span) -> R<Val> {
        for (i, (n, _)) in fields.iter().enumerate() {
            if fields[..i].iter().any(|(f, _)| f.name == n.name) {
                return Err(self.err("E0203", n.span, format!("`{}` is given twice", n.name)));
            }
        }
        let v = self.expr(base, None)?;
        let v = self.defined(v, base.span)?;
        if let (Ty::Record(r), Vk::Pure(e)) = (&v.ty, &v.kind) {
            return self.with_record(*r, e.clone(), fields);
        }
        let o = self.message_of(&v, base.span)?;
        let OutKind::Pass { msg, edits, copy } = &o.kind else {
            return Err(self.cx.report(
                Diagnostic::error("E0429", span, "`with` changes a parsed message")
                    .hint("give the fields where the message is built"),
            ));
        };
        let mut edits = edits.clone();
        edits.extend(self.edits_of_copy(*msg, *copy));
        let mut target = EditedMessage { unit: o.unit, msg: *msg, known: o.fields.clone(), edits };
        for (n, e) in fields {
            let Some(m) = self.cx.units[o.unit.index()].member(&n.name).cloned() else {
                return Err(self.cx.unknown_field(o.unit, n));
            };
            self.edit_field(&mut target, &m, e, None)?;
        }
        let EditedMessage { unit, msg, known, edits } = target;
        self.made_copies += 1;
        Ok(Val::out(Outgoing {
            unit,
            kind: OutKind::Pass { msg, edits, copy: self.made_copies },
            fields: known,
            run: None,
            params: vec![],
            ends: None,
            validity: Validity::Sure,
        }))
    }

    fn with_record(&mut self, r: ir::RecordId, whole: ir::Expr, given: &[(Ident, Expr)]) -> R<Val> {
        let fields = self.cx.records[r.index()].clone();
        let mut parts: Vec<ir::Expr> =
            fields.iter().enumerate().map(|(i, (_, t))| self.get(&whole, i as u32, t)).collect();
        for (n, e) in given {
            let Some(i) = fields.iter().position(|(f, _)| *f == n.name) else {
                return Err(self.err("E0201", n.span, format!("the record has no field `{}`", n.name)));
            };
            parts[i] = self.expr_as(e, &fields[i].1)?;
        }
        Ok(Val::pure(Ty::Record(r), ir::Expr::new(whole.ty, K::Make(parts))))
    }
}

/// The first `field == constant` among alternatives.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn equality(cond: &ir::Expr) -> Option<(FieldId, ir::Expr)> {
    match &*cond.kind {
        K::Binary(ir::BinOp::Or, a, _) => equality(a),
        K::Binary(ir::BinOp::Eq | ir::BinOp::EqCase, a, b) if crate::consts::is_literal(b) => match &*a.kind {
            K::Read(p) if p.root == ir::Root::This => match p.steps.as_slice() {
                [ir::Step::Field(f)] => Some((*f, b.clone())),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
