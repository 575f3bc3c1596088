//! `apps/tls_router.loom` between openssl, curl and Python, and servers with certificates of their
//! own.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;
use wireloom_tests::control::Controlled;
use wireloom_tests::folder::Folder;
use wireloom_tests::{finish, free_port, python, require_tool, servers, Backend, Client, Process};

/// A server of TLS that says its name, and gives back what it gets: `PUT` with a length.
const SERVER: &str = r#"
import socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[4])
context.set_alpn_protocols(["http/1.1"])
def serve(plain):
    try:
        s = context.wrap_socket(plain, server_side=True)
        f = s.makefile("rb")
        head = f.readline().decode()
        length = 0
        while True:
            line = f.readline().decode().strip().lower()
            if not line:
                break
            if line.startswith("content-length:"):
                length = int(line.split(":")[1])
        body = f.read(length) if length else sys.argv[2].encode()
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        s.unwrap()
    except (OSError, ssl.SSLError):
        pass
    plain.close()
l = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=100)
while True:
    threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
"#;

struct Site {
    process: Process,
    certificate: String,
}

/// A server with a certificate for some names.
fn site(folder: &Folder, name: &str, names: &[&str]) -> Site {
    let (key, certificate) = (folder.name_of(&format!("{name}.key")), folder.name_of(&format!("{name}.pem")));
    let alternatives: Vec<String> = names.iter().map(|n| format!("DNS:{n}")).collect();
    let made = finish(
        Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
            .args(["-subj", &format!("/CN={name}"), "-keyout", &key, "-out", &certificate])
            .args(["-addext", &format!("subjectAltName={}", alternatives.join(","))]),
    );
    assert_eq!(made.code, Some(0), "{}", made.text);
    let port = free_port();
    let mut command = Command::new("python3");
    command.args(["-c", SERVER, &port.to_string(), name, &certificate, &key]);
    Site { process: Process::start(name, &mut command, port), certificate }
}

fn router(ports: &[u16], more: &[&str]) -> (Controlled, u16) {
    let port = free_port();
    let (set, list) = (format!("port={port}"), servers(ports));
    let args = [&["apps/tls_router.loom", "--set", &set, "--set", &list], more].concat();
    (Controlled::run("tls_router", &args), port)
}

fn curl(port: u16, name: &str, certificate: &str, more: &[&str]) -> wireloom_tests::Output {
    let (resolve, url) = (format!("{name}:{port}:127.0.0.1"), format!("https://{name}:{port}/"));
    let usual = ["-sS", "--max-time", "30", "--resolve", &resolve, "--cacert", certificate, &url];
    finish(Command::new("curl").args(usual).args(more))
}

fn s_client(port: u16, args: &[&str]) -> wireloom_tests::Output {
    let at = format!("127.0.0.1:{port}");
    finish(Command::new("openssl").args(["s_client", "-connect", &at, "-brief"]).args(args))
}

#[test]
fn names_choose_servers_and_routes_change_live() {
    if !require_tool("openssl") || !require_tool("curl") || python::with("ssl").is_none() {
        return;
    }
    let folder = Folder::new("tls_names");
    let one = site(&folder, "one.test", &["one.test"]);
    let two = site(&folder, "two.test", &["two.test", "*.two.test"]);
    let (router, port) = router(&[one.process.port, two.process.port], &["--set", "fallback=99"]);
    for (name, server) in [("one.test", "0"), ("two.test", "1"), ("*.two.test", "1")] {
        router.told(&["table", "routes", "insert", &format!("key={name}"), &format!("value={server}")]);
    }
    // The certificates are checked: they are the servers' own.
    assert_eq!(curl(port, "one.test", &one.certificate, &[]).out, "one.test");
    assert_eq!(curl(port, "two.test", &two.certificate, &[]).out, "two.test");
    assert_eq!(curl(port, "any.two.test", &two.certificate, &["--tlsv1.2", "--tls-max", "1.2"]).out, "two.test");
    for args in [vec!["-servername", "nowhere.test"], vec!["-noservername"], vec!["-servername", "a.any.two.test"]] {
        let out = s_client(port, &args);
        assert!(out.code != Some(0) && out.text.contains("unrecognized name"), "{args:?}: {}", out.text);
    }
    router.told(&["table", "routes", "insert", "key=", "value=0"]);
    let out = s_client(port, &["-noservername", "-alpn", "http/1.1"]);
    assert!(out.text.contains("CN = one.test") || out.text.contains("CN=one.test"), "{}", out.text);
    // From now on another server has the name.
    router.told(&["table", "routes", "insert", "key=one.test", "value=1"]);
    let wrong = curl(port, "one.test", &one.certificate, &[]);
    assert!(wrong.code != Some(0) && wrong.text.contains("certificate"), "{}", wrong.text);
}

#[test]
fn a_server_that_is_down_is_an_alert() {
    if !require_tool("openssl") {
        return;
    }
    let (_router, port) = router(&[free_port()], &[]);
    let out = s_client(port, &["-servername", "one.test"]);
    assert!(out.text.contains("alert internal error"), "{}", out.text);
    // HTTP on this port is told so, too.
    let mut client = Client::connect(port);
    client.send("GET / HTTP/1.1\r\n\r\n").expect(b"\x15\x03\x03\0\x02\x02\x32");
    client.expect_closed();
}

#[test]
fn large_transfers_in_both_directions() {
    if !require_tool("openssl") || !require_tool("curl") || python::with("ssl").is_none() {
        return;
    }
    let folder = Folder::new("tls_large");
    let one = site(&folder, "one.test", &["one.test"]);
    let (router, port) = router(&[one.process.port], &[]);
    let (from, to) = (folder.name_of("from"), folder.name_of("to"));
    let bytes: Vec<u8> = (0..40_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&from, &bytes).expect("the folder is writable");
    let all: Vec<_> = (0..3)
        .map(|n| {
            let (from, to, certificate) = (from.clone(), format!("{to}{n}"), one.certificate.clone());
            std::thread::spawn(move || {
                let out = curl(port, "one.test", &certificate, &["-T", &from, "-H", "Expect:", "-o", &to]);
                assert_eq!(out.code, Some(0), "{}", out.text);
                std::fs::read(&to).expect("curl has written it")
            })
        })
        .collect();
    for back in all {
        assert!(back.join().expect("curl ends") == bytes, "the bytes have changed");
    }
    assert!(router.app.rss_kib() < 100_000, "{} KiB", router.app.rss_kib());
}

/// The first message of a client. It has GREASE (RFC 8701) among ciphers, extensions, groups and
/// versions. It has a name, protocols, and a key share that does not fit into one segment.
fn hello() -> Vec<u8> {
    hello_of(&[b"h2".as_slice(), b"http/1.1"], 0)
}

/// One with these protocols, and so many extensions more.
fn hello_of(protocols: &[&[u8]], more: u16) -> Vec<u8> {
    let extension = |kind: u16, data: &[u8]| [&kind.to_be_bytes(), &(data.len() as u16).to_be_bytes(), data].concat();
    let names: Vec<u8> = protocols.iter().flat_map(|p| [&[p.len() as u8], *p].concat()).collect();
    let long: Vec<u8> =
        [&[0x06, 0x44, 0x0a, 0x0a, 0, 1, 0, 0x11, 0xec, 0x04, 0xc0][..], &[7; 1216], &[0; 380]].concat();
    let extensions = [
        extension(0x0a0a, &[]),
        extension(0, b"\0\x0b\0\0\x08one.test"),
        extension(16, &[&(names.len() as u16).to_be_bytes(), &names[..]].concat()),
        extension(43, b"\x06\x3a\x3a\x03\x04\x03\x03"),
        extension(51, &long),
        extension(0xfafa, &[0]),
        (0..more).flat_map(|n| extension(0x1000 + n, &[])).collect(),
    ]
    .concat();
    let body = [
        b"\x03\x03".as_slice(),
        &[9; 32],
        b"\x20",
        &[8; 32],
        b"\0\x06\x2a\x2a\x13\x01\xc0\x2f\x01\0",
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]
    .concat();
    [b"\x01\0", &(body.len() as u16).to_be_bytes()[..], &body].concat()
}

/// A handshake message in records of at most n bytes.
fn records(message: &[u8], n: usize) -> Vec<u8> {
    let record = |piece: &[u8]| [b"\x16\x03\x01", &(piece.len() as u16).to_be_bytes()[..], piece].concat();
    message.chunks(n).flat_map(record).collect()
}

/// A server that tells what the first bytes of each connection are, up to n of them, and closes it.
fn listener(n: usize) -> (u16, Receiver<Vec<u8>>) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = server.local_addr().expect("it is bound").port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut bytes = vec![0; n];
                let mut have = 0;
                while let Ok(more) = stream.read(&mut bytes[have..]) {
                    have += more;
                    if more == 0 || have == n {
                        break;
                    }
                }
                bytes.truncate(have);
                stream.write_all(b"seen").ok();
                tell.send(bytes).ok();
            });
        }
    });
    (port, told)
}

#[test]
fn a_hello_in_any_records_and_segments_arrives_as_it_came() {
    let message = hello();
    for n in [1500, 100, 50, 5] {
        let whole = [records(&message, n), b"and more".to_vec()].concat();
        let (backend, told) = listener(whole.len());
        let (_router, port) = router(&[backend], &[]);
        for piece in [whole.len(), 1000, 7] {
            let mut client = Client::connect(port);
            client.send_in_pieces(&whole, piece);
            client.expect("seen");
            let seen = told.recv_timeout(Duration::from_secs(20)).expect("the server is asked");
            assert!(seen == whole, "records of {n} in pieces of {piece}");
        }
    }
    // As many names and extensions as fit in usual ones.
    let many = hello_of(&[b"a-protocol".as_slice(); 300], 300);
    // The head of the message in records of one byte each.
    for whole in [records(&many, 1500), records(&message[..6], 1)] {
        let rest = if whole.len() < 100 { records(&message[6..], 16384) } else { vec![] };
        let whole = [whole, rest].concat();
        let (backend, told) = listener(whole.len());
        let (_router, port) = router(&[backend], &[]);
        Client::connect(port).send(&whole).expect("seen");
        assert!(told.recv_timeout(Duration::from_secs(20)).expect("the server is asked") == whole);
    }
}

#[test]
fn no_prefix_is_passed_on_and_no_changed_byte_is_harmful() {
    let whole = records(&hello(), 16384);
    let (backend, told) = listener(whole.len());
    let (router, port) = router(&[backend], &["--set", "fallback=99"]);
    router.told(&["table", "routes", "insert", "key=one.test", "value=0"]);
    for n in 0..whole.len() {
        // A short one each, and then all that end near a border.
        if n > 700 && n % 41 != 0 && n + 20 < whole.len() {
            continue;
        }
        let mut client = Client::connect(port);
        client.send(&whole[..n]).finish_sending();
        let answer = client.rest();
        assert!(answer.is_empty() || answer.starts_with(b"\x15\x03\x03\0\x02\x02"), "{n}: {answer:?}");
    }
    assert!(told.try_recv().is_err(), "a prefix was passed on");
    let (mut passed, mut refused) = (0, 0);
    for n in 0..220 {
        for flip in [1, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[n] ^= flip;
            let mut client = Client::connect(port);
            client.send(&changed).finish_sending();
            let answer = client.rest();
            if answer == b"seen" {
                passed += 1;
                let seen = told.recv_timeout(Duration::from_secs(20)).expect("the server was asked");
                assert!(seen == changed, "byte {n}: it has not arrived as it was sent");
            } else {
                refused += 1;
                assert!(answer.is_empty() || answer.starts_with(b"\x15\x03\x03\0\x02\x02"), "{n}: {answer:?}");
            }
        }
    }
    // Random numbers may be any; names and lengths may not.
    assert!(passed > 150 && refused > 50, "{passed} passed, {refused} were refused");
    Client::connect(port).send(&whole).expect("seen");
}

/// Time limits hold for the ClientHello, and for connections on which nothing moves at all.
#[test]
fn quiet_connections_live_and_slow_hellos_end() {
    let backend = Backend::new();
    let more = ["--set", "client.read_timeout=500ms", "--set", "client.idle_timeout=3s"];
    let (_router, port) = router(&[backend.port], &more);
    let whole = records(&hello(), 16384);
    let mut client = Client::connect(port);
    client.send(&whole);
    let mut server = backend.accept();
    server.expect(&whole);
    std::thread::sleep(Duration::from_millis(1500));
    server.send("late");
    client.expect("late");
    std::thread::sleep(Duration::from_millis(1500));
    client.send("later");
    server.expect("later");
    let mut slow = Client::connect(port);
    slow.send(&whole[..20]);
    let answer = slow.rest();
    assert!(answer.is_empty() || answer.starts_with(b"\x15\x03\x03\0\x02\x02"), "{answer:?}");
    client.expect_closed();
}
