//! Tables: maps, match tables, sketches and rings.

use crate::{Span, TyId};
use serde::{Deserialize, Serialize};

/// The shortest time after which entries of a table expire, in nanoseconds. Time goes on with each
/// batch of frames or events.
pub const LEAST_IDLE: u64 = 100_000;

/// A keyed table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub name: String,
    pub span: Span,
    pub kind: TableKind,
    /// Every core has its own part, since the steering key is part of the key, or is the key. Else
    /// the cores share the table. Set by the `flow_affinity` pass.
    pub local: bool,
    pub key: TyId,
    pub value: TyId,
    pub capacity: u64,
    /// Each core may keep entries of its own: traffic only adds to them, others see sums.
    pub per_core: bool,
    /// ns; 0 = never
    pub idle: u64,
    /// `idle` counts from the last write, not from the last use.
    pub from_write: bool,
    /// false: a full table rejects (fault `full`)
    pub evict_lru: bool,
    /// Bytes for the variable-size parts of keys and values; 0 = worst case reserved inline.
    pub memory: u64,
    /// So many entries are cached in front, where each core has its own part and entries have one
    /// size; 0: none. Changes no result.
    pub cache: u64,
    /// Bytes of values are copied when an entry is read, as one body both reads and changes the
    /// table. Set by the pass `copied_values`.
    pub copied: bool,
    /// Of a meter: its committed and its peak rate. The runtime refuses a peak below the other.
    pub rates: Option<[Rate; 2]>,
}

/// Tokens a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    Number(u64),
    /// A parameter of the app.
    Param(u32),
}

impl Table {
    /// A table without entries, options and annotations.
    pub fn new(name: String, span: Span, kind: TableKind, key: TyId, value: TyId) -> Self {
        Table {
            name,
            span,
            kind,
            local: false,
            key,
            value,
            capacity: 0,
            per_core: false,
            idle: 0,
            from_write: false,
            evict_lru: false,
            memory: 0,
            cache: 0,
            copied: false,
            rates: None,
        }
    }

    /// Locks of an array that all cores use: place i has lock i modulo their number, a power of
    /// two.
    pub fn locks(&self) -> u64 {
        self.capacity.next_power_of_two().min(64)
    }

    /// Places of the cache in front: a power of two.
    pub fn front(&self) -> u64 {
        if self.cache == 0 {
            0
        } else {
            self.cache.next_power_of_two()
        }
    }
}

/// Where a table's entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableSharing {
    /// Each core has those that are its own.
    Parts,
    /// Each core has all of them: what changes them does so on every core.
    Copies,
    /// There is one table, which all cores use.
    One,
}

/// Registers of a HyperLogLog, a byte each: its standard error is 1.04 / √4096.
pub const HLL_REGISTERS: u64 = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableKind {
    #[default]
    Exact,
    /// Keys are tuples of integers and addresses. An entry has a mask per component and a priority:
    /// the entry of the highest priority that matches is found. Filled from outside (`--load`,
    /// `wireloom table`) or by `insert`.
    Wildcard,
    /// Key: an address (`ip4`, `ip`); entries are prefixes of which the longest that matches is
    /// found.
    Lpm,
    /// Key: an integer below the capacity; every entry is there from the start, zero.
    Array,
    /// Value bool: true may be wrong, at most 1 in 100 at capacity.
    Bloom,
    /// Value u64: a count-min sketch; `update` adds; reads are never below the truth.
    CountMin,
    /// Value bool, which is put and never read: how many different keys there were (`TableLen`),
    /// within 2 % as a rule. Hashed as [`Builtin::Hash`] does.
    HyperLogLog,
    /// A queue of values of one core, first in, first out (`TablePush`, `TablePop`). Key u32: a
    /// place, counted from the oldest.
    Ring,
}
