//! The service runtime. Programs and their descriptions come in: compiled C or the interpreter,
//! behind the C ABI of `wireloom.h`. Service on sockets and on frame ports goes out. One thread per
//! core runs to completion.
//!
//! Stages: `params` resolves settings. `core::app` makes an [`App`]. `server` starts cores, signals
//! and the admin page. Each [`core::Core`] takes events from an `engine`, parses, runs handlers,
//! and moves requests and replies. `merge` nodes combine sorted streams. `packet` has the cores of
//! apps with frame ports. `sim` is the same core over the memory engine with virtual time, for
//! tests.

pub mod abi;
pub mod access_log;
pub mod admin;
pub mod buffer;
pub mod clock;
pub mod consistent_hashing;
pub mod control;
pub mod core;
pub mod crypto;
pub mod engine;
pub mod error;
pub mod large_pages;
pub mod log_lines;
pub mod log_queue;
pub mod merge;
mod name_watch;
pub mod os_signals;
pub mod packet;
pub mod params;
pub mod program;
pub mod reload;
pub mod server;
pub mod server_names;
mod server_places;
mod services;
mod signal;
pub mod sim;
pub mod splitter;
pub mod stats;
pub mod table_io;
pub mod time_limit;
pub mod timer;
pub mod value_syntax;
pub mod view;
mod without_connections;

#[cfg(test)]
mod socket_tests;
#[cfg(test)]
mod test_program;

pub use crate::core::app::App;
pub use error::{Error, Origin};
pub use program::{Outside, Program, Tiers};
pub use server::{serve, AppSpec, ServeOptions, Stop, Summary};
pub use services::listen_early;
pub use sim::Sim;
