//! Requests that end otherwise than by their answer: the access log, the metrics and standard error
//! tell the same.

use std::io::Write;
use std::time::Duration;
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, free_port, plain, servers, Backend, Client, Process, Wireloom};

const GET: &str = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

/// A balancer with an access log and an admin page.
struct Proxy {
    process: Process,
    page: u16,
    folder: Folder,
}

impl Proxy {
    fn new(backends: &[u16], settings: &[&str]) -> Proxy {
        let (folder, page) = (Folder::new("records"), free_port());
        let (list, file, admin) = (servers(backends), folder.name_of("access.log"), page.to_string());
        let mut args = vec!["--set", list.as_str(), "--access-log", &file, "--admin", &admin];
        settings.iter().for_each(|s| args.extend(["--set", s]));
        Proxy { process: Wireloom::run("http_balancer", &args), page, folder }
    }

    fn client(&self) -> Client {
        Client::connect(self.process.port)
    }

    fn faults(&self, kind: &str) -> u64 {
        admin::faults(&admin::status(self.page), kind)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.file("access.log")).unwrap_or_default()
    }

    /// The only line of the access log, from its status on: status, bytes, seconds, backend, fault.
    fn line(&self) -> Vec<String> {
        admin::eventually("a line is written", || self.log().contains('\n'));
        let log = self.log();
        assert_eq!(log.lines().count(), 1, "{log}");
        let words: Vec<String> = log.split_whitespace().map(String::from).collect();
        words[words.len() - 5..].to_vec()
    }

    /// The lines of standard error with these words.
    fn said(&self, words: &str) -> Vec<String> {
        self.process.output().lines().filter(|l| l.contains(words)).map(String::from).collect()
    }
}

/// A client that takes nothing has not left.
#[test]
fn a_client_that_takes_no_answer_is_told_as_such() {
    if plain() {
        return;
    }
    let backend = Backend::new();
    let proxy = Proxy::new(&[backend.port], &["client.write_timeout=300ms"]);
    let mut client = proxy.client();
    client.send(GET);
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    let source = std::thread::spawn(move || {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 256 << 20);
        let mut sent = server.stream.write_all(head.as_bytes());
        while sent.is_ok() {
            sent = server.stream.write_all(&[7; 65536]);
        }
    });
    let line = proxy.line();
    assert_eq!((line[0].as_str(), line[4].as_str()), ("200", "idle"), "{line:?}");
    assert_eq!((proxy.faults("idle"), proxy.faults("cancelled")), (1, 0));
    let said = proxy.said("http_balancer.client: idle: client 127.0.0.1:");
    assert_eq!(said.len(), 1, "{}", proxy.process.output());
    let server = format!("backend 127.0.0.1:{}, cut off by write_timeout", backend.port);
    assert!(said[0].contains(&server), "{said:?}");
    drop(client);
    source.join().expect("it ends");
}

/// An answer that stops, and one whose connection is reset, are faults like one that ends early.
#[test]
fn each_answer_that_is_cut_off_is_counted() {
    if plain() {
        return;
    }
    for (kind, end) in [("timeout", None), ("lost", Some(true)), ("lost", Some(false))] {
        let backend = Backend::new();
        let proxy = Proxy::new(&[backend.port], &["backend.stream_timeout=300ms"]);
        let mut client = proxy.client();
        client.send(GET);
        let mut server = backend.accept();
        server.take_until(b"\r\n\r\n");
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        client.take_until(b"half");
        match end {
            None => client.expect_closed(),
            Some(true) => server.reset(),
            Some(false) => drop(server),
        }
        assert_eq!(proxy.line()[4], kind);
        assert_eq!(proxy.faults(kind), 1, "{kind} {end:?}");
        let said = proxy.said(&format!("http_balancer.client: {kind}"));
        assert!(said.len() == 1 && said[0].contains(", cut off"), "{}", proxy.process.output());
    }
}

/// A tunnel has its line at its end, with all that its client got.
#[test]
fn a_tunnel_is_logged_at_its_end() {
    if plain() {
        return;
    }
    const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let backend = Backend::new();
    let proxy = Proxy::new(&[backend.port], &[]);
    let mut client = proxy.client();
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    server.send(SWITCHED);
    let head = client.take_head();
    server.send("from the server");
    client.expect("from the server").send("from the client");
    server.expect("from the client");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(proxy.log(), "", "it is under way");
    drop(client);
    server.expect_closed();
    drop(server);
    let line = proxy.line();
    assert_eq!(line[0], "101");
    assert_eq!(line[1], (head.len() + "from the server".len()).to_string(), "{head}");
    assert!(line[2].parse::<f64>().is_ok_and(|s| (0.5..20.0).contains(&s)), "{line:?}");
    assert_eq!(line[3], format!("127.0.0.1:{}", backend.port));
    assert_eq!(line[4], "-");
}

/// The end of the service is an end of tunnels.
#[test]
fn a_tunnel_that_the_service_ends_is_logged() {
    if plain() {
        return;
    }
    let backend = Backend::new();
    let mut proxy = Proxy::new(&[backend.port], &[]);
    let mut client = proxy.client();
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut server = backend.accept();
    server.take_until(b"\r\n\r\n");
    server.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    client.take_head();
    proxy.process.signal(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(400));
    proxy.process.signal(libc::SIGTERM);
    proxy.process.exit();
    assert_eq!(proxy.line()[4], "shutdown");
}

/// The time of a request that is not complete counts from its first byte.
#[test]
fn a_slow_request_has_its_time() {
    if plain() {
        return;
    }
    let proxy = Proxy::new(&[free_port()], &["client.read_timeout=400ms"]);
    let mut client = proxy.client();
    client.send("GET / HT");
    client.rest();
    let line = proxy.line();
    assert_eq!((line[0].as_str(), line[4].as_str()), ("408", "idle"));
    assert!(line[2].parse::<f64>().is_ok_and(|s| (0.4..20.0).contains(&s)), "{line:?}");
}

/// An answer to a request from before a server went down does not bring it back.
#[test]
fn an_old_answer_restores_no_server() {
    if plain() {
        return;
    }
    let (backend, other) = (Backend::new(), Backend::new());
    let settings = ["policy=round_robin", "backend.eject_after=1", "backend.eject_time=60s"];
    let proxy = Proxy::new(&[backend.port, other.port], &settings);
    let mut clients: Vec<Client> = Vec::new();
    let mut asked = Vec::new();
    // Clients take the servers in turns.
    for _ in 0..4 {
        let mut client = proxy.client();
        client.send(GET);
        asked.extend(backend.accept_within(Duration::from_millis(500)).map(|s| (s, clients.len())));
        clients.push(client);
    }
    let [(mut first, slow), (mut second, _)] = <[_; 2]>::try_from(asked).ok().expect("two of four");
    second.take_until(b"\r\n\r\n");
    second.reset();
    admin::eventually("it is down", || !proxy.said("is down").is_empty());
    first.take_until(b"\r\n\r\n");
    first.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    clients[slow].take_until(b"ok");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(proxy.said("is up again"), Vec::<String>::new());
    let status = admin::status(proxy.page);
    assert_eq!(admin::port_of(&status, "backend")["backends"][0]["up"], false, "{status}");
}
