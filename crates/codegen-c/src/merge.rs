//! Merge nodes: sorted inputs combined by a tournament of their next messages.
//!
//! A call consumes byte windows until one runs dry. The message that is being combined lives in the state, so that it
//! outlasts the windows; it is written when the next key differs. Keys compare by their first eight bytes first.

use crate::expr::Scope;
use crate::gen::Gen;
use crate::names;
use crate::types::int_of;
use std::fmt::Write;
use wireloom_ir::*;

impl Gen<'_> {
    /// The values of a merge's key and fields must be kept in views.
    pub fn mark_merged(&mut self) {
        for m in &self.m.merges {
            self.values.insert((m.unit.0, m.key.0));
            for v in &m.values { self.values.insert((m.unit.0, v.field.0)); }
        }
    }

    pub fn merges(&mut self) {
        let m = self.m;
        if m.merges.is_empty() { return }
        let mut table = String::new();
        for (i, merge) in m.merges.iter().enumerate() {
            self.merge(i, merge);
            table.push_str(&format!("{{sizeof(merge_{i}), {}, {}, merge_{i}_run}},\n", merge.inputs, self.message_max(merge)));
        }
        let _ = write!(
            self.code,
            "static const wl_merge merge_table[] = {{\n{table}}};\n\n__attribute__((visibility(\"default\"))) const wl_merge *wireloom_merges(uint32_t *count) {{\n\
             *count = {};\nreturn merge_table;\n}}\n",
            m.merges.len()
        );
    }

    fn message_max(&self, merge: &Merge) -> u64 {
        let unit = self.m.unit(merge.unit);
        unit.max.clamp(64, u32::MAX as u64 / 4)
    }

    /// Key as a C integer that orders as the key does, if it is one.
    fn int_key(&self, merge: &Merge) -> Option<(u8, bool)> { int_of(self.m, self.m.unit(merge.unit).fields[merge.key.index()].ty) }

    fn merge(&mut self, i: usize, merge: &Merge) {
        let m = self.m;
        let unit = names::unit(m, merge.unit);
        let key = names::field(m, merge.unit, merge.key);
        let key_field = &m.unit(merge.unit).fields[merge.key.index()];
        let key_max = match m.ty(key_field.ty) { Ty::Bytes(n) => *n, _ => 8 };
        let (n, place) = (merge.inputs.max(1), key_field.place.0);
        let leaves = n.next_power_of_two();
        let mut values = String::new();
        for (k, v) in merge.values.iter().enumerate() {
            let c = self.stored(m.unit(merge.unit).fields[v.field.index()].ty);
            let _ = writeln!(values, "{c} value{k};");
        }
        let key_member = if self.int_key(merge).is_some() { "uint64_t key;".into() } else { format!("uint32_t key_n;\nuint8_t key[{}];", key_max.max(8)) };
        let _ = write!(
            self.types,
            "/* merge {} */\ntypedef struct merge_{i}_in {{ {unit}_view v; uint64_t prefix; uint32_t len; bool ended; }} merge_{i}_in;\n\
             typedef struct merge_{i} {{\nuint32_t started, wait; /* inputs that have begun; 1 + the input that is waited for */\nbool has, all;\n\
             {key_member}\n{values}uint8_t tree[{leaves}];\nmerge_{i}_in in[{n}];\n}} merge_{i};\n\n",
            names::comment(&merge.name)
        );
        let (prefix, order, same, take) = self.key_code(merge, &key);
        let emit = self.emit_message(merge);
        let (first, combine) = self.combine(merge);
        let fx = "uint8_t tmp[WL_GRAMMAR_TMP];\nwl_fx fx = {.tmp = tmp, .tmp_max = sizeof tmp}, *x = &fx;\n(void)x;\n";
        let _ = write!(
            self.code,
            "/* merge {name}: the next message of an input; 0 = there (or ended), else WL_G_* + 1. */\n\
             static int merge_{i}_load(merge_{i} *s, const wl_window *w, uint32_t k, wl_merge_at *at) {{\nmerge_{i}_in *in = &s->in[k];\n\
             at->input = k;\nif (w->pos == w->n) {{\nif (!w->eof) return WL_G_DRY + 1;\nin->ended = true;\nreturn 0;\n}}\n\
             if (in->v.p.pc == 0) in->v.p = (wl_parser){{0}};\nuint32_t used;\n\
             int r = {unit}_step(&in->v, w->buf + w->pos, 0, in->v.p.pos, w->n - w->pos, w->eof != 0, &used);\n\
             if (r == WL_MORE) return WL_G_DRY + 1;\nif (r != WL_WHOLE) {{\nat->fault = r == WL_BAD ? in->v.p.fault : WL_F_MALFORMED;\nat->place = in->v.p.place;\nreturn WL_G_BAD + 1;\n}}\n\
             in->len = in->v.p.pos;\nin->v.p.pc = 0;\nin->v.p.pos = 0;\nconst uint8_t *p = w->buf + w->pos;\n(void)p;\n{prefix}\
             if (s->has && {order} < 0) {{ at->fault = WL_F_CONSTRAINT; at->place = {place}; return WL_G_BAD + 1; }}\nreturn 0;\n}}\n\n\
             /* Which of two inputs is next: the lower key, of equal ones the first input. */\n\
             static inline uint8_t merge_{i}_first(const merge_{i} *s, const wl_window *w, uint32_t n, uint8_t a, uint8_t b) {{\n\
             if (b >= n || s->in[b].ended) return a;\nif (a >= n || s->in[a].ended) return b;\n\
             if (s->in[a].prefix != s->in[b].prefix) return s->in[a].prefix < s->in[b].prefix ? a : b;\n{tie}}}\n\n",
            name = names::comment(&merge.name),
            tie = self.tie(merge, &key),
        );
        let _ = write!(
            self.code,
            "static uint32_t merge_{i}_write(const merge_{i} *s, uint8_t *out) {{\nuint8_t *o = out;\nwl_bytes key = {key_bytes};\n(void)key;\n{emit}return (uint32_t)(o - out);\n}}\n\n\
             static int merge_{i}_run(void *self, void *state, wl_window *w, uint32_t n, uint8_t *out, uint32_t cap, wl_merge_at *at) {{\n(void)self;\nmerge_{i} *s = state;\n{fx}\
             int r;\nuint32_t used = 0;\n*at = (wl_merge_at){{0}};\nif (n > {n}) n = {n};\n\
             for (; s->started < n; s->started++) if ((r = merge_{i}_load(s, &w[s->started], s->started, at)) != 0) return r - 1;\n\
             if (!s->all) {{\n/* tree[1] is the first of all; a node's children are 2k and 2k + 1, leaves are inputs. */\n\
             for (uint32_t k = {leaves} - 1; k > 0; k--) {{\nuint32_t l = 2 * k, r = l + 1;\n\
             s->tree[k] = merge_{i}_first(s, w, n, l < {leaves} ? s->tree[l] : (uint8_t)(l - {leaves}), r < {leaves} ? s->tree[r] : (uint8_t)(r - {leaves}));\n}}\ns->all = true;\n}}\n\
             for (;;) {{\nuint32_t k;\nif (s->wait) k = s->wait - 1;\nelse {{\nk = {root};\nmerge_{i}_in *in = &s->in[k];\n\
             bool ends = k >= n || in->ended;\nconst uint8_t *p = ends ? NULL : w[k].buf + w[k].pos;\n(void)p;\n\
             if (s->has && !ends && {same}) {{\n{combine}}} else {{\n\
             if (s->has) {{\nif (cap - used < {max}) {{ at->used = used; return WL_G_FULL; }}\nused += merge_{i}_write(s, out + used);\ns->has = false;\n}}\n\
             if (ends) {{ at->used = used; return WL_G_DONE; }}\ns->has = true;\n{take}{first}}}\nw[k].pos += in->len;\n}}\n\
             if ((r = merge_{i}_load(s, &w[k], k, at)) != 0) {{ s->wait = k + 1; at->used = used; return r - 1; }}\ns->wait = 0;\n\
             for (uint32_t at_ = ({leaves} + k) / 2, l; at_ > 0; at_ /= 2) {{\nl = 2 * at_;\n\
             s->tree[at_] = merge_{i}_first(s, w, n, l < {leaves} ? s->tree[l] : (uint8_t)(l - {leaves}), l + 1 < {leaves} ? s->tree[l + 1] : (uint8_t)(l + 1 - {leaves}));\n}}\n}}\n}}\n\n",
            key_bytes = if self.int_key(merge).is_some() { "wl_b(NULL, 0)" } else { "wl_b(s->key, s->key_n)" },
            root = if leaves == 1 { "0" } else { "s->tree[1]" },
            max = self.message_max(merge),
        );
    }

    /// C code for keys: note the prefix, compare with the message at hand (< 0: lower), test for equality, take it.
    fn key_code(&mut self, merge: &Merge, key: &str) -> (String, String, String, String) {
        match self.int_key(merge) {
            Some((bits, signed)) => {
                let bias = if signed { " ^ UINT64_C(0x8000000000000000)" } else { "" };
                let cast = if signed { format!("(uint64_t)(int64_t)in->v.f.{key}") } else { format!("(uint64_t)in->v.f.{key}") };
                let _ = bits;
                (
                    format!("in->prefix = {cast}{bias};\n"),
                    "(in->prefix < s->key ? -1 : in->prefix > s->key)".into(),
                    "in->prefix == s->key".into(),
                    "s->key = in->prefix;\n".into(),
                )
            }
            None => (
                format!("in->prefix = wl_prefix(wl_at(p, in->v.f.{key}));\n"),
                format!("wl_cmp(wl_at(p, in->v.f.{key}), wl_b(s->key, s->key_n))"),
                format!("wl_eq(wl_at(p, in->v.f.{key}), wl_b(s->key, s->key_n))"),
                format!("s->key_n = in->v.f.{key}.n;\nwl_copy(s->key, p + in->v.f.{key}.o, s->key_n);\n"),
            ),
        }
    }

    fn tie(&self, merge: &Merge, key: &str) -> String {
        if self.int_key(merge).is_some() { return "(void)w;\nreturn a < b ? a : b;\n".into() }
        format!(
            "int c = wl_cmp(wl_at(w[a].buf + w[a].pos, s->in[a].v.f.{key}), wl_at(w[b].buf + w[b].pos, s->in[b].v.f.{key}));\n\
             return c < 0 ? a : c > 0 ? b : a < b ? a : b;\n"
        )
    }

    /// Code that takes a message's values, and code that combines them with those at hand.
    fn combine(&mut self, merge: &Merge) -> (String, String) {
        let m = self.m;
        let scope = Scope::of_locals(self, &merge.locals);
        let (mut first, mut locals, mut both) = (String::new(), String::new(), String::new());
        for (i, l) in merge.locals.iter().enumerate() {
            let (c, zero) = (self.cty(l.ty), self.zero(l.ty));
            let _ = writeln!(locals, "{c} {} = {zero};", names::local(l, i));
        }
        for (k, v) in merge.values.iter().enumerate() {
            let ty = m.unit(merge.unit).fields[v.field.index()].ty;
            let member = format!("in->v.f.{}", names::field(m, merge.unit, v.field));
            let value = if matches!(m.ty(ty), Ty::Bytes(_)) { format!("wl_at(p, {member})") } else { member };
            let _ = writeln!(first, "{}", self.store(ty, &format!("s->value{k}"), &value));
            let (a, b) = (scope.locals[v.a.index()].0.clone(), scope.locals[v.b.index()].0.clone());
            let _ = writeln!(locals, "{a} = {};\n{b} = {value};", self.load(ty, &format!("s->value{k}")));
            let combined = self.expr(&scope, &v.combined);
            let c = self.cty(ty);
            let _ = writeln!(both, "{c} new{k} = {combined};");
        }
        let fault = "if (WL_UNLIKELY(x->fault)) { at->input = k; at->fault = x->fault; at->place = x->place; at->used = used; return WL_G_BAD; }\n";
        let mut stores = String::new();
        for (k, v) in merge.values.iter().enumerate() {
            let ty = m.unit(merge.unit).fields[v.field.index()].ty;
            let _ = writeln!(stores, "{}", self.store(ty, &format!("s->value{k}"), &format!("new{k}")));
        }
        (first, format!("{locals}{both}{fault}{stores}"))
    }

    /// Code that writes the combined message at `o`: fields in wire order, those without a value as when a message is built.
    fn emit_message(&mut self, merge: &Merge) -> String {
        let m = self.m;
        let unit = m.unit(merge.unit);
        let mut out = String::new();
        for &f in &unit.body {
            let field = &unit.fields[f.index()];
            let value = self.merged_value(merge, f);
            match &field.kind {
                FieldKind::Bytes { extent, .. } => {
                    if let Some(v) = &value { let _ = writeln!(out, "{{ wl_bytes b_ = {v};\nwl_copy(o, b_.p, b_.n);\no += b_.n; }}"); }
                    if let Extent::Until(u) = extent { delimiter(u, &mut out) }
                }
                FieldKind::UInt { bytes, big, advance: true, .. } => {
                    let v = value.unwrap_or_else(|| "0".into());
                    let _ = writeln!(out, "o = wl_w_uint(o, (uint64_t)({v}), {bytes}, {big});");
                }
                FieldKind::Number { radix, digits, exact, until } => {
                    let v = value.unwrap_or_else(|| "0".into());
                    let width = if *exact { *digits } else { 0 };
                    let signed = int_of(m, field.ty).is_some_and(|t| t.1);
                    let _ = writeln!(out, "o = wl_w_number(o, {}, {radix}, {width});", if signed { format!("wl_w_sign(&o, {v})") } else { format!("(uint64_t)({v})") });
                    if let Some(u) = until { delimiter(u, &mut out) }
                }
                FieldKind::Varint { .. } => {
                    let v = value.unwrap_or_else(|| "0".into());
                    let _ = writeln!(out, "o = wl_w_varint(o, (uint64_t)({v}));");
                }
                FieldKind::Literal { values } => {
                    let v = values.first().cloned().unwrap_or_default();
                    let _ = writeln!(out, "memcpy(o, {}, {});\no += {};", names::literal(&v), v.len(), v.len());
                }
                FieldKind::List { extent: ListExtent::Until(u), .. } => delimiter(u, &mut out),
                _ => {}
            }
        }
        out
    }

    /// The value of a field of the combined message as a C expression.
    fn merged_value(&mut self, merge: &Merge, f: FieldId) -> Option<String> {
        let field = &self.m.unit(merge.unit).fields[f.index()];
        if let Some(k) = merge.values.iter().position(|v| v.field == f) { return Some(self.load(field.ty, &format!("s->value{k}"))) }
        if f == merge.key {
            return Some(match self.int_key(merge) {
                None => "key".into(),
                Some((_, false)) => "s->key".into(),
                Some((_, true)) => "(int64_t)(s->key ^ UINT64_C(0x8000000000000000))".into(),
            });
        }
        let c = field.computed.as_ref()?;
        let parts: Vec<_> = c.lengths.iter().filter_map(|l| self.merged_value(merge, *l)).map(|v| format!("(int64_t)({v}).n")).collect();
        Some(format!("({} + {})", if parts.is_empty() { "0".into() } else { parts.join(" + ") }, c.plus))
    }
}

fn delimiter(u: &Until, out: &mut String) {
    if u.peek { return }
    if let Some(d) = u.delimiters.first() { let _ = writeln!(out, "memcpy(o, {}, {});\no += {};", names::literal(d), d.len(), d.len()); }
}
