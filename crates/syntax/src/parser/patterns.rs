//! Patterns: names, `_`, constants, ranges, tuples, `get(g)`, alternatives.

use super::exprs::Level;
use super::{Parser, P};
use crate::ast::{Expr, ExprKind, Pattern};
use crate::token::Tok;

impl Parser<'_> {
    /// With alternatives: `1 | 2`.
    pub(super) fn pattern(&mut self) -> P<Pattern> {
        let start = self.span();
        // A `|` before the first alternative lets each stand on a line of its own.
        self.eat("|");
        let first = self.single_pattern()?;
        if !self.at_sign("|") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.eat("|") {
            all.push(self.single_pattern()?);
        }
        Ok(Pattern::Or(all, self.since(start)))
    }

    pub(super) fn single_pattern(&mut self) -> P<Pattern> {
        self.nested(Self::single_pattern_unchecked)
    }

    fn single_pattern_unchecked(&mut self) -> P<Pattern> {
        let start = self.span();
        match self.tok() {
            Tok::Sign("(") => {
                let mut parts = self.bracketed("(", ")", Self::pattern)?;
                // Parentheses around one pattern only group.
                if parts.len() == 1 {
                    return Ok(parts.remove(0));
                }
                Ok(Pattern::Tuple(parts, self.since(start)))
            }
            Tok::Word => match self.word_text(0) {
                Some("_") => Ok(Pattern::Any(self.bump())),
                Some("true" | "false" | "none") => self.value_pattern(),
                // It would be a name.
                Some("else") => self.unexpected_with("a pattern", |d| d.hint("the last arm of a `match` is `_ => …`")),
                _ => self.named_pattern(),
            },
            Tok::Int(_) | Tok::Scaled(..) | Tok::Bytes(_) | Tok::Address(_) | Tok::Sign("-" | "~") => {
                self.value_pattern()
            }
            _ => self.unexpected("a pattern"),
        }
    }

    /// `name`, `Enum.variant`, `variant(its content)`, or a range that starts with a constant's
    /// name.
    fn named_pattern(&mut self) -> P<Pattern> {
        let path = self.path("a pattern")?;
        if self.at_sign("(") && !self.breaks(0) {
            self.mark_tight();
            let mut parts = self.bracketed("(", ")", Self::pattern)?;
            let bind = match parts.len() {
                0 => None,
                1 => Some(Box::new(parts.remove(0))),
                _ => Some(Box::new(Pattern::Tuple(parts, self.since(path.span)))),
            };
            return Ok(Pattern::Variant { path, bind });
        }
        let start = path.span;
        let mut parts = path.parts.into_iter();
        // A path has at least one part.
        let Some(first) = parts.next() else { return self.unexpected("a pattern") };
        let ranged = self.at_sign("..") || self.at_sign("..=");
        let rest: Vec<_> = parts.collect();
        if rest.is_empty() && !ranged {
            return Ok(Pattern::Name(first));
        }
        let mut expr = Expr { span: first.span, kind: Box::new(ExprKind::Name(first)) };
        for part in rest {
            self.grow()?;
            expr = Expr {
                span: crate::ast::Span { end: part.span.end, ..start },
                kind: Box::new(ExprKind::Field(Some(expr), part)),
            };
        }
        self.range_after(expr).map(Pattern::Value)
    }

    fn value_pattern(&mut self) -> P<Pattern> {
        self.alternative().map(Pattern::Value)
    }

    /// A value that may be followed by `| another`: in patterns, switch cases and charsets. A range
    /// may be one.
    pub(super) fn alternative(&mut self) -> P<Expr> {
        let low = self.nested(|p| p.binary(Level::Xor))?;
        self.range_after(low)
    }

    fn range_after(&mut self, low: Expr) -> P<Expr> {
        let inclusive = self.at_sign("..=");
        if !inclusive && !self.at_sign("..") {
            return Ok(low);
        }
        self.range_sign();
        let high = self.nested(|p| p.binary(Level::Xor))?;
        let span = self.since(low.span);
        Ok(Expr { span, kind: Box::new(ExprKind::Range(low, high, inclusive)) })
    }

    /// `..` or `..=`, set without spaces.
    pub(super) fn range_sign(&mut self) {
        self.mark_tight();
        self.mark_glue();
        self.bump();
    }
}
