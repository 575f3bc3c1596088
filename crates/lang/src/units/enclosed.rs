//! `Version until "\r\n"`, `Options [n]`: a unit that lies in exactly these bytes. Also enums whose
//! values are text.
//!
//! If a unit has an end of its own, its delimiter must follow, or it must have used exactly the
//! length. A unit whose last field reads `to end` is lowered once more for this place, with the end
//! added.

use super::fields::{Builder, EnclosedEnd, Head};
use super::info::UnitInfo;
use crate::compiler::{Reported, R, T_BOOL, T_U64};
use crate::ir_builder as build;
use crate::items::Item;
use crate::ty::{Ty, U32};
use ir::{BinOp, ExprKind as K, FaultKind, FieldId, FieldKind, Root, Step};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Extent, ItemKind, Shape, ShapeKind, Span};
use wireloom_syntax::Diagnostic;

pub const END: &str = "_end";

impl Builder<'_, '_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn enclosed(&mut self, head: &Head, inner: &Shape, extent: &Extent, span: Span) -> R<(FieldId, Ty)> {
        let ShapeKind::Named { ty, args, .. } = &inner.kind else { return Err(self.refused(span)) };
        match self.cx.ty(self.module, ty)? {
            Ty::Enum(e) if self.cx.texts.contains_key(&e) => {
                let extent = self.extent(extent, false, span)?;
                self.text_enum(head, e, extent)
            }
            Ty::Msg(u) => self.enclosed_unit(head, (ty, u), args, extent, span),
            Ty::Error => Err(Reported),
            t => {
                let t = self.cx.show(&t);
                Err(self.cx.report(Diagnostic::error("E0431", span, format!("{t} has its own length")).hint(format!(
                    "only units, and enums of text, are given an end; several in a row are `list<{t}, 4> [4]`"
                ))))
            }
        }
    }

    fn refused(&mut self, span: Span) -> Reported {
        self.cx.report(
            Diagnostic::error("E0431", span, "the fields before `to end` here have no known length")
                .hint("give the last field its length, or read it as `bytes<N>`"),
        )
    }

    fn enclosed_unit(
        &mut self,
        head: &Head,
        (ty, u): (&ast::Type, ir::UnitId),
        args: &[ast::Expr],
        extent: &Extent,
        span: Span,
    ) -> R<(FieldId, Ty)> {
        let mut args = self.unit_args(u, args, ty.span)?;
        let open = self.reads_to_end(ty)?;
        match extent {
            Extent::ToEnd => Ok((self.unit_field(head, u, args), Ty::Msg(u))),
            Extent::Until(until) => {
                let until = self.until(until)?;
                let u = if open {
                    self.special(ty, EnclosedEnd::Until(ir::Until { peek: true, ..until.clone() }))?
                } else {
                    u
                };
                let id = self.unit_field(head, u, args);
                if !until.peek {
                    self.seq.push(id);
                    let end = self.add(None, span, &Ty::Unit, FieldKind::Literal { values: until.delimiters });
                    self.seq.push(end);
                }
                Ok((id, Ty::Msg(u)))
            }
            Extent::Length(n) => {
                let n = self.length(n)?;
                let u = if open {
                    let u = self.special(ty, EnclosedEnd::Length(args.len() as u32))?;
                    self.require(
                        build::cmp(BinOp::Le, n.clone(), build::u64(u32::MAX.into())),
                        FaultKind::TOO_LONG,
                        span,
                    );
                    args.push(build::cast(crate::compiler::T_U32, n.clone()));
                    u
                } else {
                    u
                };
                let id = self.unit_field(head, u, args);
                self.ir(id).lies_in = Some(n.clone());
                self.cx.units[self.id.index()].enclosed.push((id, n.clone()));
                if !open {
                    self.seq.push(id);
                    let taken = self.raw_len(id);
                    self.require(build::cmp(BinOp::Eq, taken, n), FaultKind::MALFORMED, span);
                }
                Ok((id, Ty::Msg(u)))
            }
            Extent::Close | Extent::Done(_) | Extent::When(_) | Extent::None => {
                Err(self.cx.error("E0421", span, "a unit lies in a length, up to a delimiter, or up to the end"))
            }
        }
    }

    fn unit_field(&mut self, head: &Head, unit: ir::UnitId, args: Vec<ir::Expr>) -> FieldId {
        self.end_bits();
        self.add(head.name, head.span, &Ty::Unit, FieldKind::Unit { unit, args })
    }

    pub fn raw_len(&mut self, f: FieldId) -> ir::Expr {
        let t = self.cx.lower_ty(&Ty::Bytes(1 << 24));
        build::len_bytes(ir::Expr::new(t, K::Raw(build::step(&build::this(), Step::Field(f)))))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn unit_source(&mut self, ty: &ast::Type) -> R<(crate::names::ModId, ast::Unit, String, ir::UnitId)> {
        let ast::TypeKind::Named { path, .. } = &ty.kind else { return Err(Reported) };
        let id = self.cx.path_item(self.module, path, "unit")?;
        let Item::Unit(unit) = self.cx.item(id, ty.span)? else { return Err(self.refused(ty.span)) };
        let item = self.cx.names.items[id].item.clone();
        match &item.kind {
            ItemKind::Unit(u) => Ok((self.cx.names.items[id].module, u.clone(), item.doc.clone(), unit)),
            _ => Err(Reported),
        }
    }

    /// Whether a unit's last field reads `to end`.
    fn reads_to_end(&mut self, ty: &ast::Type) -> R<bool> {
        let Ok((_, u, ..)) = self.unit_source(ty) else { return Ok(false) };
        Ok(matches!(
            u.fields.last().map(|f| &f.kind),
            Some(ast::FieldKind::Value {
                shape: Shape {
                    kind: ShapeKind::Bytes { extent: Extent::ToEnd, .. }
                        | ShapeKind::List { extent: ast::ListExtent::ToEnd, .. },
                    ..
                },
                ..
            })
        ))
    }

    /// The unit once more, for a place where its end is known.
    fn special(&mut self, ty: &ast::Type, end: EnclosedEnd) -> R<ir::UnitId> {
        let (module, u, doc, of) = self.unit_source(ty)?;
        let id = self.cx.new_unit(module, &u, &doc);
        if let EnclosedEnd::Length(_) = end {
            let t = self.cx.lower_ty(&U32);
            let params = &mut self.cx.m.units[id.index()].params;
            let shift = params.iter().map(|p| u32::from(p.shift) + u32::from(p.bits)).max().unwrap_or(0);
            if shift + 32 > 64 {
                return Err(self.cx.error(
                    "E0424",
                    ty.span,
                    "the parameters of a unit and its length are at most 64 bits together",
                ));
            }
            params.push(ir::UnitParam { name: END.into(), ty: t, shift: shift as u8, bits: 32 });
            self.cx.units[id.index()].params.push((END.into(), U32));
        }
        let mut b = Builder::new(self.cx, id, module);
        b.end = Some(end);
        let whole = b.unit(&u);
        let info = &mut self.cx.units[id.index()];
        (info.of, info.ok) = (Some(of), whole);
        Ok(id)
    }

    /// `to end` inside of a unit whose end is known.
    pub fn end_extent(&mut self, span: Span) -> R<Option<ir::Extent>> {
        match self.end.clone() {
            None => Ok(None),
            Some(EnclosedEnd::Until(u)) => Ok(Some(ir::Extent::Until(u))),
            Some(EnclosedEnd::Length(n)) => Ok(Some(ir::Extent::Length(self.left(n, span)?))),
        }
    }

    /// The same for a list: its items take just the bytes that are left.
    pub fn end_list(&mut self, span: Span) -> R<Option<ir::ListExtent>> {
        match self.end.clone() {
            None => Ok(None),
            Some(EnclosedEnd::Until(u)) => Ok(Some(ir::ListExtent::Until(u))),
            Some(EnclosedEnd::Length(n)) => Ok(Some(self.filling(n, span)?)),
        }
    }

    /// A list that ends when its items have taken the rest of the unit's length.
    fn filling(&mut self, param: u32, span: Span) -> R<ir::ListExtent> {
        let init = self.left(param, span)?;
        let left = ir::Expr::new(T_U64, K::Acc);
        let t = self.cx.lower_ty(&Ty::Bytes(1 << 24));
        let item = ir::Path { root: Root::Item, steps: vec![] };
        let taken = build::len_bytes(ir::Expr::new(t, K::Raw(item)));
        Ok(ir::ListExtent::Fold {
            init,
            holds: Some(build::cmp(BinOp::Le, taken.clone(), left.clone())),
            step: build::bin(T_U64, BinOp::Sub, left.clone(), taken),
            done: build::cmp(BinOp::Eq, left, build::u64(0)),
        })
    }

    /// The bytes of the unit behind the fields so far.
    fn left(&mut self, param: u32, span: Span) -> R<ir::Expr> {
        if !self.cases.is_empty() {
            return Err(self.refused(span));
        }
        let (mut before, mut least) = (build::u64(0), 0);
        for f in self.seq.clone() {
            let Some(n) = self.size_of(f) else { return Err(self.refused(span)) };
            if let K::Int(n) = *n.kind {
                least += n as u64;
            }
            before = crate::fold::fold(&self.cx.m, &build::bin(T_U64, BinOp::Add, before, n));
        }
        let whole = build::cast(T_U64, ir::Expr::new(crate::compiler::T_U32, K::UnitParam(Root::This, param)));
        let fits = |n: ir::Expr| ir::Expr::new(T_BOOL, K::Binary(BinOp::Ge, whole.clone(), n));
        if build::as_int(&before).is_none() {
            self.require(fits(before.clone()), FaultKind::MALFORMED, span);
        }
        if least > 0 {
            self.require_first(fits(build::u64(least)), span);
        }
        Ok(build::bin(T_U64, BinOp::Sub, whole, before))
    }

    /// A requirement in front of all fields.
    fn require_first(&mut self, cond: ir::Expr, span: Span) {
        let behind = self.seq.len();
        self.require(cond, FaultKind::MALFORMED, span);
        let first: Vec<_> = self.seq.drain(behind..).collect();
        self.seq.splice(0..0, first);
    }

    /// The bytes that a field took.
    fn size_of(&mut self, f: FieldId) -> Option<ir::Expr> {
        match self.ir(f).kind.clone() {
            FieldKind::UInt { bytes, advance, .. } => Some(build::u64(if advance { bytes.into() } else { 0 })),
            FieldKind::Let { .. } | FieldKind::Require { .. } | FieldKind::Nothing => Some(build::u64(0)),
            FieldKind::Literal { values } => {
                let n = values.first()?.len();
                values.iter().all(|v| v.len() == n).then(|| build::u64(n as u64))
            }
            FieldKind::Number { digits, exact: true, .. } => Some(build::u64(digits.into())),
            FieldKind::Bytes { extent: ir::Extent::Length(_) | ir::Extent::Run, trim: None, .. }
            | FieldKind::Unit { .. } => Some(self.raw_len(f)),
            FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Flag { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. } => None,
        }
    }

    /// The text, kept without a name, and its value behind it.
    fn text_enum(&mut self, head: &Head, e: ir::EnumId, extent: ir::Extent) -> R<(FieldId, Ty)> {
        let (max, texts) = self.cx.texts[&e].clone();
        let bytes = Ty::Bytes(max);
        let text = self.add(
            None,
            head.span,
            &bytes,
            FieldKind::Bytes { min: 0, max, class: None, extent, trim: None, caseless: false },
        );
        if let Some(kind) = head.or {
            self.ir(text).too_long = kind;
        }
        self.seq.push(text);
        let ty = Ty::Enum(e);
        let (t, bt) = (self.cx.lower_ty(&ty), self.cx.lower_ty(&bytes));
        let own = build::read(bt, build::step(&build::this(), Step::Field(text)));
        let open = self.cx.m.enums[e.index()].open;
        let mut value = build::int(t, u128::from(u8::MAX));
        let mut known = build::boolean(open);
        for (i, b) in texts.iter().enumerate().rev() {
            let lit = ir::Expr::new(bt, K::Bytes(b.clone()));
            let same = build::cmp(BinOp::Eq, own.clone(), lit);
            known = build::or(same.clone(), known);
            value = ir::Expr::new(t, K::If(same, build::int(t, i as u128), value));
        }
        self.require(known, FaultKind::CONSTRAINT, head.span);
        let id = self.add(head.name, head.span, &ty, FieldKind::Let { value });
        self.cx.units[self.id.index()].texts.push((text, id, e));
        Ok((id, ty))
    }
}

impl UnitInfo {
    /// The text behind an enum's field, or the field behind its text.
    pub fn text(&self, f: FieldId) -> Option<(FieldId, ir::EnumId)> {
        self.texts.iter().find(|(t, ..)| *t == f).map(|(_, v, e)| (*v, *e))
    }
    pub fn is_text_value(&self, f: FieldId) -> bool {
        self.texts.iter().any(|(_, v, _)| *v == f)
    }
}
