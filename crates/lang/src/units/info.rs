//! A unit as programs see it: its parameters and the members that they can name.

use crate::names::ModId;
use crate::ty::Ty;
use std::collections::HashMap;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Ident, Span};

#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub span: Span,
    pub field: ir::FieldId,
    pub ty: Ty,
    /// The switch cases it lies in, outermost first: it is there if all of these are taken.
    pub cases: Vec<(ir::FieldId, u32)>,
    pub caseless: bool,
}

/// In order, and found by name: the first that has it.
#[derive(Clone, Debug, Default)]
pub struct Members {
    list: Vec<Member>,
    by_name: HashMap<String, usize>,
}

impl Members {
    pub fn push(&mut self, m: Member) {
        self.by_name.entry(m.name.clone()).or_insert(self.list.len());
        self.list.push(m);
    }

    fn named(&self, name: &str) -> Option<&Member> {
        self.list.get(*self.by_name.get(name)?)
    }
}

impl std::ops::Deref for Members {
    type Target = [Member];
    fn deref(&self) -> &[Member] {
        &self.list
    }
}

/// `append list { name: value } when cond`
#[derive(Clone, Debug)]
pub struct Appended {
    pub list: ir::FieldId,
    pub item: ir::UnitId,
    pub fields: Vec<(Ident, ast::Expr)>,
    pub cond: ir::Expr,
    pub module: ModId,
    pub span: Span,
}

/// A member of a unit that a program can name.
#[derive(Clone, Debug)]
pub struct UnitInfo {
    pub params: Vec<(String, Ty)>,
    pub members: Members,
    /// `_: bytes<9> of blank = " "`: what is sent for a field that is not given.
    pub defaults: Vec<(ir::FieldId, Vec<u8>)>,
    /// Text of an enum, the field that is its value, and the enum.
    pub texts: Vec<(ir::FieldId, ir::FieldId, ir::EnumId)>,
    /// Units that lie in a length, and the length.
    pub enclosed: Vec<(ir::FieldId, ir::Expr)>,
    /// Lengths of parts that are no bytes fields: they are computed when a message is built.
    pub measured: Vec<(ir::FieldId, ir::Computed)>,
    /// Items that messages get which a program builds.
    pub appended: Vec<Appended>,
    /// The unit that this is a copy of, with its end put in.
    pub of: Option<ir::UnitId>,
    /// Set: it describes whole frames.
    pub packet: Option<std::rc::Rc<PacketInfo>>,
    /// Some of its parameters have an error, and are not among `params`.
    pub lacks_params: bool,
    /// Whether it was lowered without errors.
    pub ok: bool,
}

impl UnitInfo {
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.named(name)
    }
    /// The parts that a field is the length of, where not all are bytes fields.
    pub fn measured(&self, f: ir::FieldId) -> Option<&ir::Computed> {
        self.measured.iter().find(|(id, _)| *id == f).map(|(_, sum)| sum)
    }
    pub fn by_field(&self, f: ir::FieldId) -> Option<&Member> {
        self.members.iter().find(|m| m.field == f)
    }
}

/// A packet type as the checker knows it.
#[derive(Debug)]
pub struct PacketInfo {
    pub module: ModId,
    pub lets: Vec<(Ident, Option<ast::Type>, ast::Expr)>,
}
