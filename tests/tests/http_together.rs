//! `http_balancer` with `pipeline=auto`: requests that arrive together go out together, to backends
//! that are quick (docs/operations.md). Here on real sockets. All clients get their own answers,
//! slow answers and endless ones hold up no client, and an unfit backend is left alone. Each rule
//! is tested in full in the runtime (`core/pipelining_policy.rs`, `core/tests/together.rs`).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_tests::{admin, free_port, require_tool, servers, thrice, Client, Process, Wireloom, CLOSING};

const CLIENTS: usize = 24;
/// Requests that a client sends at once.
const AT_ONCE: usize = 4;

/// The balancer in front of one backend, and many clients.
struct Crowd {
    _proxy: Process,
    port: u16,
    admin: u16,
    clients: Vec<Client>,
    asked: usize,
}

impl Crowd {
    fn before(backend: u16) -> Crowd {
        let admin = free_port();
        let proxy = Wireloom::run(
            "http_balancer",
            &[
                "--set",
                &servers(&[backend]),
                "--set",
                "backend.pipeline=auto",
                "--cores",
                "0",
                "--admin",
                &format!("127.0.0.1:{admin}"),
            ],
        );
        let port = proxy.port;
        let clients = (0..CLIENTS).map(|_| Client::connect(port)).collect();
        Crowd { _proxy: proxy, port, admin, clients, asked: 0 }
    }

    /// All ask at once, and get the right answers; how long that took.
    fn round(&mut self) -> Duration {
        let begin = Instant::now();
        let path = |c: usize, n: usize| format!("/{c}.{n}");
        let numbers = self.asked..self.asked + AT_ONCE;
        self.asked += AT_ONCE;
        for (c, client) in self.clients.iter_mut().enumerate() {
            let requests: Vec<String> =
                numbers.clone().map(|n| format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", path(c, n))).collect();
            client.send(requests.concat());
        }
        for (c, client) in self.clients.iter_mut().enumerate() {
            for n in numbers.clone() {
                let head = client.take_head();
                assert!(head.starts_with("http/1.1 200"), "{head}");
                client.expect(path(c, n));
            }
        }
        begin.elapsed()
    }

    fn counted(&self, what: &str) -> u64 {
        admin::port_of(&admin::status(self.admin), "backend")[what].as_u64().expect("a number")
    }

    /// Until so many requests have shared connections. False if that cannot be. Requests share only
    /// while answers come within some 20 ms (`core/pipelining_policy.rs`), which is too much for a
    /// machine that is slow or busy.
    fn share(&mut self, least: u64) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        let mut times = Vec::new();
        while self.counted("pipelined") < least {
            times.push(self.round());
            if Instant::now() > until {
                times.sort();
                let (most, slow) = (times[times.len() / 2], times[times.len() * 99 / 100]);
                assert!(slow > Duration::from_millis(20), "they never share: rounds of {most:?}, {slow:?}");
                eprintln!("SKIPPED: this machine is too busy for shared connections: rounds of {most:?}, {slow:?}");
                return false;
            }
        }
        true
    }
}

/// A backend that handles one request of a connection after the other, and connections at once.
struct Backend {
    port: u16,
    served: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Backend {
    /// `drops`: it forgets bytes that it has read behind a request.
    fn start(drops: bool) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (served, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, ended) = (served.clone(), stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten().take_while(|_| !ended.load(Relaxed)) {
                let counter = counter.clone();
                std::thread::spawn(move || serve(stream, drops, &counter));
            }
        });
        Backend { port, served, stop }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(mut stream: TcpStream, drops: bool, served: &AtomicUsize) {
    stream.set_nodelay(true).expect("a socket");
    let (mut input, mut piece) = (Vec::new(), [0; 16384]);
    loop {
        let Some(end) = input.windows(4).position(|w| w == b"\r\n\r\n") else {
            match stream.read(&mut piece) {
                Ok(n) if n > 0 => input.extend_from_slice(&piece[..n]),
                _ => return,
            }
            continue;
        };
        let head: Vec<u8> = input.drain(..end + 4).collect();
        if drops {
            input.clear();
        }
        let path = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_string();
        if answer(&mut stream, &path).is_err() {
            return;
        }
        served.fetch_add(1, Relaxed);
    }
}

fn answer(stream: &mut TcpStream, path: &str) -> std::io::Result<()> {
    match path {
        "/slow" => std::thread::sleep(SLOW),
        "/events" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(b"5\r\ntick\n\r\n")?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        _ => {}
    }
    stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()).as_bytes())
}

const SLOW: Duration = Duration::from_millis(1500);
/// A round waits for no slow answer. It takes some milliseconds; the rest is for machines that do
/// other work.
const SOON: Duration = Duration::from_millis(800);

/// nginx closes connections now and then; requests that share are answered by the right server
/// text, others go between them.
#[test]
fn everybody_gets_their_own_answer() {
    if !require_tool("nginx") {
        return;
    }
    let nginx = Process::nginx("keepalive_requests 500; location / { return 200 \"$request_uri\"; }");
    let mut c = Crowd::before(nginx.port);
    if !c.share(500) {
        return;
    }
    let mut other = Client::connect(c.port);
    for n in 0..100 {
        other.send(format!(
            "HEAD /{n} HTTP/1.1\r\nHost: a\r\n\r\nPOST /{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
        ));
        c.round();
        assert!(other.take_head().starts_with("http/1.1 200"));
        other.take_head();
        other.expect(format!("/{n}"));
    }
    assert_eq!(admin::faults(&admin::status(c.admin), "lost"), 0);
}

#[test]
fn slow_answers_and_endless_ones_hold_up_nobody() {
    thrice(beside_slow_answers_and_endless_ones);
}

fn beside_slow_answers_and_endless_ones() -> Result<(), String> {
    let backend = Backend::start(false);
    let mut c = Crowd::before(backend.port);
    if !c.share(500) {
        return Ok(());
    }
    let mut events = Client::connect(c.port);
    events.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        let mut slow = Client::connect(c.port);
        // In the midst of the others.
        let path = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
        slow.send(path);
        let sent = Instant::now();
        while sent.elapsed() < SLOW {
            longest = longest.max(c.round());
        }
        slow.take_head();
        slow.expect("/slow");
        if sent.elapsed() > SLOW + SOON {
            return Err(format!("{:?}, {:?}", sent.elapsed(), admin::status(c.admin)["apps"][0]["ports"]));
        }
    }
    soon(longest)?;
    assert!(events.take_head().contains("chunked"));
    let ticks = events.take(8 * 40);
    assert!(ticks.chunks(10).all(|t| t.starts_with(b"5\r\ntick\n")));
    Ok(())
}

fn soon(longest: Duration) -> Result<(), String> {
    (longest < SOON).then_some(()).ok_or(format!("a round took {longest:?}"))
}

/// The slow requests come from clients of the crowd, in one write with quick ones, so that they lie
/// on shared connections.
#[test]
fn a_slow_answer_in_front_of_others_holds_them_up_for_a_moment() {
    thrice(behind_slow_answers);
}

fn behind_slow_answers() -> Result<(), String> {
    let backend = Backend::start(false);
    let mut c = Crowd::before(backend.port);
    if !c.share(500) {
        return Ok(());
    }
    let mut slow: Vec<Client> = (0..8).map(|_| Client::connect(c.port)).collect();
    slow.iter_mut().for_each(|s| {
        s.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    });
    soon((0..20).map(|_| c.round()).max().expect("rounds"))?;
    for s in &mut slow {
        s.take_head();
        s.expect("/slow");
    }
    let shared = c.counted("pipelined");
    (0..20).for_each(|_| {
        c.round();
    });
    (c.counted("pipelined") == shared).then_some(()).ok_or("for a while nothing is shared".into())
}

#[test]
fn a_backend_that_forgets_what_lies_behind_is_asked_again() {
    let backend = Backend::start(true);
    let mut c = Crowd::before(backend.port);
    if !c.share(1) {
        return;
    }
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        longest = longest.max(c.round());
    }
    // An answer that never comes would take a minute.
    assert!(longest < CLOSING, "a round took {longest:?}");
    let (shared, again) = (c.counted("pipelined"), c.counted("retries"));
    assert!(shared < 300 && again <= shared, "{shared} shared, {again} sent again");
    assert_eq!(backend.served.load(Relaxed), c.asked * CLIENTS, "each is answered once");
    assert_eq!(admin::faults(&admin::status(c.admin), "timeout"), 0);
}
