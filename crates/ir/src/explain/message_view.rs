//! Bytes of a message's view in compiled code: an upper bound of the structs that
//! `codegen-c/src/view.rs` and its parser define.

use super::c_layout::c_layout;
use super::message_units;
use crate::edited_fields::{self, EditedFields};
use crate::*;

/// `wl_parser`, the position of the tail, and the parser's own members, for any unit.
const PARSER: u64 = 112;
/// A member that a parser needs for a field: a length, an accumulator, or where two runs meet.
const PARSER_FIELD: u64 = 8;
/// Bytes that may be longer than this are parsed in pieces.
const LONG: u64 = 4096;
/// `wl_ext`: an offset and a length.
const EXTENT: StructLayout = StructLayout { size: 8, align: 4 };

/// Bytes of the largest view of a message. Views in connections and requests all have this size.
pub fn view_bytes(m: &Module) -> u64 {
    let edited = edited_fields::of(m);
    message_units(m).map(|u| Views { m, edited: &edited }.view(u)).max().unwrap_or(0)
}

/// Bytes of the views that a body has for messages which it reads itself.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn own_views(m: &Module, body: &Body) -> u64 {
    let edited = edited_fields::of(m);
    let views = Views { m, edited: &edited };
    let mut sum = 0u64;
    walk::stmts(&body.block, &mut |s| {
        let unit = match &s.kind {
            StmtKind::Parse { unit, .. } => Some(*unit),
            StmtKind::Reread { dst, .. } => match body.locals.get(dst.index()).map(|l| m.ty(l.ty)) {
                Some(Ty::Msg(u)) => Some(*u),
                _ => None,
            },
            _ => None,
        };
        sum = sum.saturating_add(unit.map_or(0, |u| views.view(u)))
    });
    sum
}

/// Room in a view from which on a list is told of: a message then costs time for it.
const LARGE_LIST: u64 = 64 << 10;

/// Lists that views have room for, all items side by side, because something reads an item: name,
/// most items, bytes.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn large_lists(m: &Module) -> Vec<(String, u64, u64)> {
    let edited = edited_fields::of(m);
    let views = Views { m, edited: &edited };
    let mut found = Vec::new();
    let (mut open, mut seen): (Vec<UnitId>, Vec<UnitId>) = (message_units(m).collect(), Vec::new());
    while let Some(u) = open.pop() {
        if seen.contains(&u) {
            continue;
        }
        seen.push(u);
        let unit = m.unit(u);
        for (f, field) in unit.fields.iter().enumerate() {
            match &field.kind {
                FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => open.push(*unit),
                FieldKind::List { element, max, .. } if views.keeps_items(u, FieldId(f as u32), *element) => {
                    let mut item = StructLayout::EMPTY;
                    views.field(u, *element, &mut item, &mut 0, 0);
                    let bytes = item.whole().size.saturating_mul(u64::from(*max));
                    if bytes >= LARGE_LIST {
                        found.push((
                            format!("{}.{}", unit.name, field.name.as_deref().unwrap_or("_")),
                            u64::from(*max),
                            bytes,
                        ))
                    }
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Members that a parser needs for a field of this kind.
fn parser_members(kind: &FieldKind) -> u64 {
    match kind {
        FieldKind::Bytes { extent: Extent::Length(_), max, .. } => 1 + u64::from(*max > LONG),
        FieldKind::Bytes { max, .. } => u64::from(*max > LONG),
        FieldKind::StreamBytes { .. }
        | FieldKind::StreamUnit { .. }
        | FieldKind::Pass { .. }
        | FieldKind::List { extent: ListExtent::Fold { .. }, .. } => 1,
        FieldKind::UInt { .. }
        | FieldKind::Number { .. }
        | FieldKind::Varint { .. }
        | FieldKind::Literal { .. }
        | FieldKind::Flag { .. }
        | FieldKind::Unit { .. }
        | FieldKind::List { .. }
        | FieldKind::Switch { .. }
        | FieldKind::Let { .. }
        | FieldKind::Require { .. }
        | FieldKind::Recover { .. }
        | FieldKind::Align { .. }
        | FieldKind::Nothing => 0,
    }
}

/// Size and alignment of a struct, member by member.
#[derive(Clone, Copy)]
struct StructLayout {
    size: u64,
    align: u64,
}

impl StructLayout {
    const EMPTY: StructLayout = StructLayout { size: 0, align: 1 };

    fn add(&mut self, member: StructLayout) {
        self.size = self.size.next_multiple_of(member.align).saturating_add(member.size);
        self.align = self.align.max(member.align);
    }

    fn whole(self) -> StructLayout {
        StructLayout { size: self.size.next_multiple_of(self.align), ..self }
    }
}

struct Views<'m> {
    m: &'m Module,
    edited: &'m EditedFields,
}

impl Views<'_> {
    fn view(&self, u: UnitId) -> u64 {
        let mut own = PARSER;
        let f = self.unit(u, &mut own, 0);
        own.saturating_add(f.size).next_multiple_of(8)
    }

    /// The struct of a unit. `own` sums the bytes of its parser's own members.
    fn unit(&self, u: UnitId, own: &mut u64, depth: u32) -> StructLayout {
        let mut all = StructLayout::EMPTY;
        if depth > layout::MAX_DEPTH {
            return all;
        }
        let unit = self.m.unit(u);
        for p in &unit.params {
            all.add(self.value(p.ty));
        }
        if unit.fields.iter().any(|f| matches!(f.kind, FieldKind::Align { .. })) {
            all.add(StructLayout { size: 8, align: 8 });
        }
        for f in &unit.body {
            self.field(u, *f, &mut all, own, depth);
        }
        all.whole()
    }

    fn field(&self, u: UnitId, f: FieldId, to: &mut StructLayout, own: &mut u64, depth: u32) {
        if self.has_extent(u, f) {
            to.add(EXTENT);
        }
        let field = &self.m.unit(u).fields[f.index()];
        *own += PARSER_FIELD * parser_members(&field.kind);
        match &field.kind {
            FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => {
                to.add(self.unit(*unit, own, depth + 1))
            }
            FieldKind::List { element, max, .. } => {
                to.add(StructLayout { size: 4, align: 4 });
                let mut item = StructLayout::EMPTY;
                self.field(u, *element, &mut item, own, depth + 1);
                let (n, item) = (if self.keeps_items(u, f, *element) { *max } else { 1 }, item.whole());
                to.add(StructLayout { size: item.size.saturating_mul(n.max(1).into()), ..item });
            }
            FieldKind::Switch { cases } => {
                to.add(StructLayout { size: 2, align: 2 });
                let mut union = StructLayout::EMPTY;
                for case in cases {
                    let mut one = StructLayout::EMPTY;
                    case.fields.iter().for_each(|f| self.field(u, *f, &mut one, own, depth + 1));
                    let one = one.whole();
                    union = StructLayout { size: union.size.max(one.size), align: union.align.max(one.align) };
                }
                to.add(union.whole());
            }
            FieldKind::Bytes { .. } => {
                if self.stores(u, f) {
                    to.add(EXTENT)
                }
            }
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Flag { .. }
            | FieldKind::Let { .. } => {
                if self.stores(u, f) {
                    to.add(self.value(field.ty))
                }
            }
            FieldKind::Literal { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => {}
        }
    }

    /// A value in a view; bytes are an extent, and a flag says whether there are any.
    fn value(&self, ty: TyId) -> StructLayout {
        let fixed = c_layout(self.m, ty).map(|(size, align)| StructLayout { size, align });
        fixed.unwrap_or(StructLayout { size: 12, align: 4 })
    }

    /// Merges keep values that no expression reads.
    fn stores(&self, u: UnitId, f: FieldId) -> bool {
        self.m.unit(u).fields[f.index()].value_used || !self.m.merges.is_empty()
    }

    fn has_extent(&self, u: UnitId, f: FieldId) -> bool {
        self.m.unit(u).fields[f.index()].extent_used || self.edited.extents.contains(&(u.0, f.0))
    }

    fn keeps_items(&self, u: UnitId, f: FieldId, element: FieldId) -> bool {
        let fields = &self.m.unit(u).fields;
        fields[f.index()].value_used
            || fields[element.index()].value_used
            || self.has_extent(u, element)
            || self.edited.items.contains(&(u.0, f.0))
    }
}
