//! The machine that programs are loaded on.

use crate::direct::put_number;
use crate::{kernel, Error};
use wireloom_codegen_c::xdp::XdpSource;

/// Numbers in the place of those of a machine: `WL_SEED` of `support/bpf_tables.h`, and
/// `WL_FIRST_TICK` of `support/bpf.h`.
const SEED: u64 = 0x4ac1_e86d_927f_35b3;
const FIRST_TICK: u64 = 0x73d9_052b_e84f_61ca;

/// Numbers that programs need.
pub struct Machine {
    /// Nanoseconds of a tick, and the tick at which the process's clock was 0.
    tick: u64,
    first_tick: u64,
    /// The secret of hashes.
    seed: u64,
    processors: u64,
}

impl Machine {
    pub fn of(source: &XdpSource) -> Result<Machine, Error> {
        let (tick, first_tick) = if source.timed { kernel::ticks()? } else { (1, 0) };
        Ok(Machine { tick, first_tick, seed: kernel::random()?, processors: kernel::processors().into() })
    }

    /// As macros, for programs that are compiled here.
    pub fn constants(&self) -> [(&'static str, u64); 2] {
        [("WL_TICK", self.tick), ("WL_PROCESSORS", self.processors)]
    }

    /// As constants of programs that were compiled for any machine.
    pub fn globals(&self) -> [(&'static str, u64); 2] {
        [("wl_tick", self.tick), ("wl_processors", self.processors)]
    }

    /// Puts the numbers that differ from run to run into an object.
    pub fn put_into(&self, object: &mut [u8]) {
        put_number(object, SEED, self.seed);
        put_number(object, FIRST_TICK, self.first_tick)
    }
}
