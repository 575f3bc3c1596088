//! Text and bytes in the hook: values in the processor's scratch, new payloads.
//!
//! `support/bpf_bytes.h` has the functions. A value is a place and a length. A constant has a place
//! of its own at the scratch's beginning, and is stored there where the program reads it.

use super::scratch::Call;
use crate::body::BodyGen;
use crate::gen::Gen;
use crate::parser::line;
use wireloom_ir::*;

/// Longer constants are compared by a function.
const FEW: usize = 8;

/// The bytes of a short constant as a word.
fn few(e: &Expr) -> Option<(String, usize)> {
    let ExprKind::Bytes(b) = &*e.kind else { return None };
    (1..=FEW).contains(&b.len()).then(|| (word(b), b.len()))
}

/// Whether a condition is made of variables and short constants. Its parts are combined without
/// branches: the verifier would follow the ways of each.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub(crate) fn flat(e: &Expr) -> bool {
    match &*e.kind {
        ExprKind::Local(_) => true,
        ExprKind::Unary(UnOp::Not, a) => flat(a),
        ExprKind::Binary(BinOp::And | BinOp::Or, a, b) => flat(a) && flat(b),
        ExprKind::Binary(BinOp::Eq | BinOp::Ne, a, b) => {
            [(a, b), (b, a)].iter().any(|(a, b)| is_local(a) && few(b).is_some())
        }
        ExprKind::Builtin(Builtin::StartsWith | Builtin::EndsWith, args) => {
            is_local(&args[0]) && args.get(1).is_some_and(|a| few(a).is_some())
        }
        _ => false,
    }
}

fn is_local(e: &Expr) -> bool {
    matches!(&*e.kind, ExprKind::Local(_))
}

fn word(b: &[u8]) -> String {
    let n = b.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    format!("UINT64_C({n:#x})")
}

impl Gen<'_> {
    /// A constant: its bytes are put in their place.
    pub(crate) fn xdp_literal(&mut self, bytes: &[u8]) -> String {
        let at = self.scratch.literal(bytes);
        let words: Vec<String> =
            bytes.chunks(8).enumerate().map(|(n, b)| format!("WL_LITERAL_WORD({}, {})", at + 8 * n, word(b))).collect();
        format!("wl_literal({at}, {}, {})", bytes.len(), words.join("; "))
    }

    /// Whether two values are bytes and equal, where one is a short constant.
    pub(crate) fn xdp_equal(&self, (a, x): (&Expr, &str), (b, y): (&Expr, &str)) -> Option<String> {
        let (other, (word, n)) = match (few(a), few(b)) {
            (_, Some(c)) => (x, c),
            (Some(c), None) => (y, c),
            (None, None) => return None,
        };
        Some(format!("wl_eq_few(({other}), {word}, {n})"))
    }

    /// Functions that have another form here. `a`: the operands' texts.
    pub(crate) fn xdp_builtin(&self, b: Builtin, args: &[Expr], a: &[String]) -> Option<String> {
        let short = args.get(1).and_then(few);
        match (b, short) {
            (Builtin::StartsWith, Some((word, n))) => Some(format!("wl_starts_few({}, {word}, {n})", a[0])),
            (Builtin::EndsWith, Some((word, n))) => Some(format!("wl_ends_few({}, {word}, {n})", a[0])),
            (Builtin::FindBytes, Some((word, 1))) if args.len() == 2 => {
                Some(format!("wl_find_byte{}({}, {word})", self.scratch.in_line.suffix(Call::Find), a[0]))
            }
            (Builtin::FindBytes, Some((word, n))) if args.len() == 2 => {
                Some(format!("wl_find_few({}, {word}, {n})", a[0]))
            }
            (Builtin::Murmur64, _) => {
                Some(format!("wl_murmur64{}({}, {})", self.scratch.in_line.suffix(Call::Hash), a[0], a[1]))
            }
            (Builtin::Concat, _) if !a.is_empty() => {
                Some(format!("wl_concat(x, {}, ((const wl_bytes[]){{{}}}))", a.len(), a.join(", ")))
            }
            // Bytes in scratch do not change.
            (Builtin::Keep, _) => Some(a[0].clone()),
            _ => None,
        }
    }

    /// Room for words of keys and values that do not lie on the stack: the first one.
    pub(super) fn xdp_wide_room(&mut self, words: usize) -> usize {
        self.scratch.room(words)
    }
}

impl<'m> BodyGen<'_, 'm> {
    /// Builds a new payload beside the frame; answers its place. Parts of a `concat` need not be
    /// joined before, and bytes that are all of it are not copied.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(super) fn xdp_build(&mut self, body: &'m Block) -> &'static str {
        if let [Stmt { kind: StmtKind::Emit(Emit::Bytes(e)), .. }] = body.as_slice() {
            if !matches!(&*uncast(self.g.m, e).kind, ExprKind::Builtin(Builtin::Concat, _)) {
                let text = self.expr(e);
                line!(self, "const wl_bytes whole_ = {text};\nWL_X(x)->out = whole_.n;");
                self.check(true);
                return "whole_.p";
            }
        }
        line!(self, "wl_begin(x);");
        for s in body {
            match &s.kind {
                StmtKind::Emit(Emit::Bytes(e)) => self.xdp_put(e),
                StmtKind::Emit(e) => self.emit(e),
                _ => self.stmt(s),
            }
        }
        self.check(true);
        "WL_BUILT"
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn xdp_put(&mut self, e: &Expr) {
        match &*e.kind {
            ExprKind::Builtin(Builtin::Concat, parts) => parts.iter().for_each(|p| self.xdp_put(p)),
            ExprKind::Cast(inner) if matches!(self.g.m.ty(inner.ty), Ty::Bytes(_)) => self.xdp_put(inner),
            _ => {
                let text = self.expr(e);
                line!(self, "wl_put(x, {text});");
            }
        }
    }
}

/// Bytes without what only changes their maximum.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn uncast<'e>(m: &Module, e: &'e Expr) -> &'e Expr {
    match &*e.kind {
        ExprKind::Cast(inner) if matches!(m.ty(inner.ty), Ty::Bytes(_)) => uncast(m, inner),
        _ => e,
    }
}
