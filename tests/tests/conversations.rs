//! Conversations: messages in both directions, on backend connections that belong to one client.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_tests::folder::Folder;
use wireloom_tests::frames::{frame, FRAMES};
use wireloom_tests::{admin, servers, Backend, Client, Process, Wireloom};

const PASSES: &str = "
app passes {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as frames { idle_timeout 60s }
    port db     = connect tcp(servers) as frames { connect_timeout 2s }
    session up: connection of db
    counter ups
    counter downs
    on client.opened { up = open db[client.id % len(db)] }
    on client(m: frames.up) {
        ups += 1
        m -> up
    }
    on up(m: frames.down) {
        downs += 1
        m -> client
    }
}
";

fn start(folder: &Folder, app: &str, ports: &[u16], extra: &[&str]) -> Process {
    let file = folder.name_of("frames.loom");
    std::fs::write(&file, format!("{FRAMES}{app}")).expect("the folder is writable");
    let set = servers(ports);
    let args: Vec<&str> = ["--set", &set].into_iter().chain(extra.iter().copied()).collect();
    Wireloom::run_file(&file, &args, |_| {})
}

#[test]
fn messages_pass_both_ways_torn_at_every_byte() {
    let folder = Folder::new("conversations_torn");
    let backend = Backend::new();
    let proxy = start(&folder, PASSES, &[backend.port], &[]);
    let up: Vec<u8> = [frame(1, b"hello"), frame(2, b""), frame(3, &[7; 300])].concat();
    let down: Vec<u8> = [frame(4, b""), frame(5, b"a longer answer"), frame(6, b"x")].concat();
    let mut client = Client::connect(proxy.port);
    let mut server = backend.accept();
    for cut in 0..up.len() {
        client.send(&up[..cut]);
        std::thread::sleep(Duration::from_micros(300));
        client.send(&up[cut..]);
        server.expect(&up);
        let cut = cut % down.len();
        server.send(&down[..cut]);
        std::thread::sleep(Duration::from_micros(300));
        server.send(&down[cut..]);
        client.expect(&down);
    }
    for size in [1, 2, 3, 5] {
        client.send_in_pieces(&up, size);
        server.send_in_pieces(&down, size);
        server.expect(&up);
        client.expect(&down);
    }
}

/// Some messages are only passed on, some are counted, some have an answer or change the session.
const MIXED: &str = "
app mixed {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as frames { idle_timeout 20s }
    port db     = connect tcp(servers) as frames
    session up: connection of db
    session deaf: bool
    counter ones
    counter heard
    counter asked
    on client.opened { up = open db[0] }
    on client(m: frames.up) {
        if m.kind == 1 { ones += 1 }
        if m.kind == 2 {
            asked += 1
            Frame { kind: 2, body: \"here\" } -> client
            return
        }
        if m.kind == 3 { deaf = not deaf }
        m -> up
    }
    on up(m: frames.down) {
        if deaf { return }
        heard += 1
        m -> client
    }
}
";

/// Messages that go on in runs are the same messages, in the same order, and are counted one by
/// one: compiled and interpreted.
#[test]
fn runs_of_messages_are_the_messages() {
    let folder = Folder::new("conversations_runs");
    for how in [&[][..], &["--interpret"]] {
        let backend = Backend::new();
        let page = wireloom_tests::free_port();
        let admin_at = format!("127.0.0.1:{page}");
        let proxy = start(&folder, MIXED, &[backend.port], &[&["--admin", &admin_at], how].concat());
        let mut client = Client::connect(proxy.port);
        let mut server = backend.accept();
        let mut random = fastrand::Rng::with_seed(7);
        let (mut ones, mut asked, mut heard, mut deaf) = (0u64, 0u64, 0u64, false);
        let (mut ups, mut downs) = (1u64, 0u64);
        // The first message opens the way for both.
        client.send(frame(0, b"first"));
        server.expect(frame(0, b"first"));
        for round in 0..200 {
            let (mut sent, mut seen, mut own) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..random.usize(0..60) {
                let kind = if random.u8(0..20) == 0 { random.u8(2..=3) } else { random.u8(0..2) };
                let size = if random.u8(0..50) == 0 { random.usize(0..9000) } else { random.usize(0..20) };
                let one = frame(kind, &vec![random.u8(..); size]);
                sent.extend(&one);
                ups += 1;
                match kind {
                    2 => {
                        own.extend(frame(2, b"here"));
                        asked += 1
                    }
                    _ => seen.extend(&one),
                }
                ones += u64::from(kind == 1);
                deaf ^= kind == 3;
            }
            match round % 3 {
                0 => client.send(&sent),
                _ => client.send_in_pieces(&sent, random.usize(100..3000)),
            };
            server.expect(&seen);
            client.expect(&own);
            let mut back = Vec::new();
            for _ in 0..random.usize(0..60) {
                let size = if random.u8(0..50) == 0 { random.usize(0..90_000) } else { random.usize(0..20) };
                back.extend(frame(9, &vec![random.u8(..); size]));
                downs += 1;
                heard += u64::from(!deaf);
            }
            server.send(&back);
            if deaf {
                // The way back is read to its end before the session changes again.
                admin::eventually("the messages have been read", || {
                    admin::status(page)["apps"][0]["ports"][1]["replies"] == downs
                });
            } else {
                client.expect(&back);
            }
        }
        admin::eventually("the messages are counted", || {
            let app = &admin::status(page)["apps"][0];
            let counters = &app["counters"];
            (&counters["ones"], &counters["asked"], &counters["heard"]) == (&ones.into(), &asked.into(), &heard.into())
                && (&app["ports"][0]["requests"], &app["ports"][1]["replies"]) == (&ups.into(), &downs.into())
        });
    }
}

#[test]
fn the_end_of_a_client_is_passed_on_and_answers_still_come() {
    let folder = Folder::new("conversations_half");
    let backend = Backend::new();
    let proxy = start(&folder, PASSES, &[backend.port], &[]);
    let mut client = Client::connect(proxy.port);
    let mut server = backend.accept();
    client.send(frame(1, b"last")).finish_sending();
    assert_eq!(server.rest(), frame(1, b"last"));
    server.send(frame(2, b"so be it"));
    client.expect(frame(2, b"so be it"));
    drop(server);
    client.expect_closed();
}

#[test]
fn a_server_that_ends_or_is_lost_ends_its_client_only() {
    let folder = Folder::new("conversations_server");
    let backend = Backend::new();
    let proxy = start(&folder, PASSES, &[backend.port], &[]);
    let mut one = Client::connect(proxy.port);
    let mut first = backend.accept();
    let mut other = Client::connect(proxy.port);
    let mut second = backend.accept();
    one.send(frame(1, b"a"));
    first.expect(frame(1, b"a"));
    first.send(frame(2, b"bye"));
    drop(first);
    one.expect(frame(2, b"bye")).expect_closed();
    // A message that stops in its head: the client is told.
    let mut third = Client::connect(proxy.port);
    let mut cut = backend.accept();
    cut.send([frame(3, b"ok"), vec![9, 0, 0]].concat());
    drop(cut);
    third.expect(frame(3, b"ok")).expect(frame(b'L', b"")).expect_closed();
    // One that stops in its body: the client has half of it, and is reset.
    let mut fourth = Client::connect(proxy.port);
    let mut cut = backend.accept();
    cut.send(&frame(3, &[1; 100_000])[..50_000]);
    fourth.take(40_000);
    drop(cut);
    assert!(fourth.was_reset());
    other.send(frame(1, b"still here"));
    second.expect(frame(1, b"still here"));
    second.send(frame(2, b"yes"));
    other.expect(frame(2, b"yes"));
}

#[test]
fn half_a_message_of_a_client_is_no_message() {
    let folder = Folder::new("conversations_cut");
    let backend = Backend::new();
    let proxy = start(&folder, PASSES, &[backend.port], &[]);
    let mut client = Client::connect(proxy.port);
    let mut server = backend.accept();
    client.send(&frame(1, &[5; 200_000])[..100_000]);
    server.take(90_000);
    client.finish_sending();
    assert!(server.was_reset());
    // In its head nothing of it has gone out: the server sees an end in order.
    let mut client = Client::connect(proxy.port);
    let mut server = backend.accept();
    client.send([frame(1, b"whole"), vec![1, 0]].concat()).finish_sending();
    assert_eq!(server.rest(), frame(1, b"whole"));
}

#[test]
fn no_server_is_told_to_the_client() {
    let folder = Folder::new("conversations_refused");
    let backend = Backend::refusing();
    let proxy = start(&folder, PASSES, &[backend.port], &[]);
    let mut client = Client::connect(proxy.port);
    client.expect(frame(b'R', b"")).expect_closed();
}

/// Each direction is held up by its own reader only, and within bounds.
#[test]
fn a_slow_reader_holds_up_its_own_direction() {
    let folder = Folder::new("conversations_slow");
    let backend = Backend::new();
    let proxy = start(&folder, PASSES, &[backend.port], &["--cores", "1"]);
    let client = TcpStream::connect(("127.0.0.1", proxy.port)).expect("it listens");
    let mut server = backend.accept();
    // The server is flooded and does not read.
    let mut flood = client.try_clone().expect("a clone");
    let sent = Arc::new(AtomicUsize::new(0));
    let (count, stop) = (sent.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let piece = frame(1, &[3; 10_000]);
    let writer = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) && flood.write_all(&piece).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut before = usize::MAX;
    while before != sent.load(Ordering::Relaxed) {
        before = sent.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(300));
    }
    // Answers pass meanwhile.
    let mut client = Client::over(client);
    for _ in 0..50 {
        server.send(frame(2, b"meanwhile"));
        client.expect(frame(2, b"meanwhile"));
    }
    assert!(proxy.rss_kib() < 150_000, "{} KiB", proxy.rss_kib());
    stop.store(true, Ordering::Relaxed);
    // All arrives, in order, when the server reads on.
    let reader = std::thread::spawn(move || {
        let mut all = 0;
        loop {
            let piece = frame(1, &[3; 10_000]);
            if !server.has_something() {
                break all;
            }
            server.expect(&piece);
            all += 1;
        }
    });
    writer.join().expect("the writer");
    client.finish_sending();
    assert_eq!(reader.join().expect("the reader"), sent.load(Ordering::Relaxed));
}

/// Words about faults are output, too: a client that does not read them is not read.
#[test]
fn faults_that_nobody_reads_take_no_memory() {
    let folder = Folder::new("conversations_faults");
    let text = "
unit Line { text: bytes<100> until \"\\n\" }
protocol lines {
    up      Line
    down    Line
    sharing session
    on fault(f) { reply Line { text: \"this is a long answer to a line that nobody can understand at all\" } }
}
app refuses {
    param port: u16 = 7000
    port client = listen tcp(port) as lines
    on client(m) { fault none_value }
}
";
    let file = folder.name_of("refuses.loom");
    std::fs::write(&file, text).expect("the folder is writable");
    let service = Wireloom::run_file(&file, &["--cores", "1"], |_| {});
    let mut client = TcpStream::connect(("127.0.0.1", service.port)).expect("it listens");
    client.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let lines = "x\n".repeat(10_000);
    let mut sent = 0;
    while let Ok(n) = client.write(&lines.as_bytes()[sent % 2..]) {
        sent += n;
        assert!(sent < 200_000_000, "it reads on");
    }
    assert!(service.rss_kib() < 60_000, "{} KiB", service.rss_kib());
    // Another one is served meanwhile.
    let mut other = Client::connect(service.port);
    other.send("y\n").expect("this is a long answer to a line that nobody can understand at all\n");
    // All are answered when the client reads.
    let answers = sent / 2;
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut client = Client::over(client);
    client.finish_sending();
    let line = "this is a long answer to a line that nobody can understand at all\n".len();
    assert_eq!(client.rest().len(), (answers + sent % 2) * line);
}

/// A long message streams through; a short one of another connection waits until it is complete.
#[test]
fn nothing_is_put_into_the_middle_of_a_long_message() {
    let folder = Folder::new("conversations_middle");
    let app = "
app answers {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as frames
    port db     = connect tcp(servers) as frames
    session up:    connection of db
    session aside: connection of db
    on client.opened {
        up = open db[0]
        aside = open db[1]
    }
    on client(m: frames.up) {
        if m.kind == 'a' { m -> aside } else { Frame { kind: 'e', body: \"echo\" } -> client }
    }
    on up(m: frames.down) { m -> client }
    on aside(m: frames.down) { m -> client }
}
";
    let folder2 = Folder::new("conversations_middle_2");
    let (first, second) = (Backend::new(), Backend::new());
    let proxy = start(&folder, app, &[first.port, second.port], &[]);
    drop(folder2);
    let mut client = Client::connect(proxy.port);
    let (mut up, mut aside) = (first.accept(), second.accept());
    let long = frame(1, &vec![9; 300_000]);
    up.send(&long[..100_000]);
    client.expect(&long[..100_000]);
    client.send([frame(2, b""), frame(3, b"")].concat());
    let beside = frame(4, &vec![8; 200_000]);
    std::thread::sleep(Duration::from_millis(50));
    aside.send(&beside[..150_000]);
    std::thread::sleep(Duration::from_millis(50));
    client.expect_silence(Duration::from_millis(100));
    up.send(&long[100_000..]);
    client.expect(&long[100_000..]);
    // The first echo, then the message of the other server as it comes, then the second echo.
    let mut rest = client.take(frame(b'e', b"echo").len());
    assert_eq!(rest, frame(b'e', b"echo"));
    up.send(frame(7, b"later"));
    rest = client.take(150_000);
    assert_eq!(rest, beside[..150_000]);
    client.expect_silence(Duration::from_millis(100));
    aside.send(&beside[150_000..]);
    client.expect(&beside[150_000..]);
    let mut ends: HashMap<Vec<u8>, usize> = HashMap::new();
    for _ in 0..2 {
        let head = client.take(5);
        let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let body = client.take(size);
        *ends.entry([head, body].concat()).or_default() += 1;
    }
    assert_eq!(ends.get(&frame(b'e', b"echo")), Some(&1));
    assert_eq!(ends.get(&frame(7, b"later")), Some(&1));
}

/// A server that says to each connection what it has heard on it, and sometimes dies.
fn echo_server(seed: u64) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    std::thread::spawn(move || {
        let mut n = seed;
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            if ends.load(Ordering::Relaxed) {
                return;
            }
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let life = if (n >> 60) < 4 { Some(1 + (n >> 33) as usize % 200_000) } else { None };
            std::thread::spawn(move || echo(stream, life));
        }
    });
    (port, over)
}

fn echo(mut stream: TcpStream, life: Option<usize>) {
    let mut left = life.unwrap_or(usize::MAX);
    let mut buffer = vec![0; 20_000];
    loop {
        let n = match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(n) => n.min(left),
        };
        left -= n;
        if stream.write_all(&buffer[..n]).is_err() || left == 0 {
            return;
        }
    }
}

/// Messages that name their client; each comes back to it, in order, or its connection ends.
fn talk(port: u16, client: u32, seed: u64) -> (u64, bool) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut n = seed | 1;
    let mut next = move |below: u64| {
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
        n % below
    };
    let messages: Vec<Vec<u8>> = (0..60u32)
        .map(|i| {
            let size = if next(10) == 0 { next(120_000) } else { next(300) } as usize;
            let mut body = client.to_be_bytes().to_vec();
            body.extend(i.to_be_bytes());
            body.extend((0..size).map(|k| (k as u32 ^ client ^ i) as u8));
            frame(7, &body)
        })
        .collect();
    let dies = next(5) == 0;
    let all = messages.concat();
    let cut = if dies { next(all.len() as u64) as usize } else { all.len() };
    let mut writer = stream.try_clone().expect("a clone");
    let sent = all[..cut].to_vec();
    let pace = next(3);
    let sender = std::thread::spawn(move || {
        for piece in sent.chunks(1 + pace as usize * 3_777 + 900) {
            if writer.write_all(piece).is_err() {
                return;
            }
        }
        if dies {
            let _ = writer.shutdown(Shutdown::Both);
        } else {
            let _ = writer.shutdown(Shutdown::Write);
        }
    });
    let mut got = Vec::new();
    let mut buffer = vec![0; 50_000];
    let ended = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break true,
            Ok(n) => got.extend_from_slice(&buffer[..n]),
            // A reset is an end, too; silence is none.
            Err(e) => break !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    };
    sender.join().expect("the sender");
    // The bytes that came are those that were sent. Word of the end may stand behind a message.
    let same = got.iter().zip(&all).take_while(|(a, b)| a == b).count();
    if same < got.len() {
        let mut whole = 0;
        for m in &messages {
            if whole + m.len() > same {
                break;
            }
            whole += m.len();
        }
        let told = &got[whole..];
        // Servers that lost several connections in a row are down: nothing is opened there.
        let is_word = [b'L', b'F', b'R'].iter().any(|kind| told == frame(*kind, b""));
        assert!(is_word, "client {client}: {same} of {}, then {:?}", got.len(), &told[..told.len().min(20)]);
    }
    // A client that has not left sees the end of its connection, behind all messages or word of a
    // fault. Silence until the app's `idle_timeout` is none.
    assert!(dies || ended, "client {client}: silence behind {same} of {}", all.len());
    let mut came = 0;
    let whole = messages.iter().take_while(|m| {
        came += m.len();
        came <= same
    });
    (whole.count() as u64, !dies && same == all.len())
}

/// The kernel may forbid io_uring. `WIRELOOM_ENGINE` names one.
fn engines() -> Vec<&'static str> {
    if let Ok(one) = std::env::var("WIRELOOM_ENGINE") {
        return vec![one.leak()];
    }
    // SAFETY: the kernel only reads the arguments, and refuses them.
    unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null::<u8>()) };
    let denied = std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT);
    if denied {
        vec!["epoll"]
    } else {
        vec!["epoll", "uring"]
    }
}

/// Clients and servers come and go; nobody hears a word that was for another. `WIRELOOM_MESSAGES`
/// says how many messages come back; else it lasts some seconds.
#[test]
fn none_goes_to_the_wrong_peer() {
    let folder = Folder::new("conversations_apart");
    let most: Option<u64> = std::env::var("WIRELOOM_MESSAGES").ok().and_then(|n| n.parse().ok());
    for engine in engines() {
        let backends: Vec<_> = (1..=3).map(|n| echo_server(n * 77)).collect();
        let ports: Vec<u16> = backends.iter().map(|b| b.0).collect();
        let proxy = start(&folder, PASSES, &ports, &["--cores", "0-1", "--engine", engine]);
        let until = Instant::now() + Duration::from_secs(3);
        let work = |w: u32| {
            let port = proxy.port;
            std::thread::spawn(move || {
                let (mut rounds, mut complete, mut came) = (0, 0, 0);
                while most.map_or(Instant::now() < until, |n| came < n / 8) {
                    let seed = (u64::from(w) << 32 | rounds).wrapping_mul(2_654_435_761) + 1;
                    let (messages, all) = talk(port, w * 1_000_000 + rounds as u32, seed);
                    rounds += 1;
                    came += messages;
                    complete += u64::from(all);
                }
                (rounds, complete)
            })
        };
        let workers: Vec<_> = (0..8).map(work).collect();
        let (mut rounds, mut complete) = (0, 0);
        for w in workers {
            let (r, c) = w.join().expect("no message to the wrong peer");
            rounds += r;
            complete += c;
        }
        backends.iter().for_each(|b| b.1.store(true, Ordering::Relaxed));
        assert!(rounds > 30 && complete * 3 > rounds, "{engine}: {complete} of {rounds}");
        // Nothing is left behind.
        let until = Instant::now() + Duration::from_secs(10);
        while proxy.descriptors() > 60 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(proxy.descriptors() <= 60, "{engine}: {} descriptors", proxy.descriptors());
    }
}
