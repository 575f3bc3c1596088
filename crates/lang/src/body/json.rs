//! `json(bytes).user.name.text`: values of a JSON text by their path.

use super::Lower;
use crate::compiler::R;
use crate::ir_builder as build;
use crate::ty::{Ty, U64};
use crate::val::Val;
use ir::{Builtin as B, Expr as X, ExprKind as K};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Arg, Expr, ExprKind, Ident};
use wireloom_syntax::Diagnostic;

/// As in `support/json.h`.
const STEPS: usize = 16;
const KINDS: [&str; 4] = ["text", "int", "bool", "raw"];

impl Lower<'_, '_> {
    /// A value at the end of a path; None: the expression is none.
    pub fn json_value(&mut self, base: &Expr, kind: &Ident) -> Option<R<Val>> {
        let text = self.json_root(base)?;
        Some(self.json_of(text, base, kind))
    }

    /// `json(b)` at the root of a path.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn json_root<'e>(&self, e: &'e Expr) -> Option<&'e Expr> {
        match &*e.kind {
            ExprKind::Field(Some(base), _) | ExprKind::Index(base, _) => self.json_root(base),
            ExprKind::Call(f, args) => match (&*f.kind, args.as_slice()) {
                (ExprKind::Name(n), [Arg { name: None, value }])
                    if n.name == "json" && self.lookup("json").is_none() && !self.cx.app.has("json") =>
                {
                    Some(value)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn json_of(&mut self, text: &Expr, base: &Expr, kind: &Ident) -> R<Val> {
        if !KINDS.contains(&kind.name.as_str()) {
            let d = Diagnostic::error("E0303", kind.span, "the path does not say what value it leads to");
            return Err(self.cx.report(d.hint("end it with `.text`, `.int`, `.bool` or `.raw`")));
        }
        let mut path = Vec::new();
        let steps = self.json_path(base, &mut path)?;
        if steps > STEPS {
            return Err(self.err("E0303", base.span, format!("a path has at most {STEPS} steps, not {steps}")));
        }
        let v = self.expr(text, None)?;
        let max = v.ty.bytes_max();
        let bytes = self.bytes_of(v, text.span)?;
        let t = self.cx.lower_ty(&Ty::Bytes(path.len() as u64));
        let args = vec![bytes, X::new(t, K::Bytes(path))];
        let found = |s: &mut Self, ty: Ty, b: B| {
            let ty = ty.option();
            let t = s.cx.lower_ty(&ty);
            Val::pure(ty, build::builtin(t, b, args.clone()))
        };
        let string = Ty::Bytes(max);
        match kind.name.as_str() {
            "text" => Ok(found(self, string, B::JsonText)),
            "raw" => Ok(found(self, string, B::JsonRaw)),
            "int" => {
                let v = found(self, U64, B::JsonInt);
                let signed = Ty::Int { bits: 64, signed: true };
                self.json_as(v, signed, base, |s, t, n| s.recast(t, n))
            }
            _ => {
                let v = found(self, string.clone(), B::JsonRaw);
                let words = [&b"true"[..], b"false"].map(|w| {
                    let t = self.cx.lower_ty(&Ty::Bytes(w.len() as u64));
                    X::new(t, K::Bytes(w.to_vec()))
                });
                self.json_bool(v, words, base)
            }
        }
    }

    /// An option of another type: of the value that `of` makes.
    fn json_as(&mut self, v: Val, ty: Ty, at: &Expr, of: impl FnOnce(&mut Self, ir::TyId, X) -> X) -> R<Val> {
        let (option, t) = (self.cx.lower_ty(&ty.clone().option()), self.cx.lower_ty(&ty));
        let Ty::Option(inner) = &v.ty else { return Ok(Val::error()) };
        let inner = self.cx.lower_ty(inner);
        let e = self.json_once(v, at)?;
        let value = of(self, t, X::new(inner, K::Unwrap(e.clone())));
        let there = X::new(option, K::Some(value));
        Ok(Val::pure(ty.option(), build::if_(option, build::is_some(e), there, X::new(option, K::None))))
    }

    fn json_bool(&mut self, v: Val, words: [X; 2], at: &Expr) -> R<Val> {
        let option = self.cx.lower_ty(&Ty::Bool.option());
        let Ty::Option(inner) = &v.ty else { return Ok(Val::error()) };
        let inner = self.cx.lower_ty(inner);
        let e = self.json_once(v, at)?;
        let text = X::new(inner, K::Unwrap(e.clone()));
        let is = |w: &X| build::and(build::is_some(e.clone()), build::cmp(ir::BinOp::Eq, text.clone(), w.clone()));
        let some = |b| X::new(option, K::Some(build::boolean(b)));
        let [yes, no] = words;
        let other = build::if_(option, is(&no), some(false), X::new(option, K::None));
        Ok(Val::pure(Ty::Bool.option(), build::if_(option, is(&yes), some(true), other)))
    }

    /// The text is read once.
    fn json_once(&mut self, v: Val, at: &Expr) -> R<X> {
        if self.pure_only() {
            return Err(self.involved(at.span));
        }
        self.once(v, at.span).kind.into_pure().ok_or(crate::compiler::Reported)
    }

    /// The steps of a path as `support/json.h` has them; how many.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn json_path(&mut self, e: &Expr, path: &mut Vec<u8>) -> R<usize> {
        let (base, key) = match &*e.kind {
            ExprKind::Field(Some(base), name) => (base, Ok(name.name.clone().into_bytes())),
            ExprKind::Index(base, index) => match &*index.kind {
                ExprKind::Bytes(key) => (base, Ok(key.clone())),
                ExprKind::Int(n) => (base, Err(u32::try_from(*n).unwrap_or(u32::MAX))),
                _ => {
                    let d = Diagnostic::error("E0306", index.span, "a step of a path is not a constant");
                    return Err(self.cx.report(d.hint("write a key or the number of an item: `json(b)[\"a-b\"][0]`")));
                }
            },
            _ => return Ok(0),
        };
        let before = self.json_path(base, path)?;
        match key {
            Ok(key) => {
                path.push(1);
                path.extend_from_slice(&(key.len().min(0xffff) as u16).to_le_bytes());
                path.extend_from_slice(&key[..key.len().min(0xffff)]);
            }
            Err(index) => {
                path.push(2);
                path.extend_from_slice(&index.to_le_bytes());
            }
        }
        Ok(before + 1)
    }
}
