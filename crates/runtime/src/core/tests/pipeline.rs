//! Shared connections of an exclusive protocol (`pipeline`): order, and every event that ends the
//! sharing.

use super::*;
use crate::engine::memory::{Ending, Peer};
use std::time::Duration;

fn shared(sets: &[&str]) -> Sim {
    let all = [&["backends.pipeline=8", "backends.eject_after=100"], sets].concat();
    sim(true, &all)
}

/// Clients that have sent `g0 a`, `g0 b`, …, and the one connection on which their requests lie.
fn asking(s: &mut Sim, n: usize) -> (Vec<Peer>, Peer) {
    let clients: Vec<Peer> = (0..n).map(|_| s.client("client").unwrap()).collect();
    for (i, c) in clients.iter().enumerate() {
        c.send(format!("g0 {i}\n").as_bytes());
    }
    s.settle();
    let x = s.backend("backends", 0).unwrap();
    assert!(s.backend("backends", 0).is_none(), "one connection");
    let all: String = (0..n).map(|i| format!("g0 {i}\n")).collect();
    assert_eq!(text(&x), all);
    (clients, x)
}

/// The connections that were opened since; each must have exactly one of these requests.
fn resent(s: &mut Sim, want: &[usize]) -> Vec<Peer> {
    s.settle();
    let mut peers = Vec::new();
    for i in want {
        let p = s.backend("backends", 0).unwrap();
        assert_eq!(text(&p), format!("g0 {i}\n"));
        peers.push(p);
    }
    assert!(s.backend("backends", 0).is_none(), "no more connections");
    peers
}

#[test]
fn answers_are_matched_by_order() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 4);
    x.send(b"r 0\nr 1\nD:3 2\nab");
    s.settle();
    assert_eq!(
        (text(&clients[0]), text(&clients[1]), text(&clients[2])),
        ("r 0\n".into(), "r 1\n".into(), String::new())
    );
    x.send(b"ci early\nr 3\n");
    s.settle();
    assert_eq!((text(&clients[2]), text(&clients[3])), ("D:3 2\nabc".into(), "i early\nr 3\n".into()));
    // The connection stays and is shared again.
    clients[3].send(b"g0 z\n");
    s.settle();
    assert_eq!(text(&x), "g0 z\n");
    x.send(b"r z\n");
    s.settle();
    assert_eq!(text(&clients[3]), "r z\n");
    assert_clean(&mut s);
}

#[test]
fn without_the_option_every_request_has_its_connection() {
    let mut s = sim(true, &[]);
    let (a, b) = (s.client("client").unwrap(), s.client("client").unwrap());
    a.send(b"g0 a\n");
    b.send(b"g0 b\n");
    s.settle();
    assert!(s.backend("backends", 0).is_some() && s.backend("backends", 0).is_some());
}

#[test]
fn a_full_connection_is_followed_by_another() {
    let mut s = shared(&[]);
    let clients: Vec<Peer> = (0..20).map(|_| s.client("client").unwrap()).collect();
    for c in &clients {
        c.send(b"g0 x\n");
    }
    s.settle();
    let sizes: Vec<usize> = std::iter::from_fn(|| s.backend("backends", 0)).map(|p| text(&p).len() / 5).collect();
    assert_eq!(sizes, [8, 8, 4]);
    assert_clean(&mut s);
}

#[test]
fn other_requests_have_a_connection_of_their_own() {
    let mut s = shared(&[]);
    let (_clients, x) = asking(&mut s, 2);
    let other = s.client("client").unwrap();
    other.send(b"d0:2 o\nhi");
    s.settle();
    let y = s.backend("backends", 0).unwrap();
    assert_eq!((text(&x), text(&y)), (String::new(), "d0:2 o\nhi".into()));
    y.send(b"T up\n");
    s.settle();
    assert_eq!(text(&other), "T up\n", "a tunnel is possible there");
    assert_clean(&mut s);
}

#[test]
fn a_connection_that_breaks_is_made_good_once() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 4);
    clients[3].reset();
    x.send(b"r 0\nD:10 1\nabc");
    s.settle();
    x.reset();
    let again = resent(&mut s, &[1, 2]);
    again[0].send(b"r 1\n");
    again[1].reset();
    s.settle();
    let got: Vec<String> = clients[..3].iter().map(text).collect();
    assert_eq!(got, ["r 0\n", "r 1\n", "!8\n"], "the second loss is told");
    assert!(s.backend("backends", 0).is_none());
    assert_clean(&mut s);
}

#[test]
fn after_garbage_nothing_of_the_connection_is_believed() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 3);
    x.send(b"!garbage\nr 1\nr 2\n");
    let again = resent(&mut s, &[1, 2]);
    assert_ne!(x.ending(), Ending::Open);
    again[0].send(b"r one\n");
    again[1].send(b"r two\n");
    s.settle();
    let got: Vec<String> = clients.iter().map(text).collect();
    assert_eq!(got, ["!11\n", "r one\n", "r two\n"]);
    assert_clean(&mut s);
}

#[test]
fn a_tunnel_nobody_asked_for_is_garbage() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 2);
    x.send(b"T up\nr 1\n");
    resent(&mut s, &[1])[0].send(b"r one\n");
    s.settle();
    assert_eq!((text(&clients[0]), text(&clients[1])), ("!11\n".into(), "r one\n".into()));
    assert_clean(&mut s);
}

#[test]
fn answers_that_nobody_asked_for_reach_nobody() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 1);
    x.send(b"r 0\nr more\n");
    s.settle();
    assert_eq!(text(&clients[0]), "r 0\n");
    assert_ne!(x.ending(), Ending::Open);
    clients[0].send(b"g0 1\n");
    resent(&mut s, &[1])[0].send(b"r 1\n");
    s.settle();
    assert_eq!(text(&clients[0]), "r 1\n");
    assert_clean(&mut s);
}

#[test]
fn nothing_counts_behind_an_answer_that_closes() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 3);
    x.send(b"C 0\nr bad\n");
    let again = resent(&mut s, &[1, 2]);
    assert_ne!(x.ending(), Ending::Open);
    again[0].send(b"r 1\n");
    again[1].send(b"r 2\n");
    s.settle();
    let got: Vec<String> = clients.iter().map(text).collect();
    assert_eq!(got, ["C 0\n", "r 1\n", "r 2\n"]);
    assert_eq!(s.stats(0).faults.list(), []);
    assert_clean(&mut s);
}

#[test]
fn an_answer_until_the_end_has_the_connection_to_itself() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 3);
    x.send(b"u 0\nr 1\nr 2\n");
    let again = resent(&mut s, &[1, 2]);
    again[1].send(b"r two\n");
    again[0].send(b"r one\n");
    s.settle();
    assert_eq!((text(&clients[1]), text(&clients[2])), ("r one\n".into(), "r two\n".into()));
    x.send(b"more");
    x.finish();
    s.settle();
    assert_eq!(text(&clients[0]), "u 0\nr 1\nr 2\nmore");
    assert_clean(&mut s);
}

#[test]
fn a_client_that_does_not_read_stops_nobody() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 3);
    clients[0].window(Some(0));
    x.send(b"D:400000 0\n");
    x.send(&vec![b'v'; 60_000]);
    s.settle();
    assert!(s.backend("backends", 0).is_none(), "it may just be slow");
    x.send(&vec![b'v'; 340_000]);
    x.send(b"r 1\nr 2\n");
    let again = resent(&mut s, &[1, 2]);
    again[0].send(b"r one\n");
    again[1].send(b"r two\n");
    s.settle();
    assert_eq!((text(&clients[1]), text(&clients[2])), ("r one\n".into(), "r two\n".into()));
    assert!(s.core.pool.queue_used() + s.core.pool.owned_used() < 400_000);
    let mut got = Vec::new();
    clients[0].window(None);
    for _ in 0..50 {
        s.settle();
        got.extend(clients[0].receive());
    }
    assert_eq!(got.len(), 400_011);
    assert!(got.ends_with(b"v"));
    assert_ne!(x.ending(), Ending::Open, "what follows was asked elsewhere");
    assert_clean(&mut s);
}

#[test]
fn long_answers_that_flow_need_no_second_request() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 2);
    x.send(b"D:400000 0\n");
    let mut got = Vec::new();
    for _ in 0..40 {
        x.send(&vec![b'v'; 10_000]);
        s.settle();
        got.extend(clients[0].receive());
    }
    x.send(b"r 1\n");
    s.settle();
    assert_eq!((got.len(), text(&clients[1])), (400_011, "r 1\n".into()));
    assert!(s.backend("backends", 0).is_none());
    assert_clean(&mut s);
}

#[test]
fn a_slow_answer_holds_up_the_others_for_a_second_only() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 3);
    s.advance(Duration::from_millis(900));
    assert!(s.backend("backends", 0).is_none());
    s.advance(Duration::from_millis(200));
    let again = resent(&mut s, &[1, 2]);
    again[0].send(b"r 1\n");
    again[1].send(b"r 2\n");
    // For a while nothing is shared.
    let more: Vec<Peer> = (0..2).map(|_| s.client("client").unwrap()).collect();
    more.iter().for_each(|c| c.send(b"g0 9\n"));
    s.settle();
    assert_eq!((text(&again[0]), text(&again[1])), ("g0 9\n".into(), "g0 9\n".into()));
    // The slow answer is still welcome, those behind it are not.
    x.send(b"r 0\nr 1\nr 2\n");
    s.settle();
    let got: Vec<String> = clients.iter().map(text).collect();
    assert_eq!(got, ["r 0\n", "r 1\n", "r 2\n"]);
    assert_ne!(x.ending(), Ending::Open);
    assert_eq!(s.stats(0).faults.list(), []);
    assert_clean(&mut s);
}

#[test]
fn an_answer_in_drops_holds_up_nobody_for_long() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 2);
    x.send(b"D:40000 0\n");
    for _ in 0..30 {
        x.send(&[b'v'; 1000]);
        s.advance(Duration::from_millis(100));
    }
    resent(&mut s, &[1])[0].send(b"r 1\n");
    x.send(&[b'v'; 10_000]);
    s.settle();
    assert_eq!((clients[0].receive().len(), text(&clients[1])), (40_010, "r 1\n".into()));
    assert_clean(&mut s);
}

#[test]
fn silence_is_told_to_all_in_time() {
    let mut s = shared(&["backends.call=3s"]);
    let (clients, _x) = asking(&mut s, 3);
    s.advance(Duration::from_secs(5));
    let got: Vec<String> = clients.iter().map(text).collect();
    assert_eq!(got, ["!10\n"; 3]);
    assert_clean(&mut s);
}

#[test]
fn a_client_that_leaves_takes_nobody_along() {
    let mut s = shared(&[]);
    let (clients, x) = asking(&mut s, 4);
    clients[1].reset();
    s.settle();
    x.send(b"r 0\nr 1\nr 2\n");
    s.settle();
    assert_eq!((text(&clients[0]), text(&clients[2])), ("r 0\n".into(), "r 2\n".into()));
    // In the middle of a long answer: the rest of it is not waited for.
    clients[0].send(b"g0 5\n");
    s.settle();
    text(&x);
    x.send(b"D:900000 3\n");
    x.send(&vec![b'v'; 30_000]);
    s.settle();
    clients[3].reset();
    resent(&mut s, &[5])[0].send(b"r 5\n");
    s.settle();
    assert_eq!(text(&clients[0]), "r 5\n");
    assert_ne!(x.ending(), Ending::Open);
    assert_clean(&mut s);
}

#[test]
fn a_refused_connection_is_told_to_all() {
    let mut s = shared(&[]);
    s.behave("backends", 0, crate::engine::memory::Behaviour::Refuse);
    let clients: Vec<Peer> = (0..3).map(|_| s.client("client").unwrap()).collect();
    clients.iter().for_each(|c| c.send(b"g0 x\n"));
    s.settle();
    let got: Vec<String> = clients.iter().map(text).collect();
    assert_eq!(got, ["!9\n"; 3]);
    assert_clean(&mut s);
}

#[test]
fn who_needs_the_only_connection_gets_it() {
    let mut s = shared(&["backends.max_connections=1"]);
    let (clients, x) = asking(&mut s, 2);
    let other = s.client("client").unwrap();
    other.send(b"d0:2 o\nhi");
    s.settle();
    let late = s.client("client").unwrap();
    late.send(b"g0 9\n");
    s.settle();
    assert_eq!(text(&x), "", "it waits for the answers");
    x.send(b"r 0\nr 1\n");
    s.settle();
    assert_eq!(text(&x), "d0:2 o\nhi");
    x.send(b"r o\n");
    s.settle();
    assert_eq!((text(&other), text(&x)), ("r o\n".into(), "g0 9\n".into()));
    x.send(b"r 9\n");
    s.settle();
    let got: Vec<String> = clients.iter().chain([&late]).map(text).collect();
    assert_eq!(got, ["r 0\n", "r 1\n", "r 9\n"]);
    assert_clean(&mut s);
}
