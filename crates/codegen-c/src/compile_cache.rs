//! The folder of compiled programs. Its files are executed, so it must be this user's alone: mode
//! 0700, no link, owned by the caller.
//!
//! All work is done below the folder's descriptor, so that the folder cannot be exchanged between
//! check and use. Files are 0600, written aside and renamed. A result carries a digest of its
//! content and of its inputs. A file that was cut or damaged, or that lies under another's name,
//! counts as missing.

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// SHA-256 over length-prefixed parts.
pub(crate) struct Sha(Context);

impl Sha {
    pub(crate) fn new() -> Sha {
        Sha(Context::new(&SHA256))
    }
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
    fn end(self) -> [u8; SHA256_OUTPUT_LEN] {
        let mut out = [0; SHA256_OUTPUT_LEN];
        out.copy_from_slice(self.0.finish().as_ref());
        out
    }
    pub(crate) fn hex(self) -> String {
        self.end().iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// A folder of this user's alone.
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    /// Made for this once: removed when dropped.
    passing: Option<Remover>,
}

/// A new folder in the temporary one, of this user alone. It goes when it is dropped, or when the
/// process is killed. If all processes of a container are, the next such folder has it go. Other
/// users cannot know its name and put their files or links there.
pub struct PrivateFolder(Folder);

impl PrivateFolder {
    pub fn new() -> io::Result<PrivateFolder> {
        Folder::passing().map(PrivateFolder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Removes a folder when it is dropped. A process of its own does that, so that the folder goes
/// when this one is killed, too. It waits for the end of a pipe that only this process holds.
struct Remover {
    path: PathBuf,
    shell: Option<Child>,
}

/// Compilers whose parent was killed may still write: then it is tried again.
const REMOVE: &str =
    "trap '' INT TERM HUP QUIT; read -r _; for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- \"$1\" && exit; sleep 1; done";

impl Remover {
    fn of(path: &Path) -> Remover {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", REMOVE, "sh"]).arg(path).current_dir("/").process_group(0);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Remover { path: path.to_path_buf(), shell: shell.ok() }
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        // Where there is no shell this does all.
        let _ = fs::remove_dir_all(&self.path);
        // Waiting closes the pipe.
        if let Some(mut shell) = self.shell.take() {
            let _ = shell.wait();
        }
    }
}

/// How names of passing folders begin.
const PASSING: &str = "wireloom-passing-";
/// A new folder is locked long before.
const NEW: Duration = Duration::from_secs(60);

/// Removes passing folders of this user whose processes were killed together with those that were
/// to remove them, as by the end of a container. A living process holds the lock of its folder.
fn sweep_passing(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().starts_with(PASSING.as_bytes()) {
            continue;
        }
        let path = entry.path();
        let Ok(name) = c_string(&path) else { continue };
        // SAFETY: a plain system call; the name is a C string.
        let Ok(file) = owned(unsafe { libc::open(name.as_ptr(), FOLDER) }) else { continue };
        let is_left = |m: &fs::Metadata| {
            let is_old = m.modified().is_ok_and(|t| t.elapsed().is_ok_and(|age| age > NEW));
            is_old && not_ours(m).is_none() && m.mode() & 0o7777 == 0o700
        };
        if file.metadata().is_ok_and(|m| is_left(&m)) && lock(&file) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Takes a lock that ends with the process, if nobody has it.
fn lock(file: &impl AsRawFd) -> bool {
    // SAFETY: a plain system call on a descriptor of ours.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// A descriptor that was opened just now, or the error.
fn owned(fd: RawFd) -> io::Result<File> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: opened just now, without another owner.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

impl Folder {
    /// The folder, made if it is not there. Read access of others to a folder of ours is removed. A
    /// folder that others own or may write to, or a link of others, is an error.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        if let Some(above) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            if !above.is_dir() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(above)?
            }
        }
        let name = c_string(path)?;
        // SAFETY: plain system calls; the name is a C string.
        let fd = unsafe {
            libc::mkdir(name.as_ptr(), 0o700);
            libc::open(name.as_ptr(), FOLDER)
        };
        Folder::checked(fd, path.to_path_buf())
    }

    /// A new folder for this once, in the temporary one.
    pub(crate) fn passing() -> io::Result<Folder> {
        let temporary = std::env::temp_dir();
        sweep_passing(&temporary);
        let mut name = c_string(&temporary.join(format!("{PASSING}XXXXXX")))?.into_bytes_with_nul();
        // SAFETY: a C string that may be written to.
        if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
            return Err(io::Error::last_os_error());
        }
        name.pop();
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&name));
        let remover = Remover::of(&path);
        let mut folder = Folder::open(&path)?;
        lock(&folder.fd);
        folder.passing = Some(remover);
        Ok(folder)
    }

    /// A folder in this one.
    pub(crate) fn inner(&self, name: &str) -> io::Result<Folder> {
        let c = c_string(Path::new(name))?;
        // SAFETY: plain system calls below a descriptor of ours; the name is a C string.
        let fd = unsafe {
            libc::mkdirat(self.fd.as_raw_fd(), c.as_ptr(), 0o700);
            libc::openat(self.fd.as_raw_fd(), c.as_ptr(), FOLDER)
        };
        Folder::checked(fd, self.path.join(name))
    }

    fn checked(fd: RawFd, path: PathBuf) -> io::Result<Folder> {
        let file = owned(fd)?;
        let meta = file.metadata()?;
        if let Some(why) = not_ours(&meta) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if meta.mode() & 0o7777 != 0o700 {
            file.set_permissions(fs::Permissions::from_mode(0o700))?
        }
        Ok(Folder { fd: file.into(), path, passing: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder's descriptor, for a child process to go to.
    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// A file's content; None if there is none that is ours.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut file = match self.file(name, libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK) {
            Ok(file) => file,
            Err(_) => return Ok(None),
        };
        let meta = file.metadata()?;
        if !meta.is_file() || not_ours(&meta).is_some() {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes a file aside and renames it, so that no reader sees half of it.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let part = format!("{name}.{}.part", unique());
        let mut file = self.file(&part, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW)?;
        if let Err(e) = file.write_all(bytes) {
            self.remove(&part);
            return Err(e);
        }
        let (from, to) = (c_string(Path::new(&part))?, c_string(Path::new(name))?);
        // SAFETY: a plain system call below a descriptor of ours; the names are C strings.
        let done = unsafe { libc::renameat(self.raw(), from.as_ptr(), self.raw(), to.as_ptr()) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        self.remove(&part);
        Err(error)
    }

    /// Whether there is room for a compiled program.
    pub(crate) fn try_room(&self) -> io::Result<()> {
        const ROOM: usize = 4 << 20;
        let name = format!("room.{}", unique());
        let written = self.write(&name, &vec![0; ROOM]);
        self.remove(&name);
        written
    }

    /// Writes a file if its content is not this already.
    pub(crate) fn ensure(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.read(name)?.is_some_and(|there| there == bytes) {
            return Ok(());
        }
        self.write(name, bytes)
    }

    pub(crate) fn remove(&self, name: &str) {
        let Ok(name) = c_string(Path::new(name)) else { return };
        // SAFETY: a plain system call below a descriptor of ours; the name is a C string.
        unsafe { libc::unlinkat(self.raw(), name.as_ptr(), 0) };
    }

    /// Removes files that killed processes were writing, here and in inner folders.
    pub(crate) fn sweep(&self) {
        for entry in fs::read_dir(format!("/proc/self/fd/{}", self.raw())).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            // Of the entry itself, not of what a link leads to.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && name.starts_with("include-") {
                if let Ok(inner) = self.inner(name) {
                    inner.sweep()
                }
            } else if writer(name).map_or(of_compiler(name) && is_old(&meta), |pid| is_left(pid, &meta)) {
                self.remove(name)
            }
        }
    }

    /// A result that was put there by [`Folder::put`] under the same name, whole.
    pub(crate) fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(mut bytes) = self.read(name)? else { return Ok(None) };
        let Some(len) = bytes.len().checked_sub(SHA256_OUTPUT_LEN) else { return Ok(None) };
        let whole = seal(name, &bytes[..len]) == bytes[len..];
        bytes.truncate(len);
        Ok(whole.then_some(bytes))
    }

    /// Keeps a result with its digest behind it.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.write(name, &[bytes, &seal(name, bytes)].concat())
    }

    /// The turn to make a result, until it is dropped. Processes and threads that make the same
    /// result wait for each other, but no longer than this.
    pub(crate) fn turn(&self, name: &str, most: Duration, stopped: impl Fn() -> bool) -> io::Result<Option<Turn<'_>>> {
        let (name, until) = (format!("{name}.lock"), Instant::now() + most);
        while Instant::now() < until && !stopped() {
            let file = self.file(&name, libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW)?;
            let taken = lock(&file);
            // The holder before may have removed the file that we hold.
            if taken && self.file(&name, libc::O_RDWR | libc::O_NOFOLLOW).is_ok_and(|there| same(&there, &file)) {
                return Ok(Some(Turn { folder: self, name, _file: file }));
            }
            std::thread::sleep(Duration::from_millis(if taken { 0 } else { 20 }));
        }
        Ok(None)
    }

    fn file(&self, name: &str, flags: i32) -> io::Result<File> {
        let name = c_string(Path::new(name))?;
        // SAFETY: a plain system call below a descriptor of ours; the name is a C string.
        owned(unsafe { libc::openat(self.raw(), name.as_ptr(), flags | libc::O_CLOEXEC, 0o600) })
    }
}

/// See [`Folder::turn`].
pub(crate) struct Turn<'a> {
    folder: &'a Folder,
    name: String,
    /// Holds the lock.
    _file: File,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.folder.remove(&self.name)
    }
}

fn same(a: &File, b: &File) -> bool {
    matches!((a.metadata(), b.metadata()), (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

const FOLDER: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// A seal over a result's name, which identifies its sources, and its content.
fn seal(name: &str, bytes: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut sha = Sha::new();
    sha.add(name.as_bytes());
    sha.add(bytes);
    sha.end()
}

/// Why others could have written the file.
fn not_ours(meta: &fs::Metadata) -> Option<&'static str> {
    // SAFETY: a plain system call.
    if meta.uid() != unsafe { libc::geteuid() } {
        return Some("it belongs to another user");
    }
    (meta.mode() & 0o022 != 0).then_some("others may write to it")
}

fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a zero byte in a file's name"))
}

/// The process in the name of a file that was being written ([`unique`]): `a.so.PID-N.tmp`, with
/// what compilers put behind it, or `a.c.PID-N.part`.
fn writer(name: &str) -> Option<u32> {
    name.split('.').zip(name.split('.').skip(1)).find_map(|(unique, kind)| {
        let (pid, n) = unique.split_once('-')?;
        let ours = (kind == "part" || kind.split('-').next() == Some("tmp")) && n.parse::<u64>().is_ok();
        if ours {
            pid.parse().ok()
        } else {
            None
        }
    })
}

/// A file may be left by a process that this one cannot see, in another container.
const LEFT: Duration = Duration::from_secs(3600);

/// Whether a file of this process's user was left by a process that is gone: it has not been
/// written to for an hour.
pub fn is_left(pid: u32, meta: &fs::Metadata) -> bool {
    is_gone(pid) && is_old(meta)
}

/// Whether no process has this number. One of another user counts as there.
pub fn is_gone(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| {
        // SAFETY: a plain system call, which sends nothing.
        pid > 0 && unsafe { libc::kill(pid, 0) } != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    })
}

/// Whether a file of this process's user has not been written to for an hour.
fn is_old(meta: &fs::Metadata) -> bool {
    // SAFETY: a plain system call.
    let ours = meta.is_file() && meta.uid() == unsafe { libc::geteuid() };
    ours && meta.modified().is_ok_and(|t| t.elapsed().is_ok_and(|age| age > LEFT))
}

/// Whether a compiler names its own temporary files so: of clang and of gcc.
fn of_compiler(name: &str) -> bool {
    [".o", ".s", ".res"].iter().any(|end| name.ends_with(end))
}

/// For names of files that are being written.
pub(crate) fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn scratch() -> Folder {
        Folder::passing().unwrap()
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let top = scratch();
        let dir = top.path().join("cache");
        drop(Folder::open(&dir).unwrap());
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700);
        mode(&dir, 0o755);
        drop(Folder::open(&dir).unwrap());
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700, "closed to others");
        for open in [0o777, 0o1777, 0o770, 0o702] {
            mode(&dir, open);
            assert_eq!(Folder::open(&dir).err().unwrap().kind(), io::ErrorKind::PermissionDenied, "{open:o}");
        }
    }

    #[test]
    fn links_are_not_followed() {
        let top = scratch();
        let real = top.path().join("real");
        let held = Folder::open(&real).unwrap();
        symlink(&real, top.path().join("link")).unwrap();
        assert!(Folder::open(&top.path().join("link")).is_err());
        assert!(top.inner("link").is_err());
        held.put("program", b"planted").unwrap();
        symlink(real.join("program"), top.path().join("program")).unwrap();
        assert_eq!(top.get("program").unwrap(), None);
        // The written file takes the link's place, not its target's.
        top.put("program", b"ours").unwrap();
        assert_eq!(top.get("program").unwrap().unwrap(), b"ours");
        assert_eq!(held.get("program").unwrap().unwrap(), b"planted");
    }

    #[test]
    fn a_file_that_was_cut_or_renamed_or_that_others_may_write_is_none() {
        let top = scratch();
        top.put("a", b"some code").unwrap();
        let path = top.path().join("a");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(top.get("a").unwrap(), None, "{len}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(top.get("a").unwrap().unwrap(), b"some code");
        mode(&path, 0o666);
        assert_eq!(top.get("a").unwrap(), None);
        mode(&path, 0o600);
        fs::rename(&path, top.path().join("b")).unwrap();
        assert_eq!(top.get("b").unwrap(), None);
    }

    /// Only root can plant files that belong to others.
    #[test]
    fn what_belongs_to_another_user_is_none() {
        // SAFETY: a plain system call.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let top = scratch();
        top.put("a", b"some code").unwrap();
        std::os::unix::fs::chown(top.path().join("a"), Some(65534), None).unwrap();
        assert_eq!(top.get("a").unwrap(), None);
        let dir = top.path().join("dir");
        drop(Folder::open(&dir).unwrap());
        std::os::unix::fs::chown(&dir, Some(65534), None).unwrap();
        assert_eq!(Folder::open(&dir).err().unwrap().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn files_of_killed_processes_go() {
        let top = scratch();
        let inner = top.inner("include-1").unwrap();
        let gone = {
            let mut child = Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            child.id()
        };
        let here = std::process::id();
        let old = |folder: &Folder, name: &str| {
            let file = folder.file(name, libc::O_WRONLY | libc::O_CREAT).unwrap();
            file.set_modified(std::time::SystemTime::now() - 2 * LEFT).unwrap();
        };
        let left = ["tmp", "tmp.1.o", "tmp-1a2b.o", "tmp.1-1a2b3c.o.tmp", "part"];
        for rest in left {
            old(&top, &format!("a-1.so.{gone}-0.{rest}"));
            old(&top, &format!("a.so.{here}-0.{rest}"));
        }
        old(&inner, &format!("base.h.{gone}-3.part"));
        ["app-00ff-1a2b3c.o", "cc1a2b3c.s", "cc1a2b3c.res"].iter().for_each(|name| old(&top, name));
        let others =
            ["a.so".to_string(), "a.c".into(), "a.so.lock".into(), format!("{gone}-1"), format!("a.{gone}.tmp")];
        others.iter().for_each(|name| old(&top, name));
        let fresh = format!("b.so.{gone}-1.tmp");
        top.file(&fresh, libc::O_WRONLY | libc::O_CREAT).unwrap();
        symlink("a.so", top.path().join(format!("c.so.{gone}-1.tmp"))).unwrap();
        top.sweep();
        let mut names: Vec<String> =
            fs::read_dir(top.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        let mut wanted: Vec<String> = left.iter().map(|rest| format!("a.so.{here}-0.{rest}")).collect();
        wanted.extend(others);
        wanted.extend([fresh, format!("c.so.{gone}-1.tmp"), "include-1".into()]);
        names.sort();
        wanted.sort();
        assert_eq!(names, wanted);
        assert_eq!(fs::read_dir(inner.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_passing_folder_goes() {
        let top = scratch();
        let path = top.path().to_path_buf();
        top.put("a", b"b").unwrap();
        drop(top);
        assert!(!path.exists());
    }

    /// Of processes that were killed with all that belonged to them. Others keep theirs.
    #[test]
    fn passing_folders_of_killed_processes_go() {
        let top = scratch();
        let make = |name: &str, open: u32, is_old: bool| {
            let path = top.path().join(name);
            fs::DirBuilder::new().create(&path).unwrap();
            fs::write(path.join("a.c"), b"").unwrap();
            mode(&path, open);
            let folder = File::open(&path).unwrap();
            if is_old {
                folder.set_modified(std::time::SystemTime::now() - 2 * NEW).unwrap();
            }
            folder
        };
        make("wireloom-passing-gone00", 0o700, true);
        make("wireloom-passing-fresh0", 0o700, false);
        make("wireloom-passing-open00", 0o755, true);
        make("wireloom-100000", 0o700, true);
        let held = make("wireloom-passing-held00", 0o700, true);
        assert!(lock(&held));
        fs::DirBuilder::new().create(top.path().join("else")).unwrap();
        symlink("else", top.path().join("wireloom-passing-link00")).unwrap();
        let names = || {
            let all = fs::read_dir(top.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            all.collect::<std::collections::BTreeSet<_>>()
        };
        let before = names();
        sweep_passing(top.path());
        assert_eq!(before.difference(&names()).collect::<Vec<_>>(), ["wireloom-passing-gone00"]);
        drop(held);
        // A process that another test starts has the lock, too, until it begins its own program.
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while names().contains("wireloom-passing-held00") {
            assert!(std::time::Instant::now() < until, "it stays");
            sweep_passing(top.path());
        }
        // Its own is locked.
        assert!(!lock(&File::open(top.path()).unwrap()));
    }

    /// Threads that make the same take turns; one that has waited long enough, or is stopped, goes
    /// on without.
    #[test]
    fn one_makes_a_result_at_a_time() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        let (folder, at_it, done) = (scratch(), AtomicU32::new(0), AtomicU32::new(0));
        let long = Duration::from_secs(60);
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    let turn = folder.turn("a.so", long, || false).unwrap();
                    assert!(turn.is_some() && at_it.fetch_add(1, SeqCst) == 0);
                    std::thread::sleep(Duration::from_millis(5));
                    at_it.fetch_sub(1, SeqCst);
                    done.fetch_add(1, SeqCst);
                });
            }
        });
        assert_eq!(done.into_inner(), 8);
        let held = folder.turn("a.so", long, || false).unwrap();
        assert!(folder.turn("b.so", long, || false).unwrap().is_some(), "another result has turns of its own");
        assert!(folder.turn("a.so", Duration::from_millis(50), || false).unwrap().is_none());
        assert!(folder.turn("a.so", long, || true).unwrap().is_none());
        drop(held);
        assert!(folder.turn("a.so", long, || false).unwrap().is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
