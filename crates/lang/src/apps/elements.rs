//! Elements inside of an app. Every instance has its own state. Its handler becomes part of the
//! graph where messages reach it.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and MemberKind")]

use super::arrays::{instance_at, name_at};
use super::instances::built_outs;
use super::scope::{AppName, AppScope, Instance, TypeBindings};
use super::wire_ends::{Direction, Entrance, From, Outlet};
use crate::body::{Lower, Replied, Ret};
use crate::compiler::{Compiler, Reported, R};
use crate::items::Item;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use ir::StmtKind;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Ident, ItemKind, MemberKind, Node, NodeKind, Span};
use wireloom_syntax::Diagnostic;

/// Elements of a program, those inside of others included.
const MAX_ELEMENTS: u32 = 4096;

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
                .hint(if self.making.is_empty() {
                    "several apps can run in one process: move some of the elements into another app"
                } else {
                    "elements that hold several of one kind, which hold several in turn, double at every step"
                }),
            ));
        }
        let (types, args) = self.type_args(owner, module, element, args, path.span)?;
        let known = crate::apps::scope::scope_of(&types);
        let given = self.element_args(owner, (module, &known), element, args)?;
        if self.making.contains(&id) {
            return Err(self.holds_itself(element, path.span));
        }
        self.making.push(id);
        let scope = self
            .within(path.span, crate::compiler::DEFINITION, |cx| cx.filled_scope(owner, name, element, (types, given)));
        self.making.pop();
        let i = Rc::new(Instance { scope: scope?, element: element.clone(), module: owner });
        self.array_sizes(&i, Direction::In)?;
        self.array_sizes(&i, Direction::Out)?;
        for m in &element.members {
            if let MemberKind::Wiring(nodes) = &m.kind {
                self.element_wiring(&i, nodes)?
            }
        }
        Ok(AppName::Instance(i))
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
        (types, given): (TypeBindings, Vec<Option<AppName>>),
    ) -> R<AppScope> {
        let outer = std::mem::take(&mut self.app);
        let visible = std::mem::replace(&mut self.app_constants, true);
        types.into_iter().for_each(|(n, what)| self.add(&n, what));
        let made = self.instance_scope(owner, name, element, given);
        self.app_constants = visible;
        let scope = std::mem::replace(&mut self.app, outer);
        made.map(|()| scope)
    }

    /// The argument of each parameter, by its position or its name: a constant, or a parameter of
    /// the app.
    fn element_args(
        &mut self,
        owner: ModId,
        (module, types): (ModId, &AppScope),
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
            given[at] = Some(self.element_arg(owner, (module, types), params[at], &a.value)?);
        }
        Ok(given)
    }

    fn element_arg(
        &mut self,
        owner: ModId,
        (module, types): (ModId, &AppScope),
        p: &ast::Param,
        e: &Expr,
    ) -> R<AppName> {
        if let ast::TypeKind::Fn(params, ret) = &p.ty.kind {
            return self.given_function((owner, types), (params, ret), module, Some(e), e.span);
        }
        let t = self.ty_in(types, owner, &p.ty)?;
        if let ExprKind::Name(n) = &*e.kind {
            if let Some(AppName::Param(id, of)) = self.app.get(&n.name).cloned() {
                if of == t {
                    return Ok(AppName::Param(id, of));
                }
                let (want, found) = self.show_apart(&t, &of);
                return Err(self.error("E0301", e.span, format!("expected {want}, found {found}")));
            }
        }
        let visible = std::mem::replace(&mut self.app_constants, true);
        let v = self.constant(module, e, Some(&t));
        self.app_constants = visible;
        Ok(AppName::Const(v?))
    }

    pub fn default_arg(&mut self, owner: ModId, p: &ast::Param, e: &Expr) -> R<AppName> {
        if let ast::TypeKind::Fn(params, ret) = &p.ty.kind {
            let scope = self.app.clone();
            return self.given_function((owner, &scope), (params, ret), owner, Some(e), e.span);
        }
        let t = self.ty(owner, &p.ty)?;
        Ok(AppName::Const(self.constant(owner, e, Some(&t))?))
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
                    let v = match (given.next().flatten(), &p.default) {
                        (Some(v), default) => {
                            self.default_alone(owner, name, p, default.as_ref());
                            v
                        }
                        (None, Some(e)) => self.default_arg(owner, p, e)?,
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
                | MemberKind::PacketState(_)
                | MemberKind::Counter(_)
                | MemberKind::Table(_)
                | MemberKind::Queue(_)
                | MemberKind::Gauge(_)
                | MemberKind::Const { .. }
                | MemberKind::Fn(_) => self.declare(owner, m, &mut fns)?,
                MemberKind::Segment { name: segment, .. } => {
                    let d = Diagnostic::error("E0650", segment.span, "a segment stands in an app, not in an element");
                    return Err(self.report(d.hint("give the instance of the element to a segment of the app")));
                }
                MemberKind::Link { word, .. } => {
                    return Err(self.error("E0650", *word, "the link stands in an app, not in an element"));
                }
                MemberKind::Port(_)
                | MemberKind::Session { .. }
                | MemberKind::Upstream { .. }
                | MemberKind::Cache(_) => {
                    return Err(self.error("E0609", m.span, "this member of an element is not compiled yet"))
                }
            }
        }
        for m in &element.members {
            if let MemberKind::State { name, init: Some(e), .. } = &m.kind {
                self.state_init(owner, name, e)?;
            }
        }
        if element.in_c.is_some() {
            self.memory_in_c(states)?;
        }
        self.chains(&element.members);
        self.message_handlers(&element.members);
        // Names that people read carry the instance's name.
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

    /// Members that no element may have. All else is checked in [`super::alone`], and in every
    /// place where an instance stands.
    pub fn element_item(&mut self, module: ModId, e: &ast::Element) {
        let params = e.members.iter().filter_map(|m| match &m.kind {
            MemberKind::Param(p) => Some(&p.name),
            _ => None,
        });
        let made = self.distinct(params);
        self.settle(made, e.name.span);
        self.indexed_handlers(e);
        self.repeated_ways_in(e);
        self.ways_have_names(e);
        self.type_params(module, e);
        let any = crate::apps::scope::any_types(module, e);
        for m in &e.members {
            let r = match &m.kind {
                MemberKind::In { ty, .. } | MemberKind::Out { ty, .. } => self.ty_in(&any, module, ty).map(|_| ()),
                MemberKind::Port(p) => Err(self.report(
                    Diagnostic::error("E0613", p.name.span, "an element has no ports of its own")
                        .hint("it has `in` and `out`; the app binds ports to the world"),
                )),
                MemberKind::Session { name, .. } | MemberKind::Upstream { name, .. } => {
                    Err(self.error("E0702", name.span, "an element has no client connection"))
                }
                _ => Ok(()),
            };
            self.settle(r, m.span);
        }
    }
}

impl Lower<'_, '_> {
    /// A message comes to an instance; `port` names its `in`, where there are several. A packet is
    /// given to it; for another message its handler is put here.
    pub fn flow_element(
        &mut self,
        (name, port, index): (&Ident, Option<&Ident>, Option<&Expr>),
        i: &Rc<Instance>,
        rest: &[Node],
        v: Val,
        span: Span,
    ) -> R<()> {
        let name = name.name.as_str();
        if self.outlets.len() >= 16 {
            return Err(self.cx.recursion(name, span));
        }
        let entrance = self.entrance((name, port), i, rest, &v, span)?;
        if self.under_way.iter().any(|(w, input)| Rc::ptr_eq(w, i) && *input == entrance.input) {
            return Err(self.cx.leads_back(name, span));
        }
        if index.is_none() && self.joins_input(name, &entrance, &v, span) {
            return Ok(());
        }
        self.element_copies(name, span)?;
        let at = self.place_of(&entrance, index, &v, span)?;
        self.under_way.push((i.clone(), entrance.input.clone()));
        let made = self.enter_element(&entrance, v, at, span);
        self.under_way.pop();
        made
    }

    /// Where a message comes into an instance, if it can.
    pub fn entrance(
        &mut self,
        (name, port): (&str, Option<&Ident>),
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
        let want = self.cx.ty_in(&i.scope, i.module, &ty)?;
        let frame = matches!(&v.ty, Ty::Msg(u) if self.cx.m.units[u.index()].frame.is_some())
            && self.cx.any_packet(i.module, &ty);
        if want != v.ty && !frame {
            let found = v.ty.clone();
            return Err(self.mismatch(&want, &found, span));
        }
        let count = self.cx.array_sizes(i, Direction::In)?.into_iter().find(|(n, _)| *n == input).map(|(_, c)| c);
        // Of an array each place may have a wiring of its own.
        let chained = |whole: &str| i.scope.chains.contains_key(whole);
        let unwired = match count {
            Some(c) => (0..c).map(|n| format!("{input}[{n}]")).find(|w| !chained(w)),
            None => Some(input.clone()),
        };
        if let (None, false, Some(at_place)) = (i.handler(&input), chained(&input), unwired) {
            let begun = count.is_some_and(|_| i.scope.chains.keys().any(|k| k.starts_with(&format!("{input}["))));
            let whole = if begun { at_place } else { input.clone() };
            let at = i.element.members.iter().find_map(|m| match &m.kind {
                MemberKind::In { name, .. } if name.name == input => Some(name.span),
                _ => None,
            });
            let d = Diagnostic::error(
                "E0611",
                at.unwrap_or(span),
                format!("element `{}` has no handler for `{whole}`", i.element.name.name),
            );
            return Err(self.cx.once(
                d.label("messages come in here")
                    .hint(format!("write `on {input}(p) {{ … }}` in the element, or wire it: `{whole} -> …`")),
            ));
        }
        let element = self.cx.element_number(outlet.element, name, &i.element.name.name, &outlet.key());
        Ok(Entrance { instance: i.clone(), input, count, outlet, element })
    }

    /// The handler of an `in`, or what it is wired to in a compound element.
    /// `at`: the place of an array.
    pub fn enter_element(&mut self, e: &Entrance, v: Val, at: Option<ir::Expr>, span: Span) -> R<()> {
        self.in_instance(&e.instance, e.outlet.clone(), |s| {
            s.unless_stopped(&e.instance, span, |s| s.entered(e, v, at, span))
        })
    }

    fn entered(&mut self, e: &Entrance, v: Val, at: Option<ir::Expr>, span: Span) -> R<()> {
        if let Some((h, param, index)) = e.instance.handler(&e.input) {
            self.bind_all(&[(param.clone(), v)]);
            if let Some(n) = index {
                // Of one way in, which has no place, an error has told.
                let place = at.map_or_else(Val::error, |at| Val::pure(crate::ty::U32, at));
                self.bind_all(&[(n.clone(), place)]);
            }
            return self.as_text(|s| s.element_body(h, span)).map(|_| ());
        }
        let chains = e.instance.scope.chains.clone();
        match (chains.get(&e.input), at, e.count) {
            (Some(nodes), ..) => self.flow(nodes, v, span),
            (None, Some(at), Some(count)) => self.choose(at, count, span, &|s, n| {
                let nodes = chains.get(&format!("{}[{n}]", e.input)).cloned().unwrap_or_default();
                s.flow(&nodes, v.clone(), span)
            }),
            _ => Err(Reported),
        }
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
            chains.get(&format!("{name}.{}{at}", o.name)).cloned().unwrap_or_default()
        };
        let counts = self.cx.array_sizes(i, Direction::Out)?;
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
        self.element_body_to(h, span, &|_| ())
    }

    /// `at_end`: what is done where the body comes to its end.
    pub fn element_body_to(&mut self, h: &ast::Handler, span: Span, at_end: &dyn Fn(&mut Self)) -> R<Val> {
        let whole = |s: &mut Self| {
            let made = s.block(&h.body, Some(&Ty::Unit))?;
            if !made.is_never() {
                at_end(s);
            }
            Ok(made)
        };
        let body = |s: &mut Self| match &h.guard {
            None => whole(s),
            Some(g) => s.decide(g).and_then(|c| s.branch(c, span, Some(&Ty::Unit), whole, |_| Ok(Val::unit()))),
        };
        if !crate::body::calls::has_return(&h.body) {
            return body(self);
        }
        let done = self.temp("", &Ty::Bool, crate::ir_builder::boolean(false), span);
        let outer = std::mem::replace(
            &mut self.ret,
            Ret::Inline { result: None, ty: Ty::Unit, done, loops: self.loops, sink: None, element: true },
        );
        let around = self.element_tail;
        self.element_tail = self.tail;
        let (made, mut block) = self.sub(body);
        (self.ret, self.element_tail) = (outer, around);
        // The ways that return have answered the request, if it is answered at all.
        if self.handler.is_some_and(|h| !h.one_way) && !self.copy {
            self.replied = if made?.is_never() || self.replied == Replied::Yes { Replied::Yes } else { Replied::Maybe };
        } else {
            made?;
        }
        let sp = self.cx.span(span);
        block.push(crate::ir_builder::stmt(sp, StmtKind::Break));
        self.behind_jumps(&block);
        self.push(span, StmtKind::Loop { max: 1, body: block });
        Ok(Val::unit())
    }

    /// Whether an expression names a way out of the element at hand.
    pub fn is_outlet(&self, e: &Expr) -> bool {
        let Some((name, _)) = name_at(e) else { return false };
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
        let (n, index) = name_at(to)?;
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
        self.cx.ways_taken.extend(rest.first().map(|n| n.span));
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
        self.cx.ways_taken.extend(rest.first().map(|n| n.span));
        let Some(o) = self.outlets.pop() else { return Err(Reported) };
        let inner = std::mem::replace(&mut self.cx.app, o.app.clone());
        let module = std::mem::replace(&mut self.module, o.module);
        let element = std::mem::replace(&mut self.cx.element, o.element);
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        // The wiring knows what its own text and the elements before it tell.
        let text = std::mem::replace(&mut self.text, 0);
        let made = self.along(from.unwrap_or(From { element, out: name.to_string() }), rest, v, span);
        self.text = text;
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

    /// `p -> cnt` in a handler of the app.
    pub fn instance_send(&mut self, value: &Expr, to: &Expr, span: Span) -> Option<R<()>> {
        let (n, ..) = instance_at(to)?;
        let AppName::Instance(_) = self.cx.app.get(&n.name)? else { return None };
        let frames = self.frames || !self.cx.frame_units.is_empty();
        if let (true, ExprKind::List(_)) = (frames, &*value.kind) {
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
