//! Protocols: the units of requests and answers, the conditions over connections in their heads,
//! and the answer to a client after a fault.
//!
//! Where a program passes a message on, `body::edits` lowers `forward` blocks. This file only
//! records that they exist.

use crate::body::{HandlerCtx, Kind, Lower};
use crate::compiler::{Compiler, Reported, R, T_BOOL};
use crate::ir_builder as build;
use crate::items::ProtocolInfo;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::{Outgoing, Val, Vk};
use ir::{ExprKind as K, Root};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, ClauseKind, Expr, FlagKind, Ident, SharingKind, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn protocol_item(&mut self, module: ModId, p: &ast::Protocol, item: &Rc<ast::Item>) -> R<ir::ProtocolId> {
        let mut request = None;
        let mut response = None;
        for c in &p.clauses {
            match &c.kind {
                ClauseKind::Request(t) => self.once_clause(&mut request, module, t, c.span)?,
                ClauseKind::Response(t, _) | ClauseKind::Down(t, _) => {
                    self.once_clause(&mut response, module, t, c.span)?
                }
                ClauseKind::Up(t, _) => self.once_clause(&mut request, module, t, c.span)?,
                _ => {}
            }
        }
        self.repeated_clauses(p);
        let talks = self.conversation_clauses(p)?;
        let Some(request) = request else {
            return Err(self.report(
                Diagnostic::error("E0612", p.name.span, format!("protocol `{}` has no `request`", p.name.name))
                    .hint("write `request Unit`"),
            ));
        };
        let owner = self.names.modules[module].name.clone();
        let name = if owner == p.name.name { owner } else { format!("{owner}.{}", p.name.name) };
        let no_reply = p.clauses.iter().any(|c| matches!(c.kind, ClauseKind::Flag { flag: FlagKind::NoReply, .. }));
        let stateless = talks || p.clauses.iter().any(|c| matches!(c.kind, ClauseKind::Stateless));
        let id = ir::ProtocolId(self.m.protocols.len() as u32);
        let sharing = if talks { ir::desc::Sharing::Session } else { ir::desc::Sharing::Exclusive };
        let protocol = ir::Protocol::new(name, request, sharing);
        let server_first = p.clauses.iter().find(|c| matches!(c.kind, ClauseKind::ServerFirst));
        if let Some(c) = server_first.filter(|_| !talks) {
            self.no_greeting_here(c.span);
        }
        let server_first = server_first.is_some() && talks;
        self.m.protocols.push(ir::Protocol { response, server_first, ..protocol });
        let asked = (0, vec![]);
        self.protocols.push(ProtocolInfo {
            module,
            ast: item.clone(),
            request,
            response,
            no_reply,
            stateless,
            asked,
            sessions: vec![],
            probe: None,
            reset: None,
        });
        if talks {
            self.protocols[id.index()].sessions = self.protocol_sessions(module, p)?;
        } else {
            self.request_takes_nothing(request, p.name.span);
        }
        // The answer to a fault depends on the request, by the parameters of the response's unit.
        let (last, first): (Vec<_>, Vec<_>) =
            p.clauses.iter().partition(|c| matches!(c.kind, ClauseKind::OnFault { .. }));
        for c in first.into_iter().chain(last) {
            let made = self.clause(module, id, c);
            self.settle(made, c.span);
        }
        self.private_of_one(id, p);
        self.resets_wholly(id, p);
        if let Some(u) = response {
            self.default_args(id, u, p);
            self.order_is_no_match(id, u, p);
        }
        if self.m.protocols[id.index()].interim.is_some() {
            let made = self.on_interim(module, id, p);
            self.settle(made, p.name.span);
        }
        Ok(id)
    }

    /// Connections that all clients share cannot become one client's.
    fn private_of_one(&mut self, id: ir::ProtocolId, p: &ast::Protocol) {
        let private = p.clauses.iter().find(|c| {
            matches!(c.kind, ClauseKind::Flag { flag: FlagKind::PrivateRequest | FlagKind::PrivateResponse, .. })
        });
        if let (Some(c), ir::desc::Sharing::Pipelined) = (private, self.m.protocols[id.index()].sharing) {
            self.report(
                Diagnostic::error(
                    "E0612",
                    c.span,
                    "all clients share the connections of this protocol: none can become one client's own",
                )
                .hint("with `private`, `sharing exclusive`"),
            );
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn once_clause(&mut self, into: &mut Option<ir::UnitId>, module: ModId, t: &ast::Type, span: Span) -> R<()> {
        if into.is_some() {
            return Err(self.error("E0612", span, "this is said twice"));
        }
        match self.ty(module, t)? {
            Ty::Msg(u) => {
                *into = Some(u);
                Ok(())
            }
            Ty::Error => Err(Reported),
            t2 => {
                let s = self.show(&t2);
                Err(self.error("E0612", t.span, format!("a message is a unit, not {s}")))
            }
        }
    }

    fn request_takes_nothing(&mut self, u: ir::UnitId, span: Span) {
        if !self.units[u.index()].params.is_empty() {
            self.error("E0612", span, "the unit of a request has no parameters: a sender could not give them");
        }
    }

    fn clause(&mut self, module: ModId, id: ir::ProtocolId, c: &ast::Clause) -> R<()> {
        let (request, response) = (self.protocols[id.index()].request, self.protocols[id.index()].response);
        let i = id.index();
        match &c.kind {
            // Lowered where they are needed: with each message that is passed on, before each
            // handler.
            ClauseKind::Request(_)
            | ClauseKind::Session { .. }
            | ClauseKind::Sharing(SharingKind::Session)
            | ClauseKind::Forward { .. }
            | ClauseKind::Stateless
            | ClauseKind::ServerFirst
            | ClauseKind::OnRequest { .. } => Ok(()),
            ClauseKind::Response(_, args) => self.args_clause(module, id, args, c.span),
            ClauseKind::Up(_, args) => {
                let all = self.session_args(module, id, request, args, c.span)?;
                self.m.protocols[i].request_args = all;
                Ok(())
            }
            ClauseKind::Down(_, args) => {
                let all = self.session_args(module, id, response.ok_or(Reported)?, args, c.span)?;
                self.m.protocols[i].response_args = all;
                Ok(())
            }
            ClauseKind::Order { by: None } => Ok(()),
            ClauseKind::Order { by: Some(f) } => self.order_by(id, f),
            ClauseKind::Sharing(kind) => {
                let pipelined = *kind == SharingKind::Pipelined;
                self.shares_without_state(id, c.span, pipelined);
                self.m.protocols[i].sharing =
                    if pipelined { ir::desc::Sharing::Pipelined } else { ir::desc::Sharing::Exclusive };
                Ok(())
            }
            ClauseKind::Flag { flag, when } => {
                let of_request = matches!(
                    flag,
                    FlagKind::CloseRequest
                        | FlagKind::Owes
                        | FlagKind::Unfinished
                        | FlagKind::NoReply
                        | FlagKind::Alone
                        | FlagKind::Repeat
                        | FlagKind::Pipeline
                        | FlagKind::PrivateRequest
                );
                let unit = if of_request { Some(request) } else { response };
                let Some(unit) = unit else { return Err(self.error("E0612", c.span, "this protocol has no response")) };
                let name = match (self.is_session(id), of_request) {
                    (false, true) => "request",
                    (false, false) => "response",
                    (true, true) => "up",
                    (true, false) => "down",
                };
                let e = self.flag(module, unit, name, when)?;
                let p = &mut self.m.protocols[i];
                let slot = match flag {
                    FlagKind::CloseRequest => &mut p.close_request,
                    FlagKind::CloseResponse => &mut p.close_response,
                    FlagKind::Interim => &mut p.interim,
                    FlagKind::Tunnel => &mut p.tunnel,
                    FlagKind::Refusal => &mut p.refusal,
                    FlagKind::Idle => &mut p.idle,
                    FlagKind::Reset => &mut p.reset,
                    FlagKind::Owes => &mut p.owes,
                    FlagKind::Unfinished => &mut p.unfinished,
                    FlagKind::Settles => &mut p.settles,
                    FlagKind::NoReply => &mut p.no_reply,
                    FlagKind::Alone => &mut p.alone,
                    // Asked of each request where it is sent (`response_args`); here it is only
                    // checked.
                    FlagKind::Pipeline => return Ok(()),
                    FlagKind::Repeat => &mut p.repeat,
                    FlagKind::PrivateRequest => &mut p.private_request,
                    FlagKind::PrivateResponse => &mut p.private_response,
                };
                // Several of one kind: any of them.
                *slot = Some(match slot.take() {
                    Some(old) => build::or(old, e),
                    None => e,
                });
                Ok(())
            }
            ClauseKind::Chunks { response: of_response, case, when } => {
                let unit = if *of_response { response.ok_or(Reported)? } else { request };
                if self.units[unit.index()].member(&case.name).is_none_or(|m| m.cases.is_empty()) {
                    return Err(self.error("E0612", case.span, format!("`{}` is no case of the message", case.name)));
                }
                let e = self.flag(module, unit, if *of_response { "response" } else { "request" }, when)?;
                let p = &mut self.m.protocols[i];
                *(if *of_response { &mut p.chunks_response } else { &mut p.chunks_request }) = Some(e);
                Ok(())
            }
            ClauseKind::Expects { text, when } => {
                let e = self.flag(module, request, "request", when)?;
                self.m.protocols[i].expects = Some((text.clone(), e));
                Ok(())
            }
            // Asked where a request is sent; here it is only checked.
            ClauseKind::Refuse { kind, when } => {
                self.fault_kind(module, kind)?;
                let mut l = Lower::new(self, module, Kind::Func);
                let msg = l.new_local("request", &Ty::Msg(request));
                let ident = |n: &str| Ident { name: n.into(), span: when.span };
                let received = Val::pure(Ty::Bool, build::boolean(true));
                let request = Val::path(Ty::Msg(request), build::msg(msg));
                l.bind_all(&[(ident("request"), request), (ident(crate::body::protocol_clauses::RECEIVED), received)]);
                l.cond(when).map(|_| ())
            }
            ClauseKind::Matches { values, when } => self.matches(module, id, values, when, c.span),
            ClauseKind::Log(columns) => self.columns(module, id, columns, c.span),
            ClauseKind::Status(e) => self.status(module, response, e, c.span),
            ClauseKind::Class { name, when } => {
                let Some(unit) = response else {
                    return Err(self.error("E0612", c.span, "this protocol has no response"));
                };
                if name.name.is_empty() || !name.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                    return Err(self.error("E0612", name.span, "the name of a class has letters, digits and `_`"));
                }
                if self.m.protocols[i].classes.contains(&name.name) {
                    return Err(self.error("E0612", name.span, "this is said twice"));
                }
                if self.m.protocols[i].classes.len() == ir::Protocol::MOST_CLASSES {
                    return Err(self.error(
                        "E0612",
                        c.span,
                        format!("a protocol has at most {} classes of answers", ir::Protocol::MOST_CLASSES),
                    ));
                }
                self.flag(module, unit, "response", when)?;
                self.m.protocols[i].classes.push(name.name.clone());
                Ok(())
            }
            ClauseKind::Ignore { bytes, max } => self.ignore(module, id, bytes, max, c.span),
            ClauseKind::OnProbe { body } => self.on_probe(module, id, body, c.span),
            ClauseKind::OnReset { body } => self.on_reset(module, id, body, c.span),
            ClauseKind::OnFault { name, body } => self.on_fault(module, id, name, body),
        }
    }

    /// `log`: what of a request its line in the access log shows.
    fn columns(&mut self, module: ModId, id: ir::ProtocolId, columns: &[Expr], span: Span) -> R<()> {
        if self.m.protocols[id.index()].on_log.is_some() {
            return Err(self.error("E0612", span, "this is said twice"));
        }
        if columns.len() > ast::LOGGED {
            return Err(self.error(
                "E0612",
                columns[ast::LOGGED].span,
                "a request has two columns in the access log: the operation and its object",
            ));
        }
        let unit = self.protocols[id.index()].request;
        let place = format!("protocol {}: log", self.m.protocols[id.index()].name);
        let mut l = Lower::new(self, module, Kind::OnFault);
        l.place = place;
        let msg = l.new_local("request", &Ty::Msg(unit));
        l.bind_all(&[(Ident { name: "request".into(), span }, Val::path(Ty::Msg(unit), build::msg(msg)))]);
        for e in columns {
            let v = l.expr(e, None)?;
            let v = l.defined(v, e.span)?;
            let text = l.logged(v, e.span)?;
            l.push(e.span, ir::StmtKind::Log(vec![text]));
        }
        let body = l.body();
        self.m.protocols[id.index()].on_log = Some(body);
        Ok(())
    }

    /// Whether an answer's `status` is a small number. It is read where one is sent
    /// (`Lower::outcome`).
    fn status(&mut self, module: ModId, response: Option<ir::UnitId>, e: &Expr, span: Span) -> R<()> {
        let Some(unit) = response else { return Err(self.error("E0612", span, "this protocol has no response")) };
        let mut l = Lower::new(self, module, Kind::Clause);
        l.params_of = Some((Root::This, unit));
        l.bind_all(&[(Ident { name: "response".into(), span }, Val::path(Ty::Msg(unit), build::this()))]);
        l.expr_as(e, &crate::ty::U16)?;
        if l.out.is_empty() {
            Ok(())
        } else {
            Err(l.involved(e.span))
        }
    }

    /// Connections that clients share carry requests of all of them: the protocol must promise that
    /// none depends on another.
    fn shares_without_state(&mut self, id: ir::ProtocolId, span: Span, pipelined: bool) {
        if self.protocols[id.index()].stateless {
            return;
        }
        // Once is enough: ports are not told again.
        self.protocols[id.index()].stateless = true;
        let name = self.m.protocols[id.index()].name.clone();
        let together = if pipelined {
            "requests of all clients on one connection"
        } else {
            "requests of one client after those of another on a connection"
        };
        self.report(stateless_help(
            Diagnostic::error(
                "E0625",
                span,
                format!("`{name}` shares connections between clients, and does not say `stateless`"),
            )
            .label(format!("this sends {together}")),
        ));
    }

    /// A connect port's connections are shared between clients.
    pub fn connects_without_state(&mut self, id: ir::ProtocolId, span: Span) {
        if self.protocols[id.index()].stateless {
            return;
        }
        let name = self.m.protocols[id.index()].name.clone();
        self.report(stateless_help(
            Diagnostic::error(
                "E0626",
                span,
                format!("a connect port cannot speak `{name}`: it does not say `stateless`"),
            )
            .label("all clients would share these connections"),
        ));
    }

    fn ignore(&mut self, module: ModId, id: ir::ProtocolId, bytes: &[u8], max: &Expr, span: Span) -> R<()> {
        let times = self.const_u64(module, max)?;
        let most = usize::from(ir::Protocol::MOST_IGNORED);
        if bytes.is_empty() || bytes.len() > most || !(1..=255).contains(&times) {
            return Err(self.error(
                "E0612",
                span,
                format!("1 to {most} bytes are ignored in front of a request, 1 to 255 times"),
            ));
        }
        if self.m.protocols[id.index()].ignore.replace((bytes.to_vec(), times as u8)).is_some() {
            return Err(self.error("E0612", span, "this is said twice"));
        }
        Ok(())
    }

    fn flag(&mut self, module: ModId, unit: ir::UnitId, name: &str, e: &Expr) -> R<ir::Expr> {
        let mut l = Lower::new(self, module, Kind::Clause);
        l.params_of = Some((Root::This, unit));
        let ident = Ident { name: name.into(), span: e.span };
        l.bind_all(&[(ident, Val::path(Ty::Msg(unit), build::this()))]);
        let c = l.cond(e)?;
        if l.out.is_empty() {
            Ok(c)
        } else {
            Err(l.involved(e.span))
        }
    }

    /// `matches`: values of a request are kept for its answer, in the same word as the parameters
    /// of the answer's unit. The first says that they are there: other answers with this unit, such
    /// as those to a greeting, are compared with nothing.
    fn matches(
        &mut self,
        module: ModId,
        id: ir::ProtocolId,
        values: &[(Ident, Expr)],
        when: &Expr,
        span: Span,
    ) -> R<()> {
        let info = self.protocols[id.index()].clone();
        let Some(unit) = info.response else { return Err(self.error("E0612", span, "this protocol has no response")) };
        if self.m.protocols[id.index()].stray.is_some() {
            return Err(self.error("E0612", span, "this is said twice"));
        }
        self.distinct(values.iter().map(|(n, _)| n))?;
        let (asks, answers) = if self.is_session(id) { ("up", "down") } else { ("request", "response") };
        let from = self.m.units[unit.index()].asked.len();
        let there = self.keep(unit, "", &Ty::Bool, span)?;
        let (mut kept, mut types) = (vec![], vec![Ty::Bool]);
        for (name, e) in values {
            let mut l = Lower::new(self, module, Kind::Clause);
            let ident = Ident { name: asks.into(), span: e.span };
            l.bind_all(&[(ident, Val::path(Ty::Msg(info.request), build::this()))]);
            let v = l.expr(e, None)?;
            let v = l.defined(v, e.span)?;
            let ty = l.settled(&v.ty);
            if !l.out.is_empty() {
                return Err(l.involved(e.span));
            }
            let value = self.keep(unit, &name.name, &ty, e.span)?;
            kept.push((name.clone(), Val::pure(ty.clone(), value)));
            types.push(ty);
        }
        let mut l = Lower::new(self, module, Kind::Clause);
        l.params_of = Some((Root::This, unit));
        let ident = Ident { name: answers.into(), span: when.span };
        l.bind_all(&[(ident, Val::path(Ty::Msg(unit), build::this()))]);
        l.bind_all(&kept);
        let c = l.cond(when)?;
        if !l.out.is_empty() {
            return Err(l.involved(when.span));
        }
        self.m.protocols[id.index()].stray = Some(build::and(there, build::not(c)));
        self.protocols[id.index()].asked = (from, types);
        Ok(())
    }

    /// A place for a value of a request in the word that is kept for its answer, of which one bit
    /// marks answers.
    fn keep(&mut self, unit: ir::UnitId, name: &str, ty: &Ty, span: Span) -> R<ir::Expr> {
        let Some(bits) = self.param_bits(ty) else {
            let shown = self.show(ty);
            return Err(self.report(
                Diagnostic::error(
                    "E0424",
                    span,
                    format!("a value kept for the answer is an integer, an enum or a bool, not {shown}"),
                )
                .hint("keep a part of it, its length, or its `hash`"),
            ));
        };
        let t = self.lower_ty(ty);
        let u = &mut self.m.units[unit.index()];
        let shift = u.params.iter().chain(&u.asked).map(|p| u32::from(p.shift) + u32::from(p.bits)).max().unwrap_or(0);
        if shift + u32::from(bits) > 63 {
            return Err(self.report(
                Diagnostic::error(
                    "E0424",
                    span,
                    "the values kept for an answer have more than 62 bits, with the parameters of its unit",
                )
                .hint("keep fewer bits, as `u32(…)` or `u16(…)`"),
            ));
        }
        u.asked.push(ir::UnitParam { name: name.into(), ty: t, shift: shift as u8, bits });
        let at = u.params.len() + u.asked.len() - 1;
        Ok(ir::Expr::new(t, K::UnitParam(Root::This, at as u32)))
    }

    /// With `order by` the runtime replaces the field in requests, and has matched the answer by
    /// it.
    fn order_is_no_match(&mut self, id: ir::ProtocolId, response: ir::UnitId, p: &ast::Protocol) {
        let by = p.clauses.iter().find_map(|c| if let ClauseKind::Order { by } = &c.kind { by.as_ref() } else { None });
        let when = p.clauses.iter().find_map(|c| {
            let ClauseKind::Matches { when, .. } = &c.kind else { return None };
            Some(when.span)
        });
        let (Some(by), Some(when), Some(stray)) = (by, when, &self.m.protocols[id.index()].stray) else { return };
        let field = self.units[response.index()].member(&by.name).map(|m| m.field);
        let mut read = false;
        ir::walk::expr(stray, &mut |e| {
            let steps = ir::walk::path_of(e).map_or(&[][..], |p| &p.steps);
            read |= matches!(steps, [ir::Step::Field(f)] if Some(*f) == field);
        });
        if read {
            let d = format!("`order by {}` matches answers by this field already", by.name);
            self.report(
                Diagnostic::error("E0612", when, d)
                    .label("its value is not the request's on the connection")
                    .hint("compare other fields"),
            );
        }
    }

    fn args_clause(&mut self, module: ModId, id: ir::ProtocolId, args: &[(Option<Ident>, Expr)], span: Span) -> R<()> {
        let info = self.protocols[id.index()].clone();
        let Some(unit) = info.response else { return Err(Reported) };
        let params = self.units[unit.index()].params.clone();
        if args.len() > params.len() {
            return Err(self.error(
                "E0308",
                span,
                format!("the response takes {} arguments, found {}", params.len(), args.len()),
            ));
        }
        for (n, _) in args {
            if let Some(n) = n {
                if !params.iter().any(|(p, _)| *p == n.name) {
                    return Err(self.error("E0308", n.span, format!("the response has no parameter `{}`", n.name)));
                }
            }
        }
        let mut out = Vec::new();
        for (i, (name, t)) in params.iter().enumerate() {
            let e = args
                .iter()
                .find(|(n, _)| n.as_ref().is_some_and(|n| n.name == *name))
                .or(args.get(i).filter(|(n, _)| n.is_none()));
            let Some((_, e)) = e else {
                return Err(self.error("E0308", span, format!("the response's parameter `{name}` is not given")));
            };
            let mut l = Lower::new(self, module, Kind::Clause);
            let ident = Ident { name: "request".into(), span: e.span };
            l.bind_all(&[(ident, Val::path(Ty::Msg(info.request), build::this()))]);
            let v = l.expr(e, Some(t))?;
            let arg = if *t == Ty::Bool { l.cond_of(v, e.span)? } else { l.coerce(v, t, e.span)? };
            if !l.out.is_empty() {
                return Err(l.involved(e.span));
            }
            out.push(arg);
        }
        self.m.protocols[id.index()].response_args = out;
        Ok(())
    }

    fn default_args(&mut self, id: ir::ProtocolId, unit: ir::UnitId, p: &ast::Protocol) {
        let (given, wanted) = (self.m.protocols[id.index()].response_args.len(), self.units[unit.index()].params.len());
        let reported = self.diags.iter().any(|d| d.is_error());
        if given < wanted && !reported {
            self.error("E0308", p.name.span, format!("the response takes {wanted} arguments, found {given}"));
        }
    }

    fn order_by(&mut self, id: ir::ProtocolId, f: &Ident) -> R<()> {
        let info = self.protocols[id.index()].clone();
        for u in [Some(info.request), info.response].into_iter().flatten() {
            let Some(m) = self.units[u.index()].member(&f.name).cloned() else { return Err(self.unknown_field(u, f)) };
            if !m.ty.is_int() || !m.cases.is_empty() {
                return Err(self.error(
                    "E0612",
                    f.span,
                    "answers are matched by an integer field that is always there",
                ));
            }
            if u == info.request {
                self.m.protocols[id.index()].order_by = Some(m.field);
            }
        }
        Ok(())
    }

    fn on_fault(&mut self, module: ModId, id: ir::ProtocolId, name: &Ident, body: &ast::Block) -> R<()> {
        let info = self.protocols[id.index()].clone();
        if info.response.is_none() {
            return Err(self.error("E0612", name.span, "a protocol without responses has no answer to a fault"));
        }
        let start = Ty::Bytes(ir::Protocol::START);
        let fault = self.fault_record(&[("in_step", Ty::Bool), ("start", start.clone())]);
        let place = format!("protocol {}: on fault", self.m.protocols[id.index()].name);
        let mut l = Lower::new(self, module, Kind::OnFault);
        l.place = place;
        let kind = l.new_local("kind", &Ty::Fault);
        let in_step = l.new_local("in_step", &Ty::Bool);
        let req = l.new_local("request", &Ty::Msg(info.request));
        let start = l.new_local("start", &start);
        l.asked = l.param_places(info.response.ok_or(Reported)?);
        l.handler = Some(HandlerCtx::without_port(id, req));
        let t = l.cx.lower_ty(&Ty::Record(fault));
        let f = ir::Expr::new(t, K::Make(vec![l.local_expr(kind), l.local_expr(in_step), l.local_expr(start)]));
        let there = ir::Expr::new(T_BOOL, K::HasMsg(req));
        let request = Val::maybe(there, Val::path(Ty::Msg(info.request), build::msg(req)));
        let visible = |n: &str| Ident { name: n.into(), span: name.span };
        let params = info.response.map_or(vec![], |u| l.cx.units[u.index()].params.clone());
        let asked = params
            .iter()
            .zip(l.asked.clone())
            .map(|((n, t), p)| (visible(n), Val::pure(t.clone(), l.local_expr(p))))
            .collect::<Vec<_>>();
        l.bind_all(&asked);
        l.bind_all(&[(name.clone(), Val { ty: Ty::Record(fault), kind: Vk::Pure(f), caseless: false })]);
        if !l.cx.is_session(id) {
            l.bind_all(&[(visible("request"), request)]);
        }
        let made = l.block(body, Some(&Ty::Unit));
        if !l.cx.is_session(id) {
            l.ask_request(id, req, name.span);
        }
        let body = l.body();
        made?;
        self.m.protocols[id.index()].on_fault = Some(body);
        Ok(())
    }

    /// `on probe`: what a server is sent while it is down. A port may say otherwise.
    fn on_probe(&mut self, module: ModId, id: ir::ProtocolId, body: &ast::Block, span: Span) -> R<()> {
        let info = self.protocols[id.index()].clone();
        if info.response.is_none() {
            return Err(self.error("E0612", span, "a protocol without responses has no answer to a probe"));
        }
        if info.probe.is_some() {
            return Err(self.error("E0612", span, "this is said twice"));
        }
        let body = self.first_words(module, id, ("probe", body), span)?;
        self.protocols[id.index()].probe = Some(body);
        Ok(())
    }

    /// A message of the protocol's own to a server, without a client.
    pub fn first_words(
        &mut self,
        module: ModId,
        id: ir::ProtocolId,
        (event, body): (&str, &ast::Block),
        span: Span,
    ) -> R<ir::Body> {
        let place = format!("protocol {}: on {event}", self.m.protocols[id.index()].name);
        let mut l = Lower::new(self, module, Kind::Handler);
        l.place = place;
        let instance = l.new_local("instance", &crate::ty::U32);
        l.handler = Some(HandlerCtx { no_reply: true, greeting: true, ..HandlerCtx::without_port(id, instance) });
        let body = crate::apps::handlers::run(l, body, None, span)?;
        self.makes_no_calls(event, &body, span)?;
        Ok(body)
    }

    /// Interim answers are edited as others are, where the protocol has edits: no handler sees
    /// them.
    fn on_interim(&mut self, module: ModId, id: ir::ProtocolId, p: &ast::Protocol) -> R<()> {
        let forward = p.clauses.iter().find(|c| matches!(c.kind, ClauseKind::Forward { response: true, .. }));
        let (Some(forward), Some(unit)) = (forward, self.protocols[id.index()].response) else { return Ok(()) };
        let place = format!("protocol {}: interim", self.m.protocols[id.index()].name);
        let mut l = Lower::new(self, module, Kind::OnFault);
        l.place = place;
        let msg = l.new_local("response", &Ty::Msg(unit));
        let passed = Outgoing::passed(unit, msg);
        let msg = l.forwarded(&passed, id, true, forward.span)?;
        l.push(forward.span, ir::StmtKind::Reply { msg, close: false });
        let body = l.body();
        self.m.protocols[id.index()].on_interim = Some(body);
        Ok(())
    }

    /// The classes of answers that are put together with others: of protocols of which a handler
    /// asks several at once.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn answer_classes(&mut self) {
        let mut joined = false;
        let several = |s: &ir::Stmt| match &s.kind {
            ir::StmtKind::BindPart { part, .. } => !matches!(&*part.kind, ir::ExprKind::Int(0)),
            _ => false,
        };
        self.m.bodies(&mut |b| ir::walk::stmts(&b.block, &mut |s| joined |= several(s)));
        let connected = |p: &ir::Port| matches!(p.kind, ir::desc::PortKind::Connect(_)).then(|| p.protocols.clone());
        let mut all: Vec<_> = self.m.ports.iter().filter_map(connected).flatten().collect();
        all.sort();
        all.dedup();
        for id in all.into_iter().filter(|_| joined) {
            let info = self.protocols[id.index()].clone();
            let Some(unit) = info.response else { continue };
            let mut l = Lower::new(self, info.module, Kind::OnFault);
            let msg = l.new_local("response", &Ty::Msg(unit));
            let answer = Outgoing::passed(unit, msg);
            if let Ok(Some(outcome)) = l.outcome(id, &Rc::new(answer), info.ast.span) {
                l.push(info.ast.span, ir::StmtKind::Outcome(outcome));
                let body = l.body();
                self.m.protocols[id.index()].on_answer = Some(body);
            }
        }
    }

    /// The fields of `f` in a fault handler: its kind and others. The record itself never reaches
    /// the IR's code.
    pub fn fault_record(&mut self, others: &[(&str, Ty)]) -> ir::RecordId {
        let kind = [("kind", Ty::Fault)];
        let all: Vec<_> = kind.iter().chain(others).cloned().collect();
        self.record_of("Fault", &all)
    }

    /// A record that the program does not declare; one for all that have these fields.
    pub fn record_of(&mut self, name: &str, fields: &[(&str, Ty)]) -> ir::RecordId {
        let want: Vec<_> = fields.iter().map(|(n, t)| (n.to_string(), t.clone())).collect();
        if let Some(i) = self.records.iter().position(|r| *r == want) {
            return ir::RecordId(i as u32);
        }
        let lowered = want.iter().map(|(n, t)| (n.clone(), crate::ty::lower(t, &mut self.m))).collect();
        self.m.records.push(ir::Record { name: name.into(), fields: lowered });
        self.records.push(want);
        ir::RecordId(self.m.records.len() as u32 - 1)
    }
}

/// The same in both places: what would be mixed up, and the two ways on.
fn stateless_help(d: Diagnostic) -> Diagnostic {
    d.note("a server that keeps state of a connection (a login, an open transaction) would answer one client with the state of another")
        .note("with `sharing session` each client has connections of its own; messages then go `up` and `down`, and are not tied to each other")
        .hint("write `up Query  down Answer  sharing session` with your units, and `session up: connection of db` in the app; or `stateless`, if every request means the same on every connection")
}
