//! Decisions about memory that all backends and the runtime share, and worst-case sizes of values.
//!
//! The per-core state begins with the `counter` declarations in order, a `u64` each. The shared
//! memory begins with one [`TABLE_STATS`] block per table, in order. The rest of both is private to
//! a backend. [`size`] is the measure for `explain` and for the frame's bill.

use crate::*;

/// `wl_table_stats`: eight u64 (entries, hits, misses, inserts, evictions, expired, rejected,
/// bytes).
pub const TABLE_STATS: u64 = 64;

/// Offset of a counter in `wl_core.state`.
pub fn counter_offset(c: CounterId) -> u64 {
    8 * c.0 as u64
}
/// Bytes of `wl_core.state` that the counters take: the program's own state begins here.
pub fn counters_size(m: &Module) -> u64 {
    8 * m.counters.len() as u64
}
/// Offset of a table's statistics in `wl_core.shared`.
pub fn table_stats_offset(t: TableId) -> u64 {
    TABLE_STATS * t.0 as u64
}
/// Bytes of `wl_core.shared` that the statistics take: the tables begin here.
pub fn table_stats_size(m: &Module) -> u64 {
    TABLE_STATS * m.tables.len() as u64
}

/// Worst-case bytes of a stored value, its variable-size bytes included.
pub fn size(m: &Module, ty: TyId) -> u64 {
    size_in(m, ty, 0)
}

/// Types nest at most this deep; the verifier refuses deeper ones (and cycles with them).
pub const MAX_DEPTH: u32 = 32;

fn size_in(m: &Module, ty: TyId, depth: u32) -> u64 {
    if depth > MAX_DEPTH {
        return 0;
    }
    let inner = |t: TyId| size_in(m, t, depth + 1);
    match m.types.get(ty.index()) {
        None | Some(Ty::Unit) => 0,
        Some(Ty::Bool) => 1,
        Some(Ty::UInt(bits) | Ty::Int(bits)) => int_bytes(*bits),
        // A length and the bytes themselves.
        Some(Ty::Bytes(max)) => max.saturating_add(4),
        Some(Ty::Endpoint) => 24,
        Some(Ty::Ip) => 16,
        Some(Ty::Option(t)) => inner(*t).saturating_add(1),
        Some(Ty::List(t, max)) => inner(*t).saturating_mul(*max as u64).saturating_add(4),
        Some(Ty::Record(r)) => {
            m.records.get(r.index()).map_or(0, |r| r.fields.iter().fold(0, |a, (_, t)| a.saturating_add(inner(*t))))
        }
        Some(Ty::Tuple(list)) => list.iter().fold(0, |a, t| a.saturating_add(inner(*t))),
        // A `wl_msg`.
        Some(Ty::Msg(_)) => 24,
    }
}

/// The most bytes of a key or value in an exact table that all cores share. An integer is as in
/// memory; bytes and lists stand behind their length, an option behind a byte.
pub fn encoded_max(m: &Module, ty: TyId) -> u64 {
    match m.ty(ty) {
        Ty::Endpoint => 20,
        Ty::Option(t) => encoded_max(m, *t).saturating_add(1),
        Ty::List(t, n) => encoded_max(m, *t).saturating_mul(*n as u64).saturating_add(4),
        Ty::Record(r) => m.records[r.index()].fields.iter().fold(0, |a, (_, t)| a.saturating_add(encoded_max(m, *t))),
        Ty::Tuple(ts) => ts.iter().fold(0, |a, t| a.saturating_add(encoded_max(m, *t))),
        Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::Ip | Ty::Msg(_) => size(m, ty),
    }
}

/// Blocks for the parts of entries that have no room in place: the option `memory` of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryBlocks {
    /// Bytes of an entry that lie in place.
    pub inline: u64,
    /// Bytes of a block; it takes four more.
    pub data: u64,
    pub count: u64,
}

impl EntryBlocks {
    /// Blocks of an entry with so many bytes of key and value.
    pub fn of(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.inline).div_ceil(self.data)
    }
}

/// Bytes of the C integer that holds so many bits.
pub fn int_bytes(bits: u8) -> u64 {
    match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        33..=64 => 8,
        _ => 16,
    }
}

/// Most bytes in all the variable-size parts of a value.
pub fn bytes_in(m: &Module, ty: TyId) -> u64 {
    bytes_at(m, ty, 0)
}

fn bytes_at(m: &Module, ty: TyId, depth: u32) -> u64 {
    if depth > MAX_DEPTH {
        return 0;
    }
    let inner = |t: TyId| bytes_at(m, t, depth + 1);
    match m.types.get(ty.index()) {
        Some(Ty::Bytes(max)) => *max,
        Some(Ty::Option(t)) => inner(*t),
        Some(Ty::List(t, max)) => inner(*t).saturating_mul(*max as u64),
        Some(Ty::Record(r)) => {
            m.records.get(r.index()).map_or(0, |r| r.fields.iter().fold(0, |a, (_, t)| a.saturating_add(inner(*t))))
        }
        Some(Ty::Tuple(list)) => list.iter().fold(0, |a, t| a.saturating_add(inner(*t))),
        _ => 0,
    }
}

/// Whether a value has bytes in it (then it may be a slice of a message or of the scratch).
pub fn has_bytes(m: &Module, ty: TyId) -> bool {
    holds_bytes(m, ty, 0)
}

fn holds_bytes(m: &Module, ty: TyId, depth: u32) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let inner = |t: &TyId| holds_bytes(m, *t, depth + 1);
    match m.types.get(ty.index()) {
        Some(Ty::Bytes(_)) => true,
        Some(Ty::Option(t) | Ty::List(t, _)) => inner(t),
        Some(Ty::Record(r)) => m.records.get(r.index()).is_some_and(|r| r.fields.iter().any(|(_, t)| inner(t))),
        Some(Ty::Tuple(list)) => list.iter().any(inner),
        _ => false,
    }
}

/// Whether a value of this type holds a list or a message, so that its parts are not all at fixed
/// places.
pub fn has_list(m: &Module, ty: TyId) -> bool {
    match m.ty(ty) {
        Ty::List(..) | Ty::Msg(_) => true,
        Ty::Option(t) => has_list(m, *t),
        Ty::Record(r) => m.records[r.index()].fields.iter().any(|(_, t)| has_list(m, *t)),
        Ty::Tuple(ts) => ts.iter().any(|t| has_list(m, *t)),
        Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::Endpoint | Ty::Ip => false,
    }
}

/// The width of a scalar in bits, and whether it is signed.
pub fn int_of(m: &Module, ty: TyId) -> Option<(u8, bool)> {
    match m.ty(ty) {
        Ty::UInt(b) => Some((*b, false)),
        Ty::Int(b) => Some((*b, true)),
        Ty::Bool => Some((1, false)),
        Ty::Unit
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Ip
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Record(_)
        | Ty::Tuple(_)
        | Ty::Msg(_) => None,
    }
}

/// The layout of an entry of a queue, beside the frame's bytes. It has the fields of the packet's
/// state that the queue carries, at places that each producer and consumer knows. Numbers have the
/// order of bytes of the machine. A transport moves [`Entry::bytes`] bytes as they are, with as
/// many bytes of the frame as [`FramePart::there`] says.
///
/// | bytes | content |
/// |---|---|
/// | 4, for [`FramePart::Headers`] only | how many bytes of the frame cross |
/// | each field, aligned to its size | its value; a `bool` is a byte, an `ip` 16 bytes |
/// | up to the next multiple of 8 | nothing |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub part: FramePart,
    pub fields: Vec<EntryField>,
    pub bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryField {
    pub field: PacketFieldId,
    pub at: u32,
    pub bytes: u32,
}

impl Entry {
    /// The entries of a queue.
    pub fn of(m: &Module, carries: &Carries) -> Entry {
        let mut entry = Entry { part: carries.part, ..Entry::default() };
        if matches!(carries.part, FramePart::Headers(_)) {
            entry.bytes = 4
        }
        for field in &carries.state {
            let bytes = size(m, m.packet[field.index()].ty) as u32;
            let at = entry.bytes.next_multiple_of(bytes.clamp(1, 8));
            entry.fields.push(EntryField { field: *field, at, bytes });
            entry.bytes = at + bytes;
        }
        entry.bytes = entry.bytes.next_multiple_of(8);
        entry
    }

    pub fn field(&self, field: PacketFieldId) -> Option<EntryField> {
        self.fields.iter().copied().find(|f| f.field == field)
    }
}

/// Bytes of the largest entry of a program's queues.
pub fn entry_max(m: &Module) -> u32 {
    m.ports.iter().filter(|p| p.kind.is_queue()).map(|p| Entry::of(m, &p.carries).bytes).max().unwrap_or(0)
}
