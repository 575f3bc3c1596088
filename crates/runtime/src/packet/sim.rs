//! One core of a packet app with virtual time, for tests. In: single frames for its ports. Out: the
//! frames that it sends.

use super::batch::{bytes, Batch};
use super::core::{CoreParts, Fans, PacketCore, PortEndpoint, PortInput, Route};
use super::core_mesh::Mesh;
use super::crossing::{Crossings, QueueInstance};
use super::pool::Pool;
use super::port::{FramePort, Sent};
use super::port_targets::{depth, frame_handler};
use crate::core::app::App;
use crate::error::Error;
use crate::stats::CoreStats;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wireloom_ir::desc;

/// When a run begins: ns since 1970.
const BEGIN: u64 = 1_000_000_000_000_000_000;
/// Most rounds of one step.
const ROUNDS: u32 = 10_000;

/// Frames on their way in and out of an instance of a port.
#[derive(Default)]
struct FrameLines {
    incoming: VecDeque<(u64, Vec<u8>)>,
    sent: VecDeque<Vec<u8>>,
}

type SharedLines = Arc<Mutex<FrameLines>>;

struct SimEnd(SharedLines);

impl SimEnd {
    fn lines(&self) -> std::sync::MutexGuard<'_, FrameLines> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl FramePort for SimEnd {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, until: u64) -> io::Result<()> {
        let mut lines = self.lines();
        while into.room() > 0 && lines.incoming.front().is_some_and(|f| f.0 <= until) {
            let Some((time, data)) = lines.incoming.pop_front() else { break };
            let Some((buf, mut frame)) = pool.store(&data) else { break };
            frame.time = time;
            into.push(buf, frame);
        }
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let all = Sent::all(batch);
        self.lines().sent.extend(batch.frames.iter().map(|f| bytes(f).to_vec()));
        batch.release(pool);
        all
    }

    fn is_capture(&self) -> bool {
        true
    }

    fn next_time(&mut self) -> Option<u64> {
        // Nothing yet: timers until then can run.
        Some(self.lines().incoming.front().map_or(u64::MAX, |f| f.0))
    }
}

/// A packet app under test.
pub struct PacketSim {
    core: PacketCore,
    /// By port and instance.
    lines: Vec<Vec<SharedLines>>,
    now: u64,
    /// Faults so far, the first of them.
    faults: Vec<(u32, u32)>,
}

const FAULTS_MAX: usize = 100;

impl PacketSim {
    pub fn new(app: Arc<App>) -> Result<PacketSim, Error> {
        PacketSim::from(app, BEGIN)
    }

    /// Time begins there.
    pub fn from(app: Arc<App>, begin: u64) -> Result<PacketSim, Error> {
        let packets = app
            .program
            .packets()
            .ok_or_else(|| Error::Program(format!("app `{}`: the program has no `wireloom_packets`", app.desc.app)))?;
        let broken = |e| Error::Io("cannot prepare a simulated run".into(), e);
        let queues = app.desc.ports.iter().zip(&app.settings.ports).filter(|(p, _)| p.kind.is_queue());
        let waiting: usize = queues.flat_map(|(_, s)| &s.names).map(|n| depth(n)).sum();
        let pool = Pool::all(1, desc::FRAME_BUFFERS as usize + waiting).map_err(broken)?.remove(0);
        if app.desc.entry > 0 {
            pool.region().keep_entries(app.desc.entry as usize);
        }
        let mesh = Mesh::all(1, 1).map_err(broken)?.remove(0);
        let (mut ends, mut inputs, mut routes, mut lines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut crossings = Crossings::default();
        for (p, port) in app.desc.ports.iter().enumerate() {
            if let Some(plans) = QueueInstance::of(&app, p) {
                // All segments are on this core.
                let join = |plan| Route::Segment(Crossings::join(&mut [&mut crossings], 0, 0, plan));
                routes.push(plans.iter().map(join).collect());
                lines.push(plans.iter().map(|_| SharedLines::default()).collect());
                continue;
            }
            let (mut here, mut of) = (Vec::new(), Vec::new());
            for (i, name) in app.settings.ports[p].names.iter().enumerate() {
                let line = SharedLines::default();
                let end: Box<dyn FramePort> = match &port.kind {
                    kind if kind.is_loop() => Box::<super::loop_port::Loop>::default(),
                    kind if kind.is_queue() => Box::new(super::queue::Queue::new(depth(name))),
                    _ => Box::new(SimEnd(line.clone())),
                };
                here.push(Route::Here(ends.len()));
                if let Some(handler) = frame_handler(&app.desc, p).filter(|_| !port.kind.is_queue()) {
                    let mut input = PortInput::new(ends.len(), p as u16, i as u16, handler, true);
                    input.looped = port.kind.is_loop();
                    inputs.push(input);
                }
                ends.push(PortEndpoint::new(end, p));
                of.push(line);
            }
            routes.push(here);
            lines.push(of);
        }
        let stats = Arc::new(vec![CoreStats::for_apps(std::slice::from_ref(&app))]);
        let mut core = PacketCore::new(CoreParts {
            app,
            number: 0,
            others: Vec::new(),
            fans: Fans::default(),
            timeline: Some(begin),
            packets,
            index: 0,
            pool,
            mesh,
            ends,
            inputs,
            routes,
            crossings,
            segment: None,
            stats,
            capture: Some(begin),
            pace: false,
            writes: false,
            rps: None,
            times: None,
        });
        core.watch();
        core.keep_lines();
        core.start();
        Ok(PacketSim { core, lines, now: begin, faults: Vec::new() })
    }

    /// The apps that run here, and their counters.
    pub(crate) fn apps(&self) -> (Vec<Arc<App>>, Arc<Vec<CoreStats>>) {
        self.core.apps_and_stats()
    }

    /// The counts of the app's other half, by counter, as [`crate::sim::Sim::counted`] gives them.
    /// A test sees them, too, until [`PacketSim::alone`].
    pub fn beside(&mut self, counted: &[u64]) {
        self.core.take_counters(counted);
    }

    pub fn alone(&mut self) {
        self.core.take_counters(&[]);
    }

    /// A frame comes in through an instance of a port.
    pub fn give(&mut self, port: usize, instance: usize, frame: Vec<u8>) -> Result<(), String> {
        let line = self.lines.get(port).and_then(|p| p.get(instance)).ok_or("the port has no such instance")?;
        line.lock().unwrap_or_else(|e| e.into_inner()).incoming.push_back((self.now, frame));
        self.settle();
        Ok(())
    }

    /// The next frame that has left through an instance of a port.
    pub fn take(&mut self, port: usize, instance: usize) -> Option<Vec<u8>> {
        self.lines.get(port)?.get(instance)?.lock().unwrap_or_else(|e| e.into_inner()).sent.pop_front()
    }

    /// The next line that the program has logged.
    pub fn logged(&mut self) -> Option<Vec<u8>> {
        self.core.logged()
    }

    /// Time goes on; due timers run, each at its own time.
    pub fn advance(&mut self, d: Duration) {
        self.now = self.now.saturating_add(d.as_nanos() as u64);
        self.core.move_to(self.now);
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            if !self.core.step() {
                return;
            }
        }
    }

    /// Faults since the last look.
    fn look(&mut self) -> Vec<(u32, u32)> {
        let new = self.core.take_watched();
        let room = FAULTS_MAX.saturating_sub(self.faults.len());
        self.faults.extend(new.iter().take(room));
        new
    }

    /// Runs a handler that no frame starts: its faults, as (kind, place).
    pub fn run(&mut self, handler: u32) -> Vec<(u32, u32)> {
        self.look();
        self.core.run_plain(handler);
        let faults = self.core.take_watched();
        self.settle();
        faults
    }

    /// Runs a handler and catches its output, as (port, instance, bytes); also returns its faults.
    #[allow(clippy::type_complexity)]
    pub fn made_by(&mut self, handler: u32) -> (Vec<(usize, usize, Vec<u8>)>, Vec<(u32, u32)>) {
        let len = |l: &SharedLines| l.lock().unwrap_or_else(|e| e.into_inner()).sent.len();
        let lengths: Vec<Vec<usize>> = self.lines.iter().map(|p| p.iter().map(len).collect()).collect();
        self.look();
        self.core.run_plain(handler);
        let mut made = Vec::new();
        for (p, port) in self.lines.iter().enumerate() {
            for (i, line) in port.iter().enumerate() {
                let mut line = line.lock().unwrap_or_else(|e| e.into_inner());
                made.extend(line.sent.drain(lengths[p][i]..).map(|b| (p, i, b)));
            }
        }
        (made, self.core.take_watched())
    }

    /// Runs a handler of frames over one frame; returns its faults.
    pub fn check(&mut self, handler: u32, port: usize, instance: usize, frame: &[u8]) -> Vec<(u32, u32)> {
        self.look();
        self.core.run_frame(handler, port as u16, instance as u16, self.now, frame);
        self.core.take_watched()
    }

    /// The first faults of the run.
    pub fn faults(&mut self) -> &[(u32, u32)] {
        self.look();
        &self.faults
    }
}
