//! The places of boxes and the ways of arrows. In: boxes and arrows. Out: rectangles and points.
//!
//! [`super::layers`] gives columns and order. This file adds the room that texts need, the tables
//! below their boxes, and the ways of arrows from side to side. [`super::rows`] folds a wide
//! picture. Boxes without arrows stand below the others.

use super::layers::{layers, Column, Layers};
use super::shapes::{below, box_height, whole_height, width, Placed, Point, Rect};
use super::{rows, Edge, EdgeKind, End, Parts};

const TOP: i64 = 78;
pub const LEFT: i64 = 30;
/// Between boxes that have no arrows, and above them.
const GAP: i64 = 26;
/// Arrows that lead back, and uses of tables, begin so far below the middle of a box.
const LOWER: i64 = 12;

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
