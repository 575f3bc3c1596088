//! Tables: exact match, bounded, shared by the cores. Their statistics lie in the shared memory as `ir::layout` says.

use crate::value::Value;
use std::collections::{BTreeMap, HashMap};

/// `wl_table_stats`, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub entries: u64,
    pub hits: u64,
    pub misses: u64,
    pub inserts: u64,
    pub evictions: u64,
    pub expired: u64,
    pub rejected: u64,
    pub bytes: u64,
}

impl Stats {
    pub fn words(&self) -> [u64; 8] {
        [self.entries, self.hits, self.misses, self.inserts, self.evictions, self.expired, self.rejected, self.bytes]
    }
}

struct Entry {
    value: Value,
    size: u64,
    /// When it was last written or read.
    touched: u64,
    /// Position in the order of use.
    turn: u64,
}

pub struct Limits {
    pub capacity: u64,
    /// ns; 0 = never
    pub idle: u64,
    pub evict_lru: bool,
    /// Bytes of all keys and values; 0 = no bound of its own.
    pub memory: u64,
}

pub struct Table {
    limits: Limits,
    entries: HashMap<Vec<u8>, Entry>,
    /// Keys by turn: the first is the least recently used.
    order: BTreeMap<u64, Vec<u8>>,
    turn: u64,
    pub stats: Stats,
}

impl Table {
    pub fn new(limits: Limits) -> Table {
        Table { limits, entries: HashMap::new(), order: BTreeMap::new(), turn: 0, stats: Stats::default() }
    }

    fn idle_too_long(&self, e: &Entry, now: u64) -> bool {
        self.limits.idle != 0 && now.saturating_sub(e.touched) >= self.limits.idle
    }

    /// Drops the entry if its time is over.
    fn expire(&mut self, key: &[u8], now: u64) {
        if self.entries.get(key).is_some_and(|e| self.idle_too_long(e, now)) {
            self.take(key);
            self.stats.expired += 1;
        }
    }

    fn take(&mut self, key: &[u8]) -> bool {
        let Some(e) = self.entries.remove(key) else { return false };
        self.order.remove(&e.turn);
        self.stats.bytes -= e.size;
        self.stats.entries = self.entries.len() as u64;
        true
    }

    fn touch(&mut self, key: &[u8], now: u64) {
        self.turn += 1;
        if let Some(e) = self.entries.get_mut(key) {
            self.order.remove(&e.turn);
            (e.turn, e.touched) = (self.turn, now);
            self.order.insert(self.turn, key.to_vec());
        }
    }

    pub fn get(&mut self, key: &[u8], now: u64) -> Option<Value> {
        self.expire(key, now);
        self.touch(key, now);
        let found = self.entries.get(key).map(|e| e.value.clone());
        *(if found.is_some() { &mut self.stats.hits } else { &mut self.stats.misses }) += 1;
        found
    }

    /// False: the table is full.
    pub fn put(&mut self, key: &[u8], value: Value, size: u64, now: u64) -> bool {
        self.expire(key, now);
        let old = self.entries.get(key).map(|e| e.size);
        while !self.fits(old, size) {
            if !self.make_room(key, now) {
                self.stats.rejected += 1;
                return false;
            }
        }
        if old.is_some() {
            self.take(key);
        }
        self.stats.inserts += old.is_none() as u64;
        self.turn += 1;
        self.order.insert(self.turn, key.to_vec());
        self.entries.insert(key.to_vec(), Entry { value, size, touched: now, turn: self.turn });
        self.stats.bytes += size;
        self.stats.entries = self.entries.len() as u64;
        true
    }

    fn fits(&self, old: Option<u64>, size: u64) -> bool {
        let entries = self.entries.len() as u64 + old.is_none() as u64;
        let bytes = self.stats.bytes - old.unwrap_or(0).min(self.stats.bytes) + size;
        entries <= self.limits.capacity && (self.limits.memory == 0 || bytes <= self.limits.memory)
    }

    /// Drops the least recently used entry but `keep`: one whose time is over, or any if the table evicts.
    fn make_room(&mut self, keep: &[u8], now: u64) -> bool {
        let Some(key) = self.order.values().find(|k| &k[..] != keep).cloned() else { return false };
        let over = self.entries.get(&key).is_some_and(|e| self.idle_too_long(e, now));
        if !over && !self.limits.evict_lru {
            return false;
        }
        self.take(&key);
        *(if over { &mut self.stats.expired } else { &mut self.stats.evictions }) += 1;
        true
    }

    pub fn remove(&mut self, key: &[u8], now: u64) -> bool {
        self.expire(key, now);
        self.take(key)
    }

    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(capacity: u64, idle: u64, evict_lru: bool) -> Table {
        Table::new(Limits { capacity, idle, evict_lru, memory: 0 })
    }

    #[test]
    fn evicts_the_least_recently_used() {
        let mut t = table(2, 0, true);
        for (k, v) in [(b"a", 1), (b"b", 2)] {
            assert!(t.put(k, Value::Int(v), 1, 0));
        }
        assert_eq!(t.get(b"a", 1), Some(Value::Int(1)));
        assert!(t.put(b"c", Value::Int(3), 1, 2));
        assert_eq!((t.get(b"b", 3), t.len(), t.stats.evictions), (None, 2, 1));
    }

    #[test]
    fn rejects_when_full_and_expires() {
        let mut t = table(1, 10, false);
        assert!(t.put(b"a", Value::Int(1), 1, 0));
        assert!(!t.put(b"b", Value::Int(2), 1, 5));
        assert!(t.put(b"b", Value::Int(2), 1, 10));
        assert_eq!((t.get(b"a", 10), t.get(b"b", 19), t.get(b"b", 29)), (None, Some(Value::Int(2)), None));
        assert_eq!((t.stats.rejected, t.stats.expired), (1, 2));
    }
}
