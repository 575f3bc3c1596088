//! Errors before traffic flows.

use std::fmt;
use std::io::ErrorKind;
use wireloom_ir::desc::{Desc, PortKind, Value};

/// A thing that the user has set: an option of the command, or one of its `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The option's long name. Parameters and options of ports are of `set`.
    pub option: &'static str,
    /// NAME, without the app's name before it; empty: the option has none.
    pub name: String,
    pub app: String,
}

impl Origin {
    /// Of an option without NAME.
    pub fn option(option: &'static str) -> Origin {
        Origin { option, name: String::new(), app: String::new() }
    }

    pub fn of_app(option: &'static str, desc: &Desc, name: &str) -> Origin {
        Origin { option, name: name.into(), app: desc.app.clone() }
    }

    /// The parameter that gives a port's address or names, if there is one.
    pub fn of_port(desc: &Desc, port: usize) -> Option<Origin> {
        Origin::of_param(desc, Origin::param_of(&desc.ports[port].kind)?)
    }

    /// The number of that parameter.
    pub fn param_of(kind: &PortKind) -> Option<u32> {
        let (PortKind::Listen(value) | PortKind::Connect(value) | PortKind::Frames { names: value, .. }) = kind;
        let Value::Param(n) = value else { return None };
        Some(*n)
    }

    pub fn of_param(desc: &Desc, n: u32) -> Option<Origin> {
        Some(Origin::of_app("set", desc, &desc.params.get(n as usize)?.name))
    }
}

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
    /// An error of what the user has set.
    At(Origin, Box<Error>),
}

impl Error {
    /// Where there are several origins, the first one is nearest to the error.
    pub fn at(self, origin: impl Into<Option<Origin>>) -> Error {
        match (self, origin.into()) {
            (e @ Error::At(..), _) | (e, None) => e,
            (e, Some(origin)) => Error::At(origin, Box::new(e)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Program(s) | Error::Param(s) | Error::Unsupported(s) => f.write_str(s),
            Error::Io(what, e) => write!(f, "{what}: {e}{}", advice(what, e)),
            Error::At(_, e) => e.fmt(f),
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
