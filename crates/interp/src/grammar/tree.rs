//! The parser's result: the place and the value of every field. Positions count from the first byte
//! of the buffer.

use crate::value::Value;
use wireloom_ir::{FieldId, Unit, UnitId};

/// A parsed (or half parsed) unit.
#[derive(Clone, Debug)]
pub struct Node {
    pub unit: UnitId,
    pub start: usize,
    pub end: usize,
    /// Values of the unit's parameters.
    pub args: Vec<Value>,
    /// By [`FieldId`]; None: not (yet) parsed or in a case that is not taken.
    pub fields: Vec<Option<FieldNode>>,
}

#[derive(Clone, Debug)]
pub struct FieldNode {
    /// The field's own bytes, without a delimiter behind it.
    pub start: usize,
    pub end: usize,
    /// Where the next field begins.
    pub next: usize,
    pub content: Content,
}

#[derive(Clone, Debug)]
pub enum Content {
    None,
    Scalar(Value),
    /// Bytes, after trimming.
    Span(usize, usize),
    Unit(Box<Node>),
    Items(Vec<FieldNode>),
    /// The case taken.
    Case(u32),
}

impl Node {
    pub fn new(id: UnitId, unit: &Unit, start: usize, args: Vec<Value>) -> Node {
        Node { unit: id, start, end: start, args, fields: vec![None; unit.fields.len()] }
    }

    pub fn field(&self, f: FieldId) -> Option<&FieldNode> {
        self.fields.get(f.index())?.as_ref()
    }
}
