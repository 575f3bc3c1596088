//! The grammar analysis of the IR, and its findings as diagnostics.

use crate::compiler::Compiler;
use wireloom_ir as ir;
use wireloom_syntax::ast::{FileId, Span};
use wireloom_syntax::Diagnostic;

fn source(s: ir::Span) -> Span {
    Span { file: FileId(s.file), start: s.start, end: s.end }
}

impl Compiler<'_> {
    /// Sizes, first bytes and head/tail of every unit; reports unacceptable grammars.
    pub fn analyze(&mut self) {
        for f in ir::grammar::analyze(&mut self.m) {
            let mut d = Diagnostic::error(f.code, source(f.span), f.message);
            for (span, text) in f.labels {
                d = d.also(source(span), text);
            }
            if let Some(h) = f.hint {
                d = d.hint(h);
            }
            self.report(d);
        }
    }
}
