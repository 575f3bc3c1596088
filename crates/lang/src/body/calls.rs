//! Calls of functions. A pure function becomes a function of the IR. One that takes messages or
//! touches state is inlined.

use super::destination::Sink;
use super::{Binding, Kind, Lower, Ret};
use crate::apps::scope::{AppName, Instance};
use crate::compiler::{Compiler, Reported, R};
use crate::consts;
use crate::ir_builder as build;
use crate::items::{FnInfo, How, Item};
use crate::names::Meaning;
use crate::ty::Ty;
use crate::val::Val;
use ir::StmtKind;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Arg, Block, Expr, ExprKind, FnBody, Ident, Span};
use wireloom_syntax::Diagnostic;

/// The target of a call.
pub enum Callee {
    Fn(Rc<FnInfo>),
    /// One that the element was given.
    FunctionArg(Rc<crate::apps::scope::FunctionArg>, Ident),
    /// A function or signal of an element's instance.
    Of(Ident, Rc<Instance>, Ident),
    Builtin(Ident),
    Convert(Ty),
    Method(Expr, Ident),
}

/// An item as the target of a call: a function, or an enum, to which a number is converted.
fn callee_of(item: Item) -> Option<Callee> {
    if let Item::Fn(f) = item {
        return Some(Callee::Fn(f));
    }
    if let Item::Enum(e) = item {
        return Some(Callee::Convert(Ty::Enum(e)));
    }
    None
}

/// Functions put into one another, and all calls so replaced in a program, and sends to elements.
const MAX_INLINED: usize = 16;
const MAX_COPIES: u32 = 5000;

impl Lower<'_, '_> {
    pub fn call(&mut self, e: &Expr, f: &Expr, args: &[Arg], want: Option<&Ty>) -> R<Val> {
        match self.callee(f)? {
            Callee::Fn(info) => self.call_fn(&info, args, e.span, None),
            Callee::FunctionArg(g, name) => self.call_given(&g, &name.name, args, e.span),
            Callee::Of(name, i, f) => self.call_of(&name, &i, &f, args, e.span),
            Callee::Builtin(name) => self.builtin(&name, args, e.span, want),
            Callee::Convert(ty) => self.convert(&ty, args, e.span),
            Callee::Method(base, name) => self.method(&base, &name, args, e.span, want),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn callee(&mut self, f: &Expr) -> R<Callee> {
        match &*f.kind {
            ExprKind::Name(n) => {
                if self.in_app {
                    match self.cx.app.get(&n.name) {
                        Some(AppName::Fn(f)) => return Ok(Callee::Fn(f.clone())),
                        Some(AppName::Type(_)) => {
                            if let Some(t) = self.cx.named_type(self.module, &n.name) {
                                return Ok(Callee::Convert(t));
                            }
                        }
                        Some(AppName::FunctionArg(g)) => return Ok(Callee::FunctionArg(g.clone(), n.clone())),
                        _ => {}
                    }
                }
                let found = self.cx.names.find(self.module, &[&n.name]);
                if let Some((Meaning::Item(id), 1)) = found {
                    if let Some(called) = callee_of(self.cx.item(id, n.span)?) {
                        return Ok(called);
                    }
                }
                match consts::int_name(&n.name).or_else(|| consts::address_name(&n.name)) {
                    Some(t) => Ok(Callee::Convert(t)),
                    None => Ok(Callee::Builtin(n.clone())),
                }
            }
            ExprKind::Field(Some(base), name) => {
                let local = consts::dotted(base)
                    .and_then(|p| p.first().map(|n| n.name.clone()))
                    .is_some_and(|n| self.lookup(&n).is_some() || (self.in_app && self.cx.app.has(&n)));
                if !local {
                    if let Some(id) = self.cx.expr_item(self.module, f) {
                        return callee_of(self.cx.item(id, f.span)?)
                            .ok_or_else(|| self.err("E0301", f.span, "this is no function"));
                    }
                    if let Some(parts) = consts::dotted(f) {
                        let names: Vec<&str> = parts.iter().map(|p| p.name.as_str()).collect();
                        if let Some((Meaning::Module, n)) = self.cx.names.find(self.module, &names) {
                            let what = format!("module `{}` has no function `{}`", names[..n].join("."), name.name);
                            let d = Diagnostic::error("E0201", f.span, what);
                            if !self.cx.has_hints() {
                                return Err(self.cx.report(d));
                            }
                            let known = self.cx.names.known(self.module);
                            let hint = crate::names::suggest(&names.join("."), known.iter().map(|k| &**k));
                            let d = match self.cx.names.contents(self.module, &names[..n].join(".")) {
                                Some(note) => d.note(note),
                                None => d,
                            };
                            return Err(self.cx.report(crate::names::with_hint(d, hint)));
                        }
                    }
                }
                if let (ExprKind::Name(n), true) = (&*base.kind, self.in_app) {
                    if let (None, Some(AppName::Instance(i))) = (self.lookup(&n.name), self.cx.app.get(&n.name)) {
                        return Ok(Callee::Of(n.clone(), i.clone(), name.clone()));
                    }
                }
                Ok(Callee::Method(base.clone(), name.clone()))
            }
            ExprKind::Error => Err(Reported),
            _ => Err(self.err("E0301", f.span, "this is no function")),
        }
    }

    /// Arguments in the order of the parameters.
    fn arguments<'e>(&mut self, info: &FnInfo, args: &'e [Arg], span: Span) -> R<Vec<&'e Expr>> {
        let mut slots: Vec<Option<&Expr>> = vec![None; info.params.len()];
        let mut at = 0;
        for a in args {
            let i = match &a.name {
                Some(n) => match info.params.iter().position(|(p, _)| p.name == n.name) {
                    Some(i) => i,
                    None => {
                        return Err(self.err("E0308", n.span, format!("`{}` has no parameter `{}`", info.name, n.name)))
                    }
                },
                None => {
                    at += 1;
                    at - 1
                }
            };
            match slots.get_mut(i) {
                Some(s @ None) => *s = Some(&a.value),
                Some(Some(_)) => return Err(self.err("E0308", a.value.span, "this parameter is given twice")),
                None => return Err(self.arguments_of(info, args.len(), span)),
            }
        }
        match slots.iter().copied().collect::<Option<Vec<_>>>() {
            Some(all) => Ok(all),
            None => Err(self.arguments_of(info, args.len(), span)),
        }
    }

    /// The number of arguments is wrong.
    fn arguments_of(&mut self, info: &FnInfo, found: usize, span: Span) -> Reported {
        let list: Vec<String> =
            info.params.iter().map(|(name, ty)| format!("{}: {}", name.name, self.cx.show(ty))).collect();
        let text = format!("`{}` takes {} arguments, found {found}", info.name, info.params.len());
        let d = Diagnostic::error("E0308", span, text);
        self.cx.report(d.note(format!("its parameters are ({})", list.join(", "))))
    }

    pub fn call_fn(&mut self, info: &Rc<FnInfo>, args: &[Arg], span: Span, sink: Option<Sink>) -> R<Val> {
        let vals = self.values(info, args, span)?;
        self.call_with(info, vals, span, sink)
    }

    /// The values of the arguments, in the order of the parameters.
    fn values(&mut self, info: &Rc<FnInfo>, args: &[Arg], span: Span) -> R<Vec<Val>> {
        let args = self.arguments(info, args, span)?;
        let mut vals = Vec::new();
        for (((_, t), p), a) in info.params.iter().zip(&info.ast.params).zip(args) {
            let any = self.cx.any_packet(info.module, &p.ty);
            vals.push(self.argument(a, t, any));
        }
        vals.into_iter().collect()
    }

    /// `gate.open(true)`: a function or signal of an instance, which sees the element's names and
    /// sends to its ways out.
    fn call_of(&mut self, name: &Ident, i: &Rc<Instance>, f: &Ident, args: &[Arg], span: Span) -> R<Val> {
        if self.outlets.len() >= 16 {
            return Err(self.cx.recursion(&name.name, span));
        }
        let outer = std::mem::replace(&mut self.cx.app, i.scope.clone());
        self.cx.callable_signals(i.module, &i.element);
        let found = self.cx.app.function(&f.name);
        let known: Vec<String> = self.cx.app.names().filter(|n| self.cx.app.function(n).is_some()).collect();
        self.cx.app = outer;
        let Some(info) = found else {
            let d = Diagnostic::error(
                "E0201",
                f.span,
                format!("`{}` has no function or signal `{}`", i.element.name.name, f.name),
            );
            let hint = crate::names::suggest(&f.name, known.iter().map(String::as_str));
            return Err(self.cx.report(crate::names::with_hint(d, hint)));
        };
        let vals = self.values(&info, args, span)?;
        let rest = self.behind(&name.name, i, false, span)?;
        let outlet = self.outlet_of(&name.name, i, &rest, span)?;
        self.in_instance(i, outlet, |s| s.call_with(&info, vals, span, None))
    }

    pub fn call_with(&mut self, info: &Rc<FnInfo>, vals: Vec<Val>, span: Span, sink: Option<Sink>) -> R<Val> {
        // Its body is checked at its first use, because the targets of its sends must be known.
        let around = std::mem::replace(&mut self.cx.around, if info.in_app { self.outlets.clone() } else { vec![] });
        let how = self.cx.function(info, span);
        self.cx.around = around;
        match how? {
            How::Func(id) => {
                let exprs = vals.into_iter().map(|v| v.kind.into_pure().ok_or(Reported)).collect::<R<Vec<_>>>()?;
                let t = self.cx.lower_ty(&info.ret);
                let call = ir::Expr::new(t, ir::ExprKind::Call(id, exprs));
                if self.kind == Kind::Const {
                    return Err(self.err("E0306", span, "a function is not called at compile time"));
                }
                Ok(Val::pure(info.ret.clone(), call))
            }
            How::Unseen | How::Busy | How::Inline | How::Failed => self.aside(|s| s.inline(info, vals, span, sink)),
        }
    }

    /// `any`: the parameter takes packets of any type.
    pub fn argument(&mut self, a: &Expr, t: &Ty, any: bool) -> R<Val> {
        if t.is_plain() {
            let e = self.expr_as(a, t)?;
            return Ok(Val::pure(t.clone(), e));
        }
        let v = self.expr(a, Some(t))?;
        let v = if t.is_option() { v } else { self.defined(v, a.span)? };
        match (&v.ty, t) {
            (a, b) if a == b => Ok(v),
            _ if any && self.is_packet(&v) => Ok(v),
            (Ty::Items(x, n), Ty::Items(y, m)) if x == y && n <= m => Ok(v),
            (found, _) => {
                let found = found.clone();
                Err(self.mismatch(t, &found, a.span))
            }
        }
    }

    /// Puts a function's body in the place of its call.
    fn inline(&mut self, info: &Rc<FnInfo>, vals: Vec<Val>, span: Span, sink: Option<Sink>) -> R<Val> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        if self.inlined.contains(&info.name) {
            return Err(self.cx.recursion(&info.name, span));
        }
        self.copies(span)?;
        let vals: Vec<Val> =
            vals.into_iter().map(|v| if self.frames { self.now(v, span) } else { self.once(v, span) }).collect();
        let scope = info
            .params
            .iter()
            .zip(vals)
            .map(|((n, _), val)| Binding {
                name: n.name.clone(),
                span: n.span,
                val,
                var: None,
                used: true,
                epoch: self.epoch,
                state: false,
                reply: false,
            })
            .collect();
        let scopes = std::mem::replace(&mut self.scopes, vec![scope]);
        let (module, in_app, called) = (self.module, self.in_app, self.call_into(info.module, span));
        (self.module, self.in_app) = (info.module, info.in_app);
        let (dot, params_of) = (self.dot.take(), self.params_of.take());
        self.inlined.push(info.name.clone());
        let made = self.deeper(span, |s| s.as_text(|s| s.inline_body(info, span, sink)));
        self.inlined.pop();
        self.scopes = scopes;
        (self.module, self.in_app, self.called) = (module, in_app, called);
        (self.dot, self.params_of) = (dot, params_of);
        made
    }

    fn inline_body(&mut self, info: &Rc<FnInfo>, span: Span, sink: Option<Sink>) -> R<Val> {
        let plain = info.ret.is_plain() && info.ret != Ty::Unit;
        match &info.ast.body {
            FnBody::Extern(..) => Err(self.err("E0309", span, "a function in C takes and gives plain data only")),
            FnBody::Expr(e) => match sink {
                Some(sink) => self.deliver(e, &sink),
                None => self.inline_value(info, e),
            },
            FnBody::Block(b) if !has_return(b) => match sink {
                Some(sink) => self.deliver_block(b, &sink),
                None if plain => {
                    let v = self.block(b, Some(&info.ret))?;
                    let e = self.coerce(v, &info.ret, span)?;
                    Ok(Val::pure(info.ret.clone(), e))
                }
                None => self.block(b, Some(&info.ret)),
            },
            FnBody::Block(b) => self.inline_returns(info, b, span, sink, plain),
        }
    }

    fn inline_value(&mut self, info: &Rc<FnInfo>, e: &Expr) -> R<Val> {
        if info.ret.is_plain() && info.ret != Ty::Unit {
            let v = self.expr_may_leave(e, Some(&info.ret))?;
            let x = self.coerce(v, &info.ret, e.span)?;
            return Ok(Val::pure(info.ret.clone(), x));
        }
        self.expr_may_leave(e, Some(&info.ret))
    }

    /// Copies may double at every step: there is a limit, reported once.
    fn one_more_copy(&mut self, too_deep: bool, told: impl FnOnce() -> Diagnostic) -> R<()> {
        self.cx.inlined = self.cx.inlined.saturating_add(1);
        if !too_deep && self.cx.inlined < MAX_COPIES {
            return Ok(());
        }
        if self.cx.inlined > MAX_COPIES {
            return Err(Reported);
        }
        self.cx.inlined = MAX_COPIES;
        Err(self.cx.report(told()))
    }

    /// Functions in the place of their calls.
    pub fn copies(&mut self, span: Span) -> R<()> {
        self.one_more_copy(self.inlined.len() >= MAX_INLINED, || {
            Diagnostic::error("E0504", span, "functions are nested too deeply here")
                .label("one call too many")
                .note("a function that takes or gives messages, or touches state, is put in the place of its calls")
                .hint("call it once and keep the result with `let`, or pass fields of the message")
        })
    }

    /// Elements of services in the place of each send to them.
    pub fn element_copies(&mut self, name: &str, span: Span) -> R<()> {
        self.one_more_copy(false, || Diagnostic::error("E0506", span, format!("`{name}` and the elements around it stand in too many places")).label("one place too many")
            .note("each send to an element copies it, with the wiring behind it: several sends in each of a chain of elements multiply the copies")
            .hint("send once, at the end of the handler"))
    }

    /// `return` in an inlined body leaves a loop of one round.
    fn inline_returns(&mut self, info: &Rc<FnInfo>, b: &Block, span: Span, sink: Option<Sink>, plain: bool) -> R<Val> {
        if !plain && info.ret != Ty::Unit && sink.is_none() {
            return Err(self.cx.report(
                Diagnostic::error(
                    "E0309",
                    span,
                    format!("`{}` gives a message by `return`, which can only be sent directly", info.name),
                )
                .hint("use the call directly in `reply`, `call` or `->`"),
            ));
        }
        let result = plain.then(|| {
            let zero = self.zero(&info.ret);
            let l = self.temp("", &info.ret, zero, span);
            self.bounds.remove(&l);
            l
        });
        let done = self.temp("", &Ty::Bool, build::boolean(false), span);
        let (ty, loops) = (info.ret.clone(), self.loops);
        let ret = Ret::Inline { result, ty, done, loops, sink: sink.clone(), element: false };
        let outer = std::mem::replace(&mut self.ret, ret);
        let (made, mut block) = self.sub(|s| -> R<()> {
            match &sink {
                Some(sink) => {
                    s.deliver_block(b, sink)?;
                }
                None => {
                    let v = s.block(b, Some(&info.ret))?;
                    if let (Some(l), false) = (result, v.is_never()) {
                        let e = s.coerce(v, &info.ret, span)?;
                        s.push(span, StmtKind::Set(l, e));
                    }
                }
            }
            Ok(())
        });
        self.ret = outer;
        made?;
        let sp = self.cx.span(span);
        block.push(build::stmt(sp, StmtKind::Break));
        self.behind_jumps(&block);
        self.push(span, StmtKind::Loop { max: 1, body: block });
        Ok(match result {
            Some(l) => Val::pure(info.ret.clone(), self.local_expr(l)),
            None => Val::unit(),
        })
    }
}

impl Compiler<'_> {
    pub fn recursion(&mut self, name: &str, span: Span) -> Reported {
        self.report(
            Diagnostic::error("E0501", span, format!("`{name}` calls itself"))
                .label("recursion")
                .note("every program ends: functions may not call themselves, not even through others")
                .hint("use `for`, `fold` or `loop max N`"),
        )
    }

    /// Compiles a function at its first use.
    pub fn function(&mut self, info: &Rc<FnInfo>, span: Span) -> R<How> {
        match info.how.get() {
            How::Unseen => {}
            How::Busy => {
                let r = self.recursion(&info.name, span);
                return Err(r);
            }
            How::Failed => return Err(Reported),
            how @ (How::Func(_) | How::Inline) => return Ok(how),
        }
        if info.params.iter().any(|(_, t)| !t.is_plain()) || !info.ret.is_plain() {
            // It is lowered at each call; here its body is checked once, calls or not.
            info.how.set(How::Busy);
            let sound = if info.ret.is_plain() {
                self.compile_function(info) != How::Failed
            } else {
                self.gives_messages(info)
            };
            info.how.set(if sound { How::Inline } else { How::Failed });
            return if sound { Ok(How::Inline) } else { Err(Reported) };
        }
        info.how.set(How::Busy);
        let how = self.within(span, 4, |cx| Ok(cx.compile_function(info))).unwrap_or(How::Failed);
        info.how.set(how);
        if how == How::Failed {
            Err(Reported)
        } else {
            Ok(how)
        }
    }

    /// Checks a function that gives messages; nothing of it is kept.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn gives_messages(&mut self, info: &Rc<FnInfo>) -> bool {
        let inlined = self.inlined;
        let mut l = Lower::new(self, info.module, Kind::Handler);
        l.in_app = info.in_app;
        l.unused = true;
        l.frames = !l.cx.frame_units.is_empty();
        l.outlets = l.cx.around.clone();
        l.place = format!("fn {}", info.name);
        let vals: Vec<Val> = info
            .params
            .iter()
            .map(|(n, t)| {
                let local = l.new_local(&n.name, t);
                match t {
                    Ty::Msg(_) => Val::path(t.clone(), build::msg(local)),
                    t if t.is_plain() => Val::pure(t.clone(), l.local_expr(local)),
                    _ => Val::error(),
                }
            })
            .collect();
        let sink = match &info.ret {
            Ty::Msg(unit) if l.cx.m.units[unit.index()].frame.is_none() => Some(Sink::Check { unit: *unit }),
            _ => None,
        };
        let made = l.inline(info, vals, info.ast.name.span, sink);
        self.inlined = inlined;
        made.is_ok()
    }

    /// The C file of a function can be read.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the system has many kinds of errors")]
    pub fn c_file(&mut self, file: &str, at: Span) -> R<()> {
        let main = self.map.files().next().map(|(_, f)| f.path.clone()).unwrap_or_default();
        let path = main.parent().unwrap_or(std::path::Path::new("")).join(file);
        let Err(e) = self.world.read(&path) else { return Ok(()) };
        let why = match e.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_string(),
            std::io::ErrorKind::IsADirectory => "this is a folder".to_string(),
            std::io::ErrorKind::PermissionDenied => "this user may not read it".to_string(),
            _ => e.to_string(),
        };
        let d = Diagnostic::error("E0686", at, format!("the C file `{file}` cannot be read")).label(why);
        Err(self.once(d.hint(format!("its place is beside the program's file: `{}`", path.display()))))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn compile_function(&mut self, info: &Rc<FnInfo>) -> How {
        let ret = self.lower_ty(&info.ret);
        let span = self.span(info.ast.name.span);
        let func = |body| ir::Func { name: info.name.clone(), span, params: info.params.len() as u32, ret, body };
        if let FnBody::Extern(file, at) = &info.ast.body {
            if ir::c_words::is_c_word(&info.name) {
                let d = Diagnostic::error(
                    "E0627",
                    info.ast.name.span,
                    format!("`{}` is no name of a function in C", info.name),
                );
                self.report(d.label("a word or macro of C").hint("give it another name there and here"));
                return How::Failed;
            }
            if self.c_file(file, *at).is_err() {
                return How::Failed;
            }
            let f = func(ir::FuncBody::Extern { file: file.clone(), symbol: info.name.clone() });
            self.m.funcs.push(f);
            return How::Func(ir::FuncId(self.m.funcs.len() as u32 - 1));
        }
        let mut l = Lower::new(self, info.module, Kind::Func);
        l.in_app = info.in_app;
        l.frames = !l.cx.frame_units.is_empty();
        l.outlets = l.cx.around.clone();
        l.place = format!("fn {}", info.name);
        l.ret = Ret::Body(info.ret.clone());
        for (n, t) in &info.params {
            let local = l.new_local(&n.name, t);
            let e = l.local_expr(local);
            let val = match t {
                Ty::Msg(_) => Val::path(t.clone(), build::msg(local)),
                t if t.is_plain() => Val::pure(t.clone(), e),
                // A list of a message has no form of its own outside of one.
                _ => Val::error(),
            };
            l.impure |= !t.is_plain();
            l.bind_all(&[(n.clone(), val)]);
        }
        let made = l.function_body(info);
        l.leave();
        let impure = l.impure;
        let body =
            ir::Body { locals: std::mem::take(&mut l.locals), block: std::mem::take(&mut l.out), ..Default::default() };
        match made {
            Err(_) => How::Failed,
            Ok(()) if impure => How::Inline,
            Ok(()) => {
                self.m.funcs.push(func(ir::FuncBody::Body(body)));
                How::Func(ir::FuncId(self.m.funcs.len() as u32 - 1))
            }
        }
    }
}

impl Lower<'_, '_> {
    /// The value of a body's last `let`, if it stands on a line of its own.
    fn value_of_last_line(&self, body: &FnBody) -> Option<Span> {
        let FnBody::Block(block) = body else { return None };
        let last = block.stmts.last()?;
        let wireloom_syntax::ast::StmtKind::Let { value, .. } = &last.kind else { return None };
        let text = &self.cx.map.file(last.span.file)?.text;
        let before = text.get(last.span.start as usize..value.span.start as usize)?;
        before.contains('\n').then_some(value.span)
    }

    fn function_body(&mut self, info: &FnInfo) -> R<()> {
        let (v, span) = match &info.ast.body {
            FnBody::Expr(e) => (self.expr_may_leave(e, Some(&info.ret))?, e.span),
            FnBody::Block(b) => (self.block(b, Some(&info.ret))?, b.span),
            FnBody::Extern(..) => return Ok(()),
        };
        if v.is_never() {
            return Ok(());
        }
        if info.ret == Ty::Unit {
            self.push(span, StmtKind::Return(None));
            return Ok(());
        }
        if v.ty == Ty::Unit {
            // A part of it could not be read.
            let within = |d: &Diagnostic| {
                d.code.starts_with("E01")
                    && d.span().is_some_and(|s| s.file == span.file && s.start >= span.start && s.end <= span.end)
            };
            if self.cx.diags.iter().any(within) {
                return Err(Reported);
            }
            let want = self.show(&info.ret);
            let text = format!("`{}` must give {want} on every way", info.name);
            let d = Diagnostic::error("E0301", info.ast.name.span, text).label("ends without a value");
            return Err(self.cx.report(match self.value_of_last_line(&info.ast.body) {
                Some(value) => d
                    .also(value, "the value of the `let` above")
                    .hint("a `let` with nothing behind its `=` takes the next line: write its value there"),
                None => d.hint("its last line is its value: an expression without `let`, or `return …`"),
            }));
        }
        let e = self.coerce(v, &info.ret, span)?;
        self.push(span, StmtKind::Return(Some(e)));
        Ok(())
    }
}

/// Whether a block has a `return` anywhere.
pub fn has_return(b: &Block) -> bool {
    format!("{b:?}").contains("Return(")
}
