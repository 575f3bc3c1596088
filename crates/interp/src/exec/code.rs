//! Flat code: operations with jumps, that `flatten` makes of structured bodies.

use wireloom_ir::*;

#[derive(Clone, Debug)]
pub enum Op {
    /// A statement without blocks, calls or messages.
    Plain(StmtKind),
    Jump(usize),
    Unless(Expr, usize),
    Switch {
        on: Expr,
        cases: Vec<(u64, usize)>,
        default: usize,
    },
    /// Goes to `exit` when `var` has reached the bound in local `to`.
    ForTest {
        var: LocalId,
        to: usize,
        exit: usize,
    },
    ForStep {
        var: LocalId,
        top: usize,
    },
    SetHidden(usize, Expr),
    /// Counts a round of a bounded loop in a hidden local; past `max` goes to `exit`.
    Round {
        counter: usize,
        max: u64,
        exit: usize,
    },
    Update {
        table: TableId,
        key: Expr,
        entry: LocalId,
        body: Code,
        place: PlaceId,
    },
    /// `hold`, `hold_req`: as the `Await` that ends the wait says.
    Call {
        port: PortId,
        index: Expr,
        msg: Out,
        within: Option<Expr>,
        args: Vec<Expr>,
        clauses: Vec<Expr>,
        hold: bool,
        hold_req: bool,
    },
    Wait {
        table: TableId,
        key: Expr,
        within: Expr,
        hold_req: bool,
    },
    AwaitBody {
        hold_req: bool,
    },
    SetPiece(Expr),
    DropBody,
    Await {
        hold: bool,
        hold_req: bool,
    },
    Reply {
        msg: Out,
        close: bool,
    },
    Send {
        port: PortId,
        index: Expr,
        msg: Out,
    },
    Ask {
        upstream: UpstreamId,
        proto: u32,
        msg: Out,
        within: Option<Expr>,
        matched: Vec<Expr>,
        hold: bool,
        hold_req: bool,
    },
    Tell {
        to: Peer,
        proto: u32,
        msg: Out,
        place: PlaceId,
    },
    Deliver {
        to: Expr,
        proto: u32,
        msg: Out,
        place: PlaceId,
    },
    Render {
        msg: Out,
        dst: LocalId,
    },
    Reread {
        msg: Out,
        dst: LocalId,
        ok: LocalId,
    },
    Frame(Act),
    SendFrame {
        port: PortId,
        index: Expr,
        parts: Vec<(Option<UnitId>, Code)>,
    },
    /// Names a reply.
    Bind {
        dst: LocalId,
        part: Expr,
        unit: UnitId,
    },
}

#[derive(Clone, Debug)]
pub enum Out {
    Pass { msg: LocalId, edits: Vec<OutEdit> },
    Built { unit: UnitId, body: Code },
    Nothing,
}

#[derive(Clone, Debug)]
pub enum OutEdit {
    Set { field: Vec<FieldId>, cond: Option<Expr>, body: Code },
    Remove { list: Vec<FieldId>, index: LocalId, cond: Expr },
    Append { list: Vec<FieldId>, cond: Option<Expr>, body: Code },
}

#[derive(Clone, Debug, Default)]
pub struct Code {
    pub ops: Vec<Op>,
    /// Locals of the body, the hidden ones of this code behind them.
    pub locals: usize,
}

/// An act, with the code of its parts.
#[derive(Clone, Debug)]
pub enum Act {
    Plain(FrameAct),
    Insert { before: Option<u32>, parts: Vec<(Option<UnitId>, Code)>, place: PlaceId },
    Payload { layer: Option<u32>, body: Code, place: PlaceId },
}
