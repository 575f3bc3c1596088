//! The base of all parts of the parser: tokens, references, lists, types. Recursive descent;
//! nesting is limited, so no input can exhaust the stack.

use super::lex::{tokens, Token, DOTS};
use super::TextError;
use crate::*;

pub(super) type Res<T> = Result<T, TextError>;

/// Deeper than anything the checker lets through: 256 arms of a `match`, each in the `else` of the
/// one before, and what is in them.
const MAX_NESTING: u32 = 600;

pub(super) struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    depth: u32,
    pub m: Module,
}

impl Parser {
    pub fn new(text: &str) -> Res<Self> {
        Ok(Parser { tokens: tokens(text)?, at: 0, depth: 0, m: Module::default() })
    }

    pub fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    pub fn error<T>(&self, message: impl Into<String>) -> Res<T> {
        Err(TextError { line: self.tokens[self.at.min(self.tokens.len() - 1)].1, message: message.into() })
    }

    pub fn bump(&mut self) -> Token {
        let t = self.peek().clone();
        if t != Token::End {
            self.at += 1
        }
        t
    }

    /// Runs `f` one level deeper.
    pub fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        if self.depth >= MAX_NESTING {
            return self.error("nested too deep");
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }

    pub fn is(&self, c: char) -> bool {
        *self.peek() == Token::Sign(c)
    }

    pub fn eat(&mut self, c: char) -> bool {
        let yes = self.is(c);
        if yes {
            self.at += 1
        }
        yes
    }

    pub fn sign(&mut self, c: char) -> Res<()> {
        if self.eat(c) {
            Ok(())
        } else {
            self.error(format!("expected `{c}`, found {:?}", self.peek()))
        }
    }

    pub fn is_word(&self, w: &str) -> bool {
        matches!(self.peek(), Token::Word(x) if x == w)
    }

    pub fn eat_word(&mut self, w: &str) -> bool {
        let yes = self.is_word(w);
        if yes {
            self.at += 1
        }
        yes
    }

    pub fn word(&mut self, w: &str) -> Res<()> {
        if self.eat_word(w) {
            Ok(())
        } else {
            self.error(format!("expected `{w}`, found {:?}", self.peek()))
        }
    }

    pub fn any_word(&mut self) -> Res<String> {
        match self.bump() {
            Token::Word(w) => Ok(w),
            t @ Token::Int(_) | t @ Token::Str(_) | t @ Token::Bytes(_) | t @ Token::Sign(_) | t @ Token::End => {
                self.error(format!("expected a word, found {t:?}"))
            }
        }
    }

    pub fn int(&mut self) -> Res<u128> {
        match self.bump() {
            Token::Int(n) => Ok(n),
            t @ Token::Word(_) | t @ Token::Str(_) | t @ Token::Bytes(_) | t @ Token::Sign(_) | t @ Token::End => {
                self.error(format!("expected a number, found {t:?}"))
            }
        }
    }

    pub fn num<T: TryFrom<u128>>(&mut self) -> Res<T> {
        let n = self.int()?;
        T::try_from(n).or_else(|_| self.error("number out of range"))
    }

    pub fn str(&mut self) -> Res<String> {
        match self.bump() {
            Token::Str(s) => Ok(s),
            t @ Token::Word(_) | t @ Token::Int(_) | t @ Token::Bytes(_) | t @ Token::Sign(_) | t @ Token::End => {
                self.error(format!("expected a string, found {t:?}"))
            }
        }
    }

    pub fn bytes(&mut self) -> Res<Vec<u8>> {
        match self.bump() {
            Token::Bytes(b) => Ok(b),
            t @ Token::Word(_) | t @ Token::Int(_) | t @ Token::Str(_) | t @ Token::Sign(_) | t @ Token::End => {
                self.error(format!("expected bytes, found {t:?}"))
            }
        }
    }

    /// `name#index`
    pub fn index(&mut self) -> Res<u32> {
        if matches!(self.peek(), Token::Word(_)) {
            self.at += 1
        }
        self.sign('#')?;
        self.num()
    }

    /// `(a, b, …)`
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Res<T>) -> Res<Vec<T>> {
        self.sign('(')?;
        let mut out = Vec::new();
        while !self.eat(')') {
            if !out.is_empty() {
                self.sign(',')?
            }
            out.push(item(self)?);
        }
        Ok(out)
    }

    /// `{ … }`, item after item.
    pub fn braces(&mut self, mut item: impl FnMut(&mut Self) -> Res<()>) -> Res<()> {
        self.sign('{')?;
        while !self.eat('}') {
            if *self.peek() == Token::End {
                return self.error("expected `}`");
            }
            item(self)?;
        }
        Ok(())
    }

    pub fn span(&mut self) -> Res<Span> {
        if !self.eat('@') {
            return Ok(Span::default());
        }
        let mut n = [0u32; 5];
        for (i, n) in n.iter_mut().enumerate() {
            if i > 0 {
                self.sign(':')?
            }
            *n = self.num()?;
        }
        let element = if self.eat(':') { self.num()? } else { 0 };
        Ok(Span { file: n[0], start: n[1], end: n[2], line: n[3], column: n[4], element })
    }

    pub fn end(&mut self) -> Res<Span> {
        self.sign(';')?;
        self.span()
    }

    pub fn ty(&mut self) -> Res<TyId> {
        let word = self.any_word()?;
        if let Some(n) = word.strip_prefix('t').and_then(|n| n.parse().ok()) {
            return Ok(TyId(n));
        }
        let ty = self.type_of(word)?;
        Ok(self.m.intern(ty))
    }

    pub fn type_of(&mut self, word: String) -> Res<Ty> {
        self.nested(|p| p.type_inner(&word))
    }

    fn type_inner(&mut self, word: &str) -> Res<Ty> {
        if let Some(bits) = word.strip_prefix('u').and_then(|n| n.parse().ok()) {
            return Ok(Ty::UInt(bits));
        }
        if let Some(bits) = word.strip_prefix('i').and_then(|n| n.parse().ok()) {
            return Ok(Ty::Int(bits));
        }
        match word {
            "unit" => return Ok(Ty::Unit),
            "bool" => return Ok(Ty::Bool),
            "endpoint" => return Ok(Ty::Endpoint),
            "ip" => return Ok(Ty::Ip),
            _ => {}
        }
        self.sign('<')?;
        let ty = match word {
            "bytes" => Ty::Bytes(self.num()?),
            "option" => Ty::Option(self.ty()?),
            "list" => {
                let t = self.ty()?;
                self.sign(',')?;
                Ty::List(t, self.num()?)
            }
            "record" => Ty::Record(RecordId(self.index()?)),
            "msg" => Ty::Msg(UnitId(self.index()?)),
            "tuple" => {
                let mut list = Vec::new();
                while !self.is('>') {
                    if !list.is_empty() {
                        self.sign(',')?
                    }
                    list.push(self.ty()?);
                }
                Ty::Tuple(list)
            }
            _ => return self.error(format!("unknown type `{word}`")),
        };
        self.sign('>')?;
        Ok(ty)
    }

    pub fn set(&mut self) -> Res<ByteSet> {
        let text = self.str()?;
        let mut set = ByteSet::EMPTY;
        for part in text.split_whitespace() {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            match (u8::from_str_radix(from, 16), u8::from_str_radix(to, 16)) {
                (Ok(a), Ok(b)) => set = set.union(&ByteSet::range(a, b)),
                _ => return self.error("bad set of bytes"),
            }
        }
        Ok(set)
    }

    pub fn range(&mut self) -> Res<(u64, u64)> {
        let a = self.num()?;
        self.sign(DOTS)?;
        Ok((a, self.num()?))
    }

    pub fn name(&mut self) -> Res<Option<String>> {
        if self.eat_word("_") {
            Ok(None)
        } else {
            self.str().map(Some)
        }
    }

    pub fn boolean(&mut self) -> Res<bool> {
        match self.any_word()?.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => self.error("expected true or false"),
        }
    }
}
