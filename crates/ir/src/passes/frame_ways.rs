//! Ways through the bodies of packet handlers, with the values and headers that are known on them.
//!
//! In: the statements of a body, in order. Out: for each, which expressions are over the packet as
//! it came.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of many")]

use super::flow_keys::{over_headers, rooted, FRAME};
use super::header_facts::HeaderFacts;
use crate::*;
use std::collections::BTreeMap;

/// A way through a body: its statements so far.
pub(super) struct FrameWay<'m> {
    m: &'m Module,
    unit: UnitId,
    /// Values of locals that are set once, over the frame.
    pub known: BTreeMap<LocalId, Option<Expr>>,
    /// Fields of headers that were set.
    changed: Vec<(FieldId, FieldId)>,
    /// Headers were put in or taken out: conditions over them tell of another frame than came.
    other: bool,
    pub facts: HeaderFacts<'m>,
}

impl<'m> FrameWay<'m> {
    pub fn new(m: &'m Module, unit: UnitId) -> FrameWay<'m> {
        let facts = HeaderFacts::none(m, unit);
        FrameWay { m, unit, known: BTreeMap::new(), changed: Vec::new(), other: false, facts }
    }

    pub fn learn(&mut self, cond: &Expr, holds: bool) {
        if !self.other {
            self.facts.learn(&rooted(resolve(cond, &self.known), Root::This, FRAME), holds)
        }
    }

    /// Notes the values that a statement sets. A loop finds at its beginning those of its end.
    pub fn note(&mut self, s: &StmtKind) {
        if matches!(s, StmtKind::For { .. } | StmtKind::Loop { .. }) {
            walk::stmt_blocks(s, &mut |b| walk::stmts(b, &mut |s| self.edits(&s.kind)));
        }
        self.edits(s);
        match s {
            StmtKind::Set(l, e) => {
                let value = resolve(e, &self.known);
                // A value that was read before an edit stays the same.
                let kept = self.is_from_frame(&value) || !self.other && over_headers(&value);
                let value = kept.then(|| rooted(value, FRAME, Root::This));
                self.known.entry(*l).and_modify(|v| *v = None).or_insert(value);
            }
            StmtKind::SetField(l, ..) | StmtKind::Push(l, _) => {
                self.known.insert(*l, None);
            }
            _ => {
                for l in walk::defined(s).into_iter().flatten() {
                    self.known.insert(l, None);
                }
            }
        }
    }

    fn edits(&mut self, s: &StmtKind) {
        let StmtKind::Frame { act, .. } = s else { return };
        let m = self.m;
        let layers = parse_graph::layers(m, self.unit);
        let all =
            |l: &Layer| (0..m.unit(l.unit).fields.len() as u32).map(|f| (l.header, FieldId(f))).collect::<Vec<_>>();
        match act {
            FrameAct::Set { layer, field, .. } => {
                self.changed.extend(layers.get(*layer as usize).map(|l| (l.header, *field)))
            }
            FrameAct::Swap { layer, a, b } => {
                let header = layers.get(*layer as usize).map(|l| l.header);
                self.changed.extend(header.into_iter().flat_map(|h| [(h, *a), (h, *b)]))
            }
            FrameAct::InC { .. } | FrameAct::Parse if elements::changes_frame(s) => {
                self.other = true;
                self.changed.extend(layers.iter().flat_map(all))
            }
            FrameAct::Insert { .. } | FrameAct::Remove { .. } => self.other = true,
            _ => {}
        }
    }

    /// Whether an expression is over the frame alone, with nothing that was edited.
    pub fn is_from_frame(&self, e: &Expr) -> bool {
        let mut ok = true;
        let mut reads = false;
        walk::expr(e, &mut |e| match &*e.kind {
            ExprKind::Read(p) => {
                reads = true;
                let edited = match p.steps[..] {
                    [Step::Field(h), Step::Field(f), ..] => self.changed.contains(&(h, f)),
                    _ => false,
                };
                ok &= p.root == Root::This || p.root == FRAME && !edited;
            }
            ExprKind::Case(p, _) => ok &= p.root == FRAME && !self.other || p.root == Root::This,
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
}

/// The expression with the locals replaced whose value is known.
pub(super) fn resolve(e: &Expr, known: &BTreeMap<LocalId, Option<Expr>>) -> Expr {
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
