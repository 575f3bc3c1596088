//! Addresses to listen on: the number of a port, an address of either version, and all addresses.
//! Real clients reach services over IPv6.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;
use wireloom_tests::dns::{answer, question, Resolver};
use wireloom_tests::{finish, free_port, plain, require_tool, root, servers, Client, Process, Wireloom, PATIENCE};

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// An app of `apps/` that listens at an address with this port.
fn listening(app: &str, at: &str, port: u16, more: &[&str]) -> Process {
    let mut command = Wireloom::program();
    command.current_dir(root()).args(["run", &format!("apps/{app}.loom"), "--set", &format!("port={at}")]).args(more);
    Process::start_saying(app, &mut command, port, "ready after")
}

/// Whether the machine has IPv6; containers often have none.
fn has_ipv6() -> bool {
    let has = TcpListener::bind("[::1]:0").is_ok();
    if !has {
        eprintln!("SKIPPED: this machine has no IPv6 on loopback");
    }
    has
}

#[test]
fn each_form_listens_where_it_says() {
    let has_ipv6 = has_ipv6();
    for engine in ["epoll", "uring"] {
        for (form, shown, four, six) in [
            ("PORT", "0.0.0.0:PORT", true, false),
            ("127.0.0.1:PORT", "127.0.0.1:PORT", true, false),
            ("[::1]:PORT", "[::1]:PORT", false, true),
            ("[::]:PORT", "[::]:PORT", true, true),
        ] {
            if six && !has_ipv6 {
                continue;
            }
            let port = free_port();
            let at = |text: &str| text.replace("PORT", &port.to_string());
            let web = listening("static_web", &at(form), port, &["--interpret", "--engine", engine]);
            let line = format!("static_web.client listens on {}\n", at(shown));
            assert!(web.output().contains(&line), "{form}: {}", web.output());
            for (address, reached) in [("127.0.0.1:PORT", four), ("[::1]:PORT", six)] {
                let stream = TcpStream::connect(at(address));
                assert_eq!(stream.is_ok(), reached, "{engine} {form} {address}");
                if let Ok(stream) = stream {
                    Client::over(stream).send(GET).expect("HTTP/1.1 200 OK\r\n").take_until(b"Wireloom.\n");
                }
            }
        }
    }
}

/// All programs that listen at their parameter `port`.
#[test]
fn every_app_takes_an_address() {
    let mut seen = 0;
    for folder in ["apps", "examples"] {
        for file in std::fs::read_dir(root().join(folder)).expect("our own").flatten().map(|e| e.path()) {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if !["listen tcp(", "listen udp("].iter().any(|l| text.contains(l)) {
                continue;
            }
            let name = file.to_str().expect("a plain name");
            let out = Wireloom::command(&["explain", name, "--set", "port=[::1]:8080"]);
            assert!(out.text.contains("(port = [::1]:8080) as "), "{name}: {}", out.text);
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen} files");
}

#[test]
fn no_address_is_refused() {
    let expected = "expected ADDRESS:PORT such as [::1]:8080, or the number of a port, as in 8080";
    for (value, said) in [
        ("99999", "must be at most 65535 (got `99999`)"),
        ("nowhere", expected),
        ("[::1]", expected),
        ("127.0.0.1", expected),
    ] {
        let out = Wireloom::command(&["run", "apps/static_web.loom", "--set", &format!("port={value}")]);
        assert!(out.code == Some(1) && out.text.contains(said), "{value}: {}", out.text);
    }
}

#[test]
fn curl_over_ipv6() {
    if plain() || !require_tool("curl") || !has_ipv6() {
        return;
    }
    let nginx = Process::nginx("location / { return 200 \"for $http_x_forwarded_for\\n\"; }");
    let (port, list) = (free_port(), servers(&[nginx.port]));
    let _proxy = listening("http_balancer", &format!("[::]:{port}"), port, &["--set", &list]);
    for (host, client) in [("[::1]", "::1"), ("127.0.0.1", "127.0.0.1")] {
        let out = finish(Command::new("curl").args(["-sSg", &format!("http://{host}:{port}/")]));
        assert_eq!(out.text, format!("for {client}\n"), "{host}");
    }
}

/// A client of IPv4 has its own address at a port of both versions.
#[test]
fn redis_cli_over_ipv6() {
    if plain() || !require_tool("redis-cli") || !has_ipv6() {
        return;
    }
    let redis = Process::redis();
    let (port, list) = (free_port(), servers(&[redis.port]));
    let _proxy = listening("redis_proxy", &format!("[::]:{port}"), port, &["--set", &list]);
    for (host, shown) in [("::1", "[::1]"), ("127.0.0.1", "127.0.0.1")] {
        let ask = |words: &[&str]| {
            let number = port.to_string();
            finish(Command::new("redis-cli").args(["-h", host, "-p", &number]).args(words)).text
        };
        assert_eq!(ask(&["SET", "k", "v"]), "OK\n");
        let said = ask(&["CLIENT", "INFO"]);
        assert!(said.contains(&format!(" addr={shown}:")), "{said}");
        assert!(said.contains(&format!(" laddr={shown}:{port} ")), "{said}");
    }
}

#[test]
fn datagrams_over_ipv6() {
    if !has_ipv6() {
        return;
    }
    let resolver = Resolver::new(|_, q| vec![answer(q, 60, [192, 0, 2, 1])]);
    let port = free_port();
    let set = format!("resolvers={}", resolver.addr);
    let _service = listening("dns_forwarder", &format!("[::]:{port}"), port, &["--interpret", "--set", &set]);
    for host in ["::1", "127.0.0.1"] {
        let client = UdpSocket::bind((host, 0)).expect("loopback");
        client.set_read_timeout(Some(PATIENCE.min(Duration::from_secs(20)))).expect("a socket");
        let q = question(7, "a.example");
        // A connected socket takes answers from the asked address only.
        client.connect((host, port)).expect("loopback");
        client.send(&q).expect("loopback");
        let mut got = [0; 512];
        let n = client.recv(&mut got).expect("an answer");
        assert_eq!(got[..n], answer(&q, 60, [192, 0, 2, 1]), "{host}");
    }
}
