//! Conditions that earlier ones imply.
//!
//! In: bodies with their elements inlined. Each element asks for the headers that it needs, and so
//! did those before it. Out: a condition is a constant where the branches and requirements on the
//! way to it decide it. `fold` drops the branches. A fact is a condition and its value. It lasts
//! until a statement changes a local or a frame that the condition reads. Conditions over states,
//! times and backends are no facts.

use super::fold;
use crate::*;
use ops::Rows;
use std::rc::Rc;

/// Facts that are kept at a time. A body may have thousands of requirements.
const MOST: usize = 128;

pub fn run(m: &mut Module) {
    let types = std::mem::take(&mut m.types);
    m.bodies_mut(&mut |body| {
        let mut known = KnownConditions { types: &types, facts: Vec::new() };
        known.block(&mut body.block);
    });
    m.types = types;
}

#[derive(Clone, PartialEq)]
struct ImpliedFact {
    cond: Expr,
    holds: bool,
}

struct KnownConditions<'a> {
    types: &'a [Ty],
    facts: Vec<Rc<ImpliedFact>>,
}

impl KnownConditions<'_> {
    /// Simplifies a block; whether its end is reached. Behind it the facts of its end are known.
    fn block(&mut self, block: &mut Block) -> bool {
        for s in block {
            if !self.stmt(&mut s.kind) {
                return false;
            }
        }
        true
    }

    /// Simplifies a statement; whether what is behind it is reached.
    fn stmt(&mut self, s: &mut StmtKind) -> bool {
        if let Some(Outgoing::Pass { edits, .. }) = walk::outgoing(s) {
            let indices: Vec<_> = edits.iter().filter_map(removed).collect();
            self.forget(&|l| indices.contains(&l))
        }
        walk::stmt_exprs_mut(s, &mut |e| self.simplify(e));
        match s {
            StmtKind::If { cond, then, other } => return self.branches(cond, then, other),
            StmtKind::Switch { on, cases, default } => return self.cases(on, cases, default),
            StmtKind::Require { cond, .. } => self.learn(cond, true),
            StmtKind::Break | StmtKind::Continue | StmtKind::Return(_) | StmtKind::Fault { .. } => return false,
            StmtKind::For { .. } | StmtKind::Loop { .. } => {
                // A round finds what the one before has left.
                self.forget_changed(s);
                self.aside(s)
            }
            StmtKind::Await { .. } => self.facts.retain(|f| !asks_ports(&f.cond)),
            StmtKind::Set(l, e) => {
                let l = *l;
                self.forget(&|changed| changed == l);
                if let ExprKind::Bool(value) = *e.kind {
                    self.learn(&Expr::new(e.ty, ExprKind::Local(l)), value)
                }
            }
            StmtKind::SetField(..)
            | StmtKind::SetState(..)
            | StmtKind::SetSession(..)
            | StmtKind::Count(..)
            | StmtKind::Push(..)
            | StmtKind::TableGet { .. }
            | StmtKind::TablePut { .. }
            | StmtKind::TableRemove { .. }
            | StmtKind::TableUpdate { .. }
            | StmtKind::TableLen { .. }
            | StmtKind::TableNext { .. }
            | StmtKind::TableInsert { .. }
            | StmtKind::TableDelete { .. }
            | StmtKind::TablePush { .. }
            | StmtKind::TablePop { .. }
            | StmtKind::Call { .. }
            | StmtKind::BindPart { .. }
            | StmtKind::Reply { .. }
            | StmtKind::Outcome(_)
            | StmtKind::Send { .. }
            | StmtKind::Close
            | StmtKind::Tell { .. }
            | StmtKind::Ask { .. }
            | StmtKind::Deliver { .. }
            | StmtKind::Dismiss(_)
            | StmtKind::OpenUpstream { .. }
            | StmtKind::CloseUpstream(_)
            | StmtKind::TakeUpstream { .. }
            | StmtKind::PoolUpstream { .. }
            | StmtKind::Become { .. }
            | StmtKind::Hold(_)
            | StmtKind::Release(_)
            | StmtKind::Log(_)
            | StmtKind::Emit(_)
            | StmtKind::Wait { .. }
            | StmtKind::AwaitBody
            | StmtKind::SetPiece(_)
            | StmtKind::DropBody
            | StmtKind::Parse { .. }
            | StmtKind::Render { .. }
            | StmtKind::Reread { .. }
            | StmtKind::SendFrame { .. }
            | StmtKind::Output { .. }
            | StmtKind::Frame { .. }
            | StmtKind::GroupBegin { .. }
            | StmtKind::GroupAdd { .. }
            | StmtKind::GroupRun { .. }
            | StmtKind::Queue { .. } => {
                self.forget_changed(s);
                self.aside(s)
            }
        }
        true
    }

    /// Blocks whose facts are not known behind them: those of loops, updates and messages.
    fn aside(&mut self, s: &mut StmtKind) {
        let before = self.facts.clone();
        walk::stmt_blocks_mut(s, &mut |b| {
            self.block(b);
            self.facts.clone_from(&before)
        });
    }

    fn branches(&mut self, cond: &Expr, then: &mut Block, other: &mut Block) -> bool {
        let before = self.facts.clone();
        let mut ends = Vec::new();
        for (block, holds) in [(then, true), (other, false)] {
            self.facts.clone_from(&before);
            self.learn(cond, holds);
            // A branch that is never taken tells nothing.
            if self.block(block) && *cond.kind != ExprKind::Bool(!holds) {
                ends.push(std::mem::take(&mut self.facts))
            }
        }
        self.join(ends)
    }

    fn cases(&mut self, on: &Expr, cases: &mut [(Vec<u64>, Block)], default: &mut Block) -> bool {
        let before = self.facts.clone();
        let mut ends = Vec::new();
        let is = |n: &u64| {
            let bool_type = self.types.iter().position(|t| *t == Ty::Bool)?;
            let value = Expr::new(on.ty, ExprKind::Int(u128::from(*n)));
            Some(Expr::new(TyId(bool_type as u32), ExprKind::Binary(BinOp::Eq, on.clone(), value)))
        };
        let others: Vec<Expr> = cases.iter().flat_map(|c| &c.0).filter_map(is).collect();
        let only: Vec<Option<Expr>> =
            cases.iter().map(|c| if let [n] = c.0.as_slice() { is(n) } else { None }).collect();
        for ((_, block), is) in cases.iter_mut().zip(only) {
            self.facts.clone_from(&before);
            is.iter().for_each(|e| self.learn(e, true));
            if self.block(block) {
                ends.push(std::mem::take(&mut self.facts))
            }
        }
        self.facts.clone_from(&before);
        others.iter().for_each(|e| self.learn(e, false));
        if self.block(default) {
            ends.push(std::mem::take(&mut self.facts))
        }
        self.join(ends)
    }

    /// Goes on with the facts that all ways have; whether there is a way.
    fn join(&mut self, ends: Vec<Vec<Rc<ImpliedFact>>>) -> bool {
        let mut ends = ends.into_iter();
        let Some(mut facts) = ends.next() else { return false };
        for end in ends {
            facts.retain(|f| end.contains(f))
        }
        self.facts = facts;
        true
    }

    /// Replaces the conditions in an expression that the facts decide.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn simplify(&mut self, e: &mut Expr) {
        let before = self.facts.len();
        match &mut *e.kind {
            ExprKind::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
                self.simplify(a);
                self.learn(a, *op == BinOp::And);
                self.simplify(b);
                self.facts.truncate(before);
            }
            ExprKind::If(cond, a, b) => {
                self.simplify(cond);
                for (e, holds) in [(a, true), (b, false)] {
                    self.learn(cond, holds);
                    self.simplify(e);
                    self.facts.truncate(before);
                }
            }
            _ => walk::children_mut(e, &mut |c| self.simplify(c)),
        }
        if let Some(value) = self.decided(e) {
            *e.kind = ExprKind::Bool(value)
        }
        fold::expr(self.types, e)
    }

    fn decided(&self, e: &Expr) -> Option<bool> {
        if self.facts.is_empty() || *self.types.get(e.ty.index())? != Ty::Bool || matches!(*e.kind, ExprKind::Bool(_)) {
            return None;
        }
        let (cond, holds) = plain(e, true);
        self.facts.iter().find_map(|f| {
            if f.cond == cond {
                return Some(f.holds == holds);
            }
            (f.holds && excludes(&f.cond, &cond)).then_some(!holds)
        })
    }

    /// The condition has this value from here on.
    fn learn(&mut self, cond: &Expr, holds: bool) {
        walk::implied(cond, holds, &mut |cond, holds| {
            let (cond, holds) = plain(cond, holds);
            if !matches!(*cond.kind, ExprKind::Bool(_)) && self.facts.len() < MOST && lasts(&cond) {
                self.facts.push(Rc::new(ImpliedFact { cond, holds }))
            }
        })
    }

    /// Forgets the facts that read one of these locals.
    fn forget(&mut self, changed: &dyn Fn(LocalId) -> bool) {
        self.facts.retain(|f| {
            let mut reads = false;
            walk::locals_read(&f.cond, &mut |l| reads |= changed(l));
            !reads
        })
    }

    /// Forgets what a statement changes, itself or in its blocks.
    fn forget_changed(&mut self, s: &StmtKind) {
        let (mut all, mut waits) = (Vec::new(), false);
        let mut note = |s: &StmtKind| {
            changed(s, &mut |l| all.push(l));
            waits |= matches!(s, StmtKind::Await { .. });
        };
        note(s);
        walk::stmt_blocks(s, &mut |b| walk::stmts(b, &mut |s| note(&s.kind)));
        self.forget(&|l| all.contains(&l));
        if waits {
            self.facts.retain(|f| !asks_ports(&f.cond))
        }
    }
}

/// The local that counts the items of which some are removed.
fn removed(edit: &Edit) -> Option<LocalId> {
    match edit {
        Edit::Remove { index, .. } => Some(*index),
        Edit::Set { .. } | Edit::Append { .. } => None,
    }
}

/// The condition without negations, and the value that it has if `cond` has this one.
#[allow(clippy::wildcard_enum_match_arm, reason = "negations among all kinds")]
fn plain(cond: &Expr, holds: bool) -> (Expr, bool) {
    let positive = |op, a: &Expr, b: &Expr| Expr::new(cond.ty, ExprKind::Binary(op, a.clone(), b.clone()));
    match &*cond.kind {
        ExprKind::Unary(UnOp::Not, a) => plain(a, !holds),
        ExprKind::Binary(BinOp::Ne, a, b) => (positive(BinOp::Eq, a, b), !holds),
        ExprKind::Binary(BinOp::Ge, a, b) => (positive(BinOp::Lt, a, b), !holds),
        ExprKind::Binary(BinOp::Gt, a, b) => (positive(BinOp::Le, a, b), !holds),
        _ => (cond.clone(), holds),
    }
}

/// Whether the first condition rules the second one out: other cases of one switch, other values of
/// one number.
#[allow(clippy::wildcard_enum_match_arm, reason = "pairs of equal kinds among all pairs")]
fn excludes(holds: &Expr, other: &Expr) -> bool {
    match (&*holds.kind, &*other.kind) {
        (ExprKind::Case(p, n), ExprKind::Case(q, k)) => n != k && p == q,
        (ExprKind::Binary(BinOp::Eq, a, x), ExprKind::Binary(BinOp::Eq, b, y)) => {
            let differ = match (&*x.kind, &*y.kind) {
                (ExprKind::Int(x), ExprKind::Int(y)) => x != y,
                (ExprKind::Bytes(x), ExprKind::Bytes(y)) => x != y,
                _ => false,
            };
            differ && a == b
        }
        (ExprKind::Binary(BinOp::Eq, a, x), ExprKind::InRanges(b, ranges)) => {
            let outside = |x: u128| !ranges.iter().any(|(from, to)| (*from as u128..=*to as u128).contains(&x));
            matches!(*x.kind, ExprKind::Int(x) if outside(x)) && a == b
        }
        _ => false,
    }
}

/// Whether a condition keeps its value until a local changes that it reads, or the handler is
/// suspended.
fn lasts(cond: &Expr) -> bool {
    let mut all = true;
    walk::expr(cond, &mut |e| all &= lasts_itself(&e.kind));
    all
}

fn lasts_itself(e: &ExprKind) -> bool {
    match e {
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::Bytes(_)
        | ExprKind::Local(_)
        | ExprKind::Param(_)
        | ExprKind::HasMsg(_)
        | ExprKind::Held(_)
        | ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Cast(_)
        | ExprKind::If(..)
        | ExprKind::InRanges(..)
        | ExprKind::Some(_)
        | ExprKind::None
        | ExprKind::IsSome(_)
        | ExprKind::Unwrap(_)
        | ExprKind::Make(_)
        | ExprKind::Get(..)
        | ExprKind::MakeList(_)
        | ExprKind::ListLen(_)
        | ExprKind::ListGet(..)
        | ExprKind::PortLen(_)
        | ExprKind::FrameLen(_)
        | ExprKind::FrameInstance(_)
        | ExprKind::FrameTime(_)
        | ExprKind::FrameMark(_)
        | ExprKind::PacketState(..)
        | ExprKind::Payload(..)
        | ExprKind::ChecksumOk(..)
        | ExprKind::ConnPeer
        | ExprKind::ConnLocal
        | ExprKind::ConnId
        | ExprKind::ConnHandle
        | ExprKind::ConnFlow => true,
        ExprKind::UnitParam(root, _) => matches!(root, Root::Local(_)),
        ExprKind::Read(p) | ExprKind::Count(p) | ExprKind::Raw(p) | ExprKind::Case(p, _) => {
            matches!(p.root, Root::Local(_))
        }
        ExprKind::Find { list: p, .. } | ExprKind::CountOf { list: p, .. } | ExprKind::AnyToken { list: p, .. } => {
            matches!(p.root, Root::Local(_))
        }
        ExprKind::Builtin(b, _) => match b.row().effect {
            ops::Effect::Pure | ops::Effect::Scratch => true,
            ops::Effect::Time | ops::Effect::Crypto | ops::Effect::Cipher => false,
        },
        ExprKind::State(_)
        | ExprKind::Session(_)
        | ExprKind::Counter(_)
        | ExprKind::Acc
        | ExprKind::PartStatus(_)
        | ExprKind::Parts
        | ExprKind::Call(..)
        | ExprKind::PortUp(..)
        | ExprKind::PortLoad(..)
        | ExprKind::PortServer(..)
        | ExprKind::PortFind(..)
        | ExprKind::Pooled { .. }
        | ExprKind::UpstreamFact(..)
        | ExprKind::Ketama(..)
        | ExprKind::Consistent(..)
        | ExprKind::Modula(..)
        | ExprKind::Maglev(..)
        | ExprKind::GroupCount(_)
        | ExprKind::GroupBytes(_)
        | ExprKind::Now
        | ExprKind::Draining
        | ExprKind::Random(_) => false,
    }
}

/// Whether a condition asks how many instances a port has, which may change while a handler waits.
fn asks_ports(cond: &Expr) -> bool {
    let mut asks = false;
    walk::expr(cond, &mut |e| asks |= matches!(*e.kind, ExprKind::PortLen(_)));
    asks
}

/// The locals that a statement changes itself. A frame is one.
fn changed(s: &StmtKind, f: &mut dyn FnMut(LocalId)) {
    walk::defined(s).into_iter().flatten().for_each(&mut *f);
    match s {
        StmtKind::SetField(l, ..) | StmtKind::Push(l, _) => f(*l),
        StmtKind::TableNext { cursor, more, .. } => {
            f(*cursor);
            f(*more)
        }
        StmtKind::Frame { frame, act } => match act {
            FrameAct::Set { .. }
            | FrameAct::Swap { .. }
            | FrameAct::Insert { .. }
            | FrameAct::Remove { .. }
            | FrameAct::Payload { .. }
            | FrameAct::Checksum { .. }
            | FrameAct::Parse
            | FrameAct::InC { whole: true, .. }
            | FrameAct::Restore { .. } => f(*frame),
            FrameAct::InC { whole: false, .. } | FrameAct::Save { .. } | FrameAct::Send { .. } => {}
        },
        StmtKind::Call { msg, .. }
        | StmtKind::Reply { msg, .. }
        | StmtKind::Send { msg, .. }
        | StmtKind::Tell { msg, .. }
        | StmtKind::Ask { msg, .. }
        | StmtKind::Deliver { msg, .. }
        | StmtKind::Render { msg, .. }
        | StmtKind::Reread { msg, .. } => {
            if let Outgoing::Pass { edits, .. } = msg {
                edits.iter().filter_map(removed).for_each(f)
            }
        }
        StmtKind::Set(..)
        | StmtKind::SetState(..)
        | StmtKind::SetSession(..)
        | StmtKind::Count(..)
        | StmtKind::If { .. }
        | StmtKind::Switch { .. }
        | StmtKind::For { .. }
        | StmtKind::Loop { .. }
        | StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Return(_)
        | StmtKind::Require { .. }
        | StmtKind::Fault { .. }
        | StmtKind::TableGet { .. }
        | StmtKind::TablePut { .. }
        | StmtKind::TableRemove { .. }
        | StmtKind::TableUpdate { .. }
        | StmtKind::TableLen { .. }
        | StmtKind::TableInsert { .. }
        | StmtKind::TableDelete { .. }
        | StmtKind::TablePush { .. }
        | StmtKind::TablePop { .. }
        | StmtKind::Await { .. }
        | StmtKind::BindPart { .. }
        | StmtKind::Outcome(_)
        | StmtKind::Close
        | StmtKind::OpenUpstream { .. }
        | StmtKind::CloseUpstream(_)
        | StmtKind::TakeUpstream { .. }
        | StmtKind::PoolUpstream { .. }
        | StmtKind::Become { .. }
        | StmtKind::Hold(_)
        | StmtKind::Release(_)
        | StmtKind::Dismiss(_)
        | StmtKind::Log(_)
        | StmtKind::Emit(_)
        | StmtKind::Wait { .. }
        | StmtKind::AwaitBody
        | StmtKind::SetPiece(_)
        | StmtKind::DropBody
        | StmtKind::Parse { .. }
        | StmtKind::SendFrame { .. }
        | StmtKind::Output { .. }
        | StmtKind::GroupBegin { .. }
        | StmtKind::GroupAdd { .. }
        | StmtKind::GroupRun { .. }
        | StmtKind::Queue { .. } => {}
    }
}
