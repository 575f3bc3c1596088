//! Tests that measure time, memory or descriptors, or are ended in the middle. They are a binary of
//! their own, so that other tests do not compute beside them.
//!
//! One binary: `cargo test -p wireloom-tests --test timing -- NAME::` runs one file of it.

mod check_times;
mod cli;
mod cores;
mod drain;
mod ejection;
mod fairness;
mod faults_load;
mod first_minutes;
mod long_commands;
mod moves;
mod soak;
