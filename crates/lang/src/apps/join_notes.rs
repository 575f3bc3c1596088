//! The inputs of a service's elements that are joined, as [`super::join_inputs`] notes them. `F`: a
//! fact that is known of a message.

use super::wire_ends::{Around, Entrance};
use crate::val::Val;
use wireloom_ir::{self as ir, LocalId};
use wireloom_syntax::ast::Span;

/// The joined inputs of a handler.
pub struct Joins<F> {
    /// The input that comes next, by its number from 1 on.
    pub next: Option<LocalId>,
    pub all: Vec<Join<F>>,
    /// Inputs that a message has come to, joined or not.
    pub seen: Vec<JoinKey>,
    /// The one that is being lowered.
    pub at: Option<usize>,
}

/// An input, and the message that comes to it.
#[derive(Clone, PartialEq)]
pub struct JoinKey {
    pub instance: usize,
    pub input: String,
    pub wires: String,
    pub message: LocalId,
}

pub struct Join<F> {
    pub key: JoinKey,
    pub name: String,
    pub entrance: Entrance,
    pub message: Val,
    pub around: Around,
    pub facts: Vec<F>,
    pub span: Span,
    pub block: Option<ir::Block>,
    /// The inputs that it sends to.
    pub to: Vec<usize>,
}

impl<F> Default for Joins<F> {
    fn default() -> Self {
        Joins { next: None, all: Vec::new(), seen: Vec::new(), at: None }
    }
}
