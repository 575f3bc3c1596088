//! An app in the hook, on the CPU and on a NIC: packets go from the hook to queues of either one.

use super::process::{bytes_of, mixed, Link};
use super::*;

const THREE: &str = "app three {
    port wire = nic(\"a0\"), copy = pcap(\"copy.pcap\"), direct = pcap(\"direct.pcap\")
    queue seen { depth 4096, channels [dns, rest] }
    queue costly { depth 4096 }
    queue far { depth 4096 }
    table sources: ip4 -> u64 { capacity 4096 }
    counter hooked, host, card, others
    segment front on xdp {
        on wire(p) {
            hooked += 1
            if not p.udp { p -> far; return }
            if p.ip4 { sources[p.ip4.src] += 1 }
            if p.udp.dst == 53 { p -> seen.dns } else { p -> seen.rest }
        }
    }
    segment middle on cpu(0) {
        on seen.dns(p) { host += 1  p -> costly }
        on seen.rest(p) where p.udp { others += 1 }
    }
    segment card on nic {
        on costly(p) { card += 1  p -> copy }
        far -> direct
    }
}
";

#[test]
fn hook_cpu_and_nic() {
    let Some(link) = Link::new() else { return };
    let folder = Folder::new("xdp-card");
    let path = written(&folder, THREE).display().to_string();
    let files = ["copy.pcap", "direct.pcap", "counters.json"].map(|f| link.file(f));
    let binds = [format!("copy=pcap:{}", files[0]), format!("direct=pcap:{}", files[1])];
    let dump = format!("counters={}", files[2]);
    let args = ["--control", "off", "--bind", &binds[0], "--bind", &binds[1], "--dump", &dump];
    let mut run = link.net.app("a", &path, &args);
    let mut frames = mixed(900);
    frames.iter_mut().skip(1).step_by(4).for_each(|f| f[23] = 6);
    link.send(&frames);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let said = link.end(&mut run);
    let udp = |f: &&Vec<u8>| f[12..14] == [8, 0] && f[23] == 17;
    let dns = |f: &&Vec<u8>| udp(f) && f[36..38] == [0, 53];
    let (to_card, direct): (Vec<_>, Vec<_>) =
        (frames.iter().filter(dns).cloned().collect(), frames.iter().filter(|f| !udp(f)).cloned().collect());
    assert!(to_card.len() > 100 && direct.len() > 100, "{} and {} frames", to_card.len(), direct.len());
    assert!(bytes_of(&files[0]) == to_card, "{} of {}: {said}", bytes_of(&files[0]).len(), to_card.len());
    assert!(bytes_of(&files[1]) == direct, "{} of {}: {said}", bytes_of(&files[1]).len(), direct.len());
    let counters = std::fs::read_to_string(&files[2]).expect("the counters");
    let counters: std::collections::BTreeMap<String, u64> = serde_json::from_str(&counters).expect("numbers");
    let others = frames.len() - to_card.len() - direct.len();
    let expected = [("hooked", frames.len()), ("host", to_card.len()), ("card", to_card.len()), ("others", others)];
    for (name, n) in expected {
        assert_eq!(counters.get(name), Some(&(n as u64)), "{name}: {counters:?}, {said}");
    }
    assert!(said.contains("modelled link"), "{said}");
}
