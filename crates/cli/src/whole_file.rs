//! Files that appear whole or not at all. In: a target path. Out: a new file beside it, which takes
//! its place at the end. The target may be running, or the disk may fill up in the middle.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is being written. It is removed if it is not put in place.
pub struct WholeFile {
    pub file: File,
    partial: PathBuf,
    target: PathBuf,
}

impl WholeFile {
    /// `mode`: the permissions, of which the umask takes some.
    pub fn create(target: &Path, mode: u32) -> io::Result<WholeFile> {
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        remove_left(target, &name);
        let partial = target.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&partial)?;
        Ok(WholeFile { file, partial, target: target.into() })
    }

    /// The file is whole, and takes the target's place.
    pub fn put(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.partial, &self.target)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.partial);
    }
}

/// Removes what killed processes have written of the same target.
fn remove_left(target: &Path, name: &str) {
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let of = |file: &str| -> Option<u32> {
            file.strip_prefix(&format!(".{name}."))?.strip_suffix(".partial")?.parse().ok()
        };
        let left = |pid| entry.metadata().is_ok_and(|meta| wireloom_codegen_c::is_left(pid, &meta));
        if file.to_str().and_then(of).is_some_and(left) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
