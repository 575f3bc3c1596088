//! Caches of a service: `cached c[k] { … }` remembers the outcome of calls, `write c[k] { … }`
//! encloses those that change it.
//!
//! In: declarations and these blocks. Out: two tables for each cache, and statements about their
//! entries. So interpreter and C know nothing of caches.
//!
//! **The protocol.** A table of *leases* has a place for each of many groups of keys. It has a
//! version, the writes under way, and when the last of them began. A table of entries has values,
//! each with the version under which it was asked for and the time at which it ends.
//!
//! | step | |
//! |---|---|
//! | hit | the entry has the current version, no write is under way, its time is not over |
//! | miss | takes the version as its lease; while a write is under way there is none |
//! | fill | only if the lease is still the version, and no write is under way |
//! | write begins | the version counts up, a write more is under way, the entry goes |
//! | write ends | the version counts up, a write less is under way |
//!
//! `ways N` changes where entries lie (`cache_ways.rs`), and no step of this.
//!
//! An entry is never older than its lease, whatever happens between two of these steps. A hit looks
//! at the version after it has read the entry. Leases are never evicted. A write that ends without
//! its answer (a fault, a client that leaves) stays under way for `write_timeout`.
//! `tests/models/src/cache_model.rs` checks the protocol in all its interleavings, and these
//! statements against it. Where requests and answers are packets, `packet_caches.rs` joins them.
//! With `write_back` a table of entries that wait stands in front of all this (`write_back.rs`).

use super::declarations::{Cache, CallSite, Role, WayBack};
use super::scope::AppName;
use crate::body::Lower;
use crate::compiler::{Compiler, Reported, R, T_BOOL, T_U64};
use crate::ir_builder as build;
use crate::items::TableTy;
use crate::names::ModId;
use crate::ty::{Ty, T_U32, U32, U64};
use crate::val::Val;
use ir::{BinOp, Builtin as B, CounterId, Expr as X, ExprKind as K, LocalId, StmtKind, TableId, TableKind};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Block, Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

/// Keys share leases, of which there are at most so many.
const MOST_LEASES: u64 = 64 << 10;
/// How long a write may last (ns), by default.
const WRITE_TIMEOUT: u64 = 10_000_000_000;
/// Parts of a lease.
const VERSION: u32 = 0;
const WRITERS: u32 = 1;
const SINCE: u32 = 2;

/// A miss: the key and the number of its lease, when it began, and whether no write was under way.
#[derive(Clone, Copy)]
pub(super) struct Miss {
    pub key: LocalId,
    pub slot: LocalId,
    pub begun: LocalId,
    pub quiet: LocalId,
}

impl Compiler<'_> {
    pub fn cache(&mut self, module: ModId, c: &ast::Cache) -> R<AppName> {
        let (key, value) = (self.ty(module, &c.key), self.ty(module, &c.value));
        let (key, value) = (key?, value?);
        self.storable(module, &key, c.key.span)?;
        self.storable(module, &value, c.value.span)?;
        let lowered = self.lower_ty(&key);
        if ir::layout::bytes_in(&self.m, lowered) > 4096 {
            return Err(self.report(
                Diagnostic::error("E0703", c.key.span, "a cache's key is at most 4KiB long")
                    .hint("it is kept while the answer is awaited; use a hash of it"),
            ));
        }
        let mut entry_ty = Ty::Tuple(vec![U64, U64, value.clone()]);
        let lease_ty = Ty::Tuple(vec![U64, U64, U64]);
        let mut table = self.table_of(c, &key, &entry_ty);
        let mut cache = Cache {
            name: c.name.clone(),
            number: self.caches.len(),
            entries: TableId(0),
            leases: TableId(0),
            key: key.clone(),
            value: value.clone(),
            hits: CounterId(0),
            misses: CounterId(0),
            stale: CounterId(0),
            write_through: false,
            allocate_on_read: false,
            max_age: None,
            write_timeout: WRITE_TIMEOUT,
            expires: None,
            ways: None,
            exchanges: None,
            back: None,
        };
        self.options_once(c.options.iter().map(|(n, _)| n));
        for (name, e) in &c.options {
            self.cache_option(module, &mut cache, &mut table, (name, e.as_ref()))?;
        }
        if table.capacity == 0 {
            let d = Diagnostic::error("E0704", c.name.span, format!("`{}` has no capacity", c.name.name));
            return Err(self.report(d.label("for how many keys?").hint("write `capacity 100K`")));
        }
        self.check_write_back(c, &cache)?;
        if !cache.allocate_on_read && !cache.sees_writes() {
            let text = format!("nothing is ever kept in `{}`", c.name.name);
            return Err(self.report(
                Diagnostic::error("E0643", c.name.span, text)
                    .hint("`allocate_on_read` keeps what is read, `write_through` or `write_back` what is written"),
            ));
        }
        cache.exchanges = self.exchanges(module, c, &cache, &table)?;
        let mut leases = ir::Table {
            name: format!("{}.leases", c.name.name),
            kind: TableKind::Array,
            key: T_U32,
            value: self.lower_ty(&lease_ty),
            capacity: table.capacity.next_power_of_two().clamp(64, MOST_LEASES),
            memory: 0,
            ..table.clone()
        };
        leases.evict_lru = false;
        let mut key = key;
        if let Some(ways) = &mut cache.ways {
            self.make_sets(ways, &mut table, &leases);
            (key, entry_ty) = (U32, Ty::Tuple(vec![U64, U64, value, key]));
            (table.key, table.value) = (T_U32, self.lower_ty(&entry_ty));
        }
        let like = leases.clone();
        cache.entries = self.add_table(table, key, entry_ty);
        cache.leases = self.add_table(leases, Ty::Int { bits: 32, signed: false }, lease_ty);
        let mut counter = |what: &str, doc: &str| {
            self.m.counters.push(ir::Counter { name: format!("{}.{what}", c.name.name), doc: doc.into() });
            CounterId(self.m.counters.len() as u32 - 1)
        };
        cache.hits = counter("hits", "answers from the cache");
        cache.misses = counter("misses", "answers that were not in the cache");
        cache.stale = counter("stale_fills", "answers not kept because a write came between");
        self.waiting_entries(&mut cache, &like);
        let cache = Rc::new(cache);
        self.caches.push(cache.clone());
        Ok(AppName::Cache(cache))
    }

    pub(super) fn table_of(&mut self, c: &ast::Cache, key: &Ty, entry: &Ty) -> ir::Table {
        ir::Table {
            name: c.name.name.clone(),
            span: self.span(c.name.span),
            kind: TableKind::Exact,
            local: false,
            key: self.lower_ty(key),
            value: self.lower_ty(entry),
            capacity: 0,
            per_core: false,
            idle: 0,
            from_write: false,
            evict_lru: true,
            memory: 0,
            cache: 0,
            copied: false,
            rates: None,
        }
    }

    pub(super) fn add_table(&mut self, table: ir::Table, key: Ty, value: Ty) -> TableId {
        self.m.tables.push(table);
        self.tables.push(TableTy { key, value });
        TableId(self.m.tables.len() as u32 - 1)
    }

    fn cache_option(
        &mut self,
        module: ModId,
        cache: &mut Cache,
        table: &mut ir::Table,
        (name, e): (&Ident, Option<&Expr>),
    ) -> R<()> {
        match (name.name.as_str(), e) {
            ("capacity" | "memory", Some(_)) => return self.table_option(module, table, name, e),
            ("write_through", None) => cache.write_through = true,
            ("allocate_on_read", None) => cache.allocate_on_read = true,
            ("max_age", Some(e)) => cache.max_age = Some(self.age(module, e)?),
            ("write_timeout", Some(e)) => cache.write_timeout = self.const_duration(module, e)?,
            ("expires", Some(e)) => cache.expires = Some(self.expiry_field(&cache.value, e)?),
            ("write_back", Some(e)) => self.write_back_period(module, cache, name, e)?,
            ("dirty" | "tries", Some(e)) => self.write_back_limit(module, cache, name, e)?,
            ("ways", Some(e)) => cache.ways = Some(self.ways(module, e)?),
            (word, _) => {
                let known = [
                    "capacity",
                    "ways",
                    "memory",
                    "write_through",
                    "allocate_on_read",
                    "max_age",
                    "write_timeout",
                    "expires",
                ];
                let d = Diagnostic::error("E0614", name.span, format!("a cache has no option `{word}` of this form"))
                    .note(
                    "options: `capacity N`, `ways N`, `allocate_on_read`, `write_through`, `write_back D`, `dirty N`, \
                         `tries N`, `max_age D`, `expires .field`, `write_timeout D`, `memory B`",
                );
                let hint = crate::names::suggest(word, known.into_iter());
                return Err(self.report(crate::names::with_hint(d, hint)));
            }
        }
        Ok(())
    }

    /// A duration: a constant or a parameter.
    fn age(&mut self, module: ModId, e: &Expr) -> R<X> {
        if let ExprKind::Name(n) = &*e.kind {
            if let Some(AppName::Param(id, Ty::Duration)) = self.app.get(&n.name) {
                return Ok(X::new(T_U64, K::Param(*id)));
            }
        }
        Ok(build::u64(self.const_duration(module, e)?))
    }

    /// `expires .until`: the place of an instant in the record that is kept.
    fn expiry_field(&mut self, value: &Ty, e: &Expr) -> R<u32> {
        if let (ExprKind::Field(None, field), Ty::Record(r)) = (&*e.kind, value) {
            if let Some((i, _)) =
                self.records[r.index()].iter().enumerate().find(|(_, f)| f.0 == field.name && f.1 == Ty::Instant)
            {
                return Ok(i as u32);
            }
        }
        Err(self.report(
            Diagnostic::error("E0642", e.span, "this is no time in the values of the cache")
                .hint("write `expires .until` for values with a field `until: instant`"),
        ))
    }

    /// Without `max_age` a value is kept for ever. So each write to where it comes from must be one
    /// that the cache sees.
    pub fn check_caches(&mut self) {
        for cache in self.caches.clone() {
            if cache.max_age.is_some() {
                continue;
            }
            let needs = |text: String| Diagnostic::error("E0683", cache.name.span, text);
            if !cache.sees_writes() {
                let d = needs(format!("`{}` would keep what it has read for ever", cache.name.name))
                    .label("`max_age` is missing")
                    .note("writes to the servers by others, or by this program, go unseen")
                    .hint("add `max_age 10s`; or `write_through`, if this program alone writes");
                self.report(d);
                continue;
            }
            let of = |c: &&CallSite| matches!(c.block, Some((n, Role::Read)) if n == cache.number);
            let ports: Vec<_> = self.call_sites.iter().filter(of).map(|c| c.port).collect();
            let unseen =
                |c: &&CallSite| ports.contains(&c.port) && !matches!(c.block, Some((n, _)) if n == cache.number);
            let Some(site) = self.call_sites.iter().find(unseen).cloned() else { continue };
            let port = self.m.ports[site.port.index()].name.clone();
            let d = needs(format!("`{}` does not see each write to `{port}`", cache.name.name))
                .label("`max_age` is missing")
                .also(site.span, "this may be a write")
                .hint(format!(
                    "put it into `write {0}[key] {{ … }}`, or into `uncached {0} {{ … }}` if it only reads",
                    cache.name.name
                ));
            self.report(d);
        }
    }
}

impl Lower<'_, '_> {
    /// A call or send is noted with the block of a cache around it.
    pub fn note_call(&mut self, port: ir::PortId, span: Span) {
        if !self.unused {
            self.cx.call_sites.push(CallSite { port, block: self.cache_block, span });
        }
    }

    pub(super) fn cache_named(&mut self, e: &Expr) -> R<Rc<Cache>> {
        if let ExprKind::Name(n) = &*e.kind {
            match (self.cx.app.get(&n.name).cloned(), self.lookup(&n.name)) {
                (Some(AppName::Cache(c)), None) => return Ok(c),
                // Its declaration has an error.
                (Some(AppName::Failed), None) => return Err(Reported),
                _ => {}
            }
        }
        Err(self.cx.report(
            Diagnostic::error("E0684", e.span, "this is no cache")
                .hint("declare one in the app: `cache hot: K -> V { capacity 10K, allocate_on_read, max_age 10s }`"),
        ))
    }

    /// The cache and the key of `c[k]`. Blocks of caches do not stand in one another.
    pub(super) fn cache_entry<'e>(&mut self, entry: &'e Expr, span: Span) -> R<(Rc<Cache>, &'e Expr)> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.impure = true;
        let ExprKind::Index(c, key) = &*entry.kind else {
            return Err(self.err("E0684", entry.span, "an entry of a cache is named by its key: `c[k]`"));
        };
        let cache = self.cache_named(c)?;
        self.cache_free(span)?;
        Ok((cache, key))
    }

    pub(super) fn cache_free(&mut self, span: Span) -> R<()> {
        match self.cache_block {
            None => Ok(()),
            Some(_) => Err(self.err("E0684", span, "blocks of caches do not stand in one another")),
        }
    }

    pub(super) fn in_block<T>(&mut self, cache: &Cache, role: Role, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.cache_block.replace((cache.number, role));
        let made = f(self);
        self.cache_block = outer;
        made
    }

    /// `cached c[k] { … }`: the value that is kept, or else that of the block, which is then kept.
    /// Of packets, `cached c[k] by x { … }`: the block sends the request on. Its answer comes as
    /// another packet. With `reply(p)` the value that is kept goes back in the packet.
    pub fn cached(
        &mut self,
        entry: &Expr,
        by: Option<&Expr>,
        body: &Block,
        reply: Option<&Expr>,
        span: Span,
    ) -> R<Val> {
        let (cache, key) = self.cache_entry(entry, span)?;
        let exchange = self.exchange(&cache, by, span)?;
        let back = reply.map(|p| self.way_back(&cache, p)).transpose()?;
        let at = self.cache_key(&cache, key, span)?;
        let clean = |s: &mut Self| s.kept_or_asked(&cache, at, (exchange, back), body, span);
        match &cache.back {
            Some(b) => self.waiting_or(&cache, b, at.0, clean, span),
            None => clean(self),
        }
    }

    /// The value that is kept, or that of the block.
    fn kept_or_asked(
        &mut self,
        cache: &Rc<Cache>,
        at: (LocalId, LocalId),
        (exchange, back): (Option<LocalId>, Option<WayBack>),
        body: &Block,
        span: Span,
    ) -> R<Val> {
        let replies = back.is_some();
        let (miss, found, version) = self.look(cache, at, span);
        let entry_ty = self.cx.tables[cache.entries.index()].value.clone();
        let t = self.cx.lower_ty(&entry_ty);
        let kept = build::unwrap(t, self.local_expr(found));
        let part = |i: u32| X::new(T_U64, K::Get(kept.clone(), i));
        let mut current = build::and(
            build::cmp(BinOp::Eq, part(0), version.clone()),
            build::cmp(BinOp::Lt, self.local_expr(miss.begun), part(1)),
        );
        if cache.ways.is_some() {
            current = build::and(current, self.is_of_key(&kept, miss.key));
        }
        let hit = build::and(build::and(build::is_some(self.local_expr(found)), self.local_expr(miss.quiet)), current);
        let hit = self.temp("hit", &Ty::Bool, hit, span);
        let (hit, value) = (self.local_expr(hit), cache.value.clone());
        let v = self.cx.lower_ty(&value);
        let held = Val::pure(value.clone(), X::new(v, K::Get(kept, 2)));
        let want = if back.is_some() { Ty::Unit } else { value };
        self.branch(
            hit,
            span,
            Some(&want),
            |s| {
                s.push(span, StmtKind::Count(cache.hits, build::u64(1)));
                s.used_last(cache, miss.key, span);
                match back {
                    Some(way) => s.reply_packet(way, held, span),
                    None => Ok(held),
                }
            },
            |s| {
                s.push(span, StmtKind::Count(cache.misses, build::u64(1)));
                match exchange {
                    Some(x) => s.packet_missed(cache, (x, miss, version), body, replies, span),
                    None => s.missed(cache, miss, version, body, span),
                }
            },
        )
    }

    /// Looks up a key: what a miss needs, the entry, and the version that is current.
    fn look(&mut self, cache: &Cache, (key, slot): (LocalId, LocalId), span: Span) -> (Miss, LocalId, X) {
        let begun = self.temp("asked", &U64, X::new(T_U64, K::Now), span);
        let entry_ty = self.cx.tables[cache.entries.index()].value.clone();
        let found = self.new_local("found", &entry_ty.option());
        let place = self.place_of_entry(cache, key, span);
        self.push(span, StmtKind::TableGet { table: cache.entries, key: place, dst: found });
        // Read after the entry: what was current then is current now.
        let lease = self.lease_of(cache, slot, span);
        let quiet = self.quiet(cache, lease, span);
        let version = self.version(cache, lease, span);
        (Miss { key, slot, begun, quiet }, found, version)
    }

    /// The value is asked for, and kept.
    fn missed(&mut self, cache: &Cache, miss: Miss, version: X, body: &Block, span: Span) -> R<Val> {
        let lease = self.temp("lease", &U64, version, span);
        let made = self.in_block(cache, Role::Read, |s| s.block(body, Some(&cache.value)))?;
        if made.is_never() {
            return Ok(made);
        }
        let made = self.coerce(made, &cache.value, body.span)?;
        let made = self.temp("made", &cache.value, made, span);
        if cache.allocate_on_read {
            self.fill(cache, lease, miss, made, span);
        }
        Ok(Val::pure(cache.value.clone(), self.local_expr(made)))
    }

    /// Keeps a value if its lease is still the current one.
    fn fill(&mut self, cache: &Cache, lease: LocalId, miss: Miss, made: LocalId, span: Span) {
        let Miss { key, slot, begun, quiet } = miss;
        let now = self.lease_of(cache, slot, span);
        let still = self.quiet(cache, now, span);
        let same = build::cmp(BinOp::Eq, X::new(T_U64, K::Get(self.local_expr(now), VERSION)), self.local_expr(lease));
        let fresh = build::and(build::and(self.local_expr(quiet), self.local_expr(still)), same);
        let (lease, begun) = (self.local_expr(lease), self.local_expr(begun));
        let ((), then) = self.sub(|s| s.put(cache, (key, lease, begun), made, span));
        let ((), other) = self.sub(|s| s.push(span, StmtKind::Count(cache.stale, build::u64(1))));
        self.push(span, StmtKind::If { cond: fresh, then, other });
    }

    /// The entry, with its version and its end: `max_age` after it was asked for.
    pub(super) fn put(&mut self, cache: &Cache, (key, version, begun): (LocalId, X, X), made: LocalId, span: Span) {
        let mut until = match &cache.max_age {
            Some(age) => build::bin(T_U64, BinOp::AddSat, begun, age.clone()),
            None => build::u64(u64::MAX),
        };
        if let Some(field) = cache.expires {
            let own = X::new(T_U64, K::Get(self.local_expr(made), field));
            until = build::builtin(T_U64, B::Min, vec![until, own]);
        }
        let entry_ty = self.cx.tables[cache.entries.index()].value.clone();
        let t = self.cx.lower_ty(&entry_ty);
        let mut parts = vec![version, until, self.local_expr(made)];
        let mut at = self.local_expr(key);
        if cache.ways.is_some() {
            parts.push(at);
            at = self.place_for_entry(cache, key, span);
        }
        let (value, place) = (X::new(t, K::Make(parts)), self.place_id(span));
        self.push(span, StmtKind::TablePut { table: cache.entries, key: at, value, place });
    }

    /// The key, and the number of its lease.
    pub(super) fn cache_key(&mut self, cache: &Cache, key: &Expr, span: Span) -> R<(LocalId, LocalId)> {
        let key = self.expr_as(key, &cache.key)?;
        let key = self.temp("key", &cache.key, key, span);
        let hash = self.hash_of(key);
        Ok((key, self.slot_of(cache, hash, span)))
    }

    /// A hash of a key; that of bytes takes eight at a time.
    pub(super) fn hash_of(&self, key: LocalId) -> X {
        let key = self.local_expr(key);
        if matches!(self.cx.m.ty(key.ty), ir::Ty::Bytes(_)) {
            return build::builtin(T_U64, B::Murmur64, vec![build::u64(0), key]);
        }
        build::builtin(T_U64, B::Hash, vec![key])
    }

    /// The number of a lease, by the hash of its key.
    pub(super) fn slot_of(&mut self, cache: &Cache, hash: X, span: Span) -> LocalId {
        let most = self.cx.m.tables[cache.leases.index()].capacity;
        let slot = build::cast(T_U32, build::bin(T_U64, BinOp::BitAnd, hash, build::u64(most - 1)));
        self.temp("slot", &Ty::Int { bits: 32, signed: false }, slot, span)
    }

    /// The lease, as it is now.
    pub(super) fn lease_of(&mut self, cache: &Cache, slot: LocalId, span: Span) -> LocalId {
        let ty = self.cx.tables[cache.leases.index()].value.clone();
        let (t, read) = (self.cx.lower_ty(&ty), self.new_local("read", &ty.clone().option()));
        self.push(span, StmtKind::TableGet { table: cache.leases, key: self.local_expr(slot), dst: read });
        let none = X::new(t, K::Make(vec![build::u64(0); 3]));
        let there = build::is_some(self.local_expr(read));
        let value = build::if_(t, there, build::unwrap(t, self.local_expr(read)), none);
        self.temp("lease", &ty, value, span)
    }

    /// The version of a lease. That of packets counts epochs, too: both only grow.
    pub(super) fn version(&mut self, cache: &Cache, lease: LocalId, span: Span) -> X {
        let own = X::new(T_U64, K::Get(self.local_expr(lease), VERSION));
        let Some(e) = &cache.exchanges else { return own };
        let epoch = self.epoch_of(e.epoch, span);
        let version = self.temp("version", &U64, build::bin(T_U64, BinOp::Add, own, epoch), span);
        self.local_expr(version)
    }

    /// Whether no write is under way.
    pub(super) fn quiet(&mut self, cache: &Cache, lease: LocalId, span: Span) -> LocalId {
        let busy = under_way(self.local_expr(lease), cache.write_timeout);
        self.temp("quiet", &Ty::Bool, build::not(busy), span)
    }

    /// `write c[k] { … }`: the block changes what the entry stands for.
    pub fn write_block(&mut self, entry: &Expr, by: Option<&Expr>, body: &Block, span: Span) -> R<bool> {
        let (cache, key) = self.cache_entry(entry, span)?;
        let exchange = self.exchange(&cache, by, span)?;
        if cache.back.is_some() {
            return self.write_later(&cache, key, body, span);
        }
        if !cache.write_through {
            return Err(self.cx.report(
                Diagnostic::error("E0684", entry.span, format!("`{}` does not take part in writes", cache.name.name))
                    .hint("add `write_through` or `write_back` to the cache"),
            ));
        }
        let (key, slot) = self.cache_key(&cache, key, span)?;
        let begun = self.temp("asked", &U64, X::new(T_U64, K::Now), span);
        let mine = self.write_begins(&cache, (key, slot), span);
        if let Some(x) = exchange {
            return self.packet_write(&cache, (x, key), body, span);
        }
        let want = cache.value.clone();
        let gives = matches!(body.stmts.last(), Some(ast::Stmt { kind: ast::StmtKind::Expr(_), .. }));
        let made = self.in_block(&cache, Role::Write, |s| s.block(body, gives.then_some(&want)))?;
        if made.is_never() {
            return Ok(true);
        }
        let kept = if made.ty == Ty::Unit {
            None
        } else {
            let made = self.coerce(made, &cache.value, body.span)?;
            Some(self.temp("made", &cache.value, made, span))
        };
        let after = self.write_ends(&cache, slot, span);
        if let Some(made) = kept {
            let (alone, version) = self.was_alone(mine, after);
            let begun = self.local_expr(begun);
            let ((), then) = self.sub(|s| s.put(&cache, (key, version, begun), made, span));
            self.push(span, StmtKind::If { cond: alone, then, other: vec![] });
        }
        Ok(false)
    }

    /// A write begins: leases are void, and the entry goes. Gives the lease as it then is.
    pub(super) fn write_begins(&mut self, cache: &Cache, (key, slot): (LocalId, LocalId), span: Span) -> LocalId {
        let mine = self.change_lease(cache, slot, span, |lease| {
            let part = |i| X::new(T_U64, K::Get(lease.clone(), i));
            let busy = under_way(lease.clone(), cache.write_timeout);
            let others = build::if_(T_U64, busy, part(WRITERS), build::u64(0));
            vec![one_more(part(VERSION)), one_more(others), X::new(T_U64, K::Now)]
        });
        // In a set it stays, of an old version, until another one takes its place.
        if cache.ways.is_none() {
            self.push(span, StmtKind::TableRemove { table: cache.entries, key: self.local_expr(key), dst: None });
        }
        mine
    }

    /// Whether no other write has begun or ended between the two leases of one; and the version
    /// under which its value may be kept.
    pub(super) fn was_alone(&self, mine: LocalId, after: LocalId) -> (X, X) {
        let part = |l: LocalId, i| X::new(T_U64, K::Get(self.local_expr(l), i));
        let next = build::cmp(BinOp::Eq, part(after, VERSION), one_more(part(mine, VERSION)));
        let alone = build::cmp(BinOp::Eq, part(after, WRITERS), build::u64(0));
        (build::and(next, alone), part(after, VERSION))
    }

    /// A write has its answer; gives the lease as it then is.
    pub(super) fn write_ends(&mut self, cache: &Cache, slot: LocalId, span: Span) -> LocalId {
        self.change_lease(cache, slot, span, |lease| {
            let part = |i| X::new(T_U64, K::Get(lease.clone(), i));
            let fewer = build::bin(T_U64, BinOp::SubSat, part(WRITERS), build::u64(1));
            vec![one_more(part(VERSION)), fewer, part(SINCE)]
        })
    }

    /// Changes a lease in one step; gives its new value.
    fn change_lease(&mut self, cache: &Cache, slot: LocalId, span: Span, parts: impl FnOnce(X) -> Vec<X>) -> LocalId {
        let ty = self.cx.tables[cache.leases.index()].value.clone();
        let t = self.cx.lower_ty(&ty);
        let none = X::new(t, K::Make(vec![build::u64(0); 3]));
        let after = self.temp("lease", &ty, none, span);
        let entry = self.new_local("entry", &ty);
        let value = X::new(t, K::Make(parts(self.local_expr(entry))));
        let sp = self.cx.span(span);
        let body = vec![
            build::stmt(sp, StmtKind::Set(entry, value)),
            build::stmt(sp, StmtKind::Set(after, self.local_expr(entry))),
        ];
        let (key, place) = (self.local_expr(slot), self.place_id(span));
        self.push(span, StmtKind::TableUpdate { table: cache.leases, key, entry, body, place });
        after
    }

    /// `uncached c { … }`: calls that change nothing of what the cache keeps.
    pub fn uncached(&mut self, cache: &Expr, by: Option<&Expr>, body: &Block, span: Span) -> R<bool> {
        let cache = self.cache_named(cache)?;
        self.cache_free(span)?;
        self.packet_beside(&cache, by, span)?;
        let made = self.in_block(&cache, Role::Beside, |s| s.block(body, Some(&Ty::Unit)))?;
        Ok(made.is_never())
    }

    /// A cache is no value.
    pub fn cache_as_value(&mut self, n: &Ident) -> Reported {
        self.cx.report(
            Diagnostic::error("E0684", n.span, format!("`{}` is a cache, no value", n.name))
                .hint(format!("write `cached {}[key] {{ … }}`", n.name)),
        )
    }
}

pub(super) fn one_more(e: X) -> X {
    build::bin(T_U64, BinOp::Add, e, build::u64(1))
}

/// Whether a write that has begun may not have ended.
fn under_way(lease: X, timeout: u64) -> X {
    let part = |i| X::new(T_U64, K::Get(lease.clone(), i));
    let passed = build::bin(T_U64, BinOp::SubSat, X::new(T_U64, K::Now), part(SINCE));
    X::new(
        T_BOOL,
        K::Binary(
            BinOp::And,
            build::cmp(BinOp::Ne, part(WRITERS), build::u64(0)),
            build::cmp(BinOp::Lt, passed, build::u64(timeout)),
        ),
    )
}
