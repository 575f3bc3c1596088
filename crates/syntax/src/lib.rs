//! The front end for text. Source files come in. Syntax trees, diagnostics and formatted text go
//! out.
//!
//! Stages: [`source`] reads files through a [`source::World`] and numbers them. [`lexer`] cuts a
//! file into tokens and comments. [`parser`] builds the tree of [`ast`] and continues after errors.
//! [`format`] gives the same tokens a new layout. Every error of the whole compiler is a
//! [`diagnostic::Diagnostic`] with a code from [`codes`]. No input makes this crate panic. Only
//! [`source::OsWorld`] touches the system.

pub mod ast;
pub mod codes;
pub mod diagnostic;
pub mod format;
pub mod lexer;
mod load;
pub mod parser;
pub mod source;
pub mod token;

pub use diagnostic::{Diagnostic, Label, Severity};
pub use format::format;
pub use parser::{parse, Parsed};
pub use source::{MemoryWorld, OsWorld, SourceMap, World};
