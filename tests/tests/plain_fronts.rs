//! A program that passes all requests on shares a server's connection between its clients. One of
//! them sends each command that the server knows, with any words, and bytes that are none. Another
//! one must hear the answers to its own requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use wireloom_tests::client::show;
use wireloom_tests::folder::Folder;
use wireloom_tests::redis::{request, Answer};
use wireloom_tests::{require_tool, Client, Process, Wireloom};

const SECRET: &str = "password-of-b";

fn front(app: &str, server: &Process) -> Process {
    let at = format!("server=127.0.0.1:{}", server.port);
    Wireloom::run_file(&format!("tests/programs/plain_fronts.loom:{app}"), &["--set", &at], |_| {})
}

/// Sends something as a client of its own; answers what it heard at once.
fn hears(port: u16, said: &[u8]) -> Vec<u8> {
    let mut c = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    c.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    // A front may cut off nonsense.
    let _ = c.write_all(said);
    let mut heard = vec![0; 65536];
    let n = c.read(&mut heard).unwrap_or(0);
    heard.truncate(n);
    heard
}

/// Whether the other client's question has its own answer, and nobody else hears it.
fn apart(port: u16, said: &[u8], b: &mut Client, (ask, answer): (&[u8], &[u8])) {
    let heard = hears(port, said);
    let theirs = String::from_utf8_lossy(&heard).contains(SECRET);
    assert!(!theirs, "{} is answered with {}", show(said), show(&heard));
    b.send(ask);
    let got = b.take(answer.len());
    assert!(got == answer, "after {} another client hears {}", show(&said[..said.len().min(300)]), show(&got));
}

#[test]
fn of_redis() {
    if !require_tool("redis-server") {
        return;
    }
    let folder = Folder::new("plain-redis");
    let server = Process::redis_with(&["--dir", &folder.path().display().to_string()]);
    let front = front("to_redis", &server);
    let mut direct = Client::connect(server.port);
    let (ask, answer) = (request(&["GET", "b-secret"]), format!("${}\r\n{SECRET}\r\n", SECRET.len()));
    let mut b = Client::connect(front.port);
    let mut r = fastrand::Rng::with_seed(1);
    let mut check = |said: &[u8]| {
        // Some make the server a replica, which takes no writes.
        direct.send(request(&["REPLICAOF", "NO", "ONE"])).expect("+OK\r\n");
        direct.send(request(&["SET", "b-secret", SECRET])).expect("+OK\r\n");
        apart(front.port, said, &mut b, (&ask, answer.as_bytes()));
    };
    for nothing in
        ["\r\n", "\n", "  \r\n", "*0\r\n", "*-1\r\n", "*1\r\n$0\r\n\r\n", "*0\r\n\r\n*0\r\nPING\r\n", "\0\r\n"]
    {
        check(nothing.as_bytes());
    }
    // They concern all keys.
    let left_out = ["flushall", "flushdb", "swapdb"];
    let words = ["a", "0", "1", "-1", "yes", "debug", "help", "block", "*", ""];
    for name in commands(server.port).iter().filter(|n| !left_out.contains(&n.as_str())) {
        for n in 0..4 {
            let mut said: Vec<&str> = name.split('|').collect();
            said.extend((0..n).map(|_| words[r.usize(..words.len())]));
            check(&request(&said));
            check(format!("{}\r\n", said.join(" ")).as_bytes());
        }
    }
    for said in
        ["BLPOP none 0", "BZMPOP 0 1 none MIN", "XREAD BLOCK 0 STREAMS none $", "XREAD COUNT 1 BLOCK 0 STREAMS none $"]
    {
        check(&request(&said.split(' ').collect::<Vec<_>>()));
    }
    for said in ["SCRIPT DEBUG YES", "script debug sync", "WAIT 1 3000", "CLIENT REPLY OFF", "CLIENT REPLY SKIP"] {
        check(&request(&said.split(' ').collect::<Vec<_>>()));
        check(&[&request(&said.split(' ').collect::<Vec<_>>())[..], &request(&["EVAL", "return 1", "0"])].concat());
    }
}

/// The names of a server's commands, those of parts as `script|load`.
fn commands(port: u16) -> Vec<String> {
    let mut c = Client::connect(port);
    c.send(request(&["COMMAND", "LIST"]));
    let Answer::Array(names) = Answer::take(&mut c) else { panic!("no list of commands") };
    let name = |a: Answer| if let Answer::Bulk(b) = a { String::from_utf8(b).ok() } else { None };
    let names: Vec<String> = names.into_iter().filter_map(name).collect();
    assert!(names.len() > 200, "{names:?}");
    names
}

#[test]
fn of_memcached() {
    if !require_tool("memcached") {
        return;
    }
    let server = Process::memcached();
    let front = front("to_memcached", &server);
    let mut direct = Client::connect(server.port);
    let answer = format!("VALUE secret 0 {}\r\n{SECRET}\r\nEND\r\n", SECRET.len());
    let mut b = Client::connect(front.port);
    let mut check = |said: &[u8]| {
        direct.send(format!("set secret 0 0 {}\r\n{SECRET}\r\n", SECRET.len())).expect("STORED\r\n");
        apart(front.port, said, &mut b, (b"get secret\r\n", answer.as_bytes()));
    };
    for size in [0, 1, 32768, 32769, 40_000, 1 << 20, (1 << 20) + 1, 3 << 20] {
        for noreply in ["", " noreply"] {
            let head = format!("set a 0 0 {size}{noreply}\r\n");
            check(&[head.as_bytes(), &vec![b'x'; size], b"\r\n"].concat());
            check(format!("set a 0 0 {size}{noreply}\r\nxy").as_bytes());
        }
    }
    let verbs = [
        "get",
        "gets",
        "gat",
        "gats",
        "set",
        "add",
        "replace",
        "append",
        "prepend",
        "cas",
        "delete",
        "incr",
        "decr",
        "touch",
        "mg",
        "ms",
        "md",
        "ma",
        "me",
        "mn",
        "version",
        "verbosity",
        "stats",
        "flush_all",
        "slabs",
        "lru",
        "lru_crawler",
        "watch",
        "shutdown",
        "quit",
        "cache_memlimit",
        "",
        "nothing",
    ];
    let words = ["a", "0", "1", "5", "-1", "noreply", "q", "v", "k", "items", "metadump", "all", "", " "];
    let ends = ["\r\n", "\n", "\r\nvalue\r\n", "\r\n\r\n", "\r\nx\r\n", " \r\n"];
    let mut r = fastrand::Rng::with_seed(1);
    let mut pick = |from: &[&'static str]| from[r.usize(..from.len())];
    for n in 0..3000 {
        let verb = verbs[n % verbs.len()];
        let mut said = verb.to_string();
        for _ in 0..n / verbs.len() % 6 {
            said = format!("{said} {}", pick(&words));
        }
        check(format!("{said}{}", pick(&ends)).as_bytes());
    }
}

#[test]
fn of_memcached_binary() {
    if !require_tool("memcached") {
        return;
    }
    let server = Process::memcached();
    let front = front("to_memcached_binary", &server);
    let packet = |opcode: u8, (extras, key, value): (&[u8], &[u8], &[u8]), more: u32| {
        let all = (extras.len() + key.len() + value.len()) as u32 + more;
        let mut p = vec![0x80, opcode];
        p.extend((key.len() as u16).to_be_bytes());
        p.extend([extras.len() as u8, 0, 0, 0]);
        p.extend(all.to_be_bytes());
        p.extend([0, 0, 0, 9]);
        p.extend([0; 8]);
        [&p[..], extras, key, value].concat()
    };
    let (set, get) = (packet(1, (&[0; 8], b"secret", SECRET.as_bytes()), 0), packet(0, (&[], b"secret", &[]), 0));
    let mut direct = Client::connect(server.port);
    let mut b = Client::connect(front.port);
    let mut r = fastrand::Rng::with_seed(1);
    for n in 0..4000u32 {
        direct.send(&set).take(24);
        // Its number of the change is another one each time.
        direct.send(&get);
        let answer = direct.take(24 + 4 + SECRET.len());
        let rest = [0, 4, 8, 20][r.usize(..4)];
        let (key, value) = (&b"abc"[..r.usize(..4)], &b"12345"[..r.usize(..6)]);
        let more = if r.u8(..8) == 0 { r.u32(..40) } else { 0 };
        let said = packet((n % 0x60) as u8, (&[0; 20][..rest], key, value), more);
        apart(front.port, &said, &mut b, (&get, &answer));
    }
}
