//! Printing: bodies, statements, expressions.

use super::forms;
use super::print::{bytes, reference, span, string, Printer};
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
        self.selects(&b.selects);
        self.block(&b.block, &b.locals);
    }

    pub fn selects(&mut self, list: &[plans::StmtPath]) {
        if !list.is_empty() {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            self.line(&format!("selects ({});", list.join(", ")))
        }
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

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
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
            StmtKind::Call { port, index, msg, within, response_args, clauses } => {
                let list = |all: &[Expr]| {
                    let texts: Vec<String> = all.iter().map(|e| self.expr_of(e, locals)).collect();
                    texts.join(", ")
                };
                let clauses = if clauses.is_empty() { String::new() } else { format!(" clauses ({})", list(clauses)) };
                let within = within.as_ref().map_or(String::new(), |e| format!(" within {}", self.expr_of(e, locals)));
                let head = format!(
                    "call {} [{}] args ({}){clauses}{within}",
                    self.port_ref(*port),
                    self.expr_of(index, locals),
                    list(response_args)
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
            StmtKind::Tell { to, protocol, msg, place } => {
                let head = format!("tell {}{} at {}", self.peer(*to), self.in_protocol(*protocol), place.0);
                self.message(&head, msg, &end, locals);
            }
            StmtKind::Ask { upstream, protocol, msg, within, matched } => {
                let args: Vec<String> = matched.iter().map(|e| self.expr_of(e, locals)).collect();
                let within = within.as_ref().map_or(String::new(), |e| format!(" within {}", self.expr_of(e, locals)));
                let (to, protocol) = (self.peer(Peer::Upstream(*upstream)), self.in_protocol(*protocol));
                let head = format!("ask {to}{protocol} args ({}){within}", args.join(", "));
                self.message(&head, msg, &end, locals);
            }
            StmtKind::Deliver { to, protocol, msg, place } => {
                let (to, protocol) = (self.expr_of(to, locals), self.in_protocol(*protocol));
                let head = format!("deliver [{to}]{protocol} at {}", place.0);
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
            StmtKind::Frame { frame, act: FrameAct::Insert { before, behind, parts, max, place } } => {
                let before = before.map_or("end".into(), |n| n.to_string());
                let behind = behind.map_or(String::new(), |n| format!(" behind {n}"));
                let frame = self.local(*frame, locals);
                let head = format!("frame {frame} insert {before}{behind} max {max} at {}", place.0);
                self.braces(&head, &end, &mut |p| p.parts(parts, locals));
            }
            StmtKind::SendFrame { port, index, parts, place } => {
                let head =
                    format!("send_frame {} [{}] at {}", self.port_ref(*port), self.expr_of(index, locals), place.0);
                self.braces(&head, &end, &mut |p| p.parts(parts, locals));
            }
            StmtKind::Frame { frame, act: FrameAct::Payload { layer, body, max, place, keep } } => {
                let layer = layer.map_or("end".into(), |n| n.to_string());
                let keep = keep.map_or(String::new(), |n| format!(" keep {n}"));
                let frame = self.local(*frame, locals);
                let head = format!("frame {frame} payload {layer} max {max} at {}{keep}", place.0);
                self.braces(&head, &end, &mut |p| p.block(body, locals));
            }
            other => {
                let line = forms::stmt(other, self, Scope::locals(locals)).unwrap_or_default();
                self.line(&format!("{line};{end}"))
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

    pub fn root(&self, root: Root, locals: &[Local]) -> String {
        match root {
            Root::Local(l) => self.local(l, locals),
            Root::This => "this".into(),
            Root::Item => "item".into(),
        }
    }

    pub fn path(&self, path: &Path, scope: Scope, with_root: bool) -> String {
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

    pub fn expr_scoped(&self, e: &Expr, scope: Scope) -> String {
        format!("{}:{}", self.expr_kind(&e.kind, scope), self.ty(e.ty))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn expr_kind(&self, k: &ExprKind, scope: Scope) -> String {
        match k {
            ExprKind::Int(n) => n.to_string(),
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::Bytes(b) => bytes(b),
            ExprKind::Local(l) => self.local(*l, scope.locals),
            other => match other.operation() {
                Some((row, operands)) => {
                    let operands: Vec<String> = operands.iter().map(|e| self.expr_scoped(e, scope)).collect();
                    format!("{}({})", row.name, operands.join(", "))
                }
                None => forms::expr(other, self, scope).unwrap_or_default(),
            },
        }
    }
}
