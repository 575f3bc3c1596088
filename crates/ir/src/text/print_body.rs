//! Printing: bodies, statements, expressions.

use super::names::Word;
use super::print::{bytes, reference, span, string, Printer};
use crate::ops::Rows;
use crate::walk::{At, Scope};
use crate::*;

pub(super) fn lone_expr(m: &Module, e: &Expr) -> String {
    Printer { m, out: String::new(), indent: 0 }.expr(e)
}

impl Printer<'_> {
    pub fn locals(&mut self, locals: &[Local]) {
        for (n, l) in locals.iter().enumerate() {
            let line = format!(
                "local %{}: {} {}{};",
                n,
                self.ty(l.ty),
                string(&l.name),
                if l.in_frame { " frame" } else { "" }
            );
            self.line(&line);
        }
    }

    pub fn body(&mut self, b: &Body) {
        self.locals(&b.locals);
        self.block(&b.block, &b.locals);
    }

    pub fn expr(&self, e: &Expr) -> String {
        self.expr_scoped(e, Scope::NONE)
    }
    pub fn expr_in(&self, e: &Expr, this: Option<UnitId>) -> String {
        self.expr_scoped(e, Scope { this, ..Scope::NONE })
    }
    pub fn expr_of(&self, e: &Expr, locals: &[Local]) -> String {
        self.expr_scoped(e, Scope::locals(locals))
    }

    pub fn local(&self, l: LocalId, locals: &[Local]) -> String {
        format!("%{}", reference(locals.get(l.index()).map(|l| l.name.as_str()), l.0))
    }

    pub fn block(&mut self, b: &Block, locals: &[Local]) {
        for s in b {
            self.stmt(s, locals)
        }
    }

    fn stmt(&mut self, s: &Stmt, locals: &[Local]) {
        let end = span(&s.span);
        match &s.kind {
            StmtKind::If { cond, then, other } => {
                let head = format!("if {}", self.expr_of(cond, locals));
                let tail = if other.is_empty() { end.clone() } else { String::new() };
                self.braces(&head, &tail, &mut |p| p.block(then, locals));
                if !other.is_empty() {
                    self.braces("else", &end, &mut |p| p.block(other, locals))
                }
            }
            StmtKind::Switch { on, cases, default } => {
                let head = format!("switch {}", self.expr_of(on, locals));
                self.braces(&head, &end, &mut |p| {
                    for (values, b) in cases {
                        let values: Vec<String> = values.iter().map(u64::to_string).collect();
                        p.braces(&format!("case {}", values.join(", ")), "", &mut |p| p.block(b, locals));
                    }
                    p.braces("default", "", &mut |p| p.block(default, locals));
                });
            }
            StmtKind::For { var, from, to, max, body } => {
                let head = format!(
                    "for {} from {} to {} max {max}",
                    self.local(*var, locals),
                    self.expr_of(from, locals),
                    self.expr_of(to, locals)
                );
                self.braces(&head, &end, &mut |p| p.block(body, locals));
            }
            StmtKind::Loop { max, body } => self.braces(&format!("loop {max}"), &end, &mut |p| p.block(body, locals)),
            StmtKind::TableUpdate { table, key, entry, body, place } => {
                let head = format!(
                    "table_update {} [{}] as {} at {}",
                    self.table(*table),
                    self.expr_of(key, locals),
                    self.local(*entry, locals),
                    place.0
                );
                self.braces(&head, &end, &mut |p| p.block(body, locals));
            }
            StmtKind::Call { port, index, msg, within, response_args } => {
                let args: Vec<String> = response_args.iter().map(|e| self.expr_of(e, locals)).collect();
                let within = within.as_ref().map_or(String::new(), |e| format!(" within {}", self.expr_of(e, locals)));
                let head = format!(
                    "call {} [{}] args ({}){within}",
                    self.port_ref(*port),
                    self.expr_of(index, locals),
                    args.join(", ")
                );
                self.message(&head, msg, &end, locals);
            }
            StmtKind::Reply { msg, close } => {
                self.message(if *close { "reply close" } else { "reply" }, msg, &end, locals)
            }
            StmtKind::Send { port, index, msg } => {
                let head = format!("send {} [{}]", self.port_ref(*port), self.expr_of(index, locals));
                self.message(&head, msg, &end, locals);
            }
            StmtKind::Render { msg, dst } => {
                let head = format!("render -> {}", self.local(*dst, locals));
                self.message(&head, msg, &end, locals);
            }
            StmtKind::Reread { msg, dst, ok } => {
                let head = format!("reread -> {} ok {}", self.local(*dst, locals), self.local(*ok, locals));
                self.message(&head, msg, &end, locals);
            }
            StmtKind::Frame { frame, act: FrameAct::Insert { before, parts, max, place } } => {
                let before = before.map_or("end".into(), |n| n.to_string());
                let head = format!("frame {} insert {before} max {max} at {}", self.local(*frame, locals), place.0);
                self.braces(&head, &end, &mut |p| p.parts(parts, locals));
            }
            StmtKind::SendFrame { port, index, parts, place } => {
                let head =
                    format!("send_frame {} [{}] at {}", self.port_ref(*port), self.expr_of(index, locals), place.0);
                self.braces(&head, &end, &mut |p| p.parts(parts, locals));
            }
            StmtKind::Frame { frame, act: FrameAct::Payload { layer, body, max, place } } => {
                let layer = layer.map_or("end".into(), |n| n.to_string());
                let head = format!("frame {} payload {layer} max {max} at {}", self.local(*frame, locals), place.0);
                self.braces(&head, &end, &mut |p| p.block(body, locals));
            }
            other => {
                let line = format!("{};{end}", self.simple(other, locals));
                self.line(&line)
            }
        }
    }

    fn parts(&mut self, parts: &[Part], locals: &[Local]) {
        for part in parts {
            let head = part.unit.map_or("bytes".into(), |u| format!("header {}", self.unit_ref(u)));
            self.braces(&head, "", &mut |p| p.block(&part.body, locals));
        }
    }

    pub fn table(&self, t: TableId) -> String {
        reference(self.m.tables.get(t.index()).map(|t| t.name.as_str()), t.0)
    }
    fn state(&self, t: StateId) -> String {
        reference(self.m.states.get(t.index()).map(|t| t.name.as_str()), t.0)
    }
    fn session(&self, t: SessionId) -> String {
        reference(self.m.sessions.get(t.index()).map(|t| t.name.as_str()), t.0)
    }
    fn counter(&self, t: CounterId) -> String {
        reference(self.m.counters.get(t.index()).map(|t| t.name.as_str()), t.0)
    }

    fn simple(&self, s: &StmtKind, locals: &[Local]) -> String {
        let e = |e: &Expr| self.expr_of(e, locals);
        let l = |l: &LocalId| self.local(*l, locals);
        match s {
            StmtKind::Set(d, v) => format!("set {} = {}", l(d), e(v)),
            StmtKind::SetField(d, path, v) => format!(
                "set_field {} [{}] = {}",
                l(d),
                path.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
                e(v)
            ),
            StmtKind::SetState(d, v) => format!("set_state {} = {}", self.state(*d), e(v)),
            StmtKind::SetSession(d, v) => format!("set_session {} = {}", self.session(*d), e(v)),
            StmtKind::Count(d, v) => format!("count {} {}", self.counter(*d), e(v)),
            StmtKind::Push(d, v) => format!("push {} {}", l(d), e(v)),
            StmtKind::Break => "break".into(),
            StmtKind::Continue => "continue".into(),
            StmtKind::Return(None) => "return".into(),
            StmtKind::Return(Some(v)) => format!("return {}", e(v)),
            StmtKind::Require { cond, kind, place } => format!("require {} else {} at {}", e(cond), kind.0, place.0),
            StmtKind::Fault { kind, place } => format!("fault {} at {}", kind.0, place.0),
            StmtKind::TableGet { table, key, dst } => {
                format!("table_get {} [{}] -> {}", self.table(*table), e(key), l(dst))
            }
            StmtKind::TablePut { table, key, value, place } => {
                format!("table_put {} [{}] = {} at {}", self.table(*table), e(key), e(value), place.0)
            }
            StmtKind::TableRemove { table, key, dst } => format!(
                "table_remove {} [{}]{}",
                self.table(*table),
                e(key),
                dst.as_ref().map_or(String::new(), |d| format!(" -> {}", l(d)))
            ),
            StmtKind::TableLen { table, dst } => format!("table_len {} -> {}", self.table(*table), l(dst)),
            StmtKind::GroupBegin { port, max } => format!("group_begin {} {max}", self.port_ref(*port)),
            StmtKind::GroupAdd { index, parts } => {
                format!("group_add {} = ({})", e(index), parts.iter().map(e).collect::<Vec<_>>().join(", "))
            }
            StmtKind::GroupRun { part, bytes } => format!("group_run {} = {}", e(part), e(bytes)),
            StmtKind::TablePush { table, value, dst } => {
                format!("table_push {} = {} -> {}", self.table(*table), e(value), l(dst))
            }
            StmtKind::TablePop { table, dst } => format!("table_pop {} -> {}", self.table(*table), l(dst)),
            StmtKind::Queue { port, index, act, dst } => {
                format!("queue {} {} [{}] -> {}", act.word(), self.port_ref(*port), e(index), l(dst))
            }
            StmtKind::Output { wire, frame, mark, last } => format!(
                "output {}{} {} mark {}",
                if *last { "last " } else { "" },
                self.wire_ref(*wire),
                l(frame),
                e(mark)
            ),
            StmtKind::Await { hold, hold_req, live } => format!(
                "await{}{} live ({})",
                if *hold { " hold" } else { "" },
                if *hold_req { " hold_req" } else { "" },
                live.iter().map(l).collect::<Vec<_>>().join(", ")
            ),
            StmtKind::BindPart { dst, part } => format!("bind {} = part {}", l(dst), e(part)),
            StmtKind::Close => "close".into(),
            StmtKind::Outcome(v) => format!("outcome {}", e(v)),
            StmtKind::Log(list) => format!("log ({})", list.iter().map(e).collect::<Vec<_>>().join(", ")),
            StmtKind::Emit(emit) => match emit {
                Emit::Bytes(v) => format!("emit bytes {}", e(v)),
                Emit::UInt { value, bytes, big } => {
                    format!("emit uint {} bytes {bytes} {}", e(value), if *big { "big" } else { "little" })
                }
                Emit::Number { value, radix, width } => format!("emit number {} radix {radix} width {width}", e(value)),
                Emit::Varint(v) => format!("emit varint {}", e(v)),
                Emit::Items { unit, bytes, count, max } => {
                    format!("emit items {} {} count {} max {max}", self.unit_ref(*unit), e(bytes), e(count))
                }
                Emit::InOrder { unit, count, max } => {
                    format!("emit in_order {} count {} max {max}", self.unit_ref(*unit), e(count))
                }
            },
            StmtKind::Parse { unit, bytes, dst, ok } => {
                format!("parse {} {} -> {} ok {}", self.unit_ref(*unit), e(bytes), l(dst), l(ok))
            }
            StmtKind::TableNext { table, cursor, key, value, more, masked } => format!(
                "table_next {} cursor {} key {} value {} more {}{}",
                self.table(*table),
                l(cursor),
                l(key),
                l(value),
                l(more),
                masked.as_ref().map_or(String::new(), |(m, p)| format!(" mask {} priority {}", l(m), l(p)))
            ),
            StmtKind::TableInsert { table, key, mask, priority, value, place } => format!(
                "table_insert {} [{}] mask {} priority {} = {} at {}",
                self.table(*table),
                e(key),
                e(mask),
                e(priority),
                e(value),
                place.0
            ),
            StmtKind::TableDelete { table, key, mask, priority, dst } => format!(
                "table_delete {} [{}] mask {} priority {}{}",
                self.table(*table),
                e(key),
                e(mask),
                e(priority),
                dst.as_ref().map_or(String::new(), |d| format!(" -> {}", l(d)))
            ),
            StmtKind::Frame { frame, act } => format!(
                "frame {} {}",
                l(frame),
                match act {
                    FrameAct::Set { layer, field, value } => format!("set {layer} #{} = {}", field.0, e(value)),
                    FrameAct::Remove { layer } => format!("remove {layer}"),
                    FrameAct::Checksum { layer } => format!("checksum {layer}"),
                    FrameAct::Save { copy } => format!("save {copy}"),
                    FrameAct::Restore { copy } => format!("restore {copy}"),
                    FrameAct::Send { port, index, mark, last } => format!(
                        "send{} {} [{}]{}",
                        if *last { " last" } else { "" },
                        self.port_ref(*port),
                        e(index),
                        mark.as_ref().map_or(String::new(), |m| format!(" mark {}", e(m)))
                    ),
                    FrameAct::Insert { .. } | FrameAct::Payload { .. } => String::new(),
                }
            ),
            StmtKind::If { .. }
            | StmtKind::Switch { .. }
            | StmtKind::For { .. }
            | StmtKind::Loop { .. }
            | StmtKind::TableUpdate { .. }
            | StmtKind::SendFrame { .. }
            | StmtKind::Call { .. }
            | StmtKind::Reply { .. }
            | StmtKind::Send { .. }
            | StmtKind::Render { .. }
            | StmtKind::Reread { .. } => String::new(),
        }
    }

    fn message(&mut self, head: &str, msg: &Outgoing, end: &str, locals: &[Local]) {
        match msg {
            Outgoing::Nothing => self.line(&format!("{head} nothing;{end}")),
            Outgoing::Pass { msg, edits } if edits.is_empty() => {
                let line = format!("{head} pass {};{end}", self.local(*msg, locals));
                self.line(&line)
            }
            Outgoing::Pass { msg, edits } => {
                let head = format!("{head} pass {}", self.local(*msg, locals));
                self.braces(&head, end, &mut |p| {
                    for e in edits {
                        p.edit(*msg, e, locals)
                    }
                });
            }
            Outgoing::Built { unit, body } => {
                let head = format!("{head} build {}", self.unit_ref(*unit));
                self.braces(&head, end, &mut |p| p.block(body, locals));
            }
        }
    }

    fn edit(&mut self, msg: LocalId, edit: &Edit, locals: &[Local]) {
        let path = self.path(&grammar::edit_path(msg, edit), Scope::locals(locals), false);
        let cond =
            |p: &Self, c: &Option<Expr>| c.as_ref().map_or(String::new(), |c| format!(" if {}", p.expr_of(c, locals)));
        match edit {
            Edit::Set { cond: c, body, .. } => {
                let head = format!("set {path}{}", cond(self, c));
                self.braces(&head, "", &mut |p| p.block(body, locals))
            }
            Edit::Append { cond: c, body, .. } => {
                let head = format!("append {path}{}", cond(self, c));
                self.braces(&head, "", &mut |p| p.block(body, locals))
            }
            Edit::Remove { index, cond, .. } => {
                let line =
                    format!("remove {path} as {} if {};", self.local(*index, locals), self.expr_of(cond, locals));
                self.line(&line)
            }
        }
    }

    fn root(&self, root: Root, locals: &[Local]) -> String {
        match root {
            Root::Local(l) => self.local(l, locals),
            Root::This => "this".into(),
            Root::Item => "item".into(),
        }
    }

    fn path(&self, path: &Path, scope: Scope, with_root: bool) -> String {
        let mut text = if with_root { self.root(path.root, scope.locals) } else { String::new() };
        let mut at = self.m.follow(&Path { root: path.root, steps: Vec::new() }, scope, &mut |_, _| ());
        for step in &path.steps {
            match step {
                Step::Field(f) => text.push_str(&format!(".{}", self.field_ref(at.and_then(|a| self.m.inside(a)), *f))),
                Step::Index(e) => text.push_str(&format!("[{}]", self.expr_scoped(e, scope))),
            }
            at = at.and_then(|a: At| self.m.step(a, step));
        }
        text
    }

    fn expr_scoped(&self, e: &Expr, scope: Scope) -> String {
        format!("{}:{}", self.expr_kind(&e.kind, scope), self.ty(e.ty))
    }

    fn expr_kind(&self, k: &ExprKind, scope: Scope) -> String {
        use ExprKind as K;
        let e = |e: &Expr| self.expr_scoped(e, scope);
        let list = |l: &[Expr]| l.iter().map(e).collect::<Vec<_>>().join(", ");
        let path = |p: &Path| self.path(p, scope, true);
        match k {
            K::Int(n) => n.to_string(),
            K::Bool(b) => b.to_string(),
            K::Bytes(b) => bytes(b),
            K::Local(l) => self.local(*l, scope.locals),
            K::Param(p) => format!("param({})", reference(self.m.params.get(p.index()).map(|p| p.name.as_str()), p.0)),
            K::State(s) => format!("state({})", self.state(*s)),
            K::Session(s) => format!("session({})", self.session(*s)),
            K::Counter(c) => format!("counter({})", self.counter(*c)),
            K::UnitParam(r, n) => format!("unit_param({}, {n})", self.root(*r, scope.locals)),
            K::Read(p) => format!("read({})", path(p)),
            K::Count(p) => format!("items({})", path(p)),
            K::Raw(p) => format!("raw({})", path(p)),
            K::Case(p, n) => format!("case({}, {n})", path(p)),
            K::Acc => "acc".into(),
            K::HasMsg(l) => format!("has_msg({})", self.local(*l, scope.locals)),
            K::FrameLen(l) => format!("frame_len({})", self.local(*l, scope.locals)),
            K::FrameInstance(l) => format!("frame_instance({})", self.local(*l, scope.locals)),
            K::FrameMark(l) => format!("frame_mark({})", self.local(*l, scope.locals)),
            K::FrameTime(l) => format!("frame_time({})", self.local(*l, scope.locals)),
            K::Payload(l, n) => {
                format!("payload({}{})", self.local(*l, scope.locals), n.map_or(String::new(), |n| format!(", {n}")))
            }
            K::ChecksumOk(l, n) => format!("checksum_ok({}, {n})", self.local(*l, scope.locals)),
            K::PartStatus(a) => format!("part_status({})", e(a)),
            K::Parts => "parts".into(),
            K::Unary(op, a) => format!("{}({})", op.row().name, e(a)),
            K::Binary(op, a, b) => format!("{}({}, {})", op.row().name, e(a), e(b)),
            K::Cast(a) => format!("cast({})", e(a)),
            K::If(a, b, c) => format!("if({}, {}, {})", e(a), e(b), e(c)),
            K::InRanges(a, r) => format!("in({}; {})", e(a), self.ranges(r)),
            K::Some(a) => format!("some({})", e(a)),
            K::None => "none".into(),
            K::IsSome(a) => format!("is_some({})", e(a)),
            K::Unwrap(a) => format!("unwrap({})", e(a)),
            K::Make(l) => format!("make({})", list(l)),
            K::Get(a, n) => format!("get({}, {n})", e(a)),
            K::MakeList(l) => format!("make_list({})", list(l)),
            K::ListLen(a) => format!("list_len({})", e(a)),
            K::ListGet(a, b) => format!("list_get({}, {})", e(a), e(b)),
            K::Call(f, l) => {
                format!("call {}({})", reference(self.m.funcs.get(f.index()).map(|f| f.name.as_str()), f.0), list(l))
            }
            K::Builtin(b, l) => format!("{}({})", b.row().name, list(l)),
            K::Find { list, name } => format!("find({}, {})", path(list), e(name)),
            K::CountOf { list, name } => format!("count_of({}, {})", path(list), e(name)),
            K::AnyToken { list, name, token } => format!("any_token({}, {}, {})", path(list), e(name), e(token)),
            K::PortLen(p) => format!("port_len({})", self.port_ref(*p)),
            K::PortUp(p, a) => format!("port_up({}, {})", self.port_ref(*p), e(a)),
            K::PortLoad(p, a) => format!("port_load({}, {})", self.port_ref(*p), e(a)),
            K::GroupCount(a) => format!("group_count({})", e(a)),
            K::GroupBytes(a) => format!("group_bytes({})", e(a)),
            K::Modula(p, a) => format!("modula({}, {})", self.port_ref(*p), e(a)),
            K::Ketama(p, a) => format!("ketama({}, {})", self.port_ref(*p), e(a)),
            K::Maglev(p, a) => format!("maglev({}, {})", self.port_ref(*p), e(a)),
            K::ConnPeer => "conn_peer".into(),
            K::ConnLocal => "conn_local".into(),
            K::ConnId => "conn_id".into(),
            K::ConnFlow => "conn_flow".into(),
            K::Now => "now".into(),
            K::Draining => "draining".into(),
            K::Random(a) => format!("random({})", e(a)),
        }
    }
}
