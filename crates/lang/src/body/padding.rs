//! `pad 4` in a message that is built: the number of bytes before it.

use super::built_message::Fields;
use super::Lower;
use crate::compiler::{R, T_U64};
use crate::ir_builder as build;
use crate::ty::Ty;
use ir::{BinOp, Emit, ExprKind as K, Extent, FieldId, FieldKind, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    pub fn emit_align(&mut self, fields: &Fields, f: FieldId, to: u32, span: Span) -> R<()> {
        let body = self.cx.m.units[fields.unit.index()].body.clone();
        let before = body.iter().position(|g| *g == f).and_then(|at| self.length_before(fields, &body[..at]));
        let Some(before) = before else {
            return Err(self.cx.report(
                Diagnostic::error("E0429", span, "how many bytes stand before this padding is not known")
                    .label("needed to build the message")
                    .hint("before padding stand integers, literals and bytes, outside of switches"),
            ));
        };
        let to = build::u64(to.into());
        let over = build::bin(T_U64, BinOp::Rem, before, to.clone());
        let missing = build::bin(T_U64, BinOp::Rem, build::bin(T_U64, BinOp::Sub, to.clone(), over), to.clone());
        let n = build::as_int(&to).unwrap_or(1) as u64;
        let t = self.cx.lower_ty(&Ty::Bytes(n));
        let zeros = ir::Expr::new(t, K::Bytes(vec![0; n as usize]));
        let pad =
            crate::fold::fold(&self.cx.m, &build::builtin(t, ir::Builtin::Slice, vec![zeros, build::u64(0), missing]));
        self.push(span, StmtKind::Emit(Emit::Bytes(pad)));
        Ok(())
    }

    fn length_before(&mut self, fields: &Fields, seq: &[FieldId]) -> Option<ir::Expr> {
        let mut total = build::u64(0);
        for f in seq {
            let kind = self.field_ir(fields.unit, *f).kind;
            total = if let FieldKind::Align { to } = &kind {
                rounded(total, (*to).into())
            } else {
                let n = self.length_of(fields, *f, &kind)?;
                build::bin(T_U64, BinOp::Add, total, n)
            };
        }
        Some(crate::fold::fold(&self.cx.m, &total))
    }

    fn length_of(&mut self, fields: &Fields, f: FieldId, kind: &FieldKind) -> Option<ir::Expr> {
        Some(match kind {
            FieldKind::UInt { bytes, advance, .. } => build::u64(if *advance { (*bytes).into() } else { 0 }),
            FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Nothing => build::u64(0),
            FieldKind::Literal { values } => build::u64(values.first()?.len() as u64),
            FieldKind::Number { digits, exact: true, .. } => build::u64((*digits).into()),
            FieldKind::Flag { value } => match fields.value(f) {
                Some(v) => ir::Expr::new(T_U64, K::If(v.clone(), build::u64(value.len() as u64), build::u64(0))),
                None => build::u64(0),
            },
            FieldKind::Bytes { extent, .. } if self.cx.units[fields.unit.index()].text(f).is_none() => {
                let end = match extent {
                    Extent::Until(u) if !u.peek => u.delimiters.first()?.len() as u64,
                    Extent::Length(_) | Extent::Until(_) | Extent::Run | Extent::ToEnd | Extent::Close => 0,
                };
                let default = self.cx.units[fields.unit.index()]
                    .defaults
                    .iter()
                    .find(|(d, _)| *d == f)
                    .map(|(_, v)| v.len() as u64);
                let own = match (fields.value(f), default, extent) {
                    (Some(v), ..) => build::len_bytes(v.clone()),
                    (None, Some(n), _) => build::u64(n),
                    (None, None, Extent::Length(n)) if build::as_int(n).is_some() => {
                        build::u64(build::as_int(n)? as u64)
                    }
                    (None, None, Extent::Run) => return None,
                    _ => build::u64(0),
                };
                build::bin(T_U64, BinOp::Add, own, build::u64(end))
            }
            FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Unit { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Align { .. } => return None,
        })
    }
}

/// The next multiple of `to`.
fn rounded(n: ir::Expr, to: u64) -> ir::Expr {
    let up = build::bin(T_U64, BinOp::Add, n, build::u64(to - 1));
    build::bin(T_U64, BinOp::Mul, build::bin(T_U64, BinOp::Div, up, build::u64(to)), build::u64(to))
}
