//! The loop of one core: receive, steer, handle, route, transmit.
//!
//! In: frames of this core's ports and of other cores' rings. Out: the same buffers. Program code
//! runs in `handle` and `run_handler` only. The functions that it calls (`transmit`, the host
//! functions) stage frames and count, and never run program code.

mod cross;
mod entries;
mod fan_out;
mod host;
mod queues;
mod receive;
mod room;
mod send;
mod test_driver;
mod time;

pub use fan_out::{fan, Fan, Fans, Member};
pub use host::{queue, serve, transmit};

use super::batch::{Batch, Buf, BATCH};
use super::core_mesh::Mesh;
use super::core_times::TimesHere;
use super::crossing::Crossings;
use super::offload::{Large, Undone};
use super::pool::Pool;
use super::port::{FramePort, APART_NS};
use super::port_targets::frame_handler;
use super::rps::Rps;
use super::scatter::Scatter;
use crate::abi::*;
use crate::clock;
use crate::core::app::{App, AppCore};
use crate::core::signal::value;
use crate::engine::common::nap;
use crate::program::Packets;
use crate::signal::HandlerFault;
use crate::stats::{AppStats, CoreStats, FrameStats};
use std::sync::Arc;
use std::time::Duration;
use wireloom_ir::desc::ParamValue;

/// Faults of one batch that are shown to the app's fault handlers; further ones are only counted.
const FAULTS_MAX: usize = 1024;
/// A program that sends to itself without end goes on after other work.
const LOOP_ROUNDS: u32 = 1000;
const REST: Duration = Duration::from_millis(500);
/// A core that others give frames to looks for more for so many ns before it sleeps: to wake it
/// takes longer.
const SPIN: u64 = 50_000;
/// Batches that nobody waits for are handled in a row for so many ns. A round of the loop takes
/// some tens of ns. Other work of the core comes no later than after one slice.
const SLICE: u64 = 20_000;
/// A core that others hold up looks again after this long.
const NAP: Duration = Duration::from_micros(20);

/// An open instance of a port.
pub struct PortEndpoint {
    pub port: Box<dyn FramePort>,
    /// Index of its port.
    pub of: usize,
    stage: Batch,
    /// It is a queue of the program.
    queue: bool,
    /// Frames that lie where they are ([`FramePort::receive_ready`]), if it has such.
    ready: Option<Batch>,
}

impl PortEndpoint {
    pub fn new(mut port: Box<dyn FramePort>, of: usize) -> PortEndpoint {
        let (queue, ready) = (port.queue().is_some(), port.ready().then(Batch::lent));
        PortEndpoint { port, of, stage: Batch::default(), queue, ready }
    }
}

/// An instance that is read.
pub struct PortInput {
    /// Into the core's ends.
    pub end: usize,
    pub port: u16,
    pub instance: u16,
    pub handler: u32,
    /// All its frames are for this core.
    pub steered: bool,
    /// It gives what this core has sent to it: it never ends, and nothing waits for it.
    pub looped: bool,
    /// Those who read it, if not the core's only app: `port`, `instance` and `handler` are theirs.
    pub fan: Option<usize>,
    /// A program in the XDP hook has sent its frames somewhere.
    pub hooked: bool,
    ended: bool,
}

impl PortInput {
    pub fn new(end: usize, port: u16, instance: u16, handler: u32, steered: bool) -> PortInput {
        PortInput { end, port, instance, handler, steered, looped: false, fan: None, hooked: false, ended: false }
    }

    /// Frames that a program in the XDP hook has sent on.
    pub fn hooked(end: usize, port: u16, instance: u16, handler: Option<u32>, steered: bool) -> PortInput {
        PortInput { hooked: true, ..PortInput::new(end, port, instance, handler.unwrap_or(NO_HANDLER), steered) }
    }

    /// For several apps.
    pub fn fanned(end: usize, fan: usize) -> PortInput {
        PortInput { fan: Some(fan), ..PortInput::new(end, 0, 0, NO_HANDLER, false) }
    }
}

/// Where frames for an instance of a port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// An end of this core.
    Here(usize),
    /// The core that has it.
    Core(usize),
    /// A queue to another segment, by the number that the core's [`Crossings`] know it by.
    Segment(usize),
    Nowhere,
}

/// The parts of a core.
pub struct CoreParts {
    pub app: Arc<App>,
    /// Which of the process's apps it is.
    pub number: usize,
    /// The other apps of this core, and who reads what.
    pub others: Vec<PacketCore>,
    pub fans: Fans,
    pub packets: Packets,
    pub index: usize,
    pub pool: Pool,
    pub mesh: Mesh,
    pub ends: Vec<PortEndpoint>,
    pub inputs: Vec<PortInput>,
    /// By port and instance.
    pub routes: Vec<Vec<Route>>,
    pub crossings: Crossings,
    /// The part of the app that runs here; None: all of it.
    pub segment: Option<u32>,
    pub stats: Arc<Vec<CoreStats>>,
    /// Time is the capture's, and begins here.
    pub capture: Option<u64>,
    /// Some app's time is a capture's, the first of which begins here.
    pub timeline: Option<u64>,
    /// Frames of a capture come no earlier than they did when it was made.
    pub pace: bool,
    /// Some port writes a capture.
    pub writes: bool,
    /// Of the core that receives for all.
    pub rps: Option<Rps>,
    /// Of several cores with the time of captures.
    pub times: Option<TimesHere>,
}

pub struct PacketCore {
    app: AppCore,
    log_faults: bool,
    number: usize,
    others: Vec<PacketCore>,
    fans: Fans,
    /// Of the batch at hand: a bit for each frame that other apps need, too, and whether they will
    /// give all of them back.
    shared: u128,
    borrowed: bool,
    /// Frames shown to an app, and those of a batch that are for this core.
    view: Batch,
    part: Batch,
    /// The cores of the frames of the batch at hand.
    scatter: Scatter,
    packets: Packets,
    index: usize,
    pool: Pool,
    pub mesh: Mesh,
    ends: Vec<PortEndpoint>,
    inputs: Vec<PortInput>,
    /// Those that lead back into the program.
    loops: Vec<usize>,
    routes: Vec<Vec<Route>>,
    crossings: Crossings,
    /// Another segment has the same processor.
    pub crowded: bool,
    /// Batches that nobody waits for are handled in a row for so many ns.
    pub slice: u64,
    /// Frame handler by port.
    handlers: Vec<u32>,
    /// By handler: it sends nothing.
    quiet: Vec<bool>,
    /// Nothing becomes of what is sent, through whichever of this core's ends; and there are no
    /// other cores.
    nowhere: bool,
    stats: Arc<Vec<CoreStats>>,
    batch: Batch,
    /// The batch that the program is at, and how many of its first frames have been staged or
    /// dropped.
    current: *mut Batch,
    staged: usize,
    /// The last of its frames that was copied.
    copied: usize,
    /// Of each of its frames, the bytes that a capture had cut off.
    missing: [u32; BATCH],
    /// Segments to be cut before they leave, and the one that is being cut.
    uncut: Vec<(Undone, wl_frame, Buf)>,
    pieces: Large,
    /// Ends that have staged frames.
    touched: Vec<usize>,
    /// By port: whether it is a queue of the program; empty: none is.
    queues: Vec<bool>,
    popped: queues::Popped,
    entries: entries::Entries,
    now: u64,
    /// The lead of the clock of the day, if that was set.
    ahead: u64,
    capture: Option<u64>,
    timeline: Option<u64>,
    pace: bool,
    /// Frames of captures further apart are not handled in one batch.
    apart: u64,
    writes: bool,
    rps: Option<Rps>,
    times: Option<TimesHere>,
    /// When other cores last gave it frames; 0: not lately.
    given: u64,
    began: u64,
    /// Handler, period, when it is due.
    every: Vec<(u32, u64, u64)>,
    due: u64,
    housekeeping: u64,
    faults: Vec<wl_fault>,
    in_fault_handler: bool,
    last_fault: HandlerFault,
    result: Option<Vec<u8>>,
    task_frame: Vec<u64>,
    poll: Vec<libc::pollfd>,
    blocked: bool,
    /// It waits for buffers no more: nobody has given back one.
    alone: bool,
    draining: bool,
    idle: u32,
    /// A test looks at the faults.
    watched: Option<Vec<(u32, u32)>>,
    pub errors: Vec<String>,
    /// Why there is no run.
    pub unready: Option<String>,
}

// SAFETY: the raw pointers name the core's own boxes and buffers; it is moved only before it starts
// and after it has ended.
unsafe impl Send for PacketCore {}

const NO_HANDLER: u32 = u32::MAX;

impl PacketCore {
    pub fn new(mut p: CoreParts) -> PacketCore {
        let (cores, now) = (p.stats.len(), clock::now());
        let seed = crate::core::mix(now ^ (p.index as u64) << 32 ^ u64::from(std::process::id()));
        let mut app = AppCore::new(p.app, host::table(), p.index as u32, cores as u32, seed);
        host::keep_segment(&mut app, p.segment);
        let queues: Vec<bool> = app.app.desc.ports.iter().map(|p| p.kind.is_queue()).collect();
        let handlers = (0..app.ports.len()).map(|i| frame_handler(&app.app.desc, i).unwrap_or(NO_HANDLER)).collect();
        let quiet = app.app.desc.handlers.iter().map(|h| !h.sends).collect();
        let nowhere = cores == 1 && p.others.is_empty() && p.ends.iter().all(|e| e.port.swallows());
        if nowhere {
            p.ends.iter_mut().filter(|e| e.port.lends()).for_each(|e| e.ready = Some(Batch::lent()));
        }
        let own = app.app.desc.apart.filter(|_| p.capture.is_some()).unwrap_or(APART_NS);
        let apart = p.others.iter().map(|c| c.apart).fold(own.min(APART_NS), u64::min);
        let every = app.every.iter().map(|(h, period)| (*h, *period, u64::MAX)).collect();
        PacketCore {
            number: p.number,
            others: p.others,
            log_faults: false,
            fans: p.fans,
            shared: 0,
            borrowed: false,
            view: Batch::default(),
            part: Batch::default(),
            scatter: Scatter::new(p.stats.len()),
            packets: p.packets,
            index: p.index,
            pool: p.pool,
            mesh: p.mesh,
            uncut: Vec::new(),
            pieces: Large::default(),
            touched: Vec::with_capacity(p.ends.len()),
            queues: if queues.contains(&true) { queues } else { Vec::new() },
            popped: queues::Popped::default(),
            entries: entries::Entries::new(app.app.desc.entry as usize),
            ends: p.ends,
            loops: (0..p.inputs.len()).filter(|i| p.inputs[*i].looped).collect(),
            inputs: p.inputs,
            routes: p.routes,
            crossings: p.crossings,
            crowded: false,
            slice: SLICE,
            handlers,
            quiet,
            nowhere,
            stats: p.stats,
            batch: Batch::default(),
            current: std::ptr::null_mut(),
            staged: 0,
            copied: 0,
            missing: [0; BATCH],
            now: p.capture.unwrap_or(now),
            ahead: clock::look(),
            capture: p.capture,
            timeline: p.timeline,
            pace: p.pace,
            apart,
            writes: p.writes,
            rps: p.rps,
            times: p.times,
            given: 0,
            began: now,
            every,
            due: u64::MAX,
            housekeeping: 0,
            faults: Vec::new(),
            in_fault_handler: false,
            last_fault: (WL_F_NONE, crate::stats::NO_PLACE),
            result: None,
            task_frame: vec![0; app.frame_words],
            poll: Vec::new(),
            blocked: false,
            alone: false,
            draining: false,
            idle: 0,
            watched: None,
            errors: Vec::new(),
            unready: None,
            app,
        }
    }

    /// Runs `init_core` and the start handlers, arms periodic ones.
    pub fn start(&mut self) {
        self.began = clock::now();
        self.read_clock();
        if let Some(init) = self.app.app.program.table().init_core {
            let wl = self.enter();
            // SAFETY: the program's own function on its own core.
            unsafe { init((*wl).self_, wl) };
        }
        for h in self.app.start.clone() {
            self.run_handler(h, None, &[]);
        }
        for e in &mut self.every {
            e.2 = self.now.saturating_add(e.1);
        }
        self.due = self.every.iter().map(|e| e.2).min().unwrap_or(u64::MAX);
        self.unready = self.app.app.start_fault(self.counts_of());
        self.flush();
        self.tell_time(if self.has_only_timers() { u64::MAX } else { self.now });
    }

    /// All packets are handled: runs the end handlers.
    pub fn end(&mut self) {
        self.read_clock();
        for h in self.app.end.clone() {
            self.run_handler(h, None, &[]);
        }
        self.run_fault_handlers();
        self.flush();
        // A packet that a timer sends from now on would find its receiver gone.
        self.every.clear();
        self.due = u64::MAX;
        self.crossings.closing = true;
        self.times.iter().for_each(|t| t.reach(u64::MAX));
    }

    fn enter(&mut self) -> *mut wl_core {
        let this: *mut PacketCore = self;
        self.app.wl.rt = this.cast();
        self.app.reset_out();
        &mut *self.app.wl
    }

    /// One round; whether there was anything to do.
    pub fn step(&mut self) -> bool {
        self.hope_again();
        let mut busy = self.take_sends();
        busy |= self.serve_popped();
        busy |= self.take_work();
        self.blocked = !self.settle();
        if !self.blocked {
            busy |= self.take_crossings();
        }
        if !self.draining {
            busy |= self.receive();
        }
        self.tell_reads();
        busy = self.turn(busy);
        for app in 1..=self.others.len() {
            busy = self.with(app, |c| {
                if c.capture.is_none() {
                    c.read_clock();
                }
                let busy = busy | c.serve_popped();
                c.turn(busy)
            });
        }
        self.mesh.send_late();
        self.settle();
        self.crossings.close(self.now, &mut self.mesh);
        // Of a capture nobody waits for the next frame: the others sleep until it is worth their
        // while.
        let hastes = self.blocked || self.pace || self.crossings.sends();
        let lazy = busy && !hastes && self.timeline.is_some();
        self.mesh.ring_bells(lazy);
        if busy && self.waits_for_room() {
            self.mesh.shared.board.turned(self.index);
        }
        busy
    }

    /// Cores may have buffers for this one again.
    fn hope_again(&mut self) {
        self.alone = false;
        self.others.iter_mut().for_each(|c| c.alone = false);
    }

    /// The work of an app beside handling frames. True: it, or an app before it, had something to
    /// do.
    fn turn(&mut self, mut busy: bool) -> bool {
        busy |= self.run_loops();
        if self.capture.is_none() {
            if !busy || !self.others.is_empty() {
                self.read_clock();
            }
            // A segment whose frames are late waits with its timers, too.
            if self.settle() {
                self.run_timers();
            }
            busy |= self.run_loops();
        }
        if self.now >= self.housekeeping || self.capture.is_some() && !busy {
            self.housekeep();
        }
        if !busy {
            self.ends.iter_mut().for_each(|e| e.port.tend(&mut self.pool));
        }
        busy
    }

    /// Handles what the program has sent to itself. Whether there was anything.
    pub(super) fn run_loops(&mut self) -> bool {
        let mut any = false;
        for _ in 0..LOOP_ROUNDS {
            let mut busy = false;
            for k in 0..self.loops.len() {
                busy |= self.receive_from(self.loops[k], u64::MAX);
            }
            busy |= self.take_own_crossings();
            if !busy {
                break;
            }
            any = true;
        }
        any
    }

    fn counts_of(&self) -> &AppStats {
        &self.stats[self.index].apps[self.number]
    }

    fn frame_stats(&self, port: usize) -> &FrameStats {
        &self.counts_of().ports[port].frames
    }

    pub fn index(&self) -> usize {
        self.index
    }

    /// Its number among the cores of its process, or of its segment, as the program knows it. The
    /// first one shows tables that all of them share. `first`: of the process.
    pub fn set_rank(&mut self, rank: u32, first: bool) {
        (self.app.wl.index, self.app.tells_outside) = (rank, first);
    }

    /// The app of this core, and what is counted of it.
    pub fn apps_and_stats(&self) -> (Vec<Arc<App>>, Arc<Vec<CoreStats>>) {
        (vec![self.app.app.clone()], self.stats.clone())
    }

    /// A fault, for messages.
    pub fn fault_text(&self, (kind, place): HandlerFault) -> String {
        format!("{} {}", self.app.app.fault_name(kind), self.app.app.place_name(place))
    }

    fn port_name(&self, port: usize, instance: usize) -> String {
        let name = &self.app.app.desc.ports[port].name;
        if self.routes[port].len() > 1 {
            format!("{name}[{instance}]")
        } else {
            name.clone()
        }
    }

    // ---- handling ----

    fn is_quiet(&self, handler: u32) -> bool {
        self.quiet.get(handler as usize) == Some(&true)
    }

    fn handle(&mut self, batch: &mut Batch, handler: u32) {
        self.run_batch(batch, handler, true);
    }

    /// Runs a handler over a batch. Routes what it has sent and gives back the rest, unless that is
    /// known to be needless: then the batch stays as it is.
    #[inline]
    fn run_batch(&mut self, batch: &mut Batch, handler: u32, routed: bool) {
        if batch.is_empty() {
            return;
        }
        if self.capture.is_some() {
            let newest = batch.frames.iter().map(|f| f.time).max().unwrap_or(0);
            self.now = self.now.max(newest);
            self.read_clock();
        }
        (self.current, self.staged, self.copied) = (&raw mut *batch, 0, 0);
        self.app.wl.at = std::ptr::null_mut();
        self.app.wl.left.known = 0;
        if self.writes {
            for (missing, f) in self.missing.iter_mut().zip(&batch.frames) {
                *missing = f.wire.saturating_sub(f.n);
            }
        }
        let (run, this, wl) = (self.packets.batch, self.packets.this, self.enter());
        let (frames, n) = (batch.frames.as_mut_ptr(), batch.len() as u32);
        self.show_entries(frames);
        // SAFETY: the frames are this core's own. Host functions reach the core through `rt`, set
        // by `enter`, and `self` is not used until the program returns.
        unsafe { run(this, wl, handler, frames, n) };
        self.current = std::ptr::null_mut();
        self.stats[self.index].batches.add(1);
        if routed {
            self.route(batch);
        }
        if !self.faults.is_empty() {
            self.run_fault_handlers();
        }
    }

    // ---- handlers without a frame ----

    /// Runs a handler that no frame starts; what it answers is in `result`. False: it faulted.
    fn run_handler(&mut self, handler: u32, fault: Option<wl_fault>, args: &[wl_param]) -> bool {
        self.task_frame.fill(0);
        let core = self.enter();
        let mut task = wl_task {
            core,
            frame: self.task_frame.as_mut_ptr().cast(),
            handler,
            fault: fault.map_or(0, |f| f.kind),
            place: fault.map_or(crate::stats::NO_PLACE, |f| f.place),
            req: wl_msg { base: args.as_ptr().cast(), ..wl_msg::default() },
            ..wl_task::default()
        };
        let table = self.app.app.program.table();
        let (run, cancel, this) = (table.run, table.cancel, table.self_);
        // SAFETY: as in `handle`; the task and its frame live here.
        let end = run.map_or(WL_T_FAULT, |run| unsafe { run(this, &mut task) });
        match end {
            WL_T_DONE => {
                self.serve_popped();
                return true;
            }
            WL_T_SUSPEND => {
                // There is nothing here that it could wait for.
                if let Some(cancel) = cancel {
                    // SAFETY: as above.
                    unsafe { cancel(this, &mut task) };
                }
                self.count_fault(WL_F_REFUSED, crate::stats::NO_PLACE);
            }
            _ => {
                let kind = if task.fault == 0 { WL_F_CONSTRAINT } else { u32::from(task.fault) };
                self.count_fault(kind, task.place);
            }
        }
        self.serve_popped();
        false
    }

    /// Runs a signal's handler; its result as the program wrote it.
    pub fn signal(&mut self, handler: u32, args: &[ParamValue]) -> Result<Vec<u8>, HandlerFault> {
        let values: Vec<wl_param> = args.iter().map(value).collect();
        self.result = None;
        let done = self.run_handler(handler, None, &values);
        let fault = self.last_fault;
        self.run_fault_handlers();
        self.flush();
        let result = self.result.take();
        if done {
            Ok(result.unwrap_or_default())
        } else {
            Err(fault)
        }
    }

    /// Every fault gets a line, at most one a second for each kind.
    pub fn log_faults(&mut self) {
        self.log_faults = true;
        self.others.iter_mut().for_each(Self::log_faults);
    }

    /// Keeps the program's lines, for tests.
    pub fn keep_lines(&mut self) {
        self.app.logged = Some(Default::default());
    }

    /// The next line that the program has logged.
    pub fn logged(&mut self) -> Option<Vec<u8>> {
        self.app.logged.as_mut()?.pop_front()
    }

    fn count_fault(&mut self, kind: u32, place: u32) {
        if let Some(w) = self.watched.as_mut().filter(|w| w.len() < FAULTS_MAX) {
            w.push((kind, place));
        }
        self.last_fault = (kind, place);
        if self.log_faults {
            let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
            self.app.app.log_packet_fault(kind, place, since.as_secs());
        }
        self.counts_of().faults.add(kind, place);
        if !self.in_fault_handler && !self.app.fault_handlers.is_empty() && self.faults.len() < FAULTS_MAX {
            self.faults.push(wl_fault { kind: kind as u16, place, ..wl_fault::default() });
        }
    }

    /// Faults of fault handlers are counted, but not shown to them again.
    fn run_fault_handlers(&mut self) {
        if self.faults.is_empty() {
            return;
        }
        self.in_fault_handler = true;
        let mut faults = std::mem::take(&mut self.faults);
        for f in faults.drain(..) {
            for i in 0..self.app.fault_handlers.len() {
                self.run_handler(self.app.fault_handlers[i], Some(f), &[]);
            }
        }
        self.faults = faults;
        self.in_fault_handler = false;
        self.flush();
    }

    // ---- resting and ending ----

    /// Waits for something to do.
    pub fn rest(&mut self) {
        self.works(false);
        self.pause();
        self.works(true);
    }

    /// Whether it is at work, for cores that wait for buffers.
    pub fn works(&self, works: bool) {
        if self.waits_for_room() {
            self.mesh.shared.board.set_works(self.index, works);
        }
    }

    /// Whether cores wait for each other's buffers.
    fn waits_for_room(&self) -> bool {
        self.stats.len() > 1 && self.timeline.is_some()
    }

    fn pause(&mut self) {
        if self.blocked {
            // Others are at it; they need longer than a turn.
            self.idle += 1;
            return if !self.idle.is_multiple_of(4) { std::thread::yield_now() } else { nap(NAP) };
        }
        if self.spins() {
            return;
        }
        let next = if self.timeline.is_some() { self.paced_wait() } else { REST };
        let live = self.others.iter().chain([&*self]).filter(|c| c.capture.is_none());
        let next = live.map(|c| Duration::from_nanos(c.due.saturating_sub(c.now))).fold(next, Duration::min);
        self.poll.clear();
        self.poll.push(libc::pollfd { fd: self.mesh.bell(), events: libc::POLLIN, revents: 0 });
        for i in self.inputs.iter().filter(|i| !i.ended) {
            if let Some(fd) = self.ends[i.end].port.fd() {
                self.poll.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            }
        }
        let wait = next.min(REST);
        let t = libc::timespec { tv_sec: wait.as_secs() as libc::time_t, tv_nsec: wait.subsec_nanos() as libc::c_long };
        if self.mesh.may_sleep() && self.crossings.nothing_there() {
            // SAFETY: the list and the time live here.
            unsafe { libc::ppoll(self.poll.as_mut_ptr(), self.poll.len() as libc::nfds_t, &t, std::ptr::null()) };
            let mut count = 0u64;
            // SAFETY: eight bytes that live here; the descriptor does not block.
            unsafe { libc::read(self.mesh.bell(), (&mut count as *mut u64).cast(), 8) };
        }
        self.mesh.awake();
    }

    /// Waits a moment if more is likely to come soon.
    fn spins(&mut self) -> bool {
        if self.given == 0 {
            return false;
        }
        if clock::now() - self.given >= SPIN {
            self.given = 0;
            return false;
        }
        if self.crowded {
            std::thread::yield_now();
        } else {
            (0..32).for_each(|_| std::hint::spin_loop());
        }
        true
    }

    fn paced_wait(&mut self) -> Duration {
        if !self.pace {
            return REST;
        }
        let now = self.paced();
        let mut next = self.next_due();
        for i in self.inputs.iter().filter(|i| !i.ended) {
            let port = &mut self.ends[i.end].port;
            let none = if port.fd().is_some() { u64::MAX } else { 0 };
            next = next.min(port.next_time().unwrap_or(none));
        }
        Duration::from_nanos(next.saturating_sub(now))
    }

    /// Reads no more.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    pub fn inputs_ended(&self) -> bool {
        self.ports_ended() && (self.crossings.from.is_empty() || self.crossings.finished)
    }

    /// The same, whatever other segments may send.
    pub fn ports_ended(&self) -> bool {
        self.draining || self.inputs.iter().all(|i| i.ended || i.looped)
    }

    /// No frame comes to it.
    pub fn has_only_timers(&self) -> bool {
        self.inputs.is_empty() && self.crossings.from.is_empty()
    }

    /// Whether this core has handled all it was given.
    pub fn work_done(&mut self) -> bool {
        self.mesh.no_work() && self.mesh.send_late()
    }

    pub fn sends_done(&mut self) -> bool {
        self.mesh.no_sends()
    }

    /// Sees to what is still on its way out.
    pub fn finish(&mut self) {
        self.lose_waiting();
        self.flush();
        for e in 0..self.ends.len() {
            let of = self.ends[e].of;
            if let Err(err) = self.ends[e].port.finish(&mut self.pool) {
                self.errors.push(format!("port `{}`: {err}", self.app.app.desc.ports[of].name));
            }
        }
        for i in 0..self.inputs.len() {
            let lost = self.ends[self.inputs[i].end].port.lost();
            self.count_lost(i, lost);
        }
        self.publish();
    }
}
