//! Errors before traffic flows.

use std::fmt;
use std::io::ErrorKind;

/// An error at start-up; its text is written for the user.
#[derive(Debug)]
pub enum Error {
    /// The program cannot be used.
    Program(String),
    /// A parameter or option is missing or wrong.
    Param(String),
    /// A socket, a thread or a signal could not be set up.
    Io(String, std::io::Error),
    /// The description needs something that this runtime does not support.
    Unsupported(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Program(s) | Error::Param(s) | Error::Unsupported(s) => f.write_str(s),
            Error::Io(what, e) => write!(f, "{what}: {e}{}", advice(what, e)),
        }
    }
}

/// Advice for the most common errors of start-up.
fn advice(what: &str, e: &std::io::Error) -> &'static str {
    match e.kind() {
        _ if !what.contains("listen") => "",
        ErrorKind::PermissionDenied => "; ports below 1024 need root or CAP_NET_BIND_SERVICE",
        ErrorKind::AddrInUse => "; `ss -ltnp` shows by whom",
        ErrorKind::AddrNotAvailable => "; this machine does not have the address",
        _ => "",
    }
}

impl std::error::Error for Error {}
