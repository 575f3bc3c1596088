//! Commands of very many keys share their core: what puts their requests and answers together
//! pauses, too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wireloom_tests::admin::{eventually, metrics, sample, status};
use wireloom_tests::redis::{bulk, request};
use wireloom_tests::{
    alone, free_port, fully_compiled, plain, require_tool, servers, thrice, Process, Wireloom, PATIENCE,
};

const KEYS: usize = 600_000;

fn connect(port: u16) -> TcpStream {
    let s = TcpStream::connect(("127.0.0.1", port)).expect("the proxy accepts");
    s.set_read_timeout(Some(PATIENCE)).expect("a socket");
    s.set_nodelay(true).expect("a socket");
    s
}

/// Sends a command, and reads as many bytes as its answer has.
fn exchange(s: &mut TcpStream, command: &[u8], answer: usize) -> Vec<u8> {
    let mut writer = s.try_clone().expect("a descriptor");
    let mut got = vec![0; answer];
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(command).expect("it is sent"));
        s.read_exact(&mut got).expect("an answer");
    });
    got
}

fn time(clock: libc::clockid_t) -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure of ours to fill.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// The longest time that the proxy has kept a light client waiting while something was done. It
/// counts as far as the proxy worked meanwhile. So others on the machine do not count.
fn longest_held(proxy: &Process, work: impl FnOnce()) -> Duration {
    let mut clock = 0;
    // SAFETY: a number of ours to fill.
    assert_eq!(unsafe { libc::clock_getcpuclockid(proxy.child.id() as i32, &raw mut clock) }, 0);
    let (end, mut light) = (AtomicBool::new(false), connect(proxy.port));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut longest, mut got) = (Duration::ZERO, [0; 7]);
            while !end.load(Ordering::Relaxed) {
                let (worked, begin) = (time(clock), Instant::now());
                light.write_all(b"PING\r\n").expect("it is sent");
                light.read_exact(&mut got).expect("an answer");
                assert_eq!(&got, b"+PONG\r\n");
                longest = longest.max(begin.elapsed().min(time(clock) - worked));
                std::thread::sleep(Duration::from_micros(200));
            }
            longest
        });
        work();
        end.store(true, Ordering::Relaxed);
        watch.join().expect("it ends")
    })
}

#[test]
fn a_command_of_very_many_keys_does_not_hold_its_core() {
    if plain() || !require_tool("redis-server") {
        return;
    }
    let _turn = alone();
    let backends: Vec<Process> = (0..2).map(|_| Process::redis()).collect();
    let list = servers(&backends.iter().map(|b| b.port).collect::<Vec<_>>());
    let proxy = Wireloom::run_with("redis_proxy", &["--set", &list, "--cores", "0"], |c| {
        fully_compiled(c).env("WIRELOOM_START", "optimized");
    });
    let keys: Vec<String> = (0..KEYS).map(|n| format!("k{n:x}")).collect();
    let command = |name: &str| request(&[&[name.to_string()], &keys[..]].concat());
    let values: Vec<String> = (0..KEYS / 2).map(|n| format!("v{n}")).collect();
    let words =
        [String::from("MSET")].into_iter().chain(keys.iter().zip(&values).flat_map(|(k, v)| [k.clone(), v.clone()]));
    let set = request(&words.collect::<Vec<_>>());
    let mut found = format!("*{KEYS}\r\n").into_bytes();
    values.iter().for_each(|v| found.extend(bulk(v.as_bytes())));
    (KEYS / 2..KEYS).for_each(|_| found.extend(b"$-1\r\n"));
    let count = format!(":{}\r\n", KEYS / 2).into_bytes();
    let mut heavy = connect(proxy.port);
    for (command, answer) in [
        (set.clone(), b"+OK\r\n".to_vec()),
        (command("MGET"), found),
        (command("EXISTS"), count.clone()),
        (command("DEL"), count),
    ] {
        let name = String::from_utf8_lossy(&command[..24]).replace("\r\n", " ");
        let mut right = true;
        thrice(|| {
            // Keys are gone when they were deleted once.
            right &= !name.contains("DEL") || exchange(&mut heavy, &set, b"+OK\r\n".len()) == b"+OK\r\n";
            let held = longest_held(&proxy, || right &= exchange(&mut heavy, &command, answer.len()) == answer);
            (held < Duration::from_millis(8)).then_some(()).ok_or(format!("{name}: held for {held:?}"))
        });
        assert!(right, "{name}: another answer");
    }
}

/// The commands of one client on keys of its own, with their answers: large ones, which pause, and
/// small ones between them.
fn dialogue(tag: &str, keys: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let names: Vec<String> = (0..keys).map(|n| format!("{tag}:{n:05}")).collect();
    let with = |name: &str, words: Vec<String>| request(&[&[name.to_string()], &words[..]].concat());
    let pairs = names.iter().flat_map(|k| [k.clone(), format!("value of {k}")]).collect();
    let mut found = format!("*{keys}\r\n").into_bytes();
    names.iter().for_each(|k| found.extend(bulk(format!("value of {k}").as_bytes())));
    let one = request(&["GET", &names[7]]);
    let count = format!(":{keys}\r\n").into_bytes();
    vec![
        (with("MSET", pairs), b"+OK\r\n".to_vec()),
        (one.clone(), bulk(format!("value of {}", names[7]).as_bytes())),
        (with("MGET", names.clone()), found),
        (b"PING\r\n".to_vec(), b"+PONG\r\n".to_vec()),
        (with("EXISTS", names.clone()), count.clone()),
        (with("DEL", names), count),
        (one, b"$-1\r\n".to_vec()),
    ]
}

/// With the shortest slices the proxy pauses between any two items and pieces. Requests stand
/// behind one another, some clients leave in the middle, and others come.
#[test]
fn pauses_within_messages_change_no_answer() {
    if plain() || !require_tool("redis-server") {
        return;
    }
    let backends: Vec<Process> = (0..3).map(|_| Process::redis()).collect();
    let list = servers(&backends.iter().map(|b| b.port).collect::<Vec<_>>());
    for (keys, more) in [(5_000, &["--engine", "uring"][..]), (5_000, &[]), (2_000, &["--sanitize"])] {
        let page = free_port();
        let admin = format!("127.0.0.1:{page}");
        let args = [&["--set", &list, "--set", "client.slice=1us", "--cores", "0", "--admin", &admin], more].concat();
        let proxy = Wireloom::run_with("redis_proxy", &args, |c| {
            fully_compiled(c);
        });
        std::thread::scope(|scope| {
            for c in 0..3 {
                let port = proxy.port;
                scope.spawn(move || {
                    for round in 0..2 {
                        let all = dialogue(&format!("{c}.{round}"), keys);
                        let (commands, answers): (Vec<_>, Vec<_>) = all.into_iter().unzip();
                        let got = exchange(&mut connect(port), &commands.concat(), answers.concat().len());
                        assert!(got == answers.concat(), "client {c}, round {round}: another answer, {more:?}");
                    }
                });
            }
            let port = proxy.port;
            scope.spawn(move || {
                for k in 0..12 {
                    let all = dialogue(&format!("gone{k}"), keys);
                    let mut s = connect(port);
                    // In the middle of a command, or while it is handled.
                    let command = &all[if k % 2 == 0 { 0 } else { 2 }].0;
                    let n = if k % 3 == 0 { command.len() * 2 / 3 } else { command.len() };
                    s.write_all(&command[..n]).expect("it is sent");
                    std::thread::sleep(Duration::from_millis(k * 2));
                }
            });
        });
        assert!(sample(&metrics(page), "wireloom_pauses_total") > 1000, "{more:?}");
        eventually("nothing is left", || status(page)["memory"]["tasks"] == 0);
    }
}
