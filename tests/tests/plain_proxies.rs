//! Programs of one line, which pass every request on. The protocol refuses commands without exactly
//! one answer, and commands that change their connection. So every client gets its own answers.

use wireloom_tests::memcached::binary::{op, Packet};
use wireloom_tests::redis::{bulk, request};
use wireloom_tests::{plain, require_tool, servers, Client, Process, Wireloom};

/// An attacker says each of these, on a connection of its own. Two others ask then, and get their
/// own answers.
fn others_are_safe(port: u16, attacks: &[Vec<u8>], asked: [(Vec<u8>, Vec<u8>); 2]) {
    let [mut w, mut v] = [Client::connect(port), Client::connect(port)];
    for attack in attacks {
        let mut attacker = Client::connect(port);
        attacker.send(attack);
        // With any answer the command has been handled.
        attacker.has_something();
        w.send(&asked[0].0);
        v.send(&asked[1].0);
        let told = format!("after {}", wireloom_tests::client::show(attack));
        assert_eq!(w.take(asked[0].1.len()), asked[0].1, "{told}");
        assert_eq!(v.take(asked[1].1.len()), asked[1].1, "{told}");
        for secret in [&b"SECRET"[..], b"MINE"] {
            assert!(!attacker.seen.windows(secret.len()).any(|s| s == secret), "{told}: another client's answer");
        }
    }
}

#[test]
fn memcached_binary() {
    if plain() || !require_tool("memcached") {
        return;
    }
    let server = Process::memcached();
    let proxy = Wireloom::run("memcached_proxy_brief", &["--set", &servers(&[server.port])]);
    let mut c = Client::connect(proxy.port);
    for (key, value) in [("w", "SECRET"), ("v", "MINE")] {
        assert_eq!(c.ask(&Packet::store(op::SET, key, value.as_bytes())).status, 0);
    }
    let bare = |op: u8, key: &str| Packet::request(op, key).bytes();
    let mut attacks: Vec<Vec<u8>> = (0..=0xff).flat_map(|op| [bare(op, ""), bare(op, "nokey")]).collect();
    attacks.extend([
        [bare(op::GETQ, "nokey"), bare(op::NOOP, "")].concat(),
        Packet::store(op::SETQ, "x", b"y").bytes(),
        Packet { extras: vec![0; 4], ..Packet::request(op::GET, "v") }.bytes(),
        Packet { value: b"v".to_vec(), ..Packet::request(op::NOOP, "") }.bytes(),
        bare(op::GET, &"k".repeat(300)),
    ]);
    let ask = |key: &str| Packet::request(op::GET, key).opaque(7);
    let asked = ["w", "v"].map(|k| (ask(k).bytes(), c.ask(&ask(k)).bytes()));
    others_are_safe(proxy.port, &attacks, asked);
}

#[test]
fn memcached_text() {
    if plain() || !require_tool("memcached") {
        return;
    }
    let server = Process::memcached();
    let list = servers(&[server.port]);
    let proxy = Wireloom::run_file("tests/programs/plain_text_proxy.loom", &["--set", &list], |_| {});
    let stored = "set w 0 0 6\r\nSECRET\r\nset v 0 0 4\r\nMINE\r\n";
    Client::connect(proxy.port).send(stored).expect("STORED\r\nSTORED\r\n");
    let attacks = [
        "mg nokey q\r\n",
        "mg w v q\r\n",
        "md nokey q\r\n",
        "ma nokey q\r\n",
        "ms zq 1 q\r\nx\r\n",
        "ms zq 1 T9 q\r\nx\r\n",
        "mn\r\n",
        "verbosity 1 noreply\r\n",
        "verbosity 1\r\n",
        "flush_all 1000 noreply\r\n",
        "flush_all 1000\r\n",
        "watch fetchers\r\n",
        "lru_crawler metadump all\r\n",
        "touch nokey 0 noreply\r\n",
        "delete nokey noreply\r\n",
        "incr nokey 1 noreply\r\n",
        "set k 0 0 1 noreply\r\nx\r\n",
        "stats\r\n",
        "stats items\r\n",
        "version x\r\n",
        "shutdown\r\n",
        "quit\r\n",
        "unknown\r\n",
    ];
    let asked = [("w", "SECRET"), ("v", "MINE")]
        .map(|(k, v)| (format!("get {k}\r\n").into(), format!("VALUE {k} 0 {}\r\n{v}\r\nEND\r\n", v.len()).into()));
    others_are_safe(proxy.port, &attacks.map(|a| a.as_bytes().to_vec()), asked);
    Client::connect(proxy.port).send("mg v v\r\nversion\r\n").expect("VA 4\r\nMINE\r\nVERSION ");
}

#[test]
fn redis() {
    if plain() || !require_tool("redis-server") {
        return;
    }
    let server = Process::redis();
    let list = servers(&[server.port]);
    let proxy = Wireloom::run_file("tests/programs/plain_redis_proxy.loom", &["--set", &list], |_| {});
    let stored = [request(&["SET", "w", "SECRET"]), request(&["SET", "v", "MINE"])].concat();
    Client::connect(proxy.port).send(&stored).expect("+OK\r\n+OK\r\n");
    let lines = [
        "CLIENT REPLY SKIP",
        "client reply off",
        "SELECT 1",
        "MULTI",
        "WATCH w",
        "SUBSCRIBE x",
        "PSUBSCRIBE x y",
        "SSUBSCRIBE x",
        "MONITOR",
        "HELLO 3",
        "AUTH a b",
        "RESET",
        "QUIT",
        "READONLY",
        "ASKING",
        "SYNC",
        "PSYNC ? -1",
    ];
    let words = |line: &str| request(&line.split(' ').collect::<Vec<_>>());
    let mut attacks: Vec<Vec<u8>> = lines.iter().flat_map(|l| [words(l), format!("{l}\r\n").into_bytes()]).collect();
    // A browser's request, with a command in its body.
    let pages = ["POST / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\n", "get /\r\n", "Host: x\r\n", "hOST:\r\n"];
    let mut pages: Vec<Vec<u8>> = pages.iter().map(|p| p.as_bytes().to_vec()).collect();
    pages.extend([words("POST x"), words("host: x"), words("quit now"), b"quit now\r\n".to_vec()]);
    attacks.extend(pages.iter().map(|page| [page, &b"SET pwn 1\r\n"[..]].concat()));
    let asked = [("w", "SECRET"), ("v", "MINE")].map(|(k, v)| (request(&["GET", k]), bulk(v.as_bytes())));
    others_are_safe(proxy.port, &attacks, asked);
    let mut c = Client::connect(proxy.port);
    c.send(request(&["EXISTS", "pwn"])).expect(":0\r\n");
    c.send("PING\r\nQUIT\r\nSET pwn 1\r\n").expect("+PONG\r\n+OK\r\n").expect_closed();
    Client::connect(proxy.port).send("get / HTTP/1.1\r\nSET pwn 1\r\n").expect_closed();
    Client::connect(proxy.port).send(request(&["EXISTS", "pwn"])).expect(":0\r\n");
}
