//! Calls of functions in C: by expressions, and by elements in C.

use crate::body::BodyGen;
use crate::names;
use crate::parser::line;
use wireloom_ir::*;

/// The types of a function in C, as its first call has them.
pub(crate) struct CallInC {
    pub func: FuncId,
    /// Of what comes before the arguments: memory, and the frame.
    pub given: Vec<&'static str>,
    pub args: Vec<TyId>,
}

/// The functions in C that a program calls.
pub(crate) fn calls(m: &Module) -> Vec<CallInC> {
    let mut found: Vec<CallInC> = Vec::new();
    let mut note = |func: FuncId, given: Vec<&'static str>, args: &[Expr]| {
        let is_new = !found.iter().any(|c| c.func == func);
        if is_new && matches!(m.funcs[func.index()].body, FuncBody::Extern { .. }) {
            found.push(CallInC { func, given, args: args.iter().map(|a| a.ty).collect() });
        }
    };
    m.exprs(&mut |e, _| {
        if let ExprKind::Call(f, args) = &*e.kind {
            note(*f, Vec::new(), args);
        }
    });
    m.bodies(&mut |b| {
        walk::stmts(&b.block, &mut |s| {
            if let StmtKind::Frame { act: FrameAct::InC { func, memory, whole, args, .. }, .. } = &s.kind {
                note(*func, given(memory.is_some(), *whole), args);
            }
        })
    });
    found
}

fn given(memory: bool, whole: bool) -> Vec<&'static str> {
    let mut all = Vec::new();
    if memory {
        all.push("void *");
    }
    if whole {
        all.extend(["uint8_t *", "uint32_t *", "uint32_t"]);
    }
    all
}

impl<'m> BodyGen<'_, 'm> {
    /// The call of an element in C. Behind it, the headers of a frame that it got are looked for
    /// anew.
    pub(crate) fn in_c(&mut self, frame: LocalId, act: &'m FrameAct) {
        let FrameAct::InC { func, memory, whole, args, dst, place } = act else { return };
        let FuncBody::Extern { symbol, .. } = &self.g.m.funcs[func.index()].body else { return };
        let (v, dst, unit) = (self.name(frame), self.name(*dst), names::unit(self.g.m, self.frame_unit_of(frame)));
        let mut given = Vec::new();
        given.extend(memory.map(|s| format!("wl_state(x)->s_{}", names::state(self.g.m, s))));
        line!(self, "{{");
        for (n, a) in args.iter().enumerate() {
            let (ty, text) = (self.g.cty(a.ty), self.expr(a));
            line!(self, "const {ty} in{n}_ = {text};");
        }
        self.check(args.iter().any(Expr::may_fault));
        if *whole {
            line!(self, "uint32_t n_ = {v}->n;\nconst uint32_t room_ = wl_view_room({v});");
            given.extend([format!("{v}->p"), "&n_".into(), "room_".into()]);
        }
        given.extend((0..args.len()).map(|n| format!("in{n}_")));
        line!(self, "{dst} = {}({});", names::extern_fn(symbol), given.join(", "));
        if *whole {
            let leave = self.leave_fault();
            line!(
                self,
                "if (WL_UNLIKELY(!wl_view_resized({v}, n_, room_))) {{ wl_fail(x, WL_F_OVERLOAD, {}); {leave} }}",
                place.0
            );
            line!(self, "{unit}_parse(NULL, {v}, {v}->f);");
        }
        line!(self, "}}");
    }
}
