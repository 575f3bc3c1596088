//! The document. In: the parts of a picture and their places. Out: SVG, in the viewer's light or
//! dark colours.

use super::place::LEFT;
use super::shapes::{Continuation, Placed, Point, Rect, LINE, LINE_MAX, TITLE_MAX};
use super::{Edge, EdgeKind, Look, Node, Parts};
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
    for (title, frames) in parts.segments.iter().zip(&placed.segments) {
        frames.iter().for_each(|r| segment(title, r, &mut out))
    }
    for (e, pieces) in parts.edges.iter().zip(&placed.ways) {
        edge(e, pieces, &mut out)
    }
    placed.continuations.iter().for_each(|c| continuation(c, &mut out));
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
.cut { font: 600 12px ui-monospace, monospace; fill: #5b6b7d }
.from { text-anchor: end }
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
.head, .cut { fill: #a3b1c0 }
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

fn edge(e: &Edge, pieces: &[Vec<Point>], out: &mut String) {
    let (class, heads) = match e.kind {
        EdgeKind::Message => ("edge", (false, true)),
        EdgeKind::Exchange => ("edge", (true, true)),
        EdgeKind::Uses => ("edge uses", (false, false)),
    };
    for (n, piece) in pieces.iter().enumerate() {
        let start = if heads.0 && n == 0 { r##" marker-start="url(#head)""## } else { "" };
        let end = if heads.1 && n + 1 == pieces.len() { r##" marker-end="url(#head)""## } else { "" };
        let _ = writeln!(out, r#"<path class="{class}" d="{}"{start}{end}/>"#, curve(piece));
    }
}

/// Level at each point.
fn curve(points: &[Point]) -> String {
    let mut way = points.first().map_or(String::new(), |p| format!("M{} {}", p.x, p.y));
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let bend = (b.x - a.x) / 2;
        let _ = match a.y == b.y {
            true => write!(way, " H{}", b.x),
            false => write!(way, " C{} {} {} {} {} {}", a.x + bend, a.y, b.x - bend, b.y, b.x, b.y),
        };
    }
    way
}

/// The number of an arrow that goes on in another row.
fn continuation(c: &Continuation, out: &mut String) {
    let (x, class) = if c.goes_on { (c.at.x - 5, "cut from") } else { (c.at.x + 5, "cut") };
    let _ = writeln!(out, r#"<text class="{class}" x="{x}" y="{}">{}</text>"#, c.at.y + 4, escape(&c.text));
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
