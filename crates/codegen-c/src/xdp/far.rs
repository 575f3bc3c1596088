//! Locals in memory, for handlers whose values have no room on the stack of 512 bytes, or that the
//! verifier would follow for too long.
//!
//! They lie in the state of the processor, which handles one frame at a time. The verifier does not
//! know what lies in memory, so it joins the ways through a handler that differ in their values
//! only. Handlers share one place. Each function has its own, as it runs within a handler.

use super::far_room::{bytes_of, FarOwner};
use crate::body::BodyGen;
use crate::names;
use wireloom_ir::*;

impl<'m> BodyGen<'_, 'm> {
    /// Declares the locals from number `from` on: in memory, or else as others do. The result is
    /// the struct that they lie in.
    pub(super) fn xdp_declare(&mut self, from: usize, owner: FarOwner) -> String {
        let all = (from as u32..self.locals.len() as u32).map(LocalId);
        let (far, near): (Vec<LocalId>, Vec<LocalId>) = all.partition(|l| self.is_value(*l));
        let bytes = far.iter().map(|l| bytes_of(self.g.m, self.locals[l.index()].ty)).sum();
        let first = self.g.xdp_far.room(owner, bytes);
        if !self.g.xdp_far.on || far.is_empty() {
            self.declare(from);
            return String::new();
        }
        near.into_iter().for_each(|l| self.declare_one(l));
        let members: String = far.iter().map(|l| self.put_into_memory(*l)).collect();
        let name = self.xdp.name.clone();
        self.xdp.far = format!("struct {name}_far *far = (struct {name}_far *)(x->state->far + {});\n", first / 8);
        self.decls.push_str(&self.xdp.far);
        format!(
            "/* Values of one frame. */\nstruct {name}_far {{\n{members}}};\n\
             _Static_assert(sizeof(struct {name}_far) <= {bytes}, \"the state has room for it\");\n\n"
        )
    }

    /// A value that memory can hold: no pointer.
    fn is_value(&self, l: LocalId) -> bool {
        !matches!(self.g.m.ty(self.locals[l.index()].ty), Ty::Msg(_) | Ty::Unit | Ty::List(..))
    }

    /// The member of a local; from here on its name leads there.
    fn put_into_memory(&mut self, l: LocalId) -> String {
        let (ty, member) = (self.locals[l.index()].ty, names::local(&self.locals[l.index()], l.index()));
        self.scope.locals[l.index()].0 = format!("far->{member}");
        format!("{} {member};\n", self.g.cty(ty))
    }

    pub(super) fn is_far(&self, l: LocalId) -> bool {
        self.name(l).starts_with("far->")
    }
}
