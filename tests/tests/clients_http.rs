//! Real HTTP clients (curl, wrk, ab) through `http_balancer` before nginx and Python, and at
//! `static_web`.

use std::path::PathBuf;
use std::process::Command;
use wireloom_tests::{finish, plain, python, require_tool, servers, Client, Process, Wireloom};

struct Balanced {
    front: Process,
    _backends: Vec<Process>,
}

fn before_nginx() -> Balanced {
    let server = "location / { return 200 'hello from nginx'; } location /nothing { return 204; } location /big { alias /tmp/; }";
    let backends = vec![Process::nginx(server), Process::nginx(server)];
    balanced(backends)
}

fn before_python() -> Balanced {
    balanced(vec![Process::python_http(), Process::python_http()])
}

fn balanced(mut backends: Vec<Process>) -> Balanced {
    if plain() {
        return Balanced { front: backends.remove(0), _backends: backends };
    }
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    Balanced { front: Wireloom::run("http_balancer", &["--set", &servers(&ports)]), _backends: backends }
}

/// Runs curl; its output. Fails unless curl ends well.
fn curl(port: u16, path: &str, args: &[&str]) -> Vec<u8> {
    let url = format!("http://127.0.0.1:{port}{path}");
    let out = Command::new("curl").args(["-sS", "--max-time", "20"]).args(args).arg(&url).output().expect("curl runs");
    assert!(out.status.success(), "curl {args:?} {path}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// A head in lower case, without blanks after the colons.
fn head_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_lowercase().replace(": ", ":")
}

fn temporary(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("wireloom-test-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder is writable");
    path
}

#[test]
fn curl_gets_bodies_of_all_kinds() {
    if !require_tool("curl") {
        return;
    }
    let b = before_python();
    let port = b.front.port;
    for size in [0, 1, 4096, 100_000, 5_000_000] {
        for kind in ["size", "chunked", "close"] {
            for version in ["--http1.1", "--http1.0"] {
                // HTTP/1.0 knows no chunks: a server that sends them to it anyway is not this
                // test's matter.
                if (kind, version) == ("chunked", "--http1.0") {
                    continue;
                }
                let got = curl(port, &format!("/{kind}/{size}"), &[version]);
                assert!(got == python::body(size), "/{kind}/{size} {version}: {} bytes", got.len());
            }
        }
    }
    let head = head_of(&curl(port, "/size/1000", &["-I"]));
    assert!(head.starts_with("http/1.1 200 ") && head.contains("content-length:1000\r\n"), "{head}");
    assert!(
        head.contains("x-seen-method:head\r\n") && (plain() || head.contains("x-seen-for:127.0.0.1\r\n")),
        "{head}"
    );
    // Two requests on one connection.
    let url = format!("http://127.0.0.1:{port}/size/10");
    let twice = curl(port, "/size/10", &["-w", "%{num_connects}", &url]);
    assert_eq!(twice, b"0123456789101234567890", "{}", String::from_utf8_lossy(&twice));
}

#[test]
fn curl_posts_and_uploads() {
    if !require_tool("curl") {
        return;
    }
    let b = before_python();
    let port = b.front.port;
    assert_eq!(curl(port, "/", &["-d", "a=b&c=d"]), b"a=b&c=d");
    assert_eq!(curl(port, "/", &["-d", "a=b", "--http1.0"]), b"a=b");
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let file = temporary("upload", &large);
    let name = file.to_str().expect("a plain name");
    let data = format!("@{name}");
    assert!(curl(port, "/", &["--data-binary", &data]) == large, "Content-Length");
    assert!(curl(port, "/", &["-T", name, "-H", "Transfer-Encoding: chunked"]) == large, "chunked");
    assert!(curl(port, "/", &["--data-binary", &data, "-H", "Expect: 100-continue"]) == large, "Expect");
    assert!(curl(port, "/", &["--data-binary", &data, "-H", "Expect:", "--limit-rate", "6M"]) == large, "slowly");
    std::fs::remove_file(file).ok();
}

/// The tool's report must show no error.
fn wrk(port: u16, path: &str, args: &[&str]) {
    let url = format!("http://127.0.0.1:{port}{path}");
    let out = finish(Command::new("wrk").args(["-t1", "-d2s"]).args(args).arg(&url));
    assert_eq!(out.code, Some(0), "{}", out.text);
    assert!(!out.text.contains("Socket errors") && !out.text.contains("Non-2xx"), "wrk {args:?}: {}", out.text);
    let rate =
        out.text.lines().find_map(|l| l.strip_prefix("Requests/sec:")).and_then(|n| n.trim().parse::<f64>().ok());
    assert!(rate > Some(50.0), "{}", out.text);
    eprintln!("wrk {args:?} {path}: {rate:?} requests/s");
}

fn ab(port: u16, path: &str, n: u32, args: &[&str]) {
    let url = format!("http://127.0.0.1:{port}{path}");
    let n = n.to_string();
    let out = finish(Command::new("ab").args(["-q", "-s", "20", "-n", &n, "-c", "20"]).args(args).arg(&url));
    assert_eq!(out.code, Some(0), "{}", out.text);
    let number = |name: &str| {
        let line = out.text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("0");
        line.trim_start_matches(':').trim().to_string()
    };
    assert_eq!((number("Complete requests"), number("Failed requests")), (n, "0".into()), "ab {args:?}: {}", out.text);
    assert!(!out.text.contains("Non-2xx"), "{}", out.text);
}

#[test]
fn wrk_and_ab_through_the_balancer() {
    if !require_tool("wrk") || !require_tool("ab") {
        return;
    }
    let b = before_nginx();
    let port = b.front.port;
    assert_eq!(curl(port, "/", &[]), b"hello from nginx");
    wrk(port, "/", &["-c", "64"]);
    wrk(port, "/", &["-c", "16", "-H", "Connection: close"]);
    ab(port, "/", 5000, &["-k"]);
    ab(port, "/", 2000, &[]);
    // Without -k: ab waits for the close after an answer without a length, as 204 is.
    ab(port, "/nothing", 1000, &[]);
    ab(port, "/", 1000, &["-k", "-i"]);
    let file = temporary("ab-body", &[b'x'; 20_000]);
    let p = before_python();
    // Python keeps HTTP/1.0 connections without saying so, which ab does not understand; the
    // balancer says so.
    let keep: &[&str] = if plain() { &[] } else { &["-k"] };
    ab(p.front.port, "/", 400, &[keep, &["-T", "text/plain", "-p", file.to_str().expect("a plain name")]].concat());
    ab(p.front.port, "/size/100000", 400, keep);
    std::fs::remove_file(file).ok();
}

#[test]
fn static_web_serves_curl_wrk_and_ab() {
    if !require_tool("wrk") || !require_tool("ab") {
        return;
    }
    let web = Wireloom::run("static_web", &["--set", "body=some body", "--set", "content_type=text/x"]);
    let port = web.port;
    assert_eq!(curl(port, "/any/path?x=y", &[]), b"some body");
    assert_eq!(curl(port, "/", &["--http1.0"]), b"some body");
    assert_eq!(curl(port, "/", &["-d", "ignored"]), b"some body");
    assert_eq!(curl(port, "/", &["-X", "DELETE"]), b"some body");
    let head = head_of(&curl(port, "/", &["-I"]));
    assert!(
        head.starts_with("http/1.1 200 ok\r\n")
            && head.contains("content-length:9\r\n")
            && head.contains("content-type:text/x\r\n")
    );
    wrk(port, "/", &["-c", "128"]);
    wrk(port, "/", &["-c", "32", "-H", "Connection: close"]);
    ab(port, "/", 10_000, &["-k"]);
    ab(port, "/", 3000, &[]);
    let missing = Wireloom::run("static_web", &["--set", "status=404", "--set", "body="]);
    let code = curl(missing.port, "/", &["-o", "/dev/null", "-w", "%{http_code} %{size_download}"]);
    assert_eq!(String::from_utf8_lossy(&code), "404 0");
}

/// Statuses without a body have none, nor a length (RFC 9110 section 8.6), and the connection stays
/// in step.
#[test]
fn static_web_statuses_without_a_body() {
    for status in ["204", "304"] {
        let web = Wireloom::run("static_web", &["--set", &format!("status={status}"), "--set", "body=xyz"]);
        let mut c = Client::connect(web.port);
        c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
        for _ in 0..3 {
            let head = c.take_head();
            assert!(head.starts_with(&format!("http/1.1 {status} ")), "{head}");
            assert!(status != "204" || !head.contains("content-length"), "{head}");
        }
        c.expect_nothing_more();
    }
}

#[test]
fn static_web_pipelines_and_closes() {
    let web = Wireloom::run("static_web", &["--set", "body=B"]);
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut c = Client::connect(web.port);
    c.send(get);
    let one = undated_answer(&mut c);
    assert!(one.starts_with("http/1.1 200 ok\r\n") && one.ends_with("\r\n\r\nB"), "{one}");
    let same = |c: &mut Client, times: usize| (0..times).for_each(|_| assert_eq!(undated_answer(c), one));
    c.send(get.repeat(1000));
    same(&mut c, 1000);
    c.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".to_string() + get);
    assert_eq!(undated(&c.take_head()) + "B", one);
    same(&mut c, 1);
    c.expect_nothing_more();
    c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_string() + get);
    same(&mut c, 2);
    c.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(c.take_head().contains("connection: close"));
    c.expect("B").expect_closed();
    for n in [1, 3, 10] {
        let mut c = Client::connect(web.port);
        c.send_in_pieces(get.repeat(3).as_bytes(), n);
        same(&mut c, 3);
    }
}

/// An answer with a body of one byte, without its date: two answers may lie on both sides of a
/// second's end.
fn undated_answer(c: &mut Client) -> String {
    let head = undated(&c.take_head());
    head + &String::from_utf8_lossy(&c.take(1))
}

/// A head without its `date`, which every answer of static_web has.
fn undated(head: &str) -> String {
    let (date, others): (Vec<&str>, Vec<&str>) = head.split_inclusive("\r\n").partition(|l| l.starts_with("date: "));
    assert_eq!(date.len(), 1, "{head}");
    others.concat()
}

/// A backend dies under load: its requests under way are lost, the other backend serves the rest.
#[test]
fn a_backend_dies_under_wrk() {
    if !require_tool("wrk") {
        return;
    }
    let mut backends =
        [Process::nginx("location / { return 200 ok; }"), Process::nginx("location / { return 200 ok; }")];
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let front = Wireloom::run("http_balancer", &["--set", &servers(&ports)]);
    let url = format!("http://127.0.0.1:{}/", front.port);
    let load = std::thread::spawn(move || finish(Command::new("wrk").args(["-t1", "-c32", "-d3s"]).arg(&url)));
    std::thread::sleep(std::time::Duration::from_millis(1000));
    backends[0].kill();
    let out = load.join().expect("wrk ends");
    assert_eq!(out.code, Some(0), "{}", out.text);
    let errors = out
        .text
        .lines()
        .find_map(|l| l.trim().strip_prefix("Non-2xx or 3xx responses:"))
        .map_or(0, |n| n.trim().parse().unwrap_or(u64::MAX));
    // Requests under way are lost with the backend, and a few more until it is ejected; sticky
    // clients move then.
    assert!(errors < 500, "{}", out.text);
    for _ in 0..50 {
        assert_eq!(curl(front.port, "/", &[]), b"ok");
    }
}
