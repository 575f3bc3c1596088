//! Which tables the XDP hook keeps.

use super::{is_value, kind_of, Search};
use crate::*;

/// Whether a table's keys and values have one size: no options. `bytes`: these have room for as
/// many as there may be.
pub(super) fn is_fixed(m: &Module, ty: TyId, bytes: bool) -> bool {
    match m.ty(ty) {
        Ty::Bytes(_) => bytes,
        Ty::Option(_) => false,
        Ty::Record(r) => m.records[r.index()].fields.iter().all(|f| is_fixed(m, f.1, bytes)),
        Ty::Tuple(ts) => ts.iter().all(|t| is_fixed(m, *t, bytes)),
        Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Endpoint | Ty::Ip | Ty::List(..) | Ty::Msg(_) => {
            is_value(m, ty)
        }
    }
}

/// Bytes of a value of one size in its canonical form. Integers have whole bytes, addresses 16.
/// Bytes have their length in 4, and room for as many as there may be.
pub fn canonical_size(m: &Module, ty: TyId) -> usize {
    match m.ty(ty) {
        Ty::Bool => 1,
        Ty::UInt(bits) | Ty::Int(bits) => (*bits as usize).div_ceil(8),
        Ty::Ip => 16,
        Ty::Endpoint => 18,
        Ty::Bytes(most) => (*most as usize).saturating_add(4),
        Ty::Record(r) => m.records[r.index()].fields.iter().fold(0, |n, f| canonical_size(m, f.1).saturating_add(n)),
        Ty::Tuple(ts) => ts.iter().fold(0, |n, t| canonical_size(m, *t).saturating_add(n)),
        Ty::Unit | Ty::Option(_) | Ty::List(..) | Ty::Msg(_) => 0,
    }
}

/// The most bytes of a table's keys, and of its values: both lie on the program's stack, which has
/// 512.
pub const KEY_MAX: usize = 64;
pub const VALUE_MAX: usize = 64;
/// The same of tables whose keys or values have bytes: these lie in the processor's scratch.
pub const WIDE_KEY_MAX: usize = 512;
pub const WIDE_VALUE_MAX: usize = 2048;

/// Of a table from which the least recently used entry goes: it is one of those that the language
/// allows only from this capacity on.
const LEAST_LRU: u64 = 1024;
/// Entries of a table: its map is made whole at the start.
pub const CAPACITY_MAX: u64 = 32 << 20;

/// Records of a ring that processors may add beyond its capacity, at the same time.
const AT_ONCE: u64 = 256;

/// Bytes of the kernel's ring for so many values, each of so many bytes. `None`: too many.
pub fn ring_bytes(capacity: u64, value: usize) -> Option<u32> {
    let record = 8 + 8 * value.div_ceil(8).max(1) as u64;
    let all = capacity.checked_add(AT_ONCE)?.checked_mul(record)?.max(4096).checked_next_power_of_two()?;
    u32::try_from(all).ok().filter(|n| *n <= 1 << 30)
}

/// Whether a statement is about a table of this kind as the hook has it.
fn has(kind: TableKind, s: &StmtKind) -> bool {
    use StmtKind::*;
    match kind {
        TableKind::Exact | TableKind::Array => {
            matches!(s, TableGet { .. } | TablePut { .. } | TableUpdate { .. } | TableRemove { .. })
        }
        TableKind::Wildcard | TableKind::Lpm => matches!(s, TableGet { .. }),
        TableKind::Bloom => matches!(s, TableGet { .. } | TablePut { .. } | TableUpdate { .. }),
        TableKind::CountMin => matches!(s, TableGet { .. } | TableUpdate { .. }),
        TableKind::Ring => matches!(s, TablePush { .. }),
        TableKind::HyperLogLog => matches!(s, TablePut { .. }),
    }
}

impl Search<'_> {
    pub(super) fn table(&mut self, s: &Stmt, t: TableId) {
        let t = &self.m.tables[t.index()];
        let kind = text::table_kind(t.kind);
        if !has(t.kind, &s.kind) && ops::statement(&s.kind).devices.contains(&ops::Device::Xdp) {
            let what = format!("XDP cannot use table `{}` in this way: it is `{kind}`", t.name);
            let hint = if t.kind == TableKind::Ring {
                "look at its values in a timer: `every`"
            } else {
                "leave this handler to the CPU"
            };
            return self.add("E0670", s.span, what, hint);
        }
        let (key, value) = (canonical_size(self.m, t.key), canonical_size(self.m, t.value));
        let fixed = |bytes| is_fixed(self.m, t.key, bytes) && is_fixed(self.m, t.value, bytes);
        let (exact, wide) = (t.kind == TableKind::Exact, !fixed(false));
        let (key_max, value_max) = if wide { (WIDE_KEY_MAX, WIDE_VALUE_MAX) } else { (KEY_MAX, VALUE_MAX) };
        if wide && !exact && fixed(true) {
            let what = format!("table `{}` is `{kind}` and has bytes, which XDP cannot keep", t.name);
            self.add("E0671", s.span, what, "keep bytes in an exact table, or use their `hash`");
        } else if !fixed(exact) || t.memory != 0 {
            let what = format!("entries of table `{}` vary in size, which XDP cannot keep", t.name);
            self.add("E0671", s.span, what, "use numbers, addresses, bytes with a bound, and records of these");
        } else if t.evict_lru && t.capacity < LEAST_LRU {
            let what = format!("XDP does not know which entry of table `{}` was used least recently", t.name);
            self.add("E0670", s.span, what, "give it a capacity of at least 1024, or leave `evict lru` out");
        } else if t.kind == TableKind::Ring && ring_bytes(t.capacity, value).is_none() {
            let what = format!("ring `{}` is too large for XDP: {} values of {value} bytes", t.name, t.capacity);
            self.add("E0671", s.span, what, "a ring has at most a gigabyte there");
        } else if t.capacity > CAPACITY_MAX {
            let what = format!("table `{}` is too large for XDP: {} entries", t.name, t.capacity);
            self.add("E0671", s.span, what, "a table has at most 33554432 entries there");
        } else if key > key_max || value > value_max {
            let what = format!("an entry of table `{}` is too large for XDP: {key} and {value} bytes", t.name);
            self.add("E0671", s.span, what, &format!("a key has at most {key_max} bytes, a value {value_max}"));
        } else if t.kind == TableKind::Lpm && !matches!(self.m.ty(t.key), Ty::Ip | Ty::UInt(32 | 128)) {
            let what = format!("the keys of table `{}` are {}", t.name, kind_of(self.m, t.key));
            self.add("E0671", s.span, what, "use addresses: `ip4`, `ip6` or `ip`");
        }
    }
}
