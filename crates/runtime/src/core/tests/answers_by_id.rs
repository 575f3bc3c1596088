//! Shared connections whose answers carry ids: late answers, answers to nobody, requests that move.

use super::*;
use crate::engine::memory::{Behaviour, Ending};
use std::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn by_id(sets: &[&str]) -> Sim {
    Sim::new(vec![test_program::app_by_id(false, sets)]).unwrap()
}

/// A client that has asked.
fn asks(s: &mut Sim, request: &str) -> Peer {
    let c = s.client("client").unwrap();
    c.send(request.as_bytes());
    s.settle();
    c
}

/// The requests that have come.
fn requests(x: &Peer) -> Vec<Vec<u8>> {
    x.receive().split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

/// `answer` with the id of a request.
fn answer(answer: &str, request: &[u8]) -> Vec<u8> {
    let mut bytes = answer.as_bytes().to_vec();
    bytes[1..3].copy_from_slice(&request[1..3]);
    bytes
}

fn failures(s: &Sim, backend: usize) -> u64 {
    s.stats(0).ports[1].backends[backend].failures.get()
}

fn surplus(s: &Sim) -> u64 {
    s.stats(0).ports[1].surplus.get()
}

#[test]
fn a_late_call_is_late_alone() {
    let mut s = by_id(&["backends.call=500ms"]);
    let a = asks(&mut s, "g0A one\n");
    s.advance(ms(300));
    let (b, c) = (asks(&mut s, "g0B two\n"), asks(&mut s, "g0C three\n"));
    let x = s.backend("backends", 0).unwrap();
    let asked = requests(&x);
    s.advance(ms(100));
    x.send(&answer("r__ 3\n", &asked[2]));
    s.settle();
    assert_eq!(text(&c), "r0C 3\n");
    s.advance(ms(110));
    assert_eq!((text(&a), text(&b)), ("!10\n".into(), String::new()));
    assert_eq!((failures(&s, 0), x.ending()), (1, Ending::Open));
    // The late answer reaches nobody. The one behind it reaches its client, on the same connection.
    x.send(&answer("r__ 1\n", &asked[0]));
    let d = asks(&mut s, "g0D four\n");
    let more = requests(&x);
    assert!(asked.iter().all(|r| r[1..3] != more[0][1..3]), "another id");
    x.send(&[answer("r__ 2\n", &asked[1]), answer("r__ 4\n", &more[0])].concat());
    s.settle();
    assert_eq!([text(&a), text(&b), text(&c), text(&d)], ["", "r0B 2\n", "", "r0D 4\n"]);
    s.advance(ms(2000));
    assert_eq!((failures(&s, 0), surplus(&s), x.ending()), (1, 0, Ending::Open));
    assert_clean(&mut s);
}

/// Nothing has come for as long as the first call was waited for. New requests go elsewhere, and
/// those under way keep their time.
#[test]
fn a_silent_connection_takes_no_more_requests() {
    let mut s = by_id(&["backends.call=500ms"]);
    let a = asks(&mut s, "g0A one\n");
    s.advance(ms(300));
    let b = asks(&mut s, "g0B two\n");
    let x = s.backend("backends", 0).unwrap();
    let asked = requests(&x);
    s.advance(ms(210));
    assert_eq!((text(&a), text(&b), failures(&s, 0)), ("!10\n".into(), String::new(), 1));
    let c = asks(&mut s, "g0C three\n");
    let y = s.backend("backends", 0).expect("a connection of its own");
    // The answers of the old connection come in the other order, the late one in pieces.
    let late = answer("D__:5 1\nabcde", &asked[0]);
    for byte in &late {
        x.send(&[*byte]);
        s.settle();
    }
    x.send(&answer("r__ 2\n", &asked[1]));
    s.settle();
    assert_eq!((text(&a), text(&b)), (String::new(), "r0B 2\n".into()));
    assert_ne!(x.ending(), Ending::Open, "it ends with its last call");
    let third = requests(&y).remove(0);
    y.send(&answer("r__ 3\n", &third));
    s.settle();
    assert_eq!((text(&c), y.ending(), surplus(&s)), ("r0C 3\n".into(), Ending::Open, 0));
    assert_clean(&mut s);
}

/// An answer that never comes keeps its id, until the connection has ended with the calls that are
/// still waited for.
#[test]
fn a_connection_that_owes_an_answer_for_long_is_left() {
    let mut s = by_id(&["backends.call=500ms"]);
    let a = asks(&mut s, "g0A one\n");
    let x = s.backend("backends", 0).unwrap();
    let first = requests(&x).remove(0);
    for n in 1..=6 {
        let b = asks(&mut s, "g0B more\n");
        let r = requests(&x).remove(0);
        assert_ne!(r[1..3], first[1..3], "request {n}");
        s.advance(ms(150));
        x.send(&answer("r__ x\n", &r));
        s.settle();
        assert_eq!(text(&b), "r0B x\n", "request {n}");
    }
    assert_eq!(text(&a), "!10\n");
    let b = asks(&mut s, "g0B last\n");
    let r = requests(&x).remove(0);
    s.advance(ms(150));
    let c = asks(&mut s, "g0C new\n");
    let y = s.backend("backends", 0).expect("twice the time of an answer is over");
    s.advance(ms(50));
    x.send(&answer("r__ x\n", &r));
    s.settle();
    assert_eq!(text(&b), "r0B x\n");
    assert_ne!(x.ending(), Ending::Open);
    let r = requests(&y).remove(0);
    y.send(&answer("r__ y\n", &r));
    s.settle();
    assert_eq!((text(&c), failures(&s, 0)), ("r0C y\n".into(), 1));
    assert_clean(&mut s);
}

/// A call with less time than the port's says nothing about its connection.
#[test]
fn a_call_with_a_time_of_its_own_is_late_alone() {
    let mut s = by_id(&["backends.call=500ms"]);
    let b = asks(&mut s, "g0B two\n");
    let x = s.backend("backends", 0).unwrap();
    let first = requests(&x).remove(0);
    x.send(&answer("r__ 2\n", &first));
    s.settle();
    s.advance(ms(5000));
    let a = asks(&mut s, "w0A one\n");
    s.advance(ms(60));
    let c = asks(&mut s, "g0C three\n");
    let asked = requests(&x);
    assert_eq!((text(&a), text(&b), asked.len()), ("!10\n".into(), "r0B 2\n".into(), 2));
    x.send(&[answer("r__ 1\n", &asked[0]), answer("r__ 3\n", &asked[1])].concat());
    s.settle();
    assert_eq!((text(&a), text(&c), x.ending()), (String::new(), "r0C 3\n".into(), Ending::Open));
    assert_clean(&mut s);
}

#[test]
fn a_call_is_late_while_another_answer_streams() {
    let mut s = by_id(&["backends.call=500ms"]);
    let (a, b) = (asks(&mut s, "g0A one\n"), asks(&mut s, "g0B two\n"));
    let x = s.backend("backends", 0).unwrap();
    let asked = requests(&x);
    x.send(&answer(&format!("D__:20000 2\n{}", "a".repeat(19_990)), &asked[1]));
    s.settle();
    for _ in 0..6 {
        s.advance(ms(100));
        x.send(b"b");
        s.settle();
    }
    assert_eq!(text(&a), "!10\n");
    x.send(b"cccc");
    x.send(&answer("r__ 1\n", &asked[0]));
    s.settle();
    assert_eq!((text(&a), text(&b).len()), (String::new(), 12 + 20_000));
    // An answer that stops in the middle stops those behind it.
    let (c, d) = (asks(&mut s, "g0C three\n"), asks(&mut s, "g0D four\n"));
    let asked = requests(&x);
    x.send(&answer(&format!("D__:20000 3\n{}", "a".repeat(19_990)), &asked[0]));
    s.settle();
    s.advance(ms(300));
    let e = asks(&mut s, "g0E five\n");
    s.advance(ms(210));
    assert_ne!((c.ending(), x.ending()), (Ending::Open, Ending::Open));
    assert_eq!((text(&d), text(&e)), ("!10\n".into(), "!8\n".into()));
    assert_clean(&mut s);
}

/// Clients that leave are forgotten calls, too.
#[test]
fn answers_to_clients_that_have_left_are_dropped() {
    let mut s = by_id(&["backends.call=500ms"]);
    let (a, b) = (asks(&mut s, "g0A one\n"), asks(&mut s, "g0B two\n"));
    let x = s.backend("backends", 0).unwrap();
    let asked = requests(&x);
    a.reset();
    s.settle();
    let c = asks(&mut s, "g0C three\n");
    let third = requests(&x).remove(0);
    assert_ne!(third[1..3], asked[0][1..3]);
    let answers = [answer("D__:3 1\nabc", &asked[0]), answer("r__ 3\n", &third), answer("r__ 2\n", &asked[1])];
    x.send(&answers.concat());
    s.settle();
    assert_eq!((text(&b), text(&c), x.ending()), ("r0B 2\n".into(), "r0C 3\n".into(), Ending::Open));
    assert_clean(&mut s);
}

#[test]
fn an_answer_to_nobody_closes_its_connection() {
    // An id that was never given; one that is answered twice; a byte without a request.
    for case in ["foreign", "twice", "idle", "one byte"] {
        let mut s = by_id(&[]);
        let a = asks(&mut s, "g0A one\n");
        let x = s.backend("backends", 0).unwrap();
        let first = requests(&x).remove(0);
        let idle = case == "idle" || case == "one byte";
        if idle || case == "twice" {
            x.send(&answer("r__ 1\n", &first));
            s.settle();
            assert_eq!(text(&a), "r0A 1\n");
        }
        let b = if idle { None } else { Some(asks(&mut s, "g0B two\n")) };
        let under_way = requests(&x);
        match case {
            "foreign" => x.send(b"r\xee\xee 9\n"),
            "one byte" => x.send(b"r"),
            _ => x.send(&answer("r__ 9\n", &first)),
        }
        // An answer behind it is not to be trusted.
        if let Some(r) = under_way.first() {
            x.send(&answer("r__ 2\n", r));
        }
        s.settle();
        if let Some(b) = &b {
            assert_eq!(text(b), "!8\n", "{case}: its request is lost");
        }
        assert_eq!(text(&a), if case == "foreign" { "!8\n" } else { "" }, "{case}");
        assert_eq!((surplus(&s), failures(&s, 0)), (1, u64::from(!idle)), "{case}");
        assert_ne!(x.ending(), Ending::Open, "{case}");
        let c = asks(&mut s, "g0C three\n");
        let y = s.backend("backends", 0).expect("a new connection");
        let r = requests(&y).remove(0);
        y.send(&answer("r__ 3\n", &r));
        s.settle();
        assert_eq!(text(&c), "r0C 3\n", "{case}");
        assert_clean(&mut s);
    }
}

#[test]
fn an_answer_that_cannot_be_read_fails_its_own_call() {
    let mut s = by_id(&[]);
    let (a, b, c) = (asks(&mut s, "g0A one\n"), asks(&mut s, "g0B two\n"), asks(&mut s, "g0C three\n"));
    let x = s.backend("backends", 0).unwrap();
    let asked = requests(&x);
    x.send(&answer("!__ 2\n", &asked[1]));
    s.settle();
    assert_eq!([text(&a), text(&b), text(&c)], ["!8\n", "!11\n", "!8\n"], "the others are lost");
    assert_eq!((failures(&s, 0), surplus(&s)), (1, 0));
    assert_ne!(x.ending(), Ending::Open);
    assert_clean(&mut s);
}

/// Clients with large answers have connections of their own.
#[test]
fn unshared_connections_have_ids() {
    let mut s = by_id(&[]);
    let a = asks(&mut s, &format!("d0A:100000 in\n{}", "x".repeat(100_000)));
    let x = s.backend("backends", 0).unwrap();
    let asked = x.receive();
    assert_eq!(asked.len(), 14 + 100_000);
    x.send(&answer(&format!("D__:300000 out\n{}", "y".repeat(300_000)), &asked));
    s.settle();
    assert_eq!(a.receive().len(), 15 + 300_000);
    // The next answer may be as large.
    a.send(b"g0A one\n");
    s.settle();
    let y = s.backend("backends", 0).expect("a connection of its own");
    let again = requests(&y).remove(0);
    y.send(&answer("r__ 1\n", &again));
    s.settle();
    assert_eq!(text(&a), "r0A 1\n");
    assert_clean(&mut s);
}

#[test]
fn exclusive_connections_have_ids() {
    let mut s = Sim::new(vec![test_program::app_by_id(true, &[])]).unwrap();
    let (a, b) = (asks(&mut s, "g0A one\n"), asks(&mut s, "g0B two\n"));
    for (c, id) in [(&a, "A"), (&b, "B")] {
        let x = s.backend("backends", 0).unwrap();
        let r = requests(&x).remove(0);
        x.send(&answer("r__ x\n", &r));
        s.settle();
        assert_eq!(text(c), format!("r0{id} x\n"));
    }
    assert_clean(&mut s);
}

#[test]
fn interim_answers_carry_the_clients_id() {
    let mut s = by_id(&[]);
    let a = asks(&mut s, "g0A one\n");
    let x = s.backend("backends", 0).unwrap();
    let r = requests(&x).remove(0);
    x.send(&[answer("i__ soon\n", &r), answer("r__ 1\n", &r)].concat());
    s.settle();
    assert_eq!(text(&a), "i0A soon\nr0A 1\n");
    assert_clean(&mut s);
}

/// Requests move from a server that cannot be reached to one that has requests under way.
#[test]
fn requests_that_move_keep_apart_from_others() {
    let mut s = by_id(&["backends.failover=next"]);
    s.behave("backends", 0, Behaviour::Silent);
    let own = [asks(&mut s, "g1A one\n"), asks(&mut s, "g1B two\n")];
    let moved = [asks(&mut s, "g0C three\n"), asks(&mut s, "g0D four\n")];
    let x = s.backend("backends", 1).unwrap();
    let asked = requests(&x);
    s.advance(ms(2100));
    let others: Vec<Peer> = std::iter::from_fn(|| s.backend("backends", 1)).collect();
    for y in others.iter().chain([&x]) {
        for r in requests(y) {
            let told = if r.ends_with(b"three\n") { "r__ c\n" } else { "r__ d\n" };
            y.send(&answer(told, &r));
        }
    }
    s.settle();
    assert_eq!((asked.len(), moved.each_ref().map(text)), (2, ["r0C c\n".into(), "r0D d\n".into()]));
    x.send(&[answer("r__ b\n", &asked[1]), answer("r__ a\n", &asked[0])].concat());
    s.settle();
    assert_eq!(own.each_ref().map(text), ["r1A a\n", "r1B b\n"]);
    assert_clean(&mut s);
}

/// A server that answers a message which has no answer reaches nobody.
#[test]
fn messages_without_an_answer_have_the_id_of_no_request() {
    let mut s = by_id(&[]);
    let a = asks(&mut s, "g0A one\n");
    let x = s.backend("backends", 0).unwrap();
    let r = requests(&x).remove(0);
    // A client that has guessed the id.
    let guess = [&b"q"[..], &r[1..3], b" x\n"].concat();
    let q = s.client("client").unwrap();
    q.send(&guess);
    s.settle();
    let note = requests(&x).remove(0);
    assert_eq!((note[0], note.len()), (b'q', guess.len()));
    assert_ne!(note[1..3], r[1..3]);
    x.send(&answer("r__ refused\n", &note));
    s.settle();
    assert_eq!((text(&a), surplus(&s)), ("!8\n".into(), 1));
    assert_clean(&mut s);
}
