//! Servers that hang, and that come back, behind the proxies of memcached, Redis and HTTP.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_tests::admin::eventually;
use wireloom_tests::{require_tool, servers, thrice, Client, Process, Wireloom};

#[derive(Clone, Copy)]
enum Kind {
    Memcached,
    Redis,
    Http,
}

impl Kind {
    /// None if its server is not installed.
    fn server(self) -> Option<Process> {
        let tool = ["memcached", "redis-server", "nginx"][self as usize];
        require_tool(tool).then(|| match self {
            Kind::Memcached => Process::memcached(),
            Kind::Redis => Process::redis(),
            Kind::Http => Process::nginx("location / { return 200 ok; }"),
        })
    }

    fn proxy(self, ports: &[u16], time: &str) -> Process {
        let (app, port) =
            [("memcached_proxy", "ascii"), ("redis_proxy", "owners"), ("http_balancer", "backend")][self as usize];
        let time = format!("{port}.call_timeout={time}");
        Wireloom::run(app, &["--set", &servers(ports), "--set", &time])
    }

    /// Asks for one of many keys; whether a server has answered.
    fn ask(self, client: &mut Client, key: &str) -> bool {
        match self {
            Kind::Memcached => client.send(format!("get {key}\r\n")).take_line().starts_with("END"),
            Kind::Redis => client.send(format!("GET {key}\r\n")).take_line().starts_with("$-1"),
            Kind::Http => {
                let head = client.send(format!("GET /{key} HTTP/1.1\r\nHost: a\r\n\r\n")).take_head();
                let size = head.split_once("content-length: ").and_then(|(_, rest)| rest.split_once("\r\n"));
                client.take(size.and_then(|(n, _)| n.parse().ok()).expect("a length"));
                head.starts_with("http/1.1 200")
            }
        }
    }
}

/// Clients that get keys of all servers, one after the other; what they were answered.
struct Load {
    stop: Arc<AtomicBool>,
    good: Arc<AtomicU64>,
    bad: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(kind: Kind, port: u16, clients: usize) -> Load {
        let (stop, good, bad) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let threads = (0..clients)
            .map(|c| {
                let (stop, good, bad) = (stop.clone(), good.clone(), bad.clone());
                std::thread::spawn(move || {
                    let mut client = Client::connect(port);
                    for n in (0u64..).take_while(|_| !stop.load(Relaxed)) {
                        let right = kind.ask(&mut client, &format!("key{c}.{}", n % 1000));
                        if right { &good } else { &bad }.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        Load { stop, good, bad, threads }
    }

    /// Good and bad answers in this time.
    fn in_time(&self, time: Duration) -> (u64, u64) {
        let before = (self.good.load(Relaxed), self.bad.load(Relaxed));
        std::thread::sleep(time);
        (self.good.load(Relaxed) - before.0, self.bad.load(Relaxed) - before.1)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|t| drop(t.join()));
    }
}

/// The lines that a proxy has logged about a server.
fn lines(proxy: &Process, port: u16, what: &str) -> usize {
    let address = format!("127.0.0.1:{port}");
    proxy.output().lines().filter(|l| l.contains(&address) && l.contains(what)).count()
}

const DOWN: &str = "is down: it does not answer in time";
const UP: &str = "is up again";

fn hangs(kind: Kind) {
    let Some(backends) = (0..3).map(|_| kind.server()).collect::<Option<Vec<Process>>>() else { return };
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let proxy = kind.proxy(&ports, "2s");
    let load = Load::start(kind, proxy.port, 8);
    let (before, errors) = load.in_time(Duration::from_secs(1));
    assert!(before > 100 && errors == 0, "{before} {errors}");
    backends[1].signal(libc::SIGSTOP);
    eventually("it is left out", || lines(&proxy, ports[1], DOWN) == 1);
    // A client may wait for the one that is tried; the others do not. If all did, there were some
    // 50 answers.
    thrice(|| {
        let (good, bad) = load.in_time(Duration::from_secs(3));
        let said = format!("{before} a second before, {good} in three seconds now, {bad} errors");
        (good > before / 4 && good > 100).then_some(()).ok_or(said)
    });
    backends[1].signal(libc::SIGCONT);
    eventually("errors end", || load.in_time(Duration::from_millis(250)).1 == 0);
    drop(load);
    // The clients of before may keep to the others.
    eventually("it is used", || {
        kind.ask(&mut Client::connect(proxy.port), "again");
        lines(&proxy, ports[1], UP) == 1
    });
    let about = |what| lines(&proxy, ports[1], what);
    assert_eq!((about(DOWN), about(UP), about("is down")), (1, 1, 1), "{}", proxy.output());
}

#[test]
fn a_server_of_memcached_that_hangs_is_left_out_and_comes_back() {
    hangs(Kind::Memcached);
}

#[test]
fn a_server_of_redis_that_hangs_is_left_out_and_comes_back() {
    hangs(Kind::Redis);
}

#[test]
fn a_server_of_http_that_hangs_is_left_out_and_comes_back() {
    hangs(Kind::Http);
}

/// A server without another beside it is asked whatever it did before.
fn last_one(kind: Kind) {
    let Some(backend) = kind.server() else { return };
    let proxy = kind.proxy(&[backend.port], "200ms");
    let mut client = Client::connect(proxy.port);
    assert!(kind.ask(&mut client, "a"));
    backend.signal(libc::SIGSTOP);
    for _ in 0..5 {
        assert!(!kind.ask(&mut client, "a"));
    }
    assert_eq!(lines(&proxy, backend.port, "is down"), 0, "{}", proxy.output());
    backend.signal(libc::SIGCONT);
    let begin = Instant::now();
    assert!(kind.ask(&mut client, "a") || kind.ask(&mut client, "a"), "{}", proxy.output());
    assert!(begin.elapsed() < Duration::from_secs(1));
}

#[test]
fn the_last_server_is_never_left_out() {
    [Kind::Memcached, Kind::Redis, Kind::Http].into_iter().for_each(last_one);
}

/// However long it was away, nobody waits longer for it than a second or so.
fn away(kind: Kind, again: fn(u16) -> Process) {
    let Some(mut backends) = (0..2).map(|_| kind.server()).collect::<Option<Vec<Process>>>() else { return };
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let proxy = kind.proxy(&ports, "2s");
    let load = Load::start(kind, proxy.port, 4);
    thrice(|| {
        backends[1].kill();
        std::thread::sleep(Duration::from_secs(5));
        eventually("it is away", || load.in_time(Duration::from_millis(200)).1 > 0);
        backends[1] = again(ports[1]);
        std::thread::sleep(Duration::from_millis(1500));
        let errors = load.in_time(Duration::from_secs(1)).1;
        (errors == 0).then_some(()).ok_or(format!("{errors} errors 1.5 s after its return"))
    });
}

#[test]
fn a_server_that_was_away_is_used_at_once() {
    away(Kind::Memcached, Process::memcached_on);
    away(Kind::Redis, Process::redis_on);
}

/// `on_lost` of `memcached_proxy`, as its first lines tell: errors, misses, or the next server,
/// with `failover` from the first request on.
#[test]
fn keys_of_a_lost_server() {
    if !require_tool("memcached") {
        return;
    }
    let gone = wireloom_tests::free_port();
    let there = Process::memcached();
    let list = servers(&[there.port, gone]);
    let answers = |options: &[&str]| -> Vec<String> {
        let options: Vec<&str> = options.iter().flat_map(|o| ["--set", *o]).collect();
        let proxy = Wireloom::run("memcached_proxy", &[&["--set", &list], &options[..]].concat());
        let mut client = Client::connect(proxy.port);
        (0..40).map(|n| client.send(format!("get k{n}\r\n")).take_line()).collect()
    };
    let errors = |all: &[String]| all.iter().filter(|l| l.starts_with("SERVER_ERROR")).count();
    assert!(errors(&answers(&[])) > 5);
    assert_eq!(errors(&answers(&["on_lost=miss"])), 0);
    // Until it is left out.
    let late = answers(&["on_lost=next", "ascii.eject_after=1", "binary.eject_after=1"]);
    assert!(errors(&late) <= 1 && errors(&late[20..]) == 0, "{late:?}");
    assert_eq!(errors(&answers(&["on_lost=next", "ascii.failover=next", "binary.failover=next"])), 0);
}
