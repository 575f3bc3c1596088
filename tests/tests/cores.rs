//! `--cores`: one thread per core, connections spread over them.

use serde_json::Value;
use wireloom_tests::{admin, free_port, Client, Process, Wireloom};

/// CPU time of each core's thread, in milliseconds.
fn core_times(process: &Process) -> Vec<u64> {
    let folder = format!("/proc/{}/task", process.child.id());
    let threads = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named =
        threads.filter(|t| std::fs::read_to_string(t.path().join("comm")).is_ok_and(|n| n.starts_with("core-")));
    let stats = named.filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok());
    stats
        .filter_map(|s| s.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()))
        .map(|ns| ns / 1_000_000)
        .collect()
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
    let times = core_times(&web);
    assert!(times.len() == 2 && times.iter().all(|t| *t > 5), "CPU time of the cores: {times:?} ms");
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
        let out = Wireloom::command(&[
            "run",
            "apps/static_web.loom",
            "--set",
            &format!("port={}", free_port()),
            "--cores",
            wrong,
        ]);
        assert!(out.code != Some(0), "--cores {wrong:?} was taken: {}", out.text);
        assert!(!out.text.contains("panicked"), "{}", out.text);
    }
}
