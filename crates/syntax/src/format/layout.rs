//! Makes lines of tokens and comments: line breaks, indentation and spaces.

use super::INDENT;
use crate::parser::Parsed;
use crate::token::Tok;

/// A line of the result.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub blank_before: bool,
    pub indent: usize,
    /// Indices of tokens.
    pub tokens: Vec<usize>,
    /// Index of the comment at its end, or of the comment that is the line.
    pub comment: Option<usize>,
}

/// For each bracket the index of its partner, for other tokens their own.
pub(super) fn partners(parsed: &Parsed) -> Vec<usize> {
    let mut partner: Vec<usize> = (0..parsed.tokens.len()).collect();
    let mut open = Vec::new();
    for (i, token) in parsed.tokens.iter().enumerate() {
        match token.tok {
            Tok::Sign("(" | "[" | "{") => open.push(i),
            Tok::Sign(")" | "]" | "}") => {
                if let Some(j) = open.pop() {
                    partner[i] = j;
                    partner[j] = i;
                }
            }
            _ => {}
        }
    }
    partner
}

/// The tokens directly inside of a bracket that begin an entry of its list.
pub(super) fn entries(parsed: &Parsed, partner: &[usize], open: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut i = open + 1;
    while i < partner[open] {
        if parsed.roles[i].start {
            found.push(i);
        }
        i = partner[i].max(i) + 1;
    }
    found
}

pub(super) fn lines(text: &str, parsed: &Parsed) -> Vec<Line> {
    let partner = partners(parsed);
    let breaks = line_breaks(parsed, &partner);
    let around = around(parsed, &partner);
    let mut lines: Vec<Line> = Vec::new();
    let mut comments = parsed.comments.iter().enumerate().peekable();
    // Where the last thing printed ends in the source.
    let mut end = 0;
    for (i, token) in parsed.tokens.iter().enumerate() {
        let mut after_comment = false;
        while let Some((c, comment)) = comments.next_if(|(_, c)| c.before <= i) {
            let blank = blank_between(text, end, comment.span.start);
            end = comment.span.end;
            after_comment = true;
            match lines.last_mut().filter(|_| !comment.own_line) {
                Some(line) => line.comment = Some(c),
                None => lines.push(Line { blank_before: blank, comment: Some(c), ..Line::default() }),
            }
        }
        if token.tok == Tok::End {
            break;
        }
        if dropped(parsed, &around, i) {
            end = token.span.end;
            continue;
        }
        if lines.is_empty() || after_comment || breaks[i] {
            let blank = blank_between(text, end, token.span.start);
            lines.push(Line { blank_before: blank, ..Line::default() });
        }
        end = token.span.end;
        if let Some(line) = lines.last_mut() {
            line.tokens.push(i);
        }
    }
    let mut lines = join_else(parsed, &partner, lines);
    indent(parsed, &partner, &mut lines);
    trim_blanks(parsed, &mut lines);
    lines
}

fn blank_between(text: &str, from: u32, to: u32) -> bool {
    from > 0 && text.get(from as usize..to as usize).is_some_and(|s| s.bytes().filter(|&b| b == b'\n').count() > 1)
}

/// A `;` at the end of a statement's line says nothing.
fn dropped(parsed: &Parsed, around: &[Option<usize>], i: usize) -> bool {
    if parsed.tokens[i].tok != Tok::Sign(";") {
        return false;
    }
    let next = &parsed.tokens[i + 1];
    let ends = next.newline || matches!(next.tok, Tok::Sign("}" | ";") | Tok::End);
    // Inside of `[T; N]` it does.
    ends && around[i].is_none_or(|open| parsed.tokens[open].tok == Tok::Sign("{"))
}

/// For each token the bracket that it stands in.
fn around(parsed: &Parsed, partner: &[usize]) -> Vec<Option<usize>> {
    let mut open = Vec::new();
    let mut around = Vec::with_capacity(parsed.tokens.len());
    for (i, &other) in partner.iter().enumerate() {
        if is_close(parsed, i) && other < i {
            open.pop();
        }
        around.push(open.last().copied());
        if is_open(parsed, i) && other > i {
            open.push(i);
        }
    }
    around
}

/// Which tokens begin a line: where the author broke it, and where a list that has breaks needs
/// one.
fn line_breaks(parsed: &Parsed, partner: &[usize]) -> Vec<bool> {
    let commented: Vec<usize> = parsed.comments.iter().map(|c| c.before).collect();
    let mut breaks: Vec<bool> = parsed
        .tokens
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let joins = parsed.roles[i].join && t.tok == Tok::Sign("{");
            t.newline && !(joins && commented.binary_search(&i).is_err())
        })
        .collect();
    for open in 0..parsed.tokens.len() {
        if parsed.tokens[open].tok != Tok::Sign("{") || partner[open] <= open {
            continue;
        }
        let close = partner[open];
        let entries = entries(parsed, partner, open);
        if close > open + 1 && (entries.iter().any(|&e| breaks[e]) || (breaks[open + 1] && !entries.is_empty())) {
            breaks[open + 1] = true;
            breaks[close] = true;
        }
    }
    breaks
}

/// Puts an `else` behind its `}`, unless that closes a block of its own line: there the author may
/// align `if … { a }` and `else { b }`.
pub(super) fn join_else(parsed: &Parsed, partner: &[usize], lines: Vec<Line>) -> Vec<Line> {
    let mut joined: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines {
        let is_else = line.tokens.first().is_some_and(|&t| parsed.roles[t].join && parsed.tokens[t].tok == Tok::Word);
        let before = joined.last_mut().filter(|l| {
            let opened_above = |&t: &usize| l.tokens.first().is_some_and(|&first| partner[t] < first);
            is_else && l.comment.is_none() && l.tokens.last().is_some_and(opened_above)
        });
        match before {
            Some(before) => {
                before.tokens.extend(line.tokens);
                before.comment = line.comment;
            }
            None => joined.push(line),
        }
    }
    joined
}

/// A bracket that is open, and the indentation of the line it stands on.
struct Open {
    indent: usize,
}

pub(super) fn indent(parsed: &Parsed, partner: &[usize], lines: &mut [Line]) {
    let mut stack: Vec<Open> = Vec::new();
    let mut previous: Option<usize> = None;
    for line in lines {
        let inside = stack.last().map_or(0, |o| o.indent + INDENT);
        let Some(&first) = line.tokens.first() else {
            line.indent = inside;
            continue;
        };
        line.indent = if is_close(parsed, first) && partner[first] < first {
            stack.last().map_or(0, |o| o.indent)
        } else if goes_on(parsed, first, previous) {
            inside + INDENT
        } else {
            inside
        };
        for &i in &line.tokens {
            if is_open(parsed, i) && partner[i] > i {
                stack.push(Open { indent: line.indent });
            } else if is_close(parsed, i) && partner[i] < i {
                stack.pop();
            }
        }
        previous = line.tokens.last().copied();
    }
}

/// The line that starts with `first` continues the line before.
fn goes_on(parsed: &Parsed, first: usize, previous: Option<usize>) -> bool {
    let Some(previous) = previous else { return false };
    !parsed.roles[first].start
        && !parsed.roles[first].join
        && !matches!(parsed.tokens[previous].tok, Tok::Sign("(" | "[" | "{" | ","))
}

pub(super) fn is_open(parsed: &Parsed, i: usize) -> bool {
    matches!(parsed.tokens[i].tok, Tok::Sign("(" | "[" | "{"))
}

pub(super) fn is_close(parsed: &Parsed, i: usize) -> bool {
    matches!(parsed.tokens[i].tok, Tok::Sign(")" | "]" | "}"))
}

/// No blank line at the top, after an opening bracket, or before a closing one.
fn trim_blanks(parsed: &Parsed, lines: &mut [Line]) {
    for i in 0..lines.len() {
        let after_open = match i.checked_sub(1).map(|p| &lines[p]) {
            None => true,
            Some(line) => line.tokens.last().is_some_and(|&t| is_open(parsed, t)),
        };
        let before_close = lines[i].tokens.first().is_some_and(|&t| is_close(parsed, t));
        if after_open || before_close {
            lines[i].blank_before = false;
        }
    }
}

/// How many spaces stand between two tokens of one line.
pub(super) fn spaces(parsed: &Parsed, left: usize, right: usize) -> usize {
    let (l, r) = (&parsed.tokens[left].tok, &parsed.tokens[right].tok);
    if parsed.roles[right].tight || parsed.roles[left].glue {
        return 0;
    }
    match (l, r) {
        (Tok::Sign("(" | "["), _) | (_, Tok::Sign(")" | "]" | "," | ";" | ":")) => 0,
        (Tok::Sign("{"), Tok::Sign("}")) => 0,
        // Entries without a separator between stand apart a little.
        (l, _) if parsed.roles[right].start && !matches!(l, Tok::Sign("{" | "[" | "," | ";")) => 2,
        _ => 1,
    }
}

/// A line's width without its comment.
pub(super) fn width(text: &str, parsed: &Parsed, line: &Line) -> usize {
    let mut width = line.indent;
    for (n, &i) in line.tokens.iter().enumerate() {
        if n > 0 {
            width += spaces(parsed, line.tokens[n - 1], i);
        }
        width += token_width(text, parsed, i);
    }
    width
}

pub(super) fn token_text<'t>(text: &'t str, parsed: &Parsed, i: usize) -> &'t str {
    let span = parsed.tokens[i].span;
    text.get(span.start as usize..span.end as usize).unwrap_or("")
}

pub(super) fn token_width(text: &str, parsed: &Parsed, i: usize) -> usize {
    token_text(text, parsed, i).chars().count()
}
