//! Packet apps between real stacks: `ping`, `curl`, `iperf3` and `traceroute` in namespaces with
//! veth pairs. They run by AF_PACKET and by AF_XDP (the driver's path of veth; the generic one
//! through a macvlan device). Offloads stay on: TCP leaves checksums and segmentation to hardware
//! that is not there.

use wireloom_tests::captures::{udp, write, EPOCH, MS};
use wireloom_tests::net::Net;
use wireloom_tests::process::{finish, require_tool};
use wireloom_tests::{free_port, Process, Wireloom};

const ALL: [&str; 4] = ["ping", "curl", "iperf3", "traceroute"];

fn mac(n: u32) -> String {
    format!("02:00:00:00:00:{n:02x}")
}

/// Four hosts around a switch.
fn star() -> Option<Net> {
    let net = Net::new(&["sw", "h0", "h1", "h2", "h3"], &ALL)?;
    for i in 0..4 {
        net.link((&format!("h{i}"), "eth0", &mac(i + 1)), ("sw", &format!("p{i}"), &mac(i + 0x11)));
        net.sh(&format!("h{i}"), &format!("ip addr add 10.0.0.{}/24 dev eth0", i + 1));
    }
    Some(net)
}

fn hosts_talk(net: &Net) {
    net.ping("h0", "10.0.0.2", 20, 56);
    net.ping("h3", "10.0.0.1", 5, 8000);
    net.ping("h2", "10.0.0.4", 5, 1472);
    let server = net.http("h1", 80);
    let big = net.folder.join("got");
    for h in ["h0", "h2", "h3"] {
        assert_eq!(net.curl(h, "http://10.0.0.2/"), "h1");
        net.curl(h, &format!("-o {} http://10.0.0.2/big", big.display()));
        let got = std::fs::read(&big).expect("curl wrote it");
        assert!(
            got.len() == 1 << 20 && got.iter().enumerate().all(|(i, b)| *b == (i * 7) as u8),
            "{} bytes",
            got.len()
        );
    }
    drop(server);
    let iperf = net.iperf_server("h3");
    net.iperf("h0", "10.0.0.4", 20 << 20, "");
    net.iperf("h1", "10.0.0.4", 20 << 20, "-R");
    drop(iperf);
}

fn switch(engine: &str, extra: &[&str]) {
    let Some(net) = star() else { return };
    let ports = format!("ports={engine}:p0,{engine}:p1,{engine}:p2,{engine}:p3");
    let mut app = net.app("sw", "learning_switch", &[&["--bind", &ports][..], extra].concat());
    hosts_talk(&net);
    // A frame for a known station goes there alone.
    net.ping("h0", "10.0.0.2", 1, 56);
    let before = net.received("h2", "eth0");
    net.ping("h0", "10.0.0.2", 50, 56);
    assert!(net.received("h2", "eth0") < before + 20, "frames between others reach a third");
    ends_well(&mut app);
}

/// Segments that one port takes whole are cut here if the output is no port that has the kernel do
/// it.
#[test]
fn segments_are_cut_for_ports_that_take_frames_only() {
    let Some(net) = star() else { return };
    let mut app = net.app("sw", "learning_switch", &["--bind", "ports=afpacket:p0,afxdp:p1,afpacket:p2,tap:t3"]);
    net.ping("h0", "10.0.0.2", 5, 1472);
    let iperf = net.iperf_server("h1");
    net.iperf("h0", "10.0.0.2", 20 << 20, "");
    net.iperf("h2", "10.0.0.2", 20 << 20, "-R");
    drop(iperf);
    ends_well(&mut app);
}

/// The app ends on SIGINT without a fault.
fn ends_well(app: &mut Process) {
    app.signal(libc::SIGINT);
    assert_eq!(app.exit(), Some(0), "{}", app.output());
    assert!(app.output().contains(" 0 faults"), "{}", app.output());
}

#[test]
fn learning_switch_af_packet() {
    switch("afpacket", &[]);
}

#[test]
fn learning_switch_af_packet_two_cores() {
    switch("afpacket", &["--cores", "0-1"]);
}

#[test]
fn learning_switch_af_xdp() {
    switch("afxdp", &[]);
}

#[test]
fn learning_switch_af_xdp_two_cores() {
    switch("nic", &["--cores", "0-1"]);
}

/// Frames of 9,000 bytes take several buffers.
fn jumbo_switch(engine: &str) {
    let Some(net) = star() else { return };
    for i in 0..4 {
        net.sh(&format!("h{i}"), "ip link set eth0 mtu 9000");
        net.sh("sw", &format!("ip link set p{i} mtu 9000"));
    }
    let ports = format!("ports={engine}:p0,{engine}:p1,{engine}:p2,{engine}:p3");
    let mut app = net.app("sw", "learning_switch", &["--bind", &ports]);
    for size in [3400, 3500, 3600, 3700, 3800, 4000, 7500, 8972] {
        net.ping("h0", "10.0.0.2", 3, size);
    }
    hosts_talk(&net);
    ends_well(&mut app);
}

#[test]
fn jumbo_frames_af_packet() {
    jumbo_switch("afpacket");
}

#[test]
fn jumbo_frames_af_xdp() {
    jumbo_switch("afxdp");
}

/// A frame that cannot leave, because it is longer than the link's MTU, is counted: none is lost in
/// silence.
fn frames_beyond_the_mtu_are_counted(engine: &str) {
    let Some(net) = Net::new(&["sw", "h0", "h1"], &ALL) else { return };
    for i in 0..2 {
        net.link((&format!("h{i}"), "eth0", &mac(i + 1)), ("sw", &format!("p{i}"), &mac(i + 0x11)));
        net.sh(&format!("h{i}"), &format!("ip addr add 10.0.0.{}/24 dev eth0", i + 1));
    }
    net.sh("h0", "ip link set eth0 mtu 9000");
    net.sh("sw", "ip link set p0 mtu 9000");
    let ports = format!("ports={engine}:p0,{engine}:p1");
    let mut app = net.app("sw", "learning_switch", &["--bind", &ports]);
    net.ping("h0", "10.0.0.2", 3, 56);
    let o = net.try_sh("h0", "ping -c 5 -i 0.05 -W 0.5 -M do -s 4000 10.0.0.2");
    assert_ne!(o.code, Some(0), "{}", o.text);
    app.signal(libc::SIGINT);
    assert_eq!(app.exit(), Some(0), "{}", app.output());
    let text = app.output();
    assert!(text.contains(" 5 without an output"), "{text}");
}

#[test]
fn frames_beyond_the_mtu_are_counted_af_packet() {
    frames_beyond_the_mtu_are_counted("afpacket");
}

#[test]
fn frames_beyond_the_mtu_are_counted_af_xdp() {
    frames_beyond_the_mtu_are_counted("afxdp");
}

/// A macvlan device has no XDP of its own: the kernel's generic path. Offloads stay on.
#[test]
fn af_xdp_on_the_generic_path() {
    let Some(net) = star() else { return };
    for i in 0..4 {
        let made = net
            .try_sh("sw", &format!("ip link add link p{i} name m{i} type macvlan mode passthru; ip link set m{i} up"));
        if made.code != Some(0) {
            eprintln!("SKIPPED: no macvlan: {}", made.text);
            return;
        }
    }
    let mut app = net.app("sw", "learning_switch", &["--bind", "ports=afxdp:m0,afxdp:m1,afxdp:m2,afxdp:m3"]);
    hosts_talk(&net);
    ends_well(&mut app);
}

/// A LAN with two hosts, its NAT, the router, and a server behind that.
fn nat(engine: &str) {
    let Some(net) = Net::new(&["a", "b", "lan", "nat", "r", "s"], &ALL) else { return };
    for (i, h) in ["a", "b"].iter().enumerate() {
        net.link((h, "eth0", &mac(i as u32 + 1)), ("lan", h, &mac(i as u32 + 0x11)));
        net.sh(h, &format!("ip addr add 10.1.0.{}/24 dev eth0; ip route add default via 10.1.0.1", i + 2));
    }
    net.link(("lan", "peer", &mac(0x21)), ("nat", "lan", &mac(0x22)));
    net.sh("lan", "ip link add br0 type bridge; for d in a b peer; do ip link set dev $d master br0; done; ip link set dev br0 up");
    net.link(("nat", "wan", &mac(0x23)), ("r", "lan", &mac(0x24)));
    net.link(("r", "out", &mac(0x25)), ("s", "eth0", &mac(0x26)));
    net.sh("r", "ip addr add 10.1.0.1/24 dev lan; ip addr add 203.0.113.1/24 dev out; ip route add 198.51.100.1/32 dev lan; \
         echo 1 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv4/conf/all/send_redirects");
    net.sh("s", "ip addr add 203.0.113.2/24 dev eth0; ip route add 198.51.100.1/32 via 203.0.113.1");
    let (lan, wan) = (format!("lan={engine}:lan"), format!("wan={engine}:wan"));
    let mut app = net.app("nat", "nat44", &["--bind", &lan, "--bind", &wan, "--set", "public=198.51.100.1"]);
    // Small ones; and ones of several fragments each way.
    net.ping("a", "203.0.113.2", 20, 56);
    net.ping("b", "203.0.113.2", 5, 4000);
    let server = net.http("s", 80);
    for h in ["a", "b"] {
        assert_eq!(net.curl(h, "http://203.0.113.2/"), "s");
        assert_eq!(net.curl(h, "http://203.0.113.2/big -o /dev/null -w %{size_download}"), "1048576");
    }
    drop(server);
    let iperf = net.iperf_server("s");
    net.iperf("a", "203.0.113.2", 20 << 20, "");
    net.iperf("b", "203.0.113.2", 20 << 20, "-R");
    drop(iperf);
    // Errors come back to their receivers: from the router on the way, and from the server without
    // a listener.
    let trace = net.sh("a", "traceroute -n -q 1 -w 3 -m 4 -U -p 40000 203.0.113.2");
    assert!(trace.contains(" 1  10.1.0.1 ") && trace.contains(" 2  203.0.113.2 "), "{trace}");
    let late = net.try_sh("b", "ping -n -c 1 -t 1 -W 5 203.0.113.2").text;
    assert!(late.contains("From 10.1.0.1") && late.contains("Time to live exceeded"), "{late}");
    // TCP by way of an error: the sender is told of a segment that is too large for the server's
    // link (path MTU).
    net.sh("r", "ip link set out mtu 1200");
    let server = net.http("s", 81);
    let said = net.curl("a", "--data-binary @/bin/sh http://203.0.113.2:81/");
    let sum = std::fs::metadata("/bin/sh").map(|m| m.len()).unwrap_or(0);
    assert!(said.starts_with(&format!("s {sum} ")), "{said}");
    drop(server);
    ends_well(&mut app);
}

#[test]
fn nat44_af_packet() {
    nat("afpacket");
}

#[test]
fn nat44_af_xdp() {
    nat("afxdp");
}

/// A client, the balancer before a router, two servers with the tunnels' ends, which answer the
/// client directly.
fn balancer(engine: &str) {
    let Some(net) = Net::new(&["c", "lb", "r", "s1", "s2"], &ALL) else { return };
    net.link(("c", "vip", &mac(1)), ("lb", "wire", &mac(2)));
    net.link(("lb", "out", &mac(3)), ("r", "lb", &mac(4)));
    net.link(("c", "eth0", &mac(5)), ("r", "c", &mac(6)));
    net.sh("c", "ip addr add 10.2.0.2/24 dev eth0; ip route add default via 10.2.0.1; \
         ip route add 192.0.2.1/32 dev vip src 10.2.0.2 mtu 1480; ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:02 dev vip nud permanent");
    net.sh("r", "ip addr add 10.2.0.1/24 dev c; echo 1 > /proc/sys/net/ipv4/ip_forward");
    let mut ends = Vec::new();
    for i in 1..=2 {
        let s = format!("s{i}");
        net.link((&s, "eth0", &mac(0x30 + i)), ("r", &s, &mac(0x40 + i)));
        net.sh("r", &format!("ip addr add 10.3.{i}.1/24 dev {s}"));
        net.sh(&s, &format!("ip addr add 10.3.{i}.2/24 dev eth0; ip route add default via 10.3.{i}.1"));
        let tunnel = net.try_sh(&s, &format!("ip link add in0 type ipip local 10.3.{i}.2 remote any"));
        if tunnel.code != Some(0) {
            // The kernel has no such tunnel: one of ours.
            ends.push(net.app(
                &s,
                "tests/programs/decap.loom",
                &["--bind", "wire=afpacket:eth0", "--bind", "host=tun:in0"],
            ));
        }
        net.sh(&s, "ip link set in0 up; ip addr add 192.0.2.1/32 dev in0; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done");
    }
    let servers: Vec<Process> = ["s1", "s2"].iter().map(|s| net.http(s, 80)).collect();
    let (wire, out) = (format!("wire={engine}:wire"), format!("out={engine}:out"));
    let args = [
        "--bind",
        &wire,
        "--bind",
        &out,
        "--set",
        "vip=192.0.2.1",
        "--set",
        "dips=10.3.1.2,10.3.2.2",
        "--set",
        "gateway=02:00:00:00:00:04",
    ];
    let mut app = net.app("lb", "l4_balancer", &args);
    let mut seen = [0, 0];
    for _ in 0..24 {
        match net.curl("c", "http://192.0.2.1/").as_str() {
            "s1" => seen[0] += 1,
            "s2" => seen[1] += 1,
            other => panic!("{other}"),
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    for _ in 0..2 {
        // Down the direct way, and up through the tunnel.
        assert_eq!(net.curl("c", "http://192.0.2.1/big -o /dev/null -w %{size_download}"), "1048576");
        let size = std::fs::metadata("/bin/bash").expect("a file to send").len();
        let said = net.curl("c", "--data-binary @/bin/bash http://192.0.2.1/");
        assert!(said.contains(&format!(" {size} ")), "{said}");
    }
    ends_well(&mut app);
    drop((servers, ends));
}

#[test]
fn l4_balancer_af_packet() {
    balancer("afpacket");
}

#[test]
fn l4_balancer_af_xdp() {
    balancer("afxdp");
}

/// The host `c` knocks at 10.4.0.2 in the wrong order, and in the right one. Each connection needs
/// knocks of its own.
pub fn port_opens_to_knocks(net: &Net) {
    let refused = || {
        let o = net.try_sh("c", "curl -sS --max-time 1 http://10.4.0.2:22/");
        assert_eq!(o.code, Some(28), "{}", o.text);
    };
    // A knock has no answer: a connection is tried and given up.
    let knock = |ports: &[u32]| {
        for p in ports {
            net.try_sh("c", &format!("curl -s --max-time 0.3 http://10.4.0.2:{p}/"));
        }
    };
    refused();
    knock(&[5123, 7345, 6234, 8456]);
    refused();
    knock(&[5123, 6234, 7345, 8456]);
    assert_eq!(net.curl("c", "http://10.4.0.2:22/"), "s");
    // That was one connection; the next one must knock again.
    refused();
    knock(&[5123, 6234, 7345, 8456]);
    assert_eq!(net.curl("c", "http://10.4.0.2:22/big -o /dev/null -w %{size_download}"), "1048576");
    let other = net.try_sh("c", "ping -c 1 -W 0.3 10.4.0.2");
    assert_ne!(other.code, Some(0), "{}", other.text);
}

/// The app is the only input of this host: the interface belongs to AF_XDP, the host's address is
/// on the `kernel` port.
#[test]
fn port_knocking_af_xdp() {
    let Some(net) = Net::new(&["c", "s"], &ALL) else { return };
    net.link(("c", "eth0", &mac(1)), ("s", "eth0", &mac(2)));
    net.sh(
        "c",
        "ip addr add 10.4.0.1/24 dev eth0; ip neigh add 10.4.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent",
    );
    let mut app = net.app("s", "port_knocking", &["--bind", "wire=afxdp:eth0", "--bind", "kernel=kernel:in0"]);
    net.sh("s", "ip addr add 10.4.0.2/32 dev in0; ip route add 10.4.0.1/32 dev eth0 src 10.4.0.2; \
         ip neigh add 10.4.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done");
    let server = net.http("s", 22);
    port_opens_to_knocks(&net);
    ends_well(&mut app);
    drop(server);
}

const DNS: &str = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(50):
    s.sendto(bytes([i, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + b'\\7example\\3org\\0\\0\\1\\0\\1', ('10.5.0.2', 53))
    s.sendto(b'other' * i, ('10.5.0.2', 54))
";

/// The tap sees all frames between two hosts, the monitor behind its second interface only DNS.
fn tap(engine: &str) {
    let Some(net) = Net::new(&["c", "tap", "mon"], &["dumpcap", "tshark"]) else { return };
    net.link(("c", "eth0", &mac(1)), ("tap", "lan", &mac(2)));
    net.link(("tap", "mon", &mac(3)), ("mon", "eth0", &mac(4)));
    net.sh(
        "c",
        "ip addr add 10.5.0.1/24 dev eth0; ip neigh add 10.5.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent",
    );
    let (lan, mon) = (format!("lan={engine}:lan"), format!("mon={engine}:mon"));
    let mut app = net.app("tap", "dns_tap", &["--bind", &lan, "--bind", &mon]);
    let before = net.received("mon", "eth0");
    let capture = net.folder.join("seen.pcap");
    let mut dump = net.command("mon", "dumpcap");
    dump.args(["-i", "eth0", "-w"]).arg(&capture);
    let mut dump = Process::start_saying("dumpcap", &mut dump, free_port(), "File:");
    std::fs::write(net.folder.join("dns.py"), DNS).expect("the folder is writable");
    net.sh("c", &format!("python3 {}", net.folder.join("dns.py").display()));
    net.until("50 frames at the monitor", || net.received("mon", "eth0") >= before + 50);
    ends_well(&mut app);
    // It writes its frames some time later; 71 bytes of each frame.
    net.until("the capture is written", || std::fs::metadata(&capture).is_ok_and(|m| m.len() > 50 * 71));
    dump.signal(libc::SIGINT);
    dump.exit();
    // All of them, whole, with the right checksums (the sender had left them to its hardware), in
    // order.
    let fields = "-T fields -e dns.id -e udp.dstport -e udp.checksum.status -e dns.qry.name";
    let said = net.sh(
        "mon",
        &format!(
            "tshark -n -o udp.check_checksum:TRUE -r {} {fields} 2>{}",
            capture.display(),
            net.folder.join("tshark").display()
        ),
    );
    let want: String = (0..50).map(|i| format!("0x{i:02x}01\t53\t1\texample.org\n")).collect();
    assert_eq!(said, want, "{}", dump.output());
}

#[test]
fn dns_tap_af_packet() {
    tap("afpacket");
}

#[test]
fn dns_tap_af_xdp() {
    tap("afxdp");
}

/// Rules of a firewall between two hosts, for `--load`: for the client's packets and the server's.
pub fn firewall_rules(net: &Net) -> [String; 2] {
    let rules = |name: &str, text: &str| {
        let path = net.folder.join(name);
        std::fs::write(&path, text).expect("the folder is writable");
        format!("rules={}", path.display())
    };
    let there = rules(
        "there",
        r#"[{"priority": 9, "dst": "10.6.0.2", "dport": [80, 5201], "proto": 6, "action": "accept"},
        {"priority": 10, "dport": 81, "proto": 6, "action": "drop"}, {"priority": 1, "src": "10.6.0.0/24", "proto": 1, "action": "accept"}]"#,
    );
    let back = rules(
        "back",
        r#"[{"priority": 9, "src": "10.6.0.2", "sport": [80, 5201], "proto": 6, "action": "accept"},
        {"priority": 1, "proto": 1, "action": "accept"}]"#,
    );
    [there, back]
}

/// A firewall between two hosts: one app for each direction.
#[test]
fn openflow_firewall_between_hosts() {
    let Some(net) = Net::new(&["c", "fw", "s"], &ALL) else { return };
    net.link(("c", "eth0", &mac(1)), ("fw", "in", &mac(2)));
    net.link(("s", "eth0", &mac(3)), ("fw", "out", &mac(4)));
    net.sh(
        "c",
        "ip addr add 10.6.0.1/24 dev eth0; ip neigh add 10.6.0.2 lladdr 02:00:00:00:00:03 dev eth0 nud permanent",
    );
    net.sh(
        "s",
        "ip addr add 10.6.0.2/24 dev eth0; ip neigh add 10.6.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent",
    );
    let [there, back] = firewall_rules(&net);
    let mut out = net.app(
        "fw",
        "openflow_firewall",
        &["--bind", "wire=afpacket:in", "--bind", "accepted=afpacket:out", "--load", &there],
    );
    let mut home = net.app(
        "fw",
        "openflow_firewall",
        &["--bind", "wire=afpacket:out", "--bind", "accepted=afpacket:in", "--load", &back],
    );
    net.ping("c", "10.6.0.2", 10, 56);
    let servers = [net.http("s", 80), net.http("s", 81), net.http("s", 79)];
    assert_eq!(net.curl("c", "http://10.6.0.2/"), "s");
    for port in [81, 79] {
        let o = net.try_sh("c", &format!("curl -sS --max-time 0.5 http://10.6.0.2:{port}/"));
        assert_eq!(o.code, Some(28), "{port}: {}", o.text);
    }
    let iperf = net.iperf_server("s");
    net.iperf("c", "10.6.0.2", 20 << 20, "");
    net.iperf("c", "10.6.0.2", 20 << 20, "-R");
    ends_well(&mut out);
    ends_well(&mut home);
    drop((iperf, servers));
}

/// The last section of the tutorial, word for word, in a network and a `/run` of its own. Only the
/// wait for `ready` is put in.
#[test]
fn the_tutorial_on_interfaces() {
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 || !["ip", "ping", "unshare"].iter().all(|t| require_tool(t)) {
        eprintln!("SKIPPED: needs root, ip, ping and unshare");
        return;
    }
    let text = std::fs::read_to_string(wireloom_tests::root().join("docs/tutorial-packets.md")).expect("the tutorial");
    let block = |from: &str, fence: &str| {
        text.split_once(from)
            .and_then(|(_, t)| t.split_once(fence)?.1.split_once("```\n"))
            .expect("it is there")
            .0
            .to_string()
    };
    let folder = std::env::temp_dir().join(format!("wireloom-tutorial-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    std::fs::write(folder.join("polite.loom"), block("## 3.", "file=polite.loom\n")).expect("the folder is writable");
    let lines = block("## 5.", "```sh\n")
        .replace(" &\n", " &\nuntil wireloom counter >/dev/null 2>&1; do kill -0 $! || exit 1; sleep 0.1; done\n");
    assert!(lines.contains("wireloom run polite.loom") && lines.contains("until"), "{lines}");
    std::os::unix::fs::symlink(Wireloom::binary(), folder.join("wireloom")).expect("the folder is writable");
    let script = format!("mount -t tmpfs none /run\nPATH=$PWD:$PATH\ntrap 'kill $!; wait' EXIT\n{lines}");
    let mut command = std::process::Command::new("unshare");
    command
        .current_dir(&folder)
        .args(["--net", "--mount", "sh", "-c", &script])
        .env_remove("WIRELOOM_SOCKETS")
        .env_remove("XDG_RUNTIME_DIR");
    let out = finish(&mut command);
    let received = out.text.lines().find_map(|l| l.split_once("inside.received ")?.1.trim().parse::<u32>().ok());
    assert!(received.is_some_and(|n| n >= 20), "{received:?} frames came:\n{}", out.text);
    std::fs::remove_dir_all(&folder).ok();
}

const LONG: &str = "app long { port w = memory(\"w\"), o = nic(\"eth0\")\n on w(p) { p -> o } }\n";

/// A frame above the MTU is counted, and the log gives the reason once, whatever the engine.
#[test]
fn frames_above_the_mtu_are_told() {
    let Some(net) = Net::new(&["s", "h"], &[]) else { return };
    net.link(("s", "eth0", &mac(1)), ("h", "eth0", &mac(2)));
    let (program, input) = (net.folder.join("long.loom"), net.folder.join("in.pcap"));
    std::fs::write(&program, LONG).expect("the folder is writable");
    let lengths = [100, 3000, 3000, 100, 2000];
    let frames = lengths.iter().enumerate().map(|(k, n)| (EPOCH + k as u64 * MS, udp(1, 2, 3, *n)));
    write(&input, &frames.collect());
    for engine in ["afpacket", "afxdp", "nic"] {
        let mut command = net.command("s", Wireloom::binary());
        command.arg("run").arg(&program).args(["--bind", &format!("o={engine}:eth0")]);
        command.args(["--bind", &format!("w=pcap:{}", input.display())]);
        let out = finish(&mut command);
        assert_eq!(out.code, Some(0), "{engine}: {}", out.text);
        assert!(out.text.contains("5 frames received, 2 sent, 3 without an output"), "{engine}: {}", out.text);
        let told = out.text.matches("frames cannot be sent: Message too long").count();
        assert_eq!(told, 1, "{engine}: {}", out.text);
    }
}
