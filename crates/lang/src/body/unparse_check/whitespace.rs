//! The blank in `name: value`. In: a field that is to be written. Out: the blank before its value.
//!
//! A field that trims blanks off its value accepts the value with and without them. By convention
//! one blank follows a colon.

use super::super::Lower;
use crate::compiler::{R, T_BOOL};
use crate::ir_builder as build;
use crate::ty::Ty;
use ir::{BinOp, Emit, ExprKind as K, Extent, FieldId, FieldKind, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

const BLANK: u8 = b' ';

impl Lower<'_, '_> {
    /// One blank stands before a value that is trimmed and ends at a delimiter. The field before it
    /// must end in a literal or a delimiter of the same line. If the value could fill the field,
    /// the blank is written only as long as both fit.
    pub fn blank_before(&mut self, unit: ir::UnitId, f: FieldId, value: &ir::Expr) -> Option<ir::Expr> {
        let u = &self.cx.m.units[unit.index()];
        let FieldKind::Bytes { max, extent: Extent::Until(until), trim: Some(trim), .. } =
            &u.fields.get(f.index())?.kind
        else {
            return None;
        };
        let measured = u.fields.iter().any(|c| c.computed.as_ref().is_some_and(|c| c.lengths.contains(&f)));
        let begins = until.delimiters.iter().any(|d| d.contains(&BLANK));
        let before = left_neighbour(u, f).and_then(|n| ends_with(&u.fields[n.index()].kind))?;
        if !trim.has(BLANK) || measured || begins || matches!(before.last(), None | Some(b'\n' | b'\r' | &BLANK)) {
            return None;
        }
        let max = *max;
        let t = self.cx.lower_ty(&Ty::Bytes(1));
        let blank = ir::Expr::new(t, K::Bytes(vec![BLANK]));
        let longest = match (&*value.kind, self.cx.m.types.get(value.ty.index())) {
            (K::Bytes(b), _) => b.len() as u64,
            (_, Some(ir::Ty::Bytes(n))) => *n,
            _ => u64::MAX,
        };
        if longest < max {
            return Some(blank);
        }
        let fits = build::cmp(BinOp::Lt, build::len_bytes(value.clone()), build::u64(max));
        let fits = crate::fold::fold(&self.cx.m, &fits);
        Some(build::if_(t, fits, blank, ir::Expr::new(t, K::Bytes(vec![]))))
    }

    /// A value must not consist of trimmed characters only.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn not_blank(&mut self, v: &ir::Expr, trim: &ir::ByteSet, span: Span) -> R<()> {
        let ok = match &*v.kind {
            K::Bytes(b) => build::boolean(!b.iter().all(|c| trim.has(*c))),
            _ => build::not(self.all_in(v, trim)),
        };
        self.valid(ok, ir::FaultKind::CONSTRAINT, span)
    }

    /// Whether every byte is in the set.
    pub fn all_in(&mut self, v: &ir::Expr, set: &ir::ByteSet) -> ir::Expr {
        let t = self.cx.lower_ty(&Ty::Bytes(32));
        let table = ir::Expr::new(t, K::Bytes(set.0.iter().flat_map(|w| w.to_le_bytes()).collect()));
        build::builtin(T_BOOL, ir::Builtin::AllIn, vec![v.clone(), table])
    }

    /// The same for a field that is replaced in a parsed message: its extent begins behind the
    /// neighbour.
    pub fn blank_edit(&mut self, unit: ir::UnitId, f: FieldId, body: &mut ir::Block) {
        let Some(ir::Stmt { span, kind: StmtKind::Emit(Emit::Bytes(value)) }) = body.first().cloned() else { return };
        if let Some(blank) = self.blank_before(unit, f, &value) {
            body.insert(0, build::stmt(span, StmtKind::Emit(Emit::Bytes(blank))));
        }
    }
}

/// The field before this one in the unit or the case it stands in.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn left_neighbour(u: &ir::Unit, f: FieldId) -> Option<FieldId> {
    let cases = u
        .fields
        .iter()
        .filter_map(|f| match &f.kind {
            FieldKind::Switch { cases } => Some(cases),
            _ => None,
        })
        .flatten();
    for seq in std::iter::once(&u.body).chain(cases.map(|c| &c.fields)) {
        if let Some(i) = seq.iter().position(|s| *s == f) {
            return seq[..i].last().copied();
        }
    }
    None
}

/// The constant bytes that a field ends with when it is written.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn ends_with(kind: &FieldKind) -> Option<&[u8]> {
    match kind {
        FieldKind::Literal { values } => values.first().map(Vec::as_slice),
        FieldKind::Bytes { extent: Extent::Until(u), .. } | FieldKind::Number { until: Some(u), .. } if !u.peek => {
            u.delimiters.first().map(Vec::as_slice)
        }
        _ => None,
    }
}
