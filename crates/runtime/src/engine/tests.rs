//! Tests for every engine, on real loopback sockets. Each test runs on epoll and, where the kernel
//! has it, io_uring.
use super::*;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{IoSlice, Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

type Output = (VecDeque<Box<[u8]>>, usize);

/// An engine with everything that has happened on it, and output that is offered until it is gone.
struct Bed {
    engine: Box<dyn Engine>,
    log: Vec<Event>,
    data: HashMap<Token, Vec<u8>>,
    /// Output in the order of sending, and the sent part of the first piece.
    out: HashMap<Token, Output>,
    /// Connections whose output the engine has.
    flying: HashSet<Token>,
    echo: bool,
}

impl Bed {
    fn new(engine: Box<dyn Engine>) -> Bed {
        let (data, out, flying) = (HashMap::new(), HashMap::new(), HashSet::new());
        Bed { engine, log: Vec::new(), data, out, flying, echo: false }
    }

    fn listen(&mut self) -> (Token, std::net::SocketAddr) {
        let l = self.engine.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (local, _) = self.engine.addresses(l).unwrap();
        (l, local)
    }

    fn poll_once(&mut self, ms: u64) {
        let mut events = Vec::new();
        self.engine.poll(Some(Duration::from_millis(ms)), &mut events).unwrap();
        for e in &events {
            match *e {
                Event::Data { conn, start, len } => {
                    let bytes = self.engine.data(start, len).to_vec();
                    if self.echo {
                        self.send(conn, &bytes);
                    }
                    self.data.entry(conn).or_default().extend(bytes);
                }
                Event::Writable { conn } => self.flush(conn),
                Event::Sent { conn, len } => {
                    self.flying.remove(&conn);
                    self.gone(conn, len as usize);
                    self.flush(conn);
                }
                _ => {}
            }
        }
        self.log.extend(events);
    }

    /// Polls until `f` holds; false after a minute.
    fn until(&mut self, mut f: impl FnMut(&mut Bed) -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(60);
        while !f(self) {
            if Instant::now() > end {
                return false;
            }
            self.poll_once(5);
        }
        true
    }

    /// Polls for so long, and some times also on a slow machine.
    fn for_ms(&mut self, ms: u64) {
        let (end, mut polls) = (Instant::now() + Duration::from_millis(ms), 0);
        while Instant::now() < end || polls < 8 {
            self.poll_once(5);
            polls += 1;
        }
    }

    fn count(&self, f: impl Fn(&Event) -> bool) -> usize {
        self.log.iter().filter(|e| f(e)).count()
    }

    fn accepted(&self) -> Vec<Token> {
        self.log.iter().filter_map(|e| if let Event::Accepted { conn, .. } = e { Some(*conn) } else { None }).collect()
    }

    fn accept_one(&mut self) -> Token {
        let before = self.accepted().len();
        assert!(self.until(|b| b.accepted().len() > before));
        self.accepted()[before]
    }

    fn send(&mut self, conn: Token, bytes: &[u8]) {
        self.out.entry(conn).or_default().0.push_back(bytes.into());
        self.flush(conn);
    }

    fn gone(&mut self, conn: Token, n: usize) {
        let (pieces, at) = self.out.get_mut(&conn).unwrap();
        *at += n;
        if pieces[0].len() == *at {
            pieces.pop_front();
            *at = 0;
        }
    }

    fn flush(&mut self, conn: Token) {
        while let Some((Some(first), at)) = self.out.get(&conn).map(|(pieces, at)| (pieces.front(), *at)) {
            let (a, b) = first[at..].split_at((first.len() - at) / 2);
            // SAFETY: the box stays in `out` until all of it is sent, or the engine is dropped
            // first.
            match unsafe { self.engine.write(conn, &[IoSlice::new(a), IoSlice::new(b)]) } {
                WriteResult::Done(n) => self.gone(conn, n),
                WriteResult::InFlight => {
                    self.flying.insert(conn);
                    return;
                }
                _ => return,
            }
        }
    }

    fn is_sent(&self, conn: Token) -> bool {
        self.out.get(&conn).is_none_or(|(pieces, _)| pieces.is_empty())
    }

    fn broken(&self, t: Token) -> bool {
        self.log.contains(&Event::Broken { conn: t })
    }

    fn eof(&self, t: Token) -> bool {
        self.log.contains(&Event::Eof { conn: t })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Before the output it may still be reading.
        self.engine = Box::new(memory::Memory::new().0);
    }
}

fn engines() -> Vec<Bed> {
    let mut all = vec![Bed::new(open(EngineKind::Epoll).unwrap())];
    match open(EngineKind::Uring) {
        Ok(e) => all.push(Bed::new(e)),
        Err(e) => eprintln!("SKIPPED io_uring: {e}"),
    }
    // With a kernel that takes each second or third operation at another try only.
    for refuses in [2, 3] {
        all.extend(uring::Uring::new().ok().map(|mut e| {
            e.refuses = refuses;
            Bed::new(Box::new(e))
        }));
    }
    all
}

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// An address on which nothing listens.
fn nobody() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn raise_descriptor_limit() {
    // SAFETY: plain system calls on a struct that lives during them.
    unsafe {
        let mut r: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut r);
        r.rlim_cur = r.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &r);
    }
}

/// Tests that count or exhaust the process's descriptors exclude each other, and tests that need
/// some.
static DESCRIPTORS: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// The turn of a test that takes or counts most descriptors of the process.
pub(crate) fn most_descriptors() -> std::sync::RwLockWriteGuard<'static, ()> {
    DESCRIPTORS.write().unwrap_or_else(|e| e.into_inner())
}

fn share() -> std::sync::RwLockReadGuard<'static, ()> {
    DESCRIPTORS.read().unwrap_or_else(|e| e.into_inner())
}

#[test]
fn accepts_and_echoes() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        b.echo = true;
        let mut c = TcpStream::connect(addr).unwrap();
        c.write_all(b"hello").unwrap();
        let t = b.accept_one();
        assert!(b.until(|b| b.data.get(&t).is_some_and(|d| d == b"hello") && b.is_sent(t)));
        let mut got = [0; 5];
        c.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        let (local, peer) = b.engine.addresses(t).unwrap();
        assert_eq!((local, peer), (addr, c.local_addr().unwrap()));
    }
}

#[test]
fn byte_by_byte() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let mut c = TcpStream::connect(addr).unwrap();
        c.set_nodelay(true).unwrap();
        let t = b.accept_one();
        let all = pattern(300);
        for x in &all {
            c.write_all(&[*x]).unwrap();
            b.poll_once(0);
        }
        assert!(b.until(|b| b.data.get(&t).is_some_and(|d| *d == all)));
    }
}

#[test]
fn refused_connection() {
    let _g = share();
    for mut b in engines() {
        let addr = nobody();
        match b.engine.connect(addr) {
            Err(_) => {}
            Ok(t) => {
                assert!(b.until(|b| b.log.contains(&Event::ConnectFailed { conn: t, ours: false })));
                assert!(b.engine.addresses(t).is_none(), "the token is closed");
            }
        }
    }
}

#[test]
fn connects_and_talks() {
    let _g = share();
    for mut b in engines() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let t = b.engine.connect(l.local_addr().unwrap()).unwrap();
        // Output before the connection stands is refused and becomes possible later.
        b.send(t, b"early");
        b.for_ms(1);
        let (mut s, _) = l.accept().unwrap();
        s.write_all(b"welcome").unwrap();
        assert!(b.until(|b| b.data.get(&t).is_some_and(|d| d == b"welcome") && b.is_sent(t)));
        assert_eq!(b.count(|e| *e == Event::Connected { conn: t }), 1);
        let mut got = [0; 5];
        s.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"early");
    }
}

#[test]
fn half_close_both_ways() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let mut c = TcpStream::connect(addr).unwrap();
        c.write_all(b"last words").unwrap();
        c.shutdown(Shutdown::Write).unwrap();
        let t = b.accept_one();
        assert!(b.until(|b| b.eof(t)));
        assert_eq!(b.data[&t], b"last words");
        b.send(t, b"answer");
        assert!(b.until(|b| b.is_sent(t) || b.flying.contains(&t)));
        b.engine.shutdown(t);
        assert!(b.until(|b| b.is_sent(t)));
        let mut got = Vec::new();
        c.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"answer");
        b.for_ms(30);
        assert_eq!(b.count(|e| *e == Event::Eof { conn: t }), 1);
        assert!(!b.broken(t));
    }
}

#[test]
fn reset_by_the_peer() {
    let _g = share();
    for mut b in engines() {
        for paused in [false, true] {
            let (_, addr) = b.listen();
            let c = TcpStream::connect(addr).unwrap();
            let t = b.accept_one();
            b.engine.pause(t, paused);
            b.for_ms(20);
            common::reset_on_close(std::os::fd::AsRawFd::as_raw_fd(&c));
            drop(c);
            assert!(b.until(|b| b.broken(t)), "{} paused={paused}", b.engine.name());
            b.for_ms(20);
            assert_eq!(b.count(|e| *e == Event::Broken { conn: t }), 1);
            assert_eq!(unsafe { b.engine.write(t, &[IoSlice::new(b"x")]) }, WriteResult::Broken);
            b.engine.close(t, false);
        }
    }
}

#[test]
fn reset_by_us() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let mut c = TcpStream::connect(addr).unwrap();
        let t = b.accept_one();
        b.engine.close(t, true);
        b.for_ms(20);
        assert_eq!(c.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
}

#[test]
fn pause_holds_the_sender_back() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let c = TcpStream::connect(addr).unwrap();
        let t = b.accept_one();
        b.engine.pause(t, true);
        b.for_ms(20);
        c.set_nonblocking(true).unwrap();
        let all = pattern(40 << 20);
        let (mut sent, mut stuck) = (0, 0);
        while stuck < 20 {
            match (&c).write(&all[sent..]) {
                Ok(n) => sent += n,
                Err(_) => stuck += 1,
            }
            b.poll_once(1);
        }
        assert!(sent < all.len(), "the sender was not held back");
        assert!(!b.data.contains_key(&t), "nothing is reported while paused");
        b.engine.pause(t, false);
        b.engine.pause(t, true);
        b.engine.pause(t, false);
        assert!(b.until(|b| {
            sent += (&c).write(&all[sent..]).unwrap_or(0);
            b.data.get(&t).is_some_and(|d| d.len() == all.len())
        }));
        assert!(b.data[&t] == all);
    }
}

#[test]
fn end_of_stream_while_paused_comes_after_the_bytes() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let mut c = TcpStream::connect(addr).unwrap();
        let t = b.accept_one();
        b.engine.pause(t, true);
        c.write_all(&pattern(5000)).unwrap();
        drop(c);
        b.for_ms(30);
        assert!(!b.eof(t) && !b.data.contains_key(&t));
        b.engine.pause(t, false);
        assert!(b.until(|b| b.eof(t)));
        assert_eq!(b.data[&t], pattern(5000));
    }
}

#[test]
fn large_transfer_to_a_slow_reader() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let mut c = TcpStream::connect(addr).unwrap();
        let t = b.accept_one();
        let all = pattern(16 << 20);
        let reader = std::thread::spawn(move || {
            let (mut got, mut buf) = (Vec::new(), vec![0; 100_000]);
            while got.len() < 16 << 20 {
                let n = c.read(&mut buf).unwrap();
                got.extend_from_slice(&buf[..n]);
                std::thread::sleep(Duration::from_micros(200));
            }
            got
        });
        b.send(t, &all);
        assert!(!b.is_sent(t), "sixteen megabytes do not fit into a socket");
        assert!(b.until(|b| b.is_sent(t)));
        assert!(reader.join().unwrap() == all);
    }
}

#[test]
fn large_transfer_in_with_other_connections_beside() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let all = pattern(16 << 20);
        let copy = all.clone();
        let big = std::thread::spawn(move || {
            let mut c = TcpStream::connect(addr).unwrap();
            c.write_all(&copy).unwrap();
            c
        });
        let t = b.accept_one();
        let mut small = TcpStream::connect(addr).unwrap();
        let u = b.accept_one();
        small.write_all(b"me too").unwrap();
        assert!(b.until(|b| b.data.get(&u).is_some_and(|d| d == b"me too")));
        assert!(b.until(|b| b.data.get(&t).is_some_and(|d| d.len() == all.len())));
        assert!(b.data[&t] == all);
        drop(big.join().unwrap());
        assert!(b.until(|b| b.eof(t)));
    }
}

#[test]
fn close_with_output_in_flight() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let c = TcpStream::connect(addr).unwrap();
        let t = b.accept_one();
        b.send(t, &pattern(32 << 20));
        b.for_ms(20);
        b.engine.close(t, false);
        assert!(b.until(|b| !b.engine.pending_close(t)));
        let before = b.log.len();
        drop(c);
        b.for_ms(20);
        assert_eq!(b.log.len(), before, "a closed token has no events");
        assert_eq!(unsafe { b.engine.write(t, &[IoSlice::new(b"x")]) }, WriteResult::Broken);
    }
}

#[test]
fn short_output_survives_close() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let mut c = TcpStream::connect(addr).unwrap();
        let t = b.accept_one();
        b.send(t, b"bye");
        assert!(b.until(|b| b.is_sent(t) || b.flying.contains(&t)));
        b.engine.close(t, false);
        b.for_ms(20);
        let mut got = Vec::new();
        c.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"bye");
    }
}

#[test]
fn thousands_of_connections() {
    let _g = share();
    raise_descriptor_limit();
    for mut b in engines() {
        b.echo = true;
        let (_, addr) = b.listen();
        let mut clients = Vec::new();
        for _ in 0..3000 {
            clients.push(TcpStream::connect(addr).unwrap());
            if clients.len() % 200 == 0 {
                b.poll_once(0);
            }
        }
        assert!(b.until(|b| b.accepted().len() == 3000));
        for round in 0..3u8 {
            for (i, c) in clients.iter_mut().enumerate() {
                c.write_all(&[round, i as u8, (i >> 8) as u8]).unwrap();
            }
            assert!(b.until(|b| b.data.values().map(Vec::len).sum::<usize>() == 9000 * (round as usize + 1)));
            assert!(b.until(|b| b.out.values().all(|(pieces, _)| pieces.is_empty())));
            for (i, c) in clients.iter_mut().enumerate() {
                let mut got = [0; 3];
                c.read_exact(&mut got).unwrap();
                assert_eq!(got, [round, i as u8, (i >> 8) as u8]);
            }
        }
        drop(clients);
        assert!(b.until(|b| b.count(|e| matches!(e, Event::Eof { .. })) == 3000));
        for t in b.accepted() {
            b.engine.close(t, false);
        }
    }
}

/// Bytes on a connection since the last poll are told before the next, of many as of one.
#[test]
fn input_that_waits_is_seen_before_a_write() {
    let _g = share();
    for many in [2, 40, 400] {
        for mut b in engines() {
            let (_, addr) = b.listen();
            let mut clients: Vec<_> = (0..many).map(|_| TcpStream::connect(addr).unwrap()).collect();
            assert!(b.until(|b| b.accepted().len() == many));
            // A connection's token, by the number that its client sends.
            let mut number = 0;
            clients.iter_mut().for_each(|c| {
                c.write_all(&u16::to_le_bytes(number)).unwrap();
                number += 1;
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(b.until(|b| b.data.values().map(Vec::len).sum::<usize>() == 2 * many));
            let mut tokens = vec![Token(0); many];
            for (token, data) in &b.data {
                tokens[u16::from_le_bytes([data[0], data[1]]) as usize] = *token;
            }
            let idle: Vec<_> = tokens.iter().map(|t| b.engine.waiting(*t)).collect();
            assert_eq!(idle, vec![Waiting::Nothing; many], "{}", b.engine.name());
            // A poll with many events, so that engines which look once for many do so.
            for c in &mut clients {
                c.write_all(b"x").unwrap();
            }
            std::thread::sleep(Duration::from_millis(20));
            b.poll_once(100);
            while b.engine.more() {
                b.poll_once(0);
            }
            assert!(b.until(|b| b.data.values().map(Vec::len).sum::<usize>() == 3 * many));
            for round in 0..3 {
                let spoken = (many / 2 + round) % many;
                clients[spoken].write_all(b"surplus").unwrap();
                std::thread::sleep(Duration::from_millis(5));
                let told: Vec<_> = tokens.iter().map(|t| b.engine.waiting(*t)).collect();
                for (i, w) in told.iter().enumerate() {
                    let due = if i == spoken { Waiting::Bytes } else { Waiting::Nothing };
                    assert_eq!(*w, due, "{} connection {i} of {many}, round {round}", b.engine.name());
                }
                let before = b.data[&tokens[spoken]].len();
                assert!(b.until(|b| b.data[&tokens[spoken]].len() == before + 7));
                assert_eq!(b.engine.waiting(tokens[spoken]), Waiting::Nothing);
            }
            drop(clients.pop());
            std::thread::sleep(Duration::from_millis(5));
            let told: Vec<_> = tokens.iter().map(|t| b.engine.waiting(*t)).collect();
            assert_eq!((told[0], told[many - 1]), (Waiting::Nothing, Waiting::End), "{}", b.engine.name());
        }
    }
}

/// However many wait, no more come in than there are places.
#[test]
fn only_those_that_are_let_in_come_in() {
    let _g = share();
    for mut b in engines() {
        let (l, addr) = b.listen();
        b.engine.admit(l, 10);
        let clients: Vec<_> = (0..60).map(|_| TcpStream::connect(addr).unwrap()).collect();
        b.for_ms(100);
        assert_eq!(b.accepted().len(), 10, "{}", b.engine.name());
        for (more, due) in [(1, 11), (5, 16), (3, 19)] {
            b.engine.admit(l, more);
            b.for_ms(50);
            assert_eq!(b.accepted().len(), due, "{}", b.engine.name());
        }
        // A place that a connection of another core takes.
        b.engine.admit(l, 0);
        assert!(!b.engine.take_place(l));
        // From few places to many, and all come in.
        b.engine.admit(l, 2 * common::BACKLOG);
        assert!(b.until(|b| b.accepted().len() == 60));
        drop(clients);
    }
}

#[test]
fn descriptors_run_out_and_come_back() {
    let _g = most_descriptors();
    for mut b in engines() {
        let (l, addr) = b.listen();
        let mut c = TcpStream::connect(addr).unwrap();
        let t = b.accept_one();
        let second = TcpStream::connect(addr).unwrap();
        // Take all free descriptors.
        let mut hoard = Vec::new();
        while let Ok(f) = std::fs::File::open("/dev/null") {
            hoard.push(f);
        }
        b.for_ms(200);
        let failures = b.count(|e| *e == Event::AcceptFailed { listener: l });
        // epoll has not accepted `second` yet; io_uring may have, and fails on the next one.
        let waiting = if failures > 0 { None } else { hoard.pop().map(|_| TcpStream::connect(addr).unwrap()) };
        b.for_ms(200);
        let failures = b.count(|e| *e == Event::AcceptFailed { listener: l });
        assert!((1..=10).contains(&failures), "{}: pauses instead of spinning, {failures}", b.engine.name());
        c.write_all(b"still served").unwrap();
        assert!(b.until(|b| b.data.get(&t).is_some_and(|d| d == b"still served")));
        hoard.clear();
        let all = 2 + usize::from(waiting.is_some());
        assert!(b.until(|b| b.accepted().len() == all), "{}", b.engine.name());
        drop(second);
    }
}

#[test]
fn unlisten_keeps_who_waits_and_frees_the_port() {
    let _g = share();
    for mut b in engines() {
        let (l, addr) = b.listen();
        let mut c = TcpStream::connect(addr).unwrap();
        b.engine.unlisten(l);
        let t = b.accept_one();
        b.send(t, b"drained");
        assert!(b.until(|b| b.is_sent(t)));
        let mut got = [0; 7];
        c.read_exact(&mut got).unwrap();
        assert!(b.until(|_| TcpStream::connect(addr).is_err()));
        b.engine.close(t, false);
        b.for_ms(10);
        assert!(b.engine.listen(addr).is_ok());
    }
}

#[test]
fn every_core_may_listen_on_the_port() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        assert!(b.engine.listen(addr).is_ok());
        assert!(engines().iter_mut().all(|o| o.engine.listen(addr).is_ok()));
    }
}

#[test]
fn another_thread_wakes_it() {
    let _g = share();
    for mut b in engines() {
        for _ in 0..3 {
            let w = b.engine.waker();
            let other = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                w.wake();
            });
            let mut events = Vec::new();
            while events.is_empty() {
                b.engine.poll(None, &mut events).unwrap();
            }
            assert_eq!(events, [Event::Woken]);
            other.join().unwrap();
        }
    }
}

#[test]
fn poll_times_out() {
    let _g = share();
    for mut b in engines() {
        let start = Instant::now();
        let mut events = Vec::new();
        b.engine.poll(Some(Duration::from_millis(30)), &mut events).unwrap();
        b.engine.poll(Some(Duration::ZERO), &mut events).unwrap();
        assert!(events.is_empty());
        assert!((30..20_000).contains(&start.elapsed().as_millis()));
    }
}

#[test]
fn tokens_of_closed_connections_are_dead() {
    let _g = share();
    for mut b in engines() {
        let (_, addr) = b.listen();
        let _c = TcpStream::connect(addr).unwrap();
        let t = b.accept_one();
        b.engine.close(t, false);
        b.engine.close(t, true);
        b.engine.pause(t, false);
        b.engine.shutdown(t);
        let _d = TcpStream::connect(addr).unwrap();
        let u = b.accept_one();
        assert_ne!(t, u);
        assert!(b.engine.addresses(t).is_none());
    }
}

/// More sockets are readable than one poll handles: the others are reported without another wait,
/// and none twice.
#[test]
fn a_batch_of_many_connections_comes_in_parts() {
    let mut b = Bed::new(Box::new(epoll::Epoll::new().unwrap()));
    let (_, addr) = b.listen();
    let mut peers: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(addr).unwrap()).collect();
    assert!(b.until(|b| b.accepted().len() == 100));
    for (i, p) in peers.iter_mut().enumerate() {
        p.write_all(format!("hello {i}").as_bytes()).unwrap();
    }
    let (closed, end) = (*b.accepted().last().unwrap(), Instant::now() + Duration::from_secs(60));
    let mut most = 0;
    while b.count(|e| matches!(e, Event::Data { .. })) < 99 && Instant::now() < end {
        let before = b.log.len();
        b.poll_once(1000);
        if before > 0 && b.engine.more() && !b.data.contains_key(&closed) {
            // Gone before its part has come.
            b.engine.close(closed, false);
        }
        most = most.max(b.log.len() - before);
    }
    assert!(most <= 64, "{most} in one poll");
    b.for_ms(20);
    let mut texts: Vec<String> =
        b.data.iter().filter(|(t, _)| **t != closed).map(|(_, d)| String::from_utf8_lossy(d).into_owned()).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 99);
    assert!(!b.engine.more());
}
