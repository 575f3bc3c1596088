//! `hold_body`: bodies as one, torn at every byte, of hostile lengths, in both engines; and
//! messages in tables.

use std::time::Duration;
use wireloom_tests::{servers, Backend, Client, Process, Wireloom};

const FILE: &str = "tests/programs/held_bodies.loom";

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

/// An answer's first line and body.
fn read(c: &mut Client) -> (String, String) {
    let head = c.take_head();
    let length = head.split("content-length: ").nth(1).and_then(|l| l.split("\r\n").next());
    let n: usize = length.expect("a length").parse().expect("a number");
    (head.lines().next().unwrap_or_default().to_string(), String::from_utf8_lossy(&c.take(n)).into_owned())
}

fn post(target: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_body_torn_at_every_byte_is_one() {
    let whole = post("/echo", "hello");
    let chunks = format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\n{CHUNKED}2\r\nhe\r\n1;x=\"y\"\r\nl\r\n002\r\nlo\r\n0\r\nT: v\r\n\r\n"
    );
    both(|front, _| {
        for request in [&whole, &chunks] {
            for cut in 1..request.len() {
                let mut client = Client::connect(front.port);
                client.send(&request[..cut]);
                std::thread::sleep(Duration::from_millis(1));
                client.send(&request[cut..]);
                assert_eq!(read(&mut client), ("http/1.1 200 ok".into(), "HELLO".into()), "{cut}");
            }
            let mut client = Client::connect(front.port);
            client.send_in_pieces(request.as_bytes(), 1);
            assert_eq!(read(&mut client).1, "HELLO");
        }
    });
}

#[test]
fn chunks_are_joined_and_requests_may_follow_each_other() {
    let one = "1\r\nx\r\n".repeat(300);
    let request = format!("POST /echo HTTP/1.1\r\nHost: a\r\n{CHUNKED}{one}0\r\n\r\n");
    both(|front, _| {
        let mut client = Client::connect(front.port);
        client.send(request.repeat(3) + &post("/echo", "") + "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
        for _ in 0..3 {
            assert_eq!(read(&mut client).1, "X".repeat(300));
        }
        assert_eq!(read(&mut client).1, "");
        assert_eq!(read(&mut client).1, "");
    });
}

#[test]
fn the_limit_is_exact_and_longer_bodies_stream() {
    both(|front, backend| {
        let mut client = Client::connect(front.port);
        for n in [999, 1000] {
            client.send(post("/echo", &"y".repeat(n)));
            assert_eq!(read(&mut client).1.len(), n);
        }
        client.send(post("/echo", &"y".repeat(1001)));
        assert_eq!(read(&mut client).0, "http/1.1 400 bad request");
        // The handler runs before a long body is there, and it flows.
        let mut client = Client::connect(front.port);
        client.send("POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nfirst");
        let mut server = backend.accept();
        server.take_head();
        server.expect("first");
        client.send(vec![b'z'; 99_995]);
        server.take(99_995);
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
        client.take_head();
        server.send(vec![b'w'; 5000]);
        client.take(5000);
    });
}

#[test]
fn hostile_lengths_take_no_memory() {
    both(|front, _| {
        let before = front.rss_kib();
        let mut open = Vec::new();
        for n in ["9223372036854775807", "1000000000000", "16777216"] {
            for _ in 0..50 {
                let mut client = Client::connect(front.port);
                client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {n}\r\n\r\n"));
                assert_eq!(read(&mut client).0, "http/1.1 400 bad request");
                open.push(client);
            }
        }
        for size in ["7fffffffffffffff", "ffffffffffffffff1", "0000000000000000000000000000001"] {
            let mut client = Client::connect(front.port);
            client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{CHUNKED}{size}\r\n"));
            open.push(client);
        }
        assert!(front.rss_kib() < before + 8192, "{before} KiB grew to {} KiB", front.rss_kib());
    });
}

#[test]
fn bodies_that_come_slowly_are_bounded_together() {
    both(|front, _| {
        let mut open: Vec<Client> = (0..10).map(|_| Client::connect(front.port)).collect();
        for c in &mut open {
            c.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{}", "q".repeat(900)));
        }
        std::thread::sleep(Duration::from_millis(300));
        let refused = open.iter_mut().map(Client::has_something).filter(|told| *told).count();
        assert!((4..=6).contains(&refused), "{refused}");
        let mut held = 0;
        for c in &mut open {
            if c.has_something() {
                assert!(c.take_head().starts_with("http/1.1 503"));
            } else {
                c.send("q".repeat(100));
                assert_eq!(read(c).1, "Q".repeat(1000));
                held += 1;
            }
        }
        assert_eq!(held + refused, 10);
        // Their memory is free again.
        let mut client = Client::connect(front.port);
        client.send(post("/echo", "a"));
        assert_eq!(read(&mut client).1, "A");
    });
}

#[test]
fn a_body_lasts_over_a_call_and_answers_are_read() {
    both(|front, backend| {
        let mut client = Client::connect(front.port);
        for chunked in [false, true] {
            client.send(match chunked {
                false => post("/twice", "mine"),
                true => format!("POST /twice HTTP/1.1\r\nHost: a\r\n{CHUNKED}2\r\nmi\r\n2\r\nne\r\n0\r\n\r\n"),
            });
            let mut server = backend.accept();
            let head = server.take_head();
            server.take(if chunked { "2\r\nmi\r\n2\r\nne\r\n0\r\n\r\n".len() } else { 4 });
            assert_eq!(head.contains("chunked"), chunked);
            server.send(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{CHUNKED}1\r\nI\r\n"));
            std::thread::sleep(Duration::from_millis(20));
            server.send("2\r\nts\r\n0\r\n\r\n");
            assert_eq!(read(&mut client).1, "mine|Its");
        }
        // A body that ends with the connection.
        client.send(post("/twice", "m"));
        let mut server = backend.accept();
        server.take_head();
        server.send("HTTP/1.1 200 OK\r\n\r\nto the ");
        std::thread::sleep(Duration::from_millis(20));
        server.send("end");
        drop(server);
        assert_eq!(read(&mut client).1, "m|to the end");
        // One that is cut off.
        client.send(post("/twice", "m"));
        let mut server = backend.accept();
        server.take_head();
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut");
        drop(server);
        assert!(client.take_head().starts_with("http/1.1 502"));
    });
}

/// Extensions of chunks are not passed on, and a client of HTTP/1.0 gets what is in the chunks.
#[test]
fn framing_that_is_not_passed_on_is_left_out_of_what_was_held() {
    both(|front, backend| {
        let mut client = Client::connect(front.port);
        client.send(format!("POST /x HTTP/1.1\r\nHost: a\r\n{CHUNKED}2;a=b\r\nhe\r\n1 ; c\r\ny\r\n0\r\n\r\n"));
        let mut server = backend.accept();
        server.take_head();
        server.expect("2\r\nhe\r\n1\r\ny\r\n0\r\n\r\n");
        server.send(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{CHUNKED}2;z\r\nok\r\n0\r\n\r\n"));
        client.take_head();
        client.expect("2\r\nok\r\n0\r\n\r\n");
        let mut old = Client::connect(front.port);
        old.send("GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let mut server = backend.accept();
        server.take_head();
        server.send(format!("HTTP/1.1 200 OK\r\n{CHUNKED}2\r\nok\r\n3\r\n!!!\r\n0\r\n\r\n"));
        assert!(!old.take_head().contains("chunked"));
        old.expect("ok!!!");
        old.expect_closed();
    });
}

#[test]
fn messages_are_kept_and_given_again() {
    both(|front, backend| {
        let mut client = Client::connect(front.port);
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        server.take_head();
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX: y\r\n\r\nkept");
        assert_eq!(read(&mut client).1, "kept");
        client.send("GET /kept/a HTTP/1.1\r\nHost: a\r\n\r\nHEAD /kept/a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(read(&mut client).1, "kept");
        assert!(client.take_head().contains("x: y\r\n"));
        client.send("GET /kept/a HTTP/1.1\r\nHost: a\r\n\r\nGET /kept/b HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(read(&mut client).1, "kept");
        assert_eq!(read(&mut client).0, "http/1.1 404 not found");
        // Reading does not make it last longer.
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(500));
            client.send("GET /kept/a HTTP/1.1\r\nHost: a\r\n\r\n");
            read(&mut client);
        }
        client.send("GET /kept/a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(read(&mut client).0, "http/1.1 404 not found");
    });
}

/// A client of HTTP/1.0 does not read chunks, and a message that it cannot read is not there.
#[test]
fn a_kept_message_fits_the_one_who_reads_it() {
    both(|front, backend| {
        let mut client = Client::connect(front.port);
        client.send("GET /c HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        server.take_head();
        server.send(format!("HTTP/1.1 200 OK\r\n{CHUNKED}2\r\nok\r\n0\r\n\r\n"));
        client.take_head();
        client.expect("2\r\nok\r\n0\r\n\r\n");
        client.send("GET /kept/c HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.take_head().contains("chunked"));
        client.expect("2\r\nok\r\n0\r\n\r\n");
        let mut old = Client::connect(front.port);
        old.send("GET /kept/c HTTP/1.0\r\n\r\n");
        assert!(old.take_head().starts_with("http/1.1 404"));
    });
}

#[test]
fn answers_with_their_lengths_made() {
    both(|front, _| {
        let mut client = Client::connect(front.port);
        client.send("GET /to/there HTTP/1.1\r\nHost: a\r\n\r\nHEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.take_head();
        assert!(head.starts_with("http/1.1 302 found\r\nlocation: /there\r\ncontent-length: 0\r\n"), "{head}");
        assert!(client.take_head().starts_with("http/1.1 200 ok\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n"));
    });
}
