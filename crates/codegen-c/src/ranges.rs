//! Tests whether a number lies in one of several ranges.

use crate::gen::Gen;

/// More ranges than these are looked up in a table: the C compiler takes time by the square of a
/// long condition.
const RANGES_INLINE: usize = 16;

/// The same numbers in order, ranges that touch as one.
fn joined(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
    for (lo, hi) in sorted {
        match all.last_mut() {
            Some((_, end)) if lo <= end.saturating_add(1) => *end = hi.max(*end),
            _ => all.push((lo, hi)),
        }
    }
    all
}

impl Gen<'_> {
    /// `value in ranges`, where `value` is a C expression that is evaluated several times.
    pub fn in_ranges(&self, value: &str, ranges: &[(u64, u64)], bits: u32) -> String {
        let joined = if ranges.len() > RANGES_INLINE { joined(ranges) } else { ranges.to_vec() };
        if joined.len() > RANGES_INLINE {
            let table: String = joined.iter().map(|(lo, hi)| format!("{{{lo}u, {hi}u}}, ")).collect();
            return format!(
                "({{ static const uint64_t t_[][2] = {{{table}}}; wl_in_ranges(t_, {}, {value}); }})",
                joined.len()
            );
        }
        let top = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let parts: Vec<_> = joined
            .iter()
            .map(|&(lo, hi)| match (lo == 0, hi >= top) {
                (true, true) => "true".into(),
                _ if lo == hi => format!("{value} == {lo}u"),
                (true, false) => format!("{value} <= {hi}u"),
                (false, true) => format!("{value} >= {lo}u"),
                _ => format!("({value} >= {lo}u && {value} <= {hi}u)"),
            })
            .collect();
        if parts.is_empty() {
            "false".into()
        } else {
            format!("({})", parts.join(" || "))
        }
    }
}
