//! Messages that are being built or edited: the fields given so far.

use crate::units::info::Member;
use crate::val::Val;
use ir::{Edit, FieldId};
use wireloom_ir as ir;
use wireloom_syntax::ast::{Expr, Span};

/// A field's value as it was given.
#[derive(Clone)]
pub enum FieldSource {
    /// Data, computed once.
    Value(ir::Expr),
    /// A nested unit or list: emitted in its place.
    Source(Expr),
    /// Items as slices of parsed messages, gathered before the message is built.
    Slices(ir::Expr),
    /// An item of the answers for each that `join` has put together, in their order.
    InOrder(ir::UnitId),
    /// Units given one by one: the items of a list, or the one nested unit.
    Pieces(Vec<Piece>),
}

/// The fields given for one unit.
#[derive(Clone)]
pub struct Fields {
    pub unit: ir::UnitId,
    pub given: Vec<(Member, FieldSource, Span)>,
    /// Cases selected by the fields given.
    pub cases: Vec<(FieldId, u32)>,
    /// Its parameters, where they are known.
    pub params: Vec<ir::Expr>,
    /// The values of its `let` fields, as far as they were read.
    pub lets: std::cell::RefCell<Vec<(FieldId, ir::Expr)>>,
    pub span: Span,
}

impl Fields {
    pub fn new(unit: ir::UnitId, span: Span) -> Self {
        Fields { unit, given: vec![], cases: vec![], params: vec![], lets: Default::default(), span }
    }

    pub fn value(&self, f: FieldId) -> Option<&ir::Expr> {
        self.given.iter().find_map(|(m, g, _)| match g {
            FieldSource::Value(e) if m.field == f => Some(e),
            FieldSource::Value(_)
            | FieldSource::Source(_)
            | FieldSource::Slices(_)
            | FieldSource::InOrder(_)
            | FieldSource::Pieces(_) => None,
        })
    }
    pub fn get(&self, f: FieldId) -> Option<&(Member, FieldSource, Span)> {
        self.given.iter().find(|(m, ..)| m.field == f)
    }
}

/// A unit inside of the one that is built.
#[derive(Clone)]
pub enum Piece {
    Built(Fields),
    /// A parsed one, its original bytes, or one that a function has built.
    Ready(Val, Span),
}

/// A parsed message with the edits that it has so far.
pub struct EditedMessage {
    pub unit: ir::UnitId,
    pub msg: ir::LocalId,
    /// The values of fields that are known by their edits.
    pub known: Vec<(String, Val)>,
    pub edits: Vec<Edit>,
}
