//! To be described.

pub mod abi;
pub mod buffer;
pub mod engine;
pub mod timer;
