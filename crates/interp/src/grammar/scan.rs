//! Searches for literals and delimiters in bytes of which more may follow. Every answer is the same
//! for any way of cutting the input. Where the available bytes do not decide, the answer is "more".

use wireloom_ir::ByteSet;

/// The result of a literal at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Yes(usize),
    No,
    /// The bytes end inside a possible match.
    More,
}

/// Whether one of the literals stands at the start of `b`; the first in order that does. `last`: no
/// more bytes come.
pub fn literal(b: &[u8], values: &[Vec<u8>], last: bool) -> Match {
    for v in values {
        if b.starts_with(v) {
            return Match::Yes(v.len());
        }
        if !last && b.len() < v.len() && v.starts_with(b) {
            return Match::More;
        }
    }
    Match::No
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelimiterSearch {
    /// Offset of the delimiter and its length.
    At(usize, usize),
    /// None within the first `max + 1` positions.
    TooLong,
    /// The bytes do not decide; so many of them cannot belong to a delimiter.
    More(usize),
    /// A byte outside the class comes first, here.
    Illegal(usize),
}

/// The first delimiter at one of the offsets 0 to `max`, with only bytes of the class before it.
/// The bytes decide in their order: whichever of delimiter, illegal byte and maximum comes first.
/// `last`: no more bytes come.
pub fn delimiter(b: &[u8], delimiters: &[Vec<u8>], max: usize, class: Option<&ByteSet>, last: bool) -> DelimiterSearch {
    // Few bytes begin a delimiter: the others need one look.
    let mut begins = ByteSet([0; 4]);
    delimiters.iter().filter_map(|d| d.first()).for_each(|d| begins.add(*d));
    for at in 0..=b.len() {
        let found = match b.get(at) {
            Some(x) if !begins.has(*x) => Match::No,
            _ => literal(&b[at..], delimiters, last),
        };
        match found {
            Match::Yes(n) if n > 0 => return DelimiterSearch::At(at, n),
            Match::More => return DelimiterSearch::More(at),
            _ if at >= max => return DelimiterSearch::TooLong,
            _ => {}
        }
        if at < b.len() && class.is_some_and(|c| !c.has(b[at])) {
            return DelimiterSearch::Illegal(at);
        }
    }
    DelimiterSearch::More(b.len())
}
