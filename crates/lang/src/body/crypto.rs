//! Ciphers and random bytes. Sizes of keys, vectors and nonces are checked at compile time where
//! they are known, else by guards.

use super::Lower;
use crate::compiler::{R, T_BOOL};
use crate::ir_builder as build;
use crate::ty::{Ty, U64};
use crate::val::Val;
use ir::ops::Rows;
use ir::{Builtin as B, Expr as X, ExprKind as K, FaultKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Span};
use wireloom_syntax::Diagnostic;

const KEYS: &[u64] = &[16, 32];
const TAG: u64 = 16;
/// No more random bytes at once.
const MOST_RANDOM: u64 = 1024;

/// An operand of fixed size: its name, its sizes.
pub(super) type FixedSize = (&'static str, &'static [u64]);

pub(super) const BLOCK: FixedSize = ("counter block", &[16]);
pub(super) const VECTOR: FixedSize = ("vector", &[16]);
pub(super) const NONCE: FixedSize = ("nonce", &[12]);

impl Lower<'_, '_> {
    /// `aes_ctr(key, block, data)`, `aes_cbc_…(key, vector, data)`,
    /// `aes_gcm_…(key, nonce, associated, data)`.
    pub fn cipher(&mut self, b: B, second: FixedSize, a: &[&Expr], span: Span) -> R<Val> {
        let (name, whole) = (b.row().name, second == VECTOR);
        let mut args = vec![self.of_size(name, ("key", KEYS), a[0])?, self.of_size(name, second, a[1])?];
        if let [_, _, aad, _] = a {
            args.push(self.bytes_arg(aad)?);
        }
        let (data, span_of_data) = (a[a.len() - 1], a[a.len() - 1].span);
        let v = self.expr(data, None)?;
        let mut max = v.ty.bytes_max();
        let bytes = self.bytes_of(v, span_of_data)?;
        let bytes = if whole { self.whole_blocks(name, bytes, max, span_of_data)? } else { bytes };
        args.push(bytes);
        let opens = b == B::AesGcmOpen;
        if opens {
            max = max.saturating_sub(TAG);
        } else if b == B::AesGcmSeal {
            max = max.saturating_add(TAG);
        }
        let ty = if opens { Ty::Bytes(max).option() } else { Ty::Bytes(max) };
        let ty = self.cx.measured(ty, span)?;
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, build::builtin(t, b, args)))
    }

    /// `random_bytes(16)`
    pub fn random_bytes(&mut self, n: &Expr) -> R<Val> {
        let count = self.expr_as(n, &U64)?;
        let known = build::as_int(&crate::fold::fold(&self.cx.m, &count))
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| (1..=MOST_RANDOM).contains(n));
        let Some(known) = known else {
            return Err(self.cx.report(Diagnostic::error(
                "E0314",
                n.span,
                format!("the number of random bytes is a constant from 1 to {MOST_RANDOM}"),
            )));
        };
        let ty = Ty::Bytes(known);
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, build::builtin(t, B::RandomBytes, vec![build::u64(known)])))
    }

    /// An operand that has one of a few sizes.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn of_size(&mut self, function: &str, (what, sizes): FixedSize, e: &Expr) -> R<X> {
        let v = self.expr(e, None)?;
        let max = v.ty.bytes_max();
        let v = self.once(v, e.span);
        let bytes = self.bytes_of(v, e.span)?;
        let known = match &*bytes.kind {
            K::Bytes(b) => Some(b.len() as u64),
            _ => None,
        };
        let text = || sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ");
        let wrong = match known {
            Some(n) if !sizes.contains(&n) => Some(format!("this has {n}")),
            None if sizes.iter().all(|s| *s > max) => Some(format!("this has at most {max}")),
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(self.cx.report(
                Diagnostic::error("E0314", e.span, format!("the {what} of `{function}` has {} bytes, {wrong}", text()))
                    .label(format!("{} bytes are needed", text())),
            ));
        }
        if known.is_none() {
            let fits =
                X::new(T_BOOL, K::InRanges(build::len_bytes(bytes.clone()), sizes.iter().map(|s| (*s, *s)).collect()));
            self.guard(fits, FaultKind::CONSTRAINT, e.span);
        }
        Ok(bytes)
    }

    /// Data whose length is a multiple of the block's.
    fn whole_blocks(&mut self, function: &str, bytes: X, max: u64, span: Span) -> R<X> {
        if let K::Bytes(b) = &*bytes.kind {
            if b.len() % 16 == 0 {
                return Ok(bytes);
            }
            let d = Diagnostic::error(
                "E0314",
                span,
                format!("the data of `{function}` has whole blocks of 16 bytes, this has {}", b.len()),
            );
            return Err(self
                .cx
                .report(d.hint("pad it: with PKCS #7, by 1 to 16 bytes that each say how many they are")));
        }
        let v = self.once(Val::pure(Ty::Bytes(max), bytes), span);
        let bytes = self.bytes_of(v, span)?;
        let rest =
            build::bin(crate::compiler::T_U64, ir::BinOp::BitAnd, build::len_bytes(bytes.clone()), build::u64(15));
        self.guard(build::cmp(ir::BinOp::Eq, rest, build::u64(0)), FaultKind::CONSTRAINT, span);
        Ok(bytes)
    }
}
