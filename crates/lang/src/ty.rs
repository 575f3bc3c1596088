//! The checker's types: their meaning, their names in diagnostics, and their IR forms.

use ir::{EnumId, FieldId, RecordId, TyId, UnitId};
use wireloom_ir as ir;

// The numbers of these types in each module.
pub const T_BOOL: ir::TyId = ir::TyId(1);
pub const T_U8: ir::TyId = ir::TyId(2);
pub const T_U16: ir::TyId = ir::TyId(3);
pub const T_U32: ir::TyId = ir::TyId(4);
pub const T_U64: ir::TyId = ir::TyId(5);

#[derive(Clone, Debug, PartialEq)]
pub enum Ty {
    /// Of an expression that was refused: agrees with everything, so that one mistake is reported
    /// once.
    Error,
    /// Of an expression that does not come back (`return`, `fault x`).
    Never,
    Unit,
    Bool,
    /// An integer constant that takes the width of its use.
    Lit,
    Int {
        bits: u8,
        signed: bool,
    },
    Duration,
    Instant,
    Fault,
    /// Either family; IPv4 as its IPv6 mapped form.
    Ip,
    /// 32 and 128 bits, as numbers.
    Ip4,
    Ip6,
    Endpoint,
    Mac,
    Prefix,
    /// Names a client's connection of the app's conversations.
    Handle,
    Bytes(u64),
    /// `none` before its type is known.
    None,
    Option(Box<Ty>),
    List(Box<Ty>, u32),
    Tuple(Vec<Ty>),
    Record(RecordId),
    Enum(EnumId),
    /// A message or a nested unit.
    Msg(UnitId),
    /// A message that is kept as its bytes, at most so many.
    Kept(UnitId, u64),
    /// A list field of a unit: its items are reached by path.
    Items(Box<Elem>, u32),
    /// A switch field.
    Switch(UnitId, FieldId),
    /// A field that flows through unread.
    Stream,
    /// The answers to `call all`.
    Replies(UnitId),
    /// A port or one of its instances is no value; these appear only as operands.
    Port(ir::PortId),
    Table(ir::TableId),
    /// The client's connection.
    Conn,
}

/// The items of a unit's list field.
#[derive(Clone, Debug, PartialEq)]
pub enum Elem {
    Unit(UnitId),
    Value(Ty),
}

pub const U8: Ty = Ty::Int { bits: 8, signed: false };
pub const U16: Ty = Ty::Int { bits: 16, signed: false };
pub const U32: Ty = Ty::Int { bits: 32, signed: false };
pub const U64: Ty = Ty::Int { bits: 64, signed: false };

impl Ty {
    pub fn option(self) -> Ty {
        Ty::Option(Box::new(self))
    }
    pub fn is_int(&self) -> bool {
        matches!(self, Ty::Int { .. } | Ty::Lit)
    }
    pub fn is_option(&self) -> bool {
        matches!(self, Ty::Option(_) | Ty::None)
    }
    /// The types that data of this type is made of. None: it is no data, but a place in a message
    /// or an operand.
    pub fn parts(&self) -> Option<&[Ty]> {
        match self {
            Ty::Option(t) | Ty::List(t, _) => Some(std::slice::from_ref(t)),
            Ty::Tuple(ts) => Some(ts),
            Ty::Error | Ty::Never | Ty::Unit | Ty::None => Some(&[]),
            Ty::Bool | Ty::Lit | Ty::Int { .. } | Ty::Enum(_) | Ty::Fault | Ty::Duration | Ty::Instant => Some(&[]),
            Ty::Ip | Ty::Ip4 | Ty::Ip6 | Ty::Endpoint | Ty::Mac | Ty::Prefix | Ty::Handle => Some(&[]),
            Ty::Bytes(_) | Ty::Record(_) | Ty::Kept(..) => Some(&[]),
            Ty::Msg(_) | Ty::Items(..) | Ty::Switch(..) | Ty::Stream | Ty::Replies(_) => None,
            Ty::Port(_) | Ty::Table(_) | Ty::Conn => None,
        }
    }
    /// Whether a `none` in it has no type yet.
    pub fn is_open(&self) -> bool {
        *self == Ty::None || self.parts().is_some_and(|ts| ts.iter().any(Ty::is_open))
    }
    /// Whether values of the type are plain data: they can be stored, passed to functions and
    /// compared.
    pub fn is_plain(&self) -> bool {
        self.parts().is_some_and(|ts| ts.iter().all(Ty::is_plain))
    }
    /// Bits of the values that the IR keeps as unsigned or signed integers. An enum's are in its
    /// declaration.
    pub fn int_bits(&self) -> Option<u8> {
        match self {
            Ty::Int { bits, .. } => Some(*bits),
            Ty::Duration | Ty::Instant => Some(64),
            Ty::Mac => Some(48),
            Ty::Ip4 => Some(32),
            Ty::Ip6 => Some(128),
            Ty::Fault => Some(16),
            Ty::Error | Ty::Never | Ty::Unit | Ty::None | Ty::Bool | Ty::Lit | Ty::Enum(_) => None,
            Ty::Ip | Ty::Endpoint | Ty::Prefix | Ty::Handle | Ty::Bytes(_) | Ty::Kept(..) => None,
            Ty::Option(_) | Ty::List(..) | Ty::Tuple(_) | Ty::Record(_) => None,
            Ty::Msg(_) | Ty::Items(..) | Ty::Switch(..) | Ty::Stream | Ty::Replies(_) => None,
            Ty::Port(_) | Ty::Table(_) | Ty::Conn => None,
        }
    }
    /// The largest length of bytes, or of an option of them. Of other types: 0, see
    /// [`ir::layout::bytes_in`].
    pub fn bytes_max(&self) -> u64 {
        if let Ty::Option(t) = self {
            return t.bytes_max();
        }
        if let Ty::Bytes(n) = self {
            *n
        } else {
            0
        }
    }
    pub fn is_error(&self) -> bool {
        matches!(self, Ty::Error)
    }
}

/// Bytes as people write them.
pub fn size(n: u64) -> String {
    match n {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{}MiB", n >> 20),
        n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{}KiB", n >> 10),
        n => n.to_string(),
    }
}

/// The type as it is written in the source.
pub fn show(ty: &Ty, m: &ir::Module) -> String {
    show_as(ty, m, &|_| None)
}

/// The same, with other names for some types.
pub fn show_as(ty: &Ty, m: &ir::Module, named: &dyn Fn(&Ty) -> Option<String>) -> String {
    if let Some(name) = named(ty) {
        return name;
    }
    let show = |t: &Ty, m: &ir::Module| show_as(t, m, named);
    match ty {
        Ty::Error => "?".into(),
        Ty::Never => "nothing (it does not come back)".into(),
        Ty::Unit => "no value".into(),
        Ty::Bool => "bool".into(),
        Ty::Lit => "an integer".into(),
        Ty::Int { bits, signed } => format!("{}{bits}", if *signed { 'i' } else { 'u' }),
        Ty::Duration => "duration".into(),
        Ty::Instant => "instant".into(),
        Ty::Fault => "fault".into(),
        Ty::Ip => "ip".into(),
        Ty::Ip4 => "ip4".into(),
        Ty::Ip6 => "ip6".into(),
        Ty::Endpoint => "endpoint".into(),
        Ty::Mac => "mac".into(),
        Ty::Prefix => "prefix".into(),
        Ty::Handle => "a client's handle".into(),
        Ty::Bytes(n) => format!("bytes<{}>", size(*n)),
        Ty::None => "none".into(),
        Ty::Option(t) => format!("{}?", show(t, m)),
        Ty::List(t, n) => format!("list<{}, {n}>", show(t, m)),
        Ty::Tuple(ts) => format!("({})", ts.iter().map(|t| show(t, m)).collect::<Vec<_>>().join(", ")),
        Ty::Record(r) => m.records.get(r.index()).map_or("record".into(), |r| r.name.clone()),
        Ty::Enum(e) => m.enums.get(e.index()).map_or("enum".into(), |e| e.name.clone()),
        Ty::Msg(u) => m.units.get(u.index()).map_or("unit".into(), |u| u.name.clone()),
        Ty::Kept(u, n) => format!("{}<{}>", show(&Ty::Msg(*u), m), size(*n)),
        Ty::Items(e, n) => format!(
            "list<{}, {n}>",
            match &**e {
                Elem::Unit(u) => show(&Ty::Msg(*u), m),
                Elem::Value(t) => show(t, m),
            }
        ),
        Ty::Switch(..) => "a switch".into(),
        Ty::Stream => "a stream".into(),
        Ty::Replies(u) => format!("the answers ({})", show(&Ty::Msg(*u), m)),
        Ty::Port(_) => "a port".into(),
        Ty::Table(_) => "a table".into(),
        Ty::Conn => "a connection".into(),
    }
}

/// The IR form of a type; types without values become `Unit`.
pub fn lower(ty: &Ty, m: &mut ir::Module) -> TyId {
    let t = match ty {
        Ty::Bool => ir::Ty::Bool,
        Ty::Lit => ir::Ty::UInt(64),
        Ty::Int { bits, signed: false } => ir::Ty::UInt(*bits),
        Ty::Int { bits, signed: true } => ir::Ty::Int(*bits),
        Ty::Duration | Ty::Instant | Ty::Handle => ir::Ty::UInt(64),
        Ty::Fault => ir::Ty::UInt(16),
        Ty::Mac => ir::Ty::UInt(48),
        Ty::Ip => ir::Ty::Ip,
        Ty::Ip4 => ir::Ty::UInt(32),
        Ty::Ip6 => ir::Ty::UInt(128),
        Ty::Endpoint => ir::Ty::Endpoint,
        Ty::Prefix => {
            let t = m.intern(ir::Ty::UInt(128));
            ir::Ty::Tuple(vec![t, t])
        }
        Ty::Bytes(n) | Ty::Kept(_, n) => ir::Ty::Bytes(*n),
        Ty::Option(t) => {
            let t = lower(t, m);
            ir::Ty::Option(t)
        }
        Ty::List(t, n) => {
            let t = lower(t, m);
            ir::Ty::List(t, *n)
        }
        Ty::Tuple(ts) => ir::Ty::Tuple(ts.iter().map(|t| lower(t, m)).collect()),
        Ty::Record(r) => ir::Ty::Record(*r),
        Ty::Enum(e) => ir::Ty::UInt(m.enums.get(e.index()).map_or(8, |e| e.bits)),
        Ty::Msg(u) => ir::Ty::Msg(*u),
        Ty::Items(e, n) => match &**e {
            Elem::Value(t) => {
                let t = lower(t, m);
                ir::Ty::List(t, *n)
            }
            Elem::Unit(_) => ir::Ty::Unit,
        },
        Ty::Error | Ty::Never | Ty::Unit | Ty::None => ir::Ty::Unit,
        Ty::Switch(..) | Ty::Stream | Ty::Replies(_) | Ty::Port(_) | Ty::Table(_) | Ty::Conn => ir::Ty::Unit,
    };
    m.intern(t)
}
