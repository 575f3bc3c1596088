//! `--place xdp`: handlers of packets in the kernel's XDP hook, the rest on the CPU.
//!
//! In: the module of the app that is to run or to be built, and its settings. Out: the handlers
//! that the hook runs, and their programs: loaded ([`Placed`]), or compiled for an executable
//! ([`BuiltHook`]).

use crate::args::{self, Build};
use crate::serve::args::XdpMode;
use crate::serve::{say, AppPorts, BuiltHook, Part, Placed};
use crate::{engine, serve, Failure};
use std::collections::BTreeSet;
use std::fmt::Write;
use wireloom_codegen_c::xdp::{emit, XdpSource};
use wireloom_ir::core_partition::{Resource, Uses};
use wireloom_ir::desc::{Desc, FrameEngine, ParamValue, PortKind};
use wireloom_ir::ops::Device;
use wireloom_ir::placement::{self, obstacles, specialise_but, Obstacle};
use wireloom_ir::{
    text, walk, ExprKind, FuncBody, HandlerId, Module, On, ParamId, PortId, Span, Table, TableId, TableKind,
};
use wireloom_runtime::packet::nic::Role;
use wireloom_runtime::params;
use wireloom_xdp::{Object, Portable};

/// The handlers of a run, by device.
struct Choice {
    parts: Vec<Part>,
    /// Handlers of interfaces that stay on the CPU.
    rest: Vec<Part>,
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
    Ok(with_some(m, &params::resolve(&m.desc(), sets)?.values, &BTreeSet::new()))
}

/// The same but for some parameters.
fn with_some(m: &Module, values: &[ParamValue], free: &BTreeSet<ParamId>) -> Module {
    let mut special = m.clone();
    let all: Vec<HandlerId> = handlers(m).map(|h| h.0).collect();
    all.into_iter().for_each(|h| specialise_but(&mut special, h, values, free));
    special
}

pub fn settings(m: &Module, set: &[String]) -> Result<Vec<(String, String)>, Failure> {
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
    if handlers(m).next().is_none() {
        return Err(Failure::Said(match m.app.as_str() {
            "" => "there is no app, so no handler of packets".into(),
            app => format!("app `{app}` has no handler of packets"),
        }));
    }
    let sets = settings(m, set)?;
    let mut special = with_values(m, &sets)?;
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
    let names = params::resolve(&m.desc(), &sets)?;
    let instances = |p: PortId| names.ports.get(p.index()).map_or(1, |p| p.names.len()) as u32;
    match emit(&special, &all, &instances).filter(|_| !all.is_empty()) {
        Some(source) => Ok(source.text),
        None => Err(Failure::Said(format!("no handler of app `{}` can run in XDP:{why}", m.app))),
    }
}

/// `wireloom explain --place xdp`: for each handler of packets, what keeps it on the CPU.
pub fn report(m: &Module, sets: &[(String, String)]) -> Result<String, Failure> {
    let special = with_values(m, sets)?;
    let mut out = format!("app {}\n", m.app);
    let kept: Vec<HandlerId> =
        handlers(&special).map(|h| h.0).filter(|h| !obstacles(&special, *h).is_empty()).collect();
    let filters = placement::split(&mut special.clone(), &kept);
    if handlers(&special).next().is_none() {
        out.push_str("  no handler of packets\n");
    }
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
    let ports = params::resolve(&m.desc(), sets)?;
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

impl AppPorts<'_> {
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
                    say!("on {name} stays on the CPU: its port is bound to {other}");
                }
            }
        }
        let candidates: Vec<HandlerId> = parts.iter().map(|p| p.handler).collect();
        let obstacle = |h: HandlerId| placement::obstacles_among(special, h, &candidates).into_iter().next();
        // A handler's own obstacle comes before those that follow from it for others.
        let own = |h: HandlerId| placement::own_obstacles(special, h).into_iter().next();
        let named = || candidates.iter().copied().filter(|h| asked(*h));
        if let Some(o) = named().find_map(own).or_else(|| named().find_map(obstacle)) {
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
                say!("on {name} has a filter in XDP, the rest stays on the CPU: {}", line_of(special, &f.left));
                (part.handler, part.filter) = (f.filter, true);
                parts.push(part);
            } else if let Some(o) = placement::obstacles_among(special, part.handler, &in_hook).into_iter().next() {
                say!("on {name} stays on the CPU: {}", line_of(special, &o));
            }
        }
        parts
    }

    fn source(&self, special: &Module, parts: &[Part]) -> Result<XdpSource, Failure> {
        let all: Vec<HandlerId> = parts.iter().map(|p| p.handler).collect();
        Ok(emit(special, &all, &|p| self.instances(p)).ok_or("internal error: a handler without a port")?)
    }
}

fn asks(m: &Module) -> bool {
    m.handlers.iter().any(|h| h.device == Device::Xdp)
}

/// Loads the programs of all handlers that can run in the hook; the others are named.
pub fn place(modules: &[Module], sets: &[Vec<(String, String)>], args: &mut args::Run) -> Result<Placed, Failure> {
    // The hook belongs to the process of the CPU, not to that of a NIC.
    if Role::is_second() || args.place.is_none() && !modules.iter().any(asks) {
        return Ok(Placed::default());
    }
    let ([m], [sets]) = (modules, sets) else {
        return Err(Failure::Said(
            "an app with handlers in XDP runs by itself: start the others in a process of their own".into(),
        ));
    };
    let mut special = with_values(m, sets)?;
    let (bind, settings) = (serve::frames(&args.serve)?.bind, params::resolve(&m.desc(), sets)?);
    let run = AppPorts { m, settings, bind, mode: args.xdp_mode };
    run.bind(&mut special);
    let choice = run.choose(&special, args.place.is_some())?;
    let parts = run.filters(&mut special, choice);
    if parts.is_empty() {
        return Ok(Placed::default());
    }
    let source = run.source(&special, &parts)?;
    run.placed(&source, parts, |values| Object::load(&source, values), &mut args.serve.bind)
}

/// The programs of an executable's handlers that can run in the hook; the others are named. `desc`
/// has the values that parameters are built with.
pub fn build(m: &Module, desc: &Desc, args: &Build) -> Result<Option<(BuiltHook, Portable)>, Failure> {
    if args.place.is_none() && !asks(m) {
        return Ok(None);
    }
    let settings = params::provisional(desc)?;
    let values = settings.values.clone();
    let run = AppPorts { m, settings, bind: Vec::new(), mode: XdpMode::Auto };
    let every = args.place.is_some();
    // Parameters that can be set at the start are, unless a handler is kept from the hook by it.
    let free = loaded(m);
    let open = with_some(m, &values, &free);
    let closed = with_some(m, &values, &BTreeSet::new());
    let kept = |special: &Module| handlers(special).filter(|h| !obstacles(special, h.0).is_empty()).count();
    let (mut special, free) = if kept(&open) > kept(&closed) { (closed, BTreeSet::new()) } else { (open, free) };
    let choice = run.choose(&special, every)?;
    let handled: Vec<HandlerId> = choice.parts.iter().chain(&choice.rest).map(|p| p.handler).collect();
    let parts = run.filters(&mut special, choice);
    if parts.is_empty() {
        return Ok(None);
    }
    let fixed = fixed(m, desc, &handled, (&values, &free))?;
    let mut source = run.source(&special, &parts)?;
    if let Some(f) = engine::extern_function(m).filter(|_| !source.tables.is_empty()) {
        return Err(Failure::Said(format!(
            "`{f}` is a function in C, and tables are in XDP: the rest of the app is interpreted then, and only \
             compiled code can call it [E0717]"
        )));
    }
    let programs = Portable::of(&mut source)?;
    let nic = |p: &PortId| matches!(m.ports[p.index()].kind, PortKind::Frames { engine: FrameEngine::Nic, .. });
    let interfaces = (0..m.ports.len() as u32).map(PortId).filter(nic).map(|p| (p, run.instances(p))).collect();
    let parts = parts.iter().map(|p| (p.handler, p.port, p.filter)).collect();
    let hook = BuiltHook { source, parts, fixed, interfaces, once: programs.once.clone(), module: text::print(m) };
    Ok(Some((hook, programs)))
}

/// The parameters of types that the loader can set.
fn loaded(m: &Module) -> BTreeSet<ParamId> {
    let is_loaded = |n: &usize| placement::is_loaded(&m.params[*n].ty.value());
    (0..m.params.len()).filter(is_loaded).map(|n| ParamId(n as u32)).collect()
}

/// The parameters that handlers read and that are not set at the start, with their values.
fn fixed(
    m: &Module,
    desc: &Desc,
    handled: &[HandlerId],
    (values, free): (&[ParamValue], &BTreeSet<ParamId>),
) -> Result<Vec<(ParamId, ParamValue)>, Failure> {
    let every: BTreeSet<ParamId> = (0..m.params.len() as u32).map(ParamId).collect();
    let open = with_some(m, values, &every);
    let mut read = BTreeSet::new();
    let mut look = |block: &_| {
        walk::block_exprs(block, &mut |e| {
            if let ExprKind::Param(p) = &*e.kind {
                read.insert(*p);
            }
        })
    };
    handled.iter().for_each(|h| look(&open.handlers[h.index()].body.block));
    for f in &open.funcs {
        if let FuncBody::Body(body) = &f.body {
            look(&body.block)
        }
    }
    let mut fixed = Vec::new();
    for p in read.into_iter().filter(|p| !free.contains(p)) {
        if desc.params[p.index()].default.is_none() {
            let name = &desc.params[p.index()].name;
            return Err(Failure::Said(format!(
                "the value of parameter `{name}` is a part of the program for XDP: give it by `--set {name}=…`"
            )));
        }
        fixed.push((p, values[p.index()].clone()));
    }
    Ok(fixed)
}
