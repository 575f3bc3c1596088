//! Which fields are stored: sets `Field.value_used` and `Field.extent_used` of all units.
//!
//! A value is used when program code or the grammar itself reads it. An extent is used when raw
//! bytes are taken or an edit replaces them. The value of a switch is the number of its case, that
//! of a list the number of its items. A list's items need storing only if its element, or a field
//! of the element's unit, is itself used. A `let` without a reader is not evaluated, so fields that
//! only it reads are not used either.

use crate::grammar as grammars;
use crate::walk::{At, Scope};
use crate::*;

pub fn run(m: &mut Module) {
    let mut marks = Marks { value: flags(m), extent: flags(m) };
    loop {
        let before = marks.clone();
        grammar(m, &mut marks);
        if before == marks {
            break;
        }
    }
    // A computed field that the grammar does not use is checked against what it was computed from.
    computed(m, &mut marks);
    m.program_exprs(&mut |e, scope| marks.expr(m, e, scope));
    edits(m, &mut marks);
    for g in &m.merges {
        for f in g.values.iter().map(|v| v.field).chain([g.key]) {
            marks.value(g.unit, f);
            marks.extent(g.unit, f)
        }
    }
    loop {
        let before = marks.clone();
        grammar(m, &mut marks);
        if before == marks {
            break;
        }
    }
    for (u, unit) in m.units.iter_mut().enumerate() {
        for (f, field) in unit.fields.iter_mut().enumerate() {
            field.value_used = marks.value[u][f];
            field.extent_used = marks.extent[u][f];
        }
    }
}

fn flags(m: &Module) -> Vec<Vec<bool>> {
    m.units.iter().map(|u| vec![false; u.fields.len()]).collect()
}

#[derive(Clone, PartialEq)]
struct Marks {
    value: Vec<Vec<bool>>,
    extent: Vec<Vec<bool>>,
}

impl Marks {
    fn value(&mut self, u: UnitId, f: FieldId) {
        set(&mut self.value, u, f)
    }
    fn extent(&mut self, u: UnitId, f: FieldId) {
        set(&mut self.extent, u, f)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn expr(&mut self, m: &Module, e: &Expr, scope: Scope) {
        let Some(path) = walk::path_of(e) else { return };
        // To reach an item, its list is counted; to read in a case, the switch is known to the
        // program by `Case`.
        let mut lists = Vec::new();
        let end = m.follow(path, scope, &mut |u, f| {
            if matches!(m.unit(u).fields[f.index()].kind, FieldKind::List { .. }) {
                lists.push((u, f))
            }
        });
        // The bytes of a whole list are its extent; its items are not looked at.
        let whole = matches!(&*e.kind, ExprKind::Raw(_)).then_some(end).flatten();
        for (u, f) in lists {
            if whole != Some(At::Field(u, f)) {
                self.value(u, f)
            }
        }
        let Some(At::Field(u, f)) = end else { return };
        match &*e.kind {
            ExprKind::Raw(_) => self.extent(u, f),
            ExprKind::Find { .. } | ExprKind::AnyToken { .. } => self.name_value(m, u, f, true),
            ExprKind::CountOf { .. } => self.name_value(m, u, f, false),
            _ => self.value(u, f),
        }
    }

    fn name_value(&mut self, m: &Module, u: UnitId, list: FieldId, both: bool) {
        self.value(u, list);
        let FieldKind::List { element, .. } = &m.unit(u).fields[list.index()].kind else { return };
        if let Some((inner, name, value)) = m.name_and_value(u, *element) {
            self.value(inner, name);
            if let (true, Some(v)) = (both, value) {
                self.value(inner, v)
            }
        }
    }
}

fn set(marks: &mut [Vec<bool>], u: UnitId, f: FieldId) {
    if let Some(m) = marks.get_mut(u.index()).and_then(|u| u.get_mut(f.index())) {
        *m = true
    }
}

/// The fields that grammars read; of `let`s only those whose value is used so far.
fn grammar(m: &Module, marks: &mut Marks) {
    for u in 0..m.units.len() {
        let id = UnitId(u as u32);
        frame(m, id, marks);
        for (f, field) in m.units[u].fields.iter().enumerate() {
            if matches!(field.kind, FieldKind::Let { .. }) && !marks.value[u][f] {
                continue;
            }
            walk::field_exprs(field, &mut |e, role| {
                let item = match (&field.kind, role) {
                    (FieldKind::List { element, .. }, walk::Role::Item) => Some(At::Field(id, *element)),
                    (FieldKind::StreamUnit { unit, .. }, walk::Role::Item) => Some(At::Unit(*unit)),
                    _ => None,
                };
                walk::expr(e, &mut |e| marks.expr(m, e, Scope { this: Some(id), item, locals: &[] }));
            });
        }
    }
}

/// The fields that find the headers of a frame, and those that edits in place keep right.
fn frame(m: &Module, id: UnitId, marks: &mut Marks) {
    for l in m.unit(id).frame.iter().flat_map(|f| &f.layers) {
        for c in l.after.iter().filter_map(|a| a.cond.as_ref()) {
            walk::expr(c, &mut |e| marks.expr(m, e, Scope::this(id)))
        }
        let h = &m.unit(l.unit).header;
        let named = [
            h.checksum.map(|c| c.field),
            h.checksum.and_then(|c| c.when),
            h.addresses.map(|a| a.0),
            h.addresses.map(|a| a.1),
            h.covers.map(|c| c.field),
            h.partial,
        ];
        for f in named.into_iter().flatten() {
            marks.value(l.unit, f)
        }
    }
}

fn computed(m: &Module, marks: &mut Marks) {
    for (u, unit) in m.units.iter().enumerate() {
        for (f, field) in unit.fields.iter().enumerate() {
            let Some(c) = &field.computed else { continue };
            if marks.value[u][f] {
                continue;
            }
            let id = UnitId(u as u32);
            marks.value(id, FieldId(f as u32));
            for l in &c.lengths {
                marks.extent(id, *l)
            }
        }
    }
}

/// Edits need the extents of what they replace, and of the lengths that change with it.
fn edits(m: &Module, marks: &mut Marks) {
    m.bodies(&mut |body| {
        walk::stmts(&body.block, &mut |s| {
            let Some(Outgoing::Pass { msg, edits }) = walk::outgoing(&s.kind) else { return };
            for edit in edits {
                let path = grammars::edit_path(*msg, edit);
                let Some(At::Field(u, f)) = m.follow(&path, Scope::locals(&body.locals), &mut |_, _| ()) else {
                    continue;
                };
                marks.extent(u, f);
                if let (Edit::Remove { .. }, FieldKind::List { element, .. }) =
                    (edit, &m.unit(u).fields[f.index()].kind)
                {
                    marks.value(u, f);
                    marks.extent(u, *element);
                }
                for (c, field) in m.unit(u).fields.iter().enumerate() {
                    let Some(lengths) = field.computed.as_ref().map(|c| &c.lengths).filter(|l| l.contains(&f)) else {
                        continue;
                    };
                    marks.extent(u, FieldId(c as u32));
                    for l in lengths {
                        marks.extent(u, *l)
                    }
                }
            }
        })
    });
}
