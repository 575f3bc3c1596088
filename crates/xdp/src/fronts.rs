//! Programs in front of handlers' programs: they complete checksums that senders have left to
//! hardware, where an interface has none (`support/bpf_front.h`).

use crate::error::missing;
use crate::kernel::{has_hardware, map_update};
use crate::maps::map_of;
use crate::{Error, Object};
use std::os::fd::{AsFd, AsRawFd};
use wireloom_codegen_c::xdp::XdpSource;

/// Whether the program of a number may have another one in front of it at an interface.
pub fn is_fronted(source: &XdpSource, program_number: usize, interface: &str) -> bool {
    source.programs.get(program_number).is_some_and(|p| p.finished) && !has_hardware(interface)
}

impl Object {
    /// The program that stands at an interface in native mode in the place of another one, and goes
    /// on with that. `None`: none is needed. `Err`: the reason for which it is not there.
    pub(crate) fn front(&self, program_number: usize, interface: &str) -> Option<Result<String, String>> {
        if !is_fronted(self.source(), program_number, interface) {
            return None;
        }
        let front = self.source().programs.get(program_number)?.front();
        let joined = match &self.no_fronts {
            Some(why) => Err(why.clone()),
            None => self.go_on(program_number).map_err(|e| e.to_string()),
        };
        Some(joined.map(|()| front))
    }

    /// Makes a program the one that its front goes on with.
    fn go_on(&self, program_number: usize) -> Result<(), Error> {
        let next = self.descriptor(program_number)?.as_fd().as_raw_fd();
        let map = map_of(&self.ebpf, "wl_next").map_err(|_| missing("wl_next"))?;
        map_update(map, &(program_number as u32).to_ne_bytes(), &next.to_ne_bytes())
            .map_err(|e| Error::System("cannot put programs in a row".into(), e))
    }
}
