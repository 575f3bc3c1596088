//! What measures time, memory or descriptors, or is ended in the middle. It is a binary of its own,
//! so that nothing computes beside it but its like.
//!
//! One binary: `cargo test -p wireloom-tests --test timing -- NAME::` runs one file of it.

mod cli;
mod cores;
mod drain;
mod ejection;
mod fairness;
mod faults_load;
mod first_minutes;
mod moves;
mod soak;
