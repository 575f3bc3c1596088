//! The text form of the IR: [`print`] and [`parse`], inverse to each other for every module.
//!
//! One line per declaration, field and statement, so that two dumps can be compared by `diff`.
//! Lines of more than 120 columns continue in the next ([`wrap`]). References are written
//! `name#index` (locals `%name#index`); only the index counts, the name is for the reader. Types
//! are written out (`list<bytes<250>, 64>`), after a table that fixes their numbers. Expressions
//! carry their type: `add(%n#1:u32, 2:u32):u32`. `// …` is a comment. Spans stand last
//! (`@file:start:end:line:column`) and are left out where they are zero.

mod forms;
mod lex;
mod names;
mod parse;
mod parse_body;
mod parse_port;
mod parse_test;
mod parse_unit;
mod parser;
mod plans;
mod print;
mod print_body;
mod print_unit;
mod vector;
pub mod wrap;

use crate::{Expr, Module};
use std::fmt;

/// Where and why a text is not an IR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    pub line: u32,
    pub message: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TextError {}

pub fn print(m: &Module) -> String {
    print::module(m)
}

/// One expression, without the names of locals and fields.
pub fn print_expr(m: &Module, e: &Expr) -> String {
    print_body::lone_expr(m, e)
}

/// The word for a frame port's engine.
pub fn engine_name(e: crate::desc::FrameEngine) -> &'static str {
    names::Word::word(e)
}

/// The word for a table's kind.
pub fn table_kind(k: crate::TableKind) -> &'static str {
    names::Word::word(k)
}

/// A type as it is written in the text form.
pub fn print_type(m: &Module, ty: crate::TyId) -> String {
    print::type_name(m, ty)
}

pub fn parse(text: &str) -> Result<Module, TextError> {
    parse::module(text)
}
