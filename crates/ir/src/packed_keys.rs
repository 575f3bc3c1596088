//! Packed keys: the tables whose keys have one size without gaps, and these sizes.

use crate::*;

/// Whether a table is kept per core with packed keys: it is local, exact, and its entries have one
/// size.
pub fn is_core_table(m: &Module, t: &Table) -> bool {
    t.local
        && t.kind == TableKind::Exact
        && !t.from_write
        && t.capacity < 1 << 30
        && packed(m, t.key).is_some_and(|n| (1..=KEY_MAX).contains(&n))
        && !layout::has_bytes(m, t.value)
        && !layout::has_list(m, t.value)
}

/// Bytes of a key without gaps, if it has a fixed size.
pub fn packed(m: &Module, ty: TyId) -> Option<u64> {
    Some(match m.ty(ty) {
        Ty::Unit | Ty::Bool => 1,
        Ty::UInt(b) | Ty::Int(b) => layout::int_bytes(*b),
        Ty::Ip => 16,
        Ty::Endpoint => 18,
        Ty::Record(r) => m.records[r.index()].fields.iter().map(|(_, t)| packed(m, *t)).sum::<Option<u64>>()?,
        Ty::Tuple(ts) => ts.iter().map(|t| packed(m, *t)).sum::<Option<u64>>()?,
        Ty::Option(t) => 1 + packed(m, *t)?,
        Ty::Bytes(_) | Ty::List(..) | Ty::Msg(_) => return None,
    })
}

/// Keys of tables of one core are at most this long, in bytes.
const KEY_MAX: u64 = 512;

/// Bytes of a key's short form: addresses, which are all IPv4, take 4 bytes each. None: there are
/// none in it.
pub fn short(m: &Module, ty: TyId) -> Option<u64> {
    let members: Vec<TyId> = match m.ty(ty) {
        Ty::Ip => return Some(4),
        Ty::Record(r) => m.records[r.index()].fields.iter().map(|f| f.1).collect(),
        Ty::Tuple(ts) => ts.clone(),
        Ty::Unit
        | Ty::Bool
        | Ty::UInt(_)
        | Ty::Int(_)
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Msg(_) => return None,
    };
    if !members.iter().any(|t| short(m, *t).is_some()) {
        return None;
    }
    members.iter().map(|t| short(m, *t).or_else(|| packed(m, *t))).sum()
}

/// How addresses lie in a packed key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AddressForm {
    /// 16 bytes each.
    Whole,
    /// 4 bytes each: all are IPv4.
    Short,
}

/// Entries of at most this many bytes lie in place, whatever `memory` says.
const SMALL_ENTRY: u64 = 96;

/// None: all entries of the table lie in place.
pub fn entry_blocks(m: &Module, t: &Table) -> Option<layout::EntryBlocks> {
    let whole = layout::encoded_max(m, t.key).saturating_add(layout::encoded_max(m, t.value));
    let shared = t.kind == TableKind::Exact && !is_core_table(m, t);
    if t.memory == 0 || whole <= SMALL_ENTRY || !shared {
        return None;
    }
    let data = match whole {
        0..=4096 => 124,
        4097..=65536 => 252,
        _ => 1020,
    };
    Some(layout::EntryBlocks { inline: 64, data, count: (t.memory / (data + 4)).min(u32::MAX as u64 - 2) })
}
