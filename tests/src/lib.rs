//! What the end-to-end tests share: the `wireloom` binary as a child process, real servers (nginx, memcached, redis) started on
//! free ports, scripted backends and raw clients with deadlines. All traffic stays on loopback.
//!
//! In: nothing but the built binary (`target/release/wireloom`, or `$WIRELOOM`). A tool that is not installed makes a test skip loudly,
//! unless `CI` is set: then it fails.

pub mod client;
pub mod process;
pub mod script;

pub use client::Client;
pub use process::{free_port, require_tool, servers, Process, Wireloom};
pub use script::Backend;

/// The repository's root.
pub fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository is there")
}
