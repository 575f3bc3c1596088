//! Faults around `http_balancer` on real sockets: lost, refusing, silent and half-open backends;
//! slow and vanishing clients.

use std::time::{Duration, Instant};
use wireloom_tests::client::show;
use wireloom_tests::folder::Folder;
use wireloom_tests::{free_port, servers, Backend, Client, Process, Wireloom, CLOSING, PATIENCE};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn balancer(ports: &[u16], options: &[&str]) -> Process {
    let list = servers(ports);
    let mut args = vec!["--set", list.as_str()];
    options.iter().for_each(|o| args.extend(["--set", o]));
    Wireloom::run("http_balancer", &args)
}

fn status(client: &mut Client) -> String {
    let head = client.take_until(b"\r\n\r\n");
    String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or("").to_string()
}

/// One request and its answer: the proxy still works.
fn still_serves(proxy: &Process, backend: &Backend) {
    let mut client = Client::connect(proxy.port);
    client.send(GET);
    // A connection of the pool may be used, which no script reads here: only fresh ones are
    // accepted.
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(status(&mut client), "200");
    client.expect("ok");
}

/// A backend lost in mid-answer: the client sees that the answer is cut, by length, by chunks,
/// gently or by a reset.
#[test]
fn a_backend_lost_in_mid_answer_is_seen_as_truncation() {
    let backend = Backend::new();
    let proxy = balancer(&[backend.port], &["backend.eject_after=1000"]);
    for reset in [false, true] {
        for (head, part, end) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "x".repeat(100), None),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a\r\n0123456789\r\n".into(), Some("0\r\n\r\n")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a\r\n01234".into(), Some("0\r\n\r\n")),
        ] {
            let mut client = Client::connect(proxy.port);
            client.send(GET);
            let mut server = backend.accept();
            server.take_until(b"\r\n\r\n");
            server.send(head).send(&part);
            assert_eq!(status(&mut client), "200");
            client.take_until(part.rsplit('\n').find(|p| !p.is_empty()).unwrap_or(&part).trim_end().as_bytes());
            if reset {
                server.reset();
            } else {
                drop(server);
            }
            let rest = client.rest();
            assert!(
                rest.len() < 900 && end.is_none_or(|e| !rest.ends_with(e.as_bytes())),
                "the cut is hidden: {}",
                show(&rest)
            );
        }
    }
    still_serves(&proxy, &backend);
}

#[test]
fn a_refusing_backend_is_502_and_returns() {
    let mut backend = Backend::refusing();
    let proxy = balancer(&[backend.port], &["backend.eject_time=100ms"]);
    for _ in 0..10 {
        let mut client = Client::connect(proxy.port);
        client.send(GET);
        assert_eq!(status(&mut client), "502");
    }
    backend.listen();
    // Every connection has a thread: the proxy may keep one idle whose client has gone while it was
    // made.
    let server = std::thread::spawn(move || {
        while let Some(mut server) = backend.accept_within(PATIENCE) {
            std::thread::spawn(move || {
                server.take_until(b"\r\n\r\n");
                server.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            });
        }
    });
    let until = Instant::now() + PATIENCE;
    let mut answers = Vec::new();
    while answers.last().is_none_or(|a| a != "204") {
        assert!(Instant::now() < until, "the backend is back but not used: {answers:?}");
        let mut client = Client::connect(proxy.port);
        client.send(GET);
        answers.push(status(&mut client));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(answers.iter().rev().skip(1).all(|a| a == "502"), "{answers:?}");
    drop(proxy);
    drop(server);
}

/// With one of two backends gone, every new client is served by the other, from the first on: the
/// lost one has seen nothing.
#[test]
fn clients_move_away_from_a_lost_backend() {
    let good = Process::nginx("location / { return 200 ok; }");
    let gone = Backend::refusing();
    let proxy = balancer(&[gone.port, good.port], &["backend.eject_after=2", "backend.eject_time=30s"]);
    let mut codes = Vec::new();
    for _ in 0..40 {
        let mut client = Client::connect(proxy.port);
        client.send(GET);
        codes.push(status(&mut client));
    }
    assert!(codes.iter().all(|c| c == "200"), "{codes:?}");
}

#[test]
fn a_silent_backend_is_504() {
    let backend = Backend::new();
    let proxy = balancer(&[backend.port], &["backend.call_timeout=3s", "backend.eject_after=1000"]);
    let mut client = Client::connect(proxy.port);
    let start = Instant::now();
    client.send(GET);
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    assert_eq!(status(&mut client), "504");
    assert!(start.elapsed() > Duration::from_millis(2900) && start.elapsed() < CLOSING, "after {:?}", start.elapsed());
    // The late answer must not be anyone's.
    let mut next = Client::connect(proxy.port);
    next.send(GET);
    server.stream.set_nonblocking(false).ok();
    let _ = std::io::Write::write_all(&mut server.stream, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
    let mut fresh = backend.accept();
    fresh.take_until(b"\r\n\r\n");
    fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfresh");
    assert_eq!(status(&mut next), "200");
    next.expect("fresh");
}

/// A backend that stops in mid-answer: the client is not left waiting for ever.
#[test]
fn a_backend_silent_in_mid_answer_ends_the_answer() {
    let backend = Backend::new();
    let proxy = balancer(&[backend.port], &["backend.call_timeout=3s", "backend.eject_after=1000"]);
    let mut client = Client::connect(proxy.port);
    client.send(GET);
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome");
    assert_eq!(status(&mut client), "200");
    let rest = client.rest();
    assert_eq!(show(&rest), show(b"some"));
}

/// Half-open: the kernel accepts, the process is stopped. And a full backlog without any accept.
#[test]
fn a_stopped_backend_is_504() {
    let nginx = Process::nginx("location / { return 200 ok; }");
    let proxy = balancer(&[nginx.port], &["backend.call_timeout=3s", "backend.eject_after=1000"]);
    let mut client = Client::connect(proxy.port);
    client.send(GET);
    assert_eq!(status(&mut client), "200");
    client.expect("ok");
    nginx.stop();
    for _ in 0..2 {
        let mut late = Client::connect(proxy.port);
        late.send(GET);
        assert_eq!(status(&mut late), "504");
    }
    nginx.resume();
    let mut again = Client::connect(proxy.port);
    again.send(GET);
    assert_eq!(status(&mut again), "200");
    again.expect("ok");
}

#[test]
fn a_slow_client_is_408() {
    let backend = Backend::new();
    let proxy = balancer(&[backend.port], &["client.read_timeout=1s"]);
    let mut client = Client::connect(proxy.port);
    let start = Instant::now();
    client.send("GET / HT");
    assert_eq!(status(&mut client), "408");
    assert!(start.elapsed() > Duration::from_millis(900) && start.elapsed() < CLOSING, "after {:?}", start.elapsed());
    client.rest();
    // A byte now and then does not help.
    let mut client = Client::connect(proxy.port);
    let start = Instant::now();
    for byte in GET.as_bytes().iter().cycle() {
        if std::io::Write::write_all(&mut client.stream, &[*byte]).is_err() || start.elapsed() > CLOSING {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        if *byte == b'a' {
            break;
        }
    }
    assert_eq!(status(&mut client), "408");
    // A body that stops.
    let mut client = Client::connect(proxy.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nsome");
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    let rest = client.rest();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408 "), "{}", show(&rest));
    assert_eq!(server.rest(), b"some");
    still_serves(&proxy, &backend);
}

/// A client gone in mid-body: the backend sees a broken request, not a complete one; the proxy goes
/// on.
#[test]
fn a_client_gone_in_mid_body() {
    let backend = Backend::new();
    let proxy = balancer(&[backend.port], &[]);
    for (head, part) in [("Content-Length: 100", "some"), ("Transfer-Encoding: chunked", "4\r\nsome\r\n")] {
        for reset in [false, true] {
            let mut client = Client::connect(proxy.port);
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n{part}"));
            let mut server = backend.accept();
            server.take_until(b"\r\n\r\n");
            server.expect(part);
            if reset {
                client.reset();
            } else {
                drop(client);
            }
            server.expect_closed();
        }
    }
    still_serves(&proxy, &backend);
}

/// A client that goes while its request is with the backend: the late answer is not given to anyone
/// else.
#[test]
fn a_client_gone_before_its_answer() {
    let backend = Backend::new();
    let proxy = balancer(&[backend.port], &[]);
    let mut gone = Client::connect(proxy.port);
    gone.send("GET /gone HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut first = backend.accept();
    first.take_until(b"\r\n\r\n");
    gone.reset();
    std::thread::sleep(Duration::from_millis(30));
    let _ = std::io::Write::write_all(&mut first.stream, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngone");
    std::thread::sleep(Duration::from_millis(30));
    let mut next = Client::connect(proxy.port);
    next.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    // It may come over the first connection, once its answer was read to the end, or over a fresh
    // one.
    let mut server = backend.accept_or(first);
    assert!(show(&server.take_until(b"\r\n\r\n")).contains("/next"));
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext");
    assert_eq!(status(&mut next), "200");
    next.expect("next");
}

/// A client that has said all and closed its sending side still gets its answer.
#[test]
fn a_half_closed_client_gets_its_answer() {
    let backend = Backend::new();
    let proxy = balancer(&[backend.port], &[]);
    let mut client = Client::connect(proxy.port);
    client.send(GET).finish_sending();
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(status(&mut client), "200");
    client.expect("ok").expect_closed();
}

/// A pooled connection that the backend has closed in the meantime is no error for the next
/// request.
#[test]
fn a_stale_pooled_connection_is_replaced() {
    let backend = Backend::new();
    let proxy = balancer(&[backend.port], &[]);
    for _ in 0..5 {
        let mut client = Client::connect(proxy.port);
        client.send(GET);
        let mut server = backend.accept();
        server.take_until(b"\r\n\r\n");
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(status(&mut client), "200");
        drop(server);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A fault in a function of the library has the place of the program's call, with that in the
/// library behind it. The fault of a client has the place in the library.
#[test]
fn faults_in_the_library_name_the_call() {
    let folder = Folder::new("library-faults");
    let (port, page) = (free_port(), free_port());
    let text = [
        "use std.http",
        "app a {",
        "    port client = listen tcp(PORT) as http { hold_body 4KiB else pass }",
        "    fn page(u: bytes<200>) -> http.Response = http.ok(u, \"x\")",
        "    on client(req) {",
        "        let u = json(req.data else \"\").u.text else { reply http.error(400, \"no u\\n\"); return }",
        "        if req.target == \"/redirect\" { reply http.redirect(u); return }",
        "        reply page(slice(u, 0, 200))",
        "    }",
        "}",
    ];
    let path = folder.name_of("app.loom");
    std::fs::write(&path, text.join("\n").replace("PORT", &port.to_string())).expect("the folder is writable");
    let mut command = Wireloom::program();
    command.args(["run", &path, "--log-faults", "--control", "off", "--admin", &page.to_string()]);
    let mut app = Process::start_ours("library-faults", &mut command, port);
    let asked = |request: &str| {
        let mut client = Client::connect(port);
        client.send(request);
        // Lines of a kind come once in a second.
        std::thread::sleep(Duration::from_millis(1100));
        status(&mut client)
    };
    let json = "Host: a\r\nContent-Length: 14\r\n\r\n{\"u\":\"a\\r\\nb\"}";
    assert_eq!(asked(&format!("POST /redirect HTTP/1.1\r\n{json}")), "500");
    assert_eq!(asked(&format!("POST / HTTP/1.1\r\n{json}")), "500");
    assert_eq!(asked("nothing\r\n\r\n"), "400");
    let said = app.output();
    for place in ["app.loom:7:46", "app.loom:4:47"] {
        let line = said.lines().find(|l| l.contains(&format!("constraint at {}/{place}", folder.path().display())));
        let library = line.and_then(|l| l.split_once(", in ")).map_or("", |l| l.1);
        assert!(library.contains("std/http.loom:"), "{place}: {said}");
    }
    // The built-in library lies in no folder.
    let own = std::env::var_os("WIRELOOM_STD").is_none();
    assert!(!own || said.contains(": malformed at std/http.loom:"), "{said}");
    let mut metrics = Client::connect(page);
    let metrics = metrics.send("GET /metrics HTTP/1.0\r\n\r\n").rest();
    assert!(String::from_utf8_lossy(&metrics).contains("/app.loom:7:46\""), "{}", show(&metrics));
    app.kill();
}
