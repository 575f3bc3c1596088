//! Frames leave: to a port, to several, or to one that a hash chooses.

use super::passed_on::Passed;
use super::Lower;
use crate::apps::arrays::item;
use crate::compiler::{Reported, R, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ty::U32;
use crate::val::Val;
use ir::{BinOp, Expr as X, ExprKind as K, FaultKind, FrameAct, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    /// Whether a port takes whole frames.
    pub fn takes_frames(&self, p: ir::PortId) -> bool {
        matches!(self.cx.m.ports[p.index()].kind, ir::desc::PortKind::Frames { .. })
    }

    /// A frame leaves as it is now, or one that is built does.
    pub fn send_frame(&mut self, v: &Val, port: ir::PortId, index: &X, span: Span) -> R<()> {
        match self.whole_frame(v) {
            Some(l) => {
                let queue = self.cx.is_queue(port);
                let (mark, mut state) =
                    if queue { (self.mark_at_hand(), self.state_at_hand()) } else { (None, vec![]) };
                self.in_channel(port, &mut state, span)?;
                self.act(l, FrameAct::Send { port, index: index.clone(), mark, state, last: false }, span)
            }
            None if v.ty.is_error() => Err(Reported),
            None => {
                let (s, name) = (self.show(&v.ty), self.cx.m.ports[port.index()].name.clone());
                Err(self.cx.report(
                    Diagnostic::error("E0623", span, format!("port `{name}` takes packets, not {s}"))
                        .label("no packet")
                        .hint("send the current packet, or build one: `[Ethernet { … }, Ipv4 { … }, bytes] -> port`"),
                ))
            }
        }
    }

    /// `[Ethernet { … }, …] -> wire`.
    pub fn send_parts(&mut self, e: &Expr, port: ir::PortId, index: &X, span: Span) -> R<()> {
        self.no_channel(port, true, span)?;
        let (parts, _) = self.frame_parts(e)?;
        let place = self.place_id(span);
        self.push(span, StmtKind::SendFrame { port, index: index.clone(), parts, place });
        Ok(())
    }

    /// `drop p`: it goes nowhere.
    pub fn drop_frame(&mut self, e: &Expr) -> R<()> {
        let v = self.expr(e, None)?;
        let frame = self.frame_local(&v, e.span)?;
        self.passed.entry((frame, Passed::Dropped)).or_insert(e.span);
        Ok(())
    }

    /// A packet that goes on is not dropped on any way to here.
    pub fn not_dropped(&mut self, e: &Expr) -> R<()> {
        let ExprKind::Name(n) = &*e.kind else { return Ok(()) };
        let Some((i, j)) = self.lookup(&n.name) else { return Ok(()) };
        let frame = self.whole_frame(&self.scopes[i][j].val);
        let Some(at) = frame.and_then(|l| self.passed.get(&(l, Passed::Dropped))).copied() else { return Ok(()) };
        let d = Diagnostic::error("E0663", e.span, format!("`{}` is sent on a way on which it is dropped", n.name));
        let hint = "end that way with `return`, or leave `drop` out: what is not sent is dropped";
        Err(self.cx.report(d.also(at, "dropped here").hint(hint)))
    }

    /// `p -> broadcast ports`: to every instance of a port, or to all of a list.
    pub fn broadcast(&mut self, value: &Expr, to: &Expr, span: Span) -> R<()> {
        if let ExprKind::List(targets) = &*to.kind {
            return self.send_to_all(value, targets, span);
        }
        if let Some(n) = self.way_count(to) {
            let targets: Vec<Expr> = (0..n).map(|i| item(to, i)).collect();
            return self.send_to_all(value, &targets, span);
        }
        let port = self.port_arg(to)?;
        let var = self.new_local("", &U32);
        let index = self.local_expr(var);
        let sink = super::destination::Sink::Send { port, index, span };
        let (made, body) = self.sub(|s| s.deliver(value, &sink));
        made?;
        let max = self.cx.app.instances(port);
        self.push(span, StmtKind::For { var, from: build::u32(0), to: X::new(T_U32, K::PortLen(port)), max, body });
        Ok(())
    }

    fn send_to_all(&mut self, value: &Expr, targets: &[Expr], span: Span) -> R<()> {
        let Some((last, before)) = targets.split_last() else { return Ok(()) };
        for t in before {
            self.send(value, t, span)?;
        }
        self.send(value, last, span)
    }

    /// `p -> steer ports by key`: the instance that the key's hash picks.
    pub fn steer(&mut self, value: &Expr, to: &Expr, by: &Expr, span: Span) -> R<()> {
        let hash = self.steering_hash(by, span)?;
        if let Some(n) = self.fixed_targets(to)? {
            return self.steer_fixed(value, to, &hash, n, span);
        }
        let (port, index) = self.instance_by(to, hash, span)?;
        self.deliver(value, &super::destination::Sink::Send { port, index, span }).map(|_| ())
    }

    /// The same of a message of a service, in a wiring.
    pub fn steer_message(&mut self, v: Val, to: &Expr, by: &Expr, span: Span) -> R<()> {
        let hash = self.steering_hash(by, span)?;
        let Some(n) = self.fixed_targets(to)? else {
            let to = self.instance_by(to, hash, span)?;
            return self.flow_into_port(to, v, span);
        };
        let on = build::bin(T_U64, BinOp::Rem, hash, build::u64(n));
        let on = self.temp("", &crate::ty::U64, on, span);
        let on = self.local_expr(on);
        self.choose(on, n, span, &|s, i| {
            let kind = ast::NodeKind::Expr(target(to, i));
            s.flow(&[ast::Node { span: to.span, kind }], v.clone(), span)
        })
    }

    fn steering_hash(&mut self, by: &Expr, span: Span) -> R<X> {
        let v = self.expr(by, None)?;
        let v = self.defined(v, by.span)?;
        let ty = self.settled(&v.ty);
        if !ty.is_plain() && !ty.is_error() {
            let s = self.show(&ty);
            return Err(self.err("E0309", by.span, format!("{s} is no key")));
        }
        let key = self.coerce(v, &ty, by.span)?;
        let hash = self.temp("", &crate::ty::U64, build::builtin(T_U64, ir::Builtin::Hash, vec![key]), span);
        Ok(self.local_expr(hash))
    }

    /// How many there are to choose from; None: the instances of a port.
    fn fixed_targets(&mut self, to: &Expr) -> R<Option<u64>> {
        let fixed = if let ExprKind::List(t) = &*to.kind { Some(t.len() as u64) } else { self.way_count(to) };
        if fixed == Some(0) {
            return Err(self.err("E0502", to.span, "there is nothing to choose from"));
        }
        Ok(fixed)
    }

    /// The instance of a port that a hash picks.
    fn instance_by(&mut self, to: &Expr, hash: X, span: Span) -> R<(ir::PortId, X)> {
        let port = self.port_arg(to)?;
        let n = X::new(T_U32, K::PortLen(port));
        self.guard(build::cmp(BinOp::Gt, n.clone(), build::u32(0)), FaultKind::INDEX, span);
        Ok((port, build::cast(T_U32, build::bin(T_U64, BinOp::Rem, hash, build::cast(T_U64, n)))))
    }

    fn steer_fixed(&mut self, value: &Expr, to: &Expr, hash: &X, n: u64, span: Span) -> R<()> {
        let on = build::bin(T_U64, BinOp::Rem, hash.clone(), build::u64(n));
        self.choose(on, n, span, &|s, i| s.send(value, &target(to, i), span))
    }
}

/// One of several targets.
fn target(to: &Expr, i: u64) -> Expr {
    if let ExprKind::List(t) = &*to.kind {
        t[i as usize].clone()
    } else {
        item(to, i)
    }
}
