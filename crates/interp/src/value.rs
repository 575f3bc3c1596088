//! Values, and their two byte forms. The fixed-size form (sessions, parser slots) has all zeros as
//! the zero value. `hash` and table keys use the canonical form.

use std::sync::Arc;
use wireloom_ir::{layout, Module, Ty, TyId, UnitId};

/// An IPv6 address (IPv4 mapped) and a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub ip: [u8; 16],
    pub port: u16,
}

/// A message local: where the message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MsgRef {
    Absent,
    Request(UnitId),
    /// Reply n of the task.
    Part(u32, UnitId),
    /// The current frame.
    Frame(UnitId),
    /// Parsed from bytes by the program itself (`Parse`), entry n of the activation's own messages.
    Own(u32),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unit,
    Bool(bool),
    /// Any integer, cut to the width of its type (two's complement if signed).
    Int(u128),
    Bytes(Arc<[u8]>),
    Endpoint(Endpoint),
    Ip([u8; 16]),
    Option(Option<Box<Value>>),
    List(Vec<Value>),
    /// A record or a tuple.
    Record(Vec<Value>),
    Msg(MsgRef),
}

/// The all-ones mask of an integer width.
pub fn mask(bits: u8) -> u128 {
    if bits >= 128 {
        u128::MAX
    } else {
        (1u128 << bits) - 1
    }
}

/// A two's complement integer of `bits` bits, as a signed number.
pub fn signed(v: u128, bits: u8) -> i128 {
    if bits == 0 || bits >= 128 {
        return v as i128;
    }
    let shift = 128 - bits as u32;
    ((v << shift) as i128) >> shift
}

/// Width and signedness of an integer type.
pub fn int_type(ty: &Ty) -> Option<(u8, bool)> {
    match ty {
        Ty::UInt(n) => Some((*n, false)),
        Ty::Int(n) => Some((*n, true)),
        Ty::Bool => Some((1, false)),
        _ => None,
    }
}

impl Value {
    pub fn bytes(b: &[u8]) -> Value {
        Value::Bytes(b.into())
    }

    pub fn some(v: Value) -> Value {
        Value::Option(Some(Box::new(v)))
    }

    pub const NONE: Value = Value::Option(None);

    pub fn as_int(&self) -> Option<u128> {
        match self {
            Value::Int(v) => Some(*v),
            Value::Bool(b) => Some(*b as u128),
            _ => None,
        }
    }

    /// The value all state starts with.
    pub fn zero(m: &Module, ty: TyId) -> Value {
        match m.ty(ty) {
            Ty::Unit => Value::Unit,
            Ty::Bool => Value::Bool(false),
            Ty::UInt(_) | Ty::Int(_) => Value::Int(0),
            Ty::Bytes(_) => Value::bytes(b""),
            Ty::Endpoint => Value::Endpoint(Endpoint::default()),
            Ty::Ip => Value::Ip([0; 16]),
            Ty::Option(_) => Value::NONE,
            Ty::List(..) => Value::List(Vec::new()),
            Ty::Record(r) => {
                Value::Record(m.records[r.index()].fields.iter().map(|(_, t)| Value::zero(m, *t)).collect())
            }
            Ty::Tuple(ts) => Value::Record(ts.iter().map(|t| Value::zero(m, *t)).collect()),
            Ty::Msg(_) => Value::Msg(MsgRef::Absent),
        }
    }
}

/// Bytes of the fixed-size form of a type.
pub fn fixed_size(m: &Module, ty: TyId) -> usize {
    match m.ty(ty) {
        Ty::Unit | Ty::Msg(_) => 0,
        Ty::Bool => 1,
        Ty::UInt(_) | Ty::Int(_) => 16,
        Ty::Bytes(n) => 4 + *n as usize,
        Ty::Endpoint => 18,
        Ty::Ip => 16,
        Ty::Option(t) => 1 + fixed_size(m, *t),
        Ty::List(t, n) => 4 + fixed_size(m, *t) * *n as usize,
        Ty::Record(r) => m.records[r.index()].fields.iter().map(|(_, t)| fixed_size(m, *t)).sum(),
        Ty::Tuple(ts) => ts.iter().map(|t| fixed_size(m, *t)).sum(),
    }
}

/// Writes the fixed-size form; `out` has [`fixed_size`] bytes. A value past its type's maximum is
/// cut.
pub fn put_fixed(m: &Module, ty: TyId, v: &Value, out: &mut [u8]) {
    match (m.ty(ty), v) {
        (Ty::Bool, Value::Bool(b)) => out[0] = *b as u8,
        (Ty::UInt(_) | Ty::Int(_), Value::Int(i)) => out[..16].copy_from_slice(&i.to_le_bytes()),
        (Ty::Bytes(max), Value::Bytes(b)) => {
            let n = b.len().min(*max as usize);
            out[..4].copy_from_slice(&(n as u32).to_le_bytes());
            out[4..4 + n].copy_from_slice(&b[..n]);
        }
        (Ty::Endpoint, Value::Endpoint(e)) => {
            out[..16].copy_from_slice(&e.ip);
            out[16..18].copy_from_slice(&e.port.to_le_bytes());
        }
        (Ty::Ip, Value::Ip(ip)) => out[..16].copy_from_slice(ip),
        (Ty::Option(t), Value::Option(o)) => {
            out[0] = o.is_some() as u8;
            if let Some(v) = o {
                put_fixed(m, *t, v, &mut out[1..]);
            }
        }
        (Ty::List(t, max), Value::List(l)) => {
            let (size, n) = (fixed_size(m, *t), l.len().min(*max as usize));
            out[..4].copy_from_slice(&(n as u32).to_le_bytes());
            for (i, v) in l.iter().take(n).enumerate() {
                put_fixed(m, *t, v, &mut out[4 + i * size..4 + (i + 1) * size]);
            }
        }
        (Ty::Record(_) | Ty::Tuple(_), Value::Record(vs)) => {
            let mut at = 0;
            for (t, v) in member_types(m, ty).into_iter().zip(vs) {
                put_fixed(m, t, v, &mut out[at..]);
                at += fixed_size(m, t);
            }
        }
        _ => {}
    }
}

/// Reads the fixed-size form.
pub fn get_fixed(m: &Module, ty: TyId, b: &[u8]) -> Value {
    let count = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize;
    match m.ty(ty) {
        Ty::Bool => Value::Bool(b[0] != 0),
        Ty::UInt(_) | Ty::Int(_) => Value::Int(u128::from_le_bytes(sixteen(b))),
        Ty::Bytes(max) => Value::bytes(&b[4..4 + count(b).min(*max as usize)]),
        Ty::Endpoint => Value::Endpoint(Endpoint { ip: sixteen(b), port: u16::from_le_bytes([b[16], b[17]]) }),
        Ty::Ip => Value::Ip(sixteen(b)),
        Ty::Option(_) if b[0] == 0 => Value::NONE,
        Ty::Option(t) => Value::some(get_fixed(m, *t, &b[1..])),
        Ty::List(t, max) => {
            let size = fixed_size(m, *t);
            Value::List((0..count(b).min(*max as usize)).map(|i| get_fixed(m, *t, &b[4 + i * size..])).collect())
        }
        Ty::Record(_) | Ty::Tuple(_) => {
            let mut at = 0;
            let read = |t: TyId| {
                let v = get_fixed(m, t, &b[at..]);
                at += fixed_size(m, t);
                v
            };
            Value::Record(member_types(m, ty).into_iter().map(read).collect())
        }
        Ty::Unit | Ty::Msg(_) => Value::zero(m, ty),
    }
}

fn sixteen(b: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&b[..16]);
    out
}

/// Types of the members of a record or tuple.
pub fn member_types(m: &Module, ty: TyId) -> Vec<TyId> {
    match m.ty(ty) {
        Ty::Record(r) => m.records[r.index()].fields.iter().map(|(_, t)| *t).collect(),
        Ty::Tuple(ts) => ts.clone(),
        _ => Vec::new(),
    }
}

/// The canonical form: `hash` hashes it, and equal table keys have equal ones. Integers are little
/// endian at their width in whole bytes, an endpoint is its address and its port big endian.
/// `delimited`: bytes get their length in front, so that different keys never have the same form
/// (`hash` leaves it out).
pub fn canonical(m: &Module, ty: TyId, v: &Value, delimited: bool, out: &mut Vec<u8>) {
    match (m.ty(ty), v) {
        (Ty::Bool, Value::Bool(b)) => out.push(*b as u8),
        (Ty::UInt(bits) | Ty::Int(bits), Value::Int(i)) => {
            out.extend_from_slice(&i.to_le_bytes()[..(*bits as usize).div_ceil(8).min(16)]);
        }
        (_, Value::Bytes(b)) => {
            if delimited {
                out.extend_from_slice(&(b.len() as u32).to_le_bytes());
            }
            out.extend_from_slice(b);
        }
        (_, Value::Endpoint(e)) => {
            out.extend_from_slice(&e.ip);
            out.extend_from_slice(&e.port.to_be_bytes());
        }
        (_, Value::Ip(ip)) => out.extend_from_slice(ip),
        (Ty::Option(t), Value::Option(o)) => {
            out.push(o.is_some() as u8);
            if let Some(v) = o {
                canonical(m, *t, v, delimited, out);
            }
        }
        (Ty::List(t, _), Value::List(l)) => {
            if delimited {
                out.extend_from_slice(&(l.len() as u32).to_le_bytes());
            }
            l.iter().for_each(|v| canonical(m, *t, v, delimited, out));
        }
        (Ty::Record(_) | Ty::Tuple(_), Value::Record(vs)) => {
            for (t, v) in member_types(m, ty).into_iter().zip(vs) {
                canonical(m, t, v, delimited, out);
            }
        }
        _ => {}
    }
}

/// Bytes of a key or value in a shared table of compiled code; at most [`layout::encoded_max`].
pub fn encoded_size(m: &Module, ty: TyId, v: &Value) -> u64 {
    match (m.ty(ty), v) {
        (_, Value::Bytes(b)) => 4 + b.len() as u64,
        (Ty::Option(t), Value::Option(o)) => 1 + o.as_ref().map_or(0, |v| encoded_size(m, *t, v)),
        (Ty::List(t, _), Value::List(l)) => 4 + l.iter().map(|v| encoded_size(m, *t, v)).sum::<u64>(),
        (Ty::Record(_) | Ty::Tuple(_), Value::Record(vs)) => {
            member_types(m, ty).into_iter().zip(vs).map(|(t, v)| encoded_size(m, t, v)).sum()
        }
        (Ty::Unit, _) => 1,
        _ => layout::encoded_max(m, ty),
    }
}

/// The value whose delimited canonical form this is. Missing bytes are zero.
pub fn from_canonical(m: &Module, ty: TyId, b: &mut &[u8]) -> Value {
    fn take<'a>(b: &mut &'a [u8], n: usize) -> &'a [u8] {
        let (a, rest) = b.split_at(n.min(b.len()));
        *b = rest;
        a
    }
    let number = |b: &mut &[u8], n: usize| take(b, n).iter().rev().fold(0u128, |a, b| a << 8 | u128::from(*b));
    match m.ty(ty) {
        Ty::Bool => Value::Bool(number(b, 1) != 0),
        Ty::UInt(bits) | Ty::Int(bits) => Value::Int(number(b, (*bits as usize).div_ceil(8).min(16))),
        Ty::Bytes(_) => {
            let n = number(b, 4) as usize;
            Value::bytes(take(b, n))
        }
        Ty::Ip => {
            let mut ip = [0; 16];
            let a = take(b, 16);
            ip[..a.len()].copy_from_slice(a);
            Value::Ip(ip)
        }
        Ty::Endpoint => {
            let mut e = Endpoint::default();
            let a = take(b, 16);
            e.ip[..a.len()].copy_from_slice(a);
            e.port = take(b, 2).iter().fold(0, |a, b| a << 8 | u16::from(*b));
            Value::Endpoint(e)
        }
        Ty::Option(t) => {
            if number(b, 1) != 0 {
                Value::some(from_canonical(m, *t, b))
            } else {
                Value::NONE
            }
        }
        Ty::List(t, _) => {
            let n = number(b, 4);
            Value::List((0..n).map_while(|_| (!b.is_empty()).then(|| from_canonical(m, *t, b))).collect())
        }
        Ty::Record(_) | Ty::Tuple(_) => {
            Value::Record(member_types(m, ty).into_iter().map(|t| from_canonical(m, t, b)).collect())
        }
        Ty::Unit | Ty::Msg(_) => Value::zero(m, ty),
    }
}

/// An address in dotted or colon form (RFC 5952).
pub fn ip_text(ip: [u8; 16]) -> String {
    let v6 = std::net::Ipv6Addr::from(ip);
    v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string())
}

/// An address and a port; the address of IPv6 in brackets (RFC 3986, section 3.2.2).
pub fn endpoint_text(ip: [u8; 16], port: u16) -> String {
    let ip = ip_text(ip);
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}
