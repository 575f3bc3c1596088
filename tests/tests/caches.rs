//! Caches in front of real and scripted servers: no value older than a write whose answer has been
//! read, and times of DNS records.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use wireloom_tests::admin::{eventually, metrics, sample};
use wireloom_tests::dns::{answer, ask, question, socket, Resolver};
use wireloom_tests::{free_port, require_tool, Client, Process, Wireloom};

/// Keys that every client counts up, and keys that one client each sets.
const COUNTED: usize = 4;
const SET: usize = 4;
const CLIENTS: usize = 6;

fn line(client: &mut Client, request: &str) -> String {
    client.send(request);
    String::from_utf8(client.take_until(b"\r\n")).expect("text").trim_end().to_string()
}

/// The value of a `get`; none if there is none.
fn get(client: &mut Client, key: &str) -> Option<u64> {
    client.send(format!("get {key}\r\n"));
    let head = String::from_utf8(client.take_until(b"\r\n")).expect("text");
    if head == "END\r\n" {
        return None;
    }
    assert!(head.starts_with(&format!("VALUE {key} ")), "{head}");
    let value = String::from_utf8(client.take_until(b"\r\n")).expect("text");
    assert_eq!(client.take_until(b"\r\n"), b"END\r\n");
    Some(value.trim().parse().expect("a number"))
}

fn cache_of(memcached: &Process, extra: &[&str]) -> (Process, u16) {
    let page = free_port();
    let (server, admin) = (format!("server=127.0.0.1:{}", memcached.port), format!("127.0.0.1:{page}"));
    let all = [&["--set", &server, "--admin", &admin][..], extra].concat();
    (Wireloom::run("kv_cache", &all), page)
}

/// Many clients read and write the same keys. A client that has read the answer to a write tells
/// the others its value: no read that begins later gives an older one.
#[test]
fn no_client_sees_an_old_value() {
    if !require_tool("memcached") {
        return;
    }
    for cores in ["0", "0,1"] {
        let memcached = Process::memcached();
        let (cache, page) = cache_of(&memcached, &["--cores", cores]);
        let known: Vec<AtomicU64> = (0..COUNTED + SET).map(|_| AtomicU64::new(0)).collect();
        let mut first = Client::connect(cache.port);
        for n in 0..COUNTED + SET {
            assert_eq!(line(&mut first, &format!("set k{n} 0 0 1\r\n0\r\n")), "STORED");
        }
        std::thread::scope(|s| {
            for c in 0..CLIENTS {
                let (known, port) = (&known, cache.port);
                s.spawn(move || hammer(c, port, known));
            }
        });
        // Counters are shown ten times a second.
        std::thread::sleep(Duration::from_millis(250));
        let m = metrics(page);
        let count = |name: &str| sample(&m, &format!("wireloom_counter_total{{app=\"kv_cache\",name=\"hot.{name}\"}}"));
        eprintln!("cores {cores}: {} hits, {} misses, {} stale", count("hits"), count("misses"), count("stale_fills"));
        assert!(count("hits") > 100 && count("misses") > 100);
    }
}

fn hammer(c: usize, port: u16, known: &[AtomicU64]) {
    let mut random = fastrand::Rng::with_seed(c as u64 + 1);
    let mut client = Client::connect(port);
    for _ in 0..350 {
        let key = random.usize(0..known.len());
        let name = format!("k{key}");
        match random.u8(0..10) {
            0 if key < COUNTED => {
                let value = line(&mut client, &format!("incr {name} 1\r\n")).parse().expect("a number");
                known[key].fetch_max(value, SeqCst);
            }
            1 if key >= COUNTED && key % CLIENTS == c => {
                // Nobody else sets this one.
                let value = known[key].load(SeqCst) + 1;
                let text = value.to_string();
                let set = format!("set {name} 0 0 {}\r\n{text}\r\n", text.len());
                assert_eq!(line(&mut client, &set), "STORED");
                known[key].fetch_max(value, SeqCst);
            }
            _ => {
                let floor = known[key].load(SeqCst);
                let value = get(&mut client, &name).expect("it was set");
                assert!(value >= floor, "{name}: {value} after {floor}");
            }
        }
    }
}

/// The answer of the server to commands that the cache does not know arrives as it is.
#[test]
fn other_commands_pass() {
    if !require_tool("memcached") {
        return;
    }
    let memcached = Process::memcached();
    let (cache, page) = cache_of(&memcached, &[]);
    let mut c = Client::connect(cache.port);
    let mut direct = Client::connect(memcached.port);
    for _ in 0..2 {
        for request in [
            "get none\r\n",
            "set a 7 0 5\r\nhello\r\n",
            "get a\r\n",
            "get a\r\n",
            "gets a\r\n",
            "get a none\r\n",
            "append a 0 0 1\r\n!\r\n",
            "get a\r\n",
            "delete a\r\n",
            "get a\r\n",
            "delete a\r\n",
            "bogus\r\n",
            "mg a v\r\n",
            "ms a 2\r\nhi\r\n",
            "get a\r\n",
            "touch a 0\r\n",
            "add a 0 0 1\r\nx\r\n",
            "get a\r\n",
        ] {
            let answer = |c: &mut Client| {
                c.send(request);
                c.send("mn\r\n".replace("mn", "get end-of-answer"));
                let all = c.take_until(b"END\r\n");
                // An answer that ends so itself is followed by the one to the mark.
                let own = request.starts_with("get");
                [all, if own { c.take_until(b"END\r\n") } else { Vec::new() }].concat()
            };
            let (ours, theirs) = (answer(&mut c), answer(&mut direct));
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            // The number of `gets` differs, as the commands are given to the server twice.
            if !request.starts_with("gets") {
                assert_eq!(ours.len() > 5, theirs.len() > 5, "{request:?}: {} or {}", text(&ours), text(&theirs));
            }
            // Both have written: start anew from the same state.
            if request.starts_with("append") {
                direct.send("set a 7 0 6\r\nhello!\r\n");
                direct.take_until(b"STORED\r\n");
            }
        }
    }
    let value = "v".repeat(2000);
    c.send(format!("set big 0 0 2000\r\n{value}\r\n"));
    c.take_until(b"STORED\r\n");
    for _ in 0..3 {
        c.send("get big\r\n");
        let got = String::from_utf8(c.take_until(b"END\r\n")).expect("text");
        assert_eq!(got, format!("VALUE big 0 2000\r\n{value}\r\nEND\r\n"), "a large value is passed on, not kept");
    }
    let hits = || sample(&metrics(page), "wireloom_counter_total{app=\"kv_cache\",name=\"hot.hits\"}");
    eventually("some are hits", || hits() > 0);
}

/// A write without an answer (`noreply`): until the server has surely done it, reads go there.
#[test]
fn writes_without_an_answer() {
    if !require_tool("memcached") {
        return;
    }
    let memcached = Process::memcached();
    let (cache, page) = cache_of(&memcached, &[]);
    let mut c = Client::connect(cache.port);
    assert_eq!(line(&mut c, "set a 0 0 1\r\n1\r\n"), "STORED");
    assert_eq!((get(&mut c, "a"), get(&mut c, "a")), (Some(1), Some(1)));
    let hits = || sample(&metrics(page), "wireloom_counter_total{app=\"kv_cache\",name=\"hot.hits\"}");
    eventually("the second read is a hit", || hits() == 1);
    c.send("set a 0 0 1 noreply\r\n2\r\n");
    for _ in 0..20 {
        assert_eq!(get(&mut c, "a"), Some(2));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(hits(), 1, "nothing is kept while the write may be under way");
}

fn dns_cache(resolvers: &str) -> Process {
    Wireloom::run("dns_cache", &["--set", &format!("resolvers={resolvers}")])
}

#[test]
fn times_of_records_are_respected() {
    let resolver = Resolver::new(|n, q| vec![answer(q, 3, [192, 0, 2, n as u8])]);
    let service = dns_cache(&resolver.addr.to_string());
    let (one, two) = (socket(), socket());
    let q = question(7, "www.example");
    let first = ask(&one, service.port, &q).expect("an answer");
    assert_eq!(first, answer(&q, 3, [192, 0, 2, 1]));
    let other = question(9, "www.example");
    assert_eq!(ask(&two, service.port, &other), Some(answer(&other, 3, [192, 0, 2, 1])));
    assert_eq!(resolver.asked(), 1, "the second client is answered from the cache");
    std::thread::sleep(Duration::from_millis(1300));
    let later = ask(&two, service.port, &other).expect("an answer");
    assert!([1, 2].map(|ttl| answer(&other, ttl, [192, 0, 2, 1])).contains(&later), "{later:x?}");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(ask(&one, service.port, &q), Some(answer(&q, 3, [192, 0, 2, 2])), "its time is over");
    assert_eq!(resolver.asked(), 2);
    assert!(ask(&one, service.port, &question(7, "elsewhere.example")).is_some());
    assert_eq!(resolver.asked(), 3, "another name is another question");
}

#[test]
fn dig_through_the_cache() {
    if !require_tool("dig") || !require_tool("dnsmasq") {
        return;
    }
    let port = free_port();
    let mut dnsmasq = Command::new("dnsmasq")
        .args(["--no-daemon", "--no-resolv", "--no-hosts", "--bind-interfaces", "--listen-address=127.0.0.1"])
        .args(["--conf-file=/dev/null", "--user=root", "--pid-file=", "--local-ttl=30", "--log-queries"])
        .args([format!("--port={port}"), "--address=/example.test/192.0.2.7".into()])
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("dnsmasq starts");
    let service = dns_cache(&format!("127.0.0.1:{port}"));
    let dig = || {
        let mut c = Command::new("dig");
        c.args(["@127.0.0.1", "-p", &service.port.to_string(), "+tries=3", "+nocookie", "A.Example.test"]);
        wireloom_tests::finish(&mut c).out
    };
    let first = dig();
    assert!(first.contains("status: NOERROR") && first.contains("192.0.2.7"), "{first}");
    dnsmasq.kill().expect("our own child");
    dnsmasq.wait().expect("our own child");
    let second = dig();
    assert!(second.contains("status: NOERROR") && second.contains("192.0.2.7"), "the server is gone: {second}");
}

const WRITE_BACK: &str = "tests/programs/write_back.loom";

fn counter(page: u16, name: &str) -> u64 {
    sample(&metrics(page), &format!("wireloom_counter_total{{app=\"write_back\",name=\"{name}\"}}"))
}

/// A cache that is written back, in front of a server that need not be there.
fn writing_back(server: u16, extra: &[&str]) -> (Process, u16) {
    let page = free_port();
    let (server, admin) = (format!("server=127.0.0.1:{server}"), format!("127.0.0.1:{page}"));
    let all = [&["--set", &server, "--admin", &admin][..], extra].concat();
    (Wireloom::run_file(WRITE_BACK, &all, |_| {}), page)
}

fn set(client: &mut Client, key: &str, value: u64) -> String {
    let text = value.to_string();
    line(client, &format!("set {key} 0 0 {}\r\n{text}\r\n", text.len()))
}

/// Many clients write and read the same keys, each some of its own. A client reads what it has
/// written, at once and later. The server gets fewer writes, and in the end the last values.
#[test]
fn writes_come_to_the_server_later() {
    if !require_tool("memcached") {
        return;
    }
    for cores in ["0", "0,1"] {
        let memcached = Process::memcached();
        let (cache, page) = writing_back(memcached.port, &["--cores", cores]);
        std::thread::scope(|s| {
            for c in 0..CLIENTS {
                s.spawn(move || writer(c, cache.port));
            }
        });
        eventually("all is written", || {
            let mut direct = Client::connect(memcached.port);
            (0..CLIENTS).all(|c| (0..SET).all(|k| get(&mut direct, &format!("k{c}-{k}")) == Some(ROUNDS)))
        });
        let (written, lost) = (counter(page, "hot.written"), counter(page, "hot.lost_writes"));
        let all = CLIENTS as u64 * SET as u64 * (ROUNDS + 1);
        eprintln!("cores {cores}: {all} writes, {written} of them to the server");
        assert!(written >= (CLIENTS * SET) as u64 && written < all / 2 && lost == 0, "{written} of {all}");
    }
}

const ROUNDS: u64 = 100;

fn writer(c: usize, port: u16) {
    let mut client = Client::connect(port);
    for round in 0..=ROUNDS {
        for k in 0..SET {
            let key = format!("k{c}-{k}");
            assert_eq!(set(&mut client, &key, round), "STORED");
            assert_eq!(get(&mut client, &key), Some(round));
        }
        // Entries are written back, read from the server, and kept again.
        if round % 20 == 0 {
            std::thread::sleep(Duration::from_millis(70));
            assert_eq!(get(&mut client, &format!("k{c}-0")), Some(round));
        }
    }
}

/// The server is killed. Writes are answered as long as there is room; what was answered is there
/// for reads, and comes to the server when it is back.
#[test]
fn a_server_that_was_away_gets_what_was_written() {
    if !require_tool("memcached") {
        return;
    }
    let mut memcached = Process::memcached();
    let (cache, page) = writing_back(memcached.port, &[]);
    let mut c = Client::connect(cache.port);
    assert_eq!(set(&mut c, "before", 1), "STORED");
    eventually("the first one is written", || counter(page, "hot.written") == 1);
    memcached.kill();
    for round in 0..2 {
        for k in 0..100 {
            assert_eq!(set(&mut c, &format!("k{k}"), round * 1000 + k), "STORED");
        }
    }
    for k in 0..100 {
        assert_eq!(get(&mut c, &format!("k{k}")), Some(1000 + k));
    }
    // No place is left: its client learns that this one is not written.
    assert!(set(&mut c, "more", 7).starts_with("SERVER_ERROR"));
    eventually("tries fail", || counter(page, "hot.failed_writes") > 0);
    let memcached = Process::memcached_on(memcached.port);
    let mut direct = Client::connect(memcached.port);
    eventually("all is written", || (0..100).all(|k| get(&mut direct, &format!("k{k}")) == Some(1000 + k)));
    assert_eq!((get(&mut direct, "more"), get(&mut c, "more")), (None, None));
    assert_eq!(line(&mut c, "delete k5\r\n"), "DELETED");
    assert_eq!(get(&mut c, "k5"), None);
    eventually("it is deleted", || get(&mut direct, "k5").is_none());
    assert_eq!(counter(page, "hot.lost_writes"), 0);
}

/// At its end the cache waits for its server, and says what it could not write.
#[test]
fn the_end_writes_first() {
    if !require_tool("memcached") {
        return;
    }
    for returns in [true, false] {
        let mut memcached = Process::memcached();
        let (mut cache, _) = writing_back(memcached.port, &["--drain", if returns { "20" } else { "2" }]);
        memcached.kill();
        let mut c = Client::connect(cache.port);
        for k in 0..50 {
            assert_eq!(set(&mut c, &format!("k{k}"), k), "STORED");
        }
        drop(c);
        cache.signal(libc::SIGTERM);
        std::thread::sleep(Duration::from_millis(900));
        let back = returns.then(|| Process::memcached_on(memcached.port));
        assert_eq!(cache.exit_code(Duration::from_secs(30)), Some(0), "{}", cache.output());
        match back {
            Some(memcached) => {
                let mut direct = Client::connect(memcached.port);
                assert!((0..50).all(|k| get(&mut direct, &format!("k{k}")) == Some(k)), "{}", cache.output());
                assert!(!cache.output().contains("lost"), "{}", cache.output());
            }
            None => assert!(cache.output().contains("50 dirty entries of `hot` are lost"), "{}", cache.output()),
        }
    }
}
