//! Wiring between ports: `merge`, and passing requests on.

use super::scope::AppName;
use crate::body::{HandlerCtx, Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::{Val, Vk};
use ir::desc::PortKind;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, ItemKind, Node, NodeKind, Span};
use wireloom_syntax::Diagnostic;

/// `merge by .key with a, b => …` in a wiring.
struct MergeNode<'a> {
    key: &'a Expr,
    sides: [&'a Ident; 2],
    with: &'a Expr,
    span: Span,
}

impl Compiler<'_> {
    pub fn wiring(&mut self, module: ModId, app: &str, nodes: &[Node], span: Span) -> R<()> {
        // Told where it was read first.
        if nodes.len() > super::MOST_NODES {
            return Err(Reported);
        }
        match nodes {
            [Node { kind: NodeKind::Expr(e), .. }, ..] if self.is_known(e) => Ok(()),
            [from, rest @ ..] if !rest.is_empty() => {
                let at = from.span;
                let from = self.node_port(module, from)?;
                let first = self.app.wired.insert(from);
                if self.app.frames.contains_key(&from) {
                    return self.pass_frames(module, app, from, rest, span);
                }
                if !first
                    || self.m.handlers.iter().any(|h| matches!(h.on, ir::On::Message { port, .. } if port == from))
                {
                    return Err(self.wired_already(from, at));
                }
                if let Some(n) = rest.iter().position(is_merge) {
                    return self.merge_wiring(module, app, from, (&rest[..n], &rest[n], &rest[n + 1..]), span);
                }
                self.pass_on(module, app, from, rest, span)
            }
            _ => Err(self.report(
                Diagnostic::error("E0609", span, "this wiring is not compiled yet")
                    .hint("write a handler: `on port(req) { … }`"),
            )),
        }
    }

    /// A port's messages go one way.
    pub fn wired_already(&mut self, port: ir::PortId, at: Span) -> Reported {
        let name = self.m.ports[port.index()].name.clone();
        self.report(
            Diagnostic::error("E0639", at, format!("port `{name}` has a handler or a wiring already"))
                .label("the second one")
                .hint("join them: `match { … }` in a wiring, `if` in a handler"),
        )
    }

    /// `inputs -> … -> merge … -> … -> output`: the nodes before and behind the merge are handlers
    /// of its ports, which send to the output.
    fn merge_wiring(
        &mut self,
        module: ModId,
        app: &str,
        from: ir::PortId,
        (before, merge, behind): (&[Node], &Node, &[Node]),
        span: Span,
    ) -> R<()> {
        let NodeKind::Merge { key, a, b, with } = &merge.kind else { return Err(Reported) };
        let Some((end, between)) = behind.split_last() else {
            let d = Diagnostic::error("E0630", merge.span, "this merge leads nowhere");
            return Err(self.report(d.hint("end its wiring at a connecting port")));
        };
        if let Some(second) = between.iter().find(|n| is_merge(n)) {
            return Err(self.misplaced_merge(second.span));
        }
        let to = self.node_port(module, end)?;
        self.merge(module, from, to, &MergeNode { key, sides: [a, b], with, span: merge.span })?;
        let mut made = Ok(());
        if !before.is_empty() {
            made = self.lower_nodes(module, app, from, &[before, std::slice::from_ref(end)].concat(), span);
        }
        if !between.is_empty() {
            made = made.and(self.lower_nodes(module, app, to, behind, span));
        }
        made
    }

    pub fn misplaced_merge(&mut self, at: Span) -> Reported {
        self.report(
            Diagnostic::error("E0618", at, "a merge stands in the wiring of its inputs' port, once")
                .hint("write `inputs -> … -> merge by .key with … -> … -> output`"),
        )
    }

    /// The nodes behind an instance, or behind a queue of messages, are known already.
    fn is_known(&self, e: &Expr) -> bool {
        let e = if let ExprKind::Index(b, _) = &*e.kind { b } else { e };
        crate::apps::arrays::instance_port(e)
            .is_some_and(|(n, _)| matches!(self.app.get(&n.name), Some(AppName::Instance(_) | AppName::Messages(_))))
    }

    fn has_failed(&self, e: &Expr) -> bool {
        let e = if let ExprKind::Index(b, _) = &*e.kind { b } else { e };
        let of = |name: &str| matches!(self.app.get(name), Some(AppName::Failed));
        if let ExprKind::Name(id) = &*e.kind {
            return of(&id.name);
        }
        crate::apps::arrays::instance_port(e).is_some_and(|(n, _)| of(&n.name))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn node_port(&mut self, module: ModId, n: &Node) -> R<ir::PortId> {
        let NodeKind::Expr(e) = &n.kind else {
            return Err(self.error("E0609", n.span, "this node is not compiled yet"));
        };
        if self.unnamed(module, e) {
            return Err(Reported);
        }
        match &*e.kind {
            ExprKind::Name(id) => match self.app.get(&id.name) {
                Some(AppName::Port(p)) => Ok(*p),
                Some(AppName::Failed | AppName::Instance(_)) => Err(Reported),
                Some(_) => Err(self.error("E0603", id.span, format!("`{}` is no port", id.name))),
                None => {
                    let known: Vec<String> = self.app.names().collect();
                    Err(self.unknown(module, &id.name, id.span, "port", &known))
                }
            },
            // Of an instance that could not be made.
            _ if self.has_failed(e) => Err(Reported),
            ExprKind::List(_) => Err(self.report(
                Diagnostic::error("E0633", e.span, "only ports by name are wired")
                    .hint("where several lead to one, each has a wiring: `a -> e`, `b -> e`"),
            )),
            _ => Err(self.error("E0633", e.span, "only ports by name are wired")),
        }
    }

    /// `-> Count() ->`: an element that was given no name. Told once.
    pub fn unnamed(&mut self, module: ModId, e: &Expr) -> bool {
        let ExprKind::Call(f, _) = &*e.kind else { return false };
        let Some(id) = self.expr_item(module, f) else { return false };
        let ItemKind::Element(element) = &self.names.items[id].item.kind else { return false };
        let element = element.name.name.clone();
        if self.diags.iter().any(|d| d.code == "E0636" && d.span() == Some(e.span)) {
            return true;
        }
        let name = element.to_lowercase();
        let d = Diagnostic::error("E0636", e.span, "an element is given a name before it is wired").label("no name");
        self.report(d.hint(format!("write `{name} = {element}(…)` as a line of the app, and `{name}` here")));
        true
    }

    fn ends(&mut self, from: ir::PortId, to: ir::PortId, span: Span) -> R<(ir::ProtocolId, ir::ProtocolId)> {
        let (f, t) = (&self.m.ports[from.index()], &self.m.ports[to.index()]);
        match (&f.kind, &t.kind, f.protocols.first(), t.protocols.first()) {
            (PortKind::Listen(_), PortKind::Connect(_), Some(a), Some(b)) => Ok((*a, *b)),
            _ => Err(self.report(Diagnostic::error(
                "E0603",
                span,
                "messages go from a listening port to a connecting one",
            ))),
        }
    }

    /// `client -> … -> backend`: every request goes along the nodes.
    fn pass_on(&mut self, module: ModId, app: &str, from: ir::PortId, nodes: &[Node], span: Span) -> R<()> {
        let port = &self.m.ports[from.index()];
        let (PortKind::Listen(_), [_]) = (&port.kind, port.protocols.as_slice()) else {
            return Err(self.error("E0603", span, "a wiring begins at a listening port of one protocol"));
        };
        self.lower_nodes(module, app, from, nodes, span)
    }

    /// Nodes as the handler of a port's messages.
    fn lower_nodes(&mut self, module: ModId, app: &str, from: ir::PortId, nodes: &[Node], span: Span) -> R<()> {
        let port = self.m.ports[from.index()].clone();
        let Some(protocol) = port.protocols.first() else { return Err(Reported) };
        let info = self.protocols[protocol.index()].clone();
        let place = format!("app {app}: {}", port.name);
        let mut l = Lower::new(self, module, Kind::Handler);
        l.place = place;
        l.in_app = true;
        let req = l.new_local("req", &Ty::Msg(info.request));
        l.handler = Some(HandlerCtx {
            port: from,
            protocol: *protocol,
            req,
            one_way: info.response.is_none(),
            no_reply: info.no_reply,
            greeting: false,
        });
        l.joined();
        let mut made = l.flow(nodes, Val::path(Ty::Msg(info.request), build::msg(req)), span);
        if made.is_ok() {
            l.ends(span);
            made = l.join_inputs();
        }
        let body = l.body();
        self.add_handler(&port.name, ir::On::Message { port: from, protocol: *protocol }, span, body);
        made
    }

    fn merge(&mut self, module: ModId, from: ir::PortId, to: ir::PortId, node: &MergeNode) -> R<()> {
        let (key, span) = (node.key, node.span);
        self.distinct(node.sides.into_iter())?;
        let (pa, pb) = self.ends(from, to, span)?;
        let (ia, ib) = (self.protocols[pa.index()].clone(), self.protocols[pb.index()].clone());
        if ia.request != ib.request {
            return Err(self.error("E0608", span, "both sides of a merge carry the same unit"));
        }
        if ia.response.is_some() {
            return Err(self.error("E0604", span, "a merge is for protocols without answers"));
        }
        let Some(inputs) = self.app.counts.get(&from).copied() else {
            let name = self.m.ports[from.index()].name.clone();
            return Err(self.report(
                Diagnostic::error("E0618", span, format!("how many streams does `{name}` merge?"))
                    .hint("write it behind the port: `port mappers = listen tcp(9000) as kv.stream [8]`"),
            ));
        };
        let unit = ia.request;
        let ExprKind::Field(None, key_name) = &*key.kind else {
            return Err(self.error("E0618", key.span, "the key is a field: `by .key`"));
        };
        let Some(key) = self.units[unit.index()].member(&key_name.name).cloned() else {
            return Err(self.unknown_field(unit, key_name));
        };
        if !(matches!(key.ty, Ty::Bytes(_)) || key.ty.is_int()) || !key.cases.is_empty() {
            return Err(self.error(
                "E0618",
                key_name.span,
                "a merge's key is bytes or an integer that is always there",
            ));
        }
        if let Some(f) = ir::Merge::not_written(&self.m, unit) {
            return Err(self.not_written(unit, f, span));
        }
        let made = self.merge_values(module, unit, &key, node)?;
        let name = self.m.ports[from.index()].name.clone();
        let ir_span = self.span(span);
        self.m.merges.push(ir::Merge {
            name,
            span: ir_span,
            from,
            to,
            inputs,
            unit,
            key: key.field,
            values: made.0,
            locals: made.1,
        });
        Ok(())
    }

    /// A merge of a unit with this field.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn not_written(&mut self, unit: ir::UnitId, f: ir::FieldId, span: Span) -> Reported {
        let kind = match self.m.unit(unit).fields[f.index()].kind {
            ir::FieldKind::List { .. } => "a list",
            ir::FieldKind::Unit { .. } => "a unit within it",
            ir::FieldKind::Switch { .. } => "fields that may be absent",
            _ => "a stream",
        };
        let name = self.m.unit(unit).name.clone();
        let d = Diagnostic::error("E0618", span, format!("a merge cannot combine `{name}`, which has {kind}"));
        let member = self.units[unit.index()].by_field(f).map(|m| m.span);
        let d = member.map_or(d.clone(), |at| d.also(at, "it is here"));
        self.report(d.hint("a merge combines units of numbers, text, bytes and flags"))
    }

    /// The combination: a message built from both, of which each field is an expression over the
    /// two sides' fields.
    fn merge_values(
        &mut self,
        module: ModId,
        unit: ir::UnitId,
        key: &crate::units::info::Member,
        node: &MergeNode,
    ) -> R<(Vec<ir::MergeValue>, Vec<ir::Local>)> {
        let members = self.units[unit.index()].members.clone();
        let mut l = Lower::new(self, module, Kind::Clause);
        l.in_app = true;
        let mut sides = Vec::new();
        for side in node.sides {
            let mut fields = Vec::new();
            for m in members.iter() {
                if !m.ty.is_plain() || !m.cases.is_empty() {
                    continue;
                }
                let local = l.new_local(&format!("{}.{}", side.name, m.name), &m.ty);
                fields.push((m.name.clone(), local, Val::pure(m.ty.clone(), l.local_expr(local))));
            }
            let known = fields.iter().map(|(n, _, v)| (n.clone(), v.clone())).collect();
            let v = Val::out(crate::val::Outgoing {
                unit,
                kind: crate::val::OutKind::Built(vec![]),
                fields: known,
                run: None,
                params: vec![],
                ends: None,
                validity: crate::val::Validity::Sure,
            });
            l.bind_all(&[(side.clone(), v)]);
            sides.push(fields);
        }
        let fields = l.combined(node.with)?;
        let mut values = Vec::new();
        for m in members.iter() {
            if m.field == key.field || !m.ty.is_plain() {
                continue;
            }
            let Some((_, e)) = fields.iter().find(|(n, _)| n.name == m.name) else {
                return Err(l.err(
                    "E0618",
                    node.with.span,
                    format!("the combined message has no value for `{}`", m.name),
                ));
            };
            let combined = l.expr_as(e, &m.ty)?;
            let find = |s: &[(String, ir::LocalId, Val)]| s.iter().find(|(n, ..)| *n == m.name).map(|(_, l, _)| *l);
            let (Some(a), Some(b)) = (find(&sides[0]), find(&sides[1])) else { return Err(Reported) };
            values.push(ir::MergeValue { field: m.field, a, b, combined });
        }
        if let Some((_, e)) = fields.iter().find(|(n, _)| n.name == key.name) {
            let k = l.expr(e, None)?;
            let same = sides.iter().any(|s| {
                s.iter().any(|(n, _, v)| {
                    *n == key.name && matches!((&v.kind, &k.kind), (Vk::Pure(a), Vk::Pure(b)) if a == b)
                })
            });
            if !same {
                return Err(l.err("E0618", e.span, "the combined message keeps the key it was found by"));
            }
        }
        Ok((values, std::mem::take(&mut l.locals)))
    }
}

fn is_merge(n: &Node) -> bool {
    matches!(n.kind, NodeKind::Merge { .. })
}

impl Lower<'_, '_> {
    /// The fields of a combination: `Pair { … }`, or a function of one expression that builds one.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn combined(&mut self, with: &Expr) -> R<Vec<(Ident, Expr)>> {
        match &*with.kind {
            ExprKind::Build(_, fields) => Ok(fields.clone()),
            ExprKind::Block(b) => match b.stmts.as_slice() {
                [ast::Stmt { kind: ast::StmtKind::Expr(e), .. }] => self.combined(e),
                _ => Err(self.err("E0618", with.span, "a combination is one message: `Unit { … }`")),
            },
            ExprKind::Call(f, args) => match self.callee(f)? {
                crate::body::calls::Callee::Fn(info) => {
                    let ast::FnBody::Expr(body) = &info.ast.body else {
                        return Err(self.err("E0618", with.span, "a combining function is one expression"));
                    };
                    let mut binds = Vec::new();
                    for ((n, t), a) in info.params.iter().zip(args) {
                        let x = self.expr_as(&a.value, t)?;
                        binds.push((n.clone(), Val::pure(t.clone(), x)));
                    }
                    self.bind_all(&binds);
                    self.module = info.module;
                    self.combined(body)
                }
                crate::body::calls::Callee::FunctionArg(..)
                | crate::body::calls::Callee::Of(..)
                | crate::body::calls::Callee::Builtin(_)
                | crate::body::calls::Callee::Convert(_)
                | crate::body::calls::Callee::Method(..) => {
                    Err(self.err("E0618", with.span, "a combination is one message: `Unit { … }`"))
                }
            },
            ExprKind::Error => Err(Reported),
            _ => Err(self.err("E0618", with.span, "a combination is one message: `Unit { … }`")),
        }
    }
}
