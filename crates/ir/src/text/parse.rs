//! Parsing: declarations.

use super::lex::{Token, ARROW, DOTS};
use super::names::value_of;
use super::parser::{Parser, Res};
use crate::plans::HandlerPlan;
use crate::*;

pub(super) fn module(text: &str) -> Res<Module> {
    let mut p = Parser::new(text)?;
    while *p.peek() != Token::End {
        p.declaration()?
    }
    Ok(p.m)
}

impl Parser {
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
                let (name, span) = (self.str()?, self.span()?);
                let library = if self.eat_word("library") { Some(self.span()?) } else { None };
                let place = FaultPlace { name, span, library };
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
                let memory = self.eat_word("memory");
                let init = if self.eat('=') { Some(self.expr()?) } else { None };
                self.m.states.push(State { name, ty, init, memory });
            }
            "session" => {
                let name = self.str()?;
                self.sign(':')?;
                let ty = self.ty()?;
                let of_request = self.eat_word("of_request");
                self.m.sessions.push(Session { name, ty, of_request })
            }
            "upstream" => {
                let name = self.str()?;
                self.word("to")?;
                let port = PortId(self.index()?);
                let span = self.span()?;
                self.m.upstreams.push(Upstream { name, port, span })
            }
            "packet" => {
                let name = self.str()?;
                self.sign(':')?;
                let ty = self.ty()?;
                self.sign('=')?;
                let (init, required) = (self.expr()?, self.eat_word("required"));
                self.m.packet.push(PacketField { name, ty, init, required });
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
                let (device, cpu, cores) = self.device_of_segment()?;
                let span = self.span()?;
                self.m.segments.push(Segment { name, device, cpu, cores, span })
            }
            "link" => {
                let (name, value) = (self.str()?, self.num()?);
                self.m.link.push((name, value))
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

    fn rate(&mut self) -> Res<Rate> {
        Ok(if self.eat_word("param") { Rate::Param(self.index()?) } else { Rate::Number(self.num()?) })
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
        let per_core = self.eat_word("per_core");
        self.word("idle")?;
        let idle = self.num()?;
        let from_write = self.eat_word("from_write");
        let evict_lru = if self.eat_word("evict_lru") {
            true
        } else {
            self.word("reject")?;
            false
        };
        self.word("memory")?;
        let memory = self.num()?;
        let cache = if self.eat_word("cache") { self.num()? } else { 0 };
        let copied = self.eat_word("copied");
        let rates = if self.eat_word("rates") { Some([self.rate()?, self.rate()?]) } else { None };
        Ok(Table {
            name,
            kind,
            local,
            key,
            value,
            capacity,
            per_core,
            idle,
            from_write,
            evict_lru,
            memory,
            cache,
            copied,
            rates,
            span: self.span()?,
        })
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

    /// ` as P`
    pub fn in_protocol(&mut self) -> Res<Option<ProtocolId>> {
        if self.eat_word("as") {
            self.index().map(|p| Some(ProtocolId(p)))
        } else {
            Ok(None)
        }
    }

    pub fn peer(&mut self) -> Res<Peer> {
        match self.any_word()?.as_str() {
            "client" => Ok(Peer::Client),
            "upstream" => self.index().map(|c| Peer::Upstream(UpstreamId(c))),
            w => self.error(format!("unknown member of a conversation `{w}`")),
        }
    }

    fn input(&mut self) -> Res<Input> {
        let name = self.str()?;
        self.word("of")?;
        let (element, unit) = (self.element_or_app()?, UnitId(self.index()?));
        let indexed = self.eat_word("indexed");
        let state = self.packet_fields()?;
        self.word("steps")?;
        let steps = self.num()?;
        let body = if self.eat_word("inlined") { None } else { Some(self.body()?) };
        Ok(Input { name, element, unit, indexed, state, steps, body, span: self.span()? })
    }

    fn handler(&mut self) -> Res<Handler> {
        let name = self.str()?;
        self.word("on")?;
        let on = match self.any_word()?.as_str() {
            "message" => On::Message { port: PortId(self.index()?), protocol: ProtocolId(self.index()?) },
            "frame" => On::Frame { port: PortId(self.index()?), unit: UnitId(self.index()?) },
            "piece" => {
                let (port, protocol) = (PortId(self.index()?), ProtocolId(self.index()?));
                let upstream = if self.eat_word("upstream") { Some(UpstreamId(self.index()?)) } else { None };
                let stream = if self.eat_word("items") { Some(FieldId(self.num()?)) } else { None };
                On::Piece { port, protocol, upstream, stream }
            }
            "opened" => On::Opened(PortId(self.index()?)),
            "greeting" => On::Greeting(PortId(self.index()?)),
            "probe" => On::Probe(PortId(self.index()?)),
            "reset" => On::Reset(PortId(self.index()?)),
            "closed" => On::Closed(PortId(self.index()?)),
            "upstream" => On::Upstream { upstream: UpstreamId(self.index()?), protocol: self.in_protocol()? },
            "upstream_opened" => On::UpstreamOpened(UpstreamId(self.index()?)),
            "upstream_closed" => On::UpstreamClosed(UpstreamId(self.index()?)),
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

    /// The device of a segment, its first core and their number.
    fn device_of_segment(&mut self) -> Res<(ops::Device, u32, u32)> {
        if self.eat_word("xdp") {
            return Ok((ops::Device::Xdp, 0, 1));
        }
        if self.eat_word("nic") {
            return match self.num::<u32>()? {
                0 => self.error("a segment has at least one core"),
                cores => Ok((ops::Device::Nic, 0, cores)),
            };
        }
        self.word("cpu")?;
        let cpu = self.num::<u32>()?;
        let end = if self.eat(DOTS) { self.num::<u32>()? } else { cpu.saturating_add(1) };
        match end.checked_sub(cpu).filter(|n| *n > 0) {
            Some(cores) => Ok((ops::Device::Cpu, cpu, cores)),
            None => self.error("a segment has at least one core"),
        }
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
}
