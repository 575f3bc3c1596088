//! State of a body that is being printed for XDP.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wireloom_ir::{Block, PortId};

/// An instance of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    pub port: u16,
    pub instance: u16,
}

impl Target {
    /// The handler of the frame's own port: `WL_OWN` of `support/bpf.h`.
    pub const OWN: Target = Target { port: u16::MAX, instance: 0 };
}

/// Where the programs of a file send frames to.
#[derive(Default)]
pub(crate) struct Ways {
    /// Places of the map `wl_ports`: all instances of a port stand one behind the other.
    pub ports: Vec<(PortId, u32)>,
    pub broadcasts: Vec<PortId>,
    /// Where the process is to send frames. `None`: it depends on the frame.
    pub process: BTreeSet<Option<Target>>,
    /// Bytes of the largest entry of a queue there. `None`: all frames go there whole, with nothing
    /// beside them.
    pub entry: Option<u32>,
}

/// Of a body that is printed for XDP.
#[derive(Default)]
pub(crate) struct XdpBody<'m> {
    /// The name of the program or function, and its code: parts of it become functions.
    pub name: String,
    pub whole: Option<&'m Block>,
    pub parts: u32,
    pub functions: String,
    /// The declaration that leads to locals in memory, if they lie there.
    pub far: String,
    /// The code at hand is such a part of a part …
    pub depth: usize,
    /// There it has no frame.
    pub frameless: bool,
    /// The next loop is the body of a part.
    pub inside: bool,
    /// The port whose frames the program handles.
    pub port: Option<PortId>,
    pub ways: Ways,
    /// Names that were given to temporary values.
    pub temps: u32,
}
