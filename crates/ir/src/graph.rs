//! `wireloom graph`: a picture of an app as SVG.
//!
//! In: a module whose graph of elements is as it was lowered ([`crate::passes::run_on_graph`]). The
//! columns follow the messages:
//!
//! - sources: ports that are read, timers;
//! - handlers and merges;
//! - elements, each behind its senders;
//! - destinations: other ports, tables.
//!
//! Arrows: a message, a call (with its answer: two heads), a reply (dashed, back), a table's use
//! (dotted). Signals that every table has are left out. Nothing here depends on a layout program.
//! The picture is the same for the same module.

use crate::*;
use desc::{PortKind, Value};
use std::fmt::Write;

const WIDTH: i64 = 280;
const HEIGHT: i64 = 54;
/// A further line of text.
const LINE: i64 = 16;
const GAP: i64 = 26;
const COLUMN: i64 = 410;
const TOP: i64 = 74;
const LEFT: i64 = 30;

#[derive(Clone, Copy, PartialEq)]
enum Look {
    Port,
    Handler,
    Element,
    Merge,
    Table,
    Event,
}

struct Node {
    key: Key,
    column: i64,
    y: i64,
    title: String,
    sub: Vec<String>,
    look: Look,
}

impl Node {
    /// Room for a title and its lines.
    fn height(&self) -> i64 {
        HEIGHT + LINE * (self.sub.len() as i64 - 1).max(0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Port(u32),
    Handler(usize),
    Merge(usize),
    Table(u32),
    Event(usize),
    /// By the first of its name: one instance stands in several wirings.
    Element(usize),
    /// Nodes of a wiring of the app.
    Input(u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EdgeKind {
    Message,
    Call,
    Send,
    Reply,
    Uses,
}

struct Edge {
    from: Key,
    to: Key,
    line: EdgeKind,
}

/// The app's graph as one SVG document.
pub fn svg(m: &Module) -> String {
    let (nodes, edges) = build(m);
    let bottom = nodes.iter().map(|n| n.y + n.height()).max().unwrap_or(TOP);
    let last = nodes.iter().map(|n| n.column).max().unwrap_or(2).max(2);
    let (width, height) = (2 * LEFT + last * COLUMN + WIDTH, bottom + 64);
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">"#
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&format!("app {}", m.app)));
    out.push_str(STYLE);
    let _ = writeln!(out, r#"<rect class="paper" width="{width}" height="{height}"/>"#);
    let _ = writeln!(out, r#"<text class="app" x="{LEFT}" y="42">{}</text>"#, escape(&m.app));
    for e in &edges {
        edge(&nodes, e, &mut out)
    }
    for n in &nodes {
        node(n, &mut out)
    }
    legend(height - 24, &mut out);
    out.push_str("</svg>\n");
    out
}

const STYLE: &str = r##"<defs>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path class="head" d="M0 0.5 L8 4 L0 7.5 Z"/></marker>
</defs>
<style>
.paper { fill: #ffffff }
.app { font: 600 22px system-ui, sans-serif; fill: #1d2733 }
.title { font: 600 14px system-ui, sans-serif; fill: #1d2733 }
.sub { font: 11px ui-monospace, monospace; fill: #5b6b7d }
.box { stroke-width: 1.4 }
.port { fill: #e8f1fb; stroke: #3a7bbf }
.handler { fill: #ffffff; stroke: #1d2733 }
.element { fill: #f3eefb; stroke: #6f4bb0 }
.merge { fill: #eef8ee; stroke: #3c8c4a }
.table { fill: #fdf5e4; stroke: #b9842b }
.event { fill: #f4f4f6; stroke: #8a94a0 }
.edge { fill: none; stroke: #5b6b7d; stroke-width: 1.5 }
.reply { stroke-dasharray: 6 4 }
.uses { stroke-dasharray: 1.5 4; stroke-linecap: round }
.head { fill: #5b6b7d }
@media (prefers-color-scheme: dark) {
.paper { fill: #12181f }
.app, .title { fill: #e8eef4 }
.sub { fill: #a3b1c0 }
.port { fill: #16304a; stroke: #5c9ddd }
.handler { fill: #1b232c; stroke: #c8d2dc }
.element { fill: #2a1f3d; stroke: #a88ae0 }
.merge { fill: #16331c; stroke: #64b675 }
.table { fill: #3a2d12; stroke: #d8a64c }
.event { fill: #232930; stroke: #8a94a0 }
.edge { stroke: #a3b1c0 }
.head { fill: #a3b1c0 }
}
</style>
"##;

/// Text that is safe in XML: markup escaped, control characters (which XML 1.0 cannot have)
/// replaced.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// At most so many characters.
fn short(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.into();
    }
    text.chars().take(max - 1).chain(['…']).collect()
}

fn build(m: &Module) -> (Vec<Node>, Vec<Edge>) {
    let mut nodes = Vec::new();
    let mut edges: Vec<Edge> = Vec::new();
    let columns = columns(m);
    // A merge stands behind the nodes before it, and before those behind it.
    let of_merge = |g: &Merge| 1 + i64::from(m.before(g).is_some());
    let behind = |g: &Merge| of_merge(g) + i64::from(m.behind(g).is_some());
    let last = columns.iter().copied().chain(m.merges.iter().map(behind)).max().unwrap_or(1) + 1;
    let read = |n: usize| m.handlers.iter().any(|h| matches!(h.on, On::Frame { port, .. } if port.index() == n));
    let mut add = |key, column: i64, title: &str, sub: Vec<String>, look| {
        nodes.push(Node { key, column, y: 0, title: title.into(), sub, look })
    };
    for (n, p) in m.ports.iter().enumerate() {
        let protocols: Vec<&str> =
            p.protocols.iter().filter_map(|q| m.protocols.get(q.index())).map(|q| q.name.as_str()).collect();
        let (column, word, value) = match &p.kind {
            PortKind::Listen(v) => (0, "listen", v),
            PortKind::Connect(v) => (last, "connect", v),
            PortKind::Frames { engine, names } => (if read(n) { 0 } else { last }, text::engine_name(*engine), names),
        };
        let at = match value {
            Value::Param(n) => m.params.get(*n as usize).map_or(String::new(), |p| format!(" {}", p.name)),
            Value::Const(v) => format!(" {}", explain::constant(v)),
        };
        let sub = match protocols[..] {
            [] => vec![format!("{word}{at}")],
            [one] => vec![format!("{word}{at} as {one}")],
            _ => [format!("{word}{at}")]
                .into_iter()
                .chain(protocols.iter().enumerate().map(|(n, q)| format!("{} {q}", if n == 0 { "as" } else { "or" })))
                .collect(),
        };
        add(Key::Port(n as u32), column, &p.name, sub, Look::Port);
    }
    for (n, h) in m.handlers.iter().enumerate() {
        let event = match h.on {
            On::Test(_) | On::Check { .. } => continue,
            On::Signal(_) if m.signal_of(h.on).is_some_and(|s| of_table(m, &s.name)) => continue,
            On::Every(_) => Some("timer"),
            On::Start => Some("start"),
            On::End => Some("end"),
            On::Signal(_) => Some("signal"),
            On::Fault => Some("any fault"),
            _ => None,
        };
        let steps = format!("at most {} steps", explain::count(h.steps));
        let protocol = explain::handler_protocol(m, h).map(|p| format!("as {p}"));
        let segment =
            h.segment.map(|s| &m.segments[s.index()]).map(|s| format!("segment {} on cpu({})", s.name, s.cpu));
        let sub = segment.into_iter().chain(protocol).chain([steps]).collect();
        let merge = m.merges.iter().find(|g| m.behind(g) == Some(HandlerId(n as u32)));
        add(Key::Handler(n), merge.map_or(1, behind), &h.name, sub, Look::Handler);
        if let Some(event) = event {
            add(Key::Event(n), 0, event, Vec::new(), Look::Event)
        }
        handler_edges(m, n, h, &mut edges);
    }
    for (n, i) in m.inputs.iter().enumerate().filter(|(_, i)| i.body.is_some()) {
        let key = input_key(m, InputId(n as u32));
        let column = (0..m.inputs.len())
            .filter(|k| input_key(m, InputId(*k as u32)) == key)
            .map(|k| columns[k])
            .min()
            .unwrap_or(2);
        match key {
            Key::Element(e) => add(key, column, &m.elements[e].name, vec![m.elements[e].kind.clone()], Look::Element),
            _ => add(key, column, &i.name, vec!["wiring".into()], Look::Element),
        }
        if let Some(b) = &i.body {
            block_edges(m, key, &b.block, &mut edges)
        }
    }
    for (n, g) in m.merges.iter().enumerate() {
        let (key, from, to) = (Key::Merge(n), Key::Port(g.from.0), Key::Port(g.to.0));
        add(key, of_merge(g), &g.name, vec![format!("merge of {} streams", g.inputs)], Look::Merge);
        let handler = |h: Option<HandlerId>| h.map(|h| Key::Handler(h.index()));
        match handler(m.before(g)) {
            Some(h) => edges.iter_mut().filter(|e| (e.from, e.to) == (h, to)).for_each(|e| e.to = key),
            None => edges.push(Edge { from, to: key, line: EdgeKind::Message }),
        }
        match handler(m.behind(g)) {
            Some(h) => edges.iter_mut().filter(|e| (e.from, e.to) == (to, h)).for_each(|e| e.from = key),
            None => edges.push(Edge { from: key, to, line: EdgeKind::Send }),
        }
    }
    for (n, t) in m.tables.iter().enumerate() {
        add(
            Key::Table(n as u32),
            last,
            &t.name,
            vec![format!("table, {} entries", explain::count(t.capacity))],
            Look::Table,
        );
    }
    let mut seen: Vec<Key> = Vec::new();
    nodes.retain(|n| {
        let new = !seen.contains(&n.key);
        seen.push(n.key);
        new
    });
    place(&mut nodes, &edges, last);
    (nodes, edges)
}

/// Whether a signal is one of those that every table has.
fn of_table(m: &Module, signal: &str) -> bool {
    signal.rsplit_once('.').is_some_and(|(table, _)| m.tables.iter().any(|t| t.name == table))
}

fn input_key(m: &Module, id: InputId) -> Key {
    let of = |e: ElementId| m.elements.iter().position(|o| o.name == m.elements[e.index()].name).unwrap_or(e.index());
    m.inputs[id.index()].element.map_or(Key::Input(id.0), |e| Key::Element(of(e)))
}

/// The column of each input: behind all that send to it.
fn columns(m: &Module) -> Vec<i64> {
    let mut columns = vec![2; m.inputs.len()];
    for id in m.inputs_in_order() {
        let Some(body) = m.input_body(id) else { continue };
        for to in m.outputs(&body.block) {
            columns[to.index()] = columns[to.index()].max(columns[id.index()] + 1)
        }
    }
    if m.inputs.iter().all(|i| i.body.is_none()) {
        columns.clear()
    }
    columns
}

fn handler_edges(m: &Module, n: usize, h: &Handler, edges: &mut Vec<Edge>) {
    let mut add = |from, to, line| {
        if !edges.iter().any(|e| e.from == from && e.to == to && e.line == line) {
            edges.push(Edge { from, to, line })
        }
    };
    let this = Key::Handler(n);
    match h.on {
        On::Message { port, .. }
        | On::Frame { port, .. }
        | On::Opened(port)
        | On::Greeting(port)
        | On::Probe(port)
        | On::Closed(port) => add(Key::Port(port.0), this, EdgeKind::Message),
        On::Fault | On::Start | On::End | On::Every(_) | On::Signal(_) => add(Key::Event(n), this, EdgeKind::Message),
        On::Test(_) | On::Check { .. } => {}
    }
    if let On::Message { port, .. } | On::Greeting(port) | On::Probe(port) = h.on {
        walk::stmts(&h.body.block, &mut |s| {
            if let StmtKind::Reply { .. } = s.kind {
                add(this, Key::Port(port.0), EdgeKind::Reply)
            }
        });
    }
    block_edges(m, this, &h.body.block, edges);
}

/// What a block sends to, and the tables that it uses.
fn block_edges(m: &Module, this: Key, block: &Block, edges: &mut Vec<Edge>) {
    let mut add = |from, to, line| {
        if !edges.iter().any(|e| e.from == from && e.to == to && e.line == line) {
            edges.push(Edge { from, to, line })
        }
    };
    walk::stmts(block, &mut |s| match &s.kind {
        StmtKind::Output { wire, .. } => match m.wires.get(wire.index()).map(|w| w.to) {
            Some(Target::Input { input, .. }) => add(this, input_key(m, input), EdgeKind::Send),
            Some(Target::Port { port, .. }) => add(this, Key::Port(port.0), EdgeKind::Send),
            None => {}
        },
        StmtKind::Frame { act: FrameAct::Send { port, .. }, .. } | StmtKind::SendFrame { port, .. } => {
            add(this, Key::Port(port.0), EdgeKind::Send)
        }
        StmtKind::Call { port, .. } => add(this, Key::Port(port.0), EdgeKind::Call),
        StmtKind::Send { port, .. } => add(this, Key::Port(port.0), EdgeKind::Send),
        s => {
            if let Some(table) = s.table() {
                add(this, Key::Table(table.0), EdgeKind::Uses)
            }
        }
    });
}

/// Rows within the columns: by the mean row of a node's neighbours in the column before, then
/// centred.
fn place(nodes: &mut [Node], edges: &[Edge], last: i64) {
    for column in 0..=last {
        let mut ids: Vec<usize> = (0..nodes.len()).filter(|i| nodes[*i].column == column).collect();
        let weight = |i: usize| {
            let linked: Vec<i64> = nodes
                .iter()
                .filter(|o| {
                    o.column < column
                        && edges.iter().any(|e| {
                            (e.from == o.key && e.to == nodes[i].key) || (e.to == o.key && e.from == nodes[i].key)
                        })
                })
                .map(|o| o.y)
                .collect();
            if linked.is_empty() {
                i64::MAX
            } else {
                linked.iter().sum::<i64>() / linked.len() as i64
            }
        };
        if column > 0 {
            ids.sort_by_cached_key(|i| weight(*i))
        }
        let mut y = TOP;
        for i in ids {
            nodes[i].y = y;
            y += nodes[i].height() + GAP;
        }
    }
    let bottom =
        |c: i64, nodes: &[Node]| nodes.iter().filter(|n| n.column == c).map(|n| n.y + n.height()).max().unwrap_or(TOP);
    let most = (0..=last).map(|c| bottom(c, nodes)).max().unwrap_or(TOP);
    for c in 0..=last {
        let shift = (most - bottom(c, nodes)) / 2;
        for n in nodes.iter_mut().filter(|n| n.column == c) {
            n.y += shift
        }
    }
}

fn x(column: i64) -> i64 {
    LEFT + column * COLUMN
}

fn node(n: &Node, out: &mut String) {
    let (class, radius) = match n.look {
        Look::Port => ("port", 10),
        Look::Handler => ("handler", 4),
        Look::Element => ("element", 4),
        Look::Merge => ("merge", 4),
        Look::Table => ("table", 2),
        Look::Event => ("event", 27),
    };
    let (x, y) = (x(n.column), n.y);
    let _ = writeln!(
        out,
        r#"<g><title>{}</title><rect class="box {class}" x="{x}" y="{y}" width="{WIDTH}" height="{}" rx="{radius}"/>"#,
        escape(&format!("{} {}", n.title, n.sub.join(" "))),
        n.height()
    );
    let title_y = if n.sub.is_empty() { y + 32 } else { y + 23 };
    let _ =
        writeln!(out, r#"<text class="title" x="{}" y="{title_y}">{}</text>"#, x + 14, escape(&short(&n.title, 31)));
    for (row, line) in n.sub.iter().enumerate() {
        let _ = writeln!(
            out,
            r#"<text class="sub" x="{}" y="{}">{}</text>"#,
            x + 14,
            y + 41 + LINE * row as i64,
            escape(&short(line, 38))
        );
    }
    out.push_str("</g>\n");
}

fn edge(nodes: &[Node], e: &Edge, out: &mut String) {
    let find = |k: Key| nodes.iter().find(|n| n.key == k);
    let (Some(a), Some(b)) = (find(e.from), find(e.to)) else { return };
    // Lines of different kinds leave a box at different heights, so that a reply does not cover its
    // request.
    let at = |n: &Node| match e.line {
        EdgeKind::Message => n.height() / 3,
        EdgeKind::Reply => n.height() * 2 / 3,
        EdgeKind::Uses => n.height() * 3 / 4,
        EdgeKind::Call | EdgeKind::Send => n.height() / 2,
    };
    let forward = a.column < b.column;
    let (x1, x2) = if forward { (x(a.column) + WIDTH, x(b.column)) } else { (x(a.column), x(b.column) + WIDTH) };
    let (y1, y2) = (a.y + at(a), b.y + at(b));
    let bend = ((x2 - x1).abs() / 2).max(40) * if forward { 1 } else { -1 };
    let (class, marks) = match e.line {
        EdgeKind::Message | EdgeKind::Send => ("edge", r##" marker-end="url(#head)""##),
        EdgeKind::Call => ("edge", r##" marker-start="url(#head)" marker-end="url(#head)""##),
        EdgeKind::Reply => ("edge reply", r##" marker-end="url(#head)""##),
        EdgeKind::Uses => ("edge uses", ""),
    };
    let _ = writeln!(
        out,
        r#"<path class="{class}" d="M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}"{marks}/>"#,
        x1 + bend,
        x2 - bend
    );
}

fn legend(y: i64, out: &mut String) {
    let (end, both) = (r##" marker-end="url(#head)""##, r##" marker-start="url(#head)" marker-end="url(#head)""##);
    let items = [
        ("edge", "message", end),
        ("edge", "call and answer", both),
        ("edge reply", "reply", end),
        ("edge uses", "table", ""),
    ];
    for (n, (class, text, mark)) in items.iter().enumerate() {
        let x = LEFT + n as i64 * 180;
        let _ = writeln!(
            out,
            r#"<path class="{class}" d="M{x} {y} h36"{mark}/><text class="sub" x="{}" y="{}">{text}</text>"#,
            x + 44,
            y + 4
        );
    }
}
