//! Columns and order of boxes, by the library `dagre`. In: boxes and arrows. Out: a rectangle for
//! each box, and for each arrow the points between its ends.
//!
//! Two layouts are made. The first has messages only. It tells the last column, behind which the
//! ports at the right stand. It also tells on which side of a box the tables stand that it uses.

use super::shapes::{whole_height, width, Point, Rect};
use super::{Edge, EdgeKind, Parts, Side};
use dagre::graph::{Graph, GraphOptions};
use dagre::{layout::types::LabelPos, EdgeLabel, LayoutOptions, NodeLabel, RankDir};

/// Between boxes of a column, between arrows, between columns.
const GAP: f64 = 30.0;
const ARROWS: f64 = 18.0;
const AISLE: f64 = 96.0;

/// How strongly the ends of an arrow attract each other. No number of messages moves a port from
/// its side.
const PORT: i32 = 1000;
const MESSAGE: i32 = 4;
const WEAK: i32 = 1;

/// The column before the ports at the left, and the one behind those at the right.
const BEFORE: &str = "before";
const BEHIND: &str = "behind";

/// A column: the edges of its widest box.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub left: i64,
    pub right: i64,
}

pub struct Layers {
    /// By box; empty for a box without arrows.
    pub boxes: Vec<Rect>,
    /// By arrow.
    pub points: Vec<Vec<Point>>,
    /// By segment.
    pub segments: Vec<Option<Rect>>,
    pub columns: Vec<Column>,
}

type LayoutGraph = Graph<NodeLabel, EdgeLabel>;

/// `linked`: the boxes that have a place here.
pub fn layers(parts: &Parts, linked: &[bool]) -> Layers {
    let mut graph = messages(parts, linked);
    run(&mut graph);
    let first = boxes(&graph, parts);
    let mut graph = messages(parts, linked);
    uses(parts, &first, &mut graph);
    keep_ports_last(parts, linked, &first, &mut graph);
    run(&mut graph);
    read(&graph, parts)
}

fn box_name(n: usize) -> String {
    format!("box {n}")
}

fn segment_name(n: usize) -> String {
    format!("segment {n}")
}

/// Whether an arrow leads from a later column to an earlier one, by the sides of its ports.
fn leads_back(parts: &Parts, e: &Edge) -> bool {
    parts.nodes[e.to.node].side == Side::Left || parts.nodes[e.from.node].side == Side::Right
}

fn ends(parts: &Parts, e: &Edge) -> (usize, usize) {
    match leads_back(parts, e) {
        true => (e.to.node, e.from.node),
        false => (e.from.node, e.to.node),
    }
}

fn join(graph: &mut LayoutGraph, from: &str, to: &str, name: &str, (weight, minlen): (i32, i32)) {
    let label = EdgeLabel { weight, minlen, labelpos: LabelPos::Center, ..EdgeLabel::default() };
    graph.set_edge(from, to, Some(label), Some(name));
}

/// Boxes and messages, ports drawn to the sides.
fn messages(parts: &Parts, linked: &[bool]) -> LayoutGraph {
    let mut graph = Graph::with_options(GraphOptions { directed: true, multigraph: true, compound: true });
    graph.set_node(BEFORE, Some(NodeLabel::default()));
    graph.set_node(BEHIND, Some(NodeLabel::default()));
    for (n, b) in parts.nodes.iter().enumerate().filter(|(n, _)| linked[*n]) {
        let label = NodeLabel { width: width(b) as f64, height: whole_height(b) as f64, ..NodeLabel::default() };
        graph.set_node(box_name(n), Some(label));
        if let Some(s) = b.segment {
            graph.set_node(segment_name(s), Some(NodeLabel::default()));
            graph.set_parent(&box_name(n), Some(&segment_name(s)));
        }
    }
    let mut led_to = vec![false; parts.nodes.len()];
    for (n, e) in parts.edges.iter().enumerate().filter(|(_, e)| e.kind != EdgeKind::Uses) {
        let (a, b) = ends(parts, e);
        if a != b {
            join(&mut graph, &box_name(a), &box_name(b), &n.to_string(), (MESSAGE, 1));
            led_to[b] = true
        }
    }
    for (n, b) in parts.nodes.iter().enumerate().filter(|(n, _)| linked[*n]) {
        match b.side {
            Side::Left => join(&mut graph, BEFORE, &box_name(n), "", (PORT, 1)),
            Side::Right => join(&mut graph, &box_name(n), BEHIND, "", (PORT, 1)),
            Side::Between if led_to[n] => {}
            Side::Between => join(&mut graph, BEFORE, &box_name(n), "", (WEAK, 2)),
        }
    }
    graph
}

/// Uses of tables, from the earlier column to the later one.
fn uses(parts: &Parts, first: &[Rect], graph: &mut LayoutGraph) {
    for (n, e) in parts.edges.iter().enumerate().filter(|(_, e)| e.kind == EdgeKind::Uses) {
        let (a, b) = (e.from.node, e.to.node);
        let (a, b) = if first[a].center() <= first[b].center() { (a, b) } else { (b, a) };
        if first[a].center() < first[b].center() {
            join(graph, &box_name(a), &box_name(b), &n.to_string(), (WEAK, 1))
        }
    }
}

/// The ports at the right stand behind all other boxes.
fn keep_ports_last(parts: &Parts, linked: &[bool], first: &[Rect], graph: &mut LayoutGraph) {
    let between = (0..first.len()).filter(|n| linked[*n] && parts.nodes[*n].side != Side::Right);
    let mut middles: Vec<i64> = between.map(|n| first[n].center()).collect();
    middles.sort_unstable();
    middles.dedup();
    let columns = i32::try_from(middles.len()).unwrap_or(i32::MAX / 4);
    join(graph, BEFORE, BEHIND, "", (WEAK, columns + 2))
}

fn run(graph: &mut LayoutGraph) {
    let options = LayoutOptions {
        rankdir: RankDir::LR,
        nodesep: GAP,
        edgesep: ARROWS,
        ranksep: AISLE,
        ..LayoutOptions::default()
    };
    dagre::layout(graph, Some(options))
}

/// A label's rectangle; dagre gives its middle.
fn rect(label: Option<&NodeLabel>) -> Option<Rect> {
    let l = label?;
    let (x, y) = (l.x? - l.width / 2.0, l.y? - l.height / 2.0);
    Some(Rect {
        x: x.round() as i64,
        y: y.round() as i64,
        width: l.width.round() as i64,
        height: l.height.round() as i64,
    })
}

fn boxes(graph: &LayoutGraph, parts: &Parts) -> Vec<Rect> {
    (0..parts.nodes.len()).map(|n| rect(graph.node(&box_name(n))).unwrap_or_default()).collect()
}

fn read(graph: &LayoutGraph, parts: &Parts) -> Layers {
    let mut boxes = boxes(graph, parts);
    let columns = columns(&boxes);
    // Boxes of a column have one width.
    for b in boxes.iter_mut().filter(|b| b.width > 0) {
        if let Some(c) = columns.iter().find(|c| (c.left..=c.right).contains(&b.center())) {
            (b.x, b.width) = (c.left, c.right - c.left)
        }
    }
    let points = parts.edges.iter().enumerate().map(|(n, e)| points(graph, n, e)).collect();
    let segments = (0..parts.segments.len()).map(|s| rect(graph.node(&segment_name(s)))).collect();
    Layers { boxes, points, segments, columns }
}

/// The points between the ends of an arrow, in its direction.
fn points(graph: &LayoutGraph, n: usize, e: &Edge) -> Vec<Point> {
    let (a, b) = (box_name(e.from.node), box_name(e.to.node));
    let name = n.to_string();
    let there = graph.edge(&a, &b, Some(&name));
    let Some(label) = there.or_else(|| graph.edge(&b, &a, Some(&name))) else { return vec![] };
    let inner = label.points.get(1..label.points.len().saturating_sub(1)).unwrap_or_default();
    let mut points: Vec<Point> = inner.iter().map(|p| Point { x: p.x.round() as i64, y: p.y.round() as i64 }).collect();
    if there.is_none() {
        points.reverse()
    }
    points
}

/// Boxes with one middle are a column.
fn columns(boxes: &[Rect]) -> Vec<Column> {
    let mut sorted: Vec<&Rect> = boxes.iter().filter(|b| b.width > 0).collect();
    sorted.sort_by_key(|b| (b.center(), b.x));
    let mut columns: Vec<Column> = Vec::new();
    for b in sorted {
        match columns.last_mut() {
            Some(c) if b.center() <= c.right => (c.left, c.right) = (c.left.min(b.x), c.right.max(b.right())),
            _ => columns.push(Column { left: b.x, right: b.right() }),
        }
    }
    columns
}
