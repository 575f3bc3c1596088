//! Connections move from a core that is busy to one that sleeps, between two requests, and no
//! client notices.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wireloom_tests::admin::{eventually, metrics, sample, status};
use wireloom_tests::{alone, free_port, plain, root, thrice, Process, Wireloom, PATIENCE};

/// Some 100 µs of work, which depend on `k`.
fn request(k: u32) -> Vec<u8> {
    let size = 300 + k % 100;
    let data = (0..size).map(|i| (k + i * 3) as u8);
    150u32.to_be_bytes().into_iter().chain(size.to_be_bytes()).chain(data).collect()
}

/// A sum, and the number that the service gives the request.
fn answer(s: &mut TcpStream) -> std::io::Result<(u64, String)> {
    let mut head = [0; 12];
    s.read_exact(&mut head)?;
    let mut echo = vec![0; u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize];
    s.read_exact(&mut echo)?;
    Ok((u64::from_be_bytes(head[..8].try_into().expect("eight bytes")), String::from_utf8_lossy(&echo).into_owned()))
}

fn connect(port: u16) -> TcpStream {
    let s = TcpStream::connect(("127.0.0.1", port)).expect("the service accepts");
    s.set_read_timeout(Some(PATIENCE)).expect("a socket");
    s.set_nodelay(true).expect("a socket");
    s
}

/// The sums that are right, from a client for itself.
fn sums(port: u16) -> Vec<u64> {
    let mut s = connect(port);
    (0..64)
        .map(|k| {
            s.write_all(&request(k)).expect("it is sent");
            answer(&mut s).expect("an answer").0
        })
        .collect()
}

/// A drain closes a connection that has been idle for 250 ms. It is not so for a client that writes
/// within this time.
const IDLE: Duration = Duration::from_millis(200);

/// A client that has up to three bursts under way, and rests now and then for a `rest` of
/// milliseconds, until told to stop. Each answer must be that of its request, in order, and
/// numbered by the connection's own session. Only a connection that was idle in the meantime, since
/// the machine had stopped its client, may end before it.
fn ask(port: u16, right: &[u64], seed: u32, rest: u32, stop: &AtomicBool) {
    let mut s = connect(port);
    let mut write = s.try_clone().expect("a descriptor");
    let (tell, told) = std::sync::mpsc::sync_channel::<(Vec<u32>, Duration)>(2);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut k, mut begin, mut written) = (seed, Instant::now(), Instant::now());
            while !stop.load(Ordering::Relaxed) {
                let burst: Vec<u32> = (k..k + 1 + k % 80).map(|i| i % right.len() as u32).collect();
                let bytes: Vec<u8> = burst.iter().flat_map(|i| request(*i)).collect();
                // Cut anywhere: a request may be on its way while its connection moves.
                let (a, b) = bytes.split_at(bytes.len() * (k as usize % 10) / 10);
                let sent = write.write_all(a).and_then(|()| write.write_all(b));
                let gap = written.elapsed();
                assert!(sent.is_ok() || gap > IDLE, "{sent:?}");
                written = Instant::now();
                k = k.wrapping_mul(5).wrapping_add(burst.len() as u32 + seed) % 10_000;
                if tell.send((burst, gap)).is_err() || sent.is_err() {
                    return;
                }
                if rest > 0 && begin.elapsed() > Duration::from_millis(u64::from(60 + k % 60)) {
                    std::thread::sleep(Duration::from_millis(u64::from(rest + k % rest)));
                    begin = Instant::now();
                }
            }
        });
        let mut n = 0;
        for (k, gap) in told.into_iter().flat_map(|(burst, gap)| burst.into_iter().map(move |k| (k, gap))) {
            n += 1;
            match answer(&mut s) {
                Ok(a) => assert_eq!(a, (right[k as usize], n.to_string()), "client {seed}, request {n}"),
                Err(_) if gap > IDLE => return,
                Err(e) => panic!("client {seed}, request {n}: {e}"),
            }
        }
    });
}

/// Ends the clients, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn start(engine: &str, page: u16) -> Process {
    let file = root().join("tests/programs/pauses.loom").display().to_string() + ":numbers";
    Wireloom::run_file(&file, &["--cores", "0-1", "--engine", engine, "--admin", &format!("127.0.0.1:{page}")], |_| {})
}

fn moved(page: u16) -> u64 {
    sample(&metrics(page), "wireloom_connections_moved_total")
}

fn one_core() -> bool {
    plain() || std::thread::available_parallelism().map_or(1, |n| n.get()) < 2
}

/// The processor's time of each of a service's cores, in ticks.
fn work(of: &Process) -> Vec<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", of.child.id())).expect("threads");
    let mut all: Vec<(String, u64)> = tasks
        .filter_map(|t| {
            let text = std::fs::read_to_string(t.ok()?.path().join("stat")).ok()?;
            let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
            let field = |n: usize| rest.split_whitespace().nth(n)?.parse::<u64>().ok();
            name.starts_with("core-").then_some((name.to_string(), field(11)? + field(12)?))
        })
        .collect();
    all.sort();
    all.into_iter().map(|t| t.1).collect()
}

/// Whether two cores share the work, or how much each has done. Other load may keep one of them
/// from its processor for a while: one good second of several is enough.
fn both_work(service: &Process) -> Result<(), Vec<Vec<u64>>> {
    let mut seen = Vec::new();
    for time in [500, 1000, 2000, 4000] {
        let before = work(service);
        std::thread::sleep(Duration::from_millis(time));
        let used: Vec<u64> = before.iter().zip(work(service)).map(|(b, a)| a - b).collect();
        let (least, most) = (used.iter().min().copied().unwrap_or(0), used.iter().max().copied().unwrap_or(0));
        // Clients share the machine with the service: a core that has one may still wait for it.
        if used.len() == 2 && least >= 2 && least * 25 >= most {
            return Ok(());
        }
        seen.push(used);
    }
    Err(seen)
}

/// Two clients that keep the service busy are on a core each 100 ms later, whichever cores the
/// kernel has given them.
fn two_clients_have_a_core_each(engine: &str) {
    let _turn = alone();
    let page = free_port();
    let service = start(engine, page);
    let right = sums(service.port);
    let until = Instant::now() + 2 * PATIENCE;
    let mut tries = 0;
    // By chance they begin on one core in half of the tries.
    while tries < 6 || moved(page) == 0 {
        assert!(Instant::now() < until, "{engine}: no connection has moved in {tries} tries");
        tries += 1;
        let stop = AtomicBool::new(false);
        let used = std::thread::scope(|scope| {
            for k in 0..2 {
                let (right, stop, port) = (&right, &stop, service.port);
                scope.spawn(move || ask(port, right, 7 + k, 0, stop));
            }
            let _ends = Ends(&stop);
            std::thread::sleep(Duration::from_millis(200));
            both_work(&service).map_err(|used| format!("{engine}, try {tries}: {used:?} ticks of work"))
        });
        used.expect("both cores work");
    }
}

#[test]
fn two_clients_have_a_core_each_epoll() {
    if !one_core() {
        two_clients_have_a_core_each("epoll");
    }
}

#[test]
fn two_clients_have_a_core_each_uring() {
    if !one_core() {
        two_clients_have_a_core_each("uring");
    }
}

/// Clients that work and rest by turns move again and again: all answers reach their askers, in
/// order, and nothing is left.
#[test]
fn answers_reach_their_askers() {
    if one_core() {
        return;
    }
    for engine in ["epoll", "uring"] {
        let page = free_port();
        let service = start(engine, page);
        let right = sums(service.port);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for k in 0..5 {
                let (right, stop, port) = (&right, &stop, service.port);
                scope.spawn(move || ask(port, right, k, [100, 130, 90, 160, 70][k as usize], stop));
            }
            let _ends = Ends(&stop);
            let until = Instant::now() + 2 * PATIENCE;
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(4) || moved(page) < 5 {
                assert!(Instant::now() < until, "{engine}: {} moves", moved(page));
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        eventually("all are closed", || wireloom_tests::admin::port_of(&status(page), "client")["open"] == 0);
        let port = status(page);
        let port = wireloom_tests::admin::port_of(&port, "client").clone();
        assert_eq!(port["opened"], 6, "{engine}: {port}");
        assert_eq!(port["requests"], port["replies"], "{engine}");
    }
}

/// A balancer's turns are no state of a core, so that its clients can move.
#[test]
fn clients_of_the_balancer_may_move() {
    assert!(!wireloom_tests::programs::module("apps/http_balancer.loom").keeps_on_core());
}

/// Clients ask while their connections move, and a drain begins; false if one lost an answer.
fn drains_while_connections_move(engine: &str) -> bool {
    let mut service = start(engine, free_port());
    let right = sums(service.port);
    let stop = AtomicBool::new(false);
    let asked = || {
        std::thread::scope(|scope| {
            for k in 0..4 {
                let (right, stop, port) = (&right, &stop, service.port);
                scope.spawn(move || ask(port, right, k, 40, stop));
            }
            let _ends = Ends(&stop);
            std::thread::sleep(Duration::from_millis(700));
            stop.store(true, Ordering::Relaxed);
            service.signal(libc::SIGTERM);
        })
    };
    let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(asked)).is_ok();
    assert_eq!(service.exit(), Some(0), "{engine}: {}", service.output());
    all
}

/// A drain while connections move loses no request. A client that the machine stops just before it
/// sends may find its connection closed as idle: the best of three counts.
#[test]
fn a_drain_while_connections_move() {
    if one_core() {
        return;
    }
    for engine in ["epoll", "uring"] {
        thrice(|| drains_while_connections_move(engine).then_some(()).ok_or(format!("{engine}: an answer is lost")));
    }
}
