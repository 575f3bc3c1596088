//! Elements inside of an app. Every instance has its own state. Its handler becomes part of the
//! graph where messages reach it.
//!
//! A wiring is walked from its listening port: inline nodes, elements (by their sends to `out`),
//! then a connecting port.

use super::inputs::{to_name, From};
use super::instances::built_outs;
use super::{AppName, AppScope};
use crate::body::deliver::Sink;
use crate::body::Lower;
use crate::compiler::{Compiler, Item, Reported, R};
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use ir::StmtKind;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Ident, ItemKind, MemberKind, Node, NodeKind, On, Span};
use wireloom_syntax::Diagnostic;

/// An element's instance: its names and where its handler is.
pub struct Instance {
    pub scope: AppScope,
    pub element: ast::Element,
    pub module: ModId,
}

impl Instance {
    /// `on x(p)`
    fn handler(&self, input: &str) -> Option<(&ast::Handler, &Ident)> {
        self.element.members.iter().find_map(|m| match &m.kind {
            MemberKind::Handler(h) => match &h.on {
                On::Message { port, param, .. } if port.name == input => Some((h, param)),
                _ => None,
            },
            _ => None,
        })
    }
}

/// An `in` of an instance in a wiring.
pub struct Entrance {
    pub instance: Rc<Instance>,
    pub input: String,
    pub outlet: Outlet,
    /// See [`ir::Span::element`].
    pub element: u32,
}

/// Elements of a program, those inside of others included.
const MAX_ELEMENTS: u32 = 4096;

/// Where an element's `out`s lead.
#[derive(Clone)]
pub struct Outlet {
    pub outs: Vec<(String, Vec<Node>)>,
    /// Arrays among them, and how many ways out each has.
    pub counts: Vec<(String, u64)>,
    pub app: AppScope,
    pub module: ModId,
    /// What is around the instance: see [`ir::Span::element`].
    pub element: u32,
    /// The instance, for messages.
    pub name: String,
    /// Ways out that the element sends frames to which it has built.
    pub built: Vec<String>,
    pub span: Span,
}

impl Outlet {
    /// Tells an instance in one wiring from the same one in another.
    pub fn key(&self) -> String {
        let at = |nodes: &[Node]| {
            nodes.iter().map(|n| format!("{}:{}-{} ", n.span.file.0, n.span.start, n.span.end)).collect::<String>()
        };
        self.outs.iter().map(|(name, nodes)| format!("{name}: {}", at(nodes))).collect()
    }
}

impl Compiler<'_> {
    /// `cnt = Count(5)`: declares the element's state under the instance's name.
    pub fn instance(&mut self, module: ModId, name: &Ident, path: &ast::Path, args: &[Arg]) -> R<AppName> {
        let id = self.path_item(module, path, "element")?;
        if !matches!(self.item(id, path.span)?, Item::Element) {
            return Err(self.error("E0632", path.span, "this is no element"));
        }
        let owner = self.names.items[id].module;
        let item = self.names.items[id].item.clone();
        let ItemKind::Element(element) = &item.kind else { return Err(Reported) };
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            if self.elements > MAX_ELEMENTS + 1 {
                return Err(Reported);
            }
            return Err(self.report(
                Diagnostic::error(
                    "E0509",
                    path.span,
                    format!("there are more than {MAX_ELEMENTS} elements in this program"),
                )
                .label("one too many")
                .hint("elements that hold several of one kind, which hold several in turn, double at every step"),
            ));
        }
        let given = self.element_args(owner, module, element, args)?;
        if self.making.contains(&id) {
            return Err(self.holds_itself(element, path.span));
        }
        self.making.push(id);
        let scope =
            self.within(path.span, crate::compiler::DEFINITION, |cx| cx.filled_scope(owner, name, element, given));
        self.making.pop();
        let scope = scope?;
        Ok(AppName::Instance(Rc::new(Instance { scope, element: element.clone(), module: owner })))
    }

    fn holds_itself(&mut self, element: &ast::Element, span: Span) -> Reported {
        let d = Diagnostic::error("E0501", span, format!("`{}` contains itself", element.name.name))
            .label("the circle closes here");
        self.report(
            d.also(element.name.span, "an instance of this is being made")
                .hint("an element holds only elements that end in handlers of their own"),
        )
    }

    /// The names of an instance, on their own.
    fn filled_scope(
        &mut self,
        owner: ModId,
        name: &Ident,
        element: &ast::Element,
        given: Vec<Option<AppName>>,
    ) -> R<AppScope> {
        let outer = std::mem::take(&mut self.app);
        let visible = std::mem::replace(&mut self.app_constants, true);
        let made = self.instance_scope(owner, name, element, given);
        self.app_constants = visible;
        let scope = std::mem::replace(&mut self.app, outer);
        made.map(|()| scope)
    }

    /// What is given for each parameter, by its place or its name: a constant, or a parameter of
    /// the app.
    fn element_args(
        &mut self,
        owner: ModId,
        module: ModId,
        element: &ast::Element,
        args: &[Arg],
    ) -> R<Vec<Option<AppName>>> {
        let params: Vec<&ast::Param> = element
            .members
            .iter()
            .filter_map(|m| match &m.kind {
                MemberKind::Param(p) => Some(p),
                _ => None,
            })
            .collect();
        let mut given: Vec<Option<AppName>> = vec![None; params.len()];
        let mut next = 0;
        for a in args {
            let at = match &a.name {
                None => {
                    next += 1;
                    next - 1
                }
                Some(n) => match params.iter().position(|p| p.name.name == n.name) {
                    Some(at) => at,
                    None => {
                        let d = Diagnostic::error(
                            "E0308",
                            n.span,
                            format!("`{}` has no parameter `{}`", element.name.name, n.name),
                        );
                        let hint = crate::names::suggest(&n.name, params.iter().map(|p| p.name.name.as_str()));
                        return Err(self.report(crate::names::with_hint(d, hint)));
                    }
                },
            };
            match given.get(at) {
                Some(None) => {}
                Some(Some(_)) => return Err(self.error("E0308", a.value.span, "this parameter is given twice")),
                None => {
                    return Err(self.error(
                        "E0308",
                        a.value.span,
                        format!("`{}` takes fewer arguments", element.name.name),
                    ))
                }
            }
            given[at] = Some(self.element_arg(owner, module, params[at], &a.value)?);
        }
        Ok(given)
    }

    fn element_arg(&mut self, owner: ModId, module: ModId, p: &ast::Param, e: &Expr) -> R<AppName> {
        let t = self.ty(owner, &p.ty)?;
        if let ExprKind::Name(n) = &*e.kind {
            if let Some(AppName::Param(id, of)) = self.app.get(&n.name).cloned() {
                if of == t {
                    return Ok(AppName::Param(id, of));
                }
                let (want, found) = (self.show(&t), self.show(&of));
                return Err(self.error("E0301", e.span, format!("expected {want}, found {found}")));
            }
        }
        let visible = std::mem::replace(&mut self.app_constants, true);
        let v = self.constant(module, e, Some(&t));
        self.app_constants = visible;
        Ok(AppName::Const(v?))
    }

    fn instance_scope(
        &mut self,
        owner: ModId,
        name: &Ident,
        element: &ast::Element,
        given: Vec<Option<AppName>>,
    ) -> R<()> {
        let mut given = given.into_iter();
        let mut fns = Vec::new();
        let (states, counters, ports) = (self.m.states.len(), self.m.counters.len(), self.m.ports.len());
        for m in &element.members {
            match &m.kind {
                MemberKind::In { .. } | MemberKind::Out { .. } | MemberKind::Handler(_) | MemberKind::Signal { .. } => {
                }
                MemberKind::Param(p) => {
                    let t = self.ty(owner, &p.ty)?;
                    let v = match (given.next().flatten(), &p.default) {
                        (Some(v), _) => v,
                        (None, Some(e)) => AppName::Const(self.constant(owner, e, Some(&t))?),
                        (None, None) => {
                            return Err(self.error(
                                "E0308",
                                name.span,
                                format!("`{}` needs its parameter `{}`", element.name.name, p.name.name),
                            ))
                        }
                    };
                    self.add(&p.name, v);
                }
                // A compound element: instances of its own, wired.
                MemberKind::Instance { .. } => self.declare(owner, m, &mut fns)?,
                MemberKind::Wiring(_) => {}
                MemberKind::State { .. }
                | MemberKind::Counter(_)
                | MemberKind::Table(_)
                | MemberKind::Queue(_)
                | MemberKind::Gauge(_)
                | MemberKind::Const { .. }
                | MemberKind::Fn(_) => self.declare(owner, m, &mut fns)?,
                _ => return Err(self.error("E0609", m.span, "this member of an element is not compiled yet")),
            }
        }
        for m in &element.members {
            if let MemberKind::State { name, init: Some(e), .. } = &m.kind {
                self.state_init(owner, name, e)?;
            }
        }
        for m in &element.members {
            self.chain(m);
        }
        // What is shown to people carries the instance's name.
        for s in &mut self.m.states[states..] {
            s.name = format!("{}.{}", name.name, s.name);
        }
        for c in &mut self.m.counters[counters..] {
            c.name = format!("{}.{}", name.name, c.name);
        }
        for p in ports..self.m.ports.len() {
            if self.is_queue(ir::PortId(p as u32)) {
                self.m.ports[p].name = format!("{}.{}", name.name, self.m.ports[p].name);
            }
        }
        Ok(())
    }

    /// Arrays among an element's ways out, and how many each has.
    pub fn out_counts(&mut self, i: &Rc<Instance>) -> R<Vec<(String, u64)>> {
        let outer = std::mem::replace(&mut self.app, i.scope.clone());
        let mut counts = Vec::new();
        let mut made = Ok(());
        for m in &i.element.members {
            let MemberKind::Out { name, count: Some(e), .. } = &m.kind else { continue };
            match self.const_in_app(i.module, e) {
                Ok(n) if n <= 256 => counts.push((name.name.clone(), n)),
                Ok(_) => made = Err(self.error("E0304", e.span, "an element has at most 256 ways out")),
                Err(r) => made = Err(r),
            }
        }
        self.app = outer;
        made.map(|()| counts)
    }

    /// An instance may have the name of an inline node: `tee = Tee()`, `tee.a -> …`.
    pub fn named_nodes(&self, nodes: &[Node]) -> Vec<Node> {
        nodes
            .iter()
            .map(|n| {
                let NodeKind::Word { word, args, by: None } = &n.kind else { return n.clone() };
                if !matches!(self.app.get(&word.name), Some(AppName::Instance(_))) {
                    return n.clone();
                }
                let name = Expr { span: word.span, kind: Box::new(ExprKind::Name(word.clone())) };
                let e = match args.as_slice() {
                    [] => name,
                    [Expr { kind, span }] => match &**kind {
                        ExprKind::Field(None, f) => {
                            Expr { span: *span, kind: Box::new(ExprKind::Field(Some(name), f.clone())) }
                        }
                        ExprKind::Index(base, i) => match &*base.kind {
                            ExprKind::Field(None, f) => {
                                let base =
                                    Expr { span: base.span, kind: Box::new(ExprKind::Field(Some(name), f.clone())) };
                                Expr { span: *span, kind: Box::new(ExprKind::Index(base, i.clone())) }
                            }
                            _ => return n.clone(),
                        },
                        _ => return n.clone(),
                    },
                    _ => return n.clone(),
                };
                Node { span: n.span, kind: NodeKind::Expr(e) }
            })
            .collect()
    }

    /// What no element may have. All else is checked in [`super::alone`], and in every place where
    /// an instance stands.
    pub fn element_item(&mut self, module: ModId, e: &ast::Element) {
        let _ = self.distinct(e.members.iter().filter_map(|m| match &m.kind {
            MemberKind::Param(p) => Some(&p.name),
            _ => None,
        }));
        for m in &e.members {
            let r = match &m.kind {
                MemberKind::In { ty, .. } | MemberKind::Out { ty, .. } => self.ty(module, ty).map(|_| ()),
                MemberKind::Port(p) => Err(self.report(
                    Diagnostic::error("E0613", p.name.span, "an element has no ports of its own")
                        .hint("it has `in` and `out`; the app binds ports to the world"),
                )),
                MemberKind::Session { name, .. } => {
                    Err(self.error("E0702", name.span, "an element has no client connection"))
                }
                _ => Ok(()),
            };
            let _ = r;
        }
    }
}

impl Lower<'_, '_> {
    /// Takes a message along the nodes of a wiring.
    pub fn flow(&mut self, nodes: &[Node], v: Val, span: Span) -> R<()> {
        self.deeper(span, |s| s.flow_node(nodes, v, span))
    }

    fn flow_node(&mut self, nodes: &[Node], v: Val, span: Span) -> R<()> {
        let Some((node, rest)) = nodes.split_first() else {
            return Err(self.cx.report(
                Diagnostic::error("E0630", span, "this wiring leads nowhere")
                    .hint("end it at a connecting port, or with `drop`"),
            ));
        };
        match &node.kind {
            NodeKind::Word { word, args, by }
                if self.frames && matches!(word.name.as_str(), "broadcast" | "steer" | "tee" | "any" | "not") =>
            {
                self.flow_frames(word, args, by.as_ref(), rest, v, node.span)
            }
            NodeKind::Match(ways) if self.frames => self.flow_match(ways, rest, v, node.span),
            NodeKind::Expr(e) if self.is_outlet(e) => {
                if let Some(extra) = rest.first() {
                    return Err(self.err("E0631", extra.span, "nothing may follow an output of the element"));
                }
                self.with_name(v, span, |s, value| s.send(value, e, node.span))
            }
            NodeKind::Word { word, args, by: None } => self.flow_word(word, args, rest, v, node.span),
            NodeKind::Expr(e) if self.cx.unnamed(self.module, e) => Err(Reported),
            NodeKind::Expr(e) => {
                if let Some((n, port)) = instance_port(e) {
                    if let Some(AppName::Instance(i)) = self.cx.app.get(&n.name).cloned() {
                        if !self.is_packet(&v) {
                            return self.flow_element(&n.name, port, &i, rest, v, node.span);
                        }
                        let from = From { element: self.cx.element, out: to_name(n, port) };
                        return self.along(from, nodes, v, node.span);
                    }
                }
                if let Some((n, _)) = instance_port(e) {
                    match self.cx.app.get(&n.name) {
                        // Its declaration is in error, which has been reported.
                        Some(AppName::Failed) => return Err(Reported),
                        None if !rest.is_empty() => {
                            let known: Vec<String> = self.cx.app.names().collect();
                            return Err(self.cx.unknown(self.module, &n.name, n.span, "node", &known));
                        }
                        _ => {}
                    }
                }
                if !rest.is_empty() {
                    return Err(self.err("E0631", node.span, "a port is the end of a wiring"));
                }
                self.flow_port(e, v, node.span)
            }
            _ => Err(self.err("E0609", node.span, "this node is not compiled yet")),
        }
    }

    fn one_way(&self) -> bool {
        self.handler.is_some_and(|h| h.one_way)
    }

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
            if !s.one_way() && !s.frames {
                s.mark_replied(span)?;
                s.push(span, StmtKind::Reply { msg: ir::Outgoing::Nothing, close: false });
            }
            Ok(Val::unit())
        };
        match (word.name.as_str(), args) {
            ("drop", []) => dropped(self).map(|_| ()),
            ("log", args) => {
                let mut all = match v.ty {
                    Ty::Msg(u) if args.is_empty() && self.cx.m.units[u.index()].frame.is_some() => {
                        self.packet_line(&v, u, span)?
                    }
                    _ => {
                        let name = self.show(&v.ty);
                        let t = self.cx.lower_ty(&Ty::Bytes(name.len() as u64));
                        vec![ir::Expr::new(t, ir::ExprKind::Bytes(name.into_bytes()))]
                    }
                };
                let outer = self.dot.replace(v.clone());
                for a in args {
                    let x = self.expr(a, None)?;
                    let x = self.defined(x, a.span)?;
                    all.push(self.logged(x, a.span)?);
                }
                self.dot = outer;
                self.push(span, StmtKind::Log(all));
                if self.frames && rest.is_empty() {
                    return Ok(());
                }
                self.flow(rest, v, span)
            }
            ("where", [e]) => {
                let outer = self.dot.replace(v.clone());
                let c = self.decide(e);
                self.dot = outer;
                let c = c?;
                self.branch(c, span, Some(&Ty::Unit), |s| s.flow(rest, v, span).map(|_| Val::unit()), dropped)
                    .map(|_| ())
            }
            ("map", [e]) => {
                let outer = self.dot.replace(v);
                let v = self.expr(e, None);
                self.dot = outer;
                self.flow(rest, v?, span)
            }
            _ => Err(self.cx.report(
                Diagnostic::error("E0609", span, format!("`{}` is not compiled for services yet", word.name))
                    .hint("`where`, `map`, `log`, `drop` and `merge` are"),
            )),
        }
    }

    /// A message comes to an instance; `port` names its `in`, where there are several. A packet is
    /// given to it; for another message its handler is put here.
    fn flow_element(
        &mut self,
        name: &str,
        port: Option<&Ident>,
        i: &Rc<Instance>,
        rest: &[Node],
        v: Val,
        span: Span,
    ) -> R<()> {
        if self.outlets.len() >= 16 {
            return Err(self.cx.recursion(name, span));
        }
        if self.under_way.iter().any(|w| Rc::ptr_eq(w, i)) {
            let d =
                Diagnostic::error("E0635", span, format!("this wiring leads back to `{name}`, which it comes from"));
            return Err(self.cx.report(d.note("messages would go round for ever").hint("end it elsewhere")));
        }
        self.element_copies(name, span)?;
        let entrance = self.entrance(name, port, i, rest, &v, span)?;
        self.under_way.push(i.clone());
        let made = self.enter_element(&entrance, v, span);
        self.under_way.pop();
        made
    }

    /// Where a message comes into an instance, if it can.
    pub fn entrance(
        &mut self,
        name: &str,
        port: Option<&Ident>,
        i: &Rc<Instance>,
        rest: &[Node],
        v: &Val,
        span: Span,
    ) -> R<Entrance> {
        if self.outlets.len() >= 16 {
            return Err(self.cx.recursion(name, span));
        }
        let (input, ty) = self.input(port, i, span)?;
        let outlet = self.outlet_of(name, i, rest, span)?;
        let want = self.cx.ty(i.module, &ty)?;
        let frame = matches!(&v.ty, Ty::Msg(u) if self.cx.m.units[u.index()].frame.is_some())
            && self.cx.any_packet(i.module, &ty);
        if want != v.ty && !frame {
            let found = v.ty.clone();
            return Err(self.mismatch(&want, &found, span));
        }
        if i.handler(&input).is_none() && !i.scope.chains.contains_key(&input) {
            let at = i.element.members.iter().find_map(|m| match &m.kind {
                MemberKind::In { name, .. } if name.name == input => Some(name.span),
                _ => None,
            });
            let d = Diagnostic::error(
                "E0611",
                at.unwrap_or(span),
                format!("element `{}` has no handler for `{input}`", i.element.name.name),
            );
            if self.cx.diags.iter().any(|o| o.code == d.code && o.span() == d.span()) {
                return Err(Reported);
            }
            return Err(self.cx.report(
                d.label("messages come in here")
                    .hint(format!("write `on {input}(p) {{ … }}` in the element, or wire it: `{input} -> …`")),
            ));
        }
        let element = self.cx.element_number(outlet.element, name, &i.element.name.name, &outlet.key());
        Ok(Entrance { instance: i.clone(), input, outlet, element })
    }

    /// The handler of an `in`, or what it is wired to in a compound element.
    pub fn enter_element(&mut self, e: &Entrance, v: Val, span: Span) -> R<()> {
        self.in_instance(&e.instance, e.outlet.clone(), |s| {
            if let Some((h, param)) = e.instance.handler(&e.input) {
                s.bind_all(&[(param.clone(), v)]);
                return s.element_body(h, span).map(|_| ());
            }
            let nodes = e.instance.scope.chains.get(&e.input).cloned().unwrap_or_default();
            s.flow(&nodes, v, span)
        })
    }

    /// Where the ways out of an instance lead: `rest` follows it directly, or they are wired apart.
    pub fn outlet_of(&mut self, name: &str, i: &Rc<Instance>, rest: &[Node], span: Span) -> R<Outlet> {
        let outs: Vec<&Ident> = i
            .element
            .members
            .iter()
            .filter_map(|m| match &m.kind {
                MemberKind::Out { name, .. } => Some(name),
                _ => None,
            })
            .collect();
        if !rest.is_empty() && outs.len() != 1 {
            let names = outs.iter().map(|o| format!("`{name}.{} -> …`", o.name)).collect::<Vec<_>>().join(", ");
            let d = Diagnostic::error("E0629", span, format!("`{name}` has {} outputs", outs.len()));
            return Err(self.cx.report(if outs.is_empty() {
                d.hint("it is the end of a wiring")
            } else {
                d.hint(format!("wire each: {names}"))
            }));
        }
        let chains = self.cx.app.chains.clone();
        let leads = |o: &Ident, index: Option<u64>| {
            if !rest.is_empty() {
                return rest.to_vec();
            }
            let at = index.map_or(String::new(), |i| format!("[{i}]"));
            let whole = if outs.len() == 1 { chains.get(&format!("{name}{at}")) } else { None };
            chains.get(&format!("{name}.{}{at}", o.name)).or(whole).cloned().unwrap_or_default()
        };
        let counts = self.cx.out_counts(i)?;
        let mut ways = Vec::new();
        for o in &outs {
            match counts.iter().find(|(n, _)| *n == o.name) {
                Some((_, n)) => (0..*n).for_each(|i| ways.push((format!("{}[{i}]", o.name), leads(o, Some(i))))),
                None => ways.push((o.name.clone(), leads(o, None))),
            }
        }
        if !rest.is_empty() && !counts.is_empty() {
            return Err(self.cx.report(
                Diagnostic::error("E0629", span, format!("`{name}` has several outputs"))
                    .hint(format!("wire each: `{name}[0] -> …`")),
            ));
        }
        Ok(Outlet {
            outs: ways,
            counts,
            app: self.cx.app.clone(),
            module: self.module,
            element: self.cx.element,
            name: name.to_string(),
            built: built_outs(&i.element),
            span,
        })
    }

    /// Lowers code of an instance, which sees the element's names and sends to its ways out.
    pub fn in_instance<T>(&mut self, i: &Rc<Instance>, outlet: Outlet, f: impl FnOnce(&mut Self) -> T) -> T {
        self.cx.app = i.scope.clone();
        self.module = i.module;
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        let around = self.cx.element;
        self.cx.element = self.cx.element_number(outlet.element, &outlet.name, &i.element.name.name, &outlet.key());
        self.outlets.push(outlet);
        let made = f(self);
        self.scopes = scopes;
        if let Some(o) = self.outlets.pop() {
            self.cx.app = o.app;
            self.module = o.module;
        }
        self.cx.element = around;
        made
    }

    /// An element's handler. `return` in it leaves the element, not the handler around.
    pub fn element_body(&mut self, h: &ast::Handler, span: Span) -> R<Val> {
        let body = |s: &mut Self| match &h.guard {
            None => s.block(&h.body, Some(&Ty::Unit)),
            Some(g) => s.decide(g).and_then(|c| {
                s.branch(c, span, Some(&Ty::Unit), |s| s.block(&h.body, Some(&Ty::Unit)), |_| Ok(Val::unit()))
            }),
        };
        if !self.frames || !crate::body::calls::has_return(&h.body) {
            return body(self);
        }
        let done = self.temp("", &Ty::Bool, crate::ir_builder::boolean(false), span);
        let outer = std::mem::replace(
            &mut self.ret,
            crate::body::Ret::Inline { result: None, ty: Ty::Unit, done, loops: self.loops, sink: None },
        );
        let (made, mut block) = self.sub(body);
        self.ret = outer;
        made?;
        let sp = self.cx.span(span);
        block.push(crate::ir_builder::stmt(sp, StmtKind::Break));
        self.behind_jumps(&block);
        self.push(span, StmtKind::Loop { max: 1, body: block });
        Ok(Val::unit())
    }

    /// A value under a name that no source has.
    fn with_name(&mut self, v: Val, span: Span, f: impl FnOnce(&mut Self, &Expr) -> R<()>) -> R<()> {
        let name = Ident { name: "the packet".into(), span };
        self.enter();
        self.bind_all(&[(name.clone(), v)]);
        let made = f(self, &Expr { span, kind: Box::new(ExprKind::Name(name)) });
        self.leave();
        made
    }

    /// Inline nodes of packets that go several ways, and filters of several conditions.
    fn flow_frames(
        &mut self,
        word: &Ident,
        args: &[Expr],
        by: Option<&Expr>,
        rest: &[Node],
        v: Val,
        span: Span,
    ) -> R<()> {
        match (word.name.as_str(), args, by) {
            ("broadcast", [to], None) | ("steer", [to], Some(_)) => {
                if let Some(n) = rest.first() {
                    return Err(self.err(
                        "E0631",
                        n.span,
                        format!("behind `{}` nothing follows: its targets do", word.name),
                    ));
                }
                let dot = self.dot.replace(v.clone());
                let made = self.with_name(v, span, |s, value| match by {
                    Some(key) => s.steer(value, to, key, span),
                    None => s.broadcast(value, to, span),
                });
                self.dot = dot;
                made
            }
            ("tee", to, None) if !to.is_empty() => {
                for t in to {
                    self.with_name(v.clone(), span, |s, value| s.send(value, t, span))?;
                }
                self.flow(rest, v, span)
            }
            ("any" | "not", conds, None) if !conds.is_empty() => {
                let dot = self.dot.replace(v.clone());
                let mut any = crate::ir_builder::boolean(false);
                let mut made = Ok(());
                for c in conds {
                    match self.decide(c) {
                        Ok(c) => any = crate::ir_builder::or(any, c),
                        Err(r) => made = Err(r),
                    }
                }
                self.dot = dot;
                made?;
                let cond = if word.name == "not" { crate::ir_builder::not(any) } else { any };
                self.branch(
                    cond,
                    span,
                    Some(&Ty::Unit),
                    |s| s.flow(rest, v, span).map(|_| Val::unit()),
                    |_| Ok(Val::unit()),
                )
                .map(|_| ())
            }
            (w, ..) => {
                let form = match w {
                    "broadcast" => "broadcast [a, b]",
                    "steer" => "steer [a, b] by .pair",
                    "tee" => "tee(a) -> b",
                    "any" => "any(.udp, .tcp) -> a",
                    _ => "not(.udp) -> a",
                };
                Err(self.cx.report(
                    Diagnostic::error("E0634", span, format!("`{w}` has another form")).hint(format!("write `{form}`")),
                ))
            }
        }
    }

    /// `match { .udp => a, else => drop }`: the first way whose condition holds; none: dropped.
    fn flow_match(&mut self, ways: &[(Option<Expr>, Vec<Node>)], rest: &[Node], v: Val, span: Span) -> R<()> {
        let Some(((cond, nodes), more)) = ways.split_first() else { return Ok(()) };
        let nodes: Vec<Node> = nodes.iter().chain(rest).cloned().collect();
        let Some(c) = cond else {
            if let Some((_, n)) = more.first() {
                return Err(self.err("E0631", n.first().map_or(span, |n| n.span), "`else` is the last way"));
            }
            return self.flow(&nodes, v, span);
        };
        let dot = self.dot.replace(v.clone());
        let cond = self.decide(c);
        self.dot = dot;
        let other = v.clone();
        self.branch(
            cond?,
            span,
            Some(&Ty::Unit),
            |s| s.flow(&nodes, v, span).map(|_| Val::unit()),
            |s| s.flow_match(more, rest, other, span).map(|_| Val::unit()),
        )
        .map(|_| ())
    }

    /// Whether an expression names a way out of the element at hand.
    pub fn is_outlet(&self, e: &Expr) -> bool {
        let name = match &*e.kind {
            ExprKind::Name(n) => n,
            ExprKind::Index(b, _) => match &*b.kind {
                ExprKind::Name(n) => n,
                _ => return false,
            },
            _ => return false,
        };
        self.outlets
            .last()
            .is_some_and(|o| o.outs.iter().any(|(n, _)| *n == name.name || n.split('[').next() == Some(&name.name)))
    }

    /// The `in` that messages come to: the one named, or the only one.
    fn input(&mut self, port: Option<&Ident>, i: &Instance, span: Span) -> R<(String, ast::Type)> {
        let ins: Vec<(&Ident, &ast::Type)> = i
            .element
            .members
            .iter()
            .filter_map(|m| match &m.kind {
                MemberKind::In { name, ty, .. } => Some((name, ty)),
                _ => None,
            })
            .collect();
        let names = || ins.iter().map(|(n, _)| n.name.clone()).collect::<Vec<_>>();
        match (port, ins.as_slice()) {
            (Some(p), all) => match all.iter().find(|(n, _)| n.name == p.name) {
                Some((n, t)) => Ok((n.name.clone(), (*t).clone())),
                None => {
                    let hint = crate::names::suggest(&p.name, names().iter().map(String::as_str));
                    Err(self.cx.report(crate::names::with_hint(
                        Diagnostic::error(
                            "E0201",
                            p.span,
                            format!("`{}` has no `in` of the name `{}`", i.element.name.name, p.name),
                        ),
                        hint,
                    )))
                }
            },
            (None, [(n, t)]) => Ok((n.name.clone(), (*t).clone())),
            (None, []) => {
                Err(self.err("E0629", span, format!("`{}` takes no messages: it has no `in`", i.element.name.name)))
            }
            (None, _) => Err(self.cx.report(
                Diagnostic::error("E0629", span, format!("`{}` has several ways in", i.element.name.name))
                    .hint(format!("name one: {}", names().join(", "))),
            )),
        }
    }

    /// `p -> y` inside of an element: on to what its `out` is wired to.
    pub fn outlet(&mut self, value: &Expr, to: &Expr, span: Span) -> Option<R<()>> {
        if !self.is_outlet(to) {
            return None;
        }
        let (n, index) = match &*to.kind {
            ExprKind::Name(n) => (n, None),
            ExprKind::Index(b, i) => match &*b.kind {
                ExprKind::Name(n) => (n, Some(i)),
                _ => return None,
            },
            _ => return None,
        };
        let count = self.outlets.last()?.counts.iter().find(|(o, _)| *o == n.name).map(|(_, c)| *c);
        let name = match (index, count) {
            (None, None) => n.name.clone(),
            (None, Some(c)) => {
                return Some(Err(self.cx.report(
                    Diagnostic::error("E0629", to.span, format!("`{}` has {c} outputs", n.name))
                        .label("which one?")
                        .hint(format!("write `{0}[i]`, `broadcast {0}` or `steer {0} by key`", n.name)),
                )))
            }
            (Some(i), None) => {
                return Some(Err(self.err("E0629", i.span, format!("`{}` is one output, no array", n.name))))
            }
            (Some(i), Some(c)) => match &*i.kind {
                ExprKind::Int(i) if *i < u128::from(c) => format!("{}[{i}]", n.name),
                ExprKind::Int(_) => {
                    return Some(Err(self.err(
                        "E0304",
                        i.span,
                        format!("`{}` has {c} outputs, counted from 0", n.name),
                    )))
                }
                _ => return Some(self.outlet_by(value, to, i, c, span)),
            },
        };
        let rest = self.outlets.last()?.outs.iter().find(|(o, _)| *o == name)?.1.clone();
        if rest.is_empty() {
            let o = self.outlets.last()?;
            let (whose, at) = (o.name.clone(), o.span);
            let d = Diagnostic::error("E0630", at, format!("`{whose}.{name}` leads nowhere"))
                .label("this element sends there")
                .hint(format!("wire it: `{whose}.{name} -> …`, or to `drop`"));
            return Some(Err(self.cx.report(d)));
        }
        if self.frames && self.outlets.last()?.built.contains(&n.name) {
            return Some(self.outlet_apart(value, &name, &rest, span));
        }
        let v = match self.expr(value, None) {
            Ok(v) => v,
            Err(r) => return Some(Err(r)),
        };
        Some(self.through(&name, &rest, v, None, span))
    }

    /// Out of the element at hand, to what stands behind its way out. `from`: where the message
    /// comes from, if not from this element.
    pub fn through(&mut self, name: &str, rest: &[Node], v: Val, from: Option<From>, span: Span) -> R<()> {
        let Some(o) = self.outlets.pop() else { return Err(Reported) };
        let inner = std::mem::replace(&mut self.cx.app, o.app.clone());
        let module = std::mem::replace(&mut self.module, o.module);
        let element = std::mem::replace(&mut self.cx.element, o.element);
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        let made = self.along(from.unwrap_or(From { element, out: name.to_string() }), rest, v, span);
        self.cx.element = element;
        self.scopes = scopes;
        self.module = module;
        self.cx.app = inner;
        self.outlets.push(o);
        made
    }

    /// A way out of the element at hand that is named whole, with what stands behind it; not one
    /// that takes frames which are built.
    pub fn way_through(&self, e: &Expr) -> Option<(String, Vec<Node>)> {
        let o = self.outlets.last()?;
        let (base, name) = match &*e.kind {
            ExprKind::Name(n) => (n, n.name.clone()),
            ExprKind::Index(b, i) => match (&*b.kind, &*i.kind) {
                (ExprKind::Name(n), ExprKind::Int(i)) => (n, format!("{}[{i}]", n.name)),
                _ => return None,
            },
            _ => return None,
        };
        let (_, nodes) = o.outs.iter().find(|(n, _)| *n == name)?;
        (!nodes.is_empty() && !o.built.contains(&base.name)).then(|| (name, nodes.clone()))
    }

    /// `p -> y[i]` with an index computed from the packet.
    fn outlet_by(&mut self, value: &Expr, to: &Expr, i: &Expr, count: u64, span: Span) -> R<()> {
        let ExprKind::Index(base, _) = &*to.kind else { return Err(Reported) };
        let index = self.index_value(i)?;
        let (cond, index) = self.below(index, crate::ir_builder::u32(count as u32));
        self.guard(cond, ir::FaultKind::INDEX, i.span);
        let mut cases = Vec::new();
        for n in 0..count {
            let at = Expr { span: i.span, kind: Box::new(ExprKind::Int(n.into())) };
            let one = Expr { span: to.span, kind: Box::new(ExprKind::Index(base.clone(), at)) };
            let (made, block) = self.sub(|s| s.send(value, &one, span));
            made?;
            cases.push((vec![n], block));
        }
        let default = cases.pop().map(|(_, b)| b).unwrap_or_default();
        self.push(span, StmtKind::Switch { on: index, cases, default });
        Ok(())
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
        if let (true, ExprKind::List(_)) = (self.frames, &*value.kind) {
            return Some(self.built_to_instance(value, to, span));
        }
        let v = match self.expr(value, None) {
            Ok(v) => v,
            Err(r) => return Some(Err(r)),
        };
        let node = Node { span: to.span, kind: NodeKind::Expr(to.clone()) };
        Some(self.flow(&[node], v, span))
    }
}

/// `cnt`, `cnt.x`: an instance and one of its ways in or out.
pub fn instance_port(e: &Expr) -> Option<(&Ident, Option<&Ident>)> {
    match &*e.kind {
        ExprKind::Name(n) => Some((n, None)),
        ExprKind::Field(Some(base), port) => match &*base.kind {
            ExprKind::Name(n) => Some((n, Some(port))),
            _ => None,
        },
        _ => None,
    }
}
