//! The row and the operands of an expression, and its faults.

use super::{Operation, Rows};
use crate::{Expr, ExprKind};

impl ExprKind {
    /// The row of an operator or a builtin, and its operands.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn operation(&self) -> Option<(&'static Operation, Vec<&Expr>)> {
        Some(match self {
            ExprKind::Unary(op, a) => (op.row(), vec![a]),
            ExprKind::Binary(op, a, b) => (op.row(), vec![a, b]),
            ExprKind::Builtin(b, args) => (b.row(), args.iter().collect()),
            _ => return None,
        })
    }
}

impl Expr {
    /// Whether it may set a fault: it calls a function or takes scratch.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn may_fault(&self) -> bool {
        let mut found = false;
        crate::walk::expr(self, &mut |e| {
            found |= match &*e.kind {
                ExprKind::Call(..) | ExprKind::GroupBytes(_) => true,
                ExprKind::Builtin(b, _) => b.takes_scratch(),
                _ => false,
            }
        });
        found
    }
}
