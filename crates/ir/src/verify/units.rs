//! Units: their fields' places, sizes and expressions.

use super::expr::ExprPlace;
use super::Checker;
use crate::walk::{At, Scope};
use crate::*;

impl Checker<'_> {
    pub fn units(&mut self) {
        for n in 0..self.m.units.len() {
            let u = &self.m.units[n];
            let path = format!("unit {}", u.name);
            if !self.places(&path, u) {
                continue;
            }
            self.need(u.tail as usize <= u.body.len(), &path, "the tail begins outside the body");
            for p in &u.params {
                self.need(p.ty.index() < self.m.types.len(), &path, "a parameter's type does not exist");
                self.need(
                    p.shift as u32 + p.bits as u32 <= 64,
                    &path,
                    "a parameter lies outside the 64 bits of the context",
                );
            }
        }
        if !self.errors.is_empty() {
            return;
        }
        for n in 0..self.m.units.len() {
            self.unit(UnitId(n as u32))
        }
    }

    /// Every field stands in exactly one place, so the fields are a tree.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn places(&mut self, path: &str, u: &Unit) -> bool {
        let mut seen = vec![0u32; u.fields.len()];
        let mut mark = |f: &FieldId| match seen.get_mut(f.index()) {
            Some(n) => {
                *n += 1;
                true
            }
            None => false,
        };
        let mut ok = u.body.iter().all(&mut mark);
        for f in &u.fields {
            ok &= match &f.kind {
                FieldKind::Switch { cases } => cases.iter().flat_map(|c| &c.fields).all(&mut mark),
                FieldKind::List { element, .. } => mark(element),
                _ => true,
            };
            ok &= match &f.kind {
                FieldKind::Unit { unit, .. } | FieldKind::StreamUnit { unit, .. } => unit.index() < self.m.units.len(),
                _ => true,
            };
            ok &= f.ty.index() < self.m.types.len();
        }
        self.need(ok, path, "a field, nested unit or type does not exist");
        let once = seen.iter().all(|n| *n == 1) && walk::wire_order(u).len() == u.fields.len();
        self.need(once, path, "a field does not stand in exactly one place");
        ok && once
    }

    fn frame(&mut self, id: UnitId) {
        let u = self.m.unit(id);
        let path = format!("unit {}", u.name);
        let exists = |f: FieldId| f.index() < u.fields.len();
        let h = &u.header;
        let named = [
            h.checksum.map(|c| c.field),
            h.checksum.and_then(|c| c.when),
            h.addresses.map(|a| a.0),
            h.addresses.map(|a| a.1),
            h.covers.map(|c| c.field),
            h.partial,
        ];
        self.need(
            named.into_iter().flatten().chain(h.per_packet.iter().copied()).all(exists),
            &path,
            "a field that the header names does not exist",
        );
        let flag = h.checksum.and_then(|c| c.when).and_then(|f| u.fields.get(f.index()));
        self.need(
            flag.is_none_or(|f| matches!(f.kind, FieldKind::UInt { bits: 1, .. })),
            &path,
            "the flag of a checksum is no bit",
        );
        let Some(frame) = &u.frame else { return };
        self.need(
            u.body.iter().eq(frame.layers.iter().map(|l| &l.switch)),
            &path,
            "the body of a frame is not the switches of its layers, in order",
        );
        for (n, l) in frame.layers.iter().enumerate() {
            let switch = u.fields.get(l.switch.index()).map(|f| &f.kind);
            let two = matches!(switch, Some(FieldKind::Switch { cases }) if matches!(cases.as_slice(), [a, b] if a.fields == [l.header] && b.fields.is_empty()));
            self.need(two, &path, "a layer's switch has other cases than its header and none");
            let header = u.fields.get(l.header.index()).map(|f| &f.kind);
            self.need(
                matches!(header, Some(FieldKind::Unit { unit, .. }) if *unit == l.unit),
                &path,
                "a layer's header is of another unit",
            );
            self.need(
                !l.after.is_empty() && l.after.iter().all(|a| a.layer.is_none_or(|a| (a as usize) < n)),
                &path,
                "a layer does not come after earlier ones",
            );
            for c in l.after.iter().filter_map(|a| a.cond.as_ref()) {
                self.condition(&path, c, ExprPlace::scope(Scope::this(id)))
            }
        }
    }

    fn unit(&mut self, id: UnitId) {
        self.frame(id);
        let u = self.m.unit(id);
        let mut rank = vec![0; u.fields.len()];
        for (n, f) in walk::wire_order(u).into_iter().enumerate() {
            rank[f.index()] = n
        }
        for (n, f) in u.fields.iter().enumerate() {
            let path = format!("unit {}: field {}", u.name, f.name.clone().unwrap_or_else(|| format!("#{n}")));
            self.fault(&path, f.bad, f.place);
            self.fault_kind(&path, f.too_long);
            self.need(f.within.iter().flatten().all(|(a, b)| a <= b), &path, "an empty range");
            if let Some(c) = &f.computed {
                self.need(
                    c.lengths.iter().all(|l| l.index() < u.fields.len()),
                    &path,
                    "a field that the value is computed from does not exist",
                );
                self.need(self.is_int(f.ty), &path, "a computed field is not an integer");
            }
            if let Some(e) = &f.lies_in {
                self.need(
                    *self.ty(e.ty) == Ty::UInt(64) && matches!(f.kind, FieldKind::Unit { .. }),
                    &path,
                    "a length around something else than a unit, or of another type",
                );
            }
            self.field_expressions(&path, id, f, &rank, rank[n]);
            self.field_shape(&path, f);
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn field_expressions(&mut self, path: &str, id: UnitId, field: &Field, rank: &[usize], own: usize) {
        let own_scope = Scope::this(id);
        let item = match &field.kind {
            FieldKind::List { element, .. } => Some(At::Field(id, *element)),
            FieldKind::StreamUnit { unit, .. } => Some(At::Unit(*unit)),
            _ => None,
        };
        let fold = matches!(&field.kind, FieldKind::List { extent: ListExtent::Fold { .. }, .. });
        let at = |role| ExprPlace {
            scope: Scope { item: if role == walk::Role::Item { item } else { None }, ..own_scope },
            acc: fold,
            conn: false,
        };
        walk::field_exprs(field, &mut |e, role| {
            self.expr(path, e, at(role));
            walk::expr(e, &mut |e| {
                let Some(Path { root: Root::This, steps }) = walk::path_of(e) else { return };
                // A field's own case numbers may be looked at by what is inside it, never by
                // itself.
                let Some(Step::Field(f)) = steps.first() else { return };
                self.need(
                    rank.get(f.index()).is_none_or(|r| *r < own),
                    path,
                    "a grammar expression reads a field that is not before it",
                );
            });
        });
    }

    fn field_shape(&mut self, path: &str, f: &Field) {
        match &f.kind {
            FieldKind::UInt { bytes, shift, bits, .. } => {
                self.need(
                    (1..=16).contains(bytes) && *bits > 0 && *shift as u32 + *bits as u32 <= *bytes as u32 * 8,
                    path,
                    "an integer does not fit its container",
                );
                self.need(self.is_int(f.ty) || self.is_bool(f.ty), path, "an integer field's type is no integer");
            }
            FieldKind::Number { radix, digits, until, .. } => {
                self.need((2..=36).contains(radix) && *digits > 0, path, "a number without digits");
                self.need(self.is_int(f.ty), path, "a number's type is no integer");
                if let Some(u) = until {
                    self.until(path, u)
                }
            }
            FieldKind::Varint { max_bytes } => self.need(
                (1..=19).contains(max_bytes) && self.is_int(f.ty),
                path,
                "a varint without bytes or of another type",
            ),
            FieldKind::Bytes { min, max, extent, .. } => {
                self.need(min <= max, path, "the smallest size is above the largest");
                self.need(
                    matches!(self.ty(f.ty), Ty::Bytes(n) if n >= max) || *self.ty(f.ty) == Ty::Unit,
                    path,
                    "a bytes field's type is not bytes of its size",
                );
                self.extent(path, extent);
            }
            FieldKind::Literal { values } => {
                self.need(!values.is_empty() && values.iter().all(|v| !v.is_empty()), path, "a literal without bytes")
            }
            FieldKind::Flag { value } => self.need(
                !value.is_empty() && (self.is_bool(f.ty) || *self.ty(f.ty) == Ty::Unit),
                path,
                "a flag without bytes or that is no bool",
            ),
            FieldKind::Unit { unit, args } | FieldKind::StreamUnit { unit, args, .. } => {
                self.arguments(path, *unit, args);
                if let FieldKind::StreamUnit { until: Some(e), .. } = &f.kind {
                    self.need(self.is_bool(e.ty), path, "a condition is not a bool")
                }
            }
            FieldKind::List { extent, .. } => match extent {
                ListExtent::Count(e) => self.need(self.is_uint(e.ty), path, "a count is not an unsigned integer"),
                ListExtent::Until(u) => self.until(path, u),
                ListExtent::ToEnd => {}
                ListExtent::Fold { init, holds, step, done } => {
                    self.need(
                        self.is_uint_of(init.ty, 64) && self.is_uint_of(step.ty, 64),
                        path,
                        "a fold's accumulator is not a u64",
                    );
                    self.need(
                        self.is_bool(done.ty) && holds.as_ref().is_none_or(|h| self.is_bool(h.ty)),
                        path,
                        "a condition is not a bool",
                    );
                }
            },
            FieldKind::StreamBytes { extent } => {
                self.need(
                    matches!(extent, Extent::Length(_) | Extent::Close),
                    path,
                    "a stream of bytes ends by a length or by the connection's end",
                );
                self.extent(path, extent);
            }
            FieldKind::Switch { cases } => {
                for c in cases {
                    match &c.guard {
                        Guard::When(e) => self.need(self.is_bool(e.ty), path, "a guard is not a bool"),
                        Guard::Fault(k) => self.fault_kind(path, *k),
                        Guard::Literal { values, .. } => {
                            self.need(!values.is_empty(), path, "a guard without literals")
                        }
                        Guard::Else => {}
                    }
                }
            }
            FieldKind::Let { value } => {
                self.need(self.fits(value.ty, f.ty), path, "a computed value does not fit the field's type")
            }
            FieldKind::Require { cond } => self.need(self.is_bool(cond.ty), path, "a condition is not a bool"),
            FieldKind::Recover { how: Recover::Until(u) } => self.until(path, u),
            FieldKind::Recover { how: Recover::Length(e) } => {
                self.need(self.is_uint(e.ty), path, "a length is not an unsigned integer")
            }
            FieldKind::Pass { how: PassRule::When(e) } => {
                self.need(self.is_bool(e.ty), path, "a condition is not a bool")
            }
            FieldKind::Pass { how: PassRule::As { .. } } => {}
            FieldKind::Align { to } => self.need(*to > 0, path, "an alignment of 0"),
            FieldKind::Nothing => {}
        }
    }

    fn until(&mut self, path: &str, u: &Until) {
        self.need(
            !u.delimiters.is_empty() && u.delimiters.iter().all(|d| !d.is_empty()),
            path,
            "a delimiter without bytes",
        );
    }

    fn extent(&mut self, path: &str, e: &Extent) {
        match e {
            Extent::Length(e) => self.need(self.is_uint(e.ty), path, "a length is not an unsigned integer"),
            Extent::Until(u) => self.until(path, u),
            Extent::Run | Extent::ToEnd | Extent::Close => {}
        }
    }

    pub fn arguments(&mut self, path: &str, unit: UnitId, args: &[Expr]) {
        let params = &self.m.unit(unit).params;
        let fit = params.len() == args.len() && self.fitting(params, args);
        self.need(fit, path, "the arguments do not fit the unit's parameters");
    }

    /// The same of a call: there may be one more, whether the request may share a connection, and
    /// then the values of `asked`.
    pub fn call_arguments(&mut self, path: &str, unit: UnitId, args: &[Expr]) {
        let Unit { params, asked, .. } = self.m.unit(unit);
        let more = args.get(params.len()..).unwrap_or_default();
        let (shares, kept) = more.split_at(more.len().min(1));
        let fit = params.len() <= args.len()
            && self.fitting(params, args)
            && shares.iter().all(|e| *self.m.ty(e.ty) == Ty::Bool)
            && kept.len() <= asked.len()
            && self.fitting(asked, kept);
        self.need(fit, path, "the arguments do not fit the unit's parameters");
    }

    fn fitting(&self, params: &[UnitParam], args: &[Expr]) -> bool {
        params.iter().zip(args).all(|(p, a)| self.fits(a.ty, p.ty))
    }
}
