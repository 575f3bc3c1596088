//! Ejection and return; answers that are too long.

use super::*;
use crate::engine::memory::{Behaviour, Ending, Peer};
use std::time::Duration;

fn up(s: &Sim) -> [u8; 2] {
    let up = &s.core.apps[0].ports[1].up;
    [up[0], up[1]]
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A process that is stopped: its kernel takes connections and bytes, but nothing comes back.
#[test]
fn a_backend_that_hangs_is_ejected_and_tried_by_one_request_at_a_time() {
    for exclusive in [false, true] {
        let mut s = sim(exclusive, &["backends.call=500ms"]);
        let clients: Vec<Peer> = (0..8).map(|_| s.client("client").unwrap()).collect();
        let ask = |s: &mut Sim| {
            clients.iter().for_each(|c| c.send(b"p0 k\n"));
            s.settle();
        };
        ask(&mut s);
        s.advance(ms(510));
        assert!(clients.iter().all(|c| text(c) == "!10\n"));
        assert_eq!(up(&s), [0, 1], "each of them counts");
        let mut hung = 0;
        // From now on it costs one client half a second now and then.
        for _ in 0..60 {
            ask(&mut s);
            let told = clients.iter().filter(|c| text(c) == "!9\n").count();
            assert!(told >= 7, "{told} were told at once");
            if told == 7 {
                hung += 1;
                s.advance(ms(510));
                assert_eq!(clients.iter().filter(|c| text(c) == "!10\n").count(), 1);
            }
            s.advance(ms(100));
        }
        assert!((3..=8).contains(&hung), "{hung}");
        // It goes on.
        s.advance(ms(1100));
        let mut conns: Vec<Peer> = std::iter::from_fn(|| s.backend("backends", 0)).collect();
        clients[0].send(b"p0 back\n");
        s.settle();
        conns.extend(s.backend("backends", 0));
        let x = conns.iter().find(|x| text(x).ends_with("p0 back\n")).expect("it is tried");
        assert_eq!(up(&s), [0, 1]);
        x.send(b"r back\n");
        s.settle();
        assert_eq!((text(&clients[0]), up(&s)), ("r back\n".into(), [1, 1]));
        assert_eq!(s.stats(0).ports[1].backends[0].ejections.get(), 1);
        assert_clean(&mut s);
    }
}

/// Requests sent before an answer came are late, too.
#[test]
fn a_shared_connection_that_falls_silent_after_an_answer_is_found_out() {
    let mut s = sim(false, &["backends.call=500ms"]);
    let c = s.client("client").unwrap();
    c.send(b"p0 1\np0 2\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    s.advance(ms(1));
    x.send(b"r 1\n");
    s.settle();
    assert_eq!(text(&c), "r 1\n");
    for _ in 0..3 {
        c.send(b"p0 more\n");
        s.settle();
        s.advance(ms(510));
    }
    assert_eq!(up(&s), [0, 1]);
    assert_ne!(x.ending(), Ending::Open);
    assert_clean(&mut s);
}

#[test]
fn who_answers_some_in_time_is_not_ejected() {
    let mut s = sim(false, &["backends.call=500ms"]);
    let (slow, quick) = (s.client("client").unwrap(), s.client("client").unwrap());
    quick.send(b"p0 q\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    for _ in 0..10 {
        slow.send(b"w0 s\n");
        s.settle();
        s.advance(ms(60));
        assert_eq!(text(&slow), "!10\n");
        x.send(b"r q\nr s\n");
        quick.send(b"p0 q\n");
        s.settle();
        assert_eq!((up(&s), text(&quick).as_str()), ([1, 1], "r q\n"));
    }
    assert_clean(&mut s);
}

#[test]
fn the_last_one_is_never_ejected() {
    let mut s = sim(false, &["backends.call=500ms"]);
    let c = s.client("client").unwrap();
    for b in [0, 1] {
        s.behave("backends", b, Behaviour::Refuse);
        for _ in 0..10 {
            c.send(format!("p{b} k\n").as_bytes());
            s.settle();
        }
    }
    text(&c);
    assert_eq!(up(&s), [0, 1]);
    // It is back: no request waits for a probe.
    s.behave("backends", 1, Behaviour::Accept);
    c.send(b"p1 k\n");
    s.settle();
    s.backend("backends", 1).unwrap().send(b"r k\n");
    s.settle();
    assert_eq!(text(&c), "r k\n");
    assert_clean(&mut s);
}

/// However long it was away.
#[test]
fn a_backend_that_is_back_is_used_within_a_second() {
    for outage in [5, 20, 66] {
        let mut s = sim(false, &[]);
        s.behave("backends", 0, Behaviour::Refuse);
        let c = s.client("client").unwrap();
        for _ in 0..outage * 10 {
            c.send(b"p0 k\n");
            s.settle();
            s.advance(ms(100));
        }
        text(&c);
        assert_eq!(up(&s), [0, 1]);
        s.behave("backends", 0, Behaviour::Accept);
        s.advance(ms(1010));
        assert_eq!(up(&s), [1, 1], "after {outage} s");
        assert_clean(&mut s);
    }
}

/// A server that hung is alive again, and has had no request since. When the other one fails, all
/// requests go there, not only the one that tries it out.
#[test]
fn a_server_on_trial_is_better_than_none() {
    let mut s = sim(true, &["backends.call=500ms", "backends.failover=next"]);
    let clients: Vec<Peer> = (0..8).map(|_| s.client("client").unwrap()).collect();
    clients.iter().for_each(|c| c.send(b"p0 k\n"));
    s.settle();
    s.advance(ms(510));
    assert!(clients.iter().all(|c| text(c) == "!10\n") && up(&s) == [0, 1]);
    s.advance(ms(1100));
    let mut conns: Vec<Peer> = std::iter::from_fn(|| s.backend("backends", 0)).collect();
    s.behave("backends", 1, Behaviour::Refuse);
    clients.iter().for_each(|c| c.send(b"p1 k\n"));
    s.settle();
    conns.extend(std::iter::from_fn(|| s.backend("backends", 0)));
    conns.iter().filter(|x| text(x).ends_with("p1 k\n")).for_each(|x| x.send(b"r k\n"));
    s.settle();
    let told: Vec<String> = clients.iter().map(text).collect();
    assert!(told.iter().all(|t| t == "r k\n"), "{told:?}");
    assert_eq!(up(&s)[0], 1);
    assert_clean(&mut s);
}

/// Requests of several clients wait for connections that are refused in one go.
#[test]
fn connections_that_fail_together_are_all_found_out() {
    let mut s = sim(true, &["backends.call=500ms", "backends.failover=next"]);
    let clients: Vec<Peer> = (0..8).map(|_| s.client("client").unwrap()).collect();
    s.behave("backends", 1, Behaviour::Refuse);
    clients.iter().for_each(|c| c.send(b"p1 k\n"));
    s.settle();
    let conns: Vec<Peer> = std::iter::from_fn(|| s.backend("backends", 0)).collect();
    conns.iter().filter(|x| text(x) == "p1 k\n").for_each(|x| x.send(b"r k\n"));
    s.settle();
    let told: Vec<String> = clients.iter().map(text).collect();
    assert!(told.iter().all(|t| t == "r k\n"), "{told:?}");
    assert_clean(&mut s);
}

#[test]
fn an_answer_that_is_too_long_is_skipped_and_costs_nobody_else() {
    let mut s = sim(false, &[]);
    let clients: Vec<Peer> = (0..4).map(|_| s.client("client").unwrap()).collect();
    clients.iter().enumerate().for_each(|(i, c)| c.send(format!("p0 {i}\n").as_bytes()));
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    for _ in 0..5 {
        x.send(b"r 0\n?L:9000 1\n");
        s.settle();
        assert_eq!((text(&clients[0]), text(&clients[1])), ("r 0\n".into(), "!11\n".into()));
        x.send(&[b'v'; 8000]);
        s.settle();
        x.send(&[b'v'; 1000]);
        x.send(b"r 2\n?L 3\n");
        s.settle();
        assert_eq!((text(&clients[2]), text(&clients[3])), ("r 2\n".into(), "!11\n".into()));
        clients.iter().enumerate().for_each(|(i, c)| c.send(format!("p0 {i}\n").as_bytes()));
        s.settle();
    }
    let b = &s.stats(0).ports[1].backends[0];
    assert_eq!((up(&s), b.failures.get(), x.ending()), ([1, 1], 0, Ending::Open));
    assert_clean(&mut s);
}

/// Its asker wants the whole of it, and that is more than is held.
#[test]
fn an_answer_that_cannot_be_held_is_skipped() {
    let mut s = sim(false, &[]);
    let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
    a.send(b"h0 a\n");
    b.send(b"p0 b\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    x.send(b"D:20000000 a\n");
    for _ in 0..20 {
        x.send(&vec![b'v'; 1_000_000]);
        s.settle();
    }
    x.send(b"r b\n");
    s.settle();
    assert_eq!((text(&a), text(&b)), ("!12\n".into(), "r b\n".into()));
    assert_eq!((up(&s), x.ending()), ([1, 1], Ending::Open));
    assert_clean(&mut s);
}
