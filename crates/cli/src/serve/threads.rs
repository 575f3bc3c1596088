//! Threads beside a service.

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
