//! The devices of statements, and of the expressions that are no operations. Operations have theirs
//! in their own rows.

use super::{Device, ALL, CPU, XDP};
use crate::{ExprKind, FrameAct, StmtKind};

/// A kind of statements.
pub struct Statement {
    /// As messages and pages call it.
    pub what: &'static str,
    pub devices: &'static [Device],
    /// For a device that does not have it: a remedy.
    pub hint: &'static str,
}

macro_rules! statements {
    ($($name:ident $what:literal $devices:ident $hint:literal;)*) => {
        #[derive(Clone, Copy)]
        enum Row { $($name,)* }

        /// All kinds of statements, in the order of the pages.
        pub const STATEMENTS: &[Statement] = &[$(Statement { what: $what, devices: $devices, hint: $hint },)*];
    };
}

statements! {
    Set         "an assignment"                      ALL "";
    Choice      "`if` and `match`"                   ALL "";
    Count       "a counter"                          ALL "";
    State       "a `state`"                          ALL "";
    Require     "a guard"                            ALL "";
    Return      "`return`"                           ALL "";
    Send        "sending the packet"                 ALL "";
    Get         "reading a table"                    XDP "";
    Put         "setting an entry"                   XDP "";
    Update      "`update` of an entry"               XDP "";
    Remove      "removing an entry"                  XDP "";
    Loop        "a loop"                             XDP "";
    Walk        "a walk over a table, or its length" CPU "do it in a timer: `every`";
    Masked      "inserting into a table of patterns" CPU "insert from outside: `wireloom table`";
    Push        "adding to a ring"                   XDP "";
    Pop         "taking from a ring"                 CPU "do it in a timer: `every`";
    Edit        "setting a header's field"           XDP "";
    Resize      "inserting and removing headers"     XDP "";
    Checksum    "`update_checksum`"                  XDP "";
    Payload     "replacing a packet's payload"       XDP "";
    InC         "an element in C"                    CPU "leave this handler to the CPU";
    Parse       "an element behind one that inserts or removes headers" CPU "change the headers in the last element";
    Copy        "an element with a packet of its own" CPU "send the packet to one element only";
    New         "sending a new packet"               CPU "leave this handler to the CPU";
    Queue       "asking a queue for its packets"     CPU "leave this handler to the CPU";
    Element     "joining to an element"              CPU "send to fewer elements: they take more than 2,000 statements together";
    Log         "`log`"                              XDP "";
    List        "adding to a list"                   CPU "leave this handler to the CPU";
    Message     "a message"                          CPU "leave this handler to the CPU";
}

fn row(s: &StmtKind) -> Row {
    use StmtKind::*;
    match s {
        Set(..) | SetField(..) => Row::Set,
        If { .. } | Switch { .. } => Row::Choice,
        StmtKind::Count(..) => Row::Count,
        SetState(..) => Row::State,
        Require { .. } | Fault { .. } => Row::Require,
        Return(_) => Row::Return,
        TableGet { .. } => Row::Get,
        TablePut { .. } => Row::Put,
        TableUpdate { .. } => Row::Update,
        TableRemove { .. } => Row::Remove,
        For { .. } | Loop { .. } | Break | Continue => Row::Loop,
        TableLen { .. } | TableNext { .. } => Row::Walk,
        TableInsert { .. } | TableDelete { .. } => Row::Masked,
        TablePush { .. } => Row::Push,
        TablePop { .. } => Row::Pop,
        Frame { act, .. } => match act {
            FrameAct::Send { .. } => Row::Send,
            FrameAct::Set { .. } | FrameAct::Swap { .. } => Row::Edit,
            FrameAct::Insert { .. } | FrameAct::Remove { .. } => Row::Resize,
            FrameAct::Payload { .. } => Row::Payload,
            FrameAct::Checksum { .. } => Row::Checksum,
            FrameAct::InC { .. } => Row::InC,
            FrameAct::Parse => Row::Parse,
            FrameAct::Save { .. } | FrameAct::Restore { .. } => Row::Copy,
        },
        SendFrame { .. } => Row::New,
        StmtKind::Queue { .. } => Row::Queue,
        Output { .. } => Row::Element,
        Log(_) => Row::Log,
        Push(..) => Row::List,
        SetSession(..)
        | Call { .. }
        | Await { .. }
        | BindPart { .. }
        | Reply { .. }
        | Outcome(_)
        | StmtKind::Send { .. }
        | Close
        | Tell { .. }
        | Ask { .. }
        | Deliver { .. }
        | Dismiss(_)
        | OpenUpstream { .. }
        | CloseUpstream(_)
        | TakeUpstream { .. }
        | PoolUpstream { .. }
        | Become { .. }
        | Hold(_)
        | Release(_)
        | Emit(_)
        | Wait { .. }
        | AwaitBody
        | SetPiece(_)
        | DropBody
        | Parse { .. }
        | Render { .. }
        | Reread { .. }
        | GroupBegin { .. }
        | GroupAdd { .. }
        | GroupRun { .. } => Row::Message,
    }
}

/// The row of a statement.
pub fn statement(s: &StmtKind) -> &'static Statement {
    &STATEMENTS[row(s) as usize]
}

/// Of an expression that is no operation and that only the CPU has: its name.
pub fn cpu_only(e: &ExprKind) -> Option<&'static str> {
    use ExprKind::*;
    Option::Some(match e {
        Int(_)
        | Bool(_)
        | Bytes(_)
        | Payload(..)
        | Local(_)
        | State(_)
        | Read(_)
        | Case(..)
        | Unary(..)
        | Binary(..)
        | Builtin(..)
        | Cast(_)
        | If(..)
        | InRanges(..)
        | ExprKind::Some(_)
        | None
        | IsSome(_)
        | Unwrap(_)
        | Make(_)
        | Get(..)
        | FrameLen(_)
        | FrameMark(_)
        | PacketState(..)
        | FrameTime(_)
        | FrameInstance(_)
        | PortLen(_)
        | ChecksumOk(..)
        | Call(..)
        | Now => return Option::None,
        Param(_) => "a parameter of this type",
        Counter(_) => "a counter",
        Raw(_) => "the bytes of a header",
        Random(_) => "`random`",
        Count(_) | Find { .. } | CountOf { .. } | AnyToken { .. } | MakeList(_) | ListLen(_) | ListGet(..) => "a list",
        Session(_) | UnitParam(..) | Acc | HasMsg(_) | Held(_) | PartStatus(_) | Parts | ConnPeer | ConnLocal
        | ConnId | UpstreamFact(..) | ConnHandle | ConnFlow => "a message",
        PortUp(..)
        | PortLoad(..)
        | PortServer(..)
        | PortFind(..)
        | Pooled { .. }
        | Ketama(..)
        | Consistent(..)
        | Modula(..)
        | Maglev(..)
        | GroupCount(_)
        | GroupBytes(_) => "an instance of a port",
        Draining => "`draining`",
    })
}
