//! `--place xdp`: handlers of packets in the kernel's XDP hook, the rest on the CPU.
//!
//! In: the module of the app that is to run, and its settings. Out: [`Placed`], the programs that
//! the kernel has accepted. The CPU's program keeps all of its handlers. Those that the hook runs
//! are [`HandlerOn::Elsewhere`] for the runtime. Ports that the CPU neither reads nor sends to are
//! bound to nothing. A handler that cannot run in the hook may have a filter there: then the CPU
//! runs it for the frames that the filter leaves.

use crate::args::{self, XdpMode};
use crate::{engine, serve, Failure};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use wireloom_codegen_c::xdp::{emit, QUEUES};
use wireloom_interp::OutsideTable;
use wireloom_ir::core_partition::{Resource, Uses};
use wireloom_ir::desc::{Desc, FrameEngine, HandlerOn, ParamValue, PortKind};
use wireloom_ir::ops::Device;
use wireloom_ir::placement::{self, obstacles, specialise, Obstacle};
use wireloom_ir::{HandlerId, Module, On, PortId, Span, Table, TableId, TableKind};
use wireloom_runtime::log_lines::{log_line, STATEMENT};
use wireloom_runtime::packet::nic::Role;
use wireloom_runtime::packet::{hook_ring, Gives, Hooked};
use wireloom_runtime::{params, Outside, Program};
use wireloom_xdp::{Mode, Object, Settings, Verdict};

/// A handler that runs in the hook.
struct Part {
    handler: HandlerId,
    port: PortId,
    /// In the order of the port's instances.
    interfaces: Vec<String>,
    /// It is the filter of a handler that the CPU runs.
    filter: bool,
}

/// The handlers of a run, by device.
struct Choice {
    parts: Vec<Part>,
    /// Handlers of interfaces that stay on the CPU.
    rest: Vec<Part>,
}

/// The handlers of a run that the hook runs, and their programs.
#[derive(Default)]
pub struct Placed {
    parts: Vec<Part>,
    object: Option<Arc<Mutex<Object>>>,
    /// Interfaces from which the process takes frames.
    hooked: Vec<Hooked>,
    /// The app's name.
    app: String,
}

/// How often the process looks for lines of the log, and how many it takes at a time: tables wait
/// meanwhile.
const LOOK: Duration = Duration::from_millis(20);
const LINES: usize = 256;

/// Logs lines of the hook; whether there may be more.
fn log_lines(object: &Mutex<Object>, app: &str) -> bool {
    let lines: Vec<Vec<u8>> = {
        let mut object = locked(object);
        std::iter::from_fn(|| object.line()).take(LINES).collect()
    };
    for line in &lines {
        log_line(app, STATEMENT, line);
    }
    lines.len() == LINES
}

/// Logs them for as long as the process lives.
fn keep_logging(object: Arc<Mutex<Object>>, app: String) {
    if locked(&object).source().lines.is_empty() {
        return;
    }
    let work = move || loop {
        if !log_lines(&object, &app) {
            std::thread::sleep(LOOK)
        }
    };
    engine::without_signals(|| std::thread::Builder::new().name("lines".into()).spawn(work).ok());
}

fn locked(object: &Mutex<Object>) -> MutexGuard<'_, Object> {
    object.lock().unwrap_or_else(|e| e.into_inner())
}

/// Frees expired entries now and then, for as long as the process lives. `only`: the interface
/// whose one receiving queue brings all frames. If it gets more of them, packets take locks.
fn sweep(object: Arc<Mutex<Object>>, only: Option<String>) {
    if only.is_none() && !locked(&object).source().tables.iter().any(|t| t.idle > 0) {
        return;
    }
    let work = move || loop {
        std::thread::sleep(Duration::from_secs(1));
        let tables = locked(&object).source().tables.len();
        (0..tables).for_each(|t| locked(&object).sweep(t));
        if only.as_ref().is_some_and(|name| wireloom_xdp::receiving_queues(name) != 1) {
            locked(&object).set_one_queue(false)
        }
        locked(&object).settle();
    };
    engine::without_signals(|| std::thread::Builder::new().name("sweep".into()).spawn(work).ok());
}

/// Frames that the hook has received, by what became of them.
fn fates(o: &Object) -> [(&'static str, u64); 5] {
    let (given, unheard) = (o.given(), o.unheard());
    let (sent, dropped) = (o.fate(Verdict::Tx) + o.fate(Verdict::Redirect), o.fate(Verdict::Drop));
    [
        ("kernel", o.fate(Verdict::Pass)),
        ("sent", sent.saturating_sub(given)),
        ("process", given),
        ("no_socket", unheard),
        ("dropped", (dropped + o.fate(Verdict::Aborted)).saturating_sub(unheard)),
    ]
}

/// The hook's part of the app, for the runtime.
struct Beside(Arc<Mutex<Object>>);

impl Outside for Beside {
    fn counter(&self, counter: usize) -> u64 {
        locked(&self.0).counter(counter)
    }

    fn fates(&self) -> Vec<(&'static str, u64)> {
        fates(&locked(&self.0)).to_vec()
    }

    fn lines_lost(&self) -> u64 {
        locked(&self.0).lines_lost()
    }

    fn faults(&self) -> Vec<(u32, u32, u64)> {
        locked(&self.0).faults_by_place()
    }

    fn table_stats(&self, table: usize) -> Option<[u64; 8]> {
        let object = locked(&self.0);
        let index = object.table(TableId(table as u32))?;
        if object.source().tables[index].kind != TableKind::Exact {
            return None;
        }
        let [hits, misses, inserts, evictions, expired, rejected] = object.statistics(index);
        let entries = object.entries(index);
        let t = &object.source().tables[index];
        Some([entries, hits, misses, inserts, evictions, expired, rejected, entries * (t.key + t.value) as u64])
    }
}

/// The handlers of packets of a module.
fn handlers(m: &Module) -> impl Iterator<Item = (HandlerId, PortId)> + '_ {
    m.handlers.iter().enumerate().filter_map(|(n, h)| match h.on {
        On::Frame { port, .. } => Some((HandlerId(n as u32), port)),
        _ => None,
    })
}

/// The module with the values of parameters in the place of their names.
fn with_values(m: &Module, sets: &[(String, String)]) -> Result<Module, Failure> {
    let values: Vec<ParamValue> = params::resolve(&m.desc(), sets)?.values.clone();
    let mut special = m.clone();
    let all: Vec<HandlerId> = handlers(m).map(|h| h.0).collect();
    all.into_iter().for_each(|h| specialise(&mut special, h, &values));
    Ok(special)
}

fn settings(m: &Module, set: &[String]) -> Result<Vec<(String, String)>, Failure> {
    Ok(serve::sets(&[&m.desc()], set.into())?.pop().unwrap_or_default())
}

/// `app.loom:7`
fn place_of(m: &Module, span: Span) -> String {
    let file = m.files.get(span.file as usize).map_or("", String::as_str);
    format!("{file}:{}", span.line.max(1))
}

fn line_of(m: &Module, o: &Obstacle) -> String {
    format!("{}: {} [{}]", place_of(m, o.span), o.what, o.code)
}

/// `wireloom emit ir --place xdp`: the module with the devices of its handlers.
pub fn ir(m: &Module, set: &[String]) -> Result<String, Failure> {
    let mut special = with_values(m, &settings(m, set)?)?;
    placement::run(&mut special);
    Ok(wireloom_ir::text::print(&special))
}

/// `wireloom emit bpf`.
pub fn text(m: &Module, set: &[String]) -> Result<String, Failure> {
    let mut special = with_values(m, &settings(m, set)?)?;
    let mut why = String::new();
    for (h, _) in handlers(&special) {
        for o in &obstacles(&special, h) {
            let _ = write!(why, "\n  {}", line_of(&special, o));
        }
    }
    let candidates = placement::candidates(&special);
    let mut all = placement::together(&special, &candidates);
    let rest: Vec<HandlerId> = candidates.into_iter().filter(|h| !all.contains(h)).collect();
    all.extend(placement::split(&mut special, &rest).iter().map(|s| s.filter));
    let names = settings_of_ports(m, set)?;
    let instances = |p: PortId| names.ports.get(p.index()).map_or(1, |p| p.names.len()) as u32;
    match emit(&special, &all, &instances).filter(|_| !all.is_empty()) {
        Some(source) => Ok(source.text),
        None if why.is_empty() => Err(Failure::Said(format!("app `{}` has no handler of packets", m.app))),
        None => Err(Failure::Said(format!("no handler of app `{}` can run in XDP:{why}", m.app))),
    }
}

fn settings_of_ports(m: &Module, set: &[String]) -> Result<params::Settings, Failure> {
    Ok(params::resolve(&m.desc(), &settings(m, set)?)?)
}

/// `wireloom explain --place xdp`: for each handler of packets, what keeps it on the CPU.
pub fn report(m: &Module, set: &[String]) -> Result<String, Failure> {
    let special = with_values(m, &settings(m, set)?)?;
    let mut out = format!("app {}\n", m.app);
    let kept: Vec<HandlerId> =
        handlers(&special).map(|h| h.0).filter(|h| !obstacles(&special, *h).is_empty()).collect();
    let filters = placement::split(&mut special.clone(), &kept);
    for (h, _) in handlers(&special) {
        let (name, found) = (&special.handlers[h.index()].name, obstacles(&special, h));
        let device = match found.is_empty() {
            true => "xdp",
            false if filters.iter().any(|f| f.handler == h) => "cpu, behind a filter in xdp",
            false => "cpu",
        };
        let _ = writeln!(out, "  on {name}: {device}");
        for o in &found {
            let hint = if o.hint.is_empty() { String::new() } else { format!("; {}", o.hint) };
            let _ = writeln!(out, "    {}{hint}", line_of(&special, o));
        }
    }
    let in_hook: Vec<(HandlerId, PortId)> = handlers(&special).filter(|h| !kept.contains(&h.0)).collect();
    let ports = settings_of_ports(m, set)?;
    let interfaces = |p: PortId| ports.ports.get(p.index()).map_or(1, |p| p.names.len());
    let several = in_hook.iter().map(|h| interfaces(h.1)).sum::<usize>() > 1;
    for (n, t) in special.tables.iter().enumerate() {
        let table = Resource::Table(TableId(n as u32));
        if in_hook.iter().any(|h| Uses::of(&special, &special.handlers[h.0.index()]).touches(table)) {
            let _ = writeln!(out, "  table {}: {}", t.name, sharing(t, several));
        }
    }
    Ok(out)
}

/// How processors share a table in the hook. `several`: frames come from several interfaces.
fn sharing(t: &Table, several: bool) -> &'static str {
    match t.kind {
        TableKind::Exact | TableKind::Array if t.per_core => {
            "no locks: each processor has a part of its own, and packets see this part only; timers, signals and commands see sums"
        }
        TableKind::Exact | TableKind::Array if several => {
            "a lock at each change, since frames come from several interfaces"
        }
        TableKind::Exact | TableKind::Array => {
            "no locks behind one receiving queue in native mode; else a lock at each change, since queues have processors of their own"
        }
        TableKind::Lpm | TableKind::Wildcard => "no locks: packets only read it",
        TableKind::Bloom | TableKind::CountMin | TableKind::HyperLogLog => "no locks: atomic changes of words",
        TableKind::Ring => "the kernel's ring, one for all processors",
    }
}

/// The interfaces that a port is bound to. `Err`: what it is bound to instead.
fn interfaces(m: &Module, port: PortId, names: &[String], bind: &[(String, String)]) -> Result<Vec<String>, String> {
    let p = &m.ports[port.index()];
    let text = match bind.iter().rev().find(|b| b.0 == p.name) {
        Some((_, text)) => text.strip_prefix("nic:").ok_or_else(|| text.clone())?.to_string(),
        None => names.join(","),
    };
    let all: Vec<String> = text.split(',').map(str::to_string).collect();
    match all.iter().any(String::is_empty) {
        true => Err(format!("`{text}`, no interface")),
        false => Ok(all),
    }
}

/// An app and the settings of its run.
struct AppRun<'a> {
    m: &'a Module,
    ports: params::Settings,
    bind: Vec<(String, String)>,
    mode: XdpMode,
}

impl AppRun<'_> {
    fn interfaces(&self, port: PortId) -> Result<Vec<String>, String> {
        match self.ports.ports.get(port.index()) {
            Some(p) => interfaces(self.m, port, &p.names, &self.bind),
            None => Ok(Vec::new()),
        }
    }

    fn instances(&self, port: PortId) -> u32 {
        let names = self.ports.ports.get(port.index()).map_or(1, |p| p.names.len());
        self.interfaces(port).map_or(names, |all| all.len().max(1)) as u32
    }

    /// Ports that are bound to something else than an interface are the process's.
    fn bind(&self, special: &mut Module) {
        for n in 0..special.ports.len() {
            let bound = self.interfaces(PortId(n as u32)).is_ok();
            if let PortKind::Frames { engine: engine @ FrameEngine::Nic, .. } = &mut special.ports[n].kind {
                *engine = if bound { FrameEngine::Nic } else { FrameEngine::Memory };
            }
        }
    }

    /// The handlers that go to the hook. `every`: those that name no device, too. Handlers are
    /// named whose ports are no interfaces.
    fn choose(&self, special: &Module, every: bool) -> Result<Choice, Failure> {
        let asked = |h: HandlerId| self.m.handlers[h.index()].device == Device::Xdp;
        let mut parts = Vec::new();
        let outside = |p: PortId| !self.m.ports[p.index()].kind.is_inside();
        let on_nic = |h: HandlerId| {
            let segment = self.m.handlers[h.index()].segment;
            segment.is_some_and(|s| self.m.segments[s.index()].device == Device::Nic)
        };
        let all = handlers(special).filter(|h| outside(h.1) && !on_nic(h.0));
        for (handler, port) in all.filter(|h| every || asked(h.0)) {
            match self.interfaces(port) {
                Ok(interfaces) => parts.push(Part { handler, port, interfaces, filter: false }),
                Err(other) => {
                    let name = &special.handlers[handler.index()].name;
                    eprintln!("wireloom: on {name} stays on the CPU: its port is bound to {other}");
                }
            }
        }
        let candidates: Vec<HandlerId> = parts.iter().map(|p| p.handler).collect();
        let obstacle = |h: HandlerId| placement::obstacles_among(special, h, &candidates).into_iter().next();
        if let Some(o) = candidates.iter().filter(|h| asked(**h)).find_map(|h| obstacle(*h)) {
            return Err(Failure::Said(line_of(special, &o)));
        }
        let (rest, parts) = parts.into_iter().partition(|p| obstacle(p.handler).is_some());
        Ok(Choice { parts, rest })
    }

    /// Gives filters to handlers that stay on the CPU. All of them are named.
    fn filters(&self, special: &mut Module, choice: Choice) -> Vec<Part> {
        let Choice { mut parts, rest } = choice;
        let filters = placement::split(special, &rest.iter().map(|p| p.handler).collect::<Vec<_>>());
        let in_hook: Vec<HandlerId> = parts.iter().map(|p| p.handler).collect();
        for mut part in rest {
            let name = special.handlers[part.handler.index()].name.clone();
            if let Some(f) = filters.iter().find(|f| f.handler == part.handler) {
                eprintln!(
                    "wireloom: on {name} has a filter in XDP, the rest stays on the CPU: {}",
                    line_of(special, &f.left)
                );
                (part.handler, part.filter) = (f.filter, true);
                parts.push(part);
            } else if let Some(o) = placement::obstacles_among(special, part.handler, &in_hook).into_iter().next() {
                eprintln!("wireloom: on {name} stays on the CPU: {}", line_of(special, &o));
            }
        }
        parts
    }

    /// Compiles and loads the programs of handlers.
    fn load(&self, special: &Module, parts: &[Part]) -> Result<Object, Failure> {
        let all: Vec<HandlerId> = parts.iter().map(|p| p.handler).collect();
        let source = emit(special, &all, &|p| self.instances(p)).ok_or("internal error: a handler without a port")?;
        let mut settings = Settings::default();
        for (part, p) in parts.iter().zip(&source.programs).filter(|(_, p)| p.instances > 1) {
            let numbers = part.interfaces.iter().map(|name| wireloom_xdp::number_of(name));
            settings.interfaces.push((p.port, numbers.collect::<Result<_, _>>()?));
        }
        let mut object = Object::load(&source, &settings)?;
        let found = |port: PortId| {
            let name = &self.m.ports[port.index()].name;
            self.interfaces(port).map_err(|other| Failure::Said(format!("port `{name}` is bound to {other}")))
        };
        for (n, (port, instance)) in source.ports.iter().enumerate() {
            object.redirect(None, n as u32, &found(*port)?[*instance as usize])?;
        }
        for port in &source.broadcasts {
            for (n, name) in found(*port)?.iter().enumerate() {
                object.redirect(Some(*port), n as u32, name)?;
            }
        }
        Ok(object)
    }

    /// The interfaces whose frames may come to the process.
    fn hooked(&self, object: &Object, parts: &[Part]) -> Result<Vec<Hooked>, Failure> {
        let source = object.source();
        let words = source.entry.map(|bytes| (bytes / 8) as u8);
        let gives = match (source.target, words) {
            (Some(t), None) => Gives::To { port: t.port, instance: t.instance },
            (None, None) => Gives::Noted,
            (None, Some(words)) => Gives::Carried { words },
            (Some(t), Some(words)) => Gives::LongCarried { words, port: t.port, instance: t.instance },
        };
        let mut all = Vec::new();
        for (n, part) in parts.iter().enumerate().filter(|(n, _)| source.programs[*n].gives) {
            let sockets = Arc::new(object.sockets(n)?);
            let ring = object.ring(n)?.map(|(map, bytes)| {
                let (reader, counts) = (object.reader(), object.reader());
                // The rings of all programs count together.
                let first = all.is_empty();
                hook_ring::RingSource {
                    map: Arc::new(map),
                    bytes,
                    words: usize::from(words.unwrap_or(0)),
                    lost: Arc::new(move || if first { counts.lost() } else { 0 }),
                    bell: reader.bell(),
                    awake: Arc::new(move |awake| reader.is_awake(awake)),
                }
            });
            all.extend((0..part.interfaces.len()).map(|instance| Hooked {
                port: part.port.index(),
                instance,
                sockets: sockets.clone(),
                first: instance as u32 * QUEUES,
                queues: QUEUES,
                gives,
                copied: self.mode == XdpMode::Generic,
                ring: ring.clone(),
            }));
        }
        Ok(all)
    }
}

/// Loads the programs of all handlers that can run in the hook; the others are named.
pub fn place(modules: &[Module], sets: &[Vec<(String, String)>], args: &mut args::Run) -> Result<Placed, Failure> {
    let asked = |m: &Module| m.handlers.iter().any(|h| h.device == Device::Xdp);
    // The hook belongs to the process of the CPU, not to that of a NIC.
    if Role::is_second() || args.place.is_none() && !modules.iter().any(asked) {
        return Ok(Placed::default());
    }
    let ([m], [sets]) = (modules, sets) else {
        return Err(Failure::Said(
            "an app with handlers in XDP runs by itself: start the others in a process of their own".into(),
        ));
    };
    let mut special = with_values(m, sets)?;
    let (bind, ports) = (serve::frames(&args.serve)?.bind, params::resolve(&m.desc(), sets)?);
    let run = AppRun { m, ports, bind, mode: args.xdp_mode };
    run.bind(&mut special);
    let choice = run.choose(&special, args.place.is_some())?;
    let parts = run.filters(&mut special, choice);
    if parts.is_empty() {
        return Ok(Placed::default());
    }
    let object = run.load(&special, &parts)?;
    if let Some(why) = object.once() {
        eprintln!(
            "wireloom: frames of the most common headers take the general way in XDP: no second copy of their handler is possible: {why}"
        );
    }
    let hooked = run.hooked(&object, &parts)?;
    let placed = Placed { parts, object: Some(Arc::new(Mutex::new(object))), hooked, app: m.app.clone() };
    for (port, binding) in placed.unread(m, &run.bind) {
        args.serve.bind.retain(|b| b.split_once('=').is_none_or(|b| b.0 != port));
        args.serve.bind.push(binding);
    }
    Ok(placed)
}

impl Placed {
    fn has(&self, h: usize) -> bool {
        self.parts.iter().any(|p| p.handler.index() == h && !p.filter)
    }

    pub fn hook_part(&self) -> serve::HookPart {
        let interfaces = self.parts.iter().flat_map(|p| p.interfaces.clone()).collect();
        serve::HookPart { hooked: self.hooked.clone(), interfaces }
    }

    /// Ports that the CPU neither reads nor sends to are bound to nothing.
    fn unread(&self, m: &Module, bind: &[(String, String)]) -> Vec<(String, String)> {
        if self.parts.is_empty() {
            return Vec::new();
        }
        let rest = || m.handlers.iter().enumerate().filter(|(n, _)| !self.has(*n)).map(|h| h.1);
        let used = |p: PortId| {
            rest().any(|h| matches!(h.on, On::Frame { port, .. } if port == p) || Uses::of(m, h).sends.contains(&p))
                || self.hooked.iter().any(|h| h.port == p.index())
        };
        let outside = |p: &PortId| {
            matches!(m.ports[p.index()].kind, PortKind::Frames { engine: FrameEngine::Nic | FrameEngine::Kernel, .. })
        };
        let free = (0..m.ports.len() as u32).map(PortId).filter(|p| outside(p) && !used(*p));
        let bound = |name: &str| bind.iter().any(|b| b.0 == name && !b.1.starts_with("nic:") && b.1 != "kernel");
        free.map(|p| m.ports[p.index()].name.clone())
            .filter(|n| !bound(n))
            .map(|n| (n.clone(), format!("{n}=null")))
            .collect()
    }

    /// The handlers that are left for the CPU.
    pub fn rest(&self, program: Program, mut desc: Desc) -> (Program, Desc) {
        if self.parts.is_empty() {
            return (program, desc);
        }
        for (n, h) in desc.handlers.iter_mut().enumerate() {
            if self.has(n) {
                h.on = HandlerOn::Elsewhere
            }
        }
        match &self.object {
            Some(object) => (program.with_outside(Arc::new(Beside(object.clone()))), desc),
            None => (program, desc),
        }
    }

    /// The tables that the hook keeps, by their number. None: there are none.
    pub fn tables(&self, m: &Module) -> Option<Vec<Option<Arc<dyn OutsideTable>>>> {
        let all = wireloom_xdp::tables(m, self.object.as_slice());
        all.iter().any(Option::is_some).then_some(all)
    }

    /// Puts the programs in front of their interfaces; a failure ends the process.
    pub fn attach(&self, mode: XdpMode) -> impl FnOnce() + Send + 'static {
        let interfaces: Vec<Vec<String>> = self.parts.iter().map(|p| p.interfaces.clone()).collect();
        let (object, app) = (self.object.clone(), self.app.clone());
        let mode = match mode {
            XdpMode::Auto => Mode::Auto,
            XdpMode::Native => Mode::Native,
            XdpMode::Generic => Mode::Generic,
        };
        move || {
            let Some(object) = object else { return };
            let mut natively = true;
            let source = locked(&object).source().clone();
            // Frames that go on to another interface are not meant for this one's address.
            let passes_on = !source.ports.is_empty() || !source.broadcasts.is_empty();
            for (n, names) in interfaces.iter().enumerate() {
                for name in names {
                    if passes_on {
                        take_all(name)
                    }
                    natively &= attach(&mut locked(&object), n, name, mode) == Mode::Native
                }
            }
            // In generic mode and with jumbo frames some are too long for a ring, and would come
            // in another order.
            let short = |name: &String| wireloom_runtime::packet::mtu(name) <= 1500;
            locked(&object).set_ringed(natively && interfaces.iter().flatten().all(short));
            let mut all = interfaces.into_iter().flatten();
            let only = all.next().filter(|_| all.next().is_none() && natively);
            let only = only.filter(|name| wireloom_xdp::receiving_queues(name) == 1);
            locked(&object).set_one_queue(only.is_some());
            keep_logging(object.clone(), app);
            sweep(object, only);
        }
    }

    /// Tells at the end how many frames were handled.
    pub fn tell(&self) {
        let Some(object) = &self.object else { return };
        while log_lines(object, &self.app) {}
        let (o, mut names) = (locked(object), Vec::new());
        self.parts.iter().for_each(|p| names.extend(p.interfaces.iter().map(String::as_str)));
        let [(_, passed), (_, sent), (_, given), (_, unheard), (_, dropped)] = fates(&o);
        let faults: u64 = (0..o.source().faults as u16).map(|k| o.faults(k)).sum();
        let process = match self.hooked.is_empty() {
            true => String::new(),
            false => format!("{given} to the process, {unheard} without a socket, "),
        };
        eprintln!(
            "wireloom: XDP at {}: {} frames received, {passed} to the kernel, {sent} sent, {process}{dropped} dropped, {faults} faults",
            names.join(", "), passed + sent + given + unheard + dropped
        );
        if o.lines_lost() > 0 {
            eprintln!("wireloom: {} lines of the log in XDP found no room", o.lines_lost());
        }
    }
}

/// Has an interface take in frames for all addresses, for as long as the process lives.
fn take_all(interface: &str) {
    let index = wireloom_xdp::number_of(interface).unwrap_or(0);
    match wireloom_runtime::packet::promiscuous(index) {
        // The kernel closes it when the process ends, however it ends.
        Ok(socket) => std::mem::forget(socket),
        Err(e) => eprintln!("wireloom: {interface} may leave out frames for other addresses: {e}"),
    }
}

/// Puts a program in front of an interface; a failure ends the process.
fn attach(object: &mut Object, program: usize, interface: &str, mode: Mode) -> Mode {
    if wireloom_xdp::takes_tags_off(interface) {
        eprintln!(
            "wireloom: {interface} takes VLAN tags off frames: XDP does not see them (`ethtool -K {interface} rxvlan off`)"
        );
    }
    let name = object.source().programs[program].name.clone();
    match object.attach(program, interface, mode) {
        Ok(Mode::Generic) => {
            eprintln!("wireloom: {name} runs in XDP at {interface} in generic mode, which is slower than native");
            Mode::Generic
        }
        Ok(mode) => {
            eprintln!("wireloom: {name} runs in XDP at {interface}");
            mode
        }
        Err(e) => {
            eprintln!("wireloom: {e}");
            std::process::exit(1)
        }
    }
}
