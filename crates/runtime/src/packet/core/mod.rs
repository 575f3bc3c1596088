//! The loop of one core: receive, steer, handle, route, transmit.
//!
//! In come frames of this core's ports and of other cores' rings; out go the same buffers. Program code runs in `handle` and
//! `run_handler` only; what it calls (`transmit`, the host functions) stages frames and counts, and never runs program code.

mod host;
mod play;
mod queues;
mod time;

pub use host::{queue, serve, transmit};

use super::mesh::{core_of, flow_hash, Item, Mesh};
use super::plan::is_queue;
use super::pool::Pool;
use super::port::{bytes, Batch, FramePort, Label, BATCH};
use crate::abi::*;
use crate::core::app::{App, AppCore};
use crate::core::signal::value;
use crate::engine::common::{monotonic, nap};
use crate::program::Packets;
use crate::signal::Fault;
use crate::stats::{CoreStats, FrameStats};
use std::sync::Arc;
use std::time::Duration;
use wireloom_ir::desc::ParamValue;

/// Frames of a capture further apart than this are not handled in one batch, which has one time.
pub const APART_NS: u64 = 1_000_000;
/// Faults of one batch that are shown to the app's fault handlers; further ones are only counted.
const FAULTS_MAX: usize = 1024;
/// A program that sends to itself without end goes on after other work.
const LOOP_ROUNDS: u32 = 1000;
const REST: Duration = Duration::from_millis(500);
/// A core that others hold up looks again after this long.
const NAP: Duration = Duration::from_micros(20);

/// An open instance of a port.
pub struct End {
    pub port: Box<dyn FramePort>,
    /// Index of its port.
    pub of: usize,
    stage: Batch,
    /// It is a queue of the program.
    queue: bool,
    /// It labels its frames itself.
    labels: bool,
}

impl End {
    pub fn new(mut port: Box<dyn FramePort>, of: usize) -> End {
        let (queue, labels) = (port.queue().is_some(), port.labels());
        End { port, of, stage: Batch::default(), queue, labels }
    }
}

/// An instance that is read.
pub struct Input {
    /// Into the core's ends.
    pub end: usize,
    pub port: u16,
    pub instance: u16,
    pub handler: u32,
    /// All its frames are for this core.
    pub steered: bool,
    /// It gives what this core has sent to it: it never ends, and nothing waits for it.
    pub looped: bool,
    ended: bool,
}

impl Input {
    pub fn new(end: usize, port: u16, instance: u16, handler: u32, steered: bool) -> Input {
        Input { end, port, instance, handler, steered, looped: false, ended: false }
    }
}

/// Where frames for an instance of a port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// An end of this core.
    Here(usize),
    /// The core that has it.
    Core(usize),
    Nowhere,
}

/// What a core is made of.
pub struct Parts {
    pub app: Arc<App>,
    pub packets: Packets,
    pub index: usize,
    pub pool: Pool,
    pub mesh: Mesh,
    pub ends: Vec<End>,
    pub inputs: Vec<Input>,
    /// By port and instance.
    pub routes: Vec<Vec<Route>>,
    pub stats: Arc<Vec<CoreStats>>,
    /// Time is the capture's, and begins here.
    pub capture: Option<u64>,
    /// Frames of a capture come no earlier than they did when it was made.
    pub pace: bool,
    /// Some port writes a capture.
    pub writes: bool,
}

pub struct PacketCore {
    app: AppCore,
    packets: Packets,
    index: usize,
    pool: Pool,
    pub mesh: Mesh,
    ends: Vec<End>,
    inputs: Vec<Input>,
    /// Those that lead back into the program.
    loops: Vec<usize>,
    routes: Vec<Vec<Route>>,
    /// Frame handler by port.
    handlers: Vec<u32>,
    stats: Arc<Vec<CoreStats>>,
    batch: Batch,
    /// The batch that the program is at, and how many of its first frames have been staged or dropped.
    current: *mut Batch,
    staged: usize,
    /// The last of its frames that was copied.
    copied: usize,
    /// One bit per frame of it: a capture had cut the frame.
    cut: u64,
    /// Ends that have staged frames.
    touched: Vec<usize>,
    /// By port: whether it is a queue of the program; empty: none is.
    queues: Vec<bool>,
    popped: queues::Popped,
    now: u64,
    wall_offset: u64,
    capture: Option<u64>,
    pace: bool,
    writes: bool,
    began: u64,
    /// Handler, period, when it is due.
    every: Vec<(u32, u64, u64)>,
    due: u64,
    housekeeping: u64,
    faults: Vec<wl_fault>,
    in_fault_handler: bool,
    last_fault: Fault,
    result: Option<Vec<u8>>,
    task_frame: Vec<u64>,
    poll: Vec<libc::pollfd>,
    blocked: bool,
    draining: bool,
    idle: u32,
    /// A test looks at the faults.
    watched: Option<Vec<(u32, u32)>>,
    pub errors: Vec<String>,
}

// SAFETY: the raw pointers name the core's own boxes and buffers; it is moved only before it starts and after it has ended.
unsafe impl Send for PacketCore {}

const NO_HANDLER: u32 = u32::MAX;

impl PacketCore {
    pub fn new(p: Parts) -> PacketCore {
        let (cores, now) = (p.stats.len(), monotonic());
        let seed = crate::core::mix(now ^ (p.index as u64) << 32 ^ u64::from(std::process::id()));
        let app = AppCore::new(p.app, host::table(), p.index as u32, cores as u32, seed);
        let queues: Vec<bool> = app.app.desc.ports.iter().map(|p| is_queue(&p.kind)).collect();
        let handlers = (0..app.ports.len()).map(|i| frame_handler(&app.app, i).unwrap_or(NO_HANDLER)).collect();
        let every = app.every.iter().map(|(h, period)| (*h, *period, u64::MAX)).collect();
        PacketCore {
            packets: p.packets,
            index: p.index,
            pool: p.pool,
            mesh: p.mesh,
            touched: Vec::with_capacity(p.ends.len()),
            queues: if queues.contains(&true) { queues } else { Vec::new() },
            popped: queues::Popped::default(),
            ends: p.ends,
            loops: (0..p.inputs.len()).filter(|i| p.inputs[*i].looped).collect(),
            inputs: p.inputs,
            routes: p.routes,
            handlers,
            stats: p.stats,
            batch: Batch::default(),
            current: std::ptr::null_mut(),
            staged: 0,
            copied: 0,
            cut: 0,
            now: p.capture.unwrap_or(now),
            wall_offset: 0,
            capture: p.capture,
            pace: p.pace,
            writes: p.writes,
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
            draining: false,
            idle: 0,
            watched: None,
            errors: Vec::new(),
            app,
        }
    }

    /// Runs `init_core` and the start handlers, arms periodic ones.
    pub fn start(&mut self) {
        self.began = monotonic();
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
        self.flush();
    }

    /// All packets are handled: runs the end handlers.
    pub fn end(&mut self) {
        self.read_clock();
        for h in self.app.end.clone() {
            self.run_handler(h, None, &[]);
        }
        self.run_fault_handlers();
        self.flush();
    }

    fn enter(&mut self) -> *mut wl_core {
        let this: *mut PacketCore = self;
        self.app.wl.rt = this.cast();
        self.app.reset_out();
        &mut *self.app.wl
    }

    /// One round; whether there was anything to do.
    pub fn step(&mut self) -> bool {
        let mut busy = self.take_sends();
        busy |= self.serve_popped();
        busy |= self.take_work();
        self.blocked = false;
        if !self.draining {
            busy |= self.receive();
        }
        busy |= self.run_loops();
        if self.capture.is_none() {
            if !busy {
                self.read_clock();
            }
            self.run_timers();
            busy |= self.run_loops();
        }
        if self.now >= self.housekeeping || self.capture.is_some() && !busy {
            self.housekeep();
        }
        if !busy {
            self.ends.iter_mut().for_each(|e| e.port.tend(&mut self.pool));
        }
        self.mesh.send_late();
        // Of a capture nobody waits for the next frame: the others sleep until it is worth their while.
        let lazy = busy && !self.blocked && self.capture.is_some() && !self.pace;
        self.mesh.ring_bells(lazy);
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
            if !busy {
                break;
            }
            any = true;
        }
        any
    }

    fn frame_stats(&self, port: usize) -> &FrameStats {
        &self.stats[self.index].apps[0].ports[port].frames
    }

    // ---- in ----

    fn receive(&mut self) -> bool {
        if !self.mesh.has_room() || !self.mesh.send_late() {
            self.blocked = true;
            return false;
        }
        if self.capture.is_some() {
            return self.receive_captured();
        }
        let mut busy = false;
        for i in 0..self.inputs.len() {
            busy |= self.receive_from(i, u64::MAX);
        }
        busy
    }

    /// The earliest frames of all captures.
    fn receive_captured(&mut self) -> bool {
        let (mut first, mut second) = ((u64::MAX, usize::MAX), u64::MAX);
        let mut busy = false;
        for i in 0..self.inputs.len() {
            if self.inputs[i].ended || self.inputs[i].looped {
                continue;
            }
            let port = &mut self.ends[self.inputs[i].end].port;
            if !port.is_capture() {
                busy |= self.receive_from(i, u64::MAX);
                continue;
            }
            // A capture at its end, or broken: the next look tells.
            let time = port.next_time().unwrap_or(0);
            if time < first.0 {
                second = first.0;
                first = (time, i);
            } else {
                second = second.min(time);
            }
        }
        if first.1 == usize::MAX {
            return busy;
        }
        let clock = if self.pace { self.paced() } else { u64::MAX };
        if self.pace {
            self.now = self.now.max(clock);
        }
        self.run_loops();
        self.catch_up(first.0.min(clock));
        if first.0 > clock {
            return busy;
        }
        // What leaves a queue does so at the time of the frame at hand.
        let second = if self.queues.is_empty() { second } else { first.0 };
        let got = self.receive_from(first.1, second.min(clock).min(self.due.saturating_sub(1)).max(first.0));
        // No buffer for a frame that is there: others have them.
        self.blocked |= !got && !self.inputs[first.1].ended;
        got | busy
    }

    /// The time of the capture that corresponds to now.
    fn paced(&self) -> u64 {
        self.capture.unwrap_or(0).saturating_add(monotonic() - self.began)
    }

    fn receive_from(&mut self, i: usize, until: u64) -> bool {
        if self.inputs[i].ended {
            return false;
        }
        let end = self.inputs[i].end;
        let mut batch = std::mem::replace(&mut self.batch, Batch::absent());
        let labelled = self.ends[end].labels && batch.is_empty();
        let result = if labelled { self.receive_labelled(&mut batch, i, until) } else { self.ends[end].port.receive(&mut self.pool, &mut batch, until) };
        let port = &mut self.ends[end].port;
        let ended = port.ended() || result.is_err();
        let lost = port.lost();
        if lost > 0 {
            self.frame_stats(self.inputs[i].port.into()).lost.add(lost);
        }
        let got = !batch.is_empty();
        if got {
            if !labelled {
                self.label(&mut batch, i);
            }
            self.dispatch(&mut batch, i);
        }
        self.batch = batch;
        if let Err(e) = result {
            let name = self.port_name(self.inputs[i].port.into(), self.inputs[i].instance.into());
            self.errors.push(format!("port `{name}`: {e}"));
        }
        self.inputs[i].ended = ended;
        got
    }

    fn receive_labelled(&mut self, batch: &mut Batch, i: usize, until: u64) -> std::io::Result<()> {
        if self.capture.is_none() {
            self.read_clock();
        }
        let input = &self.inputs[i];
        let (end, label) = (input.end, Label { port: input.port, instance: input.instance, wall: self.app.wl.wall });
        let bytes = self.ends[end].port.receive_labelled(&mut self.pool, batch, until, label)?;
        let s = self.frame_stats(label.port.into());
        s.received.add(batch.len() as u64);
        s.received_bytes.add(bytes);
        Ok(())
    }

    pub fn index(&self) -> usize {
        self.index
    }

    /// A fault, for messages.
    pub fn fault_text(&self, (kind, place): Fault) -> String {
        format!("{} {}", self.app.app.fault_name(kind), self.app.app.place_name(place))
    }

    fn port_name(&self, port: usize, instance: usize) -> String {
        let name = &self.app.app.desc.ports[port].name;
        if self.routes[port].len() > 1 { format!("{name}[{instance}]") } else { name.clone() }
    }

    /// Says where the frames came from, and when.
    fn label(&mut self, batch: &mut Batch, i: usize) {
        if self.capture.is_none() {
            self.read_clock();
        }
        let (port, instance, wall) = (self.inputs[i].port, self.inputs[i].instance, self.app.wl.wall);
        let mut bytes = 0;
        let looped = self.inputs[i].looped;
        for f in &mut batch.frames {
            // Where a frame came from before it went back into the program is still of interest.
            f.instance = if looped { f.instance } else { instance };
            f.port = port;
            f.time = if f.time == 0 { wall } else { f.time };
            bytes += u64::from(f.n);
        }
        let s = self.frame_stats(port.into());
        s.received.add(batch.len() as u64);
        s.received_bytes.add(bytes);
    }

    /// Handles what is for this core and passes on the rest.
    fn dispatch(&mut self, batch: &mut Batch, i: usize) {
        let cores = self.stats.len();
        if cores > 1 && !self.inputs[i].steered {
            let port = u32::from(self.inputs[i].port);
            let mut kept = 0;
            for k in 0..batch.len() {
                let (frame, buf) = (batch.frames[k], batch.bufs[k]);
                let to = core_of(self.hash(port, bytes(&frame)), cores);
                if to == self.index {
                    (batch.frames[kept], batch.bufs[kept]) = (frame, buf);
                    kept += 1;
                } else if !self.mesh.give(to, Item { frame, buf }) {
                    self.pool.put(buf); // cannot be: there was room
                }
            }
            batch.frames.truncate(kept);
            batch.bufs.truncate(kept);
            self.mesh.given();
        }
        self.handle(batch, self.inputs[i].handler);
    }

    fn hash(&self, port: u32, frame: &[u8]) -> u32 {
        match self.packets.steer {
            // SAFETY: the program's own function, on a valid frame.
            Some(steer) => unsafe { steer(self.packets.this, port, frame.as_ptr(), frame.len() as u32) },
            None => flow_hash(frame),
        }
    }

    /// Frames that other cores have for this one to handle.
    fn take_work(&mut self) -> bool {
        let mut busy = false;
        for from in 0..self.mesh.neighbours() {
            if !self.mesh.send_late() {
                return true;
            }
            let mut batch = std::mem::replace(&mut self.batch, Batch::absent());
            while let Some(item) = self.mesh.next_work(from) {
                busy = true;
                if !self.continues(&batch, &item.frame) {
                    self.handle_given(&mut batch);
                }
                batch.push(item.buf, item.frame);
                if batch.room() == 0 {
                    break;
                }
            }
            self.handle_given(&mut batch);
            self.batch = batch;
        }
        busy
    }

    /// Whether a frame can be handled together with those before it.
    fn continues(&self, batch: &Batch, f: &wl_frame) -> bool {
        let Some(first) = batch.frames.first() else { return true };
        let near = self.capture.is_none() || f.time.abs_diff(first.time) <= APART_NS && f.time < self.due;
        f.port == first.port && near
    }

    fn handle_given(&mut self, batch: &mut Batch) {
        if let Some(f) = batch.frames.first() {
            let (port, time) = (f.port, f.time);
            if self.capture.is_some() {
                self.catch_up(time);
            } else {
                self.read_clock();
            }
            self.handle(batch, self.handlers[usize::from(port)]);
        }
    }

    // ---- handling ----

    #[inline]
    fn handle(&mut self, batch: &mut Batch, handler: u32) {
        if batch.is_empty() {
            return;
        }
        if self.capture.is_some() {
            let newest = batch.frames.iter().map(|f| f.time).max().unwrap_or(0);
            self.now = self.now.max(newest);
            self.read_clock();
        }
        (self.current, self.staged, self.copied) = (&raw mut *batch, 0, 0);
        if self.writes {
            self.cut = batch.frames.iter().enumerate().fold(0, |cut, (k, f)| cut | u64::from(f.wire > f.n) << k);
        }
        let (run, this, wl) = (self.packets.batch, self.packets.this, self.enter());
        let (frames, n) = (batch.frames.as_mut_ptr(), batch.len() as u32);
        // SAFETY: the frames are this core's own; host functions reach the core through `rt`, set by `enter`, and `self` is not
        // used until the program returns.
        unsafe { run(this, wl, handler, frames, n) };
        self.current = std::ptr::null_mut();
        self.stats[self.index].batches.add(1);
        self.route(batch);
        if !self.faults.is_empty() {
            self.run_fault_handlers();
        }
    }

    /// A frame as it leaves: unless a capture had cut it, its length on the wire is the one it has now.
    #[inline]
    fn whole(&self, batch: &Batch, k: usize) -> wl_frame {
        let f = batch.frames[k];
        let wire = if self.cut >> k & 1 == 0 { f.n } else { f.wire };
        wl_frame { wire, time: self.leaves_at(f.time, f.out), ..f }
    }

    /// The time of a frame that leaves: when it came, or, if it has waited in a queue, now.
    #[inline]
    fn leaves_at(&self, came: u64, out: u32) -> u64 {
        let waits = self.queues.get((out >> 16) as usize) == Some(&true);
        if self.popped.serving && !waits { self.app.wl.wall } else { came }
    }

    /// Sends the frames where the program has put them.
    #[inline]
    fn route(&mut self, batch: &mut Batch) {
        let out = batch.frames[0].out;
        let alike = self.staged == 0 && self.touched.is_empty() && batch.frames.iter().fold(true, |all, f| all & (f.out == out));
        match alike.then(|| self.way(out)) {
            Some(None) => return batch.release(&mut self.pool),
            Some(Some(Route::Here(end))) => {
                if self.writes || self.popped.serving {
                    for k in 0..batch.len() {
                        batch.frames[k] = self.whole(batch, k);
                    }
                }
                return self.transmit_through(end, batch);
            }
            _ => {}
        }
        if let Some(end) = self.only_way(batch) {
            self.drop_gone(batch);
            return self.transmit_through(end, batch);
        }
        for k in 0..batch.len() {
            match batch.frames[k].out {
                WL_GONE => self.pool.put(batch.bufs[k]),
                _ if k < self.staged => {}
                _ => self.stage(self.whole(batch, k), batch.bufs[k]),
            }
        }
        batch.clear();
        self.flush();
    }

    /// The end that all frames leave through that are not dropped, as in filters, if there is no more to it.
    #[inline]
    fn only_way(&self, batch: &Batch) -> Option<usize> {
        if self.staged > 0 || !self.touched.is_empty() || self.writes || self.popped.serving {
            return None;
        }
        let out = batch.frames.iter().fold(WL_GONE, |out, f| if f.out == WL_GONE { out } else { f.out });
        let only = batch.frames.iter().fold(true, |all, f| all & (f.out == out || f.out == WL_GONE));
        match only.then(|| self.way(out)).flatten() {
            Some(Route::Here(end)) if !self.ends[end].queue => Some(end),
            _ => None,
        }
    }

    /// Gives back the buffers of dropped frames; the others move up.
    #[inline]
    fn drop_gone(&mut self, batch: &mut Batch) {
        let mut kept = 0;
        for k in 0..batch.len() {
            let (frame, buf) = (batch.frames[k], batch.bufs[k]);
            if frame.out == WL_GONE {
                self.pool.put(buf);
            } else {
                (batch.frames[kept], batch.bufs[kept]) = (frame, buf);
                kept += 1;
            }
        }
        batch.frames.truncate(kept);
        batch.bufs.truncate(kept);
    }

    /// `None`: the frame is dropped on purpose.
    fn way(&self, out: u32) -> Option<Route> {
        if out == WL_GONE {
            return None;
        }
        let (port, instance) = (out >> 16, out & 0xffff);
        let route = self.routes.get(port as usize).and_then(|r| r.get(instance as usize));
        Some(route.copied().unwrap_or(Route::Nowhere))
    }

    /// A frame leaves: at the end of this batch, or when its port has a batch of its own.
    fn stage(&mut self, f: wl_frame, buf: u32) {
        match self.way(f.out) {
            Some(Route::Here(end)) if self.ends[end].queue => self.enqueue(end, f, buf),
            Some(Route::Here(end)) => {
                let stage = &mut self.ends[end].stage;
                if stage.is_empty() {
                    self.touched.push(end);
                }
                stage.push(buf, f);
                if stage.room() == 0 {
                    self.flush_end(end);
                    self.touched.retain(|e| *e != end);
                }
            }
            Some(Route::Core(core)) => self.mesh.send(core, Item { frame: f, buf }),
            Some(Route::Nowhere) => {
                if let Some(s) = self.stats[self.index].apps[0].ports.get((f.out >> 16) as usize) {
                    s.frames.dropped.add(1);
                }
                self.pool.put(buf);
            }
            None => self.pool.put(buf),
        }
    }

    fn flush(&mut self) {
        while let Some(end) = self.touched.pop() {
            self.flush_end(end);
        }
    }

    fn flush_end(&mut self, end: usize) {
        let mut stage = std::mem::replace(&mut self.ends[end].stage, Batch::absent());
        self.transmit_through(end, &mut stage);
        self.ends[end].stage = stage;
    }

    fn transmit_through(&mut self, end: usize, batch: &mut Batch) {
        let n = batch.len() as u64;
        let size: u64 = batch.frames.iter().map(|f| u64::from(f.n)).sum();
        let e = &mut self.ends[end];
        let sent = u64::from(e.port.transmit(&mut self.pool, batch));
        let s = &self.stats[self.index].apps[0].ports[e.of].frames;
        s.sent.add(sent);
        s.sent_bytes.add(size);
        s.dropped.add(n.saturating_sub(sent));
    }

    /// Frames of other cores for this one's ports.
    fn take_sends(&mut self) -> bool {
        let mut busy = false;
        for _ in 0..BATCH {
            let Some(item) = self.mesh.next_send() else { break };
            self.stage(item.frame, item.buf);
            busy = true;
        }
        self.flush();
        busy
    }

    /// A copy leaves. What the program has moved before goes first.
    fn copy_out(&mut self, port: u32, instance: u32, data: &[u8]) {
        self.stage_moved();
        let (time, missing) = self.copied_from(data.as_ptr());
        match self.pool.store(data) {
            Some((buf, mut f)) => {
                f.out = port << 16 | instance & 0xffff;
                f.time = self.leaves_at(time, f.out);
                f.wire += missing;
                f.port = u16::MAX; // it came from none
                self.stage(f, buf);
            }
            None => {
                self.count_fault(WL_F_OVERLOAD, crate::stats::NO_PLACE);
                if let Some(s) = self.stats[self.index].apps[0].ports.get(port as usize) {
                    s.frames.dropped.add(1);
                }
            }
        }
    }

    /// The time of what begins here, and what a capture has cut off it: a frame of the batch at hand, or a new one.
    fn copied_from(&mut self, p: *const u8) -> (u64, u32) {
        // SAFETY: as in `stage_moved`.
        let Some(batch) = (unsafe { self.current.as_ref() }) else { return (self.app.wl.wall, 0) };
        let n = batch.len();
        // It is the one at hand, so the search goes on where the last one ended.
        let found = (self.copied..n).find(|k| batch.frames[*k].p.cast_const() == p);
        let Some(k) = found else { return (self.app.wl.wall, 0) };
        self.copied = k;
        let f = &batch.frames[k];
        (f.time, if self.cut >> k & 1 == 0 { 0 } else { f.wire.saturating_sub(f.n) })
    }

    /// Stages the frames of the batch at hand that have been moved so far: handlers run in the frames' order, so all behind the last one
    /// that is moved have not been handled yet.
    fn stage_moved(&mut self) {
        // SAFETY: null, or the batch that `handle` has lent to the program, which is inside a call of ours.
        let Some(batch) = (unsafe { self.current.as_mut() }) else { return };
        let Some(last) = (self.staged..batch.len()).rev().find(|k| batch.frames[*k].out != WL_GONE) else { return };
        for k in self.staged..=last {
            if batch.frames[k].out != WL_GONE {
                self.stage(self.whole(batch, k), batch.bufs[k]);
            }
        }
        self.staged = last + 1;
    }

    // ---- handlers without a frame ----

    /// Runs a handler that no frame starts; what it answers is in `result`. False: it faulted.
    fn run_handler(&mut self, handler: u32, fault: Option<wl_fault>, args: &[wl_param]) -> bool {
        self.task_frame.fill(0);
        let core = self.enter();
        let mut task = wl_task {
            core,
            conn: std::ptr::null_mut(),
            frame: self.task_frame.as_mut_ptr().cast(),
            handler,
            pc: 0,
            fault: fault.map_or(0, |f| f.kind),
            _pad: 0,
            place: fault.map_or(crate::stats::NO_PLACE, |f| f.place),
            req: wl_msg { base: args.as_ptr().cast(), ..wl_msg::default() },
            rep: wl_msg::default(),
            part: std::ptr::null_mut(),
            parts: 0,
            _pad2: 0,
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
    pub fn signal(&mut self, handler: u32, args: &[ParamValue]) -> Result<Vec<u8>, Fault> {
        let values: Vec<wl_param> = args.iter().map(value).collect();
        self.result = None;
        let done = self.run_handler(handler, None, &values);
        let fault = self.last_fault;
        self.run_fault_handlers();
        self.flush();
        let result = self.result.take();
        if done { Ok(result.unwrap_or_default()) } else { Err(fault) }
    }

    fn count_fault(&mut self, kind: u32, place: u32) {
        if let Some(w) = self.watched.as_mut().filter(|w| w.len() < FAULTS_MAX) {
            w.push((kind, place));
        }
        self.last_fault = (kind, place);
        self.stats[self.index].apps[0].faults.add(kind, place);
        if !self.in_fault_handler && !self.app.fault_handlers.is_empty() && self.faults.len() < FAULTS_MAX {
            self.faults.push(wl_fault { kind: kind as u16, side: 0, place, port: 0 });
        }
    }

    /// What fault handlers do wrong is counted, but not shown to them again.
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
        if self.blocked {
            // Others are at it; they need longer than a turn.
            self.idle += 1;
            return if self.idle % 4 != 0 { std::thread::yield_now() } else { nap(NAP) };
        }
        let next = if self.capture.is_some() { self.paced_wait() } else { Duration::from_nanos(self.due.saturating_sub(self.now)) };
        self.poll.clear();
        self.poll.push(libc::pollfd { fd: self.mesh.bell(), events: libc::POLLIN, revents: 0 });
        for i in self.inputs.iter().filter(|i| !i.ended) {
            if let Some(fd) = self.ends[i.end].port.fd() {
                self.poll.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            }
        }
        let wait = next.min(REST);
        let t = libc::timespec { tv_sec: wait.as_secs() as libc::time_t, tv_nsec: wait.subsec_nanos() as libc::c_long };
        if self.mesh.may_sleep() {
            // SAFETY: the list and the time live here.
            unsafe { libc::ppoll(self.poll.as_mut_ptr(), self.poll.len() as libc::nfds_t, &t, std::ptr::null()) };
            let mut count = 0u64;
            // SAFETY: eight bytes that live here; the descriptor does not block.
            unsafe { libc::read(self.mesh.bell(), (&mut count as *mut u64).cast(), 8) };
        }
        self.mesh.awake();
    }

    fn paced_wait(&mut self) -> Duration {
        if !self.pace {
            return REST;
        }
        let now = self.paced();
        let mut next = self.due;
        for i in self.inputs.iter().filter(|i| !i.ended) {
            next = next.min(self.ends[i.end].port.next_time().unwrap_or(0));
        }
        Duration::from_nanos(next.saturating_sub(now))
    }

    /// Reads no more.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    pub fn inputs_ended(&self) -> bool {
        self.draining || self.inputs.iter().all(|i| i.ended || i.looped)
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
        self.publish();
    }
}

/// The handler of a port's frames.
pub fn frame_handler(app: &App, port: usize) -> Option<u32> {
    let on = wireloom_ir::desc::HandlerOn::Frame { port: port as u32 };
    app.desc.handlers.iter().position(|h| h.on == on).map(|i| i as u32)
}
