//! Steering: which parts of a frame decide the core that handles it, so that tables need no locks.
//!
//! In: handlers of frames. Out: `Table.local` and [`Module::steer`]. A table's key is made of
//! parts. A part can steer if it is an expression over the frame, the same at every use. The key of
//! the app is the largest set of parts that the keys of as many tables as possible have in common.
//! Their tables become local, and the others are shared. Two parts that change places (a flow and
//! its answer) count as an unordered pair, and steer symmetrically. [`plan`] also gives the
//! reasons, for `explain`.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and FieldKind")]

use crate::core_partition::{self, Resource};
use crate::*;
use std::collections::BTreeMap;

/// The steering key, and per table whether it is local and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub unit: Option<UnitId>,
    pub parts: Vec<KeyPart>,
    pub tables: Vec<(bool, String)>,
    /** Packets change this table, of which every core would have a copy: one core handles them all. */
    pub one_core: Option<TableId>,
}

/// Part of a flow key, over local 0 of a handler of frames.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyPart {
    One(Expr),
    /// Both, in no order.
    Pair(Expr, Expr),
}

/// The frame at hand. While keys are looked for, `Root::This` is the frame as it was when a local
/// was set.
const FRAME: Root = Root::Local(LocalId(0));

/// The parts of a table's key at one use; None: not known from the frame.
type Use = Vec<Option<KeyPart>>;

/// Tables that share a steering key beyond this many are not looked at together.
const MOST_PARTS: usize = 64;

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

impl KeyPart {
    pub(super) fn exprs(&self) -> Vec<&Expr> {
        match self {
            KeyPart::One(e) => vec![e],
            KeyPart::Pair(a, b) => vec![a, b],
        }
    }

    fn rooted(self, from: Root, to: Root) -> KeyPart {
        match self {
            KeyPart::One(e) => KeyPart::One(rooted(e, from, to)),
            KeyPart::Pair(a, b) => KeyPart::Pair(rooted(a, from, to), rooted(b, from, to)),
        }
    }

    /// The values to be hashed, zero where the headers they are read from are absent.
    fn lowered(&self, m: &mut Module, unit: UnitId) -> Vec<Expr> {
        match self {
            KeyPart::One(e) => vec![guarded(m, unit, e.clone())],
            KeyPart::Pair(a, b) => {
                let (a, b) = (guarded(m, unit, a.clone()), guarded(m, unit, b.clone()));
                let boolean = m.intern(Ty::Bool);
                let wide = m.intern(Ty::UInt(128));
                let number =
                    |e: &Expr| if e.ty == wide { e.clone() } else { Expr::new(wide, ExprKind::Cast(e.clone())) };
                let less = Expr::new(boolean, ExprKind::Binary(BinOp::Lt, number(&a), number(&b)));
                let pick = |x: &Expr, y: &Expr| Expr::new(x.ty, ExprKind::If(less.clone(), x.clone(), y.clone()));
                vec![pick(&a, &b), pick(&b, &a)]
            }
        }
    }
}

/// Finds the key without changing the module.
pub fn plan(m: &Module) -> Plan {
    if !m.segments.is_empty() {
        return segment_plan(m);
    }
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
            let both = meet(&common, other);
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
    of: Vec<Vec<Use>>,
    /// Used where no packet that was steered is at hand, on every core, with keys of its own: why
    /// that is.
    outside: Vec<Option<&'static str>>,
    /// Keys that a walk over this core's part has given, in the handler at hand.
    walked: Vec<(TableId, LocalId)>,
}

impl TableUses<'_> {
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
        self.block(block, unit, &mut BTreeMap::new(), &mut Vec::new());
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
    /// known.
    fn block(
        &mut self,
        block: &Block,
        unit: UnitId,
        known: &mut BTreeMap<LocalId, Option<Expr>>,
        changed: &mut Vec<(FieldId, FieldId)>,
    ) {
        for s in block {
            if let (Some((t, key)), false) = (keyed(&s.kind), self.own(&s.kind)) {
                let mut parts = Vec::new();
                let key = resolve(key, known);
                split(&key, &mut parts);
                let parts = parts
                    .into_iter()
                    .map(|p| {
                        p.filter(|p| p.exprs().iter().all(|e| from_frame(e, changed)))
                            .map(|p| p.rooted(Root::This, FRAME))
                    })
                    .collect();
                self.of[t.index()].push(parts);
            }
            if let StmtKind::TableInsert { table, .. } | StmtKind::TableDelete { table, .. } = &s.kind {
                self.outside[table.index()] = Some("it is also used without a key of the packet")
            }
            match &s.kind {
                StmtKind::Set(l, e) => {
                    let value = resolve(e, known);
                    // A value that was read before an edit stays the same.
                    let value = from_frame(&value, changed).then(|| rooted(value, FRAME, Root::This));
                    known.entry(*l).and_modify(|v| *v = None).or_insert(value);
                }
                StmtKind::SetField(l, ..) | StmtKind::Push(l, _) => {
                    known.insert(*l, None);
                }
                StmtKind::Frame { act: FrameAct::Set { layer, field, .. }, .. } => {
                    if let Some(l) = self.m.unit(unit).frame.as_ref().and_then(|f| f.layers.get(*layer as usize)) {
                        changed.push((l.header, *field))
                    }
                }
                _ => {
                    for l in walk::defined(&s.kind).into_iter().flatten() {
                        known.insert(l, None);
                    }
                }
            }
            walk::stmt_blocks(&s.kind, &mut |b| self.block(b, unit, known, changed));
        }
    }

    /// The parts of a table's key that can be steered by.
    fn derivable(&self, t: usize) -> Option<Vec<KeyPart>> {
        if self.mixed || self.outside[t].is_some() || !divided(&self.m.tables[t]) {
            return None;
        }
        let (first, rest) = self.of[t].split_first()?;
        let mut found: Vec<KeyPart> = Vec::new();
        for (n, part) in first.iter().enumerate() {
            let Some(part) = part else { continue };
            let general = rest.iter().try_fold(part.clone(), |p, u| same_part(&p, u.get(n)?.as_ref()?));
            if let Some(p) = general {
                found.push(p)
            }
        }
        let singles = |u: &Use, n: usize| match u.get(n) {
            Some(Some(KeyPart::One(e))) => Some(e.clone()),
            _ => None,
        };
        // Two parts that are the same two at every use, in any order.
        for i in 0..first.len() {
            for j in i + 1..first.len() {
                let (Some(a), Some(b)) = (singles(first, i), singles(first, j)) else { continue };
                if a.ty != b.ty {
                    continue;
                }
                let pair = rest.iter().try_fold(KeyPart::Pair(a, b), |p, u| {
                    same_part(&p, &KeyPart::Pair(singles(u, i)?, singles(u, j)?))
                });
                if let (Some(p), true) = (pair, found.len() < MOST_PARTS) {
                    found.push(p)
                }
            }
        }
        found.retain(|p| p.exprs().into_iter().all(|e| self.of_the_flow(e)));
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

/// The expression with the locals replaced whose value is known.
fn resolve(e: &Expr, known: &BTreeMap<LocalId, Option<Expr>>) -> Expr {
    let mut e = e.clone();
    walk::expr_mut(&mut e, &mut |e| {
        if let ExprKind::Local(l) = &*e.kind {
            if let Some(Some(v)) = known.get(l) {
                *e = v.clone()
            }
        }
    });
    let mut simple = e;
    walk::expr_mut(&mut simple, &mut |e| {
        let ExprKind::Get(a, n) = &*e.kind else { return };
        if let ExprKind::Make(es) = &*a.kind {
            if let Some(x) = es.get(*n as usize) {
                *e = x.clone()
            }
        }
    });
    simple
}

fn rooted(mut e: Expr, from: Root, to: Root) -> Expr {
    walk::expr_mut(&mut e, &mut |e| {
        if let ExprKind::Read(p) | ExprKind::Case(p, _) = &mut *e.kind {
            if p.root == from {
                p.root = to
            }
        }
    });
    e
}

/// Whether an expression is over the frame alone, with nothing that was edited.
fn from_frame(e: &Expr, changed: &[(FieldId, FieldId)]) -> bool {
    let mut ok = true;
    let mut reads = false;
    walk::expr(e, &mut |e| match &*e.kind {
        ExprKind::Read(p) => {
            reads = true;
            let edited =
                matches!(p.steps.as_slice(), [Step::Field(h), Step::Field(f), ..] if changed.contains(&(*h, *f)));
            ok &= p.root == Root::This || p.root == FRAME && !edited;
        }
        ExprKind::Case(p, _) => ok &= p.root == FRAME || p.root == Root::This,
        ExprKind::FrameInstance(LocalId(0)) => {}
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Cast(_)
        | ExprKind::If(..)
        | ExprKind::InRanges(..)
        | ExprKind::Make(_)
        | ExprKind::Get(..) => {}
        _ => ok = false,
    });
    ok && reads
}

/// The parts of a key: components of records and tuples; a pair ordered by comparison is unordered.
fn split(e: &Expr, into: &mut Vec<Option<KeyPart>>) {
    match &*e.kind {
        ExprKind::Make(es) => es.iter().for_each(|e| split(e, into)),
        ExprKind::If(_, a, b) => match (&*a.kind, &*b.kind) {
            (ExprKind::Make(x), ExprKind::Make(y)) if x.len() == 2 && y.len() == 2 && x[0] == y[1] && x[1] == y[0] => {
                into.push(Some(KeyPart::Pair(x[0].clone(), x[1].clone())));
                into.push(None);
            }
            (ExprKind::Make(x), ExprKind::Make(y)) if x.len() == y.len() => {
                let ExprKind::If(c, ..) = &*e.kind else { return };
                for (a, b) in x.iter().zip(y) {
                    into.push(Some(KeyPart::One(Expr::new(a.ty, ExprKind::If(c.clone(), a.clone(), b.clone())))))
                }
            }
            _ => into.push(Some(KeyPart::One(e.clone()))),
        },
        _ => into.push(Some(KeyPart::One(e.clone()))),
    }
}

/// The more general of two expressions that are one value: a branch that was left out because its
/// condition was known counts as there.
fn same(a: &Expr, b: &Expr) -> Option<Expr> {
    if a == b {
        return Some(a.clone());
    }
    if a.ty != b.ty {
        return None;
    }
    match (&*a.kind, &*b.kind) {
        (ExprKind::If(c, x, y), ExprKind::If(d, p, q)) if c == d => {
            Some(Expr::new(a.ty, ExprKind::If(c.clone(), same(x, p)?, same(y, q)?)))
        }
        (ExprKind::If(c, x, y), _) if over_headers(c) => same(x, b).or_else(|| same(y, b)).map(|_| a.clone()),
        (_, ExprKind::If(c, x, y)) if over_headers(c) => same(a, x).or_else(|| same(a, y)).map(|_| b.clone()),
        (ExprKind::Cast(x), ExprKind::Cast(y)) => Some(Expr::new(a.ty, ExprKind::Cast(same(x, y)?))),
        _ => None,
    }
}

fn over_headers(e: &Expr) -> bool {
    let mut ok = true;
    walk::expr(e, &mut |e| {
        ok &= matches!(
            &*e.kind,
            ExprKind::Case(..)
                | ExprKind::Unary(UnOp::Not, _)
                | ExprKind::Binary(BinOp::And | BinOp::Or, ..)
                | ExprKind::Bool(_)
        )
    });
    ok
}

fn same_part(a: &KeyPart, b: &KeyPart) -> Option<KeyPart> {
    match (a, b) {
        (KeyPart::One(x), KeyPart::One(y)) => same(x, y).map(KeyPart::One),
        (KeyPart::Pair(a, b), KeyPart::Pair(x, y)) => match (same(a, x), same(b, y)) {
            (Some(a), Some(b)) => Some(KeyPart::Pair(a, b)),
            _ => Some(KeyPart::Pair(same(a, y)?, same(b, x)?)),
        },
        _ => None,
    }
}

/// The parts that both have.
fn meet(a: &[KeyPart], b: &[KeyPart]) -> Vec<KeyPart> {
    a.iter().filter_map(|p| b.iter().find_map(|q| same_part(p, q))).collect()
}

/// The parts of a key that two others have in common.
pub(super) fn common(a: &[KeyPart], b: &[KeyPart]) -> Vec<KeyPart> {
    needed(meet(&halves(a), &halves(b)))
}

/// With each two parts of one type as a pair, too: what one key orders another may not.
fn halves(parts: &[KeyPart]) -> Vec<KeyPart> {
    let mut all = parts.to_vec();
    for (n, p) in parts.iter().enumerate() {
        for q in &parts[n + 1..] {
            if let (KeyPart::One(a), KeyPart::One(b)) = (p, q) {
                if a.ty == b.ty && all.len() < MOST_PARTS {
                    all.push(KeyPart::Pair(a.clone(), b.clone()))
                }
            }
        }
    }
    all
}

/// Pairs whose two halves are there by themselves say nothing more.
fn needed(parts: Vec<KeyPart>) -> Vec<KeyPart> {
    let one = |e: &Expr| parts.iter().any(|p| matches!(p, KeyPart::One(x) if x == e));
    parts
        .iter()
        .filter(|p| match p {
            KeyPart::One(_) => true,
            KeyPart::Pair(a, b) => !(one(a) || one(b)),
        })
        .cloned()
        .collect()
}

// ---- where the headers are absent ----

/// When all headers are there that an expression reads; None: always.
fn needs(m: &Module, unit: UnitId, e: &Expr) -> Option<Expr> {
    let both = |a: Option<Expr>, b: Option<Expr>| match (a, b) {
        (Some(a), Some(b)) if a != b => Some(Expr::new(a.ty, ExprKind::Binary(BinOp::And, a, b))),
        (a, b) => a.or(b),
    };
    match &*e.kind {
        ExprKind::Read(p) => {
            let Some(Step::Field(h)) = p.steps.first() else { return None };
            let l = m.unit(unit).frame.as_ref()?.layers.iter().find(|l| l.header == *h)?;
            let boolean = m.find_type(&Ty::Bool)?;
            Some(Expr::new(boolean, ExprKind::Case(Path { root: p.root, steps: vec![Step::Field(l.switch)] }, 0)))
        }
        ExprKind::If(c, a, b) => {
            let (a, b) = (needs(m, unit, a).filter(|a| a != c), needs(m, unit, b));
            let (yes, no) =
                (Expr::new(c.ty, ExprKind::Bool(true)), |e: Option<Expr>, yes: &Expr| e.unwrap_or(yes.clone()));
            let branch = match (&a, &b) {
                (None, None) => None,
                _ => Some(Expr::new(c.ty, ExprKind::If(c.clone(), no(a, &yes), no(b, &yes)))),
            };
            both(needs(m, unit, c), branch)
        }
        _ => {
            let mut all = None;
            walk::children(e, &mut |e| all = both(all.take(), needs(m, unit, e)));
            all
        }
    }
}

fn guarded(m: &mut Module, unit: UnitId, e: Expr) -> Expr {
    let Some(cond) = needs(m, unit, &e) else { return e };
    let zero = match m.ty(e.ty) {
        Ty::Ip => {
            let wide = m.intern(Ty::UInt(128));
            ExprKind::Cast(Expr::new(wide, ExprKind::Int(0)))
        }
        Ty::Bool => ExprKind::Bool(false),
        Ty::Unit
        | Ty::UInt(_)
        | Ty::Int(_)
        | Ty::Bytes(_)
        | Ty::Endpoint
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Record(_)
        | Ty::Tuple(_)
        | Ty::Msg(_) => ExprKind::Int(0),
    };
    Expr::new(e.ty, ExprKind::If(cond, e.clone(), Expr::new(e.ty, zero)))
}

// ---- for people ----

/// A key in words.
pub(super) fn named(m: &Module, unit: Option<UnitId>, parts: &[KeyPart]) -> String {
    let name = |p: &KeyPart| p.exprs().iter().map(|e| show(m, unit, e)).collect::<Vec<_>>().join(" with ");
    parts.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The fields that a part of the key reads: `ip4.src or ip6.src`.
fn show(m: &Module, unit: Option<UnitId>, e: &Expr) -> String {
    let mut names: Vec<String> = Vec::new();
    walk::expr(e, &mut |e| {
        let (Some(unit), ExprKind::Read(p)) = (unit, &*e.kind) else { return };
        let [Step::Field(h), Step::Field(f), ..] = p.steps.as_slice() else { return };
        let header = m.unit(unit).fields.get(h.index());
        let field = header.and_then(|h| match &h.kind {
            FieldKind::Unit { unit, .. } => m.unit(*unit).fields.get(f.index()),
            _ => None,
        });
        let name = |f: Option<&Field>| f.and_then(|f| f.name.clone()).unwrap_or("_".into());
        let name = format!("{}.{}", name(header), name(field));
        if !names.contains(&name) {
            names.push(name)
        }
    });
    names.join(" or ")
}
