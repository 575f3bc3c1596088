//! Parsing: parameters, ports, protocols and signals.

use super::lex::Token;
use super::names::value_of;
use super::parser::{Parser, Res};
use crate::*;
use desc::{
    Failover, Form, FrameEngine, ParamType, ParamValue, PortKind, PortOptions, ResultType, Reuse, Sharing, Value,
};

impl Parser {
    fn param_value(&mut self) -> Res<ParamValue> {
        Ok(match self.any_word()?.as_str() {
            "bool" => ParamValue::Bool(self.boolean()?),
            "uint" => ParamValue::UInt(self.num()?),
            "duration" => ParamValue::Duration(self.num()?),
            "bytes" => ParamValue::Bytes(self.bytes()?),
            "endpoints" => ParamValue::Endpoints(self.list(Self::str)?),
            "texts" => ParamValue::Texts(self.list(Self::bytes)?),
            w => return self.error(format!("unknown value `{w}`")),
        })
    }

    pub fn param(&mut self) -> Res<()> {
        let name = self.str()?;
        self.sign(':')?;
        let (ty, form) = (self.param_type()?, self.form()?);
        self.word("as")?;
        let value_ty = self.ty()?;
        let default = if self.eat('=') { Some(self.param_value()?) } else { None };
        self.word("doc")?;
        let doc = self.str()?;
        self.m.params.push(Param { name, doc, ty, form, value_ty, default });
        Ok(())
    }

    pub fn port(&mut self) -> Res<Port> {
        let name = self.str()?;
        let word = self.any_word()?;
        let udp = self.eat_word("udp");
        let value =
            if self.eat_word("param") { Value::Param(self.index()?) } else { Value::Const(self.param_value()?) };
        self.word("as")?;
        let protocols = self.list(|p| p.index().map(ProtocolId))?;
        let ketama = self.eat_word("ketama");
        let consistent = if self.eat_word("consistent") { Some(FuncId(self.index()?)) } else { None };
        let maglev = self.eat_word("maglev");
        let mut options = PortOptions::default();
        while let Token::Word(w) = self.peek() {
            let w = w.clone();
            if !crate::port_options::NAMES.contains(&w.as_str()) {
                break;
            }
            self.bump();
            self.option(&mut options, &w)?;
        }
        let carries = if self.eat_word("carries") { self.carries()? } else { Carries::default() };
        let kind = match (word.as_str(), value_of::<FrameEngine>(&word)) {
            ("listen", _) => PortKind::Listen(value),
            ("connect", _) => PortKind::Connect(value),
            (_, Some(engine)) => PortKind::Frames { engine, names: value },
            _ => return self.error("expected listen, connect or an engine"),
        };
        Ok(Port { name, kind, protocols, options, ketama, consistent, maglev, udp, carries, span: self.span()? })
    }

    fn carries(&mut self) -> Res<Carries> {
        let part = match self.any_word()?.as_str() {
            "whole" => FramePart::Whole,
            "headers" => FramePart::Headers(self.num()?),
            "nothing" => FramePart::Nothing,
            w => return self.error(format!("unknown part of a frame `{w}`")),
        };
        Ok(Carries { part, fixed: self.eat_word("fixed"), state: self.packet_fields()? })
    }

    /// `fields (a#0, b#1)`, if it is there.
    pub fn packet_fields(&mut self) -> Res<Vec<PacketFieldId>> {
        if self.eat_word("fields") {
            self.list(|p| p.index().map(PacketFieldId))
        } else {
            Ok(Vec::new())
        }
    }

    fn word_of<T: Copy>(&mut self, names: &'static [(T, &'static str)]) -> Res<T> {
        let word = self.any_word()?;
        names
            .iter()
            .find(|(_, n)| *n == word)
            .map(|(v, _)| *v)
            .map_or_else(|| self.error(format!("unknown value `{word}`")), Ok)
    }

    fn option(&mut self, o: &mut PortOptions, name: &str) -> Res<()> {
        use crate::port_options::Slot;
        match crate::port_options::slot(o, name) {
            Some(Slot::Time(n, _)) => *n = self.num()?,
            Some(Slot::Times(all)) => {
                let n = self.num()?;
                all.into_iter().for_each(|t| *t = n);
            }
            Some(Slot::Count(n, _) | Slot::Auto(n, _)) => *n = self.num()?,
            Some(Slot::Switch(on)) => *on = self.num::<u8>()? != 0,
            Some(Slot::Byte(b)) => *b = self.num()?,
            Some(Slot::Reuse(r)) => *r = self.word_of(Reuse::NAMES)?,
            Some(Slot::Failover(f)) => *f = self.word_of(Failover::NAMES)?,
            None => return self.error(format!("unknown option `{name}`")),
        }
        Ok(())
    }

    pub fn protocol(&mut self) -> Res<Protocol> {
        let mut p = Protocol::new(self.str()?, UnitId(0), Sharing::Pipelined);
        self.braces(|s| {
            let word = s.any_word()?;
            match word.as_str() {
                "on_log" => return s.body().map(|b| p.on_log = Some(b)),
                "class" => p.classes.push(s.str()?),
                "on_fault" => return s.body().map(|b| p.on_fault = Some(b)),
                "on_interim" => return s.body().map(|b| p.on_interim = Some(b)),
                "on_answer" => return s.body().map(|b| p.on_answer = Some(b)),
                "request" => p.request = UnitId(s.index()?),
                "response" => p.response = Some(UnitId(s.index()?)),
                "sharing" => {
                    p.sharing = if s.eat_word("pipelined") {
                        Sharing::Pipelined
                    } else if s.eat_word("session") {
                        Sharing::Session
                    } else {
                        s.word("exclusive")?;
                        Sharing::Exclusive
                    }
                }
                "ignore" => {
                    p.ignore = Some((s.bytes()?, {
                        s.word("max")?;
                        s.num()?
                    }))
                }
                "server_first" => p.server_first = true,
                "order_by" => p.order_by = Some(FieldId(s.index()?)),
                "request_arg" => p.request_args.push(s.expr()?),
                "response_arg" => p.response_args.push(s.expr()?),
                "close_request" => p.close_request = Some(s.expr()?),
                "no_reply" => p.no_reply = Some(s.expr()?),
                "alone" => p.alone = Some(s.expr()?),
                "repeat" => p.repeat = Some(s.expr()?),
                "private_request" => p.private_request = Some(s.expr()?),
                "private_response" => p.private_response = Some(s.expr()?),
                "close_response" => p.close_response = Some(s.expr()?),
                "interim" => p.interim = Some(s.expr()?),
                "tunnel" => p.tunnel = Some(s.expr()?),
                "refusal" => p.refusal = Some(s.expr()?),
                "idle" => p.idle = Some(s.expr()?),
                "reset" => p.reset = Some(s.expr()?),
                "owes" => p.owes = Some(s.expr()?),
                "unfinished" => p.unfinished = Some(s.expr()?),
                "settles" => p.settles = Some(s.expr()?),
                "stray" => p.stray = Some(s.expr()?),
                "chunks_request" => p.chunks_request = Some(s.expr()?),
                "chunks_response" => p.chunks_response = Some(s.expr()?),
                "expects" => {
                    let text = s.bytes()?;
                    s.word("when")?;
                    p.expects = Some((text, s.expr()?))
                }
                _ => return s.error(format!("unknown clause `{word}`")),
            }
            s.sign(';')
        })?;
        Ok(p)
    }

    fn param_type(&mut self) -> Res<ParamType> {
        Ok(match self.any_word()?.as_str() {
            "bool" => ParamType::Bool,
            "uint" => ParamType::UInt(self.num()?),
            "duration" => ParamType::Duration,
            "bytes" => ParamType::Bytes(self.num()?),
            "endpoint" => ParamType::Endpoint,
            "endpoints" => ParamType::Endpoints(self.num()?),
            "texts" => {
                let n = self.num()?;
                self.word("of")?;
                ParamType::Texts(n, self.num()?)
            }
            w => return self.error(format!("unknown parameter type `{w}`")),
        })
    }

    fn form(&mut self) -> Res<Form> {
        if !self.eat_word("is") {
            return Ok(Form::Plain);
        }
        Ok(match self.any_word()?.as_str() {
            "ip4" => Form::Ip4,
            "ip" => Form::Ip,
            "ip6" => Form::Ip6,
            "wide" => Form::Wide,
            "or_port" => Form::OrPort,
            "within" => Form::Within(self.list(|p| {
                let a = p.num()?;
                p.word("to")?;
                Ok((a, p.num()?))
            })?),
            "mac" => Form::Mac,
            "one" => {
                self.word("of")?;
                Form::Enum(self.list(|p| p.str())?)
            }
            w => return self.error(format!("unknown form `{w}`")),
        })
    }

    pub fn signal(&mut self) -> Res<Signal> {
        let name = self.str()?;
        let all = self.list(|p| {
            let n = p.str()?;
            p.sign(':')?;
            let (ty, form) = (p.param_type()?, p.form()?);
            let default = if p.eat('=') { Some(p.param_value()?) } else { None };
            Ok(((n, ty), (form, default)))
        })?;
        let (args, rest): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let (mut forms, mut defaults): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
        while forms.last() == Some(&Form::Plain) {
            forms.pop();
        }
        while defaults.last() == Some(&None) {
            defaults.pop();
        }
        let (masked, exported) = (self.eat_word("masked"), self.eat_word("exported"));
        let result = self.result_type()?;
        self.word("as")?;
        let ret = self.ty()?;
        self.word("doc")?;
        Ok(Signal { name, args, forms, defaults, masked, exported, result, ret, doc: self.str()?, span: self.span()? })
    }

    fn result_type(&mut self) -> Res<ResultType> {
        self.nested(|p| p.result_inner())
    }

    fn result_inner(&mut self) -> Res<ResultType> {
        Ok(match self.any_word()?.as_str() {
            "nothing" => ResultType::Nothing,
            "bool" => ResultType::Bool,
            "int" => ResultType::Int,
            "text" => ResultType::Text,
            "option" => {
                self.sign('(')?;
                let t = self.result_type()?;
                self.sign(')')?;
                ResultType::Option(Box::new(t))
            }
            "record" => ResultType::Record(self.list(|p| {
                let n = p.str()?;
                p.sign(':')?;
                Ok((n, p.result_type()?))
            })?),
            w => return self.error(format!("unknown result type `{w}`")),
        })
    }
}
