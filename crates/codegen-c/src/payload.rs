//! Replacing a frame's payload.
//!
//! The pass `payload_in_place` says which part of the new payload may be a part of the old one. If
//! a check at run time finds it in the payload, it stays in place, and the headers move. Otherwise
//! it is copied.

use crate::body::BodyGen;
use crate::builtin_call::crypto_op;
use crate::parser::line;
use wireloom_ir::passes::payload_in_place::{parts, uncast};
use wireloom_ir::*;

/// A frame's view and the payload in it, as C expressions.
pub(crate) struct PayloadView {
    pub v: String,
    pub headers: String,
    pub layers: usize,
    pub pos: String,
    pub end: String,
}

/// New bytes: what stays, and what comes before and behind it.
struct Layout<'m> {
    before: &'m [Expr],
    core: &'m Expr,
    behind: &'m [Expr],
}

/// Bytes that a GCM tag takes.
const TAG: u32 = 16;

impl<'m> Layout<'m> {
    fn of(body: &'m Block, keep: u32) -> Option<Self> {
        let (parts, at) = (parts(body)?, keep as usize);
        Some(Layout { before: parts.get(..at)?, core: uncast(parts.get(at)?), behind: &parts[at + 1..] })
    }
}

impl<'m> BodyGen<'_, 'm> {
    pub fn payload(&mut self, to: &PayloadView, body: &'m Block, keep: Option<u32>, place: PlaceId) {
        match keep.and_then(|keep| Layout::of(body, keep)) {
            Some(l) => self.lay(to, &l, place),
            None => {
                line!(self, "wl_begin(x);");
                self.block(body);
                self.check(true);
                self.replace(to, "wl_built(x)", place);
            }
        }
    }

    fn replace(&mut self, to: &PayloadView, bytes: &str, place: PlaceId) {
        let PayloadView { v, headers, layers, pos, end } = to;
        let leave = self.leave_fault();
        line!(self, "if (WL_UNLIKELY(!wl_view_payload({v}, {headers}, {layers}, {pos}, {end}, {bytes}))) {{ wl_fail(x, WL_F_OVERLOAD, {}); {leave} }}", place.0);
    }

    /// Bytes in scratch: what they were read from may move.
    fn aside(&mut self, parts: &[Expr]) -> String {
        if parts.is_empty() {
            return "wl_b(NULL, 0)".into();
        }
        let texts: Vec<_> = parts.iter().map(|p| self.expr(p)).collect();
        format!("wl_concat(x, {}, (wl_bytes[]){{{}}})", texts.len(), texts.join(", "))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn lay(&mut self, to: &PayloadView, l: &Layout, place: PlaceId) {
        let PayloadView { v, headers, layers, pos, end } = to;
        let (cipher, args) = match &*l.core.kind {
            ExprKind::Builtin(b, args) if b.is_cipher() => (Some(*b), args.as_slice()),
            _ => (None, std::slice::from_ref(l.core)),
        };
        let (before, behind) = (self.aside(l.before), self.aside(l.behind));
        let texts: Vec<_> = args.iter().map(|a| self.expr(a)).collect();
        let (n, tag) = (args.len(), if cipher == Some(Builtin::AesGcmSeal) { TAG } else { 0 });
        line!(
            self,
            "{{ wl_bytes before_ = {before}, behind_ = {behind}, a_[{n}] = {{{}}}, *core_ = &a_[{}];",
            texts.join(", "),
            n - 1
        );
        self.check(l.before.len() + l.behind.len() > 0 || args.iter().any(Expr::may_fault));
        if cipher.is_some() {
            // The vector may lie in the payload.
            line!(self, "uint8_t vector_[16];\nif (a_[1].n <= sizeof vector_) {{ wl_copy(vector_, a_[1].p, a_[1].n); a_[1].p = vector_; }}");
        }
        let free: String = (0..n - 1).filter(|i| *i != 1).map(|i| format!(" && wl_view_free({v}, a_[{i}])")).collect();
        let leave = self.leave_fault();
        line!(self, "if (WL_LIKELY(wl_view_holds({v}, {pos}, {end}, *core_){free})) {{");
        line!(self, "int64_t grown_;\nuint8_t *at_ = wl_view_lay({v}, {headers}, {layers}, &grown_, {pos}, {end}, core_->p, core_->n, before_.n, {tag} + behind_.n);");
        line!(self, "if (WL_UNLIKELY(!at_)) {{ wl_fail(x, WL_F_OVERLOAD, {}); {leave} }}", place.0);
        line!(self, "wl_copy_few(at_ - before_.n, before_.p, before_.n);");
        if let Some(b) = cipher {
            line!(self, "core_->p = at_;\nif (WL_UNLIKELY(x->core->host->crypto({}, a_, {n}, at_) < 0)) {{ wl_fail(x, WL_F_CONSTRAINT, {}); {leave} }}", crypto_op(b), place.0);
        }
        line!(self, "wl_copy_few(at_ + core_->n + {tag}, behind_.p, behind_.n);\nwl_view_grown({v}, {headers}, {layers}, {pos}, grown_);\n}} else {{");
        let core = match cipher {
            Some(b) => format!("wl_crypto(x, {}, {n}, a_)", crypto_op(b)),
            None => "*core_".into(),
        };
        // It comes from elsewhere.
        line!(self, "wl_bytes new_ = {core};\nif (!wl_view_free({v}, new_)) {{ wl_begin(x); wl_put(x, new_); new_ = wl_built(x); }}");
        self.check(true);
        line!(self, "if (WL_UNLIKELY(!wl_view_fill({v}, {headers}, {layers}, {pos}, {end}, before_, new_, behind_))) {{ wl_fail(x, WL_F_OVERLOAD, {}); {leave} }}\n}} }}", place.0);
    }
}
