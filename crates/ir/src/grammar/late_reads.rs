//! Bytes that a grammar reads too late.
//!
//! Behind the beginning of the tail, the parser passes on its input whenever it waits for more. The
//! message's view keeps numbers. Of bytes, only those of the field that ended last are sure to be
//! there, until the next field waits. A message with streams must not read other bytes (E0414). A
//! message without streams is held whole if it does.

use super::tail::{begins, Rule, KEPT_BYTES};
use crate::walk::{At, Scope};
use crate::*;
use std::collections::HashMap;

/// In `unit`, the field `reader` reads bytes of `read` that may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    pub unit: UnitId,
    pub reader: FieldId,
    pub read: (UnitId, FieldId),
}

/// The reads of `message` that come too late, nested units included.
pub fn late(m: &Module, rule: Rule, message: UnitId) -> Vec<Late> {
    if rule == Rule::Whole {
        return Vec::new();
    }
    seek(m, rule, message).found
}

/// The `pass when` of `message` that stand where its tail has not begun.
pub fn early(m: &Module, message: UnitId) -> Vec<(UnitId, FieldId)> {
    seek(m, Rule::Streams, message).early
}

fn seek(m: &Module, rule: Rule, message: UnitId) -> Seek<'_> {
    let mut seek = Seek { m, rule, exits: HashMap::new(), found: Vec::new(), early: Vec::new() };
    seek.unit(message, true);
    seek
}

/// A field as it is reached from a unit; the cases of a switch are fields of the same unit, so
/// switches are left out.
type FieldPath = Vec<FieldId>;

/// Which bytes are there when the parser has come so far.
#[derive(Clone)]
enum There {
    /// The tail has not begun.
    All,
    /// It may have begun: those of these fields.
    Only(Vec<FieldPath>),
}

impl There {
    fn nothing() -> Self {
        There::Only(Vec::new())
    }

    /// Behind a field that waits for its bytes and is kept until they are complete.
    fn behind(&self, f: FieldId) -> Self {
        match self {
            There::All => There::All,
            There::Only(_) => There::Only(vec![vec![f]]),
        }
    }

    fn waited(&self) -> Self {
        match self {
            There::All => There::All,
            There::Only(_) => There::nothing(),
        }
    }

    /// The remaining fields, seen from the unit around it, in which it is the field `f`.
    fn inside(self, f: FieldId) -> Self {
        match self {
            There::All => There::All,
            There::Only(ways) => There::Only(ways.into_iter().map(|w| std::iter::once(f).chain(w).collect()).collect()),
        }
    }

    /// The meeting point of the cases of a switch, which was entered with `enter`. A case's own
    /// fields are read in that case only.
    fn meet(self, other: Self, enter: &Self) -> Self {
        let (a, b) = match (self, other) {
            (There::All, one) | (one, There::All) => return one,
            (There::Only(a), There::Only(b)) => (a, b),
        };
        let before = |w: &FieldPath| matches!(enter, There::Only(ways) if ways.contains(w));
        let (both, one): (Vec<FieldPath>, Vec<FieldPath>) = a.iter().chain(&b).cloned().partition(before);
        There::Only(both.into_iter().filter(|w| a.contains(w) && b.contains(w)).chain(one).collect())
    }
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct ReadPlace<'a> {
    unit: UnitId,
    /// From the unit whose ways are known to this one.
    way: &'a [FieldId],
    item: Option<(At, &'a [FieldId])>,
}

impl ReadPlace<'_> {
    fn scope(&self) -> Scope<'static> {
        Scope { this: Some(self.unit), item: self.item.map(|i| i.0), locals: &[] }
    }
}

struct Seek<'a> {
    m: &'a Module,
    rule: Rule,
    /// The readable fields behind a unit that was entered in the head (true) or perhaps in the
    /// tail.
    exits: HashMap<(UnitId, bool), There>,
    found: Vec<Late>,
    /// Declarations about the passing of the tail that stand in front of the tail.
    early: Vec<(UnitId, FieldId)>,
}

impl Seek<'_> {
    fn unit(&mut self, unit: UnitId, head: bool) -> There {
        if let Some(known) = self.exits.get(&(unit, head)) {
            return known.clone();
        }
        let enter = if head { There::All } else { There::nothing() };
        let exit = self.fields(unit, &self.m.unit(unit).body, enter);
        self.exits.insert((unit, head), exit.clone());
        exit
    }

    fn fields(&mut self, unit: UnitId, list: &[FieldId], enter: There) -> There {
        list.iter().fold(enter, |there, &f| self.field(unit, f, there))
    }

    fn field(&mut self, unit: UnitId, f: FieldId, there: There) -> There {
        let m = self.m;
        let begins = begins(m, self.rule, unit, f);
        match &m.unit(unit).fields[f.index()].kind {
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. } => there.behind(f),
            FieldKind::Bytes { max, extent, .. } => {
                if let Extent::Length(e) = extent {
                    self.read(unit, f, e, &there)
                }
                if begins {
                    return There::nothing();
                }
                if *max > KEPT_BYTES {
                    there.waited()
                } else {
                    there.behind(f)
                }
            }
            FieldKind::Unit { unit: inner, args } => {
                for e in args {
                    self.read(unit, f, e, &there)
                }
                self.unit(*inner, matches!(there, There::All)).inside(f)
            }
            FieldKind::List { element, extent, .. } => {
                self.list(unit, f, *element, extent, if begins { There::nothing() } else { there })
            }
            FieldKind::StreamBytes { extent } => {
                if let Extent::Length(e) = extent {
                    self.read(unit, f, e, &there)
                }
                There::nothing()
            }
            FieldKind::StreamUnit { unit: inner, args, until } => {
                for e in args {
                    self.read(unit, f, e, &There::nothing())
                }
                let there = self.unit(*inner, false);
                if let Some(e) = until {
                    self.read_item(unit, f, e, &there, (At::Unit(*inner), &[]))
                }
                there.inside(f)
            }
            FieldKind::Switch { cases } => self.switch(unit, f, cases, there),
            FieldKind::Let { value: e }
            | FieldKind::Require { cond: e }
            | FieldKind::Recover { how: Recover::Length(e) } => {
                self.read(unit, f, e, &there);
                there
            }
            FieldKind::Pass { how: PassRule::When(e) } => {
                self.read(unit, f, e, &there);
                if matches!(there, There::All) && !self.early.contains(&(unit, f)) {
                    self.early.push((unit, f))
                }
                there
            }
            FieldKind::Align { .. } => there.waited(),
            FieldKind::Recover { .. } | FieldKind::Pass { .. } | FieldKind::Nothing => there,
        }
    }

    /// A list reads its count before each element.
    fn list(&mut self, unit: UnitId, f: FieldId, element: FieldId, extent: &ListExtent, there: There) -> There {
        match extent {
            ListExtent::Count(e) => self.read(unit, f, e, &there.waited()),
            ListExtent::Fold { init, done, .. } => {
                self.read(unit, f, init, &there);
                self.read(unit, f, done, &there.waited());
            }
            ListExtent::Until(_) | ListExtent::ToEnd => {}
        }
        let behind = self.field(unit, element, there.waited());
        if let ListExtent::Fold { holds, step, .. } = extent {
            for e in holds.iter().chain([step]) {
                self.read_item(unit, f, e, &behind, (At::Field(unit, element), &[element]))
            }
        }
        behind.waited()
    }

    /// If a literal is among the cases, the conditions are tested again when its bytes have come.
    fn switch(&mut self, unit: UnitId, f: FieldId, cases: &[Case], there: There) -> There {
        let looks = cases.iter().any(|c| matches!(c.guard, Guard::Literal { .. }));
        let there = if looks { there.waited() } else { there };
        let mut exit: Option<There> = None;
        for case in cases {
            if let Guard::When(e) = &case.guard {
                self.read(unit, f, e, &there)
            }
            let behind = self.fields(unit, &case.fields, there.clone());
            if matches!(case.guard, Guard::Fault(_)) {
                continue;
            }
            exit = Some(match exit {
                Some(other) => other.meet(behind, &there),
                None => behind,
            });
        }
        exit.unwrap_or(there)
    }

    fn read(&mut self, unit: UnitId, reader: FieldId, e: &Expr, there: &There) {
        self.read_at(reader, e, there, ReadPlace { unit, way: &[], item: None });
    }

    /// An expression over an item (`Root::Item`), whose fields are reached by `item.1`.
    fn read_item(&mut self, unit: UnitId, reader: FieldId, e: &Expr, there: &There, item: (At, &[FieldId])) {
        self.read_at(reader, e, there, ReadPlace { unit, way: &[], item: Some(item) });
    }

    fn read_at(&mut self, reader: FieldId, e: &Expr, there: &There, place: ReadPlace) {
        let There::Only(ways) = there else { return };
        if let Some(read) = late_in(self.m, e, ways, place, 0) {
            let late = Late { unit: place.unit, reader, read };
            if !self.found.contains(&late) {
                self.found.push(late)
            }
        }
    }
}

/// The first field in an expression whose bytes may not be there.
fn late_in(m: &Module, e: &Expr, ways: &[FieldPath], place: ReadPlace, depth: u32) -> Option<(UnitId, FieldId)> {
    if is_length(m, e, place) {
        return None;
    }
    let mut late = if reads_bytes(m, e) { late_read(m, e, ways, place, depth) } else { None };
    walk::children(e, &mut |c| {
        if late.is_none() {
            late = late_in(m, c, ways, place, depth)
        }
    });
    late
}

/// `len(field)`: where a field lies and how long it is are in the view.
fn is_length(m: &Module, e: &Expr, place: ReadPlace) -> bool {
    let ExprKind::Builtin(Builtin::LenBytes, args) = &*e.kind else { return false };
    let [Expr { kind, .. }] = &args[..] else { return false };
    let ExprKind::Read(path) = &**kind else { return false };
    matches!(m.follow(path, place.scope(), &mut |_, _| ()), Some(At::Field(u, f)) if matches!(m.unit(u).fields[f.index()].kind, FieldKind::Bytes { .. }))
}

/// Numbers, counts and cases are in the view.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn reads_bytes(m: &Module, e: &Expr) -> bool {
    match &*e.kind {
        ExprKind::Raw(_) | ExprKind::Find { .. } | ExprKind::CountOf { .. } | ExprKind::AnyToken { .. } => true,
        ExprKind::Read(_) => layout::has_bytes(m, e.ty),
        _ => false,
    }
}

fn late_read(m: &Module, e: &Expr, ways: &[FieldPath], place: ReadPlace, depth: u32) -> Option<(UnitId, FieldId)> {
    let path = walk::path_of(e)?;
    let mut way = match path.root {
        Root::Item => place.item?.1,
        Root::Local(_) | Root::This => place.way,
    }
    .to_vec();
    let mut last = None;
    m.follow(path, place.scope(), &mut |u, f| {
        last = Some((u, f));
        if !matches!(m.unit(u).fields[f.index()].kind, FieldKind::Switch { .. }) {
            way.push(f)
        }
    });
    // The whole unit or item: all its bytes.
    let Some((unit, field)) = last else { return m.unit(place.unit).body.first().map(|f| (place.unit, *f)) };
    let indexed = path.steps.iter().any(|s| matches!(s, Step::Index(_)));
    match (&m.unit(unit).fields[field.index()].kind, &*e.kind) {
        // A computed value with bytes is computed again, or kept as a place.
        (FieldKind::Let { value }, ExprKind::Read(_)) if !indexed && depth <= layout::MAX_DEPTH => {
            way.pop();
            late_in(m, value, ways, ReadPlace { unit, way: &way, item: None }, depth + 1)
        }
        // The raw bytes of a field are not kept for its value's sake.
        (FieldKind::Bytes { .. }, ExprKind::Raw(_)) => Some((unit, field)),
        (_, ExprKind::Read(_) | ExprKind::Raw(_)) if !indexed && ways.contains(&way) => None,
        _ => Some((unit, field)),
    }
}
