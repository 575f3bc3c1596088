//! Folds a wide picture into rows, as lines of text are. In: a picture of one row. Out: rows, cut
//! between columns. An arrow that is cut has the same number at both ends of the cut.

use super::layers::Column;
use super::shapes::{Continuation, Placed, Point, Rect};

/// The width of a row.
const WIDTH: i64 = 2200;
/// Below a row.
const GAP: i64 = 56;
/// From a column to the end of an arrow that is cut behind it.
const STUB: i64 = 26;

pub fn fold(placed: &mut Placed, columns: &[Column]) {
    let cuts = cuts(columns);
    if cuts.is_empty() {
        return;
    }
    let mut numbers = Numbers::default();
    for way in &mut placed.ways {
        *way = way.drain(..).flat_map(|w| pieces(&w, &cuts, &mut numbers)).collect()
    }
    placed.continuations = numbers.texts();
    for s in &mut placed.segments {
        *s = s.iter().flat_map(|r| slices(r, &cuts)).collect()
    }
    stack(placed, &cuts)
}

/// The places between columns at which rows end, of about one width.
fn cuts(columns: &[Column]) -> Vec<i64> {
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else { return vec![] };
    let rows = (last.right - first.left + WIDTH - 1) / WIDTH;
    let each = (last.right - first.left) / rows.max(1);
    let (mut cuts, mut start) = (vec![], first.left);
    for pair in columns.windows(2) {
        if pair[1].right - start > WIDTH || pair[1].right - start > each + each / 8 {
            cuts.push((pair[0].right + pair[1].left) / 2);
            start = pair[1].left
        }
    }
    cuts
}

fn row(x: i64, cuts: &[i64]) -> usize {
    cuts.iter().filter(|c| **c < x).count()
}

/// The numbers of arrows that are cut: one for each place from which they lead.
#[derive(Default)]
struct Numbers {
    from: Vec<Point>,
    into: Vec<(Point, Vec<usize>)>,
}

impl Numbers {
    fn add(&mut self, from: Point, into: Point) {
        let known = self.from.iter().position(|p| *p == from);
        let number = known.unwrap_or_else(|| {
            self.from.push(from);
            self.from.len() - 1
        }) + 1;
        match self.into.iter_mut().find(|(p, _)| *p == into) {
            Some((_, list)) => list.push(number),
            None => self.into.push((into, vec![number])),
        }
    }

    fn texts(self) -> Vec<Continuation> {
        let out = self.from.into_iter().enumerate().map(|(n, at)| (at, vec![n + 1], false));
        let into = self.into.into_iter().map(|(at, list)| (at, list, true));
        let text = |list: &[usize]| list.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        out.chain(into).map(|(at, list, goes_on)| Continuation { at, text: text(&list), goes_on }).collect()
    }
}

/// A way that leads to another row: its beginning and its end. Rows between have no part of it.
fn pieces(way: &[Point], cuts: &[i64], numbers: &mut Numbers) -> Vec<Vec<Point>> {
    let rows: Vec<usize> = way.iter().map(|p| row(p.x, cuts)).collect();
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return vec![] };
    if first == last {
        return vec![way.to_vec()];
    }
    let mut begin: Vec<Point> = way.iter().zip(&rows).take_while(|(_, r)| *r == first).map(|(p, _)| *p).collect();
    let end: Vec<Point> = way.iter().zip(&rows).skip_while(|(_, r)| *r != last).map(|(p, _)| *p).collect();
    let stub = if first < last { STUB } else { -STUB };
    let (from, into) = (begin[begin.len() - 1].moved((stub, 0)), end[0].moved((-stub, 0)));
    numbers.add(from, into);
    begin.push(from);
    vec![begin, [into].into_iter().chain(end).collect()]
}

fn slices(r: &Rect, cuts: &[i64]) -> Vec<Rect> {
    let inside = cuts.iter().copied().filter(|c| (r.x + 1..r.right()).contains(c));
    let edges: Vec<i64> = [r.x].into_iter().chain(inside).chain([r.right()]).collect();
    edges.windows(2).map(|e| Rect { x: e[0], width: e[1] - e[0], ..*r }).collect()
}

/// Puts the rows one below the other, each at the left and without empty bands.
fn stack(placed: &mut Placed, cuts: &[i64]) {
    let mut rows: Vec<PictureRow> = (0..=cuts.len()).map(|_| PictureRow::default()).collect();
    let mut cover = |x: i64, y: i64, bottom: i64| rows[row(x, cuts)].cover(x, y, bottom);
    let boxes = placed.boxes.iter().chain(placed.tables.iter().flatten());
    boxes.filter(|r| r.width > 0).for_each(|r| cover(r.x, r.y, r.bottom()));
    placed.ways.iter().flatten().flatten().for_each(|p| cover(p.x, p.y - ARROW, p.y + ARROW));
    placed.segments.iter().flatten().for_each(|r| {
        cover(r.x + 1, r.y, r.y + NAME);
        cover(r.x + 1, r.bottom(), r.bottom())
    });
    let mut top = 0;
    for r in &mut rows {
        r.close(top);
        top = r.bottom() + GAP
    }
    let to = |p: Point, at: i64| rows[row(at, cuts)].to(p);
    let boxes = placed.boxes.iter_mut().chain(placed.tables.iter_mut().flatten());
    boxes.filter(|r| r.width > 0).for_each(|r| {
        let Point { x, y } = to(Point { x: r.x, y: r.y }, r.x);
        (r.x, r.y) = (x, y)
    });
    placed.segments.iter_mut().flatten().for_each(|r| {
        let at = r.x + 1;
        let (first, last) = (to(Point { x: r.x, y: r.y }, at), to(Point { x: r.x, y: r.bottom() }, at));
        (r.x, r.y, r.height) = (first.x, first.y, last.y - first.y)
    });
    placed.ways.iter_mut().flatten().flatten().for_each(|p| *p = to(*p, p.x));
    placed.continuations.iter_mut().for_each(|c| c.at = to(c.at, c.at.x))
}

/// Above and below an arrow; below the upper edge of a segment, for its name.
const ARROW: i64 = 8;
const NAME: i64 = 24;
/// The highest empty band.
const BAND: i64 = 30;

/// A row: the spans of its heights in which something is drawn.
#[derive(Default)]
struct PictureRow {
    left: Option<i64>,
    /// Beginning, end, and the place in the picture.
    spans: Vec<(i64, i64, i64)>,
}

impl PictureRow {
    fn cover(&mut self, x: i64, y: i64, bottom: i64) {
        self.left = Some(self.left.map_or(x, |l| l.min(x)));
        self.spans.push((y, bottom, 0))
    }

    /// Joins spans that touch, and gives each its place from `top` on.
    fn close(&mut self, top: i64) {
        self.spans.sort_unstable();
        let mut joined: Vec<(i64, i64, i64)> = Vec::new();
        for (y, bottom, _) in self.spans.drain(..) {
            match joined.last_mut() {
                Some((_, end, _)) if y <= *end => *end = bottom.max(*end),
                Some((from, end, at)) => {
                    let at = *at + (*end - *from) + (y - *end).min(BAND);
                    joined.push((y, bottom, at))
                }
                None => joined.push((y, bottom, top)),
            }
        }
        self.spans = joined
    }

    fn bottom(&self) -> i64 {
        self.spans.last().map_or(0, |(y, bottom, at)| at + bottom - y)
    }

    fn to(&self, p: Point) -> Point {
        let span = self.spans.iter().rev().find(|(y, ..)| *y <= p.y).or(self.spans.first());
        Point { x: p.x - self.left.unwrap_or(0), y: span.map_or(p.y, |(y, _, at)| p.y - y + at) }
    }
}
