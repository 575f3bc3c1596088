//! `wireloom bench` measures the whole work of the program, on as many cores as asked for. The
//! speed is not tested.

use serde_json::Value;
use std::path::PathBuf;
use wireloom_tests::process::finish;
use wireloom_tests::{root, Wireloom};

/// A folder with a capture of 128 UDP frames, of as many flows; removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("wireloom-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let mut file: Vec<u8> =
            [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1].iter().flat_map(|w| w.to_le_bytes()).collect();
        for i in 0..128u8 {
            file.extend([1_700_000_000u32, 0, 60, 60].iter().flat_map(|w| w.to_le_bytes()));
            file.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
            file.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, i, 192, 168, 0, 1]);
            file.extend([4, i, 0, 53, 0, 26, 0, 0]);
            file.extend([0; 18]);
        }
        std::fs::write(folder.join("in.pcap"), file).expect("the capture is written");
        Folder(folder)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("the file is written");
    }

    /// `wireloom bench ARGS`; `@` is the folder.
    fn bench(&self, args: &[&str]) -> String {
        let mut command = Wireloom::program();
        command
            .current_dir(root())
            .arg("bench")
            .args(args.iter().map(|a| a.replace('@', &self.0.display().to_string())));
        let output = finish(&mut command);
        assert_eq!(output.code, Some(0), "{args:?}:\n{}", output.text);
        output.text
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.bench(args);
        let line = text.lines().find(|l| l.starts_with('{')).unwrap_or_else(|| panic!("no JSON in {text}"));
        serde_json::from_str(line).expect("JSON")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn elements(v: &Value) -> Vec<&str> {
    v["elements"].as_array().expect("a list").iter().map(|e| e["element"].as_str().expect("a name")).collect()
}

#[test]
fn every_round_is_run_and_the_first_does_not_count() {
    let f = Folder::new("rounds");
    let v = f.json(&[
        "apps/flow_tracker.loom",
        "--bind",
        "wire=@/in.pcap",
        "--frames",
        "1280",
        "--repeat",
        "2",
        "--no-elements",
        "--json",
    ]);
    let runs = v["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 2, "{v}");
    for run in runs {
        assert_eq!(
            (run["frames"].as_u64(), run["received"].as_u64(), run["faults"].as_u64()),
            (Some(1280), Some(1408), Some(0)),
            "{v}"
        );
        assert!(run["ns"].as_f64().is_some_and(|ns| ns > 0.0), "{v}");
    }
}

/// Several apps on one port: each gets every frame, and the sum is measured.
#[test]
fn apps_share_the_frames() {
    let f = Folder::new("apps");
    let each = "bench/packet/apps/count_each.loom";
    let two = [format!("{each}:first"), format!("{each}:third")];
    for (apps, n, name) in [
        (vec![each], 4, "first + second + third + fourth"),
        (two.iter().map(String::as_str).collect(), 2, "first + third"),
    ] {
        let v =
            f.json(&[&apps[..], &["--bind", "wire=@/in.pcap", "--frames", "1280", "--repeat", "1", "--json"]].concat());
        let run = &v["runs"][0];
        assert_eq!(
            (run["frames"].as_u64(), run["received"].as_u64(), &v["app"]),
            (Some(1280), Some(n * 1408), &Value::from(name)),
            "{v}"
        );
    }
    // Queues of the program lead nowhere else.
    assert!(f
        .bench(&["apps/pfabric_scheduler.loom", "--bind", "wire=@/in.pcap", "--frames", "1280", "--repeat", "1"])
        .contains("ns per frame"));
}

#[test]
fn cores_share_the_frames() {
    let f = Folder::new("cores");
    for one_queue in [false, true] {
        let mut args = vec![
            "apps/flow_tracker.loom",
            "--bind",
            "wire=@/in.pcap",
            "--frames",
            "12800",
            "--repeat",
            "1",
            "--cores",
            "0-1",
            "--json",
        ];
        if one_queue {
            args.push("--one-queue");
        }
        let v = f.json(&args);
        let run = &v["runs"][0];
        assert_eq!(
            (v["cores"].as_u64(), run["frames"].as_u64(), run["received"].as_u64()),
            (Some(2), Some(12800), Some(12928)),
            "{v}"
        );
        assert_eq!(elements(&v).len(), 0, "{v}");
    }
}

#[test]
fn insertions_are_counted_and_rules_decide() {
    let f = Folder::new("inserts");
    f.write("rules.json", r#"[{"priority": 1, "src": "10.0.0.0/25", "action": "accept"}, {"priority": 2, "src": "10.0.0.0/26", "action": "drop"}]"#);
    f.write(
        "more.json",
        r#"[{"dport": 1, "action": "drop"}, {"dport": 2, "action": "drop"}, {"dport": 3, "action": "drop"}]"#,
    );
    let args = [
        "apps/openflow_firewall.loom",
        "--bind",
        "wire=@/in.pcap",
        "--load",
        "rules=@/rules.json",
        "--insert",
        "rules=@/more.json",
        "--every",
        "2",
    ];
    let v = f.json(&[&args[..], &["--frames", "12800", "--repeat", "1", "--json"]].concat());
    assert_eq!(v["inserts"]["count"].as_u64(), Some(3), "{v}");
    assert_eq!((v["runs"][0]["received"].as_u64(), v["runs"][0]["sent"].as_u64()), (Some(12928), Some(6464)), "{v}");
    let text = f.bench(&[&args[..], &["--frames", "12800", "--repeat", "1", "--no-elements"]].concat());
    assert!(text.contains("ns per frame") && text.contains("3 insertions while frames flowed"), "{text}");
}

#[test]
fn time_is_told_by_element() {
    let f = Folder::new("elements");
    f.write(
        "two.loom",
        "element Scale {\n    param by: u8\n\n    in x: packet\n    out y: packet\n\n    on x(p) where p.ip4 {\n        loop max 50 { p.ip4.ttl = p.ip4.ttl * by + 1 }\n        p -> y\n    }\n}\n\n\
         app two {\n    port wire = nic(\"a\"), away = nic(\"b\")\n\n    first = Scale(3)\n    second = Scale(5)\n\n    wire -> first -> second -> away\n}\n",
    );
    let v = f.json(&["@/two.loom", "--bind", "wire=@/in.pcap", "--frames", "600000", "--repeat", "1", "--json"]);
    assert_eq!(v["runs"][0]["sent"], v["runs"][0]["received"], "{v}");
    let names = elements(&v);
    assert!(names.contains(&"element first") && names.contains(&"element second"), "{v}");
    let sum: f64 = v["elements"].as_array().expect("a list").iter().filter_map(|e| e["ns"].as_f64()).sum();
    assert!(sum > 0.0, "{v}");
}

#[test]
fn many_rounds_are_many_flows() {
    let f = Folder::new("many");
    let args = [
        "apps/l4_balancer.loom",
        "--bind",
        "wire=@/in.pcap",
        "--set",
        "vip=192.168.0.1",
        "--set",
        "dips=10.1.0.1,10.1.0.2",
        "--many",
        "4",
        "--frames",
        "512",
    ];
    let v = f.json(&[&args[..], &["--repeat", "1", "--no-elements", "--json"]].concat());
    assert_eq!((v["runs"][0]["frames"].as_u64(), v["runs"][0]["sent"].as_u64()), (Some(512), Some(1024)), "{v}");
}

/// Of an app with service ports, too, the packets are measured: no port is taken, so two can run at
/// once.
#[test]
fn the_packets_of_an_app_with_services_are_measured() {
    let f = Folder::new("mixed");
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = format!("port={}", taken.local_addr().expect("an address").port());
    let v = f.json(&[
        "examples/port_census.loom",
        "--bind",
        "wire=@/in.pcap",
        "--set",
        &port,
        "--frames",
        "2560000",
        "--repeat",
        "2",
        "--json",
    ]);
    assert_eq!(v["runs"][0]["frames"], 2560000, "{v}");
    assert!(elements(&v).contains(&"table to"), "{v}");
    let output = finish(Wireloom::program().current_dir(root()).args([
        "bench",
        "apps/kv_server.loom",
        "--bind",
        "wire=none.pcap",
    ]));
    assert!(output.code == Some(1) && output.text.contains("has no frame ports"), "{}", output.text);
}
