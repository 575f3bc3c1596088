//! Caches of packets: a request is one packet, its answer another one.
//!
//! In: `cache c: K -> V by X { … }`, whose blocks name the exchange that a packet belongs to. Out:
//! the tables and steps of `caches.rs`, and a table of the requests under way, by exchange. It has
//! what they are about, and the lease that they have taken.
//!
//! | step | |
//! |---|---|
//! | request | notes its exchange as a read, a write, or neither |
//! | a second request of the exchange | which answer belongs to which is not known: none counts |
//! | answer | takes the note, as a whole. A read is filled in, a write ends |
//!
//! A write whose answer does not count stays under way for `write_timeout`, as one without an
//! answer does. Notes are forgotten after that time, too. `forget c` begins a new epoch: entries
//! and leases of older ones are void.

use super::caches::{one_more, Miss};
use super::declarations::{Cache, Exchanges, Role, WayBack};
use crate::body::Lower;
use crate::compiler::{Compiler, R, T_U32, T_U64};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Ty, U64};
use crate::val::Val;
use ir::{BinOp, Expr as X, ExprKind as K, FrameAct, LocalId, StmtKind, TableId, TableKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Block, Expr, ExprKind, Ident, Span, StmtKind as S};
use wireloom_syntax::Diagnostic;

/// Requests under way, at most: the oldest are forgotten.
const MOST_ASKED: u64 = 64 << 10;
/// Parts of a note.
const HASH: u32 = 0;
const KIND: u32 = 1;
const LEASE: u32 = 2;
const AT: u32 = 3;
/// Kinds of notes.
const NONE: u64 = 0;
const READ: u64 = 1;
const WRITE: u64 = 2;
const BESIDE: u64 = 3;
/// There were two requests of the exchange.
const UNCLEAR: u64 = 4;

impl Compiler<'_> {
    /// The tables of exchanges, if it is a cache of packets.
    pub(super) fn exchanges(
        &mut self,
        module: ModId,
        c: &ast::Cache,
        cache: &Cache,
        like: &ir::Table,
    ) -> R<Option<Exchanges>> {
        let Some(by) = &c.by else { return Ok(None) };
        let ty = self.ty(module, by)?;
        self.storable(module, &ty, by.span)?;
        if !cache.allocate_on_read {
            return Err(self.report(
                Diagnostic::error("E0614", c.name.span, "a cache of packets keeps what is read")
                    .hint("add `allocate_on_read`"),
            ));
        }
        let note = Ty::Tuple(vec![U64; 4]);
        let asked = ir::Table {
            name: format!("{}.asked", c.name.name),
            kind: TableKind::Exact,
            key: self.lower_ty(&ty),
            value: self.lower_ty(&note),
            capacity: MOST_ASKED,
            idle: cache.write_timeout,
            evict_lru: true,
            memory: 0,
            ..like.clone()
        };
        let asked = self.add_table(asked, ty.clone(), note);
        let epoch = ir::Table {
            name: format!("{}.epoch", c.name.name),
            kind: TableKind::Array,
            key: T_U32,
            value: T_U64,
            capacity: 1,
            idle: 0,
            evict_lru: false,
            memory: 0,
            ..like.clone()
        };
        let epoch = self.add_table(epoch, Ty::Int { bits: 32, signed: false }, U64);
        Ok(Some(Exchanges { ty, asked, epoch }))
    }
}

impl Lower<'_, '_> {
    /// The exchange that a packet belongs to. None: the cache is one of a service.
    pub(super) fn exchange(&mut self, cache: &Cache, by: Option<&Expr>, span: Span) -> R<Option<LocalId>> {
        match (&cache.exchanges, by) {
            (Some(e), Some(by)) if self.frames => {
                let ty = e.ty.clone();
                let x = self.expr_as(by, &ty)?;
                Ok(Some(self.temp("exchange", &ty, x, span)))
            }
            (None, None) if !self.frames => Ok(None),
            (Some(_), None) if self.frames => Err(self
                .cx
                .report(Diagnostic::error("E0684", span, "which answer belongs to this packet is not said").hint(
                    format!("write `{}[key] by x {{ … }}`, where the answer has the same `x`", cache.name.name),
                ))),
            (None, _) if self.frames => Err(self.cx.report(
                Diagnostic::error("E0684", span, format!("`{}` is a cache of a service", cache.name.name))
                    .also(cache.name.span, "declared here")
                    .hint(
                        "a cache of packets says what joins answers to requests: `cache c: K -> V by (ip4, u16) { … }`",
                    ),
            )),
            (Some(_), _) => Err(self.cx.report(
                Diagnostic::error("E0684", span, format!("`{}` is a cache of packets", cache.name.name))
                    .also(cache.name.span, "declared here")
                    .hint("leave `by` out of its declaration: a call has its answer"),
            )),
            (None, _) => Err(self.cx.report(
                Diagnostic::error("E0684", span, "an exchange is named where requests and answers are packets")
                    .hint("leave `by` out: a call has its answer"),
            )),
        }
    }

    /// A request goes to the server; the way of its answer ends the exchange.
    pub(super) fn packet_missed(
        &mut self,
        cache: &Cache,
        (x, miss, version): (LocalId, Miss, X),
        body: &Block,
        replies: bool,
        span: Span,
    ) -> R<Val> {
        let lease = build::if_(T_U64, self.local_expr(miss.quiet), one_more(version), build::u64(0));
        let parts = [self.hash_of(miss.key), lease, self.local_expr(miss.begun)];
        self.note(cache, x, READ, parts, span);
        let made = self.in_block(cache, Role::Read, |s| s.block(body, Some(&Ty::Unit)))?;
        if replies || made.is_never() {
            return Ok(made);
        }
        Err(self.cx.report(
            Diagnostic::error("E0684", body.span, "the answer to this packet comes later, as another one")
                .label("the block ends without a value")
                .hint("end it with `return`, or write `cached c[key] by x { … } reply(p)`"),
        ))
    }

    /// A write goes to the server, and is under way until it is answered.
    pub(super) fn packet_write(
        &mut self,
        cache: &Cache,
        (x, key): (LocalId, LocalId),
        body: &Block,
        span: Span,
    ) -> R<bool> {
        let parts = [self.hash_of(key), build::u64(0), build::u64(0)];
        self.note(cache, x, WRITE, parts, span);
        Ok(self.in_block(cache, Role::Write, |s| s.block(body, Some(&Ty::Unit)))?.is_never())
    }

    /// A request that neither reads nor writes what is kept. Without `by` it has no answer that
    /// comes here.
    pub(super) fn packet_beside(&mut self, cache: &Cache, by: Option<&Expr>, span: Span) -> R<()> {
        if by.is_none() && self.frames == cache.exchanges.is_some() {
            return Ok(());
        }
        if let Some(x) = self.exchange(cache, by, span)? {
            self.note(cache, x, BESIDE, [build::u64(0), build::u64(0), build::u64(0)], span);
        }
        Ok(())
    }

    /// Notes a request: its kind, and hash, lease and time.
    fn note(&mut self, cache: &Cache, x: LocalId, kind: u64, [hash, lease, at]: [X; 3], span: Span) {
        self.change_note(cache, x, span, |own| {
            let first = build::cmp(BinOp::Eq, own, build::u64(NONE));
            vec![hash, build::if_(T_U64, first, build::u64(kind), build::u64(UNCLEAR)), lease, at]
        });
    }

    /// Takes a note as a whole: of two answers of an exchange one gets it.
    fn take_note(&mut self, cache: &Cache, x: LocalId, span: Span) -> LocalId {
        self.change_note(cache, x, span, |own| {
            let unclear = build::cmp(BinOp::Eq, own.clone(), build::u64(UNCLEAR));
            vec![build::u64(0), build::if_(T_U64, unclear, own, build::u64(NONE)), build::u64(0), build::u64(0)]
        })
    }

    /// Changes a note in one step, by its kind; gives what it was.
    fn change_note(&mut self, cache: &Cache, x: LocalId, span: Span, parts: impl FnOnce(X) -> Vec<X>) -> LocalId {
        let table = cache.exchanges.as_ref().map_or(TableId(0), |e| e.asked);
        let ty = self.cx.tables[table.index()].value.clone();
        let t = self.cx.lower_ty(&ty);
        let was = self.temp("note", &ty, X::new(t, K::Make(vec![build::u64(0); 4])), span);
        let entry = self.new_local("entry", &ty);
        let own = X::new(T_U64, K::Get(self.local_expr(entry), KIND));
        let sp = self.cx.span(span);
        let body = vec![
            build::stmt(sp, StmtKind::Set(was, self.local_expr(entry))),
            build::stmt(sp, StmtKind::Set(entry, X::new(t, K::Make(parts(own))))),
        ];
        let (key, place) = (self.local_expr(x), self.place_id(span));
        self.push(span, StmtKind::TableUpdate { table, key, entry, body, place });
        was
    }

    /// `answered c[k] by x { … } else { … }`: the packet is the answer of an exchange. The block
    /// gives its value where that can be kept. The other one is for answers of which it is not
    /// known what they belong to.
    pub fn answered(
        &mut self,
        entry: &Expr,
        by: &Expr,
        (body, other): (&Block, Option<&Block>),
        span: Span,
    ) -> R<bool> {
        let (cache, key) = self.cache_entry(entry, span)?;
        let Some(x) = self.exchange(&cache, Some(by), span)? else { return Ok(false) };
        let note = self.take_note(&cache, x, span);
        let part = |s: &Self, i| X::new(T_U64, K::Get(s.local_expr(note), i));
        let kind = part(self, KIND);
        let is = |k: u64| build::cmp(BinOp::Eq, kind.clone(), build::u64(k));
        let made = self.branch(
            is(READ),
            span,
            Some(&Ty::Unit),
            |s| s.read_answered(&cache, key, note, body, span),
            |s| {
                s.branch(
                    is(WRITE),
                    span,
                    Some(&Ty::Unit),
                    |s| {
                        let hash = part(s, HASH);
                        let slot = s.slot_of(&cache, hash, span);
                        s.write_ends(&cache, slot, span);
                        Ok(Val::unit())
                    },
                    |s| match other {
                        Some(other) => {
                            let unknown = build::or(is(NONE), is(UNCLEAR));
                            s.branch(
                                unknown,
                                span,
                                Some(&Ty::Unit),
                                |s| s.block(other, Some(&Ty::Unit)),
                                |_| Ok(Val::unit()),
                            )
                        }
                        None => Ok(Val::unit()),
                    },
                )
            },
        )?;
        Ok(made.is_never())
    }

    /// Keeps the value of the block if the answer is about the key that was asked for, and the
    /// lease is still the current one.
    fn read_answered(&mut self, cache: &Cache, key: &Expr, note: LocalId, body: &Block, span: Span) -> R<Val> {
        let (key, slot) = self.cache_key(cache, key, span)?;
        let part = |s: &Self, i| X::new(T_U64, K::Get(s.local_expr(note), i));
        let same = build::cmp(BinOp::Eq, part(self, HASH), self.hash_of(key));
        self.branch(
            same,
            span,
            Some(&Ty::Unit),
            |s| {
                let lease = s.lease_of(cache, slot, span);
                let quiet = s.quiet(cache, lease, span);
                let version = s.version(cache, lease, span);
                let still = build::cmp(BinOp::Eq, part(s, LEASE), one_more(version.clone()));
                let fresh = build::and(s.local_expr(quiet), still);
                s.branch(
                    fresh,
                    span,
                    Some(&Ty::Unit),
                    |s| {
                        let made = s.in_block(cache, Role::Beside, |s| s.block(body, Some(&cache.value)))?;
                        if made.is_never() {
                            return Ok(made);
                        }
                        let made = s.coerce(made, &cache.value, body.span)?;
                        let made = s.temp("made", &cache.value, made, span);
                        let at = part(s, AT);
                        s.put(cache, (key, version, at), made, span);
                        Ok(Val::unit())
                    },
                    |s| {
                        s.push(span, StmtKind::Count(cache.stale, build::u64(1)));
                        Ok(Val::unit())
                    },
                )
            },
            |_| Ok(Val::unit()),
        )
    }

    /// `forget c`: a new epoch begins.
    pub fn forget_all(&mut self, cache: &Expr, span: Span) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.impure = true;
        if let ExprKind::Index(whole, _) = &*cache.kind {
            let name = self.cache_named(whole)?.name.name.clone();
            let d = Diagnostic::error("E0684", cache.span, "`forget` takes a whole cache, no entry");
            return Err(self.cx.report(d.hint(format!("write `forget {name}`"))));
        }
        let cache = self.cache_named(cache)?;
        let Some(e) = &cache.exchanges else {
            return Err(self.cx.report(
                Diagnostic::error("E0684", span, format!("`{}` is a cache of a service", cache.name.name))
                    .hint("its writes are in `write` blocks; `max_age` bounds what it does not see"),
            ));
        };
        let entry = self.new_local("epoch", &U64);
        let more = StmtKind::Set(entry, one_more(self.local_expr(entry)));
        let body = vec![build::stmt(self.cx.span(span), more)];
        let place = self.place_id(span);
        self.push(span, StmtKind::TableUpdate { table: e.epoch, key: build::u32(0), entry, body, place });
        Ok(())
    }

    pub(super) fn epoch_of(&mut self, table: TableId, span: Span) -> X {
        let read = self.new_local("read", &U64.option());
        self.push(span, StmtKind::TableGet { table, key: build::u32(0), dst: read });
        let there = build::is_some(self.local_expr(read));
        build::if_(T_U64, there, build::unwrap(T_U64, self.local_expr(read)), build::u64(0))
    }

    // ---- the answer from the cache ----

    /// `reply(p)`: the packet of the handler, which came from a port.
    pub(super) fn way_back(&mut self, cache: &Cache, p: &Expr) -> R<WayBack> {
        let v = self.expr(p, None)?;
        let frame = self.frame_local(&v, p.span)?;
        let Some(port) = self.came_from.filter(|_| frame == LocalId(0)) else {
            return Err(self.err("E0684", p.span, "only a packet of a port's own handler can go back"));
        };
        if !matches!(cache.value, Ty::Bytes(_)) {
            let d = Diagnostic::error("E0684", p.span, format!("the values of `{}` are no payloads", cache.name.name))
                .hint("keep bytes: `cache c: K -> bytes<1024> by x { … }`; or build the answer from the value");
            return Err(self.cx.report(d));
        }
        Ok(WayBack { packet: p.clone(), frame, port })
    }

    /// The packet goes back with another payload. In the headers that are known to be there, and
    /// those before them, source and destination change places. UDP over IPv4 goes without a
    /// checksum, as it may.
    pub(super) fn reply_packet(&mut self, way: WayBack, payload: Val, span: Span) -> R<Val> {
        self.enter();
        let made = self.turned(&way, payload, span);
        self.leave();
        made?;
        let index = match self.cx.app.is_single(way.port) {
            true => build::u32(0),
            false => X::new(T_U32, K::FrameInstance(way.frame)),
        };
        self.act(
            way.frame,
            FrameAct::Send { port: way.port, index, mark: None, state: Vec::new(), last: false },
            span,
        )?;
        Ok(Val::unit())
    }

    fn turned(&mut self, way: &WayBack, payload: Val, span: Span) -> R<()> {
        let made = StatementMaker { packet: &way.packet, span };
        let kept = Ident { name: "the answer that is kept".into(), span };
        self.bind_all(&[(kept.clone(), payload)]);
        let known: Vec<u32> = (0..self.frame_layers(way.frame).len() as u32)
            .filter(|n| self.proven(&self.there(way.frame, *n)))
            .collect();
        let mut all = Vec::new();
        let layers = self.frame_layers(way.frame);
        let before = |n: &u32| known.iter().any(|k| k == n || ir::frame::leads_to(layers, *n, *k));
        let headers: Vec<u32> = (0..layers.len() as u32).filter(before).collect();
        for n in &headers {
            all.extend(self.without_sum(way.frame, *n, &headers, &made));
        }
        all.push(made.assign(made.of(Ident { name: "payload".into(), span }), made.name(&kept)));
        for n in &headers {
            all.extend(self.exchanged(way.frame, *n, known.contains(n), &made));
        }
        for s in &all {
            self.stmt(s)?;
        }
        Ok(())
    }

    fn there(&self, frame: LocalId, layer: u32) -> X {
        let switch = self.frame_layers(frame)[layer as usize].switch;
        build::case(build::step(&build::msg(frame), ir::Step::Field(switch)), 0)
    }

    /// The name of a header, and its unit.
    fn header_of(&self, frame: LocalId, layer: u32) -> Option<(String, ir::UnitId)> {
        let (unit, l) = (self.frame_unit(frame)?, &self.frame_layers(frame)[layer as usize]);
        Some((self.cx.m.unit(unit).fields[l.header.index()].name.clone()?, l.unit))
    }

    /// `p.h.src` and `p.h.dst` change places, if the header is there.
    fn exchanged(&self, frame: LocalId, layer: u32, known: bool, made: &StatementMaker) -> Option<ast::Stmt> {
        let (header, unit) = self.header_of(frame, layer)?;
        let member = |name: &str| self.cx.units[unit.index()].member(name).filter(|m| m.cases.is_empty());
        if member("src")?.ty != member("dst")?.ty {
            return None;
        }
        let place = |name: &str| made.field(made.header(&header), name);
        let was = Ident { name: "the source".into(), span: made.span };
        let block = vec![
            made.stmt(S::Let { pattern: ast::Pattern::Name(was.clone()), ty: None, value: place("src") }),
            made.assign(place("src"), place("dst")),
            made.assign(place("dst"), made.name(&was)),
        ];
        Some(match known {
            true => made.stmt(S::Expr(made.expr(ExprKind::Block(made.block(block))))),
            false => made.when(made.header(&header), block),
        })
    }

    /// The checksum of a header over IPv4 that may be 0 becomes 0.
    fn without_sum(&self, frame: LocalId, layer: u32, headers: &[u32], made: &StatementMaker) -> Option<ast::Stmt> {
        let (header, unit) = self.header_of(frame, layer)?;
        let sum = self.cx.m.unit(unit).header.checksum?;
        if !matches!(sum.over, ir::Over::Transport { optional: true, .. }) {
            return None;
        }
        let field = self.cx.m.unit(unit).fields[sum.field.index()].name.clone()?;
        let zero = made.expr(ExprKind::Int(0));
        let mut stmt = made.assign(made.field(made.header(&header), &field), zero);
        for n in headers {
            let (name, unit) = self.header_of(frame, *n)?;
            let unit = self.cx.m.unit(unit);
            let Some((src, _)) = unit.header.addresses else { continue };
            if !matches!(self.cx.m.ty(unit.fields[src.index()].ty), ir::Ty::UInt(32)) {
                let absent = made.expr(ExprKind::Unary(ast::UnOp::Not, made.header(&name)));
                stmt = made.when(absent, vec![stmt]);
            }
        }
        Some(made.when(made.header(&header), vec![stmt]))
    }
}

/// Makes statements about a packet that the program has not written.
struct StatementMaker<'a> {
    packet: &'a Expr,
    span: Span,
}

impl StatementMaker<'_> {
    fn expr(&self, kind: ExprKind) -> Expr {
        Expr { span: self.span, kind: Box::new(kind) }
    }

    fn stmt(&self, kind: S) -> ast::Stmt {
        ast::Stmt { span: self.span, kind }
    }

    fn block(&self, stmts: Vec<ast::Stmt>) -> Block {
        Block { span: self.span, stmts }
    }

    fn name(&self, n: &Ident) -> Expr {
        self.expr(ExprKind::Name(n.clone()))
    }

    fn of(&self, field: Ident) -> Expr {
        self.expr(ExprKind::Field(Some(self.packet.clone()), field))
    }

    fn header(&self, name: &str) -> Expr {
        self.of(Ident { name: name.into(), span: self.span })
    }

    fn field(&self, of: Expr, name: &str) -> Expr {
        self.expr(ExprKind::Field(Some(of), Ident { name: name.into(), span: self.span }))
    }

    fn assign(&self, place: Expr, value: Expr) -> ast::Stmt {
        self.stmt(S::Assign { place, op: None, value })
    }

    fn when(&self, cond: Expr, block: Vec<ast::Stmt>) -> ast::Stmt {
        self.stmt(S::Expr(self.expr(ExprKind::If(cond, self.block(block), None))))
    }
}
