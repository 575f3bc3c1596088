//! Every diagnostic code of the compiler: `wireloom explain-code` and the docs' pages are made from this table.
//!
//! Ranges: E00xx lexical and files, E01xx syntax, E02xx names, E03xx types, E04xx units and grammar, E05xx bounds and
//! termination, E06xx protocols, handlers and ports, E07xx state and tables, W09xx warnings. A code is never used
//! again for something else.

pub mod lang;
pub mod syntax;

/// What a code means.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    pub code: &'static str,
    /// One line.
    pub title: &'static str,
    /// Why it is refused and what to do.
    pub explanation: &'static str,
    /// A short program that has the error.
    pub example: &'static str,
}

/// All codes, in order.
pub fn all() -> impl Iterator<Item = &'static Code> {
    syntax::CODES.iter().chain(lang::CODES.iter())
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
