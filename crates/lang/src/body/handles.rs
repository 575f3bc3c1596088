//! Handles of other clients: messages to those that a value names, and their ends.

use super::Lower;
use crate::apps::scope::AppName;
use crate::compiler::{Reported, R, T_U64};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::{Val, Vk};
use ir::{ExprKind as K, FaultKind, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    /// The port that an expression names.
    pub fn port_named(&self, e: &Expr) -> Option<ir::PortId> {
        let ExprKind::Name(n) = &*e.kind else { return None };
        self.cx.app.port(&n.name).filter(|_| self.in_app && self.lookup(&n.name).is_none())
    }

    /// In a handler of a conversation, the name of its port is also the client's handle.
    pub fn own_handle(&mut self, port: ir::PortId) -> Option<Val> {
        let talks = self.handler.is_some_and(|h| h.port == port && self.cx.is_session(h.protocol));
        if !talks || self.kind != super::Kind::Handler {
            return None;
        }
        self.impure = true;
        Some(Val::pure(Ty::Handle, ir::Expr::new(T_U64, K::ConnHandle)))
    }

    /// The handles that a message goes to. None: the target is no value, but a port.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn handles(&mut self, to: &Expr) -> R<Option<ir::Expr>> {
        let place = match &*to.kind {
            ExprKind::Index(of, _) => of,
            _ => to,
        };
        let is_port = match &*place.kind {
            ExprKind::Name(n) => {
                self.lookup(&n.name).is_none() && (self.names_port(&n.name) || !self.is_value(&n.name))
            }
            _ => false,
        };
        if is_port || !self.in_app || self.cx.conversation_port().is_none() {
            return Ok(None);
        }
        let v = self.expr(to, None)?;
        let v = self.defined(v, to.span)?;
        let names = match &v.ty {
            Ty::List(t, _) => **t == Ty::Handle,
            t => *t == Ty::Handle,
        };
        match v.kind {
            _ if v.ty.is_error() => Err(Reported),
            Vk::Pure(e) if names => {
                if matches!(&*e.kind, K::Local(_)) {
                    return Ok(Some(e));
                }
                let kept = self.temp("", &v.ty, e, to.span);
                Ok(Some(self.local_expr(kept)))
            }
            Vk::Pure(_) | Vk::Path(_) | Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => {
                let s = self.show(&v.ty);
                let d = Diagnostic::error("E0301", to.span, format!("messages go to ports and clients, not to {s}"))
                    .label(format!("this is {s}"))
                    .hint("a client is named by a handle: `connection of client`, or a list of them");
                Err(self.cx.report(d))
            }
        }
    }

    fn names_port(&self, name: &str) -> bool {
        self.cx.app.port(name).is_some()
    }

    /// Whether an app's name is a value.
    fn is_value(&self, name: &str) -> bool {
        matches!(
            self.cx.app.get(name),
            Some(AppName::State(..) | AppName::Session(..) | AppName::Table(_) | AppName::Fn(_))
        )
    }

    /// `m -> handle`
    pub fn deliver_to(&mut self, v: &Val, to: &ir::Expr, span: Span, at: Span) -> R<()> {
        self.impure = true;
        let msg = self.message_of(v, span)?;
        let protocol = self.spoken_to(ir::Peer::Client, msg.unit).ok_or(Reported)?;
        let unit = self.cx.protocols[protocol.index()].response.ok_or(Reported)?;
        self.same_unit(msg.unit, unit, span)?;
        if ir::grammar::tail::natural_rule(&self.cx.m, unit) == ir::grammar::Rule::Streams {
            let d = Diagnostic::error("E0698", span, "a message that streams cannot be sent to other clients")
                .label("its end may not be here yet")
                .hint("bound its parts in the unit: `data: bytes<64KiB> [size]`, not `stream`");
            return Err(self.cx.report(d));
        }
        if !self.cx.m.protocols[protocol.index()].response_args.is_empty() {
            let d = Diagnostic::error(
                "E0698",
                span,
                "messages of this protocol depend on what their conversation remembers",
            )
            .label("another client's is not known here")
            .hint("a message `down` that is sent to handles has no parameters");
            return Err(self.cx.report(d));
        }
        let msg = self.forwarded(&msg, protocol, true, span)?;
        let place = self.place_id(at);
        let protocol = self.of_several(ir::Peer::Client, protocol);
        self.push(at, StmtKind::Deliver { to: to.clone(), protocol, msg, place });
        Ok(())
    }

    /// `xs.added(x)`: the list with one item more; `xs.without(x)`: without those that equal it.
    pub fn changed_list(&mut self, list: (ir::Expr, Ty, u32), item: &Expr, adds: bool, span: Span) -> R<Val> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let (e, of, max) = list;
        let item = self.expr_as(item, &of)?;
        let item = self.temp("", &of, item, span);
        let item = self.local_expr(item);
        let ty = Ty::List(Box::new(of.clone()), max);
        let old = self.temp("", &ty, e, span);
        let old = self.local_expr(old);
        if adds {
            let len = ir::Expr::new(crate::compiler::T_U32, K::ListLen(old.clone()));
            self.guard(build::cmp(ir::BinOp::Lt, len, build::u32(max)), FaultKind::FULL, span);
            let K::Local(l) = &*old.kind else { return Err(Reported) };
            self.bounds.remove(l);
            self.push(span, StmtKind::Push(*l, item));
            return Ok(Val::pure(ty, old));
        }
        self.kept_items((old, of, max), item, span)
    }
}
