//! Checks the number of items in a built list: it must match its count and the unit's maximum. In:
//! the given fields. Out: nothing if that is certain, E0433 if it is certainly not so, else a
//! guard.

use super::super::unparse_check::constraints::same_sum;
use super::super::Lower;
use crate::body::built_message::{FieldSource, Fields, Piece};
use crate::body::destination::Joined;
use crate::body::wrong_value::Wrong;
use crate::compiler::R;
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::{Val, Vk};
use ir::{BinOp, FaultKind, FieldId, FieldKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Span, StmtKind};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    /// A count of a list that is given, or computed from given values, must be that of the items.
    pub fn count_agrees(&mut self, fields: &Fields, f: FieldId, extent: &ir::ListExtent, span: Span) -> R<()> {
        let ir::ListExtent::Count(n) = extent else { return Ok(()) };
        let unit = &self.cx.m.units[fields.unit.index()];
        // A count that was left out follows from the items.
        if unit.body.iter().any(|c| {
            super::super::emit::reads(n, *c) && (fields.get(*c).is_none() || unit.fields[c.index()].computed.is_some())
        }) {
            return Ok(());
        }
        let items = match fields.get(f).cloned() {
            None => build::u64(0),
            // Counted when it is read again.
            Some((_, FieldSource::Pieces(ps), _)) if self.loose_items(&ps).is_some() => return Ok(()),
            Some((_, FieldSource::Pieces(ps), _)) => self.pieces_count(&ps),
            Some((_, FieldSource::Source(e), _)) => self.item_count(&e)?,
            // Counted where it is written.
            Some((_, FieldSource::InOrder(_), _)) => return Ok(()),
            Some((_, FieldSource::Slices(_) | FieldSource::Value(_), _)) => {
                self.unsure();
                return Ok(());
            }
        };
        let Some(n) = self.closed(fields, n)? else {
            self.unsure();
            return Ok(());
        };
        let ok = if same_sum(&self.cx.m, &items, &n) {
            build::boolean(true)
        } else {
            crate::fold::fold(&self.cx.m, &build::cmp(BinOp::Eq, items, n))
        };
        self.valid_because(ok, FaultKind::CONSTRAINT, span, Wrong::Items("its count says otherwise"))
    }

    /// No more items than the list may have.
    pub fn not_too_many(&mut self, fields: &Fields, f: FieldId, span: Span) -> R<()> {
        let FieldKind::List { max, .. } = self.field_ir(fields.unit, f).kind else { return Ok(()) };
        let items = match fields.get(f).cloned() {
            Some((_, FieldSource::Pieces(ps), _)) if self.loose_items(&ps).is_some() => return Ok(()),
            Some((_, FieldSource::Pieces(ps), _)) => self.pieces_count(&ps),
            Some((_, FieldSource::Source(e), _)) if self.items_max(&e)? > u64::from(max) => self.item_count(&e)?,
            _ => return Ok(()),
        };
        let ok = crate::fold::fold(&self.cx.m, &build::cmp(BinOp::Le, items, build::u64(max.into())));
        self.valid_because(ok, FaultKind::TOO_LONG, span, Wrong::Items(&format!("the list has at most {max} items")))
    }

    /// Bytes that `join` has put together of anything: whether they are items is seen when they are
    /// read again.
    pub fn loose_items(&self, pieces: &[Piece]) -> Option<ir::Expr> {
        let [Piece::Ready(v, _)] = pieces else { return None };
        self.joined_run(v).filter(|j| j.unit.is_none())?;
        v.kind.as_pure().cloned()
    }

    /// The number of items of a list by its given values.
    pub fn count_given(&mut self, fields: &Fields, n: &ir::Expr, span: Span) -> R<ir::Expr> {
        let unit = &self.cx.m.units[fields.unit.index()];
        let left_out = unit.body.iter().any(|c| super::super::emit::reads(n, *c) && fields.get(*c).is_none());
        match self.closed(fields, n)?.filter(|_| !left_out) {
            Some(n) => Ok(self.recast(crate::compiler::T_U64, n)),
            None => Err(self.cx.report(
                Diagnostic::error("E0428", span, "the count of these items is not known here")
                    .hint("give the field that holds the count"),
            )),
        }
    }

    /// The number of items in the pieces of a list: the result of `join` counts as many as its
    /// input.
    pub fn pieces_count(&self, pieces: &[Piece]) -> ir::Expr {
        let mut n = build::u64(0);
        for p in pieces {
            let (joined, list) = match p {
                Piece::Ready(v, _) => {
                    let list = v.kind.as_pure().and_then(build::raw_path).filter(|at| self.is_list(at));
                    (self.joined_run(v).map(|j| (j.count.clone(), j.each)), list)
                }
                Piece::Built(_) => (None, None),
            };
            let of = match (joined, list) {
                (Some((count, each)), _) => build::bin(n.ty, BinOp::Mul, build::cast(n.ty, count), build::u64(each)),
                (None, Some(list)) => build::cast(n.ty, build::count(list.clone())),
                (None, None) => build::u64(1),
            };
            n = build::bin(n.ty, BinOp::Add, n, of);
        }
        crate::fold::fold(&self.cx.m, &n)
    }

    /// The items of one unit that a value was joined of.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn joined_run(&self, v: &Val) -> Option<&Joined> {
        let Vk::Pure(e) = &v.kind else { return None };
        match &*e.kind {
            ir::ExprKind::Local(l) => self.joined.get(l),
            _ => None,
        }
    }

    /// The most items that an expression may give.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn items_max(&mut self, e: &Expr) -> R<u64> {
        Ok(match &*e.kind {
            ExprKind::List(es) => es.len() as u64,
            ExprKind::Comprehension { list, .. } => self.items_max(list)?,
            ExprKind::If(_, then, Some(other)) => match then.stmts.as_slice() {
                [wireloom_syntax::ast::Stmt { kind: StmtKind::Expr(a), .. }] => {
                    self.items_max(a)?.max(self.items_max(other)?)
                }
                _ => u64::MAX,
            },
            ExprKind::Block(b) => match b.stmts.as_slice() {
                [wireloom_syntax::ast::Stmt { kind: StmtKind::Expr(a), .. }] => self.items_max(a)?,
                _ => u64::MAX,
            },
            ExprKind::Call(_, args) if self.words_of(e).is_some() => {
                match self.sub(|s| s.expr(&args[0].value, None)).0?.ty {
                    Ty::Bytes(n) => n.saturating_add(1) / 2,
                    _ => u64::MAX,
                }
            }
            // A range, say, has as many as are counted.
            ExprKind::Range(..) => u64::MAX,
            // Only its type is asked for.
            _ => {
                let v = self.sub(|s| s.expr(e, None)).0?;
                let list = v.kind.as_pure().and_then(build::raw_path).and_then(|p| self.field_at(p));
                match (v.ty, list.map(|f| f.kind)) {
                    (Ty::Items(_, n) | Ty::List(_, n), _) => n.into(),
                    // Bytes of a list that was parsed.
                    (_, Some(ir::FieldKind::List { max, .. })) => max.into(),
                    _ => 0,
                }
            }
        })
    }
}
