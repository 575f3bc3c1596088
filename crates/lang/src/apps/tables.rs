//! Tables of other kinds than exact, and the signals of every table in a packet app.
//!
//! The signals are `NAME.get`, `.insert`, `.remove`, `.next`, `.len` and `.clear`. They are made
//! like signals that a program declares itself.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of Ty")]

use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R, T_BOOL, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U32, U64};
use crate::val::{Val, Vk};
use ir::desc::{Form, ParamType, ParamValue, ResultType};
use ir::{BinOp, Builtin as B, Expr as X, ExprKind as K, FaultKind, LocalId, StmtKind, TableId, TableKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, FileId, Ident, Span};
use wireloom_syntax::Diagnostic;

/// The largest text of an enum's variant that a signal takes.
const VARIANT: u32 = 64;
/// The largest answer; tables with larger entries have no `get` and `next`.
const MAX_RESULT: u64 = 64 << 10;

impl Compiler<'_> {
    /// The kind of a table, if key and value fit it.
    pub fn table_kind(&mut self, t: &ast::Table, key: &Ty, value: &Ty) -> R<TableKind> {
        let Some(word) = &t.kind else { return Ok(TableKind::Exact) };
        let fail = |c: &mut Self, span, text: &str, hint: &str| {
            let d = Diagnostic::error("E0705", span, text);
            Err(c.report(if hint.is_empty() { d } else { d.hint(hint.to_string()) }))
        };
        match word.name.as_str() {
            "wildcard" => {
                let parts = parts_of(self, key, "k", "key");
                if parts.is_empty() || parts.iter().any(|p| !is_masked(&p.ty)) {
                    return fail(
                        self,
                        t.key.span,
                        "a wildcard table's key is made of integers and addresses",
                        "write a tuple or record of them: `wildcard (ip4, u16) -> Action`",
                    );
                }
                Ok(TableKind::Wildcard)
            }
            "lpm" if !matches!(key, Ty::Ip | Ty::Ip4 | Ty::Ip6) => {
                fail(self, t.key.span, "a table of prefixes has addresses as keys", "ip, ip4 or ip6")
            }
            "lpm" => Ok(TableKind::Lpm),
            "array" if !matches!(key, Ty::Int { signed: false, bits } if *bits <= 64) => {
                fail(self, t.key.span, "an array's key is an unsigned integer", "")
            }
            "array" => Ok(TableKind::Array),
            "ring" => Ok(TableKind::Ring),
            "hyper_log_log" if *value != Ty::Bool => {
                fail(self, t.value.span, "a HyperLogLog has no values", "leave it out: `hyper_log_log flow5`")
            }
            "hyper_log_log" => Ok(TableKind::HyperLogLog),
            "bloom" if *value != Ty::Bool => fail(
                self,
                t.value.span,
                "a Bloom filter's value is a bool",
                "leave it out: `bloom flow5 { capacity 1M }`",
            ),
            "bloom" => Ok(TableKind::Bloom),
            _ if *value != U64 => fail(self, t.value.span, "a count-min sketch counts in u64", ""),
            _ => Ok(TableKind::CountMin),
        }
    }

    /// Signals of all tables of the app.
    pub fn table_signals(&mut self) {
        self.signal_names = self.m.signals.iter().map(|s| s.name.clone()).collect();
        for n in 0..self.m.tables.len() {
            let id = TableId(n as u32);
            let table = self.m.tables[n].clone();
            let Some(entry) = self.table_entry(id) else { continue };
            let span = Span { file: FileId(table.span.file), start: table.span.start, end: table.span.end };
            let sketch = matches!(table.kind, TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog);
            let ring = table.kind == TableKind::Ring;
            let masked = matches!(table.kind, TableKind::Wildcard | TableKind::Lpm);
            let add =
                |c: &mut Self, what: &str, doc: &str, make: &dyn Fn(&mut Lower, &EntryType) -> R<SignalResult>| {
                    let _ = c.table_signal(&table.name, (what, doc), &entry, span, make);
                };
            if table.kind != TableKind::HyperLogLog {
                add(self, "get", "the value of a key", &|l, e| l.signal_get(id, e, span));
            }
            if ring {
                add(self, "insert", "adds a value behind the others", &|l, e| l.signal_push(id, e, span));
            } else if !matches!(table.kind, TableKind::Bloom | TableKind::HyperLogLog) {
                add(self, "insert", "adds or replaces an entry", &|l, e| l.signal_insert(id, e, masked, true, span));
            } else {
                add(self, "insert", "adds a key", &|l, e| l.signal_insert(id, e, false, false, span));
            }
            if ring {
                add(self, "next", "the value at a cursor and the next cursor; 0 begins", &|l, e| {
                    l.signal_next(id, e, span)
                });
            } else if !sketch {
                add(self, "remove", "removes an entry; whether it was there", &|l, e| {
                    l.signal_remove(id, e, masked, span)
                });
                add(
                    self,
                    "next",
                    "the entry at a cursor, if one is near, and the next cursor; 0 begins, all ones is the end",
                    &|l, e| l.signal_next(id, e, span),
                );
            }
            add(self, "len", "how many entries there are", &|l, _| {
                let dst = l.new_local("n", &U64);
                l.push(span, StmtKind::TableLen { table: id, dst });
                let v = Val::pure(U64, l.local_expr(dst));
                l.signal_result(v, span)
            });
            if table.kind == TableKind::Exact {
                add(self, "clear", "removes all entries", &|l, e| l.signal_clear(id, e, span));
            }
        }
    }

    fn table_entry(&mut self, id: TableId) -> Option<EntryType> {
        let t = &self.tables[id.index()];
        let (key, value) = (t.key.clone(), t.value.clone());
        let (mut keys, mut values) = (parts_of(self, &key, "k", "key"), parts_of(self, &value, "v", "value"));
        let masked = matches!(self.m.tables[id.index()].kind, TableKind::Wildcard | TableKind::Lpm);
        let mut taken = if masked { vec!["priority".to_string()] } else { vec![] };
        apart(&mut keys, "key", &taken);
        taken.extend(keys.iter().map(|p| p.name.clone()));
        if masked {
            taken.extend(keys.iter().map(|p| format!("{}_mask", p.name)));
        }
        apart(&mut values, "value", &taken);
        let ok = |c: &mut Self, parts: &[EntryField]| parts.iter().all(|p| c.argument_type(&p.ty).is_some());
        if !ok(self, &keys) {
            return None;
        }
        let settable = ok(self, &values);
        let readable = self.answerable(&value, 0);
        let listed = readable && self.answerable(&key, 0);
        Some(EntryType { key, value, keys, values, settable, readable, listed })
    }

    /// Whether a signal can answer it.
    fn answerable(&self, t: &Ty, depth: u32) -> bool {
        let all = |ts: Vec<&Ty>| depth < 16 && ts.into_iter().all(|t| self.answerable(t, depth + 1));
        match t {
            Ty::Int { bits, .. } => *bits <= 64,
            Ty::Bool
            | Ty::Enum(_)
            | Ty::Duration
            | Ty::Instant
            | Ty::Mac
            | Ty::Bytes(_)
            | Ty::Ip
            | Ty::Ip4
            | Ty::Ip6
            | Ty::Endpoint => true,
            Ty::Option(t) => all(vec![t]),
            Ty::Tuple(ts) => all(ts.iter().collect()),
            Ty::Record(r) => all(self.records[r.index()].iter().map(|(_, t)| t).collect()),
            _ => false,
        }
    }

    /// How a value comes in from outside.
    fn argument_type(&self, t: &Ty) -> Option<ParamType> {
        Some(match t {
            Ty::Bool => ParamType::Bool,
            Ty::Int { bits, signed: false } if *bits <= 64 => ParamType::UInt(*bits),
            Ty::Int { bits: 128, .. } | Ty::Ip | Ty::Ip6 => ParamType::Bytes(16),
            Ty::Ip4 => ParamType::UInt(32),
            Ty::Mac => ParamType::UInt(48),
            Ty::Instant => ParamType::UInt(64),
            Ty::Duration => ParamType::Duration,
            Ty::Bytes(n) if *n <= 1 << 24 => ParamType::Bytes(*n as u32),
            Ty::Enum(_) => ParamType::Bytes(VARIANT),
            _ => return None,
        })
    }

    /// How it is written.
    pub(super) fn argument_form(&self, t: &Ty) -> Form {
        match t {
            Ty::Ip => Form::Ip,
            Ty::Ip6 => Form::Ip6,
            Ty::Int { bits: 128, .. } => Form::Wide,
            Ty::Ip4 => Form::Ip4,
            Ty::Mac => Form::Mac,
            Ty::Enum(e) => {
                let e = &self.m.enums[e.index()];
                let others = e.open.then(|| ir::desc::OTHERS.to_string());
                Form::Enum(e.variants.iter().map(|(n, _)| n.clone()).chain(others).collect())
            }
            Ty::Error
            | Ty::Never
            | Ty::Unit
            | Ty::Bool
            | Ty::Lit
            | Ty::Int { .. }
            | Ty::Duration
            | Ty::Instant
            | Ty::Fault
            | Ty::Endpoint
            | Ty::Prefix
            | Ty::Handle
            | Ty::Bytes(_)
            | Ty::None
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Tuple(_)
            | Ty::Record(_)
            | Ty::Msg(_)
            | Ty::Kept(..)
            | Ty::Items(..)
            | Ty::Switch(..)
            | Ty::Stream
            | Ty::Replies(_)
            | Ty::Port(_)
            | Ty::Table(_)
            | Ty::Conn => Form::Plain,
        }
    }

    fn table_signal(
        &mut self,
        table: &str,
        (what, doc): (&str, &str),
        entry: &EntryType,
        span: Span,
        make: &dyn Fn(&mut Lower, &EntryType) -> R<SignalResult>,
    ) -> R<()> {
        let name = format!("{table}.{what}");
        if self.signal_names.contains(&name)
            || what == "insert" && !entry.settable
            || what == "get" && !entry.readable
            || what == "next" && !entry.listed
        {
            return Ok(());
        }
        let mut l = Lower::new(self, 0, Kind::Handler);
        l.in_app = true;
        l.variants_by_name = true;
        l.place = format!("table {table}");
        let (result, e, max) = make(&mut l, entry)?;
        if max > MAX_RESULT {
            return Ok(());
        }
        let ret = e.ty;
        l.push(span, StmtKind::Return(Some(e)));
        let (args, mut forms, mut defaults) = (
            std::mem::take(&mut l.signal_args),
            std::mem::take(&mut l.signal_forms),
            std::mem::take(&mut l.signal_defaults),
        );
        while forms.last() == Some(&Form::Plain) {
            forms.pop();
        }
        while defaults.last() == Some(&None) {
            defaults.pop();
        }
        let masked = l.signal_masked;
        let body = l.body();
        let at = self.span(span);
        let index = self.m.signals.len() as u32;
        self.signal_names.insert(name.clone());
        self.m.signals.push(ir::Signal {
            name: name.clone(),
            doc: doc.to_string(),
            span: at,
            args,
            forms,
            defaults,
            masked,
            exported: false,
            result,
            ret,
        });
        self.add_handler(&format!("signal {name}"), ir::On::Signal(index), span, body);
        Ok(())
    }
}

/// A signal's result: its type, its bytes, and how many they are at most.
pub(super) type SignalResult = (ResultType, X, u64);

/// The type of an entry.
struct EntryType {
    key: Ty,
    value: Ty,
    keys: Vec<EntryField>,
    values: Vec<EntryField>,
    /// Values can come in from outside; can go out; so can keys.
    settable: bool,
    readable: bool,
    listed: bool,
}

/// A field of a key or value, its default, and the values that may come in; none: all.
#[derive(Clone)]
struct EntryField {
    name: String,
    ty: Ty,
    default: Option<ParamValue>,
    within: Vec<(u64, u64)>,
}

/// The parts of a record or tuple. Parts of a tuple have the letter and a number as names. A value
/// without parts is the whole.
fn parts_of(c: &Compiler, t: &Ty, letter: &str, whole: &str) -> Vec<EntryField> {
    let part = |name: String, ty: &Ty| EntryField { name, ty: ty.clone(), default: None, within: vec![] };
    match t {
        Ty::Record(r) => c.records[r.index()]
            .iter()
            .map(|(n, t)| {
                let says = c.record_says.get(&(*r, n.clone())).cloned().unwrap_or_default();
                EntryField {
                    default: says.default.and_then(|x| outside(c, &x, t)),
                    within: says.within,
                    ..part(n.clone(), t)
                }
            })
            .collect(),
        Ty::Tuple(ts) => ts.iter().enumerate().map(|(i, t)| part(format!("{letter}{i}"), t)).collect(),
        t => vec![part(whole.to_string(), t)],
    }
}

/// A name that another argument has already is made another one.
fn apart(parts: &mut [EntryField], before: &str, taken: &[String]) {
    for p in parts {
        while taken.contains(&p.name) {
            p.name = format!("{before}_{}", p.name);
        }
    }
}

/// A constant as it would come in from outside.
fn outside(c: &Compiler, x: &X, t: &Ty) -> Option<ParamValue> {
    Some(match (&*x.kind, t) {
        (K::Cast(n), Ty::Ip) => ParamValue::Bytes(build::as_int(n)?.to_be_bytes().to_vec()),
        (K::Int(n), Ty::Ip6 | Ty::Int { bits: 128, .. }) => ParamValue::Bytes(n.to_be_bytes().to_vec()),
        (K::Int(n), Ty::Enum(e)) => ParamValue::Bytes(
            c.m.enums[e.index()].variants.iter().find(|(_, v)| u128::from(*v) == *n)?.0.clone().into_bytes(),
        ),
        (K::Int(n), Ty::Duration) => ParamValue::Duration(*n as u64),
        (K::Int(n), _) => ParamValue::UInt(*n as u64),
        (K::Bool(b), _) => ParamValue::Bool(*b),
        (K::Bytes(b), _) => ParamValue::Bytes(b.clone()),
        _ => return None,
    })
}

fn is_masked(t: &Ty) -> bool {
    matches!(t, Ty::Int { signed: false, .. } | Ty::Ip | Ty::Ip4 | Ty::Ip6 | Ty::Mac)
}

impl Compiler<'_> {
    /// The most steps of a walk over a table, whose entries may move meanwhile.
    pub(super) fn steps_of_walk(&self, table: TableId) -> u64 {
        self.m.tables[table.index()].capacity.saturating_mul(2).saturating_add(64)
    }
}

impl Lower<'_, '_> {
    /// An argument's local.
    fn arg(&mut self, part: &EntryField) -> R<(LocalId, Ty)> {
        let EntryField { name, ty: t, default, within } = part;
        let p = self.cx.argument_type(t).ok_or(Reported)?;
        let local = match p {
            ParamType::Bytes(n) => Ty::Bytes(n.into()),
            ParamType::Bool
            | ParamType::UInt(_)
            | ParamType::Duration
            | ParamType::Endpoint
            | ParamType::Texts(..)
            | ParamType::Endpoints(_) => t.clone(),
        };
        self.signal_args.push((name.clone(), p));
        let form = if within.is_empty() { self.cx.argument_form(t) } else { Form::Within(within.clone()) };
        self.signal_forms.push(form);
        self.signal_defaults.push(default.clone());
        Ok((self.new_local(name, &local), t.clone()))
    }

    fn args(&mut self, parts: &[EntryField]) -> R<Vec<(LocalId, Ty)>> {
        parts.iter().map(|p| self.arg(p)).collect()
    }

    /// An argument as a value of its type.
    fn given_arg(&mut self, (l, t): &(LocalId, Ty), span: Span) -> R<X> {
        let e = self.local_expr(*l);
        let lt = self.cx.lower_ty(t);
        Ok(match t {
            Ty::Ip => {
                let n = self.number16(e);
                X::new(lt, K::Cast(n))
            }
            Ty::Ip6 | Ty::Int { bits: 128, .. } => self.number16(e),
            Ty::Enum(en) => {
                let ir::Enum { variants, open, bits, .. } = self.cx.m.enums[en.index()].clone();
                let mut known = build::boolean(false);
                let mut value = build::int(lt, 0);
                if open {
                    let number = self.parse_number(e.clone(), &Ty::Int { bits, signed: false }, bits, span)?;
                    known = self.is_there(&number).ok_or(Reported)?;
                    let Vk::Pure(n) = self.inner(number).kind else { return Err(Reported) };
                    value = build::cast(lt, n);
                }
                for (name, n) in variants.iter().rev() {
                    let bt = self.cx.lower_ty(&Ty::Bytes(name.len() as u64));
                    let same = build::cmp(BinOp::Eq, e.clone(), X::new(bt, K::Bytes(name.clone().into_bytes())));
                    known = build::or(same.clone(), known);
                    value = build::if_(lt, same, build::int(lt, (*n).into()), value);
                }
                self.guard(known, FaultKind::CONSTRAINT, span);
                value
            }
            _ => e,
        })
    }

    /// 16 bytes as a number, the first one the highest.
    fn number16(&mut self, bytes: X) -> X {
        let (wide, four) = (self.cx.lower_ty(&Ty::Int { bits: 128, signed: false }), self.cx.lower_ty(&Ty::Bytes(4)));
        let mut all = build::int(wide, 0);
        for i in 0..4u64 {
            let part = build::builtin(four, B::Slice, vec![bytes.clone(), build::u64(4 * i), build::u64(4 * i + 4)]);
            let part = build::cast(wide, build::builtin(T_U32, B::FromBe32, vec![part]));
            let part = build::bin(wide, BinOp::Shl, part, build::u32(96 - 32 * i as u32));
            all = if i == 0 { part } else { build::bin(wide, BinOp::BitOr, all, part) };
        }
        all
    }

    fn whole(&mut self, ty: &Ty, args: &[(LocalId, Ty)], span: Span) -> R<X> {
        let mut parts = args.iter().map(|a| self.given_arg(a, span)).collect::<R<Vec<_>>>()?;
        let t = self.cx.lower_ty(ty);
        Ok(match ty {
            Ty::Record(_) | Ty::Tuple(_) => X::new(t, K::Make(parts)),
            _ => parts.pop().ok_or(Reported)?,
        })
    }

    fn signal_get(&mut self, table: TableId, e: &EntryType, span: Span) -> R<SignalResult> {
        let args = self.args(&e.keys)?;
        let key = self.whole(&e.key, &args, span)?;
        let ty = e.value.clone().option();
        let dst = self.new_local("found", &ty);
        self.push(span, StmtKind::TableGet { table, key, dst });
        let v = Val::pure(ty, self.local_expr(dst));
        self.signal_result(v, span)
    }

    /// Arguments of a key and, where entries have masks, `x_mask` behind each `x`, and `priority`.
    #[allow(clippy::type_complexity)]
    fn key_args(
        &mut self,
        table: TableId,
        e: &EntryType,
        masked: bool,
    ) -> R<(Vec<(LocalId, Ty)>, Vec<(LocalId, Ty)>, Option<LocalId>)> {
        if !masked {
            return Ok((self.args(&e.keys)?, vec![], None));
        }
        let (mut keys, mut masks) = (vec![], vec![]);
        for p in &e.keys {
            keys.push(self.arg(&EntryField { default: None, ..p.clone() })?);
            masks.push(self.arg(&EntryField {
                name: format!("{}_mask", p.name),
                default: None,
                within: vec![],
                ..p.clone()
            })?);
        }
        self.signal_masked = true;
        let priority = match self.cx.m.tables[table.index()].kind {
            TableKind::Wildcard => Some(
                self.arg(&EntryField {
                    name: "priority".into(),
                    ty: U32,
                    default: Some(ParamValue::UInt(0)),
                    within: vec![],
                })?
                .0,
            ),
            TableKind::Exact
            | TableKind::Lpm
            | TableKind::Array
            | TableKind::Bloom
            | TableKind::CountMin
            | TableKind::HyperLogLog
            | TableKind::Ring => None,
        };
        Ok((keys, masks, priority))
    }

    fn signal_insert(
        &mut self,
        table: TableId,
        e: &EntryType,
        masked: bool,
        valued: bool,
        span: Span,
    ) -> R<SignalResult> {
        let (keys, masks, priority) = self.key_args(table, e, masked)?;
        let values = if valued { self.args(&e.values)? } else { vec![] };
        let key = self.whole(&e.key, &keys, span)?;
        let value = if valued { self.whole(&e.value, &values, span)? } else { build::boolean(true) };
        let place = self.place_id(span);
        if masked {
            let mask = self.whole(&e.key, &masks, span)?;
            let priority = priority.map_or(build::u32(0), |l| self.local_expr(l));
            self.push(span, StmtKind::TableInsert { table, key, mask, priority, value, place });
        } else {
            self.push(span, StmtKind::TablePut { table, key, value, place });
        }
        self.signal_result(Val::unit(), span)
    }

    fn signal_push(&mut self, table: TableId, e: &EntryType, span: Span) -> R<SignalResult> {
        let values = self.args(&e.values)?;
        let value = self.whole(&e.value, &values, span)?;
        let dst = self.new_local("room", &Ty::Bool);
        self.push(span, StmtKind::TablePush { table, value, dst });
        self.guard(build::local(dst, T_BOOL), FaultKind::FULL, span);
        self.signal_result(Val::unit(), span)
    }

    fn signal_remove(&mut self, table: TableId, e: &EntryType, masked: bool, span: Span) -> R<SignalResult> {
        let (keys, masks, priority) = self.key_args(table, e, masked)?;
        let key = self.whole(&e.key, &keys, span)?;
        let dst = self.new_local("there", &Ty::Bool);
        if masked {
            let mask = self.whole(&e.key, &masks, span)?;
            let priority = priority.map_or(build::u32(0), |l| self.local_expr(l));
            self.push(span, StmtKind::TableDelete { table, key, mask, priority, dst: Some(dst) });
        } else {
            self.push(span, StmtKind::TableRemove { table, key, dst: Some(dst) });
        }
        let v = Val::pure(Ty::Bool, self.local_expr(dst));
        self.signal_result(v, span)
    }

    fn signal_next(&mut self, table: TableId, e: &EntryType, span: Span) -> R<SignalResult> {
        let cursor = self.arg(&EntryField { name: "cursor".into(), ty: U64, default: None, within: vec![] })?.0;
        let (key, value, more) =
            (self.new_local("key", &e.key), self.new_local("value", &e.value), self.new_local("more", &Ty::Bool));
        let masked = matches!(self.cx.m.tables[table.index()].kind, TableKind::Wildcard | TableKind::Lpm)
            .then(|| (self.new_local("mask", &e.key), self.new_local("priority", &U32)));
        self.push(span, StmtKind::TableNext { table, cursor, key, value, more, masked });
        let mut parts = vec![("key", e.key.clone(), key), ("value", e.value.clone(), value)];
        if let Some((mask, priority)) = masked {
            parts.extend([("mask", e.key.clone(), mask), ("priority", U32, priority)])
        }
        let at = Val::pure(U64, self.local_expr(cursor));
        let (at_type, at, at_max) = self.signal_result(at, span)?;
        let (mut fields, mut bytes, mut total) = (vec![], vec![], 1u64.saturating_add(at_max));
        for (name, ty, local) in parts {
            let v = Val::pure(ty, self.local_expr(local));
            let (t, b, max) = self.signal_result(v, span)?;
            fields.push((name.to_string(), t));
            bytes.push(b);
            total = total.saturating_add(max);
        }
        let t = self.cx.lower_ty(&Ty::Bytes(total));
        let one = self.cx.lower_ty(&Ty::Bytes(1));
        let mut all = vec![at.clone(), X::new(one, K::Bytes(b"+".to_vec()))];
        all.extend(bytes);
        let none = build::builtin(t, B::Concat, vec![at, X::new(one, K::Bytes(b"-".to_vec()))]);
        let there = self.local_expr(more);
        let entry = ResultType::Option(Box::new(ResultType::Record(fields)));
        let result = ResultType::Record(vec![("cursor".to_string(), at_type), ("entry".to_string(), entry)]);
        Ok((result, X::new(t, K::If(there, build::builtin(t, B::Concat, all), none)), total))
    }

    fn signal_clear(&mut self, table: TableId, e: &EntryType, span: Span) -> R<SignalResult> {
        self.clear_table(table, &e.key, &e.value, span);
        self.signal_result(Val::unit(), span)
    }

    /// Removes all entries of an exact table.
    pub fn clear_table(&mut self, table: TableId, key: &Ty, value: &Ty, span: Span) {
        let (key, value, more) =
            (self.new_local("key", key), self.new_local("value", value), self.new_local("more", &Ty::Bool));
        let cursor = self.new_local("cursor", &U64);
        self.push(span, StmtKind::Set(cursor, build::u64(0)));
        let sp = self.cx.span(span);
        let behind = build::cmp(BinOp::Eq, build::local(cursor, T_U64), build::u64(u64::MAX));
        let take = vec![
            build::stmt(sp, StmtKind::TableRemove { table, key: self.local_expr(key), dst: None }),
            // A later entry may have moved into its place.
            build::stmt(
                sp,
                StmtKind::Set(cursor, build::bin(T_U64, BinOp::Sub, build::local(cursor, T_U64), build::u64(1))),
            ),
        ];
        let body = vec![
            build::stmt(sp, StmtKind::TableNext { table, cursor, key, value, more, masked: None }),
            build::stmt(
                sp,
                StmtKind::If {
                    cond: build::local(more, T_BOOL),
                    then: take,
                    other: vec![build::stmt(
                        sp,
                        StmtKind::If { cond: behind, then: vec![build::stmt(sp, StmtKind::Break)], other: vec![] },
                    )],
                },
            ),
        ];
        // Each round takes an entry or passes places without any.
        let max = self.cx.steps_of_walk(table);
        self.push(span, StmtKind::Loop { max, body });
    }

    /// `h.add(key)`, `h.estimate()`.
    fn estimate_method(&mut self, table: TableId, name: &Ident, args: &[Arg], span: Span) -> R<Val> {
        let key_ty = self.cx.tables[table.index()].key.clone();
        match (name.name.as_str(), args) {
            ("add", [k]) => {
                let key = self.expr_as(&k.value, &key_ty)?;
                let place = self.place_id(span);
                self.push(span, StmtKind::TablePut { table, key, value: build::boolean(true), place });
                Ok(Val::unit())
            }
            ("estimate", []) => {
                let dst = self.new_local("", &U64);
                self.push(span, StmtKind::TableLen { table, dst });
                Ok(Val::pure(U64, self.local_expr(dst)))
            }
            (other, _) => {
                let text = format!("a HyperLogLog has no method `{other}` of {} arguments", args.len());
                let h = self.table_called(table);
                let hint = format!("write `{h}.add(key)`, `{h}.estimate()`");
                Err(self.cx.report(Diagnostic::error("E0201", name.span, text).hint(hint)))
            }
        }
    }

    /// Entries with masks are not set by key alone.
    pub fn unmasked(&mut self, t: TableId, span: Span) -> R<()> {
        let name = self.table_called(t);
        let (text, hint) = match self.cx.m.tables[t.index()].kind {
            TableKind::Exact | TableKind::Array | TableKind::Bloom | TableKind::CountMin => return Ok(()),
            TableKind::Wildcard => (
                "an entry of this table has a mask and a priority",
                format!("write `{name}.insert(key, mask, priority, value)`"),
            ),
            TableKind::HyperLogLog => {
                ("a HyperLogLog has no entries", format!("write `{name}.add(key)`, `{name}.estimate()`"))
            }
            TableKind::Ring => ("the values of a ring are not changed", format!("write `{name}.push(value)`")),
            TableKind::Lpm => {
                ("an entry of this table is a prefix", format!("write `{name}.insert(10.0.0.0/8, value)`"))
            }
        };
        Err(self.cx.report(Diagnostic::error("E0709", span, text).hint(hint)))
    }

    /// `t.next(cursor)`: the advanced cursor, and the entry, if there was one. `t.forget()` removes
    /// the entry that the last `next` has given. In a table that is split between cores each core
    /// walks its part, so neither prevents the split.
    fn walk_method(&mut self, table: TableId, name: &Ident, args: &[Arg], span: Span) -> R<Val> {
        let (key_ty, value_ty) =
            (self.cx.tables[table.index()].key.clone(), self.cx.tables[table.index()].value.clone());
        let wrong = |c: &mut Compiler, text: String| {
            Err(c.report(
                Diagnostic::error("E0308", span, text)
                    .hint("`let (at, entry) = t.next(at)`, from 0 on; `t.forget()` behind it"),
            ))
        };
        match (name.name.as_str(), args) {
            ("next", [from]) if from.name.is_none() => {
                let from = self.expr_as(&from.value, &U64)?;
                let (cursor, key, value, more) = (
                    self.new_local("cursor", &U64),
                    self.new_local("key", &key_ty),
                    self.new_local("value", &value_ty),
                    self.new_local("more", &Ty::Bool),
                );
                self.push(span, StmtKind::Set(cursor, from));
                self.push(span, StmtKind::TableNext { table, cursor, key, value, more, masked: None });
                self.walked.insert(table, key);
                let entry = Ty::Tuple(vec![key_ty, value_ty]);
                let some_ty = entry.clone().option();
                let (entry_t, some_t) = (self.cx.lower_ty(&entry), self.cx.lower_ty(&some_ty));
                let pair = X::new(entry_t, K::Make(vec![self.local_expr(key), self.local_expr(value)]));
                let found =
                    build::if_(some_t, self.local_expr(more), X::new(some_t, K::Some(pair)), X::new(some_t, K::None));
                let whole = Ty::Tuple(vec![U64, some_ty]);
                let t = self.cx.lower_ty(&whole);
                Ok(Val::pure(whole, X::new(t, K::Make(vec![self.local_expr(cursor), found]))))
            }
            ("forget", []) => match self.walked.get(&table) {
                Some(key) => {
                    let key = self.local_expr(*key);
                    self.push(span, StmtKind::TableRemove { table, key, dst: None });
                    Ok(Val::unit())
                }
                None => wrong(self.cx, "`forget` stands behind a `next` of the same table, in the same handler".into()),
            },
            (other, _) => wrong(
                self.cx,
                format!("`{other}` takes {} arguments, found {}", usize::from(other == "next"), args.len()),
            ),
        }
    }

    /// `acl.insert(key, mask, priority, value)`, `routes.insert(prefix, value)`, and `delete`.
    pub fn table_method(&mut self, table: TableId, name: &Ident, args: &[Arg], span: Span) -> R<Val> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.impure = true;
        let kind = self.cx.m.tables[table.index()].kind;
        if kind == TableKind::Ring {
            return self.ring_method(table, name, args, span);
        }
        if kind == TableKind::HyperLogLog {
            return self.estimate_method(table, name, args, span);
        }
        if name.name == "wait" {
            return self.wait_for_entry(table, name, args, span);
        }
        if kind == TableKind::Exact && matches!(name.name.as_str(), "next" | "forget") {
            return self.walk_method(table, name, args, span);
        }
        let insert = name.name == "insert";
        if !insert && name.name != "delete" || !matches!(kind, TableKind::Wildcard | TableKind::Lpm) {
            let d = Diagnostic::error("E0201", name.span, format!("this table has no method `{}`", name.name));
            return Err(self.cx.report(d.hint("entries are read, set and removed by key: `table[key]`, `table[key] = value`, `remove table[key]`; they are walked by `table.next(cursor)`; wildcard and lpm tables have `insert` and `delete`")));
        }
        let (key_ty, value_ty) =
            (self.cx.tables[table.index()].key.clone(), self.cx.tables[table.index()].value.clone());
        let wanted = if kind == TableKind::Wildcard { 3 } else { 1 } + usize::from(insert);
        if args.len() != wanted || args.iter().any(|a| a.name.is_some()) {
            let form = match (kind, insert) {
                (TableKind::Wildcard, true) => "insert(key, mask, priority, value)",
                (TableKind::Wildcard, _) => "delete(key, mask, priority)",
                (_, true) => "insert(prefix, value)",
                _ => "delete(prefix)",
            };
            return Err(self.cx.report(
                Diagnostic::error(
                    "E0308",
                    span,
                    format!("`{}` takes {wanted} arguments, found {}", name.name, args.len()),
                )
                .hint(format!("write `{form}`")),
            ));
        }
        let (key, mask, priority) = if kind == TableKind::Wildcard {
            (
                self.expr_as(&args[0].value, &key_ty)?,
                self.expr_as(&args[1].value, &key_ty)?,
                self.expr_as(&args[2].value, &U32)?,
            )
        } else {
            let p = self.expr_as(&args[0].value, &Ty::Prefix)?;
            let wide = Ty::Int { bits: 128, signed: false };
            let (net, mask) = (self.get(&p, 0, &wide), self.get(&p, 1, &wide));
            let t = self.cx.lower_ty(&key_ty);
            if key_ty == Ty::Ip4 {
                // An IPv4 prefix is one of at least 96 bits of the mapped form.
                let high = |e: &X| build::bin(e.ty, BinOp::Shr, e.clone(), build::u32(32));
                let ours = build::and(
                    build::cmp(BinOp::Eq, high(&net), build::int(net.ty, 0xffff)),
                    build::cmp(BinOp::Eq, high(&mask), build::int(mask.ty, u128::MAX >> 32)),
                );
                let ours = crate::fold::fold(&self.cx.m, &ours);
                if build::as_bool(&ours) == Some(false) {
                    return Err(self.err("E0304", args[0].value.span, "this is no IPv4 prefix"));
                }
                self.guard(ours, FaultKind::CONSTRAINT, span);
            }
            let as_key = |e: X| match key_ty {
                Ty::Ip => X::new(t, K::Cast(e)),
                _ => build::cast(t, e),
            };
            (as_key(net), as_key(mask), build::u32(0))
        };
        if insert {
            let value = self.expr_as(&args[wanted - 1].value, &value_ty)?;
            let place = self.place_id(span);
            self.push(span, StmtKind::TableInsert { table, key, mask, priority, value, place });
            return Ok(Val::unit());
        }
        let dst = self.new_local("there", &Ty::Bool);
        self.push(span, StmtKind::TableDelete { table, key, mask, priority, dst: Some(dst) });
        Ok(Val { ty: Ty::Unit, kind: Vk::Nothing, caseless: false })
    }
}
