//! Parsing: declarations and types. Recursive descent; nesting is limited, so no input can
//! exhaust the stack.

use super::lex::{tokens, Token, ARROW, DOTS};
use super::names::value_of;
use super::TextError;
use crate::plans::HandlerPlan;
use crate::*;
use desc::{
    Failover, Form, FrameEngine, ParamType, ParamValue, PortKind, PortOptions, ResultType, Reuse, Sharing, Value,
};

pub(super) type Res<T> = Result<T, TextError>;

/// Deeper than anything the checker lets through: 256 arms of a `match`, each in the `else` of the
/// one before, and what is in them.
const MAX_NESTING: u32 = 600;

pub(super) struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    depth: u32,
    pub m: Module,
}

pub(super) fn module(text: &str) -> Res<Module> {
    let mut p = Parser { tokens: tokens(text)?, at: 0, depth: 0, m: Module::default() };
    while *p.peek() != Token::End {
        p.declaration()?
    }
    Ok(p.m)
}

impl Parser {
    pub fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    pub fn error<T>(&self, message: impl Into<String>) -> Res<T> {
        Err(TextError { line: self.tokens[self.at.min(self.tokens.len() - 1)].1, message: message.into() })
    }

    pub fn bump(&mut self) -> Token {
        let t = self.peek().clone();
        if t != Token::End {
            self.at += 1
        }
        t
    }

    /// Runs `f` one level deeper.
    pub fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        if self.depth >= MAX_NESTING {
            return self.error("nested too deep");
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }

    pub fn is(&self, c: char) -> bool {
        *self.peek() == Token::Sign(c)
    }
    pub fn eat(&mut self, c: char) -> bool {
        let yes = self.is(c);
        if yes {
            self.at += 1
        }
        yes
    }
    pub fn sign(&mut self, c: char) -> Res<()> {
        if self.eat(c) {
            Ok(())
        } else {
            self.error(format!("expected `{c}`, found {:?}", self.peek()))
        }
    }
    pub fn is_word(&self, w: &str) -> bool {
        matches!(self.peek(), Token::Word(x) if x == w)
    }
    pub fn eat_word(&mut self, w: &str) -> bool {
        let yes = self.is_word(w);
        if yes {
            self.at += 1
        }
        yes
    }
    pub fn word(&mut self, w: &str) -> Res<()> {
        if self.eat_word(w) {
            Ok(())
        } else {
            self.error(format!("expected `{w}`, found {:?}", self.peek()))
        }
    }

    pub fn any_word(&mut self) -> Res<String> {
        match self.bump() {
            Token::Word(w) => Ok(w),
            t => self.error(format!("expected a word, found {t:?}")),
        }
    }

    pub fn int(&mut self) -> Res<u128> {
        match self.bump() {
            Token::Int(n) => Ok(n),
            t => self.error(format!("expected a number, found {t:?}")),
        }
    }

    pub fn num<T: TryFrom<u128>>(&mut self) -> Res<T> {
        let n = self.int()?;
        T::try_from(n).or_else(|_| self.error("number out of range"))
    }

    pub fn str(&mut self) -> Res<String> {
        match self.bump() {
            Token::Str(s) => Ok(s),
            t => self.error(format!("expected a string, found {t:?}")),
        }
    }

    pub fn bytes(&mut self) -> Res<Vec<u8>> {
        match self.bump() {
            Token::Bytes(b) => Ok(b),
            t => self.error(format!("expected bytes, found {t:?}")),
        }
    }

    /// `name#index`
    pub fn index(&mut self) -> Res<u32> {
        if matches!(self.peek(), Token::Word(_)) {
            self.at += 1
        }
        self.sign('#')?;
        self.num()
    }

    /// `(a, b, …)`
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Res<T>) -> Res<Vec<T>> {
        self.sign('(')?;
        let mut out = Vec::new();
        while !self.eat(')') {
            if !out.is_empty() {
                self.sign(',')?
            }
            out.push(item(self)?);
        }
        Ok(out)
    }

    /// `{ … }`, item after item.
    pub fn braces(&mut self, mut item: impl FnMut(&mut Self) -> Res<()>) -> Res<()> {
        self.sign('{')?;
        while !self.eat('}') {
            if *self.peek() == Token::End {
                return self.error("expected `}`");
            }
            item(self)?;
        }
        Ok(())
    }

    pub fn span(&mut self) -> Res<Span> {
        if !self.eat('@') {
            return Ok(Span::default());
        }
        let mut n = [0u32; 5];
        for (i, n) in n.iter_mut().enumerate() {
            if i > 0 {
                self.sign(':')?
            }
            *n = self.num()?;
        }
        let element = if self.eat(':') { self.num()? } else { 0 };
        Ok(Span { file: n[0], start: n[1], end: n[2], line: n[3], column: n[4], element })
    }

    pub fn end(&mut self) -> Res<Span> {
        self.sign(';')?;
        self.span()
    }

    pub fn ty(&mut self) -> Res<TyId> {
        let word = self.any_word()?;
        if let Some(n) = word.strip_prefix('t').and_then(|n| n.parse().ok()) {
            return Ok(TyId(n));
        }
        let ty = self.type_of(word)?;
        Ok(self.m.intern(ty))
    }

    fn type_of(&mut self, word: String) -> Res<Ty> {
        self.nested(|p| p.type_inner(&word))
    }

    fn type_inner(&mut self, word: &str) -> Res<Ty> {
        if let Some(bits) = word.strip_prefix('u').and_then(|n| n.parse().ok()) {
            return Ok(Ty::UInt(bits));
        }
        if let Some(bits) = word.strip_prefix('i').and_then(|n| n.parse().ok()) {
            return Ok(Ty::Int(bits));
        }
        match word {
            "unit" => return Ok(Ty::Unit),
            "bool" => return Ok(Ty::Bool),
            "endpoint" => return Ok(Ty::Endpoint),
            "ip" => return Ok(Ty::Ip),
            _ => {}
        }
        self.sign('<')?;
        let ty = match word {
            "bytes" => Ty::Bytes(self.num()?),
            "option" => Ty::Option(self.ty()?),
            "list" => {
                let t = self.ty()?;
                self.sign(',')?;
                Ty::List(t, self.num()?)
            }
            "record" => Ty::Record(RecordId(self.index()?)),
            "msg" => Ty::Msg(UnitId(self.index()?)),
            "tuple" => {
                let mut list = Vec::new();
                while !self.is('>') {
                    if !list.is_empty() {
                        self.sign(',')?
                    }
                    list.push(self.ty()?);
                }
                Ty::Tuple(list)
            }
            _ => return self.error(format!("unknown type `{word}`")),
        };
        self.sign('>')?;
        Ok(ty)
    }

    pub fn set(&mut self) -> Res<ByteSet> {
        let text = self.str()?;
        let mut set = ByteSet::EMPTY;
        for part in text.split_whitespace() {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            match (u8::from_str_radix(from, 16), u8::from_str_radix(to, 16)) {
                (Ok(a), Ok(b)) => set = set.union(&ByteSet::range(a, b)),
                _ => return self.error("bad set of bytes"),
            }
        }
        Ok(set)
    }

    pub fn range(&mut self) -> Res<(u64, u64)> {
        let a = self.num()?;
        self.sign(DOTS)?;
        Ok((a, self.num()?))
    }

    pub fn name(&mut self) -> Res<Option<String>> {
        if self.eat_word("_") {
            Ok(None)
        } else {
            self.str().map(Some)
        }
    }

    fn boolean(&mut self) -> Res<bool> {
        match self.any_word()?.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => self.error("expected true or false"),
        }
    }

    fn declaration(&mut self) -> Res<()> {
        let word = self.any_word()?;
        match word.as_str() {
            "app" => self.m.app = self.str()?,
            "file" => {
                let s = self.str()?;
                self.m.files.push(s)
            }
            "element" => {
                let name = self.str()?;
                self.word("of")?;
                let kind = self.str()?;
                let parent = if self.eat_word("in") { Some(ElementId(self.index()?)) } else { None };
                self.m.elements.push(Element { name, kind, parent });
            }
            "wire" => {
                let w = self.wire()?;
                self.m.wires.push(w)
            }
            "input" => {
                let i = self.input()?;
                self.m.inputs.push(i)
            }
            "fault" => {
                let name = self.str()?;
                self.word("doc")?;
                let doc = self.str()?;
                self.m.faults.push(OwnFault { name, doc })
            }
            "place" => {
                let place = Place { name: self.str()?, span: self.span()? };
                self.m.places.push(place)
            }
            "type" => self.type_declaration()?,
            "record" => {
                let record = Record {
                    name: self.str()?,
                    fields: self.list(|p| {
                        let n = p.str()?;
                        p.sign(':')?;
                        Ok((n, p.ty()?))
                    })?,
                };
                self.m.records.push(record);
            }
            "enum" => {
                let e = Enum {
                    name: self.str()?,
                    bits: self.num()?,
                    open: self.eat_word("open"),
                    variants: self.list(|p| {
                        let n = p.str()?;
                        p.sign('=')?;
                        Ok((n, p.num()?))
                    })?,
                };
                self.m.enums.push(e);
            }
            "param" => self.param()?,
            "unit" => {
                let u = self.unit()?;
                self.m.units.push(u)
            }
            "protocol" => {
                let p = self.protocol()?;
                self.m.protocols.push(p)
            }
            "port" => {
                let p = self.port()?;
                self.m.ports.push(p)
            }
            "state" => {
                let name = self.str()?;
                self.sign(':')?;
                let ty = self.ty()?;
                let init = if self.eat('=') { Some(self.expr()?) } else { None };
                self.m.states.push(State { name, ty, init });
            }
            "session" => {
                let name = self.str()?;
                self.sign(':')?;
                let ty = self.ty()?;
                self.m.sessions.push(Session { name, ty })
            }
            "counter" => {
                let name = self.str()?;
                self.word("doc")?;
                let doc = self.str()?;
                self.m.counters.push(Counter { name, doc })
            }
            "table" => {
                let t = self.table_declaration()?;
                self.m.tables.push(t)
            }
            "signal" => {
                let s = self.signal()?;
                self.m.signals.push(s)
            }
            "fn" => {
                let f = self.func()?;
                self.m.funcs.push(f)
            }
            "segment" => {
                let name = self.str()?;
                self.word("on")?;
                self.word("cpu")?;
                let (cpu, span) = (self.num()?, self.span()?);
                self.m.segments.push(Segment { name, cpu, span })
            }
            "handler" => {
                let h = self.handler()?;
                self.m.handlers.push(h)
            }
            "merge" => {
                let g = self.merge()?;
                self.m.merges.push(g)
            }
            "steer" => {
                let (port, unit, symmetric) =
                    (PortId(self.index()?), UnitId(self.index()?), self.eat_word("symmetric"));
                self.word("by")?;
                let keys = self.list(|p| p.expr())?;
                self.sign(';')?;
                self.m.steer.push(Steer { port, unit, keys, symmetric });
            }
            "test" => {
                let t = self.test()?;
                self.m.tests.push(t)
            }
            _ => return self.error(format!("unknown declaration `{word}`")),
        }
        Ok(())
    }

    fn type_declaration(&mut self) -> Res<()> {
        let name = self.any_word()?;
        if name != format!("t{}", self.m.types.len()) {
            return self.error("types are numbered in order");
        }
        self.sign('=')?;
        let word = self.any_word()?;
        let ty = self.type_of(word)?;
        self.m.types.push(ty);
        Ok(())
    }

    fn param_value(&mut self) -> Res<ParamValue> {
        Ok(match self.any_word()?.as_str() {
            "bool" => ParamValue::Bool(self.boolean()?),
            "uint" => ParamValue::UInt(self.num()?),
            "duration" => ParamValue::Duration(self.num()?),
            "bytes" => ParamValue::Bytes(self.bytes()?),
            "endpoints" => ParamValue::Endpoints(self.list(Self::str)?),
            w => return self.error(format!("unknown value `{w}`")),
        })
    }

    fn param(&mut self) -> Res<()> {
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

    fn port(&mut self) -> Res<Port> {
        let name = self.str()?;
        let word = self.any_word()?;
        let value =
            if self.eat_word("param") { Value::Param(self.index()?) } else { Value::Const(self.param_value()?) };
        self.word("as")?;
        let protocols = self.list(|p| p.index().map(ProtocolId))?;
        let (ketama, maglev) = (self.eat_word("ketama"), self.eat_word("maglev"));
        let mut options = PortOptions::default();
        while let Token::Word(w) = self.peek() {
            let w = w.clone();
            if !crate::port_options::NAMES.contains(&w.as_str()) {
                break;
            }
            self.bump();
            self.option(&mut options, &w)?;
        }
        let kind = match (word.as_str(), value_of::<FrameEngine>(&word)) {
            ("listen", _) => PortKind::Listen(value),
            ("connect", _) => PortKind::Connect(value),
            (_, Some(engine)) => PortKind::Frames { engine, names: value },
            _ => return self.error("expected listen, connect or an engine"),
        };
        Ok(Port { name, kind, protocols, options, ketama, maglev, span: self.span()? })
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

    fn protocol(&mut self) -> Res<Protocol> {
        let mut p = Protocol {
            name: self.str()?,
            request: UnitId(0),
            response: None,
            response_args: Vec::new(),
            sharing: Sharing::Pipelined,
            order_by: None,
            close_request: None,
            no_reply: None,
            alone: None,
            repeat: None,
            private_request: None,
            private_response: None,
            close_response: None,
            interim: None,
            tunnel: None,
            refusal: None,
            stray: None,
            ignore: None,
            classes: Vec::new(),
            on_log: None,
            on_fault: None,
            on_interim: None,
        };
        self.braces(|s| {
            let word = s.any_word()?;
            match word.as_str() {
                "on_log" => return s.body().map(|b| p.on_log = Some(b)),
                "class" => p.classes.push(s.str()?),
                "on_fault" => return s.body().map(|b| p.on_fault = Some(b)),
                "on_interim" => return s.body().map(|b| p.on_interim = Some(b)),
                "request" => p.request = UnitId(s.index()?),
                "response" => p.response = Some(UnitId(s.index()?)),
                "sharing" => {
                    p.sharing = if s.eat_word("pipelined") {
                        Sharing::Pipelined
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
                "order_by" => p.order_by = Some(FieldId(s.index()?)),
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
                "stray" => p.stray = Some(s.expr()?),
                _ => return s.error(format!("unknown clause `{word}`")),
            }
            s.sign(';')
        })?;
        Ok(p)
    }

    fn table_declaration(&mut self) -> Res<Table> {
        let name = self.str()?;
        self.sign(':')?;
        let word = self.any_word()?;
        let Some(kind) = value_of::<TableKind>(&word) else {
            return self.error(format!("unknown kind of table `{word}`"));
        };
        let local = self.eat_word("local");
        let key = self.ty()?;
        self.sign(ARROW)?;
        let value = self.ty()?;
        self.word("capacity")?;
        let capacity = self.num()?;
        self.word("idle")?;
        let idle = self.num()?;
        let evict_lru = if self.eat_word("evict_lru") {
            true
        } else {
            self.word("reject")?;
            false
        };
        self.word("memory")?;
        let memory = self.num()?;
        let cache = if self.eat_word("cache") { self.num()? } else { 0 };
        Ok(Table { name, kind, local, key, value, capacity, idle, evict_lru, memory, cache, span: self.span()? })
    }

    fn func(&mut self) -> Res<Func> {
        let name = self.str()?;
        self.word("params")?;
        let params = self.num()?;
        self.sign(ARROW)?;
        let ret = self.ty()?;
        let body = if self.eat_word("extern") {
            FuncBody::Extern { file: self.str()?, symbol: self.str()? }
        } else {
            FuncBody::Body(self.body()?)
        };
        Ok(Func { name, params, ret, body, span: self.span()? })
    }

    fn param_type(&mut self) -> Res<ParamType> {
        Ok(match self.any_word()?.as_str() {
            "bool" => ParamType::Bool,
            "uint" => ParamType::UInt(self.num()?),
            "duration" => ParamType::Duration,
            "bytes" => ParamType::Bytes(self.num()?),
            "endpoint" => ParamType::Endpoint,
            "endpoints" => ParamType::Endpoints(self.num()?),
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

    fn signal(&mut self) -> Res<Signal> {
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
        let masked = self.eat_word("masked");
        let result = self.result_type()?;
        self.word("as")?;
        let ret = self.ty()?;
        self.word("doc")?;
        Ok(Signal { name, args, forms, defaults, masked, result, ret, doc: self.str()?, span: self.span()? })
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

    fn element_or_app(&mut self) -> Res<Option<ElementId>> {
        if self.eat_word("app") {
            return Ok(None);
        }
        self.word("element")?;
        self.index().map(|n| Some(ElementId(n)))
    }

    fn wire(&mut self) -> Res<Wire> {
        let (from, out) = (self.element_or_app()?, self.str()?);
        self.sign(ARROW)?;
        let to = if self.eat_word("input") {
            let input = InputId(self.index()?);
            let index = if self.is('[') { self.instance()? } else { 0 };
            Target::Input { input, index }
        } else {
            self.word("port")?;
            Target::Port { port: PortId(self.index()?), index: self.instance()? }
        };
        Ok(Wire { from, out, to })
    }

    /// `[3]`
    fn instance(&mut self) -> Res<u32> {
        self.sign('[')?;
        let index = self.num()?;
        self.sign(']')?;
        Ok(index)
    }

    fn input(&mut self) -> Res<Input> {
        let name = self.str()?;
        self.word("of")?;
        let (element, unit) = (self.element_or_app()?, UnitId(self.index()?));
        let indexed = self.eat_word("indexed");
        self.word("steps")?;
        let steps = self.num()?;
        let body = if self.eat_word("inlined") { None } else { Some(self.body()?) };
        Ok(Input { name, element, unit, indexed, steps, body, span: self.span()? })
    }

    fn handler(&mut self) -> Res<Handler> {
        let name = self.str()?;
        self.word("on")?;
        let on = match self.any_word()?.as_str() {
            "message" => On::Message { port: PortId(self.index()?), protocol: ProtocolId(self.index()?) },
            "frame" => On::Frame { port: PortId(self.index()?), unit: UnitId(self.index()?) },
            "opened" => On::Opened(PortId(self.index()?)),
            "greeting" => On::Greeting(PortId(self.index()?)),
            "probe" => On::Probe(PortId(self.index()?)),
            "closed" => On::Closed(PortId(self.index()?)),
            "fault" => On::Fault,
            "start" => On::Start,
            "end" => On::End,
            "every" => On::Every(self.num()?),
            "signal" => On::Signal(self.num()?),
            "test" => On::Test(self.num()?),
            "check" => On::Check { test: self.num()?, unit: UnitId(self.index()?) },
            w => return self.error(format!("unknown event `{w}`")),
        };
        let device = if self.eat_word("on") { self.device()? } else { ops::Device::Cpu };
        let segment = if self.eat_word("in") { Some(SegmentId(self.index()?)) } else { None };
        self.word("steps")?;
        let steps = self.num()?;
        let mut plan = HandlerPlan::default();
        let body = self.body_with(|p| p.plan(&mut plan))?;
        Ok(Handler { name, on, segment, device, steps, body, span: self.span()?, plan })
    }

    fn device(&mut self) -> Res<ops::Device> {
        match self.any_word()?.as_str() {
            "xdp" => Ok(ops::Device::Xdp),
            "fpga" => Ok(ops::Device::Fpga),
            w => self.error(format!("unknown device `{w}`")),
        }
    }

    fn merge(&mut self) -> Res<Merge> {
        let name = self.str()?;
        let from = PortId(self.index()?);
        self.sign(ARROW)?;
        let to = PortId(self.index()?);
        self.word("inputs")?;
        let inputs = self.num()?;
        self.word("of")?;
        let unit = UnitId(self.index()?);
        self.word("by")?;
        let key = FieldId(self.index()?);
        let (mut locals, mut values) = (Vec::new(), Vec::new());
        self.braces(|p| {
            if p.is_word("local") {
                locals.push(p.local_declaration(locals.len())?);
                return Ok(());
            }
            p.word("value")?;
            values.push(MergeValue { field: FieldId(p.index()?), a: p.local()?, b: p.local()?, combined: p.expr()? });
            p.sign(';')
        })?;
        Ok(Merge { name, from, to, inputs, unit, key, values, locals, span: self.span()? })
    }

    fn test(&mut self) -> Res<Test> {
        let name = self.str()?;
        if self.eat_word("code") {
            return Ok(Test { name, kind: TestKind::Code(HandlerId(self.index()?)), span: self.span()? });
        }
        self.word("sim")?;
        let params = self.list(|p| {
            let n = p.str()?;
            p.sign('=')?;
            Ok((n, p.str()?))
        })?;
        let mut steps = Vec::new();
        self.braces(|p| {
            steps.push(p.sim()?);
            Ok(())
        })?;
        Ok(Test { name, kind: TestKind::Sim { params, steps }, span: self.span()? })
    }

    fn sim(&mut self) -> Res<(Span, SimStep)> {
        let word = self.any_word()?;
        if word == "repeat" {
            let (first, next, times) = (HandlerId(self.index()?), HandlerId(self.index()?), self.num()?);
            let mut steps = Vec::new();
            self.braces(|p| {
                steps.push(p.sim()?);
                Ok(())
            })?;
            return Ok((self.span()?, SimStep::Repeat { first, next, times, steps }));
        }
        let step = match word.as_str() {
            "at" => {
                let (place, word) = (HandlerId(self.index()?), self.any_word()?);
                SimStep::At(place, Box::new(self.plain_sim(&word)?))
            }
            _ => self.plain_sim(&word)?,
        };
        Ok((self.end()?, step))
    }

    fn plain_sim(&mut self, word: &str) -> Res<SimStep> {
        match word {
            "wait" => return Ok(SimStep::Wait(self.num()?)),
            "run" => return Ok(SimStep::Run(HandlerId(self.index()?))),
            "give" => return Ok(SimStep::Give(HandlerId(self.index()?))),
            "see_same" => return Ok(SimStep::SeeSame(HandlerId(self.index()?))),
            _ => {}
        }
        let at = SimPort { port: PortId(self.index()?), conn: self.num()? };
        Ok(match word {
            "check" => SimStep::Check(at, HandlerId(self.index()?)),
            "send" => SimStep::Send(at, self.bytes()?),
            "see" => SimStep::See(at, self.bytes()?),
            "see_closed" => SimStep::SeeClosed(at),
            "see_nothing" => SimStep::SeeNothing(at),
            "close" => SimStep::Close(at),
            "reset" => SimStep::Reset(at),
            "refuse" => SimStep::Refuse(at),
            "accept" => SimStep::Accept(at),
            _ => return self.error(format!("unknown step `{word}`")),
        })
    }
}
