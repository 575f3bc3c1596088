//! Pools of sessions: a server that notices whatever reaches it in a wrong session, with clients
//! and connections that end at random.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wireloom_tests::folder::Folder;
use wireloom_tests::{servers, Backend, Client, Process, Wireloom};

const SHELL: &str = "
unit Frame { order big  kind: u8  who: u32  size: u32 = len(body)  body: bytes<1MiB> [size] }

/// A server answers each message but `b`, which begins a transaction, by `A` and `I`. Within one it
/// says `A` and `T`, up to `c`.
protocol shell {
    up      Frame
    down    Frame
    sharing session
    on reset { reply Frame { kind: 'X', who: 0, body: \"\" } }
    reset when down.kind == '!'
    idle when down.kind == 'I'
    owes when true
    settles when down.kind == 'I' or down.kind == 'T'
    on fault(f) {
        match f.kind {
            overload => reply Frame { kind: 'o', who: 0, body: \"\" } then close
            shutdown => reply Frame { kind: 's', who: 0, body: \"\" } then close
            _        => reply Frame { kind: 'f', who: 0, body: \"\" } then close
        }
    }
}

app shared {
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client = listen tcp(port)     as shell
    port db     = connect tcp(servers) as shell { pool 4, pool_timeout 5s, eject_after 0 }

    session up:   connection of db
    session user: bytes<20>
    session held: bool

    counter waits
    counter ends
    counter resets
    counter late

    on client(m: shell.up) {
        if user == \"\" {
            user = m.body
            up = open db[0]
            held = true
        }
        if not held {
            up = take db[0]
            held = true
        }
        m -> up
    }

    on up(m: shell.down) {
        m -> client
        if m.kind == 'I' {
            pool up for user
            held = up.id != 0
        }
    }

    on client.closed(why) {
        match why {
            ended => ends += 1
            lost  => resets += 1
            idle | overload => late += 1
            _     => waits += 1
        }
    }
}
";

fn start(folder: &Folder, port: u16, extra: &[&str]) -> Process {
    let file = folder.name_of("shell.loom");
    std::fs::write(&file, SHELL).expect("the folder is writable");
    let set = servers(&[port]);
    let args: Vec<&str> = ["--set", &set].into_iter().chain(extra.iter().copied()).collect();
    Wireloom::run_file(&file, &args, |_| {})
}

fn frame(kind: u8, who: u32, body: &[u8]) -> Vec<u8> {
    let mut all = vec![kind];
    all.extend(who.to_be_bytes());
    all.extend((body.len() as u32).to_be_bytes());
    all.extend(body);
    all
}

fn read_frame(stream: &mut TcpStream) -> Option<(u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let mut body = vec![0; number(5) as usize];
    stream.read_exact(&mut body).ok()?;
    Some((head[0], number(1), body))
}

#[derive(Default)]
struct Seen {
    wrong: Mutex<Vec<String>>,
    over: AtomicBool,
    messages: AtomicU64,
    resets: AtomicU64,
}

impl Seen {
    fn wrong(&self, text: String) {
        self.wrong.lock().expect("no thread has panicked").push(text);
    }
}

/// A server whose sessions know who has spoken since the last reset.
fn server(seen: Arc<Seen>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let mut n = 7u64;
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            if seen.over.load(Ordering::Relaxed) {
                return;
            }
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let life = if (n >> 60) < 6 { 1 + (n >> 33) as usize % 300 } else { usize::MAX };
            let seen = seen.clone();
            std::thread::spawn(move || session(stream, life, &seen));
        }
    });
    port
}

fn session(mut stream: TcpStream, life: usize, seen: &Seen) {
    let (mut user, mut owner, mut inside) = (None, None, false);
    for n in 0..life {
        let Some((kind, who, body)) = read_frame(&mut stream) else { return };
        if kind == b'X' {
            if inside {
                seen.wrong(format!("a reset within a transaction of {owner:?}"));
            }
            owner = None;
            seen.resets.fetch_add(1, Ordering::Relaxed);
            // Late word of the last command, then the confirmation.
            let all = [frame(b'N', 0, b"notice"), frame(b'!', 0, b""), frame(b'I', 0, b"")].concat();
            if stream.write_all(&all).is_err() {
                return;
            }
            continue;
        }
        if *user.get_or_insert(who % 3) != who % 3 {
            seen.wrong(format!("{who} has a session of user {user:?}"));
        }
        if *owner.get_or_insert(who) != who {
            seen.wrong(format!("{who} has a session that {owner:?} has left (message {n}, within: {inside})"));
        }
        match kind {
            b'b' => inside = true,
            b'c' => inside = false,
            _ => {}
        }
        let end = if inside { b'T' } else { b'I' };
        let all = [frame(b'A', who, &body), frame(end, who, b"")].concat();
        seen.messages.fetch_add(1, Ordering::Relaxed);
        if stream.write_all(&all).is_err() {
            return;
        }
    }
}

/// A client that asks for a while, or is cut off: each answer is its own and the next one.
fn ask(port: u16, who: u32, seed: u64, seen: &Seen) -> u64 {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return 0 };
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut n = seed | 1;
    let mut next = move |below: u64| {
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
        n % below
    };
    let (mut inside, mut answered) = (false, 0);
    for i in 0..1 + next(60) as u32 {
        let size = if next(12) == 0 { next(100_000) } else { next(200) } as usize;
        let body: Vec<u8> = match i {
            0 => format!("user {}", who % 3).into_bytes(),
            _ => i.to_be_bytes().into_iter().chain((0..size).map(|k| (k as u32 ^ who) as u8)).collect(),
        };
        let kind = match next(6) {
            0 if !inside && i > 0 => b'b',
            1 | 2 if inside => b'c',
            _ => b'q',
        };
        inside = kind == b'b' || inside && kind != b'c';
        // Several at once, now and then.
        let times = if i > 0 && kind == b'q' && next(5) == 0 { 3 } else { 1 };
        let all = frame(kind, who, &body).repeat(times);
        if next(40) == 0 {
            let cut = next(all.len() as u64) as usize;
            let _ = stream.write_all(&all[..cut]);
            if next(2) == 0 {
                let _ = stream.shutdown(Shutdown::Both);
            }
            return answered;
        }
        if stream.write_all(&all).is_err() {
            return answered;
        }
        if next(60) == 0 {
            return answered;
        }
        for _ in 0..times {
            let Some((got, to, text)) = read_frame(&mut stream) else { return answered };
            match got {
                b'f' | b'o' | b's' => return answered,
                b'A' if to == who && text == body => {}
                _ => seen.wrong(format!("{who} got {} for {to}, {} bytes", char::from(got), text.len())),
            }
            let Some((end, to, _)) = read_frame(&mut stream) else { return answered };
            let ends = if inside { b'T' } else { b'I' };
            if !(end == ends && to == who) && end != b'f' {
                seen.wrong(format!("{who} got the end {} for {to}", char::from(end)));
            }
            answered += 1;
        }
    }
    answered
}

/// `WIRELOOM_MESSAGES` says how many messages are answered; else it lasts some seconds.
#[test]
fn no_session_has_two_clients() {
    let folder = Folder::new("session_pools");
    let most: Option<u64> = std::env::var("WIRELOOM_MESSAGES").ok().and_then(|n| n.parse().ok());
    for engine in ["epoll", "uring"] {
        let seen = Arc::new(Seen::default());
        let port = server(seen.clone());
        let proxy = start(&folder, port, &["--cores", "0-1", "--engine", engine]);
        let until = Instant::now() + Duration::from_secs(if most.is_some() { 3600 } else { 4 });
        let work = |w: u32| {
            let (port, seen) = (proxy.port, seen.clone());
            std::thread::spawn(move || {
                let (mut rounds, mut answered) = (0u64, 0);
                let more = |answered: u64| match most {
                    Some(n) => answered < n / 16,
                    None => Instant::now() < until,
                };
                while more(answered) {
                    let seed = (u64::from(w) << 32 | rounds).wrapping_mul(2_654_435_761) + 1;
                    answered += ask(port, w * 1_000_000 + rounds as u32, seed, &seen);
                    rounds += 1;
                }
                (rounds, answered)
            })
        };
        let workers: Vec<_> = (1..=16).map(work).collect();
        let (mut rounds, mut answered) = (0, 0);
        for w in workers {
            let (r, a) = w.join().expect("it ends");
            rounds += r;
            answered += a;
        }
        let wrong = seen.wrong.lock().expect("no thread has panicked");
        assert!(wrong.is_empty(), "{engine}: {} wrong, such as {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
        let resets = seen.resets.load(Ordering::Relaxed);
        assert!(rounds > 50 && answered > 500 && resets > 100, "{engine}: {rounds}, {answered}, {resets} resets");
        seen.over.store(true, Ordering::Relaxed);
        let until = Instant::now() + Duration::from_secs(10);
        // Four sessions of each user, on each core.
        while proxy.descriptors() > 80 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(proxy.descriptors() <= 80, "{engine}: {} descriptors", proxy.descriptors());
        eprintln!("{engine}: {rounds} clients, {answered} messages, {resets} resets");
    }
}

/// Sessions that nobody could want any more end with the port's `idle_timeout`.
#[test]
fn sessions_without_clients_end_when_they_are_idle() {
    let folder = Folder::new("session_pools_idle");
    let backend = Backend::new();
    let proxy = start(&folder, backend.port, &["--cores", "1", "--set", "db.idle_timeout=500ms"]);
    let mut client = Client::connect(proxy.port);
    client.send(frame(b'q', 3, b"user 0"));
    let mut session = backend.accept();
    session.expect(frame(b'q', 3, b"user 0"));
    session.send([frame(b'A', 3, b""), frame(b'I', 3, b"")].concat());
    client.expect([frame(b'A', 3, b""), frame(b'I', 3, b"")].concat());
    session.expect(frame(b'X', 0, b""));
    session.send([frame(b'!', 0, b""), frame(b'I', 0, b"")].concat());
    // Its client may come back.
    session.expect_silence(Duration::from_millis(1200));
    client.send(frame(b'q', 3, b"again"));
    session.expect(frame(b'q', 3, b"again"));
    session.send(frame(b'I', 3, b""));
    client.expect(frame(b'I', 3, b""));
    session.expect(frame(b'X', 0, b""));
    session.send([frame(b'!', 0, b""), frame(b'I', 0, b"")].concat());
    drop(client);
    let begun = Instant::now();
    assert_eq!(session.rest(), b"");
    assert!((400..3000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
}

const IDLE: u8 = b'I';

/// The answer to a message, and to a reset.
fn answer(who: u32, body: &[u8]) -> Vec<u8> {
    [frame(b'A', who, body), frame(IDLE, who, b"")].concat()
}

fn as_new() -> Vec<u8> {
    [frame(b'!', 0, b""), frame(IDLE, 0, b"")].concat()
}

/// A client that has logged in, and the session that it has brought to the pool.
fn logged_in(proxy: &Process, backend: &mut Backend, who: u32) -> (Client, Client) {
    logged_in_as(proxy, backend, who, b"user 0")
}

fn logged_in_as(proxy: &Process, backend: &mut Backend, who: u32, user: &[u8]) -> (Client, Client) {
    let mut client = Client::connect(proxy.port);
    client.send(frame(b'q', who, user));
    let mut session = backend.accept();
    session.expect(frame(b'q', who, user));
    session.send(answer(who, b""));
    client.expect(answer(who, b""));
    session.expect(frame(b'X', 0, b""));
    (client, session)
}

/// Logins count as sessions of their pool: no more than `pool` are open, and the others wait in
/// order. An idle session makes place for a login.
#[test]
fn logins_wait_for_a_place_in_their_pool() {
    let folder = Folder::new("session_pools_logins");
    let text = SHELL.replace("up = open db[0]", "up = open db[0] for user");
    assert_ne!(text, SHELL);
    let file = folder.name_of("shell.loom");
    std::fs::write(&file, &text).expect("the folder is writable");
    for extra in [&["--cores", "1"][..], &["--cores", "1", "--interpret"]] {
        let mut backend = Backend::new();
        let set = servers(&[backend.port]);
        let limits = ["--set", &set, "--set", "db.pool=1", "--set", "db.pool_timeout=1500ms"];
        let proxy = Wireloom::run_file(&file, &[&limits, extra].concat(), |_| {});
        let mut one = Client::connect(proxy.port);
        one.send(frame(b'b', 3, b"user 0"));
        let mut session = backend.accept();
        session.expect(frame(b'b', 3, b"user 0"));
        // Two more logins wait, and one of another key does not.
        let mut two = Client::connect(proxy.port);
        two.send(frame(b'q', 6, b"user 0"));
        std::thread::sleep(Duration::from_millis(100));
        let mut three = Client::connect(proxy.port);
        three.send(frame(b'q', 9, b"user 0"));
        assert!(backend.accept_now().is_none());
        let (mut other, _session) = logged_in_as(&proxy, &mut backend, 4, b"user 1");
        other.expect_silence(Duration::from_millis(1));
        // The first one's session becomes idle, and makes place for the second login.
        session.send([frame(b'A', 3, b""), frame(b'I', 3, b"")].concat());
        one.expect([frame(b'A', 3, b""), frame(b'I', 3, b"")].concat());
        session.expect(frame(b'X', 0, b""));
        session.send(as_new()).expect_closed();
        let mut second = backend.accept();
        second.expect(frame(b'q', 6, b"user 0"));
        assert!(backend.accept_now().is_none());
        // The third one has waited for too long.
        three.expect(frame(b'o', 0, b"")).expect_closed();
        second.send(answer(6, b""));
        two.expect(answer(6, b""));
        second.expect(frame(b'X', 0, b""));
        second.send(as_new());
        // The client that logged in first gets the session that is there now.
        one.send(frame(b'q', 3, b"again"));
        second.expect(frame(b'q', 3, b"again"));
        second.send(answer(3, b"again"));
        one.expect(answer(3, b"again"));
    }
}

/// A login closes one session, also where two of them become idle in the same batch as it comes.
#[test]
fn a_login_takes_one_place() {
    let folder = Folder::new("session_pools_one_place");
    let text = SHELL.replace("up = open db[0]", "up = open db[0] for user");
    let file = folder.name_of("shell.loom");
    std::fs::write(&file, &text).expect("the folder is writable");
    let mut backend = Backend::new();
    let set = servers(&[backend.port]);
    let limits = ["--cores", "1", "--set", &set, "--set", "db.pool=2"];
    let proxy = Wireloom::run_file(&file, &limits, |_| {});
    let (mut one, mut first) = logged_in(&proxy, &mut backend, 3);
    first.send(as_new());
    let (mut two, mut second) = logged_in(&proxy, &mut backend, 6);
    let mut three = Client::connect(proxy.port);
    three.expect_silence(Duration::from_millis(200));
    // The process reads both at once: first the login, then the end of a reset.
    proxy.stop();
    three.send(frame(b'q', 9, b"user 0"));
    second.send(as_new());
    proxy.resume();
    first.expect_closed();
    let mut third = backend.accept();
    third.expect(frame(b'q', 9, b"user 0"));
    third.send(answer(9, b""));
    three.expect(answer(9, b""));
    third.expect(frame(b'X', 0, b""));
    // Two clients have a transaction at the same time.
    two.send(frame(b'b', 6, b""));
    second.expect(frame(b'b', 6, b""));
    third.send(as_new());
    one.send(frame(b'b', 3, b""));
    third.expect(frame(b'b', 3, b""));
}

/// Of all keys together a server has at most `max_connections`. A session that is not its clients'
/// last one makes place for a login of another key.
#[test]
fn logins_wait_for_a_place_at_their_server() {
    let folder = Folder::new("session_pools_places");
    let text = SHELL.replace("up = open db[0]", "up = open db[0] for user");
    let file = folder.name_of("shell.loom");
    std::fs::write(&file, &text).expect("the folder is writable");
    let mut backend = Backend::new();
    let set = servers(&[backend.port]);
    let limits = ["--cores", "1", "--set", &set, "--set", "db.max_connections=2"];
    let proxy = Wireloom::run_file(&file, &limits, |_| {});
    let (one, mut first) = logged_in(&proxy, &mut backend, 3);
    let (two, mut second) = logged_in(&proxy, &mut backend, 6);
    let mut other = Client::connect(proxy.port);
    other.send(frame(b'q', 4, b"user 1"));
    assert!(backend.accept_now().is_none());
    first.send(as_new()).expect_closed();
    let mut third = backend.accept();
    third.expect(frame(b'q', 4, b"user 1"));
    second.send(as_new());
    // That was the last one of its clients.
    let mut fourth = Client::connect(proxy.port);
    fourth.send(frame(b'q', 8, b"user 2"));
    second.expect_silence(Duration::from_millis(200));
    drop((one, two));
    second.expect_closed();
    backend.accept().expect(frame(b'q', 8, b"user 2"));
}

/// Answers that are under way keep a session with its client. So does a message that the client
/// sends meanwhile.
#[test]
fn a_session_stays_until_all_answers_have_come() {
    let folder = Folder::new("session_pools_pipeline");
    for extra in [&["--cores", "1"][..], &["--cores", "1", "--interpret"]] {
        let mut backend = Backend::new();
        let proxy = start(&folder, backend.port, extra);
        let (mut client, mut session) = logged_in(&proxy, &mut backend, 3);
        session.send(as_new());
        client.send([frame(b'q', 3, b"a"), frame(b'q', 3, b"b")].concat());
        session.expect([frame(b'q', 3, b"a"), frame(b'q', 3, b"b")].concat());
        session.send(answer(3, b"a"));
        client.expect(answer(3, b"a"));
        session.expect_silence(Duration::from_millis(200));
        // A reset of its own is confirmed to itself.
        client.send(frame(b'X', 3, b"own"));
        session.expect(frame(b'X', 3, b"own"));
        session.send([answer(3, b"b"), as_new()].concat());
        client.expect([answer(3, b"b"), as_new()].concat());
        session.expect(frame(b'X', 0, b""));
        session.send(as_new());
        client.send(frame(b'q', 3, b"c"));
        session.expect(frame(b'q', 3, b"c"));
    }
}

/// A byte behind the confirmation is no answer to the client that waits.
#[test]
fn a_session_with_bytes_behind_its_reset_is_given_to_nobody() {
    let folder = Folder::new("session_pools_surplus");
    let mut backend = Backend::new();
    let proxy = start(&folder, backend.port, &["--cores", "1"]);
    let (mut client, mut session) = logged_in(&proxy, &mut backend, 3);
    client.send(frame(b'q', 3, b"waits"));
    session.expect_silence(Duration::from_millis(200));
    session.send([as_new(), answer(4, b"of another")].concat());
    client.expect(frame(b'f', 0, b"")).expect_closed();
}

/// Bytes that the proxy has not read yet are seen, too: before a session goes to a client that
/// waits, its socket is looked at. Here the confirmation ends where the proxy's first read ends.
#[test]
fn a_session_with_unread_bytes_behind_its_reset_is_given_to_nobody() {
    const ONE_READ: usize = 64 << 10;
    let folder = Folder::new("session_pools_unread");
    let mut backend = Backend::new();
    let proxy = start(&folder, backend.port, &["--cores", "1"]);
    let (mut client, mut session) = logged_in(&proxy, &mut backend, 3);
    client.send(frame(b'q', 3, b"waits"));
    session.expect_silence(Duration::from_millis(200));
    let noise = frame(b'N', 0, &vec![0; ONE_READ - as_new().len() - frame(b'N', 0, b"").len()]);
    let all = [noise, as_new()].concat();
    assert_eq!(all.len(), ONE_READ);
    proxy.stop();
    session.send([all, answer(4, b"of another")].concat());
    proxy.resume();
    client.expect(frame(b'f', 0, b"")).expect_closed();
}

/// A session is given back only if its reset is one message. A second one would have an answer of
/// its own, and none leaves the session as it is.
#[test]
fn a_reset_is_exactly_one_message() {
    let folder = Folder::new("session_pools_one_reset");
    let reply = "reply Frame { kind: 'X', who: 0, body: \"\" }";
    assert!(SHELL.contains(reply));
    let with = |reset: &str| {
        SHELL.replace(&format!("on reset {{ {reply} }}"), &format!("on reset {{ {} }}", reset.replace("REPLY", reply)))
    };
    // A length that ends the message early: the rest would be a second one.
    let two = "let n = if unix_time() > 0 { u32(0) } else { 9 }
        reply Frame { kind: 'X', who: 0, size: n, body: \"X\\0\\0\\0\\0\\0\\0\\0\\0\" }";
    let streams = [
        ("size: u32 = len(body)  body: bytes<1MiB> [size]", "size: u32  body: stream bytes [size]"),
        ("user = m.body", "user = \"user 0\""),
        ("body: \"\"", "size: 0, body: \"\""),
    ];
    let two = streams.iter().fold(with(two), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let one = with("if unix_time() > 0 { REPLY }");
    for (n, text) in [with("if unix_time() == 0 { REPLY }"), one, two].iter().enumerate() {
        let backend = Backend::new();
        let file = folder.name_of(&format!("shell_{n}.loom"));
        assert_ne!(text, SHELL);
        std::fs::write(&file, text).expect("the folder is writable");
        let set = servers(&[backend.port]);
        let proxy = Wireloom::run_file(&file, &["--interpret", "--cores", "1", "--set", &set], |_| {});
        let mut client = Client::connect(proxy.port);
        client.send(frame(b'q', 3, b"user 0"));
        let mut session = backend.accept();
        session.expect(frame(b'q', 3, b"user 0"));
        session.send(answer(3, b""));
        client.expect(answer(3, b""));
        match n {
            1 => {
                session.expect(frame(b'X', 0, b""));
            }
            _ => session.expect_closed(),
        }
    }
}

/// The last session of connected clients stays, however old it is.
#[test]
fn old_sessions_end_when_they_are_idle() {
    let folder = Folder::new("session_pools_old");
    let mut backend = Backend::new();
    let proxy = start(&folder, backend.port, &["--cores", "1", "--set", "db.pool_lifetime=1s"]);
    let (_one, mut first) = logged_in(&proxy, &mut backend, 3);
    let (mut two, mut second) = logged_in(&proxy, &mut backend, 6);
    first.send(as_new());
    second.send(as_new());
    let begun = Instant::now();
    assert_eq!(first.rest(), b"");
    assert!((600..3000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    second.expect_silence(Duration::from_millis(1500));
    two.send(frame(b'q', 6, b"more"));
    second.expect(frame(b'q', 6, b"more"));
}
