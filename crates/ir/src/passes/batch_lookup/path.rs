//! Facts that hold on the path to a statement of a handler: conditions, and values of locals over
//! the frame alone.

use super::is_masked;
use crate::packed_keys::is_core_table;
use crate::plans::{keyed, StmtPath, TableLookup};
use crate::*;
use std::collections::BTreeMap;

/// The values that locals have been set to; None: it depends.
type LocalValues = BTreeMap<LocalId, Option<Expr>>;

pub(super) struct PathState {
    known: LocalValues,
    guard: Vec<Expr>,
    /// The guard says all that leads here.
    exact: bool,
    /// The frame may have been changed.
    changed: bool,
    /// A fault may have ended the handler.
    pub faults: bool,
    /// The answer of an exact table: only the way behind a miss is looked at, up to a table of
    /// masks.
    pub missed: Option<LocalId>,
}

impl Default for PathState {
    fn default() -> Self {
        PathState {
            known: LocalValues::new(),
            guard: Vec::new(),
            exact: true,
            changed: false,
            faults: false,
            missed: None,
        }
    }
}

/// The lookup that is looked for.
#[derive(Clone, Copy)]
pub(super) enum Goal<'a> {
    Any,
    At(&'a StmtPath),
}

/// Statements of a block, from one on.
#[derive(Clone)]
pub(super) struct Rest<'b> {
    stmts: &'b [Stmt],
    /// The path of the first of them.
    at: Vec<u32>,
}

pub(super) fn at_start(block: &Block) -> Rest<'_> {
    Rest { stmts: block, at: vec![1] }
}

impl<'b> Rest<'b> {
    fn path(&self, n: usize) -> Vec<u32> {
        let mut path = self.at.clone();
        if let Some(last) = path.last_mut() {
            *last += n as u32
        }
        path
    }

    /// A block of statement `n`, with `before` statements in the blocks before it.
    fn inner(&self, n: usize, block: &'b Block, before: usize) -> Rest<'b> {
        let mut at = self.path(n);
        at.push(before as u32 + 1);
        Rest { stmts: block, at }
    }
}

pub(super) struct FirstUse<'b> {
    pub lookup: TableLookup,
    /// The local that it sets, if it is a lookup.
    pub dst: Option<LocalId>,
    /// The rest of its block.
    pub rest: Rest<'b>,
}

impl PathState {
    /// Looks for the use, statement by statement; leaves the state as it is there, or behind the
    /// block.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn first_use<'b>(&mut self, m: &Module, goal: Goal, rest: Rest<'b>) -> Option<FirstUse<'b>> {
        for (n, s) in rest.stmts.iter().enumerate() {
            let faults = ends_by_fault(s);
            self.faults |= faults && matches!(s.kind, StmtKind::If { .. });
            match &s.kind {
                StmtKind::Set(l, e) => {
                    let value = over_frame(e, &self.known);
                    // Set twice: its value depends on the way taken.
                    self.known.entry(*l).and_modify(|v| *v = None).or_insert(value);
                }
                StmtKind::Frame { act, .. } => self.changed |= !matches!(act, FrameAct::Send { .. }),
                StmtKind::Output { .. } => self.changed = true,
                kind if keyed(kind).is_some() => {
                    let found = self.usable(m, kind, rest.path(n));
                    if let Some((lookup, dst)) = found.filter(|(l, _)| goal.is(&l.site)) {
                        let rest = Rest { stmts: &rest.stmts[n + 1..], at: rest.path(n + 1) };
                        return Some(FirstUse { lookup, dst, rest });
                    }
                    self.forget(s)
                }
                StmtKind::If { cond, then, other } if self.asks_for_missed(cond) => {
                    return self.first_use(m, goal, rest.inner(n, other, then.len()))
                }
                StmtKind::If { cond, then, other } => {
                    let cond = over_frame(cond, &self.known);
                    let not = cond.clone().map(|c| Expr::new(c.ty, ExprKind::Unary(UnOp::Not, c)));
                    let (depth, exact) = (self.guard.len(), self.exact);
                    for (given, block) in [(&cond, rest.inner(n, then, 0)), (&not, rest.inner(n, other, then.len()))] {
                        self.add(given.clone());
                        if let Some(found) = self.first_use(m, goal, block) {
                            return Some(found);
                        }
                        self.guard.truncate(depth);
                        self.exact = exact;
                    }
                    self.forget(s);
                    // A branch that leaves says something of the one that goes on.
                    match (leaves(then), leaves(other)) {
                        (Leaves::Never, Leaves::Never) => {}
                        (Leaves::Always, Leaves::Never) => self.add(not),
                        (Leaves::Never, Leaves::Always) => self.add(cond),
                        _ => self.exact = false,
                    }
                }
                StmtKind::Require { cond, .. } => {
                    let cond = over_frame(cond, &self.known);
                    self.add(cond);
                }
                StmtKind::Switch { .. } | StmtKind::For { .. } | StmtKind::Loop { .. } => {
                    each(s, &mut |s| self.changed |= changes_frame(&s.kind));
                    each(s, &mut |s| self.exact &= !jumps(s));
                    self.forget(s);
                }
                StmtKind::Return(_) | StmtKind::Fault { .. } | StmtKind::Break | StmtKind::Continue => {
                    self.exact = false
                }
                _ => self.forget(s),
            }
            self.faults |= faults;
        }
        None
    }

    /// A use of a table that can be made ahead, and the local that a lookup sets.
    fn usable(&self, m: &Module, s: &StmtKind, at: Vec<u32>) -> Option<(TableLookup, Option<LocalId>)> {
        let (table, key) = keyed(s)?;
        let dst = if let StmtKind::TableGet { dst, .. } = s { Some(*dst) } else { None };
        let kind =
            self.missed.is_none() && is_core_table(m, &m.tables[table.index()]) || dst.is_some() && is_masked(m, table);
        if !self.exact || self.changed || key.may_fault() || !kind {
            return None;
        }
        let key = over_frame(key, &self.known)?;
        Some((TableLookup { table, site: StmtPath(at), key, guard: self.guard.clone(), split: None }, dst))
    }

    /// Whether a condition asks for what an exact table has answered.
    fn asks_for_missed(&self, cond: &Expr) -> bool {
        self.missed.is_some_and(|l| matches!(&*cond.kind, ExprKind::IsSome(e) if *e.kind == ExprKind::Local(l)))
    }

    /// From here on the condition holds.
    fn add(&mut self, cond: Option<Expr>) {
        match cond {
            Some(c) => self.guard.push(c),
            None => self.exact = false,
        }
    }

    /// Locals that a statement sets are not known behind it.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn forget(&mut self, s: &Stmt) {
        each(s, &mut |s| {
            let mut set = |l: LocalId| {
                self.known.insert(l, None);
            };
            match &s.kind {
                StmtKind::SetField(l, ..) | StmtKind::Push(l, _) => set(*l),
                StmtKind::TableNext { cursor, more, .. } => [*cursor, *more].into_iter().for_each(&mut set),
                _ => {}
            }
            walk::defined(&s.kind).into_iter().flatten().for_each(set);
        });
    }
}

impl Goal<'_> {
    fn is(self, at: &StmtPath) -> bool {
        match self {
            Goal::Any => true,
            Goal::At(goal) => goal == at,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Never,
    Always,
    Sometimes,
}

/// Whether control leaves a block other than at its end.
fn leaves(block: &Block) -> Leaves {
    let mut any = false;
    walk::stmts(block, &mut |s| any |= jumps(s));
    let always = match block.last().map(|s| &s.kind) {
        Some(StmtKind::Return(_) | StmtKind::Fault { .. }) => true,
        Some(StmtKind::If { then, other, .. }) => leaves(then) == Leaves::Always && leaves(other) == Leaves::Always,
        _ => false,
    };
    match (any, always) {
        (_, true) => Leaves::Always,
        (true, false) => Leaves::Sometimes,
        _ => Leaves::Never,
    }
}

fn jumps(s: &Stmt) -> bool {
    matches!(s.kind, StmtKind::Return(_) | StmtKind::Fault { .. } | StmtKind::Break | StmtKind::Continue)
}

/// Whether a statement may change the frame, or have another function do so.
pub fn changes_frame(s: &StmtKind) -> bool {
    matches!(s, StmtKind::Output { .. })
        || matches!(s, StmtKind::Frame { act, .. } if !matches!(act, FrameAct::Send { .. }))
}

/// A statement and all inside it.
fn each(s: &Stmt, f: &mut dyn FnMut(&Stmt)) {
    f(s);
    walk::stmt_blocks(&s.kind, &mut |b| walk::stmts(b, f));
}

/// Whether a fault may end the handler in a statement; of a branch only the condition counts.
fn ends_by_fault(s: &Stmt) -> bool {
    let mut any = !matches!(
        s.kind,
        StmtKind::Set(..)
            | StmtKind::Count(..)
            | StmtKind::If { .. }
            | StmtKind::Require { .. }
            | StmtKind::Return(_)
            | StmtKind::Fault { .. }
    );
    walk::stmt_exprs(&s.kind, &mut |e| any |= e.may_fault());
    any
}

/// An expression over the frame alone, locals replaced by what they were set to; None if it needs
/// more.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn over_frame(e: &Expr, known: &LocalValues) -> Option<Expr> {
    use ExprKind::*;
    let kind = match &*e.kind {
        Local(l) => return known.get(l)?.clone(),
        Int(_) | Bool(_) | Param(_) | FrameLen(_) | FrameInstance(_) | FrameTime(_) | ExprKind::None => {
            (*e.kind).clone()
        }
        Read(p) | Case(p, _)
            if p.root == Root::Local(LocalId(0)) && p.steps.iter().all(|s| matches!(s, Step::Field(_))) =>
        {
            (*e.kind).clone()
        }
        Unary(op, a) => Unary(*op, over_frame(a, known)?),
        Binary(op, a, b) => Binary(*op, over_frame(a, known)?, over_frame(b, known)?),
        Cast(a) => Cast(over_frame(a, known)?),
        If(a, b, c) => If(over_frame(a, known)?, over_frame(b, known)?, over_frame(c, known)?),
        InRanges(a, r) => InRanges(over_frame(a, known)?, r.clone()),
        Some(a) => Some(over_frame(a, known)?),
        IsSome(a) => IsSome(over_frame(a, known)?),
        Unwrap(a) => Unwrap(over_frame(a, known)?),
        Get(a, n) => Get(over_frame(a, known)?, *n),
        Make(list) => Make(list.iter().map(|e| over_frame(e, known)).collect::<Option<_>>()?),
        _ => return Option::None,
    };
    Option::Some(Expr::new(e.ty, kind))
}
