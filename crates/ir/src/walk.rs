//! Visitors over expressions, statements, blocks and fields, for passes and backends.
//!
//! Every function takes a closure and calls it in source order, parents before children. One macro
//! makes the functions and their `_mut` twins, so that both visit the same children. The twins call
//! children first, which suits a rewrite.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "its functions look for a few kinds of ExprKind, FieldKind and StmtKind"
)]

use crate::*;

macro_rules! direct {
    ($path:ident, $path_of:ident, $children:ident, $stmt_exprs:ident, $stmt_blocks:ident, $outgoing:ident, $out_exprs:ident, $out_blocks:ident, $until:ident, $field:ident, $list:ident, $guard:ident $(, $m:tt)?) => {
        /// Index expressions of a path.
        pub fn $path(path: & $($m)? Path, f: &mut dyn FnMut(& $($m)? Expr)) {
            for step in & $($m)? path.steps {
                if let Step::Index(e) = step { f(e) }
            }
        }

        /// The path an expression reads directly.
        pub fn $path_of(e: & $($m)? Expr) -> Option<& $($m)? Path> {
            use ExprKind::*;
            match & $($m)? *e.kind {
                Read(p) | Count(p) | Raw(p) | Case(p, _) | Find { list: p, .. } | CountOf { list: p, .. } | AnyToken { list: p, .. } => Option::Some(p),
                _ => Option::None,
            }
        }

        /// Direct operands of an expression, path indices included.
        pub fn $children(e: & $($m)? Expr, f: &mut dyn FnMut(& $($m)? Expr)) {
            use ExprKind::*;
            match & $($m)? *e.kind {
                Int(_) | Bool(_) | Bytes(_) | Local(_) | Param(_) | State(_) | Session(_) | Counter(_) | UnitParam(..) | Acc
                | HasMsg(_) | Held(_) | Parts | None | PortLen(_) | FrameLen(_) | FrameInstance(_) | FrameTime(_) | FrameMark(_) | PacketState(..) | Payload(..) | ChecksumOk(..) | ConnPeer | ConnLocal | ConnId | UpstreamFact(..) | ConnHandle | ConnFlow | Now | Draining => {}
                Read(p) | Count(p) | Raw(p) | Case(p, _) => $path(p, f),
                PartStatus(a) | Unary(_, a) | Cast(a) | InRanges(a, _) | Some(a) | IsSome(a) | Unwrap(a) | Get(a, _) | ListLen(a)
                | PortUp(_, a) | PortLoad(_, a) | PortServer(_, a) | PortFind(_, a) | Ketama(_, a) | Consistent(_, a) | Modula(_, a) | Maglev(_, a) | Random(a) | GroupCount(a) | GroupBytes(a) => f(a),
                Binary(_, a, b) | ListGet(a, b) => { f(a); f(b) }
                Pooled { index, key, .. } => { f(index); f(key) }
                If(a, b, c) => { f(a); f(b); f(c) }
                Make(list) | MakeList(list) | Call(_, list) | Builtin(_, list) => for a in list { f(a) },
                Find { list, name } | CountOf { list, name } => { $path(list, f); f(name) }
                AnyToken { list, name, token } => { $path(list, f); f(name); f(token) }
            }
        }

        /// Direct expressions of a statement: not those of its blocks, but the conditions of its
        /// edits.
        pub fn $stmt_exprs(s: & $($m)? StmtKind, f: &mut dyn FnMut(& $($m)? Expr)) {
            use StmtKind::*;
            match s {
                Set(_, e) | SetField(_, _, e) | SetState(_, e) | SetSession(_, e) | Count(_, e) | Push(_, e) => f(e),
                If { cond, .. } => f(cond),
                Switch { on, .. } => f(on),
                For { from, to, .. } => { f(from); f(to) }
                Loop { .. } | Break | Continue | Fault { .. } | TableLen { .. } | TablePop { .. } | Await { .. } | Close | GroupBegin { .. } => {}
                GroupAdd { index, parts } => { f(index); for e in parts { f(e) } }
                GroupRun { part, bytes } => { f(part); f(bytes) }
                Return(e) => if let Option::Some(e) = e { f(e) },
                Require { cond, .. } => f(cond),
                TableGet { key, .. } | TableRemove { key, .. } | TableUpdate { key, .. } => f(key),
                TablePut { key, value, .. } => { f(key); f(value) }
                Call { index, msg, within, response_args, clauses, .. } => {
                    f(index);
                    $out_exprs(msg, f);
                    if let Option::Some(e) = within { f(e) }
                    for e in response_args { f(e) }
                    for e in clauses { f(e) }
                }
                Ask { msg, within, matched, .. } => {
                    $out_exprs(msg, f);
                    if let Option::Some(e) = within { f(e) }
                    for e in matched { f(e) }
                }
                BindPart { part, .. } => f(part),
                Reply { msg, .. } | Tell { msg, .. } | Render { msg, .. } | Reread { msg, .. } => $out_exprs(msg, f),
                OpenUpstream { index, key, .. } => { f(index); if let Option::Some(e) = key { f(e) } }
                TakeUpstream { index, .. } => f(index),
                PoolUpstream { key, .. } => f(key),
                Deliver { to, msg, .. } => { f(to); $out_exprs(msg, f) }
                Dismiss(to) => f(to),
                Send { index, msg, .. } => { f(index); $out_exprs(msg, f) }
                Outcome(e) => f(e),
                Log(list) => for e in list { f(e) },
                Emit(emit) => match emit {
                    crate::Emit::Bytes(e) | crate::Emit::Varint(e) | crate::Emit::UInt { value: e, .. } | crate::Emit::Number { value: e, .. } => f(e),
                    crate::Emit::Items { bytes, count, .. } => { f(bytes); f(count) }
                    crate::Emit::InOrder { count, .. } => f(count),
                    crate::Emit::Mark(_) => {}
                    crate::Emit::Whole { args, from, .. } => {
                        f(from);
                        for e in args { f(e) }
                    }
                    crate::Emit::Begins { with, from, .. } => {
                        f(from);
                        for e in with { f(e) }
                    }
                },
                Wait { key, within, .. } => { f(key); f(within) }
                SetPiece(e) => f(e),
                Parse { kept, bytes, .. } => {
                    if let Option::Some(args) = kept { for e in args { f(e) } }
                    f(bytes)
                }
                TableNext { .. } | CloseUpstream(_) | AwaitBody | DropBody | Become { .. } | Hold(_) | Release(_) => {}
                SendFrame { index, .. } | Queue { index, .. } => f(index),
                Output { mark, state, .. } => {
                    f(mark);
                    for c in state { f(& $($m)? c.value) }
                }
                TablePush { value, .. } => f(value),
                TableInsert { key, mask, priority, value, .. } => { f(key); f(mask); f(priority); f(value) }
                TableDelete { key, mask, priority, .. } => { f(key); f(mask); f(priority) }
                Frame { act, .. } => match act {
                    FrameAct::Set { value: e, .. } => f(e),
                    FrameAct::InC { args, .. } => for e in args { f(e) },
                    FrameAct::Send { index, mark, state, .. } => {
                        f(index);
                        if let Option::Some(e) = mark { f(e) }
                        for c in state { f(& $($m)? c.value) }
                    }
                    FrameAct::Swap { .. } | FrameAct::Insert { .. } | FrameAct::Remove { .. } | FrameAct::Payload { .. } | FrameAct::Checksum { .. } | FrameAct::Parse | FrameAct::Save { .. } | FrameAct::Restore { .. } => {}
                },
            }
        }

        /// The blocks of a statement, those of its message included.
        pub fn $stmt_blocks<'s>(s: &'s $($m)? StmtKind, f: &mut dyn FnMut(&'s $($m)? Block)) {
            use StmtKind::*;
            match s {
                If { then, other, .. } => { f(then); f(other) }
                Switch { cases, default, .. } => { for (_, b) in cases { f(b) } f(default) }
                For { body, .. } | Loop { body, .. } | TableUpdate { body, .. } => f(body),
                Call { msg, .. } | Reply { msg, .. } | Send { msg, .. } | Tell { msg, .. } | Ask { msg, .. } | Deliver { msg, .. } | Render { msg, .. } | Reread { msg, .. } => $out_blocks(msg, f),
                Frame { act: FrameAct::Insert { parts, .. }, .. } | SendFrame { parts, .. } => for p in parts { f(& $($m)? p.body) },
                Frame { act: FrameAct::Payload { body, .. }, .. } => f(body),
                _ => {}
            }
        }

        /// The message that a statement sends.
        pub fn $outgoing(s: & $($m)? StmtKind) -> Option<& $($m)? Outgoing> {
            match s {
                StmtKind::Call { msg, .. } | StmtKind::Reply { msg, .. } | StmtKind::Send { msg, .. } | StmtKind::Tell { msg, .. } | StmtKind::Ask { msg, .. } | StmtKind::Deliver { msg, .. } | StmtKind::Render { msg, .. } | StmtKind::Reread { msg, .. } => Some(msg),
                _ => None,
            }
        }

        /// Conditions of a message's edits.
        pub fn $out_exprs(msg: & $($m)? Outgoing, f: &mut dyn FnMut(& $($m)? Expr)) {
            if let Outgoing::Pass { edits, .. } = msg {
                for edit in edits {
                    match edit {
                        Edit::Set { cond, .. } | Edit::Append { cond, .. } => if let Some(e) = cond { f(e) },
                        Edit::Remove { cond, .. } => f(cond),
                    }
                }
            }
        }

        /// Blocks of a message: what it emits.
        pub fn $out_blocks<'s>(msg: &'s $($m)? Outgoing, f: &mut dyn FnMut(&'s $($m)? Block)) {
            match msg {
                Outgoing::Pass { edits, .. } => for edit in edits {
                    if let Edit::Set { body, .. } | Edit::Append { body, .. } = edit { f(body) }
                },
                Outgoing::Built { body, .. } => f(body),
                Outgoing::Nothing => {}
            }
        }

        fn $list(extent: & $($m)? ListExtent, f: &mut dyn FnMut(& $($m)? Expr, Role)) {
            match extent {
                ListExtent::Count(e) => f(e, Role::Own),
                ListExtent::Fold { init, holds, step, done } => {
                    f(init, Role::Own);
                    if let Some(h) = holds { f(h, Role::Item) }
                    f(step, Role::Item);
                    f(done, Role::Own)
                }
                ListExtent::Until(_) | ListExtent::ToEnd => {}
            }
        }

        fn $guard(case: & $($m)? Case, f: &mut dyn FnMut(& $($m)? Expr, Role)) {
            if let Guard::When(e) = & $($m)? case.guard { f(e, Role::Own) }
        }

        fn $until(extent: & $($m)? Extent, f: &mut dyn FnMut(& $($m)? Expr, Role)) {
            if let Extent::Length(e) = extent { f(e, Role::Own) }
        }

        /// Direct expressions of a grammar field, and whether they see an item besides the unit
        /// (`Root::This`).
        pub fn $field(field: & $($m)? Field, f: &mut dyn FnMut(& $($m)? Expr, Role)) {
            if let Some(e) = & $($m)? field.lies_in { f(e, Role::Own) }
            match & $($m)? field.kind {
                FieldKind::Bytes { extent, .. } | FieldKind::StreamBytes { extent } => $until(extent, f),
                FieldKind::Unit { args, .. } => for e in args { f(e, Role::Own) },
                FieldKind::List { extent, .. } => $list(extent, f),
                FieldKind::StreamUnit { args, until, .. } => {
                    for e in args { f(e, Role::Own) }
                    if let Some(e) = until { f(e, Role::Item) }
                }
                FieldKind::Switch { cases } => for case in cases { $guard(case, f) },
                FieldKind::Let { value: e } | FieldKind::Require { cond: e } | FieldKind::Recover { how: Recover::Length(e) } | FieldKind::Pass { how: PassRule::When(e) } => f(e, Role::Own),
                FieldKind::UInt { .. } | FieldKind::Number { .. } | FieldKind::Varint { .. } | FieldKind::Literal { .. } | FieldKind::Flag { .. }
                | FieldKind::Recover { .. } | FieldKind::Pass { .. } | FieldKind::Align { .. } | FieldKind::Nothing => {}
            }
        }
    };
}

/// The base of a grammar expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The unit (`Root::This`).
    Own,
    /// The item at hand (`Root::Item`), too.
    Item,
}

direct!(
    path_exprs,
    path_of,
    children,
    stmt_exprs,
    stmt_blocks,
    outgoing,
    outgoing_exprs,
    outgoing_blocks,
    extent_exprs,
    field_exprs,
    list_exprs,
    case_exprs
);
direct!(
    path_exprs_mut,
    path_of_mut,
    children_mut,
    stmt_exprs_mut,
    stmt_blocks_mut,
    outgoing_mut,
    outgoing_exprs_mut,
    outgoing_blocks_mut,
    extent_exprs_mut,
    field_exprs_mut,
    list_exprs_mut,
    case_exprs_mut,
    mut
);

/// An expression and everything below it.
pub fn expr(e: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(e);
    children(e, &mut |c| expr(c, f));
}

/// Operands first.
pub fn expr_mut(e: &mut Expr, f: &mut dyn FnMut(&mut Expr)) {
    children_mut(e, &mut |c| expr_mut(c, f));
    f(e);
}

/// The functions that a block calls itself, in the order of the calls.
pub fn calls(block: &[Stmt]) -> Vec<FuncId> {
    let mut found = Vec::new();
    block_exprs(block, &mut |e| {
        if let ExprKind::Call(f, _) = &*e.kind {
            found.push(*f)
        }
    });
    found
}

/// All statements of a block, nested ones and those that build messages included.
pub fn stmts(block: &[Stmt], f: &mut dyn FnMut(&Stmt)) {
    for s in block {
        f(s);
        stmt_blocks(&s.kind, &mut |b| stmts(b, f));
    }
}

/// Inner statements first.
pub fn stmts_mut(block: &mut Block, f: &mut dyn FnMut(&mut Stmt)) {
    for s in block {
        stmt_blocks_mut(&mut s.kind, &mut |b| stmts_mut(b, f));
        f(s);
    }
}

/// All expressions of a block, with their operands.
pub fn block_exprs(block: &[Stmt], f: &mut dyn FnMut(&Expr)) {
    stmts(block, &mut |s| stmt_exprs(&s.kind, &mut |e| expr(e, f)));
}

pub fn block_exprs_mut(block: &mut Block, f: &mut dyn FnMut(&mut Expr)) {
    stmts_mut(block, &mut |s| stmt_exprs_mut(&mut s.kind, &mut |e| expr_mut(e, f)));
}

/// The unit that a statement reads from bytes.
pub fn parsed_unit(s: &StmtKind) -> Option<UnitId> {
    match s {
        StmtKind::Parse { unit, .. }
        | StmtKind::Emit(Emit::Items { unit, .. } | Emit::InOrder { unit, .. } | Emit::Whole { unit, .. }) => {
            Some(*unit)
        }
        _ => None,
    }
}

/// The local a statement sets as a whole (a message local: binds).
pub fn defined(s: &StmtKind) -> [Option<LocalId>; 4] {
    use StmtKind::*;
    let two = |[a, b]: [Option<LocalId>; 2]| [a, b, None, None];
    two(match s {
        Set(l, _)
        | TableGet { dst: l, .. }
        | TableLen { dst: l, .. }
        | TablePush { dst: l, .. }
        | TablePop { dst: l, .. }
        | Queue { dst: l, .. }
        | BindPart { dst: l, .. }
        | Render { dst: l, .. }
        | Emit(crate::Emit::Mark(l)) => [Some(*l), None],
        TableRemove { dst, .. } | TableDelete { dst, .. } => [*dst, None],
        TableNext { key, value, masked, .. } => {
            return [Some(*key), Some(*value), masked.map(|m| m.0), masked.map(|m| m.1)]
        }
        For { var, .. } => [Some(*var), None],
        Frame { act: FrameAct::InC { dst, .. }, .. } => [Some(*dst), None],
        TableUpdate { entry, .. } => [Some(*entry), None],
        Parse { dst, ok, .. } | Reread { dst, ok, .. } => [Some(*dst), Some(*ok)],
        _ => [None, None],
    })
}

/// The conditions whose values follow if a condition has one: the parts of conjunctions that hold,
/// and of disjunctions that do not, without negations.
#[allow(clippy::wildcard_enum_match_arm, reason = "three kinds of all are taken apart")]
pub fn implied(cond: &Expr, holds: bool, f: &mut dyn FnMut(&Expr, bool)) {
    match (&*cond.kind, holds) {
        (ExprKind::Binary(BinOp::And, a, b), true) | (ExprKind::Binary(BinOp::Or, a, b), false) => {
            implied(a, holds, f);
            implied(b, holds, f)
        }
        (ExprKind::Unary(UnOp::Not, a), _) => implied(a, !holds, f),
        _ => f(cond, holds),
    }
}

/// Locals an expression reads, message locals included.
pub fn locals_read(e: &Expr, f: &mut dyn FnMut(LocalId)) {
    expr(e, &mut |e| match &*e.kind {
        ExprKind::Local(l)
        | ExprKind::HasMsg(l)
        | ExprKind::Held(l)
        | ExprKind::UnitParam(Root::Local(l), _)
        | ExprKind::FrameLen(l)
        | ExprKind::FrameInstance(l)
        | ExprKind::FrameTime(l)
        | ExprKind::FrameMark(l)
        | ExprKind::PacketState(l, _)
        | ExprKind::Payload(l, _)
        | ExprKind::ChecksumOk(l, _) => f(*l),
        _ => {
            if let Some(Path { root: Root::Local(l), .. }) = path_of(e) {
                f(*l)
            }
        }
    });
}

/// Locals a statement reads itself: its direct expressions, the message it passes, a record or list
/// it changes in part.
pub fn stmt_locals_read(s: &StmtKind, f: &mut dyn FnMut(LocalId)) {
    stmt_exprs(s, &mut |e| locals_read(e, f));
    match s {
        StmtKind::SetField(l, ..)
        | StmtKind::Push(l, _)
        | StmtKind::Frame { frame: l, .. }
        | StmtKind::Output { frame: l, .. }
        | StmtKind::TableNext { cursor: l, .. } => f(*l),
        _ => {
            if let Some(Outgoing::Pass { msg, .. }) = outgoing(s) {
                f(*msg)
            }
        }
    }
}

/// Each local that a block names, in any role.
pub fn block_locals_mut(block: &mut Block, f: &mut dyn FnMut(&mut LocalId)) {
    stmts_mut(block, &mut |s| {
        stmt_locals_mut(&mut s.kind, f);
        stmt_exprs_mut(&mut s.kind, &mut |e| expr_mut(e, &mut |e| expr_locals_mut(e, f)));
    });
}

/// Locals that a statement names itself, outside of expressions and blocks.
fn stmt_locals_mut(s: &mut StmtKind, f: &mut dyn FnMut(&mut LocalId)) {
    use StmtKind::*;
    match s {
        Set(l, _) | SetField(l, ..) | Push(l, _) | Emit(crate::Emit::Mark(l)) => f(l),
        For { var: l, .. } | TableUpdate { entry: l, .. } => f(l),
        TableGet { dst, .. }
        | TableLen { dst, .. }
        | TablePush { dst, .. }
        | TablePop { dst, .. }
        | Queue { dst, .. }
        | BindPart { dst, .. } => f(dst),
        TableRemove { dst, .. } | TableDelete { dst, .. } => dst.iter_mut().for_each(f),
        Await { live, .. } => live.iter_mut().for_each(f),
        Parse { dst, ok, .. } => {
            f(dst);
            f(ok)
        }
        Render { msg, dst } => {
            outgoing_locals_mut(msg, f);
            f(dst)
        }
        Reread { msg, dst, ok } => {
            outgoing_locals_mut(msg, f);
            f(dst);
            f(ok)
        }
        Call { msg, .. }
        | Reply { msg, .. }
        | Send { msg, .. }
        | Tell { msg, .. }
        | Ask { msg, .. }
        | Deliver { msg, .. } => outgoing_locals_mut(msg, f),
        TableNext { cursor, key, value, more, masked, .. } => {
            for l in [cursor, key, value, more] {
                f(l)
            }
            if let Option::Some((mask, priority)) = masked {
                f(mask);
                f(priority)
            }
        }
        Frame { frame, act: FrameAct::InC { dst, .. } } => {
            f(frame);
            f(dst)
        }
        Frame { frame, .. } | Output { frame, .. } => f(frame),
        SetState(..)
        | OpenUpstream { .. }
        | TakeUpstream { .. }
        | PoolUpstream { .. }
        | Dismiss(_)
        | CloseUpstream(_)
        | Become { .. }
        | Hold(_)
        | Release(_)
        | SetSession(..)
        | Count(..)
        | If { .. }
        | Switch { .. }
        | Loop { .. }
        | Break
        | Continue
        | Return(_)
        | Require { .. }
        | Fault { .. }
        | TablePut { .. }
        | Wait { .. }
        | AwaitBody
        | SetPiece(_)
        | DropBody
        | Close
        | Outcome(_)
        | Log(_)
        | Emit(_)
        | SendFrame { .. }
        | TableInsert { .. }
        | GroupBegin { .. }
        | GroupAdd { .. }
        | GroupRun { .. } => {}
    }
}

fn outgoing_locals_mut(msg: &mut Outgoing, f: &mut dyn FnMut(&mut LocalId)) {
    let Outgoing::Pass { msg, edits } = msg else { return };
    f(msg);
    for e in edits {
        if let Edit::Remove { index, .. } = e {
            f(index)
        }
    }
}

/// Locals that an expression names itself, not those of its operands.
fn expr_locals_mut(e: &mut Expr, f: &mut dyn FnMut(&mut LocalId)) {
    use ExprKind::*;
    match &mut *e.kind {
        Local(l)
        | HasMsg(l)
        | Held(l)
        | UnitParam(Root::Local(l), _)
        | FrameLen(l)
        | FrameInstance(l)
        | FrameTime(l)
        | FrameMark(l)
        | PacketState(l, _)
        | Payload(l, _)
        | ChecksumOk(l, _) => f(l),
        Read(p)
        | Count(p)
        | Raw(p)
        | Case(p, _)
        | Find { list: p, .. }
        | CountOf { list: p, .. }
        | AnyToken { list: p, .. } => {
            if let Root::Local(l) = &mut p.root {
                f(l)
            }
        }
        _ => {}
    }
}

/// The roots of the paths of an expression.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// `Root::This`.
    pub this: Option<UnitId>,
    /// `Root::Item`: an item that is a field of a unit (the element of a list).
    pub item: Option<At>,
    /// `Root::Local`.
    pub locals: &'a [Local],
}

/// A position reached by a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A whole unit: its fields are next.
    Unit(UnitId),
    /// A field of a unit.
    Field(UnitId, FieldId),
}

impl<'a> Scope<'a> {
    pub const NONE: Scope<'static> = Scope { this: None, item: None, locals: &[] };
    pub fn locals(locals: &'a [Local]) -> Self {
        Scope { locals, ..Scope::NONE }
    }
    pub fn this(unit: UnitId) -> Self {
        Scope { this: Some(unit), ..Scope::NONE }
    }
}

impl Module {
    /// Calls `f` for every expression (with its operands) of the program, and the scope of its
    /// paths. Grammar: all units'.
    pub fn exprs(&self, f: &mut dyn FnMut(&Expr, Scope)) {
        for u in 0..self.units.len() {
            self.unit_exprs(UnitId(u as u32), f)
        }
        self.program_exprs(f);
    }

    /// The expressions of one unit's grammar.
    pub fn unit_exprs(&self, id: UnitId, f: &mut dyn FnMut(&Expr, Scope)) {
        let Some(unit) = self.units.get(id.index()) else { return };
        for field in &unit.fields {
            field_exprs(field, &mut |e, role| {
                let item = match (&field.kind, role) {
                    (_, Role::Own) => None,
                    (FieldKind::List { element, .. }, _) => Some(At::Field(id, *element)),
                    (FieldKind::StreamUnit { unit, .. }, _) => Some(At::Unit(*unit)),
                    _ => None,
                };
                let scope = Scope { this: Some(id), item, locals: &[] };
                expr(e, &mut |e| f(e, scope));
            });
        }
    }

    /// All expressions outside grammars: protocols, functions, states, handlers, merges.
    pub fn program_exprs(&self, f: &mut dyn FnMut(&Expr, Scope)) {
        for p in &self.protocols {
            let args = p.response_args.iter().chain(&p.request_args);
            let request = p.request_clauses().into_iter().flatten().chain(args);
            for e in request {
                expr(e, &mut |e| f(e, Scope::this(p.request)))
            }
            for e in p.response_clauses().into_iter().flatten() {
                expr(e, &mut |e| f(e, Scope { this: p.response, ..Scope::NONE }));
            }
        }
        for s in &self.states {
            if let Some(e) = &s.init {
                expr(e, &mut |e| f(e, Scope::NONE))
            }
        }
        for m in &self.merges {
            for v in &m.values {
                expr(&v.combined, &mut |e| f(e, Scope::locals(&m.locals)))
            }
        }
        self.bodies(&mut |body| block_exprs(&body.block, &mut |e| f(e, Scope::locals(&body.locals))));
    }

    /// All bodies: functions, what protocols say on faults and pass on before an answer, handlers,
    /// inputs.
    pub fn bodies(&self, f: &mut dyn FnMut(&Body)) {
        for func in &self.funcs {
            if let FuncBody::Body(b) = &func.body {
                f(b)
            }
        }
        for p in &self.protocols {
            p.bodies().into_iter().flatten().for_each(&mut *f)
        }
        for h in &self.handlers {
            f(&h.body)
        }
        for i in &self.inputs {
            i.body.iter().for_each(&mut *f)
        }
    }

    pub fn bodies_mut(&mut self, f: &mut dyn FnMut(&mut Body)) {
        for func in &mut self.funcs {
            if let FuncBody::Body(b) = &mut func.body {
                f(b)
            }
        }
        for p in &mut self.protocols {
            let all = [&mut p.on_log, &mut p.on_fault, &mut p.on_interim, &mut p.on_answer];
            all.into_iter().flatten().for_each(&mut *f)
        }
        for h in &mut self.handlers {
            f(&mut h.body)
        }
        for i in &mut self.inputs {
            i.body.iter_mut().for_each(&mut *f)
        }
    }

    /// Where a path leads, calling `on` for every field on the way (the last included). None: it
    /// leads nowhere.
    pub fn follow(&self, path: &Path, scope: Scope, on: &mut dyn FnMut(UnitId, FieldId)) -> Option<At> {
        let mut at = match path.root {
            Root::Local(l) => match self.types.get(scope.locals.get(l.index())?.ty.index())? {
                Ty::Msg(u) => At::Unit(*u),
                Ty::Unit
                | Ty::Bool
                | Ty::UInt(_)
                | Ty::Int(_)
                | Ty::Bytes(_)
                | Ty::Endpoint
                | Ty::Ip
                | Ty::Option(_)
                | Ty::List(..)
                | Ty::Record(_)
                | Ty::Tuple(_) => return None,
            },
            Root::This => At::Unit(scope.this?),
            Root::Item => scope.item?,
        };
        for step in &path.steps {
            at = self.step(at, step)?;
            if let At::Field(u, f) = at {
                on(u, f)
            }
        }
        Some(at)
    }

    /// One step of a path. A switch's cases are fields of the same unit, so a step through the
    /// switch stays in it.
    pub fn step(&self, at: At, step: &Step) -> Option<At> {
        match step {
            Step::Field(f) => {
                let unit = self.inside(at)?;
                self.units.get(unit.index())?.fields.get(f.index())?;
                Some(At::Field(unit, *f))
            }
            Step::Index(_) => {
                let At::Field(u, f) = at else { return None };
                match &self.units.get(u.index())?.fields.get(f.index())?.kind {
                    FieldKind::List { element, .. } => Some(At::Field(u, *element)),
                    _ => None,
                }
            }
        }
    }

    /// The unit whose fields can be named at this position.
    pub fn inside(&self, at: At) -> Option<UnitId> {
        match at {
            At::Unit(u) => Some(u),
            At::Field(u, f) => match &self.units.get(u.index())?.fields.get(f.index())?.kind {
                FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => Some(*unit),
                FieldKind::Switch { .. } => Some(u),
                _ => None,
            },
        }
    }

    /// The list field at a path's end, with its unit and its element.
    pub fn list_at(&self, path: &Path, scope: Scope) -> Option<(UnitId, FieldId, FieldId)> {
        match self.follow(path, scope, &mut |_, _| ())? {
            At::Field(u, f) => match &self.unit(u).fields[f.index()].kind {
                FieldKind::List { element, .. } => Some((u, f, *element)),
                _ => None,
            },
            At::Unit(_) => None,
        }
    }

    /// Name and value field of a list's element unit: its first two fields that are bytes.
    pub fn name_and_value(&self, unit: UnitId, element: FieldId) -> Option<(UnitId, FieldId, Option<FieldId>)> {
        let FieldKind::Unit { unit: inner, .. } = self.units.get(unit.index())?.fields.get(element.index())?.kind
        else {
            return None;
        };
        let item = self.units.get(inner.index())?;
        let mut bytes = item.body.iter().copied().filter(|f| {
            item.fields.get(f.index()).is_some_and(|f| f.name.is_some() && matches!(f.kind, FieldKind::Bytes { .. }))
        });
        Some((inner, bytes.next()?, bytes.next()))
    }
}

/// The fields of a unit in wire order, those of switch cases (one case after another) and list
/// elements included.
pub fn wire_order(unit: &Unit) -> Vec<FieldId> {
    fn go(unit: &Unit, f: FieldId, out: &mut Vec<FieldId>) {
        if out.len() > unit.fields.len() {
            return;
        }
        out.push(f);
        match unit.fields.get(f.index()).map(|f| &f.kind) {
            Some(FieldKind::Switch { cases }) => {
                for c in cases {
                    for &f in &c.fields {
                        go(unit, f, out)
                    }
                }
            }
            Some(FieldKind::List { element, .. }) => go(unit, *element, out),
            _ => {}
        }
    }
    let mut out = Vec::new();
    for &f in &unit.body {
        go(unit, f, &mut out)
    }
    out
}
