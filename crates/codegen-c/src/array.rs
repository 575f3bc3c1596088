//! Arrays: an entry for each number below the capacity, zero at first, in each core's memory or in
//! shared memory.
//!
//! Locks guard shared entries (lock i modulo their number guards entry i). A number or a bool is
//! read without a lock.

use crate::body::BodyGen;
use crate::gen::Gen;
use crate::names;
use crate::parser::line;
use wireloom_ir::*;

fn is_shared(m: &Module, t: &Table) -> bool {
    m.sharing(t) == TableSharing::One
}

impl Gen<'_> {
    /// Members of the per-core state, or of the state that all cores share.
    fn arrays(&mut self, shared: bool) -> String {
        let m = self.m;
        let mut text = String::new();
        for (i, t) in
            m.tables.iter().enumerate().filter(|(_, t)| t.kind == TableKind::Array && is_shared(m, t) == shared)
        {
            let (n, value, cap) = (names::table(m, TableId(i as u32)), self.stored(t.value), t.capacity);
            text.push_str(&match shared {
                true => {
                    format!("struct {{\n_Alignas(64) wl_stripe stripe[{}];\n{value} slot[{cap}];\n}} {n};\n", t.locks())
                }
                false => format!("{value} {n}[{cap}];\n"),
            });
        }
        text
    }

    pub fn array_members(&mut self) -> String {
        self.arrays(false)
    }

    pub fn shared_arrays(&mut self) -> String {
        self.arrays(true)
    }
}

/// Where an array's places lie, and how they are guarded.
struct Places {
    slots: String,
    stripes: Option<String>,
    value: TyId,
    locks: u64,
    whole: bool,
}

impl Places {
    fn at(&self, i: &str) -> String {
        format!("{}[{i}]", self.slots)
    }

    /// Locks place `i`, and sets `stripe` to the stripe to unlock; no lock if the core is alone
    /// with it.
    fn lock(&self, i: &str, stripe: &str) -> String {
        self.stripes.as_ref().map_or(String::new(), |s| {
            format!("{stripe} = &{s}[{i} & {}];\nwl_lock(&{stripe}->lock);\n", self.locks - 1)
        })
    }

    fn unlock(&self, stripe: &str) -> String {
        self.stripes.as_ref().map_or(String::new(), |_| format!("wl_table_unlock({stripe});\n"))
    }

    /// Does something with place `i` under its lock, if there is one.
    fn guarded(&self, i: &str, done: &str) -> String {
        let stripe = if self.stripes.is_some() { "wl_stripe *s_;\n" } else { "" };
        format!("{stripe}{}{done}{}", self.lock(i, "s_"), self.unlock("s_"))
    }

    fn store(&self, g: &mut Gen, i: &str, v: &str) -> String {
        let at = self.at(i);
        if self.stripes.is_some() && self.whole {
            format!("__atomic_store_n(&{at}, {v}, __ATOMIC_RELAXED);")
        } else {
            g.store(self.value, &at, v)
        }
    }

    /// Sets `dst` to place `i`, which is there. Its bytes are copied: the place may be filled anew
    /// before they are used.
    fn read(&self, g: &mut Gen, i: &str, dst: &str) -> String {
        let at = self.at(i);
        if self.stripes.is_some() && self.whole {
            return format!("{dst} = __atomic_load_n(&{at}, __ATOMIC_RELAXED);\n");
        }
        self.guarded(i, &self.copy(g, i, dst))
    }

    fn copy(&self, g: &mut Gen, i: &str, dst: &str) -> String {
        let load = g.load(self.value, &self.at(i));
        if layout::has_bytes(g.m, self.value) {
            format!("{dst} = {}({load}, x);\n", g.copier(self.value))
        } else {
            format!("{dst} = {load};\n")
        }
    }
}

/// An update of one entry, whose value is in the local `entry` meanwhile.
struct EntryUpdate<'a> {
    key: &'a Expr,
    entry: LocalId,
    /// Entries of the array: another index is a fault.
    cap: u64,
    place: PlaceId,
}

impl<'m> BodyGen<'_, 'm> {
    fn places(&mut self, id: TableId) -> Places {
        let m = self.g.m;
        let (t, n) = (&m.tables[id.index()], names::table(m, id));
        let shared = is_shared(m, t);
        let whole = matches!(
            self.g.cty(t.value).as_str(),
            "bool" | "uint8_t" | "uint16_t" | "uint32_t" | "uint64_t" | "int8_t" | "int16_t" | "int32_t" | "int64_t"
        );
        let slots = if shared { format!("wl_shared(x)->{n}.slot") } else { format!("wl_state(x)->{n}") };
        Places {
            slots,
            stripes: shared.then(|| format!("wl_shared(x)->{n}.stripe")),
            value: t.value,
            locks: t.locks(),
            whole,
        }
    }

    pub fn array(&mut self, id: TableId, s: TableStmt<'m>) {
        let t = &self.g.m.tables[id.index()];
        let (cap, places) = (t.capacity, self.places(id));
        let bytes = layout::has_bytes(self.g.m, t.value);
        match s {
            TableStmt::Get { key, dst, .. } => {
                let (text, dst) = (self.expr(key), self.name(*dst));
                line!(self, "{{ uint64_t i_ = {text};");
                self.check(key.may_fault());
                let read = places.read(self.g, "i_", &format!("{dst}.v"));
                line!(self, "{dst}.has = i_ < {cap};\nif ({dst}.has) {{ {read}}}\n}}");
                self.check(bytes);
            }
            TableStmt::Put { key, value: v, place, .. } => {
                let (c, text, val) = (self.g.cty(t.value), self.expr(key), self.expr(v));
                line!(self, "{{ uint64_t i_ = {text};\n{c} val_ = {val};");
                self.check(key.may_fault() || v.may_fault());
                let (leave, store) = (self.leave_fault(), places.store(self.g, "i_", "val_"));
                line!(self, "if (WL_UNLIKELY(i_ >= {cap})) {{ wl_fail(x, WL_F_INDEX, {}); {leave} }}", place.0);
                line!(self, "{}}}", places.guarded("i_", &format!("{store}\n")));
            }
            TableStmt::Update { key, entry, body, place, .. } => {
                let at = EntryUpdate { key, entry: *entry, cap, place: *place };
                self.update_place(&places, at, body)
            }
            TableStmt::Remove { key, dst, .. } => {
                let (text, at) = (self.expr(key), places.at("i_"));
                let set = dst.map(|d| format!("{} = i_ < {cap};\n", self.name(d))).unwrap_or_default();
                line!(self, "{{ uint64_t i_ = {text};");
                self.check(key.may_fault());
                line!(
                    self,
                    "{set}if (i_ < {cap}) {{ {}}}\n}}",
                    places.guarded("i_", &format!("memset(&{at}, 0, sizeof {at});\n"))
                );
            }
            TableStmt::Len { dst, .. } => {
                let dst = self.name(*dst);
                line!(self, "{dst} = {cap};")
            }
            TableStmt::Next { cursor, key, value: v, more, .. } => {
                let c = self.g.cty(t.key);
                let (cursor, key, v, more) = (self.name(*cursor), self.name(*key), self.name(*v), self.name(*more));
                let read = places.read(self.g, "i_", &v);
                line!(self, "{more} = {cursor} < {cap};\nif ({more}) {{ uint64_t i_ = {cursor}++; {key} = ({c})i_; {read}}} else {cursor} = UINT64_MAX;");
                self.check(bytes);
            }
            // Such tables have no other entries: `lang` refuses these.
            TableStmt::Insert { .. } | TableStmt::Delete { .. } | TableStmt::Push { .. } | TableStmt::Pop { .. } => {}
        }
    }

    /// The body, which uses no tables, runs under the place's lock, if there is one.
    fn update_place(&mut self, places: &Places, update: EntryUpdate, body: &'m Block) {
        let EntryUpdate { key, entry, cap, place } = update;
        let (text, name) = (self.expr(key), self.name(entry));
        let i = self.temp("uint64_t");
        line!(self, "{i} = {text};");
        self.check(key.may_fault());
        let leave = self.leave_fault();
        line!(self, "if (WL_UNLIKELY({i} >= {cap})) {{ wl_fail(x, WL_F_INDEX, {}); {leave} }}", place.0);
        let lock = places.stripes.is_some().then(|| self.temp("wl_stripe *"));
        if let Some(s) = &lock {
            let text = places.lock(&i, s);
            line!(self, "{text}");
            self.locked.push(s.clone());
        }
        let copy = places.copy(self.g, &i, &name);
        line!(self, "{copy}");
        self.check(layout::has_bytes(self.g.m, places.value));
        self.block(body);
        let store = places.store(self.g, &i, &name);
        line!(self, "{store}");
        if let Some(s) = lock {
            self.locked.pop();
            let text = places.unlock(&s);
            line!(self, "{text}");
        }
    }
}
