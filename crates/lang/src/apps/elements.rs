//! Elements inside of an app: every instance has its own state, and its handler is put into the graph where messages reach it.
//!
//! A wiring is walked from its listening port: inline nodes, elements (by what they send to their `out`), then a connecting port.

use super::{AppName, AppScope};
use crate::body::deliver::Sink;
use crate::body::Lower;
use crate::compiler::{Compiler, Item, Reported, R};
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use std::rc::Rc;
use wireloom_ir as ir;
use ir::StmtKind;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, ItemKind, MemberKind, Node, NodeKind, On, Span};
use wireloom_syntax::Diagnostic;

/// An element's instance: its names and where its handler is.
pub struct Instance {
    pub scope: AppScope,
    pub element: ast::Element,
    pub module: ModId,
}

/// Where an element's `out`s lead.
#[derive(Clone)]
pub struct Outlet {
    pub outs: Vec<(String, Vec<Node>)>,
    /// Arrays among them, and how many ways out each has.
    pub counts: Vec<(String, u64)>,
    pub app: AppScope,
    pub module: ModId,
}

impl Compiler<'_> {
    /// `cnt = Count(5)`: declares the element's state under the instance's name.
    pub fn instance(&mut self, module: ModId, name: &Ident, path: &ast::Path, args: &[Expr]) -> R<AppName> {
        let id = self.path_item(module, path, "element")?;
        if !matches!(self.item(id, path.span)?, Item::Element) {
            return Err(self.error("E0609", path.span, "this is no element"));
        }
        let owner = self.names.items[id].module;
        let item = self.names.items[id].item.clone();
        let ItemKind::Element(element) = &item.kind else { return Err(Reported) };
        let outer = std::mem::take(&mut self.app);
        let made = self.instance_scope(owner, module, name, element, args);
        let scope = std::mem::replace(&mut self.app, outer);
        made?;
        Ok(AppName::Instance(Rc::new(Instance { scope, element: element.clone(), module: owner })))
    }

    fn instance_scope(&mut self, owner: ModId, module: ModId, name: &Ident, element: &ast::Element, args: &[Expr]) -> R<()> {
        let mut args = args.iter();
        let mut fns = Vec::new();
        let (states, counters) = (self.m.states.len(), self.m.counters.len());
        for m in &element.members {
            match &m.kind {
                MemberKind::In { .. } | MemberKind::Out { .. } | MemberKind::Handler(_) | MemberKind::Signal { .. } => {}
                MemberKind::Param(p) => {
                    let t = self.ty(owner, &p.ty)?;
                    let v = match (args.next(), &p.default) {
                        (Some(e), _) => self.constant(module, e, Some(&t))?,
                        (None, Some(e)) => self.constant(owner, e, Some(&t))?,
                        (None, None) => return Err(self.error("E0308", name.span, format!("`{}` needs its parameter `{}`", element.name.name, p.name.name))),
                    };
                    self.add(&p.name, AppName::Const(v));
                }
                MemberKind::State { .. } | MemberKind::Counter(_) | MemberKind::Table(_) | MemberKind::Const { .. } | MemberKind::Fn(_) => self.declare(owner, m, &mut fns)?,
                _ => return Err(self.error("E0609", m.span, "this member of an element is not compiled yet")),
            }
        }
        if let Some(extra) = args.next() { self.error("E0308", extra.span, format!("`{}` takes fewer arguments", element.name.name)); }
        for m in &element.members {
            if let MemberKind::State { name, init: Some(e), .. } = &m.kind { self.state_init(owner, name, e)?; }
        }
        // What is shown to people carries the instance's name.
        for s in &mut self.m.states[states..] { s.name = format!("{}.{}", name.name, s.name); }
        for c in &mut self.m.counters[counters..] { c.name = format!("{}.{}", name.name, c.name); }
        Ok(())
    }

    /// An instance may have the name of an inline node: `tee = Tee()`, `tee.a -> …`.
    pub fn named_nodes(&self, nodes: &[Node]) -> Vec<Node> {
        nodes.iter().map(|n| {
            let NodeKind::Word { word, args, by: None } = &n.kind else { return n.clone() };
            if !matches!(self.app.get(&word.name), Some(AppName::Instance(_))) { return n.clone(); }
            let name = Expr { span: word.span, kind: Box::new(ExprKind::Name(word.clone())) };
            let e = match args.as_slice() {
                [] => name,
                [Expr { kind, span }] => match &**kind {
                    ExprKind::Field(None, f) => Expr { span: *span, kind: Box::new(ExprKind::Field(Some(name), f.clone())) },
                    _ => return n.clone(),
                },
                _ => return n.clone(),
            };
            Node { span: n.span, kind: NodeKind::Expr(e) }
        }).collect()
    }

    /// Elements are checked by themselves as far as their names and types go; their handlers are checked in every place.
    pub fn element_item(&mut self, module: ModId, e: &ast::Element) {
        for m in &e.members {
            let r = match &m.kind {
                MemberKind::In { ty, .. } | MemberKind::Out { ty, .. } => self.ty(module, ty).map(|_| ()),
                MemberKind::Port(p) => Err(self.report(Diagnostic::error("E0613", p.name.span, "an element has no ports of its own").hint("it has `in` and `out`; the app binds ports to the world"))),
                MemberKind::Session { name, .. } => Err(self.error("E0702", name.span, "an element has no client connection")),
                _ => Ok(()),
            };
            let _ = r;
        }
    }
}

impl Lower<'_, '_> {
    /// Takes a message along the nodes of a wiring.
    pub fn flow(&mut self, nodes: &[Node], v: Val, span: Span) -> R<()> { self.deeper(span, |s| s.flow_node(nodes, v, span)) }

    fn flow_node(&mut self, nodes: &[Node], v: Val, span: Span) -> R<()> {
        let Some((node, rest)) = nodes.split_first() else {
            return Err(self.cx.report(Diagnostic::error("E0609", span, "this wiring leads nowhere").hint("end it at a connecting port, or with `drop`")));
        };
        match &node.kind {
            NodeKind::Word { word, args, by: None } => self.flow_word(word, args, rest, v, node.span),
            NodeKind::Expr(e) => {
                if let Some((n, port)) = instance_port(e) {
                    if let Some(AppName::Instance(i)) = self.cx.app.get(&n.name).cloned() { return self.flow_element(&n.name, port, &i, rest, v, node.span); }
                }
                if !rest.is_empty() { return Err(self.err("E0609", node.span, "a connecting port is the end of a wiring")); }
                self.flow_port(e, v, node.span)
            }
            _ => Err(self.err("E0609", node.span, "this node is not compiled yet")),
        }
    }

    fn one_way(&self) -> bool { self.handler.is_some_and(|h| h.one_way) }

    fn flow_port(&mut self, e: &Expr, v: Val, span: Span) -> R<()> {
        let (port, index) = self.target(e)?;
        if self.one_way() || self.frames {
            return self.sink(v, &Sink::Send { port, index, span }, span).map(|_| ());
        }
        self.sink(v, &Sink::Call { port, index, within: None, span }, span)?;
        self.answer(span)
    }

    fn flow_word(&mut self, word: &Ident, args: &[Expr], rest: &[Node], v: Val, span: Span) -> R<()> {
        let dropped = |s: &mut Self| -> R<Val> {
            if !s.one_way() && !s.frames { s.mark_replied(span)?; s.push(span, StmtKind::Reply { msg: ir::Outgoing::Nothing, close: false }); }
            Ok(Val::unit())
        };
        match (word.name.as_str(), args) {
            ("drop", []) => dropped(self).map(|_| ()),
            ("log", args) => {
                let name = self.show(&v.ty);
                let ty = Ty::Bytes(name.len() as u64);
                let t = self.cx.lower_ty(&ty);
                let mut all = vec![ir::Expr::new(t, ir::ExprKind::Bytes(name.into_bytes()))];
                let outer = self.dot.replace(v.clone());
                for a in args {
                    let x = self.expr(a, None)?;
                    let x = self.defined(x, a.span)?;
                    let t = self.settled(&x.ty);
                    all.push(self.coerce(x, &t, a.span)?);
                }
                self.dot = outer;
                self.push(span, StmtKind::Log(all));
                self.flow(rest, v, span)
            }
            ("where", [e]) => {
                let outer = self.dot.replace(v.clone());
                let c = self.decide(e);
                self.dot = outer;
                let c = c?;
                self.branch(c, span, Some(&Ty::Unit), |s| s.flow(rest, v, span).map(|_| Val::unit()), dropped).map(|_| ())
            }
            ("map", [e]) => {
                let outer = self.dot.replace(v);
                let v = self.expr(e, None);
                self.dot = outer;
                self.flow(rest, v?, span)
            }
            _ => Err(self.cx.report(Diagnostic::error("E0609", span, format!("`{}` is not compiled for services yet", word.name)).hint("`where`, `map`, `log`, `drop` and `merge` are"))),
        }
    }

    /// Puts an element's handler here. `port` names its `in`, where there are several.
    fn flow_element(&mut self, name: &str, port: Option<&Ident>, i: &Rc<Instance>, rest: &[Node], v: Val, span: Span) -> R<()> {
        if self.outlets.len() >= 16 { return Err(self.cx.recursion(name, span)); }
        let (input, ty) = self.input(port, i, span)?;
        let outs: Vec<&Ident> = i.element.members.iter().filter_map(|m| match &m.kind { MemberKind::Out { name, .. } => Some(name), _ => None }).collect();
        if !rest.is_empty() && outs.len() != 1 {
            let names = outs.iter().map(|o| format!("`{name}.{} -> …`", o.name)).collect::<Vec<_>>().join(", ");
            let d = Diagnostic::error("E0609", span, format!("`{name}` has {} ways out", outs.len()));
            return Err(self.cx.report(if outs.is_empty() { d.hint("it is the end of a wiring") } else { d.hint(format!("wire each: {names}")) }));
        }
        let chains = self.cx.app.chains.clone();
        let leads = |o: &Ident| {
            if !rest.is_empty() { return rest.to_vec(); }
            let whole = if outs.len() == 1 { chains.get(name) } else { None };
            chains.get(&format!("{name}.{}", o.name)).or(whole).cloned().unwrap_or_default()
        };
        let leads = outs.iter().map(|o| (o.name.clone(), leads(o))).collect();
        let want = self.cx.ty(i.module, &ty)?;
        let frame = matches!(&v.ty, Ty::Msg(u) if self.cx.m.units[u.index()].frame.is_some()) && self.cx.any_packet(i.module, &ty);
        if want != v.ty && !frame { let found = v.ty.clone(); return Err(self.mismatch(&want, &found, span)); }
        let handler = i.element.members.iter().find_map(|m| match &m.kind {
            MemberKind::Handler(h) => match &h.on { On::Message { port, param, .. } if port.name == input => Some((h, param)), _ => None },
            _ => None,
        });
        let Some((h, param)) = handler else { return Err(self.err("E0611", span, format!("element `{}` has no handler for `{input}`", i.element.name.name))) };
        let outer = std::mem::replace(&mut self.cx.app, i.scope.clone());
        let module = std::mem::replace(&mut self.module, i.module);
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        self.outlets.push(Outlet { outs: leads, counts: vec![], app: outer, module });
        self.bind_all(&[(param.clone(), v)]);
        let made = match &h.guard {
            None => self.block(&h.body, Some(&Ty::Unit)),
            Some(g) => self.decide(g).and_then(|c| self.branch(c, span, Some(&Ty::Unit), |s| s.block(&h.body, Some(&Ty::Unit)), |_| Ok(Val::unit()))),
        };
        self.scopes = scopes;
        if let Some(o) = self.outlets.pop() { self.cx.app = o.app; self.module = o.module; }
        made.map(|_| ())
    }

    /// The `in` that messages come to: the one named, or the only one.
    fn input(&mut self, port: Option<&Ident>, i: &Instance, span: Span) -> R<(String, ast::Type)> {
        let ins: Vec<(&Ident, &ast::Type)> = i.element.members.iter().filter_map(|m| match &m.kind { MemberKind::In { name, ty } => Some((name, ty)), _ => None }).collect();
        let names = || ins.iter().map(|(n, _)| n.name.clone()).collect::<Vec<_>>();
        match (port, ins.as_slice()) {
            (Some(p), all) => match all.iter().find(|(n, _)| n.name == p.name) {
                Some((n, t)) => Ok((n.name.clone(), (*t).clone())),
                None => {
                    let hint = crate::names::suggest(&p.name, names().iter().map(String::as_str));
                    Err(self.cx.report(crate::names::with_hint(Diagnostic::error("E0201", p.span, format!("`{}` has no `in` of the name `{}`", i.element.name.name, p.name)), hint)))
                }
            },
            (None, [(n, t)]) => Ok((n.name.clone(), (*t).clone())),
            (None, []) => Err(self.err("E0609", span, format!("`{}` takes no messages: it has no `in`", i.element.name.name))),
            (None, _) => Err(self.cx.report(Diagnostic::error("E0609", span, format!("`{}` has several ways in", i.element.name.name)).hint(format!("name one: {}", names().join(", "))))),
        }
    }

    /// `p -> y` inside of an element: on to what its `out` is wired to.
    pub fn outlet(&mut self, value: &Expr, to: &Expr, span: Span) -> Option<R<()>> {
        let ExprKind::Name(n) = &*to.kind else { return None };
        let rest = self.outlets.last()?.outs.iter().find(|(o, _)| *o == n.name)?.1.clone();
        let v = match self.expr(value, None) { Ok(v) => v, Err(r) => return Some(Err(r)) };
        let o = self.outlets.pop()?;
        let inner = std::mem::replace(&mut self.cx.app, o.app.clone());
        let module = std::mem::replace(&mut self.module, o.module);
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        let made = self.flow(&rest, v, span);
        self.scopes = scopes;
        self.module = module;
        self.cx.app = inner;
        self.outlets.push(o);
        Some(made)
    }

    /// How many ways out an array of an element has.
    pub fn outlet_count(&self, to: &Expr) -> Option<u64> {
        let ExprKind::Name(n) = &*to.kind else { return None };
        self.outlets.last()?.counts.iter().find(|(o, _)| *o == n.name).map(|(_, n)| *n)
    }

    /// `p -> cnt` in a handler of the app.
    pub fn instance_send(&mut self, value: &Expr, to: &Expr, span: Span) -> Option<R<()>> {
        let (n, _) = instance_port(to)?;
        let AppName::Instance(_) = self.cx.app.get(&n.name)? else { return None };
        let v = match self.expr(value, None) { Ok(v) => v, Err(r) => return Some(Err(r)) };
        let node = Node { span: to.span, kind: NodeKind::Expr(to.clone()) };
        Some(self.flow(&[node], v, span))
    }
}

/// `cnt`, `cnt.x`: an instance and one of its ways in or out.
pub fn instance_port(e: &Expr) -> Option<(&Ident, Option<&Ident>)> {
    match &*e.kind {
        ExprKind::Name(n) => Some((n, None)),
        ExprKind::Field(Some(base), port) => match &*base.kind { ExprKind::Name(n) => Some((n, Some(port))), _ => None },
        _ => None,
    }
}
