//! The formatter: the same tokens and comments with a new layout.
//!
//! It keeps the author's line breaks and single blank lines. It sets indentation, spaces and
//! columns, and breaks lines that are too long. Stages: [`layout`] makes lines of the tokens by the
//! roles that the parser noted. [`wrap`] breaks long lines. [`columns`] aligns neighbours and
//! prints. The result is parsed again. If its tree or comments differ from the original, it is
//! thrown away. So formatting never changes a program's meaning.

mod columns;
mod layout;
mod wrap;

use crate::ast::FileId;
use crate::diagnostic::Diagnostic;
use crate::parser::{parse, Parsed};

/// Lines are broken to stay within this many characters.
pub const WIDTH: usize = 110;
const INDENT: usize = 4;

/// The text in the standard layout; the errors if it does not parse.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    // A line that is wrapped near the margin may settle one step later.
    let mut now = once(text)?;
    for _ in 0..ROUNDS {
        let next = once(&now)?;
        if next == now {
            return Ok(now);
        }
        now = next;
    }
    Ok(text.to_string())
}

/// How often the layout is laid out again until it stays as it is; a text that never does is left
/// alone.
const ROUNDS: usize = 6;

fn once(text: &str) -> Result<String, Vec<Diagnostic>> {
    let parsed = parse(FileId(0), text);
    if parsed.has_errors() {
        return Err(parsed.diagnostics);
    }
    let lines = layout::lines(text, &parsed);
    let wrapped = columns::print(text, &parsed, &wrap::wrap(text, &parsed, lines.clone()));
    if same(text, &parsed, &wrapped) {
        return Ok(wrapped);
    }
    let plain = columns::print(text, &parsed, &lines);
    Ok(if same(text, &parsed, &plain) { plain } else { text.to_string() })
}

/// Whether `result` has the tree and the comments of the original.
fn same(text: &str, original: &Parsed, result: &str) -> bool {
    let parsed = parse(FileId(0), result);
    let comments = |p: &Parsed, text: &str| -> Vec<String> {
        let slice =
            |c: &crate::token::Comment| text.get(c.span.start as usize..c.span.end as usize).unwrap_or("").to_string();
        p.comments.iter().map(slice).collect()
    };
    !parsed.has_errors()
        && without_spans(&format!("{:?}", original.file)) == without_spans(&format!("{:?}", parsed.file))
        && comments(original, text) == comments(&parsed, result)
}

/// A tree's debug text without its spans, for the comparison of two trees.
pub fn without_spans(debug: &str) -> String {
    let mut out = String::with_capacity(debug.len() / 2);
    let mut rest = debug;
    while let Some(at) = rest.find("Span {") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find('}').map_or(rest.len(), |e| e + 1);
        out.push('@');
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}
