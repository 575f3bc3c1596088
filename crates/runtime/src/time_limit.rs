//! The time that a handler may compute without a pause.
//!
//! In: looks of long loops, whose bounds of steps may be those of years. Out: whether the handler
//! ends there, with the fault `overload`. The time is the CPU time of its thread: a machine with
//! much to do takes none of it away.

use crate::abi::wl_core;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Unless told otherwise.
pub const DEFAULT: Duration = Duration::from_secs(2);

/// In nanoseconds; 0: there is none.
static LIMIT: AtomicU64 = AtomicU64::new(DEFAULT.as_nanos() as u64);

/// Sets the limit of all handlers of the process; of zero: they have none.
pub fn set(limit: Duration) {
    LIMIT.store(limit.as_nanos().min(u64::MAX.into()) as u64, Ordering::Relaxed);
}

/// `wl_host.late` of handlers that do not pause.
///
/// # Safety
/// `begun` is the handler's own.
pub unsafe extern "C" fn late(_: *mut wl_core, begun: *mut u64) -> c_int {
    // SAFETY: by contract.
    let begun = unsafe { &mut *begun };
    // At least 1, since 0 is no beginning.
    let (now, limit) = (crate::clock::of_processor() + 1, LIMIT.load(Ordering::Relaxed));
    if *begun == 0 {
        *begun = now;
    }
    // Some handlers have no limit: they say so.
    (limit > 0 && *begun != u64::MAX && now - *begun > limit).into()
}
