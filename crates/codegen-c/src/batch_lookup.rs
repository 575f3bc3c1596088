//! Handlers of frames over whole batches.
//!
//! In: a handler with the plan of a batch lookup ([`wireloom_ir::plans::BatchLookup`]): its first
//! uses of tables have keys that depend on the frame alone. Out: two loops over a batch. The first
//! parses all frames, packs and hashes their keys, and prefetches the entries of the tables. The
//! second runs the handler for each frame. Between the loops, only the header fields that the
//! handler still needs are kept.
//!
//! Tables of masks that no frame changes are looked up between the loops, for all frames at once
//! (wl_tuple_space_find_each). The same happens where the lookup follows a miss in an exact table.

use crate::frame_counts::{self, destination};
use crate::gen::Gen;
use crate::names;
use crate::scope::Scope;
use crate::vectorize::{VectorHandler, VectorKeys};
use std::collections::BTreeSet;
use wireloom_ir::passes::batch_lookup::is_steady;
use wireloom_ir::plans::{HeaderReuse, HoistedState, KeySite, TableLookup};
use wireloom_ir::*;

/// The lookups that are made before a handler runs: the plan of the IR
/// ([`wireloom_ir::plans::BatchLookup`]), beside the statements that it is about.
pub(crate) struct BatchPlan<'m> {
    pub exact: Option<KeySite<'m>>,
    pub masked: Option<KeySite<'m>>,
    /// The keys of the exact table are packed in lanes: they are looked up for the whole batch
    /// before the first frame is handled.
    pub seen: bool,
    /// Locals of which nothing is made but these keys.
    pub unused: BTreeSet<LocalId>,
    reuse: &'m HeaderReuse,
}

/// A key where a condition holds, or does not.
fn given(key: &Expr, cond: &Expr, holds: bool) -> Expr {
    let mut key = key.clone();
    walk::expr_mut(&mut key, &mut |e| {
        if let ExprKind::If(c, yes, no) = &*e.kind {
            if c == cond {
                *e = if holds { yes.clone() } else { no.clone() }
            }
        }
    });
    key
}

/// Values that the handler may have changed go back behind it: all else is the same for the batch.
pub(crate) fn hoisted_back(kept: &HoistedState) -> String {
    let counters = kept.counters.iter().map(|c| format!("keep->c{0} = kept.c{0};\n", c.0));
    counters
        .chain(kept.lookups.iter().map(|t| format!("keep->asked_{0} = kept.asked_{0};\n", t.0)))
        .chain(kept.output.map(|_| frame_counts::BACK.into()))
        .collect()
}

/// The numbers of optional conditions.
fn optional(kept: &HoistedState) -> impl Iterator<Item = usize> + '_ {
    kept.conditions.iter().enumerate().filter(|(_, c)| c.optional).map(|(n, _)| n)
}

/// Which frames have a copy of the handler.
fn specialized(kept: &HoistedState) -> String {
    let whole: Vec<_> = optional(kept).map(|n| format!("keep.when_{n}")).collect();
    let common = if whole.is_empty() { "same".into() } else { format!("{} ? 0 : same", whole.join(" || ")) };
    if_lanes(format!("const uint64_t common = {common}; /* have a copy of the handler */\n"))
}

impl<'m> Gen<'m> {
    /// The lookups of a handler's batch. None where its hits and misses are not hoisted.
    pub fn batched(&self, h: &'m Handler) -> Option<BatchPlan<'m>> {
        let plan = h.plan.batch.as_ref()?;
        let site = |l: &'m Option<TableLookup>| l.as_ref().and_then(|l| KeySite::of(l, &h.body));
        let (exact, masked) = (site(&plan.exact), site(&plan.masked));
        if exact.iter().chain(&masked).any(|u| !h.plan.hoisted.lookups.contains(&u.table)) {
            return None;
        }
        let unused = plan.unused.iter().copied().collect();
        // Such a lookup counts as a use before the handler comes to it.
        let seen = plan.sure && h.plan.vector.as_ref().is_some_and(|v| v.run.is_none());
        Some(BatchPlan { exact, masked, seen, unused, reuse: &plan.reuse })
    }

    /// The structure in which a handler's frames wait for it, if a key is known ahead; answers its
    /// name.
    pub fn batch_entry_type(&mut self, i: usize, a: &BatchPlan) -> String {
        let name = format!("wl_batched_{i}");
        let exact = a.exact.as_ref().map_or(String::new(), |u| format!("uint64_t k[{}], h; /* the key, and its hash */\nunsigned part; /* the array of the table that it belongs to */\n", self.words(&self.m.tables[u.table.index()])));
        let slot = if a.seen {
            "uint8_t *slot; /* where the table has it, if that is known: it has been used then */\n"
        } else {
            ""
        };
        let masked = if a.masked.is_some() { "uint32_t entry; /* of a table of masks */\n" } else { "" };
        let kept: String = match a.reuse {
            HeaderReuse::Parse => String::new(),
            HeaderReuse::Places(list) => {
                format!("uint64_t has;\n{}", list.iter().map(|n| format!("uint16_t at_{n};\n")).collect::<String>())
            }
        };
        self.code.push_str(&format!("/* A frame that waits: what is known of its tables, and what is needed of its headers. */\ntypedef struct {name} {{\n{exact}{slot}{masked}{kept}}} {name};\n\n"));
        name
    }

    /// The structure of what is kept, its value before a batch, and what becomes of it afterwards.
    pub fn kept_type(&self, i: usize, kept: &HoistedState) -> String {
        let counters: String = kept.counters.iter().map(|c| format!("uint64_t c{};\n", c.0)).collect();
        let tables: String = kept
            .lookups
            .iter()
            .map(|t| {
                format!(
                    "uint64_t asked_{}; /* lookups in {}: hits, and misses from bit 32 on */\n",
                    t.0,
                    names::comment(&self.m.tables[t.index()].name)
                )
            })
            .collect();
        let conditions: String = (0..kept.conditions.len()).map(|n| format!("bool when_{n};\n")).collect();
        let filled = if kept.filled.is_some() { "bool filled; /* the exact table has entries */\n" } else { "" };
        let left = kept.output.map_or("", |_| frame_counts::FIELDS);
        format!("/* HoistedState over a batch. */\ntypedef struct wl_kept_{i} {{\n{counters}{tables}{left}{conditions}{filled}}} wl_kept_{i};\n\n")
    }

    fn kept_begin(&mut self, i: usize, kept: &HoistedState) -> String {
        if kept.is_empty() {
            return String::new();
        }
        let mut first: Vec<String> = kept
            .conditions
            .iter()
            .enumerate()
            .map(|(n, c)| format!(".when_{n} = {}", self.expr(&Scope::default(), &c.cond)))
            .collect();
        first.extend(
            kept.filled.map(|t| format!(".filled = wl_core_table_any(&wl_state(x)->{})", names::table(self.m, t))),
        );
        format!("wl_kept_{i} keep = {{{}}};\n", if first.is_empty() { "0".into() } else { first.join(", ") })
    }

    fn kept_end(&self, kept: &HoistedState) -> String {
        let tables = kept.lookups.iter().map(|t| {
            let (stats, t) = (format!("wl_state(x)->{}.stats", names::table(self.m, *t)), t.0);
            format!("{stats}.hits += (uint32_t)keep.asked_{t};\n{stats}.misses += keep.asked_{t} >> 32;\n")
        });
        let counters = kept.counters.iter().map(|c| format!("wl_state(x)->counter[{0}] += keep.c{0};\n", c.0));
        counters.chain(tables).chain(kept.output.map(|_| frame_counts::ADD.into())).collect()
    }

    /// Runs handler i over a batch.
    pub fn batch(&mut self, i: usize, h: &'m Handler, unit: UnitId) {
        let unit_name = names::unit(self.m, unit);
        // Nothing of the frame has crossed.
        let unseen = h.on.frame_port().and_then(|p| self.m.carries(p)).is_some_and(|c| c.part == FramePart::Nothing);
        let (batched, kept) = (self.batched(h), &h.plan.hoisted);
        let over = BatchEmitter {
            i,
            unit,
            on: format!("on_{i}_{}", names::ident(&h.name)),
            open: if unseen { "wl_view_unseen".into() } else { format!("{unit_name}_parse") },
            kept,
            kept_begin: self.kept_begin(i, kept),
            kept_end: self.kept_end(kept),
            common: (!unseen && self.frames.common.contains(&unit.0)).then(|| format!("{unit_name}_fast")),
            most: (!unseen && self.frames.most.contains(&unit.0)).then(|| format!("{unit_name}_most")),
            serve: self.serve(),
            scratch: self.frames.scratch.contains(&i),
            headers: self.mark("headers and keys"),
            own: self.mark(&format!("on {}", h.name)),
        };
        let fx = "wl_fx fx = {.core = core, .tmp = ((app_state *)core->state)->scratch, .tmp_max = sizeof(((app_state *)core->state)->scratch)}, *x = &fx;\n";
        let lanes = self.vector_handler(h, unit, batched.is_some());
        // Vectors count on their own.
        let (none, all) = kept.output.filter(|_| lanes.is_none()).map_or((String::new(), ""), frame_counts::around);
        let (begin, end) = (self.flow_tend() + &none, self.at_batch_end() + all + &self.mark("engine"));
        let body = match batched {
            None => self.one_pass(h, &over, lanes.as_ref()),
            Some(a) => {
                let keys = self.vector_keys(h, unit, a.seen);
                self.two_passes(h, &a, &over, lanes.as_ref(), keys.as_ref())
            }
        };
        self.code.push_str(&format!(
            "/* {} over a batch. */\nstatic void batch_{i}(wl_core *core, wl_frame *f, uint32_t n) {{\n{fx}{begin}{}{body}{}{end}}}\n\n",
            names::comment(&h.name), over.kept_begin, over.kept_end
        ));
    }

    /// Frames that the handler has taken from queues follow it at once; the batch at hand is not
    /// used by then.
    pub fn serve(&self) -> &'static str {
        if self.m.has_queues() {
            "packets.serve(x->core);\n"
        } else {
            ""
        }
    }

    fn one_pass(&mut self, h: &Handler, o: &BatchEmitter, lanes: Option<&VectorHandler>) -> String {
        let (open, run) = (&o.open, o.run("&v", ""));
        // A small handler has a copy for each, so that what is known of a common frame simplifies
        // it.
        let copied = o.common.is_some() && h.plan.specialized;
        if copied {
            self.code.push_str(&format!(
                "/* A frame of another shape. */\nstatic __attribute__((noinline)) void other_{}(wl_fx *x, wl_frame *f) {{\nwl_view v;\n{}{}{run}{}}}\n\n",
                o.i, o.kept_begin, o.open_other("x", "&v"), o.kept_end
            ));
        }
        let found = match &o.common {
            None => format!("{open}(x, &v, &f[k]);\n"),
            Some(_) if copied => {
                format!("if (WL_UNLIKELY(!{}(&v, &f[k]))) {{ {OWN}other_{}(&own, &f[k]); continue; }}\n", o.most(), o.i)
            }
            Some(common) => format!("if (WL_UNLIKELY(!{common}(&v, &f[k]))) {open}(x, &v, &f[k]);\n"),
        };
        let each = format!("{}wl_view v;\n{found}{run}}}\n", o.headers);
        let Some(l) = lanes else { return format!("for (uint32_t k = 0; k < n; k++) {{\n{each}") };
        let (group, i) = (group(o, "0", l.plan.least, &format!("{}{}", l.run, o.own)), o.i);
        format!(
            "{}while (n) {{\nconst uint32_t m = n < 16 ? n : 16;\nuint32_t others = UINT32_MAX >> (32 - m); /* frames of other shapes than most have */\n#ifdef WL_LANES\n\
             if (WL_LIKELY(m == WL_LANES && wl_lanes_try(&rest))) {{\n{group}others ^= ok;\nwl_lanes_had(&rest, ok);\n}}\n#endif\n{}\
             for (; others; others &= others - 1) {{\nconst uint32_t k = (uint32_t)__builtin_ctz(others);\n{each}f += m;\nn -= m;\n}}\n{}",
            if_lanes(rest_begin(i) + &l.begin()), l.all_left("others"), if_lanes(rest_end(i) + &l.end())
        )
    }

    /// The key of a use: what `pack` makes of it, for frames with a header and for those without.
    fn packed_key(&mut self, u: &KeySite, scope: &Scope, pack: &dyn Fn(String) -> String) -> String {
        match u.split {
            None => pack(self.expr(scope, u.key)),
            Some(cond) => format!(
                "if ({}) {}else {}",
                self.expr(scope, cond),
                pack(self.expr(scope, &given(u.key, cond, true))),
                pack(self.expr(scope, &given(u.key, cond, false)))
            ),
        }
    }

    fn guard(&mut self, u: &KeySite, scope: &Scope) -> String {
        let all: Vec<_> = u.guard.iter().map(|c| self.expr(scope, c)).collect();
        if all.is_empty() {
            "true".into()
        } else {
            all.join(" && ")
        }
    }

    /// Packs the key of an exact table and fetches its place. With a table that is the same for the
    /// whole batch, if it has entries.
    fn exact_ready(&mut self, u: &KeySite, scope: &Scope, seen: bool) -> String {
        let (name, guard, now) =
            (names::table(self.m, u.table), self.guard(u, scope), self.tick(&self.m.tables[u.table.index()]));
        let pack = self.flow_packer(self.m.tables[u.table.index()].key);
        let key = self.packed_key(u, scope, &|e| format!("a->part = {pack}(a->k, {e});\n"));
        let ready = format!("{key}a->h = wl_core_table_hash_of(table, {name}_shape, a->part, a->k);\nwl_core_table_prefetch(table, {name}_shape, a->part, a->k, a->h, {now});\n");
        let ready = if is_steady(self.m, u.table) { format!("if (any) {{\n{ready}}}\n") } else { ready };
        let unknown = if seen { "a->slot = NULL;\n" } else { "" };
        format!("{unknown}if ({guard}) {{\n{ready}}}\n")
    }

    /// Packs the key of a table of masks into the columns of its batch.
    fn masked_ready(&mut self, u: &KeySite, scope: &Scope) -> String {
        let t = &self.m.tables[u.table.index()];
        let (guard, pack, words) = (self.guard(u, scope), self.packer(t.key), self.words(t));
        let key = self.packed_key(u, scope, &|e| format!("{pack}(w_, {e});\n"));
        let store: String = (0..self.words32(t))
            .map(|w| {
                format!(
                    "column[{w}][k] = (uint32_t){};\n",
                    if w % 2 == 0 { format!("w_[{}]", w / 2) } else { format!("(w_[{}] >> 32)", w / 2) }
                )
            })
            .collect();
        format!("if ({guard}) {{\nuint64_t w_[{words}];\n{key}{store}who |= UINT64_C(1) << k;\n}}\n")
    }

    /// Looks the keys of a batch up, of frames that an exact table before has nothing for.
    fn masked_seek(&mut self, u: &KeySite, exact: Option<&KeySite>, lanes: Option<&VectorHandler>) -> String {
        let t = &self.m.tables[u.table.index()];
        let (name, mark) = (names::table(self.m, u.table), self.mark(&format!("table {}", t.name)));
        let missed = exact.map_or(String::new(), |e| {
            let (table, now) = (names::table(self.m, e.table), self.tick(&self.m.tables[e.table.index()]));
            format!(
                "if (any) for (uint64_t left = who; left; left &= left - 1) {{\nconst unsigned k = (unsigned)__builtin_ctzll(left);\n\
                 if (wl_core_table_has(table, {table}_shape, batched[k].part, batched[k].k, batched[k].h, {now})) who &= ~(UINT64_C(1) << k);\n}}\n"
            )
        });
        let even = lanes.map_or(0, |l| l.plan.even().iter().fold(0u64, |even, (w, _)| even | 1 << w));
        let (known, even) = match even {
            0 => (format!("wl_state(x)->{name}_even = 0;\n"), "0"),
            // Frames of other shapes bring all words.
            _ => (
                format!("if (who & others) wl_state(x)->{name}_even = 0;\nconst uint64_t even = wl_state(x)->{name}_even ? UINT64_C({even:#x}) : 0; /* words that all keys have in common */\n"), "even",
            ),
        };
        format!(
            "/* All lookups at once. */\n{mark}uint32_t entry[WL_TUPLE_SPACE_KEYS];\nmemset(entry, 255, sizeof entry);\n{known}{missed}\
             if (who) wl_tuple_space_find_each(&wl_state(x)->{name}, column[0], who, entry, {}, {even});\n", self.words32(t)
        )
    }

    fn two_passes(
        &mut self,
        h: &'m Handler,
        a: &BatchPlan,
        o: &BatchEmitter,
        lanes: Option<&VectorHandler>,
        keys: Option<&VectorKeys>,
    ) -> String {
        let (i, kept) = (o.i, o.kept);
        let scope = Scope { locals: vec![("v".into(), h.body.locals[0].ty)], ..Scope::default() };
        let (open, view, handle) = (&o.open, "wl_view view, *v = &view;\n", o.run("v", ", a"));
        let common = match a.reuse {
            HeaderReuse::Places(_) if keys.is_some() && h.plan.specialized => Some(specialized(kept)),
            HeaderReuse::Parse | HeaderReuse::Places(_) => None,
        };
        let one = keys.zip(a.exact.as_ref()).map(|(keys, u)| self.known_ahead(keys, u, i));
        let (keep, run) = match a.reuse {
            HeaderReuse::Parse => {
                let known = keys.and_then(|_| self.open_known(o.unit));
                (String::new(), view.to_string() + &self.open_again(o, known, one.as_deref(), &handle))
            }
            HeaderReuse::Places(list) => (
                format!(
                    "a->has = v->has;\n{}",
                    list.iter().map(|n| format!("a->at_{n} = v->at[{n}];\n")).collect::<String>()
                ),
                self.see_again(o, list, keys.zip(one.as_deref()), common.is_some().then_some(kept), &handle),
            ),
        };
        let exact = a.exact.as_ref().map_or(String::new(), |u| self.exact_ready(u, &scope, a.seen));
        let masked = a.masked.as_ref().map_or(String::new(), |u| self.masked_ready(u, &scope));
        let seek = a.masked.as_ref().map_or(String::new(), |u| self.masked_seek(u, a.exact.as_ref(), lanes));
        let ready = format!("{keep}{exact}{masked}");
        let mut tables = a.exact.as_ref().map_or(String::new(), |u| {
            let any = if is_steady(self.m, u.table) { "const bool any = wl_core_table_any(table);\n" } else { "" };
            format!("wl_core_table *const table = &wl_state(x)->{};\n{any}", names::table(self.m, u.table))
        });
        if let Some(u) = &a.masked {
            tables.push_str(&format!(
                "uint32_t (*const column)[WL_TUPLE_SPACE_KEYS] = wl_state(x)->{}_columns;\n",
                names::table(self.m, u.table)
            ))
        }
        // A bit for each frame that asks the table of masks.
        let (who, take, ret, answer) = if a.masked.is_some() {
            ("uint64_t who = 0;\n", "who |= ", "uint64_t", "return who;\n")
        } else {
            ("", "", "void", "")
        };
        // A fault of a frame that is parsed twice is counted the second time.
        let counted = match a.reuse {
            HeaderReuse::Parse => "NULL",
            HeaderReuse::Places(_) => "x",
        };
        let found = match &o.common {
            None => format!("{open}({counted}, v, &f[k]);\n"),
            Some(_) => {
                let (arg, pass) = if a.masked.is_some() { (", uint32_t k", ", k") } else { ("", "") };
                self.code.push_str(&format!(
                    "/* A frame of another shape. */\nstatic __attribute__((noinline)) {ret} batched_other_{i}(wl_fx *x, wl_batched_{i} *a, wl_frame *f{arg}) {{\n\
                     (void)a;\n{tables}{who}{view}{}{ready}{answer}}}\n\n", o.open_other(counted, "v")
                ));
                format!("if (WL_UNLIKELY(!{}(v, &f[k]))) {{ {OWN}{take}batched_other_{i}(&own, a, &f[k]{pass}); continue; }}\n", o.most())
            }
        };
        let entry = if a.masked.is_some() { "a->entry = entry[k];\n" } else { "" };
        let (first, second, each) = match lanes {
            None if keys.is_some() => (
                keys.zip(a.exact.as_ref()).map_or(String::new(), |(keys, u)| self.keys_first(keys, u, o)),
                common.unwrap_or_default(),
                "for (uint32_t k = 0; k < m; k++) {\n",
            ),
            None => (String::new(), String::new(), "for (uint32_t k = 0; k < m; k++) {\n"),
            Some(l) => {
                // A frame with an entry in an exact table is not looked up; lanes are for an empty
                // one.
                let empty = if a.exact.is_some() { "!any && " } else { "" };
                let first = group(o, "k", l.plan.least, &l.ready);
                let even =
                    a.masked.as_ref().map_or(String::new(), |u| l.even_columns(i, &names::table(self.m, u.table)));
                (
                    format!(
                        "uint64_t same = 0; /* frames of the shape that most have */\n#ifdef WL_LANES\n_Alignas(64) uint32_t length[64];\nif ({empty}wl_lanes_try(&rest)) {{\n{even}\
                         for (uint32_t k = 0; k + WL_LANES <= m; k += WL_LANES) {{\n{first}wl_lanes_store(length + k, lengths);\nsame |= (uint64_t)ok << k;\n}}\n\
                         wl_lanes_had(&rest, same);\n}}\n#endif\n{OTHERS}{}", l.all_left("others")
                    ),
                    format!(
                        "#ifdef WL_LANES\nfor (uint32_t k = 0; k + WL_LANES <= m; k += WL_LANES) {{\nwl_frame *const g = &f[k];\n\
                         const uint32_t ok = (uint32_t)(same >> k) & WL_LANES_ALL;\nif (!ok) continue;\nconst wl_lanes lengths = wl_lanes_load(length + k);\n{}{}}}\n#endif\n", o.own, l.run
                    ),
                    EACH_OTHER,
                )
            }
        };
        let first_each = if keys.is_some() { EACH_OTHER } else { each };
        let (begin, end) = match (lanes, keys) {
            (Some(l), _) => (if_lanes(rest_begin(i) + &l.begin()), if_lanes(rest_end(i) + &l.end())),
            (None, Some(_)) => (if_lanes(rest_begin(i)), if_lanes(rest_end(i))),
            (None, None) => (String::new(), String::new()),
        };
        format!(
            "{tables}{begin}wl_batched_{i} batched[64];\nwhile (n) {{\nconst uint32_t m = n < 64 ? n : 64;\n{who}\
             /* VectorKeys first, and their places fetched ahead. */\n{}{first}{first_each}wl_batched_{i} *a = &batched[k];\n(void)a;\n{view}{found}{ready}}}\n{seek}\
             {second}{each}wl_batched_{i} *a = &batched[k];\n{entry}{run}}}\nf += m;\nn -= m;\n}}\n{end}", o.headers
        )
    }

    /// Runs the handler for a frame of which it was kept where its headers begin. A small handler
    /// has a copy for those of the shape that most have, without what the app's parameters leave
    /// out. It is called for the others. `copied` says what these leave out; `None`: there is no
    /// copy.
    fn see_again(
        &mut self,
        o: &BatchEmitter,
        list: &[u32],
        keys: Option<(&VectorKeys, &str)>,
        copied: Option<&HoistedState>,
        handle: &str,
    ) -> String {
        let view = "wl_view view, *v = &view;\n";
        let again = format!(
            "wl_view_again(v, &f[k], a->has);\n{}",
            list.iter().map(|n| format!("v->at[{n}] = a->at_{n};\n")).collect::<String>()
        );
        let Some((keys, known)) = keys else { return format!("{view}{again}{handle}") };
        let i = o.i;
        let see = format!("{}wl_batched_{i} one = {known};\na = &one;\n", keys.see(list));
        let either = format!("{view}#ifdef WL_LANES\nif (WL_LIKELY(same >> k & 1)) {{\n{}*a = {known};\n}} else\n#endif\n{{\n{again}}}\n", keys.see(list));
        let Some(kept) = copied else { return either + handle };
        self.code.push_str(&format!(
            "/* The handler as a whole, for frames of any shape. */\nstatic __attribute__((noinline)) void other_{i}(wl_fx *x, wl_view *v, const wl_batched_{i} *a) {{\n\
             {}{handle}{}}}\n\n", o.kept_begin, o.kept_end
        ));
        let never: String = optional(kept).map(|n| format!("if (keep.when_{n}) __builtin_unreachable();\n")).collect();
        format!(
            "#ifdef WL_LANES\nif (WL_LIKELY(common >> k & 1)) {{\n{view}{see}{never}{handle}continue;\n}}\n#endif\n\
             {either}#ifdef WL_LANES\n{OWN}other_{i}(&own, v, a);\n#else\n{handle}#endif\n"
        )
    }

    /// The keys of frames of the shape that most have, sixteen at a time; their hashes, their
    /// places fetched, then looked at.
    fn keys_first(&mut self, keys: &VectorKeys, u: &KeySite, o: &BatchEmitter) -> String {
        let t = &self.m.tables[u.table.index()];
        let (name, tick, mark) = (names::table(self.m, u.table), self.tick(t), self.mark(&format!("table {}", t.name)));
        let either: String = keys.plan.last_headers().iter().map(|n| format!("uint64_t is_{n} = 0;\n")).collect();
        let group = group(o, "k", keys.plan.least, &keys.ready);
        let any = if is_steady(self.m, u.table) { "if (any) " } else { "" };
        let each = format!("{any}for (uint64_t left = asks; left; left &= left - 1) {{\nconst uint32_t k = (uint32_t)__builtin_ctzll(left);\nconst uint64_t key[] = {};\n", keys.key());
        let seek = format!(
            "if (WL_UNLIKELY(!places.any)) {{\nmemset(slot, 0, sizeof slot);\nasks = 0;\n}}\n/* All lookups, before a handler changes anything. */\n\
             {mark}const uint32_t now = {tick}, moves = table->moves;\n{each}slot[k] = wl_place_peek(places, {name}_shape[0], slot[k], key, now);\n}}\n"
        );
        // Places are fetched in a loop of its own. Between the groups' vectors, or while frames are
        // handled that came before, it takes longer.
        format!(
            "uint64_t same = 0; /* frames of the shape that most have */\n#ifdef WL_LANES\n{either}uint64_t asks = 0, words[{}][64] __attribute__((aligned(64))), hash[64];\n\
             if (wl_lanes_try(&rest)) {{\nfor (uint32_t k = 0; k + WL_LANES <= m; k += WL_LANES) {{\n{group}same |= (uint64_t)ok << k;\n}}\n\
             wl_lanes_had(&rest, same);\n}}\nuint8_t *slot[64]; /* where searches begin, then where they end */\nif (~asks) memset(slot, 0, sizeof slot);\n\
             const wl_places places = wl_core_table_places(table, 0, {name}_shape[0]);\n{each}\
             hash[k] = wl_core_table_hash_of(table, {name}_shape, 0, key);\nslot[k] = wl_place_of(places, {name}_shape[0], hash[k]);\nwl_slot_prefetch({name}_shape[0], slot[k], places.crowded);\n}}\n\
             {}#endif\n{OTHERS}",
            keys.plan.pairs(), if keys.seen { seek } else { String::new() }
        )
    }

    /// The lookup of a frame of the most common stack, whose key is short.
    fn known_ahead(&self, keys: &VectorKeys, u: &KeySite, i: usize) -> String {
        let name = names::table(self.m, u.table);
        let slot = if keys.seen {
            format!(", .slot = wl_core_table_still(table, {name}_shape[0], slot[k], moves, now)")
        } else {
            String::new()
        };
        format!("(wl_batched_{i}){{.k = {}, .h = hash[k]{slot}}}", keys.key())
    }

    /// Opens a frame for the second time and runs its handler: where all places are constants,
    /// opening costs less than keeping them. Frames of other shapes have a copy of the handler, and
    /// so have all others where most are `known`. Their truths tell which header is the
    /// last.
    /// `one`: what is known ahead of those.
    fn open_again(&mut self, o: &BatchEmitter, known: Option<Vec<u32>>, one: Option<&str>, handle: &str) -> String {
        let (i, open) = (o.i, &o.open);
        let noted = one.map_or(String::new(), |one| if_lanes(format!("if (same >> k & 1) *a = {one};\n")));
        let Some(common) = &o.common else { return format!("{noted}{}{open}(x, v, &f[k]);\n{handle}", o.headers) };
        let first = if known.is_some() { format!("if (WL_UNLIKELY(!{common}(v, f))) ") } else { String::new() };
        self.code.push_str(&format!(
            "/* The handler for frames of such shapes. */\nstatic __attribute__((noinline)) void other_{i}(wl_fx *x, const wl_batched_{i} *a, wl_frame *f) {{\n\
             wl_view view, *v = &view;\n{}{first}{open}(x, v, f);\n{handle}{}}}\n\n", o.kept_begin, o.kept_end
        ));
        let other = |test: &str| format!("if (WL_UNLIKELY(!{test})) {{ {OWN}other_{i}(&own, a, &f[k]); continue; }}\n");
        let again = other(&format!("{common}(v, &f[k])"));
        let found = match known.zip(one) {
            None => noted + &again,
            Some((told, one)) => {
                let told: String = told.iter().map(|n| format!(", is_{n} >> k & 1")).collect();
                format!("#ifdef WL_LANES\n{}{}_known(v, &f[k]{told});\nwl_batched_{i} one = {one};\na = &one;\n#else\n{again}#endif\n", other("(same >> k & 1)"), names::unit(self.m, o.unit))
            }
        };
        format!("{}{found}{handle}", o.headers)
    }
}

/// Functions that handle frames of other shapes get a copy of what a batch has. If they had its
/// address, compilers would load all of it again for each frame.
const OWN: &str = "wl_fx own = *x; ";

/// For each frame that is not of the shape that most have.
const EACH_OTHER: &str =
    "for (uint64_t left = others; left; left &= left - 1) {\nconst uint32_t k = (uint32_t)__builtin_ctzll(left);\n";

/// A handler that is run over batches. It has its number, the unit of its frames, the names of its
/// function and of those that open its frames, what it keeps meanwhile.
struct BatchEmitter<'a> {
    i: usize,
    unit: UnitId,
    on: String,
    open: String,
    common: Option<String>,
    most: Option<String>,
    kept: &'a HoistedState,
    kept_begin: String,
    kept_end: String,
    /// The code behind each run.
    serve: &'static str,
    /// It may fault or take scratch.
    scratch: bool,
    /// Marks: frames are opened; the handler runs.
    headers: String,
    own: String,
}

impl BatchEmitter<'_> {
    /// The function that opens a frame of the shape that most have.
    fn most(&self) -> &str {
        self.most.as_ref().or(self.common.as_ref()).map_or("", |s| s)
    }

    /// Opens a frame that is not of the shape most frames have.
    fn open_other(&self, x: &str, view: &str) -> String {
        match (&self.common, &self.most) {
            (Some(common), Some(_)) => format!("if (!{common}({view}, f)) {}({x}, {view}, f);\n", self.open),
            _ => format!("{}({x}, {view}, f);\n", self.open),
        }
    }

    /// Runs the handler for one frame.
    fn run(&self, view: &str, batched: &str) -> String {
        let counts = if !self.kept.is_empty() { ", &keep" } else { "" };
        let (own, on, serve) = (&self.own, &self.on, self.serve);
        match self.scratch {
            true => format!("{own}x->tmp_n = 0;\nif (WL_UNLIKELY({on}(x, {view}{batched}{counts}) == WL_T_FAULT)) {{ frame_fault(x->core, x->fault, x->place); x->fault = 0; }}\n{serve}"),
            false => format!("{own}(void){on}(x, {view}{batched}{counts});\n{serve}"),
        }
    }
}

/// Those that are not, of two passes.
const OTHERS: &str = "const uint64_t others = UINT64_MAX >> (64 - m) & ~same;\n";

/// Statements for sixteen frames from number `at` on, if all have so many bytes. They see `g` and
/// `lengths`, and set `ok` for those that are of the shape.
fn group(o: &BatchEmitter, at: &str, least: u32, body: &str) -> String {
    format!(
        "wl_frame *const g = &f[{at}];\nuint32_t ok = 0;\n{}const wl_lanes lengths = wl_lanes_lengths(g);\n\
         if (WL_LIKELY(wl_lanes_hold(lengths, {least}))) {{\n{body}}}\n",
        o.headers
    )
}

fn if_lanes(text: String) -> String {
    format!("#ifdef WL_LANES\n{text}#endif\n")
}

/// How long frames are not looked at sixteen at a time, kept in a register meanwhile.
fn rest_begin(i: usize) -> String {
    format!("uint8_t rest = wl_state(x)->rest[{i}];\n")
}
fn rest_end(i: usize) -> String {
    format!("wl_state(x)->rest[{i}] = rest;\n")
}

impl VectorKeys<'_> {
    /// The words of a frame's key.
    fn key(&self) -> String {
        format!("{{{}}}", (0..self.plan.pairs()).map(|w| format!("words[{w}][k]")).collect::<Vec<_>>().join(", "))
    }

    /// The view of a frame of the most common stack: all places are constants.
    fn see(&self, places: &[u32]) -> String {
        let either: String = self.plan.last_headers().iter().map(|n| format!(" | (is_{n} >> k & 1) << {n}")).collect();
        let at: String = places.iter().map(|n| format!("v->at[{n}] = {};\n", self.at.get(n).unwrap_or(&0))).collect();
        format!("wl_view_again(v, &f[k], UINT64_C({:#x}){either});\n{at}", self.has)
    }
}

impl VectorHandler<'_> {
    /// The sums that vectors hold.
    fn begin(&self) -> String {
        let left = if self.plan.output().is_some() {
            "wl_lanes_left left = {.bytes = wl_lanes_set(0)};\nuint64_t uncounted = 0; /* frames of other shapes may leave, too */\n"
        } else {
            ""
        };
        self.plan.sums().iter().map(|c| format!("wl_lanes sums_{} = wl_lanes_set(0);\n", c.0)).collect::<String>()
            + left
    }

    fn end(&self) -> String {
        let left = self
            .plan
            .output()
            .map_or(String::new(), |d| format!("if (!uncounted) wl_lanes_all_left(core, left, {});\n", destination(d)));
        self.plan.sums().iter().map(|c| format!("keep.c{0} += wl_lanes_total(sums_{0});\n", c.0)).collect::<String>()
            + &left
    }

    /// Takes note of frames that are not counted in lanes.
    fn all_left(&self, others: &str) -> String {
        if self.plan.output().is_some() {
            if_lanes(format!("uncounted |= {others};\n"))
        } else {
            String::new()
        }
    }

    /// Puts words that are the same for all frames into their columns, unless they are there.
    fn even_columns(&self, handler: usize, table: &str) -> String {
        let even = self.plan.even();
        if even.is_empty() {
            return String::new();
        }
        let fill: String =
            even.iter().map(|(w, v)| format!("wl_lanes_fill(column[{w}], WL_TUPLE_SPACE_KEYS, {v:#x}u);\n")).collect();
        let even = format!("wl_state(x)->{table}_even");
        format!("if (WL_UNLIKELY({even} != {0})) {{\n{fill}{even} = {0};\n}}\n", handler + 1)
    }
}
