//! Values that a handler keeps in registers over a batch of frames.

use crate::*;

/// Values that a handler of frames keeps in registers for the length of a batch. No store to a
/// frame or a table can touch it there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HoistedState {
    /// Counters that no code of the program reads.
    pub counters: Vec<CounterId>,
    /// Tables whose hits and misses are counted: those of the batch lookup.
    pub lookups: Vec<TableId>,
    /// Conditions that no frame changes, evaluated once per batch.
    pub conditions: Vec<Condition>,
    /// The exact table of the batch lookup, if no frame changes it: whether it has entries is asked
    /// once per batch.
    pub filled: Option<TableId>,
    /// The single output of the handler: frames that leave are counted, and their bytes.
    pub output: Option<Destination>,
}

/// A condition over parameters, constants, and state that no frame changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub cond: Expr,
    /// Without it much of the handler is left out.
    pub optional: bool,
}

/// Where frames leave: an instance of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    pub port: PortId,
    pub instance: u32,
}

impl HoistedState {
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
            && self.lookups.is_empty()
            && self.conditions.is_empty()
            && self.filled.is_none()
            && self.output.is_none()
    }

    /// The number of a condition.
    pub fn condition(&self, cond: &Expr) -> Option<usize> {
        self.conditions.iter().position(|c| c.cond == *cond)
    }
}
