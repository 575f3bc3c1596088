//! Checks a message that is written against its unit.
//!
//! In: a unit, and the fields that are given or changed. Out: nothing if the unit certainly accepts
//! them, E0433 if it certainly does not, else guards in front of the message. Each file has one
//! kind of check.

pub mod byte_values;
pub mod constraints;
pub mod counts;
pub mod edits;
pub mod list_ends;
mod neighbours;
mod open_ends;
pub mod prefix;
pub mod whitespace;
pub mod written_beginnings;
