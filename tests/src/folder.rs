//! A folder of a test's own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the system's temporary folder. It is removed at the test's end, but kept for inspection if
/// the test fails.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("wireloom-{}-{n}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The same as text, for arguments.
    pub fn name_of(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// Arguments of a command, in which `@` is the folder.
    pub fn arguments(&self, args: &[&str]) -> Vec<String> {
        let folder = self.0.display().to_string();
        args.iter().map(|a| a.replace('@', &folder)).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }
}

/// The id of a process that has ended.
pub fn gone() -> u32 {
    let mut child = std::process::Command::new("true").spawn().expect("it starts");
    child.wait().expect("it ends");
    child.id()
}

/// A file as a process has left it that was killed long ago.
pub fn left_behind(path: &std::path::Path) {
    let file = std::fs::File::create(path).expect("the folder is writable");
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(7200)).expect("our own");
}
