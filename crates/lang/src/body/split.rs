//! Pieces of bytes: `words(b)`, `split(b, ",")`, and lists of them; and `join`, which makes bytes
//! of a list.

use super::walk::{Cut, Walk, MAX_ROUNDS};
use super::Lower;
use crate::compiler::{Reported, R, T_BOOL, T_U32};
use crate::ir_builder as build;
use crate::ty::{Ty, U32, U64};
use crate::val::{Val, Vk};
use ir::{BinOp, Expr as X, ExprKind as K, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    /// `split(b, ",")` where something is walked over: its arguments.
    pub fn split_of(&self, list: &Expr) -> Option<Vec<Expr>> {
        let ExprKind::Call(f, args) = &*list.kind else { return None };
        let ExprKind::Name(n) = &*f.kind else { return None };
        let own = n.name == "split" && self.lookup("split").is_none() && !self.cx.app.has("split");
        let plain = own && (2..=3).contains(&args.len()) && args.iter().all(|a| a.name.is_none());
        plain.then(|| args.iter().map(|a| a.value.clone()).collect())
    }

    pub fn split(&mut self, args: &[Expr]) -> R<Walk> {
        let v = self.expr(&args[0], None)?;
        let v = self.defined(v, args[0].span)?;
        let size = v.ty.bytes_max();
        let v = self.once(v, args[0].span);
        let text = self.bytes_of(v, args[0].span)?;
        let separator = self.bytes_arg(&args[1])?;
        let K::Bytes(separator) = *crate::fold::fold(&self.cx.m, &separator).kind else {
            return Err(self.no_separator(args[1].span));
        };
        if separator.is_empty() {
            return Err(self.no_separator(args[1].span));
        }
        let most = match args.get(2) {
            Some(n) => self.cx.const_u64(self.module, n)?.max(1),
            None => u64::MAX,
        };
        let pieces = (size / separator.len() as u64).saturating_add(1);
        let max = pieces.min(most).min(MAX_ROUNDS);
        Ok(Walk::Words(Cut { text, separator, empty: true, most }, max))
    }

    fn no_separator(&mut self, span: Span) -> Reported {
        let d = Diagnostic::error("E0306", span, "the separator is no constant text of one byte or more");
        self.cx.report(d.hint("write it as text: `split(b, \", \")`"))
    }

    /// `split(b, ",", 8)` as a list.
    pub fn split_list(&mut self, args: &[&Expr], span: Span) -> R<Val> {
        if !(2..=3).contains(&args.len()) {
            let d = Diagnostic::error("E0308", span, format!("`split` takes 2 or 3 arguments, found {}", args.len()));
            return Err(self.cx.report(d.hint("write `split(b, \",\")`, or `split(b, \",\", 8)`")));
        }
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let args: Vec<Expr> = args.iter().map(|a| (*a).clone()).collect();
        let walk = self.split(&args)?;
        let (max, item) = match &walk {
            Walk::Words(cut, max) => (*max, cut.text.ty),
            Walk::Items(..) | Walk::List(..) | Walk::Replies(..) | Walk::Range(..) | Walk::Last(..) => {
                return Ok(Val::error())
            }
        };
        let size = match self.cx.m.types.get(item.index()) {
            Some(ir::Ty::Bytes(n)) => *n,
            _ => 0,
        };
        let ty = Ty::List(Box::new(Ty::Bytes(size)), u32::try_from(max).unwrap_or(u32::MAX));
        let t = self.cx.lower_ty(&ty);
        self.has_room(t, max, span)?;
        let all = self.temp("", &ty, X::new(t, K::MakeList(vec![])), span);
        self.bounds.remove(&all);
        self.rounds(walk, span, |s, it| {
            let x = it.kind.clone().into_pure().ok_or(Reported)?;
            s.push(span, StmtKind::Push(all, x));
            Ok(())
        })?;
        Ok(Val::pure(ty, self.local_expr(all)))
    }

    /// `join(list, ", ")`
    pub fn join_list(&mut self, list: &Expr, separator: &Expr, span: Span) -> R<Val> {
        let v = self.expr(list, None)?;
        let v = self.defined(v, list.span)?;
        let (size, items) = match (&v.ty, &v.kind) {
            (Ty::List(of, n), Vk::Pure(_)) if matches!(**of, Ty::Bytes(_)) => (of.bytes_max(), u64::from(*n)),
            (Ty::Error, _) => return Ok(Val::error()),
            (t, _) => {
                let s = self.show(t);
                let d = Diagnostic::error("E0301", list.span, format!("expected a list of bytes, found {s}"));
                return Err(self.cx.report(d.hint("make one: `[x.name for x in list]`")));
            }
        };
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let v = self.once(v, list.span);
        let list = v.kind.into_pure().ok_or(Reported)?;
        let between = self.expr(separator, None)?;
        let gaps = between.ty.bytes_max().saturating_mul(items.saturating_sub(1));
        let between = self.bytes_of(between, separator.span)?;
        let ty = self.cx.measured(Ty::Bytes(size.saturating_mul(items).saturating_add(gaps)), span)?;
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, build::builtin(t, ir::Builtin::Join, vec![list, between])))
    }

    /// Rounds over the pieces of a text. In each: its rest is cut at the next separator.
    pub fn word_rounds(
        &mut self,
        cut: Cut,
        max: u64,
        span: Span,
        mut body: impl FnMut(&mut Self, Val) -> R<()>,
    ) -> R<()> {
        let Cut { text, separator, empty, most } = cut;
        // The piece at hand, if only so many are made.
        let count = (most <= max).then(|| {
            let l = self.temp("", &U64, build::u64(0), span);
            self.bounds.remove(&l);
            l
        });
        let size = match self.cx.m.types.get(text.ty.index()) {
            Some(ir::Ty::Bytes(n)) => *n,
            _ => 0,
        };
        let ty = Ty::Bytes(size);
        let (u64_ty, bytes) = (build::u64(0).ty, text.ty);
        // A field is looked up once, not for each word.
        let text = if matches!(&*text.kind, K::Read(_) | K::Raw(_)) {
            build::local(self.temp("", &ty, text, span), bytes)
        } else {
            text
        };
        let text = std::cell::RefCell::new(text);
        let at = self.temp("", &U64, build::u64(0), span);
        self.bounds.remove(&at);
        let sp = self.cx.span(span);
        self.loops += 1;
        // A text that changes meanwhile is taken as it was.
        let keep = |s: &mut Self| {
            let e = text.borrow().clone();
            *text.borrow_mut() = build::local(s.temp("", &ty, e, span), bytes);
        };
        let (made, block) = self.looped(
            |c| c.touch(&text.borrow()),
            keep,
            |s| {
                let text = text.borrow().clone();
                let len = build::cast(u64_ty, build::len_bytes(text.clone()));
                let here = build::local(at, u64_ty);
                s.push(
                    span,
                    StmtKind::If {
                        cond: build::not(build::cmp(
                            if empty { BinOp::Le } else { BinOp::Lt },
                            here.clone(),
                            len.clone(),
                        )),
                        then: vec![build::stmt(sp, StmtKind::Break)],
                        other: vec![],
                    },
                );
                let slice = |b: X, from: X, to: X| X::new(bytes, K::Builtin(ir::Builtin::Slice, vec![b, from, to]));
                let found = s.cx.lower_ty(&U32.option());
                let blank = {
                    let t = s.cx.lower_ty(&Ty::Bytes(separator.len() as u64));
                    X::new(t, K::Bytes(separator.clone()))
                };
                let blank = s.temp(
                    "",
                    &U32.option(),
                    X::new(found, K::Builtin(ir::Builtin::FindBytes, vec![text.clone(), blank, here.clone()])),
                    span,
                );
                let blank = build::local(blank, found);
                let mut there = X::new(T_BOOL, K::IsSome(blank.clone()));
                if let Some(count) = count {
                    let made = build::local(count, u64_ty);
                    let next = build::bin(u64_ty, BinOp::Add, made, build::u64(1));
                    s.push(span, StmtKind::Set(count, next));
                    // The last piece has the rest.
                    there = build::and(there, build::cmp(BinOp::Lt, build::local(count, u64_ty), build::u64(most)));
                }
                let n = build::if_(
                    u64_ty,
                    there,
                    build::cast(u64_ty, X::new(T_U32, K::Unwrap(blank))),
                    build::bin(u64_ty, BinOp::Sub, len, here.clone()),
                );
                let n = s.temp("", &U64, n, span);
                let n = build::local(n, u64_ty);
                let word = s.temp(
                    "",
                    &ty,
                    slice(text, here.clone(), build::bin(u64_ty, BinOp::Add, here.clone(), n.clone())),
                    span,
                );
                let next = build::bin(
                    u64_ty,
                    BinOp::Add,
                    build::bin(u64_ty, BinOp::Add, here, n.clone()),
                    build::u64(separator.len() as u64),
                );
                s.push(span, StmtKind::Set(at, next));
                if !empty {
                    let nothing = build::cmp(BinOp::Eq, n, build::u64(0));
                    let then = vec![build::stmt(sp, StmtKind::Continue)];
                    s.push(span, StmtKind::If { cond: nothing, then, other: vec![] });
                }
                body(s, Val::pure(ty.clone(), build::local(word, bytes)))
            },
        );
        self.loops -= 1;
        made?;
        if max > 0 {
            self.push(span, StmtKind::Loop { max, body: block });
        }
        Ok(())
    }
}
