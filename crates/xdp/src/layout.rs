//! The state of a processor in memory.

use wireloom_codegen_c::xdp::{XdpSource, COUNTERS, STATISTICS};

/// The word of a processor's state at which the statistics of tables begin.
pub fn words_of_tables(source: &XdpSource) -> usize {
    COUNTERS + source.counters.max(1) + source.faults
}

/// Bytes of a processor's state up to the values of the app, rounded up: the kernel tells the rest.
pub fn core_size(source: &XdpSource) -> usize {
    let words = words_of_tables(source) + source.tables.len().max(1) * STATISTICS + source.places * source.faults + 1;
    (8 * words + source.state_bytes).next_multiple_of(64)
}

/// Macros that follow from the source alone.
pub fn sizes(source: &XdpSource) -> [(&'static str, u64); 2] {
    [("WL_STATE", core_size(source) as u64), ("WL_SCRATCH", source.scratch_bytes as u64)]
}
