//! State of a body that is being printed for XDP.

use super::Target;
use std::collections::BTreeSet;
use wireloom_ir::{Block, PortId};

/// Where the programs of a file send frames to.
#[derive(Default)]
pub(crate) struct Ways {
    /// Places of the map `wl_ports`: all instances of a port stand one behind the other.
    pub ports: Vec<(PortId, u32)>,
    pub broadcasts: Vec<PortId>,
    /// Where the process is to send frames. `None`: it depends on the frame.
    pub process: BTreeSet<Option<Target>>,
}

/// Of a body that is printed for XDP.
#[derive(Default)]
pub(crate) struct XdpBody<'m> {
    /// The name of the program or function, and its code: parts of it become functions.
    pub name: String,
    pub whole: Option<&'m Block>,
    pub parts: u32,
    pub functions: String,
    /// The code at hand is such a part of a part …: there is no frame.
    pub depth: usize,
    /// The next loop is the body of a part.
    pub inside: bool,
    /// The port whose frames the program handles.
    pub port: Option<PortId>,
    pub ways: Ways,
    /// Names that were given to temporary values.
    pub temps: u32,
}
