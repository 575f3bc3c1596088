//! The cores of apps with services: one thread each, with all these apps, and the threads of merge
//! nodes.
//!
//! In: apps and the options of `wireloom run`. Out: running cores, and a summary when they have
//! ended. [`crate::server`] has the rest.

use crate::access_log::{AccessLog, Lines, LogWriter};
use crate::core::app::App;
use crate::core::connection_moves::Moves;
use crate::core::inbox::Inboxes;
use crate::core::Core;
use crate::engine::datagrams::WithDatagrams;
use crate::engine::{self, common, EngineKind, Waker};
use crate::error::{Error, Origin};
use crate::merge;
use crate::packet::{Loads, Service};
use crate::params;
use crate::reload::NewSettings;
use crate::server::options::{pin, AppSpec, Cores, ServeOptions, Stop, Summary};
use crate::signal::{Closes, Mailbox, Post};
use crate::stats::{CoreStats, FaultTable};
use crate::view::Group;
use std::net::SocketAddr;
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};
use wireloom_ir::desc::{Desc, PortKind};

/// Checks apps and resolves their settings.
pub(crate) fn prepare(specs: Vec<AppSpec>) -> Result<Vec<Arc<App>>, Error> {
    specs.into_iter().map(|s| App::new(s.program, s.desc, &s.sets)).collect()
}

/// Services whose ports are open.
pub(crate) struct RunningServices {
    /// The threads answer whether all was finished in order.
    pub cores: Cores<bool>,
    /// Where the cores look for settings that were read again.
    pub settings: Arc<NewSettings>,
    /// How many threads there were.
    all: usize,
    /// Of the access log: ends behind the cores.
    writer: Option<LogWriter>,
}

/// A core's report when its ports are open.
type Started = Result<(Waker, String), Error>;

/// Opens all ports. `packets`: where the other parts of apps with two kinds of cores are counted.
pub(crate) fn start(
    apps: Vec<Service>,
    packets: Option<Arc<Group>>,
    options: &ServeOptions,
) -> Result<RunningServices, Error> {
    let (apps, loads): (Vec<_>, Vec<_>) = apps.into_iter().unzip();
    let loads = Arc::new(loads);
    let count = options.cpus.len().max(1);
    let stats = Arc::new((0..count).map(|_| CoreStats::for_apps(&apps)).collect::<Vec<_>>());
    crate::core::footprint::trim();
    let setting = merge::Setting {
        stats: stats.clone(),
        cpus: options.cpus.clone(),
        stop: options.stop.clone(),
        drain_limit: options.drain_limit,
    };
    ports_free(&apps)?;
    let (log, writer) = options.access_log.as_deref().map(|to| AccessLog::open(to, count)).transpose()?.unzip();
    let nodes = merge::open(&apps, &setting)?;
    let (tx, rx) = mpsc::channel();
    let moves = Arc::new(Moves::new(count));
    let inboxes = Arc::new(Inboxes::new(count));
    let settings = Arc::new(NewSettings::default());
    let boxes: Vec<Arc<Mailbox>> = (0..count).map(|_| Arc::default()).collect();
    let group = Arc::new(Group {
        engine: String::new(),
        apps: apps.clone(),
        stats: stats.clone(),
        post: Post::default(),
        log: log.clone(),
    });
    let mut cores =
        Cores { group, wakers: Vec::new(), threads: Vec::new(), stop: options.stop.clone(), started: Instant::now() };
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
            packets: packets.clone(),
            loads: loads.clone(),
            moves: moves.clone(),
            inboxes: inboxes.clone(),
            log: log.clone(),
            log_faults: options.log_faults,
            settings: settings.clone(),
        };
        let run = move || run_core(spec, &apps, stats, &tx);
        cores.threads.push(named(format!("core-{index}"), run)?);
    }
    drop(tx);
    let mut engine = String::new();
    for _ in 0..count {
        let (waker, name) = rx.recv().map_err(|_| Error::Program("a core ended at its start".into()))??;
        cores.wakers.push(waker);
        engine = name;
    }
    let post = Post { boxes, wakers: cores.wakers.clone() };
    cores.group = Arc::new(Group { engine, apps, stats, post, log });
    // Merge nodes have threads of their own, which end like those of the cores.
    for node in nodes {
        cores.wakers.push(node.waker());
        cores.threads.push(named("merge".into(), move || node.run())?);
    }
    Ok(RunningServices { all: cores.threads.len(), cores, settings, writer })
}

fn named(name: String, run: impl FnOnce() -> bool + Send + 'static) -> Result<std::thread::JoinHandle<bool>, Error> {
    let thread = std::thread::Builder::new().name(name).stack_size(wireloom_ir::desc::STACK);
    thread.spawn(run).map_err(|e| Error::Io("cannot start a thread".into(), e))
}

impl RunningServices {
    /// (app, port, address) of each listening port.
    pub(crate) fn ports(&self) -> Vec<(String, String, SocketAddr)> {
        let mut out = Vec::new();
        for a in &self.cores.group.apps {
            for (p, s) in a.desc.ports.iter().zip(&a.settings.ports) {
                if matches!(p.kind, PortKind::Listen(_)) {
                    out.push((a.desc.app.clone(), p.name.clone(), s.addrs[0]));
                }
            }
        }
        out
    }

    /// Leaves threads alone that do not end: the process ends with them.
    pub(crate) fn abandon(mut self) -> Summary {
        let at_once = self.cores.stop.ended();
        self.writer.take().into_iter().for_each(|w| w.end(at_once));
        self.cores.stop.end();
        self.cores.threads.clear();
        summary(&self.cores.group.stats, self.cores.started.elapsed(), false)
    }

    /// Waits for the end.
    pub(crate) fn finish(mut self) -> Summary {
        let ends = self.cores.join();
        self.writer.take().into_iter().for_each(|w| w.end(self.cores.stop.ended()));
        // A core that panicked leaves the rest of the process to end in order.
        let clean = ends.len() == self.all && ends.iter().all(|clean| *clean);
        summary(&self.cores.group.stats, self.cores.started.elapsed(), clean)
    }
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

/// Every core listens on the same port (SO_REUSEPORT), so the kernel would let two services share
/// it unawares: each port is first bound alone.
fn ports_free(apps: &[Arc<App>]) -> Result<(), Error> {
    let all: Vec<_> = apps.iter().map(|a| (&a.desc, &*a.settings)).collect();
    each_listening(&all, |addr| if common::listens_early(addr) { Ok(()) } else { common::free_to_listen(addr) })
}

/// Listens on the ports of apps that are still being compiled, so that early clients wait and are
/// not refused. [`start`] takes the sockets over.
pub fn listen_early(apps: &[(Desc, Vec<(String, String)>)]) -> Result<(), Error> {
    let services = apps.iter().filter(|(desc, _)| !desc.has_frames());
    let settings =
        services.map(|(desc, sets)| Ok((desc, params::resolve(desc, sets)?))).collect::<Result<Vec<_>, Error>>()?;
    let all: Vec<_> = settings.iter().map(|(desc, settings)| (*desc, settings)).collect();
    each_listening(&all, |addr| {
        if common::listens_early(addr) {
            Err(std::io::ErrorKind::AddrInUse.into())
        } else {
            common::listen_early(addr)
        }
    })
}

/// Does something with each address on which an app listens; no two may have one.
fn each_listening(
    apps: &[(&Desc, &params::Settings)],
    act: impl Fn(SocketAddr) -> std::io::Result<()>,
) -> Result<(), Error> {
    let mut taken = Vec::new();
    for (desc, settings) in apps {
        for (n, (port, named)) in settings.ports.iter().zip(&desc.ports).enumerate().filter(|(_, (p, _))| p.listen) {
            let origin = || Origin::of_port(desc, n);
            for addr in &port.addrs {
                if addr.port() == 0 {
                    let of = format!("{}.{}", desc.app, named.name);
                    let text = format!("{of}: port 0 is no port to listen on; name one, as in 8080");
                    return Err(Error::Param(text).at(origin()));
                }
                let used = || Err(std::io::ErrorKind::AddrInUse.into());
                let done = match (taken.contains(&(named.udp, *addr)), named.udp) {
                    (true, _) => used(),
                    // Datagrams wait for nobody: there is nothing to do early.
                    (false, true) => common::free_for_datagrams(*addr),
                    (false, false) => act(*addr),
                };
                let text = || format!("{}.{}: cannot listen on {addr}", desc.app, named.name);
                done.map_err(|e| Error::Io(text(), e).at(origin()))?;
                taken.push((named.udp, *addr));
            }
        }
    }
    Ok(())
}

struct Thread {
    index: usize,
    cpu: Option<usize>,
    engine: EngineKind,
    batch_wait: Duration,
    limit: Duration,
    stop: Stop,
    mailbox: Arc<Mailbox>,
    packets: Option<Arc<Group>>,
    /// For each app, the entries of tables that every core has a copy of.
    loads: Arc<Vec<Loads>>,
    moves: Arc<Moves>,
    inboxes: Arc<Inboxes>,
    log: Option<Arc<AccessLog>>,
    log_faults: bool,
    settings: Arc<NewSettings>,
}

/// A core's thread. Returns whether all its clients ended in order.
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
    if let Some(e) = core.start_fault() {
        let _ = tx.send(Err(Error::Program(e)));
        return false;
    }
    for (app, loads) in spec.loads.iter().enumerate() {
        // Entries that do not fit are reported by the packet cores, which load the same ones.
        let _ = loads.apply(false, &mut |handler, args| core.signal(app, handler, args));
    }
    let _ = tx.send(Ok((core.engine.waker(), core.engine.name().to_string())));
    let mut drain_end = None;
    let clean = run_until_told(&spec, &mut core, &mut drain_end);
    let ended = run_ends(&spec, &mut core, drain_end);
    core.log_cut_off();
    ended && clean
}

/// Runs the end handlers; whether they ended within the drain limit.
fn run_ends(spec: &Thread, core: &mut Core, drain_end: Option<Instant>) -> bool {
    core.end();
    while core.is_ending() {
        if spec.stop.ended() || drain_end.is_none_or(|end| Instant::now() >= end) {
            core.stop_ending();
            return false;
        }
        if let Err(e) = core.step(Some(Duration::from_millis(20))) {
            log::error!("core {}: {e}", spec.index);
            return false;
        }
        spec.mailbox.serve(|app, handler, args| core.signal(app, handler, args));
    }
    true
}

/// Serves, and drains when told to; whether all clients ended in order. Tells when a drain ends.
fn run_until_told(spec: &Thread, core: &mut Core, drain_end: &mut Option<Instant>) -> bool {
    loop {
        let wait = drain_end.map_or(Duration::from_millis(500), |_| Duration::from_millis(20));
        if let Err(e) = core.step(Some(wait)) {
            log::error!("core {}: {e}", spec.index);
            return false;
        }
        spec.mailbox.serve(|app, handler, args| core.signal(app, handler, args));
        core.take_settings(&spec.settings);
        if spec.stop.running() {
            continue;
        }
        if spec.stop.ended() {
            return core.clients() == 0;
        }
        match drain_end {
            None => {
                core.drain();
                *drain_end = Some(Instant::now() + spec.limit);
            }
            Some(_) if core.clients() == 0 => return true,
            Some(end) if Instant::now() >= *end => return false,
            Some(_) => {}
        }
    }
}

/// Descriptors that are not for connections of ports: files, control, the admin page.
const KEPT_DESCRIPTORS: u64 = 256;

/// A core's part of the descriptors that this process may have.
fn descriptors(cores: u64) -> u64 {
    match crate::server::options::raise_descriptor_limit() {
        0 => u64::MAX,
        all => (all - KEPT_DESCRIPTORS.min(all / 4)) / cores.max(1),
    }
}

fn start_core(spec: &Thread, apps: &[Arc<App>], stats: Arc<Vec<CoreStats>>) -> Result<Core, Error> {
    let chosen = (spec.engine != EngineKind::Auto).then(|| Origin::option("engine"));
    let opened = |e| Error::Io("cannot open the network engine".into(), e).at(chosen.clone());
    let mut engine = engine::open(spec.engine).map_err(opened)?;
    if apps.iter().any(|a| a.desc.ports.iter().any(|p| p.udp)) {
        engine = Box::new(WithDatagrams::new(engine).map_err(opened)?);
    }
    let cores = stats.len() as u64;
    let mut core = Core::new(engine, apps, stats, spec.index, false);
    core.set_batch_wait(spec.batch_wait);
    if let Some(log) = &spec.log {
        core.log_access(Lines::of(log.clone(), spec.index));
    }
    core.log_faults(spec.log_faults);
    core.set_drain_limit(spec.limit);
    if let Some(packets) = &spec.packets {
        core.beside(&packets.apps, &packets.stats);
    }
    core.share_clients(&spec.moves);
    core.share_inboxes(&spec.inboxes);
    core.share_descriptors(descriptors(cores));
    core.listen()?;
    Ok(core)
}
