//! Tests of packets: frames in, expected frames out, and code between them.
//!
//! Every step is a handler of its own (`On::Test`, `On::Check`), which the command `test` runs on
//! the simulated core. Frames are built as in programs. A handler builds a frame and sends it to
//! the port where it comes in, or where it is expected. The values of `let` and the variable of a
//! `for` are states of the module.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "its functions look for a few kinds of ExprKind, MemberKind and StmtKind"
)]

use super::scope::{AppName, AppScope};
use super::test_names::{TestNames, TestValue};
use super::wire_ends::Direction;
use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::items::Item;
use crate::names::{Meaning, ModId};
use crate::ty::{Ty, U64};
use crate::val::Val;
use ir::desc::{FrameEngine, ParamValue, PortKind, Value};
use ir::{ExprKind as K, SimPort, SimStep, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{
    self, Expr, ExprKind, Ident, ItemKind, MemberKind, Node, NodeKind, Pattern, Span, StmtKind as S, TestStepKind as T,
};

/// The instance that a test of an element is of.
const UNDER_TEST: &str = "it";

/// `it.x`, `it.x[i]`: a way into an instance.
pub fn way_in(it: &Ident, to: &Ident, index: Option<Expr>, span: Span) -> Node {
    let e = |kind| Expr { span, kind: Box::new(kind) };
    let way = e(ExprKind::Field(Some(e(ExprKind::Name(it.clone()))), to.clone()));
    Node { span, kind: NodeKind::Expr(index.map_or(way.clone(), |i| e(ExprKind::Index(way, i)))) }
}

/// Most rounds of a `for`.
const MOST_ROUNDS: u64 = 1_000_000;

impl Compiler<'_> {
    /// The tests of elements in the main file, as indices of items.
    pub fn element_tests(&mut self) -> Vec<usize> {
        let mut all = Vec::new();
        for id in 0..self.names.items.len() {
            let entry = &self.names.items[id];
            let (module, item) = (entry.module, entry.item.clone());
            let ItemKind::Test(ast::Test { app: Some((path, _)), .. }) = &item.kind else { continue };
            if module != 0 {
                continue;
            }
            let parts: Vec<&str> = path.parts.iter().map(|p| p.name.as_str()).collect();
            if let Some((Meaning::Item(found), n)) = self.names.find(0, &parts) {
                if n == parts.len() && matches!(self.names.items[found].item.kind, ItemKind::Element(_)) {
                    all.push(id);
                }
            }
        }
        all
    }

    /// An app of one instance, a port for each of its `in`s and `out`s, and the test of it.
    pub fn element_test(&mut self, module: ModId, t: &ast::Test) -> R<()> {
        let Some((path, args)) = &t.app else { return Err(Reported) };
        let id = self.path_item(module, path, "element")?;
        if !matches!(self.item(id, path.span)?, Item::Element) {
            return Err(Reported);
        }
        let last = path.parts.last().cloned().ok_or(Reported)?;
        self.m.app = last.name.clone();
        let i = self.instance_of_its_own(module, path, args, &last.name, t.span)?;
        // The test's code sees the names of the element, and the ports.
        let mut scope = self.app.clone();
        scope.take_in(&i.scope);
        let outer = std::mem::replace(&mut self.app, scope);
        self.callable_signals(i.module, &i.element);
        let played = self.played(module, t, vec![]);
        self.app = outer;
        played
    }

    /// An instance under the name [`UNDER_TEST`], with a port for each of its inputs and outputs.
    fn instance_of_its_own(
        &mut self,
        module: ModId,
        path: &ast::Path,
        args: &[ast::Arg],
        element: &str,
        span: Span,
    ) -> R<std::rc::Rc<super::scope::Instance>> {
        let it = Ident { name: UNDER_TEST.into(), span: path.span };
        let made = self.instance(module, &it, path, args)?;
        let AppName::Instance(i) = &made else { return Err(Reported) };
        let i = i.clone();
        self.add(&it, made);
        let ins = self.ports_around(&i, &it.name, span, true)?;
        for (_, port, node) in ins {
            self.pass_frames(module, element, port, &[node], span)?;
        }
        let members = [ast::Member {
            doc: String::new(),
            span,
            kind: MemberKind::Instance { name: it, element: path.clone(), args: vec![], device: None },
        }];
        self.instance_handlers(module, &members);
        self.behind_handlers(element);
        self.check_graph();
        Ok(i)
    }

    /// A port for each output of an instance, and for each input that takes packets. The ports of
    /// inputs are returned with the nodes to the instance.
    pub fn ports_around(
        &mut self,
        i: &std::rc::Rc<super::scope::Instance>,
        it: &str,
        span: Span,
        packets: bool,
    ) -> R<Vec<(Ident, ir::PortId, Node)>> {
        let name = |n: &Ident| Expr { span, kind: Box::new(ExprKind::Name(n.clone())) };
        let node = |e: Expr| Node { span, kind: NodeKind::Expr(e) };
        let at = |e: Expr, n: u64| Expr {
            span,
            kind: Box::new(ExprKind::Index(e, Expr { span, kind: Box::new(ExprKind::Int(n.into())) })),
        };
        let nowhere = || Node {
            span,
            kind: NodeKind::Word { word: Ident { name: "drop".into(), span }, args: vec![], by: None },
        };
        let (places_in, places_out) = (self.array_sizes(i, Direction::In)?, self.array_sizes(i, Direction::Out)?);
        let mut ins = Vec::new();
        for m in &i.element.members {
            match &m.kind {
                MemberKind::In { name: n, ty, .. } => {
                    let own = self.packet_of(i, ty);
                    if own.is_none() && !packets && !self.any_packet(i.module, ty) {
                        continue;
                    }
                    let count = places_in.iter().find(|(name, _)| *name == n.name).map(|(_, c)| *c);
                    let p = self.test_port(n, count, own)?;
                    let it = Ident { name: it.into(), span };
                    let instance =
                        || Expr { span, kind: Box::new(ExprKind::Field(None, Ident { name: "port".into(), span })) };
                    ins.push((n.clone(), p, way_in(&it, n, count.map(|_| instance()), span)));
                }
                MemberKind::Out { name: n, ty, .. } => {
                    let count = places_out.iter().find(|(name, _)| *name == n.name).map(|(_, c)| *c);
                    let own = self.packet_of(i, ty);
                    let to_port = packets || own.is_some() || self.any_packet(i.module, ty);
                    if to_port {
                        self.test_port(n, count, own)?;
                    }
                    let chains = std::rc::Rc::make_mut(&mut self.app.chains);
                    match count {
                        None => {
                            chains.insert(
                                format!("{it}.{}", n.name),
                                vec![if to_port { node(name(n)) } else { nowhere() }],
                            );
                        }
                        Some(c) => {
                            for k in 0..c {
                                chains.insert(
                                    format!("{it}.{}[{k}]", n.name),
                                    vec![if to_port { node(at(name(n), k)) } else { nowhere() }],
                                );
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(ins)
    }

    /// The packet type that an `in` or `out` names, if it does.
    fn packet_of(&mut self, i: &super::scope::Instance, t: &ast::Type) -> Option<ir::UnitId> {
        let told = self.diags.len();
        let ty = self.ty_in(&super::scope::any_types(i.module, &i.element), i.module, t);
        self.diags.truncate(told);
        match ty {
            Ok(Ty::Msg(unit)) if self.units[unit.index()].packet.is_some() => Some(unit),
            _ => None,
        }
    }

    /// `unit`: its packets; None: those of the library.
    fn test_port(&mut self, name: &Ident, count: Option<u64>, unit: Option<ir::UnitId>) -> R<ir::PortId> {
        let unit = match unit {
            Some(unit) => unit,
            None => self.standard_packet(name.span)?,
        };
        let id = ir::PortId(self.m.ports.len() as u32);
        self.app.frames.insert(id, unit);
        self.frame_units.push(unit);
        if count.is_none() {
            self.app.single.insert(id);
        }
        self.app.instances.insert(id, count.unwrap_or(1));
        let names = match count {
            None => ParamValue::Bytes(name.name.clone().into_bytes()),
            Some(n) => ParamValue::Endpoints((0..n).map(|i| format!("{}{i}", name.name)).collect()),
        };
        let kind = PortKind::Frames { engine: FrameEngine::Memory, names: Value::Const(names) };
        let span = self.span(name.span);
        self.m.ports.push(ir::Port::new(&name.name, span, kind));
        self.add(name, AppName::Port(id));
        Ok(id)
    }

    /// The signals of an element or app, as functions.
    pub fn callable_signals(&mut self, module: ModId, element: &ast::Element) {
        for m in &element.members {
            let MemberKind::Signal { name, params, ret, body, .. } = &m.kind else { continue };
            let f = ast::Fn {
                name: name.clone(),
                params: params.to_vec(),
                ret: ret.clone(),
                body: ast::FnBody::Block(body.clone()),
            };
            if self.app.has(&name.name) {
                continue;
            }
            if let Ok(info) = self.fn_info(module, &f, true) {
                self.add(name, AppName::Fn(info));
            }
        }
    }

    /// The names of the test, on their own.
    pub fn enter_test(&mut self) -> (AppScope, TestNames) {
        let outer = (self.app.clone(), std::mem::take(&mut self.test_names));
        if let Some(app) = self.app_ast.clone() {
            self.callable_signals(0, &app);
        }
        outer
    }

    pub fn leave_test(&mut self, outer: (AppScope, TestNames)) {
        (self.app, self.test_names) = outer;
    }

    fn test_index(&self) -> u32 {
        self.m.tests.len().saturating_sub(1) as u32
    }

    /// A step of a test of packets; None: it is one of services.
    pub fn frame_step(&mut self, module: ModId, k: &T, span: Span) -> Option<R<Option<SimStep>>> {
        // The callee has no ports, and its tests are code.
        let called = self.m.ports.is_empty();
        if self.app.frames.is_empty() && !called || self.is_of_connections(k) {
            return None;
        }
        Some(match k {
            T::Wait(_) => return None,
            T::SeeEnd { port, closed: false } => {
                self.at_place(module, port, span, |_, at| Ok(SimStep::SeeNothing(at))).map(Some)
            }
            T::SeeEnd { .. } | T::Act { .. } => Err(self.error("E0619", span, "a port of packets has no connections")),
            T::Send { port, bytes } => {
                self.built_step(module, port, bytes, (span, true)).map(|h| Some(SimStep::Give(h)))
            }
            T::See { port, bytes } => {
                self.built_step(module, port, bytes, (span, false)).map(|h| Some(SimStep::SeeSame(h)))
            }
            T::SeeWhere { port, cond } => {
                self.at_place(module, port, span, |cx, at| cx.check_step(module, at, cond, span)).map(Some)
            }
            T::For { var, list, steps } => self.for_step(module, var, list, steps, span).map(Some),
            T::Code(stmt) => match &stmt.kind {
                S::Let { pattern: Pattern::Name(n), ty: None, value } if matches!(&*value.kind, ExprKind::List(_)) => {
                    self.test_names.0.push((n.clone(), TestValue::Frame(value.clone())));
                    Ok(None)
                }
                _ => self.statement_step(module, stmt, span),
            },
        })
    }

    /// A statement of a test: it reads and changes what the app's handlers do.
    pub fn statement_step(&mut self, module: ModId, stmt: &ast::Stmt, span: Span) -> R<Option<SimStep>> {
        match &stmt.kind {
            S::Let { pattern: Pattern::Name(n), ty, value } => self.let_step(module, n, ty.as_ref(), value, span),
            S::Let { .. } | S::Var { .. } => Err(self.error("E0619", span, "a step binds one name: `let x = …`")),
            _ => self.code_step(module, stmt, span).map(Some),
        }
    }

    /// A step at a service port, of an app that has both.
    fn is_of_connections(&self, k: &T) -> bool {
        let (T::Send { port, .. } | T::See { port, .. } | T::SeeEnd { port, .. } | T::Act { port, .. }) = k else {
            return false;
        };
        let name = match &*port.kind {
            ExprKind::Field(Some(base), _) | ExprKind::Index(base, _) => &base.kind,
            _ => &port.kind,
        };
        let ExprKind::Name(n) = &**name else { return false };
        self.app.port(&n.name).is_some_and(|p| !matches!(self.m.ports[p.index()].kind, PortKind::Frames { .. }))
    }

    fn add_step(&mut self, span: Span, body: ir::Body) -> ir::HandlerId {
        let index = self.test_index();
        self.add_handler(&format!("test {index}"), ir::On::Test(index), span, body)
    }

    /// `x <- […]`, `y -> […]`: the frame, sent to the port. `comes`: it is to be handled.
    fn built_step(
        &mut self,
        module: ModId,
        port: &Expr,
        frame: &Expr,
        (span, comes): (Span, bool),
    ) -> R<ir::HandlerId> {
        let frame = self.frame_of(frame);
        let mut l = begin(self, module);
        let made = l.target(port).and_then(|(port, index)| match l.takes_frames(port) {
            true if comes && l.cx.m.frame_handler(port).is_none() => {
                let d = wireloom_syntax::Diagnostic::error(
                    "E0619",
                    span,
                    "no handler reads this port: the packet would be lost",
                )
                .hint("a packet that the app sends is expected by `port -> …`");
                Err(l.cx.report(d))
            }
            true => l.send_parts(&frame, port, &index, span),
            false => Err(l.err("E0619", span, "this port takes no packets")),
        });
        let body = l.body();
        made?;
        Ok(self.add_step(span, body))
    }

    /// A frame that a `let` has kept is written out, alone or in a list of parts.
    fn frame_of(&self, e: &Expr) -> Expr {
        let kept = |e: &Expr| match &*e.kind {
            ExprKind::Name(n) => {
                self.test_names.0.iter().rev().find(|(k, _)| k.name == n.name).and_then(|(_, k)| match k {
                    TestValue::Frame(f) => Some(self.frame_of(f)),
                    TestValue::State(..) | TestValue::Known(_) => None,
                })
            }
            _ => None,
        };
        match &*e.kind {
            ExprKind::List(parts) => {
                let parts = parts
                    .iter()
                    .flat_map(|p| match kept(p).map(|k| *k.kind) {
                        Some(ExprKind::List(inner)) => inner,
                        _ => vec![p.clone()],
                    })
                    .collect();
                Expr { span: e.span, kind: Box::new(ExprKind::List(parts)) }
            }
            _ => kept(e).unwrap_or_else(|| e.clone()),
        }
    }

    /// A step at a place whose instance may be computed: then by a handler that sends a frame
    /// there.
    fn at_place(
        &mut self,
        module: ModId,
        port: &Expr,
        span: Span,
        step: impl FnOnce(&mut Self, SimPort) -> R<SimStep>,
    ) -> R<SimStep> {
        let computed = match &*port.kind {
            ExprKind::Index(base, i) if !matches!(&*i.kind, ExprKind::Int(_)) => Some(base),
            _ => None,
        };
        let Some(base) = computed else {
            let at = self.sim_port(module, port)?;
            return step(self, at);
        };
        let at = self.sim_port(module, base)?;
        let nothing = Expr {
            span: port.span,
            kind: Box::new(ExprKind::List(vec![Expr { span: port.span, kind: Box::new(ExprKind::Bytes(vec![])) }])),
        };
        let place = self.built_step(module, port, &nothing, (span, false))?;
        Ok(SimStep::At(place, Box::new(step(self, at)?)))
    }

    /// `y -> where .ip4.ttl == 63`
    fn check_step(&mut self, module: ModId, at: SimPort, cond: &Expr, span: Span) -> R<SimStep> {
        let Some(unit) = self.app.frames.get(&at.port).copied().or(self.frame_units.first().copied()) else {
            return Err(Reported);
        };
        let mut l = begin(self, module);
        // The frame is the first local.
        let p = l.new_local("p", &Ty::Msg(unit));
        l.dot = Some(Val::path(Ty::Msg(unit), build::msg(p)));
        let holds = ast::Stmt { span: cond.span, kind: S::Expect(cond.clone()) };
        let made = l.stmt(&holds);
        let body = l.body();
        made?;
        let test = self.test_index();
        let handler = self.add_handler(&format!("test {test}"), ir::On::Check { test, unit }, span, body);
        Ok(SimStep::Check(at, handler))
    }

    fn code_step(&mut self, module: ModId, stmt: &ast::Stmt, span: Span) -> R<SimStep> {
        let mut l = begin(self, module);
        let made = l.stmt(stmt);
        let body = l.body();
        made?;
        Ok(SimStep::Run(self.add_step(span, body)))
    }

    /// `let x = e`: kept as a state, for the steps that follow. A constant needs no step.
    fn let_step(
        &mut self,
        module: ModId,
        name: &Ident,
        ty: Option<&ast::Type>,
        value: &Expr,
        span: Span,
    ) -> R<Option<SimStep>> {
        let want = ty.map(|t| self.ty(module, t)).transpose()?;
        let mut l = begin(self, module);
        let made = l.expr(value, want.as_ref()).and_then(|v| {
            let v = l.defined(v, value.span)?;
            let t = want.unwrap_or_else(|| l.settled(&v.ty));
            if !t.is_plain() {
                let s = l.show(&t);
                return Err(l.err("E0309", value.span, format!("{s} cannot be kept over steps")));
            }
            Ok((l.coerce(v, &t, value.span)?, t))
        });
        let mut body = l.body();
        let (e, t) = made?;
        let folded = crate::fold::fold(&self.m, &e);
        if body.block.is_empty() && crate::consts::is_literal(&folded) {
            self.test_names.0.push((name.clone(), TestValue::Known(Val::pure(t, folded))));
            return Ok(None);
        }
        let state = self.test_state(name, &t);
        body.block.push(build::stmt(self.span(span), StmtKind::SetState(state, e)));
        Ok(Some(SimStep::Run(self.add_step(span, body))))
    }

    /// The values of the test at hand that have names.
    pub fn test_values(&mut self) -> Vec<(Ident, Val)> {
        let mut all = vec![];
        for (n, k) in self.test_names.0.clone() {
            match k {
                TestValue::Frame(_) => {}
                TestValue::Known(v) => all.push((n, v)),
                TestValue::State(id, t) => {
                    let lowered = self.lower_ty(&t);
                    all.push((n, Val::pure(t, ir::Expr::new(lowered, K::State(id)))));
                }
            }
        }
        all
    }

    fn test_state(&mut self, name: &Ident, t: &Ty) -> ir::StateId {
        let ty = self.lower_ty(t);
        let id = ir::StateId(self.m.states.len() as u32);
        self.m.states.push(ir::State { name: format!("test {}", name.name), ty, init: None, memory: false });
        self.test_names.0.push((name.clone(), TestValue::State(id, t.clone())));
        id
    }

    /// `for i in 0..10 { steps }`
    pub fn for_step(
        &mut self,
        module: ModId,
        var: &Ident,
        list: &Expr,
        steps: &[ast::TestStep],
        span: Span,
    ) -> R<SimStep> {
        let ExprKind::Range(from, to, inclusive) = &*list.kind else {
            return Err(self.error("E0619", list.span, "steps are repeated over a range: `for i in 0..10 { … }`"));
        };
        let from = self.const_u64(module, from)?;
        let to = self.const_u64(module, to)?.saturating_add(u64::from(*inclusive));
        let times = to.saturating_sub(from);
        if times > MOST_ROUNDS {
            return Err(self.error("E0619", list.span, format!("steps are repeated at most {MOST_ROUNDS} times")));
        }
        let known = self.test_names.0.len();
        let state = self.test_state(var, &U64);
        let current = ir::Expr::new(crate::compiler::T_U64, K::State(state));
        let sp = self.span(span);
        let set = |cx: &mut Self, e: ir::Expr| {
            let body = ir::Body {
                locals: vec![],
                block: vec![build::stmt(sp, StmtKind::SetState(state, e))],
                ..Default::default()
            };
            cx.add_step(span, body)
        };
        let first = set(self, build::u64(from));
        let next = set(self, build::bin(crate::compiler::T_U64, ir::BinOp::Add, current, build::u64(1)));
        let steps = self.sim_steps(module, steps);
        self.test_names.0.truncate(known);
        Ok(SimStep::Repeat { first, next, times, steps })
    }
}

/// Code of a step: it sees the app's names and the kept names of the test.
fn begin<'c, 'a>(cx: &'c mut Compiler<'a>, module: ModId) -> Lower<'c, 'a> {
    let place = cx.m.tests.last().map_or(String::new(), |t| format!("test \"{}\"", t.name));
    let named = cx.test_values();
    let mut l = Lower::new(cx, module, Kind::Test);
    l.place = place;
    l.in_app = true;
    l.frames = true;
    l.bind_all(&named);
    l
}
