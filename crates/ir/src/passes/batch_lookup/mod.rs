//! The lookups that are done ahead for a whole batch, and their keys.
//!
//! In: handlers of frames, behind the passes that change statements. Out: [`BatchLookup`] where a
//! handler is sure to use a table whose key depends on the frame alone. That is the first use of an
//! exact table of one core, a lookup in a table of masks that no frame changes, or both. With both,
//! the second follows a miss in the first. A backend then packs and hashes the keys of all frames
//! and prefetches the entries. After that it runs the handler for each frame.

mod path;

use crate::plans::{BatchLookup, HeaderReuse, TableLookup};
use crate::*;
pub use path::{changes_frame, over_frame};
use path::{Goal, PathState};
use std::collections::BTreeSet;

pub fn run(m: &mut Module) {
    let plans: Vec<_> = m.handlers.iter().map(|h| plan(m, h)).collect();
    for (h, plan) in m.handlers.iter_mut().zip(plans) {
        h.plan.batch = plan
    }
}

/// The plan of a handler; None: nothing is known ahead.
pub fn plan(m: &Module, h: &Handler) -> Option<BatchLookup> {
    let On::Frame { unit, .. } = h.on else { return None };
    let mut way = PathState::default();
    let first = way.first_use(m, Goal::Any, path::at_start(&h.body.block))?;
    let sure = !way.faults;
    let (exact, masked) = if is_masked(m, first.lookup.table) {
        (None, Some(first.lookup))
    } else {
        way.missed = first.dst.filter(|_| is_steady(m, first.lookup.table));
        let masked = way.missed.and_then(|_| way.first_use(m, Goal::Any, first.rest)).map(|found| found.lookup);
        (Some(first.lookup), masked)
    };
    let (mut exact, mut masked) = (exact, masked);
    exact.iter_mut().chain(&mut masked).for_each(|l| l.split = split(m, unit, &l.key));
    let sites = sites(&h.body, exact.iter().chain(&masked));
    let unused = unused(&h.body, &sites);
    let reuse = header_reuse(m, unit, &h.body, &sites, &unused);
    Some(BatchLookup { exact, masked, sure, unused: unused.into_iter().collect(), reuse })
}

/// Why a backend must not follow a plan; None: it may.
pub fn illegal(m: &Module, h: &Handler, plan: &BatchLookup) -> Option<&'static str> {
    let On::Frame { unit, .. } = h.on else { return Some("only handlers of frames have one") };
    let mut way = PathState::default();
    let mut rest = path::at_start(&h.body.block);
    let mut sure = None;
    if plan.exact.is_none() && plan.masked.is_none() {
        return Some("it names no lookup");
    }
    for (lookup, masked) in plan.exact.iter().map(|l| (l, false)).chain(plan.masked.iter().map(|l| (l, true))) {
        if lookup.table.index() >= m.tables.len() || masked && !is_masked(m, lookup.table) {
            return Some("a table is not one of masks that no frame changes");
        }
        let Some(found) = way.first_use(m, Goal::At(&lookup.site), rest) else {
            return Some("a lookup is not made where it says, or its key is not known ahead");
        };
        let same = TableLookup { split: lookup.split.clone(), ..found.lookup };
        if is_masked(m, same.table) != masked || same != *lookup {
            return Some("a lookup's table, key or guard is not that of its statement");
        }
        if lookup.split.as_ref().is_some_and(|c| !has_condition(&lookup.key, c)) {
            return Some("a key does not depend on the condition that splits it");
        }
        sure.get_or_insert(!way.faults);
        way.missed = found.dst.filter(|_| is_steady(m, lookup.table));
        rest = found.rest;
        if !masked && plan.masked.is_some() && way.missed.is_none() {
            return Some("its second lookup follows a table that frames change");
        }
    }
    if plan.sure && sure == Some(false) {
        return Some("a fault may end the handler before its first lookup");
    }
    let sites = sites(&h.body, plan.exact.iter().chain(&plan.masked));
    let unused = unused(&h.body, &sites);
    let told: BTreeSet<LocalId> = plan.unused.iter().copied().collect();
    if !told.is_subset(&unused) {
        return Some("a local that it calls unused is used");
    }
    match (&plan.reuse, header_reuse(m, unit, &h.body, &sites, &told)) {
        (HeaderReuse::Parse, _) => None,
        (HeaderReuse::Places(list), HeaderReuse::Places(read)) if read.iter().all(|n| list.contains(n)) => None,
        _ => Some("the handler reads more of the headers than is kept"),
    }
}

/// Whether a table is the same for a whole batch.
pub fn is_steady(m: &Module, id: TableId) -> bool {
    !m.changed_by_traffic(&m.tables[id.index()])
}

/// Whether a table of masks can be looked up ahead. Frames that a handler takes from queues follow
/// it at once, so in programs with queues none can.
pub fn is_masked(m: &Module, id: TableId) -> bool {
    matches!(m.tables[id.index()].kind, TableKind::Wildcard | TableKind::Lpm) && !m.has_queues() && is_steady(m, id)
}

/// A condition over headers on which a key depends, at several places of it. IPv4 and IPv6 are such
/// headers. TCP and UDP, whose ports are loaded in any case, are not.
fn split(m: &Module, unit: UnitId, key: &Expr) -> Option<Expr> {
    let mut found = None;
    walk::expr(key, &mut |e| {
        if let ExprKind::If(c, ..) = &*e.kind {
            let header = found.is_none() && matches!(&*c.kind, ExprKind::Case(..));
            if header && frame::either_header(m, &mut OfHandler { m, unit }, e).is_none() {
                found = Some(c.clone())
            }
        }
    });
    found
}

fn has_condition(key: &Expr, cond: &Expr) -> bool {
    let mut found = false;
    walk::expr(key, &mut |e| found |= matches!(&*e.kind, ExprKind::If(c, ..) if c == cond));
    found
}

/// Reads of the frame that a handler gets: local 0.
struct OfHandler<'m> {
    m: &'m Module,
    unit: UnitId,
}

impl frame::HeaderReads for OfHandler<'_> {
    type View = ();

    fn header_field(&mut self, path: &Path) -> Option<frame::HeaderField<()>> {
        let (Root::Local(LocalId(0)), [Step::Field(h), Step::Field(field)]) = (path.root, &path.steps[..]) else {
            return None;
        };
        let layers = &self.m.unit(self.unit).frame.as_ref()?.layers;
        let layer = layers.iter().position(|l| l.header == *h)? as u32;
        Some(frame::HeaderField { view: (), frame: self.unit, layer, field: *field })
    }

    fn frame_field(&mut self, path: &Path) -> Option<((), UnitId, FieldId)> {
        match (path.root, &path.steps[..]) {
            (Root::Local(LocalId(0)), [Step::Field(f)]) => Some(((), self.unit, *f)),
            _ => None,
        }
    }
}

/// The keys as they stand in the statements.
fn sites<'b>(body: &'b Body, lookups: impl Iterator<Item = &'b TableLookup>) -> Vec<&'b Expr> {
    lookups.filter_map(|l| plans::keyed(&l.site.find(&body.block)?.kind)).map(|found| found.1).collect()
}

/// The parts of its frame that a handler reads, the keys set aside.
fn header_reuse(m: &Module, unit: UnitId, body: &Body, sites: &[&Expr], unused: &BTreeSet<LocalId>) -> HeaderReuse {
    let mut reads = Reads { m, unit, sites, places: BTreeSet::new(), all: false };
    walk::stmts(&body.block, &mut |s| {
        reads.all |= changes_frame(&s.kind)
            || matches!(
                &s.kind,
                StmtKind::SendFrame { .. } | StmtKind::Parse { .. } | StmtKind::Render { .. } | StmtKind::Reread { .. }
            )
            || asks_for_end(m, &s.kind);
        if !sets(s, unused) {
            walk::stmt_exprs(&s.kind, &mut |e| reads.expr(e))
        }
    });
    if reads.all {
        HeaderReuse::Parse
    } else {
        HeaderReuse::Places(reads.places.into_iter().collect())
    }
}

/// Whether a statement must know where the headers end.
fn asks_for_end(m: &Module, s: &StmtKind) -> bool {
    let StmtKind::Frame { act: FrameAct::Send { port, .. }, .. } = s else { return false };
    m.carries(*port).is_some_and(|c| matches!(c.part, FramePart::Headers(_)))
}

struct Reads<'a> {
    m: &'a Module,
    unit: UnitId,
    sites: &'a [&'a Expr],
    places: BTreeSet<u32>,
    all: bool,
}

impl Reads<'_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn expr(&mut self, e: &Expr) {
        if self.sites.iter().any(|s| std::ptr::eq(e, *s)) {
            return;
        }
        match &*e.kind {
            ExprKind::Local(LocalId(0)) | ExprKind::Payload(..) | ExprKind::ChecksumOk(..) => self.all = true,
            ExprKind::Case(..) => {}
            _ => {
                if let Some(Path { root: Root::Local(LocalId(0)), steps }) = walk::path_of(e) {
                    match self.fixed_field(&e.kind, steps) {
                        Some(layer) => {
                            self.places.insert(layer);
                        }
                        None => self.all = true,
                    }
                }
            }
        }
        walk::children(e, &mut |e| self.expr(e));
    }

    /// The layer of a field at a fixed place in it.
    fn fixed_field(&self, e: &ExprKind, steps: &[Step]) -> Option<u32> {
        let (ExprKind::Read(_), [Step::Field(h), Step::Field(f)]) = (e, steps) else { return None };
        let layers = &self.m.unit(self.unit).frame.as_ref()?.layers;
        let layer = layers.iter().position(|l| l.header == *h)?;
        let header = layers[layer].unit;
        let field = &self.m.unit(header).fields[f.index()];
        frame::fixed_offset(self.m, header, *f)?;
        frame::field_size(self.m, field)?;
        matches!(field.kind, FieldKind::UInt { .. } | FieldKind::Bytes { .. }).then_some(layer as u32)
    }
}

/// Whether a statement sets one of these locals and does nothing else.
fn sets(s: &Stmt, locals: &BTreeSet<LocalId>) -> bool {
    matches!(&s.kind, StmtKind::Set(l, _) if locals.contains(l))
}

/// Locals that are read for the keys at `sites` alone, or for one another.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn unused(body: &Body, sites: &[&Expr]) -> BTreeSet<LocalId> {
    let is_site = |s: &Stmt| matches!(&s.kind, StmtKind::TableGet { key, .. } if sites.iter().any(|site| std::ptr::eq(key, *site)));
    let (mut unused, mut other) = (BTreeSet::new(), BTreeSet::new());
    walk::stmts(&body.block, &mut |s| match &s.kind {
        StmtKind::Set(l, e) if !e.may_fault() => {
            unused.insert(*l);
        }
        kind => other.extend(walk::defined(kind).into_iter().flatten()),
    });
    unused.retain(|l| !other.contains(l));
    loop {
        let mut read = BTreeSet::new();
        walk::stmts(&body.block, &mut |s| {
            if !is_site(s) && !sets(s, &unused) {
                walk::stmt_locals_read(&s.kind, &mut |l| {
                    read.insert(l);
                })
            }
        });
        let before = unused.len();
        unused.retain(|l| !read.contains(l));
        if unused.len() == before {
            return unused;
        }
    }
}
