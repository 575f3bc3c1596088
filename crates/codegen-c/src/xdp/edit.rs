//! Edits of frames: fields set, headers put in and taken out, checksums.
//!
//! The functions of `support/frame.h` go over all headers at run time. Here the code of each header
//! that may be concerned is printed: so the verifier follows no loop, and a view lies in registers.
//! A checksum over a payload is summed by `wl_sum_far`, whatever the payload's length.

use super::scratch::Call;
use crate::body::BodyGen;
use crate::frame_act::store;
use crate::frame_facts::Offset;
use crate::gen::Gen;
use crate::names;
use crate::parser::line;
use wireloom_ir::frame::{checksum_flag, field_size, fixed_offset, is_refused, leads_to};
use wireloom_ir::parse_graph::least;
use wireloom_ir::placement::{hook_parts, new_network};
use wireloom_ir::*;

/// A frame's view, and the headers that the program may find in it.
struct View<'m> {
    v: String,
    unit: UnitId,
    layers: &'m [Layer],
    /// In order. Those are left out that the program does not ask for, and that have no length,
    /// addresses or checksum.
    needed: Vec<u32>,
}

impl<'m> View<'m> {
    fn header(&self, layer: u32) -> UnitId {
        self.layers[layer as usize].unit
    }

    fn leads(&self, from: u32, to: u32) -> bool {
        leads_to(self.layers, from, to)
    }
}

/// Whether a checksum covers what follows its header.
fn is_far(c: &Checksum) -> bool {
    matches!(c.over, Over::Message | Over::Transport { .. })
}

fn is_optional(c: &Checksum) -> bool {
    matches!(c.over, Over::Transport { optional: true, .. })
}

/// The first value of a sum that may be 0 where that of the whole header is not: all ones
/// are a zero, too.
const NOT_ZERO: &str = "0xffff";

impl<'m> Gen<'m> {
    fn xdp_view(&self, v: String, unit: UnitId) -> View<'m> {
        let m = self.m;
        let layers = m.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
        let asked = self.frames.asked.get(&unit.0);
        let matters = |k: &u32| {
            let unit = layers[*k as usize].unit;
            let h = &m.unit(unit).header;
            let told = h.covers.is_some() || h.checksum.is_some() || h.addresses.is_some();
            !is_refused(m, unit) && (told || asked.is_some_and(|a| a.contains(k)))
        };
        let needed = self.frames.needed.get(&unit.0).into_iter().flatten().copied().filter(matters).collect();
        View { v, unit, layers, needed }
    }

    /// The place of a header's checksum in it.
    fn sum_at(&self, header: UnitId) -> Option<(Checksum, u32)> {
        let c = self.m.unit(header).header.checksum?;
        Some((c, fixed_offset(self.m, header, c.field)?))
    }

    /// Whether a header has its checksum, as its flag says. None: it always has.
    fn sum_there(&self, f: &View, layer: u32) -> Option<String> {
        let (v, (at, mask)) = (&f.v, checksum_flag(self.m, f.header(layer))?);
        let (_, off) = self.sum_at(f.header(layer))?;
        let byte = format!("*WL_SPACE({v}->p + ({v}->at[{layer}] & WL_AT) + {at}, 1)");
        Some(format!("(uint32_t)({v}->to[{layer}] - {v}->at[{layer}]) >= {} && ({byte} & {mask})", off + 2))
    }

    /// Text that sets `s_` to the sum over the bytes that a header's checksum covers, with its
    /// field as it is. All ones: the frame is too long.
    fn covered(&self, f: &View, layer: u32) -> String {
        let (v, header) = (&f.v, f.header(layer));
        let Some((c, _)) = self.sum_at(header) else { return "uint64_t s_ = 0;".into() };
        let to = if c.over == Over::Header { "to" } else { "lim" };
        let mut text = format!(
            "const uint32_t n_ = (uint32_t)({v}->{to}[{layer}] - {v}->at[{layer}]) & 65535;\n\
             uint64_t s_ = wl_sum_far(x->ctx, {v}->at[{layer}] & WL_AT, n_);\n"
        );
        let Over::Transport { protocol, .. } = c.over else { return text };
        for k in f.needed.iter().filter(|k| f.leads(**k, layer)) {
            let net = f.header(*k);
            let Some((src, dst)) = self.m.unit(net).header.addresses else { continue };
            let at = |field| fixed_offset(self.m, net, field).unwrap_or(0);
            let n = field_size(self.m, &self.m.unit(net).fields[src.index()]).unwrap_or(0);
            text.push_str(&format!(
                "if ({v}->net[{layer}] == {k} && WL_HAS({v}, {k}) && s_ != WL_NO_SUM) {{\n\
                 const uint8_t *a_ = WL_SPACE({v}->p + ({v}->at[{k}] & WL_AT), {});\n\
                 s_ += wl_sum_few(a_ + {}, {n}) + wl_sum_few(a_ + {}, {n}) + __builtin_bswap32(n_) + ((uint64_t){protocol} << 24);\n}}\ns_ ^= wl_unknown;\nWL_JOIN_BRANCHES({v});\n",
                least(self.m, net),
                at(src),
                at(dst),
            ));
        }
        text
    }

    /// `checksum_ok`, as an expression.
    pub(crate) fn xdp_sum_ok(&self, v: &str, unit: UnitId, layer: u32) -> String {
        let f = self.xdp_view(v.to_string(), unit);
        let header = f.header(layer);
        let Some((c, at)) = self.sum_at(header) else { return "true".into() };
        let absent = if is_optional(&c) { "wl_known_le16(h_) == 0 || " } else { "" };
        if let Some(there) = self.sum_there(&f, layer) {
            return format!(
                "({{ bool ok_ = true;\nif ({there}) {{ {}ok_ = s_ != WL_NO_SUM && wl_fold(s_) == 0xffff; }}\nok_; }})",
                self.covered(&f, layer)
            );
        }
        format!(
            "({{ const uint8_t *h_ = WL_SPACE({v}->p + ({v}->at[{layer}] & WL_AT) + {at}, 2);\n(void)h_;\nbool ok_ = {}false;\n\
             if (!ok_) {{ {}ok_ = s_ != WL_NO_SUM && wl_fold(s_) == 0xffff; }}\nok_; }})",
            absent,
            self.covered(&f, layer)
        )
    }
}

impl<'m> BodyGen<'_, 'm> {
    fn xdp_view(&self, frame: LocalId) -> View<'m> {
        let unit = match self.g.m.ty(self.locals[frame.index()].ty) {
            Ty::Msg(u) => *u,
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Record(_)
            | Ty::Tuple(_) => UnitId(0),
        };
        self.g.xdp_view(self.name(frame), unit)
    }

    pub(super) fn xdp_act(&mut self, frame: LocalId, act: &'m FrameAct) {
        let f = self.xdp_view(frame);
        match act {
            FrameAct::Set { layer, field, value } => self.xdp_set(&f, *layer, *field, value),
            FrameAct::Swap { layer, a, b } => self.xdp_swap(&f, *layer, *a, *b),
            FrameAct::Checksum { layer } => match self.g.sum_there(&f, *layer) {
                Some(there) => {
                    line!(self, "if ({there}) {{");
                    self.xdp_resum(&f, *layer);
                    line!(self, "}}\nWL_JOIN_BRANCHES({});", f.v);
                }
                None => self.xdp_resum(&f, *layer),
            },
            FrameAct::Remove { layer } => self.xdp_remove(&f, *layer),
            FrameAct::Insert { before, parts, place, .. } => self.xdp_insert(&f, *before, parts, *place),
            FrameAct::Payload { layer, body, place, .. } => self.xdp_payload(&f, *layer, body, *place),
            FrameAct::InC { .. }
            | FrameAct::Parse
            | FrameAct::Save { .. }
            | FrameAct::Restore { .. }
            | FrameAct::Send { .. } => {}
        }
        line!(self, "WL_CHANGED(x);");
        self.join_of_branches(&[]);
    }

    fn xdp_swap(&mut self, f: &View, layer: u32, a: FieldId, b: FieldId) {
        let (m, header, v) = (self.g.m, f.header(layer), &f.v);
        if let Some([a, b, size]) = passes::swaps::places(m, header, a, b) {
            let most = least(m, header);
            line!(
                self,
                "{{ uint8_t *h_ = WL_SPACE({v}->p + ({v}->at[{layer}] & WL_AT), {most});\n\
                 wl_swap(h_ + {a}, h_ + {b}, {size}); }}"
            )
        }
    }

    fn xdp_set(&mut self, f: &View, layer: u32, field: FieldId, value: &Expr) {
        let (m, header, v) = (self.g.m, f.header(layer), &f.v);
        let def = &m.unit(header).fields[field.index()];
        let Some(size) = field_size(m, def) else { return };
        let (c, text) = (self.g.cty(value.ty), self.expr(value));
        line!(self, "{{ const {c} val_ = {text};");
        self.check(value.may_fault());
        let own = self.g.sum_at(header).filter(|s| s.0.field != field);
        let is_sum = m.unit(header).header.checksum.is_some_and(|c| c.field == field);
        let is_address = m.unit(header).header.addresses.is_some_and(|(a, b)| a == field || b == field);
        let inner: Vec<u32> = f.needed.iter().copied().filter(|n| is_address && f.leads(layer, *n)).collect();
        let sums = !is_sum && (own.is_some() || !inner.is_empty());
        let there = own.and_then(|_| self.g.sum_there(f, layer));
        let most = least(m, header).max(own.filter(|_| there.is_none()).map_or(0, |s| s.1 + 2));
        line!(self, "uint8_t *h_ = WL_SPACE({v}->p + ({v}->at[{layer}] & WL_AT), {most});\n(void)h_;");
        // The words around it: sums go over pairs of bytes from the header's first one.
        let (at, from, len) = match self.g.offset(f.unit, layer, header, field) {
            Offset::Fixed(n) => {
                let end = (n + size).next_multiple_of(2).min(most.max(n + size));
                (format!("h_ + {n}"), format!("h_ + {}", n & !1), end - (n & !1))
            }
            Offset::Slot(s) => {
                line!(self, "uint8_t *f_ = WL_SPACE({v}->p + ({v}->slot[{s}] & WL_AT), {size});");
                ("f_".into(), "f_".into(), size)
            }
            Offset::Unknown => return,
        };
        if sums {
            line!(self, "const uint64_t was_ = wl_sum_few({from}, {len});")
        }
        let stored = store(&at, def, "val_");
        line!(self, "{stored}");
        if sums {
            line!(self, "const uint64_t now_ = wl_sum_few({from}, {len});")
        }
        if let Some((c, off)) = own {
            match there {
                Some(there) => line!(
                    self,
                    "if ({there}) wl_sum_fix(WL_SPACE({v}->p + ({v}->at[{layer}] & WL_AT) + {off}, 2), was_, now_, false);\nWL_JOIN_BRANCHES({v});"
                ),
                None => line!(self, "wl_sum_fix(h_ + {off}, was_, now_, {});", is_optional(&c)),
            }
        }
        for n in inner {
            let Some((c, off)) = self.g.sum_at(f.header(n)).filter(|s| matches!(s.0.over, Over::Transport { .. }))
            else {
                continue;
            };
            line!(
                self,
                "if (WL_HAS({v}, {n}) && {v}->net[{n}] == {layer}) wl_sum_fix(WL_SPACE({v}->p + ({v}->at[{n}] & WL_AT) + {off}, 2), was_, now_, {});\nWL_JOIN_BRANCHES({v});",
                is_optional(&c)
            );
        }
        // Headers further out whose checksum covers this one.
        if !is_sum {
            for n in f.needed.iter().rev().filter(|n| f.leads(**n, layer)) {
                self.xdp_resum_around(f, *n, &format!("{v}->at[{layer}]"))
            }
        }
        line!(self, "}}");
    }

    /// A byte of a header's payload has changed: its checksum follows, if it covers that.
    fn xdp_resum_around(&mut self, f: &View, layer: u32, pos: &str) {
        let v = &f.v;
        let Some((c, off)) = self.g.sum_at(f.header(layer)).filter(|s| is_far(&s.0)) else { return };
        line!(self, "if (WL_HAS({v}, {layer}) && {pos} >= {v}->at[{layer}] && {pos} <= {v}->lim[{layer}]) {{");
        let absent = if let Some(there) = self.g.sum_there(f, layer) {
            format!("if ({there}) ")
        } else if is_optional(&c) {
            format!("if (wl_known_le16(WL_SPACE({v}->p + ({v}->at[{layer}] & WL_AT) + {off}, 2)) != 0) ")
        } else {
            String::new()
        };
        line!(self, "{absent}{{");
        self.xdp_resum(f, layer);
        line!(self, "}} }}\nWL_JOIN_BRANCHES({v});");
    }

    /// Computes a header's checksum anew.
    fn xdp_resum(&mut self, f: &View, layer: u32) {
        let (v, leave) = (&f.v, self.leave_fault());
        let Some((c, off)) = self.g.sum_at(f.header(layer)) else { return };
        let (covered, at) = (self.g.covered(f, layer), format!("{v}->p + ({v}->at[{layer}] & WL_AT) + {off}"));
        line!(self, "{{ *(uint16_t *)WL_SPACE({at}, 2) = 0;\n{covered}");
        line!(self, "if (WL_UNLIKELY(s_ == WL_NO_SUM)) {{ wl_fail(x, WL_F_OVERLOAD, 0); {leave} }}");
        let never = if matches!(c.over, Over::Transport { .. }) { "if (!c_) c_ = 0xffff;\n" } else { "" };
        line!(self, "uint16_t c_ = (uint16_t)~wl_fold(s_);\n{never}*(uint16_t *)WL_SPACE({at}, 2) = c_; }}");
    }

    /// The payload of a header is `by` bytes longer, as C tells: the field with its length follows.
    fn xdp_covers(&mut self, f: &View, layer: u32, by: &str) {
        let (m, header, v) = (self.g.m, f.header(layer), &f.v);
        let Some(c) = m.unit(header).header.covers else { return };
        let (Some(at), Some(n)) =
            (fixed_offset(m, header, c.field), field_size(m, &m.unit(header).fields[c.field.index()]))
        else {
            return;
        };
        let sum = self.g.sum_at(header).filter(|s| s.0.over == Over::Header);
        let room = least(m, header).max(sum.map_or(0, |s| s.1 + 2));
        let most = (1u64 << (8 * n.min(7))) - 1;
        let length = format!("wl_known_be(h_ + {at}, {n}), {by}, {most}");
        let length = match c.own {
            true => format!("wl_own_length_of({length}, (uint64_t)({v}->lim[{layer}] - {v}->at[{layer}]))"),
            false => format!("wl_length_of({length})"),
        };
        let (from, len) = (at & !1, (at + n).next_multiple_of(2).min(room) - (at & !1));
        line!(self, "uint8_t *h_ = WL_SPACE({v}->p + ({v}->at[{layer}] & WL_AT), {room});");
        if sum.is_some() {
            line!(self, "const uint64_t was_ = wl_sum_few(h_ + {from}, {len}) + {NOT_ZERO};")
        }
        line!(self, "wl_put_at(h_ + {at}, {length}, {n}, true);");
        if let Some((_, off)) = sum {
            line!(self, "wl_sum_fix(h_ + {off}, was_, wl_sum_few(h_ + {from}, {len}) + {NOT_ZERO}, false);")
        }
    }

    fn xdp_remove(&mut self, f: &View, layer: u32) {
        let (v, leave) = (&f.v, self.leave_fault());
        line!(
            self,
            "{{ const uint32_t pos_ = {v}->at[{layer}] & WL_AT, n_ = (uint32_t)({v}->to[{layer}] - {v}->at[{layer}]) & WL_AT;\n\
             {v}->has &= ~(UINT64_C(1) << {layer});\n\
             if (WL_UNLIKELY(!wl_cut(x, {v}, pos_, n_))) {{ wl_fail(x, WL_F_OVERLOAD, 0); {leave} }}"
        );
        for k in f.needed.iter().filter(|k| **k != layer) {
            line!(self, "wl_layer_cut({v}, {k}, pos_, n_);");
            for s in self.slots_of(f, *k) {
                line!(self, "{v}->slot[{s}] = wl_place_cut({v}->slot[{s}], pos_, n_);")
            }
        }
        let around: Vec<u32> = f.needed.iter().copied().filter(|k| *k != layer && f.leads(*k, layer)).collect();
        for k in &around {
            if self.g.m.unit(f.header(*k)).header.covers.is_some() {
                line!(self, "if (WL_HAS({v}, {k}) && {v}->at[{k}] < pos_ && pos_ <= {v}->lim[{k}]) {{");
                self.xdp_covers(f, *k, "-(int64_t)n_");
                line!(self, "}}\nWL_JOIN_BRANCHES({v});");
            }
        }
        for k in around.iter().rev() {
            self.xdp_resum_around(f, *k, "(pos_ - 1)")
        }
        line!(self, "}}");
    }

    /// Slots that hold places of a header's fields.
    fn slots_of(&self, f: &View, layer: u32) -> Vec<u32> {
        let of = |(unit, l, _): &(u32, u32, u32)| (*unit, *l) == (f.unit.0, layer);
        self.g.frames.slots.iter().filter(|(k, _)| of(k)).map(|(_, s)| *s).collect()
    }

    /// Puts parts of fixed size before a header, or behind all.
    fn xdp_insert(&mut self, f: &View, before: Option<u32>, parts: &'m [Part], place: PlaceId) {
        let (m, v) = (self.g.m, &f.v);
        let n = hook_parts(m, parts).unwrap_or(0);
        let (pos, end) = match before {
            Some(n) => (format!("{v}->at[{n}] & WL_AT"), format!("{v}->lim[{n}]")),
            None => (format!("{v}->top & WL_AT"), format!("{v}->end")),
        };
        line!(self, "{{ const uint32_t pos_ = {pos}, rest_ = (uint32_t)({end}) - pos_;");
        let begins = self.xdp_parts(parts, n);
        let leave = self.leave_fault();
        line!(
            self,
            "if (WL_UNLIKELY(!wl_gap(x, {v}, pos_, {n}))) {{ wl_fail(x, WL_F_OVERLOAD, {}); {leave} }}",
            place.0
        );
        line!(self, "wl_store(WL_SPACE({v}->p + pos_, {n}), built_, {n});");
        for part in (0..parts.len()).rev() {
            self.xdp_new_sum(v, parts, &begins, part)
        }
        let behind = |k: &&u32| before.is_some_and(|b| **k == b || f.leads(b, **k));
        for k in f.needed.iter().filter(behind) {
            line!(self, "wl_layer_moved({v}, {k}, {n});");
            for s in self.slots_of(f, *k) {
                line!(self, "{v}->slot[{s}] = (uint16_t)({v}->slot[{s}] + {n});")
            }
        }
        let around: Vec<u32> = f.needed.iter().copied().filter(|k| before.is_none_or(|b| f.leads(*k, b))).collect();
        for k in &around {
            line!(self, "{v}->lim[{k}] = (uint16_t)({v}->lim[{k}] + {n});");
            if m.unit(f.header(*k)).header.covers.is_some() {
                line!(self, "if (WL_HAS({v}, {k})) {{");
                self.xdp_covers(f, *k, &n.to_string());
                line!(self, "}}\nWL_JOIN_BRANCHES({v});");
            }
        }
        for k in around.iter().rev() {
            self.xdp_resum_around(f, *k, "(pos_ - 1)")
        }
        line!(self, "}}");
    }

    /// Puts what a body builds in the place of a payload.
    fn xdp_payload(&mut self, f: &View<'m>, layer: Option<u32>, body: &'m Block, place: PlaceId) {
        let v = &f.v;
        let (pos, end) = match layer {
            Some(n) => (format!("{v}->to[{n}]"), format!("{v}->lim[{n}]")),
            None => (format!("{v}->top"), format!("{v}->end")),
        };
        line!(self, "{{");
        let from = self.xdp_build(body);
        let leave = self.leave_fault();
        let near = self.g.scratch.in_line.suffix(Call::Payload);
        line!(
            self,
            "const uint32_t pos_ = {pos} & 65535, end_ = {end} & 65535, by_ = WL_X(x)->out - (end_ - pos_);\n\
             if (WL_UNLIKELY(!wl_refill{near}(x, {v}, pos_, end_, WL_X(x)->out, {from}))) {{ wl_fail(x, WL_F_OVERLOAD, {}); {leave} }}",
            place.0
        );
        for k in &f.needed {
            line!(self, "wl_lim_moved({v}, {k}, end_, by_);");
            line!(self, "if ({v}->at[{k}] >= pos_) {v}->has &= ~(UINT64_C(1) << {k});");
        }
        line!(self, "WL_JOIN_BRANCHES({v});");
        for k in f.needed.iter().filter(|k| self.g.m.unit(f.header(**k)).header.covers.is_some()) {
            line!(self, "if (WL_HAS({v}, {k}) && {v}->at[{k}] < pos_ && pos_ <= {v}->lim[{k}]) {{");
            self.xdp_covers(f, *k, "(int32_t)by_");
            line!(self, "}}\nWL_JOIN_BRANCHES({v});");
        }
        line!(self, "{{ const uint32_t last_ = pos_ ? pos_ - 1 : 0;");
        for k in f.needed.iter().rev() {
            self.xdp_resum_around(f, *k, "last_")
        }
        line!(self, "}} }}");
    }

    /// The checksum of a new header that covers what follows it. `begins`: where the parts begin,
    /// and the end of the last one.
    fn xdp_new_sum(&mut self, v: &str, parts: &[Part], begins: &[u32], part: usize) {
        let Some(u) = parts[part].unit else { return };
        let Some((c, off)) = self.g.sum_at(u).filter(|s| is_far(&s.0)) else { return };
        let (m, leave, total) = (self.g.m, self.leave_fault(), begins[parts.len()]);
        let at = format!("((pos_ + {}) & WL_AT)", begins[part]);
        line!(
            self,
            "{{ const uint32_t n_ = (rest_ + {}) & 65535;\nuint64_t s_ = wl_sum_far(x->ctx, {at}, n_);\n\
             if (WL_UNLIKELY(s_ == WL_NO_SUM)) {{ wl_fail(x, WL_F_OVERLOAD, 0); {leave} }}",
            total - begins[part]
        );
        let mut never = "";
        if let Over::Transport { protocol, .. } = c.over {
            let net = new_network(m, parts, part);
            let addresses = net.and_then(|k| Some((begins[k], parts[k].unit?)));
            let addresses = addresses.and_then(|(at, u)| Some((at, u, m.unit(u).header.addresses?)));
            if let Some((begin, net, (src, dst))) = addresses {
                for field in [src, dst] {
                    let at = begin + fixed_offset(m, net, field).unwrap_or(0);
                    let n = field_size(m, &m.unit(net).fields[field.index()]).unwrap_or(0);
                    line!(self, "s_ += wl_sum_words(built_, {at}, {});", at + n);
                }
            }
            line!(self, "s_ += __builtin_bswap32(n_) + ((uint64_t){protocol} << 24);");
            never = "if (!c_) c_ = 0xffff;\n";
        }
        line!(
            self,
            "uint16_t c_ = (uint16_t)~wl_fold(s_);\n{never}*(uint16_t *)WL_SPACE({v}->p + {at} + {off}, 2) = c_; }}"
        );
    }

    /// Builds parts in the words `built_`, with their lengths and the checksums that cover no more
    /// than themselves. The result says where they begin, and where the last one ends.
    fn xdp_parts(&mut self, parts: &'m [Part], total: u32) -> Vec<u32> {
        line!(self, "uint64_t built_[{}] = {{0}};", total.max(1).div_ceil(8));
        let (mut at, mut headers, mut fallible) = (0, Vec::new(), false);
        let mut begins = Vec::new();
        for p in parts {
            let begin = at;
            begins.push(begin);
            for s in &p.body {
                let StmtKind::Emit(Emit::UInt { value, bytes, big }) = &s.kind else { continue };
                let text = self.expr(value);
                fallible |= value.may_fault();
                line!(self, "wl_set(built_, {at}, {text}, {bytes}, {big});");
                at += u32::from(*bytes);
            }
            headers.extend(p.unit.map(|u| (u, begin, at)));
        }
        self.check(fallible);
        let m = self.g.m;
        for (u, begin, end) in &headers {
            let Some(c) = m.unit(*u).header.covers else { continue };
            let (Some(off), Some(n)) =
                (fixed_offset(m, *u, c.field), field_size(m, &m.unit(*u).fields[c.field.index()]))
            else {
                continue;
            };
            let before = if c.own { *begin } else { *end };
            line!(self, "wl_set(built_, {}, rest_ + {}, {n}, true);", begin + off, total - before);
        }
        for (u, begin, end) in headers {
            let Some((c, off)) = self.g.sum_at(u) else { continue };
            let at = begin + off;
            line!(self, "wl_set(built_, {at}, 0, 2, false);");
            if !is_far(&c) {
                line!(self, "wl_set(built_, {at}, (uint16_t)~wl_sum_words(built_, {begin}, {end}), 2, false);");
            }
        }
        begins.push(at);
        begins
    }
}

/// The name of a unit's function that finds headers.
pub(super) fn walk_of(m: &Module, unit: UnitId) -> String {
    format!("{}_parse", names::unit(m, unit))
}
