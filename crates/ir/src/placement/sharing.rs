//! Which handlers can be in the XDP hook together, by what they share with those on the CPU.

use super::{own_obstacles, Obstacle};
use crate::core_partition::{Resource, Uses};
use crate::*;

/// Of handlers that may run in the hook, those that do. Nothing keeps one of them off, and none
/// shares a thing with one on the CPU that it cannot share.
pub fn together(m: &Module, candidates: &[HandlerId]) -> Vec<HandlerId> {
    let able = |h: &HandlerId| own_obstacles(m, *h).is_empty();
    let mut all: Vec<HandlerId> = candidates.iter().copied().filter(able).collect();
    while let Some(n) = (0..all.len()).find(|n| !conflicts(m, all[*n], &all).is_empty()) {
        all.remove(n);
    }
    all
}

/// Things that a handler shares with those on the CPU, and cannot. `beside`: handlers in the hook.
pub(super) fn conflicts(m: &Module, handler: HandlerId, beside: &[HandlerId]) -> Vec<Obstacle> {
    let (h, mut found) = (&m.handlers[handler.index()], Vec::new());
    let uses = Uses::of(m, h);
    let mut add = |what: String, hint: &str| {
        found.push(Obstacle { code: "E0672", span: h.span, what, hint: hint.into() });
    };
    for (n, o) in m.handlers.iter().enumerate() {
        if o.on.is_test() || beside.contains(&HandlerId(n as u32)) {
            continue;
        }
        let other = Uses::of(m, o);
        for thing in uses.reads.union(&uses.changes).filter(|t| other.touches(**t)) {
            let Some(name) = conflict(m, *thing, (&uses, &other), o) else { continue };
            if matches!(thing, Resource::Table(_)) && !matches!(o.on, On::Frame { .. }) {
                let what =
                    format!("handler `{}`, which the CPU runs, changes an entry of {name} by `+=` or `update`", o.name);
                add(what, "timers and signals may set an entry: `t[k] = v`");
                continue;
            }
            let what = format!("{name} is used by handler `{}`, too, which the CPU runs", o.name);
            add(what, "give each side a thing of its own");
        }
        if matches!(o.on, On::Fault) {
            let what = "the app handles faults, which the CPU would not see".to_string();
            add(what, "leave `on fault` out, or this handler to the CPU");
        }
    }
    found
}

/// The name of a thing that two handlers on two devices cannot share.
fn conflict(m: &Module, thing: Resource, (uses, other): (&Uses, &Uses), o: &Handler) -> Option<String> {
    match thing {
        Resource::State(s) => Some(format!("state `{}`", m.states[s.index()].name)),
        Resource::Counter(c) => (uses.reads.contains(&thing) || other.reads.contains(&thing))
            .then(|| format!("counter `{}`", m.counters[c.index()].name)),
        // The hook sends to queues only.
        Resource::Queue(_) => None,
        Resource::Table(t) => {
            let mut updates = false;
            m.reached(&o.body.block, &mut |b| updates |= updates_table(m, b, t, &mut Vec::new()));
            // Compiled handlers of packets have forms of tables of their own.
            let packets = matches!(o.on, On::Frame { .. });
            (updates || packets).then(|| format!("table `{}`", m.tables[t.index()].name))
        }
    }
}

/// Whether a block updates a table, by itself or in a function.
fn updates_table(m: &Module, block: &[Stmt], t: TableId, seen: &mut Vec<FuncId>) -> bool {
    let mut updates = false;
    walk::stmts(block, &mut |s| updates |= matches!(&s.kind, StmtKind::TableUpdate { table, .. } if *table == t));
    for f in walk::calls(block) {
        if seen.contains(&f) {
            continue;
        }
        seen.push(f);
        if let FuncBody::Body(b) = &m.funcs[f.index()].body {
            updates |= updates_table(m, &b.block, t, seen)
        }
    }
    updates
}
