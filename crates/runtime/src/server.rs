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

pub(crate) mod options;

use crate::admin;
use crate::control::{self, Where};
use crate::error::{Error, Origin};
use crate::name_watch::NameWatch;
use crate::os_signals::{Heard, OsSignals};
use crate::packet;
use crate::reload;
use crate::server_names::Answers;
use crate::services;
use crate::view::{Group, View};
use options::{raise_descriptor_limit, RUN};
pub use options::{AppSpec, Ready, ReadyFn, ServeOptions, Stop, Summary};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves until told to stop; a packet app also ends when all its inputs have.
pub fn serve(specs: Vec<AppSpec>, mut options: ServeOptions) -> Result<Summary, Error> {
    crate::buffer::pages_of_their_own();
    let names: Vec<String> = specs.iter().map(|s| s.desc.app.clone()).collect();
    let (frames, services): (Vec<_>, Vec<_>) = specs.into_iter().partition(|s| s.desc.has_frames());
    let f = std::mem::take(&mut options.frames);
    if let Some((option, name)) = f.pairs().next().filter(|_| frames.is_empty()) {
        let text = "`--bind`, `--out`, `--load` and `--dump` are for apps with frame ports; there is none here";
        let origin = Origin { name: name.into(), ..Origin::option(option) };
        return Err(Error::Param(text.into()).at(origin));
    }
    let signals = OsSignals::block();
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
    if let packet::nic::Role::Nic(inherited) = &f.nic {
        let peer = packet::nic::AgentPeer::of(&inherited.clone(), options.stop.clone())?;
        return second(frames, f, &signals, options, peer);
    }
    if !frames.is_empty() {
        let (packets, partners) = packet::prepare(frames, f)?;
        let packets = packets.start(&options, services.is_empty() && partners.is_empty())?;
        counts = Some(packets.cores.group.clone());
        services.extend(partners);
        running.packets = Some(packets);
    }
    if !services.is_empty() {
        let services = services::start(services, counts, &options)?;
        running.connections = Some(services.cores.group.clone());
        running.services = Some(services);
    }
    running.until_ended(&names, &signals, options)
}

/// The process of a NIC: it runs its part of an app as the first process says.
fn second(
    specs: Vec<AppSpec>,
    frames: packet::Options,
    signals: &OsSignals,
    options: ServeOptions,
    mut peer: packet::nic::AgentPeer,
) -> Result<Summary, Error> {
    let started = packet::prepare(specs, frames).and_then(|p| p.0.start(&options, true));
    let packets = started.inspect_err(|e| peer.ended(Some(e.to_string())))?;
    peer.ready(&packets.ports());
    let shown = packets.shown();
    while !packets.ended() {
        let wake = || packets.cores.wake();
        let Some(served) = shown.served(&wake) else { break };
        if !peer.step(&served) {
            break;
        }
        match signals.wait(Duration::ZERO) {
            Heard::End => peer.stop(),
            Heard::Hangup | Heard::Nothing => {}
        }
    }
    let done = packets.finish();
    if let Some(served) = shown.served(&|| {}) {
        peer.show(&served);
    }
    peer.ended(done.as_ref().err().map(Error::to_string));
    // The first process tells of errors.
    Ok(done.map(|d| d.0).unwrap_or_default())
}

/// The time that a core has beyond the drain limit to notice it.
const GRACE: Duration = Duration::from_secs(1);

/// The parts that run, and the results of those that have ended.
struct Running {
    packets: Option<packet::RunningPackets>,
    services: Option<services::RunningServices>,
    sum: Summary,
    failed: Option<Error>,
    /// Where connections are counted, and counters that are written when packets have ended, and
    /// again when connections have.
    connections: Option<Arc<Group>>,
    counted: Vec<packet::Counted>,
}

impl Running {
    fn until_ended(
        mut self,
        names: &[String],
        signals: &OsSignals,
        mut options: ServeOptions,
    ) -> Result<Summary, Error> {
        let stop = options.stop.clone();
        let groups = self
            .services
            .iter()
            .map(|s| s.cores.group.clone())
            .chain(self.packets.iter().map(|p| p.cores.group.clone()));
        let view = Arc::new(View::new(groups.collect(), names));
        let doors = Doors::open(&options, &view)?;
        let names = self.watch_names(&options);
        let (mut told, mut pause) = (RUN, Duration::from_millis(1));
        let mut told_at = Instant::now();
        loop {
            if let Some(ready) = options.ready.take_if(|_| self.is_started()) {
                ready(&self.ready(&doors, &view));
            }
            if options.ready.is_none() {
                self.collect(&stop);
            }
            // Short runs, on captures, must not wait for a long look.
            let longest = match (&self.packets, &self.services) {
                (None, None) => return self.failed.map_or(Ok(self.sum), Err),
                (Some(_), _) => Duration::from_millis(20),
                (None, Some(_)) => Duration::from_millis(50),
            };
            pause = (pause + pause / 16).min(longest);
            match signals.wait(pause) {
                Heard::Nothing => {}
                Heard::Hangup => {
                    crate::access_log::hangup();
                    self.read_again(&mut options, None)
                }
                Heard::End if stop.running() => {
                    log::info!("draining; a second signal ends at once");
                    stop.drain();
                }
                Heard::End => stop.end(),
            }
            if let Some(known) = names.as_ref().and_then(NameWatch::take) {
                self.read_again(&mut options, Some(known))
            }
            if let Some(names) = self.packets.as_mut().and_then(|p| p.interfaces.lost()) {
                self.failed = Some(Error::Program(format!("no interface is left: {names} is gone")));
                stop.drain();
            }
            if stop.state() != told {
                told = stop.state();
                told_at = Instant::now();
                self.wake();
            }
            if told != RUN {
                let limit = if stop.ended() { Duration::ZERO } else { options.drain_limit };
                if self.give_up(told_at.elapsed(), limit) {
                    // Nothing becomes ready any more, and no program is put into the XDP hook.
                    options.ready = None;
                }
            }
        }
    }

    fn watch_names(&self, options: &ServeOptions) -> Option<NameWatch> {
        let services = self.services.as_ref().filter(|_| !options.resolve.is_zero() && options.reload.is_some())?;
        NameWatch::start(services.cores.group.clone(), options.resolve)
    }

    /// Reads the settings again, or takes addresses of names that are known. An error changes
    /// nothing.
    fn read_again(&self, options: &mut ServeOptions, known: Option<Answers>) {
        let Some(reload) = &mut options.reload else { return };
        let services = self.services.iter().map(|s| (s.cores.group.clone(), Some(s.settings.clone())));
        let packets = self.packets.iter().map(|p| (p.cores.group.clone(), None));
        if let Err(e) = reload::reload(reload, known, &services.chain(packets).collect::<Vec<_>>(), || self.wake()) {
            (reload.tell)(log::Level::Error, &format!("{e}\nthe settings stay as they were"));
        }
    }

    /// Whether `on start` has run on all cores: the tables that it fills are complete. Frames that
    /// come earlier wait at their ports, but the XDP hook does not.
    fn is_started(&self) -> bool {
        self.packets.as_ref().is_none_or(|p| p.is_started() || p.cores.ended())
    }

    /// Leaves threads alone that do not end: a handler may run for minutes. Before all `on start`
    /// of packets have run there is nothing to finish. Answers whether that is so.
    fn give_up(&mut self, since: Duration, limit: Duration) -> bool {
        if let Some(s) = self.services.take_if(|s| since >= limit + GRACE && !s.cores.ended()) {
            self.sum.add(&s.abandon());
        }
        let late = |p: &packet::RunningPackets| since >= GRACE + if p.is_started() { limit } else { Duration::ZERO };
        let Some(p) = self.packets.take_if(|p| !p.ended() && late(p)) else { return false };
        let started = p.is_started();
        p.abandon();
        match started {
            true => self.failed = Some(Error::Program("a handler has not ended within the drain limit".into())),
            false => log::info!("ended before `on start` had"),
        }
        !started
    }

    fn ready(&self, doors: &Doors, view: &Arc<View>) -> Ready {
        let (admin, control) = doors.names();
        let ports = self.services.as_ref().map_or(Vec::new(), services::RunningServices::ports);
        let frames = self.packets.as_ref().map_or(Vec::new(), packet::RunningPackets::ports);
        Ready { admin, control, ports, frames, view: view.clone() }
    }

    fn wake(&self) {
        self.packets.iter().for_each(|p| p.cores.wake());
        self.services.iter().for_each(|s| s.cores.wake());
    }

    /// Collects the results of parts that have ended.
    fn collect(&mut self, stop: &Stop) {
        if let Some(s) = self.services.take_if(|s| s.cores.ended()) {
            self.sum.add(&s.finish());
            stop.drain();
            self.write_counted(stop);
        }
        if let Some(p) = self.packets.take_if(|p| p.ended()) {
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

    /// Writes the counters of apps whose packets have ended, with the counts of their connections
    /// so far.
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
        self.link.extend_from_slice(&b.link);
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
