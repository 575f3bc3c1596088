//! The common header stacks: the shortest paths to the headers that the program uses, without
//! options.
//!
//! In: the frame units, behind the passes that change the uses of frames. Out:
//! [`Frame::fast_path`] and [`Frame::branch_free`]. A backend looks for the headers of its steps
//! first, at constant offsets. Other frames take the walk over the whole parse graph. If bits
//! identify the most common stack, they decide, and all offsets in such a frame are constants.

use super::batch_lookup;
use crate::frame::{exclusive, field_size};
use crate::header_bits::{common_values, demands, field_bits, merge, options, value, zero_bits, Bits, Known};
use crate::parse_graph::{least, Chain, Next, ParseGraph};
use crate::plans::{FastPath, HeaderStack, Stage};
use crate::*;
use std::collections::{BTreeMap, BTreeSet};

/// Most headers that are looked at, over all ways.
const MOST_STEPS: usize = 8;

/// Steps from header to header.
pub type HeaderSteps = BTreeSet<(Option<u32>, u32)>;

pub fn run(m: &mut Module) {
    let plans: Vec<_> = (0..m.units.len()).map(|u| plan(m, UnitId(u as u32))).collect();
    let rules = has_rules(m);
    for (u, plan) in m.units.iter_mut().zip(plans) {
        if let Some(f) = &mut u.frame {
            (f.fast_path, f.branch_free) = (plan, rules)
        }
    }
}

/// Whether rules say what becomes of frames. Only then headers are told apart without branches:
/// where most frames have the same headers, that costs more than it saves.
fn has_rules(m: &Module) -> bool {
    (0..m.tables.len()).any(|n| batch_lookup::is_masked(m, TableId(n as u32)))
}

/// The plan of a frame unit; None: headers are tried one by one, or none is asked for.
pub fn plan(m: &Module, unit: UnitId) -> Option<FastPath> {
    m.unit(unit).frame.as_ref()?;
    let graph = ParseGraph::new(m, unit);
    let chain = graph.chain()?;
    let steps = graph.common_steps(&chain);
    let begins = steps.iter().any(|(k, _)| k.is_none());
    begins.then(|| FastPath { stack: graph.stack(&chain, &steps), steps: steps.into_iter().collect() })
}

/// Why a backend must not follow a plan; None: it may.
pub fn illegal(m: &Module, unit: UnitId, plan: &FastPath) -> Option<&'static str> {
    let graph = ParseGraph::new(m, unit);
    let Some(chain) = graph.chain() else { return Some("its headers are tried one by one") };
    let steps: HeaderSteps = plan.steps.iter().copied().collect();
    for (k, n) in &steps {
        if !chain.get(k).is_some_and(|list| list.iter().any(|x| x.layer == *n)) {
            return Some("a step leads to a header that does not follow");
        }
        if k.is_some() && !steps.iter().any(|(_, before)| Some(*before) == *k) {
            return Some("a step begins at a header that no step leads to");
        }
    }
    if plan.stack.is_some() && plan.stack != graph.stack(&chain, &steps) {
        return Some("its stack is not that of its steps");
    }
    None
}

/// The demands on a header that follows another.
pub struct Demands<'m> {
    /// Bits that must be there, at its own fields or at those of the header before it.
    pub bits: Bits,
    /// Conditions that no bits stand for.
    pub rest: Vec<&'m Expr>,
    /// Fields whose values the bits say.
    pub known: Known,
}

impl<'m> ParseGraph<'m> {
    /// Steps from the frame's beginning to each layer.
    fn depths(&self, chain: &Chain) -> BTreeMap<u32, u32> {
        let (mut depth, mut front) = (BTreeMap::new(), vec![None]);
        for d in 0.. {
            let next: Vec<u32> = front
                .iter()
                .flat_map(|k| chain.get(k).into_iter().flatten())
                .map(|x| x.layer)
                .filter(|n| !depth.contains_key(n))
                .collect();
            if next.is_empty() {
                break;
            }
            for n in &next {
                depth.entry(*n).or_insert(d);
            }
            front = next.into_iter().map(Some).collect();
        }
        depth
    }

    /// Which headers usually follow which: steps of the shortest ways to what is asked for, those
    /// first that many headers lead to.
    fn common_steps(&self, chain: &Chain) -> HeaderSteps {
        let (layers, asked, depth) = (self.layers, &self.asked, self.depths(chain));
        let level = |k: Option<u32>| k.map_or(0, |k| depth.get(&k).map_or(u32::MAX, |d| d + 1));
        let nearer = |k: Option<u32>, n: u32| depth.get(&n).is_some_and(|d| *d == level(k));
        // Carriers: on a shortest way to a layer that is asked for, the first such way.
        let mut wanted = asked.clone();
        for n in asked {
            let mut n = *n;
            while let Some(k) = layers[n as usize].after.iter().filter(|a| nearer(a.layer, n)).find_map(|a| a.layer) {
                if !wanted.insert(k) {
                    break;
                }
                n = k;
            }
        }
        let mut steps: Vec<_> = chain
            .iter()
            .flat_map(|(k, list)| list.iter().map(|x| (*k, x.layer)))
            .filter(|(k, n)| nearer(*k, *n) && wanted.contains(n) && k.is_none_or(|k| wanted.contains(&k)))
            .collect();
        steps.sort_by_key(|(k, n)| (level(*k), std::cmp::Reverse(layers[*n as usize].after.len()), *n));
        let mut taken = BTreeSet::new();
        for (k, n) in steps {
            if taken.len() < MOST_STEPS && k.is_none_or(|k| taken.iter().any(|(_, n)| *n == k)) {
                taken.insert((k, n));
            }
        }
        taken
    }

    /// Headers that are looked for behind one, those first that many headers lead to: they are met
    /// more often.
    pub fn tried<'c>(&self, chain: &'c Chain<'m>, steps: &HeaderSteps, from: Option<u32>) -> Vec<&'c Next<'m>> {
        let list: Vec<_> = chain.get(&from).into_iter().flatten().collect();
        // Of headers that only their first bits tell apart, the first is tried here.
        let here = |x: &&&Next| {
            steps.contains(&(from, x.layer))
                && !list.iter().take_while(|y| y.layer != x.layer).any(|y| y.again.is_some() && y.cond == x.cond)
        };
        let mut tried: Vec<&Next> = list.iter().copied().filter(|x| here(&x)).collect();
        tried.sort_by_key(|x| std::cmp::Reverse(self.layers[x.layer as usize].after.len()));
        tried
    }

    /// The stack that most frames have, if it can be told by bits, and by what headers say of their
    /// fields.
    fn stack(&self, chain: &Chain<'m>, steps: &HeaderSteps) -> Option<HeaderStack> {
        let mut stack = HeaderStack { least: 16, stages: Vec::new() };
        let (mut from, mut at) = (None, 0);
        loop {
            let tried = self.tried(chain, steps, from.map(|f: (u32, u32)| f.0));
            let ends = if from.is_some() { self.ends(chain, &tried, from) } else { Vec::new() };
            let Some(first) = tried.first() else { break };
            let several = !ends.is_empty();
            let stages = (if several { ends } else { vec![*first] })
                .into_iter()
                .map(|x| self.stage(x, from, at))
                .collect::<Option<Vec<_>>>()?;
            stack.least = stages.iter().map(|s| s.at + s.least).fold(stack.least, u32::max);
            from = Some((stages[0].layer, at));
            at += stages[0].least;
            stack.stages.push(stages);
            if several {
                return Some(stack);
            }
        }
        // A header behind the last one would have to be looked for.
        let end = chain.get(&from.map(|f| f.0)).is_none_or(Vec::is_empty);
        (end && !stack.stages.is_empty()).then_some(stack)
    }

    fn stage(&self, x: &Next<'m>, from: Option<(u32, u32)>, at: u32) -> Option<Stage> {
        let unit = self.layers[x.layer as usize].unit;
        let asks = self.demands(x, from, at);
        let last = self.is_last(x.layer);
        let varies = !last && options(self.m, unit).into_iter().any(|e| value(self.m, unit, e, &asks.known).is_none());
        let parts = self
            .m
            .unit(unit)
            .header
            .partial
            .is_some_and(|more| self.lengths_follow(x.layer) && zero_bits(self.m, unit, more, at).is_none());
        let Demands { bits, rest, known } = asks;
        (!varies && !parts && rest.is_empty()).then(|| Stage {
            layer: x.layer,
            at,
            least: least(self.m, unit),
            bits,
            known,
        })
    }

    /// Whether no header of the unit comes behind a layer.
    pub fn is_last(&self, n: u32) -> bool {
        !self.layers.iter().any(|other| other.after.iter().any(|a| a.layer == Some(n)))
    }

    /// The demands on a header at a place. `from`: the header before it, and where that begins.
    pub fn demands(&self, x: &Next<'m>, from: Option<(u32, u32)>, at: u32) -> Demands<'m> {
        let (m, unit) = (self.m, self.layers[x.layer as usize].unit);
        let (mut bits, mut rest) = (Bits::new(), Vec::new());
        if let Some(cond) = x.cond {
            demands(m, self.layers, cond, from, &mut bits, &mut rest)
        }
        let known = common_values(m, unit, self.is_last(x.layer));
        for (f, v) in &known {
            merge(&mut bits, field_bits(m, unit, *f, at, *v, u64::MAX).unwrap_or_default())
        }
        if let Some(more) = m.unit(unit).header.partial.filter(|_| self.lengths_follow(x.layer)) {
            merge(&mut bits, zero_bits(m, unit, more, at).unwrap_or_default())
        }
        Demands { bits, rest, known }
    }

    /// Those of several headers that are tested at once, with no header behind them. They exclude
    /// one another, and each is there under one condition. The bytes asked of each are within its
    /// least size and cannot fault.
    pub fn ends<'a>(&self, chain: &Chain<'m>, tried: &[&'a Next<'m>], from: Option<(u32, u32)>) -> Vec<&'a Next<'m>> {
        let layers = self.layers;
        let within = |x: &&&Next<'m>| {
            let unit = layers[x.layer as usize].unit;
            let (body, fields) = (&self.m.unit(unit).body, &self.m.unit(unit).fields);
            let varies = body.iter().position(|f| {
                !matches!(fields[f.index()].kind, FieldKind::Let { .. })
                    && field_size(self.m, &fields[f.index()]).is_none()
            });
            let mut faults = options(self.m, unit).into_iter().any(Expr::may_fault);
            for f in body {
                faults |= matches!(&fields[f.index()].kind, FieldKind::Require { cond } if cond.may_fault())
            }
            !faults && varies.is_none_or(|n| n + 1 == body.len())
        };
        let alone = |x: &&&Next<'m>| {
            let (mut bits, mut rest) = (Bits::new(), Vec::new());
            let Some(cond) = x.cond else { return false };
            demands(self.m, layers, cond, from, &mut bits, &mut rest);
            rest.is_empty()
                && tried.iter().all(|y| {
                    std::ptr::eq(**x, *y) || y.layer != x.layer && y.cond.is_some_and(|other| exclusive(cond, other))
                })
        };
        let ends: Vec<_> = tried
            .iter()
            .filter(|x| chain.get(&Some(x.layer)).is_none_or(Vec::is_empty))
            .filter(within)
            .filter(alone)
            .copied()
            .collect();
        if ends.len() > 1 {
            ends
        } else {
            Vec::new()
        }
    }
}
