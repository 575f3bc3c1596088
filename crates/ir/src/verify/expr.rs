//! Expressions: the table of types.

use super::Checker;
use crate::ops::Kind;
use crate::walk::{At, Scope};
use crate::*;

/// Where an expression stands.
#[derive(Clone, Copy)]
pub(super) struct ExprPlace<'a> {
    pub scope: Scope<'a>,
    /// The accumulator of a fold is there.
    pub acc: bool,
    /// A connection is there.
    pub conn: bool,
}

impl<'a> ExprPlace<'a> {
    pub fn scope(scope: Scope<'a>) -> Self {
        ExprPlace { scope, acc: false, conn: false }
    }
}

impl Checker<'_> {
    pub fn expr(&mut self, path: &str, e: &Expr, at: ExprPlace) {
        if self.m.types.get(e.ty.index()).is_none() {
            return self.error(path, "an expression's type does not exist");
        }
        let before = self.errors.len();
        walk::children(e, &mut |c| self.expr(path, c, at));
        // An operand's error would only be repeated.
        if self.errors.len() > before {
            return;
        }
        if let Err(why) = self.rule(e, at) {
            let shown: String = text::print_expr(self.m, e).chars().take(120).collect();
            self.error(path, format!("{why}: {shown}"));
        }
    }

    pub fn condition(&mut self, path: &str, e: &Expr, at: ExprPlace) {
        self.expr(path, e, at);
        self.need(self.is_bool(e.ty), path, "a condition is not a bool");
    }

    /// An expression whose value is stored where `to` is wanted.
    pub fn into(&mut self, path: &str, e: &Expr, to: TyId, at: ExprPlace) {
        self.expr(path, e, at);
        if !self.fits(e.ty, to) {
            let message = format!("a {} is given where a {} is wanted", self.name(e.ty), self.name(to));
            self.error(path, message);
        }
    }

    fn local_ty(&self, l: LocalId, at: ExprPlace) -> Result<TyId, String> {
        at.scope.locals.get(l.index()).map(|l| l.ty).ok_or_else(|| "a local does not exist".into())
    }

    /// How many headers a frame local has.
    fn frame_of(&self, l: LocalId, at: ExprPlace) -> Result<usize, String> {
        match self.ty(self.local_ty(l, at)?) {
            Ty::Msg(u) => self
                .m
                .units
                .get(u.index())
                .and_then(|u| u.frame.as_ref())
                .map(|f| f.layers.len())
                .ok_or_else(|| "a message that is no frame".into()),
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Record(_)
            | Ty::Tuple(_) => Err("a local that is no frame".into()),
        }
    }

    fn rule(&self, e: &Expr, at: ExprPlace) -> Result<(), String> {
        use ExprKind as K;
        let m = self.m;
        let ty = self.ty(e.ty);
        match &*e.kind {
            K::Int(n) => match ty {
                Ty::UInt(bits) | Ty::Int(bits) => ok(*bits >= 128 || n >> bits == 0, "a number does not fit its type"),
                Ty::Unit
                | Ty::Bool
                | Ty::Bytes(_)
                | Ty::Endpoint
                | Ty::Ip
                | Ty::Option(_)
                | Ty::List(..)
                | Ty::Record(_)
                | Ty::Tuple(_)
                | Ty::Msg(_) => fail("a number's type is not an integer"),
            },
            K::Bool(_) => ok(*ty == Ty::Bool, "a bool's type is not bool"),
            K::Bytes(b) => match ty {
                Ty::Bytes(n) => ok(b.len() as u64 <= *n, "a constant is longer than its type"),
                Ty::Unit
                | Ty::Bool
                | Ty::UInt(_)
                | Ty::Int(_)
                | Ty::Endpoint
                | Ty::Ip
                | Ty::Option(_)
                | Ty::List(..)
                | Ty::Record(_)
                | Ty::Tuple(_)
                | Ty::Msg(_) => fail("the type of bytes is not bytes"),
            },
            K::Local(l) => self.is(e.ty, self.local_ty(*l, at)?),
            K::Param(p) => self.is(e.ty, m.params.get(p.index()).ok_or("a parameter does not exist")?.value_ty),
            K::State(s) => {
                let state = m.states.get(s.index()).filter(|s| !s.memory);
                self.is(e.ty, state.ok_or("a state does not exist")?.ty)
            }
            K::Session(s) => {
                has_conn(at)?;
                self.is(e.ty, m.sessions.get(s.index()).ok_or("a session does not exist")?.ty)
            }
            K::Counter(c) => {
                ok(c.index() < m.counters.len(), "a counter does not exist")?;
                self.bits(ty, 64)
            }
            K::UnitParam(root, n) => {
                let unit = m
                    .follow(&Path { root: *root, steps: Vec::new() }, at.scope, &mut |_, _| ())
                    .and_then(|a| m.inside(a))
                    .ok_or("a unit parameter of no unit")?;
                let unit = m.unit(unit);
                let param = unit.params.iter().chain(&unit.asked).nth(*n as usize);
                self.is(e.ty, param.ok_or("a unit parameter does not exist")?.ty)
            }
            K::Read(_)
            | K::Count(_)
            | K::Raw(_)
            | K::Case(..)
            | K::Find { .. }
            | K::CountOf { .. }
            | K::AnyToken { .. } => self.path_rule(e, at),
            K::Acc => {
                ok(at.acc, "an accumulator outside a fold")?;
                self.bits(ty, 64)
            }
            K::HasMsg(l) => {
                ok(matches!(self.ty(self.local_ty(*l, at)?), Ty::Msg(_)), "has_msg of a local that is no message")?;
                self.boolean(ty)
            }
            K::Held(l) => {
                let message = matches!(self.ty(self.local_ty(*l, at)?), Ty::Msg(_));
                let bytes = matches!(ty, Ty::Option(t) if self.is_bytes(*t));
                ok(message && bytes, "held of a local that is no message, or not as an option of bytes")
            }
            K::FrameLen(l) | K::FrameInstance(l) | K::FrameMark(l) => {
                self.frame_of(*l, at)?;
                self.bits(ty, 32)
            }
            K::PacketState(l, f) => {
                self.frame_of(*l, at)?;
                let field = self.m.packet.get(f.index());
                ok(field.is_some_and(|f| self.same(f.ty, e.ty)), "a field of the state of another type, or none")
            }
            K::FrameTime(l) => {
                self.frame_of(*l, at)?;
                self.bits(ty, 64)
            }
            K::Payload(l, n) => {
                let layers = self.frame_of(*l, at)?;
                ok(n.is_none_or(|n| (n as usize) < layers), "a header does not exist")?;
                ok(self.is_bytes(e.ty), "a payload's type is not bytes")
            }
            K::ChecksumOk(l, n) => {
                ok((*n as usize) < self.frame_of(*l, at)?, "a header does not exist")?;
                self.boolean(ty)
            }
            K::PartStatus(n) => {
                ok(self.is_uint(n.ty), "a part's index is not an unsigned integer")?;
                self.bits(ty, 16)
            }
            K::Parts => self.bits(ty, 32),
            K::Unary(..) | K::Binary(..) | K::Builtin(..) => self.operation(e),
            K::Cast(a) => {
                let address = |x: TyId, y: TyId| *self.ty(x) == Ty::Ip && *self.ty(y) == Ty::UInt(128);
                let related = (self.is_int(a.ty) && self.is_int(e.ty))
                    || (self.is_bytes(a.ty) && self.is_bytes(e.ty))
                    || address(a.ty, e.ty)
                    || address(e.ty, a.ty);
                ok(related, "a cast between unrelated types")
            }
            K::If(c, a, b) => {
                ok(self.is_bool(c.ty), "a condition is not a bool")?;
                ok(self.fits(a.ty, e.ty) && self.fits(b.ty, e.ty), "the branches differ in type")
            }
            K::InRanges(a, ranges) => {
                ok(self.is_int(a.ty), "ranges over what is no integer")?;
                ok(ranges.iter().all(|(a, b)| a <= b), "an empty range")?;
                self.boolean(ty)
            }
            K::Some(a) => match ty {
                Ty::Option(t) => ok(self.fits(a.ty, *t), "`some` of another type"),
                Ty::Unit
                | Ty::Bool
                | Ty::UInt(_)
                | Ty::Int(_)
                | Ty::Bytes(_)
                | Ty::Endpoint
                | Ty::Ip
                | Ty::List(..)
                | Ty::Record(_)
                | Ty::Tuple(_)
                | Ty::Msg(_) => fail("`some` that is no option"),
            },
            K::None => ok(matches!(ty, Ty::Option(_)), "`none` that is no option"),
            K::IsSome(a) => {
                ok(matches!(self.ty(a.ty), Ty::Option(_)), "`is_some` of what is no option")?;
                self.boolean(ty)
            }
            K::Unwrap(a) => match self.ty(a.ty) {
                Ty::Option(t) => self.is(e.ty, *t),
                Ty::Unit
                | Ty::Bool
                | Ty::UInt(_)
                | Ty::Int(_)
                | Ty::Bytes(_)
                | Ty::Endpoint
                | Ty::Ip
                | Ty::List(..)
                | Ty::Record(_)
                | Ty::Tuple(_)
                | Ty::Msg(_) => fail("`unwrap` of what is no option"),
            },
            K::Make(list) if *ty == Ty::Endpoint => match list.as_slice() {
                [ip, port] => ok(
                    *self.ty(ip.ty) == Ty::Ip && *self.ty(port.ty) == Ty::UInt(16),
                    "an endpoint is made of an address and a port",
                ),
                _ => fail("an endpoint is made of an address and a port"),
            },
            K::Make(list) => {
                let members = self.members(e.ty).ok_or("`make` of what is no record or tuple")?;
                ok(
                    members.len() == list.len() && members.iter().zip(list).all(|(t, e)| self.fits(e.ty, *t)),
                    "the members do not fit the type",
                )
            }
            K::Get(a, n) => self.is(
                e.ty,
                *self
                    .members(a.ty)
                    .ok_or("a member of what is no record or tuple")?
                    .get(*n as usize)
                    .ok_or("a member does not exist")?,
            ),
            K::MakeList(list) => match ty {
                Ty::List(t, max) => ok(
                    list.len() as u64 <= *max as u64 && list.iter().all(|e| self.fits(e.ty, *t)),
                    "the items do not fit the list's type",
                ),
                Ty::Unit
                | Ty::Bool
                | Ty::UInt(_)
                | Ty::Int(_)
                | Ty::Bytes(_)
                | Ty::Endpoint
                | Ty::Ip
                | Ty::Option(_)
                | Ty::Record(_)
                | Ty::Tuple(_)
                | Ty::Msg(_) => fail("`make_list` of what is no list"),
            },
            K::ListLen(a) => {
                ok(matches!(self.ty(a.ty), Ty::List(..)), "the length of what is no list")?;
                ok(self.is_uint(e.ty), "a length's type is not an unsigned integer")
            }
            K::ListGet(a, n) => {
                ok(self.is_uint(n.ty), "an index is not an unsigned integer")?;
                match self.ty(a.ty) {
                    Ty::List(t, _) => self.is(e.ty, *t),
                    Ty::Unit
                    | Ty::Bool
                    | Ty::UInt(_)
                    | Ty::Int(_)
                    | Ty::Bytes(_)
                    | Ty::Endpoint
                    | Ty::Ip
                    | Ty::Option(_)
                    | Ty::Record(_)
                    | Ty::Tuple(_)
                    | Ty::Msg(_) => fail("an item of what is no list"),
                }
            }
            K::Call(f, args) => {
                let f = m.funcs.get(f.index()).ok_or("a function does not exist")?;
                ok(args.len() == f.params as usize, "another number of arguments than parameters")?;
                if let FuncBody::Body(b) = &f.body {
                    ok(
                        b.locals.iter().zip(args).all(|(l, a)| self.fits(a.ty, l.ty)),
                        "an argument does not fit its parameter",
                    )?
                }
                self.is(e.ty, f.ret)
            }
            K::PortLen(p) => {
                self.port(*p)?;
                self.bits(ty, 32)
            }
            K::PortUp(p, n) => {
                self.port(*p)?;
                ok(self.is_uint(n.ty), "an instance is not an unsigned integer")?;
                self.boolean(ty)
            }
            K::PortLoad(p, n) => {
                self.port(*p)?;
                ok(self.is_uint(n.ty), "an instance is not an unsigned integer")?;
                self.bits(ty, 32)
            }
            K::PortServer(p, n) => {
                self.port(*p)?;
                ok(self.is_uint(n.ty), "an instance is not an unsigned integer")?;
                ok(*ty == Ty::Endpoint, "an address's type is not endpoint")
            }
            K::PortFind(p, a) => {
                self.port(*p)?;
                ok(*self.ty(a.ty) == Ty::Endpoint, "an address's type is not endpoint")?;
                self.bits(ty, 32)
            }
            K::Pooled { port, index, key } => {
                self.port(*port)?;
                ok(self.is_uint(index.ty), "an instance is not an unsigned integer")?;
                ok(self.is_bytes(key.ty), "the key of a pool is not bytes")?;
                self.bits(ty, 32)
            }
            K::Ketama(p, k) => {
                ok(self.port(*p)?.ketama, "the port is not marked for ketama")?;
                ok(self.is_bytes(k.ty) || self.is_uint_of(k.ty, 32), "a ketama key is neither bytes nor a hash")?;
                self.bits(ty, 32)
            }
            K::Consistent(p, k) => {
                ok(self.port(*p)?.consistent.is_some(), "the port has no function for points")?;
                ok(self.is_uint_of(k.ty, 32), "a hash is not a u32")?;
                self.bits(ty, 32)
            }
            K::Modula(p, k) => {
                ok(self.port(*p)?.ketama, "the port is not marked for ketama")?;
                ok(self.is_uint_of(k.ty, 32), "a hash is not a u32")?;
                self.bits(ty, 32)
            }
            K::Maglev(p, k) => {
                ok(self.port(*p)?.maglev, "the port is not marked for Maglev")?;
                ok(self.is_uint(k.ty), "a Maglev hash is not an unsigned integer")?;
                self.bits(ty, 32)
            }
            K::GroupCount(n) => {
                ok(self.is_uint(n.ty), "an instance is not an unsigned integer")?;
                self.bits(ty, 32)
            }
            K::GroupBytes(n) => {
                ok(self.is_uint(n.ty), "an instance is not an unsigned integer")?;
                ok(self.is_bytes(e.ty), "a group's bytes are not of type bytes")
            }
            K::ConnPeer | K::ConnLocal => {
                has_conn(at)?;
                ok(*ty == Ty::Endpoint, "an address's type is not endpoint")
            }
            K::ConnId | K::ConnHandle | K::ConnFlow => {
                has_conn(at)?;
                self.bits(ty, 64)
            }
            K::UpstreamFact(upstream, _) => {
                has_conn(at)?;
                ok(upstream.index() < self.m.upstreams.len(), "its upstream does not exist")?;
                self.bits(ty, 64)
            }
            K::Now => self.bits(ty, 64),
            K::Draining => self.boolean(ty),
            K::Random(a) => {
                ok(self.is_uint(a.ty), "a random number's bound is not an unsigned integer")?;
                self.bits(ty, 64)
            }
        }
    }

    fn is(&self, have: TyId, want: TyId) -> Result<(), String> {
        if self.fits(want, have) {
            return Ok(());
        }
        Err(format!("the type is {} where {} is due", self.name(have), self.name(want)))
    }

    fn bits(&self, ty: &Ty, bits: u8) -> Result<(), String> {
        if *ty == Ty::UInt(bits) {
            Ok(())
        } else {
            Err(format!("the type is not u{bits}"))
        }
    }

    fn boolean(&self, ty: &Ty) -> Result<(), String> {
        ok(*ty == Ty::Bool, "the type is not bool")
    }

    fn port(&self, p: PortId) -> Result<&Port, String> {
        self.m.ports.get(p.index()).ok_or_else(|| "a port does not exist".into())
    }

    pub fn members(&self, ty: TyId) -> Option<Vec<TyId>> {
        match self.ty(ty) {
            Ty::Record(r) => self.m.records.get(r.index()).map(|r| r.fields.iter().map(|(_, t)| *t).collect()),
            Ty::Tuple(list) => Some(list.clone()),
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Msg(_) => None,
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn path_rule(&self, e: &Expr, at: ExprPlace) -> Result<(), String> {
        use ExprKind as K;
        let m = self.m;
        let Some(path) = walk::path_of(e) else { return Ok(()) };
        if !path.steps.iter().all(|s| match s {
            Step::Index(i) => self.is_uint(i.ty),
            Step::Field(_) => true,
        }) {
            return fail("an index is not an unsigned integer");
        }
        let end = m.follow(path, at.scope, &mut |_, _| ()).ok_or("a path leads nowhere")?;
        let field = match end {
            At::Field(u, f) => Some(&m.unit(u).fields[f.index()]),
            At::Unit(_) => None,
        };
        let list = || match field.map(|f| &f.kind) {
            Some(FieldKind::List { .. }) => Ok(()),
            _ => Err("the path does not lead to a list".to_string()),
        };
        match &*e.kind {
            K::Read(_) => {
                let f = field.ok_or("a whole message is read as a value")?;
                ok(*self.ty(f.ty) != Ty::Unit, "a field without a value is read")?;
                self.is(e.ty, f.ty)
            }
            K::Count(_) => {
                list()?;
                self.bits(self.ty(e.ty), 32)
            }
            K::Raw(_) => ok(self.is_bytes(e.ty), "raw bytes whose type is not bytes"),
            K::Case(_, n) => match field.map(|f| &f.kind) {
                Some(FieldKind::Switch { cases }) => {
                    ok((*n as usize) < cases.len(), "a case does not exist")?;
                    self.boolean(self.ty(e.ty))
                }
                _ => fail("the path does not lead to a switch"),
            },
            K::Find { name, .. } | K::CountOf { name, .. } | K::AnyToken { name, .. } => {
                list()?;
                ok(self.is_bytes(name.ty), "a name is not bytes")?;
                let (u, _, element) = m.list_at(path, at.scope).ok_or("the path does not lead to a list")?;
                let (_, _, value) = m.name_and_value(u, element).ok_or("the list's items have no name")?;
                match &*e.kind {
                    K::CountOf { .. } => self.bits(self.ty(e.ty), 32),
                    K::Find { .. } => {
                        ok(value.is_some(), "the list's items have no value")?;
                        ok(
                            matches!(self.ty(e.ty), Ty::Option(t) if self.is_bytes(*t)),
                            "a found value's type is not an option of bytes",
                        )
                    }
                    _ => {
                        ok(value.is_some(), "the list's items have no value")?;
                        self.boolean(self.ty(e.ty))
                    }
                }
            }
            _ => Ok(()),
        }
    }

    /// Operands and result of an operator or a builtin, by its row.
    fn operation(&self, e: &Expr) -> Result<(), String> {
        let Some((row, args)) = e.kind.operation() else { return Ok(()) };
        ok(row.arity().contains(&args.len()), "an operation has another number of operands")?;
        let first = args.first().map_or(e.ty, |a| a.ty);
        for (n, (a, kind)) in args.iter().zip((0..).map_while(|n| row.operand(n))).enumerate() {
            let right = match kind {
                Kind::Same => self.fits(a.ty, first) || self.fits(first, a.ty),
                Kind::Set => matches!(&*a.kind, ExprKind::Bytes(b) if b.len() == 32),
                Kind::Room => match (&*a.kind, self.ty(e.ty)) {
                    (ExprKind::Int(n), Ty::Bytes(max)) => *n <= u128::from(*max),
                    _ => false,
                },
                kind @ Kind::Bool
                | kind @ Kind::Int
                | kind @ Kind::Uint
                | kind @ Kind::U(_)
                | kind @ Kind::Bytes
                | kind @ Kind::BytesOf(_)
                | kind @ Kind::Half
                | kind @ Kind::Ip
                | kind @ Kind::Endpoint
                | kind @ Kind::Address
                | kind @ Kind::Ordered
                | kind @ Kind::Plain
                | kind @ Kind::Option(_)
                | kind @ Kind::Maybe(_)
                | kind @ Kind::BytesList
                | kind @ Kind::Many(_) => self.is_of(kind, a.ty, first),
            };
            if !right {
                let found = self.name(a.ty);
                return Err(format!("operand {} of `{}` is {found} where {kind} is due", n + 1, row.name));
            }
        }
        if !self.is_of(row.result, e.ty, first) {
            let found = self.name(e.ty);
            return Err(format!("the result of `{}` is {found} where {} is due", row.name, row.result));
        }
        Ok(())
    }

    fn is_of(&self, kind: Kind, ty: TyId, first: TyId) -> bool {
        match kind {
            Kind::Bool => self.is_bool(ty),
            Kind::Int => self.is_int(ty),
            Kind::Uint => self.is_uint(ty),
            Kind::U(bits) => self.is_uint_of(ty, bits),
            Kind::Bytes | Kind::Half | Kind::Set => self.is_bytes(ty),
            Kind::BytesOf(n) => *self.ty(ty) == Ty::Bytes(n),
            Kind::Ip => *self.ty(ty) == Ty::Ip,
            Kind::Endpoint => *self.ty(ty) == Ty::Endpoint,
            Kind::Address => matches!(self.ty(ty), Ty::Ip | Ty::Endpoint),
            Kind::Ordered => self.is_int(ty) || matches!(self.ty(ty), Ty::Bytes(_) | Ty::Ip | Ty::Endpoint),
            Kind::Plain => self.storable(ty),
            Kind::Same => self.fits(first, ty),
            Kind::Room => self.is_uint(ty),
            Kind::Option(of) => matches!(self.ty(ty), Ty::Option(t) if self.is_of(*of, *t, first)),
            Kind::Maybe(of) | Kind::Many(of) => self.is_of(*of, ty, first),
            Kind::BytesList => matches!(self.ty(ty), Ty::List(of, _) if self.is_bytes(*of)),
        }
    }
}

fn ok(holds: bool, message: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(message.into())
    }
}

fn fail<T>(message: &str) -> Result<T, String> {
    Err(message.into())
}

fn has_conn(at: ExprPlace) -> Result<(), String> {
    ok(at.conn, "there is no connection here")
}
