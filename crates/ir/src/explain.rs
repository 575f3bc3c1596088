//! `wireloom explain`: what an app is made of and what it can cost at most, as text.
//!
//! In: a module after all passes. Out: ports and protocols; handlers with their worst-case steps and, per suspension,
//! what they carry over it; which state is whose; units with their head and tail; the memory bill at the declared limits.

use crate::*;
use desc::{ParamValue, PortKind, Sharing, Value};
use std::fmt::Write;

/// Bookkeeping of one table entry besides key and value (hash, LRU links, expiry).
const ENTRY_OVERHEAD: u64 = 32;

pub fn report(m: &Module) -> String {
    let mut out = format!("app {}\n", m.app);
    ports(m, &mut out);
    protocols(m, &mut out);
    handlers(m, &mut out);
    merges(m, &mut out);
    state(m, &mut out);
    units(m, &mut out);
    memory(m, &mut out);
    out
}

fn heading(out: &mut String, text: &str) { let _ = write!(out, "\n{text}\n"); }

/// Lines of columns: all but the last are padded to the widest.
fn columns(out: &mut String, rows: &[Vec<String>]) {
    let n = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..n).map(width).collect();
    for row in rows {
        let mut line = String::from(" ");
        for (c, text) in row.iter().enumerate() {
            let pad = if c + 1 < row.len() { widths[c] } else { 0 };
            let _ = write!(line, " {text:<pad$}");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// `1.5 MiB`
pub fn bytes(n: u64) -> String {
    const STEPS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    if n == u64::MAX { return "unbounded".into() }
    match STEPS.iter().find(|(step, _)| n >= *step) {
        Some((step, unit)) if n % step == 0 => format!("{} {unit}", n / step),
        Some((step, unit)) => format!("{:.1} {unit}", n as f64 / *step as f64),
        None => format!("{n} B"),
    }
}

/// `1 234 567`
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 { out.push(' ') }
        out.push(c);
    }
    out
}

fn duration(ns: u64) -> String {
    const STEPS: [(u64, &str); 5] = [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match STEPS.iter().find(|(step, _)| ns >= *step && ns % step == 0) {
        Some((step, unit)) => format!("{}{unit}", ns / step),
        None => format!("{ns}ns"),
    }
}

fn value(m: &Module, v: &Value) -> String {
    match v {
        Value::Param(n) => m.params.get(*n as usize).map_or_else(|| "?".into(), |p| match &p.default {
            Some(d) => format!("{} = {}", p.name, constant(d)),
            None => p.name.clone(),
        }),
        Value::Const(v) => constant(v),
    }
}

fn constant(v: &ParamValue) -> String {
    match v {
        ParamValue::Bool(b) => b.to_string(),
        ParamValue::UInt(n) => n.to_string(),
        ParamValue::Duration(n) => duration(*n),
        ParamValue::Bytes(b) => format!("\"{}\"", b.escape_ascii()),
        ParamValue::Endpoints(list) => list.join(","),
    }
}

fn names<'a>(list: impl Iterator<Item = &'a String>) -> String { list.cloned().collect::<Vec<_>>().join(" | ") }

fn ports(m: &Module, out: &mut String) {
    if m.ports.is_empty() { return }
    heading(out, "Ports");
    let rows: Vec<Vec<String>> = m.ports.iter().map(|p| {
        let protocols = names(p.protocols.iter().filter_map(|q| m.protocols.get(q.index())).map(|q| &q.name));
        let o = &p.options;
        let (what, limits) = match &p.kind {
            PortKind::Frames { engine, names } => (format!("{}({})", text::engine_name(*engine), value(m, names)), "whole frames".into()),
            PortKind::Listen(v) => (format!("listen tcp({})", value(m, v)), format!("at most {} connections with {} requests under way each; idle {}, read {}",
                count(o.max_connections as u64), o.max_outstanding, duration(o.idle_timeout), duration(o.read_timeout))),
            PortKind::Connect(v) => (format!("connect tcp({})", value(m, v)), format!("answers within {}, connects within {}; ejected after {} failures for {}",
                duration(o.call_timeout), duration(o.connect_timeout), o.eject_after, duration(o.eject_time))),
        };
        vec![p.name.clone(), what, format!("as {protocols}"), limits]
    }).collect();
    columns(out, &rows);
}

fn protocols(m: &Module, out: &mut String) {
    if m.protocols.is_empty() { return }
    heading(out, "Protocols");
    let rows: Vec<Vec<String>> = m.protocols.iter().map(|p| {
        let unit = |u: UnitId| m.units.get(u.index()).map_or("?", |u| &u.name);
        let messages = match p.response { Some(r) => format!("{} -> {}", unit(p.request), unit(r)), None => format!("{} (one way)", unit(p.request)) };
        let order = match p.order_by.and_then(|f| m.units.get(p.request.index())?.fields.get(f.index())?.name.clone()) {
            Some(f) => format!("answers matched by `{f}`"),
            None if p.response.is_some() => "answers in order".into(),
            None => "no answers".into(),
        };
        let sharing = match p.sharing { Sharing::Pipelined => "connections shared, pipelined", Sharing::Exclusive => "a connection per request, pooled" };
        vec![p.name.clone(), messages, order, sharing.into()]
    }).collect();
    columns(out, &rows);
}

/// Bytes of a handler's frame: its locals that live across suspensions, each rounded up to 8.
pub fn frame_size(m: &Module, body: &Body) -> u64 {
    body.locals.iter().filter(|l| l.in_frame).fold(0, |n, l| n.saturating_add(layout::size(m, l.ty).div_ceil(8).saturating_mul(8)))
}

fn handlers(m: &Module, out: &mut String) {
    if m.handlers.is_empty() { return }
    heading(out, "Handlers (worst case of one activation)");
    for h in m.handlers.iter().filter(|h| !matches!(h.on, On::Test(_))) {
        let frame = frame_size(m, &h.body);
        let kept = if frame > 0 { format!(", frame {}", bytes(frame)) } else { String::new() };
        let _ = writeln!(out, "  {}: {} steps{kept}", h.name, count(h.steps));
        let mut n = 0;
        walk::stmts(&h.body.block, &mut |s| {
            let StmtKind::Await { hold, hold_req, live } = &s.kind else { return };
            n += 1;
            let mut carries = Vec::new();
            if *hold_req { carries.push("the request's head".to_string()) }
            if *hold { carries.push("whole replies".to_string()) }
            for l in live.iter().filter_map(|l| h.body.locals.get(l.index())) {
                carries.push(format!("{}: {} ({})", l.name, text::print_type(m, l.ty), bytes(layout::size(m, l.ty))));
            }
            let carries = if carries.is_empty() { "nothing".into() } else { carries.join(", ") };
            let line = if s.span.line > 0 { format!(" (line {})", s.span.line) } else { String::new() };
            let _ = writeln!(out, "    suspension {n}{line} carries {carries}");
        });
    }
}

fn merges(m: &Module, out: &mut String) {
    if m.merges.is_empty() { return }
    heading(out, "Merges");
    for g in &m.merges {
        let port = |p: PortId| m.ports.get(p.index()).map_or("?", |p| &p.name);
        let unit = m.units.get(g.unit.index());
        let key = unit.and_then(|u| u.fields.get(g.key.index())?.name.clone()).unwrap_or_default();
        let item = unit.map_or(0, |u| u.max);
        let _ = writeln!(out, "  {}: {} streams of {} by `{key}` into {}; an item at most {}, {} for one of each input",
            g.name, g.inputs, port(g.from), port(g.to), bytes(item), bytes(item.saturating_mul(g.inputs as u64)));
    }
}

fn table_bytes(m: &Module, t: &Table) -> u64 {
    let whole = layout::size(m, t.key).saturating_add(layout::size(m, t.value));
    let variable = layout::bytes_in(m, t.key).saturating_add(layout::bytes_in(m, t.value));
    let entry = if t.memory > 0 { whole.saturating_sub(variable) } else { whole }.saturating_add(ENTRY_OVERHEAD);
    t.capacity.saturating_mul(entry).saturating_add(t.memory)
}

fn state(m: &Module, out: &mut String) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for t in &m.tables {
        let full = if t.evict_lru { "evicts the least recently used" } else { "rejects" };
        let idle = if t.idle > 0 { format!(", entries expire after {}", duration(t.idle)) } else { String::new() };
        rows.push(vec![format!("table {}", t.name), "shared by the cores".into(),
            format!("{} -> {}, {} entries, {}; full: {full}{idle}", text::print_type(m, t.key), text::print_type(m, t.value), count(t.capacity), bytes(table_bytes(m, t)))]);
    }
    for s in &m.states { rows.push(vec![format!("state {}", s.name), "per core".into(), format!("{}, {}", text::print_type(m, s.ty), bytes(layout::size(m, s.ty)))]) }
    for c in &m.counters { rows.push(vec![format!("counter {}", c.name), "per core, summed when shown".into(), "8 B".into()]) }
    for s in &m.sessions { rows.push(vec![format!("session {}", s.name), "per client connection".into(), format!("{}, {}", text::print_type(m, s.ty), bytes(layout::size(m, s.ty)))]) }
    if rows.is_empty() { return }
    heading(out, "State");
    columns(out, &rows);
}

fn units(m: &Module, out: &mut String) {
    let messages: Vec<&Unit> = m.units.iter().enumerate()
        .filter(|(n, _)| { let id = UnitId(*n as u32); m.protocols.iter().any(|p| p.request == id || p.response == Some(id)) || m.merges.iter().any(|g| g.unit == id) })
        .map(|(_, u)| u).collect();
    if messages.is_empty() { return }
    heading(out, "Messages");
    let rows: Vec<Vec<String>> = messages.iter().map(|u| {
        let size = if u.streams { format!("from {}, without its streams up to {}", bytes(u.min), bytes(u.max)) } else { format!("{} to {}", bytes(u.min), bytes(u.max)) };
        let tail = match u.body.get(u.tail as usize).and_then(|f| u.fields.get(f.index())) {
            Some(f) => match &f.name { Some(n) => format!("the tail begins at or in `{n}`"), None => "the tail begins in an unnamed field".into() },
            None => "no tail".into(),
        };
        let stored = u.fields.iter().filter(|f| f.value_used || f.extent_used).count();
        vec![u.name.clone(), size, format!("head at most {}", bytes(u.head_max)), tail, format!("{stored} of {} fields stored", u.fields.len())]
    }).collect();
    columns(out, &rows);
    for u in messages {
        let rows: Vec<Vec<String>> = u.fields.iter().filter(|f| !f.doc.is_empty())
            .filter_map(|f| Some(vec![format!("{}.{}", u.name, f.name.as_ref()?), f.doc.lines().next().unwrap_or("").trim().to_string()])).collect();
        columns(out, &rows);
    }
}

fn memory(m: &Module, out: &mut String) {
    heading(out, "Memory at the declared limits");
    let per_core = layout::counters_size(m).saturating_add(sum(m.states.iter().map(|s| layout::size(m, s.ty))));
    let tables = sum(m.tables.iter().map(|t| table_bytes(m, t)));
    let session = sum(m.sessions.iter().map(|s| layout::size(m, s.ty)));
    let frame = m.handlers.iter().map(|h| frame_size(m, &h.body)).max().unwrap_or(0);
    let head = |u: UnitId| m.units.get(u.index()).map_or(0, |u| u.head_max);
    let mut rows = Vec::new();
    let mut row = |what: String, how: String, n: u64| if n > 0 { rows.push(vec![what, bytes(n), how]) };
    row("state and counters".into(), "per core".into(), per_core);
    row("tables".into(), "in all".into(), tables);
    let mut most = 0u64;
    for p in &m.ports {
        let o = &p.options;
        let protocols = || p.protocols.iter().filter_map(|q| m.protocols.get(q.index()));
        if !matches!(p.kind, PortKind::Listen(_)) {
            let largest = protocols().filter_map(|q| q.response).map(head).max().unwrap_or(0);
            row(format!("{}: head of an answer", p.name), format!("per connection, {} per backend and core", o.connections.max(1)), largest);
            continue;
        }
        let conns = o.max_connections as u64;
        let heads = protocols().map(|q| head(q.request)).max().unwrap_or(0);
        row(format!("{}: sessions", p.name), format!("{} each, {} connections", bytes(session), count(conns)), session.saturating_mul(conns));
        row(format!("{}: heads of requests", p.name), format!("at most {} each while one is being received, {} connections", bytes(heads), count(conns)), heads.saturating_mul(conns));
        row(format!("{}: frames", p.name), format!("at most {} each, {} requests under way per connection", bytes(frame), o.max_outstanding), frame.saturating_mul(conns).saturating_mul(o.max_outstanding as u64));
        most = most.saturating_add(session.saturating_add(heads).saturating_add(frame.saturating_mul(o.max_outstanding as u64)).saturating_mul(conns));
    }
    row("reserved at start".into(), "tables, and the state of one core".into(), tables.saturating_add(per_core));
    row("from pools, at most".into(), "if all connections were in the middle of their largest request at once; an idle one takes only its session".into(), most);
    if rows.is_empty() { rows.push(vec!["nothing besides the runtime's own".into()]) }
    columns(out, &rows);
}

fn sum(list: impl Iterator<Item = u64>) -> u64 { list.fold(0, u64::saturating_add) }
