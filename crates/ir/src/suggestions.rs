//! Suggestions for a misspelt name. In: a word and the known words. Out: the nearest of them.

use std::cmp::Reverse;

/// The known word that `word` probably means, if any is near: one edit for short words, a quarter
/// of the letters for long ones.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let limit = match word.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        n => 1 + n / 4,
    };
    known.into_iter().filter_map(|k| Some((rank(word, k, limit)?, k))).min().map(|(_, k)| k)
}

/// The order of candidates within `limit` edits: the fewest first; of equals, the one that begins
/// most like the word, since people get beginnings right.
pub fn rank(word: &str, known: &str, limit: usize) -> Option<(usize, Reverse<usize>)> {
    if word.len().abs_diff(known.len()) > limit * 4 {
        return None;
    }
    let edits = distance(word, known);
    let common = || word.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
    (edits <= limit).then(|| (edits, Reverse(common())))
}

/// `; did you mean …?`, or nothing.
pub fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map_or(String::new(), |k| format!("; did you mean `{k}`?"))
}

/// The same where something follows either way: `; did you mean …?`, or `;`.
pub fn lead<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    Some(hint(word, known)).filter(|h| !h.is_empty()).unwrap_or_else(|| ";".into())
}

/// Edits between two words: a letter put in, left out, exchanged, or swapped with its neighbour.
/// Words over 64 letters are far from all.
fn distance(a: &str, b: &str) -> usize {
    let long = |s: &str| s.chars().nth(64).is_some();
    if long(a) || long(b) {
        return usize::MAX;
    }
    strsim::osa_distance(a, b)
}
