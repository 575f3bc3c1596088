//! Serving: one thread per core, signals, drain, and the admin page.
//!
//! `serve` blocks until the service has ended: SIGTERM or SIGINT (or [`Stop::drain`]) stops accepting and lets what is
//! under way finish; a second signal, or the end of the drain limit, closes the rest.

use crate::admin;
use crate::control::{self, Where};
use crate::core::app::App;
use crate::core::Core;
use crate::engine::{self, EngineKind, Waker};
use crate::error::Error;
use crate::merge;
use crate::program::Program;
use crate::signal::{Closes, Mailbox, Post};
use crate::stats::{CoreStats, FaultTable};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{mpsc, Arc};
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
    /// Where commands of this machine's users are taken.
    pub control: Where,
    /// The longest rest before a look at the sockets that makes batches larger; zero: never (see `core::pace`).
    pub batch_wait: Duration,
    /// How long a drain may take.
    pub drain_limit: Duration,
    /// Asks the service to end from within the process.
    pub stop: Stop,
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
            control: Where::Off,
            batch_wait: crate::core::pace::DEFAULT_MAX,
            drain_limit: Duration::from_secs(10),
            stop: Stop::default(),
            frames: crate::packet::Options::default(),
            ready: None,
        }
    }
}

/// What runs, for the start-up line and for whoever watches.
pub struct Ready {
    pub engine: String,
    pub cores: usize,
    pub admin: Option<SocketAddr>,
    /// The control socket, where its path was asked for.
    pub control: Option<std::path::PathBuf>,
    /// (app, port, address) of every listening port.
    pub ports: Vec<(String, String, SocketAddr)>,
    /// (app, port, what it is bound to) of every frame port.
    pub frames: Vec<(String, String, String)>,
    pub stats: Arc<Vec<CoreStats>>,
    pub apps: Vec<Arc<App>>,
}

/// What was served.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub connections: u64,
    pub requests: u64,
    pub replies: u64,
    pub faults: u64,
    /// Received, sent, and not to be sent.
    pub frames: u64,
    pub frames_sent: u64,
    pub frames_dropped: u64,
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

/// Prepares apps without serving them.
pub fn prepare(specs: Vec<AppSpec>) -> Result<Vec<Arc<App>>, Error> {
    specs.into_iter().map(|s| App::new(s.program, s.desc, &s.sets)).collect()
}

/// Serves until told to stop; a packet app also ends when all its inputs have.
pub fn serve(specs: Vec<AppSpec>, options: ServeOptions) -> Result<Summary, Error> {
    let frames = |s: &AppSpec| s.desc.ports.iter().any(|p| matches!(p.kind, wireloom_ir::desc::PortKind::Frames { .. }));
    if specs.iter().any(frames) {
        if specs.iter().all(frames) {
            return crate::packet::serve(specs, options);
        }
        let (packets, services) = specs.into_iter().partition(frames);
        return crate::together::serve(packets, services, options);
    }
    let f = &options.frames;
    if !(f.bind.is_empty() && f.out.is_empty() && f.load.is_empty() && f.dump.is_empty()) {
        return Err(Error::Param("`--bind`, `--out`, `--load` and `--dump` are for apps with frame ports; there is none here".into()));
    }
    serve_apps(prepare(specs)?, options)
}

/// Serves prepared apps until told to stop.
pub fn serve_apps(apps: Vec<Arc<App>>, mut options: ServeOptions) -> Result<Summary, Error> {
    let cores = options.cpus.len().max(1);
    let stats = Arc::new((0..cores).map(|_| CoreStats::for_apps(&apps)).collect::<Vec<_>>());
    let signals = Signals::block();
    raise_descriptor_limit();
    crate::core::footprint::trim();
    let setting = merge::Setting {
        stats: stats.clone(),
        cpus: options.cpus.clone(),
        stop: options.stop.clone(),
        drain_limit: options.drain_limit,
    };
    ports_free(&apps)?;
    let nodes = merge::open(&apps, &setting)?;
    let started = Instant::now();
    let (tx, rx) = mpsc::channel();
    let mut threads = Vec::new();
    let boxes: Vec<Arc<Mailbox>> = (0..cores).map(|_| Arc::default()).collect();
    for (index, mailbox) in boxes.iter().enumerate() {
        let (apps, stats, tx) = (apps.clone(), stats.clone(), tx.clone());
        let spec = Thread {
            index,
            cpu: options.cpus.get(index).copied(),
            engine: options.engine,
            batch_wait: options.batch_wait,
            limit: options.drain_limit,
            stop: options.stop.clone(),
            mailbox: mailbox.clone(),
        };
        let name = format!("core-{index}");
        let run = move || run_core(spec, &apps, stats, &tx);
        let thread = std::thread::Builder::new().name(name).spawn(run);
        threads.push(thread.map_err(|e| Error::Io("cannot start a thread".into(), e))?);
    }
    drop(tx);
    let started_cores = gather(&rx, cores);
    let (mut wakers, engine) = match started_cores {
        Ok(x) => x,
        Err(e) => {
            options.stop.end();
            join(threads);
            return Err(e);
        }
    };
    let post = Arc::new(Post { boxes, wakers: wakers.clone() });
    let doors = match Doors::open(&options, &apps, &stats, &engine, post) {
        Ok(doors) => doors,
        Err(e) => {
            options.stop.end();
            wakers.iter().for_each(Waker::wake);
            join(threads);
            return Err(e);
        }
    };
    if let Err(e) = start_nodes(nodes, &mut wakers, &mut threads) {
        options.stop.end();
        wakers.iter().for_each(Waker::wake);
        join(threads);
        return Err(e);
    }
    if let Some(ready) = options.ready.take() {
        let (admin, control) = doors.names();
        ready(&Ready { engine, cores, admin, control, ports: ports(&apps), frames: Vec::new(), stats: stats.clone(), apps: apps.clone() });
    }
    wait(&signals, &options.stop, &wakers, &threads);
    let clean = join(threads);
    drop(doors);
    Ok(summary(&stats, started.elapsed(), clean))
}

/// Ways in beside the ports: the admin page and the control socket. They close when dropped.
pub(crate) struct Doors {
    page: Option<admin::Page>,
    control: Option<control::Socket>,
    asked: bool,
}

impl Doors {
    pub(crate) fn open(options: &ServeOptions, apps: &[Arc<App>], stats: &Arc<Vec<CoreStats>>, engine: &str, post: Arc<Post>) -> Result<Doors, Error> {
        let page = match options.admin {
            Some(addr) => Some(admin::Page::open(addr, apps.to_vec(), stats.clone(), engine.into(), post.clone())?),
            None => None,
        };
        let view = control::View::new(apps.to_vec(), stats.clone(), engine.into(), post);
        let control = control::open(&options.control, view)?;
        Ok(Doors { page, control, asked: matches!(options.control, Where::At(_)) })
    }

    /// For the start-up lines.
    pub(crate) fn names(&self) -> (Option<SocketAddr>, Option<std::path::PathBuf>) {
        let control = self.control.as_ref().filter(|_| self.asked).map(|c| c.path().to_path_buf());
        (self.page.as_ref().map(admin::Page::addr), control)
    }
}

/// Every core listens on the same port (SO_REUSEPORT), so the kernel would let two services share it unawares: each port is
/// first bound alone.
fn ports_free(apps: &[Arc<App>]) -> Result<(), Error> {
    let mut taken = Vec::new();
    for app in apps {
        for (port, desc) in app.settings.ports.iter().zip(&app.desc.ports).filter(|(p, _)| p.listen) {
            for addr in port.addrs.iter().filter(|a| a.port() != 0) {
                let what = || format!("{}.{}: cannot listen on {addr}", app.desc.app, desc.name);
                if taken.contains(addr) {
                    return Err(Error::Io(what(), std::io::ErrorKind::AddrInUse.into()));
                }
                // Closed again at once; SO_REUSEADDR is set, so nothing lingers.
                drop(std::net::TcpListener::bind(addr).map_err(|e| Error::Io(what(), e))?);
                taken.push(*addr);
            }
        }
    }
    Ok(())
}

/// Merge nodes have threads of their own, which end like those of the cores.
fn start_nodes(nodes: Vec<merge::Node>, wakers: &mut Vec<Waker>, threads: &mut Vec<std::thread::JoinHandle<bool>>) -> Result<(), Error> {
    for node in nodes {
        wakers.push(node.waker());
        let thread = std::thread::Builder::new().name("merge".into()).spawn(move || node.run());
        threads.push(thread.map_err(|e| Error::Io("cannot start a thread".into(), e))?);
    }
    Ok(())
}

fn ports(apps: &[Arc<App>]) -> Vec<(String, String, SocketAddr)> {
    let mut out = Vec::new();
    for a in apps {
        for (p, s) in a.desc.ports.iter().zip(&a.settings.ports) {
            if matches!(p.kind, wireloom_ir::desc::PortKind::Listen(_)) {
                out.push((a.desc.app.clone(), p.name.clone(), s.addrs[0]));
            }
        }
    }
    out
}

type Started = Result<(Waker, String), Error>;

fn gather(rx: &mpsc::Receiver<Started>, cores: usize) -> Result<(Vec<Waker>, String), Error> {
    let mut wakers = Vec::new();
    let mut engine = String::new();
    for _ in 0..cores {
        let (waker, name) = rx.recv().map_err(|_| Error::Program("a core ended at its start".into()))??;
        wakers.push(waker);
        engine = name;
    }
    Ok((wakers, engine))
}

/// Waits for a reason to stop and passes it on until all cores have ended.
fn wait(signals: &Signals, stop: &Stop, wakers: &[Waker], threads: &[std::thread::JoinHandle<bool>]) {
    let mut told = RUN;
    while threads.iter().any(|t| !t.is_finished()) {
        if signals.wait(Duration::from_millis(50)) {
            if stop.state() == RUN {
                log::info!("draining; a second signal ends at once");
                stop.drain();
            } else {
                stop.end();
            }
        }
        if stop.state() != told {
            told = stop.state();
            wakers.iter().for_each(Waker::wake);
        }
    }
}

fn join(threads: Vec<std::thread::JoinHandle<bool>>) -> bool {
    // A panic of a core is reported by its thread; the rest of the process goes on to end in order.
    let mut clean = true;
    for t in threads {
        clean &= t.join().unwrap_or(false);
    }
    clean
}

fn summary(stats: &[CoreStats], elapsed: Duration, clean: bool) -> Summary {
    let mut s = Summary { elapsed, clean, ..Summary::default() };
    for app in stats.iter().flat_map(|c| &c.apps) {
        for p in app.ports.iter().filter(|p| p.listen) {
            s.connections += p.opened.get();
            s.requests += p.requests.get();
            s.replies += p.replies.get();
        }
        let of_merges = app.merges.iter().map(|m| &m.faults);
        s.faults += of_merges.chain([&app.faults]).flat_map(FaultTable::list).map(|f| f.2).sum::<u64>();
    }
    s
}

struct Thread {
    index: usize,
    cpu: Option<usize>,
    engine: EngineKind,
    batch_wait: Duration,
    limit: Duration,
    stop: Stop,
    mailbox: Arc<Mailbox>,
}

/// A core's thread. Answers whether all its clients ended in order.
fn run_core(spec: Thread, apps: &[Arc<App>], stats: Arc<Vec<CoreStats>>, tx: &mpsc::Sender<Started>) -> bool {
    let _closes = Closes(spec.mailbox.clone());
    if let Some(cpu) = spec.cpu {
        pin(cpu);
    }
    let mut core = match start_core(&spec, apps, stats) {
        Ok(core) => core,
        Err(e) => {
            let _ = tx.send(Err(e));
            return false;
        }
    };
    core.start();
    let _ = tx.send(Ok((core.engine.waker(), core.engine.name().to_string())));
    let clean = run_until_told(&spec, &mut core);
    core.end();
    clean
}

/// Serves, and drains when told to; whether all clients ended in order.
fn run_until_told(spec: &Thread, core: &mut Core) -> bool {
    let mut drain_end: Option<Instant> = None;
    loop {
        let wait = drain_end.map_or(Duration::from_millis(500), |_| Duration::from_millis(20));
        if let Err(e) = core.step(Some(wait)) {
            log::error!("core {}: {e}", spec.index);
            return false;
        }
        spec.mailbox.serve(|app, handler, args| core.signal(app, handler, args));
        match spec.stop.state() {
            RUN => continue,
            END => return core.clients() == 0,
            _ => {}
        }
        match drain_end {
            None => {
                core.drain();
                drain_end = Some(Instant::now() + spec.limit);
            }
            Some(_) if core.clients() == 0 => return true,
            Some(end) if Instant::now() >= end => return false,
            Some(_) => {}
        }
    }
}

fn start_core(spec: &Thread, apps: &[Arc<App>], stats: Arc<Vec<CoreStats>>) -> Result<Core, Error> {
    let engine = engine::open(spec.engine).map_err(|e| Error::Io("cannot open the network engine".into(), e))?;
    let mut core = Core::new(engine, apps, stats, spec.index, false);
    core.set_batch_wait(spec.batch_wait);
    core.listen()?;
    Ok(core)
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

/// SIGTERM and SIGINT, blocked for all threads started after, and waited for here.
pub(crate) struct Signals {
    set: libc::sigset_t,
    last: std::cell::Cell<Option<Instant>>,
}

/// Signals this close are one: `timeout` and some supervisors signal the process, and then its group too.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

impl Signals {
    pub(crate) fn block() -> Signals {
        // SAFETY: plain calls on a set that lives here.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            Signals { set, last: std::cell::Cell::new(None) }
        }
    }

    /// Waits; true if a signal came that is not the one before over again.
    pub(crate) fn wait(&self, d: Duration) -> bool {
        let t = libc::timespec { tv_sec: d.as_secs() as libc::time_t, tv_nsec: d.subsec_nanos() as libc::c_long };
        // SAFETY: the set and the time live here.
        let came = unsafe { libc::sigtimedwait(&self.set, std::ptr::null_mut(), &t) > 0 };
        if !came {
            return false;
        }
        let now = Instant::now();
        !self.last.replace(Some(now)).is_some_and(|last| now - last < SAME_SIGNAL)
    }
}
