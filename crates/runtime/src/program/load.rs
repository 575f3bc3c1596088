//! Loading the shared object of a program, and giving it the functions of the runtime.

use super::{Packets, Program};
use crate::abi::*;
use crate::error::Error;
use std::ffi::{c_void, CStr, CString, OsString};
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;

/// A path of a file in memory from which no library was loaded before. The loader takes two
/// libraries of one name for one, and descriptor numbers are reused. Different ways to write `/`
/// tell the paths apart.
fn memory_path(fd: i32) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mark: String = (0..u32::BITS).map(|bit| if n >> bit & 1 == 0 { "/" } else { "./" }).collect();
    PathBuf::from(format!("/proc/self/fd/{mark}{fd}"))
}

/// A file that only this user can read or write, until it is dropped.
struct TemporaryFile {
    path: PathBuf,
}

impl TemporaryFile {
    fn holding(folder: &Path, bytes: &[u8]) -> std::io::Result<TemporaryFile> {
        let mut name = folder.join("wireloom-program-XXXXXX").into_os_string().into_encoded_bytes();
        name.push(0);
        // SAFETY: the name ends with a zero behind six X, which the call replaces in place.
        let fd = unsafe { libc::mkostemp(name.as_mut_ptr().cast(), libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        name.pop();
        let made = TemporaryFile { path: PathBuf::from(OsString::from_vec(name)) };
        // SAFETY: the descriptor was made just now and has no other owner.
        std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) }).write_all(bytes)?;
        Ok(made)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Program {
    /// Loads a compiled program from memory: a file could change, or end, while it runs.
    pub fn load(library: &[u8]) -> Result<Program, Error> {
        let fail = |e| Error::Io("cannot load the program".into(), e);
        // SAFETY: a plain system call; the name is a C string.
        let fd = unsafe { libc::memfd_create(c"wireloom-program".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(fail(std::io::Error::last_os_error()));
        }
        // SAFETY: the descriptor was made just now and has no other owner.
        let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.write_all(library).map_err(fail)?;
        let path = memory_path(fd);
        if path.exists() {
            return Program::open(&path);
        }
        Program::load_by_file(library)
    }

    /// Loads a compiled program without `/proc`, by a file that has no name any more when this
    /// returns. A folder may be missing, read-only, or refuse code.
    fn load_by_file(library: &[u8]) -> Result<Program, Error> {
        let mut failed = Vec::new();
        for folder in [std::env::temp_dir(), "/dev/shm".into(), "/run".into(), "/".into()] {
            let io = |e| Error::Io(folder.display().to_string(), e);
            match TemporaryFile::holding(&folder, library).map_err(io).and_then(|f| Program::open(&f.path)) {
                Ok(program) => return Ok(program),
                Err(e) => failed.push(e.to_string()),
            }
        }
        Err(Error::Program(format!(
            "cannot load the program: there is no /proc, and no folder for a temporary file: {}",
            failed.join("; ")
        )))
    }

    /// Loads a compiled program from a file that does not change while the process lives.
    pub fn open(path: &Path) -> Result<Program, Error> {
        let text = path.to_string_lossy().into_owned();
        let name = CString::new(text.as_bytes()).map_err(|_| Error::Program(format!("bad file name {text:?}")))?;
        // SAFETY: a plain dlopen; initialisers of generated code do nothing.
        let lib = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if lib.is_null() {
            return Err(Error::Program(format!("cannot load {text}: {}", dl_error())));
        }
        Program::symbol(lib, &text)
    }

    /// The program linked into this executable.
    pub fn linked() -> Result<Program, Error> {
        Program::symbol(libc::RTLD_DEFAULT, "this executable")
    }

    fn symbol(lib: *mut c_void, what: &str) -> Result<Program, Error> {
        // SAFETY: the handle is open (or RTLD_DEFAULT) and the name is a C string.
        let sym = unsafe { libc::dlsym(lib, c"wireloom_program".as_ptr()) };
        if sym.is_null() {
            return Err(Error::Program(format!("{what} holds no Wireloom program")));
        }
        // SAFETY: the one exported symbol has this type (wireloom.h).
        let f: ProgramFn = unsafe { std::mem::transmute::<*mut c_void, ProgramFn>(sym) };
        // SAFETY: generated code; the table is static.
        let mut program = unsafe { Program::from_table(f()) }?;
        // SAFETY: as above; the symbol is there only if the program has frame ports.
        let sym = unsafe { libc::dlsym(lib, c"wireloom_packets".as_ptr()) };
        if !sym.is_null() {
            // SAFETY: the symbol has this type (wireloom.h); the table is static.
            unsafe {
                let f: PacketsFn = std::mem::transmute::<*mut c_void, PacketsFn>(sym);
                let this = program.table().self_;
                program = program.with_packets(this, f());
            }
        }
        // SAFETY: as above; the symbol is there only if the program was compiled with marks.
        let sym = unsafe { libc::dlsym(lib, c"wireloom_mark".as_ptr()) };
        // SAFETY: an aligned word of a library that is never unloaded, written by whole stores
        // only.
        program.mark = (!sym.is_null()).then(|| unsafe { AtomicU32::from_ptr(sym.cast()) });
        // SAFETY: as above; the symbol is there only if the program has merge nodes.
        let sym = unsafe { libc::dlsym(lib, c"wireloom_merges".as_ptr()) };
        if sym.is_null() {
            return Ok(program);
        }
        // SAFETY: the symbol has this type (wireloom.h).
        let f: MergesFn = unsafe { std::mem::transmute::<*mut c_void, MergesFn>(sym) };
        let mut count = 0;
        // SAFETY: generated code; the table is static and has as many entries as it says.
        unsafe {
            let first = f(&mut count);
            if first.is_null() {
                return Ok(program);
            }
            let this = program.table().self_;
            Ok(program.with_merges(this, std::slice::from_raw_parts(first, count as usize)))
        }
    }

    /// Adds the functions of frame ports, which take `this` as their `self`, and gives the program
    /// its way to transmit.
    /// # Safety
    /// `packets` is null or valid for the rest of the process, not used elsewhere now, and obeys
    /// `wireloom.h`.
    pub unsafe fn with_packets(mut self, this: *mut c_void, packets: *mut wl_packets) -> Program {
        // SAFETY: by contract.
        if let Some(p) = unsafe { packets.as_mut() } {
            p.transmit = Some(crate::packet::transmit);
            p.queue = Some(crate::packet::ask_queue);
            p.serve = Some(crate::packet::serve_popped);
            self.packets = p.batch.map(|batch| Packets { batch, steer: p.steer, this, table: packets });
        }
        self
    }
}

fn dl_error() -> String {
    // SAFETY: dlerror gives a C string or null.
    unsafe {
        let e = libc::dlerror();
        if e.is_null() {
            "unknown error".into()
        } else {
            CStr::from_ptr(e).to_string_lossy().into_owned()
        }
    }
}
