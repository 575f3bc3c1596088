//! Lines of the log. A program sends the values of a line to the process, which makes text of them.

use crate::body::BodyGen;
use crate::parser::line;
use wireloom_ir::*;

/// Bytes of the ring that all lines go through.
pub const LINES_BYTES: u32 = 1 << 18;

/// A part of a line. Its value is so many words of the line's record, behind its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinePart {
    /// A constant: it is not sent.
    Text(Vec<u8>),
    Bool,
    Unsigned,
    Signed,
    Address,
    Endpoint,
    /// Their number, and room for at most so many.
    Bytes(u64),
}

impl LinePart {
    pub fn words(&self) -> usize {
        match self {
            LinePart::Text(_) => 0,
            LinePart::Bool | LinePart::Unsigned | LinePart::Signed => 1,
            LinePart::Address => 2,
            LinePart::Endpoint => 3,
            LinePart::Bytes(most) => 1 + most.div_ceil(8) as usize,
        }
    }

    /// Statements that put a value into a record.
    fn stores(&self, value: &str, at: usize) -> String {
        let word = |n: usize, text: String| format!("r_[{}] = {text};\n", at + n);
        let address = || word(0, format!("{value}.w[0]")) + &word(1, format!("{value}.w[1]"));
        match self {
            LinePart::Text(_) => String::new(),
            LinePart::Bool | LinePart::Unsigned => word(0, format!("(uint64_t){value}")),
            LinePart::Signed => word(0, format!("(uint64_t)(int64_t){value}")),
            LinePart::Address => address(),
            LinePart::Endpoint => address() + &word(2, format!("{value}.port")),
            LinePart::Bytes(most) => {
                word(0, format!("wl_least({value}.n, {most})"))
                    + &format!("wl_pack_bytes(x, r_ + {}, {most}, {value});\n", at + 1)
            }
        }
    }
}

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
