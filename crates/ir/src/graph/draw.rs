//! The document. In: the parts of a picture and their places. Out: SVG, in the viewer's light or
//! dark colours.

use super::place::{Placed, Rect, LEFT, LINE, LINE_MAX, TITLE_MAX};
use super::{Edge, EdgeKind, End, Look, Node, Parts};
use std::fmt::Write;

pub(super) fn document(name: &str, parts: &Parts, placed: &Placed) -> String {
    let (width, height) = (placed.width.max(660), placed.height + 24);
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">"#
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&format!("app {name}")));
    out.push_str(STYLE);
    let _ = writeln!(out, r#"<rect class="paper" width="{width}" height="{height}"/>"#);
    let _ = writeln!(out, r#"<text class="app" x="{LEFT}" y="38">{}</text>"#, escape(name));
    for (title, frame) in parts.segments.iter().zip(&placed.segments) {
        if let Some(r) = frame {
            segment(title, r, &mut out)
        }
    }
    let mut lane = 0;
    for (n, e) in parts.edges.iter().enumerate() {
        lane += usize::from(placed.around[n].is_some());
        edge(placed, n, e, lane, &mut out)
    }
    for (n, node) in parts.nodes.iter().enumerate() {
        draw_box(node, &placed.boxes[n], &mut out);
        for (t, r) in node.tables.iter().zip(&placed.tables[n]) {
            draw_box(t, r, &mut out)
        }
    }
    legend(height - 20, &mut out);
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
.sub, .live { font: 11px ui-monospace, monospace; fill: #4d5c6d }
.live { font-weight: 600; fill: #1d2733; text-anchor: end }
.box { stroke-width: 1.4 }
.port { fill: #e8f1fb; stroke: #3a7bbf }
.queue { fill: #e6f5f4; stroke: #23807a }
.handler { fill: #ffffff; stroke: #1d2733 }
.element { fill: #f3eefb; stroke: #6f4bb0 }
.merge { fill: #eef8ee; stroke: #3c8c4a }
.table { fill: #fdf5e4; stroke: #b9842b }
.event { fill: #f4f4f6; stroke: #8a94a0 }
.segment { fill: #7d8896; fill-opacity: 0.07; stroke: #7d8896; stroke-dasharray: 5 4 }
.bars { fill: none; stroke: #23807a; stroke-width: 1.4 }
.edge { fill: none; stroke: #5b6b7d; stroke-width: 1.5 }
.uses { stroke: #b9842b; stroke-dasharray: 1.5 4; stroke-linecap: round }
.head { fill: #5b6b7d }
@media (prefers-color-scheme: dark) {
.paper { fill: #12181f }
.app, .title, .live { fill: #e8eef4 }
.sub { fill: #b4c0cd }
.port { fill: #16304a; stroke: #5c9ddd }
.queue { fill: #113533; stroke: #4fb5ad }
.handler { fill: #1b232c; stroke: #c8d2dc }
.element { fill: #2a1f3d; stroke: #a88ae0 }
.merge { fill: #16331c; stroke: #64b675 }
.table { fill: #3a2d12; stroke: #d8a64c }
.event { fill: #232930; stroke: #8a94a0 }
.bars { stroke: #4fb5ad }
.edge { stroke: #a3b1c0 }
.uses { stroke: #d8a64c }
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

fn segment(title: &str, r: &Rect, out: &mut String) {
    let Rect { x, y, width, height } = r;
    let _ = writeln!(out, r#"<rect class="segment" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>"#);
    let _ = writeln!(out, r#"<text class="sub" x="{}" y="{}">{}</text>"#, x + 10, y + 16, escape(title));
}

fn draw_box(n: &Node, r: &Rect, out: &mut String) {
    let (class, radius) = match n.look {
        Look::Port => ("port", 12),
        Look::Queue => ("queue", 2),
        Look::Handler => ("handler", 4),
        Look::Element => ("element", 4),
        Look::Merge => ("merge", 4),
        Look::Table => ("table", 2),
        Look::Event => ("event", 26),
    };
    let Rect { x, y, width, height } = *r;
    let lines: Vec<&str> = n.lines.iter().map(|l| l.text.as_str()).collect();
    let _ = writeln!(
        out,
        r#"<g><title>{}</title><rect class="box {class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>"#,
        escape(&format!("{} {}", n.title, lines.join(" "))),
    );
    if n.look == Look::Queue {
        let bars: String = (1..=3).map(|k| format!("M{} {y} v{height} ", x + width - 7 * k)).collect();
        let _ = writeln!(out, r#"<path class="bars" d="{}"/>"#, bars.trim_end());
    }
    let indent = x + if n.look == Look::Event { 20 } else { 13 };
    let first = y + if n.lines.is_empty() { height / 2 + 5 } else { 21 };
    let title = escape(&short(&n.title, TITLE_MAX));
    let _ = writeln!(out, r#"<text class="title" x="{indent}" y="{first}">{title}</text>"#);
    for (row, line) in n.lines.iter().enumerate() {
        let y = first + 17 + LINE * row as i64;
        let _ =
            writeln!(out, r#"<text class="sub" x="{indent}" y="{y}">{}</text>"#, escape(&short(&line.text, LINE_MAX)));
        if let Some(of) = &line.live {
            let end = x + width - if n.look == Look::Queue { 28 } else { 12 };
            let _ = writeln!(out, r#"<text class="live" x="{end}" y="{y}" data-live="{}"></text>"#, escape(of));
        }
    }
    out.push_str("</g>\n");
}

fn rect(placed: &Placed, end: End) -> Rect {
    end.table.map_or(placed.boxes[end.node], |t| placed.tables[end.node][t])
}

fn edge(placed: &Placed, n: usize, e: &Edge, lane: usize, out: &mut String) {
    let (a, b) = (rect(placed, e.from), rect(placed, e.to));
    let (class, marks) = match e.kind {
        EdgeKind::Message => ("edge", r##" marker-end="url(#head)""##),
        EdgeKind::Exchange => ("edge", r##" marker-start="url(#head)" marker-end="url(#head)""##),
        EdgeKind::Uses => ("edge uses", ""),
    };
    let way = if let Some(top) = placed.around[n] {
        around(&a, &b, top, lane as i64)
    } else if e.kind == EdgeKind::Uses {
        uses(&a, &b)
    } else {
        along(&a, &b, &placed.through[n])
    };
    let _ = writeln!(out, r#"<path class="{class}" d="{way}"{marks}/>"#);
}

/// From the right of one box to the left of another, level through the places between.
fn along(a: &Rect, b: &Rect, through: &[Rect]) -> String {
    let mut way = format!("M{} {}", a.right(), a.middle());
    let mut at = (a.right(), a.middle());
    let mut curve = |to: (i64, i64), way: &mut String| {
        let bend = (to.0 - at.0) / 2;
        let _ = write!(way, " C{} {} {} {} {} {}", at.0 + bend, at.1, to.0 - bend, to.1, to.0, to.1);
        at = to
    };
    for r in through {
        curve((r.x, r.middle()), &mut way);
        curve((r.right(), r.middle()), &mut way)
    }
    curve((b.x, b.middle()), &mut way);
    way
}

/// To a table of another box: from the side that is nearer.
fn uses(a: &Rect, b: &Rect) -> String {
    let (x1, x2, bend) = if a.right() <= b.x {
        (a.right(), b.x, (b.x - a.right()) / 2)
    } else if b.right() <= a.x {
        (a.x, b.right(), (b.right() - a.x) / 2)
    } else {
        (a.right(), b.right(), 40)
    };
    let (y1, y2) = (a.middle() + 8, b.middle());
    format!(
        "M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}",
        x1 + bend,
        if a.right() <= b.x || b.right() <= a.x { x2 - bend } else { x2 + bend }
    )
}

/// Back, or to another row: in a lane of its own above the row or below both boxes, and into the
/// left side of the second.
fn around(a: &Rect, b: &Rect, top: i64, lane: i64) -> String {
    let shift = 4 * (lane % 4);
    let (out, into) = (a.right() + 12 + shift, b.x - 14 - shift);
    let below = if a.bottom() < top { top - 14 - shift } else { a.bottom().max(b.bottom()) + 10 + shift };
    format!(
        "M{} {} L{out} {} L{out} {below} L{into} {below} L{into} {} L{} {}",
        a.right(),
        a.middle(),
        a.middle(),
        b.middle(),
        b.x,
        b.middle()
    )
}

fn legend(y: i64, out: &mut String) {
    let (end, both) = (r##" marker-end="url(#head)""##, r##" marker-start="url(#head)" marker-end="url(#head)""##);
    let items = [("edge", "message", end), ("edge", "message and answer", both), ("edge uses", "use of a table", "")];
    for (n, (class, text, mark)) in items.iter().enumerate() {
        let x = LEFT + n as i64 * 190;
        let _ = writeln!(
            out,
            r#"<path class="{class}" d="M{x} {y} h36"{mark}/><text class="sub" x="{}" y="{}">{text}</text>"#,
            x + 44,
            y + 4
        );
    }
}
