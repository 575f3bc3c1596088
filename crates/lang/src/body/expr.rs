//! Expressions: names, fields, indices and literals. The neighbouring files have the other forms.

use super::{Binding, Kind, Lower};
use crate::apps::scope::AppName;
use crate::compiler::{Reported, R, T_U32, T_U64};
use crate::consts;
use crate::ir_builder as build;
use crate::items::Item;
use crate::names::Meaning;
use crate::ty::{self, Elem, Ty, U16, U64, U8};
use crate::val::{Val, Vk};
use ir::{BinOp, Builtin, ExprKind as X, FaultKind, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

/// Most bytes of a value that a suspended handler keeps.
const MOST_KEPT: u64 = 4 << 10;

impl Lower<'_, '_> {
    /// Lowers an operand; `want` is the type that its place would like, as a hint. One that never
    /// comes back is refused: nothing could be done with it.
    pub fn expr(&mut self, e: &Expr, want: Option<&Ty>) -> R<Val> {
        let v = self.expr_may_leave(e, want)?;
        if v.is_never() {
            return Err(self.never_comes_back(e.span));
        }
        Ok(v)
    }

    pub fn never_comes_back(&mut self, span: Span) -> Reported {
        self.cx.report(
            Diagnostic::error("E0317", span, "this never comes back, so nothing can be done with its value")
                .label("it always leaves")
                .hint("leave in a statement of its own, or only on one way: `if … { return }`"),
        )
    }

    /// Lowers an expression that stands where one way may end: a statement, the end of a block, an
    /// arm, an alternative.
    pub fn expr_may_leave(&mut self, e: &Expr, want: Option<&Ty>) -> R<Val> {
        let tail = self.tail;
        self.tail &= e.has_ways() && want == Some(&Ty::Unit);
        let made = self.deeper(e.span, |s| s.expr_kind(e, want));
        self.tail = tail;
        made
    }

    fn expr_kind(&mut self, e: &Expr, want: Option<&Ty>) -> R<Val> {
        let span = e.span;
        match &*e.kind {
            ExprKind::Error => Err(Reported),
            ExprKind::Name(n) => self.name(n, want),
            ExprKind::Int(v) => Ok(self.number(*v)),
            ExprKind::Scaled(v, suffix) => match consts::scaled(*v, suffix) {
                Some((n, true)) => match u64::try_from(n) {
                    Ok(n) => Ok(Val::pure(Ty::Duration, build::u64(n))),
                    Err(_) => Err(self.err("E0304", span, "this duration is too long")),
                },
                Some((n, false)) => Ok(self.number(n)),
                None => Err(self.err(
                    "E0304",
                    span,
                    format!("`{suffix}` is no unit of measure, or the number is too large"),
                )),
            },
            ExprKind::Bool(b) => Ok(Val::pure(Ty::Bool, build::boolean(*b))),
            ExprKind::Bytes(b) => {
                let ty = Ty::Bytes(b.len() as u64);
                let t = self.cx.lower_ty(&ty);
                Ok(Val::pure(ty, ir::Expr::new(t, X::Bytes(b.clone()))))
            }
            ExprKind::Address(a) => self.address(a, span),
            ExprKind::None => {
                let t = self.cx.lower_ty(&Ty::Bool.option());
                Ok(Val::pure(Ty::None, ir::Expr::new(t, X::None)))
            }
            ExprKind::Type(_) => Err(self.err("E0301", span, "a type is no value")),
            ExprKind::Dot => match &self.dot {
                Some(v) => Ok(v.clone()),
                None => Err(self.err("E0301", span, "there is no message at hand here")),
            },
            ExprKind::Field(base, name) => self.field(e, base.as_ref(), name, want),
            ExprKind::Index(base, index) => self.index(base, index, span),
            ExprKind::Call(f, args) => self.call(e, f, args, want),
            ExprKind::Build(path, fields) if path.parts.is_empty() => match want {
                Some(Ty::Record(r)) => self.record(*r, fields, span),
                _ => Err(self.cx.report(
                    Diagnostic::error("E0315", span, "the record's type is not known here")
                        .hint("write its name: `Name { field: value }`"),
                )),
            },
            ExprKind::Build(path, fields) => self.build(path, fields, span),
            ExprKind::With(base, fields) => self.with(base, fields, span),
            ExprKind::Tuple(es) => self.tuple_expr(es, want),
            ExprKind::List(es) => self.list_expr(es, want, span),
            ExprKind::Set(_) | ExprKind::Range(..) => Err(self.cx.report(
                Diagnostic::error("E0301", span, "a set or range is no value")
                    .hint("it stands on the right of `in`, or in a `for`"),
            )),
            ExprKind::Unary(op, a) => self.unary(*op, a, span, want),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, span, want),
            ExprKind::Else(a, d) => self.else_(a, d, want),
            ExprKind::If(c, then, other) => self.if_expr(c, then, other.as_ref(), want, span),
            ExprKind::IfLet(..) => self.if_let(e, want),
            ExprKind::Match(subject, arms) => self.match_(subject, arms, want, span),
            ExprKind::Block(b) => self.block(b, want),
            ExprKind::Lambda(..) => Err(self.cx.report(
                Diagnostic::error("E0301", span, "a function without a name is no value")
                    .hint("it is an argument of `.any`, `.all`, `.count`, `.first` and `merge`"),
            )),
            ExprKind::Comprehension { .. } => self.comprehension(e, want),
            ExprKind::Fold { .. } => self.fold(e, want),
            ExprKind::Cached { entry, by, body, reply } => {
                self.cached(entry, by.as_ref(), body, reply.as_ref(), e.span)
            }
            ExprKind::Call1 { .. } | ExprKind::CallEach { .. } | ExprKind::CallAll { .. } => self.call_value(e, None),
            ExprKind::Stmt(s) => self.stmt_value(s),
        }
    }

    fn number(&mut self, v: u128) -> Val {
        if v >> 64 == 0 {
            return Val::pure(Ty::Lit, build::int(T_U64, v));
        }
        let ty = Ty::Int { bits: 128, signed: false };
        let t = self.cx.lower_ty(&ty);
        Val::pure(ty, build::int(t, v))
    }

    /// A name, wherever it may come from.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn name(&mut self, n: &Ident, want: Option<&Ty>) -> R<Val> {
        if let Some((i, j)) = self.lookup(&n.name) {
            return self.bound(i, j, n);
        }
        if let Some(v) = self.packet_name(n) {
            return v;
        }
        if let Some(v) = self.unit_name(n) {
            return v;
        }
        if self.in_app {
            if let Some(v) = self.app_name(n) {
                return v;
            }
        }
        if let Some((Meaning::Item(id), 1)) = self.cx.names.find(self.module, &[&n.name]) {
            match self.cx.item(id, n.span)? {
                Item::Const(v) => return Ok(v),
                Item::Fault => {}
                Item::Table(t) => {
                    self.impure = true;
                    return Ok(Val::of(Ty::Table(t)));
                }
                Item::Fn(f) if self.dot.is_some() => {
                    if let Some(v) = self.of_message_at_hand(&f, n.span) {
                        return v;
                    }
                    return Err(self.no_value(&Item::Fn(f), &n.name, n.span));
                }
                item => return Err(self.no_value(&item, &n.name, n.span)),
            }
        }
        if let Some(Ty::Enum(e)) = want {
            if let Some(v) = self.variant(*e, &n.name) {
                return Ok(v);
            }
        }
        if let Some(k) = self.cx.find_fault(self.module, &n.name) {
            return Ok(Val::pure(Ty::Fault, build::int(crate::compiler::T_U16, k.0.into())));
        }
        if n.name == "now" {
            self.impure = true;
            return Ok(Val::pure(Ty::Instant, ir::Expr::new(T_U64, X::Now)));
        }
        if n.name == "draining" {
            // The answer that a handler of pieces gives is the last one on its connection.
            let of_request = self.handler.is_some_and(|h| !h.one_way && !h.greeting);
            if of_request && (self.piece.is_some() || self.item.is_some()) {
                return Ok(Val::pure(Ty::Bool, build::boolean(true)));
            }
            self.impure = true;
            return Ok(Val::pure(Ty::Bool, ir::Expr::new(crate::compiler::T_BOOL, X::Draining)));
        }
        if n.name == "_" {
            return Err(self.err("E0201", n.span, "`_` is no value"));
        }
        if let Some(d) = self.without_dot(n).or_else(|| self.elsewhere(n)) {
            return Err(self.cx.report(d));
        }
        let extra = if self.cx.unknowns < crate::compiler::HINTS { self.visible_names() } else { vec![] };
        if self.kind != Kind::Const {
            return Err(self.cx.unknown(self.module, &n.name, n.span, "name", &extra));
        }
        if self.cx.app.get(&n.name).is_some() {
            return Err(self.cx.not_constant(n.span));
        }
        Err(self.cx.unknown(self.module, &n.name, n.span, "constant", &extra))
    }

    /// The name of an item where a value is wanted.
    fn no_value(&mut self, item: &Item, name: &str, span: Span) -> Reported {
        let d = Diagnostic::error("E0301", span, format!("`{name}` is no value"));
        let d = match item {
            Item::Unit(_) | Item::Record(_) => d.hint(format!("one is built as `{name} {{ field: value, … }}`")),
            Item::Fn(_) => d.hint(format!("call it: `{name}(…)`")),
            Item::Enum(_) => d.hint(format!("its values are `{name}.variant`")),
            Item::Const(_)
            | Item::Charset(_)
            | Item::Alias(_)
            | Item::Fault
            | Item::Protocol(_)
            | Item::Table(_)
            | Item::App
            | Item::Element => d,
        };
        self.cx.report(d)
    }

    fn visible_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.scopes.iter().flatten().map(|b| b.name.clone()).collect();
        if let Kind::Grammar(u) = self.kind {
            names.extend(self.cx.units[u.index()].members.iter().map(|m| m.name.clone()));
        }
        if self.in_app {
            names.extend(self.cx.app.names());
        }
        names
    }

    fn bound(&mut self, i: usize, j: usize, n: &Ident) -> R<Val> {
        let epoch = self.epoch;
        let b = &mut self.scopes[i][j];
        b.used = true;
        let b = b.clone();
        if b.val.ty.is_error() {
            return Err(Reported);
        }
        if let Vk::Path(ir::Path { root: ir::Root::Local(l), .. }) = &b.val.kind {
            self.item_is_given(n, *l)?;
        }
        if b.epoch < epoch {
            if b.reply {
                return Err(self.cx.report(
                    Diagnostic::error(
                        "E0605",
                        n.span,
                        format!("the answer `{}` is gone: another call was made since", n.name),
                    )
                    .label("read after a later call")
                    .also(b.span, "this answer")
                    .hint("copy its values into a `let` before the next call, or use `call all`"),
                ));
            }
            self.room_when_suspended(&b, n)?;
            if b.state && self.decision {
                let d = Diagnostic::warning(
                    "W0901",
                    n.span,
                    format!("this decision rests on `{}`, which was read before a call", n.name),
                )
                .label("may have changed since")
                .also(b.span, "read from state here")
                .hint("read the state again after the call");
                self.cx.report(d);
            }
        }
        Ok(b.val)
    }

    /// Whether the bytes of a value have room in a suspended handler, which keeps them all.
    fn room_when_suspended(&mut self, b: &Binding, n: &Ident) -> R<()> {
        let bytes = self.bytes_of_locals(&b.val);
        if bytes <= MOST_KEPT {
            return Ok(());
        }
        let shown = self.show(&b.val.ty);
        let mut d = Diagnostic::error("E0606", n.span, format!("`{}` ({shown}) cannot be kept over a call", n.name))
            .label("used after a call")
            .also(b.span, "set before it");
        if !matches!(b.val.ty, Ty::Bytes(_)) {
            d = d.note(format!("its parts hold up to {} of bytes", ty::size(bytes)));
        }
        Err(self.cx.report(
            d.hint("at most 4KiB of bytes are carried over a call; read the field again, or cut it with `slice`"),
        ))
    }

    /// The most bytes that a local has on which a value rests. What lies in the request can be read
    /// again.
    fn bytes_of_locals(&self, val: &Val) -> u64 {
        let mut most = 0;
        if let Vk::Pure(e) = &val.kind {
            ir::walk::expr(e, &mut |e| {
                if matches!(*e.kind, X::Local(_)) {
                    most = most.max(ir::layout::bytes_in(&self.cx.m, e.ty));
                }
            });
        }
        most
    }

    /// Fields of the unit at hand, and parameters of the unit whose names are visible.
    fn unit_name(&mut self, n: &Ident) -> Option<R<Val>> {
        if let Kind::Grammar(u) = self.kind {
            if let Some(m) = self.cx.units[u.index()].member(&n.name).cloned() {
                if m.ty.is_error() {
                    return Some(Err(Reported));
                }
                let v = self.cx.member_val(&build::this(), u, &m);
                return Some(Ok(self.known_case(v)));
            }
        }
        let (root, u) = match self.kind {
            Kind::Grammar(u) => (ir::Root::This, u),
            Kind::Const | Kind::Clause | Kind::Func | Kind::Handler | Kind::OnFault | Kind::Test => self.params_of?,
        };
        let at = self.cx.units[u.index()].params.iter().position(|(p, _)| *p == n.name)?;
        let ty = self.cx.units[u.index()].params[at].1.clone();
        let t = self.cx.lower_ty(&ty);
        Some(Ok(Val::pure(ty, ir::Expr::new(t, X::UnitParam(root, at as u32)))))
    }

    /// Inside a case its fields are values, not options.
    fn known_case(&mut self, v: Val) -> Val {
        match &v.kind {
            Vk::Maybe(c, _) if self.told(c) => self.inner(v),
            Vk::Pure(_) | Vk::Path(_) | Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => v,
        }
    }

    pub fn variant(&mut self, e: ir::EnumId, name: &str) -> Option<Val> {
        let (_, v) = self.cx.m.enums[e.index()].variants.iter().find(|(n, _)| n == name)?.clone();
        let t = self.cx.lower_ty(&Ty::Enum(e));
        Some(Val::pure(Ty::Enum(e), build::int(t, v.into())))
    }

    /// `a.b`: a name in a module, an enum's variant, or a field of a value.
    fn field(&mut self, e: &Expr, base: Option<&Expr>, name: &Ident, want: Option<&Ty>) -> R<Val> {
        let Some(base) = base else {
            let Some(dot) = self.dot.clone() else {
                return Err(self.cx.report(
                    Diagnostic::error(
                        "E0201",
                        name.span,
                        format!("`.{}` has nothing to be a field of here", name.name),
                    )
                    .hint(
                        "it stands for the current message or entry in `where`, `remove … where`, `update` and `merge`",
                    ),
                ));
            };
            return self.field_of(dot, name, e.span);
        };
        if let Some(v) = self.dotted(e, want) {
            return v;
        }
        if let Some(v) = self.instance_member(base, name) {
            return v;
        }
        if let Some(upstream) = self.upstream_named(base) {
            return self.upstream_field(upstream, name);
        }
        if let Some(v) = self.json_value(base, name) {
            return v;
        }
        let v = match self.port_named(base) {
            Some(p) => Val::of(Ty::Port(p)),
            None => self.expr(base, None)?,
        };
        self.field_of(v, name, e.span)
    }

    /// `cnt.seen` in a test: a counter or state of an instance.
    fn instance_member(&mut self, base: &Expr, name: &Ident) -> Option<R<Val>> {
        let ExprKind::Name(n) = &*base.kind else { return None };
        if self.kind != Kind::Test || !self.in_app || self.lookup(&n.name).is_some() {
            return None;
        }
        let Some(AppName::Instance(i)) = self.cx.app.get(&n.name).cloned() else { return None };
        let outer = std::mem::replace(&mut self.cx.app, i.scope.clone());
        let found = self.app_name(name);
        let known: Vec<String> = self.cx.app.names().collect();
        self.cx.app = outer;
        Some(found.unwrap_or_else(|| {
            let d = Diagnostic::error("E0201", name.span, format!("`{}` has no `{}`", i.element.name.name, name.name));
            let hint = crate::names::suggest(&name.name, known.iter().map(String::as_str));
            Err(self.cx.report(crate::names::with_hint(d, hint)))
        }))
    }

    /// A dotted name that starts with a module or a type.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn dotted(&mut self, e: &Expr, _want: Option<&Ty>) -> Option<R<Val>> {
        let parts = consts::dotted(e)?;
        let first = parts.first()?;
        if self.lookup(&first.name).is_some()
            || self.unit_member(&first.name)
            || (self.in_app && self.cx.app.has(&first.name))
        {
            return None;
        }
        let names: Vec<&str> = parts.iter().map(|p| p.name.as_str()).collect();
        let (found, taken) = self.cx.names.find(self.module, &names)?;
        let Meaning::Item(id) = found else {
            let of = names[..taken].join(".");
            let d = Diagnostic::error(
                "E0201",
                e.span,
                format!("module `{of}` has no `{}`", names.get(taken).unwrap_or(&"")),
            );
            let d = match self.cx.names.contents(self.module, &of) {
                Some(note) => d.note(note),
                None => d,
            };
            return Some(Err(self.cx.report(d)));
        };
        let item = match self.cx.item(id, e.span) {
            Ok(i) => i,
            Err(r) => return Some(Err(r)),
        };
        let mut val = match item {
            Item::Const(v) => v,
            Item::Fault => {
                let k = self.cx.user_fault(id, names[taken - 1]);
                Val::pure(Ty::Fault, build::int(crate::compiler::T_U16, k.0.into()))
            }
            Item::Table(t) => {
                self.impure = true;
                Val::of(Ty::Table(t))
            }
            Item::Enum(en) if taken < parts.len() => {
                let name = parts[taken];
                let v = match self.variant(en, &name.name) {
                    Some(v) => v,
                    None => return Some(Err(self.unknown_variant(en, name))),
                };
                if taken + 1 < parts.len() {
                    return Some(Err(self.err("E0201", parts[taken + 1].span, "a variant has no fields")));
                }
                return Some(Ok(v));
            }
            item => return Some(Err(self.no_value(&item, &names.join("."), e.span))),
        };
        for p in &parts[taken..] {
            match self.field_of(val, p, e.span) {
                Ok(v) => val = v,
                Err(r) => return Some(Err(r)),
            }
        }
        Some(Ok(val))
    }

    fn unit_member(&self, name: &str) -> bool {
        let packet = |u: ir::UnitId| {
            self.cx.units[u.index()].member(name).is_some()
                || self.cx.units[u.index()].packet.as_ref().is_some_and(|p| p.lets.iter().any(|(n, ..)| n.name == name))
        };
        matches!(self.kind, Kind::Grammar(u) if self.cx.units[u.index()].member(name).is_some())
            || self.packet.as_ref().is_some_and(|(_, u)| packet(*u))
    }

    pub fn unknown_variant(&mut self, e: ir::EnumId, n: &Ident) -> Reported {
        let info = &self.cx.m.enums[e.index()];
        let hint = crate::names::suggest(&n.name, info.variants.iter().map(|(n, _)| n.as_str()));
        let d = Diagnostic::error("E0201", n.span, format!("`{}` has no variant `{}`", info.name, n.name))
            .label("unknown variant");
        self.cx.report(crate::names::with_hint(d, hint))
    }

    pub fn field_of(&mut self, v: Val, name: &Ident, span: Span) -> R<Val> {
        let v = if v.ty.is_option() { self.defined(v, span)? } else { v };
        match (&v.ty, &v.kind) {
            (Ty::Error, _) => Err(Reported),
            (Ty::Msg(u), Vk::Path(p)) => {
                if let Some(v) = self.packet_member(&p.clone(), *u, name) {
                    return v;
                }
                if let Some(v) = self.held_member(p, *u, name) {
                    return Ok(v);
                }
                let Some(m) = self.cx.units[u.index()].member(&name.name).cloned() else {
                    return Err(self.cx.unknown_field(*u, name));
                };
                if m.ty.is_error() {
                    return Err(Reported);
                }
                let v = self.cx.member_val(p, *u, &m);
                Ok(self.known_case(v))
            }
            (Ty::Msg(u), Vk::Out(o)) => self.built_field(*u, &o.clone(), name, span),
            (Ty::Switch(u, f), Vk::Path(p)) => {
                let m = self.cx.units[u.index()]
                    .members
                    .iter()
                    .find(|m| m.name == name.name && m.cases.last().is_some_and(|c| c.0 == *f))
                    .cloned();
                let Some(m) = m else { return Err(self.cx.unknown_field(*u, name)) };
                let mut base = p.clone();
                base.steps.pop();
                let v = self.cx.member_val(&base, *u, &m);
                Ok(self.known_case(v))
            }
            (Ty::Record(r), Vk::Pure(e)) => {
                let fields = self.cx.records[r.index()].clone();
                match fields.iter().position(|(n, _)| *n == name.name) {
                    Some(i) => {
                        let x = self.get(e, i as u32, &fields[i].1);
                        self.recalled(Val::pure(fields[i].1.clone(), x), span)
                    }
                    None => {
                        let shown = self.show(&v.ty);
                        let hint = crate::names::suggest(&name.name, fields.iter().map(|(n, _)| n.as_str()));
                        Err(self.cx.report(crate::names::with_hint(
                            Diagnostic::error("E0201", name.span, format!("{shown} has no field `{}`", name.name)),
                            hint,
                        )))
                    }
                }
            }
            (Ty::Endpoint, Vk::Pure(e)) => {
                let (ty, b) = match name.name.as_str() {
                    "ip" => (Ty::Ip, Builtin::EndpointIp),
                    "port" => (U16, Builtin::EndpointPort),
                    _ => {
                        return Err(self.err(
                            "E0201",
                            name.span,
                            format!("an endpoint has `ip` and `port`, no `{}`", name.name),
                        ))
                    }
                };
                let t = self.cx.lower_ty(&ty);
                Ok(Val::pure(ty, build::builtin(t, b, vec![e.clone()])))
            }
            (Ty::Port(p), _) => {
                if let Some((id, ty)) = self.remembered_of(*p, name) {
                    let t = self.cx.lower_ty(&ty);
                    return Ok(Val::pure(ty, ir::Expr::new(t, X::Session(id))));
                }
                if self.handler.is_none_or(|h| h.port != *p) {
                    return Err(self.cx.report(
                        Diagnostic::error("E0603", span, format!("a port has no `{}` here", name.name))
                            .hint("in the handler of a listening port, its name stands for the client's connection"),
                    ));
                }
                self.conn_field(name)
            }
            (Ty::Conn, _) => {
                self.asks_for_client(name.span)?;
                self.conn_field(name)
            }
            (t, _) => {
                let d = Diagnostic::error("E0303", name.span, format!("{} has no field `{}`", self.show(t), name.name));
                let tuple = matches!(t, Ty::Tuple(_)).then(|| "take it apart: `let (a, b) = t`".to_string());
                let hint = tuple.or_else(|| self.field_as_function(t, name, span));
                Err(self.cx.report(match hint {
                    Some(hint) => d.hint(hint),
                    None => d,
                }))
            }
        }
    }

    /// A `forward` clause asks for the client of the message that is sent. A function has that of
    /// its caller.
    fn asks_for_client(&mut self, asked: Span) -> R<()> {
        if self.handler.is_some() || self.unused || self.kind == Kind::Func {
            return Ok(());
        }
        let d = Diagnostic::error("E0702", self.sent_at, "the protocol asks for the client, and there is none here");
        let d = d.label("sent for no client").also(asked, "its `forward` clause asks here");
        let hint = if self.popping.is_empty() {
            "send a message that is built here"
        } else {
            "send a message that is built here, of the parts that a unit of your own has in the queue: `queue q as Copy`"
        };
        Err(self.cx.report(d.hint(hint)))
    }

    fn conn_field(&mut self, name: &Ident) -> R<Val> {
        self.impure = true;
        let (ty, kind) = match name.name.as_str() {
            "peer" => (Ty::Endpoint, X::ConnPeer),
            "local" => (Ty::Endpoint, X::ConnLocal),
            "flow" => (U64, X::ConnFlow),
            "id" => (U64, X::ConnId),
            _ => {
                return Err(self.err(
                    "E0201",
                    name.span,
                    format!("a connection has `peer`, `local`, `flow` and `id`, no `{}`", name.name),
                ))
            }
        };
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, ir::Expr::new(t, kind)))
    }

    /// The condition that an index is below a count, and the index as u32.
    pub fn below(&mut self, index: ir::Expr, count: ir::Expr) -> (ir::Expr, ir::Expr) {
        let own = index.ty;
        let wide = if matches!(ir::layout::int_of(&self.cx.m, own), Some((65.., _))) { own } else { T_U64 };
        let there = build::cmp(BinOp::Lt, self.recast(wide, index.clone()), self.recast(wide, count));
        (there, self.recast(T_U32, index))
    }

    /// A constant index that nothing of the type has is a mistake, wherever it stands. An argument
    /// is none: it is another one at another use.
    pub fn index_fits(&mut self, written: &Expr, index: &ir::Expr, most: u64, items: &str) -> R<()> {
        if !self.is_constant(written) {
            return Ok(());
        }
        let span = written.span;
        match build::as_int(&crate::fold::fold(&self.cx.m, index)) {
            Some(n) if n >= u128::from(most) => {
                let d = Diagnostic::error("E0304", span, format!("the index {n} is out of range")).label("never there");
                let note = match most {
                    1 => "there is index 0 only".to_string(),
                    _ => format!("it has at most {most} {items}, counted from 0"),
                };
                Err(self.cx.once(d.note(note)))
            }
            _ => Ok(()),
        }
    }

    pub fn index_value(&mut self, index: &Expr) -> R<ir::Expr> {
        let v = self.expr(index, None)?;
        let v = self.defined(v, index.span)?;
        let v = self.once_rem(v, index.span);
        match (&v.ty, v.kind) {
            (Ty::Int { signed: false, .. } | Ty::Lit, Vk::Pure(e)) => Ok(e),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let s = self.show(t);
                Err(self.cx.report(Diagnostic::error(
                    "E0301",
                    index.span,
                    format!("an index is an unsigned integer, not {s}"),
                )))
            }
        }
    }

    /// A remainder stays visible to the proof of its bound; other costly indices are computed once.
    fn once_rem(&mut self, v: Val, span: Span) -> Val {
        let Some(mut e) = v.kind.as_pure() else { return v };
        while let X::Cast(inner) = &*e.kind {
            e = inner;
        }
        if matches!(&*e.kind, X::Binary(BinOp::Rem, ..)) {
            v
        } else {
            self.once(v, span)
        }
    }

    fn index(&mut self, base: &Expr, index: &Expr, span: Span) -> R<Val> {
        let b = self.expr(base, None)?;
        let b = if b.ty.is_option() { self.defined(b, base.span)? } else { b };
        if let Some(told) = self.range_as_index(base, &b.ty, index) {
            return Err(told);
        }
        match (b.ty.clone(), b.kind) {
            (Ty::Error, _) => Err(Reported),
            (Ty::Items(elem, max), Vk::Path(p)) => {
                let i = self.expr(index, None)?;
                if matches!(i.ty, Ty::Bytes(_)) {
                    return self.find_named(p, &elem, i, span);
                }
                let i = self.index_of(i, index.span)?;
                self.index_fits(index, &i, u64::from(max), "items")?;
                let (cond, i) = self.below(i, build::count(p.clone()));
                self.guard(cond, FaultKind::INDEX, span);
                Ok(self.cx.item_val(&p, &elem, i))
            }
            (Ty::List(t, max), Vk::Pure(list)) => {
                let i = self.index_value(index)?;
                self.index_fits(index, &i, u64::from(max), "items")?;
                let n = ir::Expr::new(T_U32, X::ListLen(list.clone()));
                let (cond, i) = self.below(i, n);
                self.guard(cond, FaultKind::INDEX, span);
                let et = self.cx.lower_ty(&t);
                Ok(Val::pure(*t, ir::Expr::new(et, X::ListGet(list, i))))
            }
            (Ty::Bytes(max), Vk::Pure(bytes)) => {
                let i = self.index_value(index)?;
                self.index_fits(index, &i, max, "bytes")?;
                let (cond, _) = self.below(i.clone(), build::len_bytes(bytes.clone()));
                self.guard(cond, FaultKind::INDEX, span);
                let i = self.recast(T_U64, i);
                Ok(Val::pure(U8, build::builtin(crate::compiler::T_U8, Builtin::ByteAt, vec![bytes, i])))
            }
            (Ty::Tuple(ts), Vk::Pure(e)) => match self.cx.const_u64(self.module, index)? {
                i if (i as usize) < ts.len() => {
                    let x = self.get(&e, i as u32, &ts[i as usize]);
                    Ok(Val::pure(ts[i as usize].clone(), x))
                }
                i => Err(self.err("E0304", index.span, format!("this tuple has no part {i}"))),
            },
            (Ty::Table(t), _) => self.table_get(t, index, span),
            (Ty::Replies(u), _) => {
                let i = self.index_value(index)?;
                let (cond, i) = self.below(i, ir::Expr::new(T_U32, X::Parts));
                self.guard(cond, FaultKind::INDEX, span);
                let dst = self.new_local("", &Ty::Msg(u));
                self.push(span, StmtKind::BindPart { dst, part: i });
                Ok(Val::path(Ty::Msg(u), build::msg(dst)))
            }
            (Ty::Port(_), _) => Err(self.cx.report(
                Diagnostic::error("E0603", span, "an instance of a port is no value")
                    .hint("use it in `call port[i](message)` or `message -> port[i]`"),
            )),
            (t, _) => {
                let s = self.show(&t);
                Err(self.err("E0303", span, format!("{s} has no items")))
            }
        }
    }

    fn index_of(&mut self, v: Val, span: Span) -> R<ir::Expr> {
        let v = self.defined(v, span)?;
        let v = self.once_rem(v, span);
        match (&v.ty, v.kind) {
            (Ty::Int { signed: false, .. } | Ty::Lit, Vk::Pure(e)) => Ok(e),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let s = self.show(t);
                Err(self.err("E0301", span, format!("an index is an unsigned integer, not {s}")))
            }
        }
    }

    /// `headers["name"]`: the second field of the first item with this name.
    fn find_named(&mut self, list: ir::Path, elem: &Elem, name: Val, span: Span) -> R<Val> {
        let value = self.named_list(elem, span)?;
        let name = self.bytes_of(name, span)?;
        let ty = value.option();
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, ir::Expr::new(t, X::Find { list, name })))
    }

    /// Checks that a list's items are a name and a value; gives the value's type.
    pub fn named_list(&mut self, elem: &Elem, span: Span) -> R<Ty> {
        if let Elem::Unit(u) = elem {
            let info = &self.cx.units[u.index()];
            if let [a, b, ..] = &*info.members {
                if let (Ty::Bytes(_), Ty::Bytes(_), true, true) = (&a.ty, &b.ty, a.cases.is_empty(), b.cases.is_empty())
                {
                    return Ok(b.ty.clone());
                }
            }
        }
        Err(self.cx.report(
            Diagnostic::error("E0303", span, "these items are not found by name")
                .hint("only in a list of units whose first two fields are bytes, a name and a value"),
        ))
    }

    /// Bytes of any maximum.
    pub fn bytes_of(&mut self, v: Val, span: Span) -> R<ir::Expr> {
        let v = self.defined(v, span)?;
        match (&v.ty, v.kind) {
            (Ty::Bytes(_), Vk::Pure(e)) => Ok(e),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let t = t.clone();
                Err(self.mismatch(&Ty::Bytes(0), &t, span))
            }
        }
    }

    fn tuple_expr(&mut self, es: &[Expr], want: Option<&Ty>) -> R<Val> {
        if es.is_empty() {
            return Ok(Val::unit());
        }
        let wants: Vec<Option<&Ty>> = match want {
            Some(Ty::Tuple(ts)) if ts.len() == es.len() => ts.iter().map(Some).collect(),
            _ => vec![None; es.len()],
        };
        let (mut tys, mut parts) = (vec![], vec![]);
        for (e, w) in es.iter().zip(wants) {
            let v = self.expr(e, w)?;
            let ty = match (&v.ty, w) {
                (Ty::Lit, Some(w)) if w.is_int() => w.clone(),
                (t, _) => self.settled(t),
            };
            parts.push(self.coerce(v, &ty, e.span)?);
            tys.push(ty);
        }
        let at = es.first().map_or(self.span, |e| e.span);
        let ty = self.cx.measured(Ty::Tuple(tys), at)?;
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, ir::Expr::new(t, X::Make(parts))))
    }
}
