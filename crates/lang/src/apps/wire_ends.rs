//! The ends of wires: ways in and out of instances, and inputs whose code is still to be made.

use super::scope::{AppScope, Instance};
use crate::names::ModId;
use std::collections::BTreeSet;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{Node, Span};

#[derive(Clone, Copy, PartialEq)]
pub enum Direction {
    In,
    Out,
}

/// Where an element's `out`s lead.
#[derive(Clone)]
pub struct Outlet {
    pub outs: Vec<(String, Vec<Node>)>,
    /// Arrays among them, and how many ways out each has.
    pub counts: Vec<(String, u64)>,
    pub app: AppScope,
    pub module: ModId,
    /// The element around the instance: see [`ir::Span::element`].
    pub element: u32,
    /// The instance, for messages.
    pub name: String,
    /// Ways out that the element sends frames to which it has built.
    pub built: Vec<String>,
    pub span: Span,
}

impl Outlet {
    /// Tells an instance in one wiring from the same one in another.
    pub fn key(&self) -> String {
        let at = |nodes: &[Node]| {
            nodes.iter().map(|n| format!("{}:{}-{} ", n.span.file.0, n.span.start, n.span.end)).collect::<String>()
        };
        self.outs.iter().map(|(name, nodes)| format!("{name}: {}", at(nodes))).collect()
    }
}

/// An `in` of an instance in a wiring.
#[derive(Clone)]
pub struct Entrance {
    pub instance: Rc<Instance>,
    pub input: String,
    /// Places of an array of `in`s.
    pub count: Option<u64>,
    pub outlet: Outlet,
    /// See [`ir::Span::element`].
    pub element: u32,
}

/// An input of the program.
#[derive(Clone)]
pub struct Pending {
    pub(super) key: String,
    pub(super) id: ir::InputId,
    pub(super) does: Does,
    pub(super) around: Around,
    pub(super) arrival: bool,
    /// Headers that a sender may have taken out.
    pub(super) gone: BTreeSet<u32>,
    pub(super) lowered: bool,
    pub(super) span: Span,
}

/// The code of an input.
#[derive(Clone)]
pub(super) enum Does {
    Element(Rc<Entrance>),
    Nodes(Vec<Node>),
}

impl Does {
    /// Of an array of `in`s.
    pub(super) fn places(&self) -> Option<u64> {
        match self {
            Does::Element(e) => e.count,
            Does::Nodes(_) => None,
        }
    }
}

/// The meaning of names around nodes of a wiring.
#[derive(Clone)]
pub struct Around {
    pub app: AppScope,
    pub module: ModId,
    pub outlets: Vec<Outlet>,
    /// See [`ir::Span::element`].
    pub element: u32,
}

/// Where a packet comes from: an element (0: the app) and its way out.
#[derive(Clone)]
pub struct From {
    pub element: u32,
    pub out: String,
}

/// A port back into the program, whose handler is still to be made.
#[derive(Clone)]
pub struct Loop {
    pub(super) key: String,
    pub(super) port: ir::PortId,
    pub(super) unit: ir::UnitId,
    /// The names that the wiring behind it sees.
    pub(super) around: Around,
    pub(super) nodes: Vec<Node>,
    pub(super) span: Span,
    pub(super) lowered: bool,
}
