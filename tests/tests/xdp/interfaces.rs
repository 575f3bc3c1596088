//! Interfaces and their state, as a run names them.

use super::process::{mixed, Link};

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
