//! The text form's tokens.

use super::TextError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(String),
    Int(u128),
    Str(String),
    Bytes(Vec<u8>),
    /// One character; `->`, `=>` and `..` as [`ARROW`], [`FAT_ARROW`] and [`DOTS`].
    Sign(char),
    End,
}

pub(super) const ARROW: char = '→';
pub(super) const FAT_ARROW: char = '⇒';
pub(super) const DOTS: char = '…';

/// All tokens with their lines, the end included.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, u32)>, TextError> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut out = Vec::new();
    loop {
        let (token, line) = (lexer.next()?, lexer.line);
        let end = token == Token::End;
        out.push((token, line));
        if end {
            return Ok(out);
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn error<T>(&self, message: &str) -> Result<T, TextError> {
        Err(TextError { line: self.line, message: message.into() })
    }

    fn take(&mut self, n: usize) -> &'a str {
        let (head, tail) = self.rest.split_at(n);
        self.rest = tail;
        head
    }

    fn take_while(&mut self, ok: impl Fn(char) -> bool) -> &'a str {
        let n = self.rest.find(|c| !ok(c)).unwrap_or(self.rest.len());
        self.take(n)
    }

    fn skip_blank(&mut self) {
        loop {
            let blank = self.take_while(char::is_whitespace);
            self.line += blank.matches('\n').count() as u32;
            if !self.rest.starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn next(&mut self) -> Result<Token, TextError> {
        self.skip_blank();
        let Some(c) = self.rest.chars().next() else { return Ok(Token::End) };
        if self.rest.starts_with("b\"") {
            self.take(2);
            return Ok(Token::Bytes(self.bytes()?));
        }
        if c == '"' {
            self.take(1);
            return Ok(Token::Str(self.string()?));
        }
        if c.is_ascii_digit() {
            let digits = self.take_while(|c| c.is_ascii_digit());
            return digits.parse().map(Token::Int).or_else(|_| self.error("number too large"));
        }
        if c.is_ascii_alphabetic() || c == '_' {
            return Ok(Token::Word(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_').into()));
        }
        for (text, sign) in [("->", ARROW), ("=>", FAT_ARROW), ("..", DOTS)] {
            if self.rest.starts_with(text) {
                self.take(2);
                return Ok(Token::Sign(sign));
            }
        }
        self.take(c.len_utf8());
        Ok(Token::Sign(c))
    }

    fn char(&mut self) -> Result<char, TextError> {
        let Some(c) = self.rest.chars().next() else { return self.error("a string does not end") };
        if c == '\n' {
            return self.error("a string does not end on its line");
        }
        self.take(c.len_utf8());
        Ok(c)
    }

    /// Behind a backslash: goes to the next line's first character that is no space, if the line
    /// ends here.
    fn goes_on(&mut self) -> bool {
        let ends = self.rest.starts_with('\n');
        if ends {
            self.line += 1;
            self.take(1);
            self.take_while(|c| c == ' ');
        }
        ends
    }

    fn string(&mut self) -> Result<String, TextError> {
        let mut out = String::new();
        loop {
            match self.char()? {
                '"' => return Ok(out),
                '\\' if self.goes_on() => {}
                '\\' => match self.char()? {
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    'u' => {
                        let inner = self.rest.strip_prefix('{').and_then(|r| r.split_once('}')).map(|(hex, _)| hex);
                        let code = inner.and_then(|h| u32::from_str_radix(h, 16).ok()).and_then(char::from_u32);
                        let (Some(inner), Some(code)) = (inner, code) else { return self.error("bad \\u{…}") };
                        self.take(inner.len() + 2);
                        out.push(code);
                    }
                    c => out.push(c),
                },
                c => out.push(c),
            }
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, TextError> {
        let mut out = Vec::new();
        loop {
            match self.char()? {
                '"' => return Ok(out),
                '\\' if self.goes_on() => {}
                '\\' => match self.char()? {
                    'n' => out.push(b'\n'),
                    'r' => out.push(b'\r'),
                    't' => out.push(b'\t'),
                    'x' => {
                        let hex: String = [self.char()?, self.char()?].iter().collect();
                        match u8::from_str_radix(&hex, 16) {
                            Ok(b) => out.push(b),
                            Err(_) => return self.error("bad \\x"),
                        }
                    }
                    c if c.is_ascii() => out.push(c as u8),
                    _ => return self.error("bad escape"),
                },
                c if c.is_ascii() => out.push(c as u8),
                _ => return self.error("bytes above 0x7f are written \\xHH"),
            }
        }
    }
}
