//! Runs of messages that are passed on: a loop over the parser and the plan's condition, without
//! calls into the runtime.

use crate::gen::Gen;
use crate::names;
use crate::scope::Scope;
use wireloom_ir::*;

/// The cases of `run_of`, by handler.
pub(crate) fn cases(m: &Module) -> String {
    let having = m.handlers.iter().enumerate().filter(|(_, h)| h.plan.run.is_some());
    having.map(|(i, _)| format!("case {i}: return run_{i}(x, ctx, buf, n, messages);\n")).collect()
}

impl<'m> Gen<'m> {
    /// First line and text of the function of each handler that has runs of a unit's messages. They
    /// stand beside the unit's parser, which becomes a part of them.
    pub fn message_runs(&mut self, unit: UnitId) -> Vec<(String, String)> {
        let m = self.m;
        let of_unit = |h: &&Handler| m.message_of(h.on).is_some_and(|(_, u)| u == unit);
        let all: Vec<_> = m.handlers.iter().enumerate().filter(|(_, h)| of_unit(h)).collect();
        all.into_iter().filter_map(|(i, h)| self.message_run(i, h, unit)).collect()
    }

    fn message_run(&mut self, i: usize, h: &'m Handler, unit: UnitId) -> Option<(String, String)> {
        let run = h.plan.run.as_ref()?;
        let (name, scope) = (names::unit(self.m, unit), Scope::of_locals(&h.body.locals[..1]));
        let message = &scope.locals[0].0;
        let mut checks = String::new();
        if let Some(when) = &run.when {
            checks.push_str(&format!("if (!({})) break;\n", self.expr(&scope, when)))
        }
        for c in &run.counts {
            let when = c.when.as_ref().map(|e| format!("if ({}) ", self.expr(&scope, e))).unwrap_or_default();
            checks.push_str(&format!("{when}wl_state(x)->counter[{}] += {};\n", c.counter.0, self.expr(&scope, &c.by)))
        }
        let proto =
            format!("uint32_t run_{i}(wl_fx *x, uint64_t ctx, const uint8_t *buf, uint32_t n, uint32_t *messages)");
        let text = format!(
            "/* {}: messages that are passed on */\nstatic {proto} {{\nuint32_t at = 0, count = 0;\n(void)x;\nwhile (at < n) {{\n\
             {name}_view view;\nuint32_t used = 0, have;\nview.p = (wl_parser){{.ctx = ctx}};\n\
             int r = {name}_step(&view, buf + at, 0, 0, n - at, 0, &used);\nhave = view.p.head;\n\
             if (r == WL_HEAD) {{\nr = {name}_step(&view, buf + at, view.from, view.p.pos, n - at, 0, &used);\nhave += used;\n}}\n\
             if (r != WL_WHOLE || view.p.flags & ~WL_IN_TAIL || !have) break;\n\
             const wl_msg {message} = {{.view = &view.p, .base = buf + at, .head = view.p.head}};\n(void){message};\n\
             {checks}at += have;\ncount++;\n}}\n*messages = count;\nreturn at;\n}}\n\n",
            names::comment(&h.name)
        );
        Some((proto, text))
    }
}
