//! Several apps in one process, some of them with frame ports. In: their programs and the options of `wireloom run`. Out: each app with frame
//! ports has cores of its own, as if it ran alone; those with services share theirs.
//!
//! Apps that name the same port each get its traffic once: of a capture every app has a reader, of an interface a socket. They are
//! clusters of one app each. Two apps cannot write one file.

use crate::control::Where;
use crate::error::Error;
use crate::packet;
use crate::server::{prepare, serve_apps, AppSpec, Ready, ServeOptions, Summary};
use std::collections::HashMap;
use std::thread::JoinHandle;
use wireloom_ir::desc::{Desc, FrameEngine, HandlerOn, ParamValue, PortKind, Value};

type Pairs = Vec<(String, String)>;

/// Serves apps of both sorts until the packets have ended or it is told to stop.
pub fn serve(frames: Vec<AppSpec>, services: Vec<AppSpec>, mut options: ServeOptions) -> Result<Summary, Error> {
    let of_each = share_out(&frames.iter().map(|s| &s.desc).collect::<Vec<_>>(), &std::mem::take(&mut options.frames))?;
    let (tell, told) = std::sync::mpsc::channel();
    let count = frames.len();
    let mut ready = options.ready.take();
    let mut threads: Vec<JoinHandle<Result<Summary, Error>>> = Vec::new();
    for (n, (spec, frames)) in frames.into_iter().zip(of_each).enumerate() {
        let tell = tell.clone();
        let alone = services.is_empty() && n == 0;
        let own = ServeOptions {
            cpus: options.cpus.clone(),
            drain_limit: options.drain_limit,
            stop: options.stop.clone(),
            // One of them has the doors to the outside.
            admin: if alone { options.admin } else { None },
            control: if alone { std::mem::replace(&mut options.control, Where::Off) } else { Where::Off },
            frames,
            ready: Some(Box::new(move |r: &Ready| drop(tell.send((r.frames.clone(), r.stats.clone(), r.apps.clone()))))),
            ..ServeOptions::default()
        };
        let (stop, name) = (options.stop.clone(), format!("app {}", spec.desc.app));
        let run = move || {
            let ended = packet::serve(vec![spec], own);
            if ended.is_err() {
                stop.drain();
            }
            ended
        };
        threads.push(std::thread::Builder::new().name(name).spawn(run).map_err(|e| Error::Io("cannot start a thread".into(), e))?);
    }
    drop(tell);
    let mut open = Vec::new();
    while let Ok((frames, stats, apps)) = told.recv() {
        open.push((frames, stats, apps));
        if open.len() == count {
            break;
        }
    }
    let all: Vec<_> = open.iter().flat_map(|o| o.0.clone()).collect();
    if services.is_empty() || open.len() < count {
        if let (Some(tell), Some((_, stats, apps)), true) = (ready.take(), open.pop(), open.len() + 1 >= count) {
            tell(&Ready { engine: "frames".into(), cores: options.cpus.len().max(1), admin: None, control: None, ports: Vec::new(), frames: all, stats, apps });
        }
        return gather(threads);
    }
    if let Some(tell) = ready {
        options.ready = Some(Box::new(move |r: &Ready| {
            let (engine, ports, control) = (r.engine.clone(), r.ports.clone(), r.control.clone());
            tell(&Ready { engine, cores: r.cores, admin: r.admin, control, ports, frames: all, stats: r.stats.clone(), apps: r.apps.clone() });
        }));
    }
    let stop = options.stop.clone();
    let served = prepare(services).and_then(|apps| serve_apps(apps, options));
    stop.drain();
    let (a, b) = (served, gather(threads));
    Ok(sum(a?, b?))
}

fn gather(threads: Vec<JoinHandle<Result<Summary, Error>>>) -> Result<Summary, Error> {
    let mut all = Summary { clean: true, ..Summary::default() };
    let mut failed = None;
    for t in threads {
        match t.join() {
            Ok(Ok(s)) => all = sum(all, s),
            Ok(Err(e)) => failed = failed.or(Some(e)),
            Err(_) => failed = failed.or(Some(Error::Program("an app ended early".into()))),
        }
    }
    failed.map_or(Ok(all), Err)
}

fn sum(a: Summary, b: Summary) -> Summary {
    Summary {
        connections: a.connections + b.connections,
        requests: a.requests + b.requests,
        replies: a.replies + b.replies,
        faults: a.faults + b.faults,
        frames: a.frames + b.frames,
        frames_sent: a.frames_sent + b.frames_sent,
        frames_dropped: a.frames_dropped + b.frames_dropped,
        elapsed: a.elapsed.max(b.elapsed),
        clean: a.clean && b.clean,
    }
}

/// What each app is told of the options: `PORT=…` is for all that have the port, `APP.PORT=…` for one.
fn share_out(apps: &[&Desc], all: &packet::Options) -> Result<Vec<packet::Options>, Error> {
    let blank = packet::Options { pace: all.pace, memory: all.memory.clone(), ..packet::Options::default() };
    let mut each = vec![blank; apps.len()];
    let port = |d: &Desc, n: &str| d.ports.iter().any(|p| p.name == n);
    let table = |d: &Desc, n: &str| d.tables.iter().any(|t| t.name == n);
    for (flag, list) in [("bind", &all.bind), ("out", &all.out)] {
        for (name, text) in list {
            for (n, own) in addressees(flag, name, apps, &port)? {
                let to = if flag == "bind" { &mut each[n].bind } else { &mut each[n].out };
                to.push((own, text.clone()));
            }
        }
    }
    for (flag, list) in [("load", &all.load), ("dump", &all.dump)] {
        for (name, file) in list {
            let found = addressees(flag, name, apps, &table)?;
            if flag == "dump" && found.len() > 1 {
                return Err(Error::Param(format!("`--dump {name}`: several apps have this table; say which: --dump {}.{name}=…", apps[found[0].0].app)));
            }
            for (n, own) in found {
                let to = if flag == "load" { &mut each[n].load } else { &mut each[n].dump };
                to.push((own, file.clone()));
            }
        }
    }
    one_writer(apps, &each)?;
    for (d, o) in apps.iter().zip(&mut each) {
        share_interfaces(apps, d, &mut o.bind);
    }
    Ok(each)
}

/// The apps that a name is about, and what they call it.
fn addressees(flag: &str, name: &str, apps: &[&Desc], has: &dyn Fn(&Desc, &str) -> bool) -> Result<Vec<(usize, String)>, Error> {
    if let Some((app, rest)) = name.split_once('.') {
        if let Some(n) = apps.iter().position(|d| d.app == app && has(d, rest)) {
            return Ok(vec![(n, rest.to_string())]);
        }
    }
    let found: Vec<_> = (0..apps.len()).filter(|n| has(apps[*n], name)).map(|n| (n, name.to_string())).collect();
    if found.is_empty() {
        let names: Vec<&str> = apps.iter().map(|d| d.app.as_str()).collect();
        return Err(Error::Param(format!("`--{flag} {name}`: none of the apps has it; they are: {}", names.join(", "))));
    }
    Ok(found)
}

fn reads(d: &Desc, port: &str) -> bool {
    let at = d.ports.iter().position(|p| p.name == port);
    at.is_some_and(|n| d.handlers.iter().any(|h| h.on == HandlerOn::Frame { port: n as u32 }))
}

/// A capture is written by one app.
fn one_writer(apps: &[&Desc], each: &[packet::Options]) -> Result<(), Error> {
    let mut writers: HashMap<&str, usize> = HashMap::new();
    for (n, (d, o)) in apps.iter().zip(each).enumerate() {
        let written = o.bind.iter().filter(|(p, _)| !reads(d, p)).chain(&o.out);
        for (port, text) in written.filter(|(_, t)| t.starts_with("pcap:")) {
            if *writers.entry(text).or_insert(n) != n {
                let text = format!("`{port}={text}`: two apps cannot write one capture; name two: --bind {}.{port}=…", d.app);
                return Err(Error::Param(text));
            }
        }
    }
    Ok(())
}

/// AF_XDP takes an interface's frames away from all others: an interface that several apps read is opened through AF_PACKET.
fn share_interfaces(apps: &[&Desc], d: &Desc, bind: &mut Pairs) {
    let declared = |d: &Desc, port: &str| d.ports.iter().find(|p| p.name == port).and_then(|p| match &p.kind {
        PortKind::Frames { engine: FrameEngine::Nic, names: Value::Const(ParamValue::Bytes(b)) } => Some(String::from_utf8_lossy(b).into_owned()),
        _ => None,
    });
    for p in &d.ports {
        let shared = apps.iter().filter(|o| reads(o, &p.name)).count() > 1;
        let bound = bind.iter_mut().find(|(n, _)| *n == p.name);
        match (shared, bound, declared(d, &p.name)) {
            (true, Some((_, text)), _) => *text = text.replace("nic:", "afpacket:").replace("afxdp:", "afpacket:"),
            (true, None, Some(name)) => bind.push((p.name.clone(), format!("afpacket:{name}"))),
            _ => {}
        }
    }
}
