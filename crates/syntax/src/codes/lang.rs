//! The checker's codes (crate `lang`): E02xx to E07xx and W09xx.

use super::Code;

pub static CODES: &[Code] = &[];
