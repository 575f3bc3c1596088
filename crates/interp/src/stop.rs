//! Why evaluation or execution ends early.

use wireloom_ir::{FaultKind, PlaceId};

/// Why evaluation or execution ends early.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    Fault {
        kind: FaultKind,
        place: PlaceId,
    },
    /// The module breaks a rule that the checker should have ensured.
    Internal(String),
}

pub type Res<T> = Result<T, Stop>;

pub fn internal<T>(what: impl Into<String>) -> Res<T> {
    Err(Stop::Internal(what.into()))
}
