//! The parse graph of a frame unit: which header may follow which, among the headers that a program
//! uses.

use crate::frame::{contradict, exclusive, has_alternative, leads_to, needed_layers, step};
use crate::*;
use std::collections::{BTreeMap, BTreeSet};

pub struct ParseGraph<'m> {
    pub m: &'m Module,
    pub unit: UnitId,
    pub layers: &'m [Layer],
    /// Layers that the program uses.
    pub asked: BTreeSet<u32>,
    /// These headers, and the headers that lead to them.
    pub needed: BTreeSet<u32>,
}

/// A header that may follow another (or begin the frame).
pub struct Next<'m> {
    pub layer: u32,
    pub cond: Option<&'m Expr>,
    /// If it is absent all the same, the next ones are tried: the number of the place where that
    /// goes on.
    pub again: Option<u32>,
    /// One of the next ones is sure to be tried then: that it is absent is no fault.
    pub silent: bool,
}

/// The possible successors of each layer; `None` is the frame's beginning.
pub type Chain<'m> = BTreeMap<Option<u32>, Vec<Next<'m>>>;

impl<'m> ParseGraph<'m> {
    pub fn new(m: &'m Module, unit: UnitId) -> Self {
        let (asked, needed) = needed_layers(m, unit);
        ParseGraph { m, unit, layers: layers(m, unit), asked, needed }
    }

    pub fn is_looked_for(&self, n: u32, i: usize) -> bool {
        frame::is_looked_for(self.m, self.layers, &self.needed, n as usize, i)
    }

    /// The possible successors of each header, if at most one of them can be there.
    pub fn chain(&self) -> Option<Chain<'m>> {
        let layers = self.layers;
        let mut chain = Chain::new();
        for n in &self.needed {
            for (i, a) in layers[*n as usize].after.iter().enumerate().filter(|(i, _)| self.is_looked_for(*n, *i)) {
                if !a.cond.as_ref().is_none_or(|c| looks_only_at(c, a.layer.map(|k| layers[k as usize].header))) {
                    return None;
                }
                let silent = has_alternative(self.m, layers, *n as usize, i);
                let next = Next { layer: *n, cond: a.cond.as_ref(), again: None, silent };
                chain.entry(a.layer).or_default().push(next);
            }
        }
        let mut count = 0;
        for list in chain.values_mut() {
            for i in 0..list.len() {
                let mut retries = false;
                for other in &list[i + 1..] {
                    let clash =
                        contradict(self.m, layers[list[i].layer as usize].unit, layers[other.layer as usize].unit);
                    let apart = matches!((list[i].cond, other.cond), (Some(a), Some(b)) if exclusive(a, b));
                    if other.layer != list[i].layer && !apart && !clash {
                        return None;
                    }
                    retries |= other.layer != list[i].layer && !apart;
                }
                if retries {
                    count += 1;
                    list[i].again = Some(count);
                }
            }
        }
        Some(chain)
    }

    /// Whether a header behind a layer is looked for that has a length.
    pub fn lengths_follow(&self, n: u32) -> bool {
        self.needed.iter().any(|k| {
            *k > n && self.m.unit(self.layers[*k as usize].unit).header.covers.is_some() && leads_to(self.layers, n, *k)
        })
    }
}

pub fn layers(m: &Module, unit: UnitId) -> &[Layer] {
    m.unit(unit).frame.as_ref().map_or(&[], |f| &f.layers)
}

/// Bytes of a header without its variable part.
pub fn least(m: &Module, header: UnitId) -> u32 {
    let h = m.unit(header);
    h.body.iter().map(|f| step(m, &h.fields[f.index()])).sum()
}

/// Whether a condition needs nothing but the fields of one header.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn looks_only_at(cond: &Expr, header: Option<FieldId>) -> bool {
    let mut only = true;
    walk::expr(cond, &mut |e| match &*e.kind {
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Cast(_)
        | ExprKind::InRanges(..)
        | ExprKind::If(..) => {}
        ExprKind::Read(p) => {
            only &= p.root == Root::This && header.is_some_and(|h| p.steps.first() == Some(&Step::Field(h)))
        }
        _ => only = false,
    });
    only
}
