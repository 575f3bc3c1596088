//! The entries of a wildcard table in the hook.
//!
//! A bucket is a list of entries, in maps that the process shares with the kernel. Only the process
//! changes them, and packets take no lock. An entry is complete before it is linked, and does not
//! change then: another value is another entry, in front of the old one. The place of an entry that
//! was unlinked is not used again before each program that may be at it has ended.

use crate::error::missing;
use crate::kernel;
use crate::maps::map_of;
use crate::shared::Shared;
use crate::wildcard_masks::{hash_of, id_of};
use crate::Error;
use aya::Ebpf;
use std::time::Duration;
use wireloom_codegen_c::xdp::XdpTable;

pub struct WildcardEntries {
    entries: Shared,
    heads: Shared,
    buckets: u64,
    /// Words of a key, and of an entry.
    keys: usize,
    words: usize,
    /// Places that were never used begin here, and end there.
    fresh: u64,
    places: u64,
    free: Vec<u64>,
    /// Unlinked: a program may be at them.
    left: Vec<u64>,
}

/// The longest that a program runs, where the kernel does not say when it has ended.
const LONGEST: Duration = Duration::from_millis(300);

/// Words of an entry: `struct …_entry` of `codegen-c/src/xdp/table_kinds.rs`.
const NEXT: usize = 0;
const ID: usize = 1;
const KEY: usize = 2;

impl WildcardEntries {
    pub fn new(ebpf: &Ebpf, t: &XdpTable) -> Result<WildcardEntries, Error> {
        let (keys, values) = (t.key_words(), t.value_words().max(1));
        let words = KEY + keys + 1 + values;
        let shared = |name: &str, bytes: u64| {
            let map = map_of(ebpf, name).map_err(|_| missing(name))?;
            Shared::writable(map, bytes as usize)
        };
        Ok(WildcardEntries {
            entries: shared(&t.map, 8 * words as u64 * t.places())?,
            heads: shared(&t.heads(), 8 * t.buckets())?,
            buckets: t.buckets(),
            keys,
            words,
            fresh: 1,
            places: t.places(),
            free: Vec::new(),
            left: Vec::new(),
        })
    }

    /// Links an entry; gives its place. `None`: there is no room.
    pub fn link(&mut self, number: u64, key: &[u64], priority: u64, value: &[u64]) -> Option<u64> {
        let (place, head) = (self.place()?, self.head_of(number, key));
        let at = |word: usize| 8 * (place as usize * self.words + word);
        self.entries.set(at(NEXT), self.heads.word(head));
        self.entries.set(at(ID), id_of(number));
        let rest = [key, &[priority], value].concat();
        rest.iter().enumerate().for_each(|(n, w)| self.entries.set(at(KEY + n), *w));
        self.heads.set(head, place);
        Some(place)
    }

    /// Takes an entry out of its bucket.
    pub fn unlink(&mut self, number: u64, key: &[u64], place: u64) {
        debug_assert_eq!(key.len(), self.keys);
        let next = |place: u64| self.entries.word(8 * place as usize * self.words);
        let head = self.head_of(number, key);
        let mut before = self.heads.word(head);
        if before == place {
            self.heads.set(head, next(place))
        } else {
            while before != 0 && next(before) != place {
                before = next(before)
            }
            if before != 0 {
                self.entries.set(8 * before as usize * self.words, next(place))
            }
        }
        self.left.push(place)
    }

    /// A place that no program is at.
    fn place(&mut self) -> Option<u64> {
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        if self.fresh < self.places {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        if !self.left.is_empty() && !kernel::await_programs() {
            std::thread::sleep(LONGEST)
        }
        self.free.append(&mut self.left);
        self.free.pop()
    }

    /// Where the first entry of a key's bucket is noted: as `map_place` of `WL_WILDCARD` in
    /// `support/bpf.h`.
    fn head_of(&self, number: u64, key: &[u64]) -> usize {
        let hash = hash_of(number, key);
        let mixed = (hash ^ hash >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        8 * (mixed & (self.buckets - 1)) as usize
    }
}
