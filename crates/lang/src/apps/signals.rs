//! Signals, which users call while the app runs. Each becomes a handler. Its first locals are the
//! arguments. It returns its result as bytes, in the form of `ir::desc::ResultType`.

use super::scope::AppName;
use crate::body::{Kind, Lower};
use crate::compiler::{Compiler, Reported, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::{Val, Vk};
use ir::desc::{Form, ResultType};
use ir::{Builtin as B, Expr as X, ExprKind as K, StmtKind};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Ident, MemberKind, Span};
use wireloom_syntax::Diagnostic;

/// The largest result.
const MAX_RESULT: u64 = 64 << 10;

/// A signal as it is written.
struct WrittenSignal<'s> {
    exported: bool,
    name: &'s Ident,
    params: &'s [ast::Param],
    ret: Option<&'s ast::Type>,
    body: &'s ast::Block,
    doc: &'s str,
}

fn source(m: &ast::Member) -> Option<WrittenSignal<'_>> {
    if let MemberKind::Signal { exported, name, params, ret, body, .. } = &m.kind {
        Some(WrittenSignal { exported: *exported, name, params, ret: ret.as_ref(), body, doc: &m.doc })
    } else {
        None
    }
}

impl Compiler<'_> {
    /// The app's own signals, then those of its elements' instances, called `instance.name`.
    pub fn signals(&mut self, module: ModId, app: &ast::Element) {
        for m in &app.members {
            if let Some(s) = source(m) {
                let made = self.signal(module, &s, &s.name.name);
                self.settle(made, s.name.span);
            }
        }
        for m in &app.members {
            let MemberKind::Instance { name, .. } = &m.kind else { continue };
            let Some(AppName::Instance(i)) = self.app.get(&name.name).cloned() else { continue };
            let outer = std::mem::replace(&mut self.app, i.scope.clone());
            for m in &i.element.members {
                if let Some(s) = source(m) {
                    if s.exported {
                        self.error("E0685", s.name.span, "an app exports segments, not an element");
                        continue;
                    }
                    let made = self.signal(i.module, &s, &format!("{}.{}", name.name, s.name.name));
                    self.settle(made, s.name.span);
                }
            }
            self.app = outer;
        }
    }

    fn signal(&mut self, module: ModId, s: &WrittenSignal, name: &str) -> R<()> {
        if self.m.signals.iter().any(|o| o.name == name) {
            return Err(self.error("E0203", s.name.span, format!("signal `{name}` is defined twice")));
        }
        let f = ast::Fn {
            name: s.name.clone(),
            params: s.params.to_vec(),
            ret: s.ret.cloned(),
            body: ast::FnBody::Block(s.body.clone()),
        };
        let info = self.fn_info(module, &f, true)?;
        let args = s
            .params
            .iter()
            .zip(&info.params)
            .map(|(p, (n, t))| Ok((n.name.clone(), self.param_type(t, p.ty.span)?)))
            .collect::<R<Vec<_>>>()?;
        if let Some(p) = s
            .params
            .iter()
            .zip(&args)
            .find(|(_, (_, t))| matches!(t, ir::desc::ParamType::Endpoints(_) | ir::desc::ParamType::Texts(..)))
        {
            return Err(self.error("E0615", p.0.ty.span, "a signal takes no lists"));
        }
        let mut l = Lower::new(self, module, Kind::Handler);
        l.in_app = true;
        l.place = format!("signal {name}");
        let body = l.signal_body(&info, s.name.span);
        let (result, ret) = body?;
        let body = l.body();
        self.no_suspension(&body, s.name.span)?;
        let span = self.span(s.name.span);
        let index = self.m.signals.len() as u32;
        let mut forms: Vec<Form> = info.params.iter().map(|(_, t)| self.argument_form(t)).collect();
        while forms.last() == Some(&Form::Plain) {
            forms.pop();
        }
        self.m.signals.push(ir::Signal {
            name: name.to_string(),
            doc: s.doc.to_string(),
            span,
            args,
            forms,
            defaults: vec![],
            masked: false,
            exported: s.exported,
            result,
            ret,
        });
        self.add_handler(&format!("signal {name}"), ir::On::Signal(index), s.name.span, body);
        Ok(())
    }

    /// A signal answers at once.
    fn no_suspension(&mut self, body: &ir::Body, span: Span) -> R<()> {
        let mut calls = false;
        ir::walk::stmts(&body.block, &mut |s| calls |= matches!(s.kind, StmtKind::Await { .. }));
        if !calls {
            return Ok(());
        }
        Err(self.report(
            Diagnostic::error("E0617", span, "a signal makes no calls")
                .label("it answers at once")
                .hint("let a timer gather its data into `state`"),
        ))
    }
}

impl Lower<'_, '_> {
    fn signal_body(&mut self, info: &Rc<crate::items::FnInfo>, span: Span) -> R<(ResultType, ir::TyId)> {
        let mut args = Vec::new();
        for (n, t) in &info.params {
            let local = self.new_local(&n.name, t);
            let v = Val::pure(t.clone(), self.local_expr(local));
            self.bind_all(&[(n.clone(), v)]);
            args.push(Arg { name: None, value: Expr { span: n.span, kind: Box::new(ExprKind::Name(n.clone())) } });
        }
        let v = self.call_fn(info, &args, span, None)?;
        let v = if info.ret == Ty::Unit || v.is_never() { Val::unit() } else { self.once(v, span) };
        let (result, e, max) = self.signal_result(v, span)?;
        if max > MAX_RESULT {
            return Err(self.cx.report(
                Diagnostic::error("E0617", span, format!("a result of up to {} is too large", crate::ty::size(max)))
                    .hint("at most 64KiB: cut it with `slice`"),
            ));
        }
        let ret = e.ty;
        self.push(span, StmtKind::Return(Some(e)));
        Ok((result, ret))
    }

    fn constant_bytes(&mut self, b: &[u8]) -> X {
        let t = self.cx.lower_ty(&Ty::Bytes(b.len() as u64));
        X::new(t, K::Bytes(b.to_vec()))
    }

    /// A value as a signal's result: its type, its bytes, and how many they are at most.
    pub fn signal_result(&mut self, v: Val, span: Span) -> R<(ResultType, X, u64)> {
        let (ty, kind) = (v.ty.clone(), v.kind.clone());
        match (ty, kind) {
            (Ty::Unit, _) => Ok((ResultType::Nothing, self.constant_bytes(b""), 0)),
            (Ty::Bool, Vk::Pure(c)) => {
                let (yes, no) = (self.constant_bytes(b"4:true"), self.constant_bytes(b"5:false"));
                let t = no.ty;
                Ok((ResultType::Bool, build::if_(t, c, build::cast(t, yes), no), 7))
            }
            (Ty::Option(_), _) => self.optional(v, span),
            (Ty::Record(r), Vk::Pure(e)) => {
                let fields = self.cx.records[r.index()].clone();
                self.members(&e, fields, span)
            }
            (Ty::Tuple(ts), Vk::Pure(e)) => {
                let fields = ts.iter().enumerate().map(|(i, t)| (i.to_string(), t.clone())).collect();
                self.members(&e, fields, span)
            }
            (Ty::Int { bits, .. }, Vk::Pure(e)) if bits <= 64 => self.leaf(ResultType::Int, e, span),
            (Ty::Enum(en), Vk::Pure(e)) if self.variants_by_name => self.variant_text(en, e, span),
            (Ty::Mac, Vk::Pure(e)) if self.variants_by_name => {
                let text = self.mac_text(e);
                self.leaf(ResultType::Text, text, span)
            }
            (Ty::Ip6, Vk::Pure(e)) if self.variants_by_name => {
                let text = self.ip6_text(e, span)?;
                self.leaf(ResultType::Text, text, span)
            }
            (Ty::Ip4 | Ty::Ip6, Vk::Pure(e)) => {
                let ip = self.address_as(e, &v.ty, &Ty::Ip, span)?;
                self.leaf(ResultType::Text, ip, span)
            }
            (Ty::Lit | Ty::Enum(_) | Ty::Duration | Ty::Instant | Ty::Fault | Ty::Mac, Vk::Pure(e)) => {
                self.leaf(ResultType::Int, e, span)
            }
            (Ty::Bytes(_) | Ty::Ip | Ty::Endpoint, Vk::Pure(e)) => self.leaf(ResultType::Text, e, span),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let s = self.show(&t);
                Err(self.cx.report(
                    Diagnostic::error("E0617", span, format!("a signal cannot answer {s}"))
                        .hint("integers, bools, bytes, addresses, and options, tuples and records of them"),
                ))
            }
        }
    }

    pub fn leaf(&mut self, ty: ResultType, e: X, span: Span) -> R<(ResultType, X, u64)> {
        let source = match self.cx.m.types.get(e.ty.index()) {
            Some(ir::Ty::UInt(_)) => build::cast(crate::compiler::T_U64, e),
            Some(ir::Ty::Int(_)) => {
                let t = self.cx.lower_ty(&Ty::Int { bits: 64, signed: true });
                build::cast(t, e)
            }
            _ => e,
        };
        let (text, max) = match self.cx.m.types.get(source.ty.index()) {
            Some(ir::Ty::Bytes(n)) => (source.clone(), *n),
            Some(ir::Ty::Ip) => (self.text_of(Val::pure(Ty::Ip, source), span)?, 46),
            Some(ir::Ty::Endpoint) => (self.text_of(Val::pure(Ty::Endpoint, source), span)?, 70),
            _ => {
                let t = self.cx.lower_ty(&Ty::Bytes(20));
                (build::builtin(t, B::TextU64, vec![source]), 20)
            }
        };
        let digits = self.cx.lower_ty(&Ty::Bytes(20));
        let len = build::builtin(digits, B::TextU64, vec![build::len_bytes(text.clone())]);
        let colon = self.constant_bytes(b":");
        let total = max.saturating_add(21);
        let t = self.cx.lower_ty(&Ty::Bytes(total));
        Ok((ty, build::builtin(t, B::Concat, vec![len, colon, text]), total))
    }

    fn optional(&mut self, v: Val, span: Span) -> R<(ResultType, X, u64)> {
        let Some(there) = self.is_there(&v) else { return Err(Reported) };
        let inner = self.inner(v);
        let (ty, e, max) = self.signal_result(inner, span)?;
        let max = max.saturating_add(1);
        let t = self.cx.lower_ty(&Ty::Bytes(max));
        let (plus, minus) = (self.constant_bytes(b"+"), self.constant_bytes(b"-"));
        let some = build::builtin(t, B::Concat, vec![plus, e]);
        Ok((ResultType::Option(Box::new(ty)), build::if_(t, there, some, build::cast(t, minus)), max))
    }

    fn members(&mut self, whole: &X, fields: Vec<(String, Ty)>, span: Span) -> R<(ResultType, X, u64)> {
        let (mut types, mut parts, mut total) = (vec![], vec![], 0u64);
        for (i, (name, t)) in fields.into_iter().enumerate() {
            let part = self.get(whole, i as u32, &t);
            let (ty, e, max) = self.signal_result(Val::pure(t, part), span)?;
            types.push((name, ty));
            parts.push(e);
            total = total.saturating_add(max);
        }
        let t = self.cx.lower_ty(&Ty::Bytes(total));
        Ok((ResultType::Record(types), build::builtin(t, B::Concat, parts), total))
    }
}
