//! Builds the tree from tokens: recursive descent by hand, with recovery at items, members, fields
//! and statements.
//!
//! A function that fails has already reported the reason, and returns [`Abort`]. The nearest list
//! of items, members, fields or statements then skips to its next entry. Nesting and the height of
//! the tree are limited. So no input can exhaust the stack here, or in the passes that walk the
//! tree later.
//!
//! The parser notes the [roles](Role) of the tokens that it consumes. A role says whether a `<`
//! opens type arguments, where a statement starts, or which tokens form columns. The formatter
//! needs no other input.

mod apps;
mod caches;
mod exported;
mod exprs;
mod handlers;
mod in_c;
mod items;
mod patterns;
mod protocols;
mod recover;
mod stmts;
mod test_blocks;
mod types;
mod units;

pub use apps::MEMBERS;
pub use protocols::CLAUSES;

use crate::ast::{File, FileId, Ident, Path, Span};
use crate::diagnostic::{self, Diagnostic};
use crate::lexer::lex;
use crate::token::{Comment, Lexed, Tok, Token};

/// Deeper nesting is refused.
const MAX_DEPTH: u32 = 256;
/// Trees higher than this (long chains of operators included) are refused.
const MAX_HEIGHT: u32 = 512;
const MAX_ERRORS: usize = 64;

/// The result of parsing; there is always a tree, of the readable parts.
pub struct Parsed {
    pub file: File,
    pub comments: Vec<Comment>,
    pub diagnostics: Vec<Diagnostic>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) roles: Vec<Role>,
}

impl Parsed {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Parses one file.
pub fn parse(id: FileId, text: &str) -> Parsed {
    let mut diagnostics = Vec::new();
    let lexed = lex(id, text, &mut diagnostics);
    let mut parser = Parser::new(text, lexed, diagnostics);
    let items = parser.file_items();
    let file = File { doc: std::mem::take(&mut parser.lexed.file_doc), items };
    diagnostic::sort(&mut parser.diagnostics);
    Parsed {
        file,
        comments: parser.lexed.comments,
        diagnostics: parser.diagnostics,
        tokens: parser.lexed.tokens,
        roles: parser.roles,
    }
}

/// The error is reported; give up this construct.
pub(crate) struct Abort;
pub(crate) type P<T> = Result<T, Abort>;

/// How the formatter sets a token; set by the parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Role {
    /// Begins a statement, field, member or arm.
    pub start: bool,
    /// No space before it.
    pub tight: bool,
    /// No space after it.
    pub glue: bool,
    /// Stands on the line of the token before it: `else` after `}`, a block's `{`.
    pub join: bool,
    /// A comma after which a list is not broken: between a lambda's parameters, in `<…>`.
    pub keep: bool,
    /// Stands in a column with such tokens of the lines around it.
    pub column: Option<Column>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Type,
    Extent,
    Equals,
    Arrow,
    Name,
    Instance,
    Options,
    Protocol,
}

pub(crate) struct Parser<'a> {
    text: &'a str,
    lexed: Lexed,
    at: usize,
    diagnostics: Vec<Diagnostic>,
    roles: Vec<Role>,
    depth: u32,
    /// Height of the highest tree finished since the enclosing [`Parser::nested`] began.
    height: u32,
    /// Line breaks end things: false inside of `( )` and `[ ]`.
    lines: bool,
    /// `Name {` does not build: in conditions, where a block follows.
    no_build: bool,
    /// `x [` does not index: in shapes, where an extent may follow.
    no_index: bool,
    /// A line that starts with `.` is a new statement: in `update`.
    dot_starts: bool,
    /// Between `<` and `>` nothing stands in columns.
    in_angles: bool,
    /// The token of the last report: one report per place.
    reported: Option<usize>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, lexed: Lexed, diagnostics: Vec<Diagnostic>) -> Self {
        let roles = vec![Role::default(); lexed.tokens.len()];
        Parser {
            text,
            lexed,
            at: 0,
            diagnostics,
            roles,
            depth: 0,
            height: 0,
            lines: true,
            no_build: false,
            no_index: false,
            dot_starts: false,
            in_angles: false,
            reported: None,
        }
    }

    // ---- looking ----

    fn token(&self, ahead: usize) -> &Token {
        // The list always ends with `End`.
        &self.lexed.tokens[(self.at + ahead).min(self.lexed.tokens.len() - 1)]
    }

    fn tok(&self) -> &Tok {
        &self.token(0).tok
    }

    fn span(&self) -> Span {
        self.token(0).span
    }

    /// From `start` to the last token consumed.
    fn since(&self, start: Span) -> Span {
        let end = self.at.checked_sub(1).map_or(start.end, |i| self.lexed.tokens[i].span.end);
        Span { end: end.max(start.end.min(end.max(start.start))), ..start }
    }

    fn slice(&self, span: Span) -> &'a str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    fn sign_at(&self, ahead: usize, sign: &str) -> bool {
        matches!(self.token(ahead).tok, Tok::Sign(s) if s == sign)
    }

    fn at_sign(&self, sign: &str) -> bool {
        self.sign_at(0, sign)
    }

    fn word_text(&self, ahead: usize) -> Option<&'a str> {
        let token = self.token(ahead);
        (token.tok == Tok::Word).then(|| self.slice(token.span))
    }

    fn at_word(&self, word: &str) -> bool {
        self.word_text(0) == Some(word)
    }

    fn word_at(&self, ahead: usize, word: &str) -> bool {
        self.word_text(ahead) == Some(word)
    }

    fn at_any_word(&self) -> bool {
        *self.tok() == Tok::Word
    }

    fn at_end(&self) -> bool {
        *self.tok() == Tok::End
    }

    /// The token `ahead` stands on a new line, where that matters.
    fn breaks(&self, ahead: usize) -> bool {
        self.token(ahead).tok == Tok::End || (self.lines && self.token(ahead).newline)
    }

    /// A word on the same line `ahead`.
    fn word_here(&self, ahead: usize) -> bool {
        self.token(ahead).tok == Tok::Word && !self.token(ahead).newline
    }

    /// The token `ahead` follows the one before it with nothing between.
    fn adjacent(&self, ahead: usize) -> bool {
        let Some(before) = (self.at + ahead).checked_sub(1).and_then(|i| self.lexed.tokens.get(i)) else {
            return false;
        };
        before.span.end == self.token(ahead).span.start
    }

    // ---- consuming ----

    fn bump(&mut self) -> Span {
        let span = self.span();
        if !self.at_end() {
            self.at += 1;
        }
        span
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.at_sign(sign);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, sign: &'static str) -> P<Span> {
        if self.at_sign(sign) {
            return Ok(self.bump());
        }
        self.unexpected(&format!("`{sign}`"))
    }

    fn expect_word(&mut self, word: &str) -> P<Span> {
        if self.at_word(word) {
            return Ok(self.bump());
        }
        self.unexpected(&format!("`{word}`"))
    }

    /// Any word, keywords included: after a `.`, as a field's or a variant's name.
    fn any_word(&mut self, what: &str) -> P<Ident> {
        match self.word_text(0) {
            Some(name) => {
                let name = name.to_string();
                Ok(Ident { name, span: self.bump() })
            }
            None => self.unexpected(what),
        }
    }

    /// A word that is defined here; a reserved one is reported.
    fn name(&mut self, what: &str) -> P<Ident> {
        let ident = self.any_word(what)?;
        if RESERVED.contains(&ident.name.as_str()) {
            let message = format!("`{}` is reserved and cannot name {what}", ident.name);
            let hint = format!("choose another name, such as `{}_`", ident.name);
            self.report(Diagnostic::error("E0105", ident.span, message).hint(hint));
        }
        Ok(ident)
    }

    /// `std.memcached.text`
    fn path(&mut self, what: &str) -> P<Path> {
        let start = self.span();
        let mut parts = vec![self.any_word(what)?];
        while self.at_sign(".") && !self.breaks(0) && self.token(1).tok == Tok::Word {
            self.dot();
            parts.push(self.any_word("a name")?);
        }
        Ok(Path { parts, span: self.since(start) })
    }

    /// A `.` between two names.
    fn dot(&mut self) {
        self.mark(|r| {
            r.tight = true;
            r.glue = true;
        });
        self.bump();
    }

    fn string(&mut self, what: &str) -> P<Vec<u8>> {
        match self.tok() {
            Tok::Bytes(value) => {
                let value = value.clone();
                self.bump();
                Ok(value)
            }
            _ => self.unexpected(what),
        }
    }

    fn doc(&self) -> String {
        self.token(0).doc.and_then(|i| self.lexed.docs.get(i as usize)).cloned().unwrap_or_default()
    }

    // ---- roles ----

    fn mark(&mut self, set: impl FnOnce(&mut Role)) {
        if let Some(role) = self.roles.get_mut(self.at) {
            set(role);
        }
    }

    fn mark_start(&mut self) {
        self.mark(|r| r.start = true);
    }

    fn mark_tight(&mut self) {
        self.mark(|r| r.tight = true);
    }

    fn mark_join(&mut self) {
        self.mark(|r| r.join = true);
    }

    /// A comma that keeps its line together.
    fn eat_kept_comma(&mut self) -> bool {
        if self.at_sign(",") {
            self.mark(|r| r.keep = true);
        }
        self.eat(",")
    }

    fn mark_glue(&mut self) {
        self.mark(|r| r.glue = true);
    }

    fn column(&mut self, column: Column) {
        if self.in_angles {
            return;
        }
        self.mark(|r| r.column = Some(column));
    }

    // ---- nesting ----

    /// Runs `f` one level deeper; refuses nesting that is too deep for the stack.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> P<T>) -> P<T> {
        if self.depth >= MAX_DEPTH {
            return self.too_deep();
        }
        self.depth += 1;
        let around = std::mem::replace(&mut self.height, 0);
        let result = f(self);
        self.depth -= 1;
        self.height = around.max(self.height + 1);
        if self.height > MAX_HEIGHT && result.is_ok() {
            return self.too_deep();
        }
        result
    }

    /// The node of this level becomes a child of a new node: `a + b` in `a + b + c`.
    fn grow(&mut self) -> P<()> {
        self.height += 1;
        if self.height > MAX_HEIGHT {
            return self.too_deep();
        }
        Ok(())
    }

    #[cold]
    fn too_deep<T>(&mut self) -> P<T> {
        let span = self.span();
        if !self.diagnostics.iter().any(|d| d.code == "E0104") {
            let d = Diagnostic::error("E0104", span, "this is nested too deeply")
                .note(format!("the limit is {MAX_DEPTH} levels of brackets and {MAX_HEIGHT} chained operators"))
                .hint("give parts of it names with `let`, or move them to a `fn`");
            self.report(d);
        }
        Err(Abort)
    }

    /// Runs `f` inside of brackets or braces, where the context's restrictions do not hold.
    fn inside<T>(&mut self, lines: bool, f: impl FnOnce(&mut Self) -> P<T>) -> P<T> {
        let saved = (self.lines, self.no_build, self.no_index, self.dot_starts);
        (self.lines, self.no_build, self.no_index, self.dot_starts) = (lines, false, false, lines && saved.3);
        let result = f(self);
        (self.lines, self.no_build, self.no_index, self.dot_starts) = saved;
        result
    }

    /// Runs `f` where a `{` after the expression does not belong to it.
    fn condition<T>(&mut self, f: impl FnOnce(&mut Self) -> P<T>) -> P<T> {
        let saved = std::mem::replace(&mut self.no_build, true);
        let result = f(self);
        self.no_build = saved;
        result
    }

    // ---- lists ----

    /// `open item, item, … close` in `( )` or `[ ]`; line breaks mean nothing inside.
    fn bracketed<T>(
        &mut self,
        open: &'static str,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> P<T>,
    ) -> P<Vec<T>> {
        let opened = self.expect(open)?;
        self.inside(false, |p| {
            let mut items = Vec::new();
            while !p.at_sign(close) {
                items.push(item(p)?);
                if !p.eat(",") {
                    break;
                }
            }
            p.close(close, opened)?;
            Ok(items)
        })
    }

    /// The end of a bracket opened at `opened`.
    fn close(&mut self, close: &'static str, opened: Span) -> P<()> {
        if self.eat(close) {
            return Ok(());
        }
        if self.at_end() || self.token(0).newline || self.at_sign("}") {
            return self.unclosed(opened);
        }
        let what = format!("`{close}` or `,`");
        self.unexpected_with(&what, |d| d.also(opened, "opened here"))
    }

    /// Entries in braces, on lines of their own or separated by `,` or `;`. An entry that fails is
    /// skipped.
    fn braced<T>(&mut self, mut entry: impl FnMut(&mut Self) -> P<T>) -> P<Vec<T>> {
        let opened = self.expect("{")?;
        self.inside(true, |p| {
            let mut entries = Vec::new();
            loop {
                while p.eat(",") || p.eat(";") {}
                if p.eat("}") {
                    return Ok(entries);
                }
                if p.at_end() || p.at_new_item() {
                    let _ = p.unclosed::<()>(opened);
                    return Ok(entries);
                }
                let before = p.at;
                p.mark_start();
                match entry(p) {
                    Ok(e) => entries.push(e),
                    Err(Abort) => p.skip_entry(before),
                }
                if p.at == before {
                    p.bump();
                }
            }
        })
    }
}

/// Words that no definition may take; most others are keywords only where nothing else fits.
pub const RESERVED: &[&str] = &[
    "let", "var", "if", "else", "match", "for", "loop", "return", "reply", "true", "false", "none", "and", "or", "not",
    "in", "is",
];
