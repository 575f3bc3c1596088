//! The names of C expressions: locals, units and their fields, headers of frames.

use crate::names;
use wireloom_ir::*;

/// A unit in reach: the lvalue of its struct and the pointer that its offsets count from.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub unit: UnitId,
    pub at: String,
    pub base: String,
    /// Of a frame: what is where is told by its view.
    pub head: Option<Head>,
}

/// The names of an expression.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    /// C name and type of each local.
    pub locals: Vec<(String, TyId)>,
    pub this: Option<Inst>,
    pub item: Option<Item>,
    pub acc: Option<String>,
}

#[derive(Clone)]
pub(crate) enum Item {
    Unit(Inst),
    /// An item of a list: the list's unit, the element field, the lvalue of `at[i]`.
    Listed(Inst, FieldId, String),
}

/// Where a path leads.
#[derive(Clone)]
pub(crate) enum At {
    Unit(Inst),
    Field(Inst, FieldId),
    /// An item of a list: lvalue of `at[i]`.
    Item(Inst, FieldId, String),
}

/// Position in a view: which header an instance is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The whole frame; `at` of the instance is the pointer to its view.
    Frame,
    /// A header; `base` of the instance points to it.
    Header { view: String, frame: UnitId, layer: u32 },
}

impl Scope {
    pub fn of_locals(locals: &[Local]) -> Self {
        Scope {
            locals: locals.iter().enumerate().map(|(i, l)| (names::local(l, i), l.ty)).collect(),
            ..Scope::default()
        }
    }
}
