//! The names of an app or an element, and the meaning of each.

use super::declarations::{Cache, Gauge, MessageQueue};
use crate::items::FnInfo;
use crate::names::{ItemId, ModId};
use crate::ty::Ty;
use crate::val::Val;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, Ident, MemberKind, On, Span};

/// The meaning of a name of the app.
#[derive(Clone)]
pub enum AppName {
    Param(ir::ParamId, Ty),
    Port(ir::PortId),
    State(ir::StateId, Ty),
    Session(ir::SessionId, Ty),
    /// A connection of a conversation.
    Upstream(ir::UpstreamId),
    Counter(ir::CounterId),
    Table(ir::TableId),
    Const(Val),
    Fn(Rc<FnInfo>),
    Instance(Rc<Instance>),
    /// A function that an element was given.
    FunctionArg(Rc<FunctionArg>),
    Gauge(Rc<Gauge>),
    Cache(Rc<Cache>),
    /// A queue of a service's messages.
    Messages(Rc<MessageQueue>),
    /// A type parameter of the element.
    Type(TypeName),
    /// Its declaration is in error.
    Failed,
}

#[derive(Clone, Default)]
pub struct AppScope {
    /// Large parts are shared between a scope and its copies.
    pub(super) names: Rc<BTreeMap<String, (AppName, Span)>>,
    /// Connecting ports of exactly one instance.
    pub(super) single: BTreeSet<ir::PortId>,
    /// Most instances of a connecting port.
    pub(super) instances: BTreeMap<ir::PortId, u64>,
    /// `[8]` of a port.
    pub counts: BTreeMap<ir::PortId, u32>,
    /// The packet types of frame ports.
    pub frames: BTreeMap<ir::PortId, ir::UnitId>,
    /// Ports that wiring takes messages from.
    pub wired: BTreeSet<ir::PortId>,
    /// The nodes behind an element's instance, wired apart from the nodes that lead to it.
    pub chains: Rc<BTreeMap<String, Vec<ast::Node>>>,
    /// The fields of the packet's state that are known here.
    pub packet: Rc<BTreeMap<String, (ir::PacketFieldId, Ty, Span)>>,
    /// The nodes behind an instance in the wirings that lead to it.
    pub behind: Rc<BTreeMap<String, Vec<Vec<ast::Node>>>>,
}

impl AppScope {
    pub fn get(&self, name: &str) -> Option<&AppName> {
        self.names.get(name).map(|(n, _)| n)
    }
    pub fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }
    pub fn tables(&self) -> Vec<String> {
        self.names.iter().filter(|(_, (n, _))| matches!(n, AppName::Table(_))).map(|(n, _)| n.clone()).collect()
    }
    /// Ports and clients' connections to servers.
    pub fn places(&self) -> Vec<String> {
        let of = |n: &AppName| matches!(n, AppName::Port(_) | AppName::Upstream(_));
        self.names.iter().filter(|(_, (n, _))| of(n)).map(|(n, _)| n.clone()).collect()
    }
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.names.keys().cloned()
    }
    pub fn port(&self, name: &str) -> Option<ir::PortId> {
        if let AppName::Port(p) = self.get(name)? {
            Some(*p)
        } else {
            None
        }
    }
    pub fn table(&self, name: &str) -> Option<ir::TableId> {
        if let AppName::Table(t) = self.get(name)? {
            Some(*t)
        } else {
            None
        }
    }
    pub fn function(&self, name: &str) -> Option<Rc<FnInfo>> {
        if let AppName::Fn(f) = self.get(name)? {
            Some(f.clone())
        } else {
            None
        }
    }
    /// The names of another scope beside its own.
    pub fn take_in(&mut self, other: &AppScope) {
        for (n, what) in other.names.iter() {
            Rc::make_mut(&mut self.names).entry(n.clone()).or_insert_with(|| what.clone());
        }
        self.single.extend(&other.single);
        self.instances.extend(&other.instances);
        self.frames.extend(&other.frames);
    }
    pub fn is_single(&self, p: ir::PortId) -> bool {
        self.single.contains(&p)
    }
    pub fn instances(&self, p: ir::PortId) -> u64 {
        self.instances.get(&p).copied().unwrap_or(1)
    }
}

/// An element's instance: its names and where its handler is.
pub struct Instance {
    pub scope: AppScope,
    pub element: ast::Element,
    pub module: ModId,
}

impl Instance {
    /// `on x(p)`, `on x[i](p)`
    pub(super) fn handler(&self, input: &str) -> Option<(&ast::Handler, &Ident, Option<&Ident>)> {
        self.element.members.iter().find_map(|m| {
            if let MemberKind::Handler(h) = &m.kind {
                match &h.on {
                    On::Message { port, param, index, .. } if port.name == input => Some((h, param, index.as_ref())),
                    On::Message { .. }
                    | On::Event { .. }
                    | On::Body { .. }
                    | On::Fault(_)
                    | On::Start
                    | On::End
                    | On::Every(_) => None,
                }
            } else {
                None
            }
        })
    }
}

/// A function that an element was given.
pub struct FunctionArg {
    pub(crate) params: Vec<Param>,
    pub(crate) ret: Ty,
    /// None: any function of this type, as which the element is checked by itself.
    pub(crate) what: Option<Expr>,
    pub(crate) module: ModId,
    /// Instances around the place where it was given.
    pub(crate) depth: usize,
    pub(crate) used: Cell<bool>,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Param {
    pub(crate) ty: Ty,
    /// `packet`: the packets of any type.
    pub(crate) any: bool,
}

/// The meaning of a type parameter, in code of the element's module.
#[derive(Clone)]
pub struct TypeName {
    pub(super) module: ModId,
    pub(super) what: Named,
}

#[derive(Clone)]
pub(super) enum Named {
    Unit(ItemId),
    Type(Ty),
    /// Any: the element is checked by itself.
    Unknown,
}

/// The type parameters of an element, each with its meaning.
pub type TypeBindings = Vec<(Ident, AppName)>;

/// Type parameters that may be anything.
pub fn any_types(module: ModId, e: &ast::Element) -> AppScope {
    let any = |n: &Ident| (n.clone(), AppName::Type(TypeName { module, what: Named::Unknown }));
    scope_of(&e.types.iter().map(|(n, _)| any(n)).collect::<Vec<_>>())
}

/// Type parameters alone.
pub fn scope_of(types: &[(Ident, AppName)]) -> AppScope {
    let names = types.iter().map(|(n, what)| (n.name.clone(), (what.clone(), n.span))).collect();
    AppScope { names: std::rc::Rc::new(names), ..AppScope::default() }
}
