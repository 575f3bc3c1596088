//! Values of a JSON text (RFC 8259) by their path; the C is `support/json.h`.
//!
//! A value is given only if all of the text is valid: UTF-8, and at most 64 objects and arrays in
//! one another. Of equal keys the last one counts.

use std::ops::Range;

const DEPTH: u32 = 64;

enum JsonStep<'a> {
    Key(&'a [u8]),
    Index(u32),
}

/// The steps of a path: 1, the length (2 bytes, low first), a key; or 2, an index (4 bytes).
fn steps(mut path: &[u8]) -> Option<Vec<JsonStep<'_>>> {
    let mut all = Vec::new();
    while let [kind, rest @ ..] = path {
        let size = if *kind == 1 { 2 } else { 4 };
        let (number, rest) = rest.split_at_checked(size)?;
        let number = number.iter().rev().fold(0u32, |n, b| n << 8 | u32::from(*b));
        if *kind == 1 {
            let (key, rest) = rest.split_at_checked(number as usize)?;
            all.push(JsonStep::Key(key));
            path = rest;
        } else {
            all.push(JsonStep::Index(number));
            path = rest;
        }
    }
    Some(all)
}

struct Text<'a> {
    b: &'a [u8],
    at: usize,
    found: Option<Range<usize>>,
}

/// The path from the value at hand on, if that lies on it.
type Rest<'p> = Option<&'p [JsonStep<'p>]>;

impl Text<'_> {
    fn peek(&self) -> Option<u8> {
        self.b.get(self.at).copied()
    }

    fn eat(&mut self, c: u8) -> bool {
        let is = self.peek() == Some(c);
        self.at += usize::from(is);
        is
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u32, path: Rest) -> Option<()> {
        self.blanks();
        let from = self.at;
        match self.peek()? {
            b'{' | b'[' => self.container(depth, path)?,
            b'"' => {
                self.string()?;
            }
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            _ => self.number()?,
        }
        if path.is_some_and(<[_]>::is_empty) {
            self.found = Some(from..self.at);
        }
        Some(())
    }

    fn container(&mut self, depth: u32, path: Rest) -> Option<()> {
        if depth == DEPTH {
            return None;
        }
        let array = self.peek() == Some(b'[');
        let end = if array { b']' } else { b'}' };
        self.at += 1;
        self.blanks();
        if self.eat(end) {
            return Some(());
        }
        for index in 0u32.. {
            let key = if array { None } else { Some(self.key()?) };
            let rest = match (path.and_then(<[_]>::split_first), &key) {
                (Some((JsonStep::Key(wanted), rest)), Some(Some(key))) if *wanted == key.as_slice() => Some(rest),
                (Some((JsonStep::Index(wanted), rest)), None) if *wanted == index => Some(rest),
                _ => None,
            };
            if rest.is_some() {
                self.found = None;
            }
            self.value(depth + 1, rest)?;
            self.blanks();
            if self.eat(end) {
                return Some(());
            }
            if !self.eat(b',') {
                return None;
            }
        }
        None
    }

    /// A key and its colon. The inner option: its characters, if UTF-8 has them.
    fn key(&mut self) -> Option<Option<Vec<u8>>> {
        self.blanks();
        if self.peek() != Some(b'"') {
            return None;
        }
        let key = self.string()?;
        self.blanks();
        self.eat(b':').then_some(key)
    }

    fn string(&mut self) -> Option<Option<Vec<u8>>> {
        self.at += 1;
        let mut chars = Some(Vec::new());
        loop {
            if self.eat(b'"') {
                return Some(chars);
            }
            match (self.character()?, &mut chars) {
                (Some(c), Some(all)) => all.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                _ => chars = None,
            }
        }
    }

    /// The inner option: none is half of a surrogate pair.
    fn character(&mut self) -> Option<Option<char>> {
        let rest = &self.b[self.at..];
        match rest {
            [0..0x20, ..] | [] => None,
            [b'\\', b'u', ..] => {
                let first = hex4(rest.get(2..6)?)?;
                if let (0xd800..0xdc00, Some([b'\\', b'u', low @ ..])) = (first, rest.get(6..12)) {
                    if let Some(low @ 0xdc00..0xe000) = hex4(low) {
                        self.at += 12;
                        return Some(char::from_u32(0x10000 + ((first - 0xd800) << 10 | (low - 0xdc00))));
                    }
                }
                self.at += 6;
                Some(char::from_u32(first))
            }
            [b'\\', escaped, ..] => {
                let at = b"\"\\/bfnrt".iter().position(|c| c == escaped)?;
                self.at += 2;
                Some(Some(['"', '\\', '/', '\u{8}', '\u{c}', '\n', '\r', '\t'][at]))
            }
            [b'\\'] => None,
            _ => {
                let most = &rest[..rest.len().min(4)];
                let valid = match std::str::from_utf8(most) {
                    Ok(s) => s,
                    Err(e) => std::str::from_utf8(&most[..e.valid_up_to()]).ok()?,
                };
                let c = valid.chars().next()?;
                self.at += c.len_utf8();
                Some(Some(c))
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.b[self.at..].starts_with(word).then(|| self.at += word.len())
    }
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |n, d| Some(n << 4 | char::from(*d).to_digit(16)?))
}

/// The text of the value at a path.
pub fn raw<'b>(b: &'b [u8], path: &[u8]) -> Option<&'b [u8]> {
    let steps = steps(path)?;
    let mut text = Text { b, at: 0, found: None };
    text.value(0, Some(&steps))?;
    text.blanks();
    if text.at < b.len() {
        return None;
    }
    Some(&b[text.found?])
}

/// The characters of the string at a path.
pub fn text(b: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let raw = raw(b, path)?;
    if raw.first() != Some(&b'"') {
        return None;
    }
    Text { b: raw, at: 0, found: None }.string()?
}

/// The whole number at a path, without fraction and exponent.
pub fn int(b: &[u8], path: &[u8]) -> Option<i64> {
    std::str::from_utf8(raw(b, path)?).ok().filter(|t| !t.starts_with('+'))?.parse().ok()
}
