//! Calls in conversations: `call up(m)` sends a message on an upstream and waits for its answer.
//!
//! Which message is the answer, the protocol tells: by `matches`, or by the order of answers (`owes
//! when`, `settles when`). While a handler waits, its own connection's next message waits, too. So
//! no handler may wait for a connection whose messages wait for that handler.

use super::destination::Sink;
use super::Lower;
use crate::compiler::{Compiler, Reported, R, T_U16};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::units::findings::source;
use crate::val::Val;
use ir::{ExprKind as K, On, Peer, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    /// Sends the message of a call on an upstream.
    pub(super) fn ask_upstream(
        &mut self,
        v: &Val,
        (upstream, within): (ir::UpstreamId, Option<&ir::Expr>),
        span: Span,
        at: Span,
    ) -> R<()> {
        let to = Peer::Upstream(upstream);
        let msg = self.message_of(v, span)?;
        let protocol = self.spoken_to(to, msg.unit).ok_or(Reported)?;
        let info = self.cx.protocols[protocol.index()].clone();
        self.same_unit(msg.unit, info.request, span)?;
        let tied = &self.cx.m.protocols[protocol.index()];
        if tied.stray.is_none() && !tied.tells_answers() {
            let name = tied.name.clone();
            let d = Diagnostic::error("E0718", at, format!("`{name}` does not tell which message is the answer"))
                .label("which `down` is awaited?")
                .note("`matches` finds it by its fields; `owes when` and `settles when` by its order")
                .hint("in the protocol: `matches(id = up.id) when down.id == id`");
            return Err(self.cx.report(d));
        }
        let matched = self.in_protocol(info.module, at, vec![("up", v.clone())], |s| s.kept_for_answer(&info))?;
        let msg = self.forwarded(&msg, protocol, false, span)?;
        let protocol = self.of_several(to, protocol);
        self.push(at, StmtKind::Ask { upstream, protocol, msg, within: within.cloned(), matched });
        Ok(())
    }

    /// Issues a call on an upstream and waits; as `issue` does for ports.
    pub(super) fn issue_ask(
        &mut self,
        upstream: ir::UpstreamId,
        msg: &Expr,
        within: Option<&Expr>,
        span: Span,
    ) -> R<(ir::LocalId, ir::UnitId, ir::Expr)> {
        self.in_conversation(span)?;
        let port = self.cx.m.upstreams[upstream.index()].port;
        let within = self.within(port, within)?;
        let from = self.out.len();
        self.calls(msg, &Sink::Ask { upstream, within, span })?;
        let mut units = vec![];
        ir::walk::stmts(&self.out[from..], &mut |s| {
            if let StmtKind::Ask { protocol, .. } = &s.kind {
                let protocol = self.cx.m.spoken(Peer::Upstream(upstream), *protocol);
                units.extend(protocol.and_then(|p| self.cx.m.protocols[p.index()].response));
            }
        });
        let unit = *units.first().ok_or(Reported)?;
        for other in units {
            self.same_unit(other, unit, span)?;
        }
        self.push(span, StmtKind::Await { hold: false, hold_req: false, live: vec![] });
        self.epoch += 1;
        let dst = self.new_local("", &Ty::Msg(unit));
        Ok((dst, unit, ir::Expr::new(T_U16, K::PartStatus(build::u32(0)))))
    }
}

impl Compiler<'_> {
    /// Calls that would wait for their own handler's end, and those whose connection ends first.
    pub fn asks_that_wait_for_themselves(&mut self) {
        let n = self.m.upstreams.len();
        // For each upstream those that the handlers of its messages wait for.
        let mut waits = vec![vec![false; n]; n];
        let mut found = vec![];
        for h in &self.m.handlers {
            let (holds, ends) = (held_by(h.on), matches!(h.on, On::Closed(_)));
            ir::walk::stmts(&h.body.block, &mut |s| {
                let StmtKind::Ask { upstream, .. } = &s.kind else { return };
                if let Some(held) = holds {
                    waits[held.index()][upstream.index()] = true;
                }
                found.push((holds, ends, *upstream, source(s.span)));
            });
        }
        for k in 0..n {
            for i in (0..n).filter(|i| waits[*i][k]).collect::<Vec<_>>() {
                let further = waits[k].clone();
                waits[i].iter_mut().zip(further).for_each(|(waits, more)| *waits |= more);
            }
        }
        for (holds, ends, to, span) in found {
            let name = self.m.upstreams[to.index()].name.clone();
            if ends {
                let d = Diagnostic::error("E0719", span, format!("`{name}` is closed behind this handler"))
                    .label("its answer would never come")
                    .hint(format!("send without waiting: `m -> {name}`"));
                self.once(d);
            }
            let Some(held) = holds.filter(|held| to == *held || waits[to.index()][held.index()]) else { continue };
            let own = self.m.upstreams[held.index()].name.clone();
            let d = if to == held {
                Diagnostic::error("E0719", span, "this handler would wait for itself")
                    .label(format!("the next message of `{own}` waits for this handler's end"))
            } else {
                Diagnostic::error("E0719", span, "these handlers would wait for each other")
                    .label(format!("handlers of `{name}` wait for answers on `{own}`"))
            };
            self.once(d.hint("make the call in a handler of the client's messages"));
        }
    }
}

/// The upstream whose next message waits for the end of a handler.
fn held_by(on: On) -> Option<ir::UpstreamId> {
    match on {
        On::Upstream { upstream, .. } | On::UpstreamOpened(upstream) => Some(upstream),
        On::Piece { upstream, .. } => upstream,
        On::Message { .. }
        | On::Frame { .. }
        | On::Opened(_)
        | On::Greeting(_)
        | On::Probe(_)
        | On::Reset(_)
        | On::Closed(_)
        | On::UpstreamClosed(_)
        | On::Fault
        | On::Start
        | On::End
        | On::Every(_)
        | On::Signal(_)
        | On::Test(_)
        | On::Check { .. } => None,
    }
}
