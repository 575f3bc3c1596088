//! `wireloom table`, `counter` and `signal` on running apps, and the socket behind them with the
//! input of hostile peers.

use serde_json::{json, Value};
use std::fs::Permissions;
use std::os::unix::fs::{symlink, PermissionsExt};
use wireloom_tests::control::Controlled;
use wireloom_tests::{admin, free_port, Client};

fn firewall(name: &str, extra: &[&str]) -> Controlled {
    // Datagrams as frames: an input that does not end, for any user.
    let wire = format!("wire=udp:127.0.0.1:{}", free_port());
    Controlled::run(
        name,
        &[&["apps/openflow_firewall.loom", "--bind", &wire, "--bind", "accepted=null"], extra].concat(),
    )
}

#[test]
fn rules_of_a_packet_app() {
    let app = firewall("rules", &["--cores", "all"]);
    let list = app.json(&["table"]);
    assert_eq!(list[1]["table"], "rules");
    assert_eq!(
        (&list[1]["kind"], &list[1]["entries"], &list[1]["capacity"]),
        (&json!("wildcard"), &json!(0), &json!(512_000))
    );
    let rule = ["priority=7", "src=10.0.0.0/8", "dport=[1024,65535]", "action=drop"];
    let with = |what: &'static str, fields: &[&'static str]| [&["table", "rules", what], fields].concat();
    assert_eq!(app.told(&with("insert", &rule)), "inserted: 6 entries\n");
    app.told(&["table", "rules", "insert", "priority=3", "dst=2001:db8::/32", "proto=tcp", "action=accept"]);
    let shown = app.told(&["table", "rules"]);
    let last = shown.lines().last().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    assert_eq!(last, ["3", "any", "2001:db8::/32", "any", "any", "6", "accept"], "{shown}");
    assert_eq!(shown.lines().count(), 8, "{shown}");
    let rows = app.json(&["table", "rules", "read"]);
    assert_eq!(rows[0], json!({"priority": 7, "src": "10.0.0.0/8", "dport": [1024, 2047], "action": "drop"}));
    let at = |dport: &'static str| {
        app.ask(&["table", "rules", "get", "src=10.9.9.9", "dst=1.1.1.1", "sport=1", dport, "proto=udp", "--json"])
    };
    assert_eq!(at("dport=2000").text.trim(), json!({"found": true, "value": {"action": "drop"}}).to_string());
    assert_eq!(at("dport=80").code, Some(1));
    // The same key and mask and priority: replaced.
    app.told(&with("insert", &["priority=7", "src=10.0.0.0/8", "dport=[1024,65535]", "action=accept"]));
    assert_eq!(app.json(&["table", "rules"]).as_array().map(Vec::len), Some(7));
    app.told(&with("delete", &["priority=7", "src=10.0.0.0/8", "dport=[1024,65535]"]));
    assert!(app.refused(&with("delete", &rule)).contains("no such entry"));
    assert_eq!(app.json(&["table", "rules"]).as_array().map(Vec::len), Some(1));
    assert_eq!(app.told(&["table", "rules", "clear"]), "one entry deleted\n");
    app.told(&["table", "rules", "insert", "priority=3", "dst=2001:db8::/32", "proto=tcp", "action=accept"]);
    // A dump can be loaded.
    let csv = "priority,src,dport,proto,action\n1,10.1.0.0/16,80,tcp,drop\n2,,\"[5, 6]\",,accept\n";
    assert!(app.ask_with(&["table", "rules", "load", "-"], csv).text.starts_with("2 rows loaded, 3 entries"));
    for file in ["rules.csv", "rules.json"] {
        let before = app.json(&["table", "rules"]);
        app.told(&["table", "rules", "dump", file]);
        assert_eq!(app.told(&["table", "rules", "clear"]), "4 entries deleted\n");
        assert_eq!(app.json(&["table", "rules"]), json!([]));
        app.told(&["table", "rules", "load", file]);
        let mut after = app.json(&["table", "rules"]).as_array().cloned().unwrap_or_default();
        after.sort_by_key(Value::to_string);
        let mut before = before.as_array().cloned().unwrap_or_default();
        before.sort_by_key(Value::to_string);
        assert_eq!(after, before, "{file}");
    }
}

/// With `--csv` every answer of rows is CSV, and says no more than CSV can.
#[test]
fn rows_as_csv() {
    let app = firewall("csv", &["--cores", "all"]);
    let head = "priority,src,dst,sport,dport,proto,action\n";
    assert_eq!(app.told(&["table", "rules", "--csv"]), head);
    app.told(&["table", "rules", "insert", "priority=7", "src=10.0.0.0/8", "dport=[4,5]", "action=drop"]);
    let shown = app.told(&["table", "rules", "--csv"]);
    assert_eq!(shown, format!("{head}7,10.0.0.0/8,,,\"[4,5]\",,drop\n"));
    assert_eq!(app.told(&["table", "rules", "dump", "--csv"]), shown);
    app.told(&["table", "rules", "clear"]);
    assert!(app.ask_with(&["table", "rules", "load", "-", "--csv"], &shown).text.starts_with("1 rows loaded"));
    let key = ["src=10.9.9.9", "dst=1.1.1.1", "sport=1", "dport=5", "proto=udp"];
    assert_eq!(app.told(&[&["table", "rules", "get", "--csv"][..], &key].concat()), "action\ndrop\n");
    let list = app.told(&["table", "--csv"]);
    assert!(list.starts_with("app,table,kind,entries,capacity,key,value\n"), "{list}");
    assert!(list.contains("openflow_firewall,rules,wildcard,1,512000,src dst "), "{list}");
    let refused = |args: &[&str]| app.refused(&[&["table", "rules"][..], args].concat());
    assert!(refused(&["insert", "priority=1", "action=drop", "--csv"]).contains("`--csv` is for read, get"));
    assert!(refused(&["read", "--csv", "--json"]).contains("`--csv` and `--json`: an answer has one form"));
    assert_eq!(app.told(&["table", "rules", "--csv", "--limit", "0"]), shown);
}

#[test]
fn a_dump_over_a_link_keeps_the_link_and_the_permissions() {
    let app = firewall("dump-over", &[]);
    let at = |file: &str| app.folder.join(file);
    std::fs::write(at("old.json"), "old").expect("the folder is writable");
    std::fs::set_permissions(at("old.json"), Permissions::from_mode(0o600)).expect("ours");
    symlink("old.json", at("link.json")).expect("the folder is writable");
    app.told(&["table", "rules", "dump", "link.json"]);
    assert!(std::fs::symlink_metadata(at("link.json")).expect("there").is_symlink());
    let meta = std::fs::metadata(at("old.json")).expect("there");
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    let rows = std::fs::read_to_string(at("old.json")).expect("text");
    assert!(serde_json::from_str::<Value>(&rows).expect("rows").is_array(), "{rows}");
    assert!(!std::fs::read_dir(&app.folder)
        .expect("there")
        .flatten()
        .any(|f| f.path().extension().is_some_and(|e| e == "partial")));
}

#[test]
fn what_is_wrong_is_told() {
    let app = firewall("wrong", &[]);
    let kept = app.folder.join("kept.json");
    std::fs::write(&kept, "precious").expect("the folder is writable");
    for (args, why) in [
        (&["table", "rule"][..], "did you mean `rules`?"),
        (&["table", "rules", "insert", "priority=1", "priority=2", "action=drop"], "`priority` is given twice"),
        // The file of an earlier dump stays as it is.
        (&["table", "rule", "dump", "kept.json"], "did you mean `rules`?"),
        (
            &["table", "rules", "insert", "prority=1", "action=drop"],
            "there is no field `prority` in table `rules`; did you mean `priority`?",
        ),
        (
            &["table", "rules", "insert", "action=acept"],
            "`action`: expected drop or accept (got `acept`); did you mean `accept`?",
        ),
        (
            &["table", "rules", "insert", "dport=http", "action=drop"],
            "`dport`: expected a number from 0 to 65535 (got `http`)",
        ),
        (
            &["table", "rules", "insert", "dport=[1024,70000]", "action=drop"],
            "`dport`: expected a number from 0 to 65535 (got [1024, 70000])",
        ),
        (&["table", "rules", "insert", "src=10.0.0.0/40", "action=drop"], "a prefix has at most 32 bits"),
        (&["table", "rules", "insert", "dport=[9,3]", "action=drop"], "is no range"),
        (&["table", "rules", "insert", "src=1.2.3.4"], "`action` is missing; it is drop or accept"),
        (&["table", "rules", "insert", "what"], "expected FIELD=VALUE"),
        (&["table", "rules", "load", "none.json"], "none.json: No such file"),
        (&["counter", "unmached"], "did you mean `unmatched`?"),
        (&["signal", "drain"], "there is no signal `drain` here"),
        (&["table", "--app", "openflow_firewal"], "did you mean `openflow_firewall`?"),
        (&["table", "--pid", "1"], "process 1 runs no app"),
        (&["table", "--control", "/nonexistent"], "cannot connect to /nonexistent"),
    ] {
        let text = app.refused(args);
        assert!(text.contains(why), "{args:?}: {text}");
    }
    // Names of columns without rows under them.
    for (table, columns, why) in [
        (
            "rules",
            "src,dprt,action\n",
            "standard input: there is no field `dprt` in table `rules`; did you mean `dport`?",
        ),
        ("rule", "src,action\n", "did you mean `rules`?"),
        ("rules", "src,dport_mask,action\n", "there is no field `dport_mask`"),
    ] {
        let out = app.ask_with(&["table", table, "load", "-"], columns);
        assert!(out.code == Some(1) && out.text.contains(why), "{columns}: {}", out.text);
    }
    assert!(app.ask_with(&["table", "rules", "load", "-"], "src,dport,action,\n").text.starts_with("0 rows loaded"));
    // A bad row: nothing of its batch is used, and the row is named.
    let out =
        app.ask_with(&["table", "rules", "load", "-"], "[{\"action\":\"drop\"},{\"action\":\"drop\",\"sport\":\"x\"}]");
    assert!(
        out.code == Some(1)
            && out.text.contains("standard input: row 2: `sport`: expected")
            && out.text.contains("0 rows before it"),
        "{}",
        out.text
    );
    assert_eq!(app.json(&["table", "rules"]), json!([]));
    // More than there is room for: a row is in as a whole or not at all.
    let rows: Vec<String> =
        (0..131_075).map(|i| format!("10.{}.{}.{},10.0.0.1,1,2,tcp,drop", i >> 16, i >> 8 & 255, i & 255)).collect();
    let out = app.ask_with(
        &["table", "exact", "load", "-"],
        &format!("src,dst,sport,dport,proto,action\n{}\n", rows.join("\n")),
    );
    assert!(
        out.code == Some(1) && out.text.contains("table `exact` of 131072 entries is full; delete some first"),
        "{}",
        out.text
    );
    assert!(
        out.text.contains("row 131073 cannot be inserted") && out.text.contains("131072 rows before it are loaded"),
        "{}",
        out.text
    );
    let rows: Vec<String> = (0..48)
        .map(|i| {
            format!(
                "{{\"priority\":{i},\"sport\":[1,65534],\"dport\":[1,65534],\"proto\":[1,254],\"action\":\"drop\"}}"
            )
        })
        .collect();
    let out = app.ask_with(&["table", "rules", "load", "-"], &format!("[{}]", rows.join(",")));
    let entries = app.json(&["table"])[1]["entries"].as_u64().unwrap_or(0);
    assert!(out.code == Some(1) && out.text.contains("table `rules` of 512000 entries is full"), "{}", out.text);
    let each = 30 * 30 * 14;
    assert!(entries > 0 && entries.is_multiple_of(each) && entries + each > 512_000, "{entries}: {}", out.text);
    assert_eq!(std::fs::read_to_string(&kept).unwrap_or_default(), "precious");
}

fn service(name: &str, extra: &[&str]) {
    let port = free_port();
    let set = format!("port={port}");
    let app = Controlled::run(name, &[&["crates/lang/tests/cases/signals.loom", "--set", &set], extra].concat());
    let mut c = Client::connect(port);
    c.send("a\n").expect("ok\n");
    assert_eq!(app.told(&["signal", "lowest"]), "-5\n");
    let seen: Value = serde_json::from_str(&app.told(&["signal", "seen"])).expect("JSON");
    assert_eq!(seen, json!({"last": "a", "lines": 1, "odd": true}));
    for args in [&["name=k", "n=7", "on=true", "at=10.0.0.1:80"][..], &["k", "8", "false", "10.0.0.1:80"]] {
        app.told(&[&["signal", "set"], args].concat());
    }
    let answer = app.json(&["signal", "set", "k", "9", "no", "[fd00::1]:80"]);
    assert_eq!(answer["cores"], json!([{"0": 8, "1": "[fd00::1]:80", "2": false}]));
    assert!(app.told(&["signal"]).contains("cnt.read"));
    assert_eq!(app.json(&["table", "names"]), json!([{"key": "k", "value": 9}]));
    app.told(&["table", "names", "insert", "key= two words", "value=5"]);
    assert_eq!(app.told(&["table", "names", "get", "key= two words"]), "value\n    5\n");
    let mut line = app.connect();
    assert_eq!(line.ask(r#"{"do":"insert","table":"names","row":{"key":"0xff00","value":1}}"#)["ok"], true);
    assert_eq!(line.ask(r#"{"do":"get","table":"names","key":{"key":"0xff00"}}"#)["value"], json!({"value": 1}));
    app.told(&["table", "names", "delete", "key=k"]);
    assert_eq!(app.json(&["table", "names"]).as_array().map(Vec::len), Some(2));
    let text = app.refused(&["signal", "set", "name=k", "n=x", "on=1", "at=1.1.1.1:1"]);
    assert!(text.contains("argument `n`: expected a number of 32 bits (got `x`)"), "{text}");
    assert_eq!(app.told(&["signal", "host", "10.0.0.1", "02:00:00:00:00:01"]), format!("{}\n", 0x0a00_0000));
    let text = app.refused(&["signal", "host", "10.0.0", "02:00:00:00:00:01"]);
    assert!(text.contains("argument `at`: expected an IPv4 address"), "{text}");
    app.told(&["signal", "reset"]);
    assert!(app.refused(&["signal", "ask", "5"]).contains("ended with a fault"));
    assert!(app.told(&["counter", "--all"]).contains("fault division"));
    assert!(app.told(&["counter", "from.requests", "--watch=0.05", "--count", "2"]).contains("per second"));
    c.send("b\n").expect("ok\n");
}

#[test]
fn a_service() {
    service("service", &[]);
}

#[test]
fn a_service_interpreted() {
    service("interpreted", &["--interpret"]);
}

#[test]
fn several_apps_are_told_apart() {
    let app = firewall("several", &[]);
    let wire = format!("wire=udp:127.0.0.1:{}", free_port());
    let mut other = Controlled::start(&app.folder, "several", &["apps/flow_tracker.loom", "--bind", &wire]);
    let text = app.refused(&["table"]);
    let pids = [app.app.child.id(), other.child.id()].map(|p| p.to_string());
    assert!(
        text.contains("several apps are running; say which with --app or --pid:")
            && pids.iter().all(|p| text.contains(p)),
        "{text}"
    );
    assert_eq!(app.json(&["table", "--app", "flow_tracker"])[0]["table"], "flows");
    assert_eq!(app.json(&["table", "--pid", &pids[0]])[1]["table"], "rules");
    // The socket of a killed process is removed.
    other.kill();
    assert_eq!(app.json(&["table"])[1]["table"], "rules");
    assert_eq!(std::fs::read_dir(app.folder.join("wireloom")).map(|d| d.count()).ok(), Some(1));
    // In order: the socket goes with the process.
    app.app.signal(libc::SIGTERM);
    let gone = || std::fs::read_dir(app.folder.join("wireloom")).map_or(0, |d| d.count()) == 0;
    admin::eventually("the socket is gone", gone);
    assert!(app.refused(&["table"]).contains("is running: there is no control socket in"));
}

/// Two packet apps of one process, on one port: both are reached, by name where both have a thing.
#[test]
fn packet_apps_of_one_process() {
    let at = format!("127.0.0.1:{}", free_port());
    let wire = format!("wire=udp:{at}");
    let app = Controlled::run(
        "both",
        &["apps/openflow_firewall.loom", "apps/flow_tracker.loom", "--bind", &wire, "--bind", "accepted=null"],
    );
    assert!(app.app.output().contains(&format!("flow_tracker.wire is udp:{at}")), "{}", app.app.output());
    assert!(app.told(&["table", "rules", "insert", "priority=1", "dport=53", "action=accept"]).starts_with("inserted"));
    // A DNS query's frame, without its payload; the app reads its port once for both.
    let mut frame = vec![
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcd, 10, 0, 0, 1, 10, 0,
        0, 2,
    ];
    frame.extend([0x10, 0, 0, 53, 0, 8, 0, 0]);
    let client = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    client.send_to(&frame, &at).expect("sent");
    let mut flows = json!([]);
    admin::eventually("the flow is there", || {
        flows = app.json(&["table", "flows"]);
        flows != json!([])
    });
    assert_eq!((&flows[0]["dport"], &flows[0]["packets"]), (&json!(53), &json!(1)), "{flows}");
    let counters = app.told(&["counter", "--all"]);
    let shown = |app: &str, counter: &str| {
        let line = counters
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>())
            .find(|w| w.len() == 3 && w[..2] == [app, counter]);
        line.unwrap_or_else(|| panic!("{app} {counter} is not in {counters}"))[2].to_string()
    };
    for name in ["openflow_firewall", "flow_tracker"] {
        assert_eq!((shown(name, "wire.received").as_str(), shown(name, "wire.copied").as_str()), ("1", "0"), "{name}");
    }
    assert_eq!(shown("openflow_firewall", "accepted.sent"), "1");
    let listed = app.json(&["table"]);
    let of: Vec<&str> = listed.as_array().into_iter().flatten().filter_map(|t| t["app"].as_str()).collect();
    assert!(of.contains(&"openflow_firewall") && of.contains(&"flow_tracker"), "{listed}");
}

/// Packets and services of one process: one socket and one page for both, in the order in which the
/// apps were given.
#[test]
fn packets_and_services_of_one_process() {
    let (at, port, page) = (format!("127.0.0.1:{}", free_port()), free_port(), free_port());
    let (wire, set, page_arg) = (format!("wire=udp:{at}"), format!("signalled.port={port}"), page.to_string());
    let files = ["apps/openflow_firewall.loom", "crates/lang/tests/cases/signals.loom", "apps/flow_tracker.loom"];
    let settings = ["--bind", &wire, "--bind", "accepted=null", "--set", &set, "--admin", &page_arg];
    let app = Controlled::run("sorts", &[&files[..], &settings].concat());
    let hello = app.connect().ask(r#"{"do":"hello"}"#);
    assert_eq!(hello["apps"], json!(["openflow_firewall", "signalled", "flow_tracker"]));
    assert_eq!(hello["cores"], 2);
    let listed = app.json(&["table"]);
    let of: Vec<&str> = listed.as_array().into_iter().flatten().filter_map(|t| t["app"].as_str()).collect();
    assert_eq!(of.first().zip(of.last()), Some((&"openflow_firewall", &"flow_tracker")), "{listed}");
    assert!(of.contains(&"signalled"), "{listed}");
    app.told(&["table", "names", "insert", "key=two words", "value=5"]);
    assert_eq!(app.json(&["table", "names", "--app", "signalled"]), json!([{"key": "two words", "value": 5}]));
    assert!(app.told(&["table", "rules", "insert", "priority=1", "dport=53", "action=accept"]).starts_with("inserted"));
    assert!(app.refused(&["table", "rules", "--app", "signalled"]).contains("there is no table `rules`"));
    // Signals and counters.
    Client::connect(port).send("a\n").expect("ok\n");
    assert_eq!(app.told(&["signal", "lowest"]), "-5\n");
    let mut frame = vec![
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcd, 10, 0, 0, 1, 10, 0,
        0, 2,
    ];
    frame.extend([0x10, 0, 0, 53, 0, 8, 0, 0]);
    std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket").send_to(&frame, &at).expect("sent");
    admin::eventually("the frame is counted", || app.json(&["table", "flows"])[0]["packets"] == 1);
    let shown = |counter: &str| app.json(&["counter", counter])[0]["value"].clone();
    admin::eventually("the request is counted", || shown("from.requests") == 1);
    assert_eq!(shown("accepted.sent"), 1);
    // The page.
    let status = admin::status(page);
    let names: Vec<&str> = status["apps"].as_array().into_iter().flatten().filter_map(|a| a["app"].as_str()).collect();
    assert_eq!(names, ["openflow_firewall", "signalled", "flow_tracker"]);
    assert!(status["engine"].as_str().is_some_and(|e| e.ends_with(" + frames")), "{}", status["engine"]);
    assert_eq!(
        (&status["apps"][0]["ports"][0]["received"], &status["apps"][1]["ports"][0]["requests"]),
        (&json!(1), &json!(1))
    );
    let metrics = admin::metrics(page);
    for (name, n) in
        [("wireloom_requests_total{app=\"signalled\"", 1), ("wireloom_frames_received_total{app=\"flow_tracker\"", 1)]
    {
        assert_eq!(admin::sample(&metrics, name), n, "{name}");
    }
    // Each series once: the cores of both sorts have different labels.
    let mut series: Vec<&str> =
        metrics.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.rsplit_once(' ')).map(|(s, _)| s).collect();
    let all = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), all, "{metrics}");
    assert!(admin::signal(page, "signalled/lowest").contains("-5"));
    // One signal ends both, in order.
    app.app.signal(libc::SIGTERM);
    let gone = || std::fs::read_dir(app.folder.join("wireloom")).map_or(0, |d| d.count()) == 0;
    admin::eventually("the process ends", gone);
}

/// An app of frames and connections: its page shows the counters of packets.
fn census(name: &str, extra: &[&str]) {
    let (at, port, page) = (format!("127.0.0.1:{}", free_port()), free_port(), free_port());
    let (wire, set, page_arg) = (format!("wire=udp:{at}"), format!("port={port}"), page.to_string());
    let app = Controlled::run(
        name,
        &[&["examples/port_census.loom", "--bind", &wire, "--set", &set, "--admin", &page_arg], extra].concat(),
    );
    let cores = if extra.contains(&"all") { std::thread::available_parallelism().map_or(1, |n| n.get()) } else { 1 };
    assert_eq!(app.connect().ask(r#"{"do":"hello"}"#)["cores"], 2 * cores);
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for host in 1..=40u8 {
        let mut frame = vec![
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, host, 10, 0,
            0, 2,
        ];
        let sum = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum::<u32>();
        frame[24..26].copy_from_slice(&(!(sum + (sum >> 16)) as u16).to_be_bytes());
        frame.extend([0x10, host, 0, if host % 2 == 0 { 53 } else { 80 }, 0, 8, 0, 0]);
        sender.send_to(&frame, &at).expect("sent");
    }
    let get = |path: &str| {
        let mut c = Client::connect(port);
        c.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        c.take_until(b"\r\n\r\n");
        String::from_utf8_lossy(&c.rest()).into_owned()
    };
    admin::eventually("all are counted", || get("/53") == "20 of 40 packets\n");
    assert_eq!(get("/443"), "0 of 40 packets\n");
    // One table, seen from all sides, also with entries put in from outside.
    assert_eq!(app.json(&["table", "to", "get", "key=80"])["value"]["value"], 20);
    app.told(&["table", "to", "insert", "key=7", "value=3"]);
    assert_eq!(get("/7"), "3 of 40 packets\n");
    assert_eq!(app.json(&["table"])[0]["entries"], 3);
    admin::eventually("the counter is shown once", || app.json(&["counter", "packets"])[0]["value"] == 40);
    let (metrics, status) = (admin::metrics(page), admin::status(page));
    assert_eq!(admin::sample(&metrics, "wireloom_counter_total{app=\"port_census\",name=\"packets\"}"), 40);
    assert_eq!(admin::sample(&metrics, "wireloom_frames_received_total"), 40);
    assert_eq!(status["apps"].as_array().map(Vec::len), Some(1));
    app.app.signal(libc::SIGTERM);
    admin::eventually("the process ends", || {
        std::fs::read_dir(app.folder.join("wireloom")).map_or(0, |d| d.count()) == 0
    });
}

#[test]
fn frames_and_connections_in_one_app() {
    census("census", &[]);
}

#[test]
fn frames_and_connections_on_several_cores() {
    census("census2", &["--cores", "all"]);
}

#[test]
fn frames_and_connections_interpreted() {
    census("census3", &["--interpret"]);
}

/// A counter that frames and requests add to. Requests see the sum, it is shown once, and the file
/// at the end has the counts of both.
#[test]
fn a_counter_of_frames_and_connections() {
    for (name, extra) in [("counted", &["--cores", "all"][..]), ("counted2", &["--interpret"])] {
        let (at, port) = (format!("127.0.0.1:{}", free_port()), free_port());
        let folder = std::env::temp_dir().join(format!("wireloom-control-{}-{name}-dump", std::process::id()));
        std::fs::create_dir_all(&folder).expect("writable");
        let dump = folder.join("counters.json");
        let (wire, set, to) =
            (format!("wire=udp:{at}"), format!("port={port}"), format!("counters={}", dump.display()));
        let app = Controlled::run(
            name,
            &[&["tests/programs/mixed.loom", "--bind", &wire, "--set", &set, "--dump", &to], extra].concat(),
        );
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..30 {
            sender.send_to(&[0; 60], &at).expect("sent");
        }
        let get = || -> u64 {
            let mut c = Client::connect(port);
            c.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            c.take_until(b"\r\n\r\n");
            String::from_utf8_lossy(&c.rest()).parse().expect("a number")
        };
        let mut asked = 0;
        // The counts of other cores are seen a little later, and none is seen twice.
        admin::eventually("all are seen", || {
            std::thread::sleep(std::time::Duration::from_millis(250));
            asked += 1;
            let seen = get();
            assert!(seen <= 30 + asked, "{seen} of {} were counted", 30 + asked);
            seen == 30 + asked
        });
        admin::eventually("the counter is shown once", || app.json(&["counter", "events"])[0]["value"] == 30 + asked);
        assert_eq!(app.json(&["signal", "total"])["sum"], 30 + asked);
        app.app.signal(libc::SIGTERM);
        admin::eventually("the process ends", || {
            std::fs::read_dir(app.folder.join("wireloom")).map_or(0, |d| d.count()) == 0
        });
        let written =
            || serde_json::from_str::<Value>(&std::fs::read_to_string(&dump).unwrap_or_default()).unwrap_or_default();
        admin::eventually("counters are written", || {
            written() == serde_json::json!({ "asked": asked, "events": 30 + asked })
        });
        std::fs::remove_dir_all(&folder).ok();
    }
    let out = wireloom_tests::finish(
        wireloom_tests::Wireloom::program()
            .current_dir(wireloom_tests::root())
            .args(["test", "tests/programs/mixed.loom"]),
    );
    assert!(out.code == Some(0) && out.text.contains("1 passed, 0 failed"), "{}", out.text);
}

#[test]
fn the_socket_is_where_it_is_asked_for() {
    let folder = std::env::temp_dir().join(format!("wireloom-control-{}-at", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    let at = folder.join("here.sock").display().to_string();
    let app = firewall("asked", &["--control", &at]);
    assert!(app.app.output().contains(&format!("control socket {at}")), "{}", app.app.output());
    assert_eq!(app.json(&["table", "--control", &at])[1]["table"], "rules");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&at).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let out = app.ask(&[
        "run",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../apps/flow_tracker.loom"),
        "--bind",
        "wire=null",
        "--control",
        &at,
    ]);
    assert!(out.code == Some(1) && out.text.contains("another process listens there"), "{}", out.text);
    drop(app);
    std::fs::remove_dir_all(&folder).ok();
    let off = firewall("off", &["--control", "off"]);
    assert!(off.refused(&["table"]).contains("is running: there is no control socket in"));
}

/// No answer is a crash, and memory stays bounded.
#[test]
fn hostile_peers_get_errors() {
    let app = firewall("hostile", &["--cores", "all"]);
    let mut line = app.connect();
    let before = app.app.rss_kib();
    let deep = format!("{{\"do\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let fixed = [
        "nothing", "{", "[]", "1", "{}", "\"\"", "{\"do\":1}", "{\"do\":\"\"}", "{\"do\":\"insert\"}", "{\"do\":\"insert\",\"table\":7}",
        "{\"do\":\"insert\",\"table\":\"rules\"}", "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":{}}", "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":[1]}",
        "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":[{\"action\":\"0xzz\"}]}",
        "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":[{\"action\":\"drop\",\"dport\":[0]}]}",
        "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":[{\"action\":\"drop\",\"dport\":[1,4294967294],\"sport\":[1,4294967294],\"proto\":[1,254],\"priority\":[1,9]}]}",
        "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":[{\"action\":\"drop\",\"dport\":-1}]}",
        "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":[{\"action\":\"drop\",\"dport\":1e999}]}",
        "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":[{\"action\":\"drop\",\"src\":\"10.0.0.0/99999999999999999999\"}]}",
        "{\"do\":\"insert\",\"table\":\"rules\",\"rows\":[{\"action\":\"drop\",\"src\":\"&\"}]}",
        "{\"do\":\"read\",\"table\":\"rules\",\"cursor\":[99,0]}", "{\"do\":\"read\",\"table\":\"rules\",\"cursor\":\"x\"}",
        "{\"do\":\"read\",\"table\":\"rules\",\"limit\":-1}", "{\"do\":\"get\",\"table\":\"exact\",\"key\":[]}", "{\"do\":\"get\",\"table\":\"exact\",\"key\":{\"src\":1}}",
        "{\"do\":\"signal\",\"signal\":\"rules.next\",\"args\":{\"cursor\":-1}}", "{\"do\":\"tables\",\"app\":7}", deep.as_str(),
    ];
    for request in fixed {
        let answer = line.ask(request);
        let shown: String = request.chars().take(100).collect();
        assert_eq!(answer["ok"], false, "{shown}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|e| !e.is_empty() && e.len() < 2000), "{shown}: {answer}");
    }
    // No cursor leads anywhere else.
    for cursor in [u64::MAX, u64::MAX - 1, 1 << 63, 511_999, 512_000, 1 << 32] {
        assert_eq!(
            line.ask(&format!("{{\"do\":\"read\",\"table\":\"rules\",\"cursor\":[0,{cursor}]}}"))["rows"],
            json!([])
        );
        assert_eq!(
            line.ask(&format!("{{\"do\":\"read\",\"table\":\"exact\",\"cursor\":[0,{cursor}]}}"))["rows"],
            json!([])
        );
    }
    assert_eq!(line.ask("{\"do\":\"hello\",\"id\":[1]}")["id"], json!([1]));
    // Bytes at random, some of them lines, some cut from valid ones.
    let good =
        br#"{"do":"insert","table":"rules","rows":[{"priority":1,"src":"10.0.0.0/8","dport":[1,9],"action":"drop"}]}"#;
    let mut seed = 12345u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..3000 {
        let mut bytes = good.to_vec();
        for _ in 0..=random() % 4 {
            let at = random() as usize % bytes.len();
            match random() % 3 {
                0 => bytes[at] = random() as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, random() as u8),
            }
        }
        bytes.retain(|b| *b != b'\n');
        bytes.push(b'\n');
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        line.send(&bytes).expect("still open");
        assert!(line.answer().is_some(), "{:?}", String::from_utf8_lossy(&bytes));
    }
    // A line without an end is cut off.
    let mut endless = app.connect();
    let chunk = vec![b'x'; 1 << 16];
    while endless.send(&chunk).is_ok() {}
    assert!(app.connect().ask("{\"do\":\"hello\"}")["ok"] == true);
    // More connections than are served; closed ones make room.
    let mut many: Vec<_> = (0..40).map(|_| app.connect()).collect();
    let served = many
        .iter_mut()
        .map(|c| c.send(b"{\"do\":\"hello\"}\n").is_ok() && c.answer().is_some_and(|a| a["ok"] == true))
        .filter(|ok| *ok)
        .count();
    assert!((1..=16).contains(&served), "{served}");
    drop(many);
    admin::eventually("a connection is served again", || {
        let mut c = app.connect();
        c.send(b"{\"do\":\"hello\"}\n").is_ok() && c.answer().is_some_and(|a| a["ok"] == true)
    });
    let grown = app.app.rss_kib().saturating_sub(before);
    assert!(grown < 100 << 10, "{grown} KiB more");
    // Connections that do not read: the app is not held up, and ends when told to.
    let mut deaf = app.connect();
    for _ in 0..2000 {
        if deaf.send(b"{\"do\":\"tables\"}\n").is_err() {
            break;
        }
    }
    app.app.signal(libc::SIGTERM);
    let gone = || std::fs::read_dir(app.folder.join("wireloom")).map_or(0, |d| d.count()) == 0;
    admin::eventually("it ends", gone);
}

/// An error that keeps a packet app from starting is printed with advice.
#[test]
fn packet_apps_that_cannot_start_say_why() {
    let folder = std::env::temp_dir().join(format!("wireloom-start-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    let text = folder.join("text.pcap");
    std::fs::write(&text, "this is no capture, but long enough to be one").expect("writable");
    let none = folder.join("none.pcap").display().to_string();
    for (bind, why) in [
        ("wire=afpacket:loo".to_string(), "port `wire`: there is no interface `loo`"),
        ("wire=nic:nothing0".to_string(), "there is no interface `nothing0`"),
        (format!("wire=pcap:{none}"), "No such file or directory"),
        (format!("wire=pcap:{}", text.display()), "text.pcap"),
        (format!("wire=pcap:{}", folder.display()), "Is a directory"),
        ("wir=pcap:x".to_string(), "wir"),
        ("wire=cap:x".to_string(), "cap"),
        ("wire=udp:nowhere".to_string(), "expected ADDRESS:PORT"),
    ] {
        let out = wireloom_tests::Wireloom::command(&["run", "apps/flow_tracker.loom", "--bind", &bind]);
        assert_eq!(out.code, Some(1), "{bind}: {}", out.text);
        assert!(out.text.contains("wireloom: ") && out.text.contains(why), "{bind}: {}", out.text);
    }
    // A capture beside a file like an output of an earlier run.
    std::fs::remove_dir_all(&folder).ok();
}

/// Root's commands look at the sockets of all users. None of them holds a command up, fills its
/// memory, or writes to the terminal.
#[test]
fn hostile_sockets_hold_nobody_up() {
    use std::io::Write;
    use std::os::unix::net::{UnixListener, UnixStream};
    let app = firewall("hostile-sockets", &[]);
    let at = |name: &str| app.folder.join("wireloom").join(name);
    // One takes no connection: its queue is full.
    let full = UnixListener::bind(at("full-1.sock")).expect("a socket");
    // SAFETY: a plain system call on a socket of this test.
    unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&full), 0) };
    let _waits = UnixStream::connect(at("full-1.sock")).expect("one place");
    let serve = |name: &str, answer: fn(&mut UnixStream) -> bool| {
        let listener = UnixListener::bind(at(name)).expect("a socket");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || while answer(&mut stream) {});
            }
        });
    };
    serve("drips-1.sock", |s| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        s.write_all(b"x").is_ok()
    });
    serve("floods-1.sock", |s| s.write_all(&[b'x'; 1 << 16]).is_ok());
    serve("shouts-1.sock", |s| {
        let _ = s.write_all(b"{\"ok\":true,\"pid\":7,\"apps\":[\"\\u001b[2Jopenflow_firewall\"]}\n");
        false
    });
    serve("poses-1.sock", |s| {
        let _ = s.write_all(b"{\"ok\":true,\"pid\":7,\"apps\":[\"poser\"]}\n");
        std::thread::sleep(std::time::Duration::from_secs(1));
        false
    });
    let begin = std::time::Instant::now();
    let rules = app.told(&["table", "--app", "openflow_firewall"]);
    assert!(rules.contains("wildcard"), "{rules}");
    // Four sockets of 2 s at most; with waits for each byte it had no end.
    assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{:?}", begin.elapsed());
    let several = app.refused(&["table"]);
    assert!(several.contains("several apps are running") && !several.contains('\u{1b}'), "{several:?}");
    // The number is the kernel's word.
    let own = std::process::id().to_string();
    let poser = several.lines().find(|l| l.contains("poser")).expect("it is listed");
    assert!(poser.contains(&format!("--pid {own} ")), "{several}");
}
