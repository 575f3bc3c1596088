//! The machine that programs are loaded on.

use crate::{kernel, Error};
use wireloom_codegen_c::xdp::XdpSource;

/// Numbers that programs need.
pub struct Machine {
    /// Nanoseconds of a tick, and the tick at which the monotonic clock was 0.
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
    pub fn constants(&self) -> [(&'static str, u64); 4] {
        self.numbers().map(|(name, _, value)| (name, value))
    }

    /// As constants of programs that were compiled for any machine.
    pub fn globals(&self) -> [(&'static str, u64); 4] {
        self.numbers().map(|(_, name, value)| (name, value))
    }

    fn numbers(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("WL_TICK", "wl_tick", self.tick),
            ("WL_FIRST_TICK", "wl_first_tick", self.first_tick),
            ("WL_SEED", "wl_seed", self.seed),
            ("WL_PROCESSORS", "wl_processors", self.processors),
        ]
    }
}
