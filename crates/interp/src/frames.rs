//! Runs two packet programs of one module side by side. In: the programs and frames. Out: the first
//! difference.
//!
//! Both programs handle every frame. The comparison covers the frames sent, faults, log lines and
//! counters. At the end it covers the entries of tables and queues. A frame lies in memory of
//! exactly its size and rooms, so that a sanitizer sees a read past it. [`Mutator`] makes the
//! frames: every prefix and every changed byte of given frames, then endless random changes.

use std::collections::HashSet;
use std::sync::Arc;
use wireloom_ir::*;
use wireloom_runtime::abi::*;
use wireloom_runtime::core::app::AppCore;
use wireloom_runtime::{App, Program};

mod beside;
mod headers;
mod host;
mod mutate;
mod tables;
pub use beside::Beside;
pub use headers::{chains, extended};
use host::Host;
pub use mutate::{samples, Mutator};

/// A frame on its way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameIn {
    pub port: usize,
    pub instance: u16,
    pub time: u64,
    /// Its length before the capture cut it; at least that of `bytes`.
    pub wire: u32,
    pub bytes: Vec<u8>,
    /// Free bytes before and behind it.
    pub rooms: (u32, u32),
    /// Of one that waits in a queue.
    pub mark: u32,
    pub entry: Vec<u8>,
}

/// The effects of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    Sent { port: u32, instance: u32, bytes: Vec<u8> },
    Log { level: u32, text: Vec<u8> },
    Fault { kind: u16, place: u32 },
}

/// One program with a core of its own.
struct Runner {
    core: AppCore,
    host: Box<Host>,
}

/// Bytes that a program may build in a go.
const OUT: usize = 1 << 20;

impl Runner {
    fn new(app: Arc<App>, seed: u64) -> Result<Runner, String> {
        let packets = app.program.packets().ok_or("the app has no frame ports")?;
        let on = |i| desc::HandlerOn::Frame { port: i as u32 };
        let handlers: Vec<_> = (0..app.desc.ports.len())
            .map(|i| app.desc.handlers.iter().position(|h| h.on == on(i)).map(|h| h as u32))
            .collect();
        // SAFETY: this core is the only one that runs the program in this process.
        let made = unsafe { Host::new(&app, packets, handlers) };
        let mut core = AppCore::new(app, host::table(), 0, 1, seed);
        core.grow(OUT as u32);
        core.reset_out();
        let mut r = Runner { core, host: Box::new(made) };
        r.core.wl.rt = (&raw mut *r.host).cast();
        let (at, own) = (r.host.own_entry.len(), r.host.own_entry.as_mut_ptr());
        r.core.wl.entries = own.wrapping_add(at);
        if let Some(init) = r.core.app.program.table().init_core {
            // SAFETY: the program's own function on its own core.
            unsafe { init(r.core.wl.self_, &mut *r.core.wl) };
        }
        Ok(r)
    }

    /// Runs a handler that no frame starts, and what it has taken from queues.
    fn run(&mut self, handler: u32) {
        self.task(handler, &[]);
        // SAFETY: the program is at rest, and its core lives here.
        unsafe {
            host::serve(&mut *self.core.wl);
            host::serve_crossings(&mut *self.core.wl);
        }
    }

    fn task(&mut self, handler: u32, args: &[wl_param]) {
        self.core.reset_out();
        let mut frame = vec![0u64; self.core.frame_words + 1];
        let mut task = wl_task {
            core: &mut *self.core.wl,
            frame: frame.as_mut_ptr().cast(),
            handler,
            req: wl_msg { base: args.as_ptr().cast(), ..wl_msg::default() },
            ..wl_task::default()
        };
        let table = self.core.app.program.table();
        // SAFETY: the task and its frame live here; the program obeys the ABI.
        let code = table.run.map_or(WL_T_DONE, |run| unsafe { run(table.self_, &mut task) });
        if code != WL_T_DONE {
            self.host.did.push(Did::Fault { kind: task.fault, place: task.place });
        }
    }

    /// The same in the first segment only; the frames that it gives to others.
    fn first_segment(&mut self, f: &FrameIn) -> Result<Vec<FrameIn>, String> {
        // SAFETY: the program is at rest, and its core lives here.
        unsafe { host::handle(&mut *self.core.wl, f) };
        self.host.breach.take().map_or_else(|| Ok(self.host.crossed()), Err)
    }

    /// Has the program handle a frame; an error is a breach of the ABI.
    fn frame(&mut self, f: &FrameIn) -> Result<(), String> {
        // SAFETY: the program is at rest, and its core lives here.
        unsafe {
            host::handle(&mut *self.core.wl, f);
            host::serve_crossings(&mut *self.core.wl);
        }
        self.host.breach.take().map_or(Ok(()), Err)
    }
}

/// Two programs of one module.
pub struct FramePair<'a> {
    module: &'a Module,
    a: Runner,
    b: Runner,
    /// Places of faults of headers.
    header_places: HashSet<u32>,
    /// Handler, period, when it is due.
    every: Vec<(u32, u64, u64)>,
    now: u64,
    pub sum: FrameSummary,
}

/// The outcome of the frames, so that a test can check that they reached the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSummary {
    pub frames: u64,
    pub sent: u64,
    pub faults: u64,
    pub header_faults: u64,
    /// The entries of tables and queues at the end.
    pub entries: u64,
    pub waiting: u64,
}

impl<'a> FramePair<'a> {
    /// `a` is the reference.
    pub fn new(module: &'a Module, a: Program, b: Program, sets: &[(String, String)]) -> Result<FramePair<'a>, String> {
        let make = |p: Program| {
            App::new(p, module.desc(), sets).map_err(|e| e.to_string()).and_then(|app| Runner::new(app, 42))
        };
        let (a, mut b) = (make(a)?, make(b)?);
        // A program that reads bytes which have not crossed a queue reads others than the
        // reference.
        b.host.gone = 0xff;
        let mut header_places = HashSet::new();
        for u in &module.units {
            for l in u.frame.iter().flat_map(|f| &f.layers) {
                header_places.insert(u.fields[l.header.index()].place.0);
                places(module, l.unit, &mut header_places);
            }
        }
        let every = a.core.every.iter().map(|(h, p)| (*h, *p, u64::MAX)).collect();
        let mut pair = FramePair { module, a, b, header_places, every, now: 0, sum: FrameSummary::default() };
        pair.set_time(1_700_000_000_000_000_000);
        pair.every.iter_mut().for_each(|e| e.2 = pair.now + e.1);
        for h in pair.a.core.start.clone() {
            pair.a.run(h);
            pair.b.run(h);
        }
        pair.compare().map_err(|e| format!("at the start: {e}"))?;
        Ok(pair)
    }

    /// Ports that are read, each with the number of its instances and whether its frames begin with
    /// Ethernet.
    pub fn inputs(&self) -> Vec<(usize, u16, bool)> {
        let ethernet = |h: u32| match self.module.handlers[h as usize].on {
            On::Frame { unit, .. } => self
                .module
                .unit(unit)
                .frame
                .as_ref()
                .and_then(|f| f.layers.first())
                .is_some_and(|l| self.module.unit(l.unit).name.contains("Eth")),
            _ => false,
        };
        let ports = self
            .a
            .host
            .handlers
            .iter()
            .enumerate()
            .filter_map(|(i, h)| h.map(|h| (i, h)))
            .filter(|(i, _)| !self.a.host.is_queue(*i as u32));
        ports.map(|(i, h)| (i, self.a.core.ports[i].load.len().clamp(1, 65_535) as u16, ethernet(h))).collect()
    }

    fn set_time(&mut self, now: u64) {
        self.now = now;
        for core in [&mut self.a.core, &mut self.b.core] {
            (core.wl.now, core.wl.wall) = (now, now);
        }
    }

    /// Has both handle a frame, and says in what they differ.
    pub fn frame(&mut self, f: &FrameIn) -> Result<(), String> {
        self.set_time(self.now.max(f.time));
        for i in 0..self.every.len() {
            let (handler, period, due) = self.every[i];
            if due <= self.now {
                self.a.run(handler);
                self.b.run(handler);
                self.every[i].2 = self.now + period;
                self.compare().map_err(|e| format!("in the periodic handler: {e}"))?;
            }
        }
        self.a.frame(f).map_err(|e| format!("a: {e}"))?;
        self.b.frame(f).map_err(|e| format!("b: {e}"))?;
        self.sum.frames += 1;
        self.compare()
    }

    /// Behind the last frame: says in what tables and queues differ.
    pub fn finish(&mut self) -> Result<(), String> {
        self.sum.waiting = self.a.host.compare_queues(&self.b.host)?;
        self.sum.entries = tables::compare(self.module, &mut self.a, &mut self.b)?;
        Ok(())
    }

    fn compare(&mut self) -> Result<(), String> {
        let (a, b): (Vec<Did>, Vec<Did>) = (self.a.host.did.drain(..).collect(), self.b.host.did.drain(..).collect());
        self.sum.header_faults +=
            a.iter().filter(|d| matches!(d, Did::Fault { place, .. } if self.header_places.contains(place))).count()
                as u64;
        for d in &a {
            match d {
                Did::Sent { .. } => self.sum.sent += 1,
                Did::Fault { .. } => self.sum.faults += 1,
                Did::Log { .. } => {}
            }
        }
        if a != b {
            let n = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            return Err(format!("act {n}:\n  a: {}\n  b: {}", shown(a.get(n)), shown(b.get(n))));
        }
        for (i, c) in self.module.counters.iter().enumerate() {
            let (x, y) = (self.a.core.counter(i), self.b.core.counter(i));
            if x != y {
                return Err(format!("counter {}: a has {x}, b {y}", c.name));
            }
        }
        Ok(())
    }
}

/// The places of a header's fields, those of units nested in it included.
fn places(m: &Module, u: UnitId, into: &mut HashSet<u32>) {
    for f in &m.unit(u).fields {
        into.insert(f.place.0);
        if let FieldKind::Unit { unit, .. } = f.kind {
            places(m, unit, into);
        }
    }
}

fn shown(d: Option<&Did>) -> String {
    match d {
        None => "nothing".into(),
        Some(Did::Sent { port, instance, bytes }) => {
            format!("to {port}[{instance}], {} bytes: {}", bytes.len(), hex(bytes))
        }
        Some(Did::Log { level, text }) => format!("log {level}: {}", String::from_utf8_lossy(text)),
        Some(Did::Fault { kind, place }) => format!("fault {kind} at place {place}"),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}
