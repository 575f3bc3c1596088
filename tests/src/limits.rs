//! Descriptor limits, for the test itself and for a child.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets this process (and children started from now on) open as many descriptors as the system
/// allows; how many that is.
pub fn raise_descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid structure to fill and to read.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    limit.rlim_cur
}

/// The command may open n descriptors at most.
pub fn limit_descriptors(command: &mut Command, n: u64) {
    let limit = libc::rlimit { rlim_cur: n, rlim_max: n };
    // SAFETY: setrlimit is allowed between fork and exec, and the closure owns its value.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}
