//! Arrays of ways in and out of elements: `in x: packet [4]`, `out y: packet [n]`.

use super::scope::{AppName, Instance};
use super::wire_ends::{Direction, Entrance};
use crate::body::Lower;
use crate::compiler::{Compiler, R, T_U32};
use crate::ir_builder as build;
use crate::val::Val;
use ir::StmtKind;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, ExprKind, Ident, MemberKind, Span};
use wireloom_syntax::Diagnostic;

/// The most ways of one array.
const MOST_WAYS: u64 = 256;

/// `cnt`, `cnt.x`: an instance and one of its ways in or out.
pub fn instance_port(e: &Expr) -> Option<(&Ident, Option<&Ident>)> {
    if let ExprKind::Field(Some(base), port) = &*e.kind {
        return Some((base.as_name()?, Some(port)));
    }
    Some((e.as_name()?, None))
}

/// `x`, `x[i]`: a name, and a place of an array.
pub fn name_at(e: &Expr) -> Option<(&Ident, Option<&Expr>)> {
    if let ExprKind::Index(base, i) = &*e.kind {
        return Some((base.as_name()?, Some(i)));
    }
    Some((e.as_name()?, None))
}

/// `cnt`, `cnt.x`, `cnt.x[2]`: an instance, one of its ways in or out, and a place of an array.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn instance_at(e: &Expr) -> Option<(&Ident, Option<&Ident>, Option<&Expr>)> {
    let (base, index) = match &*e.kind {
        ExprKind::Index(base, i) => (base, Some(i)),
        _ => (e, None),
    };
    instance_port(base).map(|(n, way)| (n, way, index))
}

/// `[2]` behind a name, where the place is written as a number.
pub fn place_name(index: Option<&Expr>) -> String {
    match index.map(|i| &*i.kind) {
        Some(ExprKind::Int(i)) => format!("[{i}]"),
        _ => String::new(),
    }
}

/// `to[i]`
pub fn item(to: &Expr, i: u64) -> Expr {
    let index = Expr { span: to.span, kind: Box::new(ExprKind::Int(i.into())) };
    Expr { span: to.span, kind: Box::new(ExprKind::Index(to.clone(), index)) }
}

/// The name, type and size of a way.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn in_or_out(m: &ast::Member, direction: Direction) -> Option<(&Ident, &ast::Type, Option<&Expr>)> {
    match &m.kind {
        MemberKind::In { name, ty, count, .. } if direction == Direction::In => Some((name, ty, count.as_ref())),
        MemberKind::Out { name, ty, count } if direction == Direction::Out => Some((name, ty, count.as_ref())),
        _ => None,
    }
}

impl Compiler<'_> {
    /// Arrays among an instance's ways, and how many each has.
    pub fn array_sizes(&mut self, i: &Rc<Instance>, direction: Direction) -> R<Vec<(String, u64)>> {
        let outer = std::mem::replace(&mut self.app, i.scope.clone());
        let (mut counts, mut made) = (Vec::new(), Ok(()));
        for m in &i.element.members {
            let Some((name, _, Some(e))) = in_or_out(m, direction) else { continue };
            match self.const_in_app(i.module, e) {
                Ok(n) if (1..=MOST_WAYS).contains(&n) => counts.push((name.name.clone(), n)),
                Ok(_) => {
                    let what = format!("`{}` has 1 to {MOST_WAYS} places", name.name);
                    made = Err(self.once(Diagnostic::error("E0304", e.span, what)));
                }
                Err(r) => made = Err(r),
            }
        }
        self.app = outer;
        made.map(|()| counts)
    }

    /// Reports an error that several instances of an element share.
    pub fn once(&mut self, d: Diagnostic) -> crate::compiler::Reported {
        if self.diags.iter().any(|o| o.code == d.code && o.span() == d.span()) {
            return crate::compiler::Reported;
        }
        self.report(d)
    }

    /// `on x[i](p)` is for arrays.
    pub fn indexed_handlers(&mut self, e: &ast::Element) {
        for m in &e.members {
            let MemberKind::Handler(ast::Handler { on: ast::On::Message { port, index: Some(index), .. }, .. }) =
                &m.kind
            else {
                continue;
            };
            let single = e
                .members
                .iter()
                .any(|m| matches!(in_or_out(m, Direction::In), Some((n, _, None)) if n.name == port.name));
            if single {
                self.no_array(&port.name, "way in", index.span);
            }
        }
    }

    pub fn no_array(&mut self, name: &str, what: &str, span: Span) -> crate::compiler::Reported {
        self.once(
            Diagnostic::error("E0629", span, format!("`{name}` is one {what}, no array"))
                .hint(format!("leave the index out: `on {name}(p)`")),
        )
    }

    /// A wiring inside of an element begins at one of its ways in, at an instance, or at a queue.
    pub fn element_wiring(&mut self, i: &Rc<Instance>, nodes: &[ast::Node]) -> R<()> {
        let Some(first) = nodes.first() else { return Ok(()) };
        let begins = "a wiring in an element begins at one of its ways in, at an instance or at a queue";
        let ast::NodeKind::Expr(e) = &first.kind else {
            return Err(self.once(Diagnostic::error("E0633", first.span, begins)));
        };
        let Some((name, out, index)) = instance_at(e) else {
            return Err(self.once(Diagnostic::error("E0633", first.span, begins)));
        };
        let way_in = i
            .element
            .members
            .iter()
            .any(|m| matches!(in_or_out(m, Direction::In), Some((n, ..)) if n.name == name.name));
        if !way_in || out.is_some() {
            return match i.scope.get(&name.name) {
                Some(AppName::Instance(_) | AppName::Failed) => Ok(()),
                Some(AppName::Port(_) | AppName::Messages(_)) if out.is_none() && index.is_none() => Ok(()),
                Some(_) => Err(self.once(Diagnostic::error("E0633", first.span, begins))),
                None => {
                    let known: Vec<String> = i.scope.names().collect();
                    let hint = crate::names::suggest(&name.name, known.iter().map(String::as_str));
                    let d =
                        Diagnostic::error("E0201", name.span, format!("unknown node `{}`", name.name)).label(begins);
                    Err(self.once(crate::names::with_hint(d, hint)))
                }
            };
        }
        let count = self.array_sizes(i, Direction::In)?.into_iter().find(|(n, _)| *n == name.name).map(|(_, c)| c);
        let d = match (index.map(|i| &*i.kind), count) {
            (None, _) => return Ok(()),
            (Some(_), None) => Diagnostic::error("E0629", e.span, format!("`{}` is one way in, no array", name.name)),
            (Some(ExprKind::Int(at)), Some(c)) if *at < u128::from(c) => return Ok(()),
            (Some(ExprKind::Int(_)), Some(c)) => {
                Diagnostic::error("E0304", e.span, format!("`{}` has {c} ways in, counted from 0", name.name))
            }
            (Some(_), Some(_)) => Diagnostic::error("E0306", e.span, "which way in is wired must be a constant"),
        };
        Err(self.once(d))
    }
}

impl Lower<'_, '_> {
    /// The place of an array of `in`s that a message comes to; None: the `in` is no array. `v` is
    /// the message, as which the index sees it.
    pub fn place_of(&mut self, e: &Entrance, index: Option<&Expr>, v: &Val, span: Span) -> R<Option<ir::Expr>> {
        let name = format!("{}.{}", e.outlet.name, e.input);
        let (i, count) = match (index, e.count) {
            (None, None) => return Ok(None),
            (None, Some(c)) => {
                return Err(self.cx.report(
                    Diagnostic::error("E0629", span, format!("`{name}` has {c} ways in"))
                        .label("which one?")
                        .hint(format!("write `{name}[i]`, `broadcast {name}` or `steer {name} by key`")),
                ))
            }
            (Some(i), None) => return Err(self.err("E0629", i.span, format!("`{name}` is one way in, no array"))),
            (Some(i), Some(c)) => (i, c),
        };
        let dot = self.dot.replace(v.clone());
        let at = self.index_value(i);
        self.dot = dot;
        let at = at?;
        match build::as_int(&at) {
            Some(n) if n >= u128::from(count) => {
                Err(self.err("E0304", i.span, format!("`{name}` has {count} ways in, counted from 0")))
            }
            Some(n) => Ok(Some(build::u32(n as u32))),
            None => {
                let (cond, at) = self.below(at, build::u32(count as u32));
                self.guard(cond, ir::FaultKind::INDEX, i.span);
                let local = self.temp("", &crate::ty::U32, at, span);
                Ok(Some(self.local_expr(local)))
            }
        }
    }

    /// Does one of several things: the one of the place `on`, which is below `count`.
    pub fn choose(&mut self, on: ir::Expr, count: u64, span: Span, f: &dyn Fn(&mut Self, u64) -> R<()>) -> R<()> {
        if let Some(n) = build::as_int(&on).filter(|n| *n < u128::from(count)) {
            return f(self, n as u64);
        }
        if !self.frames {
            return self.choose_half(&on, (0, count), span, f);
        }
        let mut cases = Vec::new();
        for n in 0..count {
            let (made, block) = self.sub(|s| f(s, n));
            made?;
            cases.push((vec![n], block));
        }
        let default = cases.pop().map(|(_, b)| b).unwrap_or_default();
        self.push(span, StmtKind::Switch { on, cases, default });
        Ok(())
    }

    /// In a service each way may call and reply.
    fn choose_half(
        &mut self,
        on: &ir::Expr,
        (from, to): (u64, u64),
        span: Span,
        f: &dyn Fn(&mut Self, u64) -> R<()>,
    ) -> R<()> {
        if to - from <= 1 {
            return f(self, from);
        }
        let half = (from + to) / 2;
        let cond = build::cmp(ir::BinOp::Lt, on.clone(), build::int(on.ty, half.into()));
        self.branch(
            cond,
            span,
            Some(&crate::ty::Ty::Unit),
            |s| s.choose_half(on, (from, half), span, f).map(|()| Val::unit()),
            |s| s.choose_half(on, (half, to), span, f).map(|()| Val::unit()),
        )
        .map(|_| ())
    }

    /// `p -> y[i]` with an index computed from the packet.
    pub fn outlet_by(&mut self, value: &Expr, to: &Expr, i: &Expr, count: u64, span: Span) -> R<()> {
        let ExprKind::Index(base, _) = &*to.kind else { return Err(crate::compiler::Reported) };
        let index = self.index_value(i)?;
        self.index_fits(i, &index, count, "outputs")?;
        let (cond, index) = self.below(index, build::u32(count as u32));
        self.guard(cond, ir::FaultKind::INDEX, i.span);
        let index = match self.frames || build::as_int(&index).is_some() {
            true => index,
            false => {
                let local = self.temp("", &crate::ty::U32, index, span);
                ir::Expr::new(T_U32, ir::ExprKind::Local(local))
            }
        };
        self.choose(index, count, span, &|s, n| s.send(value, &item(base, n), span))
    }

    /// How many ways an array of the element at hand, or of an instance, has.
    pub fn way_count(&mut self, to: &Expr) -> Option<u64> {
        if let (ExprKind::Name(n), Some(o)) = (&*to.kind, self.outlets.last()) {
            if let Some((_, c)) = o.counts.iter().find(|(o, _)| *o == n.name) {
                return Some(*c);
            }
        }
        let (n, way) = instance_port(to)?;
        let Some(AppName::Instance(i)) = self.cx.app.get(&n.name).cloned() else { return None };
        let counts = self.cx.array_sizes(&i, Direction::In).ok()?;
        let ins: Vec<&Ident> =
            i.element.members.iter().filter_map(|m| in_or_out(m, Direction::In)).map(|(n, ..)| n).collect();
        let name = match (way, ins.as_slice()) {
            (Some(w), _) => w,
            (None, [one]) => one,
            _ => return None,
        };
        counts.into_iter().find(|(c, _)| *c == name.name).map(|(_, n)| n)
    }
}
