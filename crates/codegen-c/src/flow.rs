//! Tables of one core (support/flow.h): keys packed into words, values as they are; and what is fetched ahead for a batch.

use crate::body::{BodyGen, Owner};
use crate::expr::{may_fault, Scope};
use crate::gen::Gen;
use crate::names::{self, mangle};
use crate::parser::line;
use std::collections::BTreeMap;
use wireloom_ir::*;

/// Whether a table is kept per core: it is local, exact, and its entries have one size.
pub(crate) fn is_flow(m: &Module, t: &Table) -> bool {
    t.local && t.kind == TableKind::Exact && packed(m, t.key).is_some() && !layout::has_bytes(m, t.value) && !has_list(m, t.value)
}

fn has_list(m: &Module, ty: TyId) -> bool {
    match m.ty(ty) {
        Ty::List(..) | Ty::Msg(_) => true,
        Ty::Option(t) => has_list(m, *t),
        Ty::Record(r) => m.records[r.index()].fields.iter().any(|(_, t)| has_list(m, *t)),
        Ty::Tuple(ts) => ts.iter().any(|t| has_list(m, *t)),
        _ => false,
    }
}

/// Bytes of a key without gaps, if it has a fixed size.
pub(crate) fn packed(m: &Module, ty: TyId) -> Option<u64> {
    Some(match m.ty(ty) {
        Ty::Unit | Ty::Bool => 1,
        Ty::UInt(b) | Ty::Int(b) => layout::int_bytes(*b),
        Ty::Ip => 16,
        Ty::Endpoint => 18,
        Ty::Record(r) => m.records[r.index()].fields.iter().map(|(_, t)| packed(m, *t)).sum::<Option<u64>>()?,
        Ty::Tuple(ts) => ts.iter().map(|t| packed(m, *t)).sum::<Option<u64>>()?,
        Ty::Option(t) => 1 + packed(m, *t)?,
        Ty::Bytes(_) | Ty::List(..) | Ty::Msg(_) => return None,
    })
}

/// The first use of a table whose key is known before the handler runs: it is fetched ahead for a whole batch.
pub(crate) struct Ahead<'m> {
    pub table: TableId,
    /// As it stands in the statement.
    pub site: &'m Expr,
    /// Over the frame alone.
    pub key: Expr,
}

impl<'m> Gen<'m> {
    pub fn words(&self, t: &Table) -> u64 { packed(self.m, t.key).unwrap_or(8).div_ceil(8) }

    /// C expression for the size of a slot.
    pub fn slot_size(&mut self, t: &Table) -> String {
        let (words, value) = (self.words(t), self.cty(t.value));
        format!("(8 + {words} * 8 + ((unsigned)sizeof({value}) + 7) / 8 * 8)")
    }

    /// Members of the per-core state.
    pub fn flow_members(&mut self) -> String {
        let m = self.m;
        let mut text = String::new();
        for (i, t) in m.tables.iter().enumerate() {
            if !is_flow(m, t) { continue }
            let (n, size) = (names::table(m, TableId(i as u32)), self.slot_size(t));
            text.push_str(&format!("wl_flows {n}; /* capacity {} */\n_Alignas(64) uint8_t {n}_slot[UINT64_C({}) * {size}];\n", t.capacity, slots(t)));
        }
        text
    }

    pub fn flow_init(&mut self) -> String {
        let m = self.m;
        let mut text = String::new();
        for (i, t) in m.tables.iter().enumerate() {
            if !is_flow(m, t) { continue }
            let n = names::table(m, TableId(i as u32));
            text.push_str(&format!(
                "wl_state(x)->{n} = (wl_flows){{.slot = wl_state(x)->{n}_slot, .seed = wl_table_seed(core) ^ wl_random(x, UINT64_MAX), .slots = {}, .capacity = {}, .idle = {}, .lru = {}}};\n",
                slots(t), t.capacity, if t.idle == 0 { 0 } else { (t.idle >> 20).clamp(1, u32::MAX as u64 / 4) }, t.evict_lru
            ));
        }
        text
    }

    fn at_batch_end(&mut self) -> String {
        let m = self.m;
        let mut text = String::new();
        for (i, t) in m.tables.iter().enumerate() {
            if !is_flow(m, t) { continue }
            let (n, size) = (names::table(m, TableId(i as u32)), self.slot_size(t));
            let sweep = if t.idle > 0 { format!("wl_flow_sweep(&wl_state(x)->{n}, {size}, wl_tick(core));\n") } else { String::new() };
            text.push_str(&format!("{sweep}wl_stats_flush(&wl_state(x)->{n}.stats, &wl_shared(x)->stats[{i}]);\n"));
        }
        text + &self.keyed_at_batch_end()
    }

    /// Defines the function that packs a key into words; answers its name.
    pub fn packer(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let name = format!("pack_{}", mangle(&c));
        if self.first(&name) {
            let mut text = String::new();
            let n = self.pack(ty, "v", 0, &mut text);
            let words = n.div_ceil(8);
            self.helpers.push_str(&format!("WL_INLINE void {name}(uint64_t *k, {c} v) {{\nuint8_t b[{}] = {{0}};\n{text}memcpy(k, b, {});\n}}\n", words * 8, words * 8));
        }
        name
    }

    fn pack(&mut self, ty: TyId, v: &str, at: u64, text: &mut String) -> u64 {
        let n = packed(self.m, ty).unwrap_or(0);
        match self.m.ty(ty).clone() {
            Ty::Record(_) | Ty::Tuple(_) => {
                let mut at = at;
                for (name, t) in self.members(ty) { at += self.pack(t, &format!("{v}.{name}"), at, text) }
            }
            Ty::Option(t) => {
                text.push_str(&format!("b[{at}] = {v}.has;\nif ({v}.has) {{\n"));
                self.pack(t, &format!("{v}.v"), at + 1, text);
                text.push_str("}\n");
            }
            Ty::Ip => text.push_str(&format!("memcpy(b + {at}, {v}.b, 16);\n")),
            Ty::Endpoint => text.push_str(&format!("memcpy(b + {at}, {v}.ip, 16);\nmemcpy(b + {at} + 16, &{v}.port, 2);\n")),
            _ => text.push_str(&format!("memcpy(b + {at}, &{v}, {n});\n")),
        }
        n
    }

    /// Defines the function that unpacks a key; answers its name.
    pub fn unpacker(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let name = format!("unpack_{}", mangle(&c));
        if self.first(&name) {
            let mut text = String::new();
            self.unpack(ty, "v", 0, &mut text);
            self.helpers.push_str(&format!("static inline {c} {name}(const uint64_t *k) {{\nconst uint8_t *b = (const uint8_t *)k;\n{c} v;\nmemset(&v, 0, sizeof v);\n(void)b;\n{text}return v;\n}}\n"));
        }
        name
    }

    fn unpack(&mut self, ty: TyId, v: &str, at: u64, text: &mut String) {
        match self.m.ty(ty).clone() {
            Ty::Record(_) | Ty::Tuple(_) => {
                let mut at = at;
                for (name, t) in self.members(ty) {
                    self.unpack(t, &format!("{v}.{name}"), at, text);
                    at += packed(self.m, t).unwrap_or(0);
                }
            }
            Ty::Option(t) => {
                text.push_str(&format!("{v}.has = b[{at}] != 0;\n"));
                self.unpack(t, &format!("{v}.v"), at + 1, text);
            }
            Ty::Ip => text.push_str(&format!("memcpy({v}.b, b + {at}, 16);\n")),
            Ty::Endpoint => text.push_str(&format!("memcpy({v}.ip, b + {at}, 16);\nmemcpy(&{v}.port, b + {at} + 16, 2);\n")),
            _ => text.push_str(&format!("memcpy(&{v}, b + {at}, {});\n", packed(self.m, ty).unwrap_or(0))),
        }
    }

    /// The use of a table that a handler of frames is sure to know ahead.
    pub fn ahead(&self, h: &'m Handler) -> Option<Ahead<'m>> {
        let m = self.m;
        if !matches!(h.on, On::Frame { .. }) { return None }
        let mut known: BTreeMap<LocalId, Option<Expr>> = BTreeMap::new();
        let mut found = None;
        let mut changed = false;
        in_order(&h.body.block, &mut |s| {
            if found.is_some() { return }
            match &s.kind {
                StmtKind::Set(l, e) => {
                    let value = plain(e, &known);
                    // Set twice: its value depends on the way taken.
                    known.entry(*l).and_modify(|v| *v = None).or_insert(value);
                }
                StmtKind::Frame { act, .. } => changed |= !matches!(act, FrameAct::Send { .. }),
                StmtKind::TableGet { table, key, .. } | StmtKind::TablePut { table, key, .. } | StmtKind::TableUpdate { table, key, .. } if !changed => {
                    if !is_flow(m, &m.tables[table.index()]) { return }
                    if let Some(k) = plain(key, &known) { found = Some(Ahead { table: *table, site: key, key: k }) }
                }
                _ => {}
            }
        });
        found
    }

    /// Runs handler i over a batch.
    pub fn batch(&mut self, i: usize, h: &'m Handler, unit: UnitId) {
        let (name, on) = (names::unit(self.m, unit), format!("on_{i}_{}", names::ident(&h.name)));
        let fx = "wl_fx fx = {.core = core, .tmp = ((app_state *)core->state)->scratch, .tmp_max = sizeof(((app_state *)core->state)->scratch)}, *x = &fx;\n";
        let end = self.at_batch_end();
        let head = format!("/* {} over a batch. */\nstatic void batch_{i}(wl_core *core, wl_frame *f, uint32_t n) {{\n{fx}", names::comment(&h.name));
        let body = match self.ahead(h) {
            None => format!("for (uint32_t k = 0; k < n; k++) {{\nwl_view v;\n{name}_open(x, &v, &f[k]);\nx->tmp_n = 0;\nif (WL_UNLIKELY({on}(x, &v) == WL_T_FAULT)) frame_fault(core, x);\n}}\n"),
            Some(a) => {
                let t = &self.m.tables[a.table.index()];
                let (words, size, table) = (self.words(t), self.slot_size(t), names::table(self.m, a.table));
                let scope = Scope { locals: vec![("(&v[k])".into(), h.body.locals[0].ty)], ..Scope::default() };
                let (key, pack) = (self.expr(&scope, &a.key), self.packer(t.key));
                format!(
                    "wl_view v[64];\nwl_ahead_{words} ahead[64];\nwhile (n) {{\nuint32_t m = n < 64 ? n : 64;\n\
                     /* Keys first, and their places fetched ahead. */\nfor (uint32_t k = 0; k < m; k++) {{\n{name}_open(x, &v[k], &f[k]);\n{pack}(ahead[k].k, {key});\n\
                     ahead[k].h = wl_flow_hash(&wl_state(x)->{table}, ahead[k].k, {words});\nwl_flow_prefetch(&wl_state(x)->{table}, ahead[k].h, {size});\n}}\n\
                     for (uint32_t k = 0; k < m; k++) {{\nx->tmp_n = 0;\nif (WL_UNLIKELY({on}(x, &v[k], &ahead[k]) == WL_T_FAULT)) frame_fault(core, x);\n}}\nf += m;\nn -= m;\n}}\n"
                )
            }
        };
        self.code.push_str(&format!("{head}{body}{end}}}\n\n"));
    }

    pub fn ahead_type(&mut self, words: u64) -> String {
        let name = format!("wl_ahead_{words}");
        if self.first(&name) { self.types.push_str(&format!("typedef struct {name} {{ uint64_t k[{words}], h; }} {name};\n")) }
        name
    }
}

/// All statements, in the order of the source.
fn in_order<'m>(block: &'m Block, f: &mut dyn FnMut(&'m Stmt)) {
    for s in block {
        f(s);
        match &s.kind {
            StmtKind::If { then, other, .. } => { in_order(then, f); in_order(other, f) }
            StmtKind::Switch { cases, default, .. } => {
                for (_, b) in cases { in_order(b, f) }
                in_order(default, f);
            }
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } | StmtKind::TableUpdate { body, .. } => in_order(body, f),
            _ => {}
        }
    }
}

/// Slots of a table: a quarter more than its capacity.
fn slots(t: &Table) -> u64 { (t.capacity + t.capacity / 4 + 16).min(u32::MAX as u64) }

/// An expression over the frame alone, locals replaced by what they were set to; None if it may need more, or be unsafe to evaluate
/// where a guard before it has not been passed.
fn plain(e: &Expr, known: &BTreeMap<LocalId, Option<Expr>>) -> Option<Expr> {
    use ExprKind::*;
    let kind = match &*e.kind {
        Local(l) => return known.get(l)?.clone(),
        Int(_) | Bool(_) | Param(_) | FrameLen(_) | FrameInstance(_) | FrameTime(_) | ExprKind::None => (*e.kind).clone(),
        Read(p) | Case(p, _) if p.root == Root::Local(LocalId(0)) && p.steps.iter().all(|s| matches!(s, Step::Field(_))) => (*e.kind).clone(),
        Unary(op, a) => Unary(*op, plain(a, known)?),
        Binary(op, a, b) => Binary(*op, plain(a, known)?, plain(b, known)?),
        Cast(a) => Cast(plain(a, known)?),
        If(a, b, c) => If(plain(a, known)?, plain(b, known)?, plain(c, known)?),
        InRanges(a, r) => InRanges(plain(a, known)?, r.clone()),
        Some(a) => Some(plain(a, known)?),
        IsSome(a) => IsSome(plain(a, known)?),
        Unwrap(a) => Unwrap(plain(a, known)?),
        Get(a, n) => Get(plain(a, known)?, *n),
        Make(list) => Make(list.iter().map(|e| plain(e, known)).collect::<Option<_>>()?),
        _ => return Option::None,
    };
    Option::Some(Expr::new(e.ty, kind))
}

impl<'m> BodyGen<'_, 'm> {
    /// Opens a block with the table (`ft_`), the key's words (`k_`), its hash (`h_`) and the time (`now_`).
    fn flow_key(&mut self, table: TableId, key: &'m Expr) {
        let t = &self.g.m.tables[table.index()];
        let (words, name) = (self.g.words(t), names::table(self.g.m, table));
        let ahead = matches!(self.owner, Owner::Frame) && self.ahead.is_some_and(|a| std::ptr::eq(a, key));
        line!(self, "{{ wl_flows *ft_ = &wl_state(x)->{name};\nconst uint32_t now_ = wl_tick(x->core);");
        if ahead {
            line!(self, "const uint64_t *k_ = ahead->k, h_ = ahead->h;");
            return;
        }
        let (pack, c, text) = (self.g.packer(t.key), self.g.cty(t.key), self.expr(key));
        line!(self, "{c} key_ = {text};");
        self.check(may_fault(key));
        line!(self, "uint64_t k_[{words}];\n{pack}(k_, key_);\nconst uint64_t h_ = wl_flow_hash(ft_, k_, {words});");
    }

    fn flow_sizes(&mut self, table: TableId) -> (String, String) {
        let t = &self.g.m.tables[table.index()];
        let value = self.g.cty(t.value);
        (format!("{}, {}", self.g.words(t), self.g.slot_size(t)), format!("*({value} *)(void *)(wl_slot_key(s_) + {})", self.g.words(t)))
    }

    pub fn flow(&mut self, s: &'m StmtKind) {
        match s {
            StmtKind::TableGet { table, key, dst } => {
                self.flow_key(*table, key);
                let ((sizes, value), dst) = (self.flow_sizes(*table), self.name(*dst));
                line!(self, "wl_slot *s_ = wl_flow_find(ft_, k_, h_, {sizes}, now_);\n{dst}.has = s_ != NULL;\nif (s_) {dst}.v = {value}; }}");
            }
            StmtKind::TablePut { table, key, value: e, place } => {
                let (sizes, value) = self.flow_sizes(*table);
                let c = self.g.cty(self.g.m.tables[table.index()].value);
                let text = self.expr(e);
                line!(self, "{{ {c} val_ = {text};");
                self.check(may_fault(e));
                self.flow_key(*table, key);
                self.flow_store(&sizes, &value, "val_", "wl_flow_seek", place.0);
                line!(self, "}} }}");
            }
            StmtKind::TableRemove { table, key, dst } => {
                self.flow_key(*table, key);
                let (sizes, _) = self.flow_sizes(*table);
                let set = dst.map(|d| format!("{} = ", self.name(d))).unwrap_or_default();
                line!(self, "{set}wl_flow_remove(ft_, k_, h_, {sizes}, now_); }}");
            }
            StmtKind::TableUpdate { table, key, entry, body, place } => self.flow_update(*table, key, *entry, body, *place),
            StmtKind::TableLen { table, dst } => {
                let (name, dst) = (names::table(self.g.m, *table), self.name(*dst));
                let size = self.g.slot_size(&self.g.m.tables[table.index()]);
                line!(self, "{dst} = wl_flow_len(&wl_state(x)->{name}, {size}, wl_tick(x->core));");
            }
            StmtKind::TableNext { table, cursor, key, value, more } => {
                let t = &self.g.m.tables[table.index()];
                let (name, size, unpack) = (names::table(self.g.m, *table), self.g.slot_size(t), self.g.unpacker(t.key));
                let (_, stored) = self.flow_sizes(*table);
                let (cursor, key, value, more) = (self.name(*cursor), self.name(*key), self.name(*value), self.name(*more));
                line!(self, "{{ wl_slot *s_ = wl_flow_next(&wl_state(x)->{name}, &{cursor}, {size}, wl_tick(x->core));\n{more} = s_ != NULL;");
                line!(self, "if (s_) {{ {key} = {unpack}(wl_slot_key(s_)); {value} = {stored}; }} }}");
            }
            _ => {}
        }
    }

    fn flow_store(&mut self, sizes: &str, value: &str, from: &str, seek: &str, place: u32) {
        let leave = self.leave_fault();
        line!(self, "wl_slot *s_ = {seek}(ft_, k_, h_, {sizes}, now_);\nif (s_) s_->seen = now_; else s_ = wl_flow_add(ft_, k_, h_, {sizes}, now_);");
        line!(self, "if (WL_UNLIKELY(!s_)) {{ wl_fail(x, WL_F_FULL, {place}); {leave} }}\n{value} = {from};");
    }

    /// The body changes a copy; a fault in it leaves the entry as it was. Where the body uses tables itself, entries may move.
    fn flow_update(&mut self, table: TableId, key: &'m Expr, entry: LocalId, body: &'m Block, place: PlaceId) {
        let name = self.name(entry);
        let (sizes, value) = self.flow_sizes(table);
        let zero = self.g.zero(self.g.m.tables[table.index()].value);
        let mut nested = false;
        walk::stmts(body, &mut |s| nested |= matches!(s.kind, StmtKind::TableGet { .. } | StmtKind::TablePut { .. } | StmtKind::TableRemove { .. } | StmtKind::TableUpdate { .. }));
        self.flow_key(table, key);
        line!(self, "wl_slot *s_ = wl_flow_find(ft_, k_, h_, {sizes}, now_);\nif (s_) {name} = {value}; else {name} = {zero};");
        self.block(body);
        if nested { line!(self, "s_ = wl_flow_seek(ft_, k_, h_, {sizes}, now_);") }
        let leave = self.leave_fault();
        line!(self, "if (!s_) s_ = wl_flow_add(ft_, k_, h_, {sizes}, now_);\nif (WL_UNLIKELY(!s_)) {{ wl_fail(x, WL_F_FULL, {}); {leave} }}\n{value} = {name}; }}", place.0);
    }
}
