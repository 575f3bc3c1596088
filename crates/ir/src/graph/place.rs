//! The places of boxes and the ways of arrows. In: boxes and arrows. Out: rectangles and points.
//!
//! [`super::layers`] gives columns and order. This file adds the room that texts need, the tables
//! below their boxes, and the ways of arrows from side to side. [`super::rows`] folds a wide
//! picture. Boxes without arrows stand below the others.

use super::layers::{layers, Column, Layers};
use super::{rows, Edge, EdgeKind, End, Line, Look, Node, Parts};

/// Height of a box with one line; a line more.
const HEIGHT: i64 = 52;
pub const LINE: i64 = 16;
/// Height of a table, and its distance from the box above it.
const TABLE: i64 = 44;
const BELOW: i64 = 8;
/// A table begins so far to the right of its box's left edge.
const INDENT: i64 = 14;
const TOP: i64 = 78;
pub const LEFT: i64 = 30;
/// Between boxes that have no arrows, and above them.
const GAP: i64 = 26;
/// Arrows that lead back, and uses of tables, begin so far below the middle of a box.
const LOWER: i64 = 12;

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

    pub fn center(&self) -> i64 {
        self.x + self.width / 2
    }

    pub fn moved(&self, (x, y): (i64, i64)) -> Rect {
        Rect { x: self.x + x, y: self.y + y, ..*self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub x: i64,
    pub y: i64,
}

impl Point {
    pub fn moved(&self, (x, y): (i64, i64)) -> Point {
        Point { x: self.x + x, y: self.y + y }
    }
}

/// Where an arrow ends in one row, or goes on in the next: a number that both places have.
pub struct Continuation {
    pub at: Point,
    pub text: String,
    pub goes_on: bool,
}

pub struct Placed {
    /// The boxes.
    pub boxes: Vec<Rect>,
    /// The tables below each box.
    pub tables: Vec<Vec<Rect>>,
    /// The pieces of each arrow, one for each row.
    pub ways: Vec<Vec<Vec<Point>>>,
    /// The pieces of each segment's frame, one for each row.
    pub segments: Vec<Vec<Rect>>,
    pub continuations: Vec<Continuation>,
    pub width: i64,
    pub height: i64,
}

pub fn place(parts: &Parts) -> Placed {
    let linked = linked(parts);
    let layers = layers(parts, &linked);
    let mut placed = flat(parts, &layers);
    rows::fold(&mut placed, &layers.columns);
    let (left, top) = corner(&placed, &linked);
    placed.shift((-left, -top));
    shelf(parts, &linked, &mut placed);
    put_on_paper(&mut placed);
    placed
}

/// Whether a box has an arrow, or a place in a segment. Others stand below the picture.
fn linked(parts: &Parts) -> Vec<bool> {
    let mut linked: Vec<bool> = parts.nodes.iter().map(|n| n.segment.is_some()).collect();
    for e in &parts.edges {
        (linked[e.from.node], linked[e.to.node]) = (true, true)
    }
    linked
}

/// The picture as one row.
fn flat(parts: &Parts, layers: &Layers) -> Placed {
    let boxes: Vec<Rect> =
        parts.nodes.iter().zip(&layers.boxes).map(|(n, r)| Rect { height: box_height(n), ..*r }).collect();
    let tables: Vec<Vec<Rect>> = parts.nodes.iter().zip(&boxes).map(|(n, b)| below(n, b)).collect();
    let rect = |end: End| end.table.map_or(boxes[end.node], |t| tables[end.node][t]);
    let way = |n: usize, e: &Edge| vec![way(e, (rect(e.from), rect(e.to)), &layers.points[n], &layers.columns)];
    let ways = parts.edges.iter().enumerate().map(|(n, e)| way(n, e)).collect();
    let segments = layers.segments.iter().map(|s| s.iter().copied().collect()).collect();
    Placed { boxes, tables, ways, segments, continuations: vec![], width: 0, height: 0 }
}

fn box_height(n: &Node) -> i64 {
    HEIGHT + LINE * (n.lines.len() as i64 - 1).max(0)
}

pub fn whole_height(n: &Node) -> i64 {
    box_height(n) + n.tables.len() as i64 * (TABLE + BELOW)
}

fn below(n: &Node, b: &Rect) -> Vec<Rect> {
    let at = |t: usize| b.bottom() + BELOW + t as i64 * (TABLE + BELOW);
    (0..n.tables.len()).map(|t| Rect { x: b.x + INDENT, y: at(t), width: b.width - INDENT, height: TABLE }).collect()
}

/// From side to side, level through the columns between.
fn way(e: &Edge, (a, b): (Rect, Rect), points: &[Point], columns: &[Column]) -> Vec<Point> {
    let column = |x: i64| columns.iter().find(|c| (c.left..=c.right).contains(&x));
    let sides = |r: &Rect| column(r.center()).map_or((r.x, r.right()), |c| (c.left, c.right));
    let forward = a.center() < b.center();
    let lower = if forward && e.kind != EdgeKind::Uses { 0 } else { LOWER };
    // A table is low enough by itself.
    let height = |r: &Rect, end: End| r.middle() + if end.table.is_some() { 0 } else { lower };
    let (from, to) = (height(&a, e.from), height(&b, e.to));
    if sides(&a) == sides(&b) {
        let (x, out) = (sides(&a).1, sides(&a).1 + 26);
        return [(a.right(), from), (x, from), (out, (from + to) / 2), (x, to), (b.right(), to)].map(point).to_vec();
    }
    let mut way = vec![];
    let side = |r: &Rect, y: i64, leaves: bool| {
        let right = leaves == forward;
        let (own, edge) = if right { (r.right(), sides(r).1) } else { (r.x, sides(r).0) };
        let both = if leaves { [own, edge] } else { [edge, own] };
        both.map(|x| point((x, y)))
    };
    way.extend(side(&a, from, true));
    for p in points {
        let Some(c) = column(p.x) else { continue };
        let (x1, x2) = if forward { (c.left, c.right) } else { (c.right, c.left) };
        way.extend([point((x1, p.y)), point((x2, p.y))])
    }
    way.extend(side(&b, to, false));
    way.dedup();
    way
}

fn point((x, y): (i64, i64)) -> Point {
    Point { x, y }
}

/// Boxes without arrows, below the others: as many beside each other as the picture is wide.
fn shelf(parts: &Parts, linked: &[bool], placed: &mut Placed) {
    let (width_of_all, bottom) = extent(placed);
    let widest = width_of_all.max(MIN_WIDTH);
    let (mut x, mut y, mut height) = (0, if bottom > 0 { bottom + 2 * GAP } else { 0 }, 0);
    for (n, b) in parts.nodes.iter().enumerate().filter(|(n, _)| !linked[*n]) {
        if x > 0 && x + width(b) > widest {
            (x, y, height) = (0, y + height + GAP, 0)
        }
        placed.boxes[n] = Rect { x, y, width: width(b), height: box_height(b) };
        placed.tables[n] = below(b, &placed.boxes[n]);
        x += width(b) + GAP;
        height = height.max(whole_height(b))
    }
}

const MIN_WIDTH: i64 = 900;

fn rects(placed: &Placed) -> impl Iterator<Item = &Rect> {
    placed.boxes.iter().chain(placed.tables.iter().flatten()).chain(placed.segments.iter().flatten())
}

/// The right and lower edge of all that is drawn.
fn extent(placed: &Placed) -> (i64, i64) {
    let points = || placed.ways.iter().flatten().flatten();
    let right = rects(placed).map(Rect::right).chain(points().map(|p| p.x)).max().unwrap_or(0);
    let bottom = rects(placed).map(Rect::bottom).chain(points().map(|p| p.y)).max().unwrap_or(0);
    (right, bottom)
}

/// The left and upper edge of all that is drawn, boxes without arrows left out.
fn corner(placed: &Placed, linked: &[bool]) -> (i64, i64) {
    let points = || placed.ways.iter().flatten().flatten();
    let boxes = placed.boxes.iter().zip(linked).filter(|(_, l)| **l).map(|(r, _)| r);
    let rects: Vec<&Rect> = boxes.chain(placed.segments.iter().flatten()).collect();
    let left = rects.iter().map(|r| r.x).chain(points().map(|p| p.x)).min().unwrap_or(0);
    let top = rects.iter().map(|r| r.y).chain(points().map(|p| p.y)).min().unwrap_or(0);
    (left, top)
}

/// Moves the picture below its title, and gives the paper its size.
fn put_on_paper(placed: &mut Placed) {
    placed.shift((LEFT, TOP));
    let (right, bottom) = extent(placed);
    (placed.width, placed.height) = (right + LEFT, bottom + 2 * GAP)
}

impl Placed {
    fn shift(&mut self, by: (i64, i64)) {
        let tables = self.tables.iter_mut().flatten();
        let segments = self.segments.iter_mut().flatten();
        self.boxes.iter_mut().chain(tables).chain(segments).for_each(|r| *r = r.moved(by));
        self.ways.iter_mut().flatten().flatten().for_each(|p| *p = p.moved(by));
        self.continuations.iter_mut().for_each(|c| c.at = c.at.moved(by))
    }
}

/// Room for the bars of a queue.
const BARS: i64 = 24;
/// Characters of a title and of a line that a box shows.
pub const TITLE_MAX: usize = 34;
pub const LINE_MAX: usize = 40;

fn own_width(n: &Node) -> i64 {
    let chars = |t: &str, most: usize| t.chars().count().min(most) as i64;
    let line = |l: &Line| chars(&l.text, LINE_MAX) * 7 + if l.live.is_some() { 70 } else { 0 };
    let lines = n.lines.iter().map(line).max().unwrap_or(0);
    (chars(&n.title, TITLE_MAX) * 9).max(lines) + 28 + if n.look == Look::Queue { BARS } else { 0 }
}

/// The width of a box and its tables.
pub fn width(n: &Node) -> i64 {
    n.tables.iter().map(|t| own_width(t) + INDENT).chain([own_width(n)]).max().unwrap_or(0)
}
