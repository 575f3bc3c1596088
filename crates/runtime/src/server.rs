//! Serving: apps in, a summary out when all have ended.
//!
//! Apps with frame ports and apps with services have cores of their own, and run independently
//! ([`crate::packet`], [`crate::services`]). The admin page, the control socket, signals and the
//! end are here, for all apps.
//!
//! `serve` blocks until the last app has ended. SIGTERM or SIGINT (or [`Stop::drain`]) stops
//! accepting, and work under way finishes. A second signal, or the end of the drain limit, closes
//! the rest. Packets also end with their inputs; services then go on. The end of the services ends
//! the packets. A failure of the packets ends all.

use crate::admin;
use crate::control::{self, Where};
use crate::engine::{EngineKind, Waker};
use crate::error::Error;
use crate::packet;
use crate::program::Program;
use crate::services;
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
            frames: crate::packet::Options::default(),
            ready: None,
        }
    }
}

/// What runs, for the start-up line and for whoever watches.
pub struct Ready {
    pub admin: Option<SocketAddr>,
    /// The control socket, where its path was asked for.
    pub control: Option<std::path::PathBuf>,
    /// (app, port, address) of every listening port.
    pub ports: Vec<(String, String, SocketAddr)>,
    /// (app, port, what it is bound to) of every frame port.
    pub frames: Vec<(String, String, String)>,
    pub view: Arc<View>,
}

/// What was served.
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
    /// Of packet apps: how many faults there were of which kind and place, most first.
    pub kinds: Vec<(String, u64)>,
    pub elapsed: Duration,
    /// All connections ended by themselves within the drain limit.
    pub clean: bool,
}

const RUN: u8 = 0;
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
    fn state(&self) -> u8 {
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
    /// Of all that must hear of a change of `stop`.
    pub wakers: Vec<Waker>,
    pub threads: Vec<JoinHandle<T>>,
    pub stop: Stop,
    pub started: Instant,
}

impl<T> Cores<T> {
    fn ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Waits for the threads; what each answered that did not panic (which the thread has
    /// reported).
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

/// Serves until told to stop; a packet app also ends when all its inputs have.
pub fn serve(specs: Vec<AppSpec>, mut options: ServeOptions) -> Result<Summary, Error> {
    let names: Vec<String> = specs.iter().map(|s| s.desc.app.clone()).collect();
    let (frames, services): (Vec<_>, Vec<_>) = specs.into_iter().partition(|s| s.desc.has_frames());
    let f = std::mem::take(&mut options.frames);
    if frames.is_empty() && !(f.bind.is_empty() && f.out.is_empty() && f.load.is_empty() && f.dump.is_empty()) {
        return Err(Error::Param(
            "`--bind`, `--out`, `--load` and `--dump` are for apps with frame ports; there is none here".into(),
        ));
    }
    let signals = Signals::block();
    raise_descriptor_limit();
    let mut services: Vec<_> =
        services::prepare(services)?.into_iter().map(|app| (app, packet::Loads::default())).collect();
    let mut running = Running {
        packets: None,
        services: None,
        sum: Summary { clean: true, ..Summary::default() },
        failed: None,
        connections: None,
        counted: Vec::new(),
    };
    let mut counts = None;
    if !frames.is_empty() {
        let (packets, halves) = packet::prepare(frames, f)?;
        let packets = packets.start(&options)?;
        counts = Some(packets.cores.group.clone());
        services.extend(halves);
        running.packets = Some(packets);
    }
    if !services.is_empty() {
        let services = services::start(services, counts, &options)?;
        running.connections = Some(services.cores.group.clone());
        running.services = Some(services);
    }
    running.until_ended(&names, &signals, options)
}

/// What is under way, and what has ended.
struct Running {
    packets: Option<packet::Running>,
    services: Option<services::Running>,
    sum: Summary,
    failed: Option<Error>,
    /// Where connections are counted, and counters that are written when packets have ended, and
    /// again when connections have.
    connections: Option<Arc<Group>>,
    counted: Vec<packet::Counted>,
}

impl Running {
    fn until_ended(mut self, names: &[String], signals: &Signals, mut options: ServeOptions) -> Result<Summary, Error> {
        let stop = options.stop.clone();
        let groups = self
            .services
            .iter()
            .map(|s| s.cores.group.clone())
            .chain(self.packets.iter().map(|p| p.cores.group.clone()));
        let view = Arc::new(View::new(groups.collect(), names));
        let doors = Doors::open(&options, &view)?;
        if let Some(ready) = options.ready.take() {
            let (admin, control) = doors.names();
            let ports = self.services.as_ref().map_or(Vec::new(), services::Running::ports);
            let frames = self.packets.as_ref().map_or(Vec::new(), packet::Running::ports);
            ready(&Ready { admin, control, ports, frames, view });
        }
        let (mut told, mut pause) = (RUN, Duration::from_millis(1));
        loop {
            self.collect(&stop);
            // Short runs, on captures, must not wait for a long look.
            let longest = match (&self.packets, &self.services) {
                (None, None) => return self.failed.map_or(Ok(self.sum), Err),
                (Some(_), _) => Duration::from_millis(20),
                (None, Some(_)) => Duration::from_millis(50),
            };
            pause = (pause + pause / 16).min(longest);
            if signals.wait(pause) {
                if stop.running() {
                    log::info!("draining; a second signal ends at once");
                    stop.drain();
                } else {
                    stop.end();
                }
            }
            if stop.state() != told {
                told = stop.state();
                self.wake();
            }
        }
    }

    fn wake(&self) {
        self.packets.iter().for_each(|p| p.cores.wake());
        self.services.iter().for_each(|s| s.cores.wake());
    }

    /// Takes in what has ended.
    fn collect(&mut self, stop: &Stop) {
        if let Some(s) = self.services.take_if(|s| s.cores.ended()) {
            self.sum.add(&s.finish());
            stop.drain();
            self.write_counted(stop);
        }
        if let Some(p) = self.packets.take_if(|p| p.cores.ended()) {
            match p.finish() {
                Ok((s, counted)) => {
                    self.sum.add(&s);
                    self.counted = counted;
                    self.write_counted(stop);
                }
                Err(e) => {
                    self.failed = Some(e);
                    stop.drain();
                }
            }
        }
    }

    /// The counters of apps whose packets have ended, with what connections have counted so far.
    fn write_counted(&mut self, stop: &Stop) {
        let of = |c: &packet::Counted| self.connections.as_ref().map_or(Vec::new(), |g| g.counted(&c.app.desc.app));
        if let Err(e) = self.counted.iter().try_for_each(|c| c.write(&of(c))) {
            self.failed = Some(e);
            stop.drain();
        }
    }
}

impl Summary {
    fn add(&mut self, b: &Summary) {
        self.connections += b.connections;
        self.requests += b.requests;
        self.replies += b.replies;
        self.faults += b.faults;
        self.frames += b.frames;
        self.frames_sent += b.frames_sent;
        self.frames_dropped += b.frames_dropped;
        self.frames_discarded += b.frames_discarded;
        self.kinds.extend_from_slice(&b.kinds);
        self.elapsed = self.elapsed.max(b.elapsed);
        self.clean &= b.clean;
    }
}

/// Ways in beside the ports: the admin page and the control socket. They close when dropped.
struct Doors {
    page: Option<admin::Page>,
    control: Option<control::Socket>,
    asked: bool,
}

impl Doors {
    fn open(options: &ServeOptions, view: &Arc<View>) -> Result<Doors, Error> {
        let page =
            options.admin.map(|addr| admin::Page::open(addr, options.admin_names.clone(), view.clone())).transpose()?;
        let control = control::open(&options.control, view)?;
        Ok(Doors { page, control, asked: matches!(options.control, Where::At(_)) })
    }

    /// For the start-up lines.
    fn names(&self) -> (Option<SocketAddr>, Option<std::path::PathBuf>) {
        let control = self.control.as_ref().filter(|_| self.asked).map(|c| c.path().to_path_buf());
        (self.page.as_ref().map(admin::Page::addr), control)
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

/// Connections need descriptors: take what the system allows, and say how many that are.
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

/// SIGTERM, SIGINT and SIGHUP, blocked for all threads started after, and waited for here.
pub(crate) struct Signals {
    set: libc::sigset_t,
    last: std::cell::Cell<Option<Instant>>,
}

/// Signals this close are one: `timeout` and some supervisors signal the process, and then its
/// group too.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

impl Signals {
    pub(crate) fn block() -> Signals {
        // SAFETY: plain calls on a set that lives here.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            // Ignored signals, too, are kept while they are blocked.
            libc::sigaddset(&mut set, libc::SIGHUP);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            Signals { set, last: std::cell::Cell::new(None) }
        }
    }

    /// Waits; true if a signal to end came that is not the one before over again. SIGHUP has logs
    /// opened anew.
    pub(crate) fn wait(&self, d: Duration) -> bool {
        let t = libc::timespec { tv_sec: d.as_secs() as libc::time_t, tv_nsec: d.subsec_nanos() as libc::c_long };
        // SAFETY: the set and the time live here.
        match unsafe { libc::sigtimedwait(&self.set, std::ptr::null_mut(), &t) } {
            libc::SIGHUP => {
                crate::access::hangup();
                return false;
            }
            ..=0 => return false,
            _ => {}
        }
        let now = Instant::now();
        self.last.replace(Some(now)).is_none_or(|last| now - last >= SAME_SIGNAL)
    }
}
