//! Interfaces and their state, as a run names them.

use super::process::Link;

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
