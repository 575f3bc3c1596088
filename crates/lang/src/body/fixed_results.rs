//! Comparisons with a written number that have the same result for every value.

use super::Lower;
use ir::{BinOp as B, Expr as X, ExprKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, Span};
use wireloom_syntax::Diagnostic;

/// The bounds of an unsigned expression by its type and a written mask.
struct Reach {
    /// The largest value.
    most: u128,
    /// The bits that may be set.
    bits: u128,
}

impl Lower<'_, '_> {
    /// Warns if the comparison `a op b`, lowered to `result`, has the same result for every value.
    /// A constant or parameter by name is no mistake: another value may decide it.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn warn_fixed(&mut self, result: &X, (a, b): (&Expr, &Expr), span: Span) {
        let ExprKind::Binary(op, left, right) = &*result.kind else { return };
        let (op, value, source, number) = match (&*left.kind, &*right.kind, &*a.kind, &*b.kind) {
            (_, ExprKind::Int(n), _, ast::ExprKind::Int(_)) => (*op, left, a, *n),
            (ExprKind::Int(n), _, ast::ExprKind::Int(_), _) => (mirrored(*op), right, b, *n),
            _ => return,
        };
        let Some(most) = most(&self.cx.m, value) else { return };
        let bits = u128::MAX.checked_shr(most.leading_zeros()).unwrap_or(0) & written_mask(source);
        let reach = Reach { most: most.min(bits), bits };
        let Some(always) = fixed(op, &reach, number) else { return };
        let d = Diagnostic::warning("W0906", span, format!("this comparison is always {always}"));
        let d = match op {
            B::Eq | B::Ne if number <= reach.most => {
                d.hint(format!("the other side has the bits {:#x} only: check the mask and the number", reach.bits))
            }
            _ => d.hint(format!("the other side is from 0 to {}: check the number, or remove this", reach.most)),
        };
        self.cx.report(d);
    }
}

/// `number op value` as `value op number`.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn mirrored(op: B) -> B {
    match op {
        B::Lt => B::Gt,
        B::Le => B::Ge,
        B::Gt => B::Lt,
        B::Ge => B::Le,
        op => op,
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn fixed(op: B, reach: &Reach, number: u128) -> Option<bool> {
    let never_equal = number > reach.most || number & !reach.bits != 0;
    match op {
        B::Eq if never_equal => Some(false),
        B::Ne if never_equal => Some(true),
        B::Lt if number == 0 => Some(false),
        B::Lt if number > reach.most => Some(true),
        B::Le if number >= reach.most => Some(true),
        B::Gt if number >= reach.most => Some(false),
        B::Ge if number == 0 => Some(true),
        B::Ge if number > reach.most => Some(false),
        _ => None,
    }
}

/// The largest value of the type. None for a type that is not unsigned.
fn most(m: &ir::Module, e: &X) -> Option<u128> {
    let Some(ir::Ty::UInt(width)) = m.types.get(e.ty.index()) else { return None };
    let of_type = u128::MAX.checked_shr(128 - u32::from(*width)).unwrap_or(0);
    if let ExprKind::Cast(inner) = &*e.kind {
        Some(most(m, inner).map_or(of_type, |n| n.min(of_type)))
    } else {
        Some(of_type)
    }
}

/// The number behind `&`, or all bits.
fn written_mask(e: &Expr) -> u128 {
    let ast::ExprKind::Binary(ast::BinOp::BitAnd, a, b) = &*e.kind else { return u128::MAX };
    match (&*a.kind, &*b.kind) {
        (ast::ExprKind::Int(n), _) | (_, ast::ExprKind::Int(n)) => *n,
        _ => u128::MAX,
    }
}
