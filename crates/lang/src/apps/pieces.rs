//! `on client.body(req, piece)`: handlers of the pieces of a message's streamed bytes; and values
//! that are remembered of a request (`request seen: u64`).

use super::handlers::{at, run};
use super::scope::AppName;
use crate::body::{HandlerCtx, Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use ir::{ExprKind as K, StmtKind};
use wireloom_ir::{self as ir, desc};
use wireloom_syntax::ast::{self, Ident, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    pub fn piece_handler(&mut self, module: ModId, app: &str, h: &ast::Handler, span: Span) -> R<()> {
        let ast::On::Body { port, message, piece } = &h.on else { return Err(Reported) };
        if let Some(AppName::Upstream(_)) = self.app.get(&port.name) {
            return Err(self.no_pieces(port.span, "messages of a conversation are passed on without a look at pieces"));
        }
        let p = self.port_named(module, port)?;
        let (listens, protocol) = self.piece_port(p, port)?;
        let info = self.protocols[protocol.index()].clone();
        let unit = if listens { info.request } else { info.response.ok_or(Reported)? };
        if !self.has_streams(unit) {
            let shown = self.m.units[unit.index()].name.clone();
            return Err(self.no_pieces(port.span, &format!("`{shown}` has no streams")));
        }
        let on = ir::On::Piece { port: p, protocol };
        if let Some(first) = self.m.handlers.iter().find(|h| h.on == on).map(|h| at(&h.span)) {
            let d = Diagnostic::error("E0639", port.span, format!("`{}` has a handler of pieces already", port.name));
            return Err(self.report(d.label("the second one").also(first, "the first one")));
        }
        let mut l = Lower::new(self, module, Kind::Handler);
        l.place = format!("app {app}: on {}.body", port.name);
        l.in_app = true;
        let msg = l.new_local(&message.name, &Ty::Msg(unit));
        l.handler =
            Some(HandlerCtx { port: p, protocol, req: msg, one_way: !listens, no_reply: true, greeting: false });
        l.bind_all(&[(message.clone(), Val::path(Ty::Msg(unit), build::msg(msg)))]);
        l.bind_piece(msg, piece);
        // Even in error it counts as handled: no second report.
        let body = run(l, &h.body, h.guard.as_ref(), span).unwrap_or_default();
        self.waits_for_nothing(&body, span)?;
        if ir::changes_pieces(&body) {
            self.changing.insert((p, protocol));
        }
        self.add_handler(&format!("{}.body", port.name), on, span, body);
        Ok(())
    }

    /// Whether the port listens, and its protocol.
    fn piece_port(&mut self, p: ir::PortId, name: &Ident) -> R<(bool, ir::ProtocolId)> {
        let port = self.m.ports[p.index()].clone();
        let listens = match port.kind {
            desc::PortKind::Listen(_) => true,
            desc::PortKind::Connect(_) => false,
            desc::PortKind::Frames { .. } => return Err(self.no_pieces(name.span, "frames have no streams")),
        };
        let protocol = self.handler_protocol(0, p, name, None)?;
        let why = if port.udp {
            "a datagram is one piece"
        } else if self.is_session(protocol) {
            "messages of a conversation are passed on without a look at pieces"
        } else if port.options.hold_body > 0 {
            "this port holds bodies: a handler has them as a whole"
        } else {
            return Ok((listens, protocol));
        };
        Err(self.no_pieces(name.span, why))
    }

    fn no_pieces(&mut self, span: Span, why: &str) -> Reported {
        self.report(Diagnostic::error("E0442", span, format!("there are no pieces here: {why}")))
    }

    fn waits_for_nothing(&mut self, body: &ir::Body, span: Span) -> R<()> {
        let mut waits = false;
        ir::walk::stmts(&body.block, &mut |s| {
            waits |= matches!(s.kind, StmtKind::Await { .. } | StmtKind::Send { .. })
        });
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

    /// `drop piece`: whether it was that.
    pub fn drop_body(&mut self, e: &ast::Expr, span: Span) -> bool {
        let ast::ExprKind::Name(n) = &*e.kind else { return false };
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
        let why = if self.piece.is_some() {
            "a handler of pieces makes no calls"
        } else if handler.one_way || self.cx.is_session(handler.protocol) {
            "this message is not answered"
        } else if !self.cx.has_streams(unit) {
            "it has no streams"
        } else if self.replied != crate::body::Replied::No {
            "it is answered already"
        } else {
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
