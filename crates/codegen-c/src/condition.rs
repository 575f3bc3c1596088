//! Conditions of `if`: without parentheses around the whole, of which clang warns.

/// A condition without the parentheses around the whole of it. A statement expression keeps its
/// own.
pub(crate) fn bare(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else { return text };
    if inner.starts_with('{') || !closes_what_it_opens(inner) {
        text
    } else {
        bare(inner)
    }
}

/// Whether each parenthesis that closes belongs to one before it. Those in literals do not count.
fn closes_what_it_opens(text: &str) -> bool {
    let (mut depth, mut quote, mut escaped) = (0u32, None, false);
    for b in text.bytes() {
        match (quote, b) {
            _ if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(q), b) => quote = quote.filter(|_| q != b),
            (None, b'"' | b'\'') => quote = Some(b),
            (None, b'(') => depth += 1,
            (None, b')') if depth == 0 => return false,
            (None, b')') => depth -= 1,
            (None, _) => {}
        }
    }
    depth == 0 && quote.is_none()
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn literals_hide_nothing() {
        for (text, want) in [
            ("(a == b)", "a == b"),
            ("((a == b))", "a == b"),
            ("(a) == (b)", "(a) == (b)"),
            ("({ int a; a; })", "({ int a; a; })"),
            (r#"(s == f("0123"))"#, r#"s == f("0123")"#),
            (r#"(f(")") == g("("))"#, r#"f(")") == g("(")"#),
            (r#"(f("\"(") == ')')"#, r#"f("\"(") == ')'"#),
            (r#"(f('"')) == (g('"'))"#, r#"(f('"')) == (g('"'))"#),
            (r"(f('\'', ')'))", r"f('\'', ')')"),
        ] {
            assert_eq!(bare(text), want);
        }
    }
}
