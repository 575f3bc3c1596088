//! SIGINT, SIGTERM and SIGHUP end the demo in good order: the terminal is restored and the programs
//! are drained. In: the signals; out: [`asked`].

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which is allowed at any moment.
        unsafe { libc::signal(signal, note as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
}

pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
