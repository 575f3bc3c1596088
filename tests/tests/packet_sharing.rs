//! Apps that share a port: each does what it does alone, and one core handles all packets of a
//! common flow key.

use wireloom_tests::captures::{read, rows, sport, traffic, write, Frames, Runs, MS};
use wireloom_tests::folder::Folder;
use wireloom_tests::Wireloom;

const TWO: &str = r#"
app small {
    port wire = nic("a"), low = nic("b")
    table flows: flow5 -> u64 { capacity 1K }
    on wire(p) where p.udp and p.ip4 {
        flows[p.flow5] += 1
        p.ip4.ttl -= 1
        if p.len < 200 { p -> low }
    }
}

app large {
    port wire = nic("a"), high = nic("c")
    table hosts: ip -> u64 { capacity 1K }
    on wire(p) where p.ip {
        hosts[p.ip.src] += 1
        if p.len >= 200 { p -> high }
    }
}
"#;

#[test]
fn two_apps_on_one_port_do_what_each_does_alone() {
    let folder = Folder::new("two");
    std::fs::write(folder.file("two.loom"), TWO).unwrap();
    std::fs::write(folder.file("small.loom"), TWO.split("app large").next().unwrap()).unwrap();
    std::fs::write(folder.file("large.loom"), format!("app large{}", TWO.split("app large").nth(1).unwrap())).unwrap();
    let input = traffic(5, 900, &[1000, MS]);
    write(&folder.file("in.pcap"), &input);
    let args = |low: &str, high: &str| -> Vec<String> {
        let mut all = vec!["--bind".to_string(), "wire=pcap:@/in.pcap".into()];
        if !low.is_empty() {
            all.extend([
                "--bind".into(),
                format!("low=pcap:@/{low}"),
                "--dump".into(),
                format!("flows=@/flows-{low}.json"),
            ])
        }
        if !high.is_empty() {
            all.extend([
                "--bind".into(),
                format!("high=pcap:@/{high}"),
                "--dump".into(),
                format!("hosts=@/hosts-{high}.json"),
            ])
        }
        all
    };
    let run =
        |program: &str, args: Vec<String>| folder.run(program, &args.iter().map(String::as_str).collect::<Vec<_>>());
    let said = run("two.loom", args("low2", "high2"));
    assert!(said.contains("1800 frames received, 900 sent"), "{said}");
    run("small.loom", args("low1", ""));
    run("large.loom", args("", "high1"));
    for (a, b) in [("low1", "low2"), ("high1", "high2")] {
        let (alone, together) = (read(&folder.file(a)), read(&folder.file(b)));
        assert!(!alone.is_empty());
        assert_eq!(alone, together);
    }
    assert_eq!(rows(&folder.file("hosts-high1.json")), rows(&folder.file("hosts-high2.json")));
    let file = folder.file("two.loom").display().to_string();
    let said = Wireloom::command(&["explain", &file]).out;
    let clusters = said.split("Clusters of port wire").nth(1).unwrap_or_else(|| panic!("{said}"));
    assert!(
        clusters.contains("cluster 1: steered by ip4.src or ip6.src\n")
            && clusters.contains("large passes frames on; its key is the common one")
            && clusters.contains("small changes frames; its key, ip4.src, ip4.dst, tcp.src")
            && !clusters.contains("cluster 2"),
        "{clusters}"
    );
    let both = Wireloom::command(&[
        "run",
        &file,
        "--bind",
        "wire=pcap:/tmp/none",
        "--bind",
        "low=pcap:/tmp/x.pcap",
        "--bind",
        "high=pcap:/tmp/x.pcap",
    ]);
    assert!(both.code == Some(1) && both.text.contains("two apps cannot write one capture"), "{}", both.text);
}

const THREE: &str = r#"
app flows {
    port wire = nic("a")
    table seen: flow5 -> u64 { capacity 4K }
    on wire(p) where p.ip4 { seen[p.flow5] += 1 }
}

app quota {
    port wire = nic("a"), inside = nic("b")
    table sent: ip -> u64 { capacity 1K }
    on wire(p) where p.ip4 {
        sent[p.ip.src] += 1
        p.ip4.ttl -= 1
        p -> inside
    }
}

app ports {
    port wire = nic("a"), even = nic("c")
    table of: u16 -> u64 { capacity 4K }
    on wire(p) where p.udp and p.ip4 {
        of[p.udp.src] += 1
        if p.udp.src % 2 == 0 and p.ip4.ttl == 64 { p -> even }
    }
}
"#;

/// Two apps of one key, one of another. One changes frames, one passes some on, one only counts;
/// compiled and not, on one core and two.
#[test]
fn three_apps_share_a_capture() {
    let folder = Folder::new("three");
    std::fs::write(folder.file("three.loom"), THREE).unwrap();
    let input = traffic(9, 600, &[1000, MS]);
    write(&folder.file("in.pcap"), &input);
    let less = |f: &[u8]| {
        let mut f = f.to_vec();
        f[22] -= 1;
        // The sum of the header goes up by as much as the word with the TTL has gone down (RFC
        // 1624).
        let sum = u32::from(u16::from_be_bytes([f[24], f[25]])) + 0x100;
        f[24..26].copy_from_slice(&(((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        f
    };
    let mut inside: Frames = input.iter().map(|(t, f)| (*t, less(f))).collect();
    let mut even: Frames = input.iter().filter(|(_, f)| sport(f).is_multiple_of(2)).cloned().collect();
    inside.sort();
    even.sort();
    for extra in [
        &["--cores", "0"][..],
        &["--cores", "0-1"],
        &["--cores", "0-1", "--rps", "on"],
        &["--cores", "0-1", "--interpret"],
    ] {
        let args = [
            "--bind",
            "wire=pcap:@/in.pcap",
            "--bind",
            "inside=pcap:@/inside.pcap",
            "--bind",
            "even=pcap:@/even.pcap",
            "--dump",
            "seen=@/seen.json",
            "--dump",
            "sent=@/sent.json",
            "--dump",
            "ports.of=@/of.json",
        ];
        let said = folder.run("three.loom", &[&args[..], extra].concat());
        assert!(
            said.contains(&format!("1800 frames received, {} sent, 0 without an output, 0 faults", 600 + even.len())),
            "{extra:?}: {said}"
        );
        for (name, want) in [("inside", &inside), ("even", &even)] {
            let mut got = read(&folder.file(&format!("{name}.pcap")));
            got.sort();
            assert!(got == *want, "{extra:?}: {name} differs from the model");
        }
        // Every flow has a source port of its own, so one packet; of sources there are four.
        let count = |name: &str| {
            let rows: serde_json::Value =
                serde_json::from_str(&std::fs::read_to_string(folder.file(name)).unwrap()).unwrap();
            let values: Vec<u64> = rows.as_array().unwrap().iter().map(|r| r["value"].as_u64().unwrap()).collect();
            (values.len(), values.iter().sum::<u64>())
        };
        assert_eq!(
            (count("seen.json"), count("sent.json"), count("of.json")),
            ((600, 600), (4, 600), (600, 600)),
            "{extra:?}"
        );
    }
}

/// One capture under two names: the apps that read it are a cluster, by the bindings of their
/// ports.
#[test]
fn ports_bound_to_one_thing_are_one() {
    let folder = Folder::new("names");
    let app = |name: &str, port: &str| {
        format!("app {name} {{ port {port} = nic(\"{name}\")\n table seen: ip -> u64 {{ capacity 16 }}\n on {port}(p) where p.ip {{ seen[p.ip.src] += 1 }} }}\n")
    };
    std::fs::write(folder.file("two.loom"), app("one", "lan") + &app("two", "wire")).unwrap();
    let input = traffic(9, 600, &[1000, MS]);
    write(&folder.file("in.pcap"), &input);
    let path = folder.file("two.loom").display().to_string();
    let explain = |binds: &[&str]| {
        let args: Vec<&str> =
            ["explain", path.as_str()].into_iter().chain(binds.iter().flat_map(|b| ["--bind", b])).collect();
        let out = wireloom_tests::Wireloom::command(&args);
        assert_eq!(out.code, Some(0), "{}", out.text);
        out.text
    };
    assert!(!explain(&[]).contains("Clusters") && !explain(&["lan=nic:a", "wire=nic:b"]).contains("Clusters"));
    let together = explain(&["lan=nic:a", "wire=nic:a"]);
    assert!(
        together.contains("Clusters of port nic:a ")
            && together.contains("cluster 1: steered by ip4.src or ip6.src\n")
            && !together.contains("cluster 2"),
        "{together}"
    );
    let binds = [
        "--bind",
        "lan=pcap:@/in.pcap",
        "--bind",
        "wire=pcap:@/in.pcap",
        "--dump",
        "one.seen=@/one.json",
        "--dump",
        "two.seen=@/two.json",
    ];
    for extra in [&["--cores", "0"][..], &["--cores", "0-1"], &["--cores", "0-1", "--rps", "on"]] {
        folder.run("two.loom", &[&binds[..], extra].concat());
        let rows = |name: &str| -> Vec<serde_json::Value> {
            serde_json::from_str(&std::fs::read_to_string(folder.file(name)).unwrap()).unwrap()
        };
        for name in ["one.json", "two.json"] {
            // An entry per source: each is on one core.
            let sum: u64 = rows(name).iter().map(|r| r["value"].as_u64().unwrap()).sum();
            assert_eq!((rows(name).len(), sum), (4, 600), "{name} {extra:?}");
        }
    }
}
