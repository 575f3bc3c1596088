//! Edits of parsed messages that are sent on: fields set by `with`, and a protocol's `forward`
//! blocks. Lengths that depend on an edited field are updated.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ClauseKind and ExprKind")]

use super::built_message::EditedMessage;
use super::unparse_check::edits::Changed;
use super::Lower;
use crate::compiler::{Reported, R, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U32};
use crate::units::info::Member;
use crate::val::{OutKind, Outgoing, Val, Vk};
use ir::{BinOp, Edit, Emit, ExprKind as K, FieldId, FieldKind, Root, Step, StmtKind};
use std::collections::HashMap;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Block, ClauseKind, Expr, ExprKind, Ident, ItemKind, Span, StmtKind as S};
use wireloom_syntax::Diagnostic;

/// An edit of a message that will be sent on, by a statement.
#[derive(Clone)]
pub struct PendingEdit {
    pub msg: ir::LocalId,
    /// The copy that it concerns, as of [`OutKind::Pass`]; 0: the message and all of its copies.
    pub copy: u32,
    pub edit: Edit,
}

impl Lower<'_, '_> {
    /// Sets a field by an edit, where the condition holds. The field's new value is known then.
    pub fn edit_field(&mut self, target: &mut EditedMessage, m: &Member, e: &Expr, cond: Option<ir::Expr>) -> R<()> {
        let EditedMessage { unit, msg, known, edits } = target;
        let (unit, msg) = (*unit, *msg);
        if !self.cx.units[unit.index()].ok {
            return Err(Reported);
        }
        let field = self.field_ir(unit, m.field);
        let simple = match &field.kind {
            FieldKind::UInt { shift: 0, bytes, bits, advance: true, .. } => u32::from(*bytes) * 8 == u32::from(*bits),
            FieldKind::Number { .. } | FieldKind::Varint { .. } | FieldKind::Bytes { .. } => true,
            _ => false,
        };
        if !simple || !m.ty.is_plain() {
            return Err(self.cx.report(
                Diagnostic::error("E0429", e.span, format!("`{}` cannot be replaced in a parsed message", m.name))
                    .hint("whole-byte numbers, text numbers and bytes can"),
            ));
        }
        if field.computed.is_some() || self.cx.units[unit.index()].measured(m.field).is_some() {
            return Err(self.cx.report(
                Diagnostic::error("E0436", e.span, format!("`{}` is computed when the message is sent", m.name))
                    .hint("leave it out"),
            ));
        }
        self.keeps_its_size(unit, m.field, e.span)?;
        // A field of a case that was not taken is not there to be replaced.
        let mut cond = cond;
        if let Some(there) = m
            .cases
            .iter()
            .map(|(s, n)| build::case(build::step(&build::msg(msg), Step::Field(*s)), *n))
            .reduce(build::and)
        {
            if !self.proven(&there) {
                cond = Some(match cond {
                    Some(c) => build::and(c, there),
                    None => there,
                });
            }
        }
        let value = self.expr_as(e, &m.ty)?;
        let value = self.once(Val::pure(m.ty.clone(), value), e.span);
        let Vk::Pure(x) = value.kind.clone() else { return Err(Reported) };
        let body = self.edit_body(x.clone(), (unit, m.field), &field, e.span)?;
        let path = vec![m.field];
        // An earlier edit of the field holds only where this one does not.
        edits.retain(|old| !matches!((old, &cond), (Edit::Set { field, .. }, None) if *field == path));
        for old in edits.iter_mut() {
            let (Edit::Set { field, cond: before, .. }, Some(c)) = (old, &cond) else { continue };
            if *field != path {
                continue;
            }
            let unless = build::not(c.clone());
            *before = Some(match before.take() {
                Some(b) => build::and(b, unless),
                None => unless,
            });
        }
        let value = match &cond {
            None => value,
            Some(c) => {
                let before = match known.iter().find(|(n, _)| *n == m.name) {
                    Some((_, Val { kind: Vk::Pure(v), .. })) => v.clone(),
                    _ => build::read(field.ty, build::step(&build::msg(msg), Step::Field(m.field))),
                };
                Val::pure(m.ty.clone(), build::if_(x.ty, c.clone(), x, before))
            }
        };
        edits.push(Edit::Set { field: path, cond, body });
        known.retain(|(n, _)| *n != m.name);
        known.push((m.name.clone(), Val { caseless: m.caseless, ..value }));
        Ok(())
    }

    /// The bytes of a field's extent: its delimiter stays where it is.
    fn edit_body(&mut self, e: ir::Expr, at: (ir::UnitId, FieldId), field: &ir::Field, span: Span) -> R<ir::Block> {
        let mut bare = field.clone();
        match &mut bare.kind {
            FieldKind::Number { until, .. } => *until = None,
            // Any delimiter may be the one that stands behind it.
            FieldKind::Bytes { extent: ir::Extent::Until(u), .. } => u.peek = true,
            _ => {}
        }
        if let Some(ranges) = &field.within {
            let ok = ir::Expr::new(crate::compiler::T_BOOL, K::InRanges(e.clone(), ranges.clone()));
            let ok = crate::fold::fold(&self.cx.m, &ok);
            if build::as_bool(&ok) == Some(false) {
                return Err(self.err("E0433", span, "this value is not valid in this field"));
            }
            self.guard(ok, ir::FaultKind::CONSTRAINT, span);
        }
        let (made, mut body) = self.sub(|s| s.write_value(e, &bare, span));
        made?;
        // The guards stand before the message is sent, the writing inside of it.
        let guards: ir::Block = body.extract_if_require();
        self.out.extend(guards);
        self.blank_edit(at.0, at.1, &mut body);
        Ok(body)
    }

    /// Once all edits are known: those of computed lengths are added, and all put in order.
    /// `known`: what fields hold. Gives what the lengths are.
    pub fn settle(
        &self,
        unit: ir::UnitId,
        msg: ir::LocalId,
        known: &[(String, Val)],
        edits: &mut Vec<Edit>,
    ) -> Vec<(FieldId, ir::Expr)> {
        let computed = self.computed_values(unit, msg, known);
        for (id, value) in computed.clone() {
            let f = self.field_ir(unit, id);
            let emit = match f.kind {
                FieldKind::UInt { bytes, big, .. } => Emit::UInt { value, bytes, big },
                FieldKind::Varint { .. } => Emit::Varint(value),
                FieldKind::Number { radix, digits, exact, .. } => {
                    Emit::Number { value, radix, width: if exact { digits } else { 0 } }
                }
                _ => continue,
            };
            let body = vec![build::stmt(f.span, StmtKind::Emit(emit))];
            edits.push(Edit::Set { field: vec![id], cond: None, body });
        }
        self.order_edits(unit, edits);
        computed
    }

    /// Computed lengths of edited fields: the old value, less the old length, plus the new one.
    pub(super) fn computed_values(
        &self,
        unit: ir::UnitId,
        msg: ir::LocalId,
        known: &[(String, Val)],
    ) -> Vec<(FieldId, ir::Expr)> {
        let fields = &self.cx.m.units[unit.index()].fields;
        let mut values = vec![];
        for (i, f) in fields.iter().enumerate() {
            let id = FieldId(i as u32);
            let measured = self.cx.units[unit.index()].measured(id);
            let Some(c) = f.computed.as_ref().or(measured) else { continue };
            let at = |f: FieldId| build::step(&build::msg(msg), Step::Field(f));
            let mut total = build::cast(T_U64, build::read(f.ty, at(id)));
            let mut changed = false;
            for l in &self.bytes_inside(unit, &c.lengths) {
                let Some(name) = &fields[l.index()].name else { continue };
                let Some((_, Val { kind: Vk::Pure(new), .. })) = known.iter().find(|(n, _)| n == name) else {
                    continue;
                };
                let old = build::len_bytes(build::read(fields[l.index()].ty, at(*l)));
                total = build::bin(
                    T_U64,
                    BinOp::Sub,
                    build::bin(T_U64, BinOp::Add, total, build::len_bytes(new.clone())),
                    old,
                );
                changed = true;
            }
            if changed {
                values.push((id, build::cast(f.ty, total)));
            }
        }
        values
    }

    /// The bytes fields of a unit among these fields, and in their cases.
    fn bytes_inside(&self, unit: ir::UnitId, parts: &[FieldId]) -> Vec<FieldId> {
        let fields = &self.cx.m.units[unit.index()].fields;
        let (mut todo, mut found) = (parts.to_vec(), vec![]);
        while let Some(f) = todo.pop() {
            match &fields[f.index()].kind {
                FieldKind::Bytes { .. } => found.push(f),
                FieldKind::Switch { cases } => todo.extend(cases.iter().flat_map(|c| &c.fields)),
                _ => {}
            }
        }
        found
    }

    /// Edits in wire order of their fields; removals from a list before what is appended to it.
    fn order_edits(&self, unit: ir::UnitId, edits: &mut [Edit]) {
        let mut order = HashMap::new();
        let u = &self.cx.m.units[unit.index()];
        wire_order(u, &u.body, &mut order);
        edits.sort_by_key(|e| {
            let (path, rank) = match e {
                Edit::Set { field, .. } => (field, 0),
                Edit::Remove { list, .. } => (list, 1),
                Edit::Append { list, .. } => (list, 2),
            };
            (path.first().and_then(|f| order.get(f).copied()).unwrap_or(usize::MAX), rank)
        });
    }

    /// A message on its way into a channel: a parsed one with its protocol's `forward` edits.
    pub fn forwarded(&mut self, o: &Outgoing, proto: ir::ProtocolId, response: bool, span: Span) -> R<ir::Outgoing> {
        let (msg, edits) = match &o.kind {
            OutKind::Built(_) => {
                let body = self.read_whole(o, span)?;
                return Ok(ir::Outgoing::Built {
                    unit: o.unit,
                    body: self.answering(o, &body, proto, response, span)?,
                });
            }
            OutKind::Inner => return Err(Reported),
            OutKind::Pass { msg, edits, copy } => (*msg, self.with_pending(*msg, edits, *copy)),
        };
        if self.torn.iter().any(|(m, _)| *m == msg) {
            return Err(self.cx.report(
                Diagnostic::error("E0607", span, "this message was edited in a branch before")
                    .label("with or without the edit?")
                    .hint("send it on inside of the branch"),
            ));
        }
        let info = self.cx.protocols[proto.index()].clone();
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        let blocks: Vec<&Block> = p
            .clauses
            .iter()
            .filter_map(|c| match &c.kind {
                ClauseKind::Forward { response: r, body } if *r == response => Some(body),
                _ => None,
            })
            .collect();
        self.cx.forwarded.insert((proto, response));
        let mut target = EditedMessage { unit: o.unit, msg, known: o.fields.clone(), edits };
        self.sent_at = span;
        for body in blocks {
            self.in_clause(info.module, response, msg, o.unit, |s| s.forward(body, None, &mut target))?;
        }
        self.chunks = p.clauses.iter().find_map(|c| match &c.kind {
            ClauseKind::Chunks { response: r, case, .. } if *r == response && self.may_change(msg) => {
                Some(case.name.clone())
            }
            _ => None,
        });
        let params = self.reader_knows(&target, proto, response, span);
        let made = params.and_then(|params| self.finished(target, params, span));
        self.chunks = None;
        made
    }

    /// A message with its edits, whose unit still holds.
    pub(super) fn finished(
        &mut self,
        target: EditedMessage,
        params: Vec<(u32, ir::Expr)>,
        span: Span,
    ) -> R<ir::Outgoing> {
        let EditedMessage { unit, msg, known, mut edits } = target;
        let mut values = self.settle(unit, msg, &known, &mut edits);
        for (f, length) in &values {
            let field = self.field_ir(unit, *f);
            self.number_within(length, &field, span)?;
        }
        for (name, v) in &known {
            let (Some(m), Vk::Pure(v)) = (self.cx.units[unit.index()].member(name), &v.kind) else { continue };
            values.push((m.field, v.clone()));
        }
        self.still_owed(Changed { unit, msg, values, edits: &edits, params, span, again: None })?;
        Ok(ir::Outgoing::Pass { msg, edits })
    }

    /// Runs a piece with the names of a protocol's clause: `request` or `response`, `client`, the
    /// unit's parameters.
    fn in_clause<T>(
        &mut self,
        module: usize,
        response: bool,
        msg: ir::LocalId,
        unit: ir::UnitId,
        f: impl FnOnce(&mut Self) -> R<T>,
    ) -> R<T> {
        let outer = (self.params_of.replace((Root::Local(msg), unit)), self.dot.take());
        let value = Val::path(Ty::Msg(unit), build::msg(msg));
        let changed = Val::pure(Ty::Bool, build::boolean(self.may_change(msg)));
        let name = if response { "response" } else { "request" };
        let binds = vec![("changed", changed), (name, value.clone()), ("msg", value), ("client", Val::of(Ty::Conn))];
        let made = self.in_protocol(module, Span::default(), binds, f);
        (self.params_of, self.dot) = outer;
        made
    }

    fn forward(&mut self, b: &Block, cond: Option<ir::Expr>, target: &mut EditedMessage) -> R<()> {
        for s in &b.stmts {
            self.forward_stmt(s, cond.clone(), target)?;
        }
        Ok(())
    }

    fn forward_stmt(&mut self, s: &ast::Stmt, cond: Option<ir::Expr>, target: &mut EditedMessage) -> R<()> {
        match &s.kind {
            S::Let { .. } => self.stmt(s).map(|_| ()),
            S::Expr(e) => match &*e.kind {
                ExprKind::If(c, then, other) => self.forward_if((c, then, other.as_ref()), cond, target, e.span),
                ExprKind::Block(b) => self.forward(b, cond, target),
                _ => Err(self.not_an_edit(s.span)),
            },
            S::RemoveWhere { list, cond: which } => {
                let (path, elem) = self.edited_list(list, target)?;
                let at = build::step(&build::msg(target.msg), Step::Field(path));
                let (index, mut c) = self.remove_where(&at, &elem, which)?;
                if let Some(cond) = cond {
                    c = build::and(cond, c);
                }
                target.edits.push(Edit::Remove { list: vec![path], index, cond: c });
                Ok(())
            }
            S::Append { list, fields } => {
                let (path, elem) = self.edited_list(list, target)?;
                let facts = self.facts.clone();
                if let Some(c) = &cond {
                    self.assume(&c.clone(), true);
                }
                let made = self.appended(&elem, fields, s.span);
                self.facts = facts;
                let body = made?;
                target.edits.push(Edit::Append { list: vec![path], cond, body });
                Ok(())
            }
            S::Assign { place, op: None, value } => {
                let m = self.edited_member(place, target)?;
                self.edit_field(target, &m, value, cond)
            }
            _ => Err(self.not_an_edit(s.span)),
        }
    }

    /// `remove message.list where …`, `append message.list { … }` in a handler: takes effect when
    /// the message is sent on.
    pub fn edit_stmt(&mut self, s: &ast::Stmt) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(s.span));
        }
        let (S::RemoveWhere { list, .. } | S::Append { list, .. }) = &s.kind else { return Err(Reported) };
        if let Some(told) = self.edited_while_built(list) {
            return Err(told);
        }
        let v = self.expr(list, None)?;
        let v = self.defined(v, list.span)?;
        let (Ty::Items(elem, _), Vk::Path(p)) = (&v.ty, &v.kind) else {
            if v.ty.is_error() {
                return Err(Reported);
            }
            let shown = self.show(&v.ty);
            return Err(self.err("E0607", list.span, format!("expected a list of a message, found {shown}")));
        };
        let fields: Option<Vec<FieldId>> = p
            .steps
            .iter()
            .map(|s| match s {
                Step::Field(f) => Some(*f),
                Step::Index(_) => None,
            })
            .collect();
        let (Root::Local(msg), Some(fields)) = (p.root, fields) else {
            return Err(self.err("E0607", list.span, "only a list of the message itself is edited"));
        };
        let (elem, p) = ((**elem).clone(), p.clone());
        let edit = match &s.kind {
            S::RemoveWhere { cond, .. } => {
                let (index, cond) = self.remove_where(&p, &elem, cond)?;
                Edit::Remove { list: fields, index, cond }
            }
            S::Append { fields: given, .. } => {
                Edit::Append { list: fields, cond: None, body: self.appended(&elem, given, s.span)? }
            }
            _ => return Err(Reported),
        };
        let copy = self.copy_named(list);
        self.pending.push(PendingEdit { msg, copy, edit });
        Ok(())
    }

    /// The copy (`let c = m with { … }`) whose list this is; 0: it is one of the message itself.
    fn copy_named(&self, list: &Expr) -> u32 {
        let mut base = list;
        while let ExprKind::Field(Some(inner), _) = &*base.kind {
            base = inner;
        }
        let ExprKind::Name(n) = &*base.kind else { return 0 };
        let Some((i, j)) = self.lookup(&n.name) else { return 0 };
        match &self.scopes[i][j].val.kind {
            Vk::Out(o) => match o.kind {
                OutKind::Pass { copy, .. } => copy,
                OutKind::Built(_) | OutKind::Inner => 0,
            },
            Vk::Pure(_) | Vk::Path(_) | Vk::Maybe(..) | Vk::Nothing => 0,
        }
    }

    /// Edits that belong to a copy alone.
    pub fn edits_of_copy(&self, msg: ir::LocalId, copy: u32) -> Vec<Edit> {
        self.pending_of(msg, |c| c > 0 && c == copy)
    }

    /// The edits of a message with those that statements have made since: of itself, or of this
    /// copy.
    pub fn with_pending(&self, msg: ir::LocalId, edits: &[Edit], copy: u32) -> Vec<Edit> {
        [edits, &self.pending_of(msg, |c| c == 0 || c == copy)].concat()
    }

    fn pending_of(&self, msg: ir::LocalId, which: impl Fn(u32) -> bool) -> Vec<Edit> {
        self.pending.iter().filter(|p| p.msg == msg && which(p.copy)).map(|p| p.edit.clone()).collect()
    }

    fn remove_where(&mut self, list: &ir::Path, elem: &crate::ty::Elem, which: &Expr) -> R<(ir::LocalId, ir::Expr)> {
        let index = self.new_local("i", &U32);
        let item = {
            let i = self.local_expr(index);
            self.cx.item_val(list, elem, i)
        };
        let outer = self.dot.replace(item);
        let (c, block) = self.sub(|s| s.cond(which));
        self.dot = outer;
        let c = c?;
        if !block.is_empty() {
            return Err(self.involved(which.span));
        }
        Ok((index, c))
    }

    /// The bytes of an item.
    pub fn appended(&mut self, elem: &crate::ty::Elem, fields: &[(Ident, Expr)], span: Span) -> R<ir::Block> {
        let crate::ty::Elem::Unit(u) = elem else {
            return Err(self.err("E0429", span, "only items of units are appended"));
        };
        let building = std::mem::replace(&mut self.building, true);
        let (made, body) = self.sub(|l| {
            let f = l.fields_of(*u, fields, span)?;
            l.emit_unit(&f)
        });
        self.building = building;
        made?;
        Ok(body)
    }

    fn not_an_edit(&mut self, span: Span) -> Reported {
        self.cx.report(
            Diagnostic::error("E0607", span, "this is no edit")
                .hint("a `forward` block has `let`, `if`, `remove … where`, `append` and assignments to fields"),
        )
    }

    fn forward_if(
        &mut self,
        (c, then, other): (&Expr, &Block, Option<&Expr>),
        cond: Option<ir::Expr>,
        target: &mut EditedMessage,
        span: Span,
    ) -> R<()> {
        let c = self.decide(c)?;
        match (&*c.kind, other.map(|o| &*o.kind)) {
            (ir::ExprKind::Bool(true), _) => return self.forward(then, cond, target),
            (ir::ExprKind::Bool(false), None) => return Ok(()),
            (ir::ExprKind::Bool(false), Some(ExprKind::Block(b))) => return self.forward(b, cond, target),
            _ => {}
        }
        let v = self.once(Val::pure(Ty::Bool, c.clone()), span);
        let Vk::Pure(flag) = v.kind else { return Err(Reported) };
        let facts = self.facts.clone();
        let both = |a: &Option<ir::Expr>, b: ir::Expr| {
            Some(match a {
                Some(a) => build::and(a.clone(), b),
                None => b,
            })
        };
        self.assume(&c, true);
        self.conditional(&flag, span, |s| s.forward(then, both(&cond, flag.clone()), target))?;
        self.facts = facts.clone();
        if let Some(o) = other {
            self.assume(&c, false);
            let otherwise = both(&cond, build::not(flag.clone()));
            self.conditional(&build::not(flag), span, |s| match &*o.kind {
                ExprKind::Block(b) => s.forward(b, otherwise, target),
                ExprKind::If(c, then, other) => s.forward_if((c, then, other.as_ref()), otherwise, target, o.span),
                _ => Err(s.not_an_edit(o.span)),
            })?;
            self.facts = facts;
        }
        Ok(())
    }

    /// Statements that a branch needs (its `let`s, its guards) run only if it is taken.
    fn conditional(&mut self, cond: &ir::Expr, span: Span, f: impl FnOnce(&mut Self) -> R<()>) -> R<()> {
        let facts = self.facts.clone();
        let (made, block) = self.sub(f);
        self.facts = facts;
        made?;
        // Expressions never fail: what is only computed may be computed on every way, and is then
        // always set.
        if block.iter().all(|s| matches!(s.kind, StmtKind::Set(..))) {
            self.out.extend(block);
            return Ok(());
        }
        for s in &block {
            let StmtKind::Set(l, _) = &s.kind else { continue };
            let zero = self.zero_of(self.locals[l.index()].ty);
            self.push(span, StmtKind::Set(*l, zero));
        }
        if !block.is_empty() {
            self.push(span, StmtKind::If { cond: cond.clone(), then: block, other: vec![] });
        }
        Ok(())
    }

    fn edited_member(&mut self, e: &Expr, target: &EditedMessage) -> R<Member> {
        if let ExprKind::Field(Some(base), name) = &*e.kind {
            if let Ok(Val { ty: Ty::Msg(_), kind: Vk::Path(p), .. }) = self.expr(base, None) {
                if p == build::msg(target.msg) {
                    return match self.cx.units[target.unit.index()].member(&name.name).cloned() {
                        Some(m) => Ok(m),
                        None => Err(self.cx.unknown_field(target.unit, name)),
                    };
                }
            }
        }
        Err(self.cx.report(Diagnostic::error("E0607", e.span, "only a field of the message itself is edited")))
    }

    fn edited_list(&mut self, e: &Expr, target: &EditedMessage) -> R<(FieldId, crate::ty::Elem)> {
        let m = self.edited_member(e, target)?;
        match &m.ty {
            Ty::Items(elem, _) if m.cases.is_empty() => Ok((m.field, (**elem).clone())),
            t => {
                let s = self.show(t);
                Err(self.err("E0607", e.span, format!("expected a list field outside of switches, found {s}")))
            }
        }
    }
}

fn wire_order(u: &ir::Unit, seq: &[FieldId], order: &mut HashMap<FieldId, usize>) {
    for f in seq {
        let n = order.len();
        order.insert(*f, n);
        if let Some(ir::Field { kind: FieldKind::Switch { cases }, .. }) = u.fields.get(f.index()) {
            for c in cases {
                wire_order(u, &c.fields, order);
            }
        }
    }
}

trait Extract {
    fn extract_if_require(&mut self) -> ir::Block;
}
impl Extract for ir::Block {
    /// Takes the guards out of a block.
    fn extract_if_require(&mut self) -> ir::Block {
        let (guards, rest) = std::mem::take(self).into_iter().partition(|s| matches!(s.kind, StmtKind::Require { .. }));
        *self = rest;
        guards
    }
}
