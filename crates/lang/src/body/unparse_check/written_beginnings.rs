//! Looks at the first bytes of a field once they are written, where they are not known before: of
//! items from a comprehension, say. In: the place, and the texts that it must or must not begin
//! with. Out: a mark there, and a check at the end of the block that writes it.

use super::super::Lower;
use crate::ir_builder as build;
use crate::ty::{Ty, U32};
use ir::{ByteSet, Emit, Expr as X, ExprKind as K, LocalId, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

/// A place of the message that is being built, and the texts that decide there.
pub struct WrittenBeginning {
    mark: LocalId,
    with: Vec<Vec<u8>>,
    /// It must begin with none of them, else with one.
    not: bool,
    span: Span,
}

impl Lower<'_, '_> {
    /// The bytes that follow must begin with one of these texts, or with none, if a condition holds
    /// now. Bytes that are too few to tell are read again with their message.
    pub fn look_behind(&mut self, with: Vec<Vec<u8>>, not: bool, when: &X, span: Span) {
        self.unsure();
        let mark = self.new_local("begins", &U32);
        let here = StmtKind::Emit(Emit::Mark(mark));
        match build::as_bool(when) {
            Some(false) => return,
            Some(true) => self.push(span, here),
            None => {
                self.push(span, StmtKind::Set(mark, build::u32(u32::MAX)));
                let then = vec![build::stmt(self.cx.span(span), here)];
                self.push(span, StmtKind::If { cond: when.clone(), then, other: vec![] });
            }
        }
        self.beginnings.push(WrittenBeginning { mark, with, not, span });
    }

    /// The next byte must not be one of a set, if a condition holds now.
    pub fn no_more_behind(&mut self, run: &ByteSet, when: &X, span: Span) {
        self.look_behind(bytes_of(run), true, when, span);
    }

    /// In each round of a loop, behind its item: the next item must not begin with a byte of a set.
    pub fn look_behind_each(&mut self, run: &ByteSet, span: Span) -> WrittenBeginning {
        self.unsure();
        let mark = self.new_local("begins", &U32);
        let round = WrittenBeginning { mark, with: bytes_of(run), not: true, span };
        self.check_beginning(&round);
        self.push(span, StmtKind::Emit(Emit::Mark(mark)));
        round
    }

    /// Behind such a loop, which begins at this statement: nor must the bytes behind it.
    pub fn look_behind_all(&mut self, round: WrittenBeginning, before: usize) {
        let none = build::stmt(self.cx.span(round.span), StmtKind::Set(round.mark, build::u32(u32::MAX)));
        self.out.insert(before.min(self.out.len()), none);
        self.beginnings.push(round);
    }

    /// Checks the beginnings that the block at hand has written, from this one on.
    pub fn look_at_beginnings(&mut self, from: usize) {
        for b in self.beginnings.split_off(from.min(self.beginnings.len())) {
            self.check_beginning(&b);
        }
    }

    fn check_beginning(&mut self, b: &WrittenBeginning) {
        let mut with = vec![];
        for t in &b.with {
            let ty = self.cx.lower_ty(&Ty::Bytes(t.len() as u64));
            with.push(X::new(ty, K::Bytes(t.clone())));
        }
        let place = self.place_id(b.span);
        let from = self.local_expr(b.mark);
        self.push(b.span, StmtKind::Emit(Emit::Begins { not: b.not, with, from, place }));
    }
}

/// Each byte of a set as a text.
fn bytes_of(set: &ByteSet) -> Vec<Vec<u8>> {
    set.iter().map(|b| vec![b]).collect()
}
