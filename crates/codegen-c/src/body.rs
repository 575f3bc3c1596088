//! Statements: handlers (which can be resumed), functions, a protocol's answers to faults, and its
//! interim answers.
//!
//! Locals are C locals at the top of the function, so that a jump to a resume point passes no
//! declaration. At an `Await` the live ones are stored in the task's frame, together with the
//! bounds of the loops around it. They are loaded again behind it.

use crate::batch_lookup::BatchPlan;
use crate::condition::bare;
use crate::gen::Gen;
use crate::names;
use crate::parser::line;
use crate::scope::Scope;
use std::collections::BTreeSet;
use wireloom_ir::plans::HoistedState;
use wireloom_ir::*;

/// The owner of statements: how they fault, return and reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Handler {
        on: On,
    },
    /// A handler of frames.
    Frame,
    Func {
        ret: TyId,
    },
    /// A protocol's answer to a client without a handler; `msg`: the local of its message.
    Protocol {
        msg: u32,
    },
}

pub(crate) struct BodyGen<'g, 'm> {
    pub g: &'g mut Gen<'m>,
    pub owner: Owner,
    pub out: String,
    pub scope: Scope,
    pub locals: &'m [Local],
    /// Resume points.
    resumes: u32,
    /// Members of the frame.
    pub frame: Vec<(String, String)>,
    /// Hidden counters of the loops around the statement at hand.
    loops: Vec<(String, &'static str)>,
    /// Declarations at the top.
    pub decls: String,
    temps: u32,
    /// Locks that the current statement releases when it is left: tables.
    pub locked: Vec<String>,
    /// The entry that `update` holds, and a bool that tells whether it was set, if handlers wait
    /// for entries of its table.
    pub updated: Option<(LocalId, String)>,
    /// `locked.len()` outside the innermost loop.
    loop_locks: Vec<usize>,
    /// Flags of the calls, in order of the statements.
    call_flags: Vec<&'static str>,
    next_call: usize,
    pub views: Vec<(LocalId, UnitId)>,
    /// The message that is built is to be kept, so all of it is wanted.
    pub rendering: bool,
    /// Items of answers are given in the order in which they were asked for: it is kept over
    /// suspensions.
    in_order: bool,
    /// Values found for the whole batch before the handler runs.
    pub batched: Option<BatchPlan<'m>>,
    /// Values kept beside the state for the length of a batch.
    pub kept: HoistedState,
    /// Keys that are put together where they are used.
    pub late: BTreeSet<LocalId>,
    /// With marks: the handler's name, and the last mark.
    pub title: String,
    marked: String,
    /// Long loops pause.
    pub pauses: bool,
    /// So do large messages.
    pub within: bool,
    /// Branches without a jump.
    selects: Vec<&'m Stmt>,
    pub xdp: crate::xdp::XdpBody<'m>,
}

impl<'g, 'm> BodyGen<'g, 'm> {
    pub fn new(g: &'g mut Gen<'m>, owner: Owner, body: &'m Body) -> Self {
        let scope = Scope::of_locals(&body.locals);
        BodyGen {
            g,
            owner,
            out: String::new(),
            scope,
            locals: &body.locals,
            resumes: 0,
            frame: Vec::new(),
            loops: Vec::new(),
            decls: String::new(),
            temps: 0,
            locked: Vec::new(),
            updated: None,
            loop_locks: Vec::new(),
            call_flags: call_flags(&body.block),
            next_call: 0,
            views: Vec::new(),
            rendering: false,
            in_order: takes_order(&body.block),
            batched: None,
            kept: HoistedState::default(),
            late: BTreeSet::new(),
            title: String::new(),
            marked: String::new(),
            pauses: false,
            within: false,
            selects: body.selects.iter().filter_map(|at| at.find(&body.block)).collect(),
            xdp: Default::default(),
        }
    }

    pub fn name(&self, l: LocalId) -> String {
        self.scope.locals.get(l.index()).map_or_else(|| "none".into(), |l| l.0.clone())
    }

    pub fn temp(&mut self, ty: &str) -> String {
        self.temps += 1;
        let name = format!("tmp{}", self.temps);
        self.decls.push_str(&format!("{ty} {name} = {};\n", if ty == "wl_bytes" { "{0}" } else { "0" }));
        name
    }

    /// A local may be read into in several places.
    fn needs_view(&mut self, local: LocalId, unit: UnitId) {
        if !self.views.contains(&(local, unit)) {
            self.views.push((local, unit))
        }
    }

    /// Declares the locals from number `from` on, zero; of a list only the length is set.
    pub fn declare(&mut self, from: usize) {
        for l in (from as u32..self.locals.len() as u32).map(LocalId) {
            if !self.is_unused(l) && !self.late.contains(&l) {
                self.declare_one(l)
            }
        }
    }

    pub fn declare_one(&mut self, id: LocalId) {
        let l = &self.locals[id.index()];
        let (c, name) = (self.g.cty(l.ty), names::local(l, id.index()));
        let text = match self.g.m.ty(l.ty) {
            Ty::List(..) => format!("{c} {name};\n{name}.n = 0;\n"),
            Ty::Msg(u) if self.g.is_frame(*u) => format!("{c} {name} = NULL;\n"),
            Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) => format!("{c} {name} = 0;\n"),
            Ty::Bytes(_) | Ty::Endpoint | Ty::Ip | Ty::Option(_) | Ty::Record(_) | Ty::Tuple(_) | Ty::Msg(_) => {
                format!("{c} {name} = {{0}};\n")
            }
        };
        self.decls.push_str(&text);
    }

    /// Whether a local's value has been used before the handler runs.
    pub fn is_unused(&self, l: LocalId) -> bool {
        self.batched.as_ref().is_some_and(|a| a.unused.contains(&l))
    }

    pub fn expr(&mut self, e: &Expr) -> String {
        self.g.expr(&self.scope, e)
    }

    /// Leaves with the fault in `x`.
    pub fn leave_fault(&mut self) -> String {
        format!("{}goto fault;", self.unlocks(0))
    }

    /// The kind of the fault of an activation; 0: none.
    fn fault(&self) -> &'static str {
        if self.g.xdp {
            "WL_X(x)->fault"
        } else {
            "x->fault"
        }
    }

    fn unlocks(&self, down_to: usize) -> String {
        self.locked[down_to..].iter().rev().map(|t| format!("wl_table_unlock({t}); ")).collect()
    }

    pub fn check(&mut self, fallible: bool) {
        if fallible {
            let (fault, leave) = (self.fault(), self.leave_fault());
            line!(self, "if (WL_UNLIKELY({fault})) {{ {leave} }}");
        }
    }

    fn check_stmt(&mut self, s: &StmtKind) {
        let mut fallible = false;
        walk::stmt_exprs(s, &mut |e| fallible |= e.may_fault());
        self.check(fallible);
    }

    /// A condition as a C expression that is safe to branch on.
    pub fn condition(&mut self, e: &Expr) -> String {
        if let Some(n) = self.kept.condition(e) {
            return format!("kept.when_{n}");
        }
        let text = self.expr(e);
        if !e.may_fault() {
            return text;
        }
        let t = self.temp("bool");
        line!(self, "{t} = {text};");
        self.check(true);
        t
    }

    pub fn block(&mut self, block: &'m Block) {
        self.marked.clear();
        let mut rest = block.as_slice();
        while let Some(s) = rest.first() {
            let run = rest.iter().take_while(|s| matches!(&s.kind, StmtKind::Emit(e) if self.joins(e))).count();
            if run > 1 && !self.g.xdp {
                self.emit_run(&rest[..run])
            } else {
                self.stmt(s)
            }
            rest = &rest[if self.g.xdp { 1 } else { run.max(1) }..];
        }
        self.marked.clear();
    }

    /// Marks the following code as belonging to the element of a statement, or to its table.
    fn mark(&mut self, s: &Stmt) {
        if self.g.marks.is_none() || self.owner != Owner::Frame {
            return;
        }
        let m = self.g.m;
        let name = match (s.kind.table(), s.span.element.checked_sub(1).and_then(|n| m.elements.get(n as usize))) {
            (Some(t), _) => format!("table {}", m.tables[t.index()].name),
            (None, Some(element)) => format!("element {}", element.name),
            (None, None) => self.title.clone(),
        };
        if name == self.marked {
            return;
        }
        let text = self.g.mark(&name);
        line!(self, "{text}");
        self.marked = name;
    }

    /// Writes the source line of the following code.
    pub fn origin(&mut self, s: &Stmt) {
        self.mark(s);
        if self.g.lines && s.span.line > 0 {
            if let Some(file) = self.g.m.files.get(s.span.file as usize) {
                line!(self, "#line {} {}", s.span.line, names::literal(file.as_bytes()))
            }
        }
    }

    pub fn stmt(&mut self, s: &'m Stmt) {
        self.origin(s);
        if self.g.xdp && self.xdp_stmt(&s.kind) {
            return;
        }
        self.note_update(&s.kind);
        match &s.kind {
            StmtKind::Frame { frame, act } => self.frame_act(*frame, act),
            StmtKind::Output { wire, frame, mark, state, fresh, .. } => {
                if *fresh {
                    self.frame_act(*frame, &FrameAct::Parse)
                }
                self.output(*wire, *frame, mark, state)
            }
            StmtKind::SendFrame { port, index, parts, .. } => self.send_frame(*port, index, parts),
            StmtKind::Set(l, _) if self.is_unused(*l) => {}
            StmtKind::Set(l, e) if self.late.contains(l) => {
                let text = self.expr(e);
                self.scope.locals[l.index()].0 = format!("({text})")
            }
            StmtKind::Set(l, e) if matches!(&*e.kind, ExprKind::Local(from) if from == l) => {}
            StmtKind::Set(l, e) if self.sets_list(&e.kind) => {
                let (name, ty) = (self.name(*l), self.locals[l.index()].ty);
                self.set_list((ty, false), &name, e);
            }
            StmtKind::Set(l, e) => {
                let (name, text) = (self.name(*l), self.expr(e));
                line!(self, "{name} = {text};");
                self.check_stmt(&s.kind);
                self.join_of_values(*l, e);
            }
            StmtKind::SetField(l, path, e) => {
                let (mut at, mut ty) = (self.name(*l), self.locals[l.index()].ty);
                for &i in path {
                    let Some((n, t)) = self.g.members(ty).get(i as usize).cloned() else { break };
                    at = format!("{at}.{n}");
                    ty = t;
                }
                let text = self.expr(e);
                line!(self, "{at} = {text};");
                self.check_stmt(&s.kind);
            }
            StmtKind::SetState(id, e) => {
                let st = &self.g.m.states[id.index()];
                let at = format!("wl_state(x)->s_{}", names::state(self.g.m, *id));
                self.set_stored(st.ty, &at, e);
            }
            StmtKind::SetSession(id, e) => {
                let st = &self.g.m.sessions[id.index()];
                let at = format!("wl_session(x)->{}", names::session(self.g.m, *id));
                self.set_stored(st.ty, &at, e);
            }
            StmtKind::Count(c, e) => {
                let text = self.expr(e);
                if self.kept.counters.contains(c) {
                    line!(self, "kept.c{} += {text};", c.0)
                } else {
                    line!(self, "wl_state(x)->counter[{}] += {text};", c.0)
                }
                self.check_stmt(&s.kind);
            }
            StmtKind::Push(l, e) => {
                let (name, text) = (self.name(*l), self.expr(e));
                let Ty::List(_, max) = *self.g.m.ty(self.locals[l.index()].ty) else { return };
                line!(self, "if ({name}.n < {max}) {name}.v[{name}.n++] = {text};");
                self.check_stmt(&s.kind);
            }
            StmtKind::If { cond, then, other } => {
                let c = self.condition(cond);
                // The kernel's verifier follows branches well, and the hook sends by its result.
                if !self.g.xdp && self.selects.iter().any(|at| std::ptr::eq(*at, s)) {
                    return self.select(&c, then, other);
                }
                line!(self, "if ({}) {{", bare(&c));
                self.block(then);
                if !other.is_empty() {
                    line!(self, "}} else {{");
                    self.block(other);
                }
                line!(self, "}}");
                self.join_of_branches(&[then, other]);
            }
            StmtKind::Switch { on, cases, default } => self.switch(on, cases, default),
            StmtKind::For { var, from, to, body, .. } => self.for_loop(*var, from, to, body, self.pauses_in(&s.kind)),
            StmtKind::Loop { max: 1, body } if self.is_xdp_part(body) => self.xdp_part(body, None),
            StmtKind::Loop { max, body } => {
                let i = self.temp("uint64_t");
                // A function that is a part of its caller has a loop of one round.
                let (first, round) = match max {
                    1 => ("", String::new()),
                    _ => (self.first_round(), self.round()),
                };
                let next = self.next_round(&i, *max);
                line!(self, "for ({i} = 0{first}; {i} < UINT64_C({max}); {next}) {{");
                self.out.push_str(&round);
                self.loop_body(&i, None, body, self.pauses_in(&s.kind));
            }
            StmtKind::Break | StmtKind::Continue => {
                let unlock = self.unlocks(self.loop_locks.last().copied().unwrap_or(0));
                let (at, word) =
                    (self.loops.last().map(|l| l.0.clone()).unwrap_or_default(), matches!(s.kind, StmtKind::Break));
                // By label: the statement may stand in a C switch.
                line!(self, "{unlock}goto {}_{at};", if word { "break" } else { "next" });
            }
            StmtKind::Return(e) => self.ret(e.as_ref()),
            StmtKind::Require { cond, kind, place } => {
                let text = self.expr(cond);
                let leave = self.leave_fault();
                line!(self, "if (WL_UNLIKELY(!({text}))) {{ wl_fail(x, {}, {}); {leave} }}", kind.0, place.0);
                self.check_stmt(&s.kind);
            }
            StmtKind::Fault { kind, place } => {
                let leave = self.leave_fault();
                line!(self, "wl_fail(x, {}, {}); {leave}", kind.0, place.0);
            }
            StmtKind::TableGet { .. }
            | StmtKind::TablePut { .. }
            | StmtKind::TableRemove { .. }
            | StmtKind::TableUpdate { .. }
            | StmtKind::TableLen { .. }
            | StmtKind::TableNext { .. }
            | StmtKind::TableInsert { .. }
            | StmtKind::TableDelete { .. }
            | StmtKind::TablePush { .. }
            | StmtKind::TablePop { .. } => s.kind.table_stmt().into_iter().for_each(|s| self.table(s)),
            StmtKind::GroupBegin { port, .. } => {
                line!(self, "wl_group_begin(x, x->core->port[{}].n);", port.0);
                self.check(true);
            }
            StmtKind::GroupAdd { index, parts } => {
                let (i, texts) = (self.expr(index), parts.iter().map(|p| self.expr(p)).collect::<Vec<_>>());
                line!(self, "wl_group_add(x, {i}, {}, (wl_bytes[]){{{}}});", parts.len(), texts.join(", "));
                self.check(true);
            }
            StmtKind::GroupRun { part, bytes } => {
                let (part, text) = (self.expr(part), self.expr(bytes));
                line!(self, "wl_group_run(x, t, {part}, {text});");
                self.check(true);
            }
            StmtKind::Queue { port, index, act, dst } => self.queue(*port, index, *act, *dst),
            StmtKind::Call { port, index, msg, within, response_args, clauses } => {
                self.call((*port, index), msg, within.as_ref(), (response_args, clauses))
            }
            StmtKind::Await { hold, live, .. } => self.suspend(*hold, live),
            StmtKind::BindPart { dst, part } => {
                let (name, text) = (self.name(*dst), self.expr(part));
                line!(self, "{name} = wl_part(t, {text});");
                // A reply whose view is missing must not be read.
                let leave = self.leave_fault();
                line!(self, "if (WL_UNLIKELY(!{name}.view)) {{ wl_fail(x, WL_F_LOST, 0); {leave} }}");
            }
            StmtKind::Reply { msg, close } => self.reply(msg, *close),
            StmtKind::Send { port, index, msg } => self.send(*port, index, msg),
            StmtKind::Tell { to, protocol, msg, place } => self.tell((*to, *protocol), msg, *place),
            StmtKind::Ask { upstream, protocol, msg, within, matched } => {
                self.ask((*upstream, *protocol), msg, within.as_ref(), matched)
            }
            StmtKind::Deliver { to, protocol, msg, place } => self.deliver((to, *protocol), msg, *place),
            StmtKind::Become { member, protocol, rest, place } => {
                let (to, proto, rest) = (member.number(), protocol.0, u32::from(*rest));
                line!(self, "{{ const uint32_t lost_ = x->core->host->change_protocol(t, {to}, {proto}, {rest});");
                self.unless_lost(*place);
            }
            StmtKind::Hold(member) => line!(self, "x->core->host->hold(t, {}, 1);", member.number()),
            StmtKind::Release(member) => line!(self, "x->core->host->hold(t, {}, 0);", member.number()),
            StmtKind::OpenUpstream { upstream, index, key, place } => {
                self.open("open", (*upstream, index, *place), Some(key.as_ref()))
            }
            StmtKind::TakeUpstream { upstream, index, place } => self.open("take", (*upstream, index, *place), None),
            StmtKind::PoolUpstream { upstream, key } => {
                let text = self.expr(key);
                line!(self, "{{ const wl_bytes k_ = {text};");
                self.check(key.may_fault());
                line!(self, "x->core->host->pool(t, {}, k_); }}", upstream.0);
            }
            StmtKind::Dismiss(to) => self.dismiss(to),
            StmtKind::CloseUpstream(upstream) => line!(self, "x->core->host->shut(t, {});", upstream.0),
            StmtKind::Close => match self.owner {
                Owner::Protocol { .. } => line!(self, "flags |= WL_R_CLOSE;"),
                Owner::Handler { .. } | Owner::Frame | Owner::Func { .. } => {
                    line!(self, "if (x->task && x->conn) x->core->host->close(x->task);")
                }
            },
            StmtKind::Outcome(e) => {
                let text = self.expr(e);
                line!(self, "x->core->outcome = {text};");
                self.check(e.may_fault());
            }
            StmtKind::Log(parts) => self.log(parts),
            StmtKind::Emit(e) => self.emit(e),
            StmtKind::Parse { unit, kept: None, bytes, dst, ok } => self.parse(*unit, bytes, *dst, *ok),
            StmtKind::Parse { unit, kept: Some(args), bytes, dst, ok } => {
                self.parse_kept(*unit, args, bytes, (*dst, *ok))
            }
            StmtKind::Wait { table, key, within } => self.wait(*table, key, within),
            StmtKind::AwaitBody => {
                let flags = self.flags_of_call();
                line!(self, "x->core->host->wait(t, WL_BODY, 0, 0, {flags});")
            }
            StmtKind::SetPiece(e) => {
                let text = self.expr(e);
                line!(self, "{{ wl_bytes piece_ = {text};");
                self.check(e.may_fault());
                line!(self, "(void)x->core->host->tell(t, WL_TO_PIECE, 0, piece_, WL_TAIL_NONE); }}")
            }
            StmtKind::DropBody => {
                line!(self, "(void)x->core->host->tell(t, WL_TO_NONE, 0, wl_b(NULL, 0), WL_TAIL_NONE);")
            }
            StmtKind::Reread { msg, dst, ok } => self.reread(msg, *dst, *ok),
            StmtKind::Render { msg, dst } => {
                self.rendering = true;
                self.build(msg);
                self.rendering = false;
                let name = self.name(*dst);
                line!(self, "{name} = wl_keep(x, {});", self.built_bytes(msg));
                self.check(true);
            }
        }
    }

    fn reread(&mut self, msg: &'m Outgoing, dst: LocalId, ok: LocalId) {
        let Ty::Msg(unit) = *self.g.m.ty(self.locals[dst.index()].ty) else { return };
        self.build(msg);
        let (u, name, ok) = (names::unit(self.g.m, unit), self.name(dst), self.name(ok));
        let (ctx, read) = match msg {
            Outgoing::Pass { msg: of, .. } => {
                let (end, of) = (self.end_of(*of), self.name(*of));
                (format!("{of}.view->ctx"), format!("wl_parse_head({u}_parse, v_, wl_built(x), {end} - {of}.head)"))
            }
            Outgoing::Built { .. } | Outgoing::Nothing => {
                ("0".into(), format!("wl_parse_built({u}_parse, v_, wl_built(x))"))
            }
        };
        self.needs_view(dst, unit);
        line!(
            self,
            "{{ wl_parser *v_ = &view_{name}.p;\nmemset(&view_{name}, 0, sizeof view_{name});\nv_->ctx = {ctx};"
        );
        line!(self, "{ok} = {read};");
        line!(self, "{name} = (wl_msg){{v_, wl_built(x).p, v_->head, 0, {{NULL, 0, 0}}, 0, 0}}; }}");
    }

    /// Whether a value is a list that is filled where it is to lie.
    fn sets_list(&self, e: &ExprKind) -> bool {
        !self.g.xdp && matches!(e, ExprKind::MakeList(_))
    }

    /// Sets the place of a list to its items. All are computed before the first one is stored: they
    /// may come from that place.
    fn set_list(&mut self, (ty, stored): (TyId, bool), at: &str, e: &Expr) {
        let (ExprKind::MakeList(items), Ty::List(item, _)) = (&*e.kind, self.g.m.ty(ty).clone()) else { return };
        let c = self.g.cty(item);
        line!(self, "{{");
        for (i, e) in items.iter().enumerate() {
            let text = self.expr(e);
            line!(self, "const {c} i{i}_ = {text};");
        }
        self.check(e.may_fault());
        for i in 0..items.len() {
            let (place, value) = (format!("{at}.v[{i}]"), format!("i{i}_"));
            let store = if stored { self.g.store(item, &place, &value) } else { format!("{place} = {value};") };
            line!(self, "{store}");
        }
        line!(self, "{at}.n = {};\n}}", items.len());
    }

    fn set_stored(&mut self, ty: TyId, at: &str, e: &Expr) {
        if self.sets_list(&e.kind) {
            return self.set_list((ty, true), at, e);
        }
        let text = self.expr(e);
        if e.may_fault() {
            let c = self.g.cty(ty);
            let store = self.g.store(ty, at, "v_");
            let (fault, leave) = (self.fault(), self.leave_fault());
            line!(self, "{{ {c} v_ = {text};\nif (WL_UNLIKELY({fault})) {{ {leave} }}\n{store} }}");
        } else {
            let store = self.g.store(ty, at, &text);
            line!(self, "{store}");
        }
    }

    fn switch(&mut self, on: &Expr, cases: &'m [(Vec<u64>, Block)], default: &'m Block) {
        if self.fails_as(on, cases, default) {
            return;
        }
        let text = self.condition(on);
        let unsigned = match self.g.m.ty(on.ty) {
            Ty::Int(b) => format!("(uint{}_t)", crate::types::int_width(*b)),
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Record(_)
            | Ty::Tuple(_)
            | Ty::Msg(_) => String::new(),
        };
        line!(self, "switch ({unsigned}({text})) {{");
        for (values, block) in cases {
            if values.is_empty() {
                continue;
            }
            let labels: Vec<_> = values.iter().map(|v| format!("case UINT64_C({v}):")).collect();
            line!(self, "{} {{", labels.join(" "));
            self.block(block);
            line!(self, "break;\n}}");
        }
        line!(self, "default: {{");
        self.block(default);
        line!(self, "break;\n}}\n}}");
        let all: Vec<&Block> = cases.iter().map(|c| &c.1).chain([default]).collect();
        self.join_of_branches(&all);
    }

    /// A switch in which each value is the kind of its fault: the failure of a call.
    fn fails_as(&mut self, on: &Expr, cases: &'m [(Vec<u64>, Block)], default: &'m Block) -> bool {
        let fault = |b: &'m Block| match b.as_slice() {
            [Stmt { kind: StmtKind::Fault { kind, place }, .. }] => Some((u64::from(kind.0), place.0)),
            _ => None,
        };
        let Some((other, place)) = fault(default) else { return false };
        let kinds: Vec<u64> = cases
            .iter()
            .filter_map(|(v, b)| fault(b).filter(|f| f.1 == place && v.as_slice() == [f.0]).map(|f| f.0))
            .collect();
        if kinds.len() != cases.len() || kinds.is_empty() {
            return false;
        }
        let (text, leave) = (self.expr(on), self.leave_fault());
        let known: Vec<_> = kinds.iter().map(|k| format!("k_ == {k}")).collect();
        line!(
            self,
            "{{ uint16_t k_ = (uint16_t)({});\nwl_fail(x, {} ? k_ : {other}, {place}); {leave} }}",
            bare(&text),
            known.join(" || ")
        );
        true
    }

    fn for_loop(&mut self, var: LocalId, from: &Expr, to: &Expr, body: &'m Block, pauses: bool) {
        let name = self.name(var);
        let c = self.g.cty(self.locals[var.index()].ty);
        let (i, end) = (self.temp("uint64_t"), self.temp("uint64_t"));
        let (from_text, to_text) = (self.expr(from), self.expr(to));
        let first = self.first_round();
        line!(self, "{i} = (uint64_t)({from_text}){first}; {end} = (uint64_t)({to_text}){first};");
        self.check(from.may_fault() || to.may_fault());
        let round = self.round();
        let next = self.next_round(&i, u64::MAX);
        line!(self, "for (; {i} < {end}; {next}) {{\n{round}{name} = ({c}){i};");
        self.loop_body(&i, Some(&end), body, pauses);
    }

    fn pauses_in(&self, s: &StmtKind) -> bool {
        self.pauses && passes::pauses::is_long(self.g.m, s, self.locals)
    }

    pub(crate) fn loop_body(&mut self, i: &str, end: Option<&str>, body: &'m Block, pauses: bool) {
        // The part's own loop of one round.
        let part = !std::mem::take(&mut self.xdp.inside);
        let depth = self.loops.len();
        // The counter comes last: `break` and `continue` are named after it.
        if let Some(end) = end {
            self.loops.push((end.to_string(), "uint64_t"))
        }
        self.loops.push((i.to_string(), "uint64_t"));
        self.loop_locks.push(self.locked.len());
        match self.is_xdp_part(body) && part {
            true => self.xdp_part(body, Some(&format!("break_{i}"))),
            false => self.block(body),
        }
        self.loop_locks.pop();
        self.loops.truncate(depth);
        let round = if pauses { "\nwl_round(x);" } else { "" };
        line!(self, "next_{i}:;{round}");
        self.join_of_branches(&[body]);
        line!(self, "}}\nbreak_{i}:;");
        self.join_of_branches(&[body]);
    }

    fn ret(&mut self, e: Option<&Expr>) {
        let unlock = self.unlocks(0);
        match (self.owner, e) {
            (Owner::Func { .. }, Some(e)) => {
                let text = self.expr(e);
                line!(self, "{unlock}return {text};");
            }
            (Owner::Func { ret }, None) => {
                let zero = self.g.zero(ret);
                line!(self, "{unlock}return {zero};");
            }
            (Owner::Handler { on: On::Signal(_) }, Some(e)) => {
                let text = self.expr(e);
                let result = self.temp("wl_bytes");
                line!(self, "{result} = {text};");
                self.check(e.may_fault());
                line!(self, "t->core->host->reply(t, {result}, WL_TAIL_NONE, 0);\n{unlock}return WL_T_DONE;");
            }
            (Owner::Frame, _) => line!(self, "{unlock}goto done;"),
            (Owner::Handler { .. }, _) => line!(self, "{unlock}return WL_T_DONE;"),
            (Owner::Protocol { .. }, _) => line!(self, "{unlock}goto done;"),
        }
    }

    /// Flags for the next call: the needs of the await behind it.
    pub fn flags_of_call(&mut self) -> &'static str {
        let flags = self.call_flags.get(self.next_call).copied().unwrap_or("0");
        self.next_call += 1;
        flags
    }

    fn suspend(&mut self, hold: bool, live: &[LocalId]) {
        self.resumes += 1;
        let n = self.resumes;
        let (mut save, mut restore) = (String::new(), String::new());
        for &l in live {
            let ty = self.locals[l.index()].ty;
            if matches!(self.g.m.ty(ty), Ty::Msg(_)) {
                continue;
            }
            let name = self.name(l);
            let (stored, at) = (self.g.stored(ty), format!("frame->{name}"));
            save.push_str(&(self.g.store(ty, &at, &name) + "\n"));
            restore.push_str(&format!("{name} = {};\n", self.g.load(ty, &at)));
            self.add_frame(stored, name);
        }
        for (name, c) in self.loops.clone() {
            save.push_str(&format!("frame->{name} = {name};\n"));
            restore.push_str(&format!("{name} = frame->{name};\n"));
            self.add_frame(c.to_string(), name);
        }
        let leave = self.leave_fault();
        if self.in_order {
            // An answer that is not kept may not arrive in a pause.
            if self.within && !hold {
                line!(self, "x->within = 0;")
            }
            line!(self, "if (!wl_group_keep(x, t)) {{ {leave} }}")
        }
        line!(self, "{save}t->pc = {n};\nreturn WL_T_SUSPEND;\nR{n}:;\n{restore}held = {};", hold as u8);
    }

    fn add_frame(&mut self, ty: String, name: String) {
        if !self.frame.iter().any(|(_, n)| *n == name) {
            self.frame.push((ty, name))
        }
    }

    pub fn resumes(&self) -> u32 {
        self.resumes
    }

    /// Logs the parts' text, one after another.
    fn log(&mut self, parts: &[Expr]) {
        let mut texts = Vec::new();
        for e in parts {
            let text = self.expr(e);
            texts.push(match self.g.m.ty(e.ty) {
                Ty::Bytes(_) => text,
                Ty::Bool => format!("({text} ? wl_b(\"true\", 4) : wl_b(\"false\", 5))"),
                Ty::UInt(_) => format!("wl_text_u64(x, (uint64_t)({text}))"),
                Ty::Int(_) => format!("wl_text_i64(x, {text})"),
                Ty::Ip => format!("wl_text_ip(x, {text})"),
                Ty::Endpoint => format!("wl_text_endpoint(x, {text})"),
                Ty::Unit | Ty::Option(_) | Ty::List(..) | Ty::Record(_) | Ty::Tuple(_) | Ty::Msg(_) => continue,
            });
        }
        if texts.is_empty() {
            return;
        }
        // One text is logged where it is.
        let line = match &texts[..] {
            [one] => one.clone(),
            _ => format!("wl_concat(x, {}, (wl_bytes[]){{{}}})", texts.len(), texts.join(", ")),
        };
        // A message with a fault is not logged.
        line!(self, "{{ wl_bytes line_ = {line};");
        self.check(true);
        line!(self, "x->core->host->log(x->core, 1, line_); }}");
    }

    /// Parses bytes as a whole message (tests).
    fn parse(&mut self, unit: UnitId, bytes: &Expr, dst: LocalId, ok: LocalId) {
        let (u, name, ok) = (names::unit(self.g.m, unit), self.name(dst), self.name(ok));
        self.needs_view(dst, unit);
        let text = self.expr(bytes);
        line!(self, "{{ wl_bytes b_ = {text};");
        self.check(bytes.may_fault());
        line!(self, "memset(&view_{name}, 0, sizeof view_{name});\nwl_parser *v_ = &view_{name}.p;\n{ok} = wl_parse_whole({u}_parse, {u}_tail, v_, b_);");
        line!(self, "{name} = (wl_msg){{v_, b_.p, v_->head, 0, {{NULL, 0, 0}}, b_.n, 0}}; }}");
    }

    /// Reads a message that the program has kept, under the parameters of the one who reads it.
    fn parse_kept(&mut self, unit: UnitId, args: &[Expr], bytes: &Expr, (dst, ok): (LocalId, LocalId)) {
        let (u, name, ok) = (names::unit(self.g.m, unit), self.name(dst), self.name(ok));
        self.needs_view(dst, unit);
        let (text, ctx) = (self.expr(bytes), self.packed(unit, args));
        line!(self, "{{ wl_bytes b_ = {text};\nview_{name}.p = (wl_parser){{.ctx = {ctx}}};");
        self.check(bytes.may_fault() || args.iter().any(Expr::may_fault));
        line!(self, "{ok} = wl_parse_kept(x, {u}_parse, {u}_tail, &view_{name}.p, b_, &{name}); }}");
        self.check(true);
    }

    /// A part that ends when the entry of a table has changed.
    fn wait(&mut self, table: TableId, key: &Expr, within: &Expr) {
        let (flags, text) = (self.flags_of_call(), self.expr(within));
        line!(self, "{{ const uint64_t for_ = {text};");
        self.check(within.may_fault());
        let hash = self.key_hash(table, key);
        line!(self, "x->core->host->wait(t, {}, {hash}, for_, {flags}); }} }}", table.0);
    }
}

fn takes_order(block: &Block) -> bool {
    let mut found = false;
    walk::stmts(block, &mut |s| found |= matches!(s.kind, StmtKind::Emit(Emit::InOrder { .. })));
    found
}

/// For each call in the order of statements, the needs of the first await behind it (behind the
/// last: of all awaits together).
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn call_flags(block: &Block) -> Vec<&'static str> {
    enum Op {
        Call,
        Await(bool, bool),
    }
    let mut ops = Vec::new();
    walk::stmts(block, &mut |s| match &s.kind {
        StmtKind::Call { .. } | StmtKind::Ask { .. } | StmtKind::Wait { .. } | StmtKind::AwaitBody => {
            ops.push(Op::Call)
        }
        StmtKind::Await { hold, hold_req, .. } => ops.push(Op::Await(*hold, *hold_req)),
        _ => {}
    });
    let all = ops.iter().fold((false, false), |a, o| match o {
        Op::Await(h, r) => (a.0 || *h, a.1 || *r),
        Op::Call => a,
    });
    let text = |(hold, req)| match (hold, req) {
        (false, false) => "0",
        (true, false) => "WL_C_HOLD",
        (false, true) => "WL_C_HOLD_REQ",
        (true, true) => "WL_C_HOLD | WL_C_HOLD_REQ",
    };
    let mut flags = Vec::new();
    for (i, o) in ops.iter().enumerate() {
        if let Op::Call = o {
            let next = ops[i..].iter().find_map(|o| match o {
                Op::Await(h, r) => Some((*h, *r)),
                Op::Call => None,
            });
            flags.push(text(next.unwrap_or(all)));
        }
    }
    flags
}
