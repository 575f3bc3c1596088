//! The reference interpreter: it defines the meaning of every construct of the IR.
//!
//! In: a verified [`wireloom_ir::Module`]. Out: a program behind the same C function table as
//! compiled C ([`program`]), and a pure API for tests and fuzzers ([`api`]). So `wireloom run` and
//! `test` work without a C compiler, and every backend can be compared with it. Stages:
//!
//! - [`grammar`] prepares unit grammars: a plain parser for heads, a flat program for tails;
//! - [`exec::flatten`] lowers handler bodies to flat code;
//! - [`program`] runs both over the runtime's memory.
//!
//! Other parts: [`merge`] is the meaning of `merge`, and [`merge_table`] the same behind the ABI.
//! [`generate`] makes messages from a grammar, and mutations. [`differential`] compares two
//! programs over the same bytes.
//!
//! Unsafe code is confined to the borders with the ABI: `program`, `exec` and `differential`.

pub mod api;
pub mod builtin;
pub mod differential;
pub mod env;
pub mod eval;
pub mod exec;
pub mod frames;
pub mod generate;
pub mod grammar;
pub mod json;
pub mod merge;
pub mod merge_table;
pub mod program;
pub mod stop;
pub mod value;

pub use api::{eval_test, parse_message, Parsed};
pub use exec::tables::{OutsideTable, Pattern, Ranked};
pub use merge::merge_reference;
pub use merge_table::InterpMerges;
pub use program::{program, program_beside, InterpProgram};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use wireloom_ir::FaultKind;

/// The fault of a handler or parser that met something which the checker should have ruled out.
pub const INTERNAL: FaultKind = FaultKind(31);

static INTERNAL_COUNT: AtomicU64 = AtomicU64::new(0);
static INTERNAL_LAST: Mutex<Option<String>> = Mutex::new(None);

/// Notes an internal error. Tests assert that there was none.
pub(crate) fn note_internal(why: &str) {
    INTERNAL_COUNT.fetch_add(1, Ordering::Relaxed);
    *INTERNAL_LAST.lock().unwrap_or_else(|e| e.into_inner()) = Some(why.to_string());
}

/// How many internal errors there were in this process, and the last one.
pub fn internal_errors() -> (u64, Option<String>) {
    let last = INTERNAL_LAST.lock().unwrap_or_else(|e| e.into_inner()).clone();
    (INTERNAL_COUNT.load(Ordering::Relaxed), last)
}
