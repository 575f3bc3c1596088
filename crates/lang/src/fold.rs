//! Evaluates constant IR expressions: constants, widths, lengths, options, and whatever is known at compile time.

use wireloom_ir as ir;
use ir::{BinOp, Builtin, Expr, ExprKind, Ty, UnOp};

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
    if bits >= 128 { v } else { v & ((1 << bits) - 1) }
}

/// The signed meaning of a value of that type.
pub fn signed(m: &ir::Module, ty: ir::TyId, v: u128) -> i128 {
    let (bits, signed) = width(m, ty);
    if signed && bits < 128 && v >> (bits - 1) & 1 == 1 { (v | !((1u128 << bits) - 1)) as i128 } else { v as i128 }
}

/// The expression with everything evaluated that can be; the result is a literal if all of it could.
pub fn fold(m: &ir::Module, e: &Expr) -> Expr {
    let f = |e: &Expr| fold(m, e);
    let kind = match &*e.kind {
        ExprKind::Unary(op, a) => unary(m, e.ty, *op, f(a)),
        ExprKind::Binary(op, a, b) => binary(m, e.ty, *op, f(a), f(b)),
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
        ExprKind::If(c, a, b) if matches!((&*a.kind, &*b.kind), (ExprKind::Bool(true), ExprKind::Bool(false))) => return f(c),
        ExprKind::If(c, a, b) => match (&*f(c).kind, f(a), f(b)) {
            (ExprKind::Bool(true), a, _) => return a,
            (ExprKind::Bool(false), _, b) => return b,
            (_, a, b) => ExprKind::If(f(c), a, b),
        },
        ExprKind::IsSome(a) => match &*f(a).kind {
            ExprKind::Some(_) => ExprKind::Bool(true),
            ExprKind::None => ExprKind::Bool(false),
            ExprKind::If(c, a, b) if is_option_literal(a) && is_option_literal(b) => return f(&Expr::new(e.ty, ExprKind::If(c.clone(), some(e.ty, a), some(e.ty, b)))),
            _ => ExprKind::IsSome(f(a)),
        },
        ExprKind::Unwrap(a) => match *f(a).kind { ExprKind::Some(v) => return v, k => ExprKind::Unwrap(Expr::new(a.ty, k)) },
        ExprKind::Some(a) => ExprKind::Some(f(a)),
        ExprKind::Make(es) => ExprKind::Make(es.iter().map(f).collect()),
        ExprKind::MakeList(es) => ExprKind::MakeList(es.iter().map(f).collect()),
        ExprKind::Get(a, i) => match &*f(a).kind {
            ExprKind::Make(es) if es.get(*i as usize).is_some() => return es[*i as usize].clone(),
            _ => ExprKind::Get(f(a), *i),
        },
        ExprKind::InRanges(a, ranges) => match &*f(a).kind {
            ExprKind::Int(v) => ExprKind::Bool(ranges.iter().any(|(l, h)| (u128::from(*l)..=u128::from(*h)).contains(v))),
            _ => ExprKind::InRanges(f(a), ranges.clone()),
        },
        ExprKind::Builtin(b, args) => builtin(*b, args.iter().map(f).collect()),
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

fn binary(m: &ir::Module, ty: ir::TyId, op: BinOp, a: Expr, b: Expr) -> ExprKind {
    match (&*a.kind, &*b.kind) {
        (ExprKind::Int(x), ExprKind::Int(y)) => ints(m, ty, op, a.ty, *x, *y).unwrap_or(ExprKind::Binary(op, a, b)),
        (ExprKind::Bool(true), _) if op == BinOp::And => *b.kind,
        (ExprKind::Bool(false), _) if op == BinOp::And => ExprKind::Bool(false),
        (_, ExprKind::Bool(false)) if op == BinOp::And => ExprKind::Bool(false),
        (_, ExprKind::Bool(true)) if op == BinOp::And => *a.kind,
        (ExprKind::Bool(false), _) if op == BinOp::Or => *b.kind,
        (ExprKind::Bool(true), _) if op == BinOp::Or => ExprKind::Bool(true),
        (_, ExprKind::Bool(true)) if op == BinOp::Or => ExprKind::Bool(true),
        (_, ExprKind::Bool(false)) if op == BinOp::Or => *a.kind,
        (ExprKind::Bool(x), ExprKind::Bool(y)) => ExprKind::Bool(match op {
            BinOp::And => *x && *y,
            BinOp::Or => *x || *y,
            BinOp::Eq => x == y,
            BinOp::Ne => x != y,
            _ => return ExprKind::Binary(op, a, b),
        }),
        (ExprKind::Bytes(x), ExprKind::Bytes(y)) => ExprKind::Bool(match op {
            BinOp::Eq => x == y,
            BinOp::Ne => x != y,
            BinOp::Lt => x < y,
            BinOp::Le => x <= y,
            BinOp::Gt => x > y,
            BinOp::Ge => x >= y,
            BinOp::EqCase => x.eq_ignore_ascii_case(y),
            _ => return ExprKind::Binary(op, a, b),
        }),
        _ => ExprKind::Binary(op, a, b),
    }
}

fn ints(m: &ir::Module, ty: ir::TyId, op: BinOp, operand: ir::TyId, x: u128, y: u128) -> Option<ExprKind> {
    let (bits, neg) = width(m, operand);
    let (sx, sy) = (signed(m, operand, x), signed(m, operand, y));
    let max = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
    let order = if neg { sx.cmp(&sy) } else { x.cmp(&y) };
    let v = match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div if neg => sx.checked_div(sy)? as u128,
        BinOp::Rem if neg => sx.checked_rem(sy)? as u128,
        BinOp::Div => x.checked_div(y)?,
        BinOp::Rem => x.checked_rem(y)?,
        BinOp::AddSat if !neg => x.saturating_add(y).min(max),
        BinOp::SubSat if !neg => x.saturating_sub(y),
        BinOp::BitAnd => x & y,
        BinOp::BitOr => x | y,
        BinOp::BitXor => x ^ y,
        BinOp::Shl if y < u128::from(bits) => x << y,
        BinOp::Shr if y < u128::from(bits) => if neg { (sx >> y) as u128 } else { x >> y },
        BinOp::Shl | BinOp::Shr => 0,
        BinOp::Eq => return Some(ExprKind::Bool(order.is_eq())),
        BinOp::Ne => return Some(ExprKind::Bool(order.is_ne())),
        BinOp::Lt => return Some(ExprKind::Bool(order.is_lt())),
        BinOp::Le => return Some(ExprKind::Bool(order.is_le())),
        BinOp::Gt => return Some(ExprKind::Bool(order.is_gt())),
        BinOp::Ge => return Some(ExprKind::Bool(order.is_ge())),
        _ => return None,
    };
    Some(ExprKind::Int(wrap(m, ty, v)))
}

fn builtin(b: Builtin, args: Vec<Expr>) -> ExprKind {
    let bytes: Option<Vec<&Vec<u8>>> = args.iter().map(|a| match &*a.kind { ExprKind::Bytes(b) => Some(b), _ => None }).collect();
    let done = bytes.and_then(|bs| match (b, bs.as_slice()) {
        (Builtin::LenBytes, [x]) => Some(ExprKind::Int(x.len() as u128)),
        (Builtin::Lower, [x]) => Some(ExprKind::Bytes(x.to_ascii_lowercase())),
        (Builtin::Upper, [x]) => Some(ExprKind::Bytes(x.to_ascii_uppercase())),
        (Builtin::Concat, xs) => Some(ExprKind::Bytes(xs.iter().flat_map(|x| x.iter().copied()).collect())),
        (Builtin::StartsWith, [x, y]) => Some(ExprKind::Bool(x.starts_with(y))),
        (Builtin::EndsWith, [x, y]) => Some(ExprKind::Bool(x.ends_with(y))),
        (Builtin::AllIn, [x, set]) => wireloom_ir::ByteSet::of_bits(set).map(|set| ExprKind::Bool(x.iter().all(|b| set.has(*b)))),
        _ => None,
    });
    match (done, b, args.as_slice()) {
        (Some(kind), ..) => kind,
        (None, Builtin::TextU64, [a]) => match &*a.kind {
            ExprKind::Int(v) => ExprKind::Bytes(v.to_string().into_bytes()),
            _ => ExprKind::Builtin(b, args),
        },
        (None, Builtin::Min | Builtin::Max, [x, y]) => match (&*x.kind, &*y.kind) {
            (ExprKind::Int(p), ExprKind::Int(q)) => ExprKind::Int(if b == Builtin::Min { *p.min(q) } else { *p.max(q) }),
            _ => ExprKind::Builtin(b, args),
        },
        _ => ExprKind::Builtin(b, args),
    }
}

fn is_option_literal(e: &Expr) -> bool { matches!(&*e.kind, ExprKind::Some(_) | ExprKind::None) }

fn some(ty: ir::TyId, e: &Expr) -> Expr { Expr::new(ty, ExprKind::Bool(matches!(&*e.kind, ExprKind::Some(_)))) }
