//! The events that handlers are for.

use crate::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Message {
        port: PortId,
        protocol: ProtocolId,
    },
    /// A frame on a frame port; local 0 is the frame (a `Msg` of this unit).
    Frame {
        port: PortId,
        unit: UnitId,
    },
    Opened(PortId),
    /// A connection of a connecting port is there: the reply, of the protocol's request unit, is
    /// sent on it before all else.
    Greeting(PortId),
    /// A backend of a connecting port is down: the reply, of the protocol's request unit, is sent
    /// to it on a connection of its own. An answer brings it back.
    Probe(PortId),
    /// A session of a connecting port goes back to its pool: the reply, of the protocol's request
    /// unit, is sent on it. Its answers reset the session.
    Reset(PortId),
    Closed(PortId),
    /// A piece of the streamed bytes of a message of a port: a request where it listens, an answer
    /// where it connects. Local 0 is the message, whose streamed bytes ([`ExprKind::Held`]) are the
    /// piece. With a stream, a field of the message's unit, it is an item of that stream of units.
    Piece {
        port: PortId,
        protocol: ProtocolId,
        /// Whose messages they are, where connections of the port belong to clients.
        upstream: Option<UpstreamId>,
        stream: Option<FieldId>,
    },
    /// A message on an upstream of a client's conversation; local 0 is the message. The protocol is
    /// as in [`StmtKind::Tell`].
    Upstream {
        upstream: UpstreamId,
        protocol: Option<ProtocolId>,
    },
    UpstreamOpened(UpstreamId),
    UpstreamClosed(UpstreamId),
    Fault,
    Start,
    /// On every core, when all messages, packets and timers are done.
    End,
    /// ns
    Every(u64),
    /// A call from the control interface; index in [`Module::signals`].
    Signal(u32),
    /// Code of a `test` block; index in `Module::tests`. Runs like `Start`; fails by fault
    /// `EXPECT`.
    Test(u32),
    /// A condition on a frame that a test has received: local 0 is the frame. Fails by fault
    /// `EXPECT`.
    Check {
        test: u32,
        unit: UnitId,
    },
}

impl On {
    /// Of connections: their messages, their openings and ends.
    pub fn is_of_connections(&self) -> bool {
        match self {
            On::Message { .. }
            | On::Piece { .. }
            | On::Opened(_)
            | On::Greeting(_)
            | On::Probe(_)
            | On::Reset(_)
            | On::Closed(_)
            | On::Upstream { .. }
            | On::UpstreamOpened(_)
            | On::UpstreamClosed(_) => true,
            On::Frame { .. }
            | On::Fault
            | On::Start
            | On::End
            | On::Every(_)
            | On::Signal(_)
            | On::Test(_)
            | On::Check { .. } => false,
        }
    }

    /// Part of a `test` block; such handlers come last.
    pub fn is_test(&self) -> bool {
        matches!(self, On::Test(_) | On::Check { .. })
    }

    /// The unit of local 0, if that is a frame.
    pub fn frame_unit(&self) -> Option<UnitId> {
        match self {
            On::Frame { unit, .. } | On::Check { unit, .. } => Some(*unit),
            On::Message { .. } | On::Opened(_) | On::Closed(_) | On::Greeting(_) | On::Probe(_) | On::Reset(_) => None,
            On::Signal(_) | On::Piece { .. } => None,
            On::Upstream { .. } | On::UpstreamOpened(_) | On::UpstreamClosed(_) => None,
            On::Fault | On::Start | On::End | On::Every(_) | On::Test(_) => None,
        }
    }

    /// The port that it handles the packets of.
    pub fn frame_port(&self) -> Option<PortId> {
        match self {
            On::Frame { port, .. } => Some(*port),
            On::Message { .. } | On::Opened(_) | On::Closed(_) | On::Greeting(_) | On::Probe(_) | On::Reset(_) => None,
            On::Signal(_) | On::Piece { .. } => None,
            On::Upstream { .. } | On::UpstreamOpened(_) | On::UpstreamClosed(_) => None,
            On::Fault | On::Start | On::End | On::Every(_) | On::Test(_) | On::Check { .. } => None,
        }
    }
}

impl Module {
    /// The message of a handler of connections, local 0: its protocol and its unit.
    pub fn message_of(&self, on: On) -> Option<(ProtocolId, UnitId)> {
        let unit = |p: ProtocolId, of: fn(&Protocol) -> Option<UnitId>| Some((p, of(self.protocols.get(p.index())?)?));
        match on {
            On::Message { protocol, .. } => unit(protocol, |p| Some(p.request)),
            On::Piece { port, protocol, .. } => match self.ports.get(port.index())?.kind {
                desc::PortKind::Listen(_) => unit(protocol, |p| Some(p.request)),
                desc::PortKind::Connect(_) | desc::PortKind::Frames { .. } => unit(protocol, |p| p.response),
            },
            On::Upstream { upstream, protocol } => {
                unit(self.spoken(Peer::Upstream(upstream), protocol)?, |p| p.response)
            }
            On::Opened(_) | On::Closed(_) | On::Greeting(_) | On::Probe(_) | On::Reset(_) | On::Signal(_) => None,
            On::UpstreamOpened(_) | On::UpstreamClosed(_) | On::Frame { .. } | On::Check { .. } => None,
            On::Fault | On::Start | On::End | On::Every(_) | On::Test(_) => None,
        }
    }

    /// The streams of a message's unit whose items have handlers, in the order of its fields. A
    /// parser names them by their place here, counted from 1.
    pub fn item_streams(&self, unit: UnitId) -> Vec<FieldId> {
        let of = |h: &Handler| match h.on {
            On::Piece { stream, .. } if self.message_of(h.on).is_some_and(|(_, u)| u == unit) => stream,
            On::Message { .. } | On::Frame { .. } | On::Opened(_) | On::Greeting(_) | On::Probe(_) => None,
            On::Reset(_) | On::Closed(_) | On::Piece { .. } | On::Upstream { .. } | On::UpstreamOpened(_) => None,
            On::UpstreamClosed(_) | On::Fault | On::Start | On::End | On::Every(_) | On::Signal(_) => None,
            On::Test(_) | On::Check { .. } => None,
        };
        let all: std::collections::BTreeSet<u32> = self.handlers.iter().filter_map(of).map(|f| f.0).collect();
        all.into_iter().map(FieldId).collect()
    }

    /// The number of a stream of units among those whose items have handlers; 0: it is none.
    pub fn stream_number(&self, unit: UnitId, stream: FieldId) -> u32 {
        self.item_streams(unit).iter().position(|f| *f == stream).map_or(0, |n| n as u32 + 1)
    }
}
