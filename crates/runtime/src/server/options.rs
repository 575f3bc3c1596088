//! The options of a run, a handle to end it, and the data that the cores of a group share.

use crate::control::Where;
use crate::engine::{EngineKind, Waker};
use crate::program::Program;
use crate::reload::Reload;
use crate::view::{Group, View};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wireloom_ir::desc::Desc;

/// A program to serve, with its settings as `name=value` pairs.
pub struct AppSpec {
    pub program: Program,
    pub desc: Desc,
    pub sets: Vec<(String, String)>,
}

pub struct ServeOptions {
    /// One thread per entry, pinned to that CPU. Empty: one thread, not pinned.
    pub cpus: Vec<usize>,
    pub engine: EngineKind,
    /// Where `/metrics` and `/status` are served.
    pub admin: Option<SocketAddr>,
    /// Names by which requests may ask for it, beside its address and `localhost`.
    pub admin_names: Vec<String>,
    /// Where commands of this machine's users are taken.
    pub control: Where,
    /// The longest rest before a look at the sockets that makes batches larger; zero: never (see
    /// `core::input_coalescing`).
    pub batch_wait: Duration,
    /// How long a drain may take.
    pub drain_limit: Duration,
    /// Asks the service to end from within the process.
    pub stop: Stop,
    /// Where a line is written for each request; `-`: standard output.
    pub access_log: Option<std::path::PathBuf>,
    /// Each fault has a line in the log, at most one for each kind and second.
    pub log_faults: bool,
    /// Reads the settings again, at SIGHUP.
    pub reload: Option<Reload>,
    /// How often names of servers are resolved again; zero: at SIGHUP only.
    pub resolve: Duration,
    /// Of apps with frame ports.
    pub frames: crate::packet::Options,
    /// Called once, when all ports are open.
    pub ready: Option<ReadyFn>,
}

/// Told once that the service is up.
pub type ReadyFn = Box<dyn FnOnce(&Ready) + Send>;

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            cpus: Vec::new(),
            engine: EngineKind::Auto,
            admin: None,
            admin_names: Vec::new(),
            control: Where::Off,
            batch_wait: crate::core::input_coalescing::DEFAULT_MAX,
            drain_limit: Duration::from_secs(10),
            stop: Stop::default(),
            access_log: None,
            log_faults: false,
            reload: None,
            resolve: Duration::ZERO,
            frames: crate::packet::Options::default(),
            ready: None,
        }
    }
}

/// The running apps, for the start-up line and for observers.
pub struct Ready {
    pub admin: Option<SocketAddr>,
    /// The control socket, if its path was given.
    pub control: Option<std::path::PathBuf>,
    /// (app, port, address) of every listening port.
    pub ports: Vec<(String, String, SocketAddr)>,
    /// (app, port, binding) of every frame port.
    pub frames: Vec<(String, String, String)>,
    pub view: Arc<View>,
}

/// The totals of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub connections: u64,
    pub requests: u64,
    pub replies: u64,
    pub faults: u64,
    /// Received, sent, and not to be sent.
    pub frames: u64,
    pub frames_sent: u64,
    pub frames_dropped: u64,
    /// By queues.
    pub frames_discarded: u64,
    /// Of packet apps: the number of faults by kind and place, most first.
    pub kinds: Vec<(String, u64)>,
    /// Of segments `on nic`: what has crossed the modelled link, a line for each queue.
    pub link: Vec<String>,
    pub elapsed: Duration,
    /// All connections ended by themselves within the drain limit.
    pub clean: bool,
}

pub(super) const RUN: u8 = 0;
const DRAIN: u8 = 1;
const END: u8 = 2;

/// A handle to end a service.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    pub fn drain(&self) {
        self.0.fetch_max(DRAIN, Ordering::SeqCst);
    }
    pub fn end(&self) {
        self.0.store(END, Ordering::SeqCst);
    }
    pub(super) fn state(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }
    pub(crate) fn running(&self) -> bool {
        self.state() == RUN
    }
    pub(crate) fn ended(&self) -> bool {
        self.state() == END
    }
}

/// The cores of a group under way. When dropped before they have ended, they are ended.
pub(crate) struct Cores<T> {
    pub group: Arc<Group>,
    /// The threads that must notice a change of `stop`.
    pub wakers: Vec<Waker>,
    pub threads: Vec<JoinHandle<T>>,
    pub stop: Stop,
    pub started: Instant,
}

impl<T> Cores<T> {
    pub fn ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Waits for the threads; returns the results of those that did not panic. (A panic has been
    /// reported by its thread.)
    pub fn join(&mut self) -> Vec<T> {
        std::mem::take(&mut self.threads).into_iter().filter_map(|t| t.join().ok()).collect()
    }
}

impl<T> Drop for Cores<T> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.stop.end();
            self.wake();
            self.join();
        }
    }
}

/// Pins this thread. Failing is no error: the CPU may not be ours.
pub(crate) fn pin(cpu: usize) {
    // SAFETY: a plain system call on a set that lives here.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu >= libc::CPU_SETSIZE as usize {
            true
        } else {
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &set) != 0
        }
    };
    if failed {
        log::warn!("cannot pin to CPU {cpu}; running unpinned");
    }
}

/// Raises the limit on descriptors as far as the system allows, because connections need them.
/// Returns the limit.
pub(crate) fn raise_descriptor_limit() -> u64 {
    // SAFETY: plain system calls.
    unsafe {
        let mut l: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut l) != 0 {
            return 0;
        }
        if l.rlim_cur < l.rlim_max {
            let wanted = libc::rlimit { rlim_cur: l.rlim_max, ..l };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) == 0 {
                return wanted.rlim_cur;
            }
        }
        l.rlim_cur
    }
}
