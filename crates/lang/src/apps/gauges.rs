//! Token buckets (`limiter`) and two-rate three-colour meters (`meter`, RFC 2698), one or one per
//! key.
//!
//! In: declarations and the calls `l.take(n)`, `m.mark(n)`. Out: tables and updates of their
//! entries. So the rules of tables apply: steering, sharing, expiry, and the rule for full tables.
//!
//! An entry keeps the missing tokens of each bucket, in billionths of a token, and the time of its
//! last refill. So rounding loses nothing, and a new entry, which is zero, has full buckets. Time
//! is that of the current packet, or the clock's where there is none.

use super::arrays::name_at;
use super::declarations::Gauge;
use super::scope::AppName;
use crate::body::Lower;
use crate::compiler::{Compiler, Reported, R, T_BOOL, T_U64};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Ty, U64, U8};
use crate::val::Val;
use ir::{BinOp, Builtin as B, Expr as X, ExprKind as K, LocalId, Rate, StmtKind, TableId, TableKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

/// Billionths of a token.
const NANO: u64 = 1_000_000_000;
/// The largest bucket: twice its billionths fit into 64 bits.
const MOST: u64 = 9_000_000_000;
const WIDE: Ty = Ty::Int { bits: 128, signed: false };

const GREEN: u128 = 0;
const YELLOW: u128 = 1;
const RED: u128 = 2;

impl Compiler<'_> {
    pub fn gauge(&mut self, module: ModId, g: &ast::Gauge) -> R<AppName> {
        let meter = g.word.name == "meter";
        let key = match &g.key {
            Some(t) => {
                let k = self.ty(module, t)?;
                self.storable(module, &k, t.span)?;
                k
            }
            None => U8,
        };
        let parts = if meter { 3 } else { 2 };
        let value = Ty::Tuple(vec![U64; parts]);
        let (k, v) = (self.lower_ty(&key), self.lower_ty(&value));
        let span = self.span(g.name.span);
        let mut table = ir::Table::new(g.name.name.clone(), span, TableKind::Exact, k, v);
        let words: &[&str] = if meter { &["cir", "cbs", "pir", "pbs"] } else { &["rate", "burst"] };
        let mut given: Vec<Option<X>> = vec![None; words.len()];
        self.options_once(g.options.iter().map(|(n, _)| n));
        for (name, e) in &g.options {
            match (words.iter().position(|w| *w == name.name), e) {
                (Some(i), Some(e)) => given[i] = Some(self.rate(module, e, i % 2 == 1)?),
                (Some(_), None) => {
                    return Err(self.error("E0642", name.span, format!("`{}` needs a number", name.name)))
                }
                _ if g.key.is_none() => {
                    let d = Diagnostic::error(
                        "E0641",
                        name.span,
                        format!("a {} without a key has no option `{}`", g.word.name, name.name),
                    );
                    return Err(self.report(d.note(format!("options: {}", words.join(", ")))));
                }
                _ if name.name == "per_core" => {
                    return Err(self.error(
                        "E0641",
                        name.span,
                        format!("a {} is not kept per core: a rate is for all of them", g.word.name),
                    ))
                }
                _ if name.name == "cache" => {
                    return Err(self.error(
                        "E0641",
                        name.span,
                        format!("a {} has no cache: it is changed whenever it is used", g.word.name),
                    ))
                }
                _ => self.table_option(module, &mut table, name, e.as_ref())?,
            }
        }
        if let Some(i) = given.iter().position(Option::is_none) {
            let form = if meter {
                "meter m { cir 10Mbps, cbs 64KiB, pir 20Mbps, pbs 128KiB }"
            } else {
                "limiter l { rate 1000, burst 100 }"
            };
            return Err(self.report(
                Diagnostic::error("E0643", g.name.span, format!("`{}` has no `{}`", g.name.name, words[i]))
                    .hint(format!("write `{form}`")),
            ));
        }
        if g.key.is_none() {
            table.capacity = 1;
        }
        if table.capacity == 0 {
            let d = Diagnostic::error("E0704", g.name.span, format!("`{}` has no capacity", g.name.name))
                .label("for how many keys?")
                .hint("write `capacity 100K`");
            return Err(self.report(d));
        }
        let given: Vec<X> = given.into_iter().flatten().collect();
        if meter {
            table.rates = Some(self.rates(g, &given)?);
        }
        let buckets = given.chunks(2).map(|c| (c[0].clone(), c[1].clone())).collect();
        self.m.tables.push(table);
        self.tables.push(crate::items::TableTy { key, value });
        let table = TableId(self.m.tables.len() as u32 - 1);
        Ok(AppName::Gauge(std::rc::Rc::new(Gauge { table, keyed: g.key.is_some(), meter, buckets })))
    }

    /// The committed and the peak rate of a meter. Those that are parameters the runtime compares.
    fn rates(&mut self, g: &ast::Gauge, given: &[X]) -> R<[Rate; 2]> {
        let rates = [declared(&given[0]), declared(&given[2])];
        if let [Rate::Number(cir), Rate::Number(pir)] = rates {
            if pir < cir {
                let at = g.options.iter().find(|(n, _)| n.name == "pir").map_or(g.name.span, |(n, _)| n.span);
                let text = format!("the peak rate is {pir} a second, below the committed rate of {cir}");
                return Err(self.report(Diagnostic::error("E0649", at, text).hint("`pir` is at least `cir`")));
            }
        }
        Ok(rates)
    }

    /// A rate or a bucket's size: a constant or a parameter. Bits per second are bytes per second.
    fn rate(&mut self, module: ModId, e: &Expr, size: bool) -> R<X> {
        let limited = |x: X| if size { build::builtin(T_U64, B::Min, vec![x, build::u64(MOST)]) } else { x };
        if let ExprKind::Name(n) = &*e.kind {
            match self.app.get(&n.name).cloned() {
                Some(AppName::Param(id, Ty::Int { signed: false, bits })) if bits <= 64 => {
                    let t = self.lower_ty(&Ty::Int { signed: false, bits });
                    return Ok(limited(build::cast(T_U64, X::new(t, K::Param(id)))));
                }
                Some(AppName::Failed) => return Err(Reported),
                _ => {}
            }
        }
        let bits = matches!(&*e.kind, ExprKind::Scaled(_, suffix) if suffix.ends_with("bps"));
        let n = self.number_in_app(module, e)? / if bits { 8 } else { 1 };
        if size && n > MOST {
            return Err(self.error("E0304", e.span, "a bucket holds at most 9G"));
        }
        Ok(build::u64(n))
    }

    /// A number that may be a parameter of the current element.
    pub fn number_in_app(&mut self, module: ModId, e: &Expr) -> R<u64> {
        if let ExprKind::Name(n) = &*e.kind {
            if let Some(AppName::Const(Val { kind: crate::val::Vk::Pure(v), .. })) = self.app.get(&n.name) {
                if let Some(n) = build::as_int(v) {
                    return u64::try_from(n).map_err(|_| Reported);
                }
            }
        }
        self.const_u64(module, e)
    }

    /// The colours of packets: those of `std.packet`, which programs can name, or the same without
    /// a name.
    fn colour(&mut self, span: Span) -> R<ir::EnumId> {
        let item = self
            .names
            .packet
            .and_then(|m| self.names.modules.get(m))
            .and_then(|m| m.names.get("Color"))
            .map(|(id, _)| *id);
        if let Some(id) = item {
            if let crate::items::Item::Enum(e) = self.item(id, span)? {
                return Ok(e);
            }
        }
        if let Some(n) = self.m.enums.iter().position(|e| e.name == "Color") {
            return Ok(ir::EnumId(n as u32));
        }
        let variants = ["green", "yellow", "red"].iter().zip(0..).map(|(n, v)| (n.to_string(), v)).collect();
        self.m.enums.push(ir::Enum { name: "Color".into(), bits: 8, open: false, variants });
        Ok(ir::EnumId(self.m.enums.len() as u32 - 1))
    }
}

impl Lower<'_, '_> {
    /// `l`, `l[key]`: the limiter or meter that a method is called on.
    pub fn gauge_of<'e>(&self, e: &'e Expr) -> Option<(std::rc::Rc<Gauge>, Option<&'e Expr>)> {
        let (name, key) = name_at(e)?;
        if !self.in_app || self.lookup(&name.name).is_some() {
            return None;
        }
        if let AppName::Gauge(g) = self.cx.app.get(&name.name)? {
            Some((g.clone(), key))
        } else {
            None
        }
    }

    pub fn gauge_method(&mut self, g: &Gauge, key: Option<&Expr>, name: &Ident, args: &[Arg], span: Span) -> R<Val> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.impure = true;
        let own = format!("{}{}", self.table_called(g.table), if g.keyed { "[key]" } else { "" });
        let (word, forms) = if g.meter {
            ("mark", format!("`{own}.mark(p.len)`, `{own}.mark(p.len, color)`"))
        } else {
            ("take", format!("`{own}.take(1)`, `{own}.take(p.len)`"))
        };
        if name.name != word {
            let what = if g.meter { "meter" } else { "limiter" };
            return Err(self.cx.report(
                Diagnostic::error("E0201", name.span, format!("a {what} has no method `{}`", name.name))
                    .hint(format!("write {forms}")),
            ));
        }
        if args.is_empty() || args.len() > 1 + usize::from(g.meter) || args.iter().any(|a| a.name.is_some()) {
            return Err(self.cx.report(
                Diagnostic::error("E0308", span, format!("`{word}` takes another number of arguments"))
                    .hint(format!("write {forms}")),
            ));
        }
        let key_ty = self.cx.tables[g.table.index()].key.clone();
        let key = match (key, g.keyed) {
            (Some(k), true) => self.expr_as(k, &key_ty)?,
            (None, false) => {
                let t = self.cx.lower_ty(&U8);
                build::int(t, 0)
            }
            (None, true) => {
                let hint = format!("write `{}[key].{word}(…)`", self.table_called(g.table));
                return Err(self.cx.report(Diagnostic::error("E0711", span, "this one is kept per key").hint(hint)));
            }
            (Some(k), false) => return Err(self.err("E0715", k.span, "this one has no key")),
        };
        let n = self.expr_as(&args[0].value, &U64)?;
        let n = self.now_local(n, span);
        if g.meter {
            self.mark(g, key, n, args.get(1), span)
        } else {
            self.take(g, key, n, span)
        }
    }

    fn now_local(&mut self, e: X, span: Span) -> X {
        let l = self.temp("", &U64, e, span);
        self.local_expr(l)
    }

    /// ns since 1970: the arrival of the current packet, unless it has waited since.
    fn time_of_gauges(&self) -> X {
        let frame = |l: &ir::Local| matches!(self.cx.m.types[l.ty.index()], ir::Ty::Msg(u) if self.cx.m.units[u.index()].frame.is_some());
        if self.arrival && self.locals.first().is_some_and(frame) {
            return X::new(T_U64, K::FrameTime(LocalId(0)));
        }
        build::builtin(T_U64, B::UnixNanos, vec![])
    }

    fn take(&mut self, g: &Gauge, key: X, n: X, span: Span) -> R<Val> {
        let ok = self.temp("", &Ty::Bool, build::boolean(false), span);
        let buckets = g.buckets.clone();
        self.refill(g, key, span, |s, missing| {
            let (_, burst) = &buckets[0];
            let fits = s.enough(&n, burst, missing[0]);
            let after = s.taken(missing[0], &n);
            let sp = s.cx.span(span);
            let then = vec![
                build::stmt(sp, StmtKind::Set(ok, build::boolean(true))),
                build::stmt(sp, StmtKind::Set(missing[0], after)),
            ];
            s.push(span, StmtKind::If { cond: fits, then, other: vec![] });
        });
        Ok(Val::pure(Ty::Bool, self.local_expr(ok)))
    }

    fn mark(&mut self, g: &Gauge, key: X, n: X, colour: Option<&Arg>, span: Span) -> R<Val> {
        let ty = Ty::Enum(self.cx.colour(span)?);
        let t = self.cx.lower_ty(&ty);
        let before = match colour {
            Some(a) => {
                let e = self.expr_as(&a.value, &ty)?;
                let l = self.temp("", &ty, e, span);
                self.local_expr(l)
            }
            None => build::int(t, GREEN),
        };
        let mark = self.temp("", &ty, build::int(t, RED), span);
        let buckets = g.buckets.clone();
        self.refill(g, key, span, |s, missing| {
            let (committed, peak) = (missing[0], missing[1]);
            let within = |s: &mut Self, i: usize| s.enough(&n, &buckets[i].1, missing[i]);
            let (in_committed, in_peak) = (within(s, 0), within(s, 1));
            let (less_c, less_p) = (s.taken(committed, &n), s.taken(peak, &n));
            let sp = s.cx.span(span);
            let set = |l, e| build::stmt(sp, StmtKind::Set(l, e));
            let not_yellow = build::cmp(BinOp::Eq, before.clone(), build::int(t, GREEN));
            let not_red = build::cmp(BinOp::Ne, before.clone(), build::int(t, RED));
            let green = vec![set(committed, less_c), set(mark, build::int(t, GREEN))];
            let other = vec![set(mark, build::int(t, YELLOW))];
            let both = build::stmt(sp, StmtKind::If { cond: build::and(not_yellow, in_committed), then: green, other });
            s.push(
                span,
                StmtKind::If { cond: build::and(not_red, in_peak), then: vec![set(peak, less_p), both], other: vec![] },
            );
        });
        Ok(Val::pure(ty, self.local_expr(mark)))
    }

    /// Whether n tokens are there: n fits into the bucket, and the missing tokens leave room for
    /// it.
    fn enough(&mut self, n: &X, burst: &X, missing: LocalId) -> X {
        let small = build::cmp(BinOp::Le, n.clone(), burst.clone());
        let all = build::bin(T_U64, BinOp::Mul, burst.clone(), build::u64(NANO));
        let all = crate::fold::fold(&self.cx.m, &all);
        small_and(small, build::cmp(BinOp::Le, self.taken(missing, n), all))
    }

    /// The missing tokens once n are taken.
    fn taken(&self, missing: LocalId, n: &X) -> X {
        build::bin(
            T_U64,
            BinOp::Add,
            self.local_expr(missing),
            build::bin(T_U64, BinOp::Mul, n.clone(), build::u64(NANO)),
        )
    }

    /// Updates the entry: its buckets are filled for the time that has passed; then `then` takes
    /// from them. It gets the missing tokens of each.
    fn refill(&mut self, g: &Gauge, key: X, span: Span, then: impl FnOnce(&mut Self, &[LocalId])) {
        let value = self.cx.tables[g.table.index()].value.clone();
        let t = self.cx.lower_ty(&value);
        let wide = self.cx.lower_ty(&WIDE);
        let now = self.time_of_gauges();
        let entry = self.new_local("", &value);
        let buckets = g.buckets.clone();
        let ((), body) = self.sub(|s| {
            let part = |s: &Self, i: usize| X::new(T_U64, K::Get(s.local_expr(entry), i as u32));
            let now = s.now_local(now, span);
            let last = part(s, buckets.len());
            let passed = build::cast(wide, build::bin(T_U64, BinOp::SubSat, now.clone(), last.clone()));
            let missing: Vec<LocalId> = buckets
                .iter()
                .enumerate()
                .map(|(i, (rate, _))| {
                    let gained = build::bin(wide, BinOp::Mul, passed.clone(), build::cast(wide, rate.clone()));
                    let gained = s.temp("", &WIDE, gained, span);
                    let gained = s.local_expr(gained);
                    let before = part(s, i);
                    let full = build::cmp(BinOp::Ge, gained.clone(), build::cast(wide, before.clone()));
                    let left = build::bin(T_U64, BinOp::Sub, before, build::cast(T_U64, gained));
                    let l = s.temp("", &U64, X::new(T_U64, K::If(full, build::u64(0), left)), span);
                    s.bounds.remove(&l);
                    l
                })
                .collect();
            then(s, &missing);
            let latest = build::builtin(T_U64, B::Max, vec![now, last]);
            let parts = missing.iter().map(|l| s.local_expr(*l)).chain([latest]).collect();
            s.push(span, StmtKind::Set(entry, X::new(t, K::Make(parts))));
        });
        let place = self.place_id(span);
        self.push(span, StmtKind::TableUpdate { table: g.table, key, entry, body, place });
    }
}

/// The parameter or the number of which a rate is made.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn declared(rate: &X) -> Rate {
    match &*rate.kind {
        K::Param(p) => Rate::Param(p.0),
        K::Cast(inner) => declared(inner),
        _ => Rate::Number(build::as_int(rate).and_then(|n| n.try_into().ok()).unwrap_or(0)),
    }
}

fn small_and(a: X, b: X) -> X {
    X::new(T_BOOL, K::Binary(BinOp::And, a, b))
}
