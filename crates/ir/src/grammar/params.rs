//! The fields of a unit that its parameters decide. A message that was read with some arguments may
//! be another one with others.

use crate::*;
use std::collections::HashSet;

/// A field for which the same bytes may be other fields, if the arguments are others. Without one,
/// the message is the same, is refused, or ends before its last switch, whose case is empty then.
pub fn other_fields(m: &Module, unit: UnitId) -> Option<FieldId> {
    let u = m.units.get(unit.index())?;
    let lets = decided(u);
    (0..u.fields.len() as u32).map(FieldId).find(|id| match &u.fields[id.index()].kind {
        FieldKind::Let { .. } | FieldKind::Require { .. } => false,
        FieldKind::Switch { cases } => {
            let chosen = |c: &&Case| matches!(&c.guard, Guard::When(e) if reads(e, &lets));
            let mut chosen = cases.iter().filter(chosen).peekable();
            chosen.peek().is_some() && (u.body.last() != Some(id) || chosen.any(|c| !same_bytes(u, c)))
        }
        FieldKind::UInt { .. }
        | FieldKind::Number { .. }
        | FieldKind::Varint { .. }
        | FieldKind::Bytes { .. }
        | FieldKind::Literal { .. }
        | FieldKind::Flag { .. }
        | FieldKind::Unit { .. }
        | FieldKind::List { .. }
        | FieldKind::StreamBytes { .. }
        | FieldKind::StreamUnit { .. }
        | FieldKind::Recover { .. }
        | FieldKind::Pass { .. }
        | FieldKind::Align { .. }
        | FieldKind::Nothing => depends(&u.fields[id.index()], &lets),
    })
}

/// A case that is empty, or that goes on as another one of its switch.
fn same_bytes(u: &Unit, case: &Case) -> bool {
    let as_another = |f: &FieldId| matches!(u.fields[f.index()].kind, FieldKind::Pass { how: PassRule::As { .. } });
    case.fields.is_empty() || case.fields.iter().any(as_another)
}

/// The `let`s that depend on a parameter.
fn decided(u: &Unit) -> HashSet<FieldId> {
    let mut lets = HashSet::new();
    loop {
        let before = lets.len();
        for (i, f) in u.fields.iter().enumerate() {
            if matches!(f.kind, FieldKind::Let { .. }) && depends(f, &lets) {
                lets.insert(FieldId(i as u32));
            }
        }
        if lets.len() == before {
            return lets;
        }
    }
}

fn depends(field: &Field, lets: &HashSet<FieldId>) -> bool {
    let mut found = false;
    walk::field_exprs(field, &mut |e, _| found |= reads(e, lets));
    found
}

/// Whether an expression depends on a parameter, itself or by one of these `let`s.
fn reads(e: &Expr, lets: &HashSet<FieldId>) -> bool {
    let mut found = false;
    walk::expr(e, &mut |e| {
        let of_let = || {
            let path = walk::path_of(e).filter(|p| p.root == Root::This)?;
            path.steps.first().map(|s| matches!(s, Step::Field(f) if lets.contains(f)))
        };
        found |= matches!(*e.kind, ExprKind::UnitParam(Root::This, _)) || of_let() == Some(true);
    });
    found
}
