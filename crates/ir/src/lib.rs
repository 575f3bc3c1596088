//! The intermediate representation: typed, structured bodies inside a graph of ports and handlers.
//!
//! In: a [`Module`] that `lang` lowers from a checked program. Out: the same, annotated by
//! [`passes`], for the backends (`interp`, `codegen-c`), and a [`desc::Desc`] for the runtime.
//! Stages: `lang` builds the module → [`grammar::analyze`] measures its units → the verifier →
//! passes in the order of [`passes::TABLE`] → backends. Each pass is one file. In debug builds the
//! verifier follows each pass. [`text`] prints and reads the whole IR. [`explain`] and [`graph`]
//! show it to users. [`layout`] has the memory layout that backends and runtime share.
//!
//! Expressions are pure and never fail. A [`Stmt::Require`] before an expression guards against
//! every failure. All integers are unsigned or two's complement of the width of their type.
//! Arithmetic wraps at that width.

// A new kind of type, field or statement must not fall into a default that nobody chose for it.
#![warn(clippy::wildcard_enum_match_arm)]

mod body;
pub mod c_words;
mod conversation;
pub mod core_partition;
pub mod date;
pub mod desc;
mod describe;
pub use describe::changes_pieces;
pub mod edited_fields;
pub mod elements;
pub mod endless;
pub mod explain;
pub mod frame;
mod frame_part;
pub mod grammar;
pub mod graph;
pub mod header_bits;
pub mod layout;
pub mod link;
pub mod live_params;
mod on;
pub mod ops;
pub mod packed_keys;
pub mod packet_state;
pub mod parse_graph;
pub mod passes;
pub mod per_core;
mod per_packet;
pub mod placement;
pub mod plans;
pub mod port_options;
pub mod segments;
pub mod suggestions;
mod table_stmt;
pub mod text;
mod unit;
pub mod verify;
pub mod walk;

pub use body::*;
pub use conversation::{Upstream, UPSTREAMS_MAX};
pub use elements::{Element, Input, Target, Wire};
pub use frame_part::FramePart;
pub use on::On;
pub use ops::{BinOp, Builtin, UnOp};
pub use packet_state::{Carries, PacketField};
pub use segments::Segment;
pub use table_stmt::{TableEffect, TableStmt};
pub use unit::*;

use serde::{Deserialize, Serialize};

macro_rules! index {
    ($($(#[$m:meta])* $name:ident),* $(,)?) => {$(
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(pub u32);
        impl $name { pub fn index(self) -> usize { self.0 as usize } }
    )*};
}

index! {
    /// A type in [`Module::types`].
    TyId,
    RecordId, EnumId, UnitId,
    /// A field of a unit (all fields of a unit, those of switch cases included, are in one list).
    FieldId,
    ProtocolId, FuncId, HandlerId, ParamId, PortId, StateId, SessionId, CounterId, TableId, ElementId, WireId, InputId,
    SegmentId, UpstreamId,
    /// A field of the state of packets, in [`Module::packet`].
    PacketFieldId,
    /// A local of a [`Body`].
    LocalId,
    /// An entry of [`Module::places`]: what a fault names.
    PlaceId,
}

/// A whole program: one app and everything it uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    pub app: String,
    pub types: Vec<Ty>,
    pub records: Vec<Record>,
    pub enums: Vec<Enum>,
    pub units: Vec<Unit>,
    pub protocols: Vec<Protocol>,
    pub funcs: Vec<Func>,
    pub params: Vec<Param>,
    pub ports: Vec<Port>,
    pub states: Vec<State>,
    pub sessions: Vec<Session>,
    #[serde(default)]
    pub upstreams: Vec<Upstream>,
    /// The state that each packet has beside its bytes.
    #[serde(default)]
    pub packet: Vec<PacketField>,
    pub counters: Vec<Counter>,
    pub tables: Vec<Table>,
    pub handlers: Vec<Handler>,
    pub merges: Vec<Merge>,
    pub signals: Vec<Signal>,
    /// How frames are spread over the cores (set by the `flow_affinity` pass). A port that is not
    /// named has no key.
    pub steer: Vec<Steer>,
    pub tests: Vec<Test>,
    /// Source places for faults, in the order of the ABI's `place` indices.
    pub places: Vec<FaultPlace>,
    /// The program's own fault kinds, from `WL_F_USER` on.
    pub faults: Vec<OwnFault>,
    pub elements: Vec<Element>,
    pub wires: Vec<Wire>,
    /// Parts of the app with a core of their own; none: all cores run all of it.
    pub segments: Vec<Segment>,
    /// Parameters of the modelled link to a NIC ([`link`]) that the program gives.
    #[serde(default)]
    pub link: Vec<(String, u64)>,
    pub inputs: Vec<Input>,
    pub files: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ty {
    Unit,
    Bool,
    /// 1 to 64 bits, 128. Also enums, `duration`, `instant` (64, ns), fault kinds (16): see
    /// `names`.
    UInt(u8),
    Int(u8),
    /// At most this many bytes.
    Bytes(u64),
    /// `wl_endpoint`.
    Endpoint,
    /// 16 bytes, IPv4 mapped.
    Ip,
    Option(TyId),
    /// A list value (not a unit's list field): at most `max` items.
    List(TyId, u32),
    Record(RecordId),
    Tuple(Vec<TyId>),
    /// A parsed message (only locals, never stored).
    Msg(UnitId),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    pub fields: Vec<(String, TyId)>,
}

/// Enums are integers in the IR; this keeps the names for text, C and explain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Enum {
    pub name: String,
    pub bits: u8,
    pub open: bool,
    pub variants: Vec<(String, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    pub file: u32,
    pub start: u32,
    pub end: u32,
    pub line: u32,
    pub column: u32,
    /// Of a statement: the element's instance that it belongs to, [`Module::elements`] from 1 on;
    /// 0: the app itself.
    pub element: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultPlace {
    pub name: String,
    pub span: Span,
}

/// A fault kind that the program declares (`fault name`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnFault {
    pub name: String,
    pub doc: String,
}

/// A fault kind as in `support/wireloom.h` (`WL_F_*`; user kinds from 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FaultKind(pub u16);

impl FaultKind {
    pub const MALFORMED: Self = Self(1);
    pub const TOO_LONG: Self = Self(2);
    pub const TRUNCATED: Self = Self(3);
    pub const CONSTRAINT: Self = Self(4);
    pub const INDEX: Self = Self(5);
    pub const DIVISION: Self = Self(6);
    pub const NONE_VALUE: Self = Self(7);
    pub const LOST: Self = Self(8);
    pub const REFUSED: Self = Self(9);
    pub const TIMEOUT: Self = Self(10);
    pub const BAD_REPLY: Self = Self(11);
    pub const OVERLOAD: Self = Self(12);
    pub const IDLE: Self = Self(13);
    pub const FULL: Self = Self(14);
    pub const CANCELLED: Self = Self(15);
    pub const NO_REPLY: Self = Self(16);
    /// The faults that protocols see in the place of MALFORMED, CONSTRAINT and TOO_LONG where a
    /// handler has ended with it.
    pub const INTERNAL: Self = Self(18);
    /// Told where the service ends: no handler raises it.
    pub const SHUTDOWN: Self = Self(21);
    /// Why a connection has ended, without a fault.
    pub const ENDED: Self = Self(22);
    /// An `expect` of a test that does not hold.
    pub const EXPECT: Self = Self(17);
    /// Bytes have come ahead of a change of protocol.
    pub const EARLY: Self = Self(19);
    /// A message of a protocol that its receiver does not speak at present.
    pub const UNSPOKEN: Self = Self(20);
    pub const USER: u16 = 32;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Param {
    pub name: String,
    pub doc: String,
    pub ty: desc::ParamType,
    pub form: desc::Form,
    pub value_ty: TyId,
    pub default: Option<desc::ParamValue>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    pub name: String,
    pub span: Span,
    pub kind: desc::PortKind,
    pub protocols: Vec<ProtocolId>,
    pub options: desc::PortOptions,
    pub ketama: bool,
    pub maglev: bool,
    /// Of messages: each is one UDP datagram.
    #[serde(default)]
    pub udp: bool,
    /// Of a queue.
    #[serde(default)]
    pub carries: Carries,
}

/// Per core, zeroed, then set to `init` when the core starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub name: String,
    pub ty: TyId,
    pub init: Option<Expr>,
}

/// Lives with a client connection; zeroed when it opens (an option is none).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub name: String,
    pub ty: TyId,
    /// It begins anew with each request.
    #[serde(default)]
    pub of_request: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    pub name: String,
    pub doc: String,
}

/// The shortest time after which entries of a table expire, in nanoseconds. Time goes on with each
/// batch of frames or events.
pub const LEAST_IDLE: u64 = 100_000;

/// A keyed table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub name: String,
    pub span: Span,
    pub kind: TableKind,
    /// Every core has its own part, since the steering key is part of the key, or is the key. Else
    /// the cores share the table. Set by the `flow_affinity` pass.
    pub local: bool,
    pub key: TyId,
    pub value: TyId,
    pub capacity: u64,
    /// Each core may keep entries of its own: traffic only adds to them, others see sums.
    pub per_core: bool,
    /// ns; 0 = never
    pub idle: u64,
    /// `idle` counts from the last write, not from the last use.
    pub from_write: bool,
    /// false: a full table rejects (fault `full`)
    pub evict_lru: bool,
    /// Bytes for the variable-size parts of keys and values; 0 = worst case reserved inline.
    pub memory: u64,
    /// So many entries are cached in front, where each core has its own part and entries have one
    /// size; 0: none. Changes no result.
    pub cache: u64,
    /// Bytes of values are copied when an entry is read, as one body both reads and changes the
    /// table. Set by the pass `copied_values`.
    pub copied: bool,
}

impl Table {
    /// A table without entries, options and annotations.
    pub fn new(name: String, span: Span, kind: TableKind, key: TyId, value: TyId) -> Self {
        Table {
            name,
            span,
            kind,
            local: false,
            key,
            value,
            capacity: 0,
            per_core: false,
            idle: 0,
            from_write: false,
            evict_lru: false,
            memory: 0,
            cache: 0,
            copied: false,
        }
    }

    /// Locks of an array that all cores use: place i has lock i modulo their number, a power of
    /// two.
    pub fn locks(&self) -> u64 {
        self.capacity.next_power_of_two().min(64)
    }

    /// Places of the cache in front: a power of two.
    pub fn front(&self) -> u64 {
        if self.cache == 0 {
            0
        } else {
            self.cache.next_power_of_two()
        }
    }
}

/// Where a table's entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableSharing {
    /// Each core has those that are its own.
    Parts,
    /// Each core has all of them: what changes them does so on every core.
    Copies,
    /// There is one table, which all cores use.
    One,
}

/// Registers of a HyperLogLog, a byte each: its standard error is 1.04 / √4096.
pub const HLL_REGISTERS: u64 = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableKind {
    #[default]
    Exact,
    /// Keys are tuples of integers and addresses. An entry has a mask per component and a priority:
    /// the entry of the highest priority that matches is found. Filled from outside (`--load`,
    /// `wireloom table`) or by `insert`.
    Wildcard,
    /// Key: an address (`ip4`, `ip`); entries are prefixes of which the longest that matches is
    /// found.
    Lpm,
    /// Key: an integer below the capacity; every entry is there from the start, zero.
    Array,
    /// Value bool: true may be wrong, at most 1 in 100 at capacity.
    Bloom,
    /// Value u64: a count-min sketch; `update` adds; reads are never below the truth.
    CountMin,
    /// Value bool, which is put and never read: how many different keys there were (`TableLen`),
    /// within 2 % as a rule. Hashed as [`Builtin::Hash`] does.
    HyperLogLog,
    /// A queue of values of one core, first in, first out (`TablePush`, `TablePop`). Key u32: a
    /// place, counted from the oldest.
    Ring,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    pub name: String,
    pub request: UnitId,
    pub response: Option<UnitId>,
    /// Per parameter of the response unit: an expression over the request (`Root::This`).
    pub response_args: Vec<Expr>,
    /// Of a conversation: the same for its request unit, the messages `up`. Both are over sessions
    /// then.
    #[serde(default)]
    pub request_args: Vec<Expr>,
    pub sharing: desc::Sharing,
    /// Of a conversation: nothing is sent to a server before its first message has come.
    #[serde(default)]
    pub server_first: bool,
    pub order_by: Option<FieldId>,
    /// Over the message itself (`Root::This`), its unit's parameters, evaluated when the head is
    /// complete.
    pub close_request: Option<Expr>,
    pub no_reply: Option<Expr>,
    /// Handled when all requests before it on its connection are answered; those behind it wait for
    /// its answer.
    pub alone: Option<Expr>,
    /// The request may be sent again if a pooled connection was closed under it.
    pub repeat: Option<Expr>,
    /// The backend's connection serves this client alone from now on.
    pub private_request: Option<Expr>,
    pub private_response: Option<Expr>,
    pub close_response: Option<Expr>,
    pub interim: Option<Expr>,
    pub tunnel: Option<Expr>,
    /// The answer refuses its request: a connection whose greeting is answered so is closed.
    pub refusal: Option<Expr>,
    /// The answer is not that of its request (`matches`).
    pub stray: Option<Expr>,
    /// Behind this message of a server its session may go to another client of its pool.
    #[serde(default)]
    pub idle: Option<Expr>,
    /// This message of a server says that its session is reset.
    #[serde(default)]
    pub reset: Option<Expr>,
    /// Of a conversation: the server answers this message, at last with one that `settles`.
    #[serde(default)]
    pub owes: Option<Expr>,
    /// Of a conversation: this message is done with once one that is `owes` follows it.
    #[serde(default)]
    pub unfinished: Option<Expr>,
    /// Of a conversation: a server's message that ends an answer which is owed.
    #[serde(default)]
    pub settles: Option<Expr>,
    /// Pieces of the message's streamed bytes that a handler changes go on in chunks (RFC 9112
    /// section 7.1). Only where a handler does.
    #[serde(default)]
    pub chunks_request: Option<Expr>,
    #[serde(default)]
    pub chunks_response: Option<Expr>,
    /// The client waits for these bytes before it sends the rest of its request. Only where that is
    /// read before anything is sent on.
    #[serde(default)]
    pub expects: Option<(Vec<u8>, Expr)>,
    /// Bytes that may stand in front of a request, and how often: they are dropped.
    pub ignore: Option<(Vec<u8>, u8)>,
    /// The classes of answers ([`StmtKind::Outcome`]).
    pub classes: Vec<String>,
    /// A line of the access log: local 0 is the request (Msg); each `Log` gives a column.
    pub on_log: Option<Body>,
    /// The answer to a fault. Locals 0 to 3: the fault's kind (u16), in_step (bool), the request
    /// (Msg; see [`ExprKind::HasMsg`]), the first bytes of a refused message (bytes<32>). Then one
    /// local for each parameter of the response's unit, as packed for the request's last call, else
    /// 0.
    pub on_fault: Option<Body>,
    /// How an interim answer is passed on, which no handler sees: a reply of local 0, the answer
    /// (Msg), with the edits of `forward response`. None: as it came.
    pub on_interim: Option<Body>,
    /// How an answer among several is counted, which no reply passes on alone: an
    /// [`StmtKind::Outcome`] of local 0, the answer (Msg). Only if a handler asks several at once.
    pub on_answer: Option<Body>,
}

impl Protocol {
    /// Its work beside handlers.
    pub fn bodies(&self) -> [&Option<Body>; 4] {
        [&self.on_log, &self.on_fault, &self.on_interim, &self.on_answer]
    }
}

impl Protocol {
    /// A protocol of requests without answers, and without other clauses.
    pub fn new(name: String, request: UnitId, sharing: desc::Sharing) -> Self {
        Protocol {
            name,
            request,
            response: None,
            response_args: Vec::new(),
            request_args: Vec::new(),
            sharing,
            server_first: false,
            order_by: None,
            close_request: None,
            no_reply: None,
            alone: None,
            repeat: None,
            private_request: None,
            private_response: None,
            close_response: None,
            interim: None,
            tunnel: None,
            refusal: None,
            stray: None,
            idle: None,
            reset: None,
            owes: None,
            unfinished: None,
            settles: None,
            chunks_request: None,
            chunks_response: None,
            expects: None,
            ignore: None,
            classes: Vec::new(),
            on_log: None,
            on_fault: None,
            on_interim: None,
            on_answer: None,
        }
    }
}

impl Protocol {
    /// Conditions over a request.
    pub fn request_clauses(&self) -> [Option<&Expr>; 9] {
        let expects = self.expects.as_ref().map(|(_, e)| e);
        let [close, no_reply, alone, repeat, private, chunks, owes, unfinished] = [
            &self.close_request,
            &self.no_reply,
            &self.alone,
            &self.repeat,
            &self.private_request,
            &self.chunks_request,
            &self.owes,
            &self.unfinished,
        ]
        .map(Option::as_ref);
        [close, no_reply, alone, repeat, private, chunks, expects, owes, unfinished]
    }

    /// Conditions over an answer.
    pub fn response_clauses(&self) -> [Option<&Expr>; 10] {
        [
            &self.close_response,
            &self.interim,
            &self.tunnel,
            &self.refusal,
            &self.stray,
            &self.private_response,
            &self.chunks_response,
            &self.idle,
            &self.reset,
            &self.settles,
        ]
        .map(Option::as_ref)
    }

    /// Most bytes of a piece that a handler of pieces sees at once.
    pub const PIECE_MAX: u64 = 64 << 10;
    /// Most bytes of an item of a stream that has a handler.
    pub const ITEM_MAX: u64 = 1 << 20;
    /// Most streams of a unit whose items have handlers.
    pub const ITEM_STREAMS: usize = 15;

    /// So many first bytes of a refused message are told (`WL_START`).
    pub const START: u64 = 32;

    /// Classes of answers that a protocol may have.
    pub const MOST_CLASSES: usize = 7;

    /// So many bytes may be ignored in front of a request, each time.
    pub const MOST_IGNORED: u8 = 4;

    /// Locals of `on_fault` that come before the response's parameters.
    pub const FAULT_LOCALS: usize = 4;

    /// How many of `on_fault`'s locals are set when it begins.
    pub fn fault_presets(&self, m: &Module) -> usize {
        Self::FAULT_LOCALS + self.response.map_or(0, |u| m.unit(u).params.len())
    }
}

/// A total, pure function (it may fault through `Require`). Parameters are the first locals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Func {
    pub name: String,
    pub span: Span,
    pub params: u32,
    pub ret: TyId,
    pub body: FuncBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FuncBody {
    Body(Body),
    /// A C function of this name in this file; outside the guarantees.
    Extern {
        file: String,
        symbol: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handler {
    pub name: String,
    pub span: Span,
    pub on: On,
    /// The segment that it belongs to. None: each core runs it.
    pub segment: Option<SegmentId>,
    /// Its device, by the program or by the pass `place`.
    pub device: ops::Device,
    /// For `On::Message` and `On::Upstream`: local 0 is the message. For `Signal`: the first locals
    /// are its arguments. For `Opened`/`Greeting`/`Probe`/`Closed` and those of upstreams: local 0
    /// is the instance (u32). For `Fault`: local 0 is the kind (u16), 1 the place (u32).
    pub body: Body,
    /// Worst-case steps of one activation (statements and bytes scanned), by the bounds pass.
    pub steps: u64,
    /// Of a handler of frames: what is done for a whole batch.
    pub plan: plans::HandlerPlan,
}

/// `signal read(n: u32) -> u64 { … }`: called from outside while the app runs, on every core. Its
/// handler returns the result as bytes, written as [`desc::ResultType`] says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// `read`, or `cnt.read` of an element's instance.
    pub name: String,
    pub doc: String,
    pub span: Span,
    pub args: Vec<(String, desc::ParamType)>,
    /// How arguments are written, where their types leave it open; none for the last ones: as their
    /// types say.
    pub forms: Vec<desc::Form>,
    /// Values of arguments that are left out; none for the last ones: they must be given.
    pub defaults: Vec<Option<desc::ParamValue>>,
    /// Of a table of patterns: behind each argument `x` of the key stands its mask, `x_mask`.
    pub masked: bool,
    /// Called by the program that an exported app is linked with.
    #[serde(default)]
    pub exported: bool,
    pub result: desc::ResultType,
    /// Type of what the handler returns: bytes.
    pub ret: TyId,
}

/// The flow key of a frame port's frames: expressions of integers and addresses over the frame,
/// which is local 0 (a `Msg` of this unit). They are zero where their headers are absent.
/// `symmetric`: both directions of a flow have one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steer {
    pub port: PortId,
    pub unit: UnitId,
    pub keys: Vec<Expr>,
    pub symmetric: bool,
}

/// `from -> merge by .key with |a, b| … -> to`. A message handler of `from` is the nodes before it,
/// and runs for each message of an input. One of `to` is the nodes behind it, and runs for each
/// merged message. What they send goes on, in its order; they send to `to` only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Merge {
    pub name: String,
    pub span: Span,
    pub from: PortId,
    pub to: PortId,
    pub inputs: u32,
    pub unit: UnitId,
    /// The (bytes or integer) field the inputs are sorted by, ascending, bytewise.
    pub key: FieldId,
    /// The other fields that carry a value: local of a's, local of b's value, and the combined
    /// value.
    pub values: Vec<MergeValue>,
    pub locals: Vec<Local>,
}

impl Merge {
    /// A field that a merge cannot write: the combination has no value for it.
    pub fn not_written(m: &Module, unit: UnitId) -> Option<FieldId> {
        let unit = m.unit(unit);
        let written = |f: &FieldId| {
            !matches!(
                unit.fields[f.index()].kind,
                FieldKind::Unit { .. }
                    | FieldKind::List { .. }
                    | FieldKind::Switch { .. }
                    | FieldKind::StreamBytes { .. }
                    | FieldKind::StreamUnit { .. }
            )
        };
        unit.body.iter().copied().find(|f| !written(f))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MergeValue {
    pub field: FieldId,
    pub a: LocalId,
    pub b: LocalId,
    pub combined: Expr,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    pub name: String,
    pub span: Span,
    pub kind: TestKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TestKind {
    /// Run the handler with `On::Test`.
    Code(HandlerId),
    /// A simulated run of the app with these parameters.
    Sim { params: Vec<(String, String)>, steps: Vec<(Span, SimStep)> },
}

/// A place in a simulated run: connection `conn` (0, 1, …) of a listen port, or instance `conn` of
/// a connect port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimPort {
    pub port: PortId,
    pub conn: u32,
}

impl SimPort {
    /// From this number on `conn` counts the connections to a connect port that belong to clients.
    /// They are counted in the order in which the program has made them, whatever their instance.
    pub const OWN: u32 = 1 << 24;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SimStep {
    /// The world sends these bytes (a client connects with its first step).
    Send(SimPort, Vec<u8>),
    /// The world must see exactly these bytes next.
    See(SimPort, Vec<u8>),
    SeeClosed(SimPort),
    /// Nothing may have been sent.
    SeeNothing(SimPort),
    /// The next line that the program has logged must be this; none: there is none.
    SeeLog(Option<Vec<u8>>),
    Close(SimPort),
    Reset(SimPort),
    /// A backend refuses / accepts connections from now on.
    Refuse(SimPort),
    Accept(SimPort),
    /// ns of virtual time
    Wait(u64),
    /// Runs code of the test: it must end without a fault.
    Run(HandlerId),
    /// Messages that the handler sends through a port come in there.
    Give(HandlerId),
    /// Messages that the handler sends through a port are those that the program must have sent
    /// there next.
    SeeSame(HandlerId),
    /// The next frame that the program has sent must be there, and the handler (an `On::Check`) end
    /// without a fault.
    Check(SimPort, HandlerId),
    /// A `SeeNothing` or `Check`, at the instance of its port to which the handler sends a frame.
    At(HandlerId, Box<SimStep>),
    /// The steps, so many times; `first` sets what counts the rounds (a state), `next` runs behind
    /// each round.
    Repeat {
        first: HandlerId,
        next: HandlerId,
        times: u64,
        steps: Vec<(Span, SimStep)>,
    },
}

impl Handler {
    /// The most that it does with its frames.
    pub fn frame_use(&self) -> desc::FrameUse {
        use desc::FrameUse::{Edits, Reads, Sends};
        let mut most = Reads;
        walk::stmts(&self.body.block, &mut |s| {
            if let StmtKind::Frame { act, .. } = &s.kind {
                most = most.max(if matches!(act, FrameAct::Send { .. }) { Sends } else { Edits })
            } else if matches!(s.kind, StmtKind::Output { .. }) {
                most = Edits
            }
        });
        most
    }
}

impl Module {
    /// Takes the tests out, before the passes run. Programs that are run or built do not carry
    /// their code, nor look for headers that only tests ask for.
    pub fn drop_tests(&mut self) {
        self.tests.clear();
        // Their handlers come last, so the others keep their numbers.
        self.handlers.retain(|h| !h.on.is_test());
    }

    pub fn ty(&self, id: TyId) -> &Ty {
        &self.types[id.index()]
    }
    pub fn unit(&self, id: UnitId) -> &Unit {
        &self.units[id.index()]
    }

    /// The handler that is the nodes before a merge.
    pub fn before(&self, merge: &Merge) -> Option<HandlerId> {
        self.message_handler(merge.from)
    }

    /// The handler that is the nodes behind a merge.
    pub fn behind(&self, merge: &Merge) -> Option<HandlerId> {
        self.message_handler(merge.to)
    }

    fn message_handler(&self, of: PortId) -> Option<HandlerId> {
        let at = self.handlers.iter().position(|h| matches!(h.on, On::Message { port, .. } if port == of));
        at.map(|n| HandlerId(n as u32))
    }

    /// Where the entries of a table of this module are.
    pub fn sharing(&self, t: &Table) -> TableSharing {
        match t.kind {
            TableKind::Ring => TableSharing::Parts,
            _ if t.local => TableSharing::Parts,
            TableKind::Exact | TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog => TableSharing::One,
            TableKind::Wildcard | TableKind::Lpm => TableSharing::Copies,
            TableKind::Array => {
                if self.changed_by_traffic(t) {
                    TableSharing::One
                } else {
                    TableSharing::Copies
                }
            }
        }
    }

    /// Whether a message or a packet can change a table. What is done at the start, by timers and
    /// from outside is done on every core.
    pub fn changed_by_traffic(&self, t: &Table) -> bool {
        let Some(n) = self.tables.iter().position(|o| std::ptr::eq(o, t)) else { return true };
        let mut hit = false;
        let traffic = self
            .handlers
            .iter()
            .filter(|h| !matches!(h.on, On::Start | On::Every(_) | On::Signal(_) | On::Test(_) | On::Check { .. }))
            .map(|h| &h.body);
        for body in traffic.chain(self.inputs.iter().filter_map(|i| i.body.as_ref())) {
            walk::stmts(&body.block, &mut |s| hit |= s.kind.changed_table().is_some_and(|t| t.index() == n));
        }
        hit
    }

    /// Whether frames wait in queues of the program.
    pub fn has_queues(&self) -> bool {
        (0..self.ports.len() as u32).any(|n| self.is_queue(PortId(n)))
    }

    /// Whether a port is a queue of frames.
    pub fn is_queue(&self, port: PortId) -> bool {
        self.ports.get(port.index()).is_some_and(|p| p.kind.is_queue())
    }

    /// The signal that a handler answers.
    pub fn signal_of(&self, on: On) -> Option<&Signal> {
        let On::Signal(n) = on else { return None };
        self.signals.get(n as usize)
    }

    /// The id of a type, if it is there.
    pub fn find_type(&self, ty: &Ty) -> Option<TyId> {
        self.types.iter().position(|t| t == ty).map(|at| TyId(at as u32))
    }

    /// The id of a type, added if it is new.
    pub fn intern(&mut self, ty: Ty) -> TyId {
        self.find_type(&ty).unwrap_or_else(|| {
            self.types.push(ty);
            TyId(self.types.len() as u32 - 1)
        })
    }
}
