//! The masks of a wildcard table in the hook, and the filter in front of its entries.
//!
//! In memory that programs read: a head, and two lists of masks. The head names one of them, and
//! how many masks it has. It also says whether those with the highest priorities stand first. Then
//! a packet that has found an entry looks at no mask that has no better one. While entries change,
//! masks keep their places; [`WildcardMasks::sort`] writes them anew into the other list.
//!
//! The filter has a bit for each hash of a masked key. It is set before the entry is there, and
//! cleared behind the last entry that has it.

use crate::direct::Direct;
use crate::kernel;
use crate::shared::Shared;
use crate::Error;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use wireloom_codegen_c::xdp::table_kinds::MASKS;
use wireloom_codegen_c::xdp::XdpTable;

/// A mask.
struct Mask {
    words: Vec<u64>,
    /// How many entries have a priority.
    priorities: BTreeMap<u64, usize>,
}

impl Mask {
    fn top(&self) -> u64 {
        self.priorities.keys().next_back().copied().unwrap_or(0)
    }
}

pub struct WildcardMasks {
    masks: Vec<Mask>,
    /// By place in the list: the mask.
    order: Vec<usize>,
    /// The first place of the list at hand: 0 or [`MASKS`].
    first: usize,
    /// No mask stands in front of one with a higher priority.
    sorted: bool,
    list: Shared,
    filter: Shared,
    filter_words: u64,
    /// Entries that have a bit, by its number.
    counts: HashMap<u64, u32>,
}

/// The memory of a wildcard table, for programs that are to be loaded.
pub struct WildcardMemory {
    list: Direct,
    filter: Direct,
}

/// Words of a place of the list before those of the mask.
const HEAD: usize = 2;

fn bytes_of_list(t: &XdpTable) -> usize {
    8 * (HEAD + t.key_words()) * (1 + 2 * MASKS as usize)
}

impl WildcardMemory {
    pub fn new(t: &XdpTable) -> Result<WildcardMemory, Error> {
        let (list, filter) = t.wildcard_numbers();
        let name = |letter: char| format!("{letter}{}", &t.map[1..]);
        Ok(WildcardMemory {
            list: Direct::new(&name('m'), list, bytes_of_list(t))?,
            filter: Direct::new(&name('f'), filter, 8 * t.filter_words() as usize)?,
        })
    }

    pub fn put_into(&self, object: &mut [u8]) {
        self.list.put_into(object);
        self.filter.put_into(object)
    }
}

impl WildcardMasks {
    pub fn new(t: &XdpTable, memory: &WildcardMemory) -> Result<WildcardMasks, Error> {
        Ok(WildcardMasks {
            masks: Vec::new(),
            order: Vec::new(),
            first: 0,
            sorted: true,
            list: Shared::writable(memory.list.map(), bytes_of_list(t))?,
            filter: Shared::writable(memory.filter.map(), 8 * t.filter_words() as usize)?,
            filter_words: t.filter_words(),
            counts: HashMap::new(),
        })
    }

    pub fn number_of(&self, mask: &[u64]) -> Option<u64> {
        self.masks.iter().position(|m| m.words == mask).map(|n| n as u64 + 1)
    }

    /// Lists a mask, in the place of one without entries, if there is such a one. `None`: there is
    /// no room.
    pub fn add(&mut self, mask: &[u64]) -> Option<u64> {
        let new = Mask { words: mask.to_vec(), priorities: BTreeMap::new() };
        if let Some(free) = self.masks.iter().position(|m| m.priorities.is_empty()) {
            self.masks[free] = new;
            self.write(free);
            return Some(free as u64 + 1);
        }
        if self.masks.len() >= MASKS as usize {
            return None;
        }
        self.order.push(self.masks.len());
        self.masks.push(new);
        self.write(self.masks.len() - 1);
        self.write_head();
        Some(self.masks.len() as u64)
    }

    /// An entry of a mask will have this priority.
    pub fn raise(&mut self, number: u64, priority: u64) {
        let mask = number as usize - 1;
        *self.masks[mask].priorities.entry(priority).or_default() += 1;
        self.write(mask)
    }

    /// No longer.
    pub fn lower(&mut self, number: u64, priority: u64) {
        let mask = number as usize - 1;
        let priorities = &mut self.masks[mask].priorities;
        if let Some(n) = priorities.get_mut(&priority) {
            *n -= 1;
            if *n == 0 {
                priorities.remove(&priority);
            }
        }
        self.write(mask)
    }

    /// There will be an entry with this masked key.
    pub fn expect(&mut self, number: u64, key: &[u64]) {
        let (at, bit) = self.bit_of(number, key);
        *self.counts.entry(at as u64 * 8 + bit).or_default() += 1;
        self.filter.or(at, 1 << bit)
    }

    /// There is none any more.
    pub fn forget(&mut self, number: u64, key: &[u64]) {
        let (at, bit) = self.bit_of(number, key);
        let id = at as u64 * 8 + bit;
        let Some(n) = self.counts.get_mut(&id) else { return };
        *n -= 1;
        if *n == 0 {
            self.counts.remove(&id);
            self.filter.set(at, self.filter.word(at) & !(1 << bit))
        }
    }

    /// Puts masks with the highest priorities first, if they do not stand so.
    pub fn sort(&mut self) {
        if self.sorted {
            return;
        }
        let mut order = self.order.clone();
        order.sort_by_key(|n| Reverse(self.masks[*n].top()));
        if order != self.order {
            // Nobody reads the other list any more, whenever it was left.
            if !kernel::await_programs() {
                return;
            }
            (self.order, self.first) = (order, MASKS as usize - self.first);
            (0..self.masks.len()).for_each(|n| self.write(n));
        }
        self.sorted = true;
        self.write_head()
    }

    /// Writes a mask in its place. Before one with a lower priority stands in front of one with a
    /// higher one, the head says so.
    fn write(&mut self, mask: usize) {
        let Some(place) = self.order.iter().position(|n| *n == mask) else { return };
        let top = |place: usize| self.order.get(place).map(|n| self.masks[*n].top());
        let before = place.checked_sub(1).and_then(top);
        let falls = before.is_some_and(|t| Some(t) < top(place)) || top(place + 1) > top(place);
        if self.sorted && falls {
            self.sorted = false;
            self.write_head()
        }
        let (m, words) = (&self.masks[mask], HEAD + self.masks[mask].words.len());
        let at = 8 * words * (1 + self.first + place);
        if m.priorities.is_empty() {
            self.list.set(at, 0)
        }
        self.list.set(at + 8, id_of(mask as u64 + 1));
        for (n, w) in m.words.iter().enumerate() {
            self.list.set(at + 8 * (HEAD + n), *w)
        }
        self.list.set(at, m.top())
    }

    fn write_head(&self) {
        let sorted = u64::from(self.sorted) << 63;
        self.list.set(0, sorted | self.order.len() as u64 | (self.first as u64) << 32)
    }

    /// The word and the bit of the filter: as `map_find` of `WL_WILDCARD` in `support/bpf.h`.
    fn bit_of(&self, number: u64, key: &[u64]) -> (usize, u64) {
        let hash = hash_of(number, key);
        (8 * ((hash >> 32 ^ hash) & (self.filter_words - 1)) as usize, hash >> 58)
    }
}

/// Of hashes.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a masked key: as `map_hash` there.
pub fn hash_of(number: u64, key: &[u64]) -> u64 {
    let part = |(n, w): (u64, &u64)| w.wrapping_mul(FACTOR + 2 * n);
    (0..).zip(key).map(part).fold(id_of(number), u64::wrapping_add)
}

/// A mask in keys, by its number.
pub fn id_of(number: u64) -> u64 {
    number.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
