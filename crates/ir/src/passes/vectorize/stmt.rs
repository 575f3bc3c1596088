//! Statements over sixteen frames.

use super::value::{members, number, zero, VectorForm};
use super::Vectorizer;
use crate::packed_keys::packed;
use crate::plans::{Destination, MaskRef, NumberRef, VectorOp, VectorStep};
use crate::*;

impl<'a> Vectorizer<'a> {
    fn set(&mut self, l: LocalId, value: VectorForm, when: MaskRef) -> Option<()> {
        let old = self.locals.get(l.index())?.clone();
        self.locals[l.index()] = if when == MaskRef::Stack { value } else { self.choose(when, value, old)? };
        Some(())
    }

    /// Runs a block for the frames of a mask; None: it has no form for vectors.
    pub(super) fn block(&mut self, block: &Block, when: MaskRef) -> Option<()> {
        for s in block {
            self.stmt(&s.kind, when)?
        }
        Some(())
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &StmtKind, when: MaskRef) -> Option<()> {
        match s {
            StmtKind::Set(l, _) if self.lookups.is_some_and(|a| a.unused.contains(l)) => {}
            StmtKind::Set(l, e) => {
                let value = self.expr(e)?;
                self.set(*l, value, when)?
            }
            StmtKind::Count(c, e) => self.count(*c, e, when)?,
            StmtKind::If { cond, then, other } => {
                let t = self.condition(cond)?;
                let yes = self.and(when, t);
                if yes != MaskRef::None {
                    self.block(then, yes)?
                }
                if other.is_empty() {
                    return Some(());
                }
                let not = self.not(t);
                let no = self.and(when, not);
                if no != MaskRef::None {
                    self.unless(cond, |v| v.block(other, no))?
                }
            }
            StmtKind::TableGet { table, key, dst } => self.lookup(*table, key, *dst, when)?,
            StmtKind::Frame { frame: LocalId(0), act: FrameAct::Send { port, index, mark: None, last: true, .. } } => {
                let ExprKind::Int(instance) = *index.kind else { return None };
                let to = Destination { port: *port, instance: u32::try_from(instance).ok()? };
                self.steps.push(VectorStep::Send(to, when));
            }
            _ => return None,
        }
        Some(())
    }

    fn count(&mut self, c: CounterId, e: &Expr, when: MaskRef) -> Option<()> {
        if !self.hoisted.counters.contains(&c) {
            return None;
        }
        let step = match self.expr(e)? {
            VectorForm::Const(n) => VectorStep::Count(c, u64::try_from(n).ok()?, when),
            value @ VectorForm::Number { .. }
            | value @ VectorForm::Wide(_)
            | value @ VectorForm::Mask(_)
            | value @ VectorForm::Maybe(..)
            | value @ VectorForm::Record(_)
            | value @ VectorForm::Unknown => VectorStep::Sum(c, number(&value)?, when),
        };
        self.steps.push(step);
        Some(())
    }

    /// A lookup that was made for the batch. The exact table has no entries where vectors run.
    fn lookup(&mut self, table: TableId, key: &Expr, dst: LocalId, when: MaskRef) -> Option<()> {
        let lookups = self.lookups?;
        self.steps.push(VectorStep::Miss(table, when));
        let value = self.m.tables[table.index()].value;
        if lookups.exact.as_ref().is_some_and(|u| u.is(key)) {
            return self.set(dst, VectorForm::Maybe(MaskRef::None, Box::new(zero(self.m, value))), when);
        }
        if !lookups.masked.is(key) {
            return None;
        }
        let entries = self.value(None, VectorOp::Entries);
        let there = self.mask(VectorOp::Found(entries));
        let found = self.and(there, when);
        let hits = self.value(None, VectorOp::Hits(found));
        self.steps.push(VectorStep::Hit(table, hits));
        let value = self.stored(table, value, entries, found);
        self.set(dst, VectorForm::Maybe(there, Box::new(value)), when)
    }

    /// Values of entries, as far as they are small numbers.
    fn stored(&mut self, table: TableId, ty: TyId, entries: u32, mask: MaskRef) -> VectorForm {
        let m = self.m;
        if layout::has_bytes(m, ty) || packed(m, ty).is_none_or(|n| n > 256) {
            return VectorForm::Unknown;
        }
        let mut load = |member: Option<u32>, ty: TyId| {
            let Ty::UInt(bits @ (8 | 16 | 32)) = m.ty(ty) else { return VectorForm::Unknown };
            let of = NumberRef::Value(self.value(None, VectorOp::Load { table, member, entries, mask }));
            let top = u64::MAX >> (64 - u32::from(*bits));
            match bits {
                32 => VectorForm::Number { of, least: 0, most: top },
                _ => self.number(VectorOp::Bits { of, shift: 0, mask: Some(top as u32) }, 0, top),
            }
        };
        match m.ty(ty) {
            Ty::Record(_) | Ty::Tuple(_) => VectorForm::Record(
                members(m, ty).into_iter().enumerate().map(|(n, t)| load(Some(n as u32), t)).collect(),
            ),
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Msg(_) => load(None, ty),
        }
    }
}
