//! The whole service on real sockets, with both engines.

use crate::core::app::App;
use crate::core::Core;
use crate::engine::{self, EngineKind};
use crate::server::{serve, ServeOptions, Stop, Summary};
use crate::stats::CoreStats;
use crate::test_program;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::Arc;
use std::time::Duration;

/// One service at a time: descriptors and free ports are the process's.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Service {
    addr: SocketAddr,
    admin: SocketAddr,
    stop: Stop,
    thread: Option<std::thread::JoinHandle<Summary>>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn service(exclusive: bool, engine: EngineKind, cores: usize, servers: &str) -> Service {
    let port = free_port();
    let app = test_program::spec(
        exclusive,
        &[&format!("port={port}"), &format!("servers={servers}"), "client.read=1s", "backends.call=2s"],
    );
    let (tx, rx) = mpsc::channel();
    let stop = Stop::default();
    let options = ServeOptions {
        cpus: (0..cores).collect(),
        engine,
        admin: Some("127.0.0.1:0".parse().unwrap()),
        stop: stop.clone(),
        drain_limit: Duration::from_secs(2),
        ready: Some(Box::new(move |r| tx.send(r.admin.unwrap()).unwrap())),
        ..ServeOptions::default()
    };
    let thread = std::thread::spawn(move || serve(vec![app], options).unwrap());
    let admin = rx.recv_timeout(Duration::from_secs(60)).unwrap();
    Service { addr: SocketAddr::from(([127, 0, 0, 1], port)), admin, stop, thread: Some(thread) }
}

impl Service {
    fn client(&self) -> TcpStream {
        let s = TcpStream::connect(self.addr).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        s
    }
    fn end(mut self) -> Summary {
        self.stop.drain();
        self.thread.take().unwrap().join().unwrap()
    }
}

/// A backend that answers each line with `r <line>`, after a `D:` head and a long tail for
/// `g big N`.
fn backend() -> SocketAddr {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = l.local_addr().unwrap();
    std::thread::spawn(move || {
        for s in l.incoming().flatten() {
            std::thread::spawn(move || serve_backend(s));
        }
    });
    addr
}

fn serve_backend(mut s: TcpStream) {
    let mut lines = BufReader::new(s.try_clone().unwrap());
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap_or(0) > 0 {
        if let Some((_, n)) = line.trim().split_once("big ") {
            let n: usize = n.parse().unwrap();
            let _ = s.write_all(format!("D:{n} tail\n").as_bytes());
            let _ = s.write_all(&vec![b'z'; n]);
        } else if line.contains("die") {
            return;
        } else if let Some((_, rest)) = line.split_once(':') {
            let n: usize = rest.split(' ').next().unwrap().parse().unwrap();
            let mut tail = vec![0; n];
            if lines.read_exact(&mut tail).is_err() {
                return;
            }
            let _ = s.write_all(format!("r {n}\n").as_bytes());
        } else if s.write_all(format!("r {line}").as_bytes()).is_err() {
            return;
        }
        line.clear();
    }
}

fn engines() -> Vec<EngineKind> {
    let uring = engine::open(EngineKind::Uring).is_ok();
    if !uring {
        eprintln!("io_uring is not available here: tested with epoll only");
    }
    if uring {
        vec![EngineKind::Epoll, EngineKind::Uring]
    } else {
        vec![EngineKind::Epoll]
    }
}

#[test]
fn many_clients_get_their_own_answers() {
    let _alone = alone();
    for engine in engines() {
        for exclusive in [false, true] {
            let s = service(exclusive, engine, 2, &format!("{},{}", backend(), backend()));
            let clients: Vec<_> = (0..16)
                .map(|c| {
                    let stream = s.client();
                    std::thread::spawn(move || {
                        let mut read = BufReader::new(stream.try_clone().unwrap());
                        for i in 0..200 {
                            let n = i % 7 + 1;
                            let ask: String = (0..n).map(|j| format!("g{} {c}.{i}.{j}\n", (i + j) % 2)).collect();
                            (&stream).write_all(ask.as_bytes()).unwrap();
                            for want in ask.lines() {
                                let mut got = String::new();
                                read.read_line(&mut got).unwrap();
                                assert_eq!(got.trim_end(), format!("r {want}"));
                            }
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|t| t.join().unwrap());
            let sum = s.end();
            assert!(sum.clean);
            let each: u64 = (0..200).map(|i| i % 7 + 1).sum();
            assert_eq!((sum.requests, sum.replies, sum.faults), (16 * each, 16 * each, 0));
        }
    }
}

#[test]
fn large_tails_stream_both_ways() {
    let _alone = alone();
    for engine in engines() {
        let s = service(true, engine, 1, &backend().to_string());
        let mut c = s.client();
        let n = 3_000_000;
        c.write_all(format!("g big {n}\n").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(100)); // a reader that is late
        let mut all = vec![0; format!("D:{n} tail\n").len() + n];
        c.read_exact(&mut all).unwrap();
        assert!(all[all.len() - n..].iter().all(|b| *b == b'z'));
        c.write_all(format!("d:{n} up\n").as_bytes()).unwrap();
        c.write_all(&vec![b'y'; n]).unwrap();
        let mut line = String::new();
        BufReader::new(&c).read_line(&mut line).unwrap();
        assert_eq!(line, format!("r {n}\n"));
        s.end();
    }
}

#[test]
fn faults_on_sockets() {
    let _alone = alone();
    for engine in engines() {
        for exclusive in [false, true] {
            let s = service(exclusive, engine, 1, &format!("{},127.0.0.1:{}", backend(), free_port()));
            let mut c = s.client();
            let mut read = BufReader::new(c.try_clone().unwrap());
            let mut ask = |text: &str| {
                c.write_all(text.as_bytes()).unwrap();
                let mut l = String::new();
                read.read_line(&mut l).unwrap();
                l
            };
            assert_eq!(ask("g die\n"), "!8\n");
            assert_eq!(ask("g1 refused\n"), "!9\n");
            assert_eq!(ask("g again\n"), "r g again\n");
            assert_eq!(ask("!\n"), "!1\n");
            assert_eq!(ask(""), "", "closed");
            let mut slow = s.client();
            slow.write_all(b"e ha").unwrap();
            let mut got = String::new();
            slow.read_to_string(&mut got).unwrap();
            assert_eq!(got, "!13\n");
            assert_eq!(s.end().faults, 4);
        }
    }
}

#[test]
fn the_admin_page_shows_what_happens() {
    let _alone = alone();
    let s = service(false, EngineKind::Epoll, 1, &backend().to_string());
    let mut c = s.client();
    c.write_all(b"g one\n").unwrap();
    let mut line = String::new();
    BufReader::new(&c).read_line(&mut line).unwrap();
    let get = |path: &str| {
        let mut a = TcpStream::connect(s.admin).unwrap();
        a.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        let mut t = String::new();
        a.read_to_string(&mut t).unwrap();
        t
    };
    let m = get("/metrics");
    assert!(m.contains("wireloom_requests_total{app=\"line\",port=\"client\"} 1\n"), "{m}");
    assert!(m.contains("wireloom_request_seconds_count{app=\"line\",port=\"client\"} 1\n"));
    let status = get("/status");
    let body = status.split_once("\r\n\r\n").unwrap().1;
    let v: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(v["apps"][0]["ports"][1]["backends"][0]["up"], true);
    assert!(get("/other").starts_with("HTTP/1.1 404"));
    s.end();
}

fn resident() -> usize {
    let s = std::fs::read_to_string("/proc/self/statm").unwrap();
    s.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Both ends are in this process and the kernel's memory does not count: all growth is ours.
#[test]
fn ten_thousand_idle_connections_are_small() {
    let _alone = alone();
    let _descriptors = crate::engine::tests::most_descriptors();
    // Half of the descriptors are the clients'; other tests of this process need some too.
    let want = 10_000.min((crate::server::options::raise_descriptor_limit() as usize).saturating_sub(4000) / 2);
    let app = test_program::app(true, &[&format!("port={}", free_port())]);
    let stats = Arc::new(vec![CoreStats::for_apps(std::slice::from_ref(&app))]);
    let mut core = Core::new(engine::open(EngineKind::Epoll).unwrap(), std::slice::from_ref(&app), stats, 0, false);
    core.listen().unwrap();
    core.start();
    let addr = SocketAddr::from(([127, 0, 0, 1], app.settings.ports[0].addrs[0].port()));
    let before = resident();
    let mut clients = Vec::new();
    for i in 0..want {
        match TcpStream::connect(addr) {
            Ok(c) => clients.push(c),
            Err(_) => break,
        }
        if i % 64 == 0 {
            core.step(Some(Duration::ZERO)).unwrap();
        }
    }
    for c in &clients {
        (&*c).write_all(b"e x\n").unwrap();
    }
    let started = std::time::Instant::now();
    while core.stats[0].apps[0].ports[0].replies.get() < clients.len() as u64
        && started.elapsed() < Duration::from_secs(60)
    {
        core.step(Some(Duration::from_millis(10))).unwrap();
    }
    assert_eq!(core.stats[0].apps[0].ports[0].replies.get(), clients.len() as u64);
    let each = (resident() - before) / clients.len();
    eprintln!("{} connections, {each} bytes each", clients.len());
    assert!(clients.len() < 1000 || each < 2500, "{each} bytes per idle connection");
}

fn usage() -> (f64, f64) {
    // SAFETY: a plain system call.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut u);
        u
    };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (s(u.ru_utime), s(u.ru_stime))
}

/// `cargo test --release -p wireloom-runtime -- --ignored --nocapture cost`
#[test]
#[ignore = "a measurement"]
fn cost_per_message() {
    let _alone = alone();
    for engine in engines() {
        for exclusive in [false, true] {
            measure(engine, exclusive, 64, 1);
            measure(engine, exclusive, 64, if exclusive { 1 } else { 8 });
        }
    }
}

fn measure(kind: EngineKind, exclusive: bool, clients: usize, depth: usize) {
    let backends = format!("{},{}", fast_backend(), fast_backend());
    let app: Arc<App> =
        test_program::app(exclusive, &[&format!("port={}", free_port()), &format!("servers={backends}")]);
    let stats = Arc::new(vec![CoreStats::for_apps(std::slice::from_ref(&app))]);
    let mut core = Core::new(engine::open(kind).unwrap(), std::slice::from_ref(&app), stats, 0, false);
    core.listen().unwrap();
    core.start();
    let addr = SocketAddr::from(([127, 0, 0, 1], app.settings.ports[0].addrs[0].port()));
    let ask = (0..depth).map(|i| format!("g{} key-of-thirty-two-bytes-or-so-x\n", i % 2)).collect::<String>();
    std::thread::spawn(move || load(addr, clients, &ask, depth));
    let count = |c: &Core| c.stats[0].apps[0].ports[0].replies.get();
    while count(&core) < 20_000 {
        core.step(Some(Duration::from_millis(100))).unwrap();
    }
    let (from, (u0, s0)) = (count(&core), usage());
    while count(&core) < from + 200_000 {
        core.step(Some(Duration::from_millis(100))).unwrap();
    }
    let (u1, s1) = usage();
    let n = (count(&core) - from) as f64;
    eprintln!(
        "{kind:?} exclusive={exclusive} clients={clients} depth={depth}: user {:.2} µs, system {:.2} µs per message",
        (u1 - u0) / n * 1e6,
        (s1 - s0) / n * 1e6
    );
}

/// Clients that keep `depth` requests under way each, on one thread.
fn load(addr: SocketAddr, clients: usize, ask: &str, depth: usize) {
    let conns: Vec<TcpStream> = (0..clients).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut buf = vec![0; 65536];
    loop {
        for c in &conns {
            if (&*c).write_all(ask.as_bytes()).is_err() {
                return;
            }
        }
        for c in &conns {
            let mut lines = 0;
            while lines < depth {
                match (&*c).read(&mut buf) {
                    Ok(n) if n > 0 => lines += buf[..n].iter().filter(|b| **b == b'\n').count(),
                    _ => return,
                }
            }
        }
    }
}

/// Answers each line with `r …64 bytes`, many at once.
fn fast_backend() -> SocketAddr {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = l.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut s in l.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut buf, answer) = (vec![0; 65536], format!("r {}\n", "v".repeat(64)));
                while let Ok(n @ 1..) = s.read(&mut buf) {
                    let lines = buf[..n].iter().filter(|b| **b == b'\n').count();
                    if s.write_all(answer.repeat(lines).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}
