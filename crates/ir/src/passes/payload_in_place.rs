//! The part of a new payload that stays where it is.
//!
//! In: acts that replace a payload. Out: `keep` of [`FrameAct::Payload`]. The new payload may be
//! made of a part of the old one. It is a slice of it, bytes before and behind it, a cipher over
//! it. Then a backend leaves that part in place and moves the headers. A check at run time finds
//! such a part, so a `let` may name it. Bytes from elsewhere are copied.

use crate::*;

pub fn run(m: &mut Module) {
    let mut plans = vec![];
    m.bodies(&mut |b| walk::stmts(&b.block, &mut |s| plans.extend(payload(&s.kind).map(|body| plan(m, body)))));
    let mut plans = plans.into_iter();
    m.bodies_mut(&mut |b| {
        walk::stmts_mut(&mut b.block, &mut |s| {
            if let StmtKind::Frame { act: FrameAct::Payload { keep, .. }, .. } = &mut s.kind {
                *keep = plans.next().flatten()
            }
        })
    })
}

fn payload(s: &StmtKind) -> Option<&Block> {
    if let StmtKind::Frame { act: FrameAct::Payload { body, .. }, .. } = s {
        Some(body)
    } else {
        None
    }
}

/// The part that may stay: the one that can be the longest.
fn plan(m: &Module, body: &Block) -> Option<u32> {
    let parts = parts(body)?;
    let may_stay = (0..parts.len()).filter(|n| may_stay(&parts[*n]));
    may_stay.max_by_key(|n| layout::bytes_in(m, parts[*n].ty)).map(|n| n as u32)
}

/// The parts of a new payload that is one expression: the operands of `concat`, or the expression.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn parts(body: &Block) -> Option<&[Expr]> {
    let [Stmt { kind: StmtKind::Emit(Emit::Bytes(e)), .. }] = body.as_slice() else { return None };
    let e = uncast(e);
    Some(match &*e.kind {
        ExprKind::Builtin(Builtin::Concat, parts) => parts.as_slice(),
        _ => std::slice::from_ref(e),
    })
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn may_stay(part: &Expr) -> bool {
    match &*uncast(part).kind {
        ExprKind::Payload(..) | ExprKind::Local(_) | ExprKind::Builtin(Builtin::Slice, _) => true,
        ExprKind::Builtin(b, _) => b.is_cipher(),
        _ => false,
    }
}

/// Another maximum of bytes is no other value.
pub fn uncast(e: &Expr) -> &Expr {
    if let ExprKind::Cast(inner) = &*e.kind {
        uncast(inner)
    } else {
        e
    }
}

/// Why a backend must not follow a plan; None: it may.
pub fn illegal(body: &Block, keep: u32) -> Option<&'static str> {
    let part = parts(body).and_then(|parts| parts.get(keep as usize));
    (!part.is_some_and(may_stay)).then_some("the part that it keeps is none of the old payload")
}
