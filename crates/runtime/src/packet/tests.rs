//! Whole runs of a packet program (test.c, compiled here) on captures, in memory and, where
//! permitted, on real interfaces.

mod interfaces;
mod rings;
mod runs;
mod shared;
mod speed;

use super::*;
use crate::server::{AppSpec, ReadyFn, ServeOptions, Stop, Summary};
use crate::{Error, Program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use wireloom_ir::desc::*;

pub const FORWARD: u64 = 0;
pub const DROP: u64 = 1;
pub const ORDER: u64 = 2;
pub const TEE: u64 = 3;
pub const SHRINK: u64 = 4;
pub const GROW: u64 = 5;
pub const CROSS: u64 = 6;
pub const FAULT: u64 = 7;
pub const CLOCK: u64 = 8;
pub const BRIDGE: u64 = 9;
pub const ECHO: u64 = 10;
pub const REPLY: u64 = 11;
pub const FILTER: u64 = 12;

/// Where this run's files are; those of runs that have ended are removed.
pub fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let ended = |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
            if name.strip_prefix("wireloom-packet-").is_some_and(ended) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let dir = std::env::temp_dir().join(format!("wireloom-packet-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    })
}

/// The program, compiled with these flags. Each copy is a library of its own.
pub fn program(flags: &[&str]) -> Program {
    static ONE: Mutex<u32> = Mutex::new(0);
    let mut n = ONE.lock().unwrap();
    *n += 1;
    let lib = dir().join(format!("test{n}.so"));
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let cc = ["clang", "cc", "gcc"]
        .into_iter()
        .find(|c| Command::new(c).arg("--version").output().is_ok())
        .expect("a C compiler");
    let out = Command::new(cc)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(here.join("../../support"))
        .args(flags)
        .arg(here.join("src/packet/test.c"))
        .arg("-o")
        .arg(&lib)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Program::open(&lib).unwrap()
}

fn port(name: &str, engine: FrameEngine) -> PortDesc {
    let names = Value::Const(ParamValue::Bytes(b"none".to_vec()));
    PortDesc::plain(name, PortKind::Frames { engine, names }, Vec::new())
}

/// Ports `wire` (handled), `out` and `mon`; a handler each second; a table `t` whose key is `k` and
/// `w` (always `x`).
pub fn desc(mode: u64) -> Desc {
    let frames = match mode {
        DROP | FAULT => FrameUse::Reads,
        FORWARD | ORDER | CROSS | BRIDGE | ECHO | FILTER => FrameUse::Sends,
        _ => FrameUse::Edits,
    };
    let handler = |name: &str, on| HandlerDesc {
        name: name.into(),
        on,
        steps: 1,
        pauses: None,
        alone: false,
        one_by_one: false,
        run_to: None,
        run_as: 0,
        begins: Begins::Any,
        frames,
        sends: true,
        core_kind: CoreKind::Both,
        segment: None,
    };
    let record = |fields: &[(&str, ResultType)]| {
        ResultType::Record(fields.iter().map(|(n, t)| (n.to_string(), t.clone())).collect())
    };
    let signal = |name: &str, handler, args: &[(&str, ParamType)], result| SignalDesc {
        name: name.into(),
        doc: String::new(),
        handler,
        args: args
            .iter()
            .map(|(n, ty)| ArgDesc { name: n.to_string(), ty: *ty, form: Form::Plain, default: None })
            .collect(),
        masked: false,
        result,
    };
    let key = record(&[("k", ResultType::Int), ("w", ResultType::Text)]);
    let entry = ResultType::Option(Box::new(record(&[("key", key), ("value", ResultType::Int)])));
    let step = record(&[("cursor", ResultType::Int), ("entry", entry)]);
    Desc {
        app: "test".into(),
        params: vec![ParamDesc {
            name: "mode".into(),
            ty: ParamType::UInt(8),
            form: Form::Plain,
            default: Some(ParamValue::UInt(mode)),
            doc: String::new(),
            live: false,
        }],
        ports: vec![
            port("wire", FrameEngine::Memory),
            port("out", FrameEngine::Memory),
            port("mon", FrameEngine::Memory),
        ],
        handlers: vec![
            handler("frame", HandlerOn::Frame { port: 0 }),
            handler("tick", HandlerOn::Every { period: 1_000_000_000 }),
            handler("next", HandlerOn::Signal),
            handler("insert", HandlerOn::Signal),
            handler("fault", HandlerOn::Fault),
        ],
        places: vec![PlaceDesc {
            name: "here".into(),
            file: String::new(),
            line: 1,
            column: 1,
            library: String::new(),
        }],
        faults: vec![wireloom_ir::OwnFault { name: "disorder".into(), doc: String::new() }],
        signals: vec![
            signal("t.next", 2, &[("cursor", ParamType::UInt(64))], step),
            signal("t.insert", 3, &[("k", ParamType::UInt(64)), ("v", ParamType::UInt(64))], ResultType::Nothing),
        ],
        ..Desc::default()
    }
}

pub fn pairs(list: &[(&str, String)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| (a.to_string(), b.clone())).collect()
}

pub fn run_on(program: Program, desc: Desc, frames: Options, cores: usize) -> Result<Summary, Error> {
    run_until(program, desc, frames, cores, Stop::default())
}

pub fn run_until(program: Program, desc: Desc, frames: Options, cores: usize, stop: Stop) -> Result<Summary, Error> {
    run_all(vec![(program, desc)], frames, cores, stop, None)
}

pub fn run_all(
    apps: Vec<(Program, Desc)>,
    frames: Options,
    cores: usize,
    stop: Stop,
    ready: Option<ReadyFn>,
) -> Result<Summary, Error> {
    let specs = apps.into_iter().map(|(program, desc)| AppSpec { program, desc, sets: Vec::new() }).collect();
    let there = std::thread::available_parallelism().map_or(1, |n| n.get());
    crate::serve(
        specs,
        ServeOptions { cpus: (0..cores).map(|i| i % there).collect(), frames, stop, ready, ..ServeOptions::default() },
    )
}

/// Frame `seq` of a flow: Ethernet, IPv4, UDP, then flow and number.
pub fn frame(flow: u32, seq: u32) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17, 0, 0];
    f.extend([10, 0, (flow >> 8) as u8, flow as u8, 10, 1, 0, 1, 4, 0, 0, 53, 0, 30, 0, 0]);
    f.extend(flow.to_ne_bytes());
    f.extend(seq.to_ne_bytes());
    f.resize(64, 0);
    f
}

/// Writes a capture of (time, frame).
pub fn capture<'a>(name: &str, frames: impl IntoIterator<Item = (u64, &'a [u8])>) -> String {
    let path = dir().join(name);
    let mut w = pcap::Writer::create(&path, pcap::Style::default()).unwrap();
    for (time, f) in frames {
        assert!(w.frame(f, time, f.len() as u32));
    }
    w.finish().unwrap();
    path.display().to_string()
}

/// (time, length on the wire, bytes) of all frames of a capture.
pub fn frames_of(path: &str) -> Vec<(u64, u32, Vec<u8>)> {
    let mut r = pcap::Reader::open(Path::new(path)).unwrap();
    let mut out = Vec::new();
    while let Some(n) = r.peek() {
        out.push((n.time, n.wire, r.bytes(&n).to_vec()));
        r.advance();
    }
    out
}
