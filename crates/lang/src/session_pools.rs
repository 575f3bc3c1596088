//! Pools of sessions: the clauses by which a protocol resets a session, and the uses of pools in
//! handlers.

use crate::body::Lower;
use crate::compiler::{Compiler, R};
use crate::names::ModId;
use crate::ty::{T_U32, U32};
use crate::units::findings::source;
use crate::val::Val;
use ir::{Expr as X, ExprKind as K, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, ClauseKind, Expr, FlagKind, Span};
use wireloom_syntax::Diagnostic;

const CODE: &str = "E0700";

impl Compiler<'_> {
    /// `on reset`: what a server is sent before another client gets the session.
    pub fn on_reset(&mut self, module: ModId, id: ir::ProtocolId, body: &ast::Block, span: Span) -> R<()> {
        if !self.is_session(id) {
            let d = Diagnostic::error(CODE, span, "this protocol has no sessions that could be reset")
                .hint("sessions are of protocols with `up`, `down` and `sharing session`");
            return Err(self.report(d));
        }
        if self.protocols[id.index()].reset.is_some() {
            return Err(self.error("E0612", span, "this is said twice"));
        }
        let body = self.first_words(module, id, ("reset", body), span)?;
        self.protocols[id.index()].reset = Some(body);
        Ok(())
    }

    /// A protocol that resets sessions says how, and how it is known.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn resets_wholly(&mut self, id: ir::ProtocolId, p: &ast::Protocol) {
        let of_reset = |c: &ast::Clause| match &c.kind {
            ClauseKind::OnReset { .. } => true,
            ClauseKind::Flag { flag, .. } => *flag == FlagKind::Reset,
            _ => false,
        };
        let of_answers = |c: &ast::Clause| {
            matches!(&c.kind, ClauseKind::Flag { flag: FlagKind::Owes | FlagKind::Unfinished | FlagKind::Settles, .. })
        };
        if let (Some(c), false) = (p.clauses.iter().find(|c| of_answers(c)), self.is_session(id)) {
            let d = Diagnostic::error(CODE, c.span, "this protocol has no sessions whose answers could be counted")
                .hint("sessions are of protocols with `up`, `down` and `sharing session`");
            self.report(d);
            return;
        }
        let resets = p.clauses.iter().find(|c| of_reset(c));
        let replies = p.clauses.iter().any(|c| matches!(c.kind, ClauseKind::OnReset { .. }));
        if replies && !self.is_session(id) {
            // That has been said.
            return;
        }
        let Some(one) = resets.or(p.clauses.iter().find(|c| of_answers(c))) else { return };
        let written = |flag| {
            let all = &mut p.clauses.iter();
            all.any(|c| matches!(&c.kind, ClauseKind::Flag { flag: f, .. } if *f == flag))
        };
        let missing = if resets.is_some() && !replies {
            "on reset { reply … }"
        } else if resets.is_some() && !written(FlagKind::Reset) {
            "reset when …"
        } else if !written(FlagKind::Idle) {
            "idle when …"
        } else if !written(FlagKind::Owes) {
            "owes when …"
        } else {
            // Without a word about it, an idle message ends an answer.
            let p = &mut self.m.protocols[id.index()];
            p.settles = p.settles.take().or_else(|| p.idle.clone());
            return;
        };
        let name = self.m.protocols[id.index()].name.clone();
        let (what, together) = match resets {
            Some(_) => {
                ("how its sessions are reset", "`on reset`, `reset when`, `idle when` and `owes when` stand together")
            }
            None if written(FlagKind::Owes) => {
                ("when it owes no answer any more", "`owes when` and `idle when` stand together")
            }
            None => ("which answers its messages owe", "`owes when` and `idle when` stand together"),
        };
        let d = Diagnostic::error(CODE, one.span, format!("`{name}` does not say {what}"))
            .label(format!("`{missing}` is missing"))
            .hint(together);
        self.report(d);
    }

    /// Connecting ports have the reset of their protocol.
    pub fn protocols_resets(&mut self) {
        for i in 0..self.m.ports.len() {
            let (p, port) = (ir::PortId(i as u32), &self.m.ports[i]);
            let (ir::desc::PortKind::Connect(_), Some(protocol)) = (&port.kind, port.protocols.first()) else {
                continue;
            };
            let Some(body) = self.protocols[protocol.index()].reset.clone() else { continue };
            let (name, span) = (format!("{}.reset", port.name), source(port.span));
            self.add_handler(&name, ir::On::Reset(p), span, body);
        }
    }

    /// Whether sessions of a port can be in pools.
    fn resets(&self, port: ir::PortId) -> bool {
        let protocol = self.m.ports[port.index()].protocols.first();
        protocol.is_some_and(|p| self.protocols[p.index()].reset.is_some())
    }
}

impl Lower<'_, '_> {
    pub fn has_pools(&mut self, port: ir::PortId, span: Span) -> R<()> {
        if self.cx.resets(port) {
            return Ok(());
        }
        let name = self.cx.m.ports[port.index()].name.clone();
        let d = Diagnostic::error(CODE, span, format!("sessions of `{name}` are in no pool"))
            .label("its protocol does not say how a session is reset")
            .hint("in the protocol: `on reset { reply … }`, `reset when …`, `idle when …`, `owes when …`");
        Err(self.cx.report(d))
    }

    /// `pool up for key`
    pub fn pool_upstream(&mut self, place: &Expr, key: &Expr, span: Span) -> R<()> {
        let Some(upstream) = self.upstream_named(place) else {
            let d = Diagnostic::error(CODE, place.span, "only a client's connection to a server goes to a pool")
                .hint("declare it: `session up: connection of db`");
            return Err(self.cx.report(d));
        };
        self.in_conversation(span)?;
        if self.talk.came_on != Some(ir::Peer::Upstream(upstream)) {
            let name = self.cx.m.upstreams[upstream.index()].name.clone();
            let d = Diagnostic::error(CODE, span, format!("whether the session of `{name}` is idle is not known here"))
                .label("its server's messages say so")
                .hint(format!("in their handler: `on {name}(m) {{ … pool {name} for key }}`"));
            return Err(self.cx.report(d));
        }
        self.has_pools(self.cx.m.upstreams[upstream.index()].port, span)?;
        let key = self.bytes_arg(key)?;
        self.push(span, StmtKind::PoolUpstream { upstream, key });
        Ok(())
    }

    /// `pooled(db, i, key)`
    pub fn pooled(&mut self, port: &Expr, index: &Expr, key: &Expr) -> R<Val> {
        let p = self.port_arg(port)?;
        self.has_pools(p, port.span)?;
        let i = self.index_value(index)?;
        self.index_fits(index, &i, self.cx.app.instances(p), "instances")?;
        let i = self.recast(T_U32, i);
        let key = self.bytes_arg(key)?;
        self.impure = true;
        Ok(Val::pure(U32, X::new(T_U32, K::Pooled { port: p, index: i, key })))
    }

    /// `up.id`, `up.instance`, `up.owed`: facts about an upstream.
    pub fn upstream_field(&mut self, upstream: ir::UpstreamId, name: &ast::Ident) -> R<Val> {
        self.in_conversation(name.span)?;
        let fact = match name.name.as_str() {
            "id" => ir::UpstreamFact::Id,
            "instance" => ir::UpstreamFact::Instance,
            "owed" => ir::UpstreamFact::Owed,
            other => {
                let text = format!("a connection to a server has `id`, `instance` and `owed`, no `{other}`");
                return Err(self.err("E0201", name.span, text));
            }
        };
        if fact == ir::UpstreamFact::Owed {
            self.counts_owed(upstream, name.span)?;
        }
        let t = self.cx.lower_ty(&crate::ty::U64);
        let value = X::new(t, K::UpstreamFact(upstream, fact));
        if fact == ir::UpstreamFact::Id {
            return Ok(Val::pure(crate::ty::U64, value));
        }
        Ok(Val::pure(U32, X::new(T_U32, K::Cast(value))))
    }

    /// `up.owed` is of protocols that say which messages owe an answer.
    fn counts_owed(&mut self, upstream: ir::UpstreamId, span: Span) -> R<()> {
        let port = &self.cx.m.ports[self.cx.m.upstreams[upstream.index()].port.index()];
        if port.protocols.iter().any(|p| self.cx.m.protocols[p.index()].owes.is_some()) {
            return Ok(());
        }
        let d = Diagnostic::error(CODE, span, format!("the answers of `{}` are not counted", port.name))
            .label("its protocol does not say which messages owe one")
            .hint("in the protocol: `owes when …`, `idle when …`");
        Err(self.cx.report(d))
    }
}
