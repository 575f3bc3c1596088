//! Resolved items: what the names of a module stand for.

use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Val;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Span};

/// A resolved item.
#[derive(Clone, Debug)]
pub enum Item {
    Const(Val),
    Charset(ir::ByteSet),
    Alias(Ty),
    Fault,
    Enum(ir::EnumId),
    Record(ir::RecordId),
    Unit(ir::UnitId),
    Protocol(ir::ProtocolId),
    Fn(Rc<FnInfo>),
    Table(ir::TableId),
    App,
    Element,
}

impl Item {
    /// The unit that an item is.
    pub const fn unit(&self) -> Option<ir::UnitId> {
        if let Self::Unit(u) = self {
            Some(*u)
        } else {
            None
        }
    }
}

/// A function's signature and how it is called.
#[derive(Debug)]
pub struct FnInfo {
    pub name: String,
    pub module: ModId,
    /// Functions of an app see the app's names.
    pub in_app: bool,
    pub ast: ast::Fn,
    pub params: Vec<(ast::Ident, Ty)>,
    pub ret: Ty,
    pub how: std::cell::Cell<How>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Unseen,
    Busy,
    Func(ir::FuncId),
    /// Takes or gives messages, or touches state: its body is put in the place of every call.
    Inline,
    Failed,
}

/// A table's types as the language sees them.
#[derive(Clone, Debug)]
pub struct TableTy {
    pub key: Ty,
    pub value: Ty,
}

/// The checker's knowledge of a protocol beside its IR.
#[derive(Clone)]
pub struct ProtocolInfo {
    pub module: ModId,
    pub ast: Rc<ast::Item>,
    pub request: ir::UnitId,
    pub response: Option<ir::UnitId>,
    pub no_reply: bool,
    /// Requests of any client may go over one connection: none depends on an earlier one.
    pub stateless: bool,
    /// Values of a request that its answer is compared with (`matches`), the first of them true.
    /// They stand from here on in [`ir::Unit::asked`].
    pub asked: (usize, Vec<Ty>),
    /// The values that a conversation remembers.
    pub sessions: Vec<(String, ir::SessionId, Ty)>,
    /// `on probe`, lowered. Local 0 is the instance.
    pub probe: Option<ir::Body>,
    /// `on reset`, lowered, likewise.
    pub reset: Option<ir::Body>,
}

/// The clauses of a record's field behind its type.
#[derive(Clone, Default)]
pub struct FieldSays {
    /// Its value where it is left out, if that is not zero.
    pub default: Option<ir::Expr>,
    /// The values that are accepted from outside; none: all.
    pub within: Vec<(u64, u64)>,
}

/// Members of conversations that an app holds, and those whose change of protocol demands it.
#[derive(Default, Clone)]
pub struct Holds {
    pub there: Vec<ir::Peer>,
    pub needed: Vec<(ir::Peer, Span)>,
}
