//! Printing: declarations, types and units.

use super::names::Word;
use crate::*;
use desc::{Form, ParamType, ParamValue, PortKind, PortOptions, ResultType, Sharing, Value};
use std::fmt::Write;

pub(super) struct Printer<'a> {
    pub m: &'a Module,
    pub out: String,
    pub indent: usize,
}

pub(super) fn module(m: &Module) -> String {
    let mut p = Printer { m, out: String::new(), indent: 0 };
    p.module();
    p.out
}

pub(super) fn string(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

pub(super) fn bytes(b: &[u8]) -> String {
    let text: String = b.iter().flat_map(|b| std::ascii::escape_default(*b)).map(char::from).collect();
    format!("b\"{}\"", text.replace("\\'", "'"))
}

pub(super) fn strings(list: &[Vec<u8>]) -> String {
    list.iter().map(|b| bytes(b)).collect::<Vec<_>>().join(", ")
}

pub(super) fn set(s: &ByteSet) -> String {
    let mut out = Vec::new();
    let mut b = 0usize;
    while b < 256 {
        if !s.has(b as u8) {
            b += 1;
            continue;
        }
        let from = b;
        while b < 256 && s.has(b as u8) {
            b += 1
        }
        out.push(if b - from == 1 { format!("{from:02x}") } else { format!("{from:02x}-{:02x}", b - 1) });
    }
    format!("\"{}\"", out.join(" "))
}

/// A word that reads like the name, for references.
fn word(name: &str) -> String {
    let mut w: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if w.starts_with(|c: char| c.is_ascii_digit()) {
        w.insert(0, '_')
    }
    w
}

pub(super) fn reference(name: Option<&str>, n: u32) -> String {
    format!("{}#{n}", word(name.unwrap_or("")))
}

pub(super) fn span(s: &Span) -> String {
    if *s == Span::default() {
        return String::new();
    }
    let element = if s.element == 0 { String::new() } else { format!(":{}", s.element) };
    format!(" @{}:{}:{}:{}:{}{element}", s.file, s.start, s.end, s.line, s.column)
}

/// A type, written out; by its number where that would not give it back.
pub(super) fn type_name(m: &Module, ty: TyId) -> String {
    type_at(m, ty, 0)
}

fn type_at(m: &Module, ty: TyId, depth: u32) -> String {
    let Some(t) = m.types.get(ty.index()) else { return format!("t{}", ty.0) };
    if depth > 8 || m.types.iter().position(|o| o == t) != Some(ty.index()) {
        return format!("t{}", ty.0);
    }
    type_text(m, t, &|t| type_at(m, t, depth + 1))
}

fn type_text(m: &Module, t: &Ty, inner: &dyn Fn(TyId) -> String) -> String {
    match t {
        Ty::Unit => "unit".into(),
        Ty::Bool => "bool".into(),
        Ty::UInt(n) => format!("u{n}"),
        Ty::Int(n) => format!("i{n}"),
        Ty::Bytes(n) => format!("bytes<{n}>"),
        Ty::Endpoint => "endpoint".into(),
        Ty::Ip => "ip".into(),
        Ty::Option(t) => format!("option<{}>", inner(*t)),
        Ty::List(t, n) => format!("list<{}, {n}>", inner(*t)),
        Ty::Record(r) => format!("record<{}>", reference(m.records.get(r.index()).map(|r| r.name.as_str()), r.0)),
        Ty::Tuple(list) => format!("tuple<{}>", list.iter().map(|t| inner(*t)).collect::<Vec<_>>().join(", ")),
        Ty::Msg(u) => format!("msg<{}>", reference(m.units.get(u.index()).map(|u| u.name.as_str()), u.0)),
    }
}

fn param_value(v: &ParamValue) -> String {
    match v {
        ParamValue::Bool(b) => format!("bool {b}"),
        ParamValue::UInt(n) => format!("uint {n}"),
        ParamValue::Duration(n) => format!("duration {n}"),
        ParamValue::Bytes(b) => format!("bytes {}", bytes(b)),
        ParamValue::Endpoints(list) => {
            format!("endpoints({})", list.iter().map(|s| string(s)).collect::<Vec<_>>().join(", "))
        }
        ParamValue::Texts(list) => format!("texts({})", list.iter().map(|b| bytes(b)).collect::<Vec<_>>().join(", ")),
    }
}

fn param_type(t: &ParamType) -> String {
    match t {
        ParamType::Bool => "bool".into(),
        ParamType::UInt(n) => format!("uint {n}"),
        ParamType::Duration => "duration".into(),
        ParamType::Bytes(n) => format!("bytes {n}"),
        ParamType::Endpoint => "endpoint".into(),
        ParamType::Endpoints(n) => format!("endpoints {n}"),
        ParamType::Texts(n, size) => format!("texts {n} of {size}"),
    }
}

fn form(f: &Form) -> String {
    match f {
        Form::Plain => String::new(),
        Form::Ip4 => " is ip4".into(),
        Form::Ip => " is ip".into(),
        Form::Ip6 => " is ip6".into(),
        Form::Wide => " is wide".into(),
        Form::OrPort => " is or_port".into(),
        Form::Within(ranges) => {
            format!(" is within ({})", ranges.iter().map(|(a, b)| format!("{a} to {b}")).collect::<Vec<_>>().join(", "))
        }
        Form::Mac => " is mac".into(),
        Form::Enum(names) => format!(" is one of ({})", names.iter().map(|n| string(n)).collect::<Vec<_>>().join(", ")),
    }
}

fn result_type(t: &ResultType) -> String {
    match t {
        ResultType::Nothing => "nothing".into(),
        ResultType::Bool => "bool".into(),
        ResultType::Int => "int".into(),
        ResultType::Text => "text".into(),
        ResultType::Option(t) => format!("option({})", result_type(t)),
        ResultType::Record(fields) => format!(
            "record({})",
            fields.iter().map(|(n, t)| format!("{}: {}", string(n), result_type(t))).collect::<Vec<_>>().join(", ")
        ),
    }
}

impl Printer<'_> {
    pub fn line(&mut self, text: &str) {
        super::wrap::push(&mut self.out, 2 * self.indent, text)
    }

    /// `head {`, what `inner` prints, `}` and a tail.
    pub fn braces(&mut self, head: &str, tail: &str, inner: &mut dyn FnMut(&mut Self)) {
        self.line(&format!("{head} {{"));
        self.indent += 1;
        inner(self);
        self.indent -= 1;
        self.line(&format!("}}{tail}"));
    }

    pub fn ty(&self, t: TyId) -> String {
        type_name(self.m, t)
    }
    pub fn unit_ref(&self, u: UnitId) -> String {
        reference(self.m.units.get(u.index()).map(|u| u.name.as_str()), u.0)
    }
    pub fn port_ref(&self, p: PortId) -> String {
        reference(self.m.ports.get(p.index()).map(|p| p.name.as_str()), p.0)
    }
    fn segment_ref(&self, s: SegmentId) -> String {
        reference(self.m.segments.get(s.index()).map(|s| s.name.as_str()), s.0)
    }
    pub fn field_ref(&self, u: Option<UnitId>, f: FieldId) -> String {
        let field = u.and_then(|u| self.m.units.get(u.index())).and_then(|u| u.fields.get(f.index()));
        reference(field.and_then(|f| f.name.as_deref()), f.0)
    }

    fn module(&mut self) {
        let m = self.m;
        self.line(&format!("app {}", string(&m.app)));
        for f in &m.files {
            self.line(&format!("file {}", string(f)))
        }
        for e in &m.elements {
            let parent = e.parent.map_or(String::new(), |p| format!(" in {}", self.element_ref(p)));
            self.line(&format!("element {} of {}{parent}", string(&e.name), string(&e.kind)));
        }
        for w in &m.wires {
            self.wire(w)
        }
        for s in &m.segments {
            let on = match (s.device, s.cores) {
                (ops::Device::Xdp, _) => "xdp".to_string(),
                (ops::Device::Nic, n) => format!("nic {n}"),
                (_, 0 | 1) => format!("cpu {}", s.cpu),
                (_, n) => format!("cpu {}..{}", s.cpu, u64::from(s.cpu) + u64::from(n)),
            };
            self.line(&format!("segment {} on {on}{}", string(&s.name), span(&s.span)))
        }
        for (name, value) in &m.link {
            self.line(&format!("link {} {value}", string(name)))
        }
        for f in &m.faults {
            self.line(&format!("fault {} doc {}", string(&f.name), string(&f.doc)))
        }
        for p in &m.places {
            let library = p.library.as_ref().map_or_else(String::new, |s| format!(" library{}", span(s)));
            self.line(&format!("place {}{}{library}", string(&p.name), span(&p.span)))
        }
        for (n, t) in m.types.iter().enumerate() {
            self.line(&format!("type t{n} = {}", type_text(m, t, &|t| format!("t{}", t.0))));
        }
        for r in &m.records {
            let fields: Vec<String> = r.fields.iter().map(|(n, t)| format!("{}: {}", string(n), self.ty(*t))).collect();
            self.line(&format!("record {} ({})", string(&r.name), fields.join(", ")));
        }
        for e in &m.enums {
            let variants: Vec<String> = e.variants.iter().map(|(n, v)| format!("{} = {v}", string(n))).collect();
            self.line(&format!(
                "enum {} {}{} ({})",
                string(&e.name),
                e.bits,
                if e.open { " open" } else { "" },
                variants.join(", ")
            ));
        }
        for p in &m.params {
            let default = p.default.as_ref().map_or(String::new(), |v| format!(" = {}", param_value(v)));
            self.line(&format!(
                "param {}: {}{} as {}{default} doc {}",
                string(&p.name),
                param_type(&p.ty),
                form(&p.form),
                self.ty(p.value_ty),
                string(&p.doc)
            ));
        }
        for (n, u) in m.units.iter().enumerate() {
            self.unit(UnitId(n as u32), u)
        }
        for p in &m.protocols {
            self.protocol(p)
        }
        for p in &m.ports {
            self.port(p)
        }
        for s in &m.states {
            let init = s.init.as_ref().map_or(String::new(), |e| format!(" = {}", self.expr(e)));
            let memory = if s.memory { " memory" } else { "" };
            self.line(&format!("state {}: {}{memory}{init}", string(&s.name), self.ty(s.ty)));
        }
        for s in &m.sessions {
            let of = if s.of_request { " of_request" } else { "" };
            self.line(&format!("session {}: {}{of}", string(&s.name), self.ty(s.ty)))
        }
        for c in &m.upstreams {
            self.line(&format!("upstream {} to {}{}", string(&c.name), self.port_ref(c.port), span(&c.span)))
        }
        for f in &m.packet {
            let required = if f.required { " required" } else { "" };
            let init = self.expr(&f.init);
            self.line(&format!("packet {}: {} = {init}{required}", string(&f.name), self.ty(f.ty)));
        }
        for c in &m.counters {
            self.line(&format!("counter {} doc {}", string(&c.name), string(&c.doc)))
        }
        for t in &m.tables {
            let kind = t.kind.word();
            let local = if t.local { " local" } else { "" };
            let cache = if t.cache == 0 { String::new() } else { format!(" cache {}", t.cache) };
            let copied = if t.copied { " copied" } else { "" };
            let per_core = if t.per_core { " per_core" } else { "" };
            let rates = t.rates.iter().map(|[cir, pir]| format!(" rates {} {}", self.rate(cir), self.rate(pir)));
            let rates: String = rates.collect();
            let from_write = if t.from_write { " from_write" } else { "" };
            self.line(&format!(
                "table {}: {kind}{local} {} -> {} capacity {}{per_core} idle {}{from_write} {} memory {}{cache}{copied}{rates}{}",
                string(&t.name),
                self.ty(t.key),
                self.ty(t.value),
                t.capacity,
                t.idle,
                if t.evict_lru { "evict_lru" } else { "reject" },
                t.memory,
                span(&t.span)
            ));
        }
        for s in &m.signals {
            let args: Vec<String> = s
                .args
                .iter()
                .enumerate()
                .map(|(i, (n, t))| {
                    let default = s
                        .defaults
                        .get(i)
                        .and_then(Option::as_ref)
                        .map_or(String::new(), |v| format!(" = {}", param_value(v)));
                    format!("{}: {}{}{default}", string(n), param_type(t), s.forms.get(i).map_or(String::new(), form))
                })
                .collect();
            let masked = match (s.masked, s.exported) {
                (true, _) => "masked ",
                (_, true) => "exported ",
                _ => "",
            };
            self.line(&format!(
                "signal {} ({}) {masked}{} as {} doc {}{}",
                string(&s.name),
                args.join(", "),
                result_type(&s.result),
                self.ty(s.ret),
                string(&s.doc),
                span(&s.span)
            ));
        }
        for f in &m.funcs {
            self.func(f)
        }
        for h in &m.handlers {
            let on = self.on(&h.on);
            let segment = h.segment.map_or(String::new(), |s| format!(" in {}", self.segment_ref(s)));
            let device = match h.device {
                ops::Device::Cpu => "",
                ops::Device::Xdp => " on xdp",
                ops::Device::Nic => " on nic",
                ops::Device::Fpga => " on fpga",
            };
            let head = format!("handler {} on {on}{device}{segment} steps {}", string(&h.name), h.steps);
            self.braces(&head, &span(&h.span), &mut |p| {
                p.locals(&h.body.locals);
                p.plan(&h.plan, &h.body.locals);
                p.selects(&h.body.selects);
                p.block(&h.body.block, &h.body.locals);
            });
        }
        for i in &m.inputs {
            self.input(i)
        }
        for g in &m.merges {
            self.merge(g)
        }
        for s in &m.steer {
            self.steer(s)
        }
        for t in &m.tests {
            self.test(t)
        }
    }

    fn element_ref(&self, e: ElementId) -> String {
        reference(self.m.elements.get(e.index()).map(|e| e.name.as_str()), e.0)
    }
    fn element_or_app(&self, e: Option<ElementId>) -> String {
        e.map_or("app".into(), |e| format!("element {}", self.element_ref(e)))
    }
    pub fn wire_ref(&self, w: WireId) -> String {
        reference(self.m.wires.get(w.index()).map(|w| w.out.as_str()), w.0)
    }

    fn wire(&mut self, w: &Wire) {
        let to = match w.to {
            Target::Input { input, index } => {
                let i = self.m.inputs.get(input.index());
                let at = if i.is_some_and(|i| i.indexed) { format!(" [{index}]") } else { String::new() };
                format!("input {}{at}", reference(i.map(|i| i.name.as_str()), input.0))
            }
            Target::Port { port, index } => format!("port {} [{index}]", self.port_ref(port)),
        };
        self.line(&format!("wire {} {} -> {to}", self.element_or_app(w.from), string(&w.out)));
    }

    fn input(&mut self, i: &Input) {
        let head = format!(
            "input {} of {} {}{}{} steps {}",
            string(&i.name),
            self.element_or_app(i.element),
            self.unit_ref(i.unit),
            if i.indexed { " indexed" } else { "" },
            self.packet_fields(&i.state),
            i.steps
        );
        match &i.body {
            Some(b) => self.braces(&head, &span(&i.span), &mut |p| p.body(b)),
            None => self.line(&format!("{head} inlined{}", span(&i.span))),
        }
    }

    fn steer(&mut self, s: &Steer) {
        let ty = self.m.types.iter().position(|t| *t == Ty::Msg(s.unit)).map_or(TyId(0), |n| TyId(n as u32));
        let locals = [Local { name: "p".into(), ty, in_frame: false }];
        let keys: Vec<String> = s.keys.iter().map(|e| self.expr_of(e, &locals)).collect();
        let line = format!(
            "steer {} {}{} by ({});",
            self.port_ref(s.port),
            self.unit_ref(s.unit),
            if s.symmetric { " symmetric" } else { "" },
            keys.join(", ")
        );
        self.line(&line);
    }

    fn on(&self, on: &On) -> String {
        match on {
            On::Message { port, protocol } => {
                format!("message {} {}", self.port_ref(*port), self.protocol_ref(*protocol))
            }
            On::Frame { port, unit } => format!("frame {} {}", self.port_ref(*port), self.unit_ref(*unit)),
            On::Piece { port, protocol, upstream, stream } => {
                let protocol = reference(self.m.protocols.get(protocol.index()).map(|p| p.name.as_str()), protocol.0);
                let upstream = upstream.map_or(String::new(), |u| format!(" upstream {}", self.upstream_ref(u)));
                let stream = stream.map_or(String::new(), |f| format!(" items {}", f.0));
                format!("piece {} {protocol}{upstream}{stream}", self.port_ref(*port))
            }
            On::Opened(p) => format!("opened {}", self.port_ref(*p)),
            On::Greeting(p) => format!("greeting {}", self.port_ref(*p)),
            On::Probe(p) => format!("probe {}", self.port_ref(*p)),
            On::Reset(p) => format!("reset {}", self.port_ref(*p)),
            On::Closed(p) => format!("closed {}", self.port_ref(*p)),
            On::Upstream { upstream, protocol } => {
                format!("upstream {}{}", self.upstream_ref(*upstream), self.in_protocol(*protocol))
            }
            On::UpstreamOpened(c) => format!("upstream_opened {}", self.upstream_ref(*c)),
            On::UpstreamClosed(c) => format!("upstream_closed {}", self.upstream_ref(*c)),
            On::Fault => "fault".into(),
            On::Start => "start".into(),
            On::End => "end".into(),
            On::Every(ns) => format!("every {ns}"),
            On::Signal(n) => format!("signal {n}"),
            On::Test(n) => format!("test {n}"),
            On::Check { test, unit } => format!("check {test} {}", self.unit_ref(*unit)),
        }
    }

    fn upstream_ref(&self, c: UpstreamId) -> String {
        reference(self.m.upstreams.get(c.index()).map(|c| c.name.as_str()), c.0)
    }

    pub fn protocol_ref(&self, p: ProtocolId) -> String {
        reference(self.m.protocols.get(p.index()).map(|p| p.name.as_str()), p.0)
    }

    /// A protocol of a member, where its port speaks several.
    pub fn in_protocol(&self, p: Option<ProtocolId>) -> String {
        p.map_or(String::new(), |p| format!(" as {}", self.protocol_ref(p)))
    }

    pub fn peer(&self, peer: Peer) -> String {
        match peer {
            Peer::Client => "client".into(),
            Peer::Upstream(c) => format!("upstream {}", self.upstream_ref(c)),
        }
    }

    fn value(&self, v: &Value) -> String {
        match v {
            Value::Const(v) => param_value(v),
            Value::Param(n) => self.param_ref(*n),
        }
    }

    fn rate(&self, rate: &Rate) -> String {
        match rate {
            Rate::Number(n) => n.to_string(),
            Rate::Param(n) => self.param_ref(*n),
        }
    }

    fn param_ref(&self, n: u32) -> String {
        format!("param {}", reference(self.m.params.get(n as usize).map(|p| p.name.as_str()), n))
    }

    pub fn packet_field(&self, f: PacketFieldId) -> String {
        reference(self.m.packet.get(f.index()).map(|f| f.name.as_str()), f.0)
    }

    fn packet_fields(&self, fields: &[PacketFieldId]) -> String {
        match fields {
            [] => String::new(),
            all => format!(" fields ({})", all.iter().map(|f| self.packet_field(*f)).collect::<Vec<_>>().join(", ")),
        }
    }

    fn port(&mut self, port: &Port) {
        let (word, value) = match &port.kind {
            PortKind::Listen(v) => ("listen", v),
            PortKind::Connect(v) => ("connect", v),
            PortKind::Frames { engine, names } => (engine.word(), names),
        };
        let protocols: Vec<String> = port
            .protocols
            .iter()
            .map(|p| reference(self.m.protocols.get(p.index()).map(|p| p.name.as_str()), p.0))
            .collect();
        let udp = if port.udp { " udp" } else { "" };
        let mut text =
            format!("port {} {word}{udp} {} as ({})", string(&port.name), self.value(value), protocols.join(", "));
        if port.ketama {
            text.push_str(" ketama")
        }
        if let Some(f) = port.consistent {
            let name = self.m.funcs.get(f.index()).map(|f| f.name.as_str());
            let _ = write!(text, " consistent {}", reference(name, f.0));
        }
        if port.maglev {
            text.push_str(" maglev")
        }
        let standard = crate::port_options::texts(&PortOptions::default());
        for ((name, value), (_, default)) in crate::port_options::texts(&port.options).zip(standard) {
            if value != default {
                let _ = write!(text, " {name} {value}");
            }
        }
        if port.carries != Carries::default() {
            let fixed = if port.carries.fixed { " fixed" } else { "" };
            let _ = write!(text, " carries {}{fixed}{}", port.carries.part, self.packet_fields(&port.carries.state));
        }
        self.line(&format!("{text}{}", span(&port.span)));
    }

    fn protocol(&mut self, p: &Protocol) {
        let mut lines = vec![format!("request {}", self.unit_ref(p.request))];
        if let Some(r) = p.response {
            lines.push(format!("response {}", self.unit_ref(r)))
        }
        lines.push(format!(
            "sharing {}",
            match p.sharing {
                Sharing::Pipelined => "pipelined",
                Sharing::Exclusive => "exclusive",
                Sharing::Session => "session",
            }
        ));
        if p.server_first {
            lines.push("server_first".into())
        }
        if let Some(f) = p.order_by {
            lines.push(format!("order_by {}", self.field_ref(Some(p.request), f)))
        }
        if let Some((b, max)) = &p.ignore {
            lines.push(format!("ignore {} max {max}", bytes(b)))
        }
        for c in &p.classes {
            lines.push(format!("class {}", string(c)))
        }
        for e in &p.request_args {
            lines.push(format!("request_arg {}", self.expr_in(e, Some(p.request))))
        }
        for e in &p.response_args {
            lines.push(format!("response_arg {}", self.expr_in(e, Some(p.request))))
        }
        let clauses = [
            ("close_request", &p.close_request, Some(p.request)),
            ("no_reply", &p.no_reply, Some(p.request)),
            ("alone", &p.alone, Some(p.request)),
            ("repeat", &p.repeat, Some(p.request)),
            ("private_request", &p.private_request, Some(p.request)),
            ("private_response", &p.private_response, p.response),
            ("close_response", &p.close_response, p.response),
            ("interim", &p.interim, p.response),
            ("tunnel", &p.tunnel, p.response),
            ("refusal", &p.refusal, p.response),
            ("stray", &p.stray, p.response),
            ("idle", &p.idle, p.response),
            ("reset", &p.reset, p.response),
            ("owes", &p.owes, Some(p.request)),
            ("unfinished", &p.unfinished, Some(p.request)),
            ("settles", &p.settles, p.response),
            ("chunks_request", &p.chunks_request, Some(p.request)),
            ("chunks_response", &p.chunks_response, p.response),
        ];
        for (name, e, unit) in clauses {
            if let Some(e) = e {
                lines.push(format!("{name} {}", self.expr_in(e, unit)))
            }
        }
        if let Some((text, e)) = &p.expects {
            lines.push(format!("expects {} when {}", bytes(text), self.expr_in(e, Some(p.request))))
        }
        self.braces(&format!("protocol {}", string(&p.name)), "", &mut |printer| {
            for l in &lines {
                printer.line(&format!("{l};"))
            }
            for (name, body) in ["on_log", "on_fault", "on_interim", "on_answer"].into_iter().zip(p.bodies()) {
                if let Some(body) = body {
                    printer.braces(name, "", &mut |printer| printer.body(body))
                }
            }
        });
    }

    fn func(&mut self, f: &Func) {
        let head = format!("fn {} params {} -> {}", string(&f.name), f.params, self.ty(f.ret));
        match &f.body {
            FuncBody::Body(b) => self.braces(&head, &span(&f.span), &mut |p| p.body(b)),
            FuncBody::Extern { file, symbol } => {
                self.line(&format!("{head} extern {} {}{}", string(file), string(symbol), span(&f.span)))
            }
        }
    }

    fn merge(&mut self, g: &Merge) {
        let head = format!(
            "merge {} {} -> {} inputs {} of {} by {}",
            string(&g.name),
            self.port_ref(g.from),
            self.port_ref(g.to),
            g.inputs,
            self.unit_ref(g.unit),
            self.field_ref(Some(g.unit), g.key)
        );
        self.braces(&head, &span(&g.span), &mut |p| {
            p.locals(&g.locals);
            for v in &g.values {
                let combined = p.expr_of(&v.combined, &g.locals);
                let line = format!(
                    "value {} %{} %{} {combined};",
                    p.field_ref(Some(g.unit), v.field),
                    reference(None, v.a.0),
                    reference(None, v.b.0)
                );
                p.line(&line);
            }
        });
    }

    fn test(&mut self, t: &Test) {
        let head = format!("test {}", string(&t.name));
        match &t.kind {
            TestKind::Code(h) => self.line(&format!("{head} code #{}{}", h.0, span(&t.span))),
            TestKind::Sim { params, steps } => {
                let params: Vec<String> =
                    params.iter().map(|(n, v)| format!("{} = {}", string(n), string(v))).collect();
                self.braces(&format!("{head} sim ({})", params.join(", ")), &span(&t.span), &mut |p| {
                    p.sims(steps);
                });
            }
        }
    }

    fn sims(&mut self, steps: &[(Span, SimStep)]) {
        for (at, s) in steps {
            let SimStep::Repeat { first, next, times, steps } = s else {
                let line = format!("{};{}", self.sim(s), span(at));
                self.line(&line);
                continue;
            };
            self.braces(&format!("repeat #{} #{} {times}", first.0, next.0), &span(at), &mut |p| p.sims(steps));
        }
    }

    fn sim(&self, s: &SimStep) -> String {
        let at = |p: &SimPort| format!("{} {}", self.port_ref(p.port), p.conn);
        match s {
            SimStep::Send(p, b) => format!("send {} {}", at(p), bytes(b)),
            SimStep::See(p, b) => format!("see {} {}", at(p), bytes(b)),
            SimStep::SeeClosed(p) => format!("see_closed {}", at(p)),
            SimStep::SeeNothing(p) => format!("see_nothing {}", at(p)),
            SimStep::SeeLog(Some(b)) => format!("see_log {}", bytes(b)),
            SimStep::SeeLog(None) => "see_no_log".into(),
            SimStep::Close(p) => format!("close {}", at(p)),
            SimStep::Reset(p) => format!("reset {}", at(p)),
            SimStep::Refuse(p) => format!("refuse {}", at(p)),
            SimStep::Accept(p) => format!("accept {}", at(p)),
            SimStep::Wait(ns) => format!("wait {ns}"),
            SimStep::Run(h) => format!("run #{}", h.0),
            SimStep::Give(h) => format!("give #{}", h.0),
            SimStep::SeeSame(h) => format!("see_same #{}", h.0),
            SimStep::Check(p, h) => format!("check {} #{}", at(p), h.0),
            SimStep::At(h, step) => format!("at #{} {}", h.0, self.sim(step)),
            SimStep::Repeat { .. } => String::new(),
        }
    }
}
