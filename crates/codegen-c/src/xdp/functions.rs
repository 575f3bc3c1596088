//! Functions that handlers in the hook call. They are part of their callers, as the kernel's
//! programs pass no records.

use super::far_room::FarOwner;
use crate::body::{BodyGen, Owner};
use crate::gen::Gen;
use crate::names;
use std::collections::BTreeSet;
use wireloom_ir::*;

/// The functions that bodies call, by themselves or through others.
pub(super) fn reached<'m>(m: &'m Module, bodies: &[&'m Body]) -> Vec<(FuncId, &'m Body)> {
    let (mut seen, mut open): (BTreeSet<FuncId>, Vec<&Body>) = (BTreeSet::new(), bodies.to_vec());
    while let Some(body) = open.pop() {
        walk::block_exprs(&body.block, &mut |e| {
            let ExprKind::Call(f, _) = &*e.kind else { return };
            if let (FuncBody::Body(b), true) = (&m.funcs[f.index()].body, seen.insert(*f)) {
                open.push(b)
            }
        });
    }
    let body = |f: FuncId| match &m.funcs[f.index()].body {
        FuncBody::Body(b) => Some((f, b)),
        FuncBody::Extern { .. } => None,
    };
    seen.into_iter().filter_map(body).collect()
}

impl<'m> Gen<'m> {
    pub(super) fn xdp_functions(&mut self, called: &[(FuncId, &'m Body)]) -> String {
        let (m, mut heads, mut all) = (self.m, String::new(), String::new());
        for (id, body) in called {
            let f = &m.funcs[id.index()];
            let (ret, zero, name) = (self.cty(f.ret), self.zero(f.ret), names::func(m, *id));
            let locals = body.locals.iter().take(f.params as usize).enumerate();
            let params: String = locals.map(|(i, l)| format!(", {} {}", self.cty(l.ty), names::local(l, i))).collect();
            let head = format!("WL_INLINE {ret} {name}(wl_fx *x{params})");
            let mut b = BodyGen::new(self, Owner::Func { ret: f.ret }, body);
            (b.xdp.name, b.xdp.whole) = (name.clone(), Some(&body.block));
            let far = b.xdp_declare(f.params as usize, FarOwner::Function);
            b.block(&body.block);
            let (decls, out, parts) = (b.decls, b.out, b.xdp.functions);
            heads.push_str(&format!("{head};\n"));
            all.push_str(&format!(
                "{far}{parts}/* fn {} */\n{head} {{\n(void)x;\n{decls}{out}goto fault;\nfault:;\nreturn {zero};\n}}\n\n",
                names::comment(&f.name)
            ));
        }
        heads + &all
    }
}
