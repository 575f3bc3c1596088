//! RADIUS over UDP: ids of one byte. Several clients with the same ids, more requests than ids, and
//! servers that answer in any order, late, twice and with foreign ids.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wireloom_tests::admin::{eventually, faults, metrics, port_of, sample, status};
use wireloom_tests::dns::{ask, socket, Resolver};
use wireloom_tests::folder::Folder;
use wireloom_tests::{free_port, Process, Wireloom};

const PROXY: &str = "
use std.radius

protocol access {
    request  radius.Message
    response radius.Message
    order    by id
    sharing  pipelined
    stateless
    matches(code = request.code) when radius.answers(response.code, code)
}

app proxy {
    param port: u16
    param servers: list<endpoint, 4>
    port client = listen udp(port)     as access
    port home   = connect udp(servers) as access { answer_timeout 300ms, eject_after 0 }
    on client(m) { reply call home[0](m) }
}
";

fn proxy(server: SocketAddr, extra: &[&str]) -> (Folder, Process, u16) {
    let folder = Folder::new("radius");
    let file = folder.path().join("proxy.loom");
    std::fs::write(&file, PROXY).expect("the folder is writable");
    let page = free_port();
    let (admin, servers) = (format!("127.0.0.1:{page}"), format!("servers={server}"));
    let all = [&["--interpret", "--admin", &admin, "--set", &servers][..], extra].concat();
    let service = Wireloom::run_file(&file.display().to_string(), &all, |_| {});
    (folder, service, page)
}

/// A request for access.
fn request(id: u8, name: &str) -> Vec<u8> {
    message(1, id, 1, name)
}

/// Its answer: the name as a message.
fn accept(request: &[u8]) -> Vec<u8> {
    message(2, request[1], 18, name(request))
}

fn message(code: u8, id: u8, kind: u8, text: &str) -> Vec<u8> {
    let size = 22 + text.len() as u8;
    [&[code, id, 0, size][..], b"0123456789abcdef", &[kind, size - 20], text.as_bytes()].concat()
}

fn name(m: &[u8]) -> &str {
    std::str::from_utf8(&m[22..]).expect("a name")
}

/// Takes answers until so few are missing. Each is that to a request of this client, and comes
/// once.
fn take(client: &UdpSocket, wanted: &mut HashMap<u8, String>, left: usize) {
    let mut bytes = [0; 4096];
    while wanted.len() > left {
        let Ok((n, _)) = client.recv_from(&mut bytes) else { return };
        let right = wanted.remove(&bytes[1]).expect("an answer comes once, to the one who asked");
        assert_eq!(bytes[..n], accept(&request(bytes[1], &right)));
    }
}

/// A server that answers two requests at a time, in the other order, and now and then twice.
struct Pairs(SocketAddr);

impl Pairs {
    fn new() -> Pairs {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
        let addr = socket.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            let (mut bytes, mut held, mut heard) = ([0; 4096], None::<(Vec<u8>, SocketAddr)>, 0);
            while let Ok((n @ 1.., from)) = socket.recv_from(&mut bytes) {
                heard += 1;
                let answer = (accept(&bytes[..n]), from);
                let Some(first) = held.take() else {
                    held = Some(answer);
                    continue;
                };
                for (a, to) in [&answer, &first].into_iter().cycle().take(if heard % 50 == 0 { 4 } else { 2 }) {
                    socket.send_to(a, to).expect("loopback takes datagrams");
                }
            }
        });
        Pairs(addr)
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        socket().send_to(b"", self.0).ok();
    }
}

#[test]
fn several_clients_have_the_same_ids() {
    for (engine, sockets) in [("epoll", "1"), ("uring", "1"), ("epoll", "3")] {
        let server = Pairs::new();
        let connections = format!("home.connections={sockets}");
        let (_folder, service, page) = proxy(server.0, &["--engine", engine, "--set", &connections]);
        std::thread::scope(|s| {
            for t in 0..4 {
                let port = service.port;
                s.spawn(move || {
                    let client = socket();
                    client.set_read_timeout(Some(Duration::from_secs(3))).expect("a time limit");
                    let mut wanted = HashMap::new();
                    for n in 0..240u8 {
                        let user = format!("u{t}.{n}");
                        client.send_to(&request(n, &user), ("127.0.0.1", port)).expect("loopback takes datagrams");
                        wanted.insert(n, user);
                        if n % 8 == 7 {
                            take(&client, &mut wanted, 1);
                        }
                    }
                    take(&client, &mut wanted, 1);
                    assert!(wanted.len() <= 1, "{engine}, {sockets} sockets: {wanted:?} have no answer");
                });
            }
        });
        let second = sample(&metrics(page), "wireloom_datagrams_unmatched_total{app=\"proxy\",port=\"home\"}");
        assert!(second >= 20, "{engine}, {sockets} sockets: {second} second answers reached nobody");
    }
}

/// More requests than there are ids: the others wait, and none shares an id.
#[test]
fn requests_wait_for_ids() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
    server.set_read_timeout(Some(Duration::from_millis(200))).expect("a time limit");
    let address = server.local_addr().expect("it is bound");
    let (_folder, service, page) = proxy(address, &["--set", "home.answer_timeout=5s"]);
    let clients = [socket(), socket()];
    let hear = || {
        let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok((n, from)) = server.recv_from(&mut bytes) {
            all.push((bytes[..n].to_vec(), from));
        }
        all
    };
    // Half of them at a time, for the sake of the kernel's buffers.
    let ask_all = |port: u16| {
        let mut all = Vec::new();
        for (c, n) in (0..2).flat_map(|c| (0..200u8).map(move |n| (c, n))) {
            let m = request(n, &format!("u{c}.{n}"));
            clients[c].send_to(&m, ("127.0.0.1", port)).expect("loopback takes datagrams");
            if n % 100 == 99 {
                all.extend(hear());
            }
        }
        all
    };
    let asked = ask_all(service.port);
    let mut ids: Vec<u8> = asked.iter().map(|(m, _)| m[1]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((asked.len(), ids.len()), (255, 255), "each id once, but for that of no request");
    let answer = |all: &[(Vec<u8>, SocketAddr)]| {
        for (m, from) in all {
            server.send_to(&accept(m), from).expect("loopback takes datagrams");
        }
    };
    answer(&asked);
    let rest = hear();
    assert_eq!(rest.len(), 145, "{}", status(page));
    answer(&rest);
    for (c, client) in clients.iter().enumerate() {
        let mut wanted = (0..200u8).map(|n| (n, format!("u{c}.{n}"))).collect();
        take(client, &mut wanted, 0);
        assert!(wanted.is_empty(), "client {c}: {wanted:?} have no answer");
    }
    // With two sockets all find an id at once.
    let (_folder, service, _) = proxy(address, &["--set", "home.answer_timeout=5s", "--set", "home.connections=2"]);
    let asked = ask_all(service.port);
    let mut both: Vec<(SocketAddr, u8)> = asked.iter().map(|(m, from)| (*from, m[1])).collect();
    both.sort_unstable();
    both.dedup();
    assert_eq!((asked.len(), both.len()), (400, 400));
}

/// An answer that comes late reaches nobody, though requests go on.
#[test]
fn late_answers_reach_nobody() {
    // Every fifth request is answered behind its time.
    let mut late: Vec<(Instant, Vec<u8>)> = Vec::new();
    let server = Resolver::new(move |n, m| {
        let due = late.iter().take_while(|(since, _)| since.elapsed() > Duration::from_millis(305)).count();
        let mut all: Vec<Vec<u8>> = late.drain(..due).map(|(_, a)| a).collect();
        match n % 5 {
            0 => late.push((Instant::now(), accept(m))),
            _ => all.push(accept(m)),
        }
        all
    });
    let (_folder, service, page) = proxy(server.addr, &[]);
    let client = socket();
    let begun = Instant::now();
    let (mut answered, mut lost) = (0, 0_u64);
    client.set_read_timeout(Some(Duration::from_millis(320))).expect("a time limit");
    while begun.elapsed() < Duration::from_secs(4) {
        let (id, user) = ((answered + lost) as u8, format!("u{}", answered + lost));
        match ask(&client, service.port, &request(id, &user)) {
            Some(a) => {
                assert_eq!(a, accept(&request(id, &user)));
                answered += 1;
            }
            None => lost += 1,
        }
    }
    assert!(lost >= 5 && answered >= 4 * (lost - 1), "{answered} answers, {lost} lost");
    let s = status(page);
    let unmatched = port_of(&s, "home")["unmatched"].as_u64().expect("a count");
    assert!(unmatched >= lost - 1 && faults(&s, "timeout") == lost, "{lost} lost, {s}");
}

/// The numbers of requests that are late rest for the time of an answer: 255 of them bound the rate
/// of a socket. A request behind them waits.
#[test]
fn ids_of_late_requests_rest() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
    server.set_read_timeout(Some(Duration::from_millis(50))).expect("a time limit");
    let address = server.local_addr().expect("it is bound");
    let (_folder, service, page) = proxy(address, &["--set", "home.answer_timeout=1s"]);
    let client = socket();
    for n in 0..255u8 {
        client.send_to(&request(n, "late"), ("127.0.0.1", service.port)).expect("loopback takes datagrams");
        std::thread::sleep(Duration::from_micros(200));
    }
    let mut bytes = [0; 4096];
    let mut first = Vec::new();
    while let Ok((n, from)) = server.recv_from(&mut bytes) {
        first.push((bytes[..n].to_vec(), from));
    }
    assert_eq!(first.len(), 255);
    // Behind their time, but within that of a late answer.
    eventually("the requests are late", || faults(&status(page), "timeout") == 255);
    client.send_to(&request(7, "next"), ("127.0.0.1", service.port)).expect("loopback takes datagrams");
    assert!(server.recv_from(&mut bytes).is_err(), "no id is free");
    for (m, from) in &first {
        server.send_to(&accept(m), from).expect("loopback takes datagrams");
    }
    server.set_read_timeout(Some(Duration::from_secs(3))).expect("a time limit");
    let (n, from) = server.recv_from(&mut bytes).expect("an id that has rested");
    server.send_to(&accept(&bytes[..n]), from).expect("loopback takes datagrams");
    let (n, _) = client.recv_from(&mut bytes).expect("an answer");
    assert_eq!(bytes[..n], accept(&request(7, "next")));
}
