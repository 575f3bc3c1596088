//! The boxes and arrows of a picture. In: a module. Out: ports, queues, handlers, elements, merges,
//! each with its lines, its tables, and the arrows between them.

use super::{Edge, EdgeKind, End, Line, Look, Node, Parts, Side};
use crate::*;
use desc::{PortKind, Sharing, Value};

/// The things that boxes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// A port at the left, where it is read, or at the right.
    Read(u32),
    Sent(u32),
    /// A queue, or a way back into the program.
    Inside(u32),
    Handler(usize),
    Merge(usize),
    /// By the first of its name: one instance stands in several wirings.
    Element(usize),
    /// Nodes of a wiring of the app.
    Input(u32),
}

struct Maker<'a> {
    m: &'a Module,
    keys: Vec<Key>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Boxes by the tables that they use.
    users: Vec<Vec<usize>>,
    /// The first box that counts.
    counted: Vec<Option<usize>>,
}

/// `live`: with the numbers of a running app.
pub(super) fn of(m: &Module, live: bool) -> Parts {
    let mut all = Maker {
        m,
        keys: vec![],
        nodes: vec![],
        edges: vec![],
        users: vec![vec![]; m.tables.len()],
        counted: vec![None; m.counters.len()],
    };
    all.ports();
    all.handlers();
    all.inputs();
    all.signals();
    all.merges();
    all.tables();
    all.counters();
    all.spread_segments();
    if !live {
        let is_fixed = |l: &Line| l.live.as_ref().is_none_or(|of| !of.starts_with("port "));
        all.nodes.iter_mut().for_each(|n| n.lines.retain(is_fixed));
    }
    let segments = m.segments.iter().map(|s| format!("segment {} on {s}", s.name)).collect();
    Parts { nodes: all.nodes, edges: all.edges, segments }
}

fn line(text: impl Into<String>) -> Line {
    Line { text: text.into(), live: None }
}

impl Maker<'_> {
    fn add(&mut self, key: Key, title: &str, lines: Vec<Line>, look: Look, side: Side) -> usize {
        if let Some(n) = self.keys.iter().position(|k| *k == key) {
            return n;
        }
        self.keys.push(key);
        self.nodes.push(Node { title: title.into(), lines, look, segment: None, tables: vec![], side });
        self.nodes.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, kind: EdgeKind) {
        let (from, to) = (End { node: from, table: None }, End { node: to, table: None });
        match self.edges.iter_mut().find(|e| e.from == from && e.to == to) {
            Some(e) if kind == EdgeKind::Exchange => e.kind = kind,
            Some(_) => {}
            None => self.edges.push(Edge { from, to, kind }),
        }
    }

    fn find(&self, key: Key) -> Option<usize> {
        self.keys.iter().position(|k| *k == key)
    }

    fn is_read(&self, port: usize) -> bool {
        let of = |on: &On| match on {
            On::Message { port, .. } | On::Piece { port, .. } | On::Frame { port, .. } => Some(port.index()),
            On::Upstream { upstream: c, .. } => self.m.upstreams.get(c.index()).map(|c| c.port.index()),
            On::Opened(_)
            | On::Greeting(_)
            | On::Probe(_)
            | On::Reset(_)
            | On::Closed(_)
            | On::UpstreamOpened(_)
            | On::UpstreamClosed(_)
            | On::Fault
            | On::Start
            | On::End
            | On::Every(_)
            | On::Signal(_)
            | On::Test(_)
            | On::Check { .. } => None,
        };
        // The nodes behind a merge are a handler of its output.
        let is_output = self.m.merges.iter().any(|g| g.to.index() == port);
        let is_input = self.m.merges.iter().any(|g| g.from.index() == port);
        is_input || !is_output && self.m.handlers.iter().any(|h| of(&h.on) == Some(port))
    }

    /// Ports that are read stand at the left; those that are only sent to come with their arrows.
    fn ports(&mut self) {
        for (n, p) in self.m.ports.iter().enumerate() {
            if p.kind.is_inside() || self.is_read(n) {
                self.port(n, true);
            } else {
                self.port(n, false);
            }
        }
    }

    fn port(&mut self, n: usize, read: bool) -> usize {
        let m = self.m;
        let p = &m.ports[n];
        let number = n as u32;
        if p.kind.is_queue() {
            let depth = match &p.kind {
                PortKind::Frames { engine: desc::FrameEngine::Lossless, .. } => "queue, lossless",
                PortKind::Listen(_) | PortKind::Connect(_) | PortKind::Frames { .. } => "queue",
            };
            let live = Some(format!("port {} discarded", p.name));
            let lines = vec![line(depth), Line { text: "discarded".into(), live }];
            return self.add(Key::Inside(number), &p.name, lines, Look::Queue, Side::Between);
        }
        if p.kind.is_loop() {
            return self.add(
                Key::Inside(number),
                &p.name,
                vec![line("frames built inside")],
                Look::Queue,
                Side::Between,
            );
        }
        let protocols: Vec<&str> =
            p.protocols.iter().filter_map(|q| m.protocols.get(q.index())).map(|q| q.name.as_str()).collect();
        let (word, value) = match &p.kind {
            PortKind::Listen(v) => ("listen", v),
            PortKind::Connect(v) => ("connect", v),
            PortKind::Frames { engine, names } => (text::engine_name(*engine), names),
        };
        let at = match value {
            Value::Param(n) => m.params.get(*n as usize).map_or(String::new(), |p| format!(" {}", p.name)),
            Value::Const(v) => format!(" {}", explain::constant(v)),
        };
        let udp = if p.udp { " udp" } else { "" };
        let session =
            p.protocols.iter().filter_map(|q| m.protocols.get(q.index())).any(|q| q.sharing == Sharing::Session);
        let word_of = |n| ["as", if session { "then" } else { "or" }].get(n).copied().unwrap_or("or");
        let mut lines = vec![line(format!("{word}{udp}{at}"))];
        lines.extend(protocols.iter().enumerate().map(|(n, q)| line(format!("{} {q}", word_of(n)))));
        let (what, text) = match (&p.kind, read) {
            (PortKind::Frames { .. }, true) => ("received", "received"),
            (PortKind::Frames { .. }, false) => ("sent", "sent"),
            _ => ("requests", "requests"),
        };
        lines.push(Line { text: text.into(), live: Some(format!("port {} {what}", p.name)) });
        match read {
            true => self.add(Key::Read(number), &p.name, lines, Look::Port, Side::Left),
            false => self.add(Key::Sent(number), &p.name, lines, Look::Port, Side::Right),
        }
    }

    /// Where messages to a port go.
    fn sent(&mut self, port: PortId) -> usize {
        match self.m.ports[port.index()].kind.is_inside() {
            true => self.port(port.index(), true),
            false => self.port(port.index(), false),
        }
    }

    /// Where messages of a port come from.
    fn source(&mut self, port: PortId) -> usize {
        let connects = matches!(self.m.ports[port.index()].kind, PortKind::Connect(_));
        self.port(port.index(), !connects)
    }

    fn handlers(&mut self) {
        for n in 0..self.m.handlers.len() {
            if self.own_signal(n).is_none() {
                self.handler(n)
            }
        }
    }

    /// Signals of elements are lines of their boxes.
    fn signals(&mut self) {
        const SIGNALS: &str = "signals ";
        let m = self.m;
        for (n, h) in m.handlers.iter().enumerate() {
            let Some((element, name)) = self.own_signal(n) else { continue };
            let Some(this) = self.find(Key::Element(element)) else {
                self.handler(n);
                continue;
            };
            match self.nodes[this].lines.iter_mut().find(|l| l.text.starts_with(SIGNALS)) {
                Some(l) => l.text.push_str(&format!(", {name}")),
                None => self.nodes[this].lines.push(line(format!("{SIGNALS}{name}"))),
            }
            self.block(this, &h.body.block)
        }
    }

    /// A handler that is a signal of an element and sends nothing. Given are the element, by the
    /// first of its name, and the signal's name in it.
    fn own_signal(&self, handler: usize) -> Option<(usize, String)> {
        let h = &self.m.handlers[handler];
        let (element, name) = self.m.signal_of(h.on)?.name.rsplit_once('.')?;
        let first = self.m.elements.iter().position(|e| e.name == element)?;
        let mut sends = false;
        walk::stmts(&h.body.block, &mut |s| {
            let act = matches!(s.kind, StmtKind::Frame { act: FrameAct::Send { .. }, .. });
            sends |= act || matches!(s.kind, StmtKind::Output { .. } | StmtKind::SendFrame { .. });
            sends |= matches!(s.kind, StmtKind::Send { .. } | StmtKind::Call { .. });
            sends |= matches!(s.kind, StmtKind::Tell { .. } | StmtKind::Ask { .. } | StmtKind::Deliver { .. });
        });
        (!sends).then(|| (first, name.to_string()))
    }

    fn handler(&mut self, n: usize) {
        let m = self.m;
        let h = &m.handlers[n];
        let look = match h.on {
            On::Test(_) | On::Check { .. } => return,
            On::Signal(_) if m.signal_of(h.on).is_some_and(|s| of_table(m, &s.name)) => return,
            On::Every(_) | On::Start | On::End | On::Signal(_) | On::Fault => Look::Event,
            On::Message { .. }
            | On::Piece { .. }
            | On::Frame { .. }
            | On::Opened(_)
            | On::Greeting(_)
            | On::Probe(_)
            | On::Reset(_)
            | On::Closed(_)
            | On::Upstream { .. }
            | On::UpstreamOpened(_)
            | On::UpstreamClosed(_) => Look::Handler,
        };
        let protocol = explain::handler_protocol(m, h).map(|p| line(format!("as {p}")));
        let steps = line(explain::steps(h.steps));
        let this =
            self.add(Key::Handler(n), &h.name, protocol.into_iter().chain([steps]).collect(), look, Side::Between);
        self.nodes[this].segment = h.segment.map(|s| s.index());
        let behind = m.merges.iter().any(|g| m.behind(g) == Some(HandlerId(n as u32)));
        match h.on {
            On::Message { port, .. } | On::Frame { port, .. } if !behind => {
                let from = self.source(port);
                let mut replies = false;
                walk::stmts(&h.body.block, &mut |s| replies |= matches!(s.kind, StmtKind::Reply { .. }));
                self.edge(from, this, if replies { EdgeKind::Exchange } else { EdgeKind::Message })
            }
            On::Upstream { upstream: c, .. } | On::UpstreamOpened(c) | On::UpstreamClosed(c) => {
                let from = self.source(m.upstreams[c.index()].port);
                self.edge(from, this, EdgeKind::Message)
            }
            On::Piece { port, .. } | On::Opened(port) | On::Closed(port) => {
                let from = self.source(port);
                self.edge(from, this, EdgeKind::Message)
            }
            On::Greeting(port) | On::Probe(port) | On::Reset(port) => {
                let to = self.source(port);
                self.edge(this, to, EdgeKind::Exchange)
            }
            On::Message { .. }
            | On::Frame { .. }
            | On::Fault
            | On::Start
            | On::End
            | On::Every(_)
            | On::Signal(_)
            | On::Test(_)
            | On::Check { .. } => {}
        }
        self.block(this, &h.body.block)
    }

    /// The targets of a block, and the tables and counters that it uses.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn block(&mut self, this: usize, block: &Block) {
        let m = self.m;
        let (mut to, mut tables, mut counters, mut queues) = (vec![], vec![], vec![], vec![]);
        walk::stmts(block, &mut |s| match &s.kind {
            StmtKind::Output { wire, .. } => match m.wires.get(wire.index()).map(|w| w.to) {
                Some(Target::Input { input, .. }) => to.push((Err(input), EdgeKind::Message)),
                Some(Target::Port { port, .. }) => to.push((Ok(port), EdgeKind::Message)),
                None => {}
            },
            StmtKind::Frame { act: FrameAct::Send { port, .. }, .. }
            | StmtKind::SendFrame { port, .. }
            | StmtKind::Send { port, .. } => to.push((Ok(*port), EdgeKind::Message)),
            StmtKind::Tell { to: peer, .. } => to.extend(m.port_of(*peer).map(|p| (Ok(p), EdgeKind::Message))),
            StmtKind::Ask { upstream, .. } => {
                to.extend(m.port_of(Peer::Upstream(*upstream)).map(|p| (Ok(p), EdgeKind::Exchange)))
            }
            StmtKind::Deliver { .. } => to.extend(m.port_of(Peer::Client).map(|p| (Ok(p), EdgeKind::Message))),
            StmtKind::Call { port, .. } => to.push((Ok(*port), EdgeKind::Exchange)),
            StmtKind::Count(counter, _) => counters.push(*counter),
            StmtKind::Queue { port, .. } => queues.push(*port),
            s => tables.extend(s.table()),
        });
        for (target, kind) in to {
            let target = match target {
                Ok(port) => self.sent(port),
                Err(input) => self.input(input),
            };
            self.edge(this, target, kind)
        }
        for t in tables {
            let users = &mut self.users[t.index()];
            if !users.contains(&this) {
                users.push(this)
            }
        }
        for q in queues {
            let queue = self.port(q.index(), true);
            self.uses(this, End { node: queue, table: None }, &m.ports[q.index()].name)
        }
        for c in counters {
            self.counted[c.index()].get_or_insert(this);
        }
    }

    fn input(&mut self, id: InputId) -> usize {
        let m = self.m;
        let i = &m.inputs[id.index()];
        match i.element {
            Some(e) => {
                let name = &m.elements[e.index()].name;
                let first = m.elements.iter().position(|o| o.name == *name).unwrap_or(e.index());
                let kind = line(m.elements[first].kind.clone());
                self.add(Key::Element(first), name, vec![kind], Look::Element, Side::Between)
            }
            None => self.add(Key::Input(id.0), &i.name, vec![line("wiring")], Look::Element, Side::Between),
        }
    }

    fn inputs(&mut self) {
        for n in 0..self.m.inputs.len() {
            let m = self.m;
            let Some(body) = &m.inputs[n].body else { continue };
            let this = self.input(InputId(n as u32));
            self.block(this, &body.block)
        }
    }

    /// A merge stands behind the nodes before it, and before those behind it.
    fn merges(&mut self) {
        let m = self.m;
        for (n, g) in m.merges.iter().enumerate() {
            let lines = vec![line(format!("merge of {} streams", g.inputs))];
            let this = self.add(Key::Merge(n), &g.name, lines, Look::Merge, Side::Between);
            let (from, to) = (self.source(g.from), self.sent(g.to));
            let of = |h: Option<HandlerId>| h.and_then(|h| self.find(Key::Handler(h.index())));
            let (before, behind) = (of(m.before(g)), of(m.behind(g)));
            if let Some(h) = before {
                self.edges.retain(|e| (e.from.node, e.to.node) != (h, to));
                self.edge(h, this, EdgeKind::Message)
            } else {
                self.edge(from, this, EdgeKind::Message)
            }
            self.edge(this, behind.unwrap_or(to), EdgeKind::Message)
        }
    }

    /// Each table stands below the first box that messages reach; events only name their tables.
    fn tables(&mut self) {
        for (n, t) in self.m.tables.iter().enumerate() {
            let users = std::mem::take(&mut self.users[n]);
            let is_event = |u: &usize| self.nodes[*u].look == Look::Event;
            let Some(owner) = users.iter().find(|u| !is_event(u)).or(users.first()).copied() else { continue };
            let kind = match t.kind {
                TableKind::Exact => "table".to_string(),
                kind @ TableKind::Wildcard
                | kind @ TableKind::Lpm
                | kind @ TableKind::Array
                | kind @ TableKind::Bloom
                | kind @ TableKind::CountMin
                | kind @ TableKind::HyperLogLog
                | kind @ TableKind::Ring => text::table_kind(kind).replace('_', " "),
            };
            let live = Some(format!("table {} entries", t.name));
            let lines = vec![Line { text: format!("{kind}, {}", explain::count(t.capacity)), live }];
            let table = Node {
                title: t.name.clone(),
                lines,
                look: Look::Table,
                segment: None,
                tables: vec![],
                side: Side::Between,
            };
            self.nodes[owner].tables.push(table);
            let place = End { node: owner, table: Some(self.nodes[owner].tables.len() - 1) };
            for user in users.into_iter().filter(|u| *u != owner) {
                self.uses(user, place, &t.name)
            }
        }
    }

    /// A dotted line to a table or queue; events only name it.
    fn uses(&mut self, user: usize, to: End, name: &str) {
        const USES: &str = "uses ";
        if self.nodes[user].look != Look::Event {
            let from = End { node: user, table: None };
            if !self.edges.iter().any(|e| (e.from, e.to) == (from, to)) {
                self.edges.push(Edge { from, to, kind: EdgeKind::Uses })
            }
            return;
        }
        match self.nodes[user].lines.iter_mut().find(|l| l.text.starts_with(USES)) {
            Some(l) if l.text[USES.len()..].split(", ").any(|n| n == name) => {}
            Some(l) => l.text.push_str(&format!(", {name}")),
            None => self.nodes[user].lines.push(line(format!("{USES}{name}"))),
        }
    }

    /// Counters are lines of the first box that counts, without the name of its instance.
    fn counters(&mut self) {
        for (n, c) in self.m.counters.iter().enumerate() {
            let Some(at) = self.counted[n] else { continue };
            let prefix = format!("{}.", self.nodes[at].title);
            let text = c.name.strip_prefix(&prefix).unwrap_or(&c.name).to_string();
            self.nodes[at]
                .lines
                .push(Line { text: format!("counter {text}"), live: Some(format!("counter {}", c.name)) })
        }
    }

    /// Elements and queues belong to the segment of a neighbour; ports stand outside.
    fn spread_segments(&mut self) {
        if self.m.segments.is_empty() {
            return;
        }
        for _ in 0..self.nodes.len() {
            let mut changed = false;
            for e in &self.edges {
                let (a, b) = (e.from.node, e.to.node);
                let free = |n: &Node| n.segment.is_none() && n.side == Side::Between;
                if free(&self.nodes[b]) && self.nodes[b].look != Look::Queue && self.nodes[a].segment.is_some() {
                    (self.nodes[b].segment, changed) = (self.nodes[a].segment, true)
                }
                // A queue stands with the handler of its packets.
                if free(&self.nodes[a]) && self.nodes[a].look == Look::Queue && self.nodes[b].segment.is_some() {
                    (self.nodes[a].segment, changed) = (self.nodes[b].segment, true)
                }
            }
            if !changed {
                break;
            }
        }
    }
}

/// Whether a signal is one of those that every table has.
fn of_table(m: &Module, signal: &str) -> bool {
    signal.rsplit_once('.').is_some_and(|(table, _)| m.tables.iter().any(|t| t.name == table))
}
