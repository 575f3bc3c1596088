//! The bytes that frame a stream are passed on when they are accepted, never before. Of a refused
//! line no byte goes on, however its bytes arrive, by interpreter and compiled code.

use wireloom_interp::differential::{contexts, passed_on, Event};
use wireloom_ir::UnitId;
use wireloom_tests::programs::{no_internal_errors, twins, Twins};

/// The end of a message, the part of it that is passed on, and whether it is refused.
type Case = (&'static str, &'static str, bool);

/// Chunks, the part that is passed on, their data, and whether they are refused.
const CHUNKS: &[(&str, &str, &str, bool)] = &[
    ("5\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "hello", false),
    ("5;a=b\r\nhello\r\n0;c;d\r\nT: v\r\n\r\n", "5\r\nhello\r\n0\r\nT: v\r\n\r\n", "hello", false),
    ("5;\r\nhello\r\n0\r\n\r\n", "", "", true),
    ("5;a=\r\nhello\r\n0\r\n\r\n", "", "", true),
    ("5;a=\"b\r\nhello\r\n0\r\n\r\n", "", "", true),
    ("5;a;b;c;d;e;f;g;h;i\r\nhello\r\n0\r\n\r\n", "", "", true),
    ("5 \r\nhello\r\n0\r\n\r\n", "", "", true),
    ("5\rhello\r\n0\r\n\r\n", "", "", true),
    ("8000000000000000\r\nhello", "", "", true),
    ("10000000000000000\r\nhello", "", "", true),
    ("2\r\nhi\r\n3;x=y;\r\nabc\r\n0\r\n\r\n", "2\r\nhi\r\n", "hi", true),
    ("2;x=y\r\nhi\r\n3;x=y;\r\nabc\r\n0\r\n\r\n", "2\r\nhi\r\n", "hi", true),
    ("2\r\nhi!\r\n0\r\n\r\n", "2\r\nhi", "hi", true),
    ("0;\r\n\r\n", "", "", true),
    ("0\r\nA: b\r\nContent-Length: 5\r\n\r\n", "0\r\nA: b\r\n", "", true),
    ("0\r\nA: b\r\nC : d\r\n\r\n", "0\r\nA: b\r\n", "", true),
    ("0\r\nA: b\r\n\rx", "0\r\nA: b\r\n", "", true),
];

/// Behind a first value that flows.
const WORDS: &[Case] = &[
    ("$2\r\nab\r\n", "$2\r\nab\r\n", false),
    ("$02\r\nab\r\n", "", true),
    ("$536870913\r\nab\r\n", "", true),
    ("$2\rab\r\n", "", true),
    ("$x\r\nab\r\n", "", true),
    ("$2\r\nabc\r\n", "$2\r\nab", true),
];

/// Reads `input` at once, in two pieces of every size, and in pieces of every small size.
fn each_way(t: &Twins, unit: UnitId, ctx: u64, input: &[u8], mut check: impl FnMut(&Event, &[u8], &str)) {
    let compiled = t.compiled.as_ref().expect("a C compiler");
    // The asked bytes are at the end of a large input, whose views take long to clear.
    let (front, back) = if input.len() > 60_000 { (16, 32) } else { (64, 100) };
    let near = |at: &usize| *at < front || input.len() - at < back;
    let mut ways: Vec<Vec<usize>> = (1..input.len()).filter(near).map(|at| vec![at]).collect();
    ways.extend((1..8).map(|n| {
        let fine = input.len().min(100) / n;
        let rest = input.len() - fine * n;
        let front = if rest > 200 { vec![rest - 100] } else { Vec::new() };
        [vec![n; fine], front, vec![n; 200 / n + 1]].concat()
    }));
    ways.push(Vec::new());
    for (who, table) in [("interpreter", t.interpreted.table()), ("compiled code", compiled.table())] {
        for cuts in &ways {
            // SAFETY: both tables live as long as the process.
            let (event, passed) = unsafe { passed_on(table, unit.0, input, ctx, cuts, false) };
            check(&event, &passed, &format!("{who}, cuts {:?}", &cuts[..cuts.len().min(5)]));
        }
    }
}

fn unit_named(t: &Twins, name: &str) -> UnitId {
    let n = t.module.units.iter().position(|u| u.name.ends_with(name)).unwrap_or_else(|| panic!("no unit {name}"));
    UnitId(n as u32)
}

fn is_refused(event: &Event) -> bool {
    matches!(event, Event::Bad { .. } | Event::InStep { .. })
}

/// `bare`: of chunks only the data are passed on.
fn check_chunks(name: &str, head: &str, bare: bool) {
    let t = twins("std/http.loom");
    let unit = unit_named(&t, name);
    let old = t.module.unit(unit).params.iter().find(|p| p.name == "old").map_or(0, |p| 1 << p.shift);
    let ctx = contexts(&t.module, unit)[0] | if bare { old } else { 0 };
    for &(body, framed, data, bad) in CHUNKS {
        let (input, good) = (format!("{head}{body}"), if bare { data } else { framed });
        each_way(&t, unit, ctx, input.as_bytes(), |event, passed, how| {
            let passed = String::from_utf8_lossy(passed);
            assert!(passed == good && is_refused(event) == bad, "{body:?}, {how}: {event:?}, passed on: {passed:?}");
        });
    }
    no_internal_errors();
}

#[test]
fn chunks_of_requests() {
    check_chunks("http.Request", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", false);
}

#[test]
fn chunks_of_responses() {
    check_chunks("http.Response", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false);
}

/// As clients of HTTP/1.0 get them.
#[test]
fn bare_chunks_of_responses() {
    check_chunks("http.Response", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true);
}

/// Lines in front of the values behind a large one (SET key value EX …).
#[test]
fn words_behind_a_large_value() {
    let t = twins("std/redis.loom");
    let unit = unit_named(&t, "redis.Request");
    let large = "v".repeat(70_000);
    let flow = format!("{large}\r\n");
    for &(word, good, bad) in WORDS {
        let input = format!("*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$70000\r\n{flow}{word}");
        each_way(&t, unit, contexts(&t.module, unit)[0], input.as_bytes(), |event, passed, how| {
            // The value's own CRLF may wait for the line behind it.
            let held = passed == large.as_bytes() && good.is_empty();
            assert!(
                held || passed == format!("{flow}{good}").as_bytes(),
                "{word:?}, {how}: passed on {} bytes of {}",
                passed.len(),
                flow.len() + good.len()
            );
            assert_eq!(is_refused(event), bad, "{word:?}, {how}: {event:?}");
        });
    }
    no_internal_errors();
}

/// Behind a value that flows there is CRLF, or it is not passed on.
#[test]
fn the_end_of_a_large_value() {
    let t = twins("std/memcached.loom");
    let unit = unit_named(&t, "memcached.Request");
    let large = "v".repeat((1 << 20) + 1);
    for (end, good, bad) in [("\r\n", "\r\n", false), ("\rx", "", true), ("xx", "", true)] {
        let input = format!("set k 0 0 {}\r\n{large}{end}", large.len());
        each_way(&t, unit, contexts(&t.module, unit)[0], input.as_bytes(), |event, passed, how| {
            let held = passed.strip_prefix(large.as_bytes());
            assert!(
                held == Some(good.as_bytes()) && is_refused(event) == bad,
                "{end:?}, {how}: {event:?}, {} bytes",
                passed.len()
            );
        });
    }
    no_internal_errors();
}

/// Lines between the values of an answer.
#[test]
fn values_of_an_answer() {
    let t = twins("std/memcached.loom");
    let unit = unit_named(&t, "memcached.Response");
    let first = "VALUE a 0 2\r\nhi\r\n";
    for (more, good, bad) in [
        ("VALUE b 0 2\r\nyo\r\nEND\r\n", "VALUE b 0 2\r\nyo\r\nEND\r\n", false),
        ("VALUE b 0 x\r\nyo\r\nEND\r\n", "", true),
        ("VALUE b 0 2 z\r\nyo\r\nEND\r\n", "", true),
        ("VALUE b 0 2\ryo\r\nEND\r\n", "", true),
        ("ENDE\r\n", "", true),
    ] {
        let input = format!("{first}{more}");
        let whole = format!("{first}{good}");
        each_way(&t, unit, contexts(&t.module, unit)[0], input.as_bytes(), |event, passed, how| {
            let passed = String::from_utf8_lossy(passed);
            assert!(passed == whole && is_refused(event) == bad, "{more:?}, {how}: {event:?}, passed on: {passed:?}");
        });
    }
    no_internal_errors();
}
