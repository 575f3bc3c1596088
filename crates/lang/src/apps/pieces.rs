//! `on client.body(req, piece)`: handlers of the pieces of a message's streamed bytes; and values
//! that are remembered of a request (`request seen: u64`).

use super::handlers::run;
use super::scope::AppName;
use crate::body::passed_on::Passed;
use crate::body::stream_item::StreamItem;
use crate::body::unparse_check::edits::reroot_from;
use crate::body::{HandlerCtx, Kind, Lower, Talk};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::Ty;
use crate::units::findings::source;
use crate::val::Val;
use ir::{ExprKind as K, StmtKind};
use wireloom_ir::{self as ir, desc};
use wireloom_syntax::ast::{self, Ident, Span};
use wireloom_syntax::Diagnostic;

/// The messages whose pieces a handler is for.
struct PiecesOf {
    port: ir::PortId,
    protocol: ir::ProtocolId,
    upstream: Option<ir::UpstreamId>,
    /// The messages are those of clients.
    listens: bool,
    unit: ir::UnitId,
    /// The stream of units whose items it is for.
    stream: Option<ir::FieldId>,
}

impl Compiler<'_> {
    pub fn piece_handler(&mut self, module: ModId, app: &str, h: &ast::Handler, span: Span) -> R<()> {
        let (port, name, message, piece) = match &h.on {
            ast::On::Body { port, stream, message, piece, .. } => (port, stream, message.as_ref(), piece),
            ast::On::Event { port, event, param: Some(piece) } => (port, event, None, piece),
            ast::On::Event { .. }
            | ast::On::Message { .. }
            | ast::On::Fault(_)
            | ast::On::Start
            | ast::On::End
            | ast::On::Every(_) => return Err(Reported),
        };
        let of = self.pieces_of(module, &h.on, port, name)?;
        let on = ir::On::Piece { port: of.port, protocol: of.protocol, upstream: of.upstream, stream: of.stream };
        if let Some(first) = self.other_pieces(&of) {
            let d = Diagnostic::error("E0639", port.span, format!("`{}` has a handler of pieces already", port.name));
            let d = d.label("the second one").also(first, "the first one");
            return Err(
                self.report(d.note("one stream of a message has a handler, also where cases have streams each"))
            );
        }
        let session = self.is_session(of.protocol);
        let mut l = Lower::new(self, module, Kind::Handler);
        l.place = format!("app {app}: on {}.{}", port.name, name.name);
        l.in_app = true;
        let msg = l.new_local(message.map_or("", |m| &m.name), &Ty::Msg(of.unit));
        l.handler = if session {
            l.talk = Talk { came_on: None, protocol: Some(of.protocol), opened: Vec::new() };
            l.cx.conversation(msg)
        } else {
            let (port, protocol, one_way) = (of.port, of.protocol, !of.listens);
            Some(HandlerCtx { port, protocol, req: msg, one_way, no_reply: true, greeting: false })
        };
        if let Some(m) = message {
            l.bind_all(&[(m.clone(), Val::path(Ty::Msg(of.unit), build::msg(msg)))]);
        }
        match of.stream {
            Some(f) => l.bind_item(msg, (of.unit, f), piece)?,
            None => l.bind_piece(msg, piece),
        }
        // Even in error it counts as handled: no second report.
        let body = run(l, &h.body, h.guard.as_ref(), span).unwrap_or_default();
        self.waits_for_nothing(&body, span)?;
        if of.stream.is_none() && ir::changes_pieces(&body) {
            self.changing.insert((of.port, of.protocol));
        }
        self.add_handler(&format!("{}.{}", port.name, name.name), on, span, body);
        Ok(())
    }

    /// Whether a name is that of a stream of units of a port's messages, as an event's would be.
    pub fn names_a_stream(&self, port: &Ident, name: &Ident) -> bool {
        let (p, down) = match self.app.get(&port.name) {
            Some(AppName::Port(p)) => (*p, !matches!(self.m.ports[p.index()].kind, desc::PortKind::Listen(_))),
            Some(AppName::Upstream(u)) => (self.m.upstreams[u.index()].port, true),
            _ => return false,
        };
        self.m.ports[p.index()].protocols.iter().any(|q| {
            let unit = self.message_unit(*q, down);
            unit.is_some_and(|u| self.stream_named(u, &name.name).is_some())
        })
    }

    fn message_unit(&self, protocol: ir::ProtocolId, down: bool) -> Option<ir::UnitId> {
        let info = &self.protocols[protocol.index()];
        if down {
            info.response
        } else {
            Some(info.request)
        }
    }

    fn stream_named(&self, unit: ir::UnitId, name: &str) -> Option<ir::FieldId> {
        let of_name =
            |f: &ir::Field| matches!(f.kind, ir::FieldKind::StreamUnit { .. }) && f.name.as_deref() == Some(name);
        self.m.units[unit.index()].fields.iter().position(of_name).map(|n| ir::FieldId(n as u32))
    }

    /// The messages whose pieces, or items of this name, a handler is for.
    fn pieces_of(&mut self, module: ModId, on: &ast::On, port: &Ident, name: &Ident) -> R<PiecesOf> {
        let (p, upstream) = match self.app.get(&port.name) {
            Some(AppName::Upstream(u)) => (self.m.upstreams[u.index()].port, Some(*u)),
            _ => (self.port_named(module, port)?, None),
        };
        let listens = match self.m.ports[p.index()].kind {
            desc::PortKind::Listen(_) => true,
            desc::PortKind::Connect(_) => false,
            desc::PortKind::Frames { .. } => return Err(self.no_pieces(port.span, "frames have no streams")),
        };
        let bytes = name.name == "body" && matches!(on, ast::On::Body { message: Some(_), .. });
        let named = if let ast::On::Body { protocol, .. } = on { protocol.clone() } else { None };
        let named = self.direction(named.as_ref(), !listens)?;
        let all = self.m.ports[p.index()].protocols.clone();
        let has = |s: &Self, q: ir::ProtocolId| {
            let unit = s.message_unit(q, !listens);
            unit.is_some_and(|u| if bytes { s.has_streams(u) } else { s.stream_named(u, &name.name).is_some() })
        };
        let fit: Vec<_> = all.iter().copied().filter(|q| has(self, *q)).collect();
        let protocol = match (&named, fit.as_slice()) {
            (None, [one]) => *one,
            (None, [first, _, ..]) => {
                let of = self.handled_as(module, *first, listens);
                let text = format!("several protocols of `{}` have messages with `{}`", port.name, name.name);
                let hint = format!("write `on {}.{}({of}, item) {{ … }}`", port.name, name.name);
                return Err(self.report(Diagnostic::error("E0640", port.span, text).hint(hint)));
            }
            _ => self.handler_protocol(module, p, port, named.as_ref())?,
        };
        let unit = self.message_unit(protocol, !listens).ok_or(Reported)?;
        let shown = self.m.units[unit.index()].name.clone();
        let stream = self.stream_named(unit, &name.name).filter(|_| !bytes);
        let why = if bytes && !self.has_streams(unit) {
            format!("`{shown}` has no streams")
        } else if !bytes && stream.is_none() {
            format!("`{shown}` has no stream of units `{}`", name.name)
        } else if self.m.ports[p.index()].udp {
            "a datagram is one piece".into()
        } else if self.m.ports[p.index()].options.hold_body > 0 {
            "this port holds bodies: a handler has them as a whole".into()
        } else if self.is_session(protocol) && !listens && upstream.is_none() {
            format!("connections of `{}` belong to clients: name the `session` of the connection", port.name)
        } else if let Some(why) = stream.and_then(|f| self.no_items(unit, f)) {
            why
        } else {
            return Ok(PiecesOf { port: p, protocol, upstream, listens, unit, stream });
        };
        Err(self.no_pieces(port.span, &why))
    }

    /// Why items of a stream have no handlers.
    fn no_items(&self, unit: ir::UnitId, f: ir::FieldId) -> Option<String> {
        let ir::FieldKind::StreamUnit { unit: item, args, until } = &self.m.units[unit.index()].fields[f.index()].kind
        else {
            return None;
        };
        let shown = &self.m.units[item.index()].name;
        let parts = |k: &ir::FieldKind| matches!(k, ir::FieldKind::Pass { .. });
        if self.has_streams(*item) {
            Some(format!("items of `{shown}` stream themselves"))
        } else if ir::grammar::tail::has(&self.m, *item, &parts) {
            Some(format!("only a part of each `{shown}` is passed on"))
        } else if !args.is_empty() {
            Some(format!("`{shown}` has parameters"))
        } else if until.is_none() {
            Some("the stream has one item".into())
        } else {
            None
        }
    }

    /// Another handler of pieces of the same messages.
    fn other_pieces(&self, of: &PiecesOf) -> Option<Span> {
        let same = |h: &&ir::Handler| {
            matches!(h.on, ir::On::Piece { port, protocol, upstream, .. }
                if (port, protocol, upstream) == (of.port, of.protocol, of.upstream))
        };
        self.m.handlers.iter().find(same).map(|h| source(h.span))
    }

    fn no_pieces(&mut self, span: Span, why: &str) -> Reported {
        self.report(Diagnostic::error("E0442", span, format!("there are no pieces here: {why}")))
    }

    fn waits_for_nothing(&mut self, body: &ir::Body, span: Span) -> R<()> {
        let (mut waits, mut again) = (false, false);
        ir::walk::stmts(&body.block, &mut |s| {
            waits |= matches!(s.kind, StmtKind::Await { .. } | StmtKind::Send { .. });
            let sends = matches!(s.kind, StmtKind::Tell { .. } | StmtKind::Deliver { .. });
            again |= sends
                && ir::walk::outgoing(&s.kind)
                    .is_some_and(|o| matches!(o, ir::Outgoing::Pass { msg, .. } if *msg == ir::LocalId(0)));
        });
        if again {
            let d = Diagnostic::error("E0442", span, "a handler of pieces does not pass their message on")
                .hint("that is done where the message has come: `on client(m) { m -> up }`");
            return Err(self.report(d));
        }
        if !waits {
            return Ok(());
        }
        let d = Diagnostic::error("E0442", span, "a handler of pieces makes no calls")
            .label("the piece waits for it")
            .hint("make the call in the handler of the message");
        Err(self.report(d))
    }

    /// Clauses that nothing in the app needs cost each message nothing.
    pub fn unneeded_clauses(&mut self) {
        let mut waits = false;
        self.m.bodies(&mut |b| ir::walk::stmts(&b.block, &mut |s| waits |= matches!(s.kind, StmtKind::AwaitBody)));
        for (n, p) in self.m.protocols.iter_mut().enumerate() {
            let id = ir::ProtocolId(n as u32);
            if !self.changing.iter().any(|(_, q)| *q == id) {
                (p.chunks_request, p.chunks_response) = (None, None);
            }
            let holds = |p: &ir::Port| {
                p.options.hold_body > 0 && matches!(p.kind, desc::PortKind::Listen(_)) && p.protocols.contains(&id)
            };
            if !waits && !self.m.ports.iter().any(holds) {
                p.expects = None;
            }
        }
    }
}

impl Lower<'_, '_> {
    /// The piece is a variable: what it is set to goes on in its place.
    fn bind_piece(&mut self, msg: ir::LocalId, name: &Ident) {
        let ty = Ty::Bytes(ir::Protocol::PIECE_MAX);
        let option = self.cx.lower_ty(&ty.clone().option());
        let held = ir::Expr::new(option, K::Held(msg));
        let t = self.cx.lower_ty(&ty);
        let piece = ir::Expr::new(
            t,
            K::If(build::is_some(held.clone()), ir::Expr::new(t, K::Unwrap(held)), ir::Expr::new(t, K::Bytes(vec![]))),
        );
        let l = self.new_local(&name.name, &ty);
        self.push(name.span, StmtKind::Set(l, piece));
        self.bind_full(name, Val::pure(ty, self.local_expr(l)), Some(l), false);
        if let Some(b) = self.scopes.last_mut().and_then(|s| s.last_mut()) {
            b.used = true;
        }
        self.piece = Some(l);
    }

    /// The item is a message of its own, which has come whole.
    fn bind_item(&mut self, msg: ir::LocalId, (unit, f): (ir::UnitId, ir::FieldId), name: &Ident) -> R<()> {
        let ir::FieldKind::StreamUnit { unit: item, until: Some(until), .. } =
            self.cx.m.units[unit.index()].fields[f.index()].kind.clone()
        else {
            return Err(Reported);
        };
        let ty = Ty::Bytes(ir::Protocol::ITEM_MAX);
        let option = self.cx.lower_ty(&ty.clone().option());
        let held = ir::Expr::new(option, K::Held(msg));
        let t = self.cx.lower_ty(&ty);
        let bytes = build::if_(
            t,
            build::is_some(held.clone()),
            ir::Expr::new(t, K::Unwrap(held)),
            ir::Expr::new(t, K::Bytes(vec![])),
        );
        let m = self.parse_item(item, bytes, &name.name, (ir::FaultKind::MALFORMED, name.span));
        self.bind(name, Val::path(Ty::Msg(item), build::msg(m)));
        if let Some(b) = self.scopes.last_mut().and_then(|s| s.last_mut()) {
            b.used = true;
        }
        self.item = Some(StreamItem { msg, item: m, unit: item, until });
        Ok(())
    }

    /// A message of all these bytes, or the fault.
    fn parse_item(
        &mut self,
        unit: ir::UnitId,
        bytes: ir::Expr,
        name: &str,
        (fault, span): (ir::FaultKind, Span),
    ) -> ir::LocalId {
        let (m, ok) = (self.new_local(name, &Ty::Msg(unit)), self.new_local("", &Ty::Bool));
        self.push(span, StmtKind::Parse { unit, kept: None, bytes, dst: m, ok });
        let ok = self.local_expr(ok);
        self.guard(ok, fault, span);
        m
    }

    /// Whether an item is the stream's last.
    fn is_last(&self, until: &ir::Expr, msg: ir::LocalId, item: ir::LocalId) -> ir::Expr {
        let mut e = until.clone();
        ir::walk::expr_mut(&mut e, &mut |e| {
            reroot_from(e, ir::Root::Item, item);
            reroot_from(e, ir::Root::This, msg);
        });
        e
    }

    /// The item that a name means, in a handler of items.
    fn item_named(&self, e: &ast::Expr) -> Option<&StreamItem> {
        let ast::ExprKind::Name(n) = &*e.kind else { return None };
        let item = self.item.as_ref()?;
        let (i, j) = self.lookup(&n.name)?;
        let crate::val::Vk::Path(p) = &self.scopes[i][j].val.kind else { return None };
        (p.root == ir::Root::Local(item.item) && p.steps.is_empty()).then_some(item)
    }

    /// `item = m`: m goes on in the place of the item. None: it was something else.
    pub fn give_item(&mut self, place: &ast::Expr, value: &ast::Expr, span: Span) -> Option<R<Val>> {
        let item = self.item_named(place)?.clone();
        Some(self.give(&item, value, span))
    }

    fn give(&mut self, item: &StreamItem, value: &ast::Expr, span: Span) -> R<Val> {
        let v = self.expr(value, Some(&Ty::Msg(item.unit)))?;
        let v = self.defined(v, value.span)?;
        let bytes = self.keep_message(&v, item.unit, ir::Protocol::ITEM_MAX, value.span)?;
        let bytes = self.temp("", &Ty::Bytes(ir::Protocol::ITEM_MAX), bytes, span);
        let bytes = self.local_expr(bytes);
        let m = self.parse_item(item.unit, bytes.clone(), "", (ir::FaultKind::CONSTRAINT, span));
        // Its reader goes on to the next item, or not, as with the one that has come.
        let (was, is) = (self.is_last(&item.until, item.msg, item.item), self.is_last(&item.until, item.msg, m));
        self.guard(build::cmp(ir::BinOp::Eq, was, is), ir::FaultKind::CONSTRAINT, span);
        self.push(span, StmtKind::SetPiece(bytes));
        self.given = Some(span);
        Ok(Val::unit())
    }

    /// An item for which another one goes on is not read any more.
    pub fn item_is_given(&mut self, n: &Ident, local: ir::LocalId) -> R<()> {
        let own = self.item.as_ref().is_some_and(|i| i.item == local);
        let Some(given) = self.given.filter(|_| own) else { return Ok(()) };
        let d = Diagnostic::error("E0442", n.span, format!("another item has taken the place of `{}`", n.name))
            .label("read behind the assignment")
            .also(given, "its place is taken here")
            .hint("read its fields before, into a `let`, or write `else if`");
        Err(self.cx.report(d))
    }

    /// `drop piece`, `drop item`: whether it was that.
    pub fn drop_body(&mut self, e: &ast::Expr, span: Span) -> bool {
        let ast::ExprKind::Name(n) = &*e.kind else { return false };
        if let Some(item) = self.item_named(e).cloned() {
            // Without its last item the stream would not end.
            let last = self.is_last(&item.until, item.msg, item.item);
            self.guard(build::not(last), ir::FaultKind::CONSTRAINT, span);
            self.push(span, StmtKind::DropBody);
            return true;
        }
        let Some((i, j)) = self.lookup(&n.name) else { return false };
        if self.piece.is_none() || self.scopes[i][j].var != self.piece {
            return false;
        }
        self.push(span, StmtKind::DropBody);
        true
    }

    /// `req.wait()`: until the rest of the request has come.
    pub fn wait_for_body(&mut self, base: &ast::Expr, name: &Ident, span: Span) -> Option<R<Val>> {
        let handler = self.handler.filter(|h| name.name == "wait" && !h.greeting)?;
        let ast::ExprKind::Name(n) = &*base.kind else { return None };
        let (i, j) = self.lookup(&n.name)?;
        let crate::val::Vk::Path(p) = &self.scopes[i][j].val.kind else { return None };
        if p.root != ir::Root::Local(handler.req) || !p.steps.is_empty() {
            return None;
        }
        let Ty::Msg(unit) = self.scopes[i][j].val.ty else { return None };
        self.scopes[i][j].used = true;
        let why = if self.piece.is_some() || self.item.is_some() {
            "a handler of pieces makes no calls"
        } else if handler.one_way && !self.cx.is_session(handler.protocol) {
            "this message is not answered"
        } else if !self.cx.has_streams(unit) {
            "it has no streams"
        } else if self.replied != crate::body::Replied::No {
            "it is answered already"
        } else {
            self.passed.insert((handler.req, Passed::Read), span);
            self.push(span, StmtKind::AwaitBody);
            self.push(span, StmtKind::Await { hold: false, hold_req: false, live: vec![] });
            self.epoch += 1;
            return Some(Ok(Val::unit()));
        };
        let d = Diagnostic::error("E0442", span, format!("nothing waits for the rest of this message: {why}"));
        Some(Err(self.cx.report(d.hint("`req.wait()` stands in the handler of a request with streams"))))
    }

    /// Values of a request begin anew with each.
    pub fn new_request(&mut self, span: Span) {
        for (id, ty) in self.cx.of_requests.clone() {
            let zero = self.zero(&ty);
            self.push(span, StmtKind::SetSession(id, zero));
        }
    }

    /// Whether pieces of a message may be changed on its way.
    pub fn may_change(&self, msg: ir::LocalId) -> bool {
        let own = self.handler.filter(|h| h.req == msg && !h.greeting);
        own.is_some_and(|h| self.cx.changing.contains(&(h.port, h.protocol))) || self.in_other_pieces.contains(&msg)
    }
}
