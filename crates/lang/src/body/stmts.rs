//! Statements.

use super::destination::Sink;
use super::{Kind, Lower, Replied, Ret};
use crate::compiler::{Reported, R};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::{Val, Vk};
use ir::{FaultKind, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Block, Expr, ExprKind, Pattern, Span, Stmt, StmtKind as S};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    /// Lowers a statement; true if control does not go on after it.
    pub fn stmt(&mut self, s: &Stmt) -> R<bool> {
        self.aside(|l| l.stmt_here(s))
    }

    /// The same for one that may end a way through the handler.
    pub fn stmt_here(&mut self, s: &Stmt) -> R<bool> {
        self.deeper(s.span, |l| l.stmt_kind(s))
    }

    fn stmt_kind(&mut self, s: &Stmt) -> R<bool> {
        let span = s.span;
        match &s.kind {
            S::Let { pattern, ty, value } => self.let_(pattern, ty.as_ref(), value),
            S::Var { name, ty, value } => self.var(name, ty.as_ref(), value),
            S::Assign { place, op, value } => self.assign(place, *op, value, span).map(|v| v.is_never()),
            S::Expr(e) => {
                let v = self.expr_may_leave(e, Some(&Ty::Unit))?;
                if v.ty.is_plain() && !matches!(v.ty, Ty::Unit | Ty::Never | Ty::Error) {
                    let d = Diagnostic::warning("W0905", e.span, "this value is not used")
                        .label("computed in vain")
                        .hint("bind it with `let`, or remove it");
                    self.cx.report(d);
                }
                Ok(v.is_never())
            }
            S::For { pattern, list, body } => {
                self.for_stmt(pattern, list, body, span)?;
                Ok(false)
            }
            S::Loop { max, body } => {
                self.loop_stmt(max, body, span)?;
                Ok(false)
            }
            S::Break | S::Continue => {
                if self.loops == 0 || matches!(&self.ret, Ret::Inline { loops, .. } if *loops == self.loops) {
                    return Err(self.err("E0312", span, "there is no loop around"));
                }
                if self.held.is_some_and(|h| h.0 == self.loops) {
                    return Err(self.while_held(span, "leaves a loop"));
                }
                self.push(span, if s.kind == S::Break { StmtKind::Break } else { StmtKind::Continue });
                Ok(true)
            }
            S::Return(e) => {
                self.return_(e.as_ref(), span)?;
                Ok(true)
            }
            S::Send { value, to } => {
                self.send(value, to, span)?;
                Ok(false)
            }
            S::Reply { value, close } => self.reply(value.as_ref(), *close, span),
            S::Fault(name) => {
                if self.pure_only() {
                    return Err(self.involved(span));
                }
                let kind = self.cx.fault_kind(self.module, name)?;
                let place = self.place_id(span);
                self.push(span, StmtKind::Fault { kind, place });
                Ok(true)
            }
            S::Remove(e) => {
                self.remove(e, span)?;
                Ok(false)
            }
            S::RemoveWhere { .. } | S::Append { .. } => {
                self.edit_stmt(s)?;
                Ok(false)
            }
            S::Insert { parts, before, at } => {
                self.insert_header(parts, *before, at, span)?;
                Ok(false)
            }
            S::Drop(e) if self.drop_body(e, span) => Ok(false),
            S::Drop(e) => {
                self.drop_frame(e)?;
                Ok(false)
            }
            S::Update { entry, body } => {
                self.update(entry, body, span)?;
                Ok(false)
            }
            S::Write { entry, by, body } => self.write_block(entry, by.as_ref(), body, span),
            S::Uncached { cache, by, body } => self.uncached(cache, by.as_ref(), body, span),
            S::Answered { entry, by, body, other } => self.answered(entry, by, (body, other.as_ref()), span),
            S::Forget(cache) => self.forget_all(cache, span).map(|()| false),
            S::Open { place, target, key } => self.open_upstream(place, target, key.as_ref(), span).map(|()| false),
            S::Take { place, target } => self.take_upstream(place, target, span).map(|()| false),
            S::Pool { place, key } => self.pool_upstream(place, key, span).map(|()| false),
            S::Become { protocol, members, rest } => {
                self.become_protocol(protocol, (members, *rest), span).map(|()| false)
            }
            S::Hold { member, on } => self.hold(member, *on, span).map(|()| false),
            S::Close(e) => {
                self.close(e, span)?;
                Ok(false)
            }
            S::Log(es) => {
                if self.pure_only() {
                    return Err(self.involved(span));
                }
                self.impure = true;
                let mut args = Vec::new();
                for e in es {
                    let v = self.expr(e, None)?;
                    let v = self.defined(v, e.span)?;
                    args.push(self.logged(v, e.span)?);
                }
                self.push(span, StmtKind::Log(args));
                Ok(false)
            }
            S::Control { word, start } => self.control(word, start, span).map(|()| false),
            S::InC(c) => self.in_c(c, span).map(|()| false),
            S::Expect(e) => {
                if self.kind != Kind::Test {
                    return Err(self.err("E0309", span, "`expect` is for tests"));
                }
                let c = self.cond(e)?;
                let place = self.place_id(span);
                self.know(c.clone());
                self.assume(&c, true);
                self.push(span, StmtKind::Require { cond: c, kind: FaultKind::EXPECT, place });
                Ok(false)
            }
        }
    }

    /// A value as a log shows it: addresses as addresses, enums and faults by their names.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn logged(&mut self, v: Val, span: Span) -> R<ir::Expr> {
        let t = match self.settled(&v.ty) {
            Ty::Ip4 | Ty::Ip6 => Ty::Ip,
            t => t,
        };
        let e = self.coerce(v, &t, span)?;
        let names: Vec<(String, u64)> = match &t {
            Ty::Mac => return Ok(self.mac_text(e)),
            Ty::Enum(id) => self.cx.m.enums[id.index()].variants.clone(),
            Ty::Fault => {
                let own = self.cx.m.faults.iter().enumerate();
                let own = own.map(|(i, f)| (f.name.clone(), i as u64 + u64::from(ir::FaultKind::USER)));
                let others = crate::compiler::BUILTIN_FAULTS.iter().map(|(n, k)| (n.to_string(), k.0.into()));
                others.chain(own).collect()
            }
            _ => return self.has_text(e, &t, span),
        };
        let v = self.once(Val::pure(t, e), span);
        let Vk::Pure(e) = v.kind else { return Err(Reported) };
        let most = names.iter().map(|(n, _)| n.len() as u64).max().unwrap_or(0).max(20);
        let text = self.cx.lower_ty(&Ty::Bytes(most));
        let number = build::cast(crate::compiler::T_U64, e.clone());
        let unnamed = build::builtin(text, ir::Builtin::TextU64, vec![number]);
        Ok(names.into_iter().rev().fold(unnamed, |other, (name, n)| {
            let is = build::cmp(ir::BinOp::Eq, e.clone(), build::int(e.ty, n.into()));
            build::if_(text, is, ir::Expr::new(text, ir::ExprKind::Bytes(name.into_bytes())), other)
        }))
    }

    fn has_text(&mut self, e: ir::Expr, t: &Ty, span: Span) -> R<ir::Expr> {
        match self.cx.m.types.get(e.ty.index()) {
            Some(ir::Ty::Bytes(_) | ir::Ty::Bool | ir::Ty::Ip | ir::Ty::Endpoint) => Ok(e),
            Some(ir::Ty::UInt(bits) | ir::Ty::Int(bits)) if *bits <= 64 => Ok(e),
            _ => {
                let s = self.show(t);
                Err(self.err("E0301", span, format!("{s} has no text form")))
            }
        }
    }

    /// A statement where a value is expected: it leaves, or is an assignment, whose value is the
    /// assigned one.
    pub fn stmt_value(&mut self, s: &Stmt) -> R<Val> {
        if let S::Assign { place, op, value } = &s.kind {
            return self.assign(place, *op, value, s.span);
        }
        Ok(if self.stmt_alone(s)? { Val::never() } else { Val::unit() })
    }

    fn let_(&mut self, pattern: &Pattern, ty: Option<&ast::Type>, value: &Expr) -> R<bool> {
        let made = self.let_value(pattern, ty, value);
        match made {
            Ok((v, _)) if v.is_never() => {
                self.bind_errors(pattern);
                Ok(true)
            }
            Ok((v, state)) => {
                let before = self.scopes.last().map_or(0, Vec::len);
                self.destructure(pattern, v, value.span)?;
                if let (true, Some(scope)) = (state, self.scopes.last_mut()) {
                    scope[before..].iter_mut().for_each(|b| b.state = true);
                }
                Ok(false)
            }
            Err(r) => {
                self.bind_errors(pattern);
                Err(r)
            }
        }
    }

    fn let_value(&mut self, pattern: &Pattern, ty: Option<&ast::Type>, value: &Expr) -> R<(Val, bool)> {
        let want = ty.map(|t| self.cx.ty(self.module, t)).transpose()?;
        let at = self.out.len();
        let v = self.expr_may_leave(value, want.as_ref())?;
        if v.is_never() {
            return Ok((v, false));
        }
        let state = self.reads_state(&v, at);
        if v.ty == Ty::Unit {
            let mut d = Diagnostic::error("E0301", value.span, "this has no value to bind");
            if matches!(&*value.kind, ExprKind::Else(_, other) if matches!(&*other.kind, ExprKind::Block(_))) {
                d = d
                    .label("the block behind `else` gives none, and the handler goes on behind it")
                    .hint("end the block with `return`");
            }
            return Err(self.cx.report(d));
        }
        let name = match pattern {
            Pattern::Name(n) => n.name.as_str(),
            Pattern::Any(_) | Pattern::Tuple(..) | Pattern::Value(_) | Pattern::Variant { .. } | Pattern::Or(..) => "",
        };
        let v = match want {
            Some(t) => {
                let caseless = v.caseless;
                let e = self.coerce(v, &t, value.span)?;
                if self.pure_only() {
                    Val { caseless, ..Val::pure(t, e) }
                } else {
                    let l = self.temp(name, &t, e, value.span);
                    Val { caseless, ..Val::pure(t, self.local_expr(l)) }
                }
            }
            None => self.keep(v, name, value.span)?,
        };
        Ok((v, state))
    }

    /// A value bound to a name: data is computed now, messages are reached in place.
    fn keep(&mut self, v: Val, name: &str, span: Span) -> R<Val> {
        // A value computed from headers is computed now: they may be changed before it is used.
        let v = if self.is_computed(&v) {
            let known = self.is_there(&v).is_some_and(|c| self.proven(&c));
            if known {
                self.inner(v)
            } else {
                let t = v.ty.clone();
                let e = self.coerce(v, &t, span)?;
                Val::pure(t, e)
            }
        } else {
            v
        };
        let Vk::Pure(e) = &v.kind else { return Ok(v) };
        // Constants keep the freedom of their width; tuples keep their parts.
        if v.ty == Ty::Lit || v.ty == Ty::None || self.pure_only() || crate::consts::is_literal(e) && v.ty.is_int() {
            return Ok(v);
        }
        let t = self.decided(&v.ty, span)?;
        let caseless = v.caseless;
        let e = self.coerce(v, &t, span)?;
        let l = self.temp(name, &t, e, span);
        Ok(Val { caseless, ..Val::pure(t, self.local_expr(l)) })
    }

    /// Whether a value was read from state or a table, by its expression or the statements made for
    /// it.
    fn reads_state(&self, v: &Val, at: usize) -> bool {
        let mut hit = self.out.get(at..).unwrap_or(&[]).iter().any(|s| matches!(s.kind, StmtKind::TableGet { .. }));
        if let Vk::Pure(e) = &v.kind {
            ir::walk::expr(e, &mut |e| hit |= matches!(&*e.kind, ir::ExprKind::State(_)));
        }
        hit
    }

    pub(super) fn bind_errors(&mut self, p: &Pattern) {
        match p {
            Pattern::Name(n) => self.bind_all(&[(n.clone(), Val::error())]),
            Pattern::Tuple(ps, _) | Pattern::Or(ps, _) => ps.iter().for_each(|p| self.bind_errors(p)),
            Pattern::Variant { bind: Some(p), .. } => self.bind_errors(p),
            Pattern::Any(_) | Pattern::Value(_) | Pattern::Variant { .. } => {}
        }
    }

    fn var(&mut self, name: &ast::Ident, ty: Option<&ast::Type>, value: &Expr) -> R<bool> {
        if self.pure_only() {
            return Err(self.involved(name.span));
        }
        let made = (|| {
            let want = ty.map(|t| self.cx.ty(self.module, t)).transpose()?;
            let v = self.expr_may_leave(value, want.as_ref())?;
            if v.is_never() {
                return Ok((Ty::Never, None));
            }
            let t = match want {
                Some(t) => t,
                None => {
                    let t = self.decided(&v.ty, value.span)?;
                    self.may_grow(&name.name, &t, value.span)?;
                    t
                }
            };
            Ok((t.clone(), Some(self.coerce(v, &t, value.span)?)))
        })();
        match made {
            Ok((_, None)) => Ok(true),
            Ok((t, Some(e))) => {
                let l = self.temp(&name.name, &t, e, name.span);
                self.bounds.remove(&l);
                let e = self.local_expr(l);
                self.bind_full(name, Val::pure(t, e), Some(l), false);
                Ok(false)
            }
            Err(r) => {
                self.bind_all(&[(name.clone(), Val::error())]);
                Err(r)
            }
        }
    }

    fn return_(&mut self, e: Option<&Expr>, span: Span) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        if self.held.is_some_and(|h| h.1 == self.returned()) {
            return Err(self.while_held(span, "returns"));
        }
        match self.ret.clone() {
            Ret::Nowhere => match e {
                None => {
                    self.ends(span);
                    self.push(span, StmtKind::Return(None));
                    Ok(())
                }
                Some(e) => Err(self.cx.report(
                    Diagnostic::error("E0301", e.span, "nothing takes a value here")
                        .hint("a handler answers with `reply`"),
                )),
            },
            Ret::Body(t) => {
                let v = match e {
                    Some(e) => Some(self.expr_as(e, &t)?),
                    None if t == Ty::Unit => None,
                    None => {
                        let s = self.show(&t);
                        return Err(self.err("E0301", span, format!("`return` needs {s}")));
                    }
                };
                self.push(span, StmtKind::Return(v));
                Ok(())
            }
            Ret::Inline { result, ty, done, loops, sink, element } => {
                if element && !self.copy {
                    self.ends(span);
                }
                match (e, &sink, result) {
                    (Some(e), Some(sink), _) => {
                        self.deliver(e, &sink.clone())?;
                    }
                    (Some(e), None, Some(l)) => {
                        let x = self.expr_as(e, &ty)?;
                        self.push(span, StmtKind::Set(l, x));
                    }
                    (Some(e), None, None) => {
                        let v = self.expr_may_leave(e, Some(&Ty::Unit))?;
                        if v.ty != Ty::Unit && !v.is_never() {
                            return Err(self.err("E0301", e.span, "this function gives no value"));
                        }
                    }
                    (None, None, None) => {}
                    (None, ..) => {
                        let s = self.show(&ty);
                        return Err(self.err("E0301", span, format!("`return` needs {s}")));
                    }
                }
                if self.loops > loops {
                    self.push(span, StmtKind::Set(done, build::boolean(true)));
                }
                self.push(span, StmtKind::Break);
                Ok(())
            }
        }
    }

    /// A way of a handler ends: the request must have been answered.
    pub fn ends(&mut self, span: Span) {
        let Some(h) = self.handler else { return };
        if self.kind != Kind::Handler || h.one_way || h.no_reply || self.failed || self.replied == Replied::Yes {
            return;
        }
        let text = if self.replied == Replied::Maybe { "on some ways" } else { "here" };
        let d = Diagnostic::error("E0601", span, format!("the request is not answered {text}"))
            .label("the handler ends without `reply`")
            .hint("every way through the handler must `reply` once, or `reply nothing`");
        self.cx.report(d);
    }

    /// After a loop: leaves further if the inlined body around has returned inside.
    pub fn after_loop(&mut self, span: Span) {
        if let Ret::Inline { done, loops, .. } = self.ret.clone() {
            let sp = self.cx.span(span);
            let cond = self.local_expr(done);
            // At the body's own level one `break` leaves it; inside further loops the next one
            // repeats this. Out of an `update` nothing returns.
            let held = self.held == Some((self.loops, Some(done)));
            if self.loops >= loops && !held {
                self.push(span, StmtKind::If { cond, then: vec![build::stmt(sp, StmtKind::Break)], other: vec![] });
            }
        }
    }

    fn for_stmt(&mut self, pattern: &Pattern, list: &Expr, body: &Block, span: Span) -> R<()> {
        let replied = self.replied;
        let calls = has_call(body);
        if calls {
            self.epoch += 1;
        }
        let returns = super::calls::has_return(body);
        self.each(pattern, list, span, |s| s.block(body, Some(&Ty::Unit)).map(|_| ()))?;
        if calls {
            self.epoch += 1;
        }
        self.loop_replied(replied, span);
        if returns {
            self.after_loop(span);
        }
        Ok(())
    }

    fn loop_replied(&mut self, before: Replied, span: Span) {
        if self.replied != before {
            let d = Diagnostic::error("E0602", span, "a `reply` in a loop may answer more than once")
                .hint("leave the handler with `return` after it");
            self.cx.report(d);
        }
    }

    fn loop_stmt(&mut self, max: &Expr, body: &Block, span: Span) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        if let ast::ExprKind::Name(n) = &*max.kind {
            if self.lookup(&n.name).is_some() {
                let d =
                    Diagnostic::error("E0505", n.span, format!("`{}` is no constant, so it bounds no loop", n.name))
                        .label("known only when it runs");
                return Err(self.cx.report(d.hint(format!("give the most rounds, and leave: `loop max 100 {{ if i == {} {{ break }} … }}`; or `for i in 0..min({}, 100)`", n.name, n.name))));
            }
        }
        let max = self.cx.const_size(self.module, max)?;
        let replied = self.replied;
        let calls = has_call(body);
        if calls {
            self.epoch += 1;
        }
        self.loops += 1;
        let (made, block) = self.looped(|_| false, |_| (), |s| s.block(body, Some(&Ty::Unit)));
        self.loops -= 1;
        made?;
        if max > 0 {
            self.push(span, StmtKind::Loop { max, body: block });
        }
        if calls {
            self.epoch += 1;
        }
        self.loop_replied(replied, span);
        if super::calls::has_return(body) {
            self.after_loop(span);
        }
        Ok(())
    }

    fn close(&mut self, e: &Expr, span: Span) -> R<()> {
        if let Some(upstream) = self.upstream_named(e) {
            self.in_conversation(e.span)?;
            self.push(span, StmtKind::CloseUpstream(upstream));
            return Ok(());
        }
        if let Some(handles) = self.handles(e)? {
            self.impure = true;
            self.push(span, StmtKind::Dismiss(handles));
            return Ok(());
        }
        let p = self.port_arg(e)?;
        if self.handler.is_none_or(|h| h.port != p) {
            return Err(self.cx.report(
                Diagnostic::error("E0603", e.span, "only the client's own connection can be closed")
                    .hint("in its handler: `close client`"),
            ));
        }
        self.push(span, StmtKind::Close);
        Ok(())
    }

    fn reply(&mut self, value: Option<&Expr>, close: bool, span: Span) -> R<bool> {
        let Some(e) = value else {
            self.mark_replied(span)?;
            self.push(span, StmtKind::Reply { msg: ir::Outgoing::Nothing, close });
            return Ok(false);
        };
        let sink = Sink::Reply { close, span };
        Ok(self.deliver(e, &sink)?.is_never())
    }

    pub fn mark_replied(&mut self, span: Span) -> R<()> {
        if !matches!((self.kind, self.handler), (Kind::Handler, Some(_)) | (Kind::OnFault, _)) {
            return Err(self.cx.report(
                Diagnostic::error("E0603", span, "there is no request to answer here")
                    .hint("`reply` belongs into the handler of a listening port"),
            ));
        }
        if self.kind != Kind::OnFault && self.converses() {
            let d = Diagnostic::error("E0697", span, "a conversation has no requests to answer")
                .label("there is nothing to reply to")
                .hint("send a message to the client: `m -> client`");
            return Err(self.cx.report(d));
        }
        if self.handler.is_some_and(|h| h.one_way) {
            return Err(self.err("E0604", span, "this protocol has no answers"));
        }
        if self.copy {
            return Err(self.cx.report(
                Diagnostic::error("E0602", span, "a copy of a request is not answered")
                    .label("`tee` sends a copy here")
                    .hint("the way behind `tee` answers"),
            ));
        }
        match self.replied {
            Replied::No => {
                self.replied = Replied::Yes;
                Ok(())
            }
            _ if self.failed => Ok(()),
            Replied::Yes | Replied::Maybe => Err(self.cx.report(
                Diagnostic::error("E0602", span, "the request may already have been answered")
                    .label("a second `reply`")
                    .hint("every way through the handler answers once"),
            )),
        }
    }
}

/// Whether a block makes a call, directly.
pub fn has_call(b: &Block) -> bool {
    let text = format!("{b:?}");
    ["Call1 {", "CallAll {", "CallEach {"].iter().any(|k| text.contains(k))
}
