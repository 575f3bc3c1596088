//! Cuts a text into tokens and comments. Errors become diagnostics and [`Tok::Bad`] tokens, and
//! lexing continues.

use crate::ast::{FileId, Span};
use crate::diagnostic::Diagnostic;
use crate::token::{Comment, Lexed, Tok, Token, SIGNS};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Suffixes of numbers: sizes, times, rates.
pub const SUFFIXES: &[&str] =
    &["K", "M", "G", "KiB", "MiB", "GiB", "ns", "us", "ms", "s", "m", "h", "bps", "Kbps", "Mbps", "Gbps"];

/// Errors after this many are not reported: the file is not a program.
const MAX_ERRORS: usize = 64;

pub fn lex(file: FileId, text: &str, diagnostics: &mut Vec<Diagnostic>) -> Lexed {
    let lexed = Lexed { tokens: Vec::new(), comments: Vec::new(), docs: Vec::new(), file_doc: String::new() };
    let mut lexer =
        Lexer { file, text, bytes: text.as_bytes(), at: 0, newline: true, doc: String::new(), lexed, diagnostics };
    lexer.run();
    lexer.lexed
}

struct Lexer<'a> {
    file: FileId,
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// A line break was seen since the last token.
    newline: bool,
    /// Doc lines waiting for their token.
    doc: String,
    lexed: Lexed,
    diagnostics: &'a mut Vec<Diagnostic>,
}

fn is_word_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_'
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

impl Lexer<'_> {
    fn run(&mut self) {
        // Some editors begin files with a byte order mark.
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
        }
        while let Some(b) = self.peek(0) {
            match b {
                b'\n' => {
                    self.newline = true;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if self.peek(1) == Some(b'/') => self.comment(),
                b'/' if self.peek(1) == Some(b'*') => self.foreign_comment("/*"),
                b'#' => self.foreign_comment("#"),
                _ => self.token(b),
            }
        }
        self.push(Tok::End, self.at);
    }

    fn token(&mut self, b: u8) {
        let start = self.at;
        if self.address() {
            return;
        }
        match b {
            b'b' if self.peek(1) == Some(b'"') => {
                self.at += 1;
                self.string(start);
            }
            b'"' => self.string(start),
            b'\'' => self.character(start),
            b'0'..=b'9' => self.number(start),
            b if is_word_start(b) => {
                self.skip_word();
                self.push(Tok::Word, start);
            }
            _ => self.sign(start),
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn skip_word(&mut self) {
        while self.peek(0).is_some_and(is_word) {
            self.at += 1;
        }
    }

    fn span(&self, start: usize) -> Span {
        Span { file: self.file, start: start as u32, end: self.at as u32 }
    }

    fn push(&mut self, tok: Tok, start: usize) {
        let doc = (!self.doc.is_empty()).then(|| {
            self.lexed.docs.push(std::mem::take(&mut self.doc));
            self.lexed.docs.len() as u32 - 1
        });
        let span = self.span(start);
        self.lexed.tokens.push(Token { tok, span, newline: self.newline, doc });
        self.newline = false;
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAX_ERRORS {
            self.diagnostics.push(diagnostic);
        }
    }

    fn comment(&mut self) {
        let start = self.at;
        let len = self.bytes[start..].iter().position(|&b| b == b'\n').unwrap_or(self.bytes.len() - start);
        self.at += len;
        let line = self.text[start..self.at].trim_end();
        self.at = start + line.len();
        let before = self.lexed.tokens.len();
        self.lexed.comments.push(Comment { span: self.span(start), own_line: self.newline, before });
        let add = |doc: &mut String, line: &str| {
            if !doc.is_empty() {
                doc.push('\n');
            }
            doc.push_str(line.strip_prefix(' ').unwrap_or(line));
        };
        if let Some(rest) = line.strip_prefix("//!") {
            if before == 0 {
                add(&mut self.lexed.file_doc, rest);
            }
        } else if let Some(rest) = line.strip_prefix("///") {
            add(&mut self.doc, rest);
        }
    }

    /// A comment of other languages: `# …` to the end of the line, `/* … */`.
    fn foreign_comment(&mut self, sign: &str) {
        let start = self.at;
        let rest = &self.text[start..];
        let line = rest.find('\n').unwrap_or(rest.len());
        let end = if sign == "#" { None } else { rest.find("*/").map(|n| n + 2) };
        self.at += sign.len();
        let d = Diagnostic::error("E0001", self.span(start), format!("`{sign}` means nothing here"));
        self.error(d.hint("a comment is `// …`, to the end of the line"));
        self.at = start + end.unwrap_or(line);
        self.newline |= rest[..end.unwrap_or(line)].contains('\n');
    }

    fn sign(&mut self, start: usize) {
        let rest = &self.text[start..];
        if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
            self.at += sign.len();
            self.push(Tok::Sign(sign), start);
            return;
        }
        // One report for a whole run of characters that mean nothing here.
        let known = |c: char| c.is_ascii() && !c.is_ascii_control() && c != '`' && c != '\\';
        let len: usize = rest.chars().take_while(|&c| !known(c) && c != '\n').map(char::len_utf8).sum();
        self.at += len.max(1);
        let shown: String = self.text[start..self.at].chars().take(12).collect();
        let d = Diagnostic::error("E0001", self.span(start), format!("`{}` means nothing here", shown.escape_debug()))
            .hint(if shown.starts_with(['“', '”', '„', '‘', '’', '«', '»']) {
                "strings stand in plain quotes: \"text\""
            } else {
                "names are ASCII letters, digits and `_`; other characters may stand in strings and comments"
            });
        self.error(d);
        self.push(Tok::Bad, start);
    }

    // ---- strings ----

    fn string(&mut self, start: usize) {
        self.at += 1;
        let mut value = Vec::new();
        loop {
            match self.peek(0) {
                None | Some(b'\n') => {
                    let d = Diagnostic::error("E0002", self.span(start), "this string has no end on its line")
                        .label("it starts here")
                        .hint("close it with `\"`; a line break inside is written `\\n`");
                    self.error(d);
                    break;
                }
                Some(b'"') => {
                    self.at += 1;
                    break;
                }
                Some(b'\\') => value.extend(self.escape()),
                Some(b) => {
                    value.push(b);
                    self.at += 1;
                }
            }
        }
        self.push(Tok::Bytes(value), start);
    }

    /// One escape sequence; None (reported) when it means nothing.
    fn escape(&mut self) -> Option<u8> {
        let start = self.at;
        self.at += 1;
        let c = self.text[self.at..].chars().next().filter(|&c| c != '\n')?;
        self.at += c.len_utf8();
        match c {
            'r' => return Some(b'\r'),
            'n' => return Some(b'\n'),
            't' => return Some(b'\t'),
            '0' => return Some(0),
            '\\' | '"' | '\'' => return Some(c as u8),
            'x' => {
                let digits: String = self.text[self.at..].chars().take(2).take_while(char::is_ascii_hexdigit).collect();
                self.at += digits.len();
                if digits.len() == 2 {
                    return u8::from_str_radix(&digits, 16).ok();
                }
            }
            _ => {}
        }
        let d = Diagnostic::error("E0003", self.span(start), format!("`{}` is no escape", &self.text[start..self.at]))
            .hint("escapes are \\r \\n \\t \\0 \\\\ \\\" \\' and \\xHH with two hex digits");
        self.error(d);
        None
    }

    fn character(&mut self, start: usize) {
        self.at += 1;
        let value = match self.peek(0) {
            Some(b'\\') => self.escape(),
            Some(b) if b.is_ascii() && b != b'\n' && b != b'\'' => {
                self.at += 1;
                Some(b)
            }
            _ => None,
        };
        if value.is_some() && self.peek(0) == Some(b'\'') {
            self.at += 1;
            self.push(Tok::Int(value.map_or(0, u128::from)), start);
            return;
        }
        // Go on after the closing quote when there is one on this line.
        let line = self.text[self.at..].split('\n').next().unwrap_or("");
        self.at += line.find('\'').map_or(0, |i| i + 1);
        let d =
            Diagnostic::error("E0007", self.span(start), "a byte in single quotes is one ASCII character or escape")
                .hint("write several bytes as a string: \"ab\"");
        self.error(d);
        self.push(Tok::Bad, start);
    }

    // ---- numbers ----

    fn number(&mut self, start: usize) {
        let radix = match (self.peek(0), self.peek(1)) {
            (Some(b'0'), Some(b'x')) => 16,
            (Some(b'0'), Some(b'b')) => 2,
            _ => 10,
        };
        if radix != 10 {
            self.at += 2;
            self.skip_word();
            let digits: String = self.text[start + 2..self.at].chars().filter(|&c| c != '_').collect();
            let value = u128::from_str_radix(&digits, radix).ok();
            return self.push_number(start, value.map(Tok::Int));
        }
        while self.peek(0).is_some_and(|b| b.is_ascii_digit() || b == b'_') {
            self.at += 1;
        }
        let value = self.text[start..self.at].replace('_', "").parse::<u128>().ok();
        let suffix_at = self.at;
        self.skip_word();
        let suffix = &self.text[suffix_at..self.at];
        if suffix.is_empty() {
            self.fraction(start);
            return self.push_number(start, value.map(Tok::Int));
        }
        if SUFFIXES.contains(&suffix) {
            let tok = value.map(|v| Tok::Scaled(v, suffix.to_string()));
            return self.push_number(start, tok);
        }
        let d = Diagnostic::error("E0005", self.span(suffix_at), format!("`{suffix}` is no suffix of a number"))
            .hint(format!("the suffixes are {}", SUFFIXES.join(" ")));
        self.error(d);
        self.push(Tok::Bad, start);
    }

    /// Reports `1.5`: there are no fractions. After a `.` a number is a field (`client.2`), so
    /// nothing is said there.
    fn fraction(&mut self, start: usize) {
        let after_dot = matches!(self.lexed.tokens.last(), Some(t) if t.tok == Tok::Sign("."));
        if after_dot || self.peek(0) != Some(b'.') || !self.peek(1).is_some_and(|b| b.is_ascii_digit()) {
            return;
        }
        self.at += 1;
        self.skip_word();
        let d = Diagnostic::error("E0004", self.span(start), "there are no fractions")
            .hint("use a smaller unit: `1500ms` for 1.5 s");
        self.error(d);
    }

    fn push_number(&mut self, start: usize, tok: Option<Tok>) {
        if tok.is_none() {
            let d = Diagnostic::error("E0004", self.span(start), "this is not a number of at most 128 bits")
                .hint("numbers are `1_000`, `0x1f`, `0b101`, or have a suffix as in `64KiB` and `10ms`");
            self.error(d);
        }
        self.push(tok.unwrap_or(Tok::Bad), start);
    }

    // ---- addresses ----

    /// Takes an address if one starts here. A name may look like the start of one (`fe80::1`,
    /// `ab:cd:…`), but only a complete address is taken.
    fn address(&mut self) -> bool {
        let start = self.at;
        let first = self.bytes[start];
        let after_dot =
            matches!(self.lexed.tokens.last(), Some(t) if t.tok == Tok::Sign(".") && t.span.end as usize == start);
        let taken = match first {
            _ if after_dot => None,
            b'[' => self.bracketed(),
            b'0'..=b'9' => self.mac().or_else(|| self.ip6()).or_else(|| self.ip4()),
            b':' | b'a'..=b'f' | b'A'..=b'F' => self.mac().or_else(|| self.ip6()),
            _ => None,
        };
        let Some(taken) = taken else { return false };
        self.at = start + taken.len;
        if let Some(problem) = taken.problem {
            let d = Diagnostic::error(
                "E0006",
                self.span(start),
                format!("`{}` is no address: {problem}", &self.text[start..self.at]),
            )
            .hint("addresses are `10.0.0.1`, `10.0.0.0/8`, `127.0.0.1:80`, `::1`, `[::1]:80`, `02:00:00:00:00:01`");
            self.error(d);
            self.push(Tok::Bad, start);
        } else {
            self.push(Tok::Address(self.text[start..self.at].to_string()), start);
        }
        true
    }

    fn run_len(&self, from: usize, ok: impl Fn(u8) -> bool) -> usize {
        self.bytes[from..].iter().take_while(|&&b| ok(b)).count()
    }

    fn ends_word(&self, at: usize) -> bool {
        !self.bytes.get(at).copied().is_some_and(is_word)
    }

    fn mac(&self) -> Option<Taken> {
        let text = self.bytes.get(self.at..self.at + 17)?;
        let fits = text.iter().enumerate().all(|(i, b)| if i % 3 == 2 { *b == b':' } else { b.is_ascii_hexdigit() });
        let end = self.at + 17;
        (fits && self.ends_word(end) && self.bytes.get(end) != Some(&b':')).then_some(Taken { len: 17, problem: None })
    }

    fn ip6(&self) -> Option<Taken> {
        let mut len = self.run_len(self.at, |b| b.is_ascii_hexdigit() || b == b':' || b == b'.').min(45);
        if !self.ends_word(self.at + len)
            || self.bytes[self.at..self.at + len].iter().filter(|&&b| b == b':').count() < 2
        {
            return None;
        }
        // `::1..` or `::1:`: the next sign is not part of the address.
        while len > 1 && self.text[self.at..self.at + len].parse::<Ipv6Addr>().is_err() {
            if !matches!(self.bytes[self.at + len - 1], b':' | b'.') {
                return None;
            }
            len -= 1;
        }
        (len > 1).then(|| self.prefix_length(len, 128))
    }

    fn ip4(&self) -> Option<Taken> {
        let len = self.run_len(self.at, |b| b.is_ascii_digit() || b == b'.');
        let text = &self.text[self.at..self.at + len];
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() < 4 || parts[..4].iter().any(|p| p.is_empty()) {
            return None;
        }
        let len = parts[..4].iter().map(|p| p.len()).sum::<usize>() + 3;
        if self.text[self.at..self.at + len].parse::<Ipv4Addr>().is_err() {
            return Some(Taken { len, problem: Some("each of the four numbers is 0 to 255, without leading zeros") });
        }
        Some(self.port(len).unwrap_or_else(|| self.prefix_length(len, 32)))
    }

    fn bracketed(&self) -> Option<Taken> {
        let inner = self.run_len(self.at + 1, |b| b.is_ascii_hexdigit() || b == b':' || b == b'.');
        let close = self.at + 1 + inner;
        if self.bytes.get(close) != Some(&b']') || self.bytes.get(close + 1) != Some(&b':') {
            return None;
        }
        self.text[self.at + 1..close].parse::<Ipv6Addr>().ok()?;
        self.port(inner + 2)
    }

    /// `:port` after an address of `len` bytes.
    fn port(&self, len: usize) -> Option<Taken> {
        let at = self.at + len;
        let digits =
            self.bytes.get(at).filter(|&&b| b == b':').map(|_| self.run_len(at + 1, |b| b.is_ascii_digit()))?;
        if digits == 0 {
            return None;
        }
        let fits = self.text[at + 1..at + 1 + digits].parse::<u16>().is_ok();
        Some(Taken { len: len + 1 + digits, problem: (!fits).then_some("a port is 0 to 65535") })
    }

    /// `/len` after an address of `len` bytes, if it is there.
    fn prefix_length(&self, len: usize, most: u32) -> Taken {
        let at = self.at + len;
        let digits = if self.bytes.get(at) == Some(&b'/') { self.run_len(at + 1, |b| b.is_ascii_digit()) } else { 0 };
        if digits == 0 {
            return Taken { len, problem: None };
        }
        let fits = self.text[at + 1..at + 1 + digits].parse::<u32>().is_ok_and(|n| n <= most);
        Taken { len: len + 1 + digits, problem: (!fits).then_some("the prefix is longer than the address") }
    }
}

/// An address: its length, and its error.
struct Taken {
    len: usize,
    problem: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toks(text: &str) -> Vec<Tok> {
        let mut errors = Vec::new();
        let lexed = lex(FileId(0), text, &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        lexed.tokens.into_iter().map(|t| t.tok).collect()
    }

    fn codes(text: &str) -> Vec<&'static str> {
        let mut errors = Vec::new();
        lex(FileId(0), text, &mut errors);
        errors.iter().map(|e| e.code).collect()
    }

    #[test]
    fn numbers_and_suffixes() {
        assert_eq!(toks("1_000 0x1f 0b101 'a' '\\n'")[..5], [1000, 31, 5, 97, 10].map(Tok::Int));
        assert_eq!(toks("64KiB")[0], Tok::Scaled(64, "KiB".into()));
        assert_eq!(
            codes("12q 0xzz 1.5 'ab' 340282366920938463463374607431768211456"),
            ["E0005", "E0004", "E0004", "E0007", "E0004"]
        );
        assert_eq!(toks("0..1")[1], Tok::Sign(".."));
    }

    #[test]
    fn addresses_in_all_their_forms() {
        for a in [
            "10.0.0.1",
            "10.0.0.0/8",
            "127.0.0.1:80",
            "[::1]:80",
            "::1",
            "fe80::1/64",
            "02:00:00:00:00:01",
            "ab:cd:ef:00:11:22",
        ] {
            assert_eq!(toks(a)[0], Tok::Address(a.into()));
        }
        assert_eq!(codes("300.0.0.1 10.0.0.0/33 1.2.3.4:70000"), ["E0006"; 3]);
        assert_eq!(toks("a:80")[0], Tok::Word);
        assert_eq!(toks("client.2")[2], Tok::Int(2));
    }

    #[test]
    fn strings_and_their_escapes() {
        assert_eq!(toks(r#"b"a\r\n\x41\"""#)[0], Tok::Bytes(b"a\r\nA\"".to_vec()));
        assert_eq!(codes("\"abc\n\"\\q\" \"\\x4\""), ["E0002", "E0003", "E0003"]);
    }

    #[test]
    fn comments_and_docs() {
        let lexed = lex(FileId(0), "//! top\n/// doc\n/// more\nunit // end\n", &mut Vec::new());
        assert_eq!(lexed.file_doc, "top");
        assert_eq!(lexed.docs, ["doc\nmore"]);
        assert_eq!(lexed.comments.iter().map(|c| c.own_line).collect::<Vec<_>>(), [true, true, true, false]);
    }

    #[test]
    fn what_means_nothing_is_one_error() {
        assert_eq!(codes("äöü `"), ["E0001", "E0001"]);
        assert_eq!(codes("\u{1}"), ["E0001"]);
    }
}
