//! Clauses of a protocol hold for the request that is sent, not for the one that came. Programs
//! here edit and build requests: `no_reply`, `repeat` and `private` follow.

use std::time::Duration;
use wireloom_tests::{require_tool, servers, Backend, Client, Process, Wireloom};

const BOTH: [&[&str]; 2] = [&[], &["--interpret"]];

fn run(program: &str, ports: &[u16], extra: &[&str]) -> Process {
    let list = servers(ports);
    let args = [&["--set", list.as_str()], extra].concat();
    Wireloom::run_file(&format!("tests/programs/{program}.loom"), &args, |_| {})
}

/// Two clients read their own values, while others say what is edited.
fn reads_stay_apart(port: u16, say: &str, answer: &str) {
    let mut stores = Client::connect(port);
    stores.send("set w 0 0 6\r\nSECRET\r\nset v 0 0 4\r\nMINE\r\n").expect("STORED\r\nSTORED\r\n");
    let mut readers = [("w", "SECRET"), ("v", "MINE")].map(|(key, value)| (Client::connect(port), key, value));
    for round in 0..50 {
        let mut other = Client::connect(port);
        other.send(say);
        for (c, key, _) in &mut readers {
            c.send(format!("get {key}\r\n"));
        }
        for (c, key, value) in &mut readers {
            let own = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
            let got = c.take(own.len());
            assert_eq!(String::from_utf8_lossy(&got), own, "round {round}");
        }
        other.expect(answer);
    }
}

#[test]
fn a_request_that_is_answered_after_an_edit_takes_no_other_answer() {
    if !require_tool("memcached") {
        return;
    }
    let server = Process::memcached();
    for extra in BOTH {
        let proxy = run("edited_memcached", &[server.port], extra);
        // `noreply` is removed: the server answers, and the client gets nothing.
        reads_stay_apart(proxy.port, "set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn a_built_request_without_an_answer_waits_for_none() {
    if !require_tool("memcached") {
        return;
    }
    let server = Process::memcached();
    for extra in BOTH {
        let proxy = run("edited_memcached", &[server.port], extra);
        reads_stay_apart(proxy.port, "get n1\r\n", "SENT\r\n");
        Client::connect(proxy.port).send("get w\r\n").expect("VALUE w 0 6\r\nSECRET\r\nEND\r\n");
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn answer(server: &mut Client, target: &str) {
    assert!(server.take_head().contains(&format!(" {target} ")), "{target}");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

/// How often a request is sent whose pooled connection ends under it.
fn sent(proxy: &Process, backend: &Backend, request: &str, target: &str) -> usize {
    let mut c = Client::connect(proxy.port);
    c.send(get("/warm"));
    let mut server = backend.accept();
    answer(&mut server, "/warm");
    c.take_head();
    c.expect("ok").send(request);
    assert!(server.take_head().contains(target));
    drop(server);
    let Some(mut again) = backend.accept_within(Duration::from_millis(500)) else {
        assert!(c.take_head().starts_with("http/1.1 502"));
        return 1;
    };
    answer(&mut again, target);
    c.take_head();
    c.expect("ok");
    2
}

#[test]
fn a_request_that_becomes_a_post_is_not_repeated() {
    for extra in BOTH {
        let backend = Backend::new();
        let proxy = run("edited_http", &[backend.port], extra);
        assert_eq!(sent(&proxy, &backend, &get("/plain"), "/plain"), 2);
        assert_eq!(sent(&proxy, &backend, &get("/post"), "/post"), 1);
        let post = "POST /get HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(sent(&proxy, &backend, post, "/get"), 2, "it is a GET now");
        let post = "POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(sent(&proxy, &backend, post, "/plain"), 1);
    }
}

/// Whether the connection of this request serves another client, too.
fn shared(extra: &[&str], request: &str, target: &str) -> bool {
    let backend = Backend::new();
    let proxy = run("edited_http", &[backend.port], extra);
    let (mut a, mut b) = (Client::connect(proxy.port), Client::connect(proxy.port));
    a.send(request);
    let mut server = backend.accept();
    answer(&mut server, target);
    a.take_head();
    a.expect("ok");
    b.send(get("/b"));
    let other = backend.accept_within(Duration::from_millis(300));
    let shared = other.is_none();
    answer(&mut other.unwrap_or(server), "/b");
    b.take_head();
    b.expect("ok");
    shared
}

#[test]
fn credentials_that_the_program_adds_or_removes_count() {
    let with = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: NTLM x\r\n\r\n");
    for extra in BOTH {
        assert!(shared(extra, &get("/plain"), "/plain"));
        assert!(!shared(extra, &with("/plain"), "/plain"));
        assert!(!shared(extra, &get("/own"), "/own"), "added");
        assert!(shared(extra, &with("/nobody"), "/nobody"), "removed");
        assert!(!shared(extra, &with("/get"), "/get"), "another field was edited");
    }
}
