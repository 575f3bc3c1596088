//! Standard error of a running process: a bounded queue of lines, and a thread that writes them.
//!
//! Before [`begin`] each text is written at once. Then texts go into the queue in their order, and
//! no thread of the service waits for a reader of standard error. A line without room is counted,
//! and a later line tells the number. On a run over captures cores wait for room, so no line is
//! lost. At the end, at a panic and at a crash the process waits for the queue for a limited time.

use crate::os_signals::{self, Heard, OsSignals};
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Most bytes that wait for the thread.
const WAITING_MAX: usize = 1 << 20;
/// Room that is there from the beginning.
const WAITING_MIN: usize = 64 << 10;
/// How long a panic or a crash waits.
const CRASH_MAX: Duration = Duration::from_secs(1);
/// How often the end looks whether all is written.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Default)]
struct LineQueue {
    lines: Vec<u8>,
    /// Lines that found no room since the thread took the others.
    lost: u64,
    /// How many threads wait for room.
    waiters: u32,
}

static QUEUE: Mutex<LineQueue> = Mutex::new(LineQueue { lines: Vec::new(), lost: 0, waiters: 0 });
/// Told when the queue has its first line.
static FILLED: Condvar = Condvar::new();
/// Told when the queue has room again.
static EMPTIED: Condvar = Condvar::new();
/// The thread that began the queue. It hears signals, so it never waits for room.
static STARTER: OnceLock<ThreadId> = OnceLock::new();
/// Threads wait for room.
static WAITS: AtomicBool = AtomicBool::new(false);
/// Bytes that are not written yet.
static PENDING: AtomicUsize = AtomicUsize::new(0);
/// All lines lost.
static LOST: AtomicU64 = AtomicU64::new(0);

/// From now on a thread writes the lines. Its failure to start leaves writing as it was.
pub fn begin() {
    if STARTER.get().is_some() {
        return;
    }
    queue().lines.reserve(WAITING_MIN);
    let started = os_signals::without_signals(|| std::thread::Builder::new().name("log".into()).spawn(run));
    if started.is_ok() {
        let _ = STARTER.set(std::thread::current().id());
        note_panics();
        crash::note();
    }
}

/// From now on threads wait for room: a run over captures is in no hurry.
pub(crate) fn wait_for_room() {
    WAITS.store(true, Ordering::SeqCst);
}

/// Lines that found no room or could not be written.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Writes a text, which ends with a line's end.
pub fn put(text: &[u8]) {
    let Some(starter) = STARTER.get() else {
        write(text);
        return;
    };
    let waits = WAITS.load(Ordering::Relaxed);
    let hears = waits && std::thread::current().id() == *starter;
    let mut q = queue();
    while waits && !hears && !q.has_room(text) {
        q.waiters += 1;
        q = EMPTIED.wait(q).unwrap_or_else(|e| e.into_inner());
        q.waiters -= 1;
    }
    if hears || q.has_room(text) {
        q.add(text);
    } else {
        let lines = count(text);
        q.lost += lines;
        LOST.fetch_add(lines, Ordering::Relaxed);
    }
}

impl LineQueue {
    /// Behind lost lines there is no room, so that their number is told in their place.
    fn has_room(&self, text: &[u8]) -> bool {
        self.lost == 0 && (self.lines.is_empty() || self.lines.len() + text.len() <= WAITING_MAX)
    }

    fn add(&mut self, text: &[u8]) {
        PENDING.fetch_add(text.len(), Ordering::SeqCst);
        if self.lines.is_empty() {
            FILLED.notify_one();
        }
        self.lines.extend_from_slice(text);
    }
}

/// A panic leaves the queue as it was: nothing in it can panic half-way.
fn queue() -> MutexGuard<'static, LineQueue> {
    QUEUE.lock().unwrap_or_else(|e| e.into_inner())
}

fn count(text: &[u8]) -> u64 {
    text.iter().filter(|b| **b == b'\n').count() as u64
}

/// The thread that writes.
fn run() {
    let (mut out, mut untold) = (Vec::with_capacity(WAITING_MIN), 0);
    loop {
        out.clear();
        let mut q = queue();
        while q.lines.is_empty() {
            q = FILLED.wait(q).unwrap_or_else(|e| e.into_inner());
        }
        std::mem::swap(&mut q.lines, &mut out);
        untold += std::mem::take(&mut q.lost);
        if q.waiters > 0 {
            EMPTIED.notify_all();
        }
        drop(q);
        untold += write(&out);
        if untold > 0 && tell(untold) {
            untold = 0;
        }
        PENDING.fetch_sub(out.len(), Ordering::SeqCst);
    }
}

/// Writes how many lines were lost; whether that succeeded.
fn tell(lost: u64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let now = wireloom_ir::date::rfc3339(now);
    let lines = if lost == 1 { "line was" } else { "lines were" };
    write_all(format!("[{now}Z WARN  wireloom] {lost} {lines} lost: standard error took none\n").as_bytes()).is_ok()
}

/// Writes lines; how many of them were lost.
fn write(lines: &[u8]) -> u64 {
    let lost = write_all(lines).map_or_else(|at| count(&lines[at..]), |()| 0);
    LOST.fetch_add(lost, Ordering::Relaxed);
    lost
}

/// Writes to the descriptor itself: another thread may wait in the standard library's stream. An
/// error tells how many bytes were written before it.
fn write_all(text: &[u8]) -> Result<(), usize> {
    let mut at = 0;
    while at < text.len() {
        // SAFETY: a plain system call on bytes that live here.
        let n = unsafe { libc::write(libc::STDERR_FILENO, text[at..].as_ptr().cast(), text.len() - at) };
        match (n, Error::last_os_error().kind()) {
            (1.., _) => at += n as usize,
            (_, ErrorKind::Interrupted) if n < 0 => {}
            (_, ErrorKind::WouldBlock) if n < 0 => wait_for_reader(),
            _ => return Err(at),
        }
    }
    Ok(())
}

/// Another process, which shares the descriptor, may have set it to return at once.
fn wait_for_reader() {
    let mut asked = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, which lives here.
    unsafe { libc::poll(&mut asked, 1, -1) };
}

fn is_written() -> bool {
    PENDING.load(Ordering::SeqCst) == 0
}

/// Waits at the end of the process until all lines are written. A run that was told to end waits
/// for a limited time, and so does a service. A further signal ends the wait.
pub fn finish() {
    let mut signals = None;
    let limit = match os_signals::number_of_ends() {
        0 if WAITS.load(Ordering::SeqCst) => None,
        n => Some(os_signals::last_lines_max(n > 1)),
    };
    let begin = Instant::now();
    while !is_written() && limit.is_none_or(|l| begin.elapsed() < l) {
        if matches!(signals.get_or_insert_with(OsSignals::block).wait(LOOK), Heard::End) {
            return;
        }
    }
}

/// Panics go the way of all lines, and are written before their thread goes on.
fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let trace = std::backtrace::Backtrace::capture();
        let mut text = format!("thread '{}' {panic}\n", thread.name().unwrap_or("-"));
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            text += &format!("{trace}\n");
        }
        queue().add(text.as_bytes());
        let begin = Instant::now();
        while !is_written() && begin.elapsed() < CRASH_MAX {
            std::thread::sleep(LOOK);
        }
    }));
}

/// A crash of the process, by a signal, leaves the thread time for the lines before it.
mod crash {
    use super::{is_written, CRASH_MAX, LOOK};
    use std::mem::MaybeUninit;
    use std::sync::OnceLock;

    const SIGNALS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

    /// The actions before ours.
    static BEFORE: [OnceLock<libc::sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

    pub fn note() {
        for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
            // SAFETY: plain system calls on actions that live here. A signal may run the handler.
            unsafe {
                let mut was = MaybeUninit::<libc::sigaction>::zeroed();
                if libc::sigaction(signal, std::ptr::null(), was.as_mut_ptr()) != 0 {
                    continue;
                }
                let _ = before.set(was.assume_init());
                let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                ours.sa_sigaction = crashed as *const () as usize;
                ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(signal, &ours, std::ptr::null_mut());
            }
        }
    }

    /// Waits, and leaves the rest to the action before: the fault comes again at once. A signal
    /// that is no fault is sent again.
    extern "C" fn crashed(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        let look = libc::timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as libc::c_long };
        let mut looks = CRASH_MAX.as_millis() / LOOK.as_millis();
        // SAFETY: all of these may be called in a signal, and the kernel gives the information.
        unsafe {
            while !is_written() && looks > 0 {
                libc::nanosleep(&look, std::ptr::null_mut());
                looks -= 1;
            }
            let before = SIGNALS.iter().position(|s| *s == signal).and_then(|n| BEFORE[n].get());
            if let Some(before) = before {
                libc::sigaction(signal, before, std::ptr::null_mut());
            }
            if (*info).si_code <= 0 {
                libc::raise(signal);
            }
        }
    }
}
