//! State of a body that is being printed for XDP.

use wireloom_ir::PortId;

/// Where the programs of a file send frames to.
#[derive(Default)]
pub(crate) struct Ways {
    /// Places of the map `wl_ports`: all instances of a port stand one behind the other.
    pub ports: Vec<(PortId, u32)>,
    pub broadcasts: Vec<PortId>,
}

/// Of a body that is printed for XDP.
#[derive(Default)]
pub(crate) struct XdpBody {
    /// The port whose frames the program handles.
    pub port: Option<PortId>,
    pub ways: Ways,
    /// Names that were given to temporary values.
    pub temps: u32,
}
