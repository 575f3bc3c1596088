//! Inputs of a service's elements that several sends lead to. In: a message at the end of a way
//! through a handler, and the input that it comes to. Out: the input's code, once, behind the code
//! of all its senders.
//!
//! A send notes the number of the input, and the way ends. Behind the handler each joined input
//! follows, guarded by its number, in an order in which senders come first. So code grows with the
//! number of elements, not with the number of paths through them. The first send to an input puts
//! it in its place, as long as the nesting is not deep: most inputs have one sender.
//!
//! Of what its senders know about the message, an input may use what all of them know.

use super::join_notes::{Join, JoinKey, Joins};
use super::wire_ends::{Around, Entrance};
use crate::body::{Lower, Replied, Ret};
use crate::compiler::R;
use crate::ir_builder as build;
use crate::ty::U32;
use crate::val::{Val, Vk};
use ir::StmtKind;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Block, Span, Stmt, StmtKind as S};

/// Elements in each other's places, before the next one is joined.
const NESTED: usize = 8;

/// Whether a statement may end a way through its handler.
fn may_end(s: &Stmt) -> bool {
    let S::Expr(e) = &s.kind else { return matches!(s.kind, S::Send { .. }) };
    e.has_ways()
}

impl Lower<'_, '_> {
    /// A handler of messages begins: its inputs may be joined.
    pub fn joined(&mut self) {
        if self.handler.is_some() && !self.frames {
            (self.joins, self.tail) = (Some(Joins::default()), true);
        }
    }

    /// Lowers something whose sends do not end the handler.
    pub fn aside<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let tail = std::mem::replace(&mut self.tail, false);
        let made = f(self);
        self.tail = tail;
        made
    }

    /// Whether a way through the handler ends with a statement of a block. It may be the last one,
    /// or stand in front of a `return` of the element's.
    fn ends_with(&self, b: &Block, i: usize) -> bool {
        let returns =
            |s: &Stmt| matches!(&s.kind, S::Return(None)) && matches!(&self.ret, Ret::Inline { element: true, .. });
        may_end(&b.stmts[i])
            && match b.stmts.get(i + 1) {
                None => self.tail,
                Some(next) => returns(next) && self.element_tail,
            }
    }

    /// A statement of a block.
    pub fn stmt_of(&mut self, b: &Block, i: usize) -> R<bool> {
        let outer = self.tail;
        self.tail = self.ends_with(b, i);
        let made = self.stmt_here(&b.stmts[i]);
        self.tail = outer;
        made
    }

    /// A statement in the place of an expression.
    pub fn stmt_alone(&mut self, s: &Stmt) -> R<bool> {
        if may_end(s) {
            self.stmt_here(s)
        } else {
            self.stmt(s)
        }
    }

    /// Notes an input as the one that follows behind the handler. False: it has to stand here.
    pub fn joins_input(&mut self, name: &str, e: &Entrance, v: &Val, span: Span) -> bool {
        let Vk::Path(ir::Path { root: ir::Root::Local(message), steps }) = &v.kind else { return false };
        let Some(joins) = self.joins.as_mut().filter(|_| steps.is_empty()) else { return false };
        let key = JoinKey {
            instance: Rc::as_ptr(&e.instance) as usize,
            input: e.input.clone(),
            wires: e.outlet.key(),
            message: *message,
        };
        let again = joins.seen.contains(&key);
        joins.seen.push(key.clone());
        let ends = self.tail && self.handler.is_some() && !self.copy && self.replied == Replied::No;
        let plain = self.pending.is_empty() && self.torn.is_empty() && self.held.is_none() && e.count.is_none();
        if !ends || !plain || !(again || self.under_way.len() >= NESTED) {
            return false;
        }
        let known = joins.all.iter().position(|j| j.key == key);
        let n = match known {
            // Its code uses what is not known here.
            Some(n) if joins.all[n].block.is_some() && joins.all[n].facts.iter().any(|f| !self.facts.contains(f)) => {
                return false;
            }
            Some(n) => {
                if joins.all[n].block.is_none() {
                    joins.all[n].facts.retain(|f| self.facts.contains(f));
                }
                n
            }
            None => {
                let around = Around {
                    app: self.cx.app.clone(),
                    module: self.module,
                    outlets: self.outlets.clone(),
                    element: self.cx.element,
                };
                joins.all.push(Join {
                    key,
                    name: name.into(),
                    entrance: e.clone(),
                    message: v.clone(),
                    around,
                    facts: self.facts.clone(),
                    span,
                    block: None,
                    to: Vec::new(),
                });
                joins.all.len() - 1
            }
        };
        if let Some(at) = joins.at {
            joins.all[at].to.push(n);
        }
        let next = match joins.next {
            Some(next) => next,
            None => self.new_local("next", &U32),
        };
        if let Some(joins) = &mut self.joins {
            joins.next = Some(next);
        }
        self.push(span, StmtKind::Set(next, build::u32(n as u32 + 1)));
        // The input answers, or it is in error.
        if self.handler.is_some_and(|h| !h.one_way) {
            self.replied = Replied::Yes;
        }
        true
    }

    /// Puts the joined inputs behind the handler.
    pub fn join_inputs(&mut self) -> R<()> {
        let Some(first) = self.joins.as_ref().and_then(|j| j.next) else { return Ok(()) };
        // The latest one first: inputs near the end of the wiring are noted before their senders.
        let waits = |l: &Self| l.joins.as_ref().and_then(|j| j.all.iter().rposition(|j| j.block.is_none()));
        while let Some(n) = waits(self) {
            self.joined_input(n)?;
        }
        let Some(mut joins) = self.joins.take() else { return Ok(()) };
        let sp = self.cx.span(self.span);
        self.out.insert(0, build::stmt(sp, StmtKind::Set(first, build::u32(0))));
        for n in self.senders_first(&joins.all)? {
            let join = &mut joins.all[n];
            let cond = build::cmp(ir::BinOp::Eq, self.local_expr(first), build::u32(n as u32 + 1));
            let then = join.block.take().unwrap_or_default();
            self.push(join.span, StmtKind::If { cond, then, other: vec![] });
        }
        Ok(())
    }

    fn joined_input(&mut self, n: usize) -> R<()> {
        let Some(joins) = self.joins.as_mut() else { return Ok(()) };
        joins.at = Some(n);
        let j = &joins.all[n];
        let (entrance, v, around, facts, span) =
            (j.entrance.clone(), j.message.clone(), j.around.clone(), j.facts.clone(), j.span);
        let outer = self.cx.enter(&around);
        let module = std::mem::replace(&mut self.module, around.module);
        let outlets = std::mem::replace(&mut self.outlets, around.outlets);
        let before = std::mem::replace(&mut self.facts, facts);
        (self.replied, self.tail) = (Replied::No, true);
        self.under_way.push((entrance.instance.clone(), entrance.input.clone()));
        let (made, block) = self.sub(|s| s.enter_element(&entrance, v, None, span));
        self.under_way.pop();
        (self.module, self.outlets, self.facts, self.tail) = (module, outlets, before, false);
        self.cx.leave(outer);
        made?;
        self.ends(span);
        if let Some(joins) = self.joins.as_mut() {
            (joins.all[n].block, joins.at) = (Some(block), None);
        }
        Ok(())
    }

    /// The inputs, senders first. A message must not come round to one again.
    fn senders_first<F>(&mut self, all: &[Join<F>]) -> R<Vec<usize>> {
        let mut senders = vec![0; all.len()];
        all.iter().flat_map(|j| &j.to).for_each(|to| senders[*to] += 1);
        let mut order: Vec<usize> = (0..all.len()).filter(|n| senders[*n] == 0).collect();
        let mut at = 0;
        while at < order.len() {
            for to in &all[order[at]].to {
                senders[*to] -= 1;
                if senders[*to] == 0 {
                    order.push(*to)
                }
            }
            at += 1;
        }
        match (0..all.len()).find(|n| senders[*n] > 0) {
            Some(n) => Err(self.cx.leads_back(&all[n].name, all[n].span)),
            None => Ok(order),
        }
    }
}
