//! Bad HTTP, from both sides (RFC 9110, RFC 9112): the status that says so, a closed connection,
//! nothing forwarded; and the next client is served.

use std::time::Duration;
use wireloom_tests::{client::show, servers, Backend, Client, Wireloom};

/// Request head or body, and the status it earns. `\r\n\r\n` is written out where it matters.
fn bad_requests() -> Vec<(&'static str, Vec<u8>, u16)> {
    let get = |rest: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{rest}\r\n\r\n").into_bytes();
    let post = |rest: &str, body: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}\r\n\r\n{body}").into_bytes();
    let long = "a".repeat(20_000);
    let many: String = (0..150).map(|i| format!("x-{i}: y\r\n")).collect();
    vec![
        ("length and coding", post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400),
        ("differing lengths", post("Content-Length: 5\r\nContent-Length: 6", "hello"), 400),
        ("repeated length", post("Content-Length: 5\r\nContent-Length: 5", "hello"), 400),
        ("length list", post("Content-Length: 5, 5", "hello"), 400),
        ("length with plus", post("Content-Length: +5", "hello"), 400),
        ("negative length", post("Content-Length: -5", "hello"), 400),
        ("length overflows", post("Content-Length: 18446744073709551616", "hello"), 400),
        ("length of 2^63", post("Content-Length: 9223372036854775808", "hello"), 400),
        ("length hex", post("Content-Length: 0x5", "hello"), 400),
        ("length empty", post("Content-Length: ", "hello"), 400),
        ("length with inner space", post("Content-Length: 5 5", "hello"), 400),
        ("chunked not last", post("Transfer-Encoding: chunked, gzip", "0\r\n\r\n"), 400),
        ("chunked twice", post("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"), 400),
        ("coding repeated", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400),
        ("coding with a stray byte", post("Transfer-Encoding: \x0bchunked", "0\r\n\r\n"), 400),
        ("unknown coding", post("Transfer-Encoding: cow", "0\r\n\r\n"), 501),
        ("coding in 1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(), 400),
        ("space before colon", get("X : y"), 400),
        ("space before length colon", post("Content-Length : 5", "hello"), 400),
        ("folded line", get("X: y\r\n z"), 400),
        ("leading fold", b"GET / HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("no colon", get("nonsense"), 400),
        ("empty name", get(": y"), 400),
        ("bare LF in head", b"GET / HTTP/1.1\nHost: a\n\n".to_vec(), 400),
        ("bare LF after a field", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n".to_vec(), 400),
        ("bare CR in value", get("X: a\rb"), 400),
        ("NUL in value", get("X: a\0b"), 400),
        ("control byte in value", get("X: a\x01b"), 400),
        ("DEL in value", get("X: a\x7fb"), 400),
        ("control byte in name", get("X\x01: a"), 400),
        ("control byte in target", b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("space in target", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("two spaces", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("tab as separator", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("no version", b"GET /\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("lower-case version", b"GET / http/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("version 2", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_vec(), 505),
        ("version 0.9", b"GET / HTTP/0.9\r\nHost: a\r\n\r\n".to_vec(), 505),
        ("version with a tail", b"GET / HTTP/1.1x\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("version with two digits", b"GET / HTTP/1.10\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("no host", b"GET / HTTP/1.1\r\n\r\n".to_vec(), 400),
        ("two hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("host with a slash", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n".to_vec(), 400),
        ("host with a space", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_vec(), 400),
        ("host with at", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n".to_vec(), 400),
        ("target without slash", b"GET foo HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("asterisk with GET", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("long target", format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(), 414),
        ("long field", get(&format!("X: {long}")), 431),
        ("long field name", get(&format!("{long}: x")), 431),
        ("many fields", get(&many), 431),
        ("long method", format!("{long} / HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(), 501),
        ("connect", b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n".to_vec(), 501),
        ("method with a control byte", b"G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), 400),
    ]
}

fn status_of(reply: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(reply);
    text.strip_prefix("HTTP/1.1 ").and_then(|r| r.get(..3)).and_then(|s| s.parse().ok()).unwrap_or(0)
}

/// Every bad head: the status, one answer, the end; nothing reaches a backend.
#[test]
fn bad_requests_are_refused_and_not_forwarded() {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    let mut wrong = Vec::new();
    for (name, bytes, status) in bad_requests() {
        let mut client = Client::connect(proxy.port);
        client.send(&bytes);
        let reply = client.rest();
        let got = status_of(&reply);
        if got != status || reply.windows(9).filter(|w| w == b"HTTP/1.1 ").count() != 1 {
            wrong.push(format!("{name}: wanted {status}, got {}", show(&reply)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(backend.accept_within(Duration::from_millis(50)).is_none(), "something was forwarded");
    let mut good = Client::connect(proxy.port);
    good.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    good.expect("HTTP/1.1 200 OK\r\n");
}

/// The same heads, byte by byte, give the same answers.
#[test]
fn bad_requests_in_pieces_are_refused_alike() {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    for (name, bytes, status) in bad_requests().into_iter().filter(|(_, b, _)| b.len() < 200) {
        let mut client = Client::connect(proxy.port);
        for piece in bytes.chunks(7) {
            use std::io::Write;
            if client.stream.write_all(piece).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let reply = client.rest();
        assert!(status_of(&reply) == status || reply.is_empty(), "{name}: wanted {status}, got {}", show(&reply));
    }
}

/// Bad chunks are never forwarded; chunks before them may be. The backend sees a broken request.
#[test]
fn bad_chunks_are_not_forwarded() {
    let bodies: &[(&str, &str)] = &[
        ("size with a sign", "+5\r\nhello\r\n0\r\n\r\n"),
        ("size with 0x", "0x5\r\nhello\r\n0\r\n\r\n"),
        ("size with a space", "5 \r\nhello\r\n0\r\n\r\n"),
        ("empty size", "\r\nhello\r\n0\r\n\r\n"),
        ("size not hex", "g\r\nhello\r\n0\r\n\r\n"),
        ("size overflows", "10000000000000000\r\nhello\r\n0\r\n\r\n"),
        ("size of 64 bits", "8000000000000000\r\nhello\r\n0\r\n\r\n"),
        ("extension without a name", "5;\r\nhello\r\n0\r\n\r\n"),
        ("extension without a value", "5;a=\r\nhello\r\n0\r\n\r\n"),
        ("extension with a blank in its name", "5;a b\r\nhello\r\n0\r\n\r\n"),
        ("extension with an open quote", "5;a=\"b\r\nhello\r\n0\r\n\r\n"),
        ("extension with text behind a quote", "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n"),
        ("blank without an extension", "5 \r\nhello\r\n0\r\n\r\n"),
        ("too many extensions", "5;a;b;c;d;e;f;g;h;i\r\nhello\r\n0\r\n\r\n"),
        ("bare LF after size", "5\nhello\r\n0\r\n\r\n"),
        ("bare CR after size", "5\rhello\r\n0\r\n\r\n"),
        ("LF in extension", "5;a\nb\r\nhello\r\n0\r\n\r\n"),
        ("CR in extension", "5;a\rb\r\nhello\r\n0\r\n\r\n"),
        ("chunk too long", "4\r\nhello\r\n0\r\n\r\n"),
        ("no CRLF after data", "5\r\nhelloXX0\r\n\r\n"),
        ("bad trailer", "0\r\nX : y\r\n\r\n"),
        ("folded trailer", "0\r\nX: y\r\n z\r\n\r\n"),
        ("length in a trailer", "0\r\nX: y\r\nContent-Length: 5\r\n\r\n"),
        ("coding in a trailer", "0\r\ntransfer-encoding: chunked\r\n\r\n"),
        ("host in a trailer", "0\r\nHOST: b\r\n\r\n"),
        ("address in a trailer", "0\r\nx-forwarded-for: 1.1.1.1\r\n\r\n"),
        ("field of the hop in a trailer", "0\r\nConnection: close\r\n\r\n"),
        ("scheme in a trailer", "0\r\nX-Forwarded-Proto: https\r\n\r\n"),
        ("way in a trailer", "0\r\nForwarded: for=1.1.1.1\r\n\r\n"),
        ("address with underscores in a trailer", "0\r\nX_Forwarded_For: 1.1.1.1\r\n\r\n"),
        ("length with an underscore in a trailer", "0\r\nContent_Length: 5\r\n\r\n"),
        ("credentials in a trailer", "0\r\nAuthorization: Basic eDp5\r\n\r\n"),
        ("cookie in a trailer", "0\r\nCookie: a=b\r\n\r\n"),
    ];
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    for (name, body) in bodies {
        let mut client = Client::connect(proxy.port);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut server = backend.accept();
        let head = server.take_until(b"\r\n\r\n");
        assert!(!show(&head).contains("hello"));
        client.send(body);
        let reply = client.rest();
        assert_eq!(status_of(&reply), 400, "{name}: {}", show(&reply));
        let forwarded = server.rest();
        let whole = forwarded.ends_with(b"0\r\n\r\n") || forwarded.ends_with(body.as_bytes());
        assert!(
            !forwarded.contains(&b';') && !forwarded.starts_with(b"8") && !forwarded.ends_with(b"5"),
            "{name}: {}",
            show(&forwarded)
        );
        assert!(!whole, "{name}: the backend took it for complete: {}", show(&forwarded));
    }
}

/// Lines that frame chunks, the bytes behind them, and the part that may go on (or less: the
/// connection is reset).
const BAD_LINES: [(&str, &str); 8] = [
    ("5;\r\nhello\r\n0\r\n\r\n", ""),
    ("5;a=\"b\"c\r\nhello\r\n0\r\n\r\n", ""),
    ("5 \r\nhello\r\n0\r\n\r\n", ""),
    ("8000000000000000\r\nhello", ""),
    ("5\rhello\r\n0\r\n\r\n", ""),
    ("2;a=b\r\nhi\r\n3;\r\nabc\r\n0\r\n\r\n", "2\r\nhi\r\n"),
    ("2\r\nhi\r\n0;;\r\n\r\n", "2\r\nhi\r\n"),
    ("0\r\nA: b\r\nHost: c\r\n\r\n", "0\r\nA: b\r\n"),
];

/// A request's line that is refused does not go on, nor does its beginning, wherever its bytes are
/// parted.
#[test]
fn nothing_of_a_refused_line_reaches_a_backend() {
    for extra in [&[][..], &["--interpret"]] {
        let backend = Backend::new();
        let to = servers(&[backend.port]);
        let proxy = Wireloom::run("http_balancer", &[&["--set", &to], extra].concat());
        for (body, good) in BAD_LINES {
            for cut in 0..body.len() {
                let mut client = Client::connect(proxy.port);
                client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
                let mut server = backend.accept();
                server.take_until(b"\r\n\r\n");
                for piece in [&body[..cut], &body[cut..]] {
                    // The first may be refused already.
                    use std::io::Write;
                    let _ = client.stream.write_all(piece.as_bytes());
                    std::thread::sleep(Duration::from_micros(500));
                }
                let seen = server.rest();
                assert!(good.as_bytes().starts_with(&seen), "{body:?} cut at {cut}: {}", show(&seen));
            }
        }
    }
}

/// Nor does that of an answer reach the client.
#[test]
fn nothing_of_a_refused_line_reaches_a_client() {
    for extra in [&[][..], &["--interpret"]] {
        let backend = Backend::new();
        let to = servers(&[backend.port]);
        let proxy = Wireloom::run("http_balancer", &[&["--set", &to], extra].concat());
        for (body, good) in BAD_LINES {
            for cut in 0..body.len() {
                let mut client = Client::connect(proxy.port);
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                let mut server = backend.accept();
                server.take_until(b"\r\n\r\n");
                server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                client.take_until(b"\r\n\r\n");
                for piece in [&body[..cut], &body[cut..]] {
                    use std::io::Write;
                    let _ = server.stream.write_all(piece.as_bytes());
                    std::thread::sleep(Duration::from_micros(500));
                }
                let seen = client.rest();
                assert!(good.as_bytes().starts_with(&seen), "{body:?} cut at {cut}: {}", show(&seen));
            }
        }
    }
}

/// A trailer that is refused is known as such however it comes.
#[test]
fn bad_trailers_in_pieces_are_not_forwarded() {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    for cut in [3, 4, 9, 17, 18, 22] {
        let body = "0\r\nContent-Length: 5\r\n\r\n";
        let mut client = Client::connect(proxy.port);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut server = backend.accept();
        server.take_until(b"\r\n\r\n");
        client.send(&body[..cut]);
        // From the colon on it is refused.
        if cut < 18 {
            server.expect("0\r\n");
            client.send(&body[cut..]);
        }
        assert_eq!(status_of(&client.rest()), 400, "{cut}");
        assert!(server.rest().is_empty(), "{cut}");
    }
}

/// A server's trailer that only a header may have is not passed on, and its answer is cut off.
#[test]
fn bad_trailers_of_servers_are_not_passed_on() {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    for field in
        ["Set-Cookie: a=b", "set_cookie: a=b", "WWW-Authenticate: Basic", "Forwarded: for=a", "Content_Length: 1"]
    {
        let mut client = Client::connect(proxy.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        server.take_until(b"\r\n\r\n");
        server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
        client.take_head();
        server.send(format!("0\r\n{field}\r\n\r\n"));
        let answer = show(&client.rest()).to_ascii_lowercase();
        let name = field.split(':').next().unwrap_or_default().to_ascii_lowercase();
        assert!(!answer.contains(&name) && !answer.ends_with("0\r\n\r\n"), "{field}: {answer}");
    }
}

/// Bad answers are 502, and the connection they came on is not used again.
#[test]
fn bad_responses_are_bad_gateway() {
    let bad: &[(&str, &str)] = &[
        ("garbage", "nonsense\r\n\r\n"),
        ("bad version", "HTTP/2.0 200 OK\r\n\r\n"),
        ("bad status", "HTTP/1.1 20 OK\r\n\r\n"),
        ("status 099", "HTTP/1.1 099 No\r\n\r\n"),
        ("length and coding", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
        ("length of 2^63", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nhello"),
        ("length not a number", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello"),
        ("folded field", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n"),
        ("space before colon", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n"),
        ("bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
        ("NUL", "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"),
        ("unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: cow\r\n\r\n"),
        ("closed at once", ""),
        ("closed in the head", "HTTP/1.1 200 OK\r\nConte"),
    ];
    let backend = Backend::new();
    let proxy =
        Wireloom::run("http_balancer", &["--set", &servers(&[backend.port]), "--set", "backend.eject_after=1000"]);
    for (name, bytes) in bad {
        let mut client = Client::connect(proxy.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        server.take_until(b"\r\n\r\n");
        server.send(bytes);
        server.finish_sending();
        let reply = client.take_until(b"\r\n\r\n");
        assert_eq!(status_of(&reply), 502, "{name}: {}", show(&reply));
    }
}

/// Absolute-form targets are valid; the target's authority wins over Host (RFC 9112 section 3.2.2).
#[test]
fn absolute_form_is_served() {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    let mut client = Client::connect(proxy.port);
    client.send("GET http://real.example/x HTTP/1.1\r\nHost: other.example\r\n\r\n");
    let mut server = backend.accept();
    let head = server.take_head();
    assert!(head.starts_with("get /x http/1.1\r\n"), "{head}");
    assert!(head.contains("host: real.example\r\n") && !head.contains("other.example"), "{head}");
    server.send("HTTP/1.1 204 No Content\r\n\r\n");
    client.expect("HTTP/1.1 204 No Content\r\n");
}

/// Chunks are read for a client of HTTP/1.0, however they come; its answer ends with the
/// connection, and the backend's goes on.
#[test]
fn clients_of_http_1_0_get_what_is_in_chunks() {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    let body = "2;a=\"b\"\r\nok\r\n0003\r\n...\r\n0;c\r\nT: v\r\n\r\n";
    let mut server: Option<Client> = None;
    for size in [1, 2, 3, 7, body.len()] {
        for fields in ["", "Connection: keep-alive\r\n"] {
            let mut client = Client::connect(proxy.port);
            client.send(format!("GET / HTTP/1.0\r\n{fields}\r\n"));
            let to_proxy = server.insert(backend.accept());
            to_proxy.take_until(b"\r\n\r\n");
            to_proxy.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: x\r\n\r\n");
            for piece in body.as_bytes().chunks(size) {
                to_proxy.send(piece);
                std::thread::sleep(Duration::from_micros(300));
            }
            let reply = show(&client.rest());
            assert_eq!(
                reply,
                show(b"HTTP/1.1 200 OK\r\nETag: x\r\nconnection: close\r\n\r\nok..."),
                "pieces of {size}"
            );
        }
    }
}

/// Chunks that break off are no whole answer for it: its connection is reset.
#[test]
fn a_client_of_http_1_0_is_told_that_chunks_broke_off() {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    for body in ["2\r\nok\r\n", "2\r\nok\r\n3\r\nab", "2\r\nok\r\n0\r\n", "2\r\nok\r\nx\r\n"] {
        let mut client = Client::connect(proxy.port);
        client.send("GET / HTTP/1.0\r\n\r\n");
        let mut server = backend.accept();
        server.take_until(b"\r\n\r\n");
        server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.take_until(b"\r\n\r\n");
        server.send(body);
        server.finish_sending();
        assert!(client.was_reset(), "{body:?}");
    }
}

/// An empty line behind a body (old clients send one) is not the next request's, and a beginning of
/// one is waited for.
#[test]
fn empty_lines_before_requests_are_ignored() {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    let mut client = Client::connect(proxy.port);
    let mut server: Option<Client> = None;
    for (first, second) in [("", ""), ("\r", "\n"), ("\r\n\r", "\n"), ("\r\n\r\n\r\n\r", "\n")] {
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi{first}"));
        let to_proxy = server.get_or_insert_with(|| backend.accept());
        to_proxy.take_until(b"\r\n\r\nhi");
        to_proxy.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        client.take_until(b"ok");
        std::thread::sleep(Duration::from_millis(2));
        client.send(second);
    }
    assert!(server.is_some_and(|s| s.seen.is_empty()), "an empty line went on");
}
