//! The headers of sixteen frames, and their fields.

use super::value::VectorForm;
use super::Vectorizer;
use crate::frame::{field_size, fixed_offset};
use crate::header_bits::{always, value};
use crate::plans::{BinaryOp, Compare, MaskRef, NumberRef, Stage, VectorOp, VectorStep};
use crate::*;

impl<'a> Vectorizer<'a> {
    /// A field of a header that begins at a place. `checked`: its value is known to be one that the
    /// unit allows.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(super) fn field(&mut self, unit: UnitId, at: u32, f: FieldId, checked: bool) -> Option<VectorForm> {
        let m = self.m;
        let field = &m.unit(unit).fields[f.index()];
        match &field.kind {
            FieldKind::Let { value } => {
                let outer = self.this.replace((unit, at));
                let value = self.expr(value);
                self.this = outer;
                value
            }
            FieldKind::UInt { bytes: bytes @ 1..=4, shift, bits, big, signed: false, .. } => {
                let n = u32::from(*bytes);
                let (word, by) = self.bytes(at + fixed_offset(m, unit, f)?, n);
                let (word, by) = match big {
                    true if n > 1 => (NumberRef::Value(self.value(None, VectorOp::Swap(word))), 8 * (4 - by - n)),
                    _ => (word, 8 * by),
                };
                let (shift, top) = (by + u32::from(*shift), u64::MAX >> (64 - u32::from(*bits)));
                let (least, most) = self.bounds(unit, f, top, checked);
                if shift == 0 && *bits == 32 {
                    return Some(VectorForm::Number { of: word, least, most });
                }
                let mask = (shift + u32::from(*bits) < 32).then_some(top as u32);
                let op = VectorOp::Bits { of: word, shift, mask };
                Some(VectorForm::Number { of: NumberRef::Value(self.value(field.name.as_deref(), op)), least, most })
            }
            _ => None,
        }
    }

    /// The bounds of a field's value.
    fn bounds(&self, unit: UnitId, f: FieldId, top: u64, checked: bool) -> (u64, u64) {
        let header = self.m.unit(unit);
        let ranges = header.fields[f.index()].within.as_ref().filter(|r| checked && !r.is_empty());
        let (least, most) = ranges.map_or((0, top), |r| {
            (r.iter().map(|r| r.0).min().unwrap_or(0), r.iter().map(|r| r.1).max().unwrap_or(top).min(top))
        });
        // A length that counts its own header is no less than that.
        let own = header.header.covers.is_some_and(|c| c.own && c.field == f) && checked;
        (if own { least.max(u64::from(parse_graph::least(self.m, unit))) } else { least }, most)
    }

    /// The header of the frame that a path leads to, and where it begins.
    pub(super) fn header_of(&self, f: FieldId) -> Option<(UnitId, u32)> {
        let layer = self.layers().iter().position(|l| l.header == f)? as u32;
        let s = self.stack.stages.iter().flatten().find(|s| s.layer == layer)?;
        Some((self.layers()[layer as usize].unit, s.at))
    }

    /// The frames that have a header, and the end of its payload. `end` is the end of the payload
    /// of the header before it.
    fn header(&mut self, s: &Stage, end: &VectorForm) -> Option<(MaskRef, VectorForm)> {
        let m = self.m;
        let unit = self.layers()[s.layer as usize].unit;
        let header = m.unit(unit);
        if self.headers.insert(s.layer) {
            self.steps.push(VectorStep::Header(s.layer))
        }
        let mut is = self.same(&s.bits);
        let there = self.compare(Compare::Le, &VectorForm::Const(u128::from(s.at + s.least)), end)?;
        is = self.and(is, there);
        let left = self.less(end, s.at)?;
        let mut size = VectorForm::Const(u128::from(s.least));
        self.this = Some((unit, s.at));
        for f in header.body.clone() {
            let field = &header.fields[f.index()];
            if let Some(ranges) = field.within.as_ref().filter(|_| !s.known.contains_key(&f)) {
                // The bytes that are read here have not been checked yet.
                let value = self.field(unit, s.at, f, false)?;
                let within = self.in_ranges(&value, ranges)?;
                is = self.and(is, within);
            }
            match &field.kind {
                FieldKind::Require { cond } if always(m, unit, f, cond, &s.known, |v| v == 1) => {}
                FieldKind::Require { cond } => {
                    let VectorForm::Mask(t) = self.expr(cond)? else { return None };
                    is = self.and(is, t);
                }
                FieldKind::UInt { .. } | FieldKind::Let { .. } => {}
                FieldKind::Bytes { .. } if field_size(m, field).is_some() => {}
                FieldKind::Bytes { extent: Extent::Length(e), .. } if value(m, unit, e, &s.known) == Some(0) => {}
                FieldKind::Bytes { max, extent: Extent::Length(e), .. } => {
                    let n = self.expr(e)?;
                    let short = self.compare(Compare::Le, &n, &VectorForm::Const(u128::from(*max)))?;
                    let longer = self.arithmetic(BinaryOp::Add, &size, &n, 32)?;
                    let fits = self.compare(Compare::Le, &longer, &left)?;
                    is = self.and(is, short);
                    is = self.and(is, fits);
                    size = longer;
                }
                FieldKind::Bytes { .. }
                | FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Literal { .. }
                | FieldKind::Flag { .. }
                | FieldKind::Unit { .. }
                | FieldKind::List { .. }
                | FieldKind::Switch { .. }
                | FieldKind::StreamBytes { .. }
                | FieldKind::StreamUnit { .. }
                | FieldKind::Recover { .. }
                | FieldKind::Pass { .. }
                | FieldKind::Align { .. }
                | FieldKind::Nothing => return None,
            }
        }
        let mut to = end.clone();
        if let Some(c) = header.header.covers {
            let mut covers = self.field(unit, s.at, c.field, false)?;
            if !c.own {
                covers = self.arithmetic(BinaryOp::Add, &covers, &size, 32)?
            }
            let enough = self.compare(Compare::Le, &size, &covers)?;
            let fits = self.compare(Compare::Le, &covers, &left)?;
            is = self.and(is, enough);
            is = self.and(is, fits);
            to = self.arithmetic(BinaryOp::Add, &covers, &VectorForm::Const(u128::from(s.at)), 32)?;
        }
        self.this = None;
        Some((is, to))
    }

    pub(super) fn lengths(&self) -> VectorForm {
        VectorForm::Number { of: NumberRef::Lengths, least: u64::from(self.stack.least), most: 65535 }
    }

    /// The frames that have this one of the last headers, one of which must be there.
    fn last_header(&mut self, layer: u32) -> Option<MaskRef> {
        let stack = self.stack;
        let list = stack.stages.last().filter(|l| l.len() > 1)?;
        let mut end = self.lengths();
        for s in stack.stages.iter().filter(|l| l.len() == 1).flatten() {
            end = self.header(s, &end)?.1
        }
        self.header(list.iter().find(|s| s.layer == layer)?, &end).map(|found| found.0)
    }

    /// The frames of the stack that have a header.
    pub(super) fn has(&mut self, layer: u32) -> Option<MaskRef> {
        let stack = self.stack;
        if stack.stages.iter().any(|l| l.len() == 1 && l[0].layer == layer) {
            return Some(MaskRef::All);
        }
        let Some(list) = stack.stages.last().filter(|l| l.iter().any(|s| s.layer == layer)) else {
            return Some(MaskRef::None);
        };
        if self.absent.contains(&layer) {
            return Some(MaskRef::None);
        }
        if list.iter().all(|s| s.layer == layer || self.absent.contains(&s.layer)) {
            return Some(MaskRef::All);
        }
        self.last_header(layer)
    }

    /// Finds the frames of the stack.
    pub(super) fn stack(&mut self) -> Option<()> {
        let stack = self.stack;
        let (mut all, mut end) = (MaskRef::All, self.lengths());
        for list in &stack.stages {
            let mut any = MaskRef::None;
            let mut ends = end.clone();
            for s in list {
                let (is, to) = self.header(s, &end)?;
                any = self.or(any, is);
                ends = to;
                if list.len() > 1 {
                    self.last.push((s.layer, is))
                }
            }
            all = self.and(all, any);
            end = ends;
        }
        self.steps.push(VectorStep::Stack(all));
        Some(())
    }
}
