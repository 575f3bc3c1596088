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
pub mod consistent;
mod conversation;
pub mod core_partition;
pub mod date;
pub mod desc;
pub mod describe;
pub use describe::changes_pieces;
pub mod edited_fields;
pub mod elements;
pub mod endless;
pub mod explain;
mod faults;
pub mod frame;
mod frame_part;
pub mod grammar;
pub mod graph;
pub mod header_bits;
pub mod inserted;
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
mod protocol;
pub mod segments;
pub mod sharing;
mod simulation;
pub mod stack;
pub mod suggestions;
mod table;
mod table_stmt;
pub mod text;
mod unit;
pub mod verify;
pub mod walk;

pub use body::*;
pub use conversation::{Upstream, UPSTREAMS_MAX};
pub use elements::{Element, Input, Target, Wire};
pub use faults::{FaultKind, FaultPlace, OwnFault};
pub use frame_part::FramePart;
pub use on::On;
pub use ops::{BinOp, Builtin, UnOp};
pub use packet_state::{Carries, PacketField};
pub use protocol::Protocol;
pub use segments::Segment;
pub use simulation::{SimPort, SimStep, Test, TestKind};
pub use table::{Rate, Table, TableKind, TableSharing, HLL_REGISTERS, LEAST_IDLE};
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
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub upstreams: Vec<Upstream>,
    /// The state that each packet has beside its bytes.
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
    pub link: Vec<(String, u64)>,
    pub inputs: Vec<Input>,
    pub files: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub name: String,
    pub fields: Vec<(String, TyId)>,
}

/// Enums are integers in the IR; this keeps the names for text, C and explain.
#[derive(Clone, Debug, PartialEq)]
pub struct Enum {
    pub name: String,
    pub bits: u8,
    pub open: bool,
    pub variants: Vec<(String, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub name: String,
    pub doc: String,
    pub ty: desc::ParamType,
    pub form: desc::Form,
    pub value_ty: TyId,
    pub default: Option<desc::ParamValue>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    pub name: String,
    pub span: Span,
    pub kind: desc::PortKind,
    pub protocols: Vec<ProtocolId>,
    pub options: desc::PortOptions,
    pub ketama: bool,
    /// The hash of the names of a ring's points, for [`ExprKind::Consistent`]: bytes to u32.
    pub consistent: Option<FuncId>,
    pub maglev: bool,
    /// Of messages: each is one UDP datagram.
    pub udp: bool,
    /// Of a queue.
    pub carries: Carries,
}

impl Port {
    /// Without protocols, options and tables.
    pub fn new(name: &str, span: Span, kind: desc::PortKind) -> Self {
        Port {
            name: name.into(),
            span,
            kind,
            protocols: Vec::new(),
            options: desc::PortOptions::default(),
            ketama: false,
            consistent: None,
            maglev: false,
            udp: false,
            carries: Carries::default(),
        }
    }
}

/// Per core, zeroed, then set to `init` when the core starts.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub name: String,
    pub ty: TyId,
    pub init: Option<Expr>,
    /// Memory of an element in C, as many bytes as the type has. Nothing but its functions reads or
    /// sets it.
    pub memory: bool,
}

/// Lives with a client connection; zeroed when it opens (an option is none).
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub name: String,
    pub ty: TyId,
    /// It begins anew with each request.
    pub of_request: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    pub name: String,
    pub doc: String,
}

/// A total, pure function (it may fault through `Require`). Parameters are the first locals.
#[derive(Clone, Debug, PartialEq)]
pub struct Func {
    pub name: String,
    pub span: Span,
    pub params: u32,
    pub ret: TyId,
    pub body: FuncBody,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FuncBody {
    Body(Body),
    /// A C function of this name in this file; outside the guarantees.
    Extern {
        file: String,
        symbol: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
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
    pub exported: bool,
    pub result: desc::ResultType,
    /// Type of what the handler returns: bytes.
    pub ret: TyId,
}

/// The flow key of a frame port's frames: expressions of integers and addresses over the frame,
/// which is local 0 (a `Msg` of this unit). They are zero where their headers are absent.
/// `symmetric`: both directions of a flow have one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Steer {
    pub port: PortId,
    pub unit: UnitId,
    pub keys: Vec<Expr>,
    pub symmetric: bool,
}

/// `from -> merge by .key with |a, b| … -> to`. A message handler of `from` is the nodes before it,
/// and runs for each message of an input. One of `to` is the nodes behind it, and runs for each
/// merged message. What they send goes on, in its order; they send to `to` only.
#[derive(Clone, Debug, PartialEq)]
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

#[derive(Clone, Debug, PartialEq)]
pub struct MergeValue {
    pub field: FieldId,
    pub a: LocalId,
    pub b: LocalId,
    pub combined: Expr,
}

impl Handler {
    /// The most that it does with its frames.
    pub fn frame_use(&self) -> desc::FrameUse {
        use desc::FrameUse::{Edits, Reads, Sends};
        let mut most = Reads;
        walk::stmts(&self.body.block, &mut |s| {
            if let StmtKind::Frame { act, .. } = &s.kind {
                most = most.max(match act {
                    FrameAct::Send { .. } => Sends,
                    FrameAct::InC { whole: false, .. } => Reads,
                    FrameAct::Set { .. }
                    | FrameAct::Swap { .. }
                    | FrameAct::Insert { .. }
                    | FrameAct::Remove { .. }
                    | FrameAct::Payload { .. }
                    | FrameAct::Checksum { .. }
                    | FrameAct::Parse
                    | FrameAct::InC { .. }
                    | FrameAct::Save { .. }
                    | FrameAct::Restore { .. } => Edits,
                })
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

    /// The handler of a port's frames.
    pub fn frame_handler(&self, port: PortId) -> Option<&Handler> {
        self.handlers.iter().find(|h| matches!(h.on, On::Frame { port: p, .. } if p == port))
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

    /// The id of a place of faults, added if it is new.
    pub fn place(&mut self, place: FaultPlace) -> PlaceId {
        let at = self.places.iter().position(|p| *p == place).unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        });
        PlaceId(at as u32)
    }

    /// The id of a type, added if it is new.
    pub fn intern(&mut self, ty: Ty) -> TyId {
        self.find_type(&ty).unwrap_or_else(|| {
            self.types.push(ty);
            TyId(self.types.len() as u32 - 1)
        })
    }
}
