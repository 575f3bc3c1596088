//! The memory bill: memory taken at start, the part of each connection and request, the maximum of
//! the pools, and the sum.

use super::c_layout::c_layout;
use super::message_view::large_lists;
use super::{bytes, columns, count, frame_size, heading, view_bytes};
use crate::*;
use desc::{ParamType, ParamValue, PortKind, Sharing, Value};
use std::fmt::Write;

/// Bookkeeping of one table entry besides key and value (hash, LRU links, expiry).
const ENTRY_OVERHEAD: u64 = 32;

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
        Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::List(..) | Ty::Msg(_) => {
            c_layout(m, ty).map(|(n, _)| (n, false))
        }
    }
}

/// The memory of a core's table when all its pages are in use: the arrays of
/// support/core_hash_table.h.
pub(super) fn local_table_bytes(m: &Module, t: &Table) -> Option<u64> {
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

pub(super) fn table_bytes(m: &Module, t: &Table) -> u64 {
    if let Some(n) = local_table_bytes(m, t) {
        return n;
    }
    if t.kind == TableKind::Array {
        let locks = if m.sharing(t) == TableSharing::One { 64 * t.locks() } else { 0 };
        return t.capacity.saturating_mul(layout::size(m, t.value)).saturating_add(locks);
    }
    let whole = layout::size(m, t.key).saturating_add(layout::size(m, t.value));
    let (entry, blocks) = match packed_keys::entry_blocks(m, t) {
        Some(b) => (b.inline, b.count.saturating_mul(b.data + 4)),
        None => (whole, 0),
    };
    t.capacity.saturating_mul(entry.saturating_add(ENTRY_OVERHEAD)).saturating_add(blocks)
}

/// The whole bill: memory taken at start, memory for each connection and request, the limits of
/// pools, and the sum.
pub(super) fn memory(m: &Module, out: &mut String) {
    heading(out, "Memory");
    let per_core = layout::counters_size(m).saturating_add(sum(m.states.iter().map(|s| layout::size(m, s.ty))));
    let tables = sum(m.tables.iter().map(|t| table_bytes(m, t)));
    let is = |kind: &dyn Fn(&Port) -> bool| m.ports.iter().any(kind);
    let mut rows = vec![];
    let row = &mut |what: String, n: u64, how: String| {
        if n > 0 {
            rows.push(vec![what, bytes(n), how])
        }
    };
    row("tables".into(), tables, "once, at start".into());
    row("state and counters".into(), per_core, "per core, at start".into());
    let connections = sum(m.ports.iter().map(|p| port_memory(m, p, row)));
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
            "per core, at most: heads being received, messages kept by calls".into(),
        );
        row(
            "pool: output waiting".into(),
            desc::POOL_QUEUES,
            "per core, at most: for peers that do not take it yet".into(),
        );
        pools += desc::POOL_HELD + desc::POOL_QUEUES;
    }
    let paused: Vec<&Handler> = m.handlers.iter().filter(|h| h.plan.pause.is_yes()).collect();
    if !paused.is_empty() {
        let locals = |h: &Handler| sum(h.body.locals.iter().map(|l| layout::size(m, l.ty)));
        let deepest = paused.into_iter().map(locals).max().unwrap_or(0);
        let most = if deepest > desc::LARGE_SCRATCH { desc::PAUSED_LARGE } else { desc::PAUSED };
        let paused = most.saturating_mul(desc::PAUSED_STACK.saturating_add(deepest));
        row(
            "paused handlers".into(),
            paused,
            format!("per core, at most: stacks and scratch of {most}, as far as they are used"),
        );
        pools = pools.saturating_add(paused);
    }
    let core = per_core.saturating_add(pools).saturating_add(connections);
    let on = |cores: u64| tables.saturating_add(core.saturating_mul(cores)).saturating_add(squared * cores * cores);
    let further = match squared {
        0 => format!("each further core {}", bytes(core)),
        _ => format!("on two {}, on four {}", bytes(on(2)), bytes(on(4))),
    };
    row("in all, on one core".into(), on(1), format!("at most, all limits reached; {further}"));
    columns(out, &rows);
    let _ = writeln!(
        out,
        "  A message beyond a pool is the fault `overload`. Pools, connections and requests take memory when they"
    );
    let _ = writeln!(out, "  need it. Not in it: the process itself, the sockets' buffers in the kernel.");
    for (list, items, room) in large_lists(m) {
        let _ = writeln!(
            out,
            "  Slow: each view has {} for the {} items of {list}, because something reads an item. Each\n  \
             message costs time for this room. A smaller maximum, or no use but `len`, avoids it.",
            bytes(room),
            count(items)
        );
    }
}

/// A row of the bill: its name, bytes, and how often.
type AddRow<'a> = dyn FnMut(String, u64, String) + 'a;

/// A port's part of the bill: the most that its connections take on one core, besides the pools.
fn port_memory(m: &Module, p: &Port, row: &mut AddRow) -> u64 {
    match &p.kind {
        PortKind::Frames { .. } => 0,
        PortKind::Connect(to) => backend_memory(m, p, backends(m, to), row),
        PortKind::Listen(_) => client_memory(m, p, row),
    }
}

/// The backends of a port; of a list that is not known yet the most.
fn backends(m: &Module, to: &Value) -> u64 {
    match to {
        Value::Const(ParamValue::Endpoints(list)) => list.len() as u64,
        Value::Const(
            ParamValue::Bool(_)
            | ParamValue::UInt(_)
            | ParamValue::Duration(_)
            | ParamValue::Bytes(_)
            | ParamValue::Texts(_),
        ) => 1,
        Value::Param(n) => match m.params.get(*n as usize).map(|p| (p.ty, &p.default)) {
            Some((_, Some(v))) => backends(m, &Value::Const(v.clone())),
            Some((ParamType::Endpoints(max), None)) => max.into(),
            Some((
                ParamType::Bool
                | ParamType::UInt(_)
                | ParamType::Duration
                | ParamType::Bytes(_)
                | ParamType::Texts(..)
                | ParamType::Endpoint,
                None,
            ))
            | None => 1,
        },
    }
}

fn backend_memory(m: &Module, p: &Port, backends: u64, row: &mut AddRow) -> u64 {
    let o = &p.options;
    let connection = desc::CONNECTION.saturating_add(view_bytes(m));
    let all = connection.saturating_mul(backends).saturating_mul(o.max_connections.into());
    let most = count(o.max_connections.into());
    let how = match protocols(m, p).all(|q| q.sharing == Sharing::Pipelined) {
        true => format!("{} shared; at most {most} with those of large messages", o.connections.max(1)),
        false if protocols(m, p).any(|q| q.sharing == Sharing::Session) => {
            format!("as many as clients keep; at most {most}")
        }
        false => format!("as many as calls under way; at most {most}"),
    };
    let number = if backends == 1 { "one backend".to_string() } else { format!("{} backends", count(backends)) };
    let how = format!("with its message's view; per backend and core {how}; {number}: {}", bytes(all));
    row(format!("{}: a connection", p.name), connection, how);
    let heads = protocols(m, p).filter_map(|q| q.response).map(|u| m.unit(u).head_max);
    held(p, "head of an answer", heads.max().unwrap_or(0), row);
    all
}

fn protocols<'m>(m: &'m Module, p: &'m Port) -> impl Iterator<Item = &'m Protocol> {
    p.protocols.iter().filter_map(|q| m.protocols.get(q.index()))
}

fn held(p: &Port, what: &str, largest: u64, row: &mut AddRow) {
    let how = format!("largest, from the pool; {} of them fit", count(desc::POOL_HELD / largest.max(1)));
    row(format!("{}: {what}", p.name), largest, how);
}

fn client_memory(m: &Module, p: &Port, row: &mut AddRow) -> u64 {
    let o = &p.options;
    let own = |port: PortId| m.ports.get(port.index()).is_some_and(|q| q.name == p.name);
    let handlers: Vec<&Handler> =
        m.handlers.iter().filter(|h| matches!(h.on, On::Message { port, .. } if own(port))).collect();
    let most = |of: &dyn Fn(&Handler) -> u64| handlers.iter().map(|h| of(h)).max().unwrap_or(0);
    let (view, conns) = (view_bytes(m), u64::from(o.max_connections));
    let requests = conns.saturating_mul(o.max_outstanding.into());

    let connection = sum([desc::CONNECTION, view].into_iter().chain(m.sessions.iter().map(|s| layout::size(m, s.ty))));
    let connections = connection.saturating_mul(conns);
    row(
        format!("{}: a connection", p.name),
        connection,
        format!("with its sessions and its message's view; {} per core: {}", count(conns), bytes(connections)),
    );
    let kept = most(&|h| HeldMessages::of(h).messages()).saturating_mul(view);
    let request = desc::REQUEST.saturating_add(most(&|h| frame_size(m, &h.body))).saturating_add(kept);
    let all = request.saturating_mul(requests);
    let views = if kept > 0 { ", its frame and the views of messages that it keeps" } else { " and its frame" };
    row(
        format!("{}: a request", p.name),
        request,
        format!("under way, with its place{views}; {} per connection: {}", o.max_outstanding, bytes(all)),
    );
    let further = most(&|h| calls_at_once(&h.body.block)).saturating_sub(1);
    let answer = if handlers.iter().any(|h| HeldMessages::of(h).answers) { view } else { 0 };
    let call = if further > 0 { desc::CALL.saturating_add(answer) } else { 0 };
    let calls = call.saturating_mul(further).saturating_mul(requests);
    let views = if answer > 0 { ", each with its answer's view" } else { "" };
    row(
        format!("{}: a further call", p.name),
        call,
        format!("of a request that makes several at once; {} per request{views}: {}", count(further), bytes(calls)),
    );
    held(p, "head of a request", protocols(m, p).map(|q| m.unit(q.request).head_max).max().unwrap_or(0), row);
    sum([connections, all, calls].into_iter())
}

/// Messages that a handler keeps while it waits: copies with views of their own.
struct HeldMessages {
    request: bool,
    answers: bool,
}

impl HeldMessages {
    fn of(h: &Handler) -> HeldMessages {
        let mut keeps = HeldMessages { request: false, answers: false };
        walk::stmts(&h.body.block, &mut |s| {
            if let StmtKind::Await { hold, hold_req, .. } = &s.kind {
                keeps.request |= hold_req;
                keeps.answers |= hold;
            }
        });
        keeps
    }

    /// With one call under way.
    fn messages(&self) -> u64 {
        u64::from(self.request) + u64::from(self.answers)
    }
}

/// The most calls of one activation that are under way at once: those since it last waited for all.
fn calls_at_once(block: &Block) -> u64 {
    let mut most = 0;
    calls_after(block, 0, &mut most);
    most
}

/// How many are under way behind a block, before which `open` are.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn calls_after(block: &Block, open: u64, most: &mut u64) -> u64 {
    block.iter().fold(open, |open, s| {
        let open = match &s.kind {
            s if s.is_awaited() => open.saturating_add(1),
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
