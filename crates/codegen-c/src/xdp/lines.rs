//! Lines of the log. A program sends the values of a line to the process, which makes text of them.

use super::LinePart;
use crate::body::BodyGen;
use crate::parser::line;
use wireloom_ir::*;

impl<'m> BodyGen<'_, 'm> {
    /// Sends a line's values to the process. Room is reserved for them when all are known: a fault
    /// must not leave it behind.
    pub(super) fn xdp_line(&mut self, parts: &'m [Expr]) {
        let (mut kinds, mut stores, mut at) = (Vec::new(), String::new(), 1);
        let mut values = String::from("{\n");
        for (n, e) in parts.iter().enumerate() {
            let kind = match (self.g.m.ty(e.ty), &*e.kind) {
                (_, ExprKind::Bytes(b)) => LinePart::Text(b.to_vec()),
                (Ty::Bytes(most), _) => LinePart::Bytes(*most),
                (Ty::Bool, _) => LinePart::Bool,
                (Ty::UInt(_), _) => LinePart::Unsigned,
                (Ty::Int(_), _) => LinePart::Signed,
                (Ty::Ip, _) => LinePart::Address,
                (Ty::Endpoint, _) => LinePart::Endpoint,
                // Others have no text.
                (Ty::Unit | Ty::Option(_) | Ty::List(..) | Ty::Record(_) | Ty::Tuple(_) | Ty::Msg(_), _) => continue,
            };
            if !matches!(kind, LinePart::Text(_)) {
                let (c, text) = (self.g.cty(e.ty), self.expr(e));
                values.push_str(&format!("const {c} a{n}_ = {text};\n"));
                stores.push_str(&kind.stores(&format!("a{n}_"), at));
                at += kind.words();
            }
            kinds.push(kind);
        }
        line!(self, "{values}");
        let faults = kinds.iter().any(|k| matches!(k, LinePart::Bytes(_))) || parts.iter().any(Expr::may_fault);
        self.check(faults);
        let number = self.g.xdp_lines.iter().position(|l| *l == kinds).unwrap_or_else(|| {
            self.g.xdp_lines.push(kinds);
            self.g.xdp_lines.len() - 1
        });
        line!(
            self,
            "uint64_t *r_ = bpf_ringbuf_reserve(&wl_lines, {}, 0);\nif (r_) {{\nr_[0] = {number};\n{stores}bpf_ringbuf_submit(r_, WL_NO_WAKEUP);\n}} else x->state->lost++;\n}}",
            8 * at
        );
    }
}
