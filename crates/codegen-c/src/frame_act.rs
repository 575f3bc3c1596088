//! Acts on frames: fields set in place, headers inserted and removed, frames sent. Also the
//! function that runs a handler over a batch.

use crate::body::BodyGen;
use crate::frame_counts;
use crate::frame_facts::Offset;
use crate::gen::Gen;
use crate::names;
use crate::parser::line;
use crate::payload::PayloadView;
use crate::scope::Scope;
use wireloom_ir::desc::PortKind;
use wireloom_ir::frame::{field_size, fixed_offset, is_refused, leads_to};
use wireloom_ir::parse_graph::least;
use wireloom_ir::placement::fixed_parts;
use wireloom_ir::*;

impl<'m> BodyGen<'_, 'm> {
    pub(crate) fn frame_unit_of(&self, l: LocalId) -> UnitId {
        match self.g.m.ty(self.locals[l.index()].ty) {
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
        }
    }

    /// Arguments that functions of frame.h take: the headers of a unit, and the slots of offsets.
    fn frame_args(&self, l: LocalId) -> (String, String) {
        let u = self.frame_unit_of(l);
        let name = names::unit(self.g.m, u);
        (format!("{name}_headers"), format!("wl_slot_layer, {}", 2 * self.g.frames.slot_layers.len()))
    }

    pub fn frame_act(&mut self, frame: LocalId, act: &'m FrameAct) {
        let v = self.name(frame);
        let (headers, slots) = self.frame_args(frame);
        let layers = self.g.layers(self.frame_unit_of(frame)).len();
        match act {
            FrameAct::Set { layer, field, value } => self.set_header(frame, *layer, *field, value),
            FrameAct::Swap { layer, a, b } => self.swap_fields(frame, *layer, *a, *b),
            FrameAct::InC { .. } => self.in_c(frame, act),
            FrameAct::Parse => {
                line!(self, "{}_parse(NULL, {v}, {v}->f);", names::unit(self.g.m, self.frame_unit_of(frame)))
            }
            FrameAct::Checksum { layer } => line!(self, "wl_view_sum({v}, {headers}, {layer});"),
            FrameAct::Save { copy } => {
                let leave = self.leave_fault();
                line!(self, "if (WL_UNLIKELY(!wl_view_save({v}, &wl_state(x)->saved[{copy}]))) {{ wl_fail(x, WL_F_OVERLOAD, 0); {leave} }}");
            }
            FrameAct::Restore { copy } => line!(self, "wl_view_restore({v}, &wl_state(x)->saved[{copy}]);"),
            FrameAct::Remove { layer } => {
                line!(
                    self,
                    "{{ uint32_t pos_ = {v}->at[{layer}], n_ = (uint32_t)({v}->to[{layer}] - {v}->at[{layer}]);"
                );
                line!(self, "{v}->has &= ~(UINT64_C(1) << {layer});\nwl_view_close({v}, {slots}, pos_, n_);\nwl_view_grown({v}, {headers}, {layers}, pos_, -(int64_t)n_); }}");
            }
            FrameAct::Insert { before, parts, place, .. } if fixed_parts(self.g.m, parts).is_some() => {
                self.put(frame, *before, parts, *place)
            }
            FrameAct::Insert { before, parts, place, .. } => {
                self.frame_parts(parts);
                let [pos, until, end] = place_before(&v, *before);
                let leave = self.leave_fault();
                line!(self, "if (WL_UNLIKELY(!wl_view_insert({v}, {headers}, {layers}, {slots}, {pos}, {until}, {end}, wl_built(x), part_, {}))) {{ wl_fail(x, WL_F_OVERLOAD, {}); {leave} }} }}", parts.len(), place.0);
            }
            FrameAct::Payload { layer, body, place, keep, .. } => {
                let (pos, end) = match layer {
                    Some(n) => (format!("{v}->to[{n}]"), format!("{v}->lim[{n}]")),
                    None => (format!("{v}->top"), format!("{v}->end")),
                };
                self.payload(&PayloadView { v, headers, layers, pos, end }, body, *keep, *place);
            }
            FrameAct::Send { port, index, mark, state, last } => {
                let text = self.expr(index);
                line!(self, "{{ uint32_t i_ = (uint32_t)({text});");
                self.check(index.may_fault());
                let counted = self.kept.output.map_or(String::new(), |_| frame_counts::count(&v, None));
                let queue = self.g.m.is_queue(*port);
                let mark = mark.as_ref().map_or("0".into(), |m| self.expr(m));
                if queue {
                    let slot = last.then(|| format!("{v}->f"));
                    self.entry(*port, slot.as_deref(), state, Some(&v));
                }
                match last {
                    true if queue => line!(self, "wl_view_wait({v}, {}, i_, {mark});{counted} }}", port.0),
                    false if queue => {
                        line!(
                            self,
                            "x->core->mark = {mark};\npackets.transmit(x->core, {}, i_, {v}->p, {v}->n); }}",
                            port.0
                        )
                    }
                    true => line!(self, "wl_view_pass({v}, {}, i_);{counted} }}", port.0),
                    false => line!(self, "packets.transmit(x->core, {}, i_, {v}->p, {v}->n); }}", port.0),
                }
            }
        }
    }

    /// A branch without a jump, as the pass `selects` has it: of a frame that is only sent, or of
    /// values that are chosen.
    pub fn select(&mut self, cond: &str, then: &'m Block, other: &'m Block) {
        if let [Stmt { kind: StmtKind::Frame { frame, act: FrameAct::Send { port, index, .. } }, .. }] = &then[..] {
            return self.send_if(cond, *frame, *port, index);
        }
        line!(self, "{{ const uint64_t if_ = wl_whole((bool)({cond}));");
        self.chosen(then, "if_");
        if !other.is_empty() {
            line!(self, "const uint64_t else_ = if_ ^ 1;\n(void)else_;")
        }
        self.chosen(other, "else_");
        line!(self, "}}");
    }

    fn send_if(&mut self, cond: &str, frame: LocalId, port: PortId, index: &Expr) {
        let ExprKind::Int(instance) = *index.kind else { return };
        let v = self.name(frame);
        match self.kept.output {
            None => line!(self, "wl_view_pass_if({v}, {cond}, {}, {instance});", port.0),
            Some(_) => {
                let counted = frame_counts::count(&v, Some("leaves_"));
                line!(
                    self,
                    "{{ const bool leaves_ = {cond};\nwl_view_pass_if({v}, leaves_, {}, {instance});{counted} }}",
                    port.0
                )
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn chosen(&mut self, block: &'m Block, when: &str) {
        for s in block {
            match &s.kind {
                StmtKind::Set(l, e) => {
                    let (name, text) = (self.name(*l), self.expr(e));
                    line!(self, "{name} = {when} ? {text} : {name};")
                }
                StmtKind::Count(c, e) => {
                    let text = self.expr(e);
                    line!(self, "kept.c{} += (uint64_t)({text}) & (0 - {when});", c.0)
                }
                StmtKind::If { cond, then, .. } => {
                    let c = self.condition(cond);
                    line!(self, "{{ const uint64_t and_ = {when} & ({c});");
                    line!(self, "const uint64_t if_ = and_;");
                    self.chosen(then, "if_");
                    line!(self, "}}");
                }
                _ => {}
            }
        }
    }

    /// Puts parts of fixed size before a header, or behind all. The headers before and behind them
    /// are known: of the present ones each leads to the next.
    fn put(&mut self, frame: LocalId, before: Option<u32>, parts: &'m [Part], place: PlaceId) {
        let (v, u) = (self.name(frame), self.frame_unit_of(frame));
        let (headers, leave, n) = (self.frame_args(frame).0, self.leave_fault(), self.fixed_parts(parts));
        let [pos, until, end] = place_before(&v, before);
        line!(self, "if (WL_UNLIKELY(!wl_view_put({v}, {headers}, {pos}, {until}, {end}, built_, {n}, part_, {}))) {{ wl_fail(x, WL_F_OVERLOAD, {}); {leave} }}", parts.len(), place.0);
        let layers = self.g.layers(u).to_vec();
        let there = |k: &u32| !is_refused(self.g.m, layers[*k as usize].unit);
        let needed: Vec<u32> = self.g.frames.needed.get(&u.0).into_iter().flatten().copied().filter(there).collect();
        for k in needed.iter().filter(|k| before.is_some_and(|b| **k == b || leads_to(&layers, b, **k))) {
            let there = if before == Some(*k) { String::new() } else { format!("if (WL_HAS({v}, {k})) ") };
            let slots: String = self
                .g
                .frames
                .slots
                .iter()
                .filter(|((f, l, _), _)| (*f, l) == (u.0, k))
                .map(|(_, s)| format!(" {v}->slot[{s}] = (uint16_t)({v}->slot[{s}] + {n});"))
                .collect();
            line!(self, "{there}{{ wl_layer_moved({v}, {k}, {n});{slots} }}");
        }
        let around: Vec<u32> = needed.into_iter().filter(|k| before.is_none_or(|b| leads_to(&layers, *k, b))).collect();
        for k in &around {
            line!(self, "if (WL_HAS({v}, {k})) wl_layer_grown({v}, {headers}, {k}, {n});")
        }
        let sums = |k: &&u32| {
            matches!(
                self.g.m.unit(layers[**k as usize].unit).header.checksum.map(|c| c.over),
                Some(Over::Message | Over::Transport { .. })
            )
        };
        let sums: Vec<u32> = around.iter().rev().filter(sums).copied().collect();
        for k in sums {
            line!(self, "if (WL_HAS({v}, {k})) wl_layer_resum({v}, {headers}, {k});")
        }
        line!(self, "}}");
    }

    /// Builds parts of fixed size in `built_`, which the C compiler can keep in registers. Opens a
    /// block, as [`Self::frame_parts`] does.
    fn fixed_parts(&mut self, parts: &'m [Part]) -> u32 {
        let total = fixed_parts(self.g.m, parts).unwrap_or(0);
        line!(self, "{{ uint8_t built_[{}];", total.max(1));
        let (mut at, mut pieces, mut fallible) = (0, Vec::new(), false);
        for p in parts {
            pieces.push(format!("{{{at}, {}}}", p.unit.map_or("NULL".into(), |u| self.g.part_header(u))));
            for s in &p.body {
                let StmtKind::Emit(Emit::UInt { value, bytes, big }) = &s.kind else { continue };
                let text = self.expr(value);
                fallible |= value.may_fault();
                line!(self, "wl_put_at(built_ + {at}, {text}, {bytes}, {big});");
                at += u32::from(*bytes);
            }
        }
        self.check(fallible);
        line!(
            self,
            "const wl_piece part_[{}] = {{{}}};",
            parts.len().max(1),
            if pieces.is_empty() { "{0, NULL}".into() } else { pieces.join(", ") }
        );
        total
    }

    /// Builds parts in `core->out`; opens a block in which `part_` tells where each begins.
    fn frame_parts(&mut self, parts: &'m [Part]) {
        line!(self, "{{ wl_piece part_[{}];\nwl_begin(x);", parts.len().max(1));
        for (i, p) in parts.iter().enumerate() {
            let header = p.unit.map_or("NULL".into(), |u| self.g.part_header(u));
            line!(self, "part_[{i}] = (wl_piece){{(uint32_t)(x->core->out.p - x->core->out.start), {header}}};");
            self.block(&p.body);
            self.check(true);
        }
    }

    /// Joins to an element that is compiled once: its faults are ours.
    pub fn output(&mut self, wire: WireId, frame: LocalId, mark: &Expr, state: &'m [Carried]) {
        let m = self.g.m;
        let Target::Input { input: to, index } = m.wires[wire.index()].to else { return };
        let (name, v, text, leave) = (names::input(m, to), self.name(frame), self.expr(mark), self.leave_fault());
        let mut more = if m.inputs[to.index()].indexed { format!(", {index}") } else { String::new() };
        for f in &m.inputs[to.index()].state {
            let value = state.iter().find(|c| c.field == *f).map(|c| &c.value);
            more.push_str(", ");
            more.push_str(&self.expr(value.unwrap_or(&m.packet[f.index()].init)));
        }
        line!(self, "if (WL_UNLIKELY({name}(x, {v}, {text}{more}) != WL_T_DONE)) {{ {leave} }}");
    }

    pub fn queue(&mut self, port: PortId, index: &Expr, act: QueueAct, dst: LocalId) {
        let (text, dst) = (self.expr(index), self.name(dst));
        line!(self, "{{ uint32_t i_ = (uint32_t)({text});");
        self.check(index.may_fault());
        let word = match act {
            QueueAct::Pop => "POP",
            QueueAct::Drop => "DROP",
            QueueAct::Len => "LEN",
            QueueAct::First => "FIRST",
        };
        line!(self, "{dst} = packets.queue(x->core, {}, i_, WL_Q_{word}); }}", port.0);
    }

    pub fn send_frame(&mut self, port: PortId, index: &Expr, parts: &'m [Part]) {
        self.frame_parts(parts);
        let text = self.expr(index);
        line!(self, "uint32_t i_ = (uint32_t)({text});");
        self.check(index.may_fault());
        line!(self, "wl_bytes built_ = wl_built(x);\nwl_parts_done(0, x->core->out.start, part_, {}, built_.n, built_.n, NULL, NULL);", parts.len());
        if self.g.m.is_queue(port) {
            line!(self, "x->core->mark = 0;");
            self.entry(port, None, &[], None);
        }
        line!(self, "packets.transmit(x->core, {}, i_, built_.p, built_.n); }}", port.0);
    }

    /// Fills the entry of a queue, whose layout is that of [`layout::Entry`]: that of the frame
    /// that is moved, or (None) that of a copy. `view`: of the frame, if it is not built here.
    fn entry(&mut self, port: PortId, moved: Option<&str>, state: &'m [Carried], view: Option<&str>) {
        let m = self.g.m;
        let Some(entry) = m.carries(port).map(|c| layout::Entry::of(m, c)).filter(|e| e.bytes > 0) else { return };
        let all = layout::entry_max(m);
        match moved {
            Some(f) => line!(self, "{{ uint8_t *entry_ = WL_ENTRY(x, {f}, {all});"),
            None => line!(self, "{{ uint8_t *entry_ = WL_ENTRY_OF_COPY(x, {all});"),
        }
        if let FramePart::Headers(behind) = entry.part {
            match view {
                Some(v) => line!(self, "wl_entry_u32(entry_, 0, wl_there({v}->n, {v}->top + {behind}));"),
                None => line!(self, "wl_entry_u32(entry_, 0, built_.n);"),
            }
        }
        for f in &entry.fields {
            let value = state.iter().find(|c| c.field == f.field).map(|c| &c.value);
            let text = self.expr(value.unwrap_or(&m.packet[f.field.index()].init));
            line!(self, "{}(entry_, {}, {text});", stored(m, m.packet[f.field.index()].ty), f.at);
        }
        line!(self, "}}");
    }

    fn swap_fields(&mut self, frame: LocalId, layer: u32, a: FieldId, b: FieldId) {
        let (m, unit, v) = (self.g.m, self.frame_unit_of(frame), self.name(frame));
        let header = self.g.layers(unit)[layer as usize].unit;
        if let Some([a, b, size]) = passes::swaps::places(m, header, a, b) {
            line!(
                self,
                "{{ uint8_t *h_ = {v}->p + {v}->at[{layer}], t_[{size}];\nmemcpy(t_, h_ + {a}, {size});\n\
                 memcpy(h_ + {a}, h_ + {b}, {size});\nmemcpy(h_ + {b}, t_, {size}); }}"
            )
        }
    }

    fn set_header(&mut self, frame: LocalId, layer: u32, f: FieldId, value: &Expr) {
        let m = self.g.m;
        let u = self.frame_unit_of(frame);
        let layers = self.g.layers(u).to_vec();
        let header = layers[layer as usize].unit;
        let (v, headers) = (self.name(frame), format!("{}_headers", names::unit(m, u)));
        let field = &m.unit(header).fields[f.index()];
        let size = field_size(m, field).unwrap_or(0);
        let (at, from, len) = match self.g.offset(u, layer, header, f) {
            // The words around it: sums go over pairs of bytes from the header's first one.
            Offset::Fixed(n) => {
                // Behind a header's last byte the frame may end.
                let end = (n + size).next_multiple_of(2).min(least(m, header).max(n + size));
                (format!("h_ + {n}"), format!("h_ + {}", n & !1), (end - (n & !1)).to_string())
            }
            Offset::Slot(s) => {
                let at = format!("{v}->p + {v}->slot[{s}]");
                let len =
                    if field_size(m, field).is_none() { format!("{v}->slot[{}]", s + 1) } else { size.to_string() };
                (at.clone(), at, len)
            }
            Offset::Unknown => return,
        };
        let own = m.unit(header).header.clone();
        let sum = own.checksum.filter(|c| c.field != f);
        let (c, text) = (self.g.cty(value.ty), self.expr(value));
        line!(self, "{{ uint8_t *h_ = {v}->p + {v}->at[{layer}];\n{c} val_ = {text};\n(void)h_;");
        self.check(value.may_fault());
        let is_address = own.addresses.is_some_and(|(a, b)| a == f || b == f);
        let inner: Vec<(u32, Checksum)> = (0..layers.len() as u32)
            .filter(|n| is_address && leads_to(&layers, layer, *n))
            .filter_map(|n| m.unit(layers[n as usize].unit).header.checksum.map(|c| (n, c)))
            .filter(|(_, c)| matches!(c.over, Over::Transport { .. }))
            .collect();
        let is_sum = own.checksum.is_some_and(|c| c.field == f);
        let sums = !is_sum && (sum.is_some() || !inner.is_empty());
        // A byte alone: its word is changed in a register. Read again right behind a store of half
        // of it, it would wait for the store.
        let pair = match self.g.offset(u, layer, header, f) {
            Offset::Fixed(n)
                if sums
                    && size == 1
                    && sum.and_then(|c| fixed_offset(m, header, c.field)).is_some_and(|s| s > n | 1) =>
            {
                Some(n & 1)
            }
            Offset::Fixed(_) | Offset::Slot(_) | Offset::Unknown => None,
        };
        let place = from.clone();
        let (at, from) = match pair {
            Some(n) => (format!("pair_ + {n}"), "pair_".to_string()),
            None => (at, from),
        };
        if pair.is_some() {
            line!(self, "uint8_t pair_[2];\nmemcpy(pair_, {place}, 2);")
        }
        if sums {
            line!(self, "uint64_t was_ = wl_sum({from}, {len}, 0);")
        }
        let own_length = match self.g.offset(u, layer, header, f) {
            Offset::Slot(s) if field_size(m, field).is_none() => Some(format!("{v}->slot[{}]", s + 1)),
            Offset::Fixed(_) | Offset::Slot(_) | Offset::Unknown => None,
        };
        let store = match &own_length {
            Some(n) => format!("if (val_.n == {n}) memmove({at}, val_.p, val_.n);"),
            None => store(&at, field, "val_"),
        };
        line!(self, "{store}");
        if pair.is_some() {
            line!(self, "memcpy({place}, pair_, 2);")
        }
        if sums {
            line!(self, "uint64_t now_ = wl_sum({from}, {len}, 0);")
        }
        if let Some(c) = sum {
            let optional = matches!(c.over, Over::Transport { optional: true, .. });
            let off = fixed_offset(m, header, c.field).unwrap_or(0);
            let there = match c.when {
                Some(_) => format!("if (wl_layer_summed({v}, {headers}, {layer})) "),
                None => String::new(),
            };
            line!(self, "{there}wl_sum_fix(h_ + {off}, was_, now_, {optional});");
        }
        for (n, c) in inner {
            let off = fixed_offset(m, layers[n as usize].unit, c.field).unwrap_or(0);
            let optional = matches!(c.over, Over::Transport { optional: true, .. });
            line!(self, "if (WL_HAS({v}, {n}) && {v}->net[{n}] == {layer}) wl_sum_fix({v}->p + {v}->at[{n}] + {off}, was_, now_, {optional});");
        }
        // Headers further out whose checksum covers this one.
        let outer = (0..layers.len() as u32).any(|n| {
            leads_to(&layers, n, layer)
                && matches!(
                    m.unit(layers[n as usize].unit).header.checksum.map(|c| c.over),
                    Some(Over::Message | Over::Transport { .. })
                )
        });
        if outer {
            line!(self, "wl_view_resum({v}, {headers}, {layer}, {v}->at[{layer}]);")
        }
        line!(self, "}}");
    }
}

/// Offset of a header, one behind it, and the end of its payload; without a header, those of the
/// bytes behind all headers.
fn place_before(v: &str, layer: Option<u32>) -> [String; 3] {
    match layer {
        Some(n) => [format!("{v}->at[{n}]"), format!("{v}->at[{n}] + 1u"), format!("{v}->lim[{n}]")],
        None => [format!("{v}->top"), format!("{v}->n"), format!("{v}->end")],
    }
}

/// Writes a value into its container.
pub(crate) fn store(at: &str, field: &Field, value: &str) -> String {
    match &field.kind {
        FieldKind::UInt { bytes, shift, bits, big, .. } if u32::from(*bits) == u32::from(*bytes) * 8 && *shift == 0 => {
            match (bytes, big) {
                (1, _) => format!("*({at}) = (uint8_t){value};"),
                (2 | 4 | 8, _) => {
                    let w = *bytes as u32 * 8;
                    let swapped =
                        if *big { format!("__builtin_bswap{w}((uint{w}_t){value})") } else { value.to_string() };
                    format!("{{ uint{w}_t w_ = {swapped}; memcpy({at}, &w_, {bytes}); }}")
                }
                (n @ 9.., big) => format!("wl_put_at({at}, {value}, {n}, {big});"),
                (n, _) => format!(
                    "for (unsigned i_ = 0; i_ < {n}; i_++) ({at})[{}] = (uint8_t)({value} >> (8 * i_));",
                    if *big { format!("{n} - 1 - i_") } else { "i_".into() }
                ),
            }
        }
        FieldKind::UInt { bytes, shift, bits, big, .. } => {
            let mask = ((1u128 << bits) - 1) << shift;
            let index = |i: &str| if *big { format!("{bytes} - 1 - {i}") } else { i.to_string() };
            format!(
                "for (unsigned i_ = 0; i_ < {bytes}; i_++) {{ uint8_t m_ = (uint8_t)(UINT64_C({mask:#x}) >> (8 * i_)), *b_ = &({at})[{}]; *b_ = (uint8_t)((*b_ & ~m_) | ((uint8_t)((uint64_t){value} << {shift} >> (8 * i_)) & m_)); }}",
                index("i_")
            )
        }
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
        | FieldKind::Nothing => format!("if ({value}.n == {n}) memcpy({at}, {value}.p, {n});", n = "sizeof_field_")
            .replace("sizeof_field_", &field_len(field)),
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn field_len(field: &Field) -> String {
    match &field.kind {
        FieldKind::Bytes { extent: Extent::Length(e), .. } => match &*e.kind {
            ExprKind::Int(n) => n.to_string(),
            _ => "0".into(),
        },
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
        | FieldKind::Let { .. }
        | FieldKind::Require { .. }
        | FieldKind::Recover { .. }
        | FieldKind::Pass { .. }
        | FieldKind::Align { .. }
        | FieldKind::Nothing => "0".into(),
    }
}

impl<'m> Gen<'m> {
    /// The description of a header that is built, as a pointer.
    pub fn part_header(&mut self, u: UnitId) -> String {
        let name = format!("{}_header", names::unit(self.m, u));
        if self.first(&format!("header {}", u.0)) {
            let row = self.header_row(u);
            self.data.push_str(&format!("static const wl_header {name} = {row};\n"));
        }
        format!("&{name}")
    }

    /// Whether the runtime gives the program frames, or the program makes some. A port counts even
    /// if nothing handles its frames.
    pub fn has_frames(&self) -> bool {
        let of_frames = |p: &Port| matches!(p.kind, PortKind::Frames { .. });
        self.m.ports.iter().any(of_frames)
            || self.m.handlers.iter().any(|h| h.on.frame_unit().is_some())
            || self.sends_frames()
    }

    fn sends_frames(&self) -> bool {
        let mut any = false;
        self.m.bodies(&mut |b| {
            walk::stmts(&b.block, &mut |s| any |= matches!(s.kind, StmtKind::Frame { .. } | StmtKind::SendFrame { .. }))
        });
        any
    }

    /// The first lines of a file with frames.
    pub fn frame_head(&self) -> String {
        let keyed = self.m.tables.iter().any(crate::match_tables::is_keyed);
        if !self.has_frames() && !keyed {
            return String::new();
        }
        let layers: Vec<String> = self.frames.slot_layers.iter().map(u32::to_string).collect();
        format!(
            "#define WL_LAYERS {}\n#define WL_SLOTS {}\n#include \"frame.h\"\n#include \"core_hash_table.h\"\n#include \"tuple_space.h\"\n#include \"tuple_space_batch.h\"\n#include \"simd.h\"\n#include \"sketch.h\"\n{}\n",
            self.frames.layers.max(1),
            2 * self.frames.slot_layers.len().max(1),
            if self.has_frames() { Self::frame_statics(&layers) } else { String::new() }
        )
    }

    fn frame_statics(layers: &[String]) -> String {
        format!(
            "/* The layer of each pair of slots. */\nstatic const uint8_t wl_slot_layer[] = {{{}}};\n\
             WL_PARTED_HEAD wl_packets packets;\n\
             /* A header that is there but wrong: counted, and left out. */\n\
             static void wl_header_fault(wl_fx *x, uint32_t kind, uint32_t place) {{ if (x) x->core->host->fault(x->core, kind, place); }}\n",
            if layers.is_empty() { "0".into() } else { layers.join(", ") }
        )
    }

    /// The functions that run handlers over batches, and the table that the runtime gets.
    pub fn frame_entry(&mut self) {
        if !self.has_frames() {
            return;
        }
        let m = self.m;
        self.code.push_str(
            "/* A frame's handling has ended in a fault: the runtime counts it, and runs fault handlers behind the batch. */\n\
             static __attribute__((cold, noinline)) void frame_fault(wl_core *core, uint32_t kind, uint32_t place) {\n\
             core->host->fault(core, kind, place);\n}\n\n",
        );
        let mut cases = String::new();
        for (i, h) in m.handlers.iter().enumerate() {
            let Some(unit) = h.on.frame_unit() else { continue };
            self.batch(i, h, unit);
            cases.push_str(&format!("case {i}: batch_{i}(core, f, n); break;\n"));
        }
        let steer = self.steer();
        let text = format!(
            "static void batch(void *self, wl_core *core, uint32_t handler, wl_frame *f, uint32_t n) {{\n(void)self; (void)core; (void)f; (void)n;\n\
             switch (handler) {{\n{cases}default: break;\n}}\n}}\n\n\
             WL_PARTED wl_packets packets = {{.batch = batch, .steer = {steer}}};\n\n\
             __attribute__((visibility(\"default\"))) wl_packets *wireloom_packets(void) {{ return &packets; }}\n"
        );
        self.code.push_str(&crate::split::apart(&[], &text));
    }
}

impl Gen<'_> {
    /// The steering function, as a C name: frames of one flow key have one hash. A fault in a frame
    /// is counted where it is handled.
    fn steer(&mut self) -> String {
        let m = self.m;
        if m.steer.is_empty() {
            return "NULL".into();
        }
        let mut cases = String::new();
        for s in &m.steer {
            let msg = m.types.iter().position(|t| *t == Ty::Msg(s.unit)).map_or(TyId(0), |n| TyId(n as u32));
            let scope = Scope { locals: vec![("(&v)".into(), msg)], ..Scope::default() };
            let unit = names::unit(m, s.unit);
            let common = if self.frames.common.contains(&s.unit.0) {
                format!("if (WL_UNLIKELY(!{unit}_fast(&v, &f))) ")
            } else {
                String::new()
            };
            let mut text = format!(
                "case {}: for (uint32_t i = 0; i < n; i++) {{\nwl_frame f = {{.p = frames[i].p, .n = frames[i].n, .wire = frames[i].wire}};\n\
                 uint64_t h = 0x57697265;\nwl_view v;\n{common}{unit}_parse(NULL, &v, &f);\n",
                s.port.0
            );
            for k in &s.keys {
                let value = self.expr(&scope, k);
                text.push_str(&match m.ty(k.ty) {
                    Ty::Ip => format!("{{ wl_ip a = {value}; h = wl_mix(h ^ wl_le64(a.b), wl_le64(a.b + 8) ^ UINT64_C(0x9e3779b97f4a7c15)); }}\n"),
                    Ty::UInt(b) if *b > 64 => format!("{{ unsigned __int128 a = {value}; h = wl_mix(h ^ (uint64_t)a, (uint64_t)(a >> 64) ^ UINT64_C(0x9e3779b97f4a7c15)); }}\n"),
                    Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::Endpoint | Ty::Option(_) | Ty::List(..) | Ty::Record(_) | Ty::Tuple(_) | Ty::Msg(_) => format!("h = wl_mix(h ^ (uint64_t)({value}), UINT64_C(0xd6e8feb86659fd93));\n"),
                });
            }
            cases.push_str(&format!("{text}hashes[i] = (uint32_t)(wl_fmix64(h) >> 32);\n}}\nbreak;\n"));
        }
        self.code.push_str(&format!(
            "/* Which core each frame belongs to. */\n\
             static void steer(void *self, uint32_t port, const wl_frame *frames, uint32_t n, uint32_t *hashes) {{\n(void)self;\n\
             switch (port) {{\n{cases}default:\nfor (uint32_t i = 0; i < n; i++) hashes[i] = 0;\n}}\n}}\n\n"
        ));
        "steer".into()
    }
}

/// The function that puts a field into an entry.
pub(crate) fn stored(m: &Module, ty: TyId) -> String {
    format!("wl_entry_{}", stored_as(m, ty))
}

pub(crate) fn stored_as(m: &Module, ty: TyId) -> &'static str {
    match (m.ty(ty), layout::size(m, ty)) {
        (Ty::Ip, _) => "ip",
        (Ty::Bool, _) | (_, 1) => "u8",
        (_, 2) => "u16",
        (_, 4) => "u32",
        (
            Ty::Unit
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Record(_)
            | Ty::Tuple(_)
            | Ty::Msg(_),
            _,
        ) => "u64",
    }
}
