//! The control socket: commands to running apps from users of this machine, one JSON object per
//! line in and out (docs/operations.md).
//!
//! It is a Unix socket that only its owner and root can use, served by threads of its own. Work on
//! an app's state goes to the cores as jobs ([`crate::signal`]) and runs between two batches.
//! Lines, answers and connections are bounded, so that no peer makes the process grow. [`request`]
//! knows the commands, [`tables`] those on tables.

mod answer;
mod request;
mod tables;

use crate::engine::common::{check, is_exhaustion};
use crate::error::{Error, Origin};
use crate::view::View;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest line that is read.
pub const LINE_MAX: usize = 4 << 20;
/// Open connections at once; one more gets an error and is closed.
const CONNECTIONS: usize = 16;
/// A peer that does not take its answer is cut off.
const WRITE_WAIT: Duration = Duration::from_secs(5);
/// `sun_path`, with its end.
const PATH_MAX: usize = 107;
/// Without descriptors the next connection is tried again after this time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where the socket is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Where {
    #[default]
    Off,
    /// In one of [`folders`], if that can be.
    Default,
    At(PathBuf),
}

/// An open socket; ends, and its file goes, when dropped.
pub struct Socket {
    path: PathBuf,
    /// Closed to end the thread that accepts.
    stop: Option<UnixStream>,
    open: Connections,
    thread: Option<JoinHandle<()>>,
}

/// Open connections, to be shut down at the end.
type Connections = Arc<Mutex<Vec<(UnixStream, JoinHandle<()>)>>>;

impl Socket {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        drop(self.stop.take());
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(|e| e.into_inner()));
        for (stream, thread) in open {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            let _ = thread.join();
        }
    }
}

/// Opens the socket. At the default path it is left out, with a line in the log, where it cannot
/// be.
pub fn open(at: &Where, view: &Arc<View>) -> Result<Option<Socket>, Error> {
    match at {
        Where::Off => Ok(None),
        Where::At(path) => listen(path, view).map(Some).map_err(|e| e.at(Origin::option("control"))),
        Where::Default => match default_path(view).and_then(|path| listen(&path, view)) {
            Ok(s) => Ok(Some(s)),
            Err(e) => {
                log::warn!("{e}; running without (--control PATH for another place, --control off for none)");
                Ok(None)
            }
        },
    }
}

/// Where the sockets of this user's apps may be; a new one goes to the first that there can be.
/// `WIRELOOM_SOCKETS` names the only one.
pub fn folders() -> Vec<PathBuf> {
    if let Some(only) = std::env::var_os("WIRELOOM_SOCKETS") {
        return vec![PathBuf::from(only)];
    }
    // SAFETY: a plain system call.
    let uid = unsafe { libc::geteuid() };
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let system = (uid == 0).then(|| PathBuf::from("/run"));
    let user = PathBuf::from(format!("/run/user/{uid}"));
    let mut all = Vec::new();
    for dir in session.into_iter().chain(system).chain([user]).filter(|d| d.is_dir()).map(|d| d.join("wireloom")) {
        if !all.contains(&dir) {
            all.push(dir);
        }
    }
    all.push(std::env::temp_dir().join(format!("wireloom-{uid}")));
    all
}

/// Where apps are looked for: the folders of this user's, for root those of all users.
pub fn known_folders() -> Vec<PathBuf> {
    let mut all = folders();
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 || std::env::var_os("WIRELOOM_SOCKETS").is_some() {
        return all;
    }
    let entries = |dir: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect()
    };
    let sessions = entries(Path::new("/run/user")).into_iter().map(|d| (d.clone(), d.join("wireloom")));
    let temporary = entries(&std::env::temp_dir())
        .into_iter()
        .filter(|d| owner_named(d, "wireloom-").is_some())
        .map(|d| (d.clone(), d));
    // A folder that bears the name of one user and belongs to another is not looked into.
    let fits = |(named, dir): &(PathBuf, PathBuf)| {
        let uid = owner_named(named, "").or(owner_named(named, "wireloom-"));
        std::fs::symlink_metadata(dir).is_ok_and(|m| m.is_dir() && Some(m.uid()) == uid)
    };
    for (_, dir) in sessions.chain(temporary).filter(fits) {
        if !all.contains(&dir) {
            all.push(dir);
        }
    }
    all
}

/// The user whose number follows the prefix.
fn owner_named(dir: &Path, prefix: &str) -> Option<u32> {
    dir.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()
}

/// The sockets that are there: path, and the process that its name tells.
pub fn sockets() -> Vec<(PathBuf, Option<u32>)> {
    let mut found = Vec::new();
    for dir in known_folders() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "sock") {
                let pid = path.file_stem().and_then(|n| n.to_str()?.rsplit_once('-')?.1.parse().ok());
                found.push((path, pid));
            }
        }
    }
    found.sort();
    found
}

/// `FOLDER/APP-PID.sock`, of several apps the names with `+` between, as far as they fit.
fn default_path(view: &View) -> Result<PathBuf, Error> {
    let mut error = None;
    for dir in folders() {
        match usable(&dir) {
            Ok(()) => {
                let end = format!("-{}.sock", std::process::id());
                let room = PATH_MAX.saturating_sub(dir.as_os_str().len() + 1 + end.len());
                let mut name = view.names().collect::<Vec<_>>().join("+");
                name.truncate(room.min(64)); // names are ASCII
                return Ok(dir.join(name + &end));
            }
            Err(e) => error = Some(e),
        }
    }
    Err(error.unwrap_or_else(|| Error::Param("there is no folder for the control socket".into())))
}

/// Makes the folder; it must be this user's alone.
fn usable(dir: &Path) -> Result<(), Error> {
    let fail = |e| Error::Io(format!("cannot use {} for the control socket", dir.display()), e);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(fail)?;
    let meta = std::fs::symlink_metadata(dir).map_err(fail)?;
    // SAFETY: a plain system call.
    let ours = meta.is_dir() && meta.uid() == unsafe { libc::geteuid() };
    if !ours || meta.mode() & 0o022 != 0 {
        let text = "it is not this user's alone";
        return Err(fail(std::io::Error::new(ErrorKind::PermissionDenied, text)));
    }
    Ok(())
}

fn listen(path: &Path, view: &Arc<View>) -> Result<Socket, Error> {
    let fail = |e: std::io::Error| Error::Io(format!("cannot open the control socket {}", path.display()), e);
    if path.as_os_str().len() > PATH_MAX {
        let text = format!("a path has at most {PATH_MAX} bytes");
        return Err(fail(std::io::Error::new(ErrorKind::InvalidInput, text)));
    }
    // Removes the socket of a process that was killed.
    if std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        match UnixStream::connect(path) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(fail)?,
            _ => return Err(fail(std::io::Error::new(ErrorKind::AddrInUse, "another process listens there"))),
        }
    }
    let listener = UnixListener::bind(path).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    let (stop, told) = UnixStream::pair().map_err(fail)?;
    let open = Connections::default();
    let (view, served) = (view.clone(), open.clone());
    let run = move || accept_loop(&listener, &told, &view, &served);
    let thread = std::thread::Builder::new().name("control".into()).spawn(run).map_err(fail)?;
    Ok(Socket { path: path.into(), stop: Some(stop), open, thread: Some(thread) })
}

fn accept_loop(listener: &UnixListener, told: &UnixStream, view: &Arc<View>, open: &Connections) {
    let fd = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    loop {
        let mut fds = [fd(listener.as_raw_fd()), fd(told.as_raw_fd())];
        // SAFETY: pollfds that live here.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
        if fds[1].revents != 0 {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                if let Err(e) = take(stream, view, open) {
                    log::debug!("control: {e}");
                }
            }
            Err(e) if is_exhaustion(e.raw_os_error().unwrap_or(0)) => {
                // It waits on; looking at nothing but the end meanwhile.
                // SAFETY: pollfds that live here.
                unsafe { libc::poll(&mut fds[1], 1, ACCEPT_PAUSE.as_millis() as i32) };
            }
            Err(_) => {}
        }
    }
}

fn take(mut stream: UnixStream, view: &Arc<View>, open: &Connections) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(WRITE_WAIT))?;
    let mut list = open.lock().unwrap_or_else(|e| e.into_inner());
    list.retain(|(_, t)| !t.is_finished());
    let refused = if !allowed(&stream) {
        "this socket is for the user who runs the app"
    } else if list.len() >= CONNECTIONS {
        "too many connections to this socket"
    } else {
        let (kept, view) = (stream.try_clone()?, view.clone());
        let serve = move || {
            let _ = converse(&stream, &view);
            let _ = stream.shutdown(std::net::Shutdown::Both);
        };
        list.push((kept, std::thread::Builder::new().name("control".into()).spawn(serve)?));
        return Ok(());
    };
    stream.write_all(format!("{{\"ok\":false,\"error\":\"{refused}\"}}\n").as_bytes())
}

/// The file's mode says so, too; this holds from the first moment on.
fn allowed(stream: &UnixStream) -> bool {
    // SAFETY: a plain system call.
    peer(stream).is_some_and(|(_, uid)| uid == 0 || uid == unsafe { libc::geteuid() })
}

/// The process at the other end, and its user; of one that listens, as it was then.
pub fn peer(stream: &UnixStream) -> Option<(u32, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: 0 };
    let mut len = std::mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` and `len` live here and have the sizes told.
    let got = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &mut len)
    };
    (got == 0).then_some((peer.pid as u32, peer.uid))
}

/// Connects to a socket within a time: one whose queue is full takes no connection.
pub fn connect(path: &Path, wait: Duration) -> std::io::Result<UnixStream> {
    let name = path.as_os_str().as_bytes();
    if name.len() > PATH_MAX || name.contains(&0) {
        return Err(ErrorKind::InvalidInput.into());
    }
    // SAFETY: a plain system call; the descriptor it returns has no other owner.
    let stream = unsafe {
        let fd = check(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))?;
        UnixStream::from_raw_fd(fd)
    };
    // The kernel waits no longer than this for a place in the queue.
    stream.set_write_timeout(Some(wait))?;
    // SAFETY: an address of plain bytes, whose path ends with a zero.
    let connected = unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        std::ptr::copy_nonoverlapping(name.as_ptr(), address.sun_path.as_mut_ptr().cast(), name.len());
        let len = std::mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
        check(libc::connect(stream.as_raw_fd(), (&raw const address).cast(), len))
    };
    match connected {
        Ok(_) => Ok(stream),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
        Err(e) => Err(e),
    }
}

/// Answers a connection's lines until it ends.
fn converse(mut stream: &UnixStream, view: &View) -> std::io::Result<()> {
    let (mut held, mut seen, mut chunk) = (Vec::new(), 0, vec![0u8; 64 << 10]);
    loop {
        let n = match stream.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        held.extend_from_slice(&chunk[..n]);
        let mut begin = 0;
        while let Some(end) = held[seen..].iter().position(|b| *b == b'\n').map(|at| seen + at) {
            let line = held[begin..end].trim_ascii();
            if !line.is_empty() {
                stream.write_all(request::answer(view, line).as_bytes())?;
            }
            begin = end + 1;
            seen = begin;
        }
        held.drain(..begin);
        seen = held.len();
        if held.is_empty() {
            held.shrink_to(64 << 10);
        }
        if held.len() > LINE_MAX {
            let text = format!("{{\"ok\":false,\"error\":\"a line has at most {LINE_MAX} bytes\"}}\n");
            stream.write_all(text.as_bytes())?;
            // Reads the rest of its input: a close with unread input would destroy the answer.
            stream.set_read_timeout(Some(Duration::from_millis(200)))?;
            for _ in 0..1024 {
                if !stream.read(&mut chunk).is_ok_and(|n| n > 0) {
                    break;
                }
            }
            return Ok(());
        }
    }
}
