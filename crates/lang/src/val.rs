//! The value of an expression while it is lowered: an IR expression, a place in a message, or a
//! message being built.

use crate::ty::Ty;
use std::rc::Rc;
use wireloom_ir as ir;

#[derive(Clone, Debug)]
pub struct Val {
    pub ty: Ty,
    pub kind: Vk,
    /// Bytes of a field that compares without regard to ASCII case.
    pub caseless: bool,
}

#[derive(Clone, Debug)]
pub enum Vk {
    Pure(ir::Expr),
    /// A message, nested unit, list field, switch or stream, in place.
    Path(ir::Path),
    /// An option: there if the condition holds, and then this.
    Maybe(ir::Expr, Box<Val>),
    /// A message being built, or a parsed one with edits.
    Out(Rc<Outgoing>),
    /// Answers to `call all`, or something without a value.
    Nothing,
}

/// A message to send, and what is known of its fields (for the clauses of its protocol).
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub unit: ir::UnitId,
    pub kind: OutKind,
    /// Fields given a new value.
    pub fields: Vec<(String, Val)>,
    /// The set whose run a built one ends with, and the separator owed before more of the set.
    pub run: Option<(ir::ByteSet, Option<u8>)>,
    /// Where a built answer expects the parameters of its unit, which follow from the request that
    /// it answers.
    pub params: Vec<ir::LocalId>,
    /// Under which condition only the end of the connection ends it for its reader.
    pub ends: Option<ir::Expr>,
    pub validity: Validity,
}

impl Outgoing {
    /// A message as it came.
    pub fn passed(unit: ir::UnitId, msg: ir::LocalId) -> Self {
        Outgoing {
            unit,
            kind: OutKind::Pass { msg, edits: vec![], copy: 0 },
            fields: vec![],
            run: None,
            params: vec![],
            ends: None,
            validity: Validity::Sure,
        }
    }
}

/// Whether a built message meets the grammar of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// It does, by its guards.
    #[default]
    Sure,
    /// That shows when it is written.
    Unknown,
    /// It does not, by a rule in this place.
    Never(ir::Span),
}

impl Validity {
    pub fn and(self, other: Validity) -> Validity {
        match (self, other) {
            (Validity::Never(at), _) | (_, Validity::Never(at)) => Validity::Never(at),
            (Validity::Unknown, _) | (_, Validity::Unknown) => Validity::Unknown,
            (Validity::Sure, Validity::Sure) => Validity::Sure,
        }
    }
}

#[derive(Clone, Debug)]
pub enum OutKind {
    Built(ir::Block),
    /// A unit inside of one that is built: only its fields are read.
    Inner,
    Pass {
        msg: ir::LocalId,
        edits: Vec<ir::Edit>,
        /// Which `with` has made it; 0: it is the message itself.
        copy: u32,
    },
}

impl Val {
    pub fn pure(ty: Ty, e: ir::Expr) -> Val {
        Val { ty, kind: Vk::Pure(e), caseless: false }
    }
    pub fn path(ty: Ty, p: ir::Path) -> Val {
        Val { ty, kind: Vk::Path(p), caseless: false }
    }
    pub fn unit() -> Val {
        Val { ty: Ty::Unit, kind: Vk::Nothing, caseless: false }
    }
    pub fn never() -> Val {
        Val { ty: Ty::Never, kind: Vk::Nothing, caseless: false }
    }
    pub fn error() -> Val {
        Val { ty: Ty::Error, kind: Vk::Nothing, caseless: false }
    }
    pub fn of(ty: Ty) -> Val {
        Val { ty, kind: Vk::Nothing, caseless: false }
    }
    pub fn maybe(cond: ir::Expr, v: Val) -> Val {
        Val { ty: v.ty.clone().option(), kind: Vk::Maybe(cond, Box::new(v)), caseless: false }
    }
    pub fn out(o: Outgoing) -> Val {
        Val { ty: Ty::Msg(o.unit), kind: Vk::Out(Rc::new(o)), caseless: false }
    }
    pub fn is_never(&self) -> bool {
        self.ty == Ty::Never
    }
}

impl Vk {
    /// The local of a message that this is as a whole.
    pub fn message(&self) -> Option<ir::LocalId> {
        if let Vk::Path(ir::Path { root: ir::Root::Local(l), steps }) = self {
            return steps.is_empty().then_some(*l);
        }
        None
    }
    /// The expression of data that has been computed. None: it is a place in a message, a message
    /// that is being built, or nothing.
    pub fn as_pure(&self) -> Option<&ir::Expr> {
        match self {
            Vk::Pure(e) => Some(e),
            Vk::Path(_) | Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => None,
        }
    }
    pub fn into_pure(self) -> Option<ir::Expr> {
        match self {
            Vk::Pure(e) => Some(e),
            Vk::Path(_) | Vk::Maybe(..) | Vk::Out(_) | Vk::Nothing => None,
        }
    }
}
