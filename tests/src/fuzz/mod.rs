//! Fuzzing of the compiler. In: every Wireloom program of the repository ([`corpus`]). Out of them
//! come damaged ones ([`mutate`]), and of each what the compiler owes it is checked ([`judge`]).
//! And out of them come the same with other names ([`rename`]).

pub mod corpus;
pub mod judge;
pub mod mutate;
pub mod rename;
