//! Handlers of messages, events, faults and timers.

use super::scope::AppName;
use crate::body::{HandlerCtx, Kind, Lower, Talk};
use crate::compiler::{Compiler, Reported, R, T_U32};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Ty, U32};
use crate::units::findings::source;
use crate::val::{Val, Vk};
use ir::ExprKind as K;
use wireloom_ir::{self as ir, desc};
use wireloom_syntax::ast::{self, Expr, Ident, On, Path, Span};
use wireloom_syntax::Diagnostic;

/// The events of ports. Streams of units are handled by their names, unless they have one of these.
const EVENTS: [&str; 4] = ["closed", "greeting", "opened", "probe"];

impl Compiler<'_> {
    pub fn handler(&mut self, module: ModId, app: &str, h: &ast::Handler, span: Span) -> R<()> {
        match &h.on {
            // It stands where its messages are popped.
            On::Message { port, .. } if matches!(self.app.get(&port.name), Some(AppName::Messages(_))) => Ok(()),
            On::Message { port, .. } if matches!(self.app.get(&port.name), Some(AppName::Upstream(_))) => {
                self.upstream_handler(module, app, h, span)
            }
            On::Message { .. } => self.message_handler(module, app, h, span),
            // It stands where entries are written back.
            On::Event { port, .. } if matches!(self.app.get(&port.name), Some(AppName::Cache(_))) => Ok(()),
            On::Event { port, event, param: Some(_) }
                if !EVENTS.contains(&event.name.as_str()) && self.names_a_stream(port, event) =>
            {
                self.piece_handler(module, app, h, span)
            }
            On::Event { port, .. } if matches!(self.app.get(&port.name), Some(AppName::Upstream(_))) => {
                self.upstream_event(module, app, h, span)
            }
            On::Event { .. } => self.event_handler(module, app, h, span),
            On::Body { .. } => self.piece_handler(module, app, h, span),
            On::Fault(name) => {
                let record = self.fault_record(&[("place", U32)]);
                let mut l = plain(self, module, format!("app {app}: on fault"));
                let (kind, place) = (l.new_local("kind", &Ty::Fault), l.new_local("place", &U32));
                let t = l.cx.lower_ty(&Ty::Record(record));
                let f = ir::Expr::new(t, K::Make(vec![l.local_expr(kind), l.local_expr(place)]));
                l.bind_all(&[(name.clone(), Val { ty: Ty::Record(record), kind: Vk::Pure(f), caseless: false })]);
                let body = run(l, &h.body, h.guard.as_ref(), span)?;
                self.add_handler("fault", ir::On::Fault, span, body);
                Ok(())
            }
            On::Start => {
                let l = plain(self, module, format!("app {app}: on start"));
                let body = run(l, &h.body, h.guard.as_ref(), span)?;
                self.add_handler("start", ir::On::Start, span, body);
                Ok(())
            }
            On::End => {
                let l = plain(self, module, format!("app {app}: on end"));
                let body = run(l, &h.body, h.guard.as_ref(), span)?;
                self.add_handler("end", ir::On::End, span, body);
                Ok(())
            }
            On::Every(e) => {
                let period = self.const_duration(module, e)?;
                let made = self.check_period(period, e.span);
                self.settle(made, e.span);
                let l = plain(self, module, format!("app {app}: every"));
                let body = run(l, &h.body, h.guard.as_ref(), span)?;
                self.add_handler("every", ir::On::Every(period), span, body);
                Ok(())
            }
        }
    }

    /// Connections' timers are no finer than a millisecond.
    pub fn check_period(&mut self, period: u64, at: Span) -> R<()> {
        let packets = self.m.ports.iter().all(|p| matches!(p.kind, desc::PortKind::Frames { .. }));
        let (least, text) = if packets { (desc::LEAST_PERIOD, "10us") } else { (1_000_000, "1ms") };
        if period >= least {
            return Ok(());
        }
        let of = if packets { "" } else { " in an app with connections" };
        Err(self.error("E0304", at, format!("a timer's period is at least {text}{of}")))
    }

    pub fn port_named(&mut self, module: ModId, n: &Ident) -> R<ir::PortId> {
        match self.app.get(&n.name) {
            Some(AppName::Port(p)) => Ok(*p),
            Some(AppName::Failed) => Err(Reported),
            Some(_) => Err(self.error("E0603", n.span, format!("`{}` is no port", n.name))),
            None => {
                let known: Vec<String> = self.app.names().collect();
                Err(self.unknown(module, &n.name, n.span, "port", &known))
            }
        }
    }

    /// Which of a port's protocols a handler is for.
    pub fn handler_protocol(
        &mut self,
        module: ModId,
        port: ir::PortId,
        n: &Ident,
        named: Option<&Path>,
    ) -> R<ir::ProtocolId> {
        let all = self.m.ports[port.index()].protocols.clone();
        let Some(path) = named else {
            return match all.as_slice() {
                [one] => Ok(*one),
                _ => {
                    let listens = matches!(self.m.ports[port.index()].kind, ir::desc::PortKind::Listen(_));
                    let first = all.first().map(|p| self.handled_as(module, *p, listens)).unwrap_or_default();
                    Err(self.report(
                        Diagnostic::error(
                            "E0640",
                            n.span,
                            format!("port `{}` speaks {} protocols: which one is this handler for?", n.name, all.len()),
                        )
                        .hint(format!("write `on {}({first})`", n.name)),
                    ))
                }
            };
        };
        let id = self.path_item(module, path, "protocol")?;
        match self.item(id, path.span)? {
            crate::items::Item::Protocol(p) if all.contains(&p) => Ok(p),
            crate::items::Item::Const(_)
            | crate::items::Item::Charset(_)
            | crate::items::Item::Alias(_)
            | crate::items::Item::Fault
            | crate::items::Item::Enum(_)
            | crate::items::Item::Record(_)
            | crate::items::Item::Unit(_)
            | crate::items::Item::Protocol(_)
            | crate::items::Item::Fn(_)
            | crate::items::Item::Table(_)
            | crate::items::Item::App
            | crate::items::Item::Element => {
                Err(self.error("E0640", path.span, format!("port `{}` does not speak this protocol", n.name)))
            }
        }
    }

    fn message_handler(&mut self, module: ModId, app: &str, h: &ast::Handler, span: Span) -> R<()> {
        let On::Message { port, param, index, protocol: named } = &h.on else { return Err(Reported) };
        let p = self.port_named(module, port)?;
        if let ir::desc::PortKind::Frames { .. } = self.m.ports[p.index()].kind {
            return self.frame_handler(module, app, h, p, span);
        }
        if let Some(i) = index {
            return Err(self.no_array(&port.name, "port", i.span));
        }
        if !matches!(self.m.ports[p.index()].kind, ir::desc::PortKind::Listen(_)) {
            let talks = self.m.ports[p.index()].protocols.iter().any(|q| self.is_session(*q));
            let (text, hint) = if talks {
                (
                    format!("`{}` connects: its connections belong to clients", port.name),
                    format!("declare the connection, `session up: connection of {}`, and write `on up(m)`", port.name),
                )
            } else {
                (
                    format!("`{}` connects: its messages are answers to calls", port.name),
                    format!("handlers are for listening ports; `on {}.closed(i)` sees lost connections", port.name),
                )
            };
            return Err(self.report(Diagnostic::error("E0603", port.span, text).hint(hint)));
        }
        let session = self.m.ports[p.index()].protocols.iter().any(|q| self.is_session(*q));
        let named = if session { self.direction(named.as_ref(), false)? } else { named.clone() };
        let protocol = self.handler_protocol(module, p, port, named.as_ref())?;
        let on = ir::On::Message { port: p, protocol };
        if let Some(first) = self.m.handlers.iter().find(|h| h.on == on).map(|h| source(h.span)) {
            let d = Diagnostic::error(
                "E0639",
                port.span,
                format!("port `{}` has a handler for this protocol already", port.name),
            );
            return Err(self.report(d.label("the second one").also(first, "the first one")));
        }
        if self.app.wired.contains(&p) {
            return Err(self.wired_already(p, port.span));
        }
        let info = self.protocols[protocol.index()].clone();
        let place = format!("app {app}: on {}", port.name);
        let mut l = Lower::new(self, module, Kind::Handler);
        l.place = place;
        l.in_app = true;
        let req = l.new_local(&param.name, &Ty::Msg(info.request));
        l.handler = Some(HandlerCtx {
            port: p,
            protocol,
            req,
            one_way: info.response.is_none() || session,
            no_reply: info.no_reply || session,
            greeting: false,
        });
        if session {
            l.talk = Talk { came_on: Some(ir::Peer::Client), protocol: Some(protocol), opened: Vec::new() };
        }
        l.bind_all(&[(param.clone(), Val::path(Ty::Msg(info.request), build::msg(req)))]);
        l.new_request(span);
        let made = own_answers(&mut l, &info, req).and_then(|()| run(l, &h.body, h.guard.as_ref(), span));
        // Even in error it counts as handled: no second report.
        let body = made.unwrap_or_default();
        self.add_handler(&port.name, on, span, body);
        Ok(())
    }

    fn event_handler(&mut self, module: ModId, app: &str, h: &ast::Handler, span: Span) -> R<()> {
        let On::Event { port, event, param } = &h.on else { return Err(Reported) };
        let p = self.port_named(module, port)?;
        let on = match event.name.as_str() {
            "closed" => ir::On::Closed(p),
            "opened" => ir::On::Opened(p),
            "greeting" => ir::On::Greeting(p),
            "probe" => ir::On::Probe(p),
            other => {
                let hint = crate::names::suggest(other, EVENTS.into_iter());
                let d = Diagnostic::error("E0201", event.span, format!("a port has no event `{other}`")).note(
                    "events: `opened`, `greeting`, `probe`, `closed`; or a stream of units of its messages, by name",
                );
                return Err(self.report(crate::names::with_hint(d, hint)));
            }
        };
        let place = format!("app {app}: on {}.{}", port.name, event.name);
        let protocol = self.m.ports[p.index()].protocols.first().copied();
        let mut l = Lower::new(self, module, Kind::Handler);
        l.place = place;
        l.in_app = true;
        let instance = l.new_local("instance", &U32);
        let talks = l.cx.conversation_port().is_some_and(|(clients, _)| clients == p);
        let why = if let ir::On::Closed(_) = on { Some(l.new_local("why", &Ty::Fault)) } else { None };
        let of = &l.cx.m.ports[p.index()];
        let listens = matches!(of.kind, ir::desc::PortKind::Listen(_)) && !of.udp;
        if let (Some(n), true) = (param, listens && matches!(on, ir::On::Opened(_))) {
            return Err(l.cx.error("E0308", n.span, "this event has no value"));
        }
        if let Some(n) = param {
            let value = match why.filter(|_| talks) {
                Some(why) => Val::pure(Ty::Fault, l.local_expr(why)),
                None => Val::pure(U32, build::local(instance, T_U32)),
            };
            l.bind_all(&[(n.clone(), value)]);
        }
        if let (ir::On::Greeting(_) | ir::On::Probe(_), Some(protocol)) = (on, protocol) {
            l.handler =
                Some(HandlerCtx { port: p, protocol, req: instance, one_way: false, no_reply: true, greeting: true });
        }
        if let ir::On::Opened(_) | ir::On::Closed(_) = on {
            if talks {
                l.handler = l.cx.conversation(instance);
            }
        }
        let body = run(l, &h.body, h.guard.as_ref(), span)?;
        if let ir::On::Greeting(_) | ir::On::Probe(_) = on {
            self.speaks_first(port, on, &event.name, &body, span)?;
        }
        self.add_handler(&format!("{}.{}", port.name, event.name), on, span, body);
        Ok(())
    }

    /// A greeting or a probe belongs to a port that connects, once. It is said at once: nothing has
    /// been heard that it could depend on.
    fn speaks_first(&mut self, port: &Ident, on: ir::On, event: &str, body: &ir::Body, span: Span) -> R<()> {
        let p = match &on {
            ir::On::Greeting(p) | ir::On::Probe(p) => *p,
            ir::On::Message { .. }
            | ir::On::Piece { .. }
            | ir::On::Frame { .. }
            | ir::On::Opened(_)
            | ir::On::Closed(_)
            | ir::On::Reset(_)
            | ir::On::Upstream { .. }
            | ir::On::UpstreamOpened(_)
            | ir::On::UpstreamClosed(_)
            | ir::On::Fault
            | ir::On::Start
            | ir::On::End
            | ir::On::Every(_)
            | ir::On::Signal(_)
            | ir::On::Test(_)
            | ir::On::Check { .. } => return Err(Reported),
        };
        if !matches!(self.m.ports[p.index()].kind, ir::desc::PortKind::Connect(_)) {
            return Err(self.error("E0603", port.span, format!("`{}` listens: its clients speak first", port.name)));
        }
        if self.m.ports[p.index()].protocols.iter().any(|q| self.is_session(*q)) {
            let d = Diagnostic::error("E0697", port.span, format!("connections of `{}` belong to clients", port.name))
                .hint("send the first message when it is opened: `on up.opened { … -> up }`");
            return Err(self.report(d));
        }
        if self.m.handlers.iter().any(|h| h.on == on) {
            return Err(self.error("E0639", port.span, format!("port `{}` has a {event} already", port.name)));
        }
        self.makes_no_calls(event, body, span)
    }

    pub fn makes_no_calls(&mut self, event: &str, body: &ir::Body, span: Span) -> R<()> {
        let mut calls = false;
        ir::walk::stmts(&body.block, &mut |s| {
            calls |= matches!(s.kind, ir::StmtKind::Await { .. } | ir::StmtKind::Send { .. })
        });
        if !calls {
            return Ok(());
        }
        Err(self.report(
            Diagnostic::error("E0603", span, format!("a {event} makes no calls"))
                .label("it is sent before anything is heard")
                .hint("`reply` the first message for the server"),
        ))
    }

    /// Connecting ports without a probe of their own have that of their protocol.
    pub fn protocols_probes(&mut self) {
        for i in 0..self.m.ports.len() {
            let (p, port) = (ir::PortId(i as u32), &self.m.ports[i]);
            let (ir::desc::PortKind::Connect(_), [protocol]) = (&port.kind, port.protocols.as_slice()) else {
                continue;
            };
            let Some(body) = self.protocols[protocol.index()].probe.clone() else { continue };
            if self.m.handlers.iter().any(|h| h.on == ir::On::Probe(p)) {
                continue;
            }
            let (name, span) = (format!("{}.probe", port.name), source(port.span));
            self.add_handler(&name, ir::On::Probe(p), span, body);
        }
    }

    pub fn add_handler(&mut self, name: &str, on: ir::On, span: Span, body: ir::Body) -> ir::HandlerId {
        self.parses_without_calls(span, &body);
        let span = self.span(span);
        self.m.handlers.push(ir::Handler {
            name: name.to_string(),
            span,
            on,
            segment: None,
            device: Default::default(),
            body,
            steps: 0,
            plan: Default::default(),
        });
        ir::HandlerId(self.m.handlers.len() as u32 - 1)
    }

    /// The memory of a message that a handler parses is that of the handler's next run, too.
    fn parses_without_calls(&mut self, span: Span, body: &ir::Body) {
        let (parses, mut calls) = (std::mem::take(&mut self.parses), false);
        ir::walk::stmts(&body.block, &mut |s| calls |= matches!(s.kind, ir::StmtKind::Await { .. }));
        if parses && calls {
            let d = Diagnostic::error("E0309", span, "a message that this handler parses does not outlive its calls");
            self.report(d.hint("give the bytes of the message fields of their own in the unit, or make no call here"));
        }
    }

    /// Listening ports that nobody handles.
    pub fn unhandled(&mut self, module: ModId) {
        for i in 0..self.m.ports.len() {
            let id = ir::PortId(i as u32);
            let port = self.m.ports[i].clone();
            if !matches!(port.kind, ir::desc::PortKind::Listen(_)) || self.app.wired.contains(&id) {
                continue;
            }
            for p in &port.protocols {
                if self.m.handlers.iter().any(|h| h.on == ir::On::Message { port: id, protocol: *p }) {
                    continue;
                }
                let name = self.m.protocols[p.index()].name.clone();
                let handled = self.handled_as(module, *p, true);
                let of = if self.is_session(*p) { "messages" } else { "requests" };
                let d = Diagnostic::error(
                    "E0611",
                    source(port.span),
                    format!("no handler for {of} of `{name}` on port `{}`", port.name),
                )
                .label("no handler")
                .hint(format!("write `on {}({handled}) {{ … }}`", port.name));
                self.report(d);
            }
        }
    }
}

/// The protocol's own answers (`on request`) stand before its handler's own statements.
pub fn own_answers(l: &mut Lower, info: &crate::items::ProtocolInfo, req: ir::LocalId) -> R<()> {
    let ast::ItemKind::Protocol(p) = &info.ast.kind else { return Ok(()) };
    for c in &p.clauses {
        let ast::ClauseKind::OnRequest { name, guard, body } = &c.kind else { continue };
        let (module, in_app) = (std::mem::replace(&mut l.module, info.module), std::mem::replace(&mut l.in_app, false));
        l.enter();
        l.bind_all(&[(name.clone(), Val::path(Ty::Msg(info.request), build::msg(req)))]);
        let made = own_answer(l, guard.as_ref(), body, c.span);
        l.leave();
        (l.module, l.in_app) = (module, in_app);
        made?;
    }
    Ok(())
}

fn own_answer(l: &mut Lower, guard: Option<&Expr>, body: &ast::Block, span: Span) -> R<()> {
    let cond = match guard {
        Some(g) => l.decide(g)?,
        None => build::boolean(true),
    };
    l.branch(
        cond,
        span,
        Some(&Ty::Unit),
        |s| {
            let v = s.block(body, Some(&Ty::Unit))?;
            if !v.is_never() {
                s.ends(span);
                s.push(span, ir::StmtKind::Return(None));
            }
            Ok(Val::never())
        },
        |_| Ok(Val::unit()),
    )
    .map(|_| ())
}

/// A handler without a request.
pub fn plain<'c, 'a>(cx: &'c mut Compiler<'a>, module: ModId, place: String) -> Lower<'c, 'a> {
    let mut l = Lower::new(cx, module, Kind::Handler);
    l.place = place;
    l.in_app = true;
    l
}

/// Lowers a handler's body; `where` in front of it is a condition around it.
pub fn run(mut l: Lower, body: &ast::Block, guard: Option<&Expr>, span: Span) -> R<ir::Body> {
    l.joined();
    let made = match guard {
        None => l.block(body, Some(&Ty::Unit)),
        Some(g) => match l.decide(g) {
            Ok(c) => l.branch(c, span, Some(&Ty::Unit), |s| s.block(body, Some(&Ty::Unit)), |_| Ok(Val::unit())),
            Err(r) => Err(r),
        },
    };
    let v = made?;
    if !v.is_never() {
        l.ends(Span { start: span.end.saturating_sub(1), ..span });
    }
    l.join_inputs()?;
    Ok(l.body())
}
