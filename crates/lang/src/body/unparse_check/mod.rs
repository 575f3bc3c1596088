//! What a message that is written owes its unit.
//!
//! In: a unit, and the fields that are given or changed. Out: nothing where the unit certainly
//! takes them, E0433 where it certainly does not, else guards in front of the message. Each file is
//! one such debt.

pub mod constraints;
pub mod counts;
pub mod edits;
pub mod prefix;
pub mod whitespace;
