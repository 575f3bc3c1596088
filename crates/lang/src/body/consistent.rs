//! `consistent(port, key, hash)`: libmemcached's ring without weights. One function hashes the keys
//! and the names of the ring's points. The runtime calls it when a list of servers is new.

use super::calls::Callee;
use super::Lower;
use crate::compiler::{R, T_U32};
use crate::ir_builder as build;
use crate::ty::{Ty, U32};
use crate::val::Val;
use wireloom_ir::{self as ir, Expr as X, ExprKind as K, FuncId, PortId};
use wireloom_syntax::ast::{Expr, ExprKind, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    pub fn consistent(&mut self, port: &Expr, key: &Expr, hash: &Expr, span: Span) -> R<Val> {
        let p = self.port_arg(port)?;
        if !self.cx.m.ports[p.index()].kind.is_connect() {
            return Err(self.err("E0603", port.span, "`consistent` is about the servers of a connecting port"));
        }
        let (f, of) = self.points_by(hash)?;
        self.one_hash(p, f, hash.span)?;
        let key = self.expr_as(key, &of)?;
        let call = X::new(T_U32, K::Call(f, vec![key]));
        let n = X::new(T_U32, K::PortLen(p));
        // With no instance at all there is nothing to choose.
        self.guard(build::cmp(ir::BinOp::Gt, n, build::u32(0)), ir::FaultKind::INDEX, span);
        Ok(Val::pure(U32, X::new(T_U32, K::Consistent(p, call))))
    }

    /// The function of this name, and the type of its parameter.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn points_by(&mut self, hash: &Expr) -> R<(FuncId, Ty)> {
        let wrong = |text: &str| {
            Diagnostic::error("E0720", hash.span, text)
                .hint("`fn place(name: bytes<512>) -> u32 = md5(name)`, then `consistent(port, key, place)`")
        };
        let found = match &*hash.kind {
            ExprKind::Name(_) | ExprKind::Field(Some(_), _) => self.callee(hash)?,
            _ => return Err(self.cx.report(wrong("the name of a function is expected here"))),
        };
        let Callee::Fn(info) = found else {
            return Err(self.cx.report(wrong("this is no function of the program")));
        };
        let of = match info.params.as_slice() {
            [(_, of @ Ty::Bytes(n))] if *n >= ir::consistent::POINT_NAME_MAX && info.ret == U32 => of.clone(),
            _ => return Err(self.cx.report(wrong("this function does not take `bytes<512>` and give a `u32`"))),
        };
        let how = self.cx.function(&info, hash.span)?;
        let crate::items::How::Func(f) = how else {
            return Err(self
                .cx
                .report(wrong("this function looks at more than its argument and parameters of the app")));
        };
        if !self.cx.m.hashes_points(f) {
            return Err(self.cx.report(wrong("this function looks at ports, clocks or connections")));
        }
        Ok((f, of))
    }

    fn one_hash(&mut self, p: PortId, f: FuncId, span: Span) -> R<()> {
        let port = &mut self.cx.m.ports[p.index()];
        if port.consistent.get_or_insert(f) == &f {
            return Ok(());
        }
        let d = Diagnostic::error("E0720", span, format!("`{}` has a ring by another function", port.name));
        Err(self.cx.report(d.hint("a port has one such ring: use the same function at each place")))
    }
}
