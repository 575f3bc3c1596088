//! The last use of a frame in a handler, and copies of bytes that a later change would overwrite.
//!
//! `FrameAct::Send.last` is set where no path from there uses the frame again, nor bytes that lie
//! in it. Then the frame is moved, not copied. A local may have bytes that lie in the frame
//! (`let d = payload(p.udp)`) or in a state (`let old = name`). Such a local is a value. If it is
//! read behind a change of the frame or state, it gets a copy (`concat` of one part).
//!
//! A state that is set to its own parts in other places (`r = Two { a: r.b, b: r.a }`) is written
//! part by part while they point into it. So these parts are copied first ([`moves`]).
//!
//! A backward data-flow analysis over the structured code, as in `liveness`.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and StmtKind")]

use super::local_set::LocalSet;
use super::memory::{definition, keep, lies_in, views, What, FRAME};
use super::moves;
use crate::*;

pub fn run(m: &mut Module) {
    let (mut handlers, mut inputs) = (std::mem::take(&mut m.handlers), std::mem::take(&mut m.inputs));
    let mut behind = Vec::new();
    for b in inputs.iter().filter_map(|i| i.body.as_ref()) {
        walk::stmts(&b.block, &mut |s| {
            if let StmtKind::SetState(id, _) = s.kind {
                behind.push(What::State(id))
            }
        })
    }
    for h in &mut handlers {
        handler(m, matches!(h.on, On::Frame { .. }), &mut h.body, &behind)
    }
    for b in inputs.iter_mut().filter_map(|i| i.body.as_mut()) {
        handler(m, true, b, &behind)
    }
    (m.handlers, m.inputs) = (handlers, inputs);
    borrowed(m);
}

/// A frame that its sender uses again is not moved behind an output.
fn borrowed(m: &mut Module) {
    let mut lent: Vec<InputId> = Vec::new();
    let wires = &m.wires;
    let target = |s: &StmtKind, all: bool| match s {
        StmtKind::Output { wire, last, .. } if all || !last => match wires.get(wire.index())?.to {
            Target::Input { input, .. } => Some(input),
            Target::Port { .. } => None,
        },
        _ => None,
    };
    m.bodies(&mut |b| walk::stmts(&b.block, &mut |s| lent.extend(target(&s.kind, false))));
    let mut seen = vec![false; m.inputs.len()];
    while let Some(i) = lent.pop() {
        let Some(input) = m.inputs.get_mut(i.index()).filter(|_| !std::mem::replace(&mut seen[i.index()], true)) else {
            continue;
        };
        let Some(b) = &mut input.body else { continue };
        walk::stmts_mut(&mut b.block, &mut |s| {
            lent.extend(target(&s.kind, true));
            if let StmtKind::Output { last, .. } | StmtKind::Frame { act: FrameAct::Send { last, .. }, .. } =
                &mut s.kind
            {
                *last = false
            }
        });
    }
}

/// `behind`: what outputs may change beside the frame.
fn handler(m: &Module, frame: bool, body: &mut Body, behind: &[What]) {
    read_behind_changes(m, frame, body, behind);
    moves::settle(m, body);
}

fn read_behind_changes(m: &Module, frame: bool, body: &mut Body, behind: &[What]) {
    let memory = memory(m, frame, body, behind);
    if memory.is_empty() {
        return;
    }
    let mut kept = changed_under(body, &memory, behind);
    if kept.is_empty() {
        return;
    }
    sources(&mut kept, &memory, body);
    walk::stmts_mut(&mut body.block, &mut |s| {
        if let Some((_, e)) = definition_mut(&mut s.kind).filter(|(l, _)| kept.has(l.index())) {
            put_aside(m, &memory, e)
        }
    });
    // Bytes that were put aside no longer hold the frame back.
    changed_under(body, &self::memory(m, frame, body, behind), behind);
}

/// Marks last uses; answers the locals that are read behind a change of what they name.
fn changed_under(body: &mut Body, memory: &[Memory], behind: &[What]) -> LocalSet {
    let n = body.locals.len();
    let mut pass = LaterUses { n, memory, behind, kept: LocalSet::new(n), loops: Vec::new() };
    pass.block(&mut body.block, &mut LocalSet::new(n));
    pass.kept
}

/// Such memory, and the locals whose bytes may lie in it; of the frame, itself.
struct Memory {
    what: What,
    views: LocalSet,
}

/// The memory that a statement changes.
fn changes(s: &StmtKind, behind: &[What]) -> Vec<What> {
    match s {
        StmtKind::Frame { act: FrameAct::Send { .. } | FrameAct::Save { .. }, .. } => vec![],
        StmtKind::Frame { act: FrameAct::InC { whole: false, .. }, .. } => vec![],
        StmtKind::Frame { .. } => vec![What::Frame],
        StmtKind::Output { .. } => [What::Frame].into_iter().chain(behind.iter().copied()).collect(),
        StmtKind::SetState(id, _) => vec![What::State(*id)],
        StmtKind::SetSession(id, _) => vec![What::Session(*id)],
        _ => vec![],
    }
}

fn memory(m: &Module, frame: bool, body: &Body, behind: &[What]) -> Vec<Memory> {
    let mut all: Vec<What> = frame.then_some(What::Frame).into_iter().collect();
    walk::stmts(&body.block, &mut |s| {
        for what in changes(&s.kind, behind) {
            if !all.contains(&what) {
                all.push(what)
            }
        }
    });
    let with_views = all.into_iter().map(|what| Memory { what, views: views(m, what, body) });
    with_views.filter(|v| !v.views.is_empty()).collect()
}

fn definition_mut(s: &mut StmtKind) -> Option<(LocalId, &mut Expr)> {
    match s {
        StmtKind::Set(l, e)
        | StmtKind::SetField(l, _, e)
        | StmtKind::Push(l, e)
        | StmtKind::Parse { dst: l, bytes: e, .. } => Some((*l, e)),
        _ => None,
    }
}

/// The parts of kept locals are kept, too.
fn sources(kept: &mut LocalSet, memory: &[Memory], body: &Body) {
    let is_view = |l: LocalId| memory.iter().any(|v| v.views.has(l.index()) && !(v.what == What::Frame && l == FRAME));
    loop {
        let before = kept.clone();
        walk::stmts(&body.block, &mut |s| match definition(&s.kind) {
            Some((l, e)) if before.has(l.index()) => walk::locals_read(e, &mut |l| {
                if is_view(l) {
                    kept.add(l.index())
                }
            }),
            _ => {}
        });
        if before == *kept {
            return;
        }
    }
}

/// Copies the bytes of a value that lie in memory that changes.
fn put_aside(m: &Module, memory: &[Memory], e: &mut Expr) {
    if !memory.iter().any(|v| lies_in(m, v.what, &v.views, e)) {
        return;
    }
    match &*e.kind {
        // It gets a copy itself.
        ExprKind::Local(_) => {}
        _ if is_made(e) => walk::children_mut(e, &mut |c| put_aside(m, memory, c)),
        _ => keep(e),
    }
}

/// Whether a value is put together of others, so that each of them has a place of its own.
fn is_made(e: &Expr) -> bool {
    matches!(&*e.kind, ExprKind::If(..) | ExprKind::Make(_) | ExprKind::MakeList(_) | ExprKind::Some(_))
}

struct LoopUses {
    at_break: LocalSet,
    at_continue: LocalSet,
}

/// Sets of the locals that are used later, of those that lie in some memory.
struct LaterUses<'a> {
    n: usize,
    memory: &'a [Memory],
    behind: &'a [What],
    /// Read behind a change of what they lie in.
    kept: LocalSet,
    loops: Vec<LoopUses>,
}

impl LaterUses<'_> {
    fn block(&mut self, block: &mut Block, live: &mut LocalSet) {
        for s in block.iter_mut().rev() {
            self.stmt(&mut s.kind, live)
        }
    }

    fn reads(&self, s: &StmtKind, live: &mut LocalSet) {
        walk::stmt_locals_read(s, &mut |l| {
            if self.memory.iter().any(|v| v.views.has(l.index())) {
                live.add(l.index())
            }
        });
    }

    fn stmt(&mut self, s: &mut StmtKind, live: &mut LocalSet) {
        match s {
            StmtKind::Break => *live = self.loops.last().map_or_else(|| live.clone(), |l| l.at_break.clone()),
            StmtKind::Continue => *live = self.loops.last().map_or_else(|| live.clone(), |l| l.at_continue.clone()),
            StmtKind::Return(_) | StmtKind::Fault { .. } => *live = LocalSet::new(self.n),
            StmtKind::If { then, other, .. } => {
                let mut b = live.clone();
                self.block(then, live);
                self.block(other, &mut b);
                live.union(&b);
            }
            StmtKind::Switch { cases, default, .. } => {
                let after = live.clone();
                self.block(default, live);
                for (_, b) in cases {
                    let mut case = after.clone();
                    self.block(b, &mut case);
                    live.union(&case);
                }
            }
            StmtKind::Loop { max, body } => self.looped(body, *max > 1, live),
            StmtKind::For { body, .. } => self.looped(body, true, live),
            StmtKind::TableUpdate { body, .. } => self.block(body, live),
            _ => self.simple(s, live),
        }
        self.reads(s, live);
    }

    fn simple(&mut self, s: &mut StmtKind, live: &mut LocalSet) {
        for v in changes(s, self.behind).into_iter().filter_map(|what| self.memory.iter().find(|v| v.what == what)) {
            for l in v.views.iter().filter(|l| live.has(*l) && !(v.what == What::Frame && *l == FRAME.index())) {
                self.kept.add(l)
            }
        }
        match s {
            StmtKind::Frame { frame, act: FrameAct::Send { last, .. } } | StmtKind::Output { frame, last, .. } => {
                *last = *frame == FRAME
                    && !self.memory.iter().any(|v| v.what == What::Frame && v.views.iter().any(|l| live.has(l)));
            }
            _ => {
                for l in walk::defined(s).into_iter().flatten() {
                    live.remove(l.index())
                }
            }
        }
        // A message is built before the frame changes.
        walk::stmt_blocks_mut(s, &mut |b| self.block(b, live));
    }

    /// `live`: after the loop; then before it.
    fn looped(&mut self, body: &mut Block, again: bool, live: &mut LocalSet) {
        let after = live.clone();
        loop {
            let mut next = live.clone();
            self.loops.push(LoopUses { at_break: after.clone(), at_continue: next.clone() });
            self.block(body, &mut next);
            self.loops.pop();
            if !again {
                return *live = next;
            }
            next.union(live);
            if next == *live {
                return;
            }
            *live = next;
        }
    }
}
