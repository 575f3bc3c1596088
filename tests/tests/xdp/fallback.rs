//! Interfaces without AF_XDP, and queues without a socket: no frame passes by an app that decides
//! what the host's stack gets.

use super::live::{has_xdp, ready, TOOLS};
use super::*;
use wireloom_tests::net::Net;
use wireloom_tests::process::finish;

const FILTER: &str = "
    table blocked: ip -> bool { capacity 64K }
    counter dropped
    on wire(p) {
        if p.ip { if p.ip.src in blocked { dropped += 1; return } }
        p -> kernel
    }
}
";

struct Hosts {
    net: Net,
}

impl Hosts {
    /// `a` has the app, `b` sends.
    fn new() -> Option<Hosts> {
        if !has_xdp() {
            return None;
        }
        let net = Net::new(&["a", "b"], &TOOLS)?;
        net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
        net.sh("a", "ip addr add 10.8.0.1/24 dev a0");
        net.sh("b", "ip addr add 10.8.0.2/24 dev b0");
        ready(&net, &[("b", "b0")]);
        Some(Hosts { net })
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.net.folder.join(name);
        std::fs::write(&path, text).expect("the folder is writable");
        path.display().to_string()
    }

    /// The words of a program that does not start.
    fn refused(&self, args: &[&str]) -> String {
        let said = finish(self.net.command("a", args[0]).args(&args[1..]));
        assert_eq!(said.code, Some(1), "{args:?}: {}", said.text);
        said.text
    }
}

/// Another program has the hook. The filter does not start with AF_PACKET, which would filter
/// nothing. Asked to look only, it says so.
#[test]
fn filters_need_af_xdp() {
    let Some(hosts) = Hosts::new() else { return };
    let (net, wireloom) = (&hosts.net, Wireloom::binary().display().to_string());
    let pass = hosts.file("pass.loom", "app pass { port wire = nic(\"a0\")  on wire(p) on xdp { p -> kernel } }\n");
    let filter = hosts.file("filter.loom", &format!("app filter {{ port wire = nic(\"a0\"){FILTER}"));
    let tap = FILTER.replace("kernel", "host");
    let tap = hosts.file("tap.loom", &format!("app tap {{ port wire = nic(\"a0\"), host = tap(\"host0\"){tap}"));
    let twice = FILTER.replace("p -> kernel", "p -> kernel } on again(p) { dropped += 1");
    let twice = hosts.file("twice.loom", &format!("app twice {{ port wire = nic(\"a0\"), again = nic(\"a0\"){twice}"));
    let count = hosts.file("count.loom", "app count { port wire = nic(\"a0\")  counter n  on wire(p) { n += 1 } }\n");

    let no_xdp = "port `wire`: `a0` is in use by another XDP program";
    let takes = "without AF_XDP the host's stack would take all frames of `a0` by itself";
    let remedy = "or bind the port to afpacket:a0 to look only";
    let other = net.app("a", &pass, &["--control", "off"]);
    for (path, way) in [(&filter, "kernel"), (&tap, "host")] {
        let said = hosts.refused(&[&wireloom, "run", path, "--control", "off"]);
        assert!(
            [no_xdp, takes, remedy, &format!("drops or sends to `{way}`;")].iter().all(|t| said.contains(t)),
            "{said}"
        );
    }
    // So does an executable.
    let built = net.folder.join("built").display().to_string();
    let said = Wireloom::command(&["build", &filter, "-o", &built]);
    assert_eq!(said.code, Some(0), "{}", said.text);
    let said = hosts.refused(&[&built, "--control", "off"]);
    assert!(said.contains(no_xdp) && said.contains(takes), "{said}");
    // Several apps of one process: one of them decides.
    let said = hosts.refused(&[&wireloom, "run", &count, &filter, "--control", "off"]);
    assert!(said.contains(no_xdp) && said.contains(takes), "{said}");
    net.ping("b", "10.8.0.1", 1, 56);

    let all = "a0: the host's stack gets all of its frames, too, whatever the app does with them (AF_PACKET); \
               frames sent to `kernel` are further copies";
    let mut app = net.app("a", &filter, &["--control", "off", "--bind", "wire=afpacket:a0"]);
    assert!(app.output().contains(all), "{}", app.output());
    app.kill();
    // An app that only counts may look.
    let mut app = net.app("a", &count, &["--control", "off"]);
    let said = app.output();
    assert!(said.contains("using AF_PACKET: the host's stack gets all of its frames, too"), "{said}");
    app.kill();
    drop(other);

    // Two ports that read one interface.
    let said = hosts.refused(&[&wireloom, "run", &twice, "--control", "off"]);
    assert!(said.contains("several ports read `a0`") && said.contains(takes), "{said}");
}

/// A TAP device whose second queue comes later. Frames of both are UDP for the host.
const TAP: &str = "import fcntl, os, struct, sys, time
def queue():
    fd = os.open('/dev/net/tun', os.O_RDWR)
    # TUNSETIFF; IFF_TAP, IFF_NO_PI and IFF_MULTI_QUEUE.
    fcntl.ioctl(fd, 0x400454ca, struct.pack('16sH22x', b'tap0', 0x1102))
    return fd
def frame(n):
    udp = struct.pack('!HHHH', 1000 + n, 9, 9, 0) + b'x'
    ip = bytearray(struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), n, 0, 64, 17, 0, bytes([10, 8, 0, 2]), bytes([10, 8, 0, 1])))
    total = sum(struct.unpack('!10H', ip))
    ip[10:12] = struct.pack('!H', ~((total & 0xffff) + (total >> 16)) & 0xffff)
    return mac + bytes([2, 0, 0, 0, 0xb, 1, 8, 0]) + ip + udp
first = queue()
os.system('ip addr add 10.8.0.1/24 dev tap0; ip link set tap0 up')
mac = bytes.fromhex(open('/sys/class/net/tap0/address').read().strip().replace(':', ''))
print('made', flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
second = queue()
[os.write(fd, frame(n)) for n in range(40) for fd in (first, second)]
print('written', flush=True)
time.sleep(60)
";

/// The interface gets a receiving queue while the app runs. Its frames are dropped: they do not
/// come to the host's stack by it.
#[test]
fn later_queues_do_not_pass_by() {
    if !has_xdp() {
        return;
    }
    let Some(net) = Net::new(&["a"], &["python3"]) else { return };
    let file = |name: &str| net.folder.join(name).display().to_string();
    std::fs::write(file("tap.py"), TAP).expect("the folder is writable");
    let mut tap = net.server("a", "tap", &["python3", &file("tap.py"), &file("go")], "made");
    let text = "app count { port wire = nic(\"tap0\")  counter n  on wire(p) where p.udp { n += 1 } }\n";
    std::fs::write(file("count.loom"), text).expect("the folder is writable");
    let control = file("control");
    let mut app = net.app("a", &file("count.loom"), &["--control", &control, "--bind", "wire=afxdp:tap0"]);
    std::fs::write(file("go"), "").expect("the folder is writable");
    let counted = || {
        let said = Wireloom::command(&["counter", "n", "--json", "--control", &control]);
        let all: serde_json::Value = serde_json::from_str(&said.text).expect("JSON");
        super::live::counter_of(&all, "n").expect("a counter")
    };
    net.until("the frames of the first queue come", || tap.output().contains("written") && counted() == 40);
    let seen = net.sh("a", "cat /proc/net/snmp");
    let udp: Vec<&str> = seen.lines().filter(|l| l.starts_with("Udp:")).nth(1).expect("a line").split(' ').collect();
    assert_eq!(udp[1..3], ["0", "0"], "{seen}");
    app.kill();
    tap.kill();
}
