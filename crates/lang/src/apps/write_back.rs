//! Caches that are written back: `cache c: K -> V { …, write_back 100ms }`.
//!
//! In: the declaration, `on c.write_back(e) { … }`, which gives one entry to its server, and the
//! blocks of the cache. Out: a table of *dirty* entries in front of the cache's other tables, and
//! two handlers. A timer writes these entries, and so does a handler at the end of the app.
//!
//! - *Write*: the entry is dirty, under a new number. If all places are taken, or the entry is just
//!   leaving, the client's own task sends the write to its server at once.
//! - *Read*: a dirty entry is a hit. Only behind that look the cache's own entries count.
//! - *Claim*: a task of the timer takes an entry for `write_timeout`. Nobody else does so
//!   meanwhile.
//! - *Write back*: as a write of `caches.rs`. The lease's version counts up before and behind it.
//! - *End*: the entry leaves if its number is the one that was claimed. Else it may be claimed
//!   again.
//!
//! A claim without an end (a fault, `return`, a lost answer) stays until `write_timeout` is over. A
//! server never does later what it has not done by then. So two writes of one key are not under way
//! at once, and cannot overtake each other. Calls take at most half of that time.
//!
//! An entry leaves in two steps, since no step of a table removes on a condition. It is marked as
//! [`LEAVING`], then removed by the one that has marked it. A write that finds the mark does not
//! touch the entry. `tests/models/src/write_back_model.rs` checks all interleavings,
//! and `write_back_programs.rs` programs.

use super::declarations::{Cache, Role, WriteBack};
use super::handlers::plain;
use super::scope::AppName;
use crate::body::Lower;
use crate::compiler::{Compiler, R, T_U16, T_U64};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Ty, U64};
use crate::units::findings::source;
use crate::val::Val;
use ir::{BinOp, Builtin as B, CounterId, Expr as X, ExprKind as K, LocalId, StmtKind, TableId, TableKind};
use std::cell::OnceCell;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Block, Expr, Ident, MemberKind, On, Span};
use wireloom_syntax::Diagnostic;

/// Parts of a dirty entry: the value, its number, the end of its claim (0: nobody has claimed it),
/// and the claims in a row.
const VALUE: u32 = 0;
const NUMBER: u32 = 1;
const CLAIMED: u32 = 2;
const TRIES: u32 = 3;
/// In the place of a number: there is no entry (a step that looks at one makes it), or no more.
const NOTHING: u64 = 0;
const LEAVING: u64 = u64::MAX;
/// Cores may find room for a write at the same time: so many more entries have a place.
const SPARE: u64 = 1024;
/// At the end of an app the entries that wait are looked at so often.
const LOOK: u64 = 20_000_000;

/// The result of a claim.
const KEEP: u64 = 0;
const WRITE: u64 = 1;
const GIVE_UP: u64 = 2;
const FORGET: u64 = 3;

impl Cache {
    /// Writes to the servers stand in its blocks, as its declaration says.
    pub(super) fn sees_writes(&self) -> bool {
        self.write_through || self.back.is_some()
    }
}

impl Compiler<'_> {
    pub(super) fn write_back_period(&mut self, module: ModId, cache: &mut Cache, name: &Ident, e: &Expr) -> R<()> {
        let period = self.const_duration(module, e)?;
        self.check_period(period, e.span)?;
        let back = cache.back.get_or_insert_with(|| nothing_said(name.span));
        (back.period, back.span) = (period, name.span);
        Ok(())
    }

    /// `dirty N`, `tries N`
    pub(super) fn write_back_limit(&mut self, module: ModId, cache: &mut Cache, name: &Ident, e: &Expr) -> R<()> {
        let n = self.const_size(module, e)?;
        let back = cache.back.get_or_insert_with(|| nothing_said(name.span));
        match name.name.as_str() {
            "dirty" => back.most = n,
            _ => back.tries = Some(n),
        }
        Ok(())
    }

    pub(super) fn check_write_back(&mut self, c: &ast::Cache, cache: &Cache) -> R<()> {
        let Some(back) = &cache.back else { return Ok(()) };
        let refuse = |c: &mut Self, text: &str, hint: &str| {
            Err(c.report(Diagnostic::error("E0614", back.span, text).hint(hint)))
        };
        if back.period == 0 {
            return refuse(self, "this belongs to `write_back`", "add `write_back 100ms`, or leave it out");
        }
        if c.by.is_some() {
            return refuse(
                self,
                "a cache of packets is not written back",
                "leave `write_back` out: packets are sent on at once, and what is written is not kept",
            );
        }
        if cache.write_through {
            return refuse(self, "a cache is written through or written back", "leave one of them out");
        }
        if cache.expires.is_some() {
            return refuse(
                self,
                "an entry that waits for its server does not expire",
                "leave `expires` out, or use `write_through`",
            );
        }
        Ok(())
    }

    /// The table of dirty entries, and its counters.
    pub(super) fn waiting_entries(&mut self, cache: &mut Cache, like: &ir::Table) {
        let name = cache.name.name.clone();
        let (key, ty) = (cache.key.clone(), dirty_ty(cache));
        let Some(back) = &mut cache.back else { return };
        if back.most == 0 {
            back.most = like.capacity.div_ceil(4);
        }
        let most = back.most;
        let table = ir::Table {
            name: format!("{name}.dirty"),
            kind: TableKind::Exact,
            key: self.lower_ty(&key),
            value: self.lower_ty(&ty),
            capacity: most.saturating_add(SPARE),
            ..like.clone()
        };
        let table = self.add_table(table, key, ty);
        let mut counter = |what: &str, doc: &str| {
            self.m.counters.push(ir::Counter { name: format!("{name}.{what}"), doc: doc.into() });
            CounterId(self.m.counters.len() as u32 - 1)
        };
        let written = counter("written", "dirty entries that their server has taken");
        let failed = counter("failed_writes", "tries to write a dirty entry that had no answer, or a bad one");
        let lost = counter("lost_writes", "dirty entries that were given up");
        if let Some(back) = &mut cache.back {
            (back.table, back.written, back.failed, back.lost) = (table, written, failed, lost);
        }
    }

    /// Finds the handlers of caches that are written back: `on c.write_back(e)`.
    pub fn write_back_handlers(&mut self, members: &[ast::Member]) {
        for m in members {
            let MemberKind::Handler(h) = &m.kind else { continue };
            let On::Event { port, event, .. } = &h.on else { continue };
            let Some(AppName::Cache(cache)) = self.app.get(&port.name).cloned() else { continue };
            let Some(back) = cache.back.as_ref().filter(|_| event.name == "write_back") else {
                let d = Diagnostic::error("E0201", event.span, format!("`{}` has no event of this name", port.name));
                self.report(d.hint("a cache with `write_back D` has `on c.write_back(e) { … }`"));
                continue;
            };
            if back.handler.set((h.clone(), m.span)).is_err() {
                let text = format!("`{}.write_back` has a handler already", port.name);
                self.report(Diagnostic::error("E0639", port.span, text).label("the second one"));
            }
        }
    }

    /// The handlers that write dirty entries: from time to time, and at the end.
    pub fn writers_back(&mut self, module: ModId) {
        for cache in self.caches.clone() {
            let Some(back) = &cache.back else { continue };
            let Some((h, span)) = back.handler.get() else {
                let d =
                    Diagnostic::error("E0611", cache.name.span, format!("nothing writes `{}` back", cache.name.name));
                let calls = format!("on {}.write_back(e) {{ let a = call server(…) }}", cache.name.name);
                self.report(d.label("`write_back` has no handler").hint(format!("write `{calls}`")));
                continue;
            };
            let (name, span) = (format!("{}.write_back", cache.name.name), *span);
            let mut l = plain(self, module, format!("cache {name}"));
            if l.write_all(&cache, back, h, span).is_err() {
                l.cx.must_be_told(span);
                continue;
            }
            let body = l.body();
            self.add_handler(&name, ir::On::Every(back.period), span, body.clone());
            self.add_handler(&name, ir::On::End, span, body);
            let mut l = plain(self, module, format!("cache {name}"));
            l.until_written(&cache, back, span);
            let body = l.body();
            self.add_handler(&format!("{name}, the last ones"), ir::On::End, span, body);
        }
    }
}

fn nothing_said(span: Span) -> WriteBack {
    WriteBack {
        period: 0,
        most: 0,
        tries: None,
        table: TableId(0),
        written: CounterId(0),
        failed: CounterId(0),
        lost: CounterId(0),
        handler: OnceCell::new(),
        span,
    }
}

fn dirty_ty(cache: &Cache) -> Ty {
    Ty::Tuple(vec![cache.value.clone(), U64, U64, U64])
}

fn part(e: &X, n: u32) -> X {
    X::new(T_U64, K::Get(e.clone(), n))
}

fn is(e: X, n: u64) -> X {
    build::cmp(BinOp::Eq, e, build::u64(n))
}

fn now() -> X {
    X::new(T_U64, K::Now)
}

impl Lower<'_, '_> {
    /// Calls of a handler that writes back take at most so long (ns).
    pub fn longest_call(&self) -> Option<u64> {
        let (n, Role::Write) = self.cache_block? else { return None };
        let cache = self.cx.caches.get(n)?;
        cache.back.as_ref().map(|_| (cache.write_timeout / 2).max(1))
    }

    fn dirty_entry(&mut self, cache: &Cache, back: &WriteBack, key: LocalId, span: Span) -> (LocalId, X) {
        let ty = dirty_ty(cache);
        let (t, found) = (self.cx.lower_ty(&ty), self.new_local("dirty", &ty.option()));
        self.push(span, StmtKind::TableGet { table: back.table, key: self.local_expr(key), dst: found });
        (found, build::unwrap(t, self.local_expr(found)))
    }

    /// Whether an entry that was looked up is dirty.
    fn is_dirty(&self, found: LocalId, entry: &X) -> X {
        let number = |n| build::not(is(part(entry, NUMBER), n));
        build::and(build::is_some(self.local_expr(found)), build::and(number(NOTHING), number(LEAVING)))
    }

    /// `cached c[k]`: the dirty entry, or else what the cache's own entries tell.
    pub(super) fn waiting_or(
        &mut self,
        cache: &Cache,
        back: &WriteBack,
        key: LocalId,
        clean: impl FnOnce(&mut Self) -> R<Val>,
        span: Span,
    ) -> R<Val> {
        let (found, entry) = self.dirty_entry(cache, back, key, span);
        let there = self.is_dirty(found, &entry);
        let there = self.temp("waits", &Ty::Bool, there, span);
        let (there, t) = (self.local_expr(there), self.cx.lower_ty(&cache.value));
        let value = Val::pure(cache.value.clone(), X::new(t, K::Get(entry, VALUE)));
        let hits = cache.hits;
        self.branch(
            there,
            span,
            Some(&cache.value),
            |s| {
                s.push(span, StmtKind::Count(hits, build::u64(1)));
                Ok(value)
            },
            clean,
        )
    }

    /// `write c[k] { … }`: the entry is dirty, or its server has it at once.
    pub(super) fn write_later(&mut self, cache: &Rc<Cache>, key: &Expr, body: &Block, span: Span) -> R<bool> {
        let Some(back) = &cache.back else { return Ok(false) };
        let key = self.expr_as(key, &cache.key)?;
        let key = self.temp("key", &cache.key, key, span);
        let Some(value) = self.value_to_write(cache, body)? else { return Ok(true) };
        let kept = self.make_dirty(cache, back, (key, value), span);
        let Some((h, _)) = back.handler.get() else { return Ok(false) };
        let cond = build::not(self.local_expr(kept));
        self.branch(
            cond,
            span,
            Some(&Ty::Unit),
            |s| {
                let done = s.write_to_server(cache, h, (key, value), span)?.0;
                // Its client is told that it is not written.
                let done = s.local_expr(done);
                s.guard(done, ir::FaultKind::OVERLOAD, span);
                Ok(Val::unit())
            },
            |_| Ok(Val::unit()),
        )?;
        Ok(false)
    }

    /// The value of a block. It answers nobody: before its end nothing has been kept.
    fn value_to_write(&mut self, cache: &Rc<Cache>, body: &Block) -> R<Option<LocalId>> {
        let want = cache.value.clone();
        let (made, block) = self.sub(|s| {
            let made = s.in_block(cache, Role::Read, |s| s.block(body, Some(&want)))?;
            if made.is_never() {
                return Ok(None);
            }
            let made = s.coerce(made, &want, body.span)?;
            Ok(Some(s.temp("value", &want, made, body.span)))
        });
        let made = made?;
        let mut early = None;
        ir::walk::stmts(&block, &mut |s| {
            let bytes = matches!(s.kind, StmtKind::Render { .. } | StmtKind::Reread { .. });
            let acts = ir::walk::outgoing(&s.kind).is_some() && !bytes || matches!(s.kind, StmtKind::Await { .. });
            early = early.or(acts.then_some(s.span));
        });
        if let Some(at) = early {
            let d = Diagnostic::error("E0684", source(at), "this stands in a write that is done later")
                .label("nothing is kept yet")
                .also(cache.name.span, "written back by its `on ….write_back(e)`");
            return Err(self.cx.report(d.hint("give the value in the block; answer behind it")));
        }
        self.out.extend(block);
        Ok(made)
    }

    /// Keeps a dirty entry, if there is room for it; whether it is kept.
    fn make_dirty(&mut self, cache: &Cache, back: &WriteBack, (key, value): (LocalId, LocalId), span: Span) -> LocalId {
        let (room, len) = (self.new_local("room", &Ty::Bool), self.new_local("waiting", &U64));
        self.push(span, StmtKind::TableLen { table: back.table, dst: len });
        let some = build::cmp(BinOp::Lt, self.local_expr(len), build::u64(back.most));
        self.push(span, StmtKind::Set(room, some));
        let ((), known) = self.sub(|s| {
            let (found, entry) = s.dirty_entry(cache, back, key, span);
            let there = s.is_dirty(found, &entry);
            s.push(span, StmtKind::Set(room, there));
        });
        let full = build::not(self.local_expr(room));
        self.push(span, StmtKind::If { cond: full, then: known, other: vec![] });
        let kept = self.temp("kept", &Ty::Bool, build::boolean(false), span);
        let ty = dirty_ty(cache);
        let (t, entry) = (self.cx.lower_ty(&ty), self.new_local("entry", &ty));
        let old = self.local_expr(entry);
        let next = build::bin(T_U64, BinOp::AddSat, part(&old, NUMBER), build::u64(1));
        let number = build::builtin(T_U64, B::Max, vec![now(), next]);
        let new = vec![self.local_expr(value), number, part(&old, CLAIMED), build::u64(0)];
        let stays = build::not(is(part(&old, NUMBER), LEAVING));
        let sp = self.cx.span(span);
        let change = vec![
            build::stmt(sp, StmtKind::Set(entry, X::new(t, K::Make(new)))),
            build::stmt(sp, StmtKind::Set(kept, build::boolean(true))),
        ];
        let body = vec![build::stmt(sp, StmtKind::If { cond: stays, then: change, other: vec![] })];
        let (key, place) = (self.local_expr(key), self.place_id(span));
        let update = build::stmt(sp, StmtKind::TableUpdate { table: back.table, key, entry, body, place });
        let cond = self.local_expr(room);
        self.push(span, StmtKind::If { cond, then: vec![update], other: vec![] });
        kept
    }

    /// The handler gives an entry to its server, as a write of the cache. Gives whether it came to
    /// its end, and the lease at the write's beginning and end.
    fn write_to_server(
        &mut self,
        cache: &Rc<Cache>,
        h: &ast::Handler,
        (key, value): (LocalId, LocalId),
        span: Span,
    ) -> R<(LocalId, LocalId, LocalId)> {
        let hash = self.hash_of(key);
        let slot = self.slot_of(cache, hash, span);
        let mine = self.write_begins(cache, (key, slot), span);
        let done = self.temp("done", &Ty::Bool, build::boolean(false), span);
        let fields = [("key", cache.key.clone()), ("value", cache.value.clone())];
        let record = Ty::Record(self.cx.record_of("Dirty", &fields));
        let t = self.cx.lower_ty(&record);
        let entry = X::new(t, K::Make(vec![self.local_expr(key), self.local_expr(value)]));
        let at_end = |s: &mut Self| s.push(span, StmtKind::Set(done, build::boolean(true)));
        self.without_client(|s| {
            if let On::Event { param: Some(param), .. } = &h.on {
                s.bind_all(&[(param.clone(), Val::pure(record, entry))]);
            }
            s.in_block(cache, Role::Write, |s| s.element_body_to(h, span, &at_end)).map(|_| ())
        })?;
        let ty = self.cx.tables[cache.leases.index()].value.clone();
        let t = self.cx.lower_ty(&ty);
        let after = self.temp("lease", &ty, X::new(t, K::Make(vec![build::u64(0); 3])), span);
        let ((), then) = self.sub(|s| {
            let ended = s.write_ends(cache, slot, span);
            let ended = s.local_expr(ended);
            s.push(span, StmtKind::Set(after, ended));
        });
        let cond = self.local_expr(done);
        self.push(span, StmtKind::If { cond, then, other: vec![] });
        Ok((done, mine, after))
    }

    /// Writes each entry that is dirty now and not claimed.
    fn write_all(&mut self, cache: &Rc<Cache>, back: &WriteBack, h: &ast::Handler, span: Span) -> R<()> {
        let len = self.new_local("waiting", &U64);
        self.push(span, StmtKind::TableLen { table: back.table, dst: len });
        let (made, walk) = self.sub(|s| {
            let cursor = s.temp("cursor", &U64, build::u64(0), span);
            let (made, round) = s.looped(|_| false, |_| {}, |s| s.write_next(cache, back, h, cursor, span));
            let max = s.cx.steps_of_walk(back.table);
            s.push(span, StmtKind::Loop { max, body: round });
            made
        });
        made?;
        let cond = build::not(is(self.local_expr(len), 0));
        self.push(span, StmtKind::If { cond, then: walk, other: vec![] });
        Ok(())
    }

    /// One step of a walk over the dirty entries. `found`: what is done with one.
    fn dirty_step(
        &mut self,
        cache: &Cache,
        back: &WriteBack,
        cursor: LocalId,
        span: Span,
        found: impl FnOnce(&mut Self, LocalId, LocalId) -> R<()>,
    ) -> R<()> {
        let (key, entry) = (self.new_local("key", &cache.key), self.new_local("entry", &dirty_ty(cache)));
        let more = self.new_local("more", &Ty::Bool);
        self.push(span, StmtKind::TableNext { table: back.table, cursor, key, value: entry, more, masked: None });
        let (made, then) = self.sub(|s| found(s, key, entry));
        made?;
        let sp = self.cx.span(span);
        let behind = is(self.local_expr(cursor), u64::MAX);
        let end = StmtKind::If { cond: behind, then: vec![build::stmt(sp, StmtKind::Break)], other: vec![] };
        let cond = self.local_expr(more);
        self.push(span, StmtKind::If { cond, then, other: vec![build::stmt(sp, end)] });
        Ok(())
    }

    fn write_next(
        &mut self,
        cache: &Rc<Cache>,
        back: &WriteBack,
        h: &ast::Handler,
        cursor: LocalId,
        span: Span,
    ) -> R<()> {
        self.dirty_step(cache, back, cursor, span, |s, key, entry| {
            let entry = s.local_expr(entry);
            let free = build::cmp(BinOp::Le, part(&entry, CLAIMED), now());
            let (made, then) = s.sub(|s| s.claimed(cache, back, h, key, span));
            s.push(span, StmtKind::If { cond: free, then, other: vec![] });
            made
        })
    }

    /// Claims an entry, and acts on what has been found.
    fn claimed(&mut self, cache: &Rc<Cache>, back: &WriteBack, h: &ast::Handler, key: LocalId, span: Span) -> R<()> {
        let claim = self.claim(cache, back, key, span);
        let failed = self.local_expr(claim.failed);
        self.push(span, StmtKind::Count(back.failed, failed));
        let (made, write) = self.sub(|s| s.write_claimed(cache, back, h, (key, &claim), span));
        made?;
        let cond = is(self.local_expr(claim.act), WRITE);
        self.push(span, StmtKind::If { cond, then: write, other: vec![] });
        let ((), gone) = self.sub(|s| {
            let given_up = build::if_(T_U64, is(s.local_expr(claim.act), GIVE_UP), build::u64(1), build::u64(0));
            s.push(span, StmtKind::Count(back.lost, given_up));
            s.push(span, StmtKind::TableRemove { table: back.table, key: s.local_expr(key), dst: None });
        });
        let cond = build::cmp(BinOp::Ge, self.local_expr(claim.act), build::u64(GIVE_UP));
        self.push(span, StmtKind::If { cond, then: gone, other: vec![] });
        Ok(())
    }

    fn claim(&mut self, cache: &Cache, back: &WriteBack, key: LocalId, span: Span) -> Claim {
        let zero = |s: &mut Self, name| s.temp(name, &U64, build::u64(0), span);
        let (act, number, until, failed) =
            (zero(self, "act"), zero(self, "number"), zero(self, "until"), zero(self, "failed"));
        let ty = dirty_ty(cache);
        let (t, v) = (self.cx.lower_ty(&ty), self.cx.lower_ty(&cache.value));
        let (entry, value) = (self.new_local("entry", &ty), self.new_local("value", &cache.value));
        let old = self.local_expr(entry);
        let old_value = X::new(v, K::Get(old.clone(), VALUE));
        let over =
            back.tries.map_or(build::boolean(false), |n| build::cmp(BinOp::Ge, part(&old, TRIES), build::u64(n)));
        let free =
            build::and(build::not(is(part(&old, NUMBER), LEAVING)), build::cmp(BinOp::Le, part(&old, CLAIMED), now()));
        // An entry that the look has made goes again.
        let found = build::if_(T_U64, over, build::u64(GIVE_UP), build::u64(WRITE));
        let found = build::if_(T_U64, is(part(&old, NUMBER), NOTHING), build::u64(FORGET), found);
        let found = build::if_(T_U64, free, found, build::u64(KEEP));
        let sp = self.cx.span(span);
        let set = |l, e| build::stmt(sp, StmtKind::Set(l, e));
        let after = build::bin(T_U64, BinOp::AddSat, now(), build::u64(cache.write_timeout));
        let tries = build::bin(T_U64, BinOp::AddSat, part(&old, TRIES), build::u64(1));
        let claimed = vec![old_value.clone(), part(&old, NUMBER), after.clone(), tries];
        let leaves = vec![old_value.clone(), build::u64(LEAVING), part(&old, CLAIMED), part(&old, TRIES)];
        let once = build::if_(T_U64, is(part(&old, CLAIMED), 0), build::u64(0), build::u64(1));
        let taken = vec![
            set(value, old_value.clone()),
            set(number, part(&old, NUMBER)),
            set(until, after),
            set(entry, X::new(t, K::Make(claimed))),
        ];
        let gone = vec![set(entry, X::new(t, K::Make(leaves)))];
        let doing = |n| is(self.local_expr(act), n);
        let gone = StmtKind::If {
            cond: build::cmp(BinOp::Ge, self.local_expr(act), build::u64(GIVE_UP)),
            then: gone,
            other: vec![],
        };
        let body = vec![
            set(value, old_value),
            set(act, found),
            set(failed, build::if_(T_U64, build::not(doing(KEEP)), once, build::u64(0))),
            build::stmt(sp, StmtKind::If { cond: doing(WRITE), then: taken, other: vec![build::stmt(sp, gone)] }),
        ];
        let (key, place) = (self.local_expr(key), self.place_id(span));
        self.push(span, StmtKind::TableUpdate { table: back.table, key, entry, body, place });
        Claim { act, number, until, failed, value }
    }

    fn write_claimed(
        &mut self,
        cache: &Rc<Cache>,
        back: &WriteBack,
        h: &ast::Handler,
        (key, claim): (LocalId, &Claim),
        span: Span,
    ) -> R<()> {
        let begun = self.temp("asked", &U64, now(), span);
        let (done, mine, after) = self.write_to_server(cache, h, (key, claim.value), span)?;
        let ((), then) = self.sub(|s| {
            s.push(span, StmtKind::Count(back.written, build::u64(1)));
            s.keep_written(cache, back, (key, claim), (mine, after, begun), span);
            s.end_claim(cache, back, (key, claim), span);
        });
        let cond = self.local_expr(done);
        self.push(span, StmtKind::If { cond, then, other: vec![] });
        Ok(())
    }

    /// The server's value becomes an entry of the cache, unless it has changed since, or another
    /// write came between.
    fn keep_written(
        &mut self,
        cache: &Cache,
        back: &WriteBack,
        (key, claim): (LocalId, &Claim),
        (mine, after, begun): (LocalId, LocalId, LocalId),
        span: Span,
    ) {
        // Read again: a long value is not kept while the answer is awaited.
        let (found, entry) = self.dirty_entry(cache, back, key, span);
        let same = build::cmp(BinOp::Eq, part(&entry, NUMBER), self.local_expr(claim.number));
        let same = build::and(build::is_some(self.local_expr(found)), same);
        let (alone, version) = self.was_alone(mine, after);
        let (begun, v) = (self.local_expr(begun), self.cx.lower_ty(&cache.value));
        let ((), then) = self.sub(|s| {
            let value = s.temp("value", &cache.value, X::new(v, K::Get(entry, VALUE)), span);
            s.put(cache, (key, version, begun), value, span)
        });
        self.push(span, StmtKind::If { cond: build::and(same, alone), then, other: vec![] });
    }

    /// An entry that its server has leaves, unless it was written again.
    fn end_claim(&mut self, cache: &Cache, back: &WriteBack, (key, claim): (LocalId, &Claim), span: Span) {
        let leaves = self.temp("leaves", &Ty::Bool, build::boolean(false), span);
        let ty = dirty_ty(cache);
        let (t, v, entry) = (self.cx.lower_ty(&ty), self.cx.lower_ty(&cache.value), self.new_local("entry", &ty));
        let old = self.local_expr(entry);
        let number = part(&old, NUMBER);
        let mine = build::cmp(BinOp::Eq, number.clone(), self.local_expr(claim.number));
        let cond = build::or(mine, is(number.clone(), NOTHING));
        let ours = build::cmp(BinOp::Eq, part(&old, CLAIMED), self.local_expr(claim.until));
        let claimed = build::if_(T_U64, ours, build::u64(0), part(&old, CLAIMED));
        let sp = self.cx.span(span);
        let value = X::new(v, K::Get(old.clone(), VALUE));
        let make = |number, claimed| {
            let parts = vec![value.clone(), number, claimed, build::u64(0)];
            build::stmt(sp, StmtKind::Set(entry, X::new(t, K::Make(parts))))
        };
        let then = vec![
            make(build::u64(LEAVING), build::u64(0)),
            build::stmt(sp, StmtKind::Set(leaves, build::boolean(true))),
        ];
        let other = vec![make(number, claimed)];
        let body = vec![build::stmt(sp, StmtKind::If { cond, then, other })];
        let (at, place) = (self.local_expr(key), self.place_id(span));
        self.push(span, StmtKind::TableUpdate { table: back.table, key: at.clone(), entry, body, place });
        let gone = build::stmt(sp, StmtKind::TableRemove { table: back.table, key: at, dst: None });
        self.push(span, StmtKind::If { cond: self.local_expr(leaves), then: vec![gone], other: vec![] });
    }

    /// At the end of the app: waits until no entry is dirty. When the runtime gives up, what is
    /// left is counted and told.
    fn until_written(&mut self, cache: &Cache, back: &WriteBack, span: Span) {
        let cursor = self.temp("cursor", &U64, build::u64(0), span);
        let (_, round) = self.looped(
            |_| false,
            |_| {},
            |s| {
                s.dirty_step(cache, back, cursor, span, |s, key, _| {
                    let within = build::u64(LOOK);
                    s.push(span, StmtKind::Wait { table: back.table, key: s.local_expr(key), within });
                    s.push(span, StmtKind::Await { hold: false, hold_req: false, live: vec![] });
                    s.push(span, StmtKind::Set(cursor, build::u64(0)));
                    let over = build::not(build::cmp(
                        BinOp::Eq,
                        X::new(T_U16, K::PartStatus(build::u32(0))),
                        build::int(T_U16, 0),
                    ));
                    let ((), then) = s.sub(|s| s.tell_lost(cache, back, span));
                    s.push(span, StmtKind::If { cond: over, then, other: vec![] });
                    Ok(())
                })
            },
        );
        self.push(span, StmtKind::Loop { max: u64::MAX, body: round });
    }

    /// Takes the entries that are left, each core its part of them.
    fn tell_lost(&mut self, cache: &Cache, back: &WriteBack, span: Span) {
        let zero = |s: &mut Self, name| s.temp(name, &U64, build::u64(0), span);
        let (cursor, lost) = (zero(self, "cursor"), zero(self, "lost"));
        let (_, round) = self.looped(
            |_| false,
            |_| {},
            |s| {
                s.dirty_step(cache, back, cursor, span, |s, key, _| {
                    let there = s.new_local("there", &Ty::Bool);
                    s.push(span, StmtKind::TableRemove { table: back.table, key: s.local_expr(key), dst: Some(there) });
                    let one = build::if_(T_U64, s.local_expr(there), build::u64(1), build::u64(0));
                    s.push(span, StmtKind::Set(lost, build::bin(T_U64, BinOp::AddSat, s.local_expr(lost), one)));
                    // A later entry may have moved into its place.
                    s.push(
                        span,
                        StmtKind::Set(cursor, build::bin(T_U64, BinOp::SubSat, s.local_expr(cursor), build::u64(1))),
                    );
                    Ok(())
                })
            },
        );
        let max = self.cx.steps_of_walk(back.table);
        self.push(span, StmtKind::Loop { max, body: round });
        let n = self.local_expr(lost);
        self.push(span, StmtKind::Count(back.lost, n.clone()));
        let text = format!(" dirty entries of `{}` are lost: the app ended before they were written", cache.name.name);
        let t = self.cx.lower_ty(&Ty::Bytes(text.len() as u64));
        let digits = self.cx.lower_ty(&Ty::Bytes(20));
        let words = vec![build::builtin(digits, B::TextU64, vec![n.clone()]), X::new(t, K::Bytes(text.into_bytes()))];
        let sp = self.cx.span(span);
        let tell = vec![build::stmt(sp, StmtKind::Log(words))];
        self.push(span, StmtKind::If { cond: build::not(is(n, 0)), then: tell, other: vec![] });
        self.push(span, StmtKind::Return(None));
    }
}

/// A claimed entry: its fate, its number, the end of the claim, and its value. The tries that have
/// failed since the last claim are 0 or 1.
struct Claim {
    act: LocalId,
    number: LocalId,
    until: LocalId,
    failed: LocalId,
    value: LocalId,
}
