//! `wireloom graph`: a picture of an app as SVG.
//!
//! In: a module whose graph of elements is as it was lowered ([`crate::passes::run_on_graph`]).
//! The picture is that of a whiteboard: ports at the sides, handlers and elements between them,
//! arrows for messages. [`parts`] finds boxes and arrows. [`place`] gives each box its place, by
//! the columns that [`layers`] has of the library `dagre`. [`draw`] writes the document. A table
//! stands below the first box that uses it. A segment is a frame around its boxes. Signals that
//! every table has are left out.
//!
//! The picture is the same for the same module. Texts with `data-live` are empty places for numbers
//! of a running app, which the admin page fills in.

mod draw;
mod layers;
mod parts;
mod place;
mod rows;
mod shapes;

use crate::Module;

/// The kinds of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Port,
    Queue,
    Handler,
    /// A handler that no message starts: a timer, a signal, a start.
    Event,
    Element,
    Merge,
    Table,
}

/// A line of text in a box, with the name of the number that stands at its end.
#[derive(Clone, Debug)]
struct Line {
    text: String,
    live: Option<String>,
}

/// A box, with the tables that stand below it.
#[derive(Debug)]
struct Node {
    title: String,
    lines: Vec<Line>,
    look: Look,
    segment: Option<usize>,
    tables: Vec<Node>,
    side: Side,
}

/// Where a box has to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Between,
    Right,
}

/// The kinds of arrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeKind {
    Message,
    /// A message and its answer: two heads.
    Exchange,
    /// A table of another box.
    Uses,
}

/// The number of a box, and of a table below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    node: usize,
    table: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: End,
    to: End,
    kind: EdgeKind,
}

struct Parts {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Names of the segments.
    segments: Vec<String>,
}

/// The app's graph as one SVG document.
pub fn svg(m: &Module) -> String {
    drawn(m, false)
}

/// The same, with a place for each number of a running app: counters, and messages of ports.
pub fn live_svg(m: &Module) -> String {
    drawn(m, true)
}

fn drawn(m: &Module, live: bool) -> String {
    let parts = parts::of(m, live);
    let placed = place::place(&parts);
    draw::document(&m.app, &parts, &placed)
}

pub use draw::escape;
