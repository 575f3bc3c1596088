//! Breaks lines that run over the margin: first the widest list in brackets, else before an
//! operator.

use super::layout::{entries, indent, is_close, is_open, join_else, partners, spaces, token_width, width, Line};
use super::{INDENT, WIDTH};
use crate::parser::Parsed;
use crate::token::Tok;

/// A list narrower than this is not worth breaking when an operator will do.
const NARROW: usize = 24;

/// A line of more tokens is cut in many places at once.
const MANY: usize = 512;

pub(super) fn wrap(text: &str, parsed: &Parsed, mut lines: Vec<Line>) -> Vec<Line> {
    let partner = partners(parsed);
    // Each round breaks lines further; a line has fewer tokens each time, so this ends.
    loop {
        let mut changed = false;
        let mut next = Vec::with_capacity(lines.len());
        for line in lines {
            let points =
                if width(text, parsed, &line) > WIDTH { points(text, parsed, &partner, &line) } else { Vec::new() };
            if points.is_empty() {
                next.push(line);
            } else {
                changed = true;
                split(parsed, line, &points, &mut next);
            }
        }
        lines = join_else(parsed, &partner, next);
        if !changed {
            return lines;
        }
        indent(parsed, &partner, &mut lines);
    }
}

/// Cuts a line before each of the tokens `points`; the comment stays at the end.
fn split(parsed: &Parsed, line: Line, points: &[usize], out: &mut Vec<Line>) {
    let mut current = Line { blank_before: line.blank_before, indent: line.indent, ..Line::default() };
    let points: std::collections::HashSet<usize> = points.iter().copied().collect();
    for i in line.tokens {
        if points.contains(&i) && !current.tokens.is_empty() {
            if current.tokens.last().is_some_and(|&t| parsed.tokens[t].tok == Tok::Sign(";")) {
                current.tokens.pop();
            }
            out.push(std::mem::take(&mut current));
        }
        current.tokens.push(i);
    }
    current.comment = line.comment;
    out.push(current);
}

fn points(text: &str, parsed: &Parsed, partner: &[usize], line: &Line) -> Vec<usize> {
    let group = widest_group(text, parsed, partner, line);
    let operator = operator(text, parsed, line);
    match (group, operator) {
        (Some((width, open)), operator) if operator.is_none() || width >= NARROW && is_list(parsed, partner, open) => {
            let open = innermost(parsed, partner, open);
            let mut points = group_points(text, parsed, partner, line, open);
            points.extend(branches(text, parsed, partner, line, open));
            points
        }
        (_, Some(_)) if line.tokens.len() > MANY => operators(text, parsed, line),
        (_, Some(i)) => vec![i],
        _ => comma(text, parsed, partner, line).into_iter().collect(),
    }
}

/// The widest of the outermost brackets that open and close on this line, with its width.
fn widest_group(text: &str, parsed: &Parsed, partner: &[usize], line: &Line) -> Option<(usize, usize)> {
    let last = *line.tokens.last()?;
    let mut best: Option<(usize, usize)> = None;
    let mut skip_to = 0;
    for (n, &i) in line.tokens.iter().enumerate() {
        if i < skip_to || !is_open(parsed, i) || partner[i] <= i + 1 || partner[i] > last {
            continue;
        }
        skip_to = partner[i];
        let wide: usize = line.tokens[n..]
            .windows(2)
            .take_while(|w| w[0] < partner[i])
            .map(|w| spaces(parsed, w[0], w[1]) + token_width(text, parsed, w[1]))
            .sum();
        // `server[0]` stays whole.
        let index = parsed.tokens[i].tok == Tok::Sign("[") && parsed.roles[i].tight;
        if index && wide < NARROW {
            continue;
        }
        if best.is_none_or(|(w, _)| wide > w) {
            best = Some((wide, i));
        }
    }
    best
}

/// Parentheses that only group are no list: an operator outside of them is the better place.
fn is_list(parsed: &Parsed, partner: &[usize], open: usize) -> bool {
    parsed.tokens[open].tok != Tok::Sign("(") || parsed.roles[open].tight || !commas(parsed, partner, open).is_empty()
}

/// The commas directly inside of a bracket after which it may be broken.
fn commas(parsed: &Parsed, partner: &[usize], open: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut i = open + 1;
    while i < partner[open] {
        if parsed.tokens[i].tok == Tok::Sign(",") && !parsed.roles[i].keep && i + 1 < partner[open] {
            found.push(i);
        }
        i = partner[i].max(i) + 1;
    }
    found
}

/// `f(Name { … })` is broken at the brace: the brackets around a single bracketed item stay with
/// it.
fn innermost(parsed: &Parsed, partner: &[usize], open: usize) -> usize {
    let mut open = open;
    while parsed.tokens[open].tok != Tok::Sign("{") {
        let last = partner[open] - 1;
        let inner = partner[last];
        if !is_close(parsed, last) || inner <= open || inner + 1 >= last || !commas(parsed, partner, open).is_empty() {
            break;
        }
        open = inner;
    }
    open
}

/// Where a bracketed list breaks: before each entry and before its end.
fn group_points(text: &str, parsed: &Parsed, partner: &[usize], line: &Line, open: usize) -> Vec<usize> {
    let close = partner[open];
    let mut points = entries(parsed, partner, open);
    let commas = commas(parsed, partner, open);
    let plain = (open + 1..close).all(|i| !is_open(parsed, i));
    if plain && commas.len() > 4 && parsed.tokens[open + 1].tok != Tok::Sign(".") && !has_columns(parsed, open, close) {
        points = filled(text, parsed, line, open, close, &commas);
    } else if points.is_empty() {
        points.push(open + 1);
        points.extend(commas.iter().map(|c| c + 1));
    }
    points.push(close);
    points
}

/// Entries of the form `name: value` stand on lines of their own.
fn has_columns(parsed: &Parsed, open: usize, close: usize) -> bool {
    (open + 1..close).any(|i| parsed.tokens[i].tok == Tok::Sign(":"))
}

/// Breaks a list of small items only where the margin needs it.
fn filled(text: &str, parsed: &Parsed, line: &Line, open: usize, close: usize, commas: &[usize]) -> Vec<usize> {
    let mut points = vec![open + 1];
    let mut at = line.indent + INDENT;
    let mut from = open + 1;
    let ends = commas.iter().map(|c| c + 1);
    for end in ends.chain(std::iter::once(close)) {
        let wide: usize = (from..end)
            .map(|i| token_width(text, parsed, i) + if i > from { spaces(parsed, i - 1, i) } else { 1 })
            .sum();
        if at + wide > WIDTH && from > open + 1 {
            points.push(from);
            at = line.indent + INDENT;
        }
        at += wide;
        from = end;
    }
    points
}

/// The other blocks of an `if … else …` on one line break together with the one at `open`.
fn branches(text: &str, parsed: &Parsed, partner: &[usize], line: &Line, open: usize) -> Vec<usize> {
    let is_else = |i: usize| parsed.roles.get(i).is_some_and(|r| r.join) && parsed.tokens[i].tok == Tok::Word;
    let linked = |i: usize| {
        is_else(i - 1) || is_else(partner[i] + 1) || super::layout::token_text(text, parsed, i - 1) == "else"
    };
    if open == 0 || !linked(open) {
        return Vec::new();
    }
    let mut points = Vec::new();
    for &i in line.tokens.iter().filter(|&&i| i > 0 && i != open && parsed.tokens[i].tok == Tok::Sign("{")) {
        let outside = partner[i] < open || i > partner[open];
        let here = line.tokens.last().is_some_and(|&last| partner[i] <= last);
        if outside && here && parsed.roles[i].join && linked(i) && partner[i] > i + 1 {
            points.extend(group_points(text, parsed, partner, line, i));
        }
    }
    points
}

/// Where a list that runs on to the next line is cut: after the last of its commas within the
/// margin.
fn comma(text: &str, parsed: &Parsed, partner: &[usize], line: &Line) -> Option<usize> {
    let (first, last) = (*line.tokens.first()?, *line.tokens.last()?);
    let mut at = line.indent;
    let mut closed_at = 0;
    let mut found = None;
    for pair in line.tokens.windows(2) {
        let i = pair[0];
        at += token_width(text, parsed, i);
        if at > WIDTH {
            break;
        }
        if is_open(parsed, i) && partner[i] <= last {
            closed_at = closed_at.max(partner[i]);
        }
        let cuts = parsed.tokens[i].tok == Tok::Sign(",") && !parsed.roles[i].keep;
        if cuts && i >= closed_at && i > first {
            found = Some(pair[1]);
        }
        at += spaces(parsed, i, pair[1]);
    }
    found
}

/// The operators before which a line of very many tokens is cut, all at once: single cuts would
/// take a round each.
fn operators(text: &str, parsed: &Parsed, line: &Line) -> Vec<usize> {
    let mut points = Vec::new();
    let mut rest =
        Line { indent: line.indent, tokens: line.tokens.iter().take(MANY).copied().collect(), ..Line::default() };
    let mut from = 0;
    while let Some(at) = operator(text, parsed, &rest) {
        points.push(at);
        from += rest.tokens.iter().position(|&t| t == at).unwrap_or(1).max(1);
        rest = Line {
            indent: line.indent + INDENT,
            tokens: line.tokens[from..].iter().take(MANY).copied().collect(),
            ..Line::default()
        };
        if width(text, parsed, &rest) <= WIDTH {
            break;
        }
    }
    points
}

/// The last operator outside of brackets that leaves a first part within the margin.
fn operator(text: &str, parsed: &Parsed, line: &Line) -> Option<usize> {
    let mut at = line.indent;
    let mut depth = 0usize;
    let mut found = None;
    for (n, &i) in line.tokens.iter().enumerate() {
        if n > 0 {
            at += spaces(parsed, line.tokens[n - 1], i);
        }
        if at > WIDTH {
            break;
        }
        at += token_width(text, parsed, i);
        if is_open(parsed, i) {
            depth += 1;
        } else if is_close(parsed, i) {
            depth = depth.saturating_sub(1);
        }
        let word = parsed.tokens[i].tok == Tok::Word;
        let breaks = match super::layout::token_text(text, parsed, i) {
            "and" | "or" | "else" => word,
            "->" | "+" | "|" => !parsed.roles[i].glue && !parsed.roles[i].tight,
            _ => false,
        };
        if n > 0 && depth == 0 && breaks && !parsed.roles[i].start && !parsed.roles[i].join {
            found = Some(i);
        }
    }
    found
}
