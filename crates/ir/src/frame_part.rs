//! The part of a frame that crosses a queue.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The part of a frame that code behind a queue may read. Its length is known in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FramePart {
    #[default]
    Whole,
    /// From its first byte on to the end of the last header that its sender has found, and so many
    /// bytes behind that.
    Headers(u32),
    /// Nothing: its headers are not looked for.
    Nothing,
}

impl fmt::Display for FramePart {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            FramePart::Whole => f.write_str("whole"),
            FramePart::Headers(n) => write!(f, "headers {n}"),
            FramePart::Nothing => f.write_str("nothing"),
        }
    }
}

impl FramePart {
    /// How many bytes cross of a frame of `n` bytes, by its entry.
    pub fn there(self, entry: &[u8], n: u32) -> u32 {
        match (self, entry.first_chunk::<4>()) {
            (FramePart::Nothing, _) => 0,
            (FramePart::Headers(_), Some(there)) => u32::from_ne_bytes(*there).min(n),
            (FramePart::Whole | FramePart::Headers(_), _) => n,
        }
    }
}
