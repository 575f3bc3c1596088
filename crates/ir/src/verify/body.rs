//! Bodies: statements, the locals that they set and read, and control flow.

mod outgoing;
mod where_allowed;

use super::expr::ExprPlace;
use super::Checker;
use crate::walk::Scope;
use crate::*;
use desc::PortKind;
use outgoing::removed;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum BodyKind {
    Function,
    Message,
    Event,
    OnFault,
}

/// The owner of a body.
#[derive(Clone, Copy)]
pub(super) struct Code {
    pub kind: BodyKind,
    /// A function's type.
    pub ret: Option<TyId>,
    /// So many locals are set when it begins.
    pub preset: usize,
    /// The unit it may answer with.
    pub reply: Option<UnitId>,
    pub conn: bool,
}

impl Checker<'_> {
    pub fn body(&mut self, path: &str, body: &Body, code: Code) {
        if body.locals.iter().any(|l| l.ty.index() >= self.m.types.len()) {
            return self.error(path, "a local's type does not exist");
        }
        let set = (0..body.locals.len()).map(|l| l < code.preset).collect();
        let mut flow = Flow { c: self, code, locals: &body.locals, inside: Inside::Handler, loops: Vec::new() };
        let end = flow.block(path, "", &mut 0, &body.block, Some(PathFacts { set, calls: false, awaited: false }));
        let Some(end) = end else { return };
        let silent = code.ret.is_none_or(|t| *self.ty(t) == Ty::Unit);
        self.need(silent, path, "a function does not return on every path");
        self.need(!end.calls, path, "a call is not followed by an await");
    }
}

/// A statement: the body that it is in, its number, and both as one path.
#[derive(Clone, Copy)]
struct StmtPlace<'a> {
    name: &'a str,
    at: &'a str,
    path: &'a str,
}

/// Facts that hold on every path to a point.
#[derive(Clone)]
struct PathFacts {
    set: Vec<bool>,
    /// Calls may be outstanding.
    calls: bool,
    /// A suspension may have been.
    awaited: bool,
}

fn join(a: Option<PathFacts>, b: Option<PathFacts>) -> Option<PathFacts> {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            for (x, y) in a.set.iter_mut().zip(&b.set) {
                *x &= y
            }
            a.calls |= b.calls;
            a.awaited |= b.awaited;
            Some(a)
        }
        (a, None) => a,
        (None, b) => b,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Handler,
    Update,
    Message,
}

struct Flow<'a, 'c, 'm> {
    c: &'c mut Checker<'m>,
    code: Code,
    locals: &'a [Local],
    inside: Inside,
    /// Per loop around: what is known at its breaks.
    loops: Vec<Option<PathFacts>>,
}

impl<'a> Flow<'a, '_, '_> {
    /// `number`: statements counted so far among the blocks of the statement `at`.
    fn block(
        &mut self,
        name: &str,
        at: &str,
        number: &mut u32,
        block: &Block,
        mut state: Option<PathFacts>,
    ) -> Option<PathFacts> {
        for s in block {
            *number += 1;
            let at = if at.is_empty() { number.to_string() } else { format!("{at}.{number}") };
            // A statement that is never reached is still checked, as if everything were set.
            let reached = state.is_some();
            let known =
                state.unwrap_or_else(|| PathFacts { set: vec![true; self.locals.len()], calls: false, awaited: true });
            let after = self.stmt(name, &at, &s.kind, known);
            state = if reached { after } else { None };
        }
        state
    }

    fn place(&self) -> ExprPlace<'a> {
        ExprPlace { scope: Scope::locals(self.locals), acc: false, conn: self.code.conn }
    }

    fn error(&mut self, path: &str, message: &str) {
        self.c.error(path, message)
    }

    fn ty_of(&self, l: LocalId) -> Option<TyId> {
        self.locals.get(l.index()).map(|l| l.ty)
    }

    fn unit_of(&self, l: LocalId) -> Option<UnitId> {
        match self.c.ty(self.ty_of(l)?) {
            Ty::Msg(u) => Some(*u),
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
            | Ty::Tuple(_) => None,
        }
    }

    /// The local gets a value of this type.
    fn sets(&mut self, path: &str, l: LocalId, ty: &Ty, state: &mut PathFacts) {
        match self.ty_of(l) {
            None => return self.error(path, "a local does not exist"),
            Some(t) if self.c.ty(t) != ty => {
                let message = format!("a local of type {} is given another", self.c.name(t));
                self.c.error(path, message)
            }
            _ => {}
        }
        state.set[l.index()] = true;
    }

    fn reads(&mut self, path: &str, s: &StmtKind, state: &PathFacts) {
        let mut unset = Vec::new();
        let bound = removed(s);
        walk::stmt_locals_read(s, &mut |l| {
            if state.set.get(l.index()) == Some(&false) && !bound.contains(&l) {
                unset.push(l)
            }
        });
        for l in unset {
            if !self.c.unset.contains(&l) {
                self.c.unset.push(l)
            }
            if !self.c.passed && self.unit_of(l).is_none() {
                continue;
            }
            let message = format!("local %{} ({}) may be read before it is set", l.0, self.locals[l.index()].name);
            self.c.error(path, message);
        }
        let mut part = false;
        walk::stmt_exprs(s, &mut |e| {
            walk::expr(e, &mut |e| part |= matches!(*e.kind, ExprKind::PartStatus(_) | ExprKind::Parts))
        });
        part |= matches!(s, StmtKind::BindPart { .. });
        self.c.need(!part || state.awaited, path, "a part is looked at before any suspension");
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, name: &str, at: &str, s: &StmtKind, mut state: PathFacts) -> Option<PathFacts> {
        let path = &format!("{name}: stmt {at}");
        let before = self.c.errors.len();
        let place = self.place();
        walk::stmt_exprs(s, &mut |e| self.c.expr(path, e, place));
        if self.c.errors.len() == before {
            self.reads(path, s, &state)
        }
        self.where_allowed(path, s);
        let mut number = 0;
        match s {
            StmtKind::If { cond, then, other } => {
                self.c.need(self.c.is_bool(cond.ty), path, "a condition is not a bool");
                let a = self.block(name, at, &mut number, then, Some(state.clone()));
                let b = self.block(name, at, &mut number, other, Some(state));
                return join(a, b);
            }
            StmtKind::Switch { on, cases, default } => {
                self.c.need(self.c.is_int(on.ty), path, "a switch on what is no integer");
                let mut out = None;
                for (_, b) in cases {
                    out = join(out, self.block(name, at, &mut number, b, Some(state.clone())))
                }
                return join(out, self.block(name, at, &mut number, default, Some(state)));
            }
            StmtKind::For { var, from, to, max, body } => {
                self.c.need(*max > 0, path, "a loop of 0 rounds");
                let fits = self
                    .ty_of(*var)
                    .is_some_and(|t| self.c.is_int(t) && self.c.same(from.ty, t) && self.c.same(to.ty, t));
                if !fits {
                    self.error(path, "a loop's variable and bounds are not integers of one type");
                    return Some(state);
                }
                let mut inner = state.clone();
                inner.set[var.index()] = true;
                let end = self.looped(name, at, body, inner);
                return join(Some(state), end);
            }
            StmtKind::Loop { max, body } => {
                self.c.need(*max > 0, path, "a loop of 0 rounds");
                return self.looped(name, at, body, state);
            }
            StmtKind::Break | StmtKind::Continue => {
                match self.loops.last_mut() {
                    Some(known) => {
                        if *s == StmtKind::Break {
                            *known = join(known.take(), Some(state))
                        }
                    }
                    None => self.error(path, "break or continue outside a loop"),
                }
                return None;
            }
            StmtKind::Return(value) => {
                match (value, self.code.ret) {
                    (Some(e), Some(t)) => {
                        self.c.need(self.c.fits(e.ty, t), path, "the value is not of the function's type")
                    }
                    (None, Some(t)) => self.c.need(*self.c.ty(t) == Ty::Unit, path, "a return without a value"),
                    (Some(_), None) => self.error(path, "a handler returns a value"),
                    (None, None) => {}
                }
                self.c.need(!state.calls, path, "a call is not followed by an await");
                return None;
            }
            StmtKind::Fault { kind, place } => {
                self.c.fault(path, *kind, *place);
                return None;
            }
            StmtKind::TableUpdate { table, key, entry, body, place } => {
                let Some(t) = self.table(path, *table, key) else { return Some(state) };
                self.c.fault(path, FaultKind::FULL, *place);
                let mut inner = state.clone();
                let ty = self.c.ty(t.value).clone();
                self.sets(path, *entry, &ty, &mut inner);
                self.within(Inside::Update, |f| f.block(name, at, &mut number, body, Some(inner)));
            }
            _ => self.plain(StmtPlace { name, path, at }, s, &mut state),
        }
        Some(state)
    }

    /// Statements after which control goes on.
    fn plain(&mut self, here: StmtPlace, s: &StmtKind, state: &mut PathFacts) {
        let path = here.path;
        let place = self.place();
        match s {
            StmtKind::Set(l, e) => match self.ty_of(*l) {
                Some(t) => {
                    self.c.need(!matches!(self.c.ty(t), Ty::Msg(_)), path, "a message local is set");
                    self.c.into(path, e, t, place);
                    state.set[l.index()] = true;
                }
                None => self.error(path, "a local does not exist"),
            },
            StmtKind::SetField(l, fields, e) => {
                let start = self.ty_of(*l);
                let end = fields
                    .iter()
                    .try_fold(start.unwrap_or(TyId(u32::MAX)), |t, f| self.c.members(t)?.get(*f as usize).copied());
                match end {
                    Some(t) if !fields.is_empty() => {
                        self.c.need(self.c.fits(e.ty, t), path, "the value is not of the member's type")
                    }
                    _ => self.error(path, "a member does not exist"),
                }
            }
            StmtKind::SetState(v, e) => match self.c.m.states.get(v.index()).filter(|s| !s.memory).map(|s| s.ty) {
                Some(t) => self.c.need(self.c.fits(e.ty, t), path, "the value is not of the state's type"),
                None => self.error(path, "a state does not exist"),
            },
            StmtKind::SetSession(v, e) => {
                self.c.need(self.code.conn, path, "there is no connection here");
                match self.c.m.sessions.get(v.index()).map(|s| s.ty) {
                    Some(t) => self.c.need(self.c.fits(e.ty, t), path, "the value is not of the session's type"),
                    None => self.error(path, "a session does not exist"),
                }
            }
            StmtKind::Count(v, e) => self.c.need(
                v.index() < self.c.m.counters.len() && self.c.is_uint_of(e.ty, 64),
                path,
                "a counter does not exist or is given no u64",
            ),
            StmtKind::Push(l, e) => match self.ty_of(*l).map(|t| self.c.ty(t).clone()) {
                Some(Ty::List(t, _)) => self.c.need(self.c.fits(e.ty, t), path, "the value is not of the list's type"),
                _ => self.error(path, "a push on what is no list"),
            },
            StmtKind::Require { cond, kind, place } => {
                self.c.need(self.c.is_bool(cond.ty), path, "a condition is not a bool");
                self.c.fault(path, *kind, *place)
            }
            StmtKind::TableGet { table, key, dst } => {
                if let Some(t) = self.table(path, *table, key) {
                    let ok = self
                        .ty_of(*dst)
                        .is_some_and(|d| matches!(self.c.ty(d), Ty::Option(v) if self.c.same(*v, t.value)));
                    self.c.need(ok, path, "the local is not an option of the table's value");
                    if let Some(set) = state.set.get_mut(dst.index()) {
                        *set = true
                    }
                }
            }
            StmtKind::TablePut { table, key, value, place } => {
                if let Some(t) = self.table(path, *table, key) {
                    self.c.need(self.c.fits(value.ty, t.value), path, "the value is not of the table's type");
                    self.c.fault(path, FaultKind::FULL, *place);
                }
            }
            StmtKind::TableRemove { table, key, dst } => {
                self.table(path, *table, key);
                if let Some(d) = dst {
                    self.sets(path, *d, &Ty::Bool, state)
                }
            }
            StmtKind::TableLen { table, dst } => {
                self.c.need(table.index() < self.c.m.tables.len(), path, "a table does not exist");
                self.sets(path, *dst, &Ty::UInt(64), state)
            }
            StmtKind::Call { port, index, msg, within, response_args, clauses } => {
                let said = matches!(clauses.len(), 0 | 4) && clauses.iter().all(|e| *self.c.m.ty(e.ty) == Ty::Bool);
                self.c.need(said, path, "a call has four clauses, or none");
                self.c.need(self.c.is_uint(index.ty), path, "an instance is not an unsigned integer");
                if let Some(e) = within {
                    self.c.need(self.c.is_uint_of(e.ty, 64), path, "a time is not a u64")
                }
                if let Some(p) = self.connected(path, *port) {
                    match p.response {
                        Some(u) => self.c.call_arguments(path, u, response_args),
                        None => self.error(path, "a call in a protocol without answers"),
                    }
                    self.message(here, msg, p.request, state);
                }
                state.calls = true;
            }
            StmtKind::Send { port, index, msg } => {
                self.c.need(self.c.is_uint(index.ty), path, "an instance is not an unsigned integer");
                if let Some(p) = self.connected(path, *port) {
                    self.message(here, msg, p.request, state)
                }
            }
            StmtKind::Await { live, .. } => {
                self.c.need(live.iter().all(|l| l.index() < self.locals.len()), path, "a local does not exist");
                let kept = live.iter().filter_map(|l| self.locals.get(l.index())).all(|l| l.in_frame);
                self.c.need(!self.c.passed || kept, path, "a live local is not in the frame");
                state.calls = false;
                state.awaited = true;
            }
            StmtKind::BindPart { dst, part } => {
                self.c.need(self.c.is_uint(part.ty), path, "a part's index is not an unsigned integer");
                self.c.need(self.unit_of(*dst).is_some(), path, "a part is bound to a local that is no message");
                if let Some(set) = state.set.get_mut(dst.index()) {
                    *set = true
                }
            }
            StmtKind::Reply { msg, .. } => match self.code.reply {
                Some(u) => self.message(here, msg, u, state),
                None => self.c.need(*msg == Outgoing::Nothing, path, "an answer where none is due"),
            },
            StmtKind::TableNext { table, cursor, key, value, more, masked } => {
                let t = self.c.m.tables.get(table.index()).cloned();
                self.c.need(t.is_some(), path, "a table does not exist");
                self.sets(path, *cursor, &Ty::UInt(64), state);
                self.sets(path, *more, &Ty::Bool, state);
                if let Some((_, priority)) = masked {
                    self.c.need(
                        t.as_ref().is_some_and(|t| matches!(t.kind, TableKind::Wildcard | TableKind::Lpm)),
                        path,
                        "the table's entries have no masks",
                    );
                    self.sets(path, *priority, &Ty::UInt(32), state);
                }
                let mask = masked.as_ref().map(|(mask, _)| (mask, t.as_ref().map(|t| t.key)));
                for (l, want) in
                    [(key, t.as_ref().map(|t| t.key)), (value, t.as_ref().map(|t| t.value))].into_iter().chain(mask)
                {
                    self.c.need(
                        self.ty_of(*l).zip(want).is_some_and(|(a, b)| self.c.same(a, b)),
                        path,
                        "a local is not of the table's type",
                    );
                    if let Some(set) = state.set.get_mut(l.index()) {
                        *set = true
                    }
                }
            }
            StmtKind::TableInsert { table, key, mask, priority, value, place } => {
                if let Some(t) = self.masked(path, *table, key, mask, priority) {
                    self.c.need(self.c.fits(value.ty, t.value), path, "the value is not of the table's type");
                    self.c.fault(path, FaultKind::FULL, *place);
                }
            }
            StmtKind::TableDelete { table, key, mask, priority, dst } => {
                self.masked(path, *table, key, mask, priority);
                if let Some(d) = dst {
                    self.sets(path, *d, &Ty::Bool, state)
                }
            }
            StmtKind::TablePush { table, value, dst } => {
                if let Some(t) = self.ring(path, *table) {
                    self.c.need(self.c.fits(value.ty, t.value), path, "the value is not of the ring's type")
                }
                self.sets(path, *dst, &Ty::Bool, state);
            }
            StmtKind::TablePop { table, dst } => {
                if let Some(t) = self.ring(path, *table) {
                    let ok = self
                        .ty_of(*dst)
                        .is_some_and(|d| matches!(self.c.ty(d), Ty::Option(v) if self.c.same(*v, t.value)));
                    self.c.need(ok, path, "the local is not an option of the ring's value");
                    if let Some(set) = state.set.get_mut(dst.index()) {
                        *set = true
                    }
                }
            }
            StmtKind::GroupBegin { port, .. } => {
                self.c.need(self.c.m.ports.get(port.index()).is_some(), path, "a port does not exist")
            }
            StmtKind::GroupAdd { index, parts } => {
                self.c.need(self.c.is_uint(index.ty), path, "an instance is not an unsigned integer");
                self.c.need(parts.iter().all(|e| self.c.is_bytes(e.ty)), path, "a part of a group is not bytes");
            }
            StmtKind::GroupRun { part, bytes } => {
                self.c.need(self.c.is_uint(part.ty), path, "a part is not an unsigned integer");
                self.c.need(self.c.is_bytes(bytes.ty), path, "the items of a part are not bytes");
            }
            StmtKind::Queue { port, index, act, dst } => {
                let kind = self.c.m.ports.get(port.index()).map(|p| &p.kind);
                let queue = kind.is_some_and(|k| k.is_queue() && !k.is_crossing());
                self.c.need(queue, path, "a frame is taken from what is no queue");
                self.c.need(self.c.is_uint(index.ty), path, "an instance is not an unsigned integer");
                self.sets(
                    path,
                    *dst,
                    match act {
                        QueueAct::Pop | QueueAct::Drop => &Ty::Bool,
                        QueueAct::Len | QueueAct::First => &Ty::UInt(32),
                    },
                    state,
                );
            }
            StmtKind::Output { wire, frame, mark, state, .. } => {
                self.carried(path, state);
                self.output(path, *wire, *frame, mark)
            }
            StmtKind::SendFrame { port, index, parts, place: fault } => {
                self.c.fault(path, FaultKind::OVERLOAD, *fault);
                self.frame_port(path, *port, index);
                self.parts(here, parts, state);
            }
            StmtKind::Frame { frame, act } => self.frame_act(here, *frame, act, state),
            StmtKind::Wait { table, key, within } => {
                let exact = self.c.m.tables.get(table.index()).filter(|t| t.kind == TableKind::Exact);
                self.c.need(exact.is_some_and(|t| self.c.same(t.key, key.ty)), path, "waits for no entry of a table");
                self.c.need(self.c.is_uint(within.ty), path, "a time to wait that is no number");
                state.calls = true;
            }
            StmtKind::AwaitBody => state.calls = true,
            StmtKind::SetPiece(e) => self.c.need(self.c.is_bytes(e.ty), path, "a piece that is not bytes"),
            StmtKind::DropBody => {}
            StmtKind::Parse { unit, kept, bytes, dst, ok } => {
                let params = self.c.m.units.get(unit.index()).map_or(&[][..], |u| &u.params);
                let fit = kept.as_ref().is_none_or(|args| {
                    args.len() == params.len() && args.iter().zip(params).all(|(a, p)| self.c.same(a.ty, p.ty))
                });
                self.c.need(fit, path, "the parameters of a parse are not those of its unit");
                self.c.need(self.c.is_bytes(bytes.ty), path, "the operand of a parse is not bytes");
                self.sets(path, *dst, &Ty::Msg(*unit), state);
                self.sets(path, *ok, &Ty::Bool, state);
            }
            StmtKind::Render { msg, dst } => {
                let unit = match msg {
                    Outgoing::Pass { msg, .. } => self.unit_of(*msg),
                    Outgoing::Built { unit, .. } => Some(*unit),
                    Outgoing::Nothing => None,
                };
                match unit {
                    Some(u) if u.index() < self.c.m.units.len() => self.message(here, msg, u, state),
                    _ => self.error(path, "nothing to render"),
                }
                self.c.need(
                    self.ty_of(*dst).is_some_and(|t| self.c.is_bytes(t)),
                    path,
                    "a rendered message goes to a local that is no bytes",
                );
                if let Some(set) = state.set.get_mut(dst.index()) {
                    *set = true
                }
            }
            StmtKind::Reread { msg, dst, ok } => {
                let unit = match msg {
                    Outgoing::Pass { msg, .. } => self.unit_of(*msg),
                    Outgoing::Built { unit, .. } => Some(*unit),
                    Outgoing::Nothing => None,
                };
                let Some(u) = unit.filter(|u| u.index() < self.c.m.units.len()) else {
                    return self.error(path, "the message to be read again was not changed");
                };
                self.message(here, msg, u, state);
                self.sets(path, *dst, &Ty::Msg(u), state);
                self.sets(path, *ok, &Ty::Bool, state);
            }
            StmtKind::Emit(Emit::Bytes(e)) => {
                self.c.need(self.c.is_bytes(e.ty), path, "bytes are emitted that are none")
            }
            StmtKind::Emit(Emit::UInt { value: e, bytes, .. }) => self.c.need(
                (self.c.is_int(e.ty) || self.c.is_bool(e.ty)) && (1..=16).contains(bytes),
                path,
                "an integer is emitted that is none",
            ),
            StmtKind::Emit(Emit::Number { value: e, radix, .. }) => {
                self.c.need(self.c.is_int(e.ty) && (2..=36).contains(radix), path, "a number is emitted that is none")
            }
            StmtKind::Emit(Emit::Items { unit, bytes, count, .. }) => {
                self.c.need(unit.index() < self.c.m.units.len(), path, "a unit does not exist");
                self.c.need(
                    self.c.is_bytes(bytes.ty) && self.c.is_uint(count.ty),
                    path,
                    "items are emitted of what is no bytes, or their count is no number",
                );
            }
            StmtKind::Emit(Emit::InOrder { unit, count, .. }) => self.c.need(
                unit.index() < self.c.m.units.len() && self.c.is_uint(count.ty),
                path,
                "a unit does not exist, or a count is no number",
            ),
            StmtKind::Emit(Emit::Mark(l)) => self.sets(path, *l, &Ty::UInt(32), state),
            StmtKind::Emit(Emit::Whole { unit, args, from, .. }) => {
                let params = self.c.m.units.get(unit.index()).map(|u| &u.params);
                let fit = params
                    .is_some_and(|p| args.len() == p.len() && args.iter().zip(p).all(|(a, p)| self.c.same(a.ty, p.ty)));
                self.c.need(
                    fit && self.c.is_uint(from.ty),
                    path,
                    "written bytes are read as another unit, or from no number on",
                );
            }
            StmtKind::Emit(Emit::Begins { with, from, .. }) => self.c.need(
                self.c.is_uint(from.ty) && with.iter().all(|e| self.c.is_bytes(e.ty)),
                path,
                "written bytes are compared with what is no bytes, or from no number on",
            ),
            StmtKind::Emit(Emit::Varint(e)) => {
                self.c.need(self.c.is_int(e.ty), path, "a number is emitted that is none")
            }
            StmtKind::Outcome(e) => {
                self.c.need(*self.c.ty(e.ty) == Ty::UInt(32), path, "the class of an answer is no u32")
            }
            StmtKind::Tell { to, protocol, msg, place } => {
                self.c.need(self.code.conn, path, "there is no conversation here");
                match self.c.m.told(*to, *protocol) {
                    Some(unit) => self.message(here, msg, unit, state),
                    None => self.error(path, "there is no such member of a conversation"),
                }
                self.c.fault(path, FaultKind::LOST, *place);
            }
            StmtKind::Ask { upstream, protocol, msg, within, matched } => {
                self.c.need(self.code.conn, path, "there is no conversation here");
                let time = within.as_ref().is_none_or(|e| self.c.is_uint(e.ty));
                self.c.need(time, path, "a time to wait that is no number");
                let to = Peer::Upstream(*upstream);
                match self.c.m.told(to, *protocol) {
                    Some(unit) => self.message(here, msg, unit, state),
                    None => self.error(path, "there is no such member of a conversation"),
                }
                let fit =
                    self.c.m.spoken(to, *protocol).and_then(|p| self.c.m.protocols.get(p.index())).is_some_and(|p| {
                        let asked = p.response.map_or(&[][..], |u| &self.c.m.unit(u).asked);
                        let same = matched.iter().zip(asked).all(|(e, a)| self.c.same(e.ty, a.ty));
                        let tied = matched.is_empty() == p.stray.is_none() && (p.stray.is_some() || p.tells_answers());
                        matched.len() <= asked.len() && same && tied
                    });
                self.c.need(fit, path, "nothing tells which message is the answer");
                state.calls = true;
            }
            StmtKind::Deliver { to, protocol, msg, place } => {
                self.c.need(self.c.is_handles(to.ty), path, "a message is delivered to a value that is no handle");
                match self.c.m.told(Peer::Client, *protocol) {
                    Some(unit) => self.message(here, msg, unit, state),
                    None => self.error(path, "no port has conversations"),
                }
                self.c.fault(path, FaultKind::LOST, *place);
            }
            StmtKind::Dismiss(to) => {
                let known = self.c.is_handles(to.ty) && self.c.m.port_of(Peer::Client).is_some();
                self.c.need(known, path, "clients are closed by a value that is no handle");
            }
            StmtKind::OpenUpstream { upstream, index, key, place } => {
                self.c.need(self.c.is_uint(index.ty), path, "an instance is not an unsigned integer");
                let keyed = key.as_ref().is_none_or(|key| self.c.is_bytes(key.ty));
                self.c.need(keyed, path, "the key of a pool is not bytes");
                let known = self.code.conn && upstream.index() < self.c.m.upstreams.len();
                self.c.need(known, path, "there is no conversation here");
                self.c.fault(path, FaultKind::REFUSED, *place);
            }
            StmtKind::TakeUpstream { upstream, index, place } => {
                self.c.need(self.c.is_uint(index.ty), path, "an instance is not an unsigned integer");
                let known = self.code.conn && upstream.index() < self.c.m.upstreams.len();
                self.c.need(known, path, "there is no conversation here");
                self.c.fault(path, FaultKind::REFUSED, *place);
            }
            StmtKind::PoolUpstream { upstream, key } => {
                self.c.need(self.c.is_bytes(key.ty), path, "the key of a pool is not bytes");
                let known = self.code.conn && upstream.index() < self.c.m.upstreams.len();
                self.c.need(known, path, "there is no conversation here");
            }
            StmtKind::CloseUpstream(upstream) => {
                let known = self.code.conn && upstream.index() < self.c.m.upstreams.len();
                self.c.need(known, path, "there is no conversation here");
            }
            StmtKind::Become { member, protocol, place, .. } => {
                let known = self.code.conn && self.c.m.spoken(*member, Some(*protocol)).is_some();
                self.c.need(known, path, "a member becomes a protocol that its port does not speak");
                self.c.fault(path, FaultKind::EARLY, *place);
            }
            StmtKind::Hold(member) | StmtKind::Release(member) => {
                let known = self.code.conn && self.c.m.port_of(*member).is_some();
                self.c.need(known, path, "there is no such member of a conversation");
            }
            StmtKind::Close => {
                self.c.need(self.code.conn || self.code.kind == BodyKind::OnFault, path, "there is no connection here")
            }
            StmtKind::If { .. }
            | StmtKind::Switch { .. }
            | StmtKind::For { .. }
            | StmtKind::Loop { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(_)
            | StmtKind::Fault { .. }
            | StmtKind::TableUpdate { .. }
            | StmtKind::Log(_) => {}
        }
    }

    fn within<T>(&mut self, inside: Inside, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.inside, inside);
        let loops = std::mem::take(&mut self.loops);
        let out = f(self);
        (self.inside, self.loops) = (outer, loops);
        out
    }

    fn looped(&mut self, name: &str, at: &str, body: &Block, state: PathFacts) -> Option<PathFacts> {
        self.loops.push(None);
        let end = self.block(name, at, &mut 0, body, Some(state));
        join(end, self.loops.pop().flatten())
    }

    fn table(&mut self, path: &str, t: TableId, key: &Expr) -> Option<Table> {
        let table = self.c.m.tables.get(t.index()).cloned();
        match &table {
            Some(t) => self.c.need(self.c.fits(key.ty, t.key), path, "the key is not of the table's type"),
            None => self.error(path, "a table does not exist"),
        }
        table
    }

    fn ring(&mut self, path: &str, t: TableId) -> Option<Table> {
        let table = self.c.m.tables.get(t.index()).cloned();
        self.c.need(
            table.as_ref().is_some_and(|t| t.kind == TableKind::Ring),
            path,
            "a table that is no ring, or does not exist",
        );
        table
    }

    fn masked(&mut self, path: &str, t: TableId, key: &Expr, mask: &Expr, priority: &Expr) -> Option<Table> {
        let table = self.table(path, t, key)?;
        self.c.need(
            matches!(table.kind, TableKind::Wildcard | TableKind::Lpm),
            path,
            "a mask in a table without masks",
        );
        self.c.need(self.c.fits(mask.ty, table.key), path, "the mask is not of the key's type");
        self.c.need(self.c.is_uint_of(priority.ty, 32), path, "a priority is not a u32");
        Some(table)
    }

    fn frame_port(&mut self, path: &str, port: PortId, index: &Expr) {
        let frames = self.c.m.ports.get(port.index()).is_some_and(|p| matches!(p.kind, PortKind::Frames { .. }));
        self.c.need(frames, path, "a frame is sent to a port that takes none");
        self.c.need(self.c.is_uint(index.ty), path, "an instance is not an unsigned integer");
    }

    /// The state that goes with a packet.
    fn carried(&mut self, path: &str, state: &[Carried]) {
        let of_field =
            |c: &Carried| self.c.m.packet.get(c.field.index()).is_some_and(|f| self.c.same(f.ty, c.value.ty));
        self.c.need(state.iter().all(of_field), path, "a value is not of the type of its field of the state");
        let once = |n: usize| state[..n].iter().all(|c| c.field != state[n].field);
        self.c.need((0..state.len()).all(once), path, "a field of the state is given twice");
    }

    fn output(&mut self, path: &str, wire: WireId, frame: LocalId, mark: &Expr) {
        let m = self.c.m;
        self.c.need(self.c.is_uint_of(mark.ty, 32), path, "a mark is not a u32");
        let Some(wire) = m.wires.get(wire.index()) else { return self.error(path, "a wire does not exist") };
        let Target::Input { input: to, .. } = wire.to else { return };
        let takes = m.inputs.get(to.index()).is_some_and(|i| i.body.is_some() && Some(i.unit) == self.unit_of(frame));
        self.c.need(takes, path, "the target of the wire does not take this frame");
    }

    fn parts(&mut self, here: StmtPlace, parts: &[Part], state: &PathFacts) {
        let StmtPlace { name, path, at } = here;
        let mut number = 0;
        for p in parts {
            self.c.need(p.unit.is_none_or(|u| u.index() < self.c.m.units.len()), path, "a part's unit does not exist");
            self.within(Inside::Message, |f| f.block(name, at, &mut number, &p.body, Some(state.clone())));
        }
    }

    fn frame_act(&mut self, here: StmtPlace, frame: LocalId, act: &FrameAct, state: &PathFacts) {
        let StmtPlace { name, path, at } = here;
        let unit = self.unit_of(frame).and_then(|u| self.c.m.units.get(u.index()));
        let Some(layers) = unit.and_then(|u| u.frame.as_ref()).map(|f| f.layers.clone()) else {
            return self.error(path, "the operand of a frame's act is no frame");
        };
        let (layer, body) = match act {
            FrameAct::Set { layer, .. }
            | FrameAct::Swap { layer, .. }
            | FrameAct::Remove { layer }
            | FrameAct::Checksum { layer } => (Some(*layer), None),
            FrameAct::Insert { before: layer, parts, place, .. } => {
                self.c.fault(path, FaultKind::OVERLOAD, *place);
                self.parts(here, parts, state);
                (*layer, None)
            }
            FrameAct::Payload { layer, body, place, keep, .. } => {
                self.c.fault(path, FaultKind::OVERLOAD, *place);
                if let Some(why) = keep.and_then(|keep| passes::payload_in_place::illegal(body, keep)) {
                    self.c.error(path, why)
                }
                (*layer, Some(body))
            }
            FrameAct::Parse | FrameAct::Save { .. } | FrameAct::Restore { .. } => (None, None),
            FrameAct::InC { func, memory, dst, place, .. } => {
                self.c.fault(path, FaultKind::OVERLOAD, *place);
                let func = self.c.m.funcs.get(func.index());
                let in_c = func.is_some_and(|f| matches!(f.body, FuncBody::Extern { .. }));
                self.c.need(in_c, path, "a function that is not in C");
                let is_memory = |s: &StateId| self.c.m.states.get(s.index()).is_some_and(|s| s.memory);
                self.c.need(memory.as_ref().is_none_or(is_memory), path, "a state that is no memory");
                self.c.need(
                    self.ty_of(*dst).is_some_and(|t| self.c.is_uint_of(t, 32)),
                    path,
                    "the result is not a u32",
                );
                (None, None)
            }
            FrameAct::Send { port, index, mark, state, .. } => {
                self.frame_port(path, *port, index);
                self.carried(path, state);
                self.c.need(
                    state.is_empty() || self.c.m.is_queue(*port),
                    path,
                    "state goes to a port that is no queue",
                );
                if let Some(mark) = mark {
                    self.c.need(self.c.is_uint_of(mark.ty, 32), path, "a mark is not a u32");
                    self.c.need(self.c.m.is_queue(*port), path, "a mark goes to a port that is no queue");
                }
                (None, None)
            }
        };
        let header = layer.map(|n| layers.get(n as usize).map(|l| l.unit));
        if header == Some(None) {
            return self.error(path, "a header does not exist");
        }
        let unit = header.flatten().and_then(|u| self.c.m.units.get(u.index()));
        if let (FrameAct::Set { field, value, .. }, Some(u)) = (act, unit) {
            match u.fields.get(field.index()) {
                Some(Field { kind: FieldKind::UInt { .. }, ty, .. }) => {
                    self.c.need(self.c.same(value.ty, *ty), path, "the value is not of the field's type")
                }
                // Of one whose size varies the lowering has made sure that the new bytes are as
                // many.
                Some(Field { kind: FieldKind::Bytes { extent: Extent::Length(_), .. }, .. }) => {
                    self.c.need(self.c.is_bytes(value.ty), path, "the value is not of the field's type")
                }
                _ => self.error(path, "only fields of a fixed size are set in place"),
            }
        }
        if let (FrameAct::Swap { a, b, .. }, Some(header)) = (act, header.flatten()) {
            self.c.need(
                passes::swaps::keeps_sums(self.c.m, header, *a, *b),
                path,
                "the fields of a swap differ in size or checksums",
            )
        }
        if let (FrameAct::Checksum { .. }, Some(u)) = (act, unit) {
            self.c.need(u.header.checksum.is_some(), path, "the header has no checksum")
        }
        if let Some(body) = body {
            self.within(Inside::Message, |f| f.block(name, at, &mut 0, body, Some(state.clone())));
        }
    }

    fn connected(&mut self, path: &str, p: PortId) -> Option<Protocol> {
        let port = self.c.m.ports.get(p.index()).filter(|p| matches!(p.kind, PortKind::Connect(_)));
        let protocol = port.and_then(|p| p.protocols.first()).and_then(|p| self.c.m.protocols.get(p.index())).cloned();
        if protocol.is_none() {
            self.error(path, "the target of a send is not a connect port")
        }
        protocol
    }
}
