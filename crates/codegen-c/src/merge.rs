//! Merge nodes: sorted inputs are combined by a comparison of the keys of all their next messages
//! at once.
//!
//! A call consumes byte windows until one is empty. Keys are kept as numbers (their first bytes).
//! So one or two vector instructions find the least key and all inputs that have it. These messages
//! are combined in the order of the inputs, and the result is written. The cost per message hardly
//! depends on the data, unlike that of a tournament tree's branches. The message that is being
//! combined lives in the state, so that it outlasts the windows.

use crate::gen::Gen;
use crate::names;
use crate::scope::Scope;
use std::fmt::Write;
use wireloom_ir::layout::int_of;
use wireloom_ir::*;

/// Bytes behind a message that writing it may touch.
const OVERRUN: u64 = 64;

/// A field of a line, and the code that reads it.
struct LineField {
    delimiter: u8,
    /// The delimiter, and bytes that may not be in the field.
    stops: Vec<u8>,
    code: String,
}

/// The parts of the combining code: locals at entry, saving them at exit, the first message's
/// values, combining another's.
#[derive(Default)]
struct Combine {
    enter: String,
    exit: String,
    first: String,
    combine: String,
}

/// Values that live in a C local.
fn plain(m: &Module, ty: TyId) -> bool {
    matches!(m.ty(ty), Ty::UInt(_) | Ty::Int(_) | Ty::Bool)
}

/// The delimiter, if it is a single byte that is consumed.
fn one_byte(u: &Until) -> Option<u8> {
    match &u.delimiters[..] {
        [d] if !u.peek => <[u8; 1]>::try_from(&d[..]).ok().map(|d| d[0]),
        _ => None,
    }
}

impl Gen<'_> {
    /// The values of a merge's key and fields must be kept in views.
    pub fn mark_merged(&mut self) {
        for m in &self.m.merges {
            self.values.insert((m.unit.0, m.key.0));
            for v in &m.values {
                self.values.insert((m.unit.0, v.field.0));
            }
        }
    }

    pub fn merges(&mut self) {
        let m = self.m;
        if m.merges.is_empty() {
            return;
        }
        let mut table = String::new();
        for (i, merge) in m.merges.iter().enumerate() {
            self.merge(i, merge);
            table.push_str(&format!(
                "{{sizeof(merge_{i}), {}, {}, merge_{i}_run}},\n",
                merge.inputs,
                self.message_max(merge)
            ));
        }
        let text = format!(
            "static const wl_merge merge_table[] = {{\n{table}}};\n\n__attribute__((visibility(\"default\"))) const wl_merge *wireloom_merges(uint32_t *count) {{\n\
             *count = {};\nreturn merge_table;\n}}\n",
            m.merges.len()
        );
        self.code.push_str(&crate::split::apart(&[], &text));
    }

    /// Writers may write past a message's end, by less than this.
    fn message_max(&self, merge: &Merge) -> u64 {
        let unit = self.m.unit(merge.unit);
        (unit.max + OVERRUN).min(u32::MAX as u64 / 4)
    }

    /// Key as a C integer that orders as the key does, if it is one.
    fn int_key(&self, merge: &Merge) -> Option<(u8, bool)> {
        int_of(self.m, self.m.unit(merge.unit).fields[merge.key.index()].ty)
    }

    fn merge(&mut self, i: usize, merge: &Merge) {
        self.merge_types(i, merge);
        self.merge_order(i, merge);
        self.merge_load(i, merge);
        let quick = self.merge_quick(i, merge);
        self.merge_run(i, merge, quick);
    }

    /// C type of a value as an input keeps it: bytes as a part of its message.
    fn input_value(&mut self, ty: TyId) -> String {
        if matches!(self.m.ty(ty), Ty::Bytes(_)) {
            "wl_ext".into()
        } else {
            self.cty(ty)
        }
    }

    fn merge_types(&mut self, i: usize, merge: &Merge) {
        let m = self.m;
        let unit = names::unit(m, merge.unit);
        let n = merge.inputs.max(1);
        let (mut values, mut at_hand) = (String::new(), String::new());
        for (k, v) in merge.values.iter().enumerate() {
            let ty = m.unit(merge.unit).fields[v.field.index()].ty;
            let _ = writeln!(values, "{} value{k};", self.input_value(ty));
            let _ = writeln!(at_hand, "{} value{k};", self.stored(ty));
        }
        let key = match (self.int_key(merge), m.ty(m.unit(merge.unit).fields[merge.key.index()].ty)) {
            (None, Ty::Bytes(max)) => format!("uint32_t key_n;\nuint8_t key[{}];", max + 32),
            _ => "uint64_t key;".into(),
        };
        let _ = write!(
            self.types,
            "/* merge {name}: the message at hand of an input (offsets count from its first byte), and the merge's state: the message that\n\
             \x20* is being combined (`has`), the inputs that still add to it (`todo`), the one that is waited for (plus 1). `dup`: an input\n\
             \x20* repeats the key. */\n\
             typedef struct merge_{i}_in {{ wl_ext key; uint32_t len; bool ended;\n{values}}} merge_{i}_in;\n\
             typedef struct merge_{i} {{\nuint64_t hi[{pad}], lo[{pad}], todo, key_hi, key_lo;\nuint32_t started, wait, base;\nbool ready, has, dup;\n\
             merge_{i}_in in[{n}];\n{at_hand}{key}\n{unit}_view view[{n}];\n}} merge_{i};\n\n",
            name = names::comment(&merge.name),
            pad = n.next_multiple_of(8),
        );
    }

    /// Compares the inputs' keys, and chooses the next ones.
    fn merge_order(&mut self, i: usize, merge: &Merge) {
        let n = merge.inputs.max(1);
        let pad = n.next_multiple_of(8);
        let bytes = self.int_key(merge).is_none();
        let long = if bytes {
            "if (!wl_key_long(s->lo[a])) return 0;\nreturn wl_cmp(wl_at(w[a].buf + w[a].pos, s->in[a].key), wl_at(w[b].buf + w[b].pos, s->in[b].key));\n"
        } else {
            "(void)w;\nreturn 0;\n"
        };
        let _ = write!(
            self.code,
            "/* merge {name} */\n\
             static int merge_{i}_cmp(const merge_{i} *s, const wl_window *w, uint32_t a, uint32_t b) {{\n\
             if (s->hi[a] != s->hi[b]) return s->hi[a] < s->hi[b] ? -1 : 1;\nif (s->lo[a] != s->lo[b]) return s->lo[a] < s->lo[b] ? -1 : 1;\n{long}}}\n\n\
             /* The inputs with the least key, as bits from input *base on: those of its first 64 that has any. 0: all have ended. */\n\
             static __attribute__((noinline)) uint64_t merge_{i}_compare(const merge_{i} *s, const wl_window *w, uint32_t *base) {{\n\
             uint32_t best = {n};\nfor (uint32_t k = 0; k < {n}; k++) if (!s->in[k].ended && (best == {n} || merge_{i}_cmp(s, w, k, best) < 0)) best = k;\n\
             if (best == {n}) return 0;\n*base = best / 64 * 64;\nuint64_t bits = 0;\n\
             for (uint32_t k = best; k < {n} && k < *base + 64; k++) if (!s->in[k].ended && merge_{i}_cmp(s, w, k, best) == 0) bits |= UINT64_C(1) << (k - *base);\n\
             return bits;\n}}\n\n\
             static inline uint64_t merge_{i}_choose(const merge_{i} *s, const wl_window *w, uint32_t *base) {{\n",
            name = names::comment(&merge.name),
        );
        if n <= 64 {
            let _ = write!(
                self.code,
                "*base = 0;\nuint64_t least = wl_least(s->hi, {pad}), bits = wl_equal(s->hi, {pad}, least), lo = s->lo[__builtin_ctzll(bits)];\n\
                 if (WL_LIKELY(least != UINT64_MAX && ((bits & (bits - 1)) == 0 || (!wl_key_long(lo) && (wl_equal(s->lo, {pad}, lo) & bits) == bits)))) return bits;\n",
            );
        }
        let _ = write!(self.code, "return merge_{i}_compare(s, w, base);\n}}\n\n");
    }

    /// Reading an input's next message, wherever its bytes are cut.
    fn merge_load(&mut self, i: usize, merge: &Merge) {
        let m = self.m;
        let unit = names::unit(m, merge.unit);
        let key = names::field(m, merge.unit, merge.key);
        let place = m.unit(merge.unit).fields[merge.key.index()].place.0;
        let (numbers, long) = match self.int_key(merge) {
            Some((_, true)) => (format!("uint64_t hi = (uint64_t)(int64_t)v->f.{key} ^ UINT64_C(0x8000000000000000), lo = 0;\n"), "0"),
            Some((_, false)) => (format!("uint64_t hi = (uint64_t)v->f.{key}, lo = 0;\n"), "0"),
            None => (
                format!("in->key = v->f.{key};\nuint64_t hi = wl_key_hi(wl_at(p, in->key)), lo = wl_key_lo(wl_at(p, in->key));\n"),
                "wl_key_long(lo) ? wl_cmp(wl_at(p, s->in[k].key), wl_b(s->key, s->key_n)) : 0",
            ),
        };
        let mut values = String::new();
        for (k, v) in merge.values.iter().enumerate() {
            let _ = writeln!(values, "in->value{k} = v->f.{};", names::field(m, merge.unit, v.field));
        }
        let _ = write!(
            self.code,
            "/* A key that is not above the one before it, which is the key at hand: lower is a fault. */\n\
             static __attribute__((noinline)) int merge_{i}_not_above(merge_{i} *s, const uint8_t *p, uint32_t k, uint64_t hi, uint64_t lo, wl_merge_at *at) {{\n\
             (void)p;\nif (k >= s->started) return 0;\n\
             int c = hi != s->hi[k] ? -1 : lo != s->lo[k] ? (lo < s->lo[k] ? -1 : 1) : {long};\n\
             if (c < 0) {{ at->input = k; at->fault = WL_F_CONSTRAINT; at->place = {place}; return WL_G_BAD + 1; }}\n\
             if (c == 0) s->dup = true;\nreturn 0;\n}}\n\
             static inline int merge_{i}_next(merge_{i} *s, const uint8_t *p, uint32_t k, uint64_t hi, uint64_t lo, wl_merge_at *at) {{\n\
             int r;\nif (WL_UNLIKELY(hi <= s->hi[k]) && (r = merge_{i}_not_above(s, p, k, hi, lo, at)) != 0) return r;\n\
             s->hi[k] = hi;\ns->lo[k] = lo;\nreturn 0;\n}}\n\n\
             /* The next message of an input; 0 = there (or ended), else WL_G_* + 1. */\n\
             static __attribute__((noinline)) int merge_{i}_load(merge_{i} *s, const wl_window *w, uint32_t k, wl_merge_at *at) {{\n\
             merge_{i}_in *in = &s->in[k];\n{unit}_view *v = &s->view[k];\nat->input = k;\n\
             if (w->pos == w->n) {{\nif (!w->eof) return WL_G_DRY + 1;\nin->ended = true;\ns->hi[k] = s->lo[k] = UINT64_MAX;\nreturn 0;\n}}\n\
             if (v->p.pc == 0) v->p = (wl_parser){{0}};\nuint32_t used;\nconst uint8_t *p = w->buf + w->pos;\n\
             int r = {unit}_step(v, p, 0, v->p.pos, w->n - w->pos, w->eof != 0, &used);\n\
             if (r == WL_MORE) return WL_G_DRY + 1;\n\
             if (r != WL_WHOLE) {{\nat->fault = r == WL_BAD ? v->p.fault : WL_F_MALFORMED;\nat->place = v->p.place;\nreturn WL_G_BAD + 1;\n}}\n\
             in->len = v->p.pos;\nv->p.pc = 0;\nv->p.pos = 0;\n{values}{numbers}return merge_{i}_next(s, p, k, hi, lo, at);\n}}\n\n",
        );
    }

    /// For a message that is a line of plain fields, each up to a byte: code that reads lines of at
    /// most 32 bytes. It has no branch that depends on the content, except for "anything else",
    /// which the parser proper decides. False: not such a unit.
    fn merge_quick(&mut self, i: usize, merge: &Merge) -> bool {
        let unit = self.m.unit(merge.unit);
        let Some(lines) = unit.body.iter().map(|f| self.line_field(merge, *f)).collect::<Option<Vec<_>>>() else {
            return false;
        };
        if self.int_key(merge).is_some() {
            return false;
        }
        let mut stops = std::collections::BTreeSet::new();
        let mut body = String::new();
        for l in &lines {
            stops.extend(&l.stops);
            stops.insert(l.delimiter);
            let any = l.stops.iter().map(|b| format!("b{b}")).collect::<Vec<_>>().join(" | ");
            let _ = writeln!(
                body,
                "e = wl_line_next({any}, pos);\nbad |= (b{} >> e & 1) ^ 1;\n{}pos = e + 1;",
                l.delimiter, l.code
            );
        }
        let masks: String = stops.iter().map(|b| format!("const uint64_t b{b} = wl_line_has(block, {b});\n")).collect();
        let _ = write!(
            self.code,
            "/* Reads a line of at most 32 bytes; WL_SLACK bytes are there. False: it is another, or a faulty one. */\n\
             static inline bool merge_{i}_quick(const uint8_t *p, merge_{i}_in *in, uint64_t *hi, uint64_t *lo) {{\n\
             const wl_line block = wl_line_at(p);\n{masks}uint64_t bad = 0;\nuint32_t pos = 0, e;\n{body}in->len = pos;\nreturn WL_LIKELY(bad == 0);\n}}\n\n",
        );
        true
    }

    /// A field as `merge_quick` reads it, from `pos` to its delimiter at `e`.
    fn line_field(&mut self, merge: &Merge, f: FieldId) -> Option<LineField> {
        let m = self.m;
        let field = &m.unit(merge.unit).fields[f.index()];
        if field.within.is_some() || field.computed.is_some() {
            return None;
        }
        let value = merge.values.iter().position(|v| v.field == f);
        match &field.kind {
            FieldKind::Bytes { min, max, class, extent: Extent::Until(u), trim: None, caseless: false } => {
                let delimiter = one_byte(u)?;
                let mut set = class.map_or(ByteSet::EMPTY, |c| c.complement());
                set.add(delimiter);
                let stops: Vec<u8> = set.iter().collect();
                if stops.len() > 4 {
                    return None;
                }
                let mut code = String::new();
                if *min > 0 {
                    let _ = writeln!(code, "bad |= e - pos < {min};");
                }
                if *max < 32 {
                    let _ = writeln!(code, "bad |= e - pos > {max};");
                }
                if f == merge.key {
                    code.push_str("in->key = (wl_ext){pos, e - pos};\n*hi = wl_key_hi_at(p + pos, e - pos);\n*lo = wl_key_lo_at(p + pos, e - pos);\n");
                } else if let Some(k) = value {
                    let _ = writeln!(code, "in->value{k} = (wl_ext){{pos, e - pos}};");
                }
                Some(LineField { delimiter, stops, code })
            }
            FieldKind::Number { radix: 10, digits, exact: false, until: Some(u) } => {
                let delimiter = one_byte(u)?;
                let (bits, false) = int_of(m, field.ty)? else { return None };
                if f == merge.key {
                    return None;
                }
                let mut code = String::from("{ uint64_t number = wl_digits8(p + pos, e - pos, &bad);\n");
                if *digits < 8 {
                    let _ = writeln!(code, "bad |= e - pos > {digits};");
                }
                if bits < 27 {
                    let _ = writeln!(code, "bad |= number >> {bits};");
                }
                match value {
                    Some(k) => {
                        let c = self.cty(field.ty);
                        let _ = writeln!(code, "in->value{k} = ({c})number; }}");
                    }
                    None => code.push_str("(void)number; }\n"),
                }
                Some(LineField { delimiter, stops: vec![delimiter], code })
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
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => None,
        }
    }

    fn merge_run(&mut self, i: usize, merge: &Merge, quick: bool) {
        let n = merge.inputs.max(1);
        let emit = self.emit_message(merge);
        let c = self.combine(merge);
        let int = self.int_key(merge).is_some();
        let (take, same) = if int {
            ("s->key = s->hi[k];\n", "")
        } else {
            (
                "s->key_n = in->key.n;\nif (WL_LIKELY(w[k].n - w[k].pos >= WL_SLACK)) wl_copy32(s->key, p + in->key.o, s->key_n); else wl_copy(s->key, p + in->key.o, s->key_n);\n",
                " && (!wl_key_long(s->key_lo) || wl_eq(wl_at(w[k].buf + w[k].pos, s->in[k].key), wl_b(s->key, s->key_n)))",
            )
        };
        let load = format!("merge_{i}_load(s, &w[k], k, at)");
        // The block's own slack covers reads behind a line's end, up to 16 bytes behind its 32nd.
        let load = if quick {
            format!(
                "if (WL_LIKELY(w[k].n - w[k].pos >= WL_SLACK && merge_{i}_quick(p + in->len, &next, &hi, &lo))) {{\np += in->len;\n*in = next;\n\
                 r = merge_{i}_next(s, p, k, hi, lo, at);\n}} else r = {load};\n"
            )
        } else {
            format!("r = {load};\n")
        };
        let fx = "uint8_t tmp[WL_GRAMMAR_TMP];\nwl_fx fx = {.tmp = tmp, .tmp_max = sizeof tmp}, *x = &fx;\n(void)x;\n";
        let key_bytes = if int { "wl_b(NULL, 0)" } else { "wl_b(s->key, s->key_n)" };
        let _ = write!(
            self.code,
            "static int merge_{i}_run(void *self, void *state, wl_window *w, uint32_t n, uint8_t *out, uint32_t cap, wl_merge_at *at) {{\n(void)self;\nmerge_{i} *s = state;\n{fx}\
             int r;\nuint8_t *o = out, *const end = out + cap;\n*at = (wl_merge_at){{0}};\nif (n > {n}) n = {n};\n\
             if (!s->ready) {{\nfor (uint32_t k = n; k < {n}; k++) s->in[k].ended = true;\nfor (uint32_t k = n; k < {pad}; k++) s->hi[k] = s->lo[k] = UINT64_MAX;\ns->ready = true;\n}}\n\
             for (; s->started < n; s->started++) if ((r = merge_{i}_load(s, &w[s->started], s->started, at)) != 0) return r - 1;\n\
             if (s->wait) {{\nif ((r = merge_{i}_load(s, &w[s->wait - 1], s->wait - 1, at)) != 0) return r - 1;\ns->wait = 0;\n}}\n\
             uint32_t base = s->base, k;\nuint64_t todo = s->todo, hi, lo;\nmerge_{i}_in *in, next = {{0}};\nconst uint8_t *p;\n(void)hi; (void)lo; (void)next;\n{enter}\
             for (;;) {{\nwhile (todo) {{\nk = base + (uint32_t)__builtin_ctzll(todo);\nin = &s->in[k];\np = w[k].buf + w[k].pos;\n{combine}taken:\n\
             todo &= todo - 1;\nw[k].pos += in->len;\nw[k].messages++;\n{load}if (WL_UNLIKELY(r)) {{ s->wait = k + 1; r--; goto leave; }}\n}}\n\
             if (s->has) {{\nif (WL_UNLIKELY(s->dup)) {{\n/* More of the same key? */\ntodo = merge_{i}_choose(s, w, &base);\nk = base + (uint32_t)__builtin_ctzll(todo | UINT64_C(1) << 63);\n\
             if (todo && s->hi[k] == s->key_hi && s->lo[k] == s->key_lo{same}) {{ s->dup = {always}; continue; }}\ntodo = 0;\ns->dup = false;\n}}\n\
             if (WL_UNLIKELY(end - o < {max})) {{ r = WL_G_FULL; goto leave; }}\n\
             {{\nwl_bytes key = {key_bytes};\n(void)key;\n{emit}}}\nat->messages++;\ns->has = false;\n}}\n\
             todo = merge_{i}_choose(s, w, &base);\nif (WL_UNLIKELY(!todo)) {{ r = WL_G_DONE; goto leave; }}\n\
             k = base + (uint32_t)__builtin_ctzll(todo);\nin = &s->in[k];\np = w[k].buf + w[k].pos;\n\
             s->has = true;\ns->dup = {always};\ns->key_hi = s->hi[k];\ns->key_lo = s->lo[k];\n{take}{first}goto taken;\n}}\n\
             leave:\n{exit}s->todo = todo;\ns->base = base;\nat->used = (uint32_t)(o - out);\nreturn r;\n}}\n\n",
            pad = n.next_multiple_of(8),
            max = self.message_max(merge),
            // Beyond 64 inputs, those with one key may be in several groups.
            always = n > 64,
            enter = c.enter, exit = c.exit, first = c.first, combine = c.combine,
        );
    }

    /// Code that takes a message's values, and code that combines them with the values so far.
    /// Plain values are kept in locals.
    fn combine(&mut self, merge: &Merge) -> Combine {
        let m = self.m;
        let scope = Scope::of_locals(&merge.locals);
        let mut c = Combine::default();
        let (mut locals, mut both, mut stores) = (String::new(), String::new(), String::new());
        for (i, l) in merge.locals.iter().enumerate() {
            let (ty, zero) = (self.cty(l.ty), self.zero(l.ty));
            let _ = writeln!(locals, "{ty} {} = {zero};", names::local(l, i));
        }
        for (k, v) in merge.values.iter().enumerate() {
            let ty = m.unit(merge.unit).fields[v.field.index()].ty;
            let value = if matches!(m.ty(ty), Ty::Bytes(_)) {
                format!("wl_at(p, in->value{k})")
            } else {
                format!("in->value{k}")
            };
            let at_hand = if plain(m, ty) {
                let _ = writeln!(c.enter, "{} acc{k} = s->value{k};", self.cty(ty));
                let _ = writeln!(c.exit, "s->value{k} = acc{k};");
                format!("acc{k}")
            } else {
                format!("s->value{k}")
            };
            let _ = writeln!(c.first, "{}", self.store(ty, &at_hand, &value));
            let (a, b) = (scope.locals[v.a.index()].0.clone(), scope.locals[v.b.index()].0.clone());
            let _ = writeln!(locals, "{a} = {};\n{b} = {value};", self.load(ty, &at_hand));
            let combined = self.expr(&scope, &v.combined);
            let _ = writeln!(both, "{} new{k} = {combined};", self.cty(ty));
            let _ = writeln!(stores, "{}", self.store(ty, &at_hand, &format!("new{k}")));
        }
        let fault = "if (WL_UNLIKELY(x->fault)) { at->input = k; at->fault = x->fault; at->place = x->place; r = WL_G_BAD; goto leave; }\n";
        c.combine = format!("{{\n{locals}{both}{fault}{stores}}}\n");
        c
    }

    /// Code that writes the combined message at `o`: fields in wire order, those without a value as
    /// when a message is built.
    fn emit_message(&mut self, merge: &Merge) -> String {
        let m = self.m;
        let unit = m.unit(merge.unit);
        let (mut out, mut container) = (String::new(), Vec::new());
        for &f in &unit.body {
            let field = &unit.fields[f.index()];
            let value = self.merged_value(merge, f);
            match &field.kind {
                FieldKind::Bytes { extent, .. } => {
                    if f == merge.key {
                        out.push_str("wl_copy32(o, key.p, key.n);\no += key.n;\n");
                    } else if let Some(v) = &value {
                        let _ = writeln!(out, "{{ wl_bytes b_ = {v};\nwl_copy(o, b_.p, b_.n);\no += b_.n; }}");
                    }
                    if let Extent::Until(u) = extent {
                        delimiter(u, &mut out)
                    }
                }
                FieldKind::UInt { bytes, shift, bits, big, advance, .. } => {
                    let v = value.unwrap_or_else(|| "0".into());
                    // Fields of some bits share their container.
                    let whole = u32::from(*bits) >= u32::from(*bytes) * 8;
                    container.push(match whole {
                        true => format!("(uint64_t)({v})"),
                        false => format!("((uint64_t)({v}) & UINT64_C({})) << {shift}", (1u64 << bits) - 1),
                    });
                    if *advance {
                        let all = std::mem::take(&mut container).join(" | ");
                        let _ = writeln!(out, "o = wl_w_uint(o, {all}, {bytes}, {big});");
                    }
                }
                FieldKind::Number { radix, digits, exact, until } => {
                    let v = value.unwrap_or_else(|| "0".into());
                    let width = if *exact { *digits } else { 0 };
                    let signed = int_of(m, field.ty).is_some_and(|t| t.1);
                    let _ = writeln!(
                        out,
                        "o = wl_w_number(o, {}, {radix}, {width});",
                        if signed { format!("wl_w_sign(&o, {v})") } else { format!("(uint64_t)({v})") }
                    );
                    if let Some(u) = until {
                        delimiter(u, &mut out)
                    }
                }
                FieldKind::Varint { .. } => {
                    let v = value.unwrap_or_else(|| "0".into());
                    let _ = writeln!(out, "o = wl_w_varint(o, (uint64_t)({v}));");
                }
                FieldKind::Literal { values } => {
                    let v = values.first().cloned().unwrap_or_default();
                    let _ = writeln!(out, "memcpy(o, {}, {});\no += {};", names::literal(&v), v.len(), v.len());
                }
                // They have no bytes of their own, or share those of another field.
                FieldKind::Let { .. }
                | FieldKind::Require { .. }
                | FieldKind::Recover { .. }
                | FieldKind::Pass { .. }
                | FieldKind::Align { .. }
                | FieldKind::Nothing => {}
                FieldKind::Flag { value: bytes } => {
                    let v = value.unwrap_or_else(|| "0".into());
                    let (text, n) = (names::literal(bytes), bytes.len());
                    let _ = writeln!(out, "if ({v}) {{\nmemcpy(o, {text}, {n});\no += {n};\n}}");
                }
                // No merge has these ([`Merge::not_written`]).
                FieldKind::Unit { .. }
                | FieldKind::List { .. }
                | FieldKind::Switch { .. }
                | FieldKind::StreamBytes { .. }
                | FieldKind::StreamUnit { .. } => {}
            }
        }
        out
    }

    /// The value of a field of the combined message as a C expression.
    fn merged_value(&mut self, merge: &Merge, f: FieldId) -> Option<String> {
        let field = &self.m.unit(merge.unit).fields[f.index()];
        if let Some(k) = merge.values.iter().position(|v| v.field == f) {
            let at = if plain(self.m, field.ty) { format!("acc{k}") } else { format!("s->value{k}") };
            return Some(self.load(field.ty, &at));
        }
        if f == merge.key {
            return Some(match self.int_key(merge) {
                None => "key".into(),
                Some((_, false)) => "s->key".into(),
                Some((_, true)) => "(int64_t)(s->key ^ UINT64_C(0x8000000000000000))".into(),
            });
        }
        let c = field.computed.as_ref()?;
        let parts: Vec<_> = c
            .lengths
            .iter()
            .filter_map(|l| self.merged_value(merge, *l))
            .map(|v| format!("(int64_t)({v}).n"))
            .collect();
        Some(format!("({} + {})", if parts.is_empty() { "0".into() } else { parts.join(" + ") }, c.plus))
    }
}

fn delimiter(u: &Until, out: &mut String) {
    if u.peek {
        return;
    }
    if let Some(d) = u.delimiters.first() {
        let _ = writeln!(out, "memcpy(o, {}, {});\no += {};", names::literal(d), d.len(), d.len());
    }
}
