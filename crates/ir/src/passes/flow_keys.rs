//! Parts of flow keys: expressions over a packet by which it can be steered.
//!
//! In: keys of tables as expressions. Out: their parts, the parts that two keys have in common, and
//! the values to be hashed.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and FieldKind")]

use super::header_facts::HeaderFacts;
use crate::*;

/// Part of a flow key, over local 0 of a handler of frames.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyPart {
    One(Expr),
    /// Both, in no order.
    Pair(Expr, Expr),
}

/// The frame at hand. While keys are looked for, `Root::This` is the frame as it was when a local
/// was set.
pub(super) const FRAME: Root = Root::Local(LocalId(0));

/// Tables that share a steering key beyond this many are not looked at together.
pub(super) const MOST_PARTS: usize = 64;

impl KeyPart {
    pub(super) fn exprs(&self) -> Vec<&Expr> {
        match self {
            KeyPart::One(e) => vec![e],
            KeyPart::Pair(a, b) => vec![a, b],
        }
    }

    pub(super) fn is_of_one_type(&self) -> bool {
        match self {
            KeyPart::One(_) => true,
            KeyPart::Pair(a, b) => a.ty == b.ty,
        }
    }

    pub(super) fn rooted(self, from: Root, to: Root) -> KeyPart {
        match self {
            KeyPart::One(e) => KeyPart::One(rooted(e, from, to)),
            KeyPart::Pair(a, b) => KeyPart::Pair(rooted(a, from, to), rooted(b, from, to)),
        }
    }

    /// The values to be hashed, zero where the headers they are read from are absent.
    pub(super) fn lowered(&self, m: &mut Module, unit: UnitId) -> Vec<Expr> {
        match self {
            KeyPart::One(e) => vec![guarded(m, unit, e.clone())],
            KeyPart::Pair(a, b) => {
                let (a, b) = (guarded(m, unit, a.clone()), guarded(m, unit, b.clone()));
                let boolean = m.intern(Ty::Bool);
                let wide = m.intern(Ty::UInt(128));
                let number =
                    |e: &Expr| if e.ty == wide { e.clone() } else { Expr::new(wide, ExprKind::Cast(e.clone())) };
                let less = Expr::new(boolean, ExprKind::Binary(BinOp::Lt, number(&a), number(&b)));
                let pick = |x: &Expr, y: &Expr| Expr::new(x.ty, ExprKind::If(less.clone(), x.clone(), y.clone()));
                vec![pick(&a, &b), pick(&b, &a)]
            }
        }
    }
}

pub(super) fn rooted(mut e: Expr, from: Root, to: Root) -> Expr {
    walk::expr_mut(&mut e, &mut |e| {
        if let ExprKind::Read(p) | ExprKind::Case(p, _) = &mut *e.kind {
            if p.root == from {
                p.root = to
            }
        }
    });
    e
}

/// The parts of a key: components of records and tuples; a pair ordered by comparison is unordered.
pub(super) fn split(e: &Expr, into: &mut Vec<Option<KeyPart>>) {
    match &*e.kind {
        ExprKind::Make(es) => es.iter().for_each(|e| split(e, into)),
        ExprKind::If(_, a, b) => match (&*a.kind, &*b.kind) {
            (ExprKind::Make(x), ExprKind::Make(y)) if x.len() == 2 && y.len() == 2 && x[0] == y[1] && x[1] == y[0] => {
                into.push(Some(KeyPart::Pair(x[0].clone(), x[1].clone())));
                into.push(None);
            }
            (ExprKind::Make(x), ExprKind::Make(y)) if x.len() == y.len() => {
                let ExprKind::If(c, ..) = &*e.kind else { return };
                for (a, b) in x.iter().zip(y) {
                    into.push(Some(KeyPart::One(Expr::new(a.ty, ExprKind::If(c.clone(), a.clone(), b.clone())))))
                }
            }
            _ => into.push(Some(KeyPart::One(e.clone()))),
        },
        _ => into.push(Some(KeyPart::One(e.clone()))),
    }
}

/// The more general of two expressions that are one value: a branch that was left out because its
/// condition was known counts as there.
fn same(a: &Expr, b: &Expr) -> Option<Expr> {
    if a == b {
        return Some(a.clone());
    }
    if a.ty != b.ty {
        return None;
    }
    match (&*a.kind, &*b.kind) {
        (ExprKind::If(c, x, y), ExprKind::If(d, p, q)) if c == d => {
            Some(Expr::new(a.ty, ExprKind::If(c.clone(), same(x, p)?, same(y, q)?)))
        }
        (ExprKind::If(c, x, y), _) if over_headers(c) => same(x, b).or_else(|| same(y, b)).map(|_| a.clone()),
        (_, ExprKind::If(c, x, y)) if over_headers(c) => same(a, x).or_else(|| same(a, y)).map(|_| b.clone()),
        (ExprKind::Cast(x), ExprKind::Cast(y)) => Some(Expr::new(a.ty, ExprKind::Cast(same(x, y)?))),
        _ => None,
    }
}

pub(super) fn over_headers(e: &Expr) -> bool {
    let mut ok = true;
    walk::expr(e, &mut |e| {
        ok &= matches!(
            &*e.kind,
            ExprKind::Case(..)
                | ExprKind::Unary(UnOp::Not, _)
                | ExprKind::Binary(BinOp::And | BinOp::Or, ..)
                | ExprKind::Bool(_)
        )
    });
    ok
}

pub(super) fn same_part(a: &KeyPart, b: &KeyPart) -> Option<KeyPart> {
    match (a, b) {
        (KeyPart::One(x), KeyPart::One(y)) => same(x, y).map(KeyPart::One),
        (KeyPart::Pair(a, b), KeyPart::Pair(x, y)) => match (same(a, x), same(b, y)) {
            (Some(a), Some(b)) => Some(KeyPart::Pair(a, b)),
            _ => Some(KeyPart::Pair(same(a, y)?, same(b, x)?)),
        },
        _ => None,
    }
}

/// The parts that both have.
pub(super) fn meet(a: &[KeyPart], b: &[KeyPart]) -> Vec<KeyPart> {
    a.iter().filter_map(|p| b.iter().find_map(|q| same_part(p, q))).collect()
}

/// The parts of a key that two others have in common.
pub(super) fn common(a: &[KeyPart], b: &[KeyPart]) -> Vec<KeyPart> {
    needed(meet(&halves(a), &halves(b)))
}

/// With each two parts of one type as a pair, too: what one key orders another may not.
fn halves(parts: &[KeyPart]) -> Vec<KeyPart> {
    let mut all = parts.to_vec();
    for (n, p) in parts.iter().enumerate() {
        for q in &parts[n + 1..] {
            if let (KeyPart::One(a), KeyPart::One(b)) = (p, q) {
                if a.ty == b.ty && all.len() < MOST_PARTS {
                    all.push(KeyPart::Pair(a.clone(), b.clone()))
                }
            }
        }
    }
    all
}

/// Pairs whose two halves are there by themselves say nothing more.
pub(super) fn needed(parts: Vec<KeyPart>) -> Vec<KeyPart> {
    let one = |e: &Expr| parts.iter().any(|p| matches!(p, KeyPart::One(x) if x == e));
    parts
        .iter()
        .filter(|p| match p {
            KeyPart::One(_) => true,
            KeyPart::Pair(a, b) => !(one(a) || one(b)),
        })
        .cloned()
        .collect()
}

/// Whether a part of a use is this one, where these headers are known.
pub(super) fn is_part(part: &KeyPart, of: &KeyPart, facts: &HeaderFacts) -> bool {
    let is = |a: &Expr, b: &Expr| facts.simplified(a) == facts.simplified(b);
    match (part, of) {
        (KeyPart::One(a), KeyPart::One(b)) => is(a, b),
        (KeyPart::Pair(a, b), KeyPart::Pair(x, y)) => is(a, x) && is(b, y) || is(a, y) && is(b, x),
        _ => false,
    }
}

// ---- where the headers are absent ----

/// When all headers are there that an expression reads; None: always.
fn needs(m: &Module, unit: UnitId, e: &Expr) -> Option<Expr> {
    let both = |a: Option<Expr>, b: Option<Expr>| match (a, b) {
        (Some(a), Some(b)) if a != b => Some(Expr::new(a.ty, ExprKind::Binary(BinOp::And, a, b))),
        (a, b) => a.or(b),
    };
    match &*e.kind {
        ExprKind::Read(p) => {
            let Some(Step::Field(h)) = p.steps.first() else { return None };
            let l = m.unit(unit).frame.as_ref()?.layers.iter().find(|l| l.header == *h)?;
            let boolean = m.find_type(&Ty::Bool)?;
            Some(Expr::new(boolean, ExprKind::Case(Path { root: p.root, steps: vec![Step::Field(l.switch)] }, 0)))
        }
        ExprKind::If(c, a, b) => {
            let (a, b) = (needs(m, unit, a).filter(|a| a != c), needs(m, unit, b));
            let (yes, no) =
                (Expr::new(c.ty, ExprKind::Bool(true)), |e: Option<Expr>, yes: &Expr| e.unwrap_or(yes.clone()));
            let branch = match (&a, &b) {
                (None, None) => None,
                _ => Some(Expr::new(c.ty, ExprKind::If(c.clone(), no(a, &yes), no(b, &yes)))),
            };
            both(needs(m, unit, c), branch)
        }
        _ => {
            let mut all = None;
            walk::children(e, &mut |e| all = both(all.take(), needs(m, unit, e)));
            all
        }
    }
}

pub(super) fn guarded(m: &mut Module, unit: UnitId, e: Expr) -> Expr {
    let Some(cond) = needs(m, unit, &e) else { return e };
    let zero = match m.ty(e.ty) {
        Ty::Ip => {
            let wide = m.intern(Ty::UInt(128));
            ExprKind::Cast(Expr::new(wide, ExprKind::Int(0)))
        }
        Ty::Bool => ExprKind::Bool(false),
        Ty::Unit
        | Ty::UInt(_)
        | Ty::Int(_)
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Record(_)
        | Ty::Tuple(_)
        | Ty::Msg(_) => ExprKind::Int(0),
    };
    Expr::new(e.ty, ExprKind::If(cond, e.clone(), Expr::new(e.ty, zero)))
}
