//! Runs one test of packets: frames in, frames out, and the test's own code.

use super::place;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use wireloom_ir::{FaultKind, HandlerId, Module, PortId, SimPort, SimStep, Span};
use wireloom_runtime::packet::PacketSim;
use wireloom_runtime::App;

pub struct FramePlay<'m> {
    module: &'m Module,
    app: Arc<App>,
    pub sim: PacketSim,
    /// How many frames of each instance of a port have been seen.
    seen: HashMap<(usize, usize), usize>,
}

impl<'m> FramePlay<'m> {
    pub fn new(module: &'m Module, app: Arc<App>) -> Result<Self, String> {
        let sim = PacketSim::new(app.clone()).map_err(|e| e.to_string())?;
        Ok(FramePlay::of(module, app, sim))
    }

    pub fn of(module: &'m Module, app: Arc<App>, sim: PacketSim) -> Self {
        FramePlay { module, app, sim, seen: HashMap::new() }
    }

    /// Plays steps; an error also tells the faults before it.
    pub fn all(&mut self, steps: &[(Span, SimStep)]) -> Result<(), String> {
        self.steps(steps).map_err(|e| format!("{e}{}", self.faults()))
    }

    fn steps(&mut self, steps: &[(Span, SimStep)]) -> Result<(), String> {
        for (span, step) in steps {
            match step {
                SimStep::Repeat { first, next, times, steps } => {
                    self.run(*first)?;
                    for round in 0..*times {
                        self.steps(steps).map_err(|e| format!("{e}\n          in round {round} of the `for`"))?;
                        self.run(*next)?;
                    }
                }
                _ => self.step(step).map_err(|e| format!("{}: {e}", place(self.module, span)))?,
            }
        }
        Ok(())
    }

    pub fn step(&mut self, step: &SimStep) -> Result<(), String> {
        match step {
            SimStep::Wait(ns) => self.sim.advance(Duration::from_nanos(*ns)),
            SimStep::SeeLog(wanted) => super::see_log(self.sim.logged(), wanted.as_deref())?,
            SimStep::Run(h) => self.run(*h)?,
            SimStep::Give(h) => {
                for (port, instance, bytes) in self.made_by(*h)? {
                    self.sim.give(port, instance, bytes)?
                }
            }
            SimStep::SeeSame(h) => {
                for (port, instance, bytes) in self.made_by(*h)? {
                    self.same(port, instance, &bytes)?
                }
            }
            SimStep::At(place, step) => {
                for (port, instance, _) in self.made_by(*place)? {
                    let at = SimPort { port: PortId(port as u32), conn: instance as u32 };
                    match &**step {
                        SimStep::Check(_, h) => self.check(&at, *h)?,
                        _ => self.nothing(&at)?,
                    }
                }
            }
            SimStep::Check(at, h) => self.check(at, *h)?,
            SimStep::SeeNothing(at) => self.nothing(at)?,
            _ => return Err("this is a step of services".into()),
        }
        Ok(())
    }

    fn check(&mut self, at: &SimPort, h: HandlerId) -> Result<(), String> {
        let (port, instance) = of(at);
        let frame = self.next(port, instance)?;
        let faults = self.sim.check(h.0, port, instance, &frame);
        if let Some(why) = self.failure(&faults) {
            return Err(format!(
                "packet {} of {}: {why}\n          saw {}",
                self.seen[&(port, instance)],
                self.name(port, instance),
                hex(&frame)
            ));
        }
        Ok(())
    }

    fn nothing(&mut self, at: &SimPort) -> Result<(), String> {
        let (port, instance) = of(at);
        match self.sim.take(port, instance) {
            Some(frame) => Err(format!("expected nothing at {}, saw {}", self.name(port, instance), hex(&frame))),
            None => Ok(()),
        }
    }

    fn run(&mut self, h: HandlerId) -> Result<(), String> {
        let faults = self.sim.run(h.0);
        self.failure(&faults).map_or(Ok(()), Err)
    }

    fn made_by(&mut self, h: HandlerId) -> Result<Vec<(usize, usize, Vec<u8>)>, String> {
        let (made, faults) = self.sim.made_by(h.0);
        match self.failure(&faults) {
            Some(why) => Err(why),
            None if made.is_empty() => Err("there is no such instance of the port".into()),
            None => Ok(made),
        }
    }

    fn next(&mut self, port: usize, instance: usize) -> Result<Vec<u8>, String> {
        let frame = self
            .sim
            .take(port, instance)
            .ok_or_else(|| format!("expected a packet at {}, there is none", self.name(port, instance)))?;
        *self.seen.entry((port, instance)).or_default() += 1;
        Ok(frame)
    }

    fn same(&mut self, port: usize, instance: usize, wanted: &[u8]) -> Result<(), String> {
        let name = self.name(port, instance);
        let Some(frame) = self.sim.take(port, instance) else {
            return Err(format!("expected a packet at {name}, there is none\n          expected {}", hex(wanted)));
        };
        let seen = self.seen.entry((port, instance)).or_default();
        *seen += 1;
        if frame == wanted {
            return Ok(());
        }
        let at = frame.iter().zip(wanted).take_while(|(a, b)| a == b).count();
        let place = if at == frame.len() || at == wanted.len() {
            format!("has {} bytes instead of {}", frame.len(), wanted.len())
        } else {
            format!("differs from byte {at} on")
        };
        Err(format!(
            "packet {seen} of {name} {place}\n          expected {}\n          saw      {}",
            hex(wanted),
            hex(&frame)
        ))
    }

    fn name(&self, port: usize, instance: usize) -> String {
        let name = &self.module.ports[port].name;
        if self.app.settings.ports[port].names.len() > 1 {
            format!("{name}[{instance}]")
        } else {
            name.clone()
        }
    }

    /// The meaning of a fault in a step's own code. Headers that are wrong are no failure of the
    /// step.
    fn failure(&self, faults: &[(u32, u32)]) -> Option<String> {
        let own = |k: u32| {
            ![FaultKind::MALFORMED, FaultKind::TRUNCATED, FaultKind::CONSTRAINT].iter().any(|f| u32::from(f.0) == k)
        };
        let (kind, at) = faults.iter().find(|(k, _)| own(*k))?;
        if *kind == u32::from(FaultKind::EXPECT.0) {
            return Some("does not hold".into());
        }
        Some(format!("fault {}", self.fault(*kind, *at)))
    }

    fn fault(&self, kind: u32, at: u32) -> String {
        let name = self.app.fault_name(kind);
        match self.module.places.get(at as usize) {
            Some(p) => format!("{name} at {} ({})", place(self.module, &p.span), p.name),
            None => name,
        }
    }

    /// The faults of the run, to explain a failure.
    fn faults(&mut self) -> String {
        let faults = self.sim.faults().to_vec();
        let mut shown: Vec<String> = Vec::new();
        for (kind, at) in faults.iter().filter(|f| f.0 != u32::from(FaultKind::EXPECT.0)) {
            let text = self.fault(*kind, *at);
            if !shown.contains(&text) && shown.len() < 4 {
                shown.push(text);
            }
        }
        if shown.is_empty() {
            String::new()
        } else {
            format!("\n          faults before: {}", shown.join("; "))
        }
    }
}

fn of(at: &SimPort) -> (usize, usize) {
    (at.port.index(), at.conn as usize)
}

/// Bytes in groups of four; a long frame is cut.
fn hex(bytes: &[u8]) -> String {
    const MOST: usize = 160;
    let groups: Vec<String> =
        bytes.chunks(4).take(MOST / 4).map(|c| c.iter().map(|b| format!("{b:02x}")).collect()).collect();
    let rest = if bytes.len() > MOST { format!(" … ({} bytes)", bytes.len()) } else { String::new() };
    format!("{}{rest}", groups.join(" "))
}
