//! Parsing: bodies, statements, expressions.

use super::lex::{Token, ARROW};
use super::names::value_of;
use super::parse::{Parser, Res};
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
                let within = if self.eat_word("within") { Some(self.expr()?) } else { None };
                let (msg, span) = self.message()?;
                Ok(Stmt { kind: StmtKind::Call { port, index, msg, within, response_args }, span })
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
                let kind = self.simple(&word)?;
                // What has a block ends with it.
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

    fn simple(&mut self, word: &str) -> Res<StmtKind> {
        let equals = |p: &mut Self| {
            p.sign('=')?;
            p.expr()
        };
        Ok(match word {
            "set" => {
                let l = self.local()?;
                StmtKind::Set(l, equals(self)?)
            }
            "set_field" => {
                let l = self.local()?;
                self.sign('[')?;
                let mut path = Vec::new();
                while !self.eat(']') {
                    if !path.is_empty() {
                        self.sign(',')?
                    }
                    path.push(self.num()?);
                }
                StmtKind::SetField(l, path, equals(self)?)
            }
            "set_state" => {
                let s = StateId(self.index()?);
                StmtKind::SetState(s, equals(self)?)
            }
            "set_session" => {
                let s = SessionId(self.index()?);
                StmtKind::SetSession(s, equals(self)?)
            }
            "count" => StmtKind::Count(CounterId(self.index()?), self.expr()?),
            "push" => StmtKind::Push(self.local()?, self.expr()?),
            "break" => StmtKind::Break,
            "continue" => StmtKind::Continue,
            "return" => StmtKind::Return(if self.is(';') { None } else { Some(self.expr()?) }),
            "require" => {
                let cond = self.expr()?;
                self.word("else")?;
                StmtKind::Require { cond, kind: FaultKind(self.num()?), place: self.place()? }
            }
            "fault" => StmtKind::Fault { kind: FaultKind(self.num()?), place: self.place()? },
            "table_get" => StmtKind::TableGet { table: self.table()?, key: self.key()?, dst: self.target()? },
            "table_put" => {
                let (table, key) = (self.table()?, self.key()?);
                StmtKind::TablePut { table, key, value: equals(self)?, place: self.place()? }
            }
            "table_remove" => StmtKind::TableRemove {
                table: self.table()?,
                key: self.key()?,
                dst: if self.is(ARROW) { Some(self.target()?) } else { None },
            },
            "table_next" => {
                let table = self.table()?;
                let named = |p: &mut Self, w| {
                    p.word(w)?;
                    p.local()
                };
                let (cursor, key) = (named(self, "cursor")?, named(self, "key")?);
                let (value, more) = (named(self, "value")?, named(self, "more")?);
                let masked =
                    if self.is_word("mask") { Some((named(self, "mask")?, named(self, "priority")?)) } else { None };
                StmtKind::TableNext { table, cursor, key, value, more, masked }
            }
            "table_insert" => {
                let (table, key, mask, priority) = self.masked()?;
                StmtKind::TableInsert { table, key, mask, priority, value: equals(self)?, place: self.place()? }
            }
            "table_delete" => {
                let (table, key, mask, priority) = self.masked()?;
                StmtKind::TableDelete {
                    table,
                    key,
                    mask,
                    priority,
                    dst: if self.is(ARROW) { Some(self.target()?) } else { None },
                }
            }
            "frame" => {
                let frame = self.local()?;
                StmtKind::Frame { frame, act: self.frame_act()? }
            }
            "output" => {
                let last = self.eat_word("last");
                let (wire, frame) = (WireId(self.index()?), self.local()?);
                self.word("mark")?;
                StmtKind::Output { wire, frame, mark: self.expr()?, last }
            }
            "table_push" => {
                let table = self.table()?;
                StmtKind::TablePush { table, value: equals(self)?, dst: self.target()? }
            }
            "group_begin" => {
                let port = PortId(self.index()?);
                StmtKind::GroupBegin { port, max: self.num()? }
            }
            "group_add" => {
                let index = self.expr()?;
                self.sign('=')?;
                StmtKind::GroupAdd { index, parts: self.list(Self::expr)? }
            }
            "group_run" => {
                let part = self.expr()?;
                self.sign('=')?;
                StmtKind::GroupRun { part, bytes: self.expr()? }
            }
            "table_pop" => StmtKind::TablePop { table: self.table()?, dst: self.target()? },
            "queue" => {
                let word = self.any_word()?;
                let Some(act) = value_of::<QueueAct>(&word) else {
                    return self.error(format!("unknown act `{word}` of a queue"));
                };
                let port = PortId(self.index()?);
                StmtKind::Queue { port, index: self.key()?, act, dst: self.target()? }
            }
            "table_len" => StmtKind::TableLen { table: self.table()?, dst: self.target()? },
            "await" => {
                let (hold, hold_req) = (self.eat_word("hold"), self.eat_word("hold_req"));
                self.word("live")?;
                StmtKind::Await { hold, hold_req, live: self.list(Self::local)? }
            }
            "bind" => {
                let dst = self.local()?;
                self.sign('=')?;
                self.word("part")?;
                StmtKind::BindPart { dst, part: self.expr()? }
            }
            "close" => StmtKind::Close,
            "outcome" => StmtKind::Outcome(self.expr()?),
            "log" => StmtKind::Log(self.list(Self::expr)?),
            "emit" => StmtKind::Emit(self.emit()?),
            "parse" => {
                let (unit, bytes, dst) = (UnitId(self.index()?), self.expr()?, self.target()?);
                self.word("ok")?;
                StmtKind::Parse { unit, bytes, dst, ok: self.local()? }
            }
            _ => return self.error(format!("unknown statement `{word}`")),
        })
    }

    fn masked(&mut self) -> Res<(TableId, Expr, Expr, Expr)> {
        let (table, key) = (self.table()?, self.key()?);
        self.word("mask")?;
        let mask = self.expr()?;
        self.word("priority")?;
        Ok((table, key, mask, self.expr()?))
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

    fn frame_act(&mut self) -> Res<FrameAct> {
        Ok(match self.any_word()?.as_str() {
            "set" => {
                let (layer, field) = (self.num()?, FieldId(self.index()?));
                self.sign('=')?;
                FrameAct::Set { layer, field, value: self.expr()? }
            }
            "remove" => FrameAct::Remove { layer: self.num()? },
            "checksum" => FrameAct::Checksum { layer: self.num()? },
            "save" => FrameAct::Save { copy: self.num()? },
            "restore" => FrameAct::Restore { copy: self.num()? },
            "send" => {
                let last = self.eat_word("last");
                let (port, index) = (PortId(self.index()?), self.key()?);
                let mark = if self.eat_word("mark") { Some(self.expr()?) } else { None };
                FrameAct::Send { port, index, mark, last }
            }
            word @ ("insert" | "payload") => {
                let at = self.layer_or_end()?;
                self.word("max")?;
                let (max, place) = (self.num()?, self.place()?);
                if word == "payload" {
                    return Ok(FrameAct::Payload { layer: at, body: self.block()?, max, place });
                }
                FrameAct::Insert { before: at, parts: self.parts()?, max, place }
            }
            w => return self.error(format!("unknown act on a frame `{w}`")),
        })
    }

    fn emit(&mut self) -> Res<Emit> {
        Ok(match self.any_word()?.as_str() {
            "bytes" => Emit::Bytes(self.expr()?),
            "varint" => Emit::Varint(self.expr()?),
            "uint" => {
                let value = self.expr()?;
                self.word("bytes")?;
                let bytes = self.num()?;
                Emit::UInt {
                    value,
                    bytes,
                    big: if self.eat_word("big") {
                        true
                    } else {
                        self.word("little")?;
                        false
                    },
                }
            }
            "number" => {
                let value = self.expr()?;
                self.word("radix")?;
                let radix = self.num()?;
                self.word("width")?;
                Emit::Number { value, radix, width: self.num()? }
            }
            "items" => {
                let (unit, bytes) = (UnitId(self.index()?), self.expr()?);
                self.word("count")?;
                let count = self.expr()?;
                self.word("max")?;
                Emit::Items { unit, bytes, count, max: self.num()? }
            }
            "in_order" => {
                let unit = UnitId(self.index()?);
                self.word("count")?;
                let count = self.expr()?;
                self.word("max")?;
                Emit::InOrder { unit, count, max: self.num()? }
            }
            w => return self.error(format!("unknown emission `{w}`")),
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

    fn root(&mut self) -> Res<Root> {
        if self.is('%') {
            return self.local().map(Root::Local);
        }
        match self.any_word()?.as_str() {
            "this" => Ok(Root::This),
            "item" => Ok(Root::Item),
            w => self.error(format!("unknown root `{w}`")),
        }
    }

    fn path(&mut self) -> Res<Path> {
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
            _ => {}
        }
        let word = self.any_word()?;
        if let Some(kind) = leaf(&word) {
            return Ok(kind);
        }
        if word == "call" {
            return Ok(ExprKind::Call(FuncId(self.index()?), self.list(Self::expr)?));
        }
        if let Some(b) = Builtin::named(&word) {
            return Ok(ExprKind::Builtin(b, self.list(Self::expr)?));
        }
        if word == "make" {
            return Ok(ExprKind::Make(self.list(Self::expr)?));
        }
        if word == "make_list" {
            return Ok(ExprKind::MakeList(self.list(Self::expr)?));
        }
        self.sign('(')?;
        let kind = self.operands(&word)?;
        self.sign(')')?;
        Ok(kind)
    }

    fn next_expr(&mut self) -> Res<Expr> {
        self.sign(',')?;
        self.expr()
    }

    fn operands(&mut self, word: &str) -> Res<ExprKind> {
        use ExprKind as K;
        if let Some(op) = UnOp::named(word) {
            return Ok(K::Unary(op, self.expr()?));
        }
        if let Some(op) = BinOp::named(word) {
            return Ok(K::Binary(op, self.expr()?, self.next_expr()?));
        }
        Ok(match word {
            "param" => K::Param(ParamId(self.index()?)),
            "state" => K::State(StateId(self.index()?)),
            "session" => K::Session(SessionId(self.index()?)),
            "counter" => K::Counter(CounterId(self.index()?)),
            "unit_param" => {
                let r = self.root()?;
                self.sign(',')?;
                K::UnitParam(r, self.num()?)
            }
            "read" => K::Read(self.path()?),
            "items" => K::Count(self.path()?),
            "raw" => K::Raw(self.path()?),
            "case" => {
                let p = self.path()?;
                self.sign(',')?;
                K::Case(p, self.num()?)
            }
            "has_msg" => K::HasMsg(self.local()?),
            "frame_len" => K::FrameLen(self.local()?),
            "frame_instance" => K::FrameInstance(self.local()?),
            "frame_mark" => K::FrameMark(self.local()?),
            "frame_time" => K::FrameTime(self.local()?),
            "payload" => {
                let l = self.local()?;
                K::Payload(l, if self.eat(',') { Some(self.num()?) } else { None })
            }
            "checksum_ok" => {
                let l = self.local()?;
                self.sign(',')?;
                K::ChecksumOk(l, self.num()?)
            }
            "part_status" => K::PartStatus(self.expr()?),
            "cast" => K::Cast(self.expr()?),
            "if" => K::If(self.expr()?, self.next_expr()?, self.next_expr()?),
            "in" => {
                let e = self.expr()?;
                self.sign(';')?;
                let mut ranges = Vec::new();
                while !self.is(')') {
                    if !ranges.is_empty() {
                        self.sign(',')?
                    }
                    ranges.push(self.range()?);
                }
                K::InRanges(e, ranges)
            }
            "some" => K::Some(self.expr()?),
            "is_some" => K::IsSome(self.expr()?),
            "unwrap" => K::Unwrap(self.expr()?),
            "get" => {
                let e = self.expr()?;
                self.sign(',')?;
                K::Get(e, self.num()?)
            }
            "list_len" => K::ListLen(self.expr()?),
            "list_get" => K::ListGet(self.expr()?, self.next_expr()?),
            "find" => K::Find { list: self.path()?, name: self.next_expr()? },
            "count_of" => K::CountOf { list: self.path()?, name: self.next_expr()? },
            "any_token" => K::AnyToken { list: self.path()?, name: self.next_expr()?, token: self.next_expr()? },
            "port_len" => K::PortLen(PortId(self.index()?)),
            "port_up" => K::PortUp(PortId(self.index()?), self.next_expr()?),
            "port_load" => K::PortLoad(PortId(self.index()?), self.next_expr()?),
            "group_count" => K::GroupCount(self.expr()?),
            "group_bytes" => K::GroupBytes(self.expr()?),
            "modula" => K::Modula(PortId(self.index()?), self.next_expr()?),
            "ketama" => K::Ketama(PortId(self.index()?), self.next_expr()?),
            "maglev" => K::Maglev(PortId(self.index()?), self.next_expr()?),
            "random" => K::Random(self.expr()?),
            _ => return self.error(format!("unknown expression `{word}`")),
        })
    }
}

fn leaf(word: &str) -> Option<ExprKind> {
    Some(match word {
        "true" => ExprKind::Bool(true),
        "false" => ExprKind::Bool(false),
        "none" => ExprKind::None,
        "acc" => ExprKind::Acc,
        "parts" => ExprKind::Parts,
        "conn_peer" => ExprKind::ConnPeer,
        "conn_local" => ExprKind::ConnLocal,
        "conn_id" => ExprKind::ConnId,
        "conn_flow" => ExprKind::ConnFlow,
        "now" => ExprKind::Now,
        "draining" => ExprKind::Draining,
        _ => return None,
    })
}
