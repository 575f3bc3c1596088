//! Short constructors of IR expressions. Expressions over constants are evaluated at once.

use crate::ty::{T_BOOL, T_U32, T_U64};
use wireloom_ir as ir;
use wireloom_ir::{BinOp, Builtin, Expr, ExprKind, LocalId, Path, Root, Step, Stmt, StmtKind, TyId, UnOp};

pub fn int(ty: TyId, v: u128) -> Expr {
    Expr::new(ty, ExprKind::Int(v))
}
pub fn u64(v: u64) -> Expr {
    int(T_U64, v.into())
}
pub fn u32(v: u32) -> Expr {
    int(T_U32, v.into())
}
pub fn boolean(b: bool) -> Expr {
    Expr::new(T_BOOL, ExprKind::Bool(b))
}
pub fn local(l: LocalId, ty: TyId) -> Expr {
    Expr::new(ty, ExprKind::Local(l))
}

pub fn as_bool(e: &Expr) -> Option<bool> {
    if let ExprKind::Bool(b) = *e.kind {
        Some(b)
    } else {
        None
    }
}

pub fn as_int(e: &Expr) -> Option<u128> {
    if let ExprKind::Int(v) = *e.kind {
        Some(v)
    } else {
        None
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn not(e: Expr) -> Expr {
    match &*e.kind {
        ExprKind::Bool(b) => boolean(!b),
        ExprKind::Unary(UnOp::Not, inner) => inner.clone(),
        _ => Expr::new(T_BOOL, ExprKind::Unary(UnOp::Not, e)),
    }
}

pub fn and(a: Expr, b: Expr) -> Expr {
    match (as_bool(&a), as_bool(&b)) {
        (Some(true), _) => b,
        (Some(false), _) | (_, Some(true)) => a,
        _ => bin(T_BOOL, BinOp::And, a, b),
    }
}

pub fn or(a: Expr, b: Expr) -> Expr {
    match (as_bool(&a), as_bool(&b)) {
        (Some(false), _) => b,
        (Some(true), _) | (_, Some(false)) => a,
        _ => bin(T_BOOL, BinOp::Or, a, b),
    }
}

/// Whether one of them holds, asked in order. Many are halved, so that the expression stays flat.
pub fn any(mut all: Vec<Expr>) -> Expr {
    if all.len() <= 16 {
        return all.into_iter().fold(boolean(false), or);
    }
    let right = all.split_off(all.len() / 2);
    or(any(all), any(right))
}

pub fn bin(ty: TyId, op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::new(ty, ExprKind::Binary(op, a, b))
}
pub fn cmp(op: BinOp, a: Expr, b: Expr) -> Expr {
    bin(T_BOOL, op, a, b)
}

pub fn cast(ty: TyId, e: Expr) -> Expr {
    if e.ty == ty {
        return e;
    }
    Expr::new(ty, ExprKind::Cast(e))
}

pub fn if_(ty: TyId, c: Expr, a: Expr, b: Expr) -> Expr {
    match as_bool(&c) {
        Some(true) => a,
        Some(false) => b,
        None if a == b => a,
        None if as_bool(&a) == Some(true) && as_bool(&b) == Some(false) => c,
        None => Expr::new(ty, ExprKind::If(c, a, b)),
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn is_some(e: Expr) -> Expr {
    match &*e.kind {
        ExprKind::Some(_) => boolean(true),
        ExprKind::None => boolean(false),
        _ => Expr::new(T_BOOL, ExprKind::IsSome(e)),
    }
}

pub fn unwrap(ty: TyId, e: Expr) -> Expr {
    if let ExprKind::Some(inner) = *e.kind {
        inner
    } else {
        Expr::new(ty, ExprKind::Unwrap(e))
    }
}

pub fn builtin(ty: TyId, b: Builtin, args: Vec<Expr>) -> Expr {
    Expr::new(ty, ExprKind::Builtin(b, args))
}
pub fn len_bytes(e: Expr) -> Expr {
    if let ExprKind::Bytes(b) = &*e.kind {
        return u64(b.len() as u64);
    }
    builtin(T_U64, Builtin::LenBytes, vec![e])
}
pub fn read(ty: TyId, p: Path) -> Expr {
    Expr::new(ty, ExprKind::Read(p))
}
pub fn case(p: Path, n: u32) -> Expr {
    Expr::new(T_BOOL, ExprKind::Case(p, n))
}
pub fn count(p: Path) -> Expr {
    Expr::new(T_U32, ExprKind::Count(p))
}

pub fn this() -> Path {
    Path { root: Root::This, steps: vec![] }
}
pub fn msg(l: LocalId) -> Path {
    Path { root: Root::Local(l), steps: vec![] }
}
pub fn step(p: &Path, s: Step) -> Path {
    let mut p = p.clone();
    p.steps.push(s);
    p
}

pub fn stmt(span: ir::Span, kind: StmtKind) -> Stmt {
    Stmt { span, kind }
}

/// The path of `raw(…)`, also of one that may be absent.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn raw_path(e: &ir::Expr) -> Option<&ir::Path> {
    match &*e.kind {
        ExprKind::Raw(p) => Some(p),
        ExprKind::If(_, a, _) => raw_path(a),
        _ => None,
    }
}
