//! The nodes of a wiring. A wiring is walked from its port: inline nodes, elements (by their sends
//! to `out`), then the port at its end.

use super::arrays::{instance_at, place_name};
use super::inputs::to_name;
use super::scope::AppName;
use super::wire_ends::From;
use crate::body::destination::Sink;
use crate::body::Lower;
use crate::compiler::{Reported, R};
use crate::ty::Ty;
use crate::val::Val;
use ir::StmtKind;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, Node, NodeKind, Span};
use wireloom_syntax::Diagnostic;

/// A node of several targets, or of several conditions: `steer [a, b] by .key`, `any(.udp, .tcp)`.
struct SplitNode<'a> {
    word: &'a Ident,
    args: &'a [Expr],
    by: Option<&'a Expr>,
    span: Span,
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
                if matches!(word.name.as_str(), "broadcast" | "steer" | "tee" | "any" | "all" | "not") =>
            {
                self.flow_split(&SplitNode { word, args, by: by.as_ref(), span: node.span }, rest, v)
            }
            NodeKind::Match(ways) => self.flow_match(ways, rest, v, node.span),
            NodeKind::Expr(e) if self.is_outlet(e) => {
                if let Some(extra) = rest.first() {
                    return Err(self.err("E0631", extra.span, "nothing may follow an output of the element"));
                }
                self.with_name(v, span, |s, value| s.send(value, e, node.span))
            }
            NodeKind::Word { word, args, by: None } => self.flow_word(word, args, rest, v, node.span),
            NodeKind::Expr(e) if self.cx.unnamed(self.module, e) => Err(Reported),
            NodeKind::Expr(e) if self.is_filter(e) => self.filter(e, rest, v, node.span),
            NodeKind::Expr(e) => {
                if let Some((n, port, index)) = instance_at(e) {
                    if let Some(AppName::Instance(i)) = self.cx.app.get(&n.name).cloned() {
                        if !self.is_packet(&v) {
                            return self.flow_element((n, port, index), &i, rest, v, node.span);
                        }
                        let from = From { element: self.cx.element, out: to_name(n, port) + &place_name(index) };
                        return self.along(from, nodes, v, node.span);
                    }
                }
                if let Some((n, ..)) = instance_at(e) {
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
            NodeKind::Merge { .. } => Err(self.cx.misplaced_merge(node.span)),
            _ => Err(self.err("E0609", node.span, "this node is not compiled yet")),
        }
    }

    fn one_way(&self) -> bool {
        self.handler.is_some_and(|h| h.one_way)
    }

    fn flow_port(&mut self, e: &Expr, v: Val, span: Span) -> R<()> {
        if let Some(queue) = self.messages_of(e) {
            return self.flow_into_queue(queue, v, span);
        }
        let (port, index) = self.target(e)?;
        self.flow_into_port((port, index), v, span)
    }

    /// The end of a wiring. A request is answered by what the port answers.
    pub fn flow_into_port(&mut self, (port, index): (ir::PortId, ir::Expr), v: Val, span: Span) -> R<()> {
        // No client waits for what comes from a queue: the port's protocol alone decides.
        let protocol = self.cx.m.ports[port.index()].protocols.first();
        let unanswered = protocol.is_some_and(|p| self.cx.protocols[p.index()].response.is_none());
        if self.one_way() || self.frames || self.handler.is_none() && unanswered {
            return self.sink(v, &Sink::Send { port, index, span }, span).map(|_| ());
        }
        self.sink(v, &Sink::Call { port, index, within: None, span }, span)?;
        self.answer(span)
    }

    /// A message that goes no further. Its client, if one waits, is not answered.
    pub fn dropped(&mut self, span: Span) -> R<Val> {
        if !self.one_way() && !self.frames && !self.copy {
            self.mark_replied(span)?;
            self.push(span, StmtKind::Reply { msg: ir::Outgoing::Nothing, close: false });
        }
        Ok(Val::unit())
    }

    /// On along the nodes where a condition holds.
    fn filter(&mut self, e: &Expr, rest: &[Node], v: Val, span: Span) -> R<()> {
        let outer = self.dot.replace(v.clone());
        let c = self.decide(e);
        self.dot = outer;
        self.branch(c?, span, Some(&Ty::Unit), |s| s.flow(rest, v, span).map(|_| Val::unit()), |s| s.dropped(span))
            .map(|_| ())
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn flow_word(&mut self, word: &Ident, args: &[Expr], rest: &[Node], v: Val, span: Span) -> R<()> {
        match (word.name.as_str(), args) {
            ("drop", []) => self.dropped(span).map(|_| ()),
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
            ("where", [e]) => self.filter(e, rest, v, span),
            ("map", [e]) => {
                let outer = self.dot.replace(v);
                let v = self.expr(e, None);
                self.dot = outer;
                self.flow(rest, v?, span)
            }
            _ => Err(self.cx.report(
                Diagnostic::error("E0609", span, format!("`{}` is not compiled here yet", word.name))
                    .hint("these are: `where`, `any`, `all`, `not`, `match`, `map`, `tee`, `steer`, `broadcast`, `log`, `drop`"),
            )),
        }
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
    fn flow_split(&mut self, node: &SplitNode, rest: &[Node], v: Val) -> R<()> {
        let SplitNode { word, args, by, span } = *node;
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
                let made = match by {
                    Some(key) if !self.frames => self.steer_message(v, to, key, span),
                    None if !self.frames && !self.one_way() => Err(self.cx.report(
                        Diagnostic::error(
                            "E0634",
                            span,
                            "a request is answered once, and `broadcast` sends it to several",
                        )
                        .hint("write `tee(a) -> b`, which answers what b does, or a handler with `call all`"),
                    )),
                    _ => self.with_name(v, span, |s, value| match by {
                        Some(key) => s.steer(value, to, key, span),
                        None => s.broadcast(value, to, span),
                    }),
                };
                self.dot = dot;
                made
            }
            ("tee", to, None) if !to.is_empty() => {
                for t in to {
                    if self.frames {
                        self.with_name(v.clone(), span, |s, value| s.send(value, t, span))?;
                        continue;
                    }
                    // The answer to a copy goes nowhere.
                    let (copy, replied) = (std::mem::replace(&mut self.copy, true), self.replied);
                    let node = Node { span: t.span, kind: NodeKind::Expr(t.clone()) };
                    let made = self.flow(&[node], v.clone(), span);
                    (self.copy, self.replied) = (copy, replied);
                    made?;
                }
                self.flow(rest, v, span)
            }
            (w @ ("any" | "all" | "not"), [first, more @ ..], None) => {
                let op = if w == "all" { ast::BinOp::And } else { ast::BinOp::Or };
                let e = |kind| Expr { span, kind: Box::new(kind) };
                let joined = |a, b: &Expr| e(ExprKind::Binary(op, a, b.clone()));
                let cond = more.iter().fold(first.clone(), joined);
                let cond = if w == "not" { e(ExprKind::Unary(ast::UnOp::Not, cond)) } else { cond };
                self.filter(&cond, rest, v, span)
            }
            (w, ..) => {
                let form = match w {
                    "broadcast" => "broadcast [a, b]",
                    "steer" => "steer [a, b] by .pair",
                    "tee" => "tee(a) -> b",
                    "any" => "any(.udp, .tcp) -> a",
                    "all" => "all(.udp, .len > 60) -> a",
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
}
