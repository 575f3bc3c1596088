//! Tables: exact match, bounded, shared by the cores. Their statistics lie in the shared memory as
//! `ir::layout` says.
//!
//! They act as `support/shared_hash_table.h` with one stripe (fewer than 1024 entries). Larger
//! compiled tables evict only the oldest entry of a part of the table. `memory` and the statistic
//! `bytes` count the blocks that compiled code would take.

use super::sketch::Sketch;
use crate::value::{canonical, from_canonical, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wireloom_ir::layout::EntryBlocks;
use wireloom_ir::{Module, TyId};

/// A table whose entries another device keeps. Keys and values have their canonical form.
pub trait OutsideTable: Send + Sync {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// False: there is no room.
    fn put(&self, key: &[u8], value: &[u8]) -> bool;
    /// Whether it was there.
    fn remove(&self, key: &[u8]) -> bool;
    /// Of a ring: the oldest value, which is there no more.
    fn pop(&self) -> Option<Vec<u8>>;
    /// Of a ring: the value at a place, from the oldest on.
    fn at(&self, place: u64) -> Option<Vec<u8>>;
    /// Of a ring: the interpreter keeps so many values itself. They count for the capacity.
    fn held(&self, values: u64);
    /// How many there are.
    fn entries(&self) -> u64;
    /// The first entry from a place on: the place behind it, key and value.
    fn next(&self, place: u64) -> Option<(u64, Vec<u8>, Vec<u8>)>;
    /// Of a HyperLogLog: adds a key's hash. False: it is none.
    fn note(&self, hash: u64) -> bool;
    /// Of a HyperLogLog: the value of a register.
    fn register(&self, place: u64) -> Option<u8>;
    /// Of a table whose entries have masks, which the program keeps, too: a key and a mask stand
    /// for this from now on. False: there is no room.
    fn stand_for(&self, pattern: Pattern, entry: Option<Ranked>) -> bool;
}

/// A key and a mask, in their canonical form.
#[derive(Clone, Copy)]
pub struct Pattern<'a> {
    pub key: &'a [u8],
    pub mask: &'a [u8],
}

/// A value, and its priority: of a prefix its length.
#[derive(Clone, Copy)]
pub struct Ranked<'a> {
    pub priority: u128,
    pub value: &'a [u8],
}

/// One of these, and the type of its values.
pub struct Outside {
    pub table: Arc<dyn OutsideTable>,
    pub module: Arc<Module>,
    pub value: TyId,
}

impl Outside {
    /// The oldest value of a ring.
    pub fn pop(&self) -> Option<Value> {
        self.table.pop().map(|v| self.value(&v))
    }

    /// A value of a ring, from the oldest on.
    pub fn at(&self, place: u64) -> Option<Value> {
        self.table.at(place).map(|v| self.value(&v))
    }

    fn value(&self, bytes: &[u8]) -> Value {
        from_canonical(&self.module, self.value, &mut &*bytes)
    }
}

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
    /// Its blocks.
    blocks: u64,
    /// When it was last written or, unless its time counts from then, read.
    touched: u64,
    /// Position in the order of use.
    turn: u64,
    /// The turn in which it was made.
    made: u64,
}

pub struct Limits {
    pub capacity: u64,
    /// ns; 0 = never
    pub idle: u64,
    /// `idle` counts from the last write.
    pub from_write: bool,
    pub evict_lru: bool,
    /// Of a table with `memory`.
    pub blocks: Option<EntryBlocks>,
}

pub struct Table {
    limits: Limits,
    entries: HashMap<Vec<u8>, Entry>,
    /// Keys by turn: the first is the least recently used.
    order: BTreeMap<u64, Vec<u8>>,
    turn: u64,
    /// Keys by the turn in which each entry was made: the order of walks, which no use changes.
    made: BTreeMap<u64, Vec<u8>>,
    /// Of all entries.
    blocks: u64,
    pub stats: Stats,
    /// How far the slowest core that shares the table is behind the time of the one at hand, in ns.
    pub behind: u64,
    /// In the place of entries.
    sketch: Option<Sketch>,
    /// Of a HyperLogLog.
    pub registers: Vec<u8>,
    /// The entries are elsewhere.
    pub outside: Option<Outside>,
}

impl Table {
    /// `sketch`: of a table that keeps no entries.
    pub fn new(limits: Limits, sketch: Option<Sketch>) -> Table {
        Table {
            limits,
            sketch,
            entries: HashMap::new(),
            order: BTreeMap::new(),
            turn: 0,
            made: BTreeMap::new(),
            blocks: 0,
            stats: Stats::default(),
            behind: 0,
            registers: Vec::new(),
            outside: None,
        }
    }

    fn is_over(&self, e: &Entry, now: u64) -> bool {
        self.limits.idle != 0 && e.touched.saturating_add(self.limits.idle) < now
    }

    fn oldest(&self, keep: &[u8]) -> Option<Vec<u8>> {
        self.order.values().find(|k| &k[..] != keep).cloned()
    }

    /// Drops up to `most` entries whose time is over for all cores, the longest unused first. Every
    /// operation drops a few.
    fn expire(&mut self, now: u64, most: usize) -> bool {
        let past = now - self.behind;
        let over = |key: &&Vec<u8>| self.entries.get(*key).is_some_and(|e| self.is_over(e, past));
        let oldest = self.order.values().take(most);
        // In the order of use an expired entry may lie behind others.
        let keys: Vec<Vec<u8>> = match self.limits.from_write {
            true => oldest.filter(over).cloned().collect(),
            false => oldest.take_while(over).cloned().collect(),
        };
        for key in &keys {
            self.take(key);
            self.stats.expired += 1;
        }
        !keys.is_empty()
    }

    /// Makes sure that an entry whose time is over is not found.
    fn seek(&mut self, key: &[u8], now: u64) -> bool {
        self.expire(now, 4);
        match self.entries.get(key) {
            Some(e) if self.is_over(e, now) => {
                self.take(key);
                self.stats.expired += 1;
                false
            }
            found => found.is_some(),
        }
    }

    fn take(&mut self, key: &[u8]) -> bool {
        let Some(e) = self.entries.remove(key) else { return false };
        self.order.remove(&e.turn);
        self.made.remove(&e.made);
        self.take_blocks(self.blocks - e.blocks);
        self.stats.entries = self.entries.len() as u64;
        true
    }

    fn take_blocks(&mut self, all: u64) {
        self.blocks = all;
        self.stats.bytes = all * self.limits.blocks.map_or(0, |b| b.data);
    }

    /// Whether the size of entries matters.
    pub fn has_blocks(&self) -> bool {
        self.limits.blocks.is_some()
    }

    /// Looks an entry up; that counts as a use of it.
    pub fn get(&mut self, key: &[u8], now: u64) -> Option<Value> {
        if let Some(o) = &self.outside {
            return o.table.get(key).map(|v| o.value(&v));
        }
        if self.sketch.is_some() {
            return self.peek(key, now);
        }
        if !self.seek(key, now) {
            self.stats.misses += 1;
            return None;
        }
        self.stats.hits += 1;
        self.turn += 1;
        let e = self.entries.get_mut(key)?;
        self.order.remove(&e.turn);
        (e.turn, e.touched) = (self.turn, if self.limits.from_write { e.touched } else { e.touched.max(now) });
        self.order.insert(self.turn, key.to_vec());
        Some(e.value.clone())
    }

    /// The entry that an update begins with; its use is counted when it is written.
    pub fn peek(&mut self, key: &[u8], now: u64) -> Option<Value> {
        if self.outside.is_some() {
            return self.get(key, now);
        }
        if let Some(s) = &self.sketch {
            return Some(s.value(key));
        }
        if self.seek(key, now) {
            self.entries.get(key).map(|e| e.value.clone())
        } else {
            None
        }
    }

    /// `size`: encoded bytes of key and value, if the table has blocks. False: the table is full.
    /// An entry that has no room for its new value is lost.
    pub fn put(&mut self, key: &[u8], value: Value, size: u64, now: u64) -> bool {
        if let Some(o) = &self.outside {
            let mut form = Vec::new();
            canonical(&o.module, o.value, &value, true, &mut form);
            return o.table.put(key, &form);
        }
        if let Some(s) = &mut self.sketch {
            let fresh = u64::from(s.note(key, &value));
            (self.stats.entries, self.stats.inserts) = (self.stats.entries + fresh, self.stats.inserts + fresh);
            return true;
        }
        let old = self.seek(key, now);
        while !old && self.entries.len() as u64 >= self.limits.capacity {
            if !self.expire(now, 16) && !self.evict(key) {
                self.stats.rejected += 1;
                return false;
            }
        }
        let (made, touched) = self.entries.get(key).map(|e| (e.made, e.touched)).unzip();
        self.take(key);
        let blocks = self.limits.blocks.map_or(0, |b| b.of(size));
        let most = self.limits.blocks.map_or(0, |b| b.count);
        while self.blocks + blocks > most {
            if blocks > most || !(self.expire(now, 16) || self.evict(key)) {
                self.stats.rejected += 1;
                return false;
            }
        }
        self.stats.inserts += !old as u64;
        self.turn += 1;
        self.order.insert(self.turn, key.to_vec());
        let made = made.unwrap_or(self.turn);
        self.made.insert(made, key.to_vec());
        self.entries.insert(
            key.to_vec(),
            Entry { value, blocks, touched: now.max(touched.unwrap_or(0)), turn: self.turn, made },
        );
        self.take_blocks(self.blocks + blocks);
        self.stats.entries = self.entries.len() as u64;
        true
    }

    /// Drops the least recently used entry but `keep`, if the table may.
    fn evict(&mut self, keep: &[u8]) -> bool {
        let Some(key) = self.oldest(keep).filter(|_| self.limits.evict_lru) else { return false };
        self.take(&key);
        self.stats.evictions += 1;
        true
    }

    /// A step of a walk: the place behind the entry at or behind a place, and the entry.
    pub fn step(&mut self, place: u64, now: u64) -> Option<(u64, Vec<u8>, Value)> {
        if let Some(o) = &self.outside {
            return o.table.next(place).map(|(at, k, v)| (at, k, o.value(&v)));
        }
        self.expire(now, usize::MAX);
        let (made, key) = self.made.range(place..).next()?;
        Some((made + 1, key.clone(), self.entries.get(key)?.value.clone()))
    }

    pub fn remove(&mut self, key: &[u8], now: u64) -> bool {
        if let Some(o) = &self.outside {
            return o.table.remove(key);
        }
        self.seek(key, now) && self.take(key)
    }

    /// Entries that have not expired.
    pub fn len(&mut self, now: u64) -> u64 {
        if let Some(o) = &self.outside {
            return o.table.entries();
        }
        self.expire(now, usize::MAX);
        if self.sketch.is_some() {
            self.stats.entries
        } else {
            self.entries.len() as u64
        }
    }
}
