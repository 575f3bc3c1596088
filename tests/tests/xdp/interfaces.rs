//! Interfaces and their state, as a run names them.

use super::process::{mixed, Link};
use wireloom_tests::captures::udp;

/// A binding may name its engine before each interface, as for the CPU.
#[test]
fn each_interface_may_name_its_engine() {
    let Some(link) = Link::new() else { return };
    link.net.sh("a", "ip link add x0 type veth peer name x1; ip link set x0 up; ip link set x1 up");
    let path = link.file("two.loom");
    for (placed, args) in [("", &["--place", "xdp"][..]), (" on xdp", &[])] {
        let text = format!(
            "app two {{\n    port wire = [nic(\"q0\"), nic(\"q1\")]\n    on wire(p){placed} {{ p -> wire[1 - p.port] }}\n}}\n"
        );
        std::fs::write(&path, text).expect("the folder is writable");
        for bind in ["wire=nic:x0,nic:x1", "wire=nic:x0, nic:x1", "wire=nic:x0,x1"] {
            let args = [args, &["--control", "off", "--bind", bind]].concat();
            let said = link.end(&mut link.net.app("a", &path, &args));
            assert!(said.contains("XDP at x0, x1:"), "{bind}: {said}");
        }
    }
}

/// The app that sends all frames of `a0` out of `o0`, a veth to `o1` in the other namespace.
fn forwarding(link: &Link) -> String {
    link.net.link(("a", "o0", "02:00:00:00:0c:01"), ("b", "o1", "02:00:00:00:0d:01"));
    let path = link.file("forward.loom");
    let text = "app forward {\n    port wire = nic(\"a0\"), out = nic(\"o0\")\n    on wire(p) on xdp { p -> out }\n}\n";
    std::fs::write(&path, text).expect("the folder is writable");
    path
}

/// The number in front of words in the hook's line at the end.
fn before(said: &str, words: &str) -> u64 {
    let line = said.split_once("XDP at a0:").unwrap_or_else(|| panic!("no line of the hook: {said}")).1;
    let (head, _) = line.split_once(words).unwrap_or_else(|| panic!("no {words}: {said}"));
    head.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{words}: {said}"))
}

/// A veth takes redirected frames if its other end has GRO. Those that it does not take are told
/// and not counted as sent.
#[test]
fn frames_that_an_interface_does_not_take() {
    let Some(link) = Link::new() else { return };
    let path = forwarding(&link);
    let frames = mixed(40);
    let why = "frames that XDP sends to o0 are lost: it takes none from XDP";
    let mut app = link.net.app("a", &path, &["--control", "off"]);
    link.send(&frames);
    link.net.until("the notice comes", || app.output().contains(why));
    let said = link.end(&mut app);
    assert!(before(&said, " not taken by an interface") >= 40, "{said}");
    assert_eq!(before(&said, " sent,"), 0, "{said}");
    link.net.sh("b", "ethtool -K o1 gro on");
    let mut app = link.net.app("a", &path, &["--control", "off"]);
    let there = link.net.received("b", "o1");
    link.send(&frames);
    link.net.until("the frames arrive", || link.net.received("b", "o1") >= there + 40);
    let said = link.end(&mut app);
    assert!(before(&said, " sent,") >= 40 && !said.contains("not taken"), "{said}");
}

/// In generic mode segments beyond the MTU of their target are lost.
#[test]
fn frames_beyond_the_mtu_of_their_target() {
    let Some(link) = Link::new() else { return };
    let path = forwarding(&link);
    link.net.sh("a", "ip link set o0 mtu 600");
    let mut app = link.net.app("a", &path, &["--control", "off", "--xdp-mode", "generic"]);
    link.send(&vec![udp(1, 5000, 53, 700); 20]);
    link.net.until("the notice comes", || app.output().contains("are lost: they are longer than its MTU"));
    let said = link.end(&mut app);
    assert!(before(&said, " not taken by an interface") >= 20, "{said}");
}

/// The start says why a program runs in generic mode, and which interfaces are down.
#[test]
fn reasons_of_the_start() {
    let Some(link) = Link::new() else { return };
    let path = forwarding(&link);
    link.net.sh("a", "ip link set o0 down; ip link set a0 mtu 9000");
    link.net.sh("b", "ip link set b0 mtu 9000");
    let said = link.end(&mut link.net.app("a", &path, &["--control", "off"]));
    assert!(said.contains("wireloom: o0 is down: no frames come or go"), "{said}");
    assert!(!said.contains("a0 is down"), "{said}");
    let why = "generic mode, which is slower than native: its driver refuses frames as long as the MTU allows";
    assert!(said.contains(why), "{said}");
}

/// The end of a run names the kinds of faults and their places.
#[test]
fn faults_at_the_end() {
    let Some(link) = Link::new() else { return };
    let path = link.file("faults.loom");
    let text = "app faults {\n    port wire = nic(\"a0\")\n    on wire(p) where p.ip4 on xdp { p -> kernel }\n}\n";
    std::fs::write(&path, text).expect("the folder is writable");
    let mut app = link.net.app("a", &path, &["--control", "off"]);
    let cut = [&[2, 0, 0, 0, 0x0a, 1, 2, 0, 0, 0, 0, 0x77, 8, 0, 0x45, 0][..]].concat();
    link.send(&vec![cut; 3]);
    link.net.until("the frames arrive", || link.net.received("a", "a0") >= 3);
    let said = link.end(&mut app);
    assert!(said.contains("3 faults (3 truncated "), "{said}");
}

/// Interfaces that have gone down take no frames: each port says so once.
#[test]
fn ports_tell_why_they_cannot_send() {
    let Some(link) = Link::new() else { return };
    link.net.link(("a", "o0", "02:00:00:00:0c:01"), ("b", "o1", "02:00:00:00:0d:01"));
    let path = link.file("ports.loom");
    let text = "app ports {\n    port wire = nic(\"a0\"), far = nic(\"o0\"), near = tap(\"t0\")\n    \
                on wire(p) { p -> far; p -> near }\n}\n";
    std::fs::write(&path, text).expect("the folder is writable");
    for engine in ["afxdp", "afpacket"] {
        let far = format!("far={engine}:o0");
        let args = ["--control", "off", "--bind", "wire=afpacket:a0", "--bind", &far];
        let mut app = link.net.app("a", &path, &args);
        link.net.sh("a", "ip link set o0 down; ip link set t0 down");
        let signs = ["o0: frames cannot be sent: Network is down", "t0: frames cannot be sent: Input/output error"];
        link.net.until("both ports tell", || {
            link.send(&mixed(20));
            signs.iter().all(|s| app.output().contains(s))
        });
        link.send(&mixed(60));
        let said = link.end(&mut app);
        signs.iter().for_each(|s| assert_eq!(said.matches(s).count(), 1, "{engine}: {said}"));
        link.net.sh("a", "ip link set o0 up");
    }
}
