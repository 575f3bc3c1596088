//! Conditions that hold at a point of the program: those of the branches around it, of guards
//! before it, and requirements.

use super::Lower;
use crate::ir_builder as build;
use ir::{BinOp, Expr, ExprKind, UnOp};
use std::ops::Deref;
use std::rc::Rc;
use wireloom_ir as ir;

/// A condition that holds. Copies share it: each branch has a list of its own.
#[derive(Clone, Debug)]
pub struct Fact {
    cond: Rc<Expr>,
    /// The text that tells it: 0 for the body at hand, more for functions and elements in it.
    text: u32,
}

impl From<Expr> for Fact {
    fn from(e: Expr) -> Fact {
        Fact { cond: Rc::new(e), text: 0 }
    }
}

impl Deref for Fact {
    type Target = Expr;

    fn deref(&self) -> &Expr {
        &self.cond
    }
}

impl PartialEq for Fact {
    fn eq(&self, other: &Fact) -> bool {
        self.text == other.text && (Rc::ptr_eq(&self.cond, &other.cond) || self.cond == other.cond)
    }
}

impl PartialEq<Expr> for Fact {
    fn eq(&self, other: &Expr) -> bool {
        *self.cond == *other
    }
}

/// Further facts are not used, because every question searches them all.
const MAX_FACTS: usize = 200;

/// Adds the facts that follow from a condition being true (or false).
pub fn split(cond: &Expr, holds: bool, into: &mut Vec<Fact>) {
    match (&*cond.kind, holds) {
        (ExprKind::Binary(BinOp::And, a, b), true) => {
            split(a, true, into);
            split(b, true, into);
        }
        (ExprKind::Binary(BinOp::Or, a, b), false) => {
            split(a, false, into);
            split(b, false, into);
        }
        (ExprKind::Unary(UnOp::Not, a), _) => split(a, !holds, into),
        // Not all are absent: one is there.
        (ExprKind::Binary(BinOp::And, ..), false) if some_there(cond).is_some() => {
            if let Some(one) = some_there(cond) {
                split(&one, true, into)
            }
        }
        (ExprKind::Bool(_), _) => {}
        _ => {
            let fact = if holds { cond.clone() } else { negate(cond) };
            // Of two cases that exclude each other only one is tracked; the rest follows by the
            // branch's structure.
            if into.len() < MAX_FACTS && !into.iter().any(|f| *f == fact) {
                into.push(fact.into());
            }
        }
    }
}

/// The condition that `not a and not b` denies: `a or b`.
fn some_there(e: &Expr) -> Option<Expr> {
    if let ExprKind::Binary(BinOp::And, a, b) = &*e.kind {
        return Some(build::or(some_there(a)?, some_there(b)?));
    }
    let ExprKind::Unary(UnOp::Not, a) = &*e.kind else { return None };
    matches!(*a.kind, ExprKind::Case(..)).then(|| a.clone())
}

/// The opposite of a comparison, or `not`.
fn negate(e: &Expr) -> Expr {
    if let ExprKind::Binary(op, a, b) = &*e.kind {
        let op = match op {
            BinOp::Lt => Some(BinOp::Ge),
            BinOp::Ge => Some(BinOp::Lt),
            BinOp::Gt => Some(BinOp::Le),
            BinOp::Le => Some(BinOp::Gt),
            BinOp::Eq => Some(BinOp::Ne),
            BinOp::Ne => Some(BinOp::Eq),
            BinOp::Add
            | BinOp::Sub
            | BinOp::Mul
            | BinOp::Div
            | BinOp::Rem
            | BinOp::AddSat
            | BinOp::SubSat
            | BinOp::And
            | BinOp::Or
            | BinOp::BitAnd
            | BinOp::BitOr
            | BinOp::BitXor
            | BinOp::Shl
            | BinOp::Shr
            | BinOp::EqCase => None,
        };
        if let Some(op) = op {
            return build::cmp(op, a.clone(), b.clone());
        }
    }
    build::not(e.clone())
}

fn strip(e: &Expr) -> &Expr {
    if let ExprKind::Cast(a) = &*e.kind {
        strip(a)
    } else {
        e
    }
}

impl Lower<'_, '_> {
    pub fn assume(&mut self, cond: &Expr, holds: bool) {
        if self.text == 0 {
            return split(cond, holds, &mut self.facts);
        }
        let mut told = vec![];
        split(cond, holds, &mut told);
        for fact in told {
            let fact = Fact { text: self.text, ..fact };
            if self.facts.len() < MAX_FACTS && !self.facts.contains(&fact) {
                self.facts.push(fact);
            }
        }
    }

    /// Adds a condition as it is.
    pub fn know(&mut self, cond: Expr) {
        self.facts.push(Fact { text: self.text, ..cond.into() });
    }

    /// Lowers the body of a function or element at the place of its use. Facts of that place hold
    /// in it, but do not change its types: these follow from its own text.
    pub fn as_text<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let most = self.facts.iter().map(|f| f.text).max().unwrap_or(0).max(self.text);
        let outer = std::mem::replace(&mut self.text, most + 1);
        let made = f(self);
        self.text = outer;
        for fact in &mut self.facts {
            fact.text = fact.text.min(outer);
        }
        made
    }

    /// A condition as it is asked: in the text of a function or element it may be known at the
    /// place of use.
    pub fn known_outside(&self, cond: &Expr) -> Expr {
        match self.text > 0 {
            true if self.holds(cond, true) => build::boolean(true),
            true if self.holds(cond, false) => build::boolean(false),
            _ => cond.clone(),
        }
    }

    /// Whether the text at hand tells that a condition holds.
    pub fn told(&mut self, cond: &Expr) -> bool {
        if self.text == 0 || !self.proven(cond) {
            return self.proven(cond);
        }
        let own = self.facts.iter().filter(|f| f.text >= self.text).cloned().collect();
        let all = std::mem::replace(&mut self.facts, own);
        let told = self.proven(cond);
        self.facts = all;
        told
    }

    fn is_fact(&self, cond: &Expr) -> bool {
        self.facts.iter().any(|f| *f == *cond)
    }

    /// Whether a condition (or its opposite) is known to hold.
    pub fn holds(&self, cond: &Expr, holds: bool) -> bool {
        let mut parts = vec![];
        split(cond, holds, &mut parts);
        if let ExprKind::Bool(b) = &*cond.kind {
            return *b == holds;
        }
        !parts.is_empty() && parts.iter().all(|p| self.proven(p))
    }

    /// Whether a condition is known to hold.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn proven(&self, cond: &Expr) -> bool {
        match &*cond.kind {
            ExprKind::Bool(b) => return *b,
            ExprKind::Binary(BinOp::And, a, b) => return self.proven(a) && self.proven(b),
            ExprKind::Binary(BinOp::Or, a, b) => {
                return self.proven(a) || self.proven(b) || self.is_fact(cond) || self.header_known(cond)
            }
            ExprKind::Binary(BinOp::Lt, a, b) if self.less(strip(a), strip(b)) => return true,
            ExprKind::Binary(BinOp::Ne, a, b) if build::as_int(b) == Some(0) && self.positive(strip(a)) => return true,
            ExprKind::Binary(BinOp::Ne, a, b)
                if build::as_int(b).is_some_and(|n| {
                    self.facts.iter().any(|f| self.at_least(f, strip(a)).is_some_and(|low| low > n))
                }) =>
            {
                return true
            }
            ExprKind::Binary(BinOp::Ge, a, b) if self.less(strip(b), strip(a)) || strip(a) == strip(b) => return true,
            ExprKind::Binary(BinOp::Ge, a, b)
                if build::as_int(b).is_some_and(|n| {
                    self.facts.iter().any(|f| self.at_least(f, strip(a)).is_some_and(|low| low >= n))
                }) =>
            {
                return true
            }
            _ => {}
        }
        self.is_fact(cond) || self.header_known(cond)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn less(&self, a: &Expr, b: &Expr) -> bool {
        if let (Some(a), Some(b)) = (build::as_int(a), build::as_int(b)) {
            return a < b;
        }
        // The remainder by b is below b: its guard has passed.
        if let ExprKind::Binary(BinOp::Rem, _, d) = &*a.kind {
            if strip(d) == b {
                return true;
            }
        }
        self.facts.iter().any(|f| match &*f.kind {
            ExprKind::Binary(BinOp::Lt, p, q) => strip(p) == a && strip(q) == b,
            ExprKind::Binary(BinOp::Gt, p, q) => strip(q) == a && strip(p) == b,
            // `len(x) == 3` and a constant below 3; `len(x) > 0` and 0.
            ExprKind::Binary(BinOp::Eq, p, q) if strip(p) == b => {
                matches!((build::as_int(a), build::as_int(strip(q))), (Some(a), Some(n)) if a < n)
            }
            _ => false,
        }) || matches!(build::as_int(a), Some(n) if self.facts.iter().any(|f| self.at_least(f, b).is_some_and(|low| n < low)))
    }

    /// The lower bound that a fact gives for an expression.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn at_least(&self, fact: &Expr, e: &Expr) -> Option<u128> {
        match &*fact.kind {
            ExprKind::Binary(BinOp::Gt, p, q) if strip(p) == e => build::as_int(strip(q)).map(|n| n.saturating_add(1)),
            ExprKind::Binary(BinOp::Ge, p, q) if strip(p) == e => build::as_int(strip(q)),
            ExprKind::Binary(BinOp::Lt, p, q) if strip(q) == e => build::as_int(strip(p)).map(|n| n.saturating_add(1)),
            ExprKind::Binary(BinOp::Ne, p, q) if strip(p) == e && build::as_int(strip(q)) == Some(0) => Some(1),
            _ => None,
        }
    }

    fn positive(&self, e: &Expr) -> bool {
        build::as_int(e).is_some_and(|n| n > 0) || self.facts.iter().any(|f| self.at_least(f, e).is_some_and(|n| n > 0))
    }

    /// Forgets the facts about a place that is written.
    pub fn forget(&mut self, changed: impl Fn(&ExprKind) -> bool) {
        self.facts.retain(|f| {
            let mut hit = false;
            ir::walk::expr(f, &mut |e| hit |= changed(&e.kind));
            !hit
        });
    }
}
