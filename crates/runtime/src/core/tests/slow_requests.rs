//! Clients that send their requests slowly, and backends that take them slowly.

use super::*;
use crate::engine::memory::{Ending, Peer};
use std::time::Duration;

const SETS: [&str; 4] =
    ["client.read_timeout=10s", "backends.answer_timeout=1s", "backends.stream_timeout=2s", "backends.eject_after=2"];

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn failures(s: &Sim) -> u64 {
    let backends = &s.stats(0).ports[1].backends;
    [0, 1].map(|i| backends[i].failures.get()).iter().sum()
}

/// A request of which its backend has got the head and a part of the body.
fn half_sent(s: &mut Sim) -> (Peer, Peer) {
    let c = s.client("client").unwrap();
    c.send(b"d0:100000 up\n");
    c.send(&[b'x'; 70_000]);
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    s.settle();
    assert_eq!(x.receive().len(), 70_013);
    (c, x)
}

/// Both kinds of engines.
fn each_kind(test: impl Fn(Sim)) {
    for asynchronous in [false, true] {
        let s = sim(true, &SETS);
        s.net.asynchronous(asynchronous);
        test(s);
    }
}

#[test]
fn clients_that_stop_in_their_requests_are_no_failures_of_the_backend() {
    each_kind(|mut s| {
        let other = s.client("client").unwrap();
        let slow: Vec<_> = (0..4).map(|_| half_sent(&mut s)).collect();
        s.advance(ms(9_000));
        assert!(slow.iter().all(|(c, _)| text(c).is_empty() && c.ending() == Ending::Open));
        s.advance(ms(1_500));
        assert!(slow.iter().all(|(c, x)| text(c) == "!13\n" && x.ending() != Ending::Open), "they are idle");
        assert_eq!((failures(&s), s.core.apps[0].ports[1].is_up(0)), (0, true));
        other.send(b"p0 o\n");
        s.settle();
        s.backend("backends", 0).unwrap().send(b"r o\n");
        s.settle();
        assert_eq!(text(&other), "r o\n");
        assert_clean(&mut s);
    });
}

/// Others on the same backend are answered, and found late, as if the slow client were not there.
#[test]
fn the_time_of_an_answer_begins_with_the_end_of_its_request() {
    each_kind(|mut s| {
        let (c, x) = half_sent(&mut s);
        s.advance(ms(5_000));
        c.send(&[b'x'; 30_000]);
        // The next message of the client has no part in it.
        c.send(b"d0:100000 next\n");
        c.send(&[b'x'; 70_000]);
        s.advance(ms(900));
        assert_eq!((x.receive().len(), text(&c), failures(&s)), (30_000, String::new(), 0));
        s.advance(ms(200));
        assert_eq!((text(&c), failures(&s)), ("!10\n".into(), 1));
        assert_clean(&mut s);
    });
}

#[test]
fn an_answer_in_time_behind_a_slow_request() {
    each_kind(|mut s| {
        let (c, x) = half_sent(&mut s);
        s.advance(ms(5_000));
        c.send(&[b'x'; 30_000]);
        s.advance(ms(900));
        x.send(b"r up\n");
        s.advance(ms(2_000));
        assert_eq!((text(&c), failures(&s)), ("r up\n".into(), 0));
        assert_clean(&mut s);
    });
}

#[test]
fn a_backend_that_takes_nothing_of_a_request_is_late() {
    each_kind(|mut s| {
        let (c, x) = half_sent(&mut s);
        x.window(Some(0));
        s.advance(ms(3_000));
        c.send(&[b'x'; 10_000]);
        s.advance(ms(900));
        assert_eq!((text(&c), failures(&s)), (String::new(), 0));
        s.advance(ms(200));
        assert_eq!((text(&c), failures(&s)), ("!10\n".into(), 1));
        assert_clean(&mut s);
    });
}

/// An echo waits for the rest of its request, too.
#[test]
fn an_answer_that_waits_for_its_request_is_not_late() {
    each_kind(|mut s| {
        let (c, x) = half_sent(&mut s);
        x.send(b"D:20 r\n12345");
        s.advance(ms(5_000));
        c.send(&[b'x'; 30_000]);
        s.advance(ms(1_900));
        x.send(b"67890");
        s.settle();
        assert_eq!((text(&c), c.ending(), failures(&s)), ("D:20 r\n1234567890".into(), Ending::Open, 0));
        s.advance(ms(2_100));
        assert_eq!((c.ending(), failures(&s)), (Ending::Reset, 1), "now it is");
        // A client that stops is cut off, and the backend's connection with it.
        let (c, x) = half_sent(&mut s);
        x.send(b"D:20 r\n12345");
        s.advance(ms(11_000));
        assert_eq!(text(&c), "D:20 r\n12345");
        assert!(c.ending() != Ending::Open && x.ending() != Ending::Open);
        s.advance(ms(5_000));
        assert_eq!(failures(&s), 1);
        assert_clean(&mut s);
    });
}
