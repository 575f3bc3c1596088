//! Tables with `per_core`: their kinds and values, and how traffic uses them.

use crate::compiler::Compiler;
use crate::units::findings::source;
use ir::per_core;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Ident};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// Whether a table can have the option; a table that cannot goes on without it.
    pub fn core_entries(&mut self, t: &mut ir::Table, options: &[(Ident, Option<Expr>)]) {
        let Some((name, _)) = options.iter().find(|o| o.0.name == "per_core").filter(|_| t.per_core) else { return };
        t.per_core = false;
        if !matches!(t.kind, ir::TableKind::Exact | ir::TableKind::Array) {
            let d = Diagnostic::error("E0641", name.span, "only exact tables and arrays are kept per core");
            self.report(d.label("it would have no effect here"));
        } else if !per_core::is_sum(&self.m, t.value) {
            let d = Diagnostic::error("E0661", name.span, format!("values of table `{}` cannot be added up", t.name))
                .label("each core would have entries of its own")
                .hint("use unsigned numbers of at most 64 bits, or a record of them");
            self.report(d);
        } else {
            t.per_core = true
        }
    }

    /// Traffic adds to such entries: a sum over cores means nothing else.
    pub fn core_tables(&mut self) {
        for found in per_core::misuses(&self.m) {
            let name = &self.m.tables[found.table.index()].name;
            let does = if found.removes { "removes" } else { "sets" };
            let text = format!("traffic {does} an entry of `{name}`, of which each core has its own");
            let d = Diagnostic::error("E0661", source(found.span), text)
                .label("the other cores would keep theirs")
                .hint(format!("add to it: `{name}[…] += 1`, or `update` with `+=`; or leave `per_core` out"));
            self.report(d);
        }
    }
}
