//! Numbers of servers that a program keeps (W0908): in states, sessions and tables.
//!
//! A list of servers may change while the program runs, and then a number is that of another
//! server. In: the lowered handlers and functions. Out: a warning where such a number is stored. A
//! number that goes on from the last one, as in `turn = (turn + 1) % len(db)`, is a count of turns.

use crate::compiler::Compiler;
use crate::units::findings::source;
use ir::{walk, Expr, ExprKind as K, LocalId, PortId, Stmt, StmtKind};
use std::collections::HashMap;
use wireloom_ir as ir;
use wireloom_syntax::Diagnostic;

/// The values, and the parts of values, that locals have been given.
type Values = HashMap<LocalId, Vec<Expr>>;

impl Compiler<'_> {
    pub fn kept_numbers(&mut self) {
        let changes = |p: usize| may_change(&self.m, PortId(p as u32)).is_some();
        if !(0..self.m.ports.len()).any(changes) {
            return;
        }
        let mut found = Vec::new();
        self.m.bodies(&mut |body| {
            let mut search = Search { m: &self.m, values: Values::new(), entries: Vec::new(), found: Vec::new() };
            walk::stmts(&body.block, &mut |s| search.look(s));
            found.append(&mut search.found);
        });
        let mut told: Vec<ir::Span> = Vec::new();
        for (span, port, what) in found {
            // A body may have been put into several others.
            if told.iter().any(|t| (t.file, t.start) == (span.file, span.start)) {
                continue;
            }
            told.push(span);
            let (name, what) = (self.m.ports[port.index()].name.clone(), what.name(&self.m));
            let d =
                Diagnostic::warning("W0908", source(span), format!("{what} keeps the number of a server of `{name}`"))
                    .label("it is another server's when the list of servers has changed")
                    .hint(format!("keep its address, `server({name}, i)`: its number is `instance({name}, address)`"));
            self.report(d);
        }
    }
}

/// Where a number is kept.
#[derive(Clone, Copy)]
enum Keeper {
    State(ir::StateId),
    Session(ir::SessionId),
    Table(ir::TableId),
}

impl Keeper {
    fn name(self, m: &ir::Module) -> String {
        match self {
            Keeper::State(id) => format!("the state `{}`", m.states[id.index()].name),
            Keeper::Session(id) => format!("the session `{}`", m.sessions[id.index()].name),
            Keeper::Table(id) => format!("the table `{}`", m.tables[id.index()].name),
        }
    }
}

struct Search<'m> {
    m: &'m ir::Module,
    values: Values,
    /// Entries of tables that are being changed.
    entries: Vec<(LocalId, ir::TableId)>,
    found: Vec<(ir::Span, PortId, Keeper)>,
}

impl Search<'_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn look(&mut self, s: &Stmt) {
        match &s.kind {
            StmtKind::Set(l, e) | StmtKind::SetField(l, _, e) => {
                let entry = self.entries.iter().find(|(entry, _)| entry == l);
                match entry.map(|(_, table)| *table) {
                    Some(table) => self.keeps(s, e, &K::Local(*l), Keeper::Table(table)),
                    None => self.values.entry(*l).or_default().push(e.clone()),
                }
            }
            StmtKind::SetState(id, e) => self.keeps(s, e, &K::State(*id), Keeper::State(*id)),
            StmtKind::SetSession(id, e) => self.keeps(s, e, &K::Session(*id), Keeper::Session(*id)),
            StmtKind::TablePut { table, value, .. } => self.keeps(s, value, &K::None, Keeper::Table(*table)),
            // The parts of the entry are set in the block, which is looked at next.
            StmtKind::TableUpdate { table, entry, .. } => self.entries.push((*entry, *table)),
            _ => {}
        }
    }

    /// Notes a number that is stored, unless it goes on from what is stored there.
    fn keeps(&mut self, s: &Stmt, e: &Expr, place: &K, what: Keeper) {
        let Some(port) = self.number(e, &mut Vec::new()) else { return };
        if *place == K::None || !self.reads(e, place, &mut Vec::new()) {
            self.found.push((s.span, port, what));
        }
    }

    /// The values of a local that has not been looked at.
    fn new_values<'s>(&'s self, l: LocalId, seen: &mut Vec<LocalId>) -> &'s [Expr] {
        if seen.contains(&l) {
            return &[];
        }
        seen.push(l);
        self.values.get(&l).map_or(&[], |all| all)
    }

    fn reads(&self, e: &Expr, place: &K, seen: &mut Vec<LocalId>) -> bool {
        let (mut reads, mut locals) = (false, Vec::new());
        walk::expr(e, &mut |e| {
            reads |= *e.kind == *place;
            if let K::Local(l) = *e.kind {
                locals.push(l);
            }
        });
        reads || locals.into_iter().any(|l| self.new_values(l, seen).iter().any(|from| self.reads(from, place, seen)))
    }

    /// The port of which a value is the number of a server.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn number(&self, e: &Expr, seen: &mut Vec<LocalId>) -> Option<PortId> {
        match &*e.kind {
            K::Ketama(p, _) | K::Consistent(p, _) | K::Modula(p, _) | K::Maglev(p, _) | K::PortFind(p, _) => {
                self.may_change(*p)
            }
            K::UpstreamFact(u, ir::UpstreamFact::Instance) => self.may_change(self.m.upstreams[u.index()].port),
            K::Binary(ir::BinOp::Rem, _, b) => self.may_change(length_of(b)?),
            K::Cast(a) | K::Some(a) | K::Unwrap(a) => self.number(a, seen),
            K::If(_, a, b) => self.number(a, seen).or_else(|| self.number(b, seen)),
            K::Make(parts) => parts.iter().find_map(|p| self.number(p, seen)),
            K::Local(l) => self.new_values(*l, seen).iter().find_map(|e| self.number(e, seen)),
            _ => None,
        }
    }

    fn may_change(&self, p: PortId) -> Option<PortId> {
        may_change(self.m, p)
    }
}

/// A port whose list of servers is a parameter.
fn may_change(m: &ir::Module, p: PortId) -> Option<PortId> {
    let ir::desc::PortKind::Connect(ir::desc::Value::Param(n)) = &m.ports[p.index()].kind else { return None };
    let list = matches!(m.params.get(*n as usize)?.ty, ir::desc::ParamType::Endpoints(_));
    list.then_some(p)
}

/// The port whose number of servers it is.
fn length_of(e: &Expr) -> Option<PortId> {
    if let K::Cast(a) = &*e.kind {
        return length_of(a);
    }
    if let K::PortLen(p) = *e.kind {
        Some(p)
    } else {
        None
    }
}
