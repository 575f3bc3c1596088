//! The same bytes come back from the real server, from the proxy before two of them, and from
//! `kv_server`. One script per protocol is sent to both and compared answer by answer. Intended
//! differences of a proxy are in lists of their own. Commands that a server answers twice or by
//! hanging up must not harm other clients of the proxy.

use std::io::{ErrorKind, Read};
use wireloom_tests::client::show;
use wireloom_tests::memcached::binary::{op, Packet};
use wireloom_tests::{plain, require_tool, Client, Process, PATIENCE};

/// All bytes until an answer that ends the step: `end` is the answer to a probe sent behind it.
fn hear(c: &mut Client, end: &[u8]) -> Vec<u8> {
    c.stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let (mut all, mut buffer) = (Vec::new(), [0; 65536]);
    while !all.ends_with(end) {
        match c.stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
            Err(e) => panic!("no end: {e} after {}", show(&all)),
        }
    }
    all
}

/// Says every step and the probe to both, and compares.
fn compare<S: AsRef<[u8]>>(
    real: u16,
    ours: u16,
    steps: &[S],
    probe: &[u8],
    end: &[u8],
    normal: impl Fn(Vec<u8>) -> Vec<u8>,
) {
    let (mut a, mut b) = (Client::connect(real), Client::connect(ours));
    let mut differ = Vec::new();
    for s in steps {
        let say = [s.as_ref(), probe].concat();
        a.send(&say);
        b.send(&say);
        let (x, y) = (normal(hear(&mut a, end)), normal(hear(&mut b, end)));
        if x != y {
            differ.push(format!("{}\n   real {}\n   ours {}", show(s.as_ref()), show(&x), show(&y)));
        }
    }
    assert!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), steps.len(), differ.join("\n"));
}

const TEXT: &[&str] = &[
    "get a\r\n",
    "set a 1 0 5\r\nhello\r\n",
    "get a\r\n",
    "set b 4294967295 0 0\r\n\r\n",
    "get a b c\r\n",
    "get a a a\r\n",
    "gets a\r\n",
    "get a\n",
    "set a 0 0 5 \r\nhello\r\n",
    "set  a  1  0  5\r\nhello\r\n",
    "add a 0 0 1\r\nx\r\n",
    "add new 0 0 1\r\nx\r\n",
    "replace a 2 0 3\r\nabc\r\n",
    "replace zz 2 0 3\r\nabc\r\n",
    "append a 0 0 2\r\nde\r\n",
    "prepend a 0 0 2\r\n>>\r\n",
    "append zz 0 0 2\r\nde\r\n",
    "get a\r\n",
    "cas a 0 0 1 123456\r\nx\r\n",
    "cas zz 0 0 1 12\r\nx\r\n",
    "cas a 0 0 1 x\r\nx\r\n",
    "set n 0 0 1\r\n5\r\n",
    "incr n 10\r\n",
    "decr n 100\r\n",
    "incr n 18446744073709551615\r\n",
    "incr n 2\r\n",
    "decr n 1\r\nget n\r\n",
    "incr n 18446744073709551616\r\n",
    "incr n -1\r\n",
    "incr n abc\r\n",
    "incr n abc noreply\r\n",
    "incr n noreply\r\n",
    "incr n  noreply\r\n",
    "incr n noreply \r\nget n\r\n",
    "decr n noreply 1\r\n",
    "incr zz 1\r\n",
    "incr a 1\r\n",
    "decr a 1\r\n",
    "set w 0 0 5\r\n10000\r\ndecr w 1\r\nget w\r\nincr w 1\r\nget w\r\ndecr w 9999\r\nget w\r\n",
    "set w 0 0 20\r\n18446744073709551615\r\nincr w 1\r\nget w\r\n",
    "set w 0 0 20\r\n18446744073709551616\r\nincr w 1\r\n",
    "set w 0 0 2\r\n-1\r\nincr w 1\r\n",
    "set w 0 0 3\r\n12 \r\nincr w 1\r\n",
    "set w 0 0 3\r\n1.5\r\nincr w 1\r\n",
    "delete a\r\n",
    "delete a\r\n",
    "set a 0 0 2 noreply\r\nhi\r\n",
    "delete a noreply\r\nget a\r\n",
    "set a 0 0 2\r\nhi\r\n",
    "touch a 100\r\n",
    "touch zz 100\r\n",
    "touch a x\r\n",
    "touch a x noreply\r\n",
    "touch a noreply\r\n",
    "touch a  noreply\r\n",
    "delete noreply\r\n",
    "touch a -1\r\nget a\r\n",
    "set a 0 0 2\r\nhi\r\n",
    "gat 100 a\r\n",
    "gats 100 zz\r\n",
    "gat 100 a zz b\r\n",
    "gat x a\r\n",
    "gat x a b c d e f\r\n",
    "gats noreply a b c d e f\r\n",
    "gat -1 a\r\nget a\r\n",
    "get\r\n",
    "get \r\n",
    "gets\r\n",
    "set a x 0 1\r\nz\r\n",
    "set a 0 x 1\r\nz\r\n",
    "set a 0 0 x\r\n",
    "set a -1 0 1\r\nz\r\n",
    "set a 0 0 2\r\nhello\r\n",
    "set a 0 0 5\r\nhi\r\nabc\r\n",
    "GET a\r\n",
    "\r\n",
    "nonsense\r\n",
    "set a 0 2592000 1\r\nx\r\nget a\r\n",
    "set a 0 2592001 1\r\nx\r\nget a\r\n",
    "set a 0 2147483647 1\r\nx\r\nget a\r\n",
    "set a 0 -1 1\r\nx\r\nget a\r\n",
    "version x\r\n",
    "verbosity\r\n",
    "verbosity 1\r\n",
    "verbosity 1 noreply\r\n",
    "verbosity x\r\n",
    "mn\r\n",
    "mn x\r\n",
];

/// Meta commands, which only the proxy has.
const META: &[&str] = &[
    "set a 7 0 5\r\nhello\r\n",
    "set n 0 0 2\r\n10\r\n",
    "mg a\r\n",
    "mg a v\r\n",
    "mg a s v t f k O123\r\n",
    "mg zz v\r\n",
    "mg zz v q\r\n",
    "mg a v q\r\n",
    "mg a q\r\n",
    "mg zz qx\r\n",
    "mg a v q1\r\n",
    "mg zz vq\r\n",
    "mg a q k\r\n",
    "mg a k q\r\n",
    "mg zz k O1\r\n",
    "mg a  v\r\n",
    "ms a 2\r\nhi\r\n",
    "ms a 2 T90 F5\r\nhi\r\n",
    "ms a 2 q\r\nhi\r\n",
    "ms a 2 qq\r\nhi\r\n",
    "ms a 2 \r\nhi\r\n",
    "ms a 2  T90  F5 \r\nhi\r\n",
    "ms a 2 k O9 q\r\nhi\r\n",
    "ms a 2 MA\r\nhi\r\n",
    "ms a 2 ME\r\nhi\r\n",
    "ms zz9 2 MR\r\nhi\r\n",
    "ms zz9 2 MR q\r\nhi\r\n",
    "ms a 2 C1\r\nhi\r\n",
    "ms a 2 noreply\r\nhi\r\n",
    "ms a 2 b\r\nhi\r\n",
    "ms a 2 Tx\r\nhi\r\n",
    "ms a 2 Fx\r\nhi\r\n",
    "ms a 2 Cx\r\nhi\r\n",
    "ms a 2 MZ\r\nhi\r\n",
    "ms a 2 T1 T1\r\nhi\r\n",
    "ms a 2\r\nhello\r\n",
    "mg a v\r\n",
    "md zz\r\n",
    "md zz q\r\n",
    "md a q\r\n",
    "md a q9\r\n",
    "md a\r\n",
    "md a x y\r\n",
    "ma n\r\n",
    "ma n2 N0 J13 v\r\n",
    "ma n2 v\r\n",
    "ma n2 D5 MD v\r\n",
    "ma n2 q\r\n",
    "ma n2 v q\r\n",
    "ma zz3 q\r\n",
    "ma n2 Dx\r\n",
    "me zz\r\n",
    "ms a 5 T0 I\r\nhello\r\n",
    "mg a s\r\n",
    "mg a t\r\n",
    "ms Zm9v 3 b\r\nbar\r\n",
    "mg Zm9v b v k\r\n",
    "mg vv N30 v t\r\n",
    "mg vv v\r\n",
    "mg a E5 v\r\n",
    "mg a v v\r\n",
    "mg a S\r\n",
    "mg a !\r\n",
    "md a I T30\r\nmg a v\r\n",
    "mg key v q k O5\r\nmg a v q k O6\r\n",
];

/// `flush_all` concerns all servers, so only `kv_server` has it.
const FLUSH: &[&str] = &[
    "set n 0 0 1\r\n1\r\n",
    "flush_all\r\n",
    "get n\r\n",
    "set n 0 0 1\r\n1\r\nflush_all noreply\r\nget n\r\n",
    "set n 0 0 1\r\n1\r\nflush_all 100\r\nget n\r\n",
    "flush_all x\r\n",
    "flush_all 0 noreply\r\nget n\r\n",
    "set n 0 0 1\r\n1\r\nget n\r\n",
];

/// Without stamps and versions, which are each server's own.
fn text_normal(answer: Vec<u8>) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = answer.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    for l in &mut lines {
        let words = l.split(|b| *b == b' ').count();
        if l.starts_with(b"VALUE ") && words == 5 {
            let end = l.iter().rposition(|b| *b == b' ').unwrap_or(l.len());
            l.truncate(end);
        }
        if l.starts_with(b"VERSION ") {
            l.truncate(7);
        }
    }
    lines.join(&b'\n')
}

fn memcached_proxy() -> wireloom_tests::memcached::Service {
    wireloom_tests::memcached::Service::proxy(2, &[])
}

#[test]
fn memcached_text() {
    if !require_tool("memcached") {
        return;
    }
    // Two commands, whose answers together end no step by themselves.
    let (probe, end) = (b"incr no-such-key 1\r\nnonsense\r\n", b"NOT_FOUND\r\nERROR\r\n");
    for (ours, more) in [(memcached_proxy(), META), (wireloom_tests::memcached::Service::kv(), FLUSH)] {
        let real = Process::memcached();
        let steps: Vec<&str> = TEXT.iter().chain(more).copied().collect();
        compare(real.port, ours.port, &steps, probe, end, text_normal);
    }
}

/// Over-long keys: answered, or not if so asked, and the rest is read as commands. memcached reads
/// the data as a command.
#[test]
fn text_keys_of_251_bytes() {
    if plain() {
        return;
    }
    let key = "k".repeat(251);
    for service in [memcached_proxy(), wireloom_tests::memcached::Service::kv()] {
        let mut c = Client::connect(service.port);
        for (line, answers) in [
            (format!("set {key} 0 0 3\r\nget\r\n"), true),
            (format!("cas {key} 0 0 3 7\r\nget\r\n"), true),
            (format!("delete {key}\r\n"), true),
            (format!("incr {key} 1\r\n"), true),
            (format!("touch {key} 1\r\n"), true),
            (format!("get {key}\r\n"), true),
            (format!("get a {key}\r\n"), true),
            (format!("gat 0 {key}\r\n"), true),
            (format!("mg {key} v\r\n"), true),
            (format!("set {key} 0 0 3 noreply\r\nget\r\n"), false),
            (format!("cas {key} 0 0 3 7 noreply\r\nget\r\n"), false),
            (format!("delete {key} noreply\r\n"), false),
            (format!("incr {key} 1 noreply\r\n"), false),
            (format!("touch {key} 1 noreply\r\n"), false),
        ] {
            c.send(&line).send("mn\r\n");
            if answers {
                c.expect("CLIENT_ERROR bad command line format\r\n");
            }
            c.expect("MN\r\n");
        }
        c.expect_nothing_more();
    }
}

/// The packets of an answer: operation, status, opaque, whether it has a stamp, and its body.
fn packets(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while bytes.len() >= 24 {
        let body = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        let stamp = u8::from(bytes[16..24] != [0; 8]);
        out.extend_from_slice(&bytes[..16]);
        out.push(stamp);
        let end = (24 + body).min(bytes.len());
        out.extend_from_slice(&bytes[24..end]);
        bytes = &bytes[end..];
    }
    [&out, bytes].concat()
}

fn binary_steps() -> Vec<Vec<u8>> {
    let extras = |p: Packet, e: &[u8]| Packet { extras: e.to_vec(), ..p };
    let none = |op: u8, key: &str, initial: u64| Packet {
        extras: [&1u64.to_be_bytes()[..], &initial.to_be_bytes(), &[0xff; 4]].concat(),
        ..Packet::request(op, key)
    };
    let at = |op: u8, key: &str, when: u32| Packet {
        extras: [7u32.to_be_bytes(), when.to_be_bytes()].concat(),
        value: b"v".to_vec(),
        ..Packet::request(op, key)
    };
    let mut steps: Vec<Vec<u8>> = Vec::new();
    for (get, key) in [(0, "a"), (0x0c, "a"), (9, "a"), (0x0d, "a")] {
        steps.push(Packet::request(get, key).opaque(7).bytes());
    }
    for p in [
        Packet::store(op::SET, "a", b"hello"),
        Packet::request(op::GET, "a"),
        Packet::request(op::GETK, "a"),
        Packet::request(op::GETQ, "a"),
        Packet::request(op::GETKQ, "a"),
        Packet::store(op::SETQ, "b", b"x"),
        Packet::store(op::ADD, "a", b"x"),
        Packet::store(op::ADDQ, "a", b"x"),
        Packet::store(op::ADDQ, "c", b"x"),
        Packet::store(op::REPLACE, "a", b"y"),
        Packet::store(op::REPLACE, "z", b"y"),
        Packet::store(op::REPLACEQ, "z", b"y"),
        Packet::join(op::APPEND, "a", b"x"),
        Packet::join(op::APPEND, "z", b"x"),
        Packet::join(op::APPENDQ, "z", b"x"),
        Packet::join(op::PREPEND, "a", b"x"),
        Packet::join(op::PREPENDQ, "a", b"x"),
        Packet::change(op::INCREMENT, "n", 1, 10),
        Packet::change(op::INCREMENT, "n", 1, 10),
        Packet::change(op::INCREMENTQ, "n", 1, 10),
        Packet::change(op::DECREMENT, "n", 100, 10),
        Packet::request(op::GET, "n"),
        none(op::INCREMENT, "zz", 1),
        none(op::INCREMENTQ, "zz", 1),
        Packet::change(op::INCREMENT, "a", 1, 10),
        Packet::change(op::INCREMENTQ, "a", 1, 10),
        Packet::request(op::DELETE, "z"),
        Packet::request(op::DELETEQ, "z"),
        Packet::request(op::DELETE, "b"),
        Packet::request(op::DELETEQ, "c"),
        Packet::store(op::SET, "z", b"x").cas(1 << 40),
        Packet::store(op::SET, "a", b"x").cas(1 << 40),
        Packet::store(op::REPLACE, "a", b"x").cas(1 << 40),
        Packet::join(op::APPEND, "a", b"x").cas(1 << 40),
        Packet::request(op::DELETE, "a").cas(1 << 40),
        Packet::change(op::INCREMENT, "n", 1, 1).cas(1 << 40),
        Packet::store(op::ADD, "zq", b"x").cas(1 << 40),
        Packet::touch(op::TOUCH, "a", 100),
        Packet::touch(op::TOUCH, "z", 100),
        Packet::touch(op::GAT, "a", 100),
        Packet::touch(op::GAT, "z", 100),
        Packet::touch(op::GATQ, "a", 100),
        Packet::touch(op::GATQ, "z", 100),
        Packet::touch(0x23, "a", 100),
        Packet::touch(0x23, "z", 100),
        Packet::touch(0x24, "a", 0),
        Packet::touch(0x24, "z", 100),
        Packet::request(op::NOOP, ""),
        Packet::store(op::SET, "e", b""),
        Packet::request(op::GETK, "e"),
        at(op::SET, "x", 2_592_001),
        Packet::request(op::GET, "x"),
        at(op::SET, "x", 100),
        Packet::request(op::GET, "x"),
        at(op::SET, "x", u32::MAX),
        Packet::request(op::GET, "x"),
        at(op::SET, "x", 0),
        extras(Packet::request(op::TOUCH, "x"), &2_592_001u32.to_be_bytes()),
        Packet::request(op::GET, "x"),
        Packet::store(op::SET, "big", &[b'x'; 2_000_000]),
        Packet::store(op::SETQ, "big", &[b'x'; 2_000_000]),
        Packet::request(0x20, ""),
        Packet { value: b"\0u\0p".to_vec(), ..Packet::request(0x21, "PLAIN") },
        Packet { value: b"x".to_vec(), ..Packet::request(0x22, "PLAIN") },
    ] {
        steps.push(p.opaque(0xdead_beef).bytes());
    }
    steps.push((0..50).flat_map(|i| Packet::store(op::SETQ, &format!("k{i}"), b"v").opaque(i).bytes()).collect());
    steps.push((0..55).flat_map(|i| Packet::request(op::GETKQ, &format!("k{i}")).opaque(i).bytes()).collect());
    steps
}

#[test]
fn memcached_binary() {
    if !require_tool("memcached") {
        return;
    }
    let probe = Packet::request(op::NOOP, "").opaque(0x5eed_5eed).bytes();
    let end = [&[0x81, op::NOOP][..], &probe[2..]].concat();
    for ours in [memcached_proxy(), wireloom_tests::memcached::Service::kv()] {
        let real = Process::memcached();
        compare(real.port, ours.port, &binary_steps(), &probe, &end, |a| packets(&a));
    }
}

/// Commands that make memcached hang up, or answer one request twice, affect only their own client.
/// Other clients' requests, which share the servers' connections, are all answered, and by their
/// own answers.
#[test]
fn nobody_breaks_the_shared_connections() {
    if plain() {
        return;
    }
    let service = memcached_proxy();
    let mut good = Client::connect(service.port);
    good.send("set a 0 0 1\r\nx\r\nset bb 0 0 1\r\ny\r\n").expect("STORED\r\nSTORED\r\n");
    let long = format!("delete{}a{}\r\n", " ".repeat(1000), " ".repeat(1400));
    let flags = format!("mg a{}\r\n", format!(" O{}", "1".repeat(200)).repeat(15));
    let texts = [
        "set a 0 x 1\r\nget a\r\n",
        "set a 0-1 3\r\nget a\r\n",
        "set a 0 0 5 noreply x\r\nget a\r\n",
        "set a 0 0 5noreply\r\nget a\r\n",
        "cas a 0 0 5 7noreply\r\nget a\r\n",
        "set a 0 99999999999999999999 5\r\nget a\r\n",
        "set a 18446744073709551616 0 5\r\nget a\r\n",
        "ms a 5T1\r\nget a\r\n",
        "ms a -1\r\nget a\r\n",
        "incr a 1 noreply 2\r\n",
        &long,
        &flags,
    ];
    for t in texts {
        Client::connect(service.port).send(t);
        good.send("get a\r\nget bb\r\nincr none 1\r\n")
            .expect("VALUE a 0 1\r\nx\r\nEND\r\nVALUE bb 0 1\r\ny\r\nEND\r\nNOT_FOUND\r\n");
    }
    let bad = |op: u8, extras: usize, key: &str, value: &[u8]| {
        Packet { extras: vec![0; extras], value: value.to_vec(), ..Packet::request(op, key) }.bytes()
    };
    let mut other = Client::connect(service.port);
    other.in_step();
    for op in
        (0..=6).chain([9, 0x0c, 0x0d, 0x0e, 0x0f]).chain(0x11..=0x16).chain([0x19, 0x1a, 0x1c, 0x1d, 0x1e, 0x23, 0x24])
    {
        for packet in [
            bad(op, 1, "a", b""),
            bad(op, 0, "", b"v"),
            bad(op, 5, "a", b"v"),
            bad(op, 24, "a", b"v"),
            [&[0x81][..], &bad(op, 0, "a", b"")[1..]].concat(),
        ] {
            Client::connect(service.port).send(packet);
            assert_eq!(other.ask(&Packet::request(op::GET, "a")).value, b"x", "after {op:#x}");
        }
    }
    other.in_step();
}
