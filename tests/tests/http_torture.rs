//! One reading per byte sequence: tables of requests and answers with the bytes that must pass, and
//! random mutations of requests. The balancer, an independent strict parser and nginx must see the
//! same number of requests, each the same.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use wireloom_tests::{client::show, require_tool, servers, Backend, Client, Process, Wireloom, PATIENCE};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const ADDED: &str = "x-forwarded-for: 127.0.0.1\r\n";

fn balancer(port: u16, extra: &[&str]) -> Process {
    let list = servers(&[port]);
    let mut args = vec!["--set", list.as_str(), "--set", "backend.eject_after=1000000"];
    args.extend(extra);
    Wireloom::run("http_balancer", &args)
}

/// Both engines.
const ENGINES: [&str; 2] = ["epoll", "uring"];

fn each_engine(port: u16, test: impl Fn(&Process)) {
    for engine in ENGINES {
        test(&balancer(port, &["--engine", engine]));
    }
}

fn get(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn post(fields: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
}

/// Requests that are served, and the request that the backend gets: the named one, else the request
/// with the client's address.
fn good_requests() -> Vec<(&'static str, String, Option<String>)> {
    let as_is = |name, request: String| (name, request, None);
    let to = |name, request: String, wanted: String| (name, request, Some(wanted));
    let line = |line: &str| format!("{line}\r\nHost: a\r\n\r\n");
    let many: String = (0..98).map(|i| format!("x-{i}: y\r\n")).collect();
    vec![
        as_is("plain", get("")),
        as_is("unknown method", line("BREW / HTTP/1.1")),
        as_is("lower-case method", line("get / HTTP/1.1")),
        as_is("method of odd letters", line("M!#$%&'*+-.^_`|~9 / HTTP/1.1")),
        as_is("asterisk", line("OPTIONS * HTTP/1.1")),
        as_is("target with all it may have", line("GET //a/../%00?x=/?\"<>\\^`{|} HTTP/1.1")),
        as_is("no value", get("X:\r\n")),
        as_is("high bytes in a value", get("X: \u{e9}\u{fc}\r\n")),
        as_is("many fields", get(&many)),
        as_is("a field of 8000 bytes", get(&format!("X: {}\r\n", "y".repeat(8000)))),
        as_is("host with a port", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n".into()),
        as_is("empty host", "GET / HTTP/1.1\r\nHost: \r\n\r\n".into()),
        as_is("body of a GET", get("Content-Length: 5\r\n") + "hello"),
        as_is("body of no bytes", post("Content-Length: 0\r\n", "")),
        as_is("body that looks like a request", post("Content-Length: 27\r\n", "GET /evil HTTP/1.1\r\nHost: a")),
        as_is("chunks", post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\nA\r\n0123456789\r\n000\r\nT: v\r\n\r\n")),
        to("extensions of chunks",
            post("Transfer-Encoding: chunked\r\n", "5 \t;a=\"b;\\\"c\" ;\td = e;f\r\nhello\r\n0;last\r\nT: v\r\n\r\n"),
            post(&format!("Transfer-Encoding: chunked\r\n{ADDED}"), "5\r\nhello\r\n0\r\nT: v\r\n\r\n")),
        as_is("chunked in capitals", post("TRANSFER-ENCODING: CHUNKED\r\n", "0\r\n\r\n")),
        as_is("expectation without a body", get("Expect: 100-continue\r\n")),
        as_is("fields for the end of the way", get("Trailer: x\r\nVia: 1.1 x\r\nAuthorization: b\r\nCookie: c\r\n")),
        to("fields of the hop", get("TE: trailers\r\nKeep-Alive: 3\r\nProxy-Connection: x\r\nUpgrade: x\r\n"), get(ADDED)),
        to("fields named", get("Connection: , X-A ,,x-b\r\nX-A: 1\r\nx-b: 2\r\nX-C: 3\r\n"), get(&format!("X-C: 3\r\n{ADDED}"))),
        to("framing and address named away",
            post("Connection: host, content-length, x-forwarded-for\r\nContent-Length: 2\r\nX-Forwarded-For: 1.1.1.1\r\n", "hi"),
            post(&format!("Content-Length: 2\r\n{ADDED}"), "hi")),
        to("addresses that nobody vouches for",
            get("X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\n"),
            get(ADDED)),
        to("absolute form", "GET http://b?c/d HTTP/1.1\r\nHost: a\r\n\r\n".into(), format!("GET /?c/d HTTP/1.1\r\n{ADDED}host: b\r\n\r\n")),
        to("absolute form, https and no port", "GET HTTPS://b:/c HTTP/1.1\r\nHost: a\r\n\r\n".into(), format!("GET /c HTTP/1.1\r\n{ADDED}host: b\r\n\r\n")),
        to("absolute form without a path", "GET http://[::1]:80 HTTP/1.1\r\nHost: a\r\n\r\n".into(), format!("GET / HTTP/1.1\r\n{ADDED}host: [::1]:80\r\n\r\n")),
        to("absolute form of all", "OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n".into(), format!("OPTIONS * HTTP/1.1\r\n{ADDED}host: b\r\n\r\n")),
        to("a later HTTP/1", line("GET / HTTP/1.2"), get(ADDED)),
        to("empty lines before a request", format!("\r\n\r\n\r\n\r\n{}", get("")), get(ADDED)),
        to("fields that say how it came",
            get("Forwarded: for=1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Server: c\r\n"),
            get(&format!("X-Forwarded-Server: c\r\n{ADDED}"))),
        to("twins",
            get("X_Forwarded_For: 1\r\nX-Forwarded_For: 1\r\nx_forwarded-proto: 1\r\nContent_Length: 1\r\nTransfer_Encoding: chunked\r\nMy_Own: 1\r\n"),
            get(&format!("My_Own: 1\r\n{ADDED}"))),
        to("no way to HTTP/2", get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"), get(ADDED)),
        to("nor to it among others", get("Connection: upgrade\r\nUpgrade: websocket, H2C\r\n"), get(ADDED)),
        to("HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".into(), format!("GET / HTTP/1.0\r\n{ADDED}\r\n")),
        to("HTTP/1.0 knows neither Expect nor Upgrade",
            "GET / HTTP/1.0\r\nExpect: 100-continue\r\nConnection: keep-alive, upgrade\r\nUpgrade: x\r\n\r\n".into(), format!("GET / HTTP/1.0\r\n{ADDED}\r\n")),
    ]
}

/// Head (start line, then the fields sorted, names in lower case, values trimmed) and body.
fn plain(message: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let at = message.windows(4).position(|w| w == b"\r\n\r\n").map_or(message.len(), |n| n + 4);
    let head = &message[..at.saturating_sub(4)];
    let mut lines = head.split(|b| *b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
    let start = lines.next().unwrap_or(b"").to_vec();
    let mut fields: Vec<Vec<u8>> = lines
        .map(|l| {
            let colon = l.iter().position(|b| *b == b':').unwrap_or(l.len());
            let (name, value) = (l[..colon].to_ascii_lowercase(), l.get(colon + 1..).unwrap_or(b""));
            [&name[..], b":", value.trim_ascii()].concat()
        })
        .collect();
    fields.sort();
    fields.insert(0, start);
    (fields, message[at..].to_vec())
}

#[test]
fn what_is_served_passes_byte_for_byte() {
    let backend = Backend::new();
    each_engine(backend.port, |proxy| {
        let mut to_backend: Option<Client> = None;
        let mut client = Client::connect(proxy.port);
        for (name, request, wanted) in good_requests() {
            client.send(&request);
            let wanted = wanted.unwrap_or_else(|| request.replacen("\r\n\r\n", &format!("\r\n{ADDED}\r\n"), 1));
            let server = to_backend.get_or_insert_with(|| backend.accept());
            let mut got = server.take_until(b"\r\n\r\n");
            got.extend(server.take(plain(wanted.as_bytes()).1.len()));
            let (got, wanted) = (plain(&got), plain(wanted.as_bytes()));
            assert!(
                got == wanted && server.seen.is_empty(),
                "{name}: sent {}\nwanted {wanted:?}\n   got {got:?}",
                show(request.as_bytes())
            );
            server.send(OK);
            assert!(client.take_head().starts_with("http/1.1 200 "), "{name}");
            client.expect("ok");
            if request.contains("HTTP/1.0") {
                // The backend may take it for the last one of its connection, so no other follows
                // there.
                server.expect_closed();
                to_backend = None;
            }
        }
    });
}

/// Requests that are refused: the status, and nothing at the backend. The plain ones are in
/// http_hostile.rs.
fn refused_requests() -> Vec<(String, u16)> {
    let mut all = Vec::new();
    for (coding, status) in [
        ("xchunked", 501),
        ("\x0bchunked", 400),
        ("chunked;a=b", 501),
        ("\"chunked\"", 501),
        ("chunked,", 400),
        (",chunked", 400),
        ("identity", 501),
        ("identity, chunked", 400),
        ("gzip, chunked", 400),
        ("", 501),
        ("chunked\0", 400),
        ("chunked, identity", 400),
        ("x\r\nTransfer-Encoding: chunked", 400),
        ("chunked\r\nContent-Length: 0", 400),
        ("chunked\rX: y", 400),
        ("\r\n chunked", 400),
    ] {
        all.push((post(&format!("Transfer-Encoding: {coding}\r\n"), "0\r\n\r\n"), status));
    }
    for length in [
        "+5",
        "5,5",
        "0x5",
        "5.0",
        "5e0",
        "5_0",
        "\u{b2}5",
        "\"5\"",
        "5;a",
        "5 5",
        "5\0",
        "99999999999999999999",
        "5\r\ncontent-LENGTH: 5",
        "-0",
    ] {
        all.push((post(&format!("Content-Length: {length}\r\n"), "hello"), 400));
    }
    for host in [
        ":80",
        "a:80:90",
        "a:b",
        "a:999999",
        "a:65536",
        "[::1]:99999",
        "[::1",
        "a]",
        "[]",
        "[::1]x",
        "[g::]",
        "a\"b",
        "\u{e9}",
        "a\tb",
        "u@a",
        "a?b",
        "a#b",
        "a\\b",
        "a\r\nHost : b",
    ] {
        all.push((format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400));
    }
    for target in [
        "/a#b",
        "/\u{e9}",
        "/a\tb",
        "http:///x",
        "http://",
        "http://u@x/",
        "http://x#f",
        "http://x:y/",
        "http://x:99999/",
        "http://[::1]:65536",
        "https://",
        "https://u@x/",
        "ftp://x/",
        "*",
        "*x",
        "http://x y/",
        "a:80",
        "\\",
    ] {
        all.push((format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), 400));
    }
    for (version, status) in [
        ("0.9", 505),
        ("2.0", 505),
        ("3.0", 505),
        ("1.10", 400),
        ("11", 400),
        ("01.1", 400),
        ("1,1", 400),
        ("+1.1", 400),
        ("1.+1", 400),
        ("1.", 400),
        (".1", 400),
    ] {
        all.push((format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"), status));
    }
    for start in ["\r\n\r\n\r\n\r\n\r\n", "\r\n\n", "\r", "\n", " ", "\0", "\u{feff}", "HTTP/1.1 200 OK\r\n", ":"] {
        all.push((format!("{start}{}", get("")), 400));
    }
    all.push(("GET http://x/ HTTP/1.1\r\n\r\n".into(), 400));
    all.push((
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            (0..10_000).map(|i| format!("x-{i}: y\r\n")).collect::<String>()
        ),
        431,
    ));
    all.push((get(&format!("X: {}\r\n", "a".repeat(65_536))), 431));
    all
}

fn status_of(reply: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(reply);
    text.strip_prefix("HTTP/1.1 ").and_then(|r| r.get(..3)).and_then(|s| s.parse().ok()).unwrap_or(0)
}

#[test]
fn what_is_refused_does_not_pass() {
    let backend = Backend::new();
    each_engine(backend.port, |proxy| {
        for (request, status) in refused_requests() {
            let mut client = Client::connect(proxy.port);
            // The rest is never read: it may be the smuggled request.
            let _ = std::io::Write::write_all(
                &mut client.stream,
                format!("{request}{}", get("Smuggled: yes\r\n")).as_bytes(),
            );
            let reply = client.rest();
            assert_eq!(status_of(&reply), status, "{}: {}", show(request.as_bytes()), show(&reply));
            assert_eq!(reply.windows(9).filter(|w| w == b"HTTP/1.1 ").count(), 1, "two answers: {}", show(&reply));
        }
        // A backend connection is made when a request is passed on: after all this, the first is
        // ours.
        let mut last = Client::connect(proxy.port);
        last.send(get("Last: yes\r\n"));
        let mut server = backend.accept();
        assert!(server.take_head().contains("last: yes"), "something else has passed");
        server.send(OK);
        last.take_until(b"ok");
        assert!(backend.accept_now().is_none(), "something else has passed");
    });
}

/// Answers, their requests, the client's result (a status; a body), and whether the backend's
/// connection is used again.
#[test]
fn answers_have_one_reading() {
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".to_string();
    let bad = |answer: &str| (get(""), answer.to_string(), 502, String::new());
    let hundred = "HTTP/1.1 100 Continue\r\n\r\n".repeat(500);
    let cases = [
        bad("HTTP/1.1 101 Nobody asked\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        bad("HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        bad("HTTP/1.1 103 No\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        bad("HTTP/1.1 103 No\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        bad("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        bad("HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        bad("\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        bad("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        bad("HTTP/1.1 200 OK\r\nContent-Length: 5,5\r\n\r\nhello"),
        bad("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"),
        bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        bad("HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n"),
        bad("HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n"),
        bad("HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n"),
        bad("hello world\r\n"),
        (get(""), "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n".into(), 204, String::new()),
        (get(""), "HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n".into(), 304, String::new()),
        (get(""), "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n".into(), 204, String::new()),
        (get(""), "HTTP/1.1 204 No\r\nContent-Length: 40\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno".into(), 204, String::new()),
        (get(""), "HTTP/1.9 200 OK\r\nContent-Length: 2\r\n\r\nok".into(), 200, "ok".into()),
        (get(""), "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok".into(), 200, "ok".into()),
        (get(""), "HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nok".into(), 200, "ok".into()),
        (get(""), "HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok".into(), 999, "ok".into()),
        (get(""), format!("{hundred}{OK}"), 200, "ok".into()),
        (head.clone(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".into(), 200, String::new()),
        // A body that must not be there is not the next one's answer.
        (head, "HTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into(), 200, String::new()),
        (get(""), format!("{OK}{OK}"), 200, "ok".into()),
        (get(""), "HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\nhello".into(), 304, String::new()),
    ];
    let backend = Backend::new();
    each_engine(backend.port, |proxy| {
        for (request, answer, status, body) in &cases {
            let mut client = Client::connect(proxy.port);
            client.send(request);
            let mut server = backend.accept();
            server.take_until(b"\r\n\r\n");
            server.send(answer);
            let mut first = client.take_head();
            while first.starts_with("http/1.1 100 ") {
                first = client.take_head();
            }
            let got = first.split([' ', '\r']).nth(1).and_then(|s| s.parse().ok());
            assert_eq!(got, Some(*status), "{}: {first}", show(answer.as_bytes()));
            assert!(!matches!(status, 204 | 304) || !first.contains("content-length"), "{first}");
            if *status == 502 {
                client.expect("502 Bad Gateway\n");
                // Nothing more is read from it.
                server.rest();
            }
            client.expect(body);
            // The answer to the next request on this connection comes from a fresh one, or from the
            // same where nothing was left over.
            drop(server);
            client.send(get("Next: yes\r\n"));
            let mut next = backend.accept();
            assert!(next.take_head().contains("next: yes"));
            next.send("HTTP/1.1 201 Next\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnext");
            assert!(client.take_head().starts_with("http/1.1 201 "), "after {}", show(answer.as_bytes()));
            client.expect("next");
        }
    });
}

/// A pooled connection that is closed under its request: GET is sent again, once. A request that
/// may do harm twice is not.
#[test]
fn only_safe_requests_are_repeated() {
    let backend = Backend::new();
    each_engine(backend.port, |proxy| {
        for (method, again) in
            [("GET", true), ("HEAD", true), ("POST", false), ("PUT", false), ("DELETE", false), ("BREW", false)]
        {
            let mut client = Client::connect(proxy.port);
            client.send(get(""));
            let mut server = backend.accept();
            server.take_until(b"\r\n\r\n");
            server.send(OK);
            client.take_until(b"\r\n\r\nok");
            client.send(format!("{method} /again HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"));
            assert!(server.take_head().starts_with(&method.to_lowercase()));
            drop(server);
            if again {
                let mut second = backend.accept();
                assert!(second.take_head().starts_with(&method.to_lowercase()), "{method}");
                second.expect("hi");
                drop(second);
            }
            assert!(client.take_head().starts_with("http/1.1 502 "), "{method}");
            assert!(backend.accept_now().is_none(), "{method} was sent once more");
        }
    });
}

/// An answer before the request's end: the client gets it, and the rest of the body is no request.
#[test]
fn an_early_answer_ends_the_connection() {
    let backend = Backend::new();
    each_engine(backend.port, |proxy| {
        for fields in [
            "Content-Length: 1000000\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Content-Length: 60\r\nExpect: 100-continue\r\n",
        ] {
            let mut client = Client::connect(proxy.port);
            client.send(post(fields, ""));
            let mut server = backend.accept();
            server.take_until(b"\r\n\r\n");
            server.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig");
            assert!(client.take_head().starts_with("http/1.1 413 "), "{fields}");
            client.expect("big");
            let _ = std::io::Write::write_all(&mut client.stream, get("Smuggled: yes\r\n").as_bytes());
            // Either the body is read and dropped to its end, or the connection ends; the backend's
            // is not used for another.
            client.finish_sending();
            assert!(client.rest().is_empty(), "{fields}: the body was answered");
            let left = server.rest();
            assert!(!left.starts_with(b"POST"), "{fields}: {}", show(&left));
            let mut next = Client::connect(proxy.port);
            next.send(get("Next: yes\r\n"));
            let mut fresh = backend.accept();
            assert!(fresh.take_head().contains("next: yes"), "{fields}");
            fresh.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            next.take_until(b"ok");
        }
    });
}

/// A strict reading of a stream of requests, written without a look at std.http. It gives the
/// method and target of each, until the first byte that allows another reading.
fn strict_requests(mut b: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((line, used)) = strict_request(b) {
        all.push(line);
        b = &b[used..];
    }
    all
}

fn strict_line(b: &[u8]) -> Option<(&[u8], usize)> {
    let end = b.iter().position(|c| *c == b'\r' || *c == b'\n' || *c == 0)?;
    b[end..].starts_with(b"\r\n").then_some((&b[..end], end + 2))
}

fn strict_field(line: &[u8]) -> Option<(String, String)> {
    let colon = line.iter().position(|c| *c == b':')?;
    let token = |c: &u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(c);
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let visible = |c: &u8| *c == b'\t' || *c >= 32 && *c != 127;
    (colon > 0 && name.iter().all(token) && value.iter().all(visible)).then(|| {
        (
            String::from_utf8_lossy(name).to_lowercase(),
            String::from_utf8_lossy(value).trim_matches([' ', '\t']).to_string(),
        )
    })
}

fn strict_request(b: &[u8]) -> Option<(String, usize)> {
    // RFC 9112 section 2.2: up to four empty lines are ignored.
    let empty = (0..4).take_while(|n| b[(2 * n).min(b.len())..].starts_with(b"\r\n")).count() * 2;
    let (line, used) = strict_line(&b[empty..])?;
    let mut at = empty + used;
    let line = std::str::from_utf8(line).ok()?;
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return None };
    let minor = version.strip_prefix("HTTP/1.").filter(|m| m.len() == 1 && m.as_bytes()[0].is_ascii_digit())?;
    let version = if minor == "0" { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut fields = Vec::new();
    loop {
        let (line, used) = strict_line(&b[at..])?;
        at += used;
        if line.is_empty() {
            break;
        }
        fields.push(strict_field(line)?);
    }
    let values = |name: &str| fields.iter().filter(|f| f.0 == name).map(|f| f.1.as_str()).collect::<Vec<_>>();
    let (length, coding) = (values("content-length"), values("transfer-encoding"));
    let used = match (&length[..], &coding[..]) {
        ([], []) => 0,
        ([n], []) if !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()) => n.parse::<u32>().ok()? as usize,
        // A body that is cut or broken: its head has passed, and may have been answered. It is the
        // last.
        ([], [c]) if version == "HTTP/1.1" && c.eq_ignore_ascii_case("chunked") => {
            strict_chunks(&b[at..]).unwrap_or(b.len() - at)
        }
        _ => return None,
    };
    let hosts = values("host").len();
    (hosts == 1 || hosts == 0 && version == "HTTP/1.0")
        .then(|| (format!("{method} {target}"), (at + used).min(b.len())))
}

fn strict_chunks(b: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let (line, used) = strict_line(&b[at..])?;
        at += used;
        let mut parts = line.split(|c| *c == b';');
        let digits = parts.next()?;
        // Of extensions only names: the bytes that are changed make no others.
        if !parts.all(|p| strict_field(&[p, b":"].concat()).is_some()) {
            return None;
        }
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        at += size;
        if !b.get(at..)?.starts_with(b"\r\n") {
            return None;
        }
        at += 2;
    }
    loop {
        let (line, used) = strict_line(&b[at..])?;
        at += used;
        if line.is_empty() {
            return Some(at);
        }
        strict_field(line)?;
    }
}

/// Two to four requests, some with bodies, each with a name of its own, with a few bytes changed.
fn mutated(random: &mut fastrand::Rng, id: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..2 + random.usize(..3) {
        let path = format!("/r{id}-{i}");
        let text = match random.usize(..4) {
            0 => format!("GET {path} HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"),
            1 => format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n\r\nGET /evil HTTP/1.1\r\nX: y\r\n"),
            2 => format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n16\r\nGET /evil HTTP/1.1\r\n\r\n\r\n0\r\n\r\n"),
            _ => format!("POST {path} HTTP/1.1\r\nContent-Length: 5\r\nHost: a\r\n\r\nhello"),
        };
        bytes.extend(text.bytes());
    }
    const WORDS: [&str; 24] = [
        "\r\n",
        "\n",
        "\r",
        "\0",
        " ",
        "\t",
        "\x0b",
        ":",
        ",",
        ";",
        "0",
        "+",
        "-",
        "0x",
        "\r\n ",
        "Content-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\n",
        "chunked",
        "Host: b\r\n",
        "Connection: close\r\n",
        "Connection: content-length\r\n",
        "\r\n0\r\n\r\n",
        "HTTP/1.0",
        "\u{a0}",
    ];
    for _ in 0..random.usize(..3) {
        let at = random.usize(..bytes.len().max(1));
        match random.usize(..4) {
            0 => drop(bytes.remove(at)),
            1 => bytes[at] = random.usize(..256) as u8,
            2 => drop(bytes.splice(at..at, WORDS[random.usize(..WORDS.len())].bytes())),
            _ => {
                let end = (at + random.usize(..20)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

/// Sends all, closes its side, and reads to the end.
fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut client = Client::connect(port);
    let _ = std::io::Write::write_all(&mut client.stream, bytes);
    client.finish_sending();
    client.rest()
}

/// Random streams through the balancer. nginx behind it sees exactly the requests that a strict
/// reader sees in the forwarded bytes. They are a beginning of the requests that it sees in the
/// client's bytes. None is one that was in a body.
#[test]
fn random_requests_have_one_reading() {
    if !require_tool("nginx") {
        return;
    }
    // nginx sees the recorder's output, and logs its own reading.
    let log = std::env::temp_dir().join(format!("wireloom-test-{}-access", std::process::id()));
    let _ = std::fs::remove_file(&log);
    let format = format!("access_log {} combined; location / {{ return 200 ok; }}", log.display());
    let nginx = Process::nginx(&format);
    let proxy = balancer(nginx.port, &[]);
    let mut random = fastrand::Rng::with_seed(0x1234_5678_9abc_def1);
    let rounds = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3000);
    let mut wanted = Vec::new();
    for id in 0..rounds {
        let bytes = mutated(&mut random, id);
        let reply = exchange(proxy.port, &bytes);
        let answers = String::from_utf8_lossy(&reply).matches("HTTP/1.1 200 ").count();
        let strict = strict_requests(&bytes);
        assert!(answers <= strict.len(), "{answers} answers, of {strict:?}: {}\n{}", show(&bytes), show(&reply));
        wanted.push((bytes, strict, answers));
    }
    // The log is written when an answer has been sent.
    let total: usize = wanted.iter().map(|w| w.2).sum();
    assert!(total > rounds, "hardly anything passed: {total} of {rounds} rounds");
    let read = || std::fs::read(&log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    while read().matches("\" 200 ").count() < total && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let seen = read();
    std::fs::remove_file(&log).ok();
    assert!(
        !seen.contains("/evil"),
        "a body was taken for a request: {:?}",
        seen.lines().find(|l| l.contains("/evil"))
    );
    // Each as often as sent; a request whose body is broken may be answered by nginx before that
    // shows, and its client be told 400.
    assert!(seen.matches("\" 200 ").count() >= total, "nginx has seen fewer than were answered");
    let mut sent: HashMap<&str, usize> = HashMap::new();
    wanted.iter().flat_map(|w| &w.1).for_each(|s| *sent.entry(s).or_default() += 1);
    for line in seen.lines().filter(|l| l.contains("\" 200 ")) {
        let request = line.split('"').nth(1).unwrap_or("").rsplit_once(' ').map_or("", |r| r.0);
        // nginx writes odd bytes as \xXX.
        if request.contains('\\') {
            continue;
        }
        let left = sent.get_mut(request).filter(|n| **n > 0);
        *left.unwrap_or_else(|| panic!("nginx has seen {request:?}, which nobody has sent, or not so often")) -= 1;
    }
}
