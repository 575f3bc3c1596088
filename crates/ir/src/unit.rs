//! Wire formats: a unit is a sequence of fields that a parser walks once, front to back.

use crate::*;

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteSet(pub [u64; 4]);

impl ByteSet {
    pub const EMPTY: Self = ByteSet([0; 4]);
    pub const ALL: Self = ByteSet([u64::MAX; 4]);
    pub fn has(&self, b: u8) -> bool {
        self.0[(b >> 6) as usize] >> (b & 63) & 1 == 1
    }
    pub fn add(&mut self, b: u8) {
        self.0[(b >> 6) as usize] |= 1 << (b & 63)
    }
    pub fn union(mut self, o: &Self) -> Self {
        for i in 0..4 {
            self.0[i] |= o.0[i]
        }
        self
    }
    pub fn intersects(&self, o: &Self) -> bool {
        (0..4).any(|i| self.0[i] & o.0[i] != 0)
    }
    pub fn complement(mut self) -> Self {
        for w in &mut self.0 {
            *w = !*w
        }
        self
    }
    pub fn of(bytes: &[u8]) -> Self {
        let mut s = Self::EMPTY;
        for b in bytes {
            s.add(*b)
        }
        s
    }
    /// Of 32 bytes, as the set of `all_in` is written: bit n of byte k is the byte 8 k + n.
    pub fn of_bits(bits: &[u8]) -> Option<Self> {
        let bits: &[u8; 32] = bits.try_into().ok()?;
        let mut s = Self::EMPTY;
        for (n, byte) in bits.iter().enumerate() {
            s.0[n / 8] |= u64::from(*byte) << (n % 8 * 8)
        }
        Some(s)
    }
    pub fn range(from: u8, to: u8) -> Self {
        let mut s = Self::EMPTY;
        for b in from..=to {
            s.add(b)
        }
        s
    }
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
    pub fn is_subset(&self, o: &Self) -> bool {
        (0..4).all(|i| self.0[i] & !o.0[i] == 0)
    }
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255u8).filter(|b| self.has(*b))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// `memcached.Command`
    pub name: String,
    pub doc: String,
    pub span: Span,
    /// Parameters, packed into `ctx` from bit `shift` on.
    pub params: Vec<UnitParam>,
    /// Of a response: values of its request, packed behind the parameters, for the clauses
    /// `stray` of its protocols. `UnitParam` counts them on from the parameters.
    pub asked: Vec<UnitParam>,
    /// All fields, those inside switch cases and list elements included.
    pub fields: Vec<Field>,
    /// The fields of the unit itself, in wire order.
    pub body: Vec<FieldId>,
    /// Position in `body` of the first field that is, or contains, the tail's beginning;
    /// `body.len()`: no tail. Only meaningful for message units. Where the field is a nested unit
    /// or a switch, the parser enters it while still in the head. The head ends where it first
    /// reaches a field that [`crate::grammar::begins_tail`]. A message that takes no such field is
    /// whole with its head.
    pub tail: u32,
    /// Whether there are `stream` fields (then it is never held whole).
    pub streams: bool,
    /// `limit 16MiB`: the largest message, where the fields' maxima add up to more than a program
    /// will hold. Longer ones are `too_long`. Only for message units.
    pub limit: Option<u64>,
    /// Bytes: smallest, and largest without `stream` fields.
    pub min: u64,
    pub max: u64,
    /// Largest head.
    pub head_max: u64,
    /// Bytes it can begin with (ALL if it can be empty or begins with anything).
    pub first: ByteSet,
    /// Set: the unit describes whole frames (`packet`); its body is one switch per layer, in the
    /// order of `layers`.
    pub frame: Option<Frame>,
    /// The clauses of a header unit, for edits in place.
    pub header: Header,
}

/// A frame as a graph of headers. A header follows another one where a condition over that one
/// holds; each is there at most once. A header that is cut off or breaks one of its rules is
/// absent, and so is all behind it. No read goes past the frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub layers: Vec<Layer>,
    /// Which headers are looked for first.
    pub fast_path: Option<plans::FastPath>,
    /// Headers are told apart without branches: rules say what becomes of frames, and no processor
    /// can predict which headers the next one has. Set by the pass `packet_fast_path`.
    pub branch_free: bool,
    /// The fields whose places a parser notes. Set by the pass `header_slots`.
    pub slots: Vec<plans::HeaderSlot>,
}

/// One header of a frame. `switch` is a field of the frame unit, a switch of two cases: 0, named
/// like the header, holds the field `header` (a nested unit). 1 is `else`, empty. So
/// `Case(p.switch, 0)` is "the header is there".
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub switch: FieldId,
    pub header: FieldId,
    pub unit: UnitId,
    /// Tried in order. All layers named are earlier ones.
    pub after: Vec<After>,
}

/// `layer`: the header before it (index into `layers`; None: the frame's beginning). `cond`: over
/// the frame unit (`Root::This`), of which it may read that header.
#[derive(Clone, Debug, PartialEq)]
pub struct After {
    pub layer: Option<u32>,
    pub cond: Option<Expr>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    pub checksum: Option<Checksum>,
    /// Fields of the source and destination address, if it is a network header. They, the protocol
    /// and the length are in the pseudo header of a transport's checksum (RFC 768, 9293 3.1, 8200
    /// 8.1).
    pub addresses: Option<(FieldId, FieldId)>,
    /// A length that follows what is inserted, removed or resized, and ends the payload (what comes
    /// after it is padding).
    pub covers: Option<Covers>,
    /// Not 0: what is behind the header is the first part of something longer (a fragment). So
    /// lengths of headers behind it may go past the end.
    pub partial: Option<FieldId>,
    /// Fields that differ between the packets of a flow, besides the checksum, the length and what
    /// is computed of them.
    pub per_packet: Vec<FieldId>,
    /// The links whose frames begin with such a header.
    pub link: crate::desc::Begins,
}

/// An Internet checksum (RFC 1071), in a field of 16 bits, or in the first two of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    pub field: FieldId,
    pub over: Over,
    /// A flag of one bit, by which the field is there (GRE). Its place is fixed.
    pub when: Option<FieldId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The header itself.
    Header,
    /// The header and all behind it (ICMP).
    Message,
    /// The pseudo header of the network header before it (with this protocol number), the header
    /// and all behind it. `optional`: 0 says that there is none (UDP over IPv4).
    Transport { protocol: u8, optional: bool },
}

/// The value of `field` counts bytes to the end of the header's payload. `own`: from the header's
/// first byte on; else from the one behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covers {
    pub field: FieldId,
    pub own: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct UnitParam {
    pub name: String,
    pub ty: TyId,
    pub shift: u8,
    pub bits: u8,
}

impl UnitParam {
    pub fn mask(&self) -> u64 {
        if self.bits >= 64 {
            u64::MAX
        } else {
            (1 << self.bits) - 1
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// None: `_`, literals, `require`, …
    pub name: Option<String>,
    /// From the source, for people.
    pub doc: String,
    pub span: Span,
    /// Type of its value when read (`Unit` where there is none). Of a list field it is
    /// List(element type, max) where the element is a plain value, else `Unit`.
    pub ty: TyId,
    pub kind: FieldKind,
    /// The place that faults in this field name.
    pub place: PlaceId,
    /// Fault when it is longer than its maximum; any other mismatch is `bad`.
    pub too_long: FaultKind,
    pub bad: FaultKind,
    /// `in {…}`: inclusive ranges.
    pub within: Option<Vec<(u64, u64)>>,
    /// The bytes in which it lies, if it is a unit in a length. In front of the tail, a part of it
    /// that needs others is malformed at once.
    pub lies_in: Option<Expr>,
    /// How it is filled in when building (lengths of other fields): over the unit's other fields'
    /// values.
    pub computed: Option<Computed>,
    /// Set by the `field_liveness` pass: the program, or the grammar itself, reads its value / its
    /// extent (start and end offset). Unused values are not stored in the view.
    pub value_used: bool,
    pub extent_used: bool,
}

/// `= len(key) + len(value) + 4`: the sum of the lengths of these fields plus a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computed {
    pub lengths: Vec<FieldId>,
    pub plus: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// A fixed-width integer: a container of `bytes` bytes, of which `bits` bits from `shift` on
    /// are the value. `advance`: the next field starts behind the container (false for all but the
    /// last of a group of bit fields).
    UInt {
        bytes: u8,
        shift: u8,
        bits: u8,
        big: bool,
        signed: bool,
        advance: bool,
    },
    /// A number as text; 1 to `digits` digits, exactly `digits` if `exact`. Overflow of the type is
    /// `bad`.
    Number {
        radix: u8,
        digits: u8,
        exact: bool,
        until: Option<Until>,
    },
    /// LEB128.
    Varint {
        max_bytes: u8,
    },
    /// `class`: every byte must be in it (checked with the extent `Run`: ends the run).
    Bytes {
        min: u64,
        max: u64,
        class: Option<ByteSet>,
        extent: Extent,
        trim: Option<ByteSet>,
        caseless: bool,
    },
    /// One of these; the first is what is sent.
    Literal {
        values: Vec<Vec<u8>>,
    },
    /// A bool: these bytes are next (and consumed).
    Flag {
        value: Vec<u8>,
    },
    /// A nested unit.
    Unit {
        unit: UnitId,
        args: Vec<Expr>,
    },
    List {
        element: FieldId,
        max: u32,
        extent: ListExtent,
    },
    /// Bytes that flow through. Extent: Length, Close.
    StreamBytes {
        extent: Extent,
    },
    /// A unit that flows through (`None`), repeated until the condition over the item
    /// (`Root::Item`) holds (`Some`).
    StreamUnit {
        unit: UnitId,
        args: Vec<Expr>,
        until: Option<Expr>,
    },
    /// The first case whose guard holds; none: `bad`.
    Switch {
        cases: Vec<Case>,
    },
    /// A value computed from earlier fields.
    Let {
        value: Expr,
    },
    Require {
        cond: Expr,
    },
    Recover {
        how: Recover,
    },
    /// Says what of a tail is passed on. No bytes.
    Pass {
        how: PassRule,
    },
    /// Up to the next multiple of n bytes from the unit's start.
    Align {
        to: u32,
    },
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Until {
    pub delimiters: Vec<Vec<u8>>,
    /// Left for the next field.
    pub peek: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Extent {
    /// Guarded by the lowering: never negative; over `max` is `too_long`.
    Length(Expr),
    Until(Until),
    /// The longest run of bytes in `class`.
    Run,
    ToEnd,
    Close,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ListExtent {
    Count(Expr),
    Until(Until),
    ToEnd,
    /// An accumulator (u64, `Root::Acc` … [`ExprKind::Acc`]) over the items. After each item `step`
    /// (over the item at `Root::Item` and the accumulator) gives its next value; ends when `done`
    /// holds. Checked before the first item, too. Where `holds` (over the same as `step`) does not
    /// hold, the step has no value and the message is malformed.
    Fold {
        init: Expr,
        holds: Option<Expr>,
        step: Expr,
        done: Expr,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub name: Option<String>,
    pub guard: Guard,
    pub fields: Vec<FieldId>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Guard {
    /// The next bytes are one of these (consumed unless `peek`).
    Literal {
        values: Vec<Vec<u8>>,
        peek: bool,
    },
    When(Expr),
    Else,
    /// The message is refused.
    Fault(FaultKind),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Recover {
    /// Skip past the next of these.
    Until(Until),
    /// That many bytes from this field's position.
    Length(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum PassRule {
    /// From here on bytes of the tail are passed on if this holds.
    When(Expr),
    /// This case of a switch is passed on as another one of it (by number); `endless`: one that
    /// ends with the connection.
    As { case: u32, endless: bool },
}
