//! `state of packet { … }`: values that go along with a packet.
//!
//! A field belongs to the element, or to the app, that declares it with a type. Instances of one
//! element share it. Others name it with its element, `Top.user`. So two elements that both have a
//! `user` do not disturb each other.

use crate::body::Lower;
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::{ItemId, ModId};
use crate::ty::Ty;
use crate::units::findings::source;
use crate::val::Val;
use ir::packet_state::{BYTES_MAX, FIELDS_MAX};
use ir::{LocalId, PacketFieldId, StmtKind};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, Ident, ItemKind, MemberKind, PacketField, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// The fields that an app, or the element of which an instance is being made, declares.
    pub(super) fn packet_fields(&mut self, module: ModId, fields: &[PacketField]) -> R<()> {
        for f in fields {
            let Some(name) = f.name() else { continue };
            if crate::units::packets::BUILTIN.contains(&name.name.as_str()) {
                let text = format!("each packet has a `{}` of its own", name.name);
                self.report(Diagnostic::error("E0695", name.span, text).label("not a name for a field"));
                continue;
            }
            if let Some((_, _, first)) = self.app.packet.get(&name.name) {
                let text = format!("the packet's state has two fields `{}` here", name.name);
                let d = Diagnostic::error("E0203", name.span, text).also(*first, "first here");
                self.once(d.label("a second time"));
                continue;
            }
            let found = match f.path.parts.as_slice() {
                [_] => self.own_field(module, self.making.last().copied(), f),
                _ => self.field_of_element(module, f),
            };
            if let Ok((id, ty)) = found {
                Rc::make_mut(&mut self.app.packet).insert(name.name.clone(), (id, ty, name.span));
            }
        }
        Ok(())
    }

    /// A field with a type, of an element or (None) of the app.
    fn own_field(&mut self, module: ModId, owner: Option<ItemId>, f: &PacketField) -> R<(PacketFieldId, Ty)> {
        let Some(name) = f.name() else { return Err(Reported) };
        let key = (owner, name.name.clone());
        if let Some(known) = self.packet_fields.get(&key) {
            return Ok(known.clone());
        }
        let Some(written) = &f.ty else {
            let d = Diagnostic::error("E0695", name.span, format!("`{}` has no type", name.name))
                .hint("write `name: type`, or `Element.name` for the field of another element");
            return Err(self.report(d));
        };
        let ty = self.ty(module, written)?;
        let lowered = if ty.is_plain() { self.lower_ty(&ty) } else { crate::compiler::T_BOOL };
        if !ty.is_plain() || !ir::packet_state::is_field(&self.m, lowered) {
            let text = format!("a packet does not carry {}", self.show(&ty));
            let d = Diagnostic::error("E0693", written.span, text)
                .label("not a type of a field")
                .note("fields are numbers of at most 64 bits, bools, enums and addresses");
            return Err(self.report(d.hint("keep the value in a table, and carry its key")));
        }
        let all = self.m.packet.iter().map(|f| ir::layout::size(&self.m, f.ty)).sum::<u64>();
        if all + ir::layout::size(&self.m, lowered) > BYTES_MAX || self.m.packet.len() >= FIELDS_MAX {
            let text = format!("the state of packets takes more than {BYTES_MAX} bytes");
            let d = Diagnostic::error("E0693", name.span, text).label("one field too many");
            return Err(self.once(d.hint("keep the values in a table, and carry its key")));
        }
        let init = match &f.default {
            Some(e) => self.constant(module, e, Some(&ty))?.kind.into_pure().ok_or(Reported)?,
            None => self.field_zero(module, &ty, lowered),
        };
        let id = PacketFieldId(self.m.packet.len() as u32);
        let of = owner.and_then(|o| {
            let ItemKind::Element(e) = &self.names.items[o].item.kind else { return None };
            Some(format!("{}.{}", e.name.name, name.name))
        });
        let name = of.unwrap_or_else(|| name.name.clone());
        self.m.packet.push(ir::PacketField { name, ty: lowered, init, required: f.default.is_none() });
        self.packet_fields.insert(key, (id, ty.clone()));
        Ok((id, ty))
    }

    fn field_zero(&mut self, module: ModId, ty: &Ty, lowered: ir::TyId) -> ir::Expr {
        if matches!(ty, Ty::Ip) {
            Lower::new(self, module, crate::body::Kind::Const).ip_const(0)
        } else if matches!(ty, Ty::Bool) {
            build::boolean(false)
        } else {
            build::int(lowered, 0)
        }
    }

    /// `Top.user`: a field that another element declares.
    fn field_of_element(&mut self, module: ModId, f: &PacketField) -> R<(PacketFieldId, Ty)> {
        let Some((name, owner)) = f.path.parts.split_last() else { return Err(Reported) };
        let span = owner.iter().fold(f.path.span, |s, p| Span { start: p.span.start.min(s.start), ..s });
        let path = ast::Path { parts: owner.to_vec(), span };
        let id = self.path_item(module, &path, "element")?;
        let (item, of) = (self.names.items[id].item.clone(), self.names.items[id].module);
        let ItemKind::Element(e) = &item.kind else {
            return Err(self.error("E0632", path.span, "this is no element"));
        };
        if let Some(t) = &f.ty {
            let d = Diagnostic::error(
                "E0695",
                t.span,
                format!("`{}` has the type that `{}` gives it", name.name, e.name.name),
            );
            return Err(self.report(d.hint("leave out the type and the value")));
        }
        let own = e.members.iter().filter_map(|m| {
            let MemberKind::PacketState(fields) = &m.kind else { return None };
            Some(fields)
        });
        let all: Vec<&PacketField> = own.flatten().filter(|f| f.path.parts.len() == 1).collect();
        let named = |f: &&&PacketField| f.name().is_some_and(|n| n.name == name.name);
        if let Some(field) = all.iter().find(named) {
            return self.own_field(of, Some(id), field);
        }
        let text = format!("`{}` declares no `{}` in its state of packets", e.name.name, name.name);
        let hint = crate::names::suggest(&name.name, all.iter().filter_map(|f| Some(f.name()?.name.as_str())));
        Err(self.report(crate::names::with_hint(Diagnostic::error("E0695", name.span, text), hint)))
    }

    /// Fields that may be read before they are written.
    pub(super) fn unwritten_fields(&mut self) {
        if self.diags.iter().any(Diagnostic::is_error) {
            return;
        }
        for u in ir::packet_state::unwritten(&self.m) {
            let full = self.m.packet[u.field.index()].name.clone();
            let name = short(&full);
            let text = format!("the packet's `{name}` may be read before it is written");
            let d = Diagnostic::error("E0694", source(u.read), text).label("read here");
            let d = match u.sent {
                Some(s) => d.also(source(s), "a packet comes from here without it"),
                None => d.note("a packet that has just come in has no value there"),
            };
            self.once(
                d.hint(format!("write it on each way to here, or give it a value to begin with: `{name}: … = 0`")),
            );
        }
    }
}

impl Lower<'_, '_> {
    /// The field of the packet's state that a name means here.
    pub(crate) fn packet_field(&self, name: &Ident) -> Option<(PacketFieldId, Ty)> {
        if !self.in_app || !self.frames {
            return None;
        }
        self.cx.app.packet.get(&name.name).map(|(f, t, _)| (*f, t.clone()))
    }

    fn field_local(&mut self, f: PacketFieldId, name: &str, ty: &Ty) -> LocalId {
        if let Some(l) = self.fields.get(&f) {
            return *l;
        }
        let l = self.new_local(name, ty);
        self.fields.insert(f, l);
        self.impure = true;
        l
    }

    /// A copy: the field may be set before the value is used.
    pub(crate) fn read_field(&mut self, (f, ty): (PacketFieldId, Ty), u: ir::UnitId, name: &Ident) -> R<Val> {
        let info = self.cx.units[u.index()].packet.clone();
        let hidden = self.cx.units[u.index()].member(&name.name).is_some()
            || info.is_some_and(|i| i.lets.iter().any(|(n, ..)| n.name == name.name));
        if hidden {
            let text = format!("`{}` is a field of the packet's state, and part of the packet", name.name);
            let d = Diagnostic::error("E0695", name.span, text).label("which one?");
            return Err(self.cx.once(d.hint("give the field another name")));
        }
        let l = self.field_local(f, &name.name, &ty);
        let value = self.local_expr(l);
        let copy = self.temp("", &ty, value, name.span);
        Ok(Val::pure(ty, self.local_expr(copy)))
    }

    pub(crate) fn set_field(
        &mut self,
        f: PacketFieldId,
        (name, ty): (&Ident, &Ty),
        op: Option<ast::BinOp>,
        value: &Expr,
        span: Span,
    ) -> R<Val> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let l = self.field_local(f, &name.name, ty);
        let e = match op {
            None => self.expr_as(value, ty)?,
            Some(op) => {
                let v = self.expr(value, Some(ty))?;
                let current = Val::pure(ty.clone(), self.local_expr(l));
                let sum = self.arith(op, current, v, span)?;
                self.coerce(sum, ty, span)?
            }
        };
        self.push(span, StmtKind::Set(l, e));
        Ok(Val::unit())
    }

    /// The packet's state that goes on with it: all of it. The pass `carries` drops what nobody
    /// reads.
    pub(crate) fn state_at_hand(&mut self) -> Vec<ir::Carried> {
        let all: Vec<(String, PacketFieldId, ir::TyId)> = (0u32..)
            .zip(&self.cx.m.packet)
            .map(|(n, f)| (short(&f.name).to_string(), PacketFieldId(n), f.ty))
            .collect();
        for (name, f, ty) in all {
            if !self.fields.contains_key(&f) {
                let l = self.new_local_of(&name, ty);
                self.fields.insert(f, l);
            }
        }
        self.fields.iter().map(|(f, l)| ir::Carried { field: *f, value: self.local_expr(*l) }).collect()
    }
}

/// The name of a field without that of its element.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
