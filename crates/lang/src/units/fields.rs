//! The fields of a unit in their order: constraints, `let`, `recover`, literals, groups of bit
//! fields.

use super::info::{Appended, Member};
use crate::body::ops::over_items;
use crate::body::path_conditions::Fact;
use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Elem, Ty, U64};
use crate::val::{Val, Vk};
use ir::{FaultKind, FieldId, FieldKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, Field, Ident, Span};
use wireloom_syntax::Diagnostic;

/// The meaning of `to end` in the current unit.
#[derive(Clone)]
pub enum EnclosedEnd {
    Until(ir::Until),
    /// The unit's parameter of this number is its length.
    Length(u32),
}

/// Lowers one unit.
pub struct Builder<'c, 'a> {
    pub cx: &'c mut Compiler<'a>,
    pub id: ir::UnitId,
    pub module: ModId,
    /// The sequence under construction: the unit's body or a case's fields.
    pub seq: Vec<FieldId>,
    /// Conditions known to hold here.
    pub facts: Vec<Fact>,
    /// The switch cases around.
    pub cases: Vec<(FieldId, u32)>,
    /// `pass as name`: the switch around it, the marker's own field, the name.
    pub passed_as: Vec<(FieldId, FieldId, Ident)>,
    pub big: bool,
    /// Bit fields that do not fill whole bytes yet.
    bits: Vec<BitField>,
    /// Fields with `= …`, resolved when all fields are known.
    pub computed: Vec<(FieldId, Expr)>,
    /// Names bound by `when n = …` around.
    pub binds: Vec<(Ident, Val)>,
    /// Where `to end` ends.
    pub end: Option<EnclosedEnd>,
    /// The conditions for each item of the current list; they cannot stand before the list. None:
    /// no condition is allowed.
    pub item_guards: Option<Vec<ir::Expr>>,
    /// A field is in error, and left out.
    pub(super) failed: bool,
}

struct BitField {
    field: FieldId,
    bits: u32,
    signed: bool,
    span: Span,
}

/// Everything about a field but its kind.
pub struct Head<'s> {
    pub name: Option<&'s Ident>,
    pub span: Span,
    pub within: Option<&'s Expr>,
    pub computed: Option<&'s Expr>,
    pub or: Option<FaultKind>,
}

impl<'c, 'a> Builder<'c, 'a> {
    pub fn new(cx: &'c mut Compiler<'a>, id: ir::UnitId, module: ModId) -> Self {
        Builder {
            cx,
            id,
            module,
            seq: vec![],
            facts: vec![],
            cases: vec![],
            big: true,
            bits: vec![],
            computed: vec![],
            binds: vec![],
            end: None,
            passed_as: vec![],
            item_guards: None,
            failed: false,
        }
    }

    /// Gives whether all of its fields are there.
    pub fn unit(mut self, u: &ast::Unit) -> bool {
        self.fields(&u.fields);
        self.finish_computed();
        let unit = &mut self.cx.m.units[self.id.index()];
        unit.tail = self.seq.len() as u32;
        unit.body = self.seq;
        !self.failed
    }

    pub fn fields(&mut self, fields: &[Field]) {
        self.failed |= self.cx.repeated_fields(fields).is_err();
        for f in fields {
            // A field in error is reported where it stands; the others are still checked.
            let made = self.field(f);
            self.failed |= made.is_err();
            self.cx.settle(made, f.span);
        }
        self.end_bits();
    }

    fn field(&mut self, f: &Field) -> R<()> {
        match &f.kind {
            ast::FieldKind::Order { big } => {
                self.end_bits();
                self.big = *big;
                Ok(())
            }
            ast::FieldKind::Let { name, ty, value } => {
                self.let_(name, ty.as_ref(), value)?;
                if let Some(id) = self.seq.last().copied() {
                    self.ir(id).doc = f.doc.clone();
                }
                Ok(())
            }
            ast::FieldKind::Require { cond, or } => {
                self.end_bits();
                let kind = self.fault(or.as_ref())?.unwrap_or(FaultKind::CONSTRAINT);
                let cond = self.cond(cond)?;
                self.require(cond, kind, f.span);
                Ok(())
            }
            ast::FieldKind::Literal { values, or } => {
                self.end_bits();
                let or = self.fault(or.as_ref())?;
                self.no_empty(values, f.span)?;
                let id = self.add(None, f.span, &Ty::Unit, FieldKind::Literal { values: values.clone() });
                if let Some(kind) = or {
                    self.ir(id).bad = kind;
                }
                self.seq.push(id);
                Ok(())
            }
            ast::FieldKind::Append { list, fields, when } => {
                self.end_bits();
                self.appends(list, fields, when, f.span)
            }
            ast::FieldKind::Limit(e) => {
                let n = self.cx.const_u64(self.module, e)?;
                self.cx.m.units[self.id.index()].limit = Some(n);
                Ok(())
            }
            ast::FieldKind::Recover { until, length } => {
                self.end_bits();
                let how = match (until, length) {
                    (Some(u), _) => ir::Recover::Until(self.until(u)?),
                    (None, Some(n)) => ir::Recover::Length(self.length(n)?),
                    (None, None) => return Err(Reported),
                };
                let id = self.add(None, f.span, &Ty::Unit, FieldKind::Recover { how });
                self.seq.push(id);
                Ok(())
            }
            ast::FieldKind::PassWhen(e) => {
                self.end_bits();
                let cond = self.cond(e)?;
                let id = self.add(None, f.span, &Ty::Unit, FieldKind::Pass { how: ir::PassRule::When(cond) });
                self.seq.push(id);
                Ok(())
            }
            ast::FieldKind::PassAs(case) => self.pass_as(case, f.span),
            ast::FieldKind::Partial(more) => {
                self.end_bits();
                self.partial(more)
            }
            ast::FieldKind::PerPacket(fields) => {
                self.end_bits();
                self.per_packet(fields)
            }
            ast::FieldKind::Link(kind) => {
                self.end_bits();
                self.cx.m.units[self.id.index()].header.link =
                    if kind.name == "ip" { ir::desc::Begins::Ip } else { ir::desc::Begins::Ethernet };
                Ok(())
            }
            ast::FieldKind::Addresses(src, dst) => {
                self.end_bits();
                self.addresses(src, dst)
            }
            ast::FieldKind::Value { name, shape, within, computed, or, mark } => {
                let or = self.fault(or.as_ref())?;
                let name = name.as_ref().filter(|n| n.name != "_");
                let head = Head {
                    name,
                    span: name.map_or(f.span, |n| n.span),
                    within: within.as_ref(),
                    computed: computed.as_ref(),
                    or,
                };
                let id = self.shape(&head, shape)?;
                self.ir(id).doc = f.doc.clone();
                if let Some(m) = mark {
                    let ty = self.cx.units[self.id.index()]
                        .by_field(id)
                        .map(|m| m.ty.clone())
                        .unwrap_or(Ty::Int { bits: 16, signed: false });
                    self.mark(id, &ty, m, f.span)?;
                }
                Ok(())
            }
        }
    }

    /// The list stands in the unit itself, before this, and ends with a delimiter.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn appends(&mut self, list: &Ident, fields: &[(Ident, Expr)], when: &Expr, span: Span) -> R<()> {
        let cond = self.cond(when)?;
        let found = self.cx.units[self.id.index()].member(&list.name).filter(|m| m.cases.is_empty()).map(|m| m.field);
        let kinds = found.map(|f| (f, self.ir(f).kind.clone()));
        let item = match kinds {
            Some((f, FieldKind::List { element, extent: ir::ListExtent::Until(_), .. })) => match self.ir(element).kind
            {
                FieldKind::Unit { unit, .. } => Some((f, unit)),
                _ => None,
            },
            _ => None,
        };
        let Some((list, item)) = item else {
            let d = Diagnostic::error("E0607", list.span, format!("`{}` is no list of this unit", list.name))
                .hint("it has items of a unit, ends with `until`, and stands before this");
            return Err(self.cx.report(d));
        };
        // The item is checked here; it is made where a message is built.
        let mut l = Lower::new(self.cx, self.module, Kind::Grammar(self.id));
        l.appended(&Elem::Unit(item), fields, span)?;
        let own = Appended { list, item, fields: fields.to_vec(), cond, module: self.module, span };
        self.cx.units[self.id.index()].appended.push(own);
        Ok(())
    }

    /// The case is known when all of the switch are.
    fn pass_as(&mut self, case: &Ident, span: Span) -> R<()> {
        self.end_bits();
        let Some((switch, _)) = self.cases.last().copied() else {
            return Err(self.cx.report(
                Diagnostic::error("E0423", span, "`pass as` stands in a case of a switch")
                    .hint("it names another case of the same switch"),
            ));
        };
        let id = self.add(
            None,
            span,
            &Ty::Unit,
            FieldKind::Pass { how: ir::PassRule::As { case: u32::MAX, endless: false } },
        );
        self.seq.push(id);
        self.passed_as.push((switch, id, case.clone()));
        Ok(())
    }

    fn let_(&mut self, name: &Ident, ty: Option<&ast::Type>, value: &Expr) -> R<()> {
        self.end_bits();
        let want = ty.map(|t| self.cx.ty(self.module, t)).transpose()?;
        let (val, caseless) = {
            let v = self.eval(value, want.as_ref(), None)?;
            (v.clone(), v.caseless)
        };
        let (ty, value) = match self.plain(val, value.span) {
            Ok(v) => v,
            Err(r) => {
                self.member(name, FieldId(0), Ty::Error, false);
                return Err(r);
            }
        };
        let id = self.add(Some(name), name.span, &ty, FieldKind::Let { value });
        self.seq.push(id);
        self.member(name, id, ty, caseless);
        Ok(())
    }

    /// A value as data.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn plain(&mut self, val: Val, span: Span) -> R<(Ty, ir::Expr)> {
        let ty = match &val.ty {
            Ty::Lit => U64,
            t => t.clone(),
        };
        let mut l = Lower::new(self.cx, self.module, Kind::Grammar(self.id));
        let e = l.coerce(val, &ty, span)?;
        Ok((ty, e))
    }

    pub fn fault(&mut self, or: Option<&Ident>) -> R<Option<FaultKind>> {
        or.map(|n| self.cx.fault_kind(self.module, n)).transpose()
    }

    pub fn no_empty(&mut self, values: &[Vec<u8>], span: Span) -> R<()> {
        if values.iter().any(Vec::is_empty) {
            return Err(self.cx.error("E0427", span, "an empty literal matches nothing"));
        }
        if values.iter().enumerate().any(|(n, v)| values[..n].contains(v)) {
            self.cx.error("E0203", span, "one of these is listed twice");
        }
        Ok(())
    }

    /// Adds a field without putting it into the sequence.
    pub fn add(&mut self, name: Option<&Ident>, span: Span, ty: &Ty, kind: FieldKind) -> FieldId {
        let owner = self.cx.m.units[self.id.index()].name.clone();
        let place = self.cx.place(
            match name {
                Some(n) => format!("{owner}.{}", n.name),
                None => owner,
            },
            span,
        );
        let (span, ty) = (self.cx.span(span), self.cx.lower_ty(ty));
        let fields = &mut self.cx.m.units[self.id.index()].fields;
        fields.push(ir::Field {
            name: name.map(|n| n.name.clone()),
            span,
            ty,
            kind,
            place,
            too_long: FaultKind::TOO_LONG,
            bad: FaultKind::MALFORMED,
            doc: String::new(),
            within: None,
            lies_in: None,
            computed: None,
            value_used: false,
            extent_used: false,
        });
        FieldId(fields.len() as u32 - 1)
    }

    pub fn ir(&mut self, id: FieldId) -> &mut ir::Field {
        &mut self.cx.m.units[self.id.index()].fields[id.index()]
    }

    pub fn member(&mut self, name: &Ident, field: FieldId, ty: Ty, caseless: bool) {
        let cases = self.cases.clone();
        let info = &mut self.cx.units[self.id.index()];
        if let Some(first) = info.member(&name.name) {
            let d = Diagnostic::error("E0203", name.span, format!("`{}` is defined twice", name.name))
                .label("defined again here")
                .also(first.span, "first defined here")
                .hint("every field of a unit has its own name, those of its cases too");
            self.cx.report(d);
            return;
        }
        if info.params.iter().any(|(n, _)| *n == name.name) {
            self.cx.error("E0203", name.span, format!("`{}` is already a parameter of the unit", name.name));
            return;
        }
        info.members.push(Member { name: name.name.clone(), span: name.span, field, ty, cases, caseless });
    }

    pub fn require(&mut self, cond: ir::Expr, kind: FaultKind, span: Span) {
        if build::as_bool(&cond) == Some(true) {
            return;
        }
        // In a case it is another way to write a fault.
        if self.cases.is_empty() && self.item_guards.is_none() && self.is_refuted(&cond) {
            self.cx.report(
                Diagnostic::error("E0427", span, "this never holds: no message has this unit")
                    .label("false for all bytes")
                    .hint("remove it, or the unit"),
            );
            self.failed = true;
        }
        self.facts.push(cond.clone().into());
        crate::body::path_conditions::split(&cond, true, &mut self.facts);
        let id = self.add(None, span, &Ty::Unit, FieldKind::Require { cond });
        self.ir(id).bad = kind;
        self.seq.push(id);
    }

    fn is_refuted(&mut self, cond: &ir::Expr) -> bool {
        let facts = self.facts.clone();
        let mut l = Lower::new(self.cx, self.module, Kind::Grammar(self.id));
        l.facts = facts;
        l.holds(cond, false)
    }

    /// A length or count that is a constant, above the most that the field may have.
    pub fn not_above(&mut self, length: &ir::Expr, max: u64, what: &str, span: Span) {
        let Some(n) = build::as_int(length).filter(|n| *n > u128::from(max)) else { return };
        let text = format!("this field always has {n} {what}, and may have {max}");
        self.cx.report(
            Diagnostic::error("E0427", span, text)
                .label("no bytes fit it")
                .hint(format!("raise its maximum to {n}, or shorten its length")),
        );
        self.failed = true;
    }

    /// Evaluates an expression over the fields so far; guards become `require` fields in front.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn eval(&mut self, e: &Expr, want: Option<&Ty>, item: Option<Val>) -> R<Val> {
        let (facts, binds) = (self.facts.clone(), self.binds.clone());
        let mut l = Lower::new(self.cx, self.module, Kind::Grammar(self.id));
        l.facts = facts;
        l.dot = item;
        l.bind_all(&binds);
        let val = match want {
            Some(t) => {
                let v = l.expr(e, Some(t))?;
                let caseless = v.caseless;
                let x = l.coerce(v, t, e.span)?;
                Val { caseless, ..Val::pure(t.clone(), x) }
            }
            None => l.expr(e, None)?,
        };
        let stmts = std::mem::take(&mut l.out);
        for s in stmts {
            match s.kind {
                ir::StmtKind::Require { cond, kind, .. } => {
                    let kind =
                        if kind == FaultKind::INDEX || kind == FaultKind::NONE_VALUE || kind == FaultKind::DIVISION {
                            FaultKind::MALFORMED
                        } else {
                            kind
                        };
                    match &mut self.item_guards {
                        // It would be checked before there is an item.
                        _ if !over_items(&cond) => self.require(cond, kind, e.span),
                        Some(guards) if kind == FaultKind::MALFORMED => guards.push(cond),
                        _ => return Err(self.too_involved(e.span)),
                    }
                }
                _ => return Err(self.too_involved(e.span)),
            }
        }
        Ok(val)
    }

    fn too_involved(&mut self, span: Span) -> Reported {
        self.cx.report(
            Diagnostic::error("E0430", span, "this is too involved for a unit")
                .label("needs statements")
                .hint("put it into a function, or split it with `let` fields"),
        )
    }

    pub fn cond(&mut self, e: &Expr) -> R<ir::Expr> {
        let v = self.eval(e, None, None)?;
        self.as_cond(v, e.span)
    }

    pub fn as_cond(&mut self, v: Val, span: Span) -> R<ir::Expr> {
        let mut l = Lower::new(self.cx, self.module, Kind::Grammar(self.id));
        l.cond_of(v, span)
    }

    /// A length or count as u64.
    pub fn length(&mut self, e: &Expr) -> R<ir::Expr> {
        let v = self.eval(e, None, None)?;
        let span = e.span;
        let facts = self.facts.clone();
        let mut l = Lower::new(self.cx, self.module, Kind::Grammar(self.id));
        l.facts = facts;
        let v = l.defined(v, span)?;
        let out = std::mem::take(&mut l.out);
        for s in out {
            if let ir::StmtKind::Require { cond, .. } = s.kind {
                self.require(cond, FaultKind::MALFORMED, span);
            }
        }
        match (&v.ty, v.kind) {
            (Ty::Int { signed: false, .. } | Ty::Lit, Vk::Pure(x)) => Ok(match build::as_int(&x) {
                Some(n) => build::u64(n as u64),
                None => build::cast(crate::compiler::T_U64, x),
            }),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let t = self.cx.show(t);
                Err(self.cx.error("E0301", span, format!("a length is an unsigned integer, not {t}")))
            }
        }
    }

    pub fn until(&mut self, u: &ast::Until) -> R<ir::Until> {
        self.no_empty(&u.delimiters, u.span)?;
        Ok(ir::Until { delimiters: u.delimiters.clone(), peek: u.peek })
    }

    /// A fixed-width integer of `bits` bits. Whole bytes stand alone; the others gather until they
    /// fill bytes.
    pub fn uint(&mut self, head: &Head, ty: &Ty, bits: u32, signed: bool, big: Option<bool>) -> R<FieldId> {
        let kind = |bytes: u32| FieldKind::UInt {
            bytes: bytes as u8,
            shift: 0,
            bits: bits as u8,
            big: big.unwrap_or(true),
            signed,
            advance: true,
        };
        let gathered: u32 = self.bits.iter().map(|b| b.bits).sum();
        let order = big.unwrap_or(self.big);
        let id = self.add(head.name, head.span, ty, kind(bits.div_ceil(8)));
        if let FieldKind::UInt { big, .. } = &mut self.ir(id).kind {
            *big = order;
        }
        self.seq.push(id);
        if gathered == 0 && bits.is_multiple_of(8) {
            return Ok(id);
        }
        self.bits.push(BitField { field: id, bits, signed, span: head.span });
        if gathered + bits > 64 {
            let span = head.span;
            self.bits.clear();
            return Err(self.cx.error("E0422", span, "a group of bit fields is at most 64 bits long"));
        }
        if (gathered + bits).is_multiple_of(8) {
            self.close_bits(order);
        }
        Ok(id)
    }

    fn close_bits(&mut self, big: bool) {
        let group = std::mem::take(&mut self.bits);
        let total: u32 = group.iter().map(|b| b.bits).sum();
        let mut at = 0;
        let last = group.len() - 1;
        for (i, b) in group.iter().enumerate() {
            let shift = if big { total - at - b.bits } else { at };
            self.ir(b.field).kind = FieldKind::UInt {
                bytes: (total / 8) as u8,
                shift: shift as u8,
                bits: b.bits as u8,
                big,
                signed: b.signed,
                advance: i == last,
            };
            at += b.bits;
        }
    }

    /// Bit fields must fill whole bytes before anything else follows.
    pub fn end_bits(&mut self) {
        if let (Some(first), Some(last)) = (self.bits.first(), self.bits.last()) {
            let total: u32 = self.bits.iter().map(|b| b.bits).sum();
            let d = Diagnostic::error(
                "E0422",
                last.span,
                format!("the bit fields before this end are {total} bits, not whole bytes"),
            )
            .label("the group ends here")
            .also(first.span, "it begins here")
            .hint(format!("add `_: u{}`", 8 - total % 8));
            self.bits.clear();
            self.cx.report(d);
        }
    }
}
