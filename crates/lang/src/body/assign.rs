//! Assignable places: variables, state, sessions, counters, table entries, fields of records.

use super::{Kind, Lower};
use crate::apps::scope::AppName;
use crate::compiler::{Reported, R, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U64};
use crate::val::{Val, Vk};
use ir::{ExprKind as K, LocalId, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{BinOp, Block, Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

/// The left side of `=`.
#[derive(Clone)]
enum Root {
    Local(LocalId, Ty),
    State(ir::StateId, Ty),
    Session(ir::SessionId, Ty),
    Counter(ir::CounterId),
    Table(ir::TableId, Expr),
}

impl Lower<'_, '_> {
    /// Gives the value assigned.
    pub fn assign(&mut self, place: &Expr, op: Option<BinOp>, value: &Expr, span: Span) -> R<Val> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        if self.in_frame(place) {
            return self.frame_assign(place, op, value, span);
        }
        if let Some(given) = op.is_none().then(|| self.give_item(place, value, span)).flatten() {
            return given;
        }
        let (root, path) = self.place(place)?;
        match root {
            Root::Table(t, key) if path.is_empty() => self.assign_table(t, &key, op, value, span),
            Root::Table(..) => {
                let (mut entry, mut field) = ("table[key]", "field");
                if let ExprKind::Field(Some(of), name) = &*place.kind {
                    (entry, field) = (self.code_of(of, entry), &name.name);
                }
                let hint = format!("write `update {entry} {{ .{field} = … }}`");
                let d = Diagnostic::error("E0713", place.span, "a field of an entry is changed in `update`");
                Err(self.cx.report(d.hint(hint)))
            }
            Root::Counter(c) => {
                if op != Some(BinOp::Add) || !path.is_empty() {
                    let hint = format!("write `{} += n`", self.code_of(place, "name"));
                    let d = Diagnostic::error("E0708", span, "a counter only counts up");
                    return Err(self.cx.report(d.hint(hint)));
                }
                let n = self.expr_as(value, &U64)?;
                self.impure = true;
                self.push(span, StmtKind::Count(c, n));
                Ok(Val::unit())
            }
            Root::Local(l, ty) => {
                let current = Val::pure(ty.clone(), self.local_expr(l));
                let (ty, e) = self.new_value(current, &path, op, value, span)?;
                self.forget(|k| *k == K::Local(l));
                let result = self.result(&ty, &e, span);
                self.push(
                    span,
                    if path.is_empty() {
                        StmtKind::Set(l, result.clone())
                    } else {
                        StmtKind::SetField(l, indices(&path), result.clone())
                    },
                );
                if self.piece == Some(l) {
                    let changed = self.local_expr(l);
                    self.push(span, StmtKind::SetPiece(changed));
                }
                Ok(Val::pure(ty, result))
            }
            Root::State(id, ty) => {
                let t = self.cx.lower_ty(&ty);
                let current = ir::Expr::new(t, K::State(id));
                self.assign_whole(Val::pure(ty, current), &path, op, value, span)
            }
            Root::Session(id, ty) => {
                let t = self.cx.lower_ty(&ty);
                let current = ir::Expr::new(t, K::Session(id));
                self.assign_whole(Val::pure(ty, current), &path, op, value, span)
            }
        }
    }

    /// The value assigned, kept if the expression goes on being used.
    /// Of a list its items are kept: it is filled where it is to lie.
    fn result(&mut self, ty: &Ty, e: &ir::Expr, span: Span) -> ir::Expr {
        if let (K::MakeList(items), Ty::List(item, _)) = (&*e.kind, ty) {
            let items = items.iter().map(|i| self.result(item, i, span)).collect();
            return ir::Expr::new(e.ty, K::MakeList(items));
        }
        let v = self.once(Val::pure(ty.clone(), e.clone()), span);
        v.kind.into_pure().unwrap_or_else(|| e.clone())
    }

    /// A state or a session value, of which parts are set by setting all of it.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn assign_whole(
        &mut self,
        current: Val,
        path: &[(u32, Ty)],
        op: Option<BinOp>,
        value: &Expr,
        span: Span,
    ) -> R<Val> {
        self.impure = true;
        let (ty, e) = self.new_value(current.clone(), path, op, value, span)?;
        let e = self.result(&ty, &e, span);
        let Vk::Pure(whole) = current.kind else { return Err(Reported) };
        self.forget(|k| *k == *whole.kind);
        let stored = self.replace(whole.clone(), &current.ty, path, e.clone());
        self.push(
            span,
            match *whole.kind {
                K::State(id) => StmtKind::SetState(id, stored),
                K::Session(id) => StmtKind::SetSession(id, stored),
                _ => return Err(Reported),
            },
        );
        // The value of the assignment is the assigned value: `(chosen = x)` is x even if the place
        // is an option.
        match (&ty, &*e.kind) {
            (Ty::Option(t), K::Some(inner)) => Ok(Val::pure((**t).clone(), inner.clone())),
            _ => Ok(Val::pure(ty, e)),
        }
    }

    /// A record with one part replaced.
    fn replace(&mut self, whole: ir::Expr, ty: &Ty, path: &[(u32, Ty)], e: ir::Expr) -> ir::Expr {
        let Some(((at, part_ty), rest)) = path.split_first() else { return e };
        let Ty::Record(r) = ty else { return e };
        let fields = self.cx.records[r.index()].clone();
        let parts = fields
            .iter()
            .enumerate()
            .map(|(i, (_, t))| {
                let part = self.get(&whole, i as u32, t);
                if i as u32 == *at {
                    self.replace(part, part_ty, rest, e.clone())
                } else {
                    part
                }
            })
            .collect();
        ir::Expr::new(whole.ty, K::Make(parts))
    }

    fn new_value(
        &mut self,
        current: Val,
        path: &[(u32, Ty)],
        op: Option<BinOp>,
        value: &Expr,
        span: Span,
    ) -> R<(Ty, ir::Expr)> {
        let mut at = current;
        for (i, t) in path {
            let Vk::Pure(e) = &at.kind else { return Err(Reported) };
            let e = self.get(e, *i, t);
            at = Val::pure(t.clone(), e);
        }
        let ty = at.ty.clone();
        let e = match op {
            None => self.expr_as(value, &ty)?,
            Some(op) => {
                let v = self.expr(value, Some(&ty))?;
                let sum = self.arith(op, at, v, span)?;
                self.coerce(sum, &ty, span)?
            }
        };
        Ok((ty, e))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn place(&mut self, e: &Expr) -> R<(Root, Vec<(u32, Ty)>)> {
        match &*e.kind {
            ExprKind::Name(n) => self.name_place(n).map(|r| (r, vec![])),
            ExprKind::Index(t, key) => match self.table_name(t) {
                Some(t) => Ok((Root::Table(t, key.clone()), vec![])),
                None if self.is_failed(t) => Err(Reported),
                None if self.is_unknown(t) => Err(self.unknown_table(t, false)),
                None => {
                    let v = self.expr(t, None)?;
                    let hint = self.list_as_table(t, &v, false).unwrap_or("only entries of tables can".into());
                    let d = Diagnostic::error("E0313", e.span, "an item cannot be assigned to");
                    Err(self.cx.report(d.hint(hint)))
                }
            },
            ExprKind::Field(Some(base), name) => {
                if let Some((id, ty)) = self.remembered(base, name) {
                    return Ok((Root::Session(id, ty), vec![]));
                }
                if let Some(told) = self.part_of_message(base, name) {
                    return Err(told);
                }
                let (root, mut path) = self.place(base)?;
                let ty = self.place_ty(&root, &path);
                path.push(self.record_field(&ty, name)?);
                Ok((root, path))
            }
            ExprKind::Field(None, name) => {
                let Some(Val { ty, kind: Vk::Pure(x), .. }) = self.dot.clone() else {
                    return Err(self.err(
                        "E0201",
                        e.span,
                        format!("`.{}` has nothing to be a field of here", name.name),
                    ));
                };
                let K::Local(l) = *x.kind else { return Err(self.err("E0313", e.span, "this cannot be assigned to")) };
                let field = self.record_field(&ty, name)?;
                Ok((Root::Local(l, ty), vec![field]))
            }
            ExprKind::Error => Err(Reported),
            _ => Err(self.err("E0313", e.span, "this cannot be assigned to")),
        }
    }

    /// Whether an expression names a part of the app whose declaration has an error.
    fn is_failed(&self, e: &Expr) -> bool {
        let ExprKind::Name(n) = &*e.kind else { return false };
        self.lookup(&n.name).is_none() && matches!(self.cx.app.get(&n.name), Some(AppName::Failed))
    }

    /// Whether an expression is a name that nothing has.
    fn is_unknown(&mut self, e: &Expr) -> bool {
        let ExprKind::Name(n) = &*e.kind else { return false };
        self.lookup(&n.name).is_none()
            && !(self.in_app && self.cx.app.get(&n.name).is_some())
            && self.cx.expr_item(self.module, e).is_none()
    }

    /// The name in the place of a table is no table.
    fn unknown_table(&mut self, e: &Expr, removes: bool) -> Reported {
        if self.is_failed(e) {
            return Reported;
        }
        if let (ExprKind::Name(n), true) = (&*e.kind, self.is_unknown(e)) {
            let known: Vec<String> = if self.in_app { self.cx.app.tables() } else { vec![] };
            return self.cx.unknown(self.module, &n.name, n.span, "table", &known);
        }
        let Ok(v) = self.expr(e, None) else { return Reported };
        let d = Diagnostic::error("E0707", e.span, "this is no table");
        let hint = self.list_as_table(e, &v, removes);
        self.cx.report(match hint {
            Some(hint) => d.hint(hint),
            None => d,
        })
    }

    fn place_ty(&mut self, root: &Root, path: &[(u32, Ty)]) -> Ty {
        match (path.last(), root) {
            (Some((_, t)), _) => t.clone(),
            (None, Root::Local(_, t) | Root::State(_, t) | Root::Session(_, t)) => t.clone(),
            (None, Root::Counter(_)) => U64,
            (None, Root::Table(t, _)) => self.cx.tables[t.index()].value.clone(),
        }
    }

    fn record_field(&mut self, ty: &Ty, name: &Ident) -> R<(u32, Ty)> {
        if let Ty::Record(r) = ty {
            let fields = &self.cx.records[r.index()];
            if let Some(i) = fields.iter().position(|(n, _)| *n == name.name) {
                return Ok((i as u32, fields[i].1.clone()));
            }
        }
        let s = self.show(ty);
        Err(self.err("E0201", name.span, format!("{s} has no field `{}`", name.name)))
    }

    fn name_place(&mut self, n: &Ident) -> R<Root> {
        if let Some((i, j)) = self.lookup(&n.name) {
            let b = &mut self.scopes[i][j];
            b.used = true;
            let (var, ty, span) = (b.var, b.val.ty.clone(), b.span);
            if ty.is_error() {
                return Err(Reported);
            }
            return match var {
                Some(l) => Ok(Root::Local(l, ty)),
                None => Err(self.no_variable(n, matches!(ty, Ty::Msg(_)), span)),
            };
        }
        if self.in_app {
            match self.cx.app.get(&n.name).cloned() {
                Some(AppName::State(id, t)) => return Ok(Root::State(id, t)),
                Some(AppName::Session(id, t)) => {
                    self.needs_client(n.span)?;
                    return Ok(Root::Session(id, t));
                }
                Some(AppName::Counter(c)) => return Ok(Root::Counter(c)),
                Some(AppName::Failed) => return Err(Reported),
                Some(_) => return Err(self.err("E0313", n.span, format!("`{}` cannot be assigned to", n.name))),
                None => {}
            }
        }
        if let Some(d) = self.without_dot(n).or_else(|| self.elsewhere(n)) {
            return Err(self.cx.report(d));
        }
        let extra = self.scopes.iter().flatten().map(|b| b.name.clone()).collect::<Vec<_>>();
        Err(self.cx.unknown(self.module, &n.name, n.span, "variable", &extra))
    }

    pub fn needs_client(&mut self, span: Span) -> R<()> {
        self.impure = true;
        if self.handler.is_some() || self.unused || self.kind == Kind::Func {
            return Ok(());
        }
        Err(self.cx.report(
            Diagnostic::error("E0702", span, "there is no client connection here")
                .label("`session` lives with a client's connection")
                .hint("use `state` or a `table`"),
        ))
    }

    // ---- tables ----

    fn table_key(&mut self, t: ir::TableId, key: &Expr) -> R<ir::Expr> {
        let ty = self.cx.tables[t.index()].key.clone();
        let e = self.expr_as(key, &ty)?;
        let (kind, capacity) = (self.cx.m.tables[t.index()].kind, self.cx.m.tables[t.index()].capacity);
        if kind == ir::TableKind::Array {
            self.index_fits(key, &e, capacity, "entries")?;
        }
        Ok(e)
    }

    pub fn table_get(&mut self, t: ir::TableId, key: &Expr, span: Span) -> R<Val> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.impure = true;
        if self.cx.m.tables[t.index()].kind == ir::TableKind::HyperLogLog {
            self.unmasked(t, span)?;
        }
        let key = self.table_key(t, key)?;
        let ty = self.cx.tables[t.index()].value.clone().option();
        let dst = self.new_local("", &ty);
        self.push(span, StmtKind::TableGet { table: t, key, dst });
        // A sketch has a value for every key.
        let sketch = matches!(self.cx.m.tables[t.index()].kind, ir::TableKind::Bloom | ir::TableKind::CountMin);
        let v = Val::pure(ty, self.local_expr(dst));
        if sketch {
            return Ok(self.inner(v));
        }
        self.recalled(v, span)
    }

    fn assign_table(&mut self, t: ir::TableId, key: &Expr, op: Option<BinOp>, value: &Expr, span: Span) -> R<Val> {
        self.impure = true;
        self.unmasked(t, span)?;
        let key = self.table_key(t, key)?;
        let ty = self.cx.tables[t.index()].value.clone();
        let place = self.place_id(span);
        let Some(op) = op else {
            let value = self.expr_as(value, &ty)?;
            let value = self.result(&ty, &value, span);
            self.push(span, StmtKind::TablePut { table: t, key, value: value.clone(), place });
            return Ok(Val::pure(ty, value));
        };
        let v = self.expr(value, Some(&ty))?;
        let entry = self.new_local("", &ty);
        let current = Val::pure(ty.clone(), self.local_expr(entry));
        let (made, mut body) = self.sub(|s| {
            let sum = s.arith(op, current, v, span)?;
            s.coerce(sum, &ty, span)
        });
        let sp = self.cx.span(span);
        body.push(build::stmt(sp, StmtKind::Set(entry, made?)));
        self.push(span, StmtKind::TableUpdate { table: t, key, entry, body, place });
        Ok(Val::pure(ty, self.local_expr(entry)))
    }

    pub fn remove(&mut self, e: &Expr, span: Span) -> R<()> {
        if self.in_frame(e) {
            return self.remove_header(e, span);
        }
        let ExprKind::Index(t, key) = &*e.kind else {
            return Err(self.err("E0701", e.span, "`remove` takes an entry of a table: `remove table[key]`"));
        };
        let Some(table) = self.table_name(t) else { return Err(self.unknown_table(t, true)) };
        self.impure = true;
        match self.cx.m.tables[table.index()].kind {
            ir::TableKind::Exact | ir::TableKind::Array => {}
            ir::TableKind::Wildcard | ir::TableKind::Lpm => {
                let t = self.table_called(table);
                let hint = format!("write `{t}.delete(key, mask, priority)`, `{t}.delete(prefix)`");
                let d = Diagnostic::error("E0709", span, "an entry of this table has a mask");
                return Err(self.cx.report(d.hint(hint)));
            }
            ir::TableKind::Ring => {
                let hint = format!("write `{}.pop()`", self.table_called(table));
                let d = Diagnostic::error("E0709", span, "only the oldest value of a ring is taken");
                return Err(self.cx.report(d.hint(hint)));
            }
            ir::TableKind::Bloom | ir::TableKind::CountMin | ir::TableKind::HyperLogLog => {
                return Err(self.err("E0709", span, "nothing is removed from a sketch"))
            }
        }
        let key = self.table_key(table, key)?;
        self.push(span, StmtKind::TableRemove { table, key, dst: None });
        Ok(())
    }

    pub fn update(&mut self, entry: &Expr, body: &Block, span: Span) -> R<()> {
        let ExprKind::Index(t, key) = &*entry.kind else {
            return Err(self.err("E0701", entry.span, "`update` takes an entry of a table: `update table[key] { … }`"));
        };
        let Some(table) = self.table_name(t) else { return Err(self.unknown_table(t, false)) };
        self.unmasked(table, span)?;
        if super::stmts::has_call(body) {
            return Err(self.err("E0710", span, "an entry cannot be held over a call"));
        }
        self.impure = true;
        let key = self.table_key(table, key)?;
        let ty = self.cx.tables[table.index()].value.clone();
        let local = self.new_local("entry", &ty);
        let value = Val::pure(ty, self.local_expr(local));
        let outer = self.dot.replace(value);
        let held = self.held.replace((self.loops, self.returned()));
        let (made, block) = self.sub(|s| s.block(body, Some(&Ty::Unit)));
        self.held = held;
        self.dot = outer;
        made?;
        let place = self.place_id(span);
        self.push(span, StmtKind::TableUpdate { table, key, entry: local, body: block, place });
        Ok(())
    }

    /// Names of the app: parameters, ports, state.
    pub fn app_name(&mut self, n: &Ident) -> Option<R<Val>> {
        let found = self.cx.app.get(&n.name).cloned()?;
        Some(match found {
            AppName::Param(_, Ty::List(of, _)) if *of == Ty::Endpoint => {
                let d = Diagnostic::error("E0615", n.span, format!("`{}` is a list for ports, and no value", n.name));
                self.cx.report(d.hint("`len(port)` is the number of a port's servers, `port[i]` one of them"));
                Err(Reported)
            }
            AppName::Param(id, ty) => {
                let t = self.cx.lower_ty(&ty);
                Ok(Val::pure(ty, ir::Expr::new(t, K::Param(id))))
            }
            AppName::Port(p) => Ok(self.own_handle(p).unwrap_or_else(|| Val::of(Ty::Port(p)))),
            AppName::State(id, ty) => {
                self.impure = true;
                let t = self.cx.lower_ty(&ty);
                Ok(Val::pure(ty, ir::Expr::new(t, K::State(id))))
            }
            AppName::Session(id, ty) => match self.needs_client(n.span) {
                Err(r) => Err(r),
                Ok(()) => {
                    let t = self.cx.lower_ty(&ty);
                    Ok(Val::pure(ty, ir::Expr::new(t, K::Session(id))))
                }
            },
            AppName::Upstream(_) => {
                let text = format!("`{}` is a connection, no value", n.name);
                Err(self.cx.report(Diagnostic::error("E0697", n.span, text).hint("messages are sent on it: `m -> up`")))
            }
            AppName::Counter(c) => {
                self.impure = true;
                Ok(Val::pure(U64, ir::Expr::new(T_U64, K::Counter(c))))
            }
            AppName::Table(t) => {
                self.impure = true;
                Ok(Val::of(Ty::Table(t)))
            }
            AppName::Const(v) => Ok(v),
            AppName::Fn(f) => match self.of_message_at_hand(&f, n.span) {
                Some(v) => v,
                None => Err(self.err("E0301", n.span, format!("`{}` is a function: call it", n.name))),
            },
            AppName::FunctionArg(g) => match self.given_at_hand(&g, n.span) {
                Some(v) => v,
                None => Err(self.err("E0301", n.span, format!("`{}` is a function: call it", n.name))),
            },
            AppName::Instance(_) => Err(self.err("E0301", n.span, format!("`{}` is an element, no value", n.name))),
            AppName::Type(_) => Err(self.err("E0301", n.span, format!("`{}` is a type, no value", n.name))),
            AppName::Messages(_) => {
                let text = format!("`{}` is a queue, no value: `pop`, `discard` and `len` ask it", n.name);
                Err(self.err("E0301", n.span, text))
            }
            AppName::Cache(_) => Err(self.cache_as_value(n)),
            AppName::Gauge(_) => Err(self.err(
                "E0301",
                n.span,
                format!("`{}` is no value: `take` from a limiter, `mark` by a meter", n.name),
            )),
            AppName::Failed => Err(Reported),
        })
    }
}

fn indices(path: &[(u32, Ty)]) -> Vec<u32> {
    path.iter().map(|(i, _)| *i).collect()
}
