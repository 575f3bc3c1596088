//! One file to deploy: `wireloom build` copies this very executable and appends the compiled program and its description.
//!
//! Layout behind the executable's own bytes: shared object, description (JSON), then a 32-byte trailer: the lengths of both
//! (u64, little endian) and a 16-byte magic. At start the trailer is looked for; a file that has one runs its program.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const MAGIC: &[u8; 16] = b"wireloom-build-1";
const TRAILER: u64 = 32;
/// Nothing that we append is larger; a longer length is a damaged file.
const LARGEST: u64 = 256 << 20;

/// What `build` appended.
pub struct Payload {
    pub library: Vec<u8>,
    pub desc: Vec<u8>,
}

/// The payload of the running executable, if it has one.
pub fn of_this_executable() -> io::Result<Option<Payload>> {
    let mut file = fs::File::open("/proc/self/exe")?;
    let Some((start, library, desc)) = trailer(&mut file)? else { return Ok(None) };
    file.seek(SeekFrom::Start(start))?;
    let mut payload = Payload { library: vec![0; library as usize], desc: vec![0; desc as usize] };
    file.read_exact(&mut payload.library)?;
    file.read_exact(&mut payload.desc)?;
    Ok(Some(payload))
}

/// Writes an executable that runs the program.
pub fn write(target: &Path, library: &[u8], desc: &[u8]) -> io::Result<()> {
    let mut own = fs::File::open("/proc/self/exe")?;
    let own_end = match trailer(&mut own)? {
        Some((start, ..)) => start,
        None => own.metadata()?.len(),
    };
    own.rewind()?;
    // Into a new file and renamed: the target may be running, or the disk may fill up in the middle.
    let partial = target.with_extension("partial");
    let mut out = fs::File::create(&partial)?;
    io::copy(&mut own.take(own_end), &mut out)?;
    out.write_all(library)?;
    out.write_all(desc)?;
    out.write_all(&(library.len() as u64).to_le_bytes())?;
    out.write_all(&(desc.len() as u64).to_le_bytes())?;
    out.write_all(MAGIC)?;
    out.set_permissions(fs::Permissions::from_mode(0o755))?;
    out.sync_all()?;
    fs::rename(&partial, target)
}

/// Start of the payload and the lengths of its parts.
fn trailer(file: &mut fs::File) -> io::Result<Option<(u64, u64, u64)>> {
    let end = file.metadata()?.len();
    if end < TRAILER {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(end - TRAILER))?;
    let mut bytes = [0u8; TRAILER as usize];
    file.read_exact(&mut bytes)?;
    if &bytes[16..] != MAGIC {
        return Ok(None);
    }
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let (library, desc) = (number(0), number(8));
    if library > LARGEST || desc > LARGEST || library + desc + TRAILER > end {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the program appended to this executable is damaged"));
    }
    Ok(Some((end - TRAILER - library - desc, library, desc)))
}
