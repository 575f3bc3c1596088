//! Checks a changed message against its unit. In: the edits of a parsed message and the new values
//! of its fields. Out: nothing if the unit's conditions certainly hold, E0433 if one certainly does
//! not, else guards before the message is sent.
//!
//! The message satisfied its unit when it was parsed. So only conditions over changed parts are
//! checked again:
//!
//! - `require`s;
//! - the conditions of a switch (the parsed case must be the one that the next reader takes);
//! - lengths, counts and arguments of units;
//! - what stands before a changed field and has no end of its own (`neighbours.rs`).
//!
//! Each condition is evaluated with the old and with the new values. A question about a list has an
//! answer if its name is known at compile time. Sometimes the answer is not known, as for an
//! appended item with a computed name. Then the unit's own grammar parses the changed message again
//! before it is sent. The result of that parse gives the answer.

use super::super::Lower;
use super::open_ends::OpenEnd;
use crate::compiler::{R, T_U64};
use crate::ir_builder as build;
use crate::ty::Ty;
use ir::{
    BinOp, Edit, Emit, Expr as X, ExprKind as K, Extent, FaultKind, FieldId, FieldKind, FuncBody, Guard, ListExtent,
    LocalId, Path, Root, Step, StmtKind,
};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

/// A parsed message and its edits.
pub struct Changed<'a> {
    pub unit: ir::UnitId,
    pub msg: LocalId,
    /// The values of fields now.
    pub values: Vec<(FieldId, X)>,
    pub edits: &'a [Edit],
    /// Parameters of its unit that its next reader may know otherwise, and how.
    pub params: Vec<(u32, X)>,
    pub span: Span,
    /// Conditions that only a new parse can decide.
    pub again: Option<Again>,
}

/// The changed message, read again by its unit's grammar.
pub struct Again {
    msg: LocalId,
    ok: LocalId,
    /// If no part of this holds, the changes do not touch the question.
    when: X,
    /// Conditions that it must meet besides being readable.
    owed: Vec<(X, FaultKind)>,
}

impl Changed<'_> {
    pub fn value(&self, f: FieldId) -> Option<&X> {
        self.values.iter().find(|(g, _)| *g == f).map(|(_, v)| v)
    }

    pub fn edited(&self, l: FieldId) -> bool {
        self.edits
            .iter()
            .any(|e| matches!(e, Edit::Remove { list, .. } | Edit::Append { list, .. } if list.first() == Some(&l)))
    }

    fn at(&self, f: FieldId) -> Path {
        build::step(&build::msg(self.msg), Step::Field(f))
    }
}

impl Lower<'_, '_> {
    /// Guards, before the message is sent, the unit's conditions on the changed parts.
    pub fn still_owed(&mut self, mut c: Changed) -> R<()> {
        if c.values.is_empty() && c.edits.is_empty() && c.params.is_empty() {
            return Ok(());
        }
        let body = self.cx.m.units[c.unit.index()].body.clone();
        self.fields_owed(&mut c, &body, &build::boolean(true), vec![])?;
        match c.again.take() {
            Some(a) => self.read_again(&c, a),
            None => Ok(()),
        }
    }

    /// `taken`: under which condition the fields are there. `before`: what stands before them and
    /// has no end of its own. Gives what does behind them.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn fields_owed(
        &mut self,
        c: &mut Changed,
        body: &[FieldId],
        taken: &X,
        mut before: Vec<OpenEnd>,
    ) -> R<Vec<OpenEnd>> {
        for f in body {
            let field = self.field_ir(c.unit, *f);
            if !matches!(field.kind, FieldKind::Switch { .. }) || c.edited(*f) {
                self.ends_hold(c, *f, &before, taken);
            }
            match &field.kind {
                FieldKind::Require { cond } => self.holds_still(c, cond, taken, field.bad)?,
                FieldKind::Bytes { extent: Extent::Length(n), trim: None, .. } => match c.value(*f) {
                    Some(v) => {
                        let len = build::cast(n.ty, build::len_bytes(v.clone()));
                        self.agrees(c, n, len, taken)?;
                    }
                    None => self.stays(c, n, taken)?,
                },
                FieldKind::StreamBytes { extent: Extent::Length(n) } => self.stays(c, n, taken)?,
                FieldKind::List { extent, element, .. } => self.ends_still(c, *f, (extent, *element), taken)?,
                FieldKind::Unit { args, .. } | FieldKind::StreamUnit { args, .. } => {
                    // A list inside of it was edited: its conditions are its unit's.
                    if c.edited(*f) {
                        self.again_always(c);
                    }
                    for a in args {
                        self.stays(c, a, taken)?;
                    }
                }
                FieldKind::Switch { cases } => self.case_stays(c, *f, cases, (taken, &before))?,
                _ => {}
            }
            before = self.open_behind(c, *f, before, taken);
        }
        Ok(before)
    }

    /// A list ends where it did, or where its edits have put its last item.
    fn ends_still(
        &mut self,
        c: &mut Changed,
        f: FieldId,
        (extent, element): (&ListExtent, FieldId),
        taken: &X,
    ) -> R<()> {
        let edited = c.edited(f);
        if let FieldKind::Unit { args, .. } = self.field_ir(c.unit, element).kind {
            for a in &args {
                self.stays(c, a, taken)?;
            }
        }
        match extent {
            ListExtent::Count(n) if !edited => return self.stays(c, n, taken),
            ListExtent::Count(_) => self.again_always(c),
            ListExtent::Fold { init, holds, step, done } => {
                let all = [Some(init), holds.as_ref(), Some(step), Some(done)];
                let same = |e: &X| self.as_sent(c, e).is_some_and(|now| now == self.as_read(c, e));
                if edited || !all.into_iter().flatten().all(same) {
                    self.again_always(c);
                }
            }
            ListExtent::Until(_) | ListExtent::ToEnd => {
                if edited && self.has_folds(c.unit, element, 0) {
                    self.again_always(c);
                }
            }
        }
        Ok(())
    }

    /// Whether the end of a list in this field, or inside of it, depends on its items.
    fn has_folds(&self, unit: ir::UnitId, f: FieldId, depth: u32) -> bool {
        let inside = |u: ir::UnitId, fields: &[FieldId]| fields.iter().any(|f| self.has_folds(u, *f, depth + 1));
        match self.field_ir(unit, f).kind {
            _ if depth > ir::layout::MAX_DEPTH => true,
            FieldKind::List { extent: ListExtent::Fold { .. }, .. } => true,
            FieldKind::List { element, .. } => inside(unit, &[element]),
            FieldKind::Unit { unit, .. } => inside(unit, &self.cx.m.units[unit.index()].body),
            FieldKind::Switch { cases } => cases.iter().any(|case| inside(unit, &case.fields)),
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => false,
        }
    }

    /// The message parsed again, at least under a condition.
    pub fn again_when(&mut self, c: &mut Changed, when: &X) -> LocalId {
        let again = self.again(c, &build::boolean(true));
        again.when = build::or(again.when.clone(), when.clone());
        again.msg
    }

    /// A condition over the message that is parsed again.
    pub fn owes_again(&mut self, c: &mut Changed, ok: X, kind: FaultKind) {
        self.again(c, &build::boolean(true)).owed.push((ok, kind));
    }

    /// The changed message is parsed again in any case.
    fn again_always(&mut self, c: &mut Changed) {
        self.again(c, &build::boolean(true)).when = build::boolean(true);
    }

    fn case_stays(
        &mut self,
        c: &mut Changed,
        switch: FieldId,
        cases: &[ir::Case],
        (taken, before): (&X, &[OpenEnd]),
    ) -> R<()> {
        // A list in one of the cases was edited.
        if c.edited(switch) {
            self.again_always(c);
        }
        let chunked = self.chunks.clone().and_then(|name| {
            let named = |f: &FieldId| self.field_ir(c.unit, *f).name.as_deref() == Some(name.as_str());
            cases.iter().position(|case| case.fields.iter().any(named))
        });
        for (n, case) in cases.iter().enumerate() {
            if let Some(chunks) = chunked.filter(|chunks| *chunks != n) {
                if self.in_chunks(c, (switch, n, chunks), case, taken)? {
                    continue;
                }
            }
            let here = build::and(taken.clone(), build::case(c.at(switch), n as u32));
            let sent = self.passed_as(c.unit, case).unwrap_or(n);
            for (k, other) in cases[..=sent].iter().enumerate() {
                let Guard::When(cond) = &other.guard else { continue };
                let cond = if k == sent { cond.clone() } else { build::not(cond.clone()) };
                if self.as_sent(c, &cond).is_none() {
                    let a = self.again(c, &cond);
                    let same = build::case(build::step(&build::msg(a.msg), Step::Field(switch)), sent as u32);
                    a.owed.push((build::or(build::not(here.clone()), same), FaultKind::CONSTRAINT));
                    break;
                }
                self.holds_still(c, &cond, &here, FaultKind::CONSTRAINT)?;
            }
            let before = self.in_case(switch, cases, n, before, &here);
            self.fields_owed(c, &case.fields, &here, before)?;
        }
        Ok(())
    }

    /// A case of streamed bytes whose pieces may be changed: its reader takes this case still, or
    /// that of chunks.
    fn in_chunks(
        &mut self,
        c: &mut Changed,
        (switch, n, chunks): (FieldId, usize, usize),
        case: &ir::Case,
        taken: &X,
    ) -> R<bool> {
        let length = case.fields.iter().find_map(|f| {
            let FieldKind::StreamBytes { extent: Extent::Length(n) } = self.field_ir(c.unit, *f).kind else {
                return None;
            };
            Some(n)
        });
        let Some(length) = length else { return Ok(false) };
        let here = build::and(taken.clone(), build::case(c.at(switch), n as u32));
        let was = self.as_read(c, &length);
        let a = self.again(c, &length);
        let is = |n: usize| build::case(build::step(&build::msg(a.msg), Step::Field(switch)), n as u32);
        let mut now = length.clone();
        ir::walk::expr_mut(&mut now, &mut |e| reroot(e, a.msg));
        let same = build::and(is(n), build::cmp(BinOp::Eq, now, was));
        let owed = build::or(build::not(here), build::or(is(chunks), same));
        a.when = build::boolean(true);
        a.owed.push((owed, FaultKind::CONSTRAINT));
        Ok(true)
    }

    /// The case as which this one is passed on, if the grammar says that it is another.
    pub fn passed_as(&self, unit: ir::UnitId, case: &ir::Case) -> Option<usize> {
        case.fields.iter().find_map(|f| {
            let FieldKind::Pass { how: ir::PassRule::As { case, .. } } = self.field_ir(unit, *f).kind else {
                return None;
            };
            Some(case as usize)
        })
    }

    /// A condition that held.
    fn holds_still(&mut self, c: &mut Changed, cond: &X, taken: &X, kind: FaultKind) -> R<()> {
        // The new parse checks this, too.
        let Some(now) = self.as_sent(c, cond) else {
            self.again(c, cond);
            return Ok(());
        };
        if now == self.as_read(c, cond) {
            return Ok(());
        }
        self.owes(c, now, taken, kind)
    }

    /// A number that says how long something unchanged is: it may not change.
    fn stays(&mut self, c: &mut Changed, e: &X, taken: &X) -> R<()> {
        let was = self.as_read(c, e);
        self.agrees(c, e, was, taken)
    }

    fn agrees(&mut self, c: &mut Changed, e: &X, wanted: X, taken: &X) -> R<()> {
        let Some(now) = self.as_sent(c, e) else {
            let a = self.again(c, e);
            let mut now = e.clone();
            ir::walk::expr_mut(&mut now, &mut |e| reroot(e, a.msg));
            a.owed.push((
                build::or(build::not(taken.clone()), build::cmp(BinOp::Eq, now, wanted)),
                FaultKind::CONSTRAINT,
            ));
            return Ok(());
        };
        let wanted = crate::fold::fold(&self.cx.m, &wanted);
        if now == wanted
            || e.ty == T_U64
                && super::super::unparse_check::constraints::same_sum(&self.cx.m, &now, &wanted)
                && !is_cut(&now)
        {
            return Ok(());
        }
        let same = crate::fold::fold(&self.cx.m, &build::cmp(BinOp::Eq, now, wanted));
        self.owes(c, same, taken, FaultKind::CONSTRAINT)
    }

    /// The message parsed again, if the changes touch an expression.
    fn again<'c>(&mut self, c: &'c mut Changed, e: &X) -> &'c mut Again {
        let touched = self.touched(c, e);
        let (msg, ok) = match &c.again {
            Some(a) => (a.msg, a.ok),
            None => (self.new_local("again", &Ty::Msg(c.unit)), self.new_local("", &Ty::Bool)),
        };
        let a = c.again.get_or_insert(Again { msg, ok, when: build::boolean(false), owed: vec![] });
        if a.when != touched {
            a.when = crate::fold::fold(&self.cx.m, &build::or(a.when.clone(), touched));
        }
        a
    }

    /// The condition under which the unknown parts of an expression may differ from before.
    fn touched(&self, c: &Changed, e: &X) -> X {
        let mut all = build::boolean(false);
        ir::walk::expr(e, &mut |e| {
            if self.leaf_now(c, e).is_none() {
                all = build::or(all.clone(), self.leaf_touched(c, e));
            }
        });
        crate::fold::fold(&self.cx.m, &all)
    }

    fn leaf_touched(&self, c: &Changed, e: &X) -> X {
        let field = ir::walk::path_of(e).and_then(|p| if let [Step::Field(f)] = p.steps[..] { Some(f) } else { None });
        let Some(f) = field else { return build::boolean(true) };
        if let FieldKind::Let { value } = &self.field_ir(c.unit, f).kind {
            return self.touched(c, value);
        }
        let Some((_, q)) = self.query(c.unit, e).filter(|_| c.edited(f)) else { return build::boolean(true) };
        let (K::Bytes(asked), Some((name, _))) = (&*q.name.kind, self.pair_fields(q.unit)) else {
            return build::boolean(true);
        };
        let mut any = build::boolean(false);
        for edit in c.edits {
            let touches = match edit {
                Edit::Remove { list, .. } if list[..] == [f] => {
                    self.removed(c, edit, name, asked).unwrap_or(build::boolean(true))
                }
                Edit::Append { list, cond, body } if list[..] == [f] => match appended_name(body) {
                    Some(n) if build::as_bool(&q.asks_for(self, n.clone())) == Some(false) => build::boolean(false),
                    _ => cond.clone().unwrap_or(build::boolean(true)),
                },
                Edit::Set { .. } | Edit::Remove { .. } | Edit::Append { .. } => continue,
            };
            any = build::or(any, touches);
        }
        any
    }

    /// Parses the message that will be sent. It faults if that is no message of the unit, or a
    /// different one than intended.
    fn read_again(&mut self, c: &Changed, a: Again) -> R<()> {
        if build::as_bool(&a.when) == Some(false) {
            return Ok(());
        }
        let (made, block) = self.sub(|s| {
            // It is parsed under the parameters that it came with.
            for (i, now) in &c.params {
                let was = X::new(now.ty, K::UnitParam(Root::Local(c.msg), *i));
                let same = crate::fold::fold(&s.cx.m, &build::cmp(BinOp::Eq, was, now.clone()));
                s.valid(same, FaultKind::CONSTRAINT, c.span)?;
            }
            s.push(
                c.span,
                StmtKind::Reread {
                    msg: ir::Outgoing::Pass { msg: c.msg, edits: c.edits.to_vec() },
                    dst: a.msg,
                    ok: a.ok,
                },
            );
            let ok = s.local_expr(a.ok);
            s.valid(ok, FaultKind::CONSTRAINT, c.span)?;
            for (ok, kind) in a.owed {
                let ok = crate::fold::fold(&s.cx.m, &ok);
                s.valid(ok, kind, c.span)?;
            }
            R::Ok(())
        });
        made?;
        match build::as_bool(&a.when) {
            Some(_) => self.out.extend(block),
            None => self.push(c.span, StmtKind::If { cond: a.when, then: block, other: vec![] }),
        }
        Ok(())
    }

    fn owes(&mut self, c: &Changed, now: X, taken: &X, kind: FaultKind) -> R<()> {
        let ok = crate::fold::fold(&self.cx.m, &build::or(build::not(taken.clone()), now));
        if build::as_bool(&ok) == Some(false) {
            return Err(self.cx.report(
                wireloom_syntax::Diagnostic::error("E0434", c.span, "this message is not valid after its edits")
                    .label("the receiver would refuse it")
                    .hint("change the parts that depend on the changed field, too, or build a new message"),
            ));
        }
        self.valid(ok, kind, c.span)
    }

    /// An expression of the grammar over the message as it was read.
    fn as_read(&self, c: &Changed, e: &X) -> X {
        let mut e = e.clone();
        ir::walk::expr_mut(&mut e, &mut |e| reroot(e, c.msg));
        crate::fold::fold(&self.cx.m, &e)
    }

    /// The same over the message as it is sent; none where that is not known.
    fn as_sent(&self, c: &Changed, e: &X) -> Option<X> {
        let (mut e, mut unknown) = (e.clone(), false);
        ir::walk::expr_mut(&mut e, &mut |e| match self.leaf_now(c, e) {
            Some(Some(v)) => *e = v,
            Some(None) => reroot(e, c.msg),
            None => unknown = true,
        });
        (!unknown).then(|| crate::fold::fold(&self.cx.m, &e))
    }

    /// The value of a node now: `Some(None)` as before, `None` not known.
    pub fn leaf_now(&self, c: &Changed, e: &X) -> Option<Option<X>> {
        if let K::UnitParam(Root::This, i) = &*e.kind {
            return Some(c.params.iter().find(|(n, _)| n == i).map(|(_, v)| v.clone()));
        }
        let Some(p) = ir::walk::path_of(e).filter(|p| p.root == Root::This) else { return Some(None) };
        let Some(Step::Field(f)) = p.steps.first() else { return Some(None) };
        let whole = p.steps.len() == 1;
        let field = self.field_ir(c.unit, *f);
        if let Some(v) = c.value(*f) {
            let trimmed = matches!(field.kind, FieldKind::Bytes { trim: Some(_), .. });
            return (whole && !trimmed && matches!(*e.kind, K::Read(_) | K::Raw(_)))
                .then(|| Some(build::cast(e.ty, v.clone())));
        }
        if c.edited(*f) {
            return if whole { self.list_now(c, *f, e).map(Some) } else { None };
        }
        match (&field.kind, &*e.kind) {
            (FieldKind::Let { value }, K::Read(_)) if whole => {
                let now = self.as_sent(c, value)?;
                Some((now != self.as_read(c, value)).then_some(now))
            }
            _ => Some(None),
        }
    }

    /// The answer to a question about a list that was edited, for a name that is a constant.
    fn list_now(&self, c: &Changed, l: FieldId, e: &X) -> Option<X> {
        let (_, q) = self.query(c.unit, e)?;
        let K::Bytes(asked) = &*q.name.kind else { return None };
        let (name, _) = self.pair_fields(q.unit)?;
        let mut all = e.clone();
        reroot(&mut all, c.msg);
        for edit in c.edits {
            match edit {
                Edit::Remove { list, .. } if list[..] == [l] => {
                    let gone = self.removed(c, edit, name, asked)?;
                    all = build::if_(e.ty, gone, q.nothing(), all);
                }
                Edit::Append { list, cond, body } if list[..] == [l] => {
                    let there = cond.clone().unwrap_or(build::boolean(true));
                    all = q.one_more(self, appended_name(body)?.clone(), there, all)?;
                }
                Edit::Set { .. } | Edit::Remove { .. } | Edit::Append { .. } => {}
            }
        }
        Some(crate::fold::fold(&self.cx.m, &all))
    }

    /// Whether items of this name go; none if that depends on more of the item than its name.
    fn removed(&self, c: &Changed, edit: &Edit, name: FieldId, asked: &[u8]) -> Option<X> {
        let Edit::Remove { list, index, cond } = edit else { return None };
        let (l, mut cond) = (*list.first()?, cond.clone());
        ir::walk::expr_mut(&mut cond, &mut |e| {
            if let K::Read(p) = &*e.kind {
                if p.root == Root::Local(c.msg)
                    && matches!(p.steps[..], [Step::Field(f), Step::Index(_), Step::Field(n)] if f == l && n == name)
                {
                    *e = X::new(e.ty, K::Bytes(asked.to_vec()));
                }
            } else if let K::Call(f, args) = &*e.kind {
                if let Some(v) = self.called(*f, args) {
                    *e = v;
                }
            }
        });
        let cond = crate::fold::fold(&self.cx.m, &cond);
        let mut more = false;
        ir::walk::expr(&cond, &mut |e| more |= matches!(*e.kind, K::Local(i) if i == *index));
        (!more).then_some(cond)
    }

    /// A call as the expression that the function gives, if it is no more than that.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn called(&self, f: ir::FuncId, args: &[X]) -> Option<X> {
        let FuncBody::Body(body) = &self.cx.m.funcs.get(f.index())?.body else { return None };
        let mut known: Vec<(LocalId, X)> =
            args.iter().enumerate().map(|(i, a)| (LocalId(i as u32), a.clone())).collect();
        for s in &body.block {
            let (to, e) = match &s.kind {
                StmtKind::Set(l, e) => (Some(*l), e),
                StmtKind::Return(Some(e)) => (None, e),
                _ => return None,
            };
            let mut e = e.clone();
            ir::walk::expr_mut(&mut e, &mut |e| {
                if let K::Local(l) = &*e.kind {
                    if let Some((_, v)) = known.iter().rev().find(|(k, _)| k == l) {
                        *e = v.clone();
                    }
                }
            });
            let Some(to) = to else { return Some(crate::fold::fold(&self.cx.m, &e)) };
            known.push((to, e));
        }
        None
    }
}

/// Whether a part of a sum was cut to fewer bits than it may take.
fn is_cut(e: &X) -> bool {
    let mut cut = false;
    ir::walk::expr(e, &mut |e| cut |= matches!(&*e.kind, K::Cast(a) if a.ty == T_U64 && e.ty != T_U64));
    cut
}

/// The name of an appended item: the first that is written.
fn appended_name(body: &ir::Block) -> Option<&X> {
    let first = body.iter().find_map(|s| if let StmtKind::Emit(e) = &s.kind { Some(e) } else { None })?;
    match first {
        Emit::Bytes(e) if matches!(*e.kind, K::Bytes(_)) => Some(e),
        Emit::Bytes(_)
        | Emit::UInt { .. }
        | Emit::Number { .. }
        | Emit::Varint(_)
        | Emit::Items { .. }
        | Emit::InOrder { .. }
        | Emit::Mark(_)
        | Emit::Whole { .. }
        | Emit::Begins { .. } => None,
    }
}

/// The grammar's own fields become the message's.
pub fn reroot(e: &mut X, msg: LocalId) {
    reroot_from(e, Root::This, msg)
}

/// Paths from a root of the grammar begin at a message.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn reroot_from(e: &mut X, root: Root, msg: LocalId) {
    match &mut *e.kind {
        K::Read(p)
        | K::Count(p)
        | K::Raw(p)
        | K::Case(p, _)
        | K::Find { list: p, .. }
        | K::CountOf { list: p, .. }
        | K::AnyToken { list: p, .. }
            if p.root == root =>
        {
            p.root = Root::Local(msg)
        }
        K::UnitParam(r, _) if *r == root => *r = Root::Local(msg),
        _ => {}
    }
}
