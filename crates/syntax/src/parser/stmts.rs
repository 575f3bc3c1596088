//! Statements.

use super::apps::MEMBERS;
use super::recover::nearest;
use super::{Parser, P};
use crate::ast::Arg;
use crate::ast::{BinOp, Block, Expr, ExprKind, Ident, Pattern, Span, Stmt, StmtKind};
use crate::diagnostic::Diagnostic;
use crate::parser::exprs::expr_of;
use crate::token::Tok;

const STMT_WORDS: &[&str] = &[
    "let", "var", "for", "loop", "break", "continue", "return", "reply", "fault", "remove", "append", "insert",
    "update", "write", "uncached", "answered", "forget", "drop", "close", "log", "expect", "if", "match", "call",
    "become", "hold", "release",
];

impl Parser<'_> {
    /// A statement in a block; a lone name followed by more on its line is a misspelt keyword.
    pub(super) fn stmt_checked(&mut self) -> P<Stmt> {
        let stmt = self.stmt()?;
        let StmtKind::Expr(e) = &stmt.kind else { return Ok(stmt) };
        let ExprKind::Name(name) = &*e.kind else { return Ok(stmt) };
        let ends = self.breaks(0) || matches!(self.tok(), Tok::Sign("}" | ";" | ","));
        if ends {
            return Ok(stmt);
        }
        // A character or number behind it was refused: that is what is wrong.
        let next = self.span().start;
        if self.diagnostics.iter().any(|d| d.span().is_some_and(|s| (name.span.end..next).contains(&s.start))) {
            return Err(super::Abort);
        }
        let d = Diagnostic::error("E0101", name.span, format!("`{}` starts no statement", name.name));
        let d = match nearest(&name.name, STMT_WORDS) {
            _ if matches!(name.name.as_str(), "elif" | "elsif" | "elseif") => d.hint("write `else if`"),
            _ if matches!(name.name.as_str(), "try" | "catch" | "throw" | "raise") => d.hint(
                "there are no exceptions: `call … else { … }` handles a failed call, `fault name` ends the handler",
            ),
            _ if name.name == "set" => d.hint("write `place = value`: `t[k] = true` for an entry"),
            _ if MEMBERS.contains(&name.name.as_str()) => d.hint(format!(
                "`{}` is a member of an app or element: it stands beside the handlers, not in one",
                name.name
            )),
            _ if self.at_sign(":") && self.sign_at(1, "=") => {
                d.hint(format!("a name is defined by `let {0} = …`, or by `var {0} = …` if it changes", name.name))
            }
            Some(word) if *word != name.name => d.hint(format!("did you mean `{word}`?")),
            _ => d.label("this name stands alone, and the line goes on after it"),
        };
        self.report(d);
        Err(super::Abort)
    }

    /// A statement, or in the place of one that cannot be read an error: what follows is not blamed
    /// for it.
    pub(super) fn stmt_or_error(&mut self) -> P<Stmt> {
        let (start, from) = (self.span(), self.at);
        self.stmt_checked().or_else(|super::Abort| {
            self.skip_entry(from);
            Ok(Stmt { span: self.since(start), kind: StmtKind::Expr(expr_of(start, ExprKind::Error)) })
        })
    }

    pub(super) fn stmt(&mut self) -> P<Stmt> {
        self.nested(|p| {
            let start = p.span();
            let kind = p.stmt_kind()?;
            Ok(Stmt { span: p.since(start), kind })
        })
    }

    fn stmt_kind(&mut self) -> P<StmtKind> {
        let word = self.word_text(0).unwrap_or("");
        match word {
            "let" => self.let_stmt(),
            "var" => self.var_stmt(),
            "for" => self.for_stmt(),
            "loop" => self.loop_stmt(),
            "break" if self.stands_alone() => {
                self.bump();
                Ok(StmtKind::Break)
            }
            "continue" if self.stands_alone() => {
                self.bump();
                Ok(StmtKind::Continue)
            }
            "return" => self.return_stmt(),
            "reply" => self.reply_stmt(),
            "if" | "match" => {
                // Nothing goes on after the closing brace: `-x` on the next line is no subtraction.
                let value = self.primary()?;
                Ok(StmtKind::Expr(value))
            }
            _ if self.at_sign("{") && !self.at_set() => Ok(StmtKind::Expr(self.primary()?)),
            "while" if self.goes_on() => {
                let d = Diagnostic::error("E0101", self.span(), "there is no `while`: every loop has a bound")
                    .hint("write `loop max N { if not condition { break } … }` or `for x in list { … }`");
                self.report(d);
                Err(super::Abort)
            }
            _ if self.word_here(1) || self.goes_on() => self.verb_stmt(word),
            _ => self.expr_stmt(),
        }
    }

    /// Something that can be an operand follows the word on its line.
    fn goes_on(&self) -> bool {
        let next = self.token(1);
        match next.tok {
            _ if next.newline => false,
            Tok::Word => !matches!(
                self.word_text(1),
                Some("and" | "or" | "in" | "is" | "else" | "with" | "where" | "then" | "within")
            ),
            Tok::Bytes(_) | Tok::Int(_) | Tok::Scaled(..) | Tok::Address(_) | Tok::Sign("!") => true,
            // `expect -7 == x` is no subtraction.
            Tok::Sign("-" | "~") => !self.adjacent(1) && self.adjacent(2),
            // `log (a)` logs, `log(a)` calls.
            Tok::Sign("(" | "[" | ".") => !self.adjacent(1),
            _ => false,
        }
    }

    fn stands_alone(&self) -> bool {
        self.breaks(1) || matches!(self.token(1).tok, Tok::Sign("}" | ";" | "," | ")" | "]"))
    }

    /// Statements whose word is a keyword only because an operand follows.
    fn verb_stmt(&mut self, word: &str) -> P<StmtKind> {
        if !self.goes_on() {
            return self.expr_stmt();
        }
        match word {
            "fault" => {
                self.bump();
                Ok(StmtKind::Fault(self.any_word("a fault's name")?))
            }
            "remove" => self.remove_stmt(),
            "append" => self.append_stmt(),
            "update" => self.update_stmt(),
            "write" if self.sign_at(2, "[") => self.write_block(),
            "answered" if self.sign_at(2, "[") => self.answered_block(),
            "uncached" if self.sign_at(2, "{") || self.word_at(2, "by") => self.uncached_block(),
            "forget" => self.forget_stmt(),
            "insert" => self.insert_stmt(),
            "drop" => {
                self.bump();
                Ok(StmtKind::Drop(self.place()?))
            }
            "close" => {
                self.bump();
                Ok(StmtKind::Close(self.place()?))
            }
            "pool" if self.word_at(2, "for") => {
                self.bump();
                let place = self.place()?;
                self.expect_word("for")?;
                Ok(StmtKind::Pool { place, key: self.expr()? })
            }
            "become" => self.become_stmt(),
            "hold" | "release" => {
                self.bump();
                Ok(StmtKind::Hold { member: self.place()?, on: word == "hold" })
            }
            "log" => {
                self.bump();
                let mut values = vec![self.expr()?];
                while self.eat(",") {
                    values.push(self.expr()?);
                }
                Ok(StmtKind::Log(values))
            }
            "expect" => {
                self.bump();
                Ok(StmtKind::Expect(self.expr()?))
            }
            "publish" | "subscribe" | "unsubscribe" => self.not_yet(&format!("`{word}`")),
            _ => self.expr_stmt(),
        }
    }

    /// `become websocket for client, up with rest`
    fn become_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        let protocol = self.path("a protocol")?;
        let mut members = Vec::new();
        if self.at_word("for") && !self.breaks(0) {
            self.bump();
            members.push(self.place()?);
            while self.eat(",") {
                members.push(self.place()?);
            }
        }
        let rest = self.at_word("with") && !self.breaks(0);
        if rest {
            self.bump();
            self.expect_word("rest")?;
        }
        Ok(StmtKind::Become { protocol, members, rest })
    }

    /// `insert Vlan { … } before p.ip4`
    fn insert_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        let parts = self.expr_no_else()?;
        let before = self.at_word("before");
        if self.at_word("after") {
            let d = Diagnostic::error("E0101", self.span(), "expected `before` or `behind`, found `after`");
            self.report(d.label("write `behind`").hint("a header is inserted `behind p.eth`, or `before p.ip4`"));
            return Err(super::Abort);
        }
        if !before && !self.at_word("behind") {
            return self.unexpected("`before` or `behind` and a header");
        }
        self.bump();
        Ok(StmtKind::Insert { parts, before, at: self.place()? })
    }

    fn let_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        if self.at_word("mut") && self.token(1).tok == Tok::Word {
            let d = Diagnostic::error("E0101", self.span(), "there is no `mut`");
            self.report(d.hint("a name that changes is defined by `var`: `var n = 0`"));
            return Err(super::Abort);
        }
        let name = self.span();
        let pattern = if self.at_any_word() && !self.sign_at(1, ".") && !self.sign_at(1, "(") && !self.at_word("_") {
            Pattern::Name(self.name("a value")?)
        } else {
            self.single_pattern()?
        };
        let ty = self.type_annotation()?;
        Ok(StmtKind::Let { pattern, ty, value: self.value("let", name)? })
    }

    fn var_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        let name = self.name("a variable")?;
        let ty = self.type_annotation()?;
        let value = self.value("var", name.span)?;
        Ok(StmtKind::Var { name, ty, value })
    }

    /// `: T`, if there is one
    pub(super) fn type_annotation(&mut self) -> P<Option<crate::ast::Type>> {
        self.mark_tight_if(":");
        if !self.eat(":") {
            return Ok(None);
        }
        self.ty().map(Some)
    }

    pub(super) fn mark_tight_if(&mut self, sign: &str) {
        if self.at_sign(sign) {
            self.mark_tight();
        }
    }

    /// `= value` behind `let name` or `var name`
    pub(super) fn value(&mut self, word: &str, name: Span) -> P<Expr> {
        let given = self.at_sign("=");
        if given && self.statement_at(1) || !given && self.ends_at(0) {
            let text = format!("this `{word}` gives its name no value");
            let d = Diagnostic::error("E0101", name, text).label("has no value");
            self.report(d.hint(format!("write `{word} name = value`, with the value behind the `=`")));
            return Err(super::Abort);
        }
        if !self.eat("=") {
            return self
                .unexpected_with("`=` after the name", |d| d.hint("every name is given a value where it is defined"));
        }
        self.expr()
    }

    /// Whether the line, or what it stands in, ends before a token.
    fn ends_at(&self, ahead: usize) -> bool {
        self.token(ahead).newline || self.token(ahead).tok == Tok::End || self.sign_at(ahead, "}")
    }

    /// Whether no value can begin at a token: something ends there, or another statement or field
    /// begins.
    fn statement_at(&self, ahead: usize) -> bool {
        const WORDS: &[&str] = &["let", "var", "for", "loop", "return", "reply", "require"];
        let end = self.token(ahead).tok == Tok::End || self.sign_at(ahead, "}");
        let begins = self.word_text(ahead).is_some_and(|w| WORDS.contains(&w)) || self.sign_at(ahead + 1, ":");
        end || self.token(ahead).newline && begins
    }

    fn for_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        if self.at_sign("(") && self.word_text(1).is_some() && self.sign_at(2, "=") {
            return self.unexpected_with("a name", |d| d.hint("count with a range: `for i in 0..10 { … }`"));
        }
        let pattern = self.single_pattern()?;
        self.expect_word("in")?;
        let list = self.condition_expr()?;
        let body = self.block()?;
        Ok(StmtKind::For { pattern, list, body })
    }

    fn loop_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        if !self.eat_word("max") {
            return self.unexpected_with("`max`", |d| d.hint("every loop has a bound: `loop max 100 { … }`"));
        }
        let max = self.condition_expr()?;
        let body = self.block()?;
        Ok(StmtKind::Loop { max, body })
    }

    fn return_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        let ends = self.breaks(0) || matches!(self.tok(), Tok::Sign("}" | ";" | "," | ")" | "]"));
        Ok(StmtKind::Return(if ends { None } else { Some(self.expr()?) }))
    }

    fn reply_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        if self.breaks(0) || matches!(self.tok(), Tok::Sign("}" | ";" | ",")) {
            return self.unexpected_with("a reply", |d| d.hint("write `reply nothing` to answer nothing"));
        }
        // `reply nothing return` on one line, too.
        let goes_on = matches!(self.word_text(1), Some("else" | "with" | "and" | "or" | "in" | "is"));
        let nothing = self.at_word("nothing") && (self.stands_alone() || self.word_here(1) && !goes_on);
        let value = if nothing {
            self.bump();
            None
        } else {
            Some(self.expr()?)
        };
        let close = self.at_word("then") && !self.breaks(0);
        if close {
            self.bump();
            self.expect_word("close")?;
        }
        Ok(StmtKind::Reply { value, close })
    }

    fn remove_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        let place = self.condition(Self::place)?;
        if self.eat_word("where") {
            return Ok(StmtKind::RemoveWhere { list: place, cond: self.expr()? });
        }
        Ok(StmtKind::Remove(place))
    }

    fn append_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        let list = self.condition(Self::place)?;
        Ok(StmtKind::Append { list, fields: self.build_fields()? })
    }

    fn update_stmt(&mut self) -> P<StmtKind> {
        self.bump();
        let entry = self.condition(Self::place)?;
        let start = self.span();
        if !self.at_sign("{") {
            return self.unexpected("`{`");
        }
        let stmts = self.braced(|p| {
            p.dot_starts = true;
            p.stmt_checked()
        })?;
        let body = Block { span: self.since(start), stmts };
        Ok(StmtKind::Update { entry, body })
    }

    fn expr_stmt(&mut self) -> P<StmtKind> {
        let start = self.span();
        let value = self.expr()?;
        if self.at_sign("->") {
            self.bump();
            return Ok(StmtKind::Send { value, to: self.send_target()? });
        }
        match self.assignment(start, value)? {
            Ok(stmt) => Ok(stmt.kind),
            Err(value) if self.at_sign("++") || self.at_sign("--") => {
                let _ = value;
                self.unexpected("the end of the statement")
            }
            Err(value) => Ok(StmtKind::Expr(value)),
        }
    }

    /// Where a handler sends to: an expression, or `broadcast x`, `steer x by e`, which become
    /// calls of that name.
    fn send_target(&mut self) -> P<Expr> {
        let start = self.span();
        let listed = self.sign_at(1, "[") && !self.adjacent(1);
        if !(self.at_word("broadcast") || self.at_word("steer")) || !(self.word_here(1) || listed) {
            let mut to = self.place()?;
            while self.at_sign("(") && !self.breaks(0) {
                // A value: `m -> r.all.without(client)`.
                self.grow()?;
                let args = self.args()?;
                to = expr_of(self.since(start), ExprKind::Call(to, args));
            }
            return Ok(to);
        }
        let word = self.any_word("a node")?;
        let ports = self.place()?;
        let mut args = vec![Arg { name: None, value: ports }];
        if self.at_word("by") {
            let name = Ident { name: "by".into(), span: self.bump() };
            args.push(Arg { name: Some(name), value: self.expr_no_else()? });
        }
        let callee = expr_of(word.span, ExprKind::Name(word));
        Ok(expr_of(self.since(start), ExprKind::Call(callee, args)))
    }

    /// `place = e`, `place += e` after the place; gives the place back when neither follows.
    pub(super) fn assignment(&mut self, start: Span, place: Expr) -> P<Result<Stmt, Expr>> {
        let Some((op, tokens)) = self.assign_op() else { return Ok(Err(place)) };
        for i in 0..tokens {
            if i > 0 {
                self.mark_tight();
            }
            self.bump();
        }
        let pooled = self.at_word("take");
        if op.is_none() && (pooled || self.at_word("open")) && self.word_here(1) {
            self.bump();
            let target = self.place()?;
            let kind = match pooled {
                true => StmtKind::Take { place, target },
                false => {
                    let key = if self.eat_word("for") { Some(self.expr()?) } else { None };
                    StmtKind::Open { place, target, key }
                }
            };
            return Ok(Ok(Stmt { span: self.since(start), kind }));
        }
        let value = self.expr()?;
        Ok(Ok(Stmt { span: self.since(start), kind: StmtKind::Assign { place, op, value } }))
    }

    fn assign_op(&self) -> Option<(Option<BinOp>, usize)> {
        let Tok::Sign(sign) = self.tok() else { return None };
        let op = match *sign {
            "=" => None,
            "+=" => Some(BinOp::Add),
            "-=" => Some(BinOp::Sub),
            "*=" => Some(BinOp::Mul),
            "/=" => Some(BinOp::Div),
            "%=" => Some(BinOp::Rem),
            "|=" => Some(BinOp::BitOr),
            "&=" => Some(BinOp::BitAnd),
            "^=" => Some(BinOp::BitXor),
            "+|=" => Some(BinOp::AddSat),
            "-|=" => Some(BinOp::SubSat),
            "<<=" => Some(BinOp::Shl),
            ">" if self.sign_at(1, ">=") && self.adjacent(1) => return Some((Some(BinOp::Shr), 2)),
            _ => return None,
        };
        Some((op, 1))
    }
}
