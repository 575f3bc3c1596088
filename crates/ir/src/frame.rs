//! Sizes and places in frames that all backends share.

use crate::*;

/// Whether header `from` can be followed, directly or not, by `to`.
pub fn leads_to(layers: &[Layer], from: u32, to: u32) -> bool {
    layers[to as usize].after.iter().filter_map(|a| a.layer).any(|k| k == from || leads_to(layers, from, k))
}

/// Bytes by which a field moves the position; of bit fields only the last one of a group does.
pub fn step(m: &Module, f: &Field) -> u32 {
    match &f.kind {
        FieldKind::UInt { bytes, advance, .. } => if *advance { u32::from(*bytes) } else { 0 },
        _ => field_size(m, f).unwrap_or(0),
    }
}

/// Bytes that a field takes, if that is always the same.
pub fn field_size(m: &Module, f: &Field) -> Option<u32> {
    Some(match &f.kind {
        FieldKind::UInt { bytes, .. } => u32::from(*bytes),
        FieldKind::Bytes { extent: Extent::Length(e), .. } => match &*e.kind { ExprKind::Int(n) => u32::try_from(*n).ok()?, _ => return None },
        FieldKind::Literal { values } => values.first().map_or(0, |v| v.len() as u32),
        FieldKind::Unit { unit, .. } => m.unit(*unit).body.iter().map(|f| { let f = &m.unit(*unit).fields[f.index()]; field_size(m, f).map(|_| step(m, f)) }).sum::<Option<u32>>()?,
        FieldKind::Let { .. } | FieldKind::Require { .. } | FieldKind::Recover { .. } | FieldKind::Nothing => 0,
        _ => return None,
    })
}

/// Offset of a field that only fields of fixed size precede.
pub fn fixed_offset(m: &Module, u: UnitId, field: FieldId) -> Option<u32> {
    let mut at = 0;
    for f in &m.unit(u).body {
        if *f == field { return Some(at) }
        let f = &m.unit(u).fields[f.index()];
        field_size(m, f)?;
        at += step(m, f);
    }
    None
}
