//! Aligns the columns of neighbouring lines and prints.

use super::layout::{is_close, is_open, partners, spaces, token_text, token_width, Line};
use super::WIDTH;
use crate::parser::{Column, Parsed};

/// Lines whose cells differ more in width than this are not aligned with each other.
const SPREAD: usize = 24;
/// The same for the `=>` of cases.
const ARROW_SPREAD: usize = 48;
const COMMENT_SPREAD: usize = 40;

/// Least and largest of the widths in a group that grows: each line is compared with these alone.
#[derive(Clone, Copy, Default)]
struct WidthRange(Option<(usize, usize)>);

impl WidthRange {
    fn with(self, width: usize) -> (usize, usize) {
        self.0.map_or((width, width), |(low, high)| (low.min(width), high.max(width)))
    }
}

/// A token that stands in a column.
#[derive(Clone, Copy)]
struct Cell {
    column: Column,
    /// Its index among the line's tokens.
    at: usize,
}

/// A line being aligned.
struct Row {
    cells: Vec<Cell>,
    /// Spaces added before each token.
    extra: Vec<usize>,
}

pub(super) fn print(text: &str, parsed: &Parsed, lines: &[Line]) -> String {
    let partner = partners(parsed);
    let mut rows: Vec<Row> = lines
        .iter()
        .map(|line| Row { cells: cells(parsed, &partner, line), extra: vec![0; line.tokens.len()] })
        .collect();
    for run in runs(lines) {
        let most = rows[run.clone()].iter().map(|r| r.cells.len()).max().unwrap_or(0);
        for k in 0..most {
            align(text, parsed, lines, &mut rows, run.clone(), k);
        }
    }
    let mut printed: Vec<String> = lines.iter().zip(&rows).map(|(l, r)| line_text(text, parsed, l, r)).collect();
    add_comments(text, parsed, lines, &mut printed);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for (line, string) in lines.iter().zip(&printed) {
        if line.blank_before {
            out.push('\n');
        }
        out.push_str(string.trim_end());
        out.push('\n');
    }
    out
}

/// The column tokens of a line that are outside of its brackets.
fn cells(parsed: &Parsed, partner: &[usize], line: &Line) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    if !line.tokens.first().is_some_and(|&t| parsed.roles[t].start) {
        return cells;
    }
    let mut depth = 0usize;
    for (at, &i) in line.tokens.iter().enumerate() {
        if let Some(column) = parsed.roles[i].column.filter(|_| at > 0 && depth == 0) {
            // A brace that stays open is no column: its list follows below.
            let closed = !is_open(parsed, i) || line.tokens.last().is_some_and(|&last| partner[i] <= last);
            if closed {
                cells.push(Cell { column, at });
            }
        }
        if is_open(parsed, i) {
            depth += 1;
        } else if is_close(parsed, i) {
            depth = depth.saturating_sub(1);
        }
        // Only the first entry of a line stands in columns.
        if at > 0 && depth == 0 && parsed.roles[i].start {
            break;
        }
    }
    cells
}

/// Runs of lines that follow each other on one level.
fn runs(lines: &[Line]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    for i in 1..=lines.len() {
        if i == lines.len()
            || lines[i].blank_before
            || lines[i].indent != lines[i - 1].indent
            || lines[i].tokens.is_empty()
        {
            runs.push(start..i);
            start = i;
        }
    }
    runs
}

/// Aligns the `k`th cells of neighbouring lines that have one of the same kind there.
fn align(text: &str, parsed: &Parsed, lines: &[Line], rows: &mut [Row], run: std::ops::Range<usize>, k: usize) {
    let mut group: Vec<(usize, usize)> = Vec::new();
    let mut extent = WidthRange::default();
    let mut kind = None;
    let mut word = "";
    for i in run {
        // A literal or `recover` among fields does not part its neighbours.
        if k == 0 && rows[i].cells.is_empty() {
            continue;
        }
        let cell = rows[i].cells.get(k).copied();
        let start = cell.map(|c| start_of(text, parsed, &lines[i], &rows[i], c.at));
        let fits = start.is_some_and(|s| {
            let (low, high) = extent.with(s);
            high - low <= if kind == Some(Column::Arrow) { ARROW_SPREAD } else { SPREAD }
        });
        let starts = cell.map_or("", |c| keyword(text, parsed, &lines[i], c, k));
        if cell.map(|c| c.column) != kind || starts != word || !fits {
            set(text, parsed, lines, rows, &group, k);
            group.clear();
            extent = WidthRange::default();
        }
        word = starts;
        kind = cell.map(|c| c.column);
        if let Some(start) = start {
            group.push((i, start));
            extent = WidthRange(Some(extent.with(start)));
        }
    }
    set(text, parsed, lines, rows, &group, k);
}

/// The word a definition starts with: `param a: T` aligns with other params, not with a `table`.
fn keyword<'t>(text: &'t str, parsed: &Parsed, line: &Line, cell: Cell, k: usize) -> &'t str {
    let defines = k == 0 && (cell.at > 2 || cell.column == Column::Equals);
    line.tokens.first().filter(|_| defines).map_or("", |&t| token_text(text, parsed, t))
}

/// Moves the cells of a group to the column of the one that is farthest right.
fn set(text: &str, parsed: &Parsed, lines: &[Line], rows: &mut [Row], group: &[(usize, usize)], k: usize) {
    // Aligning must not push a line over the margin: such a line stands aside.
    let over = |column: usize, &(i, start): &(usize, usize)| {
        let width = start_of(text, parsed, &lines[i], &rows[i], lines[i].tokens.len());
        width <= WIDTH && width + column - start > WIDTH
    };
    let far = |group: &[(usize, usize)]| group.iter().map(|g| g.1).max().unwrap_or(0);
    let mut group = group.to_vec();
    loop {
        let (column, count) = (far(&group), group.len());
        group.retain(|row| !over(column, row));
        if group.len() == count {
            break;
        }
    }
    let column = far(&group);
    for (i, start) in group {
        let at = rows[i].cells[k].at;
        rows[i].extra[at] += column - start;
    }
}

/// The column where the line's token number `at` starts; for the number of its tokens, where the
/// line ends.
fn start_of(text: &str, parsed: &Parsed, line: &Line, row: &Row, at: usize) -> usize {
    let mut column = line.indent;
    for n in 0..line.tokens.len() {
        if n > 0 {
            column += spaces(parsed, line.tokens[n - 1], line.tokens[n]) + row.extra[n];
        }
        if n == at {
            return column;
        }
        column += token_width(text, parsed, line.tokens[n]);
    }
    column
}

fn line_text(text: &str, parsed: &Parsed, line: &Line, row: &Row) -> String {
    let mut out = " ".repeat(line.indent);
    for (n, &i) in line.tokens.iter().enumerate() {
        if n > 0 {
            let count = spaces(parsed, line.tokens[n - 1], i) + row.extra[n];
            out.extend(std::iter::repeat_n(' ', count));
        }
        out.push_str(token_text(text, parsed, i));
    }
    out
}

/// Puts comments at the ends of lines, aligned with those of the lines around.
fn add_comments(text: &str, parsed: &Parsed, lines: &[Line], printed: &mut [String]) {
    let comment = |i: usize| -> &str {
        let span = lines[i].comment.and_then(|c| parsed.comments.get(c)).map(|c| c.span);
        span.and_then(|s| text.get(s.start as usize..s.end as usize)).unwrap_or("")
    };
    let mut group: Vec<(usize, usize)> = Vec::new();
    let mut extent = WidthRange::default();
    for i in 0..=lines.len() {
        let trailing = i < lines.len() && lines[i].comment.is_some() && !lines[i].tokens.is_empty();
        let width = if trailing { printed[i].chars().count() } else { 0 };
        let (low, high) = extent.with(width);
        if !trailing || lines[i].blank_before || high - low > COMMENT_SPREAD {
            let column = extent.0.map_or(0, |e| e.1) + 2;
            extent = WidthRange::default();
            for (j, width) in group.drain(..) {
                printed[j].push_str(&" ".repeat(column - width));
                printed[j].push_str(comment(j));
            }
        }
        if trailing {
            group.push((i, width));
            extent = WidthRange(Some(extent.with(width)));
        } else if i < lines.len() {
            printed[i].push_str(comment(i));
        }
    }
}
