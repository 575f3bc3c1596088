//! `test` blocks: ordinary code, or a script of the clients and servers around an app.

use super::{Parser, P};
use crate::ast::{Expr, Stmt, StmtKind, Test, TestStep, TestStepKind};
use crate::token::Tok;

const ACTS: &[&str] = &["close", "reset", "refuse", "accept"];

impl Parser<'_> {
    /// `test "name" of app(param = value) { steps }`
    pub(super) fn test(&mut self) -> P<Test> {
        let start = self.expect_word("test")?;
        let name = self.string("the test's name")?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let app = if self.eat_word("of") {
            let path = self.path("an app's name")?;
            let mut args = self.angled_args()?;
            if self.at_sign("(") {
                args.extend(self.args()?);
            }
            Some((path, args))
        } else {
            None
        };
        let steps = self.steps(app.is_some())?;
        Ok(Test { name, span: self.since(start), app, steps })
    }

    fn steps(&mut self, simulated: bool) -> P<Vec<TestStep>> {
        self.braced(|p| {
            let start = p.span();
            let kind = p.step(simulated)?;
            Ok(TestStep { span: p.since(start), kind })
        })
    }

    fn step(&mut self, simulated: bool) -> P<TestStepKind> {
        let word = self.word_text(0).unwrap_or("");
        if simulated && word == "for" {
            return self.nested(Self::repeated);
        }
        if ACTS.contains(&word) && self.word_here(1) {
            let act = self.any_word("an act")?;
            return Ok(TestStepKind::Act { act, port: self.place()? });
        }
        if word == "wait"
            && !self.token(1).newline
            && matches!(self.token(1).tok, Tok::Scaled(..) | Tok::Int(_) | Tok::Word)
        {
            self.bump();
            return self.expr().map(TestStepKind::Wait);
        }
        if self.at_any_word() && self.place_then_arrow() {
            return self.traffic();
        }
        let stmt = self.stmt_checked()?;
        Ok(match stmt.kind {
            StmtKind::Send { value, to } => see(value, to),
            kind => TestStepKind::Code(Stmt { span: stmt.span, kind }),
        })
    }

    /// Looks ahead over `name.field[index]…` for `<-` or `->`.
    fn place_then_arrow(&self) -> bool {
        let mut ahead = 1;
        let mut open = 0usize;
        while ahead < 64 {
            match self.token(ahead).tok {
                Tok::Sign("[") => open += 1,
                Tok::Sign("]") if open > 0 => open -= 1,
                Tok::Sign("<-" | "->") if open == 0 => return true,
                Tok::Sign(".") => {}
                Tok::Word | Tok::Int(_) if open > 0 || self.sign_at(ahead - 1, ".") => {}
                Tok::Sign("+" | "-" | "*" | "%" | "(" | ")") if open > 0 => {}
                _ => return false,
            }
            ahead += 1;
        }
        false
    }

    /// `for i in 0..10 { steps }`
    fn repeated(&mut self) -> P<TestStepKind> {
        self.bump();
        let var = self.name("a variable")?;
        self.expect_word("in")?;
        let list = self.condition_expr()?;
        Ok(TestStepKind::For { var, list, steps: self.steps(true)? })
    }

    fn traffic(&mut self) -> P<TestStepKind> {
        let port = self.place()?;
        if self.eat("<-") {
            return Ok(TestStepKind::Send { port, bytes: self.expr()? });
        }
        self.expect("->")?;
        if self.at_word("where") {
            self.bump();
            return Ok(TestStepKind::SeeWhere { port, cond: self.expr()? });
        }
        for (word, closed) in [("closed", true), ("nothing", false)] {
            let plain = !self.sign_at(1, "(") && !self.sign_at(1, ".");
            if self.at_word(word) && (plain || self.breaks(1)) {
                self.bump();
                return Ok(TestStepKind::SeeEnd { port, closed });
            }
        }
        Ok(TestStepKind::See { port, bytes: self.expr()? })
    }
}

fn see(port: Expr, bytes: Expr) -> TestStepKind {
    TestStepKind::See { port, bytes }
}
