//! Frames that programs have sent to another interface, and that it does not take.
//!
//! In: the maps of interfaces of a loaded object. Out: the number of such frames, by [`Unsent`]. A
//! program at a tracepoint of the kernel counts them (`support/bpf_redirects.h`).

use crate::error::missing;
use crate::kernel::map_update;
use crate::maps::map_of;
use crate::programs::counter;
use crate::{Error, Object};
use aya::maps::Map;
use std::fmt;
use std::io;
use wireloom_codegen_c::xdp::UNSENT;

/// The reason for which an interface takes no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    NoRedirects,
    OverMtu,
    Down,
    Other,
}

impl Unsent {
    /// In the order in which the kernel's program counts them.
    pub const ALL: [Unsent; 4] = [Unsent::NoRedirects, Unsent::OverMtu, Unsent::Down, Unsent::Other];
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Unsent::NoRedirects => {
                "it takes none from XDP (a veth does if both ends are up, and GRO is then turned on at the other \
                 end: `ethtool -K IF gro off`, then `gro on`)"
            }
            Unsent::OverMtu => {
                "they are longer than its MTU (segments of TCP: `ethtool -K IF gro off tso off gso off`)"
            }
            Unsent::Down => "it is down",
            Unsent::Other => "the kernel refuses them",
        })
    }
}

impl Object {
    /// Begins to count frames that interfaces do not take.
    pub fn count_unsent(&mut self) -> Result<(), Error> {
        let number = |map: &Map| match map {
            Map::DevMap(data) => data.info().ok().map(|i| i.id()),
            _ => None,
        };
        let ways: Vec<u32> = self.ebpf.maps().filter_map(|(_, map)| number(map)).collect();
        let fail =
            |e: &dyn fmt::Display| Error::System("cannot count lost frames".into(), io::Error::other(e.to_string()));
        let map = map_of(&self.ebpf, "wl_ways").map_err(|e| fail(&e))?;
        for (place, way) in (0u32..).zip(ways) {
            map_update(map, &place.to_ne_bytes(), &way.to_ne_bytes()).map_err(|e| fail(&e))?;
        }
        let program = counter(&mut self.ebpf).ok_or_else(|| missing("wl_unsent"))?;
        program.attach("xdp_redirect_err").map(drop).map_err(|e| fail(&e))
    }

    /// Frames that an interface has not taken, by the reason; they are among those of
    /// `Verdict::Redirect`.
    pub fn unsent(&self) -> [u64; 4] {
        std::array::from_fn(|n| self.sum(UNSENT + n))
    }
}
