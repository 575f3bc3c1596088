//! Programs in front of those of handlers: `support/bpf_front.h`.

use super::XdpProgram;

impl XdpProgram {
    /// The program in front of it.
    pub fn front(&self) -> String {
        format!("wl_front_{}", self.handler.0)
    }
}

/// The programs in front of others, and the map by which they go on.
pub(super) fn fronts(programs: &[XdpProgram]) -> String {
    let finished = programs.iter().enumerate().filter(|(_, p)| p.finished);
    let all: String = finished.map(|(n, p)| format!("WL_FRONT({}, wl_next, {n})\n", p.front())).collect();
    match all.as_str() {
        "" => all,
        _ => format!(
            "struct {{ WL_MAP_NUMBER(type, BPF_MAP_TYPE_PROG_ARRAY); WL_MAP_TYPE(key, uint32_t); WL_MAP_TYPE(value, uint32_t); \
             WL_MAP_NUMBER(max_entries, {}); }} wl_next SEC(\".maps\");\n{all}",
            programs.len()
        ),
    }
}
