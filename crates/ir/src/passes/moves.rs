//! States and sessions that are set to their own parts.
//!
//! Storage is written part by part, in order, while the new value may consist of slices of it.
//! `r = Two { a: r.b, b: r.a }` would write `b` over `a` before `a` is read. A part from another
//! place of the same storage gets bytes of its own first ([`Builtin::Keep`]). A part from its own
//! place (all others in `r.a = "x"`), or from elsewhere, is left alone. Places in a task's frame,
//! which keep locals over suspensions, are handled in the same way ([`suspend`]).

use super::local_set::LocalSet;
use super::memory::{definition, keep, lies_in, views, What};
use crate::*;

/// A way into a value: the number of a part, or what is in an option.
#[derive(Clone, Copy, PartialEq)]
enum In {
    Part(u32),
    Some,
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn settle(m: &Module, body: &mut Body) {
    let mut stored: Vec<What> = Vec::new();
    walk::stmts(&body.block, &mut |s| {
        if let Some((what, e)) = store(&s.kind) {
            if !is_single(m, e.ty) && !stored.contains(&what) {
                stored.push(what)
            }
        }
    });
    for what in stored {
        let storage = Storage { m, what, views: views(m, what, body), same: unmoved(m, what, body) };
        walk::stmts_mut(&mut body.block, &mut |s| match &mut s.kind {
            StmtKind::SetState(id, e) if what == What::State(*id) && !is_single(m, e.ty) => {
                storage.settle(e, &mut Vec::new())
            }
            StmtKind::SetSession(id, e) if what == What::Session(*id) && !is_single(m, e.ty) => {
                storage.settle(e, &mut Vec::new())
            }
            _ => {}
        });
    }
}

fn store(s: &StmtKind) -> Option<(What, &Expr)> {
    if let StmtKind::SetState(id, e) = s {
        return Some((What::State(*id), e));
    }
    if let StmtKind::SetSession(id, e) = s {
        return Some((What::Session(*id), e));
    }
    None
}

/// Whether a value has bytes in one place at most: nothing else of it can be written over before
/// they are read.
fn is_single(m: &Module, ty: TyId) -> bool {
    places(m, ty) < 2
}

fn places(m: &Module, ty: TyId) -> u32 {
    match m.ty(ty) {
        Ty::Bytes(_) => 1,
        Ty::Option(t) => places(m, *t),
        Ty::List(t, max) => places(m, *t).saturating_mul(*max),
        Ty::Record(r) => m.records[r.index()].fields.iter().map(|f| places(m, f.1)).fold(0, u32::saturating_add),
        Ty::Tuple(list) => list.iter().map(|t| places(m, *t)).fold(0, u32::saturating_add),
        Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Endpoint | Ty::Ip | Ty::Msg(_) => 0,
    }
}

/// A state or session that is set.
struct Storage<'a> {
    m: &'a Module,
    what: What,
    /// Locals whose bytes may lie in it.
    views: LocalSet,
    /// Those of which each part that lies in it lies in its own place.
    same: LocalSet,
}

/// Locals that only are the stored value itself, or that with other parts.
fn unmoved(m: &Module, what: What, body: &Body) -> LocalSet {
    let (all, mut same) = (views(m, what, body), LocalSet::new(body.locals.len()));
    let mut moved = LocalSet::new(body.locals.len());
    walk::stmts(&body.block, &mut |s| {
        let Some((l, e)) = definition(&s.kind).filter(|(l, e)| all.has(l.index()) && lies_in(m, what, &all, e)) else {
            return;
        };
        if matches!(&s.kind, StmtKind::Set(..)) && is_stored(what, e) {
            same.add(l.index())
        } else {
            moved.add(l.index())
        }
    });
    for l in moved.iter() {
        same.remove(l)
    }
    same
}

fn is_stored(what: What, e: &Expr) -> bool {
    matches!(&*e.kind, ExprKind::State(id) if what == What::State(*id))
        || matches!(&*e.kind, ExprKind::Session(id) if what == What::Session(*id))
}

impl Storage<'_> {
    /// Copies what of a value comes from another place than `to`, where it goes.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn settle(&self, e: &mut Expr, to: &mut Vec<In>) {
        if !lies_in(self.m, self.what, &self.views, e) || self.place(e).is_some_and(|from| from == *to) {
            return;
        }
        match &mut *e.kind {
            ExprKind::Make(parts) => {
                for (i, part) in parts.iter_mut().enumerate() {
                    to.push(In::Part(i as u32));
                    self.settle(part, to);
                    to.pop();
                }
            }
            ExprKind::Some(value) => {
                to.push(In::Some);
                self.settle(value, to);
                to.pop();
            }
            ExprKind::If(_, a, b) => {
                self.settle(a, to);
                self.settle(b, to);
            }
            // A list's items move up or down.
            ExprKind::MakeList(items) => {
                for item in items {
                    if lies_in(self.m, self.what, &self.views, item) {
                        keep(item)
                    }
                }
            }
            ExprKind::Builtin(Builtin::Slice, args)
                if args.first().and_then(|a| self.place(a)).is_some_and(|from| from == *to) => {}
            ExprKind::Cast(a) if matches!(self.m.ty(a.ty), Ty::Bytes(_)) => self.settle(a, to),
            _ => keep(e),
        }
    }

    /// The place in the storage that a value is, if it is one.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn place(&self, e: &Expr) -> Option<Vec<In>> {
        let inner = |e: &Expr, step: In| {
            let mut p = self.place(e)?;
            p.push(step);
            Some(p)
        };
        match &*e.kind {
            _ if is_stored(self.what, e) => Some(Vec::new()),
            ExprKind::Local(l) if self.same.has(l.index()) => Some(Vec::new()),
            ExprKind::Get(a, i) => inner(a, In::Part(*i)),
            ExprKind::Unwrap(a) => inner(a, In::Some),
            ExprKind::Cast(a) if matches!(self.m.ty(a.ty), Ty::Bytes(_)) => self.place(a),
            _ => None,
        }
    }
}

/// Locals that are kept over suspensions lie in the task's frame behind the first one. Where such a
/// local's bytes may lie in another one's place, it is copied before both are kept again.
pub fn suspend(m: &Module, body: &mut Body) {
    let n = body.locals.len();
    let framed = |l: LocalId| {
        body.locals
            .get(l.index())
            .is_some_and(|l| l.in_frame && layout::has_bytes(m, l.ty) && !matches!(m.ty(l.ty), Ty::Msg(_)))
    };
    let mut from: Vec<(LocalId, LocalId)> = Vec::new();
    for k in (0..n as u32).map(LocalId).filter(|k| framed(*k)) {
        let views = views(m, What::Local(k), body);
        let moved =
            |l: LocalId| l != k || !is_single(m, body.locals[l.index()].ty) && changes_parts(m, k, &views, body);
        from.extend(views.iter().map(|l| LocalId(l as u32)).filter(|l| framed(*l) && moved(*l)).map(|l| (l, k)));
    }
    if !from.is_empty() {
        before_awaits(&mut body.block, &body.locals, &from)
    }
}

/// Whether a local is set to parts of itself.
fn changes_parts(m: &Module, k: LocalId, views: &LocalSet, body: &Body) -> bool {
    let mut found = false;
    walk::stmts(&body.block, &mut |s| {
        if let Some((l, e)) = definition(&s.kind) {
            found |= l == k && lies_in(m, What::Local(k), views, e)
        }
    });
    found
}

fn before_awaits(block: &mut Block, locals: &[Local], from: &[(LocalId, LocalId)]) {
    let mut at = 0;
    while at < block.len() {
        walk::stmt_blocks_mut(&mut block[at].kind, &mut |b| before_awaits(b, locals, from));
        if let StmtKind::Await { live, .. } = &block[at].kind {
            let is_live = |l: &LocalId| live.contains(l);
            let mut copied: Vec<LocalId> =
                from.iter().filter(|(l, k)| is_live(l) && is_live(k)).map(|(l, _)| *l).collect();
            copied.dedup();
            let span = block[at].span;
            let copy = |l: LocalId| {
                let mut e = Expr::new(locals[l.index()].ty, ExprKind::Local(l));
                keep(&mut e);
                Stmt { span, kind: StmtKind::Set(l, e) }
            };
            let new: Vec<Stmt> = copied
                .into_iter()
                .map(copy)
                .filter(|s| !block[..at].iter().rev().take(from.len()).any(|b| b.kind == s.kind))
                .collect();
            let n = new.len();
            block.splice(at..at, new);
            at += n;
        }
        at += 1;
    }
}
