//! The abstract syntax tree: the output of the parser, and the input of `lang` and of the
//! formatter.
//!
//! Every node carries its [`Span`]. Comments live outside the tree (see `Comment` in the parser's
//! result). Doc comments (`///`) are kept on the item that follows them. Names are not resolved
//! here.

mod code;
mod names;
mod units;

pub use code::*;
pub use names::*;
pub use units::*;

#[derive(Clone, Debug, Default)]
pub struct File {
    /// The `//!` lines at the top.
    pub doc: String,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug)]
pub struct Item {
    pub doc: String,
    pub span: Span,
    pub kind: ItemKind,
}

#[derive(Clone, Debug)]
pub enum ItemKind {
    /// `use std.http`
    Use(Path),
    /// `const limit: u32 = 64KiB`
    Const {
        name: Ident,
        ty: Option<Type>,
        value: Expr,
    },
    /// `fault uri_too_long, bad_request`
    Fault(Vec<Ident>),
    /// `charset tchar = "!#$" | 'a'..'z' | …` ; the value is a set expression
    Charset {
        name: Ident,
        value: Expr,
    },
    /// `type Key = bytes<250>`
    Alias {
        name: Ident,
        ty: Type,
    },
    /// `enum Opcode: u8 { get = 0, set = 1, _ }`: `open` is the `_`
    Enum {
        name: Ident,
        base: Option<Type>,
        variants: Vec<Variant>,
        open: bool,
    },
    /// `record Entry { flags: u32, value: bytes<1MiB> }`
    Record {
        name: Ident,
        fields: Vec<Param>,
    },
    Unit(Unit),
    Packet(Packet),
    Protocol(Protocol),
    Fn(Fn),
    Element(Element),
    App(Element),
    /// A table outside an app, shared by all modules that `use` it
    Table(Table),
    Test(Test),
}

#[derive(Clone, Debug)]
pub struct Variant {
    pub doc: String,
    pub name: Ident,
    pub value: Option<Expr>,
}

// ---- protocols ----

#[derive(Clone, Debug)]
pub struct Protocol {
    pub name: Ident,
    pub clauses: Vec<Clause>,
}

#[derive(Clone, Debug)]
pub struct Clause {
    pub span: Span,
    pub kind: ClauseKind,
}

#[derive(Clone, Debug)]
pub enum ClauseKind {
    /// `request Request`
    Request(Type),
    /// `response Response(head = request.method == b"HEAD")`: arguments are expressions over
    /// `request`
    Response(Type, Vec<(Option<Ident>, Expr)>),
    /// `up Front(mode = mode)`: messages of clients, to servers; arguments are expressions over the
    /// protocol's sessions
    Up(Type, Vec<(Option<Ident>, Expr)>),
    /// `down Back`: messages of servers, to clients
    Down(Type, Vec<(Option<Ident>, Expr)>),
    /// `session mode: Mode`: what a conversation remembers
    Session { name: Ident, ty: Type },
    /// `order in_order` / `order by opaque`
    Order { by: Option<Ident> },
    /// `sharing pipelined` / `sharing exclusive` / `sharing session`
    Sharing(SharingKind),
    /// `server_first`: nothing is sent to a server before its first message has come
    ServerFirst,
    /// `stateless`: a server keeps nothing about a connection that a request on it depends on
    Stateless,
    /// `close request when e`, `close response when e`, `interim when e`, `tunnel when e`,
    /// `no_reply when e`, `repeat when e`, `pipeline when e`: expressions over `request` or
    /// `response`
    Flag { flag: FlagKind, when: Expr },
    /// `refuse fault when e`: an expression over `request`. Such a request is not sent on a
    /// connection that others use too: the fault ends the handler.
    Refuse { kind: Ident, when: Expr },
    /// `chunks request as chunks when e`: pieces of its body that a handler changes go on in
    /// chunks. Its next reader takes this case.
    Chunks { response: bool, case: Ident, when: Expr },
    /// `expects "HTTP/1.1 100 Continue\r\n\r\n" when e`: a client that waits for this before it
    /// sends the rest of its request.
    Expects { text: Vec<u8>, when: Expr },
    /// `matches(id = request.id) when response.id == id`: values of a request are kept for its
    /// answer. An answer for which the condition does not hold belongs to no request.
    Matches { values: Vec<(Ident, Expr)>, when: Expr },
    /// `log request.method, request.target`: columns of the access log, at most [`LOGGED`]
    /// expressions over `request`
    Log(Vec<Expr>),
    /// `status response.status`: the number by which people know an answer
    Status(Expr),
    /// `class "2xx" when e`: what an answer is counted as, the first that holds
    Class { name: Ident, when: Expr },
    /// `ignore "\r\n" max 4`: so many of these bytes in front of a request are dropped
    Ignore { bytes: Vec<u8>, max: Expr },
    /// `forward request { … }`: edits of every message that is passed on. `msg` names it; in a
    /// request `client` is the connection it came from.
    Forward { response: bool, body: Block },
    /// `on fault(f) { reply … }`: the answer to a client. `request` is an option here.
    OnFault { name: Ident, body: Block },
    /// `on request(r) where e { reply … }`: a request that the protocol answers itself.
    OnRequest { name: Ident, guard: Option<Expr>, body: Block },
    /// `on probe { reply … }`: a request that shows whether a server answers.
    OnProbe { body: Block },
    /// `on reset { reply … }`: a message after which a session is as new.
    OnReset { body: Block },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingKind {
    Exclusive,
    Pipelined,
    Session,
}

/// Columns of the access log that a protocol has: the operation and its object.
pub const LOGGED: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    CloseRequest,
    CloseResponse,
    Interim,
    Tunnel,
    Refusal,
    Idle,
    Reset,
    Owes,
    Unfinished,
    Settles,
    NoReply,
    Alone,
    Repeat,
    Pipeline,
    PrivateRequest,
    PrivateResponse,
}

// ---- functions, elements, apps ----

#[derive(Clone, Debug)]
pub struct Fn {
    pub name: Ident,
    pub params: Vec<Param>,
    pub ret: Option<Type>,
    pub body: FnBody,
}

#[derive(Clone, Debug)]
pub enum FnBody {
    /// `= e`
    Expr(Expr),
    Block(Block),
    /// `extern fn f(x: u32) -> u32 from "file.c"`: the file, and where it is named.
    Extern(String, Span),
}

/// An `element` or an `app`.
#[derive(Clone, Debug)]
pub struct Element {
    pub name: Ident,
    /// `<U: unit, T: type>`: names and kinds
    pub types: Vec<(Ident, Ident)>,
    /// `extern element … from "file.c"`: the file, and where it is named. Its handlers, one for
    /// each `in`, are a call of a function in C.
    pub in_c: Option<(String, Span)>,
    pub members: Vec<Member>,
}

/// The method that takes the oldest message of a queue, for segments that begin at one.
pub const OLDEST: &str = "its oldest";

/// The memory of an element in C, `state 4KiB`.
pub const MEMORY: &str = "its memory";

/// Signals of an element whose bodies are not written.
pub const CONTROLS: [&str; 3] = ["start", "stop", "reset"];

/// Whether an element with `signal stop` is stopped.
pub const STOPPED: &str = "stopped";

impl Element {
    /// Whether it has `signal stop`, or another control.
    pub fn is_controlled(&self) -> bool {
        self.members.iter().any(|m| m.control().is_some())
    }

    /// The statements at its start.
    pub fn start_blocks(&self) -> Vec<Block> {
        let start = |m: &Member| match &m.kind {
            MemberKind::Handler(Handler { on: On::Start, body, .. }) => Some(body.clone()),
            _ => None,
        };
        self.members.iter().filter_map(start).collect()
    }
}

impl Member {
    /// `signal stop`: its name.
    pub fn control(&self) -> Option<&Ident> {
        match &self.kind {
            MemberKind::Signal { name, body, .. } => match body.stmts.as_slice() {
                [Stmt { kind: StmtKind::Control { .. }, .. }] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Member {
    pub doc: String,
    pub span: Span,
    pub kind: MemberKind,
}

#[derive(Clone, Debug)]
pub enum MemberKind {
    /// `param servers: list<endpoint, 64> = …`
    Param(Param),
    /// `in x: packet`, `in x: packet as (.len)`, `out y: packet`, `out y: packet [n]`
    In {
        name: Ident,
        ty: Type,
        count: Option<Expr>,
        /// `as (.len, .mark)`, of an element in C: the values that its function gets
        values: Option<Vec<Expr>>,
    },
    Out {
        name: Ident,
        ty: Type,
        count: Option<Expr>,
    },
    /// `port client = listen tcp(port) as http { idle 60s }`
    Port(Port),
    /// `state next: u32 = 0`
    State {
        name: Ident,
        ty: Type,
        init: Option<Expr>,
    },
    /// `state of packet { user: u32, hops: u8 = 0, Top.key }`
    PacketState(Vec<PacketField>),
    /// `session chosen: u32?`
    Session {
        name: Ident,
        ty: Type,
        /// `request seen: u64`: it begins anew with each request.
        of_request: bool,
    },
    /// `session up: connection of db`
    Upstream {
        name: Ident,
        port: Ident,
    },
    /// `counter hits`
    Counter(Ident),
    Table(Table),
    /// `queue waiting as Packet { depth 32, instances 4 }`
    Queue(Queue),
    /// `cache hot: K -> V { capacity 16K, allocate_on_read, max_age 1s }`
    Cache(Cache),
    /// `limiter fair: flow5 { rate 1000, burst 100, capacity 64K }`, `meter m { … }`
    Gauge(Gauge),
    /// `segment rx on cpu(0) { … }`, `cpu(0..2)`, `on xdp`. The members that its span encloses come
    /// next in the list.
    Segment {
        name: Ident,
        device: Device,
    },
    /// `link { batch 32, wait 5us }`: parameters of the modelled link to a NIC
    Link {
        word: Span,
        options: Vec<(Ident, Option<Expr>)>,
    },
    /// `const`, `fn` local to the app
    Const {
        name: Ident,
        ty: Option<Type>,
        value: Expr,
    },
    Fn(Fn),
    /// `on client(req: memcached.text) where … { … }`, `on backends.closed(b)`, `on fault(f)`,
    /// `on start`, `every 10s { … }`
    Handler(Handler),
    /// `signal read() -> u64 { … }`; `exported`: `export segment read() -> u64 { … }`
    Signal {
        exported: bool,
        name: Ident,
        params: Vec<Param>,
        ret: Option<Type>,
        /// `from q(m)`: the queue that an exported segment begins at, and its message
        from: Option<Box<(Ident, Ident)>>,
        body: Block,
    },
    /// `cnt = Count(…)`, `cnt = Count(…) on xdp`
    Instance {
        name: Ident,
        element: Path,
        args: Vec<Arg>,
        device: Option<Device>,
    },
    /// `tor -> cnt -> tee`
    Wiring(Vec<Node>),
}

#[derive(Clone, Debug)]
pub struct Port {
    pub name: Ident,
    /// `listen tcp(x)`, `connect tcp(x)`: the call's name parts and arguments. A device,
    /// `nic("eth0")`, has the direction `device`; a list of devices has the transport `list` and
    /// the calls as arguments.
    pub direction: Ident,
    pub transport: Ident,
    pub args: Vec<Expr>,
    /// `as memcached.binary or memcached.text`
    pub protocols: Vec<Path>,
    /// `then websocket or tunnel`
    pub becomes: Vec<Path>,
    /// `[8]`
    pub count: Option<Expr>,
    /// `{ idle 60s, max_connections 1000 }`
    pub options: Vec<(Ident, Expr)>,
}

/// A field of the state of packets: one of its own, `user: u32 = 0`, or that of another element,
/// `Top.user`.
#[derive(Clone, Debug)]
pub struct PacketField {
    pub path: Path,
    pub ty: Option<Type>,
    pub default: Option<Expr>,
}

impl PacketField {
    /// The name that packets have it by.
    pub fn name(&self) -> Option<&Ident> {
        self.path.parts.last()
    }
}

/// A queue of packets, or of a service's messages, inside of an app.
#[derive(Clone, Debug)]
pub struct Queue {
    pub name: Ident,
    /// The type of its packets, or the unit of its messages; without one the packets of the app's
    /// first port
    pub packet: Option<Path>,
    pub options: Vec<(Ident, Option<Expr>)>,
}

/// A cache of the outcome of calls.
#[derive(Clone, Debug)]
pub struct Cache {
    pub name: Ident,
    pub key: Type,
    pub value: Type,
    /// Of packets: what tells which answer belongs to which request.
    pub by: Option<Type>,
    pub options: Vec<(Ident, Option<Expr>)>,
}

/// A token bucket or a meter, one or one per key.
#[derive(Clone, Debug)]
pub struct Gauge {
    /// `limiter` or `meter`
    pub word: Ident,
    pub name: Ident,
    pub key: Option<Type>,
    pub options: Vec<(Ident, Option<Expr>)>,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: Ident,
    /// `wildcard`, `lpm`, `array`, `bloom`, `count_min`, `ring`, `hyper_log_log`; exact without one
    pub kind: Option<Ident>,
    pub key: Type,
    /// Of `bloom` and `hyper_log_log` bool, which is not written; nor is the key of `ring`
    pub value: Type,
    /// `{ capacity 1M, idle 60s, evict lru, memory 64MiB }`: name and value; flags have none
    pub options: Vec<(Ident, Option<Expr>)>,
    pub global: bool,
}

#[derive(Clone, Debug)]
pub struct Handler {
    pub on: On,
    pub guard: Option<Expr>,
    /// `on xdp`, `on cpu(0)`
    pub device: Option<Device>,
    pub body: Block,
}

/// `xdp`, `cpu(0..2)`, `nic(cores 2)`
#[derive(Clone, Debug)]
pub struct Device {
    pub name: Ident,
    /// Of `cpu` which ones, of `nic` how many.
    pub cores: Option<Expr>,
}

#[derive(Clone, Debug)]
pub enum On {
    /// `on client(req)`, `on client(req: memcached.text)`, `on x[i](p)`
    Message {
        port: Ident,
        /// The place of an array that the message came to.
        index: Option<Ident>,
        param: Ident,
        protocol: Option<Path>,
    },
    /// `on backends.closed(b)`, `on backends.opened(b)`
    Event {
        port: Ident,
        event: Ident,
        param: Option<Ident>,
    },
    /// `on client.body(req, piece)`: a piece of a message's streamed bytes;
    /// `on client.batch(req: feed.up, item)`: an item of its stream of units
    Body {
        port: Ident,
        stream: Ident,
        message: Option<Ident>,
        protocol: Option<Path>,
        piece: Ident,
    },
    Fault(Ident),
    Start,
    /// Behind the last message, packet or timer.
    End,
    Every(Expr),
}

#[derive(Clone, Debug)]
pub struct Node {
    pub span: Span,
    pub kind: NodeKind,
}

#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A port, an instance, or a list of them: `tee[0]`, `lan`
    Expr(Expr),
    /// `where e`, `map e`, `log`, `drop`, `tee`, `broadcast x`, `steer x by e`
    Word { word: Ident, args: Vec<Expr>, by: Option<Expr> },
    /// `match { .udp => a -> b, else => drop }`: the first way whose condition holds; None: `else`
    Match(Vec<(Option<Expr>, Vec<Node>)>),
    /// `merge by .key with |a, b| e`
    Merge { key: Expr, a: Ident, b: Ident, with: Expr },
}

// ---- tests ----

/// `test "name" { … }` (functions, units), `test "name" of app_name(param = v) { … }` or
/// `… of Element<2>(args) { … }` (a simulated run).
#[derive(Clone, Debug)]
pub struct Test {
    pub name: String,
    pub span: Span,
    pub app: Option<(Path, Vec<Arg>)>,
    pub steps: Vec<TestStep>,
}

#[derive(Clone, Debug)]
pub struct TestStep {
    pub span: Span,
    pub kind: TestStepKind,
}

#[derive(Clone, Debug)]
pub enum TestStepKind {
    /// `let x = e`, `expect e`: ordinary code
    Code(Stmt),
    /// `client <- b"…"`: the world sends. The place is `port`, `port.N` (a second connection),
    /// `backends[i]`.
    Send { port: Expr, bytes: Expr },
    /// `client -> b"…"`: the world must see exactly these bytes next
    See { port: Expr, bytes: Expr },
    /// `mon -> where .udp.dst == 53`: the next packet must be there, and this must hold of it
    SeeWhere { port: Expr, cond: Expr },
    /// `for i in 0..10 { steps }`, in tests `of` something
    For { var: Ident, list: Expr, steps: Vec<TestStep> },
    /// `client -> closed`, `client -> nothing`
    SeeEnd { port: Expr, closed: bool },
    /// `close backends[1]`, `reset …`, `refuse backends[0]`, `accept backends[0]`
    Act { act: Ident, port: Expr },
    /// `wait 3s`: virtual time
    Wait(Expr),
}
