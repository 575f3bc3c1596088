//! Room for locals in memory ([`super::far`]).

use wireloom_ir::*;

/// The locals of handlers and functions in memory.
#[derive(Default)]
pub(crate) struct Far {
    /// They lie there. Else the room is only counted, so that the state has one size.
    pub on: bool,
    /// Rounds of loops are functions of their own.
    pub apart: bool,
    /// Bytes of functions, one behind the other. Those of handlers begin behind them.
    functions: usize,
    /// Bytes of the handler that needs most.
    handler: usize,
}

/// Whom locals belong to.
pub(super) enum FarOwner {
    Function,
    Handler,
}

impl Far {
    /// Where so many bytes begin.
    pub(super) fn room(&mut self, owner: FarOwner, bytes: usize) -> usize {
        let first = self.functions;
        match owner {
            FarOwner::Function => self.functions += bytes,
            FarOwner::Handler => self.handler = self.handler.max(bytes),
        }
        first
    }

    pub fn words(&self) -> usize {
        ((self.functions + self.handler) / 8).max(1)
    }
}

/// Bytes of a value in memory: enough for whatever padding C puts into it.
pub(super) fn bytes_of(m: &Module, ty: TyId) -> usize {
    8 + 3 * (layout::size(m, ty) as usize).next_multiple_of(8)
}
