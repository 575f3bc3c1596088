//! Exact tables in maps of the kernel.
//!
//! A table is an array of lines, each of a few slots and a lock. A key has a line, by its hash. If
//! that is full, the entry lies in another one. Keys and values have their canonical form: integers
//! little endian in whole bytes, addresses in 16, without gaps. The key's line is locked for the
//! time of a change: a second processor may be about the same entry. Entries are read without the
//! lock. A program of its own makes changes from outside ([`XdpTable::program`]), so that no thread
//! of the process ever holds such a lock.

use super::table::{head, XdpTable, DIRECT_MAX, SLOTS, SLOTS_AT_MOST};
use super::table_kinds;
use crate::body::BodyGen;
use crate::gen::Gen;
use crate::names::{self, mangle};
use crate::parser::line;
use wireloom_ir::placement::{canonical_size, ring_bytes};
use wireloom_ir::*;

/// The numbers of changes from outside.
pub const GET: u64 = 1;
pub const PUT: u64 = 2;
pub const REMOVE: u64 = 3;
/// Frees what has expired in a line.
pub const SWEEP: u64 = 4;
/// Reads an entry, which is no use of it.
pub const LOOK: u64 = 5;

/// Bytes of a line with slots of so many bytes, and its slots: as few cache lines as will do.
fn line_of(slot: usize) -> (usize, usize) {
    let bytes = (head(SLOTS) + SLOTS * slot).next_multiple_of(64);
    let more = ((bytes - head(SLOTS_AT_MOST)) / slot).min(SLOTS_AT_MOST);
    (bytes, more.max(SLOTS))
}

/// Lines of a table. There are so many that few entries lie in other lines than their own. In a
/// full table it is one of thirty, with three slots.
fn lines(capacity: u64, slots: u64) -> u64 {
    let wanted = if slots > SLOTS as u64 { 2 * capacity } else { capacity * 5 / 2 };
    wanted.div_ceil(slots).max(LINES)
}

/// The number in the place of the first table's address.
const DIRECT: u64 = 0x7a4c_96d2_e81b_3f00;

/// Lines at least: an entry has others to go to.
const LINES: u64 = 16;

impl<'m> Gen<'m> {
    /// A table as the hook has it.
    pub(super) fn xdp_of(&self, id: TableId) -> XdpTable {
        let t = &self.m.tables[id.index()];
        let name: String = names::ident(&t.name).chars().take(9).collect();
        let kept = matches!(t.kind, TableKind::Lpm | TableKind::Wildcard | TableKind::Ring | TableKind::HyperLogLog);
        let words = |ty| canonical_size(self.m, ty).div_ceil(8);
        let (line, slots) = line_of(8 * (1 + words(t.key) + words(t.value)));
        XdpTable {
            table: id,
            kind: t.kind,
            map: format!("t{}_{name}", id.0),
            program: (!kept).then(|| format!("c{}_{name}", id.0)),
            key: canonical_size(self.m, t.key),
            value: canonical_size(self.m, t.value),
            idle: t.idle,
            stamped: t.idle > 0 || t.evict_lru,
            capacity: t.capacity,
            lines: lines(t.capacity, slots as u64) as u32,
            line,
            slots,
            wide: layout::has_bytes(self.m, t.key) || layout::has_bytes(self.m, t.value),
            reversed: t.kind == TableKind::Lpm && table_kinds::is_reversed(self.m, t.key),
            direct: None,
            ring: ring_bytes(t.capacity, canonical_size(self.m, t.value)).unwrap_or_default(),
            sums: t.per_core.then(|| per_core::numbers(self.m, t.value)),
        }
    }

    /// The tables that blocks use; their types and functions are printed.
    pub(super) fn xdp_tables(&mut self, blocks: &[&Block]) -> Vec<XdpTable> {
        let mut used = std::collections::BTreeSet::new();
        blocks.iter().for_each(|b| walk::stmts(b, &mut |s| used.extend(s.kind.table())));
        let mut all: Vec<XdpTable> = used.into_iter().map(|id| self.xdp_of(id)).collect();
        let exact = all.iter_mut().filter(|t| t.kind == TableKind::Exact);
        exact.zip(DIRECT..).for_each(|(t, n)| t.direct = (t.bytes() <= DIRECT_MAX).then_some(n));
        // Changes from outside use the first words.
        let wide = all.iter().filter(|t| t.wide).map(|t| t.key_words() + t.value_words());
        self.scratch.wide = wide.max().unwrap_or(0);
        for (n, t) in all.iter().enumerate() {
            match t.kind {
                TableKind::Exact => self.xdp_table_code(n, t),
                TableKind::Wildcard
                | TableKind::Lpm
                | TableKind::Array
                | TableKind::Bloom
                | TableKind::CountMin
                | TableKind::HyperLogLog => self.xdp_keyed_code(t),
                TableKind::Ring => {
                    self.xdp_keyed_code(t);
                    self.helpers.push_str(&format!("#define {}_held(x) WL_HELD(x, {n})\n", t.map))
                }
            }
        }
        all
    }

    fn xdp_table_code(&mut self, n: usize, x: &XdpTable) {
        let t = &self.m.tables[x.table.index()];
        let title = names::comment(&t.name);
        self.types.push_str(&format!(
            "/* Table {title}: a slot, with the time of its last use (0: free), and a line. */\n\
             struct {0}_key {{ uint64_t w[{1}]; }};\n\
             struct {0}_slot {{ uint64_t used, key[{1}], value[{2}]; }};\n\
             struct {0}_line {{ uint32_t lock; {4} struct {0}_slot slot[{3}]; }} __attribute__((aligned(64)));\n",
            x.map,
            x.key_words(),
            x.value_words(),
            x.slots,
            if x.slots > SLOTS { "uint8_t away, pad[3], mark[4], more[4];" } else { "uint8_t away, mark[3];" },
        ));
        self.helpers.push_str(&self.xdp_words("key", &x.map, t.key));
        self.helpers.push_str(&self.xdp_words("value", &x.map, t.value));
        let at = line_at(x);
        // Entries of a processor's part are counted in its state.
        let counts = match x.sums {
            Some(_) => format!("WL_PARTS({}, {n}, {})\n", x.map, t.capacity),
            None => format!("volatile uint64_t {0}_entries SEC(\".bss\");\nWL_WHOLE({0})\n", x.map),
        };
        self.helpers.push_str(&format!(
            "{at}{counts}WL_TABLE({0}, {n}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8})\n",
            x.map,
            x.key_words(),
            x.value_words(),
            x.slots,
            x.lines,
            t.capacity,
            t.idle,
            u8::from(t.evict_lru),
            u8::from(x.wide),
        ));
    }

    /// Where the only bytes of a type are its end: where they begin, and how many they are at most;
    /// their place in a value.
    pub(super) fn xdp_tail(&self, ty: TyId, place: &str) -> Option<(usize, u64, String)> {
        let (mut at, mut bytes) = (0, Vec::new());
        self.xdp_leaves(ty, place, &mut |place, leaf, n| {
            if let Leaf::Bytes(most) = leaf {
                bytes.push((at, most, at + n, place.to_string()))
            }
            at += n;
        });
        match bytes.as_slice() {
            [(begin, most, end, place)] if *end == at => Some((*begin, *most, place.clone())),
            _ => None,
        }
    }

    /// The words of a key or a value that count: those behind bytes at its end do not.
    fn xdp_words(&self, of: &str, map: &str, ty: TyId) -> String {
        let count = match self.xdp_tail(ty, "v") {
            Some((begin, most, _)) => format!("({} + wl_least({}, {most})) / 8", begin + 4 + 7, take(begin, 4)),
            None => canonical_size(self.m, ty).div_ceil(8).to_string(),
        };
        format!("WL_INLINE uint32_t {map}_{of}_words(const uint64_t *w) {{\n(void)w;\nreturn {count};\n}}\n")
    }

    /// Defines `pack_…` and `unpack_…` of a type; answers the suffix of their names.
    pub(super) fn xdp_codec(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        let mut name = mangle(&c);
        if layout::has_bytes(self.m, ty) {
            // Bytes of any bound are one type in C.
            name = format!("{name}_{}", ty.0)
        }
        if !self.first(&format!("xdp codec {name}")) {
            return name;
        }
        let (mut pack, mut unpack, mut at) = (String::new(), String::new(), 0);
        self.xdp_leaves(ty, "v", &mut |place, how, n| {
            match how {
                Leaf::Int => {
                    pack.push_str(&put(at, n, &format!("(uint64_t)({place})")));
                    unpack.push_str(&format!("{place} = (__typeof__({place}))({});\n", take(at, n)));
                }
                Leaf::Wide => {
                    pack.push_str(&put(at, 8, &format!("(uint64_t)({place})")));
                    pack.push_str(&put(at + 8, n - 8, &format!("(uint64_t)(({place}) >> 64)")));
                    let (low, high) = (take(at, 8), take(at + 8, n - 8));
                    unpack.push_str(&format!("{place} = (unsigned __int128){high} << 64 | {low};\n"));
                }
                Leaf::Signed => {
                    pack.push_str(&put(at, n, &format!("(uint64_t)({place})")));
                    unpack.push_str(&format!("{place} = (__typeof__({place}))wl_sext({}, {});\n", take(at, n), 8 * n));
                }
                Leaf::Bytes(most) => {
                    pack.push_str(&put(at, 4, &format!("(uint64_t)wl_least({place}.n, {most})")));
                    pack.push_str(&format!("wl_pack_bytes(x, (uint8_t *)w + {}, {most}, {place});\n", at + 4));
                    unpack.push_str(&format!(
                        "{place} = (wl_bytes){{base + {}, wl_least({}, {most})}};\n",
                        at + 4,
                        take(at, 4)
                    ));
                }
                Leaf::Address => {
                    for word in 0..2 {
                        let place = format!("{place}.w[{word}]");
                        pack.push_str(&put(at + 8 * word, 8, &place));
                        unpack.push_str(&format!("{place} = {};\n", take(at + 8 * word, 8)));
                    }
                }
                Leaf::Port => {
                    pack.push_str(&put(at, 2, &format!("(uint64_t)__builtin_bswap16({place}.port)")));
                    unpack.push_str(&format!(
                        "{place}.port = __builtin_bswap16((uint16_t)({}));\n{place}.v4 = wl_is_v4(wl_ip_of({place}));\n",
                        take(at, 2)
                    ));
                }
            }
            at += n;
        });
        let zero = self.zero(ty);
        self.helpers.push_str(&format!(
            "WL_INLINE void pack_{name}(wl_fx *x, uint64_t *w, {c} v) {{\n(void)x; (void)w; (void)v;\n{pack}}}\n\
             WL_INLINE {c} unpack_{name}(const uint64_t *w, uint32_t base) {{\n{c} v = {};\n(void)w; (void)base;\n{unpack}return v;\n}}\n",
            zero
        ));
        name
    }

    /// The scalars of a value, in the order of its canonical form, with their bytes.
    pub(super) fn xdp_leaves(&self, ty: TyId, place: &str, each: &mut dyn FnMut(&str, Leaf, usize)) {
        match self.m.ty(ty) {
            Ty::Ip => each(place, Leaf::Address, 16),
            Ty::Bytes(most) => each(place, Leaf::Bytes(*most), 4 + *most as usize),
            Ty::Endpoint => {
                each(place, Leaf::Address, 16);
                each(place, Leaf::Port, 2)
            }
            Ty::Record(_) | Ty::Tuple(_) => {
                for (n, t) in self.members(ty) {
                    self.xdp_leaves(t, &format!("{place}.{n}"), each)
                }
            }
            Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Option(_) | Ty::List(..) | Ty::Msg(_) => {
                match canonical_size(self.m, ty) {
                    0 => {}
                    n if matches!(self.m.ty(ty), Ty::Int(_)) => each(place, Leaf::Signed, n),
                    n if n > 8 => each(place, Leaf::Wide, n),
                    n => each(place, Leaf::Int, n),
                }
            }
        }
    }
}

/// The function that gives a table's lines, with the map if it has one.
fn line_at(x: &XdpTable) -> String {
    let (map, lines) = (&x.map, x.lines);
    // A line's number within the part of this processor, or of the one that a change is for.
    let (part, parts) = match x.sums {
        Some(_) => (format!("if (n >= {lines}u) return NULL; n += (uint32_t)wl_part() * {lines}u; "), "WL_PROCESSORS"),
        None => (String::new(), "1"),
    };
    let head = format!("WL_INLINE struct {map}_line *{map}_at(uint32_t n) {{ {part}return ");
    let in_map = format!(
        "struct {{ WL_MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY); WL_MAP_TYPE(key, uint32_t); WL_MAP_TYPE(value, struct {map}_line); \
         WL_MAP_NUMBER(max_entries, 1); WL_MAP_NUMBER(map_flags, BPF_F_MMAPABLE); }} {map} SEC(\".maps\");\n\
         {head}bpf_map_lookup_elem(&{map}, &n); }}\n"
    );
    let Some(number) = x.direct else { return in_map };
    let direct = format!("{head}WL_VALUE_OF(\"{number:#x}\", n, {lines}u * {parts}, struct {map}_line); }}\n");
    match x.sums {
        // The loader knows the number of processors.
        Some(_) => format!(
            "#if !defined(WL_ANY_MACHINE) && WL_PROCESSORS * {} <= {DIRECT_MAX}\n{direct}#else\n{in_map}#endif\n",
            x.bytes()
        ),
        None => direct,
    }
}

/// The program for changes of a table from outside; empty: the process changes the map by itself.
pub(super) fn xdp_changes(m: &Module, x: &XdpTable) -> String {
    let Some(program) = &x.program else { return String::new() };
    let (keys, values) = (x.key_words(), x.value_words());
    let body = match x.wide {
        true => format!("WL_WIDE_CHANGES({}, {keys}, {values}, 0)", x.map),
        false => table_kinds::changes(x.kind, x, m.tables[x.table.index()].capacity),
    };
    let title = "/* Changes from outside: what, a key and a value come in as a frame. */\n";
    match x.sums {
        None => format!("{title}SEC(\"xdp\") int {program}(struct xdp_md *ctx) {{\n{body}\n}}\n"),
        Some(_) => format!(
            "{title}WL_INLINE int {program}_here(struct xdp_md *ctx) {{\n{body}\n}}\n\
             SEC(\"xdp\") int {program}(struct xdp_md *ctx) {{\nWL_CHANGES_OF_PART(ctx, {program}_here)\n}}\n"
        ),
    }
}

/// Bits of so many bytes.
fn mask(n: usize) -> u64 {
    u64::MAX >> (64 - 8 * n)
}

/// Text that puts the low n bytes of a number at a place into words, which are 0 there. Words and
/// not bytes: what is read soon as a word must not have been stored as bytes.
fn put(at: usize, n: usize, value: &str) -> String {
    let (word, shift) = (at / 8, 8 * (at % 8));
    let value = if n < 8 { format!("({value} & UINT64_C({:#x}))", mask(n)) } else { format!("({value})") };
    let low =
        if shift == 0 { format!("w[{word}] |= {value};\n") } else { format!("w[{word}] |= {value} << {shift};\n") };
    match shift + 8 * n > 64 {
        true => low + &format!("w[{}] |= {value} >> {};\n", word + 1, 64 - shift),
        false => low,
    }
}

/// An expression for the n bytes at a place of words.
fn take(at: usize, n: usize) -> String {
    let (word, shift) = (at / 8, 8 * (at % 8));
    let mut text = if shift == 0 { format!("w[{word}]") } else { format!("w[{word}] >> {shift}") };
    if shift + 8 * n > 64 {
        text = format!("({text} | w[{}] << {})", word + 1, 64 - shift)
    }
    match n {
        8 => format!("({text})"),
        n => format!("(({text}) & UINT64_C({:#x}))", mask(n)),
    }
}

#[derive(Clone, Copy)]
pub(super) enum Leaf {
    Int,
    /// A number of more than 64 bits.
    Wide,
    /// With a sign, which the bytes have at their upper end.
    Signed,
    Address,
    Port,
    /// Their length in four bytes, and room for as many as there may be.
    Bytes(u64),
}

impl<'m> BodyGen<'_, 'm> {
    fn xdp_map(&self, t: TableId) -> (String, &'m Table) {
        (self.g.xdp_of(t).map, &self.g.m.tables[t.index()])
    }

    /// Opens a block with the packed key `k_`.
    pub(super) fn xdp_key(&mut self, t: TableId, key: &Expr) {
        let (map, table) = self.xdp_map(t);
        let (codec, words) = (self.g.xdp_codec(table.key), canonical_size(self.g.m, table.key).div_ceil(8));
        let text = self.expr(key);
        self.join_of_branches(&[]);
        if self.g.xdp_of(t).wide {
            let at = self.g.xdp_wide_room(words);
            let c = self.g.cty(table.key);
            line!(self, "{{ const {c} key_ = {text};");
            self.check(true);
            line!(self, "struct {map}_key *k_ = (struct {map}_key *)(x->scratch->wide + {at});");
            let zero = self.xdp_key_zeros(table.key, words);
            line!(self, "{zero}pack_{codec}(x, k_->w, key_);");
            return;
        }
        line!(
            self,
            "{{ struct {map}_key k_ = {{0}};\npack_{codec}(x, (uint64_t *)&k_, {text});\nWL_FORGET_FAR(WL_FORGET(k_.w, {words}));"
        );
        self.check(key.may_fault());
    }

    /// Behind a search the verifier does not know whether an entry was found. Nor does it know its
    /// value, which else would tell the ways apart.
    pub(super) fn xdp_found(&self, dst: LocalId) -> String {
        if self.is_far(dst) {
            return String::new();
        }
        let (place, mut value) = (self.name(dst), String::new());
        if let (Ty::Option(inner), 0) = (self.g.m.ty(self.locals[dst.index()].ty), self.xdp.depth) {
            self.forget_at(*inner, &format!("{place}.v"), &mut value)
        }
        let value = if value.is_empty() {
            value
        } else {
            format!("\nWL_FORGET_FAR({});", value.trim_end().trim_end_matches(';'))
        };
        format!("WL_FORGET_FLAG({place}.has);{value}")
    }

    /// A lock that is not to be had is a fault.
    pub(super) fn xdp_lockless(&mut self, failed: &str) {
        let leave = self.leave_fault();
        line!(self, "if (WL_UNLIKELY({failed})) {{ wl_fail(x, WL_F_OVERLOAD, 0); {leave} }}");
    }

    pub(super) fn xdp_temp(&mut self) -> u32 {
        self.xdp.temps += 1;
        self.xdp.temps
    }

    pub(super) fn xdp_table(&mut self, s: &'m StmtKind) {
        let Some(stmt) = s.table_stmt() else { return };
        let t = stmt.table();
        let x = self.g.xdp_of(t);
        match x.kind {
            TableKind::Exact => self.xdp_exact(t, stmt),
            TableKind::Array => self.xdp_array(&x, s),
            TableKind::Lpm => self.xdp_prefix(&x, s),
            TableKind::Wildcard => self.xdp_wildcard(&x, s),
            TableKind::Ring => self.xdp_ring(&x, s),
            TableKind::Bloom | TableKind::CountMin => self.xdp_sketch(&x, s),
            TableKind::HyperLogLog => self.xdp_estimate(&x, s),
        }
    }

    fn xdp_exact(&mut self, t: TableId, s: TableStmt<'m>) {
        if self.g.xdp_of(t).wide {
            return self.xdp_wide(t, s);
        }
        let (map, table) = self.xdp_map(t);
        let value = self.g.xdp_codec(table.value);
        let words = canonical_size(self.g.m, table.value).div_ceil(8);
        match s {
            TableStmt::Get { key, dst, .. } => {
                self.xdp_key(t, key);
                let (found, dst) = (self.xdp_found(*dst), self.name(*dst));
                line!(self, "uint64_t v_[{}] = {{0}};\nconst int f_ = {map}_get(x, &k_, v_);", words.max(1));
                self.xdp_lockless("f_ == 3");
                line!(self, "{dst}.has = f_ == 1;\nif ({dst}.has) {dst}.v = unpack_{value}(v_, 0); }}\n{found}");
            }
            TableStmt::Put { key, value: new, place, .. } => {
                let (text, c) = (self.expr(new), self.g.cty(table.value));
                line!(self, "{{ const {c} new_ = {text};");
                self.check(new.may_fault());
                self.xdp_key(t, key);
                self.xdp_do(t, "WL_PUT", Some((&value, "new_")));
                let leave = self.leave_fault();
                line!(self, "if (WL_UNLIKELY(f_ == 2)) {{ wl_fail(x, WL_F_FULL, {}); {leave} }} }} }}", place.0);
            }
            TableStmt::Remove { key, dst, .. } => {
                self.xdp_key(t, key);
                self.xdp_do(t, "WL_REMOVE", None);
                let set = dst.map(|d| format!("{0} = f_ == 1;\n}}\nWL_FORGET_FLAG({0});", self.name(d)));
                line!(self, "{}", set.unwrap_or("}".into()));
            }
            TableStmt::Update { key, entry, body, place, .. } => {
                let (zero, at) = (self.g.zero(table.value), format!("held{}", self.xdp_temp()));
                self.decls.push_str(&format!("wl_held {at} = {{0}};\n"));
                self.xdp_key(t, key);
                self.xdp_lockless(&format!("!{map}_lock(x, &k_, &{at})"));
                let name = self.name(*entry);
                line!(self, "bool far_ = false;\nstruct {map}_slot *s_ = {map}_find(x, &k_, &{at}, &far_);");
                line!(self, "if (s_) {name} = unpack_{value}(s_->value, 0); else {name} = {zero};");
                if let Some(text) = self.forget(*entry) {
                    line!(self, "WL_FORGET_FAR({text});")
                }
                self.locked.push(at.clone());
                self.block(body);
                self.locked.pop();
                line!(self, "uint64_t v_[{}] = {{0}};\npack_{value}(x, v_, {name});\nbool done_ = true;", words.max(1));
                let now = self.xdp_now(t);
                line!(
                    self,
                    "if (s_) {{\nWL_COPY({words}, s_->value, v_);\ns_->used = {map}_stamp({now});\n}} else done_ = {map}_add(x, &k_, v_, &{at});\nwl_table_unlock({at});"
                );
                let leave = self.leave_fault();
                line!(self, "if (WL_UNLIKELY(!done_)) {{ wl_fail(x, WL_F_FULL, {}); {leave} }} }}", place.0);
            }
            // `placement` keeps handlers with these off the hook.
            TableStmt::Len { .. }
            | TableStmt::Next { .. }
            | TableStmt::Insert { .. }
            | TableStmt::Delete { .. }
            | TableStmt::Push { .. }
            | TableStmt::Pop { .. } => {}
        }
    }

    /// The time of a use, where a table keeps it.
    pub(super) fn xdp_now(&self, t: TableId) -> &'static str {
        match self.g.xdp_of(t).stamped {
            true => "x->core->now",
            false => "0",
        }
    }

    /// Does one thing with the entry of `k_`: `f_` is the result. `value`: its codec, and what is
    /// put.
    fn xdp_do(&mut self, t: TableId, what: &str, value: Option<(&str, &str)>) {
        let (map, now) = (self.xdp_map(t).0, self.xdp_now(t));
        line!(self, "struct {map}_copy v_ = {{0}};");
        if let Some((codec, new)) = value {
            line!(self, "pack_{codec}(x, v_.v, {new});");
        }
        line!(self, "const int f_ = {map}_do({what}, &k_, &v_, {now});");
        self.xdp_lockless("f_ == 3");
    }
}
