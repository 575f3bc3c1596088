//! Parsing: bodies, statements, expressions.

use super::forms;
use super::lex::{Token, ARROW};
use super::parser::{Parser, Res};
use crate::ops::Rows;
use crate::*;

impl Parser {
    pub fn body(&mut self) -> Res<Body> {
        self.body_with(|_| Ok(false))
    }

    /// `other` reads what is neither a local nor a statement, and says whether there was such.
    pub fn body_with(&mut self, mut other: impl FnMut(&mut Self) -> Res<bool>) -> Res<Body> {
        let mut body = Body::default();
        self.braces(|p| {
            if p.is_word("local") {
                body.locals.push(p.local_declaration(body.locals.len())?)
            } else if p.eat_word("selects") {
                body.selects = p.list(Self::stmt_path)?;
                p.sign(';')?
            } else if !other(p)? {
                body.block.push(p.stmt()?)
            }
            Ok(())
        })?;
        Ok(body)
    }

    pub fn local_declaration(&mut self, n: usize) -> Res<Local> {
        self.word("local")?;
        self.sign('%')?;
        if self.num::<usize>()? != n {
            return self.error("locals are numbered in order");
        }
        self.sign(':')?;
        let local = Local { ty: self.ty()?, name: self.str()?, in_frame: self.eat_word("frame") };
        self.sign(';')?;
        Ok(local)
    }

    pub fn local(&mut self) -> Res<LocalId> {
        self.sign('%')?;
        self.index().map(LocalId)
    }

    fn block(&mut self) -> Res<Block> {
        let mut block = Vec::new();
        self.nested(|p| {
            p.braces(|p| {
                block.push(p.stmt()?);
                Ok(())
            })
        })?;
        Ok(block)
    }

    fn place(&mut self) -> Res<PlaceId> {
        self.word("at")?;
        self.num().map(PlaceId)
    }
    pub fn key(&mut self) -> Res<Expr> {
        self.sign('[')?;
        let e = self.expr()?;
        self.sign(']')?;
        Ok(e)
    }
    fn target(&mut self) -> Res<LocalId> {
        self.sign(ARROW)?;
        self.local()
    }
    pub fn table(&mut self) -> Res<TableId> {
        self.index().map(TableId)
    }

    fn stmt(&mut self) -> Res<Stmt> {
        let word = self.any_word()?;
        let block = |kind, p: &mut Self| Ok(Stmt { kind, span: p.span()? });
        match word.as_str() {
            "if" => {
                let cond = self.expr()?;
                let then = self.block()?;
                let other = if self.eat_word("else") { self.block()? } else { Vec::new() };
                block(StmtKind::If { cond, then, other }, self)
            }
            "switch" => {
                let kind = self.switch()?;
                block(kind, self)
            }
            "for" => {
                let var = self.local()?;
                self.word("from")?;
                let from = self.expr()?;
                self.word("to")?;
                let to = self.expr()?;
                self.word("max")?;
                let max = self.num()?;
                let body = self.block()?;
                block(StmtKind::For { var, from, to, max, body }, self)
            }
            "loop" => {
                let max = self.num()?;
                let body = self.block()?;
                block(StmtKind::Loop { max, body }, self)
            }
            "table_update" => {
                let (table, key) = (self.table()?, self.key()?);
                self.word("as")?;
                let entry = self.local()?;
                let place = self.place()?;
                let body = self.block()?;
                block(StmtKind::TableUpdate { table, key, entry, body, place }, self)
            }
            "call" => {
                let (port, index) = (PortId(self.index()?), self.key()?);
                self.word("args")?;
                let response_args = self.list(Self::expr)?;
                let clauses = if self.eat_word("clauses") { self.list(Self::expr)? } else { Vec::new() };
                let within = if self.eat_word("within") { Some(self.expr()?) } else { None };
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Call { port, index, msg, within, response_args, clauses }, span })
            }
            "reply" => {
                let close = self.eat_word("close");
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Reply { msg, close }, span })
            }
            "send" => {
                let (port, index) = (PortId(self.index()?), self.key()?);
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Send { port, index, msg }, span })
            }
            "tell" => {
                let (to, protocol, place) = (self.peer()?, self.in_protocol()?, self.place()?);
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Tell { to, protocol, msg, place }, span })
            }
            "ask" => {
                let to = self.peer()?;
                let Peer::Upstream(upstream) = to else { return self.error("only an upstream is asked") };
                let protocol = self.in_protocol()?;
                self.word("args")?;
                let matched = self.list(Self::expr)?;
                let within = if self.eat_word("within") { Some(self.expr()?) } else { None };
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Ask { upstream, protocol, msg, within, matched }, span })
            }
            "deliver" => {
                let (to, protocol, place) = (self.key()?, self.in_protocol()?, self.place()?);
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Deliver { to, protocol, msg, place }, span })
            }
            "send_frame" => {
                let (port, index, place) = (PortId(self.index()?), self.key()?, self.place()?);
                let parts = self.parts()?;
                block(StmtKind::SendFrame { port, index, parts, place }, self)
            }
            "render" => {
                let dst = self.target()?;
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Render { msg, dst }, span })
            }
            "reread" => {
                let dst = self.target()?;
                self.word("ok")?;
                let ok = self.local()?;
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Reread { msg, dst, ok }, span })
            }
            _ => {
                let Some(kind) = forms::read_stmt(&word, self)? else {
                    return self.error(format!("unknown statement `{word}`"));
                };
                // A statement with a block ends with it.
                let braced =
                    matches!(kind, StmtKind::Frame { act: FrameAct::Insert { .. } | FrameAct::Payload { .. }, .. });
                Ok(Stmt { kind, span: if braced { self.span()? } else { self.end()? } })
            }
        }
    }

    fn switch(&mut self) -> Res<StmtKind> {
        let on = self.expr()?;
        let (mut cases, mut default) = (Vec::new(), Vec::new());
        self.braces(|p| {
            if p.eat_word("default") {
                default = p.block()?;
                return Ok(());
            }
            p.word("case")?;
            let mut values = vec![p.num()?];
            while p.eat(',') {
                values.push(p.num()?)
            }
            cases.push((values, p.block()?));
            Ok(())
        })?;
        Ok(StmtKind::Switch { on, cases, default })
    }

    fn parts(&mut self) -> Res<Vec<Part>> {
        let mut parts = Vec::new();
        self.braces(|p| {
            let unit = if p.eat_word("bytes") {
                None
            } else {
                p.word("header")?;
                Some(UnitId(p.index()?))
            };
            parts.push(Part { unit, body: p.block()? });
            Ok(())
        })?;
        Ok(parts)
    }

    fn layer_or_end(&mut self) -> Res<Option<u32>> {
        if self.eat_word("end") {
            Ok(None)
        } else {
            self.num().map(Some)
        }
    }

    /// An act with a block.
    pub fn frame_act(&mut self, word: &str) -> Res<FrameAct> {
        if !matches!(word, "insert" | "payload") {
            return self.error(format!("unknown act on a frame `{word}`"));
        }
        let at = self.layer_or_end()?;
        let behind = if word == "insert" && self.eat_word("behind") { Some(self.num()?) } else { None };
        self.word("max")?;
        let (max, place) = (self.num()?, self.place()?);
        Ok(if word == "payload" {
            let keep = if self.eat_word("keep") { Some(self.num()?) } else { None };
            FrameAct::Payload { layer: at, body: self.block()?, max, place, keep }
        } else {
            FrameAct::Insert { before: at, behind, parts: self.parts()?, max, place }
        })
    }

    fn message(&mut self) -> Res<(Outgoing, Span)> {
        match self.any_word()?.as_str() {
            "nothing" => Ok((Outgoing::Nothing, self.end()?)),
            "build" => Ok((Outgoing::Built { unit: UnitId(self.index()?), body: self.block()? }, self.span()?)),
            "pass" => {
                let msg = self.local()?;
                let mut edits = Vec::new();
                if self.is(';') {
                    return Ok((Outgoing::Pass { msg, edits }, self.end()?));
                }
                self.braces(|p| {
                    edits.push(p.edit()?);
                    Ok(())
                })?;
                Ok((Outgoing::Pass { msg, edits }, self.span()?))
            }
            w => self.error(format!("unknown message `{w}`")),
        }
    }

    fn edit(&mut self) -> Res<Edit> {
        let word = self.any_word()?;
        let mut field = Vec::new();
        while self.eat('.') {
            field.push(FieldId(self.index()?))
        }
        match word.as_str() {
            "remove" => {
                self.word("as")?;
                let index = self.local()?;
                self.word("if")?;
                let cond = self.expr()?;
                self.sign(';')?;
                Ok(Edit::Remove { list: field, index, cond })
            }
            "set" | "append" => {
                let cond = if self.eat_word("if") { Some(self.expr()?) } else { None };
                let body = self.block()?;
                Ok(if word == "set" {
                    Edit::Set { field, cond, body }
                } else {
                    Edit::Append { list: field, cond, body }
                })
            }
            _ => self.error(format!("unknown edit `{word}`")),
        }
    }

    pub fn root(&mut self) -> Res<Root> {
        if self.is('%') {
            return self.local().map(Root::Local);
        }
        match self.any_word()?.as_str() {
            "this" => Ok(Root::This),
            "item" => Ok(Root::Item),
            w => self.error(format!("unknown root `{w}`")),
        }
    }

    pub fn path(&mut self) -> Res<Path> {
        let root = self.root()?;
        let mut steps = Vec::new();
        loop {
            if self.eat('.') {
                steps.push(Step::Field(FieldId(self.index()?)))
            } else if self.is('[') {
                steps.push(Step::Index(self.key()?))
            } else {
                return Ok(Path { root, steps });
            }
        }
    }

    pub fn expr(&mut self) -> Res<Expr> {
        self.nested(|p| {
            let kind = p.expr_kind()?;
            p.sign(':')?;
            Ok(Expr::new(p.ty()?, kind))
        })
    }

    fn expr_kind(&mut self) -> Res<ExprKind> {
        match self.peek() {
            Token::Int(_) => return self.int().map(ExprKind::Int),
            Token::Bytes(_) => return self.bytes().map(ExprKind::Bytes),
            Token::Sign('%') => return self.local().map(ExprKind::Local),
            Token::Word(_) | Token::Str(_) | Token::Sign(_) | Token::End => {}
        }
        let word = self.any_word()?;
        if let Some(kind) = self.operation(&word)? {
            return Ok(kind);
        }
        match word.as_str() {
            "true" => Ok(ExprKind::Bool(true)),
            "false" => Ok(ExprKind::Bool(false)),
            _ => match forms::read_expr(&word, self)? {
                Some(kind) => Ok(kind),
                None => self.error(format!("unknown expression `{word}`")),
            },
        }
    }

    /// An operator or a builtin.
    fn operation(&mut self, word: &str) -> Res<Option<ExprKind>> {
        if let Some(b) = Builtin::named(word) {
            return Ok(Some(ExprKind::Builtin(b, self.list(Self::expr)?)));
        }
        if let Some(op) = UnOp::named(word) {
            let [a] = self.operands()?;
            return Ok(Some(ExprKind::Unary(op, a)));
        }
        if let Some(op) = BinOp::named(word) {
            let [a, b] = self.operands()?;
            return Ok(Some(ExprKind::Binary(op, a, b)));
        }
        Ok(None)
    }

    fn operands<const N: usize>(&mut self) -> Res<[Expr; N]> {
        let all = self.list(Self::expr)?;
        all.try_into().or_else(|_| self.error(format!("expected {N} operands")))
    }
}
