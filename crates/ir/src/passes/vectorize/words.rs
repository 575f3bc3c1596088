//! The words of frames that are loaded.

use super::Vectorizer;
use crate::header_bits::Bits;
use crate::plans::{MaskRef, NumberRef, VectorOp};
use std::collections::{BTreeMap, BTreeSet};

/// Frames have at least so many bytes, or are not vectorized. (Without VBMI, a load takes sixteen
/// bytes around each word.)
const LEAST: u32 = 28;
/// Words and bytes that one load takes.
const WORDS: usize = 8;
const WINDOW: u32 = 64;

/// Words of four bytes that hold all that is read, within the `least` bytes that frames have.
pub(super) fn words(reads: &BTreeSet<(u32, u32)>, least: u32) -> Option<Vec<u32>> {
    let mut words: Vec<u32> = Vec::new();
    for (at, n) in reads {
        if at + n > least || least < LEAST {
            return None;
        }
        if words.iter().any(|word| holds(*word, *at, *n)) {
            continue;
        }
        // Best at a multiple of four bytes from the word before it.
        let fits = |word: &u32| holds(*word, *at, *n) && *word + 4 <= least;
        let near = words.last().and_then(|last| (*last..=*at).rev().find(|word| (word - last) % 4 == 0).filter(fits));
        words.push(near.unwrap_or((*at).min(least - 4)));
    }
    Some(words)
}

fn holds(word: u32, at: u32, n: u32) -> bool {
    at >= word && at + n <= word + 4
}

/// The words that are loaded together with one, and where the bytes begin that are loaded for them.
fn loaded_with(words: &[u32], word: u32) -> (&[u32], u32) {
    let mut rest = words;
    loop {
        let n = rest.iter().take(WORDS).take_while(|w| **w + 4 <= rest[0] + WINDOW).count();
        let (list, others) = rest.split_at(n);
        // Frames most often begin with a line of the cache.
        if list.contains(&word) {
            return (list, if list[n - 1] + 4 <= WINDOW { 0 } else { list[0] });
        }
        rest = others;
    }
}

impl Vectorizer<'_> {
    /// The word that holds bytes of the frames, and where they are in it.
    pub(super) fn bytes(&mut self, at: u32, n: u32) -> (NumberRef, u32) {
        self.reads.insert((at, n));
        let Some(word) = self.words.iter().copied().find(|word| holds(*word, at, n)) else {
            // In the first run.
            return (NumberRef::Word { rows: 0, word: 0 }, 0);
        };
        let (list, from) = loaded_with(&self.words, word);
        let (places, number) = (list.to_vec(), list.iter().position(|w| *w == word).unwrap_or(0));
        let to = self.stack.least.min(from + WINDOW);
        let rows = self.value(None, VectorOp::Words { from, to, places });
        (NumberRef::Word { rows, word: number as u32 }, at - word)
    }

    /// The frames that have these bits.
    pub(super) fn same(&mut self, bits: &Bits) -> MaskRef {
        let mut words: BTreeMap<NumberRef, (u32, u32)> = BTreeMap::new();
        for (at, (mask, value)) in bits {
            let (word, by) = self.bytes(*at, 1);
            let w = words.entry(word).or_default();
            *w = (w.0 | u32::from(*mask) << (8 * by), w.1 | u32::from(*value) << (8 * by));
        }
        let mut all = MaskRef::All;
        for (of, (mask, value)) in words {
            let has = self.mask(VectorOp::Has { of, mask, value });
            all = self.and(all, has);
        }
        all
    }
}
