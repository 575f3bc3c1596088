//! Writing the items of a list: each from a value, a message, a record or bytes.

use super::built_message::{FieldSource, Fields, Piece};
use super::Lower;
use crate::compiler::{Reported, R, T_U32};
use crate::ir_builder as build;
use crate::ir_builder::raw_path;
use crate::ty::{Elem, Ty};
use crate::units::info::Appended;
use crate::val::{Val, Vk};
use ir::{Emit, ExprKind as K, Extent, FieldId, FieldKind, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Span};

/// Runs without an end of their own, where items follow.
struct Settled {
    /// Those that no item goes on with, and when.
    open: Vec<(ir::ByteSet, ir::Expr)>,
    /// The bytes that would go on with another one.
    more: Option<ir::ByteSet>,
}

impl Lower<'_, '_> {
    pub(super) fn emit_list_field(
        &mut self,
        fields: &Fields,
        f: FieldId,
        element: FieldId,
        extent: &ir::ListExtent,
        span: Span,
    ) -> R<()> {
        self.count_agrees(fields, f, extent, span)?;
        self.not_too_many(fields, f, span)?;
        self.ends_there(fields, f, extent)?;
        if let Some((_, FieldSource::Slices(list), _)) = fields.get(f).cloned() {
            let (n, t) = match self.cx.m.types.get(list.ty.index()) {
                Some(ir::Ty::List(t, n)) => (*n, *t),
                _ => return Err(Reported),
            };
            let var = self.new_local("i", &crate::ty::U32);
            let item = ir::Expr::new(t, K::ListGet(list.clone(), self.local_expr(var)));
            let ((), body) = self.sub(|s| s.emit(span, Emit::Bytes(item)));
            self.push(
                span,
                StmtKind::For {
                    var,
                    from: build::u32(0),
                    to: ir::Expr::new(T_U32, K::ListLen(list)),
                    max: n.into(),
                    body,
                },
            );
        }
        // The items that are counted when the message is built.
        let counted = match fields.get(f).cloned() {
            Some((_, FieldSource::InOrder(unit), _)) => Some((unit, None)),
            Some((_, FieldSource::Pieces(ps), _)) => {
                match (self.loose_items(&ps), self.field_ir(fields.unit, element).kind) {
                    (Some(bytes), FieldKind::Unit { unit, .. }) => Some((unit, Some(bytes))),
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some((unit, bytes)) = counted {
            let FieldKind::List { max, .. } = self.field_ir(fields.unit, f).kind else { return Err(Reported) };
            let count = match extent {
                ir::ListExtent::Count(n) => self.count_given(fields, n, span)?,
                ir::ListExtent::Until(_) | ir::ListExtent::ToEnd | ir::ListExtent::Fold { .. } => build::u64(u64::MAX),
            };
            self.emit(
                span,
                match bytes {
                    Some(bytes) => Emit::Items { unit, bytes, count, max },
                    None => Emit::InOrder { unit, count, max },
                },
            );
            if let ir::ListExtent::Until(u) = extent {
                self.append_own(fields, f, span)?;
                self.delimiter(Some(u), span);
            }
            return Ok(());
        }
        if let (Some((_, FieldSource::Pieces(ps), _)), FieldKind::Unit { unit, args }) =
            (fields.get(f).cloned(), self.field_ir(fields.unit, element).kind)
        {
            let known = self.known_args(fields, &args)?;
            self.read_under(fields, &args, |s| s.emit_pieces(unit, ps, &known))?;
        }
        if let Some((m, FieldSource::Source(e), _)) = fields.get(f).cloned() {
            let Ty::Items(elem, _) = &m.ty else { return Err(Reported) };
            let kind = self.field_ir(fields.unit, element).kind;
            let args = if let FieldKind::Unit { args, .. } = kind { args } else { vec![] };
            self.read_under(fields, &args, |s| s.emit_items(elem, element, fields.unit, &e))?;
        }
        if let ir::ListExtent::Until(u) = extent {
            self.append_own(fields, f, span)?;
            self.delimiter(Some(u), span);
        }
        Ok(())
    }

    /// Items that the unit itself appends to a list. `on fault` says all by itself.
    fn append_own(&mut self, fields: &Fields, f: FieldId, span: Span) -> R<()> {
        if self.kind == super::Kind::OnFault {
            return Ok(());
        }
        let own = |a: &&Appended| a.list == f;
        let own: Vec<_> = self.cx.units[fields.unit.index()].appended.iter().filter(own).cloned().collect();
        for a in own {
            // Without a request it is not known.
            let Some(cond) = self.closed(fields, &a.cond)? else { continue };
            let cond = crate::fold::fold(&self.cx.m, &cond);
            if build::as_bool(&cond) == Some(false) {
                continue;
            }
            let outer = (std::mem::replace(&mut self.module, a.module), std::mem::replace(&mut self.in_app, false));
            let made = self.appended(&Elem::Unit(a.item), &a.fields, a.span);
            (self.module, self.in_app) = outer;
            self.push(span, StmtKind::If { cond, then: made?, other: vec![] });
        }
        Ok(())
    }

    /// Before and at the end of a loop's body it is not known what was written last. `next`: the
    /// bytes that an item may begin with. Gives the runs that only what follows the loop could go
    /// on with, and the bytes that would go on with others.
    fn settle_run(&mut self, next: &ir::ByteSet, span: Span) -> Settled {
        let mut more: Option<ir::ByteSet> = None;
        match self.run.take() {
            Some((_, Some(b))) => self.separator(b, span),
            Some((class, None)) => more = Some(class),
            None => {}
        }
        let (unsure, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open_runs).into_iter().partition(|(class, _)| class.intersects(next));
        for (class, _) in unsure {
            more = Some(more.map_or(class, |m| m.union(&class)));
        }
        Settled { open: open.into_iter().map(|(class, _)| (class, build::boolean(true))).collect(), more }
    }

    /// Settles runs in front of items, of which the first must not go on with them. Gives those
    /// that only what follows the items could go on with.
    fn settle_before(&mut self, next: &ir::ByteSet, span: Span) -> Vec<(ir::ByteSet, ir::Expr)> {
        let settled = self.settle_run(next, span);
        if let Some(more) = settled.more {
            self.no_more_behind(&more, &build::boolean(true), span);
        }
        settled.open
    }

    /// The bytes that an item of a list may begin with.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn item_begins(&self, elem: &Elem) -> ir::ByteSet {
        let Elem::Unit(u) = elem else { return ir::ByteSet::ALL };
        let unit = &self.cx.m.units[u.index()];
        let first = unit.body.first().map(|f| &unit.fields[f.index()].kind);
        match first {
            Some(FieldKind::Bytes { min: 1.., class: Some(class), trim: None, .. }) => *class,
            Some(FieldKind::Number { radix, .. }) => super::emit::digits(*radix),
            _ => ir::ByteSet::ALL,
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn emit_items(&mut self, elem: &Elem, element: FieldId, owner: ir::UnitId, e: &Expr) -> R<()> {
        match &*e.kind {
            ExprKind::List(es) => {
                for e in es {
                    self.emit_item(elem, Some(element), owner, e)?;
                }
                Ok(())
            }
            ExprKind::Comprehension { value, pattern, list, cond } => {
                let next = self.item_begins(elem);
                let mut open = self.settle_before(&next, e.span);
                let (before, mut round) = (self.out.len(), None);
                self.each(pattern, list, e.span, |s| {
                    s.filtered(cond.as_ref(), e.span, |s| {
                        s.emit_item(elem, Some(element), owner, value)?;
                        let settled = s.settle_run(&next, e.span);
                        open.extend(settled.open);
                        round = settled.more.map(|more| s.look_behind_each(&more, e.span));
                        Ok(Val::unit())
                    })
                    .map(|_| ())
                })?;
                if let Some(round) = round {
                    self.look_behind_all(round, before);
                }
                self.open_runs.extend(open);
                Ok(())
            }
            ExprKind::If(c, then, Some(other)) if then.stmts.len() == 1 => {
                let c = self.decide(c)?;
                let wireloom_syntax::ast::StmtKind::Expr(a) = &then.stmts[0].kind else {
                    return Err(self.err("E0429", then.span, "a list must be given here"));
                };
                self.branch(
                    c,
                    e.span,
                    Some(&Ty::Unit),
                    |s| s.emit_items(elem, element, owner, a).map(|_| Val::unit()),
                    |s| s.emit_items(elem, element, owner, other).map(|_| Val::unit()),
                )
                .map(|_| ())
            }
            ExprKind::Block(b) if b.stmts.len() == 1 => match &b.stmts[0].kind {
                wireloom_syntax::ast::StmtKind::Expr(e) => self.emit_items(elem, element, owner, e),
                _ => Err(self.err("E0429", b.span, "a list must be given here")),
            },
            _ => {
                let v = self.expr(e, None)?;
                let v = self.defined(v, e.span)?;
                match (&v.ty, v.kind) {
                    (Ty::Items(found, _), Vk::Path(p)) if **found == *elem => {
                        if let Elem::Unit(u) = elem {
                            self.read_alike(&p, *u, e.span)?;
                        }
                        let t = self.cx.lower_ty(&Ty::Bytes(1 << 24));
                        self.emit(e.span, Emit::Bytes(ir::Expr::new(t, K::Raw(p))));
                        Ok(())
                    }
                    (Ty::Bytes(_), Vk::Pure(x)) if raw_path(&x).is_some() => match elem {
                        Elem::Unit(u) => {
                            let u = *u;
                            self.emit_raw(x, u, e.span)
                        }
                        _ => {
                            self.emit(e.span, Emit::Bytes(x));
                            Ok(())
                        }
                    },
                    (Ty::List(t, n), Vk::Pure(list)) if matches!(elem, Elem::Value(_)) => {
                        self.emit_values(list, (&t.clone(), *n), &self.field_ir(owner, element), e.span)
                    }
                    (Ty::Error, _) => Err(Reported),
                    (t, _) => {
                        let s = self.show(t);
                        Err(self.err("E0301", e.span, format!("expected a list of such items, found {s}")))
                    }
                }
            }
        }
    }

    fn emit_values(&mut self, list: ir::Expr, (t, n): (&Ty, u32), field: &ir::Field, span: Span) -> R<()> {
        let var = self.new_local("i", &crate::ty::U32);
        let et = self.cx.lower_ty(t);
        let item = ir::Expr::new(et, K::ListGet(list.clone(), self.local_expr(var)));
        let (made, body) = self.sub(|s| s.emit_value(Val::pure(t.clone(), item), field, span));
        made?;
        self.push(
            span,
            StmtKind::For { var, from: build::u32(0), to: ir::Expr::new(T_U32, K::ListLen(list)), max: n.into(), body },
        );
        Ok(())
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn emit_value(&mut self, v: Val, field: &ir::Field, span: Span) -> R<()> {
        let ty = match &field.kind {
            FieldKind::Bytes { max, .. } => Ty::Bytes(*max),
            _ => match self.cx.m.types.get(field.ty.index()) {
                Some(ir::Ty::UInt(b)) => Ty::Int { bits: *b, signed: false },
                Some(ir::Ty::Int(b)) => Ty::Int { bits: *b, signed: true },
                _ => v.ty.clone(),
            },
        };
        let e = self.coerce(v, &ty, span)?;
        self.write_value(e, field, span)
    }

    /// One value in the form of its field, with validity and delimiter.
    pub fn write_value(&mut self, e: ir::Expr, field: &ir::Field, span: Span) -> R<()> {
        match &field.kind {
            FieldKind::UInt { bytes, big, .. } => self.emit(span, Emit::UInt { value: e, bytes: *bytes, big: *big }),
            FieldKind::Number { radix, digits, exact, until } => {
                self.emit(span, Emit::Number { value: e, radix: *radix, width: if *exact { *digits } else { 0 } });
                self.delimiter(until.as_ref(), span);
            }
            FieldKind::Varint { .. } => self.emit(span, Emit::Varint(e)),
            FieldKind::Bytes { extent, .. } => {
                self.valid_bytes(&e, &field.kind, span)?;
                self.emit(span, Emit::Bytes(e));
                if let Extent::Until(u) = extent {
                    self.delimiter(Some(u), span);
                }
            }
            FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::Unit { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => return Err(self.err("E0429", span, "such an item cannot be built")),
        }
        Ok(())
    }

    /// One item of a list, or one nested unit.
    pub(super) fn emit_item(&mut self, elem: &Elem, element: Option<FieldId>, owner: ir::UnitId, e: &Expr) -> R<()> {
        let unit = match elem {
            Elem::Unit(u) => *u,
            Elem::Value(t) => {
                let v = self.expr(e, Some(t))?;
                let Some(element) = element else { return Err(Reported) };
                return self.emit_value(v, &self.field_ir(owner, element), e.span);
            }
        };
        if let Some((r, _)) = self.cx.record_units.get(&unit).copied() {
            return self.emit_record(unit, r, e);
        }
        let mut piece = self.piece(unit, e)?;
        if let Piece::Built(f) = &mut piece {
            f.params = self.part_args.clone().unwrap_or_default();
        }
        self.emit_piece(unit, &piece)
    }

    pub(super) fn emit_piece(&mut self, unit: ir::UnitId, piece: &Piece) -> R<()> {
        let (v, span) = match piece {
            Piece::Built(fields) => return self.emit_unit(fields),
            Piece::Ready(v, span) => (v.clone(), *span),
        };
        if let Vk::Out(o) = &v.kind {
            self.validity = self.validity.and(o.validity);
        }
        match (&v.ty, v.kind) {
            (Ty::Msg(u), Vk::Path(p)) if *u == unit => {
                self.read_alike(&p, unit, span)?;
                let t = self.cx.lower_ty(&Ty::Bytes(1 << 24));
                self.emit(span, Emit::Bytes(ir::Expr::new(t, K::Raw(p))));
                Ok(())
            }
            (Ty::Msg(u), Vk::Out(o)) if *u == unit => match &o.kind {
                crate::val::OutKind::Built(b) => {
                    // Its first byte was not checked when it was built.
                    self.settle_before(&ir::ByteSet::ALL, span);
                    self.out.extend(b.clone());
                    self.run = o.run;
                    Ok(())
                }
                crate::val::OutKind::Pass { .. } | crate::val::OutKind::Inner => {
                    Err(self.err("E0429", span, "a changed message cannot stand inside another one"))
                }
            },
            (Ty::Bytes(_), Vk::Pure(x)) if raw_path(&x).is_some() => self.emit_raw(x, unit, span),
            (Ty::Bytes(_), Vk::Pure(x)) if matches!(&*x.kind, K::Local(l) if self.joined.get(l).is_some_and(|j| j.unit == Some(unit))) =>
            {
                self.emit(span, Emit::Bytes(x));
                Ok(())
            }
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let (w, f) = (Ty::Msg(unit), t.clone());
                Err(self.mismatch(&w, &f, span))
            }
        }
    }

    /// A record, given by its fields or as a value.
    fn emit_record(&mut self, unit: ir::UnitId, r: ir::RecordId, e: &Expr) -> R<()> {
        let v = self.expr(e, Some(&Ty::Record(r)))?;
        let whole = self.coerce(v, &Ty::Record(r), e.span)?;
        self.emit_record_value(unit, r, &whole, e.span)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn emit_record_value(&mut self, unit: ir::UnitId, r: ir::RecordId, whole: &ir::Expr, span: Span) -> R<()> {
        let mut fields = Fields::new(unit, span);
        let parts = self.cx.records[r.index()].clone();
        let mut nested = false;
        for (i, (name, ty)) in parts.iter().enumerate() {
            let Some(m) = self.cx.units[unit.index()].member(name).cloned() else { return Err(Reported) };
            nested |= matches!(m.ty, Ty::Msg(_));
            let value = self.get(whole, i as u32, ty);
            fields.given.push((m, FieldSource::Value(value), span));
        }
        if !nested {
            return self.emit_unit(&fields);
        }
        // Field by field: a record inside is written in its turn.
        for (m, g, _) in fields.given.clone() {
            let FieldSource::Value(value) = g else { return Err(Reported) };
            match &m.ty {
                Ty::Msg(inner) => {
                    let Some((r, _)) = self.cx.record_units.get(inner).copied() else {
                        return Err(self.err("E0429", span, "such a record cannot be built"));
                    };
                    self.emit_record_value(*inner, r, &value, span)?;
                }
                _ => self.emit_fields(&fields, &[m.field])?,
            }
        }
        Ok(())
    }
}
