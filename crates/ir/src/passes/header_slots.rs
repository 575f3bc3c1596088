//! The fields of headers whose places a parser notes.
//!
//! In: the frame units, behind the passes that tell which fields are read. Out: [`Frame::slots`]. A
//! field needs a slot if it is read and its own size varies, or that of a field before it. The
//! others lie at constant offsets from their header's first byte.

use crate::frame::{field_size, needed_layers};
use crate::plans::HeaderSlot;
use crate::*;

pub fn run(m: &mut Module) {
    let plans: Vec<_> = (0..m.units.len()).map(|u| plan(m, UnitId(u as u32))).collect();
    for (u, plan) in m.units.iter_mut().zip(plans) {
        if let Some(f) = &mut u.frame {
            f.slots = plan
        }
    }
}

/// The slots of a frame unit, in the order of its headers and their fields.
fn plan(m: &Module, unit: UnitId) -> Vec<HeaderSlot> {
    let Some(f) = &m.unit(unit).frame else { return vec![] };
    let (_, needed) = needed_layers(m, unit);
    let slots = needed.into_iter().flat_map(|layer| {
        let header = f.layers[layer as usize].unit;
        fields(m, header).into_iter().map(move |field| HeaderSlot { layer, field })
    });
    slots.collect()
}

/// The fields of a header that need a slot.
fn fields(m: &Module, header: UnitId) -> Vec<FieldId> {
    let (mut fixed, mut found) = (true, vec![]);
    for f in &m.unit(header).body {
        let field = &m.unit(header).fields[f.index()];
        let varies = field_size(m, field).is_none();
        if (field.value_used || field.extent_used) && (varies || !fixed) {
            found.push(*f)
        }
        fixed &= !varies;
    }
    found
}

/// Why a backend must not follow a plan; None: it may.
pub fn illegal(m: &Module, unit: UnitId, slots: &[HeaderSlot]) -> Option<&'static str> {
    let layers = m.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
    for (n, s) in slots.iter().enumerate() {
        let header = layers.get(s.layer as usize).map(|l| m.unit(l.unit));
        if !header.is_some_and(|h| h.body.contains(&s.field)) {
            return Some("its header has no such field");
        }
        if slots[..n].contains(s) {
            return Some("a field has two slots");
        }
    }
    None
}

/// Whether a field that is read has no slot although it needs one.
pub fn lacks(m: &Module, unit: UnitId, slots: &[HeaderSlot]) -> bool {
    plan(m, unit).iter().any(|s| !slots.contains(s))
}
