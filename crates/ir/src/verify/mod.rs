//! The verifier: the invariants on which every backend may rely.
//!
//! In: a module, as lowered or after the passes. Out: every violation, with its path
//! (`handler on_client: stmt 3.1: …`). Statements are numbered from 1 within their block. A nested
//! block's statements follow the number of their statement, and all blocks of one statement are
//! counted through.
//!
//! Invariants:
//! - **Indices**: every id is in range. Places and fault kinds exist. Types are in range, nest at
//!   most 32 deep and are acyclic.
//! - **Types**: every expression has the type its operands give it ([`expr`] has the table). Bytes
//!   fit where the maximum is not smaller; all other types are equal. Integers fit their width,
//!   constants their maximum. Conditions are bool.
//! - **Options**: a body that takes the value of an option asks whether one of this type has any.
//! - **Roots**: `this` stands only in grammars and protocol clauses. `item` and the accumulator
//!   stand only where there is an item or a fold. Paths lead from unit to field to item. A value is
//!   read only of fields that have one.
//! - **Locals** are set before they are read, on every path (as lowered: message locals only). Only
//!   the event, a part or a parse binds message locals.
//! - **Control**: break and continue stand in loops. `For.max`, `Loop.max` > 0. Functions do not
//!   recurse, directly or not, and return on every path. Functions, table updates and messages
//!   being built have no suspension, call or answer. Emissions stand only in messages being built.
//! - **Calls**: on every path an `Await` follows a call before the handler ends. `BindPart` and
//!   `PartStatus` have an `Await` before them. Calls and sends go to connect ports. A message is of
//!   the unit that its port's protocol says. There are as many response arguments as the response
//!   has parameters. `Reply` stands only in message handlers and `on_fault`, and has the response's
//!   unit.
//! - **Connections**: `ConnPeer` and the like stand only where there is one.
//! - **Edits** name fields of the message. Removals and additions name lists. After the passes they
//!   are in wire order, with one removal per list.
//! - **Tables**: keys and values are storable (no messages, no `Unit`). Capacity > 0. Locals have
//!   the entry's type.
//! - **Frames**: acts name a local that is a frame, and headers that its unit has. A set field has
//!   a fixed size. Frames are sent to frame ports. A layer of a frame unit comes after earlier ones
//!   only. Its switch and header are fields as [`Layer`] says.
//! - **Graph**: wires lead from existing elements to inputs or frame ports. An input takes frames
//!   of its unit, does not return, and gives none to an input that leads back to it. Messages being
//!   built have no output.
//! - **Units**: every field stands in exactly one place. Integers fit their containers. Grammar
//!   expressions read only earlier fields. Lengths are integers, guards bool. Delimiters are not
//!   empty. Arguments match parameters.
//! - **Events**: the first locals of a handler, of `on_fault` and of `on_interim` have the types of
//!   their arguments. Handlers of tests come after all others.
//! - **Plans** ([`crate::plans`]) are legal. The statement that a batch lookup names makes that
//!   lookup, with that key, under that guard. No fault comes before a lookup that is sure. A plan
//!   keeps every header field that its handler reads. Steps of a fast path follow one another in
//!   the parse graph, and its stack is that of its steps. No other handler can observe a pause. The
//!   program does not read hoisted counters, and no frame changes hoisted conditions. A late local
//!   has one value wherever it is used. A vector plan is the one that its pass makes. The part of a
//!   payload that is kept may be a part of the old one. A branch that is selected has no other
//!   effect than its choice. After the passes every header field that is read has a constant place
//!   or a slot. A table that one body reads and changes has its values copied.
//! - After the passes: live locals are in the frame.

mod body;
mod expr;
mod module;
mod units;

use crate::*;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub path: String,
    pub message: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Checks a module after all passes.
pub fn verify(m: &Module) -> Vec<Error> {
    run(m, true)
}

/// Checks a module as it was lowered. Edits may be in any order, and nothing is annotated. Only
/// message locals must be set before they are read: the `zero_init` pass sees to the others.
pub fn verify_lowered(m: &Module) -> Vec<Error> {
    run(m, false)
}

/// Locals of a sound body that may be read before they are set, the first `preset` ones being set
/// when it begins.
pub fn unset(m: &Module, body: &Body, preset: usize) -> Vec<LocalId> {
    let mut c = Checker { m, passed: false, errors: Vec::new(), unset: Vec::new() };
    let code = body::Code { kind: body::BodyKind::Message, ret: None, preset, reply: None, conn: true };
    c.body("", body, code);
    c.unset
}

/// More would not help anybody.
const MAX_ERRORS: usize = 100;

fn run(m: &Module, passed: bool) -> Vec<Error> {
    let mut c = Checker { m, passed, errors: Vec::new(), unset: Vec::new() };
    // Later checks follow ids and types without looking.
    c.types();
    if c.errors.is_empty() {
        c.units()
    }
    if c.errors.is_empty() {
        c.declarations()
    }
    if c.errors.is_empty() {
        c.fast_paths();
        c.slots();
        c.selects()
    }
    if c.errors.is_empty() {
        c.vectors()
    }
    c.errors.truncate(MAX_ERRORS);
    c.errors
}

struct Checker<'a> {
    m: &'a Module,
    passed: bool,
    errors: Vec<Error>,
    unset: Vec<LocalId>,
}

impl Checker<'_> {
    fn error(&mut self, path: &str, message: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(Error { path: path.into(), message: message.into() })
        }
    }

    fn need(&mut self, ok: bool, path: &str, message: &str) {
        if !ok {
            self.error(path, message)
        }
    }

    fn name(&self, ty: TyId) -> String {
        text::print_type(self.m, ty)
    }

    fn ty(&self, ty: TyId) -> &Ty {
        self.m.types.get(ty.index()).unwrap_or(&Ty::Unit)
    }

    /// Whether two types are one, whatever their numbers.
    fn same(&self, a: TyId, b: TyId) -> bool {
        if a == b {
            return true;
        }
        match (self.ty(a), self.ty(b)) {
            (Ty::Option(x), Ty::Option(y)) => self.same(*x, *y),
            (Ty::List(x, n), Ty::List(y, k)) => n == k && self.same(*x, *y),
            (Ty::Tuple(x), Ty::Tuple(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| self.same(*x, *y)),
            (x, y) => x == y,
        }
    }

    /// Whether a value of type `from` may be stored where `to` is wanted.
    fn fits(&self, from: TyId, to: TyId) -> bool {
        match (self.ty(from), self.ty(to)) {
            (Ty::Bytes(n), Ty::Bytes(k)) => n <= k,
            _ => self.same(from, to),
        }
    }

    fn is_bool(&self, t: TyId) -> bool {
        *self.ty(t) == Ty::Bool
    }
    fn is_bytes(&self, t: TyId) -> bool {
        matches!(self.ty(t), Ty::Bytes(_))
    }
    fn is_uint(&self, t: TyId) -> bool {
        matches!(self.ty(t), Ty::UInt(_))
    }
    fn is_int(&self, t: TyId) -> bool {
        matches!(self.ty(t), Ty::UInt(_) | Ty::Int(_))
    }
    /// Whether a value names clients: it is a handle, or a list of handles.
    fn is_handles(&self, t: TyId) -> bool {
        let one = if let Ty::List(item, _) = self.ty(t) { *item } else { t };
        self.is_uint_of(one, 64)
    }
    fn is_uint_of(&self, t: TyId, bits: u8) -> bool {
        *self.ty(t) == Ty::UInt(bits)
    }

    fn fault(&mut self, path: &str, kind: FaultKind, place: PlaceId) {
        self.fault_kind(path, kind);
        self.need(place.index() < self.m.places.len(), path, "a fault's place does not exist");
    }

    fn fault_kind(&mut self, path: &str, kind: FaultKind) {
        let user = kind.0.checked_sub(FaultKind::USER).is_some_and(|n| (n as usize) < self.m.faults.len());
        let known = kind.can_be_raised() && kind.0 < FaultKind::USER;
        self.need(user || known, path, "a fault kind does not exist");
    }

    fn types(&mut self) {
        for n in 0..self.m.types.len() {
            if let Err(why) = self.depth(TyId(n as u32), 0) {
                self.error(&format!("type t{n}"), why)
            }
        }
    }

    fn depth(&self, ty: TyId, depth: u32) -> Result<(), &'static str> {
        if depth > layout::MAX_DEPTH {
            return Err("nests too deep or contains itself");
        }
        let m = self.m;
        match m.types.get(ty.index()).ok_or("a type does not exist")? {
            Ty::Option(t) | Ty::List(t, _) => self.depth(*t, depth + 1),
            Ty::Tuple(list) => list.iter().try_for_each(|t| self.depth(*t, depth + 1)),
            Ty::Record(r) => m
                .records
                .get(r.index())
                .ok_or("a record does not exist")?
                .fields
                .iter()
                .try_for_each(|(_, t)| self.depth(*t, depth + 1)),
            Ty::Msg(u) => m.units.get(u.index()).map(|_| ()).ok_or("a unit does not exist"),
            Ty::UInt(n) | Ty::Int(n) if !(1..=64).contains(n) && *n != 128 => Err("integers have 1 to 64 or 128 bits"),
            Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::Endpoint | Ty::Ip => Ok(()),
        }
    }

    /// A value that can be kept.
    fn storable(&self, ty: TyId) -> bool {
        match self.ty(ty) {
            Ty::Unit | Ty::Msg(_) => false,
            Ty::Option(t) | Ty::List(t, _) => self.storable(*t),
            Ty::Tuple(list) => list.iter().all(|t| self.storable(*t)),
            Ty::Record(r) => {
                self.m.records.get(r.index()).is_some_and(|r| r.fields.iter().all(|(_, t)| self.storable(*t)))
            }
            Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::Endpoint | Ty::Ip => true,
        }
    }
}
