//! Tables with `per_core`: each core may keep entries of its own, and all others see the sums.
//!
//! Sums mean something only if traffic adds to entries, and neither sets nor removes them. In: a
//! lowered module. Out: the statements of traffic that do, which the compiler reports.

#![allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]

use crate::*;
use std::collections::BTreeSet;

/// Whether a value can be a sum of values: unsigned numbers of at most 64 bits, and records of
/// them.
pub fn is_sum(m: &Module, ty: TyId) -> bool {
    match m.ty(ty) {
        Ty::UInt(bits) => *bits <= 64,
        Ty::Record(r) => m.records[r.index()].fields.iter().all(|f| is_sum(m, f.1)),
        Ty::Tuple(ts) => ts.iter().all(|t| is_sum(m, *t)),
        Ty::Unit
        | Ty::Bool
        | Ty::Int(_)
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Ip
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Msg(_) => false,
    }
}

/// Bytes of the numbers of such a value, in the order of its canonical form.
pub fn numbers(m: &Module, ty: TyId) -> Vec<usize> {
    match m.ty(ty) {
        Ty::UInt(bits) => vec![(*bits as usize).div_ceil(8)],
        Ty::Record(r) => m.records[r.index()].fields.iter().flat_map(|f| numbers(m, f.1)).collect(),
        Ty::Tuple(ts) => ts.iter().flat_map(|t| numbers(m, *t)).collect(),
        Ty::Unit
        | Ty::Bool
        | Ty::Int(_)
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Ip
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Msg(_) => Vec::new(),
    }
}

/// A statement of traffic that does not add to an entry of such a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Misuse {
    pub table: TableId,
    pub span: Span,
    pub removes: bool,
}

/// The misuses of an app's tables, in the order of the program.
pub fn misuses(m: &Module) -> Vec<Misuse> {
    let (mut found, mut called) = (Vec::new(), BTreeSet::new());
    if !m.tables.iter().any(|t| t.per_core) {
        return found;
    }
    let is_traffic = |h: &&Handler| matches!(h.on, On::Frame { .. }) || h.on.is_of_connections();
    for h in m.handlers.iter().filter(is_traffic) {
        m.reached(&h.body.block, &mut |b| in_block(m, b, &mut called, &mut found));
    }
    found.sort_by_key(|f| (f.span.file, f.span.start));
    found.dedup();
    found
}

fn in_block(m: &Module, block: &[Stmt], called: &mut BTreeSet<FuncId>, found: &mut Vec<Misuse>) {
    walk::stmts(block, &mut |s| {
        let Some(stmt) = s.kind.table_stmt().filter(|t| m.tables[t.table().index()].per_core) else { return };
        let removes = match stmt {
            TableStmt::Update { entry, body, .. } if adds(*entry, body) => return,
            TableStmt::Get { .. } | TableStmt::Len { .. } | TableStmt::Next { .. } => return,
            TableStmt::Remove { .. } | TableStmt::Delete { .. } | TableStmt::Pop { .. } => true,
            TableStmt::Update { .. } | TableStmt::Put { .. } | TableStmt::Insert { .. } | TableStmt::Push { .. } => {
                false
            }
        };
        found.push(Misuse { table: stmt.table(), span: s.span, removes })
    });
    for f in walk::calls(block) {
        let Some(FuncBody::Body(b)) = m.funcs.get(f.index()).map(|f| &f.body) else { continue };
        if called.insert(f) {
            in_block(m, &b.block, called, found)
        }
    }
}

/// Whether all that a block does to an entry is adding to its numbers.
fn adds(entry: LocalId, body: &[Stmt]) -> bool {
    let mut all = Vec::new();
    collect(body, &mut all);
    // Sums that are computed before they are set, by the local that has them.
    let sums: Vec<(LocalId, &Expr)> = all.iter().filter_map(|s| set_local(s)).collect();
    all.iter().all(|s| match s {
        StmtKind::Set(l, e) if *l == entry => is_addition(entry, &[], e, &sums),
        StmtKind::SetField(l, path, e) if *l == entry => is_addition(entry, path, e, &sums),
        other => !walk::defined(other).contains(&Some(entry)),
    })
}

fn collect<'s>(block: &'s [Stmt], all: &mut Vec<&'s StmtKind>) {
    for s in block {
        all.push(&s.kind);
        walk::stmt_blocks(&s.kind, &mut |b| collect(b, all));
    }
}

fn set_local(s: &StmtKind) -> Option<(LocalId, &Expr)> {
    let StmtKind::Set(l, e) = s else { return None };
    Some((*l, e))
}

/// Whether an expression is the number at a path of an entry and something more.
fn is_addition(entry: LocalId, path: &[u32], e: &Expr, sums: &[(LocalId, &Expr)]) -> bool {
    let is_sum = |e: &Expr| match &*plain(e).kind {
        ExprKind::Binary(BinOp::Add, a, b) => is_at(entry, path, a) || is_at(entry, path, b),
        _ => false,
    };
    match &*plain(e).kind {
        ExprKind::Local(l) if *l != entry => {
            let mut of = sums.iter().filter(|s| s.0 == *l).peekable();
            of.peek().is_some() && of.all(|s| is_sum(s.1))
        }
        _ => is_sum(e),
    }
}

/// Whether an expression is the number at a path of an entry.
fn is_at(entry: LocalId, path: &[u32], e: &Expr) -> bool {
    match (&*plain(e).kind, path) {
        (ExprKind::Local(l), []) => *l == entry,
        (ExprKind::Get(of, n), [rest @ .., last]) => n == last && is_at(entry, rest, of),
        _ => false,
    }
}

/// An expression without what only cuts or extends it.
fn plain(e: &Expr) -> &Expr {
    match &*e.kind {
        ExprKind::Cast(inner) => plain(inner),
        _ => e,
    }
}
