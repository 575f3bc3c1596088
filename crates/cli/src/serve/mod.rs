//! Serving compiled programs. `wireloom run` uses this after compilation. An executable made by
//! `wireloom build` does only this. Both executables of this package share it.

pub mod args;
mod built_hook;
pub mod config;
mod hook;
mod hook_notices;
mod hook_object;
mod interpreted;
mod messages;
pub mod payload;

pub use self::built_hook::BuiltHook;
pub use self::hook::{AppPorts, Part, Placed};
pub use self::interpreted::interpreted;
pub(crate) use self::messages::{notice, say};
pub use self::messages::{write_messages, NOTICE};
pub use wireloom_runtime::os_signals::without_signals;

use self::args::{Built, Engine, Serve, Sets};
use self::config::Config;
use self::payload::Payload;
use clap::{CommandFactory, FromArgMatches};
use log::Level;
use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};
use wireloom_ir::desc::Desc;
use wireloom_ir::{explain, suggestions};
use wireloom_runtime::control::Where;
use wireloom_runtime::engine::EngineKind;
use wireloom_runtime::packet::nic::{Link, Role};
use wireloom_runtime::reload::{ChangeLine, ReadAgain, Reload};
use wireloom_runtime::server::Ready;
use wireloom_runtime::{log_queue, packet, params, serve, AppSpec, Error, Origin, Program, ServeOptions};

/// An error that ends a command early, with its text for the user. `Silent`: all was said already.
pub enum Failure {
    #[allow(dead_code, reason = "the compiler tells of errors as it finds them, the runtime does not")]
    Silent,
    Said(String),
    /// An error of what the user has set, which has its place there yet to be named.
    Of(Origin, String),
}

impl<E: std::fmt::Display + 'static> From<E> for Failure {
    fn from(e: E) -> Self {
        match (&e as &dyn std::any::Any).downcast_ref() {
            Some(Error::At(origin, inner)) => Failure::Of(origin.clone(), inner.to_string()),
            _ => Failure::Said(e.to_string()),
        }
    }
}

impl Failure {
    fn text(self) -> String {
        match self {
            Failure::Silent => String::new(),
            Failure::Said(text) | Failure::Of(_, text) => text,
        }
    }
}

pub type Outcome = Result<(), Failure>;

/// Prints the error, waits until all lines are written, and returns the exit code.
pub fn ended(outcome: Outcome) -> std::process::ExitCode {
    let code = told(outcome);
    log_queue::finish();
    code
}

fn told(outcome: Outcome) -> std::process::ExitCode {
    match outcome {
        Ok(()) => return std::process::ExitCode::SUCCESS,
        Err(Failure::Silent) => {}
        Err(Failure::Said(text) | Failure::Of(_, text)) => say!("{text}"),
    }
    std::process::ExitCode::from(1)
}

/// SIGHUP, which a terminal sends when it closes, ends nothing. A running app reopens its log.
pub fn ignore_hangup() {
    // SAFETY: a plain system call; no handler is set.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Runs the program that this executable carries.
pub fn built(payload: Payload) -> Outcome {
    let begin = Instant::now();
    ignore_hangup();
    let desc: Desc = serde_json::from_slice(&payload.desc)?;
    let command = Built::command()
        .name(desc.app.clone())
        .about(format!("{}, built by wireloom", desc.app))
        .after_help(settings_of(&desc).trim_start().to_string());
    let hook = BuiltHook::read(&payload.hook)?;
    let args = built_args(command.mut_arg("xdp_mode", |a| a.hide(hook.is_none())))?;
    let given = args.serve.clone();
    serve_built(payload, desc, hook, args, begin).map_err(|e| given.named(e))
}

fn serve_built(payload: Payload, desc: Desc, hook: Option<BuiltHook>, mut args: Built, begin: Instant) -> Outcome {
    let Some(hook) = hook else {
        let program = Program::load(&payload.library)?;
        return serve_all(vec![(program, desc)], &args.serve, begin, false, (HookPart::default(), || {}));
    };
    let (module, mut placed) = hook.place(&desc, payload.programs, &mut args)?;
    let tables = placed.tables(&module);
    let is_interpreted = tables.is_some();
    let program = match tables {
        // Compiled code has its own form of tables.
        Some(tables) => interpreted(&module, tables)?,
        None => Program::load(&payload.library)?,
    };
    let hook = (placed.hook_part(), placed.attach(args.xdp_mode));
    serve_all(vec![placed.rest(program, desc)], &args.serve, begin, is_interpreted, hook)?;
    placed.tell();
    Ok(())
}

fn built_args(command: clap::Command) -> Result<Built, Failure> {
    let parsed = |m: &clap::ArgMatches| Built::from_arg_matches(m).map_err(|e| Failure::Said(e.to_string()));
    let mut line: Vec<_> = std::env::args_os().collect();
    let given = command.clone().get_matches_from(&line);
    let args = parsed(&given)?;
    let Some(path) = &args.serve.config else { return Ok(args) };
    let mut config = Config::read(path, Built::command)?;
    line.splice(1..1, config.arguments(&given));
    let mut args = parsed(&command.get_matches_from(line))?;
    args.serve.read = Some(config);
    Ok(args)
}

/// The parameters and options that `--set` may give an app, for help texts.
pub fn settings_of(desc: &Desc) -> String {
    explain::parameters(&desc.params, &BTreeSet::new()) + &explain::options(&params::options(desc))
}

/// So many kinds of faults are listed at the end of a run.
const FAULTS_TOLD: usize = 4;

/// `3 faults (2 truncated ip4, 1 overload)`
fn faults_told(all: u64, kinds: &[(String, u64)]) -> String {
    let told: Vec<String> = kinds.iter().take(FAULTS_TOLD).map(|(kind, n)| format!("{n} {kind}")).collect();
    let more = if kinds.len() > FAULTS_TOLD { ", …" } else { "" };
    match told.is_empty() {
        true => format!("{all} faults"),
        false => format!("{all} faults ({}{more})", told.join(", ")),
    }
}

/// The part of an app in the kernel's XDP hook.
#[derive(Default)]
pub struct HookPart {
    /// Interfaces from which the process takes frames.
    pub hooked: Vec<packet::Hooked>,
    /// All interfaces with a program of the app.
    pub interfaces: Vec<String>,
    /// Ports that the CPU has no use for.
    pub unread: Vec<String>,
}

/// `started` is called once all ports are open
/// and all tables are loaded.
pub fn serve_all(
    programs: Vec<(Program, Desc)>,
    args: &Serve,
    begin: Instant,
    interpreted: bool,
    (hook, started): (HookPart, impl FnOnce() + Send + 'static),
) -> Outcome {
    let sets = sets(&programs.iter().map(|p| &p.1).collect::<Vec<_>>(), args.sets())?;
    let descs: Vec<Desc> = programs.iter().map(|p| p.1.clone()).collect();
    let specs: Vec<AppSpec> =
        programs.into_iter().zip(sets).map(|((program, desc), sets)| AppSpec { program, desc, sets }).collect();
    // An app with segments on a NIC is the only one of its process.
    let link = specs
        .iter()
        .filter_map(|s| s.desc.nic.as_ref())
        .map(|n| &n.link)
        .find(|l| !l.is_empty())
        .cloned()
        .unwrap_or_default();
    wireloom_runtime::time_limit::set(Duration::from_secs(args.handler_limit));
    let options = ServeOptions {
        cpus: cpus("cores", args.cores.as_deref())?,
        engine: match args.engine {
            Engine::Auto => EngineKind::Auto,
            Engine::Epoll => EngineKind::Epoll,
            Engine::Uring => EngineKind::Uring,
        },
        admin: args.admin.as_deref().map(address).transpose()?,
        admin_names: args.admin_host.clone(),
        access_log: args.access_log.clone(),
        log_faults: args.log_faults,
        reload: Some(reload(args.clone(), descs)),
        resolve: Duration::from_secs(args.resolve),
        control: match &args.control {
            None => Where::Default,
            Some(path) if path.as_os_str() == "off" => Where::Off,
            Some(path) => Where::At(path.clone()),
        },
        batch_wait: Duration::from_micros(args.batch_wait),
        drain_limit: Duration::from_secs(args.drain),
        frames: packet::Options {
            hooked: hook.hooked,
            hook_interfaces: hook.interfaces,
            nic: Role::of_process(),
            link: Link::of(&link, &args.link).map_err(link_failure)?,
            nic_cpus: cpus("nic-cores", args.nic_cores.as_deref())?,
            ..frames(args)?
        },
        ready: Some(Box::new(move |ready: &Ready| {
            started();
            announce(ready, &hook.unread, begin, interpreted)
        })),
        ..ServeOptions::default()
    };
    let frames = specs.iter().any(|s| s.desc.has_frames());
    log_queue::begin();
    let served = serve(specs, options)?;
    if Role::is_second() {
        return Ok(());
    }
    if !served.clean {
        notice!(
            Level::Warn,
            "not all was finished when the drain ended, after {} s or by a second signal; the rest was cut off",
            args.drain
        );
    }
    if frames {
        let ms = served.elapsed.as_millis();
        let faults = faults_told(served.faults, &served.kinds);
        let queues = if served.frames_discarded > 0 {
            format!(", {} discarded by queues", served.frames_discarded)
        } else {
            String::new()
        };
        let counts = format!(
            "{} frames received, {} sent, {} without an output{queues}",
            served.frames, served.frames_sent, served.frames_dropped
        );
        say!("{counts}, {faults}, in {ms} ms");
        served.kinds.iter().for_each(|(kind, n)| log::info!("faults: {n} {kind}"));
        served.link.iter().for_each(|line| say!("{line}"));
    }
    Ok(())
}

/// Reads the configuration again, if there is one. Options of the process change with its next
/// start.
fn reload(args: Serve, descs: Vec<Desc>) -> Reload {
    let mut config = args.read.clone();
    let has_file = config.is_some();
    let mut read = move |anew: bool| {
        let descs: Vec<&Desc> = descs.iter().collect();
        let (mut args, mut lines) = (args.clone(), Vec::new());
        if let Some(config) = config.as_mut().filter(|_| anew) {
            let again = config.again()?;
            check_options(&again).map_err(|e| e.named(&[], Some(&again)))?;
            lines = config.changed_options(&again);
            lines.extend(unheard(&descs, &args.set, config.changed_settings(&again))?);
            args.read = Some(again);
        } else {
            args.read.clone_from(&config)
        }
        let sets = sets(&descs, args.sets())?;
        if let (Some(config), Some(again)) = (&mut config, &args.read) {
            config.settings.clone_from(&again.settings);
        }
        let text_of = Box::new(move |e: Error| args.named(e.into()).text());
        Ok(ReadAgain { sets: descs.iter().map(|d| d.app.clone()).zip(sets).collect(), lines, text_of })
    };
    Reload {
        has_file,
        read: Box::new(move |anew| read(anew).map_err(Failure::text)),
        tell: Box::new(|level, text| text.lines().for_each(|line| notice!(level, "{line}"))),
    }
}

/// Checks options of a file that the next start will have: it would refuse them.
fn check_options(config: &Config) -> Result<(), Failure> {
    config.value("admin").map(address).transpose()?;
    cpus("cores", config.value("cores"))?;
    cpus("nic-cores", config.value("nic-cores"))?;
    Ok(())
}

/// A line for each setting of the file that has changed, and that the command line gives, too.
fn unheard<'a>(
    descs: &[&Desc],
    line: &[String],
    changed: impl Iterator<Item = &'a str>,
) -> Result<Vec<ChangeLine>, Failure> {
    let names: Vec<String> = descs.iter().map(|d| d.app.clone()).collect();
    let given = line.iter().map(|text| addressee(&names, descs, &params::pair(text)?.0));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let mut lines = Vec::new();
    for name in changed {
        // The file may have named an app's setting that is gone.
        let Ok(at) = addressee(&names, descs, name) else { continue };
        if given.contains(&at) {
            let text = format!("{}.{} keeps the value of the command line", names[at.0], at.1);
            lines.push((Level::Warn, text));
        }
    }
    Ok(lines)
}

/// An error of the modelled link, which begins with the option as it was given.
fn link_failure(text: String) -> Failure {
    let name = text.strip_prefix("`--link ").and_then(|t| t.split_once('=')).map_or("", |t| t.0);
    Failure::Of(Origin { name: name.into(), ..Origin::option("link") }, text)
}

/// The settings of each app.
pub fn sets(descs: &[&Desc], given: Sets) -> Result<Vec<Vec<(String, String)>>, Failure> {
    let names: Vec<String> = descs.iter().map(|d| d.app.clone()).collect();
    if let Some(twice) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)) {
        return Err(Failure::Said(format!(
            "two apps have the name `{}`; each must have its own in one process",
            twice.1
        )));
    }
    let mut sets = vec![Vec::new(); names.len()];
    for text in given.line {
        let (name, value) = params::pair(text)?;
        let (app, name) = addressee(&names, descs, &name)?;
        sets[app].push((name, value));
    }
    for s in given.file {
        let told = |e: Failure| s.place.error(e.text());
        let (app, name) = addressee(&names, descs, &s.name).map_err(told)?;
        // Of a list only the items are read.
        if s.is_list && params::has_one_value(descs[app], &name) {
            return Err(s.place.error(config::one_value(&name)));
        }
        params::check(descs[app], &name, &s.value).map_err(|e| told(e.into()))?;
        // The command line goes before.
        if !sets[app].iter().any(|(n, _)| *n == name) {
            sets[app].push((name, s.value.clone()));
        }
    }
    Ok(sets)
}

/// The lines about frame ports.
pub fn frames(args: &Serve) -> Result<packet::Options, Failure> {
    let files = |list: Vec<(String, String)>| list.into_iter().map(|(t, f)| (t, f.into())).collect();
    Ok(packet::Options {
        bind: pairs("bind", "PORT=ENGINE:NAME, as in wire=pcap:in.pcap", &args.bind)?,
        out: pairs("out", "PORT=ENGINE:NAME, as in wire=pcap:out.pcap", &args.out)?,
        load: files(pairs("load", "TABLE=FILE, as in rules=rules.json", &args.load)?),
        dump: files(pairs("dump", "TABLE=FILE, as in flows=flows.json", &args.dump)?),
        pace: args.pace,
        rps: args.rps.policy(),
        ..packet::Options::default()
    })
}

/// `NAME=VALUE` of a flag.
pub fn pairs(flag: &'static str, form: &str, list: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_string(), value.to_string())),
        found => {
            let name = found.map_or("", |f| f.0).to_string();
            let origin = Origin { name, ..Origin::option(flag) };
            Err(Failure::Of(origin, format!("`--{flag} {text}`: expected {form}")))
        }
    };
    list.iter().map(pair).collect()
}

/// The app of a setting: `app.name`, the only app, or all apps that have the name.
fn addressee(names: &[String], descs: &[&Desc], name: &str) -> Result<(usize, String), Failure> {
    if let Some((app, rest)) = name.split_once('.') {
        if let Some(i) = names.iter().position(|n| n == app) {
            return Ok((i, rest.to_string()));
        }
    }
    if names.len() == 1 {
        return Ok((0, name.to_string()));
    }
    let plain = name.split('.').next().unwrap_or(name);
    let having: Vec<usize> = descs
        .iter()
        .enumerate()
        .filter(|(_, d)| d.params.iter().any(|p| p.name == plain) || d.ports.iter().any(|p| p.name == plain))
        .map(|(i, _)| i)
        .collect();
    match having[..] {
        [one] => Ok((one, name.to_string())),
        [] => Err(Failure::Said(nobody_has(names, descs, plain))),
        _ => Err(Failure::Said(format!("several apps have `{plain}`; say which: --set {}.{name}=…", names[having[0]]))),
    }
}

fn nobody_has(names: &[String], descs: &[&Desc], plain: &str) -> String {
    let members = descs
        .iter()
        .flat_map(|d| d.params.iter().map(|p| p.name.as_str()).chain(d.ports.iter().map(|p| p.name.as_str())));
    let hint = suggestions::lead(plain, names.iter().map(String::as_str).chain(members));
    format!("no app has a parameter or port `{plain}`, and none has this name{hint} the apps are: {}", names.join(", "))
}

fn announce(ready: &Ready, unread: &[String], begin: Instant, interpreted: bool) {
    for (app, port, address) in &ready.ports {
        say!("{app}.{port} listens on {address}");
    }
    for (app, port, target) in ready.frames.iter().filter(|f| !unread.contains(&f.1)) {
        say!("{app}.{port} is {target}");
    }
    if let Some(admin) = ready.admin {
        say!("metrics on http://{admin}/metrics, status on http://{admin}/status");
    }
    if let Some(path) = &ready.control {
        say!("control socket {}", path.display());
    }
    let how = if interpreted { "interpreted" } else { "compiled" };
    let cores = match ready.view.cores().count() {
        1 => "1 thread".to_string(),
        n => format!("{n} threads"),
    };
    say!("ready after {} ms ({how}, {}, {cores})", begin.elapsed().as_millis(), ready.view.engine());
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let text = if text.bytes().all(|b| b.is_ascii_digit()) { format!("127.0.0.1:{text}") } else { text.to_string() };
    text.to_socket_addrs().ok().and_then(|mut a| a.next()).ok_or_else(|| {
        let wrong = format!("`{text}` is no address; expected ADDRESS:PORT such as 127.0.0.1:9900");
        Failure::Of(Origin::option("admin"), wrong)
    })
}

/// `0`, `0-3`, `0,2`, `all`: CPUs that this process may use.
pub fn cpus(flag: &'static str, list: Option<&str>) -> Result<Vec<usize>, Failure> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let fail = |e: String| Failure::Of(Origin::option(flag), format!("`--{flag} {list}`: {e}"));
    let allowed = allowed_cpus();
    if list == "all" {
        return Ok(allowed);
    }
    let wanted = cpu_list(list).ok_or_else(|| fail("expected CPU numbers such as 0, 0-3 or 0,2, or all".into()))?;
    match wanted.iter().find(|c| !allowed.contains(c)) {
        Some(cpu) => {
            let there = allowed.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            Err(fail(format!("there is no CPU {cpu} for this process; it may use {there}")))
        }
        None => Ok(wanted),
    }
}

/// The resources that the machine and its administrator leave to this process.
fn allowed_cpus() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).and_then(|l| cpu_list(l.trim()));
    list.unwrap_or_else(|| (0..std::thread::available_parallelism().map_or(1, |n| n.get())).collect())
}

/// `0-3,8`, sorted.
fn cpu_list(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > 1023 {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}
