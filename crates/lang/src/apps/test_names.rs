//! The names of the test at hand.

use crate::ty::Ty;
use crate::val::Val;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Ident};

/// The meaning of a name in the current test.
#[derive(Clone)]
pub(super) enum TestValue {
    /// A frame: built where it is used.
    Frame(Expr),
    State(ir::StateId, Ty),
    /// A value that is known at compile time.
    Known(Val),
}

/// The names of the current test.
#[derive(Clone, Default)]
pub struct TestNames(pub(super) Vec<(Ident, TestValue)>);
