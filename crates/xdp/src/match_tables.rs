//! Prefixes and wildcard tables of the hook, which the process changes.
//!
//! A packet finds either the old entry or the new one: an entry is exchanged as a whole. A mask is
//! listed before its first entry is there, and its highest priority is raised before an entry of it
//! is added. `codegen-c/src/xdp/table_kinds.rs` has the maps.

use crate::kernel::{map_delete, map_update};
use crate::maps::map_of;
use aya::Ebpf;
use std::collections::{BTreeMap, HashMap};
use std::io;
use wireloom_codegen_c::xdp::table_kinds::MASKS;
use wireloom_codegen_c::xdp::XdpTable;
use wireloom_interp::{Pattern, Ranked};
use wireloom_ir::TableKind;

/// A mask of a wildcard table.
#[derive(Default)]
struct Mask {
    bytes: Vec<u8>,
    /// How many entries have a priority.
    priorities: BTreeMap<u64, usize>,
}

impl Mask {
    fn top(&self) -> u64 {
        self.priorities.keys().next_back().copied().unwrap_or(0)
    }
}

/// The masks of a wildcard table, by place; the first one has number 1 in the map.
#[derive(Default)]
pub struct Masks {
    all: Vec<Mask>,
    /// Priority of each entry, one above the program's.
    entries: HashMap<(Vec<u8>, usize), u64>,
}

/// Bytes in whole words.
fn padded(bytes: &[u8], words: usize) -> Vec<u8> {
    let mut all = bytes.to_vec();
    all.resize(8 * words, 0);
    all
}

impl Masks {
    /// Sets or removes an entry of a table in the maps of `ebpf`.
    pub fn set(&mut self, ebpf: &Ebpf, t: &XdpTable, pattern: Pattern, entry: Option<Ranked>) -> io::Result<()> {
        match t.kind {
            TableKind::Lpm => set_prefix(ebpf, t, pattern, entry),
            TableKind::Wildcard => self.set_entry(ebpf, t, pattern, entry),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn set_entry(&mut self, ebpf: &Ebpf, t: &XdpTable, pattern: Pattern, entry: Option<Ranked>) -> io::Result<()> {
        let place = match self.place(pattern.mask) {
            Some(place) => place,
            None if entry.is_none() => return Ok(()),
            None => self.add(ebpf, t, pattern.mask)?,
        };
        let id = (pattern.key.to_vec(), place);
        let old = self.entries.get(&id).copied();
        let mut key = padded(pattern.key, t.key_words());
        key.extend((place as u64 + 1).to_ne_bytes());
        match entry {
            Some(e) => {
                let priority = e.priority as u64 + 1;
                *self.all[place].priorities.entry(priority).or_default() += 1;
                self.write(ebpf, t, place)?;
                let mut value = priority.to_ne_bytes().to_vec();
                value.extend(padded(e.value, t.value_words().max(1)));
                if let Err(e) = map_update(map_of(ebpf, &t.map)?, &key, &value) {
                    self.forget(place, priority);
                    self.write(ebpf, t, place)?;
                    return Err(e);
                }
                self.entries.insert(id, priority);
            }
            None => {
                map_delete(map_of(ebpf, &t.map)?, &key)?;
                self.entries.remove(&id);
            }
        }
        if let Some(old) = old {
            self.forget(place, old);
            self.write(ebpf, t, place)?;
        }
        Ok(())
    }

    fn forget(&mut self, place: usize, priority: u64) {
        let priorities = &mut self.all[place].priorities;
        if let Some(n) = priorities.get_mut(&priority) {
            *n -= 1;
            if *n == 0 {
                priorities.remove(&priority);
            }
        }
    }

    fn place(&self, mask: &[u8]) -> Option<usize> {
        self.all.iter().position(|m| m.bytes == mask)
    }

    /// Lists a mask, in the place of one without entries, if there is such a one.
    fn add(&mut self, ebpf: &Ebpf, t: &XdpTable, mask: &[u8]) -> io::Result<usize> {
        let free = self.all.iter().position(|m| m.priorities.is_empty());
        let place = free.unwrap_or(self.all.len());
        if place >= MASKS as usize {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let new = Mask { bytes: mask.to_vec(), ..Mask::default() };
        if free.is_some() {
            self.all[place] = new;
            return Ok(place);
        }
        self.all.push(new);
        self.write(ebpf, t, place)?;
        // Place 0 has their number.
        let mut count = (self.all.len() as u64).to_ne_bytes().to_vec();
        count.resize(8 * (1 + t.key_words()), 0);
        map_update(map_of(ebpf, &t.masks())?, &0u32.to_ne_bytes(), &count)?;
        Ok(place)
    }

    fn write(&self, ebpf: &Ebpf, t: &XdpTable, place: usize) -> io::Result<()> {
        let mask = &self.all[place];
        let mut value = mask.top().to_ne_bytes().to_vec();
        value.extend(padded(&mask.bytes, t.key_words()));
        map_update(map_of(ebpf, &t.masks())?, &(place as u32 + 1).to_ne_bytes(), &value)
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
