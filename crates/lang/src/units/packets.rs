//! `packet` items: a graph of headers, and members computed from them. Each header is a switch of
//! the frame unit: present or absent.

use super::findings::source;
use super::info::{Member, PacketInfo};
use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use ir::{FieldId, FieldKind, Step};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Ident, Span};
use wireloom_syntax::Diagnostic;

/// The fields of every packet beside its headers.
pub const BUILTIN: &[&str] = &["len", "payload", "time", "port", "mark"];

/// Most headers of a packet type: backends keep a place for each.
const MAX_LAYERS: usize = 64;

impl Compiler<'_> {
    pub fn packet_item(&mut self, module: ModId, p: &ast::Packet, doc: &str) -> R<ir::UnitId> {
        let before = self.errors();
        let shell = ast::Unit { name: p.name.clone(), params: vec![], fields: vec![] };
        let id = self.new_unit(module, &shell, doc);
        self.m.units[id.index()].frame = Some(ir::Frame::default());
        if p.headers.len() > MAX_LAYERS {
            self.error("E0620", p.name.span, format!("a packet has at most {MAX_LAYERS} headers"));
        }
        for (n, h) in p.headers.iter().enumerate().take(MAX_LAYERS) {
            let made = self.layer(module, id, h, n);
            self.settle(made, p.name.span);
        }
        if p.headers.is_empty() {
            self.report(
                Diagnostic::error("E0620", p.name.span, "a packet without headers").hint("write `eth: Ethernet`"),
            );
        }
        for (n, ..) in &p.lets {
            self.free_member(id, n);
        }
        for (i, (n, ..)) in p.lets.iter().enumerate() {
            if p.lets[..i].iter().any(|(o, ..)| o.name == n.name) {
                self.error("E0203", n.span, format!("`{}` is defined twice", n.name));
            }
        }
        let ok = self.errors() == before;
        self.units[id.index()].packet = Some(Rc::new(PacketInfo { module, lets: p.lets.clone() }));
        self.units[id.index()].ok = ok;
        if ok {
            self.check_lets(id, p);
        }
        Ok(id)
    }

    /// Members are lowered where they are used; here they are checked once, uses or not.
    fn check_lets(&mut self, id: ir::UnitId, p: &ast::Packet) {
        for (n, ..) in &p.lets {
            let before = self.errors();
            let mut l = Lower::new(self, 0, Kind::Handler);
            let local = l.new_local("p", &Ty::Msg(id));
            let frame = Val::path(Ty::Msg(id), build::msg(local));
            let made = l.field_of(frame, n, n.span);
            if made.is_err() && self.errors() == before {
                self.error("E0620", n.span, format!("`{}` cannot be computed", n.name));
            }
        }
    }

    fn free_member(&mut self, id: ir::UnitId, n: &Ident) -> bool {
        if BUILTIN.contains(&n.name.as_str()) {
            self.report(
                Diagnostic::error("E0203", n.span, format!("every packet has a `{}` already", n.name))
                    .hint("choose another name"),
            );
            return false;
        }
        if let Some(first) = self.units[id.index()].member(&n.name).map(|m| m.span) {
            self.report(
                Diagnostic::error("E0203", n.span, format!("`{}` is defined twice", n.name))
                    .label("defined again here")
                    .also(first, "first defined here"),
            );
            return false;
        }
        true
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn layer(&mut self, module: ModId, id: ir::UnitId, h: &ast::PacketHeader, n: usize) -> R<()> {
        let unit = match self.ty(module, &h.unit)? {
            Ty::Msg(u) if self.m.units[u.index()].frame.is_none() => u,
            Ty::Error => return Err(Reported),
            t => {
                let s = self.show(&t);
                return Err(self.report(Diagnostic::error(
                    "E0620",
                    h.unit.span,
                    format!("a header is a unit, not {s}"),
                )));
            }
        };
        if !self.units[unit.index()].params.is_empty() {
            return Err(self.error("E0620", h.unit.span, "a header's unit has no parameters"));
        }
        if let Some(f) = self.unframed(unit) {
            let d = Diagnostic::error("E0621", h.unit.span, format!("`{}` cannot be a header", self.m.units[unit.index()].name)).label("not a header's form")
                .also(f, "this field has no place in a header").hint("a header's fields have a fixed width, or are bytes whose length earlier fields give; `parse` reads other forms from such bytes");
            return Err(self.report(d));
        }
        if let Some(f) = self.uneven_checksum(unit) {
            let text = format!("`{}` cannot be a header", self.m.units[unit.index()].name);
            let d = Diagnostic::error("E0621", h.unit.span, text)
                .label("not a header's form")
                .also(f, "this checksum stands at no fixed even offset")
                .hint("a checksum is the sum of pairs of bytes from the header's first one; fields of fixed size and an even number of bytes stand before it");
            return Err(self.report(d));
        }
        if !self.free_member(id, &h.name) {
            return Err(Reported);
        }
        let mut after = Vec::new();
        for a in &h.after {
            after.push(self.after(module, id, a)?);
        }
        if after.is_empty() {
            after.push(ir::After { layer: None, cond: None });
        }
        let place = self.place(format!("{}.{}", self.m.units[id.index()].name, h.name.name), h.name.span);
        let (span, ty) = (self.span(h.name.span), self.lower_ty(&Ty::Unit));
        let field = |name: Option<&str>, doc: &str, kind| ir::Field {
            name: name.map(str::to_string),
            span,
            ty,
            kind,
            place,
            too_long: ir::FaultKind::TOO_LONG,
            bad: ir::FaultKind::MALFORMED,
            doc: doc.to_string(),
            within: None,
            lies_in: None,
            computed: None,
            value_used: false,
            extent_used: false,
        };
        let fields = &mut self.m.units[id.index()].fields;
        let header = FieldId(fields.len() as u32);
        let switch = FieldId(header.0 + 1);
        fields.push(field(Some(&h.name.name), &h.doc, FieldKind::Unit { unit, args: vec![] }));
        let there = ir::Case {
            name: Some(h.name.name.clone()),
            guard: ir::Guard::When(build::boolean(true)),
            fields: vec![header],
        };
        let absent = ir::Case { name: None, guard: ir::Guard::Else, fields: vec![] };
        fields.push(field(None, "", FieldKind::Switch { cases: vec![there, absent] }));
        let u = &mut self.m.units[id.index()];
        u.body.push(switch);
        u.tail = u.body.len() as u32;
        if let Some(f) = &mut u.frame {
            f.layers.push(ir::Layer { switch, header, unit, after });
        }
        let _ = n;
        self.units[id.index()].members.push(Member {
            name: h.name.name.clone(),
            span: h.name.span,
            field: header,
            ty: Ty::Msg(unit),
            cases: vec![(switch, 0)],
            caseless: false,
        });
        Ok(())
    }

    fn after(&mut self, module: ModId, id: ir::UnitId, a: &ast::PacketAfter) -> R<ir::After> {
        let Some(m) = self.units[id.index()].member(&a.header.name).cloned() else {
            let known: Vec<String> = self.units[id.index()].members.iter().map(|m| m.name.clone()).collect();
            let hint = crate::names::suggest(&a.header.name, known.iter().map(String::as_str));
            let d = Diagnostic::error(
                "E0201",
                a.header.span,
                format!("no header `{}` stands before this one", a.header.name),
            )
            .label("unknown header")
            .note(format!("before it: {}", known.join(", ")));
            return Err(self.report(crate::names::with_hint(d, hint)));
        };
        let layer = self.m.units[id.index()]
            .frame
            .as_ref()
            .and_then(|f| f.layers.iter().position(|l| l.header == m.field))
            .map(|n| n as u32);
        let Some(e) = &a.cond else { return Ok(ir::After { layer, cond: None }) };
        let mut l = Lower::new(self, module, Kind::Grammar(id));
        l.dot = Some(Val::path(m.ty.clone(), build::step(&build::this(), Step::Field(m.field))));
        let cond = l.cond(e)?;
        if !l.out.is_empty() {
            return Err(l.involved(e.span));
        }
        Ok(ir::After { layer, cond: Some(cond) })
    }

    /// A checksum that would be no pair of the bytes that it sums up, or whose place moves.
    fn uneven_checksum(&self, unit: ir::UnitId) -> Option<Span> {
        let field = self.m.units[unit.index()].header.checksum?.field;
        let at = ir::frame::fixed_offset(&self.m, unit, field);
        let uneven = at.is_none_or(|at| at % 2 == 1);
        uneven.then(|| source(self.m.units[unit.index()].fields[field.index()].span))
    }

    /// The first field that a header cannot have: text, streams, delimiters, switches, lists.
    /// Backends find a header's fields by counting, and read no further than the lengths before
    /// them say.
    fn unframed(&self, unit: ir::UnitId) -> Option<Span> {
        let u = &self.m.units[unit.index()];
        let bad = u.fields.iter().find(|f| !self.fits_header(f))?;
        Some(Span { file: ast::FileId(bad.span.file), start: bad.span.start, end: bad.span.end })
    }

    fn fits_header(&self, f: &ir::Field) -> bool {
        let size = ir::frame::field_size(&self.m, f);
        match &f.kind {
            FieldKind::UInt { .. } | FieldKind::Let { .. } | FieldKind::Require { .. } | FieldKind::Nothing => true,
            FieldKind::Literal { values } => values.windows(2).all(|w| w[0].len() == w[1].len()),
            FieldKind::Bytes { min, class, extent: ir::Extent::Length(_), trim, .. } => {
                class.is_none() && trim.is_none() && (*min == 0 || size.is_some_and(|n| u64::from(n) >= *min))
            }
            FieldKind::Unit { unit, args } => args.is_empty() && size.is_some() && self.unframed(*unit).is_none(),
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
            | FieldKind::Align { .. } => false,
        }
    }
}
