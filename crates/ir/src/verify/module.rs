//! Declarations: protocols, ports, state, tables, functions, handlers, merges, tests.

use super::body::{BodyKind, Code};
use super::expr::ExprPlace;
use super::Checker;
use crate::core_partition::Uses;
use crate::walk::Scope;
use crate::*;
use desc::{ParamType, PortKind, Value};

impl Checker<'_> {
    pub fn declarations(&mut self) {
        let m = self.m;
        for p in &m.params {
            self.need(p.value_ty.index() < m.types.len(), &format!("param {}", p.name), "its type does not exist")
        }
        for p in &m.protocols {
            self.protocol(p)
        }
        for p in &m.ports {
            self.port_declaration(p)
        }
        self.storage();
        if !self.errors.is_empty() {
            return;
        }
        self.recursion();
        for f in &m.funcs {
            self.func(f)
        }
        self.handlers();
        self.segments();
        self.devices();
        self.graph();
        for g in &m.merges {
            self.merge(g)
        }
        self.tests();
    }

    fn protocol(&mut self, p: &Protocol) {
        let path = format!("protocol {}", p.name);
        let units = self.m.units.len();
        if p.request.index() >= units || p.response.is_some_and(|u| u.index() >= units) {
            return self.error(&path, "a message's unit does not exist");
        }
        let request = ExprPlace::scope(Scope::this(p.request));
        for e in p.request_clauses().into_iter().flatten() {
            self.condition(&path, e, request)
        }
        let response = ExprPlace::scope(Scope { this: p.response, ..Scope::NONE });
        for e in p.response_clauses().into_iter().flatten() {
            self.condition(&path, e, response)
        }
        let session = p.sharing == desc::Sharing::Session;
        let over = if session { ExprPlace { conn: true, ..ExprPlace::scope(Scope::NONE) } } else { request };
        for e in p.response_args.iter().chain(&p.request_args) {
            self.expr(&path, e, over)
        }
        if session {
            self.arguments(&path, p.request, &p.request_args)
        } else {
            self.need(p.request_args.is_empty(), &path, "arguments of a request")
        }
        match p.response {
            Some(u) => self.arguments(&path, u, &p.response_args),
            None => self.need(p.response_args.is_empty(), &path, "arguments of a response that is not there"),
        }
        if let Some(f) = p.order_by {
            self.need(
                f.index() < self.m.unit(p.request).fields.len(),
                &path,
                "the field it is ordered by does not exist",
            )
        }
        self.need(p.classes.len() <= crate::Protocol::MOST_CLASSES, &path, "too many classes of answers");
        if let Some(b) = &p.on_log {
            let path = format!("{path}: on_log");
            let ok = b.locals.first().is_some_and(|l| *self.ty(l.ty) == Ty::Msg(p.request));
            self.need(ok, &path, "local 0 is not the request");
            self.body(&path, b, Code { kind: BodyKind::OnFault, ret: None, preset: 1, reply: None, conn: false });
        }
        if let Some(b) = &p.on_fault {
            let path = format!("{path}: on_fault");
            let ok = matches!(&b.locals[..], [k, s, r, f, ..] if self.is_uint_of(k.ty, 16) && self.is_bool(s.ty) && *self.ty(r.ty) == Ty::Msg(p.request) && *self.ty(f.ty) == Ty::Bytes(Protocol::START));
            self.need(
                ok,
                &path,
                "locals 0 to 3 are not the fault's kind (u16), in_step (bool), the request and its start (bytes<32>)",
            );
            let params = p.response.map_or(&[][..], |u| &self.m.unit(u).params);
            let asked = b.locals.get(Protocol::FAULT_LOCALS..).unwrap_or_default();
            self.need(
                asked.len() >= params.len() && asked.iter().zip(params).all(|(l, p)| l.ty == p.ty),
                &path,
                "behind them are not the response's parameters",
            );
            let code = Code {
                kind: BodyKind::OnFault,
                ret: None,
                preset: p.fault_presets(self.m),
                reply: p.response,
                conn: false,
            };
            self.body(&path, b, code);
        }
        for (name, body, reply) in [("on_interim", &p.on_interim, p.response), ("on_answer", &p.on_answer, None)] {
            let Some(b) = body else { continue };
            let path = format!("{path}: {name}");
            let ok = b.locals.first().is_some_and(|l| p.response.is_some_and(|u| *self.ty(l.ty) == Ty::Msg(u)));
            self.need(ok, &path, "local 0 is not the answer");
            self.body(&path, b, Code { kind: BodyKind::OnFault, ret: None, preset: 1, reply, conn: false });
        }
    }

    fn port_declaration(&mut self, p: &Port) {
        let path = format!("port {}", p.name);
        let Carries { part, fixed, state } = &p.carries;
        self.need(p.kind.is_queue() || p.carries == Carries::default(), &path, "it carries something, and is no queue");
        self.need(!fixed || *part == FramePart::Whole, &path, "the program says that it carries whole frames");
        let known = state.iter().all(|f| f.index() < self.m.packet.len()) && state.windows(2).all(|w| w[0] < w[1]);
        self.need(known, &path, "a field of the state that it carries does not exist, or they are not in order");
        if let PortKind::Frames { names: Value::Param(n), .. } = &p.kind {
            self.need((*n as usize) < self.m.params.len(), &path, "its parameter does not exist")
        }
        let (PortKind::Listen(v) | PortKind::Connect(v)) = &p.kind else {
            self.need(!p.udp, &path, "a frame port over UDP");
            return self.need(p.protocols.is_empty(), &path, "a frame port with a protocol");
        };
        self.need(
            !p.protocols.is_empty() && p.protocols.iter().all(|q| q.index() < self.m.protocols.len()),
            &path,
            "no protocol, or one that does not exist",
        );
        if let Value::Param(n) = v {
            self.need((*n as usize) < self.m.params.len(), &path, "its parameter does not exist")
        }
        self.need(self.m.points_are_hashed(p), &path, "the function for points on its ring is none");
        if let PortKind::Connect(_) = p.kind {
            let session =
                |q: &ProtocolId| self.m.protocols.get(q.index()).is_some_and(|q| q.sharing == desc::Sharing::Session);
            let one = p.protocols.len() == 1 || p.protocols.iter().all(session);
            self.need(one, &path, "a connect port has exactly one protocol, or those of conversations");
            let asks = |q: &ProtocolId| {
                self.m.protocols.get(q.index()).is_none_or(|q| q.response.is_none() || q.order_by.is_some())
            };
            self.need(!p.udp || p.protocols.iter().all(asks), &path, "answers over UDP without `order_by`")
        }
    }

    fn storage(&mut self) {
        let m = self.m;
        for t in &m.tables {
            let path = format!("table {}", t.name);
            let there = t.key.index() < m.types.len() && t.value.index() < m.types.len();
            self.need(
                there && self.storable(t.key) && self.storable(t.value),
                &path,
                "a key or value cannot be stored",
            );
            self.need(t.capacity > 0, &path, "a capacity of 0");
            let is_rate = |rate: &Rate| match rate {
                Rate::Number(_) => true,
                Rate::Param(n) => m.params.get(*n as usize).is_some_and(|p| matches!(p.ty, ParamType::UInt(_))),
            };
            self.need(t.rates.iter().flatten().all(is_rate), &path, "a rate that is no number");
        }
        for s in &m.states {
            let path = format!("state {}", s.name);
            self.need(s.ty.index() < m.types.len() && self.storable(s.ty), &path, "it cannot be stored");
            if let Some(e) = &s.init {
                self.into(&path, e, s.ty, ExprPlace::scope(Scope::NONE))
            }
            let bytes = s.ty.index() < m.types.len() && matches!(m.ty(s.ty), Ty::Bytes(1..));
            self.need(!s.memory || (bytes && s.init.is_none()), &path, "memory that is not bytes of zero");
        }
        self.need(m.packet.len() <= packet_state::FIELDS_MAX, "packet", "too many fields of the state of packets");
        for f in &m.packet {
            let path = format!("packet {}", f.name);
            let fits = f.ty.index() < m.types.len() && packet_state::is_field(m, f.ty);
            self.need(fits, &path, "the state of packets has no fields of this type");
            self.into(&path, &f.init, f.ty, ExprPlace::scope(Scope::NONE))
        }
        self.need(m.upstreams.len() <= UPSTREAMS_MAX, "upstreams", "too many upstreams");
        for (n, c) in m.upstreams.iter().enumerate() {
            let connects = m.ports.get(c.port.index()).is_some_and(|p| matches!(p.kind, PortKind::Connect(_)));
            let protocol =
                m.spoken(Peer::Upstream(UpstreamId(n as u32)), None).and_then(|p| m.protocols.get(p.index()));
            let session = protocol.is_some_and(|p| p.sharing == desc::Sharing::Session && p.response.is_some());
            self.need(connects && session, &format!("upstream {}", c.name), "its port connects to no conversation");
        }
        for s in &m.sessions {
            self.need(
                s.ty.index() < m.types.len() && self.storable(s.ty),
                &format!("session {}", s.name),
                "it cannot be stored",
            )
        }
    }

    fn recursion(&mut self) {
        let n = self.m.funcs.len();
        let mut state = vec![0u8; n];
        for f in 0..n {
            if state[f] == 0 {
                self.calls(f, &mut state, 0)
            }
        }
    }

    fn calls(&mut self, f: usize, state: &mut [u8], depth: u32) {
        let func = &self.m.funcs[f];
        let path = format!("fn {}", func.name);
        if depth > 500 {
            return self.error(&path, "calls nest too deep");
        }
        state[f] = 1;
        let mut called = Vec::new();
        if let FuncBody::Body(b) = &func.body {
            walk::block_exprs(&b.block, &mut |e| {
                if let ExprKind::Call(g, _) = &*e.kind {
                    called.push(g.index())
                }
            });
        }
        for g in called {
            match state.get(g) {
                Some(0) => self.calls(g, state, depth + 1),
                Some(1) => {
                    let name = self.m.funcs[g].name.clone();
                    self.error(&path, format!("it calls `{name}`, which calls it"))
                }
                _ => {}
            }
        }
        state[f] = 2;
    }

    fn func(&mut self, f: &Func) {
        let path = format!("fn {}", f.name);
        self.need(f.ret.index() < self.m.types.len(), &path, "its type does not exist");
        if let FuncBody::Body(b) = &f.body {
            self.need(f.params as usize <= b.locals.len(), &path, "more parameters than locals");
            let code =
                Code { kind: BodyKind::Function, ret: Some(f.ret), preset: f.params as usize, reply: None, conn: true };
            self.body(&path, b, code);
        }
    }

    /// A device other than the CPU runs handlers of an interface's frames only, and no segment's.
    fn devices(&mut self) {
        for h in self.m.handlers.iter().filter(|h| h.device != ops::Device::Cpu) {
            let path = format!("handler {}", h.name);
            let nic =
                h.on.frame_port()
                    .and_then(|p| self.m.ports.get(p.index()))
                    .is_some_and(|p| matches!(p.kind, desc::PortKind::Frames { engine: desc::FrameEngine::Nic, .. }));
            self.need(nic, &path, "a device runs it that has no such handlers");
        }
    }

    fn segments(&mut self) {
        let m = self.m;
        let known = |s: SegmentId| s.index() < m.segments.len();
        if m.handlers.iter().any(|h| h.segment.is_some_and(|s| !known(s))) {
            return self.error("segments", "a handler's segment does not exist");
        }
        let placed = crate::segments::place(m).unwrap_or_default();
        for c in &placed.conflicts {
            self.error("segments", format!("they share what one of them has: {c:?}"))
        }
        for (n, p) in m.ports.iter().enumerate() {
            let crosses = placed.crossings.contains_key(&PortId(n as u32));
            let path = format!("port {}", p.name);
            // Its senders may have been folded away.
            let port = PortId(n as u32);
            let idle = || {
                !m.handlers.iter().any(|h| Uses::of(m, h).sends.contains(&port))
                    && m.handlers.iter().any(|h| h.on.frame_port() == Some(port))
            };
            let fits = p.kind.is_crossing() == crosses || (p.kind.is_crossing() && idle());
            self.need(fits, &path, "it is no queue between segments, or not called so")
        }
    }

    fn handlers(&mut self) {
        let m = self.m;
        let mut tests = false;
        for h in &m.handlers {
            let path = format!("handler {}", h.name);
            let is_test = h.on.is_test();
            self.need(is_test || !tests, &path, "it comes after handlers of tests");
            tests |= is_test;
            let given: Vec<Ty> = match h.on {
                On::Message { port, protocol } => {
                    let behind = m.merges.iter().any(|g| g.to == port);
                    let listens = m.ports.get(port.index()).is_some_and(|p| {
                        p.protocols.contains(&protocol) && (behind || matches!(p.kind, PortKind::Listen(_)))
                    });
                    if !listens {
                        self.error(&path, "its port does not listen with its protocol");
                        continue;
                    }
                    vec![Ty::Msg(m.protocols[protocol.index()].request)]
                }
                On::Frame { port, unit } => {
                    let frames = m.ports.get(port.index()).is_some_and(|p| matches!(p.kind, PortKind::Frames { .. }));
                    let known = m.units.get(unit.index()).is_some_and(|u| u.frame.is_some());
                    if !frames || !known {
                        self.error(&path, "its port gives no frames, or its unit describes none");
                        continue;
                    }
                    vec![Ty::Msg(unit)]
                }
                On::Opened(p) | On::Greeting(p) | On::Probe(p) | On::Reset(p) => {
                    self.need(p.index() < m.ports.len(), &path, "its port does not exist");
                    vec![Ty::UInt(32)]
                }
                On::Closed(p) => {
                    self.need(p.index() < m.ports.len(), &path, "its port does not exist");
                    vec![Ty::UInt(32), Ty::UInt(16)]
                }
                On::Piece { .. } | On::Upstream { .. } => {
                    let Some((_, unit)) = m.message_of(h.on) else {
                        self.error(&path, "its messages do not exist");
                        continue;
                    };
                    self.piece(&path, h.on, unit);
                    vec![Ty::Msg(unit)]
                }
                On::UpstreamOpened(c) => {
                    self.need(c.index() < m.upstreams.len(), &path, "its upstream does not exist");
                    vec![Ty::UInt(32)]
                }
                On::UpstreamClosed(c) => {
                    self.need(c.index() < m.upstreams.len(), &path, "its upstream does not exist");
                    vec![Ty::UInt(32), Ty::UInt(16)]
                }
                On::Fault => vec![Ty::UInt(16), Ty::UInt(32)],
                On::Test(n) => {
                    self.need((n as usize) < m.tests.len(), &path, "its test does not exist");
                    Vec::new()
                }
                On::Check { test, unit } => {
                    let known = m.units.get(unit.index()).is_some_and(|u| u.frame.is_some());
                    if !known || test as usize >= m.tests.len() {
                        self.error(&path, "its test does not exist, or its unit describes no frame");
                        continue;
                    }
                    vec![Ty::Msg(unit)]
                }
                On::Start | On::End | On::Every(_) => Vec::new(),
                On::Signal(n) => {
                    let Some(s) = m.signals.get(n as usize) else {
                        self.error(&path, "its signal does not exist");
                        continue;
                    };
                    self.need(self.is_bytes(s.ret), &path, "a signal's result is not bytes");
                    s.args.iter().map(|(_, t)| t.value()).collect()
                }
            };
            let ok =
                given.len() <= h.body.locals.len() && given.iter().zip(&h.body.locals).all(|(t, l)| self.ty(l.ty) == t);
            self.need(ok, &path, "its first locals are not what the event gives");
            let (reply, conn) = match h.on {
                On::Message { protocol, .. } => (m.protocols[protocol.index()].response, true),
                On::Piece { port, protocol, .. } => {
                    let listens =
                        m.ports.get(port.index()).is_some_and(|p| matches!(p.kind, desc::PortKind::Listen(_)));
                    (m.protocols[protocol.index()].response.filter(|_| listens), true)
                }
                On::Upstream { .. } | On::UpstreamOpened(_) | On::UpstreamClosed(_) => (None, true),
                On::Greeting(p) | On::Probe(p) | On::Reset(p) => (
                    m.ports
                        .get(p.index())
                        .and_then(|p| m.protocols.get(p.protocols.first()?.index()))
                        .map(|p| p.request),
                    true,
                ),
                On::Opened(_) | On::Closed(_) | On::Fault => (None, true),
                On::Frame { .. }
                | On::Start
                | On::End
                | On::Every(_)
                | On::Signal(_)
                | On::Test(_)
                | On::Check { .. } => (None, false),
            };
            let message =
                matches!(h.on, On::Message { .. } | On::Piece { .. } | On::Greeting(_) | On::Probe(_) | On::Reset(_));
            let code = Code {
                kind: if message { BodyKind::Message } else { BodyKind::Event },
                ret: m.signal_of(h.on).map(|s| s.ret),
                preset: given.len(),
                reply,
                conn,
            };
            self.body(&path, &h.body, code);
            if self.errors.is_empty() {
                self.plan(&path, h)
            }
        }
    }

    /// Items with a handler are those of a stream of units of their message.
    fn piece(&mut self, path: &str, on: On, unit: UnitId) {
        let On::Piece { port, upstream, stream, .. } = on else { return };
        let known = upstream.is_none_or(|u| self.m.upstreams.get(u.index()).is_some_and(|u| u.port == port));
        self.need(known, path, "its upstream is none of its port");
        let Some(f) = stream else { return };
        let field = self.m.units.get(unit.index()).and_then(|u| u.fields.get(f.index()));
        let items = field.is_some_and(|f| matches!(f.kind, FieldKind::StreamUnit { .. }));
        self.need(items, path, "its items are those of no stream");
        let few = self.m.item_streams(unit).len() <= Protocol::ITEM_STREAMS;
        self.need(few, path, "too many streams of its message have handlers");
    }

    /// Which headers backends may look for first.
    pub fn fast_paths(&mut self) {
        for (n, u) in self.m.units.iter().enumerate() {
            let plan = u.frame.as_ref().and_then(|f| f.fast_path.as_ref());
            let why = plan.and_then(|plan| passes::packet_fast_path::illegal(self.m, UnitId(n as u32), plan));
            if let Some(why) = why {
                self.error(&format!("unit {}: fast_path", u.name), why)
            }
        }
    }

    /// Which header fields a parser notes the places of.
    pub fn slots(&mut self) {
        for (n, u) in self.m.units.iter().enumerate() {
            let (id, Some(f)) = (UnitId(n as u32), &u.frame) else { continue };
            let path = format!("unit {}: slots", u.name);
            if let Some(why) = passes::header_slots::illegal(self.m, id, &f.slots) {
                self.error(&path, why)
            } else if self.passed && passes::header_slots::lacks(self.m, id, &f.slots) {
                self.error(&path, "a field that is read has none although its place is not constant")
            }
        }
    }

    /// Which branches a choice may take the place of.
    pub fn selects(&mut self) {
        for why in passes::selects::illegal(self.m) {
            self.error("selects", why)
        }
        let copied = passes::copied_values::plan(self.m);
        let lacks = |id: &TableId| !self.m.tables[id.index()].copied;
        if self.passed && copied.iter().any(lacks) {
            self.error("tables", "the values of a table that one body reads and changes are not copied")
        }
    }

    /// The plans of a handler for whole batches.
    fn plan(&mut self, path: &str, h: &Handler) {
        let (m, plan) = (self.m, &h.plan);
        let all = [
            ("batch", plan.batch.as_ref().and_then(|p| passes::batch_lookup::illegal(m, h, p))),
            ("pauses", passes::pauses::illegal(m, h)),
            ("run", passes::message_runs::illegal(m, h)),
            ("hoisted", passes::hoisted_state::illegal(m, h, &plan.hoisted)),
            ("late", passes::late_keys::illegal(m, h, &plan.late)),
            ("specialized", passes::specialize::illegal(h)),
        ];
        for (name, why) in all {
            if let Some(why) = why {
                self.error(&format!("{path}: {name}"), why)
            }
        }
    }

    /// The plans for groups of frames. They rest on the header stacks of
    /// [`Self::fast_paths`] and on the other plans.
    pub fn vectors(&mut self) {
        for h in &self.m.handlers {
            let why = h.plan.vector.as_ref().and_then(|plan| passes::vectorize::illegal(self.m, h, plan));
            if let Some(why) = why {
                self.error(&format!("handler {}: vector", h.name), why)
            }
        }
    }

    /// Elements, wires and inputs.
    fn graph(&mut self) {
        let m = self.m;
        let element = |e: Option<ElementId>| e.is_none_or(|e| e.index() < m.elements.len());
        for (n, e) in m.elements.iter().enumerate() {
            // Those around an element come before it, so that none is in itself.
            self.need(
                e.parent.is_none_or(|p| p.index() < n),
                &format!("element {}", e.name),
                "it comes before the element that holds it",
            );
        }
        for (n, w) in m.wires.iter().enumerate() {
            let path = format!("wire {} {n}", w.out);
            self.need(element(w.from), &path, "its element does not exist");
            let known = match w.to {
                Target::Input { input, index } => m.inputs.get(input.index()).is_some_and(|i| i.indexed || index == 0),
                Target::Port { port, .. } => {
                    m.ports.get(port.index()).is_some_and(|p| matches!(p.kind, PortKind::Frames { .. }))
                }
            };
            self.need(known, &path, "its target does not exist, or takes no frames");
        }
        for i in &m.inputs {
            self.input(i)
        }
        if self.errors.is_empty() && m.inputs_in_order().len() < m.inputs.len() {
            self.error("wires", "they lead round in a circle")
        }
    }

    fn input(&mut self, i: &Input) {
        let (m, path) = (self.m, format!("input {}", i.name));
        self.need(i.element.is_none_or(|e| e.index() < m.elements.len()), &path, "its element does not exist");
        let frame = m.units.get(i.unit.index()).is_some_and(|u| u.frame.is_some());
        self.need(frame, &path, "its unit describes no frame");
        let Some(b) = &i.body else { return };
        let given = b.locals.len() >= i.given()
            && *self.ty(b.locals[0].ty) == Ty::Msg(i.unit)
            && b.locals[1..i.first_field()].iter().all(|l| self.is_uint_of(l.ty, 32));
        self.need(given, &path, "its first locals are not the frame, its mark (u32) and the place of an array (u32)");
        let mut fields = i.state.iter().zip(b.locals.iter().skip(i.first_field()));
        let of_field =
            |(f, l): (&PacketFieldId, &Local)| m.packet.get(f.index()).is_some_and(|f| self.same(f.ty, l.ty));
        self.need(fields.all(of_field), &path, "a local is not of the type of its field of the state");
        let mut returns = false;
        walk::stmts(&b.block, &mut |s| returns |= matches!(s.kind, StmtKind::Return(_)));
        self.need(!returns, &path, "it returns");
        let mut asks = false;
        walk::block_exprs(&b.block, &mut |e| {
            asks |= matches!(*e.kind, ExprKind::FrameMark(_) | ExprKind::PacketState(..))
        });
        self.need(!asks, &path, "it asks for the mark or the state of a queue's packet, which are locals");
        self.body(&path, b, Code { kind: BodyKind::Event, ret: None, preset: i.given(), reply: None, conn: false });
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn merge(&mut self, g: &Merge) {
        let path = format!("merge {}", g.name);
        let m = self.m;
        let ports = |p: PortId| p.index() < m.ports.len();
        if !ports(g.from) || !ports(g.to) || g.unit.index() >= m.units.len() {
            return self.error(&path, "a port or the unit does not exist");
        }
        let unit = m.unit(g.unit);
        self.need(g.inputs > 0, &path, "no inputs");
        self.need(Merge::not_written(m, g.unit).is_none(), &path, "a field of its unit cannot be written");
        self.need(
            unit.fields.get(g.key.index()).is_some_and(|f| self.is_bytes(f.ty) || self.is_int(f.ty)),
            &path,
            "the key is not a field of bytes or an integer",
        );
        for v in &g.values {
            let Some(field) = unit.fields.get(v.field.index()) else {
                self.error(&path, "a field does not exist");
                continue;
            };
            let local = |l: LocalId| g.locals.get(l.index()).is_some_and(|l| self.same(l.ty, field.ty));
            self.need(local(v.a) && local(v.b), &path, "a value's locals are not of its field's type");
            self.into(&path, &v.combined, field.ty, ExprPlace::scope(Scope::locals(&g.locals)));
        }
        for h in [m.before(g), m.behind(g)].into_iter().flatten() {
            let mut astray = false;
            walk::stmts(&m.handlers[h.index()].body.block, &mut |s| match s.kind {
                StmtKind::Send { port, .. } => astray |= port != g.to,
                StmtKind::Await { .. } | StmtKind::Reply { .. } => astray = true,
                _ => astray |= s.kind.is_awaited(),
            });
            self.need(!astray, &path, "its nodes reach another port than its output");
        }
    }

    fn tests(&mut self) {
        let m = self.m;
        for (n, t) in m.tests.iter().enumerate() {
            let path = format!("test {}", t.name);
            match &t.kind {
                TestKind::Code(h) => self.need(
                    m.handlers.get(h.index()).is_some_and(|h| h.on == On::Test(n as u32)),
                    &path,
                    "its handler is not its own",
                ),
                TestKind::Sim { steps, .. } => self.steps(n as u32, &path, steps),
            }
        }
    }

    fn steps(&mut self, test: u32, path: &str, steps: &[(Span, SimStep)]) {
        let m = self.m;
        let code = |h: &HandlerId| m.handlers.get(h.index()).is_some_and(|h| h.on == On::Test(test));
        for (_, s) in steps {
            let s = match s {
                SimStep::At(h, step) => {
                    self.need(code(h), path, "a step's handler is not its own");
                    self.need(
                        matches!(**step, SimStep::SeeNothing(_) | SimStep::Check(..)),
                        path,
                        "this is no step at a place",
                    );
                    &**step
                }
                s @ SimStep::Send(..)
                | s @ SimStep::See(..)
                | s @ SimStep::SeeClosed(_)
                | s @ SimStep::SeeNothing(_)
                | s @ SimStep::Close(_)
                | s @ SimStep::Reset(_)
                | s @ SimStep::Refuse(_)
                | s @ SimStep::Accept(_)
                | s @ SimStep::SeeLog(_)
                | s @ SimStep::Wait(_)
                | s @ SimStep::Run(_)
                | s @ SimStep::Give(_)
                | s @ SimStep::SeeSame(_)
                | s @ SimStep::Check(..)
                | s @ SimStep::Repeat { .. } => s,
            };
            match s {
                SimStep::Send(p, _)
                | SimStep::See(p, _)
                | SimStep::SeeClosed(p)
                | SimStep::SeeNothing(p)
                | SimStep::Close(p)
                | SimStep::Reset(p)
                | SimStep::Refuse(p)
                | SimStep::Accept(p) => self.need(p.port.index() < m.ports.len(), path, "a port does not exist"),
                SimStep::SeeLog(_) | SimStep::Wait(_) | SimStep::At(..) => {}
                SimStep::Run(h) | SimStep::Give(h) | SimStep::SeeSame(h) => {
                    self.need(code(h), path, "a step's handler is not its own")
                }
                SimStep::Check(p, h) => {
                    self.need(p.port.index() < m.ports.len(), path, "a port does not exist");
                    let checks = m
                        .handlers
                        .get(h.index())
                        .is_some_and(|h| matches!(h.on, On::Check { test: t, .. } if t == test));
                    self.need(checks, path, "a step's handler is no check of its own");
                }
                SimStep::Repeat { first, next, steps, .. } => {
                    self.need(code(first) && code(next), path, "a step's handler is not its own");
                    self.steps(test, path, steps);
                }
            }
        }
    }
}
