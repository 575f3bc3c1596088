//! `= len(key) + len(value)`: lengths that are filled in when a message is built, and checked where
//! no other rule checks them.

use super::fields::Builder;
use crate::compiler::{Reported, R, T_U64};
use crate::ir_builder as build;
use crate::ty::Ty;
use ir::{BinOp, Computed, ExprKind, FaultKind, FieldId, FieldKind};
use wireloom_ir as ir;
use wireloom_syntax::ast;
use wireloom_syntax::ast::Expr;
use wireloom_syntax::Diagnostic;

impl Builder<'_, '_> {
    pub fn finish_computed(&mut self) {
        for (field, e) in std::mem::take(&mut self.computed) {
            if self.default(field, &e) || self.counts(field, &e) {
                continue;
            }
            let mut sum = Computed { lengths: vec![], plus: 0 };
            if self.sum(field, &e, 1, &mut sum).is_err() {
                continue;
            }
            let parts = sum.lengths.clone();
            let bytes = parts.iter().all(|f| matches!(self.ir(*f).kind, FieldKind::Bytes { .. }));
            // A case of a switch may read it, and another one not.
            if !self.is_used(field) || !bytes && !parts.iter().any(|f| self.is_long(*f)) {
                self.check(field, &sum, e.span);
            }
            if bytes {
                self.ir(field).computed = Some(sum);
            } else {
                self.cx.units[self.id.index()].measured.push((field, sum));
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn sum(&mut self, field: FieldId, e: &Expr, sign: i64, into: &mut Computed) -> R<()> {
        match &*e.kind {
            ast::ExprKind::Error => Err(Reported),
            ast::ExprKind::Binary(ast::BinOp::Add, a, b) => {
                self.sum(field, a, sign, into)?;
                self.sum(field, b, sign, into)
            }
            ast::ExprKind::Binary(ast::BinOp::Sub, a, b) => {
                self.sum(field, a, sign, into)?;
                self.sum(field, b, -sign, into)
            }
            ast::ExprKind::Call(f, args) if args.len() == 1 && sign == 1 && is_name(f, "len") => {
                let ast::ExprKind::Name(n) = &*args[0].value.kind else { return Err(self.bad_sum(e)) };
                let Some(m) = self.cx.units[self.id.index()].member(&n.name) else {
                    return Err(self.cx.unknown_field(self.id, n));
                };
                if m.ty.is_error() {
                    return Err(Reported);
                }
                let own = self.cx.units[self.id.index()].by_field(field).map(|f| f.cases.clone()).unwrap_or_default();
                if !matches!(m.ty, Ty::Bytes(_) | Ty::Msg(_) | Ty::Switch(..)) || m.cases != own {
                    return Err(self.bad_sum(e));
                }
                let f = m.field;
                if self.has(f, &is_stream) {
                    return Err(self.streams_past(e));
                }
                into.lengths.push(f);
                Ok(())
            }
            ast::ExprKind::Binary(..) | ast::ExprKind::Call(..) => Err(self.bad_sum(e)),
            ast::ExprKind::Name(n) if self.cx.units[self.id.index()].member(&n.name).is_some() => Err(self.bad_sum(e)),
            _ => match self.cx.const_u64(self.module, e) {
                Ok(n) => {
                    into.plus += sign * i64::try_from(n).unwrap_or(i64::MAX);
                    Ok(())
                }
                Err(r) => Err(r),
            },
        }
    }

    /// `_: bytes<9> of blank = " "`: sent when nothing is given.
    fn default(&mut self, field: FieldId, e: &Expr) -> bool {
        let (ast::ExprKind::Bytes(value), ir::FieldKind::Bytes { max, class, .. }) = (&*e.kind, &self.ir(field).kind)
        else {
            return false;
        };
        let fits = value.len() as u64 <= *max && class.as_ref().is_none_or(|c| value.iter().all(|b| c.has(*b)));
        if fits {
            let value = value.clone();
            self.cx.units[self.id.index()].defaults.push((field, value));
        } else {
            self.cx.report(
                Diagnostic::error("E0425", e.span, "this is not a value of the field")
                    .label("too long, or a byte is not in its set"),
            );
        }
        true
    }

    /// `count: u16 = len(items)` of a list that takes its count from this field: the builder
    /// counts.
    fn counts(&self, field: FieldId, e: &Expr) -> bool {
        let ast::ExprKind::Call(f, args) = &*e.kind else { return false };
        let (true, [a]) = (is_name(f, "len"), args.as_slice()) else { return false };
        let ast::ExprKind::Name(n) = &*a.value.kind else { return false };
        let Some(m) = self.cx.units[self.id.index()].member(&n.name) else { return false };
        let ir::FieldKind::List { extent: ir::ListExtent::Count(c), .. } =
            &self.cx.m.units[self.id.index()].fields[m.field.index()].kind
        else {
            return false;
        };
        let mut found = false;
        ir::walk::expr(c, &mut |e| {
            found |= matches!(&*e.kind, ExprKind::Read(p) if p.steps == [ir::Step::Field(field)])
        });
        found
    }

    fn bad_sum(&mut self, e: &Expr) -> Reported {
        self.cx.report(
            Diagnostic::error("E0425", e.span, "this cannot be computed when the message is built")
                .label("not a sum of lengths")
                .hint("write a sum of constants and `len(field)`; the fields are bytes, units or switches"),
        )
    }

    /// Whether a field, or one inside of it, is of a kind.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn has(&mut self, f: FieldId, kind: &dyn Fn(&FieldKind) -> bool) -> bool {
        let own = self.ir(f).kind.clone();
        kind(&own)
            || match own {
                FieldKind::Unit { unit, .. } => ir::grammar::tail::has(&self.cx.m, unit, kind),
                FieldKind::Switch { cases } => cases.iter().flat_map(|c| &c.fields).any(|f| self.has(*f, kind)),
                FieldKind::List { element, .. } => self.has(element, kind),
                _ => false,
            }
    }

    /// Whether a part may begin the tail of its message, in which its length is not kept.
    fn is_long(&mut self, f: FieldId) -> bool {
        let long = |k: &FieldKind| matches!(k, FieldKind::Bytes { max, .. } if *max > ir::grammar::tail::HELD_BYTES);
        self.has(f, &long)
    }

    fn streams_past(&mut self, e: &Expr) -> Reported {
        self.cx.report(
            Diagnostic::error("E0425", e.span, "this cannot be computed when the message is built")
                .label("a part of it streams")
                .hint("give the length when the message is built"),
        )
    }

    /// Whether the grammar reads the field: then the field that it governs checks its value.
    fn is_used(&self, field: FieldId) -> bool {
        let unit = &self.cx.m.units[self.id.index()];
        let mut used = false;
        for f in &unit.fields {
            ir::walk::field_exprs(f, &mut |e, _| {
                ir::walk::expr(e, &mut |e| {
                    if let ExprKind::Read(p) = &*e.kind {
                        used |= p.root == ir::Root::This && p.steps.first() == Some(&ir::Step::Field(field));
                    }
                })
            });
        }
        used
    }

    fn check(&mut self, field: FieldId, sum: &Computed, span: ast::Span) {
        let read = |b: &mut Self, f: FieldId| {
            let ty = b.ir(f).ty;
            build::read(ty, build::step(&build::this(), ir::Step::Field(f)))
        };
        let own = build::cast(T_U64, read(self, field));
        let mut total = build::u64(sum.plus as u64);
        for f in &sum.lengths {
            let len = if matches!(self.ir(*f).kind, FieldKind::Bytes { .. }) {
                build::len_bytes(read(self, *f))
            } else {
                self.raw_len(*f)
            };
            total = build::bin(T_U64, BinOp::Add, total, len);
        }
        self.require(build::cmp(BinOp::Eq, own, total), FaultKind::CONSTRAINT, span);
    }
}

fn is_stream(k: &FieldKind) -> bool {
    matches!(k, FieldKind::StreamBytes { .. } | FieldKind::StreamUnit { .. })
}

pub fn is_name(e: &Expr, name: &str) -> bool {
    matches!(&*e.kind, ast::ExprKind::Name(n) if n.name == name)
}
