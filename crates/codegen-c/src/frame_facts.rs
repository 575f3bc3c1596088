//! The facts about a program's frame units that reads of their fields need.

use std::collections::{BTreeMap, BTreeSet};

/// The facts about a program's frame units that reads need.
#[derive(Default)]
pub(crate) struct Frames {
    /// Layers looked at, by frame unit.
    pub needed: BTreeMap<u32, BTreeSet<u32>>,
    /// Those of them that the program itself asks for.
    pub asked: BTreeMap<u32, BTreeSet<u32>>,
    /// Units that have a `NAME_fast`, and a `NAME_most`.
    pub common: BTreeSet<u32>,
    pub most: BTreeSet<u32>,
    /// The header that `h` points to, while conditions behind it are written.
    pub at_hand: Option<u32>,
    /// Handlers of frames that may fault or take scratch.
    pub scratch: BTreeSet<usize>,
    /// Slots by (frame unit, layer, field); the length of the field, if it varies, is in the next
    /// slot.
    pub slots: BTreeMap<(u32, u32, u32), u32>,
    /// The layer of each pair of slots.
    pub slot_layers: Vec<u32>,
    /// Most layers of a unit.
    pub layers: usize,
}

/// Where a field of a header begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offset {
    /// From the header's first byte.
    Fixed(u32),
    /// Kept in this slot of the view, from the frame's first byte.
    Slot(u32),
    /// Never read.
    Unknown,
}
