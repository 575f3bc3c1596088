//! Programs in the hook of real interfaces, in namespaces.

use super::*;
use serde_json::Value;
use wireloom_tests::captures::{write, Frames};
use wireloom_tests::net::Net;
use wireloom_tests::Wireloom;

/// The firewall in front of a real stack: its lists change while pings flow, and the hook is empty
/// when the process has gone.
#[test]
fn firewall_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &["ping", "curl"]) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    net.sh("a", "ip addr add 10.8.0.1/24 dev a0");
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0");
    let control = net.folder.join("control").display().to_string();
    let page = "127.0.0.1:8080";
    let mut app = net.app("a", "xdp_firewall", &["--bind", "wire=nic:a0", "--control", &control, "--admin", page]);
    let answers = || net.try_sh("b", "ping -n -q -c 1 -W 1 10.8.0.1").code == Some(0);
    let told = |args: &[&str]| {
        let said = Wireloom::command(&[args, &["--control", &control]].concat());
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.text);
        said.text
    };
    net.until("a ping is answered", answers);
    assert!(net.sh("a", "ip link show dev a0").contains("prog/xdp"));
    told(&["table", "networks", "insert", "key=10.8.0.0/24", "value=true"]);
    net.until("the network is blocked", || !answers());
    let counted: Value = serde_json::from_str(&told(&["counter", "by_network", "--json"])).expect("JSON");
    assert!(counted.to_string().contains("by_network"), "{counted}");
    assert!(told(&["counter", "--all"]).contains("xdp.dropped"));
    assert!(told(&["table", "networks"]).contains("10.8.0.0"));
    told(&["table", "networks", "delete", "key=10.8.0.0/24"]);
    net.until("a ping is answered again", answers);
    // An IPv4 header that is cut off: the fault has its kind and place in the metrics.
    let send = "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('b0', 0)); \
         s.send(bytes(12) + bytes([8, 0, 0x45, 0]))";
    net.sh("b", &format!("python3 -c \"{send}\""));
    let place = "wireloom_faults_total{app=\"xdp_firewall\",kind=\"truncated\",place=\"";
    net.until("the fault is in the metrics", || {
        let page = net.curl("a", "http://127.0.0.1:8080/metrics");
        page.lines().any(|l| l.strip_prefix(place).is_some_and(|l| l.len() > "\"} 1".len() && l.ends_with(" 1")))
    });
    // A second program at the interface is refused, by its number.
    let second = net.try_sh(
        "a",
        &format!("{} run apps/xdp_firewall.loom --bind wire=nic:a0 --control off", Wireloom::binary().display()),
    );
    assert_eq!(second.code, Some(1), "{}", second.text);
    assert!(second.text.contains("another XDP program, number"), "{}", second.text);
    app.kill();
    net.until("the hook is empty", || !net.sh("a", "ip link show dev a0").contains("prog/xdp"));
    assert!(answers());
}

/// Whether programs can be loaded here; if not, it is said loudly.
pub(super) fn has_xdp() -> bool {
    let here = Object::load(&probe(), &Settings::default()).is_ok();
    if !here {
        eprintln!("SKIPPED: no XDP here");
    }
    here
}

pub(super) const TOOLS: [&str; 4] = ["ping", "curl", "ethtool", "python3"];

/// A frame that XDP sends to a veth is lost unless its other end has GRO.
pub(super) fn ready(net: &Net, ends: &[(&str, &str)]) {
    for (ns, device) in ends {
        net.sh(ns, &format!("ethtool -K {device} gro on"));
    }
}

/// Three hosts at a switch: floods, and what it has learned.
#[test]
fn switch_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["sw", "a", "b", "c"], &TOOLS) else { return };
    for (i, h) in ["a", "b", "c"].iter().enumerate() {
        let (near, far) = (format!("02:00:00:00:01:0{i}"), format!("02:00:00:00:00:0{}", i + 1));
        net.link(("sw", &format!("to_{h}"), &near), (h, "eth0", &far));
        net.sh(h, &format!("ip addr add 10.7.0.{}/24 dev eth0", i + 1));
        ready(&net, &[(h, "eth0")]);
    }
    let mut app =
        net.app("sw", "learning_switch", &["--place", "xdp", "--bind", "ports=nic:to_a,to_b,to_c", "--control", "off"]);
    net.ping("a", "10.7.0.2", 20, 56);
    // A network card would leave out frames for other stations.
    let flags = net.sh("sw", "cat /sys/class/net/to_a/flags");
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).expect("a number");
    assert!(flags & libc::IFF_PROMISC as u32 != 0, "{flags:#x}");
    net.ping("c", "10.7.0.1", 20, 1000);
    let before = net.received("c", "eth0");
    net.ping("a", "10.7.0.2", 20, 56);
    // Frames to a station that is known go there only.
    assert!(net.received("c", "eth0") < before + 10);
    let server = net.http("b", 80);
    assert_eq!(net.curl("a", "http://10.7.0.2/"), "b");
    drop(server);
    app.kill();
}

/// Hosts behind one address: pings and a connection, both ways.
#[test]
fn nat_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["h", "nat", "s"], &TOOLS) else { return };
    net.link(("h", "eth0", "02:00:00:00:00:01"), ("nat", "lan", "02:00:00:00:00:02"));
    net.link(("nat", "wan", "02:00:00:00:00:03"), ("s", "eth0", "02:00:00:00:00:04"));
    net.sh("h", "ip addr add 203.0.113.7/24 dev eth0");
    net.sh("s", "ip addr add 203.0.113.2/24 dev eth0");
    ready(&net, &[("h", "eth0"), ("s", "eth0")]);
    let args = ["--place", "xdp", "--bind", "lan=nic:lan", "--bind", "wan=nic:wan", "--control", "off"];
    let mut app = net.app("nat", "nat44", &[&args[..], &["--set", "public=203.0.113.1"]].concat());
    net.ping("h", "203.0.113.2", 20, 56);
    let server = net.http("s", 80);
    assert_eq!(net.curl("h", "http://203.0.113.2/"), "s");
    assert_eq!(net.curl("h", "http://203.0.113.2/big -o /dev/null -w %{size_download}"), "1048576");
    drop(server);
    let neighbours = net.sh("s", "ip neigh");
    assert!(
        neighbours.contains("203.0.113.1")
            && !neighbours.contains("203.0.113.7 dev eth0 lladdr 02:00:00:00:00:01 REACHABLE"),
        "{neighbours}"
    );
    app.kill();
}

/// A packet to the balancer's address leaves in a tunnel.
#[test]
fn balancer_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["c", "lb", "s"], &TOOLS) else { return };
    net.link(("c", "eth0", "02:00:00:00:00:01"), ("lb", "wire", "02:00:00:00:00:02"));
    net.link(("lb", "out", "02:00:00:00:00:03"), ("s", "eth0", "02:00:00:00:00:04"));
    net.sh("c", "ip addr add 10.6.0.2/24 dev eth0; ip neigh add 10.6.0.1 lladdr 02:00:00:00:00:02 dev eth0");
    ready(&net, &[("c", "eth0"), ("s", "eth0")]);
    let folder = Folder::new("xdp-balancer-live");
    let text = std::fs::read_to_string(app("l4_balancer")).expect("the app is there");
    let path = written(&folder, &text.replace("capacity 33554432", "capacity 64K")).display().to_string();
    let args = ["--place", "xdp", "--bind", "wire=nic:wire", "--bind", "out=nic:out", "--control", "off"];
    let sets = ["--set", "vip=10.6.0.1", "--set", "dips=10.6.1.1,10.6.1.2", "--set", "gateway=02:00:00:00:00:04"];
    let mut app = net.app("lb", &path, &[&args[..], &sets].concat());
    let seen = "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800)); s.bind(('eth0', 0x800)); \
         print('listening', flush=True); \
         f = next(f for f in iter(lambda: s.recv(2000), b'') if f[23] == 4); print(f[30:33].hex(), f[34] >> 4, f[46:54].hex(), flush=True)";
    let log = net.folder.join("seen");
    net.sh("s", &format!("python3 -c \"{seen}\" > {} 2>&1 &", log.display()));
    let told = || std::fs::read_to_string(&log).unwrap_or_default();
    net.until("somebody listens", || told().contains("listening"));
    net.sh(
        "c",
        "python3 -c \"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('10.6.0.1', 53))\"",
    );
    // To a server, in an outer header; the inner one is that of the client.
    net.until("the packet comes in a tunnel", || told().contains("0a0601 4 0a0600020a060001"));
    app.kill();
}

/// The first frame behind `ready` meets the tables that `on start` fills, however long that takes.
#[test]
fn ready_behind_the_start() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &TOOLS) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0; ip neigh add 10.8.0.1 lladdr 02:00:00:00:0a:01 dev b0");
    ready(&net, &[("b", "b0")]);
    let folder = Folder::new("xdp-ready");
    let source =
        "app slow { port wire = nic(\"a0\") table ring: array u32 -> u32 { capacity 262144 } counter early, late
        on start { for i in 0..262144 { ring[i] = 39 } }
        on wire(p) where p.ip4 and p.udp on xdp { if ring[262143] == 39 { late += 1 } else { early += 1 } } }";
    let path = written(&folder, source).display().to_string();
    let control = net.folder.join("control").display().to_string();
    let mut app = net.app("a", &path, &["--control", &control]);
    net.sh(
        "b",
        "python3 -c \"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('10.8.0.1', 53))\"",
    );
    let counted = || Wireloom::command(&["counter", "--control", &control, "--json"]).text;
    net.until("the frame is counted", || counted().contains("\"value\":1"));
    let said = counted();
    assert!(said.contains(r#""counter":"late","per_s":null,"value":1"#), "{said}");
    app.kill();
}

/// Bytes of a packet that the hook logs begin no line of their own, and control no terminal.
#[test]
fn log_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &TOOLS) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0; ip neigh add 10.8.0.1 lladdr 02:00:00:00:0a:01 dev b0");
    ready(&net, &[("b", "b0")]);
    let folder = Folder::new("xdp-log");
    let source = "app says { port wire = nic(\"a0\")
        on wire(p) where p.ip4 and p.udp on xdp { log \"from \", p.ip4.src, \": \", slice(p.payload, 0, 30) } }";
    let path = written(&folder, source).display().to_string();
    let mut app = net.app("a", &path, &["--control", "off"]);
    let send = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\
         .sendto(b'a' + bytes([10]) + b'ERROR' + bytes([27]) + b'[2Jz', ('10.8.0.1', 53))";
    net.sh("b", &format!("python3 -c \"{send}\""));
    let line = "says: from 10.8.0.2: a\\nERROR\\u{1b}[2Jz";
    net.until("the line is there", || app.output().contains("says: from"));
    let said = app.output();
    assert!(said.lines().any(|l| l.ends_with(line)), "{said}");
    app.kill();
}

/// A source that is too fast is held up, another one is not; prefixes change while it runs.
#[test]
fn ddos_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &TOOLS) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    net.sh("a", "ip addr add 10.8.0.1/24 dev a0");
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0; ip addr add 10.8.0.3/24 dev b0");
    let control = net.folder.join("control").display().to_string();
    let sets = ["--set", "rate=5", "--set", "burst=3"];
    let args = ["--bind", "wire=nic:a0", "--bind", "samples=nic:a0", "--control", &control];
    let mut app = net.app("a", "ddos_filter", &[&args[..], &sets].concat());
    let fast = |source: &str| {
        let said = net.try_sh("b", &format!("ping -n -q -c 30 -i 0.01 -W 1 -I {source} 10.8.0.1")).text;
        let received = said.split(" received").next().and_then(|t| t.split_whitespace().last()?.parse::<u32>().ok());
        received.unwrap_or_else(|| panic!("{said}"))
    };
    let answered = fast("10.8.0.2");
    assert!((2..20).contains(&answered), "{answered} of 30");
    assert_eq!(net.try_sh("b", "ping -n -q -c 1 -W 1 -I 10.8.0.3 10.8.0.1").code, Some(0));
    let told = |args: &[&str]| {
        let said = Wireloom::command(&[args, &["--control", &control]].concat());
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.text);
        said.text
    };
    told(&["table", "allowed", "insert", "key=10.8.0.2/32", "value=true"]);
    assert_eq!(fast("10.8.0.2"), 30);
    told(&["table", "denied", "insert", "key=10.8.0.0/24", "value=true"]);
    assert_ne!(net.try_sh("b", "ping -n -q -c 1 -W 1 -I 10.8.0.3 10.8.0.1").code, Some(0));
    assert!(told(&["counter", "by_rate", "--json"]).contains("by_rate"));
    app.kill();
}

/// A memcached behind the cache: several writers and readers, tables that are walked and changed
/// meanwhile. No value is older than an acknowledged write.
#[test]
fn kv_cache_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["c", "mid", "s"], &["ethtool", "memcached"]) else { return };
    net.link(("c", "eth0", "02:00:00:00:00:01"), ("mid", "out", "02:00:00:00:00:02"));
    net.link(("mid", "in", "02:00:00:00:00:03"), ("s", "eth0", "02:00:00:00:00:04"));
    net.sh("c", "ip addr add 10.6.0.1/24 dev eth0");
    net.sh("s", "ip addr add 10.6.0.2/24 dev eth0");
    ready(&net, &[("c", "eth0"), ("s", "eth0")]);
    let control = net.folder.join("control").display().to_string();
    let bind = ["--bind", "outside=nic:out", "--bind", "inside=nic:in", "--control", &control];
    let mut app = net.app("mid", "xdp_kv_cache", &bind);
    let serve = "echo serving; exec memcached -u nobody -l 10.6.0.2 -U 11211 -t 2";
    let server = net.server("s", "memcached", &["sh", "-c", serve], "serving");
    // The kernel delivers what XDP sends back through a veth if its other end has a program, too.
    let passing = root().join("bench/xdp/pass.loom").display().to_string();
    let _at_the_client = net.app("c", &passing, &["--bind", "wire=nic:eth0", "--control", "off"]);
    net.ping("c", "10.6.0.2", 3, 56);
    let told = |args: &[&str]| Wireloom::command(&[args, &["--control", &control]].concat());
    let clients = root().join("tests/packets/kv_clients.py");
    let mut command = net.command("c", "python3");
    command.arg(clients).args(["10.6.0.2", "6", "3", "4"]).stdout(std::process::Stdio::piped());
    let mut run = command.spawn().expect("python3 starts");
    while run.try_wait().expect("it is a child").is_none() {
        let shown = told(&["table", "hot"]);
        assert_eq!(shown.code, Some(0), "{}", shown.text);
        told(&["table", "hot", "delete", "key=key1.1"]);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let out = run.wait_with_output().expect("its output is read").stdout;
    let said = String::from_utf8_lossy(&out).into_owned();
    let number = |name: &str| -> u64 {
        let found = said.split_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name}: {said}"))
    };
    assert_eq!(number("stale"), 0, "{said}");
    assert!(number("gets") > 1000 && number("sets") > 200, "{said}");
    let counted = told(&["counter", "--json"]).text;
    let counters: Value = serde_json::from_str(&counted).expect("JSON");
    let hits = counter_of(&counters, "hot.hits").unwrap_or_else(|| panic!("{counted}"));
    assert!(hits > 500, "{counted}");
    eprintln!("kv_cache_live: {said} {counted}");
    drop(server);
    app.kill();
}

/// A counter's value in what `wireloom counter --json` prints.
pub(super) fn counter_of(shown: &Value, name: &str) -> Option<u64> {
    shown.as_array()?.iter().find(|c| c["counter"] == name)?["value"].as_u64()
}

/// Interfaces that are removed are named, in the hook and without it. The run ends with the last
/// one, in order: tables are written.
#[test]
fn interfaces_that_go() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &TOOLS) else { return };
    for (how, places) in [("cpu", &[][..]), ("xdp", &["--place", "xdp"])] {
        for n in 0..2 {
            let mac = |side: u32| format!("02:00:00:00:0{side}:0{n}");
            net.link(("a", &format!("a{n}"), &mac(1)), ("b", &format!("b{n}"), &mac(2)));
        }
        let dump = net.folder.join(format!("{how}.json"));
        let written = format!("stations={}", dump.display());
        let args = ["--bind", "ports=nic:a0,a1", "--control", "off", "--dump", &written];
        let mut app = net.app("a", "learning_switch", &[&args[..], places].concat());
        net.sh("b", "ip link del b0");
        net.until("it is named", || app.output().contains("interface `a0` is gone"));
        net.sh("b", "ip link del b1");
        let code = app.exit_code(std::time::Duration::from_secs(20));
        let said = app.output();
        assert_eq!(code, Some(1), "{how}: {said}");
        assert!(said.contains("wireloom: no interface is left: `a0`, `a1` is gone"), "{how}: {said}");
        assert!(dump.exists(), "{how}: {said}");
    }
}

/// A process without the rights for the hook is told which it lacks.
#[test]
fn rights_that_are_missing() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &["setpriv"]) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    let run = format!("{} run apps/xdp_firewall.loom --bind wire=nic:a0 --control off", Wireloom::binary().display());
    for (set, lacks) in [("bpf,-sys_admin", "CAP_BPF"), ("perfmon,-sys_admin", "CAP_PERFMON")] {
        let out = net.try_sh("a", &format!("setpriv --bounding-set=-{set} --inh-caps=-{set} {run}"));
        let why = format!(
            "wireloom: XDP needs root, or the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; this process lacks {lacks}\n"
        );
        assert!(out.code == Some(1) && out.text.ends_with(&why), "{}", out.text);
    }
}

/// A frame without a whole header of Ethernet does not leave, and is not counted as sent.
#[test]
fn frames_without_a_header_are_not_sent() {
    let Some(link) = process::Link::new() else { return };
    let path = link.file("short.loom");
    let text = "app short {\n    port i = nic(\"i\"), out = nic(\"a0\")\n    i -> out\n}\n";
    std::fs::write(&path, text).expect("the folder is writable");
    let frame = [&[2, 0, 0, 0, 0x0b, 1, 2, 0, 0, 0, 0, 0x77, 0x88, 0xb5][..], &[0; 50]].concat();
    let frames: Frames =
        [13, 14, 1, 60].iter().enumerate().map(|(n, len)| (n as u64, frame[..*len].to_vec())).collect();
    let capture = link.file("short.pcap");
    write(std::path::Path::new(&capture), &frames);
    for engine in ["nic", "afxdp", "afpacket"] {
        let before = link.net.received("b", "b0");
        let mut command = link.net.command("a", Wireloom::binary());
        let [i, out] = [format!("i=pcap:{capture}"), format!("out={engine}:a0")];
        let said = command.args(["run", &path, "--bind", &i, "--bind", &out]).output().expect("it runs");
        let text = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
        assert!(text.contains("4 frames received, 2 sent, 2 "), "{engine}: {text}");
        link.net.until("two frames arrive", || link.net.received("b", "b0") >= before + 2);
    }
}

/// Two ports of an app at one interface: AF_PACKET gives each frame to both. One may send beside a
/// reader. Other pairs are refused at the start.
#[test]
fn two_ports_at_one_interface() {
    let Some(link) = process::Link::new() else { return };
    let app = |name: &str, handlers: &str| {
        let text =
            format!("app two {{\n    port a = nic(\"a0\"), b = nic(\"a0\")\n    counter by_a, by_b\n{handlers}\n}}\n");
        let path = link.file(&format!("{name}.loom"));
        std::fs::write(&path, text).expect("the folder is writable");
        path
    };
    let mark = "where p.eth and p.eth.src == 02:00:00:00:00:77";
    let both = app("both", &format!("on a(p) {mark} {{ by_a += 1 }}  on b(p) {mark} {{ by_b += 1 }}"));
    let back = app("back", &format!("on a(p) {mark} {{ by_a += 1  p -> b }}"));
    let half = app("half", "on a(p) on xdp { by_a += 1 }  on b(p) { by_b += 1 }");
    let hook = app("hook", "on a(p) on xdp { by_a += 1 }  on b(p) on xdp { by_b += 1 }");
    let frames = vec![[&[2, 0, 0, 0, 0x0b, 1, 2, 0, 0, 0, 0, 0x77, 0x88, 0xb5][..], &[0; 50]].concat(); 40];
    let counters = link.file("counters.json");
    let counted = |name: &str| {
        let all: Value = serde_json::from_str(&std::fs::read_to_string(&counters).expect("a file")).expect("JSON");
        all[name].as_u64().expect("a counter")
    };
    for engine in ["nic", "afpacket"] {
        let [a, b] = ["a", "b"].map(|p| format!("{p}={engine}:a0"));
        let dump = format!("counters={counters}");
        let args = ["--control", "off", "--bind", &a, "--bind", &b, "--dump", &dump];
        let mut run = link.net.app("a", &both, &args);
        link.send(&frames);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let said = link.end(&mut run);
        assert_eq!((counted("by_a"), counted("by_b")), (40, 40), "{engine}: {said}");
        assert_eq!(said.contains("using AF_PACKET, which gives each frame to all"), engine == "nic", "{said}");

        let mut run = link.net.app("a", &back, &args);
        let before = link.net.received("b", "b0");
        link.send(&frames);
        link.net.until("the frames come back", || link.net.received("b", "b0") >= before + 40);
        link.end(&mut run);
        assert_eq!(counted("by_a"), 40, "{engine}");
    }
    let refused = [
        (&half, "nic", "the hook of `a0` runs a program of this app"),
        (&hook, "nic", "the hook of an interface runs one program"),
        (&both, "afxdp", "an AF_XDP socket takes each frame for one port only"),
    ];
    for (path, engine, why) in refused {
        let [a, b] = ["a", "b"].map(|p| format!("{p}={engine}:a0"));
        let mut run = link.net.command("a", Wireloom::binary());
        let said = run.args(["run", path, "--bind", &a, "--bind", &b]).output().expect("it runs");
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.code() == Some(1) && text.contains(why), "{path}: {text}");
    }
}

/// Times that the hook gives, in tables that the process reads.
#[test]
fn one_clock_live() {
    if has_xdp() {
        for more in [&[][..], &["--interpret"]] {
            crate::one_clock::one_clock("one_clock_hook", "nic:a0", more);
        }
    }
}

/// The hook, the CPU and the NIC's process share an app. The hook alone has a use for one port.
#[test]
fn hook_and_card_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &TOOLS) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    net.link(("a", "c0", "02:00:00:00:0c:01"), ("b", "c1", "02:00:00:00:0d:01"));
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0; ip neigh add 10.8.0.1 lladdr 02:00:00:00:0a:01 dev b0");
    let control = net.folder.join("control").display().to_string();
    for more in [&[][..], &["--interpret"]] {
        let mut app = net.app("a", "tests/programs/hook_and_card.loom", &[&["--control", &control][..], more].concat());
        net.try_sh("b", "ping -n -q -c 20 -i 0.01 -W 0.1 10.8.0.1");
        let counted = || Wireloom::command(&["counter", "handled", "--control", &control]).text;
        let count = || counted().split_whitespace().find_map(|w| w.parse::<u64>().ok());
        net.until("the frames have come to the NIC", || count() == Some(20));
        app.kill();
    }
}
