//! The network functions in `apps/`, with the command lines that they are promised to run by, from
//! capture to capture.

use wireloom_tests::packets::Captures;

#[test]
fn flow_tracker() {
    let Some(c) = Captures::make("flow_tracker", "flow_tracker", &[]) else { return };
    c.run("flow_tracker", &["--bind", "wire=pcap:@/in.pcap", "--dump", "flows=@/flows.json"]);
    c.check(&[]);
}

#[test]
fn flow_tracker_on_two_cores() {
    let Some(c) = Captures::make("flow_tracker", "flow_tracker_2", &[]) else { return };
    c.run(
        "flow_tracker",
        &["--bind", "wire=pcap:@/in.pcap", "--dump", "flows=@/flows.json", "--cores", "0-1", "--rps", "on"],
    );
    c.check(&[]);
}

#[test]
fn port_knocking() {
    let Some(c) = Captures::make("port_knocking", "port_knocking", &[]) else { return };
    c.run("port_knocking", &["--bind", "wire=pcap:@/in.pcap", "--bind", "kernel=pcap:@/accepted.pcap"]);
    c.check(&[]);
}

#[test]
fn dns_tap() {
    let Some(c) = Captures::make("dns", "dns_tap", &[]) else { return };
    c.run("dns_tap", &["--bind", "lan=pcap:@/in.pcap", "--bind", "mon=pcap:@/out.pcap"]);
    c.check(&["dns_tap"]);
}

#[test]
fn dpi_balancer() {
    let Some(c) = Captures::make("dns", "dpi_balancer", &[]) else { return };
    c.run(
        "dpi_balancer",
        &["--bind", "lan=pcap:@/in.pcap", "--bind", "workers=pcap:@/w0.pcap,pcap:@/w1.pcap,pcap:@/w2.pcap"],
    );
    c.check(&["dpi_balancer"]);
}

#[test]
fn learning_switch() {
    let Some(c) = Captures::make("learning_switch", "learning_switch", &[]) else { return };
    let list = |letter: char| (0..4).map(|i| format!("pcap:@/{letter}{i}.pcap")).collect::<Vec<_>>().join(",");
    c.run("learning_switch", &["--bind", &format!("ports={}", list('p')), "--out", &format!("ports={}", list('o'))]);
    c.check(&[]);
}

fn openflow_firewall(rules: &str) {
    let Some(c) = Captures::make("openflow_firewall", &format!("openflow_firewall_{rules}"), &[rules]) else { return };
    let rules = ["--bind", "wire=pcap:@/in.pcap", "--load", "rules=@/rules.json"];
    c.run("openflow_firewall", &[&rules[..], &["--bind", "accepted=pcap:@/out.pcap"]].concat());
    c.check(&["out"]);
    c.run(
        "openflow_firewall",
        &[&rules[..], &["--bind", "accepted=pcap:@/exact.pcap", "--load", "exact=@/exact.json"]].concat(),
    );
    c.check(&["exact"]);
}

#[test]
fn openflow_firewall_10_rules() {
    openflow_firewall("10");
}

#[test]
fn openflow_firewall_1000_rules() {
    openflow_firewall("1000");
}

#[test]
fn openflow_firewall_16000_rules() {
    openflow_firewall("16000");
}

#[test]
fn l4_balancer() {
    let Some(c) = Captures::make("l4_balancer", "l4_balancer", &[]) else { return };
    let dips: Vec<String> = (1..=8).map(|i| format!("10.0.0.{i}")).collect();
    let names: Vec<&str> = dips.iter().map(String::as_str).collect();
    let run = |encap: &str, dips: &[&str], file: &str, more: &[&str]| {
        let (out, dips, encap) =
            (format!("out=pcap:@/{file}.pcap"), format!("dips={}", dips.join(",")), format!("encap={encap}"));
        let args = [
            "--bind",
            "wire=pcap:@/in.pcap",
            "--bind",
            &out,
            "--set",
            "vip=192.0.2.1",
            "--set",
            &dips,
            "--set",
            &encap,
        ];
        c.run("l4_balancer", &[&args, more].concat());
    };
    for encap in ["ipip", "gre", "nvgre"] {
        run(encap, &names, encap, &["--dump", "connections=@/connections.json"]);
        c.check(&[&["frames", encap, encap], &names[..]].concat());
        c.check(&["live"]);
    }
    run("ipip", &names[..7], "seven", &[]);
    c.check(&[&["frames", "ipip", "seven"], &names[..7]].concat());
    c.check(&["less", "ipip", "seven", names[7]]);
}

#[test]
fn nat44() {
    let Some(c) = Captures::make("nat44", "nat44", &[]) else { return };
    c.run("nat44", &["--bind", "lan=pcap:@/in.pcap", "--bind", "wan=pcap:@/out.pcap", "--set", "public=198.51.100.1"]);
    c.check(&["out"]);
    let bound = ["--bind", "lan=pcap:@/lan2.pcap", "--bind", "wan=pcap:@/wan2.pcap"];
    let out = ["--out", "lan=pcap:@/lan_out.pcap", "--out", "wan=pcap:@/wan_out.pcap", "--set", "public=198.51.100.1"];
    c.run("nat44", &[&bound[..], &out[..]].concat());
    c.check(&["both"]);
}

#[test]
fn flow_classifier() {
    let Some(c) = Captures::make("flow_classifier", "flow_classifier", &[]) else { return };
    c.run("flow_classifier", &["--bind", "wire=pcap:@/in.pcap", "--dump", "heavy=@/heavy.json"]);
    c.check(&[]);
}

#[test]
fn network_sequencer() {
    let Some(c) = Captures::make("network_sequencer", "network_sequencer", &[]) else { return };
    c.run("network_sequencer", &["--bind", "wire=pcap:@/in.pcap", "--bind", "out=pcap:@/out.pcap", "--set", "epoch=9"]);
    c.check(&[]);
}

#[test]
fn packet_capture() {
    let Some(c) = Captures::make("packet_capture", "packet_capture", &[]) else { return };
    for (name, set) in [("whole", "fields=false"), ("both", "both=true"), ("fields", "fields=true")] {
        let loggers: Vec<String> = (0..4).map(|i| format!("pcap:@/{name}{i}.pcap")).collect();
        c.run(
            "packet_capture",
            &["--bind", "wire=pcap:@/in.pcap", "--bind", &format!("loggers={}", loggers.join(",")), "--set", set],
        );
    }
    c.check(&[]);
}

#[test]
fn pfabric_scheduler() {
    let Some(c) = Captures::make("pfabric_scheduler", "pfabric_scheduler", &[]) else { return };
    c.run(
        "pfabric_scheduler",
        &["--bind", "wire=pcap:@/in.pcap", "--bind", "link=pcap:@/out.pcap", "--set", "rate=10000000"],
    );
    c.check(&[]);
}

#[test]
fn packet_generator() {
    let Some(c) = Captures::make("packet_generator", "packet_generator", &[]) else { return };
    for (sizes, burst) in [("fixed", 1), ("uniform", 5), ("heavy", 4)] {
        let (out, sizes_set, burst_set) =
            (format!("wire=pcap:@/{sizes}.pcap"), format!("sizes={sizes}"), format!("burst={burst}"));
        let mut args = vec!["--bind", &out];
        for set in ["rate=3000", "flows=300", "active=20", "size=1000", &sizes_set, &burst_set] {
            args.extend(["--set", set]);
        }
        c.run_for("packet_generator", &args, std::time::Duration::from_secs(4));
        c.check(&["3000", sizes, &burst.to_string(), "300", "1000"]);
    }
}

#[test]
fn l4_balancer_drains() {
    let Some(c) = Captures::make("l4_drain", "l4_drain", &[]) else { return };
    let admin = wireloom_tests::free_port().to_string();
    let args = [
        "--bind",
        "wire=pcap:@/in.pcap",
        "--bind",
        "out=pcap:@/out.pcap",
        "--set",
        "vip=192.0.2.1",
        "--set",
        "dips=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4",
        "--pace",
        "--admin",
        &admin,
    ];
    let mut running = c.start("l4_balancer", &args);
    // The first flows come at once, later ones seconds later.
    let admin = admin.parse().expect("a port");
    let received =
        || wireloom_tests::admin::sample(&wireloom_tests::admin::metrics(admin), "wireloom_frames_received_total");
    while received() < 200 {
        assert!(running.child.try_wait().expect("the child is ours").is_none(), "{}", running.output());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let answer = wireloom_tests::admin::signal(admin, "l4_balancer/drain?dip=10.0.0.3");
    assert!(answer.contains("\"sum\":1"), "{answer}");
    let code = running.exit();
    assert_eq!(code, Some(0), "{}", running.output());
    c.check(&["10.0.0.3"]);
}

#[test]
fn aes_gateway() {
    let Some(c) = Captures::make("aes_gateway", "aes_gateway", &[]) else { return };
    let run = |from: &str, to: &str| {
        c.run("aes_gateway", &["--bind", from, "--bind", to, "--set", "key=000102030405060708090a0b0c0d0e0f"]);
    };
    run("plain=pcap:@/in.pcap", "secret=pcap:@/out.pcap");
    c.check(&["out"]);
    run("secret=pcap:@/out.pcap", "plain=pcap:@/back.pcap");
    run("secret=pcap:@/damaged.pcap", "plain=pcap:@/rest.pcap");
    c.check(&["back"]);
}

/// Edits of packets in GRE, whose checksum is there by a flag, beside scapy.
#[test]
fn checksums_of_gre() {
    let Some(c) = Captures::make("gre", "gre", &[]) else { return };
    for more in [&[][..], &["--interpret"]] {
        let args =
            ["--bind", "wire=pcap:@/in.pcap", "--bind", "out=pcap:@/out.pcap", "--dump", "counters=@/counters.json"];
        c.run_program("tests/programs/gre_sums", &[&args, more].concat());
        c.check(&[]);
    }
}
