//! The names of the test at hand.

use crate::ty::Ty;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Ident};

/// The meaning of a name in the current test.
#[derive(Clone)]
pub(super) enum TestValue {
    /// A frame: built where it is used.
    Frame(Expr),
    State(ir::StateId, Ty),
}

/// The names of the current test.
#[derive(Clone, Default)]
pub struct TestNames(pub(super) Vec<(Ident, TestValue)>);
