//! From names to open ports. In: the app's frame ports and `--bind`, `--out`. Out: for each core
//! its port endpoints, the endpoints that it reads, and the route to every instance of every port.
//!
//! A port that several apps name is opened once. `share` gives each of them an endpoint of its own,
//! and the first app of a core reads it for all.
//!
//! A port with a handler is read from its binding and written to it, too, unless that is a capture.
//! Then `--out` says where its frames go. A port without a handler is only written.

use super::afpacket::AfPacket;
use super::afxdp::{self, AfXdp};
use super::core::{fan, Fans, Member, PortEndpoint, PortInput, Route};
use super::core_mesh::{core_of, flow_hash};
use super::crossing::{self, Crossings};
use super::hook_ring::HookRing;
use super::hooked::Hooked;
use super::host_stack::{Guarded, TAKES_ALL};
use super::interface_uses::interfaces_apart;
use super::interfaces::Interfaces;
use super::loop_port::Loop;
use super::memory::{Frames, MemoryPort};
use super::nic::{Carried, LinkIn, LinkOut, LinkRing, ProcessSide};
use super::null_port::Null;
use super::options::{of_each, Options};
use super::pcap::{self, LinkType, Reader, Style, Writer};
use super::pool::{Pool, Region};
use super::port::FramePort;
use super::port_targets::{
    depth, files_apart, frame_handler, is_outside, list, port_targets, write_what_is_missing, Carrier, PortTarget,
    PortTargets,
};
use super::queue::Queue;
use super::shared_ports::{Common, Opened, SendsBy, Tap};
use super::tun::{Kind, Tun};
use super::udp::Udp;
use crate::core::app::App;
use crate::error::Error;
use crate::params;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use wireloom_ir::desc::{self, Begins, Desc, HandlerOn, SegmentDesc};
use wireloom_ir::passes::affinity_groups::Bound;

/// The ports of one core.
#[derive(Default)]
pub struct CorePlan {
    pub ends: Vec<PortEndpoint>,
    pub inputs: Vec<PortInput>,
    pub routes: Vec<Vec<Route>>,
    pub crossings: Crossings,
}

pub struct Plan {
    pub apps: Vec<AppPlan>,
    pub pools: Vec<Pool>,
    /// The readers of shared ports.
    pub fans: Fans,
    pub interfaces: Interfaces,
}

/// The ports of one app.
pub struct AppPlan {
    pub cores: Vec<CorePlan>,
    /// Time is that of captures, the first of which begins here.
    pub capture: Option<u64>,
    /// Nothing is read: the app's timers keep it running.
    pub endless: bool,
    /// Some port writes a capture.
    pub writes: bool,
    /// (port, binding), for the start-up line.
    pub shown: Vec<(String, String)>,
    /// Ports that are read from captures, with these names, and have no way out.
    pub deaf: Vec<(usize, String)>,
}

/// Opens all ports. `options`: of each app.
pub fn open(apps: &[Arc<App>], options: &[Options], cores: usize) -> Result<Plan, Error> {
    let all: Vec<Vec<PortTargets>> =
        apps.iter().zip(options).map(|(app, o)| all_targets(app, o)).collect::<Result<_, _>>()?;
    files_apart(apps, options, &all)?;
    let named = || all.iter().flatten().flat_map(|p| &p.main);
    let nics: HashSet<&str> =
        named().filter(|t| matches!(t.engine, Carrier::Nic | Carrier::AfXdp)).map(|t| t.name.as_str()).collect();
    let queues: usize = nics.into_iter().map(afxdp::queues).sum();
    // As many again as can wait in the programs' queues.
    let waiting: usize =
        named().filter(|t| matches!(t.engine, Carrier::Queue | Carrier::Crossing)).map(|t| depth(&t.name)).sum();
    let small = desc::FRAME_BUFFERS as usize * cores + waiting + (queues * afxdp::BUFFERS).div_ceil(cores);
    let several = apps.len() > 1;
    let pools = if several && cores > 1 { Pool::all_shared(cores, small) } else { Pool::all(cores, small) };
    let pools = pools.map_err(|e| Error::Io("cannot map memory for frames".into(), e))?;
    if let (Some(most @ 1..), Some(pool)) = (apps.iter().map(|app| app.desc.entry).max(), pools.first()) {
        pool.region().keep_entries(most as usize);
    }
    let read = all.iter().flatten().filter(|p| p.handler.is_some()).flat_map(|p| p.main.clone()).collect();
    let mut shared = several.then(|| SharedInputs { read, opened: Vec::new() });
    let (mut plans, guarded) = (Vec::new(), Guarded::of(apps, &all));
    for (number, ((app, options), ports)) in apps.iter().zip(options).zip(&all).enumerate() {
        let (plan, after) = open_app(app, number, options, ports, (&pools, &guarded), shared)?;
        plans.push(plan);
        shared = after;
    }
    let opened = shared.map_or_else(Vec::new, |s| s.opened);
    let fans = read_by_the_first(opened, &mut plans[0], apps);
    for (number, p) in plans.iter_mut().enumerate() {
        let (side, desc) = (options[number].side(), &apps[number].desc);
        let other = |(n, t): (usize, &PortTargets)| {
            t.handler.is_some() && !side.has_port(desc, n) && t.main.iter().any(|t| is_read(t.engine))
        };
        p.endless = !fans.iter().any(|f| f.is_read_by(number))
            && !all[number].iter().enumerate().any(other)
            && p.cores.iter().all(|c| c.inputs.iter().all(|i| i.looped || i.fan.is_some()));
    }
    let bound = all.iter().flatten().flat_map(|p| p.main.iter().map(|t| (t, p.handler.is_some())));
    let nic = |t: &PortTarget| matches!(t.engine, Carrier::Nic | Carrier::AfPacket | Carrier::AfXdp);
    let ports = bound.filter(|(t, _)| nic(t)).map(|(t, read)| (t.name.clone(), read));
    let hook = options.iter().flat_map(|o| &o.hook_interfaces).map(|name| (name.clone(), true));
    let interfaces = Interfaces::of(ports.chain(hook));
    Ok(Plan { apps: plans, pools, fans, interfaces })
}

/// Whether frames come from there, from outside of the program.
fn is_read(engine: Carrier) -> bool {
    !matches!(engine, Carrier::Null | Carrier::Loop | Carrier::Queue | Carrier::Crossing)
}

/// The queues of an app that lead to another process.
pub fn ways(app: &App) -> Vec<LinkRing> {
    let (desc, mut all) = (&app.desc, Vec::new());
    let nic = |core: usize| ProcessSide::Nic.cores(desc)[core];
    for port in 0..desc.ports.len() {
        for p in crossing::QueueInstance::of(app, port).unwrap_or_default() {
            let Some(to) = home_of(desc, &p) else { continue };
            let from = desc.ports[port].senders.iter().flat_map(|s| cores_of(desc, *s));
            let from: BTreeSet<usize> = from.filter(|f| nic(*f) != nic(to)).collect();
            let way = |from: usize| LinkRing { port, instance: p.instance, from, to, depth: p.depth, to_card: nic(to) };
            all.extend(from.into_iter().map(way));
        }
    }
    all
}

/// The cores of a segment.
fn cores_of(desc: &Desc, segment: u32) -> impl Iterator<Item = usize> + Clone {
    let of = SegmentDesc::of_cores(&desc.segments);
    (0..of.len()).filter(move |n| of[*n] == segment as usize)
}

/// The core that handles an instance of a queue.
fn home_of(desc: &Desc, p: &crossing::QueueInstance) -> Option<usize> {
    let homes = cores_of(desc, desc.handlers[p.handler as usize].segment?);
    homes.clone().nth(p.instance % homes.count().max(1))
}

/// An app and its settings.
pub type AppSettings<'a> = (&'a Desc, &'a [(String, String)]);

/// For each app, the ports that it reads, with their bindings. Equal bindings are shared.
pub fn bound(apps: &[AppSettings], options: &Options) -> Result<Bound, Error> {
    let each = of_each(&apps.iter().map(|a| a.0).collect::<Vec<_>>(), options.clone())?;
    let of = |((desc, sets), options): (&AppSettings, &Options)| {
        let settings = params::resolve(desc, sets)?;
        let read =
            (0..desc.ports.len()).filter(|p| is_outside(&desc.ports[*p].kind) && frame_handler(desc, *p).is_some());
        let bound = read.map(|p| {
            let name = &desc.ports[p].name;
            let bad = |e: String| Error::Param(format!("port `{name}`: {e}")).at(options.origin(desc, p));
            let targets = port_targets(desc, &settings, p, options).map_err(bad)?;
            Ok((
                name.clone(),
                targets.main.iter().filter(|t| t.engine != Carrier::Null).map(PortTarget::to_string).collect(),
            ))
        });
        bound.collect()
    };
    apps.iter().zip(&each).map(of).collect()
}

/// The bindings of all ports of an app.
fn all_targets(app: &App, options: &Options) -> Result<Vec<PortTargets>, Error> {
    let of = |(p, desc): (usize, &desc::PortDesc)| {
        port_targets(&app.desc, &app.settings, p, options)
            .map_err(|e| Error::Param(format!("port `{}`: {e}", desc.name)).at(options.origin(&app.desc, p)))
    };
    let mut ports = app.desc.ports.iter().enumerate().map(of).collect::<Result<Vec<_>, _>>()?;
    write_what_is_missing(&mut ports);
    interfaces_apart(&app.desc, options, &mut ports)?;
    Ok(ports)
}

fn open_app(
    app: &App,
    number: usize,
    options: &Options,
    ports: &[PortTargets],
    (pools, guarded): (&[Pool], &Guarded),
    shared: Option<SharedInputs>,
) -> Result<(AppPlan, Option<SharedInputs>), Error> {
    let mac = ports
        .iter()
        .flat_map(|p| &p.main)
        .find(|t| matches!(t.engine, Carrier::Nic | Carrier::AfXdp | Carrier::AfPacket))
        .and_then(|t| mac_of(&t.name));
    let new = |_| CorePlan {
        routes: ports.iter().map(|p| vec![Route::Nowhere; p.main.len()]).collect(),
        ..CorePlan::default()
    };
    let (mut plans, region): (Vec<CorePlan>, _) = (pools.iter().map(new).collect(), pools[0].region().clone());
    if let Some(joint) = &options.joint {
        plans.iter_mut().enumerate().for_each(|(core, plan)| plan.crossings.show_on(joint.board(), core));
    }
    let mut o = Opening {
        app,
        number,
        options,
        plans,
        region,
        style: Style::default(),
        first: None,
        capture: None,
        writes: false,
        mac,
        guarded,
        shared,
        opening: None,
    };
    fn at(port: usize, instance: usize, targets: &PortTargets) -> PortInstance<'_> {
        PortInstance { port, instance, targets }
    }
    // Captures first: how the others are written follows from them.
    for (p, port) in ports.iter().enumerate() {
        if !o.is_here(p) {
            (0..port.main.len()).try_for_each(|i| o.at(p, i, |o| o.look(at(p, i, port), &port.main[i])))?;
            continue;
        }
        for (i, t) in port.main.iter().enumerate().filter(|(_, t)| port.handler.is_some() && t.engine == Carrier::Pcap)
        {
            o.at(p, i, |o| o.once(at(p, i, port), t, |o, at| o.read_capture(at, t)))?;
        }
    }
    if o.first.is_none() && ports.iter().flat_map(|p| &p.main).any(|t| t.engine == Carrier::Tun) {
        o.style.link = LinkType::Ip;
    }
    let here = |p: usize| app.desc.ports[p].kind.is_inside() || options.side().has_port(&app.desc, p);
    // Captures are written over last, when nothing else is in the way.
    for over in [false, true] {
        for (p, port) in ports.iter().enumerate().filter(|(p, _)| here(*p)) {
            let out = PortTargets { handler: None, ..port.clone() };
            // Ports that are read are open; their frames go to the targets of `--out`.
            let main =
                port.main.iter().enumerate().filter(|(_, t)| t.engine != Carrier::Pcap || port.handler.is_none());
            for (i, t) in main.filter(|(_, t)| (port.writes(t) && port.out.is_empty()) == over) {
                o.at(p, i, |o| o.once(at(p, i, port), t, |o, at| o.open(at, t)))?;
            }
            for (i, t) in port.out.iter().enumerate().take(port.main.len()).filter(|(_, t)| out.writes(t) == over) {
                o.at(p, i, |o| o.once(at(p, i, &out), t, |o, at| o.open(at, t)))?;
            }
        }
    }
    let deaf =
        |p: &PortTargets| p.handler.is_some() && p.out.is_empty() && p.main.iter().all(|t| t.engine == Carrier::Pcap);
    let deaf = ports
        .iter()
        .enumerate()
        .filter(|(n, p)| here(*n) && deaf(p))
        .map(|(i, p)| (i, p.main.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ")))
        .collect();
    let shown = app
        .desc
        .ports
        .iter()
        .zip(ports)
        .enumerate()
        .filter(|(n, (d, _))| here(*n) && is_outside(&d.kind))
        .map(|(_, (d, p))| (d.name.clone(), list(&p.main)))
        .collect();
    Ok((AppPlan { cores: o.plans, capture: o.capture, endless: false, writes: o.writes, shown, deaf }, o.shared))
}

/// The ports that several apps share.
struct SharedInputs {
    /// The bindings that any app reads.
    read: HashSet<PortTarget>,
    opened: Vec<(PortTarget, Opened)>,
}

/// Makes the first app of each core read the shared ports.
fn read_by_the_first(opened: Vec<(PortTarget, Opened)>, first: &mut AppPlan, apps: &[Arc<App>]) -> Fans {
    let mut fans = Vec::new();
    for (_, o) in opened.into_iter().filter(|(_, o)| !o.readers.is_empty()) {
        let hashes = |app: usize| apps[app].program.packets().is_some_and(|p| p.steer.is_some());
        for (core, _, port) in o.ends {
            let plan = &mut first.cores[core];
            plan.ends.push(PortEndpoint::new(Box::new(Tap::reader(port)), 0));
            plan.inputs.push(PortInput::fanned(plan.ends.len() - 1, fans.len()));
        }
        fans.push(fan(o.readers, &|app| apps[app].desc.cluster, &hashes));
    }
    Arc::new(fans)
}

/// The MAC address of an interface.
fn mac_of(name: &str) -> Option<[u8; 6]> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/address")).ok()?;
    let bytes: Vec<u8> = text.trim().split(':').map(|b| u8::from_str_radix(b, 16)).collect::<Result<_, _>>().ok()?;
    bytes.try_into().ok()
}

/// One instance of a port of the app, with the port's targets.
#[derive(Clone, Copy)]
struct PortInstance<'a> {
    port: usize,
    instance: usize,
    targets: &'a PortTargets,
}

struct Opening<'a> {
    app: &'a App,
    number: usize,
    options: &'a Options,
    plans: Vec<CorePlan>,
    region: Arc<Region>,
    style: Style,
    /// The first capture's way of being written.
    first: Option<Style>,
    capture: Option<u64>,
    writes: bool,
    /// Of the first interface: frames for it are the host's.
    mac: Option<[u8; 6]>,
    guarded: &'a Guarded,
    /// For several apps: their shared ports, and the one being opened.
    shared: Option<SharedInputs>,
    opening: Option<Opened>,
}

type Done = Result<(), String>;

impl Opening<'_> {
    /// Puts the port's name before an error.
    fn at(&mut self, p: usize, i: usize, f: impl FnOnce(&mut Self) -> Done) -> Result<(), Error> {
        let name = &self.app.desc.ports[p].name;
        let n = self.plans[0].routes[p].len();
        let name = if n > 1 { format!("{name}[{i}]") } else { name.clone() };
        f(self).map_err(|e| Error::Param(format!("port `{name}`: {e}")).at(self.options.origin(&self.app.desc, p)))
    }

    /// Opens a port that is not open yet. Of several apps, the others get ends of the same port.
    fn once(&mut self, at: PortInstance, t: &PortTarget, open: impl FnOnce(&mut Self, PortInstance) -> Done) -> Done {
        let PortInstance { port: p, instance: i, targets: port } = at;
        let reads = port.handler.is_some();
        let common = match t.engine {
            Carrier::Nic | Carrier::AfPacket | Carrier::AfXdp | Carrier::Tun | Carrier::Tap | Carrier::Kernel => true,
            // To write them is another thing than to read them.
            Carrier::Udp | Carrier::Memory | Carrier::Pcap => reads,
            Carrier::Null | Carrier::Loop | Carrier::Queue | Carrier::Crossing => false,
        };
        let Some(shared) = self.shared.as_ref().filter(|_| common) else { return open(self, at) };
        let (found, read) = (shared.opened.iter().position(|o| o.0 == *t), shared.read.contains(t));
        match found {
            Some(k) => self.attach(k, p, i),
            None => {
                self.opening = Some(Opened {
                    opened_as: (p as u16, i as u16),
                    ends: Vec::new(),
                    ways: Vec::new(),
                    capture: None,
                    style: None,
                    readers: Vec::new(),
                });
                let targets = PortTargets { handler: port.handler.or(read.then_some(0)), ..port.clone() };
                let done = open(self, PortInstance { targets: &targets, ..at });
                let Some(mut opened) = self.opening.take() else { return done };
                done?;
                let way = |(core, plan): (usize, &CorePlan)| match plan.routes[p][i] {
                    Route::Here(at) => {
                        opened.ends.iter().position(|e| (e.0, e.1) == (core, at)).map_or(SendsBy::Nowhere, SendsBy::End)
                    }
                    Route::Core(core) => SendsBy::Core(core),
                    Route::Segment(_) | Route::Nowhere => SendsBy::Nowhere,
                };
                opened.ways = self.plans.iter().enumerate().map(way).collect();
                self.shared.iter_mut().for_each(|s| s.opened.push((t.clone(), opened.clone())));
            }
        }
        let member = |handler: u32| Member {
            app: self.number,
            port: p as u16,
            instance: i as u16,
            handler,
            does: self.app.desc.handlers[handler as usize].frames,
        };
        let member = port.handler.map(member);
        if let Some((_, opened)) = self.shared.iter_mut().flat_map(|s| &mut s.opened).find(|o| o.0 == *t) {
            opened.readers.extend(member);
        }
        Ok(())
    }

    /// Gives this app ends of a port that another app has opened.
    fn attach(&mut self, k: usize, p: usize, i: usize) {
        let Some(o) = self.shared.as_ref().map(|s| s.opened[k].1.clone()) else { return };
        self.begins(o.capture, o.style);
        let mut at = Vec::new();
        for (core, _, port) in &o.ends {
            let ends = &mut self.plans[*core].ends;
            ends.push(PortEndpoint::new(Box::new(Tap::sender(port.clone(), (p as u16, i as u16), o.opened_as)), p));
            at.push(ends.len() - 1);
        }
        for (plan, way) in self.plans.iter_mut().zip(&o.ways) {
            plan.routes[p][i] = match *way {
                SendsBy::End(e) => Route::Here(at[e]),
                SendsBy::Core(core) => Route::Core(core),
                SendsBy::Nowhere => Route::Nowhere,
            };
        }
    }

    /// Whether this process has a port.
    fn is_here(&self, p: usize) -> bool {
        self.app.desc.ports[p].kind.is_inside() || self.options.side().has_port(&self.app.desc, p)
    }

    /// A port of the other process: when its frames begin, and how they are written.
    fn look(&mut self, at: PortInstance, t: &PortTarget) -> Done {
        match t.engine {
            Carrier::Pcap if at.targets.handler.is_some() => {
                let mut reader = Reader::open(Path::new(&t.name))?;
                self.begins(reader.peek().map(|n| n.time), Some(reader.style()));
            }
            Carrier::Memory if at.targets.handler.is_some() => {
                let first = preload(&t.name)?.index.iter().map(|f| f.2).min().filter(|t| *t != 0);
                self.begins(first, None);
            }
            _ => {}
        }
        Ok(())
    }

    fn read_capture(&mut self, at: PortInstance, t: &PortTarget) -> Done {
        let mut reader = Reader::open(Path::new(&t.name))?;
        let begins = at.targets.handler.map_or(Begins::Any, |h| self.app.desc.handlers[h as usize].begins);
        let (found, expected) = match (reader.style().link, begins) {
            (LinkType::Ip, Begins::Ethernet) => {
                ("IP", "Ethernet (`as IpPacket` behind a port takes frames that begin with IP)")
            }
            (LinkType::Ethernet, Begins::Ip) => {
                ("Ethernet", "IP (`as Packet` behind a port takes frames that begin with Ethernet)")
            }
            _ => ("", ""),
        };
        if !found.is_empty() {
            return Err(format!("the frames of {} begin with {found}, those of this port with {expected}", t.name));
        }
        self.begins(reader.peek().map(|n| n.time), Some(reader.style()));
        reader.live();
        let core = self.home(at.port).unwrap_or(0);
        self.input(core, at, Box::new(pcap::CaptureInput(reader)), false);
        Ok(())
    }

    /// Notes the start time of the input, and how the first capture is written.
    fn begins(&mut self, time: Option<u64>, style: Option<Style>) {
        if let Some(style) = style {
            if self.first.is_none() {
                self.first = Some(style);
                self.style = style;
            }
            // The finest resolution is kept.
            self.style.nanos |= style.nanos;
        }
        self.capture = self.capture.into_iter().chain(time).min().or(style.map(|_| 0));
        if let Some(o) = &mut self.opening {
            (o.capture, o.style) = (time, style);
        }
    }

    /// The core that alone reads a port: that of its handler's segment.
    fn home(&self, p: usize) -> Option<usize> {
        let handler = frame_handler(&self.app.desc, p)?;
        let segment = self.app.desc.handlers[handler as usize].segment?;
        self.cores_of(segment).next()
    }

    /// A core, or, if the other process has it, the first one of this process.
    fn local(&self, core: usize) -> usize {
        let here = match self.options.side() {
            ProcessSide::All => return core,
            side => side.cores(&self.app.desc),
        };
        if here.get(core) == Some(&true) {
            core
        } else {
            here.iter().position(|h| *h).unwrap_or(core)
        }
    }

    /// The cores of a segment.
    fn cores_of(&self, segment: u32) -> impl Iterator<Item = usize> + Clone {
        cores_of(&self.app.desc, segment)
    }

    fn input(&mut self, core: usize, at: PortInstance, end: Box<dyn FramePort>, steered: bool) -> usize {
        let PortInstance { port: p, instance: i, targets: port } = at;
        let home = self.home(p);
        let steered = steered || home.is_some();
        let plan = &mut self.plans[core];
        let at = plan.ends.len();
        let Some(opening) = &mut self.opening else {
            plan.ends.push(PortEndpoint::new(end, p));
            let home = home.unwrap_or(core);
            if let Some(handler) = port.handler.filter(|_| home == core) {
                plan.inputs.push(PortInput::new(at, p as u16, i as u16, handler, steered));
            }
            return at;
        };
        let common = Common::new(end);
        opening.ends.push((core, at, common.clone()));
        plan.ends.push(PortEndpoint::new(Box::new(Tap::sender(common, opening.opened_as, opening.opened_as)), p));
        at
    }

    /// An end that one core has: the others send through it.
    fn alone(&mut self, core: usize, at: PortInstance, end: Box<dyn FramePort>) {
        let core = self.home(at.port).unwrap_or_else(|| self.local(core));
        let here = self.input(core, at, end, false);
        for (k, plan) in self.plans.iter_mut().enumerate() {
            plan.routes[at.port][at.instance] = if k == core { Route::Here(here) } else { Route::Core(core) };
        }
    }

    /// An end for each core.
    fn each(
        &mut self,
        at: PortInstance,
        steered: bool,
        mut end: impl FnMut(usize) -> Result<Box<dyn FramePort>, String>,
    ) -> Done {
        for core in 0..self.plans.len() {
            let here = self.input(core, at, end(core)?, steered);
            self.plans[core].routes[at.port][at.instance] = Route::Here(here);
        }
        Ok(())
    }

    fn open(&mut self, at: PortInstance, t: &PortTarget) -> Done {
        let PortInstance { port: p, instance: i, targets: port } = at;
        let (name, cores) = (t.name.as_str(), self.plans.len());
        let core = i % cores;
        match t.engine {
            Carrier::Pcap => {
                let writer = Writer::create(Path::new(name), self.style)?;
                self.writes = true;
                self.alone(0, at, Box::new(pcap::Output { writer, live: self.capture.is_none() }));
                Ok(())
            }
            Carrier::Queue => {
                let targets = PortTargets { handler: None, ..port.clone() };
                let at = PortInstance { targets: &targets, ..at };
                self.each(at, true, |_| Ok(Box::new(Queue::new(depth(name)))))
            }
            Carrier::Crossing => {
                self.open_crossing(p, i);
                Ok(())
            }
            Carrier::Null => self.each(at, true, |_| Ok(Box::new(Null))),
            Carrier::Loop => {
                self.each(at, true, |_| Ok(Box::<Loop>::default()))?;
                let inputs = self.plans.iter_mut().filter_map(|plan| plan.inputs.last_mut());
                inputs.filter(|input| usize::from(input.port) == p).for_each(|input| input.looped = true);
                Ok(())
            }
            Carrier::Memory => self.open_memory(at, name),
            Carrier::Tun | Carrier::Tap | Carrier::Kernel => {
                let kind = match t.engine {
                    Carrier::Tun => Kind::Tun,
                    Carrier::Tap => Kind::Tap,
                    _ => Kind::Kernel,
                };
                let tun = Tun::open(name, kind, self.mac.filter(|_| kind == Kind::Kernel))?;
                self.alone(core, at, Box::new(tun));
                Ok(())
            }
            Carrier::Udp => {
                let udp = Udp::open(name, port.handler.is_some(), (p as u16, i as u16))?;
                self.alone(core, at, Box::new(udp));
                Ok(())
            }
            Carrier::AfPacket => {
                if port.handler.is_some() {
                    self.guarded.tell(name);
                }
                self.open_packet(at, name)
            }
            Carrier::AfXdp => self.open_xdp(at, name),
            Carrier::Nic => match self.open_xdp(at, name) {
                Err(e) if self.hook(at).is_some() => Err(e),
                Err(e) if afxdp::exists(name) => {
                    if port.handler.is_none() {
                        log::warn!(target: "wireloom", "{name}: no AF_XDP ({e}); using AF_PACKET");
                        return self.open_packet(at, name);
                    }
                    if let Some(refusal) = self.guarded.refusal(name, &e) {
                        return Err(refusal);
                    }
                    log::warn!(target: "wireloom", "{name}: no AF_XDP ({e}); using AF_PACKET: {TAKES_ALL}");
                    self.open_packet(at, name)
                }
                done => done,
            },
        }
    }

    /// A ring from each core of a segment that sends to the queue. The instances are dealt out to
    /// the cores of its handler's segment.
    fn open_crossing(&mut self, p: usize, i: usize) {
        let Some(plan) = crossing::QueueInstance::of(self.app, p).and_then(|plans| plans.into_iter().nth(i)) else {
            return;
        };
        let Some(home) = home_of(&self.app.desc, &plan) else { return };
        let senders = self.app.desc.ports[p].senders.clone();
        let mut from: BTreeSet<usize> = senders.iter().flat_map(|s| self.cores_of(*s)).collect();
        if senders.iter().any(|s| self.is_hooked(*s)) {
            from.extend(self.takers());
        }
        let joint = self.options.joint.clone();
        for from in from {
            if let Some((joint, way)) = joint.as_ref().and_then(|j| Some((j, j.layout.way(p, i, from)?))) {
                let carried = Carried::of(&self.app.desc, p);
                let out = joint.layout.ways[way].to_card == (joint.side == ProcessSide::Cpu);
                if out {
                    let k = self.plans[from].crossings.join_out(
                        home,
                        LinkOut::new(joint, way, carried, self.region.clone()),
                        &plan,
                    );
                    self.plans[from].routes[p][i] = Route::Segment(k);
                } else {
                    self.plans[home].crossings.join_in(from, LinkIn::new(joint, way, carried), &plan);
                }
                continue;
            }
            let mut all: Vec<&mut Crossings> = self.plans.iter_mut().map(|plan| &mut plan.crossings).collect();
            let k = Crossings::join(&mut all, from, home, &plan);
            self.plans[from].routes[p][i] = Route::Segment(k);
        }
    }

    fn open_packet(&mut self, at: PortInstance, name: &str) -> Done {
        let PortInstance { port: p, targets: port, .. } = at;
        let cores = self.plans.len();
        let receives = port.handler.is_some();
        // Sockets of one group share the interface's frames.
        // Another app of this process that opens the interface is another group.
        static OPENED: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
        let number = OPENED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let home = self.home(p);
        let group =
            (cores > 1 && home.is_none()).then(|| (std::process::id() as u16).wrapping_mul(31).wrapping_add(number));
        // All apps that share the port would have to support it.
        let offload =
            self.app.settings.ports[p].options.offload && self.opening.is_none() && self.options.joint.is_none();
        if offload {
            self.region.keep_offloads();
        }
        let reads = |core: usize| receives && home.is_none_or(|h| h == core);
        self.each(at, false, |core| Ok(Box::new(AfPacket::open(name, reads(core), group, offload)?)))
    }

    /// Each queue goes to a core; a core without one sends through another's.
    fn open_xdp(&mut self, at: PortInstance, name: &str) -> Done {
        let PortInstance { port: p, instance: i, targets: port } = at;
        let cores = self.plans.len();
        let region = self.region.clone();
        if let Some(hooked) = self.hook(at) {
            let ring = hooked.ring.as_ref().filter(|_| i == 0).map(HookRing::open).transpose();
            let ring = ring.map_err(|e| format!("cannot map the ring of `{name}`: {e}"))?;
            return self.open_hooked(at, AfXdp::open_hooked(name, &region, &hooked)?, ring);
        }
        let sockets = AfXdp::open_all(name, &region, port.handler.is_some())?;
        for (queue, socket) in sockets.into_iter().enumerate() {
            let core = self.home(p).unwrap_or_else(|| self.local(queue % cores));
            let here = self.input(core, at, Box::new(socket), false);
            let route = &mut self.plans[core].routes[p][i];
            if *route == Route::Nowhere {
                *route = Route::Here(here);
            }
        }
        self.others_send_through(at, self.home(p).unwrap_or_else(|| self.local(0)));
        Ok(())
    }

    /// Cores without an end of a port send through another core's.
    fn others_send_through(&mut self, at: PortInstance, core: usize) {
        for route in self.plans.iter_mut().map(|plan| &mut plan.routes[at.port][at.instance]) {
            if *route == Route::Nowhere {
                *route = Route::Core(core);
            }
        }
    }

    /// The program in front of a port's interface.
    fn hook(&self, at: PortInstance) -> Option<Hooked> {
        self.options.hooked.iter().find(|h| (h.port, h.instance) == (at.port, at.instance)).cloned()
    }

    /// Whether handlers of a segment run in the hook.
    fn is_hooked(&self, segment: u32) -> bool {
        self.app.desc.handlers.iter().any(|h| h.segment == Some(segment) && h.on == HandlerOn::Elsewhere)
    }

    /// The cores that take the frames of programs in the hook. If all of them go to one core, it is
    /// that one, so that they need not change the core. Else it is a core of the hook's segment: no
    /// segment that gets frames sends to it.
    fn takers(&self) -> Vec<usize> {
        let desc = &self.app.desc;
        if desc.segments.is_empty() {
            return (0..self.plans.len()).collect();
        }
        let fed = |p: &usize| desc.ports[*p].senders.iter().any(|s| self.is_hooked(*s));
        let home = |p: usize| desc.handlers[frame_handler(desc, p)? as usize].segment;
        let to: BTreeSet<u32> = (0..desc.ports.len()).filter(fed).filter_map(home).collect();
        let hooked = (0..desc.segments.len() as u32).find(|s| self.is_hooked(*s));
        let one = to.first().copied().filter(|s| to.len() == 1 && self.cores_of(*s).count() == 1);
        // The hook belongs to the process of the CPU.
        let one = one.filter(|s| !desc.segments[*s as usize].nic);
        one.or(hooked).map_or(vec![0], |s| self.cores_of(s).take(1).collect())
    }

    /// Each queue goes to a core, as in `open_xdp`. The ring goes to the first of them: in an app
    /// with segments there is one only.
    fn open_hooked(&mut self, at: PortInstance, sockets: Vec<AfXdp>, ring: Option<HookRing>) -> Done {
        let PortInstance { port: p, instance: i, targets: port } = at;
        let takers = self.home(p).map_or_else(|| self.takers(), |core| vec![core]);
        if let Some(ring) = ring {
            let plan = &mut self.plans[takers[0]];
            plan.ends.push(PortEndpoint::new(Box::new(ring), p));
            plan.inputs.push(PortInput::hooked(plan.ends.len() - 1, p as u16, i as u16, port.handler, true));
        }
        for (queue, socket) in sockets.into_iter().enumerate() {
            let core = takers[queue % takers.len()];
            let (plan, alone) = (&mut self.plans[core], !self.app.desc.segments.is_empty());
            let end = plan.ends.len();
            plan.ends.push(PortEndpoint::new(Box::new(socket), p));
            plan.inputs.push(PortInput::hooked(end, p as u16, i as u16, port.handler, alone));
            let route = &mut plan.routes[p][i];
            if *route == Route::Nowhere {
                *route = Route::Here(end);
            }
        }
        self.others_send_through(at, takers[0]);
        Ok(())
    }

    /// The frames are dealt out to the cores beforehand, as an interface with as many queues would
    /// do.
    fn open_memory(&mut self, at: PortInstance, name: &str) -> Done {
        let PortInstance { port: p, targets: port, .. } = at;
        let (frames, sink) = match self.options.memory.get(name) {
            Some((f, s)) => (f.clone(), s.clone()),
            None if port.handler.is_none() => (Frames::default(), None),
            None => (preload(name)?, None),
        };
        if port.handler.is_some() {
            let first = frames.index.iter().map(|f| f.2).min().filter(|t| *t != 0);
            self.begins(first, None);
        }
        let (cores, packets) = (self.plans.len(), self.app.program.packets());
        let of = |frame: &[u8]| {
            let hash = packets.and_then(|x| x.hash(p as u32, frame));
            core_of(hash.unwrap_or_else(|| flow_hash(frame)), cores)
        };
        let one_queue = (frames.one_queue || self.home(p).is_some()) && port.handler.is_some();
        if one_queue {
            self.alone(0, at, Box::new(MemoryPort::new(frames, sink, 0)));
            return Ok(());
        }
        self.each(at, true, |core| {
            let own = if cores == 1 { frames.clone() } else { frames.filter(|f| of(f) == core) };
            Ok(Box::new(MemoryPort::new(own, sink.clone(), core)))
        })
    }
}

/// `FILE` or `FILE*ROUNDS`: a capture that is loaded as a whole and replayed, without its times.
fn preload(name: &str) -> Result<Frames, String> {
    let (file, rounds) = match name.rsplit_once('*') {
        Some((f, n)) => (f, n.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("`{n}` is no number of rounds"))?),
        None => (name, 1),
    };
    Ok(Frames { rounds, ..Frames::load(Path::new(file))? })
}
