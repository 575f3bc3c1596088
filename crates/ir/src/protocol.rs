//! Protocols: the units of requests and answers, and the rules that pair them.

use crate::desc::Sharing;
use crate::{Body, Expr, FieldId, Module, UnitId};

#[derive(Clone, Debug, PartialEq)]
pub struct Protocol {
    pub name: String,
    pub request: UnitId,
    pub response: Option<UnitId>,
    /// Per parameter of the response unit: an expression over the request (`Root::This`).
    pub response_args: Vec<Expr>,
    /// Of a conversation: the same for its request unit, the messages `up`. Both are over sessions
    /// then.
    pub request_args: Vec<Expr>,
    pub sharing: Sharing,
    /// Of a conversation: nothing is sent to a server before its first message has come.
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
    pub idle: Option<Expr>,
    /// This message of a server says that its session is reset.
    pub reset: Option<Expr>,
    /// Of a conversation: the server answers this message, at last with one that `settles`.
    pub owes: Option<Expr>,
    /// Of a conversation: this message is done with once one that is `owes` follows it.
    pub unfinished: Option<Expr>,
    /// Of a conversation: a server's message that ends an answer which is owed.
    pub settles: Option<Expr>,
    /// Pieces of the message's streamed bytes that a handler changes go on in chunks (RFC 9112
    /// section 7.1). Only where a handler does.
    pub chunks_request: Option<Expr>,
    pub chunks_response: Option<Expr>,
    /// The client waits for these bytes before it sends the rest of its request. Only where that is
    /// read before anything is sent on.
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
    pub fn new(name: String, request: UnitId, sharing: Sharing) -> Self {
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
    /// Of a conversation: whether the order of messages tells which one ends an answer.
    pub fn tells_answers(&self) -> bool {
        self.owes.is_some() && self.settles.is_some()
    }

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
