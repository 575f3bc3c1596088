//! Instances of elements without a sender: their timers, start handlers, queues, and frames that
//! they build.
//!
//! A frame that is built in the handler of another frame has no view of its own there. It leaves
//! through a port that leads back into the program (`FrameEngine::Loop`). The wiring behind it is
//! the handler of that port. Every send of the element to such an output goes through the port, so
//! that the order stays.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "its functions look for a few kinds of ExprKind, MemberKind and StmtKind"
)]

use super::arrays::{instance_at, place_name};
use super::scope::{AppName, Instance};
use super::wire_ends::{Around, Loop, Outlet};
use crate::body::Lower;
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use ir::desc::{FrameEngine, ParamValue, PortKind, Value};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, MemberKind, Node, NodeKind, On, Span};
use wireloom_syntax::Diagnostic;

/// Most ports back into the program.
const MOST_LOOPS: usize = 4096;

impl Compiler<'_> {
    /// Handlers of all instances, and of those in them, that no message starts.
    pub fn instance_handlers(&mut self, module: ModId, members: &[ast::Member]) {
        for m in members {
            let MemberKind::Instance { name, .. } = &m.kind else { continue };
            let Some(AppName::Instance(i)) = self.app.get(&name.name).cloned() else { continue };
            let made = self.own_handlers(module, &mut vec![], &name.name, &i, name.span);
            self.settle(made, name.span);
        }
    }

    /// `around`: the instances that hold this one, from the outermost on, and where they lead.
    fn own_handlers(
        &mut self,
        module: ModId,
        around: &mut Vec<(Rc<Instance>, Outlet)>,
        name: &str,
        i: &Rc<Instance>,
        span: Span,
    ) -> R<()> {
        if around.len() >= 16 {
            return Err(self.recursion(name, span));
        }
        let element = i.element.clone();
        let own = |m: &ast::Member| matches!(&m.kind, MemberKind::Handler(h) if matches!(h.on, On::Every(_) | On::Start | On::End));
        let queues = element.members.iter().any(|m| matches!(m.kind, MemberKind::Queue(_)));
        let inner: Vec<(String, Rc<Instance>, Span)> = element
            .members
            .iter()
            .filter_map(|m| match &m.kind {
                MemberKind::Instance { name, .. } => match i.scope.get(&name.name) {
                    Some(AppName::Instance(k)) => Some((name.name.clone(), k.clone(), name.span)),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        if !element.members.iter().any(own) && inner.is_empty() && !queues {
            return Ok(());
        }
        let path = path_of(around, name);
        for m in element.members.iter().filter(|m| own(m)) {
            let MemberKind::Handler(h) = &m.kind else { continue };
            let on = match &h.on {
                On::Every(e) => {
                    let visible = (
                        std::mem::replace(&mut self.app, i.scope.clone()),
                        std::mem::replace(&mut self.app_constants, true),
                    );
                    let period = self.const_duration(i.module, e);
                    (self.app, self.app_constants) = visible;
                    let period = period?;
                    self.check_period(period, e.span)?;
                    ir::On::Every(period)
                }
                On::End => ir::On::End,
                On::Start => ir::On::Start,
                On::Message { .. } | On::Event { .. } | On::Body { .. } | On::Fault(_) => continue,
            };
            let word = match &h.on {
                On::Every(_) => "every",
                On::End => "end",
                On::Start | On::Message { .. } | On::Event { .. } | On::Body { .. } | On::Fault(_) => "start",
            };
            let mut l = super::frames::begin(self, module, format!("element {path}"));
            for (k, o) in around.iter() {
                l.enter_instance(k, o.clone());
            }
            let body = l.own_handler(name, i, h, span)?;
            self.add_handler(&format!("{path}.{word}"), on, m.span, body);
        }
        if queues {
            self.queue_handlers(module, around, name, i, span)?;
        }
        for (n, k, at) in inner {
            let outlet = {
                let mut l = super::frames::begin(self, module, String::new());
                for (k, o) in around.iter() {
                    l.enter_instance(k, o.clone());
                }
                let rest = l.behind(name, i, false, span).unwrap_or_default();
                let outlet = l.outlet_of(name, i, &rest, span);
                l.leave_instances();
                outlet?
            };
            around.push((i.clone(), outlet));
            let made = self.own_handlers(module, around, &n, &k, at);
            around.pop();
            made?;
        }
        Ok(())
    }

    /// `on q(p)` and `q -> …` of an instance's queues.
    fn queue_handlers(
        &mut self,
        module: ModId,
        around: &[(Rc<Instance>, Outlet)],
        name: &str,
        i: &Rc<Instance>,
        span: Span,
    ) -> R<()> {
        let element = i.element.clone();
        let path = path_of(around, name);
        for m in &element.members {
            let (queue, param, h) = match &m.kind {
                MemberKind::Handler(h) => match &h.on {
                    On::Message { port, param, index, .. } => (port, Some((param, index.as_ref())), Some(h)),
                    On::Event { .. } | On::Body { .. } | On::Fault(_) | On::Start | On::End | On::Every(_) => continue,
                },
                MemberKind::Wiring(nodes) => match nodes.first().map(|n| &n.kind) {
                    Some(NodeKind::Expr(e)) => match e.as_name() {
                        Some(n) => (n, None, None),
                        None => continue,
                    },
                    Some(NodeKind::Word { .. } | NodeKind::Match(_) | NodeKind::Merge { .. }) | None => continue,
                },
                _ => continue,
            };
            let Some(port) = i.scope.port(&queue.name) else { continue };
            let Some(unit) = i.scope.frames.get(&port).copied() else { continue };
            self.handled_once(port, m.span)?;
            let mut l = super::frames::begin(self, module, format!("element {path}"));
            l.queued = true;
            let p = l.new_local(param.map_or("p", |(p, _)| p.name.as_str()), &Ty::Msg(unit));
            let v = Val::path(Ty::Msg(unit), build::msg(p));
            for (k, o) in around {
                l.enter_instance(k, o.clone());
            }
            let made =
                l.behind(name, i, true, span).and_then(|rest| l.outlet_of(name, i, &rest, span)).and_then(|outlet| {
                    l.in_instance(i, outlet, |s| match (h, param) {
                        (Some(h), Some((param, index))) => {
                            s.bind_all(&[(param.clone(), v)]);
                            s.bind_instance(index, port, p)?;
                            s.element_body(h, m.span).map(|_| ())
                        }
                        _ => {
                            let nodes = s.cx.app.chains.get(&queue.name).cloned().unwrap_or_default();
                            s.flow(&nodes, v, m.span)
                        }
                    })
                });
            l.leave_instances();
            let body = if made.is_ok() { l.body() } else { ir::Body::default() };
            self.add_handler(&format!("{path}.{}", queue.name), ir::On::Frame { port, unit }, m.span, body);
            made?;
        }
        Ok(())
    }

    /// The handlers of ports back into the program. Making one may ask for others.
    pub fn loops(&mut self, app: &str) {
        while let Some(at) = self.loops.iter().position(|l| !l.lowered) {
            self.loops[at].lowered = true;
            let l = &self.loops[at];
            let (port, unit, span, nodes, around) = (l.port, l.unit, l.span, l.nodes.clone(), l.around.clone());
            let name = self.m.ports[port.index()].name.clone();
            let outer = self.enter(&around);
            let mut l = super::frames::begin(self, around.module, format!("app {app}: {name}"));
            l.outlets = around.outlets;
            let p = l.new_local("p", &Ty::Msg(unit));
            let made = l.flow(&nodes, Val::path(Ty::Msg(unit), build::msg(p)), span);
            l.cx.settle(made, span);
            let body = l.body();
            self.leave(outer);
            self.add_handler(&name, ir::On::Frame { port, unit }, span, body);
        }
    }

    /// The packet type of frames that a program builds for itself: that of its ports.
    fn built_unit(&mut self, span: Span) -> R<ir::UnitId> {
        self.frame_units
            .first()
            .copied()
            .ok_or(())
            .map_err(|()| self.error("E0623", span, "an app without frame ports builds no packets"))
    }
}

impl Lower<'_, '_> {
    fn enter_instance(&mut self, i: &Rc<Instance>, outlet: Outlet) {
        self.cx.element = self.cx.element_number(outlet.element, &outlet.name, &i.element.name.name, &outlet.key());
        self.cx.app = i.scope.clone();
        self.module = i.module;
        self.outlets.push(outlet);
    }

    fn leave_instances(&mut self) {
        while let Some(o) = self.outlets.pop() {
            (self.cx.app, self.module, self.cx.element) = (o.app, o.module, o.element);
        }
    }

    /// `every` and `on start` of an instance.
    fn own_handler(mut self, name: &str, i: &Rc<Instance>, h: &ast::Handler, span: Span) -> R<ir::Body> {
        let sends = !built_outs(&i.element).is_empty();
        let made = self.behind(name, i, sends, span).and_then(|rest| self.outlet_of(name, i, &rest, span)).and_then(
            |outlet| {
                self.in_instance(i, outlet, |s| match h.on {
                    On::Every(_) => s.unless_stopped(i, span, |s| s.guarded(h, span)),
                    On::Message { .. } | On::Event { .. } | On::Body { .. } | On::Fault(_) | On::Start | On::End => {
                        s.guarded(h, span)
                    }
                })
            },
        );
        self.leave_instances();
        made?;
        Ok(self.body())
    }

    fn guarded(&mut self, h: &ast::Handler, span: Span) -> R<()> {
        let body = |s: &mut Self| s.block(&h.body, Some(&Ty::Unit));
        match &h.guard {
            None => body(self),
            Some(g) => self.decide(g).and_then(|c| self.branch(c, span, Some(&Ty::Unit), body, |_| Ok(Val::unit()))),
        }
        .map(|_| ())
    }

    /// The nodes behind an instance in the wiring that leads to it, if they have no wiring of their
    /// own.
    pub fn behind(&mut self, name: &str, i: &Rc<Instance>, needed: bool, span: Span) -> R<Vec<Node>> {
        let apart = i.element.members.iter().any(|m| matches!(&m.kind, MemberKind::Out { name: o, .. } if self.cx.app.chains.contains_key(&format!("{name}.{}", o.name))));
        if apart {
            return Ok(vec![]);
        }
        match self.cx.app.behind.get(name).map(Vec::as_slice) {
            None | Some([]) => Ok(vec![]),
            Some([one]) => Ok(one.clone()),
            Some([first, ..]) if !needed => Ok(first.clone()),
            Some(_) => {
                let d = Diagnostic::error(
                    "E0637",
                    span,
                    format!("`{name}` stands in several wirings, and sends by itself"),
                )
                .label("where to?");
                Err(self
                    .cx
                    .report(d.hint(format!("wire its output once: `a -> {name}`, `b -> {name}`, `{name} -> …`"))))
            }
        }
    }

    /// Where nodes lead if it is a port and nothing else stands before it.
    fn only_port(&mut self, nodes: &[Node]) -> Option<R<(ir::PortId, ir::Expr)>> {
        let [Node { kind: NodeKind::Expr(e), .. }] = nodes else { return None };
        if self.is_outlet(e) {
            return None;
        }
        if let Some((n, ..)) = instance_at(e) {
            if matches!(self.cx.app.get(&n.name), Some(AppName::Instance(_))) {
                return None;
            }
        }
        let constant = match &*e.kind {
            ExprKind::Index(_, i) => matches!(&*i.kind, ExprKind::Int(_)),
            _ => true,
        };
        constant.then(|| self.target(e))
    }

    /// To a way out that takes frames which are built: to a port, or to one that leads back.
    pub fn outlet_apart(&mut self, value: &Expr, name: &str, rest: &[Node], span: Span) -> R<()> {
        if let [Node { kind: NodeKind::Word { word, .. }, .. }] = rest {
            if word.name == "drop" {
                return Ok(());
            }
        }
        let Some(o) = self.outlets.pop() else { return Err(Reported) };
        let inner = std::mem::replace(&mut self.cx.app, o.app.clone());
        let module = std::mem::replace(&mut self.module, o.module);
        let element = std::mem::replace(&mut self.cx.element, o.element);
        let to = match self.only_port(rest) {
            Some(to) => to,
            None => {
                let whole: Vec<&str> =
                    self.outlets.iter().map(|o| o.name.as_str()).chain([o.name.as_str(), name]).collect();
                self.loop_port(whole.join("."), rest, span).map(|p| (p, build::u32(0)))
            }
        };
        self.module = module;
        self.cx.app = inner;
        self.cx.element = element;
        self.outlets.push(o);
        let (port, index) = to?;
        if let ExprKind::List(_) = &*value.kind {
            return self.send_parts(value, port, &index, span);
        }
        let v = self.expr(value, None)?;
        self.send_frame(&v, port, &index, span)
    }

    /// `[…] -> cnt`
    pub fn built_to_instance(&mut self, value: &Expr, to: &Expr, span: Span) -> R<()> {
        let node = Node { span: to.span, kind: NodeKind::Expr(to.clone()) };
        let Some((n, port, index)) = instance_at(to) else { return Err(Reported) };
        let name = super::inputs::to_name(n, port) + &place_name(index);
        let whole: Vec<&str> = self.outlets.iter().map(|o| o.name.as_str()).chain([name.as_str()]).collect();
        let port = self.loop_port(format!("to {}", whole.join(".")), &[node], span)?;
        self.send_parts(value, port, &build::u32(0), span)
    }

    fn loop_port(&mut self, name: String, nodes: &[Node], span: Span) -> R<ir::PortId> {
        let key = format!("{name} {:?}", nodes.first().map(|n| n.span));
        if let Some(l) = self.cx.loops.iter().find(|l| l.key == key) {
            return Ok(l.port);
        }
        if self.cx.loops.len() >= MOST_LOOPS {
            return Err(self.err("E0510", span, "too many outputs take built frames"));
        }
        let unit = self.cx.built_unit(span)?;
        let port = ir::PortId(self.cx.m.ports.len() as u32);
        let taken = |n: &str| self.cx.m.ports.iter().any(|p| p.name == n);
        let name = (0..)
            .map(|n| if n == 0 { name.clone() } else { format!("{name} {n}") })
            .find(|n| !taken(n))
            .unwrap_or(name);
        let names = Value::Const(ParamValue::Bytes(name.clone().into_bytes()));
        let at = self.cx.span(span);
        let kind = PortKind::Frames { engine: FrameEngine::Loop, names };
        self.cx.m.ports.push(ir::Port::new(&name, at, kind));
        let around = Around {
            app: self.cx.app.clone(),
            module: self.module,
            outlets: self.outlets.clone(),
            element: self.cx.element,
        };
        self.cx.loops.push(Loop { key, port, unit, around, nodes: nodes.to_vec(), span, lowered: false });
        Ok(port)
    }
}

/// Ways out to which an element sends frames that it builds.
pub fn built_outs(e: &ast::Element) -> Vec<String> {
    let mut found = Vec::new();
    for m in &e.members {
        match &m.kind {
            MemberKind::Handler(h) => block(&h.body, &mut found),
            MemberKind::Signal { body, .. } => block(body, &mut found),
            MemberKind::Fn(f) => match &f.body {
                ast::FnBody::Block(b) => block(b, &mut found),
                ast::FnBody::Expr(e) => expr(e, &mut found),
                ast::FnBody::Extern(..) => {}
            },
            _ => {}
        }
    }
    found
}

fn block(b: &ast::Block, found: &mut Vec<String>) {
    b.stmts.iter().for_each(|s| stmt(&s.kind, found))
}

fn stmt(s: &ast::StmtKind, found: &mut Vec<String>) {
    use ast::StmtKind as S;
    match s {
        S::Send { value: Expr { kind, .. }, to } if matches!(&**kind, ExprKind::List(_)) => targets(to, found),
        S::Expr(e) | S::Let { value: e, .. } | S::Var { value: e, .. } | S::Assign { value: e, .. } => expr(e, found),
        S::For { body, .. } | S::Loop { body, .. } | S::Update { body, .. } => block(body, found),
        S::Write { body, .. } | S::Uncached { body, .. } => block(body, found),
        S::Answered { body, other, .. } => {
            block(body, found);
            other.iter().for_each(|b| block(b, found))
        }
        _ => {}
    }
}

fn expr(e: &Expr, found: &mut Vec<String>) {
    match &*e.kind {
        ExprKind::If(_, then, other) | ExprKind::IfLet(_, _, then, other) => {
            block(then, found);
            if let Some(e) = other {
                expr(e, found)
            }
        }
        ExprKind::Match(_, arms) => arms.iter().for_each(|a| expr(&a.body, found)),
        ExprKind::Block(b) => block(b, found),
        ExprKind::Else(a, b) => {
            expr(a, found);
            expr(b, found)
        }
        ExprKind::Stmt(s) => stmt(&s.kind, found),
        _ => {}
    }
}

fn targets(to: &Expr, found: &mut Vec<String>) {
    match &*to.kind {
        ExprKind::Name(n) if !found.contains(&n.name) => found.push(n.name.clone()),
        ExprKind::Index(base, _) => targets(base, found),
        ExprKind::Call(_, args) => {
            if let Some(a) = args.first() {
                targets(&a.value, found)
            }
        }
        ExprKind::List(all) => all.iter().for_each(|e| targets(e, found)),
        _ => {}
    }
}

/// The name of an instance with those around it.
fn path_of(around: &[(Rc<Instance>, Outlet)], name: &str) -> String {
    let names: Vec<&str> = around.iter().map(|(_, o)| o.name.as_str()).chain([name]).collect();
    names.join(".")
}
