//! The host of programs that have no connections: packets, nodes of a merge. Functions that send to
//! clients and servers do nothing there, or say that there is none.

use crate::abi::*;
use std::os::raw::c_int;

impl wl_host {
    /// Its functions for clients and servers, and those that are the same in every host.
    pub fn without_connections() -> wl_host {
        wl_host {
            call: Some(call),
            ask: Some(call),
            reply: Some(reply),
            close: Some(close),
            crypto: Some(crate::crypto::entry),
            pause: Some(crate::core::stacks::run_on),
            late: Some(crate::time_limit::late),
            keep: Some(keep),
            tell: Some(tell),
            open: Some(open),
            shut: Some(shut),
            deliver: Some(deliver),
            dismiss: Some(dismiss),
            wait: Some(wait),
            pool: Some(pool),
            take: Some(take),
            pooled: Some(pooled),
            upstream_fact: Some(upstream_fact),
            ..wl_host::default()
        }
    }
}

/// The compiler refuses calls here; a handler that waits for an answer all the same has faulted.
unsafe extern "C" fn call(_: *mut wl_task, _: u32, _: u32, _: wl_bytes, _: u32, _: *const wl_call) {}

unsafe extern "C" fn reply(_: *mut wl_task, _: wl_bytes, _: u32, _: u32) {}

unsafe extern "C" fn close(_: *mut wl_task) {}

unsafe extern "C" fn tell(_: *mut wl_task, _: u32, _: u32, _: wl_bytes, _: u32) -> u32 {
    WL_F_LOST
}

unsafe extern "C" fn open(_: *mut wl_task, _: u32, _: u32, _: u32, _: wl_bytes) -> u32 {
    WL_F_LOST
}

unsafe extern "C" fn shut(_: *mut wl_task, _: u32) {}

unsafe extern "C" fn deliver(_: *mut wl_task, _: *const u64, _: u32, _: wl_bytes, _: u32, _: u32, _: u32) {}

unsafe extern "C" fn dismiss(_: *mut wl_task, _: *const u64, _: u32) {}

/// As for `call`.
unsafe extern "C" fn wait(_: *mut wl_task, _: u32, _: u64, _: u64, _: u32) {}

/// Nothing waits for answers here.
unsafe extern "C" fn keep(_: *mut wl_task, _: wl_bytes) -> c_int {
    0
}

unsafe extern "C" fn pool(_: *mut wl_task, _: u32, _: wl_bytes) {}

unsafe extern "C" fn take(_: *mut wl_task, _: u32, _: u32) -> u32 {
    WL_F_LOST
}

unsafe extern "C" fn pooled(_: *mut wl_core, _: u32, _: u32, _: wl_bytes) -> u32 {
    0
}

unsafe extern "C" fn upstream_fact(_: *mut wl_task, _: u32, _: u32) -> u64 {
    0
}
