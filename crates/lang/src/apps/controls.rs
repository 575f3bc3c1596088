//! `signal start, stop, reset` of an element.
//!
//! A stopped element drops its input, and its timers rest. A reset restores the first values of its
//! states, and of the states of the elements in it. It empties tables, limiters and queues, and
//! runs the element's start again. Counters count on. Tables of rules (`wildcard`, `lpm`), which
//! are filled from outside, stay as they are.

use super::scope::{AppName, Instance};
use crate::body::Lower;
use crate::compiler::{Compiler, R, T_BOOL, T_U32};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::Val;
use ir::{ExprKind as K, QueueAct, StmtKind, TableKind};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Block, Ident, Span, STOPPED};
use wireloom_syntax::Diagnostic;

/// Most packets of a queue.
const MOST_WAITING: u64 = 1 << 20;

impl Compiler<'_> {
    /// An app is no element.
    pub fn no_controls(&mut self, app: &ast::Element) {
        if let Some(name) = app.members.iter().find_map(ast::Member::control) {
            self.report(
                Diagnostic::error("E0613", name.span, format!("an app has no `signal {}`", name.name))
                    .hint("it belongs to elements; an app writes its signals out: `signal name() { … }`"),
            );
        }
    }
}

impl Lower<'_, '_> {
    /// Whether the element at hand is stopped; None: it cannot be.
    pub fn is_stopped(&self, i: &Instance) -> Option<ir::Expr> {
        if !i.element.is_controlled() {
            return None;
        }
        match i.scope.get(STOPPED) {
            Some(AppName::State(id, Ty::Bool)) => Some(ir::Expr::new(T_BOOL, K::State(*id))),
            _ => None,
        }
    }

    /// Does something unless the element is stopped.
    pub fn unless_stopped(&mut self, i: &Instance, span: Span, f: impl FnOnce(&mut Self) -> R<()>) -> R<()> {
        let Some(stopped) = self.is_stopped(i) else { return f(self) };
        self.impure = true;
        self.branch(build::not(stopped), span, Some(&Ty::Unit), |s| f(s).map(|()| Val::unit()), |s| s.dropped(span))
            .map(|_| ())
    }

    /// The body of `signal start`, `signal stop` or `signal reset`.
    pub fn control(&mut self, word: &Ident, start: &[Block], span: Span) -> R<()> {
        self.impure = true;
        if word.name == "reset" {
            self.reset_names(span)?;
            return start.iter().try_for_each(|b| self.block(b, Some(&Ty::Unit)).map(|_| ()));
        }
        if let Some(AppName::State(id, _)) = self.cx.app.get(STOPPED) {
            let id = *id;
            self.push(span, StmtKind::SetState(id, build::boolean(word.name == "stop")));
        }
        Ok(())
    }

    /// Resets the items behind the current names.
    fn reset_names(&mut self, span: Span) -> R<()> {
        let names: Vec<String> = self.cx.app.names().filter(|n| n != STOPPED).collect();
        for name in names {
            match self.cx.app.get(&name).cloned() {
                Some(AppName::State(id, t)) => {
                    let state = &self.cx.m.states[id.index()];
                    if state.memory {
                        return Err(self.not_emptied(&name, "the memory of an element in C", span));
                    }
                    let begin = state.init.clone();
                    let zero = ir::passes::zero_init::zero(&self.cx.m, state.ty);
                    match begin.or(zero) {
                        Some(e) => self.push(span, StmtKind::SetState(id, e)),
                        None => return Err(self.not_emptied(&name, &self.show(&t), span)),
                    }
                }
                Some(AppName::Table(t)) => self.empty_table(t, &name, span)?,
                Some(AppName::Gauge(g)) => self.empty_table(g.table, &name, span)?,
                Some(AppName::Messages(q)) => self.empty_table(q.ring, &name, span)?,
                Some(AppName::Port(p)) if self.cx.is_queue(p) => self.empty_queue(p, span),
                Some(AppName::Instance(i)) => self.reset_inner(&name, &i, span)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// An element inside of the one that is reset.
    fn reset_inner(&mut self, name: &str, i: &Rc<Instance>, span: Span) -> R<()> {
        if self.outlets.len() >= 16 {
            return Err(self.cx.recursion(name, span));
        }
        let rest = self.behind(name, i, false, span)?;
        let outlet = self.outlet_of(name, i, &rest, span)?;
        self.in_instance(i, outlet, |s| {
            s.reset_names(span)?;
            i.element.start_blocks().iter().try_for_each(|b| s.block(b, Some(&Ty::Unit)).map(|_| ()))
        })
    }

    fn not_emptied(&mut self, name: &str, what: &str, span: Span) -> crate::compiler::Reported {
        self.cx.once(
            Diagnostic::error(
                "E0638",
                span,
                format!("`{name}` cannot be reset: {what} is not emptied while it is used"),
            )
            .hint("write the signal out: `signal reset() { … }`"),
        )
    }

    fn empty_table(&mut self, table: ir::TableId, name: &str, span: Span) -> R<()> {
        let t = &self.cx.m.tables[table.index()];
        let (kind, capacity, value) = (t.kind, t.capacity, t.value);
        match kind {
            TableKind::Exact => {
                let types = &self.cx.tables[table.index()];
                let (key, value) = (types.key.clone(), types.value.clone());
                self.clear_table(table, &key, &value, span);
            }
            TableKind::Wildcard | TableKind::Lpm => {}
            TableKind::Array => {
                let Some(zero) = ir::passes::zero_init::zero(&self.cx.m, value) else {
                    return Err(self.not_emptied(name, "this array", span));
                };
                let at = self.new_local("", &crate::ty::U32);
                let sp = self.cx.span(span);
                let key = self.local_expr(at);
                let place = self.place_id(span);
                let body = vec![build::stmt(sp, StmtKind::TablePut { table, key, value: zero, place })];
                let to = build::u32(u32::try_from(capacity).unwrap_or(u32::MAX));
                self.push(span, StmtKind::For { var: at, from: build::u32(0), to, max: capacity, body });
            }
            TableKind::Ring => {
                let ty = self.cx.tables[table.index()].value.clone().option();
                let dst = self.new_local("", &ty);
                let there = build::is_some(self.local_expr(dst));
                self.until(there, StmtKind::TablePop { table, dst }, capacity.saturating_add(1), span);
            }
            TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog => {
                return Err(self.not_emptied(name, "a sketch", span))
            }
        }
        Ok(())
    }

    fn empty_queue(&mut self, port: ir::PortId, span: Span) {
        let at = self.new_local("", &crate::ty::U32);
        let dst = self.new_local("", &Ty::Bool);
        let (index, there) = (self.local_expr(at), self.local_expr(dst));
        let discard = StmtKind::Queue { port, index, act: QueueAct::Drop, dst };
        let ((), body) = self.sub(|s| s.until(there, discard, MOST_WAITING, span));
        let max = self.cx.app.instances(port);
        let to = ir::Expr::new(T_U32, K::PortLen(port));
        self.push(span, StmtKind::For { var: at, from: build::u32(0), to, max, body });
    }

    /// Does something until it finds nothing.
    fn until(&mut self, there: ir::Expr, act: StmtKind, max: u64, span: Span) {
        let sp = self.cx.span(span);
        let end = StmtKind::If { cond: build::not(there), then: vec![build::stmt(sp, StmtKind::Break)], other: vec![] };
        let body = vec![build::stmt(sp, act), build::stmt(sp, end)];
        self.push(span, StmtKind::Loop { max, body });
    }
}
