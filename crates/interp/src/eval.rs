//! Expressions. They are pure, because earlier guards cover every failure. If a guard is missing
//! after all, the result is [`crate::stop::Stop::Internal`], never a panic.

use crate::builtin;
use crate::env::Env;
use crate::exec::message::Message;
use crate::grammar::tree::{Content, FieldNode, Node};
use crate::json;
use crate::stop::{internal, Res};
use crate::value::{canonical, int_type, ip_text, mask, signed, Endpoint, Value};
use std::borrow::Cow;
use std::rc::Rc;
use wireloom_ir::*;
use wireloom_runtime::abi::{WL_P_MAGLEV, WL_P_POINTS, WL_P_RING};
use wireloom_runtime::crypto::{self, Op};

impl Env<'_> {
    pub fn eval(&self, e: &Expr) -> Res<Value> {
        let m = self.module;
        Ok(match &*e.kind {
            ExprKind::Int(v) => Value::Int(*v & int_type(m.ty(e.ty)).map_or(u128::MAX, |(b, _)| mask(b))),
            ExprKind::Bool(b) => Value::Bool(*b),
            ExprKind::Bytes(b) => Value::bytes(b),
            ExprKind::Local(l) => match self.locals.get(l.index()) {
                Some(v) => v.clone(),
                None => return internal(format!("no local {}", l.0)),
            },
            ExprKind::UnitParam(root, n) => self.unit_param(*root, *n)?,
            ExprKind::Read(p) => self.with_field(p, |node, buf| Ok(content_value(node, buf)))?,
            ExprKind::Count(p) => self.with_field(p, |node, _| match &node.content {
                Content::Items(items) => Ok(Value::Int(items.len() as u128)),
                _ => internal("count of a field that is no list"),
            })?,
            ExprKind::Raw(p) => self.with_field(p, |node, buf| Ok(Value::bytes(&buf[node.start..node.end])))?,
            ExprKind::Case(p, n) => Value::Bool(self.case(p)? == Some(*n)),
            ExprKind::Acc => match self.acc {
                Some(a) => Value::Int(a as u128),
                None => return internal("no accumulator at hand"),
            },
            ExprKind::Unary(op, a) => self.unary(*op, a)?,
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, e.ty)?,
            ExprKind::Cast(a) => self.cast(a, e.ty)?,
            ExprKind::If(c, a, b) => self.eval(if self.truth(c)? { a } else { b })?,
            ExprKind::InRanges(a, ranges) => {
                let v = self.int(a)?;
                Value::Bool(ranges.iter().any(|(lo, hi)| *lo as u128 <= v && v <= *hi as u128))
            }
            ExprKind::Some(a) => Value::some(self.eval(a)?),
            ExprKind::None => Value::NONE,
            ExprKind::IsSome(a) => match self.eval(a)? {
                Value::Option(o) => Value::Bool(o.is_some()),
                _ => return internal("`is some` of no option"),
            },
            ExprKind::Unwrap(a) => match self.eval(a)? {
                Value::Option(Some(v)) => *v,
                _ => return internal("unwrap of none"),
            },
            ExprKind::Make(es) => match (self.all(es)?, self.module.ty(e.ty)) {
                (parts, Ty::Endpoint) => match parts.as_slice() {
                    [Value::Ip(ip), Value::Int(port)] => {
                        Value::Endpoint(crate::value::Endpoint { ip: *ip, port: *port as u16 })
                    }
                    _ => return internal("an endpoint of something else than an address and a port"),
                },
                (parts, _) => Value::Record(parts),
            },
            ExprKind::MakeList(es) => Value::List(self.all(es)?),
            ExprKind::Get(a, n) => match self.eval(a)? {
                Value::Record(mut vs) if (*n as usize) < vs.len() => vs.swap_remove(*n as usize),
                _ => return internal("no such member"),
            },
            ExprKind::ListLen(a) => Value::Int(self.list(a)?.len() as u128),
            ExprKind::ListGet(a, i) => {
                let (mut list, i) = (self.list(a)?, self.int(i)?);
                if i >= list.len() as u128 {
                    return internal("list index out of range");
                }
                list.swap_remove(i as usize)
            }
            ExprKind::Call(f, args) => crate::exec::call(self, *f, self.all(args)?)?,
            ExprKind::Builtin(b, args) => self.builtin(*b, args)?,
            ExprKind::Find { list, name } => {
                let name = self.eval(name)?;
                let mut found = Value::NONE;
                self.named(list, &name, |v| {
                    found = Value::some(Value::bytes(v));
                    true
                })?;
                found
            }
            ExprKind::CountOf { list, name } => {
                let (name, mut n) = (self.eval(name)?, 0);
                self.named(list, &name, |_| {
                    n += 1;
                    false
                })?;
                Value::Int(n)
            }
            ExprKind::AnyToken { list, name, token } => {
                let (name, token, mut any) = (self.eval(name)?, self.bytes(token)?, false);
                self.named(list, &name, |v| {
                    any = any || builtin::has_token(v, &token);
                    any
                })?;
                Value::Bool(any)
            }
            _ => return self.world(e),
        })
    }

    /// Values that only an activation of a handler knows.
    fn world(&self, e: &Expr) -> Res<Value> {
        let Some(act) = self.act else { return internal("an expression that needs a handler stands outside one") };
        Ok(match &*e.kind {
            ExprKind::Param(p) => act.param(*p)?,
            ExprKind::State(s) => act.state(*s)?,
            ExprKind::Session(s) => act.session(*s)?,
            ExprKind::Counter(c) => Value::Int(act.counter(*c) as u128),
            ExprKind::HasMsg(l) => match self.locals.get(l.index()) {
                Some(Value::Msg(r)) => Value::Bool(act.has_msg(*r)),
                _ => return internal("no message local"),
            },
            ExprKind::Held(l) => match self.locals.get(l.index()) {
                Some(Value::Msg(r)) => Value::Option(act.message(*r)?.body.as_ref().map(|b| Box::new(Value::bytes(b)))),
                _ => return internal("no message local"),
            },
            ExprKind::PartStatus(n) => Value::Int(act.part_status(self.int(n)?)? as u128),
            ExprKind::FrameLen(_) => Value::Int(act.with_frame(|f| f.bytes.len() as u128)?),
            ExprKind::FrameInstance(_) => Value::Int(act.with_frame(|f| u128::from(f.instance))?),
            ExprKind::FrameMark(_) => Value::Int(act.with_frame(|f| u128::from(f.mark))?),
            ExprKind::PacketState(_, field) => {
                let brought = act.with_frame(|f| f.state.iter().find(|s| s.0 == *field).map(|s| s.1.clone()))?;
                brought.unwrap_or_else(|| crate::exec::frame::entry::begins_with(self.module, *field))
            }
            ExprKind::FrameTime(_) => Value::Int(act.with_frame(|f| u128::from(f.time))?),
            ExprKind::Payload(_, layer) => act.with_frame(|f| Value::bytes(f.payload(*layer)))?,
            ExprKind::ChecksumOk(_, layer) => {
                Value::Bool(act.with_frame(|f| f.checksum_ok(self.module, *layer as usize))?)
            }
            ExprKind::Parts => Value::Int(act.parts() as u128),
            ExprKind::PortLen(p) => Value::Int(act.port(*p)?.len as u128),
            ExprKind::PortUp(p, i) => Value::Bool(act.port(*p)?.up(self.int(i)?)?),
            ExprKind::PortLoad(p, i) => Value::Int(act.port(*p)?.load(self.int(i)?)? as u128),
            ExprKind::PortServer(p, i) => Value::Endpoint(act.port(*p)?.server(self.int(i)?)?),
            ExprKind::PortFind(p, address) => match self.eval(address)? {
                Value::Endpoint(e) => Value::Int(act.port(*p)?.find(&e) as u128),
                _ => return internal("no endpoint"),
            },
            ExprKind::Pooled { port, index, key } => {
                let (index, key) = (self.int(index)? as u32, self.bytes(key)?);
                Value::Int(act.pooled(*port, index, &key).into())
            }
            ExprKind::UpstreamFact(upstream, fact) => Value::Int(act.upstream_fact(*upstream, *fact).into()),
            ExprKind::GroupCount(i) => {
                Value::Int(act.groups.borrow().get(self.int(i)? as usize).map_or(0, |g| g.0.into()))
            }
            ExprKind::GroupBytes(i) => {
                Value::bytes(act.groups.borrow().get(self.int(i)? as usize).map_or(&[][..], |g| &g.1))
            }
            ExprKind::Modula(p, h) => {
                let (h, slots) = (self.int(h)? as usize, act.port(*p)?.slots);
                Value::Int(if slots.is_empty() { 0 } else { slots[h % slots.len()] as u128 })
            }
            ExprKind::Ketama(p, k) => {
                let h = if matches!(self.module.ty(k.ty), Ty::Bytes(_)) {
                    builtin::md5_u32(&self.bytes(k)?)
                } else {
                    self.int(k)? as u32
                };
                let found = builtin::ring_lookup(act.port(*p)?.ring, h);
                if let Some((at, _)) = found {
                    act.found_at(*p, WL_P_RING, at);
                }
                Value::Int(found.map_or(0, |(_, instance)| instance.into()))
            }
            ExprKind::Consistent(p, h) => {
                let found = builtin::ring_lookup(act.port(*p)?.points, self.int(h)? as u32);
                if let Some((at, _)) = found {
                    act.found_at(*p, WL_P_POINTS, at);
                }
                Value::Int(found.map_or(0, |(_, instance)| instance.into()))
            }
            ExprKind::Maglev(p, h) => {
                let (h, table) = (self.int(h)? as u64, act.port(*p)?.maglev);
                let Some(at) = h.checked_rem(table.len() as u64) else { return Ok(Value::Int(0)) };
                act.found_at(*p, WL_P_MAGLEV, at as usize);
                Value::Int(table[at as usize].into())
            }
            ExprKind::ConnPeer => Value::Endpoint(act.conn()?.0),
            ExprKind::ConnLocal => Value::Endpoint(act.conn()?.1),
            ExprKind::ConnId => Value::Int(act.conn()?.2 as u128),
            ExprKind::ConnHandle => Value::Int(act.handle().into()),
            ExprKind::ConnFlow => {
                let (peer, local, _) = act.conn()?;
                Value::Int(flow_hash(&peer, &local) as u128)
            }
            ExprKind::Now => Value::Int(act.now() as u128),
            ExprKind::Draining => Value::Bool(act.draining()),
            ExprKind::Random(n) => {
                let n = self.int(n)? as u64;
                if n == 0 {
                    return internal("random below 0");
                }
                Value::Int(act.random(n) as u128)
            }
            _ => return internal("an expression the interpreter does not know"),
        })
    }

    pub fn all(&self, es: &[Expr]) -> Res<Vec<Value>> {
        es.iter().map(|e| self.eval(e)).collect()
    }

    pub fn truth(&self, e: &Expr) -> Res<bool> {
        match self.eval(e)? {
            Value::Bool(b) => Ok(b),
            _ => internal("a condition that is no bool"),
        }
    }

    pub fn int(&self, e: &Expr) -> Res<u128> {
        match self.eval(e)?.as_int() {
            Some(v) => Ok(v),
            None => internal("a value that is no integer"),
        }
    }

    pub fn bytes(&self, e: &Expr) -> Res<std::sync::Arc<[u8]>> {
        match self.eval(e)? {
            Value::Bytes(b) => Ok(b),
            _ => internal("a value that is no byte string"),
        }
    }

    fn list(&self, e: &Expr) -> Res<Vec<Value>> {
        match self.eval(e)? {
            Value::List(l) => Ok(l),
            _ => internal("a value that is no list"),
        }
    }

    /// A key of a table, in its canonical form.
    pub fn key(&self, e: &Expr) -> Res<Vec<u8>> {
        let mut key = Vec::new();
        canonical(self.module, e.ty, &self.eval(e)?, true, &mut key);
        Ok(key)
    }

    // ---- messages ----

    fn unit_param(&self, root: Root, n: u32) -> Res<Value> {
        let arg = |node: &Node| node.args.get(n as usize).cloned();
        let found = match root {
            Root::This => self.this.and_then(|s| arg(s.node)),
            Root::Item => match self.item.map(|i| &i.node.content) {
                Some(Content::Unit(node)) => arg(node),
                _ => None,
            },
            Root::Local(l) => arg(&self.message(l)?.node),
        };
        found.map_or_else(|| internal("no such unit parameter"), Ok)
    }

    /// The parsed message that a local names.
    pub fn message(&self, l: LocalId) -> Res<Rc<Message>> {
        match (self.locals.get(l.index()), self.act) {
            (Some(Value::Msg(r)), Some(act)) => act.message(*r),
            _ => internal("no message in this local"),
        }
    }

    /// Calls `f` with the field at the path.
    fn with_field<T>(&self, p: &Path, f: impl FnOnce(&FieldNode, &[u8]) -> Res<T>) -> Res<T> {
        match p.root {
            Root::This => match self.this {
                Some(s) => f(self.walk(s.node, &p.steps)?, s.buf),
                None => internal("no unit at hand"),
            },
            Root::Item => match self.item {
                Some(i) => f(self.walk_on(i.node, &p.steps)?, i.buf),
                None => internal("no item at hand"),
            },
            Root::Local(l) => {
                let msg = self.message(l)?;
                f(self.walk(&msg.node, &p.steps)?, &msg.bytes)
            }
        }
    }

    /// Follows steps that begin with a field of `node`.
    fn walk<'b>(&self, node: &'b Node, steps: &[Step]) -> Res<&'b FieldNode> {
        let Some((Step::Field(f), rest)) = steps.split_first() else {
            return internal("a path must begin with a field");
        };
        match node.field(*f) {
            Some(found) => self.walk_on(found, rest),
            None => {
                let unit = self.module.unit(node.unit);
                internal(format!("{}: field {} is not there", unit.name, field_name(unit, *f)))
            }
        }
    }

    fn walk_on<'b>(&self, node: &'b FieldNode, steps: &[Step]) -> Res<&'b FieldNode> {
        let Some((step, rest)) = steps.split_first() else { return Ok(node) };
        match (step, &node.content) {
            (Step::Field(_), Content::Unit(inner)) => self.walk(inner, steps),
            (Step::Index(i), Content::Items(items)) => {
                let i = self.int(i)?;
                match usize::try_from(i).ok().and_then(|i| items.get(i)) {
                    Some(item) => self.walk_on(item, rest),
                    None => internal("item index out of range"),
                }
            }
            _ => internal("a path that does not fit its fields"),
        }
    }

    fn case(&self, p: &Path) -> Res<Option<u32>> {
        self.with_field(p, |node, _| match node.content {
            Content::Case(n) => Ok(Some(n)),
            _ => internal("case of a field that is no switch"),
        })
    }

    /// Calls `each` with the second field's bytes of every item whose first field is `name`, until
    /// it says to stop.
    fn named(&self, list: &Path, name: &Value, mut each: impl FnMut(&[u8]) -> bool) -> Res<()> {
        let Value::Bytes(name) = name else { return internal("a field name that is no byte string") };
        self.with_field(list, |node, buf| {
            let Content::Items(items) = &node.content else { return internal("lookup in a field that is no list") };
            for item in items {
                let Content::Unit(inner) = &item.content else { return internal("lookup in a list of no units") };
                let Some((key, value, caseless)) = name_and_value(self.module, inner, buf) else { continue };
                if (if caseless { key.eq_ignore_ascii_case(name) } else { key == &name[..] }) && each(value) {
                    break;
                }
            }
            Ok(())
        })
    }

    // ---- operators ----

    fn unary(&self, op: UnOp, a: &Expr) -> Res<Value> {
        let bits = int_type(self.module.ty(a.ty)).map_or(128, |(b, _)| b);
        Ok(match (op, self.eval(a)?) {
            (UnOp::Not, Value::Bool(b)) => Value::Bool(!b),
            (UnOp::Neg, Value::Int(v)) => Value::Int(v.wrapping_neg() & mask(bits)),
            (UnOp::BitNot, Value::Int(v)) => Value::Int(!v & mask(bits)),
            (UnOp::BitNot, Value::Bool(b)) => Value::Bool(!b),
            _ => return internal("an operand of the wrong type"),
        })
    }

    fn binary(&self, op: BinOp, a: &Expr, b: &Expr, ty: TyId) -> Res<Value> {
        if op == BinOp::And || op == BinOp::Or {
            let left = self.truth(a)?;
            let decided = left == (op == BinOp::Or);
            return Ok(Value::Bool(if decided { left } else { self.truth(b)? }));
        }
        let (x, y) = (self.eval(a)?, self.eval(b)?);
        match (x.as_int(), y.as_int()) {
            (Some(x), Some(y)) => {
                let (bits, neg) = int_type(self.module.ty(a.ty)).unwrap_or((128, false));
                let out = int_op(op, x, y, bits, neg)?;
                Ok(if matches!(self.module.ty(ty), Ty::Bool) { Value::Bool(out != 0) } else { Value::Int(out) })
            }
            _ => other_op(op, &x, &y),
        }
    }

    fn cast(&self, a: &Expr, to: TyId) -> Res<Value> {
        let v = self.eval(a)?;
        match (&v, self.module.ty(to)) {
            (Value::Ip(ip), Ty::UInt(128)) => return Ok(Value::Int(u128::from_be_bytes(*ip))),
            (Value::Int(n), Ty::Ip) => return Ok(Value::Ip(n.to_be_bytes())),
            _ => {}
        }
        let (from, to) = (int_type(self.module.ty(a.ty)), int_type(self.module.ty(to)));
        match (v.as_int(), from, to) {
            (Some(v), Some((from_bits, neg)), Some((to_bits, _))) => {
                let wide = if neg { signed(v, from_bits) as u128 } else { v };
                Ok(Value::Int(wide & mask(to_bits)))
            }
            _ => Ok(v),
        }
    }

    fn builtin(&self, b: Builtin, args: &[Expr]) -> Res<Value> {
        let vals = self.all(args)?;
        let bytes = |i: usize| match vals.get(i) {
            Some(Value::Bytes(b)) => Ok(&b[..]),
            _ => internal(format!("{b:?}: argument {i} is no byte string")),
        };
        let int = |i: usize| match vals.get(i).and_then(Value::as_int) {
            Some(v) => Ok(v),
            None => internal(format!("{b:?}: argument {i} is no integer")),
        };
        let n = |v: u64| Value::Int(v as u128);
        let parts = || (0..vals.len()).map(bytes).collect::<Res<Vec<_>>>();
        let library = |op: Op| match crypto::compute(op, &parts()?) {
            Some(made) => Ok(Value::bytes(&made)),
            None => internal(format!("{b:?}: an argument of a wrong size")),
        };
        Ok(match b {
            Builtin::LenBytes => n(bytes(0)?.len() as u64),
            Builtin::Hash => {
                let mut form = Vec::new();
                for (e, v) in args.iter().zip(&vals) {
                    canonical(self.module, e.ty, v, false, &mut form);
                }
                n(builtin::hash(&form))
            }
            Builtin::Fnv1a32 => n(builtin::fnv1a32(bytes(0)?) as u64),
            Builtin::Fnv1a64 => n(builtin::fnv1a64(bytes(0)?)),
            Builtin::Crc32 => n(builtin::crc32(bytes(0)?) as u64),
            Builtin::Crc32c => n(builtin::crc32c(bytes(0)?) as u64),
            Builtin::Murmur64 => n(builtin::murmur64(int(0)? as u64, bytes(1)?)),
            Builtin::SipHash => n(builtin::siphash([int(0)? as u64, int(1)? as u64], bytes(2)?)),
            Builtin::Md5U32 => n(builtin::md5_u32(bytes(0)?) as u64),
            Builtin::Min | Builtin::Max => {
                let (x, y) = (int(0)?, int(1)?);
                let (bits, neg) = int_type(self.module.ty(args[0].ty)).unwrap_or((128, false));
                let less = int_op(BinOp::Lt, x, y, bits, neg)? != 0;
                Value::Int(if less == (b == Builtin::Min) { x } else { y })
            }
            Builtin::Lower => Value::bytes(&bytes(0)?.to_ascii_lowercase()),
            Builtin::Upper => Value::bytes(&bytes(0)?.to_ascii_uppercase()),
            Builtin::StartsWith => Value::Bool(bytes(0)?.starts_with(bytes(1)?)),
            Builtin::EndsWith => Value::Bool(bytes(0)?.ends_with(bytes(1)?)),
            Builtin::FindBytes => Value::Option(
                builtin::find(
                    bytes(0)?.get((if args.len() > 2 { int(2)? as usize } else { 0 })..).unwrap_or_default(),
                    bytes(1)?,
                )
                .map(|i| Box::new(n(i as u64))),
            ),
            Builtin::Slice => {
                let b = bytes(0)?;
                let clamp = |v: u128| usize::try_from(v).unwrap_or(usize::MAX).min(b.len());
                let (from, to) = (clamp(int(1)?), clamp(int(2)?));
                Value::bytes(&b[from..to.max(from)])
            }
            Builtin::ByteAt => match usize::try_from(int(1)?).ok().and_then(|i| bytes(0).ok()?.get(i).copied()) {
                Some(x) => n(x as u64),
                None => return internal("byte index out of range"),
            },
            Builtin::Keep => vals.first().cloned().map_or_else(|| internal("nothing is copied"), Ok)?,
            Builtin::Concat => {
                let mut out = Vec::new();
                for i in 0..vals.len() {
                    out.extend_from_slice(bytes(i)?);
                }
                Value::bytes(&out)
            }
            Builtin::ParseU64 => Value::Option(builtin::parse_u64(bytes(0)?).map(|v| Box::new(n(v)))),
            Builtin::HttpDate => Value::bytes(wireloom_ir::date::http(int(0)? as u64).as_bytes()),
            Builtin::TextU64 => {
                let (bits, neg) = int_type(self.module.ty(args[0].ty)).unwrap_or((64, false));
                let v = int(0)?;
                let text = if neg { signed(v, bits).to_string() } else { v.to_string() };
                Value::bytes(text.as_bytes())
            }
            Builtin::TextIp => match vals.first() {
                Some(Value::Ip(ip)) => Value::bytes(ip_text(*ip).as_bytes()),
                Some(Value::Endpoint(e)) => Value::bytes(ip_text(e.ip).as_bytes()),
                _ => return internal("text of no address"),
            },
            Builtin::EndpointIp | Builtin::EndpointPort => match vals.first() {
                Some(Value::Endpoint(e)) if b == Builtin::EndpointIp => Value::Ip(e.ip),
                Some(Value::Endpoint(e)) => n(e.port as u64),
                _ => return internal("no endpoint"),
            },
            Builtin::Be32 => Value::bytes(&(int(0)? as u32).to_be_bytes()),
            Builtin::FromBe32 => {
                let b = bytes(0)?;
                n((0..4).fold(0, |v, i| v << 8 | b.get(i).copied().unwrap_or(0) as u64))
            }
            Builtin::UnixTime => match self.act {
                Some(act) => n(act.wall() / 1_000_000_000),
                None => return internal("the time outside a handler"),
            },
            Builtin::AesCtr => library(Op::AesCtr)?,
            Builtin::AesCbcEncrypt => library(Op::AesCbcEncrypt)?,
            Builtin::AesCbcDecrypt => library(Op::AesCbcDecrypt)?,
            Builtin::AesGcmSeal => library(Op::AesGcmSeal)?,
            Builtin::AesGcmOpen => {
                Value::Option(crypto::compute(Op::AesGcmOpen, &parts()?).map(|m| Box::new(Value::bytes(&m))))
            }
            Builtin::HmacSha1 => library(Op::HmacSha1)?,
            Builtin::HmacSha256 => library(Op::HmacSha256)?,
            Builtin::Sha1 => library(Op::Sha1)?,
            Builtin::Sha256 => library(Op::Sha256)?,
            Builtin::ConstantTimeEq => Value::Bool(crypto::same(bytes(0)?, bytes(1)?)),
            Builtin::RandomBytes => match crypto::random(int(0)? as usize) {
                Some(made) => Value::bytes(&made),
                None => return internal("no random bytes"),
            },
            Builtin::FromHex => Value::Option(builtin::from_hex(bytes(0)?).map(|b| Box::new(Value::bytes(&b)))),
            Builtin::Xor => Value::bytes(&builtin::xor(bytes(0)?, bytes(1)?)),
            Builtin::IsUtf8 => Value::Bool(std::str::from_utf8(bytes(0)?).is_ok()),
            Builtin::OutOfTime => Value::Bool(match self.act {
                Some(act) => act.out_of_time(int(0)? as u64),
                None => false,
            }),
            Builtin::UnixNanos => match self.act {
                Some(act) => n(act.wall()),
                None => return internal("the time outside a handler"),
            },
            Builtin::Trim => {
                let set = ByteSet::of_bits(bytes(1)?).unwrap_or(ByteSet::EMPTY);
                Value::bytes(builtin::trim(bytes(0)?, |b| set.has(b)))
            }
            Builtin::Join => {
                let items = match vals.first() {
                    Some(Value::List(items)) => items.clone(),
                    _ => return internal("what is joined is no list"),
                };
                let mut all = Vec::new();
                for (i, item) in items.iter().enumerate() {
                    let Value::Bytes(item) = item else { return internal("an item that is no byte string") };
                    if i > 0 {
                        all.extend_from_slice(bytes(1)?);
                    }
                    all.extend_from_slice(item);
                }
                Value::bytes(&all)
            }
            Builtin::JsonRaw => Value::Option(json::raw(bytes(0)?, bytes(1)?).map(|b| Box::new(Value::bytes(b)))),
            Builtin::JsonText => Value::Option(json::text(bytes(0)?, bytes(1)?).map(|b| Box::new(Value::bytes(&b)))),
            Builtin::JsonInt => Value::Option(json::int(bytes(0)?, bytes(1)?).map(|v| Box::new(n(v as u64)))),
            Builtin::HasToken => Value::Bool(builtin::has_token(bytes(0)?, bytes(1)?)),
            Builtin::AllIn => {
                let set = ByteSet::of_bits(bytes(1)?).unwrap_or(ByteSet::EMPTY);
                Value::Bool(bytes(0)?.iter().all(|x| set.has(*x)))
            }
        })
    }
}

/// FNV-1a and finaliser over both endpoints: the peer's address and port, then ours.
fn flow_hash(peer: &Endpoint, local: &Endpoint) -> u64 {
    let mut form = Vec::with_capacity(36);
    for e in [peer, local] {
        form.extend_from_slice(&e.ip);
        form.extend_from_slice(&e.port.to_be_bytes());
    }
    builtin::hash(&form)
}

pub fn field_name(unit: &Unit, f: FieldId) -> Cow<'_, str> {
    match unit.fields.get(f.index()).and_then(|f| f.name.as_deref()) {
        Some(n) => Cow::Borrowed(n),
        None => Cow::Owned(format!("#{}", f.0)),
    }
}

/// Arithmetic and comparison at the operands' width. Comparisons give 0 or 1.
fn int_op(op: BinOp, x: u128, y: u128, bits: u8, neg: bool) -> Res<u128> {
    let m = mask(bits);
    let (sx, sy) = (signed(x, bits), signed(y, bits));
    let (top, bottom) = (signed(m >> 1, 128), -signed(m >> 1, 128) - 1);
    let less = if neg { sx < sy } else { x < y };
    Ok(match op {
        BinOp::Add => x.wrapping_add(y) & m,
        BinOp::Sub => x.wrapping_sub(y) & m,
        BinOp::Mul => x.wrapping_mul(y) & m,
        BinOp::Div | BinOp::Rem if y == 0 => return internal("division by 0"),
        BinOp::Div if neg => sx.wrapping_div(sy) as u128 & m,
        BinOp::Rem if neg => sx.wrapping_rem(sy) as u128 & m,
        BinOp::Div => x / y,
        BinOp::Rem => x % y,
        BinOp::AddSat if neg => sx.saturating_add(sy).clamp(bottom, top) as u128 & m,
        BinOp::SubSat if neg => sx.saturating_sub(sy).clamp(bottom, top) as u128 & m,
        BinOp::AddSat => x.saturating_add(y).min(m),
        BinOp::SubSat => x.saturating_sub(y),
        BinOp::BitAnd => x & y,
        BinOp::BitOr => x | y,
        BinOp::BitXor => x ^ y,
        BinOp::Shl if y >= bits as u128 => 0,
        BinOp::Shl => (x << y) & m,
        BinOp::Shr if y >= bits as u128 => 0,
        BinOp::Shr if neg => (sx >> y) as u128 & m,
        BinOp::Shr => x >> y,
        BinOp::Eq | BinOp::EqCase => (x == y) as u128,
        BinOp::Ne => (x != y) as u128,
        BinOp::Lt => less as u128,
        BinOp::Ge => !less as u128,
        BinOp::Gt => (!less && x != y) as u128,
        BinOp::Le => (less || x == y) as u128,
        BinOp::And | BinOp::Or => return internal("and/or of integers"),
    })
}

/// Operators on bytes, addresses, options, records: equality, and order of bytes.
fn other_op(op: BinOp, x: &Value, y: &Value) -> Res<Value> {
    let order = match (x, y) {
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Ip(a), Value::Ip(b)) => Some(a.cmp(b)),
        (Value::Endpoint(a), Value::Endpoint(b)) => Some(a.cmp(b)),
        _ => None,
    };
    Ok(Value::Bool(match (op, order) {
        (BinOp::Eq, _) => x == y,
        (BinOp::Ne, _) => x != y,
        (BinOp::EqCase, _) => match (x, y) {
            (Value::Bytes(a), Value::Bytes(b)) => a.eq_ignore_ascii_case(b),
            _ => return internal("caseless comparison of no byte strings"),
        },
        (BinOp::Lt, Some(o)) => o.is_lt(),
        (BinOp::Le, Some(o)) => o.is_le(),
        (BinOp::Gt, Some(o)) => o.is_gt(),
        (BinOp::Ge, Some(o)) => o.is_ge(),
        _ => return internal("operands of the wrong type"),
    }))
}

/// A field's value.
fn content_value(node: &FieldNode, buf: &[u8]) -> Value {
    match &node.content {
        Content::Scalar(v) => v.clone(),
        Content::Span(a, b) => Value::bytes(&buf[*a..*b]),
        Content::Items(items) => Value::List(items.iter().map(|i| content_value(i, buf)).collect()),
        Content::Case(n) => Value::Int(*n as u128),
        Content::Unit(_) => Value::bytes(&buf[node.start..node.end]),
        Content::None => Value::Unit,
    }
}

/// The first and second bytes fields of a list item, and whether names compare without ASCII case.
fn name_and_value<'b>(m: &Module, item: &'b Node, buf: &'b [u8]) -> Option<(&'b [u8], &'b [u8], bool)> {
    let mut spans = item.fields.iter().enumerate().filter_map(|(i, f)| match f.as_ref()?.content {
        Content::Span(a, b) => Some((i, &buf[a..b])),
        _ => None,
    });
    let (first, second) = (spans.next()?, spans.next()?);
    let caseless = matches!(m.unit(item.unit).fields[first.0].kind, FieldKind::Bytes { caseless: true, .. });
    Some((first.1, second.1, caseless))
}
