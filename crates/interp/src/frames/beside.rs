//! The interpreter beside a device that runs the handlers of frames. In: a frame. Out: what the
//! interpreter does with it, for a comparison with the device. At the end the tables of the device
//! are compared, as a second program sees them whose tables they are.

use super::{shown, tables, Did, FrameIn, Runner};
use std::collections::BTreeMap;
use wireloom_ir::desc::HandlerOn;
use wireloom_ir::Module;
use wireloom_runtime::abi::wl_param;
use wireloom_runtime::{App, Program};

pub struct Beside<'a> {
    module: &'a Module,
    reference: Runner,
    device: Runner,
    /// Faults of the reference, by kind and place.
    pub faults: BTreeMap<(u16, u32), u64>,
    /// Lines that it has logged.
    pub logs: u64,
    /// The lines of the last frame.
    pub lines: Vec<Vec<u8>>,
    /// Handler, period, when it is due.
    every: Vec<(u32, u64, u64)>,
}

/// A frame that has been sent: port, instance, bytes.
pub type SentFrame = (u32, u32, Vec<u8>);

impl<'a> Beside<'a> {
    /// `reference` has tables of its own, `device` those of the device. `on start` runs in both.
    pub fn new(
        module: &'a Module,
        reference: Program,
        device: Program,
        sets: &[(String, String)],
    ) -> Result<Beside<'a>, String> {
        let make = |p: Program| {
            App::new(p, module.desc(), sets).map_err(|e| e.to_string()).and_then(|app| Runner::new(app, 42))
        };
        let (mut reference, mut device) = (make(reference)?, make(device)?);
        for r in [&mut reference, &mut device] {
            let start = r.core.app.desc.handlers.iter().position(|h| h.on == HandlerOn::Start);
            if let Some(n) = start {
                r.run(n as u32)
            }
        }
        let every = reference.core.every.iter().map(|(h, p)| (*h, *p, 0)).collect();
        Ok(Beside { module, reference, device, faults: BTreeMap::new(), logs: 0, lines: Vec::new(), every })
    }

    fn set_time(&mut self, now: u64) {
        for core in [&mut self.reference.core, &mut self.device.core] {
            (core.wl.now, core.wl.wall) = (now, now);
        }
    }

    /// The frames that the reference sends.
    pub fn frame(&mut self, f: &FrameIn) -> Result<Vec<SentFrame>, String> {
        self.set_time(f.time);
        self.reference.frame(f)?;
        Ok(self.done())
    }

    /// The frames that the handler of a port sends in the reference, and those that it gives to
    /// another segment: [`Beside::behind`] handles them.
    pub fn first_segment(&mut self, f: &FrameIn) -> Result<(Vec<SentFrame>, Vec<FrameIn>), String> {
        self.set_time(f.time);
        let crossed = self.reference.first_segment(f)?;
        Ok((self.done(), crossed))
    }

    /// A frame in the segment behind the device: as the reference has it, and as it has come from
    /// the device.
    pub fn behind(&mut self, reference: &FrameIn, device: &FrameIn) -> Result<(), String> {
        self.reference.frame(reference)?;
        self.device.frame(device)?;
        self.same()
    }

    /// Runs the timers that are due, in both.
    pub fn timers(&mut self, now: u64) -> Result<(), String> {
        self.set_time(now);
        for i in 0..self.every.len() {
            let (handler, period, due) = self.every[i];
            if due == 0 {
                self.every[i].2 = now + period;
            } else if due <= now {
                self.reference.run(handler);
                self.device.run(handler);
                self.every[i].2 = now + period;
                self.same().map_err(|e| format!("in a timer: {e}"))?;
            }
        }
        Ok(())
    }

    /// The effects of both since the last time, which are to be equal.
    fn same(&mut self) -> Result<(), String> {
        let take = |r: &mut Runner| r.host.did.drain(..).collect::<Vec<Did>>();
        let (a, b) = (take(&mut self.reference), take(&mut self.device));
        if a == b {
            return Ok(());
        }
        let n = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
        Err(format!("act {n}:\n  reference: {}\n  device:    {}", shown(a.get(n)), shown(b.get(n))))
    }

    /// Notes the effects of the reference; the frames that it has sent.
    fn done(&mut self) -> Vec<SentFrame> {
        let mut sent = Vec::new();
        self.lines.clear();
        for did in self.reference.host.did.drain(..) {
            match did {
                Did::Sent { port, instance, bytes } => sent.push((port, instance, bytes)),
                Did::Fault { kind, place } => *self.faults.entry((kind, place)).or_default() += 1,
                Did::Log { text, .. } => {
                    self.logs += 1;
                    self.lines.push(text)
                }
            }
        }
        sent
    }

    /// Runs a signal in both; the answers, that of the reference first.
    pub fn signal(&mut self, name: &str, args: &[wl_param]) -> Result<[Vec<u8>; 2], String> {
        let both = [&mut self.reference, &mut self.device];
        let answers: [Result<Vec<u8>, String>; 2] = both.map(|r| {
            let signal = r.core.app.desc.signals.iter().find(|s| s.name == name);
            let handler = signal.ok_or_else(|| format!("there is no signal {name}"))?.handler;
            r.host.result.clear();
            r.task(handler, args);
            Ok(r.host.result.clone())
        });
        let [a, b] = answers;
        Ok([a?, b?])
    }

    /// A counter of the part of the program that is not the device's.
    pub fn rest(&self, n: usize) -> u64 {
        self.device.core.counter(n)
    }

    /// A counter of the reference.
    pub fn counter(&self, n: usize) -> u64 {
        self.reference.core.counter(n)
    }

    /// The number of entries in all tables, or the first difference.
    pub fn tables(&mut self) -> Result<u64, String> {
        tables::compare(self.module, &mut self.reference, &mut self.device)
    }
}
