//! Tables: their memory, the encoding of keys and values as bytes, and the statements on them.
//!
//! Encoded: integers as they lie in memory, bytes and lists behind a 32-bit length, an option as
//! one byte and the value.

use crate::body::{BodyGen, Owner};
use crate::gen::Gen;
use crate::names::{self, mangle};
use crate::parser::line;
use wireloom_ir::layout::encoded_max;
use wireloom_ir::*;

/// Keys up to this size are encoded on the stack.
const STACK_KEY: u64 = 4096;

/// An exact table that all cores use.
fn is_hashed(m: &Module, t: &Table) -> bool {
    t.kind == TableKind::Exact && !packed_keys::is_core_table(m, t)
}

/// The runtime counts buckets in 32 bits; a table of more entries has several in each.
const BUCKETS_MAX: u64 = 1 << 31;

struct Geometry {
    stripes: u64,
    buckets: u64,
    inline: u64,
    entry: u64,
    block: u64,
    blocks: u64,
}

fn geometry(m: &Module, t: &Table) -> Geometry {
    let (inline, block, blocks) = match packed_keys::entry_blocks(m, t) {
        Some(b) => (b.inline, b.data, b.count),
        None => (encoded_max(m, t.key).saturating_add(encoded_max(m, t.value)), 60, 0),
    };
    let stripes = (t.capacity / 1024).next_power_of_two().clamp(1, 64);
    Geometry {
        stripes,
        buckets: t.capacity.next_power_of_two().min(BUCKETS_MAX).max(stripes),
        inline,
        entry: (40 + inline).next_multiple_of(8),
        block,
        blocks,
    }
}

impl Gen<'_> {
    pub fn table_structs(&mut self) {
        let m = self.m;
        if m.tables.is_empty() {
            return;
        }
        let mut text = format!(
            "/* Of all cores. Statistics come first. */\ntypedef struct app_shared {{\nwl_table_stats stats[{}];\n",
            m.tables.len()
        );
        for (i, t) in m.tables.iter().enumerate() {
            if !is_hashed(m, t) {
                continue;
            }
            let g = geometry(m, t);
            text.push_str(&format!(
                "struct {{\nwl_table t;\n_Alignas(64) wl_stripe stripe[{}];\nuint32_t bucket[{}];\n_Alignas(8) uint8_t entry[UINT64_C({})];\nuint8_t block[UINT64_C({})];\n}} {}; /* capacity {} */\n",
                g.stripes, g.buckets, (t.capacity + 1) * g.entry, (g.blocks + 1) * (g.block + 4), names::table(m, TableId(i as u32)), t.capacity
            ));
        }
        text.push_str(&self.shared_arrays());
        text.push_str(&self.shared_sketches());
        text.push_str("} app_shared;\n#define wl_shared(x) ((app_shared *)(x)->core->shared)\n\n");
        self.types.push_str(&text);
    }

    /// Size of the shared memory and the code that sets it up.
    pub fn shared_init(&mut self) -> (String, String) {
        let m = self.m;
        if m.tables.is_empty() {
            return ("0".into(), String::new());
        }
        let mut text = String::from("app_shared *s = shared;\n");
        for (i, t) in m.tables.iter().enumerate() {
            if !is_hashed(m, t) {
                continue;
            }
            let (g, n) = (geometry(m, t), names::table(m, TableId(i as u32)));
            text.push_str(&format!(
                "s->{n}.t = (wl_table){{\n.stats = &s->stats[{i}], .stripe = s->{n}.stripe, .bucket = s->{n}.bucket, .entry = s->{n}.entry, .block = s->{n}.block,\n\
                 .idle = UINT64_C({}), .seed = wl_table_seed(shared), .stripes = {}, .buckets = {}, .entry_size = {}, .inl = {},\n\
                 .capacity = {}, .blocks = {}, .blocks_left = {}, .block_data = {}, .lru = {}, .from_write = {},\n}};\n",
                t.idle, g.stripes, g.buckets, g.entry, g.inline, t.capacity, g.blocks, g.blocks, g.block, t.evict_lru, t.from_write
            ));
        }
        text.push_str(&self.shared_sketch_init());
        ("sizeof(app_shared)".into(), text)
    }

    /// Scratch that a statement's key is encoded in.
    pub fn key_scratch(&self, s: &StmtKind) -> u64 {
        let (StmtKind::TableGet { table, .. }
        | StmtKind::TablePut { table, .. }
        | StmtKind::TableRemove { table, .. }
        | StmtKind::TableUpdate { table, .. }
        | StmtKind::Wait { table, .. }) = s
        else {
            return 0;
        };
        let max = encoded_max(self.m, self.m.tables[table.index()].key);
        if max > STACK_KEY {
            max
        } else {
            0
        }
    }

    /// Defines size, encoder and decoder of a type; answers the suffix of their names.
    fn codec(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let name = mangle(&c);
        if !self.first(&format!("codec {name}")) {
            return name;
        }
        let fixed = |n: u64| {
            (
                format!("(void)v;\nreturn {n};"),
                "wl_give(c, &v, sizeof v);".to_string(),
                "wl_take(c, &v, sizeof v);".to_string(),
            )
        };
        let (size, enc, dec) = match self.m.ty(ty).clone() {
            Ty::Bytes(_) => {
                ("return 4 + v.n;".into(), "wl_give_bytes(c, v);".into(), "v = wl_take_bytes(c, x);".into())
            }
            Ty::Endpoint => (
                "(void)v;\nreturn 20;".into(),
                "wl_give(c, &v, 20);".into(),
                "memset(&v, 0, sizeof v);\nwl_take(c, &v, 20);".into(),
            ),
            Ty::Bool => (
                "(void)v;\nreturn 1;".into(),
                "uint8_t b = v;\nwl_give(c, &b, 1);".into(),
                "uint8_t b;\nwl_take(c, &b, 1);\nv = b != 0;".into(),
            ),
            Ty::UInt(_) | Ty::Int(_) | Ty::Ip | Ty::Unit => fixed(layout::size(self.m, ty).max(1)),
            Ty::Option(t) => {
                let i = self.codec(t);
                (
                    format!("return 1 + (v.has ? size_{i}(v.v) : 0);"),
                    format!("uint8_t b = v.has;\nwl_give(c, &b, 1);\nif (v.has) enc_{i}(c, v.v);"),
                    format!("uint8_t b;\nmemset(&v, 0, sizeof v);\nwl_take(c, &b, 1);\nif (b) {{ v.has = true; v.v = dec_{i}(c, x); }}"),
                )
            }
            Ty::List(t, max) => {
                let i = self.codec(t);
                (
                    format!("uint32_t n = 4;\nfor (uint32_t i = 0; i < v.n; i++) n += size_{i}(v.v[i]);\nreturn n;"),
                    format!("wl_give(c, &v.n, 4);\nfor (uint32_t i = 0; i < v.n; i++) enc_{i}(c, v.v[i]);"),
                    format!("wl_take(c, &v.n, 4);\nif (v.n > {max}) v.n = {max};\nfor (uint32_t i = 0; i < v.n; i++) v.v[i] = dec_{i}(c, x);"),
                )
            }
            Ty::Msg(_) => {
                ("(void)v;\nreturn 0;".into(), "(void)c;\n(void)v;".into(), "memset(&v, 0, sizeof v);\n(void)c;".into())
            }
            Ty::Record(_) | Ty::Tuple(_) => {
                let parts: Vec<_> = self.members(ty).into_iter().map(|(n, t)| (n, self.codec(t))).collect();
                let sum = parts.iter().map(|(n, i)| format!("size_{i}(v.{n})")).collect::<Vec<_>>().join(" + ");
                (
                    format!("(void)v;\nreturn {};", if sum.is_empty() { "0" } else { &sum }),
                    format!(
                        "(void)c; (void)v;\n{}",
                        parts.iter().map(|(n, i)| format!("enc_{i}(c, v.{n});\n")).collect::<String>()
                    ),
                    format!(
                        "(void)c;\n{}",
                        parts.iter().map(|(n, i)| format!("v.{n} = dec_{i}(c, x);\n")).collect::<String>()
                    ),
                )
            }
        };
        let clear = if dec.contains("v.") || dec.contains("v =") { "" } else { "memset(&v, 0, sizeof v);\n" };
        self.helpers.push_str(&format!(
            "static inline uint32_t size_{name}({c} v) {{\n{size}\n}}\nstatic inline void enc_{name}(wl_cursor *c, {c} v) {{\n{enc}\n}}\n\
             static inline {c} dec_{name}(wl_cursor *c, wl_fx *x) {{\n{c} v;\n(void)x;\n{clear}{dec}\nreturn v;\n}}\n"
        ));
        name
    }
}

impl Gen<'_> {
    /// Defines the function that copies a value's bytes to the scratch; answers its name.
    pub fn copier(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let name = format!("keep_{}", mangle(&c));
        if !self.first(&name) {
            return name;
        }
        let body = match self.m.ty(ty).clone() {
            Ty::Bytes(_) => {
                "uint8_t *p = wl_tmp(x, v.n);\nif (!p) return (wl_bytes){0};\nmemcpy(p, v.p, v.n);\nv.p = p;\n".into()
            }
            Ty::Option(t) if layout::has_bytes(self.m, t) => format!("if (v.has) v.v = {}(v.v, x);\n", self.copier(t)),
            Ty::List(t, _) if layout::has_bytes(self.m, t) => {
                format!("for (uint32_t i = 0; i < v.n; i++) v.v[i] = {}(v.v[i], x);\n", self.copier(t))
            }
            Ty::Record(_) | Ty::Tuple(_) => {
                let parts: Vec<_> =
                    self.members(ty).into_iter().filter(|(_, t)| layout::has_bytes(self.m, *t)).collect();
                parts.into_iter().map(|(n, t)| format!("v.{n} = {}(v.{n}, x);\n", self.copier(t))).collect()
            }
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Msg(_) => String::new(),
        };
        self.helpers
            .push_str(&format!("static inline {c} {name}({c} v, wl_fx *x) {{\n(void)x;\n{body}return v;\n}}\n"));
        name
    }
}

impl<'m> BodyGen<'_, 'm> {
    /// Opens a block with the encoded key: `kb_`, `kn_`.
    fn key(&mut self, t: &Table, key: &Expr) {
        let (codec, max) = (self.g.codec(t.key), encoded_max(self.g.m, t.key).max(1));
        let (c, text) = (self.g.cty(t.key), self.expr(key));
        line!(self, "{{ {c} key_ = {text};");
        self.check(key.may_fault());
        if max <= STACK_KEY {
            line!(self, "uint8_t kb_[{max}];");
        } else {
            line!(self, "uint8_t *kb_ = wl_tmp(x, size_{codec}(key_));");
            self.check(true);
        }
        line!(self, "uint32_t kn_ = size_{codec}(key_);\nwl_cursor kc_ = wl_flat(kb_, kn_);\nenc_{codec}(&kc_, key_);");
    }

    /// Tells handlers that wait for an entry.
    fn changed(&mut self, table: TableId, hash: &str) {
        if self.g.awaited.contains(&table) {
            line!(self, "x->core->host->changed(x->core, {}, {hash});", table.0);
        }
    }

    /// Opens a block in which the hash of a key can be computed by the text that it answers.
    pub fn key_hash(&mut self, table: TableId, key: &Expr) -> String {
        let t = &self.g.m.tables[table.index()];
        self.key(t, key);
        format!("wl_table_hash({}, kb_, kn_)", self.table_at(table))
    }

    fn table_at(&self, t: TableId) -> String {
        format!("&wl_shared(x)->{}.t", names::table(self.g.m, t))
    }

    pub fn table(&mut self, s: TableStmt<'m>) {
        let m = self.g.m;
        let table = &s.table();
        let t = &m.tables[table.index()];
        if t.kind == TableKind::Array {
            return self.array(*table, s);
        }
        if crate::match_tables::is_keyed(t) {
            return self.keyed(*table, s);
        }
        if packed_keys::is_core_table(m, t) {
            return self.flow(s);
        }
        match s {
            TableStmt::Get { table, key, dst } => {
                let dst = self.name(*dst);
                self.find_entry(*table, key, &format!("{dst}.has"), &format!("{dst}.v"));
            }
            TableStmt::Put { table, key, value, place } => {
                let t = &m.tables[table.index()];
                let (at, text) = (self.table_at(*table), self.expr(value));
                self.key(t, key);
                let (codec, c) = (self.g.codec(t.value), self.g.cty(t.value));
                line!(self, "{c} val_ = {text};");
                self.check(value.may_fault());
                line!(self, "wl_stripe *s_;\nuint64_t h_;\nuint32_t i_ = wl_table_seek({at}, kb_, kn_, wl_instant_of(x->core), &s_, &h_);");
                self.write_entry(&at, &codec, "s_", place.0);
                self.changed(*table, "h_");
                line!(self, "}}");
                self.check(true);
            }
            TableStmt::Remove { table, key, dst } => {
                let t = &m.tables[table.index()];
                let at = self.table_at(*table);
                self.key(t, key);
                let set = dst.map(|d| format!("{} = ", self.name(d))).unwrap_or_default();
                line!(self, "{set}wl_table_remove({at}, kb_, kn_, wl_instant_of(x->core));");
                self.changed(*table, &format!("wl_table_hash({at}, kb_, kn_)"));
                line!(self, "}}");
            }
            TableStmt::Update { table, key, entry, body, place } => self.update(*table, key, *entry, body, *place),
            TableStmt::Next { table, cursor, key, value, more, .. } => {
                let t = &m.tables[table.index()];
                let (at, keys, values) = (self.table_at(*table), self.g.codec(t.key), self.g.codec(t.value));
                let (cursor, key, value, more) =
                    (self.name(*cursor), self.name(*key), self.name(*value), self.name(*more));
                // Each core walks its own part; the whole of a shared table is the first one's. A
                // connection has one core: its handlers see all.
                let first = match &self.owner {
                    Owner::Handler { on } if on.is_of_connections() => String::new(),
                    Owner::Handler { .. } | Owner::Frame | Owner::Func { .. } | Owner::Protocol { .. } => {
                        format!("if (x->core->index) {cursor} = UINT64_MAX;\n")
                    }
                };
                line!(self, "{{ wl_stripe *s_ = NULL;\n{first}wl_entry *e_ = wl_table_next({at}, &{cursor}, wl_instant_of(x->core), &s_);\n{more} = e_ != NULL;");
                line!(self, "if (e_) {{ wl_cursor c_ = wl_entry_bytes({at}, e_); {key} = dec_{keys}(&c_, x); {value} = dec_{values}(&c_, x); wl_table_unlock(s_); }} }}");
                self.check(layout::has_bytes(m, t.key) || layout::has_bytes(m, t.value));
            }
            TableStmt::Len { table, dst } => {
                let (at, dst) = (self.table_at(*table), self.name(*dst));
                line!(self, "{dst} = wl_table_len({at}, wl_instant_of(x->core));");
            }
            // Such tables have no other entries: `lang` refuses these.
            TableStmt::Insert { .. } | TableStmt::Delete { .. } | TableStmt::Push { .. } | TableStmt::Pop { .. } => {}
        }
    }

    fn find_entry(&mut self, table: TableId, key: &Expr, has: &str, value: &str) {
        let t = &self.g.m.tables[table.index()];
        let at = self.table_at(table);
        self.key(t, key);
        let codec = self.g.codec(t.value);
        line!(
            self,
            "wl_stripe *s_;\nwl_entry *e_ = wl_table_find({at}, kb_, kn_, wl_instant_of(x->core), &s_);\n{has} = e_ != NULL;"
        );
        line!(
            self,
            "if (e_) {{ wl_cursor c_ = wl_value({at}, e_); {value} = dec_{codec}(&c_, x); }}\nwl_table_unlock(s_); }}"
        );
        self.check(layout::has_bytes(self.g.m, t.value));
    }

    /// Writes `val_` to the entry found and unlocks its stripe.
    fn write_entry(&mut self, at: &str, codec: &str, stripe: &str, place: u32) {
        line!(
            self,
            "wl_entry *e_ = wl_table_place({at}, kb_, kn_, size_{codec}(val_), wl_instant_of(x->core), {stripe}, i_, h_);"
        );
        line!(
            self,
            "if (e_) {{ wl_cursor c_ = wl_value({at}, e_); enc_{codec}(&c_, val_); }}\nwl_table_unlock({stripe});"
        );
        line!(self, "if (!e_) wl_fail(x, WL_F_FULL, {place});");
    }

    /// The body, which uses no tables, runs under the stripe's lock.
    fn update(&mut self, table: TableId, key: &Expr, entry: LocalId, body: &'m Block, place: PlaceId) {
        let t = &self.g.m.tables[table.index()];
        let (at, entry_ty) = (self.table_at(table), t.value);
        let name = self.name(entry);
        let (codec, zero) = (self.g.codec(entry_ty), self.g.zero(entry_ty));
        let stripe = self.temp("wl_stripe *");
        self.key(t, key);
        let read = format!("if (i_) {{ wl_cursor c_ = wl_value({at}, wl_entry_at({at}, i_)); {name} = dec_{codec}(&c_, x); }} else {name} = {zero};");
        line!(self, "uint64_t h_;\nuint32_t i_;");
        line!(self, "i_ = wl_table_seek({at}, kb_, kn_, wl_instant_of(x->core), &{stripe}, &h_);\n{read}");
        let set = self.g.awaited.contains(&table).then(|| self.temp("bool "));
        if let Some(set) = &set {
            line!(self, "{set} = !i_;");
        }
        self.updated = set.clone().map(|set| (entry, set));
        self.locked.push(stripe.clone());
        self.check(layout::has_bytes(self.g.m, entry_ty));
        self.block(body);
        self.locked.pop();
        self.updated = None;
        let c = self.g.cty(entry_ty);
        line!(self, "{c} val_ = {name};");
        self.write_entry(&at, &codec, &stripe, place.0);
        if let Some(set) = set {
            line!(self, "if ({set})");
        }
        self.changed(table, "h_");
        line!(self, "}}");
        self.check(true);
    }

    /// An update that sets nothing wakes no handler: those that wait may make it.
    pub fn note_update(&mut self, s: &StmtKind) {
        let (StmtKind::Set(l, _) | StmtKind::SetField(l, ..), Some((entry, set))) = (s, &self.updated) else { return };
        if l == entry {
            let text = format!("{set} = true;");
            line!(self, "{text}");
        }
    }
}
