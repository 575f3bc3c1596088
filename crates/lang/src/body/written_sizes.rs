//! How many bytes parts of a message take that is being built: for lengths that stand before them.
//!
//! In: the fields given. Out: an expression over their values, before a byte is written. So the
//! grammar's conditions over such a length can be checked like those over any other value.

use super::built_message::{FieldSource, Fields, Piece};
use super::Lower;
use crate::compiler::{R, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U64};
use crate::val::{Val, Vk};
use ir::{BinOp, ExprKind as K, Extent, FieldId, FieldKind, ListExtent, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Span};
use wireloom_syntax::Diagnostic;

type X = ir::Expr;

impl Lower<'_, '_> {
    /// `= len(body) + 2`: the length of other fields of any kind.
    pub fn measured(&mut self, fields: &Fields, f: FieldId) -> R<Option<X>> {
        let Some(sum) = self.cx.units[fields.unit.index()].measured(f).cloned() else { return Ok(None) };
        if let Some((_, v)) = fields.lets.borrow().iter().find(|(l, _)| *l == f) {
            return Ok(Some(v.clone()));
        }
        let mut total = build::u64(sum.plus as u64);
        for part in &sum.lengths {
            let n = self.part_length(fields, f, *part)?;
            total = plus(total, n);
        }
        let total = crate::fold::fold(&self.cx.m, &total);
        fields.lets.borrow_mut().push((f, total.clone()));
        Ok(Some(total))
    }

    /// The length of a part, for the field that holds it.
    pub fn part_length(&mut self, fields: &Fields, holder: FieldId, part: FieldId) -> R<X> {
        if matches!(self.field_ir(fields.unit, part).kind, FieldKind::Bytes { .. }) {
            return Ok(self.length_given(fields, part));
        }
        self.measuring.push((fields.unit, holder));
        let n = self.written(fields, part);
        self.measuring.pop();
        n?.ok_or_else(|| self.size_unknown(fields, part))
    }

    fn size_unknown(&mut self, fields: &Fields, part: FieldId) -> crate::compiler::Reported {
        let name = self.field_ir(fields.unit, part).name.unwrap_or_default();
        let d = Diagnostic::error("E0429", fields.span, format!("how long `{name}` will be is not known here")).hint(
            "give a list by its items, or the items that were parsed; texts that are trimmed have no known length",
        );
        self.cx.report(d)
    }

    /// A unit that lies in a length takes just as many bytes.
    pub fn fills(&mut self, fields: &Fields, f: FieldId, span: Span) -> R<()> {
        let length =
            self.cx.units[fields.unit.index()].enclosed.iter().find(|(id, _)| *id == f).map(|(_, n)| n.clone());
        let Some(length) = length else { return Ok(()) };
        let Some(n) = self.written(fields, f)? else { return Err(self.size_unknown(fields, f)) };
        let Some(length) = self.closed(fields, &length)? else { return Ok(()) };
        let ok = super::unparse_check::constraints::same_sum(&self.cx.m, &n, &length).then(|| build::boolean(true));
        let ok = ok.unwrap_or_else(|| build::cmp(BinOp::Eq, n, build::cast(T_U64, length)));
        let ok = crate::fold::fold(&self.cx.m, &ok);
        self.valid_because(ok, ir::FaultKind::CONSTRAINT, span, super::wrong_value::Wrong::Length)
    }

    /// A changed field of varying size cannot lie in a part whose length is computed.
    pub fn keeps_its_size(&mut self, unit: ir::UnitId, f: FieldId, span: Span) -> R<()> {
        let kind = self.field_ir(unit, f).kind;
        let varies = matches!(kind, FieldKind::Varint { .. } | FieldKind::Number { exact: false, .. });
        let sums = &self.cx.units[unit.index()].measured;
        if !varies || !sums.iter().any(|(_, sum)| self.lies_in(unit, &sum.lengths, f)) {
            return Ok(());
        }
        let d = Diagnostic::error("E0429", span, "a number of varying size cannot be replaced where it is measured")
            .hint("a computed length counts its bytes; build the message anew");
        Err(self.cx.report(d))
    }

    fn lies_in(&self, unit: ir::UnitId, parts: &[FieldId], f: FieldId) -> bool {
        let fields = &self.cx.m.units[unit.index()].fields;
        let mut todo = parts.to_vec();
        while let Some(part) = todo.pop() {
            if part == f {
                return true;
            }
            if let FieldKind::Switch { cases } = &fields[part.index()].kind {
                todo.extend(cases.iter().flat_map(|c| &c.fields));
            }
        }
        false
    }

    /// The bytes of these fields together.
    fn all_written(&mut self, fields: &Fields, seq: &[FieldId]) -> R<Option<X>> {
        let mut total = build::u64(0);
        for f in seq {
            let Some(n) = self.written(fields, *f)? else { return Ok(None) };
            total = plus(total, n);
        }
        Ok(Some(total))
    }

    /// The bytes that a field takes, with its delimiter. None: they are not known before.
    pub fn written(&mut self, fields: &Fields, f: FieldId) -> R<Option<X>> {
        let field = self.field_ir(fields.unit, f);
        Ok(match &field.kind {
            FieldKind::UInt { bytes, advance, .. } => Some(build::u64(if *advance { (*bytes).into() } else { 0 })),
            FieldKind::Let { .. } | FieldKind::Require { .. } | FieldKind::Nothing => Some(build::u64(0)),
            FieldKind::Recover { .. } | FieldKind::Pass { .. } => Some(build::u64(0)),
            FieldKind::Literal { values } => Some(build::u64(values.first().map_or(0, |v| v.len() as u64))),
            FieldKind::Flag { value } => {
                let n = build::u64(value.len() as u64);
                Some(match fields.value(f).cloned() {
                    Some(set) => build::if_(T_U64, set, n, build::u64(0)),
                    None => build::u64(0),
                })
            }
            FieldKind::Number { digits, exact: true, until, .. } => {
                Some(build::u64(u64::from(*digits) + delimiter(until.as_ref())))
            }
            FieldKind::Number { radix, until, .. } => {
                let v = self.number_of(fields, f, &field)?;
                let digits = self.places(&v, u64::from(*radix), fields.span);
                Some(plus(digits, build::u64(delimiter(until.as_ref()))))
            }
            FieldKind::Varint { .. } => {
                let v = self.number_of(fields, f, &field)?;
                Some(self.places(&v, 128, fields.span))
            }
            FieldKind::Bytes { trim: Some(_), .. } => None,
            FieldKind::Bytes { extent, .. } => self.bytes_written(fields, f, extent)?,
            FieldKind::StreamBytes { .. } => Some(self.length_given(fields, f)),
            FieldKind::Unit { unit, args } => self.unit_written(fields, f, *unit, args)?,
            FieldKind::List { element, extent, .. } => self.list_written(fields, f, *element, extent)?,
            FieldKind::Switch { cases } => self.case_written(fields, f, cases)?,
            FieldKind::StreamUnit { .. } | FieldKind::Align { .. } => None,
        })
    }

    fn bytes_written(&mut self, fields: &Fields, f: FieldId, extent: &Extent) -> R<Option<X>> {
        let until = if let Extent::Until(u) = extent { delimiter(Some(u)) } else { 0 };
        let value = self.enum_text(fields, f)?.or_else(|| fields.value(f).cloned());
        let defaults = &self.cx.units[fields.unit.index()].defaults;
        let default = defaults.iter().find(|(d, _)| *d == f).map(|(_, v)| v.len() as u64);
        let fixed = if let Extent::Length(n) = extent { build::as_int(n) } else { None };
        let n = match (value, default, fixed) {
            (Some(v), ..) => build::len_bytes(v),
            (None, Some(n), _) => build::u64(n),
            (None, None, Some(n)) => build::u64((n as u64).min(1 << 16)),
            (None, None, None) => build::u64(0),
        };
        Ok(Some(plus(n, build::u64(until))))
    }

    fn unit_written(&mut self, fields: &Fields, f: FieldId, unit: ir::UnitId, args: &[X]) -> R<Option<X>> {
        match fields.get(f).map(|(_, g, _)| g.clone()) {
            None => {
                let inner = Fields { params: self.known_args(fields, args)?, ..Fields::new(unit, fields.span) };
                self.piece_written(&Piece::Built(inner))
            }
            Some(FieldSource::Pieces(ps)) => match ps.first() {
                Some(Piece::Built(inner)) => {
                    let inner = Fields { params: self.known_args(fields, args)?, ..inner.clone() };
                    self.piece_written(&Piece::Built(inner))
                }
                Some(ready) => self.piece_written(ready),
                None => Ok(None),
            },
            Some(FieldSource::Value(_) | FieldSource::Source(_)) => Ok(None),
            Some(FieldSource::Slices(_) | FieldSource::InOrder(_)) => Ok(None),
        }
    }

    fn piece_written(&mut self, piece: &Piece) -> R<Option<X>> {
        match piece {
            Piece::Built(inner) => {
                let body = self.cx.m.units[inner.unit.index()].body.clone();
                self.all_written(inner, &body)
            }
            Piece::Ready(Val { ty: Ty::Msg(_), kind: Vk::Path(p), .. }, _) => Ok(Some(self.raw_size(p))),
            Piece::Ready(Val { ty: Ty::Bytes(_), kind: Vk::Pure(x), .. }, _) => Ok(Some(build::len_bytes(x.clone()))),
            Piece::Ready(..) => Ok(None),
        }
    }

    fn raw_size(&mut self, p: &ir::Path) -> X {
        let t = self.cx.lower_ty(&Ty::Bytes(1 << 24));
        build::len_bytes(X::new(t, K::Raw(p.clone())))
    }

    fn list_written(&mut self, fields: &Fields, f: FieldId, element: FieldId, extent: &ListExtent) -> R<Option<X>> {
        let until = if let ListExtent::Until(u) = extent { delimiter(Some(u)) } else { 0 };
        let element = self.field_ir(fields.unit, element);
        let items = match (fields.get(f).map(|(_, g, _)| g.clone()), &element.kind) {
            (None, _) => Some(build::u64(0)),
            (Some(FieldSource::Pieces(ps)), FieldKind::Unit { args, .. }) => {
                let params = self.known_args(fields, args)?;
                let mut total = Some(build::u64(0));
                for p in ps {
                    let p = match p {
                        Piece::Built(inner) => Piece::Built(Fields { params: params.clone(), ..inner }),
                        ready => ready,
                    };
                    total = total.zip(self.piece_written(&p)?).map(|(a, b)| plus(a, b));
                }
                total
            }
            (Some(FieldSource::Source(e)), FieldKind::UInt { bytes, .. }) => {
                let n = self.item_count(&e)?;
                Some(build::bin(T_U64, BinOp::Mul, n, build::u64((*bytes).into())))
            }
            (Some(FieldSource::Source(e)), FieldKind::Unit { .. }) if is_name_or_field(&e) => {
                match self.expr(&e, None)? {
                    Val { ty: Ty::Items(..), kind: Vk::Path(p), .. } => Some(self.raw_size(&p)),
                    _ => None,
                }
            }
            (Some(FieldSource::Source(e)), FieldKind::Unit { unit, args }) => {
                let params = self.known_args(fields, args)?;
                self.items_written(&e, (*unit, &params))?
            }
            (Some(_), _) => None,
        };
        Ok(items.map(|n| plus(n, build::u64(until))))
    }

    /// The bytes of the items that a comprehension gives.
    fn items_written(&mut self, e: &Expr, item: (ir::UnitId, &[X])) -> R<Option<X>> {
        let ExprKind::Comprehension { value, pattern, list, cond } = &*e.kind else { return Ok(None) };
        let sum = self.new_local("", &U64);
        self.push(e.span, StmtKind::Set(sum, build::u64(0)));
        let mut known = true;
        let (made, block) = self.sub(|s| {
            s.each(pattern, list, e.span, |s| {
                s.filtered(cond.as_ref(), e.span, |s| {
                    let piece = match s.piece(item.0, value)? {
                        Piece::Built(inner) => Piece::Built(Fields { params: item.1.to_vec(), ..inner }),
                        ready => ready,
                    };
                    match s.piece_written(&piece)? {
                        Some(n) => s.push(e.span, StmtKind::Set(sum, plus(build::local(sum, T_U64), n))),
                        None => known = false,
                    }
                    Ok(Val::unit())
                })
                .map(|_| ())
            })
        });
        made?;
        self.out.extend(block);
        Ok(known.then(|| self.local_expr(sum)))
    }

    fn case_written(&mut self, fields: &Fields, f: FieldId, cases: &[ir::Case]) -> R<Option<X>> {
        let chosen = fields.cases.iter().find(|(s, _)| *s == f).map(|(_, n)| *n as usize);
        let Some(case) = chosen.or_else(|| self.default_case(fields, cases)).and_then(|n| cases.get(n)) else {
            return Ok(None);
        };
        // Of an answer the request may leave out a case.
        let asks = |g: &ir::Guard| {
            let ir::Guard::When(e) = g else { return false };
            let mut found = false;
            ir::walk::expr(e, &mut |e| found |= matches!(*e.kind, K::UnitParam(ir::Root::This, _)));
            found
        };
        if fields.params.is_empty() && cases.iter().any(|c| asks(&c.guard)) {
            return Ok(None);
        }
        let literal = if let ir::Guard::Literal { values, peek: false } = &case.guard {
            values.first().map_or(0, |v| v.len() as u64)
        } else {
            0
        };
        let case = case.fields.clone();
        Ok(self.all_written(fields, &case)?.map(|n| plus(n, build::u64(literal))))
    }

    /// How many digits a number has to this base.
    fn places(&mut self, v: &X, base: u64, span: Span) -> X {
        let v = self.recast(T_U64, v.clone());
        let v = match build::as_int(&v) {
            Some(_) => v,
            None => {
                let l = self.temp("", &U64, v, span);
                self.local_expr(l)
            }
        };
        let top = self.upper(&v);
        let (mut limits, mut limit) = (vec![], base);
        while limit <= top {
            limits.push(limit);
            let Some(next) = limit.checked_mul(base) else { break };
            limit = next;
        }
        let most = limits.len() as u64 + 1;
        let n = limits.iter().enumerate().rev().fold(build::u64(most), |more, (n, limit)| {
            build::if_(T_U64, build::cmp(BinOp::Lt, v.clone(), build::u64(*limit)), build::u64(n as u64 + 1), more)
        });
        crate::fold::fold(&self.cx.m, &n)
    }
}

fn plus(a: X, b: X) -> X {
    build::bin(T_U64, BinOp::Add, a, b)
}

fn delimiter(until: Option<&ir::Until>) -> u64 {
    until.filter(|u| !u.peek).and_then(|u| u.delimiters.first()).map_or(0, |d| d.len() as u64)
}

/// An expression that can be evaluated twice: it does nothing.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn is_name_or_field(e: &Expr) -> bool {
    match &*e.kind {
        ExprKind::Name(_) => true,
        ExprKind::Field(Some(base), _) => is_name_or_field(base),
        _ => false,
    }
}
