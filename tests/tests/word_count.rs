//! `merge` on real sockets: random streams by compiled code and by the interpreter against a
//! reference. Also one run after another, faults and their counts, time limits, drain, and memory
//! that stays flat.

use fastrand::Rng;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wireloom_tests::admin::{eventually, faults, metrics, port_of, sample, status};
use wireloom_tests::{free_port, Backend, Client, Process, Wireloom, PATIENCE};

struct Node {
    front: Process,
    reducer: Backend,
    admin: u16,
}

fn node(extra: &[&str]) -> Node {
    let (reducer, admin) = (Backend::new(), free_port());
    let (to, page) = (format!("reducer=127.0.0.1:{}", reducer.port), admin.to_string());
    let args = [&["--set", &to, "--admin", &page], extra].concat();
    Node { front: Wireloom::run("word_count_combiner", &args), reducer, admin }
}

/// All bytes to the end, without the empty line that says that they are all; None: reset.
fn read_all(stream: &mut TcpStream) -> Option<Vec<u8>> {
    stream.set_nonblocking(false).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) if all.is_empty() => Some(all), // a mapper's connection
        Ok(_) => {
            assert_eq!(all.pop(), Some(b'\n'), "the end mark");
            assert!(all.is_empty() || all.ends_with(b"\n"), "the end mark is an empty line");
            Some(all)
        }
        Err(e) if e.kind() == ErrorKind::ConnectionReset => None,
        Err(e) => panic!("the stream does not end: {e}, after {} bytes", all.len()),
    }
}

/// Sends the streams, each from its own thread in pieces of random sizes; each then waits how its
/// connection ends.
fn send(port: u16, streams: &[Vec<u8>]) -> Vec<std::thread::JoinHandle<bool>> {
    let one = |(i, bytes): (usize, &Vec<u8>)| {
        let (bytes, mut s) = (bytes.clone(), TcpStream::connect(("127.0.0.1", port)).expect("the node accepts"));
        std::thread::spawn(move || {
            let (mut rest, mut random) = (&bytes[..], Rng::with_seed(i as u64 + 1));
            while !rest.is_empty() {
                let most = 1 << (2 + random.u64(..16));
                let n = (1 + random.u64(..most)).min(rest.len() as u64) as usize;
                if s.write_all(&rest[..n]).is_err() {
                    return false;
                }
                rest = &rest[n..];
            }
            // A reset may be seen by any of these, and only once.
            s.write_all(b"\n").is_ok() && s.shutdown(std::net::Shutdown::Write).is_ok() && read_all(&mut s).is_some()
        })
    };
    streams.iter().enumerate().map(one).collect()
}

/// Keys that share long beginnings, end in zero bytes, are empty or long: a comparison by parts
/// could get them wrong.
fn key(r: &mut Rng) -> Vec<u8> {
    const ALPHABET: [u8; 6] = [0, 1, b'a', b'b', 0x7f, 0xff];
    let n =
        [r.u64(..4), r.u64(..20), 6 + r.u64(..4), 13 + r.u64(..6), 30 + r.u64(..5), r.u64(..1000)][r.u64(..6) as usize];
    let same = r.u64(..n + 1);
    (0..n).map(|i| if i < same { b'a' } else { ALPHABET[r.u64(..6) as usize] }).collect()
}

/// A stream of some of these keys in order, some of them twice.
fn stream(keys: &[Vec<u8>], r: &mut Rng, sums: &mut BTreeMap<Vec<u8>, u64>) -> Vec<u8> {
    let mut out = Vec::new();
    for k in keys {
        let times = [0, 0, 0, 1, 1, 1, 1, 2][r.u64(..8) as usize];
        for _ in 0..times {
            let n = r.u64(..) >> r.u64(..64);
            let sum = sums.entry(k.clone()).or_insert(0);
            *sum = sum.saturating_add(n);
            out.extend_from_slice(k);
            let zeros = if n < 1000 && r.u64(..8) == 0 { r.u64(..4) as usize } else { 0 };
            out.extend_from_slice(format!("\t{}{n}\n", "0".repeat(zeros)).as_bytes());
        }
    }
    out
}

fn random_streams(seed: u64, keys: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut r = Rng::with_seed(seed);
    let mut all: Vec<Vec<u8>> = (0..keys).map(|_| key(&mut r)).collect();
    all.sort();
    all.dedup();
    let mut sums = BTreeMap::new();
    let streams = (0..8).map(|_| stream(&all, &mut r, &mut sums)).collect();
    let wanted = sums.iter().flat_map(|(k, n)| [&k[..], format!("\t{n}\n").as_bytes()].concat()).collect();
    (streams, wanted)
}

fn run_once(n: &Node, streams: &[Vec<u8>], wanted: &[u8], what: &str) {
    let mappers = send(n.front.port, streams);
    let got = read_all(&mut n.reducer.accept().stream).unwrap_or_else(|| panic!("{what}: reset: {}", status(n.admin)));
    assert!(got == wanted, "{what}: {} bytes instead of {}", got.len(), wanted.len());
    for m in mappers {
        assert!(m.join().expect("a mapper ends"), "{what}: a mapper was reset");
    }
}

#[test]
fn random_streams_run_after_run() {
    for (how, extra, keys, runs) in [
        ("one core", &["--cores", "0"][..], 4000, 12),
        ("two cores", &["--cores", "0-1"][..], 4000, 12),
        ("interpreted", &["--interpret"][..], 300, 4),
        ("interpreted, two cores", &["--interpret", "--cores", "0,1"][..], 300, 4),
    ] {
        let n = node(extra);
        for seed in 0..runs {
            let (streams, wanted) = random_streams(seed, keys);
            run_once(&n, &streams, &wanted, &format!("{how}, seed {seed}"));
        }
        let m = metrics(n.admin);
        assert_eq!(sample(&m, "wireloom_merge_runs_total"), runs);
        assert_eq!(sample(&m, "wireloom_merge_failed_total"), 0);
    }
}

#[test]
fn what_is_counted() {
    let n = node(&["--cores", "0-1"]);
    let streams: Vec<Vec<u8>> = (0..8).map(|i| format!("a\t1\nb{i}\t2\n").into_bytes()).collect();
    let wanted: String = "a\t8\n".to_string() + &(0..8).map(|i| format!("b{i}\t2\n")).collect::<String>();
    run_once(&n, &streams, wanted.as_bytes(), "small");
    let s = status(n.admin);
    let m = &s["apps"][0]["merges"][0];
    let number = |name: &str| m[name].as_u64().unwrap_or_else(|| panic!("no {name} in {m}"));
    assert_eq!((number("runs"), number("failed"), number("inputs")), (1, 0, 8), "{m}");
    assert_eq!((number("messages_in"), number("messages_out")), (16, 9), "{m}");
    assert_eq!((number("bytes_in"), number("bytes_out")), (80, wanted.len() as u64 + 1), "{m}");
    let (mappers, out) = (port_of(&s, "mappers"), port_of(&s, "out"));
    assert_eq!(
        (&mappers["opened"], &mappers["open"], &mappers["bytes_in"], &mappers["requests"]),
        (&8.into(), &0.into(), &80.into(), &16.into())
    );
    assert_eq!(
        (&out["opened"], &out["bytes_out"], &out["requests"]),
        (&1.into(), &(wanted.len() + 1).into(), &9.into())
    );
}

/// Each bad stream resets the reducer and all mappers, is counted with its kind, and the next run
/// is whole.
#[test]
fn faults_end_the_run_and_only_that() {
    for cores in ["0", "0-1"] {
        let n = node(&["--cores", cores]);
        let good: Vec<Vec<u8>> = (0..8).map(|i| format!("k{i}\t1\n").into_bytes()).collect();
        let wanted: String = (0..8).map(|i| format!("k{i}\t1\n")).collect();
        // Long lines follow, so that both ways of reading a line see the fault.
        let tail = "z".repeat(40) + "\t1\n" + &"zz\t1\n".repeat(30);
        for (i, (bad, kind)) in [
            ("b\t1\na\t1\n", "constraint"),
            ("a\tx\n", "malformed"),
            ("a\t-1\n", "malformed"),
            ("a\t\n", "malformed"),
            ("\n", "malformed"),
            ("a\t1 \n", "malformed"),
        ]
        .iter()
        .enumerate()
        {
            for at in [0, 7] {
                let before = faults(&status(n.admin), kind);
                let mut streams = good.clone();
                streams[at] = format!("{bad}{tail}").into_bytes();
                let mappers = send(n.front.port, &streams);
                assert_eq!(read_all(&mut n.reducer.accept().stream), None, "{bad:?} was taken for whole");
                for m in mappers {
                    assert!(!m.join().expect("a mapper ends"), "{bad:?}: a mapper was not told");
                }
                let s = status(n.admin);
                assert_eq!(faults(&s, kind), before + 1, "{bad:?} {s}");
                assert_eq!(s["apps"][0]["merges"][0]["failed"], 2 * i + usize::from(at == 7) + 1);
            }
        }
        let s = status(n.admin).to_string();
        for place in ["kv.Pair.key", "kv.Pair.count"] {
            assert!(s.contains(&format!("\"place\":\"{place}\"")), "faults have their places: {s}");
        }
        run_once(&n, &good, wanted.as_bytes(), "after the faults");
    }
}

#[test]
fn connections_beyond_the_inputs_are_refused() {
    let n = node(&[]);
    let mut eight = begun(&n, "a\t1\n");
    let mut reducer = n.reducer.accept();
    let mut ninth = Client::connect(n.front.port);
    ninth.expect_closed();
    assert_eq!(faults(&status(n.admin), "overload"), 1, "{}", status(n.admin));
    eight.iter_mut().for_each(|c| {
        c.send("\n").finish_sending();
    });
    assert_eq!(read_all(&mut reducer.stream).as_deref(), Some(&b"a\t8\n"[..]));
}

/// Eight mappers that have sent the beginning of their streams.
fn begun(n: &Node, first: &str) -> Vec<Client> {
    let mut eight: Vec<Client> = (0..8).map(|_| Client::connect(n.front.port)).collect();
    eight.iter_mut().for_each(|c| {
        c.send(first);
    });
    eight
}

/// Probes and scans of ports, before the mappers and among them, take no mapper's place.
#[test]
fn a_connection_that_says_nothing_is_no_mapper() {
    let n = node(&[]);
    let silent: Vec<Client> = (0..10).map(|_| Client::connect(n.front.port)).collect();
    for _ in 0..5 {
        Client::connect(n.front.port).finish_sending();
        Client::connect(n.front.port).reset();
    }
    std::thread::sleep(Duration::from_millis(50));
    run_once(&n, &vec![b"a\t1\n".to_vec(); 8], b"a\t8\n", "beside silent ones");
    drop(silent);
    run_once(&n, &vec![b"b\t1\n".to_vec(); 8], b"b\t8\n", "when they have left");
    // Of hundreds, the oldest go.
    let many: Vec<Client> = (0..300).map(|_| Client::connect(n.front.port)).collect();
    run_once(&n, &vec![b"c\t1\n".to_vec(); 8], b"c\t8\n", "beside many");
    drop(many);
    assert_eq!(faults(&status(n.admin), "lost"), 0, "{}", status(n.admin));
}

/// The log names the mapper that sent a word that cannot be merged, and the place; and the mappers
/// that a run waits for.
#[test]
fn long_words_and_missing_mappers_are_told() {
    let n = node(&["--set", "mappers.read_timeout=1500ms"]);
    let mut streams = vec![b"a\t1\nb\t1\n".to_vec(); 8];
    streams[3] = format!("a\t1\n{}\t1\n", "w".repeat(1500)).into_bytes();
    let mappers = send(n.front.port, &streams);
    assert_eq!(read_all(&mut n.reducer.accept().stream), None, "it was taken for whole");
    mappers.into_iter().for_each(|m| drop(m.join()));
    let log = n.front.output();
    assert!(
        log.contains("message 2 cannot be merged (too_long at kv.Pair.key)") && log.contains("(127.0.0.1:"),
        "{log}"
    );
    // A mapper that is killed behind a whole line: the line's end passes for the end mark.
    let mut eight = begun(&n, "a\t1\n");
    eight.iter_mut().skip(1).for_each(|c| {
        c.send("\n").finish_sending();
    });
    eight[0].finish_sending();
    assert_eq!(read_all(&mut n.reducer.accept().stream), None, "it was taken for whole");
    drop(eight);
    let log = n.front.output();
    assert!(
        log.contains(" ended within message 1, or behind it without the end mark of a whole stream (trunc"),
        "{log}"
    );
    let mut few: Vec<Client> = (0..6).map(|_| Client::connect(n.front.port)).collect();
    few.iter_mut().for_each(|c| {
        c.send("a\t1\n");
    });
    let _silent = Client::connect(n.front.port);
    let until = Instant::now() + PATIENCE;
    while !n.front.output().contains("2 of 8 inputs are missing since") {
        assert!(Instant::now() < until, "{}", n.front.output());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(n.front.output().contains("connected, but silent: 127.0.0.1:"), "{}", n.front.output());
}

#[test]
fn a_lost_reducer_resets_the_mappers() {
    // Refused.
    let to = format!("reducer=127.0.0.1:{}", free_port());
    let front = Wireloom::run("word_count_combiner", &["--set", &to]);
    for m in send(front.port, &vec![b"a\t1\n".to_vec(); 8]) {
        assert!(!m.join().expect("a mapper ends"), "a mapper believes that all is well");
    }
    // Lost in the middle, while mappers are silent and while they send.
    for silent in [true, false] {
        let n = node(&[]);
        let streams = vec![vec![]; 8];
        let mut eight: Vec<TcpStream> = streams
            .iter()
            .map(|_: &Vec<u8>| TcpStream::connect(("127.0.0.1", n.front.port)).expect("the node accepts"))
            .collect();
        eight.iter_mut().for_each(|s| s.write_all(b"0\t1\n").expect("the node takes it"));
        let reducer = n.reducer.accept();
        std::thread::sleep(Duration::from_millis(50));
        reducer.reset();
        for (i, mut s) in eight.into_iter().enumerate() {
            let sending = (0..200_000).all(|k| silent || s.write_all(format!("{k:08}{i}\t1\n").as_bytes()).is_ok());
            assert!(!sending || read_all(&mut s).is_none());
        }
        assert_eq!(faults(&status(n.admin), "lost"), 1, "{}", status(n.admin));
    }
}

#[test]
fn mappers_that_never_come_or_never_speak_run_out_of_time() {
    let n = node(&["--set", "mappers.idle_timeout=1500ms", "--set", "mappers.read_timeout=1500ms"]);
    let mut few: Vec<Client> = (0..3).map(|_| Client::connect(n.front.port)).collect();
    few.iter_mut().for_each(Client::expect_closed);
    assert_eq!(faults(&status(n.admin), "idle"), 0, "they were no mappers: {}", status(n.admin));
    let mut few: Vec<Client> = (0..3).map(|_| Client::connect(n.front.port)).collect();
    few.iter_mut().for_each(|c| {
        c.send("a\t1\n");
    });
    few.iter_mut().for_each(Client::expect_closed);
    let eight = begun(&n, "a\t1\n");
    assert_eq!(read_all(&mut n.reducer.accept().stream), None, "silence was taken for an end");
    drop(eight);
    assert_eq!(faults(&status(n.admin), "idle"), 2, "{}", status(n.admin));
    run_once(&n, &vec![b"a\t1\n".to_vec(); 8], b"a\t8\n", "after the time-outs");
}

/// A mapper that goes before the merge begins leaves its place to another.
#[test]
fn a_mapper_lost_early_can_come_again() {
    let n = node(&[]);
    let lost = Client::connect(n.front.port);
    std::thread::sleep(Duration::from_millis(50));
    lost.reset();
    std::thread::sleep(Duration::from_millis(50));
    run_once(&n, &vec![b"a\t1\n".to_vec(); 8], b"a\t8\n", "the full number");
}

#[test]
fn a_drain_finishes_the_run() {
    for cores in ["0", "0-1"] {
        let mut n = node(&["--cores", cores]);
        let mut eight = begun(&n, "a\t1\n");
        let mut reducer = n.reducer.accept();
        n.front.signal(15);
        eventually("a draining node takes no mappers", || TcpStream::connect(("127.0.0.1", n.front.port)).is_err());
        eight.iter_mut().for_each(|c| {
            c.send("b\t1\n\n").finish_sending();
        });
        assert_eq!(read_all(&mut reducer.stream).as_deref(), Some(&b"a\t8\nb\t8\n"[..]));
        assert_eq!(n.front.exit(), Some(0));
    }
    // Idle, and past the limit.
    let mut n = node(&[]);
    n.front.signal(15);
    assert_eq!(n.front.exit(), Some(0));
    let mut n = node(&["--drain", "1"]);
    let eight = begun(&n, "a\t1\n");
    let mut reducer = n.reducer.accept();
    n.front.signal(15);
    assert_eq!(read_all(&mut reducer.stream), None);
    assert_eq!(n.front.exit(), Some(0));
    drop(eight);
}

/// SIGKILL in the middle: even then the reducer sees no end in order.
#[test]
fn a_killed_node_is_an_error_to_the_reducer() {
    let mut n = node(&[]);
    let _eight = begun(&n, "a\t1\nb\t1\n");
    let mut reducer = n.reducer.accept();
    std::thread::sleep(Duration::from_millis(100));
    n.front.kill();
    assert_eq!(read_all(&mut reducer.stream), None);
}

/// A reducer that does not read for a while: mappers are held back by full buffers, memory stays
/// where it was.
#[test]
fn memory_is_flat_over_runs_and_stalls() {
    let n = node(&["--cores", "0-1"]);
    let big: Vec<Vec<u8>> = (0..8)
        .map(|i| (0..300_000).flat_map(|k| format!("word{:09}\t1\n", k * 8 + i).into_bytes()).collect())
        .collect();
    let wanted: Vec<u8> = (0..2_400_000).flat_map(|k| format!("word{k:09}\t1\n").into_bytes()).collect();
    let mut first = 0;
    for run in 0..3 {
        let mappers = send(n.front.port, &big);
        let mut reducer = n.reducer.accept();
        // Until all buffers are full: then nothing has to be done.
        let mut done = Vec::new();
        eventually("the mappers are held back", || {
            std::thread::sleep(Duration::from_millis(250));
            done.push(n.front.own_cpu_ms());
            done.len() > 3 && done[done.len() - 4..].iter().all(|d| *d == done[done.len() - 1])
        });
        let rss = n.front.rss_kib();
        if run == 0 {
            first = rss;
        }
        assert!(rss < first + 2048, "memory grows from {first} to {rss} KiB");
        assert!(rss < 32 * 1024, "{rss} KiB");
        assert!(mappers.iter().all(|m| !m.is_finished()), "mappers are held back");
        assert!(read_all(&mut reducer.stream).is_some_and(|got| got == wanted));
        mappers.into_iter().for_each(|m| assert!(m.join().expect("a mapper ends")));
    }
}
