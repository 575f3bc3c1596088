//! Running packet apps: one thread per core from the first frame to the last, with all apps.
//!
//! In: the programs and the options of `wireloom run`. Out: the summary of the run. Before the
//! first frame is read, ports are opened, cores are set up and tables are loaded. The run ends when
//! all inputs have ended, or on SIGTERM. Then received frames are handled and sent, files are
//! completed and tables dumped.

use super::board::stage;
use super::core::{CoreParts, Fan, PacketCore};
use super::core_mesh::{Mesh, Progress};
use super::core_times::{CoreTimes, TimesHere};
use super::fault_kinds;
use super::interfaces::Interfaces;
use super::nic::{Agent, Inherited, Joint, ProcessSide, Role, Served, Tables, Work};
use super::options::{self, Options};
use super::pool::Pool;
use super::port_bindings::{self, AppPlan, CorePlan, Plan};
use super::port_targets::{check_bindings, is_outside};
use super::rps::{self, Policy, Rps};
use super::table_files::{self, Counted, Inserting, Loads};
use crate::core::app::App;
use crate::engine::Waker;
use crate::error::Error;
use crate::log_queue;
use crate::server::options::{pin, AppSpec, Cores, ServeOptions, Stop, Summary};
use crate::signal::{Closes, Mailbox, Post};
use crate::stats::CoreStats;
use crate::view::Group;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_ir::desc::{CoreKind, SegmentDesc};

/// Packet apps whose ports are open and whose frames flow.
pub struct RunningPackets {
    pub(crate) cores: Cores<PacketCore>,
    each: Vec<Options>,
    plans: Vec<AppPlan>,
    /// Cores of this process.
    count: usize,
    progress: Arc<Progress>,
    /// Of the process of the NIC.
    agent: Option<Agent>,
    pub(crate) interfaces: Interfaces,
}

/// The counters that the process of a NIC shows to the other one.
pub(crate) struct Shown {
    group: Arc<Group>,
    joint: Option<Arc<Joint>>,
}

impl Shown {
    pub(crate) fn served<'a>(&'a self, wake: &'a dyn Fn()) -> Option<Served<'a>> {
        let (group, joint) = (&self.group, self.joint.as_deref()?);
        Some(Served { joint, app: &group.apps[0], stats: &group.stats, post: &group.post, wake })
    }
}

/// Packet apps that have been checked.
pub(crate) struct Prepared {
    apps: Vec<Arc<App>>,
    /// Options of each app.
    each: Vec<Options>,
    loads: Arc<Vec<Loads>>,
}

/// An app of services, or the part of an app for services, with its table files: tables that each
/// core has a copy of.
pub(crate) type Service = (Arc<App>, Loads);

/// Checks apps; also returns the other parts of apps that have service ports, too.
pub(crate) fn prepare(specs: Vec<AppSpec>, frames: Options) -> Result<(Prepared, Vec<Service>), Error> {
    alone(&specs)?;
    let each = options::of_each(&specs.iter().map(|s| &s.desc).collect::<Vec<_>>(), frames)?;
    let (mut apps, mut services) = (Vec::new(), Vec::new());
    let tables: Arc<Tables> = Arc::default();
    for (mut spec, frames) in specs.into_iter().zip(&each) {
        if matches!(frames.nic, Role::Cpu) && spec.desc.nic.is_some() {
            spec.program = spec.program.with_outside(tables.clone());
        }
        let (packets, other) = partition(spec, frames)?;
        let load = if other.is_some() { Loads::read(&packets.desc, &frames.load)? } else { Loads::default() };
        services.extend(other.map(|app| (app, load)));
        apps.push(packets);
    }
    let mut each = each;
    if let ([app], [frames]) = (&apps[..], &mut each[..]) {
        frames.joint = joint(app, frames)?.map(Arc::new);
        frames.joint.iter().for_each(|j| tables.lie(j, app.desc.tables.iter().map(|t| t.nic).collect()));
    }
    let loads = apps.iter().zip(&each).map(|(a, f)| Loads::read(&a.desc, &f.load)).collect::<Result<Vec<_>, _>>()?;
    apps.iter().zip(&each).try_for_each(|(a, f)| table_files::check_dumps(&a.desc, &f.dump))?;
    Ok((Prepared { apps, each, loads: Arc::new(loads) }, services))
}

/// The memory that this process shares with the other one, if an app has segments `on nic` and a
/// process for them.
fn joint(app: &Arc<App>, frames: &Options) -> Result<Option<Joint>, Error> {
    if app.desc.nic.is_none() {
        return Ok(None);
    }
    let (desc, ways, link) = (&app.desc, port_bindings::ways(app), frames.link);
    let taken = |i: &Inherited| std::mem::take(&mut *i.files.lock().unwrap_or_else(|e| e.into_inner()));
    Ok(match &frames.nic {
        Role::Together => None,
        Role::Cpu => Some(Joint::make(desc, ways, link)?),
        Role::Nic(i) => Some(Joint::join(desc, ways, link, taken(i), i.anew)?),
    })
}

/// An app with segments has the cores for itself.
fn alone(specs: &[AppSpec]) -> Result<(), Error> {
    match specs.iter().find(|s| !s.desc.segments.is_empty()) {
        Some(s) if specs.len() > 1 => Err(Error::Param(format!(
            "app `{}` has segments, so it runs by itself: start the other apps in a process of their own",
            s.desc.app
        ))),
        _ => Ok(()),
    }
}

fn partition(mut spec: AppSpec, frames: &Options) -> Result<(Arc<App>, Option<Arc<App>>), Error> {
    check_bindings(&mut spec.desc, frames)?;
    let (app, services) = match spec.desc.is_mixed() {
        true => {
            App::partition(spec.program, &spec.desc, &spec.sets).map(|(p, s)| (p, Some(s).filter(|_| !frames.alone)))?
        }
        false => (App::new(spec.program, spec.desc, &spec.sets)?, None),
    };
    match app.program.packets() {
        Some(_) => Ok((app, services)),
        None => Err(Error::Program(format!("app `{}`: the program has no `wireloom_packets`", app.desc.app))),
    }
}

impl Prepared {
    /// Opens all ports and begins. `alone`: the process has no services.
    pub(crate) fn start(self, options: &ServeOptions, alone: bool) -> Result<RunningPackets, Error> {
        let Prepared { apps, each, loads } = self;
        let segments = &apps[0].desc.segments;
        let (joint, side) = (each[0].joint.clone(), each[0].side());
        let cpus = cpus_of(segments, &options.cpus, &each[0].nic_cpus);
        let count = cpus.len();
        let here = if joint.is_some() { side.cores(&apps[0].desc) } else { vec![true; count] };
        let mut inserting = each[0].inserts.as_ref().map(|i| Inserting::new(&apps[0].desc, i)).transpose()?;
        let mut plan = port_bindings::open(&apps, &each, count)?;
        if alone && plan.apps.iter().all(|a| a.capture.is_some()) {
            log_queue::wait_for_room();
        }
        let stats = Arc::new((0..count).map(|_| CoreStats::for_apps(&apps)).collect::<Vec<_>>());
        let clusters = plan.fans.iter().map(Fan::clusters).max().unwrap_or(1);
        let meshes = match &joint {
            Some(j) => Mesh::of(Progress::of(j.board(), j.bells()), clusters),
            None => Mesh::all(count, clusters).map_err(|e| Error::Io("cannot make an event descriptor".into(), e))?,
        };
        let shared = meshes[0].shared.clone();
        let mut wakers: Vec<Waker> = (0..count).map(|i| Waker(Some(shared.bell(i).clone()))).collect();
        let boxes: Vec<Arc<Mailbox>> = (0..count).map(|_| Arc::default()).collect();
        let agent = match &joint {
            Some(j) if side == ProcessSide::Cpu => {
                let there = Joint::nic_cores(&apps[0].desc).into_iter().map(|k| (k, boxes[k].clone())).collect();
                let captures = plan.apps.iter().any(|a| a.capture.is_some());
                let stop = options.stop.clone();
                let agent = Agent::start(Work {
                    joint: j.clone(),
                    app: apps[0].clone(),
                    stats: stats.clone(),
                    boxes: there,
                    stop,
                    captures,
                })?;
                // Signals for the NIC's cores go by the agent.
                here.iter().zip(&mut wakers).filter(|(here, _)| !**here).for_each(|(_, w)| *w = agent.waker());
                Some(agent)
            }
            _ => None,
        };
        let post = Post { boxes: boxes.clone(), wakers: wakers.clone() };
        let group =
            Arc::new(Group { engine: "frames".into(), apps: apps.clone(), stats: stats.clone(), post, log: None });
        let mut cores =
            Cores { group, wakers, threads: Vec::new(), stop: options.stop.clone(), started: Instant::now() };
        let segmented = !segments.is_empty();
        let segment_of = SegmentDesc::of_cores(segments);
        let first = here.iter().position(|h| *h).unwrap_or(0);
        for (index, mut core) in cores_of(&apps, &mut plan, meshes, &stats, &each[0]).into_iter().enumerate() {
            if !here[index] {
                continue;
            }
            // Of an app with segments, among those of its segment: no other one has its tables.
            let beside = (0..index).filter(|c| here[*c] && segment_of.get(*c) == segment_of.get(index));
            core.set_rank(beside.count() as u32, index == first);
            if options.log_faults {
                core.log_faults();
            }
            core.crowded = segmented && cpus.iter().filter(|c| **c == cpus[index]).count() > 1;
            let inserting = inserting.take();
            if inserting.is_some() {
                // It counts batches.
                core.slice = 0;
            }
            let run = CoreThread {
                cpu: cpus[index],
                stop: options.stop.clone(),
                mailbox: boxes[index].clone(),
                loads: loads.clone(),
                inserting,
                endless: plan.apps.iter().any(|a| a.endless),
                cores: count,
                segmented,
                first,
                polled: false,
                limit: options.drain_limit,
            };
            let thread = std::thread::Builder::new().name(format!("core-{index}")).stack_size(wireloom_ir::desc::STACK);
            let thread = thread.spawn(move || run.run(core));
            cores.threads.push(thread.map_err(|e| Error::Io("cannot start a thread".into(), e))?);
        }
        let count = here.iter().filter(|h| **h).count();
        let interfaces = plan.interfaces;
        Ok(RunningPackets { cores, each, plans: plan.apps, count, progress: shared, agent, interfaces })
    }
}

impl RunningPackets {
    /// Whether `on start` has run on all cores, those of a NIC included.
    pub(crate) fn is_started(&self) -> bool {
        self.progress.board.reached(stage::READY) == self.progress.board.cores()
    }

    /// (app, port, binding) of all ports.
    pub(crate) fn ports(&self) -> Vec<(String, String, String)> {
        let of = |(app, plan): (&Arc<App>, &AppPlan)| {
            plan.shown.iter().map(|(port, what)| (app.desc.app.clone(), port.clone(), what.clone())).collect::<Vec<_>>()
        };
        let there = self.agent.iter().flat_map(|a| a.ports.clone());
        self.cores.group.apps.iter().zip(&self.plans).flat_map(of).chain(there).collect()
    }

    pub(crate) fn ended(&self) -> bool {
        self.cores.ended() && self.agent.as_ref().is_none_or(Agent::ended)
    }

    /// Of the process of the NIC: its counters, and where it shows them.
    pub(crate) fn shown(&self) -> Shown {
        Shown { group: self.cores.group.clone(), joint: self.each[0].joint.clone() }
    }

    /// Leaves threads alone that do not end: the process ends with them. Files stay as they are.
    pub(crate) fn abandon(mut self) {
        self.cores.stop.end();
        self.cores.threads.clear();
        // The kernel ends the NIC's process with this one.
        std::mem::forget(self.agent.take());
    }

    /// Waits for the end, and dumps tables. Counters are for the caller to write: connections may
    /// count on.
    pub(crate) fn finish(mut self) -> Result<(Summary, Vec<Counted>), Error> {
        let mut ended = self.cores.join();
        let nic = self.agent.as_mut().map_or(Ok(()), Agent::finish);
        ended.iter_mut().for_each(PacketCore::lose_crossings);
        let (apps, stats) = (&self.cores.group.apps, &self.cores.group.stats);
        let clean = ended.len() == self.count && !self.cores.stop.ended();
        let mut errors: Vec<String> = nic.err().into_iter().collect();
        let mut by_app: Vec<Vec<PacketCore>> = apps.iter().map(|_| Vec::new()).collect();
        for core in ended {
            for (of_app, mut c) in by_app.iter_mut().zip(core.apart()) {
                errors.append(&mut c.errors);
                of_app.push(c);
            }
        }
        // Files stay as they are if there was no run.
        if let Some(e) = by_app.iter_mut().flatten().find_map(|c| c.unready.take()) {
            return Err(Error::Program(e));
        }
        let early = by_app[0].len() < self.count;
        let mut counted = Vec::new();
        for (number, (app, ended)) in apps.iter().zip(&mut by_app).enumerate() {
            tell_of_deaf(app, number, &self.plans[number], stats);
            let (side, group) = (self.each[number].side(), &self.cores.group);
            let mine = |d: &&(String, _)| side.has_table(&app.desc, &d.0);
            let dumps: Vec<_> = self.each[number].dump.iter().filter(mine).cloned().collect();
            let beside = if side == ProcessSide::Cpu {
                group.counted_on(number, &Joint::nic_cores(&app.desc))
            } else {
                Vec::new()
            };
            counted.extend(table_files::dump(app, &dumps, ended, &beside)?);
        }
        if !errors.is_empty() || early {
            let text = if errors.is_empty() { "a core ended early".into() } else { errors.join("; ") };
            return Err(Error::Program(text));
        }
        let link = match self.each[0].joint.as_deref() {
            Some(j) if j.side == ProcessSide::Cpu => super::nic::summary(j),
            _ => Vec::new(),
        };
        Ok((Summary { link, ..summary(apps, stats, self.cores.started.elapsed(), clean) }, counted))
    }
}

/// A number, which then is so much greater.
fn take(n: &mut u32, more: u32) -> u32 {
    *n += more;
    *n - more
}

/// The processor of each core's thread; of an app with segments each has a thread.
fn cpus_of(segments: &[SegmentDesc], cpus: &[usize], nic: &[usize]) -> Vec<Option<usize>> {
    if segments.is_empty() {
        return (0..cpus.len().max(1)).map(|n| cpus.get(n).copied()).collect();
    }
    let mut before = 0;
    let places = segments.iter().flat_map(|s| {
        // A NIC's cores are counted from its first one on.
        let first = if s.nic { take(&mut before, s.cores) } else { s.cpu };
        (0..s.cores).map(move |k| (s.nic, first.saturating_add(k) as usize))
    });
    let of = |(on_nic, n): (bool, usize)| {
        let cpus = if on_nic { nic } else { cpus };
        cpus.get(n % cpus.len().max(1)).copied()
    };
    places.map(of).collect()
}

/// The core that receives all frames of a process with one app, if there is one, and other cores.
fn sole_receiver(plan: &Plan) -> Option<usize> {
    let [app] = &plan.apps[..] else { return None };
    let receives = |c: &CorePlan| c.inputs.iter().any(|i| !i.steered && !i.looped);
    let mut receivers = app.cores.iter().enumerate().filter(|(_, c)| receives(c)).map(|(index, _)| index);
    let only = receivers.next().filter(|_| (2..=rps::CORES_MAX).contains(&app.cores.len()))?;
    receivers.next().is_none().then_some(only)
}

/// Each core with all apps: the first one, and the others within it.
fn cores_of(
    apps: &[Arc<App>],
    plan: &mut Plan,
    meshes: Vec<Mesh>,
    stats: &Arc<Vec<CoreStats>>,
    each: &Options,
) -> Vec<PacketCore> {
    let (pace, policy) = (each.pace, each.rps);
    let receiver = sole_receiver(plan).filter(|_| policy != Policy::On);
    let timeline = plan.apps.iter().filter_map(|a| a.capture).min();
    let pools = std::mem::take(&mut plan.pools);
    let times = (timeline.is_some() && pools.len() > 1).then(|| Arc::new(CoreTimes::new(pools.len(), apps.len())));
    let mut all = Vec::new();
    for (index, (pool, mesh)) in pools.into_iter().zip(meshes).enumerate() {
        let (region, shared) = (pool.region().clone(), mesh.shared.clone());
        let mut core = |number: usize, pool, mesh, others| {
            let (app, a) = (&apps[number], &mut plan.apps[number]);
            let segment = SegmentDesc::of_cores(&app.desc.segments).get(index).map(|s| *s as u32);
            let CorePlan { ends, inputs, routes, crossings } = std::mem::take(&mut a.cores[index]);
            // An app with services, too, has one clock: theirs.
            let capture = a.capture.filter(|_| app.core_kind == CoreKind::Both);
            let (writes, fans, stats) = (a.writes, plan.fans.clone(), stats.clone());
            let packets = app.program.packets()?;
            let rps = (receiver == Some(index)).then(|| Rps::new(index, stats.len(), policy));
            let peers = SegmentDesc::cores_beside(&app.desc.segments, index).unwrap_or(0..stats.len());
            let here = |all: &Arc<CoreTimes>| TimesHere { all: all.clone(), core: index, app: number, peers };
            let times = times.as_ref().filter(|_| capture.is_some()).map(here);
            Some(PacketCore::new(CoreParts {
                app: app.clone(),
                number,
                others,
                fans,
                packets,
                index,
                pool,
                mesh,
                ends,
                inputs,
                routes,
                crossings,
                segment,
                stats,
                capture,
                timeline,
                pace,
                writes,
                rps,
                times,
            }))
        };
        let others =
            (1..apps.len()).filter_map(|n| core(n, Pool::guest(&region), Mesh::guest(&shared), Vec::new())).collect();
        all.extend(core(0, pool, mesh, others));
    }
    all
}

/// Logs the frames that went nowhere because their port is a capture that is read.
fn tell_of_deaf(app: &App, number: usize, plan: &AppPlan, stats: &[CoreStats]) {
    for (port, file) in &plan.deaf {
        let dropped: u64 = stats.iter().map(|c| c.apps[number].ports[*port].frames.dropped.get()).sum();
        if dropped > 0 {
            let name = &app.desc.ports[*port].name;
            log::warn!("port `{name}` is read from {file}, so {dropped} frames sent to it went nowhere; `--out {name}=pcap:FILE` writes them. A capture that is to be written, not read, must not be there before");
        }
    }
}

fn summary(apps: &[Arc<App>], stats: &[CoreStats], elapsed: Duration, clean: bool) -> Summary {
    let mut s = Summary { elapsed, clean, ..Summary::default() };
    for (app, of) in stats.iter().flat_map(|c| c.apps.iter().zip(apps)) {
        for (p, desc) in app.ports.iter().zip(&of.desc.ports) {
            // Frames in a queue, or that come back, were counted when they arrived.
            let outside = is_outside(&desc.kind);
            s.frames += if outside { p.frames.received.get() } else { 0 };
            s.frames_sent += if outside { p.frames.sent.get() } else { 0 };
            s.frames_dropped += p.frames.dropped.get();
            s.frames_discarded += p.frames.discarded.get();
        }
        let faults = app.faults.list();
        s.faults += faults.iter().map(|f| f.2).sum::<u64>();
        fault_kinds::add(&of.desc, faults, &mut s.kinds);
    }
    s
}

/// A core's thread.
struct CoreThread {
    cpu: Option<usize>,
    stop: Stop,
    mailbox: Arc<Mailbox>,
    /// Of each app.
    loads: Arc<Vec<Loads>>,
    inserting: Option<Inserting>,
    endless: bool,
    cores: usize,
    /// Each core has a part of the app, and ends when those that send to it have ended.
    segmented: bool,
    /// The first core of this process.
    first: usize,
    /// It has said that its ports have ended.
    polled: bool,
    limit: Duration,
}

/// A core that panics must not leave the others waiting for it.
struct EndOnPanic {
    stop: Stop,
    progress: Arc<Progress>,
    core: usize,
}

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop.end();
            self.progress.board.set_works(self.core, false);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits until all cores are set up.
    Set,
    Receiving,
    /// All inputs have ended here; work of other cores may come.
    Handling,
    /// All is handled here; frames for this core's ports may come.
    Sending,
    Ended,
}

impl CoreThread {
    fn run(mut self, mut core: PacketCore) -> PacketCore {
        let (progress, index) = (core.mesh.shared.clone(), core.index());
        let _guard = EndOnPanic { stop: self.stop.clone(), progress, core: index };
        let _closes = Closes(self.mailbox.clone());
        if let Some(cpu) = self.cpu {
            pin(cpu);
        }
        core.each(PacketCore::start);
        for (app, loads) in self.loads.iter().enumerate() {
            core.with(app, |c| {
                let first = c.index() == self.first;
                let told = loads.apply(first, &mut |handler, args| c.signal(handler, args));
                let told = told.map_err(|(text, fault)| format!("{text}: {}", c.fault_text(fault)));
                c.unready = c.unready.take().or(told.err());
            });
        }
        let mut ready = true;
        core.each(|c| ready &= c.unready.is_none());
        if !ready {
            self.stop.end();
        }
        core.mesh.shared.board.reach(core.index(), stage::READY);
        core.mesh.shared.wake_all();
        let (mut phase, mut drain_end) = (Phase::Set, None);
        core.works(true);
        while phase != Phase::Ended && !self.stop.ended() {
            let busy = if phase == Phase::Set { false } else { core.step() };
            if let Some(inserting) = self.inserting.as_mut().filter(|_| busy) {
                inserting.step(&mut core);
            }
            self.mailbox.serve(|app, handler, args| core.with(app, |c| c.signal(handler, args)));
            if !self.stop.running() {
                core.drain();
                if Instant::now() >= *drain_end.get_or_insert_with(|| Instant::now() + self.limit) {
                    self.stop.end();
                }
            }
            let next = self.next(&mut core, phase);
            if next == phase && !busy {
                core.rest();
            }
            phase = next;
        }
        core.each(PacketCore::finish);
        core.works(false);
        core
    }

    /// Whether no other core has work for this one any more.
    fn all_polled(&self, core: &PacketCore) -> bool {
        self.segmented || core.mesh.shared.board.reached(stage::POLLED) == self.cores
    }

    /// Of an app with segments: says once that nothing more comes through this core's ports.
    fn tell_polled(&mut self, core: &PacketCore, goes_on: bool) {
        if self.segmented && !self.polled && !goes_on && core.ports_ended() {
            self.polled = true;
            core.mesh.shared.board.reach(core.index(), stage::POLLED);
            core.mesh.shared.wake_all();
        }
    }

    fn next(&mut self, core: &mut PacketCore, phase: Phase) -> Phase {
        let goes_on = self.endless && self.stop.running();
        let shared = core.mesh.shared.clone();
        if phase == Phase::Receiving {
            self.tell_polled(core, goes_on);
            let timers = core.has_only_timers() && shared.board.reached(stage::POLLED) < self.cores;
            if goes_on || !core.inputs_ended() || self.segmented && timers {
                return phase;
            }
        }
        match phase {
            Phase::Set if shared.board.reached(stage::READY) == self.cores => Phase::Receiving,
            Phase::Receiving => {
                if !self.segmented {
                    shared.board.reach(core.index(), stage::POLLED);
                    shared.wake_all();
                }
                Phase::Handling
            }
            Phase::Handling if self.all_polled(core) && core.work_done() && core.all_run_out() => {
                core.each(PacketCore::end);
                shared.board.reach(core.index(), stage::HANDLED);
                shared.wake_all();
                Phase::Sending
            }
            Phase::Sending if shared.board.reached(stage::HANDLED) == self.cores && core.sends_done() => Phase::Ended,
            same => same,
        }
    }
}
