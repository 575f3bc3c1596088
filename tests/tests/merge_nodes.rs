//! Nodes before and behind `merge` on real sockets. Messages are dropped, changed, built anew or
//! sent twice, and nodes fault: compiled and interpreted, on one core and on two.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use wireloom_tests::admin::{eventually, faults, status};
use wireloom_tests::folder::Folder;
use wireloom_tests::{free_port, Backend, Process, Wireloom, PATIENCE};

/// How programs run.
const WAYS: [&[&str]; 3] = [&["--cores", "0"], &["--cores", "0-1"], &["--interpret", "--cores", "0,1"]];
const INPUTS: usize = 4;

struct Node {
    front: Process,
    reducer: Backend,
    admin: u16,
    _folder: Folder,
}

/// A word count whose wiring is `mappers BEFORE -> merge … BEHIND -> out`.
fn node(elements: &str, members: &str, (before, behind): (&str, &str), extra: &[&str]) -> Node {
    let folder = Folder::new("merge-nodes");
    let merge = "merge by .key with |a, b| kv.Pair { key: a.key, count: a.count + b.count }";
    let program = format!(
        "use std.kv\n\n{elements}\n\napp nodes {{\n    param port:    u16 = 9000\n    param reducer: endpoint\n\n    \
         port mappers = listen tcp(port)     as kv.stream [{INPUTS}] {{ end_mark '\\n' }}\n    \
         port out     = connect tcp(reducer) as kv.stream {{ end_mark '\\n' }}\n\n    \
         {members}\n\n    mappers {before} -> {merge} {behind} -> out\n}}\n"
    );
    let file = folder.name_of("nodes.loom");
    std::fs::write(&file, program).expect("the folder is writable");
    let (reducer, admin) = (Backend::new(), free_port());
    let (to, page) = (format!("reducer=127.0.0.1:{}", reducer.port), admin.to_string());
    let args = [&["--set", &to, "--admin", &page], extra].concat();
    Node { front: Wireloom::run_file(&file, &args, |_| {}), reducer, admin, _folder: folder }
}

/// The reducer's stream without its end mark; None: it was reset.
fn read_all(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {
            assert_eq!(all.pop(), Some(b'\n'), "the end mark");
            Some(String::from_utf8(all).expect("text"))
        }
        Err(e) if e.kind() == ErrorKind::ConnectionReset => None,
        Err(e) => panic!("the stream does not end: {e}, after {} bytes", all.len()),
    }
}

/// One run: each stream from a thread of its own, in pieces.
fn run(n: &Node, streams: &[String; INPUTS], piece: usize) -> Option<String> {
    let send = |text: &String| {
        let (bytes, mut s) = (text.clone() + "\n", TcpStream::connect(("127.0.0.1", n.front.port)).expect("accepted"));
        s.set_nodelay(true).expect("a socket");
        std::thread::spawn(move || {
            // A run that ends early resets its mappers.
            let _ = bytes.as_bytes().chunks(piece).try_for_each(|b| s.write_all(b));
            let _ = s.shutdown(Shutdown::Write);
            s
        })
    };
    let mappers: Vec<_> = streams.iter().map(send).collect();
    let got = read_all(&mut n.reducer.accept().stream);
    mappers.into_iter().for_each(|m| drop(m.join().expect("a mapper ends")));
    got
}

fn lines<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a u64)>) -> String {
    pairs.into_iter().map(|(k, v)| format!("{k}\t{v}\n")).collect()
}

/// Words in order, the same in no two streams.
fn words(mapper: usize, n: usize) -> BTreeMap<String, u64> {
    (0..n).map(|i| (format!("word{:06}", (i * 7919 + mapper * 13) % (n * 3)), (i % 7) as u64)).collect()
}

const STOP: &str = "
element Stop {
    in  x: kv.Pair
    out y: kv.Pair

    counter stopped

    on x(m) { if m.count == 3 { stopped += 1 } else { m -> y } }
}";

/// Messages are dropped by an element and by a condition, and built anew with shorter keys.
#[test]
fn nodes_drop_and_rebuild() {
    let before = "-> stop -> map kv.Pair { key: slice(.key, 0, 8), count: .count * 2 }";
    for way in WAYS {
        let n = node(STOP, "stop = Stop()", (before, "-> where .count >= 20"), way);
        for (size, piece) in [(20_000, 1 << 16), (40, 1), (40, 5)] {
            let stopped = status(n.admin)["apps"][0]["counters"]["stop.stopped"].as_u64().expect("a counter");
            let parts: [_; INPUTS] = std::array::from_fn(|m| words(m, if m == 2 { 0 } else { size }));
            let mut sums = BTreeMap::new();
            for (k, v) in parts.iter().flatten().filter(|(_, v)| **v != 3) {
                *sums.entry(k[..8].to_string()).or_insert(0) += v * 2;
            }
            sums.retain(|_, n| *n >= 20);
            let got = run(&n, &std::array::from_fn(|m| lines(&parts[m])), piece);
            assert!(got.as_deref() == Some(&lines(&sums)), "{way:?}, {size}: {} words: {got:.200?}", sums.len());
            let s = status(n.admin);
            let merge = &s["apps"][0]["merges"][0];
            let all = parts.iter().map(BTreeMap::len).sum::<usize>();
            assert!(merge["messages_in"].as_u64() >= Some(all as u64), "{s}");
            let dropped = parts.iter().flatten().filter(|(_, v)| **v == 3).count() as u64;
            let counted = || status(n.admin)["apps"][0]["counters"]["stop.stopped"].as_u64();
            eventually("the element's counter", || counted() == Some(stopped + dropped));
        }
    }
}

#[test]
fn what_is_counted() {
    let n = node("", "", ("-> where .key != \"b\"", "-> where .key != \"c\""), WAYS[1]);
    let streams = std::array::from_fn(|_| "a\t1\nb\t1\nc\t1\nd\t1\n".to_string());
    assert_eq!(run(&n, &streams, 100).as_deref(), Some("a\t4\nd\t4\n"));
    let s = status(n.admin);
    let merge = &s["apps"][0]["merges"][0];
    let number = |name: &str| merge[name].as_u64().expect("a number");
    assert_eq!((number("messages_in"), number("messages_out")), (16, 2), "{s}");
    assert_eq!((number("bytes_in"), number("bytes_out")), (68, 9), "{s}");
}

/// Nothing comes in, or nothing is left: the reducer gets a whole stream all the same.
#[test]
fn streams_without_messages_are_whole() {
    for way in WAYS {
        let empty = std::array::from_fn(|_| String::new());
        let some = std::array::from_fn(|m| lines(&words(m, 3000)));
        for wiring in [("-> where .count > 1000", ""), ("", "-> where .count > 100000"), ("-> drop", "-> drop")] {
            // `drop` ends a wiring, so it is written as a condition that never holds.
            let (before, behind) =
                (wiring.0.replace("-> drop", "-> where false"), wiring.1.replace("-> drop", "-> where false"));
            let n = node("", "", (&before, &behind), way);
            assert_eq!(run(&n, &empty, 100).as_deref(), Some(""), "{wiring:?}");
            assert_eq!(run(&n, &some, 1000).as_deref(), Some(""), "{wiring:?}");
        }
    }
}

/// The order counts behind the nodes: they may put it right, and may spoil it.
#[test]
fn the_order_holds_behind_the_nodes() {
    for way in WAYS {
        let n = node("", "", ("-> where .key != \"zz\"", ""), way);
        let streams = std::array::from_fn(|_| "zz\t1\na\t1\nzz\t1\nb\t1\n".to_string());
        assert_eq!(run(&n, &streams, 100).as_deref(), Some("a\t4\nb\t4\n"), "{way:?}");
        let n =
            node("", "", ("-> map kv.Pair { key: if .key == \"b\" { \"Z\" } else { .key }, count: .count }", ""), way);
        let streams = std::array::from_fn(|m| if m == 1 { "a\t1\nb\t1\n" } else { "a\t1\n" }.to_string());
        assert_eq!(run(&n, &streams, 100), None, "{way:?}: a wrong order was taken for whole");
        assert_eq!(faults(&status(n.admin), "constraint"), 1, "{way:?}");
        let log = n.front.output();
        assert!(log.contains("message 2 behind the nodes cannot be merged (constraint at kv.Pair.key)"), "{log}");
        // The next run is not concerned.
        let good = std::array::from_fn(|_| "a\t1\n".to_string());
        assert_eq!(run(&n, &good, 100).as_deref(), Some("a\t4\n"), "{way:?}");
    }
}

/// Bad messages, and faults of the nodes themselves, end the run with a reset.
#[test]
fn faults_end_the_run() {
    let long = format!("a\t5\n{}\t1\n", "w".repeat(1500));
    for way in WAYS {
        for (wiring, bad, kind, told) in [
            (
                ("-> where .count > 0", ""),
                long.as_str(),
                "too_long",
                "message 2 cannot be handled (too_long at kv.Pair.key)",
            ),
            (
                ("-> where .count > 0", ""),
                "a\t5\nb\tx\n",
                "malformed",
                "message 2 cannot be handled (malformed at kv.Pair.count)",
            ),
            (
                ("-> where .count > 0", ""),
                "a\t5\nb\t1",
                "truncated",
                "message 2 cannot be handled (truncated at kv.Pair.count)",
            ),
            (("-> where 100 / .count > 0", ""), "a\t5\nb\t0\n", "division", "message 2 cannot be handled (division"),
            (
                ("", "-> where 100 / (.count - 20) > 0"),
                "a\t5\nb\t20\n",
                "division",
                "a merged message cannot be handled (division",
            ),
        ] {
            let n = node("", "", wiring, way);
            let streams = std::array::from_fn(|m| if m == 1 { bad.to_string() } else { "a\t5\n".to_string() });
            assert_eq!(run(&n, &streams, 1 << 16), None, "{way:?}, {wiring:?}: {bad:.20?} was taken for whole");
            assert_eq!(faults(&status(n.admin), kind), 1, "{way:?}, {wiring:?}: {}", status(n.admin));
            let log = n.front.output();
            assert!(log.contains(told), "{way:?}, {wiring:?}: {log}");
        }
    }
}

/// Behind the merge there is one task, so an element has state; it lasts from run to run.
#[test]
fn state_behind_a_merge() {
    let elements = "
element First {
    in  x: kv.Pair
    out y: kv.Pair

    param most: u64

    state passed: u64

    on x(m) {
        if passed < most {
            passed += 1
            m -> y
        }
    }
}";
    for way in WAYS {
        let n = node(elements, "first = First(5)", ("", "-> first"), way);
        let three = std::array::from_fn(|_| "a\t1\nb\t1\nc\t1\n".to_string());
        assert_eq!(run(&n, &three, 100).as_deref(), Some("a\t4\nb\t4\nc\t4\n"), "{way:?}");
        assert_eq!(run(&n, &three, 100).as_deref(), Some("a\t4\nb\t4\n"), "{way:?}");
        assert_eq!(run(&n, &three, 100).as_deref(), Some(""), "{way:?}");
    }
}

/// One message becomes several, and far more bytes than came in.
#[test]
fn a_node_sends_several_messages() {
    let elements = "
element Twice {
    in  x: kv.Pair
    out y: kv.Pair

    on x(m) {
        m -> y
        kv.Pair { key: concat(m.key, \"0123456789012345678901234567890123456789012345678901234567890123456789\"), count: 1 } -> y
    }
}";
    let more = "0123456789012345678901234567890123456789012345678901234567890123456789";
    for way in WAYS {
        for (before, behind) in [("-> where len(.key) < 20 -> twice", ""), ("", "-> where len(.key) < 20 -> twice")] {
            let n = node(elements, "twice = Twice()", (before, behind), way);
            let parts: [_; INPUTS] = std::array::from_fn(|m| words(m, 8000));
            let mut sums: BTreeMap<String, u64> = BTreeMap::new();
            for (k, v) in parts.iter().flatten() {
                *sums.entry(k.clone()).or_insert(0) += v;
                let again = sums.entry(k.clone() + more).or_insert(0);
                *again = if before.is_empty() { 1 } else { *again + 1 };
            }
            let got = run(&n, &std::array::from_fn(|m| lines(&parts[m])), 1 << 16);
            assert!(got.as_deref() == Some(&lines(&sums)), "{way:?} {before:?} {behind:?}: {got:.300?}");
        }
    }
}

/// Fields of all kinds that a combination may have are written, compiled and interpreted.
#[test]
fn flags_and_numbers_are_written() {
    let program = |from: u16, to: u16| {
        format!(
            "charset letter = 'a'..='z'\nunit Seen {{ key: text<20> of letter until \" \"  loud: flag \"!\"  n: decimal<u32> until \" \"  more: flag \"++\"  hi: u4  lo: u4  \"\\n\" }}\n\
             protocol seen {{ stateless  request Seen }}\n\
             app flags {{\n    port i = listen tcp({from}) as seen [2] {{ end_mark '\\n' }}\n    \
             port o = connect tcp(127.0.0.1:{to}) as seen {{ end_mark '\\n' }}\n    \
             i -> merge by .key with |a, b| Seen {{ key: a.key, loud: a.loud or b.loud, n: a.n + b.n, more: a.more and b.more, hi: a.hi | b.hi, lo: b.lo }} -> o\n}}\n"
        )
    };
    for way in WAYS {
        let (folder, reducer, port) = (Folder::new("merge-flags"), Backend::new(), free_port());
        std::fs::write(folder.file("flags.loom"), program(port, reducer.port)).expect("the folder is writable");
        let mut command = Wireloom::program();
        command.arg("run").arg(folder.file("flags.loom")).args(way);
        let _node = Process::start_ours("flags", &mut command, port);
        let inputs = ["a 1 x\nb !2 ++y\nc 3 z\nd 7 ++d\n\n", "a !1 X\nb 2 ++Y\nc 3 Z\nd 7 D\n\n"];
        let both = inputs.map(|text| {
            let mut s = TcpStream::connect(("127.0.0.1", port)).expect("accepted");
            s.write_all(text.as_bytes()).expect("it is sent");
            s.shutdown(Shutdown::Write).expect("a socket");
            s
        });
        let got = read_all(&mut reducer.accept().stream).expect("a whole stream");
        assert_eq!(got, "a !2 x\nb !4 ++y\nc 6 z\nd 14 d\n", "{way:?}");
        drop(both);
    }
}
