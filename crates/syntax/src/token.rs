//! Tokens and comments: the output of the lexer.

use crate::ast::Span;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tok {
    /// A name or keyword; its text is the span's.
    Word,
    Int(u128),
    /// A number and its suffix: `64KiB`
    Scaled(u128, String),
    Bytes(Vec<u8>),
    Address(String),
    /// An operator or bracket
    Sign(&'static str),
    /// Something wrong, already reported
    Bad,
    End,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub tok: Tok,
    pub span: Span,
    /// A line break lies between this token and the one before.
    pub newline: bool,
    /// The `///` lines right before: an index into [`Lexed::docs`].
    pub doc: Option<u32>,
}

/// A comment, its slashes included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    pub span: Span,
    /// Nothing else stands before it on its line.
    pub own_line: bool,
    /// The token that follows it.
    pub before: usize,
}

/// A text cut into tokens. The last token is always [`Tok::End`].
pub struct Lexed {
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    pub docs: Vec<String>,
    /// The `//!` lines before the first token.
    pub file_doc: String,
}

/// Operators and brackets, longer ones before their prefixes. `>` is never joined with a following
/// `>` here, so that `list<list<u8, 4>, 8>` needs no care. The parser joins two adjacent ones to a
/// shift.
pub const SIGNS: &[&str] = &[
    "..=", "<<=", "+|=", "-|=", "->", "<-", "=>", "==", "!=", "<=", ">=", "~=", "..", "<<", "+|", "-|", "+=", "-=",
    "*=", "/=", "%=", "|=", "&=", "^=", "&&", "||", "++", "--", "{", "}", "(", ")", "[", "]", "<", ">", ",", ";", ":",
    ".", "=", "+", "-", "*", "/", "%", "|", "&", "^", "!", "~", "?", "@", "$",
];
