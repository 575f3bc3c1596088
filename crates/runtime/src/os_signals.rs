//! Signals of the system: a service waits for them in one thread, and its other threads take none.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// SIGTERM, SIGINT and SIGHUP, blocked for all threads started after, and waited for here.
pub(crate) struct OsSignals {
    set: libc::sigset_t,
}

/// A signal of the system.
pub(crate) enum Heard {
    Nothing,
    /// SIGTERM or SIGINT.
    End,
    /// SIGHUP.
    Hangup,
}

/// Signals this close are one: `timeout` and some supervisors signal the process, and then its
/// group too.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

/// The signals that ask for the end, so far.
struct EndSignals {
    number: u32,
    last: Option<Instant>,
}

fn ends() -> MutexGuard<'static, EndSignals> {
    static ENDS: Mutex<EndSignals> = Mutex::new(EndSignals { number: 0, last: None });
    ENDS.lock().unwrap_or_else(|e| e.into_inner())
}

/// How many signals have asked for the end.
pub(crate) fn number_of_ends() -> u32 {
    ends().number
}

/// How long the end of the process waits for a file that takes none of the last lines. `at_once`: a
/// second signal has come.
pub(crate) fn last_lines_max(at_once: bool) -> Duration {
    Duration::from_millis(if at_once { 200 } else { 2000 })
}

impl OsSignals {
    pub(crate) fn block() -> OsSignals {
        // SAFETY: plain calls on a set that lives here.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            // Ignored signals, too, are kept while they are blocked.
            libc::sigaddset(&mut set, libc::SIGHUP);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            OsSignals { set }
        }
    }

    /// Waits for a signal that is not the one before over again.
    pub(crate) fn wait(&self, d: Duration) -> Heard {
        let t = libc::timespec { tv_sec: d.as_secs() as libc::time_t, tv_nsec: d.subsec_nanos() as libc::c_long };
        // SAFETY: the set and the time live here.
        match unsafe { libc::sigtimedwait(&self.set, std::ptr::null_mut(), &t) } {
            libc::SIGHUP => return Heard::Hangup,
            ..=0 => return Heard::Nothing,
            _ => {}
        }
        let now = Instant::now();
        let mut ends = ends();
        match ends.last.replace(now) {
            Some(last) if now - last < SAME_SIGNAL => Heard::Nothing,
            _ => {
                ends.number += 1;
                Heard::End
            }
        }
    }
}

/// Starts a thread that takes no signals: those are for the service.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: two sets of signals of our own, and plain system calls on this thread's mask.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed::<libc::sigset_t>(), std::mem::zeroed::<libc::sigset_t>());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}
