//! Limits of handlers and functions as a whole: their stack, and their steps without a pause.

use crate::compiler::Compiler;
use crate::units::findings::source;
use ir::inserted::{self, LateWhy};
use ir::passes::{pauses, steps, straight};
use wireloom_ir as ir;
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// Reports bodies beyond a limit. A module with errors is not looked at.
    pub fn within_limits(&mut self) {
        if self.diags.iter().any(Diagnostic::is_error) {
            return;
        }
        self.within_stack();
        self.within_steps();
        self.changes_before_inserts();
    }

    /// Changes that inserted headers do not follow.
    fn changes_before_inserts(&mut self) {
        for late in inserted::late_changes(&self.m) {
            let header = self.m.unit(late.header).name.clone();
            let (text, hint) = match late.why {
                LateWhy::Length => (
                    format!("the length of the inserted `{header}` does not follow this change"),
                    "change the packet first and insert last; or change it in an element behind this one",
                ),
                LateWhy::Checksum => (
                    format!("the checksum of the inserted `{header}` does not follow this change"),
                    "change the packet first and insert last; or change it in an element behind this one",
                ),
                LateWhy::Addresses => (
                    format!("this checksum covers addresses, and those of the inserted `{header}` are not known here"),
                    "compute it in an element behind this one",
                ),
                LateWhy::Order => (
                    format!("this would come behind the `{header}` that is inserted at the same place"),
                    "insert both at once, `insert [A { … }, B { … }]`; or the second one in an element behind this one",
                ),
            };
            let at = source(late.span);
            let d = Diagnostic::error("E0666", at, text).label("behind the `insert`").hint(hint);
            self.report(d.note(format!("the `insert` is in line {}", late.insert.line)));
        }
    }

    fn within_stack(&mut self) {
        let mut found = ir::stack::Stacks::new(&self.m).too_large();
        // The controls of a table have one place.
        let mut seen = Vec::new();
        found.retain(|f| {
            let at = source(f.need.most.1);
            let first = !seen.contains(&at);
            seen.push(at);
            first
        });
        for ir::stack::TooLarge { name, need } in found {
            let (most, at) = need.most;
            let text = match need.bytes {
                u64::MAX => "more than 16 EiB".into(),
                n => ir::explain::bytes(n),
            };
            let d = Diagnostic::error("E0511", source(at), format!("the values of `{name}` take {text} of the stack"))
                .label(match most {
                    0 => "its parameters and variables are large".into(),
                    n => format!("{} here", ir::explain::bytes(n)),
                })
                .note(format!(
                    "the limit is {}, with the functions that it calls",
                    ir::explain::bytes(ir::stack::LIMIT)
                ));
            self.report(
                d.hint("hold less in one value, or read the parts of a `state` in place (`last[i]`, `len(last)`)"),
            );
        }
    }

    fn within_steps(&mut self) {
        let long = straight::too_long(&self.m);
        for (name, span) in &long {
            let d = Diagnostic::error("E0515", source(*span), format!("`{name}` may take more than 2^30 steps"))
                .note("each loop is counted as one round");
            self.report(d.hint("call a function once and keep its result, or call it in a loop"));
        }
        if long.is_empty() {
            self.endless_handlers();
        }
    }

    /// Handlers with so many rounds that they never end, and that do not pause in between.
    fn endless_handlers(&mut self) {
        let endless = straight::endless(&self.m);
        if endless.is_empty() {
            return;
        }
        let mut planned = self.m.clone();
        steps::run(&mut planned);
        pauses::run(&mut planned);
        for h in endless {
            let handler = &planned.handlers[h.index()];
            if handler.plan.pause.is_yes() {
                continue;
            }
            let text = format!("`{}` may take more than 2^64 steps without a pause", handler.name);
            let d = Diagnostic::error("E0515", source(handler.span), text);
            self.report(d.hint("bound its loops: the rounds of a loop in a loop are multiplied"));
        }
    }
}
