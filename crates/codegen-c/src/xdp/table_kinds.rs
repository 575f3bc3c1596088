//! Arrays, sketches, prefixes and wildcard tables in maps of the kernel.
//!
//! - An array's entry has a lock of its own. It is read without it, as exact tables are.
//! - A sketch is an array of words, which processors change by atomic operations. A register of a
//!   HyperLogLog is a word with a bit for each rank that it has had: so no change is lost.
//! - Prefixes lie in the kernel's own trie. The process changes it, an entry as a whole.
//! - A ring is the kernel's own (`BPF_MAP_TYPE_RINGBUF`). The process takes its values.
//! - A wildcard table has a list of masks, and one hash table for the entries of all of them. The
//!   process changes both so that a packet finds either the old entry or the new one.

use super::XdpTable;
use crate::body::BodyGen;
use crate::gen::Gen;
use crate::names;
use crate::parser::line;
use wireloom_ir::*;

/// Masks of a wildcard table, at most.
pub const MASKS: u32 = 1024;

/// `BPF_F_MMAPABLE`: the process shares a map's memory.
const MMAPABLE: u32 = 1024;

/// Words of a sketch's map, and counters of a row or bits.
fn sketch(t: &Table) -> (u64, u64) {
    match t.kind {
        TableKind::CountMin => {
            let row = (2 * t.capacity).next_power_of_two();
            (4 * row, row)
        }
        TableKind::Exact
        | TableKind::Wildcard
        | TableKind::Lpm
        | TableKind::Array
        | TableKind::Bloom
        | TableKind::HyperLogLog
        | TableKind::Ring => {
            let bits = (t.capacity * 10).next_multiple_of(512);
            (bits / 64, bits)
        }
    }
}

fn map(kind: &str, key: &str, value: &str, entries: &str, flags: u32, name: &str) -> String {
    format!(
        "struct {{ WL_MAP_NUMBER(type, {kind}); WL_MAP_TYPE(key, {key}); WL_MAP_TYPE(value, {value}); \
         WL_MAP_NUMBER(max_entries, {entries}); WL_MAP_NUMBER(map_flags, {flags}); }} {name} SEC(\".maps\");\n"
    )
}

impl Gen<'_> {
    /// The types, maps and functions of a table that is not exact.
    pub(super) fn xdp_keyed_code(&mut self, x: &XdpTable) {
        let t = &self.m.tables[x.table.index()];
        let (n, title, values) = (&x.map, names::comment(&t.name), x.value_words().max(1));
        match t.kind {
            TableKind::Array => {
                self.types.push_str(&format!(
                    "/* Array {title}: an entry. */\nstruct {n}_slot {{ uint32_t lock, pad; uint64_t value[{values}]; }};\n"
                ));
                let slot = format!("struct {n}_slot");
                // The loader multiplies those of a table in parts.
                self.helpers.push_str(&map("BPF_MAP_TYPE_ARRAY", "uint32_t", &slot, &t.capacity.to_string(), 0, n));
                let (part, alone) = match x.sums {
                    Some(_) => (format!("wl_part() * {}", t.capacity), "WL_MINE"),
                    None => ("0".to_string(), "WL_ALONE"),
                };
                self.helpers.push_str(&format!(
                    "WL_INLINE struct {n}_slot *{n}_at(uint64_t i) {{ if (i >= {}) return NULL; const uint32_t n = (uint32_t)(i + {part}); return bpf_map_lookup_elem(&{n}, &n); }}\n\
                     WL_INLINE bool {n}_alone(const wl_fx *x) {{ return {alone}(x); }}\n",
                    t.capacity
                ));
            }
            TableKind::Bloom | TableKind::CountMin => {
                let (words, places) = sketch(t);
                self.types.push_str(&format!(
                    "/* Sketch {title}. */\nstruct {n}_key {{ uint64_t w[{}]; }};\n",
                    x.key_words()
                ));
                self.helpers.push_str(&map("BPF_MAP_TYPE_ARRAY", "uint32_t", "uint64_t", &words.to_string(), 0, n));
                let kind = if t.kind == TableKind::Bloom { "BLOOM" } else { "COUNTS" };
                self.helpers
                    .push_str(&format!("WL_SKETCH({n}, {}, {places})\nWL_{kind}({n}, {places})\n", x.key_words()));
            }
            TableKind::Lpm => {
                self.types.push_str(&format!(
                    "/* Prefixes {title}: a prefix, and what it stands for. */\nstruct {n}_key {{ uint32_t bits; uint8_t b[{}]; }};\nstruct {n}_value {{ uint64_t v[{values}]; }};\n",
                    x.key
                ));
                let (key, value) = (format!("struct {n}_key"), format!("struct {n}_value"));
                self.helpers.push_str(&map("BPF_MAP_TYPE_LPM_TRIE", &key, &value, &t.capacity.to_string(), 1, n));
            }
            TableKind::Wildcard => {
                self.types.push_str(&format!(
                    "/* Wildcard table {title}: a masked key with its mask's number; an entry; a mask. */\n\
                     struct {n}_key {{ uint64_t w[{0}], mask; }};\n\
                     struct {n}_entry {{ uint64_t next, id, w[{0}], priority, v[{values}]; }};\n\
                     struct {n}_mask {{ uint64_t top, id, w[{0}]; }};\nstruct {n}_found {{ uint64_t v[{values}]; }};\n",
                    x.key_words()
                ));
                let (entry, heads, buckets) = (format!("struct {n}_entry"), x.heads(), x.buckets());
                let array = |value: &str, entries: u64, name: &str| {
                    map("BPF_MAP_TYPE_ARRAY", "uint32_t", value, &entries.to_string(), MMAPABLE, name)
                };
                self.helpers.push_str(&array(&entry, x.places(), n));
                self.helpers.push_str(&array("uint64_t", buckets, &heads));
                let (list, filter) = x.wildcard_numbers();
                self.helpers.push_str(&format!(
                    "WL_WILDCARD({n}, {heads}, \"{list:#x}\", \"{filter:#x}\", {}, {values}, {MASKS}, {}, {buckets})\n",
                    x.key_words(),
                    x.filter_words()
                ));
            }
            TableKind::Ring => {
                self.types.push_str(&format!(
                    "/* Ring {title}: a value. */\nstruct {n}_value {{ uint64_t v[{values}]; }};\n"
                ));
                self.helpers.push_str(&format!(
                    "struct {{ WL_MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF); WL_MAP_NUMBER(max_entries, {}); }} {n} SEC(\".maps\");\n",
                    x.ring
                ));
            }
            TableKind::HyperLogLog => self.helpers.push_str(&map(
                "BPF_MAP_TYPE_ARRAY",
                "uint32_t",
                "uint64_t",
                &HLL_REGISTERS.to_string(),
                MMAPABLE,
                n,
            )),
            TableKind::Exact => {}
        }
    }
}

/// The body of the program for changes from outside.
pub(super) fn changes(kind: TableKind, x: &XdpTable, capacity: u64) -> String {
    let (n, keys, values) = (&x.map, x.key_words(), x.value_words());
    match kind {
        TableKind::Array => format!("WL_ARRAY_CHANGES({n}, {}, {capacity})", values.max(1)),
        TableKind::Bloom => format!("WL_BLOOM_CHANGES({n}, {keys})"),
        TableKind::CountMin => format!("WL_COUNTS_CHANGES({n}, {keys})"),
        TableKind::Exact | TableKind::Wildcard | TableKind::Lpm | TableKind::HyperLogLog | TableKind::Ring => {
            format!("WL_CHANGES({n}, {keys}, {values})")
        }
    }
}

impl<'m> BodyGen<'_, 'm> {
    pub(super) fn xdp_ring(&mut self, x: &XdpTable, s: &'m StmtKind) {
        let StmtKind::TablePush { value, dst, .. } = s else { return };
        let (t, n, dst) = (&self.g.m.tables[x.table.index()], &x.map, self.name(*dst));
        let (codec, c, text) = (self.g.xdp_codec(t.value), self.g.cty(t.value), self.expr(value));
        line!(self, "{{ const {c} new_ = {text};");
        self.check(value.may_fault());
        line!(
            self,
            "struct {n}_value v_ = {{0}};\npack_{codec}(x, v_.v, new_);\n{dst} = wl_ring_push(&{n}, &v_, sizeof v_, {}, {n}_held(x)); }}\nWL_FORGET_FLAG({dst});",
            t.capacity
        );
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(super) fn xdp_array(&mut self, x: &XdpTable, s: &'m StmtKind) {
        let (t, n) = (&self.g.m.tables[x.table.index()], x.map.clone());
        let (codec, words, cap) = (self.g.xdp_codec(t.value), x.value_words().max(1), t.capacity);
        match s {
            StmtKind::TableGet { key, dst, .. } => {
                let (text, found, lock) = (self.expr(key), self.xdp_found(*dst), self.xdp_lock_slot(&n));
                let dst = self.name(*dst);
                line!(self, "{{ const uint64_t i_ = {text};");
                self.check(key.may_fault());
                line!(self, "{dst}.has = false;\nstruct {n}_slot *s_ = {n}_at(i_);");
                let read = match words {
                    1 => format!("{dst}.v = unpack_{codec}(s_->value, 0);"),
                    _ => format!(
                        "uint64_t v_[{words}];\nif (WL_UNLIKELY(!WL_PEEK({words}, v_, s_))) {{\n{lock}WL_COPY({words}, v_, s_->value);\nwl_unlock(&s_->lock);\n}}\n{dst}.v = unpack_{codec}(v_, 0);"
                    ),
                };
                line!(self, "if (s_) {{\n{dst}.has = true;\n{read}\n}} }}\n{found}");
            }
            StmtKind::TablePut { key, value, place, .. } => {
                let (c, new) = (self.g.cty(t.value), self.expr(value));
                line!(self, "{{ const {c} new_ = {new};");
                self.check(value.may_fault());
                self.xdp_slot(x, key, *place);
                let lock = self.xdp_lock_slot(&n);
                line!(self, "{lock}");
                self.xdp_fill(&codec, words, "new_");
                line!(self, "wl_unlock(&s_->lock); }} }}");
            }
            StmtKind::TableRemove { key, dst, .. } => {
                let (text, lock) = (self.expr(key), self.xdp_lock_slot(&n));
                let set = dst.map(|d| format!("{} = i_ < {cap};\n", self.name(d))).unwrap_or_default();
                line!(self, "{{ const uint64_t i_ = {text};");
                self.check(key.may_fault());
                line!(self, "{set}struct {n}_slot *s_ = {n}_at(i_);");
                line!(self, "if (s_) {{\n{lock}_Pragma(\"unroll\") for (int j_ = 0; j_ < {words}; j_++) s_->value[j_] = 0;\nwl_unlock(&s_->lock);\n}} }}");
            }
            StmtKind::TableUpdate { key, entry, body, place, .. } => {
                let (name, at) = (self.name(*entry), format!("slot{}", self.xdp_temp()));
                self.decls.push_str(&format!("wl_slot {at} = {{0}};\n"));
                self.xdp_slot(x, key, *place);
                let lock = self.xdp_lock_slot(&n);
                line!(self, "{lock}{at}.lock = &s_->lock;\n{name} = unpack_{codec}(s_->value, 0);");
                self.locked.push(at.clone());
                self.block(body);
                self.locked.pop();
                self.xdp_fill(&codec, words, &name);
                line!(self, "wl_table_unlock({at}); }}");
            }
            _ => {}
        }
    }

    fn xdp_lock_slot(&mut self, map: &str) -> String {
        let leave = self.leave_fault();
        format!(
            "if (WL_UNLIKELY(!wl_lock_if(!{map}_alone(x), &s_->lock))) {{ wl_fail(x, WL_F_OVERLOAD, 0); {leave} }}\n"
        )
    }

    /// Opens a block with the slot `s_` of an array's entry; another number is a fault.
    fn xdp_slot(&mut self, x: &XdpTable, key: &Expr, place: PlaceId) {
        let (text, n) = (self.expr(key), &x.map);
        let leave = self.leave_fault();
        line!(self, "{{ const uint64_t i_ = {text};");
        self.check(key.may_fault());
        line!(self, "struct {n}_slot *s_ = {n}_at(i_);");
        line!(self, "if (WL_UNLIKELY(!s_)) {{ wl_fail(x, WL_F_INDEX, {}); {leave} }}", place.0);
    }

    fn xdp_fill(&mut self, codec: &str, words: usize, value: &str) {
        line!(
            self,
            "{{ uint64_t v_[{words}] = {{0}};\npack_{codec}(x, v_, {value});\n\
             _Pragma(\"unroll\") for (int j_ = 0; j_ < {words}; j_++) s_->value[j_] = v_[j_]; }}"
        );
    }

    /// Opens a block with the packed key `k_`.
    fn xdp_packed(&mut self, x: &XdpTable, key: &Expr) {
        let table = &self.g.m.tables[x.table.index()];
        let (codec, text) = (self.g.xdp_codec(table.key), self.expr(key));
        line!(self, "{{ struct {}_key k_ = {{0}};\npack_{codec}(x, (uint64_t *)&k_, {text});", x.map);
        self.check(key.may_fault());
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(super) fn xdp_sketch(&mut self, x: &XdpTable, s: &'m StmtKind) {
        let (t, n) = (&self.g.m.tables[x.table.index()], x.map.clone());
        let bloom = t.kind == TableKind::Bloom;
        match s {
            StmtKind::TableGet { key, dst, .. } => {
                let dst = self.name(*dst);
                self.xdp_packed(x, key);
                line!(self, "{dst}.has = true;\n{dst}.v = {n}_get({n}_hash(&k_)); }}");
            }
            StmtKind::TablePut { key, .. } if bloom => {
                self.xdp_packed(x, key);
                line!(self, "{n}_add({n}_hash(&k_)); }}");
            }
            StmtKind::TableUpdate { key, entry, body, .. } => {
                let (name, h) = (self.name(*entry), format!("hash{}", self.xdp_temp()));
                self.decls.push_str(&format!("uint64_t {h} = 0, {h}_was = 0;\n"));
                self.xdp_packed(x, key);
                line!(self, "{h} = {n}_hash(&k_); }}\n{name} = {n}_get({h});\n{h}_was = {name};");
                self.block(body);
                match bloom {
                    true => line!(self, "if ({name}) {n}_add({h});"),
                    false => line!(self, "if ({name} > {h}_was) {n}_add({h}, {name} - {h}_was);"),
                }
            }
            _ => {}
        }
    }

    /// Keys are hashed as `hash` does, so that estimates are equal everywhere.
    pub(super) fn xdp_estimate(&mut self, x: &XdpTable, s: &'m StmtKind) {
        let StmtKind::TablePut { key, .. } = s else { return };
        let number = self.g.m.types.iter().position(|t| *t == Ty::UInt(64)).map_or(TyId(0), |n| TyId(n as u32));
        let text = self.expr(&Expr::new(number, ExprKind::Builtin(Builtin::Hash, vec![key.clone()])));
        line!(self, "{{ const uint64_t h_ = {text};");
        self.check(key.may_fault());
        line!(self, "wl_estimate_add(&{}, h_); }}", x.map);
    }

    /// A lookup among prefixes.
    pub(super) fn xdp_prefix(&mut self, x: &XdpTable, s: &'m StmtKind) {
        let StmtKind::TableGet { key, dst, .. } = s else { return };
        let (t, n) = (&self.g.m.tables[x.table.index()], &x.map);
        let (codec, text, found) = (self.g.xdp_codec(t.value), self.expr(key), self.xdp_found(*dst));
        let dst = self.name(*dst);
        let c = self.g.cty(t.key);
        line!(self, "{{ const {c} key_ = {text};");
        self.check(key.may_fault());
        let copy = match self.g.m.ty(t.key) {
            Ty::Ip => "__builtin_memcpy(k_.b, &key_, 16);",
            Ty::UInt(128) => "{ const wl_ip b_ = wl_u128_ip(key_); __builtin_memcpy(k_.b, &b_, 16); }",
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Record(_)
            | Ty::Tuple(_)
            | Ty::Msg(_) => "{ const uint32_t b_ = __builtin_bswap32(key_); __builtin_memcpy(k_.b, &b_, 4); }",
        };
        line!(
            self,
            "struct {n}_key k_ = {{.bits = {}}};\n{copy}\nconst struct {n}_value *s_ = bpf_map_lookup_elem(&{n}, &k_);",
            8 * x.key
        );
        line!(self, "{dst}.has = s_ != NULL;\nif (s_) {dst}.v = unpack_{codec}(s_->v, 0); }}\n{found}");
    }

    /// A lookup in a wildcard table.
    pub(super) fn xdp_wildcard(&mut self, x: &XdpTable, s: &'m StmtKind) {
        let StmtKind::TableGet { key, dst, .. } = s else { return };
        let (t, n) = (&self.g.m.tables[x.table.index()], x.map.clone());
        let (codec, found, dst) = (self.g.xdp_codec(t.value), self.xdp_found(*dst), self.name(*dst));
        let words = x.key_words();
        self.xdp_packed(x, key);
        line!(self, "WL_FORGET(k_.w, {words});\nstruct {n}_found f_ = {{0}};\n{dst}.has = {n}_find(&k_, &f_) > 0;");
        line!(self, "if ({dst}.has) {dst}.v = unpack_{codec}(f_.v, 0); }}\n{found}");
    }
}

/// Whether the canonical form of a key has its bytes in the order of an address.
pub fn is_reversed(m: &Module, ty: TyId) -> bool {
    !matches!(m.ty(ty), Ty::Ip)
}
