//! Prefixes and wildcard tables of the hook, which the process changes.
//!
//! A packet finds either the old entry or the new one: an entry is exchanged as a whole. A mask is
//! listed before its first entry is there, and its highest priority is raised before an entry of it
//! is added. `codegen-c/src/xdp/table_kinds.rs` has the maps, `wild_masks.rs` the masks.

use crate::kernel::{map_delete, map_update};
use crate::maps::map_of;
use aya::Ebpf;
use crate::wild_masks::{id_of, WildMasks};
use std::collections::HashMap;
use std::io;
use wireloom_codegen_c::xdp::XdpTable;
use wireloom_interp::{Pattern, Ranked};
use wireloom_ir::TableKind;

/// The entries of a table of patterns.
#[derive(Default)]
pub struct Patterns {
    /// Of a wildcard table.
    pub masks: Option<WildMasks>,
    /// Priority of each entry, one above the program's, by its key and the number of its mask.
    entries: HashMap<(Vec<u64>, u64), u64>,
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
        match t.kind {
            TableKind::Lpm => set_prefix(ebpf, t, pattern, entry),
            TableKind::Wildcard => self.set_entry(ebpf, t, pattern, entry),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn set_entry(&mut self, ebpf: &Ebpf, t: &XdpTable, pattern: Pattern, entry: Option<Ranked>) -> io::Result<()> {
        let masks = self.masks.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let (words, mask) = (words_of(pattern.key, t.key_words()), words_of(pattern.mask, t.key_words()));
        let number = match masks.number_of(&mask) {
            Some(number) => number,
            None if entry.is_none() => return Ok(()),
            None => masks.add(&mask).ok_or(io::ErrorKind::StorageFull)?,
        };
        let id = (words, number);
        let old = self.entries.get(&id).copied();
        let mut key = padded(pattern.key, t.key_words());
        key.extend(id_of(number).to_ne_bytes());
        let map = map_of(ebpf, &t.map)?;
        match entry {
            Some(e) => {
                let priority = e.priority as u64 + 1;
                masks.raise(number, priority);
                masks.expect(number, &id.0);
                let mut value = priority.to_ne_bytes().to_vec();
                value.extend(padded(e.value, t.value_words().max(1)));
                if let Err(e) = map_update(map, &key, &value) {
                    masks.lower(number, priority);
                    masks.forget(number, &id.0);
                    return Err(e);
                }
                self.entries.insert(id.clone(), priority);
            }
            None => {
                map_delete(map, &key)?;
                self.entries.remove(&id);
            }
        }
        if let Some(old) = old {
            masks.forget(number, &id.0);
            masks.lower(number, old);
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
