//! Edits of parsed messages that are sent on: fields set by `with`, and a protocol's `forward`
//! blocks. Lengths that depend on an edited field are updated.

use super::unparse_check::edits::Changed;
use super::Lower;
use crate::compiler::{Reported, R, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U16, U32};
use crate::units::Member;
use crate::val::{OutKind, Outgoing, Val, Vk};
use ir::{BinOp, Edit, Emit, ExprKind as K, FieldId, FieldKind, Root, Step, StmtKind};
use std::collections::HashMap;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Block, ClauseKind, Expr, ExprKind, FlagKind, Ident, ItemKind, Span, StmtKind as S};
use wireloom_syntax::Diagnostic;

/// What is being edited.
struct Target {
    unit: ir::UnitId,
    msg: ir::LocalId,
    known: Vec<(String, Val)>,
}

impl Lower<'_, '_> {
    /// Sets a field by an edit, where the condition holds; gives what the field holds then.
    /// `known`: what fields hold so far.
    pub fn edit_field(
        &mut self,
        (unit, msg): (ir::UnitId, ir::LocalId),
        m: &Member,
        e: &Expr,
        cond: Option<ir::Expr>,
        known: &[(String, Val)],
        edits: &mut Vec<Edit>,
    ) -> R<Val> {
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
        if field.computed.is_some() {
            return Err(self.cx.report(
                Diagnostic::error("E0428", e.span, format!("`{}` is computed when the message is sent", m.name))
                    .hint("leave it out"),
            ));
        }
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
        // What was set before counts only where this does not.
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
        Ok(Val { caseless: m.caseless, ..value })
    }

    /// The bytes of a field's extent: its delimiter stays where it is.
    fn edit_body(&mut self, e: ir::Expr, at: (ir::UnitId, FieldId), field: &ir::Field, span: Span) -> R<ir::Block> {
        let mut bare = field.clone();
        if let FieldKind::Number { until, .. } = &mut bare.kind {
            *until = None;
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
        if let FieldKind::Bytes { extent: ir::Extent::Until(u), .. } = &field.kind {
            if !u.peek {
                body.truncate(1);
            }
        }
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
            let FieldKind::UInt { bytes, big, .. } = f.kind else { continue };
            edits.push(Edit::Set {
                field: vec![id],
                cond: None,
                body: vec![build::stmt(f.span, StmtKind::Emit(Emit::UInt { value, bytes, big }))],
            });
        }
        self.order_edits(unit, edits);
        computed
    }

    /// Computed lengths of edited fields: the old value, less the old length, plus the new one.
    fn computed_values(&self, unit: ir::UnitId, msg: ir::LocalId, known: &[(String, Val)]) -> Vec<(FieldId, ir::Expr)> {
        let fields = &self.cx.m.units[unit.index()].fields;
        let mut values = vec![];
        for (i, f) in fields.iter().enumerate() {
            let (Some(c), FieldKind::UInt { .. }) = (&f.computed, &f.kind) else { continue };
            let id = FieldId(i as u32);
            let at = |f: FieldId| build::step(&build::msg(msg), Step::Field(f));
            let mut total = build::cast(T_U64, build::read(f.ty, at(id)));
            let mut changed = false;
            for l in &c.lengths {
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
        let (msg, mut edits) = match &o.kind {
            OutKind::Built(body) => {
                return Ok(ir::Outgoing::Built { unit: o.unit, body: self.answering(o, body, proto, response, span)? })
            }
            OutKind::Inner => return Err(Reported),
            OutKind::Pass { msg, edits } => (*msg, edits.clone()),
        };
        if self.torn.iter().any(|(m, _)| *m == msg) {
            return Err(self.cx.report(
                Diagnostic::error("E0607", span, "this message was edited in a branch before")
                    .label("with or without the edit?")
                    .hint("send it on inside of the branch"),
            ));
        }
        edits.extend(self.pending.iter().filter(|(m, _)| *m == msg).map(|(_, e)| e.clone()));
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
        let mut target = Target { unit: o.unit, msg, known: o.fields.clone() };
        for body in blocks {
            self.in_clause(info.module, response, msg, o.unit, |s| s.forward(body, None, &mut target, &mut edits))?;
        }
        let mut values = self.settle(o.unit, msg, &target.known, &mut edits);
        for (name, v) in &target.known {
            let (Some(m), Vk::Pure(v)) = (self.cx.units[o.unit.index()].member(name), &v.kind) else { continue };
            values.push((m.field, v.clone()));
        }
        self.still_owed(Changed { unit: o.unit, msg, values, edits: &edits, span, again: None })?;
        Ok(ir::Outgoing::Pass { msg, edits })
    }

    /// A built answer with what its unit asks of the request.
    fn answering(
        &mut self,
        o: &Outgoing,
        body: &ir::Block,
        proto: ir::ProtocolId,
        response: bool,
        span: Span,
    ) -> R<ir::Block> {
        let mut body = body.clone();
        let Some(handler) = self.handler.filter(|_| response && self.kind != super::Kind::OnFault) else {
            return Ok(body);
        };
        let mut asked = vec![];
        let mut ask = |e: &ir::Expr| {
            if let ir::ExprKind::Local(l) = &*e.kind {
                asked.push(*l);
            }
        };
        ir::walk::block_exprs(&body, &mut ask);
        if let Some(ends) = &o.ends {
            ir::walk::expr(ends, &mut ask);
        }
        if !o.params.iter().any(|p| asked.contains(p)) {
            return Ok(body);
        }
        let request = Val::path(Ty::Msg(self.cx.m.protocols[proto.index()].request), build::msg(handler.req));
        let args = self.response_args(proto, &request, span)?;
        // Several answers in one have each their own.
        for (l, arg) in o.params.iter().zip(args.iter().take(self.cx.units[o.unit.index()].params.len()).cycle()) {
            if !asked.contains(l) {
                continue;
            }
            let arg = crate::fold::fold(&self.cx.m, arg);
            let known = [true, false].into_iter().find(|holds| self.holds(&arg, *holds));
            if let Some(v) = known.map(build::boolean) {
                ir::walk::block_exprs_mut(&mut body, &mut |e| {
                    if matches!(*e.kind, ir::ExprKind::Local(k) if k == *l) {
                        *e = v.clone();
                    }
                });
            }
            self.push(span, ir::StmtKind::Set(*l, known.map_or(arg, build::boolean)));
        }
        Ok(body)
    }

    /// In front of `on fault`: what the answer's unit asks of the request, where the request is
    /// there. Else the runtime has said it.
    pub fn ask_request(&mut self, proto: ir::ProtocolId, req: ir::LocalId, span: Span) {
        let mut used = vec![];
        ir::walk::stmts(&self.out, &mut |s| ir::walk::stmt_locals_read(&s.kind, &mut |l| used.push(l)));
        let outer = std::mem::take(&mut self.out);
        let args = self.cx.m.protocols[proto.index()].response_args.clone();
        for (l, mut arg) in self.asked.clone().into_iter().zip(args) {
            if !used.contains(&l) {
                continue;
            }
            ir::walk::expr_mut(&mut arg, &mut |e| super::unparse_check::edits::reroot(e, req));
            let there = ir::Expr::new(crate::compiler::T_BOOL, ir::ExprKind::HasMsg(req));
            let asked = ir::Expr::new(arg.ty, ir::ExprKind::If(there, arg, self.local_expr(l)));
            self.push(span, ir::StmtKind::Set(l, asked));
        }
        self.out.extend(outer);
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
        let mut binds = vec![(if response { "response" } else { "request" }, value.clone()), ("msg", value)];
        if self.handler.is_some() {
            binds.push(("client", Val::of(Ty::Conn)));
        }
        let made = self.in_protocol(module, Span::default(), binds, f);
        (self.params_of, self.dot) = outer;
        made
    }

    /// Runs a piece of a protocol, which sees these names and those of its module.
    fn in_protocol<T>(
        &mut self,
        module: usize,
        span: Span,
        binds: Vec<(&str, Val)>,
        f: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        let outer = (std::mem::replace(&mut self.module, module), std::mem::replace(&mut self.in_app, false));
        let binds: Vec<_> = binds.into_iter().map(|(n, v)| (Ident { name: n.into(), span }, v)).collect();
        self.bind_all(&binds);
        let made = f(self);
        self.scopes = scopes;
        (self.module, self.in_app) = outer;
        made
    }

    fn forward(&mut self, b: &Block, cond: Option<ir::Expr>, target: &mut Target, edits: &mut Vec<Edit>) -> R<()> {
        for s in &b.stmts {
            self.forward_stmt(s, cond.clone(), target, edits)?;
        }
        Ok(())
    }

    fn forward_stmt(
        &mut self,
        s: &ast::Stmt,
        cond: Option<ir::Expr>,
        target: &mut Target,
        edits: &mut Vec<Edit>,
    ) -> R<()> {
        match &s.kind {
            S::Let { .. } => self.stmt(s).map(|_| ()),
            S::Expr(e) => match &*e.kind {
                ExprKind::If(c, then, other) => self.forward_if(c, then, other.as_ref(), cond, target, edits, e.span),
                ExprKind::Block(b) => self.forward(b, cond, target, edits),
                _ => Err(self.not_an_edit(s.span)),
            },
            S::RemoveWhere { list, cond: which } => {
                let (path, elem) = self.edited_list(list, target)?;
                let at = build::step(&build::msg(target.msg), Step::Field(path));
                let (index, mut c) = self.remove_where(&at, &elem, which)?;
                if let Some(cond) = cond {
                    c = build::and(cond, c);
                }
                edits.push(Edit::Remove { list: vec![path], index, cond: c });
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
                edits.push(Edit::Append { list: vec![path], cond, body });
                Ok(())
            }
            S::Assign { place, op: None, value } => {
                let m = self.edited_member(place, target)?;
                let v = self.edit_field((target.unit, target.msg), &m, value, cond, &target.known, edits)?;
                target.known.retain(|(n, _)| *n != m.name);
                target.known.push((m.name, v));
                Ok(())
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
        self.pending.push((msg, edit));
        Ok(())
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

    fn appended(&mut self, elem: &crate::ty::Elem, fields: &[(Ident, Expr)], span: Span) -> R<ir::Block> {
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

    #[allow(clippy::too_many_arguments)]
    fn forward_if(
        &mut self,
        c: &Expr,
        then: &Block,
        other: Option<&Expr>,
        cond: Option<ir::Expr>,
        target: &mut Target,
        edits: &mut Vec<Edit>,
        span: Span,
    ) -> R<()> {
        let c = self.decide(c)?;
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
        self.conditional(&flag, span, |s| s.forward(then, both(&cond, flag.clone()), target, edits))?;
        self.facts = facts.clone();
        if let Some(o) = other {
            self.assume(&c, false);
            let otherwise = both(&cond, build::not(flag.clone()));
            self.conditional(&build::not(flag), span, |s| match &*o.kind {
                ExprKind::Block(b) => s.forward(b, otherwise, target, edits),
                ExprKind::If(c, then, other) => s.forward_if(c, then, other.as_ref(), otherwise, target, edits, o.span),
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

    fn edited_member(&mut self, e: &Expr, target: &Target) -> R<Member> {
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

    fn edited_list(&mut self, e: &Expr, target: &Target) -> R<(FieldId, crate::ty::Elem)> {
        let m = self.edited_member(e, target)?;
        match &m.ty {
            Ty::Items(elem, _) if m.cases.is_empty() => Ok((m.field, (**elem).clone())),
            t => {
                let s = self.show(t);
                Err(self.err("E0607", e.span, format!("expected a list field outside of switches, found {s}")))
            }
        }
    }

    /// What an answer is counted as, by its protocol's `status` and `class`
    /// ([`StmtKind::Outcome`]). None: the protocol has neither, or nothing is known of a message
    /// that was put together from others.
    pub fn outcome(&mut self, proto: ir::ProtocolId, answer: &Rc<Outgoing>, span: Span) -> R<Option<ir::Expr>> {
        if matches!(answer.kind, OutKind::Built(_)) && answer.fields.is_empty() {
            return Ok(None);
        }
        let info = self.cx.protocols[proto.index()].clone();
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        let mut clauses =
            p.clauses.iter().filter(|c| matches!(c.kind, ClauseKind::Status(_) | ClauseKind::Class { .. })).peekable();
        if clauses.peek().is_none() {
            return Ok(None);
        }
        let clauses: Vec<_> = clauses.collect();
        let response = self.received(answer);
        let told = self.cx.diags.len();
        let asking = std::mem::replace(&mut self.asking, true);
        let read = |s: &mut Self| s.sub(|s| s.outcome_of(&clauses));
        let (made, block) = self.in_protocol(info.module, span, vec![("response", response)], read);
        self.asking = asking;
        if made.is_err() && matches!(answer.kind, OutKind::Built(_)) {
            // The clauses are right, but not every part of a message that is being built can be
            // read.
            self.cx.diags.truncate(told);
            return Ok(None);
        }
        self.out.extend(block);
        made.map(Some)
    }

    /// A message that is sent, as its receiver sees it: fields of cases are options, and lengths
    /// are those of the fields that were set.
    fn received(&self, o: &Rc<Outgoing>) -> Val {
        let mut seen = (**o).clone();
        if let OutKind::Pass { msg, .. } = &o.kind {
            for (f, value) in self.computed_values(o.unit, *msg, &o.fields) {
                if let Some(m) = self.cx.units[o.unit.index()].by_field(f) {
                    seen.fields.push((m.name.clone(), Val::pure(m.ty.clone(), value)));
                }
            }
        }
        for (name, v) in &mut seen.fields {
            let cased = self.cx.units[o.unit.index()].member(name).is_some_and(|m| !m.cases.is_empty());
            if cased && !matches!(v.kind, Vk::Maybe(..)) && !v.ty.is_option() && !v.ty.is_error() {
                *v = Val::maybe(build::boolean(true), v.clone());
            }
        }
        Val { ty: Ty::Msg(o.unit), kind: Vk::Out(Rc::new(seen)), caseless: false }
    }

    fn outcome_of(&mut self, clauses: &[&ast::Clause]) -> R<ir::Expr> {
        let (mut status, mut classes) = (None, vec![]);
        for c in clauses {
            match &c.kind {
                ClauseKind::Status(e) => status = Some(self.expr_as(e, &U16)?),
                ClauseKind::Class { when, .. } => classes.push(self.cond(when)?),
                _ => {}
            }
        }
        let number =
            classes.into_iter().enumerate().rev().fold(build::u32(0), |other, (i, when)| {
                ir::Expr::new(T_U32, K::If(when, build::u32(i as u32 + 1), other))
            });
        let Some(status) = status else { return Ok(number) };
        Ok(build::bin(
            T_U32,
            BinOp::Add,
            build::bin(T_U32, BinOp::Mul, build::cast(T_U32, status), build::u32(256)),
            number,
        ))
    }

    /// What its protocol asks of a request on its way to a server, as it will be sent: whether it
    /// is refused, and with `args` what its answer is read with. An edited request is read again
    /// where its edits may have changed what is asked.
    pub fn asked_of(&mut self, proto: ir::ProtocolId, v: &Val, span: Span, args: bool) -> R<Vec<ir::Expr>> {
        let o = self.message_of(v, span)?;
        let (msg, mut edits) = match &o.kind {
            OutKind::Pass { msg, edits } => (*msg, edits.clone()),
            _ => return self.asked_of_built(proto, &o, span, args),
        };
        let own = |(m, e): &(ir::LocalId, Edit)| (*m == msg).then(|| e.clone());
        edits.extend(self.pending.iter().filter_map(own));
        if edits.is_empty() {
            return self.ask_for(proto, v, true, span, args);
        }
        let seen = self.received(&o);
        let start = self.start();
        let (made, block) = self.sub(|s| s.ask_for(proto, &seen, false, span, args));
        let all = made?;
        if !self.is_changed(o.unit, msg, &edits, &block, &all) {
            self.out.extend(block);
            return Ok(all);
        }
        self.go_back(start);
        self.settle(o.unit, msg, &o.fields, &mut edits);
        let (dst, ok) = (self.new_local("", &Ty::Msg(o.unit)), self.new_local("", &Ty::Bool));
        self.push(span, StmtKind::Reread { msg: ir::Outgoing::Pass { msg, edits }, dst, ok });
        let there = self.local_expr(ok);
        self.guard(there, ir::FaultKind::CONSTRAINT, span);
        let again = Val::path(Ty::Msg(o.unit), build::msg(dst));
        let all = self.ask_for(proto, &again, false, span, args)?;
        // The message that was read again is gone when the one that is sent is put together.
        Ok(all
            .into_iter()
            .map(|e| {
                let l = self.new_local_of("", e.ty);
                self.push(span, StmtKind::Set(l, e));
                self.local_expr(l)
            })
            .collect())
    }

    /// Not every part of a message that is being built can be read.
    fn asked_of_built(&mut self, proto: ir::ProtocolId, o: &Rc<Outgoing>, span: Span, args: bool) -> R<Vec<ir::Expr>> {
        let told = self.cx.diags.len();
        let seen = self.received(o);
        self.ask_for(proto, &seen, false, span, args).map_err(|r| {
            let unread = self.cx.diags[told..]
                .iter()
                .find(|d| d.code == "E0432")
                .and_then(|d| Some((d.span()?, d.message.clone())));
            if let Some((at, why)) = unread {
                self.cx.diags.truncate(told);
                let name = self.cx.m.protocols[proto.index()].name.clone();
                self.cx.report(
                    Diagnostic::error("E0432", span, format!("`{name}` cannot tell whether this request may be sent"))
                        .also(at, why)
                        .hint("pass on a request that was received, with edits"),
                );
            }
            r
        })
    }

    fn ask_for(
        &mut self,
        proto: ir::ProtocolId,
        request: &Val,
        received: bool,
        span: Span,
        args: bool,
    ) -> R<Vec<ir::Expr>> {
        let outer = std::mem::replace(&mut self.asking, true);
        let made = self.refuse(proto, request, received, span);
        let made = made.and_then(|()| if args { self.response_args(proto, request, span) } else { Ok(vec![]) });
        self.asking = outer;
        made
    }

    /// Whether what was asked of a message reads parts of it that edits may have changed, other
    /// than the fields that they set.
    fn is_changed(
        &self,
        unit: ir::UnitId,
        msg: ir::LocalId,
        edits: &[Edit],
        block: &ir::Block,
        args: &[ir::Expr],
    ) -> bool {
        let lists: Vec<FieldId> = edits
            .iter()
            .filter_map(|e| match e {
                Edit::Set { .. } => None,
                Edit::Remove { list, .. } | Edit::Append { list, .. } => list.first().copied(),
            })
            .collect();
        let mut changed = false;
        let mut look = |e: &ir::Expr| {
            let Some(ir::Path { root: Root::Local(l), steps }) = ir::walk::path_of(e) else { return };
            let (true, Some(Step::Field(f))) = (*l == msg, steps.first()) else { return };
            let kind = &self.cx.m.units[unit.index()].fields[f.index()].kind;
            changed |= lists.contains(f) || matches!(kind, FieldKind::Let { .. } | FieldKind::Switch { .. });
        };
        ir::walk::block_exprs(block, &mut look);
        args.iter().for_each(|e| ir::walk::expr(e, &mut look));
        changed
    }

    /// Refuses a request that its protocol does not send on a connection which others use, too.
    /// `received`: it is passed on as it came.
    fn refuse(&mut self, proto: ir::ProtocolId, request: &Val, received: bool, span: Span) -> R<()> {
        let info = self.cx.protocols[proto.index()].clone();
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        for c in &p.clauses {
            let ClauseKind::Refuse { kind, when } = &c.kind else { continue };
            let kind = self.cx.fault_kind(info.module, kind)?;
            // The clause is read as it stands, not by what is known of the request here.
            let facts = std::mem::take(&mut self.facts);
            let untouched = Val::pure(Ty::Bool, build::boolean(received));
            let binds = vec![("request", request.clone()), (RECEIVED, untouched)];
            let refused = self.in_protocol(info.module, span, binds, |s| s.cond(when));
            self.facts = facts;
            self.guard(build::not(refused?), kind, span);
        }
        Ok(())
    }

    /// The parameters that the parser of the answer to this request needs; behind them whether the
    /// request may share a connection (`pipeline when`), and the values of `matches`.
    pub fn response_args(&mut self, proto: ir::ProtocolId, request: &Val, span: Span) -> R<Vec<ir::Expr>> {
        let info = self.cx.protocols[proto.index()].clone();
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        let Some(args) = p.clauses.iter().find_map(|c| match &c.kind {
            ClauseKind::Response(_, args) => Some(args.clone()),
            _ => None,
        }) else {
            return Ok(vec![]);
        };
        let Some(unit) = info.response else { return Ok(vec![]) };
        let params = self.cx.units[unit.index()].params.clone();
        let given = |i: usize, name: &str| {
            let named = args.iter().find(|(n, _)| n.as_ref().is_some_and(|n| n.name == name));
            named.or(args.get(i).filter(|(n, _)| n.is_none()))
        };
        let pipeline = p.clauses.iter().filter_map(|c| match &c.kind {
            ClauseKind::Flag { flag: FlagKind::Pipeline, when } => Some(when),
            _ => None,
        });
        self.in_protocol(info.module, span, vec![("request", request.clone())], |s| {
            let arg = |(i, (name, t)): (usize, &(String, Ty))| match given(i, name) {
                Some((_, e)) => s.expr_as(e, t),
                None => Ok(s.zero(t)),
            };
            let made = params.iter().enumerate().map(arg).collect::<R<Vec<_>>>();
            let shares = pipeline.map(|e| s.cond(e)).collect::<R<Vec<_>>>();
            let kept = s.kept_for_answer(&info);
            let (made, shares, kept) = (made?, shares?.into_iter().reduce(build::or), kept?);
            let place = shares.or_else(|| (!kept.is_empty()).then(|| build::boolean(false)));
            Ok(made.into_iter().chain(place).chain(kept).collect())
        })
    }

    /// The values of `matches`, at their places among those of other protocols with the same
    /// answers.
    fn kept_for_answer(&mut self, info: &crate::compiler::ProtocolInfo) -> R<Vec<ir::Expr>> {
        let ItemKind::Protocol(p) = &info.ast.kind else { return Err(Reported) };
        let values = p.clauses.iter().find_map(|c| match &c.kind {
            ClauseKind::Matches { values, .. } => Some(values),
            _ => None,
        });
        let (Some(values), Some(unit)) = (values, info.response) else { return Ok(vec![]) };
        let (from, types) = &info.asked;
        let others: Vec<ir::TyId> = self.cx.m.units[unit.index()].asked[..*from].iter().map(|p| p.ty).collect();
        let mut all: Vec<ir::Expr> = others.into_iter().map(|t| self.zero_of(t)).collect();
        all.push(build::boolean(true));
        for ((_, e), t) in values.iter().zip(types.iter().skip(1)) {
            all.push(self.expr_as(e, t)?);
        }
        Ok(all)
    }
}

/// In `refuse`: whether the program passes the request on as it came.
pub const RECEIVED: &str = "received";

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
