//! `word_count_combiner`: 8 sorted streams become one, with the counts of equal words added. A cut
//! stream is never taken for a whole one.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wireloom_tests::{Backend, Client, Process, Wireloom, PATIENCE};

struct Combiner {
    front: Process,
    reducer: Backend,
}

fn combiner(extra: &[&str]) -> Combiner {
    let reducer = Backend::new();
    let to = format!("reducer=127.0.0.1:{}", reducer.port);
    Combiner { front: Wireloom::run("word_count_combiner", &[&["--set", &to], extra].concat()), reducer }
}

/// How the reducer's stream ended.
#[derive(Debug, PartialEq)]
enum End {
    Whole,
    Reset,
}

/// Reads the reducer's stream to its end.
fn reduce(stream: &mut TcpStream) -> (Vec<u8>, End) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (all, End::Whole),
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return (all, End::Reset),
            Err(e) => panic!("the reducer's stream does not end: {e}, after {} bytes", all.len()),
        }
    }
}

/// A whole stream: the lines, and the empty line that says so.
fn lines(pairs: &BTreeMap<String, u64>) -> Vec<u8> {
    pairs.iter().flat_map(|(k, v)| format!("{k}\t{v}\n").into_bytes()).chain(*b"\n").collect()
}

/// The words of one mapper, and their sum over all mappers.
fn words(mapper: u64, n: u64) -> BTreeMap<String, u64> {
    (0..n).map(|i| (format!("word{:07}", (i * 7919 + mapper * 13) % (n * 3)), i % 97 + mapper)).collect()
}

fn sum(parts: &[BTreeMap<String, u64>]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (k, v) in parts.iter().flatten() {
        *all.entry(k.clone()).or_insert(0) += v;
    }
    all
}

/// Sends each part from a thread of its own and closes.
fn map(port: u16, parts: &[BTreeMap<String, u64>], piece: usize) -> Vec<std::thread::JoinHandle<()>> {
    let send = |part: &BTreeMap<String, u64>| {
        let (bytes, mut stream) = (lines(part), TcpStream::connect(("127.0.0.1", port)).expect("the combiner accepts"));
        std::thread::spawn(move || {
            for b in bytes.chunks(piece) {
                stream.write_all(b).expect("the combiner takes all");
            }
        })
    };
    parts.iter().map(send).collect()
}

fn combine(parts: &[BTreeMap<String, u64>], piece: usize, extra: &[&str]) {
    let c = combiner(extra);
    let mappers = map(c.front.port, parts, piece);
    let (got, end) = reduce(&mut c.reducer.accept().stream);
    mappers.into_iter().for_each(|m| m.join().expect("a mapper ends"));
    let wanted = lines(&sum(parts));
    assert_eq!(end, End::Whole);
    assert!(got == wanted, "{} bytes instead of {}", got.len(), wanted.len());
}

#[test]
fn eight_streams_are_summed() {
    let parts: Vec<_> = (0..8).map(|m| words(m, 50_000)).collect();
    combine(&parts, 1 << 16, &[]);
}

#[test]
fn over_two_cores() {
    let parts: Vec<_> = (0..8).map(|m| words(m, 50_000)).collect();
    combine(&parts, 1 << 16, &["--cores", "0-1"]);
}

#[test]
fn uneven_and_empty_streams() {
    let parts: Vec<_> =
        [0, 1, 20_000, 0, 3, 1, 500, 0].into_iter().enumerate().map(|(m, n)| words(m as u64, n)).collect();
    combine(&parts, 1 << 14, &[]);
    combine(&vec![BTreeMap::new(); 8], 1, &[]);
    let long =
        (0..50).map(|i| (format!("{}{i:03}", "k".repeat(1000)), u64::from(u32::MAX))).collect::<BTreeMap<_, _>>();
    combine(&vec![long; 8], 1 << 14, &[]);
}

#[test]
fn pieces_of_any_size() {
    let parts: Vec<_> = (0..8).map(|m| words(m, 100)).collect();
    for piece in [1, 3, 7] {
        combine(&parts, piece, &[]);
    }
}

/// A mapper is reset, or ends within a line, between two lines, or before it has sent anything. The
/// reducer sees an error, never an end, and never the empty line of a whole stream.
#[test]
fn a_lost_mapper_is_an_error_to_the_reducer() {
    let ends = [
        "word0000001\t1\nword0000002\t5",
        "word0000001\t1\nword0000002\t5\n",
        "word0000001\t1\n\nword0000002\t5\n",
        "\n\n",
    ];
    for (reset, sent) in ends.iter().flat_map(|e| [(true, e), (false, e)]) {
        let c = combiner(&[]);
        let whole: Vec<_> = (0..7).map(|m| words(m, 1000)).collect();
        let mappers = map(c.front.port, &whole, 1 << 16);
        let mut lost = Client::connect(c.front.port);
        lost.send(sent);
        let mut reducer = c.reducer.accept();
        std::thread::sleep(Duration::from_millis(100));
        if reset {
            lost.reset();
        } else {
            drop(lost);
        }
        let (got, end) = reduce(&mut reducer.stream);
        mappers.into_iter().for_each(|m| drop(m.join()));
        assert_eq!(end, End::Reset, "reset {reset}, {sent:?}: {} bytes were taken for whole", got.len());
        assert!(!got.ends_with(b"\n\n"), "reset {reset}, {sent:?}: the end mark was sent");
    }
}

/// A mapper's process is killed exactly between two lines: its kernel closes the connection in
/// order.
#[test]
fn a_killed_mapper_is_an_error_to_the_reducer() {
    let c = combiner(&[]);
    let whole: Vec<_> = (0..7).map(|m| words(m, 1000)).collect();
    let mappers = map(c.front.port, &whole, 1 << 16);
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; printf 'word0000001\\t1\\n' >&3; exec sleep 60", c.front.port);
    let mut killed = std::process::Command::new("bash").args(["-c", &script]).spawn().expect("bash runs");
    let mut reducer = c.reducer.accept();
    std::thread::sleep(Duration::from_millis(300));
    killed.kill().expect("it can be killed");
    killed.wait().expect("it is gone");
    let (got, end) = reduce(&mut reducer.stream);
    mappers.into_iter().for_each(|m| drop(m.join()));
    assert_eq!(end, End::Reset, "{} bytes were taken for whole", got.len());
}

/// Without end marks, by request: closing in order is the end, as `sort -m` has it.
#[test]
fn plain_streams_by_request() {
    let c = combiner(&["--set", "mappers.end_mark=0", "--set", "out.end_mark=0", "--cores", "0-1"]);
    let parts: Vec<_> = (0..8).map(|m| words(m, 1000)).collect();
    for p in &parts {
        let bytes = lines(p);
        Client::connect(c.front.port).send(&bytes[..bytes.len() - 1]).finish_sending();
    }
    let (got, end) = reduce(&mut c.reducer.accept().stream);
    let wanted = lines(&sum(&parts));
    assert!(end == End::Whole && got == wanted[..wanted.len() - 1], "{end:?}, {} bytes", got.len());
}

/// A combiner's output is another's input, marks and all.
#[test]
fn a_tree_of_combiners() {
    let root = combiner(&[]);
    let to = format!("reducer=127.0.0.1:{}", root.front.port);
    let leaves: Vec<_> = (0..8).map(|_| Wireloom::run("word_count_combiner", &["--set", &to])).collect();
    let parts: Vec<_> = (0..64).map(|m| words(m, 200)).collect();
    let mappers: Vec<_> = leaves.iter().zip(parts.chunks(8)).flat_map(|(l, p)| map(l.port, p, 1000)).collect();
    let (got, end) = reduce(&mut root.reducer.accept().stream);
    mappers.into_iter().for_each(|m| m.join().expect("a mapper ends"));
    assert!(end == End::Whole && got == lines(&sum(&parts)), "{end:?}, {} bytes", got.len());
}

#[test]
fn an_end_mark_that_can_begin_a_line_is_refused() {
    let port = format!("port={}", wireloom_tests::free_port());
    let sets = ["--set", port.as_str(), "--set", "reducer=127.0.0.1:1", "--set", "mappers.end_mark=97"];
    let out = Wireloom::command(&[&["run", "apps/word_count_combiner.loom"], &sets[..]].concat());
    assert!(out.code != Some(0) && out.text.contains("the end mark 'a' can begin a message"), "{}", out.text);
}

#[test]
fn wrong_order_and_bad_lines_are_errors() {
    for bad in ["b\t1\na\t1\n", "a\t1\na\tx\n", "a\t-1\n", "a\t99999999999999999999\n", "no tab\n", "a\t1 \n", "\n"] {
        let c = combiner(&[]);
        let mappers = map(c.front.port, &vec![BTreeMap::from([("z".to_string(), 1)]); 7], 100);
        // Each with the end mark: not its absence is the fault.
        Client::connect(c.front.port).send(format!("{bad}\n"));
        let (got, end) = reduce(&mut c.reducer.accept().stream);
        mappers.into_iter().for_each(|m| drop(m.join()));
        assert_eq!(end, End::Reset, "{bad:?}: {} bytes were taken for whole", got.len());
    }
}

/// The reducer does not read: the mappers are held back, memory stays flat; then all arrives.
#[test]
fn a_slow_reducer_holds_the_mappers_back() {
    let c = combiner(&[]);
    let parts: Vec<_> = (0..8).map(|m| words(m, 400_000)).collect();
    let before = c.front.rss_kib();
    let mappers = map(c.front.port, &parts, 1 << 16);
    let mut reducer = c.reducer.accept();
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        let grown = c.front.rss_kib().saturating_sub(before);
        assert!(grown < 32 * 1024, "memory grew by {grown} KiB");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (got, end) = reduce(&mut reducer.stream);
    mappers.into_iter().for_each(|m| m.join().expect("a mapper ends"));
    assert!(end == End::Whole && got == lines(&sum(&parts)));
}
