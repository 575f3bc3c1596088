//! Constants, literals with suffixes, sets of bytes, and the types that the source names.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and Ty")]

use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, R};
use crate::fold;
use crate::items::Item;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::{Val, Vk};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, BinOp, Expr, ExprKind, Ident, Span, TypeArg, TypeKind, UnOp};
use wireloom_syntax::Diagnostic;

/// No bytes value, list or table may be larger: sizes must stay computable.
pub const MAX_SIZE: u64 = 1 << 32;

/// The value of a number with a suffix and whether it is a time.
pub fn scaled(n: u128, suffix: &str) -> Option<(u128, bool)> {
    let (factor, time) = match suffix {
        "K" | "Kbps" => (1_000, false),
        "M" | "Mbps" => (1_000_000, false),
        "G" | "Gbps" => (1_000_000_000, false),
        "T" => (1_000_000_000_000, false),
        "bps" => (1, false),
        "KiB" => (1 << 10, false),
        "MiB" => (1 << 20, false),
        "GiB" => (1 << 30, false),
        "TiB" => (1 << 40, false),
        "ns" => (1, true),
        "us" => (1_000, true),
        "ms" => (1_000_000, true),
        "s" => (1_000_000_000, true),
        "m" | "min" => (60_000_000_000, true),
        "h" => (3_600_000_000_000, true),
        _ => return None,
    };
    n.checked_mul(factor).map(|v| (v, time))
}

impl Compiler<'_> {
    /// Evaluates a constant expression, to the type wanted if one is.
    pub fn constant(&mut self, module: ModId, e: &Expr, want: Option<&Ty>) -> R<Val> {
        self.constant_beside(module, e, want, &[])
    }

    /// The same, beside values that have names there.
    pub fn constant_beside(&mut self, module: ModId, e: &Expr, want: Option<&Ty>, named: &[(Ident, Val)]) -> R<Val> {
        let mut l = Lower::new(self, module, Kind::Const);
        l.in_app = l.cx.app_constants;
        l.bind_all(named);
        let val = match want {
            Some(t) => {
                let x = l.expr_as(e, t)?;
                Val::pure(t.clone(), x)
            }
            None => l.expr(e, None)?,
        };
        let clean = l.out.is_empty();
        let Vk::Pure(x) = &val.kind else { return Err(self.not_constant(e.span)) };
        let x = fold::fold(&self.m, x);
        if !clean || !is_literal(&x) {
            return Err(self.not_constant(e.span));
        }
        Ok(Val::pure(val.ty, x))
    }

    pub fn not_constant(&mut self, span: Span) -> crate::compiler::Reported {
        self.report(
            Diagnostic::error("E0306", span, "this must be a constant")
                .label("not known at compile time")
                .hint("use literals, `const` items and arithmetic on them"),
        )
    }

    pub fn const_u64(&mut self, module: ModId, e: &Expr) -> R<u64> {
        let v = self.constant(module, e, None)?;
        let x = v.kind.as_pure().ok_or_else(|| self.not_constant(e.span))?;
        match crate::ir_builder::as_int(x).filter(|_| v.ty != Ty::Bool) {
            Some(n) => match u64::try_from(n) {
                Ok(n) => Ok(n),
                Err(_) => Err(self.error("E0304", e.span, format!("{n} does not fit into u64"))),
            },
            None => {
                let t = self.show(&v.ty);
                Err(self.error("E0301", e.span, format!("expected an integer, found {t}")))
            }
        }
    }

    /// A count that may be a parameter of the current element.
    pub fn const_in_app(&mut self, module: ModId, e: &Expr) -> R<u64> {
        if let ExprKind::Name(n) = &*e.kind {
            if let Some(crate::apps::scope::AppName::Const(v)) = self.app.get(&n.name) {
                if let Vk::Pure(x) = &v.kind {
                    if let Some(n) = crate::ir_builder::as_int(x) {
                        return u64::try_from(n).map_err(|_| crate::compiler::Reported);
                    }
                }
            }
        }
        self.const_size(module, e)
    }

    /// A size: at least 1, at most [`MAX_SIZE`].
    pub fn const_size(&mut self, module: ModId, e: &Expr) -> R<u64> {
        let n = self.const_u64(module, e)?;
        if n == 0 || n > MAX_SIZE {
            return Err(self.error("E0503", e.span, format!("a size must be between 1 and 4GiB, found {n}")));
        }
        Ok(n)
    }

    pub fn const_duration(&mut self, module: ModId, e: &Expr) -> R<u64> {
        self.const_duration_beside(module, e, &[])
    }

    pub fn const_duration_beside(&mut self, module: ModId, e: &Expr, named: &[(Ident, Val)]) -> R<u64> {
        let v = self.constant_beside(module, e, Some(&Ty::Duration), named)?;
        let x = v.kind.as_pure().ok_or_else(|| self.not_constant(e.span))?;
        Ok(crate::ir_builder::as_int(x).and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX))
    }

    pub fn const_item(&mut self, module: ModId, ty: Option<&ast::Type>, value: &Expr) -> R<Val> {
        let want = ty.map(|t| self.ty(module, t)).transpose()?;
        self.constant(module, value, want.as_ref())
    }

    /// Nothing lies in a set without items, so nobody means one.
    pub fn set_has_items(&mut self, items: &[Expr], span: Span) -> R<()> {
        match items.is_empty() {
            true => Err(self.once(
                Diagnostic::error("E0427", span, "this set is empty")
                    .label("nothing lies in it")
                    .hint("name its values: `{1, 2}`, or a range: `1..=9`"),
            )),
            false => Ok(()),
        }
    }

    /// The set that a charset's expression describes. It holds at least one byte.
    pub fn charset(&mut self, module: ModId, e: &Expr) -> R<ir::ByteSet> {
        let set = self.charset_of(module, e)?;
        match set == ir::ByteSet::EMPTY {
            true => Err(self.once(Diagnostic::error("E0427", e.span, "this set holds no byte"))),
            false => Ok(set),
        }
    }

    fn charset_of(&mut self, module: ModId, e: &Expr) -> R<ir::ByteSet> {
        let byte = |c: &mut Self, e: &Expr| -> R<u8> {
            let n = c.const_u64(module, e)?;
            u8::try_from(n).map_err(|_| c.error("E0304", e.span, format!("{n} is no byte")))
        };
        match &*e.kind {
            ExprKind::Bytes(b) => {
                let mut set = ir::ByteSet::EMPTY;
                b.iter().for_each(|b| set.add(*b));
                Ok(set)
            }
            ExprKind::Binary(BinOp::BitOr, a, b) => {
                let (a, b) = (self.charset_of(module, a), self.charset_of(module, b));
                Ok(a?.union(&b?))
            }
            ExprKind::Binary(BinOp::BitAnd, a, b) => {
                let (a, b) = (self.charset_of(module, a)?, self.charset_of(module, b)?);
                Ok(a.complement().union(&b.complement()).complement())
            }
            ExprKind::Binary(BinOp::Sub, a, b) => {
                let (a, b) = (self.charset_of(module, a)?, self.charset_of(module, b)?);
                Ok(a.complement().union(&b).complement())
            }
            ExprKind::Unary(UnOp::BitNot | UnOp::Not, a) => Ok(self.charset_of(module, a)?.complement()),
            ExprKind::Set(es) => {
                es.iter().try_fold(ir::ByteSet::EMPTY, |s, e| Ok(s.union(&self.charset_of(module, e)?)))
            }
            ExprKind::Range(a, b, inclusive) => {
                let (a, b) = (byte(self, a)?, byte(self, b)?);
                let mut set = ir::ByteSet::EMPTY;
                let end = if *inclusive { u16::from(b) + 1 } else { u16::from(b) };
                (u16::from(a)..end).for_each(|x| set.add(x as u8));
                if set == ir::ByteSet::EMPTY {
                    return Err(self.error("E0427", e.span, "this range holds no byte"));
                }
                Ok(set)
            }
            ExprKind::Error => Err(crate::compiler::Reported),
            _ => {
                if let Some(id) = self.expr_item(module, e) {
                    if let Item::Charset(set) = self.item(id, e.span)? {
                        return Ok(set);
                    }
                }
                let b = byte(self, e)?;
                let mut set = ir::ByteSet::EMPTY;
                set.add(b);
                Ok(set)
            }
        }
    }

    /// The item that a (dotted) name in an expression stands for as a whole.
    pub fn expr_item(&mut self, module: ModId, e: &Expr) -> Option<crate::names::ItemId> {
        let parts = dotted(e)?;
        if let [one] = parts.as_slice() {
            let path = ast::Path { parts: vec![(*one).clone()], span: one.span };
            if let Some(Ok(crate::names::Meaning::Item(id))) = self.type_name(module, &path) {
                return Some(id);
            }
        }
        let parts: Vec<&str> = parts.iter().map(|i| i.name.as_str()).collect();
        match self.names.find(module, &parts) {
            Some((crate::names::Meaning::Item(id), n)) if n == parts.len() => Some(id),
            _ => None,
        }
    }

    /// Inclusive ranges of a set expression over integers: `{1, 5}`, `1..=31`, `{1..3, 9}`.
    pub fn ranges(&mut self, module: ModId, e: &Expr, of: &Ty) -> R<Vec<(u64, u64)>> {
        match &*e.kind {
            ExprKind::Set(es) => {
                self.set_has_items(es, e.span)?;
                let mut all = Vec::new();
                for e in es {
                    all.extend(self.ranges(module, e, of)?);
                }
                Ok(all)
            }
            ExprKind::Range(a, b, inclusive) => {
                let (a, hi) = (self.const_of(module, a, of)?, self.const_of(module, b, of)?);
                if let Ty::Int { bits, signed: true } = of {
                    return self.signed_range(a, hi, *bits, *inclusive, e.span);
                }
                let hi = if *inclusive { Some(hi) } else { hi.checked_sub(1) };
                match hi {
                    Some(hi) if a <= hi => Ok(vec![(a, hi)]),
                    _ => Err(self.error("E0427", e.span, "this range is empty")),
                }
            }
            _ => {
                if let Some(id) = self.expr_item(module, e) {
                    if let Ok(Item::Charset(set)) = self.item(id, e.span) {
                        return Ok(set_ranges(&set));
                    }
                }
                let v = self.const_of(module, e, of)?;
                Ok(vec![(v, v)])
            }
        }
    }

    pub fn const_bool(&mut self, module: ModId, e: &Expr) -> R<bool> {
        let v = self.constant(module, e, Some(&Ty::Bool))?;
        let x = v.kind.as_pure().ok_or_else(|| self.not_constant(e.span))?;
        if let ir::ExprKind::Bool(on) = &*x.kind {
            Ok(*on)
        } else {
            Err(self.error("E0301", e.span, "expected true or false"))
        }
    }

    /// A range that begins below zero is two in the order of bits.
    fn signed_range(&mut self, a: u64, hi: u64, bits: u8, inclusive: bool, span: Span) -> R<Vec<(u64, u64)>> {
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let number = |v: u64| i128::from(((v << (64 - bits)) as i64) >> (64 - bits));
        let (first, last) = (number(a), number(hi) - i128::from(!inclusive));
        if first > last {
            return Err(self.error("E0427", span, "this range is empty"));
        }
        let bits_of = |n: i128| n as u64 & mask;
        Ok(if first < 0 && last >= 0 {
            vec![(bits_of(first), mask), (0, bits_of(last))]
        } else {
            vec![(bits_of(first), bits_of(last))]
        })
    }

    fn const_of(&mut self, module: ModId, e: &Expr, of: &Ty) -> R<u64> {
        let v = self.constant(module, e, Some(of))?;
        let n = v.kind.as_pure().and_then(crate::ir_builder::as_int).and_then(|n| u64::try_from(n).ok());
        n.ok_or_else(|| self.not_constant(e.span))
    }

    /// Records without a name are one type if they have the same fields.
    fn unnamed_record(&mut self, name: String, fields: Vec<(ast::Ident, Ty)>, span: Span) -> R<Ty> {
        let alike = |known: &[(String, Ty)]| {
            known.len() == fields.len() && known.iter().zip(&fields).all(|((n, t), (f, of))| *n == f.name && t == of)
        };
        match (0..self.records.len()).find(|r| self.m.records[*r].name == name && alike(&self.records[*r])) {
            Some(r) => Ok(Ty::Record(ir::RecordId(r as u32))),
            None => self.record(&name, fields, span).map(Ty::Record),
        }
    }

    /// The type that the source names.
    pub fn ty(&mut self, module: ModId, t: &ast::Type) -> R<Ty> {
        let found = self.ty_of(module, t)?;
        self.measured(found, t.span)
    }

    fn ty_of(&mut self, module: ModId, t: &ast::Type) -> R<Ty> {
        match &t.kind {
            TypeKind::Option(inner) => Ok(self.ty(module, inner)?.option()),
            TypeKind::Tuple(ts) if ts.is_empty() => Ok(Ty::Unit),
            TypeKind::Tuple(ts) => Ok(Ty::Tuple(ts.iter().map(|t| self.ty(module, t)).collect::<R<_>>()?)),
            TypeKind::Array(t, n) => {
                let n = self.const_size(module, n)?;
                Ok(Ty::List(Box::new(self.ty(module, t)?), u32::try_from(n).unwrap_or(u32::MAX)))
            }
            TypeKind::Record(fields) => {
                let fields = fields.iter().map(|(n, t)| Ok((n.clone(), self.ty(module, t)?))).collect::<R<Vec<_>>>()?;
                let shown =
                    fields.iter().map(|(n, t)| format!("{}: {}", n.name, self.show(t))).collect::<Vec<_>>().join(", ");
                self.unnamed_record(format!("record {{ {shown} }}"), fields, t.span)
            }
            TypeKind::Named { path, args } => self.named_ty(module, t.span, path, args),
            TypeKind::Connection(port) => self.handle_type(port),
            TypeKind::Or(..) => {
                let d = Diagnostic::error("E0315", t.span, "only a parameter for a listening port is one or the other");
                Err(self.report(d.hint("`param port: endpoint or u16 = 8080`")))
            }
            TypeKind::Fn(..) => Err(self.report(
                Diagnostic::error("E0309", t.span, "a function is no value here")
                    .hint("a parameter of an element may be one: `param keep: fn(packet) -> bool`"),
            )),
        }
    }

    fn named_ty(&mut self, module: ModId, span: Span, path: &ast::Path, args: &[TypeArg]) -> R<Ty> {
        if let [one] = path.parts.as_slice() {
            if let Some(t) = self.named_type(module, &one.name).filter(|_| args.is_empty()) {
                return Ok(t);
            }
            if let Some(t) = self.builtin_ty(module, span, &one.name, args)? {
                return Ok(t);
            }
        }
        let id = self.path_item(module, path, "type")?;
        let found = match self.item(id, span)? {
            Item::Alias(t) => t,
            Item::Enum(e) => Ty::Enum(e),
            Item::Record(r) => Ty::Record(r),
            Item::Unit(u) => match args {
                [n] => return self.kept_ty(module, u, n, span),
                _ => Ty::Msg(u),
            },
            Item::Const(_)
            | Item::Charset(_)
            | Item::Fault
            | Item::Protocol(_)
            | Item::Fn(_)
            | Item::Table(_)
            | Item::App
            | Item::Element => {
                return Err(self.error(
                    "E0301",
                    span,
                    format!(
                        "`{}` is no type",
                        path.parts.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(".")
                    ),
                ))
            }
        };
        if !args.is_empty() {
            self.error("E0301", span, "this type takes no arguments in `<…>`");
        }
        Ok(found)
    }

    /// `http.Response<16KiB>`: a message that is kept.
    fn kept_ty(&mut self, module: ModId, u: ir::UnitId, n: &TypeArg, span: Span) -> R<Ty> {
        let TypeArg::Const(n) = n else {
            return Err(self.error("E0301", span, "a message that is kept has a size: `Unit<16KiB>`"));
        };
        let max = self.const_size(module, n)?;
        if max > crate::body::kept_messages::LONGEST_MAX {
            return Err(self.error("E0304", n.span, "a message that is kept has at most 16MiB"));
        }
        Ok(Ty::Kept(u, max))
    }

    fn builtin_ty(&mut self, module: ModId, span: Span, name: &str, args: &[TypeArg]) -> R<Option<Ty>> {
        let simple = match name {
            "bool" => Some(Ty::Bool),
            "duration" => Some(Ty::Duration),
            "instant" => Some(Ty::Instant),
            "fault" => Some(Ty::Fault),
            "ip" => Some(Ty::Ip),
            "ip4" => Some(Ty::Ip4),
            "ip6" => Some(Ty::Ip6),
            "endpoint" => Some(Ty::Endpoint),
            "mac" => Some(Ty::Mac),
            "prefix" => Some(Ty::Prefix),
            _ => int_name(name),
        };
        if let Some(t) = simple {
            if !args.is_empty() {
                self.error("E0301", span, format!("`{name}` takes no arguments in `<…>`"));
            }
            return Ok(Some(t));
        }
        match (name, args) {
            ("bytes", [n]) => {
                let n = self.arg_size(module, n)?;
                Ok(Some(Ty::Bytes(n)))
            }
            ("bytes", _) => Err(self.report(
                Diagnostic::error("E0513", span, "`bytes` needs its largest size").hint("write `bytes<1KiB>`"),
            )),
            ("list", [TypeArg::Type(t), n]) => {
                let n = self.arg_size(module, n)?;
                let n = u32::try_from(n).map_err(|_| self.error("E0503", span, "a list holds at most 4G items"))?;
                match self.ty(module, t)? {
                    Ty::Msg(u) => Ok(Some(Ty::Items(Box::new(crate::ty::Elem::Unit(u)), n))),
                    t => Ok(Some(Ty::List(Box::new(t), n))),
                }
            }
            ("list", _) => Err(self.report(
                Diagnostic::error("E0513", span, "`list` needs its items' type and its largest length")
                    .hint("write `list<u32, 100>`"),
            )),
            _ => Ok(None),
        }
    }

    fn arg_size(&mut self, module: ModId, arg: &TypeArg) -> R<u64> {
        match arg {
            TypeArg::Const(e) => self.const_size(module, e),
            TypeArg::Type(ast::Type { kind: TypeKind::Named { path, .. }, span }) => {
                let mut parts = path.parts.iter();
                let Some(first) = parts.next() else { return Err(self.not_constant(*span)) };
                let name = Expr { span: first.span, kind: Box::new(ExprKind::Name(first.clone())) };
                let e =
                    parts.fold(name, |e, p| Expr { span: *span, kind: Box::new(ExprKind::Field(Some(e), p.clone())) });
                self.const_size(module, &e)
            }
            TypeArg::Type(t) => Err(self.error("E0306", t.span, "a size must stand here")),
        }
    }
}

/// `u1` … `u64`, `u128`, `i8` … `i64`.
pub fn int_name(name: &str) -> Option<Ty> {
    let (signed, digits) = match name.as_bytes().first()? {
        b'u' => (false, &name[1..]),
        b'i' => (true, &name[1..]),
        _ => return None,
    };
    if digits.starts_with('0') || digits.len() > 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let bits: u8 = digits.parse().ok()?;
    ((1..=64).contains(&bits) || bits == 128 && !signed).then_some(Ty::Int { bits, signed })
}

/// Types of addresses that numbers and other addresses are converted to.
pub fn address_name(name: &str) -> Option<Ty> {
    match name {
        "ip" => Some(Ty::Ip),
        "ip4" => Some(Ty::Ip4),
        "ip6" => Some(Ty::Ip6),
        "mac" => Some(Ty::Mac),
        _ => None,
    }
}

/// The names of `a.b.c`.
pub fn dotted(e: &Expr) -> Option<Vec<&ast::Ident>> {
    match &*e.kind {
        ExprKind::Name(n) => Some(vec![n]),
        ExprKind::Field(Some(base), n) => {
            let mut parts = dotted(base)?;
            parts.push(n);
            Some(parts)
        }
        _ => None,
    }
}

pub fn is_literal(e: &ir::Expr) -> bool {
    match &*e.kind {
        ir::ExprKind::Int(_) | ir::ExprKind::Bool(_) | ir::ExprKind::Bytes(_) | ir::ExprKind::None => true,
        ir::ExprKind::Some(e) | ir::ExprKind::Cast(e) => is_literal(e),
        ir::ExprKind::Make(es) | ir::ExprKind::MakeList(es) => es.iter().all(is_literal),
        _ => false,
    }
}

pub fn set_ranges(set: &ir::ByteSet) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for b in set.iter().map(u64::from) {
        match out.last_mut() {
            Some((_, hi)) if *hi + 1 == b => *hi = b,
            _ => out.push((b, b)),
        }
    }
    out
}
