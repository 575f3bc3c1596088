//! Times of packets and `now` are of one clock, which counts from 1970. So entries that keep either
//! are forgotten in time, however the packets come.

use wireloom_tests::net::Net;
use wireloom_tests::Wireloom;

/// Frames that are sent.
const FRAMES: u64 = 20;

/// Runs a program of `tests/programs` until it has forgotten what it has seen.
pub fn one_clock(program: &str, bind: &str, more: &[&str]) {
    let Some(net) = Net::new(&["a", "b"], &["ethtool"]) else { return };
    net.link(("a", "a0", "02:00:00:00:0a:01"), ("b", "b0", "02:00:00:00:0b:01"));
    net.sh("b", "ip addr add 10.8.0.2/24 dev b0; ip neigh add 10.8.0.1 lladdr 02:00:00:00:0a:01 dev b0");
    net.sh("b", "ethtool -K b0 gro on");
    let control = net.folder.join("control").display().to_string();
    let wire = format!("wire={bind}");
    let path = format!("tests/programs/{program}.loom");
    let mut app = net.app("a", &path, &[&["--bind", &wire, "--control", &control][..], more].concat());
    let counter = |name: &str| {
        let said = Wireloom::command(&["counter", name, "--control", &control]);
        assert_eq!(said.code, Some(0), "{}", said.text);
        said.text.split_whitespace().find_map(|w| w.parse::<u64>().ok()).unwrap_or_else(|| panic!("{}", said.text))
    };
    let send = format!(
        "import socket\nfor i in range({FRAMES}):\n s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n \
         s.bind(('10.8.0.2', 5000 + i))\n s.sendto(b'x', ('10.8.0.1', 9))"
    );
    net.sh("b", &format!("python3 -c \"{send}\""));
    net.until("the frames have come", || counter("came") >= FRAMES);
    net.until(&format!("{program} by {bind} {more:?} forgets"), || counter("gone") >= FRAMES);
    assert_eq!(counter("far"), 0, "{program} by {bind} {more:?}");
    if program == "one_clock" {
        assert_eq!(counter("day"), 0, "{program} by {bind} {more:?}");
    }
    if program == "one_clock_hook" {
        let left = || Wireloom::command(&["signal", "idle_entries", "--control", &control]).text;
        net.until("idle entries expire", || left().split_whitespace().any(|w| w == "0"));
    }
    app.kill();
}

#[test]
fn on_interfaces() {
    for bind in ["afpacket:a0", "afxdp:a0"] {
        for more in [&[][..], &["--interpret"], &["--cores", "0-1"]] {
            one_clock("one_clock", bind, more);
        }
    }
}

/// A second process stamps the packets.
#[test]
fn in_two_processes() {
    one_clock("one_clock_card", "nic:a0", &[]);
    one_clock("one_clock_card", "afpacket:a0", &["--interpret"]);
}
