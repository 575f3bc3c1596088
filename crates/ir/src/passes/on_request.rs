//! Passes that are no part of [`super::TABLE`], and the search of a pass by its name.

use super::{Pass, TABLE};

/// Passes that run only where they are asked for.
pub const ON_REQUEST: &[Pass] = &[Pass {
    name: "place",
    doc: "gives the handlers of packets that can run there to the XDP hook",
    run: crate::placement::run,
}];

pub fn find(name: &str) -> Option<&'static Pass> {
    TABLE.iter().chain(ON_REQUEST).find(|p| p.name == name)
}
