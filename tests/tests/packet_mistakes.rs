//! Slips on the command lines of packet apps, and runs that are longer than any script of
//! `tests/packets`. In: captures of a few frames that are made here. Every slip ends in an error
//! that names it, and no file is written that should not be.

use std::time::Duration;
use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, free_port, root, Output, Process, Wireloom};

const START: u64 = 1_700_000_000;
const ETHERNET: u32 = 1;
const RAW_IP: u32 = 101;

/// A folder of files, and runs with `@` for its name.
struct Files(Folder);

impl Files {
    fn new(name: &str) -> Files {
        Files(Folder::new(&format!("mistakes-{name}")))
    }

    fn capture(&self, name: &str, link: u32, frames: impl IntoIterator<Item = (u64, Vec<u8>)>) {
        let mut all = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
        all.extend(link.to_le_bytes());
        for (ns, frame) in frames {
            let n = frame.len() as u32;
            for word in [(START + ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, n, n] {
                all.extend(word.to_le_bytes());
            }
            all.extend(frame);
        }
        std::fs::write(self.0.file(name), all).expect("the folder is writable");
    }

    /// Frames of a capture that we have written.
    fn count(&self, name: &str) -> usize {
        let all = std::fs::read(self.0.file(name)).expect("the capture was written");
        let (mut at, mut n) = (24, 0);
        while at < all.len() {
            at += 16 + u32::from_le_bytes(all[at + 8..at + 12].try_into().expect("four bytes")) as usize;
            n += 1;
        }
        n
    }

    fn run(&self, app: &str, args: &[&str]) -> Output {
        let mut command = Wireloom::program();
        command.current_dir(root()).args(["run", &format!("apps/{app}.loom")]).args(self.0.arguments(args));
        finish(&mut command)
    }

    fn refused(&self, app: &str, args: &[&str], why: &str) {
        let out = self.run(app, args);
        assert!(
            out.code == Some(1) && out.text.contains(why),
            "{app} {args:?} ({:?}) does not say {why}:\n{}",
            out.code,
            out.text
        );
    }

    fn succeeds(&self, app: &str, args: &[&str]) {
        let out = self.run(app, args);
        assert_eq!(out.code, Some(0), "{app} {args:?}:\n{}", out.text);
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.file(name)).expect("the file is there")
    }
}

/// A UDP packet to port 53, without a checksum.
fn udp(src: [u8; 4], sport: u16) -> Vec<u8> {
    let mut f = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0];
    f.extend(src);
    f.extend([192, 0, 2, 9]);
    f.extend(sport.to_be_bytes());
    f.extend([0, 53, 0, 10, 0, 0, b'h', b'i']);
    let sum: u32 = f[..20].chunks(2).map(|p| u32::from(p[0]) << 8 | u32::from(p[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    f[10..12].copy_from_slice(&sum.to_be_bytes());
    f
}

fn framed(packet: Vec<u8>) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &packet].concat()
}

fn three_frames(name: &str) -> Files {
    let files = Files::new(name);
    files.capture("in.pcap", ETHERNET, (0..3).map(|i| (i, framed(udp([10, 0, 0, 1], 4000)))));
    files
}

#[test]
fn ports_are_bound_once() {
    let f = three_frames("once");
    f.succeeds("dns_tap", &["--bind", "lan=pcap:@/in.pcap", "--out", "mon=pcap:@/out.pcap"]);
    assert_eq!(f.count("out.pcap"), 3);
    let both = ["--bind", "lan=pcap:@/in.pcap", "--bind", "mon=pcap:@/a.pcap"];
    f.refused(
        "dns_tap",
        &[&both[..], &["--out", "mon=pcap:@/b.pcap"]].concat(),
        "port `mon`: frames only leave through it",
    );
    f.refused("dns_tap", &[&both[..], &["--bind", "lan=pcap:@/in.pcap"]].concat(), "`--bind lan=…` is given twice");
    f.refused("dns_tap", &["--bind", "lan=pcap:@/in.pcap,"], "lacks a name, as in pcap:NAME");
    f.refused("dns_tap", &["--bind", "lan=memory:@/in.pcap*0"], "`0` is no number of rounds");
}

/// A misspelt name is not created as a file, and a port that is never written has no file.
#[test]
fn nothing_is_read_or_written_by_mistake() {
    let f = three_frames("nothing");
    f.refused(
        "nat44",
        &["--bind", "lan=pcap:@/im.pcap", "--bind", "wan=null", "--set", "public=192.0.2.1"],
        "port `lan`: cannot open",
    );
    assert!(!f.0.file("im.pcap").exists());
    f.refused(
        "flow_classifier",
        &["--bind", "wire=pcap:@/in.pcap", "--out", "wire=pcap:@/out.pcap"],
        "the app sends nothing to this port",
    );
    assert!(!f.0.file("out.pcap").exists());
}

/// A file without a byte, as mktemp makes it, is no capture that could be read.
#[test]
fn an_empty_file_is_written() {
    let f = three_frames("empty");
    let bound = ["--bind", "lan=pcap:@/in.pcap", "--bind", "wan=pcap:@/out.pcap", "--set", "public=192.0.2.1"];
    std::fs::write(f.0.file("out.pcap"), "").expect("the folder is writable");
    f.succeeds("nat44", &bound);
    assert_eq!(f.count("out.pcap"), 3);
    // Of two there is none to be read.
    std::fs::write(f.0.file("in.pcap"), "").expect("the folder is writable");
    std::fs::write(f.0.file("out.pcap"), "").expect("the folder is writable");
    f.refused("nat44", &bound, "in.pcap: not a capture: 0 bytes are too few for one");
}

/// The last line gives the counts of frames and faults, also of a run without frames.
#[test]
fn the_last_line_tells_of_faults() {
    let f = three_frames("told");
    f.capture("none.pcap", ETHERNET, []);
    let out = f.run("flow_classifier", &["--bind", "wire=pcap:@/none.pcap"]);
    assert!(out.text.contains("0 frames received, 0 sent, 0 without an output, 0 faults, in "), "{}", out.text);
    let mut lying = framed(udp([10, 0, 0, 1], 1));
    lying[17] = 200;
    f.capture("lying.pcap", ETHERNET, [(0, lying.clone()), (1, lying)]);
    let out = f.run("flow_classifier", &["--bind", "wire=pcap:@/lying.pcap"]);
    assert!(out.text.contains("2 faults (2 constraint packet.Ipv4.total), in "), "{}", out.text);
}

#[test]
fn what_is_dumped_is_written_over_nothing_that_is_read() {
    let f = three_frames("dump");
    let wire = ["--bind", "wire=pcap:@/in.pcap"];
    std::fs::hard_link(f.0.file("in.pcap"), f.0.file("same.pcap")).expect("the folder has hard links");
    for name in ["in", "same"] {
        f.refused(
            "flow_tracker",
            &[&wire[..], &["--dump", &format!("flows=@/{name}.pcap")]].concat(),
            "is the file of port `wire`",
        );
    }
    f.refused(
        "dns_tap",
        &["--bind", "lan=pcap:@/in.pcap", "--bind", "mon=pcap:@/same.pcap"],
        "is the capture that port `lan` reads",
    );
    f.refused(
        "flow_tracker",
        &[&wire[..], &["--dump", "flows=@/a.json", "--dump", "records=@/a.json"]].concat(),
        "is the file of --dump flows",
    );
    assert_eq!(f.count("in.pcap"), 3);
    // A run that does not begin leaves files unchanged. A run that begins may load a file and dump
    // over it.
    let flow = r#"[{"src":"192.0.2.7","dst":"192.0.2.8","sport":1,"dport":2,"proto":6,"packets":5,"bytes":6}]"#;
    std::fs::write(f.0.file("flows.json"), flow).expect("the folder is writable");
    let state = ["--load", "flows=@/flows.json", "--dump", "flows=@/flows.json"];
    f.refused("flow_tracker", &[&["--bind", "wire=pcap:@/none.pcap"][..], &state].concat(), "cannot open");
    assert_eq!(f.text("flows.json"), flow);
    f.succeeds("flow_tracker", &[&wire[..], &state].concat());
    let after = f.text("flows.json");
    assert!(after.contains("192.0.2.7") && after.contains(r#""packets":3"#), "{after}");
}

#[test]
fn a_start_that_fails_is_no_run() {
    let f = three_frames("start");
    let args = |set: &[&str]| -> Vec<String> {
        let bound = ["--bind", "wire=pcap:@/in.pcap", "--bind", "out=pcap:@/out.pcap", "--set", "vip=192.0.2.9"];
        bound
            .iter()
            .map(|s| s.to_string())
            .chain(set.iter().flat_map(|s| ["--set".to_string(), s.to_string()]))
            .collect()
    };
    let many: Vec<String> = (1..=65).map(|i| format!("10.0.0.{i}")).collect();
    for (set, why) in [
        (["dips=10.0.0.1", "encap=IPIP"], "cannot start: fault unknown_encap at apps/l4_balancer.loom:90:54: `encap` is not `ipip`, `gre` or `nvgre`.\n"),
        (["dips=10.0.0.300", "encap=ipip"], "cannot start: fault bad_dips"),
        (["dips=10.0.0.1,", "encap=ipip"], "cannot start: fault bad_dips"),
        (["dips=0.0.0.0", "encap=ipip"], "cannot start: fault bad_dips"),
        ([&format!("dips={}", many.join(",")), "encap=ipip"], "cannot start: fault bad_dips"),
    ] {
        let args = args(&set);
        f.refused("l4_balancer", &args.iter().map(String::as_str).collect::<Vec<_>>(), why);
    }
    f.refused(
        "aes_gateway",
        &["--bind", "plain=pcap:@/in.pcap", "--bind", "secret=pcap:@/out.pcap", "--set", "key=0011"],
        "cannot start: fault bad_key",
    );
    for (app, set, why) in [
        ("http_balancer", "policy=random", "unknown_policy"),
        ("memcached_proxy", "distribution=Ketama", "unknown_distribution"),
        ("redis_proxy", "distribution=", "unknown_distribution"),
    ] {
        let port = format!("port={}", wireloom_tests::free_port());
        f.refused(
            app,
            &["--set", "servers=127.0.0.1:1", "--set", &port, "--set", set],
            &format!("cannot start: fault {why}"),
        );
    }
}

#[test]
fn captures_of_another_kind_are_refused() {
    let f = three_frames("kind");
    for (link, why) in [
        (RAW_IP, "begin with IP, those of this port with Ethernet"),
        (113, "link type 113 (Linux cooked"),
        (105, "link type 105 (802.11)"),
    ] {
        f.capture("other.pcap", link, [(0, udp([10, 0, 0, 1], 4000))]);
        f.refused("dns_tap", &["--bind", "lan=pcap:@/other.pcap", "--bind", "mon=pcap:@/out.pcap"], why);
    }
}

#[test]
fn parameters_say_what_they_are() {
    let f = three_frames("params");
    let bound = ["--bind", "lan=pcap:@/in.pcap", "--bind", "wan=pcap:@/out.pcap"];
    f.refused("nat44", &bound, "give `--set public=192.0.2.1`");
    f.refused(
        "nat44",
        &[&bound[..], &["--set", "public=::1"]].concat(),
        "expected an IPv4 address, as in 192.0.2.1 (got `::1`)",
    );
    let station = ["--set", "public=192.0.2.1", "--set", "station=02:00"];
    f.refused("nat44", &[&bound[..], &station].concat(), "expected a MAC address, as in 02:00:00:00:00:01");
    std::fs::write(f.0.file("rules.json"), r#"[{"proto": "sctp", "action": "drop"}]"#).expect("the folder is writable");
    let rules = ["--bind", "wire=pcap:@/in.pcap", "--bind", "accepted=null", "--load", "rules=@/rules.json"];
    f.refused("openflow_firewall", &rules, "those with names are tcp, udp, icmp and icmp6");
}

fn nat44(f: &Files, more: &[&str]) {
    f.succeeds(
        "nat44",
        &[&["--bind", "lan=pcap:@/in.pcap", "--bind", "wan=pcap:@/out.pcap", "--set", "public=198.51.100.1"], more]
            .concat(),
    );
}

/// Ports whose mappings have ended serve new hosts, hour after hour: five times as many flows as
/// there are ports.
#[test]
fn nat44_gives_ports_again() {
    let f = Files::new("nat44");
    let frame = |round: u8, i: u16| {
        (u64::from(round) * 301_000_000_000 + u64::from(i) * 1000, framed(udp([10, 0, round, 1], 1024 + i)))
    };
    f.capture("in.pcap", ETHERNET, (0..5).flat_map(|round| (0..60_000).map(move |i| frame(round, i))));
    nat44(&f, &["--dump", "counters=@/counters.json"]);
    assert_eq!(f.count("out.pcap"), 300_000);
    assert!(f.text("counters.json").contains(r#""refused":0"#));
}

/// All ports are taken: new flows are refused at once, until one is free again.
#[test]
fn nat44_without_a_free_port() {
    let f = Files::new("nat44-full");
    let taken = (0..64_512u32).map(|i| (u64::from(i) * 1000, framed(udp([10, 0, 0, 1], 1024 + i as u16))));
    let refused = (0..20_000u32).map(|i| (1_000_000_000 + u64::from(i), framed(udp([10, 0, 1, 1], 1024 + i as u16))));
    let later = [(303_000_000_000, framed(udp([10, 0, 1, 1], 1024)))];
    f.capture("in.pcap", ETHERNET, taken.chain(refused).chain(later));
    nat44(&f, &["--dump", "counters=@/counters.json"]);
    assert_eq!(f.count("out.pcap"), 64_513);
    assert!(f.text("counters.json").contains(r#""refused":20000"#));
}

/// A table whose key has IPv4's identification in it does not spread flows over the cores: frames
/// leave in the order of arrival.
#[test]
fn nat44_keeps_flows_in_order_on_two_cores() {
    let f = Files::new("nat44-order");
    let frame = |i: u32| {
        let mut p = udp([10, 0, 0, 1], 4000 + (i % 3) as u16);
        p[4..6].copy_from_slice(&(i as u16).to_be_bytes());
        p[26..30].copy_from_slice(&i.to_be_bytes());
        (u64::from(i) * 1000, framed(p))
    };
    f.capture("in.pcap", ETHERNET, (0..60_000).map(frame));
    nat44(&f, &["--cores", "0-1", "--rps", "on"]);
    let all = std::fs::read(f.0.file("out.pcap")).expect("the capture was written");
    let mut last = std::collections::HashMap::new();
    for record in all[24..].chunks(16 + 44) {
        let frame = &record[16..];
        let number = u32::from_be_bytes(frame[40..44].try_into().expect("four bytes"));
        let before = last.insert(frame[34..36].to_vec(), number);
        assert!(before.is_none_or(|b| b < number), "{number} left behind {before:?}");
    }
    assert_eq!((last.len(), all.len()), (3, 24 + 60_000 * 60));
}

/// Both cores look for free ports at once; no two hosts get one.
#[test]
fn nat44_gives_each_port_once_on_two_cores() {
    let f = Files::new("nat44-once");
    f.capture(
        "in.pcap",
        ETHERNET,
        (0..50_000u32).map(|i| (u64::from(i) * 1000, framed(udp([10, 0, (i >> 8) as u8, i as u8], 4000)))),
    );
    nat44(&f, &["--cores", "0-1", "--rps", "on"]);
    let all = std::fs::read(f.0.file("out.pcap")).expect("the capture was written");
    let ports: std::collections::HashSet<&[u8]> =
        all[24..].chunks(16 + 44).map(|record| &record[16 + 34..16 + 36]).collect();
    assert_eq!((ports.len(), all.len()), (50_000, 24 + 50_000 * 60));
}

/// A wrong length makes a header absent wherever a frame is parsed: its flow lies on one core.
#[test]
fn lying_lengths_split_no_flow() {
    let f = Files::new("lies");
    let lie = |i: u32| {
        let mut p = udp([10, 0, 0, 1], 4000 + i as u16);
        if i.is_multiple_of(2) {
            p[24..26].copy_from_slice(&400u16.to_be_bytes());
        } else {
            p[24..26].copy_from_slice(&7u16.to_be_bytes());
        }
        (u64::from(i), framed(p))
    };
    f.capture("in.pcap", ETHERNET, (0..64).map(lie));
    f.succeeds(
        "flow_tracker",
        &["--bind", "wire=pcap:@/in.pcap", "--dump", "flows=@/flows.json", "--cores", "0-1", "--rps", "on"],
    );
    let flows: serde_json::Value = serde_json::from_str(&f.text("flows.json")).expect("it is JSON");
    assert_eq!(
        (flows.as_array().map(Vec::len), &flows[0]["packets"], &flows[0]["sport"]),
        (Some(1), &64.into(), &0.into()),
        "{flows}"
    );
}

/// Numbers, ranges, prefixes and names that cannot be: the row and the field are named, in JSON and
/// CSV alike.
#[test]
fn rows_that_cannot_be_are_named() {
    let f = Files::new("rows");
    f.capture("in.pcap", ETHERNET, []);
    let load = |app: &str, bind: &[&str], table: &str, file: &str, text: &str| {
        std::fs::write(f.0.file(file), text).expect("the folder is writable");
        let load = format!("{table}=@/{file}");
        f.run(app, &[bind, &["--load", &load]].concat())
    };
    let firewall = |file: &str, text: &str| {
        load("openflow_firewall", &["--bind", "wire=pcap:@/in.pcap", "--bind", "accepted=null:x"], "rules", file, text)
    };
    let good = r#"{"priority": 1, "dport": [1024, 65535], "src": "10.0.0.0/8", "action": "drop"}"#;
    assert_eq!(firewall("good.json", &format!("[{good}]")).code, Some(0));
    for (field, value, said) in [
        ("dport", "65536", "`dport`: expected a number from 0 to 65535 (got `65536`)"),
        ("sport", "[65536, 70000]", "`sport`: expected a number from 0 to 65535 (got [65536, 70000])"),
        ("dport", "[80, 65536]", "`dport`: expected a number from 0 to 65535 (got [80, 65536])"),
        ("dport", "[90, 80]", "`dport`: [90, 80] is no range"),
        ("dport", "-1", "`dport`: expected a number from 0 to 65535 (got `-1`)"),
        ("dport", "\"10.0.0.1\"", "`dport`: expected a number from 0 to 65535 (got `10.0.0.1`)"),
        ("proto", "256", "`proto`: must be at most 255"),
        ("src", "\"10.0.0.0/33\"", "`src`: `10.0.0.0/33`: a prefix has at most 32 bits"),
        ("dst", "\"2001:db8::/129\"", "`dst`: `2001:db8::/129`: a prefix has at most 128 bits"),
        ("priority", "4294967296", "`priority`: must be at most 4294967295"),
        ("action", "\"allow\"", "`action`: expected drop or accept (got `allow`)"),
    ] {
        let bad = good.replace(&format!("\"{field}\": "), &format!("\"{field}\": {value}, \"was\": "));
        let bad = if bad == good { good.replace('}', &format!(", \"{field}\": {value}}}")) } else { drop_field(&bad) };
        let out = firewall("bad.json", &format!("[{good}, {bad}]"));
        assert!(
            out.code == Some(1) && out.text.contains("bad.json: row 2: ") && out.text.contains(said),
            "{bad}\n{}",
            out.text
        );
    }
    let out = firewall("bad.csv", "priority,dport,action\n1,80,drop\n2,70000,drop\n");
    assert!(
        out.code == Some(1)
            && out.text.contains("bad.csv: row 2: `dport`: expected a number from 0 to 65535 (got `70000`)"),
        "{}",
        out.text
    );
    let out = firewall("columns.csv", "priority,dprt,action\n");
    let why = "columns.csv: the first line: `dprt` is no field of the table; did you mean `dport`?";
    assert!(out.code == Some(1) && out.text.contains(why), "{}", out.text);
    assert_eq!(firewall("columns.csv", "priority,dport,action,\n1,80,drop,\n").code, Some(0));
    let out = firewall("twice.json", &format!("[{good}, {}]", good.replace("\"drop\"", "\"accept\"")));
    assert!(out.code == Some(0) && out.text.contains("row 2 replaces row 1"), "{}", out.text);
    let out = firewall("names.json", r#"[{"priority": 1, "priority": 2, "action": "drop"}]"#);
    assert!(out.code == Some(1) && out.text.contains("`priority` is given twice"), "{}", out.text);
    // A row of prefixes without its prefix is not one of all addresses.
    let row = r#"{"spi": 256, "suite": "aes_gcm", "source": "192.0.2.1", "peer": "192.0.2.2", "cipher": "", "auth": "", "gateway": "02:00:00:00:00:fe"}"#;
    let gateway = |text: &str| {
        load(
            "ipsec_gateway",
            &["--bind", "plain=pcap:@/in.pcap", "--bind", "wire=null:x"],
            "policies",
            "policies.json",
            text,
        )
    };
    let out = gateway(&format!("[{row}]"));
    assert!(out.code == Some(1) && out.text.contains("row 1: `key` is missing; it is a prefix"), "{}", out.text);
    let out = gateway(&format!("[{}]", row.replacen('{', r#"{"key": "10.0.0.0&255.0.255.0", "#, 1)));
    assert!(out.code == Some(1) && out.text.contains("`key`: expected a prefix"), "{}", out.text);
    let out = gateway(&format!("[{}]", row.replacen('{', r#"{"key": "any", "#, 1).replace("00:fe", "00:fe:01")));
    assert!(out.code == Some(1) && out.text.contains("`gateway`: expected a MAC address"), "{}", out.text);
    assert_eq!(gateway(&format!("[{}]", row.replacen('{', r#"{"key": "any", "#, 1))).code, Some(0));
}

/// Without the field that was replaced.
fn drop_field(row: &str) -> String {
    let mut row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(row).expect("JSON");
    row.remove("was");
    serde_json::to_string(&row).expect("JSON")
}

/// Whether the process handles or blocks SIGTERM.
fn takes_sigterm(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let sets = status.lines().filter_map(|l| l.strip_prefix("SigCgt:").or(l.strip_prefix("SigBlk:")));
    sets.filter_map(|s| u64::from_str_radix(s.trim(), 16).ok()).any(|s| s >> (libc::SIGTERM - 1) & 1 == 1)
}

/// A run that waits for the first frame of a pipe ends at SIGTERM, with and without a writer of the
/// pipe.
#[test]
fn a_silent_pipe_is_left() {
    for opened in [false, true] {
        let f = Files::new(&format!("pipe-{opened}"));
        let pipe = f.0.file("in.fifo");
        let name = std::ffi::CString::new(pipe.to_str().expect("a plain name")).expect("no zero in it");
        // SAFETY: a name that lives here.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let _writer =
            opened.then(|| std::fs::File::options().read(true).write(true).open(&pipe).expect("the pipe is there"));
        let mut command = Wireloom::program();
        command.current_dir(root()).args(["run", "--interpret", "apps/dns_tap.loom", "--bind"]).args([
            format!("lan=pcap:{}", pipe.display()),
            "--bind".into(),
            "mon=null".into(),
        ]);
        let mut run = Process::start_saying("silent-pipe", &mut command, free_port(), "");
        wireloom_tests::admin::eventually("it takes signals", || takes_sigterm(run.child.id()));
        std::thread::sleep(Duration::from_millis(700));
        assert!(run.child.try_wait().expect("a child").is_none(), "it waits");
        run.signal(libc::SIGTERM);
        assert_eq!(run.exit(), Some(0), "{}", run.output());
    }
}

/// A link type that is not read is said to be that; there is nothing wrong with the capture.
#[test]
fn other_links_are_no_damage() {
    let f = Files::new("links");
    f.capture("in.pcap", 113, [(0, framed(udp([10, 0, 0, 1], 4000)))]);
    f.refused(
        "dns_tap",
        &["--bind", "lan=pcap:@/in.pcap", "--bind", "mon=null"],
        "link type 113 (Linux cooked, as of tcpdump -i any) is not supported",
    );
    // pcapng: a section, an interface, a frame of 4 bytes.
    let blocks = [
        &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28][..],
        &[1, 20, 113, 65535, 20],
        &[6, 36, 0, 0, 0, 4, 4, 0, 36],
    ];
    let bytes: Vec<u8> = blocks.concat().iter().flat_map(|n: &u32| n.to_le_bytes()).collect();
    std::fs::write(f.0.file("in.pcapng"), bytes).expect("the folder is writable");
    f.refused(
        "dns_tap",
        &["--bind", "lan=pcap:@/in.pcapng", "--bind", "mon=null"],
        "frame 1 of the capture cannot be read: link type 113",
    );
}
