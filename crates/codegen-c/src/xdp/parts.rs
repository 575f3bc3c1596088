//! Parts of a handler that become functions of their own: rounds of loops, and functions of the
//! program. `lang` has made the latter a part of their callers, as a loop of one round.
//!
//! The verifier follows such a function once, whatever its caller knows, and joins behind it.
//! So parts with tables, which have many ways, become functions. Such a part has nothing to do with
//! a frame: pointers to frames cannot be passed. The values that it shares with its caller go in
//! and out in a struct. Parts that need the frame: `framed_parts`.

use super::far_room::bytes_of;
use crate::body::BodyGen;
use crate::names;
use crate::parser::line;
use std::collections::{BTreeMap, BTreeSet};
use wireloom_ir::*;

/// Parts in parts: all calls together have a stack of 512 bytes.
pub(super) const DEPTH: usize = 2;

/// The code of a part.
pub(super) struct Round {
    pub name: String,
    /// 0 where a `break` has left it.
    pub i: String,
    pub code: String,
    pub locals: String,
}

/// How often a block names each local.
fn named(block: &[Stmt]) -> BTreeMap<LocalId, usize> {
    let mut all = BTreeMap::new();
    walk::stmts(block, &mut |s| {
        walk::stmt_locals_read(&s.kind, &mut |l| *all.entry(l).or_default() += 1);
        walk::defined(&s.kind).into_iter().flatten().for_each(|l| *all.entry(l).or_default() += 1);
    });
    all
}

/// The locals that a block changes.
pub(super) fn changed(block: &[Stmt]) -> BTreeSet<LocalId> {
    let mut all = BTreeSet::new();
    walk::stmts(block, &mut |s| {
        all.extend(walk::defined(&s.kind).into_iter().flatten());
        if let StmtKind::SetField(l, ..) | StmtKind::Push(l, _) = &s.kind {
            all.insert(*l);
        }
    });
    all
}

impl<'m> BodyGen<'_, 'm> {
    /// Whether the rounds of a loop are calls of a function.
    pub(crate) fn is_xdp_part(&self, body: &[Stmt]) -> bool {
        if !self.g.xdp || self.xdp.whole.is_none() || !self.locked.is_empty() || self.xdp.depth >= DEPTH {
            return false;
        }
        self.is_plain_part(body) || self.is_framed_part(body)
    }

    /// Whether a part needs no frame.
    fn is_plain_part(&self, body: &[Stmt]) -> bool {
        let is_frame = |l: &LocalId| matches!(self.g.m.ty(self.locals[l.index()].ty), Ty::Msg(_));
        let (mut tables, mut leaves) = (false, false);
        walk::stmts(body, &mut |s| {
            tables |= s.kind.table().is_some();
            leaves |= matches!(&s.kind, StmtKind::Return(_));
        });
        tables && !leaves && !named(body).keys().any(is_frame)
    }

    /// Prints a round of a loop as a function, and its call. `end`: the label behind the loop.
    pub(crate) fn xdp_part(&mut self, body: &'m Block, end: Option<&str>) {
        if !self.is_plain_part(body) {
            return self.xdp_framed_part(body, end);
        }
        let inside = named(body);
        let outside = self.xdp.whole.map(|b| named(b)).unwrap_or_default();
        self.xdp_part_room(inside.keys().copied());
        // A value in memory needs no way in and out.
        let near = |l: &&LocalId| !self.is_far(**l);
        let is_shared = |l: &LocalId| outside.get(l) > inside.get(l);
        let (shared, own): (Vec<LocalId>, Vec<LocalId>) = inside.keys().filter(near).partition(|l| is_shared(l));
        let name = self.xdp_part_function(body, &shared, &own);
        let mut timed = self.xdp.functions.contains("x->core->");
        walk::stmts(body, &mut |s| timed |= s.kind.table().is_some_and(|t| self.g.xdp_of(t).stamped));
        let time = if timed { "io_->now = x->core->now;\n" } else { "" };
        self.xdp_part_call(&name, (&shared, &own, &changed(body)), time, end);
    }

    /// Makes room for values that a part may share with its caller.
    fn xdp_part_room(&mut self, all: impl Iterator<Item = LocalId>) {
        let bytes = 32 + all.map(|l| bytes_of(self.g.m, self.locals[l.index()].ty)).sum::<usize>();
        self.g.xdp_io = self.g.xdp_io.max(bytes);
    }

    /// The name of a local where it is shared.
    fn member(&self, l: LocalId) -> String {
        names::local(&self.locals[l.index()], l.index())
    }

    /// The code of a part: a loop of one round.
    pub(super) fn xdp_round(&mut self, body: &'m Block) -> Round {
        let (out, decls) = (std::mem::take(&mut self.out), std::mem::replace(&mut self.decls, self.xdp.far.clone()));
        self.xdp.depth += 1;
        let i = self.temp("uint64_t");
        line!(self, "for ({i} = 0; {i} < 1; {i}++) {{");
        self.xdp.inside = true;
        self.loop_body(&i, None, body, false);
        self.xdp.depth -= 1;
        let (code, locals) = (std::mem::replace(&mut self.out, out), std::mem::replace(&mut self.decls, decls));
        self.xdp.parts += 1;
        Round { name: format!("{}_part{}", self.xdp.name, self.xdp.parts), i, code, locals }
    }

    fn xdp_part_function(&mut self, body: &'m Block, shared: &[LocalId], own: &[LocalId]) -> String {
        let names = self.scope.locals.clone();
        for l in shared.iter().chain(own) {
            self.scope.locals[l.index()].0 = format!("io->{}", self.member(*l));
        }
        let frameless = std::mem::replace(&mut self.xdp.frameless, true);
        let Round { name, i, code, locals } = self.xdp_round(body);
        self.xdp.frameless = frameless;
        self.scope.locals = names;
        let types: Vec<(String, String)> =
            shared.iter().chain(own).map(|l| (self.g.cty(self.locals[l.index()].ty), self.member(*l))).collect();
        let members: String = types.iter().map(|(c, n)| format!("{c} {n};\n")).collect();
        self.xdp.functions.push_str(&format!(
            "/* A function of the program, with what it shares with its caller. */\n\
             struct {name}_io {{\nuint64_t now;\nuint32_t fault, place, used;\n{members}}};\n\
             __attribute__((noinline)) int {name}(struct {name}_io *io) {{\n\
             wl_core core = {{0}};\nwl_fx fx = {{.core = &core}}, *x = &fx;\nconst uint32_t cpu = bpf_get_smp_processor_id();\n\
             x->state = wl_state_of(cpu);\nif (!io || !x->state) return 1;\nWL_FIND_NOTES(x);\nWL_PART_BEGIN(x, io);\n\
             x->core->now = io->now;\n{locals}{code}WL_PART_END(x, io);\nreturn {i} ? 0 : 2;\n\
             fault:;\nio->fault = WL_X(x)->fault;\nio->place = WL_X(x)->place;\nreturn 1;\n}}\n\n"
        ));
        name
    }

    fn xdp_part_call(
        &mut self,
        name: &str,
        (shared, own, changed): (&[LocalId], &[LocalId], &BTreeSet<LocalId>),
        time: &str,
        end: Option<&str>,
    ) {
        let come: String = shared.iter().map(|l| format!("io_->{} = {};\n", self.member(*l), self.name(*l))).collect();
        let back = |l: &&LocalId| changed.contains(l);
        let go: String =
            shared.iter().filter(back).map(|l| format!("{} = io_->{};\n", self.name(*l), self.member(*l))).collect();
        let own: String = own
            .iter()
            .map(|l| format!("io_->{} = {};\n", self.member(*l), self.g.zero(self.locals[l.index()].ty)))
            .collect();
        let leave = self.leave_fault();
        let end = end.map(|label| format!("if (r_ == 2) goto {label};\n")).unwrap_or_default();
        let depth = self.xdp.depth;
        self.join_of_branches(&[]);
        line!(
            self,
            "{{ struct {name}_io *io_ = (struct {name}_io *)x->state->io{depth};\n{time}{come}{own}WL_PART_END(x, io_);\nconst int r_ = {name}(io_);\n\
             if (WL_UNLIKELY(r_ == 1)) {{ wl_fail(x, (uint16_t)io_->fault, io_->place); {leave} }}\nWL_PART_BACK(x, io_);\n{go}{end}}}"
        );
    }
}
