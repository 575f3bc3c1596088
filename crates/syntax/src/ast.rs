//! The abstract syntax tree: the output of the parser, and the input of `lang` and of the
//! formatter.
//!
//! Every node carries its [`Span`]. Comments live outside the tree (see `Comment` in the parser's
//! result). Doc comments (`///`) are kept on the item that follows them. Names are not resolved
//! here.

/// A file known to the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileId(pub u32);

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    pub name: String,
    pub span: Span,
}

/// `std.memcached.text`
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    pub parts: Vec<Ident>,
    pub span: Span,
}

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

#[derive(Clone, Debug)]
pub struct Param {
    pub doc: String,
    pub name: Ident,
    pub ty: Type,
    /// Of a record's field: the values that external rows may have.
    pub within: Option<Expr>,
    pub default: Option<Expr>,
}

// ---- types ----

#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub span: Span,
    pub kind: TypeKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `u32`, `bytes<250>`, `list<Header, 100>`, `endpoint`, `std.http.Request`: arguments are
    /// types or constants
    Named { path: Path, args: Vec<TypeArg> },
    /// `T?`
    Option(Box<Type>),
    /// `(ip4, u16)`
    Tuple(Vec<Type>),
    /// `[T; N]`
    Array(Box<Type>, Box<Expr>),
    /// `record { packets: u64 }`
    Record(Vec<(Ident, Type)>),
    /// `fn(packet) -> bool`
    Fn(Vec<Type>, Box<Type>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeArg {
    /// Also stands for a constant written as a bare name; `lang` decides.
    Type(Type),
    Const(Expr),
}

// ---- units ----

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
    /// none written: for `stream Unit` the unit says when it ends; for `bytes<N> of set` and
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
    /// `order in_order` / `order by opaque`
    Order { by: Option<Ident> },
    /// `sharing pipelined` / `sharing exclusive`
    Sharing { pipelined: bool },
    /// `stateless`: a server keeps nothing about a connection that a request on it depends on
    Stateless,
    /// `close request when e`, `close response when e`, `interim when e`, `tunnel when e`,
    /// `no_reply when e`, `repeat when e`, `pipeline when e`: expressions over `request` or
    /// `response`
    Flag { flag: FlagKind, when: Expr },
    /// `refuse fault when e`: an expression over `request`. Such a request is not sent on a
    /// connection that others use too: the fault ends the handler.
    Refuse { kind: Ident, when: Expr },
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
    /// `extern fn f(x: u32) -> u32 from "file.c"`
    Extern(String),
}

/// An `element` or an `app`.
#[derive(Clone, Debug)]
pub struct Element {
    pub name: Ident,
    /// `<U: unit, T: type>`: names and kinds
    pub types: Vec<(Ident, Ident)>,
    pub members: Vec<Member>,
}

/// Signals of an element whose bodies are not written.
pub const CONTROLS: [&str; 3] = ["start", "stop", "reset"];

/// What an element with `signal stop` knows: whether it is stopped.
pub const STOPPED: &str = "stopped";

impl Element {
    /// Whether it has `signal stop`, or another control.
    pub fn is_controlled(&self) -> bool {
        self.members.iter().any(|m| m.control().is_some())
    }

    /// What it does at the start.
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
    /// `in x: packet`, `out y: packet`, `out y: packet [n]`
    In {
        name: Ident,
        ty: Type,
        count: Option<Expr>,
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
    /// `session chosen: u32?`
    Session {
        name: Ident,
        ty: Type,
    },
    /// `counter hits`
    Counter(Ident),
    Table(Table),
    /// `queue waiting as Packet { depth 32, instances 4 }`
    Queue(Queue),
    /// `limiter fair: flow5 { rate 1000, burst 100, capacity 64K }`, `meter m { … }`
    Gauge(Gauge),
    /// `segment rx on cpu(0) { … }`. The members that its span encloses come next in the list.
    Segment {
        name: Ident,
        cpu: Expr,
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
    /// `signal read() -> u64 { … }`
    Signal {
        name: Ident,
        params: Vec<Param>,
        ret: Option<Type>,
        body: Block,
    },
    /// `cnt = Count(…)`
    Instance {
        name: Ident,
        element: Path,
        args: Vec<Arg>,
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
    /// `[8]`
    pub count: Option<Expr>,
    /// `{ idle 60s, max_connections 1000 }`
    pub options: Vec<(Ident, Expr)>,
}

/// A queue of packets inside of an app.
#[derive(Clone, Debug)]
pub struct Queue {
    pub name: Ident,
    /// The type of its packets; those of the app's first port without one
    pub packet: Option<Path>,
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
    pub body: Block,
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

// ---- statements ----

#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub span: Span,
    pub stmts: Vec<Stmt>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    pub span: Span,
    pub kind: StmtKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `let x: T = e`, `let (a, b) = e`
    Let {
        pattern: Pattern,
        ty: Option<Type>,
        value: Expr,
    },
    /// `var x = e`: may be assigned
    Var {
        name: Ident,
        ty: Option<Type>,
        value: Expr,
    },
    /// `place = e`, `place += e`
    Assign {
        place: Expr,
        op: Option<BinOp>,
        value: Expr,
    },
    Expr(Expr),
    For {
        pattern: Pattern,
        list: Expr,
        body: Block,
    },
    /// `loop max N { … }`
    Loop {
        max: Expr,
        body: Block,
    },
    Break,
    Continue,
    Return(Option<Expr>),
    /// `p -> y`; `p -> broadcast ys` and `p -> steer ys by e` are sent to calls: `broadcast(ys)`,
    /// `steer(ys, by = e)`
    Send {
        value: Expr,
        to: Expr,
    },
    /// `reply e`, `reply nothing`, `reply e then close`
    Reply {
        value: Option<Expr>,
        close: bool,
    },
    /// `fault name`
    Fault(Ident),
    /// `remove stage[who]`
    Remove(Expr),
    /// `remove req.headers where .name ~= b"x"`
    RemoveWhere {
        list: Expr,
        cond: Expr,
    },
    /// `append req.headers { name: b"via", value: v }`
    Append {
        list: Expr,
        fields: Vec<(Ident, Expr)>,
    },
    /// `insert Vlan { … } before p.ip4`, `insert [A { … }, B { … }] behind p.eth`
    Insert {
        parts: Expr,
        before: bool,
        at: Expr,
    },
    /// `drop p`
    Drop(Expr),
    /// `update flows[k] { .packets += 1 }`
    Update {
        entry: Expr,
        body: Block,
    },
    /// `close client`
    Close(Expr),
    /// `log "text", e, e`
    Log(Vec<Expr>),
    /// `expect e` (tests)
    Expect(Expr),
    /// The body of `signal start`, `signal stop`, `signal reset`, which is not written; with what
    /// the element does at the start
    Control {
        word: Ident,
        start: Vec<Block>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Name(Ident),
    /// `_`
    Any(Span),
    Tuple(Vec<Pattern>, Span),
    /// a constant, an enum's variant, a range
    Value(Expr),
    /// `get(g)`: a switch's alternative or an enum-like option (`some(x)`), with what it binds
    Variant {
        path: Path,
        bind: Option<Box<Pattern>>,
    },
    Or(Vec<Pattern>, Span),
}

// ---- expressions ----

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub span: Span,
    pub kind: Box<ExprKind>,
}

/// `join E as bytes, n`: of all items for one instance, E of each, one behind the other, and how
/// many they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub value: Expr,
    pub bytes: Ident,
    pub count: Option<Ident>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Name(Ident),
    /// `_` where a value is expected is refused by `lang`
    Int(u128),
    /// `10ms`, `64KiB`, `10Gbps`: the number as written and its suffix
    Scaled(u128, String),
    Bool(bool),
    /// `"…"` and `b"…"` alike are bytes
    Bytes(Vec<u8>),
    /// `10.0.0.0/8`, `02:00:00:00:00:01`, `127.0.0.1:80`, as written
    Address(String),
    /// `none`
    None,
    /// A type between `<` and `>`: `Tag<Vlan>()`
    Type(Type),
    /// `.`: the current message
    Dot,
    /// `e.f`; `.f` (a field of the current message) has no base
    Field(Option<Expr>, Ident),
    Index(Expr, Expr),
    /// `f(a, b)`, `x.count(k)`; named arguments `f(a = 1)`. `parse U(b)` is a call of `parse` with
    /// the call `U(b)`.
    Call(Expr, Vec<Arg>),
    /// `http.Response { status: 200, … }`; with an empty path, `{ a: 1, b: 2 }`: the expected
    /// record
    Build(Path, Vec<(Ident, Expr)>),
    /// `req with { opcode: x }`
    With(Expr, Vec<(Ident, Expr)>),
    Tuple(Vec<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{80, 443}` as in `x in {80, 443}`
    Set(Vec<Expr>),
    /// `a..b`, `a..=b`
    Range(Expr, Expr, bool /* inclusive */),
    Unary(UnOp, Expr),
    Binary(BinOp, Expr, Expr),
    /// `e else d`: the option's value, or d; after `call` and fallible operations, what to do
    /// instead. `d` may be a Block.
    Else(Expr, Expr),
    /// `if c { a } else { b }`; as a statement without else
    If(Expr, Block, Option<Expr /* Block or If */>),
    /// `if let x = option { … }`
    IfLet(Pattern, Expr, Block, Option<Expr>),
    Match(Expr, Vec<Arm>),
    Block(Block),
    /// `|a, b| e`
    Lambda(Vec<Ident>, Expr),
    /// `[x for k in list if c]`; `if let p = e` is a `cond` of kind `IfLet` whose block is empty:
    /// it also binds
    Comprehension {
        value: Expr,
        pattern: Pattern,
        list: Expr,
        cond: Option<Expr>,
    },
    /// `fold list from init with |acc, x| e`
    Fold {
        list: Expr,
        init: Expr,
        acc: Ident,
        item: Pattern,
        body: Expr,
    },
    /// `call backends[i](req) within 50ms`
    Call1 {
        port: Expr,
        msg: Expr,
        within: Option<Expr>,
    },
    /// `call all backends(req)`: to every instance
    CallEach {
        port: Expr,
        msg: Expr,
        within: Option<Expr>,
    },
    /// `call all for k in keys => backends[i](Get { key: k })`
    /// `call all for k in keys join concat(k, " ") as some, n => backends[i](Get { keys: some })`
    CallAll {
        pattern: Pattern,
        list: Expr,
        cond: Option<Expr>,
        join: Option<Join>,
        port: Expr,
        msg: Expr,
        within: Option<Expr>,
    },
    /// Control in expression position: `return`, `fault name`, `reply …` as the right side of
    /// `else`; an assignment in parentheses (`x else (y = e)`) has the assigned value
    Stmt(Box<Stmt>),
    /// Placed where the parser recovered from an error.
    Error,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    pub name: Option<Ident>,
    pub value: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    pub pattern: Pattern,
    pub guard: Option<Expr>,
    pub body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnOp {
    Neg,
    Not,
    BitNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    AddSat,
    SubSat,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `~=`: equal but for ASCII case
    EqCase,
    And,
    Or,
    /// `x in set`
    In,
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
