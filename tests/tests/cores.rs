//! `--cores`: one thread per core, connections spread over them.

use serde_json::Value;
use wireloom_tests::{admin, free_port, Client, Process, Wireloom};

fn threads(process: &Process) -> Vec<String> {
    let folder = format!("/proc/{}/task", process.child.id());
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|t| std::fs::read_to_string(t.path().join("comm")).ok()).map(|n| n.trim().to_string()).collect()
}

/// CPU time of each thread, in ticks.
fn busy_threads(process: &Process) -> usize {
    let folder = format!("/proc/{}/task", process.child.id());
    let stats = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ticks = stats.filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok()).map(|s| {
        let fields: Vec<u64> = s.rsplit(')').next().unwrap_or("").split_whitespace().map(|f| f.parse().unwrap_or(0)).collect();
        fields.get(11).unwrap_or(&0) + fields.get(12).unwrap_or(&0)
    });
    ticks.filter(|t| *t > 2).count()
}

#[test]
fn two_cores_share_the_connections() {
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let web = Wireloom::run("static_web", &["--cores", "0-1", "--admin", &address]);
    let status: Value = admin::status(port);
    assert_eq!(status["cores"], 2, "{status}");
    let mut clients: Vec<Client> = (0..64).map(|_| Client::connect(web.port)).collect();
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50);
    for _ in 0..60 {
        for c in &mut clients {
            c.send(&request);
        }
        for c in &mut clients {
            for _ in 0..50 {
                c.take_until(b"Hello from Wireloom.\n");
            }
        }
    }
    assert!(busy_threads(&web) >= 2, "threads at work: {} of {:?}", busy_threads(&web), threads(&web));
    let metrics = admin::metrics(port);
    for core in ["0", "1"] {
        let batches = admin::sample(&metrics, &format!("wireloom_batches_total{{core=\"{core}\"}}"));
        assert!(batches > 10, "core {core} had {batches} batches");
    }
    assert_eq!(admin::status(port)["apps"][0]["ports"][0]["requests"], 64 * 50 * 60);
}

#[test]
fn a_list_of_cores_is_taken_and_a_wrong_one_refused() {
    let web = Wireloom::run("static_web", &["--cores", "0,1"]);
    Client::connect(web.port).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("HTTP/1.1 200 OK\r\n");
    for wrong in ["x", "1-", "5-2", "", "4096"] {
        let out = Wireloom::command(&["run", "apps/static_web.loom", "--set", &format!("port={}", free_port()), "--cores", wrong]);
        assert!(out.code != Some(0), "--cores {wrong:?} was taken: {}", out.text);
        assert!(!out.text.contains("panicked"), "{}", out.text);
    }
}
