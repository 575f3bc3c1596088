//! What can go wrong before traffic flows.

use std::fmt;

/// An error at start-up; its text is written for the user.
#[derive(Debug)]
pub enum Error {
    /// The program cannot be used.
    Program(String),
    /// A parameter or option is missing or wrong.
    Param(String),
    /// A socket, a thread or a signal could not be set up.
    Io(String, std::io::Error),
    /// The description asks for something this runtime does not do.
    Unsupported(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Program(s) | Error::Param(s) | Error::Unsupported(s) => f.write_str(s),
            Error::Io(what, e) => write!(f, "{what}: {e}"),
        }
    }
}

impl std::error::Error for Error {}
