//! The part of an app that runs in the kernel's XDP hook, while the app runs.
//!
//! In: loaded programs of the app's handlers, and the interfaces in front of which they run. Out:
//! [`Placed`]. The CPU's program keeps all of its handlers. Those that the hook runs are
//! [`HandlerOn::Elsewhere`] for the runtime. Ports that the CPU neither reads nor sends to are
//! bound to nothing. A handler that cannot run in the hook may have a filter there: then the CPU
//! runs it for the frames that the filter leaves.

use super::args::XdpMode;
use super::hook_object::locked;
use super::{faults_told, hook_notices, say, without_signals, Failure, HookPart};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wireloom_codegen_c::xdp::{XdpSource, XdpTable, PARAM_WORDS, QUEUES};
use wireloom_interp::OutsideTable;
use wireloom_ir::core_partition::Uses;
use wireloom_ir::desc::{Desc, FrameEngine, HandlerOn, ParamType, PortKind};
use wireloom_ir::{HandlerId, Module, On, PortId, TableId, TableKind};
use wireloom_runtime::abi::wl_param;
use wireloom_runtime::log_lines::{log_line, STATEMENT};
use wireloom_runtime::packet::{fault_kinds, hook_ring, interfaces_of, Gives, Hooked};
use wireloom_runtime::{log_queue, params, Origin, Outside, Program};
use wireloom_xdp::{Mode, Object, Settings, Verdict};

/// A handler that runs in the hook.
pub struct Part {
    pub handler: HandlerId,
    pub port: PortId,
    /// In the order of the port's instances.
    pub interfaces: Vec<String>,
    /// It is the filter of a handler that the CPU runs.
    pub filter: bool,
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
    /// Ports that the CPU has no use for.
    unread: Vec<String>,
    /// Interfaces that the hook sends frames to.
    targets: Vec<String>,
    /// Names of faults and their places are in it.
    desc: Option<Desc>,
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
    without_signals(|| std::thread::Builder::new().name("lines".into()).spawn(work).ok());
}

/// Frees expired entries, and puts masks in order, now and then, for as long as the process lives.
/// `only`: the interface whose one receiving queue brings all frames. If it gets more of them,
/// packets take locks.
fn sweep(object: Arc<Mutex<Object>>, only: Option<String>) {
    let cared_for = |t: &XdpTable| t.idle > 0 || t.kind == TableKind::Wildcard;
    if only.is_none() && !locked(&object).source().tables.iter().any(cared_for) {
        return;
    }
    let work = move || loop {
        std::thread::sleep(Duration::from_secs(1));
        let tables = locked(&object).source().tables.len();
        (0..tables).for_each(|t| locked(&object).sweep(t));
        locked(&object).sort();
        if only.as_ref().is_some_and(|name| wireloom_xdp::receiving_queues(name) != 1) {
            locked(&object).set_one_queue(false)
        }
        locked(&object).settle();
    };
    without_signals(|| std::thread::Builder::new().name("sweep".into()).spawn(work).ok());
}

/// Frames that the hook has received, by what became of them.
fn fates(o: &Object) -> [(&'static str, u64); 6] {
    let (given, unheard) = (o.given(), o.unheard());
    let (sent, dropped) = (o.fate(Verdict::Tx) + o.fate(Verdict::Redirect), o.fate(Verdict::Drop));
    let unsent: u64 = o.unsent().iter().sum();
    [
        ("kernel", o.fate(Verdict::Pass)),
        ("sent", sent.saturating_sub(given + unsent)),
        ("unsent", unsent),
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

/// The interfaces that a port is bound to. `Err`: what it is bound to instead.
fn interfaces(m: &Module, port: PortId, names: &[String], bind: &[(String, String)]) -> Result<Vec<String>, String> {
    let p = &m.ports[port.index()];
    if let Some((_, text)) = bind.iter().rev().find(|b| b.0 == p.name) {
        return interfaces_of(text).ok_or_else(|| text.clone());
    }
    match names.is_empty() || names.iter().any(String::is_empty) {
        true => Err(format!("`{}`, no interface", names.join(","))),
        false => Ok(names.to_vec()),
    }
}

/// The ports of an app in a run.
pub struct AppPorts<'a> {
    pub m: &'a Module,
    pub settings: params::Settings,
    pub bind: Vec<(String, String)>,
    pub mode: XdpMode,
}

impl AppPorts<'_> {
    pub fn interfaces(&self, port: PortId) -> Result<Vec<String>, String> {
        match self.settings.ports.get(port.index()) {
            Some(p) => interfaces(self.m, port, &p.names, &self.bind),
            None => Ok(Vec::new()),
        }
    }

    #[allow(dead_code, reason = "the compiler asks, the runtime knows")]
    pub fn instances(&self, port: PortId) -> u32 {
        let names = self.settings.ports.get(port.index()).map_or(1, |p| p.names.len());
        self.interfaces(port).map_or(names, |all| all.len().max(1)) as u32
    }

    /// The values with which the programs of handlers are loaded.
    fn values(&self, source: &XdpSource, parts: &[Part]) -> Result<Settings, Failure> {
        let params = self.settings.params.iter().zip(&self.m.params).map(|(p, of)| words_of(p, of.ty));
        let starting = || say!("compiling for the XDP hook");
        let mut values = Settings { params: params.collect(), starting: Some(starting), ..Settings::default() };
        for (part, p) in parts.iter().zip(&source.programs).filter(|(_, p)| p.instances > 1) {
            let number = |name: &String| wireloom_xdp::number_of(name).map_err(|e| self.failure(p.port, e.to_string()));
            let numbers = part.interfaces.iter().map(number);
            values.interfaces.push((p.port, numbers.collect::<Result<_, _>>()?));
        }
        values.fronted = self.mode != XdpMode::Generic
            && parts
                .iter()
                .enumerate()
                .any(|(n, part)| part.interfaces.iter().any(|name| wireloom_xdp::is_fronted(source, n, name)));
        Ok(values)
    }

    /// Says where the programs send frames to: these interfaces.
    fn connect(&self, object: &mut Object, source: &XdpSource) -> Result<Vec<String>, Failure> {
        let mut targets = Vec::new();
        let found = |port: PortId| {
            let name = &self.m.ports[port.index()].name;
            self.interfaces(port).map_err(|other| self.failure(port, format!("port `{name}` is bound to {other}")))
        };
        for (n, (port, instance)) in source.ports.iter().enumerate() {
            let name = &found(*port)?[*instance as usize];
            object.redirect(None, n as u32, name).map_err(|e| self.failure(*port, e.to_string()))?;
            targets.push(name.clone());
        }
        for port in &source.broadcasts {
            for (n, name) in found(*port)?.iter().enumerate() {
                object.redirect(Some(*port), n as u32, name).map_err(|e| self.failure(*port, e.to_string()))?;
                targets.push(name.clone());
            }
        }
        targets.sort();
        targets.dedup();
        Ok(targets)
    }

    /// Loads the programs of handlers by `load`. `bind` gets the bindings of ports that the CPU has
    /// no use for.
    pub fn placed(
        &self,
        source: &XdpSource,
        parts: Vec<Part>,
        load: impl FnOnce(&Settings) -> Result<Object, wireloom_xdp::Error>,
        bind: &mut Vec<String>,
    ) -> Result<Placed, Failure> {
        self.apart(&parts)?;
        let mut object = load(&self.values(source, &parts)?)?;
        let targets = self.connect(&mut object, source)?;
        if let Some(why) = object.once() {
            say!(
                "frames of the most common headers take the general way in XDP: no second copy of their handler is possible: {why}"
            );
        }
        let hooked = self.hooked(&object, &parts)?;
        let (object, app) = (Some(Arc::new(Mutex::new(object))), self.m.app.clone());
        let mut placed = Placed { parts, object, hooked, app, unread: Vec::new(), targets, desc: None };
        for (port, binding) in placed.unread(self.m, &self.bind) {
            bind.retain(|b| b.split_once('=').is_none_or(|b| b.0 != port));
            bind.push(binding);
            placed.unread.push(port);
        }
        Ok(placed)
    }

    /// An error of a port's targets.
    fn failure(&self, port: PortId, text: String) -> Failure {
        let (m, port) = (self.m, &self.m.ports[port.index()]);
        let (option, name) = match self.bind.iter().any(|b| b.0 == port.name) {
            true => ("bind", Some(&port.name)),
            false => ("set", Origin::param_of(&port.kind).map(|n| &m.params[n as usize].name)),
        };
        match name {
            Some(name) => Failure::Of(Origin { option, name: name.clone(), app: m.app.clone() }, text),
            None => Failure::Said(text),
        }
    }

    /// An interface runs one program of an app.
    fn apart(&self, parts: &[Part]) -> Result<(), Failure> {
        let mut taken: Vec<(&String, PortId)> = Vec::new();
        for (name, port) in parts.iter().flat_map(|p| p.interfaces.iter().map(|name| (name, p.port))) {
            if let Some((_, other)) = taken.iter().find(|t| t.0 == name) {
                let [this, other] = [port, *other].map(|p| &self.m.ports[p.index()].name);
                let text = format!(
                    "port `{this}`: port `{other}` is at `{name}`, too, and the hook of an interface runs one \
                     program; name another interface, or handle all of its frames at one port"
                );
                return Err(self.failure(port, text));
            }
            taken.push((name, port));
        }
        Ok(())
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

/// The words of a parameter, as programs in the hook read them.
fn words_of(p: &wl_param, ty: ParamType) -> [u64; PARAM_WORDS] {
    if ty != ParamType::Endpoint {
        return [p.u, 0, 0];
    }
    let half = |at: usize| p.ep.ip[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    [half(0), half(8), u64::from(p.ep.port) | u64::from(p.ep.v4) << 16]
}

impl Placed {
    fn has(&self, h: usize) -> bool {
        self.parts.iter().any(|p| p.handler.index() == h && !p.filter)
    }

    pub fn hook_part(&self) -> HookPart {
        let interfaces = self.parts.iter().flat_map(|p| p.interfaces.clone()).collect();
        HookPart { hooked: self.hooked.clone(), interfaces, unread: self.unread.clone() }
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
        let bound = |name: &str| bind.iter().any(|b| b.0 == name && interfaces_of(&b.1).is_none() && b.1 != "kernel");
        free.map(|p| m.ports[p.index()].name.clone())
            .filter(|n| !bound(n))
            .map(|n| (n.clone(), format!("{n}=null")))
            .collect()
    }

    /// The handlers that are left for the CPU.
    pub fn rest(&mut self, program: Program, mut desc: Desc) -> (Program, Desc) {
        if self.parts.is_empty() {
            return (program, desc);
        }
        self.desc = Some(desc.clone());
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
        let (object, app, targets) = (self.object.clone(), self.app.clone(), self.targets.clone());
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
            let passes_on = source.redirects();
            hook_notices::watch_redirects(object.clone(), targets.join(" or "));
            let others = targets.iter().filter(|name| !interfaces.iter().flatten().any(|own| own == *name));
            others.for_each(|name| hook_notices::tell_if_down(name));
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
            locked(&object).sort();
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
        let [(_, passed), (_, sent), (_, unsent), (_, given), (_, unheard), (_, dropped)] = fates(&o);
        let (all, mut kinds) = (o.faults_by_place(), Vec::new());
        self.desc.iter().for_each(|desc| fault_kinds::add(desc, all.iter().copied(), &mut kinds));
        let faults = faults_told(all.iter().map(|f| f.2).sum(), &kinds);
        let lost = if unsent > 0 { format!("{unsent} not taken by an interface, ") } else { String::new() };
        let process = match self.hooked.is_empty() {
            true => String::new(),
            false => format!("{given} to the process, {unheard} without a socket, "),
        };
        say!(
            "XDP at {}: {} frames received, {passed} to the kernel, {sent} sent, {lost}{process}{dropped} dropped, {faults}",
            names.join(", "),
            passed + sent + unsent + given + unheard + dropped
        );
        if o.lines_lost() > 0 {
            say!("{} lines of the log in XDP found no room", o.lines_lost());
        }
    }
}

/// Has an interface take in frames for all addresses, for as long as the process lives.
fn take_all(interface: &str) {
    let index = wireloom_xdp::number_of(interface).unwrap_or(0);
    match wireloom_runtime::packet::promiscuous(index) {
        // The kernel closes it when the process ends, however it ends.
        Ok(socket) => std::mem::forget(socket),
        Err(e) => say!("{interface} may leave out frames for other addresses: {e}"),
    }
}

/// Puts a program in front of an interface; a failure ends the process.
fn attach(object: &mut Object, program: usize, interface: &str, mode: Mode) -> Mode {
    hook_notices::before(interface);
    let name = object.source().programs[program].name.clone();
    match object.attach(program, interface, mode) {
        Ok(found) => {
            hook_notices::behind(&name, interface, &found);
            found.mode
        }
        Err(e) => {
            say!("{e}");
            log_queue::finish();
            std::process::exit(1)
        }
    }
}
