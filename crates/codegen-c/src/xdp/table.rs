//! A table in the hook, as the loader knows it.

use serde::{Deserialize, Serialize};
use wireloom_ir::*;

/// Lines of up to so many bytes are reached by an address.
pub(super) const DIRECT_MAX: usize = 256 << 20;
/// The number in the place of the address of the first table's list of masks.
pub(super) const DIRECT_LIST: u64 = 0x2be9_50c7_3d86_f400;

/// Bytes of a line before its slots: the lock, the number of entries in other lines, and the marks
/// of the slots. With a fourth slot there is room for more marks.
pub(super) fn head(slots: usize) -> usize {
    if slots > SLOTS {
        16
    } else {
        8
    }
}
/// Slots of a line: at least, and at most.
pub(super) const SLOTS: usize = 3;
pub(super) const SLOTS_AT_MOST: usize = 4;

/// A table whose entries lie in maps of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpTable {
    pub table: TableId,
    pub kind: TableKind,
    /// Its map, and its program for changes from outside, if the process does not change the map
    /// by itself.
    pub map: String,
    pub program: Option<String>,
    /// Bytes of a key and a value in their canonical form.
    pub key: usize,
    pub value: usize,
    /// Nanoseconds after which an entry without use expires; 0: it does not.
    pub idle: u64,
    /// The time of its last use is kept with each entry.
    pub stamped: bool,
    /// Entries at most.
    pub capacity: u64,
    /// Of an exact table: lines of the map, bytes and slots of each.
    pub lines: u32,
    pub line: usize,
    pub slots: usize,
    /// The number in the place of the address of its lines, which lie in one value. `None`: they
    /// are values of a map.
    pub direct: Option<u64>,
    /// Keys or values have bytes: they lie in scratch.
    pub wide: bool,
    /// Of prefixes: the map has the bytes of a key in the opposite order.
    pub reversed: bool,
    /// Of a ring: bytes of the map.
    pub ring: u32,
    /// Each processor has a part of its own: bytes of the numbers of a value, which are summed.
    pub sums: Option<Vec<usize>>,
}

impl XdpTable {
    /// Packets change its entries under locks.
    pub fn is_locked(&self) -> bool {
        matches!(self.kind, TableKind::Exact | TableKind::Array)
    }

    /// Bytes of all lines, of one part.
    pub fn bytes(&self) -> usize {
        self.lines as usize * self.line
    }

    /// Whether its lines, of so many parts, are reached by an address: the verifier follows offsets
    /// below 512 MiB only.
    pub fn is_direct(&self, parts: u32) -> bool {
        self.direct.is_some() && self.bytes().saturating_mul(parts as usize) <= DIRECT_MAX
    }

    pub fn key_words(&self) -> usize {
        self.key.div_ceil(8)
    }

    pub fn value_words(&self) -> usize {
        self.value.div_ceil(8)
    }

    /// Of a wildcard table: the numbers that stand for addresses, of its list of masks and of the
    /// filter in front of its entries.
    pub fn wildcard_numbers(&self) -> (u64, u64) {
        let first = DIRECT_LIST + 2 * u64::from(self.table.0);
        (first, first + 1)
    }

    /// The map of the first entries of its buckets, and how many these are: a power of two.
    pub fn heads(&self) -> String {
        format!("h{}", &self.map[1..])
    }

    pub fn buckets(&self) -> u64 {
        (2 * self.capacity).next_power_of_two().max(64)
    }

    /// Places of the map of its entries. Number 0 is none. More than there are entries: one that is
    /// replaced stays for a while.
    pub fn places(&self) -> u64 {
        1 + self.capacity + (self.capacity / 16).max(64)
    }

    /// Words of that filter, a power of two: sixteen bits for an entry.
    pub fn filter_words(&self) -> u64 {
        (self.capacity / 4).next_power_of_two().clamp(16, 1 << 20)
    }

    /// Where a slot of a line begins, in bytes from the map's begin: the time of the last use, key
    /// and value.
    pub fn slot_at(&self, line: usize, slot: usize) -> usize {
        line * self.line + head(self.slots) + slot * 8 * (1 + self.key_words() + self.value_words())
    }
}
