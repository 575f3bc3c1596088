//! The flat code of functions and inputs of elements. It is made when they are first called.

use super::code::Code;
use super::flatten;
use std::sync::OnceLock;
use wireloom_ir::{Body, FuncId, InputId, Module};

/// Of one module, by number.
pub struct Functions {
    functions: Vec<OnceLock<Code>>,
    inputs: Vec<OnceLock<Code>>,
}

impl Functions {
    pub fn new(m: &Module) -> Functions {
        let none = |n: usize| (0..n).map(|_| OnceLock::new()).collect();
        Functions { functions: none(m.funcs.len()), inputs: none(m.inputs.len()) }
    }

    /// The code of a function that has this body.
    pub(super) fn function(&self, m: &Module, id: FuncId, body: &Body) -> &Code {
        self.functions[id.index()].get_or_init(|| flatten::body(m, body))
    }

    /// The code of an input that has this body.
    pub(super) fn input(&self, m: &Module, id: InputId, body: &Body) -> &Code {
        self.inputs[id.index()].get_or_init(|| flatten::body(m, body))
    }
}
