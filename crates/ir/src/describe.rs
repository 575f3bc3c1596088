//! From a module to its description for the runtime ([`Desc`]).

use crate::desc::*;
use crate::ops::Rows;
use crate::segments::{self, Crossings};
use crate::{core_partition, live_params, TableSharing};
use std::collections::BTreeSet;

/// Tables of fewer entries expire exactly.
const EXACT: u64 = 1024;
/// Larger ones do so within a millisecond, of which a batch takes a part.
const BATCH_MAX: u64 = 250_000;

impl crate::Module {
    /// How far frames of one batch may be apart, so that each has its own time as far as the
    /// program can tell.
    fn apart(&self) -> Option<u64> {
        let mut looks = self.tables.iter().any(|t| t.rates.is_some());
        self.program_exprs(&mut |e, _| {
            crate::walk::expr(e, &mut |e| {
                let timed =
                    |b: &crate::Builtin| b.row().effect == crate::ops::Effect::Time && *b != crate::Builtin::OutOfTime;
                looks |= matches!(&*e.kind, crate::ExprKind::Now)
                    || matches!(&*e.kind, crate::ExprKind::Builtin(b, _) if timed(b));
            })
        });
        if looks {
            return Some(0);
        }
        let expiring = self.tables.iter().filter(|t| t.idle > 0);
        expiring.map(|t| if t.capacity < EXACT { 0 } else { (t.idle >> 10).min(BATCH_MAX) }).min()
    }

    /// Whether what requests do leaves something on their core: `state` that they change, tables of
    /// which each core has its own.
    pub fn keeps_on_core(&self) -> bool {
        let own =
            |t: crate::TableId| self.tables.get(t.index()).is_some_and(|t| self.sharing(t) == TableSharing::Parts);
        let mut keeps = false;
        for h in self.handlers.iter().filter(|h| matches!(h.on, crate::On::Message { .. } | crate::On::Upstream { .. }))
        {
            crate::walk::stmts(&h.body.block, &mut |s| {
                keeps |= matches!(s.kind, crate::StmtKind::SetState(..)) || s.kind.changed_table().is_some_and(own)
            });
        }
        keeps
    }

    /// The description of this program for the runtime. Its grammars have been analysed and its
    /// passes run. Handlers of `test` blocks come last in a module and are left out: the runtime
    /// never starts them.
    pub fn desc(&self) -> Desc {
        let partition = core_partition::of(self).unwrap_or_default();
        let core_kind = |of: &[CoreKind], n: usize| of.get(n).copied().unwrap_or_default();
        let crossings = segments::place(self).unwrap_or_default().crossings;
        let nic = segments::OnNic::of(self);
        Desc {
            app: self.app.clone(),
            picture: String::new(),
            params: self
                .params
                .iter()
                .zip(live_params::of(self))
                .map(|(p, live)| ParamDesc {
                    name: p.name.clone(),
                    ty: p.ty,
                    form: p.form.clone(),
                    default: p.default.clone(),
                    doc: p.doc.clone(),
                    live,
                })
                .collect(),
            ports: (0..self.ports.len()).map(|n| port_desc(self, n, &crossings, nic.as_ref())).collect(),
            protocols: self.protocols.iter().map(|p| protocol_desc(self, p)).collect(),
            units: self.units.iter().map(|u| u.name.clone()).collect(),
            handlers: self
                .handlers
                .iter()
                .enumerate()
                .map_while(|(n, h)| handler_desc(self, h, h.plan.pause.least(), core_kind(&partition.handlers, n)))
                .collect(),
            counters: self
                .counters
                .iter()
                .enumerate()
                .map(|(n, c)| CounterDesc {
                    name: c.name.clone(),
                    offset: crate::layout::counter_offset(crate::CounterId(n as u32)),
                    doc: c.doc.clone(),
                    core_kind: core_kind(&partition.counters, n),
                })
                .collect(),
            tables: (0..self.tables.len())
                .map(|n| {
                    let on_nic = nic.as_ref().is_some_and(|nic| nic.tables[n]);
                    TableDesc { nic: on_nic, ..table_desc(self, n, core_kind(&partition.tables, n)) }
                })
                .collect(),
            upstreams: self
                .upstreams
                .iter()
                .zip(self.places.len() as u32..)
                .map(|(c, place)| UpstreamDesc { name: c.name.clone(), port: c.port.0, place })
                .collect(),
            places: self
                .places
                .iter()
                .map(|p| place_desc(self, p))
                .chain(self.upstreams.iter().map(|c| place_desc(self, &upstream_place(c))))
                .collect(),
            faults: self.faults.clone(),
            merges: self
                .merges
                .iter()
                .map(|g| MergeDesc {
                    name: g.name.clone(),
                    from: g.from.0,
                    to: g.to.0,
                    inputs: g.inputs,
                    unit: g.unit.0,
                })
                .collect(),
            per_core: self.keeps_on_core(),
            signals: self.handlers.iter().enumerate().filter_map(|(n, h)| signal_desc(self, n, h)).collect(),
            cluster: None,
            entry: crate::layout::entry_max(self),
            segments: self
                .segments
                .iter()
                .map(|s| SegmentDesc {
                    name: s.name.clone(),
                    cpu: s.cpu,
                    cores: s.cores,
                    nic: s.device == crate::ops::Device::Nic,
                })
                .collect(),
            apart: self.apart(),
            nic: nic.is_some().then(|| NicDesc { link: self.link.clone() }),
        }
    }
}

fn port_desc(m: &crate::Module, n: usize, crossings: &Crossings, nic: Option<&segments::OnNic>) -> PortDesc {
    let p = &m.ports[n];
    let senders = crossings.get(&crate::PortId(n as u32)).into_iter().flatten();
    PortDesc {
        name: p.name.clone(),
        kind: p.kind.clone(),
        protocols: p.protocols.iter().map(|p| p.0).collect(),
        options: p.options.clone(),
        ketama: p.ketama,
        consistent: p.consistent.is_some(),
        udp: p.udp,
        maglev: p.maglev,
        sent: is_sent_to(m, n),
        senders: senders.map(|s| s.0).collect(),
        part: p.carries.part,
        entry: nic.map_or(0, |_| crate::layout::Entry::of(m, &p.carries).bytes),
        nic: nic.is_some_and(|nic| nic.ports[n]),
        pools: gives_to_pools(m, crate::PortId(n as u32)),
    }
}

/// Whether some body gives sessions of a port to a pool.
pub fn gives_to_pools(m: &crate::Module, port: crate::PortId) -> bool {
    use crate::StmtKind;
    let mut gives = false;
    m.bodies(&mut |b| {
        crate::walk::stmts(&b.block, &mut |s| {
            if let StmtKind::PoolUpstream { upstream, .. } | StmtKind::OpenUpstream { upstream, key: Some(_), .. } =
                &s.kind
            {
                gives |= m.upstreams.get(upstream.index()).is_some_and(|u| u.port == port);
            }
        })
    });
    gives
}

/// Whether some body sends frames to a port.
fn is_sent_to(m: &crate::Module, n: usize) -> bool {
    use crate::{FrameAct, StmtKind};
    let mut sent = false;
    m.bodies(&mut |b| {
        crate::walk::stmts(&b.block, &mut |s| {
            if let StmtKind::Frame { act: FrameAct::Send { port, .. }, .. }
            | StmtKind::SendFrame { port, .. }
            | StmtKind::Send { port, .. } = &s.kind
            {
                sent |= port.index() == n
            }
        })
    });
    sent || m.wires.iter().any(|w| matches!(w.to, crate::Target::Port { port, .. } if port.index() == n))
}

fn protocol_desc(m: &crate::Module, p: &crate::Protocol) -> ProtocolDesc {
    let request = p.order_by.and_then(|f| crate::grammar::fixed_offset(m, p.request, f));
    let response = crate::grammar::order_field(m, p).zip(p.response);
    let response = response.and_then(|(f, u)| crate::grammar::fixed_offset(m, u, f));
    let order = match (request, response) {
        (Some((request, width)), Some((response, _))) => Order::ById { request, response, width },
        _ => Order::InOrder,
    };
    ProtocolDesc {
        name: p.name.clone(),
        request: p.request.0,
        response: p.response.map(|u| u.0),
        sharing: p.sharing,
        server_first: p.server_first,
        order,
        first: m.units.get(p.request.index()).map_or_else(Vec::new, |u| u.first.iter().collect()),
        ignore: p.ignore.clone(),
        expects: p.expects.as_ref().map_or_else(Vec::new, |(text, _)| text.clone()),
        classes: p.classes.clone(),
        logs: p.on_log.is_some(),
        default_ctx: 0,
        tells_drain: tells_drain(p),
        tells_idle: p.idle.is_some(),
        tells_owed: p.owes.is_some(),
        tells_match: p.stray.is_some(),
        args: [!p.request_args.is_empty(), !p.response_args.is_empty()]
            .map(|args| args && p.sharing == Sharing::Session),
    }
}

fn tells_drain(p: &crate::Protocol) -> bool {
    let mut tells = false;
    for e in &p.response_args {
        crate::walk::expr(e, &mut |e| tells |= matches!(*e.kind, crate::ExprKind::Draining))
    }
    tells
}

fn signal_desc(m: &crate::Module, n: usize, h: &crate::Handler) -> Option<SignalDesc> {
    let crate::On::Signal(s) = h.on else { return None };
    let s = m.signals.get(s as usize)?;
    let arg = |(i, (name, ty)): (usize, &(String, ParamType))| ArgDesc {
        name: name.clone(),
        ty: *ty,
        form: s.forms.get(i).cloned().unwrap_or_default(),
        default: s.defaults.get(i).cloned().flatten(),
    };
    Some(SignalDesc {
        name: s.name.clone(),
        doc: s.doc.clone(),
        handler: n as u32,
        args: s.args.iter().enumerate().map(arg).collect(),
        masked: s.masked,
        result: s.result.clone(),
    })
}

fn table_desc(m: &crate::Module, n: usize, core_kind: CoreKind) -> TableDesc {
    // Copies are alike on all cores, whoever writes them.
    let (t, mut written) = (&m.tables[n], false);
    let handlers =
        m.handlers.iter().filter(|h| !matches!(h.on, crate::On::Signal(_) | crate::On::Test(_))).map(|h| &h.body);
    for body in handlers.chain(m.inputs.iter().filter_map(|i| i.body.as_ref())) {
        crate::walk::stmts(&body.block, &mut |s| written |= s.kind.filled_table().is_some_and(|t| t.index() == n));
    }
    let core_kind = if t.local { CoreKind::Packets } else { core_kind };
    let sharing = m.sharing(t);
    TableDesc {
        name: t.name.clone(),
        kind: t.kind,
        sharing,
        stats: crate::layout::table_stats_offset(crate::TableId(n as u32)),
        written: written && sharing != TableSharing::Copies,
        capacity: t.capacity,
        idle: t.idle,
        evict_lru: t.evict_lru,
        core_kind,
        nic: false,
        segment: segment_of(m, n),
        rates: t.rates,
    }
}

/// The only segment that uses a table.
fn segment_of(m: &crate::Module, n: usize) -> Option<u32> {
    let table = crate::core_partition::Resource::Table(crate::TableId(n as u32));
    let uses = |h: &&crate::Handler| crate::core_partition::Uses::of(m, h).touches(table);
    let in_segments = m.handlers.iter().filter(|h| h.segment.is_some());
    let mut segments: Vec<u32> = in_segments.filter(uses).filter_map(|h| h.segment.map(|s| s.0)).collect();
    segments.dedup();
    match segments[..] {
        [one] => Some(one),
        _ => None,
    }
}

fn handler_desc(
    m: &crate::Module,
    h: &crate::Handler,
    pauses: Option<u32>,
    core_kind: CoreKind,
) -> Option<HandlerDesc> {
    let on = match h.on {
        crate::On::Message { port, protocol } => {
            let alternatives = m.ports.get(port.index()).map_or(&[][..], |p| &p.protocols);
            HandlerOn::Message {
                port: port.0,
                alternative: alternatives.iter().position(|p| *p == protocol).unwrap_or(0) as u32,
            }
        }
        crate::On::Piece { port, protocol, upstream, stream } => {
            let alternatives = m.ports.get(port.index()).map_or(&[][..], |p| &p.protocols);
            HandlerOn::Piece {
                port: port.0,
                alternative: alternatives.iter().position(|p| *p == protocol).unwrap_or(0) as u32,
                changes: changes_pieces(&h.body),
                upstream: upstream.map(|u| u.0),
                stream: m.message_of(h.on).zip(stream).map_or(0, |((_, unit), f)| m.stream_number(unit, f)),
            }
        }
        crate::On::Frame { port, .. } => HandlerOn::Frame { port: port.0 },
        crate::On::Opened(port) => HandlerOn::Opened { port: port.0 },
        crate::On::Greeting(port) => HandlerOn::Greeting { port: port.0 },
        crate::On::Probe(port) => HandlerOn::Probe { port: port.0 },
        crate::On::Reset(port) => HandlerOn::Reset { port: port.0 },
        crate::On::Closed(port) => HandlerOn::Closed { port: port.0 },
        crate::On::Upstream { upstream, protocol } => {
            let all = m.protocols_of(crate::Peer::Upstream(upstream));
            let alternative = all.iter().position(|p| Some(*p) == protocol).unwrap_or(0) as u32;
            HandlerOn::Upstream { upstream: upstream.0, alternative }
        }
        crate::On::UpstreamOpened(c) => HandlerOn::UpstreamOpened { upstream: c.0 },
        crate::On::UpstreamClosed(c) => HandlerOn::UpstreamClosed { upstream: c.0 },
        crate::On::Fault => HandlerOn::Fault,
        crate::On::Start => HandlerOn::Start,
        crate::On::End => HandlerOn::End,
        crate::On::Every(period) => HandlerOn::Every { period },
        crate::On::Signal(_) => HandlerOn::Signal,
        crate::On::Test(_) | crate::On::Check { .. } => return None,
    };
    Some(HandlerDesc {
        name: h.name.clone(),
        on,
        steps: h.steps,
        pauses,
        alone: pauses.is_some() && h.plan.pause.alone(),
        one_by_one: one_by_one(m, h.on),
        run_to: h.plan.run.as_ref().map(|r| r.to.number()),
        run_as: h.plan.run.as_ref().and_then(|r| m.spoken(r.to, r.protocol)).map_or(0, |p| p.0),
        begins: begins(m, h.on.frame_unit()),
        frames: h.frame_use(),
        sends: sends_frames(m, &h.body.block, &mut BTreeSet::new()),
        core_kind,
        segment: h.segment.map(|s| s.0),
    })
}

/// Whether values of a request would be those of another one that is under way.
fn one_by_one(m: &crate::Module, on: crate::On) -> bool {
    let crate::On::Message { protocol, .. } = on else { return false };
    let pipelined = m.protocols.get(protocol.index()).is_some_and(|p| p.sharing == Sharing::Pipelined);
    pipelined && m.sessions.iter().any(|s| s.of_request)
}

/// Whether a handler of pieces may give others in their place.
pub fn changes_pieces(body: &crate::Body) -> bool {
    let mut changes = false;
    crate::walk::stmts(&body.block, &mut |s| {
        changes |= matches!(s.kind, crate::StmtKind::SetPiece(_) | crate::StmtKind::DropBody);
    });
    changes
}

fn begins(m: &crate::Module, packet: Option<crate::UnitId>) -> Begins {
    let Some(frame) = packet.and_then(|u| m.units[u.index()].frame.as_ref()) else { return Begins::Any };
    let first = frame.layers.iter().filter(|l| l.after.iter().any(|a| a.layer.is_none()));
    let mut kinds = first.map(|l| m.units[l.unit.index()].header.link);
    let one = kinds.next().unwrap_or_default();
    if kinds.all(|k| k == one) {
        one
    } else {
        Begins::Any
    }
}

/// Whether a block, or a function that it calls, may send frames or take them from queues. `seen`:
/// functions that have been looked at.
fn sends_frames(m: &crate::Module, block: &crate::Block, seen: &mut BTreeSet<u32>) -> bool {
    use crate::StmtKind::{Frame, Output, Queue, Send, SendFrame};
    let mut sends = false;
    crate::walk::stmts(block, &mut |s| {
        sends |= matches!(
            &s.kind,
            Frame { act: crate::FrameAct::Send { .. }, .. }
                | SendFrame { .. }
                | Send { .. }
                | Queue { .. }
                | Output { .. }
        )
    });
    sends
        || crate::walk::calls(block).into_iter().any(|f| {
            seen.insert(f.0)
                && matches!(&m.funcs[f.index()].body, crate::FuncBody::Body(body) if sends_frames(m, &body.block, seen))
        })
}

fn line_of(m: &crate::Module, s: &crate::Span) -> String {
    let file = m.files.get(s.file as usize).map_or("", String::as_str);
    format!("{file}:{}:{}", s.line, s.column)
}

/// The place of faults of a server's connection: no statement of the program makes them.
fn upstream_place(c: &crate::Upstream) -> crate::FaultPlace {
    crate::FaultPlace { name: format!("session {}", c.name), span: c.span, library: None }
}

fn place_desc(m: &crate::Module, p: &crate::FaultPlace) -> PlaceDesc {
    PlaceDesc {
        name: p.name.clone(),
        file: m.files.get(p.span.file as usize).cloned().unwrap_or_default(),
        line: p.span.line,
        column: p.span.column,
        library: p.library.map(|s| line_of(m, &s)).unwrap_or_default(),
    }
}
