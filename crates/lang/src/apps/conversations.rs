//! Conversations of an app: the upstreams that its sessions keep, and their handlers.

use super::handlers::{plain, run};
use super::scope::AppName;
use crate::body::{HandlerCtx, Talk};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Ty, U32};
use crate::units::findings::source;
use crate::val::Val;
use wireloom_ir::{self as ir, desc};
use wireloom_syntax::ast::{self, Ident, Path, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// Whether the connections of a protocol belong to clients.
    pub fn is_session(&self, p: ir::ProtocolId) -> bool {
        self.m.protocols.get(p.index()).is_some_and(|p| p.sharing == desc::Sharing::Session)
    }

    /// The port whose clients have conversations, and its protocol.
    pub fn conversation_port(&self) -> Option<(ir::PortId, ir::ProtocolId)> {
        let port = self.m.port_of(ir::Peer::Client)?;
        let all = &self.m.ports[port.index()].protocols;
        Some((port, all.iter().copied().find(|p| self.is_session(*p))?))
    }

    /// `session up: connection of db`
    pub fn declare_upstream(&mut self, module: ModId, name: &Ident, port: &Ident) {
        let listens = self.app.port(&port.name).is_some_and(|p| self.conversation_port().is_some_and(|(q, _)| p == q));
        if listens {
            // Another client's handle.
            let ty = ast::Type { kind: ast::TypeKind::Connection(port.clone()), span: port.span };
            let what = self.session_of(module, name, &ty).map_or(AppName::Failed, |(id, t)| AppName::Session(id, t));
            return self.add(name, what);
        }
        let what = match self.upstream(name, port) {
            Ok(c) => AppName::Upstream(c),
            Err(Reported) => {
                self.must_be_told(name.span);
                AppName::Failed
            }
        };
        self.add(name, what);
    }

    /// `connection of client`: the type of handles.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn handle_type(&mut self, port: &Ident) -> R<Ty> {
        let listens = |m: &ast::Member| match &m.kind {
            ast::MemberKind::Port(p) => p.name.name == port.name && p.direction.name == "listen",
            _ => false,
        };
        if self.app_ast.as_ref().is_some_and(|a| a.members.iter().any(listens)) {
            // Which protocol it speaks may not be known yet.
            self.handle_ports.push(port.clone());
            return Ok(Ty::Handle);
        }
        let d = Diagnostic::error("E0698", port.span, format!("`{}` is no port that clients connect to", port.name))
            .label("not a listening port of the app")
            .hint("in an app: `table members: bytes<64> -> list<connection of client, 64> { … }`");
        Err(self.report(d))
    }

    /// Handles are of clients that have conversations.
    pub fn check_handle_ports(&mut self) {
        for port in std::mem::take(&mut self.handle_ports) {
            let Some(AppName::Port(p)) = self.app.get(&port.name).cloned() else { continue };
            if self.conversation_port().is_some_and(|(q, _)| p == q) {
                continue;
            }
            let d = Diagnostic::error("E0698", port.span, format!("clients of `{}` have no conversations", port.name))
                .label("they get answers only")
                .hint("its protocol has `up`, `down` and `sharing session`");
            self.once(d);
        }
    }

    /// Whether the declaration of a listening port has an error.
    #[allow(clippy::wildcard_enum_match_arm, reason = "one kind of many is looked for")]
    fn has_failed_listener(&self) -> bool {
        let failed = |m: &ast::Member| match &m.kind {
            ast::MemberKind::Port(p) => {
                p.direction.name == "listen" && matches!(self.app.get(&p.name.name), Some(AppName::Failed))
            }
            _ => false,
        };
        self.app_ast.as_ref().is_some_and(|a| a.members.iter().any(failed))
    }

    fn upstream(&mut self, name: &Ident, port: &Ident) -> R<ir::UpstreamId> {
        let p = self.port_named(0, port)?;
        let of = self.m.ports[p.index()].clone();
        let session = of.protocols.first().is_some_and(|q| self.is_session(*q));
        if !matches!(of.kind, desc::PortKind::Connect(_)) || !session {
            let d = Diagnostic::error(
                "E0697",
                port.span,
                format!("clients have no connections of their own to `{}`", port.name),
            )
            .label("not a connecting port of conversations")
            .hint("the port connects, and its protocol has `up`, `down` and `sharing session`");
            return Err(self.report(d));
        }
        if self.conversation_port().is_none() {
            if self.has_failed_listener() {
                return Err(Reported);
            }
            let d = Diagnostic::error("E0697", name.span, "no client could own this connection")
                .hint("a listening port speaks a protocol with `sharing session`");
            return Err(self.report(d));
        }
        if self.m.upstreams.len() >= ir::UPSTREAMS_MAX {
            let text = format!("an app keeps at most {} connections for each client", ir::UPSTREAMS_MAX);
            return Err(self.error("E0697", name.span, text));
        }
        let span = self.span(name.span);
        self.m.upstreams.push(ir::Upstream { name: name.name.clone(), span, port: p });
        Ok(ir::UpstreamId(self.m.upstreams.len() as u32 - 1))
    }

    /// A listening port of conversations has one protocol, and there is one such port.
    pub fn one_conversation(&mut self, listens: &ast::Port, protocols: &[ir::ProtocolId]) -> R<()> {
        if !protocols.iter().any(|p| self.is_session(*p)) {
            return Ok(());
        }
        let told = if listens.protocols.len() > 1 {
            "a port of conversations speaks one protocol"
        } else if self.conversation_port().is_some() {
            "an app has one listening port of conversations"
        } else {
            return Ok(());
        };
        Err(self
            .report(Diagnostic::error("E0697", listens.name.span, told).hint("write another app for the other one")))
    }

    /// Connections of conversations can change their protocol, others cannot.
    pub fn only_conversations_change(&mut self, port: &ast::Port, protocols: &[ir::ProtocolId]) -> R<()> {
        let Some(then) = port.becomes.first() else { return Ok(()) };
        if port.transport.name == "tcp" && protocols.iter().all(|p| self.is_session(*p)) {
            return Ok(());
        }
        let d = Diagnostic::error("E0699", then.span, "only a conversation's connection changes its protocol")
            .label("these protocols have requests and answers")
            .hint("each of them has `up`, `down` and `sharing session`");
        Err(self.report(d))
    }

    /// `pg.up` and `pg.down` name the messages of a conversation. Gives the protocol without the
    /// direction.
    pub fn direction(&mut self, named: Option<&Path>, down: bool) -> R<Option<Path>> {
        let Some(path) = named else { return Ok(None) };
        let Some((last, rest)) = path.parts.split_last().filter(|(_, rest)| !rest.is_empty()) else {
            return Ok(Some(path.clone()));
        };
        let (here, there, whose) = if down { ("down", "up", "servers") } else { ("up", "down", "clients") };
        if last.name == there {
            self.report(
                Diagnostic::error("E0697", last.span, format!("{whose} send no `{there}`"))
                    .hint(format!("write `{here}`")),
            );
        } else if last.name != here {
            return Ok(Some(path.clone()));
        }
        let span = Span { end: rest[rest.len() - 1].span.end, ..path.span };
        Ok(Some(Path { parts: rest.to_vec(), span }))
    }

    /// `on up(m) { … }`
    pub fn upstream_handler(&mut self, module: ModId, app: &str, h: &ast::Handler, span: Span) -> R<()> {
        let ast::On::Message { port: name, param, index, protocol: named } = &h.on else { return Err(Reported) };
        let Some(AppName::Upstream(upstream)) = self.app.get(&name.name).cloned() else { return Err(Reported) };
        if let Some(i) = index {
            return Err(self.no_array(&name.name, "connection", i.span));
        }
        let path = self.direction(named.as_ref(), true)?;
        let port = self.m.upstreams[upstream.index()].port;
        let protocol = self.handler_protocol(module, port, name, path.as_ref())?;
        let several = self.m.ports[port.index()].protocols.len() > 1;
        let on = ir::On::Upstream { upstream, protocol: several.then_some(protocol) };
        self.first_of(on, name)?;
        let unit = self.protocols[protocol.index()].response.ok_or(Reported)?;
        let mut l = plain(self, module, format!("app {app}: on {}", name.name));
        let msg = l.new_local(&param.name, &Ty::Msg(unit));
        l.handler = l.cx.conversation(msg);
        let came_on = Some(ir::Peer::Upstream(upstream));
        l.talk = Talk { came_on, protocol: Some(protocol), opened: Vec::new() };
        l.bind_all(&[(param.clone(), Val::path(Ty::Msg(unit), build::msg(msg)))]);
        // Even in error it counts as handled: no second report.
        let body = run(l, &h.body, h.guard.as_ref(), span).unwrap_or_default();
        self.add_handler(&name.name, on, span, body);
        Ok(())
    }

    /// `on up.opened`, `on up.closed`
    pub fn upstream_event(&mut self, module: ModId, app: &str, h: &ast::Handler, span: Span) -> R<()> {
        let ast::On::Event { port: name, event, param } = &h.on else { return Err(Reported) };
        let Some(AppName::Upstream(upstream)) = self.app.get(&name.name).cloned() else { return Err(Reported) };
        let on = match event.name.as_str() {
            "opened" => ir::On::UpstreamOpened(upstream),
            "closed" => ir::On::UpstreamClosed(upstream),
            other => {
                let hint = crate::names::suggest(other, ["closed", "opened"].into_iter());
                let d = Diagnostic::error("E0201", event.span, format!("a connection has no event `{other}`"))
                    .note("events: `opened`, `closed`; or a stream of units of its messages, by name");
                return Err(self.report(crate::names::with_hint(d, hint)));
            }
        };
        let closed = on == ir::On::UpstreamClosed(upstream);
        if let Some(n) = param.as_ref().filter(|_| !closed) {
            return Err(self.error("E0308", n.span, "this event has no value"));
        }
        self.first_of(on, name)?;
        let mut l = plain(self, module, format!("app {app}: on {}.{}", name.name, event.name));
        let instance = l.new_local("instance", &U32);
        l.handler = l.cx.conversation(instance);
        if closed {
            let why = l.new_local("why", &Ty::Fault);
            if let Some(n) = param {
                let value = Val::pure(Ty::Fault, l.local_expr(why));
                l.bind_all(&[(n.clone(), value)]);
            }
        }
        let body = run(l, &h.body, h.guard.as_ref(), span)?;
        self.add_handler(&format!("{}.{}", name.name, event.name), on, span, body);
        Ok(())
    }

    fn first_of(&mut self, on: ir::On, name: &Ident) -> R<()> {
        let Some(first) = self.m.handlers.iter().find(|h| h.on == on).map(|h| source(h.span)) else { return Ok(()) };
        let d = Diagnostic::error("E0639", name.span, format!("`{}` has such a handler already", name.name));
        Err(self.report(d.label("the second one").also(first, "the first one")))
    }

    /// The context of a handler of a conversation: a client, and no request.
    pub fn conversation(&self, msg: ir::LocalId) -> Option<HandlerCtx> {
        let (port, protocol) = self.conversation_port()?;
        Some(HandlerCtx { port, protocol, req: msg, one_way: true, no_reply: true, greeting: false })
    }

    /// Upstreams whose messages nobody handles.
    pub fn unhandled_upstreams(&mut self, module: ModId) {
        for n in 0..self.m.upstreams.len() {
            let upstream = ir::UpstreamId(n as u32);
            let all = self.m.protocols_of(ir::Peer::Upstream(upstream)).to_vec();
            for p in &all {
                let protocol = (all.len() > 1).then_some(*p);
                if self.m.handlers.iter().any(|h| h.on == ir::On::Upstream { upstream, protocol }) {
                    continue;
                }
                let (name, span) = (self.m.upstreams[n].name.clone(), source(self.m.upstreams[n].span));
                let handled = protocol.map_or("m".into(), |p| self.handled_as(module, p, false));
                let d = Diagnostic::error("E0611", span, format!("no handler for messages of the connection `{name}`"))
                    .label("no handler")
                    .hint(format!("write `on {name}({handled}) {{ m -> client }}`"));
                self.report(d);
            }
        }
    }

    /// Upstreams that get messages and that nothing opens, to ports that may have several servers.
    pub fn unopened_upstreams(&mut self) {
        let mut unopened = std::collections::BTreeSet::new();
        let mut opened = Vec::new();
        self.m.bodies(&mut |body| {
            ir::walk::stmts(&body.block, &mut |s| {
                if let ir::StmtKind::Tell { to: ir::Peer::Upstream(u), .. } = &s.kind {
                    unopened.insert(u.index());
                } else if let ir::StmtKind::Ask { upstream: u, .. } = &s.kind {
                    unopened.insert(u.index());
                } else if let ir::StmtKind::OpenUpstream { upstream: u, .. }
                | ir::StmtKind::TakeUpstream { upstream: u, .. } = &s.kind
                {
                    opened.push(u.index());
                }
            });
        });
        for n in unopened.into_iter().filter(|n| !opened.contains(n)) {
            let ir::Upstream { name, span, port } = self.m.upstreams[n].clone();
            if self.app.instances(port) <= 1 {
                continue;
            }
            let db = &self.m.ports[port.index()].name;
            let message = format!("nothing opens `{name}`, and `{db}` may have several servers");
            let d = Diagnostic::warning("W0910", source(span), message)
                .label("a message opens it only to a single server")
                .hint(format!("choose one, as in `on client.opened {{ {name} = open {db}[0] }}`"));
            self.report(d);
        }
    }
}
