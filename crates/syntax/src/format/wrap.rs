//! Breaks lines that run over the margin: first the widest list in brackets, else before an operator.

use super::layout::{entries, indent, is_close, is_open, partners, spaces, token_width, width, Line};
use super::WIDTH;
use crate::parser::Parsed;
use crate::token::Tok;

/// A list narrower than this is not worth breaking when an operator will do.
const NARROW: usize = 24;

pub(super) fn wrap(text: &str, parsed: &Parsed, mut lines: Vec<Line>) -> Vec<Line> {
    let partner = partners(parsed);
    // Each round breaks lines further; a line has fewer tokens each time, so this ends.
    loop {
        let mut changed = false;
        let mut next = Vec::with_capacity(lines.len());
        for line in lines {
            let points = if width(text, parsed, &line) > WIDTH { points(text, parsed, &partner, &line) } else { Vec::new() };
            if points.is_empty() {
                next.push(line);
            } else {
                changed = true;
                split(parsed, line, &points, &mut next);
            }
        }
        lines = next;
        if !changed {
            return lines;
        }
        indent(parsed, &partner, &mut lines);
    }
}

/// Cuts a line before each of the tokens `points`; the comment stays at the end.
fn split(parsed: &Parsed, line: Line, points: &[usize], out: &mut Vec<Line>) {
    let mut current = Line { blank_before: line.blank_before, indent: line.indent, ..Line::default() };
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
        (Some((width, open)), operator) if width >= NARROW || operator.is_none() => {
            group_points(parsed, partner, open)
        }
        (_, Some(i)) => vec![i],
        _ => Vec::new(),
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
        let wide = line.tokens[n..]
            .windows(2)
            .take_while(|w| w[0] < partner[i])
            .map(|w| spaces(parsed, w[0], w[1]) + token_width(text, parsed, w[1]))
            .sum();
        if best.is_none_or(|(w, _)| wide > w) {
            best = Some((wide, i));
        }
    }
    best
}

/// Where a bracketed list breaks: before each entry and before its end.
fn group_points(parsed: &Parsed, partner: &[usize], open: usize) -> Vec<usize> {
    let close = partner[open];
    let mut points = entries(parsed, partner, open);
    if points.is_empty() {
        points.push(open + 1);
        let mut i = open + 1;
        while i < close {
            if parsed.tokens[i].tok == Tok::Sign(",") && !parsed.roles[i].keep && i + 1 < close {
                points.push(i + 1);
            }
            i = partner[i].max(i) + 1;
        }
    }
    points.push(close);
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
        if n > 0 && depth == 0 && breaks && !parsed.roles[i].start {
            found = Some(i);
        }
    }
    found
}
