//! Sending messages: `reply`, `call`, `->`. A message that `if`, `match`, `else` or a function
//! chooses is sent in every branch.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind")]

use super::destination::{Joined, Sink};
use super::protocol_clauses::Asked;
use super::read_with::alike;
use super::{Kind, Lower};
use crate::compiler::{Reported, R, T_BOOL, T_U16, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::{OutKind, Outgoing, Val, Validity, Vk};
use ir::{BinOp, ExprKind as K, FaultKind, StmtKind};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Block, Expr, ExprKind, Span, StmtKind as S};
use wireloom_syntax::Diagnostic;

/// Most instances of a port, and most answers of one `call all`.
pub const MAX_PARTS: u64 = 65_536;

/// Most bytes that `join` puts together for one instance.
const JOINED_MAX: u64 = 16 << 20;

impl Lower<'_, '_> {
    /// Sends what an expression gives, on each of its ways.
    pub fn deliver(&mut self, e: &Expr, sink: &Sink) -> R<Val> {
        self.deeper(e.span, |s| s.deliver_kind(e, sink))
    }

    fn deliver_kind(&mut self, e: &Expr, sink: &Sink) -> R<Val> {
        match &*e.kind {
            ExprKind::If(c, then, Some(other)) => {
                let cond = self.decide(c)?;
                self.branch(cond, e.span, Some(&Ty::Unit), |s| s.deliver_block(then, sink), |s| s.deliver(other, sink))
            }
            ExprKind::IfLet(p, v, then, Some(other)) => {
                let (cond, val) = self.some_of(v)?;
                self.branch(
                    cond,
                    e.span,
                    Some(&Ty::Unit),
                    |s| {
                        let inner = s.inner(val);
                        s.destructure(p, inner, e.span)?;
                        s.deliver_block(then, sink)
                    },
                    |s| s.deliver(other, sink),
                )
            }
            ExprKind::Match(subject, arms) => {
                let val = self.subject(subject)?;
                self.arms(&val, arms, Some(&Ty::Unit), e.span, &|s, body, _| s.deliver(body, sink))
            }
            ExprKind::Block(b) => self.deliver_block(b, sink),
            ExprKind::Else(a, d) if is_call(a) => self.call_to(a, Some(d), sink),
            ExprKind::Call1 { .. } => self.call_to(e, None, sink),
            ExprKind::Stmt(s) => self.stmt_value(s),
            ExprKind::List(es) => self.deliver_many(es, sink, e.span),
            ExprKind::Call(f, args) => match self.callee(f)? {
                super::calls::Callee::Fn(info) if matches!(info.ret, Ty::Msg(_)) => {
                    self.call_fn(&info, args, e.span, Some(sink.clone()))
                }
                super::calls::Callee::Fn(_)
                | super::calls::Callee::FunctionArg(..)
                | super::calls::Callee::Of(..)
                | super::calls::Callee::Builtin(_)
                | super::calls::Callee::Convert(_)
                | super::calls::Callee::Method(..) => {
                    let v = self.expr_may_leave(e, None)?;
                    self.sink(v, sink, e.span)
                }
            },
            _ => {
                let v = self.expr_may_leave(e, None)?;
                self.sink(v, sink, e.span)
            }
        }
    }

    pub fn deliver_block(&mut self, b: &Block, sink: &Sink) -> R<Val> {
        self.enter();
        let made = self.deliver_stmts(b, sink);
        self.leave();
        made
    }

    fn deliver_stmts(&mut self, b: &Block, sink: &Sink) -> R<Val> {
        let Some((last, before)) = b.stmts.split_last() else {
            return Err(self.err("E0301", b.span, "a message must be given here"));
        };
        for s in before {
            if self.stmt(s)? {
                return Ok(Val::never());
            }
        }
        match &last.kind {
            S::Expr(e) => self.deliver(e, sink),
            _ => match self.stmt(last)? {
                true => Ok(Val::never()),
                false => Err(self.err("E0301", last.span, "a message must be given here")),
            },
        }
    }

    /// Several messages as one answer: `reply [a, b, c]`.
    fn deliver_many(&mut self, es: &[Expr], sink: &Sink, span: Span) -> R<Val> {
        if let (Sink::Reply { .. }, Some(h), 2..) = (sink, self.handler, es.len()) {
            if self.cx.m.ports.get(h.port.index()).is_some_and(|p| p.udp) && !h.greeting {
                let d = Diagnostic::error("E0682", span, "an answer over UDP is one message")
                    .hint("a datagram that is asked for by none could be aimed at others");
                return Err(self.cx.report(d));
            }
        }
        let mut all = ir::Block::new();
        let (mut unit, mut params, mut ends) = (None, vec![], None);
        let mut validity = Validity::Sure;
        for e in es {
            let v = self.expr(e, None)?;
            let out = self.message_of(&v, e.span)?;
            match &out.kind {
                OutKind::Built(block) if unit.is_none_or(|u| u == out.unit) => {
                    all.extend(block.clone());
                    validity = validity.and(out.validity);
                    params.extend(&out.params);
                    ends = out.ends.clone();
                    unit = Some(out.unit);
                }
                OutKind::Built(_) | OutKind::Inner | OutKind::Pass { .. } => {
                    return Err(self.err(
                        "E0608",
                        e.span,
                        "an answer of several messages is built from messages of one unit",
                    ))
                }
            }
        }
        let Some(unit) = unit else {
            return Err(self.err(
                "E0608",
                span,
                "an answer needs at least one message; `reply nothing` answers by silence",
            ));
        };
        let (kind, fields) = (OutKind::Built(vec![]), vec![]);
        let mut o = Outgoing { unit, kind, fields, run: None, params, ends, validity: Validity::Sure };
        // A part may be the beginning of a message that the next ones go on with.
        if validity != Validity::Sure {
            all = self.read_behind(&o, all, es.len() as u32, span);
        }
        o.kind = OutKind::Built(all);
        self.sink(Val::out(o), sink, span)
    }

    /// The message that a value is.
    pub fn message_of(&mut self, v: &Val, span: Span) -> R<Rc<Outgoing>> {
        match (&v.ty, &v.kind) {
            (_, Vk::Out(o)) if !matches!(o.kind, OutKind::Inner) => Ok(o.clone()),
            (Ty::Msg(u), Vk::Path(ir::Path { root: ir::Root::Local(l), steps })) if steps.is_empty() => {
                Ok(Rc::new(Outgoing::passed(*u, *l)))
            }
            (Ty::Error, _) => Err(Reported),
            (Ty::Msg(_), Vk::Path(_) | Vk::Out(_)) => Err(self.cx.report(
                Diagnostic::error("E0608", span, "a part of a message is no message").hint("build one: `Unit { … }`"),
            )),
            (t, _) => {
                let s = self.show(t);
                Err(self.cx.report(
                    Diagnostic::error("E0608", span, format!("only messages are sent, not {s}"))
                        .label("not a message")
                        .note("a unit parses or builds each message that is sent, so that it is always valid")
                        .hint("build one: `Unit { field: value }`"),
                ))
            }
        }
    }

    pub fn outgoing(&mut self, v: &Val, span: Span) -> R<ir::Outgoing> {
        let o = self.message_of(v, span)?;
        Ok(match &o.kind {
            OutKind::Built(_) => ir::Outgoing::Built { unit: o.unit, body: self.read_whole(&o, span)? },
            OutKind::Inner => return Err(Reported),
            OutKind::Pass { msg, edits, copy } => {
                let mut edits = edits.clone();
                edits.extend(self.edits_of_copy(*msg, *copy));
                self.settle(o.unit, *msg, &o.fields, &mut edits);
                ir::Outgoing::Pass { msg: *msg, edits }
            }
        })
    }

    /// The program's part in a message that the library has built: it is sent here.
    fn own_part(&self, span: Span, sink: &Sink) -> Span {
        match sink {
            Sink::Reply { span: at, .. }
            | Sink::Call { span: at, .. }
            | Sink::Tell { span: at, .. }
            | Sink::Ask { span: at, .. }
            | Sink::Deliver { span: at, .. }
            | Sink::Queue { span: at, .. }
            | Sink::Send { span: at, .. }
                if self.cx.library_file(span) =>
            {
                *at
            }
            Sink::Reply { .. }
            | Sink::Call { .. }
            | Sink::Tell { .. }
            | Sink::Ask { .. }
            | Sink::Deliver { .. }
            | Sink::Queue { .. }
            | Sink::Send { .. }
            | Sink::Check { .. } => span,
        }
    }

    /// Sends a message.
    pub fn sink(&mut self, v: Val, sink: &Sink, span: Span) -> R<Val> {
        if v.is_never() {
            return Ok(v);
        }
        let span = self.own_part(span, sink);
        let v = if v.ty.is_option() { self.defined(v, span)? } else { v };
        self.goes_on(&v, sink, span)?;
        match sink {
            Sink::Reply { close, span: at } => {
                let msg = self.message_of(&v, span)?;
                let Some(handler) = self.handler else {
                    self.mark_replied(*at)?;
                    return Err(Reported);
                };
                let proto = handler.protocol;
                let info = self.cx.protocols[proto.index()].clone();
                self.mark_replied(*at)?;
                let unit = if handler.greeting { Some(info.request) } else { info.response };
                let Some(unit) = unit else { return Err(self.err("E0604", span, "this protocol has no answers")) };
                self.same_unit(msg.unit, unit, span)?;
                let outcome = if handler.greeting { None } else { self.outcome(proto, &msg, span)? };
                let (ends, msg) = (msg.ends.clone(), self.forwarded(&msg, proto, !handler.greeting, span)?);
                if let Some(outcome) = outcome {
                    self.push(*at, StmtKind::Outcome(outcome));
                }
                self.push(*at, StmtKind::Reply { msg, close: *close });
                if let Some(ends) = ends.filter(|_| !close) {
                    self.close_if(ends, *at);
                }
            }
            Sink::Call { port, index, within, span: at } => {
                let msg = self.message_of(&v, span)?;
                let proto = self.connect_protocol(*port, span)?;
                let info = self.cx.protocols[proto.index()].clone();
                if info.response.is_none() {
                    return Err(self.cx.report(
                        Diagnostic::error("E0604", *at, "this protocol has no answers to wait for")
                            .hint("send with `message -> port[i]`"),
                    ));
                }
                self.same_unit(msg.unit, info.request, span)?;
                let Asked { args, mut clauses } = self.asked_of(proto, &v, *at, true)?;
                self.with_end(&msg, &mut clauses);
                let msg = self.forwarded(&msg, proto, false, span)?;
                self.push(
                    *at,
                    StmtKind::Call {
                        port: *port,
                        index: index.clone(),
                        msg,
                        within: within.clone(),
                        response_args: args,
                        clauses,
                    },
                );
            }
            Sink::Tell { to, span: at } => self.tell(&v, *to, span, *at)?,
            Sink::Ask { upstream, within, span: at } => {
                self.ask_upstream(&v, (*upstream, within.as_ref()), span, *at)?
            }
            Sink::Deliver { to, span: at } => self.deliver_to(&v, to, span, *at)?,
            Sink::Queue { queue, span: at } => {
                let unit = self.message_of(&v, span)?.unit;
                self.same_unit(unit, queue.unit, span)?;
                let msg = self.outgoing(&v, span)?;
                self.enqueue(queue, msg, *at);
            }
            Sink::Check { unit } => {
                let found = self.message_of(&v, span)?.unit;
                if found != *unit {
                    return Err(self.mismatch(&Ty::Msg(*unit), &Ty::Msg(found), span));
                }
            }
            Sink::Send { port, index, span: at } if self.takes_frames(*port) => {
                self.send_frame(&v, *port, index, *at)?
            }
            Sink::Send { port, index, span: at } => {
                let msg = self.message_of(&v, span)?;
                let proto = self.connect_protocol(*port, span)?;
                let info = self.cx.protocols[proto.index()].clone();
                self.same_unit(msg.unit, info.request, span)?;
                self.asked_of(proto, &v, *at, false)?;
                let msg = self.forwarded(&msg, proto, false, span)?;
                self.push(*at, StmtKind::Send { port: *port, index: index.clone(), msg });
            }
        }
        Ok(Val::unit())
    }

    /// The last clause of a call: whether the request ends with its connection. Where it is passed
    /// on its parser says that.
    fn with_end(&mut self, msg: &Outgoing, clauses: &mut Vec<ir::Expr>) {
        if clauses.is_empty() {
            if msg.ends.is_none() {
                return;
            }
            clauses.resize(3, build::boolean(false));
        }
        clauses.push(msg.ends.clone().unwrap_or(build::boolean(false)));
    }

    /// Nothing but the end of the connection tells the reader that the answer is complete.
    fn close_if(&mut self, ends: ir::Expr, span: Span) {
        match build::as_bool(&ends) {
            Some(true) => self.push(span, StmtKind::Close),
            Some(false) => {}
            None => {
                let ((), then) = self.sub(|s| s.push(span, StmtKind::Close));
                self.push(span, StmtKind::If { cond: ends, then, other: vec![] });
            }
        }
    }

    pub fn same_unit(&mut self, found: ir::UnitId, want: ir::UnitId, span: Span) -> R<()> {
        if found == want {
            return Ok(());
        }
        let (f, w) = (self.show(&Ty::Msg(found)), self.show(&Ty::Msg(want)));
        Err(self.cx.report(
            Diagnostic::error("E0608", span, format!("this channel takes {w}, not {f}")).label(format!("a {f}")),
        ))
    }

    fn connect_protocol(&mut self, port: ir::PortId, span: Span) -> R<ir::ProtocolId> {
        let p = &self.cx.m.ports[port.index()];
        match (&p.kind, p.protocols.first()) {
            (ir::desc::PortKind::Connect(_), Some(p)) if self.cx.is_session(*p) => {
                let d = Diagnostic::error("E0697", span, "each client has connections of its own to this port")
                    .label("whose connection?")
                    .hint("keep one in a session, `session up: connection of db`: `m -> up`, `call up(m)`");
                Err(self.cx.report(d))
            }
            (ir::desc::PortKind::Connect(_), Some(p)) => Ok(*p),
            (ir::desc::PortKind::Listen(_), _) => Err(self.cx.report(
                Diagnostic::error("E0603", span, "messages are sent to connecting ports")
                    .hint("a listening port is answered with `reply`"),
            )),
            (ir::desc::PortKind::Frames { .. }, _) => Err(self.cx.report(
                Diagnostic::error("E0603", span, "a port of frames gives no answers")
                    .hint("`p -> port` sends a packet; `on port(p)` handles packets that come back"),
            )),
            _ => Err(Reported),
        }
    }

    /// `port[i]`, or a port of one instance.
    pub fn target(&mut self, e: &Expr) -> R<(ir::PortId, ir::Expr)> {
        self.impure = true;
        if let ExprKind::Index(p, i) = &*e.kind {
            let port = self.port_arg(p)?;
            let written = i;
            let i = self.index_value(written)?;
            self.index_fits(written, &i, self.cx.app.instances(port), "instances")?;
            let (cond, i) = self.below(i, ir::Expr::new(T_U32, K::PortLen(port)));
            self.guard(cond, FaultKind::INDEX, e.span);
            return Ok((port, i));
        }
        let port = self.port_arg(e)?;
        if !self.cx.app.is_single(port) && !matches!(self.cx.m.ports[port.index()].kind, ir::desc::PortKind::Listen(_))
        {
            let d = Diagnostic::error("E0603", e.span, "this port has several instances").label("which one?");
            let hint = format!("write `{}[i]`", self.code_of(e, "port"));
            return Err(self.cx.report(d.hint(hint)));
        }
        Ok((port, build::u32(0)))
    }

    pub fn send(&mut self, value: &Expr, to: &Expr, span: Span) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let drops = matches!(&*to.kind, ExprKind::Name(n) if n.name == "drop" && !self.cx.app.has("drop"));
        if !drops {
            self.not_dropped(value)?;
        }
        if let Some(made) = self.outlet(value, to, span) {
            return made;
        }
        if let Some(made) = self.instance_send(value, to, span) {
            return made;
        }
        if let ExprKind::Call(f, args) = &*to.kind {
            match (&*f.kind, args.as_slice()) {
                (ExprKind::Name(n), [a]) if n.name == "broadcast" => return self.broadcast(value, &a.value, span),
                (ExprKind::Name(n), [a, by]) if n.name == "steer" => {
                    return self.steer(value, &a.value, &by.value, span)
                }
                (ExprKind::Name(n), _) if n.name == "steer" => {
                    return Err(self.cx.report(
                        Diagnostic::error("E0308", to.span, "`steer` needs a key")
                            .hint("write `p -> steer ports by p.pair`"),
                    ))
                }
                _ => {}
            }
        }
        if drops {
            return self.drop_frame(value);
        }
        if let Some(queue) = self.messages_of(to) {
            self.impure = true;
            return self.deliver(value, &Sink::Queue { queue, span }).map(|_| ());
        }
        if let Some(sink) = self.member(to, span)? {
            return self.deliver(value, &sink).map(|_| ());
        }
        if let Some(handles) = self.handles(to)? {
            return self.deliver(value, &Sink::Deliver { to: handles, span }).map(|_| ());
        }
        let (port, index) = self.target(to)?;
        if let (true, ExprKind::List(_)) = (self.takes_frames(port), &*value.kind) {
            return self.send_parts(value, port, &index, span);
        }
        self.deliver(value, &Sink::Send { port, index, span }).map(|_| ())
    }

    /// How long the answer is awaited; none: as long as the port says.
    pub(super) fn within(&mut self, p: ir::PortId, within: Option<&Expr>) -> R<Option<ir::Expr>> {
        let said = within.map(|w| self.expr_as(w, &Ty::Duration)).transpose()?;
        let Some(most) = self.longest_call() else { return Ok(said) };
        let by_port = self.cx.m.ports[p.index()].options.answer_timeout;
        Ok(match said {
            Some(said) => Some(build::builtin(T_U64, ir::Builtin::Min, vec![said, build::u64(most)])),
            None => (by_port > most).then(|| build::u64(most)),
        })
    }

    fn can_call(&mut self, span: Span) -> R<()> {
        if self.kind == Kind::Handler || self.kind == Kind::Func {
            self.impure = true;
            return Ok(());
        }
        Err(self.err("E0603", span, "a call can only be made in a handler"))
    }

    /// The message of a call goes to its server.
    pub(super) fn calls(&mut self, msg: &Expr, sink: &Sink) -> R<()> {
        if self.deliver(msg, sink)?.is_never() {
            return Err(self.never_comes_back(msg.span));
        }
        Ok(())
    }

    /// Issues one call and waits; gives the local for the answer and whether it is there.
    fn issue(&mut self, e: &Expr) -> R<(ir::LocalId, ir::UnitId, ir::Expr)> {
        let ExprKind::Call1 { port, msg, within } = &*e.kind else { return Err(Reported) };
        self.can_call(e.span)?;
        if let Some(upstream) = self.upstream_named(port) {
            return self.issue_ask(upstream, msg, within.as_ref(), e.span);
        }
        let (p, index) = self.target(port)?;
        let within = self.within(p, within.as_ref())?;
        let before = std::mem::take(&mut self.asked_args);
        let made = self.calls(msg, &Sink::Call { port: p, index, within, span: e.span });
        let with = alike(std::mem::replace(&mut self.asked_args, before));
        made?;
        let unit = self.response_unit(p, e.span)?;
        self.push(e.span, StmtKind::Await { hold: false, hold_req: false, live: vec![] });
        self.epoch += 1;
        let dst = self.new_local("", &Ty::Msg(unit));
        self.read_with.extend(with.map(|args| (dst, args)));
        self.note_body(dst, p);
        Ok((dst, unit, ir::Expr::new(T_U16, K::PartStatus(build::u32(0)))))
    }

    /// Waits for the one call issued and answers with its answer.
    pub fn answer(&mut self, span: Span) -> R<()> {
        let port = self
            .out
            .iter()
            .rev()
            .find_map(|s| match &s.kind {
                StmtKind::Call { port, .. } => Some(*port),
                _ => None,
            })
            .ok_or(Reported)?;
        let unit = self.response_unit(port, span)?;
        self.push(span, StmtKind::Await { hold: false, hold_req: false, live: vec![] });
        self.epoch += 1;
        let dst = self.new_local("", &Ty::Msg(unit));
        let with = alike(std::mem::take(&mut self.asked_args));
        self.read_with.extend(with.map(|args| (dst, args)));
        if self.copy {
            return Ok(());
        }
        self.fail(ir::Expr::new(T_U16, K::PartStatus(build::u32(0))), span);
        let v = self.bind_part(dst, unit, span);
        self.sink(v, &Sink::Reply { close: false, span }, span).map(|_| ())
    }

    fn response_unit(&mut self, p: ir::PortId, span: Span) -> R<ir::UnitId> {
        let proto = self.connect_protocol(p, span)?;
        self.cx.protocols[proto.index()].response.ok_or(Reported)
    }

    fn bind_part(&mut self, dst: ir::LocalId, unit: ir::UnitId, span: Span) -> Val {
        self.push(span, StmtKind::BindPart { dst, part: build::u32(0) });
        Val::path(Ty::Msg(unit), build::msg(dst))
    }

    /// The fault that a failed call is, when nobody catches it.
    fn fail(&mut self, status: ir::Expr, span: Span) {
        self.fail_as(status, &[], span)
    }

    /// The same of a call that may be another fault, too.
    fn fail_as(&mut self, status: ir::Expr, more: &[FaultKind], span: Span) {
        let place = self.place_id(span);
        let sp = self.cx.span(span);
        // `constraint`: the program sends what it has sent or read before.
        let kinds = [
            FaultKind::CONSTRAINT,
            FaultKind::REFUSED,
            FaultKind::TIMEOUT,
            FaultKind::BAD_REPLY,
            FaultKind::OVERLOAD,
            FaultKind::CANCELLED,
        ];
        let fault = |kind| vec![build::stmt(sp, StmtKind::Fault { kind, place })];
        let cases = kinds.iter().chain(more).map(|k| (vec![u64::from(k.0)], fault(*k))).collect();
        let bad = build::cmp(BinOp::Ne, status.clone(), build::int(T_U16, 0));
        let switch = build::stmt(sp, StmtKind::Switch { on: status, cases, default: fault(FaultKind::LOST) });
        self.push(span, StmtKind::If { cond: bad, then: vec![switch], other: vec![] });
    }

    /// The fault that a call is, when it fails.
    fn fail_call(&mut self, status: ir::Expr, e: &Expr) {
        // A server that is asked in a conversation may have changed its protocol.
        let asked = matches!(&*e.kind, ExprKind::Call1 { port, .. } if self.upstream_named(port).is_some());
        self.fail_as(status, if asked { &[FaultKind::UNSPOKEN] } else { &[] }, e.span);
    }

    /// `call …` as a value; `or` is what follows `else`.
    pub fn call_value(&mut self, e: &Expr, or: Option<&Expr>) -> R<Val> {
        if !matches!(&*e.kind, ExprKind::Call1 { .. }) {
            return self.call_all(e, or);
        }
        let (dst, unit, status) = self.issue(e)?;
        let Some(or) = or else {
            self.fail_call(status, e);
            return Ok(self.bind_part(dst, unit, e.span));
        };
        let ok = build::cmp(BinOp::Eq, status, build::int(T_U16, 0));
        let (replied, epoch) = (self.replied, self.epoch);
        let ((other, otherwise), block) = self.sub(|s| {
            s.assume(&ok, false);
            (s.expr_may_leave(or, None), (s.replied, s.epoch))
        });
        let other = other?;
        let sp = self.cx.span(e.span);
        if other.is_never() {
            (self.replied, self.epoch) = (replied, epoch);
            self.push(e.span, StmtKind::If { cond: build::not(ok), then: block, other: vec![] });
            return Ok(self.bind_part(dst, unit, e.span));
        }
        let _ = otherwise;
        if other.ty == Ty::None {
            let bind = build::stmt(sp, StmtKind::BindPart { dst, part: build::u32(0) });
            self.push(e.span, StmtKind::If { cond: ok, then: vec![bind], other: vec![] });
            let there = ir::Expr::new(T_BOOL, K::HasMsg(dst));
            return Ok(Val::maybe(there, Val::path(Ty::Msg(unit), build::msg(dst))));
        }
        Err(self.cx.report(Diagnostic::error("E0610", or.span, "this alternative goes on without an answer").label("must leave, or be `none`")
            .hint("end it with `return` or `fault …`; to reply with a message instead, write `reply call … else Message { … }`")))
    }

    /// `reply call … else …`: the answer goes on to the sink.
    fn call_to(&mut self, e: &Expr, or: Option<&Expr>, sink: &Sink) -> R<Val> {
        if !matches!(&*e.kind, ExprKind::Call1 { .. }) {
            return Err(self.cx.report(
                Diagnostic::error("E0608", e.span, "the answers of several calls are no message")
                    .hint("build one from them"),
            ));
        }
        let (dst, unit, status) = self.issue(e)?;
        let Some(or) = or else {
            self.fail_call(status, e);
            let v = self.bind_part(dst, unit, e.span);
            return self.sink(v, sink, e.span);
        };
        let ok = build::cmp(BinOp::Eq, status, build::int(T_U16, 0));
        self.branch(
            ok,
            e.span,
            Some(&Ty::Unit),
            |s| {
                let v = s.bind_part(dst, unit, e.span);
                s.sink(v, sink, e.span)
            },
            |s| s.deliver(or, sink),
        )
    }

    /// `call all port(m)`, `call all for x in xs => port[i](m)`.
    fn call_all(&mut self, e: &Expr, or: Option<&Expr>) -> R<Val> {
        self.can_call(e.span)?;
        let port = match &*e.kind {
            ExprKind::CallEach { port, msg, within } => {
                let p = self.port_arg(port)?;
                let within = self.within(p, within.as_ref())?;
                let var = self.new_local("", &crate::ty::U32);
                let index = self.local_expr(var);
                let (made, body) = self.sub(|s| s.calls(msg, &Sink::Call { port: p, index, within, span: e.span }));
                made?;
                let to = ir::Expr::new(T_U32, K::PortLen(p));
                let max = self.cx.app.instances(p);
                self.parts_max = max;
                self.push(e.span, StmtKind::For { var, from: build::u32(0), to, max, body });
                self.goes_to_several(e.span);
                p
            }
            ExprKind::CallAll { join: Some(_), .. } => self.call_joined(e)?,
            ExprKind::CallAll { .. } => self.call_for(e)?,
            _ => return Err(Reported),
        };
        let unit = self.response_unit(port, e.span)?;
        self.push(e.span, StmtKind::Await { hold: true, hold_req: false, live: vec![] });
        self.epoch += 1;
        self.grouped = matches!(&*e.kind, ExprKind::CallAll { join: Some(_), .. });
        self.check_parts(e, or)?;
        Ok(Val::of(Ty::Replies(unit)))
    }

    fn call_for(&mut self, e: &Expr) -> R<ir::PortId> {
        let ExprKind::CallAll { pattern, list, cond, port, msg, within, .. } = &*e.kind else { return Err(Reported) };
        let mut found = None;
        self.parts_max = self.each(pattern, list, e.span, |s| {
            let issue = |s: &mut Self| -> R<Val> {
                let (p, index) = s.target(port)?;
                let within = s.within(p, within.as_ref())?;
                s.calls(msg, &Sink::Call { port: p, index, within, span: e.span })?;
                Ok(Val::of(Ty::Port(p)))
            };
            let mut p = None;
            s.filtered(cond.as_ref(), e.span, |s| {
                p = Some(issue(s)?);
                Ok(Val::unit())
            })?;
            if let Some(Val { ty: Ty::Port(p), .. }) = p {
                found = Some(p);
            }
            Ok(())
        })?;
        self.goes_to_several(e.span);
        found.ok_or(Reported)
    }

    /// `call all for x in xs join e as bytes, n => port[i](m)`: one request to each instance that
    /// has items, with all of them.
    fn call_joined(&mut self, e: &Expr) -> R<ir::PortId> {
        let ExprKind::CallAll { pattern, list, cond, join: Some(join), port, msg, within } = &*e.kind else {
            return Err(Reported);
        };
        let at = self.out.len();
        let (mut found, mut unit, mut each) = (None, None, 0);
        let rounds = self.each(pattern, list, e.span, |s| {
            s.filtered(cond.as_ref(), e.span, |s| {
                let (p, index) = s.target(port)?;
                let parts = s.joined_parts(&join.value)?;
                (unit, each) = (s.joined_unit(&parts), parts.len() as u64);
                let size = parts.iter().fold(0, |n: u64, p| n.saturating_add(s.bytes_max(p)));
                found = Some((p, size));
                s.push(e.span, StmtKind::GroupAdd { index, parts });
                Ok(Val::unit())
            })
            .map(|_| ())
        })?;
        let (p, size) = found.ok_or(Reported)?;
        let instances = self.cx.app.instances(p);
        let sp = self.cx.span(e.span);
        self.out.insert(
            at,
            build::stmt(sp, StmtKind::GroupBegin { port: p, max: u32::try_from(instances).unwrap_or(u32::MAX) }),
        );
        let within = self.within(p, within.as_ref())?;
        let var = self.new_local("", &crate::ty::U32);
        let ty = Ty::Bytes(size.saturating_mul(rounds).min(JOINED_MAX));
        let (made, body) = self.sub(|s| -> R<()> {
            let index = s.local_expr(var);
            let t = s.cx.lower_ty(&ty);
            let count = ir::Expr::new(T_U32, K::GroupCount(index.clone()));
            let some = build::cmp(BinOp::Ne, count.clone(), build::u32(0));
            let (made, then) = s.sub(|s| -> R<()> {
                let bytes = s.temp(&join.bytes.name, &ty, ir::Expr::new(t, K::GroupBytes(index.clone())), e.span);
                s.bind_all(&[(join.bytes.clone(), Val::pure(ty.clone(), s.local_expr(bytes)))]);
                s.joined.insert(bytes, Joined { unit, count: count.clone(), each });
                if let Some(n) = &join.count {
                    s.bind_all(&[(n.clone(), Val::pure(crate::ty::U32, count))]);
                }
                s.calls(msg, &Sink::Call { port: p, index, within, span: e.span })
            });
            made?;
            s.push(e.span, StmtKind::If { cond: some, then, other: vec![] });
            Ok(())
        });
        made?;
        let to = ir::Expr::new(T_U32, K::PortLen(p));
        self.parts_max = instances;
        self.push(e.span, StmtKind::For { var, from: build::u32(0), to, max: instances, body });
        Ok(p)
    }

    /// The bytes that an item adds to its group. The parts of a `concat` are not put together
    /// before.
    fn joined_parts(&mut self, value: &Expr) -> R<Vec<ir::Expr>> {
        let v = self.expr(value, None)?;
        let v = self.defined(v, value.span)?;
        let bytes = self.bytes_of(v, value.span)?;
        Ok(match *bytes.kind {
            K::Builtin(ir::Builtin::Concat, parts) => parts,
            kind => vec![ir::Expr { ty: bytes.ty, kind: Box::new(kind) }],
        })
    }

    /// The unit whose items the parts are, if they are nothing else.
    fn joined_unit(&self, parts: &[ir::Expr]) -> Option<ir::UnitId> {
        let unit = |e: &ir::Expr| match self.field_at(crate::ir_builder::raw_path(e)?)?.kind {
            ir::FieldKind::Unit { unit, .. } => Some(unit),
            _ => None,
        };
        let first = unit(parts.first()?)?;
        parts.iter().all(|p| unit(p) == Some(first)).then_some(first)
    }

    fn bytes_max(&self, e: &ir::Expr) -> u64 {
        match self.cx.m.types.get(e.ty.index()) {
            Some(ir::Ty::Bytes(n)) => *n,
            _ => 0,
        }
    }

    /// All answers must be there, or what `else` says happens.
    fn check_parts(&mut self, e: &Expr, or: Option<&Expr>) -> R<()> {
        let span = e.span;
        let var = self.new_local("", &crate::ty::U32);
        let status = ir::Expr::new(T_U16, K::PartStatus(self.local_expr(var)));
        let parts = ir::Expr::new(T_U32, K::Parts);
        let Some(or) = or else {
            let ((), body) = self.sub(|s| s.fail(status, span));
            self.push(span, StmtKind::For { var, from: build::u32(0), to: parts, max: self.parts_max, body });
            return Ok(());
        };
        let failed = self.temp("", &Ty::Bool, build::boolean(false), span);
        let sp = self.cx.span(span);
        let bad = build::cmp(BinOp::Ne, status, build::int(T_U16, 0));
        let then = vec![build::stmt(sp, StmtKind::Set(failed, build::boolean(true))), build::stmt(sp, StmtKind::Break)];
        let body = vec![build::stmt(sp, StmtKind::If { cond: bad, then, other: vec![] })];
        self.push(span, StmtKind::For { var, from: build::u32(0), to: parts, max: self.parts_max, body });
        let (replied, epoch) = (self.replied, self.epoch);
        // An empty list has no type of its own, which is not what is wrong with it here.
        let empty = matches!(&*or.kind, ExprKind::List(es) if es.is_empty());
        let (other, block) = self.sub(|s| if empty { Ok(Val::unit()) } else { s.expr_may_leave(or, None) });
        if !other?.is_never() {
            return Err(self.cx.report(
                Diagnostic::error("E0610", or.span, "this alternative goes on without the answers")
                    .label("must leave")
                    .hint("end it with `return` or `fault …`"),
            ));
        }
        (self.replied, self.epoch) = (replied, epoch);
        let cond = self.local_expr(failed);
        self.push(span, StmtKind::If { cond, then: block, other: vec![] });
        Ok(())
    }
}

pub fn is_call(e: &Expr) -> bool {
    matches!(&*e.kind, ExprKind::Call1 { .. } | ExprKind::CallEach { .. } | ExprKind::CallAll { .. })
}
