//! Built-in functions and conversions.

use super::crypto::{BLOCK, NONCE, VECTOR};
use super::{Kind, Lower};
use crate::compiler::{Reported, R, T_BOOL, T_U16, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U32, U64};
use crate::val::{Val, Vk};
use ir::ops::{self, Call, Effect, Kind as Operand, Own, Rows};
use ir::{BinOp, Builtin as B, Expr as X, ExprKind as K, FaultKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Arg, Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn builtin(&mut self, name: &Ident, args: &[Arg], span: Span, want: Option<&Ty>) -> R<Val> {
        let Some(f) = ops::function(&name.name) else {
            let mut known: Vec<String> = ops::functions().map(|f| f.name().to_string()).collect();
            if self.in_app && self.cx.unknowns < crate::compiler::HINTS {
                known.extend(self.cx.app.names());
            }
            return Err(self.cx.unknown(self.module, &name.name, name.span, "function", &known));
        };
        let takes = f.arity();
        if !takes.contains(&args.len()) {
            let least = if takes.start() == takes.end() { "" } else { "at least " };
            let message = format!("`{}` takes {least}{} arguments, found {}", name.name, takes.start(), args.len());
            let d = Diagnostic::error("E0308", span, message).hint(format!("it is `{}`", f.usage));
            return Err(self.cx.report(d));
        }
        if let Some(a) = args.iter().find_map(|a| a.name.as_ref()) {
            return Err(self.err("E0308", a.span, format!("`{}` has no named arguments", name.name)));
        }
        let a: Vec<&Expr> = args.iter().map(|a| &a.value).collect();
        match f.call {
            Call::Own(own) => self.own(own, &a, span, want),
            Call::Builtin(b) => {
                if f.is_crypto() && self.pure_only() {
                    return Err(self.involved(span));
                }
                self.impure |= f.is_crypto() || b.row().effect == Effect::Time;
                match b {
                    B::Min | B::Max => self.min_max(b, a[0], a[1], span, want),
                    B::Slice => self.slice(a[0], a[1], a[2]),
                    B::Concat => self.concat(&a),
                    B::RandomBytes => self.random_bytes(a[0]),
                    B::AesCtr => self.cipher(b, BLOCK, &a, span),
                    B::AesCbcEncrypt | B::AesCbcDecrypt => self.cipher(b, VECTOR, &a, span),
                    B::AesGcmSeal | B::AesGcmOpen => self.cipher(b, NONCE, &a, span),
                    _ => self.plain_builtin(b, &a),
                }
            }
        }
    }

    /// A builtin whose row says all about its operands and its result.
    fn plain_builtin(&mut self, b: B, a: &[&Expr]) -> R<Val> {
        let row = b.row();
        let (mut args, mut max) = (vec![], 0);
        for (n, e) in a.iter().enumerate() {
            args.push(match row.operand(n) {
                Some(Operand::Bytes) => {
                    let v = self.expr(e, None)?;
                    max = if n == 0 { v.ty.bytes_max() } else { max };
                    self.bytes_of(v, e.span)?
                }
                Some(Operand::Set) => {
                    let set = self.cx.charset(self.module, e)?;
                    let table: Vec<u8> = set.0.iter().flat_map(|w| w.to_le_bytes()).collect();
                    X::new(self.cx.lower_ty(&Ty::Bytes(32)), K::Bytes(table))
                }
                Some(kind @ (Operand::U(_) | Operand::Uint)) => self.expr_as(e, &of_kind(kind, 0))?,
                _ => self.plain_arg(e)?,
            });
        }
        let ty = of_kind(row.result, max);
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, build::builtin(t, b, args)))
    }

    fn own(&mut self, own: Own, a: &[&Expr], span: Span, want: Option<&Ty>) -> R<Val> {
        match own {
            Own::Len => self.len(a[0]),
            Own::Some => self.some(a[0], want, span),
            Own::Any | Own::All => {
                let any = own == Own::Any;
                let mut cond = build::boolean(!any);
                for e in a {
                    let c = self.cond(e)?;
                    cond = if any { build::or(cond, c) } else { build::and(cond, c) };
                }
                Ok(Val::pure(Ty::Bool, cond))
            }
            Own::Random => {
                let n = self.expr_as(a[0], &U64)?;
                self.impure = true;
                self.guard(build::cmp(BinOp::Gt, n.clone(), build::u64(0)), FaultKind::DIVISION, span);
                Ok(Val::pure(U64, X::new(T_U64, K::Random(n))))
            }
            Own::Payload | Own::ChecksumOk | Own::UpdateChecksum => self.header_fn(own, a[0], span),
            Own::Prefix => self.prefix_of(a[0], a[1]),
            Own::Raw => self.raw(a[0]),
            Own::Text => self.text(a[0]),
            Own::Ketama | Own::Modula | Own::Maglev | Own::Up | Own::Load | Own::Server | Own::Instance => {
                self.port_fn(own, a[0], a[1], span)
            }
            Own::Consistent => self.consistent(a[0], a[1], a[2], span),
            Own::Pooled => self.pooled(a[0], a[1], a[2]),
            Own::AnyToken => self.any_token(a[0], a[1], a[2]),
            Own::Json => {
                let d = Diagnostic::error("E0303", span, "the path does not say what value it leads to");
                Err(self.cx.report(d.hint("write `json(b).user.name.text`, or `.int`, `.bool`, `.raw`")))
            }
            Own::Split => self.split_list(a, span),
            Own::Join => self.join_list(a[0], a[1], span),
            Own::Parse => self.parse(a[0], span),
            Own::BytesOf => self.bytes_of_message(a[0], span),
        }
    }

    pub fn bytes_arg(&mut self, e: &Expr) -> R<X> {
        let v = self.expr(e, None)?;
        self.bytes_of(v, e.span)
    }

    fn plain_arg(&mut self, e: &Expr) -> R<X> {
        let v = self.expr(e, None)?;
        let v = self.defined(v, e.span)?;
        let t = self.settled(&v.ty);
        if !t.is_plain() && !t.is_error() {
            let s = self.show(&t);
            return Err(self.err("E0309", e.span, format!("{s} is no plain data")));
        }
        self.coerce(v, &t, e.span)
    }

    fn len(&mut self, e: &Expr) -> R<Val> {
        if let Some(made) = self.queue_len(e) {
            return made;
        }
        if let Some(q) = self.messages_of(e) {
            return self.messages_len(&q, e.span);
        }
        let v = self.expr(e, None)?;
        let v = if matches!(v.ty, Ty::Table(_)) { v } else { self.defined(v, e.span)? };
        match (v.ty, v.kind) {
            (Ty::Bytes(_), Vk::Pure(b)) => Ok(Val::pure(U64, build::len_bytes(b))),
            (Ty::List(..), Vk::Pure(l)) => Ok(Val::pure(U32, X::new(T_U32, K::ListLen(l)))),
            (Ty::Items(..), Vk::Path(p)) => Ok(Val::pure(U32, build::count(p))),
            (Ty::Replies(_), _) => Ok(Val::pure(U32, X::new(T_U32, K::Parts))),
            (Ty::Port(p), _) => Ok(Val::pure(U32, X::new(T_U32, K::PortLen(p)))),
            (Ty::Table(t), _) => {
                if self.pure_only() {
                    return Err(self.involved(e.span));
                }
                self.impure = true;
                let dst = self.new_local("", &U64);
                self.push(e.span, ir::StmtKind::TableLen { table: t, dst });
                Ok(Val::pure(U64, self.local_expr(dst)))
            }
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let s = self.show(&t);
                let mut d = Diagnostic::error("E0303", e.span, format!("{s} has no length"));
                if matches!(t, Ty::Msg(_) | Ty::Switch(..)) && matches!(self.kind, super::Kind::Grammar(_)) {
                    d = d.hint(
                        "the bytes of a unit or a switch are measured behind `=` only: `size: u16 = len(part)`; put \
                         the fields into a unit that lies in the length, whose last field reads `to end`",
                    );
                }
                Err(self.cx.report(d))
            }
        }
    }

    fn min_max(&mut self, f: B, a: &Expr, b: &Expr, span: Span, want: Option<&Ty>) -> R<Val> {
        let (va, vb) = (self.expr(a, want)?, self.expr(b, want)?);
        let (va, vb) = (self.defined(va, a.span)?, self.defined(vb, b.span)?);
        let ty = match self.join(&va.ty, &vb.ty) {
            Some(t @ (Ty::Int { .. } | Ty::Lit | Ty::Duration | Ty::Instant)) => self.settled(&t),
            Some(Ty::Error) => return Err(Reported),
            _ => {
                let (p, q) = (va.ty.clone(), vb.ty.clone());
                return Err(self.mismatch(&p, &q, span));
            }
        };
        let args = vec![self.coerce(va, &ty, a.span)?, self.coerce(vb, &ty, b.span)?];
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, build::builtin(t, f, args)))
    }

    /// Original bytes of a field, list or nested unit.
    fn raw(&mut self, e: &Expr) -> R<Val> {
        let v = self.expr(e, None)?;
        // The items of a list that is not there are no bytes.
        if let (Ty::Option(t), Vk::Maybe(cond, inner)) = (&v.ty, &v.kind) {
            if let (Ty::Items(..), Vk::Path(p), false) = (&**t, &inner.kind, self.proven(cond)) {
                let ty = Ty::Bytes(1 << 24);
                let t = self.cx.lower_ty(&ty);
                let (there, none) = (X::new(t, K::Raw(p.clone())), X::new(t, K::Bytes(vec![])));
                return Ok(Val::pure(ty, X::new(t, K::If(cond.clone(), there, none))));
            }
        }
        let v = self.defined(v, e.span)?;
        let (path, max) = match (&v.ty, &v.kind) {
            (Ty::Msg(u), Vk::Path(p)) if !p.steps.is_empty() => {
                (p.clone(), self.cx.m.units[u.index()].max.max(1 << 24))
            }
            (Ty::Items(..), Vk::Path(p)) => (p.clone(), 1 << 24),
            (t, Vk::Pure(x)) if matches!(&*x.kind, K::Read(_)) => {
                let K::Read(p) = &*x.kind else { return Err(Reported) };
                (p.clone(), if let Ty::Bytes(n) = t { *n } else { 64 })
            }
            (Ty::Error, _) => return Err(Reported),
            (Ty::Stream, _) => {
                return Err(self.cx.report(
                    Diagnostic::error("E0303", e.span, "a stream has no bytes that can be read")
                        .label("flows through without being held")
                        .hint("pass the message on, or give the field a largest length: `bytes<N> [length]`"),
                ));
            }
            _ => {
                return Err(self.cx.report(Diagnostic::error(
                    "E0303",
                    e.span,
                    "only a field, list or nested unit of a parsed message has original bytes",
                )))
            }
        };
        let ty = Ty::Bytes(max);
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, X::new(t, K::Raw(path))))
    }

    fn text(&mut self, e: &Expr) -> R<Val> {
        let v = self.expr(e, None)?;
        let v = self.defined(v, e.span)?;
        self.text_val(v, e.span)
    }

    /// The text of a value, as data.
    pub fn text_of(&mut self, v: Val, span: Span) -> R<X> {
        let v = self.text_val(v, span)?;
        v.kind.into_pure().ok_or(Reported)
    }

    fn text_val(&mut self, v: Val, span: Span) -> R<Val> {
        match (&v.ty, v.kind) {
            (Ty::Bytes(_), kind @ Vk::Pure(_)) => Ok(Val { ty: v.ty, kind, caseless: false }),
            (Ty::Int { bits: 65.., .. }, _) => {
                let s = self.show(&v.ty);
                Err(self.cx.report(
                    Diagnostic::error("E0301", span, format!("{s} has no text form"))
                        .hint("numbers of up to 64 bits have one: `text(u64(x))` is that of the low bits"),
                ))
            }
            (Ty::Int { signed: true, .. }, Vk::Pure(n)) => self.text_signed(n, span),
            (Ty::Lit | Ty::Int { .. }, Vk::Pure(n)) => {
                let n = self.recast(T_U64, n);
                self.text_u64(n)
            }
            (Ty::Enum(_), Vk::Pure(n)) => {
                let n = self.recast(T_U64, n);
                self.text_u64(n)
            }
            (Ty::Ip4 | Ty::Ip6, Vk::Pure(e)) => {
                let ip = self.address_as(e, &v.ty, &Ty::Ip, span)?;
                self.text_val(Val::pure(Ty::Ip, ip), span)
            }
            (Ty::Ip, Vk::Pure(ip)) => {
                let ty = Ty::Bytes(46);
                let t = self.cx.lower_ty(&ty);
                Ok(Val::pure(ty, build::builtin(t, B::TextIp, vec![ip])))
            }
            (Ty::Endpoint, Vk::Pure(ep)) => {
                let ip_ty = self.cx.lower_ty(&Ty::Ip);
                let (b46, b5) = (self.cx.lower_ty(&Ty::Bytes(46)), self.cx.lower_ty(&Ty::Bytes(20)));
                let ip = build::builtin(ip_ty, B::EndpointIp, vec![ep.clone()]);
                let v4 = self.is_v4(ip.clone());
                let ip = build::builtin(b46, B::TextIp, vec![ip]);
                let port = build::cast(T_U64, build::builtin(T_U16, B::EndpointPort, vec![ep]));
                let port = build::builtin(b5, B::TextU64, vec![port]);
                let mark = self.cx.lower_ty(&Ty::Bytes(2));
                let either = |a: &[u8], b: &[u8]| {
                    build::if_(mark, v4.clone(), X::new(mark, K::Bytes(a.to_vec())), X::new(mark, K::Bytes(b.to_vec())))
                };
                let ty = Ty::Bytes(70);
                let t = self.cx.lower_ty(&ty);
                Ok(Val::pure(ty, build::builtin(t, B::Concat, vec![either(b"", b"["), ip, either(b":", b"]:"), port])))
            }
            (Ty::Mac, Vk::Pure(e)) => Ok(Val::pure(Ty::Bytes(17), self.mac_text(e))),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let s = self.show(t);
                Err(self.err("E0301", span, format!("{s} has no text form")))
            }
        }
    }

    /// `some(x)`: of the type that is wanted where x can become that, else of its own.
    fn some(&mut self, a: &Expr, want: Option<&Ty>, span: Span) -> R<Val> {
        let inner = match want {
            Some(Ty::Option(t)) => Some(&**t),
            _ => None,
        };
        let v = self.expr(a, inner)?;
        let own = self.settled(&v.ty);
        let t = match inner {
            Some(t) if self.join(&v.ty, t).as_ref() == Some(t) => t.clone(),
            _ => own,
        };
        let e = self.coerce(v, &t, span)?;
        let o = self.cx.measured(t.option(), span)?;
        let ot = self.cx.lower_ty(&o);
        Ok(Val::pure(o, X::new(ot, K::Some(e))))
    }

    fn text_signed(&mut self, n: X, span: Span) -> R<Val> {
        let wide = Ty::Int { bits: 64, signed: true };
        let t = self.cx.lower_ty(&wide);
        let n = self.recast(t, n);
        let n = self.once(Val::pure(wide, n), span).kind.into_pure().ok_or(Reported)?;
        let negative = build::cmp(BinOp::Lt, n.clone(), build::int(t, 0));
        let size = build::cast(T_U64, n);
        let size =
            build::if_(T_U64, negative.clone(), build::bin(T_U64, BinOp::Sub, build::u64(0), size.clone()), size);
        let (sign, ty) = (self.cx.lower_ty(&Ty::Bytes(1)), Ty::Bytes(20));
        let t = self.cx.lower_ty(&ty);
        let sign = build::if_(sign, negative, X::new(sign, K::Bytes(b"-".to_vec())), X::new(sign, K::Bytes(vec![])));
        Ok(Val::pure(ty, build::builtin(t, B::Concat, vec![sign, build::builtin(t, B::TextU64, vec![size])])))
    }

    fn text_u64(&mut self, n: X) -> R<Val> {
        let ty = Ty::Bytes(20);
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, crate::fold::fold(&self.cx.m, &build::builtin(t, B::TextU64, vec![n]))))
    }

    fn slice(&mut self, b: &Expr, from: &Expr, to: &Expr) -> R<Val> {
        let v = self.expr(b, None)?;
        let mut max = v.ty.bytes_max();
        let bytes = self.bytes_of(v, b.span)?;
        let (from, to) = (self.expr_as(from, &U64)?, self.expr_as(to, &U64)?);
        if let Some(n) = build::as_int(&to) {
            max = max.min((n as u64).saturating_sub(build::as_int(&from).unwrap_or(0) as u64));
        }
        let ty = Ty::Bytes(max);
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, build::builtin(t, B::Slice, vec![bytes, from, to])))
    }

    fn concat(&mut self, a: &[&Expr]) -> R<Val> {
        let (mut max, mut args) = (0u64, vec![]);
        for e in a {
            let v = self.expr(e, None)?;
            let v = self.defined(v, e.span)?;
            max = max.saturating_add(v.ty.bytes_max());
            args.push(self.bytes_of(v, e.span)?);
        }
        let ty = Ty::Bytes(max);
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, crate::fold::fold(&self.cx.m, &build::builtin(t, B::Concat, args))))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn port_arg(&mut self, e: &Expr) -> R<ir::PortId> {
        if let Some(queue) = self.channel_arg(e)? {
            return Ok(queue);
        }
        let port = match &*e.kind {
            ExprKind::Name(n) if self.in_app => self.cx.app.port(&n.name).or_else(|| {
                if n.name == "kernel" && !self.cx.app.has("kernel") && self.lookup("kernel").is_none() {
                    self.cx.kernel_port()
                } else {
                    None
                }
            }),
            _ => None,
        };
        match port {
            Some(p) => Ok(p),
            None => match self.expr(e, None)?.ty {
                Ty::Port(p) => Ok(p),
                Ty::Error => Err(Reported),
                t => {
                    let d = Diagnostic::error("E0301", e.span, format!("expected a port, found {}", self.show(&t)));
                    let hint = "calls go to a port of the app: `port backends = connect tcp(servers) as …`, then `call backends[i](m)`";
                    Err(self.cx.report(if matches!(t, Ty::List(..)) { d.hint(hint) } else { d }))
                }
            },
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn port_fn(&mut self, own: Own, port: &Expr, arg: &Expr, span: Span) -> R<Val> {
        let p = self.port_arg(port)?;
        if matches!(self.cx.m.ports[p.index()].kind, ir::desc::PortKind::Listen(_)) {
            let message = format!("`{}` is about the instances of a connecting port", own.name());
            return Err(self.err("E0603", port.span, message));
        }
        let n = X::new(T_U32, K::PortLen(p));
        let kind = match own {
            Own::Ketama => K::Ketama(p, self.key_or_hash(arg)?),
            Own::Modula => K::Modula(p, self.expr_as(arg, &U32)?),
            Own::Maglev => K::Maglev(p, self.expr_as(arg, &U64)?),
            Own::Instance => {
                let address = self.expr_as(arg, &Ty::Endpoint)?;
                let found = Val::pure(U32, X::new(T_U32, K::PortFind(p, address)));
                let found = self.once(found, span).kind.into_pure().ok_or(Reported)?;
                let listed = build::cmp(BinOp::Lt, found.clone(), n);
                let o = U32.option();
                let t = self.cx.lower_ty(&o);
                return Ok(Val::pure(o, build::if_(t, listed, X::new(t, K::Some(found)), X::new(t, K::None))));
            }
            _ => {
                let i = self.index_value(arg)?;
                self.index_fits(arg, &i, self.cx.app.instances(p), "instances")?;
                let (cond, i) = self.below(i, n);
                if own == Own::Server {
                    let (t, nobody) = (self.cx.lower_ty(&Ty::Endpoint), self.endpoint_const(0, 0));
                    let address = build::if_(t, cond, X::new(t, K::PortServer(p, i)), nobody);
                    return Ok(Val::pure(Ty::Endpoint, address));
                }
                return Ok(if own == Own::Up {
                    let up = X::new(T_BOOL, K::PortUp(p, i));
                    Val::pure(Ty::Bool, build::if_(T_BOOL, cond, up, build::boolean(false)))
                } else {
                    let load = X::new(T_U32, K::PortLoad(p, i));
                    Val::pure(U32, build::if_(T_U32, cond, load, build::u32(u32::MAX)))
                });
            }
        };
        let port = &mut self.cx.m.ports[p.index()];
        if own == Own::Maglev {
            port.maglev = true
        } else {
            port.ketama = true
        }
        // With no instance at all there is nothing to choose.
        self.guard(build::cmp(BinOp::Gt, n, build::u32(0)), FaultKind::INDEX, span);
        Ok(Val::pure(U32, X::new(T_U32, kind)))
    }

    /// A key, which is hashed by MD5, or a hash of 32 bits.
    fn key_or_hash(&mut self, arg: &Expr) -> R<X> {
        let v = self.expr(arg, None)?;
        let v = self.defined(v, arg.span)?;
        if v.ty.is_int() {
            self.coerce(v, &U32, arg.span)
        } else {
            self.bytes_of(v, arg.span)
        }
    }

    fn any_token(&mut self, list: &Expr, name: &Expr, token: &Expr) -> R<Val> {
        let v = self.expr(list, None)?;
        let v = self.defined(v, list.span)?;
        let (Ty::Items(elem, _), Vk::Path(p)) = (&v.ty, &v.kind) else {
            if v.ty.is_error() {
                return Err(Reported);
            }
            let s = self.show(&v.ty);
            return Err(self.err("E0301", list.span, format!("expected a list field, found {s}")));
        };
        let (elem, list_path) = (elem.clone(), p.clone());
        self.named_list(&elem, list.span)?;
        let (name, token) = (self.bytes_arg(name)?, self.bytes_arg(token)?);
        Ok(Val::pure(Ty::Bool, X::new(T_BOOL, K::AnyToken { list: list_path, name, token })))
    }

    /// `u32(x)`, `u64(bytes)`, `Opcode(x)`.
    pub fn convert(&mut self, ty: &Ty, args: &[Arg], span: Span) -> R<Val> {
        let [a] = args else { return Err(self.err("E0308", span, "a conversion takes one argument")) };
        let v = self.expr(&a.value, None)?;
        let v = self.defined(v, a.value.span)?;
        let v = self.signed_calculation(v, ty);
        let t = self.cx.lower_ty(ty);
        match (&v.ty, v.kind, ty) {
            (Ty::Error, ..) => Err(Reported),
            (Ty::Bytes(_), Vk::Pure(b), Ty::Int { bits, signed: false }) if *bits <= 64 => {
                self.parse_number(b, ty, *bits, span)
            }
            (Ty::Ip, Vk::Pure(e), Ty::Int { bits: 128, signed: false }) => {
                Ok(Val::pure(ty.clone(), X::new(t, K::Cast(e))))
            }
            (Ty::Ip4 | Ty::Ip6, Vk::Pure(e), Ty::Int { signed: false, .. }) => {
                Ok(Val::pure(ty.clone(), self.recast(t, e)))
            }
            (Ty::Enum(_), Vk::Pure(e), Ty::Int { .. })
            | (
                Ty::Int { .. } | Ty::Lit | Ty::Duration | Ty::Instant | Ty::Fault | Ty::Mac,
                Vk::Pure(e),
                Ty::Int { .. },
            ) => Ok(Val::pure(ty.clone(), self.recast(t, e))),
            // Numbers as addresses, low bits first kept. An address of either family as one of
            // IPv4, if it is one, or as the IPv6 address that stands for it.
            (Ty::Ip | Ty::Ip4, Vk::Pure(e), Ty::Ip6) => {
                let ip = if v.ty == Ty::Ip { e } else { self.address_as(e, &v.ty, &Ty::Ip, span)? };
                Ok(Val::pure(ty.clone(), X::new(t, K::Cast(ip))))
            }
            (Ty::Int { signed: false, .. } | Ty::Lit, Vk::Pure(e), Ty::Ip4 | Ty::Ip6 | Ty::Mac) => {
                Ok(Val::pure(ty.clone(), self.recast(t, e)))
            }
            (Ty::Ip4 | Ty::Ip6, Vk::Pure(e), Ty::Ip) => {
                let ip = self.address_as(e, &v.ty, &Ty::Ip, span)?;
                Ok(Val::pure(Ty::Ip, ip))
            }
            (Ty::Ip, Vk::Pure(e), Ty::Ip4) => {
                let known = self.is_v4(e.clone());
                let wide = self.cx.lower_ty(&Ty::Int { bits: 128, signed: false });
                let low = self.recast(t, X::new(wide, K::Cast(e)));
                Ok(Val::maybe(known, Val::pure(ty.clone(), low)))
            }
            (Ty::Bool, Vk::Pure(e), Ty::Int { .. }) => {
                Ok(Val::pure(ty.clone(), build::if_(t, e, build::int(t, 1), build::int(t, 0))))
            }
            (Ty::Int { .. } | Ty::Lit, Vk::Pure(e), Ty::Enum(en)) if self.cx.m.enums[en.index()].open => {
                Ok(Val::pure(ty.clone(), self.recast(t, e)))
            }
            (Ty::Int { .. } | Ty::Lit, Vk::Pure(e), Ty::Enum(en)) => {
                // A closed enum: none for numbers that are no variant.
                let ranges = self.cx.m.enums[en.index()].variants.iter().map(|(_, v)| (*v, *v)).collect();
                let own = if matches!(v.ty, Ty::Int { bits: 65.., .. }) { v.ty.clone() } else { U64 };
                let number = self.cx.lower_ty(&own);
                let number = self.recast(number, e);
                let v = self.once(Val::pure(own, number), span);
                let Vk::Pure(e) = v.kind else { return Err(Reported) };
                let known = self.truth(K::InRanges(e.clone(), ranges));
                Ok(Val::maybe(known, Val::pure(ty.clone(), build::cast(t, e))))
            }
            (_, _, Ty::Error) => Err(Reported),
            (found, ..) => {
                let (f, w) = (self.show(found), self.show(ty));
                Err(self.err("E0301", span, format!("{f} cannot be converted to {w}")))
            }
        }
    }

    pub fn parse_number(&mut self, b: X, ty: &Ty, bits: u8, span: Span) -> R<Val> {
        let opt = U64.option();
        let ot = self.cx.lower_ty(&opt);
        let parsed = crate::fold::fold(&self.cx.m, &build::builtin(ot, B::ParseU64, vec![b]));
        if bits == 64 {
            return Ok(Val::pure(opt, parsed));
        }
        let v = self.once(Val::pure(opt, parsed), span);
        let Vk::Pure(p) = v.kind else { return Err(Reported) };
        let value = build::unwrap(T_U64, p.clone());
        let fits = build::and(build::is_some(p), build::cmp(BinOp::Lt, value.clone(), build::u64(1 << bits)));
        let t = self.cx.lower_ty(ty);
        Ok(Val::maybe(fits, Val::pure(ty.clone(), build::cast(t, value))))
    }

    /// `parse Unit(bytes)`, as `parse(Unit(bytes))`: in tests, packets and conversations.
    fn parse(&mut self, e: &Expr, span: Span) -> R<Val> {
        let ExprKind::Call(f, args) = &*e.kind else {
            return Err(self.err("E0308", span, "write `parse Unit(bytes)`"));
        };
        let [a] = args.as_slice() else { return Err(self.err("E0308", span, "write `parse Unit(bytes)`")) };
        if self.kind != Kind::Test && !self.frames && !self.converses() {
            return Err(self.err("E0309", span, "`parse` is for tests, packets and conversations"));
        }
        self.impure = true;
        self.cx.parses |= self.converses();
        let id = self.cx.expr_item(self.module, f);
        let Some(crate::items::Item::Unit(u)) = id.map(|id| self.cx.item(id, f.span)).transpose()? else {
            return Err(self.err("E0201", f.span, "this is no unit"));
        };
        if self.cx.m.units[u.index()].frame.is_some() {
            let d = Diagnostic::error("E0620", f.span, "packets come from frame ports, and are not parsed from bytes")
                .label("a packet type");
            return Err(self.cx.report(d.hint("give `parse` the units of its headers, one after the other; or make them headers of the port's own packet type")));
        }
        let bytes = self.bytes_arg(&a.value)?;
        let dst = self.new_local("", &Ty::Msg(u));
        let ok = self.new_local("", &Ty::Bool);
        self.push(span, ir::StmtKind::Parse { unit: u, kept: None, bytes, dst, ok });
        let there = self.local_expr(ok);
        Ok(Val::maybe(there, Val::path(Ty::Msg(u), build::msg(dst))))
    }

    fn bytes_of_message(&mut self, e: &Expr, span: Span) -> R<Val> {
        if self.kind != Kind::Test {
            return Err(self.err("E0309", span, "`bytes_of` is for tests"));
        }
        let v = self.expr(e, None)?;
        let msg = self.outgoing(&v, e.span)?;
        let ty = Ty::Bytes(1 << 24);
        let dst = self.new_local("", &ty);
        self.push(span, ir::StmtKind::Render { msg, dst });
        Ok(Val::pure(ty, self.local_expr(dst)))
    }
}

/// The type of a builtin's operand or result; `max` of bytes whose size is that of the first
/// operand.
fn of_kind(kind: Operand, max: u64) -> Ty {
    match kind {
        Operand::Bool => Ty::Bool,
        Operand::U(bits) => Ty::Int { bits, signed: false },
        Operand::Uint => U64,
        Operand::BytesOf(n) => Ty::Bytes(n),
        Operand::Half => Ty::Bytes(max / 2),
        Operand::Option(of) => of_kind(*of, max).option(),
        Operand::Int
        | Operand::Bytes
        | Operand::Ip
        | Operand::Endpoint
        | Operand::Address
        | Operand::Ordered
        | Operand::Plain
        | Operand::Same
        | Operand::Set
        | Operand::Room
        | Operand::Maybe(_)
        | Operand::BytesList
        | Operand::Many(_) => Ty::Bytes(max),
    }
}
