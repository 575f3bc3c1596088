//! A handler's counts of the frames that leave a batch, so that the runtime need not look at them
//! (`wl_left`).
//!
//! If all frames of a handler leave through one instance of one port, it counts them, and their
//! bytes, in one register. Handlers have few to spare. The runtime stages a copy that the handler
//! sends besides, and then looks at all frames itself.

use wireloom_ir::plans::Destination;

/// The values kept for the length of a batch.
pub(crate) const FIELDS: &str = "uint64_t left; /* bytes that leave, and frames from bit 40 on */\n";
pub(crate) const BACK: &str = "keep->left = kept.left;\n";
pub(crate) const ADD: &str =
    "x->core->left.frames += (uint32_t)(keep.left >> 40);\nx->core->left.bytes += keep.left & UINT64_MAX >> 24;\n";

/// Statements before and behind a batch.
pub(crate) fn around(to: Destination) -> (String, &'static str) {
    (format!("core->left = (wl_left){{.out = {}}};\n", destination(to)), "core->left.known = 1;\n")
}

/// Behind a frame of the view `v` that leaves, or does if `cond` holds.
pub(crate) fn count(v: &str, cond: Option<&str>) -> String {
    match cond {
        None => format!(" kept.left += (UINT64_C(1) << 40) + {v}->n;"),
        Some(cond) => format!(" kept.left += {cond} ? (UINT64_C(1) << 40) + {v}->n : 0;"),
    }
}

/// As `wl_frame.out` has it.
pub(crate) fn destination(d: Destination) -> String {
    format!("{:#x}u", d.port.0 << 16 | d.instance & 0xffff)
}
