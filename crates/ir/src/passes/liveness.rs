//! Liveness: the values that a handler carries over its suspensions.
//!
//! Sets `Await.live` (locals that are read after it), `Local.in_frame` (live across some
//! suspension), `Await.hold_req` and `Await.hold`. The request's own local is never in a live set:
//! `hold_req` keeps it reachable through the task. Some locals are bound to a part and read after a
//! later suspension. Such a local is in the live set (the frame keeps its `wl_msg`), and the
//! suspension before its binding becomes `hold`. Bounds and counters of loops around a suspension
//! are the backends' own. A `for`'s variable is in the live set.
//!
//! A backward data-flow analysis over the structured code. Loops are iterated until nothing
//! changes. Afterwards one forward walk counts the calls that may be outstanding at each
//! suspension.

use super::local_set::LocalSet;
use crate::*;

pub fn run(m: &mut Module) {
    for h in 0..m.handlers.len() {
        let mut body = std::mem::take(&mut m.handlers[h].body);
        let on = m.handlers[h].on;
        handler(m, on, &mut body);
        super::moves::suspend(m, &mut body);
        m.handlers[h].body = body;
    }
}

fn handler(m: &Module, on: On, body: &mut Body) {
    for l in &mut body.locals {
        l.in_frame = false
    }
    let request = matches!(on, On::Message { .. } | On::Upstream { .. });
    let n = body.locals.len();
    let mut pass = Backward {
        n,
        request,
        request_views: request_views(m, request, body),
        fault_reads_request: fault_reads_request(m, on, body),
        tail_read: (0..n).map(|l| reads_tail(m, body, LocalId(l as u32))).collect(),
        crossing: LocalSet::new(n + 1),
        loops: Vec::new(),
    };
    // Twice: the first run finds the message locals that cross a suspension, which the second one
    // must know.
    for _ in 0..2 {
        let mut live = LocalSet::new(n + 1);
        pass.block(&mut body.block, &mut live);
    }
    for l in pass.crossing.iter().filter(|l| *l < n) {
        body.locals[l].in_frame = true
    }
    Forward { breaks: Vec::new() }.block(&mut body.block, 0);
}

/// Locals whose bytes may be a slice of the request: assigned from it, directly or through others.
fn request_views(m: &Module, request: bool, body: &Body) -> LocalSet {
    let mut views = LocalSet::new(body.locals.len() + 1);
    if !request {
        return views;
    }
    views.add(0);
    loop {
        let before = views.clone();
        walk::stmts(&body.block, &mut |s| {
            let (StmtKind::Set(dst, e) | StmtKind::SetField(dst, _, e) | StmtKind::Push(dst, e)) = &s.kind else {
                return;
            };
            let holds = body.locals.get(dst.index()).is_some_and(|l| layout::has_bytes(m, l.ty));
            let mut from = false;
            walk::locals_read(e, &mut |l| from |= views.has(l.index()));
            if holds && from && layout::has_bytes(m, e.ty) {
                views.add(dst.index())
            }
        });
        if before == views {
            return views;
        }
    }
}

/// Whether the words for a fault are made from the request: then every suspension must keep it. If
/// only the answer's parameters are asked for, the runtime may know them: from the calls that were
/// made, to servers of the same protocol.
fn fault_reads_request(m: &Module, on: On, handler: &Body) -> bool {
    let On::Message { protocol, .. } = on else { return false };
    let Some((p, body)) = m.protocols.get(protocol.index()).and_then(|p| Some((p, p.on_fault.as_ref()?))) else {
        return false;
    };
    let mut foreign = false;
    walk::stmts(&handler.block, &mut |s| {
        if let StmtKind::Call { port, .. } = &s.kind {
            foreign |= m.ports.get(port.index()).is_none_or(|c| c.protocols.first() != Some(&protocol));
        }
    });
    let answers = Protocol::FAULT_LOCALS..p.fault_presets(m);
    let mut reads = false;
    walk::stmts(&body.block, &mut |s| {
        if !foreign && matches!(&s.kind, StmtKind::Set(l, _) if answers.contains(&l.index())) {
            return;
        }
        walk::stmt_locals_read(&s.kind, &mut |l| reads |= l == LocalId(2))
    });
    reads
}

/// Whether fields of a message local's tail are read or edited.
fn reads_tail(m: &Module, body: &Body, local: LocalId) -> bool {
    match body.locals.get(local.index()).and_then(|l| m.types.get(l.ty.index())) {
        Some(Ty::Msg(message)) => grammar::body_needs_tail(m, grammar::rule(m, *message), *message, body, local),
        _ => false,
    }
}

struct LoopLiveness {
    at_break: LocalSet,
    at_continue: LocalSet,
}

struct Backward {
    n: usize,
    request: bool,
    request_views: LocalSet,
    fault_reads_request: bool,
    tail_read: Vec<bool>,
    /// Locals live across some suspension.
    crossing: LocalSet,
    loops: Vec<LoopLiveness>,
}

/// The extra element of a live set: a part bound after this point must be held.
impl Backward {
    fn block(&mut self, block: &mut Block, live: &mut LocalSet) {
        for s in block.iter_mut().rev() {
            self.stmt(&mut s.kind, live)
        }
    }

    fn reads(&self, s: &StmtKind, live: &mut LocalSet) {
        walk::stmt_locals_read(s, &mut |l| live.add(l.index()));
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &mut StmtKind, live: &mut LocalSet) {
        match s {
            StmtKind::Break => *live = self.loops.last().map_or_else(|| live.clone(), |l| l.at_break.clone()),
            StmtKind::Continue => *live = self.loops.last().map_or_else(|| live.clone(), |l| l.at_continue.clone()),
            StmtKind::Return(_) | StmtKind::Fault { .. } => {
                *live = LocalSet::new(self.n + 1);
                self.reads(s, live)
            }
            StmtKind::If { then, other, .. } => {
                let mut b = live.clone();
                self.block(then, live);
                self.block(other, &mut b);
                live.union(&b);
                self.reads(s, live);
            }
            StmtKind::Switch { cases, default, .. } => {
                let after = live.clone();
                self.block(default, live);
                for (_, b) in cases {
                    let mut case = after.clone();
                    self.block(b, &mut case);
                    live.union(&case);
                }
                self.reads(s, live);
            }
            StmtKind::For { var, body, .. } => {
                let var = var.index();
                self.looped(body, Some(var), live);
                self.reads(s, live);
            }
            StmtKind::Loop { body, .. } => self.looped(body, None, live),
            StmtKind::TableUpdate { entry, body, .. } => {
                let entry = entry.index();
                live.add(entry);
                self.block(body, live);
                live.remove(entry);
                self.reads(s, live);
            }
            StmtKind::BindPart { dst, .. } => {
                let dst = dst.index();
                live.remove(dst);
                if self.tail_read.get(dst).copied().unwrap_or(false) || self.crossing.has(dst) {
                    live.add(self.n)
                }
                self.reads(s, live);
            }
            StmtKind::Await { .. } => self.suspend(s, live),
            _ => self.simple(s, live),
        }
    }

    fn simple(&mut self, s: &mut StmtKind, live: &mut LocalSet) {
        for l in walk::defined(s).into_iter().flatten() {
            live.remove(l.index())
        }
        if let Some(msg) = walk::outgoing_mut(s) {
            self.message(msg, live)
        }
        self.reads(s, live);
        if let Some(Outgoing::Pass { edits, .. }) = walk::outgoing(s) {
            for e in edits {
                if let Edit::Remove { index, .. } = e {
                    live.remove(index.index())
                }
            }
        }
    }

    fn message(&mut self, msg: &mut Outgoing, live: &mut LocalSet) {
        walk::outgoing_blocks_mut(msg, &mut |b| {
            // A block may be skipped by its edit's condition; building never suspends, so the order
            // does not matter.
            let mut inner = live.clone();
            self.block(b, &mut inner);
            live.union(&inner);
        });
    }

    fn suspend(&mut self, s: &mut StmtKind, live: &mut LocalSet) {
        let StmtKind::Await { hold, hold_req, live: out } = s else { return };
        *hold = live.has(self.n);
        live.remove(self.n);
        let views = live.iter().any(|l| self.request_views.has(l));
        *hold_req = self.request && (views || self.fault_reads_request);
        let request = self.request;
        let kept = || live.iter().filter(|l| !(request && *l == 0));
        *out = kept().map(|l| LocalId(l as u32)).collect();
        for l in kept() {
            self.crossing.add(l)
        }
    }

    /// `live`: after the loop; then before it.
    fn looped(&mut self, body: &mut Block, var: Option<usize>, live: &mut LocalSet) {
        let after = live.clone();
        let mut head = after.clone();
        loop {
            // At the end of a round the variable is read to make the next one.
            let mut next = head.clone();
            if let Some(v) = var {
                next.add(v)
            }
            self.loops.push(LoopLiveness { at_break: after.clone(), at_continue: next.clone() });
            self.block(body, &mut next);
            self.loops.pop();
            if let Some(v) = var {
                next.remove(v)
            }
            next.union(&head);
            if next == head {
                break;
            }
            head = next;
        }
        *live = head;
    }
}

/// Counts calls issued since the last suspension: 0, 1, or 2 for more.
struct Forward {
    breaks: Vec<u8>,
}

impl Forward {
    /// None: does not go on behind the block.
    fn block(&mut self, block: &mut Block, mut calls: u8) -> Option<u8> {
        for s in block {
            calls = self.stmt(&mut s.kind, calls)?
        }
        Some(calls)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &mut StmtKind, calls: u8) -> Option<u8> {
        match s {
            s if s.is_awaited() => Some((calls + 1).min(2)),
            StmtKind::Await { hold, .. } => {
                *hold |= calls > 1;
                Some(0)
            }
            StmtKind::Return(_) | StmtKind::Fault { .. } => None,
            StmtKind::Break | StmtKind::Continue => {
                if let Some(b) = self.breaks.last_mut() {
                    *b = calls.max(*b)
                }
                None
            }
            StmtKind::If { then, other, .. } => {
                let a = self.block(then, calls);
                a.max(self.block(other, calls))
            }
            StmtKind::Switch { cases, default, .. } => {
                let mut out = self.block(default, calls);
                for (_, b) in cases {
                    out = out.max(self.block(b, calls))
                }
                out
            }
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } => {
                let mut at_head = calls;
                loop {
                    self.breaks.push(at_head);
                    let end = self.block(body, at_head).unwrap_or(0);
                    let out = self.breaks.pop().unwrap_or(at_head).max(end).max(at_head);
                    if out == at_head {
                        return Some(out);
                    }
                    at_head = out;
                }
            }
            _ => Some(calls),
        }
    }
}
