//! Segments: parts of an app with cores of their own, and the queues between them.
//!
//! In: a lowered module, in which the handlers that stand in a segment name it. Out:
//! [`Placement`]: the segment of each other handler, the queues that lead from one segment to
//! another, and the conflicts, which the compiler reports. A handler outside of the segments goes
//! to the segment that has what it uses. States, tables and queues belong to one segment each.
//! Tables that only signals change do not: each segment may read them. A segment may read a
//! counter that no other one counts. A segment of several cores gets its packets from queues,
//! whose instances are dealt out to its cores.

use crate::core_partition::{Resource, Uses};
use crate::desc::{ParamValue, PortKind, Value};
use crate::*;
use std::collections::{BTreeMap, BTreeSet};

/// A part of an app with cores of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub name: String,
    /// In the XDP hook it has a core for what the hook leaves to the process.
    pub device: ops::Device,
    /// The first core, counted from 0 among those of the run; 0 on a NIC, which counts its own.
    pub cpu: u32,
    /// The number of its cores, at least 1.
    pub cores: u32,
    pub span: Span,
}

impl std::fmt::Display for Segment {
    /// Its device: `xdp`, `nic`, `cpu(0)`, or `cpu(0..2)` for two cores.
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match (self.device, self.cores) {
            (ops::Device::Xdp, _) => f.write_str("xdp"),
            (ops::Device::Nic, 0 | 1) => f.write_str("nic"),
            (ops::Device::Nic, n) => write!(f, "nic(cores {n})"),
            (_, 0 | 1) => write!(f, "cpu({})", self.cpu),
            (_, n) => write!(f, "cpu({}..{})", self.cpu, u64::from(self.cpu) + u64::from(n)),
        }
    }
}

/// The queues that lead from one segment to another, with their senders.
pub type Crossings = BTreeMap<PortId, BTreeSet<SegmentId>>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// By handler. None: each core runs it.
    pub handlers: Vec<Option<SegmentId>>,
    pub crossings: Crossings,
    pub conflicts: Vec<Conflict>,
}

/// Obstacles to the division of an app. Handlers are named by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The app has ports of connections.
    Connections,
    /// A handler of a port's packets stands in no segment.
    Unplaced { handler: usize },
    /// Handlers of two segments use it, or one that every core runs.
    Resource { thing: Resource, first: usize, second: usize },
    /// A queue between segments is asked for its packets.
    Asked { queue: PortId, handler: usize },
    /// A segment of several cores handles the packets of a port.
    Several { handler: usize },
    /// The packets of a segment of several cores change a table of which each core has a copy.
    Copied { table: TableId, handler: usize },
    /// A queue to a segment of several cores has fewer instances than these.
    Few { queue: PortId, instances: usize },
    /// Queues lead in a circle.
    Circle(Vec<PortId>),
    /// Handlers on the NIC and others use a port.
    Port { port: PortId, nic: usize, other: usize },
    /// Handlers on the NIC and others read a table.
    Table { table: TableId, nic: usize, other: usize },
}

/// The ports and tables of the NIC's process: by port and by table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OnNic {
    pub ports: Vec<bool>,
    pub tables: Vec<bool>,
}

impl OnNic {
    /// None: the app has no segments on a NIC. Its handlers have their segments.
    pub fn of(m: &Module) -> Option<OnNic> {
        let nic = |s: &SegmentId| m.segments.get(s.index()).is_some_and(|s| s.device == ops::Device::Nic);
        m.segments.iter().any(|s| s.device == ops::Device::Nic).then(|| {
            let there = m.handlers.iter().filter(|h| h.segment.as_ref().is_some_and(nic));
            let uses: Vec<Touched> = there.map(|h| Touched::of(m, h)).collect();
            let ports = (0..m.ports.len() as u32).map(|n| uses.iter().any(|u| u.ports.contains(&PortId(n))));
            let tables = (0..m.tables.len() as u32).map(|n| uses.iter().any(|u| u.tables.contains(&TableId(n))));
            OnNic { ports: ports.collect(), tables: tables.collect() }
        })
    }
}

/// The ports of frames that leave the app or come to it, and the tables, that a handler uses.
struct Touched {
    ports: BTreeSet<PortId>,
    tables: BTreeSet<TableId>,
}

impl Touched {
    fn of(m: &Module, h: &Handler) -> Touched {
        let u = Uses::of(m, h);
        let own = h.on.frame_port();
        let outside = |p: &PortId| m.ports.get(p.index()).is_some_and(|p| !p.kind.is_inside());
        let tables = u.reads.iter().chain(&u.changes).filter_map(|r| match r {
            Resource::Table(t) => Some(*t),
            Resource::State(_) | Resource::Counter(_) | Resource::Queue(_) => None,
        });
        Touched { ports: u.sends.iter().copied().chain(own).filter(outside).collect(), tables: tables.collect() }
    }
}

/// None: the app has no segments.
pub fn place(m: &Module) -> Option<Placement> {
    (!m.segments.is_empty()).then(|| {
        let mut p = Placer::new(m);
        p.infer();
        p.finish()
    })
}

struct Placer<'m> {
    m: &'m Module,
    uses: Vec<Uses>,
    handlers: Vec<Option<SegmentId>>,
    /// Things that belong to one segment, by handler.
    things: Vec<BTreeSet<Resource>>,
}

impl<'m> Placer<'m> {
    fn new(m: &'m Module) -> Placer<'m> {
        let uses: Vec<Uses> = m.handlers.iter().map(|h| Uses::of(m, h)).collect();
        let mut p = Placer { m, uses, handlers: m.handlers.iter().map(|h| h.segment).collect(), things: Vec::new() };
        p.things = (0..m.handlers.len()).map(|n| p.owned(n)).collect();
        p
    }

    /// Things that a handler uses, and no other segment may.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn owned(&self, n: usize) -> BTreeSet<Resource> {
        let u = &self.uses[n];
        let changed = |t: Resource| {
            self.m.handlers.iter().zip(&self.uses).any(|(h, u)| !on_all(h) && !h.on.is_test() && u.changes.contains(&t))
        };
        let mut things: BTreeSet<Resource> = u.reads.union(&u.changes).copied().collect();
        things.retain(|t| match t {
            Resource::Counter(_) => false,
            Resource::Table(_) => changed(*t),
            Resource::State(_) | Resource::Queue(_) => true,
        });
        let inside = |p: &PortId| self.m.ports.get(p.index()).is_some_and(|p| p.kind.is_inside());
        things.extend(u.asks.iter().copied().map(Resource::Queue));
        let sends = u.sends.iter().filter(|p| inside(p) && self.handler_of(**p).is_none());
        things.extend(sends.copied().map(Resource::Queue));
        match self.m.handlers[n].on {
            On::Frame { port, .. } if inside(&port) => drop(things.insert(Resource::Queue(port))),
            _ => {}
        }
        things
    }

    /// The handler of a queue that stands in a segment.
    fn handler_of(&self, queue: PortId) -> Option<usize> {
        let of = |h: &Handler| h.on.frame_port() == Some(queue) && h.segment.is_some();
        self.m.is_queue(queue).then(|| self.m.handlers.iter().position(of)).flatten()
    }

    /// Handlers that stand in no segment go to the one that has what they use, others to the first.
    fn infer(&mut self) {
        self.follow();
        let open = |h: &Handler| h.segment.is_none() && !on_all(h) && !matches!(h.on, On::Frame { .. });
        for n in 0..self.handlers.len() {
            if self.handlers[n].is_none() && open(&self.m.handlers[n]) {
                self.handlers[n] = Some(SegmentId(0));
                self.follow();
            }
        }
    }

    fn follow(&mut self) {
        let open = |p: &Placer, n: usize| p.handlers[n].is_none() && !on_all(&p.m.handlers[n]);
        let near = |p: &Placer, n: usize| {
            let shares = |o: &usize| !p.m.handlers[*o].on.is_test() && !p.things[*o].is_disjoint(&p.things[n]);
            (0..p.handlers.len()).filter(|o| p.handlers[*o].is_some()).find(shares).and_then(|o| p.handlers[o])
        };
        let all = 0..self.handlers.len();
        while let Some((n, s)) = all.clone().filter(|n| open(self, *n)).find_map(|n| Some((n, near(self, n)?))) {
            self.handlers[n] = Some(s);
        }
    }

    fn finish(self) -> Placement {
        let crossings = self.crossings();
        let mut conflicts = Vec::new();
        if desc::is_mixed(self.m.ports.iter().map(|p| &p.kind)) {
            conflicts.push(Conflict::Connections);
        }
        for (n, h) in self.m.handlers.iter().enumerate() {
            if self.handlers[n].is_none() && matches!(h.on, On::Frame { .. }) {
                conflicts.push(Conflict::Unplaced { handler: n });
            }
            for queue in self.uses[n].asks.iter().filter(|q| crossings.contains_key(q)) {
                conflicts.push(Conflict::Asked { queue: *queue, handler: n });
            }
        }
        self.several(&crossings, &mut conflicts);
        self.shared(&crossings, &mut conflicts);
        self.counted(&mut conflicts);
        conflicts.extend(self.circle(&crossings).map(Conflict::Circle));
        self.devices(&mut conflicts);
        Placement { handlers: self.handlers, crossings, conflicts }
    }

    fn crossings(&self) -> Crossings {
        let mut found = BTreeMap::new();
        for queue in (0..self.m.ports.len() as u32).map(PortId) {
            let Some(home) = self.handler_of(queue).and_then(|h| self.handlers[h]) else { continue };
            let senders: BTreeSet<SegmentId> = (0..self.handlers.len())
                .filter(|n| self.uses[*n].sends.contains(&queue))
                .filter_map(|n| self.handlers[n])
                .collect();
            if senders.iter().any(|s| *s != home) {
                found.insert(queue, senders);
            }
        }
        found
    }

    /// Limits of segments of several cores.
    fn several(&self, crossings: &Crossings, conflicts: &mut Vec<Conflict>) {
        for (n, h) in self.m.handlers.iter().enumerate().filter(|(_, h)| !h.on.is_test()) {
            let Some(s) = self.handlers[n].and_then(|s| self.m.segments.get(s.index())).filter(|s| s.cores > 1) else {
                continue;
            };
            if let On::Frame { port, .. } = h.on {
                match crossings.contains_key(&port) {
                    true => conflicts.extend(self.few(port, s.cores as usize)),
                    false if !self.m.ports[port.index()].kind.is_inside() => {
                        conflicts.push(Conflict::Several { handler: n })
                    }
                    false => {}
                }
            }
            let copied = |t: &TableId| {
                let t = &self.m.tables[t.index()];
                matches!(t.kind, TableKind::Wildcard | TableKind::Lpm) && self.m.changed_by_traffic(t)
            };
            let tables = self.uses[n].changes.iter().filter_map(|r| match r {
                Resource::Table(t) => Some(*t),
                Resource::State(_) | Resource::Counter(_) | Resource::Queue(_) => None,
            });
            conflicts.extend(tables.filter(copied).map(|table| Conflict::Copied { table, handler: n }));
        }
    }

    /// Whether a queue has fewer instances than the cores that it leads to.
    fn few(&self, queue: PortId, cores: usize) -> Option<Conflict> {
        let PortKind::Frames { names: Value::Const(ParamValue::Endpoints(all)), .. } =
            &self.m.ports[queue.index()].kind
        else {
            return None;
        };
        (all.len() < cores).then_some(Conflict::Few { queue, instances: all.len() })
    }

    /// Things that belong to one segment, and are used by two.
    fn shared(&self, crossings: &Crossings, conflicts: &mut Vec<Conflict>) {
        let mut first: BTreeMap<Resource, usize> = BTreeMap::new();
        let mut told = BTreeSet::new();
        for (n, h) in self.m.handlers.iter().enumerate().filter(|(_, h)| !h.on.is_test()) {
            // A handler of every core would send to a queue that some have no way to.
            let sends = self.uses[n].sends.iter().filter(|q| on_all(h) && crossings.contains_key(q));
            conflicts.extend(sends.filter_map(|q| {
                Some(Conflict::Resource { thing: Resource::Queue(*q), first: self.handler_of(*q)?, second: n })
            }));
            // A signal changes what each core has.
            if matches!(h.on, On::Signal(_)) {
                continue;
            }
            for t in &self.things[n] {
                if matches!(t, Resource::Queue(q) if crossings.contains_key(q)) {
                    continue;
                }
                let before = *first.entry(*t).or_insert(n);
                if self.handlers[before] != self.handlers[n] && told.insert(*t) {
                    conflicts.push(Conflict::Resource { thing: *t, first: before, second: n });
                }
            }
        }
    }

    /// The process of the NIC and the other one share neither ports nor tables.
    fn devices(&self, conflicts: &mut Vec<Conflict>) {
        let nic = |s: SegmentId| self.m.segments.get(s.index()).is_some_and(|s| s.device == ops::Device::Nic);
        if !(0..self.m.segments.len() as u32).map(SegmentId).any(nic) {
            return;
        }
        let (mut ports, mut tables) = (BTreeMap::new(), BTreeMap::new());
        for (n, h) in self.m.handlers.iter().enumerate() {
            let Some(s) = self.handlers[n].filter(|_| !h.on.is_test() && !on_all(h)) else { continue };
            let used = Touched::of(self.m, h);
            used.ports.into_iter().for_each(|p| meet(ports.entry(p).or_default(), nic(s), n));
            used.tables.into_iter().for_each(|t| meet(tables.entry(t).or_default(), nic(s), n));
        }
        conflicts.extend(
            ports
                .into_iter()
                .filter_map(|(port, of): (PortId, Ends)| Some(Conflict::Port { port, nic: of.0?, other: of.1? })),
        );
        let told = |t: &TableId| {
            conflicts.iter().any(|c| matches!(c, Conflict::Resource { thing: Resource::Table(x), .. } if x == t))
        };
        let both = tables
            .into_iter()
            .filter(|(t, _)| !told(t))
            .filter_map(|(table, of): (TableId, Ends)| Some(Conflict::Table { table, nic: of.0?, other: of.1? }));
        let both: Vec<Conflict> = both.collect();
        conflicts.extend(both);
    }

    /// Counters that one segment reads, and another one counts.
    fn counted(&self, conflicts: &mut Vec<Conflict>) {
        for c in (0..self.m.counters.len() as u32).map(|n| Resource::Counter(CounterId(n))) {
            let of = |n: &usize| !self.m.handlers[*n].on.is_test() && !matches!(self.m.handlers[*n].on, On::Signal(_));
            let all = || (0..self.handlers.len()).filter(of);
            let pair = all().filter(|r| self.uses[*r].reads.contains(&c)).find_map(|r| {
                Some((r, all().find(|w| self.uses[*w].changes.contains(&c) && self.handlers[*w] != self.handlers[r])?))
            });
            conflicts.extend(pair.map(|(second, first)| Conflict::Resource { thing: c, first, second }));
        }
    }

    /// Queues that lead from a segment back to it.
    fn circle(&self, crossings: &Crossings) -> Option<Vec<PortId>> {
        let home = |q: PortId| self.handler_of(q).and_then(|h| self.handlers[h]);
        // The queues on the way from a segment to where each other one was reached from.
        for start in (0..self.m.segments.len() as u32).map(SegmentId) {
            let mut ways: BTreeMap<SegmentId, Vec<PortId>> = BTreeMap::new();
            let mut open = vec![(start, Vec::new())];
            while let Some((at, way)) = open.pop() {
                for (q, _) in crossings.iter().filter(|(_, senders)| senders.contains(&at)) {
                    let Some(to) = home(*q) else { continue };
                    let way: Vec<PortId> = way.iter().copied().chain([*q]).collect();
                    if to == start {
                        return Some(way);
                    }
                    if ways.insert(to, way.clone()).is_none() {
                        open.push((to, way));
                    }
                }
            }
        }
        None
    }
}

/// The first handler on the NIC, and the first other one.
type Ends = (Option<usize>, Option<usize>);

fn meet(ends: &mut Ends, nic: bool, handler: usize) {
    let end = if nic { &mut ends.0 } else { &mut ends.1 };
    end.get_or_insert(handler);
}

/// Whether each core runs the handler, for itself.
fn on_all(h: &Handler) -> bool {
    matches!(h.on, On::Signal(_) | On::Fault) && h.segment.is_none()
}
