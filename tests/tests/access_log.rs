//! The access log: a line for each request with client, operation and result. No client's bytes
//! break lines. A file may be renamed or full. Further: lines on standard error about answers that
//! failed without the client's fault, and metrics by class and time.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wireloom_tests::memcached::Service;
use wireloom_tests::{admin, free_port, plain, python, redis, servers, Backend, Client, Process, Wireloom, PATIENCE};

/// A file name of its own, removed when dropped.
struct LogFile(PathBuf);

impl LogFile {
    fn new(name: &str) -> LogFile {
        let path = std::env::temp_dir().join(format!("wireloom-{}-{name}.log", std::process::id()));
        let _ = std::fs::remove_file(&path);
        LogFile(path)
    }

    fn name(&self) -> String {
        self.0.display().to_string()
    }

    /// Its lines, once there are so many.
    fn lines(&self, n: usize) -> Vec<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(&self.0).unwrap_or_default();
            let lines: Vec<String> = text.lines().map(String::from).collect();
            if lines.len() >= n || Instant::now() > end {
                assert_eq!(lines.len(), n, "{text}");
                return lines;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn balancer(backend: u16, log: &LogFile, more: &[&str]) -> Process {
    let (list, file) = (servers(&[backend]), log.name());
    let mut args = vec!["--set", list.as_str(), "--access-log", &file];
    args.extend(more);
    Wireloom::run("http_balancer", &args)
}

/// Redis: a command and its first key, in either form. Words of commands without keys stay out:
/// they may be passwords.
#[test]
fn commands_of_redis_and_their_keys() {
    if plain() {
        return;
    }
    let log = LogFile::new("redis");
    let file = log.name();
    let proxy = redis::Service::proxy(1, &["--access-log", &file]);
    let cases: &[(&[&str], &str, &str)] = &[
        (&["SET", "k", "v"], "SET", "k"),
        (&["GET", "k"], "GET", "k"),
        (&["GET", "a\"\r\nb\0"], "GET", r"a\x22\x0D\x0Ab\x00"),
        (&["MGET", "a", "k", "b"], "MGET", "a"),
        (&["INCR", "n"], "INCR", "n"),
        (&["DEL", "n", "m"], "DEL", "n"),
        (&["MSET", "a", "1", "b", "2"], "MSET", "a"),
        (&["OBJECT", "ENCODING", "k"], "OBJECT", "k"),
        (&["EVAL", "return 1", "1", "key"], "EVAL", "key"),
        (&["EVAL", "return 1", "0", "secret"], "EVAL", ""),
        (&["AUTH", "secret"], "AUTH", ""),
        (&["AUTH", "default", "secret"], "AUTH", ""),
        (&["HELLO", "2", "AUTH", "default", "secret"], "HELLO", ""),
        (&["CONFIG", "SET", "requirepass", "secret"], "CONFIG", ""),
        (&["ACL", "SETUSER", "x", ">secret"], "ACL", ""),
        (&["MIGRATE", "h", "1", "k", "0", "9", "AUTH", "secret"], "MIGRATE", ""),
        (&["PING"], "PING", ""),
    ];
    let mut client = Client::connect(proxy.port);
    for (words, ..) in cases {
        client.send(redis::request(words));
        redis::Answer::take(&mut client);
    }
    client.send("GET inline\r\nAUTH secret\r\n");
    (0..2).for_each(|_| drop(redis::Answer::take(&mut client)));
    let long = "x".repeat(5000);
    client.send(redis::request(&["GET", &long]));
    redis::Answer::take(&mut client);
    let lines = log.lines(cases.len() + 3);
    let expected = cases.iter().map(|(_, verb, key)| (verb.to_string(), key.to_string())).chain([
        ("GET".into(), "inline".into()),
        ("AUTH".into(), String::new()),
        ("GET".into(), long[..250].into()),
    ]);
    for (line, (verb, key)) in lines.iter().zip(expected) {
        let object = if key.is_empty() { "-".to_string() } else { format!("\"{key}\"") };
        assert!(line.contains(&format!(" \"{verb}\" {object} ")), "{verb} {key}: {line}");
        assert!(!line.contains("secret"), "{line}");
    }
}

/// The columns of a line: time, port, client, method, target, status, bytes, seconds, backend,
/// fault.
fn columns(line: &str) -> Vec<String> {
    let all: Vec<String> = match line.split('"').collect::<Vec<_>>().as_slice() {
        [front, method, " ", target, rest] => {
            let front = front.split_whitespace().map(String::from);
            front
                .chain([method.to_string(), target.to_string()])
                .chain(rest.split_whitespace().map(String::from))
                .collect()
        }
        [_] => line.split_whitespace().map(String::from).collect(),
        _ => panic!("{line}"),
    };
    assert_eq!(all.len(), 10, "{line}");
    all
}

fn answer(client: &mut Client, backend: &Backend, request: &str, answer: &str) {
    client.send(request);
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    server.send(answer);
    server.finish_sending();
}

#[test]
fn a_line_for_each_request() {
    if plain() {
        return;
    }
    let (backend, log) = (Backend::new(), LogFile::new("each"));
    let mut proxy = balancer(backend.port, &log, &[]);
    let mut client = Client::connect(proxy.port);
    let from = client.stream.local_addr().expect("an address").to_string();
    answer(
        &mut client,
        &backend,
        "GET /a?b HTTP/1.1\r\nHost: x\r\nCookie: secret\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
    );
    client.take_until(b"\r\n\r\nno");
    let early = "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    answer(&mut client, &backend, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", early);
    assert!(client.take_head().starts_with("http/1.1 103 ") && client.take_head().starts_with("http/1.1 200 "));
    let lines = log.lines(2);
    let at = backend.port.to_string();
    let first = columns(&lines[0]);
    assert!(first[0].starts_with("20") && first[0].ends_with('Z') && first[0].len() == 27, "{}", lines[0]);
    assert_eq!(
        first[1..7],
        ["http_balancer.client".into(), from, "GET".into(), "/a?b".into(), "404".into(), "47".to_string()],
        "{}",
        lines[0]
    );
    assert!(
        first[7].parse::<f64>().is_ok_and(|s| s < 5.0) && first[8] == format!("127.0.0.1:{at}") && first[9] == "-",
        "{}",
        lines[0]
    );
    let second = columns(&lines[1]);
    assert_eq!(second[3..6], ["POST", "/", "200"], "an interim answer is not the answer: {}", lines[1]);
    assert!(!lines.concat().contains("secret"), "only what the protocol names");
    let mode = std::fs::metadata(&log.0).expect("the log").permissions().mode() & 0o777;
    assert_eq!(mode & !0o600, 0, "{mode:o}");
    // A client that leaves is logged, and the last lines are not lost at the end.
    let mut gone = Client::connect(proxy.port);
    gone.send("GET /gone HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    gone.reset();
    let third = columns(&log.lines(3)[2]);
    assert_eq!(
        (third[4].as_str(), third[5].as_str(), third[6].as_str(), third[9].as_str()),
        ("/gone", "-", "0", "cancelled")
    );
    client.send("GARBAGE\r\n\r\n");
    client.rest();
    proxy.signal(15);
    assert_eq!(proxy.exit(), Some(0));
    let last = columns(&log.lines(4)[3]);
    assert_eq!(last[3..6], ["-", "-", "400"]);
    assert_eq!(last[8..], ["-", "malformed"]);
}

/// No byte of a client ends a line or its quotes; the fate of the request does not matter.
/// Requests without a backend, too, have taken some time.
#[test]
fn an_answer_at_once_has_a_duration() {
    let log = LogFile::new("at-once");
    let server = Wireloom::run("kv_server", &["--access-log", &log.name()]);
    let mut client = Client::connect(server.port);
    client.send("set k 0 0 1\r\nx\r\n".to_string() + &"get k\r\n".repeat(50));
    client.expect("STORED\r\n".to_string() + &"VALUE k 0 1\r\nx\r\nEND\r\n".repeat(50));
    let took: Vec<f64> = log.lines(51).iter().map(|l| columns(l)[7].parse().expect("a number")).collect();
    // The shortest ones round to 0 µs. Those behind others of their batch have waited for them.
    assert!(took.iter().filter(|t| **t > 0.0).count() > 25 && took.iter().all(|t| *t < 5.0), "{took:?}");
}

#[test]
fn lines_cannot_be_forged() {
    if plain() {
        return;
    }
    let (closed, log) = (free_port(), LogFile::new("forged"));
    let proxy = balancer(closed, &log, &[]);
    let hostile: [&[u8]; 7] = [
        b"GET /\"%20\"-\"%20200 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\\\"x\\ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\n2026-01-01T00:00:00.000000Z http_balancer.client 1.1.1.1:1 HTTP/1.1\r\n\r\n",
        b"\x1b[2J\x00\xff\x80\\ / HTTP/1.1\r\n\r\n",
        b"\r\r\r\r\r\r\r\r\r\r",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\xc2\x85\xe2\x80\xa8 HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    for request in hostile {
        let mut client = Client::connect(proxy.port);
        client.send(request);
        client.finish_sending();
        client.rest();
    }
    let lines = log.lines(hostile.len());
    for line in &lines {
        let c = columns(line);
        assert!(
            (c[5].starts_with('4') || c[5].starts_with('5')) && line.bytes().all(|b| (0x20..0x7f).contains(&b)),
            "{line}"
        );
    }
    assert_eq!(columns(&lines[0])[4], "/\\x22%20\\x22-\\x22%20200");
    assert_eq!(columns(&lines[1])[4], "/\\x5C\\x22x\\x5C");
}

#[test]
fn other_protocols_have_lines_too() {
    if plain() {
        return;
    }
    let log = LogFile::new("memcached");
    let service = Service::proxy(2, &["--access-log", &log.name()]);
    let begun = log.lines_now();
    let mut client = Client::connect(service.port);
    client.send("set a 0 0 1\r\nx\r\n").expect("STORED\r\n");
    client.send("get a\r\n").expect("VALUE a 0 1\r\nx\r\nEND\r\n");
    client.send("nonsense\r\n").expect("ERROR\r\n");
    let lines = log.lines(begun + 3);
    let told: Vec<Vec<String>> = lines[begun..].iter().map(|l| columns(&l.replacen("\" - ", "\" \"-\" ", 1))).collect();
    let what: Vec<(&str, &str, &str)> = told.iter().map(|c| (c[3].as_str(), c[4].as_str(), c[5].as_str())).collect();
    assert_eq!(what, [("set", "a", "ok"), ("get", "a", "ok"), ("nonsense", "-", "error")], "{lines:#?}");
}

impl LogFile {
    /// How many lines there are once no more come.
    fn lines_now(&self) -> usize {
        let count = || std::fs::read_to_string(&self.0).unwrap_or_default().lines().count();
        let (mut before, mut now) = (usize::MAX, count());
        while before != now {
            std::thread::sleep(Duration::from_millis(600));
            (before, now) = (now, count());
        }
        now
    }
}

#[test]
fn a_hangup_opens_the_file_anew() {
    if plain() {
        return;
    }
    let (log, old) = (LogFile::new("rotated"), LogFile::new("rotated.1"));
    let mut proxy = balancer(free_port(), &log, &[]);
    let ask = || {
        let mut client = Client::connect(proxy.port);
        client.send("BAD\r\n\r\n");
        client.rest();
    };
    ask();
    log.lines(1);
    std::fs::rename(&log.0, &old.0).expect("renamed");
    ask();
    old.lines(2);
    assert!(!log.0.exists());
    proxy.signal(libc::SIGHUP);
    let end = Instant::now() + PATIENCE;
    while !log.0.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut client = Client::connect(proxy.port);
    client.send("BAD\r\n\r\n");
    client.rest();
    log.lines(1);
    old.lines(2);
    proxy.signal(15);
    assert_eq!(proxy.exit(), Some(0));
}

/// Faults of clients have lines on standard error if they are asked for, with their place.
#[test]
fn every_fault_is_logged_if_asked_for() {
    if plain() {
        return;
    }
    for asked in [false, true] {
        let list = servers(&[free_port()]);
        let args = ["--set", &list, "--log-faults"];
        let mut proxy = Wireloom::run("http_balancer", if asked { &args } else { &args[..2] });
        let mut client = Client::connect(proxy.port);
        client.send("BAD\r\n\r\n");
        client.rest();
        let mut cut = Client::connect(proxy.port);
        cut.send("GET / HT").finish_sending();
        cut.rest();
        proxy.signal(15);
        assert_eq!(proxy.exit(), Some(0));
        let said = proxy.output();
        assert_eq!(said.contains("http_balancer.client: malformed at "), asked, "{said}");
        assert_eq!(said.contains("std/http.loom:"), asked, "{said}");
        assert_eq!(said.contains("answered 400"), asked, "{said}");
        assert_eq!(said.contains("http_balancer.client: truncated"), asked, "{said}");
    }
}

/// A file that takes nothing costs lines, which are counted and told, and no answer.
#[test]
fn a_full_disk_stops_nobody() {
    if plain() {
        return;
    }
    let page = free_port();
    let mut proxy = Wireloom::run(
        "http_balancer",
        &["--set", &servers(&[free_port()]), "--access-log", "/dev/full", "--admin", &page.to_string()],
    );
    for _ in 0..5 {
        let mut client = Client::connect(proxy.port);
        client.send("BAD\r\n\r\n");
        assert!(client.rest().starts_with(b"HTTP/1.1 400"));
    }
    admin::eventually("five lost lines", || admin::metrics(page).contains("wireloom_access_log_lost_total{} 5"));
    proxy.signal(15);
    assert_eq!(proxy.exit(), Some(0));
    assert!(proxy.output().contains("/dev/full") && proxy.output().contains("lost"), "{}", proxy.output());
}

#[test]
fn a_file_that_cannot_be_opened_is_told_at_the_start() {
    if plain() {
        return;
    }
    let out = Wireloom::command(&[
        "run",
        "apps/static_web.loom",
        "--set",
        &format!("port={}", free_port()),
        "--access-log",
        "/nowhere/x.log",
    ]);
    assert!(out.code == Some(1) && out.text.contains("cannot open the access log /nowhere/x.log"), "{}", out.text);
}

/// A pipe without a reader holds up neither the start nor the end.
#[test]
fn a_pipe_without_a_reader_is_told_at_the_start() {
    if plain() {
        return;
    }
    let log = LogFile::new("pipe");
    let path = std::ffi::CString::new(log.name()).expect("a name");
    // SAFETY: a plain system call with a name of ours.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let port = format!("port={}", free_port());
    let args = ["run", "apps/static_web.loom", "--set", &port, "--access-log", &log.name()];
    let out = Wireloom::command(&args);
    assert!(out.code == Some(1) && out.text.contains("cannot open the access log"), "{}", out.text);
}

/// A request that is under way when a drain is over has a line, too.
#[test]
fn requests_that_a_drain_cuts_off_have_lines() {
    let log = LogFile::new("cut");
    let backend = Backend::new();
    let mut proxy = balancer(backend.port, &log, &["--drain", "1"]);
    let mut client = Client::connect(proxy.port);
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut server = backend.accept();
    server.expect("GET /slow ");
    proxy.signal(libc::SIGTERM);
    proxy.exit_code(PATIENCE);
    let line = columns(&log.lines(1)[0]);
    assert_eq!((&line[3][..], &line[4][..], &line[9][..]), ("GET", "/slow", "shutdown"), "{line:?}");
}

/// Standard error tells why, once a second for each kind, and how many more there were.
#[test]
fn failures_are_told_with_their_reason() {
    if plain() {
        return;
    }
    let closed = free_port();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[closed]), "--set", "backend.eject_after=0"]);
    let ask = |request: &str, status: &str| {
        let mut client = Client::connect(proxy.port);
        client.send(request);
        let got = client.rest();
        assert!(got.starts_with(format!("HTTP/1.1 {status} ").as_bytes()), "{}", String::from_utf8_lossy(&got));
        assert!(String::from_utf8_lossy(&got).contains("\r\ndate: "), "RFC 9110 section 6.6.1");
    };
    let good = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let begin = Instant::now();
    (0..20).for_each(|_| ask(good, "502"));
    ask("BAD\r\n\r\n", "400");
    let seconds = begin.elapsed().as_secs() as usize + 2;
    admin::eventually("all are told", || told(&proxy.output()).1 == 20);
    let said = proxy.output();
    let (lines, _) = told(&said);
    assert!((1..=seconds).contains(&lines), "{said}");
    let first = said.lines().find(|l| l.contains("http_balancer.client: refused at ")).unwrap_or_default();
    assert!(
        first.contains("client 127.0.0.1:")
            && first.contains(&format!("backend 127.0.0.1:{closed}"))
            && first.contains("answered 502"),
        "{said}"
    );
    assert!(!said.contains("malformed"), "what a client does wrong is not told: {said}");
}

/// The number of lines about a refused connection, and of connections in them.
fn told(said: &str) -> (usize, usize) {
    let lines: Vec<&str> = said.lines().filter(|l| l.contains("http_balancer.client: refused at ")).collect();
    let more = said
        .lines()
        .filter(|l| l.contains("http_balancer"))
        .filter_map(|l| l.split_once(" more")?.0.rsplit(' ').next()?.parse::<usize>().ok());
    (lines.len(), lines.len() + more.sum::<usize>())
}

/// A handler's own mistake is logged with its place.
#[test]
fn a_mistake_of_the_program_is_told_with_its_place() {
    if plain() {
        return;
    }
    let proxy = Wireloom::run("static_web", &["--set", "content_type=a\nb"]);
    let mut client = Client::connect(proxy.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(client.rest().starts_with(b"HTTP/1.1 500 "));
    admin::eventually("a line", || proxy.output().contains("constraint at "));
    let said = proxy.output();
    assert!(
        said.lines()
            .any(|l| l.contains("static_web") && l.contains(": client 127.0.0.1:") && l.contains("answered 500")),
        "{said}"
    );
}

/// A scraper's own parser reads `/metrics`, and the numbers are those of the traffic.
#[test]
fn prometheus_reads_the_metrics() {
    if plain() {
        return;
    }
    let Some(python) = python::with("prometheus_client") else { return };
    let (backend, closed, page, log) = (Backend::new(), free_port(), free_port(), LogFile::new("scraped"));
    let list = servers(&[backend.port, closed]);
    let args = [
        "--set",
        &list,
        "--set",
        "backend.eject_after=0",
        "--set",
        "backend.failover=none",
        "--admin",
        &page.to_string(),
        "--access-log",
        &log.name(),
    ];
    let proxy = Wireloom::run("http_balancer", &args);
    let mut seen = [0; 2];
    for _ in 0..20 {
        let mut client = Client::connect(proxy.port);
        client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        // It is with the backend, or with the one that refuses.
        let mut server = None;
        while server.is_none() && !client.has_something() {
            server = backend.accept_within(Duration::from_millis(5));
        }
        if let Some(mut server) = server {
            server.take_until(b"\r\n\r\n");
            server.send("HTTP/1.1 204 No\r\nConnection: close\r\n\r\n");
            server.finish_sending();
        }
        let got = client.rest();
        seen[usize::from(got.starts_with(b"HTTP/1.1 502"))] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    log.lines(20);
    let script = wireloom_tests::root().join("tests/clients/metrics.py");
    let mut c = std::process::Command::new(python);
    c.arg(script).arg(page.to_string()).arg(backend.port.to_string()).args(seen.map(|n| n.to_string()));
    let out = wireloom_tests::finish(&mut c);
    assert!(out.code == Some(0) && out.out.contains("good"), "{}", out.text);
}
