//! Frames: the places of the headers of a frame unit, and reads of their fields.
//!
//! A frame local is a `wl_view *` (support/frame.h). `NAME_parse` walks the layers once, front to
//! back. For each header that is present, it notes the first byte, the end, and the end of the
//! payload. It parses only the layers that the program uses, and the layers on the way to them.
//! Fields are loaded where they are read. A field behind one of variable size has a slot in the
//! view.

use crate::frame_facts::Offset;
use crate::gen::Gen;
use crate::scope::{At, Head, Inst, Scope};
use std::collections::{BTreeMap, BTreeSet};
use wireloom_ir::frame::{checksum_flag, field_size, fixed_offset, HeaderField, HeaderReads};
use wireloom_ir::parse_graph::{layers, ParseGraph};
use wireloom_ir::*;

impl<'m> Gen<'m> {
    pub fn is_frame(&self, u: UnitId) -> bool {
        self.m.unit(u).frame.is_some()
    }

    pub fn layers(&self, u: UnitId) -> &[Layer] {
        self.m.unit(u).frame.as_ref().map_or(&[], |f| &f.layers)
    }

    /// Which header may follow which.
    pub fn graph(&self, u: UnitId) -> ParseGraph<'m> {
        let of = |map: &BTreeMap<u32, BTreeSet<u32>>| map.get(&u.0).cloned().unwrap_or_default();
        let (asked, needed) = (of(&self.frames.asked), of(&self.frames.needed));
        ParseGraph { m: self.m, unit: u, layers: layers(self.m, u), asked, needed }
    }

    /// Finds the layers that the program asks for, and numbers the slots of all frame units.
    pub fn plan_frames(&mut self) {
        let m = self.m;
        for u in 0..m.units.len() {
            let id = UnitId(u as u32);
            let Some(frame) = &m.unit(id).frame else { continue };
            let (asked, needed) = wireloom_ir::frame::needed_layers(m, id);
            self.frames.asked.insert(id.0, asked);
            self.frames.needed.insert(id.0, needed);
            self.frames.layers = self.frames.layers.max(frame.layers.len());
            for s in &frame.slots {
                self.frames.slots.insert((id.0, s.layer, s.field.0), 2 * self.frames.slot_layers.len() as u32);
                self.frames.slot_layers.push(s.layer)
            }
        }
    }

    pub fn offset(&self, frame: UnitId, layer: u32, header: UnitId, f: FieldId) -> Offset {
        // Fields of a nested unit have numbers of their own, and no slots.
        let own = self.layers(frame).get(layer as usize).is_some_and(|l| l.unit == header);
        if let Some(s) = self.frames.slots.get(&(frame.0, layer, f.0)).filter(|_| own) {
            return Offset::Slot(*s);
        }
        fixed_offset(self.m, header, f).map_or(Offset::Unknown, Offset::Fixed)
    }

    /// A header's field as a C expression.
    pub fn header_field(&mut self, i: &Inst, f: FieldId, ty: TyId) -> String {
        let m = self.m;
        let Some(Head::Header { view, frame, layer }) = &i.head else { return self.zero(ty) };
        let (frame, layer) = (*frame, *layer);
        let field = &m.unit(i.unit).fields[f.index()];
        let at = match self.offset(frame, layer, i.unit, f) {
            Offset::Fixed(0) => i.base.clone(),
            Offset::Fixed(n) => format!("{} + {n}", i.base),
            Offset::Slot(s) => self.place_in(view, &format!("slot[{s}]")),
            Offset::Unknown => {
                return match &field.kind {
                    FieldKind::Let { value } => {
                        let inner = Scope { this: Some(i.clone()), ..Scope::default() };
                        format!("({})", self.expr(&inner, value))
                    }
                    FieldKind::UInt { .. }
                    | FieldKind::Number { .. }
                    | FieldKind::Varint { .. }
                    | FieldKind::Bytes { .. }
                    | FieldKind::Literal { .. }
                    | FieldKind::Flag { .. }
                    | FieldKind::Unit { .. }
                    | FieldKind::List { .. }
                    | FieldKind::StreamBytes { .. }
                    | FieldKind::StreamUnit { .. }
                    | FieldKind::Switch { .. }
                    | FieldKind::Require { .. }
                    | FieldKind::Recover { .. }
                    | FieldKind::Pass { .. }
                    | FieldKind::Align { .. }
                    | FieldKind::Nothing => self.zero(ty),
                }
            }
        };
        if let Some(number) = UIntField::of(&field.kind) {
            return self.load_uint(&at, number, ty);
        }
        match &field.kind {
            FieldKind::Bytes { .. } => match (field_size(m, field), self.offset(frame, layer, i.unit, f)) {
                (Some(n), _) => format!("wl_b({at}, {n})"),
                (None, Offset::Slot(s)) => format!("wl_b({at}, {view}->slot[{}])", s + 1),
                _ => "wl_b(NULL, 0)".into(),
            },
            FieldKind::Let { value } => {
                let inner = Scope { this: Some(i.clone()), ..Scope::default() };
                format!("({})", self.expr(&inner, value))
            }
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
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => self.zero(ty),
        }
    }

    /// A field of whichever of several headers is there, at the same place in each (TCP's ports and
    /// UDP's): one load for all of them. None: it is another expression.
    pub fn either_header(&mut self, s: &Scope, e: &Expr) -> Option<String> {
        let either = wireloom_ir::frame::either_header(self.m, &mut ScopeReads { g: self, s }, e)?;
        let (view, field) = (&either.view, UIntField::of(&either.field)?);
        let there: Vec<String> = either.layers.iter().map(|n| format!("WL_HAS({view}, {n})")).collect();
        // The last one is known to be there if none of the others is.
        let list: Vec<u32> = either.layers.iter().copied().chain(either.last).collect();
        let first = list.iter().rev().skip(1).fold(format!("{view}->at[{}]", list[list.len() - 1]), |text, n| {
            format!("wl_choose(WL_HAS({view}, {n}), {view}->at[{n}], {text})")
        });
        let place = self.place_at(view, &first);
        let load = self.load_uint(&format!("({place} + {})", either.at), field, e.ty);
        Some(match either.last {
            Some(_) => load,
            None => format!("(({}) ? {load} : {})", there.join(" || "), self.expr(s, either.rest)),
        })
    }

    /// The unit nested in a header, all before it being of fixed size.
    pub fn inside_header(&self, at: &At) -> Option<Inst> {
        let At::Field(i, f) = at else { return None };
        let Some(Head::Header { view, frame, layer }) = &i.head else { return None };
        let FieldKind::Unit { unit, .. } = &self.m.unit(i.unit).fields[f.index()].kind else { return None };
        let base = match self.offset(*frame, *layer, i.unit, *f) {
            Offset::Slot(s) => self.place_in(view, &format!("slot[{s}]")),
            Offset::Fixed(n) => format!("{} + {n}", i.base),
            Offset::Unknown => return None,
        };
        Some(Inst { unit: *unit, at: view.clone(), base, head: i.head.clone() })
    }

    /// The bytes of a header's field.
    pub fn header_raw(&mut self, i: &Inst, view: &str, frame: UnitId, layer: u32, f: FieldId) -> String {
        let field = &self.m.unit(i.unit).fields[f.index()];
        match (self.offset(frame, layer, i.unit, f), field_size(self.m, field)) {
            (Offset::Fixed(at), Some(n)) => format!("wl_b({} + {at}, {n})", i.base),
            (Offset::Slot(s), Some(n)) => format!("wl_b({view}->p + {view}->slot[{s}], {n})"),
            (Offset::Slot(s), None) => format!("wl_b({view}->p + {view}->slot[{s}], {view}->slot[{}])", s + 1),
            _ => "wl_b(NULL, 0)".into(),
        }
    }

    pub fn load_uint(&mut self, at: &str, field: UIntField, ty: TyId) -> String {
        let UIntField { bytes, shift, bits, big, signed } = field;
        let (end, wl) = (if big { "be" } else { "le" }, self.loader(at));
        let load = match bytes {
            1 if self.xdp => format!("{wl}_u8({at})"),
            1 => format!("*({at})"),
            2 | 4 | 8 => format!("{wl}_{end}{}({at})", bytes as u32 * 8),
            16 if big => format!("((unsigned __int128){wl}_be64({at}) << 64 | {wl}_be64({at} + 8))"),
            6 if big => format!("((uint64_t){wl}_be32({at}) << 16 | {wl}_be16({at} + 4))"),
            _ => format!("{wl}_{end}({at}, {bytes})"),
        };
        let c = self.cty(ty);
        let whole = bits as u32 == bytes as u32 * 8;
        if signed {
            return format!("({c})wl_sext((uint64_t)({load}) >> {shift}, {bits})");
        }
        match (whole, shift) {
            (true, _) => format!("({c})({load})"),
            (false, 0) => format!("({c})(({load}) & {:#x}u)", mask(bits)),
            (false, _) => format!("({c})(({load}) >> {shift} & {:#x}u)", mask(bits)),
        }
    }

    pub fn header_inst(&self, frame: UnitId, layer: u32, header: UnitId, view: &str, base: &str) -> Inst {
        Inst {
            unit: header,
            at: view.into(),
            base: base.into(),
            head: Some(Head::Header { view: view.into(), frame, layer }),
        }
    }

    /// A `wl_header` initialiser.
    pub fn header_row(&self, u: UnitId) -> String {
        let m = self.m;
        let h = &m.unit(u).header;
        let off = |f: Option<FieldId>| f.and_then(|f| fixed_offset(m, u, f)).map_or(-1, i64::from);
        let bytes = |f: Option<FieldId>| f.and_then(|f| field_size(m, &m.unit(u).fields[f.index()])).unwrap_or(0);
        let (over, protocol, optional) = match h.checksum.map(|c| c.over) {
            None => ("WL_OVER_NONE", 0, false),
            Some(Over::Header) => ("WL_OVER_HEADER", 0, false),
            Some(Over::Message) => ("WL_OVER_MESSAGE", 0, false),
            Some(Over::Transport { protocol, optional }) => ("WL_OVER_TRANSPORT", protocol, optional),
        };
        let covers = h.covers.map(|c| c.field);
        let flag =
            checksum_flag(m, u).map_or(String::new(), |(at, mask)| format!(", .flag = {mask:#x}, .flag_at = {at}"));
        format!(
            "{{.sum = {}, .src = {}, .dst = {}, .covers = {}, .address_bytes = {}, .over = {over}, .protocol = {protocol}, .optional = {}, .covers_bytes = {}, .covers_own = {}{flag}}}",
            off(h.checksum.map(|c| c.field)), off(h.addresses.map(|a| a.0)), off(h.addresses.map(|a| a.1)), off(covers), bytes(h.addresses.map(|a| a.0)),
            u8::from(optional), bytes(covers), u8::from(h.covers.is_some_and(|c| c.own))
        )
    }
}

/// The frames that a scope names, by the C expressions of their views.
struct ScopeReads<'g, 'm> {
    g: &'g mut Gen<'m>,
    s: &'g Scope,
}

impl HeaderReads for ScopeReads<'_, '_> {
    type View = String;

    fn header_field(&mut self, path: &Path) -> Option<HeaderField<String>> {
        let At::Field(Inst { head: Some(Head::Header { view, frame, layer }), unit, .. }, field) =
            self.g.resolve(self.s, path)
        else {
            return None;
        };
        let own = self.g.layers(frame)[layer as usize].unit == unit;
        own.then_some(HeaderField { view, frame, layer, field })
    }

    fn frame_field(&mut self, path: &Path) -> Option<(String, UnitId, FieldId)> {
        match self.g.resolve(self.s, path) {
            At::Field(Inst { head: Some(Head::Frame), unit, at, .. }, f) => Some((at, unit, f)),
            At::Unit(_) | At::Field(..) | At::Item(..) => None,
        }
    }
}

/// Where an integer field lies in its bytes.
#[derive(Clone, Copy)]
pub(crate) struct UIntField {
    bytes: u8,
    shift: u8,
    bits: u8,
    big: bool,
    signed: bool,
}

impl UIntField {
    /// None: it is no integer field.
    pub fn of(kind: &FieldKind) -> Option<Self> {
        let FieldKind::UInt { bytes, shift, bits, big, signed, .. } = *kind else { return None };
        Some(UIntField { bytes, shift, bits, big, signed })
    }
}

fn mask(bits: u8) -> u128 {
    (1u128 << bits) - 1
}
