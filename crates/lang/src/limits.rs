//! Limits of handlers and functions as a whole: their stack.

use crate::compiler::Compiler;
use crate::units::findings::source;
use wireloom_ir as ir;
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// Reports bodies beyond a limit. A module with errors is not looked at.
    pub fn within_limits(&mut self) {
        if self.diags.iter().any(Diagnostic::is_error) {
            return;
        }
        self.within_stack();
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
}
