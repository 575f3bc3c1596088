//! `apps/websocket_gateway.loom` between real clients (Python's `websockets`, node's `ws`) and
//! hostile ones, on several cores.

use std::process::Command;
use std::time::Duration;
use wireloom_tests::{admin, client_library, finish, free_port, root, Client, Process, Wireloom};

/// A gateway on two cores, where there are two.
fn gateway(extra: &[&str]) -> Process {
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    let cores = ["--cores", if two { "0,1" } else { "0" }];
    Wireloom::run("websocket_gateway", &[&cores[..], extra].concat())
}

fn python(gateway: &Process, part: &str) {
    let Some(library) = client_library("websocket/python", "python3") else { return };
    let script = root().join("tests/clients/websocket/rooms.py");
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", library).arg(script).args([&gateway.port.to_string(), part]);
    let out = finish(&mut command);
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
}

#[test]
fn rooms_of_python_clients() {
    python(&gateway(&[]), "rooms");
}

#[test]
fn members_are_killed_at_random() {
    let gateway = gateway(&[]);
    python(&gateway, "killed");
    // Nobody is left behind.
    for room in ["r0", "r1", "r2"] {
        assert_eq!(members(&gateway, room), 0, "{room}");
    }
}

#[test]
fn a_member_that_does_not_read() {
    let gateway = gateway(&[]);
    python(&gateway, "slow");
    assert!(gateway.rss_kib() < 200_000, "{} KiB", gateway.rss_kib());
}

#[test]
fn handshakes_are_refused() {
    python(&gateway(&["--set", "max_members=5"]), "refused");
}

#[test]
fn rooms_of_node_clients() {
    let Some(library) = client_library("websocket/node", "node") else { return };
    let gateway = gateway(&[]);
    let mut command = Command::new("node");
    command.env("NODE_PATH", library.join("node_modules"));
    command.arg(root().join("tests/clients/websocket/node/rooms.js")).arg(gateway.port.to_string());
    let out = finish(&mut command);
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
}

/// How many are in a room, as plain HTTP tells.
fn members(gateway: &Process, room: &str) -> u32 {
    let mut client = Client::connect(gateway.port);
    client.send(format!("GET /{room} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    let answer = String::from_utf8(client.rest()).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").and_then(|(_, body)| body.trim().parse().ok()).expect("a number")
}

const ASK: &str = "GET /hostile HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
/// The answer of RFC 6455, section 1.3.
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                        sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn enter(gateway: &Process) -> Client {
    let mut client = Client::connect(gateway.port);
    client.send(ASK).expect(SWITCHED);
    client
}

/// A client's frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut all = vec![first];
    match payload.len() {
        n @ 0..126 => all.push(0x80 | n as u8),
        n @ 126..0x10000 => {
            all.push(0xfe);
            all.extend((n as u16).to_be_bytes());
        }
        n => {
            all.push(0xff);
            all.extend((n as u64).to_be_bytes());
        }
    }
    all.extend(mask);
    all.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
    all
}

fn close(code: u16) -> Vec<u8> {
    [&[0x88, 2][..], &code.to_be_bytes()].concat()
}

#[test]
fn hostile_frames_end_their_connection_only() {
    let gateway = gateway(&[]);
    let mut witness = enter(&gateway);
    let masked = [0x80, 0, 0, 0, 0];
    let long = |n: u64| [&[0x82, 0xff][..], &n.to_be_bytes(), &[0; 4]].concat();
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        ("unmasked", b"\x81\x05Hello".to_vec(), 1002),
        ("reserved bits", [&[0xc1][..], &masked].concat(), 1002),
        ("all reserved bits", [&[0xf1][..], &masked].concat(), 1002),
        ("opcode 3", [&[0x83][..], &masked].concat(), 1002),
        ("opcode 11", [&[0x8b][..], &masked].concat(), 1002),
        ("opcode 15", [&[0x8f][..], &masked].concat(), 1002),
        ("a long ping", frame(0x89, &[b'x'; 126]), 1002),
        ("a ping in fragments", frame(0x09, b"x"), 1002),
        ("a close in fragments", frame(0x08, b""), 1002),
        ("a continuation of nothing", frame(0x80, b"x"), 1002),
        ("a message within a message", [frame(0x01, b"a"), frame(0x81, b"b")].concat(), 1002),
        ("a length of 16 bits for 7", [&[0x82, 0xfe, 0, 125][..], &[0; 129]].concat(), 1002),
        ("a length of 64 bits for 16", long(0xffff), 1002),
        ("the top bit of the length", long(1 << 63), 1002),
        ("all bits of the length", long(u64::MAX), 1002),
        ("a frame that is too long", long(0x1_0001), 1009),
        ("a frame of exabytes", long(u64::MAX >> 1), 1009),
        ("text that is none", frame(0x81, b"\xff"), 1007),
        ("text with a surrogate", frame(0x81, b"\xed\xa0\x80"), 1007),
        ("text that is cut", frame(0x81, b"a\xc3"), 1007),
        ("fragments that are no text", [frame(0x01, b"\xc3"), frame(0x80, b"(")].concat(), 1007),
        ("fragments that are too long", [frame(0x02, &[1; 40000]), frame(0x80, &[2; 40000])].concat(), 1009),
        ("a close of one byte", frame(0x88, b"\x03"), 1002),
        ("a close by 1005", frame(0x88, &1005u16.to_be_bytes()), 1002),
        ("a close by 999", frame(0x88, &999u16.to_be_bytes()), 1002),
        ("a close whose reason is no text", frame(0x88, b"\x03\xe8\xff"), 1007),
        ("a close in order", frame(0x88, b"\x03\xe8bye"), 1000),
        ("a close without a code", frame(0x88, b""), 1000),
    ];
    for (name, bytes, code) in &cases {
        for size in [usize::MAX, 1] {
            // The long ones take their time byte by byte.
            if size == 1 && bytes.len() > 300 {
                continue;
            }
            let mut client = enter(&gateway);
            client.send_in_pieces(bytes, size.min(bytes.len()));
            assert_eq!(client.rest(), close(*code), "{name}, in pieces of {size}");
        }
    }
    witness.expect_nothing_more();
    assert_eq!(members(&gateway, "hostile"), 1);
    // A client that says nothing more behind half a frame.
    let mut half = enter(&gateway);
    half.send(&frame(0x81, b"never whole")[..9]).finish_sending();
    assert_eq!(half.rest(), close(1002));
    witness.expect_nothing_more();
}

/// Masks and lengths torn at every byte, with the upgrade in the same segment; character boundaries
/// between fragments; pings between fragments.
#[test]
fn frames_torn_at_every_byte() {
    for how in [&[][..], &["--interpret"]] {
        let gateway = Wireloom::run("websocket_gateway", how);
        let mut other = enter(&gateway);
        let text = "grüße €";
        let (head, tail) = text.as_bytes().split_at(3);
        let frames = [
            frame(0x81, b"whole"),
            frame(0x01, head),
            frame(0x89, b"ping"),
            frame(0x00, b""),
            frame(0x80, tail),
            frame(0x82, &[7; 130]),
        ]
        .concat();
        let said =
            [&b"\x81\x05whole\x81"[..], &[text.len() as u8], text.as_bytes(), b"\x82\x7e\0\x82", &[7; 130]].concat();
        let all = [ASK.as_bytes(), &frames].concat();
        // The whole request has been torn by others; from its last bytes on.
        for cut in ASK.len() - 4..all.len() {
            let mut client = Client::connect(gateway.port);
            client.send(&all[..cut]);
            std::thread::sleep(Duration::from_micros(300));
            client.send(&all[cut..]);
            client.expect([SWITCHED.as_bytes(), b"\x8a\x04ping"].concat());
            other.expect(&said);
        }
        Client::connect(gateway.port).send_in_pieces(&all, 1).expect(SWITCHED);
        other.expect(&said);
    }
}

/// The processor time of 150 messages of a thousand fragments of one byte, behind a beginning.
fn time_of_small_fragments(beginning: usize) -> u64 {
    let gateway = gateway(&[]);
    let mut client = enter(&gateway);
    let small: Vec<u8> = (0..1000).flat_map(|_| frame(0x00, b"x")).collect();
    let message = [frame(0x02, &vec![7; beginning]), small, frame(0x80, b"")].concat();
    let before = gateway.cpu_ms();
    for _ in 0..150 {
        client.send(&message);
    }
    client.send(frame(0x89, b"done")).expect(b"\x8a\x04done");
    gateway.cpu_ms() - before
}

/// A fragment costs what it has, not what its message has.
#[test]
fn small_fragments_of_a_large_message_are_cheap() {
    let short = time_of_small_fragments(0);
    let long = time_of_small_fragments(60_000);
    assert!(long <= 2 * short + 300, "{long} ms behind a long beginning, {short} ms behind a short one");
}

#[test]
fn messages_under_way_are_bounded() {
    let gateway = gateway(&["--set", "max_unfinished=200000"]);
    let mut client = enter(&gateway);
    let many: Vec<u8> = (0..1024).flat_map(|_| frame(0x00, b"x")).collect();
    client.send([frame(0x02, b"x"), many].concat());
    assert_eq!(client.rest(), close(1008), "too many fragments");
    let begun = frame(0x02, &[1; 60_000]);
    let mut open: Vec<Client> = (0..3).map(|_| enter(&gateway)).collect();
    for c in &mut open {
        c.send(&begun).send(frame(0x89, b"")).expect(b"\x8a\0");
    }
    let mut late = enter(&gateway);
    assert_eq!(late.send(&begun).rest(), close(1008), "too much of one address");
    // A message that is complete, and one whose client has left, count no longer.
    open[0].send(frame(0x80, b"")).send(frame(0x89, b"")).expect(b"\x8a\0");
    let mut late = enter(&gateway);
    late.send(&begun).send(frame(0x89, b"")).expect(b"\x8a\0");
    drop(open);
    admin::eventually("the memory of those that have left is free", || {
        let mut client = enter(&gateway);
        client.send(&begun).send(frame(0x89, b""));
        client.take(2) == b"\x8a\0"
    });
}

#[test]
fn who_is_refused_leaves_no_room_behind() {
    let page = format!("127.0.0.1:{}", free_port());
    let gateway = gateway(&["--set", "max_members=0", "--admin", &page]);
    for n in 0..50 {
        let mut client = Client::connect(gateway.port);
        client.send(ASK.replace("/hostile", &format!("/{n}")));
        assert!(client.take_head().starts_with("http/1.1 503 "));
    }
    let port = page.rsplit(':').next().and_then(|p| p.parse().ok()).expect("a port");
    let status = admin::status(port);
    assert_eq!(status["apps"][0]["tables"]["members"]["entries"], 0, "{status}");
}

#[test]
fn who_does_not_answer_pings_is_closed() {
    let gateway = gateway(&["--set", "ping_every=1"]);
    let (mut deaf, mut lives) = (enter(&gateway), enter(&gateway));
    for _ in 0..5 {
        lives.expect(b"\x89\0").send(frame(0x8a, b""));
    }
    assert_eq!(deaf.rest(), [&b"\x89\0\x89\0\x89\0"[..], &close(1001)].concat());
    drop(deaf);
    admin::eventually("it has left", || members(&gateway, "hostile") == 1);
}

#[test]
fn subprotocols_of_python_clients() {
    python(&gateway(&["--set", "subprotocols=v2.chat, v1.chat"]), "subprotocols");
}

#[test]
fn plain_http_is_answered() {
    let gateway = gateway(&["--set", "origin=https://a.b"]);
    let mut client = Client::connect(gateway.port);
    let ask = |method: &str, more: &str| format!("{method} /x HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    client.send(ask("GET", ""));
    let head = client.take_head();
    assert!(head.starts_with("http/1.1 200 ok\r\n") && head.contains("content-length: 2\r\n"), "{head}");
    client.expect("0\n");
    // HEAD has no body; the connection goes on.
    client.send(ask("HEAD", "") + &ask("POST", "Content-Length: 5\r\n") + "hello");
    let head = client.take_head();
    assert!(head.starts_with("http/1.1 200 ok\r\n") && head.contains("content-length: 2\r\n"), "{head}");
    assert!(client.take_head().starts_with("http/1.1 405 "), "POST");
    client.expect("only GET and HEAD\n");
    // A page of another origin.
    let upgrade = ASK.split_once("Connection").expect("a header").1.trim_end();
    let from = |origin: &str| ask("GET", &format!("Connection{upgrade}\r\nOrigin: {origin}\r\n"));
    client.send(from("https://evil.example"));
    assert!(client.take_head().starts_with("http/1.1 403 "), "origin");
    let mut client = Client::connect(gateway.port);
    client.send(from("https://a.b")).expect(SWITCHED);
    // A request in the middle of frames is none: its first byte is no frame's.
    client.send("GET / HTTP/1.1\r\n\r\n");
    client.expect(close(1002));
    client.expect_closed();
    // Not HTTP at all.
    let mut client = Client::connect(gateway.port);
    client.send("\x16\x03\x01\x02");
    assert!(client.take_head().starts_with("http/1.1 400 "), "TLS");
}
