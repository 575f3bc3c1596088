//! Apps of the tree in the hook.

use super::*;
use wireloom_tests::programs::LONG;

#[test]
fn flow_tracker() {
    let Some(sum) = compare(&app("flow_tracker"), &[], hostile(20_000)) else { return };
    assert!(sum.entries > 1000, "{sum:?}");
}

#[test]
fn port_knocking() {
    let Some(sum) = compare(&app("port_knocking"), &[], hostile(20_000)) else { return };
    assert!(sum.frames > 20_000, "{sum:?}");
}

/// Four knocks and a login, as the app's own tests have them.
#[test]
fn port_knocking_opens() {
    let knock = |port: u16| {
        let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        f.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9]);
        f.extend(4000u16.to_be_bytes());
        f.extend(port.to_be_bytes());
        f.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        f
    };
    let ports = [22, 5123, 6234, 7345, 8456, 22, 22, 80, 5123, 7345, 6234, 22];
    let run = |each: &mut dyn FnMut(&[u8])| ports.iter().for_each(|p| each(&knock(*p)));
    let Some(sum) = compare(&app("port_knocking"), &[], run) else { return };
    // The login, the packet behind it, and the last one.
    assert_eq!((sum.sent, sum.entries), (3, 1), "{sum:?}");
}

#[test]
fn xdp_firewall() {
    let Some(sum) = compare(&app("xdp_firewall"), &[("otherwise", "drop")], hostile(5_000)) else { return };
    assert!(sum.counted > 1000, "{sum:?}");
}

/// Every chain of up to four extension headers in front of a port: it is seen, or said to be
/// hidden, and nothing passes.
#[test]
fn extension_headers() {
    let folder = Folder::new("xdp-extensions");
    let text = "app gate {
    port wire = nic(\"eth0\")
    counter caught
    on wire(p) {
        if p.tcp and p.tcp.dst == 22 or p.transport_unknown { caught += 1 } else { p -> wire }
    }
}
";
    let all = wireloom_interp::frames::chains(4);
    let Some(sum) = compare(&written(&folder, text), &[], |each| all.iter().for_each(|c| each(&c.1))) else { return };
    assert_eq!((sum.counted, sum.sent), (all.len() as u64, 0), "{sum:?}");
}

/// A copy of an app with smaller tables: maps are made whole at the start.
fn smaller(folder: &Folder, name: &str, table: (&str, &str)) -> PathBuf {
    let text = std::fs::read_to_string(app(name)).expect("the app is there");
    assert!(text.contains(table.0));
    written(folder, &text.replace(table.0, table.1))
}

/// All three encapsulations, with and without a gateway; two of them unless it is a long run.
#[test]
fn l4_balancer() {
    let folder = Folder::new("xdp-balancer");
    let path = smaller(&folder, "l4_balancer", ("capacity 33554432", "capacity 1M"));
    let step = if std::env::var_os(LONG).is_some() { 1 } else { 3 };
    for (encap, gateway) in [("ipip", "0"), ("gre", "1"), ("nvgre", "0"), ("nvgre", "1")].into_iter().step_by(step) {
        let gateway = format!("00:00:00:00:00:0{gateway}");
        let sets = [("vip", "10.0.0.1"), ("dips", "10.1.0.1,10.1.0.2"), ("encap", encap), ("gateway", &gateway)];
        let Some(sum) = compare(&path, &sets, hostile(3_000)) else { return };
        assert!(sum.sent > 1000 && sum.entries > 16381, "{encap}: {sum:?}");
    }
}

#[test]
fn nat44() {
    let sets = [("public", "10.0.0.1")];
    let Some(sum) = compare(&app("nat44"), &sets, hostile(10_000)) else { return };
    assert!(sum.sent > 1000 && sum.entries > 100, "{sum:?}");
}

#[test]
fn learning_switch() {
    let run = |both: &mut Both| hostile(10_000)(&mut |bytes| both.frame(bytes));
    let Some(sum) = beside_it(&app("learning_switch"), &[], 50_000_000, run) else { return };
    assert!(sum.sent > 1000 && sum.entries > 10, "{sum:?}");
}

#[test]
fn openflow_firewall() {
    let Some(sum) = compare(&app("openflow_firewall"), &[("otherwise", "accept")], hostile(5_000)) else { return };
    assert!(sum.sent > 1000, "{sum:?}");
}

/// Few flows: the interpreter's sketch has true counts.
#[test]
fn flow_classifier() {
    let Some(sum) = compare(&app("flow_classifier"), &[("least", "500")], hostile(1_000)) else { return };
    assert!(sum.frames > 1000 && sum.entries > 3, "{sum:?}");
}

#[test]
fn ddos_filter() {
    let sets = [("rate", "1000"), ("burst", "20"), ("syn_rate", "10"), ("block", "1s"), ("sample", "3")];
    let run = |both: &mut Both| hostile(10_000)(&mut |bytes| both.frame(bytes));
    let Some(sum) = beside_it(&app("ddos_filter"), &sets, 200_000, run) else { return };
    assert!(sum.sent > 1000 && sum.counted > 1000, "{sum:?}");
}

/// Requests and answers of a few keys and clients, in any order, with writes between.
fn exchanges(both: &mut Both, number: u32) {
    let mut random = fastrand::Rng::with_seed(5);
    for n in 0..number {
        let key = format!("key{}", random.u8(0..4) * random.u8(0..40));
        let value = "v".repeat(random.usize(0..1100));
        let text = match random.u8(0..12) {
            0..=4 => format!("get {key}\r\n"),
            5 => format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()),
            6 => format!("delete {key}\r\n"),
            7 => format!("get {key} other\r\n"),
            8 => "flush_all\r\n".into(),
            9 => format!("get {key}\nflush_all\r\n"),
            10 => format!("set {key} 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n"),
            _ => String::new(),
        };
        let id = random.u16(0..3);
        let header = |count: u8| [&id.to_be_bytes()[..], &[0, 0, 0, count, 0, 0]].concat();
        both.one(0, &bytes::datagram((12345, 11211), &[&header(1)[..], text.as_bytes()].concat()));
        let answer = match random.u8(0..10) {
            0..=5 => format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()),
            6 => "STORED\r\n".into(),
            7 => "END\r\n".into(),
            8 if n % 8 == 0 => "OK\r\n".into(),
            8 => format!("VALUE {key} 0 5000\r\n{value}"),
            _ => continue,
        };
        let count = 1 + u8::from(answer.ends_with('v'));
        let sent = bytes::datagram((11211, 12345), &[&header(count)[..], answer.as_bytes()].concat());
        // The answer goes back to the client.
        both.one(1, &bytes::turned(&sent));
    }
}

/// Also frames that are none.
#[test]
fn xdp_kv_cache() {
    let run = |both: &mut Both| {
        exchanges(both, 6_000);
        hostile(1_000)(&mut |bytes| both.frame(bytes));
    };
    let Some(sum) = beside_it(&app("xdp_kv_cache"), &[("largest", "1024")], 1_000_000, run) else { return };
    assert!(sum.sent > 6_000 && sum.entries > 4096 && sum.counted > 2_000, "{sum:?}");
}

/// With ways the same entries make room on each device.
#[test]
fn a_cache_with_ways() {
    let text = std::fs::read_to_string(app("xdp_kv_cache")).expect("the app");
    let small = text.replace("capacity 16K", "capacity 20\n        ways 2");
    assert_ne!(text, small);
    let folder = Folder::new("xdp-cache-ways");
    let run = |both: &mut Both| exchanges(both, 1_500);
    let app = written(&folder, &small);
    let Some(sum) = beside_it(&app, &[("largest", "1024")], 1_000_000, run) else { return };
    assert!(sum.sent > 1_500 && sum.counted > 500, "{sum:?}");
}

#[test]
fn network_sequencer() {
    let Some(sum) = compare(&app("network_sequencer"), &[], hostile(5_000)) else { return };
    assert!(sum.frames > 1000, "{sum:?}");
}

/// Whole frames are recorded by the hook; records of their fields are made by the process.
#[test]
fn packet_capture() {
    let Some(sum) = compare(&app("packet_capture"), &[], hostile(5_000)) else { return };
    assert!(sum.frames > 1000 && sum.sent > 1000, "{sum:?}");
}

/// Apps that stay on the CPU, behind a filter, and their parameters.
const FILTERED: [(&str, &[(&str, &str)]); 5] = [
    ("aes_gateway", &[("key", "000102030405060708090a0b0c0d0e0f")]),
    ("dpi_balancer", &[]),
    ("ipsec_gateway", &[]),
    ("packet_capture", &[("fields", "true")]),
    ("pfabric_scheduler", &[]),
];

#[test]
fn filtered_apps() {
    for (name, sets) in FILTERED {
        let Some(seen) = process::filter(&app(name), sets, hostile(1_000)) else { return };
        assert!(seen.given + seen.decided > 10_000, "{name}: {seen:?}");
    }
}

/// Each app that the hook can have a part of has a test here.
#[test]
fn no_app_is_left_out() {
    let tests = concat!(include_str!("apps.rs"), include_str!("process.rs"));
    for file in std::fs::read_dir(root().join("apps")).expect("the apps").flatten() {
        let name = file.file_name().to_string_lossy().replace(".loom", "");
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        if !file.path().is_file() || !text.contains("nic(\"") {
            continue;
        }
        let mut m = module(file.path());
        let handlers: Vec<HandlerId> = candidates(&m);
        let placed = handlers.iter().any(|h| obstacles(&m, *h).is_empty());
        let filtered = !wireloom_ir::placement::split(&mut m, &handlers).is_empty();
        let named = tests.contains(&format!("\"{name}\"")) || FILTERED.iter().any(|f| f.0 == name);
        assert!(named || !(placed || filtered), "{name} has no test in the hook");
    }
}
