//! Tables whose entries have masks: wildcard and prefix. Each core has its own. A lookup scans the
//! entries one by one.

use crate::value::Value;
use wireloom_ir::*;

/// One core's part of a table.
#[derive(Default)]
pub struct MatchTable {
    pub(super) masked: Vec<Masked>,
}

/// An entry that stands for all keys which agree with it in the bits of its mask.
pub(super) struct Masked {
    pub key: Vec<u8>,
    pub mask: Vec<u8>,
    pub priority: u128,
    pub value: Value,
}

pub fn is_match_table(m: &Module, t: TableId) -> bool {
    m.tables.get(t.index()).is_some_and(|t| matches!(t.kind, TableKind::Wildcard | TableKind::Lpm))
}

pub(super) fn and(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a & b).collect()
}

impl MatchTable {
    pub(super) fn find(&self, key: &[u8]) -> Option<&Value> {
        self.masked.iter().filter(|e| and(key, &e.mask) == e.key).max_by_key(|e| e.priority).map(|e| &e.value)
    }

    pub(super) fn place(&self, key: &[u8], mask: &[u8], priority: u128) -> Option<usize> {
        self.masked.iter().position(|e| e.key == key && e.mask == mask && e.priority == priority)
    }
}
