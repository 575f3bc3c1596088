//! The longest way through a body, in steps. A statement or operation is one step, whatever the
//! bytes that it looks at. Functions that call each other several times multiply their steps at
//! each level. So such a body may be far longer than its text.

use crate::*;

/// The most steps of a body, each loop counted as one round.
pub const LIMIT: u64 = 1 << 30;

/// Functions and handlers beyond [`LIMIT`] that call none beyond it.
pub fn too_long(m: &Module) -> Vec<(String, Span)> {
    let mut steps = Straight::new(m, false);
    let funcs: Vec<u64> = (0..m.funcs.len()).map(|f| steps.func(FuncId(f as u32))).collect();
    let inner = |b: &Block| walk::calls(b).iter().any(|f| funcs.get(f.index()).is_some_and(|n| *n > LIMIT));
    let mut found = Vec::new();
    for (f, n) in m.funcs.iter().zip(&funcs) {
        if let (FuncBody::Body(b), true) = (&f.body, *n > LIMIT) {
            if !inner(&b.block) {
                found.push((f.name.clone(), f.span))
            }
        }
    }
    for h in &m.handlers {
        if steps.block(&h.body.block) > LIMIT && !inner(&h.body.block) {
            found.push((h.name.clone(), h.span))
        }
    }
    found
}

/// Handlers whose rounds alone are more than a number of 64 bits counts.
pub fn endless(m: &Module) -> Vec<HandlerId> {
    let mut steps = Straight::new(m, true);
    let saturated = |h: &usize| steps.block(&m.handlers[*h].body.block) == u64::MAX;
    (0..m.handlers.len()).filter(saturated).map(|h| HandlerId(h as u32)).collect()
}

fn suspends(block: &Block) -> bool {
    let mut found = false;
    walk::stmts(block, &mut |s| found |= matches!(s.kind, StmtKind::Await { .. }));
    found
}

struct Straight<'m> {
    m: &'m Module,
    /// All rounds of loops are counted.
    rounds: bool,
    /// Functions do not recurse; one under way counts as 0 so that a wrong module cannot loop here.
    funcs: Vec<Option<u64>>,
    /// As for functions.
    inputs: Vec<Option<u64>>,
}

impl<'m> Straight<'m> {
    fn new(m: &'m Module, rounds: bool) -> Self {
        Straight { m, rounds, funcs: vec![None; m.funcs.len()], inputs: vec![None; m.inputs.len()] }
    }

    fn func(&mut self, f: FuncId) -> u64 {
        let m = self.m;
        let Some(FuncBody::Body(b)) = m.funcs.get(f.index()).map(|f| &f.body) else { return 1 };
        if let Some(n) = self.funcs[f.index()] {
            return n;
        }
        self.funcs[f.index()] = Some(0);
        let n = self.block(&b.block);
        self.funcs[f.index()] = Some(n);
        n
    }

    fn input(&mut self, i: InputId) -> u64 {
        let m = self.m;
        let Some(b) = m.input_body(i) else { return 0 };
        if let Some(n) = self.inputs[i.index()] {
            return n;
        }
        self.inputs[i.index()] = Some(0);
        let n = self.block(&b.block);
        self.inputs[i.index()] = Some(n);
        n
    }

    fn block(&mut self, block: &Block) -> u64 {
        self.way(block, 0)
    }

    /// The longest way through a block, with the steps behind it. A way that leaves has none.
    fn way(&mut self, block: &Block, behind: u64) -> u64 {
        block.iter().rev().fold(behind, |behind, s| self.stmt(&s.kind, behind))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &StmtKind, behind: u64) -> u64 {
        let mut own = 1u64;
        walk::stmt_exprs(s, &mut |e| own = own.saturating_add(self.expr(e)));
        let rest = match s {
            StmtKind::If { then, other, .. } => self.way(then, behind).max(self.way(other, behind)),
            StmtKind::Switch { cases, default, .. } => {
                cases.iter().fold(self.way(default, behind), |n, (_, b)| n.max(self.way(b, behind)))
            }
            StmtKind::For { max, body, .. } | StmtKind::Loop { max, body } => {
                // A suspension is a pause.
                let rounds = if self.rounds && !suspends(body) { *max } else { 1 };
                self.block(body).saturating_add(1).saturating_mul(rounds).saturating_add(behind)
            }
            StmtKind::Return(_) | StmtKind::Fault { .. } | StmtKind::Break | StmtKind::Continue => 0,
            StmtKind::Output { wire, .. } => self.m.input_of(*wire).map_or(0, |i| self.input(i)).saturating_add(behind),
            _ => {
                let mut all = behind;
                walk::stmt_blocks(s, &mut |b| all = all.saturating_add(self.block(b)));
                all
            }
        };
        own.saturating_add(rest)
    }

    fn expr(&mut self, e: &Expr) -> u64 {
        let mut n = 1u64;
        walk::children(e, &mut |c| n = n.saturating_add(self.expr(c)));
        if let ExprKind::Call(f, _) = &*e.kind {
            n = n.saturating_add(self.func(*f))
        }
        n
    }
}
