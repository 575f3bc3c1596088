//! Blocks of caches.

use super::exprs::expr_of;
use super::{Parser, P};
use crate::ast::{Expr, ExprKind, StmtKind};

impl Parser<'_> {
    /// `cached hot[k] { … }`, `cached hot[k] by x { … } reply(p)`
    pub(super) fn cached(&mut self) -> P<Expr> {
        let start = self.bump();
        let entry = self.condition(Self::place)?;
        let by = self.exchange()?;
        let body = self.block()?;
        let reply = if self.at_word("reply") && self.sign_at(1, "(") && !self.breaks(0) {
            self.bump();
            self.mark_tight();
            self.expect("(")?;
            let packet = self.place()?;
            self.mark_tight();
            self.expect(")")?;
            Some(packet)
        } else {
            None
        };
        Ok(expr_of(self.since(start), ExprKind::Cached { entry, by, body, reply }))
    }

    /// `by x`
    fn exchange(&mut self) -> P<Option<Expr>> {
        Ok(if self.eat_word("by") { Some(self.condition(Self::place)?) } else { None })
    }

    pub(super) fn write_block(&mut self) -> P<StmtKind> {
        self.bump();
        let entry = self.condition(Self::place)?;
        let by = self.exchange()?;
        Ok(StmtKind::Write { entry, by, body: self.block()? })
    }

    pub(super) fn uncached_block(&mut self) -> P<StmtKind> {
        self.bump();
        let cache = self.condition(Self::place)?;
        let by = self.exchange()?;
        Ok(StmtKind::Uncached { cache, by, body: self.block()? })
    }

    /// `answered hot[k] by x { … } else { … }`
    pub(super) fn answered_block(&mut self) -> P<StmtKind> {
        self.bump();
        let entry = self.condition(Self::place)?;
        let Some(by) = self.exchange()? else { return self.unexpected("`by` and what tells the exchange") };
        let body = self.block()?;
        let other = if self.eat_word("else") { Some(self.block()?) } else { None };
        Ok(StmtKind::Answered { entry, by, body, other })
    }

    pub(super) fn forget_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        Ok(StmtKind::Forget(self.place()?))
    }
}
