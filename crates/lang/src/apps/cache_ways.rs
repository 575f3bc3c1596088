//! Caches with ways: an entry has a place in the set that its key's hash picks.
//!
//! In: `ways N` of a cache. Out: a table of the sets' tags, and entries by the number of their
//! place. A tag is the hash of a key, and the place in the set, which counts from 1. The tag that
//! was used last is the first one. An entry that is kept takes the place of the last tag, unless
//! its key has a place, or one is free.
//!
//! Tags and entries change in two steps. Between them a place may have the entry of another key, so
//! an entry tells its own key. Whatever lies in a place was kept by the rules of leases
//! (`caches.rs`), and counts by its version. So tags decide what is found, not what is right.

use super::declarations::{Cache, Ways};
use crate::body::Lower;
use crate::compiler::{Compiler, R, T_U32, T_U64};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Ty, U32, U64};
use ir::{BinOp, Expr as X, ExprKind as K, LocalId, StmtKind, TableId};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Span};
use wireloom_syntax::Diagnostic;

/// The tags of a set lie in 64 bytes.
const MOST_WAYS: u64 = 8;
/// The bits of a tag that are the place.
const PLACE: u64 = 15;

impl Compiler<'_> {
    /// `ways 4`
    pub(super) fn ways(&mut self, module: ModId, e: &Expr) -> R<Ways> {
        let each = self.const_size(module, e)?;
        if !(1..=MOST_WAYS).contains(&each) {
            let d = Diagnostic::error("E0614", e.span, format!("a set has 1 to {MOST_WAYS} ways"));
            return Err(self.report(d.hint("leave `ways` out: then one of the least recently used of all makes room")));
        }
        Ok(Ways { each, tags: TableId(0), sets: 0 })
    }

    /// The table of tags, and as many places for entries as the sets have: at least the capacity.
    pub(super) fn make_sets(&mut self, ways: &mut Ways, entries: &mut ir::Table, leases: &ir::Table) {
        ways.sets = entries.capacity.div_ceil(ways.each).next_power_of_two();
        (entries.capacity, entries.evict_lru) = (ways.sets * ways.each, false);
        let value = Ty::Tuple(vec![U64; ways.each as usize]);
        let name = format!("{}.tags", entries.name);
        let tags = ir::Table { name, value: self.lower_ty(&value), capacity: ways.sets, ..leases.clone() };
        ways.tags = self.add_table(tags, U32, value);
    }
}

fn and(a: X, b: u64) -> X {
    build::bin(T_U64, BinOp::BitAnd, a, build::u64(b))
}

fn if_(cond: X, then: X, other: X) -> X {
    build::if_(T_U64, cond, then, other)
}

impl Lower<'_, '_> {
    /// The set of a key, and what its tag has of its hash.
    fn set_of(&mut self, ways: Ways, key: LocalId, span: Span) -> (LocalId, LocalId) {
        let hash = self.hash_of(key);
        let hash = self.temp("hash", &U64, hash, span);
        let high = build::bin(T_U64, BinOp::Shr, self.local_expr(hash), build::u32(32));
        let set = build::cast(T_U32, and(high, ways.sets - 1));
        let tag = and(self.local_expr(hash), !PLACE);
        (self.temp("set", &U32, set, span), self.temp("tag", &U64, tag, span))
    }

    /// Where the entry of a key is looked for; of a cache without ways, the key itself.
    pub(super) fn place_of_entry(&mut self, cache: &Cache, key: LocalId, span: Span) -> X {
        let Some(ways) = cache.ways else { return self.local_expr(key) };
        let (set, tag) = self.set_of(ways, key, span);
        let ty = Ty::Tuple(vec![U64; ways.each as usize]);
        let (t, tags) = (self.cx.lower_ty(&ty), self.new_local("tags", &ty.option()));
        self.push(span, StmtKind::TableGet { table: ways.tags, key: self.local_expr(set), dst: tags });
        let all = build::unwrap(t, self.local_expr(tags));
        let mut place = build::u64(0);
        for n in (0..ways.each).rev() {
            let one = X::new(T_U64, K::Get(all.clone(), n as u32));
            place = if_(self.is_tagged(&one, tag), and(one, PLACE), place);
        }
        let there = build::is_some(self.local_expr(tags));
        let place = self.temp("way", &U64, if_(there, place, build::u64(0)), span);
        // No entry has the largest number.
        let known = build::cmp(BinOp::Ne, self.local_expr(place), build::u64(0));
        let at = self.place_number(ways, set, self.local_expr(place));
        let at = build::if_(T_U32, known, at, build::u32(u32::MAX));
        let at = self.temp("place", &U32, at, span);
        self.local_expr(at)
    }

    /// The place that an entry of a key takes.
    pub(super) fn place_for_entry(&mut self, cache: &Cache, key: LocalId, span: Span) -> X {
        let Some(ways) = cache.ways else { return self.local_expr(key) };
        let (set, tag) = self.set_of(ways, key, span);
        let place = self.move_to_front(ways, (set, tag), true, span);
        let at = self.place_number(ways, set, self.local_expr(place));
        let at = self.temp("place", &U32, at, span);
        self.local_expr(at)
    }

    /// A hit: the key's tag is the one that was used last.
    pub(super) fn used_last(&mut self, cache: &Cache, key: LocalId, span: Span) {
        let Some(ways) = cache.ways.filter(|w| w.each > 1) else { return };
        let (set, tag) = self.set_of(ways, key, span);
        let ty = Ty::Tuple(vec![U64; ways.each as usize]);
        let (t, tags) = (self.cx.lower_ty(&ty), self.new_local("tags", &ty.option()));
        self.push(span, StmtKind::TableGet { table: ways.tags, key: self.local_expr(set), dst: tags });
        let first = X::new(T_U64, K::Get(build::unwrap(t, self.local_expr(tags)), 0));
        let cond = build::and(build::is_some(self.local_expr(tags)), build::not(self.is_tagged(&first, tag)));
        let (_, then) = self.sub(|s| s.move_to_front(ways, (set, tag), false, span));
        self.push(span, StmtKind::If { cond, then, other: vec![] });
    }

    /// Whether an entry is that of the key.
    pub(super) fn is_of_key(&self, entry: &X, key: LocalId) -> X {
        let wanted = self.local_expr(key);
        build::cmp(BinOp::Eq, X::new(wanted.ty, K::Get(entry.clone(), 3)), wanted)
    }

    fn place_number(&self, ways: Ways, set: LocalId, place: X) -> X {
        let first = build::bin(T_U32, BinOp::Mul, self.local_expr(set), build::u32(ways.each as u32));
        let within = build::bin(T_U64, BinOp::Sub, place, build::u64(1));
        build::bin(T_U32, BinOp::Add, first, build::cast(T_U32, within))
    }

    /// Whether a place has an entry of this hash.
    fn is_tagged(&self, one: &X, tag: LocalId) -> X {
        let same = build::cmp(BinOp::Eq, and(one.clone(), !PLACE), self.local_expr(tag));
        build::and(build::cmp(BinOp::Ne, one.clone(), build::u64(0)), same)
    }

    /// Moves a key's tag to the front of its set, in one step, and gives its place. A key without
    /// one gets a free place, or that of the last tag; or, without `takes`, none.
    fn move_to_front(&mut self, ways: Ways, (set, tag): (LocalId, LocalId), takes: bool, span: Span) -> LocalId {
        let (n, ty) = (ways.each as usize, Ty::Tuple(vec![U64; ways.each as usize]));
        let place = self.temp("way", &U64, build::u64(1), span);
        let entry = self.new_local("tags", &ty);
        let t = self.cx.lower_ty(&ty);
        let ((), body) = self.sub(|s| {
            let old: Vec<X> = (0..n).map(|i| X::new(T_U64, K::Get(s.local_expr(entry), i as u32))).collect();
            let old: Vec<X> = old.into_iter().map(|e| s.kept_in("old", &U64, e, span)).collect();
            let tagged: Vec<X> = old.iter().map(|o| s.is_tagged(o, tag)).collect();
            let tagged: Vec<X> = tagged.into_iter().map(|e| s.kept_in("tagged", &Ty::Bool, e, span)).collect();
            let any = tagged.iter().cloned().fold(build::boolean(false), build::or);
            let any = s.kept_in("known", &Ty::Bool, any, span);
            // Where the tags before it end that move up by one.
            let (mut ends, mut before) = (Vec::new(), vec![build::boolean(false)]);
            for i in 0..n {
                let free = build::and(build::not(any.clone()), build::cmp(BinOp::Eq, old[i].clone(), build::u64(0)));
                ends.push(s.kept_in("ends", &Ty::Bool, build::or(tagged[i].clone(), free), span));
                before.push(s.kept_in("before", &Ty::Bool, build::or(before[i].clone(), ends[i].clone()), span));
            }
            let mut at = and(old[n - 1].clone(), PLACE);
            for i in (0..n).rev() {
                let here = if_(tagged[i].clone(), and(old[i].clone(), PLACE), build::u64(i as u64 + 1));
                at = if_(ends[i].clone(), here, at);
            }
            s.push(span, StmtKind::Set(place, at));
            let mut new = vec![build::bin(T_U64, BinOp::BitOr, s.local_expr(tag), s.local_expr(place))];
            new.extend((1..n).map(|i| if_(before[i].clone(), old[i].clone(), old[i - 1].clone())));
            let new = X::new(t, K::Make(new));
            let sp = s.cx.span(span);
            let set = build::stmt(sp, StmtKind::Set(entry, new));
            match takes {
                true => s.out.push(set),
                false => s.push(span, StmtKind::If { cond: any, then: vec![set], other: vec![] }),
            }
        });
        let (key, at) = (self.local_expr(set), self.place_id(span));
        self.push(span, StmtKind::TableUpdate { table: ways.tags, key, entry, body, place: at });
        place
    }

    fn kept_in(&mut self, name: &str, ty: &Ty, e: X, span: Span) -> X {
        let l = self.temp(name, ty, e, span);
        self.local_expr(l)
    }
}
