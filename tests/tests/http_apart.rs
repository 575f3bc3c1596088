//! `http_balancer` with its defaults: no client gets another client's answer, also when a backend
//! writes too much. No client is answered on a connection that has authenticated another.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use wireloom_tests::{admin, free_port, servers, Client, Process, Wireloom};

const CLIENTS: usize = 32;
const REQUESTS: usize = 40;

/// Serves each connection by `answer`, which gets the request's head and its earlier output on this
/// connection.
fn backend(answer: impl Fn(&str, &mut String) -> Vec<u8> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || serve(stream, &*answer));
        }
    });
    port
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&str, &mut String) -> Vec<u8>) {
    let (mut input, mut piece, mut state) = (Vec::new(), [0; 4096], String::new());
    loop {
        while let Some(end) = input.windows(4).position(|w| w == b"\r\n\r\n") {
            let head: Vec<u8> = input.drain(..end + 4).collect();
            let said = answer(&String::from_utf8_lossy(&head), &mut state);
            if stream.write_all(&said).is_err() {
                return;
            }
        }
        match stream.read(&mut piece) {
            Ok(n) if n > 0 => input.extend_from_slice(&piece[..n]),
            _ => return,
        }
    }
}

fn path(head: &str) -> String {
    head.split(' ').nth(1).unwrap_or_default().to_string()
}

fn balancer(backend: u16, extra: &[&str]) -> (Process, u16) {
    let page = free_port();
    let (list, address) = (servers(&[backend]), format!("127.0.0.1:{page}"));
    let args = [&["--set", list.as_str(), "--admin", address.as_str()], extra].concat();
    (Wireloom::run("http_balancer", &args), page)
}

/// How many of all answers were not the asker's own.
fn mixed_up(port: u16) -> usize {
    let wrong = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|c| {
            let wrong = wrong.clone();
            std::thread::spawn(move || {
                let mut client = Client::connect(port);
                for n in 0..REQUESTS {
                    let path = format!("/{c}.{n}/");
                    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
                    let head = client.take_head();
                    assert!(head.starts_with("http/1.1 200"), "{head}");
                    let length = head
                        .split("content-length: ")
                        .nth(1)
                        .and_then(|t| t.split("\r\n").next())
                        .and_then(|t| t.parse().ok());
                    let body = client.take(length.expect("a length"));
                    wrong.fetch_add(
                        usize::from(!body.starts_with(path.as_bytes()) || head.contains("set-cookie")),
                        Relaxed,
                    );
                    if n % 8 == 0 {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("every client is answered"));
    wrong.load(Relaxed)
}

/// As a Node server does that gives `text.length` as the length.
#[test]
fn a_length_in_characters_reaches_nobody_else() {
    let backend = backend(|head, _| {
        let body = format!("{}{}", path(head), "é".repeat(40));
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.chars().count()).into_bytes()
    });
    let (proxy, page) = balancer(backend, &[]);
    assert_eq!(mixed_up(proxy.port), 0);
    let status = admin::status(page);
    assert!(admin::port_of(&status, "backend")["surplus"].as_u64() > Some(1000), "{status}");
    assert_eq!(admin::faults(&status, "bad_reply"), 0);
    assert_eq!(proxy.output().matches("bytes behind a complete answer").count(), 1, "{}", proxy.output());
}

#[test]
fn an_answer_too_many_reaches_nobody() {
    let count = AtomicUsize::new(0);
    let backend = backend(move |head, _| {
        let body = path(head);
        let mut said = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if count.fetch_add(1, Relaxed).is_multiple_of(3) {
            said += "HTTP/1.1 200 OK\r\nSet-Cookie: forged=1\r\nContent-Length: 6\r\n\r\nforged";
        }
        said.into_bytes()
    });
    let (proxy, page) = balancer(backend, &[]);
    assert_eq!(mixed_up(proxy.port), 0);
    assert!(admin::port_of(&admin::status(page), "backend")["surplus"].as_u64() > Some(100));
}

/// Answers with the user that was authenticated on its connection.
fn of_windows() -> u16 {
    backend(|head, user| {
        let lower = head.to_ascii_lowercase();
        if let Some(name) = lower.split("authorization: ntlm ").nth(1).and_then(|t| t.split("\r\n").next()) {
            *user = name.to_string();
        }
        match user.as_str() {
            "" => b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM\r\nContent-Length: 4\r\n\r\nwho?".to_vec(),
            name => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).into_bytes(),
        }
    })
}

fn ask(client: &mut Client, fields: &str) -> String {
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let head = client.take_head();
    let length =
        head.split("content-length: ").nth(1).and_then(|t| t.split("\r\n").next()).and_then(|t| t.parse().ok());
    String::from_utf8_lossy(&client.take(length.expect("a length"))).into_owned()
}

#[test]
fn a_connection_that_was_authenticated_serves_its_client_only() {
    for extra in [&[][..], &["--set", "backend.reuse=always"], &["--set", "backend.pipeline=8"], &["--interpret"]] {
        let (proxy, page) = balancer(of_windows(), extra);
        let (mut anna, mut bert) = (Client::connect(proxy.port), Client::connect(proxy.port));
        assert_eq!(ask(&mut anna, ""), "who?");
        assert_eq!(ask(&mut anna, "Authorization: NTLM anna\r\n"), "anna");
        for _ in 0..5 {
            assert_eq!(ask(&mut anna, ""), "anna", "and goes on doing so");
            assert_eq!(ask(&mut bert, ""), "who?");
        }
        assert_eq!(ask(&mut bert, "Authorization: NTLM bert\r\n"), "bert");
        assert_eq!((ask(&mut anna, ""), ask(&mut bert, "")), ("anna".into(), "bert".into()));
        let open = || admin::port_of(&admin::status(page), "backend")["open"].as_u64().expect("a number");
        assert!(open() >= 2);
        drop((anna, bert));
        admin::eventually("they end with their clients", || open() == 0);
        let mut late = Client::connect(proxy.port);
        assert_eq!(ask(&mut late, ""), "who?");
    }
}

/// Credentials that come first, as those of Kerberos do: no challenge is seen.
#[test]
fn credentials_of_a_connection_make_it_its_clients_own() {
    let (proxy, _page) = balancer(of_windows(), &["--set", "backend.reuse=always"]);
    let (mut anna, mut bert) = (Client::connect(proxy.port), Client::connect(proxy.port));
    assert_eq!(ask(&mut anna, "Authorization: NTLM anna\r\n"), "anna");
    assert_eq!(ask(&mut bert, ""), "who?");
    assert_eq!(ask(&mut anna, ""), "anna");
    // Behind another field of the name, which the server does not read.
    let mut eve = Client::connect(proxy.port);
    assert_eq!(ask(&mut eve, "Authorization: Basic eDp5\r\nAuthorization: NTLM eve\r\n"), "eve");
    assert_eq!(ask(&mut bert, ""), "who?");
    drop(eve);
    assert_eq!(ask(&mut Client::connect(proxy.port), ""), "who?");
}

/// A client that ends its side behind a request for another protocol gets no tunnel. The connection
/// speaks that protocol all the same, and serves nobody else.
#[test]
fn a_connection_that_was_upgraded_is_not_pooled() {
    let backend = wireloom_tests::Backend::new();
    for engine in ["epoll", "uring"] {
        let (proxy, _page) = balancer(backend.port, &["--set", "backend.reuse=always", "--engine", engine]);
        let (mut client, mut other) = (Client::connect(proxy.port), Client::connect(proxy.port));
        client
            .send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .finish_sending();
        let mut upgraded = backend.accept();
        upgraded.take_head();
        std::thread::sleep(std::time::Duration::from_millis(100));
        upgraded.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
        client.take_head();
        other.send("GET /other HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n");
        upgraded.expect_closed();
        let mut server = backend.accept();
        assert!(server.take_head().starts_with("get /other "));
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        other.take_until(b"ok");
    }
}

/// A backend that has sent bytes behind an answer may do so again, when the next request has been
/// written. For some time no connection of it serves a second request.
#[test]
fn a_backend_out_of_step_has_no_connection_reused() {
    for (reuse, again) in [("safe", false), ("always", true)] {
        let backend = wireloom_tests::Backend::new();
        let (proxy, page) = balancer(backend.port, &["--set", &format!("backend.reuse={reuse}")]);
        let mut client = Client::connect(proxy.port);
        let ask = |client: &mut Client, server: &mut Client| {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            server.take_head();
            server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            client.take_until(b"ok");
        };
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        server.take_head();
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        client.take_until(b"ok");
        ask(&mut client, &mut server);
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
        let surplus = || admin::port_of(&admin::status(page), "backend")["surplus"] == 1;
        admin::eventually("it is seen", surplus);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut server = backend.accept();
        server.take_head();
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        client.take_until(b"ok");
        if again {
            ask(&mut client, &mut server);
        } else {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            server.expect_closed();
            backend.accept().take_head();
        }
    }
}

/// With `pipeline` requests share connections, except those with credentials.
#[test]
fn requests_of_somebody_share_nothing() {
    let backend = wireloom_tests::Backend::new();
    let (proxy, _page) = balancer(backend.port, &["--set", "backend.pipeline=8"]);
    let mut held = Vec::new();
    for field in ["Cookie: a=b", "Authorization: Basic eDp5", "Proxy-Authorization: Basic eDp5"] {
        for _ in 0..2 {
            let mut c = Client::connect(proxy.port);
            c.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
            let mut server = backend.accept();
            assert!(server.take_head().contains(&field.to_ascii_lowercase()));
            held.push((c, server));
        }
    }
    assert_eq!(held.len(), 6, "each has a connection");
}
