//! The clock: nanoseconds since 1970 that never jump.
//!
//! It is the machine's monotonic clock, and a distance that is taken once, when the process starts.
//! `now`, the times of packets, timers and the expiry of tables all follow it, so they can be
//! compared. If the clock of the day is set later, this one goes on as it was. [`lead_of_day`] is
//! the distance that has come about then, for what needs the time of day. Slewing moves both.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

/// From the monotonic clock to this one.
static LEAD: OnceLock<u64> = OnceLock::new();
/// From this clock to that of the day, as it was last looked at.
static LEAD_OF_DAY: AtomicU64 = AtomicU64::new(0);
/// The variable of the environment with the clock of the process that has started this one.
const VARIABLE: &str = "WIRELOOM_CLOCK";
/// Smaller distances are the noise of reading two clocks.
const NOISE: u64 = 20_000;

/// The time.
#[inline]
pub fn now() -> u64 {
    of_monotonic(read(libc::CLOCK_MONOTONIC))
}

/// A reading of the monotonic clock as a time.
#[inline]
pub fn of_monotonic(ns: u64) -> u64 {
    ns.wrapping_add(lead())
}

/// The distance from the monotonic clock.
#[inline]
fn lead() -> u64 {
    *LEAD.get_or_init(|| given().unwrap_or_else(distance))
}

/// The variable's value for a process that this one starts and gives frames: these bring their
/// times along, so it has the same clock.
pub fn shared() -> (&'static str, String) {
    (VARIABLE, format!("{} {}", std::process::id(), lead()))
}

/// The distance that the process which has started this one gives.
fn given() -> Option<u64> {
    let text = std::env::var(VARIABLE).ok()?;
    let (parent, lead) = text.split_once(' ')?;
    // SAFETY: a plain system call.
    (parent.parse() == Ok(unsafe { libc::getppid() })).then(|| lead.parse().ok())?
}

/// Looks how far the clock of the day is ahead: 0 until somebody sets it.
pub fn look() -> u64 {
    let (old, new) = (LEAD_OF_DAY.load(Relaxed), distance().wrapping_sub(lead()));
    let moved = changed(old, new);
    if moved != old {
        LEAD_OF_DAY.store(moved, Relaxed);
    }
    moved
}

fn changed(old: u64, new: u64) -> u64 {
    if (new.wrapping_sub(old) as i64).unsigned_abs() > NOISE {
        new
    } else {
        old
    }
}

/// The distance that the last [`look`] has found.
#[inline]
pub fn lead_of_day() -> u64 {
    LEAD_OF_DAY.load(Relaxed)
}

/// From the monotonic clock to that of the day. A thread may be interrupted between two readings,
/// so the closest ones count.
fn distance() -> u64 {
    let mut best = (u64::MAX, 0);
    for _ in 0..16 {
        let before = read(libc::CLOCK_MONOTONIC);
        let day = read(libc::CLOCK_REALTIME);
        let apart = read(libc::CLOCK_MONOTONIC) - before;
        if apart < best.0 {
            best = (apart, day.wrapping_sub(before + apart / 2));
        }
        if apart < 1000 {
            break;
        }
    }
    best.1
}

/// The processor time of this thread, in nanoseconds.
pub fn of_processor() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time of all threads of this process, in nanoseconds.
pub fn of_process() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(which: libc::clockid_t) -> u64 {
    // SAFETY: clock_gettime fills in the struct it is given.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(which, &mut t);
        t
    };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock begins as that of the day.
    #[test]
    fn it_counts_from_1970() {
        let day = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        assert!(now().abs_diff(day) < 60_000_000_000);
        assert!(now() <= now());
    }

    /// Two readings are never at the same moment. What is more than that was set.
    #[test]
    fn only_a_clock_that_was_set_is_ahead() {
        assert_eq!(changed(0, 150), 0);
        assert_eq!(changed(0, 0u64.wrapping_sub(NOISE)), 0);
        assert_eq!(changed(0, 3_600_000_000_000), 3_600_000_000_000);
        let back = 0u64.wrapping_sub(1_000_000_000);
        assert_eq!(changed(0, back), back);
        assert_eq!(changed(back, back + 50), back);
        assert_eq!(changed(back, 0), 0);
    }
}
