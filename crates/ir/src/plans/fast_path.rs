//! The headers that are looked for first in a frame.

use crate::*;
use std::collections::BTreeMap;

/// By place in the frame: a mask of a byte, and the value of its bits.
pub type Bits = BTreeMap<u32, (u8, u8)>;

/// Values of a header's fields.
pub type Known = BTreeMap<FieldId, u64>;

/// Where the headers of most frames are looked for first. Set by the pass `packet_fast_path`.
#[derive(Clone, Debug, PartialEq)]
pub struct FastPath {
    /// Which layer is looked for behind which (None: at the frame's beginning), at a constant
    /// place: the headers before it have no options.
    pub steps: Vec<(Option<u32>, u32)>,
    /// The stack that most frames have, if bits tell it.
    pub stack: Option<HeaderStack>,
}

/// A field of a header that begins, or ends, at no constant place. The parser notes where it begins
/// and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeaderSlot {
    pub layer: u32,
    pub field: FieldId,
}

/// Headers one behind the other, told by bits.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderStack {
    /// Bytes that such a frame has at least, and 16.
    pub least: u32,
    /// Each header, or several of which one is there; only the last are several.
    pub stages: Vec<Vec<Stage>>,
}

/// A header of such a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    pub layer: u32,
    /// Where it begins, in bytes.
    pub at: u32,
    /// Its bytes, without its variable part.
    pub least: u32,
    /// The bits that must be there, at its own fields or at the fields of the header before it.
    pub bits: Bits,
    /// Fields whose values these bits say.
    pub known: Known,
}
