//! Branches: `if`, `if let`, `match`, `else`, blocks. Every form is a [`Lower::branch`] with two
//! arms.

use super::ops::only_requires;
use super::passed_on::PassedOn;
use super::patterns::is_named;
use super::{Lower, Replied};
use crate::compiler::{Reported, R};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::Val;
use ir::StmtKind;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Arm, Block, Expr, ExprKind, Pattern, Span, StmtKind as S};
use wireloom_syntax::Diagnostic;

/// Each arm lies in the `else` of the one before.
const MAX_ARMS: usize = 256;

/// The state after one side of a branch.
struct Branch {
    val: R<Val>,
    block: ir::Block,
    replied: Replied,
    /// Where another item has taken the place of the one at hand.
    given: Option<Span>,
    epoch: u32,
    /// Messages that have gone on when it goes on; none if it leaves.
    passed: PassedOn,
}

/// The use of the right side of an arm.
type ArmBody<'b, L> = &'b dyn Fn(&mut L, &Expr, Option<&Ty>) -> R<Val>;

impl Lower<'_, '_> {
    pub fn block(&mut self, b: &Block, want: Option<&Ty>) -> R<Val> {
        self.enter();
        let v = self.block_here(b, want);
        self.leave();
        v
    }

    pub fn never_reached(&mut self, at: Span) {
        let d = Diagnostic::warning("W0904", at, "this is never reached").label("unreachable").hint("remove it");
        self.cx.report(d);
    }

    /// A block's statements in the current scope; its last expression is its value.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn block_here(&mut self, b: &Block, want: Option<&Ty>) -> R<Val> {
        let mut failed = false;
        let mut dead = false;
        let last = b.stmts.len().saturating_sub(1);
        let mut value = Val::unit();
        for (i, s) in b.stmts.iter().enumerate() {
            if dead {
                self.never_reached(s.span);
                break;
            }
            let r = match &s.kind {
                S::Expr(e) if i == last && want != Some(&Ty::Unit) => self.expr_may_leave(e, want),
                _ => self.stmt_of(b, i).map(|never| if never { Val::never() } else { Val::unit() }),
            };
            match r {
                Ok(v) => {
                    dead = v.is_never();
                    if dead || i == last {
                        value = v;
                    }
                }
                Err(Reported) => {
                    failed = true;
                    self.failed = true;
                }
            }
        }
        if failed {
            Err(Reported)
        } else if dead {
            Ok(Val::never())
        } else {
            Ok(value)
        }
    }

    /// Two ways, of which the condition picks one.
    pub fn branch(
        &mut self,
        cond: ir::Expr,
        span: Span,
        want: Option<&Ty>,
        then: impl FnOnce(&mut Self) -> R<Val>,
        other: impl FnOnce(&mut Self) -> R<Val>,
    ) -> R<Val> {
        let (start, given) = ((self.replied, self.epoch), self.given);
        let torn_before = self.torn.len();
        let (facts, gone) = (self.facts.clone(), self.gone.clone());
        let asked = self.known_outside(&cond);
        let a = self.way(&cond, true, then);
        let (parts, grouped) = (self.parts_max, self.grouped);
        // A fact that one side made untrue still holds on the other; so a header that it removed.
        let facts = std::mem::replace(&mut self.facts, facts);
        let gone = std::mem::replace(&mut self.gone, gone);
        (self.replied, self.epoch) = start;
        self.given = given;
        let torn = self.torn.split_off(torn_before);
        let b = self.way(&cond, false, other);
        self.torn.extend(torn);
        self.parts_max = self.parts_max.max(parts);
        self.grouped = match (&a.val, &b.val) {
            (Ok(v), _) if v.is_never() => self.grouped,
            (_, Ok(v)) if v.is_never() => grouped,
            _ => self.grouped && grouped,
        };
        // A way in error counts as one that does not come back: what follows is not blamed for it.
        let never = |w: &Branch| match &w.val {
            Ok(v) => v.is_never(),
            Err(_) => true,
        };
        (self.replied, self.epoch) = match (never(&a), never(&b)) {
            (true, _) => (b.replied, b.epoch),
            (_, true) => (a.replied, a.epoch),
            _ => (if a.replied == b.replied { a.replied } else { Replied::Maybe }, a.epoch.max(b.epoch)),
        };
        self.passed.extend(a.passed.iter().chain(&b.passed).map(|(l, at)| (*l, *at)));
        self.given = match (never(&a), never(&b)) {
            (true, _) => b.given,
            (_, true) => a.given,
            _ => a.given.or(b.given),
        };
        match (never(&a), never(&b)) {
            (true, _) => {}
            (_, true) => (self.facts, self.gone) = (facts, gone),
            _ => {
                self.facts.retain(|f| facts.contains(f));
                self.gone.extend(gone);
            }
        }
        if never(&a) {
            self.assume(&cond, false);
        }
        if never(&b) {
            self.assume(&cond, true);
        }
        self.merge(asked, span, want, a, b)
    }

    fn way(&mut self, cond: &ir::Expr, holds: bool, f: impl FnOnce(&mut Self) -> R<Val>) -> Branch {
        let (edits, passed) = (self.pending.len(), self.passed.clone());
        let (val, block) = self.sub(|s| {
            s.assume(cond, holds);
            f(s)
        });
        // Edits of a way that goes on would hang in the air; sending the message after that is
        // refused. A reply ends the need: what follows it sends nothing more of the message.
        if !matches!(&val, Ok(v) if v.is_never()) && self.replied != Replied::Yes {
            for edit in &self.pending[edits.min(self.pending.len())..] {
                self.torn.push((edit.msg, self.span));
            }
        }
        self.pending.truncate(edits);
        let mut passed = std::mem::replace(&mut self.passed, passed);
        if !matches!(&val, Ok(v) if !v.is_never()) {
            passed.clear();
        }
        Branch { val, block, replied: self.replied, given: self.given, epoch: self.epoch, passed }
    }

    fn merge(&mut self, cond: ir::Expr, span: Span, want: Option<&Ty>, a: Branch, b: Branch) -> R<Val> {
        let (va, vb) = (a.val?, b.val?);
        let discard =
            want == Some(&Ty::Unit) || va.ty == Ty::Unit || vb.ty == Ty::Unit || (va.is_never() && vb.is_never());
        if discard {
            let never = va.is_never() && vb.is_never();
            if !a.block.is_empty() || !b.block.is_empty() {
                if self.pure_only() {
                    return Err(self.involved(span));
                }
                self.push(span, StmtKind::If { cond, then: a.block, other: b.block });
            }
            return Ok(if never { Val::never() } else { Val::unit() });
        }
        // The answers of a call: of whichever was made.
        if let (Ty::Replies(u), Ty::Replies(v)) = (&va.ty, &vb.ty) {
            if u == v {
                self.push(span, StmtKind::If { cond, then: a.block, other: b.block });
                return Ok(va);
            }
        }
        let (va, vb) = self.same_family(va, vb);
        let joined = match want {
            Some(w) if va.ty == Ty::Lit && vb.ty == Ty::Lit && w.is_int() => Some(w.clone()),
            _ => self.join(&va.ty, &vb.ty),
        };
        let Some(ty) = joined else {
            let (ta, tb) = (self.show(&va.ty), self.show(&vb.ty));
            return Err(self.cx.report(Diagnostic::error(
                "E0301",
                span,
                format!("the two ways have different types: {ta} and {tb}"),
            )));
        };
        let ty = if ty == Ty::None { ty } else { self.decided(&ty, span)? };
        if !ty.is_plain() {
            if ty.is_error() {
                return Err(Reported);
            }
            let s = self.show(&ty);
            return Err(self.cx.report(
                Diagnostic::error("E0309", span, format!("{s} cannot be chosen as a value"))
                    .hint("use it (`reply`, `call`, `->`) in each branch"),
            ));
        }
        let (ea, ba) = self.finish(va, a.block, &ty, span)?;
        let (eb, bb) = self.finish(vb, b.block, &ty, span)?;
        if let (Some(ra), Some(rb), Some(ea), Some(eb)) = (only_requires(&ba), only_requires(&bb), &ea, &eb) {
            for (c, kind, place, sp) in ra {
                self.out.push(build::stmt(
                    sp,
                    StmtKind::Require { cond: build::or(build::not(cond.clone()), c), kind, place },
                ));
            }
            for (c, kind, place, sp) in rb {
                self.out.push(build::stmt(sp, StmtKind::Require { cond: build::or(cond.clone(), c), kind, place }));
            }
            let t = self.cx.lower_ty(&ty);
            return Ok(Val::pure(ty, build::if_(t, cond, ea.clone(), eb.clone())));
        }
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let t = self.new_local("", &ty);
        let sp = self.cx.span(span);
        let set = |mut block: ir::Block, e: Option<ir::Expr>| {
            if let Some(e) = e {
                block.push(build::stmt(sp, StmtKind::Set(t, e)));
            }
            block
        };
        let (then, other) = (set(ba, ea), set(bb, eb));
        self.push(span, StmtKind::If { cond, then, other });
        Ok(Val::pure(ty, self.local_expr(t)))
    }

    /// A way's value as the common type; what that needs goes to the way's own block. None: it does
    /// not come back.
    fn finish(&mut self, v: Val, block: ir::Block, ty: &Ty, span: Span) -> R<(Option<ir::Expr>, ir::Block)> {
        if v.is_never() {
            return Ok((None, block));
        }
        let out = std::mem::replace(&mut self.out, block);
        let e = self.coerce(v, ty, span);
        let block = std::mem::replace(&mut self.out, out);
        Ok((Some(e?), block))
    }

    /// A piece under the condition of a comprehension; `if let p = e` also binds.
    pub fn filtered(&mut self, cond: Option<&Expr>, span: Span, f: impl FnOnce(&mut Self) -> R<Val>) -> R<Val> {
        let Some(c) = cond else { return f(self) };
        if let ExprKind::IfLet(p, v, _, None) = &*c.kind {
            let (there, val) = self.some_of(v)?;
            return self.branch(
                there,
                span,
                Some(&Ty::Unit),
                |s| {
                    let inner = s.inner(val);
                    s.destructure(p, inner, span)?;
                    f(s)
                },
                |_| Ok(Val::unit()),
            );
        }
        let c = self.decide(c)?;
        self.branch(c, span, Some(&Ty::Unit), f, |_| Ok(Val::unit()))
    }

    pub fn decide(&mut self, c: &Expr) -> R<ir::Expr> {
        let before = std::mem::replace(&mut self.decision, true);
        let c = self.cond(c);
        self.decision = before;
        c
    }

    pub fn if_expr(&mut self, c: &Expr, then: &Block, other: Option<&Expr>, want: Option<&Ty>, span: Span) -> R<Val> {
        let cond = match self.decide(c) {
            Ok(c) => c,
            Err(r) => {
                // Both ways are still checked, but not for their answers.
                self.failed = true;
                let _ = self.sub(|s| s.block(then, want));
                if let Some(o) = other {
                    let _ = self.sub(|s| s.expr_may_leave(o, want));
                }
                return Err(r);
            }
        };
        if self.asking {
            match (build::as_bool(&crate::fold::fold(&self.cx.m, &cond)), other) {
                (Some(true), _) => return self.block(then, want),
                (Some(false), Some(o)) => return self.expr_may_leave(o, want),
                _ => {}
            }
        }
        if other.is_none() {
            return self.branch(cond, span, Some(&Ty::Unit), |s| s.block(then, Some(&Ty::Unit)), |_| Ok(Val::unit()));
        }
        self.branch(
            cond,
            span,
            want,
            |s| s.block(then, want),
            |s| match other {
                Some(o) => s.expr_may_leave(o, want),
                None => Ok(Val::unit()),
            },
        )
    }

    pub fn if_let(&mut self, e: &Expr, want: Option<&Ty>) -> R<Val> {
        let ExprKind::IfLet(p, v, then, other) = &*e.kind else { return Err(Reported) };
        let want = if other.is_none() { Some(&Ty::Unit) } else { want };
        let (cond, val) = self.some_of(v)?;
        self.branch(
            cond,
            e.span,
            want,
            |s| {
                let inner = s.inner(val);
                s.destructure(p, inner, e.span)?;
                s.block(then, want)
            },
            |s| match other {
                Some(o) => s.expr_may_leave(o, want),
                None => Ok(Val::unit()),
            },
        )
    }

    /// An option, kept, and whether it is there.
    pub fn some_of(&mut self, v: &Expr) -> R<(ir::Expr, Val)> {
        let before = std::mem::replace(&mut self.decision, true);
        let val = self.expr(v, None);
        self.decision = before;
        let val = self.once(val?, v.span);
        match self.is_there(&val) {
            Some(c) => Ok((c, val)),
            None if val.ty.is_error() => Err(Reported),
            // A caller may know the answer to a function's question. That is no mistake of the
            // function.
            None if !self.inlined.is_empty() => Ok((build::boolean(true), val)),
            None => {
                let s = self.show(&val.ty);
                Err(self.cx.report(
                    Diagnostic::error("E0301", v.span, format!("expected an option, found {s}"))
                        .label("always there")
                        .hint("use `let`"),
                ))
            }
        }
    }

    /// `e else d`.
    pub fn else_(&mut self, a: &Expr, d: &Expr, want: Option<&Ty>) -> R<Val> {
        if matches!(&*a.kind, ExprKind::Call1 { .. } | ExprKind::CallEach { .. } | ExprKind::CallAll { .. }) {
            return self.call_value(a, Some(d));
        }
        // The alternative stands for the faults inside.
        let (val, block) = self.sub(|s| s.expr(a, want));
        let val = val?;
        let requires: Vec<_> = block
            .iter()
            .filter_map(|s| {
                let StmtKind::Require { cond, .. } = &s.kind else { return None };
                Some(cond.clone())
            })
            .collect();
        let span = a.span;
        if !requires.is_empty() && only_requires(&block).is_some() {
            let mut cond = requires.into_iter().reduce(build::and).unwrap_or(build::boolean(true));
            if let Some(c) = self.is_there(&val) {
                cond = build::and(cond, c);
            }
            return self.branch(cond, span, want, |s| Ok(s.inner(val)), |s| s.expr_may_leave(d, want));
        }
        self.out.extend(block);
        let val = self.once(val, span);
        let Some(cond) = self.is_there(&val) else {
            if val.ty.is_error() {
                return Err(Reported);
            }
            let s = self.show(&val.ty);
            return Err(self.cx.report(
                Diagnostic::error("E0301", span, format!("`else` after {s}, which is always there"))
                    .label("cannot fail")
                    .hint("remove the `else`"),
            ));
        };
        let inner = if let Ty::Option(t) = &val.ty { Some((**t).clone()) } else { None };
        let want = want.filter(|w| !w.is_option()).cloned().or(inner);
        if !val.ty.is_plain() {
            return self.or_leave(val, cond, d, span);
        }
        self.branch(cond, span, want.as_ref(), |s| Ok(s.inner(val)), |s| s.expr_may_leave(d, want.as_ref()))
    }

    /// `e else { … return }` where the value is reached in place: the alternative must leave.
    fn or_leave(&mut self, val: Val, cond: ir::Expr, d: &Expr, span: Span) -> R<Val> {
        let (start, given) = ((self.replied, self.epoch), self.given);
        let other = self.way(&cond, false, |s| s.expr_may_leave(d, None));
        (self.replied, self.epoch) = start;
        self.given = given;
        if !other.val?.is_never() {
            let inner = if let Ty::Option(t) = &val.ty { &**t } else { &val.ty };
            let report = Diagnostic::error("E0309", d.span, format!("{} has no alternative value", self.show(inner)));
            return Err(self.cx.report(if *inner == Ty::Stream {
                report.hint(self.streamed())
            } else {
                report.label("must leave").hint("end it with `return` or `fault …`, or use `if let`")
            }));
        }
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.push(span, StmtKind::If { cond: build::not(cond.clone()), then: other.block, other: vec![] });
        self.assume(&cond, true);
        Ok(self.inner(val))
    }

    pub fn match_(&mut self, subject: &Expr, arms: &[Arm], want: Option<&Ty>, span: Span) -> R<Val> {
        let val = self.subject(subject)?;
        self.arms(&val, arms, want, span, &|s, body, want| s.expr_may_leave(body, want))
    }

    /// The value that is matched, computed once. Tuples of plain values are matched part by part.
    pub fn subject(&mut self, subject: &Expr) -> R<Val> {
        let before = std::mem::replace(&mut self.decision, true);
        let val = self.expr(subject, None);
        self.decision = before;
        let val = val?;
        if val.ty.is_error() {
            return Err(Reported);
        }
        Ok(self.once(val, subject.span))
    }

    pub fn arms(&mut self, val: &Val, arms: &[Arm], want: Option<&Ty>, span: Span, body: ArmBody<'_, Self>) -> R<Val> {
        if arms.len() > MAX_ARMS {
            let d = Diagnostic::error("E0507", span, format!("a `match` has at most {MAX_ARMS} arms"))
                .label(format!("this has {}", arms.len()));
            return Err(self.cx.report(d.hint("join arms by `|`, or move the rest to a function: `_ => other(x)`")));
        }
        if arms.is_empty() {
            let d = Diagnostic::error("E0307", span, "this `match` has no arm");
            return Err(self.cx.report(d.hint("add an arm `_ => …`")));
        }
        self.exhaustive(val, arms, span)?;
        self.taken_before(arms);
        self.arm(val, arms, want, span, body)
    }

    fn arm(&mut self, val: &Val, arms: &[Arm], want: Option<&Ty>, span: Span, body: ArmBody<'_, Self>) -> R<Val> {
        let Some((arm, rest)) = arms.split_first() else { return Ok(Val::never()) };
        let made = self.pattern(&arm.pattern, val);
        let (cond, binds) = match made {
            Ok(m) => m,
            Err(r) => {
                let _ = self.sub(|s| s.deeper(span, |s| s.arm(val, rest, want, span, body)));
                return Err(r);
            }
        };
        let names = binds.clone();
        let run = |s: &mut Self| {
            for (n, v) in names {
                s.bind(&n, v);
            }
            body(s, &arm.body, want)
        };
        let Some(guard) = &arm.guard else {
            if rest.is_empty() || build::as_bool(&cond) == Some(true) {
                let (v, block) = self.sub(|s| {
                    s.assume(&cond, true);
                    run(s)
                });
                self.out.extend(block);
                return v;
            }
            return self.branch(cond, span, want, run, |s| s.arm(val, rest, want, span, body));
        };
        // With a guard: both must hold. The guard may use what the pattern binds.
        let (g, block) = self.sub(|s| {
            s.assume(&cond, true);
            for (n, v) in binds.clone() {
                s.bind(&n, v);
                if let Some(b) = s.scopes.last_mut().and_then(|b| b.last_mut()) {
                    b.used = true;
                }
            }
            s.decide(guard)
        });
        let g = g?;
        if !block.is_empty() {
            return Err(self.involved(guard.span));
        }
        let both = build::and(cond, g);
        let binds2 = binds;
        self.branch(
            both,
            span,
            want,
            |s| {
                for (n, v) in binds2 {
                    s.bind(&n, v);
                    if let Some(b) = s.scopes.last_mut().and_then(|b| b.last_mut()) {
                        b.used = true;
                    }
                }
                body(s, &arm.body, want)
            },
            |s| s.arm(val, rest, want, span, body),
        )
    }

    /// Constants that an arm before has, too.
    fn taken_before(&mut self, arms: &[Arm]) {
        let mut seen = std::collections::HashSet::new();
        for arm in arms {
            let alternatives = match &arm.pattern {
                Pattern::Or(all, _) => &all[..],
                one @ (Pattern::Name(_)
                | Pattern::Any(_)
                | Pattern::Tuple(..)
                | Pattern::Value(_)
                | Pattern::Variant { .. }) => std::slice::from_ref(one),
            };
            let values: Vec<Option<String>> = alternatives.iter().map(constant_text).collect();
            if values.iter().all(|v| v.as_ref().is_some_and(|v| seen.contains(v))) {
                self.arm_not_reached(&arm.pattern);
            }
            if arm.guard.is_none() {
                seen.extend(values.into_iter().flatten());
            }
        }
        let takes_all = |arm: &Arm| matches!(arm.pattern, Pattern::Any(_)) && arm.guard.is_none();
        if let Some(next) = arms.iter().position(takes_all).and_then(|at| arms.get(at + 1)) {
            self.arm_not_reached(&next.pattern);
        }
    }

    fn arm_not_reached(&mut self, pattern: &Pattern) {
        let d = Diagnostic::warning("W0904", pattern.span(), "this arm is never reached");
        self.cx.report(d.label("arms before it take all of its values").hint("remove it"));
    }

    /// Whether some arm takes every value.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn exhaustive(&mut self, val: &Val, arms: &[Arm], span: Span) -> R<()> {
        let open: Vec<&Pattern> = arms.iter().filter(|a| a.guard.is_none()).map(|a| &a.pattern).collect();
        let named = |name: &String| open.iter().any(|p| is_named(p, name));
        let missing = match &val.ty {
            Ty::Switch(..) if open.iter().any(|p| self.covers_all(p, val)) => None,
            Ty::Switch(u, f) => match &self.cx.m.units[u.index()].fields[f.index()].kind {
                ir::FieldKind::Switch { cases } => cases
                    .iter()
                    .find(|c| !c.name.as_ref().is_some_and(named) && !matches!(c.guard, ir::Guard::Fault(_)))
                    .map(|c| c.name.clone().unwrap_or("_".into())),
                _ => None,
            },
            t => self.uncovered(t, &open),
        };
        match missing {
            None => Ok(()),
            Some(m) => {
                let shown = self.show(&val.ty);
                Err(self.cx.report(
                    Diagnostic::error("E0307", span, format!("this `match` does not cover `{m}`"))
                        .label(format!("over {shown}"))
                        .hint(if m == "_" && matches!(val.ty, Ty::Switch(..)) {
                            "a case of it has no name: add a last arm `_ => …`".to_string()
                        } else if m == "_" {
                            "add a last arm `_ => …`".to_string()
                        } else {
                            format!("add an arm for `{m}`, or `_ => …`")
                        }),
                ))
            }
        }
    }
}

/// A constant in a pattern; None: another pattern, which is not compared.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn constant_text(p: &Pattern) -> Option<String> {
    match p {
        Pattern::Name(n) => Some(n.name.clone()),
        Pattern::Value(e) => match &*e.kind {
            ExprKind::Int(n) => Some(n.to_string()),
            ExprKind::Bytes(b) => Some(format!("{b:?}")),
            ExprKind::Bool(b) => Some(b.to_string()),
            _ => None,
        },
        Pattern::Any(_) | Pattern::Tuple(..) | Pattern::Variant { .. } | Pattern::Or(..) => None,
    }
}
