//! Rooms of a view: the items of lists, which are most of a large view and of which few are in use.
//!
//! In: the struct of a unit. Out: C that clears or copies a view without the items that are not in
//! use. None beyond a list's `n` is ever read, and the parser writes an item whole.

use crate::gen::Gen;
use crate::names;
use wireloom_ir::*;

/// Lists of so many items are cleared and copied with all their room.
const FEW: u32 = 16;

/// Bytes of a view, as C expressions: offsets of their begin and end, and of the end of those in
/// use in the view `v`. A plain part is always in use: it ends where it begins.
#[derive(Clone)]
struct Room {
    from: String,
    to: String,
    used: String,
}

impl Room {
    fn plain(end: String) -> Room {
        Room { from: end.clone(), to: end.clone(), used: end }
    }

    fn is_plain(&self) -> bool {
        self.from == self.to
    }
}

/// A unit's struct inside of a view.
struct Place<'a> {
    view: &'a str,
    unit: UnitId,
    /// The path to the unit's members, with a `.` behind it.
    path: &'a str,
}

impl Gen<'_> {
    /// Before the first byte all of a view but `wl_parser` is zero, except for rooms.
    pub fn clear_view(&self, u: UnitId) -> String {
        let view = format!("{}_view", names::unit(self.m, u));
        let mut text = String::new();
        let mut from = "sizeof(wl_parser)".to_string();
        for room in self.rooms_of(u, &view) {
            text.push_str(&format!("wl_clear(v, {from}, {});\n", room.from));
            from = room.to;
        }
        text.push_str(&format!("wl_clear(v, {from}, sizeof *v);\n"));
        text
    }

    /// The function that copies a view, and its name; None: it has no rooms.
    pub fn copy_view(&self, u: UnitId) -> Option<(String, String)> {
        let name = names::unit(self.m, u);
        let view = format!("{name}_view");
        let rooms = self.rooms_of(u, &view);
        if rooms.is_empty() {
            return None;
        }
        let mut text = format!(
            "static uint64_t {name}_copy(wl_parser *to, const wl_parser *view) {{\nconst {view} *const v = (const {view} *)(const void *)view;\nuint64_t all = 0;\n"
        );
        let mut from = "0".to_string();
        for room in rooms {
            // A view that lies must not write behind the room.
            text.push_str(&format!("all += wl_copy_part(to, v, {from}, wl_min({}, {}));\n", room.used, room.to));
            from = room.to;
        }
        text.push_str(&format!("all += wl_copy_part(to, v, {from}, sizeof *v);\nreturn all;\n}}\n"));
        Some((format!("{name}_copy"), text))
    }

    fn rooms_of(&self, unit: UnitId, view: &str) -> Vec<Room> {
        self.rooms(&Place { view, unit, path: "f." }, &self.m.unit(unit).body)
    }

    /// In the order of their places.
    fn rooms(&self, at: &Place, fields: &[FieldId]) -> Vec<Room> {
        let mut all = Vec::new();
        for &f in fields {
            let path = format!("{}{}.", at.path, names::field(self.m, at.unit, f));
            let kind = &self.m.unit(at.unit).fields[f.index()].kind;
            if let FieldKind::Unit { unit, .. } = kind {
                all.extend(self.rooms(&Place { unit: *unit, path: &path, ..*at }, &self.m.unit(*unit).body));
            } else if matches!(kind, FieldKind::List { .. } | FieldKind::Switch { .. }) {
                all.extend(self.end_of(at, f).filter(|room| !room.is_plain()));
            }
        }
        all
    }

    /// The last bytes of the members of a field; None: it has none.
    fn end_of(&self, at: &Place, f: FieldId) -> Option<Room> {
        let field = &self.m.unit(at.unit).fields[f.index()];
        let (view, member) = (at.view, format!("{}{}", at.path, names::field(self.m, at.unit, f)));
        let end = |member: &str| format!("WL_END({view}, {member})");
        match &field.kind {
            FieldKind::List { element, max, .. } if *max > FEW && self.has_room(at.unit, f, *element) => {
                let from = format!("offsetof({view}, {member}.at)");
                // The item behind the last one may be incomplete.
                let used = format!("{from} + (v->{member}.n + UINT64_C(1)) * sizeof v->{member}.at[0]");
                Some(Room { from, to: end(&format!("{member}.at")), used })
            }
            FieldKind::Unit { unit, .. } => {
                let inner = Place { unit: *unit, path: &format!("{member}."), ..*at };
                let last = self.last(&inner, &self.m.unit(*unit).body).filter(|room| !room.is_plain());
                Some(last.map_or(Room::plain(end(&member)), |room| Room { to: end(&member), ..room }))
            }
            FieldKind::Switch { cases } => {
                let case = format!("{member}__case");
                let ends = cases.iter().map(|c| self.last(at, &c.fields)).collect();
                Some(union(&case, ends).unwrap_or_else(|| Room::plain(end(&case))))
            }
            FieldKind::List { .. } | FieldKind::StreamUnit { .. } => Some(Room::plain(end(&member))),
            FieldKind::UInt { .. }
            | FieldKind::Number { .. }
            | FieldKind::Varint { .. }
            | FieldKind::Bytes { .. }
            | FieldKind::Literal { .. }
            | FieldKind::Flag { .. }
            | FieldKind::StreamBytes { .. }
            | FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Align { .. }
            | FieldKind::Nothing => {
                let stored = self.stores(at.unit, f).then_some(member.clone());
                let extent = || self.has_extent(at.unit, f).then(|| format!("{member}__x"));
                stored.or_else(extent).map(|last| Room::plain(end(&last)))
            }
        }
    }

    fn last(&self, at: &Place, fields: &[FieldId]) -> Option<Room> {
        fields.iter().rev().find_map(|f| self.end_of(at, *f))
    }

    /// Whether a list has room for items, which are units or values.
    fn has_room(&self, u: UnitId, f: FieldId, element: FieldId) -> bool {
        let plain = matches!(
            self.m.unit(u).fields[element.index()].kind,
            FieldKind::Unit { .. }
                | FieldKind::UInt { .. }
                | FieldKind::Number { .. }
                | FieldKind::Varint { .. }
                | FieldKind::Bytes { .. }
        );
        plain && self.keeps_items(u, f, element)
    }
}

/// The room at the end of a union: behind that which any of its cases has always in use.
fn union(case: &str, ends: Vec<Option<Room>>) -> Option<Room> {
    let most = |of: &dyn Fn(&Room) -> String| {
        let mut each = ends.iter().flatten().map(of);
        let first = each.next()?;
        Some(each.fold(first, |a, b| format!("wl_max({a}, {b})")))
    };
    let (from, to) = (most(&|r| r.from.clone())?, most(&|r| r.to.clone())?);
    let with = ends.iter().enumerate().filter_map(|(n, r)| Some((n, r.as_ref().filter(|r| !r.is_plain())?)));
    let used =
        with.fold(from.clone(), |other, (n, r)| format!("(v->{case} == {n} ? wl_max({from}, {}) : {other})", r.used));
    Some(if used == from { Room::plain(to) } else { Room { from, to, used } })
}
