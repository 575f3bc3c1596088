//! What a handler does with its frame, and with bytes of it, behind a statement that sends or changes the frame.
//!
//! `FrameAct::Send.last` is set where no way from there uses the frame again, nor bytes that lie in it: then it is moved, not copied. A local
//! whose bytes lie in the frame (`let d = payload(p.udp)`) is a value: if it is read behind a change of the frame, it gets a copy
//! (`concat` of one part), for what it names may have been overwritten or moved.
//!
//! A backward data-flow analysis over the structured code, as in `liveness`.

use super::liveness::Set;
use crate::*;

const FRAME: LocalId = LocalId(0);

pub fn run(m: &mut Module) {
    let mut handlers = std::mem::take(&mut m.handlers);
    for h in handlers.iter_mut().filter(|h| matches!(h.on, On::Frame { .. })) { handler(m, &mut h.body) }
    m.handlers = handlers;
}

fn handler(m: &Module, body: &mut Body) {
    let views = views(m, body);
    let mut kept = changed_under(body, &views);
    if kept.is_empty() { return }
    sources(&mut kept, &views, body);
    walk::stmts_mut(&mut body.block, &mut |s| {
        if let Some((_, e)) = definition_mut(&mut s.kind).filter(|(l, _)| kept.has(l.index())) { put_aside(m, &views, e) }
    });
    // What was put aside no longer holds the frame back.
    changed_under(body, &self::views(m, body));
}

/// Marks last uses; answers the locals that are read behind a change of what they name.
fn changed_under(body: &mut Body, views: &Set) -> Set {
    let n = body.locals.len();
    let mut pass = Backward { n, views, kept: Set::new(n), loops: Vec::new() };
    pass.block(&mut body.block, &mut Set::new(n));
    pass.kept
}

/// The local that gets bytes by a statement, and from where. Bytes of tables and of queues lie elsewhere.
fn definition(s: &StmtKind) -> Option<(LocalId, &Expr)> {
    match s {
        StmtKind::Set(l, e) | StmtKind::SetField(l, _, e) | StmtKind::Push(l, e) | StmtKind::Parse { dst: l, bytes: e, .. } => Some((*l, e)),
        _ => None,
    }
}

fn definition_mut(s: &mut StmtKind) -> Option<(LocalId, &mut Expr)> {
    match s {
        StmtKind::Set(l, e) | StmtKind::SetField(l, _, e) | StmtKind::Push(l, e) | StmtKind::Parse { dst: l, bytes: e, .. } => Some((*l, e)),
        _ => None,
    }
}

/// The frame, and the locals whose bytes may lie in it.
fn views(m: &Module, body: &Body) -> Set {
    let mut views = Set::new(body.locals.len());
    views.add(FRAME.index());
    loop {
        let before = views.clone();
        walk::stmts(&body.block, &mut |s| if let Some((l, e)) = definition(&s.kind) { if lies_in(m, &views, e) { views.add(l.index()) } });
        if before == views { return views }
    }
}

/// Whether a value has bytes that may lie in the frame.
fn lies_in(m: &Module, views: &Set, e: &Expr) -> bool {
    if !layout::has_bytes(m, e.ty) { return false }
    match &*e.kind {
        ExprKind::Builtin(Builtin::Slice, args) => args.first().is_some_and(|a| lies_in(m, views, a)),
        // Made in scratch.
        ExprKind::Builtin(..) => false,
        ExprKind::Local(l) | ExprKind::Payload(l, _) => views.has(l.index()),
        _ => {
            let mut lies = matches!(walk::path_of(e), Some(Path { root: Root::Local(l), .. }) if views.has(l.index()));
            walk::children(e, &mut |c| lies |= lies_in(m, views, c));
            lies
        }
    }
}

/// What kept locals are made of is kept, too.
fn sources(kept: &mut Set, views: &Set, body: &Body) {
    loop {
        let before = kept.clone();
        walk::stmts(&body.block, &mut |s| match definition(&s.kind) {
            Some((l, e)) if before.has(l.index()) => walk::locals_read(e, &mut |l| if l != FRAME && views.has(l.index()) { kept.add(l.index()) }),
            _ => {}
        });
        if before == *kept { return }
    }
}

/// Copies the bytes of a value that lie in the frame.
fn put_aside(m: &Module, views: &Set, e: &mut Expr) {
    if !lies_in(m, views, e) { return }
    if !matches!(m.ty(e.ty), Ty::Bytes(_)) { return walk::children_mut(e, &mut |c| put_aside(m, views, c)) }
    let ty = e.ty;
    let inner = std::mem::replace(e, Expr::new(ty, ExprKind::None));
    *e = Expr::new(ty, ExprKind::Builtin(Builtin::Concat, vec![inner]));
}

struct Loop { at_break: Set, at_continue: Set }

/// Sets of the locals that are used later: the frame, and those in `views`.
struct Backward<'a> {
    n: usize,
    views: &'a Set,
    /// Read behind a change of the frame.
    kept: Set,
    loops: Vec<Loop>,
}

impl Backward<'_> {
    fn block(&mut self, block: &mut Block, live: &mut Set) {
        for s in block.iter_mut().rev() { self.stmt(&mut s.kind, live) }
    }

    fn reads(&self, s: &StmtKind, live: &mut Set) {
        walk::stmt_locals_read(s, &mut |l| if self.views.has(l.index()) { live.add(l.index()) });
    }

    fn stmt(&mut self, s: &mut StmtKind, live: &mut Set) {
        match s {
            StmtKind::Break => *live = self.loops.last().map_or_else(|| live.clone(), |l| l.at_break.clone()),
            StmtKind::Continue => *live = self.loops.last().map_or_else(|| live.clone(), |l| l.at_continue.clone()),
            StmtKind::Return(_) | StmtKind::Fault { .. } => *live = Set::new(self.n),
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

    fn simple(&mut self, s: &mut StmtKind, live: &mut Set) {
        match s {
            StmtKind::Frame { frame, act: FrameAct::Send { last, .. } } => *last = *frame == FRAME && live.is_empty(),
            StmtKind::Frame { .. } => self.kept.union(&live.without(FRAME.index())),
            _ => for l in walk::defined(s).into_iter().flatten() { live.remove(l.index()) },
        }
        // What is built is built before the frame changes.
        walk::stmt_blocks_mut(s, &mut |b| self.block(b, live));
    }

    /// `live`: after the loop; then before it.
    fn looped(&mut self, body: &mut Block, again: bool, live: &mut Set) {
        let after = live.clone();
        loop {
            let mut next = live.clone();
            self.loops.push(Loop { at_break: after.clone(), at_continue: next.clone() });
            self.block(body, &mut next);
            self.loops.pop();
            if !again { return *live = next }
            next.union(live);
            if next == *live { return }
            *live = next;
        }
    }
}
