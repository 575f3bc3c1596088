//! The end of a service, and a service that is full: no request is lost without an answer or an
//! end.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_tests::admin::eventually;
use wireloom_tests::{servers, Backend, Client, Process, Wireloom, PATIENCE};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A drain closes a connection that has had no request for 250 ms. A client whose requests are less
/// than this apart has none that is closed so.
const IDLE: Duration = Duration::from_millis(200);

/// The counts of a client that sends one request after the other.
#[derive(Default)]
struct Seen {
    answers: AtomicUsize,
    told: AtomicUsize,
    unexpected: AtomicUsize,
    /// Ends of connections that the service could take for idle: the machine had stopped their
    /// client.
    stopped: AtomicUsize,
    /// Clients that have had an answer.
    begun: AtomicUsize,
}

/// An answer's head and body are read; true if it says that the connection ends.
fn answer(stream: &mut TcpStream) -> std::io::Result<bool> {
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => seen.extend_from_slice(&buffer[..n]),
        }
        let text = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length: usize = head
            .split("content-length: ")
            .nth(1)
            .and_then(|l| l.split("\r\n").next())
            .and_then(|l| l.parse().ok())
            .unwrap_or(0);
        if body.len() >= length {
            return Ok(head.contains("connection: close"));
        }
    }
}

/// Asks until told that the connection ends, then connects anew, as clients with connections kept
/// alive do.
fn ask(port: u16, stop: &AtomicBool, seen: &Seen) {
    let mut begun = false;
    while !stop.load(Ordering::Relaxed) {
        // The listener is gone: the request goes elsewhere.
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut before = Instant::now();
        loop {
            let asks = Instant::now();
            let idle = asks - std::mem::replace(&mut before, asks);
            match stream.write_all(GET).and_then(|()| answer(&mut stream)) {
                Ok(last) => {
                    seen.answers.fetch_add(1, Ordering::Relaxed);
                    if !std::mem::replace(&mut begun, true) {
                        seen.begun.fetch_add(1, Ordering::Relaxed);
                    }
                    if last {
                        seen.told.fetch_add(1, Ordering::Relaxed);
                        // The server ends in order.
                        let end = stream.read(&mut [0]);
                        if !matches!(end, Ok(0)) {
                            seen.unexpected.fetch_add(1, Ordering::Relaxed);
                        }
                        break;
                    }
                }
                Err(_) => {
                    let of = if idle < IDLE { &seen.unexpected } else { &seen.stopped };
                    of.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}

/// SIGTERM under 16 busy clients: each gets its end announced in an answer, and none sees an
/// unannounced one.
fn drains(mut front: Process) {
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let port = front.port;
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let (stop, seen) = (stop.clone(), seen.clone());
            std::thread::spawn(move || ask(port, &stop, &seen))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    eventually("all clients are served", || seen.begun.load(Ordering::Relaxed) == 16);
    let before = seen.answers.load(Ordering::Relaxed);
    front.signal(libc::SIGTERM);
    assert_eq!(front.exit(), Some(0), "{}", front.output());
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|c| c.join().expect("a client ends"));
    assert!(before >= 16, "only {before} answers before the drain");
    let read = |n: &AtomicUsize| n.load(Ordering::Relaxed);
    let (told, unexpected, stopped) = (read(&seen.told), read(&seen.unexpected), read(&seen.stopped));
    assert_eq!(unexpected, 0, "{told} were told");
    assert!(told >= 1 && told + stopped >= 16, "only {told} of 16 were told, {stopped} had been stopped");
}

#[test]
fn a_drain_of_a_server_loses_no_request() {
    drains(Wireloom::run("static_web", &["--cores", "0"]));
    drains(Wireloom::run("static_web", &["--engine", "uring"]));
    drains(Wireloom::run("static_web", &["--interpret"]));
}

#[test]
fn a_drain_of_a_proxy_loses_no_request() {
    let web = Wireloom::run("static_web", &[]);
    drains(Wireloom::run("http_balancer", &["--set", &servers(&[web.port])]));
    drains(Wireloom::run("http_balancer", &["--interpret", "--set", &servers(&[web.port])]));
}

/// The answer to a request that was under way when the drain began announces the end, too.
#[test]
fn an_answer_under_way_says_that_it_is_the_last() {
    let backend = Backend::new();
    let mut proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    let mut c = Client::connect(proxy.port);
    c.send(GET);
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    proxy.signal(libc::SIGTERM);
    while TcpStream::connect(("127.0.0.1", proxy.port)).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let head = c.take_head().to_ascii_lowercase();
    assert!(head.contains("connection: close"), "{head}");
    c.expect("hi").expect_closed();
    assert_eq!(proxy.exit(), Some(0), "{}", proxy.output());
}

/// A port without a place: a client waits for one, and gets an error after a while. No client is
/// reset.
fn full(engine: &str) {
    let inside_of = |wait: &str| {
        let sets = ["--set", "body=done", "--set", "client.max_connections=2", "--set", wait];
        let web = Wireloom::run("static_web", &[&["--engine", engine], &sets[..]].concat());
        let mut inside: Vec<Client> = (0..2).map(|_| Client::connect(web.port)).collect();
        for c in &mut inside {
            c.send(GET).take_until(b"done");
        }
        (web, inside)
    };
    // Waits for a place, as long as it takes until one is free.
    let (web, mut inside) = inside_of("client.accept_timeout=60s");
    let mut third = Client::connect(web.port);
    third.send(GET);
    std::thread::sleep(Duration::from_millis(150));
    inside.pop();
    let answer = String::from_utf8_lossy(&third.take_until(b"\r\n")).into_owned();
    assert!(
        answer.starts_with("HTTP/1.1 200 ") || engine == "uring" && answer.starts_with("HTTP/1.1 503 "),
        "{engine}: {answer}"
    );
    drop(web);
    // None is free.
    let (web, mut inside) = inside_of("client.accept_timeout=500ms");
    let mut late: Vec<Client> = (0..8).map(|_| Client::connect(web.port)).collect();
    for c in &mut late {
        c.send(GET);
    }
    for c in &mut late {
        let head = c.take_head().to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 503 ") && head.contains("connection: close"), "{engine}: {head}");
        c.take_until(b"503 Service Unavailable\n");
        let end = c.stream.read(&mut [0]);
        assert!(
            matches!(&end, Ok(0)) || matches!(&end, Err(e) if e.kind() == ErrorKind::WouldBlock),
            "{engine}: {end:?}"
        );
    }
    for c in &mut inside {
        c.send(GET).take_until(b"done");
    }
}

#[test]
fn a_full_service_lets_wait_and_then_says_so() {
    full("epoll");
    full("uring");
}

/// A client that has left costs the backend nothing more, if `cancel` says so.
#[test]
fn a_client_that_leaves_cancels_its_request() {
    for cancel in [true, false] {
        let backend = Backend::new();
        let proxy = Wireloom::run(
            "http_balancer",
            &["--set", &servers(&[backend.port]), "--set", &format!("client.cancel={cancel}")],
        );
        let mut c = Client::connect(proxy.port);
        c.send(GET);
        let mut server = backend.accept();
        server.take_until(b"\r\n\r\n");
        c.finish_sending();
        if cancel {
            server.expect_closed();
        } else {
            server.expect_silence(Duration::from_millis(300));
        }
    }
}

/// A long poll is silent for longer than a stream may be, an event stream for longer than an answer
/// may take to begin.
#[test]
fn silence_before_an_answer_and_within_it_have_times_of_their_own() {
    let backend = Backend::new();
    let sets = [
        "--set",
        &servers(&[backend.port]),
        "--set",
        "backend.answer_timeout=8s",
        "--set",
        "backend.stream_timeout=1s",
    ];
    let proxy = Wireloom::run("http_balancer", &sets);
    let mut c = Client::connect(proxy.port);
    c.send(GET);
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    std::thread::sleep(Duration::from_millis(2500));
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1");
    assert!(c.take_head().to_ascii_uppercase().starts_with("HTTP/1.1 200 "));
    // The stream stops: the client is not left to believe that it is whole.
    c.take_until(b"1");
    c.expect_closed();
}
