//! Servers that hang, and that come back, behind the proxies of memcached, Redis and HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wireloom_tests::admin::{eventually, metrics, sample};
use wireloom_tests::{free_port, require_tool, servers, thrice, Client, Process, Wireloom};

const OK: &str = "location / { return 200 ok; }";

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
            Kind::Http => Process::nginx(OK),
        })
    }

    fn proxy(self, ports: &[u16], time: &str) -> Process {
        let (app, port) =
            [("memcached_proxy", "ascii"), ("redis_proxy", "owners"), ("http_balancer", "backend")][self as usize];
        let (time, list) = (format!("{port}.call_timeout={time}"), servers(ports));
        let mut args = vec!["--set", &list, "--set", &time];
        if let Kind::Http = self {
            // A few clients do not all keep to the same servers.
            args.extend(["--set", "policy=round_robin"]);
        }
        Wireloom::run(app, &args)
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

/// Between two requests of a client: a closed loop would take both cores for nothing.
const PACE: Duration = Duration::from_millis(2);

/// Clients that get keys of all servers, one after the other; what they were answered.
struct Load {
    stop: Arc<AtomicBool>,
    good: Arc<AtomicU64>,
    bad: Arc<AtomicU64>,
    /// The longest that an answer took, in ms.
    longest: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(kind: Kind, port: u16, clients: usize) -> Load {
        Self::on_connections_of(u64::MAX, kind, port, clients)
    }

    /// Each connection has so many requests.
    fn on_connections_of(most: u64, kind: Kind, port: u16, clients: usize) -> Load {
        let (stop, good, bad) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let longest = Arc::new(AtomicU64::new(0));
        let threads = (0..clients)
            .map(|c| {
                let (stop, good, bad, longest) = (stop.clone(), good.clone(), bad.clone(), longest.clone());
                std::thread::spawn(move || {
                    let mut client = Client::connect(port);
                    for n in (0u64..).take_while(|_| !stop.load(Relaxed)) {
                        if n % most == most - 1 {
                            client = Client::connect(port);
                        }
                        let begin = Instant::now();
                        let right = kind.ask(&mut client, &format!("key{c}.{}", n % 1000));
                        longest.fetch_max(begin.elapsed().as_millis() as u64, Relaxed);
                        if right { &good } else { &bad }.fetch_add(1, Relaxed);
                        std::thread::sleep(PACE);
                    }
                })
            })
            .collect();
        Load { stop, good, bad, longest, threads }
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
    backends[1].stop();
    eventually("it is left out", || lines(&proxy, ports[1], DOWN) == 1);
    // No client waits for it any more. A request that tried it would take `call_timeout`.
    std::thread::sleep(Duration::from_secs(2));
    thrice(|| {
        load.longest.store(0, Relaxed);
        let (good, _) = load.in_time(Duration::from_secs(5));
        let longest = load.longest.load(Relaxed);
        let said = format!("{before} a second before, {good} in five seconds now, {longest} ms");
        (good > 100 && longest < 1500).then_some(()).ok_or(said)
    });
    drop(load);
    assert_eq!(lines(&proxy, ports[1], UP), 0, "{}", proxy.output());
    // Nobody asks: its return does not need a client that would pick it.
    backends[1].resume();
    eventually("it is back", || lines(&proxy, ports[1], UP) == 1);
    let mut client = Client::connect(proxy.port);
    assert!((0..50).all(|n| kind.ask(&mut client, &format!("again{n}"))), "{}", proxy.output());
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
    backend.stop();
    for _ in 0..5 {
        assert!(!kind.ask(&mut client, "a"));
    }
    assert_eq!(lines(&proxy, backend.port, "is down"), 0, "{}", proxy.output());
    backend.resume();
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

/// `http_balancer` asks another server instead: nobody sees that one is away.
#[test]
fn nobody_sees_that_a_server_of_http_is_away() {
    let Some(mut backends) = (0..2).map(|_| Kind::Http.server()).collect::<Option<Vec<Process>>>() else { return };
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let proxy = Kind::Http.proxy(&ports, "2s");
    // A connection keeps to its server, where it can.
    let load = Load::on_connections_of(50, Kind::Http, proxy.port, 4);
    for _ in 0..3 {
        let before = lines(&proxy, ports[1], UP);
        backends[1].kill();
        let (good, bad) = load.in_time(Duration::from_secs(4));
        // Requests that were under way are lost with it.
        assert!(good > 100 && bad <= 4, "{good} {bad}: {}", proxy.output());
        let (good, bad) = load.in_time(Duration::from_secs(1));
        assert!(good > 100 && bad == 0, "{good} {bad}: {}", proxy.output());
        backends[1] = Process::nginx_on(ports[1], OK, |_| {});
        eventually("it is used again", || lines(&proxy, ports[1], UP) > before);
        let (good, bad) = load.in_time(Duration::from_secs(1));
        assert!(good > 100 && bad == 0, "{good} {bad}: {}", proxy.output());
    }
}

/// `on_lost` of `memcached_proxy`, as its first lines tell: errors, misses, or the next server,
/// with `failover` from the first request on.
#[test]
fn keys_of_a_lost_server() {
    if !require_tool("memcached") {
        return;
    }
    let gone = free_port();
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

/// A server of memcached's text protocol that does as it is told.
struct Fake {
    port: u16,
    mode: Arc<AtomicUsize>,
    /// The lines that it has got.
    seen: Arc<Mutex<Vec<String>>>,
    open: Arc<AtomicUsize>,
    gone: Arc<AtomicBool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Good,
    Silent,
    Wrong,
    Closes,
}

impl Fake {
    fn start() -> Fake {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let fake = Fake {
            port,
            mode: Default::default(),
            seen: Default::default(),
            open: Default::default(),
            gone: Default::default(),
        };
        let (mode, seen, open, gone) = (fake.mode.clone(), fake.seen.clone(), fake.open.clone(), fake.gone.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if gone.load(Relaxed) {
                    return;
                }
                let (mode, seen, open) = (mode.clone(), seen.clone(), open.clone());
                open.fetch_add(1, Relaxed);
                std::thread::spawn(move || {
                    let mut writer = stream.try_clone().expect("a clone");
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        let probe = line.starts_with("version");
                        seen.lock().expect("no panic").push(line);
                        let answer = match mode.load(Relaxed) {
                            m if m == Mode::Silent as usize => continue,
                            m if m == Mode::Closes as usize => break,
                            m if m == Mode::Wrong as usize => "VALUE of nothing\r\n",
                            _ if probe => "VERSION 1.6.0\r\n",
                            _ => "END\r\n",
                        };
                        if writer.write_all(answer.as_bytes()).is_err() {
                            break;
                        }
                    }
                    open.fetch_sub(1, Relaxed);
                });
            }
        });
        fake
    }

    /// Takes no more connections.
    fn stop(&self) {
        self.gone.store(true, Relaxed);
        eventually("nobody listens", || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err());
    }

    fn does(&self, mode: Mode) {
        self.mode.store(mode as usize, Relaxed);
    }

    fn probes(&self) -> usize {
        self.seen.lock().expect("no panic").iter().filter(|l| l.starts_with("version")).count()
    }
}

/// Two such servers behind a proxy, of which the second is down.
fn one_down(mode: Mode, options: &[&str]) -> (Fake, Fake, Process) {
    let (a, b) = (Fake::start(), Fake::start());
    let list = servers(&[a.port, b.port]);
    let mut args = vec!["--set", &list, "--set", "ascii.call_timeout=1s", "--set", "ascii.eject_time=300ms"];
    args.extend(options.iter().flat_map(|o| ["--set", o]));
    let proxy = Wireloom::run("memcached_proxy", &args);
    b.does(mode);
    let mut client = Client::connect(proxy.port);
    for n in 0..100 {
        Kind::Memcached.ask(&mut client, &format!("k{n}"));
        if lines(&proxy, b.port, "is down") > 0 {
            break;
        }
    }
    assert_eq!(lines(&proxy, b.port, "is down"), 1, "{}", proxy.output());
    (a, b, proxy)
}

#[test]
fn only_a_right_answer_to_a_probe_brings_a_server_back() {
    for mode in [Mode::Silent, Mode::Wrong, Mode::Closes] {
        let (_a, b, proxy) = one_down(mode, &[]);
        let before = b.probes();
        std::thread::sleep(Duration::from_millis(2500));
        let probes = b.probes() - before;
        assert!((1..=10).contains(&probes), "{probes} probes of mode {}", mode as usize);
        assert_eq!(lines(&proxy, b.port, UP), 0, "{}", proxy.output());
        // One at a time, and none is left behind.
        eventually("connections are closed", || b.open.load(Relaxed) <= 2);
        assert!(!b.seen.lock().expect("no panic").iter().skip(3).any(|l| l.starts_with("get")));
        b.does(Mode::Good);
        eventually("it is back", || lines(&proxy, b.port, UP) == 1);
        let mut client = Client::connect(proxy.port);
        assert!((0..50).all(|n| Kind::Memcached.ask(&mut client, &format!("k{n}"))), "{}", proxy.output());
        let probes = b.probes();
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(b.probes(), probes, "a server that is up is not probed");
    }
}

#[test]
fn without_a_probe_a_request_decides() {
    let (_a, b, proxy) = one_down(Mode::Silent, &["ascii.probe=false"]);
    b.does(Mode::Good);
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!((b.probes(), lines(&proxy, b.port, UP)), (0, 0));
    let mut client = Client::connect(proxy.port);
    assert!((0..50).all(|n| Kind::Memcached.ask(&mut client, &format!("k{n}"))), "{}", proxy.output());
    assert_eq!((b.probes(), lines(&proxy, b.port, UP)), (0, 1));
}

/// A server that loads its data answers, and says that it cannot serve yet.
#[test]
fn a_balancers_probe_is_its_operators() {
    if !require_tool("nginx") {
        return;
    }
    let (well, dead) = (Process::nginx("location / { return 200 ok; }"), free_port());
    let list = servers(&[well.port, dead]);
    let set = ["probe_path=/health", "probe_host=inside.example", "backend.eject_time=200ms", "policy=round_robin"];
    let mut args = vec!["--set", &list];
    args.extend(set.iter().flat_map(|o| ["--set", o]));
    let proxy = Wireloom::run("http_balancer", &args);
    for n in 0..8 {
        assert!(Kind::Http.ask(&mut Client::connect(proxy.port), &n.to_string()));
    }
    assert_eq!(lines(&proxy, dead, "is down"), 1, "{}", proxy.output());
    let server = TcpListener::bind(("127.0.0.1", dead)).expect("the port is free");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (heads, left) = (seen.clone(), Arc::new(AtomicUsize::new(2)));
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let mut head = String::new();
            let mut lines = BufReader::new(stream.try_clone().expect("a clone"));
            while lines.read_line(&mut head).is_ok_and(|n| n > 2) {}
            heads.lock().expect("no panic").push(head);
            let sick = left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok();
            let status = if sick { "503 Service Unavailable" } else { "200 OK" };
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        }
    });
    eventually("it is back", || lines(&proxy, dead, UP) == 1);
    let seen = seen.lock().expect("no panic");
    let probe = "GET /health HTTP/1.1\r\nhost: inside.example\r\nuser-agent: wireloom\r\nconnection: close\r\n\r\n";
    // More than three only if one ran out of time.
    assert!(seen.len() >= 3 && seen.iter().all(|s| s == probe), "{seen:?} {}", proxy.output());
    for bad in ["probe_path=health", "probe_path=/a b", "probe_host=a b"] {
        let out = Wireloom::command(&["run", "apps/http_balancer.loom", "--set", &list, "--set", bad]);
        assert!(out.code != Some(0) && out.text.contains("bad_probe"), "{}", out.text);
    }
}

/// The servers that have answered for keys, by the keys' numbers.
fn owners(port: u16, fakes: &[Fake], keys: u64) -> Vec<usize> {
    let mut client = Client::connect(port);
    let asked = |f: &Fake| f.seen.lock().expect("no panic").iter().filter(|l| l.starts_with("get")).count();
    (0..keys)
        .map(|n| {
            let before: Vec<usize> = fakes.iter().map(asked).collect();
            assert!(Kind::Memcached.ask(&mut client, &format!("key:{n}")), "key {n}");
            fakes.iter().zip(before).position(|(f, n)| asked(f) > n).expect("a server was asked")
        })
        .collect()
}

/// The keys of a dead server go to all others, each to the same one every time; the keys of others
/// stay. `set`: whether the runtime or the program chooses.
fn spreads(distribution: &str, set: &[&str], logged: bool) {
    const KEYS: u64 = 400;
    let fakes: Vec<Fake> = (0..4).map(|_| Fake::start()).collect();
    let list = servers(&fakes.iter().map(|f| f.port).collect::<Vec<_>>());
    let distribution = format!("distribution={distribution}");
    let start = |set: &[&str]| {
        let mut args = vec!["--set", &list, "--set", &distribution];
        args.extend(set.iter().flat_map(|o| ["--set", o]));
        Wireloom::run("memcached_proxy", &args)
    };
    let whole = start(&[]);
    let before = owners(whole.port, &fakes, KEYS);
    drop(whole);
    fakes[1].stop();
    let (gone, proxy) = (fakes[1].port, start(set));
    if logged {
        let mut client = Client::connect(proxy.port);
        // Always other keys: the ports decide about the ring, and twenty keys may miss a server.
        let mut fresh = 0..;
        eventually("it is down", || {
            fresh.by_ref().take(20).for_each(|n: u32| {
                Kind::Memcached.ask(&mut client, &format!("other{n}"));
            });
            lines(&proxy, gone, "is down") > 0
        });
    }
    let after = owners(proxy.port, &fakes, KEYS);
    assert_eq!(after, owners(proxy.port, &fakes, KEYS), "the same server every time");
    let moved: Vec<usize> = (0..KEYS as usize).filter(|n| before[*n] == 1).map(|n| after[n]).collect();
    assert!(
        (0..KEYS as usize).all(|n| before[n] == 1 || before[n] == after[n]),
        "only the keys of the lost server move"
    );
    for server in [0, 2, 3] {
        let part = moved.iter().filter(|s| **s == server).count() as f64 / moved.len() as f64;
        assert!(part > 0.03, "{distribution} {set:?}: server {server} got {part:.2} of {}", moved.len());
    }
    assert!(moved.len() > 40 && !moved.contains(&1));
}

#[test]
fn the_keys_of_a_dead_server_go_on_along_ring_and_table() {
    for distribution in ["ketama", "ketama_weighted", "consistent", "maglev"] {
        // Never left out: each request finds out that it cannot be reached.
        spreads(distribution, &["ascii.failover=next", "ascii.eject_after=0"], false);
        // Left out by the runtime.
        spreads(distribution, &["ascii.failover=next", "ascii.eject_after=1"], true);
    }
}

#[test]
fn the_keys_of_a_dead_server_go_to_all_others() {
    for distribution in ["modulo", "modula", "ketama", "consistent", "maglev"] {
        spreads(distribution, &["on_lost=next", "ascii.failover=next", "ascii.eject_after=1"], true);
    }
}

/// Requests without a place on a ring go to all others in turn.
#[test]
fn the_clients_of_a_dead_backend_go_to_all_others() {
    if !require_tool("nginx") {
        return;
    }
    let gone = free_port();
    let others: Vec<Process> =
        (0..3).map(|i| Process::nginx(&format!("location / {{ return 200 {i}{i}; }}"))).collect();
    let list = servers(&[others[0].port, gone, others[1].port, others[2].port]);
    for (policy, ejects) in [("hash", "0"), ("round_robin", "0"), ("hash", "3"), ("round_robin", "3")] {
        let (policy, ejects) = (format!("policy={policy}"), format!("backend.eject_after={ejects}"));
        let proxy = Wireloom::run("http_balancer", &["--set", &list, "--set", &policy, "--set", &ejects]);
        let mut counts = [0; 3];
        for _ in 0..480 {
            let mut client = Client::connect(proxy.port);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").take_head();
            counts[usize::from(client.take(2)[0] - b'0')] += 1;
        }
        // Evenly: 160 each. If one got all of the dead one's: 240 and 120.
        assert!(counts.iter().all(|n| (115..=205).contains(n)), "{policy} {ejects}: {counts:?}");
    }
}

/// Each client sends a part of a large request and stops. That is no failure of the only server:
/// others are answered.
#[test]
fn clients_that_stop_in_their_requests_eject_no_server() {
    const CASES: [(Kind, &[&str]); 3] = [(Kind::Redis, &[]), (Kind::Http, &[]), (Kind::Http, &["--engine", "uring"])];
    // It reads a request to its end before it passes it on.
    const WAITS: &str = "location / { return 200 ok; } location /up { proxy_pass http://127.0.0.1:1; }";
    for (kind, engine) in CASES {
        let server = match kind {
            Kind::Http => require_tool("nginx").then(|| Process::nginx(WAITS)),
            _ => kind.server(),
        };
        let Some(server) = server else { continue };
        let (list, page) = (servers(&[server.port]), free_port());
        let admin = format!("127.0.0.1:{page}");
        let (app, port, begin, end) = match kind {
            Kind::Http => (
                "http_balancer",
                "backend",
                "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n",
                "HTTP/1.1 408 ",
            ),
            _ => ("redis_proxy", "owners", "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$200000\r\n", ""),
        };
        let time = format!("{port}.answer_timeout=3s");
        let args = ["--admin", &admin, "--set", &list, "--set", &time, "--set", "client.read_timeout=8s"];
        let proxy = Wireloom::run(app, &[&args, engine].concat());
        let request = [begin.as_bytes(), &[b'x'; 100_000]].concat();
        let mut slow: Vec<_> = (0..5).map(|_| Client::connect(proxy.port)).collect();
        slow.iter_mut().for_each(|c| _ = c.send(&request));
        let mut other = Client::connect(proxy.port);
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(200));
            assert!(kind.ask(&mut other, "key"), "{app} {engine:?}");
        }
        for mut c in slow {
            let rest = String::from_utf8(c.rest()).expect("text");
            assert!(rest.starts_with(end), "{app} {engine:?}: {rest}");
        }
        let metrics = metrics(page);
        let idle = format!("wireloom_faults_total{{app=\"{app}\",kind=\"idle\"");
        assert_eq!(sample(&metrics, "wireloom_backend_failures_total"), 0, "{metrics}");
        assert_eq!(sample(&metrics, &idle), 5, "{metrics}");
    }
}
