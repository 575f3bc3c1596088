//! Tests of a program: what they put in, and what they expect.

use crate::{HandlerId, PortId, Span};

#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    pub name: String,
    pub span: Span,
    pub kind: TestKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TestKind {
    /// Run the handler with `On::Test`.
    Code(HandlerId),
    /// A simulated run of the app with these parameters.
    Sim { params: Vec<(String, String)>, steps: Vec<(Span, SimStep)> },
}

/// A place in a simulated run: connection `conn` (0, 1, …) of a listen port, or instance `conn` of
/// a connect port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimPort {
    pub port: PortId,
    pub conn: u32,
}

impl SimPort {
    /// From this number on `conn` counts the connections to a connect port that belong to clients,
    /// so many for each upstream. They are counted in the order in which the program has made them,
    /// whatever their instance.
    pub const OWN: u32 = 1 << 24;

    /// The connection of an upstream with a number.
    pub fn own(port: PortId, upstream: u32, n: u32) -> SimPort {
        SimPort { port, conn: upstream.min(254) * Self::OWN + Self::OWN + n.min(Self::OWN - 1) }
    }

    /// The upstream whose connection it is.
    pub fn upstream(&self) -> Option<u32> {
        (self.conn / Self::OWN).checked_sub(1)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum SimStep {
    /// The world sends these bytes (a client connects with its first step).
    Send(SimPort, Vec<u8>),
    /// The world must see exactly these bytes next.
    See(SimPort, Vec<u8>),
    SeeClosed(SimPort),
    /// Nothing may have been sent.
    SeeNothing(SimPort),
    /// The next line that the program has logged must be this; none: there is none.
    SeeLog(Option<Vec<u8>>),
    Close(SimPort),
    Reset(SimPort),
    /// A backend refuses / accepts connections from now on.
    Refuse(SimPort),
    Accept(SimPort),
    /// ns of virtual time
    Wait(u64),
    /// Runs code of the test: it must end without a fault.
    Run(HandlerId),
    /// Messages that the handler sends through a port come in there.
    Give(HandlerId),
    /// Messages that the handler sends through a port are those that the program must have sent
    /// there next.
    SeeSame(HandlerId),
    /// The next frame that the program has sent must be there, and the handler (an `On::Check`) end
    /// without a fault.
    Check(SimPort, HandlerId),
    /// A `SeeNothing` or `Check`, at the instance of its port to which the handler sends a frame.
    At(HandlerId, Box<SimStep>),
    /// The steps, so many times; `first` sets what counts the rounds (a state), `next` runs behind
    /// each round.
    Repeat {
        first: HandlerId,
        next: HandlerId,
        times: u64,
        steps: Vec<(Span, SimStep)>,
    },
}
