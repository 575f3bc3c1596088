//! Checks the bytes given for a field: their number, their set, and that no delimiter is in them
//! or begins in them. In: the value and its field. Out: nothing, E0433 and its like, or guards.

use super::super::Lower;
use crate::body::wrong_value::Wrong;
use crate::compiler::{Reported, R, T_BOOL};
use crate::ir_builder as build;
use crate::ty::Ty;
use ir::{BinOp, Builtin, ExprKind as K, Extent, FaultKind, FieldKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

impl Lower<'_, '_> {
    /// Bytes of a bytes field have its sizes, its set, and no delimiter.
    pub fn valid_bytes(&mut self, v: &ir::Expr, field: &FieldKind, span: Span) -> R<()> {
        let FieldKind::Bytes { min, max, class, extent, .. } = field else { return Err(Reported) };
        let (min, max, class) = (*min, *max, class.as_ref());
        let len = build::len_bytes(v.clone());
        if let K::Bytes(b) = &*v.kind {
            let why;
            let wrong = match extent {
                _ if (b.len() as u64) < min => {
                    why = format!("it has less than {min} bytes");
                    Wrong::Value(&why)
                }
                _ if b.len() as u64 > max => {
                    why = format!("it has more than {max} bytes");
                    Wrong::Value(&why)
                }
                _ if class.is_some_and(|c| !b.iter().all(|x| c.has(*x))) => {
                    Wrong::Value("a byte of it is not in the field's set")
                }
                Extent::Until(u)
                    if u.delimiters.iter().any(|d| b.windows(d.len().max(1)).any(|w| w == d.as_slice()))
                        || overlaps(u, class).iter().any(|part| b.ends_with(part)) =>
                {
                    Wrong::Delimiter
                }
                Extent::Length(_) | Extent::Until(_) | Extent::Run | Extent::ToEnd | Extent::Close => return Ok(()),
            };
            return self.valid_because(build::boolean(false), FaultKind::CONSTRAINT, span, wrong);
        }
        if min > 0 {
            self.valid(build::cmp(BinOp::Ge, len.clone(), build::u64(min)), FaultKind::CONSTRAINT, span)?;
        }
        let known = match self.cx.m.types.get(v.ty.index()) {
            Some(ir::Ty::Bytes(n)) => *n,
            _ => u64::MAX,
        };
        if known > max {
            self.valid(build::cmp(BinOp::Le, len, build::u64(max)), FaultKind::TOO_LONG, span)?;
        }
        if let Some(c) = class {
            let digits = matches!(&*v.kind, K::Builtin(Builtin::TextU64, _)) && (b'0'..=b'9').all(|d| c.has(d));
            let date = matches!(&*v.kind, K::Builtin(Builtin::HttpDate, _)) && (b' '..=b'z').all(|d| c.has(d));
            if !digits && !date {
                let ok = self.all_in(v, c);
                self.valid(ok, FaultKind::CONSTRAINT, span)?;
            }
        }
        if let Extent::Until(u) = extent {
            for d in &u.delimiters {
                if class.is_some_and(|c| d.iter().any(|b| !c.has(*b))) {
                    continue;
                }
                let t = self.cx.lower_ty(&Ty::Bytes(d.len() as u64));
                let opt = self.cx.lower_ty(&crate::ty::U32.option());
                let at =
                    build::builtin(opt, Builtin::FindBytes, vec![v.clone(), ir::Expr::new(t, K::Bytes(d.clone()))]);
                self.valid_because(build::not(build::is_some(at)), FaultKind::CONSTRAINT, span, Wrong::Delimiter)?;
            }
            for part in overlaps(u, class) {
                let t = self.cx.lower_ty(&Ty::Bytes(part.len() as u64));
                let part = ir::Expr::new(t, K::Bytes(part));
                let ends = build::builtin(T_BOOL, Builtin::EndsWith, vec![v.clone(), part]);
                self.valid_because(build::not(ends), FaultKind::CONSTRAINT, span, Wrong::Delimiter)?;
            }
        }
        Ok(())
    }
}

/// Whether no byte of a set begins a delimiter of an extent.
pub fn free_of(extent: &Extent, class: &ir::ByteSet) -> bool {
    match extent {
        Extent::Until(u) => u.delimiters.iter().all(|d| d.first().is_some_and(|b| !class.has(*b))),
        Extent::Length(_) | Extent::Run | Extent::ToEnd | Extent::Close => true,
    }
}

/// The ends of a value that would begin a delimiter which the bytes behind the value complete: a
/// reader finds that one first. Behind the value is the first delimiter, or any, which is left to
/// the next field.
fn overlaps(u: &ir::Until, class: Option<&ir::ByteSet>) -> Vec<Vec<u8>> {
    let behind = if u.peek { &u.delimiters[..] } else { u.delimiters.get(..1).unwrap_or_default() };
    let mut parts: Vec<Vec<u8>> = vec![];
    for d in &u.delimiters {
        for n in 1..d.len() {
            let (part, rest) = d.split_at(n);
            let goes_on = behind.iter().any(|b| b.starts_with(rest) || rest.starts_with(b));
            // A value that ends with a longer part ends with a shorter one as well.
            let told = parts.iter().any(|p| part.ends_with(p));
            if goes_on && !told && class.is_none_or(|c| part.iter().all(|b| c.has(*b))) {
                parts.push(part.to_vec());
            }
        }
    }
    parts
}
