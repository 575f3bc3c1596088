//! Queues of a service's messages: `queue q as Unit { depth 64 }`.
//!
//! A message waits as its bytes, in a ring of its core. `q.pop()` parses the oldest one, and puts
//! the queue's handler or wiring there. No client waits for a message in a queue.

use super::declarations::MessageQueue;
use super::scope::AppName;
use crate::body::destination::Sink;
use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, R};
use crate::ir_builder as build;
use crate::items::TableTy;
use crate::names::ModId;
use crate::ty::{Ty, U32};
use crate::units::findings::source;
use crate::val::Val;
use ir::{walk, LocalId, StmtKind};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Ident, MemberKind, Node, On, Span};
use wireloom_syntax::Diagnostic;

/// The longest message of a queue that does not say it, and of any queue.
const LONGEST: u64 = 4 << 10;
const LONGEST_MAX: u64 = 64 << 10;
const DEPTH_MAX: u64 = 1 << 20;

impl Compiler<'_> {
    pub fn message_queue(&mut self, module: ModId, q: &ast::Queue, unit: ir::UnitId) -> R<AppName> {
        if !self.units[unit.index()].params.is_empty() {
            return Err(self.error("E0612", q.name.span, "a message of a unit with parameters cannot wait in a queue"));
        }
        let ([depth, longest], _) = self.queue_options(module, q, ["depth", "longest"], &[])?;
        let Some((depth, at)) = depth else { return Err(self.no_depth(q, "messages")) };
        if depth == 0 || depth > DEPTH_MAX {
            return Err(self.error("E0714", at, "a queue holds 1 to 1M messages"));
        }
        let longest = match longest {
            Some((n, at)) if n == 0 || n > LONGEST_MAX => {
                return Err(self.error("E0714", at, "a message in a queue has at most 64KiB"));
            }
            Some((n, _)) => n,
            None => LONGEST,
        };
        let (name, span) = (q.name.name.clone(), self.span(q.name.span));
        let (key, value) = (U32, Ty::Bytes(longest));
        let (k, v) = (self.lower_ty(&key), self.lower_ty(&value));
        let table = ir::Table::new(name.clone(), span, ir::TableKind::Ring, k, v);
        self.m.tables.push(ir::Table { capacity: depth, ..table });
        self.tables.push(TableTy { key, value });
        let doc = "Messages that a full queue did not take, or that were too long for it.".into();
        self.m.counters.push(ir::Counter { name: format!("{name}.discarded"), doc });
        let queue = Rc::new(MessageQueue {
            name,
            ring: ir::TableId(self.m.tables.len() as u32 - 1),
            unit,
            longest,
            discarded: ir::CounterId(self.m.counters.len() as u32 - 1),
            handler: OnceCell::new(),
            span: q.name.span,
            taken: Cell::new(false),
        });
        self.message_queues.push(queue.clone());
        Ok(AppName::Messages(queue))
    }

    /// Queues from which nothing takes messages.
    pub fn full_for_ever(&mut self) {
        for q in self.message_queues.clone().into_iter().filter(|q| !q.taken.get()) {
            let d = Diagnostic::error("E0611", q.span, format!("nothing takes messages from queue `{}`", q.name));
            let pops = format!("every 1ms {{ for _ in 0..64 {{ if not {}.pop() {{ break }} }} }}", q.name);
            self.once(d.label("it stays full").hint(format!("write `{pops}`")));
        }
    }

    /// Finds the handlers of the queues at hand: `on q(m)`.
    pub fn message_handlers(&mut self, members: &[ast::Member]) {
        for m in members {
            let MemberKind::Handler(h) = &m.kind else { continue };
            let On::Message { port, index, .. } = &h.on else { continue };
            let Some(AppName::Messages(q)) = self.app.get(&port.name).cloned() else { continue };
            if let Some(i) = index {
                self.no_array(&port.name, "queue", i.span);
            }
            if q.handler.set(h.clone()).is_err() || self.app.chains.contains_key(&port.name) {
                let d = Diagnostic::error("E0639", port.span, format!("queue `{}` is handled already", port.name));
                self.report(d.label("the second one"));
            }
        }
    }
}

impl Lower<'_, '_> {
    pub fn messages_of(&self, e: &Expr) -> Option<Rc<MessageQueue>> {
        let ExprKind::Name(n) = &*e.kind else { return None };
        if !self.in_app || self.lookup(&n.name).is_some() {
            return None;
        }
        match self.cx.app.get(&n.name) {
            Some(AppName::Messages(q)) => Some(q.clone()),
            _ => None,
        }
    }

    /// The end of a wiring. Nobody answers what waits in a queue.
    pub fn flow_into_queue(&mut self, queue: Rc<MessageQueue>, v: Val, span: Span) -> R<()> {
        if self.handler.is_some_and(|h| !h.one_way) && !self.copy {
            let d = Diagnostic::error("E0648", span, "a request that waits for its answer cannot wait in a queue");
            return Err(self.cx.report(
                d.label("its client would never be answered")
                    .hint("queue a copy, as in `tee(q) -> backend`, or answer in a handler: `req -> q; reply …`"),
            ));
        }
        self.sink(v, &Sink::Queue { queue, span }, span).map(|_| ())
    }

    /// Adds a message as its bytes.
    pub fn enqueue(&mut self, q: &MessageQueue, msg: ir::Outgoing, span: Span) {
        let all = Ty::Bytes(LONGEST_MAX);
        let (bytes, there) = (self.new_local("", &all), self.new_local("", &Ty::Bool));
        self.push(span, StmtKind::Render { msg, dst: bytes });
        self.push(span, StmtKind::Set(there, build::boolean(false)));
        let fits = build::cmp(ir::BinOp::Le, build::len_bytes(self.local_expr(bytes)), build::u64(q.longest));
        let ty = self.cx.lower_ty(&Ty::Bytes(q.longest));
        let value = build::cast(ty, self.local_expr(bytes));
        let sp = self.cx.span(span);
        let add = build::stmt(sp, StmtKind::TablePush { table: q.ring, value, dst: there });
        self.push(span, StmtKind::If { cond: fits, then: vec![add], other: vec![] });
        let lost = build::stmt(sp, StmtKind::Count(q.discarded, build::u64(1)));
        let cond = build::not(self.local_expr(there));
        self.push(span, StmtKind::If { cond, then: vec![lost], other: vec![] });
    }

    /// `len(q)`
    pub fn messages_len(&mut self, q: &MessageQueue, span: Span) -> R<Val> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.impure = true;
        let dst = self.new_local("", &crate::ty::U64);
        self.push(span, StmtKind::TableLen { table: q.ring, dst });
        let n = build::cast(crate::compiler::T_U32, self.local_expr(dst));
        Ok(Val::pure(U32, n))
    }

    pub fn messages_method(&mut self, q: &Rc<MessageQueue>, name: &Ident, args: &[Arg], span: Span) -> R<Val> {
        if self.pure_only() || self.kind == Kind::OnFault {
            return Err(self.involved(span));
        }
        self.impure = true;
        if !args.is_empty() {
            return Err(self.err("E0308", span, format!("`{}` takes no arguments", name.name)));
        }
        let ty = Ty::Bytes(q.longest).option();
        let dst = self.new_local("", &ty);
        let oldest = self.local_expr(dst);
        match name.name.as_str() {
            "first" => {
                self.push(span, StmtKind::TableGet { table: q.ring, key: build::u32(0), dst });
                let bytes = build::unwrap(self.cx.lower_ty(&Ty::Bytes(q.longest)), oldest.clone());
                let n = build::cast(crate::compiler::T_U32, build::len_bytes(bytes));
                let n = ir::Expr::new(n.ty, ir::ExprKind::If(build::is_some(oldest), n, build::u32(0)));
                Ok(Val::pure(U32, n))
            }
            ast::OLDEST => {
                q.taken.set(true);
                self.push(span, StmtKind::TablePop { table: q.ring, dst });
                self.recalled(Val::pure(Ty::Kept(q.unit, q.longest).option(), oldest), span)
            }
            "pop" | "discard" => {
                q.taken.set(true);
                self.push(span, StmtKind::TablePop { table: q.ring, dst });
                // The handler may pop, too.
                let taken = self.temp("", &Ty::Bool, build::is_some(oldest.clone()), span);
                if name.name == "pop" {
                    let cond = self.local_expr(taken);
                    let unit = |_: &mut Self| Ok(Val::unit());
                    self.branch(cond, span, Some(&Ty::Unit), |s| s.popped(q, oldest, span), unit)?;
                }
                Ok(Val::pure(Ty::Bool, self.local_expr(taken)))
            }
            other => {
                let hint = crate::names::suggest(other, ["pop", "discard", "first"].into_iter());
                let d = Diagnostic::error("E0201", name.span, format!("a queue has no method `{other}`"))
                    .note("`q.pop()`, `q.discard()`, `q.first()` (bytes of the oldest message), `len(q)`; `m -> q` sends to it");
                Err(self.cx.report(crate::names::with_hint(d, hint)))
            }
        }
    }

    fn popped(&mut self, q: &Rc<MessageQueue>, oldest: ir::Expr, span: Span) -> R<Val> {
        let bytes = build::unwrap(self.cx.lower_ty(&Ty::Bytes(q.longest)), oldest);
        let (m, ok) = (self.new_local("m", &Ty::Msg(q.unit)), self.new_local("", &Ty::Bool));
        self.push(span, StmtKind::Parse { unit: q.unit, kept: None, bytes, dst: m, ok });
        let (whole, v) = (self.local_expr(ok), Val::path(Ty::Msg(q.unit), build::msg(m)));
        let lost = StmtKind::Count(q.discarded, build::u64(1));
        let then = |s: &mut Self| s.handled_before_calls(q, m, v, span);
        self.branch(whole, span, Some(&Ty::Unit), then, |s| {
            s.push(span, lost);
            Ok(Val::unit())
        })
    }

    /// The bytes of a popped message last until the next call has been answered.
    fn handled_before_calls(&mut self, q: &Rc<MessageQueue>, m: LocalId, v: Val, span: Span) -> R<Val> {
        let (made, block) = self.sub(|s| s.handled(q, v, span));
        made?;
        if let Some(late) = read_after_call(&block, m, &mut false) {
            let text = format!("the message from queue `{}` is gone: a call was made since", q.name);
            let d = Diagnostic::error("E0605", source(late), text).label("it is read after a call");
            return Err(self.cx.report(d.hint("copy its values into a `let` before the call")));
        }
        self.out.extend(block);
        Ok(Val::unit())
    }

    /// The queue's handler or wiring, in the place where a message was popped. It sees no names of
    /// that place, and no client.
    fn handled(&mut self, q: &Rc<MessageQueue>, v: Val, span: Span) -> R<()> {
        if self.popping.iter().any(|p| Rc::ptr_eq(p, q)) {
            let d = Diagnostic::error("E0635", span, format!("the handler of queue `{}` pops from it again", q.name));
            return Err(self.cx.report(d.hint("pop in a loop: `for _ in 0..16 { if not q.pop() { break } }`")));
        }
        let nodes: Option<Vec<Node>> = self.cx.app.chains.get(&q.name).cloned();
        if q.handler.get().is_none() && nodes.is_none() {
            let d = Diagnostic::error("E0611", span, format!("no handler for the messages of queue `{}`", q.name));
            return Err(self.cx.once(d.hint(format!("write `on {0}(m) {{ … }}` or wire it: `{0} -> …`", q.name))));
        }
        self.popping.push(q.clone());
        let made = self.without_client(|s| match q.handler.get() {
            Some(h) => {
                if let On::Message { param, .. } = &h.on {
                    s.bind_all(&[(param.clone(), v)]);
                }
                s.element_body(h, span).map(|_| ())
            }
            None => s.flow(&nodes.unwrap_or_default(), v, span),
        });
        self.popping.pop();
        made
    }

    /// Lowers what sees no names of this place, and no client.
    pub(super) fn without_client<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let around = (self.handler.take(), std::mem::replace(&mut self.copy, true), self.replied, self.dot.take());
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        let made = f(self);
        self.scopes = scopes;
        (self.handler, self.copy, self.replied, self.dot) = around;
        made
    }
}

/// The first statement that reads a local behind a call, on some way through a block.
fn read_after_call(block: &[ir::Stmt], m: LocalId, called: &mut bool) -> Option<ir::Span> {
    for s in block {
        let mut read = false;
        walk::stmt_locals_read(&s.kind, &mut |l| read |= l == m);
        if read && *called {
            return Some(s.span);
        }
        let calls = |b: &[ir::Stmt]| {
            let mut any = false;
            walk::stmts(b, &mut |s| any |= matches!(s.kind, StmtKind::Await { .. }));
            any
        };
        // A loop comes back to its beginning.
        let again = matches!(s.kind, StmtKind::For { max: 2.., .. } | StmtKind::Loop { max: 2.., .. });
        let (before, mut late) = (*called, None);
        walk::stmt_blocks(&s.kind, &mut |b| {
            let mut here = before || again && calls(b);
            late = late.or(read_after_call(b, m, &mut here));
            *called |= here;
        });
        if late.is_some() {
            return late;
        }
        *called |= matches!(s.kind, StmtKind::Await { .. });
    }
    None
}
