//! `--place xdp`: handlers of packets in the kernel's XDP hook, the rest on the CPU.
//!
//! In: the module of the app that is to run, and its settings. Out: [`Placed`], the programs that
//! the kernel has accepted. The CPU's program keeps all of its handlers. Those that the hook runs
//! are [`HandlerOn::Elsewhere`] for the runtime, and their ports are bound to nothing.

use crate::args::{self, XdpMode};
use crate::{engine, serve, Failure};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use wireloom_codegen_c::xdp::{emit, XdpSource};
use wireloom_interp::OutsideTable;
use wireloom_ir::core_partition::Uses;
use wireloom_ir::desc::{Desc, FrameEngine, HandlerOn, ParamValue, PortKind};
use wireloom_ir::ops::Device;
use wireloom_ir::placement::{self, obstacles, specialise, Obstacle};
use wireloom_ir::{HandlerId, Module, On, PortId, Span, TableId};
use wireloom_runtime::{params, Outside, Program};
use wireloom_xdp::{Mode, Object, Verdict};

/// A handler that runs in the hook.
struct Part {
    handler: HandlerId,
    interface: String,
    object: Arc<Mutex<Object>>,
}

impl Part {
    fn object(&self) -> MutexGuard<'_, Object> {
        self.object.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The handlers of a run that the hook runs.
#[derive(Default)]
pub struct Placed {
    parts: Arc<Vec<Part>>,
}

/// The program that keeps a table, and the table's number there.
fn find(parts: &[Part], table: TableId) -> Option<(usize, usize)> {
    parts.iter().enumerate().find_map(|(n, p)| Some((n, p.object().table(table)?)))
}

/// Frees expired entries now and then, for as long as the process lives.
fn sweep(parts: Arc<Vec<Part>>) {
    let expire = |p: &Part| p.object().source().tables.iter().any(|t| t.idle > 0);
    if !parts.iter().any(expire) {
        return;
    }
    let work = move || loop {
        std::thread::sleep(Duration::from_secs(1));
        for p in parts.iter() {
            let tables = p.object().source().tables.len();
            (0..tables).for_each(|t| p.object().sweep(t));
        }
    };
    engine::without_signals(|| std::thread::Builder::new().name("sweep".into()).spawn(work).ok());
}

/// What the hook does for the app, for the runtime.
struct Beside(Arc<Vec<Part>>);

impl Outside for Beside {
    fn counter(&self, counter: usize) -> u64 {
        self.0.iter().fold(0, |a, p| a.wrapping_add(p.object().counter(counter)))
    }

    fn faults(&self) -> Vec<(u32, u32, u64)> {
        self.0.iter().flat_map(|p| p.object().faults_by_place()).collect()
    }

    fn table_stats(&self, table: usize) -> Option<[u64; 8]> {
        let (part, index) = find(&self.0, TableId(table as u32))?;
        let object = self.0[part].object();
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
    Ok(serve::sets(&[&m.desc()], set)?.pop().unwrap_or_default())
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
    let special = with_values(m, &settings(m, set)?)?;
    let (mut all, mut why) = (Vec::new(), String::new());
    for (h, _) in handlers(&special) {
        let found = obstacles(&special, h);
        if found.is_empty() {
            all.extend(emit(&special, h).map(|s| s.text));
        }
        for o in &found {
            let _ = write!(why, "\n  {}", line_of(&special, o));
        }
    }
    match all.is_empty() {
        true if why.is_empty() => Err(Failure::Said(format!("app `{}` has no handler of packets", m.app))),
        true => Err(Failure::Said(format!("no handler of app `{}` can run in XDP:{why}", m.app))),
        false => Ok(all.join("\n")),
    }
}

/// `wireloom explain --place xdp`: for each handler of packets, what keeps it on the CPU.
pub fn report(m: &Module, set: &[String]) -> Result<String, Failure> {
    let special = with_values(m, &settings(m, set)?)?;
    let mut out = format!("app {}\n", m.app);
    for (h, _) in handlers(&special) {
        let (name, found) = (&special.handlers[h.index()].name, obstacles(&special, h));
        let device = if found.is_empty() { "xdp" } else { "cpu" };
        let _ = writeln!(out, "  on {name}: {device}");
        for o in &found {
            let hint = if o.hint.is_empty() { String::new() } else { format!("; {}", o.hint) };
            let _ = writeln!(out, "    {}{hint}", line_of(&special, o));
        }
    }
    Ok(out)
}

/// The interface that a port is bound to. `Err`: what it is bound to instead.
fn interface(m: &Module, port: PortId, names: &[String], bind: &[(String, String)]) -> Result<String, String> {
    let p = &m.ports[port.index()];
    let text = match bind.iter().rev().find(|b| b.0 == p.name) {
        Some((_, text)) => text.strip_prefix("nic:").ok_or_else(|| text.clone())?.to_string(),
        None => names.join(","),
    };
    if text.contains(',') || text.is_empty() {
        return Err(format!("`{text}`, not one interface"));
    }
    Ok(text)
}

/// Loads the programs of all handlers that can run in the hook; the others are named.
pub fn place(modules: &[Module], sets: &[Vec<(String, String)>], args: &mut args::Run) -> Result<Placed, Failure> {
    let asked = |m: &Module| m.handlers.iter().any(|h| h.device == Device::Xdp);
    if args.place.is_none() && !modules.iter().any(asked) {
        return Ok(Placed::default());
    }
    let ([m], [sets]) = (modules, sets) else {
        return Err(Failure::Said(
            "an app with handlers in XDP runs by itself: start the others in a process of their own".into(),
        ));
    };
    let special = with_values(m, sets)?;
    let bind = serve::frames(&args.serve)?.bind;
    let ports = params::resolve(&m.desc(), sets)?;
    let mut parts = Vec::new();
    for (h, port) in handlers(&special) {
        let (name, asked) = (&special.handlers[h.index()].name, m.handlers[h.index()].device == Device::Xdp);
        if !asked && args.place.is_none() {
            continue;
        }
        if let Some(first) = obstacles(&special, h).first() {
            if asked {
                return Err(Failure::Said(line_of(&special, first)));
            }
            eprintln!("wireloom: on {name} stays on the CPU: {}", line_of(&special, first));
            continue;
        }
        let interface = match interface(m, port, &ports.ports[port.index()].names, &bind) {
            Ok(name) => name,
            Err(other) => {
                eprintln!("wireloom: on {name} stays on the CPU: its port is bound to {other}");
                continue;
            }
        };
        let Some(source) = emit(&special, h) else { continue };
        let mut object = Object::load(&source)?;
        redirect(m, &source, &mut object, &bind, &ports)?;
        parts.push(Part { handler: h, interface, object: Arc::new(Mutex::new(object)) });
    }
    let placed = Placed { parts: Arc::new(parts) };
    for (port, binding) in placed.unread(m, &bind) {
        args.serve.bind.retain(|b| b.split_once('=').is_none_or(|b| b.0 != port));
        args.serve.bind.push(binding);
    }
    Ok(placed)
}

/// Tells the program the interfaces of the ports that it sends to.
fn redirect(
    m: &Module,
    source: &XdpSource,
    object: &mut Object,
    bind: &[(String, String)],
    settings: &params::Settings,
) -> Result<(), Failure> {
    for (n, port) in source.ports.iter().enumerate() {
        let name = interface(m, *port, &settings.ports[port.index()].names, bind)
            .map_err(|other| format!("port `{}` is bound to {other}", m.ports[port.index()].name))?;
        object.redirect(n as u32, &name)?;
    }
    Ok(())
}

impl Placed {
    fn has(&self, h: usize) -> bool {
        self.parts.iter().any(|p| p.handler.index() == h)
    }

    /// Ports that the CPU neither reads nor sends to are bound to nothing.
    fn unread(&self, m: &Module, bind: &[(String, String)]) -> Vec<(String, String)> {
        if self.parts.is_empty() {
            return Vec::new();
        }
        let rest = || m.handlers.iter().enumerate().filter(|(n, _)| !self.has(*n)).map(|h| h.1);
        let used = |p: PortId| {
            rest().any(|h| matches!(h.on, On::Frame { port, .. } if port == p) || Uses::of(m, h).sends.contains(&p))
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

    /// What is left for the CPU.
    pub fn rest(&self, program: Program, mut desc: Desc) -> (Program, Desc) {
        if self.parts.is_empty() {
            return (program, desc);
        }
        for (n, h) in desc.handlers.iter_mut().enumerate() {
            if self.has(n) {
                h.on = HandlerOn::Elsewhere
            }
        }
        (program.with_outside(Arc::new(Beside(self.parts.clone()))), desc)
    }

    /// The tables that the hook keeps, by their number. None: there are none.
    pub fn tables(&self, m: &Module) -> Option<Vec<Option<Arc<dyn OutsideTable>>>> {
        let objects: Vec<_> = self.parts.iter().map(|p| p.object.clone()).collect();
        let all = wireloom_xdp::tables(m, &objects);
        all.iter().any(Option::is_some).then_some(all)
    }

    /// Puts the programs in front of their interfaces; a failure ends the process.
    pub fn attach(&self, mode: XdpMode) -> impl FnOnce() + Send + 'static {
        let (parts, mode) = (
            self.parts.clone(),
            match mode {
                XdpMode::Auto => Mode::Auto,
                XdpMode::Native => Mode::Native,
                XdpMode::Generic => Mode::Generic,
            },
        );
        move || {
            sweep(parts.clone());
            for p in parts.iter() {
                if wireloom_xdp::takes_tags_off(&p.interface) {
                    eprintln!(
                        "wireloom: {0} takes VLAN tags off frames: XDP does not see them (`ethtool -K {0} rxvlan off`)",
                        p.interface
                    );
                }
                let attached = p.object().attach(&p.interface, mode);
                match attached {
                    Ok(Mode::Generic) => eprintln!(
                        "wireloom: {} runs in XDP at {} in generic mode, which is slower than native",
                        p.object().source().name,
                        p.interface
                    ),
                    Ok(_) => eprintln!("wireloom: {} runs in XDP at {}", p.object().source().name, p.interface),
                    Err(e) => {
                        eprintln!("wireloom: {e}");
                        std::process::exit(1)
                    }
                }
            }
        }
    }

    /// Tells at the end how many frames were handled.
    pub fn tell(&self) {
        for p in self.parts.iter() {
            let o = p.object();
            let (passed, dropped) = (o.fate(Verdict::Pass), o.fate(Verdict::Drop) + o.fate(Verdict::Aborted));
            let sent = o.fate(Verdict::Tx) + o.fate(Verdict::Redirect);
            let faults: u64 = (0..o.source().faults as u16).map(|k| o.faults(k)).sum();
            eprintln!(
                "wireloom: XDP at {}: {} frames received, {passed} to the kernel, {sent} sent, {dropped} dropped, {faults} faults",
                p.interface, passed + sent + dropped
            );
        }
    }
}
