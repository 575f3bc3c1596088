//! Requests and replies: order, fragmentation, gather, hold, tails.

use super::*;
use crate::engine::memory::Ending;

#[test]
fn echo_and_pipelining() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let c = s.client("client").unwrap();
        c.send(b"e one\ne two\ne th");
        s.settle();
        assert_eq!(text(&c), "e one\ne two\n");
        c.send(b"ree\n");
        s.settle();
        assert_eq!(text(&c), "e three\n");
        assert_clean(&mut s);
    }
}

#[test]
fn calls_on_a_shared_connection_answer_in_order() {
    let mut s = sim(false, &[]);
    let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
    a.send(b"g0 a1\ng1 a2\n");
    b.send(b"g0 b1\n");
    s.settle();
    let (x, y) = (s.backend("backends", 0).unwrap(), s.backend("backends", 1).unwrap());
    assert_eq!((text(&x), text(&y)), ("g0 a1\ng0 b1\n".into(), "g1 a2\n".into()));
    // The second server answers first: its answer waits for its turn.
    y.send(b"r a2\n");
    s.settle();
    assert_eq!(text(&a), "");
    x.send(b"r a1\nr b");
    s.settle();
    assert_eq!((text(&a), text(&b)), ("r a1\nr a2\n".into(), "".into()));
    x.send(b"1\n");
    s.settle();
    assert_eq!(text(&b), "r b1\n");
    assert_eq!(s.stats(0).ports[0].replies.get(), 3);
    assert_clean(&mut s);
}

#[test]
fn exclusive_connections_are_pooled_and_limited() {
    let mut s = sim(true, &["backends.max_connections=1"]);
    let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
    a.send(b"g a\n");
    b.send(b"g b\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    assert_eq!(text(&x), "g a\n");
    assert!(s.backend("backends", 0).is_none());
    x.send(b"r a\n");
    s.settle();
    assert_eq!((text(&a), text(&x)), ("r a\n".into(), "g b\n".into()));
    x.send(b"r b\n");
    s.settle();
    assert_eq!(text(&b), "r b\n");
    a.send(b"g a\n");
    s.settle();
    assert_eq!(text(&x), "g a\n", "the same connection again");
    assert_clean(&mut s);
}

#[test]
fn gather_joins_parts_and_names_the_lost() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let c = s.client("client").unwrap();
        c.send(b"a all\n");
        s.settle();
        let (x, y) = (s.backend("backends", 0).unwrap(), s.backend("backends", 1).unwrap());
        y.send(b"r two\n");
        s.settle();
        x.send(b"r one\n");
        s.settle();
        assert_eq!(text(&c), "r one+r two+\n");
        c.send(b"a all\n");
        s.settle();
        x.send(b"r one\n");
        s.settle();
        y.send(b"r tw");
        y.finish();
        s.settle();
        assert_eq!(text(&c), "r one+(8)\n");
        assert_clean(&mut s);
    }
}

#[test]
fn held_request_and_reply_outlive_the_second_call() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"h key\n");
    s.settle();
    let (x, y) = (s.backend("backends", 0).unwrap(), s.backend("backends", 1));
    assert!(y.is_none());
    x.send(b"r first\n");
    s.settle();
    let y = s.backend("backends", 1).unwrap();
    x.send(b"");
    y.send(b"r second\n");
    s.settle();
    assert_eq!(text(&c), "h key=r first+r second\n");
    assert_clean(&mut s);
}

#[test]
fn tails_pass_whole_or_streaming() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let c = s.client("client").unwrap();
        c.send(b"d:10 put\n01234");
        s.settle();
        if exclusive {
            let x = s.backend("backends", 0).unwrap();
            assert_eq!(text(&x), "d:10 put\n01234");
            c.send(b"56789e next\n");
            s.settle();
            assert_eq!(text(&x), "56789");
            x.send(b"D:6 got\nabc");
            s.settle();
            assert_eq!(text(&c), "D:6 got\nabc");
            x.send(b"def");
            s.settle();
            assert_eq!(text(&c), "defe next\n");
        } else {
            assert!(s.backend("backends", 0).is_none(), "waits for the whole message");
            c.send(b"56789e next\n");
            s.settle();
            let x = s.backend("backends", 0).unwrap();
            assert_eq!(text(&x), "d:10 put\n0123456789");
            // A short answer of a shared connection is awaited, too.
            x.send(b"D:6 got\nabc");
            s.settle();
            assert_eq!(text(&c), "");
            x.send(b"def");
            s.settle();
            assert_eq!(text(&c), "D:6 got\nabcdefe next\n");
        }
        assert_clean(&mut s);
    }
}

#[test]
fn echo_of_a_tail() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let c = s.client("client").unwrap();
        c.send(b"t:5 x\n01");
        s.settle();
        c.send(b"234e\n");
        s.settle();
        assert_eq!(text(&c), "t:5 x\n01234e\n");
        assert_clean(&mut s);
    }
}

#[test]
fn every_fragmentation_gives_the_same_bytes() {
    let input = b"e 1\nd:7 abc\n1234567g x\nq0 silent\nt:3 \nxyzg1 y\ne end\n";
    let want = "e 1\nD:4 r\nabcdr one\nt:3 \nxyzr two\ne end\n";
    for exclusive in [false, true] {
        for cut in 1..input.len() {
            let mut s = sim(exclusive, &[]);
            let c = s.client("client").unwrap();
            let (mut got, mut x, mut y) = (String::new(), None, None);
            let mut seen = (String::new(), String::new());
            for piece in input.chunks(cut).map(Some).chain(std::iter::repeat_n(None, 12)) {
                if let Some(p) = piece {
                    c.send(p);
                }
                s.settle();
                x = s.backend("backends", 0).or(x);
                y = s.backend("backends", 1).or(y);
                if let Some(x) = &x {
                    let before = seen.0.len();
                    seen.0 += &text(x);
                    if before < 15 && seen.0.contains("1234567") && !seen.0[..before].contains("1234567") {
                        for b in b"D:4 r\nabcd".chunks(cut % 4 + 1) {
                            x.send(b);
                        }
                    }
                    if seen.0.contains("g x\n") && !seen.0[..before].contains("g x\n") {
                        x.send(b"r one\n");
                    }
                }
                if let Some(y) = &y {
                    let before = seen.1.len();
                    seen.1 += &text(y);
                    if seen.1.contains("g1 y\n") && !seen.1[..before].contains("g1 y\n") {
                        y.send(b"r two\n");
                    }
                }
                s.settle();
                got += &text(&c);
            }
            assert_eq!(got, want, "cut {cut}, exclusive {exclusive}");
            assert!(seen.0.contains("q0 silent\n"));
            assert_clean(&mut s);
        }
    }
}

#[test]
fn events_reach_their_handlers() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"f\n");
    s.settle();
    assert_eq!(text(&c), "!32\n");
    s.advance(std::time::Duration::from_millis(2500));
    c.finish();
    s.settle();
    let state: Vec<u64> = (1..6).map(|word| s.core.apps[0].counter(word)).collect();
    assert_eq!(state, [1, 1, 1, 2, 1], "opened, closed, fault, every, start");
}

#[test]
fn answers_are_matched_by_id_and_carry_the_clients() {
    let mut s = Sim::new(vec![test_program::app_by_id(false, &[])]).unwrap();
    let c = s.client("client").unwrap();
    c.send(b"g0A one\ng0A two\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    let asked = x.receive();
    let lines: Vec<&[u8]> = asked.split_inclusive(|b| *b == b'\n').collect();
    assert_eq!(lines.len(), 2);
    assert_ne!(lines[0][1..3], lines[1][1..3], "ids of our own");
    // Answered in the other order; the client sees its order and its ids.
    for (l, answer) in [(lines[1], "D__:3 2\nabc"), (lines[0], "r__ 1\n")] {
        let mut a = answer.as_bytes().to_vec();
        a[1..3].copy_from_slice(&l[1..3]);
        x.send(&a[..2]);
        s.settle();
        x.send(&a[2..]);
        s.settle();
    }
    assert_eq!(text(&c), "r0A 1\nD0A:3 2\nabc");
    assert_clean(&mut s);
}

/// Two clients ask over one connection, and the second one's answer comes first, in pieces.
fn second_answer_begins() -> (Sim, [Peer; 3], Vec<u8>) {
    let mut s = Sim::new(vec![test_program::app_by_id(false, &[])]).unwrap();
    let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
    a.send(b"g0A one\n");
    s.settle();
    b.send(b"g0B two\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    let asked = x.receive();
    let lines: Vec<&[u8]> = asked.split_inclusive(|b| *b == b'\n').collect();
    let with_id = |answer: &str, line: &[u8]| {
        let mut bytes = answer.as_bytes().to_vec();
        bytes[1..3].copy_from_slice(&line[1..3]);
        bytes
    };
    // A short one would be passed on when it is complete.
    x.send(&with_id(&format!("D__:20000 2\n{}", "a".repeat(19_998)), lines[1]));
    s.settle();
    assert_eq!((text(&a).as_str(), text(&b).len()), ("", "D0B:20000 2\n".len() + 19_998));
    let first = with_id("r__ 1\n", lines[0]);
    (s, [a, b, x], first)
}

#[test]
fn an_answer_that_streams_ends_its_own_call() {
    let (mut s, [a, b, x], first) = second_answer_begins();
    x.send(b"bc");
    s.settle();
    assert_eq!(text(&b), "bc");
    x.send(&first);
    s.settle();
    assert_eq!(text(&a), "r0A 1\n");
    assert_clean(&mut s);
}

#[test]
fn an_answer_that_is_cut_off_ends_its_own_call() {
    let (mut s, [a, b, x], _) = second_answer_begins();
    x.finish();
    s.settle();
    assert_ne!(b.ending(), Ending::Open, "the second answer is cut off");
    assert_eq!(text(&a), "!8\n", "the first one is lost");
    assert_clean(&mut s);
}
