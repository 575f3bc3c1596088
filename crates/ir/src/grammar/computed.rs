//! Computed fields (`let`) that are computed again at each reader.
//!
//! A number or bool is computed once and kept in the message's view. For bytes, the view can keep
//! only a place in the message. Other bytes are computed again at each use, so their expression is
//! copied into each reader. Headers of frames have no view, so all their computed fields are copied
//! in this way.

use super::Finding;
use crate::walk::{At, Scope};
use crate::*;
use std::collections::HashSet;

/// The most operators of a field that is computed again, those of the fields that it is computed of
/// included.
const MOST: u64 = 4096;

/// Whether a computed field with bytes is computed again at each use.
pub fn again(m: &Module, field: &Field) -> bool {
    let FieldKind::Let { value } = &field.kind else { return false };
    let place = matches!(*value.kind, ExprKind::Find { .. } | ExprKind::Read(_) | ExprKind::Raw(_));
    let one = match m.ty(field.ty) {
        Ty::Bytes(_) => true,
        Ty::Option(t) => matches!(m.ty(*t), Ty::Bytes(_)),
        Ty::Unit
        | Ty::Bool
        | Ty::UInt(_)
        | Ty::Int(_)
        | Ty::Endpoint
        | Ty::Ip
        | Ty::List(..)
        | Ty::Record(_)
        | Ty::Tuple(_)
        | Ty::Msg(_) => false,
    };
    layout::has_bytes(m, field.ty) && !(place && one)
}

/// Values that become too large, each unit after its nested ones. Their readers need no check.
pub(super) fn too_large(m: &Module, order: &[UnitId]) -> Vec<Finding> {
    let mut sizes: Vec<Vec<u64>> = m.units.iter().map(|u| vec![0; u.fields.len()]).collect();
    let headers: HashSet<UnitId> =
        m.units.iter().flat_map(|u| &u.frame).flat_map(|f| &f.layers).map(|l| l.unit).collect();
    let mut found = Vec::new();
    for &u in order {
        for (f, field) in m.unit(u).fields.iter().enumerate() {
            let computed = headers.contains(&u) && matches!(field.kind, FieldKind::Let { .. });
            if !computed && !again(m, field) {
                continue;
            }
            let size = size(m, u, field, &sizes);
            if size <= MOST {
                sizes[u.index()][f] = size;
                continue;
            }
            let name = field.name.as_deref().unwrap_or("_");
            found.push(Finding::new("E0415", field.span, format!("`{}.{name}` is computed of too much", m.unit(u).name))
                .hint("each reader computes such a `let` again, with the `let`s in it: write a function of the fields, or keep numbers or bools"));
        }
    }
    found
}

/// Operators of a field's expressions.
fn size(m: &Module, unit: UnitId, field: &Field, sizes: &[Vec<u64>]) -> u64 {
    let mut total = 0u64;
    walk::field_exprs(field, &mut |e, _| {
        walk::expr(e, &mut |e| {
            let read = walk::path_of(e).and_then(|p| m.follow(p, Scope::this(unit), &mut |_, _| ()));
            let inner = match read {
                Some(At::Field(u, f)) => sizes[u.index()][f.index()],
                _ => 0,
            };
            total = total.saturating_add(1 + inner);
        })
    });
    total
}
