//! The targets of frame ports: what `--bind`, `--out` and the program name for each instance.

use super::options::Options;
use crate::core::app::App;
use crate::error::{Error, Origin};
use crate::params::Settings;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wireloom_ir::desc::{Desc, FrameEngine, HandlerOn, ParamValue, PortKind, Value};
use wireloom_ir::suggestions;

/// The carrier of a port's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    Pcap,
    Nic,
    AfPacket,
    AfXdp,
    Tun,
    Tap,
    Kernel,
    Udp,
    Memory,
    Null,
    /// Of the program's own; cannot be bound.
    Loop,
    /// Inside the program; nothing can be bound to it.
    Queue,
    /// The same, between segments.
    Crossing,
}

const ENGINES: [(&str, Carrier); 10] = [
    ("pcap", Carrier::Pcap),
    ("nic", Carrier::Nic),
    ("afpacket", Carrier::AfPacket),
    ("afxdp", Carrier::AfXdp),
    ("tun", Carrier::Tun),
    ("tap", Carrier::Tap),
    ("kernel", Carrier::Kernel),
    ("udp", Carrier::Udp),
    ("memory", Carrier::Memory),
    ("null", Carrier::Null),
];

/// One instance of a port, as asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortTarget {
    pub engine: Carrier,
    pub name: String,
}

impl std::fmt::Display for PortTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = ENGINES.iter().find(|e| e.1 == self.engine).map_or("", |e| e.0);
        if self.name.is_empty() {
            f.write_str(word)
        } else {
            write!(f, "{word}:{}", self.name)
        }
    }
}

/// Reads `ENGINE:NAME,…`; a name without an engine has that of the one before it.
pub fn targets(text: &str) -> Result<Vec<PortTarget>, String> {
    let mut out: Vec<PortTarget> = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (word, name) = item.split_once(':').unwrap_or((item, ""));
        let known = ENGINES.iter().find(|e| e.0 == word).map(|e| e.1);
        let target = match (known, out.last()) {
            (Some(engine), _) => PortTarget { engine, name: name.to_string() },
            (None, Some(before)) => PortTarget { engine: before.engine, name: item.to_string() },
            (None, None) => {
                let words: Vec<&str> = ENGINES.iter().map(|e| e.0).collect();
                let hint = suggestions::lead(word, words.iter().copied());
                return Err(format!(
                    "`{item}` names no engine{hint} expected one of {}, as in pcap:in.pcap",
                    words.join(", ")
                ));
            }
        };
        let nameless = matches!(target.engine, Carrier::Null | Carrier::Kernel | Carrier::Tun | Carrier::Tap);
        if target.name.is_empty() && !nameless {
            let engine = ENGINES.iter().find(|e| e.1 == target.engine).map_or(word, |e| e.0);
            return Err(format!("`{item}` lacks a name, as in {engine}:NAME"));
        }
        out.push(target);
    }
    Ok(out)
}

/// The interfaces that a binding names. None: it names something else, too.
pub fn interfaces_of(binding: &str) -> Option<Vec<String>> {
    let name = |t: PortTarget| (t.engine == Carrier::Nic).then_some(t.name);
    targets(binding).ok()?.into_iter().map(name).collect()
}

fn engine_of(e: FrameEngine) -> Carrier {
    match e {
        FrameEngine::Nic => Carrier::Nic,
        FrameEngine::Pcap => Carrier::Pcap,
        FrameEngine::Tun => Carrier::Tun,
        FrameEngine::Tap => Carrier::Tap,
        FrameEngine::Kernel => Carrier::Kernel,
        FrameEngine::Memory => Carrier::Memory,
        FrameEngine::Udp => Carrier::Udp,
        FrameEngine::Loop => Carrier::Loop,
        FrameEngine::Queue => Carrier::Queue,
        FrameEngine::Lossy | FrameEngine::Lossless => Carrier::Crossing,
    }
}

/// Puts the bindings of ports into the description, so that the program sees the right number of
/// instances.
pub fn check_bindings(desc: &mut Desc, options: &Options) -> Result<(), Error> {
    for (flag, list) in [("bind", &options.bind), ("out", &options.out)] {
        for (port, text) in list {
            let origin = Origin { name: port.clone(), app: desc.app.clone(), ..Origin::option(flag) };
            let bad = move |e: String| Error::Param(format!("`--{flag} {port}={text}`: {e}")).at(origin);
            let Some(i) = desc.ports.iter().position(|p| &p.name == port && is_outside(&p.kind)) else {
                let names: Vec<&str> =
                    desc.ports.iter().filter(|p| is_outside(&p.kind)).map(|p| p.name.as_str()).collect();
                let hint = suggestions::lead(port, names.iter().copied());
                return Err(bad(format!("app `{}` has no port `{port}`{hint} it has: {}", desc.app, names.join(", "))));
            };
            if flag == "out" && !desc.ports[i].sent {
                return Err(bad("the app sends nothing to this port".into()));
            }
            let names: Vec<String> = targets(text).map_err(bad)?.iter().map(PortTarget::to_string).collect();
            let read = frame_handler(desc, i).is_some();
            let bound = options.bind.iter().any(|b| &b.0 == port);
            if flag == "bind" || !read && !bound {
                if let PortKind::Frames { names: value, .. } = &mut desc.ports[i].kind {
                    *value = Value::Const(ParamValue::Endpoints(names));
                }
            }
        }
    }
    Ok(())
}

/// Whether a port carries frames from or to the world.
pub fn is_outside(kind: &PortKind) -> bool {
    matches!(kind, PortKind::Frames { .. }) && !kind.is_inside()
}

/// The handler of a port's frames.
pub fn frame_handler(desc: &Desc, port: usize) -> Option<u32> {
    let on = HandlerOn::Frame { port: port as u32 };
    desc.handlers.iter().position(|h| h.on == on).map(|i| i as u32)
}

/// Frames that a queue holds: its name.
pub fn depth(name: &str) -> usize {
    name.parse().unwrap_or(1)
}

/// Targets in the form in which they were read.
pub fn list(targets: &[PortTarget]) -> String {
    targets.iter().map(PortTarget::to_string).collect::<Vec<_>>().join(",")
}

/// The targets of a port's instances.
#[derive(Clone)]
pub struct PortTargets {
    /// The handler that reads the port.
    pub handler: Option<u32>,
    pub main: Vec<PortTarget>,
    /// Where the frames of a port that is read leave; empty: at its main targets.
    pub out: Vec<PortTarget>,
}

impl PortTargets {
    pub fn writes(&self, t: &PortTarget) -> bool {
        self.handler.is_none() && t.engine == Carrier::Pcap
    }
}

/// A file is written by at most one port or table. A port that read it would read its own output.
pub fn files_apart(apps: &[Arc<App>], options: &[Options], all: &[Vec<PortTargets>]) -> Result<(), Error> {
    let mut used: HashMap<File, (String, bool)> = HashMap::new();
    for ((app, ports), options) in apps.iter().zip(all).zip(options) {
        for (n, (desc, port)) in app.desc.ports.iter().zip(ports).enumerate() {
            let main = port.main.iter().enumerate().map(|(i, t)| (i, t, port.writes(t)));
            let out = port.out.iter().enumerate().map(|(i, t)| (i, t, true));
            for (i, t, writes) in main.chain(out).filter(|(_, t, _)| t.engine == Carrier::Pcap) {
                let Some(file) = File::of(Path::new(&t.name)) else { continue };
                let name = if port.main.len() > 1 {
                    format!("port `{}[{i}]`", desc.name)
                } else {
                    format!("port `{}`", desc.name)
                };
                match used.get(&file) {
                    Some((other, written)) if *written || writes => {
                        let does = if *written { "writes" } else { "reads" };
                        let text = format!("{name}: {} is the capture that {other} {does}; name another file", t.name);
                        return Err(Error::Param(text).at(options.origin(&app.desc, n)));
                    }
                    _ => drop(used.insert(file, (name, writes))),
                }
            }
        }
        for (table, path) in &options.dump {
            let Some(file) = File::of(path) else { continue };
            if let Some((other, _)) = used.insert(file, (format!("--dump {table}"), true)) {
                let path = path.display();
                let text = format!("`--dump {table}={path}`: {path} is the file of {other}; name another one");
                return Err(Error::Param(text).at(Origin::of_app("dump", &app.desc, table)));
            }
        }
    }
    Ok(())
}

/// The identity of a file, independent of its name.
#[derive(PartialEq, Eq, Hash)]
enum File {
    /// Device and number.
    There(u64, u64),
    New(PathBuf),
}

impl File {
    /// None for devices and pipes.
    fn of(path: &Path) -> Option<File> {
        match std::fs::metadata(path) {
            Ok(m) => m.is_file().then(|| File::There(m.dev(), m.ino())),
            Err(_) => {
                let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
                Some(File::New(folder.canonicalize().ok()?.join(path.file_name()?)))
            }
        }
    }
}

/// The targets of one port, by `--bind`, `--out` and its declaration.
pub fn port_targets(desc: &Desc, settings: &Settings, p: usize, options: &Options) -> Result<PortTargets, String> {
    let handler = frame_handler(desc, p);
    let desc = &desc.ports[p];
    let of = |list: &[(String, String)]| {
        list.iter().rev().find(|(port, _)| *port == desc.name).map(|(_, text)| targets(text)).transpose()
    };
    let (bind, out) = (of(&options.bind)?, of(&options.out)?);
    let out = match (out, handler) {
        (Some(_), None) if bind.is_some() => {
            return Err("frames only leave through it: --bind or --out says where to, not both".into())
        }
        (Some(out), None) => return Ok(PortTargets { handler, main: out, out: Vec::new() }),
        (out, _) => out,
    };
    let main = match (bind, &desc.kind) {
        (Some(t), _) => t,
        (None, PortKind::Frames { engine, .. }) => {
            // No name, as a parameter's default: there is no such port.
            let declared = |name: &String| PortTarget {
                engine: if name.is_empty() { Carrier::Null } else { engine_of(*engine) },
                name: name.clone(),
            };
            settings.ports[p].names.iter().map(declared).collect()
        }
        _ => Vec::new(),
    };
    if out.as_ref().is_some_and(|o| o.len() != main.len()) {
        return Err(format!("--out names {} instances, the port has {}", out.map_or(0, |o| o.len()), main.len()));
    }
    Ok(PortTargets { handler, main, out: out.unwrap_or_default() })
}

/// A port of both directions, without `--out`, whose capture does not exist, is written if another
/// port reads. `null` does not count as reading. Example: `--bind lan=pcap:in.pcap --bind
/// wan=pcap:out.pcap`. An empty file, as mktemp makes it, counts as missing.
pub fn write_what_is_missing(ports: &mut [PortTargets]) {
    let there = |name: &str| std::fs::metadata(name).is_ok_and(|m| !m.is_file() || m.len() > 0);
    let missing = |p: &PortTargets| p.main.iter().all(|t| t.engine == Carrier::Pcap && !there(&t.name));
    let nothing = |p: &PortTargets| {
        use Carrier::{Crossing, Loop, Null, Queue};
        p.main.iter().all(|t| matches!(t.engine, Loop | Queue | Crossing | Null))
    };
    if ports.iter().any(|p| p.handler.is_some() && !missing(p) && !nothing(p)) {
        for port in ports.iter_mut().filter(|p| p.handler.is_some() && p.out.is_empty() && missing(p)) {
            port.handler = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_that_are_missing_are_written() {
        let port = |name: &str, out: &str| PortTargets {
            handler: Some(0),
            main: targets(&format!("pcap:{name}")).unwrap(),
            out: if out.is_empty() { vec![] } else { targets(out).unwrap() },
        };
        let read = |mut ports: Vec<PortTargets>| {
            write_what_is_missing(&mut ports);
            ports.iter().map(|p| p.handler.is_some()).collect::<Vec<_>>()
        };
        let there = std::env::current_exe().unwrap().display().to_string();
        assert_eq!(read(vec![port(&there, ""), port("/nowhere/out.pcap", "")]), [true, false]);
        assert_eq!(read(vec![port(&there, ""), port("/nowhere/in.pcap", "pcap:x")]), [true, true]);
        // A name that is spelled wrong is no output.
        let null = PortTargets { handler: Some(0), main: targets("null").unwrap(), out: vec![] };
        assert_eq!(read(vec![port("/nowhere/in.pcap", ""), null]), [true, true]);
        assert_eq!(read(vec![port("/nowhere/in.pcap", "")]), [true]);
    }

    #[test]
    fn interfaces_of_a_binding() {
        let both = Some(vec!["a".to_string(), "b".to_string()]);
        for text in ["nic:a,b", "nic:a,nic:b", "nic:a, nic:b"] {
            assert_eq!(interfaces_of(text), both, "{text}");
        }
        for text in ["nic:a,pcap:b", "afpacket:a", "a", "nic:a,", "null"] {
            assert_eq!(interfaces_of(text), None, "{text}");
        }
    }

    #[test]
    fn targets_are_read() {
        let t = |text: &str| targets(text).map(|t| list(&t));
        assert_eq!(t("pcap:a.pcap, pcap:b:c.pcap,d").unwrap(), "pcap:a.pcap,pcap:b:c.pcap,pcap:d");
        assert_eq!(t("kernel").unwrap(), "kernel");
        assert_eq!(t("udp:[::1]:53").unwrap(), "udp:[::1]:53");
        for (bad, why) in [
            ("a.pcap", "names no engine"),
            ("pcap:", "lacks a name"),
            ("", "names no engine"),
            ("pcpa:a.pcap", "names no engine; did you mean `pcap`? expected one of"),
            ("nic", "lacks a name"),
        ] {
            assert!(t(bad).unwrap_err().contains(why), "{bad}");
        }
    }
}
