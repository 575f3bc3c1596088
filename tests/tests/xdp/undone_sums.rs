//! Checksums that senders behind a veth leave to hardware: a program in front of the handler's
//! completes them.

use super::live::{has_xdp, TOOLS};
use super::process::Link;
use wireloom_interp::frames::hex;
use wireloom_tests::net::Net;

/// A packet of TCP or UDP behind its network header.
struct Packet {
    ip6: bool,
    udp: bool,
    /// Extension headers of IPv6, or bytes of options of IPv4.
    more: usize,
    tag: bool,
    payload: usize,
    port: u16,
}

fn ones(bytes: &[u8]) -> u16 {
    let word = |c: &[u8]| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let half = (sum & 0xffff) + (sum >> 16);
    ((half & 0xffff) + (half >> 16)) as u16
}

/// From many to all receivers, so that no interface refuses it.
fn ethernet(kind: u16) -> Vec<u8> {
    [&[0xff; 6][..], &[2, 0x77, 0, 0, 0, 1], &kind.to_be_bytes()].concat()
}

impl Packet {
    fn transport(&self) -> Vec<u8> {
        let size = if self.udp { 8 } else { 20 } + self.payload;
        let mut t = [&self.port.to_be_bytes()[..], &[0x1f, 0x90]].concat();
        match self.udp {
            true => t.extend([&(size as u16).to_be_bytes()[..], &[0, 0]].concat()),
            false => t.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 16, 0, 0, 0, 0, 0]),
        }
        t.extend((0..self.payload).map(|n| (n * 7) as u8));
        t
    }

    fn proto(&self) -> u8 {
        if self.udp {
            17
        } else {
            6
        }
    }

    /// Its network header, and the sum of its pseudo header.
    fn network(&self, size: usize) -> (Vec<u8>, u16) {
        let tail = [&[0, self.proto()][..], &(size as u16).to_be_bytes()].concat();
        if self.ip6 {
            let addresses = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; 2].concat();
            let long = (size + 8 * self.more) as u16;
            let next = if self.more > 0 { 60 } else { self.proto() };
            let mut h = [&[0x60, 0, 0, 0][..], &long.to_be_bytes(), &[next, 64], &addresses].concat();
            for n in 0..self.more {
                h.extend([if n + 1 < self.more { 60 } else { self.proto() }, 0, 1, 4, 0, 0, 0, 0]);
            }
            (h, ones(&[addresses, tail].concat()))
        } else {
            let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
            let long = (size + 20 + 4 * self.more) as u16;
            let first = 0x45 + self.more as u8;
            let mut h =
                [&[first, 0][..], &long.to_be_bytes(), &[0, 0, 0, 0, 64, self.proto(), 0, 0], &addresses].concat();
            h.extend(vec![1; 4 * self.more]);
            let sum = !ones(&h);
            h[10..12].copy_from_slice(&sum.to_be_bytes());
            (h, ones(&[&addresses[..], &tail].concat()))
        }
    }

    /// As its sender leaves it, and with the right checksum; the latter without a tag.
    fn frames(&self) -> (Vec<u8>, Vec<u8>) {
        let mut t = self.transport();
        let (network, pseudo) = self.network(t.len());
        let field = if self.udp { 6 } else { 16 };
        t[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        let kind = if self.ip6 { 0x86dd } else { 0x0800u16 };
        let tag = [&ethernet(0x8100)[..], &[0, 7], &kind.to_be_bytes()].concat();
        let left = [if self.tag { tag } else { ethernet(kind) }, network.clone(), t.clone()].concat();
        let whole = !ones(&t);
        t[field..field + 2].copy_from_slice(&whole.to_be_bytes());
        (left, [ethernet(kind), network, t].concat())
    }
}

/// Packets of all kinds, each with a port of its own.
fn packets() -> Vec<Packet> {
    let mut all = Vec::new();
    for n in 0..96u16 {
        let bit = |k: u16| n >> k & 1 == 1;
        let (more, payload) = (usize::from(n / 16 % 3), [0, 1, 31, 64, 700, 1300][usize::from(n / 16)]);
        all.push(Packet { ip6: bit(0), udp: bit(1), more, tag: bit(2), payload, port: 2000 + n });
    }
    all
}

/// Takes frames of the test from a device until it gets one of the kind 0x88b5.
const RECEIVE: &str = "import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind((sys.argv[1], 0)); print('ready', flush=True)
while True:
    f = s.recv(4096)
    if f[6:8] == b'\\x02\\x77': print(f.hex(), flush=True)
    if f[12:14] == b'\\x88\\xb5': print('end', flush=True); break
";

/// The frames that leave an app at `o0` for some that come to `a0`.
fn through(link: &Link, handler: &str, frames: Vec<Vec<u8>>) -> Vec<String> {
    let path = link.file("through.loom");
    let text = format!(
        "app through {{\n    port wire = nic(\"a0\"), out = nic(\"o0\")\n    on wire(p) on xdp {{ {handler} }}\n}}\n"
    );
    std::fs::write(&path, text).expect("the folder is writable");
    let mut app = link.net.app("a", &path, &["--control", "off"]);
    let receiver = link.net.server("b", "receiver", &["python3", "-c", RECEIVE, "o1"], "ready");
    link.send(&[frames, vec![[ethernet(0x88b5), vec![0; 46]].concat()]].concat());
    link.net.until("the last frame arrives", || receiver.output().contains("end"));
    let said = link.end(&mut app);
    assert!(!said.contains("undone"), "{said}");
    let lines = receiver.output();
    lines.lines().filter(|l| l.starts_with("ffff") && l[24..28] != *"88b5").map(str::to_string).collect()
}

/// A link of the app to each side.
fn two_links() -> Option<Link> {
    let link = Link::new()?;
    link.net.link(("a", "o0", "02:00:00:00:0c:01"), ("b", "o1", "02:00:00:00:0d:01"));
    link.net.sh("b", "ethtool -K o1 gro on");
    Some(link)
}

/// Undone checksums are completed, and no others are touched: those of fragments, of cut packets,
/// and wrong ones.
#[test]
fn undone_checksums_are_completed() {
    let Some(link) = two_links() else { return };
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for p in packets() {
        let (left, whole) = p.frames();
        let at = if p.tag { 4 } else { 0 };
        let untagged = |f: &[u8]| [&f[..12], &f[12 + at..]].concat();
        let mut wrong = left.clone();
        *wrong.last_mut().expect("it has bytes") ^= 1;
        let field = left.len() - p.transport().len() + if p.udp { 6 } else { 16 };
        wrong[field] ^= 0x10;
        let mut others = vec![wrong];
        if !p.ip6 {
            let mut fragment = left.clone();
            fragment[14 + at + 6] = 0x20;
            others.push(fragment);
        }
        if p.payload > 31 {
            others.push(left[..left.len() - 9].to_vec());
        }
        expected.push(hex(&whole));
        expected.extend(others.iter().map(|f| hex(&untagged(f))));
        sent.extend([vec![left], others].concat());
    }
    assert_eq!(through(&link, "p -> out", sent), expected);
}

/// A change of what a checksum covers follows the whole checksum.
#[test]
fn changes_follow_undone_checksums() {
    let Some(link) = two_links() else { return };
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    // The packet layer finds a transport header behind one extension header.
    for p in packets().into_iter().filter(|p| !p.ip6 || p.more < 2) {
        let (left, _) = p.frames();
        let (_, whole) = Packet { port: p.port + 1000, ..p }.frames();
        sent.push(left);
        expected.push(hex(&whole));
    }
    let handler = "if p.tcp { p.tcp.src += 1000 } if p.udp { p.udp.src += 1000 } p -> out";
    assert_eq!(through(&link, handler, sent), expected);
}

/// A client and a server, and the app's host between them. All devices have their offloads.
fn three_hosts() -> Option<Net> {
    if !has_xdp() {
        return None;
    }
    let net = Net::new(&["client", "host", "server"], &TOOLS)?;
    net.link(("host", "a0", "02:00:00:00:0a:01"), ("client", "c0", "02:00:00:00:0a:02"));
    net.link(("host", "b0", "02:00:00:00:0b:01"), ("server", "s0", "02:00:00:00:0b:02"));
    Some(net)
}

fn written_app(net: &Net, text: &str) -> String {
    let path = net.folder.join("app.loom").display().to_string();
    std::fs::write(&path, text).expect("the folder is writable");
    path
}

fn takes_a_megabyte(net: &Net, from: &str) {
    let big = net.folder.join("big");
    net.curl("client", &format!("-o {} http://{from}/big", big.display()));
    assert_eq!(std::fs::metadata(&big).expect("curl wrote it").len(), 1 << 20);
}

/// TCP of hosts with all offloads passes an app that forwards frames in native mode.
#[test]
fn hosts_behind_veths_talk() {
    let Some(net) = three_hosts() else { return };
    for (ns, device, n) in [("client", "c0", 1), ("server", "s0", 2)] {
        net.sh(ns, &format!("ip addr add 10.8.0.{n}/24 dev {device}; ethtool -K {device} gro on"));
    }
    let text = "app forward {
    port near = nic(\"a0\"), far = nic(\"b0\")
    on near(p) on xdp { if p.tcp { p.tcp.dst = 8080 }  p -> far }
    on far(p) on xdp { if p.tcp { p.tcp.src = 80 }  p -> near }
}
";
    let _app = net.app("host", &written_app(&net, text), &["--control", "off", "--xdp-mode", "native"]);
    let _server = net.http("server", 8080);
    assert_eq!(net.curl("client", "http://10.8.0.2/"), "server");
    takes_a_megabyte(&net, "10.8.0.2");
}

/// Frames that the app gives to its host unchanged go on as they came: the host, which forwards
/// them, completes their checksums by itself.
#[test]
fn the_host_gets_frames_as_they_came() {
    let Some(net) = three_hosts() else { return };
    net.sh("client", "ip addr add 10.8.1.1/24 dev c0; ip route add default via 10.8.1.2");
    net.sh("server", "ip addr add 10.8.2.1/24 dev s0; ip route add default via 10.8.2.2");
    net.sh("host", "ip addr add 10.8.1.2/24 dev a0; ip addr add 10.8.2.2/24 dev b0; echo 1 > /proc/sys/net/ipv4/ip_forward; ethtool -K b0 tx off; ethtool -K a0 tx off");
    let text = "app pass {
    port near = nic(\"a0\"), far = nic(\"b0\")
    on near(p) on xdp { if p.udp and p.udp.dst == 9 { p -> near; return }  p -> kernel }
    on far(p) on xdp { if p.udp and p.udp.dst == 9 { p -> far; return }  p -> kernel }
}
";
    let _app = net.app("host", &written_app(&net, text), &["--control", "off", "--xdp-mode", "native"]);
    let _server = net.http("server", 80);
    assert_eq!(net.curl("client", "http://10.8.2.1/"), "server");
    takes_a_megabyte(&net, "10.8.2.1");
    let wrong = |ns: &str| net.sh(ns, "awk '/^Tcp:/ && ++n == 2 { print $NF }' /proc/net/snmp");
    assert_eq!((wrong("client").trim(), wrong("server").trim()), ("0", "0"), "wrong checksums of TCP");
}
