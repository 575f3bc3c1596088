//! Programs that are compiled for any machine with this kind of processor, and loaded later.

use crate::compile::{Compiled, Thrift};
use crate::layout::sizes;
use crate::{compile, Error};
use wireloom_codegen_c::xdp::XdpSource;

/// Compiled programs: the fastest, and those that need least of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portable {
    pub first: Vec<u8>,
    pub spare: Vec<u8>,
    /// clang's words if its handlers could not be compiled twice.
    pub once: Option<String>,
}

impl Portable {
    /// Compiles programs whose loader knows the machine: [`crate::Object::load_portable`]. A table
    /// in parts has no address of its own: the number of parts is not known.
    pub fn of(source: &mut XdpSource) -> Result<Portable, Error> {
        source.tables.iter_mut().filter(|t| t.sums.is_some()).for_each(|t| t.direct = None);
        let constants = [&sizes(source)[..], &[("WL_MANUAL", 0), ("WL_ANY_MACHINE", 1)]].concat();
        let make = |thrift: Thrift| compile(thrift.text(source), thrift, &constants, None);
        let spare = make(Thrift::Far)?;
        let first = match make(Thrift::Fast) {
            Err(Error::Stack { .. }) => Compiled { bytes: spare.bytes.clone(), once: None },
            compiled => compiled?,
        };
        Ok(Portable { first: first.bytes, spare: spare.bytes, once: first.once })
    }
}
