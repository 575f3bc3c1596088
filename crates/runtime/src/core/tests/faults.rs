//! Faults: bad bytes, lost and slow backends, clients that leave.

use super::*;
use crate::abi::{WL_F_CONSTRAINT, WL_F_INTERNAL};
use crate::engine::memory::{Behaviour, Ending};
use std::time::Duration;

#[test]
fn bad_bytes_are_answered_in_order_then_the_connection_ends() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g key\n!garbage\ne never\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    assert_eq!(text(&c), "");
    x.send(b"r val\n");
    s.settle();
    assert_eq!(text(&c), "r val\n!1\n");
    assert_eq!(c.ending(), Ending::Ended, "shut down, not reset");
    c.finish();
    s.settle();
    assert_eq!(s.stats(0).faults.list(), [(1, 1, 1)]);
    assert_clean(&mut s);
}

#[test]
fn over_long_heads_are_refused() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(&[b'e'; 2000]);
    s.settle();
    assert_eq!(text(&c), "!2\n");
    assert_clean(&mut s);
}

#[test]
fn half_a_message_at_the_end_is_counted() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"e ok\ne ha");
    c.finish();
    s.settle();
    assert_eq!(text(&c), "e ok\n");
    assert_eq!(c.ending(), Ending::Ended);
    assert_eq!(s.stats(0).faults.list().len(), 1);
    assert_clean(&mut s);
}

#[test]
fn half_close_still_gets_its_answers() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let c = s.client("client").unwrap();
        c.send(b"g a\n");
        c.finish();
        s.settle();
        let x = s.backend("backends", 0).unwrap();
        x.send(b"r a\n");
        s.settle();
        assert_eq!(text(&c), "r a\n");
        assert_eq!(c.ending(), Ending::Ended);
        assert_clean(&mut s);
    }
}

#[test]
fn a_killed_backend_fails_what_is_pending() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let cs: Vec<_> = (0..3).map(|_| s.client("client").unwrap()).collect();
        for c in &cs {
            c.send(b"g k\n");
        }
        s.settle();
        while let Some(x) = s.backend("backends", 0) {
            x.reset();
        }
        s.settle();
        for c in &cs {
            assert_eq!(text(c), "!8\n");
        }
        assert_clean(&mut s);
    }
}

#[test]
fn refusal_ejects_and_a_probe_brings_back() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    s.behave("backends", 0, Behaviour::Refuse);
    for _ in 0..3 {
        c.send(b"g k\n");
        s.settle();
        assert_eq!(text(&c), "!9\n");
    }
    assert_eq!(s.core.apps[0].ports[1].up[..], [0, 1]);
    c.send(b"g k\n");
    s.settle();
    assert_eq!(text(&c), "!9\n", "at once");
    s.advance(Duration::from_millis(1100));
    assert_eq!(s.core.apps[0].ports[1].up[0], 0, "still refusing: ejected for longer");
    s.behave("backends", 0, Behaviour::Accept);
    s.advance(Duration::from_millis(2100));
    assert_eq!(s.core.apps[0].ports[1].up[0], 1);
    c.send(b"g k\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"r v\n");
    s.settle();
    assert_eq!(text(&c), "r v\n");
    assert_clean(&mut s);
}

/// Three wrong answers eject a backend, but not the last one that is there.
#[test]
fn wrong_answers_do_not_take_the_last_backend_away() {
    for others in [0, 1] {
        let mut s = sim(false, &[]);
        let c = s.client("client").unwrap();
        if others == 0 {
            s.behave("backends", 1, Behaviour::Refuse);
            for _ in 0..3 {
                c.send(b"g1 k\n");
                s.settle();
            }
            assert_eq!(text(&c), "!9\n!9\n!9\n");
        }
        assert_eq!(s.core.apps[0].ports[1].up[1], others);
        for _ in 0..3 {
            c.send(b"g k\n");
            s.settle();
            s.backend("backends", 0).unwrap().send(b"!what\n");
            s.settle();
            assert!(text(&c).starts_with('!'));
        }
        assert_eq!(s.core.apps[0].ports[1].up[0], 1 - others);
        if others == 0 {
            c.send(b"g k\n");
            s.settle();
            s.backend("backends", 0).unwrap().send(b"r v\n");
            s.settle();
            assert_eq!(text(&c), "r v\n");
        }
        assert_clean(&mut s);
    }
}

#[test]
fn timeouts_of_connect_and_call() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &["backends.call=1s", "backends.connect=500ms"]);
        let c = s.client("client").unwrap();
        c.send(b"g k\n");
        s.settle();
        assert!(s.backend("backends", 0).is_some());
        s.advance(Duration::from_millis(900));
        assert_eq!(text(&c), "");
        s.advance(Duration::from_millis(150));
        assert_eq!(text(&c), "!10\n");
        s.behave("backends", 1, Behaviour::Silent);
        c.send(b"g1 k\n");
        s.advance(Duration::from_millis(600));
        assert_eq!(text(&c), "!9\n");
        assert_clean(&mut s);
    }
}

#[test]
fn within_times_out_alone_and_a_late_answer_is_dropped() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g a\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"r a\n");
    s.settle();
    s.advance(Duration::from_millis(1));
    c.send(b"g b\nw c\n");
    s.settle();
    s.advance(Duration::from_millis(20));
    x.send(b"r b\n");
    s.settle();
    assert_eq!(text(&c), "r a\nr b\n");
    s.advance(Duration::from_millis(60));
    assert_eq!(text(&c), "!10\n");
    x.send(b"r late\n");
    c.send(b"g d\n");
    s.settle();
    x.send(b"r d\n");
    s.settle();
    assert_eq!(text(&c), "r d\n");
    assert_clean(&mut s);
}

#[test]
fn bad_answers_close_the_connection_and_lose_the_rest() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g a\ng b\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"!what\n");
    s.settle();
    assert_eq!(text(&c), "!11\n!8\n");
    c.send(b"g c\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"r c\n");
    s.settle();
    assert_eq!(text(&c), "r c\n");
    x.send(b"r unasked\n");
    s.settle();
    assert_ne!(x.ending(), Ending::Open, "an answer nobody asked for");
    assert_clean(&mut s);
}

#[test]
fn extra_bytes_behind_an_exclusive_answer_never_reach_the_next_client() {
    let mut s = sim(true, &["backends.max_connections=1"]);
    let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
    a.send(b"g a\n");
    b.send(b"g b\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"r a\nr stolen\n");
    s.settle();
    assert_eq!((text(&a), text(&b)), ("r a\n".into(), "".into()));
    let y = s.backend("backends", 0).expect("a fresh connection");
    y.send(b"r b\n");
    s.settle();
    assert_eq!(text(&b), "r b\n");
    assert_clean(&mut s);
}

#[test]
fn a_stale_pooled_connection_is_retried_once() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g a\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"r a\n");
    s.settle();
    assert_eq!(text(&c), "r a\n");
    c.send(b"g b\n");
    x.reset();
    s.settle();
    let y = s.backend("backends", 0).expect("a second try");
    assert_eq!(text(&y), "g b\n");
    y.reset();
    s.settle();
    assert_eq!(text(&c), "!8\n", "but only one");
    assert_clean(&mut s);
}

/// Where twice may do harm, the client decides whether to try again: also for a request that had
/// waited for its connection.
#[test]
fn only_a_repeatable_request_is_retried() {
    let mut s = sim(true, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g a\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"r a\n");
    s.settle();
    assert_eq!(text(&c), "r a\n");
    c.send(b"p b\n");
    s.settle();
    assert_eq!(text(&x), "g a\np b\n");
    x.reset();
    s.settle();
    assert!(s.backend("backends", 0).is_none(), "it was sent a second time");
    assert_eq!(text(&c), "!8\n");
    assert_clean(&mut s);
}

#[test]
fn a_client_that_leaves_disturbs_nobody() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
        a.send(b"g a\n");
        s.settle();
        b.send(b"g b\n");
        s.settle();
        let x = s.backend("backends", 0).unwrap();
        let y = s.backend("backends", 0).unwrap_or(x.clone());
        a.reset();
        s.settle();
        if exclusive {
            assert_ne!(x.ending(), Ending::Open);
        } else {
            x.send(b"r a\n");
        }
        y.send(b"r b\n");
        s.settle();
        assert_eq!(text(&b), "r b\n");
        assert_clean(&mut s);
    }
}

#[test]
fn a_truncated_answer_resets_the_client() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &[]);
        let c = s.client("client").unwrap();
        c.send(b"g a\n");
        s.settle();
        let x = s.backend("backends", 0).unwrap();
        // Long enough that it is passed on before it is complete.
        let mut begin = b"D:40000 r\n".to_vec();
        begin.extend([b'1'; 20_000]);
        x.send(&begin);
        s.settle();
        assert_eq!(text(&c).len(), begin.len());
        x.finish();
        s.settle();
        assert_eq!(c.ending(), Ending::Reset);
        assert_clean(&mut s);
    }
}

/// Of a shared connection nothing was passed on yet: the client gets an error, and keeps its
/// connection.
#[test]
fn a_short_truncated_answer_is_an_error_in_its_place() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"g a\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"D:10 r\n123");
    x.finish();
    s.settle();
    assert!(text(&c).starts_with('!'));
    assert_eq!(c.ending(), Ending::Open);
    assert_clean(&mut s);
}

#[test]
fn slow_and_idle_clients() {
    let mut s = sim(false, &["client.read=1s", "client.idle=5s"]);
    let (slow, idle) = (s.client("client").unwrap(), s.client("client").unwrap());
    slow.send(b"e ha");
    s.advance(Duration::from_millis(1200));
    assert_eq!(text(&slow), "!13\n");
    assert_eq!(idle.ending(), Ending::Open);
    s.advance(Duration::from_millis(4200));
    assert_eq!(idle.ending(), Ending::Ended);
    assert_clean(&mut s);
}

#[test]
fn no_answer_and_no_backend() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"n\nx\ne ok\n");
    s.settle();
    assert_eq!(text(&c), "!16\n!5\ne ok\n");
    assert_clean(&mut s);
}

#[test]
fn the_limit_of_connections() {
    let mut s = sim(false, &["client.max_connections=1"]);
    let a = s.client("client").unwrap();
    let (b, c) = (s.client("client").unwrap(), s.client("client").unwrap());
    b.send(b"e b\n");
    c.send(b"e c\n");
    s.advance(Duration::from_millis(300));
    assert_eq!((text(&b), b.ending()), (String::new(), Ending::Open), "it waits for a place");
    a.finish();
    s.settle();
    assert_eq!(text(&b), "e b\n", "which it gets");
    s.advance(Duration::from_millis(1500));
    assert_eq!(
        (text(&c), c.ending()),
        ("!12\n".into(), Ending::Ended),
        "there is none: told by the protocol, not by a reset"
    );
    assert_eq!(s.stats(0).ports[0].turned_away.get(), 1);
    b.send(b"e b\n");
    s.settle();
    assert_eq!(text(&b), "e b\n");
    // Silent ones are not kept, and refused ones take no client's place.
    let d = s.client("client").unwrap();
    s.advance(Duration::from_secs(4));
    assert_eq!(d.ending(), Ending::Ended);
    b.finish();
    s.settle();
    let e = s.client("client").unwrap();
    e.send(b"e e\n");
    s.settle();
    assert_eq!(text(&e), "e e\n");
    assert_clean(&mut s);
}

#[test]
fn faults_in_step_are_answered_and_the_next_message_is_served() {
    let input = b"e a\n?:8 bad\n12345678e b\n? bad\ne c\n";
    for exclusive in [false, true] {
        for cut in 1..=input.len() {
            let mut s = sim(exclusive, &[]);
            let c = s.client("client").unwrap();
            for piece in input.chunks(cut) {
                c.send(piece);
                s.settle();
            }
            assert_eq!(text(&c), "e a\n!4\ne b\n!4\ne c\n", "cut {cut}");
            assert_eq!(c.ending(), Ending::Open);
            assert_clean(&mut s);
        }
    }
}

/// A message of the program that its unit does not allow is no fault of the client. The client gets
/// an error, and the stream goes on.
#[test]
fn a_message_of_the_program_is_not_the_clients_fault() {
    let mut s = sim(false, &[]);
    let c = s.client("client").unwrap();
    c.send(b"v 1\ne after\n?:5 x\n12345e then\n");
    s.settle();
    assert_eq!(text(&c), format!("!{WL_F_INTERNAL}\ne after\n!{WL_F_CONSTRAINT}\ne then\n"));
    // Both are counted with their own kind.
    let mut counted = s.stats(0).faults.list();
    counted.sort_unstable();
    assert_eq!(counted, [(WL_F_CONSTRAINT, 4, 1), (WL_F_CONSTRAINT, 5, 1)]);
    assert_clean(&mut s);
}
