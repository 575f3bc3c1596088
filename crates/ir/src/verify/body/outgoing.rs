//! Messages that a body sends: those that it builds, and those that it passes on with edits.

use super::{Flow, Inside, PathFacts, StmtPlace};
use crate::walk::{At, Scope};
use crate::*;

impl Flow<'_, '_, '_> {
    pub(super) fn message(&mut self, here: StmtPlace, msg: &Outgoing, unit: UnitId, state: &PathFacts) {
        let StmtPlace { name, path, at } = here;
        let mut number = 0;
        match msg {
            Outgoing::Nothing => {}
            Outgoing::Built { unit: u, body } => {
                self.c.need(*u == unit, path, "the message is of another unit than its protocol's");
                self.within(Inside::Message, |f| f.block(name, at, &mut number, body, Some(state.clone())));
            }
            Outgoing::Pass { msg, edits } => {
                let Some(u) = self.unit_of(*msg) else {
                    return self.error(path, "the local that is passed on is no message");
                };
                self.c.need(u == unit, path, "the message is of another unit than its protocol's");
                for e in edits {
                    self.edit(path, *msg, e);
                    if let Edit::Set { body, .. } | Edit::Append { body, .. } = e {
                        self.within(Inside::Message, |f| f.block(name, at, &mut number, body, Some(state.clone())));
                    }
                }
                let sorted = !self.c.passed || passes::edits::sorted(self.c.m, u, edits);
                self.c.need(sorted, path, "the edits are not in wire order, or a list has several removals");
            }
        }
    }

    fn edit(&mut self, path: &str, msg: LocalId, edit: &Edit) {
        let way = grammar::edit_path(msg, edit);
        let end = self.c.m.follow(&way, Scope::locals(self.locals), &mut |_, _| ());
        let Some(At::Field(u, f)) = end else { return self.error(path, "an edit names no field") };
        let is_list = matches!(self.c.m.unit(u).fields[f.index()].kind, FieldKind::List { .. });
        match edit {
            Edit::Set { cond, .. } => {
                self.c.need(cond.as_ref().is_none_or(|c| self.c.is_bool(c.ty)), path, "a condition is not a bool")
            }
            Edit::Append { cond, .. } => {
                self.c.need(is_list, path, "items are added to what is no list");
                self.c.need(cond.as_ref().is_none_or(|c| self.c.is_bool(c.ty)), path, "a condition is not a bool")
            }
            Edit::Remove { index, cond, .. } => {
                self.c.need(is_list, path, "items are removed from what is no list");
                self.c.need(self.c.is_bool(cond.ty), path, "a condition is not a bool");
                self.c.need(
                    self.ty_of(*index).is_some_and(|t| self.c.is_uint_of(t, 32)),
                    path,
                    "an item's index is not a u32 local",
                );
            }
        }
    }
}

/// Locals that a statement's removals set for their conditions.
pub(super) fn removed(s: &StmtKind) -> Vec<LocalId> {
    match walk::outgoing(s) {
        Some(Outgoing::Pass { edits, .. }) => {
            edits.iter().filter_map(|e| if let Edit::Remove { index, .. } = e { Some(*index) } else { None }).collect()
        }
        _ => Vec::new(),
    }
}
