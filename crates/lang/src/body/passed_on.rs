//! Messages that have gone on, or been read, before a point of a handler. A packet that was dropped
//! is not sent. The rest of a message that streams goes on once.

use super::destination::Sink;
use super::{HandlerCtx, Lower};
use crate::compiler::R;
use crate::ty::Ty;
use crate::val::{OutKind, Val, Vk};
use ir::LocalId;
use std::collections::HashMap;
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;
use wireloom_syntax::Diagnostic;

/// The end of a message on some way to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passed {
    /// `drop p`
    Dropped,
    /// `call p(m)`, `m -> p`
    Sent,
    /// `m.wait()`
    Read,
}

/// Where that was.
pub type PassedOn = HashMap<(LocalId, Passed), Span>;

impl Lower<'_, '_> {
    /// A message goes to a server or to the client. Its rest must be there still.
    pub(super) fn goes_on(&mut self, v: &Val, sink: &Sink, span: Span) -> R<()> {
        let Some((msg, unit)) = whole_message(v) else { return Ok(()) };
        let Some(handler) = self.handler.filter(|h| h.req == msg && !h.greeting) else { return Ok(()) };
        if !self.cx.has_streams(unit) || self.cx.m.ports[handler.port.index()].options.hold_body > 0 {
            return Ok(());
        }
        if let Some(at) = self.passed.get(&(msg, Passed::Read)) {
            let d = Diagnostic::error("E0664", span, "this message has been waited for: its rest is read")
                .also(*at, "read here")
                .hint("answer with a message of the program's own, or let the pieces flow without `wait`");
            return Err(self.cx.report(d));
        }
        let at = match sink {
            Sink::Call { span, .. } | Sink::Send { span, .. } | Sink::Tell { span, .. } | Sink::Ask { span, .. } => {
                *span
            }
            Sink::Reply { .. } | Sink::Deliver { .. } | Sink::Queue { .. } | Sink::Check { .. } => return Ok(()),
        };
        if let Some(first) = self.passed.insert((msg, Passed::Sent), at) {
            let d = Diagnostic::warning("W0909", span, "the rest of this message may have gone on before")
                .also(first, "sent here first")
                .hint("`hold_body 64KiB else pass` on its port keeps the bytes of short ones");
            self.cx.report(d);
        }
        Ok(())
    }

    /// The calls at this place go to several servers. Of pipelined protocols few requests have
    /// streams, and those are not for all servers.
    pub(super) fn goes_to_several(&mut self, span: Span) {
        let Some(HandlerCtx { req, protocol, .. }) = self.handler else { return };
        let exclusive = self.cx.m.protocols[protocol.index()].sharing == ir::desc::Sharing::Exclusive;
        if exclusive && self.passed.get(&(req, Passed::Sent)) == Some(&span) {
            let d = Diagnostic::warning("W0909", span, "the rest of this message goes to one server only")
                .hint("`hold_body 64KiB else pass` on its port keeps the bytes of short ones");
            self.cx.report(d);
        }
    }
}

/// A message that has been read, and its unit, if the value is that as a whole or with edits.
fn whole_message(v: &Val) -> Option<(LocalId, ir::UnitId)> {
    match (&v.ty, &v.kind) {
        (_, Vk::Out(o)) => match &o.kind {
            OutKind::Pass { msg, .. } => Some((*msg, o.unit)),
            OutKind::Built(_) | OutKind::Inner => None,
        },
        (Ty::Msg(u), Vk::Path(ir::Path { root: ir::Root::Local(l), steps })) if steps.is_empty() => Some((*l, *u)),
        _ => None,
    }
}
