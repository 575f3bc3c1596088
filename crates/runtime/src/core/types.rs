//! The data of a core: connections, tasks, reply slots, calls, backends.
//!
//! A *slot* is a place in the reply order of a client connection. A *task* is one activation of a
//! handler. A *call* is a request on its way to a backend. They refer to each other by [`Id`],
//! never by pointer, so any of them may end first.

use super::body_pieces::HeldBody;
use super::ejection::Down;
use super::handler_stack::HandlerStack;
use super::piece_state::Reading;
use super::pipelining_policy::PipeliningPolicy;
use super::request_numbers::RequestNumbers;
use super::slab::Id;
use super::views::MessageView;
use super::waiting_messages::WaitingMessages;
use super::Raw;
use crate::abi::*;
use crate::buffer::{ChunkQueue, OwnedBuf};
use crate::engine::Token;
use crate::timer::TimerKey;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::net::SocketAddr;
use wireloom_ir::desc::PortOptions;

/// Pieces of connection state that are just true or false.
pub mod flag {
    /// Listed for the flush at the end of the batch.
    pub const DIRTY: u32 = 1;
    /// The engine takes no output now.
    pub const BLOCKED: u32 = 1 << 1;
    /// The engine holds slices of the output queue.
    pub const IN_FLIGHT: u32 = 1 << 2;
    /// We asked the engine to stop reading.
    pub const PAUSED: u32 = 1 << 3;
    /// The peer has ended its direction.
    pub const EOF: u32 = 1 << 4;
    /// Parsing waits until replies or output have drained.
    pub const STALLED: u32 = 1 << 5;
    /// On the list of connections to look at again.
    pub const AGAIN: u32 = 1 << 6;
    /// To be closed when its output is gone; its input is ignored.
    pub const CLOSING: u32 = 1 << 7;
    /// Close only after the peer had time to read: shutdown, then discard.
    pub const LINGER: u32 = 1 << 8;
    /// To be closed at the end of the batch, output discarded, with a reset.
    pub const DOOMED: u32 = 1 << 9;
    /// Lingering: our direction is shut down.
    pub const SHUT: u32 = 1 << 10;
    /// Backend: the connection attempt is under way.
    pub const CONNECTING: u32 = 1 << 11;
    /// Backend: it was idle before its present request.
    pub const REUSED: u32 = 1 << 12;
    /// Backend: bytes of the present answer have arrived.
    pub const ANSWERING: u32 = 1 << 13;
    /// Backend: not to be used again.
    pub const NO_REUSE: u32 = 1 << 14;
    /// No further message is read from this client; earlier requests are answered.
    pub const LAST: u32 = 1 << 15;
    /// The head of the message under way is parsed (whole mode).
    pub const HEAD_DONE: u32 = 1 << 16;
    /// Backend: a connection attempt made to see whether an ejected backend is back.
    pub const PROBE: u32 = 1 << 17;
    /// Our direction ends after the output (tunnel).
    pub const SHUT_WANTED: u32 = 1 << 18;
    /// Paused because a destination is full, not because parsing stalled.
    pub const FLOW: u32 = 1 << 19;
    /// Client: waits until a backend has taken its output.
    pub const BEHIND: u32 = 1 << 20;
    /// Exclusive backend: answered; goes back to the pool when nothing else has arrived on it.
    pub const RELEASE: u32 = 1 << 21;
    /// Backend of an exclusive protocol: shared at present by requests that allow it (`pipeline`).
    pub const PIPED: u32 = 1 << 22;
    /// Backend: idle before its present request, which is not written yet.
    pub const UNSENT: u32 = 1 << 23;
    /// Backend: serves one client only, `client`.
    pub const PRIVATE: u32 = 1 << 24;
    /// Client: over the limit of connections; it gets an error and is closed.
    pub const TURNED_AWAY: u32 = 1 << 28;
    /// Backend of a pipelined protocol: an unshared connection, for requests that are sent while
    /// they are still arriving.
    pub const OWN: u32 = 1 << 26;
    /// Backend, shared: no more requests go out on it.
    pub const LEFT: u32 = 1 << 27;
    /// Backend, shared: messages without an answer may be under way.
    pub const UNANSWERED: u32 = 1 << 29;
    /// Client: messages of it without an answer have gone out on shared connections.
    pub const WROTE: u32 = 1 << 30;
    /// A datagram of a client, or a socket for datagrams to a backend.
    pub const DATAGRAM: u32 = 1 << 31;
    /// Client: the next request waits until all requests under way are answered.
    pub const ALONE: u32 = 1 << 25;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Side {
    #[default]
    Client,
    Backend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// At a message's head.
    #[default]
    Head,
    /// In a message's tail, which streams to `sink`.
    Tail,
    /// A tunnel: bytes go to `sink`.
    Raw,
    /// Everything is discarded.
    Drain,
}

/// Where a streaming tail goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sink {
    /// The handler has not said yet: bytes wait.
    #[default]
    Undecided,
    Discard,
    /// Into this connection's output.
    Conn(Id),
    /// Into this reply slot.
    Slot(Id),
    /// Nowhere: the handler of pieces reads them, and this part of the owner waits for the end.
    Read(u32),
}

/// The first bytes of a refused message, from which a protocol may derive its answer.
#[derive(Clone, Copy, Default)]
pub struct Start {
    pub(super) bytes: [u8; WL_START],
    pub(super) n: u32,
    /// Bytes that have been dropped while a delimiter was looked for.
    pub(super) sought: usize,
}

impl Start {
    pub(super) fn of(message: Raw) -> Start {
        let n = message.n.min(WL_START);
        let mut s = Start { n: n as u32, ..Start::default() };
        // SAFETY: the caller's bytes are in place.
        s.bytes[..n].copy_from_slice(unsafe { &message.slice()[..n] });
        s
    }
}

/// A client's fault, and how the message began. `in_step`: the next message is read behind it.
pub struct Complaint {
    pub fault: (u32, u32),
    pub start: Start,
    pub in_step: bool,
}

/// In this order: the first three cache lines hold the fields that each message uses.
#[repr(C)]
pub struct Conn {
    pub token: Token,
    pub flags: u32,
    pub side: Side,
    pub mode: Mode,
    pub app: u16,
    pub port: u16,
    /// Protocol index, `NO_PROTO` while a client has sent nothing; `alt`: which alternative of the
    /// port.
    pub proto: u16,
    pub alt: u16,
    /// Which backend of its port, as in `c.instance`, which lies further off.
    pub instance: u32,
    pub sink: Sink,
    /// The window of observation in which it was last active (`pace`).
    pub window: u32,
    pub last_rx: u64,
    pub last_tx: u64,
    // Output.
    pub out: ChunkQueue,
    // Reply slots of a client, calls of a backend connection, first to last.
    pub first: Id,
    pub last: Id,
    pub count: u32,
    /// Size of the largest recent reply to this client.
    pub reply_max: u32,
    /// The parser's state of a message under way.
    pub view: Option<MessageView>,
    /// Its body, if that is held.
    pub held: Option<Box<HeldBody>>,
    /// Its pieces, if they have a handler.
    pub reading: Option<Box<Reading>>,
    pub input: OwnedBuf,
    /// Whole mode: tail bytes already parsed.
    pub tail_used: u32,
    /// Bytes of the tail have gone on to another connection.
    pub moved: bool,
    /// Client: how often bytes were ignored in front of the request that is next.
    pub ignored: u8,
    /// Backend: complete answers so far. Client: requests so far.
    pub answered: u32,
    /// Backend: answers to its greeting that have not come yet.
    pub greets: u16,
    /// The task that reads the streaming tail.
    pub owner: Id,
    /// A source that was paused because this connection's output is full.
    pub paused_src: Id,
    // Time.
    pub timer: TimerKey,
    pub timer_at: u64,
    /// When the message under way began, the connection attempt started, or lingering began.
    pub since: u64,
    /// Time that it has used beyond the slices of the rounds before `round` (of its app), in ns.
    pub debt: u64,
    pub round: u32,
    /// Client: its first paused task.
    pub paused: Id,
    /// Of a message that is being dropped: how it began.
    pub dropped: Option<Box<Start>>,
    pub session: Option<Box<[u64]>>,
    /// Client: backend connections that are its own. Backend: the client whose own it is.
    pub own: Vec<Id>,
    pub client: Id,
    /// Backend, `UNANSWERED`: the first call behind the last such message. Its answer shows that it
    /// is done.
    pub prover: Id,
    /// Backend, `LEFT`: since when clients that take their answers slowly have held up others; 0:
    /// none has.
    pub held_up: u64,
    /// Client, `DATAGRAM`: bytes that may still be sent to it.
    pub most_answer: u32,
    /// Upstream of a conversation: whether its client's last message waits for another one
    /// (`unfinished when`).
    pub unfinished: bool,
    /// How many answers it owes is not known for sure.
    pub uncounted: bool,
    /// Its server has said something since the last question.
    pub heard: bool,
    /// Backend: the numbers by which its answers are matched, if they carry ids.
    pub numbers: Option<Box<RequestNumbers>>,
    /// Its part in a conversation: 0 none, 1 the client, from 2 on the upstream.
    pub member: u8,
    /// Of a conversation: its part in a pool of sessions, and the pools that it is of, or that a
    /// client may take sessions from.
    pub pooling: Pooling,
    pub group: u32,
    /// Why it ends (`WL_F_*`), once that is known.
    pub why: u16,
    /// Client of a conversation: its server waits for the next message, or has not got one.
    pub at_rest: bool,
    /// Upstream of a conversation: answers that its server owes (`owes when`).
    pub owed: u32,
    /// When its server was asked for the first answer of which it has said nothing.
    pub asked: u64,
    /// When it was opened, and the bytes that have left on it since.
    pub opened: u64,
    pub left: u64,
    /// Client: the backend that it got a connection of its own to, `NO_BACKEND`, `BACKENDS`.
    pub served_by: (u16, u32),
    /// Of a conversation: others wait until it has taken its output.
    pub waited: bool,
    /// Of a conversation: no message of it is read at present.
    pub on_hold: bool,
    /// Of a conversation: what is known of its beginning (`begin`).
    pub begin: u8,
    /// Of a conversation: the protocol of messages to it. Also the alternative in which it is read
    /// behind the message at hand, `NO_PROTO` if that stays.
    pub speaks: u16,
    pub becomes: u16,
    /// Of a conversation: the connection whose output must drain before the next message is read.
    pub behind: Id,
    /// Of a conversation: the source whose message streams into its output.
    pub feeder: Id,
    /// Of a conversation: messages that wait until that one has passed.
    pub after: Option<Box<WaitingMessages>>,
    /// Client of a conversation: its fault, of which it is told behind the answers that are owed.
    pub complaint: Option<Box<Complaint>>,
    /// Upstream of a conversation: the questions for whose answers handlers wait.
    pub asks: Option<Box<super::questions::Questions>>,
    /// The part that the program sees.
    pub c: wl_conn,
}

/// `Conn::group` of a connection that is in no pool.
pub const NO_GROUP: u32 = u32::MAX;
/// The token of a connection without a socket.
pub const NO_SOCKET: Token = Token(u64::MAX);

/// A connection's part in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// It is a client's, or no session.
    #[default]
    Owned,
    /// Its client has released it in a handler that is not done.
    Released,
    /// The reset has been sent.
    Resetting,
    /// The reset has been confirmed; an idle message is awaited.
    Confirmed,
    Idle,
    /// It has no socket: it keeps a client's messages for the next idle session.
    Waiting,
    /// The same, for a place in the pool: its client is to log in.
    Login,
}

impl Pooling {
    /// Whether it belongs to no client.
    pub fn is_nobodys(self) -> bool {
        match self {
            Pooling::Released | Pooling::Resetting | Pooling::Confirmed | Pooling::Idle => true,
            Pooling::Owned | Pooling::Waiting | Pooling::Login => false,
        }
    }

    /// Whether it has no socket.
    pub fn waits(self) -> bool {
        matches!(self, Pooling::Waiting | Pooling::Login)
    }
}

/// `Conn::member` of a client.
pub const CLIENT: u8 = 1;

pub const NO_PROTO: u16 = u16::MAX;

impl Default for Conn {
    fn default() -> Self {
        Conn {
            c: wl_conn {
                session: std::ptr::null_mut(),
                peer: wl_endpoint::default(),
                local: wl_endpoint::default(),
                port: 0,
                instance: 0,
                id: 0,
                handle: 0,
            },
            token: Token(u64::MAX),
            flags: 0,
            side: Side::Client,
            app: 0,
            port: 0,
            proto: NO_PROTO,
            alt: 0,
            instance: 0,
            mode: Mode::Head,
            sink: Sink::Undecided,
            input: OwnedBuf::new(),
            view: None,
            held: None,
            reading: None,
            tail_used: 0,
            moved: false,
            ignored: 0,
            owner: Id::NIL,
            paused_src: Id::NIL,
            out: ChunkQueue::new(),
            first: Id::NIL,
            last: Id::NIL,
            count: 0,
            reply_max: 0,
            timer: TimerKey::NONE,
            timer_at: u64::MAX,
            last_rx: 0,
            last_tx: 0,
            window: 0,
            since: 0,
            answered: 0,
            debt: 0,
            round: 0,
            paused: Id::NIL,
            greets: 0,
            dropped: None,
            own: Vec::new(),
            client: Id::NIL,
            prover: Id::NIL,
            held_up: 0,
            most_answer: 0,
            numbers: None,
            member: 0,
            pooling: Pooling::Owned,
            group: NO_GROUP,
            why: 0,
            at_rest: true,
            owed: 0,
            unfinished: false,
            uncounted: false,
            asks: None,
            asked: 0,
            heard: true,
            opened: 0,
            left: 0,
            served_by: NO_BACKEND,
            waited: false,
            complaint: None,
            on_hold: false,
            begin: 0,
            speaks: NO_PROTO,
            becomes: NO_PROTO,
            behind: Id::NIL,
            feeder: Id::NIL,
            after: None,
            session: None,
        }
    }
}

impl Conn {
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
    pub fn begins(&self, how: u8) -> bool {
        self.begin & how != 0
    }
    #[inline]
    pub fn set(&mut self, flags: u32) {
        self.flags |= flags;
    }
    #[inline]
    pub fn clear(&mut self, flags: u32) {
        self.flags &= !flags;
    }
    pub fn endpoint(&self) -> u32 {
        self.instance
    }
}

/// The beginning of a connection of a conversation.
pub mod begin {
    /// Upstream: its latest message is its server's greeting, or a part of it.
    pub const GREETING: u8 = 1;
    /// Upstream: its handlers have begun, in front of a greeting that is there.
    pub const GREETED: u8 = 2;
    /// Its handlers are those that `Conn::count` counts.
    pub const HANDLERS: u8 = 4;
}

/// A client that is gone, for handlers that still wait: what they know of it, and its `session`
/// variables, to which `c` leads.
#[derive(Debug)]
pub struct GoneClient {
    pub c: wl_conn,
    pub session: Option<Box<[u64]>>,
}

/// A reply slot.
#[derive(Default)]
pub struct Slot {
    pub conn: Id,
    pub task: Id,
    pub next: Id,
    /// Backend connection whose answer streams into this slot.
    pub src: Id,
    pub answered: bool,
    pub done: bool,
    pub close: bool,
    /// A request that is not answered.
    pub silent: bool,
    /// Bytes of the answer were given to the connection.
    pub started: bool,
    /// Its answer turns the connection into a tunnel.
    pub tunnel: bool,
    /// Reply bytes that wait for their turn.
    pub stored: ChunkQueue,
    pub bytes: u64,
    pub since: u64,
    /// The backend that was asked last: its port and number, `NO_BACKEND`, `BACKENDS`.
    pub backend: (u16, u32),
    /// A backend has answered: the answer to the client may be its own.
    pub heard: bool,
    /// The class of its answer (`wl_core.outcome`), and its fault.
    pub outcome: u32,
    pub fault: u16,
    /// For the access log.
    pub note: Option<Box<crate::access_log::Note>>,
}

/// `Slot::backend` of a request for which none was asked, and for which several were asked at once.
pub const NO_BACKEND: (u16, u32) = (u16::MAX, 0);
pub const BACKENDS: (u16, u32) = (u16::MAX, 1);

/// A reply kept for a task: memory at a fixed place until the task ends.
#[derive(Default)]
pub struct Stored {
    pub bytes: OwnedBuf,
    pub view: Option<MessageView>,
}

/// One activation of a handler. `c` comes first: the program hands back its address.
#[repr(C)]
pub struct Task {
    pub c: wl_task,
    pub me: Id,
    pub app: u16,
    /// In which settings it began.
    pub settings: u32,
    pub conn: Id,
    /// The connection that its message has come from.
    pub src: Id,
    pub slot: Id,
    /// Replies not yet there.
    pub waiting: u32,
    /// The response's parameters, as the program packed them for its last call.
    pub ctx: u64,
    /// Flags of the request (`WL_M_*`).
    pub req_flags: u32,
    /// Bytes of the request at `req.base`: head and the available part of the tail.
    pub req_have: u32,
    /// No call was issued since the last resumption.
    pub fresh: bool,
    pub running: bool,
    /// More tail follows on the connection.
    pub req_more: bool,
    /// The request's bytes are gone (not held over a suspension).
    pub req_gone: bool,
    /// A call asked to keep the request.
    pub hold_req: bool,
    /// The request's tail was given to a backend while it was still arriving: it cannot be sent
    /// twice.
    pub req_streamed: bool,
    /// The handler closed its connection: no answer is missed.
    pub closed: bool,
    /// Of a message in a conversation, before the first suspension: whether bytes lie behind it.
    pub bytes_behind: bool,
    pub suspended: bool,
    /// Its client, if that is gone.
    pub gone: Option<Box<GoneClient>>,
    pub req: Stored,
    /// One of each lies in the task itself: most handlers make one call. Empty between two
    /// activations.
    pub parts: SmallVec<[wl_msg; 1]>,
    /// Bytes at `parts[i].base`, and the call that fetches it.
    pub have: SmallVec<[u32; 1]>,
    pub calls: SmallVec<[Id; 1]>,
    pub stored: Vec<Stored>,
    /// The reply seen in place: whose input it is, and whether more of it follows.
    pub rep_src: Id,
    pub rep_more: bool,
    pub frame: Vec<u64>,
    /// Where it is paused, and the next paused one of its connection.
    pub handler_stack: *mut HandlerStack,
    pub next_paused: Id,
}

impl Default for Task {
    fn default() -> Self {
        Task {
            c: wl_task::default(),
            me: Id::NIL,
            settings: 0,
            app: 0,
            conn: Id::NIL,
            src: Id::NIL,
            slot: Id::NIL,
            waiting: 0,
            fresh: true,
            running: false,
            ctx: 0,
            req_flags: 0,
            req_have: 0,
            req_more: false,
            req_gone: false,
            hold_req: false,
            req_streamed: false,
            closed: false,
            bytes_behind: false,
            suspended: false,
            gone: None,
            req: Stored::default(),
            parts: SmallVec::new(),
            have: SmallVec::new(),
            calls: SmallVec::new(),
            stored: Vec::new(),
            rep_src: Id::NIL,
            rep_more: false,
            frame: Vec::new(),
            handler_stack: std::ptr::null_mut(),
            next_paused: Id::NIL,
        }
    }
}

/// Where a request goes: app, port, and the server's place there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub a: usize,
    pub p: usize,
    pub i: usize,
}

/// The order of one request's servers, and how many have been considered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// The place of the server that the program has named.
    pub(super) origin: u32,
    pub(super) considered: u32,
    /// As `wl_core.place`; 0: not known yet.
    pub(super) place: u64,
    /// The settings whose list it follows.
    pub(super) turn: u32,
}

impl Order {
    /// The order of messages on a connection to this server.
    pub(super) fn from_server(i: usize) -> Order {
        Order { origin: i as u32, ..Order::default() }
    }
}

/// A request to a backend.
#[derive(Default)]
pub struct Call {
    /// NIL for an abandoned call: the answer is read and dropped.
    pub task: Id,
    pub part: u32,
    pub app: u16,
    pub port: u16,
    pub inst: u32,
    pub conn: Id,
    pub next: Id,
    /// The one before it on its connection.
    pub before: Id,
    pub ctx: u64,
    pub flags: u32,
    pub issued: u64,
    pub deadline: u64,
    /// On a shared connection: when its answer's turn came, and whether it lay behind another when
    /// it was sent.
    pub turn: u64,
    pub behind: bool,
    /// The client's id, where answers are matched by id, and the number that stands for it.
    pub client_id: [u8; 8],
    pub number: u64,
    /// The request, while it waits for a connection or may be sent again.
    pub kept: OwnedBuf,
    /// The protocol allows to send the request again.
    pub repeat: bool,
    /// Only the end of the connection tells where the request ends.
    pub ends: bool,
    /// Its tail streams from this client connection.
    pub stream: Id,
    pub retried: bool,
    /// The connection that it goes out on is to be its client's own.
    pub private: bool,
    /// Of a barrier: the call that waits for it.
    pub releases: Id,
    /// The servers that it goes to if one cannot be reached.
    pub order: Order,
}

/// A server that is not in the list of its port any more. `turn`: the change of the settings with
/// which it went. `instance`: which one it was. `left`: the core has done with it.
#[derive(Clone, Copy, Debug)]
pub struct Gone {
    pub since: u64,
    pub turn: u32,
    pub instance: u32,
    pub left: bool,
}

/// One backend of a connect port, as seen by this core.
pub struct Backend {
    pub addr: SocketAddr,
    /// Which server of its place it is, and which instance; none of one that is gone.
    pub server: u32,
    pub instance: Option<u32>,
    pub gone: Option<Gone>,
    /// Requests and conversations under way, and whether the program may use it.
    pub load: u32,
    pub up: bool,
    /// Pipelined: the shared connections, NIL for closed ones.
    pub shared: Vec<Id>,
    pub turn: u32,
    /// Exclusive: idle connections, last used last.
    pub idle: Vec<Id>,
    /// Exclusive, `pipeline` is a number: connections that are shared at present, and when sharing
    /// may begin again.
    pub piped: Vec<Id>,
    pub calm_until: u64,
    /// Exclusive, `pipeline` is `auto`: its policy, and the connection for this batch's requests.
    pub trust: PipeliningPolicy,
    pub filling: Id,
    pub open: u32,
    pub waiters: VecDeque<Id>,
    pub waiters_timer: u64,
    /// Pipelined: new clients ask alone until then.
    pub wary_until: u64,
    /// No connection is reused until then ([`out_of_step`](super::Core::out_of_step)).
    pub unsteady_until: u64,
    /// When it may be logged again that it refuses its greeting.
    pub told: u64,
    /// Clients that wait until this backend's output has drained.
    pub stalled: Vec<Id>,
    /// Failures in a row; of a backend that is down, why and since when, and the call that is to
    /// show whether it still is.
    pub failures: u32,
    pub down: Option<Down>,
    pub trial: Id,
    pub probe_at: u64,
}

impl Backend {
    pub fn new(addr: SocketAddr, instance: Option<u32>, options: &PortOptions) -> Backend {
        Backend {
            addr,
            server: 1,
            instance,
            gone: None,
            load: 0,
            up: true,
            shared: vec![Id::NIL; options.connections.max(1) as usize],
            turn: 0,
            idle: Vec::new(),
            piped: Vec::new(),
            calm_until: 0,
            trust: PipeliningPolicy::default(),
            filling: Id::NIL,
            open: 0,
            waiters: VecDeque::new(),
            waiters_timer: u64::MAX,
            wary_until: 0,
            unsteady_until: 0,
            told: 0,
            stalled: Vec::new(),
            failures: 0,
            down: None,
            trial: Id::NIL,
            probe_at: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;
    use wireloom_ir::desc;

    /// `wireloom explain` counts with these figures.
    #[test]
    fn the_memory_bill_is_right() {
        assert!(size_of::<Conn>() as u64 <= desc::CONNECTION, "{}", size_of::<Conn>());
        let request = size_of::<Task>() + size_of::<Slot>() + size_of::<Call>();
        assert!(request as u64 <= desc::REQUEST, "{request}");
        let lists = size_of::<wl_msg>() + size_of::<u32>() + size_of::<Id>() + size_of::<Stored>();
        let call = size_of::<Call>() + 2 * lists;
        assert!(call as u64 <= desc::CALL && 2 * call as u64 > desc::CALL, "{call}");
        assert!(
            2 * size_of::<Conn>() as u64 > desc::CONNECTION && 2 * request as u64 > desc::REQUEST,
            "far too high a figure"
        );
    }
}
