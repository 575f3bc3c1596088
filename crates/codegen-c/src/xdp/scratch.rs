//! The scratch of a processor, as far as the program decides: places of constants, and of wide
//! entries of tables.

use std::collections::BTreeMap;

/// The scratch of a processor, as far as the program decides.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Places of constants.
    literals: BTreeMap<Vec<u8>, usize>,
    /// The place behind them.
    pub first: usize,
    /// Words for keys and values of tables that do not lie on the stack.
    pub wide: usize,
}

impl Scratch {
    /// The place of a constant.
    pub fn literal(&mut self, bytes: &[u8]) -> usize {
        let next = self.first;
        let at = *self.literals.entry(bytes.to_vec()).or_insert(next);
        if at == next {
            self.first += bytes.len().next_multiple_of(8)
        }
        at
    }

    /// Room for words of a key or value: the first one.
    pub fn room(&mut self, words: usize) -> usize {
        let first = self.wide;
        self.wide += words;
        first
    }
}
