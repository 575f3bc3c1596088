//! Bloom filters and count-min sketches. In: keys. Out: whether a key was added, or its count at
//! least. Memory is bounded by the capacity, whatever the keys.
//!
//! They have the sizes and places of `support/sketch.h` (Kirsch and Mitzenmacher), with another
//! hash. Its secret is new in each process, as that of compiled code. So both are wrong as rarely,
//! for different keys.

use crate::value::Value;
use std::hash::{BuildHasher, RandomState};
use wireloom_ir::TableKind;

/// Places of a key in a Bloom filter, and rows of a count-min sketch.
const BLOOM_PLACES: u64 = 7;
const ROWS: u64 = 4;

pub struct Sketch {
    /// Bits, or counters.
    words: Vec<u64>,
    /// Of a filter, or of each row.
    places: u64,
    of: TableKind,
    hasher: RandomState,
}

impl Sketch {
    /// `None`: a table of this kind is none.
    pub fn new(of: TableKind, capacity: u64) -> Option<Sketch> {
        let places = match of {
            TableKind::Bloom => (capacity * 10).next_multiple_of(512),
            TableKind::CountMin => (2 * capacity).next_power_of_two(),
            TableKind::Exact
            | TableKind::Wildcard
            | TableKind::Lpm
            | TableKind::Array
            | TableKind::Ring
            | TableKind::HyperLogLog => return None,
        };
        Some(Sketch { words: Vec::new(), places, of, hasher: RandomState::new() })
    }

    /// The places of a key, in the order of rows.
    fn places(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let (h, places, bloom) = (self.hasher.hash_one(key), self.places, self.of == TableKind::Bloom);
        (0..if bloom { BLOOM_PLACES } else { ROWS }).map(move |i| {
            let x = h.wrapping_add(i.wrapping_mul(h.rotate_left(32) | 1)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            let place = ((u128::from(x) * u128::from(places)) >> 64) as u64;
            (if bloom { place } else { i * places + place }) as usize
        })
    }

    /// 1 for a key that was added, or 0; or the count of a key, or more.
    fn get(&self, key: &[u8]) -> u64 {
        if self.words.is_empty() {
            return 0;
        }
        let value =
            |p: usize| if self.of == TableKind::Bloom { self.words[p / 64] >> (p % 64) & 1 } else { self.words[p] };
        self.places(key).map(value).min().unwrap_or(0)
    }

    /// The value of a key's entry.
    pub fn value(&self, key: &[u8]) -> Value {
        let n = self.get(key);
        if self.of == TableKind::Bloom {
            Value::Bool(n == 1)
        } else {
            Value::Int(n.into())
        }
    }

    /// Gives a key's entry a value. Whether a filter did not have it.
    pub fn note(&mut self, key: &[u8], value: &Value) -> bool {
        self.raise(key, value.as_int().unwrap_or(0) as u64)
    }

    /// Adds a key, or raises its count. Whether a filter did not have it.
    fn raise(&mut self, key: &[u8], to: u64) -> bool {
        if self.words.is_empty() {
            let words = if self.of == TableKind::Bloom { self.places / 64 } else { ROWS * self.places };
            self.words = vec![0; words as usize];
        }
        let mut fresh = false;
        for p in self.places(key) {
            if self.of == TableKind::CountMin {
                self.words[p] = self.words[p].max(to);
            } else if to > 0 {
                fresh |= self.words[p / 64] >> (p % 64) & 1 == 0;
                self.words[p / 64] |= 1 << (p % 64);
            }
        }
        fresh
    }
}
