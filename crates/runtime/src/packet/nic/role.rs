//! The part of this process where an app has segments `on nic`.
//!
//! The second process learns its part from a variable of the environment. That has the number of
//! the first one, and the descriptors that it has inherited. The socket comes first, then the
//! memory, then the bells.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

/// The variable's name.
pub const VARIABLE: &str = "WIRELOOM_NIC";

#[derive(Clone, Default)]
pub enum Role {
    /// It runs them, too.
    #[default]
    Together,
    /// It starts another one for them: itself, with the same arguments.
    Cpu,
    Nic(Arc<Inherited>),
}

/// The descriptors that the second process has of the first one. It is taken once.
pub struct Inherited {
    pub socket: Mutex<Option<OwnedFd>>,
    pub files: Mutex<Vec<OwnedFd>>,
    /// It takes the place of one that has ended.
    pub anew: bool,
}

/// The variable's value.
pub fn told(anew: bool, files: &[RawFd]) -> String {
    let list: Vec<String> = files.iter().map(RawFd::to_string).collect();
    format!("{} {} {}", std::process::id(), u8::from(anew), list.join(","))
}

impl Role {
    /// As the variable says; without it, that of the first process.
    pub fn of_process() -> Role {
        match std::env::var(VARIABLE).ok().and_then(|text| inherited(&text)) {
            Some(i) => Role::Nic(Arc::new(i)),
            None => Role::Cpu,
        }
    }

    /// Whether this is the second process. It leaves it to the first one to say what both would
    /// say.
    pub fn is_second() -> bool {
        std::env::var_os(VARIABLE).is_some()
    }
}

fn inherited(text: &str) -> Option<Inherited> {
    let mut words = text.split(' ');
    let (parent, anew, files) = (words.next()?.parse::<i32>().ok()?, words.next()? == "1", words.next()?);
    let files: Vec<RawFd> = files.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    // SAFETY: a plain system call.
    if parent != unsafe { libc::getppid() } {
        // The first one has ended meanwhile: nobody waits for this one.
        std::process::exit(1);
    }
    let own = |fd: RawFd| {
        // SAFETY: plain system calls on a descriptor that the first process has left to this one,
        // and that nothing else here knows. Compilers that are started do not get it.
        unsafe { (libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) == 0).then(|| OwnedFd::from_raw_fd(fd)) }
    };
    let mut files: Vec<OwnedFd> = files.into_iter().map(own).collect::<Option<_>>()?;
    (files.len() > 1).then(|| Inherited { socket: Mutex::new(Some(files.remove(0))), files: Mutex::new(files), anew })
}
