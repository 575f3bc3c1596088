//! Checks that a built list ends where its condition (`until .field == x`, `fold`) says. In: the
//! items that are given. Out: whether it ends there. If the values do not say so at compile time,
//! the written message is read again.

use super::super::Lower;
use crate::body::built_message::{FieldSource, Fields, Piece};
use crate::compiler::{Reported, R};
use crate::ir_builder as build;
use crate::val::{OutKind, Outgoing, Validity, Vk};
use ir::{Emit, Expr as X, ExprKind as K, FieldId, FieldKind, ListExtent, Root, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

/// The conditions over the items of a list.
struct Fold<'a> {
    holds: Option<&'a X>,
    step: &'a X,
    done: &'a X,
}

impl Lower<'_, '_> {
    /// The list is at its end behind its last item, and not before.
    pub fn ends_there(&mut self, fields: &Fields, f: FieldId, extent: &ListExtent) -> R<()> {
        let ListExtent::Fold { init, holds, step, done } = extent else { return Ok(()) };
        // The list ends with the length around it, which is the unit's own.
        if counts_bytes(step) {
            return Ok(());
        }
        let items = match fields.get(f) {
            None => vec![],
            Some((_, FieldSource::Pieces(items), _)) => items.clone(),
            Some(_) => {
                self.unsure();
                return Ok(());
            }
        };
        let found = match self.ends_behind(fields, &items, init, &Fold { holds: holds.as_ref(), step, done })? {
            Some(true) => Validity::Sure,
            Some(false) => Validity::Never(self.field_ir(fields.unit, f).span),
            None => Validity::Unknown,
        };
        self.validity = self.validity.and(found);
        Ok(())
    }

    pub fn unsure(&mut self) {
        self.validity = self.validity.and(Validity::Unknown);
    }

    /// Whether the list ends behind these items, if their values say so at compile time.
    fn ends_behind(&mut self, fields: &Fields, items: &[Piece], init: &X, fold: &Fold) -> R<Option<bool>> {
        let Some(mut acc) = self.closed(fields, init)? else { return Ok(None) };
        for item in items {
            let more = [Some((fold.done, false)), fold.holds.map(|h| (h, true))];
            for (cond, wanted) in more.into_iter().flatten() {
                match self.with_item(fields, item, cond, &acc)?.as_ref().and_then(build::as_bool) {
                    Some(b) if b == wanted => {}
                    Some(_) => return Ok(Some(false)),
                    None => return Ok(None),
                }
            }
            match self.with_item(fields, item, fold.step, &acc)? {
                Some(next) => acc = next,
                None => return Ok(None),
            }
        }
        let mut done = fold.done.clone();
        put_acc(&mut done, &acc);
        Ok(self.closed(fields, &done)?.as_ref().and_then(build::as_bool))
    }

    /// A condition over the message, one item, and the accumulator.
    fn with_item(&mut self, fields: &Fields, item: &Piece, e: &X, acc: &X) -> R<Option<X>> {
        let mut e = e.clone();
        put_acc(&mut e, acc);
        let known = match item {
            Piece::Built(inner) => self.item_fields(inner, &mut e)?,
            Piece::Ready(v, _) => {
                let at = match &v.kind {
                    Vk::Path(at) => Some(at),
                    Vk::Pure(x) => build::raw_path(x),
                    Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => None,
                };
                let Some(at) = at.filter(|at| !self.is_list(at)) else { return Ok(None) };
                ir::walk::expr_mut(&mut e, &mut |x| {
                    let Some(p) = ir::walk::path_of_mut(x).filter(|p| p.root == Root::Item) else { return };
                    p.root = at.root;
                    p.steps.splice(0..0, at.steps.iter().cloned());
                });
                true
            }
        };
        if known {
            self.closed(fields, &e)
        } else {
            Ok(None)
        }
    }

    /// Whether a path leads to a list, not to one item.
    pub fn is_list(&self, at: &ir::Path) -> bool {
        matches!(self.field_at(at), Some(ir::Field { kind: FieldKind::List { .. }, .. }))
    }

    /// Replaces the fields of an item by its values. False if some of them are not known.
    fn item_fields(&mut self, item: &Fields, e: &mut X) -> R<bool> {
        let (mut known, mut failed) = (true, None);
        ir::walk::expr_mut(e, &mut |x| {
            let mut own = x.clone();
            let Some(p) = ir::walk::path_of_mut(&mut own).filter(|p| p.root == Root::Item) else { return };
            p.root = Root::This;
            match self.closed(item, &own) {
                Ok(Some(v)) => *x = v,
                Ok(None) => known = false,
                Err(r) => failed = Some(r),
            }
        });
        failed.map_or(Ok(known), Err)
    }

    /// The bytes of a built message. If parts of its grammar are not decided yet, it is read again
    /// behind its last byte.
    pub fn read_whole(&mut self, o: &Outgoing, span: Span) -> R<ir::Block> {
        let OutKind::Built(body) = &o.kind else { return Err(Reported) };
        match o.validity {
            Validity::Sure => Ok(body.clone()),
            Validity::Unknown => Ok(self.read_behind(o, body.clone(), 1, span)),
            Validity::Never(at) => Err(self.never_valid(at, span)),
        }
    }

    /// These bytes must be messages of a unit, at most so many.
    pub fn read_behind(&mut self, o: &Outgoing, body: ir::Block, max: u32, span: Span) -> ir::Block {
        let params = self.cx.units[o.unit.index()].params.len();
        // Where the parameters are not known, only the receiver can tell.
        if o.params.len() < params {
            return body;
        }
        let from = self.new_local("from", &crate::ty::U32);
        let (place, at) = (self.place_id(span), self.cx.span(span));
        let args = o.params[..params].iter().map(|l| self.local_expr(*l)).collect();
        let whole = Emit::Whole { unit: o.unit, args, from: self.local_expr(from), max, place };
        let mut all = vec![build::stmt(at, StmtKind::Emit(Emit::Mark(from)))];
        all.extend(body);
        all.push(build::stmt(at, StmtKind::Emit(whole)));
        all
    }
}

/// Whether a list counts the bytes of its items.
fn counts_bytes(step: &X) -> bool {
    let mut found = false;
    ir::walk::expr(step, &mut |e| {
        found |= matches!(&*e.kind, K::Raw(p) if p.root == Root::Item && p.steps.is_empty());
    });
    found
}

fn put_acc(e: &mut X, acc: &X) {
    ir::walk::expr_mut(e, &mut |e| {
        if matches!(*e.kind, K::Acc) {
            *e = acc.clone();
        }
    });
}
