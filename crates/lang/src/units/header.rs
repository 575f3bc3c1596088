//! The clauses of a unit as a header: its checksum, the length it declares, its addresses, and
//! fields that differ from packet to packet.

use super::fields::Builder;
use crate::compiler::{Reported, R};
use crate::ty::Ty;
use ir::FieldId;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Ident, Mark, Span};
use wireloom_syntax::Diagnostic;

impl Builder<'_, '_> {
    pub fn mark(&mut self, field: FieldId, ty: &Ty, mark: &Mark, span: Span) -> R<()> {
        if !self.cases.is_empty() {
            return Err(self.cx.error("E0621", span, "a field in a switch is no checksum and no length of the header"));
        }
        match mark {
            Mark::Checksum { over, protocol, optional } => {
                let when = self.flag_of(field);
                if *ty != crate::ty::U16 && when.is_none() {
                    return Err(self.cx.report(
                        Diagnostic::error("E0621", span, "an Internet checksum is a u16")
                            .hint("one by a flag is `bytes<2> [u64(flag) * 2]`, with a `flag: u1` before it"),
                    ));
                }
                let over = match over.name.as_str() {
                    "header" => ir::Over::Header,
                    "message" => ir::Over::Message,
                    _ => {
                        let Some(e) = protocol else { return Err(Reported) };
                        let n = self.cx.const_u64(self.module, e)?;
                        let Ok(protocol) = u8::try_from(n) else {
                            return Err(self.cx.error("E0304", e.span, "a protocol's number is at most 255"));
                        };
                        ir::Over::Transport { protocol, optional: *optional }
                    }
                };
                let header = &mut self.cx.m.units[self.id.index()].header;
                if header.checksum.is_some() {
                    return Err(self.cx.error("E0621", span, "a header has one checksum"));
                }
                if when.is_some() && over != ir::Over::Message {
                    return Err(self.cx.report(
                        Diagnostic::error("E0621", span, "a checksum by a flag has another extent")
                            .hint("`checksum message` says that it covers the header and all bytes behind it"),
                    ));
                }
                let header = &mut self.cx.m.units[self.id.index()].header;
                header.checksum = Some(ir::Checksum { field, over, when });
            }
            Mark::Covers { own } => {
                if !matches!(ty, Ty::Int { signed: false, .. }) {
                    return Err(self.cx.error("E0621", span, "a length is an unsigned integer"));
                }
                let header = &mut self.cx.m.units[self.id.index()].header;
                if header.covers.is_some() {
                    return Err(self.cx.error("E0621", span, "a header has one length of its own"));
                }
                header.covers = Some(ir::Covers { field, own: *own });
            }
        }
        Ok(())
    }

    /// The flag by which a field is there: its length is that flag, times two bytes or more.
    #[allow(clippy::wildcard_enum_match_arm, reason = "one kind of many is looked for")]
    fn flag_of(&self, field: FieldId) -> Option<FieldId> {
        let unit = &self.cx.m.units[self.id.index()];
        let ir::FieldKind::Bytes { extent: ir::Extent::Length(n), .. } = &unit.fields[field.index()].kind else {
            return None;
        };
        let ir::ExprKind::Binary(ir::BinOp::Mul, flag, size) = &*n.kind else { return None };
        let of_flag = |e: &ir::Expr| {
            let mut found = Vec::new();
            ir::walk::expr(e, &mut |e| found.extend(ir::walk::path_of(e).cloned()));
            let [ir::Path { root: ir::Root::This, steps }] = found.as_slice() else { return None };
            let ([ir::Step::Field(f)], ir::ExprKind::Cast(_) | ir::ExprKind::Read(_)) = (steps.as_slice(), &*e.kind)
            else {
                return None;
            };
            Some(*f).filter(|f| matches!(unit.fields[f.index()].kind, ir::FieldKind::UInt { bits: 1, .. }))
        };
        let large = matches!(*size.kind, ir::ExprKind::Int(2..));
        of_flag(flag).filter(|_| large)
    }

    pub fn partial(&mut self, more: &Ident) -> R<()> {
        let Some(m) = self.cx.units[self.id.index()].member(&more.name).cloned() else {
            return Err(self.cx.unknown_field(self.id, more));
        };
        if m.ty.is_error() {
            return Err(Reported);
        }
        if !matches!(m.ty, Ty::Int { signed: false, bits: 1..=64 }) || !m.cases.is_empty() {
            return Err(self.cx.report(
                Diagnostic::error("E0621", more.span, format!("`{}` is no number", more.name))
                    .hint("an unsigned integer that is not 0 where more follows elsewhere"),
            ));
        }
        self.cx.m.units[self.id.index()].header.partial = Some(m.field);
        Ok(())
    }

    pub fn per_packet(&mut self, fields: &[Ident]) -> R<()> {
        for n in fields {
            let Some(m) = self.cx.units[self.id.index()].member(&n.name).cloned() else {
                return Err(self.cx.unknown_field(self.id, n));
            };
            let listed = &mut self.cx.m.units[self.id.index()].header.per_packet;
            if listed.contains(&m.field) {
                return Err(self.cx.error("E0203", n.span, format!("`{}` is listed twice", n.name)));
            }
            listed.push(m.field);
        }
        Ok(())
    }

    pub fn addresses(&mut self, src: &Ident, dst: &Ident) -> R<()> {
        let find = |b: &mut Self, n: &Ident| -> R<FieldId> {
            let Some(m) = b.cx.units[b.id.index()].member(&n.name).cloned() else {
                return Err(b.cx.unknown_field(b.id, n));
            };
            if m.ty.is_error() {
                return Err(Reported);
            }
            if !matches!(m.ty, Ty::Ip4 | Ty::Ip6) || !m.cases.is_empty() {
                return Err(b.cx.report(
                    Diagnostic::error("E0621", n.span, format!("`{}` is no address", n.name))
                        .hint("the addresses of a header are ip4 or ip6"),
                ));
            }
            Ok(m.field)
        };
        let pair = (find(self, src)?, find(self, dst)?);
        self.cx.m.units[self.id.index()].header.addresses = Some(pair);
        Ok(())
    }
}
