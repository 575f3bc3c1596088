//! Frames: where the headers of a frame unit are, and how their fields are read.
//!
//! A frame local is a `wl_view *` (support/frame.h). `NAME_open` walks the layers once, front to back, and notes of each header
//! that is there its first byte, its end and the end of its payload. Only layers that the program asks for, and those that lead to
//! them, are looked at. Fields are loaded where they are read; what lies behind a field of variable size has a slot in the view.

use crate::expr::{At, Inst, Scope};
use crate::gen::Gen;
use crate::names;
use std::collections::{BTreeMap, BTreeSet};
use wireloom_ir::frame::{field_size, fixed_offset, leads_to, step};
use wireloom_ir::*;

/// Where a field of a header begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offset {
    /// From the header's first byte.
    Fixed(u32),
    /// Kept in this slot of the view, from the frame's first byte.
    Slot(u32),
    /// Never read.
    Unknown,
}

/// What reading needs to know of the frame units of a program.
#[derive(Default)]
pub(crate) struct Frames {
    /// Layers looked at, by frame unit.
    pub needed: BTreeMap<u32, BTreeSet<u32>>,
    /// Slots by (frame unit, layer, field); the length of the field, if it varies, is in the next slot.
    slots: BTreeMap<(u32, u32, u32), u32>,
    /// The layer of each pair of slots.
    pub slot_layers: Vec<u32>,
    /// Most layers of a unit.
    pub layers: usize,
}

/// Position in a view: which header an instance is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The whole frame; `at` of the instance is the pointer to its view.
    Frame,
    /// A header; `base` of the instance points to it.
    Header { view: String, frame: UnitId, layer: u32 },
}

impl Gen<'_> {
    pub fn is_frame(&self, u: UnitId) -> bool { self.m.unit(u).frame.is_some() }

    pub fn layers(&self, u: UnitId) -> &[Layer] { self.m.unit(u).frame.as_ref().map_or(&[], |f| &f.layers) }

    /// Finds out which layers are asked for, and gives slots to what lies behind fields of variable size.
    pub fn plan_frames(&mut self) {
        let m = self.m;
        for u in 0..m.units.len() {
            let id = UnitId(u as u32);
            if !self.is_frame(id) { continue }
            let needed = self.needed_layers(id);
            self.frames.layers = self.frames.layers.max(self.layers(id).len());
            for (n, l) in self.layers(id).to_vec().iter().enumerate() {
                if needed.contains(&(n as u32)) { self.plan_slots(id, n as u32, l.unit) }
            }
            self.frames.needed.insert(id.0, needed);
        }
    }

    fn plan_slots(&mut self, frame: UnitId, layer: u32, header: UnitId) {
        let m = self.m;
        let mut fixed = true;
        for f in &m.unit(header).body {
            let field = &m.unit(header).fields[f.index()];
            let varies = field_size(m, field).is_none();
            let read = field.value_used || field.extent_used;
            if read && (varies || !fixed) {
                self.frames.slots.insert((frame.0, layer, f.0), 2 * self.frames.slot_layers.len() as u32);
                self.frames.slot_layers.push(layer);
            }
            fixed &= !varies;
        }
    }

    fn needed_layers(&self, u: UnitId) -> BTreeSet<u32> {
        let m = self.m;
        let layers = self.layers(u);
        let mut asked = BTreeSet::new();
        let mut all = false;
        let by_field = |f: FieldId| layers.iter().position(|l| l.switch == f || l.header == f).map(|n| n as u32);
        m.bodies(&mut |body| {
            let is = |l: LocalId| body.locals.get(l.index()).is_some_and(|l| *m.ty(l.ty) == Ty::Msg(u));
            walk::block_exprs(&body.block, &mut |e| match &*e.kind {
                ExprKind::Payload(l, None) if is(*l) => all = true,
                ExprKind::Payload(l, Some(n)) | ExprKind::ChecksumOk(l, n) if is(*l) => { asked.insert(*n); }
                _ => if let Some(Path { root: Root::Local(l), steps }) = walk::path_of(e) {
                    if let (true, Some(Step::Field(f))) = (is(*l), steps.first()) { asked.extend(by_field(*f)) }
                },
            });
            walk::stmts(&body.block, &mut |s| match &s.kind {
                StmtKind::Frame { frame, act } if is(*frame) => match act {
                    // What covers the place of a change must be known.
                    FrameAct::Insert { .. } | FrameAct::Remove { .. } | FrameAct::Payload { .. } => all = true,
                    FrameAct::Set { layer, .. } => { asked.insert(*layer); asked.extend(self.summed_with(layers, *layer)) }
                    FrameAct::Checksum { layer } => { asked.insert(*layer); }
                    FrameAct::Send { .. } => {}
                },
                _ => {}
            });
        });
        for e in m.steer.iter().filter(|s| s.unit == u).flat_map(|s| &s.keys) {
            walk::expr(e, &mut |e| if let Some(Path { root: Root::Local(LocalId(0)), steps }) = walk::path_of(e) {
                if let Some(Step::Field(f)) = steps.first() { asked.extend(by_field(*f)) }
            });
        }
        if all { return (0..layers.len() as u32).collect() }
        // What a header comes after, and what a later one's condition looks at.
        let mut needed = asked;
        loop {
            let more: BTreeSet<u32> = needed.iter().flat_map(|n| layers[*n as usize].after.iter().filter_map(|a| a.layer)).filter(|n| !needed.contains(n)).collect();
            if more.is_empty() { return needed }
            needed.extend(more);
        }
    }

    /// Layers whose checksum a change in this one may touch.
    fn summed_with(&self, layers: &[Layer], layer: u32) -> Vec<u32> {
        let over = |l: &Layer| self.m.unit(l.unit).header.checksum.map(|c| c.over);
        let addresses = self.m.unit(layers[layer as usize].unit).header.addresses.is_some();
        (0..layers.len() as u32)
            .filter(|n| *n != layer && matches!(over(&layers[*n as usize]), Some(Over::Message | Over::Transport { .. })))
            .filter(|n| (addresses && leads_to(layers, layer, *n)) || leads_to(layers, *n, layer))
            .collect()
    }

    pub fn offset(&self, frame: UnitId, layer: u32, header: UnitId, f: FieldId) -> Offset {
        // Fields of a nested unit have numbers of their own, and no slots.
        let own = self.layers(frame).get(layer as usize).is_some_and(|l| l.unit == header);
        if let Some(s) = self.frames.slots.get(&(frame.0, layer, f.0)).filter(|_| own) { return Offset::Slot(*s) }
        fixed_offset(self.m, header, f).map_or(Offset::Unknown, Offset::Fixed)
    }

    /// A header's field as a C expression.
    pub fn header_field(&mut self, i: &Inst, view: &str, frame: UnitId, layer: u32, f: FieldId, ty: TyId) -> String {
        let m = self.m;
        let field = &m.unit(i.unit).fields[f.index()];
        let at = match self.offset(frame, layer, i.unit, f) {
            Offset::Fixed(0) => i.base.clone(),
            Offset::Fixed(n) => format!("{} + {n}", i.base),
            Offset::Slot(s) => format!("{view}->p + {view}->slot[{s}]"),
            Offset::Unknown => return match &field.kind {
                FieldKind::Let { value } => {
                    let inner = Scope { this: Some(i.clone()), ..Scope::default() };
                    format!("({})", self.expr(&inner, value))
                }
                _ => self.zero(ty),
            },
        };
        match &field.kind {
            FieldKind::UInt { bytes, shift, bits, big, signed, .. } => self.load_uint(&at, *bytes, *shift, *bits, *big, *signed, ty),
            FieldKind::Bytes { .. } => match (field_size(m, field), self.offset(frame, layer, i.unit, f)) {
                (Some(n), _) => format!("wl_b({at}, {n})"),
                (None, Offset::Slot(s)) => format!("wl_b({at}, {view}->slot[{}])", s + 1),
                _ => "wl_b(NULL, 0)".into(),
            },
            FieldKind::Let { value } => {
                let inner = Scope { this: Some(i.clone()), ..Scope::default() };
                format!("({})", self.expr(&inner, value))
            }
            _ => self.zero(ty),
        }
    }

    /// The unit nested in a header, all before it being of fixed size.
    pub fn inside_header(&self, at: &At) -> Option<Inst> {
        let At::Field(i, f) = at else { return None };
        let Some(Head::Header { view, frame, layer }) = &i.head else { return None };
        let FieldKind::Unit { unit, .. } = &self.m.unit(i.unit).fields[f.index()].kind else { return None };
        let base = match self.offset(*frame, *layer, i.unit, *f) {
            Offset::Slot(s) => format!("{view}->p + {view}->slot[{s}]"),
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

    #[allow(clippy::too_many_arguments)]
    fn load_uint(&mut self, at: &str, bytes: u8, shift: u8, bits: u8, big: bool, signed: bool, ty: TyId) -> String {
        let end = if big { "be" } else { "le" };
        let load = match bytes {
            1 => format!("*({at})"),
            2 | 4 | 8 => format!("wl_{end}{}({at})", bytes as u32 * 8),
            16 if big => format!("((unsigned __int128)wl_be64({at}) << 64 | wl_be64({at} + 8))"),
            6 if big => format!("((uint64_t)wl_be32({at}) << 16 | wl_be16({at} + 4))"),
            _ => format!("wl_{end}({at}, {bytes})"),
        };
        let c = self.cty(ty);
        let whole = bits as u32 == bytes as u32 * 8;
        if signed { return format!("({c})wl_sext((uint64_t)({load}) >> {shift}, {bits})") }
        match (whole, shift) {
            (true, _) => format!("({c})({load})"),
            (false, 0) => format!("({c})(({load}) & {:#x}u)", mask(bits)),
            (false, _) => format!("({c})(({load}) >> {shift} & {:#x}u)", mask(bits)),
        }
    }

    /// The description of each layer's header, for the functions of frame.h, and the function that opens a frame.
    pub fn frame_unit(&mut self, u: UnitId) {
        let m = self.m;
        let name = names::unit(m, u);
        if !self.first(&format!("frame {}", u.0)) { return }
        let layers = self.layers(u).to_vec();
        let rows: String = layers.iter().map(|l| format!("{}, /* {} */\n", self.header_row(l.unit), names::comment(m.unit(u).fields[l.header.index()].name.as_deref().unwrap_or("")))).collect();
        self.data.push_str(&format!("/* Headers of {}. */\nstatic const wl_header {name}_headers[] = {{\n{rows}}};\n", names::comment(&m.unit(u).name)));
        let needed = self.frames.needed.get(&u.0).cloned().unwrap_or_default();
        let mut text = format!(
            "/* Finds the headers of a frame: {}. A header that is cut off or breaks a rule is absent, with all behind it. */\n\
             WL_INLINE void {name}_open(wl_fx *x, wl_view *v, wl_frame *f) {{\n(void)x;\nv->f = f;\nv->p = f->p;\nv->n = f->n > 65535 ? 65535 : f->n;\nv->end = v->n;\nv->top = 0;\nv->has = 0;\n\
             uint8_t net = 0xff;\n(void)net;\nuint32_t cut = f->wire > f->n ? f->wire - f->n : 0; /* how far a length may go past what is there */\n(void)cut;\n",
            names::comment(&m.unit(u).name)
        );
        for n in needed { text.push_str(&self.open_layer(u, n, &layers[n as usize])) }
        text.push_str("}\n\n");
        self.helpers.push_str(&text);
    }

    fn open_layer(&mut self, u: UnitId, n: u32, l: &Layer) -> String {
        let m = self.m;
        let field = &m.unit(u).fields[l.header.index()];
        let (header, title) = (m.unit(l.unit), names::comment(field.name.as_deref().unwrap_or("")));
        let whole = Inst { unit: u, at: "v".into(), base: "v->p".into(), head: Some(Head::Frame) };
        let outer = Scope { this: Some(whole), ..Scope::default() };
        let mut text = format!("/* {title} */\nv->at[{n}] = 0;\ndo {{\nuint32_t at;\n");
        for a in &l.after {
            let cond = a.cond.as_ref().map(|c| self.expr(&outer, c));
            let (there, at) = match a.layer { Some(k) => (Some(format!("WL_HAS(v, {k})")), format!("v->to[{k}]")), None => (None, "0".into()) };
            let test = [there, cond].into_iter().flatten().collect::<Vec<_>>().join(" && ");
            text.push_str(&match test.as_str() { "" => format!("at = {at}; else "), t => format!("if ({t}) at = {at}; else ") });
        }
        // A layer at the frame's beginning without a condition is always tried.
        let text_always = text.replace("\nat = 0; else ", "\nat = 0;\n");
        let always = text_always != text;
        text = text_always;
        text.push_str(if always { "" } else { "break;\n" });
        let least = header.body.iter().map(|f| step(m, &header.fields[f.index()])).sum::<u32>();
        text.push_str(&format!("const uint8_t *h = v->p + at;\nuint32_t left = v->end - at, size = {least};\n(void)h;\n"));
        let place = field.place.0;
        text.push_str(&format!("if (WL_UNLIKELY(left < {least})) {{ wl_header_fault(x, WL_F_TRUNCATED, {place}); break; }}\n"));
        text.push_str(&self.header_rules(u, n, l.unit));
        if let Some(c) = header.header.covers {
            let inst = self.header_inst(u, n, l.unit, "v", "h");
            let value = self.header_field(&inst, "v", u, n, c.field, header.fields[c.field.index()].ty);
            let own = if c.own { "" } else { " + size" };
            text.push_str(&format!(
                "uint32_t covers = (uint32_t)({value}){own};\nif (WL_UNLIKELY(covers < size || covers > left + cut)) {{ wl_header_fault(x, WL_F_CONSTRAINT, {}); break; }}\n\
                 if (covers < left) v->end = at + covers;\n",
                header.fields[c.field.index()].place.0
            ));
        }
        if let Some(more) = header.header.partial.filter(|_| self.lengths_follow(u, n)) {
            let inst = self.header_inst(u, n, l.unit, "v", "h");
            let value = self.header_field(&inst, "v", u, n, more, header.fields[more.index()].ty);
            text.push_str(&format!("if (WL_UNLIKELY({value})) cut = 65535;\n"));
        }
        let net = if header.header.addresses.is_some() { format!("net = {n};\n") } else { String::new() };
        text.push_str(&format!(
            "v->at[{n}] = (uint16_t)at;\nv->to[{n}] = (uint16_t)(at + size);\nv->lim[{n}] = (uint16_t)v->end;\nv->net[{n}] = net;\n{net}v->top = at + size;\nv->has |= UINT64_C(1) << {n};\n}} while (0);\n"
        ));
        text
    }

    /// Whether a header behind a layer is looked for that has a length.
    fn lengths_follow(&self, u: UnitId, n: u32) -> bool {
        let layers = self.layers(u);
        self.frames.needed.get(&u.0).into_iter().flatten().any(|k| *k > n && self.m.unit(layers[*k as usize].unit).header.covers.is_some() && leads_to(layers, n, *k))
    }

    /// Checks of one header, in wire order; `size` grows by what is of variable size.
    fn header_rules(&mut self, u: UnitId, n: u32, header: UnitId) -> String {
        let m = self.m;
        let mut text = String::new();
        let inst = self.header_inst(u, n, header, "v", "h");
        let scope = Scope { this: Some(inst.clone()), ..Scope::default() };
        // Offset of the field at hand, behind fields of variable size in `o`.
        let mut fixed = Some(0u32);
        for f in m.unit(header).body.clone() {
            let field = &m.unit(header).fields[f.index()];
            let slot = self.frames.slots.get(&(u.0, n, f.0)).copied();
            if let Some(s) = slot {
                let at = fixed.map_or("o".into(), |n| n.to_string());
                text.push_str(&format!("v->slot[{s}] = (uint16_t)(at + {at});\n"));
            }
            if let Some(ranges) = &field.within {
                let bits = match &field.kind { FieldKind::UInt { bits, .. } => *bits as u32, _ => 64 };
                let value = self.header_field(&inst, "v", u, n, f, field.ty);
                let test = self.in_ranges(&format!("({value})"), ranges, bits);
                text.push_str(&fails(&test, field.bad.0, field.place.0));
            }
            match &field.kind {
                FieldKind::Require { cond } => {
                    let test = self.expr(&scope, cond);
                    text.push_str(&fails(&test, field.bad.0, field.place.0));
                }
                FieldKind::Literal { values } => {
                    let at = fixed.map_or("o".into(), |n| n.to_string());
                    let tests: Vec<_> = values.iter().map(|v| format!("memcmp(h + {at}, {}, {}) == 0", names::literal(v), v.len())).collect();
                    text.push_str(&fails(&format!("({})", tests.join(" || ")), field.bad.0, field.place.0));
                }
                FieldKind::Bytes { max, extent: Extent::Length(e), .. } if field_size(m, field).is_none() => {
                    let value = self.expr(&scope, e);
                    if let Some(n) = fixed.take() { text.push_str(&format!("uint32_t o = {n};\n")) }
                    text.push_str(&format!("{{ uint64_t len = {value};\nif (WL_UNLIKELY(len > {max})) {{ wl_header_fault(x, {}, {}); break; }}\n", field.too_long.0, field.place.0));
                    text.push_str(&format!("if (WL_UNLIKELY(len > left - size)) {{ wl_header_fault(x, WL_F_TRUNCATED, {}); break; }}\nsize += (uint32_t)len;\n", field.place.0));
                    if let Some(s) = slot { text.push_str(&format!("v->slot[{}] = (uint16_t)len;\n", s + 1)) }
                    text.push_str("o += (uint32_t)len; }\n");
                }
                _ => {}
            }
            let advance = step(m, field);
            match &mut fixed {
                Some(n) => *n += advance,
                None if advance > 0 => text.push_str(&format!("o += {advance};\n")),
                None => {}
            }
        }
        text
    }

    pub fn header_inst(&self, frame: UnitId, layer: u32, header: UnitId, view: &str, base: &str) -> Inst {
        Inst { unit: header, at: view.into(), base: base.into(), head: Some(Head::Header { view: view.into(), frame, layer }) }
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
        format!(
            "{{.sum = {}, .src = {}, .dst = {}, .covers = {}, .address_bytes = {}, .over = {over}, .protocol = {protocol}, .optional = {}, .covers_bytes = {}, .covers_own = {}}}",
            off(h.checksum.map(|c| c.field)), off(h.addresses.map(|a| a.0)), off(h.addresses.map(|a| a.1)), off(covers), bytes(h.addresses.map(|a| a.0)),
            u8::from(optional), bytes(covers), u8::from(h.covers.is_some_and(|c| c.own))
        )
    }
}

fn fails(test: &str, kind: u16, place: u32) -> String { format!("if (WL_UNLIKELY(!({test}))) {{ wl_header_fault(x, {kind}, {place}); break; }}\n") }

fn mask(bits: u8) -> u128 { (1u128 << bits) - 1 }
