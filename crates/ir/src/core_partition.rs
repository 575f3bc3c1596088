//! The core partition of an app with frame ports and service ports. Packets have cores of their
//! own, and so have connections.
//!
//! In: a lowered module. Out: [`Partition`]: the side of each handler, counter and table, and the
//! conflicts, which the compiler reports. Tables with locks belong to both sides. Things that each
//! core has for itself belong to one side: states, queues of values, copies of rules. One side may
//! read a counter that packets count, alone or as connections do; it then sees the sum of all
//! cores.

use crate::desc::{CoreKind, PortKind};
use crate::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partition {
    pub handlers: Vec<CoreKind>,
    pub counters: Vec<CoreKind>,
    pub tables: Vec<CoreKind>,
    pub conflicts: Vec<PartitionConflict>,
}

/// Obstacles to a partition of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionConflict {
    /// The handler uses ports of both kinds.
    Ports { handler: usize },
    /// A handler of packets and one of connections use what each core has for itself.
    Resource { thing: Resource, packets: usize, services: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    State(StateId),
    Counter(CounterId),
    Table(TableId),
    /// Frames that wait inside of the program, or lead back into it.
    Queue(PortId),
}

/// Whether an app has ports of both kinds.
fn is_mixed(m: &Module) -> bool {
    desc::is_mixed(m.ports.iter().map(|p| &p.kind))
}

/// None: the app is one whole.
pub fn of(m: &Module) -> Option<Partition> {
    if !is_mixed(m) {
        return None;
    }
    let uses: Vec<Uses> =
        m.handlers.iter().map(|h| if h.on.is_test() { Uses::default() } else { Uses::of(m, h) }).collect();
    let mut conflicts = Vec::new();
    let mut handlers: Vec<CoreKind> = uses
        .iter()
        .enumerate()
        .map(|(handler, u)| match (u.frames, u.streams) {
            (true, true) => {
                conflicts.push(PartitionConflict::Ports { handler });
                CoreKind::Both
            }
            (true, false) => CoreKind::Packets,
            (false, true) => CoreKind::Services,
            (false, false) => CoreKind::Both,
        })
        .collect();
    // A timer or a signal that uses things of one kind of cores only runs there, too.
    while let Some(n) =
        (0..handlers.len()).find(|n| handlers[*n] == CoreKind::Both && side(m, &uses, &handlers, *n) != CoreKind::Both)
    {
        handlers[n] = side(m, &uses, &handlers, n);
    }
    let at = |core_kind: CoreKind, of: &dyn Fn(&Uses) -> bool| {
        (0..handlers.len()).find(|n| handlers[*n] == core_kind && of(&uses[*n]))
    };
    let alone = |of: &dyn Fn(&Uses) -> bool| match (
        (0..handlers.len()).any(|n| handlers[n] == CoreKind::Both && of(&uses[n])),
        at(CoreKind::Packets, of),
        at(CoreKind::Services, of),
    ) {
        (false, Some(_), None) => CoreKind::Packets,
        (false, None, Some(_)) => CoreKind::Services,
        _ => CoreKind::Both,
    };
    let counters: Vec<CoreKind> = (0..m.counters.len())
        .map(|n| alone(&|u| u.changes.contains(&Resource::Counter(CounterId(n as u32)))))
        .collect();
    let tables: Vec<CoreKind> =
        (0..m.tables.len()).map(|n| alone(&|u| !u.signal && u.touches(Resource::Table(TableId(n as u32))))).collect();
    let things: BTreeSet<Resource> = uses.iter().flat_map(|u| u.reads.union(&u.changes)).copied().collect();
    for thing in things {
        let packets = at(CoreKind::Packets, &|u| u.touches(thing));
        let services = at(CoreKind::Services, &|u| u.touches(thing));
        let (Some(packets), Some(services)) = (packets, services) else { continue };
        let apart = match thing {
            Resource::State(_) | Resource::Queue(_) => true,
            Resource::Counter(c) => {
                let read = |core_kind| at(core_kind, &|u| u.reads.contains(&thing)).is_some();
                read(CoreKind::Packets) && counters[c.index()] != CoreKind::Packets
            }
            Resource::Table(t) => match m.tables[t.index()].kind {
                TableKind::Ring => true,
                TableKind::Wildcard | TableKind::Lpm => m.changed_by_traffic(&m.tables[t.index()]),
                TableKind::Exact
                | TableKind::Array
                | TableKind::Bloom
                | TableKind::CountMin
                | TableKind::HyperLogLog => false,
            },
        };
        if apart {
            conflicts.push(PartitionConflict::Resource { thing, packets, services })
        }
    }
    Some(Partition { handlers, counters, tables, conflicts })
}

/// The kind of cores that all things that a handler uses belong to; `Both` where they have none, or
/// not the same.
fn side(m: &Module, uses: &[Uses], handlers: &[CoreKind], n: usize) -> CoreKind {
    let mut seen = BTreeSet::new();
    for thing in uses[n].reads.union(&uses[n].changes) {
        // Tables with locks say nothing.
        if matches!(thing, Resource::Table(t) if m.tables[t.index()].kind != TableKind::Ring) {
            continue;
        }
        // A counter is theirs who count; others may read it.
        let has = |u: &Uses| {
            if matches!(thing, Resource::Counter(_)) {
                u.changes.contains(thing)
            } else {
                u.touches(*thing)
            }
        };
        seen.extend(
            handlers
                .iter()
                .zip(uses)
                .filter(|(h, u)| **h != CoreKind::Both && has(u))
                .map(|(h, _)| *h == CoreKind::Packets),
        );
    }
    match (seen.contains(&true), seen.contains(&false)) {
        (true, false) => CoreKind::Packets,
        (false, true) => CoreKind::Services,
        _ => CoreKind::Both,
    }
}

/// The resources that a handler uses, with those of the parts that get its packets.
#[derive(Default)]
pub struct Uses {
    frames: bool,
    streams: bool,
    signal: bool,
    pub reads: BTreeSet<Resource>,
    pub changes: BTreeSet<Resource>,
    /// The client's connection, or its session.
    pub connection: bool,
    /// Ports that it sends frames to, and queues that it asks.
    pub sends: BTreeSet<PortId>,
    pub asks: BTreeSet<PortId>,
    called: BTreeSet<FuncId>,
}

impl Uses {
    pub fn of(m: &Module, h: &Handler) -> Uses {
        let frames = matches!(h.on, On::Frame { .. });
        let streams = h.on.is_of_connections();
        let mut uses = Uses { frames, streams, signal: matches!(h.on, On::Signal(_)), ..Uses::default() };
        m.reached(&h.body.block, &mut |b| uses.block(m, b));
        uses
    }

    pub fn touches(&self, t: Resource) -> bool {
        self.reads.contains(&t) || self.changes.contains(&t)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn ports(&mut self, m: &Module, s: &StmtKind) {
        match s {
            StmtKind::Frame { act: FrameAct::Send { port, .. }, .. }
            | StmtKind::SendFrame { port, .. }
            | StmtKind::Send { port, .. } => drop(self.sends.insert(*port)),
            StmtKind::Output { wire, .. } => {
                if let Some(Target::Port { port, .. }) = m.wires.get(wire.index()).map(|w| w.to) {
                    self.sends.insert(port);
                }
            }
            StmtKind::Queue { port, .. } => drop(self.asks.insert(*port)),
            _ => {}
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn block(&mut self, m: &Module, block: &[Stmt]) {
        use StmtKind::*;
        walk::stmts(block, &mut |s| self.ports(m, &s.kind));
        walk::stmts(block, &mut |s| match &s.kind {
            Frame { act, .. } => {
                self.frames = true;
                if let FrameAct::InC { memory: Some(s), .. } = act {
                    self.changes.insert(Resource::State(*s));
                }
            }
            SendFrame { .. } | Queue { .. } | Output { .. } => self.frames = true,
            Send { port, .. } | Call { port, .. } => match m.ports[port.index()].kind {
                PortKind::Frames { .. } => self.frames = true,
                PortKind::Listen(_) | PortKind::Connect(_) => self.streams = true,
            },
            Await { .. } => self.streams = true,
            SetSession(..)
            | Close
            | Tell { .. }
            | Ask { .. }
            | OpenUpstream { .. }
            | CloseUpstream(_)
            | TakeUpstream { .. }
            | PoolUpstream { .. }
            | Become { .. }
            | Hold(_)
            | Release(_) => (self.streams, self.connection) = (true, true),
            Deliver { .. } | Dismiss(_) => self.streams = true,
            SetState(s, _) => {
                self.changes.insert(Resource::State(*s));
            }
            Count(c, _) => {
                self.changes.insert(Resource::Counter(*c));
            }
            s => {
                self.changes.extend(s.changed_table().map(Resource::Table));
                self.reads.extend(s.read_table().map(Resource::Table));
            }
        });
        let mut called = Vec::new();
        walk::block_exprs(block, &mut |e| match &*e.kind {
            ExprKind::State(s) => {
                self.reads.insert(Resource::State(*s));
            }
            ExprKind::Counter(c) => {
                self.reads.insert(Resource::Counter(*c));
            }
            ExprKind::Session(_)
            | ExprKind::ConnPeer
            | ExprKind::ConnLocal
            | ExprKind::ConnId
            | ExprKind::UpstreamFact(..)
            | ExprKind::ConnHandle
            | ExprKind::ConnFlow => self.connection = true,
            ExprKind::Call(f, _) => called.push(*f),
            _ => {}
        });
        for f in called {
            if !self.called.insert(f) {
                continue;
            }
            if let Some(Func { body: FuncBody::Body(b), .. }) = m.funcs.get(f.index()) {
                self.block(m, &b.block)
            }
        }
    }
}
