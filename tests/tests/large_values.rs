//! Values from 1 KiB to 100 MiB (`LARGE=512` for more MiB) through both proxies before real
//! servers. Clients that take them slowly run beside clients with small requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wireloom_tests::{servers, thrice, Client, Process, Wireloom};

const MIB: usize = 1 << 20;

/// A proxy before one server, and how it is spoken with.
struct Kind {
    proxy: Process,
    server: Process,
    redis: bool,
}

impl Kind {
    fn memcached() -> Kind {
        let server = Process::memcached_with(&["-I", "1024m", "-m", "2500"]);
        let proxy = Wireloom::run("memcached_proxy", &["--cores", "1", "--set", &servers(&[server.port])]);
        Kind { proxy, server, redis: false }
    }

    fn redis() -> Kind {
        let server = Process::redis();
        let proxy = Wireloom::run("redis_proxy", &["--cores", "1", "--set", &servers(&[server.port])]);
        Kind { proxy, server, redis: true }
    }

    fn set(&self, key: &str, size: usize) -> (Vec<u8>, &'static [u8], &'static [u8]) {
        match self.redis {
            true => {
                (format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${size}\r\n", key.len()).into_bytes(), b"\r\n", b"+OK\r\n")
            }
            false => (format!("set {key} 0 0 {size}\r\n").into_bytes(), b"\r\n", b"STORED\r\n"),
        }
    }

    /// A request for a value, and the bytes before and behind it.
    fn get(&self, key: &str, size: usize) -> (String, String, &'static str) {
        match self.redis {
            true => (format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()), format!("${size}\r\n"), "\r\n"),
            false => (format!("get {key}\r\n"), format!("VALUE {key} 0 {size}\r\n"), "\r\nEND\r\n"),
        }
    }

    /// Writes a value past the proxy.
    fn put(&self, key: &str, value: &[u8]) {
        let (head, tail, said) = self.set(key, value.len());
        Client::connect(self.server.port).send(head).send(value).send(tail).expect(said);
    }
}

fn value(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn through(kind: &Kind) {
    let most = std::env::var("LARGE").ok().and_then(|n| n.parse().ok()).unwrap_or(100) * MIB;
    for size in [1024, MIB, 8 * MIB + 1, most] {
        let (data, mut c) = (value(size), Client::connect(kind.proxy.port));
        let (head, tail, said) = kind.set("big", size);
        c.send(head).send(&data).send(tail).expect(said);
        let (ask, before, behind) = kind.get("big", size);
        for port in [kind.server.port, kind.proxy.port] {
            let mut c = Client::connect(port);
            c.send(&ask).expect(&before);
            assert!(c.take(size) == data, "{size}: another value");
            c.expect(behind).expect_nothing_more();
        }
        // The same client, now known for large answers, with requests before and behind it.
        let (small, small_before, small_behind) = kind.get("small", 2);
        kind.put("small", b"hi");
        c.send(format!("{small}{ask}{small}")).expect(format!("{small_before}hi{small_behind}")).expect(&before);
        assert!(c.take(size) == data, "{size}: another value");
        c.expect(format!("{behind}{small_before}hi{small_behind}")).expect_nothing_more();
    }
}

#[test]
fn memcached_values_flow_through() {
    through(&Kind::memcached());
}

#[test]
fn redis_values_flow_through() {
    through(&Kind::redis());
}

/// A `set` without an answer is done when the next request is answered, however large it is; one
/// that the server refuses leaves nothing.
#[test]
fn large_sets_without_an_answer() {
    let kind = Kind::memcached();
    let mut c = Client::connect(kind.proxy.port);
    for size in [40_000, 200_000, 3 * MIB] {
        let data = value(size);
        let (ask, before, behind) = kind.get("k", size);
        c.send(format!("set k 0 0 {size} noreply\r\n")).send(&data).send(format!("\r\n{ask}")).expect(&before);
        assert!(c.take(size) == data, "{size}");
        c.expect(behind).expect_nothing_more();
    }
}

/// The binary protocol: the value's size stands in the head.
#[test]
fn large_binary_values() {
    let kind = Kind::memcached();
    let data = value(20 * MIB);
    let head = |opcode: u8, extras: &[u8], body: usize| {
        let mut h = vec![0x80, opcode, 0, 1, extras.len() as u8, 0, 0, 0];
        h.extend((extras.len() as u32 + 1 + body as u32).to_be_bytes());
        h.extend([0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        h.extend(extras);
        h.push(b'b');
        h
    };
    let mut c = Client::connect(kind.proxy.port);
    c.send(head(1, &[0; 8], data.len())).send(&data);
    assert_eq!(c.take(24)[..8], [0x81, 1, 0, 0, 0, 0, 0, 0]);
    c.send(head(0, &[], 0));
    assert_eq!(c.take(24)[..8], [0x81, 0, 0, 0, 4, 0, 0, 0]);
    assert!(c.take(4).len() == 4 && c.take(data.len()) == data);
    c.expect_nothing_more();
}

/// Slow readers of large values beside clients with small requests: these are answered in time, and
/// the slow ones get all of it.
fn beside(kind: &Kind) -> Result<(), String> {
    let size = 24 * MIB;
    kind.put("big", &value(size));
    kind.put("small", b"hi");
    let (ask, before, behind) = kind.get("big", size);
    let all = before.len() + size + behind.len();
    let slow: Vec<_> = (0..4)
        .map(|_| {
            let (ask, port) = (ask.clone(), kind.proxy.port);
            std::thread::spawn(move || {
                let mut s = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
                s.write_all(ask.as_bytes()).expect("it is sent");
                let (mut got, mut piece) = (0, vec![0; 256 << 10]);
                while got < all {
                    match s.read(&mut piece).expect("it goes on") {
                        0 => break,
                        n => got += n,
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                got
            })
        })
        .collect();
    let (small, small_before, small_behind) = kind.get("small", 2);
    let answer = format!("{small_before}hi{small_behind}");
    let mut light: Vec<Client> = (0..4).map(|_| Client::connect(kind.proxy.port)).collect();
    let mut times = Vec::new();
    while slow.iter().any(|s| !s.is_finished()) || times.len() < 100 {
        for c in &mut light {
            let start = Instant::now();
            c.send(&small).expect(&answer);
            times.push(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for s in slow {
        assert_eq!(s.join().expect("it ends"), all);
    }
    times.sort();
    let said = format!("{} small requests, most within {:?}", times.len(), times[times.len() * 19 / 20]);
    eprintln!("{said}");
    (times[times.len() * 19 / 20] < Duration::from_millis(1000)).then_some(()).ok_or(said)
}

#[test]
fn slow_readers_of_memcached_stop_nobody() {
    thrice(|| beside(&Kind::memcached()));
}

#[test]
fn slow_readers_of_redis_stop_nobody() {
    thrice(|| beside(&Kind::redis()));
}

/// A large request has a connection of its own. It waits there until the messages of its client
/// that have no answer are done: else the older value could come last.
#[test]
fn a_large_request_does_not_overtake_writes_without_an_answer() {
    let backend = wireloom_tests::Backend::new();
    let list = wireloom_tests::servers(&[backend.port]);
    for probe in ["true", "false"] {
        let option = format!("ascii.probe={probe}");
        let proxy = Wireloom::run("memcached_proxy", &["--set", &list, "--set", &option]);
        let mut client = Client::connect(proxy.port);
        client.send("get a\r\n");
        let mut shared = backend.accept();
        shared.expect("get a\r\n").send("END\r\n");
        client.expect("END\r\n");
        let large = vec![b'x'; 3_000_000];
        // A client without such messages does not wait.
        let mut other = Client::connect(proxy.port);
        other.send("set o 0 0 3000000\r\n").send(&large).send("\r\n");
        let mut own = backend.accept();
        own.take_until(b"xx\r\n");
        own.send("STORED\r\n");
        other.expect("STORED\r\n");
        client.send("set k 0 0 1 noreply\r\na\r\n");
        shared.take_until(b"\r\na\r\n");
        client.send("set k 0 0 3000000\r\n").send(&large).send("\r\n");
        if probe == "true" {
            shared.expect("version\r\n");
            own.expect_silence(Duration::from_millis(300));
            assert!(backend.accept_within(Duration::from_millis(100)).is_none(), "the large one waits");
            shared.send("VERSION 1.6.0\r\n");
        }
        own.take_until(b"xx\r\n");
        own.send("STORED\r\n");
        client.expect("STORED\r\n").send("get k\r\n");
        shared.expect("get k\r\n").send("END\r\n");
        client.expect("END\r\n");
    }
}
