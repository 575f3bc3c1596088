//! `backend.pipeline`: safe requests of many clients on few backend connections (RFC 9112 section
//! 9.3.2), between scripted clients and backends. The end of the sharing of a connection is tested
//! in full in the runtime (`core/tests/pipeline.rs`).

use std::time::Duration;
use wireloom_tests::{require_tool, servers, Backend, Client, Process, Wireloom};

struct Pair {
    proxy: Process,
    backend: Backend,
}

fn pair() -> Pair {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port]), "--set", "backend.pipeline=8"]);
    Pair { proxy, backend }
}

/// A request for `/name`.
fn get(name: &str) -> String {
    format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn expect_answer(client: &mut Client, body: &str) {
    let head = client.take_head();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    client.expect(body);
}

/// The subject of a request.
fn asked(server: &mut Client) -> String {
    let head = server.take_head();
    head.split([' ', '/']).nth(2).unwrap_or_default().to_string()
}

/// Clients `a`, `b`, `c`, … whose requests lie on one connection, in this order.
fn asking(p: &Pair, names: &[&str]) -> (Vec<Client>, Client) {
    let mut clients = Vec::new();
    let mut server = None;
    for name in names {
        let mut c = Client::connect(p.proxy.port);
        c.send(get(name));
        clients.push(c);
        let server = server.get_or_insert_with(|| p.backend.accept());
        assert_eq!(asked(server), *name);
    }
    (clients, server.expect("somebody asks"))
}

#[test]
fn requests_of_many_clients_share_a_connection_in_order() {
    let p = pair();
    let (mut clients, mut server) = asking(&p, &["a", "b", "c"]);
    server.send([answer("1"), answer("22"), answer("333")].concat());
    for (c, body) in clients.iter_mut().zip(["1", "22", "333"]) {
        expect_answer(c, body);
    }
    assert!(p.backend.accept_within(Duration::from_millis(20)).is_none());
}

#[test]
fn interim_answers_and_such_without_a_body_keep_their_places() {
    let p = pair();
    let (mut clients, mut server) = asking(&p, &["a", "b", "c"]);
    server.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    server.send(
        [
            answer("1").as_str(),
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        ]
        .concat(),
    );
    assert!(clients[0].take_head().starts_with("http/1.1 103"));
    expect_answer(&mut clients[0], "1");
    assert!(clients[1].take_head().starts_with("http/1.1 304"));
    assert!(clients[2].take_head().starts_with("http/1.1 204"));
    clients[2].expect_silence(Duration::from_millis(20));
}

#[test]
fn unsafe_and_incomplete_requests_have_connections_of_their_own() {
    let p = pair();
    let (_clients, mut shared) = asking(&p, &["a"]);
    let others = [
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n",
        "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /x HTTP/1.0\r\nHost: a\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        "GET /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ];
    for request in others {
        let mut c = Client::connect(p.proxy.port);
        c.send(request);
        let mut own = p.backend.accept();
        assert_eq!(asked(&mut own), "x", "{request}");
        own.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        c.take_head();
        if !request.starts_with("HEAD") {
            c.expect("ok");
        }
    }
    shared.expect_silence(Duration::from_millis(20));
}

#[test]
fn a_connection_lost_in_the_middle_is_made_good() {
    let p = pair();
    let (mut clients, mut server) = asking(&p, &["a", "b", "c"]);
    server.send([answer("1").as_str(), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nha"].concat());
    expect_answer(&mut clients[0], "1");
    drop(server);
    for _ in 0..2 {
        let mut again = p.backend.accept();
        let name = asked(&mut again);
        again.send(answer(&format!("again {name}")));
    }
    expect_answer(&mut clients[1], "again b");
    expect_answer(&mut clients[2], "again c");
}

#[test]
fn what_follows_a_bad_answer_is_believed_by_nobody() {
    let p = pair();
    let (mut clients, mut server) = asking(&p, &["a", "b"]);
    server.send(
        ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_string(), answer("bad")].concat(),
    );
    assert!(clients[0].take_head().starts_with("http/1.1 502"));
    let mut again = p.backend.accept();
    assert_eq!(asked(&mut again), "b");
    again.send(answer("good"));
    expect_answer(&mut clients[1], "good");
}

#[test]
fn an_answer_until_close_is_its_clients_alone() {
    let p = pair();
    let (mut clients, mut server) = asking(&p, &["a", "b"]);
    server.send(["HTTP/1.1 200 OK\r\n\r\n".to_string(), answer("inside")].concat());
    let mut again = p.backend.accept();
    assert_eq!(asked(&mut again), "b");
    again.send(answer("own"));
    expect_answer(&mut clients[1], "own");
    drop(server);
    clients[0].take_head();
    clients[0].expect(answer("inside"));
    clients[0].expect_closed();
}

#[test]
fn a_client_that_does_not_read_blocks_nobody() {
    let p = pair();
    let (mut clients, mut server) = asking(&p, &["a", "b"]);
    const SIZE: usize = 64 << 20;
    let feeder = std::thread::spawn(move || {
        server.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
        let piece = vec![b'v'; 1 << 20];
        (0..64).for_each(|_| {
            server.send(&piece);
        });
        server
    });
    let mut again = p.backend.accept();
    assert_eq!(asked(&mut again), "b");
    again.send(answer("own"));
    expect_answer(&mut clients[1], "own");
    clients[0].take_head();
    assert!(clients[0].take(SIZE).iter().all(|b| *b == b'v'));
    feeder.join().expect("the backend has sent all").expect_closed();
}

/// A server that closes every connection after 40 answers; every client gets its own answers, and
/// no other.
#[test]
fn nginx_that_ends_connections_loses_nothing() {
    if !require_tool("nginx") {
        return;
    }
    let nginx = Process::nginx("keepalive_requests 40; location / { return 200 \"$request_uri\"; }");
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[nginx.port]), "--set", "backend.pipeline=8"]);
    let port = proxy.port;
    let threads: Vec<_> = (0..16)
        .map(|t| {
            std::thread::spawn(move || {
                let mut c = Client::connect(port);
                for n in 0..300 {
                    c.send(get(&format!("{t}.{n}")));
                    expect_answer(&mut c, &format!("/{t}.{n}"));
                }
            })
        })
        .collect();
    for t in threads {
        t.join().expect("every answer is right");
    }
}
