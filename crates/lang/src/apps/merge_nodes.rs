//! Checks the nodes before and behind merges. They run in the tasks of their merge, beside the
//! cores. What each core has for itself is not theirs, and no connection waits for them.

use crate::compiler::Compiler;
use crate::units::findings::source;
use ir::core_partition::{Resource, Uses};
use ir::{HandlerId, StmtKind, TableSharing};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    pub fn merge_nodes(&mut self) {
        let merges = self.m.merges.clone();
        let sides = |g| [self.m.before(g), self.m.behind(g)];
        let nodes: Vec<HandlerId> = merges.iter().flat_map(sides).flatten().collect();
        for g in merges {
            let behind = self.m.behind(&g);
            for h in self.m.before(&g).into_iter().chain(behind) {
                self.other_ports(&g, h);
                self.no_connection(h);
                self.own_state(h, Some(h) == behind);
            }
            let ids = (0..self.m.handlers.len() as u32).map(HandlerId);
            ids.filter(|h| !nodes.contains(h)).for_each(|h| self.no_other_output(&g, h));
        }
    }

    fn other_ports(&mut self, g: &ir::Merge, h: HandlerId) {
        let reaches = |s: &ir::Stmt| {
            if let StmtKind::Send { port, .. } | StmtKind::Call { port, .. } = s.kind {
                Some(port).filter(|p| *p != g.to)
            } else {
                None
            }
        };
        let Some((span, port)) = self.narrowest(h, &reaches) else { return };
        let name = &self.m.ports[port.index()].name;
        let d = Diagnostic::error("E0645", span, format!("a node of a merge reaches the port `{name}`"))
            .label("a merge has one output")
            .hint("nodes before and behind `merge` drop, change, count and log messages");
        self.report(d);
    }

    fn no_connection(&mut self, h: HandlerId) {
        let Some((span, ())) = self.narrowest(h, &|s| self.uses(s).connection.then_some(())) else { return };
        let d = Diagnostic::error("E0702", span, "there is no client connection here");
        self.report(d.label("nodes of a merge see messages only"));
    }

    /// Before a merge several cores handle messages; behind it one does, which is none of those
    /// that run other handlers.
    fn own_state(&mut self, h: HandlerId, behind: bool) {
        let uses = Uses::of(&self.m, &self.m.handlers[h.index()]);
        for thing in uses.reads.union(&uses.changes).copied() {
            let alone = match thing {
                Resource::State(_) | Resource::Queue(_) => true,
                // Its sum is seen from outside only.
                Resource::Counter(_) => uses.reads.contains(&thing),
                Resource::Table(t) => self.m.sharing(&self.m.tables[t.index()]) != TableSharing::One,
            };
            let other = (0..self.m.handlers.len() as u32).map(HandlerId).find(|o| {
                let other = &self.m.handlers[o.index()];
                *o != h && !other.on.is_test() && Uses::of(&self.m, other).touches(thing)
            });
            if !alone || behind && other.is_none() {
                continue;
            }
            let (what, name) = match self.thing(thing) {
                ("counter", name, _) => ("the value of the counter", name),
                (what, name, _) => (what, name),
            };
            let span = self.narrowest(h, &|s| self.uses(s).touches(thing).then_some(())).map(|(s, ())| s);
            let span = span.unwrap_or_else(|| source(self.m.handlers[h.index()].span));
            let d = if behind {
                let d =
                    Diagnostic::error("E0646", span, format!("{what} `{name}` is used behind a merge and elsewhere"));
                let other = other.map(|o| source(self.m.handlers[o.index()].span));
                let d = d.label("the merge has its own");
                other.map_or(d.clone(), |o| d.also(o, "used elsewhere here"))
            } else {
                Diagnostic::error("E0646", span, format!("{what} `{name}` is used before a merge"))
                    .label("several cores handle the inputs of a merge")
            };
            self.report(d.hint(if behind {
                "keep it in an exact table, which all cores share"
            } else {
                "move the node behind the merge, or keep it in an exact table, which all cores share"
            }));
        }
    }

    fn no_other_output(&mut self, g: &ir::Merge, h: HandlerId) {
        let sends = |s: &ir::Stmt| {
            if let StmtKind::Send { port, .. } | StmtKind::Call { port, .. } = s.kind {
                (port == g.to).then_some(())
            } else {
                None
            }
        };
        let Some((span, ())) = self.narrowest(h, &sends) else { return };
        let name = &self.m.ports[g.to.index()].name;
        let d = Diagnostic::error("E0647", span, format!("`{name}` is the output of a merge"))
            .label("only the merge sends there")
            .hint("declare another port for other messages");
        self.report(d);
    }

    fn uses(&self, s: &ir::Stmt) -> Uses {
        let mut uses = Uses::default();
        uses.block(&self.m, std::slice::from_ref(s));
        uses
    }

    /// The shortest statement of a handler about which there is something to say.
    fn narrowest<T>(&self, h: HandlerId, say: &dyn Fn(&ir::Stmt) -> Option<T>) -> Option<(Span, T)> {
        let mut found: Option<(Span, T)> = None;
        ir::walk::stmts(&self.m.handlers[h.index()].body.block, &mut |s| {
            let span = source(s.span);
            if found.as_ref().is_none_or(|(f, _)| span.end - span.start <= f.end - f.start) {
                if let Some(what) = say(s) {
                    found = Some((span, what))
                }
            }
        });
        found
    }
}
