//! Parsing a frame: finding its headers, front to back.
//!
//! As a rule at most one header can follow a header. The conditions of its successors exclude each
//! other, or their first bits do (IPv4 and IPv6 behind an MPLS label). Then `NAME_parse` jumps from
//! header to header. So a frame costs its own headers, not the whole graph of layers. Other graphs
//! are tried layer by layer.
//!
//! `NAME_fast` is the same for the common header stacks, and `NAME_most` for the most common one.
//! `NAME_known` is for frames that are known to have it (`fast_path.rs`).

use crate::frame::UIntField;
use crate::gen::Gen;
use crate::names;
use crate::scope::{Head, Inst, Scope};
use wireloom_ir::frame::{contradict, field_size, has_alternative, step};
use wireloom_ir::header_bits::{always, value, Known};
use wireloom_ir::parse_graph::{least, Chain};
use wireloom_ir::*;

/// The fate of a frame whose header is wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Miss {
    /// A fault is counted, the header is absent.
    Counted,
    /// The frame is not of a common shape.
    Common,
    /// Another header, as `is` says. The tests then read bytes of that other header, and must not
    /// be a branch.
    Other,
    /// Nothing: all tests of it hold.
    Never,
}

impl Miss {
    /// Leaves if something holds that must not.
    pub(crate) fn if_so(self, bad: &str, kind: &str, place: u32) -> String {
        match self {
            Miss::Counted => format!("if (WL_UNLIKELY({bad})) {{ wl_header_fault(x, {kind}, {place}); break; }}\n"),
            Miss::Common => format!("if (WL_UNLIKELY({bad})) return false;\n"),
            Miss::Other => format!("is &= !({bad});\n"),
            Miss::Never => String::new(),
        }
    }
}

impl<'m> Gen<'m> {
    /// The description of each layer's header, for the functions of frame.h, and the function that
    /// opens a frame.
    pub fn frame_unit(&mut self, u: UnitId) {
        let m = self.m;
        let name = names::unit(m, u);
        if !self.first(&format!("frame {}", u.0)) {
            return;
        }
        let rows: String = self
            .layers(u)
            .iter()
            .map(|l| format!("{}, /* {} */\n", self.header_row(l.unit), self.layer_title(u, l)))
            .collect();
        self.data.push_str(&format!(
            "/* Headers of {}. */\nstatic const wl_header {name}_headers[] = {{\n{rows}}};\n",
            names::comment(&m.unit(u).name)
        ));
        let chain = self.graph(u).chain();
        let body = match &chain {
            Some(chain) => self.open_chain(u, chain),
            None => self.open_layers(u),
        };
        self.helpers.push_str(&format!(
            "/* Finds the headers of a frame: {}. A header that is cut off or breaks a rule is absent, with all behind it. */\n\
             WL_INLINE void {name}_parse(wl_fx *x, wl_view *v, wl_frame *f) {{\n(void)x;\nv->f = f;\nv->p = f->p;\nv->n = f->n;\nv->end = f->n > 65535 ? 65535 : f->n;\nv->top = 0;\nv->has = 0;\n\
             memset(v->at, 0, sizeof v->at);\n\
             uint8_t net = 0xff;\n(void)net;\nuint32_t cut = f->wire > v->end ? f->wire - v->end : 0; /* how far a length may go past what is there */\n(void)cut;\n{body}}}\n\n",
            names::comment(&m.unit(u).name)
        ));
        if let Some((common, most)) = chain.and_then(|c| self.open_common(u, &c)) {
            let mut add = |what: &str, which: &str, body: &str| {
                self.helpers.push_str(&format!(
                "/* The same for frames of {which}; false: it is of another. */\n\
                 WL_INLINE bool {name}_{what}(wl_view *v, wl_frame *f) {{\nv->f = f;\nv->p = f->p;\nv->n = v->end = f->n;\nv->top = 0;\nv->has = 0;\nmemset(v->at, 0, sizeof v->at);\nuint8_t net = 0xff;\n(void)net;\n{body}}}\n\n"
            ))
            };
            add("fast", "the common shapes", &common);
            if let Some(most) = &most {
                add("most", "the shape that most have", most);
                self.frames.most.insert(u.0);
            }
            self.frames.common.insert(u.0);
        }
    }

    /// The place of a fault of a header that is cut off.
    fn header_place(&self, u: UnitId, n: u32) -> u32 {
        self.m.unit(u).fields[self.layers(u)[n as usize].header.index()].place.0
    }

    pub(crate) fn layer_title(&self, u: UnitId, l: &Layer) -> String {
        names::comment(self.m.unit(u).fields[l.header.index()].name.as_deref().unwrap_or(""))
    }

    pub(crate) fn all_layers(&self, u: UnitId) -> &'m [Layer] {
        self.m.unit(u).frame.as_ref().map_or(&[], |f| &f.layers)
    }

    fn needed(&self, u: UnitId) -> Vec<u32> {
        self.frames.needed.get(&u.0).into_iter().flatten().copied().collect()
    }

    pub(crate) fn open_chain(&mut self, u: UnitId, chain: &Chain<'m>) -> String {
        let layers = self.all_layers(u);
        let label = |g: &Self, n: u32| {
            format!(
                "L{n}_{}",
                names::ident(g.m.unit(u).fields[layers[n as usize].header.index()].name.as_deref().unwrap_or(""))
            )
        };
        let again: Vec<_> = chain.values().flatten().filter_map(|x| x.again.map(|a| (x.layer, a))).collect();
        let silent: Vec<_> = chain.values().flatten().filter(|x| x.silent).filter_map(|x| x.again).collect();
        let mut text = String::from("uint32_t at = 0;\n");
        if !again.is_empty() {
            text.push_str("uint32_t again = 0; /* where to go on if the next header is absent */\n")
        }
        let follow = |g: &mut Self, k: Option<u32>, text: &mut String| {
            for x in chain.get(&k).into_iter().flatten() {
                let cond = x.cond.map(|c| g.expr(&layer_scope(u), c));
                let jump = match x.again {
                    Some(a) => {
                        format!("{{ again = {a}; goto {}; }}\nagain_{a}:;\n{}", label(g, x.layer), g.join_of_ways())
                    }
                    None => format!("goto {};\n", label(g, x.layer)),
                };
                text.push_str(&cond.map_or_else(|| jump.clone(), |c| format!("if ({c}) {jump}")));
            }
            text.push_str("goto done;\n");
        };
        follow(self, None, &mut text);
        for n in self.needed(u) {
            let l = &layers[n as usize];
            let mine: Vec<_> = again.iter().filter(|a| a.0 == n).map(|a| a.1).collect();
            let (title, mut header, name) = (self.layer_title(u, l), self.open_header(u, n, l), label(self, n));
            let quiet: Vec<_> = mine.iter().filter(|a| silent.contains(a)).map(|a| format!("again == {a}")).collect();
            if !quiet.is_empty() {
                header =
                    header.replace("wl_header_fault(x,", &format!("wl_header_fault({} ? NULL : x,", quiet.join(" || ")))
            }
            let found = if mine.is_empty() { "" } else { "again = 0;\n" };
            let absent = match mine.as_slice() {
                [] => "goto done;\n".to_string(),
                list => format!(
                    "switch (again) {{\n{}default: goto done;\n}}\n",
                    list.iter().map(|a| format!("case {a}: again = 0; goto again_{a};\n")).collect::<String>()
                ),
            };
            let join = self.join_of_ways();
            text.push_str(&format!("/* {title} */\n{name}:;\n{join}do {{\n{header}{found}at += size;\n"));
            // A walk that comes back to this place has no `h`.
            if chain.get(&Some(n)).into_iter().flatten().any(|x| x.again.is_some()) {
                text.push_str(&format!("goto {name}_end;\n}} while (0);\n{absent}{name}_end:;\n"));
                follow(self, Some(n), &mut text);
                continue;
            }
            self.frames.at_hand = Some(n);
            follow(self, Some(n), &mut text);
            self.frames.at_hand = None;
            text.push_str(&format!("}} while (0);\n{absent}"));
        }
        text + "done:;\n"
    }

    /// Each layer behind the other.
    fn open_layers(&mut self, u: UnitId) -> String {
        let layers = self.all_layers(u);
        let (mut text, graph) = (String::new(), self.graph(u));
        for n in self.needed(u) {
            let l = &layers[n as usize];
            text.push_str(&format!("/* {} */\ndo {{\nuint32_t at;\n", self.layer_title(u, l)));
            let mut always = false;
            let ways: Vec<_> = (0..l.after.len()).filter(|i| graph.is_looked_for(n, *i)).map(|i| &l.after[i]).collect();
            for a in ways {
                let cond = a.cond.as_ref().map(|c| self.expr(&layer_scope(u), c));
                let (there, at) = match a.layer {
                    Some(k) => (Some(format!("WL_HAS(v, {k})")), format!("v->to[{k}]")),
                    None => (None, "0".into()),
                };
                let test = [there, cond].into_iter().flatten().collect::<Vec<_>>().join(" && ");
                always |= test.is_empty();
                text.push_str(&match test.as_str() {
                    "" => format!("at = {at};\n"),
                    t => format!("if ({t}) at = {at}; else "),
                });
                if always {
                    break;
                }
            }
            text.push_str(if always { "" } else { "break;\n" });
            for k in
                self.needed(u).into_iter().filter(|k| *k < n && contradict(self.m, layers[*k as usize].unit, l.unit))
            {
                text.push_str(&format!("if (WL_HAS(v, {k}) && v->at[{k}] == at) break;\n"));
            }
            // Here the ways are not told apart: a header that has no alternative on one of them is
            // missed on all.
            let silent = (0..l.after.len()).all(|i| has_alternative(self.m, layers, n as usize, i));
            let header = self.open_header(u, n, l);
            text.push_str(&if silent { header.replace("wl_header_fault(x,", "wl_header_fault(NULL,") } else { header });
            text.push_str("} while (0);\n");
        }
        text
    }

    /// Looks at the header at `at`.
    fn open_header(&mut self, u: UnitId, n: u32, l: &Layer) -> String {
        let m = self.m;
        let field = &m.unit(u).fields[l.header.index()];
        let header = m.unit(l.unit);
        let (least, place, miss) = (least(m, l.unit), field.place.0, Miss::Counted);
        let value_of = |g: &mut Self, f: FieldId| {
            let inst = g.header_inst(u, n, l.unit, "v", "h");
            g.header_field(&inst, f, header.fields[f.index()].ty)
        };
        let mut text = format!(
            "const uint8_t *h = {};\nuint32_t left = v->end - at, size = {least};\n(void)h;\n",
            self.header_begin()
        );
        text.push_str(&miss.if_so(&self.is_short(least), "WL_F_TRUNCATED", place));
        text.push_str(&self.header_rules(u, n, l.unit, miss, &Known::new()));
        if let Some(c) = header.header.covers {
            let (value, own) = (value_of(self, c.field), if c.own { "" } else { " + size" });
            // 0: a device that cuts a large packet into frames sets it (RFC 791 knows no such
            // length). Then it is all of the frame.
            let open = if c.own { "if (!covers) covers = left;\n" } else { "" };
            text.push_str(&format!(
                "uint32_t covers = (uint32_t)({value}){own};\n{open}{}if (covers < left) v->end = at + covers;\n",
                miss.if_so(
                    "covers < size || covers > left + cut",
                    "WL_F_CONSTRAINT",
                    header.fields[c.field.index()].place.0
                )
            ));
        }
        if let Some(more) = header.header.partial.filter(|_| self.graph(u).lengths_follow(n)) {
            let value = value_of(self, more);
            text.push_str(&format!("if (WL_UNLIKELY({value})) cut = 65535;\n"));
        }
        text + &self.note_header(u, n)
    }

    /// Notes in the view that a header is there: at `at`, `size` bytes.
    pub(crate) fn note_header(&self, u: UnitId, n: u32) -> String {
        let header = self.m.unit(self.layers(u)[n as usize].unit);
        let net = if header.header.addresses.is_some() { format!("net = {n};\n") } else { String::new() };
        format!(
            "v->at[{n}] = (uint16_t)at;\nv->to[{n}] = (uint16_t)(at + size);\nv->lim[{n}] = (uint16_t)v->end;\nv->net[{n}] = net;\n{net}v->top = at + size;\nv->has |= UINT64_C(1) << {n};\n"
        )
    }

    /// Checks of one header, in wire order, with those of its nested units; `size` grows by fields
    /// of variable size. Conditions that follow from known fields are not tested again.
    pub(crate) fn header_rules(&mut self, u: UnitId, n: u32, header: UnitId, miss: Miss, known: &Known) -> String {
        let m = self.m;
        let mut text = String::new();
        let inst = self.header_inst(u, n, header, "v", "h");
        let scope = Scope { this: Some(inst.clone()), ..Scope::default() };
        // Offset of the current field, behind fields of variable size in `o`.
        let mut fixed = Some(0u32);
        for f in m.unit(header).body.clone() {
            let field = &m.unit(header).fields[f.index()];
            let slot = self.frames.slots.get(&(u.0, n, f.0)).copied();
            if let Some(s) = slot {
                let at = fixed.map_or("o".into(), |n| n.to_string());
                text.push_str(&format!("v->slot[{s}] = (uint16_t)(at + {at});\n"));
            }
            if let Some(ranges) = field.within.as_ref().filter(|_| !known.contains_key(&f)) {
                let bits = match &field.kind {
                    FieldKind::UInt { bits, .. } => *bits as u32,
                    FieldKind::Number { .. }
                    | FieldKind::Varint { .. }
                    | FieldKind::Bytes { .. }
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
                    | FieldKind::Nothing => 64,
                };
                let value = self.header_field(&inst, f, field.ty);
                let test = self.in_ranges(&format!("({value})"), ranges, bits);
                text.push_str(&fails(&test, miss, field.bad.0, field.place.0));
            }
            match &field.kind {
                FieldKind::Require { cond } if always(m, header, f, cond, known, |v| v == 1) => {}
                FieldKind::Require { cond } => {
                    let test = self.expr(&scope, cond);
                    text.push_str(&fails(&test, miss, field.bad.0, field.place.0));
                }
                FieldKind::Literal { values } => {
                    let at = fixed.map_or("o".into(), |n| n.to_string());
                    let tests: Vec<_> = values
                        .iter()
                        .map(|v| format!("memcmp(h + {at}, {}, {}) == 0", names::literal(v), v.len()))
                        .collect();
                    text.push_str(&fails(&format!("({})", tests.join(" || ")), miss, field.bad.0, field.place.0));
                }
                FieldKind::Bytes { extent: Extent::Length(e), .. }
                    if field_size(m, field).is_none() && value(m, header, e, known) == Some(0) =>
                {
                    if let Some(s) = slot {
                        text.push_str(&format!("v->slot[{}] = 0;\n", s + 1))
                    }
                }
                FieldKind::Bytes { max, extent: Extent::Length(e), .. } if field_size(m, field).is_none() => {
                    let value = self.expr(&scope, e);
                    if let Some(n) = fixed.take() {
                        text.push_str(&format!("uint32_t o = {n};\n"))
                    }
                    let (place, cut_off) = (field.place.0, self.header_place(u, n));
                    let short = always(m, header, f, e, known, |len| len <= *max);
                    let long = if short {
                        String::new()
                    } else {
                        miss.if_so(&format!("len > {max}"), &field.too_long.0.to_string(), place)
                    };
                    text.push_str(&format!("{{ uint64_t len = {value};\n{long}"));
                    text.push_str(&format!(
                        "{}size += (uint32_t)len;\n",
                        miss.if_so("len > left - size", "WL_F_TRUNCATED", cut_off)
                    ));
                    if let Some(s) = slot {
                        text.push_str(&format!("v->slot[{}] = (uint16_t)len;\n", s + 1))
                    }
                    text.push_str("o += (uint32_t)len; }\n");
                }
                FieldKind::Unit { unit, .. } => {
                    let at = fixed.map_or("o".into(), |n| n.to_string());
                    let nested = Inst { unit: *unit, base: format!("h + {at}"), ..inst.clone() };
                    text.push_str(&self.nested_rules(&nested, miss));
                }
                FieldKind::UInt { .. }
                | FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Bytes { .. }
                | FieldKind::Flag { .. }
                | FieldKind::List { .. }
                | FieldKind::StreamBytes { .. }
                | FieldKind::StreamUnit { .. }
                | FieldKind::Switch { .. }
                | FieldKind::Let { .. }
                | FieldKind::Recover { .. }
                | FieldKind::Pass { .. }
                | FieldKind::Align { .. }
                | FieldKind::Nothing => {}
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

    /// The same for a unit of fixed size that is nested in a header.
    fn nested_rules(&mut self, inst: &Inst, miss: Miss) -> String {
        let (m, mut text, mut at) = (self.m, String::new(), 0);
        let scope = Scope { this: Some(inst.clone()), ..Scope::default() };
        for f in m.unit(inst.unit).body.clone() {
            let field = &m.unit(inst.unit).fields[f.index()];
            let place = format!("{} + {at}", inst.base);
            let test = match (&field.kind, &field.within) {
                (kind @ FieldKind::UInt { bits, .. }, Some(ranges)) => UIntField::of(kind).map(|number| {
                    let value = self.load_uint(&format!("({place})"), number, field.ty);
                    self.in_ranges(&format!("({value})"), ranges, u32::from(*bits))
                }),
                (FieldKind::Require { cond }, _) => Some(self.expr(&scope, cond)),
                (FieldKind::Literal { values }, _) => {
                    let tests: Vec<_> = values
                        .iter()
                        .map(|v| format!("memcmp({place}, {}, {}) == 0", names::literal(v), v.len()))
                        .collect();
                    Some(format!("({})", tests.join(" || ")))
                }
                (FieldKind::Unit { unit, .. }, _) => {
                    text.push_str(&self.nested_rules(&Inst { unit: *unit, base: place, ..inst.clone() }, miss));
                    None
                }
                _ => None,
            };
            if let Some(test) = test {
                text.push_str(&fails(&test, miss, field.bad.0, field.place.0))
            }
            at += step(m, field);
        }
        text
    }
}

/// Scope of the conditions of layers.
pub(crate) fn layer_scope(u: UnitId) -> Scope {
    let whole = Inst { unit: u, at: "v".into(), base: "v->p".into(), head: Some(Head::Frame) };
    Scope { this: Some(whole), ..Scope::default() }
}

fn fails(test: &str, miss: Miss, kind: u16, place: u32) -> String {
    miss.if_so(&format!("!({test})"), &kind.to_string(), place)
}
