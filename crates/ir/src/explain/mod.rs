//! `wireloom explain`: the parts of an app and its maximum costs, as text.
//!
//! In: a module after all passes. Out:
//!
//! - ports and protocols;
//! - handlers with their worst-case steps, and the values that they carry over each suspension;
//! - the owner of each state;
//! - units with their head and tail;
//! - the memory needed at the declared limits.

mod c_layout;
mod memory;
mod message_view;
mod settings;

use crate::*;
use desc::{ParamValue, PortKind, Sharing, Value};
use memory::{local_table_bytes, memory, table_bytes};
pub use message_view::{own_views, view_bytes};
pub use settings::{option, options, parameters, PortValues};
use std::collections::BTreeSet;
use std::fmt::Write;

/// `set`: the settings whose values are not the program's own.
pub fn report(m: &Module, set: &BTreeSet<&str>) -> String {
    let mut out = format!("app {}\n", m.app);
    out.push_str(&parameters(&m.desc().params, set));
    ports(m, &mut out);
    segments(m, &mut out);
    protocols(m, &mut out);
    handlers(m, &mut out);
    functions_in_c(m, &mut out);
    merges(m, &mut out);
    state(m, &mut out);
    units(m, &mut out);
    memory(m, &mut out);
    out
}

fn heading(out: &mut String, text: &str) {
    let _ = write!(out, "\n{text}\n");
}

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
    if n == u64::MAX {
        return "unbounded".into();
    }
    match STEPS.iter().find(|(step, _)| n >= *step) {
        Some((step, unit)) if n.is_multiple_of(*step) => format!("{} {unit}", n / step),
        Some((step, unit)) => format!("{:.1} {unit}", n as f64 / *step as f64),
        None => format!("{n} B"),
    }
}

/// `1 234 567`
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ')
        }
        out.push(c);
    }
    out
}

/// A bound of steps. Some have more digits than the pass counts.
pub fn steps(n: u64) -> String {
    match n {
        u64::MAX => "more than 2^64 steps".into(),
        n => format!("at most {} steps", count(n)),
    }
}

pub fn duration(ns: u64) -> String {
    const STEPS: [(u64, &str); 5] =
        [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match STEPS.iter().find(|(step, _)| ns >= *step && ns.is_multiple_of(*step)) {
        Some((step, unit)) => format!("{}{unit}", ns / step),
        None => format!("{ns}ns"),
    }
}

fn value(m: &Module, v: &Value) -> String {
    match v {
        Value::Param(n) => m.params.get(*n as usize).map_or_else(
            || "?".into(),
            |p| match &p.default {
                Some(d) => format!("{} = {}", p.name, constant(d)),
                None => p.name.clone(),
            },
        ),
        Value::Const(v) => constant(v),
    }
}

/// A type as programs write it.
fn shown(m: &Module, ty: TyId) -> String {
    let all = |list: &[TyId]| list.iter().map(|t| shown(m, *t)).collect::<Vec<_>>().join(", ");
    match m.ty(ty) {
        Ty::Option(t) => format!("{}?", shown(m, *t)),
        Ty::List(t, n) => format!("list<{}, {n}>", shown(m, *t)),
        Ty::Tuple(list) => format!("({})", all(list)),
        Ty::Record(r) => m.records[r.index()].name.clone(),
        Ty::Msg(u) => m.units[u.index()].name.clone(),
        Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::Endpoint | Ty::Ip => {
            text::print_type(m, ty)
        }
    }
}

pub fn constant(v: &ParamValue) -> String {
    match v {
        ParamValue::Bool(b) => b.to_string(),
        ParamValue::UInt(n) => n.to_string(),
        ParamValue::Duration(n) => duration(*n),
        ParamValue::Bytes(b) => format!("\"{}\"", b.escape_ascii()),
        ParamValue::Endpoints(list) => list.join(","),
        ParamValue::Texts(list) => {
            list.iter().map(|b| format!("\"{}\"", b.escape_ascii())).collect::<Vec<_>>().join(",")
        }
    }
}

/// After how many failures a server gets no requests for a while.
fn ejected(p: &Port) -> String {
    match p.options.eject_after {
        0 => "never ejected".to_string(),
        n => format!("ejected after {n} failures for {}", duration(p.options.eject_time)),
    }
}

/// The time that a server has for an answer. In conversations it has one only if that is set.
fn answers_within(p: &Port) -> String {
    match p.options.answer_timeout {
        0 => String::new(),
        span => format!("answers within {}, ", duration(span)),
    }
}

/// Which apps that read a frame port in common are steered together, by what key and why; nothing
/// if there are no such ports.
pub fn clusters(apps: &[Module], bound: &passes::affinity_groups::Bound) -> String {
    use passes::affinity_groups;
    let mut out = String::new();
    let mut seen: Vec<&str> = Vec::new();
    let all = affinity_groups::clusters(apps, bound);
    let pairs = || (0..apps.len()).flat_map(|a| (a + 1..apps.len()).map(move |b| (a, b)));
    for thing in pairs().flat_map(|(a, b)| affinity_groups::shared(bound, a, b)) {
        if seen.contains(&thing) {
            continue;
        }
        seen.push(thing);
        let _ = writeln!(
            out,
            "\nClusters of port {thing} (each gets every frame once; no frame is copied for one that only reads it)"
        );
        for (n, c) in all.iter().enumerate() {
            let members: Vec<_> = c
                .apps
                .iter()
                .zip(&c.why)
                .filter_map(|(a, why)| Some((a, affinity_groups::port_of(bound, *a, thing)?, why)))
                .collect();
            if members.is_empty() {
                continue;
            }
            let _ = writeln!(out, "  cluster {}: {}", n + 1, c.key);
            let rows: Vec<_> = members
                .iter()
                .map(|(a, port, why)| {
                    let m = &apps[**a];
                    let does = match affinity_groups::frame_use(m, port) {
                        desc::FrameUse::Reads => "reads frames",
                        desc::FrameUse::Sends => "passes frames on",
                        desc::FrameUse::Edits => "changes frames",
                    };
                    (m.app.clone(), if why.is_empty() { does.to_string() } else { format!("{does}; {why}") })
                })
                .collect();
            let width = rows.iter().map(|r| r.0.chars().count()).max().unwrap_or(0);
            for (app, text) in rows {
                let _ = writeln!(out, "    {app:<width$} {text}");
            }
        }
    }
    out
}

fn names<'a>(list: impl Iterator<Item = &'a String>) -> String {
    list.cloned().collect::<Vec<_>>().join(" | ")
}

/// Entries of a name, what it is, and lines that say more below it.
fn entries(out: &mut String, rows: &[(String, String, Vec<String>)]) {
    let width = rows.iter().map(|r| r.0.chars().count()).max().unwrap_or(0);
    for (name, what, more) in rows {
        let _ = writeln!(out, "  {name:<width$} {what}");
        for line in more {
            let _ = writeln!(out, "  {:width$} {line}", "");
        }
    }
}

fn ports(m: &Module, out: &mut String) {
    if m.ports.is_empty() {
        return;
    }
    heading(out, "Ports");
    let rows: Vec<_> = m
        .ports
        .iter()
        .enumerate()
        .map(|(n, p)| {
            let protocols = names(p.protocols.iter().filter_map(|q| m.protocols.get(q.index())).map(|q| &q.name));
            let o = &p.options;
            let (what, limits) = match &p.kind {
                PortKind::Frames { engine, names } if p.kind.is_queue() => {
                    let full = match engine {
                        desc::FrameEngine::Lossless => "between segments; if it is full, its senders wait",
                        desc::FrameEngine::Lossy => "between segments; what finds it full is dropped and counted",
                        desc::FrameEngine::Nic
                        | desc::FrameEngine::Pcap
                        | desc::FrameEngine::Tun
                        | desc::FrameEngine::Tap
                        | desc::FrameEngine::Kernel
                        | desc::FrameEngine::Memory
                        | desc::FrameEngine::Udp
                        | desc::FrameEngine::Loop
                        | desc::FrameEngine::Queue => "per core; what finds it full is dropped and counted",
                    };
                    let over = over_link(m, n).map(String::from);
                    let lines = [Some(full.to_string()), Some(carries(m, n)), over];
                    return (p.name.clone(), queue(names), lines.into_iter().flatten().collect());
                }
                PortKind::Frames { engine, names } => {
                    return (
                        p.name.clone(),
                        format!("{}({}), frames", text::engine_name(*engine), value(m, names)),
                        Vec::new(),
                    )
                }
                PortKind::Listen(v) if p.udp => (
                    format!("listen udp({})", value(m, v)),
                    format!(
                        "at most {} datagrams under way; answers of at most {} bytes",
                        count(o.max_connections as u64),
                        count(o.max_answer as u64)
                    ),
                ),
                PortKind::Connect(v) if p.udp => (
                    format!("connect udp({})", value(m, v)),
                    format!("answers within {}; {}", duration(o.answer_timeout), ejected(p)),
                ),
                PortKind::Listen(v) => (
                    format!("listen tcp({})", value(m, v)),
                    format!(
                        "at most {} connections, {} requests under way each; idle {}, read {}",
                        count(o.max_connections as u64),
                        o.max_outstanding,
                        duration(o.idle_timeout),
                        duration(o.read_timeout)
                    ),
                ),
                PortKind::Connect(v) => (
                    format!("connect tcp({})", value(m, v)),
                    format!("{}connects within {}; {}", answers_within(p), duration(o.connect_timeout), ejected(p)),
                ),
            };
            let stay = stays(m, p).map(|why| format!("connections stay on their core: {why}"));
            (p.name.clone(), format!("{what} as {protocols}"), [limits].into_iter().chain(stay).collect())
        })
        .collect();
    entries(out, &rows);
}

/// Why no idle core takes over connections of a listening port.
fn stays(m: &Module, port: &Port) -> Option<&'static str> {
    let seen = |h: &Handler| matches!(h.on, On::Opened(p) | On::Closed(p) if m.ports.get(p.index()).is_some_and(|p| p.name == port.name));
    match port.kind {
        PortKind::Listen(_) if m.keeps_on_core() => Some("requests change what belongs to it"),
        PortKind::Listen(_) if m.handlers.iter().any(seen) => Some("the program looks at them as they open or close"),
        PortKind::Listen(_) | PortKind::Connect(_) | PortKind::Frames { .. } => None,
    }
}

/// `4 queues of 32 packets`.
fn segments(m: &Module, out: &mut String) {
    if m.segments.is_empty() {
        return;
    }
    heading(out, "Segments");
    let row = |(n, s): (usize, &Segment)| {
        let of = |h: &&Handler| h.segment == Some(SegmentId(n as u32)) && !h.on.is_test();
        let handlers: Vec<&str> = m.handlers.iter().filter(of).map(|h| h.name.as_str()).collect();
        (s.name.clone(), format!("on {s}: {}", handlers.join(", ")), Vec::new())
    };
    entries(out, &m.segments.iter().enumerate().map(row).collect::<Vec<_>>());
}

/// Whether a queue leads from the process of the NIC to the other one, and which way. None: it does
/// not.
fn over_link(m: &Module, queue: usize) -> Option<&'static str> {
    let nic = |s: SegmentId| m.segments.get(s.index()).map(|s| s.device == ops::Device::Nic);
    let port = PortId(queue as u32);
    let home = m.handlers.iter().find(|h| h.on.frame_port() == Some(port));
    let home = home.and_then(|h| h.segment).and_then(nic)?;
    let placed = crate::segments::place(m)?;
    let from: Vec<bool> = placed.crossings.get(&port)?.iter().filter_map(|s| nic(*s)).collect();
    let over = from.iter().any(|f| *f != home);
    over.then_some(if home {
        "over the link, from the CPU to the NIC"
    } else {
        "over the link, from the NIC to the CPU"
    })
}

/// The bytes that cross a queue.
fn carries(m: &Module, queue: usize) -> String {
    let c = &m.ports[queue].carries;
    let entry = layout::Entry::of(m, c);
    let home = m.handlers.iter().find(|h| h.on.frame_port() == Some(PortId(queue as u32)));
    let handled = home.and_then(|h| h.on.frame_unit());
    let stack = handled.and_then(|u| m.unit(u).frame.as_ref()?.fast_path.as_ref()?.stack.as_ref());
    let common = stack.map_or(0, |s| s.least);
    let frame = match c.part {
        FramePart::Whole if c.fixed => "whole frames, as the program says".to_string(),
        FramePart::Whole => "whole frames".into(),
        FramePart::Headers(n) if common > 0 => {
            format!("headers and {n} bytes behind them ({} bytes of a common frame)", common + n)
        }
        FramePart::Headers(n) => format!("headers and {n} bytes behind them"),
        FramePart::Nothing => "no byte of the frame".into(),
    };
    let fields = c.state.iter().filter_map(|f| m.packet.get(f.index())).map(|f| f.name.as_str());
    match (entry.bytes, c.state.is_empty()) {
        (0, _) => format!("carries {frame}"),
        (n, true) => format!("carries {frame}, and an entry of {n} bytes"),
        (n, false) => {
            format!("carries {frame}, and an entry of {n} bytes with {}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn queue(names: &desc::Value) -> String {
    let desc::Value::Const(ParamValue::Endpoints(depths)) = names else { return "queue".into() };
    let depth = depths.first().map_or("?", |d| d.as_str());
    if depths.len() == 1 {
        format!("queue of {depth} packets")
    } else {
        format!("{} queues of {depth} packets", depths.len())
    }
}

fn protocols(m: &Module, out: &mut String) {
    if m.protocols.is_empty() {
        return;
    }
    heading(out, "Protocols");
    let rows: Vec<_> = m
        .protocols
        .iter()
        .map(|p| {
            let unit = |u: UnitId| m.units.get(u.index()).map_or("?", |u| &u.name);
            let messages = match p.response {
                Some(r) => format!("{} -> {}", unit(p.request), unit(r)),
                None => format!("{} (one way)", unit(p.request)),
            };
            let order =
                match p.order_by.and_then(|f| m.units.get(p.request.index())?.fields.get(f.index())?.name.clone()) {
                    Some(f) => format!("answers matched by `{f}`"),
                    None if p.response.is_some() => "answers in order".into(),
                    None => "no answers".into(),
                };
            let sharing = match p.sharing {
                Sharing::Pipelined => "connections shared, pipelined",
                Sharing::Exclusive => "connections pooled",
                Sharing::Session => "a connection for each client's",
            };
            let order = if p.sharing == Sharing::Session { "messages in both directions".into() } else { order };
            (p.name.clone(), messages, vec![format!("{order}; {sharing}")])
        })
        .collect();
    entries(out, &rows);
}

/// Bytes of a handler's frame: its locals that live across suspensions, each rounded up to 8.
pub fn frame_size(m: &Module, body: &Body) -> u64 {
    body.locals
        .iter()
        .filter(|l| l.in_frame)
        .fold(0, |n, l| n.saturating_add(layout::size(m, l.ty).div_ceil(8).saturating_mul(8)))
}

/// The protocol that a handler is for, where its port speaks several.
pub fn handler_protocol<'m>(m: &'m Module, h: &Handler) -> Option<&'m str> {
    let On::Message { port, protocol } = h.on else { return None };
    let several = m.ports.get(port.index())?.protocols.len() > 1;
    m.protocols.get(protocol.index()).filter(|_| several).map(|p| p.name.as_str())
}

fn handlers(m: &Module, out: &mut String) {
    if m.handlers.is_empty() {
        return;
    }
    heading(out, "Handlers (steps of the largest message: operations, and bytes looked at beside parsing)");
    for h in m.handlers.iter().filter(|h| !h.on.is_test()) {
        let frame = frame_size(m, &h.body);
        let kept = if frame > 0 { format!(", frame {}", bytes(frame)) } else { String::new() };
        let name = handler_protocol(m, h).map_or(h.name.clone(), |p| format!("{} as {p}", h.name));
        let _ = writeln!(out, "  {name}: {}{kept}", steps(h.steps));
        pauses(h, out);
        runs(m, h, out);
        let mut n = 0;
        walk::stmts(&h.body.block, &mut |s| {
            let StmtKind::Await { hold, hold_req, live } = &s.kind else { return };
            n += 1;
            let mut carries = Vec::new();
            if *hold_req {
                carries.push("the request's head".to_string())
            }
            if *hold {
                carries.push("whole replies".to_string())
            }
            for l in live.iter().filter_map(|l| h.body.locals.get(l.index())) {
                carries.push(format!("{}: {} ({})", l.name, shown(m, l.ty), bytes(layout::size(m, l.ty))));
            }
            let carries = if carries.is_empty() { "nothing".into() } else { carries.join(", ") };
            let line = if s.span.line > 0 { format!(" (line {})", s.span.line) } else { String::new() };
            let _ = writeln!(out, "    suspension {n}{line} carries {carries}");
        });
    }
}

/// Functions in C, which nothing is proven of.
fn functions_in_c(m: &Module, out: &mut String) {
    let in_c = |f: &Func| match &f.body {
        FuncBody::Extern { file, .. } => Some(vec![f.name.clone(), file.clone()]),
        FuncBody::Body(_) => None,
    };
    let rows: Vec<Vec<String>> = m.funcs.iter().filter_map(in_c).collect();
    if rows.is_empty() {
        return;
    }
    heading(out, "Functions in C (nothing is proven of them)");
    columns(out, &rows);
}

/// The act of a handler whose slice is used up, if it may take that long.
fn pauses(h: &Handler, out: &mut String) {
    use plans::Pause;
    let text = match &h.plan.pause {
        Pause::Short => return,
        // Nobody waits for a packet, and the signals of tables are the runtime's.
        Pause::No(_) if matches!(h.on, On::Frame { .. } | On::Signal(_)) => return,
        Pause::Yes { least, in_place, alone, within } => {
            let least = if *least > 0 {
                format!(" (requests of {} and more)", bytes(u64::from(*least)))
            } else {
                String::new()
            };
            let behind = if *in_place { "; behind a call only if its answer is kept whole" } else { "" };
            let alone = if *alone { "; such a request is handled alone on its connection" } else { "" };
            let within = if *within { "; also between the pieces of a large message" } else { "" };
            format!("pauses in its long loops when its slice is used up{least}{behind}{alone}{within}")
        }
        Pause::No(why) => format!("does not pause in its long loops: {why}"),
    };
    let _ = writeln!(out, "    {text}");
}

/// The messages of a conversation that are passed on as one piece.
fn runs(m: &Module, h: &Handler, out: &mut String) {
    let Some(run) = &h.plan.run else { return };
    let to = match run.to {
        Peer::Client => "client",
        Peer::Upstream(u) => m.upstreams.get(u.index()).map_or("?", |u| &u.name),
    };
    let of = if run.when.is_some() { "messages that it only passes on" } else { "its messages" };
    let _ = writeln!(out, "    runs of {of} go to `{to}` as one piece, without a run of the handler for each");
}

fn merges(m: &Module, out: &mut String) {
    if m.merges.is_empty() {
        return;
    }
    heading(out, "Merges");
    for g in &m.merges {
        let port = |p: PortId| m.ports.get(p.index()).map_or("?", |p| &p.name);
        let unit = m.units.get(g.unit.index());
        let key = unit.and_then(|u| u.fields.get(g.key.index())?.name.clone()).unwrap_or_default();
        let item = unit.map_or(0, |u| u.max);
        let _ = writeln!(
            out,
            "  {}: {} streams of {} by `{key}` into {}; an item at most {}, {} for one of each input",
            g.name,
            g.inputs,
            port(g.from),
            port(g.to),
            bytes(item),
            bytes(item.saturating_mul(g.inputs as u64))
        );
    }
}

fn state(m: &Module, out: &mut String) {
    let mut rows: Vec<(String, String, Vec<String>)> = Vec::new();
    let plan = passes::flow_affinity::plan(m);
    let packets = m.handlers.iter().any(|h| matches!(h.on, On::Frame { .. }));
    if let Some(t) = plan.one_core.and_then(|t| m.tables.get(t.index())) {
        rows.push((
            "packets".into(),
            format!("all on one core: they change `{}`, of which every core would have a copy", t.name),
            Vec::new(),
        ));
    }
    for (n, t) in m.tables.iter().enumerate() {
        let whose = if packets { plan.tables.get(n).map_or("", |p| p.1.as_str()) } else { "shared by the cores" };
        let full = if t.evict_lru { "evicts the least recently used" } else { "rejects" };
        let since = if t.from_write { " since they were written" } else { "" };
        let idle =
            if t.idle > 0 { format!(", entries expire after {}{since}", duration(t.idle)) } else { String::new() };
        let parts = if t.per_core { "; traffic only adds: in XDP each processor keeps a part" } else { "" };
        let cache = match (t.cache, local_table_bytes(m, t).is_some()) {
            (0, _) => String::new(),
            (_, true) => format!("; a cache of {} entries in front, while it answers most lookups", count(t.front())),
            (_, false) => "; no cache: the cores share the table, or its entries vary in size".into(),
        };
        rows.push((
            format!("table {}", t.name),
            format!(
                "{whose}; {} entries, {}; full: {full}{idle}{parts}{cache}",
                count(t.capacity),
                bytes(table_bytes(m, t))
            ),
            vec![format!("{} -> {}", shown(m, t.key), shown(m, t.value))],
        ));
    }
    let sized = |ty: TyId| format!("{}, {}", shown(m, ty), bytes(layout::size(m, ty)));
    // Variables of tests have names that programs cannot give.
    for s in m.states.iter().filter(|s| s.memory) {
        let whose = s.name.split_once(' ').map_or(s.name.as_str(), |(name, _)| name.trim_end_matches(".its"));
        let size = bytes(layout::bytes_in(m, s.ty));
        rows.push((format!("memory of {whose}"), format!("per core; {size}, of a function in C"), Vec::new()))
    }
    for s in m.states.iter().filter(|s| !s.name.contains(' ')) {
        rows.push((format!("state {}", s.name), format!("per core; {}", sized(s.ty)), Vec::new()))
    }
    for c in &m.counters {
        rows.push((format!("counter {}", c.name), "per core, summed when shown; 8 B".into(), Vec::new()))
    }
    for s in &m.sessions {
        let word = if s.of_request { "request" } else { "session" };
        let whose = match s.of_request {
            true => "per client connection, anew with each request",
            false => "per client connection",
        };
        rows.push((format!("{word} {}", s.name), format!("{whose}; {}", sized(s.ty)), Vec::new()))
    }
    if rows.is_empty() {
        return;
    }
    heading(out, "State");
    entries(out, &rows);
}

/// Units of requests, of answers and of the messages of merges.
fn message_units(m: &Module) -> impl Iterator<Item = UnitId> + '_ {
    (0..m.units.len() as u32).map(UnitId).filter(|id| {
        m.protocols.iter().any(|p| p.request == *id || p.response == Some(*id))
            || m.merges.iter().any(|g| g.unit == *id)
    })
}

fn units(m: &Module, out: &mut String) {
    let messages: Vec<&Unit> = message_units(m).map(|id| m.unit(id)).collect();
    if messages.is_empty() {
        return;
    }
    heading(out, "Messages");
    let rows: Vec<_> = messages
        .iter()
        .map(|u| {
            let size = if u.streams {
                format!("{} to {} besides its streams", bytes(u.min), bytes(u.max))
            } else {
                format!("{} to {}", bytes(u.min), bytes(u.max))
            };
            let tail = match u.body.get(u.tail as usize).and_then(|f| u.fields.get(f.index())) {
                Some(f) => match &f.name {
                    Some(n) => format!("the tail begins at or in `{n}`"),
                    None => "the tail begins in an unnamed field".into(),
                },
                None => "no tail".into(),
            };
            let stored = u.fields.iter().filter(|f| f.value_used || f.extent_used).count();
            (
                u.name.clone(),
                format!("{size}; {stored} of {} fields stored", u.fields.len()),
                vec![format!("head at most {}, {tail}", bytes(u.head_max))],
            )
        })
        .collect();
    entries(out, &rows);
    for u in messages {
        let rows: Vec<Vec<String>> = u
            .fields
            .iter()
            .filter(|f| !f.doc.is_empty())
            .filter_map(|f| {
                Some(vec![
                    format!("{}.{}", u.name, f.name.as_ref()?),
                    f.doc.lines().next().unwrap_or("").trim().to_string(),
                ])
            })
            .collect();
        columns(out, &rows);
    }
}
