//! Fields whose bytes edits need: a view keeps their extents.

use crate::*;
use std::collections::BTreeSet;

/// Unit and field, each.
#[derive(Default)]
pub struct EditedFields {
    /// Fields that are replaced, lists that are changed, and items that are removed.
    pub extents: BTreeSet<(u32, u32)>,
    /// Lists from which items are removed: a view keeps all items.
    pub items: BTreeSet<(u32, u32)>,
}

/// The fields that the edits of a module's bodies name.
pub fn of(m: &Module) -> EditedFields {
    let mut all = EditedFields::default();
    m.bodies(&mut |body| {
        walk::stmts(&body.block, &mut |s| {
            let Some(Outgoing::Pass { msg, edits }) = walk::outgoing(&s.kind) else { return };
            for e in edits {
                let (path, removes) = match e {
                    Edit::Set { field, .. } => (field, false),
                    Edit::Remove { list, .. } => (list, true),
                    Edit::Append { list, .. } => (list, false),
                };
                let path = Path { root: Root::Local(*msg), steps: path.iter().map(|f| Step::Field(*f)).collect() };
                let mut last = None;
                m.follow(&path, walk::Scope::locals(&body.locals), &mut |u, f| last = Some((u, f)));
                let Some((u, f)) = last else { continue };
                all.extents.insert((u.0, f.0));
                if let (true, FieldKind::List { element, .. }) = (removes, &m.unit(u).fields[f.index()].kind) {
                    all.extents.insert((u.0, element.0));
                    all.items.insert((u.0, f.0));
                }
            }
        })
    });
    all
}
