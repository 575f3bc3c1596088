//! `wireloom explain`: the parts of an app and its maximum costs, as text.
//!
//! In: a module after all passes. Out:
//!
//! - ports and protocols;
//! - handlers with their worst-case steps, and the values that they carry over each suspension;
//! - the owner of each state;
//! - units with their head and tail;
//! - the memory needed at the declared limits.

use crate::*;
use desc::{ParamType, ParamValue, PortKind, Sharing, Value};
use std::fmt::Write;

/// Bookkeeping of one table entry besides key and value (hash, LRU links, expiry).
const ENTRY_OVERHEAD: u64 = 32;

pub fn report(m: &Module) -> String {
    let mut out = format!("app {}\n", m.app);
    params(m, &mut out);
    ports(m, &mut out);
    protocols(m, &mut out);
    handlers(m, &mut out);
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
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(' ')
        }
        out.push(c);
    }
    out
}

fn duration(ns: u64) -> String {
    const STEPS: [(u64, &str); 5] =
        [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match STEPS.iter().find(|(step, _)| ns >= *step && ns % step == 0) {
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

/// The value of a parameter, in its form.
fn default_of(p: &crate::Param, v: &ParamValue) -> String {
    match (&p.form, v) {
        (desc::Form::Ip4, ParamValue::UInt(n)) => std::net::Ipv4Addr::from(*n as u32).to_string(),
        (desc::Form::Mac, ParamValue::UInt(n)) => {
            n.to_be_bytes()[2..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
        }
        _ => constant(v),
    }
}

pub fn constant(v: &ParamValue) -> String {
    match v {
        ParamValue::Bool(b) => b.to_string(),
        ParamValue::UInt(n) => n.to_string(),
        ParamValue::Duration(n) => duration(*n),
        ParamValue::Bytes(b) => format!("\"{}\"", b.escape_ascii()),
        ParamValue::Endpoints(list) => list.join(","),
    }
}

fn params(m: &Module, out: &mut String) {
    if m.params.is_empty() {
        return;
    }
    heading(out, "Parameters (--set NAME=VALUE)");
    let rows: Vec<_> = m
        .params
        .iter()
        .map(|p| {
            let form = match p.ty {
                _ if p.form == desc::Form::Ip4 => "ip4".to_string(),
                _ if p.form == desc::Form::Mac => "mac".to_string(),
                ParamType::Bool => "bool".to_string(),
                ParamType::UInt(bits) => format!("u{bits}"),
                ParamType::Duration => "duration".into(),
                ParamType::Bytes(max) => format!("bytes<{max}>"),
                ParamType::Endpoint => "endpoint".into(),
                ParamType::Endpoints(max) => format!("list<endpoint, {max}>"),
            };
            let given = p.default.as_ref().map_or("required".to_string(), |d| format!("default {}", default_of(p, d)));
            (
                p.name.clone(),
                format!("{form}, {given}"),
                p.doc.lines().map(|l| l.trim().to_string()).filter(|l| !l.is_empty()).collect(),
            )
        })
        .collect();
    entries(out, &rows);
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
        .map(|p| {
            let protocols = names(p.protocols.iter().filter_map(|q| m.protocols.get(q.index())).map(|q| &q.name));
            let o = &p.options;
            let (what, limits) = match &p.kind {
                PortKind::Frames { engine: desc::FrameEngine::Queue, names } => {
                    return (
                        p.name.clone(),
                        queue(names),
                        vec!["per core; what finds it full is dropped and counted".into()],
                    )
                }
                PortKind::Frames { engine, names } => {
                    return (
                        p.name.clone(),
                        format!("{}({}), frames", text::engine_name(*engine), value(m, names)),
                        Vec::new(),
                    )
                }
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
                    format!(
                        "answers within {}, connects within {}; ejected after {} failures for {}",
                        duration(o.answer_timeout),
                        duration(o.connect_timeout),
                        o.eject_after,
                        duration(o.eject_time)
                    ),
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
        _ => None,
    }
}

/// `4 queues of 32 packets`.
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
            };
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
    let plan = passes::pauses::plan(m);
    for (n, h) in m.handlers.iter().enumerate().filter(|(_, h)| !h.on.is_test()) {
        let frame = frame_size(m, &h.body);
        let kept = if frame > 0 { format!(", frame {}", bytes(frame)) } else { String::new() };
        let name = handler_protocol(m, h).map_or(h.name.clone(), |p| format!("{} as {p}", h.name));
        let _ = writeln!(out, "  {}: at most {} steps{kept}", name, count(h.steps));
        pauses(h, &plan.handlers[n], out);
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

/// What a handler does when its slice is used up, if it may take that long.
fn pauses(h: &Handler, pause: &passes::pauses::Pause, out: &mut String) {
    use passes::pauses::Pause;
    let text = match pause {
        Pause::Short => return,
        // Nobody waits for a packet, and the signals of tables are the runtime's.
        Pause::No(_) if matches!(h.on, On::Frame { .. } | On::Signal(_)) => return,
        Pause::Yes { least, in_place } => {
            let least = if *least > 0 {
                format!(" (requests of {} and more)", bytes(u64::from(*least)))
            } else {
                String::new()
            };
            let behind = if *in_place { "; behind a call only if its answer is kept whole" } else { "" };
            format!("pauses in its long loops when its slice is used up{least}{behind}")
        }
        Pause::No(why) => format!("does not pause in its long loops: {why}"),
    };
    let _ = writeln!(out, "    {text}");
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

/// Size and alignment of a value in C, if it has a fixed size.
fn c_layout(m: &Module, ty: TyId) -> Option<(u64, u64)> {
    let all = |members: &[TyId]| {
        let (mut size, mut align) = (0u64, 1);
        for t in members {
            let (n, a) = c_layout(m, *t)?;
            size = size.next_multiple_of(a) + n;
            align = align.max(a);
        }
        Some((size.next_multiple_of(align), align))
    };
    match m.ty(ty) {
        Ty::Unit | Ty::Bool => Some((1, 1)),
        Ty::UInt(b) | Ty::Int(b) => Some((layout::int_bytes(*b), layout::int_bytes(*b))),
        Ty::Ip => Some((16, 1)),
        Ty::Endpoint => Some((20, 2)),
        Ty::Option(t) => {
            let (n, a) = c_layout(m, *t)?;
            Some(((a + n).next_multiple_of(a), a))
        }
        Ty::Record(r) => all(&m.records[r.index()].fields.iter().map(|f| f.1).collect::<Vec<_>>()),
        Ty::Tuple(ts) => all(ts),
        Ty::Bytes(_) | Ty::List(..) | Ty::Msg(_) => None,
    }
}

/// Bytes of a key as tables of one core keep it: without gaps, addresses in `ip` bytes. And whether
/// there are addresses in it.
fn packed_key(m: &Module, ty: TyId, ip: u64) -> Option<(u64, bool)> {
    let all = |members: &[TyId]| {
        members.iter().try_fold((0, false), |(n, any), t| packed_key(m, *t, ip).map(|(k, a)| (n + k, any | a)))
    };
    match m.ty(ty) {
        Ty::Ip => Some((ip, true)),
        Ty::Endpoint => Some((18, false)),
        Ty::Option(t) => packed_key(m, *t, 16).map(|(n, _)| (1 + n, false)),
        Ty::Record(r) => all(&m.records[r.index()].fields.iter().map(|f| f.1).collect::<Vec<_>>()),
        Ty::Tuple(ts) => all(ts),
        _ => c_layout(m, ty).map(|(n, _)| (n, false)),
    }
}

/// What a table of one core takes when all its pages are in use: the arrays of
/// support/core_hash_table.h.
fn local_table_bytes(m: &Module, t: &Table) -> Option<u64> {
    if !t.local || t.kind != TableKind::Exact {
        return None;
    }
    let (size, align) = c_layout(m, t.value)?;
    let array = |key: u64| {
        let stamp = if (1..=5).contains(&(key % 8)) { key + 3 } else { key.next_multiple_of(4) + 4 };
        let slot = match (stamp.next_multiple_of(align) + size).next_multiple_of(align.max(8)) {
            24 => 32,
            48..=64 => 64,
            n => n,
        };
        let slots = if t.capacity.saturating_mul(slot) <= 32 << 20 { 4 } else { 2 };
        t.capacity.saturating_mul(slots).saturating_add(16).saturating_add(t.front()).saturating_mul(slot)
    };
    let (whole, addresses) = packed_key(m, t.key, 16)?;
    let short = if addresses { array(packed_key(m, t.key, 4)?.0) } else { 0 };
    Some(array(whole).saturating_add(short))
}

fn table_bytes(m: &Module, t: &Table) -> u64 {
    if let Some(n) = local_table_bytes(m, t) {
        return n;
    }
    if t.kind == TableKind::Array {
        let locks = if m.sharing(t) == crate::Sharing::One { 64 * t.locks() } else { 0 };
        return t.capacity.saturating_mul(layout::size(m, t.value)).saturating_add(locks);
    }
    let whole = layout::size(m, t.key).saturating_add(layout::size(m, t.value));
    let variable = layout::bytes_in(m, t.key).saturating_add(layout::bytes_in(m, t.value));
    let entry = if t.memory > 0 { whole.saturating_sub(variable) } else { whole }.saturating_add(ENTRY_OVERHEAD);
    t.capacity.saturating_mul(entry).saturating_add(t.memory)
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
        let idle = if t.idle > 0 { format!(", entries expire after {}", duration(t.idle)) } else { String::new() };
        let cache = match (t.cache, local_table_bytes(m, t).is_some()) {
            (0, _) => String::new(),
            (_, true) => format!("; a cache of {} entries in front, while it answers most lookups", count(t.front())),
            (_, false) => "; no cache: the cores share the table, or its entries vary in size".into(),
        };
        rows.push((
            format!("table {}", t.name),
            format!("{whose}; {} entries, {}; full: {full}{idle}{cache}", count(t.capacity), bytes(table_bytes(m, t))),
            vec![format!("{} -> {}", shown(m, t.key), shown(m, t.value))],
        ));
    }
    let sized = |ty: TyId| format!("{}, {}", shown(m, ty), bytes(layout::size(m, ty)));
    // Variables of tests have names that programs cannot give.
    for s in m.states.iter().filter(|s| !s.name.contains(' ')) {
        rows.push((format!("state {}", s.name), format!("per core; {}", sized(s.ty)), Vec::new()))
    }
    for c in &m.counters {
        rows.push((format!("counter {}", c.name), "per core, summed when shown; 8 B".into(), Vec::new()))
    }
    for s in &m.sessions {
        rows.push((format!("session {}", s.name), format!("per client connection; {}", sized(s.ty)), Vec::new()))
    }
    if rows.is_empty() {
        return;
    }
    heading(out, "State");
    entries(out, &rows);
}

fn units(m: &Module, out: &mut String) {
    let messages: Vec<&Unit> = m
        .units
        .iter()
        .enumerate()
        .filter(|(n, _)| {
            let id = UnitId(*n as u32);
            m.protocols.iter().any(|p| p.request == id || p.response == Some(id))
                || m.merges.iter().any(|g| g.unit == id)
        })
        .map(|(_, u)| u)
        .collect();
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

/// The whole bill: what is taken at start, what each connection and request adds, what pools may
/// hold, and the sum.
fn memory(m: &Module, out: &mut String) {
    heading(out, "Memory");
    let per_core = layout::counters_size(m).saturating_add(sum(m.states.iter().map(|s| layout::size(m, s.ty))));
    let tables = sum(m.tables.iter().map(|t| table_bytes(m, t)));
    let is = |kind: &dyn Fn(&Port) -> bool| m.ports.iter().any(kind);
    let mut rows = vec![];
    let mut row = |what: String, n: u64, how: String| {
        if n > 0 {
            rows.push(vec![what, bytes(n), how])
        }
    };
    row("tables".into(), tables, "once, at start".into());
    row("state and counters".into(), per_core, "per core, at start".into());
    let mut clients = 0u64;
    for p in &m.ports {
        clients = clients.saturating_add(port_memory(m, p, &mut row))
    }
    let (mut pools, mut squared) = (0, 0u64);
    if is(&|p| matches!(p.kind, PortKind::Frames { .. })) {
        let (usual, large) =
            (desc::FRAME_BUFFER * desc::FRAME_BUFFERS, desc::LARGE_FRAME_BUFFER * desc::LARGE_FRAME_BUFFERS);
        row("frames".into(), usual, format!("on one core: {} buffers; with n cores each has n times as many; more for queues of AF_XDP and rings of AF_PACKET", count(desc::FRAME_BUFFERS)));
        row("large frames".into(), large, format!("per core, where they occur: {} buffers", desc::LARGE_FRAME_BUFFERS));
        pools += large;
        squared = usual;
    }
    if is(&|p| !matches!(p.kind, PortKind::Frames { .. })) {
        row(
            "pool: messages held".into(),
            desc::POOL_HELD,
            "per core, at most: heads being received, what calls keep".into(),
        );
        row(
            "pool: output waiting".into(),
            desc::POOL_QUEUES,
            "per core, at most: for peers that do not take it yet".into(),
        );
        pools += desc::POOL_HELD + desc::POOL_QUEUES;
    }
    let plan = passes::pauses::plan(m);
    if plan.any() {
        let locals = |h: &Handler| sum(h.body.locals.iter().map(|l| layout::size(m, l.ty)));
        let deepest =
            m.handlers.iter().enumerate().filter(|(n, _)| plan.pauses(*n)).map(|(_, h)| locals(h)).max().unwrap_or(0);
        let paused = desc::PAUSED.saturating_mul(desc::PAUSED_STACK.saturating_add(deepest));
        row(
            "paused handlers".into(),
            paused,
            format!("per core, at most: stacks and scratch of {}, as far as they are used", desc::PAUSED),
        );
        pools = pools.saturating_add(paused);
    }
    let on = |cores: u64| {
        tables
            .saturating_add(clients)
            .saturating_add(per_core.saturating_add(pools).saturating_mul(cores))
            .saturating_add(squared * cores * cores)
    };
    let further = match squared {
        0 => format!("each further core {}", bytes(per_core.saturating_add(pools))),
        _ => format!("on two {}, on four {}", bytes(on(2)), bytes(on(4))),
    };
    row("in all, on one core".into(), on(1), format!("at most, all limits reached; {further}"));
    columns(out, &rows);
    let _ = writeln!(
        out,
        "  What a pool has no room for is refused as `overload`. Pools, connections and requests take memory when they"
    );
    let _ = writeln!(out, "  need it. Not in it: the process itself, the sockets' buffers in the kernel.");
}

/// A port's part of the bill; the most that its clients can take, besides the pools.
fn port_memory(m: &Module, p: &Port, row: &mut impl FnMut(String, u64, String)) -> u64 {
    if let PortKind::Frames { .. } = p.kind {
        return 0;
    }
    let o = &p.options;
    let protocols = || p.protocols.iter().filter_map(|q| m.protocols.get(q.index()));
    let head = |u: UnitId| m.units.get(u.index()).map_or(0, |u| u.head_max);
    let held = |what: &str, largest: u64, row: &mut dyn FnMut(String, u64, String)| {
        row(
            format!("{}: {what}", p.name),
            largest,
            format!("largest, from the pool; {} of them fit", count(desc::POOL_HELD / largest.max(1))),
        );
    };
    if !matches!(p.kind, PortKind::Listen(_)) {
        row(
            format!("{}: a connection", p.name),
            desc::CONNECTION,
            match protocols().all(|q| q.sharing == Sharing::Pipelined) {
                true => format!("{} per backend and core", o.connections.max(1)),
                false => format!(
                    "as many as calls under way; at most {} per backend and core",
                    count(o.max_connections as u64)
                ),
            },
        );
        held("head of an answer", protocols().filter_map(|q| q.response).map(head).max().unwrap_or(0), row);
        return 0;
    }
    let of_port = |h: &&Handler| matches!(h.on, On::Message { port, .. } if m.ports.get(port.index()).is_some_and(|q| q.name == p.name));
    let frame = m.handlers.iter().filter(of_port).map(|h| frame_size(m, &h.body)).max().unwrap_or(0);
    let connection = desc::CONNECTION.saturating_add(sum(m.sessions.iter().map(|s| layout::size(m, s.ty))));
    let request = desc::REQUEST.saturating_add(frame);
    let conns = o.max_connections as u64;
    row(
        format!("{}: a connection", p.name),
        connection,
        format!("with its sessions; {} of them: {}", count(conns), bytes(connection.saturating_mul(conns))),
    );
    let all = request.saturating_mul(conns).saturating_mul(o.max_outstanding as u64);
    row(
        format!("{}: a request", p.name),
        request,
        format!("under way, with its frame; {} per connection: {}", o.max_outstanding, bytes(all)),
    );
    let further =
        m.handlers.iter().filter(of_port).map(|h| calls_at_once(&h.body.block)).max().unwrap_or(0).saturating_sub(1);
    let calls = if further > 0 { desc::CALL } else { 0 };
    let fan = calls.saturating_mul(further).saturating_mul(conns).saturating_mul(o.max_outstanding as u64);
    row(
        format!("{}: a further call", p.name),
        calls,
        format!("of a request that makes several at once; {} per request: {}", count(further), bytes(fan)),
    );
    held("head of a request", protocols().map(|q| head(q.request)).max().unwrap_or(0), row);
    connection.saturating_mul(conns).saturating_add(all).saturating_add(fan)
}

/// The most calls of one activation that are under way at once: those since it last waited for all.
fn calls_at_once(block: &Block) -> u64 {
    let mut most = 0;
    calls_after(block, 0, &mut most);
    most
}

/// How many are under way behind a block, before which `open` are.
fn calls_after(block: &Block, open: u64, most: &mut u64) -> u64 {
    block.iter().fold(open, |open, s| {
        let open = match &s.kind {
            StmtKind::Call { .. } => open.saturating_add(1),
            StmtKind::Await { .. } => 0,
            StmtKind::For { max, body, .. } | StmtKind::Loop { max, body } => {
                let mut within = 0;
                let one = calls_after(body, 0, &mut within);
                *most = open.saturating_add(within).max(*most);
                open.saturating_add(one.saturating_mul(*max))
            }
            _ => {
                let mut after = None;
                walk::stmt_blocks(&s.kind, &mut |b| after = after.max(Some(calls_after(b, open, most))));
                after.unwrap_or(open)
            }
        };
        *most = open.max(*most);
        open
    })
}

fn sum(list: impl Iterator<Item = u64>) -> u64 {
    list.fold(0, u64::saturating_add)
}
