//! How conversations end: the reasons that handlers see, their timeouts, limits and drains.

use std::time::{Duration, Instant};
use wireloom_tests::folder::Folder;
use wireloom_tests::{free_port, servers, Backend, Client, Process, Wireloom};

const ENDS: &str = "
unit Line { text: text<20> until \"\\n\" }

protocol lines {
    up      Line
    down    Line
    sharing session
    on fault(f) {
        match f.kind {
            refused  => reply Line { text: \"refused\" } then close
            lost     => reply Line { text: \"lost\" } then close
            overload => reply Line { text: \"overload\" } then close
            shutdown => reply Line { text: \"good bye\" } then close
            _        => reply Line { text: \"fault\" } then close
        }
    }
}

fn name(why: fault) -> bytes<20> = match why {
    ended    => \"ended\"
    lost     => \"lost\"
    idle     => \"idle\"
    refused  => \"refused\"
    overload => \"overload\"
    too_long => \"too_long\"
    shutdown => \"shutdown\"
    _        => \"another\"
}

app ends {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as lines { idle_timeout 1s, max_connections 3, accept_timeout 100ms }
    port db     = connect tcp(servers) as lines { connect_timeout 1s, max_connections 2 }

    session up:   connection of db
    session said: u32

    on client(m: lines.up) {
        said += 1
        if m.text != \"alone\" { m -> up }
    }
    on up(m: lines.down) { m -> client }
    on up.closed(why) { log \"up \", name(why), \" \", said }
    on client.closed(why) { log \"client \", name(why), \" \", said }
}
";

fn start(name: &str, port: u16, extra: &[&str]) -> Process {
    let folder = Folder::new(name);
    let file = folder.name_of("ends.loom");
    std::fs::write(&file, ENDS).expect("the folder is writable");
    let set = servers(&[port]);
    let args: Vec<&str> = ["--cores", "1", "--set", &set].into_iter().chain(extra.iter().copied()).collect();
    Wireloom::run_file(&file, &args, |_| {})
}

fn says(proxy: &Process, line: &str) {
    let until = Instant::now() + Duration::from_secs(5);
    while !proxy.output().contains(line) {
        assert!(Instant::now() < until, "no `{line}` in {}", proxy.output());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client with a server's connection.
fn pair(proxy: &Process, backend: &mut Backend) -> (Client, Client) {
    let mut client = Client::connect(proxy.port);
    client.send("hello\n");
    let mut server = backend.accept();
    server.expect("hello\n");
    (client, server)
}

#[test]
fn the_end_of_a_client_has_a_reason() {
    for interpret in [&["--interpret"][..], &[]] {
        let mut backend = Backend::new();
        let proxy = start("ends_client", backend.port, interpret);
        let (mut client, server) = pair(&proxy, &mut backend);
        client.finish_sending();
        drop(server);
        says(&proxy, "client ended 1");
        let (client, _server) = pair(&proxy, &mut backend);
        client.reset();
        says(&proxy, "client lost 1");
        let (mut client, mut server) = pair(&proxy, &mut backend);
        server.send("word\n");
        client.expect("word\n").send("2\n").send("x".repeat(30));
        client.expect("fault\n").expect_closed();
        says(&proxy, "client too_long 2");
        let (client, server) = pair(&proxy, &mut backend);
        server.reset();
        says(&proxy, "up lost 1");
        says(&proxy, "client lost 1");
        drop(client);
    }
}

#[test]
fn the_end_of_a_server_has_a_reason() {
    let mut backend = Backend::new();
    let proxy = start("ends_server", backend.port, &[]);
    let (mut client, server) = pair(&proxy, &mut backend);
    drop(server);
    client.expect_closed();
    says(&proxy, "up ended 1");
    let unused = free_port();
    let alone = start("ends_refused", unused, &[]);
    let mut client = Client::connect(alone.port);
    client.send("a\nb\n").expect("refused\n").expect_closed();
    says(&alone, "up refused");
    says(&alone, "client refused");
}

/// Each side's silence counts, and each side's bytes.
#[test]
fn idle_conversations_end_in_time() {
    let mut backend = Backend::new();
    let proxy = start("ends_idle", backend.port, &[]);
    let (mut client, mut server) = pair(&proxy, &mut backend);
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(500));
        server.send("word\n");
        client.expect("word\n");
    }
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(500));
        client.send("word\n");
        server.expect("word\n");
    }
    let begun = Instant::now();
    client.expect_closed();
    server.expect_closed();
    assert!((800..4000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    says(&proxy, "client idle 4");
    // Without a server, too.
    let mut client = Client::connect(proxy.port);
    client.send("alone\n").expect_closed();
    says(&proxy, "client idle 1");
}

#[test]
fn limits_of_connections_hold_on_both_sides() {
    let mut backend = Backend::new();
    let proxy = start("ends_limits", backend.port, &["--set", "client.idle_timeout=60s"]);
    let one = pair(&proxy, &mut backend);
    let two = pair(&proxy, &mut backend);
    // A third connection to the server, then a fourth client.
    let mut third = Client::connect(proxy.port);
    third.send("hello\n").expect("overload\n").expect_closed();
    says(&proxy, "client overload");
    // It counts until it closes its side, too.
    drop(third);
    std::thread::sleep(Duration::from_millis(50));
    let mut third = Client::connect(proxy.port);
    third.send("alone\n");
    third.expect_silence(Duration::from_millis(200));
    let mut fourth = Client::connect(proxy.port);
    fourth.send("alone\n").expect("overload\n").expect_closed();
    // One that says nothing hears of it as soon.
    let begun = Instant::now();
    Client::connect(proxy.port).expect("overload\n").expect_closed();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    drop((one, two));
    std::thread::sleep(Duration::from_millis(300));
    let (mut client, mut server) = pair(&proxy, &mut backend);
    server.send("word\n");
    client.expect("word\n");
    third.expect_silence(Duration::from_millis(50));
}

/// A drain tells idle conversations, and waits for those that talk.
#[test]
fn a_drain_ends_idle_conversations_and_not_busy_ones() {
    let mut backend = Backend::new();
    let mut proxy = start("ends_drain", backend.port, &["--set", "client.idle_timeout=60s", "--drain", "20"]);
    let (mut busy, mut server) = pair(&proxy, &mut backend);
    let mut idle = Client::connect(proxy.port);
    idle.send("alone\n");
    idle.expect_silence(Duration::from_millis(300));
    let begun = Instant::now();
    proxy.signal(libc::SIGTERM);
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(300));
        server.send("word\n");
        busy.expect("word\n");
    }
    idle.expect("good bye\n").expect_closed();
    says(&proxy, "client shutdown 1");
    assert_eq!(proxy.exit_code(Duration::ZERO), None);
    busy.expect("good bye\n").expect_closed();
    drop(server);
    assert_eq!(proxy.exit_code(Duration::from_secs(5)), Some(0), "{}", proxy.output());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

/// Sockets of a port in /proc/net/tcp: what their timers wait for, 2 for a keepalive.
fn timers(port: u16, peer: bool) -> Vec<u32> {
    let all = std::fs::read_to_string("/proc/net/tcp").expect("the kernel tells of its sockets");
    let end = format!(":{port:04X}");
    let timer = |line: &str| {
        let f: Vec<&str> = line.split_whitespace().collect();
        // Established connections.
        let ours = f.get(1 + usize::from(peer))?.ends_with(&end) && f.get(3) == Some(&"01");
        ours.then(|| f.get(5)?.split_once(':')?.0.parse().ok())?
    };
    all.lines().filter_map(timer).collect()
}

/// The kernel asks peers that say nothing: a dead one is noticed.
#[test]
fn silent_peers_are_asked_whether_they_are_there() {
    for engine in ["epoll", "uring"] {
        for (set, timer) in [("60s", 2), ("0s", 0)] {
            let mut backend = Backend::new();
            let [client, up] =
                ["client", "up"].map(|p| format!("{}.keepalive={set}", if p == "up" { "db" } else { p }));
            let proxy = start("ends_keepalive", backend.port, &["--engine", engine, "--set", &client, "--set", &up]);
            let (_client, _server) = pair(&proxy, &mut backend);
            // Bytes that are not confirmed yet come before a keepalive.
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(timers(proxy.port, false), [timer], "{engine} {set}");
            assert_eq!(timers(backend.port, true), [timer], "{engine} {set}");
        }
    }
}
