//! Units: what messages look like; and the headers of packets.

use super::code::{Expr, Param, Type};
use super::names::{Ident, Span};

#[derive(Clone, Debug)]
pub struct Unit {
    pub name: Ident,
    /// `unit Response(head: bool)`: at most 64 bits together
    pub params: Vec<Param>,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub doc: String,
    pub span: Span,
    pub kind: FieldKind,
}

#[derive(Clone, Debug)]
pub enum FieldKind {
    /// `order big`
    Order { big: bool },
    /// `let total = a + b`
    Let { name: Ident, ty: Option<Type>, value: Expr },
    /// `limit 16MiB`: the largest message of the unit
    Limit(Expr),
    /// `require e else fault_name`
    Require { cond: Expr, or: Option<Ident> },
    /// `append headers { name: "connection", value: "close" } when last`: an item that messages get
    /// which a program builds
    Append { list: Ident, fields: Vec<(Ident, Expr)>, when: Expr },
    /// `"\r\n"`, `"\r\n" or "\n"` (the first is what is sent); `else`: the fault when the bytes
    /// differ
    Literal { values: Vec<Vec<u8>>, or: Option<Ident> },
    /// `recover until "\n"`, `recover [n + 2]`: resynchronises a stream after a fault in the fields
    /// that follow (up to the next `recover`). The parser skips to the delimiter, or that many
    /// bytes from this point.
    Recover { until: Option<Until>, length: Option<Expr> },
    /// `pass when e`: from here on the bytes of a tail are passed on where this holds
    PassWhen(Expr),
    /// `pass as rest`: what is passed on of this case is another case of the switch to its next
    /// reader
    PassAs(Ident),
    /// `name: shape in set = expr else fault`. `name` None: `_`
    Value {
        name: Option<Ident>,
        shape: Shape,
        /// `in {0x80, 0x81}` / `in 1..=31`
        within: Option<Expr>,
        /// `= len(key)`: read when parsing (and checked where the grammar does not use it),
        /// recomputed when sending
        computed: Option<Expr>,
        /// `else name`: the fault when the field is too long
        or: Option<Ident>,
        /// `checksum header`, `covers own`: what the field says of the header around it
        mark: Option<Box<Mark>>,
    },
    /// `addresses src, dst`: the fields with a network header's addresses
    Addresses(Ident, Ident),
    /// `per_packet id, ttl`: fields that differ between the packets of a flow
    PerPacket(Vec<Ident>),
    /// `link ethernet`, `link ip`: the links whose frames begin with this header
    Link(Ident),
    /// `partial more`: the field that says that a payload is the first part of something longer
    Partial(Ident),
}

#[derive(Clone, Debug)]
pub enum Mark {
    /// `checksum header`, `checksum message`, `checksum transport 6`,
    /// `checksum transport 17 optional`
    Checksum { over: Ident, protocol: Option<Expr>, optional: bool },
    /// `covers own`: from the header's first byte; `covers rest`: from the byte behind it; both to
    /// the end of the payload
    Covers { own: bool },
}

/// How a field lies in the bytes.
#[derive(Clone, Debug)]
pub struct Shape {
    pub span: Span,
    pub kind: ShapeKind,
}

#[derive(Clone, Debug)]
pub enum ShapeKind {
    /// `u16`, `u4`, `i32 little`, an enum, a record, a nested unit `Header` or `Chunk(x)`: resolved
    /// by name
    Named {
        ty: Type,
        args: Vec<Expr>,
        order: Option<bool /* big */>,
    },
    /// `decimal<u32> until "\r\n"`, `hex<u64> …`: a number as text. `digits`: `decimal<u16, 3>`
    /// exactly that many digits when no `until` is given, at most that many when it is.
    Number {
        radix: u8,
        ty: Type,
        digits: Option<Expr>,
        until: Option<Until>,
    },
    /// `varint<u64>`: LEB128
    Varint {
        ty: Type,
    },
    /// `bytes<N> …`, `token<N> …`, `text<N> …`
    Bytes {
        word: BytesWord,
        max: Expr,
        of: Option<Expr>,
        extent: Extent,
        trim: Option<Expr>,
        caseless: bool,
    },
    /// `list<Header, 100> until "\r\n"`
    List {
        element: Box<Shape>,
        max: Expr,
        extent: ListExtent,
    },
    /// `stream bytes [n]`, `stream bytes until close`, `stream Chunk`
    Stream {
        element: Option<Box<Shape>>,
        extent: Extent,
    },
    /// `switch { … }`, `switch e { … }`
    Switch {
        on: Option<Box<Expr>>,
        cases: Vec<Case>,
    },
    Nothing,
    /// `flag "noreply"`: a bool, true if these bytes are next (then they are consumed)
    Flag(Vec<u8>),
    /// `pad 4`: zero to three bytes up to a multiple of 4 from the unit's start
    Align(Expr),
    /// `skip 3`: that many bytes of any value (zeros when sent)
    Skip(Expr),
    /// `Version until "\r\n"`, `Options [n]`: a `Named` shape that lies in exactly these bytes
    /// (`to end` in it ends there). The extent is `Length`, `Until` or `ToEnd`.
    Enclosed {
        inner: Box<Shape>,
        extent: Extent,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesWord {
    Bytes,
    Token,
    Text,
}

#[derive(Clone, Debug)]
pub enum Extent {
    /// `[n]`
    Length(Expr),
    Until(Until),
    /// `to end`: of the frame or of the enclosing length
    ToEnd,
    /// `until close`
    Close,
    /// `stream Chunk until .size == 0`: up to and with the item for which this holds; `.x` is the
    /// item's field
    Done(Expr),
    /// `stream Chunk until .size == 0`: repeated; the item for which the condition holds is the
    /// last
    When(Expr),
    /// none written: for `stream Unit` the unit says when it ends. For `bytes<N> of set` and
    /// `token<N>` the longest run of bytes in the set (a token's run has at least one byte)
    None,
}

/// `until "\r\n"`, `until " " or "\r\n"`; `keep`: `until peek "\r\n"` leaves the delimiter to the
/// next field
#[derive(Clone, Debug)]
pub struct Until {
    pub span: Span,
    pub delimiters: Vec<Vec<u8>>,
    pub peek: bool,
}

#[derive(Clone, Debug)]
pub enum ListExtent {
    Count(Expr),
    Until(Until),
    ToEnd,
    /// `until .size == 0`: up to and with the item for which this holds
    Done(Expr),
    /// `fold left = 1 then left - 1 + .children until left == 0`: an accumulator over the items;
    /// `.x` is the item's field
    Fold {
        name: Ident,
        init: Expr,
        step: Expr,
        done: Expr,
    },
}

#[derive(Clone, Debug)]
pub struct Case {
    pub span: Span,
    pub guard: Guard,
    pub body: CaseBody,
}

#[derive(Clone, Debug)]
pub enum Guard {
    /// `"get " | "gets " =>`: the next bytes; consumed unless `peek "VALUE " | peek "END"`
    Literal {
        values: Vec<Vec<u8>>,
        peek: bool,
    },
    /// `when e =>`
    When(Expr),
    /// `when n = headers["content-length"] =>`: taken if the option has a value, bound to n
    WhenSome(Ident, Expr),
    /// `1 | 2 =>` with `switch e`
    Values(Vec<Expr>),
    Else,
}

#[derive(Clone, Debug)]
pub enum CaseBody {
    Nothing,
    /// `name: shape` or a bare unit name (then `name` is derived by `lang`: None)
    Field(Option<Ident>, Box<Field>),
    /// `{ fields }`
    Fields(Vec<Field>),
    /// `fault name`
    Fault(Ident),
}

// ---- packets ----

/// The headers of a frame: `packet Name { eth: Ethernet, ip4: Ipv4 after eth where .type == 0x800,
/// let flow = … }`.
#[derive(Clone, Debug)]
pub struct Packet {
    pub name: Ident,
    pub headers: Vec<PacketHeader>,
    /// Members computed from the headers.
    pub lets: Vec<(Ident, Option<Type>, Expr)>,
}

#[derive(Clone, Debug)]
pub struct PacketHeader {
    pub doc: String,
    pub name: Ident,
    pub unit: Type,
    /// None: at the frame's beginning.
    pub after: Vec<PacketAfter>,
}

/// `after eth where .type == 0x0800`; `.x` is a field of the header before
#[derive(Clone, Debug)]
pub struct PacketAfter {
    pub header: Ident,
    pub cond: Option<Expr>,
}
