//! Headers that a packet is known to have, and not to have, on the way to a statement.
//!
//! In: the conditions that hold there, and the layers of the packet's type. Out: conditions over
//! headers decided, and expressions without the branches that are not taken. A header that is there
//! tells of the only one that it can follow, and of those that exclude it.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind")]

use crate::*;

/// Which layers are known to be there, or to be absent.
#[derive(Clone, Debug)]
pub struct HeaderFacts<'m> {
    layers: &'m [Layer],
    /// Two headers of a packet are one before the other.
    chain: bool,
    /// By layer.
    known: Vec<Option<bool>>,
}

impl<'m> HeaderFacts<'m> {
    pub fn none(m: &'m Module, unit: UnitId) -> HeaderFacts<'m> {
        let layers = parse_graph::layers(m, unit);
        HeaderFacts { layers, chain: is_chain(m, layers), known: vec![None; layers.len()] }
    }

    /// A condition has this value.
    pub fn learn(&mut self, cond: &Expr, holds: bool) {
        walk::implied(cond, holds, &mut |cond, holds| {
            if let Some((layer, is)) = self.asked(cond) {
                self.note(layer, is == holds)
            }
        })
    }

    /// Keeps the facts that both have.
    pub fn meet(&mut self, other: &HeaderFacts) {
        for (a, b) in self.known.iter_mut().zip(&other.known) {
            if a != b {
                *a = None
            }
        }
    }

    /// The value of a condition over headers.
    pub fn decide(&self, cond: &Expr) -> Option<bool> {
        match &*cond.kind {
            ExprKind::Bool(b) => Some(*b),
            ExprKind::Unary(UnOp::Not, a) => self.decide(a).map(|b| !b),
            ExprKind::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
                let decides = *op == BinOp::Or;
                match (self.decide(a), self.decide(b)) {
                    (Some(x), _) | (_, Some(x)) if x == decides => Some(decides),
                    (Some(_), Some(_)) => Some(!decides),
                    _ => None,
                }
            }
            ExprKind::Case(..) => {
                let (layer, is) = self.asked(cond)?;
                self.known[layer].map(|there| there == is)
            }
            _ => None,
        }
    }

    /// An expression without the branches that are not taken.
    pub fn simplified(&self, e: &Expr) -> Expr {
        let mut e = e.clone();
        let ExprKind::If(cond, a, b) = &*e.kind else {
            walk::children_mut(&mut e, &mut |c| *c = self.simplified(c));
            return e;
        };
        match self.decide(cond) {
            Some(true) => self.simplified(a),
            Some(false) => self.simplified(b),
            None => {
                let branch = |e: &Expr, holds| {
                    let mut inner = self.clone();
                    inner.learn(cond, holds);
                    inner.simplified(e)
                };
                let (yes, no) = (branch(a, true), branch(b, false));
                if yes == no {
                    return yes;
                }
                Expr::new(e.ty, ExprKind::If(self.simplified(cond), yes, no))
            }
        }
    }

    /// The layer that a condition asks for, and whether it asks for its presence.
    fn asked(&self, cond: &Expr) -> Option<(usize, bool)> {
        let ExprKind::Case(path, case) = &*cond.kind else { return None };
        let [Step::Field(switch)] = path.steps[..] else { return None };
        Some((self.layers.iter().position(|l| l.switch == switch)?, *case == 0))
    }

    fn note(&mut self, layer: usize, there: bool) {
        if self.known[layer].is_some() {
            return;
        }
        self.known[layer] = Some(there);
        if there {
            if let [only, rest @ ..] = self.layers[layer].after.as_slice() {
                if let (Some(before), true) = (only.layer, rest.iter().all(|a| a.layer == only.layer)) {
                    self.note(before as usize, true)
                }
            }
            let leads = |a: usize, b: usize| frame::leads_to(self.layers, a as u32, b as u32);
            let apart = |other: usize| other != layer && !leads(layer, other) && !leads(other, layer);
            let others: Vec<usize> = (0..self.layers.len()).filter(|o| self.chain && apart(*o)).collect();
            others.into_iter().for_each(|o| self.note(o, false))
        } else {
            let absent = |known: &[Option<bool>], a: &After| a.layer.is_some_and(|l| known[l as usize] == Some(false));
            for later in layer + 1..self.layers.len() {
                if !self.layers[later].after.is_empty()
                    && self.layers[later].after.iter().all(|a| absent(&self.known, a))
                {
                    self.note(later, false)
                }
            }
        }
    }
}

/// Whether each header has at most one other that follows it at once: those that may stand at one
/// place ask for different values.
fn is_chain(m: &Module, layers: &[Layer]) -> bool {
    let apart = |x: usize, y: usize| {
        let exclusive = |a: &After, b: &After| {
            a.layer != b.layer || matches!((&a.cond, &b.cond), (Some(c), Some(d)) if frame::exclusive(c, d))
        };
        frame::contradict(m, layers[x].unit, layers[y].unit)
            || layers[x].after.iter().all(|a| layers[y].after.iter().all(|b| exclusive(a, b)))
    };
    (0..layers.len()).all(|x| (x + 1..layers.len()).all(|y| apart(x, y)))
}
