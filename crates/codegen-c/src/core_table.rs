//! Tables of one core (support/core_hash_table.h): keys are packed into words, values are stored as
//! they are. Keys with addresses have a short form for IPv4.

use crate::body::BodyGen;
use crate::gen::Gen;
use crate::names::{self, mangle};
use crate::parser::line;
use wireloom_ir::packed_keys::{is_core_table, packed, short, AddressForm};
use wireloom_ir::*;

/// A tick is 2 to this power ns: about a millisecond. It is more if entries live for more than half
/// an hour, so that stamps do not come round. It is less if they live for less than a quarter of a
/// second, so that this time has some hundred ticks. Below a microsecond the sweep of the table
/// would take too long.
fn tick_shift(t: &Table) -> u32 {
    let fine = t.idle.max(1).ilog2().saturating_sub(8).clamp(10, 20);
    let coarse = (20..).find(|s| t.idle >> s < 1 << 21).unwrap_or(20);
    if t.idle == 0 || coarse > 20 {
        coarse
    } else {
        fine
    }
}

impl<'m> Gen<'m> {
    pub fn words(&self, t: &Table) -> u64 {
        packed(self.m, t.key).unwrap_or(8).div_ceil(8)
    }

    /// Members of the per-core state, and what stands before it: the sizes of slots.
    pub fn flow_members(&mut self) -> (String, String) {
        let m = self.m;
        let (mut sizes, mut text) = (String::new(), String::new());
        for (i, t) in m.tables.iter().enumerate() {
            if !is_core_table(m, t) {
                continue;
            }
            let (n, value, capacity) = (names::table(m, TableId(i as u32)), self.cty(t.value), t.capacity);
            let (whole, front) = (packed(m, t.key).unwrap_or(8), t.front());
            let keys: Vec<u64> = short(m, t.key).into_iter().chain([whole]).collect();
            let mut shapes = Vec::new();
            text.push_str(&format!("wl_core_table {n}; /* capacity {capacity} */\n"));
            for (part, key) in keys.iter().enumerate() {
                sizes.push_str(&format!("WL_SLOT_NAMES({n}_{part}, {capacity}, {key}, {value});\n"));
                shapes.push(format!("WL_SHAPE({n}_{part}, {capacity}, {key}, {front})"));
                if front != 0 {
                    text.push_str(&format!("_Alignas(64) uint8_t {n}_front_{part}[{front} * {n}_{part}_size];\n"))
                }
                text.push_str(&format!(
                    "_Alignas(64) uint8_t {n}_slot_{part}[WL_SLOT_COUNT({n}_{part}, {capacity}) * {n}_{part}_size];\n"
                ));
            }
            shapes.resize(2, "WL_SHAPE_NONE".into());
            // Behind the types of values, ahead of all functions.
            self.data.push_str(&format!(
                "/* {} */\nstatic const wl_shape {n}_shape[2] = {{{}}};\n",
                names::comment(&t.name),
                shapes.join(", ")
            ));
        }
        (sizes, text)
    }

    pub fn flow_init(&mut self) -> String {
        let m = self.m;
        let mut text = String::new();
        for (i, t) in m.tables.iter().enumerate() {
            if !is_core_table(m, t) {
                continue;
            }
            let n = names::table(m, TableId(i as u32));
            let second =
                |of: &str| if short(m, t.key).is_some() { format!("wl_state(x)->{n}_{of}_1") } else { "NULL".into() };
            let front = if t.cache == 0 {
                String::new()
            } else {
                format!(".front = {{wl_state(x)->{n}_front_0, {}}}, .copies = true, ", second("front"))
            };
            let seed = "wl_table_seed(core) ^ wl_random(x, UINT64_MAX)";
            text.push_str(&format!(
                "wl_state(x)->{n} = (wl_core_table){{.slot = {{wl_state(x)->{n}_slot_0, {}}}, {front}.seed = {{{seed}, {seed}}}, .capacity = {}, .idle = {}, .lru = {}}};\n\
                 wl_core_table_begin(&wl_state(x)->{n}, 0, {n}_shape[0]);\nwl_core_table_begin(&wl_state(x)->{n}, 1, {n}_shape[1]);\n",
                second("slot"), t.capacity, if t.idle == 0 { 0 } else { (t.idle >> tick_shift(t)).max(1) }, t.evict_lru
            ));
        }
        text
    }

    /// The time at which a table is used.
    pub fn tick(&self, t: &Table) -> String {
        format!("wl_tick(x->core, {})", tick_shift(t))
    }

    /// Lets tables that expire keep up with the time, before they are used.
    pub fn flow_tend(&self) -> String {
        let m = self.m;
        let expires = |t: &&Table| is_core_table(m, t) && t.idle > 0;
        let tend = |(i, t): (usize, &Table)| {
            let n = names::table(m, TableId(i as u32));
            format!("wl_core_table_tend(&wl_state(x)->{n}, {n}_shape, core, {});\n", tick_shift(t))
        };
        m.tables.iter().enumerate().filter(|(_, t)| expires(t)).map(tend).collect()
    }

    pub fn at_batch_end(&self) -> String {
        let m = self.m;
        let flush = |(i, t): (usize, &Table)| {
            let n = names::table(m, TableId(i as u32));
            let weigh =
                if t.cache == 0 { String::new() } else { format!("wl_front_weigh(&wl_state(x)->{n}, {n}_shape);\n") };
            format!("{weigh}wl_stats_flush(&wl_state(x)->{n}.stats, &wl_shared(x)->stats[{i}]);\n")
        };
        let text: String = m.tables.iter().enumerate().filter(|(_, t)| is_core_table(m, t)).map(flush).collect();
        text + &self.keyed_at_batch_end()
    }

    /// Defines the function that packs a key into words; answers its name.
    pub fn packer(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let name = format!("pack_{}", mangle(&c));
        if self.first(&name) {
            let text = self.pack_all(ty, AddressForm::Whole);
            self.helpers.push_str(&format!("WL_INLINE void {name}(uint64_t *k, {c} v) {{\n{text}}}\n"));
        }
        name
    }

    /// Defines the function that packs a key of a table of one core; it tells which of the table's
    /// two arrays the key belongs to.
    pub fn flow_packer(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let name = format!("flow_key_{}", mangle(&c));
        if self.first(&name) {
            let whole = self.pack_all(ty, AddressForm::Whole);
            let text = match short(self.m, ty) {
                None => format!("{whole}return 0;\n"),
                Some(_) => {
                    let (mut tests, short) = (Vec::new(), self.pack_all(ty, AddressForm::Short));
                    self.addresses(ty, "v", &mut tests);
                    format!("if (WL_LIKELY({})) {{\n{short}return 0;\n}}\n{whole}return 1;\n", tests.join(" && "))
                }
            };
            self.helpers.push_str(&format!("WL_INLINE unsigned {name}(uint64_t *k, {c} v) {{\n{text}}}\n"));
        }
        name
    }

    /// Tests that the addresses of a key are IPv4.
    fn addresses(&self, ty: TyId, v: &str, out: &mut Vec<String>) {
        match self.m.ty(ty) {
            Ty::Ip => out.push(format!("wl_is_v4({v})")),
            Ty::Record(_) | Ty::Tuple(_) => {
                for (n, t) in self.members(ty) {
                    self.addresses(t, &format!("{v}.{n}"), out)
                }
            }
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Msg(_) => {}
        }
    }

    fn pack_all(&mut self, ty: TyId, form: AddressForm) -> String {
        let mut text = String::new();
        let words = self.pack(ty, "v", 0, form, &mut text).div_ceil(8);
        let (zero, store): (String, String) =
            (0..words).map(|i| (format!("uint64_t w{i} = 0;\n"), format!("k[{i}] = w{i};\n"))).unzip();
        format!("{zero}{text}{store}")
    }

    /// Appends the statements that pack a value at an offset; returns its size. Words are put
    /// together in registers, because a load of a whole word would have to wait for stores of its
    /// pieces.
    fn pack(&mut self, ty: TyId, v: &str, at: u64, form: AddressForm, text: &mut String) -> u64 {
        let n = packed(self.m, ty).unwrap_or(0);
        let mut put = |value: String, at: u64, bytes: u64| {
            let (word, bit) = (at / 8, at % 8 * 8);
            text.push_str(&if bit == 0 {
                format!("w{word} |= {value};\n")
            } else {
                format!("w{word} |= {value} << {bit};\n")
            });
            if bit + bytes * 8 > 64 {
                text.push_str(&format!("w{} |= {value} >> {};\n", word + 1, 64 - bit))
            }
        };
        match self.m.ty(ty).clone() {
            Ty::Record(_) | Ty::Tuple(_) => {
                let mut sum = 0;
                for (name, t) in self.members(ty) {
                    sum += self.pack(t, &format!("{v}.{name}"), at + sum, form, text)
                }
                return sum;
            }
            Ty::Option(t) => {
                put(format!("(uint64_t){v}.has"), at, 1);
                text.push_str(&format!("if ({v}.has) {{\n"));
                self.pack(t, &format!("{v}.v"), at + 1, AddressForm::Whole, text);
                text.push_str("}\n");
            }
            Ty::Ip if form == AddressForm::Short => {
                put(format!("(uint64_t)wl_le32({v}.b + 12)"), at, 4);
                return 4;
            }
            Ty::Ip => {
                put(format!("wl_le64({v}.b)"), at, 8);
                put(format!("wl_le64({v}.b + 8)"), at + 8, 8);
            }
            Ty::Endpoint => {
                put(format!("wl_le64({v}.ip)"), at, 8);
                put(format!("wl_le64({v}.ip + 8)"), at + 8, 8);
                put(format!("(uint64_t){v}.port"), at + 16, 2);
            }
            _ if n == 16 => {
                put(format!("(uint64_t){v}"), at, 8);
                put(format!("(uint64_t)({v} >> 64)"), at + 8, 8);
            }
            Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::List(..) | Ty::Msg(_) => {
                put(format!("(uint64_t)(uint{}_t){v}", n * 8), at, n)
            }
        }
        n
    }

    /// Defines the function that unpacks a key; answers its name.
    pub fn unpacker(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let name = format!("unpack_{}", mangle(&c));
        if self.first(&name) {
            let text = self.unpack_all(ty, AddressForm::Whole);
            self.helpers.push_str(&format!("static inline {c} {name}(const uint64_t *k) {{\n{text}}}\n"));
        }
        name
    }

    /// Defines the function that unpacks a key of a table of one core, of the array `part`; answers
    /// its name.
    fn flow_unpacker(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let name = format!("flow_unkey_{}", mangle(&c));
        if self.first(&name) {
            let whole = self.unpack_all(ty, AddressForm::Whole);
            let short = match short(self.m, ty) {
                Some(_) => format!("if (!part) {{\n{}}}\n", self.unpack_all(ty, AddressForm::Short)),
                None => String::new(),
            };
            self.helpers.push_str(&format!(
                "static inline {c} {name}(const uint64_t *k, unsigned part) {{\n(void)part;\n{short}{whole}}}\n"
            ));
        }
        name
    }

    fn unpack_all(&mut self, ty: TyId, form: AddressForm) -> String {
        let (c, mut text) = (self.cty(ty), String::new());
        self.unpack(ty, "v", 0, form, &mut text);
        format!("const uint8_t *b = (const uint8_t *)k;\n{c} v;\nmemset(&v, 0, sizeof v);\n(void)b;\n{text}return v;\n")
    }

    fn unpack(&mut self, ty: TyId, v: &str, at: u64, form: AddressForm, text: &mut String) -> u64 {
        let n = packed(self.m, ty).unwrap_or(0);
        match self.m.ty(ty).clone() {
            Ty::Record(_) | Ty::Tuple(_) => {
                let mut sum = 0;
                for (name, t) in self.members(ty) {
                    sum += self.unpack(t, &format!("{v}.{name}"), at + sum, form, text)
                }
                return sum;
            }
            Ty::Option(t) => {
                text.push_str(&format!("{v}.has = b[{at}] != 0;\n"));
                self.unpack(t, &format!("{v}.v"), at + 1, AddressForm::Whole, text);
            }
            Ty::Ip if form == AddressForm::Short => {
                text.push_str(&format!("{v}.b[10] = {v}.b[11] = 255;\nmemcpy({v}.b + 12, b + {at}, 4);\n"));
                return 4;
            }
            Ty::Ip => text.push_str(&format!("memcpy({v}.b, b + {at}, 16);\n")),
            Ty::Endpoint => {
                text.push_str(&format!("memcpy({v}.ip, b + {at}, 16);\nmemcpy(&{v}.port, b + {at} + 16, 2);\n"))
            }
            Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::List(..) | Ty::Msg(_) => {
                text.push_str(&format!("memcpy(&{v}, b + {at}, {n});\n"))
            }
        }
        n
    }
}

impl<'m> BodyGen<'_, 'm> {
    /// Opens a block with the table (`ft_`), its shapes (`g_`), the key's words (`k_`), their array
    /// (`part_`), their hash (`h_`) and the time (`now_`).
    fn flow_key(&mut self, table: TableId, key: &'m Expr) {
        let t = &self.g.m.tables[table.index()];
        let (words, name) = (self.g.words(t), names::table(self.g.m, table));
        line!(self, "{{ wl_core_table *ft_ = &wl_state(x)->{name};\nconst wl_shape *const g_ = {name}_shape;\nconst uint32_t now_ = wl_tick(x->core, {});", tick_shift(t));
        if self.is_batched(key) {
            line!(self, "const uint64_t *k_ = batched->k, h_ = batched->h;\nconst unsigned part_ = batched->part;");
            return;
        }
        let (pack, c, text) = (self.g.flow_packer(t.key), self.g.cty(t.key), self.expr(key));
        line!(self, "{c} key_ = {text};");
        self.check(key.may_fault());
        line!(self, "uint64_t k_[{words}];\nconst unsigned part_ = {pack}(k_, key_);\nconst uint64_t h_ = wl_core_table_hash_of(ft_, g_, part_, k_);");
    }

    /// Whether the lookup in an exact table was prepared before.
    fn is_batched(&self, key: &Expr) -> bool {
        self.batched.as_ref().and_then(|a| a.exact.as_ref()).is_some_and(|u| u.is(key))
    }

    /// The name of a lookup's function, and its further arguments: `_at` and the slot, if that was
    /// found before.
    fn flow_at(&self, key: &Expr) -> (&'static str, &'static str) {
        match self.is_batched(key) && self.batched.as_ref().is_some_and(|a| a.seen) {
            true => ("_at", "batched->slot, "),
            false => ("", ""),
        }
    }

    /// Counts a lookup.
    fn flow_asked(&mut self, table: TableId, key: &Expr, found: &str) {
        let n = table.0;
        if self.is_batched(key) {
            line!(self, "kept.asked_{n} += {found} ? UINT64_C(1) : UINT64_C(1) << 32;")
        } else {
            line!(self, "wl_core_table_asked(ft_, {found});")
        }
    }

    pub fn flow(&mut self, s: TableStmt<'m>) {
        match s {
            TableStmt::Get { table, key, dst } => {
                let dst = self.name(*dst);
                self.flow_key(*table, key);
                let any = if self.is_batched(key) && self.kept.filled == Some(*table) { "kept.filled && " } else { "" };
                let (at, slot) = self.flow_at(key);
                line!(
                    self,
                    "{dst}.has = {any}wl_core_table_read{at}(ft_, g_, {slot}part_, k_, h_, now_, &{dst}.v, sizeof {dst}.v);"
                );
                self.flow_asked(*table, key, &format!("{dst}.has"));
                line!(self, "}}");
            }
            TableStmt::Put { table, key, value: e, place } => {
                let (c, text) = (self.value_type(*table), self.expr(e));
                line!(self, "{{ {c} val_ = {text};");
                self.check(e.may_fault());
                self.flow_key(*table, key);
                let leave = self.leave_fault();
                line!(self, "{c} *v_ = wl_core_table_seek(ft_, g_, part_, k_, h_, now_);\nif (!v_) v_ = wl_core_table_add(ft_, g_, part_, k_, h_, now_);");
                line!(
                    self,
                    "if (WL_UNLIKELY(!v_)) {{ wl_fail(x, WL_F_FULL, {}); {leave} }}\n*v_ = val_; }} }}",
                    place.0
                );
            }
            TableStmt::Remove { table, key, dst } => {
                self.flow_key(*table, key);
                let set = dst.map(|d| format!("{} = ", self.name(d))).unwrap_or_default();
                line!(self, "{set}wl_core_table_remove(ft_, g_, part_, k_, h_, now_); }}");
            }
            TableStmt::Update { table, key, entry, body, place } => self.flow_update(*table, key, *entry, body, *place),
            TableStmt::Len { table, dst } => {
                let (name, dst, shift) =
                    (names::table(self.g.m, *table), self.name(*dst), tick_shift(&self.g.m.tables[table.index()]));
                line!(
                    self,
                    "{dst} = wl_core_table_len(&wl_state(x)->{name}, {name}_shape, wl_tick(x->core, {shift}));"
                );
            }
            TableStmt::Next { table, cursor, key, value, more, .. } => {
                let t = &self.g.m.tables[table.index()];
                let (name, unpack, c, shift) = (
                    names::table(self.g.m, *table),
                    self.g.flow_unpacker(t.key),
                    self.value_type(*table),
                    tick_shift(t),
                );
                let (cursor, key, value, more) =
                    (self.name(*cursor), self.name(*key), self.name(*value), self.name(*more));
                line!(self, "{{ unsigned part_;\nconst wl_shape *const g_ = {name}_shape;\nconst uint8_t *s_ = wl_core_table_next(&wl_state(x)->{name}, g_, &{cursor}, &part_, wl_tick(x->core, {shift}));\n{more} = s_ != NULL;");
                line!(self, "if (s_) {{ uint64_t k_[{}]; wl_slot_key(s_, g_[part_], k_); {key} = {unpack}(k_, part_); {value} = *(const {c} *)(const void *)(s_ + g_[part_].value); }} }}", self.g.words(t));
            }
            // Such tables have no other entries: `lang` refuses these.
            TableStmt::Insert { .. } | TableStmt::Delete { .. } | TableStmt::Push { .. } | TableStmt::Pop { .. } => {}
        }
    }

    fn value_type(&mut self, table: TableId) -> String {
        self.g.cty(self.g.m.tables[table.index()].value)
    }

    /// The body changes a copy; a fault in it leaves the entry as it was. It uses no tables, so no
    /// entry moves.
    fn flow_update(&mut self, table: TableId, key: &'m Expr, entry: LocalId, body: &'m Block, place: PlaceId) {
        let (name, c) = (self.name(entry), self.value_type(table));
        let zero = self.g.zero(self.g.m.tables[table.index()].value);
        self.flow_key(table, key);
        let (at, slot) = self.flow_at(key);
        line!(self, "{c} *v_ = wl_core_table_find{at}(ft_, g_, {slot}part_, k_, h_, now_);\nif (v_) {name} = *v_; else {name} = {zero};");
        self.flow_asked(table, key, "(v_ != NULL)");
        self.block(body);
        let leave = self.leave_fault();
        line!(self, "if (!v_) v_ = wl_core_table_add(ft_, g_, part_, k_, h_, now_);\nif (WL_UNLIKELY(!v_)) {{ wl_fail(x, WL_F_FULL, {}); {leave} }}\n*v_ = {name}; }}", place.0);
    }
}
