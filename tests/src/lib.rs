//! The common part of the end-to-end tests: the `wireloom` binary as a child process, real servers
//! (nginx, memcached, redis) on free ports, and scripted backends. Also raw clients with deadlines,
//! and dialogues that hold for any server of a protocol. All traffic stays on loopback, or in
//! namespaces of a test's own (`net`).
//!
//! In: nothing but the built binary (`wireloom` of the tests' own profile, or `$WIRELOOM`). A tool
//! that is not installed makes a test skip loudly, unless `CI` is set: then it fails. With
//! `PLAIN=1` real servers stand in for ours, which checks the tests' own expectations.

pub mod admin;
pub mod captures;
pub mod client;
pub mod control;
pub mod dialogue;
pub mod dns;
pub mod folder;
pub mod frames;
pub mod fuzz;
pub mod grammars;
pub mod limits;
pub mod mariadb;
pub mod memcached;
pub mod net;
pub mod packets;
mod ports;
pub mod postfix;
pub mod postgres;
pub mod process;
pub mod programs;
pub mod python;
pub mod redis;
pub mod script;
mod stand_in;
pub mod whole;

pub use client::{Client, CLOSING, PATIENCE};
pub use dialogue::{tag, Dialogue};
pub use ports::{free_port, Ports};
pub use process::{
    client_library, finish, fully_compiled, quickly_compiled, require_tool, servers, Output, Process, Wireloom,
};
pub use script::Backend;

/// The repository's root.
pub fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository is there")
}

/// True if a real server stands in for ours, to check the expectations of the tests.
pub fn plain() -> bool {
    std::env::var_os("PLAIN").is_some()
}

/// The turn of a test that keeps all cores busy, or measures their use: one at a time, until it is
/// dropped.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Tries up to three times something that other load on the machine can spoil. A real failure fails
/// each time.
pub fn thrice(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut wrong = String::new();
    for _ in 0..3 {
        match attempt() {
            Ok(()) => return,
            Err(e) => wrong += &format!("{e}\n"),
        }
    }
    panic!("three times in a row:\n{wrong}");
}
