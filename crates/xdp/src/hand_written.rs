//! Programs written by hand in C, that generated ones are measured beside.

use crate::compile::compile_text;
use crate::kernel;
use crate::needs::{Found, Needs};
use crate::object::of_loading;
use crate::Error;
use crate::Object;
use aya::maps::ProgramArray;
use aya::programs::Xdp;
use aya::Ebpf;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

pub struct Hand {
    ebpf: Ebpf,
}

impl Hand {
    /// Compiles and loads the programs of a C file, which may include `bpf.h`.
    pub fn load(text: &str) -> Result<Hand, Error> {
        Found::here().check(Needs { looped: true, ..Needs::default() })?;
        Hand::of(aya::EbpfLoader::new().load(&compile_text(text, false, &[])?.bytes).map_err(of_loading)?)
    }

    /// Loads a compiled object. Maps that it wants pinned are pinned in a folder of a BPF file
    /// system.
    pub fn load_object(object: &Path, pins: &Path) -> Result<Hand, Error> {
        Found::here().check(Needs { looped: true, ..Needs::default() })?;
        Hand::of(aya::EbpfLoader::new().default_map_pin_directory(pins).load_file(object).map_err(of_loading)?)
    }

    fn of(mut ebpf: Ebpf) -> Result<Hand, Error> {
        for (_, program) in ebpf.programs_mut() {
            let program: &mut Xdp =
                program.try_into().map_err(|e: aya::programs::ProgramError| Error::Compile(e.to_string()))?;
            program.load().map_err(crate::object::of_program)?;
        }
        Ok(Hand { ebpf })
    }

    /// Puts a generated program behind those that call what is in the map `after`.
    pub fn put_after(&mut self, object: &Object, program: usize) -> Result<(), Error> {
        let fail = |e: String| Error::Compile(e);
        let map = self.ebpf.map_mut("after").ok_or_else(|| fail("there is no map `after`".into()))?;
        let mut after = ProgramArray::try_from(map).map_err(|e| fail(e.to_string()))?;
        after.set(0, object.descriptor(program)?, 0).map_err(|e| fail(e.to_string()))
    }

    /// Nanoseconds of a run of a program on a frame, on average. The frame is not made anew between
    /// runs.
    pub fn run(&self, name: &str, frame: &[u8], repeat: u32) -> io::Result<f64> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let program = self.ebpf.program(name).ok_or_else(gone)?;
        Ok(kernel::test_run(program.fd().map_err(|_| gone())?.as_fd(), frame, repeat)?.2)
    }
}
