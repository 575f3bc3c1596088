//! The grammar analysis of the IR, and its findings as diagnostics.

use crate::compiler::Compiler;
use ir::FieldKind;
use wireloom_ir as ir;
use wireloom_syntax::ast::{FileId, Span};
use wireloom_syntax::Diagnostic;

/// Where something stands, as diagnostics have it.
pub fn source(s: ir::Span) -> Span {
    Span { file: FileId(s.file), start: s.start, end: s.end }
}

/// Findings that rest on the bytes which an item begins with or has at least.
const ABOUT_SIZE: [&str; 2] = ["E0401", "E0403"];

impl Compiler<'_> {
    /// Sizes, first bytes and head/tail of every unit; reports unacceptable grammars.
    pub fn analyze(&mut self) {
        let unread = self.fields_of_unread();
        for f in ir::grammar::analyze(&mut self.m) {
            if ABOUT_SIZE.contains(&f.code) && unread.contains(&source(f.span)) {
                continue;
            }
            let mut d = Diagnostic::error(f.code, source(f.span), f.message);
            for (span, text) in f.labels {
                d = d.also(source(span), text);
            }
            if let Some(h) = f.hint {
                d = d.hint(h);
            }
            self.report(d);
        }
        self.within_limits();
    }

    /// The places of fields of units that have an error, or have such a unit inside: they lack what
    /// could not be read.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn fields_of_unread(&self) -> Vec<Span> {
        let mut unread: Vec<bool> = self.units.iter().map(|u| !u.ok).collect();
        let inner = |kind: &FieldKind| match kind {
            FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => Some(unit.index()),
            _ => None,
        };
        let of = |n: usize| self.m.units[n].fields.iter();
        while let Some(n) =
            (0..unread.len()).find(|n| !unread[*n] && of(*n).filter_map(|f| inner(&f.kind)).any(|i| unread[i]))
        {
            unread[n] = true;
        }
        (0..unread.len()).filter(|n| unread[*n]).flat_map(of).map(|f| source(f.span)).collect()
    }
}
