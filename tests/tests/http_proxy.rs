//! The duties of an HTTP/1.1 proxy (RFC 9110, RFC 9112), between a scripted client and a scripted
//! backend.

use std::time::Duration;
use wireloom_tests::{client::show, servers, Backend, Client, Process, Wireloom};

struct Pair {
    proxy: Process,
    backend: Backend,
}

fn pair() -> Pair {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    Pair { proxy, backend }
}

fn head(c: &mut Client) -> String {
    c.take_head()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn hop_by_hop_fields_stay_on_their_hop() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Secret, keep-alive\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\
         Proxy-Connection: keep-alive\r\nX-Kept: yes\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n",
    );
    let mut server = p.backend.accept();
    let request = head(&mut server);
    for gone in ["x-secret", "keep-alive", "te:", "proxy-connection"] {
        assert!(!request.contains(gone), "{gone} was forwarded: {request}");
    }
    assert!(request.contains("x-kept: yes\r\n"), "{request}");
    assert!(request.contains("x-forwarded-for: 127.0.0.1\r\n") && !request.contains("9.9.9.9"), "{request}");
    server.send("HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Kept: yes\r\nKeep-Alive: timeout=9\r\nContent-Length: 2\r\n\r\nok");
    let response = head(&mut client);
    assert!(!response.contains("x-hop") && !response.contains("keep-alive"), "{response}");
    assert!(response.contains("x-kept: yes\r\n"), "{response}");
    client.expect("ok");
}

/// `Connection: content-length` must not strip the field that frames the message.
#[test]
fn framing_fields_cannot_be_named_away() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length, host\r\nContent-Length: 5\r\n\r\nhello");
    let mut server = p.backend.accept();
    let request = head(&mut server);
    assert!(request.contains("content-length: 5\r\n") && request.contains("host: a\r\n"), "{request}");
    server.expect("hello");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send(GET.repeat(3));
    let mut server = p.backend.accept();
    for n in 0..3 {
        head(&mut server);
        server.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{n}"));
    }
    for n in 0..3 {
        head(&mut client);
        client.expect(n.to_string());
    }
}

#[test]
fn bodies_stream_both_ways_before_they_end() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    let mut server = p.backend.accept();
    head(&mut server);
    server.expect("01234");
    client.send("56789");
    server.expect("56789");
    server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    head(&mut client);
    client.expect("3\r\nabc\r\n");
    server.send("0\r\nX-Sum: 1\r\n\r\n");
    client.expect("0\r\nX-Sum: 1\r\n\r\n");
    client.send(GET);
    head(&mut server);
}

#[test]
fn chunked_request_in_single_bytes_arrives_whole() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    let request =
        b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;e=1\r\nhello\r\n0\r\nT: v\r\n\r\n";
    client.send_in_pieces(request, 1);
    let mut server = p.backend.accept();
    assert!(head(&mut server).starts_with("post /x http/1.1\r\n"));
    server.expect("5\r\nhello\r\n0\r\nT: v\r\n\r\n");
}

#[test]
fn answers_without_a_body_end_with_their_head() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    let mut server = None;
    for (request, answer) in [
        ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        (GET, "HTTP/1.1 204 No Content\r\n\r\n"),
        (GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n"),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ] {
        client.send(request);
        let server = server.get_or_insert_with(|| p.backend.accept());
        head(server);
        server.send(answer);
        let got = head(&mut client);
        assert_eq!(got.lines().next(), answer.to_lowercase().lines().next());
    }
    client.expect_silence(Duration::from_millis(50));
}

#[test]
fn a_body_until_close_ends_the_client_connection_too() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send(GET);
    let mut server = p.backend.accept();
    head(&mut server);
    server.send("HTTP/1.1 200 OK\r\n\r\nsome");
    assert!(head(&mut client).contains("connection: close"));
    client.expect("some");
    server.send(" more");
    drop(server);
    client.expect(" more");
    client.expect_closed();
}

#[test]
fn interim_answers_pass_and_the_final_one_follows() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let mut server = p.backend.accept();
    assert!(head(&mut server).contains("expect: 100-continue"));
    server.send("HTTP/1.1 100 Continue\r\n\r\n");
    client.expect("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    server.expect("hello");
    server.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    client.expect("HTTP/1.1 103 Early Hints\r\n");
    head(&mut client);
    client.expect("HTTP/1.1 200 OK\r\n");
    head(&mut client);
    client.expect("ok");
}

#[test]
fn an_upgrade_becomes_a_tunnel() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: chat\r\n\r\n");
    let mut server = p.backend.accept();
    let request = head(&mut server);
    assert!(request.contains("upgrade: websocket\r\n") && request.contains("connection: upgrade\r\n"), "{request}");
    assert_eq!(request.matches("upgrade:").count(), 2, "both fields of the list: {request}");
    server.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x01\x02");
    let answer = head(&mut client);
    assert!(answer.contains("upgrade: websocket\r\n") && answer.contains("connection: upgrade\r\n"), "{answer}");
    client.expect([1, 2]);
    client.send([0xff, 0, 0xfe]);
    server.expect([0xff, 0, 0xfe]);
    client.finish_sending();
    assert!(server.rest().is_empty());
    server.send("last");
    client.expect("last");
}

/// RFC 9110 section 15.5.22: the required protocol is in the answer.
#[test]
fn an_upgrade_that_is_required_is_told() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut server = p.backend.accept();
    head(&mut server);
    server.send("HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade, X\r\nUpgrade: HTTP/3.0\r\nX: y\r\nContent-Length: 2\r\n\r\nno");
    let answer = head(&mut client);
    assert!(
        answer.contains("upgrade: http/3.0\r\n")
            && answer.contains("connection: upgrade\r\n")
            && !answer.contains("x: y"),
        "{answer}"
    );
    client.expect("no");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    head(&mut server);
}

#[test]
fn http_1_0_closes_unless_asked_to_stay() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send("GET / HTTP/1.0\r\n\r\n");
    let mut server = p.backend.accept();
    head(&mut server);
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    head(&mut client);
    client.expect("ok");
    client.expect_closed();

    let mut client = Client::connect(p.proxy.port);
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let mut server = p.backend.accept_or(server);
    head(&mut server);
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert!(head(&mut client).contains("connection: keep-alive"));
    client.expect("ok");
    client.expect_silence(Duration::from_millis(50));
}

#[test]
fn connection_close_is_honoured_on_both_hops() {
    let p = pair();
    let mut client = Client::connect(p.proxy.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut server = p.backend.accept();
    assert!(!head(&mut server).contains("connection: close"));
    server.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    assert!(head(&mut client).contains("connection: close"));
    client.expect("ok");
    client.expect_closed();

    // The backend said close: its connection is not used again, the client's is.
    let mut client = Client::connect(p.proxy.port);
    client.send(GET);
    let mut second = p.backend.accept();
    head(&mut second);
    second.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    head(&mut client);
    client.expect("ok");
    client.send(GET);
    let mut third = p.backend.accept();
    head(&mut third);
}

#[test]
fn a_client_sticks_to_its_backend() {
    let (a, b) = (Backend::new(), Backend::new());
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[a.port, b.port])]);
    let mut client = Client::connect(proxy.port);
    client.send(GET);
    let moment = Duration::from_millis(5);
    let (mut server, other) = (0..6000)
        .find_map(|_| a.accept_within(moment).map(|s| (s, &b)).or_else(|| b.accept_within(moment).map(|s| (s, &a))))
        .expect("the proxy connects");
    for _ in 0..5 {
        head(&mut server);
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        head(&mut client);
        client.send(GET);
    }
    assert!(other.accept_within(Duration::from_millis(20)).is_none());
}

#[test]
fn round_robin_uses_all_backends() {
    let backends = [Backend::new(), Backend::new(), Backend::new()];
    let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&ports), "--set", "policy=round_robin"]);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(proxy.port)).collect();
    for c in &mut clients {
        c.send(GET);
        std::thread::sleep(Duration::from_millis(20));
    }
    for b in &backends {
        head(&mut b.accept());
    }
}

#[test]
fn idle_backend_connections_are_used_again() {
    let p = pair();
    let mut server = None;
    for _ in 0..5 {
        let mut client = Client::connect(p.proxy.port);
        client.send(GET);
        let server = server.get_or_insert_with(|| p.backend.accept());
        head(server);
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let answer = head(&mut client);
        assert!(answer.starts_with("http/1.1 200"), "{}", show(answer.as_bytes()));
    }
    assert!(p.backend.accept_within(Duration::from_millis(20)).is_none());
}
