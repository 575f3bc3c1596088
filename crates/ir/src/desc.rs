//! The runtime's description of a program: ports, protocols, limits, names.
//!
//! The compiler derives a [`Desc`] from the IR. The runtime takes it together with a `wl_program`
//! (compiled C or the interpreter). It is plain data, so that `wireloom build` can carry it inside
//! the executable (JSON). Indices here are those of the C ABI (`support/wireloom.h`): ports, units,
//! handlers, places in order.

pub use crate::port_options::{Failover, PortOptions, Reuse};
pub use crate::sharing::Sharing;
use crate::{Rate, TableKind, TableSharing};
use serde::{Deserialize, Serialize};

/// A whole program, as the runtime sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Desc {
    pub app: String,
    pub params: Vec<ParamDesc>,
    pub ports: Vec<PortDesc>,
    pub protocols: Vec<ProtocolDesc>,
    pub units: Vec<String>,
    pub handlers: Vec<HandlerDesc>,
    /// `counter` declarations: a `u64` each, at `offset` bytes in the core's state; summed over
    /// cores when shown.
    pub counters: Vec<CounterDesc>,
    pub tables: Vec<TableDesc>,
    /// Places that a fault can name.
    pub places: Vec<PlaceDesc>,
    /// The program's own fault kinds, from `WL_F_USER` (32) on.
    pub faults: Vec<crate::OwnFault>,
    /// `merge` nodes (FLICK's foldt).
    pub merges: Vec<MergeDesc>,
    /// The signals, which can be called while the app runs.
    #[serde(default)]
    pub signals: Vec<SignalDesc>,
    /// Backend connections that belong to a client's.
    #[serde(default)]
    pub upstreams: Vec<UpstreamDesc>,
    /// Requests leave something on their core: their connections stay there.
    #[serde(default)]
    pub per_core: bool,
    /// Apps of one process with the same number have the same steering hash for a frame. None: an
    /// app for itself.
    #[serde(default)]
    pub cluster: Option<u32>,
    /// Bytes of the largest entry of a queue ([`crate::layout::Entry`]).
    #[serde(default)]
    pub entry: u32,
    /// Each has a core of its own; none: all cores run all handlers.
    #[serde(default)]
    pub segments: Vec<SegmentDesc>,
    #[serde(default)]
    pub nic: Option<NicDesc>,
    /// Frames of a capture that are further apart, in ns, are not handled in one batch, which has
    /// one time. None: the program does not look at the time.
    #[serde(default)]
    pub apart: Option<u64>,
    /// The app's graph as SVG, with places for its numbers ([`crate::graph::live_svg`]). Empty: it
    /// was not drawn.
    #[serde(default)]
    pub picture: String,
}

/// A part of an app with cores of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentDesc {
    pub name: String,
    /// The first core, counted from 0 among those of the run.
    pub cpu: u32,
    /// The number of its cores, at least 1.
    pub cores: u32,
    /// Its cores are those of the NIC, in a process of their own.
    #[serde(default)]
    pub nic: bool,
}

/// The process of a NIC. Its ports and tables say `nic`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicDesc {
    /// Parameters of the modelled link that the program gives.
    #[serde(default)]
    pub link: Vec<(String, u64)>,
}

impl SegmentDesc {
    /// The segment of each core of an app, in their order.
    pub fn of_cores(all: &[SegmentDesc]) -> Vec<usize> {
        all.iter().enumerate().flat_map(|(n, s)| std::iter::repeat_n(n, s.cores as usize)).collect()
    }

    /// The cores of the segment that has this one. `None`: no segment has it.
    pub fn cores_beside(all: &[SegmentDesc], core: usize) -> Option<std::ops::Range<usize>> {
        let of = SegmentDesc::of_cores(all);
        let first = of.iter().position(|s| Some(s) == of.get(core))?;
        Some(first..first + of[first..].iter().take_while(|s| **s == of[first]).count())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableDesc {
    pub name: String,
    pub kind: TableKind,
    /// Where its entries are: in one table, or in each core's part or copy.
    pub sharing: TableSharing,
    /// Where the program keeps its `wl_table_stats`, in bytes of the shared memory.
    pub stats: u64,
    /// Entries at most.
    pub capacity: u64,
    /// ns; 0: never.
    pub idle: u64,
    pub evict_lru: bool,
    /// The program itself adds entries; else all come from outside.
    pub written: bool,
    /// Whose handlers use it.
    pub core_kind: CoreKind,
    /// The process of the NIC has it.
    #[serde(default)]
    pub nic: bool,
    /// The only segment whose handlers use it: the entries of its cores count.
    #[serde(default)]
    pub segment: Option<u32>,
    /// Of a meter: its committed and its peak rate.
    #[serde(default)]
    pub rates: Option<[Rate; 2]>,
}

impl TableDesc {
    /// Of the app's first `n` cores those whose entries count: its segment's, which stand in a row.
    /// All of them, if none is of its segment: that of a segment in the hook any core tells.
    pub fn cores_that_count(&self, n: usize, segments: &[SegmentDesc]) -> std::ops::Range<usize> {
        let mut of = SegmentDesc::of_cores(segments);
        of.truncate(n);
        let is_of = |s: &usize| self.segment.is_some_and(|own| *s == own as usize);
        match (of.iter().position(is_of), of.iter().rposition(is_of)) {
            (Some(first), Some(last)) => first..last + 1,
            _ => 0..n,
        }
    }

    /// Each core has its own part, or its own copy.
    pub fn is_per_core(&self) -> bool {
        self.sharing != TableSharing::One
    }
}

/// Which cores of an app with frame ports and service ports ([`crate::core_partition`]); all apps
/// else are one whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CoreKind {
    #[default]
    Both,
    Packets,
    Services,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParamDesc {
    pub name: String,
    pub ty: ParamType,
    #[serde(default)]
    pub form: Form,
    pub default: Option<ParamValue>,
    pub doc: String,
    /// It may change while the program runs ([`crate::live_params`]).
    #[serde(default)]
    pub live: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParamType {
    Bool,
    /// Unsigned integer with at most this many bits.
    UInt(u8),
    /// Nanoseconds; written `10ms`.
    Duration,
    /// Bytes, at most this long; written as text.
    Bytes(u32),
    Endpoint,
    /// At most this many, comma separated.
    Endpoints(u32),
    /// Bytes: at most so many, each at most so long; comma separated.
    Texts(u32, u32),
}

impl ParamType {
    /// A value of the type, where only its type matters.
    pub fn empty(self) -> ParamValue {
        match self {
            ParamType::Bool => ParamValue::Bool(false),
            ParamType::UInt(_) => ParamValue::UInt(0),
            ParamType::Duration => ParamValue::Duration(0),
            ParamType::Bytes(_) => ParamValue::Bytes(Vec::new()),
            ParamType::Endpoint => ParamValue::Endpoints(vec!["0.0.0.0:0".into()]),
            ParamType::Endpoints(_) => ParamValue::Endpoints(Vec::new()),
            ParamType::Texts(..) => ParamValue::Texts(Vec::new()),
        }
    }

    /// The type of the value in code; of a list its length.
    pub fn value(self) -> crate::Ty {
        match self {
            ParamType::Bool => crate::Ty::Bool,
            ParamType::UInt(n) => crate::Ty::UInt(n),
            ParamType::Duration | ParamType::Endpoints(_) | ParamType::Texts(..) => crate::Ty::UInt(64),
            ParamType::Bytes(n) => crate::Ty::Bytes(n.into()),
            ParamType::Endpoint => crate::Ty::Endpoint,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum ParamValue {
    Bool(bool),
    UInt(u64),
    Duration(u64),
    Bytes(Vec<u8>),
    /// `host:port`, as written.
    Endpoints(Vec<String>),
    Texts(Vec<Vec<u8>>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortDesc {
    pub name: String,
    pub kind: PortKind,
    /// Index into `protocols` of each alternative; a listening connection takes the first whose
    /// `first` set holds its first byte. A connect port has exactly one. In a conversation a
    /// connection begins with the first, and may become each other one.
    pub protocols: Vec<u32>,
    pub options: PortOptions,
    /// Whether the program picks instances by ketama / Maglev on this port (the runtime then builds
    /// the table).
    pub ketama: bool,
    pub maglev: bool,
    /// Whether the program picks instances on a ring of which it hashes the points.
    #[serde(default)]
    pub consistent: bool,
    /// Of messages: each is one UDP datagram.
    #[serde(default)]
    pub udp: bool,
    /// Of frames: the program sends some there.
    pub sent: bool,
    /// Of a queue between segments: those that send to it.
    #[serde(default)]
    pub senders: Vec<u32>,
    /// Of a queue: the part of the frame that crosses.
    #[serde(default)]
    pub part: crate::FramePart,
    /// Of a queue of an app with a NIC: bytes of its entries ([`crate::layout::Entry`]).
    #[serde(default)]
    pub entry: u32,
    /// The process of the NIC has it.
    #[serde(default)]
    pub nic: bool,
    /// The program gives sessions of it to pools.
    #[serde(default)]
    pub pools: bool,
}

impl PortDesc {
    /// A port without options that the program sends to.
    pub fn plain(name: &str, kind: PortKind, protocols: Vec<u32>) -> Self {
        PortDesc {
            name: name.into(),
            kind,
            protocols,
            options: PortOptions::default(),
            ketama: false,
            consistent: false,
            maglev: false,
            udp: false,
            sent: true,
            senders: Vec::new(),
            part: crate::FramePart::Whole,
            entry: 0,
            nic: false,
            pools: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PortKind {
    /// `listen tcp(x)`: a port number or an endpoint.
    Listen(Value),
    /// `connect tcp(x)`: an endpoint or a list of endpoints.
    Connect(Value),
    /// `nic(x)`, `pcap(x)`, …: whole frames. `names` is a name or a list of names, one per
    /// instance; `--bind` replaces both.
    Frames { engine: FrameEngine, names: Value },
}

impl PortKind {
    /// Whether it has servers.
    pub fn is_connect(&self) -> bool {
        matches!(self, PortKind::Connect(_))
    }

    pub fn is_queue(&self) -> bool {
        use FrameEngine::{Lossless, Lossy, Queue};
        matches!(self, PortKind::Frames { engine: Queue | Lossy | Lossless, .. })
    }

    /// A queue that leads from one segment to another.
    pub fn is_crossing(&self) -> bool {
        matches!(self, PortKind::Frames { engine: FrameEngine::Lossy | FrameEngine::Lossless, .. })
    }

    /// Storage or a way inside of the program: nothing can be bound to it.
    pub fn is_inside(&self) -> bool {
        self.is_queue() || self.is_loop()
    }

    /// Leads back into the program.
    pub fn is_loop(&self) -> bool {
        matches!(self, PortKind::Frames { engine: FrameEngine::Loop, .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameEngine {
    /// An interface of the host: AF_XDP, or AF_PACKET where that is not to be had.
    Nic,
    /// A capture file, pcap or pcapng.
    Pcap,
    Tun,
    Tap,
    /// The host's own stack: frames are handed to it (through a TAP).
    Kernel,
    /// Frames in memory, for tests and benches.
    Memory,
    /// Datagrams: the frame is the payload.
    Udp,
    /// Back into the program, on the same core: what is sent to it is handled by its handler.
    Loop,
    /// Inside the program: frames that are sent to it wait, first in, first out, until they are
    /// taken. Its names are how many frames each instance holds.
    Queue,
    /// A queue between segments: its frames are handled in their order, as soon as the core of its
    /// handler gets to it. If it is full it discards frames.
    Lossy,
    /// The same, but if it is full its senders wait.
    Lossless,
}

/// A constant, or the value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    Const(ParamValue),
    Param(u32),
}

/// Most bytes of messages that one core holds: heads being received, what is kept over a call.
/// Beyond it: `overload`.
pub const POOL_HELD: u64 = 256 << 20;
/// Most bytes of output that wait on one core. Beyond it: `overload`.
pub const POOL_QUEUES: u64 = 256 << 20;
/// Bytes of the runtime's own about an open connection, and about a request under way (task, place
/// in the order, call), at most.
pub const CONNECTION: u64 = 512;
pub const REQUEST: u64 = 1024;
/// Handlers of a core that may be paused at a time, and the part of a stack that each uses besides
/// its locals.
pub const PAUSED: u64 = 256;
/// The most of them in a program whose handlers may need more scratch than this each.
pub const PAUSED_LARGE: u64 = 16;
pub const LARGE_SCRATCH: u64 = 1 << 20;
pub const PAUSED_STACK: u64 = 32 << 10;
/// Bytes of each stack on which handlers run. The values of a handler take a quarter of it at most.
pub const STACK: usize = 4 << 20;
/// The same of each further call that a request makes at once, with its answer's places in the
/// request's lists (which grow by doubling).
pub const CALL: u64 = 512;
/// Buffers for frames, of each core: bytes and number of the usual ones and of those for the
/// largest frames.
pub const FRAME_BUFFER: u64 = 4096;
pub const FRAME_BUFFERS: u64 = 2048;
pub const LARGE_FRAME_BUFFER: u64 = 262_144 + FRAME_BUFFER;
pub const LARGE_FRAME_BUFFERS: u64 = 160;
/// The shortest period of a timer beside packets, in nanoseconds; that of one beside connections is
/// a millisecond.
pub const LEAST_PERIOD: u64 = 10_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProtocolDesc {
    pub name: String,
    pub request: u32,
    /// None: one-way (a stream of messages without answers).
    pub response: Option<u32>,
    pub sharing: Sharing,
    /// Nothing is sent to a server before its first message has come.
    #[serde(default)]
    pub server_first: bool,
    pub order: Order,
    /// Bytes with which a request can begin.
    pub first: Vec<u8>,
    /// Bytes that may stand in front of a request, and how often: they are dropped.
    #[serde(default)]
    pub ignore: Option<(Vec<u8>, u8)>,
    /// The bytes that a client waits for before it sends the rest of a request with `WL_M_EXPECTS`.
    #[serde(default)]
    pub expects: Vec<u8>,
    /// The classes that answers are counted as.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Whether its requests have columns of their own in the access log.
    #[serde(default)]
    pub logs: bool,
    /// Bits of `ctx` given to a request's parser by the runtime: none today; kept 0.
    pub default_ctx: u64,
    /// A response's parameters look at `draining`: in a drain an answer says that it is its
    /// connection's last.
    #[serde(default)]
    pub tells_drain: bool,
    /// A conversation: its servers' messages say when they wait for the next one (`idle when`).
    #[serde(default)]
    pub tells_idle: bool,
    /// A conversation: its clients' messages say whether they owe an answer (`owes when`).
    #[serde(default)]
    pub tells_owed: bool,
    /// Of a conversation: fields tell which message answers another one (`matches`).
    #[serde(default)]
    pub tells_match: bool,
    /// Of a conversation, `up` and `down`: their units have parameters (`wl_program.context`).
    #[serde(default)]
    pub args: [bool; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Answers come in the order of the requests.
    InOrder,
    /// Answers carry an id of so many bytes. `request`, `response`: its offsets in the heads of
    /// both. The runtime puts its own id in and the client's back.
    ById { request: u32, response: u32, width: u8 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandlerDesc {
    pub name: String,
    pub on: HandlerOn,
    /// Worst-case steps of one activation.
    pub steps: u64,
    /// It may pause in a long loop, where its program can: if its request has so many bytes.
    #[serde(default)]
    pub pauses: Option<u32>,
    /// Such a request is handled alone on its connection.
    #[serde(default)]
    pub alone: bool,
    /// Each request is: it has values of its own, and the protocol would send others meanwhile.
    #[serde(default)]
    pub one_by_one: bool,
    /// Of messages in a conversation: the member (as in `wl_host.tell`) to which runs of them are
    /// passed on (`wl_program.run_of`).
    #[serde(default)]
    pub run_to: Option<u32>,
    /// The protocol that the member must speak for that.
    #[serde(default)]
    pub run_as: u32,
    /// Of frames: what they begin with.
    #[serde(default)]
    pub begins: Begins,
    /// Of frames: what it does with them.
    #[serde(default)]
    pub frames: FrameUse,
    /// It may send frames, new ones and copies too, or take them from queues.
    #[serde(default = "yes")]
    pub sends: bool,
    #[serde(default)]
    pub core_kind: CoreKind,
    /// The segment that it belongs to. None: each core runs it.
    #[serde(default)]
    pub segment: Option<u32>,
}

/// The first header of a handler's frames, as its packet type says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Begins {
    /// A header of the program's own, or nothing in particular.
    #[default]
    Any,
    Ethernet,
    /// IPv4 or IPv6.
    Ip,
}

fn yes() -> bool {
    true
}

/// The most that a handler does with its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FrameUse {
    Reads,
    /// They leave as they are.
    Sends,
    /// They are changed where they lie.
    #[default]
    Edits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandlerOn {
    /// A message on listen port `port`, in its protocol alternative `alternative`.
    Message {
        port: u32,
        alternative: u32,
    },
    /// A frame on a frame port.
    Frame {
        port: u32,
    },
    /// A message on a connect port that answers no request (a one-way protocol).
    Opened {
        port: u32,
    },
    /// A connection of a connect port is there, and is greeted first.
    Greeting {
        port: u32,
    },
    /// A backend of a connect port is down, and is asked whether it answers again.
    Probe {
        port: u32,
    },
    Reset {
        port: u32,
    },
    Closed {
        port: u32,
    },
    /// A piece of the streamed bytes of a port's messages; `alternative` as of `Message`. Whether
    /// it may change them.
    Piece {
        port: u32,
        alternative: u32,
        changes: bool,
        /// Whose messages they are, where connections of the port belong to clients.
        #[serde(default)]
        upstream: Option<u32>,
        /// Items of this stream of units; 0: pieces of bytes.
        #[serde(default)]
        stream: u32,
    },
    /// A message on an upstream; its opening, its end.
    Upstream {
        upstream: u32,
        /// Which protocol of its port.
        #[serde(default)]
        alternative: u32,
    },
    UpstreamOpened {
        upstream: u32,
    },
    UpstreamClosed {
        upstream: u32,
    },
    /// Any fault of the app; the fault is in task->fault and task->place.
    Fault,
    /// Every `period` ns.
    Every {
        period: u64,
    },
    Start,
    /// When all else is done.
    End,
    /// `task->req.base` names the arguments, a `wl_param` each. The handler hands its result to
    /// `reply`.
    Signal,
    /// Run by the other kind of cores ([`Desc::for_cores`]).
    Elsewhere,
}

/// How people write a value, where its type leaves it open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    #[default]
    Plain,
    /// A `UInt(32)`, as `10.0.0.1`.
    Ip4,
    /// `Bytes(16)`: an address of either version.
    Ip,
    /// `Bytes(16)`: an address of IPv6.
    Ip6,
    /// `Bytes(16)`: a number of 128 bits.
    Wide,
    /// A `UInt` in one of these ranges, their ends included.
    Within(Vec<(u64, u64)>),
    /// A `UInt(48)`, as `02:00:00:00:00:01`.
    Mac,
    /// Bytes: one of these names, or a number if the last one is [`OTHERS`].
    Enum(Vec<String>),
    /// An endpoint, or the number of a port on which one listens.
    OrPort,
}

/// The name, in [`Form::Enum`], of the values that an open enum has no name for.
pub const OTHERS: &str = "_";

/// A `signal`: runs on every core when it is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalDesc {
    pub name: String,
    pub doc: String,
    pub handler: u32,
    pub args: Vec<ArgDesc>,
    /// As in [`crate::Signal`].
    #[serde(default)]
    pub masked: bool,
    pub result: ResultType,
}

/// An argument of a signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgDesc {
    pub name: String,
    pub ty: ParamType,
    pub form: Form,
    /// Its value where it is left out; none: it must be given.
    pub default: Option<ParamValue>,
}

/// How a signal's result is written. A leaf is its length, `:` and its text (`4:true`, `2:-7`,
/// bytes as they are). An option is `-`, or `+` and its value. A record is its fields one after the
/// other; no value is nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResultType {
    Nothing,
    Bool,
    /// Decimal.
    Int,
    /// Bytes, addresses, endpoints: shown as text.
    Text,
    Option(Box<ResultType>),
    /// Tuples have fields `0`, `1`, ….
    Record(Vec<(String, ResultType)>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpstreamDesc {
    pub name: String,
    pub port: u32,
    /// The place of faults of its server: the program's declaration.
    pub place: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterDesc {
    pub name: String,
    pub offset: u64,
    pub doc: String,
    /// Of counters: whose handlers count.
    #[serde(default)]
    pub core_kind: CoreKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceDesc {
    /// `http.Request.method`, `app http_balancer: on client`.
    pub name: String,
    pub file: String,
    pub line: u32,
    pub column: u32,
    /// `std/http.loom:402:52`, if the program has called the library there. Else empty.
    #[serde(default)]
    pub library: String,
}

/// Streams of the connections accepted on `from` are merged by key and sent to `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MergeDesc {
    pub name: String,
    pub from: u32,
    pub to: u32,
    pub inputs: u32,
    /// Unit of the messages.
    pub unit: u32,
}

/// Whether ports are of both kinds.
pub(crate) fn is_mixed<'a>(kinds: impl Iterator<Item = &'a PortKind>) -> bool {
    let (frames, services): (Vec<_>, Vec<_>) = kinds.partition(|k| matches!(k, PortKind::Frames { .. }));
    !frames.is_empty() && !services.is_empty()
}

impl Desc {
    pub fn has_frames(&self) -> bool {
        self.ports.iter().any(|p| matches!(p.kind, PortKind::Frames { .. }))
    }

    /// Frame ports and service ports: each kind has cores of its own.
    pub fn is_mixed(&self) -> bool {
        is_mixed(self.ports.iter().map(|p| &p.kind))
    }

    /// The handlers of one kind of cores; numbers stay the same.
    pub fn for_cores(&self, core_kind: CoreKind) -> Desc {
        let mut d = self.clone();
        for h in d.handlers.iter_mut().filter(|h| h.core_kind != CoreKind::Both && h.core_kind != core_kind) {
            h.on = HandlerOn::Elsewhere;
        }
        if core_kind == CoreKind::Packets {
            d.merges.clear();
        }
        d
    }
}
