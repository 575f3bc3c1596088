//! Steering: which parts of a frame decide the core that handles it, so that tables need no locks.
//!
//! In: handlers of frames. Out: `Table.local` and [`Module::steer`]. A table's key is made of
//! parts. A part can steer if it is an expression over the frame, the same at every use. The key of
//! the app is the largest set of parts that the keys of as many tables as possible have in common.
//! Their tables become local, and the others are shared. Two parts that change places (a flow and
//! its answer) count as an unordered pair, and steer symmetrically. [`plan`] also gives the
//! reasons, for `explain`.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and FieldKind")]

use super::flow_keys::{guarded, is_part, meet, needed, same_part, split, KeyPart, FRAME, MOST_PARTS};
use super::frame_ways::{resolve, FrameWay};
use super::header_facts::HeaderFacts;
use crate::core_partition::{self, Resource};
use crate::*;

/// The steering key, and per table whether it is local and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub unit: Option<UnitId>,
    pub parts: Vec<KeyPart>,
    pub tables: Vec<(bool, String)>,
    /** Packets change this table, of which every core would have a copy: one core handles them all. */
    pub one_core: Option<TableId>,
}

/// The parts of a table's key at one use (None: not known from the frame), and the headers that are
/// known there.
#[derive(Clone)]
struct Use<'m> {
    parts: Vec<Option<KeyPart>>,
    facts: HeaderFacts<'m>,
}

impl Use<'_> {
    fn part(&self, n: usize) -> Option<&KeyPart> {
        self.parts.get(n)?.as_ref()
    }

    /// Two parts in no order.
    fn pair(&self, i: usize, j: usize) -> Option<KeyPart> {
        match (self.part(i)?, self.part(j)?) {
            (KeyPart::One(a), KeyPart::One(b)) => Some(KeyPart::Pair(a.clone(), b.clone())),
            _ => None,
        }
    }
}

pub fn run(m: &mut Module) {
    if !m.handlers.iter().any(|h| matches!(h.on, On::Frame { .. })) {
        return;
    }
    let plan = plan(m);
    for (t, (local, _)) in m.tables.iter_mut().zip(&plan.tables) {
        t.local = *local
    }
    by(m, plan, false);
}

/// For a run on one core, which has all tables to itself: those of entries of one size need no
/// locks. Not where connections use them, too, on cores of their own, and not small tables that
/// evict or expire: shared ones do that exactly.
pub fn alone(m: &mut Module) {
    let frames = m.handlers.iter().any(|h| matches!(h.on, On::Frame { .. }));
    if !frames || m.handlers.iter().any(|h| h.on.is_of_connections()) {
        return;
    }
    let own: Vec<bool> = m.tables.iter().map(|t| needs_no_locks(m, t)).collect();
    for (t, own) in m.tables.iter_mut().zip(own) {
        t.local |= own
    }
    super::replan(m);
}

/// Of a table that one core uses.
fn needs_no_locks(m: &Module, t: &Table) -> bool {
    m.sharing(t) == TableSharing::One && fixed(m, t) && !is_exact(t) && !of_several_cores(m, t)
}

/// Whether a segment of several cores uses a table.
fn of_several_cores(m: &Module, t: &Table) -> bool {
    let wide = |h: &Handler| h.segment.and_then(|s| m.segments.get(s.index())).is_some_and(|s| s.cores > 1);
    let at = m.tables.iter().position(|o| std::ptr::eq(o, t));
    let table = at.map(|n| Resource::Table(TableId(n as u32)));
    m.handlers.iter().filter(|h| wide(h)).any(|h| table.is_some_and(|t| core_partition::Uses::of(m, h).touches(t)))
}

/// Of an app with segments: each table belongs to one. Nothing is steered by the runtime.
fn segment_plan(m: &Module) -> Plan {
    let table = |t: &Table| match (t.local || needs_no_locks(m, t), m.sharing(t)) {
        (true, _) => (true, "of one segment, without locks".into()),
        (_, TableSharing::One) if of_several_cores(m, t) => (false, "of a segment's cores, with locks".into()),
        (_, TableSharing::One) => (false, "of one segment, with locks".into()),
        (_, TableSharing::Parts) => (false, "of one segment".into()),
        (_, TableSharing::Copies) => (false, "each segment has a copy".into()),
    };
    Plan { tables: m.tables.iter().map(table).collect(), ..Plan::default() }
}

/// Has the app steer as planned; `everywhere`: by its key on ports, too, that could do without.
pub(super) fn by(m: &mut Module, plan: Plan, everywhere: bool) {
    let (mut own, outer) = (Vec::new(), plan.unit.map(|u| outer_addresses(m, u)).unwrap_or_default());
    let keys: Vec<Expr> = plan.parts.iter().flat_map(|p| p.exprs()).cloned().collect();
    let symmetric = !plan.parts.is_empty() && plan.parts.iter().all(|p| matches!(p, KeyPart::Pair(..)));
    let mut steer = Vec::new();
    if plan.one_core.is_some() {
        let number = m.intern(Ty::UInt(32));
        for h in &m.handlers {
            let On::Frame { port, unit } = h.on else { continue };
            if !is_loop(m, port) {
                steer.push(Steer { port, unit, keys: vec![Expr::new(number, ExprKind::Int(0))], symmetric: false })
            }
        }
    } else if let (Some(unit), false) = (plan.unit, keys.is_empty()) {
        let common: Vec<Expr> = plan.parts.iter().flat_map(|p| p.lowered(m, unit)).collect();
        for e in outer {
            own.push(guarded(m, unit, e))
        }
        // A frame from a loop stays on the core that sent it.
        let loops = m.handlers.iter().any(|h| matches!(h.on, On::Frame { port, .. } if is_loop(m, port)));
        for h in &m.handlers {
            let On::Frame { port, unit: u } = h.on else { continue };
            if u != unit || is_loop(m, port) {
                continue;
            }
            // Where no local table is used, any core may handle a frame: flows are spread, each on
            // one core.
            let mut bound = own.is_empty() || loops || everywhere;
            m.reached(&h.body.block, &mut |b| {
                walk::stmts(b, &mut |s| bound |= s.kind.table().is_some_and(|t| m.tables[t.index()].local))
            });
            let (keys, symmetric) = if bound { (common.clone(), symmetric) } else { (own.clone(), false) };
            steer.push(Steer { port, unit, keys, symmetric });
        }
    }
    m.steer = steer;
}

fn is_loop(m: &Module, p: PortId) -> bool {
    m.ports.get(p.index()).is_some_and(|p| p.kind.is_loop())
}

/// The addresses of the network headers that no other one can be around.
fn outer_addresses(m: &Module, unit: UnitId) -> Vec<Expr> {
    let layers = m.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
    let network = |n: &u32| m.unit(layers[*n as usize].unit).header.addresses;
    let all: Vec<u32> = (0..layers.len() as u32).filter(|n| network(n).is_some()).collect();
    all.iter()
        .filter(|n| !all.iter().any(|o| frame::leads_to(layers, *o, **n)))
        .flat_map(|n| {
            let (l, (src, dst)) = (&layers[*n as usize], network(n).unwrap_or((FieldId(0), FieldId(0))));
            let read = |f: FieldId| {
                Expr::new(
                    m.unit(l.unit).fields[f.index()].ty,
                    ExprKind::Read(Path { root: FRAME, steps: vec![Step::Field(l.header), Step::Field(f)] }),
                )
            };
            [read(src), read(dst)]
        })
        .collect()
}

/// Whether entries can lie in one core's memory: keys and values of one size.
fn fixed(m: &Module, t: &Table) -> bool {
    !layout::has_bytes(m, t.key)
        && !layout::has_bytes(m, t.value)
        && !layout::has_list(m, t.key)
        && !layout::has_list(m, t.value)
}

/// Finds the key without changing the module.
pub fn plan(m: &Module) -> Plan {
    if !m.segments.is_empty() {
        return segment_plan(m);
    }
    let uses = TableUses::of(m);
    let candidates: Vec<Option<Vec<KeyPart>>> = (0..m.tables.len()).map(|t| uses.derivable(t)).collect();
    let mut best: (Vec<usize>, Vec<KeyPart>) = (Vec::new(), Vec::new());
    for (seed, parts) in candidates.iter().enumerate() {
        let Some(parts) = parts else { continue };
        let (mut common, mut members) = (parts.clone(), vec![seed]);
        for (n, other) in candidates.iter().enumerate() {
            let Some(other) = other else { continue };
            if n == seed {
                continue;
            }
            let mut both = meet(&common, other);
            both.retain(|p| uses.has(n, p) && members.iter().all(|t| uses.has(*t, p)));
            if !both.is_empty() {
                common = both;
                members.push(n)
            }
        }
        if members.len() > best.0.len() {
            best = (members, common)
        }
    }
    let one_core = for_one_core(m);
    let parts = needed(best.1);
    let key = named(m, uses.unit, &parts);
    let tables = (0..m.tables.len())
        .map(|t| {
            let why = uses.why(t, candidates[t].is_some());
            match &why {
                _ if m.tables[t].kind == TableKind::Ring => (false, "per core: a ring of its own on each".into()),
                _ if m.sharing(&m.tables[t]) == TableSharing::Copies => match one_core {
                    Some(_) => (false, "on one core, with all packets".into()),
                    None => (false, "a copy per core: packets only read it".into()),
                },
                None if !fixed(m, &m.tables[t]) => (false, "shared: its entries have no fixed size".into()),
                _ if best.0.contains(&t) => (true, format!("per core: frames are steered by {key}")),
                Some(why) => (false, format!("shared{}: {why}", cost(&m.tables[t]))),
                None => (
                    false,
                    format!(
                        "shared{}: its key has no part in common with those of the local tables",
                        cost(&m.tables[t])
                    ),
                ),
            }
        })
        .collect();
    Plan { unit: uses.unit, parts, tables, one_core }
}

/// The tables of an app that are local by its own key, with their uses.
pub(super) struct LocalTables<'m> {
    uses: TableUses<'m>,
    local: Vec<usize>,
}

impl<'m> LocalTables<'m> {
    pub fn of(m: &'m Module) -> LocalTables<'m> {
        let (uses, plan) = (TableUses::of(m), plan(m));
        let is_used = |t: &usize| plan.tables[*t].0 && !uses.of[*t].is_empty();
        let local = (0..plan.tables.len()).filter(is_used).collect();
        LocalTables { uses, local }
    }

    pub fn is_empty(&self) -> bool {
        self.local.is_empty()
    }

    /// Whether steering by a part keeps each of their entries on one core.
    pub fn have(&self, part: &KeyPart) -> bool {
        self.local.iter().all(|t| self.uses.has(*t, part))
    }
}

/// The cost of a shared table at each use.
fn cost(t: &Table) -> &'static str {
    match t.kind {
        TableKind::Exact | TableKind::Array => " (on several cores a lock at each use)",
        TableKind::CountMin => " (on several cores four atomic additions at each count)",
        TableKind::Bloom | TableKind::HyperLogLog => " (on several cores an atomic change for each new key)",
        TableKind::Wildcard | TableKind::Lpm | TableKind::Ring => "",
    }
}

/// The table for which one core handles all packets: they change what every core would have a copy
/// of.
fn for_one_core(m: &Module) -> Option<TableId> {
    let copied = |t: &Table| matches!(t.kind, TableKind::Wildcard | TableKind::Lpm) && m.changed_by_traffic(t);
    m.tables.iter().position(copied).map(|n| TableId(n as u32))
}

struct TableUses<'m> {
    m: &'m Module,
    /// The packet type of all frame handlers.
    unit: Option<UnitId>,
    mixed: bool,
    of: Vec<Vec<Use<'m>>>,
    /// Used where no packet that was steered is at hand, on every core, with keys of its own: why
    /// that is.
    outside: Vec<Option<&'static str>>,
    /// Keys that a walk over this core's part has given, in the handler at hand.
    walked: Vec<(TableId, LocalId)>,
}

impl<'m> TableUses<'m> {
    fn of(m: &'m Module) -> TableUses<'m> {
        let mut uses = TableUses {
            m,
            unit: None,
            mixed: false,
            of: vec![Vec::new(); m.tables.len()],
            outside: vec![None; m.tables.len()],
            walked: Vec::new(),
        };
        for h in &m.handlers {
            uses.handler(h)
        }
        for i in &m.inputs {
            uses.input(i)
        }
        uses
    }

    /// No key is known at the uses of tables in a block.
    fn unknown(&mut self, block: &Block, why: &'static str) {
        walk::stmts(block, &mut |s| {
            if let (Some((t, _)), false) = (keyed(&s.kind), self.own(&s.kind)) {
                self.outside[t.index()] = Some(why)
            }
        });
    }

    /// Whether the program changes frames or makes new ones.
    fn changes(&self) -> bool {
        self.m.handlers.iter().map(|h| &h.body).chain(self.m.inputs.iter().filter_map(|i| i.body.as_ref())).any(changes)
    }

    /// The frames of an element that is joined to: its senders', which may have been changed.
    fn input(&mut self, i: &Input) {
        let Some(body) = &i.body else { return };
        self.walked = walked(&body.block);
        if self.changes() {
            return self.unknown(&body.block, "it is also used in a large element, to which packets may come changed");
        }
        self.frames(i.unit, &body.block);
    }

    fn frames(&mut self, unit: UnitId, block: &Block) {
        if *self.unit.get_or_insert(unit) != unit {
            self.mixed = true
        }
        self.block(block, &mut FrameWay::new(self.m, unit));
    }

    fn handler(&mut self, h: &Handler) {
        self.walked = walked(&h.body.block);
        let all = |this: &mut Self, why| this.unknown(&h.body.block, why);
        // A frame that comes back into the program was steered as another one may be.
        let unit = match h.on {
            On::Frame { unit, port } if !is_loop(self.m, port) => Some((unit, port)),
            _ => None,
        };
        let Some((unit, port)) = unit else {
            // Connections are on cores of their own: what they walk or count must be all of it.
            if h.on.is_of_connections() {
                walk::stmts(&h.body.block, &mut |s| {
                    if let Some(t) = s.kind.table() {
                        self.outside[t.index()] = Some("connections use it, too, on cores of their own")
                    }
                });
            } else if !matches!(h.on, On::Signal(_) | On::Test(_) | On::Check { .. }) {
                all(self, "it is also used by handlers that have no packet")
            }
            return;
        };
        // A frame from a queue is on the core of the one that went in; changed on the way, it has
        // another key.
        if self.m.is_queue(port) && self.changes() {
            return all(self, "it is also used behind a queue, where packets may have been changed");
        }
        self.frames(unit, &h.body.block);
    }

    /// Removes an entry that a walk has given: it is this core's.
    fn own(&self, s: &StmtKind) -> bool {
        let StmtKind::TableRemove { table, key, .. } = s else { return false };
        matches!(&*key.kind, ExprKind::Local(l) if self.walked.contains(&(*table, *l)))
    }

    /// Statements in the order in which they stand; what is set twice, or edited before, is not
    /// known. Answers whether the end is reached.
    fn block(&mut self, block: &Block, way: &mut FrameWay<'m>) -> bool {
        block.iter().all(|s| self.stmt(&s.kind, way))
    }

    fn stmt(&mut self, s: &StmtKind, way: &mut FrameWay<'m>) -> bool {
        if let (Some((t, key)), false) = (keyed(s), self.own(s)) {
            let mut parts = Vec::new();
            split(&resolve(key, &way.known), &mut parts);
            let of_frame = |p: &KeyPart| p.exprs().iter().all(|e| way.is_from_frame(e));
            let parts = parts.into_iter().map(|p| p.filter(of_frame).map(|p| p.rooted(Root::This, FRAME))).collect();
            self.of[t.index()].push(Use { parts, facts: way.facts.clone() });
        }
        if let StmtKind::TableInsert { table, .. } | StmtKind::TableDelete { table, .. } = s {
            self.outside[table.index()] = Some("it is also used without a key of the packet")
        }
        way.note(s);
        match s {
            StmtKind::If { cond, then, other } => {
                let (before, mut end) = (way.facts.clone(), None::<HeaderFacts>);
                for (block, holds) in [(then, true), (other, false)] {
                    way.facts.clone_from(&before);
                    way.learn(cond, holds);
                    if self.block(block, way) {
                        match &mut end {
                            Some(end) => end.meet(&way.facts),
                            None => end = Some(way.facts.clone()),
                        }
                    }
                }
                let reached = end.is_some();
                way.facts = end.unwrap_or(before);
                return reached;
            }
            StmtKind::Require { cond, .. } => way.learn(cond, true),
            StmtKind::Break | StmtKind::Continue | StmtKind::Return(_) | StmtKind::Fault { .. } => return false,
            _ => {
                let before = way.facts.clone();
                walk::stmt_blocks(s, &mut |b| {
                    self.block(b, way);
                    way.facts.clone_from(&before)
                });
            }
        }
        true
    }

    /// Whether a part of a key is a part of a table's, at each of its uses.
    fn has(&self, t: usize, part: &KeyPart) -> bool {
        let Some(first) = self.of[t].first() else { return false };
        let all = |is: &dyn Fn(&Use) -> bool| self.of[t].iter().all(is);
        let places = || 0..first.parts.len();
        let whole = |n: usize| all(&|u| u.part(n).is_some_and(|p| is_part(part, p, &u.facts)));
        let in_two = |i: usize, j: usize| all(&|u| u.pair(i, j).is_some_and(|p| is_part(part, &p, &u.facts)));
        let pair = matches!(part, KeyPart::Pair(..));
        places().any(whole) || pair && places().any(|i| (0..i).any(|j| in_two(i, j)))
    }

    /// The parts of a table's key that can be steered by.
    fn derivable(&self, t: usize) -> Option<Vec<KeyPart>> {
        if self.mixed || self.outside[t].is_some() || !divided(&self.m.tables[t]) {
            return None;
        }
        let (first, rest) = self.of[t].split_first()?;
        let mut found: Vec<KeyPart> = Vec::new();
        for (n, part) in first.parts.iter().enumerate() {
            let Some(part) = part else { continue };
            let general = rest.iter().try_fold(part.clone(), |p, u| same_part(&p, u.part(n)?));
            if let Some(p) = general {
                found.push(p)
            }
        }
        // Two parts that are the same two at every use, in any order.
        for i in 0..first.parts.len() {
            for j in i + 1..first.parts.len() {
                let Some(pair) = first.pair(i, j).filter(KeyPart::is_of_one_type) else { continue };
                let pair = rest.iter().try_fold(pair, |p, u| same_part(&p, &u.pair(i, j)?));
                if let (Some(p), true) = (pair, found.len() < MOST_PARTS) {
                    found.push(p)
                }
            }
        }
        found.retain(|p| p.exprs().into_iter().all(|e| self.of_the_flow(e)) && self.has(t, p));
        (!found.is_empty()).then_some(found)
    }

    /// Whether a part of a key is the same in all packets of a flow. What is not, such as IPv4's
    /// identification, would spread a flow over the cores, and its packets would overtake each
    /// other.
    fn of_the_flow(&self, e: &Expr) -> bool {
        let layers = self.unit.and_then(|u| self.m.unit(u).frame.as_ref()).map_or(&[][..], |f| &f.layers);
        let mut steady = true;
        walk::expr(e, &mut |e| {
            let ExprKind::Read(Path { steps, .. }) = &*e.kind else { return };
            let [Step::Field(header), Step::Field(field), ..] = steps[..] else { return };
            let Some(unit) = layers.iter().find(|l| l.header == header).map(|l| self.m.unit(l.unit)) else { return };
            steady &= !unit.is_per_packet(field);
        });
        steady
    }

    fn why(&self, t: usize, derivable: bool) -> Option<String> {
        if derivable {
            return None;
        }
        Some(if self.mixed {
            "the app's ports give packets of several types".into()
        } else if is_exact(&self.m.tables[t]) {
            "below 1024 entries, what is used least recently gives way, of all cores' entries, and expiry is exact"
                .into()
        } else if !divided(&self.m.tables[t]) {
            "its kind is not divided by key".into()
        } else if self.of[t].is_empty() {
            "no handler of packets uses it by key".into()
        } else if let Some(why) = self.outside[t] {
            why.into()
        } else {
            "its keys at different uses have no part of the packet in common".into()
        })
    }
}

/// Whether parts of a table can be kept apart by parts of its keys.
fn divided(t: &Table) -> bool {
    !is_exact(t) && matches!(t.kind, TableKind::Exact | TableKind::Array | TableKind::Bloom | TableKind::CountMin)
}
/// A small table that evicts or expires. It is kept as one, in which the very entry that was used
/// least recently gives way, and time is exact.
fn is_exact(t: &Table) -> bool {
    t.kind == TableKind::Exact && t.capacity < 1024 && (t.evict_lru || t.idle > 0)
}
/// Keys that walks give, and nothing else sets.
fn walked(block: &Block) -> Vec<(TableId, LocalId)> {
    let (mut found, mut set) = (Vec::new(), Vec::new());
    walk::stmts(block, &mut |s| match &s.kind {
        StmtKind::TableNext { table, key, .. } => found.push((*table, *key)),
        other => set.extend(walk::defined(other).into_iter().flatten()),
    });
    found.retain(|(_, l)| !set.contains(l));
    found
}

/// Whether a body changes frames or makes new ones.
fn changes(b: &Body) -> bool {
    let mut hit = false;
    walk::stmts(&b.block, &mut |s| {
        hit |= match &s.kind {
            StmtKind::SendFrame { .. } => true,
            StmtKind::Frame { act: FrameAct::InC { .. }, .. } => elements::changes_frame(&s.kind),
            StmtKind::Frame { act, .. } => !matches!(act, FrameAct::Send { .. } | FrameAct::Checksum { .. }),
            _ => false,
        }
    });
    hit
}

fn keyed(s: &StmtKind) -> Option<(TableId, &Expr)> {
    match s {
        StmtKind::TableGet { table, key, .. }
        | StmtKind::TablePut { table, key, .. }
        | StmtKind::TableRemove { table, key, .. }
        | StmtKind::TableUpdate { table, key, .. } => Some((*table, key)),
        _ => None,
    }
}

// ---- for people ----

/// A key in words.
pub(super) fn named(m: &Module, unit: Option<UnitId>, parts: &[KeyPart]) -> String {
    let name = |p: &KeyPart| p.exprs().iter().map(|e| show(m, unit, e)).collect::<Vec<_>>().join(" with ");
    parts.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The fields that a part of the key reads: `ip4.src or ip6.src`. Of many headers in a row the
/// first and the last one are named: `ip4.proto or next of ext4 … ip6 (11 headers)`.
fn show(m: &Module, unit: Option<UnitId>, e: &Expr) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (header, field) in header_fields(m, unit, e) {
        match groups.iter_mut().find(|(name, _)| *name == field) {
            Some((_, headers)) => headers.push(header),
            None => groups.push((field, vec![header])),
        }
    }
    let group = |(field, headers): &(String, Vec<String>)| match headers.as_slice() {
        [first, .., last] if headers.len() > 3 => format!("{field} of {first} … {last} ({} headers)", headers.len()),
        few => few.iter().map(|header| format!("{header}.{field}")).collect::<Vec<_>>().join(" or "),
    };
    groups.iter().map(group).collect::<Vec<_>>().join(" or ")
}

/// The names of the headers and fields that an expression reads, each once.
fn header_fields(m: &Module, unit: Option<UnitId>, e: &Expr) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::new();
    walk::expr(e, &mut |e| {
        let (Some(unit), ExprKind::Read(p)) = (unit, &*e.kind) else { return };
        let [Step::Field(h), Step::Field(f), ..] = p.steps.as_slice() else { return };
        let header = m.unit(unit).fields.get(h.index());
        let field = header.and_then(|h| match &h.kind {
            FieldKind::Unit { unit, .. } => m.unit(*unit).fields.get(f.index()),
            _ => None,
        });
        let name = |f: Option<&Field>| f.and_then(|f| f.name.clone()).unwrap_or("_".into());
        let name = (name(header), name(field));
        if !names.contains(&name) {
            names.push(name)
        }
    });
    names
}
