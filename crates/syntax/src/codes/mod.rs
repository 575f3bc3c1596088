//! Every diagnostic code of the compiler. `wireloom explain CODE` prints an entry of this table.
//! The pages in docs/errors are generated from it. A code never changes its meaning. Ranges:
//!
//! - E00xx: lexical errors and files;
//! - E01xx: syntax;
//! - E02xx: names;
//! - E03xx: types;
//! - E04xx: units and grammar;
//! - E05xx: bounds and termination;
//! - E06xx: protocols, handlers and ports;
//! - E07xx: state and tables;
//! - E08xx: defects of the compiler;
//! - W09xx: warnings.
//!
//! `crates/lang/tests/codes.rs` compiles every example of the checker (crate `lang`, E02xx to
//! E07xx), and expects its error.

pub mod apps;
pub mod defects;
pub mod lang;
pub mod syntax;
pub mod units;
pub mod warnings;

/// A code with its texts.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    pub code: &'static str,
    /// One line.
    pub title: &'static str,
    /// Causes and remedy. A newline ends a paragraph or a list item.
    pub explanation: &'static str,
    /// A short program with this error. Empty if no short program can have it.
    pub example: &'static str,
}

const fn code(code: &'static str, title: &'static str, explanation: &'static str, example: &'static str) -> Code {
    Code { code, title, explanation, example }
}

/// Those of the checker (crate `lang`), in order.
pub fn checker() -> impl Iterator<Item = &'static Code> {
    lang::CODES.iter().chain(units::CODES).chain(apps::CODES)
}

/// All codes, in order.
pub fn all() -> impl Iterator<Item = &'static Code> {
    syntax::CODES.iter().chain(checker()).chain(defects::CODES).chain(warnings::CODES)
}

pub fn find(code: &str) -> Option<&'static Code> {
    all().find(|c| c.code == code)
}

#[cfg(test)]
mod tests {
    #[test]
    fn codes_are_well_formed_and_unique() {
        let mut seen = std::collections::BTreeSet::new();
        for code in super::all() {
            let (letter, digits) = code.code.split_at(1);
            assert!(matches!(letter, "E" | "W") && digits.len() == 4, "{}", code.code);
            assert!(digits.bytes().all(|b| b.is_ascii_digit()), "{}", code.code);
            assert!(seen.insert(code.code), "{} is listed twice", code.code);
            assert!(!code.title.is_empty() && !code.explanation.is_empty(), "{}", code.code);
        }
    }
}
