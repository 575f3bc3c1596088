//! Values of options are taken where the program has asked for them.

use super::Checker;
use crate::*;

impl Checker<'_> {
    /// A body that takes the value of an option asks somewhere whether an option of this type has
    /// one. On which path it asks is not checked: passes join conditions. Sketches always give one.
    pub(super) fn guarded(&mut self, path: &str, body: &Body) {
        let mut given = Vec::new();
        let sketch = |t: &TableId| {
            self.m.tables.get(t.index()).is_some_and(|t| matches!(t.kind, TableKind::Bloom | TableKind::CountMin))
        };
        walk::stmts(&body.block, &mut |s| match &s.kind {
            StmtKind::TableGet { table, dst, .. } if sketch(table) => given.push(*dst),
            _ => {}
        });
        let sure = |e: &Expr| match &*e.kind {
            ExprKind::Local(l) => given.contains(l),
            kind => matches!(kind, ExprKind::Some(_) | ExprKind::If(..)),
        };
        let (mut asked, mut taken) = (Vec::new(), Vec::new());
        walk::block_exprs(&body.block, &mut |e| match &*e.kind {
            ExprKind::IsSome(a) => asked.push(a.ty),
            ExprKind::Unwrap(a) if !sure(a) => taken.push(a.ty),
            _ => {}
        });
        let bare = taken.iter().any(|t| !asked.contains(t));
        self.need(!bare, path, "the value of an option is taken, and nothing asks whether it has one");
    }
}
