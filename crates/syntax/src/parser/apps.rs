//! Elements and apps: members, ports, tables, handlers, wiring.

use super::exprs::expr_of;
use super::recover::nearest;
use super::{Abort, Column, Parser, P};
use crate::ast::{
    Arg, Block, Device, Element, Expr, ExprKind, Handler, Ident, Member, MemberKind, Node, NodeKind, On, PacketField,
    Path, Port, Stmt, StmtKind, Table, Type, TypeArg, TypeKind, CONTROLS, STOPPED,
};
use crate::diagnostic::Diagnostic;
use crate::token::Tok;

/// Nodes of wiring that need no name.
const WORDS: &[&str] =
    &["where", "map", "match", "tee", "broadcast", "steer", "any", "not", "log", "drop", "split", "join", "parse"];
/// The words that members of apps and elements begin with.
pub const MEMBERS: &[&str] = &[
    "param", "in", "out", "port", "state", "session", "request", "counter", "table", "queue", "limiter", "meter",
    "cache", "global", "const", "fn", "on", "every", "signal", "segment", "export",
];

impl Parser<'_> {
    /// `element Name { … }`, `app name { … }`
    pub(super) fn element(&mut self) -> P<Element> {
        self.bump();
        let name = self.name("an app or element")?;
        let types = if self.at_sign("<") { self.angled(Self::type_param)? } else { Vec::new() };
        let in_c = if self.at_word("from") { Some(self.c_file()?) } else { None };
        let members = self.braced(Self::members)?;
        let mut members: Vec<Member> = members.into_iter().flatten().collect();
        resolve_words(&mut members);
        if in_c.is_none() {
            self.only_in_c(&members)
        }
        let mut element = Element { name, types, in_c, members };
        resolve_controls(&mut element);
        self.resolve_segments(&mut element);
        Ok(element)
    }

    /// `U: unit`, `T: type`
    fn type_param(&mut self) -> P<(Ident, Ident)> {
        let name = self.name("a type parameter")?;
        self.colon("before its kind")?;
        if !self.at_word("unit") && !self.at_word("type") {
            return self.unexpected_with("`unit` or `type`", |d| {
                d.hint("a number is a parameter in the element: `param n: u32`")
            });
        }
        Ok((name, self.any_word("`unit` or `type`")?))
    }

    /// The members of one line: `port a = …, b = …` and `counter a, b` are several.
    fn members(&mut self) -> P<Vec<Member>> {
        let (doc, start) = (self.doc(), self.span());
        if self.word_text(0) == Some("segment") && self.word_here(1) {
            return self.segment(doc);
        }
        let kinds = self.member_kinds()?;
        let span = self.since(start);
        Ok(kinds.into_iter().map(|kind| Member { doc: doc.clone(), span, kind }).collect())
    }

    /// `segment rx on cpu(0) { … }`: its members stand behind it in the list of all.
    fn segment(&mut self, doc: String) -> P<Vec<Member>> {
        let start = self.span();
        self.bump();
        let name = self.name("a segment")?;
        self.expect_word("on")?;
        let device = self.device()?;
        let inner = self.braced(Self::members)?;
        let span = self.since(start);
        let own = Member { doc, span, kind: MemberKind::Segment { name, device } };
        Ok(std::iter::once(own).chain(inner.into_iter().flatten()).collect())
    }

    /// `xdp`, `cpu(0)`, `cpu(0..2)`, `nic`, `nic(cores 2)`
    pub(super) fn device(&mut self) -> P<Device> {
        if self.at_word("nic") {
            return self.device_nic();
        }
        if !self.at_word("cpu") {
            return Ok(Device { name: self.any_word("a device")?, cores: None });
        }
        let name = self.any_word("a device")?;
        self.mark_tight();
        let opened = self.expect("(")?;
        let cores = self.inside(false, |p| {
            let cores = p.expr()?;
            p.close(")", opened)?;
            Ok(cores)
        })?;
        Ok(Device { name, cores: Some(cores) })
    }

    /// `nic`, `nic(cores 2)`
    fn device_nic(&mut self) -> P<Device> {
        let name = self.any_word("a device")?;
        if !self.at_sign("(") {
            return Ok(Device { name, cores: None });
        }
        self.mark_tight();
        let opened = self.expect("(")?;
        let cores = self.inside(false, |p| {
            p.expect_word("cores")?;
            let cores = p.expr()?;
            p.close(")", opened)?;
            Ok(cores)
        })?;
        Ok(Device { name, cores: Some(cores) })
    }

    fn member_kinds(&mut self) -> P<Vec<MemberKind>> {
        let word = self.word_text(0).unwrap_or("");
        // A keyword only if a name follows: `port -> x` and `table = Table()` are wiring and an
        // instance.
        let defines = self.word_here(1);
        match word {
            "port" if defines => return self.ports(),
            "counter" if defines => return self.counters(),
            "signal" if self.word_text(1).is_some_and(|w| CONTROLS.contains(&w)) && !self.sign_at(2, "(") => {
                return self.controls()
            }
            _ => {}
        }
        let one = match word {
            "param" if defines => {
                self.bump();
                MemberKind::Param(self.param_member()?)
            }
            "in" | "out" if defines => self.element_port(word == "in")?,
            "state" if self.at_memory() => self.memory()?,
            "state" if self.word_at(1, "of") && self.word_at(2, "packet") => self.packet_state()?,
            "state" if defines => {
                self.bump();
                let p = self.typed_member()?;
                MemberKind::State { name: p.name, ty: p.ty, init: p.default }
            }
            "session" if defines && self.word_at(3, "connection") && self.word_at(4, "of") => {
                self.bump();
                let name = self.name("a connection")?;
                self.colon("before the type")?;
                self.column(Column::Type);
                self.bump();
                self.bump();
                MemberKind::Upstream { name, port: self.name("a connecting port")? }
            }
            "session" | "request" if defines => {
                self.bump();
                let p = self.typed_member()?;
                if let Some(value) = p.default {
                    let d =
                        Diagnostic::error("E0112", value.span, format!("a {word}'s value starts as zero or `none`"))
                            .hint("make the type an option (`u32?`) and use `name else (name = …)`");
                    self.report(d);
                }
                MemberKind::Session { name: p.name, ty: p.ty, of_request: word == "request" }
            }
            "table" | "global" if defines => MemberKind::Table(self.table()?),
            "queue" if defines => MemberKind::Queue(self.queue()?),
            "limiter" | "meter" if defines => MemberKind::Gauge(self.gauge()?),
            "const" if defines => {
                let (name, ty, value) = self.constant()?;
                MemberKind::Const { name, ty, value }
            }
            "fn" | "extern" if defines => MemberKind::Fn(self.function()?),
            _ if self.at_foreign_fn(word) => MemberKind::Fn(self.foreign_fn("member")?),
            "on" if defines => MemberKind::Handler(self.handler()?),
            "every" if !self.sign_at(1, "=") && !self.sign_at(1, "->") => MemberKind::Handler(self.timer()?),
            "signal" if defines => self.signal()?,
            "cached" if self.sign_at(1, "(") => return self.not_yet("`cached`"),
            "link" if self.sign_at(1, "{") => {
                let word = self.bump();
                MemberKind::Link { word, options: self.options()? }
            }
            "cache" if defines => MemberKind::Cache(self.cache()?),
            "export" if self.word_at(1, "segment") => self.signal()?,
            "event" | "publish" | "subscribe" | "export" if defines => {
                return self.not_yet(&format!("`{word}`"));
            }
            _ if self.at_any_word() && self.sign_at(1, "=") => self.instance()?,
            "let" | "var" if defines => {
                let d = Diagnostic::error("E0108", self.span(), format!("`{word}` starts no member"));
                self.report(d.hint(
                    "an element's instance is `name = Element()`, a value that changes `state name: u64`, another one `const`",
                ));
                return Err(Abort);
            }
            _ => self.wiring()?,
        };
        Ok(vec![one])
    }

    /// `name: T = value` of a member
    /// `port: endpoint or u16 = 8080`
    fn param_member(&mut self) -> P<crate::ast::Param> {
        let mut p = self.typed_member()?;
        if p.default.is_none() && self.eat_word("or") {
            let other = self.ty()?;
            let span = self.since(p.ty.span);
            p.ty = Type { span, kind: crate::ast::TypeKind::Or(Box::new(p.ty), Box::new(other)) };
            if self.at_sign("=") {
                self.column(Column::Equals);
                self.bump();
                p.default = Some(self.expr()?);
            }
        }
        Ok(p)
    }

    fn typed_member(&mut self) -> P<crate::ast::Param> {
        let doc = self.doc();
        let name = self.name("a member")?;
        self.colon("before the type")?;
        self.column(Column::Type);
        let ty = self.ty()?;
        let default = if self.at_sign("=") {
            self.column(Column::Equals);
            self.bump();
            Some(self.expr()?)
        } else {
            None
        };
        Ok(crate::ast::Param { doc, name, ty, within: None, default })
    }

    /// `state of packet { user: u32, hops: u8 = 0, Top.key }`
    fn packet_state(&mut self) -> P<MemberKind> {
        for _ in 0..3 {
            self.bump();
        }
        Ok(MemberKind::PacketState(self.braced(Self::packet_field)?))
    }

    fn packet_field(&mut self) -> P<PacketField> {
        let path = self.path("a field of the packet's state")?;
        if !self.at_sign(":") {
            return Ok(PacketField { path, ty: None, default: None });
        }
        self.colon("before the type")?;
        self.column(Column::Type);
        let ty = Some(self.ty()?);
        if self.at_sign("=") {
            self.column(Column::Equals);
        }
        let default = if self.eat("=") { Some(self.expr()?) } else { None };
        Ok(PacketField { path, ty, default })
    }

    fn element_port(&mut self, inward: bool) -> P<MemberKind> {
        self.bump();
        self.column(Column::Name);
        let name = self.name("a port")?;
        self.colon("before the type")?;
        self.column(Column::Type);
        let ty = self.ty()?;
        let count = if self.at_sign("[") && !self.breaks(0) { Some(self.port_count()?) } else { None };
        Ok(if inward {
            MemberKind::In { name, ty, count, values: self.values_in_c()? }
        } else {
            MemberKind::Out { name, ty, count }
        })
    }

    fn counters(&mut self) -> P<Vec<MemberKind>> {
        self.bump();
        let mut names = vec![MemberKind::Counter(self.name("a counter")?)];
        while self.eat(",") {
            names.push(MemberKind::Counter(self.name("a counter")?));
        }
        Ok(names)
    }

    // ---- ports ----

    fn ports(&mut self) -> P<Vec<MemberKind>> {
        self.bump();
        let mut ports = vec![MemberKind::Port(self.port()?)];
        while self.eat(",") {
            ports.push(MemberKind::Port(self.port()?));
        }
        Ok(ports)
    }

    /// `name = listen tcp(80) as http [8] { idle 60s }`
    fn port(&mut self) -> P<Port> {
        let name = self.name("a port")?;
        self.column(Column::Equals);
        self.expect("=")?;
        let (direction, transport, args) = self.port_source()?;
        let mut protocols = Vec::new();
        if self.at_word("as") {
            self.column(Column::Protocol);
            self.bump();
            protocols.push(self.path("a protocol")?);
            while self.eat_word("or") {
                protocols.push(self.path("a protocol")?);
            }
        }
        let mut becomes = Vec::new();
        if !protocols.is_empty() && self.eat_word("then") {
            becomes.push(self.path("a protocol")?);
            while self.eat_word("or") {
                becomes.push(self.path("a protocol")?);
            }
        }
        let count = if self.at_sign("[") && !self.breaks(0) { Some(self.port_count()?) } else { None };
        let options = if self.at_sign("{") && !self.token(0).newline { self.port_options()? } else { Vec::new() };
        Ok(Port { name, direction, transport, args, protocols, becomes, count, options })
    }

    /// `listen tcp(80)`; for a device, `nic("eth0")`, the direction is called `device`, and a list
    /// of devices is the transport `list` of calls.
    fn port_source(&mut self) -> P<(Ident, Ident, Vec<Expr>)> {
        let start = self.span();
        let device = Ident { name: "device".into(), span: start };
        if self.at_sign("[") {
            let calls = self.bracketed("[", "]", Self::expr)?;
            return Ok((device, Ident { name: "list".into(), span: start }, calls));
        }
        if self.word_here(1) {
            let direction = self.any_word("`listen` or `connect`")?;
            let transport = self.any_word("a transport")?;
            return Ok((direction, transport, self.port_args()?));
        }
        let path = self.path("`listen tcp(…)`, `connect tcp(…)` or a device")?;
        let name = path.parts.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(".");
        let transport = Ident { name, span: path.span };
        Ok((device, transport, self.port_args()?))
    }

    fn port_args(&mut self) -> P<Vec<Expr>> {
        if !self.at_sign("(") {
            return self.unexpected("`(`");
        }
        self.mark_tight();
        self.bracketed("(", ")", |p| {
            // `reassemble client`: a word and what it is about
            let start = p.span();
            if p.at_any_word() && p.word_here(1) && !matches!(p.word_text(1), Some("else" | "or" | "and" | "in" | "is"))
            {
                let word = p.any_word("an argument")?;
                let value = p.expr()?;
                let callee = expr_of(word.span, ExprKind::Name(word));
                return Ok(expr_of(p.since(start), ExprKind::Call(callee, vec![Arg { name: None, value }])));
            }
            p.expr()
        })
    }

    fn port_count(&mut self) -> P<Expr> {
        let opened = self.expect("[")?;
        self.inside(false, |p| {
            let count = p.expr()?;
            p.close("]", opened)?;
            Ok(count)
        })
    }

    fn port_options(&mut self) -> P<Vec<(Ident, Expr)>> {
        self.braced(|p| {
            let name = p.any_word("an option")?;
            p.no_sign_behind(&name);
            Ok((name, p.expr()?))
        })
    }

    /// `max_connections: 50` as other languages have it.
    fn no_sign_behind(&mut self, name: &Ident) {
        let Some(sign) = [":", "="].into_iter().find(|s| self.at_sign(s)) else { return };
        let d = Diagnostic::error("E0101", self.span(), format!("expected the value of the option, found `{sign}`"))
            .label("expected the value")
            .hint(format!("an option is its name and a value: `{} …`", name.name));
        self.report(d);
        self.bump();
    }

    // ---- tables ----

    /// `table flows: K -> V { capacity 1M, idle 60s }`
    pub(super) fn table(&mut self) -> P<Table> {
        let global = self.eat_word("global");
        self.expect_word("table")?;
        let name = self.name("a table")?;
        self.colon("before the key's type")?;
        self.column(Column::Type);
        let kind = match self.word_text(0) {
            Some("wildcard" | "lpm" | "array" | "bloom" | "count_min" | "ring" | "hyper_log_log")
                if self.word_here(1) || self.sign_at(1, "(") =>
            {
                Some(self.any_word("a kind of table")?)
            }
            _ => None,
        };
        let first = self.ty()?;
        let named = |name: &str, span| {
            let name = Ident { name: name.into(), span };
            crate::ast::Type {
                span,
                kind: crate::ast::TypeKind::Named { path: Path { parts: vec![name], span }, args: Vec::new() },
            }
        };
        let (key, value) = match kind.as_ref().map_or("", |k| k.name.as_str()) {
            "ring" => (named("u32", first.span), first),
            "bloom" | "hyper_log_log" if !self.at_sign("->") => {
                let value = named("bool", first.span);
                (first, value)
            }
            _ if self.at_any_word() && !self.breaks(0) => {
                let word = self.slice(first.span).to_string();
                let d = Diagnostic::error("E0101", first.span, format!("there is no kind of table `{word}`"));
                self.report(d.label("no kind of table").hint(
                    "a table is exact by itself (`table t: K -> V`); kinds are `array`, `bloom`, `count_min`, \
                     `hyper_log_log`, `lpm`, `ring` and `wildcard`",
                ));
                return Err(Abort);
            }
            _ => {
                self.arrow("->", "=>", "between the types of key and value")?;
                (first, self.ty()?)
            }
        };
        let options = self.options()?;
        Ok(Table { name, kind, key, value, options, global })
    }

    /// `queue waiting as Packet { depth 32 }`
    fn queue(&mut self) -> P<crate::ast::Queue> {
        self.bump();
        let name = self.name("a queue")?;
        let packet = if self.eat_word("as") { Some(self.path("a packet type")?) } else { None };
        Ok(crate::ast::Queue { name, packet, options: self.options()? })
    }

    /// `cache hot: K -> V { capacity 16K }`, `cache hot: K -> V by X { … }`
    fn cache(&mut self) -> P<crate::ast::Cache> {
        self.bump();
        let name = self.name("a cache")?;
        self.colon("before the type of the keys")?;
        self.column(Column::Type);
        let key = self.ty()?;
        self.expect("->")?;
        let value = self.ty()?;
        let by = if self.eat_word("by") { Some(self.ty()?) } else { None };
        Ok(crate::ast::Cache { name, key, value, by, options: self.options()? })
    }

    /// `limiter fair: flow5 { rate 1000, burst 100 }`
    fn gauge(&mut self) -> P<crate::ast::Gauge> {
        let word = self.any_word("`limiter` or `meter`")?;
        let name = self.name("a limiter or meter")?;
        self.mark_tight_if(":");
        let key = if self.eat(":") {
            self.column(Column::Type);
            Some(self.ty()?)
        } else {
            None
        };
        Ok(crate::ast::Gauge { word, name, key, options: self.options()? })
    }

    fn options(&mut self) -> P<Vec<(Ident, Option<Expr>)>> {
        if !self.at_sign("{") {
            return Ok(Vec::new());
        }
        self.column(Column::Options);
        self.table_options()
    }

    fn table_options(&mut self) -> P<Vec<(Ident, Option<Expr>)>> {
        self.braced(|p| {
            let name = p.any_word("an option of the table")?;
            p.no_sign_behind(&name);
            let ends = p.breaks(0) || matches!(p.tok(), Tok::Sign("," | ";" | "}"));
            Ok((name, if ends { None } else { Some(p.expr()?) }))
        })
    }

    // ---- handlers ----

    pub(super) fn event(&mut self) -> P<On> {
        if self.at_word("start") && !self.sign_at(1, "(") && !self.sign_at(1, ".") {
            self.bump();
            return Ok(On::Start);
        }
        if self.at_word("end") && !self.sign_at(1, "(") && !self.sign_at(1, ".") {
            self.bump();
            return Ok(On::End);
        }
        if self.at_word("fault") && self.sign_at(1, "(") {
            self.bump();
            return self.handler_param("the fault").map(On::Fault);
        }
        let port = self.any_word("a port's name")?;
        if self.at_sign(".") {
            self.dot();
            let event = self.any_word("an event")?;
            let mut params = Vec::new();
            if self.at_sign("(") {
                self.mark_tight();
                params = self.bracketed("(", ")", Self::event_value)?;
            }
            if params.len() > 2 || self.at_sign(".") {
                return self.not_yet("an event of a packet flow");
            }
            let last = params.pop();
            return Ok(match (params.pop(), last) {
                (Some((message, protocol)), Some((piece, _))) => {
                    On::Body { port, stream: event, message: Some(message), protocol, piece }
                }
                (None, Some((piece, Some(protocol)))) => {
                    On::Body { port, stream: event, message: None, protocol: Some(protocol), piece }
                }
                (_, param) => On::Event { port, event, param: param.map(|(name, _)| name) },
            });
        }
        let index = if self.at_sign("[") { Some(self.handler_index()?) } else { None };
        if !self.at_sign("(") {
            return self.unexpected("`(` and a name for the message");
        }
        self.mark_tight();
        let opened = self.bump();
        let param = self.name("the message")?;
        self.mark_tight_if(":");
        let protocol = if self.eat(":") { Some(self.path("a protocol")?) } else { None };
        self.close(")", opened)?;
        Ok(On::Message { port, index, param, protocol })
    }

    /// `req: feed.up`
    fn event_value(&mut self) -> P<(Ident, Option<Path>)> {
        let name = self.name("the event's value")?;
        self.mark_tight_if(":");
        let protocol = if self.eat(":") { Some(self.path("a protocol")?) } else { None };
        Ok((name, protocol))
    }

    /// `[i]`
    fn handler_index(&mut self) -> P<Ident> {
        self.mark_tight();
        let opened = self.expect("[")?;
        let index = self.name("the place of the array")?;
        self.close("]", opened)?;
        Ok(index)
    }

    /// `every 10s { … }`
    fn timer(&mut self) -> P<Handler> {
        self.bump();
        let period = self.condition_expr()?;
        Ok(Handler { on: On::Every(period), guard: None, device: None, body: self.block()? })
    }

    /// `signal start, stop, reset`
    fn controls(&mut self) -> P<Vec<MemberKind>> {
        self.bump();
        let mut all = vec![self.control()?];
        while self.eat(",") {
            all.push(self.control()?);
        }
        Ok(all)
    }

    fn control(&mut self) -> P<MemberKind> {
        let name = self.name("`start`, `stop` or `reset`")?;
        if !CONTROLS.contains(&name.name.as_str()) {
            let d = Diagnostic::error("E0108", name.span, format!("`{}` is no signal without a body", name.name));
            self.report(d.note("these are: start, stop, reset").hint("write the others as `signal name() { … }`"));
            return Err(Abort);
        }
        let span = name.span;
        let stmt = Stmt { span, kind: StmtKind::Control { word: name.clone(), start: Vec::new() } };
        Ok(MemberKind::Signal {
            exported: false,
            name,
            params: Vec::new(),
            ret: None,
            from: None,
            body: Block { span, stmts: vec![stmt] },
        })
    }

    fn signal(&mut self) -> P<MemberKind> {
        let exported = self.at_word("export");
        if exported {
            self.bump();
        }
        self.bump();
        let name = self.name(if exported { "a segment" } else { "a signal" })?;
        if !self.at_sign("(") {
            return self.unexpected("`(`");
        }
        let params = self.params()?;
        let ret = self.result_type()?;
        if self.at_sign("=") {
            return self.unexpected_with("`{`", |d| {
                d.hint("a signal's result stands in a block: `signal total() -> u64 { count }`")
            });
        }
        let from = if exported { self.begins_at()? } else { None };
        Ok(MemberKind::Signal { exported, name, params, ret, from, body: self.block()? })
    }

    // ---- wiring ----

    /// `tee = Tee<2>(args)`: arguments in angles come first
    fn instance(&mut self) -> P<MemberKind> {
        let name = self.name("an instance")?;
        self.column(Column::Instance);
        self.bump();
        let element: Path = self.path("an element's name")?;
        let mut args = self.angled_args()?;
        if !self.at_sign("(") {
            return self.unexpected("`(` and the element's parameters");
        }
        args.extend(self.args()?);
        // A handler may begin on the next line.
        let named = self.at_word("on") && !self.breaks(0) && ["cpu", "xdp", "nic"].iter().any(|w| self.word_at(1, w));
        let device = match named {
            true => {
                self.bump();
                Some(self.device()?)
            }
            false => None,
        };
        Ok(MemberKind::Instance { name, element, args, device })
    }

    /// `<2, n>` behind an element's name.
    pub(super) fn angled_args(&mut self) -> P<Vec<Arg>> {
        if !self.at_sign("<") {
            return Ok(Vec::new());
        }
        let angled = self.type_args()?;
        Ok(angled.into_iter().map(|a| Arg { name: None, value: self.const_of(a) }).collect())
    }

    /// A bare name between angles is a constant here.
    fn const_of(&self, arg: TypeArg) -> Expr {
        match arg {
            TypeArg::Const(e) => e,
            TypeArg::Type(ty) if !matches!(&ty.kind, TypeKind::Named { args, .. } if args.is_empty()) => {
                expr_of(ty.span, ExprKind::Type(ty))
            }
            TypeArg::Type(ty) => {
                let name = Ident { name: self.slice(ty.span).to_string(), span: ty.span };
                expr_of(ty.span, ExprKind::Name(name))
            }
        }
    }

    fn wiring(&mut self) -> P<MemberKind> {
        let start = self.span();
        let mut nodes = vec![self.node()?];
        while self.at_sign("->") || (self.at_sign("=>") && nodes.len() == 1) {
            self.arrow("->", "=>", "between nodes")?;
            nodes.push(self.node()?);
        }
        if nodes.len() > 1 {
            return Ok(MemberKind::Wiring(nodes));
        }
        let word = self.slice(start);
        let d = Diagnostic::error("E0108", start, format!("`{word}` starts no member"));
        let d = match nearest(word, MEMBERS) {
            Some(near) => d.hint(format!("did you mean `{near}`?")),
            None => d
                .note(format!("members are {}, `name = Element()` and wiring `a -> b`", MEMBERS.join(", ")))
                .hint("code stands in a handler: `on client(req) { … }`"),
        };
        self.report(d);
        Err(Abort)
    }

    fn node(&mut self) -> P<Node> {
        let start = self.span();
        let kind = self.node_kind()?;
        Ok(Node { span: self.since(start), kind })
    }

    /// A condition that begins behind a node, on its line, was read as a part of it.
    fn way_ends(&mut self) -> P<()> {
        const GOES_ON: &[&str] = &["==", "!=", "<", "<=", ">", ">=", "&", "=>"];
        if self.token(0).newline || !(GOES_ON.iter().any(|s| self.at_sign(s)) || self.at_word("in")) {
            return Ok(());
        }
        self.unexpected_with("`,`, `->` or a new line", |d| {
            d.hint("ways of a `match` stand on lines of their own, or have `,` between them")
        })
    }

    fn node_kind(&mut self) -> P<NodeKind> {
        if self.at_word("merge") && self.word_at(1, "by") {
            return self.merge();
        }
        if self.at_word("match") && self.sign_at(1, "{") {
            self.bump();
            return self
                .nested(|p| {
                    p.braced(|p| {
                        let cond = if (p.at_word("else") || p.at_word("_")) && p.sign_at(1, "=>") {
                            p.bump();
                            None
                        } else {
                            Some(p.expr_no_else()?)
                        };
                        p.arrow("=>", "->", "after the condition")?;
                        let mut nodes = vec![p.node()?];
                        while p.at_sign("->") {
                            p.bump();
                            nodes.push(p.node()?);
                        }
                        p.way_ends()?;
                        Ok((cond, nodes))
                    })
                })
                .map(NodeKind::Match);
        }
        let is_word = self.word_text(0).is_some_and(|w| WORDS.contains(&w))
            || (self.at_word("all") && self.sign_at(1, "(") && self.adjacent(1));
        if !is_word || self.at_word("match") || (self.sign_at(1, "[") && self.adjacent(1)) {
            let start = self.span();
            let place = self.place()?;
            // `Count()`: an element without a name, as which it is refused later.
            if self.at_sign("(") && self.adjacent(0) {
                let args = self.args()?;
                return Ok(NodeKind::Expr(expr_of(self.since(start), ExprKind::Call(place, args))));
            }
            return Ok(NodeKind::Expr(place));
        }
        let word = self.any_word("a node")?;
        let mut args = Vec::new();
        if self.at_sign("(")
            && self.adjacent(0)
            && matches!(word.name.as_str(), "any" | "all" | "not" | "drop" | "log" | "split" | "join" | "tee")
        {
            args = self.plain_args()?;
        } else if word.name != "drop" && !self.node_ends() {
            args.push(self.expr_no_else()?);
        }
        let by = if self.eat_word("by") { Some(self.expr_no_else()?) } else { None };
        Ok(NodeKind::Word { word, args, by })
    }

    fn node_ends(&self) -> bool {
        self.breaks(0)
            || self.at_word("by")
            || matches!(self.tok(), Tok::Sign("->" | "=>" | "}" | ";" | ",") | Tok::End)
    }

    /// `merge by .key with |a, b| e`
    fn merge(&mut self) -> P<NodeKind> {
        self.bump();
        self.bump();
        let key = self.expr_no_else()?;
        self.expect_word("with")?;
        let mut names = self.lambda_params(|p| p.name("a parameter"))?.into_iter();
        let (Some(a), Some(b), None) = (names.next(), names.next(), names.next()) else {
            return self.unexpected("two parameters before this: `with |a, b| …`");
        };
        Ok(NodeKind::Merge { key, a, b, with: self.expr_no_else()? })
    }
}

/// The facts that an element's controls need, and those that they set.
fn resolve_controls(element: &mut Element) {
    let blocks = element.start_blocks();
    let Some(at) = element.members.iter().find_map(|m| m.control().map(|n| n.span)) else { return };
    for m in &mut element.members {
        if let MemberKind::Signal { body, .. } = &mut m.kind {
            if let [Stmt { kind: StmtKind::Control { start, .. }, .. }] = body.stmts.as_mut_slice() {
                start.clone_from(&blocks);
            }
        }
    }
    let ident = |name: &str| Ident { name: name.into(), span: at };
    let path = Path { parts: vec![ident("bool")], span: at };
    let ty = Type { span: at, kind: TypeKind::Named { path, args: Vec::new() } };
    let kind = MemberKind::State { name: ident(STOPPED), ty, init: None };
    element.members.push(Member { doc: String::new(), span: at, kind });
}

/// A bare word that is also the name of an instance or port means that one: `tee = Tee<2>()`,
/// `a -> tee`.
fn resolve_words(members: &mut [Member]) {
    let named: Vec<String> = members
        .iter()
        .filter_map(|m| match &m.kind {
            MemberKind::Instance { name, .. } => Some(name.name.clone()),
            MemberKind::Port(port) => Some(port.name.name.clone()),
            MemberKind::Queue(q) => Some(q.name.name.clone()),
            _ => None,
        })
        .collect();
    for member in members {
        let MemberKind::Wiring(nodes) = &mut member.kind else { continue };
        for node in nodes {
            if let NodeKind::Word { word, args, by: None } = &node.kind {
                if args.is_empty() && named.contains(&word.name) {
                    node.kind = NodeKind::Expr(expr_of(word.span, ExprKind::Name(word.clone())));
                }
            }
        }
    }
}
