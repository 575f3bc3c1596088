//! Connections of a conversation that change their protocol, in handlers: `become`, `hold`.

use super::Lower;
use crate::compiler::{Reported, R};
use ir::{Peer, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Path, Span};
use wireloom_syntax::Diagnostic;

/// The message at hand, in a handler of a conversation, and the upstreams that were opened for it.
#[derive(Clone, Default)]
pub struct Talk {
    pub came_on: Option<Peer>,
    pub protocol: Option<ir::ProtocolId>,
    pub opened: Vec<ir::UpstreamId>,
}

impl Lower<'_, '_> {
    /// `become websocket for client, up with rest`
    pub fn become_protocol(&mut self, named: &Path, (members, rest): (&[Expr], bool), span: Span) -> R<()> {
        self.in_conversation(span)?;
        let id = self.cx.path_item(self.module, named, "protocol")?;
        let crate::items::Item::Protocol(protocol) = self.cx.item(id, named.span)? else {
            return Err(self.err("E0612", named.span, "this is no protocol"));
        };
        let all = match members {
            [] => vec![(self.at_hand(span)?, named.span)],
            some => some.iter().map(|e| Ok((self.member_named(e)?, e.span))).collect::<R<_>>()?,
        };
        for (i, (member, at)) in all.iter().enumerate() {
            if all[..i].iter().any(|(m, _)| m == member) {
                return Err(self.err("E0699", *at, "this connection is listed twice"));
            }
            self.may_become(*member, protocol, *at)?;
            let fresh = matches!(member, Peer::Upstream(u) if self.talk.opened.contains(u));
            if self.talk.came_on != Some(*member) && !fresh {
                self.cx.holds.needed.push((*member, *at));
            }
        }
        let place = self.place_id(span);
        for (member, _) in &all {
            self.push(span, StmtKind::Become { member: *member, protocol, rest, place });
        }
        self.begin_sessions(protocol, span);
        Ok(())
    }

    /// `hold client`, `release client`
    pub fn hold(&mut self, e: &Expr, on: bool, span: Span) -> R<()> {
        self.in_conversation(span)?;
        let member = self.member_named(e)?;
        if on {
            self.cx.holds.there.push(member);
        }
        self.push(span, if on { StmtKind::Hold(member) } else { StmtKind::Release(member) });
        Ok(())
    }

    /// The connection of the message at hand.
    fn at_hand(&mut self, span: Span) -> R<Peer> {
        match self.talk.came_on {
            Some(member) => Ok(member),
            None => {
                let d = Diagnostic::error("E0699", span, "no message is at hand behind which a protocol could change")
                    .label("which connection?")
                    .hint("in the handler of a message, or with a name: `become P for client`");
                Err(self.cx.report(d))
            }
        }
    }

    /// The member of the conversation that a name means.
    fn member_named(&mut self, e: &Expr) -> R<Peer> {
        if let Some(upstream) = self.upstream_named(e) {
            return Ok(Peer::Upstream(upstream));
        }
        let clients = self.cx.conversation_port().map(|(port, _)| port);
        if self.port_named(e).is_some_and(|p| Some(p) == clients) {
            return Ok(Peer::Client);
        }
        if matches!(&*e.kind, ExprKind::Error) {
            return Err(Reported);
        }
        let d = Diagnostic::error("E0699", e.span, "this is no connection of the conversation")
            .label("neither the client nor a connection that its session keeps")
            .hint("name the listening port, or a `session up: connection of db`");
        Err(self.cx.report(d))
    }

    /// A port says which protocols its connections may become.
    fn may_become(&mut self, member: Peer, protocol: ir::ProtocolId, at: Span) -> R<()> {
        if self.cx.m.protocols_of(member).contains(&protocol) {
            return Ok(());
        }
        let name = self.cx.m.protocols[protocol.index()].name.clone();
        let port = self.cx.m.port_of(member).map(|p| self.cx.m.ports[p.index()].name.clone()).unwrap_or_default();
        let d = Diagnostic::error("E0699", at, format!("connections of `{port}` do not become `{name}`"))
            .label("its port does not say so")
            .hint(format!("declare it: `port {port} = … as … then {}`", self.cx.written(self.module, &name)));
        Err(self.cx.report(d))
    }

    /// A conversation remembers nothing of a protocol that begins.
    fn begin_sessions(&mut self, protocol: ir::ProtocolId, span: Span) {
        for (_, id, ty) in self.cx.protocols[protocol.index()].sessions.clone() {
            let zero = self.zero(&ty);
            self.push(span, StmtKind::SetSession(id, zero));
        }
    }

    /// The protocol of a message to a member, by its unit. That of the message at hand goes first.
    pub fn spoken_to(&self, to: Peer, unit: ir::UnitId) -> Option<ir::ProtocolId> {
        let all = self.cx.m.protocols_of(to);
        let fits = |p: &ir::ProtocolId| {
            let info = &self.cx.protocols[p.index()];
            let sent = if to == Peer::Client { info.response } else { Some(info.request) };
            sent == Some(unit)
        };
        let here = self.talk.protocol.filter(|p| all.contains(p) && fits(p));
        here.or_else(|| all.iter().copied().find(fits)).or_else(|| all.first().copied())
    }

    /// A protocol as statements have it: none where the port speaks only one.
    pub fn of_several(&self, to: Peer, protocol: ir::ProtocolId) -> Option<ir::ProtocolId> {
        (self.cx.m.protocols_of(to).len() > 1).then_some(protocol)
    }
}

impl crate::compiler::Compiler<'_> {
    /// A connection whose message is not at hand must be on hold when its protocol changes.
    pub fn check_holds(&mut self) {
        let holds = std::mem::take(&mut self.holds);
        for (member, at) in holds.needed {
            if holds.there.contains(&member) {
                continue;
            }
            let name = match member {
                Peer::Client => self.m.port_of(member).map(|p| self.m.ports[p.index()].name.clone()),
                Peer::Upstream(u) => self.m.upstreams.get(u.index()).map(|u| u.name.clone()),
            };
            let name = name.unwrap_or_default();
            let d = Diagnostic::error("E0699", at, format!("`{name}` is read on while its protocol is to change"))
                .label("its next message may have been read already")
                .note("bytes behind the last message of the old protocol would be read in the old one")
                .hint(format!("write `hold {name}` where it sends the message that asks for the change"));
            self.report(d);
        }
    }
}
