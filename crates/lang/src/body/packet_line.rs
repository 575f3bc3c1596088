//! The text of a bare `log` in the wiring of packets: the headers of a packet, with their main
//! fields, in one line.
//!
//! In: the current packet (`.`). Out: the values of a log line, with a part per header of the
//! packet's type. It is made as if the program had written `log if .ip4 { concat("ip4 ",
//! text(.ip4.src), …, " ") } else { "" }, …, "len=", .len`.

use super::Lower;
use crate::compiler::R;
use crate::val::Val;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Arg, BinOp, Block, Expr, ExprKind, Ident, Span, Stmt, StmtKind};

/// Where from and where to.
const ENDS: [(&str, &str); 2] = [("src", "dst"), ("sender_ip", "target_ip")];
/// Shown as `name=value`, if the header has the one behind it, too.
const MAIN: [(&str, &str); 9] = [
    ("ttl", "ttl"),
    ("hops", "hops"),
    ("vid", "vid"),
    ("op", "op"),
    ("type", "code"),
    ("code", "code"),
    ("vni", "vni"),
    ("spi", "spi"),
    ("seq", "spi"),
];
/// Bits shown by name where they are set.
const FLAGS: [&str; 4] = ["syn", "fin", "rst", "ack"];

impl Lower<'_, '_> {
    /// The parts of the line about a packet of type `unit`.
    pub fn packet_line(&mut self, v: &Val, unit: ir::UnitId, span: Span) -> R<Vec<ir::Expr>> {
        let outer = self.dot.replace(v.clone());
        let made = line(&self.cx.m, unit, span)
            .into_iter()
            .map(|e| {
                let v = self.expr(&e, None)?;
                self.logged(v, span)
            })
            .collect();
        self.dot = outer;
        made
    }
}

fn line(m: &ir::Module, unit: ir::UnitId, span: Span) -> Vec<Expr> {
    let made = |kind| Expr { span, kind: Box::new(kind) };
    let ident = |name: &str| Ident { name: name.into(), span };
    let bytes = |text: String| made(ExprKind::Bytes(text.into_bytes()));
    let call = |f: &str, args: Vec<Expr>| {
        made(ExprKind::Call(
            made(ExprKind::Name(ident(f))),
            args.into_iter().map(|value| Arg { name: None, value }).collect(),
        ))
    };
    let either = |cond: Expr, then: Expr| {
        let block = |e| Block { span, stmts: vec![Stmt { span, kind: StmtKind::Expr(e) }] };
        made(ExprKind::If(cond, block(then), Some(made(ExprKind::Block(block(bytes(String::new())))))))
    };
    let layers = m.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
    let mut all = Vec::new();
    for l in layers {
        let (Some(name), header) = (&m.unit(unit).fields[l.header.index()].name, m.unit(l.unit)) else { continue };
        let has = |field: &str| header.fields.iter().any(|f| f.name.as_deref() == Some(field));
        let of = |field: &str| made(ExprKind::Field(Some(made(ExprKind::Field(None, ident(name)))), ident(field)));
        let mut parts = vec![bytes(name.clone())];
        for (from, to) in ENDS.iter().filter(|(a, b)| has(a) && has(b)) {
            parts.extend([
                bytes(" ".into()),
                call("text", vec![of(from)]),
                bytes(">".into()),
                call("text", vec![of(to)]),
            ]);
        }
        for (field, _) in MAIN.iter().filter(|(a, b)| has(a) && has(b)) {
            parts.extend([bytes(format!(" {field}=")), call("text", vec![of(field)])]);
        }
        for flag in FLAGS.iter().filter(|f| has(f)) {
            let set = made(ExprKind::Binary(BinOp::Eq, of(flag), made(ExprKind::Int(1))));
            parts.push(either(set, bytes(format!(" {flag}"))));
        }
        parts.push(bytes(" ".into()));
        all.push(either(made(ExprKind::Field(None, ident(name))), call("concat", parts)));
    }
    all.extend([bytes("len=".into()), made(ExprKind::Field(None, ident("len")))]);
    all
}
