//! Functions as parameters of elements, and functions of the current message.
//!
//! `Filter(dns)`, `Filter(|p| p.len > 60)`, `Filter(.udp and .len > 60)`: the argument is put in
//! the place of each call. It sees the names that are around the instance.

use super::calls::Callee;
use super::Lower;
use crate::apps::scope::{AppName, AppScope, FunctionArg, Param};
use crate::compiler::{Compiler, Reported, R};
use crate::items::FnInfo;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use std::cell::Cell;
use std::rc::Rc;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Ident, Span};
use wireloom_syntax::Diagnostic;

/// The name of argument n of a function that is given by name.
fn hidden(n: usize, span: Span) -> Ident {
    Ident { name: format!("argument {n}"), span }
}

impl Compiler<'_> {
    /// The argument for a parameter of the type `fn(A) -> R`. `of`: the module of the element, and
    /// its type parameters.
    pub fn given_function(
        &mut self,
        of: (ModId, &AppScope),
        (params, ret): (&[ast::Type], &ast::Type),
        module: ModId,
        what: Option<&Expr>,
        span: Span,
    ) -> R<AppName> {
        let params = params
            .iter()
            .map(|t| Ok(Param { ty: self.ty_in(of.1, of.0, t)?, any: self.any_packet(of.0, t) }))
            .collect::<R<Vec<_>>>()?;
        let ret_ty = self.ty_in(of.1, of.0, ret)?;
        if !ret_ty.is_plain() {
            let s = self.show(&ret_ty);
            return Err(self.once(Diagnostic::error(
                "E0309",
                ret.span,
                format!("a function that is given to an element gives plain data, not {s}"),
            )));
        }
        // An argument that the element around was given itself is passed on.
        if let Some(ExprKind::Name(n)) = what.map(|e| &*e.kind) {
            if let Some(AppName::FunctionArg(g)) = self.app.get(&n.name).cloned() {
                if g.params == params && g.ret == ret_ty {
                    return Ok(AppName::FunctionArg(g));
                }
                return Err(self.error("E0301", span, format!("`{}` is a function of another type", n.name)));
            }
        }
        if let Some(e) = what {
            self.takes(e, params.len())?;
        }
        let g = Rc::new(FunctionArg {
            params,
            ret: ret_ty,
            what: what.cloned(),
            module,
            depth: self.making.len(),
            used: Cell::new(what.is_none()),
        });
        self.given.push(g.clone());
        Ok(AppName::FunctionArg(g))
    }

    /// Whether the argument can take so many values.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn takes(&mut self, e: &Expr, count: usize) -> R<()> {
        let d = match &*e.kind {
            ExprKind::Lambda(names, _) if names.len() != count => Diagnostic::error(
                "E0308",
                e.span,
                format!("this function has {}, and is called with {count}", parameters(names.len())),
            ),
            ExprKind::Lambda(..) | ExprKind::Name(_) | ExprKind::Field(Some(_), _) => return Ok(()),
            _ if count != 1 => {
                Diagnostic::error("E0308", e.span, format!("a function of {} is given here", parameters(count)))
                    .hint("write `|a, b| …`, or the name of a function")
            }
            _ => return Ok(()),
        };
        Err(self.report(d))
    }

    /// Functions that were given and never called are checked all the same.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn unused_given(&mut self, module: ModId) {
        for g in std::mem::take(&mut self.given) {
            if g.used.get() || g.depth > 0 {
                continue;
            }
            let mut l = crate::apps::frames::begin(self, module, String::new());
            l.frames = !l.cx.frame_units.is_empty();
            let unit = l.cx.frame_units.first().copied();
            let mut vals = Vec::new();
            for p in &g.params {
                let ty = unit.filter(|_| p.any).map_or(p.ty.clone(), Ty::Msg);
                let local = l.new_local("p", &ty);
                let e = l.local_expr(local);
                vals.push(match ty {
                    Ty::Msg(_) => Val::path(ty, crate::ir_builder::msg(local)),
                    ty => Val::pure(ty, e),
                });
            }
            let span = g.what.as_ref().map_or(Span::default(), |e| e.span);
            let made = l.apply_here(&g, vals, span);
            l.cx.settle(made, span);
        }
    }
}

fn parameters(n: usize) -> String {
    if n == 1 {
        "1 parameter".into()
    } else {
        format!("{n} parameters")
    }
}

impl Lower<'_, '_> {
    /// `keep(p)` in an element.
    pub fn call_given(&mut self, g: &Rc<FunctionArg>, name: &str, args: &[Arg], span: Span) -> R<Val> {
        if let Some(n) = args.iter().find_map(|a| a.name.as_ref()) {
            return Err(self.err("E0308", n.span, format!("the parameters of `{name}` have no names")));
        }
        if args.len() != g.params.len() {
            return Err(self.err(
                "E0308",
                span,
                format!("`{name}` takes {} arguments, found {}", g.params.len(), args.len()),
            ));
        }
        let vals =
            args.iter().zip(&g.params).map(|(a, p)| self.argument(&a.value, &p.ty, p.any)).collect::<R<Vec<_>>>()?;
        self.apply(g, vals, span)
    }

    /// Puts the function in place of its call.
    fn apply(&mut self, g: &Rc<FunctionArg>, vals: Vec<Val>, span: Span) -> R<Val> {
        g.used.set(true);
        if g.what.is_none() {
            // Its result is not known.
            let local = self.new_local("", &g.ret);
            self.impure = true;
            return Ok(Val::pure(g.ret.clone(), self.local_expr(local)));
        }
        if self.pure_only() {
            return Err(self.involved(span));
        }
        self.copies(span)?;
        let vals: Vec<Val> =
            vals.into_iter().map(|v| if self.frames { self.now(v, span) } else { self.once(v, span) }).collect();
        // Where it was given: here, or around one of the instances that are around this place.
        let (app, element) = match self.outlets.get(g.depth) {
            Some(home) => (home.app.clone(), home.element),
            None => (self.cx.app.clone(), self.cx.element),
        };
        let inner = self.outlets.split_off(g.depth.min(self.outlets.len()));
        let app = std::mem::replace(&mut self.cx.app, app);
        let element = std::mem::replace(&mut self.cx.element, element);
        let made = self.apply_here(g, vals, span);
        self.outlets.extend(inner);
        (self.cx.app, self.cx.element) = (app, element);
        made
    }

    fn apply_here(&mut self, g: &FunctionArg, vals: Vec<Val>, span: Span) -> R<Val> {
        let Some(what) = &g.what else { return Err(Reported) };
        let scopes = std::mem::replace(&mut self.scopes, vec![vec![]]);
        let (module, in_app) =
            (std::mem::replace(&mut self.module, g.module), std::mem::replace(&mut self.in_app, true));
        let (dot, params_of) = (self.dot.take(), self.params_of.take());
        let ret = std::mem::replace(&mut self.ret, super::Ret::Nowhere);
        let told = self.cx.diags.len();
        let made = self.deeper(span, |s| s.given_value(g, what, vals));
        self.cx.said_again(told);
        self.ret = ret;
        (self.dot, self.params_of) = (dot, params_of);
        (self.module, self.in_app) = (module, in_app);
        self.scopes = scopes;
        made
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn given_value(&mut self, g: &FunctionArg, what: &Expr, vals: Vec<Val>) -> R<Val> {
        let e = match &*what.kind {
            ExprKind::Lambda(names, body) => {
                let binds: Vec<(Ident, Val)> = names.iter().cloned().zip(vals).collect();
                self.bind_all(&binds);
                body.clone()
            }
            _ if vals.len() == 1 => {
                self.dot = vals.into_iter().next();
                what.clone()
            }
            _ => {
                let names: Vec<Ident> = (0..vals.len()).map(|n| hidden(n, what.span)).collect();
                let args = names.iter().map(|n| Arg {
                    name: None,
                    value: Expr { span: what.span, kind: Box::new(ExprKind::Name(n.clone())) },
                });
                let call = ExprKind::Call(what.clone(), args.collect());
                let binds: Vec<(Ident, Val)> = names.into_iter().zip(vals).collect();
                self.bind_all(&binds);
                Expr { span: what.span, kind: Box::new(call) }
            }
        };
        // `.tcp` is true where the header is there.
        let x = if g.ret == Ty::Bool { self.decide(&e)? } else { self.expr_as(&e, &g.ret)? };
        Ok(Val::pure(g.ret.clone(), x))
    }

    /// A function's name stands for its value of the current message: `where dns`, `any(web, dns)`.
    pub fn of_message_at_hand(&mut self, info: &Rc<FnInfo>, span: Span) -> Option<R<Val>> {
        let [(_, ty)] = info.params.as_slice() else { return None };
        let (ty, v) = (ty.clone(), self.dot.clone()?);
        let any = self.cx.any_packet(info.module, &info.ast.params[0].ty);
        Some(self.fitting(v, &ty, any, span).and_then(|v| self.call_with(info, vec![v], span, None)))
    }

    /// The same of a function that the element was given.
    pub fn given_at_hand(&mut self, g: &Rc<FunctionArg>, span: Span) -> Option<R<Val>> {
        let [p] = g.params.as_slice() else { return None };
        let (p, v) = (p.clone(), self.dot.clone()?);
        Some(self.fitting(v, &p.ty, p.any, span).and_then(|v| self.apply(g, vec![v], span)))
    }

    fn fitting(&mut self, v: Val, ty: &Ty, any: bool, span: Span) -> R<Val> {
        if (any && self.is_packet(&v)) || v.ty == *ty {
            return Ok(v);
        }
        if ty.is_plain() {
            let e = self.coerce(v, ty, span)?;
            return Ok(Val::pure(ty.clone(), e));
        }
        Err(self.mismatch(ty, &v.ty, span))
    }

    /// Whether a node of a wiring names a function: a filter.
    pub fn is_filter(&mut self, e: &Expr) -> bool {
        let (ExprKind::Name(name) | ExprKind::Field(Some(_), name)) = &*e.kind else { return false };
        if let ExprKind::Name(n) = &*e.kind {
            match self.cx.app.get(&n.name) {
                Some(AppName::FunctionArg(_)) => return true,
                Some(AppName::Fn(_)) => return true,
                Some(_) => return false,
                None => {}
            }
        }
        let _ = name;
        self.cx
            .expr_item(self.module, e)
            .is_some_and(|id| matches!(self.cx.names.items[id].item.kind, ast::ItemKind::Fn(_)))
            && matches!(self.callee(e), Ok(Callee::Fn(_)))
    }
}
