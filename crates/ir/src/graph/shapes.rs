//! Rectangles, points, and the sizes that texts need.

use super::{Line, Look, Node};

/// Height of a box with one line; a line more.
const HEIGHT: i64 = 52;
pub const LINE: i64 = 16;
/// Height of a table, and its distance from the box above it.
const TABLE: i64 = 44;
const BELOW: i64 = 8;
/// A table begins so far to the right of its box's left edge.
const INDENT: i64 = 14;

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

impl Placed {
    pub fn shift(&mut self, by: (i64, i64)) {
        let tables = self.tables.iter_mut().flatten();
        let segments = self.segments.iter_mut().flatten();
        self.boxes.iter_mut().chain(tables).chain(segments).for_each(|r| *r = r.moved(by));
        self.ways.iter_mut().flatten().flatten().for_each(|p| *p = p.moved(by));
        self.continuations.iter_mut().for_each(|c| c.at = c.at.moved(by))
    }
}

pub fn box_height(n: &Node) -> i64 {
    HEIGHT + LINE * (n.lines.len() as i64 - 1).max(0)
}

pub fn whole_height(n: &Node) -> i64 {
    box_height(n) + n.tables.len() as i64 * (TABLE + BELOW)
}

/// The tables below a box.
pub fn below(n: &Node, b: &Rect) -> Vec<Rect> {
    let at = |t: usize| b.bottom() + BELOW + t as i64 * (TABLE + BELOW);
    (0..n.tables.len()).map(|t| Rect { x: b.x + INDENT, y: at(t), width: b.width - INDENT, height: TABLE }).collect()
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
