//! Constant folding, of expressions everywhere and of statements in bodies.
//!
//! Expressions are pure, so any may be dropped. Statements: `require true` is dropped, and
//! `require false` becomes its fault. A branch on a constant becomes the taken branch. Statements
//! behind one that leaves are dropped. Grammar switches keep their cases, since the program names
//! cases by number.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of BinOp and ExprKind")]

use crate::*;

pub fn run(m: &mut Module) {
    let types = std::mem::take(&mut m.types);
    let mut fold = |e: &mut Expr| expr(&types, e);
    for unit in &mut m.units {
        for field in &mut unit.fields {
            walk::field_exprs_mut(field, &mut |e, _| walk::expr_mut(e, &mut fold))
        }
    }
    for p in &mut m.protocols {
        let clauses = [
            &mut p.close_request,
            &mut p.no_reply,
            &mut p.alone,
            &mut p.repeat,
            &mut p.private_request,
            &mut p.close_response,
            &mut p.interim,
            &mut p.tunnel,
            &mut p.refusal,
            &mut p.idle,
            &mut p.reset,
            &mut p.owes,
            &mut p.unfinished,
            &mut p.settles,
            &mut p.stray,
            &mut p.private_response,
            &mut p.chunks_request,
            &mut p.chunks_response,
        ];
        let expects = p.expects.as_mut().map(|(_, e)| e);
        for e in clauses.into_iter().flatten().chain(expects).chain(&mut p.response_args).chain(&mut p.request_args) {
            walk::expr_mut(e, &mut fold)
        }
    }
    for e in m.states.iter_mut().filter_map(|s| s.init.as_mut()) {
        walk::expr_mut(e, &mut fold)
    }
    for v in m.merges.iter_mut().flat_map(|g| &mut g.values) {
        walk::expr_mut(&mut v.combined, &mut fold)
    }
    m.bodies_mut(&mut |body| {
        walk::block_exprs_mut(&mut body.block, &mut |e| expr(&types, e));
        block(&mut body.block);
    });
    m.types = types;
}

/// Width and signedness of an integer type.
fn int_type(types: &[Ty], ty: TyId) -> Option<(u32, bool)> {
    match types.get(ty.index())? {
        Ty::UInt(bits) => Some((*bits as u32, false)),
        Ty::Int(bits) => Some((*bits as u32, true)),
        Ty::Unit
        | Ty::Bool
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Ip
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Record(_)
        | Ty::Tuple(_)
        | Ty::Msg(_) => None,
    }
}

/// The low `bits` bits.
pub fn wrap(value: u128, bits: u32) -> u128 {
    if bits >= 128 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

/// The value of an integer's bit pattern.
pub fn signed(value: u128, bits: u32) -> i128 {
    let up = 128 - bits.clamp(1, 128);
    ((value << up) as i128) >> up
}

fn int(e: &Expr) -> Option<u128> {
    if let ExprKind::Int(n) = *e.kind {
        Some(n)
    } else {
        None
    }
}
fn boolean(e: &Expr) -> Option<bool> {
    if let ExprKind::Bool(b) = *e.kind {
        Some(b)
    } else {
        None
    }
}
fn bytes(e: &Expr) -> Option<&[u8]> {
    if let ExprKind::Bytes(b) = &*e.kind {
        Some(b)
    } else {
        None
    }
}

/// Folds one expression whose operands are folded.
pub(super) fn expr(types: &[Ty], e: &mut Expr) {
    if let Some(kind) = folded(types, e) {
        *e.kind = kind
    } else if let Some(same) = operand(e) {
        *e = same
    }
}

/// A constant that the expression equals.
fn folded(types: &[Ty], e: &Expr) -> Option<ExprKind> {
    use ExprKind as K;
    let bits = int_type(types, e.ty).map(|(bits, _)| bits);
    let kind = match &*e.kind {
        K::Unary(UnOp::Not, a) => K::Bool(!boolean(a)?),
        K::Unary(UnOp::Neg, a) => K::Int(int(a)?.wrapping_neg()),
        K::Unary(UnOp::BitNot, a) => K::Int(!int(a)?),
        K::Binary(op, a, b) => binary(types, *op, a, b)?,
        K::Cast(a) if bits.is_some() => match int_type(types, a.ty) {
            Some((from, true)) => K::Int(signed(int(a)?, from) as u128),
            Some(_) => K::Int(int(a)?),
            None => return None,
        },
        K::InRanges(a, ranges) => {
            let n = int(a)?;
            K::Bool(ranges.iter().any(|(from, to)| (*from as u128..=*to as u128).contains(&n)))
        }
        K::IsSome(a) => match *a.kind {
            K::Some(_) => K::Bool(true),
            K::None => K::Bool(false),
            _ => return None,
        },
        K::ListLen(a) => {
            if let K::MakeList(items) = &*a.kind {
                K::Int(items.len() as u128)
            } else {
                return None;
            }
        }
        K::Builtin(f, args) => builtin(*f, args)?,
        _ => return None,
    };
    Some(match (kind, bits) {
        (K::Int(n), Some(bits)) => K::Int(wrap(n, bits)),
        (kind, _) => kind,
    })
}

/// An operand that the expression equals.
fn operand(e: &mut Expr) -> Option<Expr> {
    let ty = e.ty;
    let same = match &*e.kind {
        ExprKind::If(c, a, b) => Some(if boolean(c)? { a } else { b }),
        ExprKind::Binary(BinOp::And, a, b) => match (boolean(a), boolean(b)) {
            (Some(true), _) => Some(b),
            (_, Some(true)) => Some(a),
            _ => None,
        },
        ExprKind::Binary(BinOp::Or, a, b) => match (boolean(a), boolean(b)) {
            (Some(false), _) => Some(b),
            (_, Some(false)) => Some(a),
            _ => None,
        },
        ExprKind::Unwrap(a) => {
            if let ExprKind::Some(inner) = &*a.kind {
                Some(inner)
            } else {
                None
            }
        }
        ExprKind::Get(a, n) => {
            if let ExprKind::Make(items) = &*a.kind {
                items.get(*n as usize)
            } else {
                None
            }
        }
        ExprKind::Cast(a) => Some(a),
        _ => None,
    }?;
    // A type that differs (a bytes' maximum) must stay visible.
    (same.ty == ty).then(|| same.clone())
}

/// Of two constants; also of one where it decides.
pub fn binary(types: &[Ty], op: BinOp, a: &Expr, b: &Expr) -> Option<ExprKind> {
    use BinOp::*;
    match (op, boolean(a), boolean(b)) {
        (And, Some(false), _) | (And, _, Some(false)) => return Some(ExprKind::Bool(false)),
        (Or, Some(true), _) | (Or, _, Some(true)) => return Some(ExprKind::Bool(true)),
        (Eq, Some(x), Some(y)) => return Some(ExprKind::Bool(x == y)),
        (Ne, Some(x), Some(y)) => return Some(ExprKind::Bool(x != y)),
        _ => {}
    }
    if let (Some(x), Some(y)) = (bytes(a), bytes(b)) {
        return Some(ExprKind::Bool(match op {
            Eq => x == y,
            Ne => x != y,
            Lt => x < y,
            Le => x <= y,
            Gt => x > y,
            Ge => x >= y,
            EqCase => x.eq_ignore_ascii_case(y),
            _ => return None,
        }));
    }
    let (x, y) = (int(a)?, int(b)?);
    let (bits, is_signed) = int_type(types, a.ty)?;
    let compare = || if is_signed { signed(x, bits).cmp(&signed(y, bits)) } else { x.cmp(&y) };
    let value = match op {
        Eq => return Some(ExprKind::Bool(x == y)),
        Ne => return Some(ExprKind::Bool(x != y)),
        Lt => return Some(ExprKind::Bool(compare().is_lt())),
        Le => return Some(ExprKind::Bool(compare().is_le())),
        Gt => return Some(ExprKind::Bool(compare().is_gt())),
        Ge => return Some(ExprKind::Bool(compare().is_ge())),
        Add => x.wrapping_add(y),
        Sub => x.wrapping_sub(y),
        Mul => x.wrapping_mul(y),
        Div | Rem if y == 0 => return None,
        Div => {
            if is_signed {
                signed(x, bits).wrapping_div(signed(y, bits)) as u128
            } else {
                x / y
            }
        }
        Rem => {
            if is_signed {
                signed(x, bits).wrapping_rem(signed(y, bits)) as u128
            } else {
                x % y
            }
        }
        AddSat | SubSat => saturate(op == AddSat, x, y, bits, is_signed),
        BitAnd => x & y,
        BitOr => x | y,
        BitXor => x ^ y,
        Shl => {
            if y >= bits as u128 {
                0
            } else {
                x << y
            }
        }
        Shr if y >= bits as u128 => 0,
        Shr if is_signed => (signed(x, bits) >> y) as u128,
        Shr => x >> y,
        And | Or | EqCase => return None,
    };
    Some(ExprKind::Int(wrap(value, bits)))
}

fn saturate(add: bool, x: u128, y: u128, bits: u32, is_signed: bool) -> u128 {
    if is_signed {
        let (a, b) = (signed(x, bits), signed(y, bits));
        let exact = if add { a.saturating_add(b) } else { a.saturating_sub(b) };
        let top = i128::MAX >> (128 - bits.clamp(1, 128));
        return exact.clamp(-top - 1, top) as u128;
    }
    let top = wrap(u128::MAX, bits);
    if add {
        x.saturating_add(y).min(top)
    } else {
        x.saturating_sub(y)
    }
}

/// Of constants.
pub fn builtin(f: crate::Builtin, args: &[Expr]) -> Option<ExprKind> {
    use crate::Builtin as B;
    let first = bytes(args.first()?);
    let second = || bytes(args.get(1)?);
    Some(match f {
        B::LenBytes => ExprKind::Int(first?.len() as u128),
        B::Lower => ExprKind::Bytes(first?.to_ascii_lowercase()),
        B::Upper => ExprKind::Bytes(first?.to_ascii_uppercase()),
        B::StartsWith => ExprKind::Bool(first?.starts_with(second()?)),
        B::EndsWith => ExprKind::Bool(first?.ends_with(second()?)),
        B::AllIn => {
            let set = ByteSet::of_bits(second()?)?;
            ExprKind::Bool(first?.iter().all(|b| set.has(*b)))
        }
        B::Trim => {
            let set = ByteSet::of_bits(second()?)?;
            let b = first?;
            let from = b.iter().position(|b| !set.has(*b)).unwrap_or(b.len());
            let to = b.iter().rposition(|b| !set.has(*b)).map_or(from, |n| n + 1);
            ExprKind::Bytes(b[from..to].to_vec())
        }
        B::Slice => {
            let (b, place) =
                (first?, |n: usize| args.get(n).and_then(int).map(|n| usize::try_from(n).unwrap_or(usize::MAX)));
            let (from, to) = (place(1)?.min(b.len()), place(2)?.min(b.len()));
            ExprKind::Bytes(b[from.min(to)..to].to_vec())
        }
        B::TextU64 => ExprKind::Bytes(int(args.first()?)?.to_string().into_bytes()),
        B::Concat => ExprKind::Bytes(args.iter().map(bytes).collect::<Option<Vec<_>>>()?.concat()),
        _ => return None,
    })
}

/// Folds a block; its expressions are folded.
fn block(b: &mut Block) {
    let mut out: Block = Vec::with_capacity(b.len());
    for mut s in b.drain(..) {
        walk::stmt_blocks_mut(&mut s.kind, &mut block);
        let leaves = match simplify(s) {
            Simple::Keep(s) => {
                let leaves = leaves(&s.kind);
                out.push(s);
                leaves
            }
            Simple::Inline(inner) => {
                let leaves = inner.last().is_some_and(|s| leaves(&s.kind));
                out.extend(inner);
                leaves
            }
        };
        if leaves {
            break;
        }
    }
    *b = out;
}

/// Whether what follows in the block is never reached.
fn leaves(s: &StmtKind) -> bool {
    let block_leaves = |b: &Block| b.last().is_some_and(|s| leaves(&s.kind));
    match s {
        StmtKind::Return(_) | StmtKind::Fault { .. } | StmtKind::Break | StmtKind::Continue => true,
        StmtKind::If { then, other, .. } => block_leaves(then) && block_leaves(other),
        StmtKind::Switch { cases, default, .. } => block_leaves(default) && cases.iter().all(|(_, b)| block_leaves(b)),
        _ => false,
    }
}

enum Simple {
    Keep(Stmt),
    Inline(Block),
}

fn simplify(mut s: Stmt) -> Simple {
    if let Some(msg) = walk::outgoing_mut(&mut s.kind) {
        message(msg)
    }
    match s.kind {
        StmtKind::Require { ref cond, kind, place } => match boolean(cond) {
            Some(true) => Simple::Inline(Vec::new()),
            Some(false) => {
                s.kind = StmtKind::Fault { kind, place };
                Simple::Keep(s)
            }
            None => Simple::Keep(s),
        },
        StmtKind::If { cond, then, other } => match boolean(&cond) {
            Some(taken) => Simple::Inline(if taken { then } else { other }),
            None if then.is_empty() && other.is_empty() => Simple::Inline(Vec::new()),
            None => Simple::Keep(Stmt { span: s.span, kind: StmtKind::If { cond, then, other } }),
        },
        StmtKind::Switch { on, cases, default } => match int(&on) {
            Some(n) => {
                let case = cases.into_iter().find(|(values, _)| values.iter().any(|v| *v as u128 == n));
                Simple::Inline(case.map_or(default, |(_, b)| b))
            }
            None => Simple::Keep(Stmt { span: s.span, kind: StmtKind::Switch { on, cases, default } }),
        },
        StmtKind::For { ref from, ref to, .. } if int(from).zip(int(to)).is_some_and(|(a, b)| a >= b) => {
            Simple::Inline(Vec::new())
        }
        StmtKind::For { ref body, .. } | StmtKind::Loop { ref body, .. } if body.is_empty() => {
            Simple::Inline(Vec::new())
        }
        _ => Simple::Keep(s),
    }
}

/// Drops edits that are never made and conditions that always hold.
fn message(msg: &mut Outgoing) {
    let Outgoing::Pass { edits, .. } = msg else { return };
    edits.retain_mut(|e| match e {
        Edit::Set { cond, .. } | Edit::Append { cond, .. } => {
            let value = cond.as_ref().and_then(boolean);
            if value == Some(true) {
                *cond = None
            }
            value != Some(false)
        }
        Edit::Remove { cond, .. } => boolean(cond) != Some(false),
    });
}
