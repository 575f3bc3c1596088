//! Conversations: the backend connections that belong to a client's, and the members that messages
//! go to.

use crate::*;

/// A backend connection that belongs to one client's connection: `session up: connection of db`. It
/// ends with the client's, and the client's with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    pub name: String,
    pub span: Span,
    pub port: PortId,
}

/// Most upstreams of a module.
pub const UPSTREAMS_MAX: usize = 16;

impl Module {
    /// The port of a member of a conversation: of clients, the one that listens for them.
    pub fn port_of(&self, peer: Peer) -> Option<PortId> {
        let clients = |p: &Port| {
            let mut protocols = p.protocols.iter().filter_map(|p| self.protocols.get(p.index()));
            matches!(p.kind, desc::PortKind::Listen(_)) && protocols.any(|p| p.sharing == desc::Sharing::Session)
        };
        match peer {
            Peer::Upstream(c) => self.upstreams.get(c.index()).map(|c| c.port),
            Peer::Client => self.ports.iter().position(clients).map(|n| PortId(n as u32)),
        }
    }

    /// The protocols that a member of a conversation may speak. It begins with the first.
    pub fn protocols_of(&self, peer: Peer) -> &[ProtocolId] {
        self.port_of(peer).and_then(|p| self.ports.get(p.index())).map_or(&[], |p| &p.protocols)
    }

    /// A protocol of a member; none is given where its port speaks only one.
    pub fn spoken(&self, peer: Peer, protocol: Option<ProtocolId>) -> Option<ProtocolId> {
        let all = self.protocols_of(peer);
        protocol.map_or(all.first().copied(), |p| all.iter().copied().find(|q| *q == p))
    }

    /// The unit of messages to a member of a conversation.
    pub fn told(&self, to: Peer, protocol: Option<ProtocolId>) -> Option<UnitId> {
        let protocol = self.protocols.get(self.spoken(to, protocol)?.index())?;
        match to {
            Peer::Upstream(_) => Some(protocol.request),
            Peer::Client => protocol.response,
        }
    }
}
