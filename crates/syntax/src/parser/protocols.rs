//! Protocols: how a request and a response unit belong together.

use super::recover::nearest;
use super::{Column, Parser, P};
use crate::ast::{Clause, ClauseKind, Expr, FlagKind, Ident, Protocol, SharingKind, Type};
use crate::diagnostic::Diagnostic;
use crate::token::Tok;

type UnitArgs = Vec<(Option<Ident>, Expr)>;

/// The words that clauses of protocols begin with.
pub const CLAUSES: &[&str] = &[
    "request",
    "response",
    "up",
    "down",
    "session",
    "order",
    "sharing",
    "stateless",
    "server_first",
    "close",
    "interim",
    "tunnel",
    "refusal",
    "idle",
    "reset",
    "owes",
    "unfinished",
    "settles",
    "no_reply",
    "alone",
    "repeat",
    "pipeline",
    "refuse",
    "matches",
    "private",
    "ignore",
    "log",
    "status",
    "class",
    "forward",
    "chunks",
    "expects",
    "on",
];

impl Parser<'_> {
    pub(super) fn protocol(&mut self) -> P<Protocol> {
        self.bump();
        let name = self.name("a protocol")?;
        let clauses = self.braced(|p| {
            let start = p.span();
            let kind = p.clause()?;
            Ok(Clause { span: p.since(start), kind })
        })?;
        Ok(Protocol { name, clauses })
    }

    fn clause(&mut self) -> P<ClauseKind> {
        let Some(word) = self.word_text(0) else { return self.unexpected("a clause of the protocol") };
        if !CLAUSES.contains(&word) {
            return self.unknown_clause(word);
        }
        self.bump();
        match word {
            "request" => {
                self.column(Column::Type);
                self.ty().map(ClauseKind::Request)
            }
            "response" => self.response(),
            "up" | "down" => {
                let kind = if word == "up" { ClauseKind::Up } else { ClauseKind::Down };
                let (ty, args) = self.unit_of_messages()?;
                Ok(kind(ty, args))
            }
            "session" => {
                let name = self.name("a value of each conversation")?;
                self.colon("before the type")?;
                self.column(Column::Type);
                Ok(ClauseKind::Session { name, ty: self.ty()? })
            }
            "order" => self.order(),
            "sharing" => {
                self.column(Column::Type);
                let kinds = [SharingKind::Exclusive, SharingKind::Pipelined, SharingKind::Session];
                Ok(ClauseKind::Sharing(kinds[self.one_of(&["exclusive", "pipelined", "session"])?]))
            }
            "stateless" => Ok(ClauseKind::Stateless),
            "server_first" => Ok(ClauseKind::ServerFirst),
            "close" => {
                let side = self.one_of(&["request", "response", "up", "down"])?;
                self.flag([FlagKind::CloseRequest, FlagKind::CloseResponse][side % 2])
            }
            "private" => {
                let flag =
                    [FlagKind::PrivateRequest, FlagKind::PrivateResponse][self.one_of(&["request", "response"])?];
                self.flag(flag)
            }
            "chunks" => {
                let response = self.one_of(&["request", "response"])? == 1;
                self.expect_word("as")?;
                let case = self.name("a case of its body")?;
                self.expect_word("when")?;
                Ok(ClauseKind::Chunks { response, case, when: self.expr()? })
            }
            "expects" => {
                let text = self.string("the answer that a client waits for")?;
                self.expect_word("when")?;
                Ok(ClauseKind::Expects { text, when: self.expr()? })
            }
            "interim" => self.flag(FlagKind::Interim),
            "tunnel" => self.flag(FlagKind::Tunnel),
            "refusal" => self.flag(FlagKind::Refusal),
            "idle" => self.flag(FlagKind::Idle),
            "reset" => self.flag(FlagKind::Reset),
            "owes" => self.flag(FlagKind::Owes),
            "unfinished" => self.flag(FlagKind::Unfinished),
            "settles" => self.flag(FlagKind::Settles),
            "no_reply" => self.flag(FlagKind::NoReply),
            "alone" => self.flag(FlagKind::Alone),
            "repeat" => self.flag(FlagKind::Repeat),
            "pipeline" => self.flag(FlagKind::Pipeline),
            "refuse" => {
                let kind = self.name("a fault")?;
                self.expect_word("when")?;
                Ok(ClauseKind::Refuse { kind, when: self.expr()? })
            }
            "matches" => self.matches(),
            "ignore" => self.ignore(),
            "log" => {
                let mut columns = vec![self.expr()?];
                while self.eat(",") {
                    columns.push(self.expr()?);
                }
                Ok(ClauseKind::Log(columns))
            }
            "status" => Ok(ClauseKind::Status(self.expr()?)),
            "class" => self.class(),
            "forward" => {
                let response = self.one_of(&["request", "response"])? == 1;
                Ok(ClauseKind::Forward { response, body: self.block()? })
            }
            _ => {
                let event = self.one_of(&["fault", "request", "probe", "reset"])?;
                if event == 3 {
                    return Ok(ClauseKind::OnReset { body: self.block()? });
                }
                if event == 2 {
                    return Ok(ClauseKind::OnProbe { body: self.block()? });
                }
                if event == 1 {
                    let name = self.handler_param("the request")?;
                    let guard = if self.eat_word("where") { Some(self.condition_expr()?) } else { None };
                    return Ok(ClauseKind::OnRequest { name, guard, body: self.block()? });
                }
                let name = self.handler_param("the fault")?;
                Ok(ClauseKind::OnFault { name, body: self.block()? })
            }
        }
    }

    #[cold]
    fn unknown_clause(&mut self, word: &str) -> P<ClauseKind> {
        let d = Diagnostic::error("E0108", self.span(), format!("`{word}` is no clause of a protocol"));
        let d = match nearest(word, CLAUSES) {
            Some(near) => d.hint(format!("did you mean `{near}`?")),
            None => d.note(format!("the clauses are {}", CLAUSES.join(", "))),
        };
        self.report(d);
        Err(super::Abort)
    }

    fn response(&mut self) -> P<ClauseKind> {
        let (ty, args) = self.unit_of_messages()?;
        Ok(ClauseKind::Response(ty, args))
    }

    /// A unit, with arguments for its parameters.
    fn unit_of_messages(&mut self) -> P<(Type, UnitArgs)> {
        self.column(Column::Type);
        let ty = self.ty()?;
        let args: UnitArgs =
            if self.at_sign("(") { self.args()?.into_iter().map(|a| (a.name, a.value)).collect() } else { Vec::new() };
        Ok((ty, args))
    }

    fn order(&mut self) -> P<ClauseKind> {
        self.column(Column::Type);
        if self.one_of(&["in_order", "by"])? == 0 {
            return Ok(ClauseKind::Order { by: None });
        }
        let field = self.any_word("the field that answers carry back")?;
        Ok(ClauseKind::Order { by: Some(field) })
    }

    /// `matches(id = request.id) when e`
    fn matches(&mut self) -> P<ClauseKind> {
        self.mark_tight();
        let opened = self.expect("(")?;
        let mut values = vec![];
        while !self.at_sign(")") {
            let name = self.name("a name for a value of the request")?;
            self.expect("=")?;
            values.push((name, self.expr()?));
            if !self.eat(",") {
                break;
            }
        }
        self.close(")", opened)?;
        self.expect_word("when")?;
        Ok(ClauseKind::Matches { values, when: self.expr()? })
    }

    /// `ignore "\r\n" max 4`
    fn ignore(&mut self) -> P<ClauseKind> {
        self.column(Column::Type);
        let Tok::Bytes(bytes) = self.tok().clone() else {
            return self.unexpected("the bytes that are ignored, such as \"\\r\\n\"");
        };
        self.bump();
        self.expect_word("max")?;
        Ok(ClauseKind::Ignore { bytes, max: self.expr()? })
    }

    /// `class "2xx" when e`
    fn class(&mut self) -> P<ClauseKind> {
        let span = self.span();
        let Tok::Bytes(name) = self.tok().clone() else {
            return self.unexpected("the name of a class, such as \"2xx\"");
        };
        self.bump();
        self.expect_word("when")?;
        Ok(ClauseKind::Class {
            name: Ident { name: String::from_utf8_lossy(&name).into_owned(), span },
            when: self.expr()?,
        })
    }

    fn flag(&mut self, flag: FlagKind) -> P<ClauseKind> {
        self.expect_word("when")?;
        Ok(ClauseKind::Flag { flag, when: self.expr()? })
    }

    /// One of some words; which.
    pub(super) fn one_of(&mut self, words: &[&str]) -> P<usize> {
        if let Some(i) = words.iter().position(|w| self.at_word(w)) {
            self.bump();
            return Ok(i);
        }
        let quoted: Vec<_> = words.iter().map(|w| format!("`{w}`")).collect();
        self.unexpected(&quoted.join(" or "))
    }

    /// `(name)` of a handler
    pub(super) fn handler_param(&mut self, what: &str) -> P<Ident> {
        self.mark_tight();
        let opened = self.expect("(")?;
        let name = self.name(what)?;
        self.close(")", opened)?;
        Ok(name)
    }
}
