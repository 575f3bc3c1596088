//! Records on the wire: `e: Entry` has the fields of the record in their order, in the current byte
//! order.

use super::fields::{Builder, Head};
use crate::compiler::{Reported, R};
use crate::names::ModId;
use crate::ty::Ty;
use ir::{FieldId, FieldKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Ident, ItemKind, Shape, ShapeKind};

/// Where a record is from, its name and its fields.
type RecordSource = (ModId, Ident, Vec<(Ident, ast::Type)>);

impl Builder<'_, '_> {
    pub fn record_field(
        &mut self,
        head: &Head,
        ty: &ast::Type,
        r: ir::RecordId,
        order: Option<bool>,
    ) -> R<(FieldId, Ty)> {
        self.end_bits();
        let big = order.unwrap_or(self.big);
        let unit = match self.cx.record_units.iter().find(|(_, (s, b))| *s == r && *b == big) {
            Some((u, _)) => *u,
            None => self.record_unit(ty, r, big)?,
        };
        Ok((self.add(head.name, head.span, &Ty::Unit, FieldKind::Unit { unit, args: vec![] }), Ty::Msg(unit)))
    }

    fn record_unit(&mut self, ty: &ast::Type, r: ir::RecordId, big: bool) -> R<ir::UnitId> {
        let (module, name, fields) = self.record_source(ty)?;
        let value = |name: Ident, ty: ast::Type| {
            let span = ty.span;
            let shape = Shape { span, kind: ShapeKind::Named { ty, args: vec![], order: None } };
            ast::Field {
                doc: String::new(),
                span,
                kind: ast::FieldKind::Value {
                    name: Some(name),
                    shape,
                    within: None,
                    computed: None,
                    or: None,
                    mark: None,
                },
            }
        };
        let u = ast::Unit { name, params: vec![], fields: fields.into_iter().map(|(n, t)| value(n, t)).collect() };
        let id = self.cx.new_unit(module, &u, "");
        let before = self.cx.errors();
        let mut b = Builder::new(self.cx, id, module);
        b.big = big;
        let whole = b.unit(&u);
        self.cx.units[id.index()].ok = whole && self.cx.errors() == before;
        self.cx.record_units.insert(id, (r, big));
        Ok(id)
    }

    fn record_source(&mut self, ty: &ast::Type) -> R<RecordSource> {
        match &ty.kind {
            ast::TypeKind::Record(fields) => {
                Ok((self.module, Ident { name: "record".into(), span: ty.span }, fields.clone()))
            }
            ast::TypeKind::Named { path, .. } => {
                let id = self.cx.path_item(self.module, path, "record")?;
                let item = self.cx.names.items[id].item.clone();
                if let ItemKind::Record { name, fields } = &item.kind {
                    let fields = fields.iter().map(|f| (f.name.clone(), f.ty.clone())).collect();
                    Ok((self.cx.names.items[id].module, name.clone(), fields))
                } else {
                    Err(self.cx.error(
                        "E0421",
                        ty.span,
                        "a record on the wire is named by its own name, not by another one",
                    ))
                }
            }
            ast::TypeKind::Option(_)
            | ast::TypeKind::Tuple(_)
            | ast::TypeKind::Array(..)
            | ast::TypeKind::Fn(..)
            | ast::TypeKind::Or(..)
            | ast::TypeKind::Connection(_) => Err(Reported),
        }
    }
}
