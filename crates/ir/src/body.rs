//! Code: structured statements over typed locals; pure expressions.

use crate::*;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    pub locals: Vec<Local>,
    pub block: Block,
    /// Branches that are carried out without a jump. Set by the pass `selects`.
    pub selects: Vec<StmtPath>,
}

/// A statement of a body. Statements are numbered from 1 within their block; a nested block's
/// statements follow the number of their statement, all blocks of one statement counted through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StmtPath(pub Vec<u32>);

impl std::fmt::Display for StmtPath {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        for (n, part) in self.0.iter().enumerate() {
            write!(f, "{}{part}", if n > 0 { "." } else { "" })?
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// From the source; temporaries are `t1`, `t2`, …
    pub name: String,
    pub ty: TyId,
    /// Set by the liveness pass: live across some suspension, so kept in the task's frame.
    pub in_frame: bool,
}

pub type Block = Vec<Stmt>;

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    pub span: Span,
    pub kind: StmtKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Sets a local.
    Set(LocalId, Expr),
    /// Sets a field (of a field …) of a record or tuple local.
    SetField(LocalId, Vec<u32>, Expr),
    SetState(StateId, Expr),
    SetSession(SessionId, Expr),
    Count(CounterId, Expr),
    /// Appends to a list local; guarded by the lowering so that it cannot be full.
    Push(LocalId, Expr),
    If {
        cond: Expr,
        then: Block,
        other: Block,
    },
    /// On an integer; values are constants.
    Switch {
        on: Expr,
        cases: Vec<(Vec<u64>, Block)>,
        default: Block,
    },
    /// `for var in from..to`; `max` is a proven bound on the number of rounds.
    For {
        var: LocalId,
        from: Expr,
        to: Expr,
        max: u64,
        body: Block,
    },
    /// At most `max` rounds.
    Loop {
        max: u64,
        body: Block,
    },
    Break,
    Continue,
    Return(Option<Expr>),
    /// Faults unless the condition holds.
    Require {
        cond: Expr,
        kind: FaultKind,
        place: PlaceId,
    },
    Fault {
        kind: FaultKind,
        place: PlaceId,
    },

    /// `dst` (an option of the value) = the entry. Its bytes are copied to the core's scratch:
    /// valid until the handler's next suspension or end.
    TableGet {
        table: TableId,
        key: Expr,
        dst: LocalId,
    },
    TablePut {
        table: TableId,
        key: Expr,
        value: Expr,
        place: PlaceId,
    },
    /// `dst`: bool local, whether it was there.
    TableRemove {
        table: TableId,
        key: Expr,
        dst: Option<LocalId>,
    },
    /// Reads the entry into `entry` (a zero value if missing), runs `body`, writes `entry` back,
    /// atomically.
    TableUpdate {
        table: TableId,
        key: Expr,
        entry: LocalId,
        body: Block,
        place: PlaceId,
    },
    /// u64
    TableLen {
        table: TableId,
        dst: LocalId,
    },

    /// Issues a call; the reply becomes part `n` of the task, n = calls issued since the last
    /// `Await`. `clauses` tell of the message as it is sent. It has no answer (`no_reply`), may be
    /// sent again (`repeat`), makes its connection its client's own (`private`), ends with it.
    /// Empty: its parser has told.
    Call {
        port: PortId,
        index: Expr,
        msg: Outgoing,
        within: Option<Expr>,
        response_args: Vec<Expr>,
        clauses: Vec<Expr>,
    },
    /// Suspends until all issued calls are answered. `hold`: replies are kept whole; `hold_req`:
    /// the request is read after this point (set by the liveness pass, as is `live`).
    Await {
        hold: bool,
        hold_req: bool,
        live: Vec<LocalId>,
    },
    /// Binds a message local to a part. Only after checking [`ExprKind::PartStatus`].
    BindPart {
        dst: LocalId,
        part: Expr,
    },
    Reply {
        msg: Outgoing,
        close: bool,
    },
    /// In front of `Reply`: what the answer is counted as, a u32: its `status` times 256, and its
    /// class's number in [`crate::Protocol::classes`], from 1. 0: nothing is known.
    Outcome(Expr),
    Send {
        port: PortId,
        index: Expr,
        msg: Outgoing,
    },
    /// Closes the task's connection when its output is sent.
    Close,
    /// A message to a member of the task's conversation, in a protocol of its port. None: the port
    /// speaks only one. If the member speaks another one at present, that is the fault `unspoken`.
    Tell {
        to: Peer,
        protocol: Option<ProtocolId>,
        msg: Outgoing,
        place: PlaceId,
    },
    /// A message to an upstream, as by `Tell`, and a part of the task: the one message that answers
    /// it. `matched`: values for [`Unit::asked`], with which the protocol finds the answer
    /// ([`crate::Protocol::stray`]). Empty: it is found by the order of answers.
    Ask {
        upstream: UpstreamId,
        protocol: Option<ProtocolId>,
        msg: Outgoing,
        within: Option<Expr>,
        matched: Vec<Expr>,
    },
    /// A message to each client that a handle or a list of them names. A client that is gone, or
    /// that takes its messages too slowly, gets none: a fault is counted at the place. The protocol
    /// is as in `Tell`.
    Deliver {
        to: Expr,
        protocol: Option<ProtocolId>,
        msg: Outgoing,
        place: PlaceId,
    },
    /// Closes the connections that a handle or a list of them names when their output is sent.
    Dismiss(Expr),
    /// Opens an upstream of the task's conversation to an instance of its port. With a key (bytes)
    /// it is one of the sessions of a pool.
    OpenUpstream {
        upstream: UpstreamId,
        index: Expr,
        key: Option<Expr>,
        place: PlaceId,
    },
    /// Closes it when its output is sent.
    CloseUpstream(UpstreamId),
    /// Opens an upstream with a session of its client's pool, to an instance of its port.
    TakeUpstream {
        upstream: UpstreamId,
        index: Expr,
        place: PlaceId,
    },
    /// Gives an upstream, whose message is at hand, to the pool of sessions of a key (bytes).
    PoolUpstream {
        upstream: UpstreamId,
        key: Expr,
    },
    /// A member speaks another protocol of its port from now on. Its next message is read in it.
    /// Bytes that are there already are the fault `early`, unless they may be the `rest`.
    Become {
        member: Peer,
        protocol: ProtocolId,
        rest: bool,
        place: PlaceId,
    },
    /// No message of a member is read until it becomes another protocol, or is released.
    Hold(Peer),
    Release(Peer),
    Log(Vec<Expr>),
    /// Adds to the message being built (only inside an [`Outgoing`] or [`Edit`]).
    Emit(Emit),
    /// Suspends the next `Await` until another handler has set or removed the entry of this key, or
    /// `within` (ns, u64) is over. It may also end earlier.
    Wait {
        table: TableId,
        key: Expr,
        within: Expr,
    },
    /// Suspends the next `Await` until the rest of the request has come. Its pieces go to their
    /// handler ([`On::Piece`]) and nowhere else.
    AwaitBody,
    /// In a handler of pieces: these bytes go on in the place of the piece.
    SetPiece(Expr),
    /// In a handler of pieces: this piece and those behind it do not go on, nor to the handler.
    DropBody,
    /// Parses constant or computed bytes as a whole message: `ok` (bool) says whether, `dst` is the
    /// message. `kept`: a message that was rendered before, whose first bytes these are under the
    /// parameters given. All of it is passed on, and its streamed bytes can be read.
    Parse {
        unit: UnitId,
        kept: Option<Vec<Expr>>,
        bytes: Expr,
        dst: LocalId,
        ok: LocalId,
    },
    /// Renders a message to bytes in the core's scratch. One that is passed on is there as a whole
    /// ([`ExprKind::Held`]), or has no streams.
    Render {
        msg: Outgoing,
        dst: LocalId,
    },
    /// Reads a changed or built message as its next reader will. `ok` (bool) says whether its head
    /// is one of its unit; of a held message, whether all of it is. `dst` is that message until
    /// another one is built.
    Reread {
        msg: Outgoing,
        dst: LocalId,
        ok: LocalId,
    },

    /// A new frame, its parts one behind the other, leaves through an instance of a frame port.
    SendFrame {
        port: PortId,
        index: Expr,
        parts: Vec<Part>,
        place: PlaceId,
    },
    /// Gives the frame to what its wire leads to, which has it for itself, and goes on when that
    /// has ended. A fault there is one here. `mark` (u32) goes with it, and the state of the
    /// packet: a field that is not listed has its default. `last`: the frame is not used again
    /// (set by the `frame_last_use` pass). `fresh`: the headers are looked for anew before (set by
    /// the `fresh_headers` pass).
    Output {
        wire: WireId,
        frame: LocalId,
        mark: Expr,
        state: Vec<Carried>,
        last: bool,
        fresh: bool,
    },
    /// Frames (a message local whose unit has [`Unit::frame`]). Layers are indices into
    /// `Frame::layers`; the header is known to be there.
    Frame {
        frame: LocalId,
        act: FrameAct,
    },
    /// Walks a table's entries, in no order, a step at a time. `cursor` (u64, 0 at first) moves on,
    /// over some thousand empty slots at most. `more` (bool) tells whether `key` and `value` were
    /// set. A cursor of all ones is behind the last entry. Entries added or removed meanwhile may
    /// or may not be seen; none is seen twice. `mask` (of the key's type) and `priority` (u32; of
    /// an LPM table the prefix's length) are for tables whose entries have masks.
    TableNext {
        table: TableId,
        cursor: LocalId,
        key: LocalId,
        value: LocalId,
        more: LocalId,
        masked: Option<(LocalId, LocalId)>,
    },
    /// Adds or replaces the entry of a wildcard or LPM table with this key, mask and (wildcard)
    /// priority. `mask` has the key's type: the bits that must agree; of an LPM table, ones
    /// followed by zeros.
    TableInsert {
        table: TableId,
        key: Expr,
        mask: Expr,
        priority: Expr,
        value: Expr,
        place: PlaceId,
    },
    /// Removes it; `dst` (bool): whether it was there.
    TableDelete {
        table: TableId,
        key: Expr,
        mask: Expr,
        priority: Expr,
        dst: Option<LocalId>,
    },
    /// Adds a value to a ring, behind the others; `dst` (bool): whether there was room.
    TablePush {
        table: TableId,
        value: Expr,
        dst: LocalId,
    },
    /// Takes the oldest value of a ring: `dst` is an option of it. Bytes as for `TableGet`.
    TablePop {
        table: TableId,
        dst: LocalId,
    },
    /// Forgets the groups that there were, and makes one, empty, for each instance of a port, at
    /// most `max`. They last until the handler's next suspension or end.
    GroupBegin {
        port: PortId,
        max: u32,
    },
    /// Adds an item to the group of an instance (guarded): its parts, one behind the other.
    GroupAdd {
        index: Expr,
        parts: Vec<Expr>,
    },
    /// The bytes from which [`Emit::InOrder`] takes the items of part n; said of all parts, from 0
    /// on.
    GroupRun {
        part: Expr,
        bytes: Expr,
    },
    /// About a queue of frames, a port of the engine `Queue`: what `dst` gets depends on the act.
    Queue {
        port: PortId,
        index: Expr,
        act: QueueAct,
        dst: LocalId,
    },
}

impl StmtKind {
    /// Whether it begins what the next `await` waits for.
    pub fn is_awaited(&self) -> bool {
        matches!(self, StmtKind::Call { .. } | StmtKind::Ask { .. } | StmtKind::Wait { .. } | StmtKind::AwaitBody)
    }

    /// Whether it opens, takes, holds or closes a connection, or changes its protocol.
    pub fn changes_connection(&self) -> bool {
        matches!(
            self,
            StmtKind::Close
                | StmtKind::OpenUpstream { .. }
                | StmtKind::CloseUpstream(_)
                | StmtKind::TakeUpstream { .. }
                | StmtKind::PoolUpstream { .. }
                | StmtKind::Become { .. }
                | StmtKind::Hold(_)
                | StmtKind::Release(_)
        )
    }
}

/// In the order of `WL_UPSTREAM_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFact {
    /// The number of its connection, which no other has.
    Id,
    /// Which instance of its port it is connected to.
    Instance,
    /// The answers that its server owes; an unfinished message counts as one.
    Owed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAct {
    /// The oldest frame is handled by the queue's handler once the handler at hand has ended; bool:
    /// whether there was one.
    Pop,
    /// The oldest frame is gone; bool: whether there was one.
    Drop,
    /// Frames that wait, u32.
    Len,
    /// Bytes of the oldest frame, u32; 0: none waits.
    First,
}

/// Part of a new frame, or of what is inserted. It is a header (lengths and checksums that its unit
/// declares are filled in once all parts are there) or plain bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub unit: Option<UnitId>,
    pub body: Block,
}

/// An act on a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameAct {
    /// Changes a header's fixed-width field in place. Checksums that cover it are updated
    /// incrementally (RFC 1624); a checksum field itself is just set.
    Set {
        layer: u32,
        field: FieldId,
        value: Expr,
    },
    /// Two fields of a header change places: whole ones of one size, in fixed places, either both
    /// addresses or neither. Checksums over both stay as they are. Made by the pass `swaps`.
    Swap {
        layer: u32,
        a: FieldId,
        b: FieldId,
    },
    /// Puts headers and bytes, one behind the other (at most `max` bytes), before a header (None:
    /// behind the last one that is there). `behind`: it was chosen as the one behind this. Lengths
    /// that cover the place follow, and their checksums. Taken from the headroom; too little:
    /// fault `overload`.
    Insert {
        before: Option<u32>,
        behind: Option<u32>,
        parts: Vec<Part>,
        max: u32,
        place: PlaceId,
    },
    /// Takes a header out.
    Remove {
        layer: u32,
    },
    /// Replaces the payload behind a header (None: behind the last one) by what the body emits, at
    /// most `max` bytes; lengths and checksums follow.
    Payload {
        layer: Option<u32>,
        body: Block,
        max: u32,
        place: PlaceId,
        /// The part of the new payload that may be a part of the old one: it stays in place, and
        /// the headers move. Parts are the operands of `concat`, or the only expression. Set by the
        /// pass `payload_in_place`.
        keep: Option<u32>,
    },
    /// Computes a header's checksum anew.
    Checksum {
        layer: u32,
    },
    /// The headers are looked for anew, as in a frame that has just come. Made by the pass
    /// `fresh_headers`: an element gets a packet whose headers its sender has changed.
    Parse,
    /// Keeps the frame as it is now, and makes it that again: in between it is an element's own.
    /// `copy` is a pair's number. The `copies` pass drops pairs that change nothing for what comes
    /// behind them, and makes it the number of pairs around.
    Save {
        copy: u32,
    },
    Restore {
        copy: u32,
    },
    /// Calls a function in C. `whole`: it gets the frame, and may change its bytes and its length;
    /// a length that it cannot have is the fault `overload`. Then the headers are looked for anew.
    /// It also gets the memory and the arguments. `dst` (u32) is its result.
    InC {
        func: FuncId,
        memory: Option<StateId>,
        whole: bool,
        args: Vec<Expr>,
        dst: LocalId,
        place: PlaceId,
    },
    /// The frame as it is now leaves through an instance of a port. `last`: the handler does not
    /// use it again (set by the `frame_last_use` pass), so it is moved, else copied. `mark` (u32)
    /// goes with it into a queue; None: 0. So does `state`: a field that is not listed has its
    /// default.
    Send {
        port: PortId,
        index: Expr,
        mark: Option<Expr>,
        state: Vec<Carried>,
        last: bool,
    },
}

impl FrameAct {
    /// Whether it changes the frame itself.
    pub fn changes(&self) -> bool {
        match self {
            FrameAct::Set { .. }
            | FrameAct::Swap { .. }
            | FrameAct::Insert { .. }
            | FrameAct::Remove { .. }
            | FrameAct::Payload { .. }
            | FrameAct::Checksum { .. }
            | FrameAct::Parse
            | FrameAct::InC { whole: true, .. } => true,
            FrameAct::InC { whole: false, .. }
            | FrameAct::Save { .. }
            | FrameAct::Restore { .. }
            | FrameAct::Send { .. } => false,
        }
    }

    /// Whether it moves bytes of the frame, or changes its length.
    pub fn moves(&self) -> bool {
        self.changes() && !matches!(self, FrameAct::Set { .. } | FrameAct::Swap { .. } | FrameAct::Checksum { .. })
    }
}

/// A message to send.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// A parsed message as its original bytes, with edits; its tail is passed on. Edits are in wire
    /// order of their fields.
    Pass { msg: LocalId, edits: Vec<Edit> },
    /// Built by emits, no tail.
    Built { unit: UnitId, body: Block },
    /// No bytes: an answer by silence.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Replaces the extent of a field (a path of fields through nested units and taken cases) by
    /// what the body emits, if `cond`.
    Set { field: Vec<FieldId>, cond: Option<Expr>, body: Block },
    /// Removes the items (with their delimiters) of a list for which the condition holds; `index`
    /// (u32 local) is the item's index.
    Remove { list: Vec<FieldId>, index: LocalId, cond: Expr },
    /// Adds what the body emits after the last item of a list, if `cond`. Comes after a `Remove` on
    /// the same list.
    Append { list: Vec<FieldId>, cond: Option<Expr>, body: Block },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Emit {
    Bytes(Expr),
    /// The low `bytes` bytes of an integer.
    UInt {
        value: Expr,
        bytes: u8,
        big: bool,
    },
    /// As text, without leading zeros, or padded to `width` digits.
    Number {
        value: Expr,
        radix: u8,
        width: u8,
    },
    Varint(Expr),
    /// Bytes that are read again: `count` (u64; all ones: any number) items of a unit, at most
    /// `max`; else the message is at fault.
    Items {
        unit: UnitId,
        bytes: Expr,
        count: Expr,
        max: u32,
    },
    /// An item of a unit for each that was put into a group before the last suspension, in that
    /// order. Each comes from the run of its group's part ([`StmtKind::GroupRun`]). A run that
    /// ends before, or is not at its end then, is the fault `bad_reply`. `count` and `max` as of
    /// `Items`.
    InOrder {
        unit: UnitId,
        count: Expr,
        max: u32,
    },
    /// A local (u32) becomes the number of bytes that were written so far.
    Mark(LocalId),
    /// The bytes that were written from `from` (u32) on are read again, with these parameters. If
    /// they are not one to `max` messages of the unit, that is the fault `constraint`.
    Whole {
        unit: UnitId,
        args: Vec<Expr>,
        from: Expr,
        max: u32,
        place: PlaceId,
    },
    /// The bytes that were written from `from` (u32) on must begin with one of these texts, or with
    /// `not`, none of them. Else that is the fault `constraint`. Bytes that are too few to tell
    /// pass, as does a mark of all ones.
    Begins {
        not: bool,
        with: Vec<Expr>,
        from: Expr,
        place: PlaceId,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub ty: TyId,
    pub kind: Box<ExprKind>,
}

/// Where a field is read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    pub root: Root,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A message local.
    Local(LocalId),
    /// The unit being parsed (grammar expressions: the innermost unit), or the message of a
    /// protocol's clause.
    This,
    /// The item at hand of a list or stream extent.
    Item,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A field of the unit reached so far.
    Field(FieldId),
    /// An item of the list field reached so far; the index is proven or guarded.
    Index(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Int(u128),
    Bool(bool),
    Bytes(Vec<u8>),
    Local(LocalId),
    Param(ParamId),
    State(StateId),
    Session(SessionId),
    /// This core's part of a counter.
    Counter(CounterId),
    /// A parameter of the unit at hand (grammar and protocol clauses), or of a message local's
    /// unit.
    UnitParam(Root, u32),

    /// A field's value. Where the field is inside a switch case, the case is known to be taken.
    Read(Path),
    /// Items of a list field, u32.
    Count(Path),
    /// The original bytes of a field, list or nested unit.
    Raw(Path),
    /// Whether case n of the switch field at the path is taken.
    Case(Path, u32),
    /// The accumulator of the fold at hand, u64.
    Acc,
    /// Whether a message local that may be absent is there.
    HasMsg(LocalId),
    /// The streamed bytes of a message local as one, an option of bytes; none: they are not all
    /// there, and pass.
    Held(LocalId),
    /// The fault kind (u16) that took the place of part n, or 0.
    PartStatus(Expr),
    /// Number of parts, u32.
    Parts,

    Unary(UnOp, Expr),
    /// Operands have one type (shifts: the right one is u32); `And`/`Or` do not evaluate the right
    /// side in vain.
    Binary(BinOp, Expr, Expr),
    /// Between integer types: extends or cuts. Between bytes types: only the maximum changes.
    /// Between `ip` and u128: the 16 bytes as a number, the first byte the highest.
    Cast(Expr),
    If(Expr, Expr, Expr),
    /// In one of the inclusive ranges.
    InRanges(Expr, Vec<(u64, u64)>),

    Some(Expr),
    None,
    IsSome(Expr),
    /// Guarded.
    Unwrap(Expr),
    /// Records and tuples; an endpoint of its address and port.
    Make(Vec<Expr>),
    Get(Expr, u32),
    MakeList(Vec<Expr>),
    ListLen(Expr),
    /// Guarded.
    ListGet(Expr, Expr),

    Call(FuncId, Vec<Expr>),
    Builtin(Builtin, Vec<Expr>),

    /// On a list field of units with a first (name) and a second (value) bytes field. It is the
    /// value of the first item of this name, an option of bytes. Compares as the name field says
    /// (caseless).
    Find {
        list: Path,
        name: Expr,
    },
    /// How many items have this name, u32.
    CountOf {
        list: Path,
        name: Expr,
    },
    /// Whether any item of this name has the token in its comma separated value (RFC 9110 5.6.1;
    /// ASCII caseless).
    AnyToken {
        list: Path,
        name: Expr,
        token: Expr,
    },

    PortLen(PortId),
    PortUp(PortId, Expr),
    PortLoad(PortId, Expr),
    /// The address of an instance, endpoint. The instance of an address, u32; of one that is not
    /// listed, the number of instances.
    PortServer(PortId, Expr),
    PortFind(PortId, Expr),
    /// How many sessions the pool of a key (bytes) has to an instance, on this core, u32.
    Pooled {
        port: PortId,
        index: Expr,
        key: Expr,
    },
    /// The instance, u32, each as often as it weighs. Ketama takes a key (bytes: by their MD5; u32:
    /// by this hash), Maglev a hash, and Modula the remainder of a hash (u32).
    Ketama(PortId, Expr),
    /// The instance, u32, on the ring whose points are hashed by the port's `consistent` function,
    /// by a hash of the key, u32.
    Consistent(PortId, Expr),
    Modula(PortId, Expr),
    Maglev(PortId, Expr),

    /// Items in the group of an instance, u32; their bytes, one behind the other, in the core's
    /// scratch.
    GroupCount(Expr),
    GroupBytes(Expr),

    /// The frame's length in bytes, u32; the port instance it came from, u32; its time, u64 ns
    /// since 1970.
    FrameLen(LocalId),
    FrameInstance(LocalId),
    FrameTime(LocalId),
    /// The mark with which it was sent to the queue that it comes from, u32; 0 elsewhere.
    FrameMark(LocalId),
    /// A field of the state with which it was sent to the queue that it comes from. The field's
    /// default elsewhere, and where the queue does not carry the field.
    PacketState(LocalId, PacketFieldId),
    /// The bytes behind a header (None: behind the last one that is there), up to the end that the
    /// lengths around it give.
    Payload(LocalId, Option<u32>),
    /// Whether a header's checksum is right (absent optional ones are), bool.
    ChecksumOk(LocalId, u32),

    /// Of the task's connection.
    ConnPeer,
    ConnLocal,
    ConnId,
    /// Of an upstream, u64; 0 while none is open.
    UpstreamFact(UpstreamId, UpstreamFact),
    /// The handle of the client of the task's conversation, u64.
    ConnHandle,
    /// Hash of both addresses and ports, u64.
    ConnFlow,
    /// ns since 1970, of a clock that never jumps.
    Now,
    /// The service ends, bool.
    Draining,
    /// Below the operand (guarded: > 0), u64.
    Random(Expr),
}

impl Expr {
    pub fn new(ty: TyId, kind: ExprKind) -> Self {
        Expr { ty, kind: Box::new(kind) }
    }
}

/// A value that goes along with a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    pub field: PacketFieldId,
    pub value: Expr,
}

/// A member of a conversation, as a handler of it sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Client,
    Upstream(UpstreamId),
}

impl Peer {
    /// Its number in the C ABI (`wl_host.tell`).
    pub fn number(self) -> u32 {
        match self {
            Peer::Client => 0,
            Peer::Upstream(c) => c.0 + 1,
        }
    }
}
