//! Patterns: the condition under which one matches, and the names it binds.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for a few kinds of ExprKind and Ty")]

use super::Lower;
use crate::compiler::{Reported, R};
use crate::ir_builder as build;
use crate::items::Item;
use crate::names::Meaning;
use crate::ty::Ty;
use crate::val::{Val, Vk};
use wireloom_ir as ir;
use wireloom_syntax::ast::{BinOp, Expr, ExprKind, Ident, Pattern, Span};
use wireloom_syntax::Diagnostic;

pub type Binds = Vec<(Ident, Val)>;

impl Lower<'_, '_> {
    pub fn pattern(&mut self, p: &Pattern, v: &Val) -> R<(ir::Expr, Binds)> {
        match p {
            Pattern::Any(_) => Ok((build::boolean(true), vec![])),
            Pattern::Name(n) => match self.constant_name(n, v)? {
                Some(cond) => Ok((cond, vec![])),
                None => Ok((build::boolean(true), vec![(n.clone(), v.clone())])),
            },
            Pattern::Or(ps, span) => {
                let mut all = Vec::with_capacity(ps.len());
                for p in ps {
                    let (c, binds) = self.pattern(p, v)?;
                    if !binds.is_empty() {
                        return Err(self.err("E0311", *span, "alternatives of a pattern bind no names"));
                    }
                    all.push(c);
                }
                Ok((build::any(all), vec![]))
            }
            Pattern::Tuple(ps, span) => self.tuple_pattern(ps, v, *span),
            Pattern::Value(e) => self.value_pattern(e, v),
            Pattern::Variant { path, bind } => self.variant_pattern(path, bind.as_deref(), v),
        }
    }

    /// A name that stands for a constant of the subject's type: a variant, a case, a fault kind,
    /// `none`, a `const`.
    fn constant_name(&mut self, n: &Ident, v: &Val) -> R<Option<ir::Expr>> {
        match &v.ty {
            Ty::Enum(e) => {
                if let Some(variant) = self.variant(*e, &n.name) {
                    return self.equal(BinOp::Eq, v.clone(), variant, n.span).map(Some);
                }
                // A name that is nearly a variant's is a slip, not a new name.
                let names = self.cx.m.enums[e.index()].variants.clone();
                if crate::names::suggest(&n.name, names.iter().map(|(n, _)| n.as_str()).filter(|_| n.name.len() > 2))
                    .is_some()
                {
                    return Err(self.unknown_variant(*e, n));
                }
            }
            Ty::Fault => {
                if let Some(k) = self.cx.find_fault(self.module, &n.name) {
                    let k = Val::pure(Ty::Fault, build::int(crate::compiler::T_U16, k.0.into()));
                    return self.equal(BinOp::Eq, v.clone(), k, n.span).map(Some);
                }
            }
            Ty::Switch(u, f) => return self.case_pattern(*u, *f, v, n).map(|(c, _)| Some(c)),
            Ty::Option(_) if n.name == "none" => return Ok(self.is_there(v).map(build::not)),
            _ => {}
        }
        if let Some((Meaning::Item(id), 1)) = self.cx.names.find(self.module, &[&n.name]) {
            if let Item::Const(c) = self.cx.item(id, n.span)? {
                return self.equal(BinOp::Eq, v.clone(), c, n.span).map(Some);
            }
        }
        Ok(None)
    }

    /// The condition of a switch's case, and the value of the field it is named after.
    fn case_pattern(&mut self, u: ir::UnitId, f: ir::FieldId, v: &Val, n: &Ident) -> R<(ir::Expr, Option<Val>)> {
        let Vk::Path(p) = &v.kind else { return Err(Reported) };
        let ir::FieldKind::Switch { cases } = &self.cx.m.units[u.index()].fields[f.index()].kind else {
            return Err(Reported);
        };
        let Some(i) = cases.iter().position(|c| c.name.as_deref() == Some(n.name.as_str())) else {
            let names: Vec<String> = cases.iter().filter_map(|c| c.name.clone()).collect();
            let hint = crate::names::suggest(&n.name, names.iter().map(String::as_str));
            let d = Diagnostic::error("E0201", n.span, format!("the switch has no case `{}`", n.name))
                .label("unknown case")
                .note(format!("its cases: {}", names.join(", ")));
            return Err(self.cx.report(crate::names::with_hint(d, hint)));
        };
        let cond = build::case(p.clone(), i as u32);
        let m = self.cx.units[u.index()]
            .members
            .iter()
            .find(|m| m.name == n.name && m.cases.last() == Some(&(f, i as u32)))
            .cloned();
        let mut base = p.clone();
        base.steps.pop();
        let val = m.map(|m| {
            let v = self.cx.member_val(&base, u, &m);
            self.inner(v)
        });
        Ok((cond, val))
    }

    fn variant_pattern(
        &mut self,
        path: &wireloom_syntax::ast::Path,
        bind: Option<&Pattern>,
        v: &Val,
    ) -> R<(ir::Expr, Binds)> {
        let Some(name) = path.parts.last() else { return Err(Reported) };
        let (cond, inner) = match &v.ty {
            Ty::Switch(u, f) => self.case_pattern(*u, *f, v, name)?,
            Ty::Option(_) | Ty::None if name.name == "some" && path.parts.len() == 1 => {
                (self.is_there(v).unwrap_or(build::boolean(true)), Some(self.inner(v.clone())))
            }
            Ty::Option(_) | Ty::None if name.name == "none" && path.parts.len() == 1 => {
                (build::not(self.is_there(v).unwrap_or(build::boolean(true))), None)
            }
            _ if bind.is_none() => {
                let names = path.parts.iter();
                let mut e: Option<Expr> = None;
                for n in names {
                    let kind = match e {
                        None => ExprKind::Name(n.clone()),
                        Some(b) => ExprKind::Field(Some(b), n.clone()),
                    };
                    e = Some(Expr { span: path.span, kind: Box::new(kind) });
                }
                return match e {
                    Some(e) => self.value_pattern(&e, v),
                    None => Err(Reported),
                };
            }
            Ty::Error => return Err(Reported),
            t => {
                let s = self.show(t);
                return Err(self.err("E0311", path.span, format!("`{}(…)` is no pattern for {s}", name.name)));
            }
        };
        match (bind, inner) {
            (None, _) => Ok((cond, vec![])),
            (Some(Pattern::Any(_)), _) => Ok((cond, vec![])),
            (Some(p), Some(inner)) => {
                let (c, binds) = self.pattern(p, &inner)?;
                Ok((build::and(cond, c), binds))
            }
            (Some(_), None) => {
                Err(self.err("E0311", path.span, format!("the case `{}` has no value to bind", name.name)))
            }
        }
    }

    fn value_pattern(&mut self, e: &Expr, v: &Val) -> R<(ir::Expr, Binds)> {
        match &*e.kind {
            ExprKind::None => match self.is_there(v) {
                Some(c) => Ok((build::not(c), vec![])),
                None => Err(self.err("E0301", e.span, "only an option can be `none`")),
            },
            ExprKind::Range(..) => {
                let v = self.defined(v.clone(), e.span)?;
                let ty = self.settled(&v.ty);
                let ranges = self.cx.ranges(self.module, e, &ty)?;
                let subject = self.coerce(v, &ty, e.span)?;
                Ok((self.truth(ir::ExprKind::InRanges(subject, ranges)), vec![]))
            }
            _ => {
                let c = self.expr(e, Some(&v.ty.clone()))?;
                Ok((self.equal(BinOp::Eq, v.clone(), c, e.span)?, vec![]))
            }
        }
    }

    fn parts(&mut self, v: &Val, n: usize, span: Span) -> R<Vec<Val>> {
        match (&v.ty, &v.kind) {
            (Ty::Tuple(ts), Vk::Pure(e)) if ts.len() == n => Ok(ts
                .iter()
                .enumerate()
                .map(|(i, t)| {
                    let x = self.get(e, i as u32, t);
                    Val::pure(t.clone(), x)
                })
                .collect()),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let s = self.show(t);
                Err(self.err("E0311", span, format!("a pattern of {n} parts does not fit {s}")))
            }
        }
    }

    fn tuple_pattern(&mut self, ps: &[Pattern], v: &Val, span: Span) -> R<(ir::Expr, Binds)> {
        let parts = self.parts(v, ps.len(), span)?;
        let (mut cond, mut binds) = (build::boolean(true), vec![]);
        for (p, v) in ps.iter().zip(&parts) {
            let (c, b) = self.pattern(p, v)?;
            cond = build::and(cond, c);
            binds.extend(b);
        }
        self.cx.distinct(binds.iter().map(|(n, _)| n))?;
        Ok((cond, binds))
    }

    /// Binds the names of a pattern that always matches: `let (a, b) = …`.
    pub fn destructure(&mut self, p: &Pattern, v: Val, span: Span) -> R<()> {
        match p {
            Pattern::Any(_) => Ok(()),
            Pattern::Name(n) => {
                self.bind(n, v);
                Ok(())
            }
            Pattern::Tuple(ps, at) => {
                let parts = self.parts(&v, ps.len(), *at)?;
                if let Err(r) = self.cx.distinct(names_in(p).into_iter()) {
                    self.bind_errors(p);
                    return Err(r);
                }
                for (p, v) in ps.iter().zip(parts) {
                    self.destructure(p, v, span)?;
                }
                Ok(())
            }
            Pattern::Value(_) | Pattern::Variant { .. } | Pattern::Or(..) => Err(self.cx.report(
                Diagnostic::error("E0311", span, "this pattern may not match").hint("use `if let` or `match`"),
            )),
        }
    }

    /// Whether a pattern takes every value.
    pub fn covers_all(&self, p: &Pattern, v: &Val) -> bool {
        match p {
            Pattern::Any(_) => true,
            Pattern::Name(n) => match &v.ty {
                Ty::Enum(e) => !self.cx.m.enums[e.index()].variants.iter().any(|(x, _)| *x == n.name),
                Ty::Switch(..) => false,
                Ty::Option(_) => n.name != "none",
                Ty::Fault => !self.is_fault(&n.name),
                _ => !self.is_const_item(&n.name),
            },
            Pattern::Tuple(ps, _) => match &v.ty {
                Ty::Tuple(ts) => {
                    ps.len() == ts.len() && ps.iter().zip(ts).all(|(p, t)| self.covers_all(p, &Val::of(t.clone())))
                }
                _ => false,
            },
            Pattern::Or(ps, _) => ps.iter().any(|p| self.covers_all(p, v)),
            Pattern::Value(_) | Pattern::Variant { .. } => false,
        }
    }

    /// The values that no pattern of them takes, of a type with few values.
    pub fn uncovered(&self, ty: &Ty, ps: &[&Pattern]) -> Option<String> {
        let ps: Vec<&Pattern> = ps.iter().flat_map(|p| alternatives(p)).collect();
        if ps.iter().any(|p| self.covers_all(p, &Val::of(ty.clone()))) {
            return None;
        }
        let missing = |name: &&str| !ps.iter().any(|p| is_named(p, name));
        match ty {
            Ty::Enum(e) => {
                let info = &self.cx.m.enums[e.index()];
                let unnamed = info.variants.iter().map(|(n, _)| n.as_str()).find(missing);
                if info.open { Some("_") } else { unnamed }.map(str::to_string)
            }
            Ty::Bool => ["true", "false"].into_iter().find(missing).map(str::to_string),
            Ty::Option(item) => {
                let inner: Vec<&Pattern> = ps.iter().filter_map(|p| inside_some(p)).collect();
                let some = self.uncovered(item, &inner);
                let some =
                    some.map(|m| if inner.is_empty() || m == "_" { "some".into() } else { format!("some({m})") });
                some.or_else(|| missing(&"none").then(|| "none".to_string()))
            }
            _ => Some("_".into()),
        }
    }

    fn is_const_item(&self, name: &str) -> bool {
        self.cx.names.modules[self.module].names.get(name).is_some_and(|(id, _)| {
            matches!(self.cx.names.items[*id].item.kind, wireloom_syntax::ast::ItemKind::Const { .. })
        })
    }

    fn is_fault(&self, name: &str) -> bool {
        crate::compiler::BUILTIN_FAULTS.iter().any(|(n, _)| *n == name)
            || self.cx.m.faults.iter().any(|f| f.name == name)
    }
}

/// The names that a pattern without a condition binds.
fn names_in(p: &Pattern) -> Vec<&Ident> {
    match p {
        Pattern::Name(n) => vec![n],
        Pattern::Tuple(ps, _) => ps.iter().flat_map(names_in).collect(),
        Pattern::Any(_) | Pattern::Value(_) | Pattern::Variant { .. } | Pattern::Or(..) => vec![],
    }
}

fn alternatives(p: &Pattern) -> Vec<&Pattern> {
    match p {
        Pattern::Or(ps, _) => ps.iter().flat_map(alternatives).collect(),
        p @ (Pattern::Name(_) | Pattern::Any(_) | Pattern::Tuple(..) | Pattern::Value(_) | Pattern::Variant { .. }) => {
            vec![p]
        }
    }
}

/// The pattern of `some(…)`.
fn inside_some(p: &Pattern) -> Option<&Pattern> {
    match p {
        Pattern::Variant { path, bind } if path.parts.last().is_some_and(|n| n.name == "some") => bind.as_deref(),
        Pattern::Name(_)
        | Pattern::Any(_)
        | Pattern::Tuple(..)
        | Pattern::Value(_)
        | Pattern::Variant { .. }
        | Pattern::Or(..) => None,
    }
}

/// Whether a pattern takes all values of one variant.
pub fn is_named(p: &Pattern, name: &str) -> bool {
    match p {
        Pattern::Any(_) => true,
        Pattern::Name(n) => n.name == name,
        Pattern::Or(ps, _) => ps.iter().any(|p| is_named(p, name)),
        Pattern::Variant { path, bind } => {
            path.parts.last().is_some_and(|n| n.name == name)
                && bind.as_deref().is_none_or(|b| matches!(b, Pattern::Any(_) | Pattern::Name(_)))
        }
        Pattern::Value(e) => match &*e.kind {
            ExprKind::Name(n) | ExprKind::Field(_, n) => n.name == name,
            ExprKind::Bool(b) => name == if *b { "true" } else { "false" },
            ExprKind::None => name == "none",
            _ => false,
        },
        Pattern::Tuple(..) => false,
    }
}
