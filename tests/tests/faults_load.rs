//! Pressure: slow readers, clients that never read, thousands of idle connections, no descriptors
//! left, and the drain.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wireloom_tests::admin::{self, eventually};
use wireloom_tests::limits::{limit_descriptors, raise_descriptors};
use wireloom_tests::memcached::Service;
use wireloom_tests::{servers, thrice, Backend, Client, Process, Wireloom, PATIENCE};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const MIB: u64 = 1024;

/// A request at full speed.
fn get(client: &mut Client, end: &[u8]) {
    client.send(GET).take_until(end);
}

/// Reads one byte a second of an answer of 200 MB; others are served at full speed, and memory
/// stays flat.
#[test]
fn a_reader_at_one_byte_a_second() {
    let nginx = Process::nginx("location = / { return 200 done; } location /big { }");
    let file = std::fs::File::create(Process::nginx_folder(nginx.port).join("big")).expect("the folder is there");
    file.set_len(200 << 20).expect("a sparse file");
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[nginx.port])]);
    let mut quick = Client::connect(proxy.port);
    get(&mut quick, b"done");
    let before = proxy.rss_kib();
    let mut slow: Vec<Client> = (0..8).map(|_| Client::connect(proxy.port)).collect();
    for c in &mut slow {
        c.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for _ in 0..3 {
        let second = Instant::now() + Duration::from_secs(1);
        for c in &mut slow {
            let mut byte = [0];
            std::io::Read::read(&mut c.stream, &mut byte).ok();
        }
        let mut served = 0;
        while Instant::now() < second || served < 10 {
            get(&mut quick, b"done");
            served += 1;
        }
    }
    let grown = proxy.rss_kib().saturating_sub(before);
    assert!(grown < 16 * MIB, "memory grew by {grown} KiB");
    drop(slow);
    get(&mut quick, b"done");
}

/// Writes until the other side takes no more (or `most` bytes).
fn fill(stream: &mut TcpStream, bytes: &[u8], most: usize) -> usize {
    stream.set_nonblocking(true).expect("a socket");
    let (mut sent, mut quiet_since) = (0, Instant::now());
    while sent < most && quiet_since.elapsed() < Duration::from_millis(150) {
        match stream.write(bytes) {
            // Whole requests do not matter here: the next ones are never answered.
            Ok(n) => (sent, quiet_since) = (sent + n, Instant::now()),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => break,
        }
    }
    sent
}

/// Clients that pipeline without reading are stopped by backpressure; memory stays flat, others are
/// served.
#[test]
fn pipelining_clients_that_do_not_read_static_web() {
    let web = Wireloom::run("static_web", &["--set", &format!("body={}", "b".repeat(60_000))]);
    let mut quick = Client::connect(web.port);
    quick.send(GET).take_until(b"\r\n\r\n");
    quick.expect("b".repeat(60_000));
    let before = web.rss_kib();
    let mut deaf: Vec<Client> = (0..20).map(|_| Client::connect(web.port)).collect();
    let requests = GET.repeat(1000);
    let sent: Vec<usize> = deaf.iter_mut().map(|c| fill(&mut c.stream, requests.as_bytes(), 50_000_000)).collect();
    assert!(sent.iter().all(|n| *n < 50_000_000), "requests are taken without end: {sent:?}");
    let grown = web.rss_kib().saturating_sub(before);
    assert!(grown < 30 * MIB, "memory grew by {grown} KiB");
    quick.send(GET).take_until(b"\r\n\r\n");
    quick.expect("b".repeat(60_000));
}

#[test]
fn pipelining_clients_that_do_not_read_memcached() {
    let service = Service::proxy(2, &[]);
    let mut quick = Client::connect(service.port);
    let value = "v".repeat(100_000);
    quick.send(format!("set big 0 0 100000\r\n{value}\r\n")).expect("STORED\r\n");
    quick.send("set small 0 0 1\r\nx\r\n").expect("STORED\r\n");
    let before = service.front.rss_kib();
    let mut deaf: Vec<Client> = (0..20).map(|_| Client::connect(service.port)).collect();
    let requests = "get big\r\n".repeat(2000);
    for c in &mut deaf {
        let sent = fill(&mut c.stream, requests.as_bytes(), 20_000_000);
        assert!(sent < 20_000_000, "requests are taken without end");
    }
    let grown = service.front.rss_kib().saturating_sub(before);
    assert!(grown < 60 * MIB, "memory grew by {grown} KiB");
    let start = Instant::now();
    for _ in 0..100 {
        quick.send("get small\r\n").expect("VALUE small 0 1\r\nx\r\nEND\r\n");
    }
    assert!(start.elapsed() < PATIENCE, "others waited {:?}", start.elapsed());
}

/// The memory of each of `n` clients, in KiB, in a process that had `before` KiB without them.
fn held(front: &Process, before: u64, n: u64, open: &dyn Fn() -> Client) -> u64 {
    let clients: Vec<Client> = (0..n).map(|_| open()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let each = front.rss_kib().saturating_sub(before) / n;
    drop(clients);
    each
}

/// The client that has sent this beginning.
fn begin(port: u16, bytes: &[u8]) -> Client {
    let mut c = Client::connect(port);
    c.send(bytes);
    c
}

/// Starts of requests, and answers that wait for others, take the memory of their bytes. Grammars
/// allow a million items.
#[test]
fn incomplete_messages_take_what_they_have() {
    let memcached = Service::proxy(1, &[]);
    let redis = wireloom_tests::redis::Service::proxy(1, &[]);
    let starts = [
        (&memcached.front, vec!["get aaaa", "set a 0 0 2000000\r\nabc"]),
        (&redis.front, vec!["*3\r\n$3\r\nGET\r\n$1\r\n", "*900000\r\n$4\r\nMGET\r\n$1\r\na\r\n"]),
    ];
    for (front, starts) in starts {
        for start in starts {
            let each = held(front, front.rss_kib(), 100, &|| begin(front.port, start.as_bytes()));
            assert!(each < 100, "{start:?}: {each} KiB for each");
        }
    }
    // One server answers a part of a read of several keys; the other one does not.
    let (answers, silent) = (Process::memcached(), Backend::new());
    let proxy = Wireloom::run("memcached_proxy", &["--set", &servers(&[answers.port, silent.port])]);
    let read = format!("get {}\r\n", (0..40).map(|i| format!("key{i}")).collect::<Vec<_>>().join(" "));
    let each = held(&proxy, proxy.rss_kib(), 100, &|| begin(proxy.port, read.as_bytes()));
    assert!(each < 100, "reads of several keys: {each} KiB for each");
}

/// Starts of messages with views of some hundred KiB take as little in each wave, and give it back.
#[test]
fn waves_of_incomplete_messages() {
    let folder = wireloom_tests::folder::Folder::new("waves");
    let program = folder.file("numbers.loom");
    std::fs::write(
        &program,
        "unit Item { a: u8  b: varint<u64> }\n\
         unit Items { n: u32  items: list<Item, 60000> [n] }\n\
         unit Sum { sum: u64 }\n\
         protocol number_lists { request Items  response Sum  stateless }\n\
         app numbers {\n    param port: endpoint or u16\n    port client = listen tcp(port) as number_lists\n\
         on client(m) {\n        var sum = u64(0)\n        for i in m.items { sum += i.b }\n\
         reply Sum { sum: sum }\n    }\n}\n",
    )
    .expect("written");
    let front = Wireloom::run_file(&program.to_string_lossy(), &[], |_| {});
    let before = front.rss_kib();
    for wave in 0..3 {
        let each = held(&front, before, 300, &|| begin(front.port, b"\0"));
        assert!(each < 60, "wave {wave}: {each} KiB for each");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// 10,000 connections, each after one request, then idle: under 60 MiB in all, and still quick.
#[test]
fn ten_thousand_idle_connections() {
    // Half of the descriptors are for backends, and an eighth for those that find no place.
    let n = 10_000.min(raise_descriptors() as usize * 3 / 8);
    if n < 10_000 {
        eprintln!("only {n} connections: the descriptor limit allows no more");
    }
    let web = Wireloom::run("static_web", &["--set", "body=done"]);
    let nginx = Process::nginx("location / { return 200 done; }");
    for (name, front) in
        [("static_web", web), ("http_balancer", Wireloom::run("http_balancer", &["--set", &servers(&[nginx.port])]))]
    {
        let mut idle = Vec::with_capacity(n);
        for _ in 0..n {
            let mut c = Client::connect(front.port);
            c.send(GET).take_until(b"done");
            c.seen = Vec::new();
            idle.push(c);
        }
        let rss = front.rss_kib();
        assert!(front.descriptors() > n, "{name} holds {} descriptors", front.descriptors());
        assert!(rss < 60 * MIB, "{name}: {rss} KiB");
        eprintln!("{name}: {n} idle connections in {rss} KiB");
        for c in idle.iter_mut().step_by(1000) {
            get(c, b"done");
        }
        drop(idle);
        let until = Instant::now() + PATIENCE;
        while front.descriptors() > 100 {
            assert!(Instant::now() < until, "{name} keeps {} descriptors", front.descriptors());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// With 64 descriptors: accepted clients are served, the rest wait, no loop spins, and all is well
/// when some leave.
#[test]
fn descriptors_exhausted() {
    let nginx = Process::nginx("location / { return 200 done; }");
    let list = servers(&[nginx.port]);
    for (app, args) in [("static_web", vec!["--set", "body=done"]), ("http_balancer", vec!["--set", list.as_str()])] {
        // Compiled before, so that the limit meets only the service.
        drop(Wireloom::run(app, &args));
        let front = Wireloom::run_with(app, &args, |c| limit_descriptors(c, 64));
        let mut first = Client::connect(front.port);
        get(&mut first, b"done");
        let mut crowd: Vec<Client> = (0..200).map(|_| Client::connect(front.port)).collect();
        for c in &mut crowd {
            c.send(GET);
        }
        thrice(|| {
            std::thread::sleep(Duration::from_millis(200));
            let (cpu, start) = (front.cpu_ms(), Instant::now());
            std::thread::sleep(Duration::from_millis(1000));
            let (used, time) = (front.cpu_ms() - cpu, start.elapsed().as_millis() as u64);
            (used < time / 2).then_some(()).ok_or(format!("{app} is busy with nothing: {used} of {time} ms"))
        });
        first.send(GET);
        let answer = String::from_utf8_lossy(&first.take_until(b"\r\n")).into_owned();
        assert!(answer.starts_with("HTTP/1.1 "), "{app}: {answer}");
        drop(crowd);
        drop(first);
        let until = Instant::now() + PATIENCE;
        loop {
            let mut c = Client::connect(front.port);
            c.send(GET);
            if c.take_until(b"\r\n").starts_with(b"HTTP/1.1 200 ") {
                break;
            }
            assert!(Instant::now() < until, "{app} does not recover");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Clients cannot take all descriptors: those that are in are served, also when they need a new
/// connection, and no server is counted as failed.
#[test]
fn a_crowd_leaves_descriptors_for_requests() {
    let nginx = [0, 1].map(|_| Process::nginx("location / { return 200 done; }"));
    let (list, page) = (servers(&nginx.each_ref().map(|n| n.port)), wireloom_tests::free_port());
    for engine in ["epoll", "uring"] {
        let args = ["--set", &list, "--admin", &page.to_string(), "--engine", engine];
        drop(Wireloom::run("http_balancer", &args));
        let front = Wireloom::run_with("http_balancer", &args, |c| limit_descriptors(c, 200));
        let mut first = Client::connect(front.port);
        get(&mut first, b"done");
        let mut crowd: Vec<Client> = (0..300).map(|_| Client::connect(front.port)).collect();
        eventually("those that find no place are told", || {
            admin::port_of(&admin::status(page), "client")["turned_away"].as_u64() > Some(100)
        });
        for request in [GET, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"] {
            let head = first.send(request).take_head();
            assert!(head.starts_with("http/1.1 200 "), "{engine}: {head}");
            first.take_until(b"done");
        }
        for c in &mut crowd[..40] {
            c.send(GET);
        }
        for c in &mut crowd[..40] {
            let head = c.take_head();
            assert!(head.starts_with("http/1.1 200 "), "{engine}: {head}");
        }
        let status = admin::status(page);
        let servers = admin::port_of(&status, "backend")["backends"].as_array().cloned().unwrap_or_default();
        assert!(servers.iter().all(|s| s["failures"] == 0 && s["up"] == true), "{engine}: {status}");
    }
}

/// A balancer before one backend, with an idle client, and one whose request the backend has.
fn under_way() -> (Process, Backend, Client, Client, Client) {
    let backend = Backend::new();
    let proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port])]);
    let idle = Client::connect(proxy.port);
    let mut busy = Client::connect(proxy.port);
    busy.send(GET);
    let server = backend.accept();
    (proxy, backend, idle, busy, server)
}

/// SIGTERM: no new connections, requests under way are finished, exit code 0.
#[test]
fn sigterm_drains() {
    let (mut proxy, _backend, mut idle, mut busy, mut server) = under_way();
    server.take_until(b"\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
    busy.take_until(b"abc");
    proxy.signal(libc::SIGTERM);
    // Idle connections are closed soon after the drain begins.
    idle.expect_closed();
    assert!(proxy.exit_code(Duration::from_millis(100)).is_none(), "it did not wait for what is under way");
    let refused = TcpStream::connect(("127.0.0.1", proxy.port)).map_or(true, |s| Client::over(s).rest().is_empty());
    assert!(refused, "a new connection was served");
    server.send("def");
    busy.expect("def").expect_closed();
    assert_eq!(proxy.exit(), Some(0), "{}", proxy.output());
}

/// The drain has an end.
#[test]
fn the_drain_is_limited() {
    let backend = Backend::new();
    let mut proxy = Wireloom::run("http_balancer", &["--set", &servers(&[backend.port]), "--drain", "1"]);
    let mut busy = Client::connect(proxy.port);
    busy.send(GET);
    let _server = backend.accept();
    let start = Instant::now();
    proxy.signal(libc::SIGTERM);
    assert!(proxy.exit().is_some(), "it hangs");
    assert!(start.elapsed() > Duration::from_millis(700), "after {:?} only", start.elapsed());
}

/// `timeout` signals the process and then its group: that is one request to stop. A later one ends
/// at once.
#[test]
fn the_same_signal_again_is_not_a_second_one() {
    let twice = || {
        let service = under_way();
        let (proxy, begin) = (&service.0, Instant::now());
        proxy.signal(libc::SIGTERM);
        // The first has been taken when this is seen, so that the kernel cannot make one of both.
        while TcpStream::connect(("127.0.0.1", proxy.port)).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        proxy.signal(libc::SIGTERM);
        // A signal that is 200 ms late is another one.
        (begin.elapsed() < Duration::from_millis(150)).then_some(service)
    };
    let (mut proxy, _backend, _idle, _busy, _server) =
        (0..100).find_map(|_| twice()).expect("two signals within 150 ms");
    assert!(proxy.exit_code(Duration::from_millis(500)).is_none(), "it did not wait for what is under way");
    proxy.signal(libc::SIGTERM);
    assert_eq!(proxy.exit(), Some(0), "{}", proxy.output());
    assert!(proxy.output().contains("second signal"), "{}", proxy.output());
}

#[test]
fn sigint_and_idle_services_end_at_once() {
    for (app, signal) in [("static_web", libc::SIGINT), ("kv_server", libc::SIGTERM)] {
        let mut process = Wireloom::run(app, &[]);
        let mut idle = Client::connect(process.port);
        process.signal(signal);
        assert_eq!(process.exit(), Some(0), "{app}: {}", process.output());
        idle.expect_closed();
    }
}

/// One connection with endless work does not starve the rest.
#[test]
fn a_busy_connection_does_not_starve_others() {
    let web = Wireloom::run("static_web", &["--set", "body=done"]);
    let address = ("127.0.0.1", web.port);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (ended, mut writer) = (stop.clone(), TcpStream::connect(address).expect("the server accepts"));
    let mut reader = writer.try_clone().expect("a descriptor");
    let write = std::thread::spawn(move || {
        let requests = GET.repeat(2000);
        while !ended.load(std::sync::atomic::Ordering::Relaxed) && writer.write_all(requests.as_bytes()).is_ok() {}
        writer.shutdown(std::net::Shutdown::Both).ok();
    });
    let read = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while matches!(std::io::Read::read(&mut reader, &mut buffer), Ok(n) if n > 0) {}
    });
    std::thread::sleep(Duration::from_millis(100));
    let mut quick = Client::connect(web.port);
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let start = Instant::now();
            get(&mut quick, b"done");
            start.elapsed()
        })
        .collect();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    write.join().expect("the writer ends");
    read.join().expect("the reader ends");
    // A busy machine may stop any process for a while: most requests count.
    times.sort();
    assert!(times[100] < Duration::from_secs(1), "most took more than {:?}", times[100]);
}

/// Connections over the port's limit are turned away; the rest are served.
#[test]
fn the_connection_limit_holds() {
    let web =
        Wireloom::run("static_web", &["--set", "body=done", "--set", "client.max_connections=10", "--log-faults"]);
    let mut inside: Vec<Client> = (0..10).map(|_| Client::connect(web.port)).collect();
    for c in &mut inside {
        c.send(GET).expect("HTTP/1.1 200 ").take_until(b"done");
    }
    let refused = Client::connect(web.port).send(GET).take_until(b"\r\n");
    assert!(refused.starts_with(b"HTTP/1.1 503 "), "an eleventh: {}", String::from_utf8_lossy(&refused));
    // One that says nothing has its line, too. Lines of a kind come once in a second.
    std::thread::sleep(Duration::from_millis(1100));
    let lines = || web.output().matches(".client: overload: client 127.0.0.1:").count();
    let before = lines();
    Client::connect(web.port).expect_closed();
    eventually("a silent connection that is turned away is logged", || lines() > before);
    for c in &mut inside {
        get(c, b"done");
    }
    drop(inside);
    // Closed connections may be noticed a moment later than a new one.
    eventually("others are served when these have left", || {
        Client::connect(web.port).send(GET).take_until(b"\r\n").starts_with(b"HTTP/1.1 200 ")
    });
}
