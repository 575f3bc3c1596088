//! The scratch of a processor, as far as the program decides: places of constants, and of wide
//! entries of tables.

use std::cell::Cell;
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
    /// Calls that a handler may still have in line.
    pub in_line: InLine,
}

/// How many calls of each kind a handler has in line: the first ones. A call of a function costs
/// as much as some twenty instructions. But the verifier follows a function once, and code in line
/// at each place.
#[derive(Default)]
pub(crate) struct InLine([Cell<u32>; 4]);

#[derive(Clone, Copy)]
pub(crate) enum Call {
    Find,
    Hash,
    Read,
    Payload,
}

impl InLine {
    /// At the beginning of a handler.
    pub fn begin(&self) {
        self.set([2, 1, 1, 1])
    }

    /// At the end of a handler: functions have none.
    pub fn end(&self) {
        self.set([0; 4])
    }

    fn set(&self, left: [u32; 4]) {
        self.0.iter().zip(left).for_each(|(cell, n)| cell.set(n))
    }

    /// The end of the name of the function: `_near`, or nothing.
    pub fn suffix(&self, call: Call) -> &'static str {
        let left = &self.0[call as usize];
        match left.get() {
            0 => "",
            n => {
                left.set(n - 1);
                "_near"
            }
        }
    }
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
