//! Writing a message: its fields in wire order, with lengths, literals and delimiters filled in.
//! Guards stop values that are too long, are outside of the set, or hold the delimiter.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and FieldKind")]

use super::built_message::{FieldSource, Fields, Piece};
use super::unparse_check::byte_values::free_of;
use super::unparse_check::constraints::same_sum;
use super::wrong_value::Wrong;
use super::Lower;
use crate::compiler::{Reported, R, T_BOOL, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ty::{Elem, Ty};
use crate::val::{Val, Vk};
use ir::{BinOp, Emit, ExprKind as K, Extent, FaultKind, FieldId, FieldKind, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    pub(super) fn emit(&mut self, span: Span, e: Emit) {
        let first = match &e {
            Emit::Bytes(x) => match &*x.kind {
                K::Bytes(b) if !b.is_empty() => ir::ByteSet::of(&b[..1]),
                _ => ir::ByteSet::ALL,
            },
            Emit::Number { radix, .. } => digits(*radix),
            Emit::UInt { .. }
            | Emit::Varint(_)
            | Emit::Items { .. }
            | Emit::InOrder { .. }
            | Emit::Mark(_)
            | Emit::Whole { .. }
            | Emit::Begins { .. } => ir::ByteSet::ALL,
        };
        self.emit_from(span, e, &first, 0);
    }

    /// Writes something that begins with a byte of a set. Two runs that would flow together are
    /// kept apart by the blank between them, and refused if there is none. `least`: of its bytes.
    fn emit_from(&mut self, span: Span, e: Emit, first: &ir::ByteSet, least: u64) {
        let mut open = std::mem::take(&mut self.open_runs);
        if let Some((class, blank)) = self.run.take() {
            match blank {
                Some(b) if class.intersects(first) => self.separator(b, span),
                Some(_) => {}
                None => open.push((class, build::boolean(true))),
            }
        }
        for (class, when) in open {
            // An error has been reported, and the rest is checked all the same.
            if class.intersects(first) {
                let _ = self.ends_run(&class, &when, &e, span);
            }
            // Behind nothing the run is open still.
            if let (Emit::Bytes(v), 0) = (&e, least) {
                if !matches!(&*v.kind, K::Bytes(b) if !b.is_empty()) {
                    let empty = build::cmp(BinOp::Eq, build::len_bytes(v.clone()), build::u64(0));
                    let when = crate::fold::fold(&self.cx.m, &build::and(when, empty));
                    self.open_runs.push((class, when));
                }
            }
        }
        self.push(span, StmtKind::Emit(e));
    }

    pub(super) fn separator(&mut self, b: u8, span: Span) {
        let t = self.cx.lower_ty(&Ty::Bytes(1));
        self.push(span, StmtKind::Emit(Emit::Bytes(ir::Expr::new(t, K::Bytes(vec![b])))));
    }

    fn emit_const(&mut self, bytes: &[u8], span: Span) {
        if bytes.is_empty() {
            return;
        }
        let t = self.cx.lower_ty(&Ty::Bytes(bytes.len() as u64));
        self.emit(span, Emit::Bytes(ir::Expr::new(t, K::Bytes(bytes.to_vec()))));
    }

    pub fn field_ir(&self, u: ir::UnitId, f: FieldId) -> ir::Field {
        self.cx.m.units[u.index()].fields[f.index()].clone()
    }

    pub fn emit_unit(&mut self, fields: &Fields) -> R<()> {
        if !self.cx.units[fields.unit.index()].ok {
            return Err(Reported);
        }
        let body = self.cx.m.units[fields.unit.index()].body.clone();
        self.emit_fields(fields, &body)
    }

    pub(super) fn emit_fields(&mut self, fields: &Fields, seq: &[FieldId]) -> R<()> {
        let mut bits: Option<ir::Expr> = None;
        for (i, f) in seq.iter().enumerate() {
            let ir_field = self.field_ir(fields.unit, *f);
            if let FieldKind::UInt { bytes, shift, bits: width, big, advance, .. } = ir_field.kind {
                let v = self.number_of(fields, *f, &ir_field)?;
                let whole = advance && bits.is_none();
                if whole {
                    self.emit(fields.span, Emit::UInt { value: v, bytes, big });
                    continue;
                }
                let part = self.bit_part(v, shift, width);
                let sum = match bits.take() {
                    None => part,
                    Some(b) => build::bin(T_U64, BinOp::BitOr, b, part),
                };
                if advance {
                    self.emit(fields.span, Emit::UInt { value: sum, bytes, big });
                } else {
                    bits = Some(sum);
                }
                continue;
            }
            let mut behind = None;
            match &ir_field.kind {
                FieldKind::Flag { value } => {
                    self.no_flag(fields, value, fields.value(*f), &seq[i + 1..], fields.span)?;
                }
                FieldKind::Switch { cases } => {
                    if let Some(chosen) = self.chosen_case(fields, *f, cases) {
                        self.no_other_case(fields, cases, chosen, &seq[i + 1..], fields.span)?;
                        self.as_peeked(fields, &cases[chosen], &seq[i + 1..], fields.span)?;
                    }
                }
                FieldKind::Bytes { extent: Extent::Until(u), .. }
                | FieldKind::List { extent: ir::ListExtent::Until(u), .. }
                    if u.peek =>
                {
                    let known = self.delimited(fields, &u.delimiters, &seq[i + 1..], fields.span)?;
                    behind = (!known).then_some(&u.delimiters);
                }
                _ => {}
            }
            self.emit_field(fields, *f, &ir_field)?;
            if let Some(delimiters) = behind {
                self.look_behind(delimiters.clone(), false, &build::boolean(true), fields.span);
            }
        }
        Ok(())
    }

    pub fn bit_part(&mut self, v: ir::Expr, shift: u8, width: u8) -> ir::Expr {
        let v = self.recast(T_U64, v);
        let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
        let masked = build::bin(T_U64, BinOp::BitAnd, v, build::u64(mask));
        crate::fold::fold(&self.cx.m, &build::bin(T_U64, BinOp::Shl, masked, build::u32(shift.into())))
    }

    /// An integer field's value: given, computed, derived from what it governs, or zero.
    pub fn number_of(&mut self, fields: &Fields, f: FieldId, ir_field: &ir::Field) -> R<ir::Expr> {
        let t = ir_field.ty;
        if let Some(e) = fields.value(f).cloned() {
            self.number_within(&e, ir_field, fields.get(f).map_or(fields.span, |g| g.2))?;
            return Ok(e);
        }
        if let Some(c) = &ir_field.computed {
            let mut total = build::u64(c.plus as u64);
            for l in &c.lengths {
                total = build::bin(T_U64, BinOp::Add, total, self.length_given(fields, *l));
            }
            let total = crate::fold::fold(&self.cx.m, &total);
            return self.own_length(total, ir_field, fields.span);
        }
        if let Some(total) = self.measured(fields, f)? {
            return self.own_length(total, ir_field, fields.span);
        }
        if let Some(n) = self.governed(fields, f)? {
            return self.own_length(n, ir_field, fields.span);
        }
        if let Some(ranges) = &ir_field.within {
            if !ranges.iter().any(|(l, _)| *l == 0) {
                if let [(l, h)] = ranges.as_slice() {
                    if l == h {
                        return Ok(build::int(t, (*l).into()));
                    }
                }
                let name = ir_field.name.clone().unwrap_or_default();
                return Err(self.cx.report(Diagnostic::error(
                    "E0428",
                    fields.span,
                    format!("`{name}` must be given: 0 is not allowed there"),
                )));
            }
        }
        Ok(build::int(t, 0))
    }

    /// A length that the program does not give: it fits its field, and lies in the field's set.
    fn own_length(&mut self, total: ir::Expr, ir_field: &ir::Field, span: Span) -> R<ir::Expr> {
        self.fits(&total, ir_field.ty, span)?;
        self.number_within(&total, ir_field, span)?;
        Ok(self.recast(ir_field.ty, total))
    }

    /// A number lies in its field's set.
    pub fn number_within(&mut self, e: &ir::Expr, ir_field: &ir::Field, span: Span) -> R<()> {
        let Some(ranges) = &ir_field.within else { return Ok(()) };
        let ok = crate::fold::fold(&self.cx.m, &ir::Expr::new(T_BOOL, K::InRanges(e.clone(), ranges.clone())));
        self.valid(ok, FaultKind::CONSTRAINT, span)
    }

    /// A computed length must fit its field.
    fn fits(&mut self, total: &ir::Expr, t: ir::TyId, span: Span) -> R<()> {
        let Some(ir::Ty::UInt(bits)) = self.cx.m.types.get(t.index()).cloned() else { return Ok(()) };
        if bits >= 32 {
            return Ok(());
        }
        let ok = crate::fold::fold(&self.cx.m, &build::cmp(BinOp::Lt, total.clone(), build::u64(1 << bits)));
        self.valid_because(ok, FaultKind::TOO_LONG, span, Wrong::Length)
    }

    pub fn length_given(&self, fields: &Fields, f: FieldId) -> ir::Expr {
        match fields.value(f) {
            Some(e) => build::len_bytes(e.clone()),
            None => build::u64(0),
        }
    }

    /// A length or count that was not given follows from the field it governs:
    /// `size: u32, data: bytes [size]`.
    fn governed(&mut self, fields: &Fields, f: FieldId) -> R<Option<ir::Expr>> {
        // `options: bytes<40> [ihl * 4 - 20]`: the field follows from the length, given or empty.
        let unit = &self.cx.m.units[fields.unit.index()];
        let counted = unit.body.iter().find_map(|b| match &unit.fields[b.index()].kind {
            FieldKind::Bytes { extent: Extent::Length(e), .. } => linear(e, f).map(|(a, c)| (*b, a, c)),
            _ => None,
        });
        if let Some((bytes, factor, less)) = counted {
            let len = self.length_given(fields, bytes);
            let whole = build::cmp(
                BinOp::Eq,
                build::bin(
                    T_U64,
                    BinOp::Rem,
                    build::bin(T_U64, BinOp::Add, len.clone(), build::u64(less)),
                    build::u64(factor),
                ),
                build::u64(0),
            );
            let whole = crate::fold::fold(&self.cx.m, &whole);
            let span = fields.get(bytes).map_or(fields.span, |g| g.2);
            self.valid_because(whole, FaultKind::CONSTRAINT, span, Wrong::Length)?;
            let n =
                build::bin(T_U64, BinOp::Div, build::bin(T_U64, BinOp::Add, len, build::u64(less)), build::u64(factor));
            return Ok(Some(crate::fold::fold(&self.cx.m, &n)));
        }
        let enclosed = self.cx.units[fields.unit.index()].enclosed.clone();
        if let Some((part, _)) = enclosed.iter().find(|(_, e)| reads(e, f)) {
            return self.part_length(fields, f, *part).map(Some);
        }
        for (m, g, _) in fields.given.clone() {
            match (self.field_ir(fields.unit, m.field).kind, g) {
                (
                    FieldKind::Bytes { extent: Extent::Length(e), .. }
                    | FieldKind::StreamBytes { extent: Extent::Length(e) },
                    FieldSource::Value(v),
                ) if reads(&e, f) => {
                    return Ok(Some(build::len_bytes(v)));
                }
                (FieldKind::List { extent: ir::ListExtent::Count(e), .. }, FieldSource::Source(s)) if reads(&e, f) => {
                    return self.item_count(&s).map(Some)
                }
                (FieldKind::List { extent: ir::ListExtent::Count(e), .. }, FieldSource::Pieces(p)) if reads(&e, f) => {
                    return Ok(Some(self.pieces_count(&p)))
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// How many items a list will have.
    pub fn item_count(&mut self, e: &Expr) -> R<ir::Expr> {
        match &*e.kind {
            ExprKind::List(items) if !items.iter().any(|i| matches!(&*i.kind, ExprKind::Call(..))) => {
                Ok(build::u64(items.len() as u64))
            }
            ExprKind::Comprehension { pattern, list, cond, .. } => {
                let n = self.temp("", &crate::ty::U64, build::u64(0), e.span);
                self.bounds.remove(&n);
                self.each(pattern, list, e.span, |s| {
                    if let Some(scope) = s.scopes.last_mut() {
                        scope.iter_mut().for_each(|b| b.used = true);
                    }
                    s.filtered(cond.as_ref(), e.span, |s| {
                        // Here the items are only counted: what is not used is seen elsewhere.
                        if let Some(scope) = s.scopes.last_mut() {
                            scope.iter_mut().for_each(|b| b.used = true);
                        }
                        let next = build::bin(T_U64, BinOp::Add, build::local(n, T_U64), build::u64(1));
                        s.push(e.span, StmtKind::Set(n, next));
                        Ok(Val::unit())
                    })
                    .map(|_| ())
                })?;
                Ok(build::local(n, T_U64))
            }
            ExprKind::If(c, then, Some(other)) => {
                let n = self.temp("", &crate::ty::U64, build::u64(0), e.span);
                self.bounds.remove(&n);
                let c = self.decide(c)?;
                let count = |s: &mut Self, e: &Expr| {
                    let x = s.item_count(e)?;
                    s.push(e.span, StmtKind::Set(n, x));
                    Ok(Val::unit())
                };
                let then = Expr { kind: Box::new(ExprKind::Block(then.clone())), span: then.span };
                self.branch(c, e.span, Some(&Ty::Unit), |s| count(s, &then), |s| count(s, other))?;
                Ok(build::local(n, T_U64))
            }
            ExprKind::Block(b) => match b.stmts.as_slice() {
                [wireloom_syntax::ast::Stmt { kind: wireloom_syntax::ast::StmtKind::Expr(e), .. }] => {
                    self.item_count(e)
                }
                _ => Err(self.err("E0429", b.span, "a list must be given here")),
            },
            _ => match self.expr(e, None)? {
                Val { ty: Ty::Items(..), kind: Vk::Path(p), .. } => Ok(build::cast(T_U64, build::count(p))),
                Val { ty: Ty::List(..), kind: Vk::Pure(l), .. } => {
                    Ok(build::cast(T_U64, ir::Expr::new(T_U32, K::ListLen(l))))
                }
                Val { ty: Ty::Bytes(_), kind: Vk::Pure(x), .. }
                    if build::raw_path(&x).is_some_and(|p| self.is_list(p)) =>
                {
                    let list = build::raw_path(&x).cloned().ok_or(Reported)?;
                    Ok(build::cast(T_U64, build::count(list)))
                }
                _ => Err(self.cx.report(
                    Diagnostic::error("E0428", e.span, "the count of these items is not known here")
                        .hint("give the field that holds the count"),
                )),
            },
        }
    }

    /// Guards what the grammar asks for; refused at once where it is known to be wrong.
    pub fn valid(&mut self, ok: ir::Expr, kind: FaultKind, span: Span) -> R<()> {
        self.valid_because(ok, kind, span, Wrong::Value(""))
    }

    /// The same, with what is wrong otherwise.
    pub fn valid_because(&mut self, ok: ir::Expr, kind: FaultKind, span: Span, wrong: Wrong) -> R<()> {
        match build::as_bool(&ok) {
            Some(true) => Ok(()),
            Some(false) => {
                let (code, text, why) = wrong.told();
                let d = Diagnostic::error(code, span, text).label("the receiver would refuse it");
                Err(self.cx.report(if why.is_empty() { d } else { d.note(why) }))
            }
            None => {
                self.guard(ok, kind, span);
                Ok(())
            }
        }
    }

    fn emit_field(&mut self, fields: &Fields, f: FieldId, ir_field: &ir::Field) -> R<()> {
        let span = fields.get(f).map_or(fields.span, |g| g.2);
        if super::unparse_check::constraints::ends_with_connection(&ir_field.kind) {
            self.ends_if(build::boolean(true));
        }
        match &ir_field.kind {
            FieldKind::Require { cond } => self.required(fields, cond, true, ir_field.bad, ir_field.span),
            FieldKind::UInt { .. }
            | FieldKind::Let { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Nothing => Ok(()),
            FieldKind::Number { radix, digits, exact, until } => {
                let v = self.number_of(fields, f, ir_field)?;
                if *exact {
                    let limit = u128::from(*radix).checked_pow(u32::from(*digits)).unwrap_or(u128::MAX);
                    let wide = self.recast(T_U64, v.clone());
                    if limit <= u128::from(u64::MAX) {
                        let ok = crate::fold::fold(&self.cx.m, &build::cmp(BinOp::Lt, wide, build::u64(limit as u64)));
                        self.valid(ok, FaultKind::CONSTRAINT, span)?;
                    }
                }
                self.emit(span, Emit::Number { value: v, radix: *radix, width: if *exact { *digits } else { 0 } });
                if until.is_none() && !*exact {
                    self.run = Some((self::digits(*radix), None));
                }
                self.delimiter(until.as_ref(), span);
                Ok(())
            }
            FieldKind::Varint { .. } => {
                let v = self.number_of(fields, f, ir_field)?;
                self.emit(span, Emit::Varint(v));
                Ok(())
            }
            FieldKind::Bytes { .. } => self.emit_bytes(fields, f, ir_field, span),
            FieldKind::Literal { values } => {
                let v = values.first().cloned().unwrap_or_default();
                self.emit_const(&v, span);
                Ok(())
            }
            FieldKind::Flag { value } => {
                let Some(cond) = fields.value(f).cloned() else { return Ok(()) };
                let value = value.clone();
                let open = (self.run, self.open_runs.clone());
                let ((), then) = self.sub(|s| s.emit_const(&value, span));
                (self.run, self.open_runs) = open;
                self.push(span, StmtKind::If { cond, then, other: vec![] });
                Ok(())
            }
            FieldKind::Unit { unit, args } => self.emit_nested(fields, f, *unit, args, span),
            FieldKind::List { element, extent, .. } => self.emit_list_field(fields, f, *element, extent, span),
            FieldKind::StreamBytes { extent } => {
                if let Some(v) = fields.value(f).cloned() {
                    self.length_agrees(fields, extent, &v, span)?;
                    self.emit(span, Emit::Bytes(v));
                }
                Ok(())
            }
            FieldKind::StreamUnit { .. } => {
                Err(self.err("E0429", span, "a stream of units cannot be built; it can only be passed on"))
            }
            FieldKind::Switch { cases } => self.emit_switch(fields, f, ir_field, &cases.clone(), span),
            FieldKind::Align { to } => self.emit_align(fields, f, *to, span),
        }
    }

    pub(super) fn delimiter(&mut self, until: Option<&ir::Until>, span: Span) {
        if let Some(u) = until {
            if !u.peek {
                let d = u.delimiters.first().cloned().unwrap_or_default();
                self.emit_const(&d, span);
            }
        }
    }

    fn emit_bytes(&mut self, fields: &Fields, f: FieldId, ir_field: &ir::Field, span: Span) -> R<()> {
        let FieldKind::Bytes { min, class, extent, trim, .. } = &ir_field.kind else { return Ok(()) };
        let Some(v) = self.enum_text(fields, f)?.or_else(|| fields.value(f).cloned()) else {
            let default =
                self.cx.units[fields.unit.index()].defaults.iter().find(|(d, _)| *d == f).map(|(_, v)| v.clone());
            if let Some(value) = default {
                self.emit_const(&value, span);
                if let (Extent::Run, Some(c)) = (extent, class) {
                    self.run = Some((*c, None));
                }
                if let Extent::Until(u) = extent {
                    self.delimiter(Some(u), span);
                }
                return Ok(());
            }
            if let Extent::Length(n) = extent {
                if let Some(n) = build::as_int(n) {
                    self.emit_const(&vec![0; (n as usize).min(1 << 16)], span);
                    return Ok(());
                }
                // The length may be given without its bytes, of which there are none.
                let none = ir::Expr::new(self.cx.lower_ty(&Ty::Bytes(0)), K::Bytes(Vec::new()));
                self.length_agrees(fields, extent, &none, span)?;
            }
            if *min > 0 {
                let name = ir_field.name.clone().unwrap_or("_".into());
                return Err(self.cx.report(Diagnostic::error(
                    "E0428",
                    fields.span,
                    format!("`{name}` must be given: it cannot be empty"),
                )));
            }
            if let Extent::Until(u) = extent {
                self.delimiter(Some(u), span);
            }
            if let (Extent::Run, Some(own)) = (extent, class) {
                // A run of blanks that may be empty is there to part its neighbours.
                if let Some((last, None)) = self.run {
                    self.run = Some((last, own.iter().find(|b| !last.has(*b))));
                }
                self.open_runs.push((*own, build::boolean(true)));
            }
            return Ok(());
        };
        if !self.same_source(&v, ir_field) {
            self.valid_bytes(&v, &ir_field.kind, span)?;
        }
        if let (1.., Some(t)) = (*min, trim) {
            self.not_blank(&v, t, span)?;
        }
        self.length_agrees(fields, extent, &v, span)?;
        if let Some(blank) = self.blank_before(fields.unit, f, &v) {
            self.emit(span, Emit::Bytes(blank));
        }
        self.emit_from(span, Emit::Bytes(v), class.as_ref().unwrap_or(&ir::ByteSet::ALL), *min);
        if let (Extent::Run, Some(c)) = (extent, class) {
            self.run = Some((*c, None));
        }
        if let Extent::Until(u) = extent {
            self.delimiter(Some(u), span);
        }
        Ok(())
    }

    /// The text of an enum's value that is given.
    pub fn enum_text(&mut self, fields: &Fields, f: FieldId) -> R<Option<ir::Expr>> {
        let Some((value, e)) = self.cx.units[fields.unit.index()].text(f) else { return Ok(None) };
        let (max, texts) = self.cx.texts[&e].clone();
        let name = self.field_ir(fields.unit, value).name.unwrap_or_default();
        let Some(v) = fields.value(value).cloned() else {
            return Err(self.cx.report(Diagnostic::error(
                "E0428",
                fields.span,
                format!("`{name}` must be given: it has no text of its own"),
            )));
        };
        let span = fields.get(value).map_or(fields.span, |g| g.2);
        let known = crate::fold::fold(
            &self.cx.m,
            &ir::Expr::new(T_BOOL, K::InRanges(v.clone(), vec![(0, (texts.len() as u64).saturating_sub(1))])),
        );
        self.valid(known, FaultKind::CONSTRAINT, span)?;
        let t = self.cx.lower_ty(&Ty::Bytes(max));
        let mut text = ir::Expr::new(t, K::Bytes(vec![]));
        for (i, b) in texts.iter().enumerate() {
            let same = crate::fold::fold(&self.cx.m, &build::cmp(BinOp::Eq, v.clone(), build::int(v.ty, i as u128)));
            text = build::if_(t, same, ir::Expr::new(t, K::Bytes(b.clone())), text);
        }
        Ok(Some(text))
    }

    /// Whether the value was parsed by a field at least as strict.
    fn same_source(&self, v: &ir::Expr, target: &ir::Field) -> bool {
        let mut e = v;
        while let K::Cast(inner) = &*e.kind {
            e = inner;
        }
        let K::Read(p) = &*e.kind else { return false };
        let Some(source) = self.field_at(p) else { return false };
        if let (FieldKind::Bytes { trim: a, .. }, FieldKind::Bytes { trim: Some(b), .. }) = (&source.kind, &target.kind)
        {
            if !a.as_ref().is_some_and(|a| b.is_subset(a)) {
                return false;
            }
        }
        match (&source.kind, &target.kind) {
            (
                FieldKind::Bytes { min: a, max: m, class: Some(c), .. },
                FieldKind::Bytes { min: b, max: n, class: Some(d), extent, .. },
            ) if free_of(extent, c) => a >= b && m <= n && c.is_subset(d),
            // One delimiter stood behind the value, and stands there again.
            (
                FieldKind::Bytes { min: a, max: m, class: c, extent: Extent::Until(u), .. },
                FieldKind::Bytes { min: b, max: n, class: d, extent: Extent::Until(w), .. },
            ) => a >= b && m <= n && c == d && u == w && u.delimiters.len() == 1,
            _ => false,
        }
    }

    /// The field a path ends at.
    pub fn field_at(&self, p: &ir::Path) -> Option<ir::Field> {
        let mut unit = match p.root {
            ir::Root::Local(l) => self.message_unit(l)?,
            ir::Root::This | ir::Root::Item => return None,
        };
        let mut found: Option<ir::Field> = None;
        for s in &p.steps {
            let ir::Step::Field(f) = s else {
                // An item: its field is the list's element.
                if let Some(ir::Field { kind: FieldKind::List { element, .. }, .. }) = &found {
                    let e = self.field_ir(unit, *element);
                    if let FieldKind::Unit { unit: u, .. } = &e.kind {
                        unit = *u;
                    }
                    found = Some(e);
                }
                continue;
            };
            let field = self.cx.m.units[unit.index()].fields.get(f.index())?.clone();
            if let FieldKind::Unit { unit: u, .. } = &field.kind {
                unit = *u;
            }
            found = Some(field);
        }
        found
    }

    /// Where a length is given as well as the bytes, they must agree.
    fn length_agrees(&mut self, fields: &Fields, extent: &Extent, v: &ir::Expr, span: Span) -> R<()> {
        let Extent::Length(n) = extent else { return Ok(()) };
        if let Some(n) = build::as_int(n) {
            let ok = crate::fold::fold(
                &self.cx.m,
                &build::cmp(BinOp::Eq, build::len_bytes(v.clone()), build::u64(n as u64)),
            );
            return self.valid_because(ok, FaultKind::CONSTRAINT, span, Wrong::Length);
        }
        match self.closed(fields, n)? {
            Some(n) => {
                let ok = same_sum(&self.cx.m, &build::len_bytes(v.clone()), &n).then(|| build::boolean(true));
                let ok = ok.unwrap_or_else(|| build::cmp(BinOp::Eq, build::len_bytes(v.clone()), n));
                let ok = crate::fold::fold(&self.cx.m, &ok);
                self.valid_because(ok, FaultKind::CONSTRAINT, span, Wrong::Length)
            }
            None => {
                self.unsure();
                Ok(())
            }
        }
    }

    fn emit_switch(
        &mut self,
        fields: &Fields,
        f: FieldId,
        ir_field: &ir::Field,
        cases: &[ir::Case],
        span: Span,
    ) -> R<()> {
        let Some(chosen) = self.chosen_case(fields, f, cases) else {
            let bare = |c: &ir::Case| c.fields.iter().all(|f| self.is_nothing(fields.unit, *f));
            let shown =
                |c: &ir::Case| c.name.as_ref().map(|n| if bare(c) { format!("{n}: nothing") } else { n.clone() });
            let names: Vec<String> = cases.iter().filter_map(shown).collect();
            let what = ir_field.name.as_ref().map_or("a switch".to_string(), |n| format!("the switch `{n}`"));
            let hint = match names.as_slice() {
                [] => {
                    "several of its cases have no fields: give the one that is meant a name, `=> name: nothing`".into()
                }
                names => format!("give one of: {}", names.join(", ")),
            };
            return Err(self
                .cx
                .report(Diagnostic::error("E0428", fields.span, format!("{what} needs one of its cases")).hint(hint)));
        };
        let Some(case) = cases.get(chosen) else { return Err(Reported) };
        if let ir::Guard::Literal { values, peek: false } = &case.guard {
            let v = values.first().cloned().unwrap_or_default();
            self.emit_const(&v, span);
        }
        let Some(without) = self.case_agrees(fields, f, cases, chosen)? else {
            return self.emit_fields(fields, &case.fields);
        };
        let (run, ends) = (self.run, self.ends.take());
        let (made, then) = self.sub(|s| s.emit_fields(fields, &case.fields));
        self.run = run;
        let inner = std::mem::replace(&mut self.ends, ends);
        if let Some(inner) = inner {
            self.ends_if(build::and(build::not(without.clone()), inner));
        }
        self.push(span, StmtKind::If { cond: build::not(without), then, other: vec![] });
        made
    }

    fn is_nothing(&self, unit: ir::UnitId, f: FieldId) -> bool {
        matches!(self.cx.m.units[unit.index()].fields[f.index()].kind, FieldKind::Nothing)
    }

    /// The case that is written.
    pub fn chosen_case(&self, fields: &Fields, f: FieldId, cases: &[ir::Case]) -> Option<usize> {
        let named = fields.cases.iter().find(|(s, _)| *s == f).map(|(_, n)| *n as usize);
        named.or_else(|| self.default_case(fields, cases))
    }

    /// The case taken when none is named: one without fields of its own.
    pub fn default_case(&self, fields: &Fields, cases: &[ir::Case]) -> Option<usize> {
        let unit = &self.cx.m.units[fields.unit.index()];
        let mut bare = cases.iter().enumerate().filter(|(_, c)| {
            !matches!(c.guard, ir::Guard::Fault(_))
                && c.name.is_none()
                && c.fields.iter().all(|f| {
                    let f = &unit.fields[f.index()];
                    f.name.is_none() && !matches!(f.kind, FieldKind::Require { .. })
                })
        });
        let (first, case) = bare.next()?;
        // Two words say two things, of which none is meant more than the other.
        match (&case.guard, bare.next_back()) {
            (ir::Guard::Literal { .. }, Some((last, other))) => matches!(other.guard, ir::Guard::Else).then_some(last),
            _ => Some(first),
        }
    }

    /// A nested unit: built in place, or the bytes of a parsed one.
    fn emit_nested(&mut self, fields: &Fields, f: FieldId, unit: ir::UnitId, args: &[ir::Expr], span: Span) -> R<()> {
        self.fills(fields, f, span)?;
        match fields.get(f) {
            Some((_, FieldSource::Source(e), _)) => {
                let e = e.clone();
                self.read_under(fields, args, |s| s.emit_item(&Elem::Unit(unit), None, fields.unit, &e))
            }
            Some((_, FieldSource::Pieces(ps), _)) => {
                let ps = ps.clone();
                let known = self.known_args(fields, args)?;
                self.read_under(fields, args, |s| s.emit_pieces(unit, ps, &known))
            }
            _ => {
                let params = self.known_args(fields, args)?;
                self.emit_unit(&Fields { params, ..Fields::new(unit, span) })
            }
        }
    }

    pub(super) fn emit_pieces(&mut self, unit: ir::UnitId, pieces: Vec<Piece>, args: &[ir::Expr]) -> R<()> {
        for mut p in pieces {
            if let Piece::Built(f) = &mut p {
                f.params = args.to_vec();
            }
            self.emit_piece(unit, &p)?;
        }
        Ok(())
    }

    /// `raw(x)`: only of what the same unit has parsed.
    pub(super) fn emit_raw(&mut self, x: ir::Expr, unit: ir::UnitId, span: Span) -> R<()> {
        self.same_raw(&x, unit, span)?;
        if let Some(p) = build::raw_path(&x) {
            self.read_alike(&p.clone(), unit, span)?;
        }
        self.emit(span, Emit::Bytes(x));
        Ok(())
    }

    /// Bytes gathered for a list of units must be such units.
    pub fn check_slice(&mut self, x: &ir::Expr, span: Span) -> R<()> {
        match self.raw_of.clone() {
            Some(Elem::Unit(u)) if build::raw_path(x).is_some() => self.same_raw(x, u, span),
            Some(_) => Err(self.cx.report(
                Diagnostic::error("E0608", span, "these items cannot be built from answers")
                    .hint("take them as they came: `raw(p.items)`"),
            )),
            None => Ok(()),
        }
    }

    fn same_raw(&mut self, x: &ir::Expr, unit: ir::UnitId, span: Span) -> R<()> {
        if let Some(p) = build::raw_path(x) {
            let same = match self.field_at(p) {
                Some(ir::Field { kind: FieldKind::Unit { unit: u, .. }, .. }) => u == unit,
                Some(ir::Field { kind: FieldKind::List { element, .. }, .. }) => {
                    let owner = self.owner_of(p);
                    owner.is_some_and(
                        |o| matches!(self.field_ir(o, element).kind, FieldKind::Unit { unit: u, .. } if u == unit),
                    )
                }
                _ => false,
            };
            if !same {
                return Err(self.cx.report(
                    Diagnostic::error("E0608", span, "these bytes were not parsed by the unit that belongs here")
                        .hint("only `raw(x)` of items or lists of the same unit is known to be valid"),
                ));
            }
        }
        Ok(())
    }

    /// The unit whose field a path's last step names.
    pub fn owner_of(&self, p: &ir::Path) -> Option<ir::UnitId> {
        let mut shorter = p.clone();
        shorter.steps.pop();
        match self.field_at(&shorter) {
            Some(ir::Field { kind: FieldKind::Unit { unit, .. }, .. }) => Some(unit),
            _ => match p.root {
                ir::Root::Local(l) => self.message_unit(l),
                ir::Root::This | ir::Root::Item => None,
            },
        }
    }
}

/// The digits of a number written as text.
pub fn digits(radix: u8) -> ir::ByteSet {
    let mut set = ir::ByteSet::EMPTY;
    for b in b"0123456789abcdefABCDEF" {
        if (*b as char).is_digit(u32::from(radix.clamp(2, 36))) {
            set.add(*b);
        }
    }
    set
}

/// `f * factor - less` of a field, if a length is that and more than the field alone.
fn linear(e: &ir::Expr, f: FieldId) -> Option<(u64, u64)> {
    fn own(e: &ir::Expr, f: FieldId) -> bool {
        match &*e.kind {
            K::Cast(e) => own(e, f),
            K::Read(p) => p.root == ir::Root::This && p.steps == [ir::Step::Field(f)],
            _ => false,
        }
    }
    let constant = |e: &ir::Expr| build::as_int(e).and_then(|n| u64::try_from(n).ok());
    let product = |e: &ir::Expr| match &*e.kind {
        K::Binary(BinOp::Mul, a, b) if own(a, f) => constant(b).filter(|n| *n > 0),
        K::Binary(BinOp::Mul, a, b) if own(b, f) => constant(a).filter(|n| *n > 0),
        _ => own(e, f).then_some(1),
    };
    match &*e.kind {
        K::Cast(e) => linear(e, f),
        K::Binary(BinOp::Sub, a, b) => Some((product(a)?, constant(b)?)),
        K::Binary(BinOp::Mul, ..) => Some((product(e)?, 0)),
        _ => None,
    }
}

/// Whether a length is just this field's value.
pub fn reads(e: &ir::Expr, f: FieldId) -> bool {
    match &*e.kind {
        K::Cast(a) => reads(a, f),
        K::Read(p) => p.root == ir::Root::This && p.steps == [ir::Step::Field(f)],
        _ => false,
    }
}
