//! Methods of a message's list where no statement can stand: in clauses of protocols and in
//! grammars. Each item is asked in turn, by its place.

use super::Lower;
use crate::compiler::{R, T_BOOL, T_U32};
use crate::ir_builder as build;
use crate::ty::{Elem, Ty, U32};
use crate::val::Val;
use ir::{BinOp, Expr as X};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Ident, Pattern, Span};
use wireloom_syntax::Diagnostic;

/// Items of the longest such list.
const MOST: u64 = 64;

impl Lower<'_, '_> {
    /// `request.batch.any(|m| m.kind == 'X')`, `.all`, `.count`
    pub fn each_by_place(
        &mut self,
        (list, elem, max): (&ir::Path, &Elem, u64),
        name: &Ident,
        (p, body): (&Pattern, &Expr),
        span: Span,
    ) -> R<Val> {
        if max > MOST {
            let d = Diagnostic::error("E0430", span, format!("a list of {max} items is too long to be asked here"));
            return Err(self.cx.report(d.label(format!("at most {MOST}")).hint("ask it in the handler")));
        }
        let counts = name.name == "count";
        if !counts && !matches!(name.name.as_str(), "any" | "all") {
            return Err(self.involved(span));
        }
        let (any, number) = (name.name == "any", build::count(list.clone()));
        let mut made = if counts { build::u32(0) } else { build::boolean(!any) };
        for i in 0..max {
            let index = build::u32(i as u32);
            let there = build::cmp(BinOp::Lt, index.clone(), number.clone());
            let facts = self.facts.clone();
            self.know(there.clone());
            self.enter();
            let item = self.cx.item_val(list, elem, index);
            let cond = self.destructure(p, item, span).and_then(|()| self.cond(body));
            self.leave();
            self.facts = facts;
            let cond = cond?;
            made = match name.name.as_str() {
                "any" => build::or(made, build::and(there, cond)),
                "all" => build::and(made, build::or(build::not(there), cond)),
                _ => {
                    let one: X = build::if_(T_U32, build::and(there, cond), build::u32(1), build::u32(0));
                    build::bin(T_U32, BinOp::Add, made, one)
                }
            };
        }
        debug_assert!(counts || made.ty == T_BOOL);
        Ok(Val::pure(if counts { U32 } else { Ty::Bool }, made))
    }
}
