//! Programs written by hand in C, that generated ones are measured beside.

use crate::compile::{compile, Thrift};
use crate::error::of_loading;
use crate::kernel;
use crate::maps::map_of;
use crate::needs::{Found, Needs};
use crate::Error;
use crate::{Object, Verdict};
use aya::maps::ProgramArray;
use aya::programs::{ProgramFd, Xdp};
use aya::Ebpf;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

pub struct Hand {
    ebpf: Ebpf,
}

impl Hand {
    /// Compiles and loads the programs of a C file, which may include `bpf.h`.
    pub fn load(text: &str) -> Result<Hand, Error> {
        Found::here().check(Needs { looped: true, ..Needs::default() })?;
        Hand::of(aya::EbpfLoader::new().load(&compile(text, Thrift::Fast, &[], None)?.bytes).map_err(of_loading)?)
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
            program.load().map_err(|e| crate::error::of_program("written by hand", e))?;
        }
        Ok(Hand { ebpf })
    }

    /// Puts a generated program behind those that call what is in the map `after`.
    pub fn put_after(&mut self, object: &Object, program: usize) -> Result<(), Error> {
        self.put("after", 0, object.descriptor(program)?)
    }

    /// The same with one by hand.
    pub fn put_after_hand(&mut self, other: &Hand, program: &str) -> Result<(), Error> {
        self.put("after", 0, other.descriptor(program)?)
    }

    /// Puts programs into a map of programs, from its first place on.
    pub fn chain(&mut self, map: &str, programs: &[&str]) -> Result<(), Error> {
        for (n, name) in programs.iter().enumerate() {
            let descriptor = self.descriptor(name)?.try_clone().map_err(|e| fail(e.to_string()))?;
            self.put(map, n as u32, &descriptor)?
        }
        Ok(())
    }

    /// Sets a value of an array.
    pub fn set(&self, map: &str, place: u32, value: &[u8]) -> io::Result<()> {
        kernel::map_update(map_of(&self.ebpf, map)?, &place.to_ne_bytes(), value)
    }

    /// Sets a value of a map by its key. Both have the map's sizes.
    pub fn set_entry(&self, map: &str, key: &[u8], value: &[u8]) -> io::Result<()> {
        kernel::map_update(map_of(&self.ebpf, map)?, key, value)
    }

    /// Puts a map into the places of all processors in an array of maps.
    pub fn put_map_everywhere(&self, array: &str, map: &str) -> io::Result<()> {
        let value = map_of(&self.ebpf, map)?.as_raw_fd().to_ne_bytes();
        (0..kernel::processors()).try_for_each(|cpu| self.set(array, cpu, &value))
    }

    fn descriptor(&self, program: &str) -> Result<&ProgramFd, Error> {
        let program = self.ebpf.program(program).ok_or_else(|| fail(format!("there is no program `{program}`")))?;
        program.fd().map_err(|e| fail(e.to_string()))
    }

    fn put(&mut self, map: &str, place: u32, program: &ProgramFd) -> Result<(), Error> {
        let map = self.ebpf.map_mut(map).ok_or_else(|| fail(format!("there is no map `{map}`")))?;
        let mut programs = ProgramArray::try_from(map).map_err(|e| fail(e.to_string()))?;
        programs.set(place, program, 0).map_err(|e| fail(e.to_string()))
    }

    /// The result of a program for a frame, and the frame as it leaves.
    pub fn test(&self, name: &str, frame: &[u8]) -> io::Result<(Verdict, Vec<u8>)> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let program = self.ebpf.program(name).ok_or_else(gone)?;
        let (verdict, frame, _) = kernel::test_run(program.fd().map_err(|_| gone())?.as_fd(), frame, 1)?;
        Ok((verdict.into(), frame))
    }

    /// Nanoseconds of a run of a program on a frame, on average. The frame is not made anew between
    /// runs.
    pub fn run(&self, name: &str, frame: &[u8], repeat: u32) -> io::Result<f64> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let program = self.ebpf.program(name).ok_or_else(gone)?;
        Ok(kernel::test_run(program.fd().map_err(|_| gone())?.as_fd(), frame, repeat)?.2)
    }
}

fn fail(why: String) -> Error {
    Error::Compile(why)
}
