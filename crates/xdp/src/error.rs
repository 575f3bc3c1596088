//! The errors on the way to the hook, one sentence each.

use crate::feature::Feature;
use aya::programs::ProgramError;
use aya::EbpfError;
use std::fmt;
use std::io;

#[derive(Debug)]
pub enum Error {
    /// No clang is there.
    NoClang,
    /// Clang refuses the program: the generator's fault, or a clang without the BPF target.
    Compile(String),
    /// Capabilities that are missing.
    Rights(Vec<&'static str>),
    /// The oldest kernel that will do, and this one's release.
    Old {
        oldest: (u32, u32),
        release: String,
    },
    /// The kernel was built without a part that programs need.
    Lacks {
        feature: Feature,
        release: String,
    },
    /// The verifier refuses the program: the generator's fault. The place in the source, and the
    /// verifier's words.
    Refused {
        place: Option<String>,
        why: String,
    },
    /// A program, if it is known which, needs more of the stack than the kernel has for it and all
    /// that it calls. The verifier's words.
    Stack {
        program: Option<String>,
        why: String,
    },
    /// A program has more ways through it than the verifier follows.
    Long {
        program: String,
    },
    NoInterface(String),
    /// Another program is in front of the interface.
    Taken {
        interface: String,
        program: Option<u32>,
    },
    /// The interface's driver has no such mode.
    Mode {
        interface: String,
        mode: &'static str,
        why: io::Error,
    },
    /// Something else, with the call that failed.
    System(String, io::Error),
}

impl Error {
    /// Whether it is a fault of the generator.
    pub fn is_ours(&self) -> bool {
        matches!(self, Error::Compile(_) | Error::Refused { .. })
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::NoClang => f.write_str("XDP needs clang with the BPF target; `scripts/setup.sh` installs it"),
            Error::Compile(said) => {
                write!(f, "internal error: clang refuses the program for XDP; please report it\n{said}")
            }
            Error::Rights(list) => write!(
                f,
                "XDP needs root, or the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; this process lacks {}",
                list.join(" and ")
            ),
            Error::Old { oldest: (major, minor), release } => {
                write!(f, "XDP needs Linux {major}.{minor} or newer for this app; this is {release}")
            }
            Error::Lacks { feature, release } => {
                let (what, option) = feature.names();
                write!(f, "XDP needs {what}, which this kernel ({release}) was built without ({option})")
            }
            Error::Refused { place, why } => {
                let place = place.as_ref().map_or(String::new(), |p| format!(" at {p}"));
                write!(f, "internal error: the kernel refuses the program{place}: {why}; please report it")
            }
            Error::Stack { program, why } => {
                let handler = program.as_ref().map_or("a handler".to_string(), |p| format!("the handler `{p}`"));
                write!(f, "{handler} needs more than the kernel's stack of {STACK} bytes ({why}); {APART}")
            }
            Error::Long { program } => write!(
                f,
                "the handler `{program}` is too long for the kernel's verifier, which follows {VERIFIED} instructions and 8,192 jumps ahead; {APART}"
            ),
            Error::NoInterface(name) => {
                write!(f, "there is no interface `{name}`; `ip link` shows those of this machine")
            }
            Error::Taken { interface, program } => {
                let which = program.map_or(String::new(), |id| format!(", number {id}"));
                write!(
                    f,
                    "another XDP program{which}, is in front of `{interface}`; end it first (`ip link show dev {interface}`)"
                )
            }
            Error::Mode { interface, mode, why } => write!(f, "`{interface}` has no XDP in {mode} mode: {why}"),
            Error::System(call, why) => write!(f, "{call}: {why}"),
        }
    }
}

/// Bytes that a program and all that it calls have for their values (`MAX_BPF_STACK`).
const STACK: usize = 512;

/// Instructions that the verifier follows (`BPF_COMPLEXITY_LIMIT_INSNS`).
const VERIFIED: &str = "1,000,000";

/// The way out of both.
const APART: &str = "leave it on the CPU, or give a part of it to a handler behind a queue";

/// The oldest kernel that has all that generated programs use (`bpf_loop`).
pub const OLDEST: (u32, u32) = (5, 17);
/// The same for programs with loops (`may_goto`).
pub const OLDEST_LOOPED: (u32, u32) = (6, 9);
/// The same for programs that put parts of frames into rings: `bpf_xdp_load_bytes`.
pub const OLDEST_RINGED: (u32, u32) = (5, 18);

/// The place and the words of a verifier's log that ends with a refusal.
pub(crate) fn refusal(log: &str) -> (Option<String>, String) {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let told = |l: &&str| ["processed ", "verification time ", "stack depth "].iter().any(|w| l.starts_with(w));
    let end = lines.iter().position(told).unwrap_or(lines.len());
    let why = lines[..end].last().copied().unwrap_or("no reason is given");
    // `; if (x) … @ app.loom:12`
    let place =
        lines[..end].iter().rev().find_map(|l| l.strip_prefix(';')?.rsplit_once(" @ ").map(|p| p.1.to_string()));
    (place, why.to_string())
}

pub(crate) fn missing(name: &str) -> Error {
    Error::Compile(format!("the object has no `{name}`"))
}

pub(crate) fn of_loading(e: EbpfError) -> Error {
    match e {
        EbpfError::ProgramError(e) => of_program("", e),
        e => Error::Compile(e.to_string()),
    }
}

/// Whether somebody wants to see the verifier's words.
pub(crate) fn asks_for_log() -> bool {
    std::env::var_os("WIRELOOM_XDP_LOG").is_some()
}

/// `name`: of the program.
pub(crate) fn of_program(name: &str, e: ProgramError) -> Error {
    match e {
        ProgramError::LoadError { verifier_log, .. } => {
            let log = verifier_log.to_string();
            if asks_for_log() {
                eprintln!("{log}");
            }
            let (place, why) = refusal(&log);
            if why.starts_with("combined stack size") {
                return Error::Stack { program: Some(name.into()), why };
            }
            if ["BPF program is too large", "The sequence of "].iter().any(|w| why.contains(w)) {
                return Error::Long { program: name.into() };
            }
            Error::Refused { place, why }
        }
        e => Error::Compile(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_line_of_the_program() {
        let log = "0: R1=ctx()\n; if p.tcp { @ a.loom:7\n12: (71) r1 = *(u8 *)(r1 +0)\nR1 invalid mem access 'scalar'\nverification time 9 usec\nstack depth 8\nprocessed 13 insns\n";
        assert_eq!(refusal(log), (Some("a.loom:7".into()), "R1 invalid mem access 'scalar'".into()));
        assert_eq!(refusal("").1, "no reason is given");
    }
}
