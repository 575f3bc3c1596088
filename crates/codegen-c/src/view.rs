//! Structs for a parser's results of a unit: the used values and extents of its fields.
//!
//! Fields of different cases of one switch share their room. A message's view is `wl_parser`, the
//! parser's own slots, and the unit's struct `f`.

use crate::gen::Gen;
use crate::names;
use wireloom_ir::*;

impl Gen<'_> {
    /// Whether a list keeps all its items (else one is enough, for the grammar's own use).
    pub fn keeps_items(&self, u: UnitId, f: FieldId, element: FieldId) -> bool {
        let fields = &self.m.unit(u).fields;
        fields[f.index()].value_used
            || fields[element.index()].value_used
            || self.has_extent(u, element)
            || self.items.contains(&(u.0, f.0))
    }

    /// Whether a field's value is a member of the struct.
    pub fn stores(&self, u: UnitId, f: FieldId) -> bool {
        let field = &self.m.unit(u).fields[f.index()];
        match &field.kind {
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Flag { .. }
            | FieldKind::Bytes { .. } => field.value_used || self.values.contains(&(u.0, f.0)),
            FieldKind::Let { .. } => field.value_used && !grammar::computed::again(self.m, field),
            FieldKind::Literal { .. }
            | FieldKind::Unit { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => false,
        }
    }

    /// The C type in which a field's value is stored in a view.
    pub fn stored_in_view(&mut self, u: UnitId, f: FieldId) -> String {
        let field = &self.m.unit(u).fields[f.index()];
        match &field.kind {
            FieldKind::Bytes { .. } => "wl_ext".into(),
            FieldKind::Let { .. } if layout::has_bytes(self.m, field.ty) => "struct { bool has; wl_ext v; }".into(),
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::Unit { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => self.cty(field.ty),
        }
    }

    /// Defines the struct of a unit (and of those nested in it) and gives its name.
    pub fn unit_struct(&mut self, u: UnitId) -> String {
        let name = names::unit(self.m, u);
        if !self.first(&format!("unit {}", u.0)) {
            return name;
        }
        let unit = self.m.unit(u);
        let mut text = String::new();
        for p in &unit.params {
            text.push_str(&format!("{} {};\n", self.cty(p.ty), names::param(&p.name)))
        }
        if unit.fields.iter().any(|f| matches!(f.kind, FieldKind::Align { .. })) {
            text.push_str("uint64_t start_;\n")
        }
        for &f in &unit.body {
            self.field_members(u, f, &mut text)
        }
        let doc = names::comment(&unit.name);
        self.types.push_str(&format!("/* unit {doc} */\ntypedef struct {name} {{\n{text}}} {name};\n"));
        name
    }

    fn field_members(&mut self, u: UnitId, f: FieldId, text: &mut String) {
        let m = self.m;
        let field = &m.unit(u).fields[f.index()];
        let name = names::field(m, u, f);
        if self.has_extent(u, f) {
            text.push_str(&format!("wl_ext {name}__x;\n"))
        }
        match &field.kind {
            FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => {
                let inner = self.unit_struct(*unit);
                text.push_str(&format!("{inner} {name};\n"));
            }
            FieldKind::List { element, max, .. } => {
                let list = self.list_struct(u, f, *element, *max);
                text.push_str(&format!("struct {list} {name};\n"));
            }
            FieldKind::Switch { cases } => {
                text.push_str(&format!("uint16_t {name}__case;\nunion {{\n"));
                for case in cases {
                    let mut inner = String::new();
                    for &f in &case.fields {
                        self.field_members(u, f, &mut inner)
                    }
                    if !inner.is_empty() {
                        text.push_str(&format!("struct {{\n{inner}}};\n"))
                    }
                }
                if text.ends_with("union {\n") {
                    text.truncate(text.len() - "union {\n".len())
                } else {
                    text.push_str("};\n")
                }
            }
            _ if self.stores(u, f) => {
                let c = self.stored_in_view(u, f);
                text.push_str(&format!("{c} {name};\n"));
            }
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => {}
        }
    }

    fn list_struct(&mut self, u: UnitId, f: FieldId, element: FieldId, max: u32) -> String {
        let m = self.m;
        let name = format!("{}_l", names::field_of(m, u, f));
        let all = self.keeps_items(u, f, element);
        let mut item = String::new();
        match &m.unit(u).fields[element.index()].kind {
            FieldKind::Unit { unit, .. } => {
                let inner = self.unit_struct(*unit);
                item.push_str(&format!("{inner} v; "));
            }
            FieldKind::List { .. } | FieldKind::Switch { .. } => {
                // Lists of lists and of switches have no items that could be named; their parser's
                // members are kept once.
                let mut inner = String::new();
                self.field_members(u, element, &mut inner);
                item.push_str(&inner);
            }
            _ if all || m.unit(u).fields[element.index()].value_used => {
                let c = self.stored_in_view(u, element);
                item.push_str(&format!("{c} v; "));
            }
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => {}
        }
        if self.has_extent(u, element) {
            item.push_str("wl_ext x; ")
        }
        let at = if item.is_empty() {
            String::new()
        } else {
            format!(" struct {{ {item}}} at[{}];", if all { max.max(1) } else { 1 })
        };
        if self.first(&name) {
            self.types.push_str(&format!("struct {name} {{ uint32_t n;{at} }};\n"))
        }
        name
    }
}
