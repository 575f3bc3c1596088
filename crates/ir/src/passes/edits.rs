//! Sorts the edits of passed messages into wire order, so that a backend writes the message in one
//! pass. On one list, removals become one (those of a program and of its protocol, say), and come
//! before additions.

use crate::*;

/// The end of a removal's key.
const REMOVAL: u8 = 0;

pub fn run(m: &mut Module) {
    let orders: Vec<Vec<u32>> = m.units.iter().map(ranks).collect();
    let units = std::mem::take(&mut m.units);
    let types = std::mem::take(&mut m.types);
    let view = Module { units, types, ..Module::default() };
    m.bodies_mut(&mut |body| {
        let Body { locals, block, .. } = body;
        walk::stmts_mut(block, &mut |s| {
            if let Some(Outgoing::Pass { msg, edits }) = walk::outgoing_mut(&mut s.kind) {
                let Some(Ty::Msg(unit)) = locals.get(msg.index()).and_then(|l| view.types.get(l.ty.index())) else {
                    return;
                };
                edits.sort_by_cached_key(|e| key(&view, &orders, *unit, e));
                edits.dedup_by(joined);
            }
        });
    });
    (m.units, m.types) = (view.units, view.types);
}

/// Position of each field in wire order.
fn ranks(unit: &Unit) -> Vec<u32> {
    let mut ranks = vec![u32::MAX; unit.fields.len()];
    for (n, f) in walk::wire_order(unit).into_iter().enumerate() {
        if let Some(r) = ranks.get_mut(f.index()) {
            *r = n as u32
        }
    }
    ranks
}

/// Makes two removals from one list the first one; whether they are such.
fn joined(later: &mut Edit, first: &mut Edit) -> bool {
    let (Edit::Remove { list, index: from, cond: more }, Edit::Remove { list: of, index: to, cond }) = (later, first)
    else {
        return false;
    };
    if list != of {
        return false;
    }
    walk::expr_mut(more, &mut |e| {
        if let ExprKind::Local(l) = &mut *e.kind {
            if l == from {
                *l = *to
            }
        }
    });
    *cond = Expr::new(cond.ty, ExprKind::Binary(BinOp::Or, cond.clone(), more.clone()));
    true
}

/// Whether the edits are as this pass leaves them.
pub fn sorted(m: &Module, unit: UnitId, edits: &[Edit]) -> bool {
    let orders: Vec<Vec<u32>> = m.units.iter().map(ranks).collect();
    let keys: Vec<_> = edits.iter().map(|e| key(m, &orders, unit, e)).collect();
    keys.windows(2).all(|w| w[0] < w[1] || w[0] == w[1] && w[0].1 != REMOVAL)
}

fn key(m: &Module, orders: &[Vec<u32>], unit: UnitId, edit: &Edit) -> (Vec<u32>, u8) {
    let (path, kind) = match edit {
        Edit::Remove { list, .. } => (list, REMOVAL),
        Edit::Set { field, .. } => (field, 1),
        Edit::Append { list, .. } => (list, 2),
    };
    let mut at = Some(walk::At::Unit(unit));
    let mut key = Vec::new();
    let mut level = None;
    for f in path {
        let inside = at.and_then(|a| m.inside(a));
        let rank =
            inside.and_then(|u| orders.get(u.index())).and_then(|r| r.get(f.index())).copied().unwrap_or(u32::MAX);
        // A step through a switch stays in its unit: the inner field's place says it all.
        if inside.is_some() && inside == level {
            key.pop();
        }
        key.push(rank);
        level = inside;
        at = at.and_then(|a| m.step(a, &Step::Field(*f)));
    }
    (key, kind)
}
