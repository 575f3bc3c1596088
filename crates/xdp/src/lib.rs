//! Programs in the kernel's XDP hook: compiled, loaded, attached, run for tests.
//!
//! In: an [`XdpSource`] of `codegen-c`. Out: an [`Object`], a program that the kernel has accepted,
//! with its counters and tables in memory that the process shares. [`Object::attach`] puts it in
//! front of an interface. It is detached when the process ends, however it ends, because a link
//! holds it. [`Object::test`] runs it on a frame and gives the frame back.

mod compile;
mod direct;
mod error;
mod feature;
mod fronts;
mod hand_written;
mod hook_tables;
mod kernel;
mod layout;
mod lines;
mod loading;
mod machine;
mod maps;
mod match_tables;
mod needs;
mod object;
mod portable;
mod programs;
mod redirects;
mod ring;
mod shape;
mod shared;
mod sums;
mod wildcard_entries;
mod wildcard_masks;

pub use compile::{clang, compile, Thrift};
pub use error::Error;
pub use fronts::is_fronted;
pub use hand_written::Hand;
pub use hook_tables::tables;
pub use kernel::{has_hardware, is_down, receiving_queues, takes_tags_off};
pub use object::{number_of, Attached, Mode, Object, Ran, Settings};
pub use portable::Portable;
pub use redirects::Unsent;
pub use wireloom_codegen_c::xdp::XdpSource;

/// The fate of a frame (`enum xdp_action` of the kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Aborted,
    Drop,
    /// To the host's own stack.
    Pass,
    /// Back out of the interface that it came from.
    Tx,
    Redirect,
    /// A number that the kernel does not know.
    Other(u32),
}

impl From<u32> for Verdict {
    fn from(n: u32) -> Self {
        match n {
            0 => Verdict::Aborted,
            1 => Verdict::Drop,
            2 => Verdict::Pass,
            3 => Verdict::Tx,
            4 => Verdict::Redirect,
            n => Verdict::Other(n),
        }
    }
}
