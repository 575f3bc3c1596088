//! Damages programs. In: a program and all others, as tokens. Out: text that is mostly close to a
//! program, so that errors are met in every stage. Words are exchanged for others of the same kind.
//! Lines, bracketed groups and items of other programs are put in. Numbers go to the bounds of
//! types. A few times the bytes are no text at all.

use super::corpus::Program;
use std::ops::Range;
use wireloom_interp::generate::Rng;
use wireloom_syntax::ast::FileId;
use wireloom_syntax::{lexer, parse};

/// A program cut up.
struct Cut {
    /// Tokens, each with what stands before it.
    pieces: Vec<(String, String)>,
    /// The text between a bracket and its partner, both included.
    groups: Vec<Range<usize>>,
    lines: Vec<String>,
    items: Vec<String>,
}

pub struct Mutator {
    cuts: Vec<Cut>,
    words: Vec<String>,
    signs: Vec<String>,
    pub rng: Rng,
}

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "8",
    "63",
    "64",
    "65",
    "127",
    "128",
    "255",
    "256",
    "4096",
    "4097",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211455",
    "340282366920938463463374607431768211456",
    "0x",
    "0b2",
    "1KiB",
    "16MiB",
    "5GiB",
    "18446744073709551615GiB",
    "1ns",
    "99999999999h",
    "0s",
    "1ms",
    "\"\"",
    "'a'",
    "none",
    "true",
    "10.0.0.1",
    "10.0.0.0/8",
    "10.0.0.1:80",
];

/// Tokens that may often stand for one another.
const KIN: &[&[&str]] = &[
    &["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "+|", "-|"],
    &["==", "!=", "<", "<=", ">", ">=", "~=", "is", "in"],
    &["and", "or", "else"],
    &[
        "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "bool", "duration", "instant", "u3", "u24",
        "u48", "ip", "endpoint", "mac", "prefix", "fault",
    ],
    &["decimal", "hex", "varint"],
    &["bytes", "token", "text"],
    &["big", "little"],
    &["until", "to", "of", "stream", "trim"],
    &[
        "min",
        "max",
        "len",
        "hash",
        "lower",
        "upper",
        "text",
        "find",
        "some",
        "concat",
        "raw",
        "u32",
        "u64",
        "be32",
        "from_be32",
        "md5",
        "crc32",
        "sha1",
        "sha256",
        "from_hex",
        "xor",
        "is_utf8",
    ],
    &["aes_ctr", "aes_cbc_encrypt", "aes_cbc_decrypt", "hmac_sha1", "hmac_sha256", "slice"],
    &["aes_gcm_seal", "aes_gcm_open"],
    &["any", "all", "count", "first"],
    &["let", "var"],
    &["reply", "call", "fault", "return", "log", "drop", "become", "hold", "release"],
    &["in_order", "pipelined", "exclusive", "stateless", "caseless", "peek", "close"],
    &["state", "session", "counter", "param"],
    &["request", "response", "client", "req"],
    &["true", "false", "none", "now", "some"],
    &["idle", "capacity", "evict", "reject", "memory", "lru"],
    &["skip", "pad", "flag"],
];

const ODD: &[&str] = &[
    "\u{feff}",
    "\u{0}",
    "\u{202e}",
    "é",
    "日本語",
    "\u{1f600}",
    "\u{a0}",
    "\u{2028}",
    "\u{85}",
    "\r",
    "\u{c}",
    "\"",
    "\"\\x",
    "'",
    "//",
    "///",
    "/*",
    "`",
    "\\",
    "\t",
    "\u{7f}",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    "...",
    "..=",
    "|",
    "->",
];

fn is_word(s: &str) -> bool {
    s.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn is_number(s: &str) -> bool {
    s.starts_with(|c: char| c.is_ascii_digit())
}

fn cut(text: &str) -> Cut {
    let tokens = lexer::lex(FileId(0), text, &mut Vec::new()).tokens;
    let mut pieces: Vec<(String, String)> = Vec::new();
    let mut end = 0;
    for t in &tokens {
        let (from, to) = (t.span.start as usize, t.span.end as usize);
        pieces.push((
            text.get(end..from).unwrap_or_default().to_string(),
            text.get(from..to).unwrap_or_default().to_string(),
        ));
        end = to.max(end);
    }
    let (mut groups, mut open) = (Vec::new(), Vec::new());
    for (i, (_, t)) in pieces.iter().enumerate() {
        match t.as_str() {
            "(" | "[" | "{" => open.push(i),
            ")" | "]" | "}" => groups.extend(open.pop().map(|o| o..i + 1)),
            _ => {}
        }
    }
    let items = parse(FileId(0), text).file.items;
    let items =
        items.iter().filter_map(|i| text.get(i.span.start as usize..i.span.end as usize)).map(str::to_string).collect();
    let lines = text
        .lines()
        .filter(|l| !l.trim().is_empty() && !l.trim().starts_with("//"))
        .map(|l| format!("\n{l}\n"))
        .collect();
    Cut { pieces, groups, lines, items }
}

impl Mutator {
    pub fn new(programs: &[Program], seed: u64) -> Self {
        let cuts: Vec<Cut> = programs.iter().map(|p| cut(&p.text)).collect();
        let all = || cuts.iter().flat_map(|c| &c.pieces).map(|p| p.1.clone()).filter(|t| !t.is_empty());
        let distinct = |keep: fn(&str) -> bool| {
            let mut found: Vec<String> = all().filter(|t| keep(t)).collect();
            found.sort();
            found.dedup();
            found
        };
        Mutator {
            words: distinct(is_word),
            signs: distinct(|t| !is_word(t) && !is_number(t)),
            rng: Rng::new(seed),
            cuts,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn cut(&mut self) -> usize {
        self.below(self.cuts.len())
    }

    /// A damaged version of the program with this number.
    pub fn mutant(&mut self, program: usize) -> Vec<u8> {
        let mut pieces = self.cuts[program].pieces.clone();
        // Half of them by one step that often leaves a program.
        match self.rng.chance(50) {
            true => self.slight(program, &mut pieces),
            false => (0..1 + self.below(3)).for_each(|_| self.change(program, &mut pieces)),
        }
        let mut text: String = pieces.iter().flat_map(|(gap, t)| [gap.as_str(), t]).collect();
        if self.rng.chance(10) {
            let from = self.cut();
            let n = self.cuts[from].items.len();
            if n > 0 {
                let i = self.below(n);
                text = format!("{text}\n{}\n", self.cuts[from].items[i]);
            }
        }
        if self.rng.chance(3) {
            text = text.replace('\n', "\r\n");
        }
        let mut bytes = text.into_bytes();
        if self.rng.chance(3) {
            let at = self.below(bytes.len().max(1));
            match self.below(3) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), self.rng.below(256) as u8),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b = b.wrapping_add(1)),
            }
        }
        bytes
    }

    /// A change that often leaves a program: a sign, type, number or word for another one of its
    /// kind; a line removed or doubled.
    fn slight(&mut self, program: usize, pieces: &mut Vec<(String, String)>) {
        if pieces.len() < 2 {
            return;
        }
        let kin = KIN[self.below(KIN.len())];
        let start = self.below(pieces.len());
        let fits = (start..pieces.len()).chain(0..start).find(|i| kin.contains(&pieces[*i].1.as_str()));
        match (self.below(6), fits) {
            (0..=2, Some(i)) => pieces[i].1 = kin[self.below(kin.len())].into(),
            (3, _) => self.number(pieces),
            (4, _) => {
                let is_start = |i: &usize| pieces[*i].0.contains('\n');
                let Some(from) = (start..pieces.len()).find(is_start) else { return };
                let Some(to) = (from + 1..pieces.len()).find(is_start) else { return };
                let line = pieces[from..to].to_vec();
                match self.rng.chance(50) {
                    true => drop(pieces.drain(from..to)),
                    false => drop(pieces.splice(from..from, line)),
                }
            }
            _ => self.name(program, pieces),
        }
    }

    /// One change of some tokens.
    fn change(&mut self, program: usize, pieces: &mut Vec<(String, String)>) {
        let n = pieces.len();
        if n < 2 {
            return;
        }
        let (i, j) = (self.below(n), self.below(n));
        match self.below(16) {
            0 => drop(pieces.remove(i)),
            1 => pieces.insert(j, pieces[i].clone()),
            2 => {
                let other = pieces[j].1.clone();
                pieces[j].1 = std::mem::replace(&mut pieces[i].1, other);
            }
            3 => pieces[i].1 = self.some_token(program),
            4 => pieces.insert(i, (" ".into(), self.some_token(program))),
            5 => {
                let to = (i + 1 + self.below(12)).min(n);
                pieces.drain(i..to);
            }
            6 => pieces[i].0.push_str(ODD[self.below(ODD.len())]),
            7 | 8 => self.number(pieces),
            9..=11 => self.name(program, pieces),
            12 | 13 => self.line(program, pieces, i),
            _ => self.group(program, pieces),
        }
    }

    fn some_token(&mut self, program: usize) -> String {
        let (words, signs) = (self.below(self.words.len()), self.below(self.signs.len()));
        match self.below(4) {
            0 => self.words[words].clone(),
            1 => self.signs[signs].clone(),
            2 => NUMBERS[self.below(NUMBERS.len())].into(),
            _ => {
                let i = self.below(self.cuts[program].pieces.len());
                self.cuts[program].pieces[i].1.clone()
            }
        }
    }

    /// The index of a token of a kind, looked for from a random place on.
    fn find(&mut self, pieces: &[(String, String)], fits: fn(&str) -> bool) -> Option<usize> {
        let start = self.below(pieces.len());
        (start..pieces.len()).chain(0..start).find(|i| fits(&pieces[*i].1))
    }

    fn number(&mut self, pieces: &mut [(String, String)]) {
        if let Some(i) = self.find(pieces, is_number) {
            pieces[i].1 = NUMBERS[self.below(NUMBERS.len())].into();
        }
    }

    /// A name for another one: of the same program mostly, so that it has a meaning.
    fn name(&mut self, program: usize, pieces: &mut [(String, String)]) {
        let Some(i) = self.find(pieces, is_word) else { return };
        let near = self.rng.chance(80);
        let other = match near {
            true => {
                let own = std::mem::take(&mut self.cuts[program].pieces);
                let found = self.find(&own, is_word).map(|j| own[j].1.clone());
                self.cuts[program].pieces = own;
                found.unwrap_or_default()
            }
            false => {
                let j = self.below(self.words.len());
                self.words[j].clone()
            }
        };
        // Now and then everywhere, which keeps the program whole.
        let old = pieces[i].1.clone();
        match self.rng.chance(20) {
            true => pieces.iter_mut().filter(|p| p.1 == old).for_each(|p| p.1 = other.clone()),
            false => pieces[i].1 = other,
        }
    }

    /// A whole line of some program, at the end of a line.
    fn line(&mut self, program: usize, pieces: &mut [(String, String)], from: usize) {
        let at = (from..pieces.len()).find(|i| pieces[*i].0.contains('\n')).unwrap_or(pieces.len() - 1);
        let source = if self.rng.chance(60) { program } else { self.cut() };
        let n = self.cuts[source].lines.len();
        if n > 0 {
            let i = self.below(n);
            let line = self.cuts[source].lines[i].clone();
            pieces[at].0.push_str(&line);
        }
    }

    /// A bracketed group for another one of the same brackets.
    fn group(&mut self, program: usize, pieces: &mut Vec<(String, String)>) {
        let mut now = cut(&pieces.iter().flat_map(|(gap, t)| [gap.as_str(), t]).collect::<String>());
        let source = if self.rng.chance(60) { program } else { self.cut() };
        let (n, m) = (now.groups.len(), self.cuts[source].groups.len());
        if n == 0 || m == 0 {
            return;
        }
        let place = now.groups[self.below(n)].clone();
        let start = self.below(m);
        let bracket = &now.pieces[place.start].1;
        let from = &self.cuts[source];
        let fits =
            (start..m).chain(0..start).map(|g| from.groups[g].clone()).find(|g| from.pieces[g.start].1 == *bracket);
        if let Some(g) = fits {
            now.pieces.splice(place, from.pieces[g].to_vec());
            *pieces = now.pieces;
        }
    }
}
