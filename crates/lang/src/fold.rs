//! Evaluates constant IR expressions: constants, widths, lengths, options.

use ir::{BinOp, Builtin, Expr, ExprKind, Ty, UnOp};
use wireloom_ir as ir;

fn width(m: &ir::Module, ty: ir::TyId) -> (u32, bool) {
    match m.types.get(ty.index()) {
        Some(Ty::UInt(b)) => (u32::from(*b), false),
        Some(Ty::Int(b)) => (u32::from(*b), true),
        _ => (128, false),
    }
}

/// Cuts a value to the width of its type (two's complement).
pub fn wrap(m: &ir::Module, ty: ir::TyId, v: u128) -> u128 {
    let (bits, _) = width(m, ty);
    if bits >= 128 {
        v
    } else {
        v & ((1 << bits) - 1)
    }
}

/// The signed meaning of a value of that type.
pub fn signed(m: &ir::Module, ty: ir::TyId, v: u128) -> i128 {
    let (bits, signed) = width(m, ty);
    if signed && bits < 128 && v >> (bits - 1) & 1 == 1 {
        (v | !((1u128 << bits) - 1)) as i128
    } else {
        v as i128
    }
}

/// The exact value of a calculation with literals alone. It may be negative.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn exact(e: &Expr) -> Option<i128> {
    match &*e.kind {
        ExprKind::Int(n) => i128::try_from(*n).ok(),
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (exact(a)?, exact(b)?);
            match op {
                BinOp::Add | BinOp::AddSat => a.checked_add(b),
                BinOp::Sub | BinOp::SubSat => a.checked_sub(b),
                BinOp::Mul => a.checked_mul(b),
                BinOp::Div => a.checked_div(b),
                BinOp::Rem => a.checked_rem(b),
                BinOp::BitAnd => Some(a & b),
                BinOp::BitOr => Some(a | b),
                BinOp::BitXor => Some(a ^ b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The expression with everything evaluated that can be; the result is a literal if all of it
/// could.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn fold(m: &ir::Module, e: &Expr) -> Expr {
    let f = |e: &Expr| fold(m, e);
    let kind = match &*e.kind {
        ExprKind::Unary(op, a) => unary(m, e.ty, *op, f(a)),
        ExprKind::Binary(op, a, b) => binary(m, *op, f(a), f(b)),
        ExprKind::Cast(a) => {
            let a = f(a);
            match &*a.kind {
                // An address: the IR has no other constant of it.
                ExprKind::Int(_) if matches!(m.types.get(e.ty.index()), Some(ir::Ty::Ip)) => ExprKind::Cast(a),
                ExprKind::Int(v) => ExprKind::Int(wrap(m, e.ty, signed(m, a.ty, *v) as u128)),
                ExprKind::Bytes(b) => ExprKind::Bytes(b.clone()),
                _ => ExprKind::Cast(a),
            }
        }
        ExprKind::If(c, a, b) if matches!((&*a.kind, &*b.kind), (ExprKind::Bool(true), ExprKind::Bool(false))) => {
            return f(c)
        }
        ExprKind::If(c, a, b) => match (&*f(c).kind, f(a), f(b)) {
            (ExprKind::Bool(true), a, _) => return a,
            (ExprKind::Bool(false), _, b) => return b,
            (_, a, b) if a == b => return a,
            (_, a, b) => ExprKind::If(f(c), a, b),
        },
        ExprKind::IsSome(a) => match &*f(a).kind {
            ExprKind::Some(_) => ExprKind::Bool(true),
            ExprKind::None => ExprKind::Bool(false),
            ExprKind::If(c, a, b) if is_option_literal(a) && is_option_literal(b) => {
                return f(&Expr::new(e.ty, ExprKind::If(c.clone(), some(e.ty, a), some(e.ty, b))))
            }
            _ => ExprKind::IsSome(f(a)),
        },
        ExprKind::Unwrap(a) => match *f(a).kind {
            ExprKind::Some(v) => return v,
            k => ExprKind::Unwrap(Expr::new(a.ty, k)),
        },
        ExprKind::Some(a) => ExprKind::Some(f(a)),
        ExprKind::Make(es) => ExprKind::Make(es.iter().map(f).collect()),
        ExprKind::MakeList(es) => ExprKind::MakeList(es.iter().map(f).collect()),
        ExprKind::Get(a, i) => match &*f(a).kind {
            ExprKind::Make(es) if es.get(*i as usize).is_some() => return es[*i as usize].clone(),
            _ => ExprKind::Get(f(a), *i),
        },
        ExprKind::InRanges(a, ranges) => match &*f(a).kind {
            ExprKind::Int(v) => {
                ExprKind::Bool(ranges.iter().any(|(l, h)| (u128::from(*l)..=u128::from(*h)).contains(v)))
            }
            _ => ExprKind::InRanges(f(a), ranges.clone()),
        },
        ExprKind::Builtin(b, args) => builtin(m, *b, args.iter().map(f).collect()),
        other => other.clone(),
    };
    Expr::new(e.ty, kind)
}

fn unary(m: &ir::Module, ty: ir::TyId, op: UnOp, a: Expr) -> ExprKind {
    match (op, &*a.kind) {
        (UnOp::Not, ExprKind::Bool(b)) => ExprKind::Bool(!b),
        (UnOp::Neg, ExprKind::Int(v)) => ExprKind::Int(wrap(m, ty, v.wrapping_neg())),
        (UnOp::BitNot, ExprKind::Int(v)) => ExprKind::Int(wrap(m, ty, !v)),
        _ => ExprKind::Unary(op, a),
    }
}

fn binary(m: &ir::Module, op: BinOp, a: Expr, b: Expr) -> ExprKind {
    match (op, &*a.kind, &*b.kind) {
        (BinOp::And, ExprKind::Bool(true), _) | (BinOp::Or, ExprKind::Bool(false), _) => *b.kind,
        (BinOp::And, _, ExprKind::Bool(true)) | (BinOp::Or, _, ExprKind::Bool(false)) => *a.kind,
        _ => ir::passes::fold::binary(&m.types, op, &a, &b).unwrap_or(ExprKind::Binary(op, a, b)),
    }
}

fn builtin(m: &ir::Module, b: Builtin, args: Vec<Expr>) -> ExprKind {
    match (ir::passes::fold::builtin(b, &args), b, args.as_slice()) {
        (Some(kind), ..) => kind,
        (None, Builtin::Min | Builtin::Max, [x, y]) => match (&*x.kind, &*y.kind) {
            (ExprKind::Int(p), ExprKind::Int(q)) => {
                let less = if width(m, x.ty).1 { signed(m, x.ty, *p) < signed(m, y.ty, *q) } else { p < q };
                ExprKind::Int(if less == (b == Builtin::Min) { *p } else { *q })
            }
            _ => ExprKind::Builtin(b, args),
        },
        _ => ExprKind::Builtin(b, args),
    }
}

fn is_option_literal(e: &Expr) -> bool {
    matches!(&*e.kind, ExprKind::Some(_) | ExprKind::None)
}

fn some(ty: ir::TyId, e: &Expr) -> Expr {
    Expr::new(ty, ExprKind::Bool(matches!(&*e.kind, ExprKind::Some(_))))
}
