//! One program on two devices: `apps/xdp_firewall.loom` drops a flood, first on the CPU, then in
//! the kernel's XDP hook.
//!
//! In: two network namespaces with a link between them, made for this. Out: a line a second with
//! the frames that were dropped, and the CPU time that a frame took. The time is that of the
//! filter's process, and of the whole machine, sender included. Machines without the rights or the
//! tools say so, and skip it.

use crate::cast::{binary, Actor};
use crate::signals;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SECONDS: u32 = 4;
/// Frames per second. A small machine sends so many, too.
const RATE: u32 = 200_000;
const SOURCE: &str = "198.51.100.7";

/// A device, and the engine of the port that leads to it.
const DEVICES: [(&str, &str); 2] = [("on the CPU, by AF_XDP", "afxdp"), ("in the XDP hook", "nic")];

/// Two namespaces, removed when dropped.
struct Link {
    names: [String; 2],
}

impl Link {
    fn new() -> Result<Link, String> {
        let id = std::process::id();
        let link = Link { names: [format!("wldemo-{id}-a"), format!("wldemo-{id}-b")] };
        let [a, b] = &link.names;
        for line in [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("link add l0 netns {a} type veth peer name r0 netns {b}"),
            format!("-n {a} link set l0 up"),
            format!("-n {b} link set r0 up"),
        ] {
            ip(&line)?;
        }
        Ok(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| drop(ip(&format!("netns del {name}"))));
    }
}

fn ip(line: &str) -> Result<(), String> {
    said(Command::new("ip").args(line.split(' '))).map(drop)
}

/// The output of a command that ends well.
fn said(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("cannot run `{name}`: {e}"))?;
    let text = String::from_utf8_lossy(if out.status.success() { &out.stdout } else { &out.stderr }).into_owned();
    match out.status.success() {
        true => Ok(text),
        false => Err(text.trim().to_string()),
    }
}

/// Seconds of all processors that were used so far.
fn machine() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let all: Vec<u64> = text.lines().next().unwrap_or("").split_whitespace().filter_map(|n| n.parse().ok()).collect();
    // user, nice, system, irq, softirq
    let used: u64 = [0, 1, 2, 5, 6].iter().filter_map(|n| all.get(*n)).sum();
    used as f64 / crate::cast::ticks_per_second()
}

fn flood() -> String {
    format!(
        "use std.elements.generate.rated_source\n\
         app flood {{\n    port out = nic(\"r0\")\n    source = rated_source.RatedSource(\n        rate = {RATE}, src = {SOURCE}, \
         dst = 192.0.2.1,\n        to = 02:00:00:00:00:01, from = 02:00:00:00:00:02\n    )\n    source -> out\n}}\n"
    )
}

/// The frames that were dropped, and the CPU time in seconds.
#[derive(Clone, Copy)]
struct Sample {
    dropped: u64,
    filter: f64,
    machine: f64,
    at: Instant,
}

struct Filter<'a> {
    actor: Actor,
    socket: &'a Path,
}

impl Filter<'_> {
    fn ask(&self, args: &[&str]) -> Result<String, String> {
        let binary = binary().map_err(|e| e.to_string())?;
        said(Command::new(binary).args(args).arg("--control").arg(self.socket))
    }

    fn sample(&self) -> Result<Sample, String> {
        let text = self.ask(&["counter"])?;
        let line = text.lines().find(|l| l.contains("by_denied")).unwrap_or("");
        let dropped = line.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0);
        Ok(Sample { dropped, filter: self.actor.cpu(), machine: machine(), at: Instant::now() })
    }
}

fn show(device: &str, a: Sample, b: Sample, end: &str) {
    let frames = (b.dropped - a.dropped).max(1) as f64;
    let seconds = (b.at - a.at).as_secs_f64();
    println!(
        "  {device:<22} {:>9.0} frames/s dropped   CPU per frame: {:>5.2} µs in the filter, {:>5.2} µs in all{end}",
        (b.dropped - a.dropped) as f64 / seconds,
        (b.filter - a.filter) * 1e6 / frames,
        (b.machine - a.machine) * 1e6 / frames,
    );
}

/// Runs the filter on a device. Whether it has dropped frames.
fn on(device: &str, engine: &str, link: &Link, folder: &Path) -> Result<bool, String> {
    let socket = folder.join(format!("filter-{engine}"));
    let text = |p: &Path| p.display().to_string();
    let bind = format!("wire={engine}:l0");
    let args = ["run", "apps/xdp_firewall.loom", "--bind", &bind, "--bind", "kernel=null", "--control", &text(&socket)];
    let mut filter =
        Filter { actor: Actor::inside(folder, &format!("filter-{engine}"), &link.names[0], &args), socket: &socket };
    filter.actor.start()?;
    filter.actor.wait()?;
    filter.ask(&["table", "denied", "insert", &format!("key={SOURCE}"), "value=true"])?;
    let first = filter.sample()?;
    let mut last = first;
    for _ in 0..SECONDS {
        std::thread::sleep(Duration::from_secs(1));
        if signals::asked() {
            break;
        }
        let now = filter.sample()?;
        show(device, last, now, "");
        last = now;
    }
    show(device, first, last, "   (all)");
    filter.actor.stop();
    Ok(last.dropped > first.dropped)
}

/// False: a device has dropped nothing.
pub fn perform(folder: &Path) -> bool {
    println!("\nOne filter on two devices: apps/xdp_firewall.loom drops a flood of {RATE} frames/s.");
    println!("\"In all\" is the whole machine: the sender, the kernel, and programs beside the demo.\n");
    let done = Link::new().and_then(|link| {
        let path = folder.join("flood.loom");
        std::fs::write(&path, flood()).map_err(|e| e.to_string())?;
        let args = ["run", &path.display().to_string(), "--bind", "out=afpacket:r0"];
        let mut sender = Actor::inside(folder, "flood", &link.names[1], &args);
        sender.start()?;
        sender.wait()?;
        let all = DEVICES.iter().try_fold(true, |all, (device, engine)| Ok(all & on(device, engine, &link, folder)?));
        sender.kill();
        all
    });
    match done {
        Ok(all) => all,
        Err(e) => {
            println!("  skipped on this machine: {e}");
            true
        }
    }
}
