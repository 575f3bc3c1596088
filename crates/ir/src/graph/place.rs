//! The places of boxes. In: boxes and arrows. Out: a rectangle for each box, the ways of arrows.
//!
//! Layers (Sugiyama, Tagawa, Toda 1981): an arrow leads to a later column, unless it closes a
//! circle. Boxes of a column are ordered by the mean place of their neighbours, so that few arrows
//! cross. Arrows over several columns have a place of their own in each column between. A graph of
//! many columns is folded into rows, as lines of text are. A segment is a row of its own.

use super::{Edge, EdgeKind, Node, Parts, Side};

/// Height of a box with one line; a line more.
pub const HEIGHT: i64 = 52;
pub const LINE: i64 = 16;
/// Height of a table, and its distance from the box above it.
pub const TABLE: i64 = 44;
pub const BELOW: i64 = 8;
pub const TOP: i64 = 78;
pub const LEFT: i64 = 30;
/// Between boxes of a column, between columns, between rows.
const GAP: i64 = 26;
const AISLE: i64 = 84;
const ROW: i64 = 64;
/// Height of a long arrow's place.
const THROUGH: i64 = 14;
/// Right of a row from which arrows lead to the next one.
const SIDE: i64 = 16;
/// Columns of a row.
const COLUMNS: usize = 9;
const SWEEPS: usize = 12;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rect {
    pub x: i64,
    pub y: i64,
    pub width: i64,
    pub height: i64,
}

impl Rect {
    pub fn right(&self) -> i64 {
        self.x + self.width
    }

    pub fn bottom(&self) -> i64 {
        self.y + self.height
    }

    pub fn middle(&self) -> i64 {
        self.y + self.height / 2
    }
}

pub struct Placed {
    /// The boxes.
    pub boxes: Vec<Rect>,
    /// The tables below each box.
    pub tables: Vec<Vec<Rect>>,
    /// By arrow: the places between its ends.
    pub through: Vec<Vec<Rect>>,
    /// By arrow: it leads back or to another row, whose top this is.
    pub around: Vec<Option<i64>>,
    /// By segment: the rectangle around its boxes.
    pub segments: Vec<Option<Rect>>,
    pub width: i64,
    pub height: i64,
}

/// A box, or the place of a long arrow.
struct Cell {
    layer: usize,
    row: usize,
    height: i64,
    y: i64,
    /// Of a box.
    node: Option<usize>,
    near: Vec<usize>,
}

pub fn place(parts: &Parts) -> Placed {
    let layers = layers(parts);
    let count = layers.iter().map(|l| l + 1).max().unwrap_or(1);
    let folds = parts.segments.is_empty() && count > COLUMNS + 2;
    let columns = if folds { COLUMNS } else { count };
    let row_of = |n: usize, layer: usize| match folds {
        true => layer / columns,
        false => row(parts, n),
    };
    let mut cells: Vec<Cell> = (0..parts.nodes.len())
        .map(|n| Cell {
            layer: layers[n] % columns,
            row: row_of(n, layers[n]),
            height: whole_height(&parts.nodes[n]),
            y: 0,
            node: Some(n),
            near: vec![],
        })
        .collect();
    let mut chains: Vec<Vec<usize>> = Vec::new();
    let mut around = Vec::new();
    for e in &parts.edges {
        let (a, b) = (e.from.node, e.to.node);
        let (from, to) = (cells[a].layer, cells[b].layer);
        let back = layers[a] >= layers[b] || folds && cells[a].row != cells[b].row;
        around.push((back && e.kind != EdgeKind::Uses).then_some(b));
        let mut chain = Vec::new();
        if !back {
            let mut last = a;
            for layer in from + 1..to {
                let row = cells[a].row;
                cells.push(Cell { layer, row, height: THROUGH, y: 0, node: None, near: vec![last] });
                let new = cells.len() - 1;
                cells[last].near.push(new);
                chain.push(new);
                last = new
            }
            cells[last].near.push(b);
            cells[b].near.push(last)
        }
        chains.push(chain)
    }
    let tops = stack(&mut cells, columns);
    let around = around.into_iter().map(|to| to.map(|b: usize| tops[cells[b].row])).collect();
    let widths = widths(parts, &cells, columns);
    let x_of = |layer: usize| LEFT + widths[..layer].iter().map(|w| w + AISLE).sum::<i64>();
    let rect = |c: &Cell| Rect { x: x_of(c.layer), y: c.y, width: widths[c.layer], height: c.height };
    let boxes: Vec<Rect> =
        parts.nodes.iter().zip(&cells).map(|(n, c)| Rect { height: box_height(n), ..rect(c) }).collect();
    let tables = parts.nodes.iter().zip(&boxes).map(|(n, b)| below(n, b)).collect();
    let through = chains.iter().map(|c| c.iter().map(|i| rect(&cells[*i])).collect()).collect();
    let segments = (0..parts.segments.len()).map(|s| frame(parts, &boxes, &cells, s)).collect();
    let bottom = cells.iter().map(|c| c.y + c.height).max().unwrap_or(TOP);
    let width = x_of(columns - 1) + widths[columns - 1] + LEFT + if folds { SIDE } else { 0 };
    Placed { boxes, tables, through, around, segments, width, height: bottom + ROW }
}

fn box_height(n: &Node) -> i64 {
    HEIGHT + LINE * (n.lines.len() as i64 - 1).max(0)
}

fn whole_height(n: &Node) -> i64 {
    box_height(n) + n.tables.len() as i64 * (TABLE + BELOW)
}

fn below(n: &Node, b: &Rect) -> Vec<Rect> {
    let at = |t: usize| b.bottom() + BELOW + t as i64 * (TABLE + BELOW);
    (0..n.tables.len()).map(|t| Rect { x: b.x + 14, y: at(t), width: b.width - 14, height: TABLE }).collect()
}

/// The row of a box: its segment's; of a port, that of the first box that it has to do with.
fn row(parts: &Parts, n: usize) -> usize {
    if let Some(s) = parts.nodes[n].segment {
        return s;
    }
    let linked = |e: &Edge| match (e.from.node == n, e.to.node == n) {
        (true, _) => parts.nodes[e.to.node].segment,
        (_, true) => parts.nodes[e.from.node].segment,
        _ => None,
    };
    parts.edges.iter().find_map(linked).unwrap_or(0)
}

/// The layer of each box: behind all that lead to it, but for arrows that close a circle.
fn layers(parts: &Parts) -> Vec<usize> {
    let n = parts.nodes.len();
    let mut next: Vec<Vec<usize>> = vec![vec![]; n];
    let mut sources = vec![true; n];
    for e in parts.edges.iter().filter(|e| e.kind != EdgeKind::Uses && e.from.node != e.to.node) {
        next[e.from.node].push(e.to.node);
        sources[e.to.node] = false
    }
    // Depth first from the sources: an arrow to a box that is open closes a circle.
    let mut order = Vec::new();
    let mut state = vec![0u8; n];
    let starts: Vec<usize> = (0..n).filter(|i| sources[*i]).chain(0..n).collect();
    let mut kept: Vec<(usize, usize)> = Vec::new();
    for start in starts {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        let mut open = vec![(start, 0)];
        while let Some((at, step)) = open.pop() {
            let Some(to) = next[at].get(step).copied() else {
                state[at] = 2;
                order.push(at);
                continue;
            };
            open.push((at, step + 1));
            if state[to] != 1 {
                kept.push((at, to))
            }
            if state[to] == 0 {
                state[to] = 1;
                open.push((to, 0))
            }
        }
    }
    let first = |n: &Node| usize::from(n.side == Side::Between);
    let mut layers: Vec<usize> = parts.nodes.iter().map(first).collect();
    let mut behind: Vec<Vec<usize>> = vec![vec![]; n];
    kept.iter().for_each(|(a, b)| behind[*a].push(*b));
    for a in order.into_iter().rev() {
        for b in &behind[a] {
            layers[*b] = layers[*b].max(layers[a] + 1)
        }
    }
    let last = (0..n).filter(|i| parts.nodes[*i].side == Side::Between).map(|i| layers[i] + 1).max().unwrap_or(1);
    (0..n)
        .map(|i| match parts.nodes[i].side {
            Side::Right => last.max(layers[i]),
            Side::Left => 0,
            Side::Between => layers[i],
        })
        .collect()
}

/// Heights: within each row and column one box below the other, near its neighbours. Out: the top
/// of each row.
fn stack(cells: &mut [Cell], columns: usize) -> Vec<i64> {
    let rows = cells.iter().map(|c| c.row + 1).max().unwrap_or(1);
    let (mut top, mut tops) = (TOP, Vec::new());
    for row in 0..rows {
        tops.push(top);
        let mut lists: Vec<Vec<usize>> = (0..columns)
            .map(|l| (0..cells.len()).filter(|i| cells[*i].row == row && cells[*i].layer == l).collect())
            .collect();
        lists.iter_mut().for_each(|l: &mut Vec<usize>| l.sort_by_key(|i| cells[*i].near.is_empty()));
        for list in &lists {
            settle(cells, list, top, |c| c.y)
        }
        for sweep in 0..SWEEPS {
            for step in 0..columns {
                let column = if sweep % 2 == 0 { step } else { columns - 1 - step };
                let wish: Vec<i64> = lists[column].iter().map(|i| wish(cells, *i, sweep % 2 == 0)).collect();
                let mut order: Vec<usize> = (0..wish.len()).collect();
                if sweep < SWEEPS - 2 {
                    order.sort_by_key(|k| wish[*k]);
                }
                let wishes: Vec<i64> = order.iter().map(|k| wish[*k]).collect();
                lists[column] = order.iter().map(|k| lists[column][*k]).collect();
                let list = lists[column].clone();
                for (i, w) in list.iter().zip(wishes) {
                    cells[*i].y = w - cells[*i].height / 2
                }
                settle(cells, &list, top, |c| c.y)
            }
        }
        let all = lists.iter().flatten();
        top = all.map(|i| cells[*i].y + cells[*i].height).max().unwrap_or(top) + ROW
    }
    tops
}

/// The middle that a cell wishes for: the mean of its neighbours'; in the first way only of those
/// before it.
fn wish(cells: &[Cell], i: usize, forward: bool) -> i64 {
    let c = &cells[i];
    let usable = |o: &&usize| cells[**o].row == c.row && (cells[**o].layer < c.layer) == forward;
    let near: Vec<i64> = c.near.iter().filter(usable).map(|o| head(&cells[*o])).collect();
    let own = c.y + c.height / 2;
    if near.is_empty() {
        return own;
    }
    near.iter().sum::<i64>() / near.len() as i64 + c.height / 2 - head_of(c)
}

/// The middle of a box without its tables.
fn head(c: &Cell) -> i64 {
    c.y + head_of(c)
}

fn head_of(c: &Cell) -> i64 {
    c.height.min(HEIGHT + LINE) / 2
}

/// Moves the cells of a column, in their order, so that none covers another.
fn settle(cells: &mut [Cell], list: &[usize], top: i64, wish: impl Fn(&Cell) -> i64) {
    let wishes: Vec<i64> = list.iter().map(|i| wish(&cells[*i])).collect();
    // Runs of cells that touch each other: first place, wishes, height.
    let mut runs: Vec<(i64, i64, i64, Vec<usize>)> = Vec::new();
    for (i, w) in list.iter().zip(wishes) {
        let height = cells[*i].height + if cells[*i].node.is_some() { GAP } else { GAP / 2 };
        runs.push((w, 1, height, vec![*i]));
        while runs.len() > 1 {
            let (y, n, h, _) = &runs[runs.len() - 2];
            let (y2, n2, _, _) = &runs[runs.len() - 1];
            if y.max(&top) + h <= *y2 {
                break;
            }
            let mean = (y * n + (y2 - h) * n2) / (n + n2);
            if let Some((_, n2, h2, more)) = runs.pop() {
                if let Some(run) = runs.last_mut() {
                    (run.0, run.1, run.2) = (mean, run.1 + n2, run.2 + h2);
                    run.3.extend(more)
                }
            }
        }
    }
    for (y, _, _, run) in runs {
        let mut y = y.max(top);
        for i in run {
            cells[i].y = y;
            y += cells[i].height + if cells[i].node.is_some() { GAP } else { GAP / 2 }
        }
    }
}

/// The width of each column, by its texts.
fn widths(parts: &Parts, cells: &[Cell], columns: usize) -> Vec<i64> {
    let mut widths = vec![60; columns];
    for (n, c) in parts.nodes.iter().zip(cells) {
        let table = n.tables.iter().map(|t| width(t) + 14).max().unwrap_or(0);
        widths[c.layer] = widths[c.layer].max(width(n)).max(table)
    }
    widths
}

/// Room for the bars of a queue.
const BARS: i64 = 24;
/// Characters of a title and of a line that a box shows.
pub const TITLE_MAX: usize = 34;
pub const LINE_MAX: usize = 40;

fn width(n: &Node) -> i64 {
    let chars = |t: &str, most: usize| t.chars().count().min(most) as i64;
    let line = |l: &super::Line| chars(&l.text, LINE_MAX) * 7 + if l.live.is_some() { 70 } else { 0 };
    let lines = n.lines.iter().map(line).max().unwrap_or(0);
    (chars(&n.title, TITLE_MAX) * 9).max(lines) + 28 + if n.look == super::Look::Queue { BARS } else { 0 }
}

/// Around the boxes of a segment.
fn frame(parts: &Parts, boxes: &[Rect], cells: &[Cell], segment: usize) -> Option<Rect> {
    let inside = |n: &usize| parts.nodes[*n].segment == Some(segment);
    let all: Vec<usize> = (0..boxes.len()).filter(inside).collect();
    let x = all.iter().map(|n| boxes[*n].x).min()? - 16;
    let y = all.iter().map(|n| boxes[*n].y).min()? - 30;
    let right = all.iter().map(|n| boxes[*n].right()).max()? + 16;
    let bottom = all.iter().map(|n| cells[*n].y + cells[*n].height).max()? + 14;
    Some(Rect { x, y, width: right - x, height: bottom - y })
}
