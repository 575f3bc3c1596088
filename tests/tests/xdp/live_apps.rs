//! Apps in the hook of real interfaces, between hosts in namespaces.

use super::live::{has_xdp, ready, TOOLS};
use crate::packet_live::{firewall_rules, port_opens_to_knocks};
use serde_json::Value;
use wireloom_tests::net::Net;
use wireloom_tests::{Process, Wireloom};

/// Two hosts at one wire. The first one finds the other without ARP, which no app answers.
fn two(address: &str) -> Option<Net> {
    if !has_xdp() {
        return None;
    }
    let net = Net::new(&["c", "s"], &TOOLS)?;
    net.link(("c", "eth0", "02:00:00:00:00:01"), ("s", "eth0", "02:00:00:00:00:02"));
    net.sh("c", "ip addr add 10.4.0.1/24 dev eth0");
    net.sh("c", &format!("ip neigh add {address} lladdr 02:00:00:00:00:02 dev eth0 nud permanent"));
    net.sh("s", "ip neigh add 10.4.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent");
    ready(&net, &[("c", "eth0"), ("s", "eth0")]);
    Some(net)
}

/// An app in the hook of the second host, and where it takes commands.
fn started(net: &Net, app: &str) -> (Process, String) {
    let control = net.folder.join("control").display().to_string();
    let args = ["--place", "xdp", "--bind", "wire=nic:eth0", "--control", &control];
    (net.app("s", app, &args), control)
}

/// Frames to a port, which extension headers or small fragments hide. The stack answers all of them
/// without the firewall, and none with it.
#[test]
fn no_port_is_hidden_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a", "b"], &TOOLS) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    for (ns, dev) in [("a", "a0"), ("b", "b0")] {
        net.sh(ns, &format!("sysctl -qw net.ipv6.conf.{dev}.disable_ipv6=0"));
    }
    net.sh("a", "ip addr add 10.8.0.1/24 dev a0; ip addr add fd00::1/64 dev a0 nodad");
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0; ip addr add fd00::2/64 dev b0 nodad");
    let ends = [("a", "10.8.0.2", "fd00::2", "02:00:00:00:0b:01"), ("b", "10.8.0.1", "fd00::1", "02:00:00:00:0a:01")];
    for (ns, v4, v6, mac) in ends {
        let dev = if ns == "a" { "a0" } else { "b0" };
        for address in [v4, v6] {
            net.sh(ns, &format!("ip neigh replace {address} lladdr {mac} dev {dev} nud permanent"));
        }
    }
    ready(&net, &[("a", "a0"), ("b", "b0")]);
    let script = wireloom_tests::root().join("tests/packets/hidden_ports.py").display().to_string();
    let answered = || net.sh("b", &format!("python3 {script} b0")).trim().to_string();
    assert_eq!(answered(), "v6 v6+60 v6+60+60 v6+60+43+60 v6+60x7 v6+44+60 v4 v4/8");
    let control = net.folder.join("control").display().to_string();
    let mut app = net.app("a", "xdp_firewall", &["--bind", "wire=nic:a0", "--control", &control]);
    let rule = ["table", "ports", "insert", "proto=6", "port=22", "action=drop", "--control", &control];
    assert_eq!(Wireloom::command(&rule).code, Some(0));
    assert_eq!(answered(), "");
    let count = |name: &str| asked(&control, &["counter", name]).to_string();
    assert!(count("by_port").contains('6'), "{}", count("by_port"));
    // The seven headers, and both fragments.
    assert!(count("by_hiding").contains('3'), "{}", count("by_hiding"));
    app.kill();
}

/// A command at a running app, in JSON.
fn asked(control: &str, args: &[&str]) -> Value {
    let said = Wireloom::command(&[args, &["--json", "--control", control]].concat());
    assert_eq!(said.code, Some(0), "{args:?}: {}", said.text);
    serde_json::from_str(&said.text).unwrap_or_else(|e| panic!("{e}: {}", said.text))
}

/// Datagrams to a port: so many, each with this many bytes.
fn datagrams(net: &Net, to: &str, port: u16, count: u32, bytes: u32) {
    let script = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 4000)); \
         [s.sendto(bytes({bytes}), ('{to}', {port})) for _ in range({count})]"
    );
    net.sh("c", &format!("python3 -c \"{script}\""));
}

/// Each flow has all of its packets and bytes, seen while they are counted.
#[test]
fn flows_live() {
    let Some(net) = two("10.4.0.2") else { return };
    let (mut app, control) = started(&net, "flow_tracker");
    for port in 1..=5u16 {
        datagrams(&net, "10.4.0.2", port, 100 * u32::from(port), 58);
    }
    let packets = |port: u64| -> Option<(u64, u64)> {
        let all = asked(&control, &["table", "flows"]);
        let flow = all.as_array()?.iter().find(|f| f["dport"] == port)?.clone();
        Some((flow["packets"].as_u64()?, flow["bytes"].as_u64()?))
    };
    net.until("the last flow is whole", || packets(5).is_some_and(|f| f.0 == 500));
    for port in 1..=5u64 {
        assert_eq!(packets(port), Some((100 * port, 100 * port * 100)), "{port}");
    }
    app.kill();
}

/// The flow with most bytes stands out among a hundred small ones.
#[test]
fn heavy_flows_live() {
    let Some(net) = two("10.4.0.2") else { return };
    let (mut app, control) = started(&net, "flow_classifier");
    let small = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
         [s.sendto(bytes(20), ('10.4.0.2', p)) for p in range(1000, 1100)]";
    net.sh("c", &format!("python3 -c \"{small}\""));
    datagrams(&net, "10.4.0.2", 7, 300, 958);
    let heavy = || asked(&control, &["table", "heavy"]);
    net.until("it is found", || heavy().as_array().is_some_and(|all| !all.is_empty()));
    let found = heavy();
    let all = found.as_array().expect("entries");
    // The sketch never counts too few.
    let least = |f: &Value| f["bytes"].as_u64().is_some_and(|b| b >= 300 * 1000);
    net.until("all of its bytes are counted", || heavy().as_array().is_some_and(|all| all.iter().any(least)));
    assert!(all.len() == 1 && all[0]["dport"] == 7 && all[0]["sport"] == 4000, "{found}");
    app.kill();
}

/// The port opens to the one connection whose host has knocked. The host's own stack serves it.
#[test]
fn knocking_live() {
    let Some(net) = two("10.4.0.2") else { return };
    net.sh("s", "ip addr add 10.4.0.2/24 dev eth0");
    let args = ["--place", "xdp", "--bind", "wire=nic:eth0", "--bind", "kernel=kernel", "--control", "off"];
    let mut app = net.app("s", "port_knocking", &args);
    let server = net.http("s", 22);
    port_opens_to_knocks(&net);
    app.kill();
    drop(server);
}

/// Rules between two hosts, one app for each direction; a rule changes while they talk.
#[test]
fn rules_live() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["c", "fw", "s"], &TOOLS) else { return };
    net.link(("c", "eth0", "02:00:00:00:00:01"), ("fw", "in", "02:00:00:00:00:02"));
    net.link(("s", "eth0", "02:00:00:00:00:03"), ("fw", "out", "02:00:00:00:00:04"));
    for (host, own, other, mac) in [("c", "10.6.0.1", "10.6.0.2", 3), ("s", "10.6.0.2", "10.6.0.1", 1)] {
        net.sh(host, &format!("ip addr add {own}/24 dev eth0"));
        net.sh(host, &format!("ip neigh add {other} lladdr 02:00:00:00:00:0{mac} dev eth0 nud permanent"));
    }
    ready(&net, &[("c", "eth0"), ("s", "eth0")]);
    let [there, back] = firewall_rules(&net);
    let control = net.folder.join("control").display().to_string();
    let app = |wire: &str, accepted: &str, load: &str, control: &str| {
        let (wire, accepted) = (format!("wire=nic:{wire}"), format!("accepted=nic:{accepted}"));
        let args = ["--place", "xdp", "--bind", &wire, "--bind", &accepted, "--load", load, "--control", control];
        net.app("fw", "openflow_firewall", &args)
    };
    let (mut out, mut home) = (app("in", "out", &there, &control), app("out", "in", &back, "off"));
    net.ping("c", "10.6.0.2", 10, 56);
    let servers = [net.http("s", 80), net.http("s", 81), net.http("s", 79)];
    let refused = |port: u16| {
        let o = net.try_sh("c", &format!("curl -sS --max-time 0.5 http://10.6.0.2:{port}/"));
        assert_eq!(o.code, Some(28), "{port}: {}", o.text);
    };
    assert_eq!(net.curl("c", "http://10.6.0.2/"), "s");
    assert_eq!(net.curl("c", "http://10.6.0.2/big -o /dev/null -w %{size_download}"), "1048576");
    refused(81);
    refused(79);
    let told = |args: &[&str]| {
        let said = Wireloom::command(&[&["table", "rules"], args, &["--control", &control]].concat());
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.text);
    };
    told(&["delete", "priority=10", "dport=81", "proto=6"]);
    assert_eq!(net.curl("c", "http://10.6.0.2:81/"), "s");
    told(&["insert", "priority=11", "dst=10.6.0.2", "action=drop"]);
    refused(80);
    out.kill();
    home.kill();
    drop(servers);
}
