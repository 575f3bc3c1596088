//! One file to deploy: an executable with the compiled program and its description behind its own
//! bytes.
//!
//! Layout behind the executable: the parts of [`Payload`] in their order, then a trailer of 88
//! bytes. The trailer has the lengths of the parts (u64, little endian), a SHA-256 over lengths and
//! parts, and a magic of 16 bytes. At start the executable looks for bytes behind its own end, as
//! the ELF header tells it. If there are some, they must be such a program: their digest is
//! checked, and it runs.

use aws_lc_rs::digest::{Context, SHA256};
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const MAGIC: &[u8; 16] = b"wireloom-build-3";
const DIGEST: usize = 32;
/// Shared object, description (JSON), the part in XDP (JSON), its programs: the fastest, and those
/// that need least of the kernel.
const PARTS: usize = 5;
const LENGTHS: usize = 8 * PARTS;
const TRAILER: usize = LENGTHS + DIGEST + MAGIC.len();
/// Nothing that we append is larger; a longer length is a damaged file.
const LARGEST: u64 = 256 << 20;

/// Of the sources of the runtime: one executable knows the other by it.
pub const ID: &str = concat!("wireloom-runtime ", env!("CARGO_PKG_VERSION"), " ", env!("WIRELOOM_ID"));

/// The program that `build` appended. Without a part in XDP the last three are empty.
#[derive(Default)]
pub struct Payload {
    pub library: Vec<u8>,
    pub desc: Vec<u8>,
    pub hook: Vec<u8>,
    pub programs: [Vec<u8>; 2],
}

impl Payload {
    pub fn parts(&self) -> [&[u8]; PARTS] {
        let [first, spare] = &self.programs;
        [&self.library, &self.desc, &self.hook, first, spare]
    }
}

/// The file of the running executable. Where there is no `/proc`, the kernel's word for the name
/// by which it was started leads to it.
fn own_file() -> io::Result<fs::File> {
    const LINK: &str = "/proc/self/exe";
    let error = match fs::File::open(LINK) {
        Ok(file) => return Ok(file),
        Err(e) => e,
    };
    let wrong = |e: io::Error, more: String| {
        io::Error::new(e.kind(), format!("cannot read the file of this executable: {LINK}: {error}{more}"))
    };
    let Some(name) = started_as() else { return Err(wrong(io::ErrorKind::NotFound.into(), String::new())) };
    fs::File::open(&name).map_err(|e| {
        let more = format!("; {}: {e}", name.display());
        wrong(e, more)
    })
}

/// The name by which this executable was started.
fn started_as() -> Option<PathBuf> {
    // SAFETY: a plain call; the result is an address, or 0.
    let name = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    // SAFETY: if it is not null, it is a C string on the first stack, which lives as the process.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The payload of the running executable, if it has one.
pub fn of_this_executable() -> io::Result<Option<Payload>> {
    let mut file = own_file()?;
    let end = file.metadata()?.len();
    let own = own_end(&mut file)?.unwrap_or(end);
    let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    if end.saturating_sub(own) < TRAILER as u64 {
        return if end <= own { Ok(None) } else { Err(wrong(CUT)) };
    }
    file.seek(SeekFrom::Start(end - TRAILER as u64))?;
    let mut trailer = [0u8; TRAILER];
    file.read_exact(&mut trailer)?;
    if &trailer[LENGTHS + DIGEST..] != MAGIC {
        return Err(wrong(CUT));
    }
    let damaged = || wrong("the program appended to this executable is damaged: its checksum is another one");
    let number = |part: usize| u64::from_le_bytes(trailer[8 * part..8 * part + 8].try_into().unwrap_or_default());
    let lengths: [u64; PARTS] = std::array::from_fn(number);
    if lengths.iter().any(|n| *n > LARGEST) || lengths.iter().sum::<u64>() + TRAILER as u64 != end - own {
        return Err(damaged());
    }
    file.seek(SeekFrom::Start(own))?;
    let mut part = |n: usize| {
        let mut bytes = vec![0; lengths[n] as usize];
        file.read_exact(&mut bytes).map(|()| bytes)
    };
    let (library, desc, hook, programs) = (part(0)?, part(1)?, part(2)?, [part(3)?, part(4)?]);
    let payload = Payload { library, desc, hook, programs };
    if self::trailer(&payload) != trailer {
        return Err(damaged());
    }
    Ok(Some(payload))
}

const CUT: &str = "the program appended to this executable is damaged: its end is missing or altered";

/// The end of an ELF file of 64 bits, by its sections and segments; None: a file of another kind.
fn own_end(file: &mut fs::File) -> io::Result<Option<u64>> {
    let mut head = [0u8; 64];
    if file.read_exact(&mut head).is_err() || head[..5] != *b"\x7fELF\x02" {
        return Ok(None);
    }
    let number = |b: &[u8]| b.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let table = |at: usize, size: usize| {
        (number(&head[at..at + 8]), number(&head[size..size + 2]), number(&head[size + 2..size + 4]))
    };
    let (segments, size, count) = table(32, 54);
    let (sections, section, n) = table(40, 58);
    let mut end = sections.saturating_add(section * n);
    for i in 0..count {
        let mut segment = [0u8; 40];
        file.seek(SeekFrom::Start(segments.saturating_add(i * size)))?;
        file.read_exact(&mut segment)?;
        end = end.max(number(&segment[8..16]).saturating_add(number(&segment[32..40])));
    }
    Ok(Some(end))
}

/// The trailer behind the parts of a program.
pub fn trailer(payload: &Payload) -> [u8; TRAILER] {
    let (mut out, parts) = ([0; TRAILER], payload.parts());
    for (to, part) in out[..LENGTHS].chunks_exact_mut(8).zip(parts) {
        to.copy_from_slice(&(part.len() as u64).to_le_bytes())
    }
    let mut digest = Context::new(&SHA256);
    digest.update(&out[..LENGTHS]);
    parts.into_iter().for_each(|part| digest.update(part));
    out[LENGTHS..LENGTHS + DIGEST].copy_from_slice(digest.finish().as_ref());
    out[LENGTHS + DIGEST..].copy_from_slice(MAGIC);
    out
}
