//! The lexer's and parser's codes: E00xx and E01xx.

use super::Code;

pub static CODES: &[Code] = &[];
