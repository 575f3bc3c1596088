//! Checks the first bytes of a written field. A reader decides on a case, a flag or one more byte
//! of a run by the next bytes. So the first bytes must not look like another case, a flag or the
//! run. In: the given fields. Out: nothing if the bytes certainly differ, E0433 if they do not,
//! else a guard. The first bytes of items from a comprehension, say, are not known before. Then the
//! written bytes are looked at, and the message is read again.

use super::super::Lower;
use crate::body::built_message::{FieldSource, Fields, Piece};
use crate::body::wrong_value::Wrong;
use crate::compiler::{R, T_BOOL, T_U64};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::Vk;
use ir::{BinOp, Builtin, ByteSet, Emit, Expr as X, ExprKind as K, Extent, FaultKind, FieldId, FieldKind, Guard};
use wireloom_ir as ir;
use wireloom_syntax::ast::Span;

/// The first written bytes: their parts, until they are at least as long as the searched bytes.
struct Beginning {
    parts: Vec<PrefixPart>,
    missing: usize,
    /// The bytes that follow are not known.
    open: bool,
}

enum PrefixPart {
    Known(Vec<u8>),
    /// Bytes of a set, at least so many; none: they are not known before.
    Value(Option<X>, ByteSet, usize),
    /// A number of so many bytes, the largest first or last.
    Number(X, u8, bool),
}

/// Further parts are not checked.
const MOST_PARTS: usize = 4;

impl Lower<'_, '_> {
    /// The bytes written for a case must not look like an earlier case.
    pub fn no_other_case(
        &mut self,
        fields: &Fields,
        cases: &[ir::Case],
        chosen: usize,
        rest: &[FieldId],
        span: Span,
    ) -> R<()> {
        let own = match &cases[chosen].guard {
            Guard::Literal { values, peek: false } => values.first().cloned().unwrap_or_default(),
            Guard::Literal { .. } | Guard::When(_) | Guard::Else | Guard::Fault(_) => vec![],
        };
        let mut others: Vec<&Vec<u8>> = vec![];
        let bare = |c: &ir::Case| c.fields.is_empty() && c.name.is_none();
        for c in &cases[..chosen] {
            if let Guard::Literal { values, peek } = &c.guard {
                // Nothing stands in either case: each of them will do.
                if *peek && bare(c) && bare(&cases[chosen]) {
                    continue;
                }
                others.extend(values.iter().filter(|v| v.starts_with(&own)));
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        let mut first = Beginning::of(others.iter().map(|o| o.len()).max().unwrap_or(0));
        first.known(own);
        if !self.beginning(fields, &cases[chosen].fields, &mut first)? && !self.beginning(fields, rest, &mut first)? {
            first.open = true;
        }
        for literal in others {
            self.not_this(&first, literal, build::boolean(true), span)?;
        }
        Ok(())
    }

    /// The bytes of a case that its reader peeks at must begin as the case says.
    pub fn as_peeked(&mut self, fields: &Fields, case: &ir::Case, rest: &[FieldId], span: Span) -> R<()> {
        let Guard::Literal { values, peek: true } = &case.guard else { return Ok(()) };
        let mut first = Beginning::of(values.iter().map(Vec::len).max().unwrap_or(0));
        if !self.beginning(fields, &case.fields, &mut first)? && !self.beginning(fields, rest, &mut first)? {
            first.open = true;
        }
        if first.open && values.iter().any(|v| first.may_go_on(v)) {
            if !self.always_begins(fields.unit, &case.fields, values, 0) {
                self.look_behind(values.clone(), false, &build::boolean(true), span);
            }
            return Ok(());
        }
        let mut any = build::boolean(false);
        for v in values {
            any = build::or(any, self.begin_with(&first.parts, v));
        }
        let ok = crate::fold::fold(&self.cx.m, &any);
        let shown = values.first().map(|v| String::from_utf8_lossy(v).escape_debug().to_string()).unwrap_or_default();
        let why = format!("its case begins with \"{shown}\", and this does not");
        self.valid_because(ok, FaultKind::CONSTRAINT, span, Wrong::Beginning(&why))
    }

    /// Whether all that may stand in these fields begins with one of these words.
    fn always_begins(&self, unit: ir::UnitId, seq: &[FieldId], words: &[Vec<u8>], depth: u32) -> bool {
        let Some((f, rest)) = seq.split_first() else { return false };
        let within = |all: &[Vec<u8>]| all.iter().all(|b| words.iter().any(|w| b.starts_with(w)));
        let of_unit = |u: ir::UnitId| {
            depth < ir::layout::MAX_DEPTH && self.always_begins(u, &self.cx.m.units[u.index()].body, words, depth + 1)
        };
        match self.field_ir(unit, *f).kind {
            FieldKind::Let { .. } | FieldKind::Require { .. } | FieldKind::Recover { .. } | FieldKind::Pass { .. } => {
                self.always_begins(unit, rest, words, depth)
            }
            FieldKind::Literal { values } => within(&values),
            FieldKind::Unit { unit, .. } => of_unit(unit),
            FieldKind::List { element, extent: ir::ListExtent::Until(u), .. } if !u.peek => {
                let item = self.field_ir(unit, element).kind;
                within(&u.delimiters) && matches!(item, FieldKind::Unit { unit, .. } if of_unit(unit))
            }
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Flag { .. }
            | FieldKind::List { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Switch { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => false,
        }
    }

    /// The bytes behind an unset flag must not look like the flag.
    pub fn no_flag(&mut self, fields: &Fields, flag: &[u8], set: Option<&X>, rest: &[FieldId], span: Span) -> R<()> {
        let unset = set.map_or(build::boolean(true), |s| crate::fold::fold(&self.cx.m, &build::not(s.clone())));
        if build::as_bool(&unset) == Some(false) {
            return Ok(());
        }
        let mut first = Beginning::of(flag.len());
        if !self.beginning(fields, rest, &mut first)? {
            first.open = true;
        }
        self.not_this(&first, flag, unset, span)
    }

    /// The bytes behind a field up to a delimiter that is left there must begin with one. False:
    /// they are to be looked at once they are written.
    pub fn delimited(&mut self, fields: &Fields, delimiters: &[Vec<u8>], rest: &[FieldId], span: Span) -> R<bool> {
        let mut first = Beginning::of(delimiters.iter().map(Vec::len).max().unwrap_or(0));
        let known = self.beginning(fields, rest, &mut first)?;
        if !known && first.parts.is_empty() {
            // Its delimiter stands behind the unit.
            return Ok(true);
        }
        if first.open {
            return Ok(false);
        }
        let mut any = build::boolean(false);
        for d in delimiters {
            any = build::or(any, self.begin_with(&first.parts, d));
        }
        let ok = crate::fold::fold(&self.cx.m, &any);
        let shown = String::from_utf8_lossy(&delimiters[0]).escape_debug().to_string();
        let why = format!("the field before it ends where \"{shown}\" begins");
        self.valid_because(ok, FaultKind::CONSTRAINT, span, Wrong::Beginning(&why)).map(|()| true)
    }

    /// The bytes behind a run must not continue it, where nothing else stands between.
    pub fn ends_run(&mut self, run: &ByteSet, when: &X, next: &Emit, span: Span) -> R<()> {
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
            Emit::UInt { value, bytes, big } => build::not(self.first_in(value.clone(), (*bytes, *big), run)),
            Emit::Number { radix, .. } if crate::body::emit::digits(*radix).is_subset(run) => build::boolean(false),
            Emit::Number { radix, .. } if !crate::body::emit::digits(*radix).intersects(run) => return Ok(()),
            Emit::Number { .. } | Emit::Varint(_) | Emit::Items { .. } | Emit::InOrder { .. } => {
                self.no_more_behind(run, when, span);
                return Ok(());
            }
            Emit::Mark(_) | Emit::Whole { .. } | Emit::Begins { .. } => return Ok(()),
        };
        let ok = build::or(build::not(when.clone()), ok);
        let ok = crate::fold::fold(&self.cx.m, &ok);
        self.valid_because(
            ok,
            FaultKind::CONSTRAINT,
            span,
            Wrong::Beginning("the field before it has no end of its own: the receiver would take this for more of it"),
        )
    }

    /// Whether the first byte of a number, of so many bytes and big endian or not, is in a set.
    pub fn first_in(&mut self, value: X, (bytes, big): (u8, bool), set: &ByteSet) -> X {
        let mut first = self.recast(T_U64, value);
        if bytes > 1 {
            let by = build::u32(if big { 8 * (u32::from(bytes) - 1) } else { 0 });
            first = build::bin(T_U64, BinOp::BitAnd, build::bin(T_U64, BinOp::Shr, first, by), build::u64(0xff));
        }
        X::new(T_BOOL, K::InRanges(first, set.iter().map(|b| (b.into(), b.into())).collect()))
    }

    /// Guards that parts do not begin with a literal, where a condition holds.
    fn not_this(&mut self, first: &Beginning, literal: &[u8], when: X, span: Span) -> R<()> {
        if first.open && first.may_go_on(literal) {
            self.look_behind(vec![literal.to_vec()], true, &when, span);
        }
        let same = self.begin_with(&first.parts, literal);
        let ok = crate::fold::fold(&self.cx.m, &build::not(build::and(when, same)));
        let shown = String::from_utf8_lossy(literal).escape_debug().to_string();
        self.valid_because(ok, FaultKind::CONSTRAINT, span, Wrong::Beginning(&format!("it begins with \"{shown}\"")))
    }

    fn begin_with(&mut self, parts: &[PrefixPart], literal: &[u8]) -> X {
        let Some((part, others)) = parts.split_first() else { return build::boolean(false) };
        match part {
            PrefixPart::Known(b) => {
                let n = b.len().min(literal.len());
                if b[..n] != literal[..n] {
                    return build::boolean(false);
                }
                if n == literal.len() {
                    return build::boolean(true);
                }
                self.begin_with(others, &literal[n..])
            }
            PrefixPart::Number(v, bytes, big) => {
                let n = usize::from(*bytes).min(literal.len());
                let mut wanted = 0u64;
                for (i, b) in literal[..n].iter().enumerate() {
                    wanted |= u64::from(*b) << (8 * if *big { n - 1 - i } else { i });
                }
                let v = self.recast(T_U64, v.clone());
                let less = 8 * (u32::from(*bytes) - n as u32);
                let v = if *big { build::bin(T_U64, BinOp::Shr, v, build::u32(less)) } else { v };
                let mask = if n >= 8 { u64::MAX } else { (1 << (8 * n)) - 1 };
                let v = build::bin(T_U64, BinOp::BitAnd, v, build::u64(mask));
                let same = build::cmp(BinOp::Eq, v, build::u64(wanted));
                if n == literal.len() {
                    return same;
                }
                build::and(same, self.begin_with(others, &literal[n..]))
            }
            PrefixPart::Value(_, set, 1..) if literal.first().is_some_and(|b| !set.has(*b)) => build::boolean(false),
            PrefixPart::Value(None, ..) => build::boolean(false),
            PrefixPart::Value(..) => {
                let rest: Vec<X> = parts
                    .iter()
                    .map_while(|p| match p {
                        PrefixPart::Known(b) => Some(self.constant(b)),
                        PrefixPart::Value(v, ..) => v.clone(),
                        PrefixPart::Number(..) => None,
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
                build::builtin(T_BOOL, Builtin::StartsWith, vec![whole, literal])
            }
        }
    }

    fn constant(&mut self, b: &[u8]) -> X {
        let t = self.cx.lower_ty(&Ty::Bytes(b.len() as u64));
        X::new(t, K::Bytes(b.to_vec()))
    }

    /// Gathers the first bytes of fields; true if further ones do not matter, or are not known.
    fn beginning(&mut self, fields: &Fields, seq: &[FieldId], first: &mut Beginning) -> R<bool> {
        let mut bits: Option<X> = None;
        for f in seq {
            let field = self.field_ir(fields.unit, *f);
            if let FieldKind::UInt { bytes, shift, bits: width, big, advance, .. } = field.kind {
                let v = self.number_of(fields, *f, &field)?;
                let v = match bits.take() {
                    None if advance => v,
                    before => {
                        let part = self.bit_part(v, shift, width);
                        before.map_or(part.clone(), |b| build::bin(T_U64, BinOp::BitOr, b, part))
                    }
                };
                if !advance {
                    bits = Some(v);
                } else if first.number(v, bytes, big) {
                    return Ok(true);
                }
                continue;
            }
            if self.begins(fields, *f, &field, first)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn begins(&mut self, fields: &Fields, f: FieldId, field: &ir::Field, first: &mut Beginning) -> R<bool> {
        Ok(match &field.kind {
            FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Nothing => false,
            FieldKind::Literal { values } => first.known(values.first().cloned().unwrap_or_default()),
            FieldKind::Bytes { extent, class, min, .. } => {
                let (set, least) = (class.unwrap_or(ByteSet::ALL), *min as usize);
                let enough = match self.enum_text(fields, f)?.or_else(|| fields.value(f).cloned()) {
                    Some(v) => {
                        let blank = self.blank_before(fields.unit, f, &v);
                        blank.is_some_and(|b| first.value(b, ByteSet::ALL, 0)) || first.value(v, set, least)
                    }
                    None => match self.left_out(fields.unit, f, extent) {
                        Some(b) => first.known(b),
                        None => first.unknown(),
                    },
                };
                match extent {
                    Extent::Until(u) if !enough && !u.peek => {
                        first.known(u.delimiters.first().cloned().unwrap_or_default())
                    }
                    Extent::Length(_) | Extent::Until(_) | Extent::Run | Extent::ToEnd | Extent::Close => enough,
                }
            }
            FieldKind::Flag { value } => match fields.value(f) {
                None => false,
                Some(set) => match build::as_bool(set) {
                    Some(true) => first.known(value.clone()),
                    Some(false) => false,
                    None => {
                        let (there, none) = (self.constant(value), self.constant(&[]));
                        first.value(build::if_(there.ty, set.clone(), there, none), ByteSet::of(value), 0)
                    }
                },
            },
            FieldKind::Unit { unit, .. } => match fields.get(f) {
                Some((_, FieldSource::Pieces(ps), _)) => match ps.first() {
                    Some(p) => self.piece_begins(*unit, &p.clone(), first)?,
                    None => first.unknown(),
                },
                None => {
                    let (inner, body) = (Fields::new(*unit, fields.span), self.cx.m.units[unit.index()].body.clone());
                    self.beginning(&inner, &body, first)?
                }
                Some(_) => first.unknown(),
            },
            FieldKind::List { element, extent, .. } => {
                match fields.get(f) {
                    None => {}
                    Some((_, FieldSource::Pieces(ps), _)) => {
                        let (ps, element) = (ps.clone(), self.field_ir(fields.unit, *element).kind);
                        let FieldKind::Unit { unit, .. } = element else { return Ok(first.unknown()) };
                        for p in &ps {
                            if self.piece_begins(unit, p, first)? {
                                return Ok(true);
                            }
                        }
                    }
                    Some(_) => return Ok(first.unknown()),
                }
                match extent {
                    ir::ListExtent::Until(u) if !u.peek => {
                        first.known(u.delimiters.first().cloned().unwrap_or_default())
                    }
                    ir::ListExtent::Until(_)
                    | ir::ListExtent::Count(_)
                    | ir::ListExtent::ToEnd
                    | ir::ListExtent::Fold { .. } => false,
                }
            }
            FieldKind::Switch { cases } => {
                let Some(chosen) = self.chosen_case(fields, f, cases) else { return Ok(first.unknown()) };
                let case = cases[chosen].clone();
                let own = match case.guard {
                    Guard::Literal { values, peek: false } => first.known(values.first().cloned().unwrap_or_default()),
                    Guard::Literal { .. } | Guard::When(_) | Guard::Else | Guard::Fault(_) => false,
                };
                own || self.beginning(fields, &case.fields, first)?
            }
            FieldKind::StreamBytes { .. } => match fields.value(f) {
                Some(v) => first.value(v.clone(), ByteSet::ALL, 0),
                None => false,
            },
            FieldKind::Number { radix: 10, exact: false, until, .. } if !self.is_signed(field.ty) => {
                let v = self.number_of(fields, f, field)?;
                let (v, t) = (self.recast(T_U64, v), self.cx.lower_ty(&Ty::Bytes(20)));
                let text = build::builtin(t, Builtin::TextU64, vec![v]);
                let enough = first.value(text, crate::body::emit::digits(10), 1);
                match until {
                    Some(u) if !enough && !u.peek => first.known(u.delimiters.first().cloned().unwrap_or_default()),
                    _ => enough,
                }
            }
            FieldKind::Number { radix, .. } if !self.is_signed(field.ty) => {
                first.open = true;
                first.parts.push(PrefixPart::Value(None, crate::body::emit::digits(*radix), 1));
                true
            }
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::StreamUnit { .. }
            | FieldKind::Align { .. } => first.unknown(),
        })
    }

    fn is_signed(&self, t: ir::TyId) -> bool {
        matches!(self.cx.m.types.get(t.index()), Some(ir::Ty::Int(_)))
    }

    /// The bytes of a field that is not given, if they are known.
    fn left_out(&self, unit: ir::UnitId, f: FieldId, extent: &Extent) -> Option<Vec<u8>> {
        let defaults = &self.cx.units[unit.index()].defaults;
        if let Some((_, v)) = defaults.iter().find(|(d, _)| *d == f) {
            return Some(v.clone());
        }
        match extent {
            Extent::Length(n) => Some(vec![0; build::as_int(n).unwrap_or(0).min(1 << 16) as usize]),
            // A blank may be written there.
            Extent::Run if self.run.is_some() => None,
            Extent::Run | Extent::Until(_) | Extent::ToEnd | Extent::Close => Some(vec![]),
        }
    }

    fn piece_begins(&mut self, unit: ir::UnitId, piece: &Piece, first: &mut Beginning) -> R<bool> {
        let v = match piece {
            Piece::Built(inner) => {
                let body = self.cx.m.units[unit.index()].body.clone();
                return self.beginning(inner, &body, first);
            }
            Piece::Ready(v, _) => v,
        };
        let t = self.cx.lower_ty(&Ty::Bytes(1 << 24));
        Ok(match &v.kind {
            Vk::Path(p) => first.value(X::new(t, K::Raw(p.clone())), ByteSet::ALL, 0),
            Vk::Pure(x) => first.value(x.clone(), ByteSet::ALL, 0),
            Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => first.unknown(),
        })
    }
}

impl Beginning {
    fn of(missing: usize) -> Self {
        Beginning { parts: vec![], missing, open: false }
    }

    /// Adds bytes; true if there are enough.
    fn known(&mut self, b: Vec<u8>) -> bool {
        if b.is_empty() {
            return self.missing == 0;
        }
        self.missing = self.missing.saturating_sub(b.len());
        self.parts.push(PrefixPart::Known(b));
        self.full()
    }

    fn value(&mut self, v: X, set: ByteSet, least: usize) -> bool {
        if let K::Bytes(b) = &*v.kind {
            return self.known(b.clone());
        }
        self.missing = self.missing.saturating_sub(least);
        self.parts.push(PrefixPart::Value(Some(v), set, least));
        self.full()
    }

    fn number(&mut self, v: X, bytes: u8, big: bool) -> bool {
        // Behind a value it is not known where it stands.
        if self.parts.iter().any(|p| matches!(p, PrefixPart::Value(..))) {
            return self.unknown();
        }
        if let Some(n) = build::as_int(&v) {
            let all = (n as u64).to_be_bytes();
            let mut own = all[8 - usize::from(bytes)..].to_vec();
            if !big {
                own.reverse();
            }
            return self.known(own);
        }
        self.missing = self.missing.saturating_sub(bytes.into());
        self.parts.push(PrefixPart::Number(v, bytes, big));
        self.full()
    }

    fn unknown(&mut self) -> bool {
        self.open = true;
        true
    }

    fn full(&mut self) -> bool {
        if self.missing > 0 && self.parts.len() >= MOST_PARTS {
            self.open = true;
        }
        self.missing == 0 || self.parts.len() >= MOST_PARTS
    }

    /// Whether bytes that are not known may complete a literal.
    fn may_go_on(&self, literal: &[u8]) -> bool {
        let mut at = Some(0);
        for p in &self.parts {
            at = match (p, at) {
                (PrefixPart::Known(b), Some(n)) => {
                    let rest = &literal[literal.len().min(n)..];
                    let both = b.len().min(rest.len());
                    if b[..both] != rest[..both] || rest.len() <= b.len() {
                        return false;
                    }
                    Some(n + b.len())
                }
                (PrefixPart::Known(b), None) => {
                    // They end before the literal does, else all is known.
                    let within = literal[..literal.len().saturating_sub(1)].windows(b.len()).any(|w| w == b.as_slice());
                    if !within {
                        return false;
                    }
                    None
                }
                (PrefixPart::Number(_, bytes, _), Some(n)) => {
                    if n + usize::from(*bytes) >= literal.len() {
                        return false;
                    }
                    Some(n + usize::from(*bytes))
                }
                (PrefixPart::Value(_, set, 1..), Some(n)) if literal.get(n).is_none_or(|b| !set.has(*b)) => {
                    return false
                }
                (PrefixPart::Number(..) | PrefixPart::Value(..), _) => None,
            };
        }
        true
    }
}
