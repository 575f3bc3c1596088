//! Elements in C: the call of the function that handles the packets of an `in`, and the outputs
//! that its result chooses.

use super::arrays;
use super::scope::AppName;
use crate::body::Lower;
use crate::compiler::{Compiler, R};
use crate::ty::{Ty, U32};
use crate::val::Val;
use ir::{FrameAct, StmtKind};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, ExprKind, Ident, InC, Span, MEMORY};
use wireloom_syntax::Diagnostic;

/// Bytes of an element's memory, at most.
const MOST_MEMORY: u64 = 16 << 20;

fn named(n: &Ident) -> Expr {
    Expr { span: n.span, kind: Box::new(ExprKind::Name(n.clone())) }
}

impl Compiler<'_> {
    /// The function in C, once for all instances.
    fn function_in_c(&mut self, c: &InC) -> R<ir::FuncId> {
        let body = ir::FuncBody::Extern { file: c.file.clone(), symbol: c.symbol.name.clone() };
        if let Some(n) = self.m.funcs.iter().position(|f| f.body == body) {
            return Ok(ir::FuncId(n as u32));
        }
        self.c_file(&c.file, c.at)?;
        let ret = self.lower_ty(&U32);
        let span = self.span(c.symbol.span);
        self.m.funcs.push(ir::Func { name: c.symbol.name.clone(), span, params: 0, ret, body });
        Ok(ir::FuncId(self.m.funcs.len() as u32 - 1))
    }

    /// The memory of an instance, declared as a state from `first` on, is for its C file alone.
    pub fn memory_in_c(&mut self, first: usize) -> R<()> {
        let sizes = self.m.states[first..].iter().map(|s| ir::layout::bytes_in(&self.m, s.ty));
        if sizes.into_iter().any(|n| !(1..=MOST_MEMORY).contains(&n)) {
            let span = self.app.names.get(MEMORY).map(|(_, span)| *span).unwrap_or_default();
            let d = Diagnostic::error("E0716", span, "an element in C has 1 byte to 16 MiB of memory");
            return Err(self.once(d.label("of another size").hint("give it a size within that: `state 64KiB`")));
        }
        self.m.states[first..].iter_mut().for_each(|s| s.memory = true);
        Ok(())
    }
}

impl Lower<'_, '_> {
    /// The handler of an element in C.
    pub fn in_c(&mut self, c: &InC, span: Span) -> R<()> {
        let func = self.cx.function_in_c(c)?;
        let packet = self.expr(&named(&c.packet), None)?;
        let Some((frame, _)) = self.packet_at_hand(&packet) else {
            let d = Diagnostic::error("E0716", c.packet.span, "an element in C handles packets");
            return Err(self.cx.once(
                d.label("these are messages of a service")
                    .hint("let an element with handlers call a function in C, by `extern fn`"),
            ));
        };
        let mut args = Vec::new();
        for n in c.place.iter().chain(&c.params) {
            args.push(self.value_in_c(&named(n))?);
        }
        let dot = self.dot.replace(packet);
        let values = c.values.iter().flatten().map(|e| self.value_in_c(e)).collect::<R<Vec<_>>>();
        self.dot = dot;
        args.extend(values?);
        let memory = match c.memory.as_ref().and_then(|n| self.cx.app.get(&n.name)) {
            Some(AppName::State(id, _)) => Some(*id),
            _ => None,
        };
        let (dst, place, whole) = (self.new_local("", &U32), self.place_id(span), c.values.is_none());
        let act = FrameAct::InC { func, memory, whole, args, dst, place };
        self.act(frame, act, span)?;
        if whole {
            let layers = self.frame_layers(frame).len() as u32;
            self.gone.extend((0..layers).map(|n| (frame, n)));
        }
        let (mut cases, mut n) = (Vec::new(), 0);
        for (out, is_array) in &c.outs {
            let way = named(out);
            let places = if *is_array { self.way_count(&way) } else { None };
            for at in 0..places.unwrap_or(1) {
                let to = if *is_array { arrays::item(&way, at) } else { way.clone() };
                let (made, block) = self.sub(|s| s.send(&named(&c.packet), &to, span));
                made?;
                cases.push((vec![n], block));
                n += 1;
            }
        }
        let on = self.local_expr(dst);
        self.push(span, StmtKind::Switch { on, cases, default: Vec::new() });
        Ok(())
    }

    /// A value that functions in C take.
    fn value_in_c(&mut self, e: &Expr) -> R<ir::Expr> {
        let v = self.expr(e, None)?;
        let v: Val = self.defined(v, e.span)?;
        let t = self.settled(&v.ty);
        let plain = matches!(
            t,
            Ty::Bool
                | Ty::Int { .. }
                | Ty::Enum(_)
                | Ty::Bytes(_)
                | Ty::Duration
                | Ty::Instant
                | Ty::Ip
                | Ty::Ip4
                | Ty::Ip6
                | Ty::Mac
                | Ty::Endpoint
        );
        if !plain {
            let found = self.show(&t);
            let d = Diagnostic::error("E0716", e.span, format!("a function in C takes no {found}"));
            return Err(self.cx.once(d.hint("give it numbers, bool, bytes, endpoints or addresses")));
        }
        self.coerce(v, &t, e.span)
    }
}
