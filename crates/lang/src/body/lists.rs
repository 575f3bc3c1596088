//! Iteration over lists: `for`, comprehensions, `fold`, and the methods of lists. Items of a
//! message's list are read in place.

use super::loops::Changes;
use super::walk::{Cut, Walk, MAX_ROUNDS};
use super::Lower;
use crate::apps::scope::AppName;
use crate::compiler::{Reported, R, T_BOOL, T_U32, T_U64};
use crate::ir_builder as build;
use crate::ty::{Ty, U32, U64};
use crate::val::{Val, Vk};
use ir::{BinOp, Expr as X, ExprKind as K, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Arg, Expr, ExprKind, Ident, Pattern, Span};
use wireloom_syntax::Diagnostic;

/// Most bytes of the lists of one handler or function, on the 2 MiB stack of a core's thread.
const LISTS_MAX: u64 = 1 << 20;

impl Lower<'_, '_> {
    fn walk(&mut self, list: &Expr) -> R<Walk> {
        if let ExprKind::Range(a, b, inclusive) = &*list.kind {
            return self.range(a, b, *inclusive, list.span);
        }
        if let Some(text) = self.words_of(list) {
            return self.words(text);
        }
        if let Some(args) = self.split_of(list) {
            return self.split(&args);
        }
        let v = self.expr(list, None)?;
        let v = self.defined(v, list.span)?;
        let v = self.once(v, list.span);
        match (v.ty, v.kind) {
            (Ty::Items(e, n), Vk::Path(p)) => Ok(Walk::Items(p, *e, u64::from(n))),
            (Ty::List(t, n), Vk::Pure(e)) => Ok(Walk::List(e, *t, u64::from(n))),
            (Ty::Replies(u), _) => Ok(Walk::Replies(u, self.parts_max)),
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let s = self.show(&t);
                let mut d = Diagnostic::error("E0303", list.span, format!("{s} cannot be walked over"));
                if matches!(t, Ty::Table(_)) {
                    d = d.hint("`let (at, entry) = t.next(at)` gives the entries one by one; the walk starts at 0");
                }
                Err(self.cx.report(d))
            }
        }
    }

    /// `words(b)` where something is walked over.
    pub fn words_of<'e>(&self, list: &'e Expr) -> Option<&'e Expr> {
        let ExprKind::Call(f, args) = &*list.kind else { return None };
        match (&*f.kind, args.as_slice()) {
            (ExprKind::Name(n), [Arg { name: None, value }])
                if n.name == "words" && self.lookup("words").is_none() && !self.cx.app.has("words") =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    fn words(&mut self, text: &Expr) -> R<Walk> {
        let v = self.expr(text, None)?;
        let v = self.defined(v, text.span)?;
        let v = self.once(v, text.span);
        let b = self.bytes_of(v, text.span)?;
        let max = match self.cx.m.types.get(b.ty.index()) {
            Some(ir::Ty::Bytes(n)) => *n,
            _ => 0,
        };
        let cut = Cut { text: b, separator: b" ".to_vec(), empty: false, most: u64::MAX };
        Ok(Walk::Words(cut, (max.saturating_add(1) / 2).clamp(1, MAX_ROUNDS)))
    }

    fn range(&mut self, a: &Expr, b: &Expr, inclusive: bool, span: Span) -> R<Walk> {
        let (va, vb) = (self.expr(a, None)?, self.expr(b, None)?);
        let (va, vb) = (self.defined(va, a.span)?, self.defined(vb, b.span)?);
        let ty = match self.join(&va.ty, &vb.ty) {
            Some(Ty::Int { bits, signed: false }) => {
                if bits <= 32 {
                    U32
                } else {
                    U64
                }
            }
            // Small constants count in the narrower type, which widens by itself.
            Some(Ty::Lit) => match &vb.kind {
                Vk::Pure(e) if build::as_int(e).is_some_and(|n| n < 1 << 31) => U32,
                Vk::Pure(_) | Vk::Path(_) | Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => U64,
            },
            Some(Ty::Error) => return Err(Reported),
            _ if [&va.ty, &vb.ty].iter().any(|t| matches!(t, Ty::Int { signed: true, .. })) => {
                let d = Diagnostic::error("E0301", span, "a loop counts in unsigned integers");
                return Err(self.cx.report(d.hint("count from 0, and subtract in the loop: `i64(i) - 5`")));
            }
            _ => {
                let (p, q) = (va.ty, vb.ty);
                return Err(self.mismatch(&p, &q, span));
            }
        };
        let (from, to) = (self.coerce(va, &ty, a.span)?, self.coerce(vb, &ty, b.span)?);
        if let (true, Some(a), Some(b)) = (inclusive, build::as_int(&from), build::as_int(&to)) {
            if b == u128::from(u64::MAX) && (b - a) < u128::from(MAX_ROUNDS) {
                return Ok(Walk::Last(a as u64, (b - a) as u64 + 1));
            }
        }
        let to = if inclusive {
            let t = to.ty;
            build::bin(t, BinOp::AddSat, to, build::int(t, 1))
        } else {
            to
        };
        let to = crate::fold::fold(&self.cx.m, &to);
        let known = match (build::as_int(&from), build::as_int(&to)) {
            (Some(a), Some(b)) => Some((b as u64).saturating_sub(a as u64)),
            _ => None,
        };
        let max = known.unwrap_or_else(|| self.upper(&to));
        if let Some(rounds) = known.filter(|n| *n > MAX_ROUNDS) {
            let text = format!("this range has {rounds} numbers, and a `for` takes at most {MAX_ROUNDS}");
            let d = Diagnostic::error("E0514", span, text);
            return Err(self.cx.report(d.hint("write `loop max N { … break … }` for more rounds")));
        }
        if max > MAX_ROUNDS {
            return Err(self.cx.report(
                Diagnostic::error("E0505", span, "nothing bounds the rounds of this loop").hint(
                    "bound the end with a constant: `for i in 0..min(n, 100)`, or use `loop max N { … break … }`",
                ),
            ));
        }
        Ok(Walk::Range(from, to, max))
    }

    /// The largest value that an expression's form allows.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn upper(&self, e: &X) -> u64 {
        match &*e.kind {
            K::Int(n) => u64::try_from(*n).unwrap_or(u64::MAX),
            K::Builtin(ir::Builtin::Min, args) => args.iter().map(|a| self.upper(a)).min().unwrap_or(u64::MAX),
            K::Binary(BinOp::BitAnd, a, b) => self.upper(a).min(self.upper(b)),
            K::Binary(BinOp::Rem, _, b) => self.upper(b).saturating_sub(1),
            K::Binary(BinOp::AddSat, a, b) => self.upper(a).saturating_add(self.upper(b)),
            K::PortLen(p) => self.cx.app.instances(*p),
            K::Parts => self.parts_max,
            K::ListLen(l) => match self.cx.m.types.get(l.ty.index()) {
                Some(ir::Ty::List(_, n)) => u64::from(*n),
                _ => u64::MAX,
            },
            K::Builtin(ir::Builtin::LenBytes, args) => {
                match args.first().and_then(|a| self.cx.m.types.get(a.ty.index())) {
                    Some(ir::Ty::Bytes(n)) => *n,
                    _ => u64::MAX,
                }
            }
            K::Cast(a) => self.upper(a),
            K::Local(l) if self.bounds.contains_key(l) => self.bounds[l],
            K::Count(p) => self.count_max(p),
            K::If(_, a, b) => self.upper(a).max(self.upper(b)),
            K::Binary(BinOp::Div, a, b) => match build::as_int(b) {
                Some(n) if n > 0 => self.upper(a) / (n as u64).max(1),
                _ => self.upper(a),
            },
            K::Binary(BinOp::Shr, a, _) => self.upper(a),
            _ => match self.cx.m.types.get(e.ty.index()) {
                Some(ir::Ty::UInt(b)) if *b <= 16 => (1 << b) - 1,
                _ => u64::MAX,
            },
        }
    }

    fn count_max(&self, p: &ir::Path) -> u64 {
        match self.field_at(p) {
            Some(ir::Field { kind: ir::FieldKind::List { max, .. }, .. }) => u64::from(max),
            _ => u64::MAX,
        }
    }

    /// Runs a piece of lowering for every item.
    pub fn each(
        &mut self,
        pattern: &Pattern,
        list: &Expr,
        span: Span,
        mut body: impl FnMut(&mut Self) -> R<()>,
    ) -> R<u64> {
        let walk = self.walk(list)?;
        let max = walk.max();
        self.rounds(walk, span, |s, item| {
            s.destructure(pattern, item, span)?;
            body(s)
        })?;
        Ok(max)
    }

    pub fn rounds(&mut self, walk: Walk, span: Span, mut body: impl FnMut(&mut Self, Val) -> R<()>) -> R<()> {
        if self.pure_only() {
            return Err(self.involved(span));
        }
        let max = walk.max();
        let walk = match walk {
            Walk::Words(cut, max) => return self.word_rounds(cut, max, span, body),
            other @ (Walk::Items(..) | Walk::List(..) | Walk::Replies(..) | Walk::Range(..) | Walk::Last(..)) => other,
        };
        let var_ty = match &walk {
            Walk::Range(a, ..) if a.ty != T_U32 => U64,
            Walk::Last(..) => U64,
            Walk::Items(..) | Walk::List(..) | Walk::Replies(..) | Walk::Range(..) | Walk::Words(..) => U32,
        };
        let var = self.new_local("i", &var_ty);
        let index = self.local_expr(var);
        let walk = std::cell::RefCell::new(walk);
        self.loops += 1;
        // A list or an end that changes meanwhile is taken as it was.
        let changed = |c: &Changes| match &*walk.borrow() {
            Walk::List(e, ..) | Walk::Range(_, e, _) => c.touch(e),
            Walk::Items(..) | Walk::Replies(..) | Walk::Words(..) | Walk::Last(..) => false,
        };
        let keep = |s: &mut Self| {
            let mut walk = walk.borrow_mut();
            let ty = match &*walk {
                Walk::List(_, t, n) => Ty::List(Box::new(t.clone()), u32::try_from(*n).unwrap_or(u32::MAX)),
                Walk::Items(..) | Walk::Replies(..) | Walk::Range(..) | Walk::Words(..) | Walk::Last(..) => {
                    var_ty.clone()
                }
            };
            if let Walk::List(e, ..) | Walk::Range(_, e, _) = &mut *walk {
                let l = s.temp("", &ty, e.clone(), span);
                *e = s.local_expr(l);
            }
        };
        let (made, block) = self.looped(changed, keep, |s| {
            s.know(build::cmp(BinOp::Lt, index.clone(), walk.borrow().end()));
            let item = match &*walk.borrow() {
                Walk::Items(p, e, _) => s.cx.item_val(p, e, index.clone()),
                Walk::List(l, t, _) => {
                    let ty = s.cx.lower_ty(t);
                    Val::pure(t.clone(), X::new(ty, K::ListGet(l.clone(), index.clone())))
                }
                Walk::Replies(u, _) => {
                    let dst = s.new_local("", &Ty::Msg(*u));
                    s.push(span, StmtKind::BindPart { dst, part: index.clone() });
                    Val::path(Ty::Msg(*u), build::msg(dst))
                }
                Walk::Last(from, _) => {
                    let at = build::bin(T_U64, BinOp::Add, build::u64(*from), index.clone());
                    Val::pure(U64, at)
                }
                Walk::Range(..) | Walk::Words(..) => Val::pure(var_ty.clone(), index.clone()),
            };
            body(s, item)
        });
        self.loops -= 1;
        made?;
        let walk = walk.into_inner();
        let from = match &walk {
            Walk::Range(a, ..) => a.clone(),
            Walk::Last(..) => build::u64(0),
            Walk::Items(..) | Walk::List(..) | Walk::Replies(..) | Walk::Words(..) => build::u32(0),
        };
        // Of no rounds nothing is left.
        if max > 0 {
            self.push(span, StmtKind::For { var, from, to: walk.end(), max, body: block });
        }
        Ok(())
    }

    /// Runs a piece of lowering for every answer; it gets the answer's number.
    pub fn each_answer(&mut self, answers: &Expr, name: &Ident, mut body: impl FnMut(&mut Self, X) -> R<()>) -> R<()> {
        let walk = self.walk(answers)?;
        let n = self.temp("", &U32, build::u32(0), answers.span);
        self.bounds.remove(&n);
        self.rounds(walk, answers.span, |s, item| {
            s.destructure(&Pattern::Name(name.clone()), item, answers.span)?;
            body(s, s.local_expr(n))?;
            let next = build::bin(T_U32, BinOp::Add, s.local_expr(n), build::u32(1));
            s.push(answers.span, StmtKind::Set(n, next));
            Ok(())
        })
    }

    /// `[e for x in xs if c]` as a list value.
    pub fn comprehension(&mut self, e: &Expr, want: Option<&Ty>) -> R<Val> {
        let ExprKind::Comprehension { value, pattern, list, cond } = &*e.kind else { return Err(Reported) };
        let walk = self.walk(list)?;
        let max = walk.max();
        let item_want = match want {
            Some(Ty::List(t, _)) => Some((**t).clone()),
            _ => None,
        };
        // The items' type is known after the first look; the list's local is made then.
        let slot = self.new_local("", &Ty::Unit);
        let mut item_ty = None;
        let at = self.out.len();
        self.rounds(walk, e.span, |s, item| {
            s.destructure(pattern, item, e.span)?;
            let push = |s: &mut Self, item_ty: &mut Option<Ty>| -> R<Val> {
                let v = s.expr(value, item_want.as_ref())?;
                let t = match &item_want {
                    Some(t) => t.clone(),
                    None => s.decided(&v.ty, value.span)?,
                };
                if !t.is_plain() && !t.is_error() {
                    let n = s.show(&t);
                    return Err(s.err("E0309", value.span, format!("a list cannot hold {n}")));
                }
                let x = s.coerce(v, &t, value.span)?;
                s.check_slice(&x, value.span)?;
                *item_ty = Some(t);
                s.push(value.span, StmtKind::Push(slot, x));
                Ok(Val::unit())
            };
            s.filtered(cond.as_ref(), e.span, |s| push(s, &mut item_ty)).map(|_| ())
        })?;
        let ty = Ty::List(Box::new(item_ty.ok_or(Reported)?), u32::try_from(max).unwrap_or(u32::MAX));
        let t = self.cx.lower_ty(&ty);
        self.has_room(t, max, e.span)?;
        self.locals[slot.index()].ty = t;
        let sp = self.cx.span(e.span);
        self.out.insert(at, build::stmt(sp, StmtKind::Set(slot, X::new(t, K::MakeList(vec![])))));
        Ok(Val::pure(ty, self.local_expr(slot)))
    }

    /// The items of a list that do not equal another.
    pub fn kept_items(&mut self, list: (X, Ty, u32), item: X, span: Span) -> R<Val> {
        let (list, of, max) = list;
        let ty = Ty::List(Box::new(of.clone()), max);
        let t = self.cx.lower_ty(&ty);
        let kept = self.temp("", &ty, X::new(t, K::MakeList(vec![])), span);
        self.bounds.remove(&kept);
        self.rounds(Walk::List(list, of, u64::from(max)), span, |s, it| {
            let x = it.kind.clone().into_pure().ok_or(Reported)?;
            let cond = build::not(build::cmp(BinOp::Eq, x.clone(), item.clone()));
            let then = vec![build::stmt(s.cx.span(span), StmtKind::Push(kept, x))];
            s.push(span, StmtKind::If { cond, then, other: vec![] });
            Ok(())
        })?;
        self.has_room(t, u64::from(max), span)?;
        Ok(Val::pure(ty, self.local_expr(kept)))
    }

    /// Lists lie on the stack of the core's thread, with room for the most items that they may
    /// have.
    pub fn has_room(&mut self, list: ir::TyId, max: u64, span: Span) -> R<()> {
        self.lists = self.lists.saturating_add(self.in_memory(list));
        if self.lists <= LISTS_MAX {
            return Ok(());
        }
        let n = self.lists;
        Err(self.cx.report(
            Diagnostic::error(
                "E0511",
                span,
                format!("the lists of this handler or function may take {n} bytes; the limit is {LISTS_MAX}"),
            )
            .label(format!("may have {max} items"))
            .hint("bound it (`for i in 0..min(n, 1000)`), or use `for`, `fold` or `.any`, which need no list"),
        ))
    }

    /// Bytes of a value, as compiled code holds it.
    fn in_memory(&self, t: ir::TyId) -> u64 {
        match self.cx.m.types.get(t.index()) {
            Some(ir::Ty::Bytes(_)) => 16,
            Some(ir::Ty::List(item, n)) => self.in_memory(*item).saturating_mul(u64::from(*n)).saturating_add(8),
            _ => ir::layout::size(&self.cx.m, t).max(1),
        }
    }

    pub fn list_expr(&mut self, es: &[Expr], want: Option<&Ty>, span: Span) -> R<Val> {
        let item_want = match want {
            Some(Ty::List(t, _)) => Some((**t).clone()),
            _ => None,
        };
        if es.is_empty() {
            let ty = match want {
                Some(t @ Ty::List(..)) => t.clone(),
                _ => return Err(self.undecided("an empty list", span)),
            };
            let t = self.cx.lower_ty(&ty);
            return Ok(Val::pure(ty, X::new(t, K::MakeList(vec![]))));
        }
        let mut vals = Vec::new();
        let mut ty = item_want.clone().unwrap_or(Ty::Never);
        for e in es {
            let v = self.expr(e, item_want.as_ref())?;
            if item_want.is_none() {
                ty = match self.join(&ty, &v.ty) {
                    Some(t) => t,
                    None => {
                        let (a, b) = (ty, v.ty);
                        return Err(self.mismatch(&a, &b, e.span));
                    }
                };
            }
            vals.push((v, e.span));
        }
        let ty = self.decided(&ty, span)?;
        if !ty.is_plain() {
            if ty.is_error() {
                return Err(Reported);
            }
            let s = self.show(&ty);
            return Err(self.cx.report(
                Diagnostic::error("E0309", span, format!("a list cannot hold {s}"))
                    .hint("lists of units stand where a message is built, or in `reply [ … ]`"),
            ));
        }
        let items = vals.into_iter().map(|(v, s)| self.coerce(v, &ty, s)).collect::<R<Vec<_>>>()?;
        let n = items.len() as u32;
        let ty = Ty::List(Box::new(ty), n);
        let t = self.cx.lower_ty(&ty);
        Ok(Val::pure(ty, X::new(t, K::MakeList(items))))
    }

    pub fn fold(&mut self, e: &Expr, want: Option<&Ty>) -> R<Val> {
        let ExprKind::Fold { list, init, acc, item, body } = &*e.kind else { return Err(Reported) };
        if let Pattern::Name(n) = item {
            self.cx.distinct([acc, n].into_iter())?;
        }
        let walk = self.walk(list)?;
        let v = self.expr(init, want)?;
        let ty = match (&v.ty, want) {
            (Ty::Lit, Some(w)) if w.is_int() => w.clone(),
            (Ty::Bytes(n), Some(w @ Ty::Bytes(m))) if n < m => w.clone(),
            (t, _) => self.decided(t, init.span)?,
        };
        self.may_grow(&acc.name, &ty, init.span)?;
        let start = self.coerce(v, &ty, init.span)?;
        let l = self.temp(&acc.name, &ty, start, init.span);
        self.bounds.remove(&l);
        self.rounds(walk, body.span, |s, it| {
            let current = Val::pure(ty.clone(), s.local_expr(l));
            s.bind_all(&[(acc.clone(), current)]);
            s.destructure(item, it, body.span)?;
            let next = s.expr_as(body, &ty)?;
            s.push(body.span, StmtKind::Set(l, next));
            Ok(())
        })?;
        Ok(Val::pure(ty, self.local_expr(l)))
    }

    /// `xs.any(|x| e)`, `.all`, `.count`, `.first`, `headers.count("name")`.
    pub fn method(&mut self, base: &Expr, name: &Ident, args: &[Arg], span: Span, want: Option<&Ty>) -> R<Val> {
        let asked = if let Some(t) = self.table_name(base) {
            Some(self.table_method(t, name, args, span))
        } else if let Some((g, key)) = self.gauge_of(base) {
            Some(self.gauge_method(&g, key, name, args, span))
        } else if let Some(q) = self.messages_of(base) {
            Some(self.messages_method(&q, name, args, span))
        } else if self.queue_of(base).is_some() {
            Some(self.queue_method(base, name, args, span))
        } else {
            None
        };
        let asked = match (asked, args) {
            (None, []) => self.wait_for_body(base, name, span),
            (asked, _) => asked,
        };
        // As a statement it stands for its effect.
        if let Some(made) = asked {
            return made.map(|v| if want == Some(&Ty::Unit) { Val::unit() } else { v });
        }
        let given: Vec<&Expr> = args.iter().map(|a| &a.value).collect();
        let function = self.as_function(base, name, &given);
        let [arg] = args else {
            if base.as_name().is_some_and(|n| matches!(self.cx.app.get(&n.name), Some(AppName::Failed))) {
                return Err(Reported);
            }
            let text = format!("there is no method `{}` of {} arguments", name.name, args.len());
            let d = Diagnostic::error("E0201", name.span, text);
            return Err(self.cx.report(match function {
                Some(hint) => d.hint(hint),
                None => d,
            }));
        };
        if let ExprKind::Lambda(params, body) = &*arg.value.kind {
            let [p] = params.as_slice() else {
                return Err(self.err("E0308", arg.value.span, "this function takes one item"));
            };
            let p = Pattern::Name(p.clone());
            return self.search(base, name, &p, body, span);
        }
        let v = self.expr(base, None)?;
        let v = self.defined(v, base.span)?;
        match (name.name.as_str(), v.ty, v.kind) {
            (word @ ("added" | "without"), Ty::List(of, max), Vk::Pure(list)) => {
                self.changed_list((list, *of, max), &arg.value, word == "added", span)
            }
            ("count", Ty::Items(elem, _), Vk::Path(list)) => {
                self.named_list(&elem, span)?;
                let n = self.expr(&arg.value, None)?;
                let n = self.bytes_of(n, arg.value.span)?;
                Ok(Val::pure(U32, X::new(T_U32, K::CountOf { list, name: n })))
            }
            (_, Ty::Error, _) => Err(Reported),
            (_, t, _) => {
                let d =
                    Diagnostic::error("E0201", name.span, format!("{} has no method `{}`", self.show(&t), name.name));
                Err(self.cx.report(if let Some(hint) = function {
                    d.hint(hint)
                } else if matches!(t, Ty::Bytes(_)) {
                    d.hint(
                        "bytes have functions: `find(b, x)`, `slice(b, from, to)`, `starts_with(b, x)`, `words(b)`, \
                         `lower(b)`, `concat(a, b)`, `len(b)`",
                    )
                } else if matches!(t, Ty::List(..) | Ty::Items(..)) {
                    d.hint(
                        "lists have `any(|x| …)`, `all(|x| …)` and `first(|x| …)`, `added(x)` and `without(x)`, \
                         `for x in list`, `list[i]` and `len(list)`; for what grows there are tables and rings",
                    )
                } else {
                    d
                }))
            }
        }
    }

    fn search(&mut self, base: &Expr, name: &Ident, p: &Pattern, body: &Expr, span: Span) -> R<Val> {
        let walk = self.walk(base)?;
        if let (true, Walk::Items(list, elem, max)) = (self.pure_only(), &walk) {
            return self.each_by_place((list, elem, *max), name, (p, body), span);
        }
        let start = |s: &mut Self, ty: &Ty, e: X| {
            let l = s.temp("", ty, e, span);
            s.bounds.remove(&l);
            l
        };
        match name.name.as_str() {
            "any" | "all" => {
                let any = name.name == "any";
                let l = start(self, &Ty::Bool, build::boolean(!any));
                self.rounds(walk, span, |s, it| {
                    s.destructure(p, it, span)?;
                    let c = s.cond(body)?;
                    let sp = s.cx.span(span);
                    let then =
                        vec![build::stmt(sp, StmtKind::Set(l, build::boolean(any))), build::stmt(sp, StmtKind::Break)];
                    s.push(span, StmtKind::If { cond: if any { c } else { build::not(c) }, then, other: vec![] });
                    Ok(())
                })?;
                Ok(Val::pure(Ty::Bool, build::local(l, T_BOOL)))
            }
            "count" => {
                let l = start(self, &U32, build::u32(0));
                self.rounds(walk, span, |s, it| {
                    s.destructure(p, it, span)?;
                    let cond = s.cond(body)?;
                    let sp = s.cx.span(span);
                    let one = build::bin(T_U32, BinOp::Add, build::local(l, T_U32), build::u32(1));
                    s.push(
                        span,
                        StmtKind::If { cond, then: vec![build::stmt(sp, StmtKind::Set(l, one))], other: vec![] },
                    );
                    Ok(())
                })?;
                Ok(Val::pure(U32, build::local(l, T_U32)))
            }
            "first" => self.first(walk, p, body, span),
            other => {
                let n = other.to_string();
                Err(self.err("E0201", name.span, format!("lists have `any`, `all`, `count` and `first`, no `{n}`")))
            }
        }
    }

    /// The first item for which the condition holds: an index is kept, the item stays in place.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn first(&mut self, walk: Walk, p: &Pattern, body: &Expr, span: Span) -> R<Val> {
        let found = self.temp("", &Ty::Bool, build::boolean(false), span);
        let at = self.temp("", &U32, build::u32(0), span);
        self.bounds.remove(&at);
        let result = match &walk {
            Walk::Items(path, e, _) => {
                let i = self.local_expr(at);
                self.cx.item_val(path, e, i)
            }
            Walk::List(l, t, _) => {
                let ty = self.cx.lower_ty(t);
                Val::pure(t.clone(), X::new(ty, K::ListGet(l.clone(), build::local(at, T_U32))))
            }
            Walk::Replies(..) | Walk::Range(..) | Walk::Words(..) | Walk::Last(..) => {
                return Err(self.err("E0303", span, "`first` is for lists"))
            }
        };
        self.rounds(walk, span, |s, it| {
            let i = match &it.kind {
                Vk::Path(p) => p.steps.last().and_then(|s| match s {
                    ir::Step::Index(e) => Some(e.clone()),
                    _ => None,
                }),
                Vk::Pure(e) => match &*e.kind {
                    K::ListGet(_, i) => Some(i.clone()),
                    K::Read(p) => p.steps.last().and_then(|s| match s {
                        ir::Step::Index(e) => Some(e.clone()),
                        _ => None,
                    }),
                    _ => None,
                },
                Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => None,
            }
            .ok_or(Reported)?;
            s.destructure(p, it, span)?;
            let cond = s.cond(body)?;
            let sp = s.cx.span(span);
            let then = vec![
                build::stmt(sp, StmtKind::Set(found, build::boolean(true))),
                build::stmt(sp, StmtKind::Set(at, i)),
                build::stmt(sp, StmtKind::Break),
            ];
            s.push(span, StmtKind::If { cond, then, other: vec![] });
            Ok(())
        })?;
        Ok(Val::maybe(build::local(found, T_BOOL), result))
    }
}
