//! Checks the first bytes of a written field. A reader decides on a case, a flag or one more byte
//! of a run by the next bytes. So the first bytes must not look like another case, a flag or the
//! run. In: the given fields. Out: nothing if the bytes certainly differ, E0433 if they do not,
//! else a guard. A field that begins with an item of a list, or with an unknown number, is left to
//! the receiver.

use super::super::Lower;
use crate::body::built_message::{FieldSource, Fields, Piece};
use crate::body::wrong_value::Wrong;
use crate::compiler::{R, T_BOOL, T_U64};
use crate::ir_builder as build;
use crate::ty::Ty;
use ir::{BinOp, Builtin, ByteSet, Emit, Expr as X, ExprKind as K, Extent, FaultKind, FieldId, FieldKind, Guard};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

/// The first written bytes: their parts, until they are at least as long as the searched bytes.
struct Beginning {
    parts: Vec<PrefixPart>,
    missing: usize,
}

enum PrefixPart {
    Known(Vec<u8>),
    Value(X),
}

/// Further parts are not checked.
const MOST_PARTS: usize = 4;

impl Lower<'_, '_> {
    /// The bytes written for a case must not look like an earlier case.
    pub fn no_other_case(&mut self, fields: &Fields, cases: &[ir::Case], chosen: usize, span: Span) -> R<()> {
        let own = match &cases[chosen].guard {
            Guard::Literal { values, peek: false } => values.first().cloned().unwrap_or_default(),
            Guard::Literal { .. } | Guard::When(_) | Guard::Else | Guard::Fault(_) => vec![],
        };
        let mut others: Vec<&Vec<u8>> = vec![];
        for c in &cases[..chosen] {
            if let Guard::Literal { values, .. } = &c.guard {
                others.extend(values.iter().filter(|v| v.starts_with(&own)));
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        let mut first = Beginning::of(others.iter().map(|o| o.len()).max().unwrap_or(0));
        first.known(own);
        self.beginning(fields, &cases[chosen].fields, &mut first)?;
        for literal in others {
            self.not_this(&first.parts, literal, build::boolean(true), span)?;
        }
        Ok(())
    }

    /// The bytes behind an unset flag must not look like the flag.
    pub fn no_flag(&mut self, fields: &Fields, flag: &[u8], set: Option<&X>, rest: &[FieldId], span: Span) -> R<()> {
        let unset = set.map_or(build::boolean(true), |s| crate::fold::fold(&self.cx.m, &build::not(s.clone())));
        if build::as_bool(&unset) == Some(false) {
            return Ok(());
        }
        let mut first = Beginning::of(flag.len());
        self.beginning(fields, rest, &mut first)?;
        self.not_this(&first.parts, flag, unset, span)
    }

    /// The bytes behind a run must not continue it.
    pub fn ends_run(&mut self, run: &ByteSet, next: &Emit, span: Span) -> R<()> {
        let ok = match next {
            Emit::Bytes(v) => {
                if let K::Bytes(b) = &*v.kind {
                    build::boolean(!b.first().is_some_and(|c| run.has(*c)))
                } else {
                    let t = self.cx.lower_ty(&Ty::Bytes(1));
                    let first = build::builtin(t, Builtin::Slice, vec![v.clone(), build::u64(0), build::u64(1)]);
                    let empty = build::cmp(BinOp::Eq, build::len_bytes(v.clone()), build::u64(0));
                    let goes_on = self.all_in(&first, run);
                    build::or(empty, build::not(goes_on))
                }
            }
            Emit::UInt { value, bytes: 1, .. } => {
                let ranges = (0..=255u64).filter(|b| run.has(*b as u8)).map(|b| (b, b)).collect();
                let value = self.recast(T_U64, value.clone());
                build::not(X::new(T_BOOL, K::InRanges(value, ranges)))
            }
            Emit::Number { radix: 10, .. } if (b'0'..=b'9').all(|d| run.has(d)) => build::boolean(false),
            Emit::UInt { .. }
            | Emit::Number { .. }
            | Emit::Varint(_)
            | Emit::Items { .. }
            | Emit::InOrder { .. }
            | Emit::Mark(_)
            | Emit::Whole { .. } => return Ok(()),
        };
        let ok = crate::fold::fold(&self.cx.m, &ok);
        self.valid_because(
            ok,
            FaultKind::CONSTRAINT,
            span,
            Wrong::Beginning("the field before it has no end of its own: the receiver would take this for more of it"),
        )
    }

    /// Guards that parts do not begin with a literal, where a condition holds.
    fn not_this(&mut self, parts: &[PrefixPart], literal: &[u8], when: X, span: Span) -> R<()> {
        let same = self.begin_with(parts, literal);
        let ok = crate::fold::fold(&self.cx.m, &build::not(build::and(when, same)));
        let shown = String::from_utf8_lossy(literal).escape_debug().to_string();
        self.valid_because(ok, FaultKind::CONSTRAINT, span, Wrong::Beginning(&format!("it begins with \"{shown}\"")))
    }

    fn begin_with(&mut self, parts: &[PrefixPart], mut literal: &[u8]) -> X {
        for (i, p) in parts.iter().enumerate() {
            let PrefixPart::Known(b) = p else {
                let rest: Vec<X> = parts[i..]
                    .iter()
                    .map(|p| match p {
                        PrefixPart::Known(b) => self.constant(b),
                        PrefixPart::Value(v) => v.clone(),
                    })
                    .collect();
                let whole = match rest.as_slice() {
                    [one] => one.clone(),
                    _ => {
                        let t = self.cx.lower_ty(&Ty::Bytes(1 << 24));
                        build::builtin(t, Builtin::Concat, rest)
                    }
                };
                let literal = self.constant(literal);
                return build::builtin(T_BOOL, Builtin::StartsWith, vec![whole, literal]);
            };
            let n = b.len().min(literal.len());
            if b[..n] != literal[..n] {
                return build::boolean(false);
            }
            literal = &literal[n..];
            if literal.is_empty() {
                return build::boolean(true);
            }
        }
        build::boolean(false)
    }

    fn constant(&mut self, b: &[u8]) -> X {
        let t = self.cx.lower_ty(&Ty::Bytes(b.len() as u64));
        X::new(t, K::Bytes(b.to_vec()))
    }

    /// Gathers the first bytes of fields; true if further ones do not matter, or are not known.
    fn beginning(&mut self, fields: &Fields, seq: &[FieldId], first: &mut Beginning) -> R<bool> {
        for f in seq {
            if self.begins(fields, *f, first)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn begins(&mut self, fields: &Fields, f: FieldId, first: &mut Beginning) -> R<bool> {
        let field = self.field_ir(fields.unit, f);
        Ok(match &field.kind {
            FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Nothing => false,
            FieldKind::Literal { values } => first.known(values.first().cloned().unwrap_or_default()),
            FieldKind::Bytes { extent, trim: None, .. } => {
                let Some(v) = self.enum_text(fields, f)?.or_else(|| fields.value(f).cloned()) else { return Ok(true) };
                let enough = if let K::Bytes(b) = &*v.kind {
                    first.known(b.clone())
                } else {
                    first.parts.push(PrefixPart::Value(v));
                    false
                };
                match extent {
                    Extent::Until(u) if !enough && !u.peek => {
                        first.known(u.delimiters.first().cloned().unwrap_or_default())
                    }
                    Extent::Length(_) | Extent::Until(_) | Extent::Run | Extent::ToEnd | Extent::Close => {
                        enough || first.parts.len() >= MOST_PARTS
                    }
                }
            }
            FieldKind::UInt { bytes: 1, bits: 8, advance: true, .. } if field.computed.is_none() => {
                match fields.value(f).and_then(build::as_int) {
                    Some(n) => first.known(vec![n as u8]),
                    None => true,
                }
            }
            FieldKind::Unit { unit, .. } => match fields.get(f) {
                Some((_, FieldSource::Pieces(ps), _)) => match ps.first() {
                    Some(Piece::Built(inner)) => {
                        let (inner, body) = (inner.clone(), self.cx.m.units[unit.index()].body.clone());
                        self.beginning(&inner, &body, first)?
                    }
                    _ => true,
                },
                _ => true,
            },
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Flag { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Align { .. } => true,
        })
    }
}

impl Beginning {
    fn of(missing: usize) -> Self {
        Beginning { parts: vec![], missing }
    }

    /// Adds bytes; true if there are enough.
    fn known(&mut self, b: Vec<u8>) -> bool {
        self.missing = self.missing.saturating_sub(b.len());
        self.parts.push(PrefixPart::Known(b));
        self.missing == 0 || self.parts.len() >= MOST_PARTS
    }
}
