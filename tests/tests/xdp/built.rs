//! Executables of apps with a part in the hook: they need no clang where they run.

use super::live::{has_xdp, ready, TOOLS};
use super::*;
use std::process::Command;
use wireloom_tests::net::Net;
use wireloom_tests::process::Process;
use wireloom_tests::{captures, free_port};

/// Builds an app; the path of the executable.
fn build(folder: &Folder, app: &str, args: &[&str]) -> String {
    let (path, out) = (root().join(app).display().to_string(), folder.name_of("built"));
    let said = Wireloom::command(&[&["build", &path, "-o", &out], args].concat());
    assert_eq!(said.code, Some(0), "{}", said.text);
    assert!(said.text.contains("built"), "{}", said.text);
    out
}

fn without_clang(command: &mut Command) -> &mut Command {
    command.env("PATH", "/nowhere")
}

/// The steps of `xdp::live::firewall_live`, which takes `wireloom run`.
#[test]
fn built_firewall_live() {
    let folder = Folder::new("xdp-built");
    let built = build(&folder, "apps/xdp_firewall.loom", &[]);
    let size = std::fs::metadata(&built).expect("built").len();
    assert!(size < 10 << 20, "{size} bytes");
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &TOOLS) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    net.sh("a", "ip addr add 10.8.0.1/24 dev a0");
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0");
    ready(&net, &[("b", "b0")]);
    let control = folder.name_of("control");
    let mut command = net.command("a", "env");
    command.args(["PATH=/nowhere", &built, "--bind", "wire=nic:a0", "--control", &control]);
    let mut app = Process::start_ours("built", &mut command, free_port());
    let told = |args: &[&str]| {
        let said = Wireloom::command(&[args, &["--control", &control]].concat());
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.text);
        said.text
    };
    let answers = || net.try_sh("b", "ping -n -q -c 1 -W 1 10.8.0.1").code == Some(0);
    net.until("a ping is answered", answers);
    assert!(net.sh("a", "ip link show dev a0").contains("prog/xdp"));
    told(&["table", "networks", "insert", "key=10.8.0.0/24", "value=true"]);
    net.until("the network is blocked", || !answers());
    assert!(told(&["table", "networks"]).contains("10.8.0.0"));
    let counted: serde_json::Value = serde_json::from_str(&told(&["counter", "by_network", "--json"])).expect("JSON");
    assert!(super::live::counter_of(&counted, "by_network").is_some_and(|n| n > 0), "{counted}");
    app.signal(libc::SIGTERM);
    assert_eq!(app.exit(), Some(0), "{}", app.output());
    let said = app.output();
    assert!(said.contains("wire runs in XDP at a0") && said.contains("XDP at a0:"), "{said}");
    // The process has no use for the port.
    assert!(!said.contains(" is null"), "{said}");
    assert!(!net.sh("a", "ip link show dev a0").contains("prog/xdp"));
}

/// With a capture in the place of the interface the CPU runs the same executable, as it does `run`.
#[test]
fn built_on_a_capture() {
    let folder = Folder::new("xdp-built-capture");
    let built = build(&folder, "apps/xdp_firewall.loom", &[]);
    let frames = captures::traffic(7, 200, &[1_000_000]);
    captures::write(&folder.file("in.pcap"), &frames);
    let bind = format!("wire=pcap:{}", folder.name_of("in.pcap"));
    let run = |command: &mut Command, out: &str| {
        let kernel = format!("kernel=pcap:{}", folder.name_of(out));
        let done = command.args(["--bind", &bind, "--bind", &kernel, "--control", "off"]).output().expect("it runs");
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(0), "{text}");
        text
    };
    let text = run(without_clang(&mut Command::new(&built)), "built.pcap");
    assert!(text.contains("all handlers stay on the CPU: port `wire` is bound to pcap:"), "{text}");
    run(Command::new(Wireloom::binary()).args(["run", "apps/xdp_firewall.loom"]).current_dir(root()), "run.pcap");
    assert_eq!(captures::read(&folder.file("built.pcap")), captures::read(&folder.file("run.pcap")));
}

/// Numbers are set at the start. What is a part of the program is not: a sentence says so, without
/// rights, too.
#[test]
fn parameters_of_built_programs() {
    let folder = Folder::new("xdp-built-parameters");
    let built = build(&folder, "apps/xdp_kv_cache.loom", &["--set", "tcp=drop", "--set", "port=4000"]);
    let run = |args: &[&str]| {
        let done = without_clang(&mut Command::new(&built)).args(args).output().expect("it runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, text) = run(&["--set", "tcp=pass"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the value of parameter `tcp` is a part of the program for XDP"), "{text}");
    assert!(text.contains("`wireloom build --set tcp=…`"), "{text}");
    let (code, text) = run(&["--bind", "outside=nic:one,two"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("port `outside` has 1 interfaces in the program for XDP, and 2 are given"), "{text}");
    // Both are good: the interfaces are missing.
    let (code, text) = run(&["--set", "port=4001", "--set", "largest=100", "--set", "tcp=drop"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(!text.contains("parameter"), "{text}");
}

/// Programs for any machine do what those for this one do: parameters, tables in parts, arrays.
#[test]
fn portable_programs_are_the_same() {
    let folder = Folder::new("xdp-portable");
    let text = "app portable {\n    param least: u16 = 100\n    param all: bool = false\n\
                    port wire = nic(\"eth0\")\n\
                    table seen: ip4 -> u64 { capacity 1K, per_core }\n\
                    table sizes: array u32 -> u64 { capacity 16, per_core }\n    counter few\n\
                    on wire(p) where p.ip4 {\n        if p.len < least and not all { few += 1; return }\n\
                        seen[p.ip4.src] += 1\n        sizes[u32(p.len) & 15] += 1\n        p -> kernel\n    }\n}\n";
    let m = module(written(&folder, text));
    let all = candidates(&m);
    let mut source = emit(&m, &all, &|_| 1).expect("a handler of frames");
    assert_eq!(source.params.len(), 2, "both are set by the loader");
    let programs = wireloom_xdp::Portable::of(&mut source).expect("clang compiles it");
    if !super::live::has_xdp() {
        return;
    }
    let load = |least: u64, all: u64| {
        let settings = Settings { params: vec![[least, 0, 0], [all, 0, 0]], ..Settings::default() };
        Object::load_portable(&source, &settings, programs.clone()).unwrap_or_else(|e| panic!("{e}"))
    };
    let mut frame = captures::udp(1, 2, 3, 30);
    frame.resize(90, 0);
    for (least, all, passes) in [(100, 0, false), (80, 0, true), (100, 1, true)] {
        let object = load(least, all);
        let ran = object.test(0, &frame).expect("the kernel runs it");
        assert_eq!(ran.verdict, if passes { Verdict::Pass } else { Verdict::Drop }, "{least} {all}");
        assert_eq!(object.counter(0), u64::from(!passes));
        assert_eq!(object.entries(0), u64::from(passes));
        assert_eq!(object.get(1, &10u32.to_le_bytes()).map(|v| v[0]), Some(u8::from(passes)));
    }
}
