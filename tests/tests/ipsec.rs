//! `ipsec_gateway` against scapy's IPsec, and two gateways between real stacks in namespaces;
//! against `ip xfrm` where the kernel has ESP.

use std::path::Path;
use wireloom_tests::net::Net;
use wireloom_tests::packets::Captures;
use wireloom_tests::Process;

const TABLES: [&str; 4] = ["--load", "policies=@/policies.json", "--load", "inbound=@/inbound.json"];

/// Both directions: scapy's input and output, in order, or on several cores in any order.
fn both_ways(c: &Captures, mark: &str, more: &[&str]) {
    let (wire, clear) = (format!("wire=pcap:@/out{mark}.pcap"), format!("plain=pcap:@/clear{mark}.pcap"));
    let (sealed, opened) = (format!("counters=@/out{mark}_counts.json"), format!("counters=@/clear{mark}_counts.json"));
    let told = format!("plain=pcap:@/told{mark}.pcap");
    let out = ["--bind", "plain=pcap:@/in.pcap", "--bind", &wire, "--out", &told, "--dump", &sealed];
    c.run("ipsec_gateway", &[&out, &TABLES[..], more].concat());
    let back = ["--bind", "wire=pcap:@/esp.pcap", "--bind", &clear, "--dump", &opened];
    c.run("ipsec_gateway", &[&back, &TABLES[..], more].concat());
}

#[test]
fn scapy_understands_us_and_we_understand_scapy() {
    let Some(c) = Captures::make("ipsec", "ipsec", &[]) else { return };
    both_ways(&c, "", &[]);
    c.check(&["out"]);
    c.check(&["in"]);
    // Every number and vector is given once, whichever core seals; the windows are right.
    both_ways(&c, "2", &["--cores", "0-1", "--rps", "on"]);
    c.check(&["cores"]);
}

/// Numbers of 64 bits that pass 2^32, and outer headers of IPv6.
#[test]
fn extended_sequence_numbers_and_outer_headers_of_ipv6() {
    let Some(c) = Captures::make("ipsec_esn", "ipsec_esn", &[]) else { return };
    let before =
        ["--load", "sent=@/sent.json", "--dump", "sent=@/sent_then.json", "--dump", "counters=@/out_counts.json"];
    c.run(
        "ipsec_gateway",
        &[
            &["--bind", "plain=pcap:@/in.pcap", "--bind", "wire=pcap:@/out.pcap", "--out", "plain=pcap:@/told.pcap"],
            &TABLES[..],
            &before,
        ]
        .concat(),
    );
    c.check(&["out"]);
    for (name, what, cores) in [("clear", "in", "0"), ("clear2", "cores", "0-1")] {
        let (plain, counters) = (format!("plain=pcap:@/{name}.pcap"), format!("counters=@/{name}_counts.json"));
        let more = ["--load", "windows=@/windows.json", "--dump", &counters, "--cores", cores, "--rps", "on"];
        c.run("ipsec_gateway", &[&["--bind", "wire=pcap:@/esp.pcap", "--bind", &plain], &TABLES[..], &more].concat());
        c.check(&[what]);
    }
}

#[test]
fn numbers_go_on_after_a_restart() {
    let Some(c) = Captures::make("ipsec", "ipsec_restart", &[]) else { return };
    let sent = |n: &str| -> u64 {
        let text = std::fs::read_to_string(c.folder.join(n)).expect("it was dumped");
        let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("it is JSON");
        rows.iter().find(|r| r["spi"] == 257).and_then(|r| r["last"].as_u64()).expect("the SA is there")
    };
    let run = |out: &str, more: &[&str]| {
        let wire = format!("wire=pcap:@/{out}.pcap");
        c.run(
            "ipsec_gateway",
            &[&["--bind", "plain=pcap:@/in.pcap", "--bind", &wire, "--out", "plain=null:x"], &TABLES[..], more]
                .concat(),
        );
    };
    run("first", &["--dump", "sent=@/first.json"]);
    run("second", &["--load", "sent=@/first.json", "--dump", "sent=@/second.json"]);
    assert_eq!((sent("first.json"), sent("second.json")), (150, 300));
    // An SA whose numbers are used up sends nothing.
    std::fs::write(c.folder.join("full.json"), r#"[{"spi": 257, "last": 4294967290}]"#)
        .expect("the folder is writable");
    run("third", &["--load", "sent=@/full.json", "--dump", "counters=@/third.json"]);
    let counts: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(c.folder.join("third.json")).expect("it was dumped"))
            .expect("it is JSON");
    assert_eq!(counts["overflow"], 145, "{counts}");
}

// ---- namespaces ----

/// A veth pair whose ends compute their checksums and segments themselves.
fn link(net: &Net, a: (&str, &str, &str), b: (&str, &str, &str)) {
    net.link(a, b);
    for (ns, dev, _) in [a, b] {
        net.sh(ns, &format!("ethtool -K {dev} tx off rx off gro off >/dev/null 2>&1"));
    }
}

const GCM: &str = "0x0f1e2d3c4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeeff0cafebabe";
const CTR: &str = "0x00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0fdeadbeef";
const AUTH: &str = "0xa1b2c3d4e5f60718293a4b5c6d7e8f9001122334";

fn row(name: &str, value: &str) -> String {
    format!(
        "\"{name}\": {}",
        if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
            value.to_string()
        } else {
            format!("\"{value}\"")
        }
    )
}

/// One of two gateways: the network behind its peer, both addresses, and the MAC addresses of its
/// next hops, outwards and inwards.
struct Gateway<'a> {
    name: &'a str,
    net: &'a str,
    us: &'a str,
    peer: &'a str,
    macs: (&'a str, &'a str),
}

/// The tables of one gateway: one SA by GCM to its peer, one by CTR and HMAC from it. `swapped`:
/// the other way round.
fn tables(folder: &Path, gateway: &Gateway, swapped: bool) -> Vec<String> {
    let Gateway { name, net, us, peer, macs } = *gateway;
    let (out, back) = if swapped {
        (("513", "aes_ctr_hmac_sha1", CTR, AUTH), ("512", "aes_gcm", GCM, ""))
    } else {
        (("512", "aes_gcm", GCM, ""), ("513", "aes_ctr_hmac_sha1", CTR, AUTH))
    };
    let sa = |s: (&str, &str, &str, &str), gateway: &str| {
        [row("spi", s.0), row("suite", s.1), row("cipher", s.2), row("auth", s.3), row("gateway", gateway)].join(", ")
    };
    let policy =
        format!("[{{{}, {}, {}, {}}}]", row("key", net), row("source", us), row("peer", peer), sa(out, macs.0));
    let inbound = format!("[{{{}}}]", sa(back, macs.1));
    let write = |table: &str, text: String| {
        let file = folder.join(format!("{name}_{table}.json"));
        std::fs::write(&file, text).expect("the folder is writable");
        format!("{table}={}", file.display())
    };
    ["--load".into(), write("policies", policy), "--load".into(), write("inbound", inbound)].to_vec()
}

/// Pings of all sizes, a megabyte over HTTP, a second of TCP as fast as it goes.
fn traffic(net: &Net) {
    for size in [8, 56, 57, 58, 59, 1000, 1372] {
        net.ping("a", "10.2.0.2", 10, size);
    }
    let data: Vec<u8> = (0..1_000_000u32).flat_map(|i| i.to_be_bytes()).collect();
    std::fs::write(net.folder.join("big"), &data).expect("the folder is writable");
    let _http =
        net.server("b", "http", &["python3", "-u", "-m", "http.server", "8000", "--bind", "10.2.0.2"], "Serving");
    net.sh("a", &format!("curl -sS --fail --max-time 60 -o {}/got http://10.2.0.2:8000/big", net.folder.display()));
    assert!(
        std::fs::read(net.folder.join("got")).expect("curl wrote it") == data,
        "what came through the tunnel is not what was sent"
    );
    let _iperf = net.iperf_server("b");
    let said = net.sh("a", "iperf3 -c 10.2.0.2 -t 1 -J | tr -d \"\\n\\t \"");
    let rate = said
        .rsplit("\"sum_received\":")
        .next()
        .and_then(|s| s.split("\"bytes\":").nth(1))
        .and_then(|s| s.split(',').next())
        .and_then(|s| s.parse::<u64>().ok());
    assert!(rate.is_some_and(|n| n > 100_000), "iperf3 received {rate:?} bytes: {said}");
}

const MAC: [&str; 6] = [
    "02:00:00:00:0a:02",
    "02:00:00:00:0a:01",
    "02:00:00:00:0c:01",
    "02:00:00:00:0c:02",
    "02:00:00:00:0b:01",
    "02:00:00:00:0b:02",
];

fn host(net: &Net, ns: &str, dev: &str, address: &str, gateway: &str, mac: &str) {
    net.sh(ns, &format!("ip addr add {address}/24 dev {dev}; ip route add default via {gateway} mtu 1400; ip neigh replace {gateway} lladdr {mac} dev {dev} nud permanent"));
}

fn gateway(net: &Net, ns: &str, plain: &str, wire: &str, tables: &[String]) -> Process {
    let (plain, wire) = (format!("plain=afpacket:{plain}"), format!("wire=afpacket:{wire}"));
    let mut args = vec!["--bind", &plain, "--bind", &wire];
    args.extend(tables.iter().map(String::as_str));
    net.app(ns, "ipsec_gateway", &args)
}

#[test]
fn two_gateways_between_real_stacks() {
    let Some(net) = Net::new(&["a", "ga", "gb", "b"], &["ethtool", "ping", "curl", "iperf3"]) else { return };
    link(&net, ("a", "a0", MAC[0]), ("ga", "p0", MAC[1]));
    link(&net, ("ga", "w0", MAC[2]), ("gb", "w0", MAC[3]));
    link(&net, ("gb", "p0", MAC[4]), ("b", "b0", MAC[5]));
    host(&net, "a", "a0", "10.1.0.2", "10.1.0.1", MAC[1]);
    host(&net, "b", "b0", "10.2.0.2", "10.2.0.1", MAC[4]);
    let a = Gateway { name: "ga", net: "10.2.0.0/16", us: "192.0.2.1", peer: "192.0.2.2", macs: (MAC[3], MAC[0]) };
    let b = Gateway { name: "gb", net: "10.1.0.0/16", us: "192.0.2.2", peer: "192.0.2.1", macs: (MAC[2], MAC[5]) };
    let (ta, tb) = (tables(&net.folder, &a, false), tables(&net.folder, &b, true));
    let gateways = [gateway(&net, "ga", "p0", "w0", &ta), gateway(&net, "gb", "p0", "w0", &tb)];
    traffic(&net);
    drop(gateways);
    against_the_kernel(&net, &ta);
}

/// The second gateway is now the kernel, if it has ESP.
fn against_the_kernel(net: &Net, tables: &[String]) {
    let state = |spi: &str, src: &str, dst: &str, how: &str| {
        format!("ip xfrm state add src {src} dst {dst} proto esp spi {spi} mode tunnel {how}")
    };
    let gcm =
        state("0x200", "192.0.2.1", "192.0.2.2", &format!("replay-window 64 aead \"rfc4106(gcm(aes))\" {GCM} 128"));
    let ctr = state(
        "0x201",
        "192.0.2.2",
        "192.0.2.1",
        &format!("enc \"rfc3686(ctr(aes))\" {CTR} auth-trunc \"hmac(sha1)\" {AUTH} 96"),
    );
    let probe = net.try_sh("gb", &format!("{gcm} && {ctr}"));
    if probe.code != Some(0) {
        eprintln!("not tested against ip xfrm: this kernel has no ESP: {}", probe.text.trim());
        return;
    }
    let policy = |src: &str, dst: &str, from: &str, to: &str, dir: &str| {
        format!("ip xfrm policy add src {src} dst {dst} dir {dir} tmpl src {from} dst {to} proto esp mode tunnel")
    };
    net.sh("gb", &format!(
        "ip addr add 192.0.2.2/24 dev w0; ip addr add 10.2.0.1/24 dev p0; ip neigh replace 192.0.2.1 lladdr {} dev w0 nud permanent; \
         ip neigh replace 10.2.0.2 lladdr {} dev p0 nud permanent; ip route add 10.1.0.0/16 via 192.0.2.1; echo 1 > /proc/sys/net/ipv4/ip_forward; {}; {}; {}",
        MAC[2], MAC[5], policy("10.2.0.0/16", "10.1.0.0/16", "192.0.2.2", "192.0.2.1", "out"),
        policy("10.1.0.0/16", "10.2.0.0/16", "192.0.2.1", "192.0.2.2", "in"), policy("10.1.0.0/16", "10.2.0.0/16", "192.0.2.1", "192.0.2.2", "fwd")
    ));
    let _gateway = gateway(net, "ga", "p0", "w0", tables);
    traffic(net);
    println!("tested against ip xfrm");
}
