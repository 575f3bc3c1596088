//! Expressions and statements, checked and lowered in one walk. Units, clauses, functions and
//! handlers share it. [`Kind`] says which constructs are allowed. A value is a [`Val`]. The
//! statements that it needs go to `out`, with guards for operations that can fail.

pub mod addresses;
mod asks;
pub mod assign;
mod become_protocol;
pub mod built_message;
pub mod builtins;
pub mod calls;
mod clause_lists;
pub mod coerce;
mod consistent;
pub mod control;
mod conversation;
pub mod crypto;
pub mod destination;
pub mod edits;
pub mod emit;
pub mod emit_items;
pub mod expr;
pub mod fixed_results;
pub mod frame_sends;
pub mod functions;
mod handles;
mod hints;
mod json;
pub mod kept_messages;
pub mod lists;
pub mod loops;
pub mod message;
pub mod ops;
pub mod packet_line;
pub mod packets;
pub mod padding;
pub mod passed_on;
pub mod path_conditions;
pub mod patterns;
pub mod protocol_clauses;
mod read_with;
pub mod sends;
mod split;
pub mod stmts;
pub mod stream_item;
pub mod unparse_check;
mod walk;
mod written_sizes;
pub mod wrong_value;

pub use become_protocol::Talk;

use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::{Val, Validity, Vk};
use edits::PendingEdit;
use ir::{FaultKind, LocalId, StmtKind};
use path_conditions::Fact;
use std::collections::{HashMap, HashSet};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Ident, Span};
use wireloom_syntax::Diagnostic;

/// Deeper nesting of expressions and blocks is refused: the walk is recursive.
const MAX_DEPTH: u32 = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only what is known at compile time.
    Const,
    /// Over the fields of a unit: no statements.
    Grammar(ir::UnitId),
    /// Of a protocol: no statements.
    Clause,
    Func,
    Handler,
    /// The answer to a fault. It replies, but has no connection or calls.
    OnFault,
    Test,
}

/// Whether the request at hand has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replied {
    No,
    Yes,
    Maybe,
}

#[derive(Clone, Debug)]
pub struct Binding {
    pub name: String,
    pub span: Span,
    pub val: Val,
    /// The local behind a `var`.
    pub var: Option<LocalId>,
    pub used: bool,
    /// Suspensions before it was bound.
    pub epoch: u32,
    /// Its value was read from state or a table.
    pub state: bool,
    /// A reply, or part of one: gone after the next call.
    pub reply: bool,
}

/// The message handler at hand.
#[derive(Clone, Copy, Debug)]
pub struct HandlerCtx {
    pub port: ir::PortId,
    pub protocol: ir::ProtocolId,
    pub req: LocalId,
    pub one_way: bool,
    pub no_reply: bool,
    /// Nobody has asked: the reply is a request that goes first on a connection to a server.
    pub greeting: bool,
}

impl HandlerCtx {
    /// Of a message that came on no port of the app.
    pub fn without_port(protocol: ir::ProtocolId, req: LocalId) -> Self {
        HandlerCtx { port: ir::PortId(u32::MAX), protocol, req, one_way: false, no_reply: false, greeting: false }
    }
}

/// Where `return` goes.
#[derive(Clone, Debug)]
pub enum Ret {
    /// No value may be returned.
    Nowhere,
    /// Ends the body; functions give a value of this type.
    Body(Ty),
    /// Ends an inlined call: sets the result, and `done` where a loop stands between. The handler
    /// of an `element` has answered its request then.
    Inline {
        result: Option<LocalId>,
        ty: Ty,
        done: LocalId,
        loops: u32,
        sink: Option<destination::Sink>,
        element: bool,
    },
}

pub struct Lower<'c, 'a> {
    pub cx: &'c mut Compiler<'a>,
    pub module: ModId,
    pub kind: Kind,
    pub locals: Vec<ir::Local>,
    pub scopes: Vec<Vec<Binding>>,
    pub out: ir::Block,
    pub facts: Vec<Fact>,
    /// The text at hand, as of [`Fact`].
    pub text: u32,
    /// The value whose field `.x` is.
    pub dot: Option<Val>,
    /// The unit whose parameters are visible by name, and the message they belong to.
    pub params_of: Option<(ir::Root, ir::UnitId)>,
    pub place: String,
    pub in_app: bool,
    /// A function that gives messages is checked without a use: a client may be there or not.
    pub unused: bool,
    pub epoch: u32,
    pub replied: Replied,
    /// A copy of the request at hand: its answer is read, and goes nowhere.
    pub copy: bool,
    pub handler: Option<HandlerCtx>,
    pub ret: Ret,
    pub inlined: Vec<String>,
    /// Inside of a function of the library: the program's call of it.
    pub called: Option<Span>,
    /// A message is being built: what changes tables or waits has no place in it.
    pub building: bool,
    /// An entry of a table is held: how many loops were around it, and what says that the inlined
    /// body around it has returned.
    pub held: Option<(u32, Option<LocalId>)>,
    /// The block of a cache around: of which, and what it does.
    pub cache_block: Option<(usize, crate::apps::declarations::Role)>,
    /// Saw something that a function of the IR cannot do.
    pub impure: bool,
    pub depth: u32,
    /// It has been told that something is nested too deeply.
    too_deep: bool,
    pub loops: u32,
    pub decision: bool,
    /// Something was in error: what is missing may be missing because of it.
    pub failed: bool,
    /// Diagnostics before this code.
    told: usize,
    /// Upper bounds of locals that never change.
    pub bounds: HashMap<LocalId, u64>,
    /// The expressions of temporaries that never change, if they tell something about them.
    pub origins: HashMap<LocalId, ir::Expr>,
    /// Clauses of a protocol are asked of a message that is being made: what is known of it decides
    /// which of their parts count.
    pub asking: bool,
    /// Edits of messages that will be sent on.
    pub pending: Vec<PendingEdit>,
    /// Copies of messages that `with` has made.
    pub made_copies: u32,
    /// Messages with edits made in a branch that went on.
    pub torn: Vec<(LocalId, Span)>,
    /// Most answers of the last `call all`.
    pub parts_max: u64,
    /// While a message is written: the set whose run was written last, and the separator owed
    /// before more of the set.
    pub run: Option<(ir::ByteSet, Option<u8>)>,
    /// The same of runs before it, each with the condition under which nothing stands behind it.
    pub open_runs: Vec<(ir::ByteSet, ir::Expr)>,
    /// The parameters with which the part that is being written will be read; none: not all are
    /// known before.
    pub part_args: Option<Vec<ir::Expr>>,
    /// In `on fault`: what the answer's unit asks of the request.
    pub asked: Vec<LocalId>,
    /// Under which condition the message that is being built ends with its connection.
    pub ends: Option<ir::Expr>,
    /// The validity of the message that is being built.
    pub validity: Validity,
    /// Beginnings that are looked at behind the block that writes them.
    pub beginnings: Vec<unparse_check::written_beginnings::WrittenBeginning>,
    /// Where the `out`s of the elements around lead.
    pub outlets: Vec<crate::apps::wire_ends::Outlet>,
    /// Instances that the message at hand has come through.
    pub under_way: Vec<(std::rc::Rc<crate::apps::scope::Instance>, String)>,
    /// In a handler of messages: inputs that several sends lead to.
    pub joins: Option<crate::apps::join_notes::Joins<Fact>>,
    /// Nothing of the handler follows the code at hand.
    pub tail: bool,
    /// The same of the end of the element's handler at hand.
    pub element_tail: bool,
    /// Queues of messages whose handlers are being put here.
    pub popping: Vec<std::rc::Rc<crate::apps::declarations::MessageQueue>>,
    /// Items being gathered as slices: what `raw` may be of.
    pub raw_of: Option<crate::ty::Elem>,
    /// Items of a unit that `join` has put together.
    pub joined: HashMap<LocalId, destination::Joined>,
    /// The last `call all` has put items together: the order in which they came is known.
    pub grouped: bool,
    /// Bytes of the lists that it has made so far: they lie on the stack of the core's thread.
    pub lists: u64,
    /// The packet whose members are visible by name: in its computed members.
    pub packet: Option<(ir::Path, ir::UnitId)>,
    /// Arguments of the signal at hand.
    pub signal_args: Vec<(String, ir::desc::ParamType)>,
    pub signal_forms: Vec<ir::desc::Form>,
    pub signal_defaults: Vec<Option<ir::desc::ParamValue>>,
    pub signal_masked: bool,
    /// Messages whose streamed bytes can be read, and how many they are at most.
    pub bodies: HashMap<LocalId, u64>,
    /// Answers, and the parameters that they are read with.
    pub read_with: HashMap<LocalId, Vec<read_with::AskedArg>>,
    /// The parameters of answers that the requests so far ask for.
    pub asked_args: Vec<Vec<read_with::AskedArg>>,
    /// Messages whose pieces may be changed on their way.
    pub in_other_pieces: std::collections::HashSet<LocalId>,
    /// Of a message that is being passed on, whose pieces may be changed: the case that its reader
    /// takes then.
    pub chunks: Option<String>,
    /// In a handler of pieces: the piece at hand; or the item of a stream.
    pub piece: Option<LocalId>,
    pub item: Option<stream_item::StreamItem>,
    /// Where another item has taken its place on this way.
    pub given: Option<Span>,
    /// Lengths that are being computed: what they depend on does not know them yet.
    pub measuring: Vec<(ir::UnitId, ir::FieldId)>,
    /// The key that a walk over a table has given last.
    pub walked: HashMap<ir::TableId, LocalId>,
    /// Signals show enums by name, not by number.
    pub variants_by_name: bool,
    /// The handler is one of packets: nothing is answered.
    pub frames: bool,
    /// The port that the packet has come from, where it can go back to.
    pub came_from: Option<ir::PortId>,
    pub talk: Talk,
    /// The local with the packet's mark, if the handler reads it.
    pub mark: Option<LocalId>,
    /// The packet came with it.
    pub marked: bool,
    /// The locals with the fields of the packet's state that the handler names.
    pub fields: std::collections::BTreeMap<ir::PacketFieldId, LocalId>,
    /// The queue and the channel that the next packet goes to.
    pub channel: Option<(ir::PortId, u8)>,
    /// The packet at hand has just come: its time is now.
    pub arrival: bool,
    /// The packet at hand comes from a queue, with its mark.
    pub queued: bool,
    /// Headers that may have been taken out before this point, by frame and layer.
    pub gone: HashSet<(LocalId, u32)>,
    /// Messages that may have gone on before this point, and where.
    pub passed: passed_on::PassedOn,
    /// The locals that the loops around change, where that is known.
    pub changing: Option<loops::Changes>,
    /// The place at which a message is sent whose protocol is asked.
    pub sent_at: Span,
    pub span: Span,
}

impl<'c, 'a> Lower<'c, 'a> {
    pub fn new(cx: &'c mut Compiler<'a>, module: ModId, kind: Kind) -> Self {
        let told = cx.diags.len();
        Lower {
            cx,
            module,
            kind,
            locals: vec![],
            scopes: vec![vec![]],
            out: vec![],
            facts: vec![],
            text: 0,
            dot: None,
            params_of: None,
            asked: vec![],
            place: String::new(),
            in_app: false,
            unused: false,
            epoch: 0,
            replied: Replied::No,
            handler: None,
            ret: Ret::Nowhere,
            inlined: vec![],
            called: None,
            building: false,
            held: None,
            cache_block: None,
            impure: false,
            depth: 0,
            too_deep: false,
            loops: 0,
            decision: false,
            failed: false,
            told,
            bounds: HashMap::new(),
            origins: HashMap::new(),
            asking: false,
            pending: vec![],
            made_copies: 0,
            torn: vec![],
            parts_max: sends::MAX_PARTS,
            raw_of: None,
            joined: HashMap::new(),
            grouped: false,
            lists: 0,
            packet: None,
            signal_args: vec![],
            signal_forms: vec![],
            signal_defaults: vec![],
            signal_masked: false,
            bodies: HashMap::new(),
            read_with: HashMap::new(),
            open_runs: vec![],
            part_args: Some(vec![]),
            asked_args: vec![],
            in_other_pieces: Default::default(),
            chunks: None,
            piece: None,
            item: None,
            given: None,
            measuring: vec![],
            walked: HashMap::new(),
            variants_by_name: false,
            frames: false,
            came_from: None,
            talk: Talk::default(),
            arrival: false,
            copy: false,
            queued: false,
            run: None,
            ends: None,
            validity: Validity::Sure,
            beginnings: vec![],
            outlets: vec![],
            under_way: vec![],
            joins: None,
            tail: false,
            element_tail: false,
            popping: vec![],
            mark: None,
            marked: false,
            fields: Default::default(),
            channel: None,
            gone: HashSet::new(),
            passed: HashMap::new(),
            changing: None,
            sent_at: Span::default(),
            span: Span::default(),
        }
    }

    /// Whether only expressions may be made, no statements.
    pub fn pure_only(&self) -> bool {
        matches!(self.kind, Kind::Const | Kind::Grammar(_) | Kind::Clause)
    }

    pub fn err(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Reported {
        self.cx.error(code, span, message)
    }
    pub fn show(&self, t: &Ty) -> String {
        self.cx.show(t)
    }

    pub fn new_local(&mut self, name: &str, ty: &Ty) -> LocalId {
        let t = self.cx.lower_ty(ty);
        self.new_local_of(name, t)
    }

    pub fn new_local_of(&mut self, name: &str, ty: ir::TyId) -> LocalId {
        let n = self.locals.len();
        let name = if name.is_empty() { format!("t{n}") } else { name.to_string() };
        self.locals.push(ir::Local { name, ty, in_frame: false });
        LocalId(n as u32)
    }

    pub fn local_expr(&self, l: LocalId) -> ir::Expr {
        build::local(l, self.locals[l.index()].ty)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn push(&mut self, span: Span, kind: StmtKind) {
        let waits = kind.changes_connection()
            || matches!(
                kind,
                StmtKind::TableUpdate { .. }
                    | StmtKind::Call { .. }
                    | StmtKind::Await { .. }
                    | StmtKind::Reply { .. }
                    | StmtKind::Send { .. }
                    | StmtKind::Tell { .. }
                    | StmtKind::Ask { .. }
                    | StmtKind::Deliver { .. }
                    | StmtKind::Dismiss(_)
                    | StmtKind::Output { .. }
                    | StmtKind::Return(_)
            );
        if self.building && waits {
            // A list is gone through once to count it and once to write it.
            if self.cx.diags.iter().any(|d| d.code == "E0628" && d.span() == Some(span)) {
                return;
            }
            self.cx.report(
                Diagnostic::error(
                    "E0628",
                    span,
                    "this changes a table, waits or answers in the middle of a message that is being built",
                )
                .label("not here")
                .hint("do it before the message, and keep the result: `let x = …`"),
            );
            return;
        }
        if self.held.is_some() {
            use StmtKind::*;
            let what = match kind {
                TableGet { .. } | TableLen { .. } | TableNext { .. } => Some("reads a table"),
                TableUpdate { .. }
                | TablePut { .. }
                | TableRemove { .. }
                | TableInsert { .. }
                | TableDelete { .. }
                | TablePush { .. }
                | TablePop { .. } => Some("changes a table"),
                Call { .. }
                | Await { .. }
                | Reply { .. }
                | Send { .. }
                | Tell { .. }
                | Ask { .. }
                | Deliver { .. }
                | Dismiss(_)
                | OpenUpstream { .. }
                | TakeUpstream { .. }
                | PoolUpstream { .. } => Some("waits, answers or sends"),
                _ => None,
            };
            if let Some(what) = what {
                self.while_held(span, what);
                return;
            }
        }
        if let StmtKind::Call { port, .. }
        | StmtKind::Send { port, .. }
        | StmtKind::GroupBegin { port, .. }
        | StmtKind::SendFrame { port, .. }
        | StmtKind::Frame { act: ir::FrameAct::Send { port, .. }, .. } = &kind
        {
            self.note_call(*port, span);
        }
        let span = self.cx.span(span);
        self.out.push(build::stmt(span, kind));
    }

    /// The flag that the inlined body around has returned.
    pub fn returned(&self) -> Option<LocalId> {
        match &self.ret {
            Ret::Inline { done, .. } => Some(*done),
            Ret::Nowhere | Ret::Body(_) => None,
        }
    }

    /// Refuses statements that cannot stand inside an `update`.
    pub fn while_held(&mut self, span: Span, what: &str) -> Reported {
        self.cx.report(
            Diagnostic::error("E0710", span, format!("this {what} while an entry is held by `update`"))
                .label("not here")
                .hint("move it before or behind the `update`; a `var` can keep its values"),
        )
    }

    /// Sets a fresh temporary.
    pub fn temp(&mut self, name: &str, ty: &Ty, value: ir::Expr, span: Span) -> LocalId {
        let l = self.new_local(name, ty);
        let bound = self.upper(&value);
        if bound < u64::MAX {
            self.bounds.insert(l, bound);
        }
        self.push(span, StmtKind::Set(l, value));
        l
    }

    /// The place of a fault: in a function of the library, the program's call of it.
    pub fn place_id(&mut self, span: Span) -> ir::PlaceId {
        let call = self.called.filter(|_| self.cx.library_file(span));
        self.cx.place_of(self.place.clone(), span, call)
    }

    /// Goes into a body of a module that is put in the place of `span`. Gives the `called` of
    /// before.
    pub fn call_into(&mut self, module: ModId, span: Span) -> Option<Span> {
        let outer = self.called;
        if !self.cx.in_library(self.module) {
            self.called = self.cx.in_library(module).then_some(span);
        }
        outer
    }

    /// Faults unless the condition holds or is known to hold.
    pub fn guard(&mut self, cond: ir::Expr, kind: FaultKind, span: Span) {
        if self.proven(&cond) {
            return;
        }
        let place = self.place_id(span);
        self.know(cond.clone());
        self.push(span, StmtKind::Require { cond, kind, place });
    }

    pub fn bind(&mut self, name: &Ident, val: Val) {
        self.bind_full(name, val, None, false)
    }

    pub fn bind_full(&mut self, name: &Ident, val: Val, var: Option<LocalId>, state: bool) {
        if name.name == "_" {
            return;
        }
        let reply = self.is_reply(&val);
        let b = Binding {
            name: name.name.clone(),
            span: name.span,
            val,
            var,
            used: name.name.starts_with('_'),
            epoch: self.epoch,
            state,
            reply,
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(b);
        }
    }

    /// Bindings that need not be used.
    pub fn bind_all(&mut self, binds: &[(Ident, Val)]) {
        for (n, v) in binds {
            self.bind(n, v.clone());
            if let Some(b) = self.scopes.last_mut().and_then(|s| s.last_mut()) {
                b.used = true;
            }
        }
    }

    fn is_reply(&self, val: &Val) -> bool {
        let root = match &val.kind {
            Vk::Path(p) => p.root,
            Vk::Maybe(_, v) => return self.is_reply(v),
            Vk::Pure(_) | Vk::Out(_) | Vk::Nothing => return matches!(val.ty, Ty::Replies(_)),
        };
        match (root, self.handler) {
            (ir::Root::Local(l), Some(h)) => l != h.req,
            (ir::Root::Local(_), None) => self.kind == Kind::Handler,
            _ => false,
        }
    }

    /// Whether this code has an error, or text of its file that was not understood.
    fn has_errors(&self, at: Span) -> bool {
        let lost = |d: &Diagnostic| d.code.starts_with("E01") && d.span().is_some_and(|s| s.file == at.file);
        let own = self.cx.diags.get(self.told..).unwrap_or_default();
        own.iter().any(Diagnostic::is_error) || self.cx.diags.iter().any(lost)
    }

    pub fn lookup(&self, name: &str) -> Option<(usize, usize)> {
        for (i, scope) in self.scopes.iter().enumerate().rev() {
            if let Some(j) = scope.iter().rposition(|b| b.name == name) {
                return Some((i, j));
            }
        }
        None
    }

    pub fn enter(&mut self) {
        self.scopes.push(vec![]);
    }

    pub fn leave(&mut self) {
        for b in self.scopes.pop().unwrap_or_default() {
            // Where something is wrong it may stand in what was not understood.
            if !b.used && self.inlined.is_empty() && !self.failed && !self.has_errors(b.span) {
                let d = Diagnostic::warning("W0902", b.span, format!("`{}` is never used", b.name))
                    .label("not used")
                    .hint(format!("remove it, or name it `_{}`", b.name));
                self.cx.report(d);
            }
        }
    }

    /// Lowers a piece into a block of its own, with its own scope. The facts that it learned are
    /// forgotten. A fact that it made untrue stays untrue.
    pub fn sub<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> (T, ir::Block) {
        let out = std::mem::take(&mut self.out);
        let facts = self.facts.clone();
        let at = self.facts.len();
        let known = self.beginnings.len();
        self.enter();
        let result = f(self);
        self.look_at_beginnings(known);
        self.leave();
        let block = std::mem::replace(&mut self.out, out);
        let now = std::mem::take(&mut self.facts);
        self.facts = facts;
        if now.len() < at || now[..at] != self.facts[..] {
            // A fact that followed from one that is gone is kept if it holds all the same.
            let (old, new): (Vec<Fact>, Vec<Fact>) = now.into_iter().partition(|f| self.facts.contains(f));
            let new: Vec<Fact> = new.into_iter().filter(|f| self.proven(f)).collect();
            self.facts = old.into_iter().chain(new).collect();
        }
        (result, block)
    }

    /// Stops at nesting that would exhaust the stack.
    pub fn deeper<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> R<T>) -> R<T> {
        // Its neighbours are too deep as well: that is told once.
        if self.too_deep {
            return Err(Reported);
        }
        if self.depth >= MAX_DEPTH {
            self.too_deep = true;
            return Err(self.cx.report(
                Diagnostic::error("E0504", span, "this is nested too deeply").hint("split it with functions or `let`"),
            ));
        }
        self.cx.descend(span, 1).inspect_err(|_| self.too_deep = true)?;
        self.depth += 1;
        let r = f(self);
        if r.is_err() {
            self.cx.must_be_told(span);
        }
        self.depth -= 1;
        self.cx.nesting -= 1;
        r
    }

    /// An expression of the type, as data.
    pub fn expr_as(&mut self, e: &Expr, ty: &Ty) -> R<ir::Expr> {
        let v = self.expr(e, Some(ty))?;
        self.coerce(v, ty, e.span)
    }

    /// The value kept in a local if computing it twice would cost or change something.
    pub fn once(&mut self, v: Val, span: Span) -> Val {
        let Vk::Pure(e) = &v.kind else { return v };
        if self.pure_only() || (is_cheap(e) && !self.mentions_var(e)) || !v.ty.is_plain() || v.ty == Ty::None {
            return v;
        }
        let (ty, e) = (if v.ty == Ty::Lit { crate::ty::U64 } else { v.ty.clone() }, e.clone());
        let l = self.temp("", &ty, e.clone(), span);
        if !self.mentions_var(&e) && unparse_check::constraints::is_telling(&e) {
            self.origins.insert(l, e);
        }
        Val { caseless: v.caseless, ..Val::pure(ty, self.local_expr(l)) }
    }

    /// Whether an expression reads a variable: its value must be taken now.
    fn mentions_var(&self, e: &ir::Expr) -> bool {
        let mut hit = false;
        ir::walk::locals_read(e, &mut |l| hit |= self.scopes.iter().flatten().any(|b| b.var == Some(l)));
        hit
    }

    pub fn body(mut self) -> ir::Body {
        if let (Some(mark), false) = (self.mark, self.marked) {
            let span = self.cx.span(self.span);
            let first = match self.queued {
                true => ir::Expr::new(self.locals[mark.index()].ty, ir::ExprKind::FrameMark(LocalId(0))),
                false => build::u32(0),
            };
            self.out.insert(0, build::stmt(span, StmtKind::Set(mark, first)));
        }
        if !self.marked {
            let span = self.cx.span(self.span);
            for (f, l) in std::mem::take(&mut self.fields).into_iter().rev() {
                let brought = ir::Expr::new(self.locals[l.index()].ty, ir::ExprKind::PacketState(LocalId(0), f));
                self.out.insert(0, build::stmt(span, StmtKind::Set(l, brought)));
            }
        }
        ir::Body { locals: self.locals, block: self.out, ..Default::default() }
    }
}

/// Whether evaluating twice is as good as once.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn is_cheap(e: &ir::Expr) -> bool {
    use ir::ExprKind::*;
    match &*e.kind {
        Int(_) | Bool(_) | Bytes(_) | Local(_) | Param(_) | None | UnitParam(..) | Read(_) | Case(..) | PortLen(_)
        | HasMsg(_) | Held(_) | Acc => true,
        Cast(e) | Get(e, _) | Unwrap(e) | IsSome(e) | Some(e) => is_cheap(e),
        _ => false,
    }
}
