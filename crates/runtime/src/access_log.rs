//! The access log: a line for each request to a listening port, written beside the data path.
//!
//! A core makes its lines in memory of its own and hands them over after each batch. One thread
//! opens, writes and reopens the file. No core waits for the thread. Lines without room are dropped
//! and counted. docs/operations.md describes the format.

use crate::error::{Error, Origin};
use crate::os_signals::last_lines_max;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most bytes of one core's lines that wait for the thread.
const WAITING_MAX: usize = 4 << 20;
/// Most bytes that a core keeps while the thread writes earlier ones.
const KEPT_MAX: usize = 256 << 10;
/// How often lines are written.
const PERIOD: Duration = Duration::from_millis(100);
/// How often it is said that lines are lost.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// Hangups so far (SIGHUP): after each the file is opened anew.
static HANGUPS: AtomicU32 = AtomicU32::new(0);

/// SIGHUP came.
pub(crate) fn hangup() {
    HANGUPS.fetch_add(1, Ordering::SeqCst);
}

/// A log that cores hand lines to.
pub struct AccessLog {
    waiting: Vec<Mutex<Vec<u8>>>,
    /// Lines that found no room or could not be written.
    lost: AtomicU64,
    ended: AtomicBool,
}

/// Ends the log when dropped, and writes the lines handed over until then.
pub struct LogWriter {
    log: Arc<AccessLog>,
    thread: Option<JoinHandle<()>>,
}

impl LogWriter {
    /// Ends the log; `at_once`: a second signal has come.
    pub fn end(mut self, at_once: bool) {
        self.end_within(last_lines_max(at_once));
    }

    fn end_within(&mut self, limit: Duration) {
        self.log.ended.store(true, Ordering::SeqCst);
        let Some(t) = self.thread.take() else { return };
        t.thread().unpark();
        // A pipe without a reader must not hold up the end.
        let end = Instant::now() + limit;
        while !t.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        if t.is_finished() {
            let _ = t.join();
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.end_within(last_lines_max(false));
    }
}

impl AccessLog {
    /// Opens the file (`-`: standard output) for so many cores.
    pub fn open(to: &Path, cores: usize) -> Result<(Arc<AccessLog>, LogWriter), Error> {
        let fail = |e| Error::Io(format!("cannot open the access log {}", to.display()), e);
        let mut out = LogOutput::open(to).map_err(|e| fail(e).at(Origin::option("access-log")))?;
        let log = Arc::new(AccessLog {
            waiting: (0..cores).map(|_| Mutex::default()).collect(),
            lost: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        let own = log.clone();
        let run = move || own.run(&mut out);
        let thread = std::thread::Builder::new()
            .name("access-log".into())
            .spawn(run)
            .map_err(|e| Error::Io("cannot start a thread".into(), e))?;
        Ok((log.clone(), LogWriter { log, thread: Some(thread) }))
    }

    /// Lines that found no room or could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn run(&self, out: &mut LogOutput) {
        let (mut lines, mut opened, mut said) = (Vec::new(), HANGUPS.load(Ordering::SeqCst), LossReport::default());
        loop {
            let last = self.ended.load(Ordering::SeqCst);
            for waiting in &self.waiting {
                lines.clear();
                std::mem::swap(&mut *held(waiting), &mut lines);
                if !lines.is_empty() {
                    self.lost.fetch_add(out.write(&lines), Ordering::Relaxed);
                }
            }
            // Earlier lines belong to the file as it was.
            let hangups = HANGUPS.load(Ordering::SeqCst);
            if hangups != opened {
                opened = hangups;
                out.reopen();
            }
            said.tell(self.lost(), last);
            if last {
                return;
            }
            std::thread::park_timeout(PERIOD);
        }
    }
}

/// The last report of lost lines.
#[derive(Default)]
struct LossReport {
    lost: u64,
    at: Option<Instant>,
}

impl LossReport {
    fn tell(&mut self, lost: u64, last: bool) {
        let due = last || self.at.is_none_or(|at| at.elapsed() >= SAY_AGAIN);
        if lost > self.lost && due {
            log::warn!("access log: {} lines were lost, {lost} in all", lost - self.lost);
            (self.lost, self.at) = (lost, Some(Instant::now()));
        }
    }
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|b| **b == b'\n').count() as u64
}

/// After a panic the list of bytes is still valid.
fn held(m: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Where lines go.
enum LogOutput {
    Standard,
    File { path: PathBuf, file: File, failing: bool, torn: bool },
}

impl LogOutput {
    fn open(to: &Path) -> std::io::Result<LogOutput> {
        if to.as_os_str() == "-" {
            return Ok(LogOutput::Standard);
        }
        Ok(LogOutput::File { path: to.to_path_buf(), file: append_to(to)?, failing: false, torn: false })
    }

    /// The file may have been renamed: one of its name is opened, or begun. If that fails, the old
    /// one is kept.
    fn reopen(&mut self) {
        let LogOutput::File { path, file, torn, .. } = self else { return };
        match append_to(path) {
            Ok(f) => (*file, *torn) = (f, false),
            Err(e) => log::warn!("access log {}: cannot be opened again: {e}", path.display()),
        }
    }

    /// Writes lines; how many of them were lost.
    fn write(&mut self, lines: &[u8]) -> u64 {
        match self {
            LogOutput::Standard => {
                let done = std::io::stdout().write_all(lines).and_then(|()| std::io::stdout().flush());
                done.map_or_else(|_| count(lines), |()| 0)
            }
            LogOutput::File { path, file, failing, torn } => {
                let result = append(file, lines, torn);
                if let (Err((e, _)), false) = (&result, *failing) {
                    log::warn!("access log {}: {e}", path.display());
                }
                *failing = result.is_err();
                result.map_or_else(|(_, lost)| lost, |()| 0)
            }
        }
    }
}

/// Appends lines. `torn`: the file ends with a part of a line, which stays alone on its line. An
/// error comes with the number of lines that are not in the file.
fn append(file: &mut impl Write, lines: &[u8], torn: &mut bool) -> Result<(), (std::io::Error, u64)> {
    if *torn {
        file.write_all(b"\n").map_err(|e| (e, count(lines)))?;
        *torn = false;
    }
    let mut at = 0;
    while at < lines.len() {
        match file.write(&lines[at..]) {
            Ok(n) if n > 0 => at += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            end => {
                *torn = at > 0 && lines[at - 1] != b'\n';
                return Err((end.err().unwrap_or_else(|| std::io::ErrorKind::WriteZero.into()), count(&lines[at..])));
            }
        }
    }
    Ok(())
}

/// Only its owner can read it, because it names clients and their requests. A pipe must have a
/// reader: its opening would wait for one.
fn append_to(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(libc::O_NONBLOCK).open(path)?;
    // SAFETY: a plain system call on our own file, which has no other flags of this kind.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) } {
        0 => Ok(file),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// So many bytes of a request's columns are kept: the operation and its subject.
const COLUMN_MAX: [usize; 2] = [64, 1024];

/// The record of a request until its line is written.
pub struct Note {
    columns: [Vec<u8>; 2],
    n: usize,
    /// When the request began, if its slot does not tell.
    pub since: Option<u64>,
    /// Of a tunnel: the class of its answer, its backend, and the bytes that the connection got
    /// before it.
    pub outcome: u32,
    pub backend: (u16, u32),
    pub before: u64,
}

impl Note {
    fn new() -> Note {
        let columns = COLUMN_MAX.map(Vec::with_capacity);
        Note { columns, n: 0, since: None, outcome: 0, backend: (0, 0), before: 0 }
    }

    /// The next column, cut if it is too long.
    pub fn column(&mut self, text: &[u8]) {
        if let Some(c) = self.columns.get_mut(self.n) {
            c.extend_from_slice(&text[..text.len().min(COLUMN_MAX[self.n])]);
            self.n += 1;
        }
    }
}

/// A request that is over.
pub struct LoggedRequest<'a> {
    /// Nanoseconds since 1970, and how long it took.
    pub wall: u64,
    pub took: u64,
    pub app: &'a str,
    pub port: &'a str,
    pub client: std::net::SocketAddr,
    /// The answer's number; without one its class, if it has one.
    pub status: u32,
    pub class: &'a str,
    pub bytes: u64,
    pub backend: Option<&'a str>,
    pub fault: &'a str,
}

/// A core's side of the log. Without a log it does nothing.
#[derive(Default)]
pub struct Lines {
    log: Option<Arc<AccessLog>>,
    core: usize,
    lines: Vec<u8>,
    /// Not in use.
    // A note is large: boxes change hands instead.
    #[allow(clippy::vec_box)]
    notes: Vec<Box<Note>>,
    second: u64,
    date: String,
}

impl Lines {
    pub fn of(log: Arc<AccessLog>, core: usize) -> Lines {
        Lines { log: Some(log), core, lines: Vec::with_capacity(KEPT_MAX), ..Lines::default() }
    }

    #[inline]
    pub fn on(&self) -> bool {
        self.log.is_some()
    }

    /// A note for a request.
    pub fn note(&mut self) -> Box<Note> {
        let mut note = self.notes.pop().unwrap_or_else(|| Box::new(Note::new()));
        note.columns.iter_mut().for_each(Vec::clear);
        (note.n, note.since) = (0, None);
        note
    }

    /// Writes a request's line.
    pub fn line(&mut self, note: Box<Note>, e: &LoggedRequest) {
        match &self.log {
            Some(log) if self.lines.len() > KEPT_MAX => {
                log.lost.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.write(&note, e),
        }
        self.notes.push(note);
    }

    fn write(&mut self, note: &Note, e: &LoggedRequest) {
        let (second, micros) = (e.wall / 1_000_000_000, e.wall % 1_000_000_000 / 1000);
        if second != self.second || self.date.is_empty() {
            (self.second, self.date) = (second, wireloom_ir::date::rfc3339(second));
        }
        let out = &mut self.lines;
        let _ = write!(out, "{}.{micros:06}Z {}.{} {}", self.date, e.app, e.port, e.client);
        for (i, c) in note.columns.iter().enumerate() {
            if i >= note.n || c.is_empty() {
                out.extend_from_slice(b" -");
                continue;
            }
            out.extend_from_slice(b" \"");
            escape(c, out);
            out.push(b'"');
        }
        let took = e.took / 1000;
        let _ = match (e.status, e.class) {
            (0, "") => write!(out, " -"),
            (0, class) => write!(out, " {class}"),
            (status, _) => write!(out, " {status}"),
        };
        let _ = writeln!(
            out,
            " {} {}.{:06} {} {}",
            e.bytes,
            took / 1_000_000,
            took % 1_000_000,
            e.backend.unwrap_or("-"),
            e.fault
        );
    }

    /// Hands over the lines. `wait`: at the end.
    pub fn give(&mut self, wait: bool) {
        let Some(log) = &self.log else { return };
        if self.lines.is_empty() {
            return;
        }
        let waiting = &log.waiting[self.core];
        let mut to = match waiting.try_lock() {
            Ok(to) => to,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) if wait => held(waiting),
            Err(TryLockError::WouldBlock) => return,
        };
        if to.len() + self.lines.len() <= WAITING_MAX {
            to.extend_from_slice(&self.lines);
        } else {
            log.lost.fetch_add(count(&self.lines), Ordering::Relaxed);
        }
        self.lines.clear();
    }
}

/// Writes bytes that could end a line or a quoted part, or move a terminal's cursor, as `\xHH`.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &b in bytes {
        match b {
            b'"' | b'\\' | 0..=0x1f | 0x7f..=0xff => {
                let _ = write!(out, "\\x{b:02X}");
            }
            _ => out.push(b),
        }
    }
}

#[cfg(test)]
#[path = "access_log_tests.rs"]
mod tests;
