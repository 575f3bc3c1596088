//! Faults of packets by name, as the end of a run tells them.

use crate::core::app::name_of_fault;
use wireloom_ir::desc::Desc;

/// Adds faults (kind, place, number) to the list of their names: the most frequent stand first.
pub fn add(desc: &Desc, faults: impl IntoIterator<Item = (u32, u32, u64)>, kinds: &mut Vec<(String, u64)>) {
    for (kind, place, n) in faults {
        let place = desc.places.get(place as usize).map_or("", |p| &p.name);
        let name = format!("{} {place}", name_of_fault(desc, kind)).trim_end().to_string();
        match kinds.iter_mut().find(|k| k.0 == name) {
            Some(k) => k.1 += n,
            None => kinds.push((name, n)),
        }
    }
    kinds.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
}
