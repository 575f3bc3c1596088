//! Wireloom's front end for text: source files come in; syntax trees, diagnostics and formatted
//! text go out.
//!
//! Stages: [`source`] reads files through a [`source::World`] and numbers them; [`lexer`] cuts a
//! file into tokens and comments; [`parser`] builds the tree of [`ast`], going on after errors;
//! [`format`] lays the same tokens out anew. Every error of the whole compiler is a
//! [`diagnostic::Diagnostic`] whose code is explained in [`codes`]. Nothing here panics on any
//! input, and nothing but [`source::OsWorld`] touches the system.

pub mod ast;
pub mod codes;
pub mod diagnostic;
pub mod format;
pub mod lexer;
pub mod parser;
pub mod source;
pub mod token;

pub use diagnostic::{Diagnostic, Label, Severity};
pub use format::format;
pub use parser::{parse, Parsed};
pub use source::{MemoryWorld, OsWorld, SourceMap, World};
