//! Tables that are neither exact nor arrays: wildcard and prefix (support/tuple_space.h), Bloom
//! filter, count-min, ring (support/sketch.h).

use crate::body::BodyGen;
use crate::gen::Gen;
use crate::names;
use crate::parser::line;
use wireloom_ir::packed_keys::packed;
use wireloom_ir::*;

/// Whether a table is neither exact nor an array.
pub(crate) fn is_keyed(t: &Table) -> bool {
    !matches!(t.kind, TableKind::Exact | TableKind::Array)
}

/// Words of a sketch, as C.
fn sketch_words(t: &Table) -> String {
    match t.kind {
        TableKind::Bloom => format!("WL_BLOOM_BITS({}) / 64", t.capacity),
        TableKind::CountMin => format!("WL_CMS_ROWS * UINT64_C({})", cms_width(t)),
        TableKind::HyperLogLog => "WL_HLL_REGISTERS / 8".into(),
        TableKind::Exact | TableKind::Wildcard | TableKind::Lpm | TableKind::Array | TableKind::Ring => "0".into(),
    }
}

fn is_sketch(t: &Table) -> bool {
    matches!(t.kind, TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog)
}

/// 32-bit words of a wildcard table's keys.
fn words32(m: &Module, t: &Table) -> u64 {
    packed(m, t.key).unwrap_or(4).div_ceil(4)
}

impl Gen<'_> {
    pub fn words32(&self, t: &Table) -> u64 {
        words32(self.m, t)
    }

    /// Members of the per-core state.
    pub fn keyed_members(&mut self) -> String {
        let m = self.m;
        let mut text = String::new();
        for (i, t) in m.tables.iter().enumerate().filter(|(_, t)| is_keyed(t)) {
            let (n, value, cap) = (names::table(m, TableId(i as u32)), self.stored(t.value), t.capacity);
            text.push_str(&match t.kind {
                TableKind::Wildcard | TableKind::Lpm => format!(
                    "wl_tuple_space {n}; /* capacity {cap} */\nuint32_t {n}_memory[WL_TUPLE_SPACE_WORDS({0}, {cap})];\n{value} {n}_value[{cap}];\n\
                     _Alignas(64) uint32_t {n}_columns[{0}][WL_TUPLE_SPACE_KEYS]; /* keys of a batch, in columns */\n\
                     uint32_t {n}_even; /* the handler, from 1 on, whose keys these are; words that are the same for common frames are in their columns */\n", words32(m, t)
                ),
                TableKind::Ring => format!("wl_ring {n}; /* capacity {cap} */\n{value} {n}_value[{cap}];\n"),
                TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog => {
                    let own = if m.sharing(t) == TableSharing::One { String::new() } else { format!("uint64_t {n}_words[{}];\n", sketch_words(t)) };
                    format!("wl_sketch {n}; /* capacity {cap} */\n{own}")
                }
                TableKind::Array | TableKind::Exact => String::new(),
            });
        }
        text
    }

    pub fn keyed_init(&mut self) -> String {
        let m = self.m;
        let mut text = String::new();
        for (i, t) in m.tables.iter().enumerate().filter(|(_, t)| is_keyed(t)) {
            let (n, cap) = (names::table(m, TableId(i as u32)), t.capacity);
            let seed = "wl_table_seed(core) ^ wl_random(x, UINT64_MAX)";
            text.push_str(&match t.kind {
                TableKind::Wildcard | TableKind::Lpm => format!("wl_tuple_space_init(&wl_state(x)->{n}, wl_state(x)->{n}_memory, {}, {cap});\n", words32(m, t)),
                TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog => {
                    let (whose, seed) = if m.sharing(t) == TableSharing::One { ("wl_shared(x)", format!("wl_shared(x)->{n}_seed")) } else { ("wl_state(x)", seed.to_string()) };
                    let places = match t.kind { TableKind::Bloom => format!("WL_BLOOM_BITS({cap})"), TableKind::CountMin => format!("UINT64_C({})", cms_width(t)), TableKind::HyperLogLog => "0".into(), TableKind::Exact | TableKind::Wildcard | TableKind::Lpm | TableKind::Array | TableKind::Ring => "0".into() };
                    format!("wl_state(x)->{n} = (wl_sketch){{.words = {whose}->{n}_words, .places = {places}, .seed = {seed}}};\n")
                }
                TableKind::Array | TableKind::Ring | TableKind::Exact => String::new(),
            });
        }
        text
    }

    /// Members of the memory of all cores.
    pub fn shared_sketches(&self) -> String {
        let m = self.m;
        m.tables
            .iter()
            .enumerate()
            .filter(|(_, t)| is_sketch(t) && m.sharing(t) == TableSharing::One)
            .map(|(i, t)| {
                let n = names::table(m, TableId(i as u32));
                format!("uint64_t {n}_seed;\n_Alignas(64) uint64_t {n}_words[{}];\n", sketch_words(t))
            })
            .collect()
    }

    pub fn shared_sketch_init(&self) -> String {
        let m = self.m;
        m.tables
            .iter()
            .enumerate()
            .filter(|(_, t)| is_sketch(t) && m.sharing(t) == TableSharing::One)
            .map(|(i, _)| format!("s->{}_seed = wl_table_seed(shared);\n", names::table(m, TableId(i as u32))))
            .collect()
    }

    pub fn keyed_at_batch_end(&self) -> String {
        let m = self.m;
        m.tables
            .iter()
            .enumerate()
            .filter(|(_, t)| is_keyed(t))
            .map(|(i, _)| {
                let n = names::table(m, TableId(i as u32));
                format!("wl_stats_flush(&wl_state(x)->{n}.stats, &wl_shared(x)->stats[{i}]);\n")
            })
            .collect()
    }
}

/// Counters of a row: twice the keys it is meant for.
fn cms_width(t: &Table) -> u64 {
    (2 * t.capacity).next_power_of_two()
}

impl<'m> BodyGen<'_, 'm> {
    /// Packs a key or mask into the words `name`.
    fn words(&mut self, t: &Table, e: &Expr, name: &str) {
        if packed(self.g.m, t.key).is_none() {
            return self.digest(t, e, name);
        }
        let (pack, c, text) = (self.g.packer(t.key), self.g.cty(t.key), self.expr(e));
        line!(self, "{c} {name}v_ = {text};");
        self.check(e.may_fault());
        line!(self, "uint64_t {name}[{}];\n{pack}({name}, {name}v_);", self.g.words(t));
    }

    /// A sketch's key of no fixed size: two digests of it, from different beginnings.
    fn digest(&mut self, t: &Table, e: &Expr, name: &str) {
        let (c, text) = (self.g.cty(t.key), self.expr(e));
        line!(self, "{c} {name}v_ = {text};");
        self.check(e.may_fault());
        let value = format!("{name}v_");
        let (a, b) = (
            self.g.hash(t.key, "UINT64_C(0xcbf29ce484222325)", &value),
            self.g.hash(t.key, "UINT64_C(0x9ae16a3b2f90404f)", &value),
        );
        line!(self, "uint64_t {name}[2] = {{{a}, {b}}};");
    }

    pub fn keyed(&mut self, id: TableId, s: TableStmt<'m>) {
        let t = &self.g.m.tables[id.index()];
        let n = format!("wl_state(x)->{}", names::table(self.g.m, id));
        match t.kind {
            TableKind::Wildcard | TableKind::Lpm => self.masked(t, &n, s),
            TableKind::Bloom | TableKind::CountMin => self.sketch(t, &n, id, s),
            TableKind::HyperLogLog => self.estimate(&n, s),
            TableKind::Ring => self.ring(t, &n, s),
            TableKind::Array | TableKind::Exact => {}
        }
    }

    fn masked(&mut self, t: &'m Table, n: &str, s: TableStmt<'m>) {
        let words = words32(self.g.m, t);
        let value = format!("{n}_value[e_]");
        let copied = layout::has_bytes(self.g.m, t.value) && t.copied;
        let load = |g: &mut Gen, at: &str| {
            let text = g.load(t.value, at);
            if copied {
                format!("{}({text}, x)", g.copier(t.value))
            } else {
                text
            }
        };
        match s {
            TableStmt::Get { key, dst, .. } => {
                let (dst, load) = (self.name(*dst), load(self.g, &value));
                line!(self, "{{");
                let (has, small) = (format!("{dst}.has"), packed(self.g.m, t.value).is_some_and(|n| n <= 16));
                if self.batched.as_ref().and_then(|a| a.masked.as_ref()).is_some_and(|u| u.is(key)) {
                    let id = self.batched.as_ref().and_then(|a| a.masked.as_ref()).map_or(0, |u| u.table.0);
                    line!(self, "const uint32_t e_ = batched->entry;\n{has} = e_ != UINT32_MAX;\nkept.asked_{id} += {has} ? UINT64_C(1) : UINT64_C(1) << 32;");
                    // A small value is loaded in any case: whether there is one cannot be foretold.
                    let other = self.g.load(t.value, &format!("{n}_value[{has} ? e_ : 0]"));
                    if small {
                        line!(self, "{dst}.v = {other};\n}}")
                    } else {
                        line!(self, "if ({has}) {dst}.v = {load};\n}}")
                    }
                    return;
                } else {
                    self.words(t, key, "k_");
                    line!(
                        self,
                        "const uint32_t e_ = wl_tuple_space_find(&{n}, (const uint32_t *)(const void *)k_, {words});"
                    );
                }
                line!(self, "{dst}.has = e_ != UINT32_MAX;");
                line!(self, "if ({dst}.has) {{ {dst}.v = {load}; {n}.stats.hits++; }} else {n}.stats.misses++;\n}}");
                self.check(copied);
            }
            TableStmt::Insert { key, mask, priority, value: v, place, .. } => {
                let (c, text, prio) = (self.g.cty(t.value), self.expr(v), self.expr(priority));
                line!(self, "{{ {c} val_ = {text};\nuint32_t prio_ = {prio};\n(void)prio_;");
                self.check(v.may_fault() || priority.may_fault());
                self.words(t, key, "k_");
                self.words(t, mask, "m_");
                let prio =
                    if t.kind == TableKind::Lpm { format!("wl_ones(m_, {})", self.g.words(t)) } else { "prio_".into() };
                let leave = self.leave_fault();
                line!(self, "uint32_t e_ = wl_tuple_space_insert(&{n}, (const uint32_t *)(const void *)k_, (const uint32_t *)(const void *)m_, {prio});");
                line!(self, "if (WL_UNLIKELY(e_ == UINT32_MAX)) {{ wl_fail(x, WL_F_FULL, {}); {leave} }}", place.0);
                let store = self.g.store(t.value, &value, "val_");
                line!(self, "{store}\n}}");
            }
            TableStmt::Delete { key, mask, priority, dst, .. } => {
                let prio = self.expr(priority);
                line!(self, "{{ uint32_t prio_ = {prio};\n(void)prio_;");
                self.words(t, key, "k_");
                self.words(t, mask, "m_");
                let prio =
                    if t.kind == TableKind::Lpm { format!("wl_ones(m_, {})", self.g.words(t)) } else { "prio_".into() };
                let set = dst.map(|d| format!("{} = ", self.name(d))).unwrap_or_default();
                line!(self, "{set}wl_tuple_space_delete(&{n}, (const uint32_t *)(const void *)k_, (const uint32_t *)(const void *)m_, {prio}); }}");
            }
            TableStmt::Len { dst, .. } => {
                let dst = self.name(*dst);
                line!(self, "{dst} = {n}.used;")
            }
            TableStmt::Next { cursor, key, value: v, more, masked, .. } => {
                let (unpack, load, all) = (self.g.unpacker(t.key), load(self.g, &value), self.g.words(t));
                let (cursor, key, v, more) = (self.name(*cursor), self.name(*key), self.name(*v), self.name(*more));
                line!(self, "{{ uint32_t e_ = wl_tuple_space_next(&{n}, &{cursor});\n{more} = e_ != UINT32_MAX;\nif ({more}) {{ uint64_t k_[{all}] = {{0}};");
                line!(
                    self,
                    "memcpy(k_, wl_tuple_space_key(&{n}, e_), {words} * 4);\n{key} = {unpack}(k_); {v} = {load};"
                );
                if let Some((mask, priority)) = masked {
                    let (mask, priority) = (self.name(*mask), self.name(*priority));
                    line!(self, "memcpy(k_, wl_tuple_space_mask(&{n}, e_), {words} * 4);\n{mask} = {unpack}(k_); {priority} = *wl_tuple_space_priority(&{n}, e_);");
                }
                line!(self, "}} }}");
                self.check(copied);
            }
            // Such tables have no other entries: `lang` refuses these.
            TableStmt::Put { .. }
            | TableStmt::Remove { .. }
            | TableStmt::Update { .. }
            | TableStmt::Push { .. }
            | TableStmt::Pop { .. } => {}
        }
    }

    /// Bytes of values that are taken or looked at are copied: the place may be filled anew before
    /// they are used.
    fn ring(&mut self, t: &'m Table, n: &str, s: TableStmt<'m>) {
        let (cap, value) = (t.capacity, format!("{n}_value[i_]"));
        let load = self.g.load(t.value, &value);
        let c = self.g.cty(t.value);
        let keep = |b: &mut Self, dst: &str| {
            if layout::has_bytes(b.g.m, t.value) {
                let copy = b.g.copier(t.value);
                line!(b, "{dst} = {copy}({dst}, x);");
            }
        };
        match s {
            TableStmt::Push { value: v, dst, .. } => {
                let (text, dst) = (self.expr(v), self.name(*dst));
                line!(self, "{{ {c} val_ = {text};");
                self.check(v.may_fault());
                let store = self.g.store(t.value, &value, "val_");
                line!(
                    self,
                    "uint64_t i_ = wl_ring_push(&{n}, {cap});\n{dst} = i_ != UINT64_MAX;\nif ({dst}) {{ {store} }}\n}}"
                );
            }
            TableStmt::Pop { dst, .. } => {
                let dst = self.name(*dst);
                line!(self, "{{ uint64_t i_ = wl_ring_pop(&{n}, {cap});\n{dst}.has = i_ != UINT64_MAX;\nif ({dst}.has) {{ {dst}.v = {load};");
                keep(self, &format!("{dst}.v"));
                line!(self, "}}\n}}");
                self.check(layout::has_bytes(self.g.m, t.value));
            }
            TableStmt::Get { key, dst, .. } => {
                let (text, dst) = (self.expr(key), self.name(*dst));
                line!(self, "{{ uint64_t i_ = {text};");
                self.check(key.may_fault());
                line!(self, "i_ = wl_ring_at(&{n}, i_, {cap});\n{dst}.has = i_ != UINT64_MAX;\nif ({dst}.has) {{ {dst}.v = {load};");
                keep(self, &format!("{dst}.v"));
                line!(self, "}}\n}}");
                self.check(layout::has_bytes(self.g.m, t.value));
            }
            TableStmt::Len { dst, .. } => {
                let dst = self.name(*dst);
                line!(self, "{dst} = {n}.n;")
            }
            TableStmt::Next { cursor, key, value: v, more, .. } => {
                let k = self.g.cty(t.key);
                let (cursor, key, v, more) = (self.name(*cursor), self.name(*key), self.name(*v), self.name(*more));
                line!(self, "{{ uint64_t i_ = wl_ring_at(&{n}, {cursor}, {cap});\n{more} = i_ != UINT64_MAX;\nif (!{more}) {cursor} = UINT64_MAX;\nelse {{ {key} = ({k}){cursor}++; {v} = {load};");
                keep(self, &v);
                line!(self, "}} }}");
                self.check(layout::has_bytes(self.g.m, t.value));
            }
            // Such tables have no other entries: `lang` refuses these.
            TableStmt::Put { .. }
            | TableStmt::Remove { .. }
            | TableStmt::Update { .. }
            | TableStmt::Insert { .. }
            | TableStmt::Delete { .. } => {}
        }
    }

    /// Keys are hashed as `hash` does: equal everywhere, so that estimates can be compared.
    fn estimate(&mut self, n: &str, s: TableStmt<'m>) {
        match s {
            TableStmt::Put { key, .. } => {
                let number = self.g.m.types.iter().position(|t| *t == Ty::UInt(64)).map_or(TyId(0), |n| TyId(n as u32));
                let hash = Expr::new(number, ExprKind::Builtin(Builtin::Hash, vec![key.clone()]));
                let text = self.expr(&hash);
                line!(self, "{{ uint64_t h_ = {text};");
                self.check(key.may_fault());
                line!(self, "wl_hll_add(&{n}, h_); }}");
            }
            TableStmt::Len { dst, .. } => {
                let dst = self.name(*dst);
                line!(self, "{dst} = wl_hll_estimate(&{n});")
            }
            // Such tables have no other entries: `lang` refuses these.
            TableStmt::Get { .. }
            | TableStmt::Remove { .. }
            | TableStmt::Update { .. }
            | TableStmt::Next { .. }
            | TableStmt::Insert { .. }
            | TableStmt::Delete { .. }
            | TableStmt::Push { .. }
            | TableStmt::Pop { .. } => {}
        }
    }

    fn sketch(&mut self, t: &'m Table, n: &str, id: TableId, s: TableStmt<'m>) {
        let shared = self.g.m.sharing(t) == TableSharing::One;
        let hash = format!(
            "const uint64_t h_ = wl_sketch_hash(&{n}, k_, {});",
            if packed(self.g.m, t.key).is_none() { 2 } else { self.g.words(t) }
        );
        let bloom = t.kind == TableKind::Bloom;
        match s {
            TableStmt::Get { key, dst, .. } => {
                let dst = self.name(*dst);
                line!(self, "{{");
                self.words(t, key, "k_");
                line!(
                    self,
                    "{hash}\n{dst}.has = true;\n{dst}.v = {}(&{n}, h_);\n}}",
                    if bloom { "wl_bloom_has" } else { "wl_cms_get" }
                );
            }
            TableStmt::Put { key, .. } if bloom => {
                line!(self, "{{");
                self.words(t, key, "k_");
                line!(self, "{hash}\nwl_bloom_add(&{n}, h_, {shared});\n}}");
            }
            TableStmt::Put { key, value, .. } => {
                let text = self.expr(value);
                line!(self, "{{ uint64_t val_ = {text};");
                self.words(t, key, "k_");
                line!(self, "{hash}\nwl_cms_raise(&{n}, h_, val_, {shared});\n}}");
            }
            TableStmt::Update { key, entry, body, .. } => {
                let (name, h, before) = (self.name(*entry), self.temp("uint64_t"), self.temp("uint64_t"));
                line!(self, "{{");
                self.words(t, key, "k_");
                line!(
                    self,
                    "{hash}\n{h} = h_;\n{name} = {}(&{n}, h_);\n{before} = {name};\n}}",
                    if bloom { "wl_bloom_has" } else { "wl_cms_get" }
                );
                self.block(body);
                if bloom {
                    line!(self, "if ({name}) wl_bloom_add(&{n}, {h}, {shared});")
                } else {
                    line!(self, "wl_cms_count(&{n}, {h}, {before}, {name}, {shared});")
                }
            }
            TableStmt::Remove { dst: Some(d), .. } => {
                let d = self.name(*d);
                line!(self, "{d} = false;")
            }
            // The published count, and the changes since.
            TableStmt::Len { dst, .. } => {
                let dst = self.name(*dst);
                line!(
                    self,
                    "{dst} = __atomic_load_n(&wl_shared(x)->stats[{}].entries, __ATOMIC_RELAXED) + {n}.stats.entries;",
                    id.0
                )
            }
            TableStmt::Next { more, cursor, .. } => {
                let (more, cursor) = (self.name(*more), self.name(*cursor));
                line!(self, "{more} = false;\n{cursor} = UINT64_MAX;")
            }
            // Such tables have no other entries: `lang` refuses these.
            TableStmt::Remove { .. }
            | TableStmt::Insert { .. }
            | TableStmt::Delete { .. }
            | TableStmt::Push { .. }
            | TableStmt::Pop { .. } => {}
        }
    }
}
