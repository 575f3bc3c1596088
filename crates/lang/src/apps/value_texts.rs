//! Values as dumps of tables show them, so that they can be loaded. In: a value. Out: its text, as
//! an expression.

use super::tables::SignalResult;
use crate::body::Lower;
use crate::compiler::{R, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U32};
use crate::val::Val;
use ir::desc::ResultType;
use ir::{BinOp, Builtin as B, Expr as X, ExprKind as K};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

impl Lower<'_, '_> {
    /// An enum's value by name; a number that no variant has is shown as it is.
    pub fn variant_text(&mut self, en: ir::EnumId, e: X, span: Span) -> R<SignalResult> {
        let variants = self.cx.m.enums[en.index()].variants.clone();
        let longest = variants.iter().map(|(n, _)| n.len() as u64).max().unwrap_or(0).max(20);
        let t = self.cx.lower_ty(&Ty::Bytes(longest));
        let mut text = build::builtin(t, B::TextU64, vec![build::cast(T_U64, e.clone())]);
        for (name, n) in variants.iter().rev() {
            text = build::if_(
                t,
                build::cmp(BinOp::Eq, e.clone(), build::int(e.ty, (*n).into())),
                X::new(t, K::Bytes(name.clone().into_bytes())),
                text,
            );
        }
        self.leaf(ResultType::Text, text, span)
    }

    /// `02:00:00:00:00:01`
    pub fn mac_text(&mut self, e: X) -> X {
        let (one, digits, all) =
            (self.cx.lower_ty(&Ty::Bytes(1)), self.cx.lower_ty(&Ty::Bytes(16)), self.cx.lower_ty(&Ty::Bytes(17)));
        let wide = build::cast(T_U64, e);
        let mut parts = Vec::new();
        for nibble in (0..12u32).rev() {
            let n = build::bin(
                T_U64,
                BinOp::BitAnd,
                build::bin(T_U64, BinOp::Shr, wide.clone(), build::u32(4 * nibble)),
                build::u64(15),
            );
            let next = build::bin(T_U64, BinOp::Add, n.clone(), build::u64(1));
            let hex = X::new(digits, K::Bytes(b"0123456789abcdef".to_vec()));
            parts.push(build::builtin(one, B::Slice, vec![hex, n, next]));
            if nibble % 2 == 0 && nibble > 0 {
                parts.push(X::new(one, K::Bytes(b":".to_vec())));
            }
        }
        build::builtin(all, B::Concat, parts)
    }

    /// An address of IPv6, also one that stands for an address of IPv4: `::ffff:192.0.2.1`.
    pub fn ip6_text(&mut self, e: X, span: Span) -> R<X> {
        let ip = self.address_as(e, &Ty::Ip6, &Ty::Ip, span)?;
        let text = self.text_of(Val::pure(Ty::Ip, ip), span)?;
        let (start, all) = (self.cx.lower_ty(&Ty::Bytes(7)), self.cx.lower_ty(&Ty::Bytes(53)));
        let found = self.cx.lower_ty(&Ty::Option(Box::new(U32)));
        let colon = X::new(start, K::Bytes(b":".to_vec()));
        let is_long = build::is_some(build::builtin(found, B::FindBytes, vec![text.clone(), colon]));
        let (nothing, four) = (X::new(start, K::Bytes(vec![])), X::new(start, K::Bytes(b"::ffff:".to_vec())));
        let before = build::if_(start, is_long, nothing, four);
        Ok(build::builtin(all, B::Concat, vec![before, text]))
    }
}
