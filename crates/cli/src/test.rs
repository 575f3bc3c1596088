//! `wireloom test`: the `test` blocks of files, each by the interpreter and by compiled code.

use crate::args::{Compile, Test};
use crate::engine::{self, How};
use crate::{load, sanitize, Failure, Outcome};

mod frames;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wireloom_interp::differential::Mock;
use wireloom_ir::desc::PortKind;
use wireloom_ir::{FaultKind, HandlerId, Module, SimPort, SimStep, Span, TestKind};
use wireloom_runtime::abi::WL_T_DONE;
use wireloom_runtime::engine::memory::{Behaviour, Ending, Peer};
use wireloom_runtime::packet::PacketSim;
use wireloom_runtime::{time_limit, App, Program, Sim};

/// A handler that ends in time on a fast machine does so on a slow one, and in the interpreter.
const HANDLER_LIMIT: Duration = Duration::from_secs(60);

pub fn test(args: Test) -> Outcome {
    sanitize::load(&args.compile)?;
    time_limit::set(HANDLER_LIMIT);
    let mut tally = Tally::default();
    for path in &args.files {
        let modules = load::load_tests(path)?;
        let several = modules.len() > 1;
        for (n, module) in modules.into_iter().map(Arc::new).enumerate() {
            let wanted: Vec<usize> = (0..module.tests.len())
                // Tests of code belong to no app: the first stands for all.
                .filter(|&i| n == 0 || matches!(module.tests[i].kind, TestKind::Sim { .. }))
                .filter(|&i| args.filter.as_ref().is_none_or(|f| module.tests[i].name.contains(f.as_str())))
                .collect();
            if !wanted.is_empty() {
                tests_of(&module, path, several, &wanted, &args.compile, &mut tally)?;
            }
        }
    }
    if let (Some(filter), 0) = (&args.filter, tally.passed + tally.failed) {
        return Err(Failure::Said(format!("no test has `{filter}` in its name")));
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed > 0 {
        return Err(Failure::Silent);
    }
    Ok(())
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    /// The user knows that there is no C compiler.
    told: bool,
}

/// Some tests of one module, by the interpreter and by compiled code. Those of one of `several`
/// apps are shown with its name.
fn tests_of(
    module: &Arc<Module>,
    path: &Path,
    several: bool,
    wanted: &[usize],
    compile: &Compile,
    tally: &mut Tally,
) -> Outcome {
    let mut programs = Vec::new();
    let in_c = engine::extern_function(module);
    match in_c {
        Some(f) if !compile.interpret => {
            eprintln!("wireloom: `{f}` is a function in C: tests run as compiled code only, not by the interpreter")
        }
        _ => programs.push(("interpreter", engine::interpret(module)?.program)),
    }
    if !compile.interpret && (in_c.is_some() || !tally.told) {
        let made = engine::make(module, &Compile { interpret: false, ..compile.clone() })?;
        match made.how {
            How::Compiled => programs.push(("compiled", made.program)),
            How::Interpreted => tally.told = true,
        }
    }
    for &i in wanted {
        let test = &module.tests[i];
        let failures: Vec<String> = programs
            .iter()
            .filter_map(|(how, program)| run(module, i, program).err().map(|e| format!("    {how}: {e}")))
            .collect();
        let of = if several && matches!(test.kind, TestKind::Sim { .. }) {
            format!("{}: ", module.app)
        } else {
            String::new()
        };
        println!("{} {of}{} ... {}", path.display(), test.name, if failures.is_empty() { "ok" } else { "FAILED" });
        if failures.is_empty() {
            tally.passed += 1;
        } else {
            tally.failed += 1;
            println!("{}", failures.join("\n"));
        }
    }
    Ok(())
}

fn place(module: &Module, span: &Span) -> String {
    let file = module.files.get(span.file as usize).map_or("?", |f| f.as_str());
    let file = Path::new(file).file_name().map_or(file.to_string(), |f| f.to_string_lossy().into_owned());
    format!("{file}:{}:{}", span.line, span.column)
}

fn run(module: &Module, index: usize, program: &Program) -> Result<(), String> {
    let before = wireloom_interp::internal_errors().0;
    let result = match &module.tests[index].kind {
        TestKind::Code(handler) => code(module, *handler, program),
        TestKind::Sim { params, steps } => simulate(module, params, steps, program),
    };
    // A failure of the interpreter is a bug of Wireloom, also in a test that expects a failure.
    match wireloom_interp::internal_errors() {
        (n, Some(why)) if n > before => {
            let also = result.err().map_or(String::new(), |e| format!("\n    {e}"));
            Err(format!("internal error: {why}; please report it{also}"))
        }
        _ => result,
    }
}

/// A kind of fault as programs write it.
fn fault_name(module: &Module, kind: u16) -> String {
    let own = kind.checked_sub(FaultKind::USER).and_then(|n| module.faults.get(n as usize));
    own.map_or_else(|| wireloom_runtime::abi::fault_name(kind.into()).to_string(), |f| f.name.clone())
}

fn code(module: &Module, handler: HandlerId, program: &Program) -> Result<(), String> {
    // SAFETY: programs live as long as the process.
    let mut mock = unsafe { Mock::new(program.table(), module, &[]) };
    let (code, kind, at) = mock.run_plain(handler.0);
    if code == WL_T_DONE {
        return Ok(());
    }
    let at = module.places.get(at as usize);
    let shown = at.map_or(String::new(), |p| format!(" at {} ({})", place(module, &p.span), p.name));
    Err(if kind == FaultKind::EXPECT.0 {
        format!("does not hold{shown}")
    } else {
        format!("fault {}{shown}", fault_name(module, kind))
    })
}

/// The play of one test: the connections it has opened so far.
struct Play<'m> {
    module: &'m Module,
    app: Arc<App>,
    sim: Sim,
    /// Per listen port and connect port: the peers by connection or instance.
    peers: Vec<(SimPort, Peer, Vec<u8>)>,
}

fn simulate(
    module: &Module,
    params: &[(String, String)],
    steps: &[(Span, SimStep)],
    program: &Program,
) -> Result<(), String> {
    let mut sets = params.to_vec();
    // Parameters that a test does not care about: any address will do in a simulated network.
    for p in &module.params {
        let given = sets.iter().any(|(n, _)| *n == p.name);
        if !given && p.default.is_none() {
            let value = match p.ty {
                wireloom_ir::desc::ParamType::Bytes(_) => "test".to_string(),
                wireloom_ir::desc::ParamType::Endpoint => "10.0.1.1:1000".to_string(),
                wireloom_ir::desc::ParamType::Texts(..) => "test".to_string(),
                wireloom_ir::desc::ParamType::Endpoints(_) => "10.0.1.1:1000,10.0.1.2:1000,10.0.1.3:1000".to_string(),
                _ => continue,
            };
            sets.push((p.name.clone(), value));
        }
    }
    let desc = module.desc();
    if desc.is_mixed() {
        let (packets, services) = App::partition(program.clone(), &desc, &sets).map_err(|e| e.to_string())?;
        return both(module, packets, services, steps);
    }
    let frames = desc.has_frames();
    let app = App::new(program.clone(), desc, &sets).map_err(|e| e.to_string())?;
    if frames {
        return frames::FramePlay::new(module, app)?.all(steps);
    }
    let mut play = Play::new(module, app)?;
    steps.iter().try_for_each(|(span, step)| play.step(step).map_err(|e| format!("{}: {e}", place(module, span))))
}

/// A test of an app with two kinds of cores: each step is for one of them, by its port.
fn both(module: &Module, packets: Arc<App>, services: Arc<App>, steps: &[(Span, SimStep)]) -> Result<(), String> {
    let mut services = Play::new(module, services)?;
    let sim = PacketSim::from(packets.clone(), services.sim.now()).map_err(|e| e.to_string())?;
    let mut packets = frames::FramePlay::of(module, packets, sim);
    services.sim.beside(&packets.sim);
    let of_frames = |at: &SimPort| matches!(module.ports[at.port.index()].kind, PortKind::Frames { .. });
    for (span, step) in steps {
        let told = |e: String| format!("{}: {e}", place(module, span));
        match step {
            SimStep::Wait(_) => {
                packets.step(step).map_err(told)?;
                services.step(step).map_err(told)?;
            }
            SimStep::SeeLog(wanted) => {
                let line = services.sim.logged().or_else(|| packets.sim.logged());
                see_log(line, wanted.as_deref()).map_err(told)?
            }
            SimStep::SeeNothing(at) if !of_frames(at) => services.step(step).map_err(told)?,
            SimStep::Send(..)
            | SimStep::See(..)
            | SimStep::SeeClosed(_)
            | SimStep::Close(_)
            | SimStep::Reset(_)
            | SimStep::Refuse(_)
            | SimStep::Accept(_) => services.step(step).map_err(told)?,
            _ => {
                packets.sim.beside(&services.sim.counted());
                packets.all(std::slice::from_ref(&(*span, step.clone())))?;
                packets.sim.alone();
            }
        }
    }
    Ok(())
}

/// `log -> "…"`, `log -> nothing`
fn see_log(line: Option<Vec<u8>>, wanted: Option<&[u8]>) -> Result<(), String> {
    let shown = |line: Option<&[u8]>| match line {
        Some(line) => format!("\"{}\"", line.escape_ascii()),
        None => "nothing".into(),
    };
    if line.as_deref() == wanted {
        return Ok(());
    }
    Err(format!("expected {} in the log\n          saw {}", shown(wanted), shown(line.as_deref())))
}

impl<'m> Play<'m> {
    fn new(module: &'m Module, app: Arc<App>) -> Result<Self, String> {
        let sim = Sim::new(vec![app.clone()]).map_err(|e| e.to_string())?;
        Ok(Play { module, app, sim, peers: Vec::new() })
    }

    fn step(&mut self, step: &SimStep) -> Result<(), String> {
        match step {
            SimStep::Send(at, bytes) => {
                let i = self.peer(at)?;
                self.peers[i].1.send(bytes);
                self.sim.settle();
            }
            SimStep::See(at, bytes) => self.see(at, bytes)?,
            SimStep::SeeClosed(at) => {
                let i = self.peer(at)?;
                if self.peers[i].1.has_datagrams() {
                    return Err("a port over UDP has no connections that end".into());
                }
                self.receive(i);
                if !self.peers[i].2.is_empty() {
                    return Err(format!("expected the end, saw \"{}\"", self.peers[i].2.escape_ascii()));
                }
                if self.peers[i].1.ending() == Ending::Open {
                    return Err("expected the end, but the connection is open".into());
                }
            }
            SimStep::SeeNothing(at) => {
                // A backend to which the program has no connection gets nothing.
                let i = match self.peer(at) {
                    Err(_) if self.is_backend(at) => return Ok(()),
                    found => found?,
                };
                self.receive(i);
                if !self.peers[i].2.is_empty() {
                    return Err(format!("expected nothing, saw \"{}\"", self.peers[i].2.escape_ascii()));
                }
            }
            SimStep::Close(at) => {
                let i = self.peer(at)?;
                self.peers[i].1.finish();
                self.forget(i);
            }
            SimStep::Reset(at) => {
                let i = self.peer(at)?;
                self.peers[i].1.reset();
                self.forget(i);
            }
            SimStep::Refuse(at) => self.sim.behave(&self.name(at), at.conn as usize, Behaviour::Refuse),
            SimStep::Accept(at) => self.sim.behave(&self.name(at), at.conn as usize, Behaviour::Accept),
            SimStep::Wait(ns) => self.sim.advance(Duration::from_nanos(*ns)),
            SimStep::SeeLog(wanted) => see_log(self.sim.logged(), wanted.as_deref())?,
            SimStep::Run(h) => self.run(*h)?,
            SimStep::Repeat { first, next, times, steps } => {
                self.run(*first)?;
                for round in 0..*times {
                    steps.iter().try_for_each(|(_, s)| self.step(s)).map_err(|e| format!("{e}, in round {round}"))?;
                    self.run(*next)?;
                }
            }
            SimStep::Give(_) | SimStep::SeeSame(_) | SimStep::Check(..) | SimStep::At(..) => {
                return Err("this is a step of packets".into())
            }
        }
        Ok(())
    }

    /// A statement of a test.
    fn run(&mut self, h: HandlerId) -> Result<(), String> {
        match self.sim.core.signal(0, h.0, &[]) {
            // It answers nothing.
            Ok(_) => Ok(()),
            Err((kind, _)) if kind == u32::from(FaultKind::NO_REPLY.0) => Ok(()),
            Err((kind, _)) if kind == u32::from(FaultKind::EXPECT.0) => Err("does not hold".into()),
            Err((kind, _)) => Err(format!("fault {}", self.app.fault_name(kind))),
        }
    }

    /// A backend's connection that has ended is followed by another. A client's connection stays,
    /// so that tests see how it ended.
    fn forget(&mut self, i: usize) {
        self.sim.settle();
        if self.is_backend(&self.peers[i].0) {
            self.peers.remove(i);
        }
    }

    fn name(&self, at: &SimPort) -> String {
        self.module.ports[at.port.index()].name.clone()
    }

    fn is_backend(&self, at: &SimPort) -> bool {
        matches!(self.module.ports[at.port.index()].kind, wireloom_ir::desc::PortKind::Connect(_))
    }

    fn see(&mut self, at: &SimPort, wanted: &[u8]) -> Result<(), String> {
        let i = self.peer(at)?;
        if self.peers[i].1.has_datagrams() {
            return self.see_datagram(i, wanted);
        }
        self.receive(i);
        let (peer, got) = (&self.peers[i].1, &self.peers[i].2);
        if !got.starts_with(wanted) {
            let (wanted, ended) = (wanted.escape_ascii(), self.is_backend(at) && peer.ending() != Ending::Open);
            let name = format!("{}[{}]", self.name(at), at.conn);
            let hint = match ended && got.is_empty() && at.conn < SimPort::OWN {
                true => format!("; the app has ended this connection, and `close {name}` goes on to its next one"),
                false => String::new(),
            };
            return Err(format!("expected \"{wanted}\"\n          saw \"{}\"{hint}", got.escape_ascii()));
        }
        self.peers[i].2.drain(..wanted.len());
        Ok(())
    }

    /// The next datagram must be exactly this one.
    fn see_datagram(&mut self, i: usize, wanted: &[u8]) -> Result<(), String> {
        self.sim.settle();
        match self.peers[i].1.datagram() {
            Some(got) if got == wanted => Ok(()),
            Some(got) => {
                Err(format!("expected \"{}\"\n          saw \"{}\"", wanted.escape_ascii(), got.escape_ascii()))
            }
            None => Err(format!("expected \"{}\", saw no datagram", wanted.escape_ascii())),
        }
    }

    fn receive(&mut self, i: usize) {
        self.sim.settle();
        if self.peers[i].1.has_datagrams() {
            let Some(bytes) = self.peers[i].1.datagram() else { return };
            self.peers[i].2 = if bytes.is_empty() { b"(an empty datagram)".to_vec() } else { bytes };
            return;
        }
        let bytes = self.peers[i].1.receive();
        self.peers[i].2.extend_from_slice(&bytes);
        self.sim.settle();
    }

    /// The connection a step speaks of, opened (a client) or taken (a backend's) if it is new.
    fn peer(&mut self, at: &SimPort) -> Result<usize, String> {
        if let Some(i) = self.peers.iter().position(|(p, ..)| p == at) {
            return Ok(i);
        }
        let name = self.name(at);
        self.sim.settle();
        let peer = if self.is_backend(at) {
            let own = at.upstream();
            let made = match own {
                Some(upstream) => self.sim.upstream(&name, upstream),
                None => self.sim.backend(&name, at.conn as usize),
            };
            made.ok_or_else(|| match own {
                Some(_) => format!("the program has no such connection to {name}"),
                None => format!("the program has no connection to {name}[{}]", at.conn),
            })?
        } else {
            self.sim.client(&name).ok_or_else(|| format!("{name} does not accept"))?
        };
        self.peers.push((at.clone(), peer, Vec::new()));
        Ok(self.peers.len() - 1)
    }
}
