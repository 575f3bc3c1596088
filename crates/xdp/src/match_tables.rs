//! Prefixes and wildcard tables of the hook, which the process changes.
//!
//! A packet finds either the old entry or the new one: an entry is exchanged as a whole. A mask is
//! listed before its first entry is there, and its highest priority is raised before an entry of it
//! is added. `codegen-c/src/xdp/table_kinds.rs` has the maps, `wildcard_masks.rs` the masks,
//! `wildcard_entries.rs` the entries.

use crate::kernel::{map_delete, map_update};
use crate::maps::map_of;
use crate::wildcard_entries::WildcardEntries;
use crate::wildcard_masks::WildcardMasks;
use aya::Ebpf;
use std::collections::HashMap;
use std::io;
use wireloom_codegen_c::xdp::XdpTable;
use wireloom_interp::{Pattern, Ranked};
use wireloom_ir::TableKind;

/// The entries of a table of patterns.
#[derive(Default)]
pub struct Patterns {
    /// Of a wildcard table.
    pub wildcard: Option<WildcardTable>,
}

/// A wildcard table.
pub struct WildcardTable {
    pub masks: WildcardMasks,
    pub entries: WildcardEntries,
    capacity: usize,
    /// By key and number of the mask: the entry's priority, one above the program's, and its place.
    known: HashMap<(Vec<u64>, u64), (u64, u64)>,
}

impl WildcardTable {
    pub fn new(masks: WildcardMasks, entries: WildcardEntries, t: &XdpTable) -> WildcardTable {
        WildcardTable { masks, entries, capacity: t.capacity as usize, known: HashMap::new() }
    }
}

/// Bytes in whole words.
fn padded(bytes: &[u8], words: usize) -> Vec<u8> {
    let mut all = bytes.to_vec();
    all.resize(8 * words, 0);
    all
}

fn words_of(bytes: &[u8], words: usize) -> Vec<u64> {
    padded(bytes, words).chunks_exact(8).map(|w| w.try_into().map_or(0, u64::from_ne_bytes)).collect()
}

impl Patterns {
    /// Sets or removes an entry of a table in the maps of `ebpf`.
    pub fn set(&mut self, ebpf: &Ebpf, t: &XdpTable, pattern: Pattern, entry: Option<Ranked>) -> io::Result<()> {
        match (&mut self.wildcard, t.kind) {
            (None, TableKind::Lpm) => set_prefix(ebpf, t, pattern, entry),
            (Some(wildcard), _) => wildcard.set(t, pattern, entry),
            (None, _) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl WildcardTable {
    fn set(&mut self, t: &XdpTable, pattern: Pattern, entry: Option<Ranked>) -> io::Result<()> {
        let (key, mask) = (words_of(pattern.key, t.key_words()), words_of(pattern.mask, t.key_words()));
        let number = match self.masks.number_of(&mask) {
            Some(number) => number,
            None if entry.is_none() => return Ok(()),
            None => self.masks.add(&mask).ok_or(io::ErrorKind::StorageFull)?,
        };
        let id = (key, number);
        let old = self.known.get(&id).copied();
        match entry {
            Some(_) if old.is_none() && self.known.len() >= self.capacity => {
                return Err(io::ErrorKind::StorageFull.into())
            }
            Some(e) => {
                let priority = e.priority as u64 + 1;
                self.masks.raise(number, priority);
                self.masks.expect(number, &id.0);
                let value = words_of(e.value, t.value_words().max(1));
                let Some(place) = self.entries.link(number, &id.0, priority, &value) else {
                    self.masks.forget(number, &id.0);
                    self.masks.lower(number, priority);
                    return Err(io::ErrorKind::StorageFull.into());
                };
                self.known.insert(id.clone(), (priority, place));
            }
            None => drop(self.known.remove(&id)),
        }
        if let Some((priority, place)) = old {
            self.entries.unlink(number, &id.0, place);
            self.masks.forget(number, &id.0);
            self.masks.lower(number, priority);
        }
        Ok(())
    }
}

fn set_prefix(ebpf: &Ebpf, t: &XdpTable, pattern: Pattern, entry: Option<Ranked>) -> io::Result<()> {
    let bits: u32 = pattern.mask.iter().map(|b| b.count_ones()).sum();
    let mut key = bits.to_ne_bytes().to_vec();
    match t.reversed {
        true => key.extend(pattern.key.iter().rev()),
        false => key.extend(pattern.key),
    }
    match entry {
        Some(e) => map_update(map_of(ebpf, &t.map)?, &key, &padded(e.value, t.value_words().max(1))),
        None => map_delete(map_of(ebpf, &t.map)?, &key),
    }
}
