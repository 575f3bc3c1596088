//! Conversations in handlers: messages to the client and on its upstreams, which are opened and
//! closed.

use super::destination::Sink;
use super::Lower;
use crate::apps::scope::AppName;
use crate::compiler::{Reported, R};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::Val;
use ir::{Peer, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    /// The upstream that an expression names.
    pub fn upstream_named(&self, e: &Expr) -> Option<ir::UpstreamId> {
        let ExprKind::Name(n) = &*e.kind else { return None };
        match self.cx.app.get(&n.name) {
            Some(AppName::Upstream(c)) if self.in_app && self.lookup(&n.name).is_none() => Some(*c),
            _ => None,
        }
    }

    /// The member of a conversation that a message is sent to; none if it is something else.
    pub fn member(&mut self, to: &Expr, span: Span) -> R<Option<Sink>> {
        if let Some(upstream) = self.upstream_named(to) {
            self.in_conversation(to.span)?;
            return Ok(Some(Sink::Tell { to: Peer::Upstream(upstream), span }));
        }
        let ExprKind::Name(n) = &*to.kind else { return Ok(None) };
        let clients = self.cx.conversation_port();
        let named = self.cx.app.port(&n.name).filter(|_| self.in_app && self.lookup(&n.name).is_none());
        let (Some(port), Some((clients, _))) = (named, clients) else { return Ok(None) };
        if port != clients {
            return Ok(None);
        }
        self.in_conversation(to.span)?;
        Ok(Some(Sink::Tell { to: Peer::Client, span }))
    }

    /// Whether this is a handler of a conversation.
    pub fn converses(&self) -> bool {
        self.handler.is_some_and(|h| !h.greeting && self.cx.is_session(h.protocol)) && self.kind == super::Kind::Handler
    }

    /// Only handlers of a conversation have its members at hand.
    pub fn in_conversation(&mut self, span: Span) -> R<()> {
        self.impure = true;
        if self.converses() {
            return Ok(());
        }
        let d = Diagnostic::error("E0697", span, "there is no conversation here")
            .label("whose connection?")
            .hint("handlers of its messages and of its events have one: `on client(m)`, `on up.closed`");
        Err(self.cx.report(d))
    }

    pub fn tell(&mut self, v: &Val, to: Peer, span: Span, at: Span) -> R<()> {
        let msg = self.message_of(v, span)?;
        let protocol = self.spoken_to(to, msg.unit).ok_or(Reported)?;
        let info = self.cx.protocols[protocol.index()].clone();
        let down = to == Peer::Client;
        let unit = if down { info.response } else { Some(info.request) };
        self.same_unit(msg.unit, unit.ok_or(Reported)?, span)?;
        let msg = self.forwarded(&msg, protocol, down, span)?;
        let place = self.place_id(at);
        let protocol = self.of_several(to, protocol);
        self.push(at, StmtKind::Tell { to, protocol, msg, place });
        Ok(())
    }

    /// A value that the conversation at hand remembers: `client.mode`.
    pub fn remembered(&mut self, base: &Expr, name: &Ident) -> Option<(ir::SessionId, Ty)> {
        let ExprKind::Name(n) = &*base.kind else { return None };
        let port = self.cx.app.port(&n.name).filter(|_| self.in_app && self.lookup(&n.name).is_none())?;
        self.remembered_of(port, name)
    }

    pub fn remembered_of(&mut self, port: ir::PortId, name: &Ident) -> Option<(ir::SessionId, Ty)> {
        let h = self.handler.filter(|h| h.port == port && self.kind == super::Kind::Handler)?;
        let own = std::iter::once(h.protocol).chain(self.cx.m.protocols_of(Peer::Client).iter().copied());
        let mut all = own.flat_map(|p| &self.cx.protocols[p.index()].sessions);
        let found = all.find(|(n, ..)| *n == name.name).map(|f| (f.1, f.2.clone()))?;
        self.impure = true;
        Some(found)
    }

    /// The parameters of a message's unit, by what the conversation remembers now.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all but bools are numbers")]
    pub fn session_args(&mut self, proto: ir::ProtocolId, down: bool) -> Vec<ir::Expr> {
        let p = &self.cx.m.protocols[proto.index()];
        let args = if down { p.response_args.clone() } else { p.request_args.clone() };
        if !self.handler.is_some_and(|h| h.greeting) {
            return args;
        }
        // Without a client, as where a session is reset: they are as at the beginning.
        let zero = |e: &ir::Expr| match self.cx.m.ty(e.ty) {
            ir::Ty::Bool => build::boolean(false),
            _ => build::int(e.ty, 0),
        };
        args.iter().map(zero).collect()
    }

    /// `up = open db[i]`, `up = open db[i] for key`
    pub fn open_upstream(&mut self, place: &Expr, target: &Expr, key: Option<&Expr>, span: Span) -> R<()> {
        let (upstream, index, own) = self.opened(place, target, span)?;
        let key = match key {
            None => None,
            Some(key) => {
                self.has_pools(own, span)?;
                let v = self.expr(key, None)?;
                let v = self.defined(v, key.span)?;
                Some(self.bytes_of(v, key.span)?)
            }
        };
        let place = self.place_id(span);
        self.push(span, StmtKind::OpenUpstream { upstream, index, key, place });
        Ok(())
    }

    /// `up = take db[i]`
    pub fn take_upstream(&mut self, place: &Expr, target: &Expr, span: Span) -> R<()> {
        let (upstream, index, own) = self.opened(place, target, span)?;
        self.has_pools(own, span)?;
        let place = self.place_id(span);
        self.push(span, StmtKind::TakeUpstream { upstream, index, place });
        Ok(())
    }

    /// The upstream, the instance and the port of a connection that is opened.
    fn opened(&mut self, place: &Expr, target: &Expr, span: Span) -> R<(ir::UpstreamId, ir::Expr, ir::PortId)> {
        let Some(upstream) = self.upstream_named(place) else {
            let d = Diagnostic::error("E0697", place.span, "an open connection is kept in a session")
                .hint("declare it: `session up: connection of db`");
            return Err(self.cx.report(d));
        };
        self.in_conversation(span)?;
        let (port, index) = self.target(target)?;
        let own = self.cx.m.upstreams[upstream.index()].port;
        if port != own {
            let name = self.cx.m.ports[own.index()].name.clone();
            let d = Diagnostic::error("E0697", target.span, "the session keeps connections of another port")
                .hint(format!("open one of `{name}`"));
            return Err(self.cx.report(d));
        }
        self.talk.opened.push(upstream);
        Ok((upstream, index, own))
    }
}
