//! Handlers of the pieces of bodies (`on client.body`): counted, changed, dropped and answered,
//! torn at every byte, with slow sides and lost clients, in both engines.

use std::process::Command;
use std::time::Duration;
use wireloom_tests::admin::{eventually, metrics, sample};
use wireloom_tests::{finish, free_port, require_tool, servers, Backend, Client, Process, Wireloom};

const FILE: &str = "tests/programs/body_pieces.loom";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";

fn both(test: impl Fn(&Process, &Backend)) {
    for extra in [&[][..], &["--interpret"]] {
        let backend = Backend::new();
        let list = servers(&[backend.port]);
        let mut args = vec!["--set", &list];
        args.extend(extra);
        let front = Wireloom::run_file(FILE, &args, |_| {});
        test(&front, &backend);
    }
}

/// The field of a head, in small letters.
fn field(head: &str, name: &str) -> Option<String> {
    let start = format!("\r\n{name}: ");
    head.split(&start).nth(1).and_then(|l| l.split("\r\n").next()).map(str::to_string)
}

/// An answer's head, and its body by its length or its chunks.
fn read(c: &mut Client) -> (String, Vec<u8>) {
    let head = c.take_head();
    let body = body_of(c, &head);
    (head, body)
}

fn body_of(c: &mut Client, head: &str) -> Vec<u8> {
    if let Some(n) = field(head, "content-length") {
        return c.take(n.parse().expect("a number"));
    }
    assert_eq!(field(head, "transfer-encoding").as_deref(), Some("chunked"), "{head}");
    let mut all = Vec::new();
    loop {
        let line = String::from_utf8(c.take_until(b"\r\n")).expect("a size");
        let n = usize::from_str_radix(line.trim(), 16).expect("a size");
        all.extend(c.take(n));
        c.expect("\r\n");
        if n == 0 {
            return all;
        }
    }
}

fn post(target: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn chunks(target: &str, pieces: &[&str]) -> String {
    let all: String = pieces.iter().map(|p| format!("{:x};e=\"f\"\r\n{p}\r\n", p.len())).collect();
    format!("POST {target} HTTP/1.1\r\nHost: a\r\n{CHUNKED}{all}0\r\nT: v\r\n\r\n")
}

#[test]
fn pieces_torn_at_every_byte_are_counted() {
    let requests = [post("/count", "axbxxcdx"), chunks("/count", &["a", "xbxx", "c", "dx"])];
    both(|front, _| {
        for request in &requests {
            for cut in 1..request.len() {
                let mut client = Client::connect(front.port);
                client.send(&request[..cut]);
                std::thread::sleep(Duration::from_millis(1));
                client.send(&request[cut..]);
                assert_eq!(read(&mut client).1, b"8 4", "{cut}");
            }
            let mut client = Client::connect(front.port);
            client.send_in_pieces(request.as_bytes(), 1);
            assert_eq!(read(&mut client).1, b"8 4");
            // Each request begins anew.
            client.send(request.repeat(3) + &post("/count", ""));
            for _ in 0..3 {
                assert_eq!(read(&mut client).1, b"8 4");
            }
            assert_eq!(read(&mut client).1, b"0 0");
        }
    });
}

#[test]
fn pieces_pass_as_they_came() {
    both(|front, backend| {
        let mut client = Client::connect(front.port);
        for request in [post("/x", "axbxxcdx"), chunks("/x", &["a", "xbxx", "c", "dx"])] {
            for cut in (1..request.len()).step_by(7) {
                client.send(&request[..cut]);
                std::thread::sleep(Duration::from_millis(1));
                client.send(&request[cut..]);
                let mut server = backend.accept();
                assert_eq!(read(&mut server).1, b"axbxxcdx");
                server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
                drop(server);
                let (head, body) = read(&mut client);
                assert_eq!((field(&head, "x-seen").as_deref(), &body[..]), (Some("8"), &b"ok"[..]));
            }
        }
    });
}

#[test]
fn an_answer_ends_its_upload() {
    both(|front, backend| {
        for (target, status) in [("/stop", "413"), ("/stop/other", "413"), ("/fault", "500")] {
            for wait in [false, true] {
                let mut client = Client::connect(front.port);
                client.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"));
                client.send("y".repeat(100));
                let mut server = backend.accept();
                server.take_head();
                server.expect("64\r\n".to_string() + &"y".repeat(100) + "\r\n");
                if wait {
                    client.expect_silence(Duration::from_millis(20));
                }
                client.send("z".repeat(50_000));
                let (head, body) = read(&mut client);
                assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
                if status == "413" {
                    assert_eq!(body, target.as_bytes());
                }
                assert_eq!(field(&head, "connection").as_deref(), Some("close"), "{head}");
                client.expect_closed();
                assert!(!server.rest().ends_with(b"0\r\n\r\n"), "half a request is not taken for a whole one");
            }
        }
    });
}

#[test]
fn changed_pieces_go_in_chunks() {
    both(|front, backend| {
        for (target, sent, wanted) in [
            ("/upper", "abcdef".repeat(20), "ABCDEF".repeat(20)),
            ("/drop", "d".repeat(101) + "rest", String::new()),
            ("/empty", "e".repeat(300), String::new()),
            ("/as/it/is", "f".repeat(300), "f".repeat(300)),
        ] {
            for request in [post(target, &sent), chunks(target, &[&sent])] {
                let mut client = Client::connect(front.port);
                client.send(&request);
                let mut server = backend.accept();
                let head = server.take_head();
                assert_eq!(field(&head, "content-length"), None, "{head}");
                assert_eq!(body_of(&mut server, &head), wanted.as_bytes(), "{target}");
                server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                assert_eq!(read(&mut client).1, b"");
            }
        }
        // Each piece by itself, as it comes.
        let mut client = Client::connect(front.port);
        client.send("POST /double HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
        let mut server = backend.accept();
        server.take_head();
        server.expect("6\r\nabcabc\r\n");
        client.send("def");
        server.expect("6\r\ndefdef\r\n0\r\n\r\n");
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        read(&mut client);
        // A request without a body stays one.
        client.send("GET /upper HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        let head = server.take_head();
        assert_eq!(field(&head, "transfer-encoding"), None, "{head}");
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        read(&mut client);
        // HTTP/1.0 has no chunks: pieces of the same length pass, others are refused.
        let old = |target: &str| format!("POST {target} HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc");
        let mut client = Client::connect(front.port);
        client.send(old("/upper"));
        let mut server = backend.accept();
        let head = server.take_head();
        assert_eq!(field(&head, "content-length").as_deref(), Some("3"), "{head}");
        server.expect("ABC");
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        read(&mut client);
        let mut client = Client::connect(front.port);
        client.send(old("/double"));
        drop(backend.accept());
        assert!(client.take_head().starts_with("http/1.1 500"));
    });
}

#[test]
fn answers_have_pieces_too() {
    both(|front, backend| {
        let answers = [
            ("X-Brackets: 1\r\nContent-Length: 4\r\n\r\n", "abcd", "<abcd>"),
            ("X-Brackets: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nabcd\r\n0\r\n\r\n", "<abcd>"),
            ("Content-Length: 4\r\n\r\n", "abcd", "abcd"),
            ("X-Brackets: 1\r\n\r\n", "abcd", "<abcd>"),
        ];
        for (head, sent, wanted) in answers {
            let mut client = Client::connect(front.port);
            client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut server = backend.accept();
            server.take_head();
            server.send(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{head}{sent}"));
            drop(server);
            let told = client.take_head();
            if field(&told, "transfer-encoding").is_some() {
                assert_eq!(body_of(&mut client, &told), wanted.as_bytes(), "{head}");
            } else {
                assert_eq!(client.rest(), wanted.as_bytes(), "{head}");
            }
        }
        // A cut answer is not taken for a whole one.
        let mut client = Client::connect(front.port);
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        server.take_head();
        server.send("HTTP/1.1 200 OK\r\nX-Fault: 1\r\nContent-Length: 4000\r\n\r\n");
        client.take_head();
        server.send("g".repeat(90));
        client.take(2);
        server.send("g".repeat(90));
        assert!(client.was_reset());
        // HEAD has none, and the connection goes on.
        let mut client = Client::connect(front.port);
        for method in ["HEAD", "GET"] {
            client.send(format!("{method} /x HTTP/1.1\r\nHost: a\r\n\r\n"));
            let mut server = backend.accept();
            server.take_head();
            server.send("HTTP/1.1 200 OK\r\nX-Brackets: 1\r\nConnection: close\r\nContent-Length: 4\r\n\r\n");
            if method == "GET" {
                server.send("abcd");
            }
            let told = client.take_head();
            if method == "GET" {
                assert_eq!(body_of(&mut client, &told), b"<abcd>");
            }
        }
    });
}

#[test]
fn a_client_that_leaves_takes_its_upload_with_it() {
    both(|front, backend| {
        let mut client = Client::connect(front.port);
        client.send(post("/count", "x"));
        read(&mut client);
        let before = front.descriptors();
        for n in 0..40 {
            let target = ["/x", "/count", "/upper", "/stop"][n % 4];
            let mut client = Client::connect(front.port);
            client.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nsome"));
            if target != "/count" {
                let mut server = backend.accept();
                server.take_head();
                if n % 8 < 4 {
                    client.reset()
                } else {
                    drop(client)
                }
                server.rest();
            } else {
                client.reset();
            }
        }
        eventually("all connections are closed", || front.descriptors() <= before + 1);
    });
}

#[test]
fn a_slow_side_holds_up_the_other_and_memory_stays() {
    both(|front, backend| {
        const ALL: usize = 12 << 20;
        let mut client = Client::connect(front.port);
        client.send(post("/count", "x"));
        read(&mut client);
        let before = front.rss_kib();
        client.send(format!("POST /upper HTTP/1.1\r\nHost: a\r\nContent-Length: {ALL}\r\n\r\n"));
        let mut server = backend.accept();
        let head = server.take_head();
        std::thread::scope(|s| {
            s.spawn(|| client.send(vec![b'u'; ALL]));
            std::thread::sleep(Duration::from_millis(400));
            let grown = front.rss_kib().saturating_sub(before);
            assert!(grown < 6 << 10, "{grown} KiB more");
            assert_eq!(body_of(&mut server, &head).len(), ALL);
        });
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(field(&read(&mut client).0, "x-seen"), Some(ALL.to_string()));
    });
}

#[test]
fn a_client_that_waits_is_told_to_send() {
    both(|front, _| {
        let mut client = Client::connect(front.port);
        for _ in 0..2 {
            client.send("POST /count HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
            client.expect("HTTP/1.1 100 Continue\r\n\r\n");
            client.send("xyz");
            assert_eq!(read(&mut client).1, b"3 1");
        }
        // One whose body is not read gets its answer.
        client.send("POST /none HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        assert!(client.take_head().starts_with("http/1.1 200"));
        // HTTP/1.0 has no interim answers.
        let mut old = Client::connect(front.port);
        old.send("POST /count HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        old.expect_silence(Duration::from_millis(50));
        old.send("xyz");
        assert_eq!(read(&mut old).1, b"3 1");
    });
    // So does one whose body is held.
    for extra in [&[][..], &["--interpret"]] {
        let backend = Backend::new();
        let list = servers(&[backend.port]);
        let mut args = vec!["--set", &list];
        args.extend(extra);
        let front = Wireloom::run_file("tests/programs/held_bodies.loom", &args, |_| {});
        let mut client = Client::connect(front.port);
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        client.expect("HTTP/1.1 100 Continue\r\n\r\n");
        client.send("x");
        std::thread::sleep(Duration::from_millis(5));
        client.send("yz");
        assert_eq!(read(&mut client).1, b"XYZ");
    }
}

/// Real clients, and a gibibyte.
#[test]
fn curl_uploads_a_gibibyte_in_flat_memory() {
    if !require_tool("curl") {
        return;
    }
    let list = servers(&[9]);
    let front = Wireloom::run_file("examples/upload_filter.loom", &["--set", &list], |_| {});
    let upload = |size: &str| {
        let url = format!("http://127.0.0.1:{}/count", front.port);
        let line = format!("head -c {size} /dev/zero | curl -s -T - {url}");
        finish(Command::new("sh").args(["-c", &line])).out
    };
    assert_eq!(upload("1000"), "1000\n");
    let before = front.rss_kib();
    assert_eq!(upload("1G"), "1073741824\n");
    let grown = front.rss_kib().saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB more");
    // Over the limit.
    let refused = upload("1100M");
    assert_eq!(refused, "/count: too long\n");
}

/// Metrics of a backend count its own answers only.
#[test]
fn an_answer_from_a_piece_is_none_of_the_backend() {
    for extra in [&[][..], &["--interpret"]] {
        let (backend, page) = (Backend::new(), free_port());
        let (list, admin) = (servers(&[backend.port]), format!("127.0.0.1:{page}"));
        let args = [&["--set", &list, "--admin", &admin], extra].concat();
        let front = Wireloom::run_file(FILE, &args, |_| {});
        let answers = |of: &str| sample(&metrics(page), &format!("wireloom_{of}responses_total{{"));
        let mut client = Client::connect(front.port);
        client.send("POST /stop HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
        let mut server = backend.accept();
        server.take_head();
        client.send("some".repeat(50));
        assert!(client.take_head().starts_with("http/1.1 413 "));
        eventually("the program's answer is counted", || answers("") == 1);
        assert_eq!(answers("backend_"), 0);
        let mut client = Client::connect(front.port);
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        server.take_head();
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        client.take_head();
        eventually("the backend's answer is counted", || answers("backend_") == 1);
    }
}
