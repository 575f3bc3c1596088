//! `link { batch 32, wait 5us }`: parameters of the modelled link between CPU and NIC.

use crate::compiler::{Compiler, R};
use crate::names::ModId;
use ir::link::{Link, PARAMETERS};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    pub fn link(&mut self, module: ModId, word: Span, options: &[(Ident, Option<Expr>)]) -> R<()> {
        if !self.m.link.is_empty() {
            return Err(self.error("E0203", word, "an app has one link"));
        }
        self.distinct(options.iter().map(|(n, _)| n))?;
        // Each mistake is told.
        let mut made = Ok(());
        for (name, value) in options {
            match self.link_parameter(module, name, value.as_ref()) {
                Ok(n) => self.m.link.push((name.name.clone(), n)),
                Err(r) => made = Err(r),
            }
        }
        made
    }

    fn link_parameter(&mut self, module: ModId, name: &Ident, value: Option<&Expr>) -> R<u64> {
        if !PARAMETERS.iter().any(|p| p.0 == name.name) {
            let hint = crate::names::suggest(&name.name, PARAMETERS.iter().map(|p| p.0));
            let all = PARAMETERS.iter().map(|p| format!("`{}`", p.0)).collect::<Vec<_>>().join(", ");
            let d = Diagnostic::error("E0614", name.span, format!("a link has no parameter `{}`", name.name));
            return Err(self.report(crate::names::with_hint(d.note(format!("parameters: {all}")), hint)));
        }
        let Some(e) = value else {
            return Err(self.error("E0642", name.span, format!("`{}` needs a number", name.name)));
        };
        // Times are numbers of nanoseconds, too.
        #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
        let n = match &*e.kind {
            ExprKind::Scaled(_, unit) if unit.ends_with('s') => self.const_duration(module, e)?,
            _ => self.number_in_app(module, e)?,
        };
        match Link::default().set(&name.name, n) {
            Ok(()) => Ok(n),
            Err(expected) => Err(self.error("E0304", e.span, expected)),
        }
    }
}
