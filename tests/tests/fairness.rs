//! A core's time is shared: handlers with long loops pause, and no client can see that they did.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wireloom_tests::admin::{eventually, metrics, sample, status};
use wireloom_tests::{alone, free_port, fully_compiled, plain, root, thrice, Process, Wireloom, PATIENCE};

fn measured(c: &mut Command) {
    fully_compiled(c);
}

fn program(app: &str) -> String {
    format!("{}:{app}", root().join("tests/programs/pauses.loom").display())
}

/// A request of so many rounds over so many bytes, which depend on `seed`.
fn request(rounds: u32, size: usize, seed: u32) -> Vec<u8> {
    let data = (0..size).map(|i| (seed as usize + i * 7 + i / 13) as u8);
    rounds.to_be_bytes().into_iter().chain((size as u32).to_be_bytes()).chain(data).collect()
}

fn connect(port: u16) -> TcpStream {
    let s = TcpStream::connect(("127.0.0.1", port)).expect("the service accepts");
    s.set_read_timeout(Some(PATIENCE)).expect("a socket");
    s.set_nodelay(true).expect("a socket");
    s
}

/// A sum and the text behind it.
fn answer(s: &mut TcpStream) -> (u64, Vec<u8>) {
    let mut head = [0; 12];
    s.read_exact(&mut head).expect("an answer");
    let mut echo = vec![0; u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize];
    s.read_exact(&mut echo).expect("the rest of an answer");
    (u64::from_be_bytes(head[..8].try_into().expect("eight bytes")), echo)
}

/// Requests of which no two are alike, with light ones between the heavy ones.
fn several() -> Vec<Vec<u8>> {
    (0..24u32).map(|k| request([60, 1, 300, 7][k as usize % 4], 40 + (k as usize * 61) % 700, k)).collect()
}

/// The answers of the interpreter, which never pauses.
fn right(app: &str, more: &[&str]) -> Vec<(u64, Vec<u8>)> {
    let service = Wireloom::run_file(&program(app), &[&["--interpret"], more].concat(), measured);
    let mut s = connect(service.port);
    several()
        .iter()
        .map(|r| {
            s.write_all(r).expect("it is sent");
            answer(&mut s)
        })
        .collect()
}

/// Many clients at once, each with requests behind one another; all answers must be those of their
/// requests, in order.
fn crowd(port: u16, right: &[(u64, Vec<u8>)], clients: usize, rounds: usize) {
    let requests = several();
    std::thread::scope(|scope| {
        for c in 0..clients {
            let requests = &requests;
            scope.spawn(move || {
                let mut s = connect(port);
                for r in 0..rounds {
                    let order: Vec<usize> = (0..requests.len()).map(|k| (k * 5 + c + r) % requests.len()).collect();
                    let bytes: Vec<u8> = order.iter().flat_map(|k| requests[*k].clone()).collect();
                    // In two pieces: the second comes while something of the first is paused.
                    let (a, b) = bytes.split_at(bytes.len() * (c % 7 + 1) / 9);
                    s.write_all(a).expect("it is sent");
                    std::thread::sleep(Duration::from_micros(300));
                    s.write_all(b).expect("it is sent");
                    for k in order {
                        assert_eq!(answer(&mut s), right[k], "client {c}, round {r}, request {k}");
                    }
                }
            });
        }
    });
}

fn pauses(page: u16) -> u64 {
    sample(&metrics(page), "wireloom_pauses_total")
}

/// With the shortest slices nearly every look at the clock is a pause. No answer differs from the
/// interpreter's.
fn as_interpreted(app: &str, args: &[&str], more: &[&str], clients: usize) {
    let page = free_port();
    let right = right(app, more);
    let admin = format!("127.0.0.1:{page}");
    let all = [&["--cores", "0", "--set", "client.slice=1us", "--admin", &admin], args, more].concat();
    let service = Wireloom::run_file(&program(app), &all, measured);
    crowd(service.port, &right, clients, 2);
    assert!(pauses(page) > 100, "{app}: {} pauses", pauses(page));
    eventually("nothing is left", || status(page)["memory"]["tasks"] == 0);
}

#[test]
fn pauses_change_no_answer() {
    if plain() {
        return;
    }
    as_interpreted("busy", &[], &[], 12);
    as_interpreted("busy", &["--engine", "uring"], &[], 12);
    as_interpreted("light", &[], &[], 12);
}

/// Requests behind one another on a connection see its session as the interpreter's do, though
/// large ones pause while they change it.
#[test]
fn pauses_hide_a_session() {
    if plain() {
        return;
    }
    let sizes = [70_000, 20, 120_000, 66_000, 300, 90_000];
    let requests: Vec<u8> =
        (0..18u32).flat_map(|k| request([4000, 9000, 50][k as usize % 3], sizes[k as usize % 6], k)).collect();
    let talk = |port: u16| -> Vec<(u64, Vec<u8>)> {
        let mut s = connect(port);
        let mut writer = s.try_clone().expect("a descriptor");
        std::thread::scope(|scope| {
            scope.spawn(|| writer.write_all(&requests).expect("it is sent"));
            (0..18).map(|_| answer(&mut s)).collect()
        })
    };
    let right = talk(Wireloom::run_file(&program("own"), &["--interpret"], measured).port);
    for engine in ["epoll", "uring"] {
        let page = free_port();
        let (admin, slice) = (format!("127.0.0.1:{page}"), "client.slice=1us");
        let args = ["--cores", "0", "--set", slice, "--engine", engine, "--admin", &admin];
        let service = Wireloom::run_file(&program("own"), &args, measured);
        std::thread::scope(|scope| {
            (0..6).for_each(|_| drop(scope.spawn(|| assert_eq!(talk(service.port), right, "{engine}"))));
        });
        assert!(pauses(page) > 100, "{engine}: {} pauses", pauses(page));
        eventually("nothing is left", || status(page)["memory"]["tasks"] == 0);
    }
}

/// Before a call and behind one; the request and the answer are needed on both sides.
#[test]
fn pauses_around_a_call_change_no_answer() {
    if plain() {
        return;
    }
    let page = free_port();
    let busy = Wireloom::run_file(
        &program("busy"),
        &["--cores", "1", "--set", "client.slice=1us", "--admin", &format!("127.0.0.1:{page}")],
        measured,
    );
    let servers = format!("servers=127.0.0.1:{}", busy.port);
    as_interpreted("front", &[], &["--set", &servers], 8);
    assert!(pauses(page) > 100);
}

/// The data of a paused handler stays in place.
#[test]
fn pauses_sanitized() {
    if plain() {
        return;
    }
    as_interpreted("busy", &["--sanitize"], &[], 6);
    let busy = Wireloom::run_file(&program("busy"), &["--cores", "1", "--set", "client.slice=1us"], measured);
    as_interpreted("front", &["--sanitize"], &["--set", &format!("servers=127.0.0.1:{}", busy.port)], 4);
}

/// The waiting times of a light client, sorted, while another's requests take `heavy` each.
fn light_beside(heavy: &[u8], busy: u16, light: u16) -> Vec<Duration> {
    let (stop, mut l) = (AtomicBool::new(false), connect(light));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut h = connect(busy);
            while !stop.load(Ordering::Relaxed) {
                h.write_all(heavy).expect("it is sent");
                answer(&mut h);
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        let mut times: Vec<Duration> = (0..500)
            .map(|k| {
                let begin = Instant::now();
                l.write_all(&request(1, 64, k)).expect("it is sent");
                answer(&mut l);
                let took = begin.elapsed();
                std::thread::sleep(Duration::from_millis(2));
                took
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        times.sort();
        times
    })
}

/// A handler that takes far longer than 100 ms does not stop its core. Neither a client of the same
/// app nor one of another waits for it.
#[test]
fn a_long_handler_does_not_stop_its_core() {
    if plain() {
        return;
    }
    let _turn = alone();
    let (page, beside) = (free_port(), free_port());
    let busy = free_port();
    let mut command = Wireloom::program();
    measured(&mut command);
    command.args(["run", &program("busy"), &program("light"), "--cores", "0", "--admin", &format!("127.0.0.1:{page}")]);
    command.args(["--set", &format!("busy.port={busy}"), "--set", &format!("light.port={beside}")]);
    let _app = Process::start_ours("two", &mut command, busy);
    let heavy = request(60_000, 8192, 1);
    let (mut s, begin) = (connect(busy), Instant::now());
    s.write_all(&heavy).expect("it is sent");
    answer(&mut s);
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(100), "the heavy request takes {took:?} only");
    for port in [busy, beside] {
        // A busy machine may stop any process for longer than a handler's slice, and makes a heavy
        // request longer, too. A client behind heavy requests would wait for half of one at least.
        thrice(|| {
            let times = light_beside(&heavy, busy, port);
            let good = times[250] < took / 20 && times[475] < took / 4;
            good.then_some(()).ok_or(format!("{:?}, {:?} beside requests of {took:?}", times[250], times[475]))
        });
    }
    assert!(pauses(page) > 1000, "{} pauses", pauses(page));
}

/// Clients that leave while their handlers are paused leave nothing behind.
#[test]
fn clients_leave_while_their_handlers_are_paused() {
    if plain() {
        return;
    }
    let page = free_port();
    for engine in ["epoll", "uring"] {
        let service = Wireloom::run_file(
            &program("busy"),
            &["--cores", "0", "--engine", engine, "--admin", &format!("127.0.0.1:{page}")],
            measured,
        );
        for round in 0..4u32 {
            let all: Vec<TcpStream> = (0..40)
                .map(|k| {
                    let mut s = connect(service.port);
                    // Clients that leave in order are served to the end.
                    s.write_all(&request(if (k + round) % 2 == 0 { 20_000 } else { 1000 }, 4096, k))
                        .expect("it is sent");
                    s
                })
                .collect();
            std::thread::sleep(Duration::from_millis(30));
            for (k, s) in all.iter().enumerate() {
                // Some with a reset, some in order.
                if (k as u32 + round).is_multiple_of(2) {
                    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                    use std::os::fd::AsRawFd;
                    // SAFETY: a socket of ours, and a struct of the size that is told.
                    unsafe {
                        libc::setsockopt(
                            s.as_raw_fd(),
                            libc::SOL_SOCKET,
                            libc::SO_LINGER,
                            (&raw const linger).cast(),
                            size_of::<libc::linger>() as u32,
                        )
                    };
                } else if k % 4 == 0 {
                    s.shutdown(std::net::Shutdown::Write).expect("a socket");
                }
            }
            drop(all);
        }
        let mut s = connect(service.port);
        s.write_all(&request(3, 50, 1)).expect("it is sent");
        answer(&mut s);
        drop(s);
        eventually("nothing is left", || status(page)["memory"]["tasks"] == 0);
    }
}

/// A drain waits for a handler that is paused.
#[test]
fn a_drain_waits_for_a_paused_handler() {
    if plain() {
        return;
    }
    let mut service = Wireloom::run_file(&program("busy"), &["--cores", "0"], measured);
    let mut s = connect(service.port);
    s.write_all(&request(20_000, 8192, 1)).expect("it is sent");
    std::thread::sleep(Duration::from_millis(30));
    service.signal(libc::SIGTERM);
    answer(&mut s);
    assert_eq!(service.exit(), Some(0), "{}", service.output());
}

/// `explain` says which handlers pause, and why others do not.
#[test]
fn explain_names_what_does_not_pause() {
    for (app, says) in [
        ("busy", "pauses in its long loops when its slice is used up"),
        ("light", "pauses in its long loops when its slice is used up"),
        ("front", "behind a call only if its answer is kept whole"),
        ("stores", "pauses in its long loops when its slice is used up"),
        ("own", "(requests of 64 KiB and more); such a request is handled alone on its connection"),
        ("sums", "does not pause in its long loops: line 89: state `total` is used on both sides of a pause"),
        ("counts", "does not pause in its long loops: line 101: table `seen` is used on both sides of a pause"),
        (
            "names",
            "does not pause in its long loops: line 114: bytes that lie in state or table are used around a long loop",
        ),
    ] {
        let out = Wireloom::command(&["explain", &program(app)]);
        assert!(out.out.contains(says), "{app}: {}", out.out);
    }
}
