//! Expressions, by precedence climbing.

use super::{Column, Parser, P};
use crate::ast::{Arg, Arm, BinOp, Block, Expr, ExprKind, Ident, Join, Path, Pattern, Span, Stmt, StmtKind, UnOp};
use crate::diagnostic::Diagnostic;
use crate::token::Tok;

/// Binding strength, loosest first. `else` is looser than all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Or,
    And,
    Not,
    Compare,
    Range,
    /// Bitwise or
    Alt,
    Xor,
    BitAnd,
    Shift,
    Sum,
    Product,
    Unary,
}

impl Level {
    fn tighter(self) -> Level {
        use Level::*;
        match self {
            Or => And,
            And => Not,
            Not => Compare,
            Compare => Range,
            Range => Alt,
            Alt => Xor,
            Xor => BitAnd,
            BitAnd => Shift,
            Shift => Sum,
            Sum => Product,
            Product | Unary => Unary,
        }
    }
}

/// An operator between two operands.
enum Infix {
    Op(BinOp),
    Range(bool),
    Is,
}

pub(super) fn expr_of(span: Span, kind: ExprKind) -> Expr {
    Expr { span, kind: Box::new(kind) }
}

impl Parser<'_> {
    /// Any expression, `else` included.
    pub(super) fn expr(&mut self) -> P<Expr> {
        self.nested(|p| {
            let start = p.span();
            let value = p.binary(Level::Or)?;
            p.else_after(start, value)
        })
    }

    /// An expression that an `else` of something larger may follow.
    pub(super) fn expr_no_else(&mut self) -> P<Expr> {
        self.nested(|p| p.binary(Level::Or))
    }

    /// An expression before a block: `Name {` does not build in it.
    pub(super) fn condition_expr(&mut self) -> P<Expr> {
        self.condition(Self::expr)
    }

    fn else_after(&mut self, start: Span, value: Expr) -> P<Expr> {
        // `else =>` is a case of the switch around.
        if !self.at_word("else") || self.sign_at(1, "=>") {
            return Ok(value);
        }
        self.bump();
        let instead = self.else_operand()?;
        Ok(expr_of(self.since(start), ExprKind::Else(value, instead)))
    }

    fn else_operand(&mut self) -> P<Expr> {
        if self.at_sign("{") && !self.at_set() {
            return self.block_expr();
        }
        match self.leaving_stmt()? {
            Some(stmt) => Ok(stmt),
            None => self.expr(),
        }
    }

    /// A statement that stands where a value would: `x else return`, `_ => fault bad`.
    pub(super) fn leaving_stmt(&mut self) -> P<Option<Expr>> {
        let leaves = match self.word_text(0) {
            Some("return" | "break" | "continue" | "reply") => true,
            Some("fault") => self.word_here(1),
            _ => false,
        };
        if !leaves {
            return Ok(None);
        }
        let stmt = self.stmt()?;
        Ok(Some(expr_of(stmt.span, ExprKind::Stmt(Box::new(stmt)))))
    }

    fn block_expr(&mut self) -> P<Expr> {
        let block = self.block()?;
        Ok(expr_of(block.span, ExprKind::Block(block)))
    }

    // ---- operators ----

    pub(super) fn binary(&mut self, min: Level) -> P<Expr> {
        let start = self.span();
        let mut left = self.prefix(min)?;
        while let Some((infix, level)) = self.infix() {
            if level < min {
                break;
            }
            self.grow()?;
            left = self.infix_after(start, left, infix, level)?;
        }
        Ok(left)
    }

    fn prefix(&mut self, min: Level) -> P<Expr> {
        if !self.at_word("not") {
            return self.unary();
        }
        let start = self.bump();
        let level = if min > Level::Not { Level::Compare } else { Level::Not };
        let operand = self.nested(|p| p.binary(level))?;
        Ok(expr_of(self.since(start), ExprKind::Unary(UnOp::Not, operand)))
    }

    fn infix_after(&mut self, start: Span, left: Expr, infix: Infix, level: Level) -> P<Expr> {
        let op = match infix {
            Infix::Is => return self.is_after(start, left),
            Infix::Range(inclusive) => {
                self.range_sign();
                let right = self.nested(|p| p.binary(level.tighter()))?;
                return Ok(expr_of(self.since(start), ExprKind::Range(left, right, inclusive)));
            }
            Infix::Op(op) => op,
        };
        self.operator(op);
        let right = if op == BinOp::In && self.at_sign("{") {
            self.set()?
        } else {
            self.nested(|p| p.binary(level.tighter()))?
        };
        Ok(expr_of(self.since(start), ExprKind::Binary(op, left, right)))
    }

    /// Takes the tokens of an operator.
    fn operator(&mut self, op: BinOp) {
        if let Tok::Sign(wrong @ ("&&" | "||")) = *self.tok() {
            let word = if wrong == "&&" { "and" } else { "or" };
            let d = Diagnostic::error("E0106", self.span(), format!("`{wrong}` is no operator"))
                .hint(format!("write `{word}`"));
            self.report(d);
        }
        self.bump();
        if op == BinOp::Shr {
            self.mark_tight();
            self.bump();
        }
    }

    /// `x is pattern` is `match x { pattern => true, _ => false }`.
    fn is_after(&mut self, start: Span, left: Expr) -> P<Expr> {
        let at = self.bump();
        let pattern = self.single_pattern()?;
        let arm = |pattern, value| Arm { pattern, guard: None, body: expr_of(at, ExprKind::Bool(value)) };
        let arms = vec![arm(pattern, true), arm(Pattern::Any(at), false)];
        Ok(expr_of(self.since(start), ExprKind::Match(left, arms)))
    }

    /// The next operator, if it continues the expression.
    fn infix(&self) -> Option<(Infix, Level)> {
        use BinOp::*;
        let op = |op, level| Some((Infix::Op(op), level));
        match self.tok() {
            Tok::Word => match self.word_text(0) {
                Some("or") => op(Or, Level::Or),
                Some("and") => op(And, Level::And),
                Some("is") => Some((Infix::Is, Level::Compare)),
                // On a new line `in name:` is a port.
                Some("in") if !(self.breaks(0) && self.token(1).tok == Tok::Word && self.sign_at(2, ":")) => {
                    op(In, Level::Compare)
                }
                _ => None,
            },
            Tok::Sign(sign) => match *sign {
                "||" => op(Or, Level::Or),
                "&&" => op(And, Level::And),
                "==" => op(Eq, Level::Compare),
                "!=" => op(Ne, Level::Compare),
                "<" => op(Lt, Level::Compare),
                "<=" => op(Le, Level::Compare),
                ">" if self.sign_at(1, ">") && self.adjacent(1) => op(Shr, Level::Shift),
                ">" if self.sign_at(1, ">=") && self.adjacent(1) => None,
                ">" => op(Gt, Level::Compare),
                ">=" => op(Ge, Level::Compare),
                "~=" => op(EqCase, Level::Compare),
                ".." => Some((Infix::Range(false), Level::Range)),
                "..=" => Some((Infix::Range(true), Level::Range)),
                "|" => op(BitOr, Level::Alt),
                "^" => op(BitXor, Level::Xor),
                "&" => op(BitAnd, Level::BitAnd),
                "<<" => op(Shl, Level::Shift),
                "+" => op(Add, Level::Sum),
                "-" => op(Sub, Level::Sum),
                "+|" => op(AddSat, Level::Sum),
                "-|" => op(SubSat, Level::Sum),
                "*" => op(Mul, Level::Product),
                "/" => op(Div, Level::Product),
                "%" => op(Rem, Level::Product),
                _ => None,
            },
            _ => None,
        }
    }

    fn unary(&mut self) -> P<Expr> {
        let op = match self.tok() {
            Tok::Sign("-") => UnOp::Neg,
            Tok::Sign("!") => UnOp::Not,
            Tok::Sign("~") => UnOp::BitNot,
            _ => return self.postfix(),
        };
        self.mark_glue();
        let start = self.bump();
        let operand = self.nested(Self::unary)?;
        Ok(expr_of(self.since(start), ExprKind::Unary(op, operand)))
    }

    // ---- postfix ----

    fn postfix(&mut self) -> P<Expr> {
        let start = self.span();
        let mut base = self.primary()?;
        loop {
            let builds = self.at_sign("{") && self.builds(&base);
            base = match self.tok() {
                Tok::Sign("(") if !self.breaks(0) => {
                    self.grow()?;
                    let args = self.args()?;
                    expr_of(self.since(start), ExprKind::Call(base, args))
                }
                Tok::Word if self.at_word("with") && self.sign_at(1, "{") => {
                    self.grow()?;
                    self.bump();
                    let fields = self.build_fields()?;
                    expr_of(self.since(start), ExprKind::With(base, fields))
                }
                Tok::Sign("{") if builds => {
                    let path = self.path_of(&base);
                    let fields = self.build_fields()?;
                    expr_of(self.since(start), ExprKind::Build(path, fields))
                }
                _ => match self.place_step(start, base)? {
                    (base, true) => base,
                    (base, false) => return Ok(base),
                },
            }
        }
    }

    /// `.field` or `[index]` after `base`; whether there was one.
    fn place_step(&mut self, start: Span, base: Expr) -> P<(Expr, bool)> {
        match self.tok() {
            Tok::Sign(".") if !(self.breaks(0) && self.dot_starts) && self.field_follows() => {
                self.grow()?;
                self.dot();
                let field = self.field_name()?;
                Ok((expr_of(self.since(start), ExprKind::Field(Some(base), field)), true))
            }
            Tok::Sign("[") if !self.breaks(0) && !self.no_index => {
                self.grow()?;
                self.mark_tight();
                let opened = self.bump();
                let index = self.inside(false, |p| {
                    let index = p.expr()?;
                    if p.at_sign(",") {
                        let hint = "a list of its own begins on a new line";
                        return p
                            .unexpected_with("`]`", |d| d.also(opened, "an index of what stands before").hint(hint));
                    }
                    p.close("]", opened)?;
                    Ok(index)
                })?;
                Ok((expr_of(self.since(start), ExprKind::Index(base, index)), true))
            }
            _ => Ok((base, false)),
        }
    }

    fn field_follows(&self) -> bool {
        matches!(self.token(1).tok, Tok::Word | Tok::Int(_)) || self.token(1).newline
    }

    /// The word after a `.`; a number is the field of a tuple or a connection of a port
    /// (`client.2`).
    fn field_name(&mut self) -> P<Ident> {
        if let Tok::Int(_) = self.tok() {
            let name = self.slice(self.span()).to_string();
            return Ok(Ident { name, span: self.bump() });
        }
        self.any_word("a field's name")
    }

    /// A name with `.field` and `[index]` after it, no calls: ports and call targets.
    pub(super) fn place(&mut self) -> P<Expr> {
        self.nested(|p| {
            let start = p.span();
            let mut base = p.primary()?;
            loop {
                match p.place_step(start, base)? {
                    (next, true) => base = next,
                    (done, false) => return Ok(done),
                }
            }
        })
    }

    pub(super) fn args(&mut self) -> P<Vec<Arg>> {
        self.mark_tight();
        self.bracketed("(", ")", |p| {
            let named = p.at_any_word() && p.sign_at(1, "=");
            let name = if named {
                let name = p.any_word("a name")?;
                p.bump();
                Some(name)
            } else {
                None
            };
            Ok(Arg { name, value: p.expr()? })
        })
    }

    /// Arguments without names.
    pub(super) fn plain_args(&mut self) -> P<Vec<Expr>> {
        self.mark_tight();
        self.bracketed("(", ")", Self::expr)
    }

    // ---- building ----

    /// Whether `base {` at hand builds a value: a name, on the same line, and not before a block.
    fn builds(&mut self, base: &Expr) -> bool {
        if self.token(0).newline || !is_path(base) {
            return false;
        }
        let field = self.token(1).tok == Tok::Word;
        if !self.no_build {
            // `=` instead of `:` is reported by the field.
            return self.sign_at(1, "}") || field && (self.sign_at(2, ":") || self.sign_at(2, "="));
        }
        if field && self.sign_at(2, ":") {
            let d =
                Diagnostic::error("E0111", base.span, "a value that is built right before a block needs parentheses")
                    .also(self.span(), "this would be the block")
                    .hint("write `(Name { field: value })`, or give it a name with `let` first");
            self.report(d);
            return true;
        }
        false
    }

    fn path_of(&self, base: &Expr) -> Path {
        let mut parts = Vec::new();
        let mut at = base;
        loop {
            match &*at.kind {
                ExprKind::Field(Some(inner), name) => {
                    parts.push(name.clone());
                    at = inner;
                }
                ExprKind::Name(name) => {
                    parts.push(name.clone());
                    break;
                }
                _ => break,
            }
        }
        parts.reverse();
        Path { parts, span: base.span }
    }

    /// `{ field: value, … }`
    pub(super) fn build_fields(&mut self) -> P<Vec<(Ident, Expr)>> {
        self.braced(|p| {
            let name = p.any_word("a field's name")?;
            p.colon("before the field's value")?;
            Ok((name, p.expr()?))
        })
    }

    // ---- primary ----

    pub(super) fn primary(&mut self) -> P<Expr> {
        let start = self.span();
        let kind = match self.tok() {
            Tok::Int(value) => ExprKind::Int(*value),
            Tok::Scaled(value, suffix) => ExprKind::Scaled(*value, suffix.clone()),
            Tok::Bytes(value) => ExprKind::Bytes(value.clone()),
            Tok::Address(text) => ExprKind::Address(text.clone()),
            Tok::Word => return self.word_expr(),
            Tok::Sign(sign) => return self.sign_expr(sign),
            Tok::Bad => {
                // Already reported; the expression around can go on.
                self.reported = Some(self.at);
                ExprKind::Error
            }
            Tok::End => return self.unexpected("an expression"),
        };
        self.bump();
        Ok(expr_of(start, kind))
    }

    fn sign_expr(&mut self, sign: &'static str) -> P<Expr> {
        let start = self.span();
        match sign {
            "(" => self.group(),
            "[" => self.list(),
            "{" if self.at_set() => self.set(),
            "{" if self.token(1).tok == Tok::Word && self.sign_at(2, ":") => self.nested(|p| {
                let fields = p.build_fields()?;
                let path = Path { parts: Vec::new(), span: start };
                Ok(expr_of(p.since(start), ExprKind::Build(path, fields)))
            }),
            "{" => self.nested(Self::block_expr),
            "|" | "||" => self.lambda(),
            "." => {
                // `f(.)`: the message at hand.
                if matches!(self.token(1).tok, Tok::Sign(")" | "," | "]")) {
                    self.bump();
                    return Ok(expr_of(start, ExprKind::Dot));
                }
                self.mark_glue();
                self.bump();
                let field = self.field_name()?;
                Ok(expr_of(self.since(start), ExprKind::Field(None, field)))
            }
            _ => self.unexpected("an expression"),
        }
    }

    /// `(e)`, a tuple, or an assignment used as a value.
    fn group(&mut self) -> P<Expr> {
        let start = self.span();
        let mut items = self.bracketed("(", ")", |p| {
            if let Some(stmt) = p.leaving_stmt()? {
                return Ok(stmt);
            }
            let start = p.span();
            let value = p.expr()?;
            match p.assignment(start, value)? {
                Ok(stmt) => Ok(expr_of(stmt.span, ExprKind::Stmt(Box::new(stmt)))),
                Err(value) => Ok(value),
            }
        })?;
        let comma = self.at > 1 && self.lexed.tokens[self.at - 2].tok == Tok::Sign(",");
        let span = self.since(start);
        if items.len() == 1 && !comma {
            // The span takes the parentheses in, so that the formatter and excerpts see them.
            return Ok(Expr { span, ..items.remove(0) });
        }
        Ok(expr_of(span, ExprKind::Tuple(items)))
    }

    /// `[a, b]` or `[e for x in xs if c]`
    fn list(&mut self) -> P<Expr> {
        let opened = self.expect("[")?;
        let kind = self.inside(false, |p| {
            let mut items = Vec::new();
            while !p.at_sign("]") {
                p.mark_start();
                let value = p.expr()?;
                if items.is_empty() && p.eat_word("for") {
                    let kind = p.comprehension(value)?;
                    p.close("]", opened)?;
                    return Ok(kind);
                }
                items.push(value);
                // A line break separates as well as a comma.
                if !p.eat(",") && !p.token(0).newline {
                    break;
                }
            }
            p.close("]", opened)?;
            Ok(ExprKind::List(items))
        })?;
        Ok(expr_of(self.since(opened), kind))
    }

    fn comprehension(&mut self, value: Expr) -> P<ExprKind> {
        let (pattern, list, cond) = self.each()?;
        Ok(ExprKind::Comprehension { value, pattern, list, cond })
    }

    /// `k in list if c`, after `for`
    fn each(&mut self) -> P<(Pattern, Expr, Option<Expr>)> {
        let pattern = self.single_pattern()?;
        self.expect_word("in")?;
        let list = self.expr()?;
        let cond = if self.at_word("if") { Some(self.each_condition()?) } else { None };
        Ok((pattern, list, cond))
    }

    /// `if c`, `if let p = e`; the latter is an `IfLet` with an empty block.
    fn each_condition(&mut self) -> P<Expr> {
        let start = self.expect_word("if")?;
        if !self.eat_word("let") {
            return self.expr();
        }
        let pattern = self.pattern()?;
        self.expect("=")?;
        let value = self.expr()?;
        let span = self.since(start);
        let body = Block { span: Span { start: span.end, ..span }, stmts: Vec::new() };
        Ok(expr_of(span, ExprKind::IfLet(pattern, value, body, None)))
    }

    /// Whether the `{` at hand opens a set: a value and a comma. (After `in` it always does; else
    /// `{ 4 }` is a block.)
    pub(super) fn at_set(&self) -> bool {
        let value =
            matches!(self.token(1).tok, Tok::Int(_) | Tok::Scaled(..) | Tok::Bytes(_) | Tok::Address(_) | Tok::Word);
        value && self.sign_at(2, ",")
    }

    /// `{80, 443}`
    pub(super) fn set(&mut self) -> P<Expr> {
        let start = self.span();
        self.mark_glue();
        let items = self.nested(|p| p.bracketed("{", "}", Self::expr))?;
        if let Some(role) = self.roles.get_mut(self.at - 1) {
            role.tight = true;
        }
        Ok(expr_of(self.since(start), ExprKind::Set(items)))
    }

    /// `|a, b| e`
    fn lambda(&mut self) -> P<Expr> {
        let start = self.span();
        let params = if self.eat("||") { Vec::new() } else { self.lambda_params(|p| p.name("a parameter"))? };
        let body = self.expr()?;
        Ok(expr_of(self.since(start), ExprKind::Lambda(params, body)))
    }

    /// `|a, b|`
    pub(super) fn lambda_params<T>(&mut self, mut param: impl FnMut(&mut Self) -> P<T>) -> P<Vec<T>> {
        self.mark_glue();
        self.expect("|")?;
        let mut params = Vec::new();
        while !self.at_sign("|") {
            params.push(param(self)?);
            if !self.eat_kept_comma() {
                break;
            }
        }
        self.mark_tight();
        self.expect("|")?;
        Ok(params)
    }

    fn word_expr(&mut self) -> P<Expr> {
        let start = self.span();
        let kind = match self.word_text(0).unwrap_or("") {
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            "none" => ExprKind::None,
            "if" => return self.nested(Self::if_expr),
            "match" => return self.nested(Self::match_expr),
            "call" if self.word_here(1) => return self.call(),
            "cached" if self.word_here(1) && self.sign_at(2, "[") => return self.nested(Self::cached),
            "fold" if self.fold_follows() => return self.fold(),
            "parse" if self.word_here(1) => return self.parse_call(),
            word @ ("let" | "var" | "for" | "loop" | "return" | "reply" | "else" | "in" | "and" | "or" | "is") => {
                return self.unexpected_with("an expression", |d| d.note(format!("`{word}` is a reserved word")));
            }
            word => {
                let name = word.to_string();
                let span = self.bump();
                return Ok(expr_of(span, ExprKind::Name(Ident { name, span })));
            }
        };
        self.bump();
        Ok(expr_of(start, kind))
    }

    /// `parse Unit(b"…")`: a call of `parse` with the call of the unit.
    fn parse_call(&mut self) -> P<Expr> {
        let start = self.span();
        let name = self.any_word("`parse`")?;
        let callee = expr_of(name.span, ExprKind::Name(name));
        let value = self.nested(Self::postfix)?;
        let arg = Arg { name: None, value };
        Ok(expr_of(self.since(start), ExprKind::Call(callee, vec![arg])))
    }

    fn if_expr(&mut self) -> P<Expr> {
        let start = self.expect_word("if")?;
        let bound = if self.eat_word("let") {
            let pattern = self.pattern()?;
            self.expect("=")?;
            Some(pattern)
        } else {
            None
        };
        let cond = self.condition(Self::expr_no_else_guarded)?;
        let then = self.block()?;
        let otherwise = if self.at_word("else") && !self.sign_at(1, "=>") {
            self.mark_join();
            self.bump();
            let tail = if self.at_word("if") { self.nested(Self::if_expr)? } else { self.block_expr()? };
            Some(tail)
        } else {
            None
        };
        let span = self.since(start);
        Ok(match bound {
            Some(pattern) => expr_of(span, ExprKind::IfLet(pattern, cond, then, otherwise)),
            None => expr_of(span, ExprKind::If(cond, then, otherwise)),
        })
    }

    /// A condition; an assignment in it is a common slip.
    fn expr_no_else_guarded(&mut self) -> P<Expr> {
        let start = self.span();
        let cond = self.expr()?;
        if self.at_sign("=") {
            let d = Diagnostic::error("E0106", self.span(), "`=` assigns; a condition compares").hint("write `==`");
            self.report(d);
            self.bump();
            let right = self.expr()?;
            return Ok(expr_of(self.since(start), ExprKind::Binary(BinOp::Eq, cond, right)));
        }
        Ok(cond)
    }

    fn match_expr(&mut self) -> P<Expr> {
        let start = self.expect_word("match")?;
        let value = self.condition_expr()?;
        let arms = self.braced(Self::arm)?;
        Ok(expr_of(self.since(start), ExprKind::Match(value, arms)))
    }

    fn arm(&mut self) -> P<Arm> {
        let pattern = self.pattern()?;
        let guard = if self.eat_word("if") { Some(self.condition_expr()?) } else { None };
        self.column(Column::Arrow);
        self.arrow("=>", "->", "after the pattern")?;
        let stmt = self.stmt()?;
        let body = match stmt.kind {
            StmtKind::Expr(e) => e,
            kind => expr_of(stmt.span, ExprKind::Stmt(Box::new(Stmt { span: stmt.span, kind }))),
        };
        Ok(Arm { pattern, guard, body })
    }

    // ---- fold, call ----

    fn fold_follows(&self) -> bool {
        let next = &self.token(1);
        if !next.newline && next.tok == Tok::Sign("(") {
            return self.list_in_parentheses();
        }
        !next.newline
            && matches!(next.tok, Tok::Word | Tok::Sign("[" | "."))
            && !self.word_at(1, "else")
            && (next.tok != Tok::Sign("[") || !self.adjacent(1))
            && (next.tok != Tok::Sign(".") || !self.adjacent(1))
    }

    /// `fold (…) from`: else it is a call of a function of that name.
    fn list_in_parentheses(&self) -> bool {
        let mut depth = 0usize;
        for n in 1.. {
            match self.token(n).tok {
                Tok::Sign("(") => depth += 1,
                Tok::Sign(")") if depth == 1 => return self.word_at(n + 1, "from"),
                Tok::Sign(")") => depth -= 1,
                Tok::End => break,
                _ => {}
            }
        }
        false
    }

    /// `fold list from init with |acc, x| e`
    fn fold(&mut self) -> P<Expr> {
        let start = self.expect_word("fold")?;
        let list = self.nested(|p| p.binary(Level::Or))?;
        self.expect_word("from")?;
        let init = self.expr()?;
        self.expect_word("with")?;
        self.mark_glue();
        self.expect("|")?;
        let acc = self.name("the accumulator")?;
        if !self.eat_kept_comma() {
            return self.unexpected("`,`");
        }
        let item = self.single_pattern()?;
        self.mark_tight();
        self.expect("|")?;
        let body = self.expr()?;
        Ok(expr_of(self.since(start), ExprKind::Fold { list, init, acc, item, body }))
    }

    /// `call port(msg)`, `call all port(msg)`, `call all for k in keys => port[i](msg)`
    fn call(&mut self) -> P<Expr> {
        let start = self.expect_word("call")?;
        if self.at_word("all") && self.word_here(1) {
            self.bump();
            if self.eat_word("for") {
                let (pattern, list, cond) = self.each()?;
                let join = if self.eat_word("join") { Some(self.join()?) } else { None };
                self.arrow("=>", "->", "before the port")?;
                let (port, msg, within) = self.sending()?;
                let kind = ExprKind::CallAll { pattern, list, cond, join, port, msg, within };
                return Ok(expr_of(self.since(start), kind));
            }
            let (port, msg, within) = self.sending()?;
            return Ok(expr_of(self.since(start), ExprKind::CallEach { port, msg, within }));
        }
        let (port, msg, within) = self.sending()?;
        Ok(expr_of(self.since(start), ExprKind::Call1 { port, msg, within }))
    }

    /// `E as bytes, n` behind `join`
    fn join(&mut self) -> P<Join> {
        let value = self.expr()?;
        self.expect_word("as")?;
        let bytes = self.name("the items of one instance")?;
        let count = if self.eat(",") { Some(self.name("their number")?) } else { None };
        Ok(Join { value, bytes, count })
    }

    /// `port(msg) within t`
    fn sending(&mut self) -> P<(Expr, Expr, Option<Expr>)> {
        let port = self.place()?;
        self.mark_tight();
        let opened = self.expect("(")?;
        let msg = self.inside(false, |p| {
            let msg = p.expr()?;
            p.eat(",");
            p.close(")", opened)?;
            Ok(msg)
        })?;
        let within = if self.eat_word("within") { Some(self.nested(|p| p.binary(Level::Sum))?) } else { None };
        Ok((port, msg, within))
    }

    /// A block where one is due.
    pub(super) fn block(&mut self) -> P<Block> {
        self.nested(|p| {
            let start = p.span();
            if !p.at_sign("{") {
                return p.unexpected("`{`");
            }
            p.mark_join();
            let stmts = p.braced(Self::stmt_or_error)?;
            Ok(Block { span: p.since(start), stmts })
        })
    }
}

fn is_path(expr: &Expr) -> bool {
    match &*expr.kind {
        ExprKind::Name(_) => true,
        ExprKind::Field(Some(base), _) => is_path(base),
        _ => false,
    }
}
