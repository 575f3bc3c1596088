//! Which messages of a conversation are passed on in runs.
//!
//! In: handlers of messages in conversations. Out: [`HandlerPlan::run`](crate::plans::HandlerPlan).
//! Each way through a handler is followed. A way is quiet if it passes the message on unchanged,
//! once, to the same member, and does nothing else but count. The plan's condition is that of the
//! quiet ways. It asks for the message, the session, parameters and states: no message of a run
//! changes them. A handler with loops, or with too many ways, has no plan.

use crate::plans::{MessageRun, RunCount};
use crate::*;

/// Statements that are looked at on all ways together.
const MOST_STATEMENTS: u32 = 256;
/// Operands of one condition: each message costs them.
const MOST_OPERANDS: usize = 64;

pub fn run(m: &mut Module) {
    let Some(bool_ty) = m.find_type(&Ty::Bool) else { return };
    let plans: Vec<_> = m.handlers.iter().map(|h| plan(h, bool_ty)).collect();
    for (h, plan) in m.handlers.iter_mut().zip(plans) {
        h.plan.run = plan
    }
}

/// Why a backend must not follow a handler's plan.
pub fn illegal(m: &Module, h: &Handler) -> Option<&'static str> {
    let found = &h.plan.run;
    let wrong = found.is_some() && *found != m.find_type(&Ty::Bool).and_then(|ty| plan(h, ty));
    wrong.then_some("not all of these messages are only passed on and counted")
}

fn plan(h: &Handler, bool_ty: TyId) -> Option<MessageRun> {
    if !matches!(h.on, On::Message { .. } | On::Upstream { .. }) {
        return None;
    }
    let mut search = QuietWays { bool_ty, left: MOST_STATEMENTS };
    let way = search.follow(Following { here: &h.body.block, then: None }, QuietPath::default())?;
    let small = |e: &Expr| operands(e) <= MOST_OPERANDS;
    let fits = way.when.iter().all(small) && way.counts.iter().all(|c| c.when.iter().all(small) && small(&c.by));
    let (to, protocol) = way.to?;
    fits.then_some(MessageRun { to, protocol, when: way.when, counts: way.counts })
}

fn operands(e: &Expr) -> usize {
    let mut n = 0;
    walk::expr(e, &mut |_| n += 1);
    n
}

/// The statements that follow: of a block, then those behind the statement around it.
#[derive(Clone, Copy)]
struct Following<'b> {
    here: &'b [Stmt],
    then: Option<&'b Following<'b>>,
}

/// A way through the handler, as far as it has been followed.
#[derive(Clone, Default)]
struct QuietPath {
    to: Option<(Peer, Option<ProtocolId>)>,
    when: Option<Expr>,
    counts: Vec<RunCount>,
    /// Values of locals on this way.
    values: Vec<(LocalId, Expr)>,
}

struct QuietWays {
    bool_ty: TyId,
    left: u32,
}

impl QuietWays {
    /// The quiet ways through the statements, joined.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn follow(&mut self, rest: Following, mut way: QuietPath) -> Option<QuietPath> {
        self.left = self.left.checked_sub(1)?;
        let Some((first, behind)) = rest.here.split_first() else {
            return match rest.then {
                Some(outer) => self.follow(*outer, way),
                None => way.to.is_some().then_some(way),
            };
        };
        let rest = Following { here: behind, then: rest.then };
        match &first.kind {
            StmtKind::Return(None) => return way.to.is_some().then_some(way),
            StmtKind::Set(l, e) => {
                let value = way.value(e)?;
                way.values.retain(|(of, _)| of != l);
                way.values.push((*l, value));
            }
            StmtKind::Count(counter, by) => {
                let by = way.value(by)?;
                way.counts.push(RunCount { counter: *counter, by, when: None })
            }
            StmtKind::Require { cond, .. } => {
                let cond = way.value(cond)?;
                way.when = self.both(way.when.take(), Some(cond))
            }
            StmtKind::Tell { to, protocol, msg: Outgoing::Pass { msg: LocalId(0), edits }, .. }
                if edits.is_empty() && way.to.is_none() =>
            {
                way.to = Some((*to, *protocol))
            }
            StmtKind::If { cond, then, other } => return self.branches(cond, (then, other), rest, way),
            _ => return None,
        }
        self.follow(rest, way)
    }

    fn branches(
        &mut self,
        cond: &Expr,
        (then, other): (&Block, &Block),
        rest: Following,
        way: QuietPath,
    ) -> Option<QuietPath> {
        let cond = way.value(cond)?;
        let not = Expr::new(self.bool_ty, ExprKind::Unary(UnOp::Not, cond.clone()));
        // Branches that only count, and go on, need not be followed twice.
        if let (Some(a), Some(b)) = (counted(then, &way), counted(other, &way)) {
            let mut way = way;
            way.counts.extend(self.guarded(a, &cond));
            way.counts.extend(self.guarded(b, &not));
            return self.follow(rest, way);
        }
        let before = way.counts.len();
        let a = self.follow(Following { here: then, then: Some(&rest) }, way.clone());
        let b = self.follow(Following { here: other, then: Some(&rest) }, way);
        match (a, b) {
            (Some(a), Some(b)) if a.to == b.to => {
                let counts = a.counts[..before].to_vec();
                let mut joined = QuietPath { to: a.to, when: None, counts, values: Vec::new() };
                joined.counts.extend(self.guarded(a.counts[before..].to_vec(), &cond));
                joined.counts.extend(self.guarded(b.counts[before..].to_vec(), &not));
                let always = || Expr::new(self.bool_ty, ExprKind::Bool(true));
                if a.when.is_some() || b.when.is_some() {
                    let (a, b) = (a.when.unwrap_or_else(always), b.when.unwrap_or_else(always));
                    joined.when = Some(Expr::new(self.bool_ty, ExprKind::If(cond, a, b)))
                }
                Some(joined)
            }
            (Some(mut a), None) => {
                a.when = self.both(Some(cond), a.when);
                Some(a)
            }
            // The more usual one: what is done for a few messages stands in the first branch.
            (_, Some(mut b)) => {
                b.when = self.both(Some(not), b.when);
                Some(b)
            }
            (None, None) => None,
        }
    }

    fn both(&self, a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
        match (a, b) {
            (Some(a), Some(b)) => Some(Expr::new(self.bool_ty, ExprKind::Binary(BinOp::And, a, b))),
            (a, b) => a.or(b),
        }
    }

    fn guarded(&self, counts: Vec<RunCount>, cond: &Expr) -> Vec<RunCount> {
        let with = |c: RunCount| RunCount { when: self.both(Some(cond.clone()), c.when), ..c };
        counts.into_iter().map(with).collect()
    }
}

/// The counts of a block that does nothing else.
fn counted(block: &Block, way: &QuietPath) -> Option<Vec<RunCount>> {
    let one = |s: &Stmt| {
        let StmtKind::Count(counter, by) = &s.kind else { return None };
        Some(RunCount { counter: *counter, by: way.value(by)?, when: None })
    };
    block.iter().map(one).collect()
}

impl QuietPath {
    /// An expression in terms of what lasts over a run; none: of something else.
    fn value(&self, e: &Expr) -> Option<Expr> {
        let (mut e, mut lasts) = (e.clone(), true);
        self.replace(&mut e, &mut lasts);
        // Values in values could double at each statement.
        (lasts && operands(&e) <= MOST_OPERANDS).then_some(e)
    }

    /// Not [`walk::expr_mut`]: a local's value has been replaced already.
    fn replace(&self, e: &mut Expr, lasts: &mut bool) {
        if let ExprKind::Local(l) = *e.kind {
            match self.values.iter().find(|(of, _)| *of == l) {
                Some((_, value)) => *e = value.clone(),
                None => *lasts = false,
            }
            return;
        }
        *lasts &= stays(e);
        walk::children_mut(e, &mut |c| self.replace(c, lasts));
    }
}

/// Whether an expression's value, by itself, stays over a run, and is had without scratch.
fn stays(e: &Expr) -> bool {
    use ExprKind::*;
    match &*e.kind {
        Int(_) | Bool(_) | Bytes(_) | Param(_) | State(_) | Session(_) | Unary(..) | Binary(..) | Cast(_) | If(..)
        | InRanges(..) | Some(_) | None | IsSome(_) | Unwrap(_) | Get(..) | ConnPeer | ConnLocal | ConnId
        | ConnHandle | ConnFlow => true,
        Read(p) | Count(p) | Raw(p) | Case(p, _) => p.root == Root::Local(LocalId(0)),
        Find { list, .. } | CountOf { list, .. } | AnyToken { list, .. } => list.root == Root::Local(LocalId(0)),
        Builtin(b, _) => !b.takes_scratch(),
        UnitParam(..)
        | Local(_)
        | Counter(_)
        | Acc
        | HasMsg(_)
        | Held(_)
        | PartStatus(_)
        | Parts
        | Make(_)
        | MakeList(_)
        | ListLen(_)
        | ListGet(..)
        | Call(..)
        | PortLen(_)
        | PortUp(..)
        | PortLoad(..)
        | PortServer(..)
        | PortFind(..)
        | Pooled { .. }
        | UpstreamFact(..)
        | Ketama(..)
        | Consistent(..)
        | Modula(..)
        | Maglev(..)
        | GroupCount(_)
        | GroupBytes(_)
        | FrameLen(_)
        | FrameInstance(_)
        | FrameTime(_)
        | FrameMark(_)
        | PacketState(..)
        | Payload(..)
        | ChecksumOk(..)
        | Now
        | Draining
        | Random(_) => false,
    }
}
