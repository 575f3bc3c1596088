//! The program's function that hashes the names of a ring's points, outside of any core.

use super::Program;
use crate::abi::*;
use crate::large_pages::{first_line, placed};

/// A core of its own, on which nothing else runs. It has no ports, tables or state.
pub struct PointHash<'a> {
    program: &'a Program,
    point: PointFn,
    core: wl_core,
    _host: Box<wl_host>,
    _state: Box<[u64]>,
    _out: Vec<u8>,
}

impl<'a> PointHash<'a> {
    /// None: the program has no such function. `params` outlives it.
    pub fn of(program: &'a Program, params: &'a [wl_param]) -> Option<PointHash<'a>> {
        let t = program.table();
        let point = t.point?;
        let (host, mut out) = (Box::new(wl_host::without_connections()), vec![0u8; 4096]);
        let mut state = placed(t.state_size as usize);
        let core = wl_core {
            state: first_line(&mut state).cast(),
            param: params.as_ptr(),
            ..wl_core::of(&host, t.self_, wl_out::of(&mut out))
        };
        Some(PointHash { program, point, core, _host: host, _state: state, _out: out })
    }

    /// The hash of a name, for a port's ring.
    pub fn hash(&mut self, port: usize, name: &str) -> u32 {
        let this = self.program.table().self_;
        // SAFETY: the program's own function, on a core with its parameters and memory.
        unsafe { (self.point)(this, &mut self.core, port as u32, wl_bytes::of(name.as_bytes())) }
    }
}
