//! One file to deploy: an executable with the compiled program and its description behind its own
//! bytes.
//!
//! Layout behind the executable: shared object, description (JSON), then a trailer of 64 bytes. The
//! trailer has the lengths of both (u64, little endian), a SHA-256 over lengths and both, and a
//! magic of 16 bytes. At start the executable looks for the trailer. If it has one, it checks the
//! digest and runs its program.

use aws_lc_rs::digest::{Context, SHA256};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};

const MAGIC: &[u8; 16] = b"wireloom-build-2";
const DIGEST: usize = 32;
const TRAILER: usize = 16 + DIGEST + MAGIC.len();
/// Nothing that we append is larger; a longer length is a damaged file.
const LARGEST: u64 = 256 << 20;

/// Of the sources of the runtime: one executable knows the other by it.
pub const ID: &str = concat!("wireloom-runtime ", env!("CARGO_PKG_VERSION"), " ", env!("WIRELOOM_ID"));

/// The program that `build` appended.
pub struct Payload {
    pub library: Vec<u8>,
    pub desc: Vec<u8>,
}

/// The payload of the running executable, if it has one.
pub fn of_this_executable() -> io::Result<Option<Payload>> {
    let mut file = fs::File::open("/proc/self/exe")?;
    let end = file.metadata()?.len();
    if end < TRAILER as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(end - TRAILER as u64))?;
    let mut trailer = [0u8; TRAILER];
    file.read_exact(&mut trailer)?;
    if &trailer[16 + DIGEST..] != MAGIC {
        return Ok(None);
    }
    let damaged = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the program appended to this executable is damaged: its checksum is another one",
        )
    };
    let number = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().unwrap_or_default());
    let (library, desc) = (number(0), number(8));
    if library > LARGEST || desc > LARGEST || library + desc + TRAILER as u64 > end {
        return Err(damaged());
    }
    file.seek(SeekFrom::Start(end - TRAILER as u64 - library - desc))?;
    let mut payload = Payload { library: vec![0; library as usize], desc: vec![0; desc as usize] };
    file.read_exact(&mut payload.library)?;
    file.read_exact(&mut payload.desc)?;
    if self::trailer(&payload.library, &payload.desc) != trailer {
        return Err(damaged());
    }
    Ok(Some(payload))
}

/// The trailer behind a program and its description.
pub fn trailer(library: &[u8], desc: &[u8]) -> [u8; TRAILER] {
    let mut out = [0; TRAILER];
    out[..8].copy_from_slice(&(library.len() as u64).to_le_bytes());
    out[8..16].copy_from_slice(&(desc.len() as u64).to_le_bytes());
    let mut digest = Context::new(&SHA256);
    [&out[..16], library, desc].into_iter().for_each(|part| digest.update(part));
    out[16..16 + DIGEST].copy_from_slice(digest.finish().as_ref());
    out[16 + DIGEST..].copy_from_slice(MAGIC);
    out
}
