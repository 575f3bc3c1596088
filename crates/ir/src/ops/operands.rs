//! The row and the operands of an expression.

use super::{Operation, Rows};
use crate::{Expr, ExprKind};

impl ExprKind {
    /// The row of an operator or a builtin, and its operands.
    pub fn operation(&self) -> Option<(&'static Operation, Vec<&Expr>)> {
        Some(match self {
            ExprKind::Unary(op, a) => (op.row(), vec![a]),
            ExprKind::Binary(op, a, b) => (op.row(), vec![a, b]),
            ExprKind::Builtin(b, args) => (b.row(), args.iter().collect()),
            _ => return None,
        })
    }
}
