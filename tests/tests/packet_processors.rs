//! The whole process on a processor of another kind, aarch64, by an emulator. It runs as the only
//! process, and as the NIC's beside a CPU's process of this machine.
//!
//! `scripts/aarch64.sh` builds it, which takes some minutes; `make test-long` calls it. Where it
//! has not been built the tests say so, and pass.

use crate::packet_offload::{mixed, run_by};
use std::path::PathBuf;
use std::process::Command;
use wireloom_tests::captures::{traffic, write};
use wireloom_tests::folder::Folder;
use wireloom_tests::process::require_tool;
use wireloom_tests::{root, Wireloom};

const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// The executable for aarch64, built from this source.
fn executable() -> Option<PathBuf> {
    if !require_tool("aarch64-linux-gnu-gcc") || !require_tool("qemu-aarch64") {
        return None;
    }
    let path = root().join("target/aarch64/aarch64-unknown-linux-gnu/checks/wireloom");
    if !path.exists() {
        eprintln!("SKIPPED: there is no {} (`scripts/aarch64.sh` builds it)", path.display());
        return None;
    }
    // The two processes compare their programs, whose descriptions change.
    let written = |p: &std::path::Path| std::fs::metadata(p).and_then(|m| m.modified()).ok();
    if written(&path) < written(&Wireloom::binary()) {
        eprintln!("SKIPPED: {} is older than this executable (`scripts/aarch64.sh` builds it)", path.display());
        return None;
    }
    Some(path)
}

/// It runs apps on captures, and does what this machine does.
#[test]
fn a_process_of_its_own() {
    let Some(path) = executable() else { return };
    let folder = Folder::new("aarch64-alone");
    write(&folder.file("in.pcap"), &traffic(41, 400, &[10, 300, 2000]));
    let app = "app all {
    port wire = nic(\"a\"), out = nic(\"b\")
    queue q { depth 64, lossless, channels [low, high] }
    table seen: ip4 -> u64 { capacity 1K }
    counter lows, highs, sums
    segment front on cpu(0) {
        on wire(p) where p.udp { if p.udp.src % 3 == 0 { p -> q.low } else { p -> q.high } }
    }
    segment back on cpu(1) {
        on q.low(p) where p.ip4 { lows += 1  seen[p.ip4.src] += hash(p.payload) & 255  p -> out }
        on q.high(p) where p.ip4 {
            highs += 1
            sums += seen[p.ip4.src] else 0
            p.ip4.ttl = p.ip4.ttl - 1
            p -> out
        }
    }
}
";
    std::fs::write(folder.file("program.loom"), app).expect("the folder is writable");
    let here = run_by(&mut Wireloom::program(), &folder, "program.loom", &["--interpret"]);
    let mut command = Command::new("qemu-aarch64");
    command.args(["-L", LIBRARIES]).arg(path);
    let there = run_by(&mut command, &folder, "program.loom", &["--interpret"]);
    assert_eq!(here.0.len(), 400);
    assert!(here.0 == there.0 && here.1 == there.1, "{} and {}", here.1, there.1);
}

/// The NIC's process is of another kind than the CPU's. The rings lie between them.
#[test]
fn the_process_of_a_nic() {
    let Some(path) = executable() else { return };
    let folder = Folder::new("aarch64-nic");
    write(&folder.file("in.pcap"), &mixed());
    let file = root().join("examples/offload_functions.loom").display().to_string();
    for form in ["aes_split", "sequencer_on_nic", "sequencer_on_cpu"] {
        let app = format!("{file}:{form}");
        let here = run_by(&mut Wireloom::program(), &folder, &app, &["--interpret"]);
        let mut command = Wireloom::program();
        command.env("WIRELOOM_NIC_COMMAND", format!("qemu-aarch64 -L {LIBRARIES} {}", path.display()));
        let there = run_by(&mut command, &folder, &app, &["--interpret"]);
        assert_eq!(here.0.len(), 1500, "{form}");
        assert!(here.0 == there.0 && here.2 == there.2, "{form}: {:?} and {:?}", here.2, there.2);
    }
}
