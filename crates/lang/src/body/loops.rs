//! Code that runs again or is left by jumps: loops, and inlined bodies.
//!
//! In: a closure that lowers the code. Out: its block, lowered with only the facts that hold in
//! each round. A fact from before a loop holds in its second round only if the loop does not change
//! it. The same is true behind code that `break` or `return` leaves. So the code is lowered once,
//! and searched for its changes. If it changes something that a fact relied on, it is lowered once
//! more.

use super::path_conditions::Fact;
use super::Lower;
use crate::compiler::R;
use crate::ir_builder as build;
use ir::{Block, CounterId, Expr as X, ExprKind as K, FrameAct, LocalId, Root, SessionId, StateId, Step, StmtKind};
use std::collections::HashSet;
use wireloom_ir as ir;

/// The changes that a piece makes.
#[derive(Clone, Default)]
pub struct Changes {
    locals: HashSet<LocalId>,
    states: HashSet<StateId>,
    sessions: HashSet<SessionId>,
    counters: HashSet<CounterId>,
    /// Frames that are edited.
    frames: HashSet<LocalId>,
    /// Headers that are taken out, by frame and layer.
    gone: HashSet<(LocalId, u32)>,
    /// Elements are given packets: they may change any state.
    outputs: bool,
}

impl Changes {
    fn add(&mut self, o: &Changes) {
        self.locals.extend(&o.locals);
        self.states.extend(&o.states);
        self.sessions.extend(&o.sessions);
        self.counters.extend(&o.counters);
        self.frames.extend(&o.frames);
        self.gone.extend(&o.gone);
        self.outputs |= o.outputs;
    }

    /// Whether what an expression says may be no longer so.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn touch(&self, e: &X) -> bool {
        let mut hit = false;
        ir::walk::expr(e, &mut |e| {
            hit |= match &*e.kind {
                K::Local(l) => self.locals.contains(l),
                K::State(id) => self.outputs || self.states.contains(id),
                K::Session(id) => self.outputs || self.sessions.contains(id),
                K::Counter(id) => self.outputs || self.counters.contains(id),
                K::FrameLen(l) | K::Payload(l, _) | K::ChecksumOk(l, _) => self.frames.contains(l),
                _ => {
                    matches!(ir::walk::path_of(e), Some(ir::Path { root: Root::Local(l), steps }) if steps.len() > 1 && self.frames.contains(l) || self.locals.contains(l))
                }
            }
        });
        hit
    }
}

/// Where a lowering can go on once more.
pub struct Start {
    facts: Vec<Fact>,
    gone: HashSet<(LocalId, u32)>,
    passed: super::passed_on::PassedOn,
    locals: usize,
    diags: usize,
    epoch: u32,
    replied: super::Replied,
    given: Option<wireloom_syntax::ast::Span>,
    pending: usize,
    torn: usize,
    mark: Option<LocalId>,
    fields: std::collections::BTreeMap<ir::PacketFieldId, LocalId>,
}

impl Lower<'_, '_> {
    /// Lowers a piece that runs in rounds. `again` has it lowered once more because of what it
    /// changes; `before` is done first then.
    pub fn looped<T>(
        &mut self,
        again: impl Fn(&Changes) -> bool,
        before: impl FnOnce(&mut Self),
        mut piece: impl FnMut(&mut Self) -> R<T>,
    ) -> (R<T>, Block) {
        if let Some(c) = self.changing.clone() {
            self.unlearn(&c)
        }
        let start = self.start();
        let (made, block) = self.sub(&mut piece);
        let changes = self.changes(&block);
        self.unlearn(&changes);
        let known = start.facts.iter().any(|f| self.is_stale(&changes, f)) || !changes.gone.is_subset(&start.gone);
        if made.is_err() || !known && !again(&changes) {
            return (made, block);
        }
        self.go_back(start);
        before(self);
        self.unlearn(&changes);
        let mut all = changes.clone();
        if let Some(c) = &self.changing {
            all.add(c)
        }
        let outer = self.changing.replace(all);
        let (made, block) = self.sub(&mut piece);
        self.changing = outer;
        self.unlearn(&changes);
        (made, block)
    }

    /// Behind a piece that jumps leave: what it changes on any way is not known.
    pub fn behind_jumps(&mut self, block: &Block) {
        let changes = self.changes(block);
        self.unlearn(&changes);
    }

    pub fn start(&self) -> Start {
        Start {
            facts: self.facts.clone(),
            gone: self.gone.clone(),
            passed: self.passed.clone(),
            locals: self.locals.len(),
            diags: self.cx.diags.len(),
            epoch: self.epoch,
            replied: self.replied,
            given: self.given,
            pending: self.pending.len(),
            torn: self.torn.len(),
            mark: self.mark,
            fields: self.fields.clone(),
        }
    }

    pub fn go_back(&mut self, s: Start) {
        (self.facts, self.gone, self.epoch, self.replied, self.mark) = (s.facts, s.gone, s.epoch, s.replied, s.mark);
        (self.fields, self.given, self.passed) = (s.fields, s.given, s.passed);
        self.locals.truncate(s.locals);
        self.bounds.retain(|l, _| l.index() < s.locals);
        self.origins.retain(|l, _| l.index() < s.locals);
        self.read_with.retain(|l, _| l.index() < s.locals);
        self.walked.retain(|_, l| l.index() < s.locals);
        self.cx.diags.truncate(s.diags);
        self.pending.truncate(s.pending);
        self.torn.truncate(s.torn);
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn changes(&self, block: &[ir::Stmt]) -> Changes {
        let mut c = Changes::default();
        let mut visit = |s: &ir::Stmt| {
            c.locals.extend(ir::walk::defined(&s.kind).into_iter().flatten());
            match &s.kind {
                StmtKind::SetField(l, ..) | StmtKind::Push(l, _) | StmtKind::TableNext { cursor: l, .. } => {
                    c.locals.insert(*l);
                }
                StmtKind::SetState(id, _) => {
                    c.states.insert(*id);
                }
                StmtKind::SetSession(id, _) => {
                    c.sessions.insert(*id);
                }
                StmtKind::Count(id, _) => {
                    c.counters.insert(*id);
                }
                StmtKind::Frame { frame, act } => self.edited(*frame, act, &mut c),
                StmtKind::Output { .. } => c.outputs = true,
                _ => {}
            }
        };
        for s in block {
            visit(s);
            ir::walk::stmt_blocks(&s.kind, &mut |b| ir::walk::stmts(b, &mut visit));
        }
        c
    }

    fn edited(&self, frame: LocalId, act: &FrameAct, c: &mut Changes) {
        match act {
            FrameAct::Send { .. } | FrameAct::Save { .. } | FrameAct::Restore { .. } => return,
            FrameAct::InC { whole: false, .. } => return,
            FrameAct::InC { .. } | FrameAct::Parse => {
                c.gone.extend((0..self.frame_layers(frame).len() as u32).map(|k| (frame, k)));
            }
            FrameAct::Remove { layer } => drop(c.gone.insert((frame, *layer))),
            FrameAct::Payload { layer: Some(n), .. } => {
                let layers = self.frame_layers(frame);
                c.gone.extend(
                    (0..layers.len() as u32).filter(|k| ir::frame::leads_to(layers, *n, *k)).map(|k| (frame, k)),
                );
            }
            FrameAct::Set { .. }
            | FrameAct::Swap { .. }
            | FrameAct::Insert { .. }
            | FrameAct::Payload { .. }
            | FrameAct::Checksum { .. } => {}
        }
        c.frames.insert(frame);
    }

    /// Whether a fact is about what changes.
    fn is_stale(&self, c: &Changes, fact: &X) -> bool {
        let mut hit = c.touch(fact);
        ir::walk::expr(fact, &mut |e| {
            if let K::Case(ir::Path { root: Root::Local(l), steps }, 0) = &*e.kind {
                hit |= matches!(&steps[..], [Step::Field(f)] if c.gone.iter().any(|(of, n)| of == l && self.frame_layers(*l).get(*n as usize).is_some_and(|x| x.switch == *f)));
            }
        });
        hit
    }

    /// Forgets what is known of what changes. Headers that are there by what is forgotten stay
    /// known.
    fn unlearn(&mut self, c: &Changes) {
        let mut known = Vec::new();
        for frame in c.gone.iter().map(|g| g.0).collect::<HashSet<_>>() {
            for (n, l) in
                self.frame_layers(frame).iter().enumerate().filter(|(n, _)| !c.gone.contains(&(frame, *n as u32)))
            {
                let there = build::case(build::step(&build::msg(frame), Step::Field(l.switch)), 0);
                if self.proven(&there) {
                    known.push((frame, n, there));
                }
            }
        }
        known.sort_by_key(|k| (k.0, k.1));
        let facts = std::mem::take(&mut self.facts);
        self.facts = facts.into_iter().filter(|f| !self.is_stale(c, f)).collect();
        for (_, _, there) in known {
            self.assume(&there, true);
        }
        self.gone.extend(&c.gone);
    }
}
