//! Ownership of backend connections, and the checks before a request is written.

use super::*;
use crate::engine::memory::{Behaviour, Ending, Peer};

/// A client whose request on backend 0 has been answered on a connection that is idle now.
fn pooled(sets: &[&str]) -> (Sim, Peer, Peer) {
    let mut s = sim(true, sets);
    let c = s.client("client").unwrap();
    let x = answered(&mut s, &c, "g0 first");
    (s, c, x)
}

/// A request that goes out on a new connection and is answered.
fn answered(s: &mut Sim, c: &Peer, request: &str) -> Peer {
    c.send(format!("{request}\n").as_bytes());
    s.settle();
    let x = s.backend("backends", 0).expect("a new connection");
    answer(s, c, &x, request);
    x
}

fn answer(s: &mut Sim, c: &Peer, x: &Peer, request: &str) {
    assert_eq!(text(x), format!("{request}\n"));
    x.send(format!("r {request}\n").as_bytes());
    s.settle();
    assert_eq!(text(c), format!("r {request}\n"));
}

fn surplus(s: &Sim) -> u64 {
    s.stats(0).ports[1].surplus.get()
}

#[test]
fn bytes_behind_an_answer_end_the_connection() {
    for exclusive in [true, false] {
        let mut s = sim(exclusive, &[]);
        let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
        a.send(b"g0 a\n");
        s.settle();
        let x = s.backend("backends", 0).unwrap();
        x.send(b"r a\nr forged\n");
        s.settle();
        assert_eq!((text(&a), surplus(&s)), ("r a\n".into(), 1));
        assert_ne!(x.ending(), Ending::Open);
        answered(&mut s, &b, "g0 b");
        let port = &s.stats(0).ports[1];
        assert_eq!((port.backends[0].failures.get(), port.backends[0].ejections.get()), (0, 0), "that is no failure");
        assert_clean(&mut s);
    }
}

#[test]
fn bytes_on_an_idle_connection_end_it() {
    let (mut s, _, x) = pooled(&[]);
    x.send(b"r forged\n");
    s.settle();
    assert_eq!(surplus(&s), 1);
    assert_ne!(x.ending(), Ending::Open);
    let b = s.client("client").unwrap();
    answered(&mut s, &b, "g0 b");
    assert_clean(&mut s);
}

/// They have come before the request was written, but are read behind it.
#[test]
fn bytes_that_come_with_the_next_request_are_not_its_answer() {
    for (exclusive, parts, asynchronous) in
        [(true, 0, false), (true, 1, false), (true, 0, true), (false, 0, false), (false, 1, false)]
    {
        let mut s = sim(exclusive, &[]);
        if parts > 0 {
            s.net.parts(parts);
        }
        let c = s.client("client").unwrap();
        let x = answered(&mut s, &c, "g0 first");
        s.net.asynchronous(asynchronous);
        // Clients are looked at before backends.
        c.send(b"p0 b\n");
        x.send(b"r forged\n");
        s.settle();
        let y = s.backend("backends", 0).expect("another connection");
        answer(&mut s, &c, &y, "p0 b");
        assert_eq!(surplus(&s), 1, "{exclusive} {parts} {asynchronous}");
        assert!(!text(&c).contains("forged"));
        assert_ne!(x.ending(), Ending::Open);
        assert_clean(&mut s);
    }
}

fn answer_to(s: &mut Sim, c: &Peer, x: &Peer, request: &str, reply: &str) {
    assert_eq!(text(x), request);
    x.send(reply.as_bytes());
    s.settle();
    assert_eq!(text(c), reply);
}

/// Also requests that may not be sent twice: no backend has seen them.
#[test]
fn a_request_whose_connection_has_ended_before_it_was_written_goes_out_on_another() {
    for ends in [Peer::reset as fn(&Peer), Peer::finish] {
        let (mut s, c, x) = pooled(&[]);
        c.send(b"p0 b\n");
        ends(&x);
        s.settle();
        let y = s.backend("backends", 0).unwrap();
        answer(&mut s, &c, &y, "p0 b");
        assert_eq!((surplus(&s), s.stats(0).ports[1].retries.get()), (0, 0));
        assert_eq!(s.stats(0).faults.list(), []);
        assert_clean(&mut s);
    }
}

#[test]
fn a_first_request_that_may_not_be_sent_twice_has_a_new_connection() {
    let (mut s, c, x) = pooled(&[]);
    let b = s.client("client").unwrap();
    let y = answered(&mut s, &b, "p0 once");
    b.send(b"p0 again\n");
    s.settle();
    // The one used last comes first.
    answer(&mut s, &b, &y, "p0 again");
    let d = s.client("client").unwrap();
    d.send(b"g0 twice\n");
    s.settle();
    answer(&mut s, &d, &y, "g0 twice");
    c.send(b"p0 later\n");
    s.settle();
    answer(&mut s, &c, &y, "p0 later");
    assert_eq!(x.ending(), Ending::Open);
    assert_clean(&mut s);
}

#[test]
fn with_always_any_request_takes_an_idle_connection() {
    let (mut s, _, x) = pooled(&["backends.reuse=always"]);
    let b = s.client("client").unwrap();
    b.send(b"p0 once\n");
    s.settle();
    answer(&mut s, &b, &x, "p0 once");
    assert_clean(&mut s);
}

#[test]
fn with_never_each_client_has_connections_of_its_own() {
    let (mut s, c, x) = pooled(&["backends.reuse=never", "backends.pipeline=8"]);
    let b = s.client("client").unwrap();
    let y = answered(&mut s, &b, "g0 b");
    for _ in 0..3 {
        for (client, conn) in [(&c, &x), (&b, &y)] {
            client.send(b"g0 more\n");
            s.settle();
            answer(&mut s, client, conn, "g0 more");
        }
    }
    c.reset();
    s.settle();
    assert_ne!(x.ending(), Ending::Open, "it ends with its client");
    assert_eq!(y.ending(), Ending::Open);
    assert_clean(&mut s);
}

/// NTLM, say: from then on the connection is known to be this client's.
#[test]
fn a_connection_that_knows_its_client_serves_nobody_else() {
    for (request, reply) in [("g0 a", "K a"), ("k0 a", "r a")] {
        let (mut s, c, x) = pooled(&[]);
        c.send(format!("{request}\n").as_bytes());
        s.settle();
        answer_to(&mut s, &c, &x, &format!("{request}\n"), &format!("{reply}\n"));
        let b = s.client("client").unwrap();
        let y = answered(&mut s, &b, "g0 b");
        c.send(b"p0 mine\n");
        s.settle();
        answer(&mut s, &c, &x, "p0 mine");
        c.finish();
        s.settle();
        assert_ne!(x.ending(), Ending::Open, "it ends with its client");
        b.send(b"g0 c\n");
        s.settle();
        answer(&mut s, &b, &y, "g0 c");
        assert_clean(&mut s);
    }
}

#[test]
fn a_shared_connection_that_comes_to_know_a_client_is_given_up() {
    let mut s = sim(true, &["backends.pipeline=8"]);
    let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
    a.send(b"g0 a\n");
    b.send(b"g0 b\n");
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    assert_eq!(text(&x), "g0 a\ng0 b\n");
    x.send(b"K a\nr of-a\n");
    s.settle();
    assert_eq!(text(&a), "K a\n");
    assert_ne!(x.ending(), Ending::Open);
    let y = s.backend("backends", 0).unwrap();
    answer(&mut s, &b, &y, "g0 b");
    assert_clean(&mut s);
}

// Servers that cannot be reached.

fn failing_over(exclusive: bool) -> Sim {
    let mut s = sim(exclusive, &["backends.failover=next"]);
    s.behave("backends", 0, Behaviour::Refuse);
    s
}

#[test]
fn what_nobody_has_seen_goes_to_the_next_server() {
    for exclusive in [true, false] {
        let mut s = failing_over(exclusive);
        let c = s.client("client").unwrap();
        c.send(b"p0 once\n");
        s.settle();
        let y = s.backend("backends", 1).unwrap();
        answer(&mut s, &c, &y, "p0 once");
        assert_eq!((s.stats(0).ports[1].failovers.get(), &s.core.apps[0].ports[1].load[..]), (1, &[0, 0][..]));
        assert_clean(&mut s);
    }
}

#[test]
fn nobody_notices_that_a_server_is_gone() {
    for exclusive in [true, false] {
        let mut s = failing_over(exclusive);
        let c = s.client("client").unwrap();
        let mut conns = Vec::new();
        for n in 0..8 {
            c.send(format!("g0 {n}\n").as_bytes());
            s.settle();
            conns.extend(s.backend("backends", 1));
            let y = conns.last().unwrap();
            answer(&mut s, &c, y, &format!("g0 {n}"));
        }
        assert_eq!(s.core.apps[0].ports[1].up[..], [0, 1]);
        assert_eq!(s.stats(0).faults.list(), []);
        assert_clean(&mut s);
    }
}

#[test]
fn a_body_that_is_still_coming_goes_along() {
    let mut s = failing_over(true);
    s.behave("backends", 0, Behaviour::Silent);
    let c = s.client("client").unwrap();
    c.send(b"d0:6 x\nabc");
    s.settle();
    s.advance(std::time::Duration::from_millis(2100));
    let y = s.backend("backends", 1).unwrap();
    assert_eq!(text(&y), "d0:6 x\nabc");
    c.send(b"def");
    s.settle();
    answer_to(&mut s, &c, &y, "def", "r x\n");
    assert_clean(&mut s);
}

#[test]
fn without_failover_the_client_is_told() {
    let mut s = sim(true, &[]);
    s.behave("backends", 0, Behaviour::Refuse);
    let c = s.client("client").unwrap();
    c.send(b"g0 a\n");
    s.settle();
    assert_eq!(text(&c), "!9\n");
    assert!(s.backend("backends", 1).is_none());
    assert_clean(&mut s);
}

#[test]
fn where_no_server_is_left_the_client_is_told() {
    for exclusive in [true, false] {
        let mut s = failing_over(exclusive);
        s.behave("backends", 1, Behaviour::Refuse);
        let c = s.client("client").unwrap();
        for _ in 0..10 {
            c.send(b"g0 a\n");
            s.settle();
            assert_eq!(text(&c), "!9\n");
        }
        let up = s.core.apps[0].ports[1].up.iter().map(|u| u32::from(*u)).sum::<u32>();
        assert_eq!(up, 1, "the last one is not ejected");
        assert_clean(&mut s);
    }
}
