//! The whole file: state, functions, handlers, fault replies, and the table that the runtime gets.

use crate::batch_lookup::hoisted_back;
use crate::body::{BodyGen, Owner};
use crate::gen::Gen;
use crate::names;
use crate::parser::line;
use crate::scope::Scope;
use crate::split::apart;
use wireloom_ir::*;

/// Largest scratch of one activation.
const SCRATCH_MAX: u64 = 8 << 20;
/// The same in programs that put items into groups: the items of one large request, and their
/// groups' bytes. Only used pages of it take memory.
const GROUP_SCRATCH_MAX: u64 = 64 << 20;

/// A function that tells something about a message: by what name, for what, and of which message.
struct Given {
    name: &'static str,
    purpose: &'static str,
    message: &'static str,
}

const NOTE: Given = Given { name: "note", purpose: "a line of the access log", message: "req" };
const ANSWER: Given = Given { name: "answer", purpose: "the class of an answer among several", message: "rep" };

impl<'m> Gen<'m> {
    /// Emits everything after the parsers.
    pub fn program(&mut self) {
        self.state_structs();
        self.functions();
        let m = self.m;
        let mut frames = Vec::new();
        for id in m.inputs_in_order().into_iter().rev() {
            self.input(id)
        }
        for (i, h) in m.handlers.iter().enumerate() {
            frames.push(self.handler(i, h))
        }
        for (i, p) in m.protocols.iter().enumerate() {
            if let Some(body) = &p.on_log {
                self.given(i, p, body, &NOTE)
            }
            if let Some(body) = &p.on_fault {
                self.fault_reply(i, p, body)
            }
            if let Some(body) = &p.on_interim {
                self.interim(i, p, body)
            }
            if let Some(body) = &p.on_answer {
                self.given(i, p, body, &ANSWER)
            }
        }
        self.tables_and_entry(&frames);
    }

    fn state_structs(&mut self) {
        let m = self.m;
        let mut text = String::from("/* Of one core. Counters come first. */\ntypedef struct app_state {\n");
        if !m.counters.is_empty() {
            text.push_str(&format!("uint64_t counter[{}];\n", m.counters.len()))
        }
        for (i, s) in m.states.iter().enumerate() {
            let name = names::state(m, StateId(i as u32));
            text.push_str(&match s.memory {
                true => format!("uint64_t s_{name}[{}];\n", layout::bytes_in(m, s.ty).div_ceil(8)),
                false => format!("{} s_{name};\n", self.stored(s.ty)),
            })
        }
        let scratch = self.scratch();
        let (sizes, flows) = self.flow_members();
        let tables = flows + &self.array_members() + &self.keyed_members();
        let rest = if self.has_frames() {
            format!("uint8_t rest[{}]; /* of handlers of frames, see wl_lanes_try */\n", self.m.handlers.len().max(1))
        } else {
            String::new()
        };
        let saved = self.saved_frames();
        if saved > 0 {
            text.push_str(&format!("wl_saved saved[{saved}]; /* frames that elements have for themselves */\n"))
        }
        text.push_str(&format!("uint8_t scratch[{scratch}];\n{rest}{tables}}} app_state;\n"));
        text.insert_str(0, &sizes);
        if !m.sessions.is_empty() {
            text.push_str("/* Of one client connection. */\ntypedef struct app_session {\n");
            for (i, s) in m.sessions.iter().enumerate() {
                text.push_str(&format!("{} {};\n", self.stored(s.ty), names::session(m, SessionId(i as u32))))
            }
            text.push_str("} app_session;\n#define wl_session(x) ((app_session *)(x)->conn->session)\n");
        }
        text.push_str("#define wl_state(x) ((app_state *)(x)->core->state)\n\n");
        self.types.push_str(&text);
        self.table_structs();
    }

    /// How many frames are kept at a time, one in another.
    fn saved_frames(&self) -> u32 {
        let mut most = 0;
        self.m.bodies(&mut |b| {
            walk::stmts(&b.block, &mut |s| {
                if let StmtKind::Frame { act: FrameAct::Save { copy }, .. } = &s.kind {
                    most = most.max(copy + 1)
                }
            })
        });
        most
    }

    /// Scratch that a call of each function can take.
    fn function_scratch(&self) -> Vec<u64> {
        let mut known = vec![0u64; self.m.funcs.len()];
        // Functions do not recurse: as many rounds as functions reach a fixed point.
        for _ in 0..known.len() {
            let before = known.clone();
            for (i, f) in self.m.funcs.iter().enumerate() {
                if let FuncBody::Body(b) = &f.body {
                    known[i] = self.block_scratch(&b.block, &known)
                }
            }
            if known == before {
                break;
            }
        }
        known
    }

    /// Scratch that one activation of the hungriest handler can take, functions it calls included.
    fn scratch(&self) -> u64 {
        let m = self.m;
        let of_func = self.function_scratch();
        let bodies = m.handlers.iter().map(|h| &h.body).chain(m.protocols.iter().flat_map(|p| p.bodies()).flatten());
        // Of inputs that are joined to, each at most once for each output that leads there.
        let mut of_input = vec![0u64; m.inputs.len()];
        let joined = |block: &Block, of_input: &[u64]| {
            m.outputs(block)
                .into_iter()
                .fold(self.block_scratch(block, &of_func), |n, i| n.saturating_add(of_input[i.index()]))
        };
        for id in m.inputs_in_order().into_iter().rev() {
            if let Some(b) = m.input_body(id) {
                of_input[id.index()] = joined(&b.block, &of_input)
            }
        }
        let points = m.ports.iter().filter_map(|p| p.consistent).map(|f| of_func[f.index()]);
        bodies.map(|b| joined(&b.block, &of_input)).chain(points).max().unwrap_or(0).clamp(256, self.scratch_max())
    }

    fn scratch_max(&self) -> u64 {
        let mut groups = false;
        self.m.bodies(&mut |b| walk::stmts(&b.block, &mut |s| groups |= matches!(s.kind, StmtKind::GroupBegin { .. })));
        if groups {
            GROUP_SCRATCH_MAX
        } else {
            SCRATCH_MAX
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn block_scratch(&self, block: &Block, funcs: &[u64]) -> u64 {
        let mut total = 0u64;
        for s in block {
            let mut own = 0u64;
            walk::stmt_exprs(&s.kind, &mut |e| own = own.saturating_add(self.expr_scratch(e, funcs)));
            match &s.kind {
                StmtKind::TableGet { table, .. }
                | StmtKind::TableUpdate { table, .. }
                | StmtKind::TablePop { table, .. } => {
                    own = own.saturating_add(layout::bytes_in(self.m, self.m.tables[table.index()].value))
                }
                StmtKind::TableNext { table, .. } => {
                    let t = &self.m.tables[table.index()];
                    own = own
                        .saturating_add(layout::bytes_in(self.m, t.key))
                        .saturating_add(layout::bytes_in(self.m, t.value));
                }
                // To be kept, in a queue or in a table.
                StmtKind::Render { .. } => {
                    let kept = self.m.tables.iter().map(|t| layout::bytes_in(self.m, t.value)).max();
                    own = own.saturating_add(kept.unwrap_or(0).max(64 << 10))
                }
                // Streamed bytes that lie in pieces are put together.
                StmtKind::Parse { kept: Some(_), bytes, .. } => {
                    own = own.saturating_add(layout::bytes_in(self.m, bytes.ty))
                }
                // The parts' texts are put together in scratch, those too that lie in a message.
                StmtKind::Log(parts) => {
                    let texts = parts.iter().fold(512u64, |sum, e| sum.saturating_add(layout::bytes_in(self.m, e.ty)));
                    own = own.saturating_mul(2).saturating_add(texts);
                }
                StmtKind::GroupBegin { max, .. } => own = own.saturating_add(18 * u64::from(*max) + 16),
                StmtKind::Emit(Emit::InOrder { .. }) => own = own.saturating_add(16 * 65_536),
                StmtKind::GroupAdd { parts, .. } => {
                    own = parts
                        .iter()
                        .fold(own.saturating_add(18), |sum, e| sum.saturating_add(layout::bytes_in(self.m, e.ty)))
                }
                _ => {}
            }
            own = own.saturating_add(self.key_scratch(&s.kind));
            // Conditions of edits are evaluated once per item where items are removed.
            if walk::outgoing(&s.kind).is_some_and(removes) {
                own = own.saturating_mul(128)
            }
            let mut inner = 0u64;
            walk::stmt_blocks(&s.kind, &mut |b| inner = inner.saturating_add(self.block_scratch(b, funcs)));
            let rounds = match &s.kind {
                StmtKind::For { max, .. } | StmtKind::Loop { max, .. } => *max,
                _ => 1,
            };
            total = total.saturating_add(own).saturating_add(inner.saturating_mul(rounds));
        }
        total.min(GROUP_SCRATCH_MAX)
    }

    /// Scratch that one evaluation can take.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn expr_scratch(&self, e: &Expr, funcs: &[u64]) -> u64 {
        let mut total = 0u64;
        walk::expr(e, &mut |e| match &*e.kind {
            ExprKind::Builtin(b, _) if b.takes_scratch() => {
                total = total.saturating_add(layout::bytes_in(self.m, e.ty).clamp(48, SCRATCH_MAX))
            }
            ExprKind::GroupBytes(_) => total = total.saturating_add(layout::bytes_in(self.m, e.ty)),
            ExprKind::Call(f, _) => total = total.saturating_add(funcs.get(f.index()).copied().unwrap_or(0)),
            _ => {}
        });
        total
    }

    /// Scratch for one grammar expression or clause.
    pub fn grammar_scratch(&self) -> u64 {
        let m = self.m;
        let of_func = self.function_scratch();
        let mut most = 256;
        for u in 0..m.units.len() {
            m.unit_exprs(UnitId(u as u32), &mut |e, _| most = most.max(self.expr_scratch(e, &of_func)));
        }
        for p in &m.protocols {
            for e in p.request_clauses().into_iter().chain(p.response_clauses()).flatten() {
                most += self.expr_scratch(e, &of_func)
            }
        }
        most.min(1 << 20)
    }

    fn functions(&mut self) {
        let m = self.m;
        let mut protos = String::new();
        let stacks = stack::Stacks::new(m);
        let storage = |id: usize| match stacks.is_apart(FuncId(id as u32)) {
            true => "WL_APART static",
            false => "static inline",
        };
        for (id, f) in m.funcs.iter().enumerate() {
            let params: Vec<_> = match &f.body {
                FuncBody::Body(b) => b
                    .locals
                    .iter()
                    .take(f.params as usize)
                    .enumerate()
                    .map(|(i, l)| format!("{} {}", self.cty(l.ty), names::local(l, i)))
                    .collect(),
                FuncBody::Extern { .. } => Vec::new(),
            };
            let ret = self.cty(f.ret);
            if let FuncBody::Body(_) = &f.body {
                let params: String = params.iter().map(|p| format!(", {p}")).collect();
                protos.push_str(&format!(
                    "{} {ret} {}(wl_fx *x{params});\n",
                    storage(id),
                    names::func(m, FuncId(id as u32))
                ));
            }
        }
        protos.push_str(&self.extern_protos());
        self.helpers.insert_str(0, &protos);
        for (id, f) in m.funcs.iter().enumerate() {
            let FuncBody::Body(body) = &f.body else { continue };
            let ret = self.cty(f.ret);
            let params: String = body
                .locals
                .iter()
                .take(f.params as usize)
                .enumerate()
                .map(|(i, l)| format!(", {} {}", self.cty(l.ty), names::local(l, i)))
                .collect();
            let zero = self.zero(f.ret);
            let mut b = BodyGen::new(self, Owner::Func { ret: f.ret }, body);
            b.pauses = b.g.pauses[id];
            b.declare(f.params as usize);
            b.block(&body.block);
            let (decls, out) = (b.decls, b.out);
            let fault = if out.contains("goto fault;") { "fault:;\n" } else { "" };
            self.code.push_str(&format!(
                "/* fn {} */\n{} {ret} {}(wl_fx *x{params}) {{\n(void)x;\n{decls}{out}{fault}return {zero};\n}}\n\n",
                names::comment(&f.name),
                storage(id),
                names::func(m, FuncId(id as u32))
            ));
        }
    }

    /// Declarations of the extern functions, by the types of the calls' arguments.
    fn extern_protos(&mut self) -> String {
        let m = self.m;
        let mut out = String::new();
        for call in crate::in_c::calls(m) {
            let func = &m.funcs[call.func.index()];
            let FuncBody::Extern { file, symbol } = &func.body else { continue };
            self.externs.insert(file.clone());
            self.extern_names.insert(symbol.clone());
            let given = call.given.iter().map(ToString::to_string);
            let args: Vec<_> = given.chain(call.args.iter().map(|t| self.cty(*t))).collect();
            out.push_str(&format!(
                "{} {}({}) __asm__(\"{}\");\n",
                self.cty(func.ret),
                names::extern_fn(symbol),
                if args.is_empty() { "void".into() } else { args.join(", ") },
                names::extern_symbol(symbol)
            ));
        }
        out
    }

    /// Emits a handler; answers the C type of its frame, if it has one.
    fn handler(&mut self, i: usize, h: &'m Handler) -> Option<String> {
        if let Some(unit) = h.on.frame_unit() {
            self.frame_handler(i, h, unit);
            return None;
        }
        let name = format!("on_{i}_{}", names::ident(&h.name));
        let mut b = BodyGen::new(self, Owner::Handler { on: h.on }, &h.body);
        b.pauses = h.plan.pause.is_yes();
        b.within = h.plan.pause.within();
        b.declare(0);
        let first = |i: u32, v: &str, b: &mut BodyGen| {
            if b.locals.len() > i as usize {
                let n = b.name(LocalId(i));
                line!(b, "{n} = {v};")
            }
        };
        match h.on {
            On::Message { .. } | On::Piece { .. } | On::Upstream { .. } => first(0, "t->req", &mut b),
            On::Opened(_) | On::Greeting(_) | On::Probe(_) | On::Reset(_) | On::UpstreamOpened(_) => {
                first(0, "t->conn ? t->conn->instance : 0", &mut b)
            }
            On::Closed(_) | On::UpstreamClosed(_) => {
                first(0, "t->conn ? t->conn->instance : 0", &mut b);
                first(1, "t->fault", &mut b);
            }
            On::Fault => {
                first(0, "t->fault", &mut b);
                first(1, "t->place", &mut b);
            }
            On::Signal(n) => {
                let args: Vec<_> = b.g.m.signals[n as usize].args.iter().map(|(_, t)| *t).collect();
                for (i, t) in args.into_iter().enumerate() {
                    let part = match t {
                        desc::ParamType::Bytes(_) => "b",
                        desc::ParamType::Endpoint => "ep",
                        desc::ParamType::Bool
                        | desc::ParamType::UInt(_)
                        | desc::ParamType::Duration
                        | desc::ParamType::Texts(..)
                        | desc::ParamType::Endpoints(_) => "u",
                    };
                    let cast = match t.value() {
                        Ty::UInt(_) => {
                            let ty = b.locals[i].ty;
                            format!("({})", b.g.cty(ty))
                        }
                        Ty::Unit
                        | Ty::Bool
                        | Ty::Int(_)
                        | Ty::Bytes(_)
                        | Ty::Endpoint
                        | Ty::Ip
                        | Ty::Option(_)
                        | Ty::List(..)
                        | Ty::Record(_)
                        | Ty::Tuple(_)
                        | Ty::Msg(_) => String::new(),
                    };
                    first(
                        i as u32,
                        &format!("{cast}((const wl_param *)(const void *)t->req.base)[{i}].{part}"),
                        &mut b,
                    );
                }
            }
            On::Start | On::End | On::Every(_) | On::Test(_) | On::Frame { .. } | On::Check { .. } => {}
        }
        if b.within {
            line!(b, "x->within = 1;")
        }
        if !passes::time_limit::is_limited(h.on) && b.g.may_look(h) {
            line!(b, "x->begun = UINT64_MAX;")
        }
        let start = std::mem::take(&mut b.out);
        b.block(&h.body.block);
        let (decls, out, frame, resumes, views) =
            (b.decls.clone(), b.out.clone(), b.frame.clone(), b.resumes(), b.views.clone());
        // Of a handler that pauses others may run in between.
        let place = if h.plan.pause.is_yes() { "" } else { "static _Thread_local " };
        let locals: Vec<_> = views
            .iter()
            .map(|(l, u)| {
                format!(
                    "{place}{}_view view_{};\n",
                    names::unit(self.m, *u),
                    names::local(&h.body.locals[l.index()], l.index())
                )
            })
            .collect();
        let frame_ty = (!frame.is_empty()).then(|| format!("frame_{i}"));
        if let Some(f) = &frame_ty {
            let members: String = frame.iter().map(|(t, n)| format!("{t} {n};\n")).collect();
            self.types.push_str(&format!(
                "/* The values of {} that it keeps while it is suspended. */\ntypedef struct {f} {{\n{members}}} {f};\n",
                names::comment(&h.name)
            ));
        }
        let frame_decl = frame_ty.as_ref().map(|f| format!("{f} *frame = t->frame;\n")).unwrap_or_default();
        let dispatch: String = (1..=resumes).map(|i| format!("case {i}: goto R{i};\n")).collect();
        let dispatch =
            if resumes > 0 { format!("switch (t->pc) {{\n{dispatch}default: break;\n}}\n") } else { String::new() };
        // Compiled for size: signals are many, and all these run now and then.
        let rare = if matches!(h.on, On::Signal(_) | On::Start | On::End) { "WL_RARE " } else { "" };
        let proto = format!("int {name}(wl_fx *x, wl_task *t)");
        let text = format!(
            "/* {} */\n{rare}static {proto} {{\nbool held = false;\n(void)x; (void)t; (void)held;\n{frame_decl}{}{decls}{start}{dispatch}{out}\
             return WL_T_DONE;\nfault:;\nt->fault = x->fault;\nt->place = x->place;\nreturn WL_T_FAULT;\n}}\n\n",
            names::comment(&h.name),
            locals.join("")
        );
        self.code.push_str(&apart(&[proto], &text));
        frame_ty
    }

    /// An input that is joined to: it works on its sender's view.
    fn input(&mut self, id: InputId) {
        let input = &self.m.inputs[id.index()];
        let Some(body) = &input.body else { return };
        self.frame_unit(input.unit);
        let mut b = BodyGen::new(self, Owner::Frame, body);
        b.title = input.name.clone();
        b.declare(input.given());
        b.block(&body.block);
        let frame = b.name(LocalId(0));
        let given: Vec<String> = (1..input.given())
            .map(|n| (b.g.cty(body.locals[n].ty), b.name(LocalId(n as u32))))
            .map(|(c, name)| format!("{c} {name}"))
            .collect();
        let (decls, out, views) = (b.decls, b.out, b.views);
        let locals: String = views
            .iter()
            .map(|(l, u)| {
                format!(
                    "static _Thread_local {}_view view_{};\n",
                    names::unit(self.m, *u),
                    names::local(&body.locals[l.index()], l.index())
                )
            })
            .collect();
        let fault = if out.contains("goto fault;") { "fault:;\nreturn WL_T_FAULT;\n" } else { "" };
        let args: String = given.iter().map(|a| format!(", {a}")).collect();
        let name = |a: &String| a.rsplit(' ').next().unwrap_or_default().to_string();
        let unused: String = given.iter().map(|a| format!("(void){};\n", name(a))).collect();
        let proto = format!("int {}(wl_fx *x, wl_view *{frame}{args})", names::input(self.m, id));
        let of = input
            .element
            .map_or(String::new(), |e| format!("element {}: ", names::comment(&self.m.elements[e.index()].name)));
        let text = format!("/* {of}{} */\nstatic {proto} {{\n(void)x;\n(void){frame};\n{unused}{locals}{decls}{out}return WL_T_DONE;\n{fault}}}\n\n", names::comment(&input.name));
        self.code.push_str(&apart(&[proto], &text));
    }

    /// A handler of frames: no task, no suspension.
    fn frame_handler(&mut self, i: usize, h: &'m Handler, unit: UnitId) {
        self.frame_unit(unit);
        let (batched, kept) = (self.batched(h), &h.plan.hoisted);
        let second = batched.as_ref().map(|a| format!(", const {} *batched", self.batch_entry_type(i, a)));
        let (third, back) = if kept.is_empty() {
            (String::new(), String::new())
        } else {
            (format!(", wl_kept_{i} *keep"), hoisted_back(kept))
        };
        if !kept.is_empty() {
            let text = self.kept_type(i, kept);
            self.code.push_str(&text);
        }
        let carried = h.on.frame_port().and_then(|p| self.m.carries(p));
        self.carried_in = carried.into_iter().flat_map(|c| c.state.iter().copied()).collect();
        let mut b = BodyGen::new(self, Owner::Frame, &h.body);
        b.kept = kept.clone();
        b.batched = batched;
        b.late = h.plan.late.iter().copied().collect();
        b.title = format!("on {}", h.name);
        b.declare(1);
        b.block(&h.body.block);
        let (decls, out, views) = (b.decls, b.out, b.views);
        let frame = names::local(&h.body.locals[0], 0);
        let locals: String = views
            .iter()
            .map(|(l, u)| {
                format!(
                    "static _Thread_local {}_view view_{};\n",
                    names::unit(self.m, *u),
                    names::local(&h.body.locals[l.index()], l.index())
                )
            })
            .collect();
        let taken = self.mark_taken(h, &frame) + self.time_begins(h);
        // As values, not behind the pointer: then they are registers for the length of a batch.
        let (begin, end) = if third.is_empty() {
            (String::new(), "")
        } else {
            (format!("wl_kept_{i} kept = *keep;\n"), back.as_str())
        };
        let done = if out.contains("goto done;") { "done:;\n" } else { "" };
        let fault =
            if out.contains("goto fault;") { format!("fault:;\n{end}return WL_T_FAULT;\n") } else { String::new() };
        if ["(x", "x->"].iter().any(|x| decls.contains(x) || out.contains(x)) {
            self.frames.scratch.insert(i);
        }
        self.code.push_str(&format!(
            "/* {} */\nWL_INLINE int on_{i}_{}(wl_fx *x, wl_view *{frame}{}{third}) {{\n(void)x;\n{taken}{begin}{locals}{decls}{out}{done}{end}return WL_T_DONE;\n{fault}}}\n\n",
            names::comment(&h.name), names::ident(&h.name), second.unwrap_or_default()
        ));
    }

    /// An activation is one batch of frames, but each frame has time of its own.
    fn time_begins(&self, h: &Handler) -> &'static str {
        if self.may_look(h) {
            "x->spent = x->begun = 0;\n"
        } else {
            ""
        }
    }

    /// The state that a packet brings from its queue. It is read before its entry is filled anew.
    fn state_taken(&mut self, carries: &Carries, frame: &str) -> String {
        let (m, entry) = (self.m, layout::Entry::of(self.m, carries));
        let mut text = String::new();
        for f in &entry.fields {
            let ty = m.packet[f.field.index()].ty;
            let (c, get) = (self.cty(ty), crate::frame_act::stored_as(m, ty));
            let value = format!("wl_entry_get_{get}(WL_ENTRY(x, {frame}->f, {}), {})", layout::entry_max(m), f.at);
            let value = if *m.ty(ty) == Ty::Ip { value } else { format!("({c}){value}") };
            text.push_str(&format!("const {c} state_in_{0} = {value};\n(void)state_in_{0};\n", f.field.0));
        }
        text
    }

    /// The mark of a frame that comes from a queue, which stands where the frame leaves through.
    fn mark_taken(&mut self, h: &Handler, frame: &str) -> String {
        if let Some(carries) = h.on.frame_port().and_then(|p| self.m.carries(p)) {
            return format!("const uint32_t mark_in = {frame}->f->out;\n(void)mark_in;\n{frame}->f->out = WL_GONE;\nx->core->at = {frame}->f;\n")
                + &self.state_taken(carries, frame);
        }
        let mut asks = false;
        walk::block_exprs(&h.body.block, &mut |e| asks |= matches!(*e.kind, ExprKind::FrameMark(_)));
        if asks {
            "const uint32_t mark_in = 0;\n".into()
        } else {
            String::new()
        }
    }

    fn fault_reply(&mut self, i: usize, p: &Protocol, body: &'m Body) {
        let mut b = BodyGen::new(self, Owner::Protocol { msg: 2 }, body);
        b.declare(0);
        let values =
            ["f->kind", "(f->side & WL_SIDE_IN_STEP) != 0", "req ? *req : (wl_msg){0}", "wl_b(f->start, f->start_n)"]
                .map(String::from);
        let params = p.response.map_or(&[][..], |u| &b.g.m.unit(u).params);
        let asked = params.iter().map(|p| format!("f->ctx >> {} & UINT64_C({:#x})", p.shift, p.mask()));
        for (n, v) in values.into_iter().chain(asked).enumerate().take(body.locals.len()) {
            let (l, ty) = (b.name(LocalId(n as u32)), body.locals[n].ty);
            match n < Protocol::FAULT_LOCALS {
                true => line!(b, "{l} = {v};"),
                false => {
                    let c = b.g.cty(ty);
                    line!(b, "{l} = ({c})({v});")
                }
            }
        }
        b.block(&body.block);
        let (decls, out) = (b.decls, b.out);
        let proto = format!("uint32_t fault_reply_{i}(wl_fx *x, const wl_fault *f, const wl_msg *req)");
        let text = format!(
            "/* protocol {}: on fault */\nstatic {proto} {{\nuint32_t flags = 0;\nbool held = false;\n\
             (void)f; (void)req; (void)held;\n{decls}{out}done:;\nreturn flags;\nfault:;\nwl_begin(x);\nreturn WL_R_CLOSE;\n}}\n\n",
            names::comment(&p.name)
        );
        self.code.push_str(&apart(&[proto], &text));
    }

    /// The declarations and statements of a protocol's body whose first local is a message.
    fn given_message(&mut self, body: &'m Body, message: &str) -> (String, String) {
        let mut b = BodyGen::new(self, Owner::Protocol { msg: 0 }, body);
        b.declare(0);
        let local = b.name(LocalId(0));
        line!(b, "{local} = {message};");
        b.block(&body.block);
        (b.decls, b.out)
    }

    /// The facts about a message, without an answer.
    fn given(&mut self, i: usize, p: &Protocol, body: &'m Body, g: &Given) {
        let (decls, mut out) = self.given_message(body, &format!("*{}", g.message));
        for label in ["done", "fault"] {
            if out.contains(&format!("goto {label};")) {
                out.push_str(&format!("{label}:;\n"))
            }
        }
        self.code.push_str(&format!(
            "/* protocol {}: {} */\nstatic void {}_{i}(wl_fx *x, const wl_msg *{}) {{\n{decls}{out}}}\n\n",
            names::comment(&p.name),
            g.purpose,
            g.name,
            g.message
        ));
    }

    /// An interim answer as the client gets it; where that faults, it does not.
    fn interim(&mut self, i: usize, p: &Protocol, body: &'m Body) {
        let (decls, out) = self.given_message(body, "*rep");
        self.code.push_str(&format!(
            "/* protocol {}: interim answers */\nstatic uint32_t interim_{i}(wl_fx *x, const wl_msg *rep) {{\nuint32_t flags = 0;\n{decls}{out}done:;\nreturn flags;\nfault:;\nwl_begin(x);\nreturn WL_R_NOTHING;\n}}\n\n",
            names::comment(&p.name)
        ));
    }

    fn tables_and_entry(&mut self, frames: &[Option<String>]) {
        let m = self.m;
        let messages = self.messages();
        let units: String = (0..m.units.len() as u32)
            .map(|u| {
                let unit = m.unit(UnitId(u));
                let name = names::unit(m, UnitId(u));
                if !messages.contains(&UnitId(u)) { return format!("[{u}] = {{sizeof(wl_parser), 0, 0, wl_nested_parse, wl_nested_tail, NULL}}, /* {name}: never a message */\n") }
                let whole = if unit.streams { 0 } else { unit.max };
                let copy = self.copy_view(UnitId(u)).map_or("NULL".into(), |c| c.0);
                format!("[{u}] = {{sizeof({name}_view), {}, UINT64_C({whole}), {name}_parse, {name}_tail, {copy}}},\n", unit.head_max.min(u32::MAX as u64))
            })
            .collect();
        let cases: String = m
            .handlers
            .iter()
            .enumerate()
            .filter(|(_, h)| h.on.frame_unit().is_none())
            .map(|(i, h)| format!("case {i}: return on_{i}_{}(x, t);\n", names::ident(&h.name)))
            .collect();
        let replies = protocol_cases(m, |p| p.on_fault.is_some(), |i| format!("return fault_reply_{i}(x, f, req);"));
        let interim = protocol_cases(m, |p| p.on_interim.is_some(), |i| format!("return interim_{i}(x, rep);"));
        let notes = protocol_cases(m, |p| p.on_log.is_some(), |i| format!("note_{i}(x, req); break;"));
        let answers = protocol_cases(m, |p| p.on_answer.is_some(), |i| format!("answer_{i}(x, rep); break;"));
        let frame = if frames.iter().all(|f| f.is_none()) { "0".to_string() } else { "sizeof(union frames)".into() };
        if frame != "0" {
            let members: String =
                frames.iter().flatten().map(|f| format!("{f} {}; ", f.replace("frame_", "f"))).collect();
            self.code.push_str(&format!("union frames {{ {members}}};\n"));
        }
        let contexts = self.contexts();
        let runs = crate::message_runs::cases(m);
        let mut init = String::new();
        for (i, s) in m.states.iter().enumerate() {
            let Some(e) = &s.init else { continue };
            let (text, at) =
                (self.expr(&Scope::default(), e), format!("wl_state(x)->s_{}", names::state(m, StateId(i as u32))));
            init.push_str(&(self.store(s.ty, &at, &text) + "\n"));
        }
        init.push_str(&self.flow_init());
        init.push_str(&self.keyed_init());
        let (shared_size, shared_init) = self.shared_init();
        // Without batches the tables' numbers are published behind every handler.
        let flush = if self.has_frames() { String::new() } else { self.keyed_at_batch_end() };
        let cases = if flush.is_empty() {
            cases
        } else {
            cases.replace(": return ", ": end = ").replace("(x, t);\n", "(x, t); break;\n")
        };
        let (before, after) = if flush.is_empty() {
            ("", "default: return WL_T_DONE;\n}\n".to_string())
        } else {
            ("int end = WL_T_DONE;\n", format!("default: break;\n}}\n{flush}return end;\n"))
        };
        let session = if m.sessions.is_empty() { "0" } else { "sizeof(app_session)" };
        let fx = "wl_fx fx = {.core = core, .tmp = ((app_state *)core->state)->scratch, .tmp_max = sizeof(((app_state *)core->state)->scratch)}, *x = &fx;\n(void)x;\n";
        let (own_tmp, tmp_size) = match self.m.handlers.iter().any(|h| h.plan.pause.is_yes()) {
            true => ("if (core->tmp) x->tmp = core->tmp;\n", ".tmp_size = sizeof(((app_state *)0)->scratch), "),
            false => ("", ""),
        };
        let tend = self.flow_tend();
        let (point, point_entry) = self.point(fx);
        let text = format!(
            "static int run(void *self, wl_task *t) {{\n(void)self;\nwl_core *core = t->core;\n{fx}x->conn = t->conn;\nx->task = t;\n{own_tmp}\
             {before}{tend}switch (t->handler) {{\n{cases}{after}}}\n\n\
             static uint32_t fault_reply(void *self, wl_core *core, uint32_t proto, const wl_fault *f, const wl_msg *req) {{\n(void)self; (void)f; (void)req;\n{fx}\
             wl_begin(x);\nswitch (proto) {{\n{replies}default: return WL_R_CLOSE;\n}}\n}}\n\n\
             static uint32_t interim(void *self, wl_core *core, uint32_t proto, const wl_msg *rep) {{\n(void)self; (void)rep;\n{fx}\
             wl_begin(x);\nswitch (proto) {{\n{interim}default: return 0;\n}}\n}}\n\n\
             static void note(void *self, wl_core *core, uint32_t proto, const wl_msg *req) {{\n(void)self; (void)req;\n{fx}\
             switch (proto) {{\n{notes}default: break;\n}}\n}}\n\n\
             static void answer(void *self, wl_core *core, uint32_t proto, const wl_msg *rep) {{\n(void)self; (void)rep;\n{fx}\
             switch (proto) {{\n{answers}default: break;\n}}\n}}\n\n\
             static uint64_t context(void *self, wl_core *core, wl_conn *conn, uint32_t proto, uint32_t down) {{\n(void)self;\n{fx}x->conn = conn;\n\
             switch (proto << 1 | down) {{\n{contexts}default: return 0;\n}}\n}}\n\n\
             static uint32_t run_of(void *self, wl_core *core, wl_conn *conn, uint32_t handler, uint64_t ctx, const uint8_t *buf, uint32_t n, uint32_t *messages) {{\n(void)self; (void)ctx; (void)buf; (void)n;\n{fx}x->conn = conn;\n\
             switch (handler) {{\n{runs}default: *messages = 0; return 0;\n}}\n}}\n\n\
             {point}\
             static void init_core(void *self, wl_core *core) {{\n(void)self;\n{fx}{init}}}\n\n\
             static void init_shared(void *self, void *shared, const wl_param *param) {{\n(void)self; (void)shared; (void)param;\n{shared_init}}}\n\n\
             static const wl_unit unit_table[] = {{\n{units}{}}};\n\n\
             static const wl_program program = {{\n.abi = WL_ABI, .units = {}, .handlers = {}, .frame_size = {frame},\n\
             .state_size = sizeof(app_state), .shared_size = {shared_size}, .session_size = {session}, {tmp_size}\n.unit = unit_table, .init_shared = init_shared, \
             .init_core = init_core, .run = run, .fault_reply = fault_reply, .interim = interim, .note = note, .answer = answer, .context = context, .run_of = run_of,{point_entry}\n}};\n\n\
             __attribute__((visibility(\"default\"))) const wl_program *wireloom_program(void) {{ return &program; }}\n",
            if m.units.is_empty() { "{sizeof(wl_parser), 0, 0, wl_nested_parse, wl_nested_tail, NULL},\n" } else { "" },
            m.units.len(),
            m.handlers.len(),
        );
        self.code.push_str(&apart(&[], &text));
    }

    /// The function for the points of rings, and its entry.
    fn point(&self, fx: &str) -> (String, &'static str) {
        let hashed = self.m.ports.iter().enumerate().filter_map(|(n, p)| Some((n, p.consistent?)));
        let cases: String =
            hashed.map(|(n, f)| format!("case {n}: return {};\n", names::call(self.m, f, "name"))).collect();
        if cases.is_empty() {
            return (String::new(), "");
        }
        let head = "static uint32_t point(void *self, wl_core *core, uint32_t port, wl_bytes name) {\n(void)self;\n";
        (format!("{head}{fx}wl_begin(x);\nswitch (port) {{\n{cases}default: return 0;\n}}\n}}\n\n"), " .point = point,")
    }

    /// The parameters of the messages of conversations, by their sessions.
    fn contexts(&mut self) -> String {
        let m = self.m;
        let mut text = String::new();
        for (i, p) in m.protocols.iter().enumerate().filter(|(_, p)| p.sharing == desc::Sharing::Session) {
            let sides = [(Some(p.request), &p.request_args), (p.response, &p.response_args)];
            for (down, (unit, args)) in sides.into_iter().enumerate() {
                let Some(unit) = unit.filter(|_| !args.is_empty()) else { continue };
                let mut bits = String::from("0");
                for (p, a) in m.unit(unit).params.iter().zip(args) {
                    let value = self.expr(&Scope::default(), a);
                    bits.push_str(&format!(" | ((uint64_t)({value}) & UINT64_C({:#x})) << {}", p.mask(), p.shift));
                }
                text.push_str(&format!("case {}: return {bits};\n", i << 1 | down));
            }
        }
        text
    }

    /// The units that are messages: of protocols, merges and `parse` in tests.
    pub fn messages(&self) -> Vec<UnitId> {
        let m = self.m;
        let mut all: Vec<UnitId> = m.protocols.iter().flat_map(|p| [Some(p.request), p.response]).flatten().collect();
        all.extend(m.merges.iter().map(|m| m.unit));
        m.bodies(&mut |b| walk::stmts(&b.block, &mut |s| all.extend(walk::parsed_unit(&s.kind))));
        m.bodies(&mut |b| {
            for l in &b.locals {
                if let Ty::Msg(u) = m.ty(l.ty) {
                    all.push(*u)
                }
            }
        });
        all.retain(|u| !self.is_frame(*u));
        all.sort();
        all.dedup();
        all
    }
}

fn removes(out: &Outgoing) -> bool {
    matches!(out, Outgoing::Pass { edits, .. } if edits.iter().any(|e| matches!(e, Edit::Remove { .. })))
}

/// Cases of a switch over protocols that have such code: `act` for protocol `i`.
fn protocol_cases(m: &Module, has: impl Fn(&Protocol) -> bool, act: impl Fn(usize) -> String) -> String {
    let having = m.protocols.iter().enumerate().filter(|(_, p)| has(p));
    having.map(|(i, _)| format!("case {i}: {}\n", act(i))).collect()
}
